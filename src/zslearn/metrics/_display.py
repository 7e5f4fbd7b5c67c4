"""The base of displays, and what several of them draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zslearn._utils._array import Floats, to_numpy, unit_rows
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn.metrics._validation import check_classes, check_same_kind, positions, unique

#: Blue and vermilion of Okabe and Ito, which people with any colour vision can tell apart.
BLUE, VERMILION = "#0072B2", "#D55E00"
# Letters of a name that a label shows.
_LONGEST_NAME = 24


class Display:
    """Base of displays, with scikit-learn's pattern: numbers as attributes, drawn by `plot`.

    Parameters
    ----------
    estimator_name : str, default=None
        Name in the legend or title. None: not shown.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn into.
    figure_ : matplotlib Figure
        The figure that holds the axes.
    """

    #: The estimator's attribute with the candidates, and the method that chooses among them.
    _candidates, _choose = "unseen_classes_", "predict"
    #: Attributes of the estimator that `from_predictions` takes, by name.
    _also: ClassVar[dict[str, str]] = {}

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
        """Plot the answers of a fitted estimator.

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
            Passed to `from_predictions`, such as signatures, as they were given to `fit`.

        Returns
        -------
        display
            The display, drawn.
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

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        name : str, default=None
            Name in the legend. None: `estimator_name`.
        **kwargs : dict
            Passed to matplotlib's function that draws.

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


def short_name(label: Any) -> str:
    """A label on one line, cut where it is long."""
    name = " ".join(str(label).split())
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1].rstrip() + "…"


def with_name(name: str | None, text: str) -> str:
    """A text, behind a name if there is one."""
    return text if name is None else f"{name} ({text})"


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
    if views is not None:
        rows = [
            np.sqrt(signatures.weights[name]) * signature_rows(view, classes)
            for name, view in views.items()
        ]
        return np.hstack(rows)
    frame = _as_frame(signatures)
    described = check_classes(frame.index, "signatures")
    check_same_kind("signatures", described, "classes", classes)
    where = positions(classes, described)
    if (where < 0).any():
        raise ValueError(
            f"signatures do not describe these classes: {name_some(unique(classes[where < 0]))}. "
            "Add a row for each."
        )
    values = frame.iloc[where].to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise ValueError(f"signatures hold NaN or infinity for {name_some(classes[bad])}.")
    return unit_rows(values)


def _as_frame(signatures: Any) -> pd.DataFrame:
    """A frame of pandas or polars, or a mapping label → vector, with the labels in the index."""
    if isinstance(signatures, pd.DataFrame):
        return signatures
    if isinstance(signatures, Mapping):
        vectors = [to_numpy(vector) for vector in signatures.values()]
        if len({vector.shape for vector in vectors}) > 1:
            raise ValueError("signatures must be vectors of numbers of one length.")
        return pd.DataFrame(vectors, index=pd.Index(list(signatures), tupleize_cols=False))
    if "class" in getattr(signatures, "columns", ()):
        return pd.DataFrame(signatures.to_dict(as_series=False)).set_index("class")
    raise ValueError(
        "signatures must say which class each row describes: give a DataFrame whose index holds "
        "the labels, or a mapping label → vector."
    )
