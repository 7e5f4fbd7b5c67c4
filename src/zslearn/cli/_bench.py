"""`zslearn demo`, `bench`, `table`, `report` and `analyze`: run experiments and show records."""

from __future__ import annotations

import argparse
import shutil
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.exceptions import FitFailedWarning

from zslearn import experiments
from zslearn._utils._messages import plain
from zslearn.cli import _output as out
from zslearn.cli._data import DATA_OPTIONS, load_named
from zslearn.datasets import ZeroShotDataset, read_ranks
from zslearn.experiments import analyses
from zslearn.model_selection import GRIDS, METHODS, default_methods, on_cluster

#: Columns of the demo's table: metric → title.
_DEMO_COLUMNS = {
    "per_class_accuracy": "among unseen",
    "seen": "seen",
    "unseen": "unseen",
    "harmonic": "H",
    "calibrated_seen": "seen cal.",
    "calibrated_unseen": "unseen cal.",
    "calibrated_harmonic": "H cal.",
    "ausuc": "AUSUC",
    "seconds": "fit time (s)",
}
#: Options of only some analyses.
_ONLY_FOR = {
    "runs": tuple(name for name, found in analyses.ANALYSES.items() if found.read),
    "retune": ("seen-classes", "phantoms"),
    "shares": ("seen-classes", "phantoms"),
    "shots": ("shots",),
    "forms": ("penalties",),
}


def _run_demo(arguments: argparse.Namespace) -> None:
    """Fit three methods on the embedded glyphs and recognise letters without training images.

    The demo takes about half a minute. It prints a table and writes it, a figure and a report to a
    folder. For a demo on the last layer of an image network, see `zslearn demo imagenet --help`.
    """
    demo = experiments.run_demo(arguments.out, say=out.say, progress=True)
    table = demo.table[list(_DEMO_COLUMNS)].rename(columns=_DEMO_COLUMNS)
    width = max(shutil.get_terminal_size().columns, 20)
    out.result(f"{out.filled(demo.headline(), width)}\n")
    title = "Glyphs, split ns: per-class accuracies"
    out.print_table(table, title=title, name="results", values=demo.table)
    out.explained(experiments.explain_measures(["H", "AUSUC"]))
    out.result(f"\n{out.filled(demo.summary(), width)}\n")
    for path in demo.files:
        out.wrote(path)
    next_step = (
        f"Next: open {demo.files[-1]}. For your own images or tables: zslearn fit DATA "
        "--signatures CLASSES.csv, then zslearn serve model.zsl."
    )
    out.note(f"\n{out.filled(next_step, width)}")


def _run_bench(arguments: argparse.Namespace) -> int:
    """Tune methods on held-out seen classes, and evaluate them on the test images.

    Each run writes one record, and a table of the results is printed. Finished runs are kept, and
    interrupted runs resume. Failed runs are listed at the end, and repeated by the next call. For
    the paper's experiments on ImageNet, see `zslearn bench imagenet --help`.
    """
    methods = default_methods() if arguments.methods is None else arguments.methods
    out.import_from_working_folder(methods)
    if arguments.authors is not None and arguments.protocol != "authors":
        raise ValueError("--authors is for --protocol authors.")
    data = load_named(arguments)
    address, ranks = arguments.cluster, None
    if arguments.taxonomy is not None:
        # Labels of the data set may be numbers.
        label_of = {str(label): label for label in data.signatures.index}
        ranks = read_ranks(arguments.taxonomy).rename(index=label_of)
    with nullcontext() if address is None else on_cluster(address), warnings.catch_warnings():
        # Failures are reported below, with their reasons.
        warnings.filterwarnings("ignore", "Runs failed", FitFailedWarning)
        paths = experiments.run_benchmark(
            data,
            methods,
            arguments.out,
            settings=arguments.setting,
            splits=arguments.split,
            **out.values_of(arguments, "seeds", "protocol", "authors", "grid", "resume"),
            **out.values_of(arguments, "shots", "unlabelled", "subset", "inflation"),
            taxonomy=ranks,
            n_jobs=arguments.jobs if address is None else -1,
            progress=True,
            command=plain(arguments.command_line),
            say=out.say,
        )
    records, failed = experiments.read_records(paths), experiments.read_failures(paths)
    if not records.empty:
        _print_results(records, data)
    selection = experiments.read_test_selection(paths)
    if arguments.inflation and not selection.empty:
        found = selection.groupby(["method", "metric"], sort=False)
        table = found[["default", "held_out", "test"]].mean().reset_index("metric")
        out.print_table(
            table, title="By choice of hyper-parameters; test: not a result", name="inflation"
        )
    out.note(records=paths, failed=failed.drop(columns="traceback"))
    done = f"{out.counted(len(paths) - len(failed), 'record')} in {arguments.out}"
    _note(f"{done}; see also: zslearn table {arguments.out}")
    for run in failed.to_dict("records"):
        if arguments.debug:
            print(plain(run["traceback"], lines=True), file=sys.stderr)
        reason = f"{_name_run(run, failed)}: {run['type']}: {out.in_options(run['reason'])}"
        print(f"zslearn: failed: {plain(reason)}", file=sys.stderr)
    if len(failed):
        _note(f"{len(failed)} of {len(paths)} runs failed; run the same command to retry")
    return 0 if failed.empty else 1


def _note(text: str) -> None:
    """Say what was done on standard error, so that results can be piped."""
    out.say(f"zslearn: {text}", "")


def _print_results(records: pd.DataFrame, data: ZeroShotDataset) -> None:
    """Print the results on standard output, a row per method."""
    summary = experiments.summarize_runs(records)
    version = records["split_version"].iloc[0] if records["split"].nunique() == 1 else None
    protocol = [f"protocol {name}" for name in records["protocol"].unique() if name != "default"]
    parts = [data.name, f"version {version}" if version else "", *protocol, summary.runs]
    title = f"Results on {', '.join(part for part in parts if part)}"
    out.print_table(summary.cells(), title=title, name="results", values=summary.mean)
    out.note(deviation=summary.deviation, verdict=summary.verdict)
    for text in (experiments.explain_measures(map(str, summary.mean)), *summary.notes):
        out.explained(text)


def _name_run(run: dict[Any, Any], runs: pd.DataFrame) -> str:
    """Method and setting of a run; split and seed where the runs differ in them."""
    words = {"split": run["split"], "seed": f"seed {run['seed']}"}
    where = [word for name, word in words.items() if runs[name].nunique() > 1]
    return ", ".join([run["method"], run["setting"], *where])


def _run_table(arguments: argparse.Namespace) -> None:
    """Show records in the layout of one of the paper's tables: ours, published and the difference.

    Ours alone for data that the paper does not have. Only reads records.
    """
    records = experiments.read_records(arguments.runs)
    if records.empty:
        failures = len(experiments.read_failures(arguments.runs))
        why = f"all {failures} runs failed" if failures else "zslearn bench writes them"
        raise ValueError(f"There are no records in {arguments.runs}; {why}.")
    table = experiments.build_table(
        records,
        arguments.like,
        **out.values_of(arguments, "features", "split_version", "protocol", "grid"),
        only_ours=not arguments.all,
    )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    text = experiments.render(table, arguments.format, width=width)
    out.result(text, title=table.title, cells=table.cells(), notes=table.notes)


def _run_report(arguments: argparse.Namespace) -> None:
    """Write records as one HTML page, which works offline.

    The page shows the main numbers next to the published ones, seen–unseen curves, ranks, results
    of each method and class, search scores, times, versions and the command that reproduces them.
    """
    out.wrote(experiments.write_report(arguments.runs, arguments.out, title=arguments.title))


def _run_analyze(arguments: argparse.Namespace) -> None:
    """Run one of the paper's analyses on a data set.

    The table is printed, and written (.csv) with a record of each job and the plots (.svg, .png).
    Finished jobs are kept. Hyper-parameters are tuned on held-out seen classes.
    """
    analysis = analyses.ANALYSES[arguments.analysis]
    out.import_from_working_folder(arguments.methods or ())
    for option, names in _ONLY_FOR.items():
        if getattr(arguments, option) not in (None, False) and arguments.analysis not in names:
            raise ValueError(f"--{option} is for {', '.join(names)}, not for {arguments.analysis}.")
    options = out.values_of(arguments, "methods", "seeds", "runs", "shares", "shots", "forms")
    options |= {"n_splits": arguments.folds, "retune": arguments.retune or None}
    given = {name: value for name, value in options.items() if value is not None}
    data = None
    if arguments.name is not None or arguments.features_file is not None or not arguments.runs:
        data = load_named(arguments)
    frame, paths = analyses.run_analysis(
        arguments.analysis,
        data,
        arguments.out,
        # By default, records of all splits are read.
        splits=None if data is None or arguments.split is None else list(data.splits),
        **out.values_of(arguments, "resume", "grid"),
        progress=True,
        n_jobs=arguments.jobs,
        say=out.say,
        command=plain(arguments.command_line),
        **given,
    )
    title = f"{arguments.analysis}{f' of {data.name}' if data else ''}: {analysis.title}"
    summary = analyses.summarize_analysis(frame)
    numbers = analyses.summarize_analysis(frame, as_text=False)
    out.print_table(summary, title=title, name="results", values=numbers)
    out.explained(experiments.explain_measures(map(str, summary)))
    out.note(files=paths)
    for path in paths:
        _note(f"wrote {path}")
    for table in analysis.tables if arguments.runs is None else ():
        _note(f"see also: zslearn table {arguments.out} --like {table}")


_METHODS = (
    f"methods (default: {', '.join(default_methods())}); others: "
    f"{', '.join(name for name, method in METHODS.items() if not method.in_default)}; your own "
    "classes: module:Class"
)
_GRID = (
    "grid of hyper-parameters; paper is for ResNet features, paper-googlenet for GoogLeNet "
    "features, quick is a subset of fast (default: fast; with --protocol authors, paper)"
)
_UNLABELLED = (
    "adapt methods to the unlabelled test images of the unseen classes (zsl) or of all classes "
    "(gzsl): the transductive protocol"
)
_INFLATION = (
    "also record what choosing hyper-parameters on the test classes would give; no table of "
    "results reads these records, and zslearn report shows them apart"
)
_SHOTS = (
    "numbers of labelled test images of each unseen class to add to training, one run per number; "
    "the other images are tested. The seed determines the draw"
)
_CLUSTER = "address of a dask scheduler, to compute folds on its cluster; --jobs is ignored"
_PROTOCOL = "tuning protocol: the default, or that of the authors' program with its class orders"
_ANALYSES = "; ".join(f"{name}: {found.title}" for name, found in analyses.ANALYSES.items())
_RECORDS = (
    f"folder of records of zslearn bench to analyse instead of DATA, for "
    f"{', '.join(_ONLY_FOR['runs'])}"
)
_ANALYSED = (
    "methods, or your own classes as module:Class; for regressors: svr, krr, gp, mlp (default: a "
    "few fast ones)"
)
_SHARES = "numbers of seen classes or phantoms as shares of the seen classes, such as 0.2 0.6 1"
_SETTINGS = experiments.SETTINGS
_RESUME = ("--resume", bool, True, "keep finished runs (default), or start over")
_RUNS = ("runs", "RUNS", ..., "folder of the records")
OPTIONS = {
    "demo": (_run_demo, ("--out", "FOLDER", Path("zslearn-demo"), "output folder")),
    "bench": (
        _run_bench,
        *DATA_OPTIONS,
        "runs",
        ("--setting", [*_SETTINGS, ...], [*_SETTINGS], "conventional, generalized (default: both)"),
        ("--methods", "METHOD…", None, _METHODS),
        ("--protocol", experiments.PROTOCOLS, "default", _PROTOCOL),
        ("--authors", "FOLDER", None, "the authors' files (default: authors in ZSLEARN_DATA)"),
        ("--grid", GRIDS, None, _GRID),
        ("--unlabelled", _SETTINGS, None, _UNLABELLED),
        ("--taxonomy", "FILE", None, f"{out.TAXONOMY}; also measure the accuracy at each rank"),
        ("--subset", "TAXON…", None, "restrict the unseen classes to those below these taxa"),
        ("--inflation", bool, False, _INFLATION),
        ("--out", "FOLDER", Path("runs"), "folder for the records"),
        ("--cluster", "ADDRESS", None, _CLUSTER),
        _RESUME,
        ("--shots", "K…", None, _SHOTS),
        ("--seeds --seed", "SEED…", [0], out.SEEDS),
        out.jobs("runs, or folds of one run,"),
    ),
    "table": (
        _run_table,
        _RUNS,
        ("--like", experiments.LAYOUTS, "main", "layout of the table"),
        ("--format", experiments.FORMATS, "terminal", "output format"),
        ("--features", "NAME", None, "use only records with these features"),
        ("--split-version", "VERSION", None, "use only records with this version of the split"),
        ("--protocol", "NAME", None, "use only records with this protocol"),
        ("--grid", "NAME", None, "use only records with this grid"),
        ("--all", bool, False, "include rows and columns that only the paper has"),
    ),
    "report": (
        _run_report,
        _RUNS,
        ("--out", "FILE", Path("report.html"), "file to write"),
        ("--title", "TITLE", None, "title of the page (default: the names of the data sets)"),
    ),
    "analyze": (
        _run_analyze,
        ("analysis", list(analyses.ANALYSES), ..., _ANALYSES),
        *DATA_OPTIONS,
        "analysis",
        ("--out", "FOLDER", Path("analysis"), "folder for the table, the plots and the records"),
        ("--runs", "FOLDER", None, _RECORDS),
        ("--methods", "METHOD…", None, _ANALYSED),
        ("--grid", GRIDS, "quick", "grid of hyper-parameters; quick is a subset of fast"),
        ("--folds", int, None, "number of folds over the seen classes"),
        ("--retune", bool, False, f"tune for each setting ({', '.join(_ONLY_FOR['retune'])})"),
        _RESUME,
        ("--forms", [*analyses.SYNC_FORMS, ...], None, "forms of SynC to compare (penalties)"),
        ("--shares", "SHARE…", None, _SHARES),
        ("--shots", "K…", None, "labelled images of each unseen class (shots), such as 0 1 5"),
        ("--seeds --seed", "SEED…", None, out.SEEDS),
        out.jobs(),
    ),
}
