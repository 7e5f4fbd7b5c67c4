"""Runs: methods tuned and measured on a data set, one record each, resumed where they stopped."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from zslearn._version import __version__
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import GeneralizedScores, measure_conventional
from zslearn.experiments._methods import METHODS, Method, TuningOptions
from zslearn.experiments._records import RECORD_SCHEMA
from zslearn.metrics import per_class_accuracy, seen_unseen_curve
from zslearn.model_selection import ClassKFold, GeneralizedClassKFold, ZeroShotSearchCV
from zslearn.utils import name_some, replacing, to_numpy
from zslearn.utils._fingerprint import fingerprint

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas")

Say = Callable[[str], None]


def run_benchmark(
    data: ZeroShotDataset,
    methods: Sequence[str],
    out: Path,
    *,
    settings: Sequence[str] = ("zsl", "gzsl"),
    grid: str = "fast",
    n_splits: int = 5,
    seed: int = 0,
    resume: bool = True,
    n_jobs: int | None = None,
    progress: bool = False,
    say: Say = lambda text: None,
) -> list[Path]:
    """Tune, fit and measure methods on a data set, and write one record for each.

    Every method is tuned by leaving out seen classes of the training part, fitted on all of that
    part, and then measured on the test parts. A record is written when it is finished, whole or not
    at all. A finished one is not computed again, and inside an unfinished one the search goes on
    where it was stopped.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set, with its active split.
    methods : sequence of str
        Names in `METHODS`.
    out : Path
        Folder of the records; it is made.
    settings : sequence of {"zsl", "gzsl"}
        Conventional, generalized, or both. Each is tuned for itself.
    grid : {"fast", "paper"}
        Which of the methods' grids.
    n_splits : int
        Folds over the seen classes.
    seed : int
        Decides the folds, and what a method leaves to chance.
    resume : bool
        Whether what is finished is kept.
    n_jobs : int, optional
        Folds that are computed at the same time.
    progress : bool
        Whether searches draw a bar.
    say : callable
        Called with a line of text before each run.

    Returns
    -------
    list of Path
        The records, in the order of settings and methods.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ValueError(f"Unknown methods: {name_some(unknown)}. There are: {', '.join(METHODS)}.")
    odd = [name for name in settings if name not in ("zsl", "gzsl")]
    if odd:
        raise ValueError(f"Unknown settings: {name_some(odd)}. There are: zsl, gzsl.")
    split = data.active_split
    data_key = fingerprint(
        to_numpy(data.X), data.y, data.signatures, split.train, split.test_seen, split.test_unseen
    )
    # Not that of another run into the same folder, which may end before this one.
    shared = out / f".parts-shared-{fingerprint(data_key, list(methods), grid, seed)[:12]}"
    if not resume:
        shutil.rmtree(shared, ignore_errors=True)
    paths = []
    for setting in settings:
        for name in methods:
            key = fingerprint(
                data_key, METHODS[name].definition(), setting, grid, n_splits, seed, __version__
            )
            path = (
                out
                / f"{_slug(data.name, data.split, data.features, name, setting, grid, seed)}.json"
            )
            paths.append(path)
            if resume and _is_finished(path, key):
                say(f"{name}, {setting}: finished before")
                continue
            say(f"{name}, {setting}: tuning")
            parts = out / f".parts-{path.stem}"
            if not resume and parts.exists():
                shutil.rmtree(parts)
            splitter = ClassKFold if setting == "zsl" else GeneralizedClassKFold
            options = TuningOptions(
                setting=setting,
                grid=grid,
                cv=splitter(min(n_splits, len(data.seen_classes) // 2), random_state=seed),
                checkpoint=parts,
                shared=shared,
                n_jobs=n_jobs,
                progress=progress,
            )
            record = _run(METHODS[name], data, options, seed) | {"key": key}
            with replacing(path) as temporary:
                temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            shutil.rmtree(parts, ignore_errors=True)
    shutil.rmtree(shared, ignore_errors=True)
    return paths


def _run(
    method: Method, data: ZeroShotDataset, options: TuningOptions, seed: int
) -> dict[str, Any]:
    """Tune and measure one method: a record."""
    estimator = method.make()
    # Those of an inner method too.
    names = [n for n in estimator.get_params() if n.split("__")[-1] == "random_state"]
    estimator.set_params(**dict.fromkeys(names, seed))
    start = time.perf_counter()
    search = method.tune(estimator, data, options)
    tuned = time.perf_counter()
    model = search.estimator_
    record: dict[str, Any] = {
        "schema": RECORD_SCHEMA,
        "dataset": data.name,
        "split": data.split,
        "split_version": data.version,
        "features": data.features,
        "method": method.name,
        "setting": options.setting,
        "seed": seed,
        "grid": options.grid,
        "hyper_parameters": _plain(search.best_params_),
    }
    if options.setting == "zsl":
        record["metrics"] = measure_conventional(model, data)
        if len(data.y_test_seen):
            # The paper's harmonic mean without calibration is of methods tuned for this setting.
            found = GeneralizedScores.of(model, data).measure(bias=0.0)
            record["metrics"] |= {name: found[name] for name in ("seen", "unseen", "harmonic")}
        classes = data.unseen_classes
        predicted = model.predict(data.X_test_unseen, classes=classes)
        record["per_class"] = _per_class(data.y_test_unseen, predicted, classes)
    else:
        generalized = GeneralizedScores.of(model, data)
        record["metrics"] = generalized.measure(search.bias_)
        record["calibration_factor"] = search.bias_
        calibrated = search.predict(np.concatenate([data.X_test_seen, data.X_test_unseen]))
        record["per_class"] = _per_class(generalized.y_true, calibrated, model.classes_)
        unseen, seen, _ = seen_unseen_curve(**vars(generalized))
        record["curve"] = {"acc_unseen": unseen.tolist(), "acc_seen": seen.tolist()}
    record["cross_validation"] = _cross_validation(search)
    record["times"] = {"tune_and_fit": tuned - start, "measure": time.perf_counter() - tuned}
    record["written"] = datetime.now(UTC).isoformat(timespec="seconds")
    record["versions"] = {"zslearn": __version__, **{name: version(name) for name in _PACKAGES}}
    record["machine"] = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
    }
    return record


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
    return {"params": settings, **{name: values.tolist() for name, values in results.items()}}


def _plain(setting: dict[str, Any]) -> dict[str, Any]:
    """Hyper-parameters as JSON can hold them."""
    plain: dict[str, Any] = {}
    for name, value in setting.items():
        if isinstance(value, np.generic):
            value = value.item()
        is_plain = value is None or isinstance(value, (str, bool, int, float))
        plain[name] = value if is_plain else repr(value)
    return plain


def _is_finished(path: Path, key: str) -> bool:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["key"] == key
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _slug(*parts: Any) -> str:
    """A file name that tells the parts and differs when they do."""
    plain = "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", str(part)).strip("-") for part in parts)
    return plain if plain == "_".join(map(str, parts)) else f"{plain}_{fingerprint(*parts)[:6]}"
