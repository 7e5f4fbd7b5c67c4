"""Base of all methods: what an author writes, and how `fit` calls it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import array_api_compat as compat
import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import has_fit_parameter

from zslearn._scoring._blocks import ScoreFunction
from zslearn._scoring._embedding import Embedding, PreparedRows
from zslearn._scoring._scorer import ClassScorer, find_classes, identical_rows, row_keys
from zslearn._utils._array import Array, Floats, is_streamed, take_rows, to_numpy
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._fit_cache import fingerprint
from zslearn._utils._messages import name_some, warn_once
from zslearn._utils._saved import Saved, saved_part, saves
from zslearn._utils._validation import checks_parameters
from zslearn.base._class_statistics import weighted_samples
from zslearn.base._predictor import ZeroShotPredictor, clone_with
from zslearn.base._streams import stream_samples
from zslearn.base._training import StreamedRows, SummedTraining, Training, summarize
from zslearn.signatures._table import SignatureTable


@saved_part
@saves(
    table=Saved(kind=SignatureTable),
    parameters=Saved("n_classes", ...),
)
@dataclass(frozen=True, eq=False)
class _Described:
    """Classes and their parameters, replaced together."""

    table: SignatureTable
    parameters: Array

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """By which identical parameters are found; kept when classes are added or removed."""
        return row_keys(self.parameters)

    @cached_property
    def same_as(self) -> NDArray[np.intp] | None:
        """Which classes have identical parameters."""
        return identical_rows(self.parameters, self.keys)

    def with_rows(
        self, table: SignatureTable, order: NDArray[np.intp], added: Array | None = None
    ) -> Self:
        """Another table, whose rows are some of these, and of those that are added, in order."""
        parameters, keys = self.parameters, self.keys
        if added is not None:
            xp = compat.array_namespace(parameters)
            parameters = xp.concat([parameters, added], axis=0)
            keys = np.concatenate([keys, row_keys(added)])
        changed = type(self)(table, take_rows(parameters, order))
        vars(changed)["keys"] = keys[order]
        return changed

    def __getstate__(self) -> dict[str, Any]:
        return {"table": self.table, "parameters": self.parameters}


# Values up to this fit in float32, and their squares in float64.
_LARGEST = 1e30


def refuse_extreme_parameters(estimator: Any) -> None:
    """Refuse hyper-parameters too large to compute with; a tiny penalty is no penalty."""
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, Real) and _LARGEST < abs(float(value)) < math.inf:
            raise ValueError(
                f"{name}={value:.0e} of {type(estimator).__name__} is too large to be computed "
                f"with. Take a number that is not beyond {_LARGEST:.0e}."
            )


@contextmanager
def numerical_failures_named(method: type) -> Iterator[None]:
    """Say which method could not learn where its arithmetic fails."""
    try:
        yield
    except (LinAlgError, ArithmeticError) as error:
        raise ValueError(
            f"{method.__name__} cannot learn from this: {str(error).rstrip('.')}. Regularise more, "
            "or look at the scale of X and of the signatures."
        ) from error


@inherit_docs
@saves(
    {"_described.table.n_attributes": Saved(kind="int", counts="n_attributes")},
    signature_scale_=Saved(above=0, each=True),
    _described=Saved(kind=(_Described, tuple)),
)
class ZeroShotClassifier(ZeroShotPredictor):
    """Base of all methods.

    A method defines `__init__` with its hyper-parameters, among them `feature_norm` and
    `signature_scale`, and writes

    1. `_fit(training)`: learn from a :class:`Training`; or, where settings of the hyper-parameters
       share work, the class method `_fit_many(training, variants)`;
    2. `embed(X)`: prepared features → rows in the space of the parameters (by default `X` itself);
    3. `synthesize(signatures, labels=None)`: normalised signatures of any classes → their
       parameters, one row per class;
    4. `score_function`: "dot", "euclidean" (the negative distance), "cosine" or "max_dot";
    5. `keep_views = True`, to receive :class:`~zslearn.signatures.SignatureViews` where a user gave
       several views; any other method receives one vector per class;
    6. `grids`: hyper-parameters with their values, by name.

    Prepared features have unit rows (with `feature_norm="l2"`) and may be arrays of any library of
    the array API standard. Signatures are NumPy arrays.

    Parameters
    ----------
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    signature_scale_ : tuple of float
        The number that the signatures of each view are divided by.
    signature_table_ : SignatureTable
        Signatures of every described class, as given.

    See Also
    --------
    zslearn.base.checks.parametrize_with_checks : Checks of an author's own class.
    """

    score_function: ScoreFunction = "dot"
    keep_views: ClassVar[bool] = False
    #: Whether `_fit` asks no more of the samples than `sums`, `moments` and `spectrum` of
    #: :class:`Training` give: then `fit` also takes features on disk, and dask arrays.
    learns_from_sums: bool = False
    #: Hyper-parameters along which solutions start from each other. A search that goes on after an
    #: interruption fits settings that differ in these alone together again.
    path_parameters: ClassVar[tuple[str, ...]] = ()
    #: Attributes that decide what `embed` does: estimators of a search in which these are the very
    #: same objects share rows that are embedded once. None: nothing is shared.
    embedding_attributes: tuple[str, ...] | None = None
    #: Whether `synthesize` makes each class of its own signature alone, whatever others there are:
    #: then `add_classes` synthesizes the new classes only, and a search those that it scores.
    synthesizes_independently: bool = False
    #: Grids by name, "paper" and "fast": hyper-parameter → values, or a list of such mappings, one
    #: after the other. The first hyper-parameter changes slowest; of equally good settings a search
    #: takes the first.
    grids: ClassVar[
        Mapping[str, Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]]
    ] = {}

    #: Whether `synthesize` trains, so that nobody calls it for a trial; `_rows_per_class` then
    #: tells how many rows it draws.
    _synthesis_trains: ClassVar[bool] = False

    feature_norm: str | None
    signature_scale: str | float
    signature_scale_: tuple[float, ...]
    _described: _Described

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_norm": [StrOptions({"l2"}), None],
        "signature_scale": [
            StrOptions({"seen", "all"}),
            # Squares of what is divided by it are to be numbers of float32, too.
            Interval(Real, 1e-12, 1e12, closed="both"),
        ],
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a `_fit` that nothing would call."""
        super().__init_subclass__(**options)
        owner = next(base for base in cls.__mro__ if "_fit_many" in vars(base))
        if "_fit" in vars(cls) and owner not in (cls, ZeroShotClassifier):
            raise TypeError(
                f"{cls.__name__} defines _fit, but {owner.__name__} trains by _fit_many, which "
                "does not call it. Define _fit_many(training, variants) instead."
            )

    # What a method writes.

    def _fit(self, training: Training) -> None:
        """Learn; a method whose settings share nothing defines this."""
        raise TypeError(
            f"{type(self).__name__} must define _fit(training), or _fit_many(training, variants)."
        )

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Fit estimators that differ in hyper-parameters on the same training data.

        A method whose settings share work defines this in place of `_fit`; fitting one is fitting
        many with one variant.
        """
        for variant in variants:
            variant._fit(training)
            yield variant

    def embed(self, X: Array) -> Array:
        """Take prepared features into the space of the class parameters; by default as they are.

        It depends on nothing but `X` and the estimator's attributes, and changes neither.

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
        """Make the parameters of described classes.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.
        labels : ndarray of shape (n_classes,), optional
            Names of the classes, for a method to which a name says more than a signature.

        Returns
        -------
        array of shape (n_classes, n_dims)
            One row per class.
        """
        raise TypeError(f"{type(self).__name__} must define synthesize(signatures, labels=None).")

    # What a user calls.

    @checks_parameters()
    def fit(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Learn from images of the seen classes and the signatures of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features: NumPy, pandas, polars, or an array of torch, CuPy or another library of
            the array API standard, which is then computed with on its own device. Methods whose
            `learns_from_sums` is true also take a :class:`~zslearn.datasets.FeatureBlocks` or a
            dask array, of which one block at a time is in memory.
        y : array-like of shape (n_samples,)
            Class labels: strings, integers or booleans; None for those of a FeatureBlocks.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class. A DataFrame (index: class labels; for polars, which has no
            index, the column "class"), a mapping label → vector, or an array whose rows follow
            `np.unique(y)`. Rows for classes that are not in `y` describe unseen ones. By default
            each class is described by its own indicator, and no unseen class can be predicted; the
            first such fit of a process says so.

        Returns
        -------
        self
            The fitted method. After an error it is as it was.
        """
        return self._fit_validated(X, y, signatures)

    def _fit_validated(self, X: Any, y: Any, signatures: Any, sample_weight: Any = None) -> Self:
        """What `fit` does, once the hyper-parameters are checked."""
        if signatures is None:
            warn_once(
                "fit without signatures= describes each class by its own indicator: a class "
                "without samples cannot be predicted. Give signatures= to predict unseen classes."
            )
        fresh = self._fresh_copy()
        training = fresh._make_training(X, y, signatures, sample_weight)
        if not isinstance(signatures, SignatureTable):
            training.warn_of_units()
        with numerical_failures_named(type(self)):
            for _ in self._fit_many(training, [fresh]):
                fresh._describe(training.table)
        if not hasattr(fresh, "_described"):
            raise _not_each_once(type(self))
        return self._set_fitted(fresh)

    def add_classes(self, signatures: Any, *, like: Any = None) -> Self:
        """Describe further classes; nothing is learned again.

        Several threads may add classes and predict at the same time: a prediction sees all of the
        classes that one call adds, or none of them.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            Signatures of classes that are not in `classes_`, with the attributes given to `fit`.
            Named columns may come in another order. A mapping may also hold, for each label, a
            mapping from attribute to value; of several views an attribute is "view: attribute".
        like : label, optional
            The class whose values attributes have that are not named.

        Returns
        -------
        self
            The method, not a copy, which now also predicts these classes. After an error it is as
            it was.
        """

        def add(changed: Self) -> None:
            table = changed._described.table
            changed._describe_more(SignatureTable.from_new(signatures, table, like))

        return self._change(add)

    def remove_classes(self, labels: Any) -> Self:
        """Forget classes that are known by their signature alone; nothing is learned again.

        Parameters
        ----------
        labels : array-like of labels
            Classes in `unseen_classes_`. One with training images is refused, since what was
            learned holds it; `classes=` leaves it out of the candidates.

        Returns
        -------
        self
            The method, not a copy, which no longer predicts these classes. After an error it is
            as it was.
        """

        def remove(changed: Self) -> None:
            table = changed._described.table
            rows = find_classes(labels, table.labels, "labels")
            self._refuse_seen(table.labels[rows])
            changed._remove(table.labels[rows], np.setdiff1d(np.arange(len(table.labels)), rows))

        return self._change(remove)

    def _remove(self, labels: NDArray[Any], kept: NDArray[np.intp]) -> None:
        """Remove classes; a method that keeps more of a class overrides it to drop that, too."""
        table = self._described.table.subset(kept)
        if self.synthesizes_independently:
            self._described = self._described.with_rows(table, kept)
        else:
            self._describe(table, self._normalized(table))

    @property
    def signature_table_(self) -> SignatureTable:
        """Signatures of every described class, as given."""
        return self._described.table

    def seen_shares(self, signatures: Any) -> Floats | None:
        """How much each seen class counts where the parameters of classes are made of theirs.

        A method that makes a class from seen ones by weights overrides it, for
        :func:`zslearn.inspection.explain`.
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
        """Fit once for each setting of the hyper-parameters, sharing what they have in common.

        Parameters
        ----------
        classes : array-like of labels, optional
            Classes that need be described, by default all with a signature; a method that does not
            make each class alone describes all.

        Yields
        ------
        index : int
            Position in `settings`. The order is the method's, every setting comes once.
        estimator : zero-shot estimator
            Fitted under that setting.
        """
        variants = [clone_with(self, setting) for setting in settings]
        yield from fit_variants(
            variants, X, y, signatures=signatures, sample_weight=sample_weight, classes=classes
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_described")

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that non-finite features are replaced unless `feature_norm=None`."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "feature_norm", None) is not None
        return tags

    # How it is done.

    def _validate_params(self) -> None:
        """Check the hyper-parameters: each by itself, and whether it can be computed with."""
        super()._validate_params()
        refuse_extreme_parameters(self)

    def _make_training(
        self, X: Any, y: Any, signatures: Any, sample_weight: Any = None
    ) -> Training:
        """Check what `fit` was given, and prepare the samples as they are read."""
        if is_streamed(X):
            return self._make_streamed_training(X, y, signatures, sample_weight)
        X, y = self._check_training(X, y)
        X, y, weights = weighted_samples(X, y, sample_weight)
        if weights is not None:
            refuse_weights(self)
        seen, codes = np.unique(y, return_inverse=True)
        names = getattr(self, "feature_names_in_", None)
        training = self._describe_training(signatures, seen, self._prepare(X), codes, names)
        training = replace(training, weights=weights)
        self._take_training(training)
        return training

    def _make_streamed_training(
        self, X: Any, y: Any, signatures: Any, sample_weight: Any
    ) -> Training:
        """Read samples that do not lie in memory once, and keep their sums."""
        if not self.learns_from_sums:
            raise TypeError(
                f"{type(self).__name__} learns from the rows themselves, which must lie in memory: "
                "give an array (of a dask array, X.compute()). Methods that learn from class "
                "statistics or Gram matrices (EXEM, GaussianEXEM, ESZSL, SAE, GFZSL, CCA) read "
                "files and dask arrays block by block."
            )
        samples = stream_samples(X, y, sample_weight)
        if samples.weights is not None:
            refuse_weights(self)
        summary = summarize(samples, self.feature_norm)
        rows = StreamedRows(samples, summary.sums, self.feature_norm)
        no_codes = np.empty(0, dtype=np.intp)
        known = self._describe_training(signatures, summary.sums.classes, rows, no_codes, None)
        training = SummedTraining(**vars(known), kept=summary.kept)
        self._take_training(training)
        return training

    def _describe_training(
        self,
        signatures: Any,
        seen: NDArray[Any],
        X: Array,
        y: NDArray[np.intp],
        feature_names: NDArray[Any] | None,
    ) -> Training:
        """Read the signatures beside prepared samples."""
        if len(seen) < 2:
            raise ValueError(
                f"y holds one class only, {seen.tolist()[0]!r}: "
                "learning needs samples of at least two seen classes."
            )
        table = SignatureTable.from_user(signatures, seen)
        self._check_views(table)
        rows = table.positions(seen)
        table = table.with_units(rows)
        if isinstance(self.signature_scale, str):
            scales = table.scales(rows if self.signature_scale == "seen" else slice(None))
        else:
            scales = (float(self.signature_scale),) * len(table.arrays)
        described = table.normalized(scales, keep_views=self.keep_views)[rows]
        return Training(X, y, described, seen, table, scales, self.keep_views, feature_names)

    def _check_views(self, table: SignatureTable) -> None:
        """Refuse classes that lack a view, unless the method can do without."""
        table.refuse_lacking(type(self).__name__)

    def _take_training(self, training: Training) -> None:
        """Take over what every method keeps of its training data."""
        self.n_features_in_ = training.rows.shape[1]
        if training.feature_names is not None:
            self.feature_names_in_ = training.feature_names
        self.seen_classes_ = training.classes
        self.signature_scale_ = training.signature_scale

    def _prepare(self, X: Any) -> PreparedRows:
        """Features to be prepared as they are read, with one warning for all that is replaced."""
        prepared = PreparedRows(X, self.feature_norm)
        prepared.check()
        return prepared

    def _describe(self, table: SignatureTable, described: Any = None) -> None:
        """Synthesize every class of the table, then take it over as what is described.

        `described` are their normalised signatures, where the caller has them and has warned of
        equal ones.
        """
        if described is None:
            self._check_views(table)
            described = self._normalized(table)
            table.warn_equal_signatures(described)
        self._described = _Described(table, self._synthesize_finite(described, table.labels))

    def _normalized(self, table: SignatureTable) -> Any:
        """Signatures as `synthesize` takes them."""
        return table.normalized(self.signature_scale_, keep_views=self.keep_views)

    def _describe_more(self, new: SignatureTable) -> None:
        """Describe further classes; only these are synthesized where classes do not interact."""
        before = self._described
        table = before.table.union(new)
        if not self.synthesizes_independently:
            self._describe(table)
            return
        self._check_views(new)
        table.warn_equal_signatures(self._normalized(table))
        added = self._synthesize_finite(self._normalized(new), new.labels)
        order = np.argsort(np.concatenate([before.table.labels, new.labels]), kind="stable")
        self._described = before.with_rows(table, order, added)

    def _synthesize_finite(self, described: Any, labels: NDArray[Any]) -> Array:
        """Parameters of classes; refuse those that cannot be computed with."""
        with numerical_failures_named(type(self)):
            parameters = self.synthesize(described, labels)
        xp = compat.array_namespace(parameters)
        flat = xp.reshape(parameters, (parameters.shape[0], -1))
        bad = ~to_numpy(xp.all(xp.isfinite(flat), axis=1))
        if bad.any():
            raise ValueError(
                f"{type(self).__name__} made NaN or infinite parameters for "
                f"{name_some(labels[bad].tolist())}. Regularise more, or look at the scale "
                "of X and of the signatures."
            )
        return parameters

    @property
    def class_scorer_(self) -> ClassScorer:
        """What predictions work on, as classes are described at this moment."""
        state = self._snapshot()
        described = state._described
        scorer = state._scorer(described.table.labels, described.parameters)
        return replace(scorer, same_as=described.same_as)

    def _scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        """The scorer of described classes."""
        return ClassScorer(labels, parameters, self._embedding(), self.score_function)

    def _embedding(self) -> Embedding:
        """Preparation of the features, then `embed`."""
        names = self.embedding_attributes
        read = None if names is None else tuple(getattr(self, name, None) for name in names)
        return Embedding(self.embed, (self.feature_norm,), read)

    def _image_space(self) -> Embedding:
        """The embedding in which images are compared with each other; by default that of scores."""
        return self.class_scorer_.embedding


if TYPE_CHECKING:
    _Method = ZeroShotClassifier
else:
    _Method = object


class AcceptsSampleWeight(_Method):
    """Mixin of methods whose `fit` takes `sample_weight`.

    Such a method reads `training.weights` and `training.sizes`. It stands before
    :class:`ZeroShotClassifier` among the bases.
    """

    @checks_parameters()
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Learn from images of the seen classes and the signatures of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features; see :meth:`ZeroShotClassifier.fit`.
        y : array-like of shape (n_samples,)
            Class labels: strings, integers or booleans.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`ZeroShotClassifier.fit`.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts. A weight of 2 is a sample that is there twice, and a sample
            of weight 0 is not there: a class left without samples is not seen.

        Returns
        -------
        self
            The fitted method. After an error it is as it was.
        """
        return self._fit_validated(X, y, signatures, sample_weight)


def fit_weighted(
    estimator: Any, X: Any, y: NDArray[Any], signatures: Any, weights: Floats | None
) -> Any:
    """Fit an estimator, with weights where there are any."""
    if weights is None:
        return estimator.fit(X, y, signatures=signatures)
    if not has_fit_parameter(estimator, "sample_weight"):
        raise _no_weights(estimator)
    return estimator.fit(X, y, signatures=signatures, sample_weight=weights)


def refuse_weights(estimator: ZeroShotClassifier) -> None:
    """Refuse weights where the method's objective has none."""
    if not isinstance(estimator, AcceptsSampleWeight):
        raise _no_weights(estimator)


def _no_weights(estimator: Any) -> TypeError:
    return TypeError(
        f"{type(estimator).__name__} cannot weigh samples; leave sample_weight out. Methods whose "
        "fit has the parameter can."
    )


# Many settings of a method at once, in groups that share work.


def fit_variants(
    variants: Sequence[ZeroShotClassifier],
    X: Any,
    y: Any,
    *,
    signatures: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
) -> Iterator[tuple[int, Any]]:
    """Fit estimators on the same data; those of one class share what their method can share."""
    # Samples and signatures are prepared once for all that agree in these.
    groups: dict[tuple[Any, ...], dict[int, ZeroShotClassifier]] = {}
    for index, variant in enumerate(variants):
        variant._validate_params()
        key = type(variant), variant.feature_norm, variant.signature_scale
        groups.setdefault(key, {})[index] = variant
    for (method, *_), group in groups.items():
        first = next(iter(group.values()))
        training = first._make_training(X, y, signatures, sample_weight)
        for variant in group.values():
            variant._take_training(training)
        table, described = training.table, training.all_signatures()
        table.warn_equal_signatures(described)
        if classes is not None and all(v.synthesizes_independently for v in group.values()):
            rows = np.sort(table.positions(np.asarray(classes)))
            table, described = table.subset(rows), described[rows]
        positions = {id(variant): index for index, variant in group.items()}
        blank = {id(variant): dict(vars(variant)) for variant in group.values()}
        with numerical_failures_named(method):
            for variant in method._fit_many(training, list(group.values())):
                if id(variant) not in positions:
                    raise _not_each_once(method)
                model = variant._copy()
                # What was learned goes with the copy: the variant would keep it in memory.
                variant.__dict__.clear()
                variant.__dict__.update(blank[id(variant)])
                model._describe(table, described)
                yield positions.pop(id(variant)), model._as_fitted()
                del model
        if positions:
            raise _not_each_once(method)


def _not_each_once(method: type) -> TypeError:
    """The error of a method that breaks the rule of `_fit_many`."""
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
    """Group estimators that agree on all hyper-parameters except some."""
    if not variants:
        return []
    every = variants[0].get_params(deep=False)  # type: ignore[attr-defined]
    return group_by_params(variants, *(name for name in every if name not in names))


def group_by_path(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators that differ in these names alone; each alone without an integer seed."""
    groups = []
    for group in group_by_params_except(variants, *names):
        seeded = isinstance(group[0].random_state, Integral)  # type: ignore[attr-defined]
        groups.extend([group] if seeded else [[variant] for variant in group])
    return groups


def _comparable(value: Any) -> Any:
    """A key that is equal for equal values: arrays and estimators count by what they hold."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return type(value), value
    return fingerprint(value)
