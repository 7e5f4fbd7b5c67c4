"""`zslearn bench imagenet` and `zslearn demo imagenet`."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from typing import Any

from zslearn.cli._output import add_jobs, print_table, say, warnings_as_lines
from zslearn.datasets._class_shards import ClassShards
from zslearn.datasets._last_layers import NETWORKS
from zslearn.datasets._signature_files import read_signature_table
from zslearn.experiments._imagenet import (
    IMAGENET_METHODS,
    IMAGENET_TABLES,
    ImageNetBench,
    read_image_counts,
)
from zslearn.experiments._last_layers import (
    GRAPHS as TRACK_GRAPHS,
)
from zslearn.experiments._last_layers import (
    KINDS as TRACK_KINDS,
)
from zslearn.experiments._last_layers import (
    RECIPES as TRACK_RECIPES,
)
from zslearn.experiments._last_layers import (
    TRACK_METHODS,
    run_last_layers,
)
from zslearn.experiments._protocol import GRIDS
from zslearn.experiments._records import read_records
from zslearn.experiments._render import render
from zslearn.experiments._tables import build_table
from zslearn.signatures._wordnet import WordNet


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add both commands to the parser; `main` takes their two words for one.

    Without a line of help of their own: the lists of commands have bench and demo.
    """
    _add_bench(commands, common)
    _add_demo(commands, common)


def _add_bench(commands: Any, common: argparse.ArgumentParser) -> None:
    bench = commands.add_parser(
        "bench-imagenet",
        parents=[common],
        prog="zslearn bench imagenet",
        description="Tune methods on the seen classes of ImageNet, measure them on the paper's "
        "test sets, write one record for each, and print tables 4 and 7 to 12 of the paper as far "
        "as the signatures fill them. Rows are read in blocks. What is finished is not computed "
        "again.",
    )
    bench.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="features: files <wnid>.npy or <wnid>.h5, a Zarr group with an array per wnid, or a "
        "parquet file with a column wnid",
    )
    bench.add_argument(
        "--signatures",
        nargs="+",
        required=True,
        metavar="KIND=FILE",
        help="tables of signatures, one row per wnid, such as wv-v1=words.parquet hie=hie.csv; "
        "kinds that begin with wv are also combined with hie (zslearn signatures makes them)",
    )
    bench.add_argument(
        "--methods",
        nargs="+",
        default=list(IMAGENET_METHODS),
        metavar="METHOD",
        help=f"which methods (default: {', '.join(IMAGENET_METHODS)})",
    )
    bench.add_argument(
        "--counts",
        type=Path,
        default=None,
        metavar="FILE",
        help="a table of wnids and their numbers of images, for the most and least populated "
        "classes (default: rows of the shards)",
    )
    bench.add_argument(
        "--per-class",
        type=int,
        default=100,
        metavar="N",
        help="most rows of a seen class that are learned from; 0 for all (default: %(default)s)",
    )
    bench.add_argument("--features", default="own", metavar="NAME", help="name of the features")
    bench.add_argument(
        "--ideal",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also table 9: ideal signatures, on one half of the rows (default)",
    )
    bench.add_argument("--grid", choices=GRIDS, default="fast", help="(default: %(default)s)")
    bench.add_argument("--folds", type=int, default=5, metavar="N", help="(default: %(default)s)")
    bench.add_argument(
        "--epochs",
        type=int,
        default=None,
        metavar="N",
        help="epochs of GCNZ, SGCN and DGP (default: as published, 300 and 3,000)",
    )
    bench.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    bench.add_argument(
        "--wordnet", type=Path, default=None, metavar="FOLDER", help="where WordNet 3.0 is"
    )
    bench.add_argument(
        "--lists", type=Path, default=None, metavar="FOLDER", help="where ImageNet's lists are"
    )
    add_jobs(bench)
    bench.add_argument(
        "--out",
        type=Path,
        default=Path("runs-imagenet"),
        metavar="FOLDER",
        help="where records are written (default: %(default)s)",
    )
    bench.set_defaults(run=run_bench)


def _add_demo(commands: Any, common: argparse.ArgumentParser) -> None:
    demo = commands.add_parser(
        "demo-imagenet",
        parents=[common],
        prog="zslearn demo imagenet",
        description="Hold out classes of a real image network, predict their rows of its last "
        "layer from words, text and the hierarchy, and print how often the true row is nearest to "
        "the predicted one of its class. Tests classes, not images; the network saw them all.",
    )
    demo.add_argument(
        "--network", choices=NETWORKS, default=NETWORKS[0], help="(default: %(default)s)"
    )
    demo.add_argument(
        "--methods",
        nargs="+",
        default=["ESZSL", "SGCN"],
        metavar="METHOD",
        help=f"some of {', '.join(TRACK_METHODS)} (default: ESZSL SGCN)",
    )
    demo.add_argument(
        "--signatures",
        nargs="+",
        default=list(TRACK_KINDS),
        metavar="KIND",
        help=f"some of {', '.join(map(repr, TRACK_KINDS))} (default: all)",
    )
    demo.add_argument(
        "--splits", type=int, default=1, metavar="N", help="class splits (default: %(default)s)"
    )
    demo.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the first split; the next ones follow (default: %(default)s)",
    )
    demo.add_argument(
        "--recipe",
        choices=TRACK_RECIPES,
        default=TRACK_RECIPES[0],
        help="widths and epochs of graph methods: for minutes on a CPU, the published ones, or the "
        "published widths with epochs and weights that are tuned (default: %(default)s)",
    )
    demo.add_argument(
        "--graph",
        choices=TRACK_GRAPHS,
        default=TRACK_GRAPHS[0],
        help="what graph methods propagate over: the 1,000 classes and their ancestors, or "
        "ImageNet's 32,324 nodes (default: %(default)s)",
    )
    demo.add_argument(
        "--held-out",
        type=int,
        default=200,
        metavar="N",
        help="classes held out in each (default: %(default)s)",
    )
    demo.add_argument(
        "--packages", type=Path, default=None, metavar="FOLDER", help="where packages of npm lie"
    )
    demo.add_argument(
        "--fetch", action="store_true", help="fetch missing packages of npm, 100 MB each"
    )
    demo.add_argument(
        "--out",
        type=Path,
        default=Path("zslearn-demo-imagenet"),
        metavar="FOLDER",
        help="where records are written (default: %(default)s)",
    )
    demo.set_defaults(run=run_demo)


def run_bench(arguments: argparse.Namespace) -> int:
    """Run the experiments and print their tables."""
    signatures = {}
    for word in arguments.signatures:
        kind, equals, path = word.partition("=")
        if not equals or not kind or not path:
            raise ValueError(
                f"--signatures takes KIND=FILE, such as wv-v1=words.csv; got {word!r}."
            )
        signatures[kind] = read_signature_table(path)
    # What is wrong with a folder is said before the work begins.
    with warnings_as_lines():
        wordnet = WordNet(arguments.wordnet)
        shards = ClassShards(arguments.folder, known=wordnet)
        bench = ImageNetBench(
            shards,
            signatures,
            arguments.out,
            wordnet,
            counts=None if arguments.counts is None else read_image_counts(arguments.counts),
            lists=arguments.lists,
            features=arguments.features,
            per_class=arguments.per_class or None,
            grid=arguments.grid,
            n_folds=arguments.folds,
            seed=arguments.seed,
            settings=_epochs(arguments.epochs),
            n_jobs=arguments.jobs,
            say=say,
        )
    sizes = ", ".join(f"{name} {len(classes)}" for name, classes in bench.sets.items())
    say(f"{len(bench.seen)} seen and {len(bench.unseen)} unseen classes; test sets: {sizes}")
    with warnings_as_lines():
        files = bench.run(arguments.methods, ideal=arguments.ideal)
    for folder, names in IMAGENET_TABLES.items():
        records = read_records([path for path in files if path.parent.name == folder])
        for like in names if len(records) else ():
            # Table 10 has a row per test set, and only of these.
            of_table = records[records["subset"].isin(["2-hop", "3-hop", "all"])]
            of_table = of_table if like == "imagenet_fk" else records
            try:
                table = build_table(of_table, like, rows="ours", columns="ours")
            except ValueError:
                # No kind of signatures that this table shows.
                continue
            print(render(table, "terminal"))
            print()
    print(f"zslearn: {len(files)} records in {arguments.out}", file=sys.stderr)
    return 0


def _epochs(number: int | None) -> dict[str, dict[str, int]]:
    """Settings of the graph methods."""
    if number is None:
        return {}
    if number < 1:
        raise ValueError(f"--epochs must be at least 1; got {number}.")
    return {name: {"max_iter": number} for name in ("GCNZ", "SGCN", "DGP")}


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the track and print its table."""
    with warnings_as_lines():
        found = run_last_layers(
            arguments.out,
            network=arguments.network,
            methods=arguments.methods,
            kinds=arguments.signatures,
            n_splits=arguments.splits,
            n_held_out=arguments.held_out,
            seed=arguments.seed,
            recipe=arguments.recipe,
            graph=arguments.graph,
            packages=arguments.packages,
            fetch=arguments.fetch,
            say=say,
        )
    table = found.table.map(lambda x: "" if x != x else f"{x:.3f}" if isinstance(x, float) else x)
    table.index = [f"{kind} · {method}" for kind, method in table.index]
    print_table(
        table.astype(str),
        title=f"{arguments.network}: rows of {arguments.held_out} held-out classes recognised",
    )
    print()
    print_table(found.neighbours.set_index("held out"), title="Seen classes nearest to a row")
    print()
    note = (
        "The row of a held-out class takes the place of an image: this tests classes, not images, "
        "and the network saw all of them."
    )
    print(textwrap.fill(note, 80))
    return 0
