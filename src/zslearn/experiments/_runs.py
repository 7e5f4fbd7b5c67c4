"""Runs: methods tuned and measured on a data set, one record each, resumed where they stopped."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import FitFailedWarning

from zslearn._version import __version__
from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import GeneralizedScores, measure_conventional
from zslearn.experiments._methods import Method, TuningOptions, find_method
from zslearn.experiments._records import RECORD_SCHEMA
from zslearn.metrics import per_class_accuracy, seen_unseen_curve
from zslearn.model_selection import (
    ClassKFold,
    GeneralizedClassKFold,
    GridEdgeWarning,
    ZeroShotSearchCV,
)
from zslearn.utils import fingerprint, name_some, replacing, to_numpy, warn_user

_GRIDS = ("fast", "paper")
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pandas")
_SETTINGS = ("zsl", "gzsl")

Say = Callable[[str], None]


def run_benchmark(
    data: ZeroShotDataset,
    methods: str | Sequence[str],
    out: str | os.PathLike[str],
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

    A method that fails does not end the run: a record that says why takes the place of its record,
    the others go on, and a `FitFailedWarning` at the end names what failed. The next run with
    `resume` tries it again. See :func:`failed_runs`.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set, with its active split.
    methods : str or sequence of str
        Names in `METHODS`, or of methods of one's own; see :func:`find_method`.
    out : str or path
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
        Called with a line of text before each run, and after one that failed.

    Returns
    -------
    list of Path
        The records, in the order of settings and methods; those of failed runs too.

    See Also
    --------
    read_records : What the records say.
    summarize_runs : The results as one table.
    failed_runs : Which runs failed, and why.
    """
    _check_names(settings, grid)
    out = Path(out)
    named: dict[str, Method] = {}
    for name in [methods] if isinstance(methods, str) else methods:
        method = find_method(name)
        # Two spellings are one method; classes of two modules may share their name.
        named[name if ":" in name else method.name] = method
    split = data.active_split
    data_key = fingerprint(
        to_numpy(data.X), data.y, data.signatures, split.train, split.test_seen, split.test_unseen
    )
    # Not that of another run into the same folder, which may end before this one.
    shared = out / f".parts-shared-{fingerprint(data_key, list(named), grid, seed)[:12]}"
    if not resume:
        shutil.rmtree(shared, ignore_errors=True)
    paths: list[Path] = []
    failed: list[str] = []
    for setting, name in product(settings, named):
        run = f"{name}, {setting}"
        slug = _slug(data.name, data.split, data.features, name, setting, grid, seed)
        path, parts = out / f"{slug}.json", out / f".parts-{slug}"
        paths.append(path)
        identity = (data_key, setting, grid, n_splits, seed, __version__)
        if resume and _is_finished(path, named[name], identity):
            say(f"{run}: finished before")
            continue
        say(f"{run}: tuning")
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
        text, reason = _record_text(named[name], data, options, seed, identity)
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        if reason is None:
            shutil.rmtree(parts, ignore_errors=True)
        else:
            failed.append(run)
            say(f"{run}: failed ({reason}); going on")
    if failed:
        warn_user(
            f"Runs failed: {name_some(failed)}. Their records say why, see failed_runs; running "
            "again with resume tries them again.",
            FitFailedWarning,
        )
    else:
        shutil.rmtree(shared, ignore_errors=True)
    return paths


def _check_names(settings: Sequence[str], grid: str) -> None:
    """Refuse what is no setting or grid before anything is computed."""
    unknown = [name for name in settings if name not in _SETTINGS]
    if unknown:
        raise ValueError(
            f"Unknown settings: {name_some(unknown)}. There are: {', '.join(_SETTINGS)}."
        )
    if grid not in _GRIDS:
        raise ValueError(f"There is no grid named {grid!r}; there are: {', '.join(_GRIDS)}.")


def _record_text(
    method: Method,
    data: ZeroShotDataset,
    options: TuningOptions,
    seed: int,
    identity: tuple[Any, ...],
) -> tuple[str, str | None]:
    """Run a method; the text of its record, and the reason where it failed."""
    origin = {
        "schema": RECORD_SCHEMA,
        "dataset": data.name,
        "split": data.split,
        "split_version": data.version,
        "features": data.features,
        "method": method.name,
        "setting": options.setting,
        "seed": seed,
        "grid": options.grid,
    }
    reason = None
    try:
        # First: a key that cannot be made costs nothing then.
        key = _key(method, identity)
        results = _run(method, data, options, seed)
        text = json.dumps(origin | results | _circumstances() | {"key": key}, indent=1)
    except Exception as error:
        reason = _one_line(error)
        failure = {
            "type": type(error).__name__,
            "reason": reason,
            "traceback": "".join(traceback.format_exception(error)),
        }
        # Without a key: no version of the program can take it for a finished one.
        record = origin | {"metrics": {}, "failed": failure} | _circumstances()
        text = json.dumps(record, indent=1)
    return text + "\n", reason


def _run(
    method: Method, data: ZeroShotDataset, options: TuningOptions, seed: int
) -> dict[str, Any]:
    """Tune and measure one method: the results for its record."""
    estimator = method.make()
    # Those of an inner method too.
    names = [n for n in estimator.get_params() if n.split("__")[-1] == "random_state"]
    estimator.set_params(**dict.fromkeys(names, seed))
    start = time.perf_counter()
    with warnings.catch_warnings():
        # The record says so.
        warnings.simplefilter("ignore", GridEdgeWarning)
        search = method.tune(estimator, data, options)
    tuned = time.perf_counter()
    model = search.estimator_
    results: dict[str, Any] = {
        "hyper_parameters": _plain(search.best_params_),
        "edges": dict(getattr(search, "edges_", {})),
    }
    if options.setting == "zsl":
        results["metrics"] = measure_conventional(model, data)
        if len(data.y_test_seen):
            # The paper's harmonic mean without calibration is of methods tuned for this setting.
            found = GeneralizedScores.of(model, data).measure(bias=0.0)
            results["metrics"] |= {name: found[name] for name in ("seen", "unseen", "harmonic")}
        classes = data.unseen_classes
        predicted = model.predict(data.X_test_unseen, classes=classes)
        results["per_class"] = _per_class(data.y_test_unseen, predicted, classes)
    else:
        generalized = GeneralizedScores.of(model, data)
        results["metrics"] = generalized.measure(search.bias_)
        results["calibration_factor"] = search.bias_
        calibrated = search.predict(np.concatenate([data.X_test_seen, data.X_test_unseen]))
        results["per_class"] = _per_class(generalized.y_true, calibrated, model.classes_)
        unseen, seen, _ = seen_unseen_curve(**vars(generalized))
        results["curve"] = {"acc_unseen": unseen.tolist(), "acc_seen": seen.tolist()}
    results["cross_validation"] = _cross_validation(search)
    results["times"] = {"tune_and_fit": tuned - start, "measure": time.perf_counter() - tuned}
    return results


def _circumstances() -> dict[str, Any]:
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


def _one_line(error: Exception) -> str:
    """What an error says, in one line that is safe to show on a terminal."""
    line = " ".join(str(error).split()) or type(error).__name__
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


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


def _key(method: Method, identity: tuple[Any, ...]) -> str:
    """A digest of all that a record depends on."""
    data_key, *rest = identity
    return fingerprint(data_key, method.definition(), *rest)


def _is_finished(path: Path, method: Method, identity: tuple[Any, ...]) -> bool:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return "failed" not in record and record["key"] == _key(method, identity)
    except Exception:
        # No record, a damaged one, or a method that cannot be made: its run will say why.
        return False


def _slug(*parts: Any) -> str:
    """A file name that tells the parts and differs when they do."""
    plain = "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", str(part)).strip("-") for part in parts)
    return plain if plain == "_".join(map(str, parts)) else f"{plain}_{fingerprint(*parts)[:6]}"
