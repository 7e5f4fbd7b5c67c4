"""Parameters of classes made ready once for all blocks of rows, and the scores of a block.

For the Euclidean distance ‖x − p‖² = ‖x‖² − 2 (xp − ½‖p‖²), so that the nearest class of a row has
the largest xp − ½‖p‖². That number, here called the raw score, is one product and one sum; the
square root is taken only of the scores that are wanted. Raw and final scores have one order, and
what rounding makes of it: two raw scores that differ may give the same final one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, get_args

import array_api_compat as compat
import numpy as np

from zslearn._utils._array import Array, Latest, move_like, on_device, to_numpy, unit_rows

#: How exactly scores are computed on a GPU: float32 as it is, or its tensor cores.
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
        To how many bits both factors are rounded: not at all, to 11 or to 8.

    Yields
    ------
    None
        Predictions inside of the `with` block are computed so.
    """
    if precision not in get_args(Precision):
        raise ValueError(f"precision={precision!r} is not one of {get_args(Precision)}.")
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


def product(rows: Array, parameters: Array) -> Array:
    """Inner products of rows and vectors, in the precision that is asked for."""
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


# Multiples of the precision that are taken for rounding.
_ROUNDING = 4
ScoreFunction = Literal["dot", "euclidean", "cosine", "max_dot"]


class PreparedClasses:
    """Parameters and bias of classes in the library, dtype and on the device of embedded rows."""

    def __init__(self, parameters: Any, score: ScoreFunction, bias: Any, like: Array) -> None:
        axes, width = 3 if score == "max_dot" else 2, parameters.shape[-1]
        # A graph that is being exported does not know every width.
        if len(parameters.shape) != axes or like.shape[1] not in (None, width):
            raise ValueError(
                f"score={score!r} needs parameters of {axes} axes, the last of length "
                f"{like.shape[1]} like the embedded rows; got shape {tuple(parameters.shape)}."
            )
        self.score = score
        # What float32 cannot hold becomes infinite.
        with np.errstate(over="ignore"):
            self.parameters = move_like(parameters, like)
        self.xp = xp = compat.array_namespace(like)
        # Their squares, and products with rows that are not larger, are to be finite.
        largest = max(float(xp.max(self.parameters)), -float(xp.min(self.parameters)))
        if not largest <= float(xp.finfo(self.parameters.dtype).max) ** 0.5:
            raise ValueError(
                f"The largest parameter of a class is {largest:.0e}, with which {like.dtype} "
                "cannot compute. Regularise more, or give X in double precision."
            )
        self.half: Array = None
        if score == "cosine":
            self.parameters = unit_rows(self.parameters)
        elif score == "euclidean":
            # Distances do not change when both sides move; around the classes' mean less cancels.
            self.center = xp.mean(self.parameters, axis=0, keepdims=True)
            self.parameters = self.parameters - self.center
            self.half = 0.5 * xp.sum(self.parameters * self.parameters, axis=1)
        #: Number of classes.
        self.n_classes: int = self.parameters.shape[0]
        self.bias: Array = None if bias is None else move_like(to_numpy(bias), like)
        if self.bias is not None and self.bias.shape != (self.n_classes,):
            raise ValueError(
                f"bias must have one number per class, {self.n_classes}; "
                f"got shape {tuple(self.bias.shape)}."
            )
        #: Whether raw scores are ranked and only the best of them finished.
        self.finished_later = score == "euclidean" and bias is None

    def rows(self, embedded: Array, out: Array = None) -> Array:
        """Rows as the score needs them; `out` is memory of NumPy that may be used."""
        if self.score == "cosine":
            return unit_rows(embedded)
        if self.score == "euclidean":
            return (
                embedded - self.center if out is None else np.subtract(embedded, self.center, out)
            )
        return embedded

    def squares(self, rows: Array) -> Array:
        """Squared norms of the rows, as a column; None where no score needs them."""
        if self.score != "euclidean":
            return None
        if isinstance(rows, np.ndarray):
            return np.einsum("nd,nd->n", rows, rows)[:, None]
        return self.xp.sum(rows * rows, axis=1)[:, None]

    def products(self, rows: Array, classes: slice) -> Array:
        """Inner products of a block of rows and a block of classes; of several, the largest."""
        xp = self.xp
        if self.score != "max_dot":
            return product(rows, self.parameters[classes, :])
        out = product(rows, self.parameters[classes, 0, :])
        for i in range(1, self.parameters.shape[1]):
            out = xp.maximum(out, product(rows, self.parameters[classes, i, :]))
        return out

    def raw(self, rows: Array, squares: Array, classes: slice) -> Array:
        """What ranks the classes of a row: raw scores, or final ones where they have a bias."""
        out = self.products(rows, classes)
        if self.half is not None:
            out -= self.half[classes][None, :]
        if not self.finished_later:
            out = self.finish(out, squares)
            if self.bias is not None:
                out += self.bias[classes][None, :]
        return out

    def finish(self, raw: Array, squares: Array) -> Array:
        """Final scores but for the bias, −‖x − p‖ for the distance; `raw` is written over."""
        if squares is None:
            return raw
        xp = self.xp
        raw *= -2
        raw += squares
        # What is left of a row at the very place of a class is rounding of its squared norm.
        rounding = _ROUNDING * float(xp.finfo(raw.dtype).eps)
        raw = xp.sqrt(xp.where(raw > rounding * squares, raw, xp.zeros_like(raw)))
        raw *= -1
        return raw

    def scores(self, rows: Array, squares: Array, classes: slice) -> Array:
        """Final scores of a block of rows against a block of classes."""
        out = self.raw(rows, squares, classes)
        return self.finish(out, squares) if self.finished_later else out


_on_device = Latest()


def prepared_classes(
    parameters: Any, score: ScoreFunction, bias: Any, like: Array
) -> PreparedClasses:
    """Classes made ready, or the very same ones from the call before where they are on a device."""
    if not on_device(like) or not isinstance(parameters, np.ndarray):
        return PreparedClasses(parameters, score, bias, like)
    biases = None if bias is None else np.asarray(bias).tobytes()
    key = score, biases, str(like.dtype), str(compat.device(like)), like.shape[1]
    prepared: PreparedClasses = _on_device.get(
        parameters, key, lambda: PreparedClasses(parameters, score, bias, like)
    )
    return prepared
