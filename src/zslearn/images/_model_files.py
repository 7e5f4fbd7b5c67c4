"""Model files that record how features and signatures are made.

From the record, features of other samples and signatures of other classes are made alike, and
classes, examples and unlabelled samples are added to a saved model.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._files import cache_folder, locked, refuse_unwritable
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import did_you_mean, join_spellings, name_some, plain, warn_user
from zslearn.datasets import TablePreparation
from zslearn.images._backbones import Backbone, load_backbone, refuse_foreign_backbone
from zslearn.images._describing import Description, describe_in_text
from zslearn.images._features import read_samples, refuse_other_features
from zslearn.images._fitting import adaptation_of, estimators_of, prepared
from zslearn.images._samples import Samples, check_labels, is_feature_table, row_digests
from zslearn.model_selection import TableClassifier, ZeroShotPipeline
from zslearn.persistence import read_model, save
from zslearn.signatures import ENCODER_NAMES
from zslearn.synthesis import Adaptation, GaussianEXEM

#: Size of the cached features of images, in bytes at most.
MAX_CACHED_BYTES = 2 * 2**30
#: Training features saved with a model, in bytes at most.
_MAX_TRAINING_BYTES = 64 * 2**20
#: A sample whose class has a smaller probability looks unlike its description.
_UNLIKE = 0.01
#: Entries of `Samples.about` that a model file keeps.
_RECORD = (
    *("backbone", "weights_sha256", "n_features", "preprocessing", "boxes", "versions"),
    *("columns", "label", "id"),
)


def save_fitted(
    model: Any,
    path: str | os.PathLike[str],
    samples: Samples,
    description: Description,
    *,
    method: str,
) -> None:
    """Save a model with a record of how its features and signatures were made.

    The file's `about` has "features" and "signatures" (how they were made), "method", "fitted"
    (date and time), and "training" with the names ("images") and "labels" of the rows of the extra
    array "training_features". The extra array "training_digests" identifies training samples.

    Parameters
    ----------
    model : zero-shot estimator
        A fitted model.
    path : path
        The file to write.
    samples, description : Samples, Description
        What the model was fitted on.
    method : str
        Name of the method.
    """
    features = {key: samples.about[key] for key in _RECORD if key in samples.about}
    columns = getattr(model, "used_columns_", None)
    if columns is not None and isinstance(samples.X, pd.DataFrame):
        # Columns that are dropped need not be in further tables.
        used = [column.name for column in columns]
        features |= {"columns": used, "n_features": len(used)}
        features["decimal_commas"] = [column.name for column in columns if column.decimal == ","]
        table = samples.X.set_axis([str(name) for name in samples.X.columns], axis=1)[used]
        samples = replace(samples, X=table, digests=row_digests(table))
    kept = samples.take(_thinned(samples))
    about = {
        "features": features,
        "signatures": description.about,
        "method": method,
        "fitted": datetime.now(UTC).isoformat(timespec="seconds"),
        "training": {
            "images": list(kept.names),
            "labels": [] if kept.y is None else kept.y.tolist(),
        },
    }
    _, numbers = prepared(model, kept.X)
    extras: dict[str, Any] = {"training_features": np.asarray(numbers, dtype=np.float32)}
    if samples.digests:
        extras["training_digests"] = np.asarray(samples.digests, dtype=np.str_)
    save(model, path, about=about, extras=extras)


def _thinned(samples: Samples) -> NDArray[np.intp]:
    """Rows to save within the memory limit, balanced over the classes."""
    n_rows = max(1, _MAX_TRAINING_BYTES // max(1, 4 * samples.X.shape[1]))
    if len(samples) <= n_rows or samples.y is None:
        return np.arange(min(len(samples), n_rows))
    place = pd.Series(samples.y).groupby(samples.y, sort=False).cumcount().to_numpy()
    # The first image of each class, then the second of each, …
    return np.sort(np.argsort(place, kind="stable")[:n_rows])


def _part(about: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A mapping in a model file's record; empty if it is missing or something else."""
    found = about.get(name)
    return found if isinstance(found, Mapping) else {}


def backbone_for_model(
    about: Mapping[str, Any],
    *,
    model_name: str = "the model",
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
) -> Backbone | None:
    """Load the network that computed the features of a model.

    Parameters
    ----------
    about : mapping
        The `about` of the model file.
    model_name : str, default="the model"
        What errors call the model.
    weights, device
        See :func:`load_backbone`.

    Returns
    -------
    Backbone or None
        The network, which must have the same weights and preprocessing; None if the file names
        none.
    """
    expected = _part(about, "features")
    if not expected.get("backbone"):
        return None
    name = str(expected["backbone"])
    refuse_foreign_backbone(name, model_name)
    crop = _part(expected, "preprocessing").get("crop")
    network = load_backbone(name, weights=weights, device=device, crop=crop)
    refuse_other_features(expected, network.about, model_name=model_name, where="this machine")
    return network


def features_for_model(
    source: str | os.PathLike[str],
    about: Mapping[str, Any],
    *,
    model_name: str = "the model",
    label: str | None = None,
    id_column: str | None = None,
    described: Sequence[str] | None = None,
    weights: str | os.PathLike[str] | None = None,
    device: str = "auto",
    cache: bool = False,
    **options: Any,
) -> Samples:
    """Read samples with the network, weights and preprocessing of a model.

    Parameters
    ----------
    source : path
        A ``.npz`` file of features, a folder of images, or a ``.csv`` table of their paths; for a
        model fitted on a table, another table with its columns.
    about, model_name, weights, device
        See :func:`backbone_for_model`.
    label : str, optional
        The label column of a table, by default the one the model was fitted with.
    id_column : str, optional
        The column that names the rows of a table, by default the one the model was fitted with.
    described : sequence of str, optional
        The described classes. Other labels are rejected before any feature is computed.
    cache : bool, default=False
        Whether to keep the features of images in the user's cache folder (or ``ZSLEARN_CACHE``), so
        that the next call with the same images and network reads them. The least recently used
        ones are removed beyond 2 GiB.
    **options
        Passed to :func:`extract_features`.

    Returns
    -------
    Samples
        The samples. Features that were made differently are refused.
    """
    path, where, expected = Path(source), plain(source), _part(about, "features")
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {where}.")
    columns = expected.get("columns")
    known: dict[str, Any] = {"described": described, "described_in": model_name}
    if isinstance(columns, list) and path.suffix != ".npz":
        if not is_feature_table(path):
            raise ValueError(
                f"{model_name} was fitted on a table with the columns {name_some(columns)}; "
                f"{where} is not such a table (.csv, .tsv, .xlsx, .parquet)."
            )
        own_label = expected.get("label")
        label = own_label if label is None and isinstance(own_label, str) else label
        if id_column is None and isinstance(expected.get("id"), str):
            id_column = expected["id"]
        commas = expected.get("decimal_commas")
        known |= {"columns": columns, "decimal_commas": commas if isinstance(commas, list) else ()}
        return read_samples(path, label=label, id_column=id_column, **known)
    known |= {"label": label, "id_column": id_column}
    if path.suffix == ".npz":
        samples = read_samples(path, weights=weights, **known, **options)
        refuse_other_features(expected, samples.about, model_name=model_name, where=where)
    else:
        network = backbone_for_model(about, model_name=model_name, weights=weights, device=device)
        if network is None:
            raise ValueError(
                f"{model_name} does not record how its features were made, so the images in "
                f"{where} cannot be used; give a file of features (.npz)."
            )
        file = _cached_file(path, network) if cache else None
        samples = read_samples(path, backbone=network, out=file, **known, **options)
        if file is not None:
            _keep_recent(file)
    had, has = (bool(record.get("boxes")) for record in (expected, samples.about))
    if expected and samples.about and had != has:
        with_or_without = "with" if had else "without"
        warn_user(
            f"{model_name} was fitted on images {with_or_without} bounding boxes, but those of "
            f"{where} are {'with' if has else 'without'}; predictions may suffer."
        )
    return samples


def _cached_file(source: Path, network: Backbone) -> Path | None:
    """Path of the cached features of images; None if it cannot be written."""
    key = fingerprint(str(source.resolve()), network.about)
    file = cache_folder() / "features" / f"{key[:32]}.npz"
    try:
        refuse_unwritable(file)
    except OSError:
        return None
    return file


def _keep_recent(file: Path) -> None:
    """Mark a cached file as used, and remove those least recently used beyond the limit."""
    # Other processes may remove files, too.
    with contextlib.suppress(OSError):
        os.utime(file)
        files = sorted(file.parent.glob("*.npz"), key=lambda path: -path.stat().st_mtime_ns)
        total = 0
        for path in files:
            total += path.stat().st_size
            if total > MAX_CACHED_BYTES:
                path.unlink()


def encoder_for_model(
    about: Mapping[str, Any], encoder: str | None = None, *, model_name: str = "the model"
) -> str:
    """Return the name of the text encoder that made a model's signatures, if it may be used.

    Parameters
    ----------
    about, model_name
        See :func:`backbone_for_model`.
    encoder : str, optional
        An encoder in a folder (``st:FOLDER``), which a model file alone never makes zslearn read.

    Returns
    -------
    str
        The encoder.
    """
    signatures = _part(about, "signatures")
    if signatures.get("kind") != "text":
        raise ValueError(
            f"The classes of {model_name} are described by numbers, not by text; give a table with "
            "the same columns."
        )
    named = signatures.get("encoder")
    if not isinstance(named, str):
        raise ValueError(f"{model_name} does not record its text encoder.")
    is_known = named in ("backbone", *ENCODER_NAMES)
    if encoder is None and not is_known:
        raise ValueError(
            f"{model_name} names the text encoder {plain(named, 100)!r}, which is not built in. "
            "Folders named by a file are not read; if you trust this one, name it yourself with "
            "--text-encoder st:FOLDER (in Python: encoder=)."
        )
    if encoder is not None and is_known and encoder != named:
        raise ValueError(
            f"The classes of {model_name} are described by the text encoder {named!r}, not "
            f"{encoder!r}."
        )
    return named if encoder is None else encoder


def describe_for_model(
    texts: Mapping[str, str | Sequence[str]],
    about: Mapping[str, Any],
    encoder: str | None = None,
    *,
    backbone: Backbone | None = None,
    model_name: str = "the model",
    cache: bool = True,
) -> Description:
    """Encode texts of new classes with the encoder and prompts of a model.

    Parameters
    ----------
    texts : mapping of str to str or sequence of str
        The texts of each class.
    about, encoder, model_name
        See :func:`encoder_for_model`.
    backbone, cache
        See :func:`describe_in_text`.

    Returns
    -------
    Description
        The signatures of these classes only.
    """
    encoder = encoder_for_model(about, encoder, model_name=model_name)
    features = _part(about, "features")
    if encoder == "backbone" and backbone is None:
        refuse_foreign_backbone(str(features.get("backbone", "")), model_name)
    prompts = _part(about, "signatures").get("prompts")
    if not isinstance(prompts, list) or not all(isinstance(prompt, str) for prompt in prompts):
        prompts = None
    options: dict[str, Any] = {"backbone": backbone, "cache": cache}
    return describe_in_text(texts, encoder, prompts=prompts, about_features=features, **options)


@contextlib.contextmanager
def _changed(path: str | os.PathLike[str], out: str | os.PathLike[str] | None) -> Iterator[Any]:
    """Yield the `model`, `about` and `extras` of a file, to be changed and then written.

    Nothing is written if `model` is None.
    """
    target = Path(path if out is None else out)
    # The lock creates folders, which a wrong path must not.
    os.stat(path)
    refuse_unwritable(target)
    # Concurrent changes would be lost without a lock.
    with locked(target):
        file = read_model(path)
        new = SimpleNamespace(model=file.model, about=dict(file.about), extras=dict(file.extras))
        yield new
        if new.model is not None:
            save(new.model, target, about=new.about, extras=new.extras)


def add_classes_to_file(
    path: str | os.PathLike[str],
    description: pd.DataFrame | Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    *,
    encoder: str | None = None,
) -> list[str]:
    """Add described classes to a saved model, without refitting it.

    Parameters
    ----------
    path : path
        The model file.
    description : DataFrame or mapping
        Signatures with the model's attributes, one row per class; or the texts of each class, for
        a model whose classes are described by text.
    out : path, optional
        Where to save the model, by default in place of `path`.
    encoder : str, optional
        See :func:`encoder_for_model`.

    Returns
    -------
    list of str
        Labels of the new classes.
    """
    with _changed(path, out) as file:
        table = description
        if isinstance(table, Mapping):
            new = describe_for_model(table, file.about, encoder, model_name=plain(path))
            table, signatures = new.signatures, _part(file.about, "signatures")
            texts = {**_part(signatures, "texts"), **new.about["texts"]}
            file.about["signatures"] = {**signatures, "texts": texts}
        file.model = file.model.add_classes(table)
        return [str(label) for label in table.index]


def remove_classes_from_file(
    path: str | os.PathLike[str],
    classes: Sequence[str],
    out: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Remove described classes from a saved model, without refitting it.

    Parameters
    ----------
    path, out
        See :func:`add_classes_to_file`.
    classes : sequence of str
        Names of classes without training samples.

    Returns
    -------
    list of str
        Labels of the remaining classes.
    """
    with _changed(path, out) as file:
        label_of = {str(label): label for label in file.model.classes_.tolist()}
        if unknown := [name for name in classes if name not in label_of]:
            near = did_you_mean(unknown[0], label_of)
            raise ValueError(f"{plain(path)} has no {name_some(unknown)}.{near}")
        file.model = file.model.remove_classes([label_of[name] for name in classes])
        signatures = _part(file.about, "signatures")
        if texts := _part(signatures, "texts"):
            texts = {name: text for name, text in texts.items() if name not in classes}
            file.about["signatures"] = {**signatures, "texts": texts}
        return [str(label) for label in file.model.classes_.tolist()]


def add_examples_to_file(
    path: str | os.PathLike[str],
    samples: Samples,
    signatures: pd.DataFrame | None = None,
    out: str | os.PathLike[str] | None = None,
) -> tuple[list[str], list[str]]:
    """Add labelled samples to a saved model with its `add_examples`.

    Parameters
    ----------
    path, out
        See :func:`add_classes_to_file`.
    samples : Samples
        Labelled samples.
    signatures : DataFrame, optional
        Signatures of new classes.

    Returns
    -------
    labels, undescribed : list of str
        The classes of the samples, and those known only from them, without a signature.
    """
    noun = samples.row_noun
    y = np.asarray(check_labels(samples.y, None, row_noun=noun))
    with _changed(path, out) as file:
        check_can_learn(file.model, "add_examples", plain(path))
        known = [*file.model.classes_.tolist(), *([] if signatures is None else signatures.index)]
        labels = join_spellings(y, known, f"labels of the {noun}s")
        _warn_of_unlike(file.model, samples, labels)
        file.model = file.model.add_examples(samples.X, labels, signatures=signatures)
        if samples.digests:
            digests = file.extras.get("training_digests", np.empty(0, dtype=np.str_))
            all_digests = np.concatenate([digests.ravel(), list(samples.digests)])
            file.extras["training_digests"] = all_digests
        classes = list(dict.fromkeys(labels.tolist()))
        return classes, [name for name in classes if name not in set(known)]


def _warn_of_unlike(model: Any, samples: Samples, labels: NDArray[Any]) -> None:
    """Warn of samples of known classes that the model takes for something else."""
    known = model.classes_
    rows = np.flatnonzero(np.isin(labels, known))
    if not hasattr(model, "predict_proba") or not len(rows) or len(known) < 2:
        return
    labels, own = labels[rows], samples.take(rows)
    shares = np.asarray(model.predict_proba(own.X, classes=known))
    place = {label: column for column, label in enumerate(known.tolist())}
    share = shares[np.arange(len(rows)), [place[label] for label in labels.tolist()]]
    unlike = np.flatnonzero(share < _UNLIKE)
    if not len(unlike):
        return
    best = known[shares.argmax(axis=1)]
    listed = [f"{own.names[i]} ({labels[i]!s}, more like {best[i]!s})" for i in unlike[:5]]
    more = f" and {len(unlike) - 5} more" if len(unlike) > 5 else ""
    warn_user(
        f"{len(unlike)} of {len(rows)} {samples.row_noun}s look unlike the description of their "
        f"class: {', '.join(listed)}{more}. Check their labels."
    )


def adapt_file(
    path: str | os.PathLike[str],
    samples: Samples,
    *,
    classes: Sequence[Any] | None = None,
    accept: str | bool = "cv",
    out: str | os.PathLike[str] | None = None,
) -> Adaptation:
    """Adapt a saved model to unlabelled samples and keep its calibration.

    Parameters
    ----------
    path, out
        See :func:`add_classes_to_file`. A rejected adaptation is not saved.
    samples : Samples
        Samples whose labels, if any, are ignored.
    classes, accept
        See :meth:`zslearn.synthesis.GaussianEXEM.adapt`.

    Returns
    -------
    Adaptation
        The changes of the model.
    """
    with _changed(path, out) as file:
        check_can_learn(file.model, "adapt", plain(path))
        model = file.model.adapt(samples.X, classes=classes, accept=accept)
        done = adaptation_of(model)
        file.model = model if done.accepted else None
        return done


def check_can_learn(model: Any, verb: str, model_name: str = "the model") -> None:
    """Raise a ValueError unless a model has `verb`: "add_examples", "adapt" or "suggest"."""
    *_, method = parts = estimators_of(model)
    name, advice = type(method).__name__, "fit the model with method='Gaussian EXEM'"
    if not hasattr(model, verb):
        raise ValueError(f"{model_name}: {name} has no {verb}; {advice} instead.")
    if verb == "adapt" and not any(isinstance(part, GaussianEXEM) for part in parts):
        raise ValueError(
            f"{model_name}: {name} cannot check an adaptation on held-out classes; {advice}, or "
            "call its adapt in Python."
        )


def summarize_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Summarise a model file: method, classes, columns, scaling, date and version.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    dict
        "method" and the "wrappers" around it; "seen_classes" and "unseen_classes"; the "network" of
        image features or the "columns" of a table, and "n_features"; the "attributes" of the
        signatures; "scaling" of the features, of each row and of the signatures; "fitted", the date
        and time, and the "version" of zslearn that wrote the file. Unknown values are None.
    """
    file = read_model(path)
    model, features = file.model, _part(file.about, "features")
    *wrappers, method = estimators_of(model)
    steps = [step for part in wrappers for step in _transformers(part)]
    scalings = [s.scaling if isinstance(s, TablePreparation) else type(s).__name__ for s in steps]
    described = model.signature_table_
    return {
        "method": file.about.get("method") or type(method).__name__,
        "wrappers": [type(part).__name__ for part in wrappers],
        "seen_classes": model.seen_classes_.tolist(),
        "unseen_classes": model.unseen_classes_.tolist(),
        "network": features.get("backbone"),
        "columns": features.get("columns"),
        "n_features": int(model.n_features_in_),
        "attributes": [list(names) for names in described.columns],
        "scaling": {
            "features": [scaling for scaling in scalings if scaling],
            "rows": getattr(method, "feature_norm", None),
            "signatures": list(described.scalings),
        },
        "fitted": file.about.get("fitted"),
        "version": file.header["library_version"],
    }


def _transformers(part: Any) -> list[Any]:
    """The steps of a pipeline before its method, or the preparation of a table."""
    if isinstance(part, TableClassifier):
        return [] if part.columns_ is None else [part.columns_]
    return [step for _, step in part.steps[:-1]] if isinstance(part, ZeroShotPipeline) else []
