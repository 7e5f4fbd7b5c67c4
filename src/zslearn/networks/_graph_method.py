r"""What graph methods have in common: a network over the class graph makes classifier rows.

With the nodes of the graph in the rows of H, layer by layer as in
:mod:`zslearn.networks._graph_layers`, the network's rows :math:`\hat w_c`, of unit norm, are
brought close to the classifiers :math:`w_c` of the seen classes, also of unit norm:

.. math:: \frac{1}{2 n} \sum_{c \in \mathrm{seen}} \| \hat w_c - w_c \|^2.

An unseen class has a node, and so a row. Images meet rows by the inner product.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from zslearn.base import Training, ZeroShotClassifier, alike
from zslearn.networks import _torch_training as networks
from zslearn.networks._feature_classifier import with_intercept
from zslearn.networks._graph_layers import FieldOfView, Layer, field_of_view, forward
from zslearn.networks._graph_nodes import (
    clustered_hierarchy,
    described_graph,
    node_inputs,
    read_hierarchy,
    refuse_unplaced,
)
from zslearn.networks._graph_targets import target_rows
from zslearn.networks._torch_training import Tensor
from zslearn.scoring import ScoreFunction
from zslearn.signatures import ClassGraph, ClassTree, squared_distances
from zslearn.utils import Array, Floats, InputWarning, unit_rows, warn_user

PARAMETERS = """
hierarchy : ClassGraph, ClassTree, mapping, DataFrame, list, "cluster" or None, default=None
    What the graph is made of: a :class:`~zslearn.signatures.ClassGraph`, whose nodes may have
    several parents, or child–parent pairs over class labels and inner nodes as
    :class:`~zslearn.baselines.HAT` takes them. Every seen class must be in it; a class that is
    described and is not in it is placed beside the seen class of the nearest signature. Only
    described classes and what lies above them become nodes. "cluster": built by clustering the
    seen classes' signatures, see :func:`~zslearn.signatures.cluster_hierarchy`. None: the same,
    with a warning.
targets : {"ovo", "cs", "struct", "mean"}, DataFrame, mapping or array, default="ovo"
    The classifier rows of the seen classes: what :class:`~zslearn.synthesis.SynC` learns with the
    loss of that name (its W); "mean", the mean image of each class; or rows of any classifier, such
    as the last layer of a network: a DataFrame or mapping by class label, or an array whose rows
    follow `np.unique(y)`. One column more than there are features holds intercepts.
target_alpha : float, default=2**-12
    Penalty of "ovo", "cs" and "struct", as SynC's `alpha`.
graph : {"seen", "all"}, default="seen"
    Whose nodes the network is trained with: "seen", the seen classes and what lies above them, so
    that describing another class never changes what was learned; "all", every class described at
    `fit`, as the released programs do. Rows are made on the graph of all described classes.
"""

ATTRIBUTES = """
weights_ : list of ndarray
    Θ of each layer, one row per input.
loss_curve_ : ndarray of shape (max_iter,)
    The loss of each epoch.
n_iter_ : int
    Epochs.
n_nodes_ : int
    Nodes of the graph that the network was trained with.
hierarchy_built_ : bool
    Whether the hierarchy comes from the signatures.
"""


class GraphMethod(ZeroShotClassifier):
    """Base of GCNZ, SGCN and DGP, which say what their layers are."""

    score_function: ScoreFunction = "dot"

    _doc_parts: ClassVar[dict[str, str]] = {
        **ZeroShotClassifier._doc_parts,
        "parameters of networks": networks.PARAMETERS,
        "parameters of graph methods": PARAMETERS,
        "attributes of graph methods": ATTRIBUTES,
    }

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        **networks.CONSTRAINTS,
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
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    hierarchy: Any
    targets: Any
    target_alpha: float
    graph: str
    alpha: float
    learning_rate: float
    max_iter: int
    device: str | None
    verbose: int
    random_state: Any

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
        for group in alike(variants, "targets", "target_alpha"):
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
            refuse_unplaced(self._parents, seen)
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

    # The three verbs.

    def embed(self, X: Array) -> Array:
        """Features, with a 1 behind each row where the targets have intercepts.

        <parameters of embed>

        Returns
        -------
        array of shape (n_samples, n_features) or (n_samples, n_features + 1)
            One row per sample.
        """
        return with_intercept(X) if self._intercepts_given else X

    def synthesize(self, signatures: Floats, labels: NDArray[Any] | None = None) -> Array:
        """Make classifier rows on the graph of these classes and those of training.

        A class stands where the hierarchy has its name; without one, beside its nearest seen class.

        <parameters of synthesize>

        Returns
        -------
        ndarray of shape (n_classes, n_features) or (n_classes, n_features + 1)
            Rows of unit norm.
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
