"""Base class of displays, and drawing functions that several displays use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn.metrics._validation import check_same_kind, positions, unique
from zslearn.signatures._table import SignatureTable

#: Blue and vermilion of the colour-blind-safe palette of Okabe and Ito.
BLUE, VERMILION = "#0072B2", "#D55E00"
_MAX_NAME_LENGTH = 24


class Display:
    """Base class of displays, which store the plotted numbers as in scikit-learn.

    Parameters
    ----------
    estimator_name : str, default=None
        Name in the legend or title; not shown if None.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the axes.
    """

    #: Attribute of the estimator with the default candidates, and the method that predicts.
    _candidates, _predict = "unseen_classes_", "predict"
    #: Parameters of `from_predictions` that are attributes of the estimator, by parameter.
    _estimator_options: ClassVar[dict[str, str]] = {}

    from_predictions: ClassVar[Callable[..., Self]]

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
        """Plot the predictions of a fitted estimator.

        Parameters
        ----------
        estimator : object
            Fitted estimator with `predict(X, classes=...)`, or `predict_proba` for probabilities.
        X : array of shape (n_samples, n_features)
            Test samples.
        y : array-like of shape (n_samples,)
            Labels of the samples.
        classes : array-like of labels, default=None
            Candidate classes. By default `unseen_classes_`, or `classes_` for probabilities.
        name : str, default=None
            Name in the legend or title. By default the name of the estimator's class.
        **kwargs : dict
            Passed to `from_predictions`, for example the signatures that were passed to `fit`.

        Returns
        -------
        display
            The plotted display.
        """
        candidates = getattr(estimator, cls._candidates) if classes is None else classes
        options = {name: getattr(estimator, at) for name, at in cls._estimator_options.items()}
        return cls.from_predictions(
            y,
            getattr(estimator, cls._predict)(X, classes=candidates),
            classes=candidates,
            name=type(estimator).__name__ if name is None else name,
            **options,
            **kwargs,
        )

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw into; by default those of a new figure.
        name : str, default=None
            Name in the legend; by default `estimator_name`.
        **kwargs : dict
            Passed to the matplotlib function that draws.

        Returns
        -------
        display
            This object.
        """
        raise NotImplementedError

    def _begin(self, ax: Any, **options: Any) -> Any:
        """Set the axes to draw into, in a new figure if `ax` is None."""
        pyplot = import_optional("matplotlib.pyplot", type(self).__name__)
        if ax is None:
            _, ax = pyplot.subplots(**options)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def short_name(label: Any) -> str:
    """A label on one line, truncated if it is long."""
    name = " ".join(str(label).split())
    return name if len(name) <= _MAX_NAME_LENGTH else name[: _MAX_NAME_LENGTH - 1].rstrip() + "…"


def with_name(name: str | None, text: str) -> str:
    """A text, preceded by a name if there is one."""
    return text if name is None else f"{name} ({text})"


def plain_texts(legend: Any) -> None:
    """Show the dollar signs of names in a legend instead of parsing formulas."""
    for text in (*legend.get_texts(), legend.get_title()):
        text.set_parse_math(False)


def write_cell(cells: Any, x: float, y: float, value: float, text: str, fontsize: int) -> Any:
    """Write into a coloured cell, in white if the cell is dark."""
    red, green, blue, _ = (1, 1, 1, 1) if np.isnan(value) else cells.cmap(cells.norm(value))
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
    options = {"ha": "center", "va": "center", "color": "white" if dark else "black"}
    return cells.axes.text(x, y, text, fontsize=fontsize, **options)


def frame_cell(ax: Any, x: Sequence[float], y: Sequence[float], linewidth: float) -> Any:
    """Draw a frame around the cell with these limits on each axis."""
    (left, right), (low, high) = x, y
    (frame,) = ax.plot(
        [left, right, right, left, left], [low, low, high, high, low],
        color=VERMILION, linewidth=linewidth, zorder=3, clip_on=False, scalex=False, scaley=False,
    )  # fmt: skip
    return frame


def signature_rows(signatures: Any, classes: NDArray[Any]) -> Floats:
    """Signatures of `classes`, normalised to unit length, with weighted views side by side."""
    table = SignatureTable.read(signatures, None)
    check_same_kind("signatures", table.labels, "classes", classes)
    where = positions(classes, table.labels)
    if (where < 0).any():
        raise ValueError(
            f"signatures do not describe these classes: {name_some(unique(classes[where < 0]))}. "
            "Add a row for each."
        )
    rows = table.normalized((1.0,) * len(table.arrays), keep_views=False)
    return np.asarray(rows, dtype=np.float64)[where]
