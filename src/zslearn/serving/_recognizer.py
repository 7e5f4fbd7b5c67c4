"""A served model: predictions, and changes that are saved in its model file.

Every change copies the model, writes the file and then replaces the state, so that other threads
see the state before or after it. The file lists changes of users so that they can be undone:
`about["changes"]` holds the added classes and the corrections, with the rows of a table that they
are about; `extras["corrections"]` holds the features of other samples.
"""

from __future__ import annotations

import copy
import io
import logging
import math
import os
import secrets
import threading
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import Floats
from zslearn._utils._files import locked, remove_stale
from zslearn._utils._messages import composed, did_you_mean, name_some, no_user_warnings, plain
from zslearn._utils._reading import TABLE_ENDINGS
from zslearn.calibration import NoneOfThese, PredictionSets, RankPredictor
from zslearn.images import (
    Samples,
    UnreadableImageError,
    adaptation_of,
    backbone_for_model,
    check_can_learn,
    describe_for_model,
    encoder_for_model,
    explain_predictions,
    features_for_model,
    rank_classes,
    read_image,
)
from zslearn.persistence import ModelFile, read_model, save
from zslearn.signatures import classes_by_node, taxonomy_hierarchy

_log = logging.getLogger("zslearn")


@dataclass(frozen=True)
class Limits:
    """Limits of a service; requests that exceed them are refused with a reason.

    Parameters
    ----------
    body_bytes : int, default=33554432
        Bytes in the body of a request.
    pixels : int, default=50000000
        Pixels in an image, checked before it is decoded.
    batch : int, default=64
        Images or feature vectors per request.
    rows : int, default=10000
        Rows of a table per request.
    added_classes : int, default=1000
        Classes added to those of the model.
    examples : int, default=1000
        Corrections.
    unlabelled : int, default=1000
        Unlabelled images to adapt to.
    in_flight : int, default=64
        Concurrent requests; others are answered with 503.
    seconds : float, default=30.0
        Time from the first byte of a request to its response.

    Examples
    --------
    >>> from zslearn.serving import Limits
    >>> Limits(batch=8).batch
    8
    """

    body_bytes: int = 32 * 2**20
    pixels: int = 50_000_000
    batch: int = 64
    rows: int = 10_000
    added_classes: int = 1000
    examples: int = 1000
    unlabelled: int = 1000
    in_flight: int = 64
    seconds: float = 30.0

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            least = 0 if limit.name in ("added_classes", "examples", "unlabelled") else 1e-3
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
                raise ValueError(f"The limit {limit.name}={value!r} must be a positive number.")


class Refusal(Exception):
    """A request is refused with a status and a reason."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after = status, reason, retry_after


#: Longest name of a class, in characters.
MAX_NAME = 200
#: Larger values are useless to every method, and their squares overflow.
LARGEST = 1e15


#: A row of a table as JSON holds it, by column.
Row = dict[str, float | str | bool | None]


@dataclass(frozen=True, eq=False)
class Example:
    """A correction: a sample labelled by a user, by its features or its row of a table."""

    id: str
    class_name: str
    image: str
    sample: NDArray[np.float32] | Row

    def info(self) -> dict[str, str]:
        """The correction as responses show it."""
        return {"id": self.id, "class": self.class_name, "image": self.image}


@dataclass(frozen=True, eq=False)
class State:
    """An immutable snapshot of a model file and the changes of users."""

    file: ModelFile
    added: tuple[str, ...] = ()
    examples: Mapping[str, Example] = field(default_factory=dict)  # by id
    n_unlabelled: int = 0
    trial: str | None = None  # name of a class on trial, which is not kept

    @classmethod
    def of(cls, file: ModelFile, path: Path) -> State:
        """Read the state from a model file."""
        changes = file.about.get("changes", {"added": [], "examples": [], "n_unlabelled": 0})
        samples: Any = file.extras.get("corrections", [])
        if getattr(file.model, "used_columns_", None) is not None and isinstance(changes, Mapping):
            samples = changes.get("rows", [])
        match changes:
            case {"added": [*added], "examples": [*entries], "n_unlabelled": int(n_unlabelled)} if (
                _are_samples(samples, len(entries), file.model)
                and all(isinstance(entry, list) and len(entry) == 3 for entry in entries)
                and all(isinstance(text, str) for entry in (added, *entries) for text in entry)
            ):
                described = {str(label) for label in file.model.classes_.tolist()}
                examples = {
                    id: Example(id, class_name, image, sample)
                    for (id, class_name, image), sample in zip(entries, samples, strict=True)
                    if class_name in described
                }
                kept = tuple(name for name in added if name in described)
                return cls(file, kept, examples, n_unlabelled)
        raise ValueError(
            f"{plain(path)} cannot be served: its list of added classes and corrections is damaged."
        )

    def content(self) -> dict[str, Any]:
        """The `about` and `extras` of a file with this state."""
        entries = [[e.id, e.class_name, e.image] for e in self.examples.values()]
        samples: list[Any] = [e.sample for e in self.examples.values()]
        changes = {"added": [*self.added], "examples": entries, "n_unlabelled": self.n_unlabelled}
        extras = {name: x for name, x in self.file.extras.items() if name != "corrections"}
        if getattr(self.model, "used_columns_", None) is not None:
            changes["rows"] = samples
        elif samples:
            extras["corrections"] = np.stack(samples)
        return {"about": {**self.file.about, "changes": changes}, "extras": extras}

    @property
    def model(self) -> Any:
        """The model."""
        return self.file.model

    def with_model(self, model: Any, **changes: Any) -> State:
        """The state with another model and other changes of users."""
        return replace(self, file=replace(self.file, model=model), **changes)

    @cached_property
    def label_of(self) -> dict[str, Any]:
        """Labels by name, in the order of the model."""
        return {str(label): label for label in self.model.classes_.tolist()}

    @cached_property
    def seen(self) -> frozenset[str]:
        """Names of the classes with training images."""
        return frozenset(map(str, self.model.seen_classes_.tolist()))

    @cached_property
    def n_examples(self) -> Counter[str]:
        """Number of corrections of each class."""
        return Counter(example.class_name for example in self.examples.values())

    @cached_property
    def _name_of_form(self) -> dict[str, str]:
        """Names by their normalised Unicode form."""
        return {composed(name): name for name in reversed(self.label_of)}

    def known(self, text: str) -> str | None:
        """Find the class a text names, in any Unicode form."""
        return text if text in self.label_of else self._name_of_form.get(str(self.label(text)))

    def label(self, name: str) -> Any:
        """Convert a name to a label: "007" and "7" are the same integer."""
        name = composed(name).strip()
        is_number = self.model.classes_.dtype.kind in "iu" and name.removeprefix("-").isdecimal()
        # Longer numbers do not fit into 64 bits, so that they are not labels of the model.
        return int(name) if is_number and len(name) <= 18 else name

    def find(self, text: str) -> str:
        """Find the class a text names, or refuse the request."""
        name = self.known(text)
        if name is None:
            near = did_you_mean(text, self.label_of)
            raise Refusal(404, f"There is no class {plain(text, 100)!r}.{near}")
        return name

    def signature(self, name: str) -> Floats:
        """The attributes of a class, with views concatenated."""
        table = self.model.signature_table_
        place = table.labels.tolist().index(self.label_of[name])
        return np.concatenate([array[place] for array in table.arrays])

    def same_as(self, name: str) -> str | None:
        """Another class with the same attributes, preferably one with training images."""
        whole = np.concatenate(self.model.signature_table_.arrays, axis=1)
        names = list(self.label_of)
        equal = np.flatnonzero((whole == self.signature(name)).all(axis=1))
        same = [names[place] for place in equal if names[place] != name]
        return min(same, key=lambda other: other not in self.seen, default=None)

    def class_info(self, name: str) -> dict[str, Any]:
        """A class as responses show it."""
        return {
            "name": name,
            "known_by": "seen" if name in self.seen else "described only",
            "added": name in self.added,
            "examples": self.n_examples[name],
        }

    def class_description(self, text: str) -> dict[str, Any]:
        """A class with its attributes and texts."""
        name = self.find(text)
        attributes = [finite(value) for value in self.signature(name)]
        return {**self.class_info(name), "attributes": attributes, "texts": self._texts(name)}

    def example_text(self) -> str | None:
        """The shortest first text of a class, as an example for users."""
        texts = (text for name in self.label_of for text in self._texts(name)[:1])
        return min(texts, key=len, default=None)

    def _texts(self, name: str) -> list[str]:
        """The texts that describe a class."""
        texts = _mapping(_mapping(self.file.about, "signatures"), "texts").get(name)
        texts = [texts] if isinstance(texts, str) else texts
        return [str(text) for text in texts] if isinstance(texts, list) else []

    def free_name(self) -> str:
        """An unused name for a class on trial."""
        are_numbers = self.model.classes_.dtype.kind in "iu"
        names = (str(n) if are_numbers else "the new class" + "′" * n for n in count())
        return next(name for name in names if name not in self.label_of)


def _are_samples(samples: Any, n_samples: int, model: Any) -> bool:
    """Whether the samples of corrections in a file are features, or rows, of that number."""
    if isinstance(samples, np.ndarray):
        return samples.shape == (n_samples, model.n_features_in_)
    cells = (float, int, str, bool, type(None))
    return (
        isinstance(samples, list)
        and len(samples) == n_samples
        and all(
            isinstance(row, dict) and all(isinstance(cell, cells) for cell in row.values())
            for row in samples
        )
    )


def _mapping(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An entry of a record that should be a mapping; empty if it is not."""
    value = content.get(name)
    return value if isinstance(value, Mapping) else {}


def finite(value: Any) -> float | None:
    """A number, or None if JSON cannot represent it."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None


def _plain(value: Any) -> Any:
    """Convert an explanation to JSON: class names as text, non-finite numbers as None."""
    if isinstance(value, dict):
        return {k: str(v) if k in ("label", "name") else _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return finite(value) if isinstance(value, (float, np.floating)) else value


#: Longer side of thumbnails, in pixels, and number of samples on the empty page.
_THUMBNAIL, _N_SAMPLES = 224, 6
#: Files to try when looking for samples.
_MAX_TRIES = 1000


class TrainingFiles:
    """The training images named by a model file, in a folder named by the caller."""

    def __init__(self, folder: Path, file: ModelFile) -> None:
        if not folder.is_dir():
            raise NotADirectoryError(f"{plain(folder)} is not a folder of training images.")
        self._folder = folder.resolve()
        training = _mapping(file.about, "training")
        names, labels = training.get("images"), training.get("labels")
        names = names if isinstance(names, list) else []
        labels = labels if isinstance(labels, list) and len(labels) == len(names) else names
        self._names = frozenset(name for name in names if isinstance(name, str))
        first = {str(label): name for label, name in zip(labels[::-1], names[::-1], strict=True)}
        few = [name for _, name in sorted(first.items())[:_MAX_TRIES] if self.find(name)]
        self.samples = few[:: max(1, len(few) // _N_SAMPLES)][:_N_SAMPLES]

    def find(self, name: Any) -> Path | None:
        """The file of a training image, or None if it is missing or outside the folder."""
        with suppress(OSError, ValueError, RuntimeError):
            if isinstance(name, str) and name in self._names and "\0" not in name:
                path = (self._folder / name).resolve()
                return path if path.is_relative_to(self._folder) and path.is_file() else None
        return None


def _not_accepted(before: float | None, after: float | None) -> str:
    """Why an adaptation is rejected."""
    if before is None or after is None:
        return (
            "There is no way to tell whether this would help: the model was fitted on fewer than "
            "ten classes with images, or without held-out classes."
        )
    return (
        f"This would not help: the score on held-out classes is {100 * before:.1f} % before and "
        f"{100 * after:.1f} % after, with images like these."
    )


#: Wrappers whose error rates are not guaranteed after adapting, so that they refuse to adapt.
_WITH_GUARANTEES = (NoneOfThese, PredictionSets, RankPredictor)
#: Images per batch of the network, whose activations take megabytes per image.
_IMAGES_AT_ONCE = 16


class Recognizer:
    """A served model file; changes must be made by one thread at a time."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        pictures: str | os.PathLike[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        device: str = "auto",
        encoder: str | None = None,
        prior: Mapping[str, float] | None = None,
        taxonomy: pd.DataFrame | None = None,
        describe: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.path = Path(path)
        self.limits = limits or Limits()
        self.state = self._read()
        file = self.state.file
        self.backbone = backbone_for_model(
            file.about, model_name=plain(self.path), weights=weights, device=device
        )
        described = _mapping(file.about, "signatures")
        named = described.get("encoder") if described.get("kind") == "text" else None
        #: The text encoder, or None if classes are described by attributes.
        self.encoder: str | None = named if isinstance(named, str) else None
        self._given_encoder = encoder
        if encoder is not None:
            encoder_for_model(file.about, encoder, model_name=plain(self.path))
        # Text encoders are not thread-safe.
        self._encoding = threading.Lock()
        #: Nodes of the taxonomy by their names in requests, and the classes below each node.
        self._taxa: dict[str, Hashable] = {}
        self._classes_below: Mapping[Hashable, list[Any]] = {}
        if taxonomy is not None:
            self._classes_below = classes_by_node(taxonomy_hierarchy(taxonomy), taxonomy.index)
            self._taxa = {composed(str(taxon)): taxon for taxon in self._classes_below}
        self.pictures = None if pictures is None else TrainingFiles(Path(pictures), file)
        table = file.model.signature_table_
        #: Attributes by their names in requests.
        self.attributes = {str(name): name for name in table.attribute_names()}
        self.n_features = int(file.model.n_features_in_)
        #: The columns of rows in requests; None if samples are feature vectors.
        self.columns: list[Any] | None = getattr(file.model, "used_columns_", None)
        self._is_locked = False
        self._prior: dict[str, float] = {}
        try:
            if describe is not None:
                with self.lock():
                    self.add_texts(describe)
            self.odds(self.state, prior)
        except Refusal as refusal:
            raise ValueError(refusal.reason) from refusal
        self._prior = dict(prior or {})

    def _read(self) -> State:
        """Read the state from the file."""
        self._stamp = self._file_stamp()
        return State.of(read_model(self.path), self.path)

    def _file_stamp(self) -> tuple[int, ...]:
        """A stamp that changes when another process replaces the file."""
        found = self.path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the file against other processes; raise a RuntimeError if one holds it."""
        if self._is_locked:
            yield
            return
        with ExitStack() as stack:
            # In a read-only folder there is no lock: the file is served, and changes are refused.
            with suppress(OSError):
                stack.enter_context(locked(self.path))
                remove_stale(self.path, 0)
            if self._stamp != self._file_stamp():
                self.state = self._read()
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    # Changes.

    def _replace(self, state: State) -> None:
        """Save a new state in the file, then make it visible."""
        try:
            if self._stamp != self._file_stamp():
                reason = f"{self.path.name} was changed by another process; restart the service."
                raise Refusal(409, reason)
            save(state.model, self.path, **state.content())
            self._stamp = self._file_stamp()
        except OSError as error:
            reason = plain(error.strerror or "the disk failed")
            raise Refusal(507, f"The change cannot be saved: {reason}.") from error
        self.state = state

    def _described(self, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> State:
        """The state with new classes, each described by `attributes` and `like`."""
        state = self.state
        model = copy.copy(state.model)
        # Responses report classes with equal descriptions, so that no warning is needed.
        with no_user_warnings(), refused_as_422():
            for name, row in zip(names, rows, strict=True):
                like = row.get("like")
                like = None if like is None else state.label_of[state.find(like)]
                values = row["attributes"]
                if not isinstance(values, Mapping):
                    values = dict(zip(self.attributes, values, strict=True))
                values = {self.attributes.get(key, key): value for key, value in values.items()}
                model.add_classes({state.label(name): values}, like=like)
        state = state.with_model(model)
        if not all(state.signature(name).any() for name in names):
            raise Refusal(422, "Every attribute is 0, which describes nothing.")
        return state

    def _row(self, attributes: Any = None, like: Any = None, text: Any = None) -> dict[str, Any]:
        """Convert the description of a class to attributes."""
        if self.state.model.signature_table_.indicators:
            raise Refusal(422, "Classes cannot be added: the model was fitted without signatures.")
        if (text is None) == (attributes is None):
            raise Refusal(422, "Describe the class either by attributes or by text.")
        if text is None:
            return {"attributes": attributes, "like": like}
        if like is not None:
            raise Refusal(422, "like: only with attributes, not with text.")
        return {"attributes": self._encode({"new": _as_list(text)})[0]}

    def _encode(self, texts: Mapping[str, Sequence[str]]) -> list[list[float]]:
        """Encode the texts of each class as one signature."""
        if self.encoder is None:
            raise Refusal(422, "Classes of this model are described by attributes, not by text.")
        about = self.state.file.about
        try:
            encoder_for_model(about, self._given_encoder)
        except ValueError as error:
            reason = "The model file names a text encoder in a folder, which is only read if the "
            reason += "service is started with --text-encoder."
            raise Refusal(422, reason) from error
        with self._encoding, refused_as_422():
            # No cache: texts of requests must not be left on the disk.
            options: dict[str, Any] = {"backbone": self.backbone, "cache": False}
            found = describe_for_model(texts, about, self._given_encoder, **options)
        if found.signatures.shape[1] != len(self.attributes):
            raise Refusal(422, "The text encoder on this machine is not the one of the model.")
        rows: list[list[float]] = found.signatures.to_numpy(dtype=np.float64).tolist()
        return rows

    def add(self, name: str, text: Any = None, **description: Any) -> str:
        """Add a class from `attributes` (and `like`) or `text`, and return its name."""
        name, row = self._new_name(name), self._row(text=text, **description)
        self._add([name], [row], {} if text is None else {name: _as_list(text)})
        return name

    def add_texts(self, described: Mapping[str, Sequence[str]]) -> None:
        """Add classes from their texts, except known ones."""
        new = {name: texts for name, texts in described.items() if self.state.known(name) is None}
        if new:
            names = [self._new_name(name) for name in new]
            rows = [{"attributes": row} for row in self._encode(new)]
            self._add(names, rows, dict(zip(names, map(list, new.values()), strict=True)))

    def _new_name(self, name: str) -> str:
        """Normalise the name of a new class; refuse known names."""
        if (known := self.state.known(name)) is not None:
            advice = "remove it first or " if known in self.state.added else ""
            raise Refusal(409, f"The class {known!r} already exists; {advice}choose another name.")
        name = str(self.state.label(name))
        # Clients resolve these in addresses.
        if name in (".", ".."):
            raise Refusal(422, "The name must not be one or two dots.")
        return name

    def _add(
        self, names: list[str], rows: Sequence[Mapping[str, Any]], texts: Mapping[str, Any]
    ) -> None:
        """Add classes with their texts."""
        n_added, most = len(self.state.added), self.limits.added_classes
        if n_added + len(names) > most:
            reason = f"{n_added} of at most {most} classes have been added, so there is no room for"
            raise Refusal(409, f"{reason} {len(names)} more; remove some first.")
        state = self._described(names, rows)
        about = dict(state.file.about)
        if texts:
            record = _mapping(about, "signatures")
            about["signatures"] = {**record, "texts": {**_mapping(record, "texts"), **texts}}
        file = replace(state.file, about=about)
        self._replace(replace(state, file=file, added=(*state.added, *names)))

    def remove(self, text: str) -> str:
        """Remove an added class and the corrections that name it; return its name."""
        state = self.state
        name = state.find(text)
        if name not in state.added:
            raise Refusal(409, f"{plain(name, 100)!r} was not added here and cannot be removed.")
        model = copy.copy(state.model).remove_classes([state.label_of[name]])
        about = dict(state.file.about)
        record = _mapping(about, "signatures")
        if name in (texts := dict(_mapping(record, "texts"))):
            del texts[name]
            about["signatures"] = {**record, "texts": texts}
        examples = {id: e for id, e in state.examples.items() if e.class_name != name}
        added = tuple(other for other in state.added if other != name)
        file = replace(state.file, model=model, about=about)
        self._replace(replace(state, file=file, added=added, examples=examples))
        return name

    def trial(self, description: Mapping[str, Any]) -> State:
        """The state with one more class, which is not kept; `trial` is its name."""
        name = self.state.free_name()
        return replace(self._described([name], [self._row(**description)]), trial=name)

    def add_examples(self, X: Floats, text: str, images: Sequence[str]) -> list[Example]:
        """Correct predictions: learn from labelled images and save their features."""
        self._refuse_without("add_examples")
        state = self.state
        name = state.find(text)
        samples = self._stored(X)
        if (n_examples := len(state.examples)) + len(samples) > self.limits.examples:
            reason = f"At most {self.limits.examples} corrections are kept, and there are "
            raise Refusal(409, f"{reason}{n_examples}; remove some first.")
        new = [
            Example(secrets.token_hex(8), name, plain(image, MAX_NAME), sample)
            for image, sample in zip(images, samples, strict=True)
        ]
        model = copy.copy(state.model)
        with no_user_warnings(), refused_as_422():
            labels = np.asarray([state.label_of[name]] * len(samples))
            model.add_examples(self._restored(samples), labels)
        examples = {**state.examples, **{example.id: example for example in new}}
        self._replace(state.with_model(model, examples=examples))
        return new

    def _stored(self, X: Any) -> list[Any]:
        """Samples as corrections keep them."""
        return [*np.asarray(X, dtype=np.float32)] if self.columns is None else rows_of(X)

    def _restored(self, samples: Sequence[Any]) -> Any:
        """Samples of corrections as the model takes them."""
        if self.columns is None:
            return np.stack(samples).astype(np.float64)
        return self.table(samples)

    def remove_example(self, id: str) -> str:
        """Undo a correction and return its id."""
        state = self.state
        example = state.examples.get(id)
        if example is None:
            raise Refusal(404, f"There is no correction {plain(id, 100)!r}.")
        model = copy.copy(state.model)
        with no_user_warnings(), refused_as_422():
            label = np.asarray([state.label_of[example.class_name]])
            model.remove_examples(self._restored([example.sample]), label)
        examples = {other: e for other, e in state.examples.items() if other != id}
        self._replace(state.with_model(model, examples=examples))
        return id

    def adapt(self, X: Floats, *, preview: bool = False) -> dict[str, Any]:
        """Adapt the model to unlabelled images, which replace earlier ones."""
        self._refuse_without("adapt")
        state = self.state
        with no_user_warnings(), refused_as_422():
            model = state.model.adapt(X)
        found = adaptation_of(model)
        scores = finite(found.score_before), finite(found.score_after)
        if not preview:
            if not found.accepted:
                raise Refusal(409, _not_accepted(*scores))
            self._replace(state.with_model(model, n_unlabelled=len(X)))
        before, after = (m.predict_top_k(X, 1)[0][:, 0].tolist() for m in (state.model, model))
        pairs = zip(before, after, strict=True)
        return {
            "accepted": bool(found.accepted),
            "preview": preview,
            "reason": None if found.accepted else _not_accepted(*scores),
            "n_images": len(X),
            "score_before": scores[0],
            "score_after": scores[1],
            "background_share": finite(found.background_share),
            "answers": [{"before": str(old), "after": str(new)} for old, new in pairs],
        }

    def suggest(self, X: Any, n: int) -> dict[str, Any]:
        """Suggest which samples to label next, and what would help each class."""
        self._refuse_without("suggest")
        with no_user_warnings(), refused_as_422():
            found = self.state.model.suggest(X, n)
        columns = {"probability": found.probabilities, "gain": found.gains}
        labels = [str(label) for label in found.labels.tolist()]
        suggestions = pd.DataFrame({"sample": found.rows, "class": labels, **columns})
        classes = found.classes[["gain", "advice"]].rename(index=str)
        same = [None if label is None else str(label) for label in found.classes["same_attributes"]]
        classes["same_attributes"] = pd.Series(same, classes.index, dtype=object)
        tables = {"suggestions": suggestions, "classes": classes.reset_index()}
        return {name: table.to_dict("records") for name, table in tables.items()}

    def undo_adaptation(self) -> None:
        """Restore the class means without unlabelled images."""
        state = self.state
        if not state.n_unlabelled:
            raise Refusal(404, "The model is not adapted to any images.")
        with no_user_warnings():
            none = np.empty((0, self.n_features)) if self.columns is None else self.table([])
            model = state.model.adapt(none, accept=True)
        self._replace(state.with_model(model, n_unlabelled=0))

    def _refuse_without(self, verb: str) -> None:
        """Refuse a request if the model does not support `verb`."""
        with refused_as_422():
            check_can_learn(self.state.model, verb, plain(self.path.name))

    def can(self, verb: str) -> bool:
        """Whether the model has `verb`: "add_examples", "adapt" or "suggest"."""
        with suppress(Refusal):
            self._refuse_without(verb)
            return verb != "adapt" or not isinstance(self.state.model, _WITH_GUARANTEES)
        return False

    # Rows of tables.

    def table(self, rows: Sequence[Row]) -> pd.DataFrame:
        """A table of rows; columns that no row has are refused, further ones ignored."""
        names = [column.name for column in self.columns or []]
        present = set().union(*rows)
        if rows and (missing := [name for name in names if name not in present]):
            near = did_you_mean(missing[0], sorted(present - set(names)))
            raise Refusal(422, f"rows: no row has {name_some(missing, len(missing))}.{near}")
        return pd.DataFrame({name: [row.get(name) for row in rows] for name in names}, dtype=object)

    def read_table(self, data: bytes, name: str) -> Samples:
        """Read the rows of a table file as the command line does."""
        ending = Path(name).suffix.lower()
        with TemporaryDirectory() as folder, refused_as_422():
            path = Path(folder, f"table{ending if ending in TABLE_ENDINGS else '.csv'}")
            path.write_bytes(data)
            try:
                found = features_for_model(path, self.state.file.about, model_name="the model")
            except (OSError, ValueError) as error:
                reason = str(error).replace(str(path), plain(name, 100))
                raise Refusal(422, plain(reason, 500)) from error
        if (n_rows := len(found)) > self.limits.rows:
            reason = f"The table has {n_rows} rows; at most {self.limits.rows} are accepted."
            raise Refusal(413, reason)
        return found

    # Images.

    def training_picture(self, name: str) -> bytes:
        """A thumbnail of a training image, as a JPEG file."""
        path = None if self.pictures is None else self.pictures.find(name)
        if path is None:
            raise Refusal(404, f"There is no training image {plain(name, 100)!r} to show.")
        try:
            image = read_image(path, max_pixels=self.limits.pixels)
        except (UnreadableImageError, MemoryError) as error:
            raise Refusal(404, f"{plain(name, 100)!r} cannot be read.") from error
        image.thumbnail((_THUMBNAIL, _THUMBNAIL))
        out = io.BytesIO()
        image.save(out, "JPEG", quality=80)
        return out.getvalue()

    def refuse_images(self) -> None:
        """Refuse images if the network of the model is unknown."""
        if self.columns is not None:
            raise Refusal(415, "This model accepts rows of a table, not images.")
        if self.backbone is None:
            reason = "This model accepts feature vectors, not images, because its file does not "
            raise Refusal(415, f"{reason}name the network that computed its features.")

    def pixels(self, data: bytes, where: str) -> NDArray[np.uint8]:
        """Decode an image file for the network; errors name it as `where`."""
        assert self.backbone is not None
        try:
            image = read_image(data, max_pixels=self.limits.pixels)
        except UnreadableImageError as error:
            raise Refusal(422, f"{where} cannot be read: {plain(error, 300)}.") from error
        except MemoryError as error:
            raise Refusal(413, f"{where} needs more memory than is available.") from error
        return self.backbone.preprocessing.pixels(image)

    def features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute the features of decoded images."""
        assert self.backbone is not None
        starts = range(0, len(pixels), _IMAGES_AT_ONCE)
        blocks = (pixels[start : start + _IMAGES_AT_ONCE] for start in starts)
        return np.concatenate([self.backbone.features_of_pixels(block) for block in blocks])

    # Predictions.

    def odds(self, state: State, prior: Mapping[str, float] | None) -> dict[Any, float] | None:
        """Prior odds by label, from a request or else the service; None if all are 1."""
        if prior is None:  # a class may have been removed since
            prior = {name: odds for name, odds in self._prior.items() if state.known(name)}
        if not prior:
            return None
        if not hasattr(state.model, "predict_proba"):
            raise Refusal(422, "prior: this model has no probabilities to weight by odds.")
        if wrong := [name for name, odds in prior.items() if not 0 < odds <= LARGEST]:
            raise Refusal(422, f"prior: the odds of {wrong[0]!r} must be positive and finite.")
        found = {state.label_of[state.find(name)]: float(odds) for name, odds in prior.items()}
        if len(found) < len(prior):
            raise Refusal(422, "prior: a class is named twice.")
        return found

    def candidates(self, state: State, among: str, within: Sequence[str]) -> list[Any] | None:
        """The labels of a request's candidates, or None for all classes."""
        if among == "all" and not within:
            return None
        if not within:
            kinds = {"seen": state.model.seen_classes_, "described": state.model.unseen_classes_}
            found = kinds[among].tolist()
        else:
            found = sorted(self._labels_within(state, among, within))
        if not found:
            which = {"seen": " with training images", "described": " without training images"}
            below = f" within {plain(', '.join(within), 200)}" if within else ""
            raise Refusal(422, f"This model has no classes{which.get(among, '')}{below}.")
        return found

    def _labels_within(self, state: State, among: str, within: Sequence[str]) -> set[Any]:
        """The labels below some taxa, at a cost that does not depend on the number of all."""
        labels: set[Any] = set()
        for word in within:
            known, taxon = state.known(word), composed(word).strip()
            if known is None and taxon not in self._taxa:
                near = did_you_mean(word, [*self._taxa, *state.label_of])
                raise Refusal(404, f"There is no class or taxon {plain(word, 100)!r}.{near}")
            # A class and a taxon may share a name, which then means both.
            below = map(str, self._classes_below[self._taxa[taxon]] if taxon in self._taxa else ())
            names = [*below, *(() if known is None else (known,))]
            labels.update(state.label_of[name] for name in names if name in state.label_of)
        if among == "all":
            return labels
        seen = set(state.model.seen_classes_.tolist())
        return labels & seen if among == "seen" else labels - seen


def rows_of(table: pd.DataFrame) -> list[Row]:
    """The rows of a table as JSON holds them."""

    def cell(value: Any) -> Any:
        if value is None or value is pd.NaT or (isinstance(value, float) and math.isnan(value)):
            return None
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        if isinstance(value, (int, float, np.number)):
            return finite(value)
        return str(value)

    names = [str(name) for name in table.columns]
    rows = table.astype(object).itertuples(index=False, name=None)
    return [dict(zip(names, map(cell, row), strict=True)) for row in rows]


def answer(
    state: State,
    X: Any,
    *,
    candidates: list[Any] | None = None,
    top: int = 5,
    explain: bool = False,
    odds: Mapping[Any, float] | None = None,
) -> list[dict[str, Any]]:
    """Predict samples: ranked classes, rejection, confident node and explanation.

    Odds only affect the ranked classes.
    """
    model = state.model
    ranked = rank_classes(model, X, classes=candidates, top=top, prior=odds)
    surely = reasons = None
    if hasattr(model, "predict_rank"):
        surely = model.predict_rank(X, classes=candidates)
    if explain:
        reasons = explain_predictions(state.file, X, classes=candidates)
    found = []
    rows = zip(ranked.labels.tolist(), ranked.scores, ranked.probabilities, strict=True)
    for place, (labels, scores, probabilities) in enumerate(rows):
        entries = []
        for label, score, probability in zip(labels, scores, probabilities, strict=True):
            known = state.class_info(str(label))
            entry = {"class": known.pop("name"), **known, "score": finite(score)}
            entries.append({**entry, "probability": finite(probability)})
        is_none = None if ranked.is_none is None else bool(ranked.is_none[place])
        one: dict[str, Any] = {"ranked": entries, "none_of_these": is_none, "surely": None}
        if surely is not None:
            one["surely"] = {"node": str(surely.nodes[place]), "depth": int(surely.depths[place])}
            one["surely"]["probability"] = finite(surely.probabilities[place])
        one["explanation"] = None if reasons is None else _plain(reasons[place].to_dict())
        found.append(one)
    return found


@contextmanager
def refused_as_422() -> Iterator[None]:
    """Turn errors of the model, which name the remedy, into refusals."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise Refusal(422, plain(error, 500)) from error


def _as_list(text: str | Sequence[str]) -> list[str]:
    return [text] if isinstance(text, str) else list(text)
