"""The base of all methods: what authors implement, and how `fit` calls it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeVar

import array_api_compat as compat
import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import has_fit_parameter

from zslearn._scoring._blocks import MAX_DOUBLES, ScoreFunction
from zslearn._scoring._embedding import Embedding, PreparedRows
from zslearn._scoring._scorer import ClassScorer, find_classes, identical_rows, row_keys
from zslearn._utils._array import (
    Array,
    Floats,
    RepeatedRows,
    RowChunks,
    is_streamed,
    row_blocks,
    to_numpy,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import name_some, warn_once
from zslearn._utils._processes import blas_threads, in_threads
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn._utils._validation import checks_parameters
from zslearn.base._class_statistics import weighted_samples
from zslearn.base._predictor import ZeroShotPredictor, clone_with
from zslearn.base._streams import stream_samples
from zslearn.base._training import StreamedRows, SummedTraining, Training, summarize
from zslearn.signatures._described import DescribedTables
from zslearn.signatures._table import SignatureTable, is_among


class _Chunk:
    """Parameters of some classes, with hashes of the stored rows that are computed once."""

    def __init__(self, parameters: Array) -> None:
        self.parameters = parameters

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """Hash of each stored row."""
        return row_keys(getattr(self.parameters, "stored", self.parameters))

    @cached_property
    def sorted_keys(self) -> NDArray[np.uint64]:
        """Hashes in ascending order."""
        return np.sort(self.keys)

    @cached_property
    def has_equal(self) -> bool:
        """Whether two rows may be equal."""
        return bool((self.sorted_keys[1:] == self.sorted_keys[:-1]).any())


@saved_part
@saves(
    {"table.labels": Saved("n_classes", kind="label")},
    table=Saved(kind=SignatureTable),
    parameters=Saved("n_classes", ...),
    group=Saved("n_classes", kind="int", least=0, optional=True),
)
class _Described:
    """The described classes and their parameters, which are replaced together.

    Both are stored in chunks, one per table, so that a change costs what it changes; `table` and
    `parameters` combine them when they are read.
    """

    def __init__(
        self, table: SignatureTable, parameters: Array, group: NDArray[np.intp] | None = None
    ) -> None:
        self.tables = DescribedTables((table,))
        if group is not None:
            parameters = RepeatedRows(parameters, group)
        self.chunks: tuple[_Chunk, ...] = (_Chunk(parameters),)

    @classmethod
    def _of(cls, tables: DescribedTables, chunks: tuple[_Chunk, ...]) -> Self:
        """Merge small chunks, and rewrite those with many removed rows."""
        described = object.__new__(cls)
        described.tables, described.chunks = tables.merged(
            chunks, lambda stored: _Chunk(RowChunks(_arrays(chunks), stored).compact())
        )
        return described

    @property
    def labels(self) -> NDArray[Any]:
        """All described classes, sorted."""
        return self.tables.labels

    @property
    def table(self) -> SignatureTable:
        """Signatures of all classes."""
        return self.tables.table

    @cached_property
    def parameters(self) -> Array:
        """Parameters of all classes, in the order of the labels."""
        if self.tables.is_one_table:
            return self.chunks[0].parameters
        return RowChunks(_arrays(self.chunks), self.tables.order)

    @property
    def group(self) -> NDArray[np.intp] | None:
        """The row of each class in the stored parameters, if some share one."""
        found: NDArray[np.intp] | None = getattr(self.parameters, "group", None)
        return found

    @cached_property
    def same_as(self) -> NDArray[np.intp] | None:
        """For each class the first class with identical parameters; None if all differ."""
        largest, *others = self.chunks
        more = np.sort(np.concatenate([largest.keys[:0], *(chunk.keys for chunk in others)]))
        at = np.searchsorted(largest.sorted_keys, more)
        is_known = largest.sorted_keys.take(at, mode="clip") == more
        has_equal = largest.has_equal or is_known.any() or (more[1:] == more[:-1]).any()
        arrays = _arrays(self.chunks)
        if not has_equal and not any(isinstance(array, RepeatedRows) for array in arrays):
            return None
        chunks, stored = RowChunks(arrays, self.tables.order).distinct
        n_stored, same = sum(map(len, chunks)), None
        if has_equal:
            keys = np.concatenate([chunk.keys for chunk in self.chunks])
            same = identical_rows(RowChunks(chunks, np.arange(n_stored)), keys)
        stored, places = stored if same is None else same[stored], np.arange(len(stored))
        first = np.empty(n_stored, dtype=np.intp)
        first[stored[::-1]] = places[::-1]  # the last of several values stays
        found = first[stored]
        return None if np.array_equal(found, places) else found

    def with_classes(self, new: SignatureTable, parameters: Array) -> Self:
        """Describe further classes, or replace described ones."""
        known = self.tables.find(new.labels)
        tables = self.tables.without(known[known >= 0]).added(new)
        dtype, group = self.chunks[0].parameters.dtype, getattr(parameters, "group", None)
        stored = parameters if group is None else parameters.stored
        if isinstance(stored, np.ndarray):
            stored = stored.astype(dtype, copy=False)
        parameters = stored if group is None else RepeatedRows(stored, group)
        return self._of(tables, (*self.chunks, _Chunk(parameters)))

    def without(self, labels: NDArray[Any]) -> Self:
        """Remove classes."""
        return self._of(self.tables.without(self.tables.find(labels)), self.chunks)

    def __getstate__(self) -> dict[str, Any]:
        tables, parameters = self.tables, self.parameters
        table = tables.first
        if not tables.is_one_table:
            # Unlike `table`, these copies are not kept.
            table, parameters = tables.subset(tables.order), parameters.compact()
        if isinstance(parameters, RepeatedRows):
            return {"table": table, "parameters": parameters.stored, "group": parameters.group}
        return {"table": table, "parameters": parameters}

    def __setstate__(self, state: dict[str, Any]) -> None:
        group = state.get("group")
        if group is not None and not np.max(group) < len(state["parameters"]):
            raise ValueError("classes refer to parameters that are not stored")
        self.__init__(**state)  # type: ignore[misc]


def _arrays(chunks: Sequence[_Chunk]) -> tuple[Array, ...]:
    return tuple(chunk.parameters for chunk in chunks)


def _in_head_dtype(parameters: Array, n_classes: int) -> Array:
    """Parameters of some of many classes in the precision in which all of them are stored."""
    is_large = n_classes * math.prod(parameters.shape[1:]) > MAX_DOUBLES
    if not (is_large and compat.is_numpy_array(parameters)):
        return parameters
    with np.errstate(over="ignore"):
        single = parameters.astype(np.float32, copy=False)
    return single if np.isfinite(single).all() else parameters


# Number of classes that are synthesised to check the parameters in a model file.
_N_TRIAL_CLASSES = 3
# Values up to this limit fit in float32, and their squares fit in float64.
_LARGEST = 1e30


def refuse_extreme_parameters(estimator: Any) -> None:
    """Refuse finite hyper-parameters that would overflow."""
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Real) and _LARGEST < abs(float(value)) < math.inf:
            raise ValueError(
                f"{name}={value:.0e} of {type(estimator).__name__} is too large: use a number of "
                f"at most {_LARGEST:.0e}."
            )


@contextmanager
def numerical_failures_named(method: type) -> Iterator[None]:
    """Turn errors of arithmetic into a ValueError that names the method."""
    try:
        yield
    except (LinAlgError, ArithmeticError) as error:
        raise ValueError(
            f"{method.__name__} failed numerically: {str(error).rstrip('.')}. Increase the "
            "regularisation, or check the scale of X and of the signatures."
        ) from error


@dataclass(eq=False, repr=False)
class _CommonParameters:
    """The hyper-parameters of every method."""

    _: KW_ONLY
    feature_norm: str | None = "l2"
    signature_scale: str | float = "seen"


@inherit_docs
@saves(
    {"_described.table.n_attributes": Saved(kind="int", counts="n_attributes")},
    signature_scale_=Saved(above=0, each=True),
    _described=Saved(kind=(_Described, tuple)),
)
class ZeroShotClassifier(ZeroShotPredictor, _CommonParameters):
    """Base of all methods.

    A method is decorated with `@dataclass(eq=False, repr=False)` and declares its hyper-parameters
    as fields, in addition to `feature_norm` and `signature_scale`; or it defines `__init__` as in
    scikit-learn. It implements

    1. `_fit(training)`, which learns from a :class:`Training`; or, if settings of the
       hyper-parameters can share work, the class method `_fit_many(training, variants)`;
    2. `embed(X)`, which maps prepared features into the space of the class parameters (by default
       the identity);
    3. `synthesize(signatures, labels=None)`, which maps normalised signatures of any classes to
       their parameters, one row per class;
    4. `score_function`: "dot", "euclidean" (the negative distance), "cosine" or "max_dot";
    5. `keep_views = True`, if it accepts :class:`~zslearn.signatures.SignatureViews` when there are
       several views; all other methods receive one vector per class;
    6. `grids`, the values of hyper-parameters to search, by name.

    Prepared features have rows of unit length (with `feature_norm="l2"`) and may be arrays of any
    library of the array API standard. Signatures are NumPy arrays.

    Parameters
    ----------
    feature_norm : {"l2"} or None, default="l2"
        Normalisation of each sample. "l2" scales it to unit length and replaces NaN and infinity by
        0.
    signature_scale : {"seen", "all"} or float, default="seen"
        The classes whose median distance is the unit in which signatures are measured, or the unit
        itself.

    Attributes
    ----------
    signature_scale_ : tuple of float
        The number by which the signatures of each view are divided.
    signature_table_ : SignatureTable
        Signatures of all described classes, as given.

    See Also
    --------
    zslearn.base.checks.parametrize_with_checks : Checks for authors of methods.
    """

    score_function: ScoreFunction = "dot"
    keep_views: ClassVar[bool] = False
    #: Whether `_fit` needs only `sums`, `moments` and `spectrum` of :class:`Training`; then `fit`
    #: also accepts features on disk and dask arrays.
    learns_from_sums: bool = False
    #: Hyper-parameters along which solutions are warm-started. A search that resumes after an
    #: interruption fits settings that differ only in these together again.
    path_parameters: ClassVar[tuple[str, ...]] = ()
    #: Attributes that determine `embed`. Estimators of a search for which these are the very same
    #: objects share embedded rows. None disables sharing.
    embedding_attributes: tuple[str, ...] | None = None
    #: Whether `synthesize` builds each class from its own signature alone; then `add_classes`
    #: synthesizes only the new classes, and a search only those that it scores. Many classes are
    #: synthesized in blocks, in several threads, and classes of equal categories only once.
    synthesizes_independently: bool = False
    #: Grids by name ("paper" and "fast"): values of hyper-parameters, or a list of such mappings.
    #: The first hyper-parameter varies slowest; a search prefers the first of equal settings.
    grids: ClassVar[
        Mapping[str, Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]]
    ] = {}

    #: Whether `synthesize` trains, so that it is too slow for a trial; `_rows_per_class` is then
    #: the number of rows that it generates per class.
    _synthesis_trains: ClassVar[bool] = False

    #: Whether `synthesize` uses the labels of described classes, so that classes of equal
    #: signatures may differ.
    _uses_labels: ClassVar[bool] = False

    signature_scale_: tuple[float, ...]
    _described: _Described

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_norm": [StrOptions({"l2"}), None],
        "signature_scale": [
            StrOptions({"seen", "all"}),
            # The squares of scaled signatures must fit in float32.
            Interval(Real, 1e-12, 1e12, closed="both"),
        ],
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a `_fit` that would never be called."""
        super().__init_subclass__(**options)
        owner = next(base for base in cls.__mro__ if "_fit_many" in vars(base))
        if "_fit" in vars(cls) and owner not in (cls, ZeroShotClassifier):
            raise TypeError(
                f"{cls.__name__} defines _fit, which {owner.__name__}._fit_many never calls. "
                "Define _fit_many(training, variants) instead."
            )

    # Implemented by methods.

    def _fit(self, training: Training) -> None:
        """Learn from the training data; for methods whose settings share no work."""
        raise TypeError(
            f"{type(self).__name__} must define _fit(training), or _fit_many(training, variants)."
        )

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Fit estimators with different hyper-parameters on the same training data.

        A method whose settings share work defines this instead of `_fit`; `fit` then calls it with
        a single variant.
        """
        for variant in variants:
            variant._fit(training)
            yield variant

    def embed(self, X: Array) -> Array:
        """Map prepared features into the space of the class parameters; by default the identity.

        This must be a pure function of `X` and the estimator's attributes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features, as in :class:`Training`.

        Returns
        -------
        array of shape (n_samples, n_dims)
            One row per sample.
        """
        return X

    def synthesize(self, signatures: Any, labels: NDArray[Any] | None = None) -> Array:
        """Build the parameters of classes from their signatures.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.
        labels : ndarray of shape (n_classes,), optional
            Labels of the classes, for methods that also use the names.

        Returns
        -------
        array of shape (n_classes, n_dims)
            One row per class.
        """
        raise TypeError(f"{type(self).__name__} must define synthesize(signatures, labels=None).")

    # Called by users.

    @checks_parameters()
    def fit(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Learn from images of the seen classes and the signatures of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features: NumPy, pandas, polars, or an array of torch, CuPy or another library of
            the array API standard, which is processed on its own device. Methods with
            `learns_from_sums` also accept a :class:`~zslearn.datasets.FeatureBlocks` or a dask
            array, which they read one block at a time.
        y : array-like of shape (n_samples,)
            Class labels: strings, integers or booleans; None for the labels of a FeatureBlocks.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            Descriptions of the classes: a DataFrame indexed by class label (polars: with a column
            "class"), a mapping from label to vector, or an array whose rows follow `np.unique(y)`.
            Rows for classes that are not in `y` describe unseen classes. By default each class is
            described by its own indicator, so that no unseen class can be predicted; a warning
            reports this once per process.

        Returns
        -------
        self
            The fitted estimator, unchanged if an error is raised.
        """
        return self._fit_samples(X, y, signatures)

    def add_classes(self, signatures: Any, *, like: Any = None) -> Self:
        """Describe further classes without retraining.

        This is thread-safe: a concurrent prediction sees either all or none of the classes that a
        call adds.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            Signatures of classes that are not in `classes_`, with the attributes given to `fit`.
            Named columns may come in any order. A mapping may also map each label to a mapping from
            attribute to value; with several views the attributes are named "view: attribute". The
            value of a category is its name.
        like : label, optional
            A described class that provides the values of attributes that are not named.

        Returns
        -------
        self
            The same estimator, which now also predicts these classes; unchanged if an error is
            raised.
        """

        def add(changed: Self) -> None:
            tables = changed._described.tables
            changed._describe_more(SignatureTable.from_new(signatures, tables, like))

        return self._change(add)

    def remove_classes(self, labels: Any) -> Self:
        """Remove unseen classes without retraining.

        Parameters
        ----------
        labels : array-like of labels
            Classes in `unseen_classes_`. Classes with training images cannot be removed, since the
            fitted model depends on them; exclude them with `classes=` when predicting.

        Returns
        -------
        self
            The same estimator, which no longer predicts these classes; unchanged if an error is
            raised.
        """

        def remove(changed: Self) -> None:
            tables = changed._described.tables
            removed = tables.labels_at(find_classes(labels, tables, "labels"))
            self._refuse_seen(removed)
            changed._remove(removed)

        return self._change(remove)

    def _remove(self, labels: NDArray[Any]) -> None:
        """Remove classes; methods that store more per class extend this."""
        remaining = self._described.without(labels)
        if self.synthesizes_independently:
            self._described = remaining
        else:
            self._describe(remaining.table, checked=True)

    @property
    def signature_table_(self) -> SignatureTable:
        """Signatures of all described classes, as given."""
        return self._described.table

    def seen_shares(self, signatures: Any) -> Floats | None:
        """Weights of the seen classes in the parameters of each class, or None.

        A method that combines seen classes overrides this for :func:`zslearn.inspection.explain`.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        ndarray of shape (n_classes, n_seen) or None
            None if the method has no such weights.
        """
        return None

    def fit_grid(
        self,
        X: Any,
        y: Any,
        *,
        signatures: Any = None,
        settings: Sequence[Mapping[str, Any]],
        sample_weight: Any = None,
        classes: Any = None,
    ) -> Iterator[tuple[int, Self]]:
        """Fit one estimator per setting of the hyper-parameters, sharing common work.

        Parameters
        ----------
        classes : array-like of labels, optional
            Classes to describe, by default all with a signature. Ignored by methods that do not set
            `synthesizes_independently`.

        Yields
        ------
        index : int
            Position in `settings`; the method chooses the order.
        estimator : zero-shot estimator
            The estimator fitted with that setting.
        """
        variants = [clone_with(self, setting) for setting in settings]
        return fit_variants(
            variants, X, y, signatures=signatures, sample_weight=sample_weight, classes=classes
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_described")

    def __sklearn_tags__(self) -> Tags:
        """Declare that non-finite features are replaced unless `feature_norm=None`."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "feature_norm", None) is not None
        return tags

    # Training data, descriptions and the scorer.

    def _validate_params(self) -> None:
        """Check the type, range and magnitude of the hyper-parameters."""
        super()._validate_params()
        refuse_extreme_parameters(self)

    def _fit_samples(self, X: Any, y: Any, signatures: Any, sample_weight: Any = None) -> Self:
        """Fit a working copy, then replace the fitted value."""
        fresh = self._fresh_copy()
        training = fresh._make_training(X, y, signatures, sample_weight)
        with numerical_failures_named(type(self)):
            for _ in self._fit_many(training, [fresh]):
                fresh._describe(training.table, checked=True)
        if not hasattr(fresh, "_described"):
            raise _not_each_once(type(self))
        return self._set_fitted(fresh)

    def _make_training(
        self, X: Any, y: Any, signatures: Any, sample_weight: Any = None
    ) -> Training:
        """Validate the arguments of `fit`; features are prepared lazily."""
        if signatures is None:
            warn_once(
                "fit without signatures= describes each class by its own indicator, so that only "
                "classes with samples can be predicted. Pass signatures= to predict unseen classes."
            )
        training: Training
        if is_streamed(X):
            training = self._sum_up(X, y, signatures, sample_weight)
        else:
            X, y = self._check_training(X, y)
            X, y, weights = weighted_samples(X, y, sample_weight)
            refuse_weights(self, weights)
            seen, codes = np.unique(y, return_inverse=True)
            names = getattr(self, "feature_names_in_", None)
            training = self._describe_training(signatures, seen, self._prepare(X), codes, names)
            training = replace(training, weights=weights)
        self._set_training_attributes(training)
        # A table was read from the user's signatures by a caller, which has warned of them.
        if not isinstance(signatures, SignatureTable):
            training.warn_of_units()
            training.table.warn_equal_signatures()
        return training

    def _sum_up(self, X: Any, y: Any, signatures: Any, sample_weight: Any) -> SummedTraining:
        """Read streamed samples once and keep their sums."""
        if not self.learns_from_sums:
            raise TypeError(
                f"{type(self).__name__} needs all rows in memory: pass an array (for a dask array, "
                "X.compute()). Methods that learn from class statistics or Gram matrices (EXEM, "
                "GaussianEXEM, ESZSL, SAE, GFZSL, CCA) also read files and dask arrays in blocks."
            )
        samples = stream_samples(X, y, sample_weight)
        refuse_weights(self, samples.weights)
        summary = summarize(samples, self.feature_norm)
        rows = StreamedRows(samples, summary.sums, self.feature_norm)
        no_codes = np.empty(0, dtype=np.intp)
        training = self._describe_training(signatures, summary.sums.classes, rows, no_codes, None)
        return SummedTraining(**vars(training), kept=summary.kept)

    def _describe_training(
        self,
        signatures: Any,
        seen: NDArray[Any],
        X: Array,
        y: NDArray[np.intp],
        feature_names: NDArray[Any] | None,
    ) -> Training:
        """Combine prepared samples with the signatures of their classes."""
        if len(seen) < 2:
            raise ValueError(
                f"y has only one class, {seen.tolist()[0]!r}: training requires samples of at "
                "least two classes."
            )
        table = SignatureTable.from_user(signatures, seen)
        self._check_views(table)
        rows = table.positions(seen)
        table = table.with_units(rows)
        if isinstance(self.signature_scale, str):
            scales = table.scales(rows if self.signature_scale == "seen" else slice(None))
        else:
            scales = (float(self.signature_scale),) * len(table.arrays)
        of_seen = table.subset(rows).normalized(scales, keep_views=self.keep_views)
        return Training(X, y, of_seen, seen, table, scales, self.keep_views, feature_names)

    def _check_views(self, table: SignatureTable) -> None:
        """Refuse classes that lack a view, unless the method accepts them."""
        table.check_complete(type(self).__name__)

    def _set_training_attributes(self, training: Training) -> None:
        """Set the fitted attributes that every method has."""
        self.n_features_in_ = training.rows.shape[1]
        if training.feature_names is not None:
            self.feature_names_in_ = training.feature_names
        self.seen_classes_ = training.classes
        self.signature_scale_ = training.signature_scale

    def _prepare(self, X: Any) -> PreparedRows:
        """Features that are prepared when they are read; one warning reports replaced values."""
        prepared = PreparedRows(X, self.feature_norm)
        prepared.check()
        return prepared

    def _describe(self, table: SignatureTable, *, checked: bool = False) -> None:
        """Synthesize all classes of the table and set them as the described classes.

        `checked` tables are complete, and a warning has named their equal signatures.
        """
        if not checked:
            self._check_views(table)
            table.warn_equal_signatures()
        self._described = _Described(table, self._synthesize_table(table))

    def _synthesize_table(self, table: SignatureTable) -> Array:
        """Parameters of all classes of a table, a block at a time if they are independent."""
        n_classes = len(table.labels)
        groups = None
        if self.synthesizes_independently and not self._uses_labels:
            groups = table.groups(self.seen_classes_)
        if groups is not None and 2 * len(groups[0]) <= n_classes:
            first, group = groups
            return RepeatedRows(self._synthesize_table(table.subset(first)), group)
        # Kernels of signatures have a number per seen class.
        row_bytes = 8 * (table.n_attributes + len(self.seen_classes_))
        rows = row_blocks(n_classes, row_bytes)
        if len(rows) == 1 or not self.synthesizes_independently:
            made = self._synthesize_finite(self._normalized(table), table.labels)
            return _in_head_dtype(made, n_classes)

        def synthesized(block: slice) -> Array:
            part = table.subset(block)
            made = self._synthesize_finite(self._normalized(part), part.labels)
            return _in_head_dtype(made, n_classes)

        made, others = synthesized(rows[0]), rows[1:]
        xp, shape = compat.array_namespace(made), (n_classes, *made.shape[1:])
        out = xp.empty(shape, dtype=made.dtype, device=compat.device(made))
        out[rows[0]] = made

        def fill(block: slice) -> None:
            out[block] = synthesized(block)

        # Most of the time goes into functions of NumPy that use one thread.
        threads = min(blas_threads(), len(others)) if isinstance(out, np.ndarray) else 1
        in_threads(fill, others, threads)
        return out

    def _check_loaded(self) -> None:
        """Refuse parameters from a model file whose shape `synthesize` does not return."""
        # Some subclasses describe classes by another method, which is checked by itself.
        parameters = getattr(self._described, "parameters", None)
        if parameters is None:
            return
        table = self._described.table
        self._check_views(table)
        # Unseen classes first, since some methods ignore the signatures of seen classes.
        is_seen = is_among(table.labels, self.seen_classes_)
        some = table.subset(np.sort(np.argsort(is_seen, kind="stable")[:_N_TRIAL_CLASSES]))
        signatures = self._normalized(some)
        if self._synthesis_trains:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = self.synthesize(signatures, some.labels)
        if made.shape[1:] != parameters.shape[1:] or not np.isfinite(to_numpy(made)).all():
            raise ValueError(
                "classes that it synthesises are not finite, or unlike the stored ones in shape"
            )

    def _normalized(self, table: SignatureTable) -> Any:
        """Normalised signatures, the input of `synthesize`."""
        return table.normalized(self.signature_scale_, keep_views=self.keep_views)

    def _describe_more(self, new: SignatureTable) -> None:
        """Describe further classes; independent ones are synthesized alone."""
        described = self._described
        if not self.synthesizes_independently:
            self._describe(described.tables.added(new).table)
            return
        self._check_views(new)
        described.tables.warn_equal_signatures(new)
        self._described = described.with_classes(new, self._synthesize_table(new))

    def _synthesize_finite(self, signatures: Any, labels: NDArray[Any]) -> Array:
        """Parameters of classes; NaN and infinity are refused."""
        with numerical_failures_named(type(self)):
            parameters = self.synthesize(signatures, labels)
        xp = compat.array_namespace(parameters)
        flat = xp.reshape(parameters, (parameters.shape[0], -1))
        bad = ~to_numpy(xp.all(xp.isfinite(flat), axis=1))
        if bad.any():
            raise ValueError(
                f"{type(self).__name__} computed NaN or infinite parameters for "
                f"{name_some(labels[bad].tolist())}. Increase the regularisation, or check the "
                "scale of X and of the signatures."
            )
        return parameters

    @property
    def class_scorer_(self) -> ClassScorer:
        """The scorer of the classes that are described at this moment."""
        state = self._snapshot()
        described = state._described
        scorer = state._scorer(described.labels, described.parameters)
        return replace(scorer, same_as=described.same_as)

    def _scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        """The scorer of described classes."""
        return ClassScorer(labels, parameters, self._embedding(), self.score_function)

    def _embedding(self) -> Embedding:
        """Feature preparation followed by `embed`."""
        names = self.embedding_attributes
        read = None if names is None else tuple(getattr(self, name, None) for name in names)
        return Embedding(self.embed, (self.feature_norm,), read)

    def _image_space(self) -> Embedding:
        """The embedding in which images are compared; by default that of the scores."""
        return self.class_scorer_.embedding


@inherit_docs
class AcceptsSampleWeight(ZeroShotClassifier):
    """Base of methods whose `fit` accepts `sample_weight`.

    Such a method uses `training.weights` and `training.sizes`. This class comes before other bases.
    """

    @checks_parameters()
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Learn from images of the seen classes and the signatures of all classes.

        Parameters
        ----------
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample. A weight of 2 is equivalent to repeating the sample, and 0 to
            dropping it; a class whose samples all have weight 0 is not seen.
        """
        return self._fit_samples(X, y, signatures, sample_weight)


def fit_weighted(
    estimator: Any, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None
) -> Any:
    """Fit an estimator, with sample weights if there are any."""
    if weights is None:
        return estimator.fit(X, y, signatures=signatures)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise _no_weights(estimator)
    return estimator.fit(X, y, signatures=signatures, sample_weight=weights)


def refuse_weights(estimator: ZeroShotClassifier, weights: Floats | None) -> None:
    """Refuse sample weights unless the method accepts them."""
    if weights is not None and not isinstance(estimator, AcceptsSampleWeight):
        raise _no_weights(estimator)


def _no_weights(estimator: Any) -> TypeError:
    return TypeError(
        f"{type(estimator).__name__} does not support sample_weight: omit it, or use a method "
        "whose fit has the parameter."
    )


# Fitting many settings of a method at once.


def fit_variants(
    variants: Sequence[ZeroShotClassifier],
    X: Any,
    y: Any,
    *,
    signatures: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
) -> Iterator[tuple[int, Any]]:
    """Fit estimators on the same data; estimators of one class share common work."""
    # Samples and signatures are prepared once per group.
    groups: dict[tuple[Any, ...], dict[int, ZeroShotClassifier]] = {}
    for index, variant in enumerate(variants):
        variant._validate_params()
        key = type(variant), variant.feature_norm, variant.signature_scale
        groups.setdefault(key, {})[index] = variant
    for (method, *_), group in groups.items():
        first = next(iter(group.values()))
        training = first._make_training(X, y, signatures, sample_weight)
        for variant in group.values():
            variant._set_training_attributes(training)
        table = training.table
        if classes is not None and all(v.synthesizes_independently for v in group.values()):
            rows = np.sort(table.positions(np.asarray(classes)))
            table = table.subset(rows)
        positions = {id(variant): index for index, variant in group.items()}
        unfitted = {id(variant): dict(vars(variant)) for variant in group.values()}
        with numerical_failures_named(method):
            for variant in method._fit_many(training, list(group.values())):
                if id(variant) not in positions:
                    raise _not_each_once(method)
                model = variant._copy()
                # The group outlives this model, so only the copy keeps what was learned.
                vars(variant).clear()
                vars(variant).update(unfitted[id(variant)])
                model._describe(table, checked=True)
                yield positions.pop(id(variant)), model._as_fitted()
                del model
        if positions:
            raise _not_each_once(method)


def _not_each_once(method: type) -> TypeError:
    """The error of a method whose `_fit_many` skips or repeats a variant."""
    return TypeError(f"{method.__name__}._fit_many must yield each variant once.")


_Variant = TypeVar("_Variant")


def group_by_params(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that agree on some hyper-parameters."""
    groups: dict[tuple[Any, ...], list[_Variant]] = {}
    for variant in variants:
        key = tuple(_comparable(getattr(variant, name)) for name in names)
        groups.setdefault(key, []).append(variant)
    return list(groups.values())


def group_by_params_except(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that agree on all hyper-parameters except the given ones."""
    if not variants:
        return []
    every = variants[0].get_params(deep=False)  # type: ignore[attr-defined]
    return group_by_params(variants, *(name for name in every if name not in names))


def group_by_path(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that differ only in these names; those without integer seed stay alone."""
    groups = []
    for group in group_by_params_except(variants, *names):
        seeded = isinstance(group[0].random_state, Integral)  # type: ignore[attr-defined]
        groups.extend([group] if seeded else [[variant] for variant in group])
    return groups


def _comparable(value: Any) -> Any:
    """A key that is equal for equal values; arrays and estimators are compared by content."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return type(value), value
    return fingerprint(value)
