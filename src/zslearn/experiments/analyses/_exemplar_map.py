"""Images of unseen classes with their predicted and real exemplars in one plane (appendix E)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from sklearn.manifold import TSNE

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._records import read_record
from zslearn.experiments.analyses._display import AnalysisDisplay
from zslearn.experiments.analyses._exemplars import unseen_exemplars
from zslearn.experiments.analyses._pieces import Piece, PieceRunner, RunOptions, chosen_seeds
from zslearn.utils import import_optional, to_numpy

#: Told apart by any colour vision; beside the colour a class has its number.
_COLORS = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"),
    *("#d55e00", "#4b5a68", "#7456e0", "#882255", "#999933"),
)


def analyze_exemplar_map(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = ("EXEM (1NN)",),
    seeds: int | Sequence[int] = (0,),
    n_classes: int = 10,
    n_images: int = 30,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Place images, predicted and real exemplars of unseen classes in a plane by t-SNE.

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records.
    methods : str or sequence of str
        "EXEM (1NN)", which is tuned by leaving out seen classes.
    seeds : int or sequence of int
        Each draws classes and images and begins t-SNE; a picture shows the first.
    n_classes, n_images : int
        How many unseen classes, and how many images of each, are drawn at random.
    **options
        How it runs; see :class:`PieceRunner`.

    Returns
    -------
    DataFrame
        One row per point: `seed`, `class`, `kind` ("image", "predicted" or "real"), `x`, `y`.
    """
    if [methods] != ["EXEM (1NN)"] and list(methods) != ["EXEM (1NN)"]:
        raise ValueError("Exemplars are those of EXEM (1NN); other methods predict none.")
    if n_classes < 2 or n_images < 1:
        raise ValueError(f"A map needs two classes and an image; got {n_classes} and {n_images}.")
    runner = PieceRunner("exemplar-map", data, out, **options)
    depends = (n_classes, n_images)
    pieces = [
        Piece(
            "EXEM (1NN)", seed, partial(_place, runner, seed, *depends), {"of": "points"}, depends
        )
        for seed in chosen_seeds(seeds)
    ]
    runner.run(pieces)
    rows = []
    for piece in pieces:
        record = read_record(runner.path(piece))
        columns = ("class", "kind", "x", "y")
        rows += [
            {"seed": piece.seed, **dict(zip(columns, point, strict=True))}
            for point in record.get("points", ())
        ]
    return pd.DataFrame(rows)


def _place(runner: PieceRunner, seed: int, n_classes: int, n_images: int) -> dict[str, Any]:
    """Points of one seed, for a record."""
    data = runner.data
    model = runner.tune("EXEM (1NN)", seed).estimator_
    predicted, real = unseen_exemplars(model, data)
    rng = np.random.RandomState(seed)
    unseen, y = data.unseen_classes, data.y_test_unseen
    chosen = np.sort(rng.permutation(len(unseen))[:n_classes])
    rows = [rng.permutation(np.flatnonzero(y == unseen[i]))[:n_images] for i in chosen]
    images = to_numpy(model.class_scorer_.embedding(data.X_test_unseen[np.concatenate(rows)]))
    points = np.concatenate([images, predicted[chosen], real[chosen]])
    names = [str(unseen[i]) for i in chosen]
    labels = [n for n, of_class in zip(names, rows, strict=True) for _ in of_class]
    kinds = ["image"] * len(labels) + ["predicted"] * len(names) + ["real"] * len(names)
    perplexity = min(30.0, (len(points) - 1) / 3)
    place = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit(points)
    xy = np.round(place.embedding_.astype(np.float64), 3).tolist()
    found = [
        [label, kind, x, y_]
        for label, kind, (x, y_) in zip([*labels, *names, *names], kinds, xy, strict=True)
    ]
    return {"metrics": {"tsne_divergence": float(place.kl_divergence_)}, "points": found}


class ExemplarMapDisplay(AnalysisDisplay):
    """Picture of images (dots), predicted (circles) and real exemplars (crosses) by t-SNE.

    A line joins the two exemplars of a class: the shorter, the better the prediction.
    """

    columns = ("seed", "class", "kind", "x", "y")
    size = (7.4, 5.4)

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["seed"] == self.frame["seed"].iloc[0]]
        effects = import_optional("matplotlib.patheffects", type(self).__name__)
        rim = effects.withStroke(linewidth=2.5, foreground="white")
        middle = (frame["x"].min() + frame["x"].max()) / 2
        for i, (label, part) in enumerate(frame.groupby("class", sort=False)):
            color = _COLORS[i % len(_COLORS)]
            kinds: dict[Any, pd.DataFrame] = dict(list(part.groupby("kind")))
            ax.scatter(
                kinds["image"].x, kinds["image"].y, s=9, color=color, alpha=0.55, linewidths=0
            )
            ends = pd.concat([kinds["predicted"], kinds["real"]])
            ax.plot(ends.x, ends.y, color=color, linewidth=1)
            big = {"zorder": 3, "linewidths": 1.8}
            predicted, real = kinds["predicted"].iloc[0], kinds["real"].iloc[0]
            ax.scatter(
                predicted.x,
                predicted.y,
                s=75,
                marker="o",
                facecolor="white",
                edgecolor=color,
                **big,
            )
            ax.scatter(real.x, real.y, s=55, marker="x", color=color, **big)
            # Names lie over dots: a white rim keeps them legible. Those on the right end there.
            on_right = real.x > middle
            ax.annotate(
                str(label)[:28],
                (real.x, real.y),
                xytext=(-6 if on_right else 6, 6),
                textcoords="offset points",
                ha="right" if on_right else "left",
                fontsize=8,
                zorder=4,
                parse_math=False,
                path_effects=[rim],
            )
        ax.set(xticks=[], yticks=[], xlabel="dots: images; circle: predicted exemplar; cross: real")
