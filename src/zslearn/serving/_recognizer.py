"""A model file that answers, and that classes are added to."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.features import Backbone, UnreadableImageError, read_image, text_features
from zslearn.persistence import ModelFile, read_model
from zslearn.recognition import backbone_for_model, encoder_for_model
from zslearn.serving._added import AddedClass, AddedFile, AddedFileError
from zslearn.serving._answers import Answer, answers
from zslearn.serving._attributes import LARGEST, Attributes, row_of, with_rows
from zslearn.serving._limits import Limits
from zslearn.serving._refusals import Refusal, checked_name, checked_texts, label_for
from zslearn.serving._snapshot import Snapshot, free_name
from zslearn.signatures import SignatureTable, text_signatures
from zslearn.utils import Floats, did_you_mean, plain

#: What the file of added classes is called: that of the model, with this behind it.
ADDED_ENDING = ".added.json"
#: Images that the network looks at together; what it keeps of each takes megabytes.
_IMAGES_AT_ONCE = 16


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
        Where the network computes; see :func:`~zslearn.features.load_backbone`.
    limits : Limits, optional
        How much is taken on.
    encoder : str, optional
        What turns texts into vectors, for a model file that names an encoder in a folder: such a
        folder is read on your word alone.

    Raises
    ------
    ValueError
        The model file or that of the added classes is damaged, or they do not fit each other.

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
        if encoder is not None:
            self._text_encoder = encoder_for_model(self.encoder or "", encoder, plain(self.path))
        texts = said.get("texts")
        self._texts: Mapping[str, Any] = texts if isinstance(texts, Mapping) else {}
        self._table: SignatureTable = self.file.model.signature_table_
        self.attributes = Attributes.of(self._table)
        self._lock = threading.Lock()
        # Encoders of text are not made for several threads.
        self._encoder_lock = threading.Lock()
        where = Path(added) if added is not None else Path(f"{self.path}{ADDED_ENDING}")
        self._kept = AddedFile(where, self.attributes.names, self.encoder)
        self.snapshot = self._begin(self._kept.read())

    @property
    def n_features(self) -> int:
        """How many numbers describe an image."""
        return int(self.file.model.n_features_in_)

    def _begin(self, classes: Sequence[AddedClass]) -> Snapshot:
        """The model with the classes of the file."""
        try:
            if len(classes) > self.limits.added_classes:
                raise ValueError(f"there are {len(classes)}, more than the limit")
            if len({c.name for c in classes}) < len(classes):
                raise ValueError("a class is there twice")
            return self._snapshot({c.name: c for c in classes})
        except (Refusal, ValueError) as error:
            raise AddedFileError(
                f"The added classes in {plain(self._kept.path)} do not fit {plain(self.path)}: "
                f"{plain(error)}"
            ) from error

    def _snapshot(self, added: dict[str, AddedClass]) -> Snapshot:
        """The model of the file with added classes."""
        model = self.file.model
        if added:
            rows = {label_for(name, self._table.labels): c.values for name, c in added.items()}
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
        start = None if like is None else self.values_of(like)
        assert attributes is not None
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
                table = text_features({"new": texts}, backbone=self.backbone)
            else:
                # Nothing of a request is left on the disk.
                table = text_signatures({"new": texts}, encoder, cache=False)
        values = table.to_numpy(dtype=np.float64)[0]
        if len(values) != len(self.attributes.names):
            raise Refusal(
                422, "The text encoder of this machine is not the one that the model was made with."
            )
        return values

    def values_of(self, name: str) -> Floats:
        """The attributes of a class; a Refusal where there is none of that name."""
        snapshot = self.snapshot
        return row_of(snapshot.model.signature_table_, self.find(snapshot, name))

    def texts_of(self, name: str) -> list[str]:
        """What was said of a class, where that is known."""
        if name in self.snapshot.added:
            return list(self.snapshot.added[name].texts)
        texts = self._texts.get(name)
        if isinstance(texts, str):
            return [texts]
        return [str(text) for text in texts] if isinstance(texts, list) else []

    @staticmethod
    def find(snapshot: Snapshot, name: str) -> Any:
        """The label of a name; a Refusal where there is none."""
        if name not in snapshot.label_of:
            near = did_you_mean(name, snapshot.label_of) if len(name) <= 200 else ""
            raise Refusal(404, f"There is no class {plain(name, 100)!r}.{near}")
        return snapshot.label_of[name]

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
        values, texts = self.describe(attributes=attributes, like=like, text=text)
        new = AddedClass(name, tuple(values.tolist()), texts)
        with self._lock:
            self._refuse_taken(name)
            if len(self.snapshot.added) >= self.limits.added_classes:
                raise Refusal(
                    409,
                    f"{self.limits.added_classes} classes have been added, and there may not be "
                    "more: remove one first.",
                )
            self._replace({**self.snapshot.added, name: new})
        return new

    def _refuse_taken(self, name: str) -> None:
        known, none = self.snapshot.label_of, getattr(self.file.model, "none_label_", None)
        label = label_for(name, self._table.labels)
        if str(label) in known or label == none:
            raise Refusal(
                409, f"There is a class {name!r} already; remove it first, or rename this."
            )

    def remove(self, name: str) -> None:
        """Forget a class that was added.

        Parameters
        ----------
        name : str
            Its name.
        """
        with self._lock:
            self.find(self.snapshot, name)
            if name not in self.snapshot.added:
                raise Refusal(
                    409, f"{plain(name, 100)!r} is of the model file; only added classes can go."
                )
            self._replace({k: v for k, v in self.snapshot.added.items() if k != name})

    def _replace(self, added: dict[str, AddedClass]) -> None:
        """Keep classes on the disk, then show them."""
        try:
            snapshot = self._snapshot(added)
        except ValueError as error:
            raise Refusal(422, f"The class cannot be added: {plain(error, 500)}") from error
        try:
            self._kept.write(added.values())
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
        name = free_name(snapshot)
        new = AddedClass(name, tuple(values.tolist()))
        try:
            return replace(self._snapshot({**snapshot.added, name: new}), trial=name)
        except ValueError as error:
            raise Refusal(422, f"The class cannot be tried: {plain(error, 500)}") from error

    # Images.

    def pixels(self, data: bytes, where: str) -> NDArray[np.uint8]:
        """What the network sees of an image file; a Refusal that says `where` it came from."""
        if self.backbone is None:
            raise Refusal(
                415,
                "This model takes feature vectors, not images: it does not say which network made "
                "its features.",
            )
        try:
            image = read_image(data, max_pixels=self.limits.pixels)
            return self.backbone.preprocessing.pixels(image)
        except UnreadableImageError as error:
            raise Refusal(422, f"{where} cannot be read: {plain(error, 300)}.") from error
        except MemoryError as error:
            raise Refusal(413, f"{where} needs more memory than there is.") from error

    def features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Features of images that are cut and resized."""
        assert self.backbone is not None
        rows = [
            self.backbone.features_of_pixels(pixels[start : start + _IMAGES_AT_ONCE])
            for start in range(0, len(pixels), _IMAGES_AT_ONCE)
        ]
        return np.concatenate(rows)

    def checked_features(self, rows: Sequence[Sequence[float]]) -> Floats:
        """Feature vectors of a request as an array; a Refusal where they cannot be."""
        for place, row in enumerate(rows):
            if len(row) != self.n_features:
                raise Refusal(
                    422,
                    f"features[{place}] has {len(row)} numbers; the model takes {self.n_features}.",
                )
        X = np.asarray(rows, dtype=np.float64)
        bad = ~np.isfinite(X) | (np.abs(X) > LARGEST)
        if bad.any():
            place = int(np.flatnonzero(bad.any(axis=1))[0])
            raise Refusal(
                422, f"features[{place}] holds NaN, infinity or a number beyond {LARGEST:.0e}."
            )
        return X

    def answer(
        self, X: Floats, snapshot: Snapshot, *, among: str = "all", top: int = 5, why: bool = False
    ) -> list[Answer]:
        """Rank the classes of images; see :func:`answers`."""
        model = snapshot.model
        candidates = None
        if among != "all":
            labels = model.seen_classes_ if among == "seen" else model.unseen_classes_
            candidates = labels.tolist()
        if candidates is not None and not candidates:
            raise Refusal(422, "This model has no classes that are described only.")
        file = replace(self.file, model=model)
        return answers(file, X, frozenset(snapshot.added), candidates, top=top, why=why)
