"""Evaluate fitted methods on data sets or on streams of images, and write streamed predictions."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax

from zslearn._utils._array import Floats, RowsInBlocks, to_numpy
from zslearn._utils._files import Checkpoint, locked
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._progress import progress_bar
from zslearn._utils._remote import (
    Location,
    located,
    n_rows_written,
    shards_failed,
    write_parquet,
)
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import FeatureBlocks, ZeroShotDataset
from zslearn.metrics import (
    HitCounts,
    ausuc,
    best_harmonic_mean,
    expected_calibration_error,
    generalized_accuracy,
    harmonic_mean,
    per_class_accuracy,
)
from zslearn.model_selection import fitted_as_zero_shot

#: Number of classes that a record lists as confused with a class.
_MOST_CONFUSED = 3
#: K of the F@K in records.
_KS = (2, 5, 10)
#: Longest line of a printed evaluation.
_WIDTH = 80


# Metrics of a fitted method on the test parts of a data set.


def conventional_metrics(
    model: Any, data: ZeroShotDataset, ks: Sequence[int] = _KS, *, hits_per_class: bool = False
) -> dict[str, float]:
    """Measure predictions of the test images of unseen classes among the unseen classes."""
    classes = data.unseen_classes
    ks = [at for at in ks if at <= len(classes)]
    hits = model.count_hits(
        data.X_test_unseen, data.y_test_unseen, k=max(ks, default=1), classes=classes
    )
    found = hits.measure(ks)
    del found["n_samples"]
    if hits_per_class:
        shares = (hits.hits.cumsum(axis=1) / hits.n_samples[:, None]).mean(axis=0)
        found |= {f"per_class_hit_at_{at}": float(shares[at - 1]) for at in ks}
    return found


def generalized_metrics(model: Any, data: ZeroShotDataset) -> dict[str, float]:
    """Measure predictions of all test images among all classes."""
    seen, unseen = (
        model.count_hits(X, y_true).per_class_accuracy()
        for X, y_true in (
            (data.X_test_seen, data.y_test_seen),
            (data.X_test_unseen, data.y_test_unseen),
        )
    )
    return {"seen": seen, "unseen": unseen, "harmonic": float(harmonic_mean(seen, unseen))}


@dataclass(frozen=True)
class GeneralizedScores:
    """Scores of all test images for all classes, without calibration or rejection.

    Rows follow `y_true`, images of seen classes first; columns follow `classes`.
    """

    y_true: NDArray[Any]
    scores: NDArray[Any]
    classes: NDArray[Any]
    seen_classes: NDArray[Any]

    @classmethod
    def of(cls, model: Any, data: ZeroShotDataset) -> GeneralizedScores:
        """Score the test parts of a data set with a method without calibration."""
        X = np.concatenate([data.X_test_seen, data.X_test_unseen])
        y_true = np.concatenate([data.y_test_seen, data.y_test_unseen])
        scores = to_numpy(model.decision_function(X, classes=model.classes_))
        return cls(y_true, scores, model.classes_, data.seen_classes)

    def predict(self, bias: float) -> NDArray[Any]:
        """Labels at a calibration factor; on a tie the unseen class wins."""
        is_seen = np.isin(self.classes, self.seen_classes)
        seen, unseen = (
            np.where(side, self.scores, -np.inf).argmax(axis=1) for side in (is_seen, ~is_seen)
        )
        rows = np.arange(len(self.scores))
        margin = self.scores[rows, seen] - self.scores[rows, unseen]
        return self.classes[np.where(margin > bias, seen, unseen)]

    def problem(self) -> dict[str, Any]:
        """Arguments of the metrics; classes without samples are candidates but in no mean."""
        return {**vars(self), "missing": "ignore"}

    def measure(self, bias: float) -> dict[str, float]:
        """Measure the generalized setting without calibration and at a calibration factor."""
        problem = self.problem()
        found: dict[str, float] = {}
        for prefix, factor in (("", 0.0), ("calibrated_", bias)):
            seen, unseen = map(float, generalized_accuracy(**problem, bias=factor))
            found |= {f"{prefix}seen": seen, f"{prefix}unseen": unseen}
            found[f"{prefix}harmonic"] = float(harmonic_mean(seen, unseen))
        best = float(best_harmonic_mean(**problem)[0])
        return found | {"ausuc": float(ausuc(**problem)), "harmonic_best": best}

    def calibration_errors(self, bias: float, temperature: float) -> dict[str, float]:
        """Expected calibration errors of probabilities, for a factor and a temperature."""
        is_seen = np.isin(self.classes, self.seen_classes)
        of_unseen = ~np.isin(self.y_true, self.seen_classes)
        of_all = softmax((self.scores - bias * is_seen) / temperature, axis=1)
        among_unseen = softmax(self.scores[of_unseen][:, ~is_seen] / temperature, axis=1)
        return {
            "expected_calibration_error": expected_calibration_error(
                self.y_true, of_all, classes=self.classes
            ),
            "unseen_expected_calibration_error": expected_calibration_error(
                self.y_true[of_unseen], among_unseen, classes=self.classes[~is_seen]
            ),
        }


def by_class(y_true: Any, predicted: Any, classes: Any) -> dict[str, Any]:
    """Accuracy of each class and its most frequent confusions, as fields of a record."""
    accuracies = per_class_accuracy(
        y_true, predicted, classes=classes, missing="ignore", average=None
    )
    per_class = {
        str(label): float(accuracy)
        for label, accuracy in zip(classes.tolist(), accuracies, strict=True)
        if np.isfinite(accuracy)
    }
    confused: dict[str, list[list[Any]]] = {}
    for label in np.unique(y_true):
        of_class = predicted[y_true == label]
        others, counts = np.unique(of_class[of_class != label], return_counts=True)
        worst = np.argsort(-counts, kind="stable")[:_MOST_CONFUSED]
        if worst.size:
            shares = (counts[worst] / len(of_class)).round(4).tolist()
            names = map(str, others[worst].tolist())
            confused[str(label)] = [list(pair) for pair in zip(names, shares, strict=True)]
    return {"per_class": per_class, "confused_with": confused}


def compact_curve(unseen: Floats, seen: Floats, bias: Floats) -> dict[str, list[Any]]:
    """A seen–unseen curve as a field of a record."""
    changes = np.append(True, (np.diff(unseen) != 0) | (np.diff(seen) != 0))
    factors = [float(f"{b:.6g}") if np.isfinite(b) else None for b in bias[changes].tolist()]
    return {
        "acc_unseen": unseen[changes].tolist(),
        "acc_seen": seen[changes].tolist(),
        "bias": factors,
    }


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Metrics of a method, from :func:`evaluate`. Printing it gives a short table.

    Parameters
    ----------
    method : str
        Name of the method.
    metrics : dict of str to float
        On a data set: "per_class_accuracy", "per_sample_accuracy" and "flat_hit_at_<k>" among the
        unseen classes; "seen", "unseen", "harmonic", "ausuc" and "harmonic_best" among all; and
        with a calibration factor "calibrated_seen", "calibrated_unseen", "calibrated_harmonic",
        "expected_calibration_error" and "unseen_expected_calibration_error". On a stream: those of
        :meth:`~zslearn.metrics.HitCounts.measure`. Rejected images count by their first guess.
    bias, seconds : float or None
        Calibration factor and time of one fit; None if the method was already fitted.
    model : zero-shot estimator
        The fitted method.
    generalized : GeneralizedScores or None
        Scores that curves are drawn from; None for a stream.
    dataset : str, default=""
        Name and split of the data set.
    """

    method: str
    metrics: dict[str, float]
    bias: float | None
    seconds: float | None
    model: Any
    generalized: GeneralizedScores | None
    dataset: str = ""

    def __repr__(self) -> str:
        found = {name: f"{value:.3f}" for name, value in self.metrics.items()}
        among = "images, chosen among the candidates"
        lines = [
            f"<Evaluation of {self.method}{f' on {self.dataset}' if self.dataset else ''}>",
            f"  {among if self.generalized is None else 'unseen classes, chosen among these'}",
            f"    accuracy        {found['per_class_accuracy']} per class, "
            f"{found['per_sample_accuracy']} per sample",
        ]
        hits = [f"{n.rpartition('_')[2]}: {text}" for n, text in found.items() if "flat_hit" in n]
        if hits:
            lines.append(f"    among the best  {', '.join(hits)}")
        if "harmonic" in found:
            calibrated = "  calibrated" if self.bias is not None else ""
            lines.append(f"  all classes       without calibration{calibrated}")
            for name in ("seen", "unseen", "harmonic"):
                title = "harmonic mean" if name == "harmonic" else name
                line = f"    {title:<15} {found[name]:<20} {found.get(f'calibrated_{name}', '')}"
                lines.append(line.rstrip())
        if "ausuc" in found:
            lines.append(f"    AUSUC           {found['ausuc']}")
        if self.bias is not None:
            lines.append(f"    ECE             {'':<20} {found['expected_calibration_error']}")
            lines.append(f"  calibration factor {self.bias:.4g}; fitted in {self.seconds:.2g} s")
        # A long name is truncated, a number never.
        return "\n".join(
            line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]}…>" for line in lines
        )


def evaluate(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    name: str | None = None,
    cv: int = 5,
    classes: Any = None,
    k: Sequence[int] = (1, 2, 5, 10),
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Evaluation:
    """Evaluate a method on both test parts of a data set, or on a stream of images.

    On a data set, an unfitted method is fitted on the training part and its calibration factor
    estimated on held-out seen classes, so nothing is chosen on test images. A fitted method is
    measured as it is. Counts of the blocks of a stream are summed.

    Parameters
    ----------
    model : zero-shot estimator
        The method. An unfitted one is cloned.
    data : ZeroShotDataset, FeatureBlocks, dask array, array, DataFrame, or iterable of (X, y)
        Data set with its active split, or features of shape (n_samples, n_features), which need a
        fitted model.
    y : array-like or dask array of shape (n_samples,), optional
        Labels of the features; by default those of a FeatureBlocks.
    name : str, optional
        Name of the method, for tables; by default that of its class and of its inner method.
    cv : int, default=5
        Folds over the seen classes for the calibration factor.
    classes : array-like of labels, optional
        Candidates for streamed images; by default `classes_`, the generalized setting.
    k : sequence of int, default=(1, 2, 5, 10)
        K of the F@K; those above the number of candidates are omitted.
    checkpoint : path, optional
        File for the counts so far, from which an interrupted evaluation of a FeatureBlocks resumes.
    progress : bool, default=False
        Whether to show a progress bar for a FeatureBlocks.

    Returns
    -------
    Evaluation
        The metrics and the fitted method.

    See Also
    --------
    write_top_k : Write the predictions of a stream to files.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import FeatureBlocks, make_zero_shot
    >>> from zslearn.experiments import evaluate
    >>> data = make_zero_shot(random_state=0)
    >>> found = evaluate(ESZSL(), data)
    >>> round(found.metrics["per_class_accuracy"], 3), round(found.metrics["harmonic"], 2)
    (0.887, 0.68)
    >>> test = FeatureBlocks(data.X_test_unseen, data.y_test_unseen)
    >>> streamed = evaluate(found.model, test, classes=data.unseen_classes, k=[1, 2])
    >>> round(streamed.metrics["per_class_accuracy"], 3)
    0.887
    """
    title = _name_of(model) if name is None else name
    if not isinstance(data, ZeroShotDataset):
        model = fitted_as_zero_shot(model)
        ks = [at for at in k if at <= len(model.classes_ if classes is None else classes)]
        counts = _count(model, data, y, classes, max(ks, default=1), checkpoint, progress)
        metrics = counts.measure(ks, model.seen_classes_ if classes is None else None)
        return Evaluation(title, metrics, None, None, model, None)
    of = f"{data.name}, split {data.split}"
    stacked = None
    if not hasattr(model, "class_scorer_"):
        stacked = CalibratedStacking(model, temperature="cv", cv=cv).fit(
            data.X_train, data.y_train, signatures=data.signatures
        )
        model = stacked.estimator_
    generalized = GeneralizedScores.of(model, data)
    metrics = conventional_metrics(model, data, k)
    metrics |= generalized.measure(0.0 if stacked is None else stacked.bias_)
    metrics |= generalized_metrics(model, data)
    if stacked is None:
        metrics = {n: v for n, v in metrics.items() if not n.startswith("calibrated_")}
        return Evaluation(title, metrics, None, None, model, generalized, of)
    metrics |= generalized.calibration_errors(stacked.bias_, stacked.temperature_)
    return Evaluation(title, metrics, stacked.bias_, stacked.refit_time_, model, generalized, of)


def _name_of(estimator: Any) -> str:
    """Class name of a method with that of its inner method: "EXEM (ESZSL)"."""
    inner = getattr(estimator, "estimator", None)
    name = type(estimator).__name__
    return name if inner is None else f"{name} ({_name_of(inner)})"


# Streams of images: count hits, or write predictions to files.


def _count(
    model: Any,
    X: Any,
    y: Any,
    classes: Any,
    k: int,
    checkpoint: str | os.PathLike[str] | None,
    progress: bool,
) -> HitCounts:
    """Count the hits of streamed images, resuming from a checkpoint."""
    is_pairs = isinstance(X, Iterable) and not hasattr(X, "shape") and y is None
    # A table is turned into numbers as a whole.
    is_whole = hasattr(X, "dask") or hasattr(X, "columns")
    if checkpoint is not None and (is_pairs or is_whole):
        raise ValueError("checkpoint= needs features on disk, whose rows have a fixed order.")
    counts: HitCounts | None = None
    if is_whole or is_pairs:
        for rows, labels in X if is_pairs else [(X, y)]:
            found = model.count_hits(rows, labels, k=k, classes=classes)
            counts = found if counts is None else counts + found
    else:
        X, y = _as_blocks(X), None if y is None else to_numpy(y)
        if y is not None and len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows and y has {len(y)} labels.")
        if y is None and not X.has_labels:
            raise ValueError("X has no labels: pass y=, or labels= when opening the files.")
        key = "" if checkpoint is None else _key(model, X, classes, k, y)
        kept = Checkpoint(None if checkpoint is None else Path(checkpoint), key)
        n_done, before = kept.read() or (0, None)
        counts = None if before is None else HitCounts.from_dict(before)
        with closing(X.blocks(n_done)) as blocks, progress_bar(progress, len(X), "rows") as advance:
            advance(n_done)
            try:
                for start, rows, own in blocks:
                    labels = own if y is None else y[start : start + len(rows)]
                    found = model.count_hits(rows, labels, k=k, classes=classes)
                    # One assignment, so that an interrupt never sees one without the other.
                    counts, n_done = found if counts is None else counts + found, start + len(rows)
                    advance(len(rows))
                    if kept.is_due():
                        kept.write((n_done, counts.as_dict()))
            finally:
                # Also after Ctrl-C, so that finished blocks are kept.
                if counts is not None:
                    kept.write((n_done, counts.as_dict()))
    if counts is None:
        raise ValueError("There are no images to evaluate: the features have no rows.")
    return counts


def _as_blocks(X: Any) -> RowsInBlocks:
    if isinstance(X, RowsInBlocks):
        return X
    return FeatureBlocks(X if hasattr(X, "dtype") else np.asarray(X), allow_nan=True)


def _key(model: Any, X: Any, classes: Any, *others: Any) -> str:
    """Digest of the files and of the model, which its scores of a few random rows identify."""
    candidates = model.classes_ if classes is None else np.asarray(to_numpy(classes))
    probe = np.random.default_rng(0).standard_normal((3, X.shape[1]))
    scores = np.asarray(to_numpy(model.decision_function(probe, classes=candidates)), dtype=float)
    # Rounded, since the number of threads may change the last digits.
    scores = np.round(scores / (np.abs(scores).max() or 1.0), 6)
    rejects = getattr(model, "threshold_", None), getattr(model, "statistic", None)
    return fingerprint(
        source_digest(), X.fingerprint(), X.shape, candidates, scores, rejects, *others
    )


def write_top_k(
    model: Any,
    X: Any,
    folder: str | os.PathLike[str],
    *,
    k: int = 5,
    classes: Any = None,
    resume: bool = True,
    progress: bool = False,
) -> Path | str:
    """Predict the best classes of many images and write them to Parquet files block by block.

    Memory holds one block of rows and its predictions. Each block becomes a file
    ``part-<first row>.parquet`` with the columns ``label_1``, ``score_1``, ``label_2``, …, best
    class first; ``pandas.read_parquet(folder)`` reads them all in row order. A file has its name
    only when it is whole, so an interrupted call resumes. A shard of `X` that cannot be read does
    not stop the others: the error at the end names it, and a further call adds what is missing.
    Needs pyarrow. :ref:`cluster` has an example.

    Parameters
    ----------
    model : zero-shot estimator
        A fitted method.
    X : FeatureBlocks, or array of shape (n_samples, n_features)
        Features on disk, or an array that is sliced by rows.
    folder : path or URL
        Folder for the files; created if needed. URLs such as ``s3://bucket/folder`` need fsspec and
        have no lock: let only one process write to one.
    k : int, default=5
        Number of classes per image.
    classes : array-like of labels, optional
        Candidates; by default `classes_`.
    resume : bool, default=True
        Whether to keep finished files of the same model and features.
    progress : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Path or str
        The folder; a URL as a string.

    See Also
    --------
    evaluate : Accuracies of a stream.
    """
    if hasattr(X, "dask"):
        raise TypeError(
            "write_top_k reads rows in order. For a dask array predict_top_k is lazy: write its "
            "result with to_zarr or to_npy_stack."
        )
    X, model, place = _as_blocks(X), fitted_as_zero_shot(model), located(folder)
    # Raises for another number of features, unknown classes or an impossible k.
    model.predict_top_k(np.zeros((1, X.shape[1])), k, classes=classes)
    key = _key(model, X, classes, k)
    failed: list[Exception] = []
    with (
        locked(place / "predictions") if isinstance(place, Path) else nullcontext(),
        progress_bar(progress, len(X), "rows") as advance,
    ):
        done = _finished_parts(place, key, resume)
        advance(sum(done.values()))
        with closing(_unwritten(X, done, failed)) as blocks:
            for start, rows in blocks:
                labels, scores = model.predict_top_k(rows, k, classes=classes)
                scores = to_numpy(scores)
                columns = {}
                for rank in range(k):
                    columns[f"label_{rank + 1}"] = labels[:, rank]
                    columns[f"score_{rank + 1}"] = scores[:, rank]
                name = f"part-{start:012}.parquet"
                write_parquet(pd.DataFrame(columns), place, name, f"{key} {start}")
                advance(len(rows))
    if failed:
        raise shards_failed(failed, place)
    return place if isinstance(place, Path) else str(folder)


def _finished_parts(folder: Location, key: str, resume: bool) -> dict[int, int]:
    """First row → number of rows of the parts in a folder; others are removed."""
    done: dict[int, int] = {}
    end = 0
    parts: list[Location] = sorted(folder.iterdir(), key=str)
    for path in parts:
        if not (match := re.fullmatch(r"part-(\d{12})\.parquet", path.name)):
            continue
        start = int(match[1])
        n_rows = n_rows_written(path, f"{key} {start}")
        if n_rows is None or not resume or start < end:
            path.unlink()
        else:
            done[start], end = n_rows, start + n_rows
    return done


def _unwritten(
    X: Any, done: dict[int, int], failed: list[Exception]
) -> Generator[tuple[int, NDArray[Any]]]:
    """Read the rows that are in no part; a shard that cannot be read is left out."""
    at = 0
    while at < len(X):
        if at in done:
            at += done[at]
            continue
        stop = min((start for start in done if start > at), default=len(X))
        with closing(X.blocks(at)) as blocks:
            try:
                for _, rows, _ in blocks:
                    rows = rows[: stop - at]
                    yield at, rows
                    at += len(rows)
                    if at == stop:
                        break
            except (OSError, ValueError) as error:
                failed.append(error)
                at = next(end for end in X.shard_ends if end > at)
