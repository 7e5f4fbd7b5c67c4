r"""GCNZ, SGCN and DGP: a network over the class graph makes classifier rows.

With the nodes of the graph in the rows of H, a layer takes these to

.. math:: Z = \sum_k w_k A_k (H \Theta + 1 b^\top), \qquad w = \mathrm{softmax}(\theta),

with sparse matrices :math:`A_k` over the nodes; a layer of one matrix has w = 1. All layers but the
last pass through a LeakyReLU. The last one's rows :math:`\hat w_c`, of unit norm, are brought close
to the classifiers :math:`w_c` of the seen classes, also of unit norm:

.. math:: \frac{1}{2 n} \sum_{c \in \mathrm{seen}} \| \hat w_c - w_c \|^2.

An unseen class has a node, and so a row. Images meet rows by the inner product.

The loss depends on few of the nodes. A row of Z needs only those rows of H that its row of the
matrices names, so that each layer is computed for the rows that the next one reads and no others: a
graph of tens of thousands of nodes is trained at the cost of the neighbourhood of its seen classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
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
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn.base._class_statistics import class_means
from zslearn.base._classifier import group_by_params
from zslearn.base._training import Training
from zslearn.networks import _torch_training as networks
from zslearn.networks._torch_training import NetworkMethod, Tensor, relu, with_intercept
from zslearn.signatures._class_graph import (
    ClassGraph,
    ClassTree,
    ancestor_pairs,
    cluster_levels,
    refuse_unplaced_classes,
    warn_of_missing_hierarchy,
)
from zslearn.signatures._kernels import squared_distances

#: Parents of each node, by name.
Parents = Mapping[Hashable, Sequence[Hashable]]

# Slope of the LeakyReLU below zero.
_SLOPE = 0.2
# Optimality gap of the target classifiers: below what their directions can tell.
_TARGET_TOL = 1e-3

# The graph: described classes, with all that lies above them in a hierarchy.


def read_hierarchy(hierarchy: Any) -> Parents:
    """Parents by name, of any form of hierarchy."""
    if not isinstance(hierarchy, (ClassGraph, ClassTree)):
        hierarchy = ClassTree(hierarchy)
    graph = hierarchy if isinstance(hierarchy, ClassGraph) else ClassGraph.from_tree(hierarchy)
    parents: dict[Hashable, list[Hashable]] = {name: [] for name in graph.nodes}
    for child, parent in graph.edges.tolist():
        parents[graph.nodes[child]].append(graph.nodes[parent])
    return parents


def clustered_hierarchy(labels: Sequence[Hashable], signatures: Floats) -> Parents:
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
    names: Sequence[Hashable], parents: Parents, beside: Mapping[Hashable, Hashable]
) -> ClassGraph:
    """Described classes and all that lies above them; `beside` places those without parents."""
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
    """Signatures of described classes; of other nodes, the mean over the described ones below."""
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


# Targets: classifier rows of the seen classes.


def target_rows(training: Training, targets: Any, alpha: float) -> Floats:
    """Rows of unit norm, one per seen class."""
    if not isinstance(targets, str):
        return unit_rows(_user_rows(training, targets))
    if targets == "mean":
        return unit_rows(to_numpy(class_means(training.X, training.y, training.n_seen)))
    # The W of SynC's objectives, which need no signatures but for "struct".
    margins = cdist(training.signatures, training.signatures) if targets == "struct" else None
    found = train_multiclass_svm(
        TrainingRows(training.X, training.y, training.n_seen),
        alpha=alpha,
        loss=LOSSES[targets],
        margins=margins,
        tol=_TARGET_TOL,
        random_state=0,
    )
    return unit_rows(np.asarray(to_numpy(found.coef), dtype=np.float64))


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
    mix: Array | None = None  # θ, whose softmax weighs the groups

    def changed(self, change: Callable[[Array], Array]) -> Layer:
        """The same layer with each array replaced."""
        return Layer(*(None if part is None else change(part) for part in self))


class FieldOfView(NamedTuple):
    """Matrices of the layers, cut down to what some nodes need, and the nodes that are inputs."""

    layers: list[list[Any]]
    inputs: NDArray[np.intp]

    def to_torch(self, like: Tensor) -> list[list[Tensor | None]]:
        """Matrices in torch, in the dtype and on the device of a tensor.

        None is a group without entries, such as that of far ancestors in a shallow tree: torch
        refuses an empty sparse matrix on a GPU.
        """
        return [[_sparse_tensor(m, like) if m.nnz else None for m in part] for part in self.layers]


def field_of_view(layers: Sequence[Sequence[sp.csr_array]], nodes: NDArray[np.intp]) -> FieldOfView:
    """Cut the matrices of each layer down to what the rows of some nodes depend on."""
    cut: list[list[Any]] = []
    for matrices in reversed(layers):
        rows = [sp.csr_array(matrix[nodes]) for matrix in matrices]
        needed = np.unique(np.concatenate([part.indices for part in rows]))
        cut.append([sp.csr_array(part[:, needed]) for part in rows])
        nodes = needed.astype(np.intp)
    return FieldOfView(cut[::-1], nodes)


def _sparse_tensor(matrix: sp.csr_array, like: Tensor) -> Tensor:
    """A matrix as a sparse tensor of torch."""
    import torch

    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    with warnings.catch_warnings():
        # torch says once that this layout may still change.
        warnings.filterwarnings("ignore", "Sparse CSR", UserWarning)
        return torch.sparse_csr_tensor(
            torch.tensor(matrix.indptr, dtype=torch.int64),
            torch.tensor(matrix.indices, dtype=torch.int64),
            torch.tensor(matrix.data, dtype=like.dtype),
            size=matrix.shape,
            check_invariants=True,
        ).to(like.device)


def xavier(rng: np.random.Generator, n_in: int, n_out: int) -> Floats:
    """First weights of a layer, uniform in ± √(6 / (n_in + n_out))."""
    limit = np.sqrt(6 / (n_in + n_out))
    return rng.uniform(-limit, limit, (n_in, n_out))


def forward(
    layers: Sequence[Layer],
    propagations: Sequence[Sequence[Any]],
    inputs: Array,
    dropout: Callable[[Array], Array] | None = None,
) -> Array:
    """Rows of unit norm, one per node."""
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
    """One layer; it propagates what is narrower, its input or its output."""
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
    """Σ w_k A_k H, in the library of H; w is `mix`, and 1 without."""
    # The first group has the nodes themselves, so that it is never empty.
    total: Array = matrices[0] @ rows
    if mix is None:
        return total
    total = mix[0] * total
    for weight, matrix in zip(mix[1:], matrices[1:], strict=True):
        if matrix is not None:
            total = total + weight * (matrix @ rows)
    return total


class Dropout:
    """Sets a share of the numbers to zero and scales the others up.

    Integers of 16 bits are drawn and compared with the share on the device: for a large network,
    drawing floats and moving them to a GPU takes longer than the rest of an epoch.
    """

    def __init__(self, share: float, rng: np.random.Generator) -> None:
        self.share, self.rng = share, rng
        # Integers from here on are kept.
        self._first_kept = round(share * 2**16) - 2**15

    def __call__(self, rows: Tensor) -> Tensor:
        import torch

        n_numbers = rows.nelement()
        drawn = self.rng.integers(0, 2**64 - 1, -(-n_numbers // 4), np.uint64, endpoint=True)
        numbers = torch.from_numpy(drawn.view("<i2")[:n_numbers]).to(rows.device)
        kept = numbers.reshape(rows.shape) >= self._first_kept
        return rows * kept.to(rows.dtype) / (1 - self.share)


# The methods.


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
        A :class:`~zslearn.signatures.ClassGraph`, whose nodes may have several parents, or any
        hierarchy that :class:`~zslearn.baselines.HAT` takes, with the same rules. Only described
        classes and what lies above them become nodes.
    targets : {"ovo", "cs", "struct", "mean"}, DataFrame, mapping or array, default="ovo"
        The classifier rows of the seen classes: the W of :class:`~zslearn.synthesis.SynC` with that
        loss; "mean", the class means; or rows of any classifier, such as the last layer of a
        network, by class label or in the order of `np.unique(y)`. A last column beyond the number
        of features holds intercepts.
    target_alpha : float, default=2**-12
        Penalty of "ovo", "cs" and "struct", as SynC's `alpha`.
    graph : {"seen", "all"}, default="seen"
        Classes that the network is trained with: "seen", so that describing another class never
        changes what was learned; "all", every class described at `fit`, as in the released
        programs. Rows are made on the graph of all described classes.
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
    graph: str
    alpha: float

    def _first_layers(self, rng: np.random.Generator, n_in: int, n_out: int) -> list[Layer]:
        """Layers as training begins with them."""
        raise NotImplementedError

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        """What each layer propagates by, first to last."""
        raise NotImplementedError

    def _error_weight(self, n_nodes: int, n_seen: int) -> float:
        """How much the error counts beside the weight decay."""
        return 1.0

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Variants with the same targets train classifiers once."""
        networks.need_torch(cls.__name__)
        if any(v.hierarchy is None for v in variants) and not training.table.indicators:
            warn_of_missing_hierarchy(cls.__name__)
        for group in group_by_params(variants, "targets", "target_alpha"):
            rows = target_rows(training, group[0].targets, group[0].target_alpha)
            for variant in group:
                variant._intercepts_given = rows.shape[1] > training.X.shape[1]
                variant._keep_hierarchy(training)
                variant._train(training, rows)
                yield variant

    def _keep_hierarchy(self, training: Training) -> None:
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
            self._known_signatures = np.asarray(training.all_signatures())

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

    def _train(self, training: Training, targets: Floats) -> None:
        """Adam on the error of the seen classes' rows, all of them at every step."""
        import torch

        graph = self._graph_of(self._known_labels, self._known_signatures)
        self.n_nodes_ = len(graph)
        positions = {label: i for i, label in enumerate(self._known_labels)}
        seen = np.asarray([positions[label] for label in training.classes.tolist()])
        view = field_of_view(self._matrices(graph), seen)
        inputs = node_inputs(graph, unit_rows(self._known_signatures))[view.inputs]
        rng, _ = networks.generator(self.random_state)
        dtype = torch.float32 if "float32" in str(training.X.dtype) else torch.float64
        place = networks.training_device(training.X, self.device)
        like = torch.empty(0, dtype=dtype, device=place)
        layers = [
            layer.changed(lambda part: networks.trainable([part], like)[0])
            for layer in self._first_layers(rng, inputs.shape[1], targets.shape[1])
        ]
        parameters = [part for layer in layers for part in layer if part is not None]
        optimizer = torch.optim.Adam(
            parameters, lr=self.learning_rate, weight_decay=self.alpha, fused=True
        )
        propagations = view.to_torch(like)
        rows, wanted = networks.tensor(inputs, like), networks.tensor(targets, like)
        weight = self._error_weight(self.n_nodes_, len(targets))
        share = getattr(self, "dropout", 0.0)  # GCNZ has none
        dropout = Dropout(share, rng) if share else None
        curve = np.empty(self.max_iter)
        work = len(inputs) * sum(layer.weight.nelement() for layer in layers)
        with networks.training_threads(work):
            for epoch in networks.epochs(self.max_iter, self.verbose, type(self).__name__):
                optimizer.zero_grad()
                made = forward(layers, propagations, rows, dropout)
                loss = ((made - wanted) ** 2).sum() / (2 * len(targets))
                (weight * loss).backward()
                optimizer.step()
                curve[epoch] = float(loss.detach())
        self.loss_curve_, self.n_iter_ = curve, self.max_iter
        self._keep([layer.changed(lambda part: networks.learned([part])[0]) for layer in layers])

    def _keep(self, layers: list[Layer]) -> None:
        """Set fitted attributes."""
        self._layers = layers
        self.weights_ = [layer.weight for layer in layers]

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
        vectors = np.concatenate([signatures, self._known_signatures[rest]])
        graph = self._graph_of([*names, *(self._known_labels[i] for i in rest)], vectors)
        view = field_of_view(self._matrices(graph), np.arange(len(names)))
        dtype = self.weights_[0].dtype
        propagations = [[matrix.astype(dtype) for matrix in part] for part in view.layers]
        inputs = node_inputs(graph, unit_rows(vectors))[view.inputs].astype(dtype, copy=False)
        return forward(self._layers, propagations, inputs)


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
    words is off by one word, which is corrected: inputs are the signatures of described classes,
    and for other nodes the mean over the described classes below. It divides each input row by the
    sum of its entries, which for signatures around zero can be anything; inputs have unit norm
    here. Its dropout has no effect and is left out.

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


@inherit_docs
class _TwoLayers(GraphMethod):
    """Base of SGCN and DGP: two layers with intercepts and dropout.

    Parameters
    ----------
    hidden_size : int, default=2048
        Width of the first layer.
    dropout : float, default=0.5
        Share of each layer's inputs that training sets to zero.
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
        mix = np.ones(self.n_groups) if self.n_groups > 1 else None
        widths = pairwise([n_in, self.hidden_size, n_out])
        return [Layer(xavier(rng, a, b), np.zeros(b), mix) for a, b in widths]

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
    """

    def _matrices(self, graph: ClassGraph) -> list[list[sp.csr_array]]:
        return [[row_normalized(neighbour_matrix(graph))]] * 2


@inherit_docs
class DGP(_TwoLayers):
    r"""Dense graph propagation: links to all ancestors and descendants, weighted by distance.

    The first layer gathers from a node's descendants, the second from its ancestors:

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
