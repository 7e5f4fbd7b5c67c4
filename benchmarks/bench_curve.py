"""The seen-unseen curve of all calibration factors, against a sweep over some of them.

The peer predicts anew for each of 200 factors, as the literature's programs do; ours gives the
whole curve. `agreement` is the difference of the two areas, which the sweep only approaches.
"""

from __future__ import annotations

import argparse

import numpy as np
from _common import Report, interleaved

from zslearn.metrics import ausuc

FACTORS = 200


def sweep(y, scores, seen):
    """Area under the curve of some factors, by the trapezoidal rule."""
    of_seen = seen[y]
    gap = scores[:, seen].max(axis=1) - scores[:, ~seen].max(axis=1)
    points = []
    for factor in np.linspace(gap.min() - 1, gap.max() + 1, FACTORS):
        right = (scores - factor * seen).argmax(axis=1) == y
        accuracy = [
            np.mean([right[y == c].mean() for c in np.unique(y[part])])
            for part in (of_seen, ~of_seen)
        ]
        points.append(accuracy)
    points = np.array(sorted(points))
    return float(np.trapezoid(points[:, 1], points[:, 0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    report = Report("curve", f"AUSUC against a sweep over {FACTORS} factors, processor seconds")
    for n_rows, n_classes in (
        ((2_000, 100), (6_000, 200)) if quick else ((5_000, 200), (20_000, 700))
    ):
        rng = np.random.default_rng(0)
        y = np.arange(n_rows) % n_classes
        scores = rng.standard_normal((n_rows, n_classes))
        scores[np.arange(n_rows), y] += 2.5
        seen = np.arange(n_classes) < n_classes * 3 // 4
        classes = np.arange(n_classes)
        found = {}

        def ours(found=found, y=y, scores=scores, classes=classes, seen=seen):
            found["ours"] = ausuc(y, scores, classes=classes, seen_classes=classes[seen])

        def peer(found=found, y=y, scores=scores, seen=seen):
            found["peer"] = sweep(y, scores, seen)

        times = interleaved({"peer": peer, "ours": ours}, repeats=1 if quick else 2)
        report.add(
            rows=n_rows,
            classes=n_classes,
            peer_s=times["peer"],
            ours_s=times["ours"],
            ratio=times["peer"] / times["ours"],
            ausuc=found["ours"],
            agreement=abs(found["ours"] - found["peer"]),
        )
    report.save()


if __name__ == "__main__":
    main()
