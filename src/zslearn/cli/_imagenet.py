"""`zslearn bench imagenet` and `zslearn demo imagenet`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from zslearn import experiments
from zslearn._utils._files import refuse_unwritable
from zslearn.cli._output import jobs, print_table, say, values_of
from zslearn.datasets import LAST_LAYERS, ClassShards, read_signature_table
from zslearn.model_selection import GRIDS
from zslearn.signatures import WordNet


def _run_bench_imagenet(arguments: argparse.Namespace) -> int:
    """Tune methods on the seen classes of ImageNet, and measure them on the paper's test sets.

    Writes one record for each run, and prints tables 4 and 7 to 12 of the paper where the
    signatures fill them. Rows are read in blocks. What is finished is not computed again.
    """
    if arguments.epochs is not None and arguments.epochs < 1:
        raise ValueError(f"--epochs must be at least 1; got {arguments.epochs}.")
    signatures = {}
    for word in arguments.signatures:
        kind, _, path = word.partition("=")
        if not kind or not path:
            raise ValueError(
                f"--signatures takes KIND=FILE, such as wv-v1=words.csv; got {word!r}."
            )
        signatures[kind] = read_signature_table(path)
    epochs = {} if arguments.epochs is None else {"max_iter": arguments.epochs}
    refuse_unwritable(arguments.out / "record.json")
    # What is wrong with a folder is said before the work begins.
    wordnet = WordNet(arguments.wordnet)
    bench = experiments.ImageNetBench(
        ClassShards(arguments.folder, known=wordnet),
        signatures,
        arguments.out,
        wordnet,
        counts=None
        if arguments.counts is None
        else experiments.read_image_counts(arguments.counts),
        **values_of(arguments, "lists", "features", "grid", "seed"),
        per_class=arguments.per_class or None,
        n_folds=arguments.folds,
        settings={name: epochs for name in ("GCNZ", "SGCN", "DGP") if epochs},
        n_jobs=arguments.jobs,
        say=say,
    )
    sizes = ", ".join(f"{name} {len(classes)}" for name, classes in bench.sets.items())
    say(f"{len(bench.seen)} seen and {len(bench.unseen)} unseen classes; test sets: {sizes}")
    files = bench.run(arguments.methods)
    for folder, names in experiments.IMAGENET_TABLES.items():
        records = experiments.read_records([path for path in files if path.parent.name == folder])
        for like in names if len(records) else ():
            # Table 10 has a row per test set, and only of these.
            of_table = records[records["subset"].isin(["2-hop", "3-hop", "all"])]
            of_table = of_table if like == "imagenet_fk" else records
            try:
                table = experiments.build_table(of_table, like, only_ours=True)
            except ValueError:
                # No kind of signatures that this table shows.
                continue
            print(experiments.render(table, "terminal"))
            print()
    print(f"zslearn: {len(files)} records in {arguments.out}", file=sys.stderr)
    return 0


def _run_demo_imagenet(arguments: argparse.Namespace) -> int:
    """Hold out classes of a real image network, and predict their rows of its last layer.

    Predicts from words, text and the hierarchy, and prints how often the true row is nearest to the
    predicted one of its class. Tests classes, not images; the network saw them all.
    """
    found = experiments.run_last_layers(
        arguments.out,
        kinds=arguments.signatures,
        n_splits=arguments.splits,
        n_held_out=_HELD_OUT,
        **values_of(arguments, "network", "methods", "seed", "recipe", "graph"),
        **values_of(arguments, "packages", "fetch"),
        say=say,
    )
    table = found.table.map(lambda x: "" if x != x else f"{x:.3f}" if isinstance(x, float) else x)
    table.index = [f"{kind} · {method}" for kind, method in table.index]
    title = f"{arguments.network}: rows of {_HELD_OUT} held-out classes recognised"
    print_table(table.astype(str), title=title)
    print()
    print_table(found.neighbours.set_index("held out"), title="Seen classes nearest to a row")
    print()
    note = (
        "The row of a held-out class takes the place of an image: this tests classes, not images, "
        "and the network saw all of them."
    )
    print(textwrap.fill(note, 80))
    return 0


_HELD_OUT = 200
_FOLDER = (
    "features: files <wnid>.npy or <wnid>.h5, a Zarr group with an array per wnid, or a parquet "
    "file with a column wnid"
)
_SIGNATURES = (
    "tables of signatures, one row per wnid, such as wv-v1=words.parquet hie=hie.csv; kinds that "
    "begin with wv are also combined with hie (zslearn signatures makes them)"
)
_COUNTS = "numbers of images by wnid, to find populated classes (default: rows of the shards)"
_EPOCHS = "epochs of GCNZ, SGCN and DGP (default: as published, 300 and 3,000)"
_KINDS = f"some of {', '.join(map(repr, experiments.TRACK_SIGNATURES))} (default: all)"
_METHODS = f"some of {', '.join(experiments.TRACK_METHODS)} (default: ESZSL SGCN)"
_RECIPE = "widths and epochs of graph methods: for minutes on a CPU, as published, or tuned"
_GRAPH = "what graph methods propagate over: 1,000 classes with ancestors, or 32,324 nodes"
OPTIONS = {
    "bench-imagenet": (
        _run_bench_imagenet,
        ("folder", "FOLDER", ..., _FOLDER),
        ("--signatures", "KIND=FILE…", ..., _SIGNATURES),
        (
            "--methods",
            "METHOD…",
            [*experiments.IMAGENET_METHODS],
            f"(default: {', '.join(experiments.IMAGENET_METHODS)})",
        ),
        ("--counts", "FILE", None, _COUNTS),
        ("--per-class", int, 100, "most rows of a seen class that are learned from; 0 for all"),
        ("--features", "NAME", "own", "name of the features"),
        ("--grid", GRIDS, "fast", "the values to search"),
        ("--folds", int, 5, "folds over the seen classes"),
        ("--epochs", int, None, _EPOCHS),
        ("--seed", int, 0, "seed"),
        ("--wordnet", "FOLDER", None, "where WordNet 3.0 is"),
        ("--lists", "FOLDER", None, "where ImageNet's lists are"),
        ("--out", "FOLDER", Path("runs-imagenet"), "where records are written"),
        jobs(),
    ),
    "demo-imagenet": (
        _run_demo_imagenet,
        ("--network", [*LAST_LAYERS], next(iter(LAST_LAYERS)), "whose last layer"),
        ("--methods", "METHOD…", ["ESZSL", "SGCN"], _METHODS),
        ("--signatures", "KIND…", [*experiments.TRACK_SIGNATURES], _KINDS),
        ("--splits", int, 1, "class splits"),
        ("--seed", int, 0, "seed of the first split; the next ones follow"),
        ("--recipe", experiments.TRACK_RECIPES, experiments.TRACK_RECIPES[0], _RECIPE),
        ("--graph", experiments.TRACK_GRAPHS, experiments.TRACK_GRAPHS[0], _GRAPH),
        ("--packages", "FOLDER", None, "where packages of npm lie"),
        ("--fetch", bool, False, "fetch missing packages of npm, 100 MB each"),
        ("--out", "FOLDER", Path("zslearn-demo-imagenet"), "where records are written"),
    ),
}
