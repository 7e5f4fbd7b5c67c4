"""`zslearn demo`, `bench`, `table`, `report` and `analyze`: experiments and their records."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import textwrap
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.exceptions import FitFailedWarning

from zslearn import experiments
from zslearn._utils._messages import plain
from zslearn.cli._data import DATA_OPTIONS, load_named
from zslearn.cli._output import (
    SEEDS,
    TAXONOMY,
    counted,
    import_from_working_folder,
    jobs,
    print_table,
    say,
    values_of,
)
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
    "seconds": "fitted in s",
}
#: What the columns of a benchmark's results are.
_MEANINGS = {
    "accuracy": "per class, unseen among unseen",
    "H": "harmonic mean without calibration, tuned for accuracy",
    "S cal.": "seen",
    "U cal.": "unseen",
    "H cal.": "their harmonic mean, calibrated",
}
#: Options that only some analyses have.
_ONLY_FOR = {
    "runs": tuple(name for name, found in analyses.ANALYSES.items() if found.read),
    "retune": ("seen-classes", "phantoms"),
    "shares": ("seen-classes", "phantoms"),
    "shots": ("shots",),
    "forms": ("penalties",),
}


def _run_demo(arguments: argparse.Namespace) -> int:
    """Fit three methods on the embedded glyphs and recognise letters that they never saw.

    Takes about half a minute. Prints a table; writes it, pictures and a report for a browser to a
    folder. `zslearn demo imagenet` predicts the last layer of a network: see its --help.
    """
    demo = experiments.run_demo(arguments.out, say=say, progress=True)
    table = demo.table[list(_DEMO_COLUMNS)].map("{:.3f}".format).rename(columns=_DEMO_COLUMNS)
    print(f"{_filled(demo.headline())}\n")
    print_table(table, title="Glyphs, split ns: per-class accuracies")
    print(f"\n{_filled(demo.summary())}\n")
    for path in demo.files:
        print(f"wrote {path}")
    next_step = (
        f"Next: open {demo.files[-1]}. For images or tables of your own: zslearn fit YOURS "
        "--signatures CLASSES.csv, then zslearn serve model.zsl."
    )
    print(f"\n{_filled(next_step)}")
    return 0


def _filled(text: str) -> str:
    """Paragraphs as wide as the terminal, with a free line between them."""
    width = max(shutil.get_terminal_size().columns, 20)
    return "\n\n".join(textwrap.fill(line, width) for line in text.splitlines())


def _run_bench(arguments: argparse.Namespace) -> int:
    """Tune methods on held-out seen classes, and measure them on the test images.

    Writes one record for each run, and prints a table of the results. What is finished is not
    computed again; what was stopped continues where it was. A method that fails is named at the
    end, and tried again the next time. `zslearn bench imagenet` makes the paper's tables on
    ImageNet: see its --help.
    """
    methods = default_methods() if arguments.methods is None else arguments.methods
    import_from_working_folder(methods)
    if arguments.authors is not None and arguments.protocol != "authors":
        raise ValueError("--authors is for --protocol authors.")
    data = load_named(arguments)
    on_workers = arguments.cluster is not None
    with (
        on_cluster(arguments.cluster) if on_workers else nullcontext(),
        warnings.catch_warnings(),
    ):
        # Said below, with the reasons.
        warnings.filterwarnings("ignore", "Runs failed", FitFailedWarning)
        paths = experiments.run_benchmark(
            data,
            methods,
            arguments.out,
            settings=arguments.setting,
            splits=arguments.split,
            **values_of(arguments, "seeds", "protocol", "authors", "grid", "resume"),
            **values_of(arguments, "shots", "unlabelled", "subset"),
            taxonomy=None if arguments.taxonomy is None else _ranks(arguments.taxonomy, data),
            n_jobs=-1 if on_workers else arguments.jobs,
            progress=True,
            command=_command(arguments),
            say=say,
        )
    records, failed = experiments.read_records(paths), experiments.read_failures(paths)
    if not records.empty:
        _print_results(records, data)
    _print_line(
        f"{counted(len(paths) - len(failed), 'record')} in {arguments.out}; "
        f"see also: zslearn table {arguments.out}"
    )
    for run in failed.to_dict("records"):
        if arguments.debug:
            print(plain(run["traceback"], lines=True), file=sys.stderr)
        _print_line(f"failed: {_name_run(run, failed)}: {run['type']}: {run['reason']}")
    if len(failed):
        _print_line(f"{len(failed)} of {len(paths)} runs failed; the same command tries them again")
    return 0 if failed.empty else 1


def _ranks(path: Path, data: ZeroShotDataset) -> pd.DataFrame:
    """Ranks by the labels of a data set, which need not be text."""
    ranks = read_ranks(path)
    label_of = {str(label): label for label in data.signatures.index}
    return ranks.set_axis([label_of.get(name, name) for name in ranks.index], axis=0)


def _command(arguments: argparse.Namespace) -> str:
    return shlex.join(["zslearn", *map(plain, arguments.words)])


def _print_line(text: str) -> None:
    """Print a line on standard error, where it mixes with no results."""
    print(f"zslearn: {plain(text)}", file=sys.stderr)


def _print_results(records: pd.DataFrame, data: ZeroShotDataset) -> None:
    """Print a row per method; on standard output, for a person or a pipe."""
    summary = experiments.summarize_runs(records)
    version = records["split_version"].iloc[0] if records["split"].nunique() == 1 else None
    protocol = [f"protocol {name}" for name in records["protocol"].unique() if name != "default"]
    parts = [data.name, f"version {version}" if version else "", *protocol, summary.runs]
    print_table(summary.cells(), title=f"Results on {', '.join(part for part in parts if part)}")
    meanings = [f"{name}: {text}" for name, text in _MEANINGS.items() if name in summary.mean]
    for note in (f"{'; '.join(meanings)}.", *summary.notes):
        print(textwrap.fill(note, 80))


def _name_run(run: dict[Any, Any], runs: pd.DataFrame) -> str:
    """Method and setting of a run; split and seed where the runs differ in them."""
    where = []
    if runs["split"].nunique() > 1:
        where.append(run["split"])
    if runs["seed"].nunique() > 1:
        where.append(f"seed {run['seed']}")
    return ", ".join([run["method"], run["setting"], *where])


def _run_table(arguments: argparse.Namespace) -> int:
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
        **values_of(arguments, "features", "split_version", "protocol", "grid"),
        only_ours=not arguments.all,
    )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(experiments.render(table, arguments.format, width=width))
    if arguments.picture is not None:
        experiments.save_ranks_plot(table, arguments.picture)
        _print_line(f"wrote {arguments.picture}")
    return 0


def _run_report(arguments: argparse.Namespace) -> int:
    """Write records as one page for a browser, which needs no network.

    The main numbers beside the published ones, curves, ranks, a page for each method and each
    class, what the searches found, times, versions and the command that makes it again. Only reads
    records.
    """
    path = experiments.write_report(arguments.runs, arguments.out, title=arguments.title)
    print(f"wrote {path}")
    return 0


def _run_analyze(arguments: argparse.Namespace) -> int:
    """Compute one of the paper's analyses on a data set.

    Prints its table, and writes the table (.csv), a record of each part and the pictures (.svg,
    .png). What is finished is not computed again. Hyper-parameters are chosen on held-out seen
    classes.
    """
    analysis = analyses.ANALYSES[arguments.analysis]
    import_from_working_folder(arguments.methods or ())
    for option, names in _ONLY_FOR.items():
        if getattr(arguments, option) not in (None, False) and arguments.analysis not in names:
            raise ValueError(f"--{option} is for {', '.join(names)}, not for {arguments.analysis}.")
    options = values_of(arguments, "methods", "seeds", "runs", "shares", "shots", "forms")
    options |= {"n_splits": arguments.folds, "retune": arguments.retune or None}
    data = None
    if arguments.name is not None or arguments.features_file is not None or not arguments.runs:
        data = load_named(arguments)
    frame, paths = analyses.run_analysis(
        arguments.analysis,
        data,
        arguments.out,
        # Those that were asked for; the records of another folder are of any split.
        splits=None if data is None or arguments.split is None else list(data.splits),
        **values_of(arguments, "resume", "grid"),
        progress=True,
        n_jobs=arguments.jobs,
        say=say,
        command=_command(arguments),
        **{name: value for name, value in options.items() if value is not None},
    )
    where = "" if data is None else f" of {data.name}"
    print_table(
        analyses.summarize_analysis(frame), title=f"{arguments.analysis}{where}: {analysis.title}"
    )
    for path in paths:
        print(f"wrote {path}", file=sys.stderr)
    for table in analysis.tables if arguments.runs is None else ():
        _print_line(f"see also: zslearn table {arguments.out} --like {table}")
    return 0


_METHODS = (
    f"which methods (default: {', '.join(default_methods())}); there are also: "
    f"{', '.join(name for name, method in METHODS.items() if not method.in_default)}; or classes "
    "of your own, as module:Class"
)
_GRID = (
    "the values to search; paper is for ResNet's features, paper-googlenet for GoogLeNet's, quick "
    "is a part of fast (default: fast; with --protocol authors, paper)"
)
_UNLABELLED = (
    "give the unlabelled test images of the unseen classes (zsl) or of all (gzsl) to the method's "
    "adapt: the transductive protocol"
)
_SHOTS = (
    "add so many labelled test images of each unseen class to training, one run for each number, "
    "and test on the others; the seed draws them"
)
_CLUSTER = "compute folds on a dask cluster, by the address of its scheduler; --jobs is ignored"
_PROTOCOL = "how methods are tuned: ours, or as in the authors' program, with their class orders"
_ANALYSES = "; ".join(f"{name}: {found.title}" for name, found in analyses.ANALYSES.items())
_RECORDS = f"records of zslearn bench to read, for {', '.join(_ONLY_FOR['runs'])}; without DATA"
_SOME = (
    "which methods, or classes of your own, as module:Class; for regressors: svr, krr, gp, mlp "
    "(default: a few that are quick)"
)
_SHARES = "shares of the seen classes, or phantoms as shares of them, such as 0.2 0.6 1"
_SETTINGS = experiments.SETTINGS
_RESUME = ("--resume", bool, True, "keep what is finished (default), or begin anew")
_RUNS = ("runs", "RUNS", ..., "the folder of the records")
OPTIONS = {
    "demo": (_run_demo, ("--out", "FOLDER", Path("zslearn-demo"), "where to write")),
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
        ("--taxonomy", "FILE", None, f"{TAXONOMY}: also measure how often each rank is right"),
        ("--subset", "TAXON…", None, "test only the unseen classes below these taxa"),
        ("--out", "FOLDER", Path("runs"), "where records are written"),
        ("--cluster", "ADDRESS", None, _CLUSTER),
        _RESUME,
        ("--shots", "K…", None, _SHOTS),
        ("--seeds --seed", "SEED…", [0], SEEDS),
        jobs("methods, or folds of one,"),
    ),
    "table": (
        _run_table,
        _RUNS,
        ("--like", experiments.LAYOUTS, "main", "the layout"),
        ("--format", experiments.FORMATS, "terminal", "how it is written"),
        ("--features", "NAME", None, "only these features"),
        ("--split-version", "VERSION", None, "only this version of a split"),
        ("--protocol", "NAME", None, "only this protocol"),
        ("--grid", "NAME", None, "only what was tuned on this"),
        ("--all", bool, False, "also rows and columns that we lack"),
        ("--picture", "FILE", None, "also draw mean ranks with the critical difference"),
    ),
    "report": (
        _run_report,
        _RUNS,
        ("--out", "FILE", Path("report.html"), "the page"),
        ("--title", "TITLE", None, "what stands above (default: the data sets are named)"),
    ),
    "analyze": (
        _run_analyze,
        ("analysis", list(analyses.ANALYSES), ..., _ANALYSES),
        *DATA_OPTIONS,
        "analysis",
        ("--out", "FOLDER", Path("analysis"), "where table, pictures and records are written"),
        ("--runs", "FOLDER", None, _RECORDS),
        ("--methods", "METHOD…", None, _SOME),
        ("--grid", GRIDS, "quick", "the values to search; quick is fast, three of each at most"),
        ("--folds", int, None, "folds over the seen classes"),
        ("--retune", bool, False, f"tune for each setting ({', '.join(_ONLY_FOR['retune'])})"),
        _RESUME,
        ("--forms", [*analyses.SYNC_FORMS, ...], None, "forms of SynC to compare (penalties)"),
        ("--shares", "SHARE…", None, _SHARES),
        ("--shots", "K…", None, "labelled images of each unseen class (shots), such as 0 1 5"),
        ("--seeds --seed", "SEED…", None, SEEDS),
        jobs(),
    ),
}
