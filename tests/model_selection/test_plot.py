import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV

from zslearn.baselines import ESZSL
from zslearn.model_selection import SearchLandscapeDisplay, ZeroShotSearchCV

plot = SearchLandscapeDisplay.from_search


def _search(grid, scores, *, edges=None, best=None, std=None, **more):
    """The part of a search that the display reads."""
    names = list(grid)
    settings = [dict(zip(names, v, strict=True)) for v in itertools.product(*grid.values())]
    scores = np.asarray(scores, dtype=float)
    results = {
        "params": settings,
        "mean_test_accuracy": scores,
        "std_test_accuracy": scores / 10 if std is None else np.asarray(std),
    }
    search = SimpleNamespace(
        cv_results_=results | more,
        best_index_=int(np.nanargmax(scores)) if best is None else best,
        estimator=None,
    )
    if edges is not None:
        search.edges_ = edges
    return search


def _legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def _ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


TWO = {"alpha": [0.1, 1, 10], "beta": [1, 2]}
SCORES = [0.1, 0.2, 0.5, 0.6, 0.4, 0.3]


def test_line(plt):
    display = plot(_search(TWO, SCORES), x="alpha")
    # At each alpha the better of the two.
    np.testing.assert_array_equal(display.line_.get_xdata(), [0, 1, 2])
    np.testing.assert_array_equal(display.line_.get_ydata(), [0.2, 0.6, 0.4])
    np.testing.assert_allclose(display.std, [0.02, 0.06, 0.04])
    low, high = display.band_.get_paths()[0].get_extents().intervaly
    assert (low, high) == pytest.approx((0.18, 0.66))
    assert display.chosen_.get_xydata().tolist() == [[1, 0.6]]
    assert _ticks(display.ax_.xaxis) == ["0.1", "1", "10"]
    assert display.ax_.get_xlabel() == "alpha"
    assert display.ax_.get_ylabel() == "Validation accuracy"
    assert display.mesh_ is None
    assert _legend(display) == [
        "mean over the folds ± 1 standard deviation",
        "chosen: alpha = 1 (0.600)",
    ]
    assert display.ax_.get_legend().get_title().get_text() == "best over beta"


@pytest.mark.parametrize("names", [("alpha", "beta"), (None, None)])
def test_heat_map(plt, names):
    display = plot(_search(TWO, SCORES), *names)
    expected = [[0.1, 0.5, 0.4], [0.2, 0.6, 0.3]]
    np.testing.assert_array_equal(display.mean, expected)
    np.testing.assert_array_equal(display.mesh_.get_array(), expected)
    assert [text.get_text() for text in display.text_] == [
        "0.100", "0.500", "0.400", "0.200", "0.600", "0.300"
    ]  # fmt: skip
    assert display.line_ is display.band_ is None
    (left, low), (right, high) = (f(display.chosen_.get_xydata(), axis=0) for f in (np.min, np.max))
    assert (left, right, low, high) == (0.5, 1.5, 0.5, 1.5)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("alpha", "beta")
    assert _legend(display) == ["chosen: alpha = 1, beta = 2 (0.600)"]
    assert display.chosen == (1, 1)


def test_edges(plt):
    grid = {"alpha": [0.1, 1, 10], "beta": [1, 2, 3]}
    display = plot(_search(grid, np.arange(9.0)[::-1]), "alpha", "beta")
    assert display.edges == {"alpha": "smallest", "beta": "smallest"}
    assert _legend(display) == [
        "chosen: alpha = 0.1, beta = 1 (8.000)\non the edge of the grid: try smaller alpha"
        "\non the edge of the grid: try smaller beta"
    ]
    # Edges of hyper-parameters that are not drawn are not reported.
    assert plot(_search(grid, np.arange(9.0)), "beta").edges == {"beta": "largest"}
    # The edges that a search found count: there may be no values beyond.
    assert "edge" not in _legend(plot(_search(grid, np.arange(9.0), edges={})))[-1]


def test_nan(plt):
    scores = [np.nan, 0.2, np.nan, np.nan, 0.1, np.nan]
    display = plot(_search(TWO, scores), "alpha")
    np.testing.assert_array_equal(display.mean, [0.2, np.nan, 0.1])
    display = plot(_search(TWO, scores))
    assert display.mesh_.get_array().mask.tolist() == [[True, True, False], [False, True, True]]
    assert [text.get_text() for text in display.text_].count("no score") == 4


def test_values_that_are_no_numbers(plt):
    values = ["$x_", None, [1, 2], Ridge(alpha=3), "a name that is much longer than a label may be"]
    display = plot(_search({"<script>": values}, [1, 2, 3, 5, 4]))
    display.figure_.canvas.draw()
    assert display.x_values == values
    labels = _ticks(display.ax_.xaxis)
    assert labels == ["$x_", "None", "[1, 2]", "Ridge(alpha=3)", "a name that is much lon…"]
    assert display.line_.get_linestyle() == "None"  # they have no order
    assert display.edges == {}
    assert _legend(display)[1] == "chosen: <script> = Ridge(alpha=3) (5.000)"


@pytest.mark.filterwarnings("ignore::zslearn.model_selection.GridEdgeWarning")
def test_a_real_search(plt, problem):
    grid = {"alpha_features": [0.1, 1.0, 10.0, 100.0], "alpha_signatures": [0.1, 1.0, 10.0]}
    search = ZeroShotSearchCV(ESZSL(), grid, cv=3)
    search.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    display = plot(search)
    mean = search.cv_results_["mean_test_accuracy"]
    np.testing.assert_array_equal(display.mean, mean.reshape(4, 3).T)
    assert display.mean[display.chosen] == search.best_score_ == mean.max()
    assert display.x_values[display.chosen[1]] == search.best_params_["alpha_features"]
    assert display.y_values[display.chosen[0]] == search.best_params_["alpha_signatures"]
    line = plot(search, "alpha_signatures", color="black", ax=plt.subplots()[1])
    assert line.line_.get_color() == "black"
    assert line.line_.get_ydata().max() == search.best_score_
    fold = [search.cv_results_[f"split{i}_test_accuracy"] for i in range(3)]
    assert line.std.max() <= np.std(fold, axis=0).max()


def test_a_search_of_scikit_learn(plt):
    rng = np.random.default_rng(0)
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1, 10]}, cv=3)
    display = plot(search.fit(rng.normal(size=(30, 3)), rng.normal(size=30)))
    np.testing.assert_array_equal(display.mean, search.cv_results_["mean_test_score"])


def test_errors(problem):
    with pytest.raises(ValueError, match="not fitted"):
        plot(ZeroShotSearchCV(ESZSL(), {"alpha_features": [1]}))
    unsearched = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1]})
    unsearched.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    with pytest.raises(ValueError, match="compared no settings"):
        plot(unsearched)
    search = _search(TWO, SCORES)
    with pytest.raises(ValueError, match="no hyper-parameter 'gamma'; it has 'alpha', 'beta'"):
        plot(search, "gamma")
    with pytest.raises(ValueError, match="y= needs x="):
        plot(search, y="beta")
    with pytest.raises(ValueError, match="x and y are both 'beta'"):
        plot(search, "beta", "beta")
    with pytest.raises(ValueError, match=r"expected the shape \(2,\), got \(3,\)"):
        SearchLandscapeDisplay(x_name="a", x_values=[1, 2], mean=np.ones(3), std=np.ones(2))


@pytest.mark.usefixtures("no_matplotlib")
def test_without_matplotlib():
    with pytest.raises(ImportError, match="SearchLandscapeDisplay needs matplotlib"):
        plot(_search(TWO, SCORES))
