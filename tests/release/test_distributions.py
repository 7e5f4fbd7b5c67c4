"""The source archive and the wheel, installed in an empty environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    """The output of a command, which must succeed."""
    names = {name for name in os.environ if name.startswith(("PYTHON", "ZSLEARN", "COV_"))}
    names.discard("ZSLEARN_CACHE")  # letters are drawn once for all tests
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """The source archive of this tree, and the wheel that is built from that archive."""
    hatchling = pytest.importorskip("hatchling", reason="hatchling builds them (extra dev)")
    assert hatchling
    folder = tmp_path_factory.mktemp("dist")
    build = (sys.executable, "-m", "hatchling", "build", "-d", folder)
    run(*build, "-t", "sdist", cwd=ROOT)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder / "source", filter="data")
    (unpacked,) = (folder / "source").iterdir()
    run(*build, "-t", "wheel", cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return source, wheel


def test_every_file_of_the_package_is_in_the_wheel(distributions):
    _, wheel = distributions
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("zslearn/")}
    package = ROOT / "src" / "zslearn"
    there = {
        f"zslearn/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == there
    # Else type checkers take nothing from it.
    assert "zslearn/py.typed" in packed


def test_the_source_archive_holds_what_tests_and_documentation_need(distributions):
    source, _ = distributions
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("Makefile", "constraints.txt", "SECURITY.md", "tests/conftest.py", "docs/conf.py"):
        assert name in names
    assert not any(".venv" in name or name.endswith(".mat") for name in names)


def test_the_wheel_works_where_nothing_else_is_installed(distributions, tmp_path):
    _, wheel = distributions
    run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    python = tmp_path / "empty" / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    constraints = ROOT / "constraints.txt"
    run(*pip, "--constraint", constraints, f"{wheel}[plot]", cwd=tmp_path)
    command = tmp_path / "empty" / "bin" / "zslearn"
    assert run(command, "--version", cwd=tmp_path).startswith("zslearn ")
    assert list((tmp_path / "empty").glob("lib/*/site-packages/zslearn/__init__.py"))
    shown = run(command, "demo", "--out", tmp_path / "demo", cwd=tmp_path)
    assert "EXEM" in shown
    results = pd.read_csv(tmp_path / "demo" / "results.csv", index_col="method")
    assert (results["per_class_accuracy"] > 0.5).all()
