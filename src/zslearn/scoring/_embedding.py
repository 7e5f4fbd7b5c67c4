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
from types import MethodType
from typing import Any

import array_api_compat as compat

from zslearn.scoring._feature_range import refuse_extreme_features
from zslearn.utils import (
    Array,
    InputWarning,
    floating,
    is_symbolic,
    on_device,
    unit_rows,
    warn_user,
)

_NOT_REPLACED = (
    "Input X contains NaN or infinity, which feature_norm=None does not replace. "
    'Impute them first, or use feature_norm="l2".'
)


class FeaturePreparation:
    """Features as the authors' program has them: non-finite → 0, each sample to unit ℓ2 norm.

    Blocks are prepared one after another; `warn` then says once how many numbers were replaced.
    With `norm=None` features stay as they are, and a number that is not finite, or too large to be
    computed with, is an error.

    Parameters
    ----------
    norm : {"l2"} or None
        An estimator's `feature_norm`.
    """

    def __init__(self, norm: str | None) -> None:
        self.norm = norm
        self.replaced = 0
        # What is not known of blocks on a device until it is asked.
        self._later: list[tuple[Array, Array | None]] = []

    def __call__(self, rows: Array) -> Array:
        """Prepare a block of rows."""
        if is_symbolic(rows):
            # Nothing can be counted or refused: what l2 replaces is replaced wherever it occurs.
            rows = floating(rows)
            xp = compat.array_namespace(rows)
            return rows if self.norm is None else unit_rows(xp.where(xp.isfinite(rows), rows, 0.0))
        if on_device(rows):
            return self._prepare_unasked(floating(rows))
        rows = self.checked(rows)
        if self.norm is None:
            refuse_extreme_features(rows, only_large=True)
            return rows
        return unit_rows(rows)

    def checked(self, rows: Array) -> Array:
        """A block of rows in floating numbers, those that are not finite replaced or refused."""
        rows = floating(rows)
        xp = compat.array_namespace(rows)
        finite = xp.isfinite(rows)
        if not bool(xp.all(finite)):
            if self.norm is None:
                raise ValueError(_NOT_REPLACED)
            self.replaced += int(xp.sum(xp.astype(~finite, xp.int64)))
            rows = xp.where(finite, rows, xp.zeros_like(rows))
        return rows

    def _prepare_unasked(self, rows: Array) -> Array:
        """The same on a device, which is not waited for: `check` asks it, for all blocks at once.

        Each question would have the host wait for all that is queued, and the device then wait for
        the host.
        """
        xp = compat.array_namespace(rows)
        finite = xp.isfinite(rows)
        bad = xp.sum(xp.astype(~finite, xp.int64))
        if self.norm is None:
            self._later.append((bad, xp.max(xp.abs(rows))))
            return rows
        self._later.append((bad, None))
        return unit_rows(xp.where(finite, rows, xp.zeros_like(rows)))

    def check(self) -> None:
        """Refuse what should have been refused in blocks on a device."""
        later, self._later = self._later, []
        for bad, largest in later:
            number = int(bad)
            if self.norm is not None:
                self.replaced += number
            elif number:
                raise ValueError(_NOT_REPLACED)
            elif largest is not None:
                refuse_extreme_features(largest[None, None], only_large=True)

    def warn(self) -> None:
        """Warn once if anything was replaced."""
        self.check()
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

        try:
            yield embed
        except ValueError:
            # Scores that are no numbers have their reason in the rows, if it is there.
            for prepare in steps:
                prepare.check()
            raise
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
        reads = {} if owner is None else None
        if isinstance(function, MethodType) and not isinstance(owner, type):
            recorder = _recorder(owner)
            if recorder is not None:
                reads = object.__getattribute__(recorder, "__dict__")[_READS]
                # The function itself: its name may lead elsewhere.
                traced = MethodType(function.__func__, recorder)
                embedding = Embedding(traced, embedding.feature_norms)
        embedded = embedding(self.X)
        self.n_embeddings += 1
        self._latest = source, None if reads is None or _ANY in reads else reads, embedded
        return embedded


_PLAIN = (str, int, float, bool, type(None))
_READS = "_zslearn_reads"
# Stands for an attribute that was asked for and not there, or not the instance's own.
_ABSENT = object()
# Whoever reads the dictionary itself, or asks what class this is, may have read anything.
_ANY = "__dict__"


def _reads_alike(reads: dict[str, Any] | None, owner: object) -> bool:
    """Whether all that was read of one object is the same in another."""
    if reads is None:
        return False
    state = vars(owner) if owner is not None else {}
    return all(_same(value, state.get(name, _ABSENT)) for name, value in reads.items())


def _same(a: object, b: object) -> bool:
    return a is b or (isinstance(a, _PLAIN) and type(a) is type(b) and a == b)


def _recorder(owner: Any) -> Any:
    """A stand-in for an object that writes down which of its attributes are read.

    None where there can be none: then nothing is known of what is read.
    """
    cls: Any = type(owner)
    try:
        recording = _recording_class(cls)
        stand_in: object = object.__new__(recording)
        # Past the recording: nothing has been read yet.
        state = object.__getattribute__(stand_in, "__dict__")
        state.update(vars(owner))
    except (TypeError, AttributeError):
        return None
    state[_READS] = {}
    return stand_in


@cache
def _recording_class(cls: Any) -> Any:
    """A subclass whose attributes are written down as they are read."""

    def record(self: Any, name: str) -> Any:
        state = object.__getattribute__(self, "__dict__")
        if name == "__class__":
            return cls
        if _READS in state and (name == _ANY or not name.startswith("__")):
            state[_READS][name] = state.get(name, _ABSENT)
        return cls.__getattribute__(self, name)

    body = {"__getattribute__": record, "__module__": cls.__module__, "__doc__": cls.__doc__}
    # Past `__init_subclass__`, for which this is no class of its own.
    return type(cls)("Recording" + cls.__name__, (_Quiet, cls), body)


class _Quiet:
    """Ends the chain of `__init_subclass__`."""

    def __init_subclass__(cls, **options: Any) -> None:
        pass
