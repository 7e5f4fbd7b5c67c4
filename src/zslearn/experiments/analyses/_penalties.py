"""Forms of SynC: the penalty on w or on v, and fixed or learned phantoms (appendix D).

Both are tuned as in the paper: λ and σ by leaving out seen classes; where phantoms are learned,
then η and γ at the λ and σ that were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import measure_conventional
from zslearn.experiments._methods import find_method
from zslearn.experiments._names import LEARNED
from zslearn.experiments.analyses._display import AnalysisDisplay, draw_bars
from zslearn.experiments.analyses._pieces import (
    Piece,
    PieceRunner,
    RunOptions,
    chosen_methods,
    chosen_seeds,
)

METHODS = ("SynC o-vs-o",)
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
    methods: str | Sequence[str] = METHODS,
    seeds: int | Sequence[int] = (0,),
    forms: Sequence[str] = _USUAL,
    **options: Unpack[RunOptions],
) -> pd.DataFrame:
    """Compare forms of SynC, each tuned for itself.

    Its records fill the paper's tables "regularization" and "learned_phantoms".

    Parameters
    ----------
    data : ZeroShotDataset
        With its active split.
    out : path
        Folder of the records.
    methods : str or sequence of str
        Losses of SynC, such as "SynC o-vs-o".
    seeds : int or sequence of int
        Each decides folds.
    forms : sequence of str
        What is compared: "penalize=w" and "penalize=v", "learn_phantoms=False" and
        "learn_phantoms=True". With the latter phantoms and base classifiers are learned in turn
        (``phantom_training="truncated"``); "learn_phantoms=True;training=exact" solves for the base
        classifiers at each step. With as many phantoms as seen classes and the penalty on w this
        leaves phantoms to the two terms of their penalty; see :doc:`/sync`.
    **options
        How it runs; see :class:`PieceRunner`.

    Returns
    -------
    DataFrame
        One row per number, with the column `form`.
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
