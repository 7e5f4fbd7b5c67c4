from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from zslearn import EXEM, SynC
from zslearn.datasets import make_zero_shot
from zslearn.model_selection import ZeroShotSearchCV

GRID = {"alpha": [1e-2, 1e-4], "gamma": [0.5, 1.0]}
INNER_GRID = {f"estimator__{name}": values for name, values in GRID.items()}


def _search(method, grid, folder=None):
    data = make_zero_shot(n_seen=8, n_features=12, samples_per_class=6, random_state=0)
    search = ZeroShotSearchCV(method, grid, cv=2, memory=folder)
    return search.fit(data.X_train, data.y_train, signatures=data.signatures)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "is_shared"), [("ovo", True), ("cs", True), ("struct", False)])
def test_a_training_without_signatures_serves_exemplars_too(tmp_path, loss, is_shared):
    method = SynC(loss=loss, random_state=0)
    alone = _search(EXEM(estimator=method), INNER_GRID)
    first = _search(method, GRID, tmp_path)
    assert first.n_read_fits_ == 0
    second = _search(EXEM(estimator=method), INNER_GRID, tmp_path)
    # One path per fold; the last fit may be another one.
    assert (second.n_read_fits_ >= 2) == is_shared
    for name in ("mean_test_accuracy", "split0_test_accuracy"):
        np.testing.assert_array_equal(second.cv_results_[name], alone.cv_results_[name])
    assert second.best_params_ == alone.best_params_
    # Another order of samples or another path of penalties is not cached.
    assert _search(SynC(loss=loss, random_state=1), GRID, tmp_path).n_read_fits_ == 0
    assert _search(method, {"alpha": [1e-2, 1e-3]}, tmp_path).n_read_fits_ <= 1


def test_a_gap_that_was_not_reached_is_said_of_what_is_read(tmp_path):
    method = SynC(loss="cs", max_iter=1, tol=1e-9, random_state=0)
    for _ in range(2):
        with pytest.warns(ConvergenceWarning, match="Raise max_iter=1"):
            search = _search(method, {"alpha": [1e-5]}, tmp_path)
    assert search.n_read_fits_ == 1
