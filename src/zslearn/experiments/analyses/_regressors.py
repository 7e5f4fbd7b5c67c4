"""What predicts exemplars, and in how many dimensions (appendix E)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import measure_conventional
from zslearn.experiments._methods import find_method
from zslearn.experiments._tuning import TuningOptions, tune_without
from zslearn.experiments.analyses._display import AnalysisDisplay, mean_and_spread, plain_legend
from zslearn.experiments.analyses._pieces import Piece, PieceRunner, RunOptions, chosen_seeds
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.synthesis import ExemplarMLP

#: Regressors of EXEM and the rows of the paper's table; ours beside them.
REGRESSORS = {
    "svr": "EXEM (1NN)",
    "mlp": "EXEM (1NN, MLP)",
    "krr": "EXEM (1NN, kernel ridge)",
    "gp": "EXEM (1NN, Gaussian process)",
}
#: Hyper-parameters that a regressor does not have.
_LACKS: dict[str, tuple[str, ...]] = {
    "svr": (),
    "krr": ("nu",),
    "gp": ("nu", "C"),
}
_MLP_GRID = {"regressor__alpha": [1e-5, 1e-4, 1e-3]}
#: Dimensions of the paper's table; None is without a projection.
DIMENSIONS: tuple[int | None, ...] = (10, 50, 100, 200, 500, 1024, None)
_COLORS = {"svr": "#56b4e9", "mlp": "#d55e00", "krr": "#009e73", "gp": "#cc79a7"}
_MARKERS = {"svr": "o", "mlp": "s", "krr": "^", "gp": "D"}


def analyze_regressors(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = ("svr", "krr", "gp"),
    seeds: int | Sequence[int] = (0,),
    dimensions: Sequence[int | None] = (10, 50, 200, 500, None),
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure EXEM (1NN) with several regressors and numbers of principal components.

    Its records fill the paper's tables "regressor" and "pca". Each is tuned for itself by leaving
    out seen classes: the ν-SVR (C, ν, σ), the perceptron (λ; needs the `torch` extra), kernel ridge
    (C, σ) and the Gaussian process (the σ it begins with).

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records.
    methods : str or sequence of {"svr", "krr", "gp", "mlp"}
        The regressors.
    seeds : int or sequence of int
        Each decides folds, and where the perceptron begins.
    dimensions : sequence of int or None
        Numbers of components; None is without a projection. More than there are features or
        training samples are left out: they are no further components.
    **options
        How it runs; see :class:`PieceRunner`.

    Returns
    -------
    DataFrame
        One row per number, with the columns `n_components` and `regressor`.
    """
    names = [methods] if isinstance(methods, str) else list(methods)
    unknown = [name for name in names if name not in REGRESSORS]
    if unknown or not names:
        raise ValueError(f"There is no regressor {unknown}; there are: {', '.join(REGRESSORS)}.")
    runner = PieceRunner("regressors", data, out, **options)
    most = min(data.X_train.shape)
    kept = [number for number in dict.fromkeys(dimensions) if number is None or number <= most]
    if not kept:
        raise ValueError(f"{data.name} has {most} components at most; every dimension is larger.")

    def compute(name: str, number: int | None, seed: int) -> dict[str, Any]:
        method = find_method("EXEM (1NN)")
        method = replace(
            method,
            make=partial(_made, method.make, name, number),
            tune=_tune_mlp if name == "mlp" else tune_without("n_components", *_LACKS[name]),
        )
        search = runner.tune(method, seed)
        return {
            "metrics": measure_conventional(search.estimator_, data),
            "hyper_parameters": dict(search.best_params_),
            "edges": dict(search.edges_),
        }

    frame = runner.run(
        Piece(
            REGRESSORS[name], seed, partial(compute, name, number, seed), {"n_components": number}
        )
        for seed in chosen_seeds(seeds)
        for name in names
        for number in kept
    )
    by_row = {row: name for name, row in REGRESSORS.items()}
    return frame.assign(regressor=frame["method"].map(by_row))


def _made(make: Any, name: str, number: int | None) -> Any:
    regressor = ExemplarMLP() if name == "mlp" else name
    return make().set_params(regressor=regressor, n_components=number)


def _tune_mlp(estimator: Any, data: ZeroShotDataset, options: TuningOptions) -> ZeroShotSearchCV:
    """Search the perceptron's own hyper-parameter, λ."""
    search = options.search(estimator, _MLP_GRID)
    return search.fit(data.X_train, data.y_train, signatures=data.signatures)


class RegressorsDisplay(AnalysisDisplay):
    """Picture of accuracy against the number of principal components, a line per regressor."""

    columns = ("method", "regressor", "n_components", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        frame = frame.assign(n_components=frame["n_components"].astype(object))
        known = sorted({int(n) for n in frame["n_components"] if not pd.isna(n)})
        places: list[int | None] = (
            [*known, None] if frame["n_components"].isna().any() else [*known]
        )
        stats = mean_and_spread(frame, ["method", "regressor", "n_components"])
        for key, part in stats.groupby(["method", "regressor"], sort=False):
            method, name = map(str, key)
            where = [
                places.index(None if pd.isna(n) else int(n)) for n in part["n_components"].tolist()
            ]
            part = part.assign(where=where).sort_values("where")
            spread = None if part["spread"].isna().all() else 100 * part["spread"].fillna(0.0)
            ax.errorbar(
                part["where"],
                100 * part["mean"],
                yerr=spread,
                marker=_MARKERS[name],
                color=_COLORS[name],
                linestyle="--",
                capsize=2,
                label=method,
            )
        names = ["none" if place is None else str(place) for place in places]
        ax.set_xticks(range(len(places)), names)
        ax.set(xlabel="principal components", ylabel="accuracy per class (%)")
        plain_legend(ax)
