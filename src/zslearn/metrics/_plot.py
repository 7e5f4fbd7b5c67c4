"""The picture of the seen–unseen curve, and what all displays share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn.metrics._curve import area_under, seen_unseen_curve
from zslearn.metrics._validation import Missing, check_classes, check_same_kind, positions, unique

#: Blue and vermilion of Okabe and Ito, which people with any colour vision can tell apart.
BLUE, VERMILION = "#0072B2", "#D55E00"
# Letters of a name that a label shows.
_LONGEST_NAME = 24


class Display:
    """Base of displays.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn into.
    figure_ : matplotlib Figure
        The figure that holds the axes.
    """

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        name : str, default=None
            Name in the legend. None: `estimator_name`.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display
            This object.
        """
        raise NotImplementedError

    def _begin(self, ax: Any, **options: Any) -> Any:
        """The axes to draw into, in a new figure where none are given."""
        pyplot = import_optional("matplotlib.pyplot", type(self).__name__)
        if ax is None:
            _, ax = pyplot.subplots(**options)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


class CandidatesDisplay(Display):
    """Base of displays of what an estimator chooses among some candidates."""

    #: The estimator's attribute with the candidates, and the method that chooses among them.
    _candidates, _choose = "unseen_classes_", "predict"
    #: Attributes of the estimator that `from_predictions` takes, by name.
    _also: ClassVar[dict[str, str]] = {}

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Plot what a fitted estimator makes of samples.

        Parameters
        ----------
        estimator : object
            Fitted, with `predict(X, classes=...)`, or `predict_proba` for probabilities.
        X : array of shape (n_samples, n_features)
            Samples that it was not trained on.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of labels, default=None
            The classes to choose among. None: `unseen_classes_`; of probabilities `classes_`.
        name : str, default=None
            Name in the legend or title. None: the name of the estimator's class.
        **kwargs : dict
            All else that `from_predictions` takes, such as signatures, as they were given to `fit`.

        Returns
        -------
        display
            The picture.
        """
        candidates = getattr(estimator, cls._candidates) if classes is None else classes
        return cls.from_predictions(
            y,
            getattr(estimator, cls._choose)(X, classes=candidates),
            classes=candidates,
            name=type(estimator).__name__ if name is None else name,
            **{option: getattr(estimator, attribute) for option, attribute in cls._also.items()},
            **kwargs,
        )

    from_predictions: ClassVar[Callable[..., Self]]


def short_name(label: Any) -> str:
    """A label on one line, cut where it is long."""
    name = " ".join(str(label).split())
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1].rstrip() + "…"


def with_name(name: str | None, text: str | None) -> str | None:
    """A name with a number behind it, or the one of them that there is."""
    return f"{name} ({text})" if name is not None and text is not None else name or text


def plain_texts(legend: Any) -> None:
    """Show names in a legend as they are: a dollar begins no formula."""
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)


def write_cell(cells: Any, x: float, y: float, value: float, text: str, fontsize: int) -> Any:
    """Write into a coloured cell, dark on light or light on dark; on one without a value dark."""
    red, green, blue, _ = (1, 1, 1, 1) if np.isnan(value) else cells.cmap(cells.norm(value))
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    options = {"ha": "center", "va": "center", "color": "white" if dark else "black"}
    return cells.axes.text(x, y, text, fontsize=fontsize, **options)


def frame_cell(ax: Any, x: Sequence[float], y: Sequence[float], linewidth: float) -> Any:
    """Draw a frame around a cell between two places on each axis."""
    (left, right), (low, high) = x, y
    (frame,) = ax.plot(
        [left, right, right, left, left], [low, low, high, high, low],
        color=VERMILION, linewidth=linewidth, zorder=3, clip_on=False, scalex=False, scaley=False,
    )  # fmt: skip
    return frame


def signature_rows(signatures: Any, classes: NDArray[Any]) -> Floats:
    """Signatures of `classes`, each divided by its length.

    Several views of a class stand side by side, each of unit length times the square root of its
    weight, so that squared distances are the weighted sum of the views'.
    """
    views = getattr(signatures, "views", None)
    if views is None:
        return _view_rows(signatures, classes)
    return np.hstack(
        [
            np.sqrt(signatures.weights[name]) * _view_rows(view, classes)
            for name, view in views.items()
        ]
    )


def _view_rows(view: Any, classes: NDArray[Any]) -> Floats:
    described, values = _labels_and_values(view)
    labels = check_classes(described, "signatures")
    check_same_kind("signatures", labels, "classes", classes)
    where = positions(classes, labels)
    if (where < 0).any():
        raise ValueError(
            f"signatures do not describe these classes: {name_some(unique(classes[where < 0]))}. "
            "Add a row for each."
        )
    try:
        rows = np.asarray([values[position] for position in where], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"signatures must be vectors of numbers of one length: {error}.") from None
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(f"signatures hold NaN or infinity for {name_some(classes[bad])}.")
    return unit_rows(rows)


def _labels_and_values(view: Any) -> tuple[list[Any], Any]:
    """Labels and one vector for each, of a frame of pandas or polars or of a mapping."""
    if isinstance(view, Mapping):
        return list(view), [to_numpy(vector) for vector in view.values()]
    if hasattr(view, "index") and hasattr(view, "to_numpy"):
        return view.index.tolist(), view.to_numpy()
    if "class" in getattr(view, "columns", ()):
        return view["class"].to_list(), view.drop("class").to_numpy()
    raise ValueError(
        "signatures must say which class each row describes: give a DataFrame whose index holds "
        "the labels, or a mapping label → vector."
    )


@inherit_docs
@dataclass(kw_only=True, eq=False, repr=False)
class SeenUnseenCurveDisplay(Display):
    """Picture of the seen–unseen accuracy curve.

    A round marker on the curve is where there is no calibration (factor 0), a diamond is at the
    calibration factor, if there is one.

    Use `from_estimator` or `from_predictions` to make one. All parameters are stored as attributes.

    Parameters
    ----------
    acc_unseen : ndarray of shape (n_points,)
        Accuracies on unseen classes.
    acc_seen : ndarray of shape (n_points,)
        Accuracies on seen classes.
    bias : ndarray of shape (n_points,)
        Smallest calibration factor of each point, from −inf on; 0 is no calibration.
    ausuc : float, default=None
        Area under the curve. None: not shown.
    estimator_name : str, default=None
        Name in the legend. None: not shown.
    calibration_factor : float, default=None
        The factor, as in `bias`, whose point gets a diamond. None: none does.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    point_ : matplotlib Line2D
        The point without calibration (factor 0).
    calibrated_point_ : matplotlib Line2D or None
        The point at `calibration_factor`; None without one.

    See Also
    --------
    zslearn.metrics.seen_unseen_curve : Computes the curve.
    zslearn.metrics.ausuc : Computes the area under it.

    Examples
    --------
    >>> from zslearn.metrics import SeenUnseenCurveDisplay
    >>> display = SeenUnseenCurveDisplay.from_predictions(
    ...     ["cat", "cat", "owl", "owl"],
    ...     [[3.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 4.0]],
    ...     classes=["cat", "owl"],
    ...     seen_classes=["cat"],
    ...     name="EXEM",
    ... )
    >>> display.line_.get_label()
    'EXEM (AUSUC = 0.88)'
    """

    acc_unseen: Floats
    acc_seen: Floats
    bias: Floats
    ausuc: float | None = None
    estimator_name: str | None = None
    calibration_factor: float | None = None

    def __post_init__(self) -> None:
        factor = self.calibration_factor
        if factor is not None and not _is_number(factor):
            raise ValueError(f"calibration_factor must be a number or None, got {factor!r}.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        missing: Missing = "error",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curve of a fitted estimator.

        Where the estimator is calibrated, its scores lack the calibration factor at the seen
        classes. The curve is that of the scores without calibration all the same: the round marker
        is where the estimator would predict without its factor, the diamond where it predicts.

        Parameters
        ----------
        estimator : object
            Fitted, with `classes_`, `seen_classes_` and `decision_function(X, classes=...)`. If it
            has a number `bias_` other than 0, that is the calibration factor that its scores of
            seen classes have been lowered by.
        X : array of shape (n_samples, n_features)
            Samples of seen and of unseen classes.
        y : array-like of shape (n_samples,)
            Their labels.
        missing : {"error", "ignore", "zero"}, default="error"
            What to do with a class of `classes_` that never occurs in `y`; see `seen_unseen_curve`.
        name : str, default=None
            Name in the legend. None: the name of the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : SeenUnseenCurveDisplay
        """
        scores = to_numpy(estimator.decision_function(X, classes=estimator.classes_))
        space = {"classes": estimator.classes_, "seen_classes": estimator.seen_classes_}
        curve = seen_unseen_curve(y, scores, missing=missing, **space)
        factor = _factor_in_scores(estimator)
        if factor is not None:
            curve = (*curve[:2], _without_factor(curve[2], factor, scores))
        display = cls._of_curve(curve, type(estimator).__name__ if name is None else name, factor)
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        scores: Any,
        *,
        classes: ArrayLike,
        seen_classes: ArrayLike,
        missing: Missing = "error",
        calibration_factor: float | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Plot the curve of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels: samples of seen and of unseen classes.
        scores : array of shape (n_samples, n_classes)
            Scores without calibration, larger is better.
        classes, seen_classes, missing
            As of :func:`seen_unseen_curve`.
        calibration_factor : float, default=None
            The calibration factor: its point, whose accuracies `generalized_accuracy` gives, gets a
            diamond. None: none does.
        name : str, default=None
            Name in the legend. None: only the area is shown.

        Returns
        -------
        display : SeenUnseenCurveDisplay
        """
        curve = seen_unseen_curve(
            y_true, scores, classes=classes, seen_classes=seen_classes, missing=missing
        )
        return cls._of_curve(curve, name, calibration_factor).plot(ax=ax, **kwargs)

    @classmethod
    def _of_curve(
        cls, curve: tuple[Floats, Floats, Floats], name: str | None, factor: float | None
    ) -> Self:
        acc_unseen, acc_seen, bias = curve
        return cls(
            acc_unseen=acc_unseen,
            acc_seen=acc_seen,
            bias=bias,
            ausuc=area_under(acc_unseen, acc_seen),
            estimator_name=name,
            calibration_factor=factor,
        )

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve, a circle at the factor 0 and a diamond at the calibration factor."""
        ax = self._begin(ax)
        area = None if self.ausuc is None else f"AUSUC = {self.ausuc:0.2f}"
        label = with_name(self.estimator_name if name is None else name, area)
        line_kwargs = ({} if label is None else {"label": label}) | kwargs
        (self.line_,) = ax.plot(self.acc_unseen, self.acc_seen, **line_kwargs)

        self.point_ = self._mark(0.0, "o")
        self.calibrated_point_ = None
        if self.calibration_factor is not None:
            self.calibrated_point_ = self._mark(self.calibration_factor, "D")

        ax.set(
            xlabel="Accuracy on unseen classes (A_U→T)",
            ylabel="Accuracy on seen classes (A_S→T)",
        )
        # auto=None keeps the upper limits free for further curves on the same axes.
        ax.set_xlim(left=0, auto=None)
        ax.set_ylim(bottom=0, auto=None)
        if "label" in line_kwargs:
            ax.legend(loc="lower left")
        return self

    def _mark(self, factor: float, marker: str) -> Any:
        """Draw a marker at the point of a factor: the last one that it is large enough for."""
        position = max(int(np.searchsorted(self.bias, factor, side="right")) - 1, 0)
        (point,) = self.ax_.plot(
            self.acc_unseen[position],
            self.acc_seen[position],
            marker=marker,
            linestyle="none",
            color=self.line_.get_color(),
        )
        return point


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not np.isnan(float(value))


def _factor_in_scores(estimator: Any) -> float | None:
    """The calibration factor that an estimator's scores of seen classes have been lowered by."""
    factor: Any = getattr(estimator, "bias_", None)
    return float(factor) if _is_number(factor) and factor != 0 else None


def _without_factor(bias: Floats, factor: float, scores: NDArray[Any]) -> Floats:
    """Factors of a curve from lowered scores, as factors of the scores before they were lowered.

    Rounding must not take a sample past one of the two points that are marked.
    """
    shifted = bias + factor
    # Without calibration: what was a tie before the scores were lowered is one again.
    precision = np.finfo(scores.dtype if scores.dtype.kind == "f" else np.float64).eps
    rounding = precision * (np.abs(scores).max() + 2 * abs(factor))
    shifted[np.abs(shifted) <= rounding] = 0.0
    # Calibrated: the lowered scores decide, as in the estimator's predictions.
    to_seen = bias > 0
    shifted[to_seen] = np.maximum(shifted[to_seen], np.nextafter(factor, np.inf))
    shifted[~to_seen] = np.minimum(shifted[~to_seen], factor)
    return shifted
