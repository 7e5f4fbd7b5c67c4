"""Saving and loading models."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from zslearn._version import __version__
from zslearn.base import ZeroShotPredictor
from zslearn.datasets import FileLimitError
from zslearn.persistence._container import Container, open_container, write_container
from zslearn.persistence._decode import Decoder
from zslearn.persistence._encode import Encoder, plain_about
from zslearn.persistence._errors import BadContentError, CannotSaveError, ModelFileError
from zslearn.persistence._json import read_json, write_json
from zslearn.persistence._summary import summary
from zslearn.persistence._validate import check_model
from zslearn.persistence._versions import FORMAT_VERSION, checked_versions, say_of_versions
from zslearn.utils import import_optional, plain

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

    Parameters
    ----------
    model : zero-shot estimator
        Fitted: a method, or a wrapper such as :class:`~zslearn.calibration.CalibratedStacking`,
        :class:`~zslearn.model_selection.ZeroShotSearchCV` or
        :class:`~zslearn.pipeline.ZeroShotPipeline`.
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

    Examples
    --------
    >>> import tempfile, zslearn
    >>> from pathlib import Path
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> model = zslearn.EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zslearn.save(model, Path(folder, "made_up.zsl"), about={"backbone": "none"})
    ...     again = zslearn.load(Path(folder, "made_up.zsl"))
    >>> bool((again.predict(data.X_test_unseen) == model.predict(data.X_test_unseen)).all())
    True
    """
    if not isinstance(model, ZeroShotPredictor):
        raise TypeError(
            f"save takes a fitted zero-shot estimator; got {type(model).__name__}. A pipeline of "
            "scikit-learn is one as zslearn.pipeline.ZeroShotPipeline(steps)."
        )
    check_is_fitted(model, "class_scorer_")
    encoder = Encoder()
    node = encoder.encode(model, type(model).__name__)
    header = {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        # Of what is written: another thread may have described a class since.
        "summary": summary(_checked(node, encoder)),
        "model": node,
        "extras": [
            [key, encoder.encode(array, f"extras.{i}")]
            for i, (key, array) in enumerate(_arrays(extras).items())
        ],
        "about": plain_about(about),
        "scikit_learn_version": sklearn.__version__ if encoder.uses_sklearn else None,
    }
    write_container(Path(path), write_json(header), encoder.arrays)


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
    with _errors_named(path), open_container(Path(path)) as container:
        content = _content(container)
        with say_of_versions(content, path):
            decoder = Decoder(container.read_arrays(), device)
            model = decoder.decode(content["model"])
            extras = _read_extras(decoder, content["extras"])
            if decoder.unused:
                name = plain(sorted(decoder.unused)[0], 60)
                raise BadContentError(f"nothing says what its array {name!r} is")
            check_model(model)
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
    with _errors_named(path), open_container(Path(path)) as container:
        return _described(container, _content(container))


def _checked(node: Any, encoder: Encoder) -> Any:
    """The model that a reader will make, which copies no array; refuse what it will refuse."""
    try:
        model = Decoder(encoder.arrays).decode(node)
        check_model(model)
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


def _content(container: Container) -> dict[str, Any]:
    """What the text of a file says, in the format of this version."""
    content = read_json(container.text, "its description")
    content = checked_versions(content)
    if set(content) != _KEYS or not isinstance(content["about"], dict):
        raise BadContentError("its description lacks parts, or has unknown ones")
    node = content["model"]
    if not isinstance(node, dict) or not isinstance(node.get("object"), str):
        raise BadContentError("its description names no method")
    return content


def _described(container: Container, content: dict[str, Any]) -> dict[str, Any]:
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
        "arrays": {
            entry.name: {"dtype": entry.dtype.name, "shape": list(entry.shape)}
            for entry in container.entries
        },
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
