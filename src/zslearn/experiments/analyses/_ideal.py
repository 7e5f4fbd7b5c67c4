"""How far signatures are from ideal ones (section 4.5 of the paper).

The ideal signature of a class is the mean of its image features. For an unseen class it is taken
from a random half of its images, and both kinds of signatures are measured on the other half, so
that no test image describes its own class. This is an upper bound, not zero-shot learning.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from zslearn._utils._messages import name_some
from zslearn.datasets._dataset import ClassSplit, ZeroShotDataset
from zslearn.experiments._evaluate import measure_conventional
from zslearn.experiments.analyses._display import AnalysisDisplay, draw_bars
from zslearn.experiments.analyses._pieces import (
    Piece,
    PieceRunner,
    RunOptions,
    chosen_methods,
    chosen_seeds,
)
from zslearn.synthesis._exem import ideal_signatures

METHODS = ("ESZSL", "EXEM (1NN)")
IDEAL = "ideal"


def with_ideal_half(data: ZeroShotDataset, seed: int) -> tuple[ZeroShotDataset, pd.DataFrame]:
    """Halve the test images of unseen classes: one half describes, the other one tests."""
    split = data.active_split
    rng = np.random.RandomState(seed)
    labels = data.y[split.test_unseen]
    describing, testing = [], []
    for label in split.unseen_classes:
        rows = rng.permutation(split.test_unseen[labels == label])
        describing.append(rows[: len(rows) // 2])
        testing.append(np.sort(rows[len(rows) // 2 :]))
    few = [
        label
        for label, rows in zip(split.unseen_classes.tolist(), describing, strict=True)
        if not len(rows)
    ]
    if few:
        raise ValueError(
            f"These unseen classes have fewer than two test images: {name_some(few)}; half of the "
            "images of a class describe it and half test."
        )
    halved = ClassSplit(
        train=split.train,
        test_seen=split.test_seen,
        test_unseen=np.concatenate(testing),
        seen_classes=split.seen_classes,
        unseen_classes=split.unseen_classes,
        version=f"{split.version}, half of the unseen images of seed {seed}",
    )
    rows = np.concatenate([split.train, *describing])
    ideal = ideal_signatures(data.X[rows], data.y[rows])
    made = ZeroShotDataset(
        X=data.X,
        y=data.y,
        signatures=data.signatures,
        splits={data.split: halved},
        split=data.split,
        name=data.name,
        features=data.features,
        semantic=data.semantic,
    )
    described = [*split.seen_classes.tolist(), *split.unseen_classes.tolist()]
    return made, ideal.loc[described]


def analyze_ideal(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Compare the signatures of a data set with ideal ones, on the same half of the test images."""
    runner = PieceRunner("ideal", data, out, **options)
    own = data.semantic or "attributes"

    def compute(method: str, kind: str, seed: int) -> dict[str, Any]:
        halved, ideal = with_ideal_half(data, seed)
        if kind == IDEAL:
            described = halved.signatures
            index = getattr(described, "index", ideal.index)
            halved = halved.with_signatures(ideal.loc[list(index)])
        model = runner.tune(method, seed, data=halved).estimator_
        return {"metrics": measure_conventional(model, halved)}

    return runner.run(
        Piece(method, seed, partial(compute, method, kind, seed), {"test": "half"}, (), kind)
        for seed in chosen_seeds(seeds)
        for kind in (own, IDEAL)
        for method in chosen_methods(methods)
    )


class IdealDisplay(AnalysisDisplay):
    """Picture of accuracy with the data set's signatures and with ideal ones."""

    columns = ("method", "semantic", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        draw_bars(ax, frame, "semantic", "method", ylabel="accuracy per class (%)", factor=100)
        ax.set_xlabel("signatures")
