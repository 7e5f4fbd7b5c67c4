"""`zslearn features`, and commands on model files: `fit`, `tune`, `predict`, `adapt` and others."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._files import refuse_unwritable, replacing
from zslearn._utils._messages import composed, did_you_mean, name_some, plain, warn_user
from zslearn._utils._reading import read_lines
from zslearn.cli._output import (
    PRIOR,
    TAXONOMY,
    add_jobs,
    add_options,
    counted,
    import_from_working_folder,
    print_table,
    say,
    warnings_as_lines,
)
from zslearn.datasets import read_odds, read_ranks
from zslearn.experiments import evaluate
from zslearn.images._backbones import BACKBONES
from zslearn.images._decoding import list_images
from zslearn.images._describing import (
    Description,
    describe_in_text,
    features_for_model,
    read_class_table,
    read_class_texts,
)
from zslearn.images._features import (
    ImageFeatures,
    extract_features,
    is_feature_table,
    load_features,
    table_features,
)
from zslearn.images._fitting import (
    AUTO,
    adapted_model,
    add_classes_to_file,
    add_examples_to_file,
    change_file,
    fit_images,
    fitted_method,
    refuse_undescribed,
    refuse_without,
    save_image_model,
)
from zslearn.images._predicting import (
    candidate_classes,
    explain_predictions,
    prediction_table,
)
from zslearn.metrics import harmonic_mean, rank_accuracy
from zslearn.model_selection import GRIDS, LEADING_METHODS, find_method
from zslearn.persistence._model_files import ModelFile, describe, read_model
from zslearn.signatures import classes_by_node, encoder_name, scale_signatures, taxonomy_hierarchy

#: So many images that were left out are named, and so many settings of a search printed.
_NAMED = 10
#: Rows of a table that a terminal shows; files have all.
_ROWS = 40
_CANDIDATES = (
    "the candidates: classes, a text file with one per line, 'seen', or 'described' for those "
    "without training images (default: all)"
)
#: How columns are brought to one unit.
_SCALINGS = ("auto", "none", "standard", "range")
#: Options that say how images become features.
_NETWORK = ("weights", "boxes", "device", "batch_size", "workers", "backbone", "crop")


def add_features(parser: argparse.ArgumentParser) -> None:
    """Turn images into features by a trained network, and say how features were made."""
    commands = parser.add_subparsers(dest="subcommand", required=True, metavar="extract|show")
    extract = commands.add_parser(
        "extract",
        help="compute the features of images",
        description="Compute the features of images by a trained network and write them, with "
        "labels and the record of how they were made, to one file. After an interruption the same "
        "command goes on where it was. Images that cannot be read are left out and named.",
    )
    images = "a folder with one folder of images per class, or a table .csv of path and label"
    extract.add_argument("images", type=Path, metavar="IMAGES", help=images)
    add_options(
        extract,
        ("--out", "FILE", Path("features.npz"), "where to write"),
        ("--resume", bool, True, "keep what is finished (default), or begin anew"),
    )
    _add_network(extract)
    extract.set_defaults(run=_run_extract)
    shown = commands.add_parser("show", help="say how features were made")
    shown.add_argument("file", type=Path, metavar="FILE", help="a file .npz of features")
    shown.set_defaults(run=_run_show)


def _add_network(parser: argparse.ArgumentParser, *, backbone: bool = True) -> None:
    """Add the words that say how images become features; `_network` reads them."""
    group = parser.add_argument_group("how images become features")
    weights = "the network's weights, .pth or .safetensors; resnet and googlenet need them"
    boxes = "a table .csv with path, x, y, width, height: the part of each image to look at"
    if backbone:
        networks = f"the network: {', '.join(BACKBONES)}, timm:NAME or open_clip:NAME/WEIGHTS"
        crop = "take the middle of each image, or all of it (default: as the network was trained)"
        add_options(
            group,
            ("--backbone", "NAME", None, f"{networks} (default: efficientnet-lite0)"),
            ("--crop", ["center", "squash"], None, crop),
        )
    add_options(
        group,
        ("--weights", "FILE", None, weights),
        ("--boxes", "FILE", None, boxes),
        ("--device", "DEVICE", "auto", "cpu, cuda, …; auto is a GPU if any"),
        ("--batch-size", int, None, "images at once (default: 8 on a CPU, 64 elsewhere)"),
        ("--workers", int, None, "threads that read images (default: one per core)"),
    )


def _network(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the words of `_add_network` say, as arguments of the library."""
    options = {name: getattr(arguments, name, None) for name in _NETWORK}
    return {
        name: value
        for name, value in options.items()
        if value is not None or name not in ("backbone", "crop")
    }


def _refuse_network(arguments: argparse.Namespace) -> None:
    """Refuse words on networks where the source holds features."""
    for name in ("backbone", "weights", "boxes", "crop"):
        if getattr(arguments, name, None) is not None:
            raise ValueError(f"--{name} is for images; {plain(arguments.source)} holds features.")


def _run_extract(arguments: argparse.Namespace) -> int:
    """Compute features and say what was done."""
    with warnings_as_lines():
        features = extract_features(
            arguments.images,
            out=arguments.out,
            resume=arguments.resume,
            progress=True,
            say=say,
            **_network(arguments),
        )
    _name_left_out(features)
    print(_summary(features))
    print(f"wrote {plain(arguments.out)}")
    return 0


def _name_left_out(features: ImageFeatures) -> None:
    """Say how fast images were read, and name those that could not be, on standard error."""
    if features.rate is not None:
        print(f"zslearn: {features.rate:.3g} images per second", file=sys.stderr)
    for name, reason in features.skipped[:_NAMED]:
        print(f"zslearn: left out: {plain(name)}: {plain(reason)}", file=sys.stderr)
    if (more := len(features.skipped) - _NAMED) > 0:
        print(f"zslearn: left out: {more} more", file=sys.stderr)


def _summary(features: ImageFeatures) -> str:
    """What features there are, in one line."""
    about = "a table" if features.thing == "sample" else "an unknown network"
    backbone = plain(features.about.get("backbone", about))
    classes = "no labels"
    if features.y is not None:
        classes = counted(len(set(features.y.tolist())), "class", "es")
    skipped = f", {len(features.skipped)} left out" if features.skipped else ""
    return (
        f"{counted(len(features), features.thing)}{skipped}, {classes}, "
        f"{features.X.shape[1]} features ({backbone})"
    )


def _run_show(arguments: argparse.Namespace) -> int:
    """Print what a file of features holds and how they were made."""
    features = load_features(arguments.file)
    print(_summary(features))
    about = {key: value for key, value in features.about.items() if key != "skipped"}
    print(plain(json.dumps(about, indent=2), lines=True))
    _name_left_out(features)
    return 0


def add_fit(parser: argparse.ArgumentParser) -> None:
    """Fit a method on images or a table of some classes, for all classes that are described.

    Writes one model file. Hyper-parameters, calibration and probabilities are found by leaving out
    classes that have images.
    """
    kept = "where features of images are kept for another fit (default: NAME.features.npz)"
    _add_training(parser)
    add_options(
        parser,
        ("--out", "FILE", Path("model.zsl"), "the model file"),
        ("--keep-features", "FILE", None, kept),
    )
    parser.set_defaults(run=_run_fit)


def add_tune(parser: argparse.ArgumentParser) -> None:
    """Search a method's hyper-parameters by leaving out classes that have images.

    Prints the best settings, and writes no model.
    """
    _add_training(parser)
    parser.set_defaults(run=_run_tune, keep_features=None, out=None)


def _add_training(parser: argparse.ArgumentParser) -> None:
    """Add the words that say what is learned from, and how."""
    source = (
        "a folder with one folder of images per class, a table .csv of paths and labels, a table "
        ".csv or .parquet of features and labels, or a file .npz of features"
    )
    numbers = "a table .csv or .parquet with a row of numbers per class, named by the first column"
    encoder = (
        "what reads the texts: use, minilm, glove, st:FOLDER, or backbone for the text side of an "
        "open_clip model (default: backbone where it has one, else use)"
    )
    method = (
        "the method, as zslearn bench names them; auto takes what classes left out choose among "
        f"{', '.join(LEADING_METHODS)}, and with --tune none the first"
    )
    none = "recognise images of none of the classes, at this share of false alarms, such as 0.05"
    parser.add_argument("source", type=Path, metavar="IMAGES|TABLE", help=source)
    texts = "a table .csv with the columns class and text, or a .json of texts by class"
    prompts = 'what each text is put into at "{}"; several are averaged'
    described = parser.add_mutually_exclusive_group(required=True)
    described.add_argument("--signatures", type=Path, metavar="FILE", help=numbers)
    described.add_argument("--describe", type=Path, metavar="FILE", help=texts)
    parser.add_argument(
        "--leave-out", nargs="+", type=composed, default=(), metavar="CLASS",
        help="classes whose images are not trained on",
    )  # fmt: skip
    add_options(
        parser,
        ("--text-encoder", "NAME", None, encoder),
        ("--prompts", "PROMPT…", None, prompts),
        ("--method", "METHOD", AUTO, method),
        ("--tune", [*GRIDS, "none"], "fast", "which hyper-parameters are searched"),
        ("--none", float, None, none),
        ("--taxonomy", "FILE", None, f"{TAXONOMY}: also answer at the deepest rank that is sure"),
        ("--seed", int, 0, "seed"),
    )
    add_jobs(parser)
    units = "bring columns of signatures to one unit; auto does where some are much larger"
    label = "the column of labels (default: label)"
    add_options(
        parser,
        ("--signature-scaling", _SCALINGS, "auto", units),
    )
    add_options(
        parser.add_argument_group("a table of features"),
        ("--label", "COLUMN", None, label),
        ("--drop", "COLUMN…", None, "columns that are no features"),
        ("--feature-scaling", _SCALINGS, "auto", "the same for the columns of features"),
    )
    _add_network(parser)


def _run_fit(arguments: argparse.Namespace) -> int:
    """Fit a method, write the model file, and say what is in it."""
    features, description, model = _fitted(arguments)
    trained = features
    if arguments.leave_out and features.y is not None:
        trained = features.take(~pd.Series(features.y).isin(list(arguments.leave_out)).to_numpy())
    method = fitted_method(model, arguments.method)
    save_image_model(model, arguments.out, trained, description, method=method)
    print(f"{_summary(features)}; method: {method}")
    n_seen, n_unseen = len(model.seen_classes_), len(model.unseen_classes_)
    print(f"{n_seen} classes with {features.thing}s, {n_unseen} described only")
    if n_unseen:
        print(f"described only: {plain(name_some(model.unseen_classes_.tolist(), 10))}")
    if arguments.method == AUTO and method != LEADING_METHODS[0]:
        print(
            "to learn from examples later (add-examples, adapt, corrections in serve): --method "
            f"{LEADING_METHODS[0]!r}"
        )
    if arguments.none is not None:
        print(
            f"none of these: {model.false_alarm_rate_:.3f} of {features.thing}s of known classes "
            f"are taken for none, {model.detection_rate_:.3f} of others are found (classes left "
            "out)"
        )
    if arguments.taxonomy is not None:
        print(
            f"ranks: {model.right_rate_:.3f} of {features.thing}s are of the taxon that is named "
            "as sure (classes left out)"
        )
    print(f"wrote {plain(arguments.out)}")
    return 0


def _run_tune(arguments: argparse.Namespace) -> int:
    """Search, and print the best settings."""
    if arguments.tune == "none":
        raise ValueError("--tune none leaves nothing to search; name a grid.")
    for word in ("none", "taxonomy"):
        if getattr(arguments, word) is not None:
            raise ValueError(f"--{word} is for zslearn fit.")
    _, _, model = _fitted(arguments)
    # Behind a scaler where features have several units.
    search = model.steps[-1][1] if hasattr(model, "steps") else model
    results = getattr(search, "cv_results_", {})
    # The first is what settings were chosen by.
    score = next((name for name in results if name.startswith("mean_test_")), None)
    if score is None:
        raise ValueError("Fewer than four classes are seen: none can be left out to tune on.")
    table = pd.DataFrame(results).sort_values(score, ascending=False, kind="stable")
    shown = pd.DataFrame(list(table["params"])).astype(str)
    shown[score.removeprefix("mean_test_")] = [f"{value:.3f}" for value in table[score]]
    shown.index = pd.Index(range(1, len(shown) + 1), name="rank")
    method = fitted_method(model, arguments.method)
    print_table(shown.head(_NAMED), title=f"Best of {len(shown)} settings of {method}")
    return 0


def _fitted(arguments: argparse.Namespace) -> tuple[ImageFeatures, Description, Any]:
    """Features, what describes the classes, and the fitted method."""
    if arguments.signatures is not None:
        for word in ("text_encoder", "prompts"):
            if getattr(arguments, word) is not None:
                raise ValueError(f"--{word.replace('_', '-')} is for --describe.")
    # Checked before long work, so that mistakes are found at once.
    if arguments.method != AUTO:
        import_from_working_folder([arguments.method])
        find_method(arguments.method)
    if arguments.text_encoder not in (None, "backbone"):
        encoder_name(arguments.text_encoder)
    if arguments.none is not None and not 0 < arguments.none < 1:
        raise ValueError(f"--none {arguments.none:g}: give a share between 0 and 1, such as 0.05.")
    if arguments.jobs == 0:
        raise ValueError("--jobs 0: give the number of folds at the same time, such as 1.")
    for path in (arguments.out, arguments.keep_features):
        if path is not None:
            refuse_unwritable(path)
    ranks = None if arguments.taxonomy is None else read_ranks(arguments.taxonomy)
    if arguments.none is not None and ranks is not None:
        raise ValueError("A model answers none of these or at a rank: give --none or --taxonomy.")
    with warnings_as_lines():
        texts = None if arguments.describe is None else read_class_texts(arguments.describe)
        table = None if arguments.signatures is None else read_class_table(arguments.signatures)
        described = (texts or {}) if table is None else table.signatures.index
        features = _training_features(arguments, described)
        _name_left_out(features)
        if table is None:
            say("Reading the descriptions")
            table = describe_in_text(
                texts or {},
                arguments.text_encoder,
                prompts=arguments.prompts,
                about_features=features.about,
                progress=True,
            )
        elif features.y is not None:
            seen = set(features.y.tolist()).difference(arguments.leave_out)
            scaling = _scaling(arguments.signature_scaling)
            where = plain(arguments.signatures)
            scaled = scale_signatures(table.signatures, scaling, seen_classes=seen, where=where)
            table = replace(table, signatures=scaled)
        names = LEADING_METHODS[:1] if arguments.tune == "none" else LEADING_METHODS
        say(f"Fitting {', '.join(names) if arguments.method == AUTO else arguments.method}")
        is_table = features.thing == "sample"
        model = fit_images(
            features,
            table.signatures,
            arguments.method,
            feature_scaling=_scaling(arguments.feature_scaling) if is_table else None,
            tune=None if arguments.tune == "none" else arguments.tune,
            leave_out=arguments.leave_out,
            none_rate=arguments.none,
            taxonomy=ranks,
            random_state=arguments.seed,
            n_jobs=arguments.jobs,
            progress=True,
        )
    return features, table, model


def _scaling(word: str) -> str | None:
    return None if word == "none" else word


def _training_features(arguments: argparse.Namespace, described: Iterable[str]) -> ImageFeatures:
    """Features of the source; those of images are kept for another time."""
    source = arguments.source
    if source.suffix == ".npz":
        _refuse_network(arguments)
        return load_features(source)
    if source.is_file() and is_feature_table(source):
        _refuse_network(arguments)
        return table_features(source, label=arguments.label, drop=arguments.drop or ())
    for name in ("label", "drop"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name} is for a table of features; {plain(source)} is none.")
    # Before any image is computed, which takes long.
    listed = list_images(source)
    refuse_undescribed(listed.labels, described, leave_out=arguments.leave_out)
    kept = arguments.keep_features
    if kept is None and arguments.out is not None:
        kept = arguments.out.with_name(f"{arguments.out.stem}.features.npz")
    options = _network(arguments)
    return extract_features(listed, out=kept, progress=True, say=say, **options)


def _add_model_and_source(parser: argparse.ArgumentParser) -> None:
    source = (
        "a folder of images, a table .csv of their paths, an image, a file .npz of features, or a "
        "table with the columns that the model was fitted on"
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file .zsl")
    parser.add_argument("source", type=Path, metavar="IMAGES|TABLE", help=source)
    _add_network(parser, backbone=False)


def add_predict(parser: argparse.ArgumentParser) -> None:
    """Name the best classes of images, or of samples of a table, by a model file.

    Features of images are made as those of the training images were.
    """
    _add_model_and_source(parser)
    why = (
        "also say why: which seen classes a described one was made from, which attributes decided "
        "against the runner-up, and the nearest training pictures"
    )
    classes = f"{_CANDIDATES}; with --taxonomy also taxa"
    parser.add_argument("--classes", nargs="+", type=composed, metavar="CLASS", help=classes)
    add_options(
        parser,
        ("--taxonomy", "FILE", None, TAXONOMY),
        ("--prior", "FILE", None, PRIOR),
        ("--top", int, 2, "classes per image"),
        ("--out", "FILE", None, "write a table .csv (default: print)"),
        ("--explain", bool, False, why),
    )
    parser.set_defaults(run=_run_predict)


def _run_predict(arguments: argparse.Namespace) -> int:
    """Print or write the best classes of each image."""
    if arguments.top < 1:
        raise ValueError(f"--top {arguments.top}: give a positive number.")
    if arguments.out is not None:
        refuse_unwritable(arguments.out)
    with warnings_as_lines():
        file = read_model(arguments.model)
        # Before images are looked at, which takes long.
        words = _named(arguments.classes, file.model, arguments.taxonomy)
        classes = candidate_classes(file.model, words).tolist()
        prior = None
        if arguments.prior is not None:
            label_of = {str(label): label for label in file.model.classes_.tolist()}
            odds = read_odds(arguments.prior)
            prior = {label_of.get(composed(name), name): number for name, number in odds.items()}
        features = _features_for(arguments, file)
        table = prediction_table(
            file.model, features.X, features.images, classes=classes, top=arguments.top, prior=prior
        )
        if features.thing == "sample":
            table = table.rename(columns={"image": "row"})
        reasons = []
        if arguments.explain:
            reasons = explain_predictions(file, features.X, classes=classes)
    if reasons and (arguments.out is not None or not sys.stdout.isatty()):
        table["explanation"] = ["; ".join(str(why).split("\n  ")[1:]) for why in reasons]
    if arguments.out is not None:
        with replacing(arguments.out) as temporary:
            table.to_csv(temporary, index=False, float_format="%.6g")
        print(f"wrote {plain(arguments.out)}: {counted(len(table), features.thing)}")
    elif not sys.stdout.isatty():
        table.to_csv(sys.stdout, index=False, float_format="%.6g")
    else:
        shown = table.head(_ROWS).set_index(table.columns[0])
        print_table(
            shown.map(lambda cell: f"{cell:.3f}" if isinstance(cell, float) else cell),
            title="Predictions",
        )
        if len(table) > _ROWS:
            print(f"and {len(table) - _ROWS} more; --out FILE writes all")
        for name, why in zip(features.images[:_ROWS], reasons, strict=False):
            print(f"{plain(name)}: {plain(why, lines=True)}")
    return 0


def _named(
    words: list[str] | None, model: Any, taxonomy: str | Path | None = None
) -> list[Any] | None:
    """The candidates that words name: classes, taxa, a kind of class, or a file of names."""
    if words is None:
        return None
    label_of = {str(label): label for label in model.classes_.tolist()}
    below: dict[Any, list[Any]] = {}
    if taxonomy is not None:
        ranks = read_ranks(taxonomy)
        below = classes_by_node(taxonomy_hierarchy(ranks), ranks.index)
    if len(words) == 1 and words[0] not in label_of and words[0] not in below:
        if words[0] == "seen":
            return model.seen_classes_.tolist()
        if words[0] == "described":
            return model.unseen_classes_.tolist()
        if Path(words[0]).is_file():
            words = [composed(line) for line in read_lines(Path(words[0]))]
    if model.classes_.dtype.kind in "iu":
        words = [str(int(w)) if re.fullmatch("-?[0-9]{1,18}", w) else w for w in words]
    named: list[Any] = []
    for word in words:
        if taxonomy is not None and word not in label_of and word not in below:
            near = did_you_mean(word, [*label_of, *below])
            raise ValueError(f"The model and the taxonomy have no {name_some([word])}.{near}")
        # A class may have the name of a taxon, whether the taxonomy has a row of it or not.
        names = dict.fromkeys([*below.get(word, ()), word])
        found = [label_of[name] for name in names if name in label_of]
        named += found if word in below else [label_of.get(word, word)]
    if words and not named:
        raise ValueError(f"The model has no class below {name_some(words)}.")
    return named


def _features_for(
    arguments: argparse.Namespace, file: ModelFile, *, labelled: bool = False
) -> ImageFeatures:
    """Features of the source, made as the model's training images were."""
    options: dict[str, Any] = {}
    source = arguments.source
    if source.suffix == ".npz":
        _refuse_network(arguments)
    else:
        options = _network(arguments) | {"progress": True, "say": say}
        is_list = source.is_dir() or (source.is_file() and not is_feature_table(source))
        if labelled and is_list:
            # Before any image is computed, which takes long.
            refuse_undescribed(list_images(source).labels, file.model.classes_, by="the model")
    features = features_for_model(
        source,
        file.about,
        model_name=plain(arguments.model),
        label=getattr(arguments, "label", None),
        **options,
    )
    if labelled:
        classes = file.model.classes_.astype(str)
        refuse_undescribed(features.y, classes, thing=features.thing, by="the model")
    _name_left_out(features)
    return features


_LABEL = ("--label", "COLUMN", None, "a table's column of labels (default: as in fit)")


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    """Measure a model file on images, or on samples of a table, with labels.

    Prints per-class accuracies of classes with training images and of those that are described
    only; with a taxonomy, also how often the right taxon is named at each rank.
    """
    _add_model_and_source(parser)
    add_options(parser, _LABEL, ("--taxonomy", "FILE", None, TAXONOMY))
    parser.set_defaults(run=_run_evaluate)


def _run_evaluate(arguments: argparse.Namespace) -> int:
    """Print accuracies of a model on images with labels."""
    ranks = None if arguments.taxonomy is None else read_ranks(arguments.taxonomy)
    with warnings_as_lines():
        file = read_model(arguments.model)
        features = _features_for(arguments, file, labelled=True)
        assert features.y is not None
        _warn_of_trained(file, features)
        model, is_seen = file.model, np.isin(features.y, file.model.seen_classes_)
        rows: dict[str, dict[str, Any]] = {}
        accuracies = []
        for what, images, classes in (
            ("seen classes, among all", is_seen, None),
            ("unseen classes, among all", ~is_seen, None),
            ("unseen classes, among these", ~is_seen, model.unseen_classes_),
        ):
            if images.any():
                X, y = features.X[images], features.y[images]
                found = evaluate(model, X, y, classes=classes, k=[5]).metrics
                accuracies.append(found["per_class_accuracy"])
                rows[what] = _cells(
                    accuracies[-1], found.get("flat_hit_at_5"), features.thing, len(y)
                )
                if ranks is not None:
                    right = rank_accuracy(y, model.predict(X, classes=classes), ranks)[:-1]
                    rows[what] |= {str(rank): f"{share:.3f}" for rank, share in right.items()}
    if is_seen.any() and not is_seen.all():
        rows["harmonic mean of the first two"] = _cells(
            harmonic_mean(*accuracies[:2]), None, features.thing, len(features)
        )
    table = pd.DataFrame.from_dict(rows, orient="index").fillna("")
    table.index.name = "per-class accuracy of"
    print_table(table, title=f"{arguments.model} on {arguments.source}")
    return 0


def _cells(accuracy: float, hits: float | None, thing: str, n_rows: int) -> dict[str, Any]:
    return {
        "accuracy": f"{accuracy:.3f}",
        f"F@5 of {thing}s": "" if hits is None else f"{hits:.3f}",
        f"{thing}s": n_rows,
    }


def _warn_of_trained(file: ModelFile, features: ImageFeatures) -> None:
    """Warn of images that a model was trained on."""
    digests = file.extras.get("training_digests", np.empty(0, dtype=str))
    trained = set(digests.ravel().tolist())
    again = [name for name, text in zip(features.images, features.digests) if text in trained]  # noqa: B905
    if again:
        warn_user(
            f"{len(again)} of {len(features)} {features.thing}s were trained on, such as "
            f"{name_some(again, 2)}: accuracies on these say nothing of new {features.thing}s."
        )


def add_add_class(parser: argparse.ArgumentParser) -> None:
    """Describe further classes to a model file; nothing is learned again."""
    table = (
        "a table .csv with the columns of the model's signatures, or with the columns class and "
        "text, or a .json of texts by class, for a model whose classes are described in text"
    )
    encoder = (
        "what reads the texts, for a model that names an encoder in a folder, read on your word"
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file .zsl")
    parser.add_argument("table", type=Path, nargs="?", metavar="TABLE", help=table)
    parser.add_argument("--name", type=composed, metavar="CLASS", help="the class, with --text")
    add_options(
        parser,
        ("--text", "WORDS", None, "what is said of the class, with --name"),
        ("--text-encoder", "NAME", None, encoder),
        ("--out", "FILE", None, "where to write the model (default: in the place of MODEL)"),
    )
    parser.set_defaults(run=_run_add_class)


def _run_add_class(arguments: argparse.Namespace) -> int:
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
        return read_class_texts(arguments.table)
    return read_class_table(arguments.table).signatures


_OUT = ("--out", "FILE", None, "where to write the model (default: in the place of MODEL)")


def add_add_examples(parser: argparse.ArgumentParser) -> None:
    """Give labelled images, or samples of a table, to a model file; nothing else is learned again.

    A few of a class that was only described sharpen what is known of it. Classes that are new come
    with their signatures, or are known by these examples alone.
    """
    _add_model_and_source(parser)
    signatures = "a table of signatures of classes that the model does not describe"
    add_options(parser, _LABEL, ("--signatures", "FILE", None, signatures), _OUT)
    parser.set_defaults(run=_run_add_examples)


def _run_add_examples(arguments: argparse.Namespace) -> int:
    """Add examples and say of which classes."""
    # Before images are looked at, which takes long.
    refuse_unwritable(arguments.out or arguments.model)
    with warnings_as_lines():
        file = read_model(arguments.model)
        refuse_without(file.model, "add_examples", plain(arguments.model))
        table = None
        if arguments.signatures is not None:
            table = read_class_table(arguments.signatures).signatures
        features = _features_for(arguments, file)
        alone = add_examples_to_file(arguments.model, features, table, arguments.out)
    classes = list(dict.fromkeys(np.asarray(features.y).tolist()))
    print(f"added {counted(len(features), features.thing)} of {plain(name_some(classes, 10))}")
    if alone:
        print(f"without a description: {plain(name_some(alone, 10))}")
    print(f"wrote {plain(arguments.out or arguments.model)}")
    return 0


def add_adapt(parser: argparse.ArgumentParser) -> None:
    """Adapt a model file to images, or samples of a table, without labels.

    Classes move to what looks like theirs, if seen classes that were left out of training gained by
    their images; else the model stays as it is, and both numbers are said.
    """
    _add_model_and_source(parser)
    parser.add_argument("--classes", nargs="+", type=composed, metavar="CLASS", help=_CANDIDATES)
    always = "adapt whether left-out classes gained or not"
    add_options(parser, ("--always", bool, False, always), _OUT)
    parser.set_defaults(run=_run_adapt)


def _run_adapt(arguments: argparse.Namespace) -> int:
    """Adapt, and say what moved."""
    accept: Any = True if arguments.always else "cv"
    # Before images are looked at, which takes long.
    refuse_unwritable(arguments.out or arguments.model)
    with warnings_as_lines():
        file = read_model(arguments.model)
        refuse_without(file.model, "adapt", plain(arguments.model))
        classes = candidate_classes(file.model, _named(arguments.classes, file.model))
        features = _features_for(arguments, file)
        options = {"classes": classes, "accept": accept}
        _, done = adapted_model(file.model, features.X, **options)
        if done.accepted:
            # Read anew under a lock: another process may have changed it meanwhile.
            change_file(
                arguments.model,
                arguments.out,
                lambda now: replace(now, model=adapted_model(now.model, features.X, **options)[0]),
            )
    if done.score_before is None or done.score_after is None:
        print("left-out classes: none, as too few are seen")
    else:
        scores = f"{done.score_before:.3f} as it was, {done.score_after:.3f} adapted"
        print(f"left-out classes: {scores}")
    if not done.accepted:
        print(f"{plain(arguments.model)} stays as it was; --always adapts it all the same")
        return 0
    table = pd.DataFrame(
        {
            f"share of the {features.thing}s": done.proportions.map("{:.3f}".format),
            "moved by": done.moved.map("{:.2f}".format),
        }
    ).loc[done.moved.sort_values(ascending=False, kind="stable").index[:_NAMED]]
    table.index.name = "class"
    print_table(table, title=f"Classes that moved most, of {len(done.moved)}")
    if done.unexplained is not None:
        print(f"{done.unexplained:.3f} of {counted(done.n_samples, features.thing)} fit no class")
    print(f"wrote {plain(arguments.out or arguments.model)}")
    return 0
