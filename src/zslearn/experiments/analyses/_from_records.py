"""Records of a benchmark that an analysis reads, or has computed where there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._names import same_features
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._records import whole_records
from zslearn.experiments._runs import run_benchmark
from zslearn.experiments.analyses._pieces import Say, chosen_methods, chosen_seeds


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
    """Whole records of methods, read from `runs` or run into `out`.

    Parameters
    ----------
    data : ZeroShotDataset or None
        What methods are run on; with `runs` only records of it are kept.
    out : path
        Where records are written.
    methods : str or sequence of str or None
        Names of methods; None: all that `runs` has.
    seeds : int or sequence of int or None
        Which seeds; None: 0, or all that `runs` has.
    settings : sequence of {"zsl", "gzsl"}
        Which settings.
    protocols : sequence of str or Protocol
        Under which each method is run.
    settings_of : mapping of str to sequence of str, optional
        Of a protocol, by its name, the settings to run where these are fewer.
    **options
        See :class:`RecordOptions`.

    Returns
    -------
    list of dict
        Without those of failed runs.
    """
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
