"""Imports point one way: a package may import those below it, never those above or beside it."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import zslearn

SOURCE = Path(zslearn.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
# From top to bottom, as CONTRIBUTING.md has them; packages of one layer may not import each other.
(ARROWS,) = re.findall(r"`(cli →[^`]*)`", CONTRIBUTING.read_text(encoding="utf-8"))
LISTED = [set(re.findall(r"\w+", layer)) for layer in ARROWS.split("→")]
LAYERS = [{"base.checks"}, *LISTED, {"_version"}]
LEVEL = {package: level for level, layer in enumerate(LAYERS) for package in layer}


def _package(parts: tuple[str, ...]) -> str:
    """The package of a dotted name below zslearn, or of a file's path."""
    return "base.checks" if parts[:2] == ("base", "checks") else parts[0]


def _imported(path: Path) -> Iterator[str]:
    """Packages of zslearn that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (_package(tuple(n.split(".")[1:])) for n in names if n.startswith("zslearn."))


def test_imports_point_down():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        package = _package(parts)
        if package in ("__init__", "__main__"):
            continue
        assert package in LEVEL, f"{package} has no layer: give it one in CONTRIBUTING.md"
        wrong += [
            f"{'/'.join(parts)} imports {other}"
            for other in set(_imported(path)) - {package}
            if LEVEL[other] <= LEVEL[package]
        ]
    assert not wrong, wrong
    assert set().union(*LISTED) <= {path.stem for path in SOURCE.iterdir()}


#: The lab and the applications, which do not import each other, and the door to both.
LAB, APPS = {"experiments"}, {"images", "serving"}
UPPER = LAB | APPS | {"cli"}


def _private(path: Path, package: str) -> Iterator[str]:
    """Private imports of a file from other packages; all may import from `_utils`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zslearn."):
            _, other, *inner = str(node.module).split(".")
            if other in (package, "_utils", "_version"):
                continue
            exported = getattr(importlib.import_module(str(node.module)), "__all__", ())
            names = [alias.name for alias in node.names]
            floor = next((own for own in (LAB, APPS) if package in own), UPPER)
            if any(part.startswith("_") for part in inner) or other in UPPER - floor:
                yield str(node.module)
            yield from (
                f"{node.module}.{name}"
                for name in names
                if name not in exported and not (SOURCE / other / name / "__init__.py").exists()
            )


def test_upper_floors_use_public_names():
    """The lab, the applications and the command line need no more than any user has."""
    found = {
        f"{path.relative_to(SOURCE)} imports {name}"
        for package in UPPER
        for path in sorted((SOURCE / package).rglob("*.py"))
        for name in _private(path, package)
    }
    assert not found, sorted(found)


def test_the_test_sees_imports(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "def f():\n"
        "    from zslearn.cli import main\n"
        "from zslearn import base\n"
        "from zslearn._utils import _array\n"
        "from zslearn.base.checks._grids import x\n"
        "import zslearn.solvers\n"
    )
    assert set(_imported(file)) == {"cli", "base", "_utils", "base.checks", "solvers"}
