"""`zslearn predict`, `zslearn evaluate` and `zslearn add-class`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn.cli._features import add_network_options, network_options, say_how_it_went
from zslearn.cli._output import counted, print_table, say, warnings_as_lines
from zslearn.datasets import read_lines
from zslearn.features import ImageFeatures
from zslearn.persistence import ModelFile, describe, read_model
from zslearn.recognition import (
    add_classes_to_file,
    candidate_classes,
    describe_in_words,
    evaluate_images,
    explain_predictions,
    features_for_model,
    prediction_table,
    read_class_table,
)
from zslearn.utils import composed, name_some, plain, refuse_folder, replacing

#: Rows of a table that a terminal shows; files have all.
_ROWS = 40
_MEASURES = {
    "seen": "seen classes, among all",
    "unseen": "unseen classes, among all",
    "harmonic": "harmonic mean of both",
    "unseen_among_unseen": "unseen classes, among these",
}


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the commands to the parser."""
    predict = commands.add_parser(
        "predict",
        parents=[common],
        help="name the classes of images by a model file",
        description="Name the best classes of images by a model file. Features of images are made "
        "as those of the training images were.",
    )
    _add_model_and_source(predict)
    predict.add_argument(
        "--top", type=int, default=2, metavar="K", help="classes per image (default: 2)"
    )
    predict.add_argument(
        "--classes",
        nargs="+",
        type=composed,
        default=None,
        metavar="CLASS",
        help="the candidates: classes, a text file with one per line, 'seen', or 'described' for "
        "those without training images (default: all)",
    )
    predict.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="write a table .csv (default: print)"
    )
    predict.add_argument(
        "--explain",
        action="store_true",
        help="also say why: which seen classes a described one was made from, which attributes "
        "told it from the runner-up, and the nearest training pictures",
    )
    add_network_options(predict, backbone=False)
    predict.set_defaults(run=run_predict)
    evaluate = commands.add_parser(
        "evaluate",
        parents=[common],
        help="measure a model file on images with labels",
        description="Measure a model file on images with labels: per-class accuracies of classes "
        "with training images and of those that are described only.",
    )
    _add_model_and_source(evaluate)
    add_network_options(evaluate, backbone=False)
    evaluate.set_defaults(run=run_evaluate)
    _add_add_class(commands, common)


def _add_model_and_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file .zsl")
    parser.add_argument(
        "source",
        type=Path,
        metavar="IMAGES|FEATURES",
        help="a folder of images, a table .csv of their paths, an image, or a file .npz of "
        "features",
    )


def _add_add_class(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "add-class",
        parents=[common],
        help="describe further classes to a model file",
        description="Describe further classes to a model file; nothing is learned again.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file .zsl")
    parser.add_argument(
        "table",
        type=Path,
        nargs="?",
        default=None,
        metavar="TABLE",
        help="a table .csv with the columns of the model's signatures, or with the columns class "
        "and text for a model whose classes are described in text",
    )
    parser.add_argument(
        "--name", type=composed, default=None, metavar="CLASS", help="the class, with --text"
    )
    parser.add_argument(
        "--text", default=None, metavar="WORDS", help="what is said of the class, with --name"
    )
    parser.add_argument(
        "--text-encoder",
        default=None,
        metavar="NAME",
        help="what reads the texts, for a model that names an encoder in a folder: it is read on "
        "your word alone",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="FILE",
        help="where to write the model (default: in the place of MODEL)",
    )
    parser.set_defaults(run=run_add_class)


def run_predict(arguments: argparse.Namespace) -> int:
    """Print or write the best classes of each image."""
    if arguments.top < 1:
        raise ValueError(f"--top {arguments.top}: give a positive number.")
    if arguments.out is not None:
        refuse_folder(arguments.out)
    with warnings_as_lines():
        file = read_model(arguments.model)
        # Before images are looked at, which takes long.
        classes = candidate_classes(file.model, _named(arguments.classes, file.model)).tolist()
        features = _features(arguments, file)
        table = prediction_table(
            file.model, features.X, features.images, classes=classes, top=arguments.top
        )
        reasons = (
            explain_predictions(file, features.X, classes=classes) if arguments.explain else []
        )
    if reasons and (arguments.out is not None or not sys.stdout.isatty()):
        table["explanation"] = ["; ".join(str(why).split("\n  ")[1:]) for why in reasons]
    if arguments.out is not None:
        with replacing(arguments.out) as temporary:
            table.to_csv(temporary, index=False, float_format="%.6g")
        print(f"wrote {plain(arguments.out)}: {counted(len(table), 'image')}")
    elif sys.stdout.isatty():
        _print_predictions(table)
        for name, why in zip(features.images[:_ROWS], reasons, strict=False):
            print(f"{plain(name)}: {plain(why, lines=True)}")
    else:
        table.to_csv(sys.stdout, index=False, float_format="%.6g")
    return 0


def _print_predictions(table: pd.DataFrame) -> None:
    shown = table.head(_ROWS).set_index("image")
    numbers = shown.select_dtypes("float").columns
    shown = shown.assign(**{name: shown[name].map("{:.3f}".format) for name in numbers})
    print_table(shown, title="Predictions")
    if len(table) > _ROWS:
        print(f"and {len(table) - _ROWS} more; --out FILE writes all")


def _named(words: list[str] | None, model: Any) -> list[Any] | None:
    """The candidates that words name."""
    if words is None:
        return None
    if len(words) == 1 and words[0] not in model.classes_.tolist():
        if words[0] == "seen":
            return model.seen_classes_.tolist()
        if words[0] == "described":
            return model.unseen_classes_.tolist()
        if Path(words[0]).is_file():
            words = [composed(line) for line in read_lines(Path(words[0]))]
    if model.classes_.dtype.kind in "iu":
        return [int(word) if word.lstrip("-").isdecimal() else word for word in words]
    return list(words)


def _features(arguments: argparse.Namespace, file: ModelFile) -> ImageFeatures:
    options = network_options(arguments)
    if arguments.source.suffix == ".npz":
        for name in ("weights", "boxes"):
            if options[name] is not None:
                raise ValueError(
                    f"--{name} is for images; {plain(arguments.source)} holds features."
                )
        options = {}
    else:
        options |= {"progress": True, "say": say}
    features = features_for_model(
        arguments.source, file.about, model_name=plain(arguments.model), **options
    )
    say_how_it_went(features)
    return features


def run_evaluate(arguments: argparse.Namespace) -> int:
    """Print accuracies of a model on images with labels."""
    with warnings_as_lines():
        file = read_model(arguments.model)
        features = _features(arguments, file)
        trained = file.extras.get("training_digests")
        found = evaluate_images(
            file.model,
            features,
            training_digests=() if trained is None else trained.ravel().tolist(),
        )
    rows = {}
    for name, what in _MEASURES.items():
        if name in found.metrics:
            top = found.metrics.get(f"{name}_top_5")
            images = found.n_images["seen" if name == "seen" else "unseen"]
            rows[what] = {
                "accuracy": f"{found.metrics[name]:.3f}",
                "among the best 5": "" if top is None else f"{top:.3f}",
                "images": sum(found.n_images.values()) if name == "harmonic" else images,
            }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "per-class accuracy of"
    print_table(table, title=f"{arguments.model} on {arguments.source}")
    return 0


def run_add_class(arguments: argparse.Namespace) -> int:
    """Describe further classes and say which."""
    by_text = arguments.text is not None or arguments.name is not None
    if (arguments.table is None) != by_text or (
        by_text and (arguments.text is None or arguments.name is None)
    ):
        raise ValueError("Give a table of classes, or --name and --text.")
    with warnings_as_lines():
        labels = add_classes_to_file(
            arguments.model,
            _description(arguments),
            arguments.out,
            encoder=arguments.text_encoder,
        )
    print(f"added {plain(name_some(labels, 10))}")
    print(f"wrote {plain(arguments.out or arguments.model)}")
    return 0


def _description(arguments: argparse.Namespace) -> Any:
    """Texts or numbers, whichever the model's classes are described by."""
    if arguments.table is None:
        return {arguments.name: [arguments.text]}
    about = describe(arguments.model).get("about")
    signatures = about.get("signatures") if isinstance(about, dict) else None
    if isinstance(signatures, dict) and signatures.get("kind") == "text":
        return describe_in_words(arguments.table)
    return read_class_table(arguments.table).signatures
