"""Combine several views of a class, such as word vectors and a hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._array import Floats
from zslearn._utils._saved import Saved, saves


@dataclass(frozen=True)
@saves(
    arrays=Saved("n_classes", None, each=True, counts="n_views", finite=False),
    weights=Saved(least=0, each=True, counts="n_views"),
)
class SignatureViews:
    """Normalised signatures of several views with aligned rows, and the weights of their kernels.

    Kernel methods receive them if the user passed `MultiSignatures`.

    Parameters
    ----------
    arrays : tuple of arrays of shape (n_classes, n_attributes of the view)
        One array per view; a class that lacks the view has a row of NaN.
    weights : tuple of float
        Convex weights, one per view.
    """

    arrays: tuple[Floats, ...]
    weights: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, rows: Any) -> SignatureViews:
        return SignatureViews(tuple(array[rows] for array in self.arrays), self.weights)

    def _check_loaded(self) -> None:
        """Check views from a model file."""
        refuse_partial_views(self.arrays)

    def concatenate(self) -> Floats:
        """Concatenate the views so that inner products are convex combinations of the views'."""
        return np.hstack(
            [np.sqrt(w) * array for w, array in zip(self.weights, self.arrays, strict=True)]
        )


def refuse_partial_views(arrays: Sequence[Floats]) -> None:
    """Refuse NaN and infinity, except for whole rows of classes that lack one of several views."""
    for array in arrays:
        missing = np.isnan(array).all(axis=1)
        if not np.isfinite(array[~missing]).all() or (len(arrays) == 1 and missing.any()):
            raise ValueError("its signatures have NaN or infinity")


#: Normalised signatures as a method receives them.
Signatures = Floats | SignatureViews


def view_arrays(signatures: Signatures) -> tuple[Floats, ...]:
    """Return the arrays of one view or of several."""
    return signatures.arrays if isinstance(signatures, SignatureViews) else (signatures,)


def with_arrays(arrays: tuple[Floats, ...], like: Signatures) -> Signatures:
    """Return arrays in the form of `like`: one array, or views with the same weights."""
    return SignatureViews(arrays, like.weights) if isinstance(like, SignatureViews) else arrays[0]


def side_by_side(signatures: Signatures) -> Floats:
    """Return one vector per class; several views are concatenated."""
    return signatures.concatenate() if isinstance(signatures, SignatureViews) else signatures


class MultiSignatures:
    """Signatures of each class in several views.

    The kernel between two classes is the convex combination of the views' kernels, as in the
    paper's "wv-v2 + hie". Methods that need vectors receive the concatenated views, each multiplied
    by the square root of its weight, so that inner products combine in the same way.

    Parameters
    ----------
    views : mapping of str to signatures
        Each view is a DataFrame indexed by class label or a mapping label → vector, and is
        normalised separately. A class may lack some views:
        :class:`~zslearn.synthesis.GaussianEXEM` compares two classes by the views that both have,
        with renormalised weights; other methods raise an error.
    weights : sequence of float or mapping of str to float, optional
        Non-negative weights of the views, divided by their sum; by default equal.
    gamma_factors : sequence of float or mapping of str to float, optional
        Factors of the kernel parameter γ in each view, for methods that treat views separately; by
        default 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.signatures import MultiSignatures
    >>> words = pd.DataFrame([[0.1, 0.9], [0.7, 0.2]], index=["cat", "dog"])
    >>> tree = pd.DataFrame([[1, 0, 1], [1, 1, 0]], index=["cat", "dog"])
    >>> MultiSignatures({"words": words, "tree": tree}, weights=[3, 1])
    MultiSignatures(words × 0.75, tree × 0.25)
    """

    def __init__(
        self,
        views: Mapping[str, Any],
        weights: Sequence[float] | Mapping[str, float] | None = None,
        gamma_factors: Sequence[float] | Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(views, Mapping) or not views:
            raise ValueError("views must map at least one name to signatures.")
        self.views: dict[str, Any] = dict(views)
        self.weights = convex_weights(weights, list(self.views))
        factors = _by_view(gamma_factors, list(self.views), "gamma_factors")
        if np.any(factors <= 0):
            raise ValueError(f"gamma_factors must be positive; got {factors.tolist()}.")
        self.gamma_factors = dict(zip(self.views, factors.tolist(), strict=True))

    @property
    def index(self) -> pd.Index:
        """Labels of all classes: those of the first view, then further ones of the others."""
        every = pd.Index([], dtype=object)
        for view in self.views.values():
            labels = list(view.index if isinstance(view, pd.DataFrame) else view)
            more = pd.Index(labels, tupleize_cols=False)
            every = every.append(more[~more.isin(every)]) if len(every) else more
        return every

    def fingerprint_parts(self) -> list[Any]:
        """Return everything that a digest of the object depends on."""
        return [self.views, self.weights, self.gamma_factors]

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} × {w:g}" for name, w in self.weights.items())
        return f"MultiSignatures({parts})"

    def with_weights(self, weights: Sequence[float] | Mapping[str, float]) -> MultiSignatures:
        """Return the same views with other weights."""
        return MultiSignatures(self.views, weights, self.gamma_factors)


def map_views(signatures: Any, change: Callable[[Any], Any]) -> Any:
    """Change signatures, or each view of several."""
    if not isinstance(signatures, MultiSignatures):
        return change(signatures)
    views = {name: change(view) for name, view in signatures.views.items()}
    return MultiSignatures(views, signatures.weights, signatures.gamma_factors)


def convex_weights(
    weights: Sequence[float] | Mapping[str, float] | None, names: list[str]
) -> dict[str, float]:
    """Return weights by view, divided by their sum; raise if one is negative or all are zero."""
    values = _by_view(weights, names, "weights")
    if np.any(values < 0) or values.sum() == 0:
        raise ValueError(f"weights must be non-negative and not all zero; got {values.tolist()}.")
    return dict(zip(names, (values / values.sum()).tolist(), strict=True))


def _by_view(
    numbers: Sequence[float] | Mapping[str, float] | None, names: list[str], what: str
) -> Floats:
    """Return one finite number per view, in the order of the views; by default ones."""
    if numbers is None:
        return np.ones(len(names))
    if isinstance(numbers, Mapping):
        if set(numbers) != set(names):
            raise ValueError(f"{what} name {sorted(numbers)}; the views are {sorted(names)}.")
        numbers = [numbers[name] for name in names]
    values = np.asarray(numbers, dtype=np.float64)
    if values.shape != (len(names),):
        raise ValueError(f"{len(names)} views need {len(names)} {what}; got {values.size}.")
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{what} must be finite numbers; got {values.tolist()}.")
    return values


def class_frame(vectors: Floats, labels: Iterable[Any], kind: str) -> pd.DataFrame:
    """Build a DataFrame with one row per class and the columns "kind 0", "kind 1" and so on."""
    index = pd.Index(list(labels), name="class", tupleize_cols=False)
    columns = [f"{kind} {i}" for i in range(vectors.shape[1])]
    return pd.DataFrame(vectors, index=index, columns=columns)
