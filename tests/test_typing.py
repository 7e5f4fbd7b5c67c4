"""What a user's type checker sees: classes, arrays and numbers, not `Any`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

SNIPPET = """
from zslearn import EXEM, SynC
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import load_glyphs
from zslearn.model_selection import ZeroShotSearchCV

data = load_glyphs()
X, y, S = data.X_train, data.y_train, data.signatures
reveal_type(data.X_train)
reveal_type(EXEM().fit(X, y, signatures=S))
reveal_type(ESZSL().fit(X, y, signatures=S))
reveal_type(ESZSL().fit(X, y, signatures=S).add_classes(S))
reveal_type(ESZSL().predict(X))
reveal_type(ESZSL().predict_top_k(X, 3)[0])
reveal_type(ESZSL().score(X, y))
reveal_type(ESZSL().fit(X, y).seen_classes_)
reveal_type(ZeroShotSearchCV(ESZSL(), "fast").fit(X, y, signatures=S))
reveal_type(ZeroShotSearchCV(ESZSL(), "fast").score(X, y))
reveal_type(CalibratedStacking(ESZSL()).fit(X, y, signatures=S))
reveal_type(next(ESZSL().fit_grid(X, y, signatures=S, settings=[{}]))[1])
"""

EXPECTED = {
    "data.X_train": r"numpy\.ndarray\[.*",
    "EXEM().fit(X, y, signatures=S)": r"zslearn\.synthesis\.\w+\.EXEM",
    "ESZSL().fit(X, y, signatures=S)": r"zslearn\.baselines\._eszsl\.ESZSL",
    "ESZSL().fit(X, y, signatures=S).add_classes(S)": r"zslearn\.baselines\._eszsl\.ESZSL",
    "ESZSL().predict(X)": r"numpy\.ndarray\[.*",
    "ESZSL().predict_top_k(X, 3)[0]": r"numpy\.ndarray\[.*",
    "ESZSL().score(X, y)": r"float",
    "ESZSL().fit(X, y).seen_classes_": r"numpy\.ndarray\[.*",
    'ZeroShotSearchCV(ESZSL(), "fast").fit(X, y, signatures=S)': (
        r"zslearn\.model_selection\._search\.ZeroShotSearchCV"
    ),
    'ZeroShotSearchCV(ESZSL(), "fast").score(X, y)': r"float",
    "CalibratedStacking(ESZSL()).fit(X, y, signatures=S)": (
        r"zslearn\.calibration\._stacking\.CalibratedStacking"
    ),
    "next(ESZSL().fit_grid(X, y, signatures=S, settings=[{}]))[1]": (
        r"zslearn\.baselines\._eszsl\.ESZSL"
    ),
}


@pytest.fixture(scope="module")
def revealed(tmp_path_factory):
    """What mypy says of each expression, from outside of the repository, by its own defaults."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "user.py").write_text(SNIPPET, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir=cache", "user.py"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    lines = SNIPPET.splitlines()
    types = {}
    for number, said in re.findall(r'user\.py:(\d+): note: Revealed type is "(.*)"', run.stdout):
        types[lines[int(number) - 1].removeprefix("reveal_type(")[:-1]] = said
    assert types, run.stdout + run.stderr
    return types, run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("expression", EXPECTED)
def test_a_type_checker_sees(revealed, expression):
    types, output = revealed
    assert re.fullmatch(EXPECTED[expression], types[expression].removesuffix("?")), (
        types[expression],
        output,
    )


@pytest.mark.slow
def test_a_type_checker_finds_no_fault(revealed):
    assert "error:" not in re.sub(r".*(missing library stubs|import-untyped).*", "", revealed[1])
