"""Saving and loading models: the public functions, and what a file says of its model."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from zslearn._utils._messages import InputWarning, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import Budget, FileLimitError
from zslearn._version import __version__
from zslearn.base._predictor import ZeroShotPredictor
from zslearn.persistence._container import (
    BadContentError,
    CannotSaveError,
    ModelFileError,
    OpenFile,
    open_file,
    write_file,
)
from zslearn.persistence._decode import Decoder, check_model
from zslearn.persistence._encode import Encoder, plain_about
from zslearn.signatures._table import SignatureTable


def summary(model: Any) -> dict[str, Any]:
    """What a header says of a model, to be read without the model."""
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
    """The signatures as a user gave them, of the estimator that was fitted with them."""
    # Wrappers of wrappers are few; a file cannot make them endless.
    for _ in range(100):
        described = getattr(model, "_described", None)
        if described is not None:
            return described.table
        if isinstance(getattr(model, "steps", None), list):
            model = model.steps[-1][1]
        elif hasattr(model, "estimator_"):
            model = model.estimator_
        else:
            break
    return None


#: Number of the format. It rises when a reader of the last number could not read a file, or would
#: read it wrongly; not for a new hyper-parameter, whose default means what was before.
FORMAT_VERSION = 2


def _check_format(content: dict[str, Any]) -> None:
    """Refuse a file of another format."""
    number, library = content.get("format_version"), content.get("library_version")
    if type(number) is not int or number < 1 or not isinstance(library, str):
        raise BadContentError("its description names no version")
    if number != FORMAT_VERSION:
        advice = "Update zslearn, or fit" if number > FORMAT_VERSION else "Fit"
        raise BadContentError(
            f"it was saved by zslearn {plain(library, 40)} in version {number} of the format, and "
            f"this is zslearn {__version__}, which reads version {FORMAT_VERSION}. {advice} and "
            "save the model again with this version"
        )


def _warn_of_versions(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Warn of a file of a newer library, or of parts of another scikit-learn."""
    library, learn = content["library_version"], content.get("scikit_learn_version")
    if _numbers(library) > _numbers(__version__):
        warn_user(
            f"{plain(path)}: It was saved by zslearn {plain(library, 40)}, which is newer than "
            f"this zslearn {__version__}; update zslearn if its predictions matter.",
            InputWarning,
        )
    if isinstance(learn, str) and _numbers(learn)[:2] != _numbers(sklearn.__version__)[:2]:
        warn_user(
            f"{plain(path)}: Parts of it were fitted by scikit-learn {plain(learn, 40)}, and this "
            f"is {sklearn.__version__}; scikit-learn does not say that they predict the same.",
            InputWarning,
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release: 1.2.0.dev3 is 1, 2, 0."""
    found = re.match(r"\d{1,9}(\.\d{1,9}){0,3}", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)


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
    """What a model file holds.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    about : dict
        What the caller of :func:`save` said.
    extras : dict of str to ndarray
        Arrays that were saved beside the model.
    header : dict
        See :func:`describe`.
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

    The file is whole or not there: an error, or a kill in the middle, leaves what was at `path`.
    :ref:`saving` has examples.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted: a method, or a wrapper such as :class:`~zslearn.calibration.CalibratedStacking`,
        :class:`~zslearn.model_selection.ZeroShotSearchCV` or
        :class:`~zslearn.model_selection.ZeroShotPipeline`.
    path : path
        The file, by custom with the ending ``.zsl``. Its folder is made.
    about : mapping, optional
        What else is known, as JSON can hold it: how features were made of images, what signatures
        were made of.
    extras : mapping of str to array, optional
        Arrays that travel with the model.

    See Also
    --------
    load : Read it.
    zslearn.persistence.read_model : Read it with `about` and `extras`.
    """
    if not isinstance(model, ZeroShotPredictor):
        raise TypeError(
            f"save takes a fitted zero-shot estimator; got {type(model).__name__}. A pipeline of "
            "scikit-learn is one as zslearn.model_selection.ZeroShotPipeline(steps)."
        )
    check_is_fitted(model, "class_scorer_")
    encoder = Encoder()
    node = encoder.encode(model, type(model).__name__)
    header = {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        # Of what is written: another thread may have described a class since.
        "summary": summary(_as_read(node, encoder)),
        "model": node,
        "extras": [
            [key, encoder.encode(array, f"extras.{i}")]
            for i, (key, array) in enumerate(_arrays(extras).items())
        ],
        "about": plain_about(about),
        "scikit_learn_version": sklearn.__version__ if encoder.uses_sklearn else None,
    }
    write_file(Path(path), header, encoder.arrays)


def load(path: str | os.PathLike[str], *, device: Any = None) -> Any:
    """Read a model that :func:`save` wrote.

    Reading runs no code of the file: it holds numbers, texts and names of classes, which are looked
    up in a list that the file cannot add to.

    Parameters
    ----------
    path : path
        The file.
    device : device of torch, optional
        Where what was learned as tensors of torch becomes tensors again, such as "cpu" or "cuda";
        by default it is loaded as arrays of NumPy, which score features of any library.

    Returns
    -------
    zero-shot estimator
        Fitted, as it was saved: it predicts, and further classes can be described.

    Raises
    ------
    ModelFileError
        The file is no model file, is damaged, or needs another version; a ValueError.

    See Also
    --------
    save : Write it.
    """
    return read_model(path, device=device).model


def read_model(path: str | os.PathLike[str], *, device: Any = None) -> ModelFile:
    """Read a model with all that was saved beside it.

    Parameters
    ----------
    path : path
        The file.
    device : device of torch, optional
        See :func:`load`.

    Returns
    -------
    ModelFile
        The model, `about`, `extras` and the header.

    Raises
    ------
    ModelFileError
        The file is no model file, is damaged, or needs another version.
    """
    if device is not None:
        # What torch says of a device is no fault of the file.
        import_optional("torch", f"load with device={device!r}").empty(0, device=device)
    with _errors_named(path), open_file(Path(path)) as container:
        content = _content(container)
        arrays = container.read_arrays()
        _warn_of_versions(content, path)
        decoder = Decoder(arrays, container.budget, device)
        model = decoder.decode(content["model"])
        extras = _read_extras(decoder, content["extras"])
        if decoder.unused:
            name = plain(sorted(decoder.unused)[0], 60)
            raise BadContentError(f"nothing says what its array {name!r} is")
        check_model(model, container.budget)
        if summary(model) != content["summary"]:
            raise BadContentError("its summary is of another model")
        return ModelFile(model, content["about"], extras, _described(container, content))


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says of its model; no array is read, and nothing is made of it.

    The checksum is not compared, for that takes reading all of the file.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict
        "format_version", "library_version", "scikit_learn_version" (None where the model has no
        part of scikit-learn), "sha256", "method", "parameters" (hyper-parameters as the file has
        them), "classes", "seen_classes", "n_features", "signatures" (name, number and names of the
        attributes of each view), "about", "extras" (their names), and "arrays" (type and shape by
        name).

    Raises
    ------
    ModelFileError
        The file is no model file, its header is damaged, or it needs a newer version.
    """
    with _errors_named(path), open_file(Path(path)) as container:
        return _described(container, _content(container))


def _as_read(node: Any, encoder: Encoder) -> Any:
    """The model that a reader will make, which copies no array; refuse what it will refuse."""
    no_limit = Budget(Path(), sys.maxsize, file_size=0)
    try:
        model = Decoder(encoder.arrays, no_limit).decode(node)
        check_model(model, no_limit)
    except BadContentError as error:
        raise CannotSaveError(f"The model cannot be saved; of a file of it: {error}.") from error
    return model


def _arrays(extras: Mapping[str, Any] | None) -> dict[str, NDArray[Any]]:
    """Extras as arrays by name."""
    if extras is None:
        return {}
    if not isinstance(extras, Mapping) or not all(isinstance(name, str) for name in extras):
        raise TypeError("extras must map names, which are texts, to arrays.")
    return {name: np.asarray(array) for name, array in extras.items()}


def _read_extras(decoder: Decoder, said: Any) -> dict[str, NDArray[Any]]:
    if not isinstance(said, list) or not all(isinstance(p, list) and len(p) == 2 for p in said):
        raise BadContentError("its extras are no list of pairs")
    extras = {}
    for name, node in said:
        array = decoder.decode(node)
        if not isinstance(name, str) or name in extras or not isinstance(array, np.ndarray):
            raise BadContentError("its extras are no arrays with names")
        extras[name] = array
    return extras


def _content(container: OpenFile) -> dict[str, Any]:
    """What the text of a file says, if it can be."""
    content = container.content
    _check_format(content)
    if set(content) != _KEYS or not isinstance(content["about"], dict):
        raise BadContentError("its description lacks parts, or has unknown ones")
    node = content["model"]
    if not isinstance(node, dict) or not isinstance(node.get("object"), str):
        raise BadContentError("its description names no method")
    return content


def _described(container: OpenFile, content: dict[str, Any]) -> dict[str, Any]:
    """The header that a caller sees."""
    node = content["model"]
    if not isinstance(content["summary"], dict) or not isinstance(content["extras"], list):
        raise BadContentError("its description has no proper summary")
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
    """One error that names the file, whatever is wrong with it."""
    try:
        yield
    except (OSError, ImportError, ModelFileError, FileLimitError):
        raise
    except BadContentError as error:
        raise ModelFileError(f"{plain(path)} cannot be loaded: {error}.") from error.__cause__
    except Exception as error:
        reason = plain(str(error).partition("\n")[0], 300).rstrip(".")
        raise ModelFileError(
            f"{plain(path)} cannot be loaded: its parts do not fit each other "
            f"({type(error).__name__}: {reason})."
        ) from error
