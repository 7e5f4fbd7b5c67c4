"""`zslearn features` and the commands on model files, such as `fit`, `predict` and `adapt`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn import images
from zslearn._utils._files import refuse_unwritable
from zslearn._utils._messages import composed, did_you_mean, name_some, plain, warn_user
from zslearn._utils._reading import read_lines
from zslearn.cli import _output as out
from zslearn.datasets import read_odds, read_ranks
from zslearn.metrics import class_accuracies, harmonic_mean, rank_accuracy
from zslearn.model_selection import GRIDS, LEADING_METHODS, TableClassifier, find_method
from zslearn.persistence import ModelFile, describe, read_model
from zslearn.signatures import classes_by_node, encoder_name, taxonomy_hierarchy

#: Maximum number of printed images, settings and classes.
_MAX_LISTED = 10
#: Maximum number of predictions printed on a terminal; files contain all.
_MAX_ROWS = 40


def _network(arguments: argparse.Namespace) -> dict[str, Any]:
    """Convert the options of `_NETWORK` to arguments, with progress messages."""
    names = ("weights", "boxes", "device", "batch_size", "backbone", "crop")
    options = {name: getattr(arguments, name, None) for name in names}
    given = {name: value for name, value in options.items() if value is not None}
    return given | {"progress": True, "say": out.say}


def _run_extract(arguments: argparse.Namespace) -> None:
    """Compute features of images with a pretrained network.

    One file with features, labels and a record of how they were computed is written. After an
    interruption, the same command resumes. Unreadable images are skipped and listed.
    """
    options = {"out": arguments.out, "resume": arguments.resume, **_network(arguments)}
    samples = images.extract_features(arguments.images, **options)
    _print_skipped(samples)
    line, about = _summary(samples)
    out.note(line, **about)
    out.wrote(arguments.out)


def _print_skipped(samples: images.Samples) -> None:
    """Print the images that could not be read, on standard error."""
    for name, reason in samples.skipped[:_MAX_LISTED]:
        print(f"zslearn: skipped: {plain(name)}: {plain(reason)}", file=sys.stderr)
    if (more := len(samples.skipped) - _MAX_LISTED) > 0:
        print(f"zslearn: skipped: {more} more", file=sys.stderr)


def _summary(samples: images.Samples) -> tuple[str, dict[str, Any]]:
    """Summarise samples in one line, and as values."""
    is_table = "columns" in samples.about
    source, noun = ("a table", "columns") if is_table else ("an unknown network", "features")
    classes = None if samples.y is None else sorted(set(samples.y.tolist()))
    parts = [
        out.counted(len(samples), samples.row_noun),
        f"{len(samples.skipped)} skipped" if samples.skipped else "",
        "no labels" if classes is None else out.counted(len(classes), "class", "es"),
        f"{samples.X.shape[1]} {noun} ({plain(samples.about.get('backbone', source))})",
    ]
    return ", ".join(filter(None, parts)), {
        "n_samples": len(samples),
        "n_features": samples.X.shape[1],
        "classes": classes,
        "skipped": samples.skipped,
        "features": {key: value for key, value in samples.about.items() if key != "skipped"},
    }


def _id_column(samples: images.Samples) -> str:
    """The title of the column with the names of samples."""
    is_table = "columns" in samples.about
    return str(samples.about.get("id", "row")) if is_table else samples.row_noun


def _run_show(arguments: argparse.Namespace) -> None:
    """Show how features were computed."""
    samples = images.load_features(arguments.file)
    line, about = _summary(samples)
    out.result(line, **about)
    out.result(json.dumps(about["features"], indent=2))
    _print_skipped(samples)


def _run_fit(arguments: argparse.Namespace) -> None:
    """Fit a method on images or a table of features, and save a model file.

    The model also predicts classes that are only described. Hyper-parameters and the calibration of
    scores and probabilities are chosen on held-out classes.
    """
    samples, description, model, fitted = _fit(arguments)
    noun, method = samples.row_noun, images.fitted_method(model, arguments.method)
    trained = samples.take(~np.isin(np.asarray(samples.y), arguments.leave_out))
    images.save_fitted(model, arguments.out, trained, description, method=method)
    line, about = _summary(samples)
    out.note(f"{line}; method: {method}", **about, method=method)
    if fitted is not model and model.columns_ is not None:
        out.note(f"columns: {plain(model.summary())}", columns=model.summary())
    if fitted is not model and model.attributes_ is not None:
        described = plain(model.attributes_.summary())
        out.note(f"attributes: {described}", attributes=described)
    seen, unseen = model.seen_classes_.tolist(), model.unseen_classes_.tolist()
    known = f"{len(seen)} classes with {noun}s, {len(unseen)} described only"
    out.note(known, seen_classes=seen, unseen_classes=unseen)
    out.note(f"described only: {name_some(unseen, 10)}" if unseen else "")
    if arguments.method == "auto" and method != LEADING_METHODS[0]:
        out.note(
            "to add examples, adapt the model or correct it in serve later, fit it with --method "
            f"{LEADING_METHODS[0]!r}"
        )
    if arguments.none is not None:
        out.note(
            f"none of these: {fitted.false_alarm_rate_:.3f} of {noun}s of known classes and "
            f"{fitted.detection_rate_:.3f} of others are rejected (held-out classes)",
            false_alarm_rate=fitted.false_alarm_rate_,
            detection_rate=fitted.detection_rate_,
        )
    if arguments.taxonomy is not None:
        out.note(
            f"ranks: on held-out classes, {fitted.accuracy_:.3f} of the {noun}s belong to the "
            "confidently predicted taxon",
            rank_accuracy=fitted.accuracy_,
        )
    out.wrote(arguments.out)


def _run_tune(arguments: argparse.Namespace) -> None:
    """Tune the hyper-parameters of a method on held-out classes.

    Prints the best settings. No model file is written.
    """
    # Imported late, since it loads the packages of experiments.
    from zslearn.experiments import explain_measures

    for name in ("keep_features", "out", "none", "taxonomy"):
        setattr(arguments, name, None)
    *_, model, search = _fit(arguments)
    results = getattr(search, "cv_results_", {})
    # Settings are chosen by the first score.
    score = next((name for name in results if name.startswith("mean_test_")), None)
    if score is None:
        raise ValueError("Tuning holds out classes and needs at least four seen classes.")
    table = pd.DataFrame(results).sort_values(score, ascending=False, kind="stable")
    settings = pd.DataFrame(list(table["params"]))
    settings[score.removeprefix("mean_test_")] = table[score].to_numpy()
    settings.index = pd.Index(range(1, len(settings) + 1), name="rank")
    method = images.fitted_method(model, arguments.method)
    shown = settings.head(_MAX_LISTED)
    shown = pd.concat([shown.iloc[:, :-1].astype(str), shown.iloc[:, -1]], axis=1)
    title = f"Best of {len(settings)} settings of {method}"
    out.print_table(shown, title=title, name="settings", values=settings)
    out.explained(explain_measures(settings.columns[-1:]))
    out.note(method=method)


def _fit(arguments: argparse.Namespace) -> tuple[images.Samples, images.Description, Any, Any]:
    """Read samples and signatures, and fit the method; also return it without its preparation."""
    # Options are checked before the long computation.
    if (arguments.signatures is None) == (arguments.describe is None):
        raise ValueError("Describe the classes: give either --signatures or --describe.")
    if arguments.none is not None and arguments.taxonomy is not None:
        raise ValueError("--none and --taxonomy cannot be combined; give one of them.")
    by_text = arguments.describe is not None
    for option in ("text_encoder", "prompts"):
        if not by_text and getattr(arguments, option) is not None:
            raise ValueError(f"--{option.replace('_', '-')} can only be used with --describe.")
    if arguments.method != "auto":
        out.import_from_working_folder([arguments.method])
        find_method(arguments.method)
    if arguments.text_encoder not in (None, "backbone"):
        encoder_name(arguments.text_encoder)
    if arguments.none is not None and not 0 < arguments.none < 1:
        raise ValueError(f"--none {arguments.none:g}: give a rate between 0 and 1, such as 0.05.")
    if arguments.jobs == 0:
        raise ValueError("--jobs 0: give the number of folds to compute in parallel, such as 1.")
    if arguments.keep_features is not None:
        refuse_unwritable(arguments.keep_features)
    ranks = None if arguments.taxonomy is None else read_ranks(arguments.taxonomy)
    texts = images.read_class_texts(arguments.describe) if by_text else {}
    drop = set(arguments.drop)
    table = None if by_text else images.read_class_table(arguments.signatures, drop=drop)
    dropped = set(() if table is None else table.about.get("dropped", ()))
    kept = arguments.keep_features
    if kept is None and arguments.out is not None:
        kept = arguments.out.with_name(f"{arguments.out.stem}.features.npz")
    samples = images.read_samples(
        arguments.source,
        label=arguments.label,
        # An option for the class table alone may stand beside images.
        drop=drop if images.is_feature_table(arguments.source) else drop - dropped,
        id_column=arguments.id,
        described=texts if table is None else table.signatures.index,
        leave_out=arguments.leave_out,
        out=kept,
        **_network(arguments),
    )
    _print_skipped(samples)
    if unknown := sorted(drop - dropped - set(samples.about.get("dropped", ()))):
        raise ValueError(f"--drop: neither table has the columns {name_some(unknown)}.")
    if table is None:
        out.say("encoding the descriptions")
        options = {"prompts": arguments.prompts, "about_features": samples.about}
        table = images.describe_in_text(texts, arguments.text_encoder, progress=True, **options)
    is_tuned = arguments.tune != "none"
    names = LEADING_METHODS[: None if is_tuned else 1]
    out.say(f"fitting {', '.join(names) if arguments.method == 'auto' else arguments.method}")
    model = images.fit_samples(
        samples,
        table.signatures,
        arguments.method,
        tune=arguments.tune if is_tuned else None,
        leave_out=arguments.leave_out,
        none_rate=arguments.none,
        taxonomy=ranks,
        feature_scaling=out.none_of(arguments.feature_scaling),
        row_norm=out.none_of(arguments.row_norm),
        signature_scaling=None if by_text else out.none_of(arguments.signature_scaling),
        random_state=arguments.seed,
        n_jobs=arguments.jobs,
        progress=True,
    )
    return samples, table, model, model.estimator_ if isinstance(model, TableClassifier) else model


def _run_predict(arguments: argparse.Namespace) -> None:
    """Predict the classes of images or table rows with a model file.

    Features of images are computed like those of the training images.
    """
    if arguments.top < 1:
        raise ValueError(f"--top {arguments.top}: give a positive number.")
    file = read_model(arguments.model)
    # Checked before features are computed.
    classes, prior = _candidates(arguments, file.model), None
    if arguments.prior is not None:
        label_of, odds = _label_of(file.model), read_odds(arguments.prior)
        prior = {label_of.get(composed(name), name): number for name, number in odds.items()}
    samples = _samples_for(arguments, file)
    column = _id_column(samples)
    options = {"classes": classes, "top": arguments.top, "prior": prior, "row_noun": column}
    table = images.prediction_table(file.model, samples.X, samples.names, **options)
    out.note(n_samples=len(table))
    reasons = []
    if arguments.explain:
        reasons = images.explain_predictions(file, samples.X, classes=classes)
    if reasons and not (arguments.out is None and out.is_printed() and sys.stdout.isatty()):
        table["explanation"] = ["; ".join(str(why).split("\n  ")[1:]) for why in reasons]
    if arguments.out is not None:
        out.write_csv(table, arguments.out, out.counted(len(table), samples.row_noun))
    elif not sys.stdout.isatty():
        text = table.to_csv(index=False, float_format="%.6g").removesuffix("\n")
        out.result(text, predictions=table)
    else:
        shown = table.head(_MAX_ROWS).set_index(column)
        out.print_table(shown, title="Predictions", name="predictions", values=table)
        if len(table) > _MAX_ROWS:
            out.note(f"and {len(table) - _MAX_ROWS} more; --out FILE writes all of them")
        for name, why in zip(samples.names[:_MAX_ROWS], reasons, strict=False):
            out.result(f"{plain(name)}: {why}")


def _label_of(model: Any) -> dict[str, Any]:
    """The labels of a model by name."""
    return {str(label): label for label in model.classes_.tolist()}


def _candidates(arguments: argparse.Namespace, model: Any) -> list[Any] | None:
    """Resolve `--classes`: classes, taxa, "seen" or "described", or a file of names."""
    words, taxonomy = arguments.classes, getattr(arguments, "taxonomy", None)
    if words is None:
        return None
    label_of = _label_of(model)
    below: Mapping[Any, list[Any]] = {}
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
    """Read samples, with features computed like those of the training samples."""
    samples = images.features_for_model(
        arguments.source,
        file.about,
        model_name=plain(arguments.model),
        label=getattr(arguments, "label", None),
        id_column=getattr(arguments, "id", None),
        described=described,
        cache=arguments.cache,
        **_network(arguments),
    )
    _print_skipped(samples)
    return samples


def _run_evaluate(arguments: argparse.Namespace) -> None:
    """Evaluate a model file on labelled images or table rows.

    Prints per-class accuracies on classes with training images and on classes that are only
    described; with --per-class, also each class and what it is most often taken for; with
    --taxonomy, also the accuracy at each rank.
    """
    # Imported late, since it loads the packages of experiments.
    from zslearn.experiments import evaluate, explain_measures

    ranks = None if arguments.taxonomy is None else read_ranks(arguments.taxonomy)
    file = read_model(arguments.model)
    model = file.model
    samples = _samples_for(arguments, file, described=model.classes_.astype(str).tolist())
    number, labels = f"{samples.row_noun}s", np.asarray(samples.y)
    _warn_about_training_samples(file, samples)
    is_seen = np.isin(labels, model.seen_classes_)
    rows: dict[str, dict[str, Any]] = {}
    for what, chosen, classes in (
        ("seen classes, among all", is_seen, None),
        ("unseen classes, among all", ~is_seen, None),
        ("unseen classes, among these", ~is_seen, model.unseen_classes_),
    ):
        if chosen.any():
            X, y = samples.X[chosen], labels[chosen]
            found = evaluate(model, X, y, classes=classes, k=[5]).metrics
            row = {"accuracy": found["per_class_accuracy"], "F@5": found.get("flat_hit_at_5")}
            rows[what] = row | {number: len(y)}
            if ranks is not None:
                rows[what] |= rank_accuracy(y, model.predict(X, classes=classes), ranks)[:-1]
    if is_seen.any() and not is_seen.all():
        mean = harmonic_mean(*(row["accuracy"] for row in list(rows.values())[:2]))
        rows["harmonic mean of the first two"] = {"accuracy": mean, number: len(labels)}
    table = pd.DataFrame.from_dict(rows, orient="index").astype({number: int})
    title = f"{arguments.model} on {arguments.source}"
    values, table = table.rename_axis("of"), table.rename_axis("per-class accuracy of")
    out.print_table(table, title=title, name="accuracies", values=values)
    out.explained(explain_measures(table.columns[1:]))
    if arguments.per_class:
        classes = class_accuracies(labels, model.predict(samples.X))
        known = np.isin(classes.index, model.seen_classes_)
        classes.insert(0, "known_by", np.where(known, images.SEEN, images.DESCRIBED))
        table = classes.rename(columns={"n_samples": number})
        out.print_table(table, title="Classes, among all", name="classes")
    if arguments.out is not None:
        out.write_csv(table, arguments.out, index=True)


def _warn_about_training_samples(file: ModelFile, samples: images.Samples) -> None:
    """Warn about samples that the model was trained on."""
    trained = set(file.extras.get("training_digests", np.empty(0, dtype=str)).ravel().tolist())
    pairs = zip(samples.names, samples.digests, strict=False)
    if repeated := [name for name, digest in pairs if digest in trained]:
        warn_user(
            f"{len(repeated)} of {len(samples)} {samples.row_noun}s were trained on, such as "
            f"{name_some(repeated, 2)}: the accuracy on new {samples.row_noun}s may be lower."
        )


def _run_add_class(arguments: argparse.Namespace) -> None:
    """Add described classes to a model file, without refitting it."""
    texts = [arguments.name, arguments.text]
    if (arguments.table is None) != all(texts) or (arguments.table is not None and any(texts)):
        raise ValueError("Give either a table of classes, or --name and --text.")
    about = describe(arguments.model).get("about")
    described = about.get("signatures") if isinstance(about, dict) else None
    by_text = isinstance(described, dict) and described.get("kind") == "text"
    if arguments.table is None:
        description: Any = {arguments.name: [arguments.text]}
    elif by_text:
        description = images.read_class_texts(arguments.table)
    else:
        description = images.read_class_table(arguments.table).signatures
    options = {"out": arguments.out, "encoder": arguments.text_encoder}
    labels = images.add_classes_to_file(arguments.model, description, **options)
    out.note(f"added {name_some(labels, 10)}", added=labels)
    out.wrote(arguments.out or arguments.model)


def _run_remove_class(arguments: argparse.Namespace) -> None:
    """Remove described classes from a model file, without refitting it.

    Classes with training samples cannot be removed.
    """
    names = [composed(name) for name in arguments.classes]
    left = images.remove_classes_from_file(arguments.model, names, arguments.out)
    what = f"removed {name_some(names, 10)}; {out.counted(len(left), 'class', 'es')} left"
    out.note(what, removed=names, classes=left)
    out.wrote(arguments.out or arguments.model)


def _run_add_examples(arguments: argparse.Namespace) -> None:
    """Add labelled images or table rows to a model file, without refitting it.

    A few examples of a described class improve its predictions. New classes are described by
    --signatures, or are known from these examples only.
    """
    file = _read_updatable(arguments, "add_examples")
    table = None
    if arguments.signatures is not None:
        table = images.read_class_table(arguments.signatures).signatures
    samples = _samples_for(arguments, file)
    classes, alone = images.add_examples_to_file(arguments.model, samples, table, arguments.out)
    number = out.counted(len(samples), samples.row_noun)
    out.note(f"added {number} of {name_some(classes, 10)}", n_samples=len(samples))
    out.note(f"without a signature: {name_some(alone, 10)}" if alone else "")
    out.note(classes=classes, without_signature=alone)
    out.wrote(arguments.out or arguments.model)


def _read_updatable(arguments: argparse.Namespace, verb: str) -> ModelFile:
    """Read a model file, and check that it can be updated before features are computed."""
    refuse_unwritable(arguments.out or arguments.model)
    file = read_model(arguments.model)
    images.check_can_learn(file.model, verb, plain(arguments.model))
    return file


def _run_adapt(arguments: argparse.Namespace) -> None:
    """Adapt a model file to unlabelled images or table rows.

    Class means move towards the unlabelled images that resemble them, if this improves the score on
    held-out classes; otherwise the model is not changed. Both scores are printed. The calibration
    is kept.
    """
    file = _read_updatable(arguments, "adapt")
    classes = _candidates(arguments, file.model)
    samples = _samples_for(arguments, file)
    accept: Any = True if arguments.always else "cv"
    options = {"classes": classes, "accept": accept, "out": arguments.out}
    done = images.adapt_file(arguments.model, samples, **options)
    scores = "none, since there are too few seen classes"
    if done.score_before is not None and done.score_after is not None:
        scores = f"{done.score_before:.3f} before, {done.score_after:.3f} after adapting"
    found = {"score_before": done.score_before, "score_after": done.score_after}
    out.note(f"held-out classes: {scores}", accepted=done.accepted, **found)
    if not done.accepted:
        out.note(f"{plain(arguments.model)} is unchanged; --always adapts it anyway")
        return
    columns = {f"share of the {samples.row_noun}s": done.proportions, "moved by": done.moved}
    table = pd.DataFrame(columns).rename_axis("class")
    table = table.sort_values("moved by", ascending=False, kind="stable")
    title = f"Classes that moved most, of {len(table)}"
    out.print_table(table.head(_MAX_LISTED), title=title, name="classes", values=table)
    if (share := done.background_share) is not None:
        number = out.counted(done.n_samples, samples.row_noun)
        out.note(f"{share:.3f} of {number} fit no class", background_share=share)
    out.wrote(arguments.out or arguments.model)


def _run_suggest(arguments: argparse.Namespace) -> None:
    """Suggest which unlabelled images or table rows to label next.

    They are ranked by the expected gain of accuracy over the others once they are labelled. A
    second table says what would help each class most: an image, or a better description.
    """
    if arguments.n < 1:
        raise ValueError(f"--n {arguments.n}: give a positive number.")
    file = read_model(arguments.model)
    images.check_can_learn(file.model, "suggest", plain(arguments.model))
    classes = _candidates(arguments, file.model)
    samples = _samples_for(arguments, file)
    found = file.model.suggest(samples.X, arguments.n, classes=classes)
    noun, column = samples.row_noun, _id_column(samples)
    names = [samples.names[row] for row in found.rows]
    columns = {"class": found.labels, "probability": found.probabilities, "gain": found.gains}
    table = pd.DataFrame({column: names, **columns})
    title = f"Label these next, of {out.counted(len(samples), noun)}"
    out.print_table(table.set_index(column), title=title, name="suggestions", values=table)
    shown = found.classes.head(_MAX_LISTED)
    title = f"Classes that gain most, of {len(found.classes)}"
    out.print_table(shown, title=title, name="classes", values=found.classes)
    out.explained(
        f"gain: expected gain of accuracy over the other {noun}s by the label of one {noun}. "
        f"advice: what helps the class most, the label of one {noun} (image), a better "
        "description, or neither."
    )
    if found.indistinct:
        listed = ", ".join(map(str, found.indistinct[:_MAX_LISTED]))
        out.note(f"attributes cannot tell apart: {plain(listed)}")
    out.note(n_samples=len(samples), indistinct=found.indistinct)
    if arguments.out is not None:
        out.write_csv(table, arguments.out, out.counted(len(table), noun))


#: Options for computing features. With a model file, it determines the network.
_READING = (
    "computing features of images",
    ("--weights", "FILE", None, ".pth or .safetensors; required for resnet and googlenet"),
    ("--boxes", "FILE", None, "CSV table of bounding boxes: path, x, y, width, height"),
    ("--device", "DEVICE", "auto", "cpu, cuda, …; auto uses a GPU if there is one"),
    ("--batch-size", int, None, "images per batch (default: 8 on a CPU, 64 elsewhere)"),
)
_CACHE = ("--cache", bool, True, "keep image features in the cache folder for the next call")
_NETWORKS = f"network: {', '.join(images.BACKBONES)}, timm:NAME or open_clip:NAME/WEIGHTS"
_CROP = "use the central square or the whole image (default: as in training of the network)"
_NETWORK = (
    *_READING,
    ("--backbone", "NAME", None, f"{_NETWORKS} (default: efficientnet-lite0)"),
    ("--crop", ["center", "squash"], None, _CROP),
)
_FORMAT = (
    "text tables",
    ("--sep", "SIGN", None, "separator of text tables, or tab (default: recognised)"),
    ("--decimal", [".", ","], None, "decimal sign of text tables (default: recognised)"),
    ("--encoding", "NAME", None, "encoding of text tables (default: recognised)"),
)
#: Options of commands that read samples for a model file.
_NEW_SAMPLES = (*_FORMAT, *_READING, _CACHE)
_GRID = "grid of hyper-parameters to search; auto: quick for tables, fast for images"
_SOURCE = (
    "folder with one folder of images per class, CSV table of paths and labels, table (.csv, "
    ".tsv, .xlsx, .parquet) of features and labels, or .npz file of features"
)
_ENCODER = (
    "text encoder: use, minilm, glove, st:FOLDER, or backbone for the text side of an open_clip "
    "model (default: backbone if it has a text side, otherwise use)"
)
_METHOD = (
    f"method (see zslearn bench --help); auto tunes {', '.join(LEADING_METHODS)} and keeps the "
    "best on held-out classes, or the first with --tune none"
)
_ATTRIBUTES = "table of attributes (.csv, .tsv, .xlsx, .parquet), one row per class"
_CHOSEN = "auto chooses on held-out classes"
_TRAINING = (
    ("source", "IMAGES|TABLE", ..., _SOURCE),
    ("--signatures", "FILE", None, _ATTRIBUTES),
    ("--describe", "FILE", None, "texts of classes: CSV table (class, text) or JSON file"),
    ("--leave-out", "CLASS…", (), "classes to exclude from training"),
    ("--text-encoder", "NAME", None, _ENCODER),
    ("--prompts", "PROMPT…", None, 'templates with "{}" for the text, averaged'),
    ("--method", "METHOD", "auto", _METHOD),
    ("--seed", int, 0, "random seed"),
    ("--signature-scaling", out.SCALINGS, "auto", "scaling of the signatures"),
    out.jobs(),
    "tables of features",
    ("--label", "COLUMN", None, "label column (default: label)"),
    ("--id", "COLUMN", None, "column that names the rows; predict prints it"),
    ("--drop", "COLUMN…", (), "columns of either table that are not used"),
    ("--feature-scaling", out.SCALINGS, "auto", f"scaling of the numbers; {_CHOSEN}"),
    ("--row-norm", ["auto", "none", "l2"], "auto", f"norm of the rows; {_CHOSEN}"),
    *_FORMAT,
    *_NETWORK,
)
_MODEL = ("model", "MODEL", ..., "model file (.zsl)")
_SAMPLES = (
    "folder of images, CSV table of their paths, image, .npz file of features, or table with the "
    "columns that the model was fitted on"
)
_SAMPLE_ARGUMENTS = (_MODEL, ("source", "IMAGES|TABLE", ..., _SAMPLES))
_ID = ("--id", "COLUMN", None, "column of a table that names its rows (default: as in fit)")
_LABEL = ("--label", "COLUMN", None, "label column of a table (default: as in fit)")
_OUT = ("--out", "FILE", None, "file to write (default: replace MODEL)")
_CLASSES = (
    "candidates: classes, a text file with one class per line, 'seen', or 'described' for classes "
    "without training images (default: all); with --taxonomy, also taxa"
)
_EXPLAIN = (
    "explain predictions: the seen classes a described class is built from, the attributes in "
    "which it differs from the runner-up, and the nearest training images"
)
_TEXTS = (
    "table with the attributes of the model; or, if classes are described by text, a CSV table "
    "(class, text) or a JSON file of texts"
)
OPTIONS = {
    "features": {
        "extract": (
            _run_extract,
            ("images", "IMAGES", ..., "folder with class folders, or CSV table (path, label)"),
            ("--out", "FILE", Path("features.npz"), "file to write"),
            ("--resume", bool, True, "keep finished parts (default), or start over"),
            *_NETWORK,
        ),
        "show": (_run_show, ("file", "FILE", ..., ".npz file of features")),
    },
    "fit": (
        _run_fit,
        ("--out", "FILE", Path("model.zsl"), "model file to write"),
        ("--keep-features", "FILE", None, "file for the features (default: NAME.features.npz)"),
        ("--tune", ["auto", *GRIDS, "none"], "auto", _GRID),
        ("--none", float, None, "reject images that fit no class, at this false-alarm rate"),
        ("--taxonomy", "FILE", None, f"{out.TAXONOMY}; also predict the deepest confident rank"),
        *_TRAINING,
    ),
    "tune": (_run_tune, ("--tune", ["auto", *GRIDS], "auto", _GRID), *_TRAINING),
    "predict": (
        _run_predict,
        *_SAMPLE_ARGUMENTS,
        ("--classes", "CLASS…", None, _CLASSES),
        ("--taxonomy", "FILE", None, out.TAXONOMY),
        ("--prior", "FILE", None, out.PRIOR),
        ("--top", int, 2, "number of classes per image"),
        ("--out", "FILE", None, "CSV table to write (default: print)"),
        ("--explain", bool, False, _EXPLAIN),
        _ID,
        *_NEW_SAMPLES,
    ),
    "evaluate": (
        _run_evaluate,
        *_SAMPLE_ARGUMENTS,
        _LABEL,
        ("--taxonomy", "FILE", None, out.TAXONOMY),
        ("--per-class", bool, False, "also print the accuracy of each class"),
        ("--out", "FILE", None, "CSV table to write: the classes with --per-class"),
        *_NEW_SAMPLES,
    ),
    "add-class": (
        _run_add_class,
        _MODEL,
        ("table", "FILE", None, _TEXTS),
        ("--name", "CLASS", None, "name of the class, with --text"),
        ("--text", "WORDS", None, "description of the class, with --name"),
        ("--text-encoder", "NAME", None, "text encoder, if the model file names one in a folder"),
        _OUT,
        *_FORMAT,
    ),
    "remove-class": (
        _run_remove_class,
        _MODEL,
        ("classes", "CLASS…", ..., "classes without training samples"),
        _OUT,
    ),
    "add-examples": (
        _run_add_examples,
        *_SAMPLE_ARGUMENTS,
        _LABEL,
        ("--signatures", "FILE", None, "table of signatures of new classes"),
        _OUT,
        *_NEW_SAMPLES,
    ),
    "adapt": (
        _run_adapt,
        *_SAMPLE_ARGUMENTS,
        ("--classes", "CLASS…", None, _CLASSES.partition(";")[0]),
        ("--always", bool, False, "adapt even if the score on held-out classes does not improve"),
        _OUT,
        *_NEW_SAMPLES,
    ),
    "suggest": (
        _run_suggest,
        *_SAMPLE_ARGUMENTS,
        ("--n", int, 10, "number of images or rows to suggest"),
        ("--classes", "CLASS…", None, _CLASSES.partition(";")[0]),
        ("--out", "FILE", None, "CSV table to write: the suggested images or rows"),
        _ID,
        *_NEW_SAMPLES,
    ),
}
