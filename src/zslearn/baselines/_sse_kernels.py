"""The compiled part of SSE's training; see :mod:`zslearn.baselines._sse_training`.

Four rows and up to four classes at a time share what is loaded of either. Slopes go through the
features in tiles, of which the cache nearest to the processor holds those that are worked on. This
module is imported where it is first needed, as Numba and compiling take seconds.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from zslearn.utils import jit

# Features of a tile.
_TILE = 592


@jit()
def divided_rows(
    X: NDArray[Any], positions: NDArray[Any], divisors: NDArray[Any], out: NDArray[Any]
) -> None:
    """Rows by their positions, each divided by its number in double precision."""
    for i in range(len(positions)):
        row, divisor, to = X[positions[i]], divisors[positions[i]], out[i]
        for d in range(len(row)):
            to[d] = row[d] / divisor


@jit("the kernels of SSE", fast=True)
def responses(
    X: NDArray[Any], V: NDArray[Any], w: NDArray[Any], out: NDArray[Any], first: int, step: int
) -> None:
    """⟨w, min(x_n, v_c)⟩ for all classes and for rows, both of them multiples of four in number.

    The rows are the four from `first` on, and so on in steps.
    """
    zero = w[0] - w[0]
    for n in range(first, len(X), step):
        x0, x1, x2, x3 = X[n], X[n + 1], X[n + 2], X[n + 3]
        for c in range(0, len(V), 4):
            v0, v1, v2, v3 = V[c], V[c + 1], V[c + 2], V[c + 3]
            a0 = a1 = a2 = a3 = zero
            b0 = b1 = b2 = b3 = zero
            e0 = e1 = e2 = e3 = zero
            f0 = f1 = f2 = f3 = zero
            for d in range(len(w)):
                a0 += w[d] * min(x0[d], v0[d])
                a1 += w[d] * min(x1[d], v0[d])
                a2 += w[d] * min(x2[d], v0[d])
                a3 += w[d] * min(x3[d], v0[d])
                b0 += w[d] * min(x0[d], v1[d])
                b1 += w[d] * min(x1[d], v1[d])
                b2 += w[d] * min(x2[d], v1[d])
                b3 += w[d] * min(x3[d], v1[d])
                e0 += w[d] * min(x0[d], v2[d])
                e1 += w[d] * min(x1[d], v2[d])
                e2 += w[d] * min(x2[d], v2[d])
                e3 += w[d] * min(x3[d], v2[d])
                f0 += w[d] * min(x0[d], v3[d])
                f1 += w[d] * min(x1[d], v3[d])
                f2 += w[d] * min(x2[d], v3[d])
                f3 += w[d] * min(x3[d], v3[d])
            out[n, c], out[n, c + 1] = a0, b0
            out[n, c + 2], out[n, c + 3] = e0, f0
            out[n + 1, c], out[n + 1, c + 1] = a1, b1
            out[n + 1, c + 2], out[n + 1, c + 3] = e1, f1
            out[n + 2, c], out[n + 2, c + 1] = a2, b2
            out[n + 2, c + 2], out[n + 2, c + 3] = e2, f2
            out[n + 3, c], out[n + 3, c + 1] = a3, b3
            out[n + 3, c + 2], out[n + 3, c + 3] = e3, f3


@jit(fast=True)
def slope_in_w(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Σ_nc g_nc min(x_n, v_c), added to out; rows by four, an even number of classes."""
    for first in range(0, len(out), _TILE):
        tile = slice(first, min(first + _TILE, len(out)))
        o = out[tile]
        for n in range(0, len(X), 4):
            x0, x1, x2, x3 = X[n, tile], X[n + 1, tile], X[n + 2, tile], X[n + 3, tile]
            for c in range(0, len(V), 2):
                v, u = V[c, tile], V[c + 1, tile]
                g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
                h0, h1, h2, h3 = G[n, c + 1], G[n + 1, c + 1], G[n + 2, c + 1], G[n + 3, c + 1]
                for d in range(len(o)):
                    o[d] += (
                        g0 * min(x0[d], v[d])
                        + g1 * min(x1[d], v[d])
                        + g2 * min(x2[d], v[d])
                        + g3 * min(x3[d], v[d])
                        + h0 * min(x0[d], u[d])
                        + h1 * min(x1[d], u[d])
                        + h2 * min(x2[d], u[d])
                        + h3 * min(x3[d], u[d])
                    )


@jit(fast={"nnan", "nsz", "contract"})
def slope_in_v(X: NDArray[Any], V: NDArray[Any], G: NDArray[Any], out: NDArray[Any]) -> None:
    """Σ_n g_nc [x_n > v_c] for each class, added to out: ∂min(x, v)/∂v = [x > v]; rows by eight."""
    zero = G[0, 0] - G[0, 0]
    for first in range(0, V.shape[1], _TILE):
        tile = slice(first, min(first + _TILE, V.shape[1]))
        for n in range(0, len(X), 8):
            x0, x1, x2, x3 = X[n, tile], X[n + 1, tile], X[n + 2, tile], X[n + 3, tile]
            x4, x5, x6, x7 = X[n + 4, tile], X[n + 5, tile], X[n + 6, tile], X[n + 7, tile]
            for c in range(len(V)):
                v, o = V[c, tile], out[c, tile]
                g0, g1, g2, g3 = G[n, c], G[n + 1, c], G[n + 2, c], G[n + 3, c]
                g4, g5, g6, g7 = G[n + 4, c], G[n + 5, c], G[n + 6, c], G[n + 7, c]
                for d in range(len(v)):
                    # Two sums: neither waits for all of the other.
                    a, b = o[d], g4 if x4[d] > v[d] else zero
                    a = a + g0 if x0[d] > v[d] else a
                    b = b + g5 if x5[d] > v[d] else b
                    a = a + g1 if x1[d] > v[d] else a
                    b = b + g6 if x6[d] > v[d] else b
                    a = a + g2 if x2[d] > v[d] else a
                    b = b + g7 if x7[d] > v[d] else b
                    a = a + g3 if x3[d] > v[d] else a
                    o[d] = a + b


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
