"""How exactly scores are computed on a GPU: float32 as it is, or its tensor cores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

import array_api_compat as compat

from zslearn.utils import Array, on_device

Precision = Literal["full", "tf32", "bf16"]

_precision: ContextVar[Precision] = ContextVar("zslearn_precision", default="full")
# The switch for TF32 belongs to the process: one thread at a time turns it.
_switch = threading.RLock()


@contextmanager
def score_precision(precision: Precision) -> Iterator[None]:
    """Compute the products of rows and classes less exactly, and faster, on a GPU.

    It concerns float32 tensors of torch on a CUDA device and the product of embedded rows with the
    parameters of the classes; anything else is computed as always. Sums are float32 in any case.

    Parameters
    ----------
    precision : {"full", "tf32", "bf16"}
        "full" is float32. "tf32" rounds both factors to 11 significant bits, "bf16" to 8. Classes
        whose scores differ by less than that rounding may change places.

    Examples
    --------
    >>> import numpy as np
    >>> from zslearn.scoring import score_precision, top_k
    >>> with score_precision("tf32"):
    ...     indices, scores = top_k(np.eye(2), np.eye(2), k=1)
    >>> indices[:, 0]
    array([0, 1])
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision={precision!r} is not one of {get_args(Precision)}.")
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


def product(rows: Array, parameters: Array) -> Array:
    """Inner products of rows and vectors, in the precision that is asked for.

    Parameters
    ----------
    rows : array of shape (n_rows, n_dims)
        Of any library.
    parameters : array of shape (n_vectors, n_dims)
        Beside the rows.

    Returns
    -------
    array of shape (n_rows, n_vectors)
        In the dtype of the rows.
    """
    precision = _precision.get()
    if precision != "full" and compat.is_torch_array(rows) and on_device(rows):
        import torch

        if rows.dtype == torch.float32:
            if precision == "bf16":
                rows, parameters = rows.bfloat16().float(), parameters.bfloat16().float()
            # Numbers of bfloat16 are numbers of TF32: the same product, with float32 sums.
            with _tf32():
                return rows @ parameters.T
    xp = compat.array_namespace(rows)
    return rows @ xp.matrix_transpose(parameters)


@contextmanager
def _tf32() -> Iterator[None]:
    """Let torch use the tensor cores of a CUDA device for float32."""
    import torch

    with _switch:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
