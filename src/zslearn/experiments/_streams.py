"""Predictions and accuracies of images that never lie in memory together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from zslearn._version import __version__
from zslearn.base import count_block, is_dask, stream_hits
from zslearn.datasets import FeatureBlocks
from zslearn.experiments._growing_files import GrowingArray
from zslearn.experiments._predictions import Predictions, read_top_k
from zslearn.metrics import HitCounts
from zslearn.scoring import ClassScorer, find_classes
from zslearn.utils import (
    Block,
    DamagedFileError,
    fingerprint,
    name_some,
    progress_bar,
    read_checked_json,
    replacing,
    to_numpy,
    warn_user,
    write_checked_json,
)

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
