"""Imports point one way: a room may use those below it, never those above (DESIGN: the house)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import zslearn

SOURCE = Path(zslearn.__file__).parent

# From top to bottom; rooms of one floor may not use each other.
FLOORS = [
    {"cli", "serving"},
    {"experiments"},
    {"model_selection"},
    {"synthesis", "baselines"},
    {"calibration"},
    {"base"},
    {"scoring", "datasets", "features"},
    {"signatures", "metrics", "solvers"},
    {"utils"},
    {"_version"},
]
# Below the estimators nothing may know them.
LEVEL = {room: level for level, floor in enumerate(FLOORS) for room in floor}


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    """Rooms of zslearn that a file imports, wherever in the file."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
            if node.module == "zslearn":
                names = [f"zslearn.{alias.name}" for alias in node.names]
        rooms |= {n.split(".")[1] for n in names if n.startswith("zslearn.")}
    return rooms


FILES = [p for p in sorted(SOURCE.rglob("*.py")) if p.parent != SOURCE or p.name != "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    room = _room(path)
    if room == "__main__":
        assert _imports(path) <= {"cli"}
        return
    assert room in LEVEL, f"{room} has no floor: give it one in this test and in the design"
    for other in _imports(path) - {room}:
        assert LEVEL[other] > LEVEL[room], f"{room} must not import {other}"


def test_the_test_sees_imports(tmp_path):
    file = tmp_path / "x.py"
    file.write_text("def f():\n    from zslearn.cli import main\nfrom zslearn import base\n")
    assert _imports(file) == {"cli", "base"}
