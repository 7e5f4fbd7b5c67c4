"""`zslearn features`, and commands on model files: `fit`, `tune`, `predict`, `adapt` and others."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn import images
from zslearn._utils._files import atomic_write, refuse_unwritable
from zslearn._utils._messages import composed, did_you_mean, name_some, plain, warn_user
from zslearn._utils._reading import read_lines
from zslearn.cli._output import (
    PRIOR,
    SCALINGS,
    TAXONOMY,
    counted,
    import_from_working_folder,
    jobs,
    print_table,
    say,
    scaling,
)
from zslearn.datasets import read_odds, read_ranks
from zslearn.metrics import harmonic_mean, rank_accuracy
from zslearn.model_selection import GRIDS, LEADING_METHODS, find_method
from zslearn.persistence import ModelFile, describe, read_model
from zslearn.signatures import classes_by_node, encoder_name, taxonomy_hierarchy

#: Unreadable images that are named, and settings of a search that are printed, at most.
_NAMED = 10
#: Rows of a table that a terminal shows; files have all.
_ROWS = 40


def _network(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the words of `_NETWORK` say, and how to show progress, as arguments."""
    names = ("weights", "boxes", "device", "batch_size", "backbone", "crop")
    options = {name: getattr(arguments, name, None) for name in names}
    given = {name: value for name, value in options.items() if value is not None}
    return given | {"progress": True, "say": say}


def _run_extract(arguments: argparse.Namespace) -> int:
    """Compute features and say what was done."""
    options = {"out": arguments.out, "resume": arguments.resume, **_network(arguments)}
    samples = images.extract_features(arguments.images, **options)
    _name_left_out(samples)
    print(_summary(samples))
    print(f"wrote {plain(arguments.out)}")
    return 0


def _name_left_out(samples: images.Samples) -> None:
    """Name images that could not be read, on standard error."""
    for name, reason in samples.skipped[:_NAMED]:
        print(f"zslearn: left out: {plain(name)}: {plain(reason)}", file=sys.stderr)
    if (more := len(samples.skipped) - _NAMED) > 0:
        print(f"zslearn: left out: {more} more", file=sys.stderr)


def _summary(samples: images.Samples) -> str:
    """What samples there are, in one line."""
    source = "a table" if "columns" in samples.about else "an unknown network"
    backbone = plain(samples.about.get("backbone", source))
    classes = "no labels"
    if samples.y is not None:
        classes = counted(len(set(samples.y.tolist())), "class", "es")
    skipped = f", {len(samples.skipped)} left out" if samples.skipped else ""
    return (
        f"{counted(len(samples), samples.row_noun)}{skipped}, {classes}, "
        f"{samples.X.shape[1]} features ({backbone})"
    )


def _run_show(arguments: argparse.Namespace) -> int:
    """Print what a file of features holds and how they were made."""
    samples = images.load_features(arguments.file)
    print(_summary(samples))
    about = {key: value for key, value in samples.about.items() if key != "skipped"}
    print(plain(json.dumps(about, indent=2), lines=True))
    _name_left_out(samples)
    return 0


def _run_fit(arguments: argparse.Namespace) -> int:
    """Fit a method on images or a table of some classes, for all classes that are described.

    Writes one model file. Hyper-parameters, calibration and probabilities are found on held-out
    classes.
    """
    samples, description, model = _fitted(arguments)
    noun, method = samples.row_noun, images.fitted_method(model, arguments.method)
    trained = samples.take(~np.isin(np.asarray(samples.y), arguments.leave_out))
    images.save_fitted(model, arguments.out, trained, description, method=method)
    print(f"{_summary(samples)}; method: {method}")
    n_seen, n_unseen = len(model.seen_classes_), len(model.unseen_classes_)
    print(f"{n_seen} classes with {noun}s, {n_unseen} described only")
    if n_unseen:
        print(f"described only: {plain(name_some(model.unseen_classes_.tolist(), 10))}")
    if arguments.method == "auto" and method != LEADING_METHODS[0]:
        print(
            "to learn from examples later (add-examples, adapt, corrections in serve): --method "
            f"{LEADING_METHODS[0]!r}"
        )
    if arguments.none is not None:
        print(
            f"none of these: {model.false_alarm_rate_:.3f} of {noun}s of known classes are taken "
            f"for none, {model.detection_rate_:.3f} of others are found (held-out classes)"
        )
    if arguments.taxonomy is not None:
        print(
            f"ranks: {model.accuracy_:.3f} of {noun}s are of the taxon that is named as sure "
            "(held-out classes)"
        )
    print(f"wrote {plain(arguments.out)}")
    return 0


def _run_tune(arguments: argparse.Namespace) -> int:
    """Search a method's hyper-parameters on held-out classes.

    Prints the best settings, and writes no model.
    """
    for name in ("keep_features", "out", "none", "taxonomy"):
        setattr(arguments, name, None)
    _, _, model = _fitted(arguments)
    # Behind a scaler where features have several units.
    search = model.steps[-1][1] if hasattr(model, "steps") else model
    results = getattr(search, "cv_results_", {})
    # The first is what settings were chosen by.
    score = next((name for name in results if name.startswith("mean_test_")), None)
    if score is None:
        raise ValueError("Fewer than four classes are seen: none can be held out to tune on.")
    table = pd.DataFrame(results).sort_values(score, ascending=False, kind="stable")
    shown = pd.DataFrame(list(table["params"])).astype(str)
    shown[score.removeprefix("mean_test_")] = [f"{value:.3f}" for value in table[score]]
    shown.index = pd.Index(range(1, len(shown) + 1), name="rank")
    method = images.fitted_method(model, arguments.method)
    print_table(shown.head(_NAMED), title=f"Best of {len(shown)} settings of {method}")
    return 0


def _fitted(arguments: argparse.Namespace) -> tuple[images.Samples, images.Description, Any]:
    """Samples, what describes the classes, and the fitted method."""
    # Checked before long work, so that mistakes are found at once.
    if (arguments.signatures is None) == (arguments.describe is None):
        raise ValueError("Describe the classes: give --signatures or --describe.")
    if arguments.none is not None and arguments.taxonomy is not None:
        raise ValueError("A model answers none of these or at a rank: give --none or --taxonomy.")
    if arguments.signatures is not None:
        for word in ("text_encoder", "prompts"):
            if getattr(arguments, word) is not None:
                raise ValueError(f"--{word.replace('_', '-')} is for --describe.")
    if arguments.method != "auto":
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
    by_text = arguments.describe is not None
    texts = images.read_class_texts(arguments.describe) if by_text else {}
    table = None if by_text else images.read_class_table(arguments.signatures)
    kept = arguments.keep_features
    if kept is None and arguments.out is not None:
        kept = arguments.out.with_name(f"{arguments.out.stem}.features.npz")
    samples = images.read_samples(
        arguments.source,
        label=arguments.label,
        drop=arguments.drop,
        described=texts if table is None else table.signatures.index,
        leave_out=arguments.leave_out,
        out=kept,
        **_network(arguments),
    )
    _name_left_out(samples)
    if table is None:
        say("Reading the descriptions")
        options = {"prompts": arguments.prompts, "about_features": samples.about}
        table = images.describe_in_text(texts, arguments.text_encoder, progress=True, **options)
    is_tuned = arguments.tune != "none"
    names = LEADING_METHODS[: None if is_tuned else 1]
    say(f"Fitting {', '.join(names) if arguments.method == 'auto' else arguments.method}")
    is_table = "columns" in samples.about
    model = images.fit_samples(
        samples,
        table.signatures,
        arguments.method,
        tune=arguments.tune if is_tuned else None,
        leave_out=arguments.leave_out,
        none_rate=arguments.none,
        taxonomy=ranks,
        feature_scaling=scaling(arguments.feature_scaling) if is_table else None,
        signature_scaling=None if by_text else scaling(arguments.signature_scaling),
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        progress=True,
    )
    return samples, table, model


def _run_predict(arguments: argparse.Namespace) -> int:
    """Name the best classes of images, or of samples of a table, by a model file.

    Features of images are made as those of the training images were.
    """
    if arguments.top < 1:
        raise ValueError(f"--top {arguments.top}: give a positive number.")
    if arguments.out is not None:
        refuse_unwritable(arguments.out)
    file = read_model(arguments.model)
    # Before images are looked at, which takes long.
    classes = _candidates(arguments, file.model)
    prior = None
    if arguments.prior is not None:
        label_of = {str(label): label for label in file.model.classes_.tolist()}
        odds = read_odds(arguments.prior)
        prior = {label_of.get(composed(name), name): number for name, number in odds.items()}
    samples = _samples_for(arguments, file)
    noun, options = samples.row_noun, {"classes": classes, "top": arguments.top, "prior": prior}
    column = "row" if "columns" in samples.about else noun
    table = images.prediction_table(
        file.model, samples.X, samples.names, row_noun=column, **options
    )
    reasons = []
    if arguments.explain:
        reasons = images.explain_predictions(file, samples.X, classes=classes)
    if reasons and (arguments.out is not None or not sys.stdout.isatty()):
        table["explanation"] = ["; ".join(str(why).split("\n  ")[1:]) for why in reasons]
    if arguments.out is not None:
        with atomic_write(arguments.out) as temporary:
            table.to_csv(temporary, index=False, float_format="%.6g")
        print(f"wrote {plain(arguments.out)}: {counted(len(table), noun)}")
    elif not sys.stdout.isatty():
        table.to_csv(sys.stdout, index=False, float_format="%.6g")
    else:
        shown = table.head(_ROWS).set_index(column)
        print_table(
            shown.map(lambda cell: f"{cell:.3f}" if isinstance(cell, float) else cell),
            title="Predictions",
        )
        if len(table) > _ROWS:
            print(f"and {len(table) - _ROWS} more; --out FILE writes all")
        for name, why in zip(samples.names[:_ROWS], reasons, strict=False):
            print(f"{plain(name)}: {plain(why, lines=True)}")
    return 0


def _candidates(arguments: argparse.Namespace, model: Any) -> list[Any] | None:
    """The candidates that `--classes` names: classes, taxa, a kind of class, or a file of names."""
    words, taxonomy = arguments.classes, getattr(arguments, "taxonomy", None)
    if words is None:
        return None
    label_of = {str(label): label for label in model.classes_.tolist()}
    below: dict[Any, list[Any]] = {}
    if taxonomy is not None:
        ranks = read_ranks(taxonomy)
        below = classes_by_node(taxonomy_hierarchy(ranks), ranks.index)
    if len(words) == 1 and words[0] not in label_of and words[0] not in below:
        kinds = {"seen": model.seen_classes_, "described": model.unseen_classes_}
        if words[0] in kinds:
            return kinds[words[0]].tolist()
        if Path(words[0]).is_file():
            words = [composed(line) for line in read_lines(Path(words[0]))]
    if unknown := [word for word in words if word not in label_of and word not in below]:
        near = did_you_mean(unknown[0], [*label_of, *below])
        whose = "The model has" if taxonomy is None else "The model and the taxonomy have"
        raise ValueError(f"{whose} no {name_some(unknown)}.{near}")
    # A class may have the name of a taxon.
    names = [name for word in words for name in (*below.get(word, ()), word)]
    if not (found := [label_of[name] for name in dict.fromkeys(names) if name in label_of]):
        raise ValueError(f"The model has no class below {name_some(words)}.")
    return found


def _samples_for(
    arguments: argparse.Namespace, file: ModelFile, *, described: Sequence[str] | None = None
) -> images.Samples:
    """Features of the source, made as those of the model's training samples were."""
    samples = images.features_for_model(
        arguments.source,
        file.about,
        model_name=plain(arguments.model),
        label=getattr(arguments, "label", None),
        described=described,
        **_network(arguments),
    )
    _name_left_out(samples)
    return samples


def _run_evaluate(arguments: argparse.Namespace) -> int:
    """Measure a model file on labelled images, or samples of a table.

    Prints per-class accuracies of classes with training images and of those that are described
    only; with a taxonomy, also how often the right taxon is named at each rank.
    """
    # Loads what runs and tables need, which the other commands do without.
    from zslearn.experiments import evaluate

    ranks = None if arguments.taxonomy is None else read_ranks(arguments.taxonomy)
    file = read_model(arguments.model)
    model = file.model
    samples = _samples_for(arguments, file, described=model.classes_.astype(str).tolist())
    noun, labels = samples.row_noun, np.asarray(samples.y)
    _warn_of_trained(file, samples)
    is_seen = np.isin(labels, model.seen_classes_)
    rows: dict[str, dict[str, Any]] = {}
    accuracies = []
    for what, chosen, classes in (
        ("seen classes, among all", is_seen, None),
        ("unseen classes, among all", ~is_seen, None),
        ("unseen classes, among these", ~is_seen, model.unseen_classes_),
    ):
        if chosen.any():
            X, y = samples.X[chosen], labels[chosen]
            found = evaluate(model, X, y, classes=classes, k=[5]).metrics
            accuracies.append(found["per_class_accuracy"])
            rows[what] = _cells(accuracies[-1], found.get("flat_hit_at_5"), noun, len(y))
            if ranks is not None:
                right = rank_accuracy(y, model.predict(X, classes=classes), ranks)[:-1]
                rows[what] |= {str(rank): f"{share:.3f}" for rank, share in right.items()}
    if is_seen.any() and not is_seen.all():
        mean = harmonic_mean(*accuracies[:2])
        rows["harmonic mean of the first two"] = _cells(mean, None, noun, len(labels))
    table = pd.DataFrame.from_dict(rows, orient="index").fillna("")
    table.index.name = "per-class accuracy of"
    print_table(table, title=f"{arguments.model} on {arguments.source}")
    return 0


def _cells(accuracy: float, hits: float | None, noun: str, n_rows: int) -> dict[str, Any]:
    """A row of the table of `evaluate`."""
    return {
        "accuracy": f"{accuracy:.3f}",
        f"F@5 of {noun}s": "" if hits is None else f"{hits:.3f}",
        f"{noun}s": n_rows,
    }


def _warn_of_trained(file: ModelFile, samples: images.Samples) -> None:
    """Warn of samples that a model was trained on."""
    trained = set(file.extras.get("training_digests", np.empty(0, dtype=str)).ravel().tolist())
    pairs = zip(samples.names, samples.digests, strict=False)
    again = [name for name, digest in pairs if digest in trained]
    if again:
        warn_user(
            f"{len(again)} of {len(samples)} {samples.row_noun}s were trained on, such as "
            f"{name_some(again, 2)}: accuracies on these say nothing of new {samples.row_noun}s."
        )


def _run_add_class(arguments: argparse.Namespace) -> int:
    """Describe further classes to a model file; nothing is learned again."""
    by_text = arguments.text is not None or arguments.name is not None
    if (arguments.table is None) != by_text or (
        by_text and (arguments.text is None or arguments.name is None)
    ):
        raise ValueError("Give a table of classes, or --name and --text.")
    description, encoder = _description(arguments), arguments.text_encoder
    labels = images.add_classes_to_file(
        arguments.model, description, arguments.out, encoder=encoder
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
        return images.read_class_texts(arguments.table)
    return images.read_class_table(arguments.table).signatures


def _run_add_examples(arguments: argparse.Namespace) -> int:
    """Give labelled images, or samples of a table, to a model file; nothing else is learned again.

    A few of a class that was only described sharpen what is known of it. Classes that are new come
    with their signatures, or are known by these examples alone.
    """
    file = _read_learning(arguments, "add_examples")
    table = None
    if arguments.signatures is not None:
        table = images.read_class_table(arguments.signatures).signatures
    samples = _samples_for(arguments, file)
    alone = images.add_examples_to_file(arguments.model, samples, table, arguments.out)
    classes = list(dict.fromkeys(np.asarray(samples.y).tolist()))
    print(f"added {counted(len(samples), samples.row_noun)} of {plain(name_some(classes, 10))}")
    if alone:
        print(f"without a description: {plain(name_some(alone, 10))}")
    print(f"wrote {plain(arguments.out or arguments.model)}")
    return 0


def _read_learning(arguments: argparse.Namespace, verb: str) -> ModelFile:
    """A model file that can learn later; all is checked before images are looked at."""
    refuse_unwritable(arguments.out or arguments.model)
    file = read_model(arguments.model)
    images.check_can_learn(file.model, verb, plain(arguments.model))
    return file


def _run_adapt(arguments: argparse.Namespace) -> int:
    """Adapt a model file to unlabelled images, or samples of a table.

    Class means move to what looks like theirs, if held-out classes gained by their unlabelled
    images; else the model stays as it is. Both accuracies are printed. Calibration is kept.
    """
    file = _read_learning(arguments, "adapt")
    classes = _candidates(arguments, file.model)
    samples = _samples_for(arguments, file)
    accept: Any = True if arguments.always else "cv"
    options = {"classes": classes, "accept": accept, "out": arguments.out}
    done = images.adapt_file(arguments.model, samples, **options)
    if done.score_before is None or done.score_after is None:
        print("held-out classes: none, as too few are seen")
    else:
        scores = f"{done.score_before:.3f} as it was, {done.score_after:.3f} adapted"
        print(f"held-out classes: {scores}")
    if not done.accepted:
        print(f"{plain(arguments.model)} stays as it was; --always adapts it all the same")
        return 0
    columns = {
        f"share of the {samples.row_noun}s": done.proportions.map("{:.3f}".format),
        "moved by": done.moved.map("{:.2f}".format),
    }
    most = done.moved.sort_values(ascending=False, kind="stable").index[:_NAMED]
    table = pd.DataFrame(columns).loc[most].rename_axis("class")
    print_table(table, title=f"Classes that moved most, of {len(done.moved)}")
    if done.background_share is not None:
        number = counted(done.n_samples, samples.row_noun)
        print(f"{done.background_share:.3f} of {number} fit no class")
    print(f"wrote {plain(arguments.out or arguments.model)}")
    return 0


#: Arguments that say how images become features; those of a model file name no network.
_READING = (
    "how images become features",
    ("--weights", "FILE", None, "weights, .pth or .safetensors; resnet and googlenet need them"),
    ("--boxes", "FILE", None, "a table .csv with path, x, y, width, height: the part to look at"),
    ("--device", "DEVICE", "auto", "cpu, cuda, …; auto is a GPU if any"),
    ("--batch-size", int, None, "images at once (default: 8 on a CPU, 64 elsewhere)"),
)
_NETWORKS = f"the network: {', '.join(images.BACKBONES)}, timm:NAME or open_clip:NAME/WEIGHTS"
_CROP = "take the middle of each image, or all of it (default: as the network was trained)"
_NETWORK = (
    *_READING,
    ("--backbone", "NAME", None, f"{_NETWORKS} (default: efficientnet-lite0)"),
    ("--crop", ["center", "squash"], None, _CROP),
)
_SOURCE = (
    "a folder with one folder of images per class, a table .csv of paths and labels, a table .csv "
    "or .parquet of features and labels, or a file .npz of features"
)
_ENCODER = (
    "what reads the texts: use, minilm, glove, st:FOLDER, or backbone for the text side of an "
    "open_clip model (default: backbone where it has one, else use)"
)
_METHOD = (
    "the method, as zslearn bench names them; auto takes what held-out classes choose among "
    f"{', '.join(LEADING_METHODS)}, and with --tune none the first"
)
_TRAINING = (
    ("source", "IMAGES|TABLE", ..., _SOURCE),
    ("--signatures", "FILE", None, "a table .csv or .parquet with a row of numbers per class"),
    ("--describe", "FILE", None, "texts of classes: a .csv with columns class, text, or a .json"),
    ("--leave-out", "CLASS…", (), "classes whose images are not trained on"),
    ("--text-encoder", "NAME", None, _ENCODER),
    ("--prompts", "PROMPT…", None, 'what each text is put into at "{}"; several are averaged'),
    ("--method", "METHOD", "auto", _METHOD),
    ("--seed", int, 0, "seed"),
    ("--signature-scaling", SCALINGS, "auto", "standardise signatures; auto: in large columns"),
    jobs(),
    "a table of features",
    ("--label", "COLUMN", None, "the column of labels (default: label)"),
    ("--drop", "COLUMN…", (), "columns that are no features"),
    ("--feature-scaling", SCALINGS, "auto", "the same for the columns of features"),
    *_NETWORK,
)
_MODEL = ("model", "MODEL", ..., "a model file .zsl")
_SAMPLES = (
    "a folder of images, a table .csv of their paths, an image, a file .npz of features, or a "
    "table with the columns that the model was fitted on"
)
_GIVEN = (_MODEL, ("source", "IMAGES|TABLE", ..., _SAMPLES))
_LABEL = ("--label", "COLUMN", None, "a table's column of labels (default: as in fit)")
_OUT = ("--out", "FILE", None, "where to write the model (default: in the place of MODEL)")
_CLASSES = (
    "the candidates: classes, a text file with one per line, 'seen', or 'described' for those "
    "without training images (default: all); with --taxonomy also taxa"
)
_EXPLAIN = (
    "also say why: which seen classes a described one was made from, which attributes decided "
    "against the runner-up, and the nearest training pictures"
)
_TEXTS = (
    "a table .csv with the columns of the model's signatures, or with the columns class and text, "
    "or a .json of texts by class, for a model whose classes are described in text"
)
OPTIONS = {
    "features": {
        "extract": (
            _run_extract,
            "compute the features of images; by a trained network, and write them, with labels and "
            "the record of how they were made, to one file. After an interruption the same command "
            "continues. Images that cannot be read are left out and named",
            ("images", "IMAGES", ..., "a folder of folders by class, or a .csv of path and label"),
            ("--out", "FILE", Path("features.npz"), "where to write"),
            ("--resume", bool, True, "keep what is finished (default), or begin anew"),
            *_NETWORK,
        ),
        "show": (
            _run_show,
            "say how features were made",
            ("file", "FILE", ..., "a file .npz of features"),
        ),
    },
    "fit": (
        _run_fit,
        ("--out", "FILE", Path("model.zsl"), "the model file"),
        ("--keep-features", "FILE", None, "a file for features (default: NAME.features.npz)"),
        ("--tune", [*GRIDS, "none"], "fast", "which hyper-parameters are searched"),
        ("--none", float, None, "recognise images of no class, at this rate of false alarms"),
        ("--taxonomy", "FILE", None, f"{TAXONOMY}: also answer at the deepest rank that is sure"),
        *_TRAINING,
    ),
    "tune": (
        _run_tune,
        ("--tune", GRIDS, "fast", "which hyper-parameters are searched"),
        *_TRAINING,
    ),
    "predict": (
        _run_predict,
        *_GIVEN,
        ("--classes", "CLASS…", None, _CLASSES),
        ("--taxonomy", "FILE", None, TAXONOMY),
        ("--prior", "FILE", None, PRIOR),
        ("--top", int, 2, "classes per image"),
        ("--out", "FILE", None, "write a table .csv (default: print)"),
        ("--explain", bool, False, _EXPLAIN),
        *_READING,
    ),
    "evaluate": (_run_evaluate, *_GIVEN, _LABEL, ("--taxonomy", "FILE", None, TAXONOMY), *_READING),
    "add-class": (
        _run_add_class,
        _MODEL,
        ("table", "FILE", None, _TEXTS),
        ("--name", "CLASS", None, "the class, with --text"),
        ("--text", "WORDS", None, "what is said of the class, with --name"),
        ("--text-encoder", "NAME", None, "for a model that names an encoder in a folder"),
        _OUT,
    ),
    "add-examples": (
        _run_add_examples,
        *_GIVEN,
        _LABEL,
        ("--signatures", "FILE", None, "a table of signatures of classes that are new"),
        _OUT,
        *_READING,
    ),
    "adapt": (
        _run_adapt,
        *_GIVEN,
        ("--classes", "CLASS…", None, _CLASSES.partition(";")[0]),
        ("--always", bool, False, "adapt whether held-out classes gained or not"),
        _OUT,
        *_READING,
    ),
}
