"""Records of a benchmark that an analysis reads, or has computed where there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import pandas as pd

from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.experiments._names import method_style, same_features
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._ranks import (
    Ranking,
    draw_critical_difference,
    picture_size,
    rank_methods,
)
from zslearn.experiments._records import numbers_of, whole_records
from zslearn.experiments._runs import run_benchmark
from zslearn.experiments.analyses._display import AnalysisDisplay, plain_legend
from zslearn.experiments.analyses._pieces import Say, chosen_methods, chosen_seeds
from zslearn.metrics._accuracy import harmonic_mean


class RecordOptions(TypedDict, total=False):
    """How an analysis of records gets them.

    `runs`: folder of records that are only read, whatever they were run with; nothing is computed
    then. `grid` (by default "quick"), `n_splits`, `resume`, `progress`, `n_jobs`, `say` and
    `command` are those of :func:`~zslearn.experiments.run_benchmark`.
    """

    runs: Path | str | None
    grid: str
    n_splits: int
    resume: bool
    progress: bool
    n_jobs: int | None
    say: Say
    command: str | None


def benchmark_records(
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    methods: str | Sequence[str] | None,
    seeds: int | Sequence[int] | None,
    settings: Sequence[str] = ("zsl", "gzsl"),
    protocols: Sequence[str | Protocol] = ("default",),
    settings_of: Mapping[str, Sequence[str]] | None = None,
    **options: Unpack[RecordOptions],
) -> list[dict[str, Any]]:
    """Whole records of methods, read from `runs` or run into `out`."""
    names = None if methods is None else chosen_methods(methods)
    numbers = None if seeds is None else chosen_seeds(seeds)
    runs = options.get("runs")
    if runs is not None:
        found = whole_records(runs)
    else:
        if data is None or not names:
            raise ValueError("Without data or methods there is nothing to run: name records.")
        kept: dict[str, Any] = {key: options[key] for key in _PASSED if key in options}  # type: ignore[literal-required]
        paths: list[Path] = []
        for protocol in protocols:
            name = protocol if isinstance(protocol, str) else protocol.name
            # A protocol whose grid is what it changes keeps it.
            grid = getattr(protocol, "grid", "fast")
            paths += run_benchmark(
                data,
                names,
                out,
                settings=(settings_of or {}).get(name, settings),
                seeds=numbers or (0,),
                protocol=protocol,
                grid=options.get("grid", "quick") if grid == "fast" else grid,
                # A protocol of one's own has its own folds.
                n_splits=options.get("n_splits") if name == "default" else None,
                **kept,
            )
        found = whole_records(paths)
    found = [record for record in found if "failed" not in record and record["setting"] in settings]
    if data is not None:
        found = [record for record in found if _is_of(record, data)]
    if names is not None:
        found = [record for record in found if record["method"] in names]
    if numbers is not None:
        found = [record for record in found if record.get("seed") in numbers]
    if not found:
        where = out if runs is None else runs
        raise ValueError(f"There are no such records in {where}.")
    return found


def of_one_protocol(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of the default protocol where there are any, each method with one grid.

    Of several grids of a method "fast" is kept, or the first.
    """
    default = [record for record in records if record.get("protocol", "default") == "default"]
    found = default or list(records)
    grids: dict[str, list[str]] = {}
    for record in found:
        grids.setdefault(record["method"], []).append(record.get("grid", ""))
    chosen = {name: "fast" if "fast" in own else own[0] for name, own in grids.items()}
    return [record for record in found if record.get("grid", "") == chosen[record["method"]]]


def _is_of(record: dict[str, Any], data: ZeroShotDataset) -> bool:
    """Whether a record is of a data set: its split, features and kind of signatures too."""
    own = (data.name, data.split, data.semantic)
    found = (record["dataset"], record["split"], record.get("semantic", ""))
    return found == own and same_features(record["features"], data.features)


_PASSED = ("resume", "progress", "n_jobs", "say", "command")

# Seen–unseen accuracy curves of several methods, from the records of runs (section 4.4).

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
    """Collect the curves of methods in the generalized setting."""
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


# What a choice of protocol is worth: one part changed at a time, compared seed by seed.

METHODS_PROTOCOLS = ("ESZSL",)
#: Metrics that are compared, and the setting they were tuned for.
COMPARED = {"per_class_accuracy": "zsl", "ausuc": "gzsl", "calibrated_harmonic": "gzsl"}
_LABELS = {
    "per_class_accuracy": "accuracy",
    "ausuc": "AUSUC",
    "calibrated_harmonic": "H calibrated",
}
BASE = "default"


def protocol_choices(n_seen: int | None = None, *, paper_grid: bool = False) -> list[Protocol]:
    """Protocols that differ from the default one in a single part."""
    dropped = [Protocol("remainder dropped", remainder="drop")]
    return [
        Protocol("three folds", 3),
        Protocol("ten folds", 10),
        *(dropped if n_seen is None or n_seen % 5 else []),
        Protocol("scale of all classes", signature_scale="all"),
        Protocol("a tenth held aside", held_out=0.1),
        Protocol("factor not rescaled", rescale_bias=False),
        *([Protocol("paper grid", grid="paper")] if paper_grid else []),
    ]


def analyze_protocol(
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    methods: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    protocols: Sequence[Protocol] | None = None,
    versions: Mapping[str, ZeroShotDataset] | None = None,
    **options: Unpack[RecordOptions],
) -> pd.DataFrame:
    """Measure methods under protocols that differ from the default in one part each."""
    reading = options.get("runs") is not None
    n_seen = None if data is None else len(data.seen_classes)
    chosen = protocol_choices(n_seen) if protocols is None else list(protocols)
    taken = [protocol.name for protocol in chosen if protocol.name == BASE]
    if taken:
        raise ValueError(f"A protocol to compare cannot be called {BASE!r}.")
    common: dict[str, Any] = {
        "methods": methods or (None if reading else METHODS_PROTOCOLS),
        "seeds": (None if reading else (0, 1)) if seeds is None else seeds,
    }
    # In the conventional setting nothing is held aside and no factor is found.
    alike = [
        p.name for p in chosen if p.definition("zsl")[1:] == Protocol(BASE).definition("zsl")[1:]
    ]
    only = {p.name: ("gzsl",) for p in chosen if p.name in alike and p.grid == "fast"}
    records = benchmark_records(
        data, out, protocols=[BASE, *chosen], settings_of=only, **common, **options
    )
    numbers = numbers_of(records)
    for name, other in ({} if reading else versions or {}).items():
        found = numbers_of(
            benchmark_records(other, Path(out) / "versions" / name, **common, **options)
        )
        numbers = pd.concat([numbers, found.assign(protocol=f"split version {name}")])
    return compare_protocols(numbers)


def compare_protocols(records: pd.DataFrame, *, base: str = BASE) -> pd.DataFrame:
    """Compare protocols seed by seed."""
    if base not in set(records["protocol"]):
        raise ValueError(f"There are no records of the protocol {base!r} to compare with.")
    kept = records[
        [COMPARED.get(m) == s for m, s in zip(records.metric, records.setting, strict=True)]
    ]
    keys = ["dataset", "split", "features", "semantic", "method", "metric"]
    rows = []
    for key, part in kept.groupby(keys, sort=False, dropna=False):
        of_base = part[part["protocol"] == base]
        if of_base["grid"].nunique() > 1:
            of_base = of_base[of_base["grid"] == "fast"]
        before = of_base.groupby("seed")["value"].mean()
        for name, changed in part[part["protocol"] != base].groupby("protocol", sort=False):
            after = changed.groupby("seed")["value"].mean()
            both = after.index.intersection(before.index)
            if not len(both):
                continue
            apart = after[both] - before[both]
            rows.append(
                {
                    **dict(zip(keys, key, strict=True)),
                    "choice": name,
                    "difference": apart.mean(),
                    "spread": apart.std(ddof=1) if len(both) > 1 else np.nan,
                    "n_seeds": len(both),
                    "default": before[both].mean(),
                    "changed": after[both].mean(),
                }
            )
    if not rows:
        raise ValueError(f"No other protocol has a seed in common with {base!r}.")
    return pd.DataFrame(rows)


class ProtocolDisplay(AnalysisDisplay):
    """Pictures of what each choice of protocol is worth: accuracy, AUSUC or calibrated H."""

    columns = ("method", "choice", "metric", "difference", "spread")
    panels = tuple(COMPARED)
    size = (7.4, 4.6)

    def _draw(self, ax: Any, panel: str) -> None:
        frame = self.frame[self.frame["metric"] == panel]
        if frame.empty:
            raise ValueError(f"There are no numbers of {panel}.")
        methods = list(dict.fromkeys(frame["method"]))
        choices = list(dict.fromkeys(frame["choice"]))
        height = 0.8 / len(methods)
        for i, method in enumerate(methods):
            part = frame[frame["method"] == method].set_index("choice").reindex(choices)
            style = method_style(method)
            ax.barh(
                np.arange(len(choices)) + (i - (len(methods) - 1) / 2) * height,
                100 * part["difference"],
                height,
                xerr=100 * part["spread"].fillna(0.0),
                color=style.color,
                hatch="//" if style.line == "dashed" else "",
                edgecolor="white",
                error_kw={"elinewidth": 1, "capsize": 2},
                label=method,
            )
        ax.axvline(0, color="0.3", linewidth=0.8)
        ax.set_yticks(range(len(choices)), choices, parse_math=False)
        ax.invert_yaxis()
        ax.set_xlabel(f"{_LABELS[panel]}: difference to the default protocol (points)")
        plain_legend(ax)


# Methods by their ranks over data sets, splits and seeds, from records (section 4.1).

METHODS_RANKING = ("ESZSL", "CCA", "Gaussian EXEM")
#: Metrics that methods are ranked by, and the setting they were tuned for.
RANKED = {"per_class_accuracy": "zsl", "ausuc": "gzsl", "calibrated_harmonic": "gzsl"}
_COLUMN = ["dataset", "split", "features", "semantic", "seed"]


def analyze_ranks(
    data: ZeroShotDataset | None,
    out: Path | str,
    *,
    methods: str | Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    metric: str = "per_class_accuracy",
    alpha: float = 0.05,
    **options: Unpack[RecordOptions],
) -> pd.DataFrame:
    """Rank methods on every data set, split and seed, with the Friedman test.

    Seeds of one split share its images and classes. They say how stable an order is on that split;
    they are no further data sets, so that with one split the test speaks of folds alone.
    """
    if metric not in RANKED:
        raise ValueError(f"Methods are ranked by {', '.join(RANKED)}, not by {metric!r}.")
    reading = options.get("runs") is not None
    records = benchmark_records(
        data,
        out,
        methods=methods or (None if reading else METHODS_RANKING),
        seeds=(None if reading else (0, 1, 2)) if seeds is None else seeds,
        settings=(RANKED[metric],),
        **options,
    )
    values = rankable(numbers_of(of_one_protocol(records)), metric)
    ranking = rank_methods(values, alpha=alpha)
    return ranks_frame(ranking, values, metric)


def rankable(records: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Numbers of records as a row per method and a column per data set, split and seed."""
    kept = records[records["metric"] == metric]
    twice = kept.duplicated(["method", *_COLUMN], keep=False)
    if twice.any():
        names = sorted(set(kept.loc[twice, "method"]))
        raise ValueError(
            f"There are several records of one run, of {', '.join(names[:3])}: rank those of one "
            "folder, version and grid."
        )
    return kept.pivot(index="method", columns=_COLUMN, values="value")


def ranks_frame(ranking: Ranking, values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A ranking as a table."""
    order = ranking.mean_ranks.index
    return pd.DataFrame(
        {
            "method": order,
            "mean_rank": ranking.mean_ranks.to_numpy(),
            "mean": values.loc[order].mean(axis=1).to_numpy(),
            "n_columns": ranking.n_columns,
            "statistic": ranking.statistic,
            "pvalue": ranking.pvalue,
            "critical_difference": ranking.critical_difference,
            "alpha": ranking.alpha,
            "metric": metric,
        }
    )


class RanksDisplay(AnalysisDisplay):
    """Picture of mean ranks on a line; bars join methods that do not differ."""

    columns = ("method", "mean_rank", "critical_difference")

    def _size(self) -> tuple[float, float]:
        ranks = self.frame.set_index("method")["mean_rank"]
        return picture_size(ranks, float(self.frame["critical_difference"].iloc[0]))

    def _draw(self, ax: Any, panel: str) -> None:
        ranks = self.frame.set_index("method")["mean_rank"]
        draw_critical_difference(ax, ranks, float(self.frame["critical_difference"].iloc[0]))
