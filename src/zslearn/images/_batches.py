"""Predictions for batches of columns, in Ray, Spark, Dask and Hugging Face datasets."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._array import to_numpy
from zslearn._utils._messages import did_you_mean, name_some, plain
from zslearn._utils._optional import import_optional
from zslearn._utils._reading import without_secrets
from zslearn._utils._remote import file_state, located
from zslearn._utils._validation import is_missing
from zslearn._version import __version__, version_numbers
from zslearn.images._backbones import Backbone
from zslearn.images._decoding import UnreadableImageError, quiet_decoding, read_image
from zslearn.images._features import features_in_batches
from zslearn.images._model_files import backbone_for_model
from zslearn.persistence import describe, read_model

if TYPE_CHECKING:
    from PIL.Image import Image

_IMAGES_AT_ONCE = 64
#: Contents of image files, and their paths.
_FILES = (bytes, bytearray, str, os.PathLike)
# Spark loads the model in several threads of one worker.
_load_lock = threading.Lock()


class BatchPredictor:
    """Predict the best classes of batches with a model file: columns in, columns out.

    It can be passed to the batch functions of Ray, Spark, Dask and Hugging Face datasets, and
    is pickled as the path of the model: every process reads the file once. :ref:`engines` has a
    short program for each.

    Parameters
    ----------
    model : path or URL
        A file of :func:`~zslearn.save` or ``zslearn fit`` that every worker can read. URLs such as
        ``s3://bucket/birds.zsl`` need fsspec, and each process keeps a copy.
    column : str, default="features"
        The column of feature vectors, or of images: encoded bytes, paths, or mappings with "bytes"
        or "path", any of which may be missing. Images need a model that records its network.
        Ignored by models of tables, which read their own columns.
    k : int, default=5
        Number of classes per row.
    classes : sequence of labels, optional
        The candidates; by default every described class.
    proba : bool, default=False
        Whether to return probabilities instead of scores.
    keep : sequence of str, or mapping of str to str, default=()
        Columns to copy to the output; as a mapping, with their Spark types.
    dtype : {"float32", "float64"}, default="float32"
        Precision to which vectors are converted, since engines differ in what they pass on.
    device : str, default="auto"
        Device of networks and scores: "cpu", "cuda", or "auto" for a GPU if there is one.
    weights : path, optional
        The weights of the network; see :func:`load_backbone`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from zslearn import EXEM, BatchPredictor, save
    >>> from zslearn.datasets import make_zero_shot
    >>> data = make_zero_shot(random_state=0)
    >>> path = Path(tempfile.mkdtemp(), "model.zsl")
    >>> save(EXEM().fit(data.X_train, data.y_train, signatures=data.signatures), path)
    >>> predictor = BatchPredictor(path, k=1, keep=["id"])
    >>> batch = {"id": [7, 8], "features": data.X_test_unseen[:2]}
    >>> sorted(predictor(batch))
    ['id', 'label_1', 'score_1']
    """

    def __init__(
        self,
        model: Any,
        column: str = "features",
        *,
        k: int = 5,
        classes: Sequence[Any] | None = None,
        proba: bool = False,
        keep: Sequence[str] | Mapping[str, str] = (),
        dtype: str = "float32",
        device: str = "auto",
        weights: Any = None,
    ) -> None:
        if isinstance(keep, str):
            raise TypeError(f"keep={keep!r} must be a list of columns, such as [{keep!r}].")
        if dtype not in ("float32", "float64"):
            raise ValueError(f"dtype={dtype!r} must be 'float32' or 'float64'.")
        self.model, self.column, self.k, self.proba = str(model), column, k, proba
        self.classes = None if classes is None else to_numpy(classes).tolist()
        self.keep = dict(keep) if isinstance(keep, Mapping) else dict.fromkeys(keep)
        self.dtype, self.device = dtype, device
        self.weights = None if weights is None else str(weights)
        about = describe(_local(self.model))
        # A worker must not read another model than the one of this moment.
        self._sha256: str = about["sha256"]
        labels = about["classes"]
        known = set(labels)
        if unknown := [label for label in self.classes or () if label not in known]:
            near = did_you_mean(str(unknown[0]), map(str, labels))
            raise ValueError(
                f"{without_secrets(self.model)} describes no class {unknown[0]!r}.{near}"
            )
        n_classes = len(labels if self.classes is None else set(self.classes))
        if not 1 <= k <= n_classes:
            raise ValueError(
                f"k must be between 1 and the number of classes, {n_classes}; got {k}."
            )
        self._label_type = "string" if isinstance(labels[0], str) else "long"
        self._value = "probability" if proba else "score"

    @property
    def columns(self) -> list[str]:
        """Names of the output's columns."""
        ranks = range(1, self.k + 1)
        return [*self.keep, *(f"{x}_{rank}" for rank in ranks for x in ("label", self._value))]

    @property
    def spark_schema(self) -> str:
        """The output's columns and their types in Spark's notation, for `mapInPandas`."""
        if untyped := [name for name, kind in self.keep.items() if not kind]:
            raise ValueError(
                f"Spark needs the types of kept columns: keep={{{untyped[0]!r}: 'string', …}}."
            )
        kinds = {"label": self._label_type, "score": "double", "probability": "double"}
        types = {x: self.keep.get(x) or kinds[x.split("_")[0]] for x in self.columns}
        return ", ".join(f"`{name}` {kind}" for name, kind in types.items())

    def __call__(self, batch: Mapping[str, Any] | pd.DataFrame) -> Any:
        """Predict one batch.

        Parameters
        ----------
        batch : mapping of str to array-like, or DataFrame
            The rows, one entry per column.

        Returns
        -------
        dict of str to ndarray, or DataFrame
            `keep`, then ``label_1``, ``score_1`` (``probability_1``), ``label_2``, … with the best
            class first; missing for images that cannot be read. A DataFrame keeps its index.
        """
        with _load_lock:
            loaded = _load(self.model, self._sha256, self.device, self.weights)
        # A model of tables reads its own columns.
        is_table = getattr(loaded.model, "used_columns_", None) is not None
        needed = [*self.keep, *([] if is_table else [self.column])]
        if missing := [name for name in needed if name not in batch]:
            has = name_some(list(batch))
            raise KeyError(f"The batch has no column {missing[0]!r}; its columns are {has}.")
        X: Any = pd.DataFrame(dict(batch)) if is_table else None
        is_read = None
        if not is_table:
            X, is_read = self._features(batch[self.column], loaded)
        columns = {name: _kept(batch[name]) for name in self.keep}
        columns |= self._ranked(X, loaded, is_read)
        if isinstance(batch, pd.DataFrame):
            return pd.DataFrame(columns, index=batch.index)
        return columns

    def pandas(self, frames: pd.DataFrame | Iterable[pd.DataFrame]) -> Any:
        """Predict one DataFrame, or each of an iterator, as Dask and Spark pass them on.

        Parameters
        ----------
        frames : DataFrame or iterable of DataFrame
            The rows.

        Returns
        -------
        DataFrame or iterator of DataFrame
            See :meth:`__call__`.
        """
        if isinstance(frames, pd.DataFrame):
            # Dask infers the types of the output from rows of bare objects.
            column = frames.get(self.column, pd.Series(dtype=object))
            if len(column) and type(column.iloc[0]) is object:
                frames = frames.iloc[:0]
            return self(frames)
        return (self(frame) for frame in frames)

    def _features(self, values: Any, loaded: _Loaded) -> tuple[Any, NDArray[np.bool_] | None]:
        """Feature vectors of a column; for images also which of them could be read."""
        if not isinstance(values, np.ndarray) or values.ndim != 2:
            values = list(values)
            has_images = any(map(_is_image, values))
            if has_images or (values and all(map(is_missing, values))):
                with _load_lock:
                    network = loaded.network()
                # Images may be missing in every row of a batch.
                if has_images or network is not None:
                    return self._image_features(values, network)
        try:
            X = np.asarray(values, dtype=self.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Column {self.column!r} must hold vectors of one length, or images: {error}"
            ) from error
        return X, None

    def _image_features(self, values: list[Any], network: Backbone | None) -> tuple[Any, Any]:
        """Features of the images that can be read, and which of them can."""
        if network is None:
            raise ValueError(
                f"Column {self.column!r} holds images, but {self.model} does not record how its "
                "features were made; pass feature vectors."
            )
        is_read = np.zeros(len(values), bool)

        def pixels() -> Iterator[NDArray[np.uint8] | None]:
            for row, value in enumerate(values):
                found = None
                with suppress(UnreadableImageError):
                    found = network.preprocessing.pixels(_image(value))
                    is_read[row] = True
                yield found

        with quiet_decoding():
            return features_in_batches(network, pixels(), _IMAGES_AT_ONCE), is_read

    def _ranked(
        self, X: Any, loaded: _Loaded, is_read: NDArray[np.bool_] | None
    ) -> dict[str, NDArray[Any]]:
        """The columns of the best classes."""
        labels: Any = np.empty((0, self.k), np.asarray(loaded.model.classes_).dtype)
        scores: Any = np.empty((0, self.k))
        if len(X):
            if loaded.device != "cpu" and isinstance(X, np.ndarray):
                X = import_module("torch").from_numpy(X).to(loaded.device)
            labels, scores = loaded.model.predict_top_k(
                X, self.k, classes=self.classes, proba=self.proba
            )
            scores = to_numpy(scores).astype(np.float64)
        if is_read is not None and not is_read.all():
            some = labels, scores
            labels = np.full((len(is_read), self.k), None, dtype=object)
            scores = np.full((len(is_read), self.k), np.nan)
            labels[is_read], scores[is_read] = some
        columns = {}
        for rank in range(self.k):
            columns[f"label_{rank + 1}"] = labels[:, rank]
            columns[f"{self._value}_{rank + 1}"] = scores[:, rank]
        return columns


class _Loaded(NamedTuple):
    """A model in the memory of this process."""

    model: Any
    network: Callable[[], Backbone | None]  # loads it for the first images
    device: str


@lru_cache(maxsize=4)
def _load(model: str, sha256: str, device: str, weights: str | None) -> _Loaded:
    """Read a model file, unless it is another one than that of the predictor."""
    path, shown = _local(model), without_secrets(model)
    file = read_model(path)
    saved_by = file.header["library_version"]
    # A warning on a worker is rarely seen.
    if version_numbers(saved_by) > version_numbers(__version__):
        raise ValueError(
            f"{shown} was saved by zslearn {plain(saved_by, 40)}, which is newer than "
            f"{__version__} on this worker. Update zslearn there."
        )
    if file.header["sha256"] != sha256:
        raise ValueError(
            f"{shown} has changed since the BatchPredictor was made. Make it again, or restore the "
            "file on this machine."
        )
    options: Any = {"model_name": shown, "weights": weights, "device": device}
    network = cache(partial(backbone_for_model, file.about, **options))
    if device == "auto":
        has_gpu = find_spec("torch") and import_module("torch").cuda.is_available()
        device = "cuda" if has_gpu else "cpu"
    return _Loaded(file.model, network, device)


def _local(model: str) -> Path:
    """The path of a model file; that of a URL is downloaded to a temporary file."""
    place = located(model)
    if isinstance(place, Path):
        return place
    fsspec = import_optional("fsspec", f"Reading {plain(place)}")
    options = {"cache_storage": _folder_of(model, file_state(place)).name}
    with place.accessed():
        return Path(fsspec.open_local(f"simplecache::{model}", simplecache=options))


@cache
def _folder_of(model: str, state: tuple[int, int]) -> TemporaryDirectory[str]:
    """The folder of the copy of one version of a model."""
    return TemporaryDirectory(prefix="zslearn-")


def _kept(values: Any) -> NDArray[Any]:
    """The values of a kept column; arrays of bytes of one width drop zeros at their ends."""
    kept = np.asarray(values)
    is_cut = kept.dtype.kind == "S" and not isinstance(values, np.ndarray)
    return np.array(values, dtype=object) if is_cut else kept


def _is_image(value: Any) -> bool:
    return isinstance(value, (*_FILES, Mapping)) or hasattr(value, "save")


def _image(value: Any) -> Image:
    """An image from its bytes, path or mapping, or a PIL image as Hugging Face decodes it."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if hasattr(value, "save"):
        return value.convert("RGB")
    if not isinstance(value, _FILES):
        raise UnreadableImageError("there is no image")
    return read_image(bytes(value) if isinstance(value, bytearray) else value)
