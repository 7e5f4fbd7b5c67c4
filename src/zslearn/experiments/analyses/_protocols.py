"""What a choice of protocol is worth: one part changed at a time, compared seed by seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._palette import method_style
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._records import numbers_of
from zslearn.experiments.analyses._display import AnalysisDisplay, plain_legend
from zslearn.experiments.analyses._from_records import RecordOptions, benchmark_records

METHODS = ("ESZSL",)
#: Metrics that are compared, and the setting they were tuned for.
COMPARED = {"per_class_accuracy": "zsl", "ausuc": "gzsl", "calibrated_harmonic": "gzsl"}
_LABELS = {
    "per_class_accuracy": "accuracy",
    "ausuc": "AUSUC",
    "calibrated_harmonic": "H calibrated",
}
BASE = "default"


def protocol_choices(n_seen: int | None = None, *, paper_grid: bool = False) -> list[Protocol]:
    """Protocols that differ from the default one in a single part.

    Parameters
    ----------
    n_seen : int, optional
        Number of seen classes: where five folds leave no class over, what is done with such
        classes is no choice.
    paper_grid : bool, default=False
        Whether the paper's grids are among them, which take long.

    Returns
    -------
    list of Protocol
        Three and ten folds, remaining classes never validated, the median distance of signatures
        over all classes, a tenth of the images held aside, factors as the folds give them.

    Examples
    --------
    >>> from zslearn.experiments.analyses import protocol_choices
    >>> [protocol.name for protocol in protocol_choices(150)][:3]
    ['three folds', 'ten folds', 'scale of all classes']
    """
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
    """Measure methods under protocols that differ from the default in one part each.

    Parameters
    ----------
    data : ZeroShotDataset or None
        What methods are run on where `out` does not have their records; None with `runs`.
    out : path
        Folder of the records.
    methods : str or sequence of str, optional
        Names of methods; by default "ESZSL", or all that `runs` has.
    seeds : int or sequence of int, optional
        Seeds of the folds; by default 0 and 1, or all that `runs` has.
    protocols : sequence of Protocol, optional
        What is compared with the default protocol; by default :func:`protocol_choices`.
    versions : mapping of str to ZeroShotDataset, optional
        The same data with another version of the split, by name.
    **options
        `runs`, and how it runs; see :class:`RecordOptions`.

    Returns
    -------
    DataFrame
        One row per method, choice and metric: the mean `difference` to the default protocol over
        the seeds that both have, its `spread` (standard deviation), `n_seeds`, the means
        `default` and `changed`.

    See Also
    --------
    compare_protocols : The same from records that are read already.
    """
    reading = options.get("runs") is not None
    n_seen = None if data is None else len(data.seen_classes)
    chosen = protocol_choices(n_seen) if protocols is None else list(protocols)
    taken = [protocol.name for protocol in chosen if protocol.name == BASE]
    if taken:
        raise ValueError(f"A protocol to compare cannot be called {BASE!r}.")
    common: dict[str, Any] = {
        "methods": methods or (None if reading else METHODS),
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
    """Compare protocols seed by seed.

    Parameters
    ----------
    records : DataFrame
        As :func:`~zslearn.experiments.read_records` gives it. Of the base protocol those with the
        grid "fast" count where there are several.
    base : str, default="default"
        What the others are compared with.

    Returns
    -------
    DataFrame
        See :func:`analyze_protocol`.
    """
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
