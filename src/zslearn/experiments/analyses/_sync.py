"""SynC's phantom classes and penalties (Appendix D of the paper).

`penalties` compares penalties on w and on v, and fixed and learned phantoms. Each is tuned on
held-out seen classes: λ and σ, and for learned phantoms then η and γ at the chosen λ and σ.

`phantoms` varies the number of phantoms as a share of the seen classes: k-means centroids below 1,
the seen classes at 1, and additional random combinations of two above 1. `components` reports how
many principal components hold 95 % of the variance of one-versus-others classifiers: if they are
few, few base classifiers suffice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from zslearn._utils._array import to_numpy
from zslearn.experiments._evaluate import conventional_metrics
from zslearn.experiments._names import LEARNED
from zslearn.experiments.analyses._drawing import ACCURACY, draw_lines
from zslearn.experiments.analyses._jobs import JobRunner, write_variant
from zslearn.model_selection import find_method

#: Label of a bar → hyper-parameters of SynC.
_FORMS: dict[str, dict[str, Any]] = {
    "penalty on w": {"penalize": "w"},
    "penalty on v": {"penalize": "v"},
    "fixed phantoms": {"learn_phantoms": False},
    "learned phantoms": {"learn_phantoms": True},
}
#: Variant in records → label of a bar.
SYNC_FORMS = {write_variant(setting): words for words, setting in _FORMS.items()}


def compare_forms(
    runner: JobRunner,
    *,
    forms: Sequence[str] = tuple(SYNC_FORMS),
) -> pd.DataFrame:
    """Compare forms of SynC, for the tables "regularization" and "learned_phantoms"."""
    unknown = [form for form in forms if form not in SYNC_FORMS]
    if unknown or not forms:
        raise ValueError(f"Unknown forms {unknown}; choose from {', '.join(SYNC_FORMS)}.")
    learned = [name for name in runner.methods if name.endswith(LEARNED)]
    if learned:
        raise ValueError(
            f"Forms need SynC o-vs-o, SynC cs or SynC struct, which cover {learned[0]}."
        )

    def compute(method: str, seed: int, **variant: Any) -> dict[str, Any]:
        if variant.get("learn_phantoms") and ":" in method:
            return runner.results_of(runner.tune(method, seed, fixed=variant))
        if variant.get("learn_phantoms"):
            return runner.results_of(runner.tune(f"{method}{LEARNED}", seed))
        # Fixed phantoms and a penalty on w are the defaults, and share one search.
        fixed = {"penalize": "v"} if variant.get("penalize") == "v" else None
        return runner.results_of(runner.tune(find_method(method), seed, fixed=fixed))

    frame = runner.run(runner.jobs(compute, [_FORMS[SYNC_FORMS[form]] for form in forms]))
    return frame.assign(form=[_form(row) for row in frame.to_dict("records")])


def _form(row: Mapping[Any, Any]) -> str:
    """Label of the form of a row."""
    found = {name: row.get(name) for name in ("penalize", "learn_phantoms")}
    return SYNC_FORMS[write_variant({n: v for n, v in found.items() if isinstance(v, str)})]


def vary_phantoms(
    runner: JobRunner, *, shares: Sequence[float] = (0.3, 0.6, 1.0), retune: bool = False
) -> pd.DataFrame:
    """Measure SynC with fewer and with more phantom than seen classes."""
    if not shares or not all(0 < share <= 10 for share in shares):
        raise ValueError(f"shares must lie in (0, 10]; got {list(shares)}.")

    def compute(method: str, seed: int, n_phantoms: float) -> dict[str, Any]:
        fixed = {"n_phantoms": n_phantoms} if retune else None
        search = runner.tune(method, seed, fixed=fixed)
        model = search.estimator_
        if not retune and n_phantoms != 1.0:
            model = runner.refit(search, runner.data, n_phantoms=n_phantoms)
        return {"metrics": conventional_metrics(model, runner.data), "retuned": retune}

    settings = [{"n_phantoms": share} for share in sorted({1.0, *map(float, shares)})]
    frame = runner.run(runner.jobs(compute, settings, retune))
    keys = ["method", "seed", "metric"]
    base = frame[frame["n_phantoms"] == 1].set_index(keys)["value"]
    own = pd.MultiIndex.from_frame(frame[keys])
    frame["relative"] = frame["value"].to_numpy() / base.reindex(own).to_numpy()
    return frame


def draw_phantoms(ax: Any, frame: pd.DataFrame) -> None:
    """Draw relative accuracy against the number of phantom classes."""
    draw_lines(
        ax,
        frame.assign(value=frame["relative"], share=100 * frame["n_phantoms"]),
        x="share",
        xlabel="phantom classes, in % of the seen classes",
        ylabel="accuracy, in % of that at 100 %",
        metric=ACCURACY,
    )
    ax.axhline(100, color="0.6", linewidth=0.8, zorder=0)


def components_for_variance(classifiers: ArrayLike, share: float = 0.95) -> int:
    """Smallest number of principal components that explain a share of the variance."""
    rows = np.asarray(classifiers, dtype=np.float64)
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    total = variances.sum()
    if total == 0:
        return 0
    # The tolerance absorbs rounding errors of the sum.
    return int(np.searchsorted(np.cumsum(variances) / total, share - 1e-12) + 1)


def count_components(
    runner: JobRunner,
    *,
    alphas: Sequence[float] = (2.0**-20, 2.0**-16, 2.0**-12, 2.0**-8),
) -> pd.DataFrame:
    """Count the components that explain 95 % of the variance of classifiers, for several λ."""
    data = runner.data

    def compute(method: str, seed: int, alpha: float) -> dict[str, Any]:
        model = runner.protocol.make(find_method(method), seed).set_params(alpha=alpha)
        model.fit(data.X_train, data.y_train, signatures=data.signatures)
        number = components_for_variance(to_numpy(model.coef_))
        n_seen = len(data.seen_classes)
        return {"metrics": {"components": number, "components_share": number / n_seen}}

    settings = [{"alpha": alpha} for alpha in sorted(map(float, alphas))]
    return runner.run(runner.jobs(compute, settings))


def draw_components(ax: Any, frame: pd.DataFrame) -> None:
    """Draw the number of components against λ."""
    draw_lines(
        ax,
        frame,
        x="alpha",
        xlabel="weight of the penalty (alpha, the paper's λ)",
        ylabel="components, in % of the seen classes",
        metric="components_share",
    )
    ax.set_xscale("log", base=2)
    ax.set_ylim(bottom=0)
