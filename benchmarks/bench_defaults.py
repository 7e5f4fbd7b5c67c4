"""Cost of the defaults: fits, predictions and changes of a model, each as a multiple of a peer.

Processor seconds, one thread, in turns with the peer. The sizes are the same with --quick, so that
`run.py --quick` can compare a run with the committed record and report what has become slower.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _common import Report, interleaved

import zslearn
from zslearn.baselines import CCA, COSTA, ESZSL, GFZSL, SAE, ConSE
from zslearn.calibration import CalibratedStacking
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

Problem = tuple[np.ndarray, np.ndarray, pd.DataFrame]


def problem(
    n_seen: int, each: int, n_features: int, n_attributes: int, n_described: int
) -> Problem:
    """Images of the seen classes around means that 48 hidden numbers decide, as signatures are."""
    rng = np.random.default_rng(0)
    hidden = rng.standard_normal((n_described, 48))
    y = np.repeat(np.arange(n_seen), each)
    means = hidden[y] @ rng.standard_normal((48, n_features)) / 7
    X = np.maximum(means + 0.7 * rng.standard_normal(means.shape), 0)
    return X, y, pd.DataFrame(hidden @ rng.standard_normal((48, n_attributes)))


def compare(report: Report, what: str, ours: Any, peer: Any, peer_name: str, repeats: int) -> None:
    """One row: our processor time as a multiple of the peer's."""
    times = interleaved({"ours": ours, "peer": peer}, repeats)
    report.add(
        what=what,
        peer=peer_name,
        ours_s=times["ours"],
        peer_s=times["peer"],
        cost=times["ours"] / times["peer"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same, to results/quick")
    parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("defaults", "What defaults cost, as a multiple of a peer, processor seconds")
    X, y, S = problem(150, 40, 1280, 312, 200)
    gram = "XᵀX and its eigenvectors"
    for method in (EXEM(), GaussianEXEM(), ESZSL(), SAE(), CCA(), GFZSL(), COSTA()):
        method.fit(X[:1200], y[:1200], signatures=S)  # compiles
        name = f"{type(method).__name__}().fit, 150 classes, 1,280 features"
        fit = lambda m=method: m.fit(X, y, signatures=S)  # noqa: E731
        compare(report, name, fit, lambda: np.linalg.eigh(X.T @ X), gram, 2)

    few, y_few, S_few = problem(40, 20, 256, 64, 50)
    iterative = (SynC(), SynC("cs"), SynC("struct"), ConSE(), CalibratedStacking(EXEM()))
    for method in iterative:
        method.fit(few, y_few, signatures=S_few)
        fit = lambda m=method: m.fit(few, y_few, signatures=S_few)  # noqa: E731
        name = f"{method!r}.fit, 40 classes, 256 features"
        compare(report, name, fit, lambda: np.linalg.eigh(few.T @ few), gram, 3)

    many, y_many, S_many = problem(1000, 12, 256, 64, 20_000)
    seen = S_many.iloc[:1000]
    compare(
        report,
        "GaussianEXEM().fit, 1,000 classes",
        lambda: GaussianEXEM().fit(many, y_many, signatures=seen),
        lambda: EXEM().fit(many, y_many, signatures=seen),
        "EXEM().fit",
        1,
    )

    model = EXEM(tol=1e-3).fit(many, y_many, signatures=S_many)
    rows = many[:2000].astype(np.float32)
    head = np.random.default_rng(0).standard_normal((20_000, 256)).astype(np.float32)
    selection = "NumPy's product and argpartition"
    compare(
        report,
        "predict_top_k, 2,000 rows among 20,000 classes",
        lambda: model.predict_top_k(rows, 5),
        lambda: np.argpartition(rows @ head.T, -5, axis=1),
        selection,
        2,
    )
    compare(
        report,
        "predict_top_k, one row among 20,000 classes",
        lambda: model.predict_top_k(rows[:1], 5),
        lambda: np.argpartition(head @ rows[0], -5),
        selection,
        20,
    )
    new = S_many.iloc[:1].rename(index={0: -1})
    compare(
        report,
        "add_classes and remove_classes, one beside 20,000",
        lambda: model.add_classes(new).remove_classes([-1]),
        lambda: head @ rows[0],
        "one product with all classes",
        10,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.zsl"
        compare(
            report,
            "save and load, 20,000 classes",
            lambda: (zslearn.save(model, path), zslearn.load(path)),
            lambda: (np.save(path.with_suffix(".npy"), head), np.load(path.with_suffix(".npy"))),
            "np.save and np.load of the classes",
            3,
        )
    report.save()


if __name__ == "__main__":
    main()
