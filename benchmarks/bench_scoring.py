"""The best classes of many rows, against scikit-learn and against the bare product.

Processor seconds, in turns with the peers: `ratio` is the peer's time by ours, `of_product` ours by
that of the bare product X Pᵀ, which knows no best class yet. `agreement` is the share of places in
the lists where both name the same class; the peers compute in double precision.

    python benchmarks/bench_scoring.py
    python benchmarks/bench_scoring.py --quick
"""

from __future__ import annotations

import argparse
import tracemalloc

import numpy as np
from _common import Report, interleaved
from sklearn.metrics import pairwise_distances_argmin
from sklearn.neighbors import NearestNeighbors

from zslearn._scoring._blocks import top_k

SHAPES = ((5_000, 1_000, 500), (20_000, 1_000, 500), (5_000, 20_000, 500))
QUICK_SHAPES = ((5_000, 1_000, 500), (500, 20_000, 500))


def peak_mebibytes(function):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def neighbours(X, P, k):
    if k == 1:
        return pairwise_distances_argmin(X, P)[:, None]
    model = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(P)
    return model.kneighbors(X, return_distance=True)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    quick = parser.parse_args().quick
    report = Report("scoring", "The k best classes of rows in 500 dimensions, float32")
    rng = np.random.default_rng(0)
    for n_rows, n_classes, n_dims in QUICK_SHAPES if quick else SHAPES:
        X = rng.standard_normal((n_rows, n_dims)).astype(np.float32)
        P = rng.standard_normal((n_classes, n_dims)).astype(np.float32)
        for k in (1, 20) if quick else (1, 5, 20):

            def ours(score="euclidean", X=X, P=P, k=k):
                return top_k(X, P, k, score=score)

            def peer(X=X, P=P, k=k):
                return neighbours(X, P, k)

            ours(), ours("dot")  # what is compiled is compiled here
            functions = {
                "peer": peer,
                "product": lambda X=X, P=P: X @ P.T,
                "euclidean": ours,
                "dot": lambda ours=ours: ours("dot"),
            }
            times = interleaved(functions, repeats=3)
            report.add(
                rows=n_rows,
                classes=n_classes,
                k=k,
                peer="pairwise_distances_argmin" if k == 1 else "NearestNeighbors(brute)",
                peer_s=times["peer"],
                product_s=times["product"],
                ours_s=times["euclidean"],
                dot_s=times["dot"],
                ratio=times["peer"] / times["euclidean"],
                of_product=times["euclidean"] / times["product"],
                dot_of_product=times["dot"] / times["product"],
                agreement=float((ours()[0] == peer()).mean()),
                peak_mib=peak_mebibytes(ours),
            )
    report.save()


if __name__ == "__main__":
    main()
