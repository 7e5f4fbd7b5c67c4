"""GCNZ: six graph convolutions over the class graph make classifiers of words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval

from zslearn._utils._docstrings import inherit_docs
from zslearn.networks._graph_method import GraphMethod, Layer, neighbour_matrix, xavier
from zslearn.signatures._class_graph import ClassGraph


@inherit_docs
class GCNZ(GraphMethod):
    r"""Graph convolutional network for zero-shot learning: deep, over children and parents.

    Each layer propagates by :math:`D^{-1/2} (A + A^\top + I) D^{-1/2}`, where A has the links from
    child to parent and D the sums of its rows. Fitting needs the `torch` extra; a fitted method
    does not.

    Parameters
    ----------
    hidden_sizes : sequence of int, default=(2048, 2048, 1024, 1024, 512)
        Widths of the layers but the last. Each layer spreads what is known of a node by one link;
        over a small tree fewer do.
    max_iter : int, default=300
        Epochs; all seen classes are in every step.

    See Also
    --------
    SGCN : Two layers, which over-smooth less.
    DGP : Two layers with links to all ancestors and descendants.

    Notes
    -----
    As the released program (github.com/JudyYe/zero-shot-gcn) with these differences. Its look-up of
    words is off by one word, which is left out: nodes are given what their class is described by,
    and the mean over the described classes below where they are none. It divides each input row
    by the sum of its entries, which for signatures around zero can be anything; inputs have unit
    norm here. Its dropout has no effect and is left out.

    The program multiplies the rows of the n seen of N nodes by N/n before it takes their error,
    which therefore counts N²/n times the mean; the weight decay counts next to nothing beside it.
    The same is done here; `loss_curve_` holds the plain mean.

    References
    ----------
    X. Wang, Y. Ye and A. Gupta, "Zero-shot recognition via semantic embeddings and knowledge
    graphs", CVPR 2018.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.networks import GCNZ
    >>> data = make_zero_shot(random_state=0)
    >>> model = GCNZ("cluster", hidden_sizes=(64,), max_iter=100)
    >>> model = model.fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.3
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphMethod._parameter_constraints,
        "hidden_sizes": [list, tuple, np.ndarray],
    }

    def __init__(
        self,
        hierarchy: Any = None,
        targets: Any = "ovo",
        *,
        target_alpha: float = 2.0**-12,
        graph: str = "seen",
        hidden_sizes: Sequence[int] = (2048, 2048, 1024, 1024, 512),
        alpha: float = 5e-4,
        learning_rate: float = 1e-3,
        max_iter: int = 300,
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
        self.hidden_sizes = hidden_sizes
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.device = device
        self.verbose = verbose
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    def _validate_params(self) -> None:
        super()._validate_params()
        valid = Interval(Integral, 1, None, closed="left")
        if not all(valid.is_satisfied_by(size) for size in self.hidden_sizes):
            raise ValueError(
                f"hidden_sizes must hold integers of at least 1; got {self.hidden_sizes!r}."
            )

    def _first_layers(self, rng: np.random.Generator, n_in: int, n_out: int) -> list[Layer]:
        widths = [n_in, *(int(size) for size in self.hidden_sizes), n_out]
        return [Layer(xavier(rng, a, b)) for a, b in pairwise(widths)]

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        links = neighbour_matrix(graph)
        roots = sp.diags_array(1 / np.sqrt(np.asarray(links.sum(axis=1)).ravel()))
        matrix = sp.csr_array(roots @ links @ roots)
        return [[matrix]] * (len(self.hidden_sizes) + 1)

    def _error_weight(self, n_nodes: int, n_seen: int) -> float:
        return n_nodes**2 / n_seen
