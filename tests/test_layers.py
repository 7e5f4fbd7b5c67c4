"""Imports point one way, and through the front door (DESIGN: the house).

A room may use those below it, never those above; and of another room only what that room shows:
no module and no name that begins with an underscore.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import zslearn

SOURCE = Path(zslearn.__file__).parent

# From top to bottom; rooms of one floor may not use each other.
FLOORS = [
    {"cli"},
    {"serving"},
    {"utils.estimator_checks"},
    {"recognition"},
    {"experiments"},
    {"persistence", "inspection", "export"},
    {"model_selection"},
    {"synthesis", "baselines", "networks"},
    {"calibration"},
    {"pipeline"},
    {"base"},
    {"scoring", "datasets"},
    {"features"},
    {"signatures", "metrics", "solvers"},
    {"utils"},
    {"_version"},
]
LEVEL = {room: level for level, floor in enumerate(FLOORS) for room in floor}
# Rooms inside another one's folder.
INNER_ROOMS = {room for room in LEVEL if "." in room}
# For authors' tests: nothing in the library needs it.
FOR_TESTS_ONLY = {"utils.estimator_checks"}


def _room_of(parts: tuple[str, ...]) -> str:
    """The room of a dotted name below zslearn, or of a file's path."""
    inner = ".".join(parts[:2])
    return inner if inner in INNER_ROOMS else parts[0]


def _room(path: Path) -> str:
    return _room_of(path.relative_to(SOURCE).with_suffix("").parts)


def _imported_names(path: Path) -> Iterator[tuple[str, ...]]:
    """What a file imports of zslearn, wherever in the file: dotted names without "zslearn"."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (tuple(n.split(".")[1:]) for n in names if n.startswith("zslearn."))


def _imported_rooms(path: Path) -> set[str]:
    return {_room_of(name) for name in _imported_names(path)}


def _private_imports(path: Path, room: str) -> set[str]:
    """Names with an underscore in front that a file takes from another room."""
    private = set()
    for name in _imported_names(path):
        other = _room_of(name)
        if other in (room, "_version"):
            continue
        if any(part.startswith("_") and not part.startswith("__") for part in name):
            private.add(".".join(name))
    return private


EVERY_FILE = sorted(SOURCE.rglob("*.py"))
FILES = [path for path in EVERY_FILE if path != SOURCE / "__init__.py"]


def _short(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=_short)
def test_imports_point_down(path):
    room = _room(path)
    if room == "__main__":
        assert _imported_rooms(path) <= {"cli"}
        return
    assert room in LEVEL, f"{room} has no floor: give it one in this test and in the design"
    for other in _imported_rooms(path) - {room}:
        assert LEVEL[other] > LEVEL[room], f"{room} must not import {other}"


def test_rooms_are_entered_by_the_front_door():
    private = {_short(path): _private_imports(path, _room(path)) for path in EVERY_FILE}
    private = {path: names for path, names in private.items() if names}
    assert not private, (
        f"private names of another room are imported: {private}; export what is needed there "
        "under a name without underscore"
    )


def test_checks_for_authors_are_imported_by_nothing():
    for path in EVERY_FILE:
        others = _imported_rooms(path) - {_room(path)}
        assert not others & FOR_TESTS_ONLY, _short(path)


def test_the_test_sees_imports(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "def f():\n"
        "    from zslearn.cli import main\n"
        "from zslearn import base\n"
        "from zslearn._utils import row_blocks, estimator_checks\n"
        "import zslearn.solvers\n"
    )
    rooms = {"cli", "base", "utils", "utils.estimator_checks", "solvers"}
    assert _imported_rooms(file) == rooms


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from zslearn.signatures._table import SignatureTable", True),
        ("from zslearn.base import ZeroShotClassifier, _x", True),
        ("import zslearn._solvers._x", True),
        ("from zslearn.solvers import _x as x", True),
        ("from zslearn.base.checks._problem import fitted", True),
        ("from zslearn import _x", True),
        ("def f():\n    from zslearn._scoring._blocks import top_k", True),
        ("from zslearn._version import __version__", False),
        ("from zslearn.baselines._eszsl import ESZSL", False),
        ("from zslearn.baselines import _eszsl", False),
        ("from zslearn.signatures import SignatureTable", False),
        ("from sklearn.utils._param_validation import Interval", False),
    ],
)
def test_the_test_sees_private_imports(tmp_path, line, found):
    file = tmp_path / "x.py"
    file.write_text(f"{line}\n")
    assert bool(_private_imports(file, "baselines")) is found


def test_rooms_that_lie_in_packages():
    assert _room(SOURCE / "base" / "_classifier.py") == "base"
    assert _room(SOURCE / "calibration.py") == "calibration"
    assert _room(SOURCE / "utils" / "_blocks.py") == "utils"
    assert _room(SOURCE / "utils" / "estimator_checks" / "_grids.py") == "utils.estimator_checks"
    assert _room(SOURCE / "utils" / "estimator_checks.py") == "utils.estimator_checks"
