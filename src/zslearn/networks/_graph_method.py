r"""What graph methods have in common: a network over the class graph makes classifier rows.

With the nodes of the graph in the rows of H, a layer takes these to

.. math:: Z = \sum_k w_k A_k (H \Theta + 1 b^\top), \qquad w = \mathrm{softmax}(\theta),

with sparse matrices :math:`A_k` over the nodes; a layer of one matrix has w = 1. (Where the
intercepts come after the propagation, they are added to Z instead.) All layers but the last pass
through a LeakyReLU. The last one's rows :math:`\hat w_c`, of unit norm, are brought close to the
classifiers :math:`w_c` of the seen classes, also of unit norm:

.. math:: \frac{1}{2 n} \sum_{c \in \mathrm{seen}} \| \hat w_c - w_c \|^2.

An unseen class has a node, and so a row. Images meet rows by the inner product.

The loss is on few of the nodes. A row of Z needs only those rows of H that its row of the matrices
names, so that each layer is computed for the rows that the next one reads and no others: a graph of
tens of thousands of nodes is trained at the cost of the neighbourhood of its seen classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
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
from zslearn._utils._files import saved_part
from zslearn._utils._messages import InputWarning, name_some, warn_user
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import class_means
from zslearn.base._training import Training
from zslearn.base._variants import group_by_params
from zslearn.networks import _torch_training as networks
from zslearn.networks._torch_training import NetworkMethod, Tensor, relu, with_intercept
from zslearn.signatures._class_graph import (
    ClassGraph,
    ClassTree,
    ancestor_pairs,
    cluster_levels,
    refuse_unplaced_classes,
)
from zslearn.signatures._kernels import squared_distances

# The graph that graph methods work on: classes, with all that lies above them in a hierarchy.

#: Parents of each node, by name: what a hierarchy is, whatever it came as.
Parents = Mapping[Hashable, Sequence[Hashable]]


def read_hierarchy(hierarchy: Any) -> Parents:
    """Parents by name, of any form of hierarchy."""
    parents: dict[Hashable, list[Hashable]] = {}
    if isinstance(hierarchy, ClassGraph):
        parents = {name: [] for name in hierarchy.nodes}
        for child, parent in hierarchy.edges.tolist():
            parents[hierarchy.nodes[child]].append(hierarchy.nodes[parent])
        return parents
    tree = hierarchy if isinstance(hierarchy, ClassTree) else ClassTree(hierarchy)
    for child, parent in tree.parents.items():
        parents.setdefault(child, []).append(parent)
        parents.setdefault(parent, [])
    return parents


def clustered_hierarchy(labels: Iterable[Hashable], signatures: Floats) -> Parents:
    """A hierarchy of three levels over classes, by clustering their signatures."""
    levels = cluster_levels(signatures, 3)
    parents: dict[Hashable, list[Hashable]] = {("cluster", 0, 0): []}
    for depth in range(1, len(levels)):
        for code, above in zip(levels[depth].tolist(), levels[depth - 1].tolist(), strict=True):
            parents[("cluster", depth, code)] = [("cluster", depth - 1, above)]
    for label, code in zip(labels, levels[-1].tolist(), strict=True):
        parents[label] = [("cluster", len(levels) - 1, code)]
    return parents


def described_graph(
    names: Sequence[Hashable],
    parents: Parents,
    beside: Mapping[Hashable, Hashable] | None = None,
) -> ClassGraph:
    """Described classes and all that lies above them."""
    beside = beside or {}
    position = {name: i for i, name in enumerate(names)}
    edges: list[tuple[int, int]] = []
    waiting = list(names)
    # Breadth first, so that the nodes come in one order whatever the hierarchy's own is.
    for name in waiting:
        for parent in parents[beside.get(name, name)]:
            if parent not in position:
                position[parent] = len(position)
                waiting.append(parent)
            edges.append((position[name], position[parent]))
    return ClassGraph(list(position), np.asarray(edges, dtype=np.intp).reshape(-1, 2))


def node_inputs(graph: ClassGraph, signatures: Floats) -> Floats:
    """What the network is given of each node."""
    n_described = len(signatures)
    node, ancestor, _ = ancestor_pairs(graph).T
    below = (node < n_described) & ((ancestor >= n_described) | (node == ancestor))
    members = sp.csr_array(
        (np.ones(int(below.sum())), (ancestor[below], node[below])),
        shape=(len(graph), n_described),
    )
    return np.asarray(row_normalized(members) @ signatures)


def row_normalized(matrix: sp.csr_array) -> sp.csr_array:
    """Rows divided by their sum; an empty row stays empty."""
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    return sp.csr_array(sp.diags_array(scale) @ matrix)


def neighbour_matrix(graph: ClassGraph) -> sp.csr_array:
    """A + Aᵀ + I: 1 between child and parent, either way, and of each node with itself."""
    up = graph.adjacency()
    matrix = sp.csr_array(up + up.T + sp.eye_array(len(graph)))
    # Two nodes that are each above the other have one link.
    matrix.data[:] = 1.0
    return matrix


def ancestor_groups(graph: ClassGraph, n_groups: int) -> list[sp.csr_array]:
    """Which nodes lie above which, by distance."""
    node, ancestor, distance = ancestor_pairs(graph).T
    group = np.minimum(distance, n_groups - 1)
    matrices = []
    for number in range(n_groups):
        chosen = group == number
        places = (node[chosen], ancestor[chosen])
        ones = np.ones(int(chosen.sum()))
        matrices.append(sp.csr_array((ones, places), shape=(len(graph), len(graph))))
    return matrices


# Classifier rows of the seen classes, which graph methods learn to make of the class graph.

# Gap of the classifiers, as a share of their objective: below what their directions can tell.
_TOLERANCE = 1e-3


def target_rows(training: Training, targets: Any, alpha: float) -> Floats:
    """Rows of unit norm, one per seen class."""
    if isinstance(targets, str):
        rows = _learned_rows(training, targets, alpha)
    else:
        rows = _user_rows(training, targets)
    return unit_rows(rows)


def _learned_rows(training: Training, kind: str, alpha: float) -> Floats:
    """Class means, or the W of SynC's objectives, which need no signatures but for "struct"."""
    if kind == "mean":
        return to_numpy(class_means(training.X, training.y, training.n_seen))
    margins = cdist(training.signatures, training.signatures) if kind == "struct" else None
    found = train_multiclass_svm(
        TrainingRows(training.X, training.y, training.n_seen),
        alpha=alpha,
        loss=LOSSES[kind],
        margins=margins,
        tol=_TOLERANCE,
        random_state=0,
    )
    return np.asarray(to_numpy(found.coef), dtype=np.float64)


def _user_rows(training: Training, targets: Any) -> Floats:
    """Rows that a user gave, in the order of the seen classes."""
    labels = training.classes.tolist()
    if isinstance(targets, Mapping):
        targets = pd.DataFrame.from_dict(dict(targets), orient="index")
    if isinstance(targets, pd.DataFrame):
        if not targets.index.is_unique:
            twice = targets.index[targets.index.duplicated()].unique().tolist()
            raise ValueError(f"targets has more than one row for {name_some(twice)}: keep one.")
        lost = [label for label in labels if label not in targets.index]
        if lost:
            raise ValueError(
                f"targets lacks rows for {len(lost)} of the {len(labels)} seen classes: "
                f"{name_some(lost)}. Its index must hold the labels of y."
            )
        targets = targets.loc[labels]
    rows = np.asarray(to_numpy(targets), dtype=np.float64)
    n_features = training.X.shape[1]
    if rows.ndim != 2 or len(rows) != len(labels):
        raise ValueError(
            f"targets must have one row for each of the {len(labels)} seen classes, in the order "
            f"of np.unique(y); got shape {rows.shape}. A DataFrame whose index holds the labels "
            "may have rows of further classes."
        )
    if rows.shape[1] not in (n_features, n_features + 1):
        raise ValueError(
            f"targets has {rows.shape[1]} columns: give {n_features}, one per feature, or "
            f"{n_features + 1}, with the intercepts behind them."
        )
    if not np.isfinite(rows).all():
        bad = training.classes[~np.isfinite(rows).all(axis=1)]
        raise ValueError(f"targets holds NaN or infinity in the rows of {name_some(bad.tolist())}.")
    return rows


#: Slope of the LeakyReLU below zero.
SLOPE = 0.2


class Propagation(NamedTuple):
    """The sparse matrices of one layer, one per group, for the rows that are needed of it.

    None is a group without entries, such as that of far ancestors in a shallow tree: torch has no
    use for an empty sparse matrix on a GPU.
    """

    matrices: Sequence[Any]

    def __call__(self, rows: Array, mix: Array | None = None) -> Array:
        """Σ w_k A_k H, in the library of H; w is `mix`, and 1 without."""
        # The first group has the nodes themselves, so that it is never empty.
        total: Array = self.matrices[0] @ rows
        if mix is None:
            return total
        total = mix[0] * total
        for weight, matrix in zip(mix[1:], self.matrices[1:], strict=True):
            if matrix is not None:
                total = total + weight * (matrix @ rows)
        return total

    def to_torch(self, like: Tensor) -> Propagation:
        """The same in torch, in the dtype and on the device of a tensor."""
        return Propagation([_sparse_tensor(m, like) if m.nnz else None for m in self.matrices])

    def astype(self, dtype: Any) -> Propagation:
        """The same in another dtype."""
        return Propagation([matrix.astype(dtype) for matrix in self.matrices])


def _sparse_tensor(matrix: sp.csr_array, like: Tensor) -> Tensor:
    """A matrix as a sparse tensor of torch."""
    import torch

    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    with warnings.catch_warnings():
        # torch says once that this layout may still change.
        warnings.filterwarnings("ignore", "Sparse CSR", UserWarning)
        return torch.sparse_csr_tensor(
            _dense_tensor(matrix.indptr, torch.int64),
            _dense_tensor(matrix.indices, torch.int64),
            _dense_tensor(matrix.data, like.dtype),
            size=matrix.shape,
            check_invariants=True,
        ).to(like.device)


def _dense_tensor(numbers: NDArray[Any], dtype: Any) -> Tensor:
    """Numbers as a tensor of its own, with a stride of one.

    An array of one number, or of none, may have any stride, which torch then takes over and some of
    its versions refuse.
    """
    import torch

    out = torch.empty(len(numbers), dtype=dtype)
    return out.copy_(torch.from_numpy(np.ascontiguousarray(numbers)))


@saved_part
@saves(
    weight=Saved("n_in", "n_out"),
    intercept=Saved("n_out", optional=True),
    mix=Saved(None, optional=True),
    before=Saved(kind=bool),
)
class Layer(NamedTuple):
    """What is learned of a layer; layers may share a mix."""

    weight: Array  # Θ, (n_in, n_out)
    intercept: Array | None = None  # b
    mix: Array | None = None  # θ, what the weights of the groups are the softmax of
    before: bool = False  # whether the intercepts come before the propagation

    def changed(self, change: Callable[[Array], Array]) -> Layer:
        """The same layer with something else in the place of each array."""
        weight, intercept, mix = (None if part is None else change(part) for part in self[:3])
        return Layer(weight, intercept, mix, self.before)

    def arrays(self) -> list[Array]:
        """What is learned of it."""
        return [part for part in self[:3] if part is not None]


def xavier(rng: np.random.Generator, n_in: int, n_out: int) -> Floats:
    """First weights of a layer, uniform in ± √(6 / (n_in + n_out))."""
    limit = np.sqrt(6 / (n_in + n_out))
    return rng.uniform(-limit, limit, (n_in, n_out))


class FieldOfView(NamedTuple):
    """Layers cut down to what some nodes need, and the nodes whose inputs that takes."""

    layers: list[Propagation]
    inputs: NDArray[np.intp]


def field_of_view(layers: Sequence[Sequence[sp.csr_array]], nodes: NDArray[np.intp]) -> FieldOfView:
    """Cut the matrices of each layer down to what the rows of some nodes depend on."""
    cut: list[Propagation] = []
    for matrices in reversed(layers):
        rows = [sp.csr_array(matrix[nodes]) for matrix in matrices]
        needed = np.unique(np.concatenate([part.indices for part in rows]))
        cut.append(Propagation([sp.csr_array(part[:, needed]) for part in rows]))
        nodes = needed.astype(np.intp)
    return FieldOfView(cut[::-1], nodes)


def forward(
    layers: Sequence[Layer],
    propagations: Sequence[Propagation],
    inputs: Array,
    dropout: Callable[[Array], Array] | None = None,
) -> Array:
    """Rows of unit norm, one per node."""
    rows = inputs
    for number, (layer, propagate) in enumerate(zip(layers, propagations, strict=True)):
        rows = rows if dropout is None else dropout(rows)
        rows = _convolve(layer, propagate, rows)
        if number + 1 < len(layers):
            rows = relu(rows, SLOPE)
    return _normalized(rows)


def _convolve(layer: Layer, propagate: Propagation, rows: Array) -> Array:
    """One layer; it propagates what is narrower, its input or its output."""
    mix = None if layer.mix is None else _softmax(layer.mix)
    n_in, n_out = layer.weight.shape
    offset = layer.intercept
    if n_in < n_out:
        out = propagate(rows, mix) @ layer.weight
        if offset is not None and layer.before:
            ones = compat.array_namespace(rows).ones_like(rows[:, :1])
            out = out + propagate(ones, mix) * offset[None, :]
    else:
        out = rows @ layer.weight
        if offset is not None and layer.before:
            out = out + offset[None, :]
        out = propagate(out, mix)
    return out if offset is None or layer.before else out + offset[None, :]


def _softmax(values: Array) -> Array:
    xp = compat.array_namespace(values)
    powers = xp.exp(values - xp.max(values))
    return powers / xp.sum(powers)


def _normalized(rows: Array) -> Array:
    """Rows of unit norm, with a gradient where the library has one."""
    if compat.is_torch_array(rows):
        from torch.nn.functional import normalize

        return normalize(rows, dim=1)
    return unit_rows(rows)


@inherit_docs
@saves(
    weights_=Saved(None, None, each=True),
    intercepts_=Saved(None, each=True, optional=True),
    distance_weights_=Saved(None, None, optional=True),
    loss_curve_=Saved(None, finite=False),
    n_iter_=Saved(kind="int", least=0),
    n_nodes_=Saved(kind="int", least=1),
    hierarchy_built_=Saved(kind=bool),
    _layers=Saved(kind=Layer, each=True),
    _parents=Saved(kind=dict),
    _known_labels=Saved(kind=Hashable, each=True, counts="n_known"),
    _known_signatures=Saved("n_known", "n_attributes"),
    _seen_signatures=Saved("n_seen", "n_attributes"),
    _intercepts_given=Saved(kind=bool),
)
class GraphMethod(NetworkMethod):
    """Base of GCNZ, SGCN and DGP, which say what their layers are.

    Parameters
    ----------
    hierarchy : ClassGraph, ClassTree, mapping, DataFrame, list, "cluster" or None, default=None
        What the graph is made of: a :class:`~zslearn.signatures.ClassGraph`, whose nodes may have
        several parents, or child–parent pairs over class labels and inner nodes as
        :class:`~zslearn.baselines.HAT` takes them. Every seen class must be in it; a class that is
        described and is not in it is placed beside the seen class of the nearest signature. Only
        described classes and what lies above them become nodes. "cluster": built by clustering the
        seen classes' signatures, see :func:`~zslearn.signatures.cluster_hierarchy`. None: the same,
        with a warning.
    targets : {"ovo", "cs", "struct", "mean"}, DataFrame, mapping or array, default="ovo"
        The classifier rows of the seen classes: what :class:`~zslearn.synthesis.SynC` learns with
        the loss of that name (its W); "mean", the mean image of each class; or rows of any
        classifier, such as the last layer of a network: a DataFrame or mapping by class label, or
        an array whose rows follow `np.unique(y)`. One column more than there are features holds
        intercepts.
    target_alpha : float, default=2**-12
        Penalty of "ovo", "cs" and "struct", as SynC's `alpha`.
    graph : {"seen", "all"}, default="seen"
        Whose nodes the network is trained with: "seen", the seen classes and what lies above them,
        so that describing another class never changes what was learned; "all", every class
        described at `fit`, as the released programs do. Rows are made on the graph of all described
        classes.
    alpha : float, default=5e-4
        Weight decay, as Adam's `weight_decay` in torch.
    learning_rate : float, default=1e-3
        Step of Adam.

    Attributes
    ----------
    weights_ : list of ndarray
        Θ of each layer, one row per input.
    n_nodes_ : int
        Nodes of the graph that the network was trained with.
    hierarchy_built_ : bool
        Whether the hierarchy comes from the signatures.
    """

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

    hierarchy: Any
    targets: Any
    target_alpha: float
    graph: str
    alpha: float

    # What a graph method says of itself.

    def _first_layers(self, rng: np.random.Generator, n_in: int, n_out: int) -> list[Layer]:
        """Layers as training begins with them."""
        raise NotImplementedError

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        """What each layer propagates by, first to last."""
        raise NotImplementedError

    def _dropout(self) -> float:
        """Share of the numbers that each layer is given which training puts to zero."""
        return 0.0

    def _error_weight(self, n_nodes: int, n_seen: int) -> float:
        """How much the error counts beside the weight decay."""
        return 1.0

    # Learning.

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Variants with the same targets train classifiers once."""
        networks.need_torch(cls.__name__)
        unsaid = any(variant.hierarchy is None for variant in variants)
        if unsaid and not training.table.indicators:
            warn_user(
                f"{cls.__name__} was given no hierarchy and builds one by clustering the "
                'signatures. Give a class graph or child–parent pairs, or hierarchy="cluster" to '
                "say that this is meant.",
                InputWarning,
            )
        for group in group_by_params(variants, "targets", "target_alpha"):
            rows = target_rows(training, group[0].targets, group[0].target_alpha)
            for variant in group:
                variant._learn(training, rows)
                yield variant

    def _learn(self, training: Training, targets: Floats) -> None:
        """Train the network to make the targets of the seen classes' nodes."""
        import torch

        self._intercepts_given = targets.shape[1] > training.X.shape[1]
        self._take_over(training)
        graph = self._graph_of(self._known_labels, self._known_signatures)
        self.n_nodes_ = len(graph)
        rng, _ = networks.generator(self.random_state)
        dtype = torch.float32 if "float32" in str(training.X.dtype) else torch.float64
        place = networks.training_device(training.X, self.device)
        like = torch.empty(0, dtype=dtype, device=place)
        positions = {label: i for i, label in enumerate(self._known_labels)}
        seen = np.asarray([positions[label] for label in training.classes.tolist()])
        view = field_of_view(self._matrices(graph), seen)
        inputs = node_inputs(graph, unit_rows(self._known_signatures))[view.inputs]
        layers = self._first_layers(rng, inputs.shape[1], targets.shape[1])
        with networks.training_threads(len(inputs) * sum(part.weight.size for part in layers)):
            self._train(layers, view, inputs, targets, like, rng)

    def _take_over(self, training: Training) -> None:
        """Keep what describing classes needs: the hierarchy, and the classes of training."""
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
            self._known_signatures = np.asarray(training.every_signature())

    def _graph_of(self, labels: Sequence[Hashable], signatures: Floats) -> ClassGraph:
        """The graph over some classes; those without a place stand beside their nearest one."""
        lost = [i for i, label in enumerate(labels) if label not in self._parents]
        beside: dict[Hashable, Hashable] = {}
        if lost:
            distances = squared_distances(signatures[lost], self._seen_signatures)
            seen = self.seen_classes_.tolist()
            nearest = distances.argmin(axis=1).tolist()
            beside = {labels[i]: seen[j] for i, j in zip(lost, nearest, strict=True)}
        return described_graph(labels, self._parents, beside)

    def _train(
        self,
        layers: list[Layer],
        view: FieldOfView,
        inputs: Floats,
        targets: Floats,
        like: Tensor,
        rng: np.random.Generator,
    ) -> None:
        """Adam, all seen classes at every step."""
        import torch

        learned = [
            layer.changed(lambda part: networks.trainable([part], like)[0]) for layer in layers
        ]
        parameters = [part for layer in learned for part in layer.arrays()]
        optimizer = torch.optim.Adam(
            parameters, lr=self.learning_rate, weight_decay=self.alpha, fused=True
        )
        propagations = [layer.to_torch(like) for layer in view.layers]
        rows, wanted = networks.tensor(inputs, like), networks.tensor(targets, like)
        weight = self._error_weight(self.n_nodes_, len(targets))
        dropout = _Dropout(self._dropout(), rng) if self._dropout() else None
        curve = np.empty(self.max_iter)
        for epoch in networks.epochs(self.max_iter, self.verbose, type(self).__name__):
            optimizer.zero_grad()
            made = forward(learned, propagations, rows, dropout)
            loss = ((made - wanted) ** 2).sum() / (2 * len(targets))
            (weight * loss).backward()
            optimizer.step()
            curve[epoch] = float(loss.detach())
        self.loss_curve_, self.n_iter_ = curve, self.max_iter
        self._keep([layer.changed(lambda part: networks.learned([part])[0]) for layer in learned])

    def _keep(self, layers: list[Layer]) -> None:
        """Take over what was learned."""
        self._layers = layers
        self.weights_ = [layer.weight for layer in layers]

    # _fit, embed and synthesize.

    def embed(self, X: Array) -> Array:
        """Features, with a 1 behind each row where the targets have intercepts."""
        return with_intercept(X) if self._intercepts_given else X

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Make classifier rows on the graph of these classes and those of training.

        A class stands where the hierarchy has its name; without one, beside its nearest seen class.
        """
        names: list[Hashable] = [("unnamed", row) for row in range(len(signatures))]
        if labels is not None:
            names = labels.tolist()
        known = set(names)
        rest = [i for i, label in enumerate(self._known_labels) if label not in known]
        every = [*names, *(self._known_labels[i] for i in rest)]
        vectors = np.concatenate([signatures, self._known_signatures[rest]])
        graph = self._graph_of(every, vectors)
        view = field_of_view(self._matrices(graph), np.arange(len(names)))
        dtype = self.weights_[0].dtype
        inputs = node_inputs(graph, unit_rows(vectors))[view.inputs].astype(dtype, copy=False)
        return forward(self._layers, [layer.astype(dtype) for layer in view.layers], inputs)


class _Dropout:
    """Puts a share of the numbers to zero and makes up for it in the others.

    What is drawn are integers of 16 bits, which are compared with the share on the device: of a
    large network the drawing and the way to a GPU take longer than an epoch otherwise.
    """

    def __init__(self, share: float, rng: np.random.Generator) -> None:
        self.share = share
        self.rng = rng
        # Integers from here on are kept.
        self._first_kept = round(share * 2**16) - 2**15

    def __call__(self, rows: Tensor) -> Tensor:
        import torch

        n_numbers = rows.nelement()
        drawn = self.rng.integers(0, 2**64 - 1, -(-n_numbers // 4), np.uint64, endpoint=True)
        numbers = torch.from_numpy(drawn.view("<i2")[:n_numbers]).to(rows.device)
        kept = numbers.reshape(rows.shape) >= self._first_kept
        return rows * kept.to(rows.dtype) / (1 - self.share)
