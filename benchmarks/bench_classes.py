"""How fitting grows with the number of seen classes, one image of each.

The peer is scikit-learn's regularised multi-class model on the same rows (a ridge classifier, whose
cost grows with classes × features² alone), so that a ratio tells what the method adds.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from _common import Report, fitted_exponent
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifier

from zslearn.baselines import ESZSL, ConSE
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

N_FEATURES, N_ATTRIBUTES = 256, 64


def samples(n_classes: int) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """One image of each class, half of it noise."""
    rng = np.random.default_rng(0)
    signatures = rng.standard_normal((n_classes, N_ATTRIBUTES))
    means = signatures @ rng.standard_normal((N_ATTRIBUTES, N_FEATURES)) / 8
    X = means + 0.5 * rng.standard_normal(means.shape)
    return X.astype(np.float32), np.arange(n_classes), pd.DataFrame(signatures)


def processor_seconds(function) -> float:
    """The cost of a call, independent of other load on the machine."""
    start = time.process_time()
    function()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 1,000 classes")
    sizes = (250, 500, 1000) if parser.parse_args().quick else (500, 1000, 2000, 4000, 5000)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    report = Report("classes", "Fitting with one image of each class, processor seconds")
    methods = {
        "EXEM": EXEM(),
        "GaussianEXEM": GaussianEXEM(),
        "SynC o-vs-o": SynC(),
        "ConSE": ConSE(),
        "ESZSL": ESZSL(),
    }
    for name, method in methods.items():
        X, y, signatures = samples(100)
        method.fit(X, y, signatures=signatures)  # compiles
        costs = []
        for n_classes in sizes:
            X, y, signatures = samples(n_classes)
            peer = processor_seconds(lambda X=X, y=y: RidgeClassifier().fit(X, y))
            fit = lambda X=X, y=y, S=signatures, m=method: m.fit(X, y, signatures=S)  # noqa: E731
            costs.append(processor_seconds(fit))
            report.add(
                method=name,
                classes=n_classes,
                peer_seconds=peer,
                seconds=costs[-1],
                ratio=costs[-1] / peer,
                exponent=""
                if len(costs) < 2
                else fitted_exponent(sizes[: len(costs)][-2:], costs[-2:]),
            )
    report.save()


if __name__ == "__main__":
    main()
