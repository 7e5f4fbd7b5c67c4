"""The compiled part of SSE's training; see :mod:`zslearn.baselines._sse_training`.

This module is imported where it is first needed, as Numba and compiling take seconds.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from zslearn.utils import jit


@jit("the kernels of SSE", fast=True)
def responses(X: NDArray[Any], V: NDArray[Any], w: NDArray[Any], out: NDArray[Any]) -> None:
    """⟨w, min(x_n, v_c)⟩ for all rows and classes; the number of rows is a multiple of four."""
    zero = w[0] - w[0]
    for n in range(0, len(X), 4):
        x0, x1, x2, x3 = X[n], X[n + 1], X[n + 2], X[n + 3]
        for c in range(len(V)):
            v = V[c]
            a0, a1, a2, a3 = zero, zero, zero, zero
            for d in range(len(w)):
                a0 += w[d] * min(x0[d], v[d])
                a1 += w[d] * min(x1[d], v[d])
                a2 += w[d] * min(x2[d], v[d])
                a3 += w[d] * min(x3[d], v[d])
            out[n, c], out[n + 1, c], out[n + 2, c], out[n + 3, c] = a0, a1, a2, a3


@jit(fast=True)
def slope_in_w(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Σ_nc g_nc min(x_n, v_c), added to out."""
    for n in range(0, len(X), 4):
        x0, x1, x2, x3 = X[n], X[n + 1], X[n + 2], X[n + 3]
        for c in range(len(V)):
            v = V[c]
            g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
            for d in range(len(out)):
                out[d] += (
                    g0 * min(x0[d], v[d])
                    + g1 * min(x1[d], v[d])
                    + g2 * min(x2[d], v[d])
                    + g3 * min(x3[d], v[d])
                )


@jit(fast=True)
def slope_in_v(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Σ_n g_nc [x_n > v_c] for each class, added to out: ∂min(x, v)/∂v = [x > v]."""
    zero = G[0, 0] - G[0, 0]
    for n in range(0, len(X), 4):
        x0, x1, x2, x3 = X[n], X[n + 1], X[n + 2], X[n + 3]
        for c in range(len(V)):
            v, o = V[c], out[c]
            g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
            for d in range(len(v)):
                o[d] += (
                    (g0 if x0[d] > v[d] else zero)
                    + (g1 if x1[d] > v[d] else zero)
                    + (g2 if x2[d] > v[d] else zero)
                    + (g3 if x3[d] > v[d] else zero)
                )


@jit(fast={"contract", "reassoc"})
def hinges(
    F: NDArray[Any],
    y: NDArray[Any],
    margins: NDArray[Any],
    of_means: NDArray[Any],
    shares: NDArray[Any],
    out: NDArray[Any],
) -> float:
    """Σ_n share ½ Σ_s [Δ_s + f_s − f_y]₊² of the samples; `out` gets the slope in their scores F.

    `of_means`, the slope in the mean scores of each class, is added to that of its samples;
    `shares` is what a sample of each class counts.
    """
    total = 0.0
    for n in range(len(y)):
        c = y[n]
        f, margin, of_mean, o = F[n], margins[c], of_means[c], out[n]
        own, share = f[c], shares[c]
        squares, shorts = 0.0, 0.0
        for s in range(len(f)):
            short = max(margin[s] + f[s] - own, 0.0)
            squares += short * short
            shorts += short
            o[s] = (short + of_mean[s]) * share
        # As its own class a sample is not short of anything.
        short = max(margin[c], 0.0)
        o[c] = (of_mean[c] - (shorts - short)) * share
        total += 0.5 * (squares - short * short) * share
    return total
