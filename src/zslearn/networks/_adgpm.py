"""ADGPM: two graph convolutions, over children and parents or over all ancestors."""

from __future__ import annotations

from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval

from zslearn._utils._array import Floats
from zslearn._utils._docstrings import inherit_docs
from zslearn.networks._graph_method import (
    GraphMethod,
    Layer,
    ancestor_groups,
    neighbour_matrix,
    row_normalized,
    xavier,
)
from zslearn.signatures._class_graph import ClassGraph


@inherit_docs
class _TwoLayers(GraphMethod):
    """Base of SGCN and DGP: two layers with intercepts and dropout.

    Parameters
    ----------
    hidden_size : int, default=2048
        Width of the first layer.
    dropout : float, default=0.5
        Share of the numbers that each layer is given which training puts to zero.
    max_iter : int, default=3000
        Epochs; all seen classes are in every step.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphMethod._parameter_constraints,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        hierarchy: Any = None,
        targets: Any = "ovo",
        *,
        target_alpha: float = 2.0**-12,
        graph: str = "seen",
        hidden_size: int = 2048,
        dropout: float = 0.5,
        alpha: float = 5e-4,
        learning_rate: float = 1e-3,
        max_iter: int = 3000,
        device: str | None = None,
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.hierarchy = hierarchy
        self.targets = targets
        self.target_alpha = target_alpha
        self.graph = graph
        self.hidden_size = hidden_size
        self.dropout = dropout
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.device = device
        self.verbose = verbose
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    #: Groups of matrices that a layer mixes.
    n_groups: ClassVar[int] = 1

    def _first_layers(self, rng: np.random.Generator, n_in: int, n_out: int) -> list[Layer]:
        layers = []
        for width, next_width in pairwise([n_in, self.hidden_size, n_out]):
            mix = np.ones(self.n_groups) if self.n_groups > 1 else None
            weight, intercept = xavier(rng, width, next_width), np.zeros(next_width)
            layers.append(Layer(weight, intercept, mix, before=mix is not None))
        return layers

    def _dropout(self) -> float:
        return self.dropout

    def _keep(self, layers: list[Layer]) -> None:
        super()._keep(layers)
        self.intercepts_ = [layer.intercept for layer in layers]


@inherit_docs
class SGCN(_TwoLayers):
    """Simple graph convolutional network: two layers over children and parents.

    Each layer takes the mean over a node, its children and its parents. Fitting needs the `torch`
    extra; a fitted method does not.

    Attributes
    ----------
    intercepts_ : list of two ndarrays
        b of each layer.

    See Also
    --------
    DGP : Links to all ancestors and descendants.
    GCNZ : Six layers.

    Notes
    -----
    The authors train with the last layer of ResNet-50 and its intercepts, normalised together;
    such rows can be given as `targets`. They then train the image network itself further, which is
    outside this class.

    References
    ----------
    M. Kampffmeyer, Y. Chen, X. Liang, H. Wang, Y. Zhang and E. P. Xing, "Rethinking knowledge graph
    propagation for zero-shot learning", CVPR 2019.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.networks import SGCN
    >>> data = make_zero_shot(random_state=0)
    >>> model = SGCN("cluster", hidden_size=64, max_iter=200)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.3
    True
    """

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        return [[row_normalized(neighbour_matrix(graph))]] * 2


@inherit_docs
class DGP(_TwoLayers):
    r"""Dense graph propagation: links to all ancestors and descendants, weighted by distance.

    The first layer gathers what is known of a node's descendants, the second what the first made of
    its ancestors:

    .. math:: H = \sum_{k=0}^{4} w^d_k A_k^d (X \Theta_1 + 1 b_1^\top), \qquad
              W = \sum_{k=0}^{4} w^a_k A_k^a (\mathrm{LeakyReLU}(H)\, \Theta_2 + 1 b_2^\top),

    where :math:`A_k^a` takes the mean over the ancestors at distance k (4: or more),
    :math:`A_k^d` that over the descendants, and the weights of each direction are the softmax of
    five learned numbers. Fitting needs the `torch` extra; a fitted method does not.

    Attributes
    ----------
    intercepts_ : list of two ndarrays
        b of each layer.
    distance_weights_ : ndarray of shape (2, 5)
        Learned weights of the distances, to descendants and to ancestors.

    See Also
    --------
    SGCN : Links to children and parents only.

    Notes
    -----
    See the notes of :class:`SGCN`.

    References
    ----------
    M. Kampffmeyer, Y. Chen, X. Liang, H. Wang, Y. Zhang and E. P. Xing, "Rethinking knowledge graph
    propagation for zero-shot learning", CVPR 2019.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.networks import DGP
    >>> data = make_zero_shot(random_state=0)
    >>> model = DGP("cluster", hidden_size=64, max_iter=200)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.3
    True
    """

    #: Distances 0, 1, 2, 3, and 4 or more.
    n_groups: ClassVar[int] = 5

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        ancestors = ancestor_groups(graph, self.n_groups)
        descendants = [row_normalized(sp.csr_array(matrix.T)) for matrix in ancestors]
        return [descendants, [row_normalized(matrix) for matrix in ancestors]]

    def _keep(self, layers: list[Layer]) -> None:
        super()._keep(layers)
        powers: Floats = np.exp(np.stack([np.asarray(layer.mix, float) for layer in layers]))
        self.distance_weights_ = powers / powers.sum(axis=1, keepdims=True)
