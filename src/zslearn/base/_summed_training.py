"""Training data of which only sums are in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from zslearn.base._streams import StreamedSamples
from zslearn.base._training import SPREAD_SAMPLES, Training, spread_positions
from zslearn.scoring import FeaturePreparation, refuse_extreme_features
from zslearn.signatures import label_array, label_kind
from zslearn.solvers import ClassSums, SummedRows, class_squares, sum_block
from zslearn.utils import Array, Floats, to_numpy


@dataclass(frozen=True, eq=False)
class Summary:
    """What is known of blocks of samples; two objects add up.

    Parameters
    ----------
    sums : ClassSums
        Counts, means and scatter of the classes.
    n_replaced : int
        Numbers that were not finite and count as 0.
    largest : float
        The largest absolute value.
    kept : list of (positions, rows, labels)
        Samples that are kept, with their numbers among all.
    """

    sums: ClassSums
    n_replaced: int
    largest: float
    kept: list[tuple[NDArray[np.intp], Floats, NDArray[Any]]]

    def __add__(self, other: Summary) -> Summary:
        kinds = label_kind(self.sums.classes), label_kind(other.sums.classes)
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"Labels of some blocks are {kinds[0]}s, of others {kinds[1]}s: use labels of one "
                "type."
            )
        return Summary(
            self.sums + other.sums,
            self.n_replaced + other.n_replaced,
            max(self.largest, other.largest),
            self.kept + other.kept,
        )


class StreamedRows(SummedRows):
    """Rows of a stream whose sums are known.

    Parameters
    ----------
    samples : StreamedSamples
        Read once more where sums do not tell what is asked.
    sums : ClassSums
        Of them.
    feature_norm : {"l2"} or None
        How their features are prepared.
    """

    def __init__(self, samples: StreamedSamples, sums: ClassSums, feature_norm: str | None) -> None:
        super().__init__(sums)
        self._samples, self._feature_norm = samples, feature_norm

    def squares_along(self, components: Floats) -> Floats:
        """Sums of squared deviations of each class along directions, by one more pass."""
        shared = self._feature_norm, self.sums.classes, self.sums.means, components
        return np.asarray(self._samples.reduce(_squares, shared))


@dataclass(frozen=True, eq=False)
class SummedTraining(Training):
    """A :class:`Training` whose `X` is a :class:`StreamedRows` and whose `y` is empty."""

    kept: tuple[Array, NDArray[np.intp], Floats] | None = None

    @property
    def sums(self) -> ClassSums:
        """Counts, means and scatter of the classes."""
        return self.X.sums

    @property
    def labels(self) -> NDArray[Any]:
        """Not known: the samples are not in memory."""
        raise TypeError("The samples are not in memory, nor are their labels.")

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of samples of each seen class."""
        return self.sums.counts.astype(np.intp)

    @property
    def sizes(self) -> Floats:
        """Weight of the samples of each seen class."""
        return self.sums.sizes

    def only(self, positions: NDArray[np.intp]) -> Training:
        """Not possible: the samples are not in memory."""
        raise TypeError("The samples are not in memory: some of the classes cannot be taken out.")

    def spread_samples(self) -> tuple[Array, NDArray[np.intp], Floats]:
        """Samples evenly spaced among all, which were kept when they were read."""
        assert self.kept is not None
        return self.kept


def summarize(samples: StreamedSamples, feature_norm: str | None) -> Summary:
    """Read all samples once.

    Parameters
    ----------
    samples : StreamedSamples
        Rows and labels.
    feature_norm : {"l2"} or None
        How features are prepared.

    Returns
    -------
    Summary
        What methods of class statistics learn from.
    """
    there = None if samples.weights is None else np.flatnonzero(samples.weights)
    n_samples = samples.shape[0] if there is None else len(there)
    positions = spread_positions(n_samples, SPREAD_SAMPLES)
    wanted = positions if there is None else there[positions]
    summary: Summary = samples.reduce(_summarize, (feature_norm, wanted))
    prepare = FeaturePreparation(feature_norm)
    prepare.replaced = summary.n_replaced
    prepare.warn()
    if feature_norm is None:
        refuse_extreme_features(np.array([[summary.largest]]))
    return summary


def gather(summary: Summary, weights: Floats | None) -> tuple[Floats, NDArray[np.intp], Floats]:
    """The samples that were kept, in their order: rows, positions of their classes, weights."""
    kept = [part for part in summary.kept if len(part[0])]
    positions = np.concatenate([part[0] for part in kept])
    rows = np.concatenate([part[1] for part in kept])
    labels = np.concatenate([part[2] for part in kept])
    order = np.argsort(positions)
    positions = positions[order]
    codes = np.searchsorted(summary.sums.classes, labels[order])
    return rows[order], codes, np.ones(len(rows)) if weights is None else weights[positions]


def _summarize(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> Summary | None:
    """What is kept of one block."""
    feature_norm, wanted = shared
    labels = check_block_labels(labels, len(rows))
    inside = wanted[(wanted >= start) & (wanted < start + len(rows))]
    if weights is not None and not weights.all():
        there = np.flatnonzero(weights)
        inside_rows = np.searchsorted(there, inside - start)
        rows, labels, weights = rows[there], labels[there], weights[there]
    else:
        inside_rows = inside - start
    if not len(rows):
        return None
    prepare = FeaturePreparation(feature_norm)
    prepared = prepare(rows)
    sums = sum_block(prepared, labels, weights)
    largest = 1.0 if feature_norm else float(np.abs(prepared).max())
    kept = np.asarray(to_numpy(prepared)[inside_rows], dtype=np.float64)
    return Summary(sums, prepare.replaced, largest, [(inside, kept, labels[inside_rows])])


def _squares(start: int, rows: Any, labels: Any, weights: Any, shared: Any) -> Floats:
    """Squared deviations of one block along directions."""
    feature_norm, classes, means, components = shared
    codes = np.searchsorted(classes, check_block_labels(labels, len(rows)))
    if weights is not None and not weights.all():
        there = np.flatnonzero(weights)
        rows, codes, weights = rows[there], codes[there], weights[there]
    if not len(rows):
        return np.zeros((len(classes), components.shape[1]))
    prepared = FeaturePreparation(feature_norm)(rows)
    return to_numpy(class_squares(prepared, codes, means, components, sample_weight=weights))


def check_block_labels(labels: Any, n_rows: int) -> NDArray[Any]:
    """Labels of a block as an array of one kind, as many as there are rows."""
    values = to_numpy(labels)
    if values.ndim != 1 or len(values) != n_rows:
        raise ValueError(
            f"A block of {n_rows} rows has labels of shape {values.shape}: give one per row."
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("Input y contains NaN or infinity: every sample needs a label.")
    if values.dtype.kind in "OS":
        values = label_array(values.astype(str) if values.dtype.kind == "S" else values, "y")
    check_classification_targets(values)
    return values
