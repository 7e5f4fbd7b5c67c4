"""Saving and loading models: the public functions, and the checks of a whole model."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from zslearn._utils._array import to_numpy
from zslearn._utils._messages import InputWarning, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, FileLimitError
from zslearn._utils._remote import located
from zslearn._version import __version__, version_numbers
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.persistence._codec import FEATURE_BYTES, Decoder, Encoder
from zslearn.persistence._container import (
    BadContentError,
    CannotSaveError,
    ModelFileError,
    OpenFile,
    open_file,
    read_json,
    write_file,
)
from zslearn.signatures._table import SignatureTable, is_among

#: Classes beyond this number are listed in an array of JSON text, since the header is read as a
#: whole.
_MAX_LISTED = 100_000
_LIST = "classes"


def summary(model: Any) -> dict[str, Any]:
    """The classes, features and signatures of a model, stored in the header."""
    table = _table(model)
    views = () if table is None else zip(table.names, table.arrays, table.columns, strict=True)
    return {
        "classes": model.classes_.tolist(),
        "seen_classes": model.seen_classes_.tolist(),
        "n_features": int(model.n_features_in_),
        "signatures": [
            {
                "name": name,
                "n_attributes": int(array.shape[1]),
                "columns": None if columns is None else [str(column) for column in columns],
            }
            for name, array, columns in views
        ],
    }


def _table(model: Any) -> SignatureTable | None:
    """The signatures of the innermost estimator, as the user gave them."""
    # The limit protects against files in which wrappers contain each other.
    for _ in range(100):
        if hasattr(model, "_described"):
            return model._described.table
        steps = getattr(model, "steps", None)
        model = steps[-1][1] if isinstance(steps, list) else getattr(model, "estimator_", None)
    return None


#: Number of the format, which increases if older readers could not read a file correctly. A new
#: hyper-parameter, whose default is the previous behaviour, does not increase it.
FORMAT_VERSION = 3


def _check_format(content: dict[str, Any]) -> None:
    """Refuse a file of another format."""
    number, library = content.get("format_version"), content.get("library_version")
    if type(number) is not int or number < 1 or not isinstance(library, str):
        raise BadContentError("its description lacks a valid version")
    if number != FORMAT_VERSION:
        advice = "Update zslearn, or fit" if number > FORMAT_VERSION else "Fit"
        raise BadContentError(
            f"it was saved by zslearn {plain(library, 40)} in version {number} of the format, but "
            f"zslearn {__version__} reads version {FORMAT_VERSION}. {advice} and save the model "
            "again with this version"
        )


def _warn_of_versions(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Warn of a file of a newer library, or of parts of another scikit-learn."""
    library, learn = content["library_version"], content.get("scikit_learn_version")
    if version_numbers(library) > version_numbers(__version__):
        warn_user(
            f"{plain(path)} was saved by zslearn {plain(library, 40)}, which is newer than the "
            f"installed {__version__}. Update zslearn to get the same predictions.",
            InputWarning,
        )
    if (
        isinstance(learn, str)
        and version_numbers(learn)[:2] != version_numbers(sklearn.__version__)[:2]
    ):
        warn_user(
            f"{plain(path)} contains estimators fitted by scikit-learn {plain(learn, 40)}; with "
            f"the installed {sklearn.__version__} their predictions may differ.",
            InputWarning,
        )


_KEYS = {
    "format_version",
    "library_version",
    "scikit_learn_version",
    "summary",
    "model",
    "extras",
    "about",
}


@dataclass(frozen=True, eq=False)
class ModelFile:
    """The content of a model file.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    about : dict
        The mapping given to :func:`save`.
    extras : dict of str to ndarray
        Additional arrays given to :func:`save`.
    header : dict
        See :func:`describe`. If the file was not verified, "classes" is None for more than 100,000.
    """

    model: Any
    about: dict[str, Any]
    extras: dict[str, NDArray[Any]]
    header: dict[str, Any]


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    about: Mapping[str, Any] | None = None,
    extras: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted estimator to one file that cannot run code.

    An error, or a killed process, leaves the previous file at `path`. :ref:`saving` has examples.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted: a method, or a wrapper such as :class:`~zslearn.calibration.CalibratedStacking`,
        :class:`~zslearn.model_selection.ZeroShotSearchCV` or
        :class:`~zslearn.model_selection.ZeroShotPipeline`.
    path : path
        The file, by convention with the suffix ``.zsl``. Missing folders are created.
    about : mapping, optional
        Further information that can be written as JSON, such as the source of the features.
    extras : mapping of str to array, optional
        Further arrays of numbers, booleans, strings or objects.

    See Also
    --------
    load : Read it.
    zslearn.persistence.read_model : Read it with `about` and `extras`.
    """
    if not isinstance(model, ZeroShotPredictor):
        raise TypeError(
            f"save takes a fitted zero-shot estimator; got {type(model).__name__}. Build pipelines "
            "with zslearn.model_selection.ZeroShotPipeline(steps)."
        )
    check_is_fitted(model, "class_scorer_")
    encoder = Encoder()
    node = encoder.encode(model, type(model).__name__)
    # Another thread may have added classes to the model in the meantime.
    shown = summary(_as_read(node, encoder))
    if len(shown["classes"]) > _MAX_LISTED:
        text = json.dumps(shown["classes"]).encode()
        encoder.arrays[_LIST] = np.frombuffer(text, dtype=np.uint8)
        shown["classes"] = None
    header = {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "summary": shown,
        "model": node,
        "extras": [
            [key, encoder.encode(array, f"extras.{i}")]
            for i, (key, array) in enumerate(_arrays(extras).items())
        ],
        "about": _plain_about(about),
        "scikit_learn_version": sklearn.__version__ if encoder.uses_sklearn else None,
    }
    write_file(_file(path), header, encoder.arrays)


def _file(path: str | os.PathLike[str]) -> Path:
    """The file at a path, which must not be a URL."""
    place = located(path)
    if isinstance(place, Path):
        return place
    raise ValueError(
        f"{plain(place)}: models are saved to and loaded from local files. Copy the file; "
        "BatchPredictor also reads models at URLs."
    )


def load(path: str | os.PathLike[str], *, device: Any = None, verify: bool = True) -> Any:
    """Read a model that :func:`save` wrote.

    Files contain numbers, strings and names of classes, but no code. Names are looked up in a list
    that files cannot extend.

    Parameters
    ----------
    path : path
        The file.
    device : device of torch, optional
        Device of attributes that were torch tensors, such as "cpu" or "cuda". By default they are
        loaded as NumPy arrays, which score features of any library.
    verify : bool, default=True
        Whether to read the whole file in order to compare its checksum and to check the values of
        its arrays. False opens a file that was verified before, such as by another worker, in
        milliseconds; damage is then not noticed. Large arrays are mapped into memory in any case,
        so that processes share them: replace such a file by saving to its path, not in place.

    Returns
    -------
    zero-shot estimator
        The fitted estimator.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or needs another version; a ValueError.

    See Also
    --------
    save : Write it.
    """
    return read_model(path, device=device, verify=verify).model


def read_model(
    path: str | os.PathLike[str], *, device: Any = None, verify: bool = True
) -> ModelFile:
    """Read a model with `about`, `extras` and the header.

    Parameters
    ----------
    path : path
        The file.
    device : device of torch, optional
        See :func:`load`.
    verify : bool, default=True
        See :func:`load`.

    Returns
    -------
    ModelFile
        The content of the file.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or needs another version.
    """
    if device is not None:
        # Raise torch's own error about an invalid device.
        import_optional("torch", f"load with device={device!r}").empty(0, device=device)
    file = _file(path)
    with _errors_named(path), open_file(file) as container:
        content = _content(container)
        arrays = container.read_arrays(verify=verify)
        listed = arrays.pop(_LIST, None)
        _warn_of_versions(content, path)
        decoder = Decoder(arrays, container.budget, device, verify=verify)
        model = decoder.decode(content["model"])
        extras = _read_extras(decoder, content["extras"])
        if decoder.unused:
            name = plain(sorted(decoder.unused)[0], 60)
            raise BadContentError(f"its array {name!r} is not used")
        if verify:
            _check_model(model, container.budget)
            _list_classes(content, listed)
            if summary(model) != content["summary"]:
                raise BadContentError("its summary describes another model")
        return ModelFile(model, content["about"], extras, _described(container, content))


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the header of a model file, without its arrays and without comparing the checksum.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict
        "format_version", "library_version", "scikit_learn_version" (None without parts of
        scikit-learn), "sha256", "method", "parameters" (hyper-parameters as in the file),
        "classes", "seen_classes", "n_features", "signatures" (name, number and names of the
        attributes of each view), "about", "extras" (their names), and "arrays" (type and shape by
        name).

    Raises
    ------
    ModelFileError
        If the file is not a model file, its header is damaged, or it needs a newer version.
    """
    file = _file(path)
    with _errors_named(path), open_file(file) as container:
        content = _content(container)
        if _LIST in container.arrays():
            _list_classes(content, container.tensors.get_tensor(_LIST))
        return _described(container, content)


def _list_classes(content: dict[str, Any], text: NDArray[Any] | None) -> None:
    """Insert a list of many classes into the summary."""
    if text is not None and isinstance(content["summary"], dict):
        content["summary"]["classes"] = read_json(text.tobytes().decode(), "its list of classes")


def _as_read(node: Any, encoder: Encoder) -> Any:
    """The model that a reader will get, sharing arrays; raise an error if it cannot be read."""
    no_limit = Budget(Path(), sys.maxsize, file_size=0)
    try:
        model = Decoder(encoder.arrays, no_limit).decode(node)
        _check_model(model, no_limit)
    except BadContentError as error:
        raise CannotSaveError(
            f"The model cannot be saved, because its file could not be loaded: {error}."
        ) from error
    return model


def _plain_about(about: Mapping[str, Any] | None) -> dict[str, Any]:
    """The user's description of a model in the form in which it will be read."""
    if about is not None and not isinstance(about, Mapping):
        raise TypeError(f"about must be a mapping; got {type(about).__name__}.")

    def from_numpy(value: Any) -> Any:
        if isinstance(value, (np.generic, np.ndarray)):
            return value.tolist()
        raise TypeError(f"it contains a value of type {type(value).__name__}")

    try:
        text = json.dumps(dict(about or {}), allow_nan=False, default=from_numpy)
    except (TypeError, ValueError, RecursionError) as error:
        raise type(error)(
            f"about cannot be written as JSON: {error}. Pass strings, numbers, lists and mappings, "
            "and arrays in extras=."
        ) from None
    content: dict[str, Any] = json.loads(text)
    return content


def _arrays(extras: Mapping[str, Any] | None) -> dict[str, NDArray[Any]]:
    """Extras as arrays by name."""
    if extras is None:
        return {}
    if not isinstance(extras, Mapping) or not all(isinstance(name, str) for name in extras):
        raise TypeError("extras must map strings to arrays.")
    return {name: np.asarray(array) for name, array in extras.items()}


def _read_extras(decoder: Decoder, pairs: Any) -> dict[str, NDArray[Any]]:
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):
        raise BadContentError("its extras are not a list of pairs")
    extras = {}
    for name, node in pairs:
        array = decoder.decode(node)
        if not isinstance(name, str) or name in extras or not isinstance(array, np.ndarray):
            raise BadContentError("its extras are not named arrays")
        extras[name] = array
    return extras


#: Number of rows of a trial; a single row would broadcast to arrays of any length.
_TRIAL_ROWS = 3


def _check_model(model: Any, budget: Budget) -> None:
    """Refuse a model whose parts do not fit each other, or that cannot score samples."""
    if not isinstance(model, ZeroShotPredictor):
        raise BadContentError(
            f"it contains a {type(model).__name__}, which is not a zero-shot estimator"
        )
    try:
        check_is_fitted(model, "class_scorer_")
    except NotFittedError:
        raise BadContentError(f"its {type(model).__name__} is not fitted") from None
    scorer = model.class_scorer_
    if not is_among(model.seen_classes_, scorer.labels).all():
        raise BadContentError("it does not describe all of its seen classes")
    n_classes = len(scorer.labels)
    if n_classes < 2 or scorer.parameters.shape[0] != n_classes:
        n_classifiers = scorer.parameters.shape[0]
        raise BadContentError(f"it has {n_classifiers} classifiers for {n_classes} classes")
    for extra in (scorer.bias, scorer.precedence):
        if extra is not None and extra.shape != (n_classes,):
            raise BadContentError(f"it has {len(extra)} score offsets for {n_classes} classes")
    _probe(model, n_classes, budget)


def _probe(model: Any, n_classes: int, budget: Budget) -> None:
    """Score a few samples, which reveals wrong shapes and types before the model is used."""
    n_features = model.n_features_in_
    if type(n_features) is not int or n_features < 1:
        raise BadContentError(f"it has an invalid number of features: {n_features!r:.40}")
    budget.check(FEATURE_BYTES * _TRIAL_ROWS * n_features)
    rows: NDArray[np.float64] = np.linspace(0.5, 1.0, _TRIAL_ROWS * n_features)
    rows = rows.reshape(_TRIAL_ROWS, n_features)
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (n_features,)):
        raise BadContentError("its numbers of features and of feature names differ")
    scorer = model.class_scorer_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = to_numpy(scorer.scores(rows))
        if scorer.temperature is not None:
            shares = to_numpy(scorer.probabilities(rows))
            if not np.allclose(shares.sum(axis=1), 1.0):
                raise BadContentError("it gives invalid probabilities")
    if scores.shape != (_TRIAL_ROWS, n_classes) or not np.isfinite(scores).all():
        raise BadContentError("it gives invalid scores")


def _content(container: OpenFile) -> dict[str, Any]:
    """The validated JSON content of a file."""
    content = container.content
    _check_format(content)
    if set(content) != _KEYS or not isinstance(content["about"], dict):
        raise BadContentError("its description has missing or unknown entries")
    node = content["model"]
    if not isinstance(node, dict) or not isinstance(node.get("object"), str):
        raise BadContentError("its description lacks the method")
    return content


def _described(container: OpenFile, content: dict[str, Any]) -> dict[str, Any]:
    """The result of :func:`describe`."""
    node = content["model"]
    if not isinstance(content["summary"], dict) or not isinstance(content["extras"], list):
        raise BadContentError("its description has an invalid summary")
    versions = ("format_version", "library_version", "scikit_learn_version")
    return {
        **{key: content[key] for key in versions},
        "sha256": container.sha256,
        "method": node["object"],
        "parameters": node.get("parameters", {}),
        **content["summary"],
        "about": content["about"],
        "extras": [pair[0] for pair in content["extras"] if isinstance(pair, list) and pair],
        "arrays": container.arrays(),
    }


@contextmanager
def _errors_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn all errors about the content of a file into a ModelFileError that names the file."""
    try:
        yield
    except (OSError, ImportError, ModelFileError, FileLimitError):
        raise
    except BadContentError as error:
        raise ModelFileError(f"{plain(path)} cannot be loaded: {error}.") from error.__cause__
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 300).rstrip(".")
        raise ModelFileError(
            f"{plain(path)} cannot be loaded: its parts are inconsistent "
            f"({type(error).__name__}: {reason})."
        ) from error
