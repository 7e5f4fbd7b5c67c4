"""Accuracy against the number of seen classes (section 4.2 of the paper).

Subsets of the seen classes are drawn uniformly at random; a larger one holds every smaller one of
the same seed. The unseen classes stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from zslearn.datasets import ClassSplit, ZeroShotDataset
from zslearn.experiments._evaluate import measure_conventional
from zslearn.experiments.analyses._classes import of_classes
from zslearn.experiments.analyses._display import AnalysisDisplay, draw_lines
from zslearn.experiments.analyses._pieces import (
    Piece,
    PieceRunner,
    RunOptions,
    chosen_methods,
    chosen_seeds,
)

#: Methods where none are named.
METHODS = ("ESZSL", "EXEM (1NN)", "Gaussian EXEM")
#: Shares of the seen classes.
SHARES = (0.25, 0.5, 0.75, 1.0)
_FEWEST = 4


def with_fewer_seen(data: ZeroShotDataset, n_seen: int, seed: int) -> ZeroShotDataset:
    """The same data set with some of its seen classes only.

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    n_seen : int
        How many stay.
    seed : int
        Which: a larger number of the same seed adds classes and takes none away.

    Returns
    -------
    ZeroShotDataset
        With one split. Images and signatures are those of the seen classes that stay and of the
        unseen ones.
    """
    split = data.active_split
    seen = np.sort(split.seen_classes)
    if not _FEWEST <= n_seen <= len(seen):
        raise ValueError(
            f"{data.name} has {len(seen)} seen classes; a subset has {_FEWEST} to {len(seen)}, "
            f"not {n_seen}."
        )
    kept = np.random.RandomState(seed).permutation(len(seen))[:n_seen]
    classes = seen[np.sort(kept)]
    train, test_seen = (
        part[np.isin(data.y[part], classes)] for part in (split.train, split.test_seen)
    )
    described = [*classes.tolist(), *split.unseen_classes.tolist()]
    rows = np.concatenate([train, test_seen, split.test_unseen])
    ends = [len(train), len(train) + len(test_seen)]
    places = np.split(np.arange(len(rows)), ends)
    fewer = ClassSplit(
        train=places[0],
        test_seen=places[1],
        test_unseen=places[2],
        seen_classes=classes,
        unseen_classes=split.unseen_classes,
        version=f"{split.version}, {n_seen} seen classes of seed {seed}",
    )
    return ZeroShotDataset(
        X=data.X[rows],
        y=data.y[rows],
        signatures=of_classes(data.signatures, described),
        splits={data.split: fewer},
        split=data.split,
        name=data.name,
        features=data.features,
        images=None if data.images is None else data.images[rows],
        semantic=data.semantic,
    )


def analyze_seen_classes(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    shares: Sequence[float] = SHARES,
    retune: bool = False,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure methods that learn from fewer and fewer of the seen classes.

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records.
    methods : str or sequence of str
        Names of methods.
    seeds : int or sequence of int
        Each draws subsets and folds.
    shares : sequence of float
        Shares of the seen classes; at least four classes stay.
    retune : bool, default=False
        Whether a method is tuned anew on each subset, by leaving out classes of the subset, as in
        the paper; else once, by leaving out classes among all seen ones.
    **options
        How it runs; see :class:`PieceRunner`.

    Returns
    -------
    DataFrame
        One row per number, with the column `n_seen`.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.experiments.analyses import analyze_seen_classes
    >>> data = make_zero_shot(random_state=0)
    >>> frame = analyze_seen_classes(data, mkdtemp(), methods="ESZSL", shares=[0.5, 1.0])
    >>> sorted(set(frame.n_seen))
    [10, 20]
    """
    if not shares or not all(0 < share <= 1 for share in shares):
        raise ValueError(f"shares of the seen classes lie in (0, 1]; got {list(shares)}.")
    runner = PieceRunner("seen-classes", data, out, **options)
    n_seen = len(data.seen_classes)
    numbers = sorted({max(_FEWEST, round(share * n_seen)) for share in shares}, reverse=True)

    def compute(method: str, number: int, seed: int) -> dict[str, Any]:
        fewer = with_fewer_seen(data, number, seed)
        if retune:
            model = runner.tune(method, seed, data=fewer).estimator_
        else:
            model = runner.refit(runner.tune(method, seed), fewer)
        return {"metrics": measure_conventional(model, fewer), "retuned": retune}

    return runner.run(
        Piece(method, seed, partial(compute, method, number, seed), {"n_seen": number}, (retune,))
        for seed in chosen_seeds(seeds)
        for number in numbers
        for method in chosen_methods(methods)
    )


class SeenClassesDisplay(AnalysisDisplay):
    """Picture of accuracy against the number of seen classes, a line per method."""

    columns = ("method", "n_seen", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        draw_lines(
            ax,
            frame,
            "n_seen",
            xlabel="number of seen classes",
            ylabel="accuracy per class (%)",
            factor=100,
        )
