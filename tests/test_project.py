"""Consistency of the project's files."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import zslearn
from zslearn._utils._optional import _EXTRAS, _PACKAGES, import_optional
from zslearn.base.checks import parametrize_with_checks
from zslearn.baselines import ESZSL
from zslearn.cli import main
from zslearn.datasets import load_glyphs
from zslearn.images import load_backbone

ROOT = Path(__file__).parents[1]

if not (ROOT / "pyproject.toml").exists():
    pytest.skip("runs in a checkout only", allow_module_level=True)


def _extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"]


def test_the_conda_recipe_follows_pyproject():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    described = tomllib.loads(text)
    project, recipe = described["project"], (ROOT / "recipe" / "meta.yaml").read_text("utf-8")

    def listed(section):
        return re.findall(r"- (.+)", re.search(rf"^ *{section}:\n((?: +- .*\n)+)", recipe, re.M)[1])

    def spaced(requirements):
        return [requirement.replace(">=", " >=") for requirement in requirements]

    python = f"python {project['requires-python']}"
    assert listed("run") == [python, *spaced(project["dependencies"])]
    assert listed("host") == [python, "pip", *spaced(described["build-system"]["requires"])]
    (script,) = project["scripts"].items()
    assert listed("entry_points") == [" = ".join(script)]
    assert f'version: "{zslearn.__version__}"' in recipe
    assert f'summary: "{project["description"]}"' in recipe


def test_errors_name_extras_that_exist():
    for module, extra in _EXTRAS.items():
        package = _PACKAGES.get(module, module)
        assert any(re.match(rf"{package}\b", need) for need in _extras()[extra]), module


@pytest.mark.parametrize(
    ("module", "use", "message"),
    [
        (
            "matplotlib",
            lambda: import_optional("matplotlib", "Drawing"),
            r"Drawing needs matplotlib.*zslearn\[plot\]",
        ),
        ("matplotlib", lambda: load_glyphs(data_home="nowhere"), r"zslearn\[plot\]"),
        # The extra of what it is for, not the least that has the module.
        (
            "torch",
            lambda: load_backbone("efficientnet-lite0"),
            r"Computing features needs torch.*zslearn\[images\]",
        ),
        ("pytest", lambda: parametrize_with_checks([ESZSL()]), "pip install pytest"),
    ],
)
def test_a_missing_module_is_an_error_that_names_the_extra(monkeypatch, tiny, module, use, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        use()


def test_links_of_the_readme_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            if "://" not in link:
                assert (ROOT / link).exists(), link


def test_no_large_file_is_kept():
    """Files that runs leave behind are easily committed by accident."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a repository of git")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    large = [str(file) for file in files if file.exists() and file.stat().st_size > 300_000]
    assert not large


def test_the_api_page_names_every_package():
    """Each has a page that lists what it exports, all of it documented."""
    page = (ROOT / "docs" / "reference" / "api.rst").read_text(encoding="utf-8")
    packages = {"base.checks", "cli", "experiments.analyses", *zslearn._PACKAGES}
    assert set(re.findall(r"^   zslearn\.(\S+)$", page, re.M)) == packages
    for package in packages:
        module = importlib.import_module(f"zslearn.{package}")
        for name in module.__all__:
            assert getattr(module, name).__doc__, f"{package}.{name}"


def test_one_version_everywhere():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {zslearn.__version__}\n" in cited
    assert f"\n## {zslearn.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_installation_page_lists_every_extra_once():
    page = (ROOT / "docs" / "how_to" / "install.rst").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^`(\w+)`  ", page, re.M)) == sorted(_extras())


@pytest.mark.parametrize("content", [b"PK\x03\x04"])
def test_ids_of_tests_hold_no_bytes(request, content):
    """Bytes built at collection may hold the time: workers would collect different tests."""
    assert request.node.name.endswith("[content]")


def test_the_readme_names_the_pythons_that_were_run():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [re.fullmatch(r".*:: (3\.\d+)", line) for line in project["classifiers"]]
    versions = sorted((m[1] for m in found if m), key=lambda v: int(v.split(".")[1]))
    said = f"Python {versions[0]} to {versions[-1]}"
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def _commands_of_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [block.splitlines() for block in re.findall(r"^```sh\n(.*?)```", text, re.M | re.S)]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2), ids=["table", "pictures"])
def test_commands_of_the_readme_run_as_written(block, tmp_path, monkeypatch, capsys):
    if block:
        pytest.importorskip("torch")
        pytest.importorskip("PIL")
    monkeypatch.chdir(tmp_path)
    for line in _commands_of_the_readme()[block]:
        program, *arguments = shlex.split(line)
        assert program == "zslearn"
        assert main(arguments) == 0, line
    assert "described only" in capsys.readouterr().out
