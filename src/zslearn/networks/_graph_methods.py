r"""GCNZ, SGCN and DGP: a graph convolutional network predicts classifiers of classes.

With the nodes of the graph as rows of H, a layer computes

.. math:: Z = \sum_k w_k A_k (H \Theta + 1 b^\top), \qquad w = \mathrm{softmax}(\theta),

with sparse matrices :math:`A_k` over the nodes; a layer with one matrix has w = 1. All layers but
the last are followed by a LeakyReLU. The rows :math:`\hat w_c` of the last layer, normalised to
unit length, are fitted to the classifiers :math:`w_c` of the seen classes, also of unit length:

.. math:: \frac{1}{2 n} \sum_{c \in \mathrm{seen}} \| \hat w_c - w_c \|^2.

An unseen class is a node as well and so has a classifier.

The loss depends on few of the nodes. As a row of Z needs only the rows of H where its rows of
:math:`A_k` are not zero, each layer is computed only for the rows that the next layer reads: the
cost of training is that of the neighbourhood of the seen classes, however large the graph is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn._solvers.svm._multiclass import LOSSES, train_multiclass_svm
from zslearn._solvers.svm._rows import TrainingRows
from zslearn._utils._array import Array, Floats, to_numpy, unit_rows
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_some
from zslearn._utils._optional import import_optional
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn._utils._torch import training_device, training_threads
from zslearn.base._class_statistics import class_means
from zslearn.base._classifier import group_by_params
from zslearn.base._training import Training
from zslearn.networks._torch_training import (
    NetworkMethod,
    Tensor,
    descend,
    epochs,
    relu,
    rng_and_seed,
    tensor_like,
    to_arrays,
    trainable,
    with_intercept,
)
from zslearn.signatures._class_graph import (
    ClassGraph,
    ClassTree,
    ancestor_pairs,
    cluster_levels,
    refuse_unplaced_classes,
    warn_of_missing_hierarchy,
)
from zslearn.signatures._kernels import squared_distances
from zslearn.signatures._table import as_frame, sorted_rows

#: Parents of each node, by name.
Parents = Mapping[Hashable, Sequence[Hashable]]

# Slope of the LeakyReLU below zero.
_SLOPE = 0.2
# Optimality gap of the target classifiers; a smaller one hardly changes their directions.
_TARGET_TOL = 1e-3

# The graph of described classes and their ancestors.


def read_hierarchy(hierarchy: Any) -> Parents:
    """Parents of each node of a hierarchy in any form."""
    if not isinstance(hierarchy, (ClassGraph, ClassTree)):
        hierarchy = ClassTree(hierarchy)
    graph = hierarchy if isinstance(hierarchy, ClassGraph) else ClassGraph.from_tree(hierarchy)
    parents: dict[Hashable, list[Hashable]] = {name: [] for name in graph.nodes}
    for child, parent in graph.pairs():
        parents[child].append(parent)
    return parents


def clustered_hierarchy(labels: Sequence[Hashable], signatures: Floats) -> Parents:
    """A hierarchy of three levels above classes, from clusters of their signatures."""
    levels = cluster_levels(signatures, 3)
    parents: dict[Hashable, list[Hashable]] = {("cluster", 0, 0): []}
    for depth in range(1, len(levels)):
        for code, above in zip(levels[depth].tolist(), levels[depth - 1].tolist(), strict=True):
            parents[("cluster", depth, code)] = [("cluster", depth - 1, above)]
    for label, code in zip(labels, levels[-1].tolist(), strict=True):
        parents[label] = [("cluster", len(levels) - 1, code)]
    return parents


def described_graph(
    names: Sequence[Hashable], parents: Parents, siblings: Mapping[Hashable, Hashable]
) -> ClassGraph:
    """Classes and their ancestors; a class in `siblings` gets the parents of its sibling."""
    position = {name: i for i, name in enumerate(names)}
    edges: list[tuple[int, int]] = []
    queue = list(names)
    # Breadth first, so that the order of the nodes does not depend on that of the hierarchy.
    for name in queue:
        for parent in parents[siblings.get(name, name)]:
            if parent not in position:
                position[parent] = len(position)
                queue.append(parent)
            edges.append((position[name], position[parent]))
    return ClassGraph(list(position), np.asarray(edges, dtype=np.intp).reshape(-1, 2))


def node_inputs(graph: ClassGraph, signatures: Floats) -> Floats:
    """Signatures of the described classes; for other nodes, means over described descendants."""
    n_described = len(signatures)
    node, ancestor, _ = ancestor_pairs(graph).T
    below = (node < n_described) & ((ancestor >= n_described) | (node == ancestor))
    members = sp.csr_array(
        (np.ones(int(below.sum())), (ancestor[below], node[below])), shape=(len(graph), n_described)
    )
    return np.asarray(row_normalized(members) @ signatures)


def row_normalized(matrix: sp.csr_array) -> sp.csr_array:
    """Divide each row by its sum; an empty row stays empty."""
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sp.csr_array(sp.diags_array(scale) @ matrix)


def neighbour_matrix(graph: ClassGraph) -> sp.csr_array:
    """Links between child and parent in both directions, and of each node with itself."""
    up = graph.adjacency()
    matrix = sp.csr_array(up + up.T + sp.eye_array(len(graph)))
    # Nodes that are each other's parents have one link.
    matrix.data[:] = 1.0
    return matrix


def ancestor_groups(graph: ClassGraph, n_groups: int) -> list[sp.csr_array]:
    """Links from nodes to ancestors by distance; the last group has all larger distances."""
    node, ancestor, distance = ancestor_pairs(graph).T
    group = np.minimum(distance, n_groups - 1)
    matrices = []
    for number in range(n_groups):
        chosen = group == number
        ones, links = np.ones(int(chosen.sum())), (node[chosen], ancestor[chosen])
        matrices.append(sp.csr_array((ones, links), shape=(len(graph), len(graph))))
    return matrices


# Targets: classifiers of the seen classes.


def target_rows(training: Training, targets: Any, alpha: float) -> Floats:
    """Rows of unit length, one per seen class."""
    if not isinstance(targets, str):
        return unit_rows(_given_rows(training, targets))
    if targets == "mean":
        return unit_rows(to_numpy(class_means(training.X, training.y, training.n_seen)))
    margins = cdist(training.signatures, training.signatures) if targets == "struct" else None
    result = train_multiclass_svm(
        TrainingRows(training.X, training.y, training.n_seen),
        alpha=alpha,
        loss=LOSSES[targets],
        margins=margins,
        tol=_TARGET_TOL,
        random_state=0,
    )
    return unit_rows(np.asarray(to_numpy(result.coef), dtype=np.float64))


def _given_rows(training: Training, targets: Any) -> Floats:
    """Rows given by the user, in the order of the seen classes."""
    frame, _ = as_frame(targets, training.classes, "targets")
    labels, rows = sorted_rows(frame, "targets")
    seen, places = training.classes.tolist(), {label: i for i, label in enumerate(labels.tolist())}
    if missing := [label for label in seen if label not in places]:
        raise ValueError(
            f"targets lacks rows for {len(missing)} of the {len(seen)} seen classes: "
            f"{name_some(missing)}. Its index must contain the labels of y."
        )
    rows, n_features = rows[[places[label] for label in seen]], training.X.shape[1]
    if rows.shape[1] not in (n_features, n_features + 1):
        raise ValueError(
            f"targets has {rows.shape[1]} columns; it needs {n_features}, one per feature, or "
            f"{n_features + 1} with the intercepts in the last one."
        )
    return rows


# The network.


@saved_part
@saves(
    weight=Saved("n_in", "n_out"),
    intercept=Saved("n_out", optional=True),
    mix=Saved(None, optional=True),
)
class Layer(NamedTuple):
    """The learned arrays of a layer."""

    weight: Array  # Θ, (n_in, n_out)
    intercept: Array | None = None  # b
    mix: Array | None = None  # θ, whose softmax weights the matrices

    def map(self, function: Callable[[Array], Array]) -> Layer:
        """Apply a function to each array."""
        return Layer(*(None if part is None else function(part) for part in self))


class FieldOfView(NamedTuple):
    """Matrices of the layers, restricted to what some nodes depend on, and the input nodes."""

    layers: list[list[Any]]
    inputs: NDArray[np.intp]

    def to_torch(self, like: Tensor) -> list[list[Tensor | None]]:
        """Matrices as tensors in the dtype and on the device of another; None for empty ones."""
        # torch refuses an empty sparse matrix on a GPU.
        return [[_sparse_tensor(m, like) if m.nnz else None for m in part] for part in self.layers]


def field_of_view(layers: Sequence[Sequence[sp.csr_array]], nodes: NDArray[np.intp]) -> FieldOfView:
    """Restrict the matrices of each layer to what the outputs of some nodes depend on."""
    restricted: list[list[Any]] = []
    for matrices in reversed(layers):
        rows = [sp.csr_array(matrix[nodes]) for matrix in matrices]
        inputs = np.unique(np.concatenate([part.indices for part in rows]))
        restricted.append([sp.csr_array(part[:, inputs]) for part in rows])
        nodes = inputs.astype(np.intp)
    return FieldOfView(restricted[::-1], nodes)


def _sparse_tensor(matrix: sp.csr_array, like: Tensor) -> Tensor:
    """Convert a sparse matrix to a tensor."""
    import torch

    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    with warnings.catch_warnings():
        # torch warns that the interface of this layout may change.
        warnings.filterwarnings("ignore", "Sparse CSR", UserWarning)
        return torch.sparse_csr_tensor(
            torch.tensor(matrix.indptr, dtype=torch.int64),
            torch.tensor(matrix.indices, dtype=torch.int64),
            torch.tensor(matrix.data, dtype=like.dtype),
            size=matrix.shape,
            check_invariants=True,
        ).to(like.device)


def xavier(rng: np.random.Generator, n_in: int, n_out: int) -> Floats:
    """Initial weights of a layer, uniform within ± √(6 / (n_in + n_out))."""
    limit = np.sqrt(6 / (n_in + n_out))
    return rng.uniform(-limit, limit, (n_in, n_out))


def forward(
    layers: Sequence[Layer],
    propagations: Sequence[Sequence[Any]],
    inputs: Array,
    dropout: Callable[[Array], Array] | None = None,
) -> Array:
    """Outputs of the network, normalised to unit length."""
    rows = inputs
    for number, (layer, matrices) in enumerate(zip(layers, propagations, strict=True)):
        rows = rows if dropout is None else dropout(rows)
        rows = _convolve(layer, matrices, rows)
        if number + 1 < len(layers):
            rows = relu(rows, _SLOPE)
    if compat.is_torch_array(rows):
        from torch.nn.functional import normalize

        return normalize(rows, dim=1)
    return unit_rows(rows)


def _convolve(layer: Layer, matrices: Sequence[Any], rows: Array) -> Array:
    """Compute a layer, propagating whichever is narrower: its input or its output."""
    xp = compat.array_namespace(rows)
    mix = None
    if layer.mix is not None:
        powers = xp.exp(layer.mix - xp.max(layer.mix))
        mix = powers / xp.sum(powers)
    n_in, n_out = layer.weight.shape
    if n_in >= n_out:
        out = rows @ layer.weight
        return _propagate(matrices, mix, out if layer.intercept is None else out + layer.intercept)
    out = _propagate(matrices, mix, rows) @ layer.weight
    if layer.intercept is None:
        return out
    return out + _propagate(matrices, mix, xp.ones_like(rows[:, :1])) * layer.intercept


def _propagate(matrices: Sequence[Any], mix: Array | None, rows: Array) -> Array:
    """Σ w_k A_k H with the weights `mix`, or A_1 H without."""
    # The first matrix links each node with itself and is never None.
    total: Array = matrices[0] @ rows
    if mix is None:
        return total
    total = mix[0] * total
    for weight, matrix in zip(mix[1:], matrices[1:], strict=True):
        if matrix is not None:
            total = total + weight * (matrix @ rows)
    return total


class Dropout:
    """Set a share of the entries to zero and scale up the others.

    16-bit integers are drawn and compared with a threshold on the device: for a large network,
    drawing floats and moving them to a GPU would take longer than the rest of an epoch.
    """

    def __init__(self, share: float, rng: np.random.Generator) -> None:
        self.share, self.rng = share, rng
        # Entries with integers from this threshold on are kept.
        self._threshold = round(share * 2**16) - 2**15

    def __call__(self, rows: Tensor) -> Tensor:
        import torch

        n_entries = rows.nelement()
        words = self.rng.integers(0, 2**64 - 1, -(-n_entries // 4), np.uint64, endpoint=True)
        integers = torch.from_numpy(words.view("<i2")[:n_entries]).to(rows.device)
        kept = integers.reshape(rows.shape) >= self._threshold
        return rows * kept.to(rows.dtype) / (1 - self.share)


# The methods.


@inherit_docs
@saves(
    weights_=Saved(None, None, each=True),
    intercepts_=Saved(None, each=True, optional=True),
    distance_weights_=Saved(None, None, optional=True),
    n_nodes_=Saved(kind="int", least=1),
    hierarchy_built_=Saved(kind=bool),
    _layers=Saved(kind=Layer, each=True),
    _parents=Saved(kind=dict),
    _known_labels=Saved(kind=Hashable, each=True, counts="n_known"),
    _known_signatures=Saved("n_known", "n_attributes"),
    _seen_signatures=Saved("n_seen", "n_attributes"),
    _intercepts_given=Saved(kind=bool),
)
@dataclass(eq=False, repr=False)
class GraphMethod(NetworkMethod):
    """Base of GCNZ, SGCN and DGP.

    A subclass defines `_initial_layers`, `_matrices` and, if needed, `_error_weight`.

    Parameters
    ----------
    hierarchy : ClassGraph, ClassTree, mapping, DataFrame, list, "cluster" or None, default=None
        A :class:`~zslearn.signatures.ClassGraph`, whose nodes may have several parents, or any
        hierarchy that :class:`~zslearn.baselines.HAT` accepts, with the same rules. Only described
        classes and their ancestors become nodes.
    targets : {"ovo", "cs", "struct", "mean"}, DataFrame, mapping or array, default="ovo"
        Classifiers of the seen classes: those of :class:`~zslearn.synthesis.SynC` with this loss;
        "mean", the class means; or given rows, such as the last layer of a network, by class label
        or in the order of `np.unique(y)`. A column beyond the number of features contains
        intercepts.
    target_alpha : float, default=2**-12
        Penalty of "ovo", "cs" and "struct", SynC's `alpha`.
    graph : {"seen", "all"}, default="seen"
        Classes in the graph during training: "seen", so that describing another class never changes
        the network; "all", every class described at `fit`, as in the released programs. Classifiers
        are predicted on the graph of all described classes.
    alpha : float, default=5e-4
        Weight decay, as Adam's `weight_decay` in torch.
    learning_rate : float, default=1e-3
        Learning rate of Adam.

    Attributes
    ----------
    weights_ : list of ndarray
        Θ of each layer, one row per input.
    n_nodes_ : int
        Number of nodes of the graph during training.
    hierarchy_built_ : bool
        Whether the hierarchy was clustered from the signatures.
    """

    hierarchy: Any = None
    targets: Any = "ovo"
    _: KW_ONLY
    target_alpha: float = 2.0**-12
    graph: str = "seen"
    alpha: float = 5e-4
    learning_rate: float = 1e-3

    embedding_attributes = ("_intercepts_given",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **NetworkMethod._parameter_constraints,
        "hierarchy": [
            StrOptions({"cluster"}),
            ClassTree,
            ClassGraph,
            Mapping,
            pd.DataFrame,
            list,
            tuple,
            None,
        ],
        "targets": [
            StrOptions({"ovo", "cs", "struct", "mean"}),
            pd.DataFrame,
            Mapping,
            "array-like",
        ],
        "target_alpha": [Interval(Real, 0, None, closed="neither")],
        "graph": [StrOptions({"seen", "all"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {"target_alpha": [2.0**k for k in range(-24, -7, 4)]},
        "fast": {"target_alpha": [2.0**-16, 2.0**-12, 2.0**-8]},
    }

    def _initial_layers(self, rng: np.random.Generator, n_in: int, n_out: int) -> list[Layer]:
        """Layers with random weights."""
        raise NotImplementedError

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        """Matrices A_k of each layer, first to last."""
        raise NotImplementedError

    def _error_weight(self, n_nodes: int, n_seen: int) -> float:
        """Weight of the error relative to the weight decay."""
        return 1.0

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Share target classifiers among variants."""
        import_optional("torch", cls.__name__)
        if any(v.hierarchy is None for v in variants) and not training.table.indicators:
            warn_of_missing_hierarchy(cls.__name__)
        for group in group_by_params(variants, "targets", "target_alpha"):
            targets = target_rows(training, group[0].targets, group[0].target_alpha)
            for variant in group:
                variant._intercepts_given = targets.shape[1] > training.X.shape[1]
                variant._set_hierarchy(training)
                variant._train(training, targets)
                yield variant

    def _set_hierarchy(self, training: Training) -> None:
        """Set the hierarchy and the classes in the graph of training."""
        seen = training.classes.tolist()
        self.hierarchy_built_ = self.hierarchy is None or isinstance(self.hierarchy, str)
        if self.hierarchy_built_:
            self._parents = clustered_hierarchy(seen, training.signatures)
        else:
            self._parents = read_hierarchy(self.hierarchy)
            refuse_unplaced_classes(self._parents, seen)
        self._seen_signatures: Floats = training.signatures
        self._known_labels: list[Hashable] = seen
        self._known_signatures: Floats = training.signatures
        if self.graph == "all":
            self._known_labels = training.table.labels.tolist()
            self._known_signatures = np.asarray(training.all_signatures())

    def _graph_of(self, labels: Sequence[Hashable], signatures: Floats) -> ClassGraph:
        """The graph of classes; one outside the hierarchy joins the nearest class as sibling."""
        outside = [i for i, label in enumerate(labels) if label not in self._parents]
        siblings: dict[Hashable, Hashable] = {}
        if outside:
            distances = squared_distances(signatures[outside], self._seen_signatures)
            nearest = self.seen_classes_[distances.argmin(axis=1)].tolist()
            siblings = {labels[i]: label for i, label in zip(outside, nearest, strict=True)}
        return described_graph(labels, self._parents, siblings)

    def _train(self, training: Training, targets: Floats) -> None:
        """Fit the outputs of the seen classes to the targets by Adam, all classes in each step."""
        import torch

        graph = self._graph_of(self._known_labels, self._known_signatures)
        self.n_nodes_ = len(graph)
        seen = graph.find(training.classes.tolist())
        view = field_of_view(self._matrices(graph), seen)
        inputs = node_inputs(graph, unit_rows(self._known_signatures))[view.inputs]
        rng, _ = rng_and_seed(self.random_state)
        dtype = torch.float32 if "float32" in str(training.X.dtype) else torch.float64
        like = torch.empty(0, dtype=dtype, device=training_device(training.X, self.device))
        layers = [
            layer.map(lambda part: trainable([part], like)[0])
            for layer in self._initial_layers(rng, inputs.shape[1], targets.shape[1])
        ]
        parameters = [part for layer in layers for part in layer if part is not None]
        optimizer = torch.optim.Adam(
            parameters, lr=self.learning_rate, weight_decay=self.alpha, fused=True
        )
        propagations = view.to_torch(like)
        X, Y = tensor_like(inputs, like), tensor_like(targets, like)
        weight = self._error_weight(self.n_nodes_, len(targets))
        share = getattr(self, "dropout", 0.0)  # GCNZ has no dropout
        dropout = Dropout(share, rng) if share else None
        self.loss_curve_, self.n_iter_ = np.empty(self.max_iter), self.max_iter
        with training_threads(len(inputs) * sum(layer.weight.nelement() for layer in layers)):
            for epoch in epochs(self.max_iter, self.verbose, type(self).__name__):
                predicted = forward(layers, propagations, X, dropout)
                loss = ((predicted - Y) ** 2).sum() / (2 * len(targets))
                descend(optimizer, weight * loss)
                self.loss_curve_[epoch] = float(loss.detach())
        self._set_layers([layer.map(lambda part: to_arrays([part])[0]) for layer in layers])

    def _set_layers(self, layers: list[Layer]) -> None:
        """Set the learned attributes."""
        self._layers = layers
        self.weights_ = [layer.weight for layer in layers]

    def embed(self, X: Array) -> Array:
        """Return the features, with a 1 appended if the targets have intercepts."""
        return with_intercept(X) if self._intercepts_given else X

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Predict classifiers on the graph of these classes and those of training.

        A class is placed by its name in the hierarchy, or else next to the nearest seen class.
        """
        names: list[Hashable] = [("unnamed", row) for row in range(len(signatures))]
        if labels is not None:
            names = labels.tolist()
        given = set(names)
        others = [i for i, label in enumerate(self._known_labels) if label not in given]
        vectors = np.concatenate([signatures, self._known_signatures[others]])
        graph = self._graph_of([*names, *(self._known_labels[i] for i in others)], vectors)
        view = field_of_view(self._matrices(graph), np.arange(len(names)))
        dtype = self.weights_[0].dtype
        propagations = [[matrix.astype(dtype) for matrix in part] for part in view.layers]
        inputs = node_inputs(graph, unit_rows(vectors))[view.inputs].astype(dtype, copy=False)
        return forward(self._layers, propagations, inputs)


@inherit_docs
@dataclass(eq=False, repr=False)
class GCNZ(GraphMethod):
    r"""Graph convolutional network: many layers over children and parents.

    Each layer propagates by :math:`D^{-1/2} (A + A^\top + I) D^{-1/2}`, where A contains the links
    from child to parent and D the row sums of :math:`A + A^\top + I`. Fitting needs the `torch`
    extra; a fitted model does not.

    Parameters
    ----------
    hidden_sizes : sequence of int, default=(2048, 2048, 1024, 1024, 512)
        Widths of the layers before the last. Information travels one link per layer; a small tree
        needs fewer layers.
    max_iter : int, default=300
        Number of epochs; each is one step on all seen classes.

    See Also
    --------
    SGCN : Two layers, which smooth less.
    DGP : Two layers with links to all ancestors and descendants.

    Notes
    -----
    Unlike in the released program (github.com/JudyYe/zero-shot-gcn), inputs are the signatures of
    the described classes, and for other nodes means over described descendants: the program's
    look-up of words is off by one. Inputs are normalised to unit length instead of divided by the
    sum of their entries, which may be close to zero. There is no dropout, as the program's has no
    effect.

    The program scales the outputs of the n seen of N nodes by N/n before the error, whose weight is
    therefore N²/n times that of the mean, and makes the weight decay negligible. The same weight is
    used here; `loss_curve_` contains the mean itself.

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

    _: KW_ONLY
    hidden_sizes: Sequence[int] = (2048, 2048, 1024, 1024, 512)
    max_iter: int = 300

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphMethod._parameter_constraints,
        "hidden_sizes": [list, tuple, np.ndarray],
    }

    def _validate_params(self) -> None:
        super()._validate_params()
        valid = Interval(Integral, 1, None, closed="left")
        if not all(valid.is_satisfied_by(size) for size in self.hidden_sizes):
            raise ValueError(f"hidden_sizes must be positive integers; got {self.hidden_sizes!r}.")

    def _initial_layers(self, rng: np.random.Generator, n_in: int, n_out: int) -> list[Layer]:
        widths = [n_in, *(int(size) for size in self.hidden_sizes), n_out]
        return [Layer(xavier(rng, a, b)) for a, b in pairwise(widths)]

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        links = neighbour_matrix(graph)
        scale = sp.diags_array(1 / np.sqrt(np.asarray(links.sum(axis=1)).ravel()))
        matrix = sp.csr_array(scale @ links @ scale)
        return [[matrix]] * (len(self.hidden_sizes) + 1)

    def _error_weight(self, n_nodes: int, n_seen: int) -> float:
        return n_nodes**2 / n_seen


@inherit_docs
@dataclass(eq=False, repr=False)
class _TwoLayers(GraphMethod):
    """Base of SGCN and DGP: two layers with intercepts and dropout.

    Parameters
    ----------
    hidden_size : int, default=2048
        Width of the first layer.
    dropout : float, default=0.5
        Share of each layer's inputs that is set to zero during training.
    max_iter : int, default=3000
        Number of epochs; each is one step on all seen classes.

    Attributes
    ----------
    intercepts_ : list of two ndarrays
        b of each layer.
    """

    _: KW_ONLY
    hidden_size: int = 2048
    dropout: float = 0.5
    max_iter: int = 3000

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphMethod._parameter_constraints,
        "hidden_size": [Interval(Integral, 1, None, closed="left")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
    }

    #: Number of matrices A_k of a layer.
    n_groups: ClassVar[int] = 1

    def _initial_layers(self, rng: np.random.Generator, n_in: int, n_out: int) -> list[Layer]:
        mix = np.ones(self.n_groups) if self.n_groups > 1 else None
        widths = pairwise([n_in, self.hidden_size, n_out])
        return [Layer(xavier(rng, a, b), np.zeros(b), mix) for a, b in widths]

    def _set_layers(self, layers: list[Layer]) -> None:
        super()._set_layers(layers)
        self.intercepts_ = [layer.intercept for layer in layers]


@inherit_docs
class SGCN(_TwoLayers):
    """Simple graph convolutional network: two layers over children and parents.

    Each layer averages over a node, its children and its parents. Fitting needs the `torch` extra;
    a fitted model does not.

    See Also
    --------
    DGP : Links to all ancestors and descendants.
    GCNZ : Six layers.

    Notes
    -----
    The targets of the authors are the last layer of ResNet-50 with its intercepts, normalised
    together; pass them as `targets`. They also fine-tune the image network, which this class does
    not do.

    References
    ----------
    M. Kampffmeyer, Y. Chen, X. Liang, H. Wang, Y. Zhang and E. P. Xing, "Rethinking knowledge graph
    propagation for zero-shot learning", CVPR 2019.
    """

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        return [[row_normalized(neighbour_matrix(graph))]] * 2


@inherit_docs
class DGP(_TwoLayers):
    r"""Dense graph propagation: links to all ancestors and descendants, weighted by distance.

    The first layer averages over the descendants of a node, the second over its ancestors:

    .. math:: H = \sum_{k=0}^{4} w^d_k A_k^d (X \Theta_1 + 1 b_1^\top), \qquad
              W = \sum_{k=0}^{4} w^a_k A_k^a (\mathrm{LeakyReLU}(H)\, \Theta_2 + 1 b_2^\top),

    where :math:`A_k^a` averages over the ancestors at distance k, 4 standing for 4 or more,
    :math:`A_k^d` over the descendants, and the weights of each direction are the softmax of five
    learned numbers. Fitting needs the `torch` extra; a fitted model does not.

    Attributes
    ----------
    distance_weights_ : ndarray of shape (2, 5)
        Learned weights of the distances to descendants and to ancestors.

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

    def _set_layers(self, layers: list[Layer]) -> None:
        super()._set_layers(layers)
        powers: Floats = np.exp(np.stack([np.asarray(layer.mix, float) for layer in layers]))
        self.distance_weights_ = powers / powers.sum(axis=1, keepdims=True)
