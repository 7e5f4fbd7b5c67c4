"""How many cases the tests of this folder try, and which seeds they use.

A test asks for the fixture `cases` and loops over seeds:

    def test_something(cases, tmp_path):
        for seed in cases(300):
            rng = np.random.default_rng(seed)
            ...

- By default it gets half of the seeds, 0 to 149, the same at every run.
- ``ZSLEARN_FUZZ_MINUTES=60 pytest tests/fuzz`` shares 60 minutes equally among the tests that ask
  for `cases`: first the seeds 0 to 299, then new ones that start at a random number, for as long as
  its share lasts.
- ``ZSLEARN_FUZZ_SEED=17 pytest tests/fuzz/test_x.py::test_something`` tries that seed alone.

When a test fails, its report names the seed.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator

import pytest

_last_seed = pytest.StashKey[int]()
_seconds = pytest.StashKey[float]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share the time among the tests that ask for cases."""
    if minutes := os.environ.get("ZSLEARN_FUZZ_MINUTES"):
        n_tests = sum("cases" in getattr(item, "fixturenames", ()) for item in items)
        config.stash[_seconds] = 60 * float(minutes) / max(n_tests, 1)


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Callable[[int], Iterator[int]]:
    """Seeds to try: `cases(300)` yields 150 of them, or goes on for as long as was asked."""

    def seeds(default: int) -> Iterator[int]:
        tried = 0
        for seed in _numbers(default, request.config.stash.get(_seconds, None)):
            request.node.stash[_last_seed] = seed
            yield seed
            tried += 1
        request.node.user_properties.append(("cases", tried))
        if _last_seed in request.node.stash:
            del request.node.stash[_last_seed]

    return seeds


def _numbers(default: int, seconds: float | None) -> Iterator[int]:
    if seed := os.environ.get("ZSLEARN_FUZZ_SEED"):
        yield int(seed)
        return
    if seconds is None:
        # Half of what a test names: `make fuzz` tries the others, and new ones.
        yield from range((default + 1) // 2)
        return
    end = time.monotonic() + seconds
    new = 2**32 + secrets.randbits(48)
    number = 0
    while time.monotonic() < end:
        yield number if number < default else new + number
        number += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many cases there were, where tests were asked to go on for some time."""
    if "ZSLEARN_FUZZ_MINUTES" in os.environ:
        passed = terminalreporter.stats.get("passed", [])
        tried = [n for report in passed for name, n in report.user_properties if name == "cases"]
        terminalreporter.write_line(f"{sum(tried):,} cases from seeds, in {len(tried)} tests")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, object]:
    """Name the seed of the case that failed."""
    report = yield
    seed = item.stash.get(_last_seed, None)
    if report.when == "call" and report.failed and seed is not None:
        report.sections.append(("fuzz", f"failed with ZSLEARN_FUZZ_SEED={seed}"))
    return report
