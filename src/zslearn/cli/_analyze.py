"""`zslearn analyze`."""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.cli._data import add_data_options, load_named
from zslearn.cli._options import add_jobs
from zslearn.cli._output import print_table, say, warnings_as_lines
from zslearn.experiments import GRIDS
from zslearn.experiments.analyses import (
    ANALYSES,
    SYNC_FORMS,
    Analysis,
    run_analysis,
    summarize_analysis,
)
from zslearn.utils import plain

#: Options that some analyses have, and these.
_RETUNED = ("seen-classes", "phantoms")


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
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
