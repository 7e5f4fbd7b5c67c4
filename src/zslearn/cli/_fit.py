"""`zslearn fit` and `zslearn tune`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.cli._features import add_network_options, network_options, say_how_it_went, summary
from zslearn.cli._options import add_jobs
from zslearn.cli._output import print_table, say, warnings_as_lines
from zslearn.experiments import GRIDS, find_method
from zslearn.features import ImageFeatures
from zslearn.recognition import (
    METHODS_IN_SHORT,
    Description,
    describe_in_text,
    describe_in_words,
    fit_images,
    read_class_table,
    read_features,
    save_image_model,
)
from zslearn.utils import composed, name_some, plain, refuse_folder

#: So many settings of a search are printed.
_SETTINGS = 10


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add both commands to the parser."""
    fit = commands.add_parser(
        "fit",
        parents=[common],
        help="fit a method on your images, for all classes that you describe",
        description="Fit a method on images of some classes, for all classes that are described, "
        "and write it to one model file. Hyper-parameters, calibration and probabilities are found "
        "by leaving out classes that have images.",
    )
    _add_data(fit)
    fit.add_argument(
        "--out",
        type=Path,
        default=Path("model.zsl"),
        metavar="FILE",
        help="the model file (default: %(default)s)",
    )
    fit.add_argument(
        "--keep-features",
        type=Path,
        default=None,
        metavar="FILE",
        help="where the features of images are kept, so that fitting again need not compute them "
        "(default: beside the model, as NAME.features.npz)",
    )
    fit.set_defaults(run=run_fit)
    tune = commands.add_parser(
        "tune",
        parents=[common],
        help="search a method's hyper-parameters on your images",
        description="Search a method's hyper-parameters by leaving out classes that have images, "
        "and print the best settings. Writes no model.",
    )
    _add_data(tune)
    tune.set_defaults(run=run_tune, keep_features=None, out=None)


def _add_data(parser: argparse.ArgumentParser) -> None:
    """Add the words that say what is learned from, and how."""
    parser.add_argument(
        "source",
        type=Path,
        metavar="IMAGES|FEATURES",
        help="a folder with one folder of images per class, a table .csv of paths and labels, or a "
        "file .npz of features",
    )
    described = parser.add_mutually_exclusive_group(required=True)
    described.add_argument(
        "--signatures",
        type=Path,
        metavar="FILE",
        help="a table .csv or .parquet with one row of numbers per class; the first column names "
        "the class",
    )
    described.add_argument(
        "--describe",
        type=Path,
        metavar="FILE",
        help="a table .csv with the columns class and text",
    )
    parser.add_argument(
        "--text-encoder",
        default=None,
        metavar="NAME",
        help="what reads the texts: use, minilm, st:FOLDER, or backbone for the text side of an "
        "open_clip model (default: backbone where it has one, else use)",
    )
    parser.add_argument(
        "--method",
        default="exem",
        metavar="METHOD",
        help="the method, as zslearn bench names them; "
        + ", ".join(f"{short} is {name}" for short, name in METHODS_IN_SHORT.items())
        + " (default: exem)",
    )
    parser.add_argument(
        "--tune",
        choices=[*GRIDS, "none"],
        default="fast",
        help="which values of the hyper-parameters are searched (default: %(default)s)",
    )
    parser.add_argument(
        "--leave-out",
        nargs="+",
        type=composed,
        default=(),
        metavar="CLASS",
        help="classes whose images are not trained on",
    )
    parser.add_argument(
        "--none",
        type=float,
        default=None,
        metavar="RATE",
        help="tell images of none of the classes, at this share of false alarms, such as 0.05",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="SEED", help="(default: 0)")
    add_jobs(parser)
    add_network_options(parser)


def run_fit(arguments: argparse.Namespace) -> int:
    """Fit a method, write the model file, and say what is in it."""
    features, description, model = _fitted(arguments)
    trained = features
    if arguments.leave_out and features.y is not None:
        trained = features.take(~pd.Series(features.y).isin(list(arguments.leave_out)).to_numpy())
    save_image_model(model, arguments.out, trained, description, method=arguments.method)
    print(summary(features))
    n_seen, n_unseen = len(model.seen_classes_), len(model.unseen_classes_)
    print(f"{n_seen} classes with images, {n_unseen} described only")
    if n_unseen:
        print(f"described only: {plain(name_some(model.unseen_classes_.tolist(), 10))}")
    if arguments.none is not None:
        print(
            f"none of these: {model.false_alarm_rate_:.3f} of images of known classes are taken "
            f"for none, {model.detection_rate_:.3f} of others are found (classes left out)"
        )
    print(f"wrote {plain(arguments.out)}")
    return 0


def run_tune(arguments: argparse.Namespace) -> int:
    """Search, and print the best settings."""
    if arguments.tune == "none":
        raise ValueError("--tune none leaves nothing to search; name a grid.")
    if arguments.none is not None:
        raise ValueError("--none is for zslearn fit.")
    _, _, model = _fitted(arguments)
    results = getattr(model, "cv_results_", {})
    # The first is what settings were chosen by.
    score = next((name for name in results if name.startswith("mean_test_")), None)
    if score is None:
        raise ValueError("Fewer than four classes have images: none can be left out to tune on.")
    table = pd.DataFrame(results).sort_values(score, ascending=False, kind="stable")
    shown = pd.DataFrame(list(table["params"])).astype(str)
    shown[score.removeprefix("mean_test_")] = [f"{value:.3f}" for value in table[score]]
    shown.index = pd.Index(range(1, len(shown) + 1), name="rank")
    print_table(shown.head(_SETTINGS), title=f"Best of {len(shown)} settings")
    return 0


def _fitted(arguments: argparse.Namespace) -> tuple[ImageFeatures, Description, Any]:
    """Features, what describes the classes, and the fitted method."""
    if arguments.signatures is not None and arguments.text_encoder is not None:
        raise ValueError("--text-encoder is for --describe.")
    # Read before long work, so that mistakes in it are found at once.
    find_method(METHODS_IN_SHORT.get(arguments.method.casefold(), arguments.method))
    if arguments.none is not None and not 0 < arguments.none < 1:
        raise ValueError(f"--none {arguments.none:g}: give a share between 0 and 1, such as 0.05.")
    if arguments.jobs == 0:
        raise ValueError("--jobs 0: give the number of folds at the same time, such as 1.")
    for path in (arguments.out, arguments.keep_features):
        if path is not None:
            refuse_folder(path)
    texts = None if arguments.describe is None else describe_in_words(arguments.describe)
    table = None if arguments.signatures is None else read_class_table(arguments.signatures)
    with warnings_as_lines():
        features = _features(arguments)
        say_how_it_went(features)
        if table is None:
            say("Reading the descriptions")
            table = describe_in_text(
                texts or {},
                arguments.text_encoder,
                about_features=features.about,
                progress=True,
            )
        say(f"Fitting {arguments.method}")
        model = fit_images(
            features,
            table.signatures,
            arguments.method,
            tune=None if arguments.tune == "none" else arguments.tune,
            leave_out=arguments.leave_out,
            none_rate=arguments.none,
            random_state=arguments.seed,
            n_jobs=arguments.jobs,
            progress=True,
        )
    return features, table, model


def _features(arguments: argparse.Namespace) -> ImageFeatures:
    """Features of the source; those of images are kept for another time."""
    if arguments.source.suffix == ".npz":
        given = [
            f"--{name}"
            for name in ("backbone", "weights", "boxes", "crop")
            if getattr(arguments, name) is not None
        ]
        if given:
            raise ValueError(f"{given[0]} is for images; {plain(arguments.source)} holds features.")
        return read_features(arguments.source)
    kept = arguments.keep_features
    if kept is None and arguments.out is not None:
        kept = arguments.out.with_name(f"{arguments.out.stem}.features.npz")
    return read_features(
        arguments.source, out=kept, progress=True, say=say, **network_options(arguments)
    )
