"""One fitted method on the test parts of one data set."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, ParamSpec, Self, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from zslearn._scoring._probabilities import softmax
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import to_numpy
from zslearn._utils._blocks import Block
from zslearn._utils._files import (
    DamagedFileError,
    fingerprint,
    read_checked_json,
    replacing,
    write_checked_json,
)
from zslearn._utils._messages import name_some, plain, warn_user
from zslearn._utils._progress import progress_bar
from zslearn._version import __version__
from zslearn.base._predictor import count_block, stream_hits
from zslearn.base._streams import is_dask
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._feature_blocks import FeatureBlocks
from zslearn.metrics._accuracy import (
    flat_hit_at_k,
    harmonic_mean,
    per_class_accuracy,
    per_sample_accuracy,
)
from zslearn.metrics._counts import HitCounts
from zslearn.metrics._curve import ausuc, best_harmonic_mean, generalized_accuracy
from zslearn.metrics._reliability import expected_calibration_error

# Predictions of many images in files: what they are, and reading them.


class Predictions(NamedTuple):
    """The best classes of many images.

    Parameters
    ----------
    indices : ndarray of int32 of shape (n_samples, k)
        Positions in `classes`, best first; a memory map.
    scores : ndarray of shape (n_samples, k)
        Their scores; a memory map.
    classes : ndarray of shape (n_classes,)
        Labels of the candidates.
    """

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
    try:
        indices = np.load(folder / "indices.npy", mmap_mode="r", allow_pickle=False)
        scores = np.load(folder / "scores.npy", mmap_mode="r", allow_pickle=False)
        classes = np.load(folder / "classes.npy", allow_pickle=False)
    # The parser of NumPy's headers raises errors of many kinds.
    except Exception as error:
        raise _damaged(folder) from error
    is_sound = (
        indices.dtype == np.int32
        and indices.ndim == 2
        and scores.shape == indices.shape
        and scores.dtype.kind == "f"
        and classes.ndim == 1
        and (not indices.size or (indices.min() >= 0 and indices.max() < len(classes)))
    )
    if not is_sound:
        raise _damaged(folder)
    return Predictions(indices, scores, classes)


def _damaged(folder: Path) -> ValueError:
    return ValueError(f"{plain(folder)}: the predictions are damaged; write_top_k makes them anew.")


# Arrays that grow on disk row by row, and are taken up again after an interruption.


class GrowingArray:
    """A file ``.npy`` of a known shape that is written from the first row to the last.

    Until it is whole it lies beside its name, with the ending ``.part``.

    Parameters
    ----------
    path : Path
        What it will be called.
    shape : tuple of int
        Of the whole array.
    dtype : dtype
        Of its numbers.
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
        mode = "r+b" if self._part.exists() else "w+b"
        self._file = open(self._part, mode)  # noqa: SIM115 (closed by __exit__)
        if not _lock(self._file):
            self._file.close()
            raise RuntimeError(f"{self._part}: another process is writing to it.")

    def n_rows(self) -> int:
        """Whole rows of this array that are there already."""
        self._file.seek(0)
        if self._file.read(len(self._header)) != self._header:
            return 0
        return (self._file.seek(0, os.SEEK_END) - len(self._header)) // self._row_bytes

    def begin(self, n_done: int) -> None:
        """Keep some rows and cut off what follows them."""
        if not n_done:
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


def _lock(file: IO[bytes]) -> bool:
    """Keep other processes from a file until it is closed; where the system can."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# Predictions and accuracies of images that never lie in memory together.

# How often what is finished is made to last, in seconds.
_SECONDS = 5.0
_STATE = "state.json"


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
    where it was; files get their names when they are whole.

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
    evaluate_stream : Accuracies alone.

    Examples
    --------
    >>> import tempfile
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import FeatureBlocks, make_zero_shot
    >>> from zslearn.experiments import write_top_k
    >>> data = make_zero_shot(random_state=0)
    >>> model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = write_top_k(model, FeatureBlocks(data.X_test_unseen), folder, k=3)
    ...     same = found.labels() == model.predict_top_k(data.X_test_unseen, 3)[0]
    ...     del found
    >>> bool(same.all())
    True
    """
    X = _as_blocks(X, "write_top_k")
    scorer, candidates = _scorer(model, X, classes)
    if not 1 <= k <= len(candidates):
        raise ValueError(
            f"k must be between 1 and the number of classes, {len(candidates)}; got {k}."
        )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    key = _key(scorer, X, candidates, k)
    state = _State(folder / _STATE, key, resume=resume)
    if state.finished[0] == len(X) and (folder / "scores.npy").is_file():
        try:
            return read_top_k(folder)
        except ValueError as error:
            warn_user(f"{error} They are computed again.")
            state.finished = 0, None
    (folder / "scores.npy").unlink(missing_ok=True)
    with ExitStack() as stack:
        indices = stack.enter_context(GrowingArray(folder / "indices.npy", (len(X), k), np.int32))
        dtype = to_numpy(scorer.scores(np.ones((1, X.shape[1]), X.dtype), candidates[:1])).dtype
        scores = stack.enter_context(GrowingArray(folder / "scores.npy", (len(X), k), dtype))
        n_done = min(state.finished[0], indices.n_rows(), scores.n_rows())
        for file in (indices, scores):
            file.begin(n_done)

        def last() -> None:
            for file in (indices, scores):
                file.sync()

        with closing(_saved(X, n_done, state, last, progress)) as blocks:
            for start, rows, _ in blocks:
                labels, values = scorer.top_k(rows, k, candidates)
                indices.append(np.searchsorted(candidates, labels))
                scores.append(to_numpy(values))
                state.finished = start + len(rows), None
        with replacing(folder / "classes.npy") as temporary:
            plain = candidates.astype(str) if candidates.dtype.kind == "O" else candidates
            np.save(temporary, plain, allow_pickle=False)
        indices.finish()
        # The last: where it has its name, all have theirs.
        scores.finish()
    return read_top_k(folder)


def evaluate_stream(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    k: Sequence[int] = (1, 2, 5, 10, 20),
    classes: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> dict[str, float]:
    """Measure a fitted model on images that are read block by block.

    Counts of each block are added up, so that the accuracies are those of all images together.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    X : FeatureBlocks, dask array, or array of shape (n_samples, n_features)
        Features. Blocks of a dask array are counted where they lie.
    y : array-like or dask array of shape (n_samples,), optional
        Labels; by default those of a FeatureBlocks.
    k : sequence of int, default=(1, 2, 5, 10, 20)
        Which F@K; those above the number of candidates are left out.
    classes : array-like of labels, optional
        The candidates; by default every class in `classes_`, the generalized setting.
    checkpoint : path, optional
        A file in which the counts so far are kept; an evaluation that was stopped goes on from
        there. Not for dask arrays, whose blocks have no order.
    progress : bool, default=False
        Whether a bar shows how far it is.

    Returns
    -------
    dict of str to float
        "n_samples", "per_class_accuracy", "per_sample_accuracy", "flat_hit_at_<k>"; where all
        classes are candidates and there are images of both kinds also the per-class accuracies
        "seen" and "unseen" and their "harmonic" mean.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import FeatureBlocks, make_zero_shot
    >>> from zslearn.experiments import evaluate_stream
    >>> data = make_zero_shot(random_state=0)
    >>> model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> test = FeatureBlocks(data.X_test_unseen, data.y_test_unseen)
    >>> found = evaluate_stream(model, test, k=[1, 2], classes=data.unseen_classes)
    >>> round(found["per_class_accuracy"], 3), round(found["flat_hit_at_2"], 3)
    (0.887, 0.98)
    """
    X = X if is_dask(X) else _as_blocks(X, "evaluate_stream")
    scorer, candidates = _scorer(model, X, classes)
    ks = [at for at in k if at <= len(candidates)]
    n_top = max(ks, default=1)
    if is_dask(X):
        if checkpoint is not None:
            raise ValueError("checkpoint= is for features on disk; a dask array has no order.")
        counts = stream_hits(scorer, X, y, n_top, candidates)
    else:
        counts = _count(scorer, X, y, n_top, candidates, checkpoint, progress)
    known = set(candidates.tolist())
    outside = [label for label in counts.classes.tolist() if label not in known]
    if outside:
        raise ValueError(
            f"y holds labels that are not among the candidates: {name_some(outside)}. Such samples "
            "cannot be right; leave them out, or name their classes."
        )
    return counts.measure(ks, model.seen_classes_ if classes is None else None)


def _count(
    scorer: ClassScorer,
    X: FeatureBlocks,
    y: Any,
    k: int,
    candidates: NDArray[Any],
    checkpoint: str | os.PathLike[str] | None,
    progress: bool,
) -> HitCounts:
    """Hits of all rows; what was counted before is not counted again."""
    labels = None if y is None else to_numpy(y)
    if labels is not None and len(labels) != len(X):
        raise ValueError(f"X has {len(X)} rows and y has {len(labels)} labels.")
    if labels is None and not X.has_labels:
        raise ValueError("X has no labels: give y, or labels= where the files are opened.")
    state = _State(None, "", resume=False)
    if checkpoint is not None:
        key = fingerprint(_key(scorer, X, candidates, k), [] if labels is None else labels)
        state = _State(Path(checkpoint), key, resume=True)
    first, counts = state.finished
    with closing(_saved(X, first, state, lambda: None, progress)) as blocks:
        for start, rows, own in blocks:
            true = own if labels is None else labels[start : start + len(rows)]
            found = count_block(start, rows, true, None, (scorer, k, candidates))
            counts = found if counts is None else counts + found
            state.finished = start + len(rows), counts
    assert counts is not None
    return counts


class _State:
    """How far a stream has come, on disk where there is a file."""

    #: Rows that are finished and what they gave: replaced together, whatever interrupts.
    finished: tuple[int, HitCounts | None]

    def __init__(self, path: Path | None, key: str, *, resume: bool) -> None:
        self._path, self._key = path, key
        self.finished = 0, None
        if path is not None and resume and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            content = read_checked_json(path)
            if content.get("key") != self._key:
                warn_user(f"{path} is of another model or of other files: it begins anew.")
                return
            counts = content.get("counts")
            counts = None if counts is None else HitCounts.from_dict(counts)
            self.finished = int(content["rows"]), counts
        except (OSError, DamagedFileError, KeyError, TypeError, ValueError) as error:
            warn_user(f"Passed over {path}: {error}. It begins anew.")

    def write(self) -> None:
        """Keep what is finished."""
        if self._path is not None:
            rows, counts = self.finished
            found = None if counts is None else counts.as_dict()
            content = {"key": self._key, "rows": rows, "counts": found}
            write_checked_json(self._path, content)


def _saved(
    X: FeatureBlocks, start: int, state: _State, sync: Callable[[], None], progress: bool
) -> Generator[Block, None, None]:
    """Blocks from a row on; what is finished is made to last now and then, and at the end."""
    written = time.monotonic()
    with progress_bar(progress, len(X), "rows") as advance:
        advance(start)
        try:
            for block in X.blocks(start):
                yield block
                advance(len(block.rows))
                if time.monotonic() - written > _SECONDS:
                    sync()
                    state.write()
                    written = time.monotonic()
        finally:
            # Also after Ctrl-C: what is finished is not lost.
            sync()
            state.write()


def _as_blocks(X: Any, name: str) -> FeatureBlocks:
    if isinstance(X, FeatureBlocks):
        return X
    if is_dask(X):
        raise TypeError(
            f"{name} reads files in their order. Of a dask array predict_top_k is lazy: write what "
            "it gives with to_zarr or to_npy_stack."
        )
    return FeatureBlocks(X if hasattr(X, "dtype") else np.asarray(X), allow_nan=True)


def _scorer(model: Any, X: Any, classes: Any) -> tuple[ClassScorer, NDArray[Any]]:
    """The scorer of a fitted model, and the labels of the candidates in its order."""
    check_is_fitted(model, "class_scorer_")
    scorer: ClassScorer = model.class_scorer_
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input."
        )
    if classes is None:
        return scorer, scorer.labels
    return scorer, scorer.labels[np.sort(find_classes(classes, scorer.labels))]


def _key(scorer: ClassScorer, X: FeatureBlocks, candidates: NDArray[Any], k: int) -> str:
    """What predictions depend on: the model, by what it does to a few rows, and the files."""
    probe = np.random.default_rng(0).standard_normal((3, X.shape[1]))
    embedded = np.asarray(to_numpy(scorer.embedding(probe)), dtype=np.float64)
    # Another number of threads may change the last digits.
    scale = float(np.abs(embedded).max()) or 1.0
    return fingerprint(
        __version__, X.fingerprint(), X.shape, k, candidates, np.round(embedded / scale, 6),
        scorer.labels, to_numpy(scorer.parameters), scorer.score, scorer.bias, scorer.precedence,
    )  # fmt: skip


_P = ParamSpec("_P")
_R = TypeVar("_R")


def measure_conventional(model: Any, data: ZeroShotDataset) -> dict[str, float]:
    """Measure a fitted method on images of unseen classes, chosen among these.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted on the training part.
    data : ZeroShotDataset
        The data set, with its active split.

    Returns
    -------
    dict of str to float
        "per_class_accuracy", "per_sample_accuracy", and "flat_hit_at_k" for k = 2, 5, 10 where
        there are as many classes.
    """
    k = min(10, len(data.unseen_classes))
    top, _ = model.predict_top_k(data.X_test_unseen, k, classes=data.unseen_classes)
    y_true = data.y_test_unseen
    found = {
        "per_class_accuracy": float(per_class_accuracy(y_true, top[:, 0])),
        "per_sample_accuracy": float(per_sample_accuracy(y_true, top[:, 0])),
    }
    for at in (2, 5, 10):
        if at <= k:
            found[f"flat_hit_at_{at}"] = float(flat_hit_at_k(y_true, top, at))
    return found


@dataclass(frozen=True)
class GeneralizedScores:
    """Scores of all test images against all classes.

    Parameters
    ----------
    y_true : ndarray of shape (n_samples,)
        Labels of the test images, those of seen classes first.
    scores : ndarray of shape (n_samples, n_classes)
        Scores without calibration; columns follow `classes`.
    classes, seen_classes : ndarray
        The candidates, and the seen ones among them.
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

    def measure(self, bias: float) -> dict[str, float]:
        """Measure the generalized setting, without calibration and at a factor."""
        problem = vars(self)
        seen, unseen = generalized_accuracy(**problem)
        held_seen, held_unseen = generalized_accuracy(**problem, bias=bias)
        return {
            "seen": float(seen),
            "unseen": float(unseen),
            "harmonic": float(harmonic_mean(seen, unseen)),
            "calibrated_seen": float(held_seen),
            "calibrated_unseen": float(held_unseen),
            "calibrated_harmonic": float(harmonic_mean(held_seen, held_unseen)),
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


@dataclass(frozen=True, repr=False)
class Evaluation:
    """One method with given hyper-parameters, measured in both settings.

    Parameters
    ----------
    method : str
        Name of the method.
    metrics : dict of str to float
        See :func:`measure_conventional`, :meth:`GeneralizedScores.measure` and
        :meth:`GeneralizedScores.calibration_errors`.
    bias : float
        Calibration factor, found on the training data.
    seconds : float
        Time to fit the method once.
    model : zero-shot estimator
        Fitted on all of the training part.
    generalized : GeneralizedScores
        What curves are drawn from.
    dataset : str, default=""
        Name and split of the data set.
    """

    method: str
    metrics: dict[str, float]
    bias: float
    seconds: float
    model: Any
    generalized: GeneralizedScores
    dataset: str = ""

    def __repr__(self) -> str:
        on = f" on {self.dataset}" if self.dataset else ""
        found = {name: f"{value:.3f}" for name, value in self.metrics.items()}
        hits = {name.removeprefix("flat_hit_at_"): name for name in found if "flat_hit" in name}
        lines = [
            f"<Evaluation of {self.method}{on}>",
            "  unseen classes, chosen among these",
            f"    accuracy        {found['per_class_accuracy']} per class, "
            f"{found['per_sample_accuracy']} per sample",
        ]
        if hits:
            shares = ", ".join(f"{k}: {found[name]}" for k, name in hits.items())
            lines.append(f"    among the best  {shares}")
        lines += ["  all classes       without calibration  calibrated"]
        for name, title in (("seen", "seen"), ("unseen", "unseen"), ("harmonic", "harmonic mean")):
            lines.append(f"    {title:<15} {found[name]:<20} {found[f'calibrated_{name}']}")
        lines.append(f"    AUSUC           {found['ausuc']}")
        if "expected_calibration_error" in found:
            lines.append(f"    ECE             {'':<20} {found['expected_calibration_error']}")
        lines.append(f"  calibration factor {self.bias:.4g}; fitted in {self.seconds:.2g} s")
        return "\n".join(_cut(line) for line in lines)


#: How wide a line of a printout may be.
_WIDTH = 80


def _cut(line: str) -> str:
    """A line that fits a screen: a long name of one's own is cut, never a number."""
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]}…>"


def _name_last(measure: Callable[_P, _R]) -> Callable[_P, _R]:
    """Take the name before the estimator, as formerly, as well; with a warning."""

    @functools.wraps(measure)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        former = "method" in kwargs or (args and isinstance(args[0], str))
        if not former:
            return measure(*args, **kwargs)
        name, *rest = (kwargs.pop("method"), *args) if "method" in kwargs else args
        warn_user(
            "evaluate(name, estimator, data) is now evaluate(estimator, data), with "
            f"name={name!r} if you want one. The former order ends with version 0.3.",
            FutureWarning,
        )
        return measure(*rest, name=name, **kwargs)  # type: ignore[arg-type]

    return wrapper


@_name_last
def evaluate(
    estimator: Any, data: ZeroShotDataset, *, name: str | None = None, cv: int = 5
) -> Evaluation:
    """Fit a method as it is on the training part and measure it on both test parts.

    Nothing is chosen on test images: the calibration factor comes from leaving out seen classes.

    Parameters
    ----------
    estimator : zero-shot estimator
        The method; a clone is fitted.
    data : ZeroShotDataset
        The data set, with its active split.
    name : str or None, default=None
        Name of the method, for tables; by default that of its class, with that of an inner method.
    cv : int, default=5
        Folds over the seen classes for the calibration factor.

    Returns
    -------
    Evaluation
        Every number, the fitted method and its scores. Printed, it fits a screen.

    Examples
    --------
    >>> from zslearn.baselines import ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.experiments import evaluate
    >>> evaluate(ESZSL(), make_zero_shot(random_state=0))
    <Evaluation of ESZSL on make_zero_shot, split ns>
      unseen classes, chosen among these
        accuracy        0.887 per class, 0.887 per sample
        among the best  2: 0.980, 5: 1.000
      all classes       without calibration  calibrated
        seen            0.717                0.6...
        unseen          0.647                0.7...
        harmonic mean   0.680                0.7...
        AUSUC           0.656
        ECE                                  0.0...
      calibration factor 0.0...; fitted in ... s
    """
    stacked = CalibratedStacking(estimator, temperature="cv", cv=cv).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )
    model, bias = stacked.estimator_, stacked.bias_
    generalized = GeneralizedScores.of(model, data)
    return Evaluation(
        method=_name_of(estimator) if name is None else name,
        metrics=measure_conventional(model, data)
        | generalized.measure(bias)
        | generalized.calibration_errors(bias, stacked.temperature_),
        bias=bias,
        seconds=stacked.refit_time_,
        model=model,
        generalized=generalized,
        dataset=f"{data.name}, split {data.split}",
    )


def _name_of(estimator: Any) -> str:
    """The name of a method's class, with that of an inner method: "EXEM (ESZSL)"."""
    inner = getattr(estimator, "estimator", None)
    name = type(estimator).__name__
    return name if inner is None else f"{name} ({_name_of(inner)})"
