"""How many phantom classes SynC needs (appendix D of the paper).

The number of phantoms is a share of the seen classes: centroids of k-means below 1, the seen
classes themselves at 1, and random combinations of two beside them above 1. Beside it the share of
principal components that hold 95 % of the variance of one-versus-others classifiers: where it is
small, classes are alike and few base classifiers do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from zslearn._utils._array import to_numpy
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments._evaluate import measure_conventional
from zslearn.experiments._methods import find_method
from zslearn.experiments._names import LEARNED
from zslearn.experiments.analyses._display import AnalysisDisplay, draw_bars, draw_lines
from zslearn.experiments.analyses._pieces import (
    Piece,
    PieceRunner,
    RunOptions,
    chosen_methods,
    chosen_seeds,
)

# Forms of SynC: the penalty on w or on v, and fixed or learned phantoms (appendix D).
#
# Both are tuned as in the paper: λ and σ by leaving out seen classes; where phantoms are learned,
# then η and γ at the λ and σ that were found.

METHODS_PENALTIES = ("SynC o-vs-o",)
#: What is compared: the setting as tables name it, and the words below a bar.
SYNC_FORMS = {
    "penalize=w": "penalty on w",
    "penalize=v": "penalty on v",
    "learn_phantoms=False": "fixed phantoms",
    "learn_phantoms=True": "learned phantoms",
    "learn_phantoms=True;training=exact": "learned phantoms, exact",
}
_EXACT = "exact"
_VARIANTS: dict[str, dict[str, Any]] = {
    "penalize=w": {"penalize": "w"},
    "penalize=v": {"penalize": "v"},
    "learn_phantoms=False": {"learn_phantoms": False},
    "learn_phantoms=True": {"learn_phantoms": True},
    "learn_phantoms=True;training=exact": {"learn_phantoms": True, "training": _EXACT},
}
#: Compared where no forms are named; exact training takes the longest.
_USUAL = tuple(SYNC_FORMS)[:4]


def analyze_penalties(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS_PENALTIES,
    seeds: int | Sequence[int] = (0,),
    forms: Sequence[str] = _USUAL,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Compare forms of SynC, each tuned for itself.

    Its records fill the paper's tables "regularization" and "learned_phantoms".
    """
    unknown = [form for form in forms if form not in SYNC_FORMS]
    if unknown or not forms:
        raise ValueError(f"There is no form {unknown}; there are: {', '.join(SYNC_FORMS)}.")
    runner = PieceRunner("penalties", data, out, **options)
    names = chosen_methods(methods)
    others = [name for name in names if not name.startswith("SynC") or "learned" in name]
    if others:
        raise ValueError(f"Forms are of SynC o-vs-o, SynC cs and SynC struct, not of {others[0]}.")

    def compute(method: str, variant: Mapping[str, Any], seed: int) -> dict[str, Any]:
        if variant.get("learn_phantoms"):
            exact = variant.get("training") == _EXACT
            ending = LEARNED if exact else " (learned phantoms, truncated)"
            search = runner.tune(f"{method}{ending}", seed)
        else:
            # Fixed phantoms and a penalty on w are the method as it is: tuned once.
            fixed = {"penalize": "v"} if variant.get("penalize") == "v" else None
            search = runner.tune(find_method(method), seed, fixed=fixed)
        return {
            "metrics": measure_conventional(search.estimator_, data),
            "hyper_parameters": dict(search.best_params_),
            "edges": dict(search.edges_),
        }

    frame = runner.run(
        Piece(method, seed, partial(compute, method, _VARIANTS[form], seed), _VARIANTS[form])
        for seed in chosen_seeds(seeds)
        for method in names
        for form in forms
    )
    return frame.assign(form=[_form(row) for row in frame.to_dict("records")])


def _form(row: Mapping[Any, Any]) -> str:
    """The words for the setting of a row."""
    penalty = row.get("penalize")
    if penalty in ("w", "v"):
        return SYNC_FORMS[f"penalize={penalty}"]
    exact = f";training={_EXACT}" if row.get("training") == _EXACT else ""
    return SYNC_FORMS[f"learn_phantoms={row['learn_phantoms']}{exact}"]


class PenaltiesDisplay(AnalysisDisplay):
    """Picture of the accuracy of forms of SynC."""

    columns = ("method", "form", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        draw_bars(ax, frame, "form", "method", ylabel="accuracy per class (%)", factor=100)


METHODS = ("SynC o-vs-o",)
SHARES = (0.3, 0.6, 1.0)
#: λ of the classifiers whose variance is looked at.
ALPHAS = tuple(2.0**k for k in range(-20, -7, 4))


def analyze_phantoms(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    shares: Sequence[float] = SHARES,
    retune: bool = False,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Measure SynC with fewer and more phantom classes than seen ones."""
    if not shares or not all(0 < share <= 10 for share in shares):
        raise ValueError(f"shares of phantoms lie in (0, 10]; got {list(shares)}.")
    runner = PieceRunner("phantoms", data, out, **options)
    names = chosen_methods(methods)
    _refuse_others(names)
    numbers = sorted({1.0, *map(float, shares)})

    def compute(method: str, share: float, seed: int) -> dict[str, Any]:
        search = runner.tune(method, seed, fixed={"n_phantoms": share} if retune else None)
        model = search.estimator_
        if not retune and share != 1.0:
            model = runner.refit(search, data, n_phantoms=share)
        return {"metrics": measure_conventional(model, data), "retuned": retune}

    frame = runner.run(
        Piece(method, seed, partial(compute, method, share, seed), {"n_phantoms": share}, (retune,))
        for seed in chosen_seeds(seeds)
        for method in names
        for share in numbers
    )
    keys = ["method", "seed", "metric"]
    base = frame[frame["n_phantoms"] == 1].set_index(keys)["value"]
    own = pd.MultiIndex.from_frame(frame[keys])
    frame["relative"] = frame["value"].to_numpy() / base.reindex(own).to_numpy()
    return frame


def _refuse_others(names: Sequence[str]) -> None:
    others = [name for name in names if not name.startswith("SynC")]
    if others:
        raise ValueError(f"Only SynC has phantom classes; {', '.join(others)} has none.")


class PhantomsDisplay(AnalysisDisplay):
    """Picture of relative accuracy against the number of phantom classes."""

    columns = ("method", "n_phantoms", "metric", "relative")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "per_class_accuracy"]
        frame = frame.assign(value=frame["relative"], share=100 * frame["n_phantoms"])
        draw_lines(
            ax,
            frame,
            "share",
            xlabel="phantom classes, in % of the seen classes",
            ylabel="accuracy, in % of that at 100 %",
            factor=100,
        )
        ax.axhline(100, color="0.6", linewidth=0.8, zorder=0)


def components_for_variance(classifiers: ArrayLike, share: float = 0.95) -> int:
    """Smallest number of principal components that hold a share of the variance."""
    if not 0 < share <= 1:
        raise ValueError(f"A share of the variance lies in (0, 1], not {share}.")
    rows = np.asarray(classifiers, dtype=np.float64)
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    total = variances.sum()
    if total == 0:
        return 0
    # A sum that falls short of the share by rounding alone reaches it.
    return int(np.searchsorted(np.cumsum(variances) / total, share - 1e-12) + 1)


def analyze_components(
    data: ZeroShotDataset,
    out: Path | str,
    *,
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    alphas: Sequence[float] = ALPHAS,
    share: float = 0.95,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Count the principal components that hold most of the variance of the classifiers.

    The classifiers are those of the seen classes; nothing is tuned.
    """
    runner = PieceRunner("components", data, out, **options)
    names = chosen_methods(methods)
    _refuse_others(names)

    def compute(method: str, alpha: float, seed: int) -> dict[str, Any]:
        model = runner.make(method, seed).set_params(alpha=alpha)
        model.fit(data.X_train, data.y_train, signatures=data.signatures)
        number = components_for_variance(to_numpy(model.coef_), share)
        n_seen = len(data.seen_classes)
        return {"metrics": {"components": number, "components_share": number / n_seen}}

    return runner.run(
        Piece(method, seed, partial(compute, method, alpha, seed), {"alpha": alpha}, (share,))
        for seed in chosen_seeds(seeds)
        for method in names
        for alpha in sorted(map(float, alphas))
    )


class ComponentsDisplay(AnalysisDisplay):
    """Picture of how many components hold 95 % of the variance of classifiers, against λ."""

    columns = ("method", "alpha", "metric", "value")

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == "components_share"]
        draw_lines(
            ax,
            frame,
            "alpha",
            xlabel="weight of the penalty (alpha, the paper's λ)",
            ylabel="components, in % of the seen classes",
            factor=100,
        )
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
