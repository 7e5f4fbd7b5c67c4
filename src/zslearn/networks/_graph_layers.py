r"""Graph convolutions: sparse propagation, its gradient, and networks made of it.

A layer takes the rows of nodes to

.. math:: Z = \sum_k w_k A_k (H \Theta + 1 b^\top), \qquad w = \mathrm{softmax}(\theta),

with sparse matrices :math:`A_k` over the nodes; a layer of one matrix has w = 1. (Where the
intercepts come after the propagation, they are added to Z instead.) All layers but the last pass
through a LeakyReLU, and the last one's rows are brought to unit norm.

The loss is on few of the nodes. A row of Z needs only those rows of H that its row of the matrices
names, so that each layer is computed for the rows that the next one reads and no others. The result
is the same, and a graph of tens of thousands of nodes is trained at the cost of the neighbourhood
of its seen classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from zslearn.networks._torch_training import Tensor, relu
from zslearn.utils import Array, saved_part, unit_rows

#: Slope of the LeakyReLU below zero.
SLOPE = 0.2


class Propagation(NamedTuple):
    """The matrices of one layer, for the rows that are needed of it.

    Parameters
    ----------
    matrices : list of csr_array or of pairs of tensors
        One per group; as tensors, the matrix and its transpose, or None for a group without
        entries, such as that of far ancestors in a shallow tree: torch has no use for an empty
        sparse matrix on a GPU.
    """

    matrices: Sequence[Any]

    def __call__(self, rows: Array, mix: Array | None = None) -> Array:
        """Σ w_k A_k H, in the library of H; w is `mix`, and 1 without."""
        if compat.is_torch_array(rows):
            return _torch_propagation().apply(rows, mix, self.matrices)
        total: Array = self.matrices[0] @ rows
        if mix is None:
            return total
        total = mix[0] * total
        for weight, matrix in zip(mix[1:], self.matrices[1:], strict=True):
            total = total + weight * (matrix @ rows)
        return total

    def to_torch(self, like: Tensor) -> Propagation:
        """The same in torch, in the dtype and on the device of a tensor."""
        return Propagation(
            [
                (_sparse_tensor(m, like), _sparse_tensor(m.T, like)) if m.nnz else None
                for m in self.matrices
            ]
        )

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


_FUNCTION: list[Any] = []


def _torch_propagation() -> Any:
    """Propagation that knows its gradient: Aᵀ G, and ⟨H, A_kᵀ G⟩ for the weight of a group."""
    if _FUNCTION:
        return _FUNCTION[0]
    import torch

    class Propagate(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, rows: Tensor, mix: Tensor | None, matrices: Any) -> Tensor:
            context.matrices = matrices
            context.save_for_backward(rows, mix)
            # The first group has the nodes themselves, so that it is never empty.
            total = matrices[0][0] @ rows
            if mix is None:
                return total
            total = mix[0] * total
            for weight, group in zip(mix[1:], matrices[1:], strict=True):
                if group is not None:
                    total += weight * (group[0] @ rows)
            return total

        @staticmethod
        def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
            rows, mix = context.saved_tensors
            back = context.matrices[0][1] @ grad
            if mix is None:
                return back, None, None
            slopes = [(rows * back).sum()]
            total = mix[0] * back
            for weight, group in zip(mix[1:], context.matrices[1:], strict=True):
                if group is None:
                    slopes.append(torch.zeros_like(slopes[0]))
                    continue
                back = group[1] @ grad
                slopes.append((rows * back).sum())
                total += weight * back
            return total, torch.stack(slopes), None

    _FUNCTION.append(Propagate)
    return Propagate


@saved_part
class Layer(NamedTuple):
    """What is learned of a layer.

    Parameters
    ----------
    weight : array of shape (n_in, n_out)
        Θ.
    intercept : array of shape (n_out,) or None
        b.
    mix : array of shape (n_groups,) or None
        θ, what the weights of the groups are the softmax of. Layers may share one.
    before : bool
        Whether the intercepts come before the propagation.
    """

    weight: Array
    intercept: Array | None = None
    mix: Array | None = None
    before: bool = False

    def changed(self, change: Callable[[Array], Array]) -> Layer:
        """The same layer with something else in the place of each array."""
        weight, intercept, mix = (None if part is None else change(part) for part in self[:3])
        return Layer(weight, intercept, mix, self.before)

    def arrays(self) -> list[Array]:
        """What is learned of it."""
        return [part for part in self[:3] if part is not None]


class FieldOfView(NamedTuple):
    """Layers cut down to what some nodes need, and the nodes whose inputs that takes."""

    layers: list[Propagation]
    inputs: NDArray[np.intp]


def field_of_view(layers: Sequence[Sequence[sp.csr_array]], nodes: NDArray[np.intp]) -> FieldOfView:
    """Cut the matrices of each layer down to what the rows of some nodes depend on.

    Parameters
    ----------
    layers : sequence of sequences of csr_array of shape (n_nodes, n_nodes)
        Matrices of each layer, first to last.
    nodes : ndarray of int
        Nodes whose rows of the last layer are wanted, in this order.

    Returns
    -------
    FieldOfView
        The last layer gives one row for each of `nodes`.
    """
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
    """Rows of unit norm, one per node.

    Parameters
    ----------
    layers : sequence of Layer
        What was learned, in the library of `inputs`.
    propagations : sequence of Propagation
        One per layer.
    inputs : array of shape (n_nodes, n_attributes)
        What is known of the nodes that the first layer reads.
    dropout : callable, optional
        Applied to what each layer is given.

    Returns
    -------
    array of shape (n_rows, n_out)
        One row for each row of the last propagation.
    """
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
