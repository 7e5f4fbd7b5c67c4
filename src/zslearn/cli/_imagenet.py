"""`zslearn bench imagenet` and `zslearn demo imagenet`."""

from __future__ import annotations

import argparse
from pathlib import Path

from zslearn import experiments
from zslearn._utils._files import refuse_unwritable
from zslearn.cli import _output as out
from zslearn.datasets import LAST_LAYERS, ClassShards, read_signature_table
from zslearn.model_selection import GRIDS
from zslearn.signatures import WordNet


def _run_bench_imagenet(arguments: argparse.Namespace) -> None:
    """Tune methods on the seen classes of ImageNet, and evaluate them on the paper's test sets.

    Each run writes one record. Tables 4 and 7 to 12 of the paper are printed if the signatures fill
    them. Features are read in blocks, and finished runs are kept.
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
    # Errors in folders are raised before the computation.
    wordnet = WordNet(arguments.wordnet)
    bench = experiments.ImageNetBench(
        ClassShards(arguments.folder, known=wordnet),
        signatures,
        arguments.out,
        wordnet,
        counts=arguments.counts and experiments.read_image_counts(arguments.counts),
        **out.values_of(arguments, "lists", "features", "grid", "seed"),
        per_class=arguments.per_class or None,
        n_folds=arguments.folds,
        settings={name: epochs for name in ("GCNZ", "SGCN", "DGP") if epochs},
        n_jobs=arguments.jobs,
        say=out.say,
    )
    sizes = ", ".join(f"{name} {len(classes)}" for name, classes in bench.sets.items())
    out.say(f"{len(bench.seen)} seen and {len(bench.unseen)} unseen classes; test sets: {sizes}")
    files = bench.run(arguments.methods, ideal=arguments.ideal)
    tables = {}
    for folder, names in experiments.IMAGENET_TABLES.items():
        records = experiments.read_records([path for path in files if path.parent.name == folder])
        for like in names if len(records) else ():
            # Table 10 has only these test sets.
            of_table = records[records["subset"].isin(["2-hop", "3-hop", "all"])]
            of_table = of_table if like == "imagenet_fk" else records
            try:
                table = experiments.build_table(of_table, like, only_ours=True)
            except ValueError:
                # None of the kinds of signatures belongs to this table.
                continue
            out.result(f"{experiments.render(table, 'terminal')}\n")
            tables[like] = table.cells()
    out.note(tables=tables, records=files)
    out.say(f"zslearn: {len(files)} records in {arguments.out}", "")


def _run_demo_imagenet(arguments: argparse.Namespace) -> None:
    """Hold out classes of a pretrained image network and predict their last-layer weights.

    Weights are predicted from words, text and the class hierarchy. A class is recognised if its
    true weights are nearest to its predicted ones. This tests classes, not images, and the network
    was trained on all classes.
    """
    found = experiments.run_last_layers(
        arguments.out,
        kinds=arguments.signatures,
        n_splits=arguments.splits,
        n_held_out=_HELD_OUT,
        **out.values_of(arguments, "network", "methods", "seed", "recipe", "graph"),
        **out.values_of(arguments, "packages", "fetch"),
        say=out.say,
    )
    table = found.table.reset_index()
    shown = found.table.set_axis([f"{kind} · {method}" for kind, method in found.table.index])
    title = f"{arguments.network}: rows of {_HELD_OUT} held-out classes recognised"
    out.print_table(shown, title=title, name="results", values=table)
    neighbours = found.neighbours.set_index("held out")
    out.print_table(neighbours, title="Seen classes nearest to a row", name="neighbours")
    out.explained(
        "The weights of a held-out class replace an image: this tests classes, not images, and the "
        "network was trained on all classes."
    )


_HELD_OUT = 200
_FOLDER = (
    "features: a folder of files <wnid>.npy or <wnid>.h5, a Zarr group with an array per wnid, or "
    "a Parquet file with a column wnid"
)
_SIGNATURES = (
    "tables of signatures from zslearn signatures, one row per wnid, such as wv-v1=words.parquet "
    "hie=hie.csv; kinds that start with wv are also combined with hie"
)
_COUNTS = "table of the numbers of images by wnid (default: numbers of features)"
_ALL = f"methods (default: {', '.join(experiments.IMAGENET_METHODS)})"
_EPOCHS = "training epochs of GCNZ (default: 300), SGCN and DGP (default: 3,000)"
_KINDS = f"some of {', '.join(map(repr, experiments.TRACK_SIGNATURES))} (default: all)"
_METHODS = f"some of {', '.join(experiments.TRACK_METHODS)} (default: ESZSL SGCN)"
_RECIPE = "training of graph methods: short (minutes on a CPU), or as published"
_GRAPH = "graph for graph methods: the classes and their ancestors, or all 32,324 nodes"
OPTIONS = {
    "bench imagenet": (
        _run_bench_imagenet,
        ("folder", "FOLDER", ..., _FOLDER),
        ("--signatures", "KIND=FILE…", ..., _SIGNATURES),
        ("--methods", "METHOD…", [*experiments.IMAGENET_METHODS], _ALL),
        ("--counts", "FILE", None, _COUNTS),
        ("--per-class", int, 100, "maximum number of training rows per seen class; 0 for all"),
        ("--features", "NAME", "own", "name of the features in tables"),
        ("--ideal", bool, True, "also measure ideal signatures, Table 9 of the paper (default)"),
        ("--grid", GRIDS, "fast", "grid of hyper-parameters"),
        ("--folds", int, 5, "number of folds over the seen classes"),
        ("--epochs", int, None, _EPOCHS),
        ("--seed", int, 0, "random seed"),
        ("--wordnet", "FOLDER", None, "folder of WordNet 3.0"),
        ("--lists", "FOLDER", None, "folder of ImageNet's lists of classes"),
        ("--out", "FOLDER", Path("runs-imagenet"), "folder for the records"),
        out.jobs(),
    ),
    "demo imagenet": (
        _run_demo_imagenet,
        ("--network", [*LAST_LAYERS], next(iter(LAST_LAYERS)), "pretrained network"),
        ("--methods", "METHOD…", ["ESZSL", "SGCN"], _METHODS),
        ("--signatures", "KIND…", [*experiments.TRACK_SIGNATURES], _KINDS),
        ("--splits", int, 1, "number of class splits"),
        ("--seed", int, 0, "random seed of the first split; others use the next integers"),
        ("--recipe", experiments.TRACK_RECIPES, experiments.TRACK_RECIPES[0], _RECIPE),
        ("--graph", experiments.TRACK_GRAPHS, experiments.TRACK_GRAPHS[0], _GRAPH),
        ("--packages", "FOLDER", None, "folder of the npm packages"),
        ("--fetch", bool, False, "download missing npm packages, 100 MB each"),
        ("--out", "FOLDER", Path("zslearn-demo-imagenet"), "folder for the records"),
    ),
}
