"""A model file that answers, and that classes and corrections are added to.

What was added is kept in a file beside the model: classes, labelled features of pictures, and
features of pictures without labels that the model is adapted to.
"""

from __future__ import annotations

import base64
import io
import logging
import math
import os
import re
import secrets
import sys
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import Floats
from zslearn._utils._files import (
    MAX_BYTES,
    DamagedFileError,
    locked,
    read_checked_json,
    remove_stale,
    write_checked_json,
)
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import (
    composed,
    did_you_mean,
    name_fault,
    name_some,
    no_user_warnings,
    plain,
)
from zslearn.base._meta import ZeroShotMetaClassifier
from zslearn.calibration._stacking import CalibratedStacking
from zslearn.calibration._thresholds import HeldOutCalibration
from zslearn.calibration._unlabelled import Adapted
from zslearn.images import (
    Backbone,
    UnreadableImageError,
    backbone_for_model,
    decode_image,
    decoding_bytes,
    describe_for_model,
    encoder_for_model,
    explain_predictions,
    open_image,
    rank_classes,
)
from zslearn.persistence._model_files import ModelFile, read_model
from zslearn.signatures import SignatureTable, classes_by_node, taxonomy_hierarchy

_log = logging.getLogger("zslearn")


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
    examples : int, default=1000
        Corrections: pictures whose classes people have said.
    unlabelled : int, default=1000
        Pictures without labels that the model may be adapted to.
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
    examples: int = 1000
    unlabelled: int = 1000
    in_flight: int = 64
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("added_classes", "examples", "unlabelled") else 1e-3
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
    if fault := name_fault(normal):
        raise Refusal(422, f"The name {fault}.")
    if len(normal) > MAX_NAME:
        raise Refusal(422, f"The name is longer than {MAX_NAME} characters.")
    # Browsers and other clients take these for folders, so that no address could name the class.
    if normal in (".", ".."):
        raise Refusal(422, "The name is one or two dots, which no address can hold.")
    return normal


_NUMBER = re.compile(r"-?[0-9]{1,18}")


def label_for(name: str, labels: NDArray[Any]) -> Any:
    """The label of a new class, of the kind that the model has; a Refusal where there is none."""
    if labels.dtype.kind in "iu":
        if not _NUMBER.fullmatch(name):
            raise Refusal(
                422,
                "The classes of this model are numbers: give one of at most 18 digits as the name.",
            )
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


_FORMAT = 3
# Without corrections; nothing else differs.
_OLDER_FORMAT = 2


@dataclass(frozen=True)
class AddedClass:
    """A class that was described to a running service: its attributes, and what was said of it."""

    name: str
    values: tuple[float, ...]
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Example:
    """A correction: features of a picture (float32) whose class a person has said."""

    id: str
    class_name: str
    image: str
    features: NDArray[np.float32]

    def info(self) -> dict[str, str]:
        """A correction as answers name it."""
        return {"id": self.id, "class": self.class_name, "image": self.image}


@dataclass(frozen=True, eq=False)
class Added:
    """All that was added to a model; `unlabelled` are the features that it is adapted to."""

    classes: tuple[AddedClass, ...] = ()
    examples: tuple[Example, ...] = ()
    unlabelled: NDArray[np.float32] | None = None


def _as_text(rows: NDArray[np.float32]) -> str:
    return base64.b64encode(rows.astype("<f4").tobytes()).decode()


class AddedFileError(ValueError):
    """A file of added classes cannot be used: its text says why."""


class AddedFile:
    """The file that keeps what was added: whole or not there, and never another process's.

    Classes that are described by other attributes, or another encoder of text, are refused, as are
    corrections by other features: `digests` tell what they are made of.
    """

    def __init__(
        self, path: Path, n_attributes: int, n_features: int, digests: tuple[str, str]
    ) -> None:
        self.path = path
        self._n_attributes = n_attributes
        self._n_features = n_features
        self._digests = digests
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

    def read(self) -> Added:
        """What the file holds; nothing where there is no file."""
        self._last = None
        if not self.path.exists():
            return Added()
        try:
            content = read_checked_json(self.path)
            self._last = self.path.read_bytes()
            return self._added(content)
        except (DamagedFileError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise AddedFileError(
                f"The added classes in {plain(self.path)} cannot be read: {plain(reason)}. Put the "
                "file right, or move it away to begin without them."
            ) from error

    def write(self, added: Added) -> None:
        """Replace what the file holds."""
        of_attributes, of_features = self._digests
        unlabelled = added.unlabelled
        n_rows = len(added.examples) + (0 if unlabelled is None else len(unlabelled))
        # As text a number of a class takes up to 25 bytes, one of a picture less than 6.
        n_bytes = 25 * self._n_attributes * len(added.classes) + 6 * self._n_features * n_rows
        if n_bytes > MAX_BYTES:
            raise AddedFileError(f"all of it would take more than {MAX_BYTES >> 20} MiB")
        content = {
            "format": _FORMAT,
            "attributes": of_attributes,
            "features": of_features,
            "classes": [
                {"name": c.name, "values": list(c.values), "texts": list(c.texts)}
                for c in added.classes
            ],
            "examples": [{**e.info(), "features": _as_text(e.features)} for e in added.examples],
            "unlabelled": None if unlabelled is None else _as_text(unlabelled),
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

    def _added(self, content: dict[str, Any]) -> Added:
        if content.get("format") not in (_FORMAT, _OLDER_FORMAT):
            raise DamagedFileError("it is of another version of the library")
        of_attributes, of_features = self._digests
        if content.get("attributes") != of_attributes:
            raise DamagedFileError(
                "its classes are described by other attributes than those of this model"
            )
        classes, examples = content.get("classes"), content.get("examples", [])
        if not isinstance(classes, list) or not isinstance(examples, list):
            raise DamagedFileError("it lists no classes")
        unlabelled = content.get("unlabelled")
        if (examples or unlabelled is not None) and content.get("features") != of_features:
            raise DamagedFileError(
                "its corrections are of features that another network made than that of this model"
            )
        return Added(
            tuple(map(self._class, classes)),
            tuple(map(self._example, examples)),
            None if unlabelled is None else self._rows(unlabelled),
        )

    def _class(self, entry: Any) -> AddedClass:
        match entry:
            case {"name": str(name), "values": list(values), "texts": list(texts)} if (
                len(values) == self._n_attributes
                and all(type(value) in (int, float) and math.isfinite(value) for value in values)
                and all(isinstance(text, str) for text in texts)
            ):
                return AddedClass(name, tuple(map(float, values)), tuple(texts))
        raise DamagedFileError("one of its classes is not described as those of the model are")

    def _example(self, entry: Any) -> Example:
        match entry:
            case {"id": str(key), "class": str(name), "image": str(image), "features": features}:
                (row,) = self._rows(features, most=1)
                return Example(key, name, image, row)
        raise DamagedFileError("one of its corrections is not whole")

    def _rows(self, text: Any, most: int | None = None) -> NDArray[np.float32]:
        """Rows of features, of which there is one at least."""
        try:
            data = base64.b64decode(text, validate=True)
            rows = np.frombuffer(data, dtype="<f4").reshape(-1, self._n_features)
        except (TypeError, ValueError):
            rows = np.empty((0, self._n_features))
        if not 0 < len(rows) <= (most or len(rows)) or not np.isfinite(rows).all():
            raise DamagedFileError("it holds features that are not those of this model")
        return rows.astype(np.float32)


def estimators_of(model: Any) -> list[Any]:
    """A model and what is inside it; the method is the last."""
    found = [model]
    while isinstance(found[-1], ZeroShotMetaClassifier):
        found.append(found[-1]._inner)
    return found


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model as it was at one moment; nothing in it changes.

    Labels by their names, in the order of the model; names of the classes with training images;
    classes that the model file does not have; corrections by their identifiers; features without
    labels that the model is adapted to; the added class that is only tried.
    """

    model: Any
    label_of: dict[str, Any]
    seen: frozenset[str]
    added: dict[str, AddedClass]
    examples: dict[str, Example]
    unlabelled: NDArray[np.float32] | None = None
    trial: str | None = None

    def content(self) -> Added:
        """What was added, as its file holds it."""
        return Added(tuple(self.added.values()), tuple(self.examples.values()), self.unlabelled)

    @cached_property
    def n_examples(self) -> Counter[str]:
        """How many corrections each class has."""
        return Counter(example.class_name for example in self.examples.values())

    def same_as(self, values: Floats, but: str | None) -> str | None:
        """A class that is described by the same values, one with training images first."""
        whole = np.concatenate(self.model.signature_table_.arrays, axis=1)
        names = list(self.label_of)
        same = [names[i] for i in np.flatnonzero((whole == values).all(axis=1)) if names[i] != but]
        return min(same, key=lambda name: name not in self.seen, default=None)

    def known(self, text: str) -> str | None:
        """The name of the class that a text means, in whichever Unicode form; None without one."""
        if text in self.label_of:
            return text
        form = composed(text).strip()
        if self._has_numbers and _NUMBER.fullmatch(form):
            form = str(int(form))
        return self._name_of_form.get(form)

    @cached_property
    def _has_numbers(self) -> bool:
        """Whether classes are named by integers; a wrapper builds its classes at every look."""
        return self.model.classes_.dtype.kind in "iu"

    @cached_property
    def _name_of_form(self) -> dict[str, str]:
        """Names by their composed Unicode form; the first class of a form has it."""
        return {composed(name): name for name in reversed(self.label_of)}

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
        return {
            "name": name,
            "known_by": known_by,
            "added": name in self.added,
            "examples": self.n_examples[name],
        }

    def free_name(self) -> str:
        """A name that no class has, of the kind that the model's labels are."""
        labels = self.model.classes_
        if labels.dtype.kind in "iu":
            name = str(int(labels.max()) + 1)
            free = (str(number) for number in range(len(labels) + 1))
            # Beyond the largest number that may be a name, the first that is free is taken.
            return (
                name if _NUMBER.fullmatch(name) else next(n for n in free if n not in self.label_of)
            )
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
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None


#: Larger values are of no use to any method, and their squares are of none to a computer.
LARGEST = 1e15


@dataclass(frozen=True, eq=False)
class Attributes:
    """Names of what classes are described by, as one list, and values in the model file.

    Their ranges, and whether each is 0 or 1 for every class.
    """

    names: tuple[str, ...]
    lows: Floats
    highs: Floats
    binary: NDArray[np.bool_]

    @classmethod
    def of(cls, table: SignatureTable) -> Attributes:
        """The attributes of a table, one view after the other."""
        names = [str(name) for name in table.attribute_names()]
        taken: dict[str, int] = {}
        for place, name in enumerate(names):
            taken[name] = count = taken.get(name, 0) + 1
            if count > 1:
                names[place] = f"{name} ({count})"
        values = np.concatenate(table.arrays, axis=1)
        # NaN is of classes that lack a view.
        binary = ((values == 0) | (values == 1) | np.isnan(values)).all(axis=0)
        return cls(tuple(names), np.nanmin(values, axis=0), np.nanmax(values, axis=0), binary)

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
    if not all(kind is not bool and issubclass(kind, Real) for kind in {*map(type, given)}):
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


#: What decides, of the record of how features are made, whether features fit a model.
_DECISIVE = ("backbone", "weights_sha256", "preprocessing")
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


#: Pixels of the longer side of training pictures that are shown, and how many on an empty page.
_SMALL, _N_SAMPLES = 224, 6
#: Files that are looked for to find these.
_MOST_LOOKED_AT = 1000


class TrainingFiles:
    """Training pictures that a model file names, in the folder that the caller has named."""

    def __init__(self, folder: Path, file: ModelFile) -> None:
        if not folder.is_dir():
            raise NotADirectoryError(f"{plain(folder)} is no folder of training pictures.")
        self._folder = folder.resolve()
        training = file.about.get("training")
        training = training if isinstance(training, Mapping) else {}
        names, labels = training.get("images"), training.get("labels")
        names = names if isinstance(names, list) else []
        labels = labels if isinstance(labels, list) and len(labels) == len(names) else names
        self._names = frozenset(name for name in names if isinstance(name, str))
        first = {str(label): name for label, name in zip(labels[::-1], names[::-1], strict=True)}
        few = sorted(first.items())[:_MOST_LOOKED_AT]
        of_classes = [name for _, name in few if self.find(name) is not None]
        step = max(1, len(of_classes) // _N_SAMPLES)
        self.samples = of_classes[::step][:_N_SAMPLES]

    def find(self, name: Any) -> Path | None:
        """The file of a training picture; None without one, and for one that lies elsewhere."""
        if not isinstance(name, str) or name not in self._names or "\0" in name:
            return None
        try:
            path = (self._folder / name).resolve()
            return path if path.is_relative_to(self._folder) and path.is_file() else None
        except (OSError, ValueError, RuntimeError):
            return None


def _not_accepted(before: float | None, after: float | None) -> str:
    """Why pictures without labels are not learned from."""
    if before is None or after is None:
        return (
            "Nothing says whether it would help: the model was fitted on fewer than ten classes "
            "with pictures, or without a look at classes that are left out."
        )
    return (
        "It would not help: tried on classes left out of training, the score is "
        f"{100 * before:.1f} % without it and {100 * after:.1f} % with it, or it falls where half "
        "of the classes are absent."
    )


def _promising(wrappers: Sequence[Any]) -> list[str]:
    """Wrappers with a rate found on held-out classes, which an adapted model would not keep."""
    return [
        type(wrapper).__name__
        for wrapper in wrappers
        if isinstance(wrapper, HeldOutCalibration) and not isinstance(wrapper, CalibratedStacking)
    ]


class Recognizer:
    """A model file that answers, and that classes and corrections are added to.

    Several threads may use it. What is added is kept in a file beside the model before anybody
    sees it, and is there again when the model is opened anew. Where the model file has since got
    a class of the same name, that class is used, and the log says so. Corrections, and adapting to
    pictures without labels, need a method that learns them without a new fit,
    :class:`~zslearn.synthesis.GaussianEXEM`, alone or inside wrappers and pipelines.

    Parameters
    ----------
    path : path
        The model file, as :func:`zslearn.save` or the command fit wrote it.
    added : path, optional
        The file of what is added; by default that of the model with ".added.json" behind it.
    pictures : path, optional
        The folder of the training pictures, which the model file knows by name; small copies of
        them are shown.
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
    taxonomy : DataFrame, optional
        Ranks of classes, as :func:`~zslearn.signatures.taxonomy_hierarchy` takes them: requests may
        choose among the classes below a taxon.

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
        pictures: str | os.PathLike[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        device: str = "auto",
        limits: Limits | None = None,
        encoder: str | None = None,
        prior: Mapping[str, float] | None = None,
        taxonomy: pd.DataFrame | None = None,
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
        pairs = {}
        if taxonomy is not None:
            pairs = classes_by_node(taxonomy_hierarchy(taxonomy), taxonomy.index)
        self._below = {
            composed(str(taxon)): [str(name) for name in below] for taxon, below in pairs.items()
        }
        if encoder is not None and self.encoder is not None:
            encoder_for_model(self.file.about, encoder, model_name=plain(self.path))
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
        made_by = self.file.about.get("features")
        made_by = made_by if isinstance(made_by, Mapping) else {}
        of_features = fingerprint(self.n_features, *map(made_by.get, _DECISIVE))
        n_attributes = len(self.attributes.names)
        self._added_file = AddedFile(where, n_attributes, self.n_features, (digest, of_features))
        *wrappers, method = estimators_of(self.file.model)
        #: Whether the model learns from corrections, and from pictures without labels.
        self.learns = hasattr(method, "add_examples")
        self.adapts = self.learns and hasattr(method, "adapt")
        self.adapts |= any(isinstance(w, Adapted) for w in wrappers)
        self.adapts &= not _promising(wrappers)
        self._pictures = None if pictures is None else TrainingFiles(Path(pictures), self.file)
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

    def _first_snapshot(self, added: Added) -> Snapshot:
        """The model with what the file holds; where both describe a class, the model file wins."""
        in_model = {composed(str(label)): str(label) for label in self._table.labels.tolist()}
        both = {c.name: in_model[c.name] for c in added.classes if c.name in in_model}
        if both:
            # They were added to the model file since, for instance by `zslearn add-class`.
            _log.warning(
                "%s and %s both describe %s: the description in the model file is used",
                plain(self.path),
                plain(self._added_file.path),
                plain(name_some(both)),
            )
            added = replace(
                added,
                classes=tuple(c for c in added.classes if c.name not in both),
                examples=tuple(
                    replace(e, class_name=both.get(e.class_name, e.class_name))
                    for e in added.examples
                ),
            )
        try:
            if len(added.classes) > self.limits.added_classes:
                raise ValueError(f"there are {len(added.classes)}, more than the limit")
            for what, keys in (
                ("class", [c.name for c in added.classes]),
                ("correction", [e.id for e in added.examples]),
            ):
                if len(set(keys)) < len(keys):
                    raise ValueError(f"a {what} is there twice")
            return self._snapshot(added)
        except (Refusal, ValueError) as error:
            raise AddedFileError(
                f"The added classes in {plain(self._added_file.path)} do not fit "
                f"{plain(self.path)}: {plain(error)}"
            ) from error

    def _snapshot(self, added: Added) -> Snapshot:
        """The model of the file with what was added, whatever the order."""
        model = self.file.model
        # A class like another one shows in the answers; requests write no lines of a log.
        with no_user_warnings():
            if added.classes or added.examples:
                rows = {label_for(c.name, self._table.labels): c.values for c in added.classes}
                # A copy, which examples may change.
                model = model.describing(with_rows(self._table, rows) if rows else self._table)
            label_of = {str(label): label for label in model.classes_.tolist()}
            if added.examples:
                self._teach(model, added.examples, label_of)
            if added.unlabelled is not None:
                self._refuse_fixed("adapts")
                model = model.adapt(added.unlabelled.astype(np.float64))
        return Snapshot(
            model,
            label_of,
            frozenset(map(str, model.seen_classes_.tolist())),
            {c.name: c for c in added.classes},
            {e.id: e for e in added.examples},
            added.unlabelled,
        )

    def _teach(self, model: Any, examples: Sequence[Example], label_of: Mapping[str, Any]) -> None:
        """Let a model learn from corrections."""
        self._refuse_fixed("learns")
        if lost := [e.class_name for e in examples if e.class_name not in label_of]:
            raise ValueError(f"there are corrections of {lost[0]!r}, which is no class")
        X = np.stack([e.features for e in examples]).astype(np.float64)
        y = np.asarray([label_of[e.class_name] for e in examples])
        model.add_examples(X, y)

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
            self._refuse_text()
            if like is not None:
                raise Refusal(422, "like goes with attributes, not with text.")
            texts = checked_texts(text)
            return self._encode({"new": texts})[0], tuple(texts)
        snapshot = self.snapshot
        start = None if like is None else snapshot.values_of(snapshot.find(like))
        return self.attributes.values(attributes, start), ()

    def _refuse_text(self) -> None:
        """Refuse texts where the model's signatures are not made of text."""
        if self.encoder is None:
            raise Refusal(
                422, "The classes of this model are described by attributes, not by text."
            )

    def _encode(self, said: Mapping[str, list[str]]) -> Floats:
        """One vector for what is said of each class."""
        about = self.file.about
        try:
            encoder = encoder_for_model(about, self._text_encoder)
        except ValueError as error:
            raise Refusal(
                422,
                "The model file names a text encoder in a folder, which is read only where the "
                "service was started with --text-encoder.",
            ) from error
        with self._encoder_lock:
            if encoder == "backbone" and self.backbone is None:
                raise Refusal(422, "The model does not say which network made its texts.")
            # Nothing of a request is left on the disk.
            options = {"backbone": self.backbone, "cache": False}
            table = describe_for_model(said, about, encoder, **options).signatures
        values = table.to_numpy(dtype=np.float64)
        if values.shape[1] != len(self.attributes.names):
            raise Refusal(
                422, "The text encoder of this machine is not the one that the model was made with."
            )
        return values

    def class_description(self, name: str) -> dict[str, Any]:
        """A class with its description, all of one moment; a Refusal where there is none."""
        snapshot = self.snapshot
        name = snapshot.find(name)
        values = [_number(value) for value in snapshot.values_of(name)]
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
            self._refuse_known(name, label)
            self._keep([new], "The class")
        return new

    def add_texts(self, said: Mapping[str, Sequence[str]]) -> list[AddedClass]:
        """Describe those of some classes in text that are not known yet, and keep them at once.

        Parameters
        ----------
        said : mapping of str to sequence of str
            What is said of each class.

        Returns
        -------
        list of AddedClass
            What was kept.
        """
        self._refuse_text()
        with self._lock:
            labels = [label_for(checked_name(name), self._table.labels) for name in said]
            known = {composed(name) for name in self.snapshot.label_of}
            new = {str(c): list(texts) for c, texts in zip(labels, said.values(), strict=True)}
            new = {name: texts for name, texts in new.items() if name not in known}
            if not new:
                return []
            none = getattr(self.file.model, "none_label_", None)
            if str(none) in new:
                self._refuse_known(str(none), none)
            rows = self._encode(new).tolist()
            classes = [
                AddedClass(name, tuple(row), tuple(texts))
                for (name, texts), row in zip(new.items(), rows, strict=True)
            ]
            self._keep(classes, "The classes")
        return classes

    def _keep(self, new: Sequence[AddedClass], what: str) -> None:
        """Add classes to those that were added, as many as there may be."""
        n_added, most = len(self.snapshot.added), self.limits.added_classes
        if n_added + len(new) > most:
            raise Refusal(
                409,
                f"{n_added} classes have been added, of {most} that may be: {len(new)} more are "
                "too many. Remove some first.",
            )
        now = self.snapshot.content()
        self._replace(replace(now, classes=(*now.classes, *new)), what)

    def _refuse_known(self, name: str, label: Any) -> None:
        """Refuse a new class by the name of another one."""
        known = self.snapshot.known(name)
        if known is None and label == getattr(self.file.model, "none_label_", None):
            raise Refusal(409, f"{name!r} is what pictures of no class are called already.")
        if known in self.snapshot.added:
            raise Refusal(
                409,
                f"There is a class {name!r} already, which was added here: remove it first, or "
                "choose another name.",
            )
        if known is not None:
            raise Refusal(
                409, f"There is a class {name!r} in the model already: choose another name."
            )

    def remove(self, name: str) -> str:
        """Forget a class that was added, and the corrections that name it.

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
            now = self.snapshot.content()
            classes = tuple(c for c in now.classes if c.name != name)
            examples = tuple(e for e in now.examples if e.class_name != name)
            self._replace(replace(now, classes=classes, examples=examples), "The change")
        return name

    def _replace(self, added: Added, what: str, snapshot: Snapshot | None = None) -> None:
        """Keep what was added on the disk, then show it."""
        try:
            snapshot = snapshot or self._snapshot(added)
        except ValueError as error:
            raise Refusal(422, f"{what} cannot be added: {plain(error, 500)}") from error
        try:
            self._added_file.write(added)
        except AddedFileError as error:
            raise Refusal(409, f"{what} cannot be kept: {error}") from error
        except OSError as error:
            raise Refusal(
                507, f"{what} cannot be kept: {plain(error.strerror or 'the disk fails')}."
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
        label = label_for(name, self._table.labels)
        table = with_rows(snapshot.model.signature_table_, {label: values.tolist()})
        try:
            # What was learned from pictures stays: nothing of it is computed again.
            with no_user_warnings():
                model = snapshot.model.describing(table)
            label_of = {str(label): label for label in model.classes_.tolist()}
            return replace(snapshot, model=model, label_of=label_of, trial=name)
        except ValueError as error:
            raise Refusal(422, f"The class cannot be tried: {plain(error, 500)}") from error

    # Learning.

    def _refuse_fixed(self, wanted: str) -> None:
        """Refuse where the model cannot learn without a new fit."""
        if getattr(self, wanted):
            return
        *wrappers, method = estimators_of(self.file.model)
        promising = _promising(wrappers)
        if wanted == "adapts" and promising and self.learns:
            raise Refusal(
                422,
                f"What {promising[0]} promises was found on classes that were left out, and would "
                "not hold for a model that is adapted to pictures without labels.",
            )
        what = "from corrections" if wanted == "learns" else "from pictures without labels"
        raise Refusal(
            422,
            f"{type(method).__name__} does not learn {what}; a model fitted by GaussianEXEM does.",
        )

    def add_examples(self, X: Floats, name: str, images: Sequence[str] = ()) -> list[Example]:
        """Correct answers: take in pictures whose class is known, and keep their features.

        Parameters
        ----------
        X : ndarray of shape (n_images, n_features)
            Features of the pictures.
        name : str
            The class of all of them; it is described already.
        images : sequence of str, optional
            What each picture is called.

        Returns
        -------
        list of Example
            What was kept.
        """
        self._refuse_fixed("learns")
        rows = np.asarray(X, dtype=np.float32)
        images = [*images, *map(str, range(len(images), len(rows)))]
        with self._lock:
            name = self.snapshot.find(name)
            now = self.snapshot.content()
            if len(now.examples) + len(rows) > self.limits.examples:
                raise Refusal(
                    409,
                    f"At most {self.limits.examples} corrections are kept, and there are "
                    f"{len(now.examples)}: remove some first.",
                )
            new = [
                Example(secrets.token_hex(8), name, plain(image, MAX_NAME), row)
                for image, row in zip(images, rows, strict=True)
            ]
            self._replace(replace(now, examples=(*now.examples, *new)), "The correction")
        return new

    def remove_example(self, key: str) -> Example:
        """Undo a correction: the model is as if it had never been made.

        Parameters
        ----------
        key : str
            Its `id`.

        Returns
        -------
        Example
            What was removed.
        """
        with self._lock:
            removed = self.snapshot.examples.get(key)
            if removed is None:
                raise Refusal(404, f"There is no correction {plain(key, 100)!r}.")
            now = self.snapshot.content()
            left = tuple(e for e in now.examples if e.id != key)
            self._replace(replace(now, examples=left), "The change")
        return removed

    def adapt(self, X: Floats, *, preview: bool = False) -> dict[str, Any]:
        """Learn from pictures without labels, in place of those that were learned from before.

        Parameters
        ----------
        X : ndarray of shape (n_images, n_features)
            Features of the pictures.
        preview : bool, default=False
            Whether to say what would change and keep nothing.

        Returns
        -------
        dict
            As the service answers: whether classes that are left out of training speak for it, and
            for each picture the class before and after.
        """
        self._refuse_fixed("adapts")
        rows = np.asarray(X, dtype=np.float32)
        if len(rows) > self.limits.unlabelled:
            raise Refusal(413, f"{len(rows)} pictures; at most {self.limits.unlabelled} at once.")
        with nullcontext() if preview else self._lock:
            now = self.snapshot
            wanted = replace(now.content(), unlabelled=rows)
            try:
                adapted = self._snapshot(wanted)
            except ValueError as error:
                raise Refusal(422, f"The pictures are of no use: {plain(error, 500)}") from error
            parts = estimators_of(adapted.model)
            found = next(part.adaptation_ for part in parts if hasattr(part, "adaptation_"))
            scores = _number(found.score_before), _number(found.score_after)
            if not (found.accepted or preview):
                raise Refusal(409, _not_accepted(*scores))
            if not preview:
                self._replace(wanted, "What was learned", adapted)
        before, after = (rank_classes(s.model, rows, top=1).labels[:, 0] for s in (now, adapted))
        names = [[str(label) for label in labels.tolist()] for labels in (before, after)]
        return {
            "accepted": bool(found.accepted),
            "preview": preview,
            "reason": None if found.accepted else _not_accepted(*scores),
            "n_images": len(rows),
            "score_before": scores[0],
            "score_after": scores[1],
            "unexplained": _number(found.unexplained),
            "answers": [{"before": b, "after": a} for b, a in zip(*names, strict=True)],
        }

    def forget_adaptation(self) -> int:
        """Undo :meth:`adapt`: the model is as if it had never seen these pictures.

        Returns
        -------
        int
            How many they were.
        """
        with self._lock:
            unlabelled = self.snapshot.unlabelled
            if unlabelled is None:
                raise Refusal(404, "The model is not adapted to any pictures.")
            self._replace(replace(self.snapshot.content(), unlabelled=None), "The change")
        return len(unlabelled)

    # Images.

    def training_picture(self, name: str) -> bytes:
        """A small copy of a training picture, as a JPEG file.

        Parameters
        ----------
        name : str
            What the model file calls it.

        Returns
        -------
        bytes
            The file.
        """
        path = None if self._pictures is None else self._pictures.find(name)
        if path is None:
            raise Refusal(404, f"There is no training picture {plain(name, 100)!r} to be shown.")
        try:
            image = open_image(path, max_pixels=self.limits.pixels)
            with self._memory.taken(decoding_bytes(image)):
                small = decode_image(image)
                small.thumbnail((_SMALL, _SMALL))
        except (UnreadableImageError, MemoryError) as error:
            raise Refusal(404, f"{plain(name, 100)!r} cannot be read.") from error
        out = io.BytesIO()
        small.save(out, "JPEG", quality=80)
        return out.getvalue()

    @property
    def shows_pictures(self) -> bool:
        """Whether small copies of training pictures can be shown."""
        return self._pictures is not None

    @property
    def samples(self) -> list[str]:
        """Names of some training pictures that can be shown, each of another class."""
        return [] if self._pictures is None else self._pictures.samples

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
            image = open_image(data, max_pixels=self.limits.pixels)
            with self._memory.taken(decoding_bytes(image)):
                return network.preprocessing.pixels(decode_image(image))
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

    def checked_features(self, rows: Any, most: int) -> Floats:
        """Feature vectors of a request as an array; a Refusal at the first fault."""
        if not _is_list(rows) or not len(rows):
            raise Refusal(422, "features: give at least 1 list of numbers, in a list.")
        if len(rows) > most:
            raise Refusal(413, f"{len(rows)} rows; at most {most} at once.")
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
        if len(prior) > len(snapshot.label_of):
            n_classes = len(snapshot.label_of)
            raise Refusal(
                422, f"prior: {len(prior)} odds were given; there are {n_classes} classes."
            )
        found: dict[Any, float] = {}
        for name, odds in prior.items():
            label = snapshot.label_of[snapshot.find(name)]
            if label in found:
                raise Refusal(422, f"prior: {plain(name, 100)!r} names a class a second time.")
            # An integer may be finite and yet beyond every float.
            if not isinstance(odds, (int, float)) or not 0 < odds <= sys.float_info.max:
                raise Refusal(
                    422, f"prior: the odds of {plain(name, 100)!r} are not a finite number above 0."
                )
            found[label] = float(odds)
        return found

    def _candidates(
        self, snapshot: Snapshot, among: str, within: Sequence[str]
    ) -> list[Any] | None:
        """Labels of the classes that a request chooses among; None for all."""
        model = snapshot.model
        if among == "all" and not within:
            return None
        if len(within) > (most := len(snapshot.label_of) + len(self._below)):
            raise Refusal(
                422, f"within: {len(within)} names were given; there are {most} classes and taxa."
            )
        named: set[str] = set()
        taxa: set[str] = set()
        for word in within:
            known, taxon = snapshot.known(word), composed(word).strip()
            if known is None and taxon not in self._below:
                near = did_you_mean(word, [*self._below, *snapshot.label_of])
                raise Refusal(404, f"There is no class or taxon {plain(word, 100)!r}.{near}")
            # A class may have the name of a taxon: then both are meant.
            named.update([] if known is None else [known])
            taxa.update([taxon] if taxon in self._below else [])
        named.update(*(self._below[taxon] for taxon in taxa))
        kinds = {"all": "classes_", "seen": "seen_classes_", "described": "unseen_classes_"}
        labels = getattr(model, kinds[among]).tolist()
        found = [label for label in labels if not within or str(label) in named]
        if not found:
            which = {"seen": " with training images", "described": " that are described only"}
            below = f" within {plain(', '.join(within), 200)}" if within else ""
            raise Refusal(422, f"This model has no classes{which.get(among, '')}{below}.")
        return found

    def check_names(
        self,
        snapshot: Snapshot,
        among: str,
        within: Sequence[str],
        prior: Mapping[str, float] | None,
    ) -> None:
        """Refuse what :meth:`answer` would refuse, before others wait for it."""
        self._odds(snapshot, prior)
        self._candidates(snapshot, among, within)

    def answer(
        self,
        X: Floats,
        snapshot: Snapshot,
        *,
        among: str = "all",
        within: Sequence[str] = (),
        top: int = 5,
        explain: bool = False,
        prior: Mapping[str, float] | None = None,
    ) -> list[Answer]:
        """What is said of each image: ranked classes, "none of these", node and why.

        Odds in `prior` weigh the ranked classes alone.
        """
        model = snapshot.model
        odds = self._odds(snapshot, prior)
        candidates = self._candidates(snapshot, among, within)
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
