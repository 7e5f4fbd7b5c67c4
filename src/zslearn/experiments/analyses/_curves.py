"""Seen–unseen accuracy curves of several methods, from the records of runs (section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._palette import method_style
from zslearn.experiments.analyses._display import AnalysisDisplay, plain_legend
from zslearn.experiments.analyses._from_records import (
    RecordOptions,
    benchmark_records,
    of_one_protocol,
)
from zslearn.metrics import harmonic_mean

METHODS = ("ESZSL", "Gaussian EXEM")
_MARKS = {"without": ("o", "without calibration"), "calibrated": ("D", "calibrated")}


def analyze_curves(
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    methods: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    **options: Unpack[RecordOptions],
) -> pd.DataFrame:
    """Collect the curves of methods in the generalized setting.

    Parameters
    ----------
    data : ZeroShotDataset or None
        What methods are run on, as by :func:`~zslearn.experiments.run_benchmark`, where `out` does
        not have their records. None: only the records that `runs` has.
    out : path
        Folder of the records.
    methods : str or sequence of str, optional
        Names of methods; by default two that are quick, or all that `runs` has.
    seeds : int or sequence of int, optional
        Which seeds; by default 0, or all that `runs` has.
    **options
        `runs`: folder of records that are only read; and how it runs, see :class:`RecordOptions`.

    Returns
    -------
    DataFrame
        One row per point: `run`, `dataset`, `split`, `method`, `seed`, `acc_unseen`, `acc_seen`,
        `bias` (NaN stands for −∞, or where a record lacks it), `harmonic`, `ausuc`, and `mark`:
        "without" at the factor 0, "calibrated" at the calibration factor, both where they are one
        point, else nothing.
    """
    records = benchmark_records(
        data,
        out,
        methods=methods or (None if "runs" in options else METHODS),
        seeds=seeds,
        settings=("gzsl",),
        **options,
    )
    curves = [record for record in records if record.get("curve", {}).get("acc_unseen")]
    parts = [_points(record) for record in of_one_protocol(curves)]
    if not parts:
        raise ValueError(
            "None of the records has a curve: run the generalized setting (zslearn bench)."
        )
    numbered = [part.assign(run=number) for number, part in enumerate(parts)]
    return pd.concat(numbered, ignore_index=True)


def _points(record: dict[str, Any]) -> pd.DataFrame:
    """The points of one record."""
    curve = record["curve"]
    unseen, seen = np.array(curve["acc_unseen"]), np.array(curve["acc_seen"])
    # Records of former versions have no factors.
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


class CurvesDisplay(AnalysisDisplay):
    """Pictures of seen–unseen curves, and of harmonic means against unseen accuracy.

    Of several seeds the curve of the first is drawn; areas in the legend are means over all, the
    best method first. A circle is without calibration, a diamond calibrated.
    """

    columns = ("run", "method", "seed", "acc_unseen", "acc_seen", "harmonic", "ausuc", "mark")
    panels = ("seen-unseen", "harmonic")

    def _draw(self, ax: Any, panel: str) -> None:
        y = "acc_seen" if panel == "seen-unseen" else "harmonic"
        runs = self.frame.drop_duplicates("run")
        areas = runs.groupby("method")["ausuc"].agg(["mean", "std"])
        for method in areas.sort_values("mean", ascending=False, kind="stable").index:
            part = self.frame[self.frame["method"] == method]
            part = part[part["run"] == part["run"].iloc[0]]
            area, spread = areas.loc[method, "mean"], areas.loc[method, "std"]
            label = f"{method} ({area:.3f}{'' if np.isnan(spread) else f' ± {spread:.3f}'})"
            style = method_style(str(method)).plot_options
            ax.plot(100 * part["acc_unseen"], 100 * part[y], label=label, **style)
            for name, (marker, _) in _MARKS.items():
                point = part[part["mark"].str.contains(name)]
                color = style["color"]
                ax.plot(100 * point["acc_unseen"], 100 * point[y], marker, color=color, ms=5)
        ax.set_xlabel("accuracy on images of unseen classes (%)")
        ax.set_ylabel(
            "accuracy on images of seen classes (%)" if y == "acc_seen" else "harmonic mean (%)"
        )
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        plain_legend(ax, title="AUSUC; circle: no factor, diamond: calibrated", title_fontsize=8)
