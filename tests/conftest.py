from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from estimators import is_slow
from zslearn.datasets import make_zero_shot

# The same examples in every run. `pytest --hypothesis-profile default` draws new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")

# Kernels that both workers would compile at the same time.
COMPILED = (
    "from zslearn import SynC; from zslearn.baselines import SSE, LatEm\n"
    "from zslearn.datasets import make_zero_shot\n"
    "d = make_zero_shot(n_seen=6, n_unseen=2, random_state=0)\n"
    "for m in (SynC(loss='cs'), SynC(), SSE(max_iter=1), LatEm(max_iter=1)):\n"
    "    m.fit(d.X_train, d.y_train, signatures=d.signatures)",
)


def pytest_configure(config: pytest.Config) -> None:
    """Compile, once, what tests need, before workers start."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        for process in [subprocess.Popen([sys.executable, "-c", code]) for code in COMPILED]:
            process.wait()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow ones among the checks of all estimators."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        pair = parameters.get("estimator"), parameters.get("check")
        if None not in pair and is_slow(*pair):
            item.add_marker(pytest.mark.slow)


def _folder(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    if not Path(value).is_dir():
        pytest.skip(f"{variable} is not a folder")
    return Path(value)


@pytest.fixture(scope="module")
def tiny():
    """A data set on which methods are fitted in milliseconds."""
    return make_zero_shot(
        n_seen=8, n_unseen=3, n_features=6, n_attributes=5, samples_per_class=6, random_state=1
    )


@pytest.fixture(scope="module")
def browser():
    """Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def golden_arrays():
    """Load a golden file by name: the authors' inputs and outputs, as a dict of arrays."""
    folder = _folder("ZSLEARN_GOLDEN")

    def load(name):
        path = folder / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"ZSLEARN_GOLDEN has no {name}.npz")
        with np.load(path) as file:
            return dict(file)

    return load


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder that holds xlsa17/, imagenet/ and so on."""
    return _folder("ZSLEARN_DATA")


@pytest.fixture(scope="session")
def problem():
    """A small zero-shot problem: 12 seen classes, 4 unseen."""
    return make_zero_shot(
        n_seen=12, n_unseen=4, n_features=20, n_attributes=8, samples_per_class=15, random_state=3
    )


@pytest.fixture
def tensors_on_device(monkeypatch):
    """Tensors of the host count as tensors of a device that works apart from it."""
    torch = pytest.importorskip("torch")
    for name, module in list(sys.modules.items()):
        if name.startswith("zslearn.") and hasattr(module, "on_device"):
            monkeypatch.setattr(module, "on_device", lambda x: isinstance(x, torch.Tensor))


@pytest.fixture
def block_bytes(monkeypatch):
    """Set the memory that blocks of rows may take."""
    return lambda budget: monkeypatch.setattr("zslearn._utils._array.BLOCK_BYTES", budget)


@pytest.fixture
def warn_again(monkeypatch):
    """Forget which warnings were given that are given once in a process."""
    forget = lambda: monkeypatch.setattr("zslearn._utils._messages._SHOWN", set())  # noqa: E731
    forget()
    return forget


@pytest.fixture
def no_matplotlib(monkeypatch):
    """The library cannot import matplotlib."""
    load = importlib.import_module

    def refuse(name, *args):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *args)

    monkeypatch.setattr(importlib, "import_module", refuse)


@pytest.fixture
def plt():
    """matplotlib.pyplot without windows; figures are closed after the test."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    yield pyplot
    pyplot.close("all")
