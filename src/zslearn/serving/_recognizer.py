"""A model file that answers, and that classes are added to; these are kept in a file beside it."""

from __future__ import annotations

import math
import os
import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._utils._array import Floats
from zslearn._utils._files import (
    DamagedFileError,
    fingerprint,
    locked,
    read_checked_json,
    remove_stale,
    write_checked_json,
)
from zslearn._utils._messages import can_be_seen, composed, did_you_mean, no_user_warnings, plain
from zslearn.images._backbones import Backbone
from zslearn.images._decoding import UnreadableImageError, as_seen, needed_bytes, open_image
from zslearn.images._describing import (
    PROMPTS,
    backbone_for_model,
    encoder_for_model,
    prompts_for_model,
    text_features,
)
from zslearn.images._predicting import explain_predictions, rank_classes
from zslearn.persistence._model_files import ModelFile, read_model
from zslearn.signatures._table import SignatureTable
from zslearn.signatures._text import text_signatures


@dataclass(frozen=True)
class Limits:
    """How much a service takes on; what is beyond is refused with a reason.

    Parameters
    ----------
    body_bytes : int, default=33554432
        Bytes of a request's body, whether it says its length or not.
    pixels : int, default=50000000
        Pixels that an image may claim; more are refused before it is decoded. The images that are
        decoded at the same time take 32 bytes of memory for each of these, not more.
    batch : int, default=64
        Images or feature vectors of one request.
    added_classes : int, default=1000
        Classes that may be added to those of the model file.
    in_flight : int, default=64
        Requests at the same time; further ones are answered with 503 and when to try again.
    seconds : float, default=30.0
        For a request from its first byte to the answer.

    Examples
    --------
    >>> from zslearn.serving import Limits
    >>> Limits(batch=8).batch
    8
    """

    body_bytes: int = 32 * 2**20
    pixels: int = 50_000_000
    batch: int = 64
    added_classes: int = 1000
    in_flight: int = 64
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "added_classes" else 1e-3
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
                raise ValueError(f"The limit {field.name}={value!r} must be a positive number.")


MAX_NAME = 200
MAX_TEXT = 2000
MAX_TEXTS = 100


class Refusal(Exception):
    """A request that is answered with a status of HTTP and a reason: what is wrong, what to do."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after


def checked_name(name: str) -> str:
    """The name of a new class in its normal form; a Refusal where it cannot be one."""
    normal = composed(name).strip()
    if not normal:
        raise Refusal(422, "The name is empty.")
    if len(normal) > MAX_NAME:
        raise Refusal(422, f"The name is longer than {MAX_NAME} characters.")
    if not can_be_seen(normal):
        raise Refusal(422, "The name holds characters that cannot be seen; leave them out.")
    # Browsers and other clients take these for folders, so that no address could name the class.
    if normal in (".", ".."):
        raise Refusal(422, "The name is one or two dots, which no address can hold.")
    return normal


_NUMBER = re.compile(r"-?[0-9]{1,18}")


def label_for(name: str, labels: NDArray[Any]) -> Any:
    """The label of a new class, of the kind that the model has; a Refusal where there is none."""
    if labels.dtype.kind in "iu":
        if not _NUMBER.fullmatch(name):
            raise Refusal(422, "The classes of this model are numbers: the name must be one.")
        if labels.dtype.kind == "u" and name.startswith("-"):
            raise Refusal(422, "The classes of this model are numbers that are not negative.")
        return int(name)
    if labels.dtype.kind in "bf":
        raise Refusal(422, "The classes of this model are no names: none can be added.")
    return name


def checked_texts(text: Any) -> list[str]:
    """What is said of a class, as a list; a Refusal where nothing is, or too much."""
    texts = [text] if isinstance(text, str) else text
    if not _is_list(texts) or len(texts) > MAX_TEXTS:
        raise Refusal(422, f"text: give text, or a list of at most {MAX_TEXTS}.")
    if not all(isinstance(words, str) and len(words) <= MAX_TEXT for words in texts):
        raise Refusal(422, f"text: give text of at most {MAX_TEXT} characters.")
    if not texts or not all(words.strip() for words in texts):
        raise Refusal(422, "The text is empty.")
    if not all(map(_is_text, texts)):
        raise Refusal(422, "The text holds characters that are no text.")
    return list(texts)


def _is_text(words: str) -> bool:
    """Whether text can be written in UTF-8 and has no control characters but ends of line."""
    return all(
        letter in "\n\r\t" or unicodedata.category(letter) not in ("Cc", "Cs") for letter in words
    )


_FORMAT = 2


@dataclass(frozen=True)
class AddedClass:
    """A class that was described to a running service: its attributes, and what was said of it."""

    name: str
    values: tuple[float, ...]
    texts: tuple[str, ...] = ()


class AddedFileError(ValueError):
    """A file of added classes cannot be used: its text says why."""


class AddedFile:
    """The file that keeps added classes: whole or not there, and never another process's.

    Classes that are described by other attributes, or another encoder of text, are refused:
    `digest` tells what they are described by.
    """

    def __init__(self, path: Path, n_attributes: int, digest: str) -> None:
        self.path = path
        self._n_attributes = n_attributes
        self._digest = digest
        self._last: bytes | None = None
        self._is_held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no other process write; a RuntimeError names the one that has the file."""
        if self._is_held:
            yield
            return
        with locked(self.path):
            self._is_held = True
            try:
                # What killed processes left belongs to nobody.
                remove_stale(self.path, 0)
                yield
            finally:
                self._is_held = False

    def is_changed(self) -> bool:
        """Whether another process has written since this one read or wrote."""
        try:
            return self.path.read_bytes() != self._last
        except FileNotFoundError:
            return self._last is not None

    def read(self) -> list[AddedClass]:
        """The classes of the file; none where there is no file."""
        self._last = None
        if not self.path.exists():
            return []
        try:
            content = read_checked_json(self.path)
            self._last = self.path.read_bytes()
            return self._classes(content)
        except (DamagedFileError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise AddedFileError(
                f"The added classes in {plain(self.path)} cannot be read: {plain(reason)}. Put the "
                "file right, or move it away to begin without them."
            ) from error

    def write(self, classes: Iterable[AddedClass]) -> None:
        """Replace what the file holds."""
        content = {
            "format": _FORMAT,
            "attributes": self._digest,
            "classes": [
                {"name": c.name, "values": list(c.values), "texts": list(c.texts)} for c in classes
            ],
        }
        try:
            with self.held():
                if self.is_changed():
                    raise AddedFileError(
                        f"{self.path.name} was changed by another process; start this one again."
                    )
                write_checked_json(self.path, content)
                self._last = self.path.read_bytes()
        except RuntimeError:
            raise AddedFileError(f"{self.path.name} is in use by another process.") from None

    def _classes(self, content: dict[str, Any]) -> list[AddedClass]:
        if content.get("format") != _FORMAT:
            raise DamagedFileError("it is of another version of the library")
        if content.get("attributes") != self._digest:
            raise DamagedFileError(
                "its classes are described by other attributes than those of this model"
            )
        entries = content.get("classes")
        if not isinstance(entries, list):
            raise DamagedFileError("it lists no classes")
        return [self._class(entry) for entry in entries]

    def _class(self, entry: Any) -> AddedClass:
        match entry:
            case {"name": str(name), "values": list(values), "texts": list(texts)} if (
                len(values) == self._n_attributes
                and all(type(value) in (int, float) and math.isfinite(value) for value in values)
                and all(isinstance(text, str) for text in texts)
            ):
                return AddedClass(name, tuple(map(float, values)), tuple(texts))
        raise DamagedFileError("one of its classes is not described as those of the model are")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model as it was at one moment; nothing in it changes.

    Labels by their names, in the order of the model; names of the classes with training images;
    classes that the model file does not have; the one among these that is only tried.
    """

    model: Any
    label_of: dict[str, Any]
    seen: frozenset[str]
    added: dict[str, AddedClass]
    trial: str | None = None

    def known(self, text: str) -> str | None:
        """The name of the class that a text means, in whichever Unicode form; None without one."""
        if text in self.label_of:
            return text
        form = composed(text).strip()
        if self.model.classes_.dtype.kind in "iu" and _NUMBER.fullmatch(form):
            form = str(int(form))
        return next((name for name in self.label_of if composed(name) == form), None)

    def find(self, text: str) -> str:
        """The name of the class that a text means; a Refusal where there is none."""
        name = self.known(text)
        if name is None:
            near = did_you_mean(text, self.label_of)
            raise Refusal(404, f"There is no class {plain(text, 100)!r}.{near}")
        return name

    def values_of(self, name: str) -> Floats:
        """The attributes of a class, one view after the other."""
        table = self.model.signature_table_
        place = table.labels.tolist().index(self.label_of[name])
        return np.concatenate([array[place] for array in table.arrays])

    def class_info(self, name: str) -> dict[str, Any]:
        """A class as answers name it."""
        known_by = "seen" if name in self.seen else "described only"
        return {"name": name, "known_by": known_by, "added": name in self.added}

    def free_name(self) -> str:
        """A name that no class has, of the kind that the model's labels are."""
        labels = self.model.classes_
        if labels.dtype.kind in "iu":
            return str(int(labels.max()) + 1)
        name = "the new class"
        while name in self.label_of:
            name += "′"
        return name


# What a service says of an image, as JSON holds it.
Answer = dict[str, Any]


def _plain(value: Any) -> Any:
    """An explanation whose class names are text, and whose numbers JSON can hold."""
    if isinstance(value, dict):
        return {k: str(v) if k in ("label", "name") else _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _number(value) if isinstance(value, (float, np.floating)) else value


def _number(value: Any) -> float | None:
    """A number, or None where there is none that JSON could hold."""
    number = float(value)
    return number if math.isfinite(number) else None


#: Larger values are of no use to any method, and their squares are of none to a computer.
LARGEST = 1e15


@dataclass(frozen=True, eq=False)
class Attributes:
    """Names of what classes are described by, as one list, and ranges in the model file."""

    names: tuple[str, ...]
    lows: Floats
    highs: Floats

    @classmethod
    def of(cls, table: SignatureTable) -> Attributes:
        """The attributes of a table, one view after the other."""
        names: list[str] = []
        for view, columns, array in zip(table.names, table.columns, table.arrays, strict=True):
            plain_names = range(array.shape[1]) if columns is None else columns
            names += [f"{view}: {name}" if view else str(name) for name in plain_names]
        taken: dict[str, int] = {}
        for place, name in enumerate(names):
            taken[name] = count = taken.get(name, 0) + 1
            if count > 1:
                names[place] = f"{name} ({count})"
        values = np.concatenate(table.arrays, axis=1)
        return cls(tuple(names), values.min(axis=0), values.max(axis=0))

    def values(self, given: Any, start: Floats | None) -> Floats:
        """One vector of what a request says; a Refusal at the first fault."""
        if isinstance(given, Mapping):
            values = np.full(len(self.names), np.nan) if start is None else start.copy()
            places = {name: place for place, name in enumerate(self.names)}
            for name, value in given.items():
                if name not in places:
                    near = did_you_mean(name, self.names)
                    raise Refusal(422, f"There is no attribute {plain(name, 100)!r}.{near}")
                values[places[name]] = checked_numbers([value], f"attributes.{name}")[0]
            if np.isnan(values).any():
                missing = self.names[int(np.flatnonzero(np.isnan(values))[0])]
                raise Refusal(
                    422,
                    f"The attribute {missing!r} has no value: give all {len(self.names)}, or name "
                    "a class to begin with (like).",
                )
        elif _is_list(given):
            if len(given) != len(self.names):
                raise Refusal(
                    422, f"{len(given)} attributes were given; there are {len(self.names)}."
                )
            values = checked_numbers(given, "attributes")
        else:
            raise Refusal(422, "attributes: give values by name, or a list of all.")
        if not values.any():
            raise Refusal(422, "Every attribute is 0, which describes nothing.")
        return values

    def digest(self, table: SignatureTable, seen: NDArray[Any], encoder: str | None) -> str:
        """What tells whether descriptions fit a model: names or, without any, what they mean."""
        unnamed = [
            array[np.isin(table.labels, seen)]
            for columns, array in zip(table.columns, table.arrays, strict=True)
            if columns is None and encoder is None
        ]
        return fingerprint(self.names, encoder, unnamed)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, np.ndarray))


def checked_numbers(given: Sequence[Any], where: str) -> Floats:
    """Numbers of a request; a Refusal that says `where` one is that is none."""
    # JSON's true is Python's 1.
    if not all(issubclass(kind, Real) and kind is not bool for kind in {*map(type, given)}):
        raise Refusal(422, f"{plain(where, 100)} holds what is no valid number.")
    try:
        values = np.asarray(given, dtype=np.float64)
    except OverflowError:
        values = np.full(len(given), np.inf)
    if not (np.abs(values) <= LARGEST).all():
        raise Refusal(
            422, f"{plain(where, 100)} holds a number that is not finite, or beyond {LARGEST:.0e}."
        )
    return values


def with_rows(table: SignatureTable, rows: Mapping[Any, Sequence[float]]) -> SignatureTable:
    """A table with further classes."""
    whole = np.asarray(list(rows.values()), dtype=np.float64)
    ends = np.cumsum([array.shape[1] for array in table.arrays])[:-1]
    labels = np.asarray(list(rows), dtype=None if table.labels.dtype.kind in "iu" else object)
    if table.labels.dtype.kind == "U":
        labels = labels.astype(np.str_)
    order = np.argsort(labels, kind="stable")
    arrays = tuple(part[order] for part in np.split(whole, ends, axis=1))
    new = replace(table, labels=labels[order], arrays=arrays)
    return table.union(SignatureTable.from_new(new.as_user(), table))


#: What the file of added classes is called: that of the model, with this behind it.
ADDED_ENDING = ".added.json"
#: Images that the network looks at together; what it keeps of each takes megabytes.
_IMAGES_AT_ONCE = 16
#: Memory for the images that are decoded at the same time: enough for the largest, of any format.
_BYTES_PER_PIXEL = 32


class Memory:
    """Bytes that may be in use at the same time; who asks for more waits until they are free."""

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes = self._free = n_bytes
        # Who asks first gets them first, however many others ask for less.
        self._turn, self._changed = threading.Lock(), threading.Condition()

    @contextmanager
    def taken(self, n_bytes: int) -> Iterator[None]:
        """Take bytes while the context lasts."""
        n_bytes = min(n_bytes, self._n_bytes)
        with self._turn, self._changed:
            self._changed.wait_for(lambda: self._free >= n_bytes)
            self._free -= n_bytes
        try:
            yield
        finally:
            with self._changed:
                self._free += n_bytes
                self._changed.notify()


class Recognizer:
    """A model file that answers, and that classes are added to.

    Several threads may use it. Added classes are kept in a file beside the model before anybody
    sees them, and are there again when the model is opened anew.

    Parameters
    ----------
    path : path
        The model file, as :func:`zslearn.save` or the command fit wrote it.
    added : path, optional
        The file of added classes; by default that of the model with ".added.json" behind it.
    weights : path, optional
        The file of weights, for a network that needs one.
    device : str, default="auto"
        Where the network computes; see :func:`~zslearn.images.load_backbone`.
    limits : Limits, optional
        How much is taken on.
    encoder : str, optional
        What turns texts into vectors, for a model file that names an encoder in a folder: such a
        folder is read on your word alone.
    prior : mapping of str to float, optional
        Odds of classes at the place of the service, for requests that name none themselves; 1 for
        classes that are not named.

    Raises
    ------
    ValueError
        The model file or that of the added classes is damaged, or they do not fit each other; or
        `prior` names no class, or has no odds above 0.

    Examples
    --------
    >>> import tempfile, zslearn
    >>> from pathlib import Path
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.serving import Recognizer
    >>> data = make_zero_shot(random_state=0)
    >>> model = zslearn.EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> folder = tempfile.TemporaryDirectory()
    >>> zslearn.save(model, Path(folder.name, "made_up.zsl"))
    >>> recognizer = Recognizer(Path(folder.name, "made_up.zsl"))
    >>> added = recognizer.add("new", attributes={}, like="class 01")
    >>> "new" in Recognizer(Path(folder.name, "made_up.zsl")).snapshot.label_of
    True
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        added: str | os.PathLike[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        device: str = "auto",
        limits: Limits | None = None,
        encoder: str | None = None,
        prior: Mapping[str, float] | None = None,
    ) -> None:
        self.path = Path(path)
        self.limits = limits or Limits()
        self.file: ModelFile = read_model(self.path)
        self.backbone: Backbone | None = backbone_for_model(
            self.file.about, model_name=plain(self.path), weights=weights, device=device
        )
        said = self.file.about.get("signatures")
        said = said if isinstance(said, Mapping) else {}
        named = said.get("encoder") if said.get("kind") == "text" else None
        # A file that does not name its encoder is served; its classes are described by numbers.
        self.encoder: str | None = named if isinstance(named, str) else None
        self._text_encoder = encoder
        self.prior = dict(prior or {})
        self._prompts = prompts_for_model(said)
        if encoder is not None:
            self._text_encoder = encoder_for_model(self.encoder or "", encoder, plain(self.path))
        texts = said.get("texts")
        self._texts: Mapping[str, Any] = texts if isinstance(texts, Mapping) else {}
        self._table: SignatureTable = self.file.model.signature_table_
        self.attributes = Attributes.of(self._table)
        self._lock = threading.Lock()
        # Encoders of text are not made for several threads.
        self._encoder_lock = threading.Lock()
        self._memory = Memory(_BYTES_PER_PIXEL * self.limits.pixels)
        where = Path(added) if added is not None else Path(f"{self.path}{ADDED_ENDING}")
        digest = self.attributes.digest(self._table, self.file.model.seen_classes_, self.encoder)
        self._added_file = AddedFile(where, len(self.attributes.names), digest)
        self.snapshot = self._first_snapshot(self._added_file.read())
        try:
            self._odds(self.snapshot, prior)
        except Refusal as refusal:
            raise ValueError(refusal.reason) from refusal

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the file of added classes for this process; a RuntimeError names another's."""
        with ExitStack() as stack:
            with self._lock:
                # In a folder that cannot be written to nothing is kept, and adding says so.
                with suppress(OSError):
                    stack.enter_context(self._added_file.held())
                if self._added_file.is_changed():
                    self.snapshot = self._first_snapshot(self._added_file.read())
            yield

    @property
    def n_features(self) -> int:
        """How many numbers describe an image."""
        return int(self.file.model.n_features_in_)

    def _first_snapshot(self, classes: Sequence[AddedClass]) -> Snapshot:
        """The model with the classes of the file."""
        try:
            if len(classes) > self.limits.added_classes:
                raise ValueError(f"there are {len(classes)}, more than the limit")
            if len({c.name for c in classes}) < len(classes):
                raise ValueError("a class is there twice")
            return self._snapshot({c.name: c for c in classes})
        except (Refusal, ValueError) as error:
            raise AddedFileError(
                f"The added classes in {plain(self._added_file.path)} do not fit "
                f"{plain(self.path)}: {plain(error)}"
            ) from error

    def _snapshot(self, added: dict[str, AddedClass]) -> Snapshot:
        """The model of the file with added classes."""
        model = self.file.model
        if added:
            rows = {label_for(name, self._table.labels): c.values for name, c in added.items()}
            # A class like another one shows in the answers; requests write no lines of a log.
            with no_user_warnings():
                model = model.describing(with_rows(self._table, rows))
        label_of = {str(label): label for label in model.classes_.tolist()}
        seen = frozenset(map(str, model.seen_classes_.tolist()))
        return Snapshot(model, label_of, seen, added)

    # Classes.

    def describe(
        self,
        *,
        attributes: Mapping[str, float] | Sequence[float] | None = None,
        like: str | None = None,
        text: str | list[str] | None = None,
    ) -> tuple[Floats, tuple[str, ...]]:
        """The attributes that a description means, and its texts.

        Parameters
        ----------
        attributes : mapping or sequence, optional
            Values by name, or all of them in order.
        like : str, optional
            The class whose values other attributes have.
        text : str or list of str, optional
            What is said of the class, where the model's signatures are made of text.

        Returns
        -------
        values : ndarray of shape (n_attributes,)
            One value per attribute.
        texts : tuple of str
            The texts.
        """
        if self._table.indicators:
            raise Refusal(
                422, "The model was fitted without signatures: no class can be described."
            )
        if (text is None) == (attributes is None):
            raise Refusal(422, "Describe the class by attributes or by text, one of them.")
        if text is not None:
            if self.encoder is None:
                raise Refusal(
                    422, "The classes of this model are described by attributes, not by text."
                )
            if like is not None:
                raise Refusal(422, "like goes with attributes, not with text.")
            texts = checked_texts(text)
            return self._encode(texts), tuple(texts)
        snapshot = self.snapshot
        start = None if like is None else snapshot.values_of(snapshot.find(like))
        return self.attributes.values(attributes, start), ()

    def _encode(self, texts: list[str]) -> Floats:
        """One vector for what is said of a class."""
        try:
            encoder = encoder_for_model(self.encoder or "", self._text_encoder, "The model file")
        except ValueError as error:
            raise Refusal(
                422,
                "The model file names a text encoder in a folder, which is read only where the "
                "service was started with --text-encoder.",
            ) from error
        with self._encoder_lock:
            if encoder == "backbone":
                if self.backbone is None:
                    raise Refusal(422, "The model does not say which network made its texts.")
                table = text_features(
                    {"new": texts}, self._prompts or PROMPTS, backbone=self.backbone
                )
            else:
                # Nothing of a request is left on the disk.
                prompts = self._prompts or "{}"
                table = text_signatures({"new": texts}, encoder, prompts=prompts, cache=False)
        values = table.to_numpy(dtype=np.float64)[0]
        if len(values) != len(self.attributes.names):
            raise Refusal(
                422, "The text encoder of this machine is not the one that the model was made with."
            )
        return values

    def class_description(self, name: str) -> dict[str, Any]:
        """A class with its description, all of one moment; a Refusal where there is none."""
        snapshot = self.snapshot
        name = snapshot.find(name)
        values = snapshot.values_of(name).tolist()
        texts = snapshot.added[name].texts if name in snapshot.added else self._texts.get(name)
        if isinstance(texts, str):
            texts = [texts]
        texts = [str(text) for text in texts] if isinstance(texts, (list, tuple)) else []
        return {**snapshot.class_info(name), "attributes": values, "texts": texts}

    def add(
        self,
        name: str,
        *,
        attributes: Mapping[str, float] | Sequence[float] | None = None,
        like: str | None = None,
        text: str | list[str] | None = None,
    ) -> AddedClass:
        """Describe a further class, and keep it.

        Parameters
        ----------
        name : str
            What it is called; no other class is.
        attributes, like, text
            See :meth:`describe`.

        Returns
        -------
        AddedClass
            What was kept.
        """
        name = checked_name(name)
        label = label_for(name, self._table.labels)
        # A number has one name, however it is written.
        name = str(label)
        values, texts = self.describe(attributes=attributes, like=like, text=text)
        new = AddedClass(name, tuple(values.tolist()), texts)
        with self._lock:
            none = getattr(self.file.model, "none_label_", None)
            if self.snapshot.known(name) is not None or label == none:
                raise Refusal(
                    409, f"There is a class {name!r} already; remove it first, or rename this."
                )
            if len(self.snapshot.added) >= self.limits.added_classes:
                raise Refusal(
                    409,
                    f"{self.limits.added_classes} classes have been added, and there may not be "
                    "more: remove one first.",
                )
            self._replace({**self.snapshot.added, name: new})
        return new

    def remove(self, name: str) -> str:
        """Forget a class that was added.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        str
            The name as the class had it.
        """
        with self._lock:
            name = self.snapshot.find(name)
            if name not in self.snapshot.added:
                raise Refusal(
                    409, f"{plain(name, 100)!r} is of the model file; only added classes can go."
                )
            self._replace({k: v for k, v in self.snapshot.added.items() if k != name})
        return name

    def _replace(self, added: dict[str, AddedClass]) -> None:
        """Keep classes on the disk, then show them."""
        try:
            snapshot = self._snapshot(added)
        except ValueError as error:
            raise Refusal(422, f"The class cannot be added: {plain(error, 500)}") from error
        try:
            self._added_file.write(added.values())
        except AddedFileError as error:
            raise Refusal(409, f"The class cannot be kept: {error}") from error
        except OSError as error:
            raise Refusal(
                507, f"The class cannot be kept: {plain(error.strerror or 'the disk fails')}."
            ) from error
        self.snapshot = snapshot

    def trial(self, values: Floats) -> Snapshot:
        """The model with one further class, which is not kept.

        Parameters
        ----------
        values : ndarray of shape (n_attributes,)
            Its attributes.

        Returns
        -------
        Snapshot
            Its `trial` is what answers call the class.
        """
        snapshot = self.snapshot
        name = snapshot.free_name()
        new = AddedClass(name, tuple(values.tolist()))
        try:
            return replace(self._snapshot({**snapshot.added, name: new}), trial=name)
        except ValueError as error:
            raise Refusal(422, f"The class cannot be tried: {plain(error, 500)}") from error

    # Images.

    def image_network(self) -> Backbone:
        """The network that made the model's features; a Refusal where the file names none."""
        if self.backbone is None:
            raise Refusal(
                415,
                "This model takes feature vectors, not images: it does not say which network made "
                "its features.",
            )
        return self.backbone

    def pixels(self, data: bytes, where: str) -> NDArray[np.uint8]:
        """What the network sees of an image file; a Refusal that says `where` it came from."""
        network = self.image_network()
        try:
            image = open_image(data, self.limits.pixels)
            with self._memory.taken(needed_bytes(image)):
                return network.preprocessing.pixels(as_seen(image))
        except UnreadableImageError as error:
            raise Refusal(422, f"{where} cannot be read: {plain(error, 300)}.") from error
        except MemoryError as error:
            raise Refusal(413, f"{where} needs more memory than there is.") from error

    def features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of images that are cut and resized."""
        network = self.image_network()
        rows = [
            network.features_of_pixels(pixels[start : start + _IMAGES_AT_ONCE])
            for start in range(0, len(pixels), _IMAGES_AT_ONCE)
        ]
        return np.concatenate(rows)

    def checked_features(self, rows: Any) -> Floats:
        """Feature vectors of a request as an array; a Refusal at the first fault."""
        if not _is_list(rows) or not len(rows):
            raise Refusal(422, "features: give at least 1 list of numbers, in a list.")
        if len(rows) > self.limits.batch:
            raise Refusal(413, f"{len(rows)} rows; at most {self.limits.batch} at once.")
        for place, row in enumerate(rows):
            n = len(row) if _is_list(row) else "no"
            if n != self.n_features:
                raise Refusal(
                    422, f"features[{place}] has {n} numbers; the model takes {self.n_features}."
                )
        return np.stack([checked_numbers(row, f"features[{i}]") for i, row in enumerate(rows)])

    def _odds(
        self, snapshot: Snapshot, prior: Mapping[str, float] | None
    ) -> dict[Any, float] | None:
        """Odds by label: those of a request, else those of the service; None where all are 1."""
        if prior is None:  # classes of the service's odds may have been removed since
            prior = {name: odds for name, odds in self.prior.items() if snapshot.known(name)}
        if not prior:
            return None
        if not hasattr(snapshot.model, "predict_proba"):
            raise Refusal(422, "prior: this model has scores, no probabilities to weigh by odds.")
        for name, odds in prior.items():
            if not isinstance(odds, (int, float)) or not 0 < odds < np.inf:
                raise Refusal(
                    422, f"prior: the odds of {plain(name, 100)!r} are not a number above 0."
                )
        return {snapshot.label_of[snapshot.find(name)]: odds for name, odds in prior.items()}

    def answer(
        self,
        X: Floats,
        snapshot: Snapshot,
        *,
        among: str = "all",
        top: int = 5,
        explain: bool = False,
        prior: Mapping[str, float] | None = None,
    ) -> list[Answer]:
        """What is said of each image: ranked classes, "none of these", node and why.

        Odds in `prior` weigh the ranked classes alone.
        """
        model = snapshot.model
        odds = self._odds(snapshot, prior)
        candidates = None
        if among != "all":
            labels = model.seen_classes_ if among == "seen" else model.unseen_classes_
            candidates = labels.tolist()
            if not candidates:
                raise Refusal(422, "This model has no classes that are described only.")
        ranked = rank_classes(model, X, classes=candidates, top=top, prior=odds)
        surely = reasons = None
        if hasattr(model, "predict_rank"):
            surely = model.predict_rank(X, classes=candidates)
        if explain:
            reasons = explain_predictions(replace(self.file, model=model), X, classes=candidates)
        found: list[Answer] = []
        rows = zip(ranked.labels.tolist(), ranked.scores, ranked.probabilities, strict=True)
        for place, (labels, scores, chances) in enumerate(rows):
            answer: Answer = {"ranked": []}
            for label, score, chance in zip(labels, scores, chances, strict=True):
                known = snapshot.class_info(str(label))
                numbers = {"score": _number(score), "probability": _number(chance)}
                answer["ranked"].append({"class": known.pop("name"), **known, **numbers})
            none = ranked.is_none
            answer["none_of_these"] = None if none is None else bool(none[place])
            answer["surely"] = answer["explanation"] = None
            if surely is not None:
                answer["surely"] = {
                    "node": str(surely.nodes[place]),
                    "depth": int(surely.depths[place]),
                    "probability": _number(surely.probabilities[place]),
                }
            if reasons is not None:
                answer["explanation"] = _plain(reasons[place].to_dict())
            found.append(answer)
        return found
