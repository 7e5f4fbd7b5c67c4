"""Random estimators and random small problems, some of them hostile, each from one generator."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils._param_validation import Interval, Options
from sklearn.utils.validation import has_fit_parameter

from estimators import NEED_TORCH, SETTINGS, all_estimators, missing_package
from zslearn import networks
from zslearn.signatures import MultiSignatures
from zslearn.synthesis import ExemplarMLP

WRAPPERS = (
    "CalibratedStacking",
    "NoneOfThese",
    "PredictionSets",
    "RankPredictor",
    "WeightedViews",
    "ZeroShotSearchCV",
)
HAS_TORCH = importlib.util.find_spec("torch") is not None

# -------------------------------------------------------------------------------- estimators


def random_estimator(rng: np.random.Generator, depth: int = 0) -> Any:
    """Any estimator with valid hyper-parameters; wrappers and EXEM hold others, one level deep."""
    classes = all_estimators()
    absent = set() if HAS_TORCH else NEED_TORCH
    names = sorted(set(classes) - absent - (set(WRAPPERS) if depth else set()))
    name = str(rng.choice(names))
    cls = classes[name]
    if name in WRAPPERS:
        return _random_wrapper(rng, name, cls)
    if name in networks.__all__:
        # One of the settings that train in a second.
        settings = [s for s in SETTINGS[name] if missing_package(name, s) is None]
        return cls(**settings[rng.integers(len(settings))])
    setting = {}
    for parameter, constraints in cls._parameter_constraints.items():
        # Half of them keep their default, so that some settings are close to what people use.
        if parameter in _COSTLY or rng.random() < 0.5:
            setting[parameter] = random_value(rng, parameter, constraints)
    if name == "EXEM":
        if depth == 0 and rng.random() < 0.3:
            setting["estimator"] = random_estimator(rng, depth=1)
        else:
            setting.pop("estimator", None)
        if rng.random() < 0.5:
            setting["regressor"] = _random_regressor(rng)
        setting["max_iter"] = 1000
    if name == "SynC":
        setting["max_iter"] = int(rng.choice([1, 5, 50]))
    return cls(**setting)


def _random_wrapper(rng: np.random.Generator, name: str, cls: type[Any]) -> Any:
    inner = random_estimator(rng, depth=1)
    cv = int(rng.integers(2, 4))
    temperature = [None, "cv", 10.0 ** rng.uniform(-3, 3)][rng.integers(3)]
    if name == "CalibratedStacking":
        bias = ["cv", rng.normal() * 10.0 ** rng.uniform(-3, 3)][rng.integers(2)]
        return cls(inner, bias=bias, temperature=temperature, cv=cv)
    if name in ("NoneOfThese", "PredictionSets", "RankPredictor"):
        return cls(inner, cv=cv)
    if name == "WeightedViews":
        return cls(inner)
    if type(inner).__name__ in networks.__all__:
        return cls(inner, {"feature_norm": ["l2", None]}, cv=cv)
    constraints = type(inner)._parameter_constraints
    parameter = str(rng.choice(sorted(set(constraints) - {"estimator", "n_jobs"})))
    values = [random_value(rng, parameter, constraints[parameter]) for _ in range(2)]
    return cls(
        inner,
        {parameter: values},
        setting=str(rng.choice(["zsl", "gzsl"])),
        cv=cv,
        temperature=temperature,
        error_score=["raise", np.nan][rng.integers(2)],
    )


def _random_regressor(rng: np.random.Generator) -> Any:
    choices: list[Any] = ["svr", "krr", "gp"]
    if HAS_TORCH:
        choices.append(ExemplarMLP(hidden_size=3, max_iter=3))
    return choices[rng.integers(len(choices))]


# Parameters that determine the time of a fit, or whose constraints are not specific enough.
_COSTLY = {"max_iter", "hidden_size", "tol", "regressor", "n_maps", "n_jobs"}


def random_value(rng: np.random.Generator, parameter: str, constraints: list[Any]) -> Any:
    """A value that one of the constraints allows."""
    if parameter == "regressor":
        return "svr"
    if parameter == "estimator":
        return None
    if parameter == "max_iter":
        least = next(int(c.left) for c in constraints if isinstance(c, Interval))
        return int(rng.integers(least, 4))
    if parameter == "tol":
        return 10.0 ** rng.uniform(-8, -1)
    if parameter == "n_jobs":
        return [None, 1, 2][rng.integers(3)]
    usable = [c for c in constraints if _is_usable(c)]
    constraint = usable[rng.integers(len(usable))]
    if constraint is None:
        return None
    if constraint == "boolean":
        return bool(rng.integers(2))
    if constraint == "random_state":
        return int(rng.integers(100))
    if isinstance(constraint, Options):
        # Including the options of StrOptions.
        return sorted(constraint.options)[rng.integers(len(constraint.options))]
    return _random_number(rng, constraint)


def _is_usable(constraint: Any) -> bool:
    return constraint in (None, "boolean", "random_state") or isinstance(
        constraint, (Interval, Options)
    )


def _random_number(rng: np.random.Generator, interval: Interval) -> float | int:
    """A number of the interval: whole ones are small, others of any order of magnitude."""
    low = interval.left
    if interval.type.__name__ == "Integral":
        low = 0 if low is None else int(low)
        return int(rng.integers(low, low + 8))
    if low == 0 and interval.closed in ("left", "both") and rng.random() < 0.2:
        return 0.0
    high = np.inf if interval.right is None else float(interval.right)
    if interval.closed in ("right", "both") and rng.random() < 0.2 and np.isfinite(high):
        return high
    if low and np.isfinite(high):
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))
    if np.isfinite(high):
        return high * float(rng.uniform(0.001, 0.999))
    largest = rng.choice([2, 8, 30, 300], p=[0.4, 0.4, 0.15, 0.05])
    return float(10.0 ** rng.uniform(-largest, largest))


# ---------------------------------------------------------------------------------- problems


@dataclass
class Problem:
    """Arguments of `fit` and of the methods that predict."""

    X: Any
    y: Any
    signatures: Any
    X_new: Any
    classes: Any
    sample_weight: Any
    late: Any


def random_problem(rng: np.random.Generator) -> Problem:
    """A small problem. Some are sound, others have one or several oddities."""
    n_seen = int(rng.choice([1, 2, 3, 4, 6], p=[0.04, 0.16, 0.25, 0.3, 0.25]))
    n_unseen = int(rng.choice([0, 1, 2], p=[0.15, 0.4, 0.45]))
    n_features = int(rng.choice([1, 2, 5, 9]))
    n_attributes = int(rng.choice([1, 2, 4, 7, 30], p=[0.15, 0.15, 0.3, 0.3, 0.1]))
    labels = _random_labels(rng, n_seen + n_unseen + 1)
    labels, late = labels[:-1], labels[-1]
    seen, unseen = labels[:n_seen], labels[n_seen:]
    rows = _random_signatures(rng, n_seen + n_unseen, n_attributes)
    y = np.repeat(np.arange(n_seen), rng.integers(1, rng.choice([2, 4, 7]), n_seen))
    y = rng.permutation(y)
    centers = rng.normal(size=(n_seen, n_features))
    X = centers[y] + 0.3 * rng.normal(size=(len(y), n_features))
    X_new = rng.normal(size=(int(rng.choice([1, 4])), n_features))
    X, X_new = _odd_features(rng, X, X_new)
    weights = None
    if rng.random() < 0.2:
        weights = rng.choice([0.0, 1.0, 2.0, 0.5, 1e-9, 1e9], len(y))
    signatures = _as_given(rng, labels, n_seen, rows)
    if signatures is None or isinstance(signatures, np.ndarray):
        labels, unseen = seen, seen[:0]
    some = unseen if len(unseen) else seen[:1]
    classes = [None, None, labels, some, labels[::-1]][rng.integers(5)]
    late = _one_more(signatures, late) if rng.random() < 0.2 else None
    return Problem(X, seen[y], signatures, X_new, classes, weights, late)


def _random_labels(rng: np.random.Generator, n: int) -> Any:
    """Labels of one kind, not in their order."""
    kind = rng.choice(["str", "int", "negative", "float", "object", "unicode"])
    numbers = rng.permutation(n)
    if kind == "int":
        return numbers
    if kind == "negative":
        return numbers * 1000 - 500
    if kind == "float":
        return numbers.astype(np.float64)
    words = [f"class {i}" if kind != "unicode" else chr(0x3042 + int(i)) * 3 for i in numbers]
    return np.asarray(words, dtype=object if kind == "object" else str)


def _random_signatures(rng: np.random.Generator, n_classes: int, n_attributes: int) -> Any:
    rows = rng.normal(size=(n_classes, n_attributes))
    kind = rng.integers(8)
    if kind == 0:
        rows = (rows > 0).astype(np.float64)
    elif kind == 1:
        rows = np.abs(rows)
    elif kind == 2:
        rows = np.round(rows)
    elif kind == 3:
        rows[:, rng.integers(n_attributes)] = 1.0
    if rng.random() < 0.15:
        rows *= 10.0 ** rng.uniform(-300, 300)
    if rng.random() < 0.1:
        rows[rng.integers(n_classes)] = rows[rng.integers(n_classes)]
    if rng.random() < 0.06:
        rows[rng.integers(n_classes)] = 0.0
    if rng.random() < 0.04:
        rows[:] = rows[0]
    if rng.random() < 0.04:
        rows[rng.integers(n_classes), rng.integers(n_attributes)] = rng.choice([np.nan, np.inf])
    return rows


def _as_given(rng: np.random.Generator, labels: Any, n_seen: int, rows: Any) -> Any:
    """Signatures as a frame, a mapping, an array, several views, or none."""
    kind = rng.choice(["frame", "mapping", "array", "views", "none"], p=[0.5, 0.15, 0.1, 0.2, 0.05])
    if kind == "none":
        return None
    if kind == "array":
        return rows[:n_seen][np.argsort(labels[:n_seen])]
    if kind == "mapping":
        return dict(zip(labels.tolist(), rows, strict=True))
    frame = pd.DataFrame(rows, index=labels)
    if kind == "views" and rows.shape[1] > 1:
        at = int(rng.integers(1, rows.shape[1]))
        return MultiSignatures({"a": frame.iloc[:, :at], "b": frame.iloc[:, at:]})
    return frame


def _one_more(signatures: Any, label: Any) -> Any:
    """An argument of `add_classes`: the signature of the first class under another label."""
    if isinstance(signatures, MultiSignatures):
        views = {name: _one_more(view, label) for name, view in signatures.views.items()}
        return MultiSignatures(views)
    if isinstance(signatures, Mapping):
        return {label: next(iter(signatures.values()))}
    if isinstance(signatures, pd.DataFrame):
        return pd.DataFrame(signatures.iloc[:1].to_numpy(), index=[label])
    return None


def _odd_features(rng: np.random.Generator, X: Any, X_new: Any) -> tuple[Any, Any]:
    """Repeat rows, make columns constant, rescale, insert non-numbers, and change the dtype."""
    if rng.random() < 0.1:
        X[:] = X[rng.integers(len(X), size=len(X))]
    if rng.random() < 0.1:
        X[:, rng.integers(X.shape[1])] = 7.0
    if rng.random() < 0.05:
        X[:] = X[0]
    if rng.random() < 0.05:
        X[rng.integers(len(X))] = 0.0
    if rng.random() < 0.03:
        X[:] = 0.0
    if rng.random() < 0.1:
        X_new = X_new * 10.0 ** rng.uniform(-150, 150)
    if rng.random() < 0.2:
        largest = rng.choice([8, 100, 300])
        scale = 10.0 ** rng.uniform(-largest, largest)
        with np.errstate(over="ignore", under="ignore"):
            X, X_new = X * scale, X_new * scale
    if rng.random() < 0.05:
        X[rng.integers(len(X)), rng.integers(X.shape[1])] = 1e12
    if rng.random() < 0.1:
        X[rng.integers(len(X)), rng.integers(X.shape[1])] = rng.choice([np.nan, np.inf, -np.inf])
    kind = rng.integers(10)
    if kind == 0:
        with np.errstate(over="ignore", under="ignore"):
            return X.astype(np.float32), X_new.astype(np.float32)
    if kind == 1:
        return _whole(X), _whole(X_new)
    if kind == 2:
        return X > 0, X_new > 0
    return X, X_new


def _whole(X: Any) -> Any:
    return np.clip(np.nan_to_num(np.round(3 * X)), -1000, 1000).astype(np.int16)


def fit_options(estimator: Any, problem: Problem) -> Mapping[str, Any]:
    """Keywords of `fit`: weights only where the estimator takes them."""
    options = {"signatures": problem.signatures}
    if problem.sample_weight is not None and has_fit_parameter(estimator, "sample_weight"):
        options["sample_weight"] = problem.sample_weight
    return options
