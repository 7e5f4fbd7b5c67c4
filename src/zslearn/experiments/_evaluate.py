"""Fitted methods measured: on a data set in both settings, or on images read block by block.

Also predictions of many images that are written as they are found (:func:`write_top_k`). What was
stopped, even by force, goes on where it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from zslearn._scoring._blocks import check_k
from zslearn._scoring._probabilities import softmax
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import Floats, to_numpy
from zslearn._utils._blocks import Block, RowsInBlocks
from zslearn._utils._files import Checkpoint, locked, replacing
from zslearn._utils._fit_cache import fingerprint, source_digest
from zslearn._utils._messages import plain, warn_user
from zslearn._utils._progress import progress_bar
from zslearn.base._pipeline import fitted_as_zero_shot
from zslearn.base._predictor import _score_dtype, count_block, top_labels
from zslearn.base._streams import is_dask, stream_samples
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.datasets import FeatureBlocks, ZeroShotDataset
from zslearn.metrics import (
    HitCounts,
    ausuc,
    best_harmonic_mean,
    expected_calibration_error,
    flat_hit_at_k,
    generalized_accuracy,
    harmonic_mean,
    per_class_accuracy,
    per_sample_accuracy,
)

#: So many other classes a record names beside a class.
_MOST_CONFUSED = 3
#: Which F@K records have.
_KS = (2, 5, 10)
#: How wide a line of a printout may be.
_WIDTH = 80


# Measures of a fitted method on the test parts of a data set.


def conventional_metrics(
    model: Any, data: ZeroShotDataset, ks: Sequence[int] = _KS
) -> dict[str, float]:
    """Measure a fitted method on images of unseen classes, chosen among these."""
    return ranked_metrics(data.y_test_unseen, rank_unseen(model, data, ks), ks)


def rank_unseen(model: Any, data: ZeroShotDataset, ks: Sequence[int] = _KS) -> NDArray[Any]:
    """The best classes of images of unseen classes, chosen among these."""
    classes = data.unseen_classes
    k = max((at for at in ks if at <= len(classes)), default=1)
    return top_labels(model, data.X_test_unseen, k, classes)


def ranked_metrics(
    y_true: NDArray[Any], top: NDArray[Any], ks: Sequence[int] = _KS
) -> dict[str, float]:
    """Accuracies of the best class, and F@K of so many as were ranked."""
    found = {
        "per_class_accuracy": float(per_class_accuracy(y_true, top[:, 0])),
        "per_sample_accuracy": float(per_sample_accuracy(y_true, top[:, 0])),
    }
    hits = (at for at in ks if 1 < at <= top.shape[1])
    return found | {f"flat_hit_at_{at}": float(flat_hit_at_k(y_true, top, at)) for at in hits}


def per_class_hits(
    y_true: NDArray[Any], top: NDArray[Any], ks: Sequence[int] = _KS
) -> dict[str, float]:
    """The same hits as F@K, per class."""
    found = {}
    for at in (at for at in ks if 1 < at <= top.shape[1]):
        is_hit = (top[:, :at] == y_true[:, None]).any(axis=1)
        right = np.where(is_hit, y_true, top[:, 0])
        found[f"per_class_hit_at_{at}"] = float(per_class_accuracy(y_true, right))
    return found


def generalized_metrics(model: Any, data: ZeroShotDataset) -> dict[str, float]:
    """Measure what a fitted method predicts of all test images, among all classes."""
    seen, unseen = (
        float(per_class_accuracy(y_true, top_labels(model, X, 1)[:, 0]))
        for X, y_true in (
            (data.X_test_seen, data.y_test_seen),
            (data.X_test_unseen, data.y_test_unseen),
        )
    )
    return {"seen": seen, "unseen": unseen, "harmonic": float(harmonic_mean(seen, unseen))}


@dataclass(frozen=True)
class GeneralizedScores:
    """Scores of all test images against all classes, without calibration or rejection.

    Rows follow `y_true`, images of seen classes first; columns follow `classes`.
    """

    y_true: NDArray[Any]
    scores: NDArray[Any]
    classes: NDArray[Any]
    seen_classes: NDArray[Any]

    @classmethod
    def of(cls, model: Any, data: ZeroShotDataset) -> GeneralizedScores:
        """Score the test parts of a data set by a method without calibration."""
        X = np.concatenate([data.X_test_seen, data.X_test_unseen])
        y_true = np.concatenate([data.y_test_seen, data.y_test_unseen])
        scores = to_numpy(model.decision_function(X, classes=model.classes_))
        return cls(y_true, scores, model.classes_, model.seen_classes_)

    def predict(self, bias: float) -> NDArray[Any]:
        """The labels at a calibration factor; on a tie with it the unseen class wins."""
        is_seen = np.isin(self.classes, self.seen_classes)
        seen, unseen = (
            np.where(side, self.scores, -np.inf).argmax(axis=1) for side in (is_seen, ~is_seen)
        )
        rows = np.arange(len(self.scores))
        margin = self.scores[rows, seen] - self.scores[rows, unseen]
        return self.classes[np.where(margin > bias, seen, unseen)]

    def problem(self) -> dict[str, Any]:
        """Arguments of the metrics; a class without samples is a candidate, and in no mean."""
        return {**vars(self), "missing": "ignore"}

    def measure(self, bias: float) -> dict[str, float]:
        """Measure the generalized setting, without calibration and at a factor."""
        problem = self.problem()
        seen, unseen = generalized_accuracy(**problem)
        calibrated_seen, calibrated_unseen = generalized_accuracy(**problem, bias=bias)
        return {
            "seen": float(seen),
            "unseen": float(unseen),
            "harmonic": float(harmonic_mean(seen, unseen)),
            "calibrated_seen": float(calibrated_seen),
            "calibrated_unseen": float(calibrated_unseen),
            "calibrated_harmonic": float(harmonic_mean(calibrated_seen, calibrated_unseen)),
            "ausuc": float(ausuc(**problem)),
            "harmonic_best": float(best_harmonic_mean(**problem)[0]),
        }

    def calibration_errors(self, bias: float, temperature: float) -> dict[str, float]:
        """Measure how honest the probabilities at a factor and a temperature are."""
        is_seen = np.isin(self.classes, self.seen_classes)
        of_unseen = ~np.isin(self.y_true, self.seen_classes)
        chances = softmax(self.scores - bias * is_seen, temperature)
        among_unseen = softmax(self.scores[of_unseen][:, ~is_seen], temperature)
        unseen = self.classes[~is_seen]
        return {
            "expected_calibration_error": expected_calibration_error(
                self.y_true, chances, classes=self.classes
            ),
            "unseen_expected_calibration_error": expected_calibration_error(
                self.y_true[of_unseen], among_unseen, classes=unseen
            ),
        }


def by_class(y_true: Any, predicted: Any, classes: Any) -> dict[str, Any]:
    """Of each class the accuracy, and what it was most often taken for, as records keep them."""
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
    """A seen–unseen curve as a record keeps it."""
    changes = np.append(True, (np.diff(unseen) != 0) | (np.diff(seen) != 0))
    factors = [float(f"{b:.6g}") if np.isfinite(b) else None for b in bias[changes].tolist()]
    return {
        "acc_unseen": unseen[changes].tolist(),
        "acc_seen": seen[changes].tolist(),
        "bias": factors,
    }


@dataclass(frozen=True, repr=False)
class Evaluation:
    """What :func:`evaluate` measured. Printed, it fits a screen.

    Parameters
    ----------
    method : str
        Name of the method.
    metrics : dict of str to float
        On a data set: "per_class_accuracy", "per_sample_accuracy" and "flat_hit_at_<k>" among the
        unseen classes; "seen", "unseen", "harmonic", "ausuc" and "harmonic_best" among all; and
        "calibrated_seen", "calibrated_unseen", "calibrated_harmonic", "expected_calibration_error"
        and "unseen_expected_calibration_error" at the calibration factor. On streamed images:
        "n_samples", "per_class_accuracy", "per_sample_accuracy", "flat_hit_at_<k>"; where all
        classes are candidates and there are images of both kinds also "seen", "unseen" and
        "harmonic". Where a model rejects images
        (:class:`~zslearn.calibration.NoneOfThese`), that is its first guess; "ausuc",
        "harmonic_best" and what is calibrated are of its scores.
    bias : float or None
        Calibration factor, found on the training data; None where the model was fitted before.
    seconds : float or None
        Time to fit the method once; None where it was fitted before.
    model : zero-shot estimator
        The fitted one.
    generalized : GeneralizedScores or None
        What curves are drawn from; None for streamed images.
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
        on = f" on {self.dataset}" if self.dataset else ""
        found = {name: f"{value:.3f}" for name, value in self.metrics.items()}
        hits = {name.removeprefix("flat_hit_at_"): name for name in found if "flat_hit" in name}
        of = "images, chosen among the candidates"
        lines = [
            f"<Evaluation of {self.method}{on}>",
            f"  {of if self.generalized is None else 'unseen classes, chosen among these'}",
            f"    accuracy        {found['per_class_accuracy']} per class, "
            f"{found['per_sample_accuracy']} per sample",
        ]
        if hits:
            shares = ", ".join(f"{k}: {found[name]}" for k, name in hits.items())
            lines.append(f"    among the best  {shares}")
        if "harmonic" in found:
            calibrated = "  calibrated" if self.bias is not None else ""
            lines.append(f"  all classes       without calibration{calibrated}")
            for name, title in (
                ("seen", "seen"),
                ("unseen", "unseen"),
                ("harmonic", "harmonic mean"),
            ):
                line = f"    {title:<15} {found[name]:<20} {found.get(f'calibrated_{name}', '')}"
                lines.append(line.rstrip())
        if "ausuc" in found:
            lines.append(f"    AUSUC           {found['ausuc']}")
        if "expected_calibration_error" in found:
            lines.append(f"    ECE             {'':<20} {found['expected_calibration_error']}")
        if self.bias is not None:
            lines.append(f"  calibration factor {self.bias:.4g}; fitted in {self.seconds:.2g} s")
        # A long name of one's own is cut, never a number.
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
    """Measure a method: on both test parts of a data set, or on images read block by block.

    On a data set, a method that is not fitted yet is fitted on the training part, and its
    calibration factor found by leaving out seen classes: nothing is chosen on test images. A fitted
    one is measured as it is. Of streamed images the counts of each block are added up, so that
    the accuracies are those of all images together.

    Parameters
    ----------
    model : zero-shot estimator
        The method. A clone of one that is not fitted is fitted.
    data : ZeroShotDataset, FeatureBlocks, dask array, array, or iterable of (X, y)
        The data set, with its active split; or features of shape (n_samples, n_features), which
        take a fitted model. Blocks of a dask array are counted where they lie.
    y : array-like or dask array of shape (n_samples,), optional
        Labels of the features; by default those of a FeatureBlocks.
    name : str or None, default=None
        Name of the method, for tables; by default that of its class, with that of an inner method.
    cv : int, default=5
        Folds over the seen classes for the calibration factor.
    classes : array-like of labels, optional
        The candidates of streamed images; by default every class in `classes_`, the generalized
        setting.
    k : sequence of int, default=(1, 2, 5, 10)
        Which F@K; those above the number of candidates are left out.
    checkpoint : path, optional
        A file in which the counts of a FeatureBlocks so far are kept; an evaluation that was
        stopped goes on from there.
    progress : bool, default=False
        Whether a bar shows how far a FeatureBlocks is read.

    Returns
    -------
    Evaluation
        Every number in `metrics`, and the fitted method.

    See Also
    --------
    write_top_k : Predictions themselves, in files.

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
        counted = _count(model, data, y, classes, k, checkpoint, progress)
        return Evaluation(title, counted, None, None, model, None)
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
    """The name of a method's class, with that of an inner method: "EXEM (ESZSL)"."""
    inner = getattr(estimator, "estimator", None)
    name = type(estimator).__name__
    return name if inner is None else f"{name} ({_name_of(inner)})"


# Hits of images that never lie in memory together.


def _count(
    model: Any,
    X: Any,
    y: Any,
    classes: Any,
    k: Sequence[int],
    checkpoint: str | os.PathLike[str] | None,
    progress: bool,
) -> dict[str, float]:
    """Accuracies of streamed images; what was counted before is not counted again."""
    is_iterable = isinstance(X, Iterable) and not hasattr(X, "shape") and y is None
    X = X if is_iterable or is_dask(X) else _as_blocks(X)
    scorer, candidates = _scorer(model, None if is_iterable else X, classes)
    ks = [at for at in k if at <= len(candidates)]
    shared = model, max(ks, default=1), None if classes is None else candidates
    counts: HitCounts | None = None
    if checkpoint is not None and not isinstance(X, RowsInBlocks):
        raise ValueError("checkpoint= is for features on disk, which have an order.")
    if is_dask(X):
        counts = stream_samples(X, y, None).reduce(count_block, shared)
    elif is_iterable:
        for rows, labels in X:
            counts = _added(counts, count_block(0, rows, to_numpy(labels), None, shared))
    else:
        labels = None if y is None else to_numpy(y)
        if labels is not None and len(labels) != len(X):
            raise ValueError(f"X has {len(X)} rows and y has {len(labels)} labels.")
        if labels is None and not X.has_labels:
            raise ValueError("X has no labels: give y, or labels= where the files are opened.")
        rejects = getattr(model, "threshold_", None), getattr(model, "statistic", None)
        key = "" if checkpoint is None else _key(scorer, X, candidates, k, labels, rejects)
        kept = Checkpoint(None if checkpoint is None else Path(checkpoint), key)
        first, before = kept.read() or (0, None)
        # Rows and their counts are replaced together, whatever interrupts.
        done = first, None if before is None else HitCounts.from_dict(before)
        with closing(
            _saved(X, first, kept, lambda: (done[0], done[1] and done[1].as_dict()), progress)
        ) as blocks:
            for start, rows, own in blocks:
                true = own if labels is None else labels[start : start + len(rows)]
                found = count_block(start, rows, true, None, shared)
                done = start + len(rows), _added(done[1], found)
        counts = done[1]
    if counts is None:
        raise ValueError("There are no images to measure: the features have no rows.")
    model._check_true_labels(counts.classes, scorer, classes)
    return counts.measure(ks, model.seen_classes_ if classes is None else None)


def _added(counts: HitCounts | None, found: HitCounts | None) -> HitCounts | None:
    return found if counts is None else counts if found is None else counts + found


def _as_blocks(X: Any) -> RowsInBlocks:
    if isinstance(X, RowsInBlocks):
        return X
    return FeatureBlocks(X if hasattr(X, "dtype") else np.asarray(X), allow_nan=True)


def _scorer(model: Any, X: Any, classes: Any) -> tuple[ClassScorer, NDArray[Any]]:
    """The scorer of a fitted model, and the labels of the candidates in its order."""
    scorer: ClassScorer = model.class_scorer_
    if X is not None:
        model._check_stream(X)
    if classes is None:
        return scorer, scorer.labels
    return scorer, scorer.labels[np.sort(find_classes(classes, scorer.labels))]


def _key(scorer: ClassScorer, X: Any, candidates: NDArray[Any], *others: Any) -> str:
    """What predictions depend on: the model, by what it does to a few rows, and the files."""
    probe = np.random.default_rng(0).standard_normal((3, X.shape[1]))
    embedded = np.asarray(to_numpy(scorer.embedding(probe)), dtype=np.float64)
    # Another number of threads may change the last digits.
    scale = float(np.abs(embedded).max()) or 1.0
    return fingerprint(
        source_digest(), X.fingerprint(), X.shape, candidates, np.round(embedded / scale, 6),
        scorer.labels, to_numpy(scorer.parameters), scorer.score, scorer.bias, scorer.precedence,
        *others,
    )  # fmt: skip


def _saved(
    X: Any, start: int, checkpoint: Checkpoint, done: Callable[[], Any], progress: bool
) -> Generator[Block, None, None]:
    """Blocks from a row on; what is done is made to last now and then, and at the end."""
    with progress_bar(progress, len(X), "rows") as advance:
        advance(start)
        try:
            for block in X.blocks(start):
                yield block
                advance(len(block.rows))
                if checkpoint.is_due():
                    checkpoint.write(done())
        finally:
            # Also after Ctrl-C: what is finished is not lost.
            checkpoint.write(done())


# Predictions of many images in files.


class Predictions(NamedTuple):
    """The best classes of many images: positions in `classes`, best first, and their scores."""

    indices: NDArray[np.int32]
    scores: NDArray[Any]
    classes: NDArray[Any]

    def labels(self, rows: Any = slice(None)) -> NDArray[Any]:
        """Labels of some rows, by default of all."""
        return self.classes[self.indices[rows]]


def read_top_k(folder: str | os.PathLike[str]) -> Predictions:
    """Read what :func:`write_top_k` wrote to the end.

    Parameters
    ----------
    folder : path
        Where it was written.

    Returns
    -------
    Predictions
        As memory maps.

    Raises
    ------
    FileNotFoundError
        It was not finished; :func:`write_top_k` goes on with it.
    ValueError
        The files are damaged.
    """
    folder = Path(folder)
    if not (folder / "scores.npy").is_file():
        raise FileNotFoundError(
            f"{folder} holds no finished predictions; write_top_k with the same arguments finishes "
            "what was begun."
        )
    damaged = f"{plain(folder)}: the predictions are damaged; write_top_k makes them anew."
    try:
        indices = np.load(folder / "indices.npy", mmap_mode="r", allow_pickle=False)
        scores = np.load(folder / "scores.npy", mmap_mode="r", allow_pickle=False)
        classes = np.load(folder / "classes.npy", allow_pickle=False)
    # The parser of NumPy's headers raises errors of many kinds.
    except Exception as error:
        raise ValueError(damaged) from error
    is_sound = (
        indices.dtype == np.int32
        and indices.ndim == 2
        and scores.shape == indices.shape
        and scores.dtype.kind == "f"
        and classes.ndim == 1
        and (not indices.size or (indices.min() >= 0 and indices.max() < len(classes)))
    )
    if not is_sound:
        raise ValueError(damaged)
    return Predictions(indices, scores, classes)


def write_top_k(
    model: Any,
    X: Any,
    folder: str | os.PathLike[str],
    *,
    k: int = 5,
    classes: Any = None,
    resume: bool = True,
    progress: bool = False,
) -> Predictions:
    """Name the best classes of many images, and write them to files as they are found.

    Memory holds one block of rows and its predictions. What was stopped, even by force, goes on
    where it was; files get their names when they are whole. :ref:`cluster` has an example.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    X : FeatureBlocks, or array of shape (n_samples, n_features)
        Features: on disk, or an array that is sliced by rows.
    folder : path
        Where ``indices.npy``, ``scores.npy`` and ``classes.npy`` are written; it is made.
    k : int, default=5
        How many classes.
    classes : array-like of labels, optional
        The candidates; by default every class in `classes_`.
    resume : bool, default=True
        Whether rows that are finished are kept. Those of another model or of other files never are.
    progress : bool, default=False
        Whether a bar shows how far it is.

    Returns
    -------
    Predictions
        What was written.

    See Also
    --------
    read_top_k : Read them again.
    evaluate : Accuracies alone.
    """
    if is_dask(X):
        raise TypeError(
            "write_top_k reads files in their order. Of a dask array predict_top_k is lazy: write "
            "what it gives with to_zarr or to_npy_stack."
        )
    X = _as_blocks(X)
    scorer, candidates = _scorer(fitted_as_zero_shot(model), X, classes)
    check_k(k, len(candidates))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint(folder / "state.json", _key(scorer, X, candidates, k))
    n_done = (checkpoint.read() or 0) if resume else 0
    if n_done == len(X) and (folder / "scores.npy").is_file():
        try:
            return read_top_k(folder)
        except ValueError as error:
            warn_user(f"{error} They are computed again.")
            n_done = 0
    (folder / "scores.npy").unlink(missing_ok=True)
    with ExitStack() as stack:
        stack.enter_context(locked(folder / "scores.npy"))
        indices, scores = (
            stack.enter_context(GrowingArray(folder / f"{name}.npy", (len(X), k), kind))
            for name, kind in (("indices", np.int32), ("scores", _score_dtype(scorer, X)))
        )
        n_done = min(n_done, indices.n_rows(), scores.n_rows())
        for file in (indices, scores):
            file.begin(n_done)

        def done() -> int:
            # What the checkpoint names is on the disk before it.
            indices.sync()
            scores.sync()
            return n_done

        with closing(_saved(X, n_done, checkpoint, done, progress)) as blocks:
            for start, rows, _ in blocks:
                labels, values = scorer.top_k(rows, k, candidates)
                indices.append(np.searchsorted(candidates, labels))
                scores.append(to_numpy(values))
                n_done = start + len(rows)
        with replacing(folder / "classes.npy") as temporary:
            text = candidates.astype(str) if candidates.dtype.kind == "O" else candidates
            np.save(temporary, text, allow_pickle=False)
        indices.finish()
        # The last: where it has its name, all have theirs.
        scores.finish()
    return read_top_k(folder)


class GrowingArray:
    """A file ``.npy`` of a known shape that is written from the first row to the last.

    Until it is whole it lies beside its name, with the ending ``.part``.
    """

    def __init__(self, path: Path, shape: tuple[int, int], dtype: Any) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self._part = path.with_name(f"{path.name}.part")
        header = BytesIO()
        described = {"shape": shape, "fortran_order": False, "descr": self.dtype.str}
        npy.write_array_header_1_0(header, described)
        self._header = header.getvalue()
        self._row_bytes = shape[1] * self.dtype.itemsize
        self._size = len(self._header) + shape[0] * self._row_bytes
        self._part.touch()
        self._file = open(self._part, "r+b")  # noqa: SIM115 (closed by __exit__)

    def n_rows(self) -> int:
        """Whole rows of this array that are there already."""
        self._file.seek(0)
        if self._file.read(len(self._header)) != self._header:
            return 0
        return (self._file.seek(0, os.SEEK_END) - len(self._header)) // self._row_bytes

    def begin(self, n_done: int) -> None:
        """Keep some rows and cut off what follows them."""
        self._file.seek(0)
        self._file.write(self._header)
        self._file.truncate(len(self._header) + n_done * self._row_bytes)
        self._file.seek(0, os.SEEK_END)

    def append(self, rows: NDArray[Any]) -> None:
        """Write the next rows."""
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).tobytes())

    def sync(self) -> None:
        """Make what was written last."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Give the whole array its name."""
        self.sync()
        if self._file.tell() != self._size:
            raise ValueError(f"{self._part}: not all rows were written.")
        self._file.close()
        os.replace(self._part, self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
