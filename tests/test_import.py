"""Imports load few modules, and need no writable folder."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import zslearn

HEAVY = ("numba", "pandas", "scipy", "sklearn", "joblib", "rich")


def _python(code, *, before=(), **environment):
    """Run code in a new process; what it printed."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    run = subprocess.run(
        [*before, sys.executable, "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def _loaded(code):
    """Heavy packages that some code loads."""
    return set(_python(f"{code}\nimport sys\nprint(*(m for m in {HEAVY} if m in sys.modules))"))


@pytest.mark.parametrize(
    "code", ["import zslearn", "import sys; sys.argv = ['zslearn', '--version']; zslearn_main()"]
)
def test_nothing_heavy_is_loaded(code):
    code = code.replace("zslearn_main()", "from zslearn.cli import main; main()")
    assert not _loaded(code) & set(HEAVY)


def test_numba_is_loaded_by_what_compiles_alone():
    packages = ", ".join(f"zslearn.{name}" for name in zslearn._PACKAGES)
    assert "numba" not in _loaded(f"import {packages}, zslearn.cli\nfrom zslearn import EXEM, SynC")


def test_the_usual_exemplars_need_nothing_compiled():
    code = (
        "from zslearn import EXEM; from zslearn.datasets import make_zero_shot\n"
        "data = make_zero_shot(random_state=0)\n"
        "EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)"
    )
    assert "numba" not in _loaded(code)


def test_every_package_is_an_attribute():
    folder = Path(zslearn.__file__).parent
    found = {module.name for module in pkgutil.iter_modules([str(folder)])}
    public = {name for name in found if not name.startswith("_")} - {"cli"}
    assert set(zslearn._PACKAGES) == public
    lines = "\n".join(f"assert zslearn.{name}.__name__ == 'zslearn.{name}'" for name in public)
    _python(f"import zslearn\n{lines}\nassert zslearn.EXEM is zslearn.synthesis.EXEM")


def test_names_and_unknown_names():
    assert {"EXEM", "SynC", "datasets", "__version__"} <= set(dir(zslearn))
    names = {"EXEM", "GaussianEXEM", "SynC", "export_onnx", "load", "save"}
    assert set(zslearn.__all__) == {*names, "BatchPredictor", "__version__"}
    with pytest.raises(AttributeError, match="module 'zslearn' has no attribute 'EXAM'"):
        zslearn.EXAM  # noqa: B018


@pytest.fixture
def unwritable(tmp_path):
    """A copy of the package and a home that cannot be written, and how to run a process there."""
    home, site = tmp_path / "home", tmp_path / "site"
    home.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(zslearn.__file__).parent, site / "zslearn", ignore=ignored)
    folders = [folder for folder in (home, site, *site.rglob("*")) if folder.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    before = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and there is no setpriv to take that away")
        before = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
    environment = {"HOME": str(home), "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        environment[variable] = str(home / "cache")
    try:
        may_write = subprocess.run([*before, "touch", str(home / "file")], capture_output=True)
        if may_write.returncode == 0:
            pytest.skip("folders without the right to write can be written here")
        yield before, environment
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="folders have other rights there")
@pytest.mark.parametrize("cache_dir", [None, "/proc/nowhere"])
def test_where_no_folder_can_be_written(unwritable, cache_dir):
    before, environment = unwritable
    if cache_dir is not None:
        environment["NUMBA_CACHE_DIR"] = cache_dir
    code = (
        "import numpy as np, zslearn\n"
        "from zslearn.cli import main\n"
        "assert main(['--version']) == 0\n"
        "from zslearn import EXEM, SynC\n"
        "import zslearn.baselines, zslearn.experiments\n"
        "import zslearn.baselines._sse, zslearn._solvers.nu_svr._smo\n"
        "from zslearn._solvers.svm._crammer_singer import project_dual\n"
        "dual = np.array([0.5, 0.5])\n"
        "project_dual(np.array([1.0, 0.0]), dual, 1e-3, np.empty(2))\n"
        "print(zslearn.__file__, project_dual.dispatcher.stats.cache_path, *dual)"
    )
    *_, file, cache_path, first, second = _python(code, before=before, **environment)
    assert file.startswith(environment["PYTHONPATH"])
    assert cache_path == "None"
    assert (first, second) == ("1.0", "0.0")
