"""Rates that NoneOfThese claims against those on new images, on synthetic data.

Ten of the unseen classes are not described, and their images should be rejected. The form of the
folds was chosen on other seeds and confirmed on these.

    python benchmarks/rejection_rates.py
"""

from __future__ import annotations

import warnings

import numpy as np

from zslearn.baselines import ESZSL
from zslearn.calibration import NoneOfThese
from zslearn.datasets import make_zero_shot
from zslearn.synthesis import GaussianEXEM

SEEDS, FOREIGN = range(10, 18), 10


def class_rate(flags: np.ndarray, y: np.ndarray) -> float:
    """The mean over classes of a rate within each."""
    return float(np.mean([flags[y == label].mean() for label in np.unique(y)]))


def rates(method: object, statistic: str, n_unseen: int, seed: int) -> list[float]:
    """Detection claimed and real, then false alarms claimed and real, for described and seen."""
    data = make_zero_shot(n_seen=30, n_unseen=n_unseen + FOREIGN, random_state=seed)
    foreign = np.random.default_rng(seed).choice(data.unseen_classes, FOREIGN, replace=False)
    model = NoneOfThese(method, statistic=statistic)
    model.fit(data.X_train, data.y_train, signatures=data.signatures.drop(index=foreign))
    unseen, seen = model.is_none(data.X_test_unseen), model.is_none(data.X_test_seen)
    y, out = data.y_test_unseen, np.isin(data.y_test_unseen, foreign)
    claimed = model.false_alarm_rates_
    return [
        model.detection_rate_, class_rate(unseen[out], y[out]),
        claimed["described"], class_rate(unseen[~out], y[~out]),
        claimed["seen"], class_rate(seen, data.y_test_seen),
    ]  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    print("unseen method       statistic    detected    alarms: described   seen   (claimed/real)")
    for n_unseen in (15, 60):
        for method in (ESZSL(), GaussianEXEM(unlabelled_weight=0.3)):
            for statistic in ("margin", "max", "probability"):
                found = [rates(method, statistic, n_unseen, seed) for seed in SEEDS]
                a, b, c, d, e, f = np.mean(found, axis=0)
                name = type(method).__name__
                print(
                    f"{n_unseen:6} {name:12} {statistic:12} {a:.3f}/{b:.3f} "
                    f"{c:.3f}/{d:.3f} {e:.3f}/{f:.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
