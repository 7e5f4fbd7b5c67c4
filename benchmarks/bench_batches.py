"""Whether scores of a row depend on its batch if rows are scored in blocks of a fixed height.

All blocks are full. The same rows are scored in two orders and compared to the last bit; the cost
is relative to one block of all rows.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
from _common import Report, interleaved

from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.synthesis import EXEM, GaussianEXEM

ROWS = 1536
HEIGHTS = (48, 192, 768, ROWS)


def scores(model: Any, rows: np.ndarray, height: int) -> np.ndarray:
    """The five best scores of rows, in blocks."""
    parts = range(0, len(rows), height)
    return np.concatenate([model.predict_top_k(rows[i : i + height], 5)[1] for i in parts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few classes")
    sizes = [(50, 64)] if parser.parse_args().quick else [(50, 64), (4000, 512)]
    report = Report("batches", "Rows in blocks of a fixed height, in two orders")
    rng = np.random.default_rng(0)
    for n_unseen, n_features in sizes:
        data = make_zero_shot(
            n_seen=60, n_unseen=n_unseen, n_features=n_features, n_attributes=85, random_state=0
        )
        images = np.concatenate([data.X_train, data.X_test_unseen]).astype(np.float32)
        X, order = rng.permutation(images)[:ROWS], rng.permutation(ROWS)
        for model in (ESZSL(), EXEM(), GaussianEXEM()):
            model.fit(data.X_train, data.y_train, signatures=data.signatures)

            calls = {height: partial(scores, model, X, height) for height in HEIGHTS}
            cost = interleaved(calls, 3)
            for height in HEIGHTS:
                first, second = calls[height]()[order], scores(model, X[order], height)
                report.add(
                    method=type(model).__name__,
                    classes=len(model.classes_),
                    rows_per_block=height,
                    cost_of_blocks=cost[height] / cost[ROWS],
                    changed_rows=float((first != second).any(axis=1).mean()),
                    largest_change=float(abs(first - second).max() / abs(first).max()),
                )
    report.save()


if __name__ == "__main__":
    main()
