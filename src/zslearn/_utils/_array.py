"""Arrays of any library: where they live, and how they move.

Feature arrays may be NumPy, torch, CuPy or any other array that follows the array API standard; the
code that computes with them asks for their namespace. Labels and signatures are always NumPy.
"""

from __future__ import annotations

from typing import Any

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from zslearn._utils._device import kept_move

#: An array of any library that follows the array API standard.
Array = Any
#: An array of NumPy in double precision, on the host.
Floats = NDArray[np.float64]


def is_foreign(x: object) -> bool:
    """Whether `x` is an array of the array API standard other than NumPy's."""
    return compat.is_array_api_obj(x) and not compat.is_numpy_array(x)


def is_symbolic(x: object) -> bool:
    """Whether an array is one of ndonnx: a node of an ONNX graph, without numbers to look at."""
    return type(x).__module__.partition(".")[0] == "ndonnx"


def to_numpy(x: Any) -> NDArray[Any]:
    """Bring an array of any library to the host as a NumPy array, without a copy where possible."""
    if compat.is_torch_array(x):
        x = x.detach().cpu()
        # NumPy has no bfloat16.
        return (x.float() if x.dtype.is_floating_point and x.dtype.itemsize < 4 else x).numpy()
    if compat.is_cupy_array(x):
        return x.get()
    return np.asarray(x)


def plain_tensor(x: Array, name: str) -> Array:
    """A dense, real array outside any graph of gradients; refuse what is not dense or not real."""
    if compat.is_torch_array(x):
        if str(x.layout) != "torch.strided":
            raise TypeError(
                f"Sparse data was passed for {name}, but dense data is required. "
                "Use '.to_dense()' to convert it."
            )
        x = x.detach()
    if compat.array_namespace(x).isdtype(x.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: {name} must be real.")
    return x


def move_like(x: Array, like: Array) -> Array:
    """`x` in the namespace and on the device of `like`, in its floating dtype."""
    xp = compat.array_namespace(like)
    if compat.is_array_api_obj(x) and compat.array_namespace(x) is not xp:
        x = to_numpy(x)
    return kept_move(x, like, lambda x: xp.asarray(x, dtype=like.dtype, device=compat.device(like)))


def take_rows(x: Array, rows: NDArray[np.intp]) -> Array:
    """Rows of an array of any library, by position."""
    if not is_foreign(x):
        return x[rows]
    xp = compat.array_namespace(x)
    return xp.take(x, xp.asarray(rows, device=compat.device(x)), axis=0)


def floating(x: Array) -> Array:
    """`x` in a floating dtype: float32, float64 stay, float16 widens, the rest becomes float64."""
    xp = compat.array_namespace(x)
    if x.dtype == xp.float32 or x.dtype == xp.float64:
        return x
    if xp.isdtype(x.dtype, "real floating"):
        return xp.astype(x, xp.float32)
    return xp.astype(x, xp.float64)


def unit_rows(x: Array) -> Array:
    """Rows of `x` divided by their ℓ2 norm; a zero row stays zero.

    Rows are divided by their largest entry first, so that neither the squares of large entries
    overflow nor those of small ones vanish.
    """
    return _scaled(x)[0]


def row_lengths(x: Array) -> tuple[Array, Array]:
    """What :func:`unit_rows` divides rows by, one after the other, as columns."""
    return _scaled(x)[1:]


def _scaled(x: Array) -> tuple[Array, Array, Array]:
    """Rows of unit norm, their largest entries, and their norms in units of these."""
    xp = compat.array_namespace(x)
    largest = xp.max(xp.abs(x), axis=1, keepdims=True)
    largest = xp.where(largest > 0, largest, xp.ones_like(largest))
    x = x / largest
    norm = xp.sqrt(xp.sum(x * x, axis=1, keepdims=True))
    norm = xp.where(norm > 0, norm, xp.ones_like(norm))
    return x / norm, largest, norm
