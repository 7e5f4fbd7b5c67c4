"""`zslearn features`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from zslearn.cli._output import counted, say, warnings_as_lines
from zslearn.features import BACKBONES, ImageFeatures, extract_features, load_features
from zslearn.utils import plain

#: So many images that were left out are named.
_NAMED = 10


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command and its verbs to the parser."""
    parser = commands.add_parser(
        "features",
        parents=[common],
        help="turn images into features",
        description="Turn images into features by a trained network, and say how features were "
        "made.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="extract|show")
    extract = verbs.add_parser(
        "extract",
        parents=[common],
        help="compute the features of images",
        description="Compute the features of images by a trained network and write them, with "
        "labels and the record of how they were made, to one file. After an interruption the same "
        "command goes on where it was. Images that cannot be read are left out and named.",
    )
    extract.add_argument(
        "images",
        type=Path,
        metavar="IMAGES",
        help="a folder with one folder of images per class, or a table .csv with the columns path "
        "and label",
    )
    extract.add_argument(
        "--out",
        type=Path,
        default=Path("features.npz"),
        metavar="FILE",
        help="where to write (default: %(default)s)",
    )
    add_network_options(extract)
    extract.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep what is finished (default), or begin anew",
    )
    extract.set_defaults(run=run_extract)
    shown = verbs.add_parser("show", parents=[common], help="say how features were made")
    shown.add_argument("file", type=Path, metavar="FILE", help="a file .npz of features")
    shown.set_defaults(run=run_show)


def add_network_options(parser: argparse.ArgumentParser, *, backbone: bool = True) -> None:
    """Add the words that say how images become features; `network_options` reads them."""
    group = parser.add_argument_group("how images become features")
    if backbone:
        group.add_argument(
            "--backbone",
            default=None,
            metavar="NAME",
            help=f"the network: {', '.join(BACKBONES)}, timm:NAME or open_clip:NAME/WEIGHTS "
            "(default: efficientnet-lite0)",
        )
        group.add_argument(
            "--crop",
            choices=["center", "squash"],
            default=None,
            help="take the middle of each image, or all of it (default: as the network was "
            "trained)",
        )
    group.add_argument(
        "--weights",
        type=Path,
        default=None,
        metavar="FILE",
        help="the network's weights, .pth or .safetensors; needed by resnet50, resnet101 and "
        "googlenet",
    )
    group.add_argument(
        "--boxes",
        type=Path,
        default=None,
        metavar="FILE",
        help="a table .csv with the columns path, x, y, width and height: the part of each image "
        "to look at",
    )
    group.add_argument(
        "--device", default="auto", metavar="DEVICE", help="cpu, cuda, … (default: a GPU if any)"
    )
    group.add_argument(
        "--batch-size",
        type=int,
        default=None,
        metavar="N",
        help="images at once (default: 8 on a CPU, 64 elsewhere)",
    )
    group.add_argument(
        "--workers",
        type=int,
        default=None,
        metavar="N",
        help="threads that read images (default: one per core)",
    )


def network_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the words of `add_network_options` say, as arguments of the library."""
    names = ("weights", "boxes", "device", "batch_size", "workers")
    options = {name: getattr(arguments, name) for name in names}
    for name in ("backbone", "crop"):
        if getattr(arguments, name, None) is not None:
            options[name] = getattr(arguments, name)
    return options


def run_extract(arguments: argparse.Namespace) -> int:
    """Compute features and say what was done."""
    with warnings_as_lines():
        features = extract_features(
            arguments.images,
            out=arguments.out,
            resume=arguments.resume,
            progress=True,
            say=say,
            **network_options(arguments),
        )
    say_how_it_went(features)
    print(summary(features))
    print(f"wrote {plain(arguments.out)}")
    return 0


def say_how_it_went(features: ImageFeatures) -> None:
    """Say how fast images were read, and name those that could not be, on standard error."""
    if features.rate is not None:
        print(f"zslearn: {features.rate:.3g} images per second", file=sys.stderr)
    for name, reason in features.skipped[:_NAMED]:
        print(f"zslearn: left out: {plain(name)}: {plain(reason)}", file=sys.stderr)
    if (more := len(features.skipped) - _NAMED) > 0:
        print(f"zslearn: left out: {more} more", file=sys.stderr)


def summary(features: ImageFeatures) -> str:
    """What features there are, in one line."""
    backbone = plain(features.about.get("backbone", "an unknown network"))
    classes = (
        "no labels" if features.y is None else counted(len(set(features.y.tolist())), "class", "es")
    )
    skipped = f", {len(features.skipped)} left out" if features.skipped else ""
    return (
        f"{counted(len(features), 'image')}{skipped}, {classes}, {features.X.shape[1]} features "
        f"({backbone})"
    )


def run_show(arguments: argparse.Namespace) -> int:
    """Print what a file of features holds and how they were made."""
    features = load_features(arguments.file)
    print(summary(features))
    about = {key: value for key, value in features.about.items() if key != "skipped"}
    print(plain(json.dumps(about, indent=2), lines=True))
    say_how_it_went(features)
    return 0
