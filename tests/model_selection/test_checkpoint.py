"""Checkpoints: finished parts are read, damaged or edited ones are computed again."""

from __future__ import annotations

import json
import math
import os
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from estimators import instances
from zslearn.base import InputWarning
from zslearn.baselines import DAP, ESZSL, IAP, ConSE
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import WeightedViews, ZeroShotSearchCV
from zslearn.model_selection._fold_tasks import FoldTask
from zslearn.synthesis import EXEM, SynC

GRID = {"alpha_features": [0.1, 1.0, 10.0]}


@pytest.fixture(scope="module")
def problem():
    return make_zero_shot(
        n_seen=6, n_unseen=2, n_features=5, n_attributes=4, samples_per_class=6, random_state=2
    )


def _fit(search, problem):
    fitted = clone(search).fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    return fitted.cv_results_["mean_test_accuracy"]


def _edit(change):
    """A damage that edits the scores of the first setting."""

    def damage(text):
        content = json.loads(text)
        content["done"]["0"] = change(content["done"]["0"])
        return json.dumps(content).encode()

    return damage


DAMAGES = {
    "nothing": lambda text: b"",
    "truncated": lambda text: text[:-10].encode(),
    "one more bracket": lambda text: b"{" + text.encode(),
    "nested without end": lambda text: b"[" * 200_000,
    "nested objects": lambda text: b'{"a":' * 200_000,
    "other bytes": lambda text: bytes(range(256)) * 20,
    "another JSON": lambda text: b"[1, 2]",
    "no checksum": lambda text: json.dumps(
        {k: v for k, v in json.loads(text).items() if k != "checksum"}
    ).encode(),
    "accuracy of 9": _edit(lambda scores: scores | {"accuracy": 9.0}),
    "accuracy a little better": _edit(lambda scores: scores | {"accuracy": 1.0}),
    "no scores": _edit(lambda scores: {}),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_computed_again(problem, tmp_path, name):
    search = ZeroShotSearchCV(ESZSL(), GRID, cv=3, checkpoint=tmp_path)
    expected = _fit(search, problem)
    path = sorted(tmp_path.iterdir())[0]
    path.write_bytes(DAMAGES[name](path.read_text()))
    with pytest.warns(InputWarning, match="checkpoint .* is ignored.*recomputed") as caught:
        again = _fit(search, problem)
    assert len([w for w in caught if "checkpoint" in str(w.message)]) == 1
    np.testing.assert_array_equal(again, expected)
    # Its replacement is complete.
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Passed over", InputWarning)
        np.testing.assert_array_equal(_fit(search, problem), expected)


def test_what_is_kept_comes_back(problem, tmp_path):
    """NaN too, and any number of a score of the user's own."""
    scores = iter([math.nan, -7.0, math.inf])
    search = ZeroShotSearchCV(
        ESZSL(), GRID, cv=3, checkpoint=tmp_path, scoring=lambda *given: next(scores, -1.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, again = (
            clone(search).fit(problem.X_train, problem.y_train, signatures=problem.signatures)
            for _ in range(2)
        )
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(first.cv_results_[name], again.cv_results_[name])
    assert np.isinf(first.cv_results_["split0_test_score"]).any()


def _digits(model, X, y, classes):
    """A number that changes with any score."""
    return float(np.abs(model.decision_function(X, classes=classes)).sum())


def _search(folder):
    grid = {"alpha_features": [1.0, 10.0]}
    return ZeroShotSearchCV(ESZSL(), grid, scoring=_digits, cv=2, checkpoint=folder)


@pytest.mark.parametrize("kind", ["folder", "pipe", "file as folder"])
def test_what_lies_in_the_place_of_a_checkpoint_ends_no_search(problem, tmp_path, kind):
    samples = {"X": problem.X_train, "y": problem.y_train, "signatures": problem.signatures}
    expected = _search(None).fit(**samples)
    folder = tmp_path / "parts"
    if kind == "file as folder":
        folder.write_text("x")
    else:
        _search(folder).fit(**samples)
        for file in list(folder.rglob("*.json")):
            file.unlink()
            if kind == "folder":
                file.mkdir()
            else:
                os.mkfifo(file)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search = _search(folder).fit(**samples)
    assert search.best_score_ == pytest.approx(expected.best_score_, rel=1e-9)
    assert any("checkpoint" in str(warning.message).lower() for warning in caught)


ALPHAS = {"alpha": [1e-2, 1e-3, 1e-4, 1e-5]}
EXEM_GRID = {"nu": [1.0, 0.25, 0.06], "C": [4.0, 1.0, 0.25, 0.06]}
SYNC_GRID = {"gamma": [0.5, 2.0], "alpha": [1e-3, 1e-2, 1e-1]}
ON_PATHS = {
    "ESZSL": (ESZSL(), GRID | {"center": [None, "both"]}),
    "DAP": (DAP(), ALPHAS),
    "IAP": (IAP(), ALPHAS | {"calibration": ["targets", None]}),
    "ConSE": (ConSE(), ALPHAS | {"n_top": [1, 3]}),
    "EXEM": (EXEM(tol=1e-3), EXEM_GRID),
    "SynC ovo": (SynC(tol=1e-3), SYNC_GRID),
    "SynC cs": (SynC(loss="cs", tol=1e-3), SYNC_GRID),
    "SynC struct": (SynC(loss="struct", tol=1e-3), SYNC_GRID),
    "a default beside a value": (
        ConSE(alpha=1e-3),
        [{"n_top": [1, 3]}, {"alpha": [1e-2, 1e-4], "tol": [1e-4]}],
    ),
    "pipeline": (
        make_pipeline(StandardScaler(), ConSE()),
        {f"conse__{name}": values for name, values in ALPHAS.items()},
    ),
    "views": (WeightedViews(ConSE()), {"estimator__alpha": ALPHAS["alpha"]}),
    "EXEM(ConSE)": (
        EXEM(estimator=ConSE(), n_components=4),
        {"gamma": [0.5, 1.0], "estimator__alpha": ALPHAS["alpha"]},
    ),
}


@pytest.mark.parametrize("name", ON_PATHS)
def test_an_interrupted_search_goes_on_with_the_same_digits(tmp_path, monkeypatch, name):
    """Solutions start from those beside them on a path, whatever was finished before."""
    data = make_zero_shot(random_state=0)
    measure, calls = FoldTask._measure, []
    estimator, grid = ON_PATHS[name]
    n_finished = 2 * len(ParameterGrid(grid)) // 3

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) == n_finished + 1:
            raise KeyboardInterrupt
        return measure(self, *args)

    def scores(checkpoint):
        search = ZeroShotSearchCV(estimator, grid, scoring=_digits, cv=2, checkpoint=checkpoint)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(data.X_train, data.y_train, signatures=data.signatures)
        return search.cv_results_["mean_test_score"]

    monkeypatch.setattr(FoldTask, "_measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        scores(tmp_path)
    resumed = scores(tmp_path)
    assert len(calls) == 2 * len(resumed) + 1
    # Solutions from other starts would differ by what tolerances of 1e-3 leave.
    np.testing.assert_allclose(resumed, scores(None), rtol=1e-9)


def test_every_method_on_paths_is_tested():
    methods = {type(case.values[0]) for case in instances()}
    declared = {method for method in methods if getattr(method, "path_parameters", ())}
    assert declared <= {type(estimator) for estimator, _ in ON_PATHS.values()}
