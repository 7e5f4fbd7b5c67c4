"""Finding the best classes of many rows: blocked, against the whole matrix and scikit-learn."""

from __future__ import annotations

import argparse
import tracemalloc

import numpy as np
from _common import Report, seconds
from sklearn.neighbors import NearestNeighbors

from zslearn.scoring import top_k


def peak_mebibytes(function):
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    quick = parser.parse_args().quick
    report = Report("scoring", "top_k of 5 classes, two cores, float32")
    rng = np.random.default_rng(0)
    for n_rows, n_classes, n_dims in ((20_000, 1_000, 500), (5_000, 20_000, 500)):
        n_rows = n_rows // 10 if quick else n_rows
        X = rng.standard_normal((n_rows, n_dims)).astype(np.float32)
        P = rng.standard_normal((n_classes, n_dims)).astype(np.float32)

        def whole_matrix(X=X, P=P):
            return np.argsort(-(X @ P.T), axis=1, kind="stable")[:, :5]

        def neighbours(X=X, P=P):
            return NearestNeighbors(n_neighbors=5, algorithm="brute").fit(P).kneighbors(X)

        def ours(score, X=X, P=P):
            return top_k(X, P, 5, score=score)

        for score, peer_name, peer in (
            ("dot", "argsort of the whole matrix", whole_matrix),
            ("euclidean", "NearestNeighbors(brute)", neighbours),
        ):
            time_peer, _ = seconds(peer, repeats=3)
            time_ours, _ = seconds(lambda score=score: ours(score), repeats=3)
            report.add(
                rows=n_rows,
                classes=n_classes,
                score=score,
                peer=peer_name,
                peer_seconds=time_peer,
                seconds=time_ours,
                ratio=time_peer / time_ours,
                peer_peak_mib=peak_mebibytes(peer),
                peak_mib=peak_mebibytes(lambda score=score: ours(score)),
            )
    report.save()


if __name__ == "__main__":
    main()
