"""All estimators: the form of the data does not matter, and no configuration crashes.

The first half gives the same data in many forms and asks for the same scores. The second half draws
an estimator, its hyper-parameters and a small problem that may be hostile: there are finite scores,
or one error that says what is wrong.
"""

from __future__ import annotations

import math
import re
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from threadpoolctl import threadpool_limits

from configurations import fit_options, random_estimator, random_problem
from estimators import instances
from zslearn.datasets import make_zero_shot

# ----------------------------------------------------------------- the same data in other forms

EVERY = pytest.mark.parametrize("estimator", instances())
FEW = settings(max_examples=2, deadline=None, derandomize=True)

# What may be left of the largest score where sums are taken in another order. Closed forms and
# descents of a fixed number of steps leave rounding; what iterates until a tolerance leaves more.
ROUNDING = 1e-11
SOLVERS = {
    "BiDiLEL": 1e-6,  # Sammon's mapping, tol=1e-8
    "CMT": 1e-7,  # forty steps of L-BFGS, each of which amplifies rounding
    "CMTStar": 1e-7,
    "EXEM": 1e-6,  # ν-SVR, tol=1e-8
    "GaussianEXEM": 1e-10,  # the temperature, whose search begins in single precision
    "SSE": 1e-5,  # quadratic programs, tol=1e-3
    "SynC": 1e-4,  # machines over pairs of samples, tol=1e-4
    "GCNZ": 1e-3,  # trained on SynC's classifiers, tol=1e-4
    "SGCN": 1e-3,
    "DGP": 1e-3,
    "GeneratedFeatures": 1e-4,  # any classifier's own solver
}


def tolerance(estimator):
    inner = getattr(estimator, "estimator", None)
    own = SOLVERS.get(type(estimator).__name__, ROUNDING)
    return max(own, tolerance(inner)) if hasattr(inner, "get_params") else own


def draws_samples(estimator):
    """Whether chance decides by the position of a sample: batches, folds, what is held out."""
    parameters = estimator.get_params(deep=False)
    inner = parameters.get("estimator")
    if hasattr(inner, "get_params") and draws_samples(inner):
        return True
    return (
        type(estimator).__name__ == "LatEm"
        or hasattr(parameters.get("generator"), "batch_size")
        or parameters.get("batch_size", np.inf) < len(WHOLE.y)
        or parameters.get("probabilities") == "platt"
        or parameters.get("setting") == "gzsl"
        or parameters.get("bias") == "cv"
        or parameters.get("row_norm") == "auto"
    )


class Data:
    """Inputs of an estimator as float64 arrays in C order."""

    def __init__(self, change):
        data = make_zero_shot(
            n_seen=8, n_unseen=3, n_features=10, n_attributes=6, samples_per_class=8, random_state=0
        )
        self.X, self.y, self.signatures = change(data.X_train), data.y_train, data.signatures
        self.rows = change(np.concatenate([data.X_test_seen, data.X_test_unseen]))
        self._kept = {}

    def scores(self, estimator):
        """Scores with the data as they are, computed once for all tests."""
        name = repr(estimator)
        if name not in self._kept:
            self._kept[name] = scores(estimator, self)
        return self._kept[name]


def scores(estimator, data, **changes):
    """Scores of a new model, where some of the data come in another form."""
    form = {
        name: changes.get(name, getattr(data, name)) for name in ("X", "y", "signatures", "rows")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        model = clone(estimator).fit(form["X"], form["y"], signatures=form["signatures"])
        return model.decision_function(form["rows"])


def assert_same(estimator, actual, expected):
    assert np.abs(actual - expected).max() <= tolerance(estimator) * np.abs(expected).max()


# Whole numbers and bits, which every dtype can hold.
WHOLE = Data(lambda X: np.round(4 * X))
BITS = Data(lambda X: np.greater(X, X.mean(axis=0)).astype(np.float64))


def _in_a_larger_one(X):
    larger = np.full((2 * X.shape[0], 3 * X.shape[1]), 77, dtype=X.dtype)
    larger[::2, 1::3] = X
    return larger[::2, 1::3]


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "with gaps": _in_a_larger_one,
    "backwards": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "read-only": _read_only,
    "frame": pd.DataFrame,
    "polars": lambda X: pl.DataFrame(X, schema=[f"x{i}" for i in range(X.shape[1])]),
    "lists": lambda X: X.tolist(),
}
LABELS = {
    "array": np.asarray,
    "objects": lambda y: y.astype(object),
    "series": lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
    "list": lambda y: y.tolist(),
    "read-only": _read_only,
}
SIGNATURES = {
    "F": lambda s: pd.DataFrame(np.asfortranarray(s.to_numpy()), s.index, s.columns),
    "objects": lambda s: s.set_axis(s.index.astype(object)),
    "mapping": lambda s: {label: row.to_numpy() for label, row in s.iterrows()},
    "lists": lambda s: {label: row.tolist() for label, row in s.iterrows()},
    "shuffled": lambda s: s.sample(frac=1, random_state=1),
    "polars": lambda s: pl.from_pandas(s.rename_axis("class").reset_index()),
}


DTYPES = {
    "int8": WHOLE,
    "int16": WHOLE,
    "int64": WHOLE,
    "float64": WHOLE,
    "uint8": BITS,
    "bool": BITS,
}


@pytest.mark.slow
def test_form(cases):
    """Layout, dtype, container and threads of BLAS, of each estimator in turn."""
    estimators = [parameter.values[0] for parameter in instances() if can_run(parameter)]
    for seed in cases(2 * len(estimators)):
        rng = np.random.default_rng(seed)
        estimator = estimators[seed % len(estimators)]
        dtype = str(rng.choice(sorted(DTYPES)))
        data = DTYPES[dtype]
        layout, layout_of_rows = rng.choice(sorted(LAYOUTS), 2)
        with threadpool_limits(int(rng.choice([1, 2], p=[0.9, 0.1])), user_api="blas"):
            actual = scores(
                estimator,
                data,
                X=LAYOUTS[layout](data.X.astype(dtype)),
                y=LABELS[rng.choice(sorted(LABELS))](data.y),
                signatures=SIGNATURES[rng.choice(sorted(SIGNATURES))](data.signatures),
                rows=LAYOUTS[layout_of_rows](data.rows.astype(dtype)),
            )
        assert_same(estimator, actual, data.scores(estimator))


def can_run(parameter):
    """Whether no package is missing that a setting needs."""
    return not any(mark.name == "skip" for mark in parameter.marks)


@EVERY
@FEW
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_samples(estimator, seed):
    """In training, unless chance decides by the position of a sample; in predicting always."""
    rng = np.random.default_rng(seed)
    order, order_of_rows = rng.permutation(len(WHOLE.y)), rng.permutation(len(WHOLE.rows))
    if draws_samples(estimator):
        order = np.arange(len(WHOLE.y))
    actual = scores(
        estimator, WHOLE, X=WHOLE.X[order], y=WHOLE.y[order], rows=WHOLE.rows[order_of_rows]
    )
    assert_same(estimator, actual, WHOLE.scores(estimator)[order_of_rows])


@EVERY
@FEW
@given(
    powers=st.tuples(*[st.integers(-300, 300)] * 3),
    each=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_scale(estimator, powers, each, seed):
    """Of all features, or of each sample by itself, and of the signatures."""
    of_features, of_rows, of_signatures = (10.0 ** np.asarray(powers)).tolist()
    parameters = estimator.get_params()
    if parameters.get("feature_norm", "l2") is None or parameters.get("row_norm", "l2") != "l2":
        of_features = of_rows = 1.0
    elif each:
        rng = np.random.default_rng(seed)
        of_features = of_features * rng.uniform(0.01, 100, (len(WHOLE.X), 1))
        of_rows = of_rows * rng.uniform(0.01, 100, (len(WHOLE.rows), 1))
    actual = scores(
        estimator,
        WHOLE,
        X=WHOLE.X * of_features,
        rows=WHOLE.rows * of_rows,
        signatures=WHOLE.signatures * of_signatures,
    )
    assert_same(estimator, actual, WHOLE.scores(estimator))


# ----------------------------------------------------------------------- random configurations

# NumPy may warn of an overflow where a hyper-parameter is beyond these powers of ten: float32 ends
# soon after.
USUAL_POWERS = 20


def is_extreme(estimator):
    numbers = [v for v in estimator.get_params().values() if isinstance(v, float) and v]
    for values in getattr(estimator, "grid", {}).values():
        numbers += [v for v in values if isinstance(v, float) and v]
    return any(abs(math.log10(abs(v))) > USUAL_POWERS for v in numbers if math.isfinite(v))


def assert_predictions(model, problem):
    """Finite scores of the right shape, and the best classes by them."""
    if problem.late is not None:
        model.add_classes(problem.late)
    classes = model.classes_ if problem.classes is None else problem.classes
    values = model.decision_function(problem.X_new, classes=problem.classes)
    n_rows, n_classes = len(problem.X_new), len(classes)
    assert np.isfinite(values).all()
    if problem.classes is None and n_classes == 2:
        assert values.shape == (n_rows,)
        values = np.column_stack([np.zeros(n_rows), values])
    assert values.shape == (n_rows, n_classes)
    k = min(2, n_classes)
    labels, best = model.predict_top_k(problem.X_new, k, classes=problem.classes)
    assert labels.shape == best.shape == (n_rows, k)
    assert np.isfinite(best).all()
    assert (np.diff(best, axis=1) <= 0).all()
    for row, chosen in zip(values, labels.tolist(), strict=True):
        assert len(set(chosen)) == k
        where = [classes.tolist().index(label) for label in chosen]
        # To the rounding of float32, where the blocks differ.
        assert row[where[0]] >= row.max() - 1e-5 * max(np.abs(row).max(), 1e-300)
    predicted = model.predict(problem.X_new, classes=problem.classes)
    rejected = np.zeros(n_rows, dtype=bool)
    if hasattr(model, "is_none"):
        rejected = model.is_none(problem.X_new, classes=problem.classes)
    assert predicted[~rejected].tolist() == labels[~rejected, 0].tolist()


def assert_meant(error):
    """The error was raised by a check, and not by what met the data without one; it is short."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    assert re.search(r"/(zslearn|sklearn/utils)/", frame.filename), "raised elsewhere"
    assert frame.line.startswith("raise "), "not raised on purpose"
    # A search gives the reason of each setting.
    for text in re.split(r"; (?=\w+Error: )", str(error)):
        assert text.isprintable()
        assert 20 < len(text) < 400
        assert text.endswith(".")
        assert len(re.findall(r"\.( |$)", text)) <= 4


@pytest.mark.slow
def test_random_configurations(cases):
    n_cases = n_refused = 0
    for seed in cases(300):
        rng = np.random.default_rng(seed)
        estimator, problem = random_estimator(rng), random_problem(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not is_extreme(estimator):
                warnings.simplefilter("error", RuntimeWarning)
                warnings.simplefilter("ignore", FitFailedWarning)
            try:
                estimator.fit(problem.X, problem.y, **fit_options(estimator, problem))
                assert_predictions(estimator, problem)
            except (ValueError, TypeError) as error:
                assert_meant(error)
                n_refused += 1
        n_cases += 1
    # Else little was tried.
    assert n_cases < 100 or n_refused < n_cases / 3
