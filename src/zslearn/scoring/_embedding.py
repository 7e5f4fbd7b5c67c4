"""From features to the space of the class parameters, and rows that are embedded once for many.

Estimators of one grid often embed images alike. Whether two of them do is not theirs to say: an
embedding is the function `embed` of a class together with the objects that it reads of its
estimator. Where `embed` reads the very same objects of another estimator, it is the same embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import array_api_compat as compat

from zslearn.utils import Array, InputWarning, floating, unit_rows, warn_user


class FeaturePreparation:
    """Features as the authors' program has them: non-finite → 0, each sample to unit ℓ2 norm.

    Blocks are prepared one after another; `warn` then says once how many numbers were replaced.
    With `norm=None` features stay as they are, and a non-finite number is an error.

    Parameters
    ----------
    norm : {"l2"} or None
        An estimator's `feature_norm`.
    """

    def __init__(self, norm: str | None) -> None:
        self.norm = norm
        self.replaced = 0

    def __call__(self, rows: Array) -> Array:
        """Prepare a block of rows."""
        rows = floating(rows)
        xp = compat.array_namespace(rows)
        finite = xp.isfinite(rows)
        if not bool(xp.all(finite)):
            if self.norm is None:
                raise ValueError(
                    "Input X contains NaN or infinity, which feature_norm=None does not replace. "
                    'Impute them first, or use feature_norm="l2".'
                )
            self.replaced += int(xp.sum(xp.astype(~finite, xp.int64)))
            rows = xp.where(finite, rows, xp.zeros_like(rows))
        return rows if self.norm is None else unit_rows(rows)

    def warn(self) -> None:
        """Warn once if anything was replaced."""
        if self.replaced:
            warn_user(
                f"X contains {self.replaced} NaN or infinite numbers; they count as 0. "
                "Impute them to choose otherwise.",
                InputWarning,
            )


@dataclass(frozen=True)
class Embedding:
    """What is done to features before they meet the classes: preparation, then `embed`.

    Parameters
    ----------
    embed : callable
        Takes prepared rows into the space of the parameters; usually a method of an estimator.
    feature_norms : tuple of ("l2" or None)
        How features are prepared, one step after another.
    """

    embed: Callable[[Array], Array]
    feature_norms: tuple[str | None, ...] = ()

    def after(self, feature_norm: str | None) -> Embedding:
        """The same embedding of features that another estimator has prepared before.

        Parameters
        ----------
        feature_norm : {"l2"} or None
            That estimator's preparation.

        Returns
        -------
        Embedding
            With one more step in front.
        """
        return Embedding(self.embed, (feature_norm, *self.feature_norms))

    @contextmanager
    def over_blocks(self) -> Iterator[Callable[[Array], Array]]:
        """Give a function for blocks of rows; what it replaced is said once, at the end."""
        steps = [FeaturePreparation(norm) for norm in self.feature_norms]

        def embed(rows: Array) -> Array:
            for prepare in steps:
                rows = prepare(rows)
            return self.embed(rows)

        yield embed
        for prepare in steps:
            prepare.warn()

    def __call__(self, X: Array) -> Array:
        """Embed rows."""
        with self.over_blocks() as embed:
            return embed(X)


class EmbeddedRows:
    """Rows that many scorers meet; what the latest embedding made of them is kept.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Features as they came.

    Attributes
    ----------
    n_embeddings : int
        How often the rows were embedded.
    """

    def __init__(self, X: Array) -> None:
        self.X = X
        self.n_embeddings = 0
        self._latest: tuple[tuple[Any, ...], dict[str, Any] | None, Array] | None = None

    def under(self, embedding: Embedding) -> Array:
        """The rows under an embedding, computed anew where it is not the latest one.

        Parameters
        ----------
        embedding : Embedding
            How features meet the classes.

        Returns
        -------
        array of shape (n_samples, n_dims)
            Embedded rows.
        """
        function = embedding.embed
        owner = getattr(function, "__self__", None)
        source = (getattr(function, "__func__", function), type(owner), embedding.feature_norms)
        if self._latest is not None:
            latest_source, reads, embedded = self._latest
            if latest_source == source and _reads_alike(reads, owner):
                return embedded
        reads = {}
        if owner is not None:
            recorder = _recorder(owner, reads)
            name = function.__name__
            embedding = Embedding(getattr(recorder, name), embedding.feature_norms)
        embedded = embedding(self.X)
        self.n_embeddings += 1
        self._latest = source, None if "__dict__" in reads else reads, embedded
        return embedded


_PLAIN = (str, int, float, bool, type(None))
_READS = "_zslearn_reads"


def _reads_alike(reads: dict[str, Any] | None, owner: object) -> bool:
    """Whether all that was read of one object is the same in another."""
    if reads is None:
        return False
    state = vars(owner) if owner is not None else {}
    return all(name in state and _same(value, state[name]) for name, value in reads.items())


def _same(a: object, b: object) -> bool:
    return a is b or (isinstance(a, _PLAIN) and type(a) is type(b) and a == b)


def _recorder(owner: Any, reads: dict[str, Any]) -> Any:
    """A stand-in for an object that writes down which of its attributes are read."""
    cls: Any = type(owner)
    stand_in: object = object.__new__(_recording_class(cls))
    # Past the recording: nothing has been read yet.
    state = object.__getattribute__(stand_in, "__dict__")
    state.update(vars(owner))
    state[_READS] = reads
    return stand_in


@cache
def _recording_class(cls: Any) -> Any:
    """A subclass whose attributes are written down as they are read."""

    def record(self: Any, name: str) -> Any:
        value = cls.__getattribute__(self, name)
        state = object.__getattribute__(self, "__dict__")
        # Whoever reads the dictionary itself may read anything.
        if name in state or name == "__dict__":
            state[_READS][name] = value
        return value

    body = {"__getattribute__": record, "__module__": cls.__module__, "__doc__": cls.__doc__}
    return type(cls)(cls.__name__, (cls,), body)
