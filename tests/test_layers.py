"""Imports point one way: a package may import those below it, never those above or beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import zslearn

SOURCE = Path(zslearn.__file__).parent
# From top to bottom; packages of one layer may not import each other.
LAYERS = [
    {"base.checks"},
    {"cli"},
    {"serving"},
    {"images"},
    {"experiments"},
    {"persistence", "inspection"},
    {"model_selection"},
    {"synthesis", "baselines", "networks"},
    {"calibration"},
    {"base"},
    {"_scoring", "datasets"},
    {"signatures", "metrics"},
    {"solvers"},
    {"_solvers"},
    {"_utils"},
    {"_version"},
]
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
        assert package in LEVEL, f"{package} has no layer: give it one here and in CONTRIBUTING.md"
        wrong += [
            f"{'/'.join(parts)} imports {other}"
            for other in set(_imported(path)) - {package}
            if LEVEL[other] <= LEVEL[package]
        ]
    assert not wrong, wrong


def test_the_test_sees_imports(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "def f():\n"
        "    from zslearn.cli import main\n"
        "from zslearn import base\n"
        "from zslearn._utils import _blocks\n"
        "from zslearn.base.checks._grids import x\n"
        "import zslearn.solvers\n"
    )
    assert set(_imported(file)) == {"cli", "base", "_utils", "base.checks", "solvers"}
