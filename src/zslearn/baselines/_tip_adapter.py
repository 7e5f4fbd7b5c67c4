r"""Tip-Adapter: a cache of labelled images, beside the score of the description.

A class scores by how near its own images lie to a sample,

.. math:: g_c(x) = \frac{1}{|I_c|} \sum_{i \in I_c} \exp\bigl(-\beta (1 - \cos(x, x_i))\bigr),

and by its description: the sum of that score and :math:`\alpha g_c(x)` decides.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from zslearn._utils._array import Array, Floats, block_budget, move_like
from zslearn._utils._blocks import row_blocks
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._saved import Saved, saves
from zslearn.baselines._base_few_images import FewImages


@inherit_docs
@saves(
    cache_=Saved("n_images", "n_features"),
    shares_=Saved("n_images", "n_columns"),
)
class TipAdapter(FewImages):
    """Nearness to the images of a class, plus the score of its description.

    Parameters
    ----------
    beta : float, default=5.5
        How fast nearness falls with the cosine.

    Attributes
    ----------
    cache_ : array of shape (n_samples, n_features)
        Training images, of unit norm.
    shares_ : ndarray of shape (n_samples, n_seen)
        What each of them counts for in the score of each seen class.

    Notes
    -----
    It is used and tuned as :class:`GDA` is. What differs from the original: a zero-shot method of
    any kind takes the place of CLIP's text encoder; the images of a class are averaged, not summed,
    since classes have different numbers of them here (where they have equal ones α makes up for
    it); both scores are brought to one unit; and the cache is not trained (Tip-Adapter-F).

    References
    ----------
    R. Zhang, W. Zhang, R. Fang, P. Gao, K. Li, J. Dai, Y. Qiao and H. Li, "Tip-Adapter:
    training-free adaption of CLIP for few-shot classification", ECCV 2022.
    """

    _image_attributes = ("cache_", "beta")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FewImages._parameter_constraints,
        "beta": [Interval(Real, 0, None, closed="neither")],
    }
    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "beta": [1.0, 2.0, 5.5, 16.0, 50.0, 150.0],
            "weight": [2.0**k for k in range(-8, 9)],
        },
        "fast": {
            "min_images": [1, 20],
            "beta": [5.5, 16.0, 50.0],
            "weight": [2.0**k for k in range(-4, 5)],
        },
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        min_images: int = 1,
        weight: float = 1.0,
        beta: float = 5.5,
    ) -> None:
        self.estimator = estimator
        self.min_images = min_images
        self.weight = weight
        self.beta = beta

    def _sum_images(self, X: Array, codes: NDArray[np.intp], weights: Floats | None) -> Any:
        shares = np.zeros((len(codes), len(self._seen)))
        counted = np.ones(len(codes)) if weights is None else weights
        shares[np.arange(len(codes)), codes] = counted / np.bincount(codes, weights=weights)[codes]
        return X, shares

    def _learn_images(self, sums: Any) -> None:
        self.cache_, self.shares_ = sums
        self.coef_, self.intercept_ = np.eye(len(self._seen)), np.zeros(len(self._seen))

    def _embed_images(self, rows: Array) -> Array:
        xp = compat.array_namespace(rows)
        cache, shares = move_like(self.cache_, rows), move_like(self.shares_, rows)
        # While a file of ONNX is written, the number of rows is not known.
        n_rows = rows.shape[0]
        parts = (
            [slice(None)]
            if n_rows is None
            else row_blocks(n_rows, 24 * cache.shape[0], block_budget(rows))
        )
        found = [
            xp.exp(-self.beta * (1.0 - rows[part, :] @ xp.matrix_transpose(cache))) @ shares
            for part in parts
        ]
        return xp.concat(found, axis=0)
