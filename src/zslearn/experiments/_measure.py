"""One run: a method tuned on the training part, measured on the test parts, as a record says it."""

from __future__ import annotations

import os
import platform
import time
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from zslearn._utils._array import Floats
from zslearn._version import __version__
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments._evaluate import GeneralizedScores, measure_conventional
from zslearn.experiments._methods import Method
from zslearn.experiments._tuning import TuningOptions, tune_with_views
from zslearn.metrics._accuracy import per_class_accuracy
from zslearn.metrics._curve import seen_unseen_curve
from zslearn.model_selection._search import GridEdgeWarning, ZeroShotSearchCV

#: So many other classes a record names beside a class.
_MOST_CONFUSED = 3
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas")


def tune_and_measure(
    method: Method, estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> dict[str, Any]:
    """Tune and measure one method."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # The record says so.
        warnings.simplefilter("ignore", GridEdgeWarning)
        search = tune_with_views(method.tune, estimator, data, options)
    tuned = time.perf_counter()
    model = search.estimator_
    results: dict[str, Any] = {
        "hyper_parameters": _plain(search.best_params_),
        "edges": dict(getattr(search, "edges_", {})),
    }
    if options.setting == "zsl":
        results["metrics"] = measure_conventional(model, data)
        if len(data.y_test_seen) and not untested_classes(data):
            # The paper's harmonic mean without calibration is of methods tuned for this setting.
            found = GeneralizedScores.of(model, data).measure(bias=0.0)
            results["metrics"] |= {name: found[name] for name in ("seen", "unseen", "harmonic")}
        classes = data.unseen_classes
        predicted = model.predict(data.X_test_unseen, classes=classes)
        results |= by_class(data.y_test_unseen, predicted, classes)
    else:
        generalized = GeneralizedScores.of(model, data)
        results["metrics"] = generalized.measure(search.bias_)
        results["calibration_factor"] = search.bias_
        calibrated = search.predict(np.concatenate([data.X_test_seen, data.X_test_unseen]))
        results |= by_class(generalized.y_true, calibrated, model.classes_)
        results["unseen_classes"] = [str(label) for label in data.unseen_classes.tolist()]
        results["curve"] = compact_curve(*seen_unseen_curve(**vars(generalized)))
    results["cross_validation"] = _cross_validation(search)
    results["times"] = {"tune_and_fit": tuned - start, "measure": time.perf_counter() - tuned}
    # What the search of another method had computed, and the seconds that it took there.
    results["shared_fits"] = search.n_read_fits_
    if search.n_read_fits_:
        results["times"]["reused"] = search.reused_time_
    return results


def untested_classes(data: ZeroShotDataset) -> list[Any]:
    """Described classes without a test image: the generalized setting has no accuracy of them."""
    tested = {*data.y_test_seen.tolist(), *data.y_test_unseen.tolist()}
    return [label for label in data.signatures.index.tolist() if label not in tested]


def circumstances() -> dict[str, Any]:
    """When, with what and where a record was made."""
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"zslearn": __version__, **{name: version(name) for name in _PACKAGES}},
        "machine": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cores": os.cpu_count(),
        },
    }


def by_class(y_true: Any, predicted: Any, classes: Any) -> dict[str, Any]:
    """Of each class the accuracy, and what it was most often taken for."""
    return {
        "per_class": _per_class(y_true, predicted, classes),
        "confused_with": _confused_with(y_true, predicted),
    }


def _confused_with(y_true: Any, predicted: Any) -> dict[str, list[list[Any]]]:
    """Of each class with mistakes the labels that it was given most often, with their shares."""
    found: dict[str, list[list[Any]]] = {}
    for label in np.unique(y_true):
        of_class = predicted[y_true == label]
        others, counts = np.unique(of_class[of_class != label], return_counts=True)
        worst = np.argsort(-counts, kind="stable")[:_MOST_CONFUSED]
        if worst.size:
            shares = (counts[worst] / len(of_class)).round(4).tolist()
            names = map(str, others[worst].tolist())
            found[str(label)] = [list(pair) for pair in zip(names, shares, strict=True)]
    return found


def compact_curve(unseen: Floats, seen: Floats, bias: Floats) -> dict[str, list[Any]]:
    """A seen–unseen curve as a record keeps it."""
    changes = np.append(True, (np.diff(unseen) != 0) | (np.diff(seen) != 0))
    factors = [float(f"{b:.6g}") if np.isfinite(b) else None for b in bias[changes].tolist()]
    return {
        "acc_unseen": unseen[changes].tolist(),
        "acc_seen": seen[changes].tolist(),
        "bias": factors,
    }


def _per_class(y_true: Any, predicted: Any, classes: Any) -> dict[str, float]:
    accuracies = per_class_accuracy(
        y_true, predicted, classes=classes, missing="ignore", average=None
    )
    return {
        str(label): float(accuracy)
        for label, accuracy in zip(classes.tolist(), accuracies, strict=True)
        if np.isfinite(accuracy)
    }


def _cross_validation(search: ZeroShotSearchCV) -> dict[str, Any]:
    """The whole grid: settings and what each gave in each fold."""
    results: dict[str, Any] = dict(search.cv_results_)
    settings = [_plain(setting) for setting in results.pop("params")]
    # The columns "param_…" say once more what "params" says; times would make every record differ.
    columns = {
        name: values.tolist()
        for name, values in results.items()
        if not name.startswith("param_") and not name.endswith("_time")
    }
    return {"params": settings, **columns}


def _plain(setting: dict[str, Any]) -> dict[str, Any]:
    """Hyper-parameters as JSON can hold them."""
    plain: dict[str, Any] = {}
    for name, value in setting.items():
        if isinstance(value, np.generic):
            value = value.item()
        is_plain = value is None or isinstance(value, (str, bool, int, float))
        plain[name] = value if is_plain else repr(value)
    return plain
