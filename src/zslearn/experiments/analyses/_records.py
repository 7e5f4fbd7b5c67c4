"""Analyses of benchmark records: seen–unseen curves and the effect of the protocol.

`curves` (Section 4.4 of the paper) collects seen–unseen accuracy curves. `protocol` changes one
part of the protocol at a time and compares the results seed by seed. Without records, both run a
benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from zslearn.experiments._names import method_style
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._records import numbers_of
from zslearn.experiments._summary import chosen_grids
from zslearn.experiments.analyses._drawing import bar_options, grouped_bars, plain_legend
from zslearn.experiments.analyses._jobs import JobRunner
from zslearn.metrics import harmonic_mean

BASE = "default"
#: Metrics to compare → the setting they are tuned for, and their label.
COMPARED = {
    "per_class_accuracy": ("zsl", "accuracy"),
    "ausuc": ("gzsl", "AUSUC"),
    "calibrated_harmonic": ("gzsl", "H calibrated"),
}
_PROBLEM = ["dataset", "split", "features", "semantic"]


def kind_order(kind: str) -> tuple[bool, bool, str]:
    """Sort key of kinds of signatures, as in the paper: words, the hierarchy, both."""
    return " + " in kind, kind == "hie", kind


def of_one_protocol(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of the default protocol if there are any, with one grid per method."""
    default = [record for record in records if record.get("protocol", BASE) == BASE]
    found = default or list(records)
    chosen = chosen_grids((record["method"], record.get("grid", "")) for record in found)
    return [record for record in found if record.get("grid", "") == chosen[record["method"]]]


# Curves.


def collect_curves(runner: JobRunner) -> pd.DataFrame:
    """Collect the seen–unseen curves of methods."""
    records = runner.read(settings=("gzsl",))
    curves = [record for record in records if record.get("curve", {}).get("acc_unseen")]
    parts = [_points(record) for record in of_one_protocol(curves)]
    if not parts:
        raise ValueError(
            "None of the records has a curve: run the generalized setting (zslearn bench)."
        )
    numbered = [part.assign(run=number) for number, part in enumerate(parts)]
    return pd.concat(numbered, ignore_index=True)


def _points(record: dict[str, Any]) -> pd.DataFrame:
    """The points of the curve of a record."""
    curve = record["curve"]
    unseen, seen = np.array(curve["acc_unseen"]), np.array(curve["acc_seen"])
    factors = curve.get("bias") or [None] * len(unseen)
    bias = np.array([np.nan if b is None else b for b in factors], dtype=float)
    marks = np.full(len(bias), "", dtype=object)
    metrics = record["metrics"]
    for name, prefix in (("without", ""), ("calibrated", "calibrated_")):
        point = [metrics.get(f"{prefix}{side}") for side in ("unseen", "seen")]
        if None not in point:
            apart = np.hypot(unseen - point[0], seen - point[1])
            marks[int(apart.argmin())] += name if not marks[int(apart.argmin())] else f" {name}"
    return pd.DataFrame(
        {
            "dataset": record["dataset"],
            "split": record["split"],
            "method": record["method"],
            "seed": record.get("seed"),
            "acc_unseen": unseen,
            "acc_seen": seen,
            "bias": bias,
            "harmonic": harmonic_mean(seen, unseen),
            "ausuc": record["metrics"].get("ausuc", np.nan),
            "mark": marks,
        }
    )


def draw_curves(ax: Any, frame: pd.DataFrame, *, y: str, ylabel: str) -> None:
    """Draw seen–unseen curves, or harmonic means against unseen accuracy.

    Curves belong to the first seed; areas in the legend are means over all, best method first.
    """
    runs = frame.drop_duplicates("run")
    areas = runs.groupby("method")["ausuc"].agg(["mean", "std"])
    for method in areas.sort_values("mean", ascending=False, kind="stable").index:
        part = frame[frame["method"] == method]
        part = part[part["run"] == part["run"].iloc[0]]
        area, deviation = areas.loc[method, "mean"], areas.loc[method, "std"]
        label = f"{method} ({area:.3f}{'' if np.isnan(deviation) else f' ± {deviation:.3f}'})"
        style = method_style(str(method)).plot_options
        ax.plot(100 * part["acc_unseen"], 100 * part[y], label=label, **style)
        for name, marker in (("without", "o"), ("calibrated", "D")):
            point = part[part["mark"].str.contains(name)]
            x = 100 * point["acc_unseen"]
            ax.plot(x, 100 * point[y], marker, color=style["color"], ms=5)
    ax.set(xlabel="accuracy on images of unseen classes (%)", ylabel=ylabel)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    plain_legend(ax, title="AUSUC; circle: factor 0, diamond: calibrated", title_fontsize=8)


# Protocols.


def vary_protocol(runner: JobRunner) -> pd.DataFrame:
    """Measure methods under protocols that change one part of the default protocol."""
    both, generalized = ("zsl", "gzsl"), ("gzsl",)
    choices = {
        Protocol("three folds", 3): both,
        Protocol("ten folds", 10): both,
        Protocol("remainder dropped", remainder="drop"): both,
        Protocol("scale of all classes", signature_scale="all"): both,
        Protocol("a tenth held out", held_out=0.1): generalized,
        Protocol("factor not rescaled", rescale_bias=False): generalized,
    }
    if runner.data is not None and len(runner.data.seen_classes) % 5 == 0:
        choices = {p: settings for p, settings in choices.items() if p.remainder == "spread"}
    runs = [record for record in runner.read(protocols=choices) if "analysis" not in record]
    return compare_protocols(numbers_of(runs))


def compare_protocols(records: pd.DataFrame) -> pd.DataFrame:
    """Compare protocols seed by seed."""
    if BASE not in set(records["protocol"]):
        raise ValueError(f"There are no records of the protocol {BASE!r} to compare with.")
    pairs = zip(records.metric, records.setting, strict=True)
    kept = records[[m in COMPARED and COMPARED[m][0] == setting for m, setting in pairs]]
    keys = [*_PROBLEM, "method", "metric"]
    rows = []
    for key, part in kept.groupby(keys, sort=False, dropna=False):
        is_base = part["protocol"] == BASE
        if part.loc[is_base, "grid"].nunique() > 1:
            part = part[~is_base | (part["grid"] == "fast")]
        means = part.pivot_table(index="seed", columns="protocol", values="value", sort=False)
        for name in means.columns.drop(BASE) if BASE in means else ():
            both = means[[BASE, name]].dropna()
            if both.empty:
                continue
            apart = both[name] - both[BASE]
            rows.append(
                {
                    **dict(zip(keys, key, strict=True)),
                    "choice": name,
                    "difference": apart.mean(),
                    "deviation": apart.std(),
                    "n_seeds": len(both),
                    "default": both[BASE].mean(),
                    "changed": both[name].mean(),
                }
            )
    if not rows:
        raise ValueError(f"No other protocol has a seed in common with {BASE!r}.")
    return pd.DataFrame(rows)


def draw_differences(ax: Any, frame: pd.DataFrame, *, metric: str) -> None:
    """Draw the change of a metric by each protocol, a bar per method."""
    frame = frame[frame["metric"] == metric]
    if frame.empty:
        raise ValueError(f"There are no numbers of {metric}.")
    frame = frame.rename(columns={"difference": "mean"}).set_index("choice")
    choices = list(dict.fromkeys(frame.index))
    thin = {"error_kw": {"elinewidth": 1}}
    bars = [
        (part, {**bar_options(str(method)), **thin, "label": method})
        for method, part in frame.groupby("method", sort=False)
    ]
    grouped_bars(ax, choices, bars, horizontal=True)
    ax.axvline(0, color="0.3", linewidth=0.8)
    ax.set_yticks(range(len(choices)), choices, parse_math=False)
    ax.invert_yaxis()
    ax.set_xlabel(f"{COMPARED[metric][1]}: difference from the default protocol (points)")
    plain_legend(ax)
