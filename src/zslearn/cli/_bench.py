"""`zslearn bench` and `zslearn table`."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from sklearn.exceptions import FitFailedWarning

from zslearn._utils._messages import plain
from zslearn.cli._data import add_data_options, load_named
from zslearn.cli._output import add_jobs, print_table, say, warnings_as_lines
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._xlsa17 import XLSA17
from zslearn.experiments._methods import METHODS, default_methods
from zslearn.experiments._protocol import GRIDS, PROTOCOLS
from zslearn.experiments._published import TABLES
from zslearn.experiments._ranks import save_critical_difference
from zslearn.experiments._records import failed_runs, grid_edges, read_records
from zslearn.experiments._render import FORMATS, render, save_table_plot
from zslearn.experiments._report._write import write_report
from zslearn.experiments._runs import run_benchmark
from zslearn.experiments._summary import compare_runs
from zslearn.experiments._tables import build_table
from zslearn.experiments.analyses._registry import (
    ANALYSES,
    Analysis,
    run_analysis,
    summarize_analysis,
)
from zslearn.experiments.analyses._sync import SYNC_FORMS
from zslearn.model_selection._cluster import on_cluster

# `zslearn analyze`.

#: Options that some analyses have, and these.
_RETUNED = ("seen-classes", "phantoms")


def add_parsers_analyze(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    names = "\n".join(f"  {name:<13} {found.title}" for name, found in ANALYSES.items())
    parser = commands.add_parser(
        "analyze",
        parents=[common],
        help="the paper's analyses on a data set",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.fill(
            "Compute one of the paper's analyses on a data set: print its table, and write the "
            "table (.csv), a record of each part and the pictures (.svg, .png). What is finished "
            "is not computed again. Hyper-parameters are chosen by leaving out seen classes.",
            width=79,
        )
        + f"\n\nanalyses:\n{names}",
    )
    parser.add_argument("analysis", choices=list(ANALYSES), metavar="NAME", help="see above")
    add_data_options(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("analysis"),
        metavar="FOLDER",
        help="where the table, the pictures and the records are written (default: %(default)s)",
    )
    parser.add_argument(
        "--runs",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="records of zslearn bench to read instead of computing any, for "
        + ", ".join(name for name, found in ANALYSES.items() if found.from_records)
        + "; DATA may then be left out",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=None,
        metavar="METHOD",
        help="which methods; for regressors: svr, krr, gp, mlp (default: a few that are quick)",
    )
    parser.add_argument(
        "--seeds",
        "--seed",
        nargs="+",
        type=int,
        default=None,
        metavar="SEED",
        help="with several, tables and pictures show mean and spread (default: 0)",
    )
    parser.add_argument(
        "--grid",
        choices=GRIDS,
        default="quick",
        help="the values to search; quick is fast with at most three of each (default: quick)",
    )
    parser.add_argument(
        "--folds", type=int, default=None, metavar="N", help="folds over the seen classes"
    )
    parser.add_argument(
        "--retune",
        action="store_true",
        help=f"tune for each setting, not once ({', '.join(_RETUNED)})",
    )
    parser.add_argument(
        "--forms",
        nargs="+",
        choices=list(SYNC_FORMS),
        default=None,
        metavar="FORM",
        help=f"forms of SynC to compare (penalties): {', '.join(SYNC_FORMS)}",
    )
    parser.add_argument(
        "--metric",
        choices=["per_class_accuracy", "ausuc", "calibrated_harmonic"],
        default=None,
        help="what ranks are of (ranks)",
    )
    add_jobs(parser)
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep what is finished (default), or begin anew",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compute the analysis, print its table and say where all is."""
    analysis = ANALYSES[arguments.analysis]
    options = _options(arguments, analysis)
    data = None
    if arguments.name is not None or arguments.features_file is not None or not arguments.runs:
        data = load_named(arguments)
    with warnings_as_lines():
        # Those that were asked for; the records of another folder are of any split.
        splits = None if data is None or arguments.split is None else list(data.splits)
        frame, paths = run_analysis(analysis, data, arguments.out, splits=splits, **options)
    _print(analysis, frame, "" if data is None else data.name)
    for path in paths:
        print(f"wrote {path}", file=sys.stderr)
    for table in analysis.tables:
        print(f"zslearn: see also: zslearn table {arguments.out} --like {table}", file=sys.stderr)
    return 0


def _options(arguments: argparse.Namespace, analysis: Analysis) -> dict[str, Any]:
    """The words as options of the analysis; those that it does not have are refused."""
    name = analysis.name
    if arguments.runs is not None and not analysis.from_records:
        raise ValueError(f"--runs is not for {name}, which computes what records do not hold.")
    if arguments.retune and name not in _RETUNED:
        raise ValueError(f"--retune is for {' and '.join(_RETUNED)}, not for {name}.")
    if arguments.metric is not None and name != "ranks":
        raise ValueError(f"--metric is for ranks, not for {name}.")
    if arguments.forms is not None and name != "penalties":
        raise ValueError(f"--forms is for penalties, not for {name}.")
    options: dict[str, Any] = {
        "resume": arguments.resume,
        "progress": True,
        "n_jobs": arguments.jobs,
        "say": say,
        "grid": arguments.grid,
        "command": shlex.join(["zslearn", *map(plain, arguments.words)]),
    }
    named = {
        "methods": arguments.methods,
        "seeds": arguments.seeds,
        "runs": arguments.runs,
        "n_splits": arguments.folds,
        "retune": arguments.retune or None,
        "metric": arguments.metric,
        "forms": arguments.forms,
    }
    return options | {key: value for key, value in named.items() if value is not None}


def _print(analysis: Analysis, frame: pd.DataFrame, dataset: str) -> None:
    where = f" of {dataset}" if dataset else ""
    print_table(summarize_analysis(frame), title=f"{analysis.name}{where}: {analysis.title}")


# `zslearn report`.


def add_parsers_report(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report",
        parents=[common],
        help="records as one page to look at",
        description="Write records as one page for a browser, which needs no network: the main "
        "numbers beside the published ones, curves, ranks, a page for each method and each class, "
        "what the searches found, times, versions and the command that makes it again. Only reads "
        "records.",
    )
    parser.add_argument("runs", type=Path, metavar="RUNS", help="the folder of the records")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    parser.add_argument(
        "--title", default=None, help="what stands above (default: the data sets are named)"
    )
    parser.set_defaults(run=run_report)


def run_report(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    path = write_report(arguments.runs, arguments.out, title=arguments.title)
    print(f"wrote {path}")
    return 0


#: What the columns of the results are.
_MEANINGS = {
    "accuracy": "per class, unseen among unseen",
    "H": "harmonic mean without calibration",
    "S cal.": "seen",
    "U cal.": "unseen",
    "H cal.": "their harmonic mean, calibrated",
}


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add both commands to the parser."""
    bench = commands.add_parser(
        "bench",
        parents=[common],
        help="tune and measure methods on a data set",
        description="Tune methods by leaving out seen classes, measure them on the test images, "
        "write one record for each, and print a table of the results. What is finished is not "
        "computed again; what was stopped goes on where it was. A method that fails is named at "
        "the end, and tried again the next time.",
        epilog="`zslearn bench imagenet` makes the paper's tables on ImageNet: see its --help.",
    )
    add_data_options(bench)
    bench.add_argument(
        "--methods",
        nargs="+",
        default=None,
        metavar="METHOD",
        help=f"which methods (default: {', '.join(default_methods())}); there are also: "
        + ", ".join(name for name, method in METHODS.items() if not method.in_default)
        + "; or classes of your own, as module:Class",
    )
    bench.add_argument(
        "--setting",
        nargs="+",
        choices=["zsl", "gzsl"],
        default=["zsl", "gzsl"],
        help="conventional, generalized, or both (default: both)",
    )
    _add_protocol(bench)
    bench.add_argument(
        "--out",
        type=Path,
        default=Path("runs"),
        metavar="FOLDER",
        help="where records are written (default: %(default)s)",
    )
    bench.add_argument(
        "--seeds",
        "--seed",
        nargs="+",
        type=int,
        default=[0],
        metavar="SEED",
        help="each decides the folds and what a method leaves to chance; with several, the table "
        "shows mean and spread (default: 0)",
    )
    add_jobs(bench, what="methods, or folds of one")
    bench.add_argument(
        "--cluster",
        default=None,
        metavar="ADDRESS",
        help="compute folds on the workers of a dask cluster, by the address of its scheduler, "
        "such as tcp://head:8786; --jobs then does not count",
    )
    bench.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep what is finished (default), or begin anew",
    )
    bench.set_defaults(run=run_bench)

    _add_table(commands, common)


def _add_protocol(bench: argparse.ArgumentParser) -> None:
    """Add the words that say how methods are tuned."""
    bench.add_argument(
        "--protocol",
        choices=PROTOCOLS,
        default="default",
        help="how methods are tuned: ours, or as in the authors' program, with their class orders "
        "and images held aside (default: %(default)s)",
    )
    bench.add_argument(
        "--authors",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="where the authors' files are, for --protocol authors (default: authors in the "
        "folder named by ZSLEARN_DATA)",
    )
    bench.add_argument(
        "--grid",
        choices=GRIDS,
        default=None,
        help="the values to search; paper is for ResNet's features, paper-googlenet for "
        "GoogLeNet's, quick is a part of fast (default: fast; with --protocol authors, paper)",
    )


def _add_table(commands: Any, common: argparse.ArgumentParser) -> None:
    table = commands.add_parser(
        "table",
        parents=[common],
        help="records as a table beside the published numbers",
        description="Records in the layout of one of the paper's tables: ours, published and the "
        "difference; or ours alone, for data that the paper does not have. Only reads records.",
    )
    table.add_argument("runs", type=Path, metavar="RUNS", help="the folder of the records")
    table.add_argument(
        "--like", choices=list(TABLES), default="main", help="the layout (default: %(default)s)"
    )
    table.add_argument("--format", choices=FORMATS, default="terminal", help="(default: terminal)")
    table.add_argument("--features", default=None, metavar="NAME", help="only these features")
    table.add_argument(
        "--split-version", default=None, metavar="VERSION", help="only this version of a split"
    )
    table.add_argument("--protocol", default=None, metavar="NAME", help="only this protocol")
    table.add_argument("--grid", default=None, metavar="NAME", help="only what was tuned on this")
    table.add_argument("--all", action="store_true", help="also rows and columns that we lack")
    table.add_argument(
        "--picture",
        type=Path,
        default=None,
        metavar="FILE",
        help="also draw mean ranks with the critical difference",
    )
    table.add_argument(
        "--plot", type=Path, default=None, metavar="FILE", help="also draw ours beside published"
    )
    table.set_defaults(run=run_table)


def run_bench(arguments: argparse.Namespace) -> int:
    """Run the benchmark, print its results, and say where the records are and what failed."""
    methods = default_methods() if arguments.methods is None else arguments.methods
    if any(":" in name for name in methods):
        # A module of one's own lies where the command is given.
        sys.path.insert(0, os.getcwd())
    if arguments.authors is not None and arguments.protocol != "authors":
        raise ValueError("--authors is for --protocol authors.")
    _check_hold_out(arguments)
    data = load_named(arguments)
    on_workers = arguments.cluster is not None
    with (
        on_cluster(arguments.cluster) if on_workers else nullcontext(),
        warnings.catch_warnings(),
    ):
        # Said below, with the reasons.
        warnings.filterwarnings("ignore", "Runs failed", FitFailedWarning)
        paths = run_benchmark(
            data,
            methods,
            arguments.out,
            settings=arguments.setting,
            splits=arguments.split,
            seeds=arguments.seeds,
            protocol=arguments.protocol,
            authors=arguments.authors,
            grid=arguments.grid,
            resume=arguments.resume,
            n_jobs=-1 if on_workers else arguments.jobs,
            progress=True,
            command=shlex.join(["zslearn", *map(plain, arguments.words)]),
            say=say,
        )
    failed = failed_runs(paths)
    records = read_records(paths)
    _print_results(records, data)
    _name_edges(grid_edges(paths), records)
    n_records = len(paths) - len(failed)
    print(
        f"zslearn: {n_records} record{'' if n_records == 1 else 's'} in {arguments.out}; "
        f"see also: zslearn table {arguments.out}",
        file=sys.stderr,
    )
    _name_failures(failed, paths, tracebacks=getattr(arguments, "debug", False))
    return 0 if failed.empty else 1


def _check_hold_out(arguments: argparse.Namespace) -> None:
    """Refuse the generalized setting on splits that cannot have it, before data is read."""
    if "gzsl" not in arguments.setting or arguments.hold_out is not None:
        return
    without = [split for split in arguments.split or () if split != "ns"]
    if arguments.name in XLSA17 and without:
        raise ValueError(
            f"{arguments.name}: {', '.join(without)} has no test images of seen classes, which the "
            "generalized setting needs: hold some out (--hold-out 0.2), or measure the "
            "conventional one alone (--setting zsl)."
        )


def _print_results(records: pd.DataFrame, data: ZeroShotDataset) -> None:
    """Print a row per method; on standard output, for a person or a pipe."""
    if records.empty:
        return
    summary = compare_runs(records)
    splits = records["split"].unique()
    of_split = f"version {records['split_version'].iloc[0]}" if len(splits) == 1 else ""
    protocol = [f"protocol {name}" for name in records["protocol"].unique() if name != "default"]
    parts = [data.name, of_split, *protocol, summary.runs]
    print_table(summary.cells(), title=f"Results on {', '.join(part for part in parts if part)}")
    shown = summary.mean.columns
    meanings = [f"{name}: {meaning}" for name, meaning in _MEANINGS.items() if name in shown]
    print(textwrap.fill(f"{'; '.join(meanings)}.", 80))
    for note in summary.notes:
        print(textwrap.fill(note, 80))


def _label(run: dict[Hashable, Any], several: Sequence[str]) -> str:
    """Which run, as far as runs differ."""
    where = [f"seed {run[name]}" if name == "seed" else run[name] for name in several]
    return ", ".join([run["method"], run["setting"], *where])


def _several(runs: pd.DataFrame) -> list[str]:
    """What tells runs of one method and setting apart."""
    return [name for name in ("split", "seed") if runs[name].nunique() > 1]


def _name_edges(edges: pd.DataFrame, records: pd.DataFrame) -> None:
    """Print which hyper-parameters ended at the edge of a grid, a line per run."""
    further = {"smallest": "smaller", "largest": "larger"}
    for _, run in edges.groupby("file", sort=False):
        rows = run.to_dict("records")
        at = [
            f"{row['hyper_parameter']}={row['value']} ({row['edge']}; try {further[row['edge']]})"
            for row in rows
        ]
        label = _label(rows[0], _several(records))
        line = plain(f"{label}: {', '.join(at)}")
        print(f"zslearn: at the edge of its grid: {line}", file=sys.stderr)


def _name_failures(failed: pd.DataFrame, paths: Sequence[Path], *, tracebacks: bool) -> None:
    """Print what failed, on standard error."""
    several = _several(failed)
    for run in failed.to_dict("records"):
        if tracebacks:
            print(plain(run["traceback"], lines=True), file=sys.stderr)
        line = f"{_label(run, several)}: {run['type']}: {run['reason']}"
        print(f"zslearn: failed: {line}", file=sys.stderr)
    if len(failed):
        print(
            f"zslearn: {len(failed)} of {len(paths)} runs failed; the same command tries them "
            "again",
            file=sys.stderr,
        )


def run_table(arguments: argparse.Namespace) -> int:
    """Print the table."""
    shown: Literal["all", "ours"] = "all" if arguments.all else "ours"
    records = read_records(arguments.runs)
    if records.empty:
        failed = len(failed_runs(arguments.runs))
        why = f"all {failed} runs failed" if failed else "zslearn bench writes them"
        raise ValueError(f"There are no records in {arguments.runs}; {why}.")
    table = build_table(
        records,
        arguments.like,
        features=arguments.features,
        split_version=arguments.split_version,
        protocol=arguments.protocol,
        grid=arguments.grid,
        rows=shown,
        columns=shown,
    )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(render(table, arguments.format, width=width))
    if arguments.picture is not None:
        ours = [ranking for (_, side), ranking in table.rankings.items() if side == "ours"]
        if not ours:
            raise ValueError("There is nothing to rank: no column has two of our methods.")
        save_critical_difference(ours[0].mean_ranks, ours[0].critical_difference, arguments.picture)
        print(f"wrote {arguments.picture}", file=sys.stderr)
    if arguments.plot is not None:
        save_table_plot(table, arguments.plot)
        print(f"wrote {arguments.plot}", file=sys.stderr)
    return 0
