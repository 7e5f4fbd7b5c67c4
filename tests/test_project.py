"""What the files of the project promise of each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from zslearn.utils import import_optional
from zslearn.utils._optional import _EXTRAS

ROOT = Path(__file__).parents[1]

if not (ROOT / "pyproject.toml").exists():
    pytest.skip("runs in a checkout only", allow_module_level=True)


def _extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"]


def test_errors_name_extras_that_exist():
    for module, extra in _EXTRAS.items():
        assert any(re.match(rf"{module}\b", need) for need in _extras()[extra]), module


def test_a_missing_module_is_an_error_that_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"Drawing needs matplotlib.*zslearn\[plot\]"):
        import_optional("matplotlib", "Drawing")


def test_ci_installs_every_extra():
    command = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    named = set(re.search(r"EXTRAS=(\S+)", command)[1].split(","))
    assert named == set(_extras()) - {"dev"}


def test_links_of_the_readme_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            if "://" not in link:
                assert (ROOT / link).exists(), link


def test_torch_is_pinned_to_what_is_tested():
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.search(r"^torch==\d", constraints, re.M)
