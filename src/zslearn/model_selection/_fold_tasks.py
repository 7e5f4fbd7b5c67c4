"""Compute the folds of a search: one after another, in local processes, or on a dask cluster.

A fold fits every setting without some of the seen classes and scores it on these. Finished settings
are kept in the checkpoint of the fold.
"""

from __future__ import annotations

import math
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from zslearn._utils._array import Floats, take_rows
from zslearn._utils._files import Checkpoint, DamagedFileError
from zslearn._utils._fit_cache import FitCache, fingerprint
from zslearn._utils._messages import InputWarning
from zslearn._utils._optional import import_optional
from zslearn._utils._processes import end_with_parent, threads_for
from zslearn._utils._validation import is_share
from zslearn.calibration._folds import Fold, FoldImages
from zslearn.signatures._table import SignatureTable

Advance = Callable[[int], None]

#: Times of each setting, in seconds.
TIMES = ("fit_time", "score_time")
#: 1 if all classes score the same on every image.
TIED = "tied"
# Number of equal failures without a success after which a fold stops.
_MAX_EQUAL_FAILURES = 3
# Number of attempts to send the data to a cluster on which all workers lost it.
_MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class FoldResult:
    """Results of a fold.

    `scores`, times and ties are arrays over the settings, NaN for a setting that failed, for the
    reason in `failures`; `n_read_fits` fits were read from the cache, which saved `reused_time`
    seconds.
    """

    scores: dict[str, Floats]
    failures: dict[int, str]
    n_read_fits: int = 0
    reused_time: float = 0.0

    def extended(self, further: FoldResult) -> FoldResult:
        """These results, followed by those of further settings of the same fold."""
        n_settings = len(self.scores[TIED])
        return FoldResult(
            {name: np.append(values, further.scores[name]) for name, values in self.scores.items()},
            self.failures | {n_settings + i: why for i, why in further.failures.items()},
            self.n_read_fits + further.n_read_fits,
            self.reused_time + further.reused_time,
        )


@dataclass(frozen=True)
class FoldTask:
    """Everything that a worker needs to compute one fold.

    `scorers` maps names to callables, or to None for scores of the library. `names` are the values
    kept for each setting: the scores; "bias" in the generalized setting; "temperature" if one is
    searched for; and with either "score_scale".
    """

    estimator: Any
    X: Any
    y: NDArray[Any]
    weights: Floats | None
    table: SignatureTable
    fold: Fold
    scorers: Mapping[str, Any]
    names: Sequence[str]
    raise_errors: bool
    memory: Path | None
    settings: Sequence[Mapping[str, Any]] = ()
    checkpoint: Checkpoint | None = None
    caller: int = field(default_factory=os.getpid)

    def run(self, advance: Advance | None = None) -> FoldResult:
        """Score every setting that the checkpoint does not hold."""
        end_with_parent(self.caller)
        advance = advance or (lambda amount: None)
        done: dict[int, dict[str, float]] = {}
        if self.checkpoint is not None:
            done = self.checkpoint.read(self._checked_scores) or {}
        missing = self._missing_settings(done)
        advance(len(done))
        failures: dict[int, str] = {}
        generalized = "bias" in self.names
        images = FoldImages(self.X, self.y, self.table.labels, self.fold, generalized=generalized)
        queue = [missing] if missing else []
        try:
            with warnings.catch_warnings(), FitCache(self.memory) as cache:
                # The final fit warns; the scores show which settings do not converge.
                warnings.simplefilter("ignore", InputWarning)
                warnings.simplefilter("ignore", ConvergenceWarning)
                while queue:
                    wanted = queue.pop(0)
                    try:
                        self._fit_and_score(wanted, images, advance, done)
                    except Exception as error:
                        if self.raise_errors:
                            raise
                        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
                        rest = [i for i in wanted if i not in done]
                        n_equal = sum(other == reason for other in failures.values())
                        if len(wanted) == 1 or (not done and n_equal >= _MAX_EQUAL_FAILURES):
                            failures.update(dict.fromkeys(rest, reason))
                            advance(len(rest))
                        else:
                            # Bisect, so that the settings that work still share their work.
                            middle = -(-len(rest) // 2)
                            queue[:0] = [half for half in (rest[:middle], rest[middle:]) if half]
        finally:
            # Also after Ctrl-C.
            if missing and self.checkpoint is not None:
                self.checkpoint.write(_as_json(done))
        scores = {
            name: np.asarray(
                [done.get(i, {}).get(name, math.nan) for i in range(len(self.settings))]
            )
            for name in (*self.names, *TIMES, TIED)
        }
        return FoldResult(scores, failures, cache.n_read, cache.seconds)

    def _checked_scores(self, done: Any) -> dict[int, dict[str, float]]:
        """Validated scores of a checkpoint by setting."""
        known = {str(index) for index in range(len(self.settings))}
        if not isinstance(done, dict) or not done.keys() <= known:
            raise DamagedFileError("it belongs to other settings")
        names = {*self.names, *TIMES, TIED}
        fractions = {name for name, scorer in self.scorers.items() if scorer is None}
        checked: dict[int, dict[str, float]] = {}
        for index, scores in done.items():
            if not isinstance(scores, dict) or scores.keys() != names:
                raise DamagedFileError(f"setting {index} has other scores")
            for name, value in scores.items():
                # Large integers do not fit into a float.
                is_number = type(value) is float or (type(value) is int and abs(value) < 2**53)
                if value is not None and not (is_share(value) if name in fractions else is_number):
                    raise DamagedFileError(f"{name} of setting {index} is {value!r:.60}")
            # JSON has null for NaN.
            checked[int(index)] = {n: math.nan if v is None else v for n, v in scores.items()}
        return checked

    def _missing_settings(self, done: Mapping[int, Any]) -> list[int]:
        """Unfinished settings, and finished ones on the same warm-start path.

        Resuming within a path would give solutions that differ from those of an uninterrupted
        search in their last digits.
        """
        missing = [i for i in range(len(self.settings)) if i not in done]
        along = _path_parameters(self.estimator)
        if not along or not done:
            return missing
        across = {name for setting in self.settings for name in setting} - along
        defaults = self.estimator.get_params(deep=True)
        paths = [
            fingerprint({name: setting.get(name, defaults[name]) for name in across})
            for setting in self.settings
        ]
        unfinished = {paths[i] for i in missing}
        return [i for i, path in enumerate(paths) if path in unfinished]

    def _fit_and_score(
        self,
        wanted: list[int],
        images: FoldImages,
        advance: Advance,
        done: dict[int, dict[str, float]],
    ) -> None:
        """Fit some settings together, and add the scores of each to `done` at once.

        Work that settings share counts towards the fit time of the first.
        """
        train = self.fold.train
        options: dict[str, Any] = {}
        if self.weights is not None:
            options["sample_weight"] = self.weights[train]
        # Accuracy among the held-out classes requires no other classes; a custom scorer might.
        only_accuracy = dict(self.scorers) == {"accuracy": None} and len(self.names) == 1
        only_unseen = only_accuracy and self.fold.unlabelled != "gzsl"
        if only_unseen and getattr(self.estimator, "synthesizes_independently", False):
            options["classes"] = images.unseen
        start = time.perf_counter()
        fitted = self.estimator.fit_grid(
            take_rows(self.X, train),
            self.y[train],
            signatures=self.table,
            settings=[self.settings[i] for i in wanted],
            **options,
        )
        for position, model in fitted:
            if wanted[position] in done:
                continue
            fit_end = time.perf_counter()
            with threads_for(2.0 * math.prod(self.X.shape) * len(model.classes_)):
                scores = self._measure(model, images)
            times = fit_end - start, time.perf_counter() - fit_end
            done[wanted[position]] = scores | dict(zip(TIMES, times, strict=True))
            if self.checkpoint is not None and self.checkpoint.is_due():
                self.checkpoint.write(_as_json(done))
            advance(1)
            start = time.perf_counter()

    def _measure(self, model: Any, images: FoldImages) -> dict[str, float]:
        """The values of `names` for a fitted estimator, and whether its scores are tied."""
        found: dict[str, float] = {}
        model = images.adapted(model)
        if "temperature" in self.names or None in self.scorers.values():
            scores = images.scores(model, with_scale="score_scale" in self.names)
            found |= {"score_scale": scores.scale, TIED: float(scores.is_tied())}
            factor = 0.0
            if "bias" in self.names:
                area, best, factor = scores.curve_summary()
                found |= {"ausuc": area, "harmonic_mean": best, "bias": factor}
            if "accuracy" in self.scorers:
                found["accuracy"] = scores.conventional().accuracy()
            if "temperature" in self.names:
                found["temperature"] = scores.temperature(factor)
        for name, function in self.scorers.items():
            if callable(function):
                given = (images.X_unseen, images.y_unseen, images.unseen)
                found[name] = float(function(model, *given))
        return {name: found[name] for name in self.names} | {TIED: found.get(TIED, math.nan)}


def _as_json(done: Mapping[int, Mapping[str, float]]) -> dict[str, dict[str, float | None]]:
    """Finished settings for a checkpoint."""
    return {
        str(index): {name: None if math.isnan(v) else v for name, v in scores.items()}
        for index, scores in done.items()
    }


def _path_parameters(estimator: Any) -> set[str]:
    """Hyper-parameters along which the solver warm-starts, including those of inner methods."""
    names = set(getattr(estimator, "path_parameters", ()))
    steps = getattr(estimator, "steps", None)
    at, inner = steps[-1] if steps else ("estimator", getattr(estimator, "estimator", None))
    if inner is not None:
        names |= {f"{at}__{name}" for name in _path_parameters(inner)}
    return names


def run_folds(
    tasks: Sequence[FoldTask], n_jobs: int | None, advance: Advance
) -> Iterator[FoldResult]:
    """Run tasks on a cluster inside :func:`on_cluster`, else in local processes."""
    backend, _ = joblib.parallel.get_active_backend()
    if n_jobs != 1 and type(backend).__name__ == "DaskDistributedBackend":
        running, in_process = _run_on_cluster(backend.client, tasks), False
    else:
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
        in_process = parallel.n_jobs in (None, 1)
        each = advance if in_process else None
        running = parallel(joblib.delayed(task.run)(each) for task in tasks)
    for result in running:
        # Other processes cannot advance the bar, so it advances once per fold.
        if not in_process:
            advance(len(tasks[0].settings))
        yield result


# On a dask cluster

# Training rows on each cluster by fingerprint: the searches of a benchmark share them.
_sent: weakref.WeakKeyDictionary[Any, tuple[str, Any]] = weakref.WeakKeyDictionary()


@contextmanager
def on_cluster(cluster: Any) -> Iterator[Any]:
    """Run the folds of searches in this context on a dask cluster.

    Training rows are sent once to every worker. If a worker dies, another one computes its folds,
    starting from their checkpoints if these are in a shared folder.

    Parameters
    ----------
    cluster : str, Client or Cluster
        Address of a scheduler, such as ``"tcp://head:8786"``, or an object of dask.distributed.

    Yields
    ------
    Client
        The client of dask.distributed; closed at the end unless it was given.

    Examples
    --------
    >>> from distributed import LocalCluster
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ZeroShotSearchCV, on_cluster
    >>> data = make_zero_shot(random_state=0)
    >>> search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0, 100.0]})
    >>> with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
    ...     with on_cluster(cluster):
    ...         search = search.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> search.n_splits_
    5
    """
    distributed = import_optional("distributed", "A dask cluster")
    is_own = not isinstance(cluster, distributed.Client)
    client = distributed.Client(cluster, set_as_default=True) if is_own else cluster
    try:
        with client.as_current(), joblib.parallel_config("dask"):
            yield client
    finally:
        if is_own:
            client.close()


def _run_on_cluster(client: Any, tasks: Sequence[FoldTask]) -> Iterator[FoldResult]:
    """Run tasks on a cluster."""
    lost = import_optional("distributed", "A dask cluster").CancelledError
    without_rows = [replace(task, X=None) for task in tasks]

    def submit(start: int) -> list[Any]:
        rows = _send(client, tasks[0].X)
        # Not pure: another search must not share the result of a task.
        return [client.submit(_run_task, task, rows, pure=False) for task in without_rows[start:]]

    futures = submit(0)
    try:
        for number in range(len(tasks)):
            for attempt in range(_MAX_ATTEMPTS):
                try:
                    result = futures[number].result()
                    break
                # All workers that had the rows have ended.
                except lost:
                    if attempt + 1 == _MAX_ATTEMPTS:
                        raise
                    _sent.pop(client, None)
                    futures[number:] = submit(number)
            yield result
    finally:
        client.cancel(futures)


def _send(client: Any, X: Any) -> Any:
    """A future of the rows on every worker; rows that are there already are not sent again."""
    key = fingerprint(X)
    known = _sent.get(client)
    if known is not None and known[0] == key and known[1].status == "finished":
        return known[1]
    future = client.scatter(X, broadcast=True, hash=False)
    _sent[client] = key, future
    return future


def _run_task(task: FoldTask, X: Any) -> FoldResult:
    """Compute one fold on a worker."""
    return replace(task, X=X).run()
