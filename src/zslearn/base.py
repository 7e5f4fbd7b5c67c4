"""The contract of every method: embed · synthesize · score.

A zero-shot method is three verbs. `embed` takes image features into a space, `synthesize` makes the
parameters of any described class, and the score named by `score_function` is how the two meet::

    image features X ──► embed(X) ─────────┐
                                           ├──► score ──► a number per (image, class)
    class signatures ──► synthesize(S) ────┘

A method derives from :class:`ZeroShotClassifier` and writes `_fit`, `embed` and `synthesize`; what
a user calls is written here, once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from zslearn.metrics import per_class_accuracy
from zslearn.scoring import ScoreFunction, class_scores, top_k
from zslearn.signatures._table import SignatureTable, label_array, label_kind
from zslearn.utils import (
    Array,
    InputWarning,
    floating,
    is_foreign,
    name_some,
    plain_tensor,
    take_rows,
    to_numpy,
    unit_rows,
    warn_user,
)

__all__ = ["ZeroShotClassifier", "ZeroShotMetaClassifier"]


class Training(NamedTuple):
    """What `fit` was given, made ready for `_fit`.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Prepared features.
    y : ndarray of shape (n_samples,)
        Positions in the seen classes.
    signatures : ndarray of shape (n_seen, n_attributes) or SignatureViews
        Normalised signatures of the seen classes.
    table : SignatureTable
        Every described class.
    """

    X: Array
    y: NDArray[np.intp]
    signatures: Any
    table: SignatureTable


class Described(NamedTuple):
    """Classes and their parameters, replaced together: a prediction reads it once.

    Parameters
    ----------
    labels : ndarray of shape (n_classes,)
        Every described class, sorted.
    parameters : array of shape (n_classes, …)
        What `synthesize` made of them.
    """

    labels: NDArray[Any]
    parameters: Array


class ZeroShotClassifier(ClassifierMixin, BaseEstimator):
    """Base of all methods.

    A method defines `__init__` with its hyper-parameters, among them `feature_norm` and
    `signature_scale`, and:

    - `_fit(X, y, signatures)`: learn from prepared features, class positions 0 … S−1 and the
      normalised signatures of the S seen classes, in the order of `seen_classes_`;
    - `embed(X)`: prepared features → rows in the space of the parameters (by default `X` itself);
    - `synthesize(signatures)`: normalised signatures of any classes → their parameters, one a row;
    - `score_function`: "dot", "euclidean" (the negative distance), "cosine" or "max_dot".

    Prepared features have unit rows (with `feature_norm="l2"`) and may be arrays of any library of
    the array API standard. Signatures are NumPy arrays; a method that sets `keep_views = True`
    receives :class:`~zslearn.signatures.SignatureViews` where a user gave several views, any other
    method one vector a class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Every described class, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        The classes of the training data, sorted.
    unseen_classes_ : ndarray of shape (n_unseen,)
        The classes known by their signature alone, sorted.
    n_features_in_ : int
        Width of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` had string names.
    signature_scale_ : tuple of float
        The number that the signatures of each view are divided by.
    """

    score_function: ScoreFunction = "dot"
    keep_views: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_norm": [StrOptions({"l2"}), None],
        "signature_scale": [
            StrOptions({"seen", "all"}),
            Interval(Real, 0, None, closed="neither"),
        ],
    }

    # What a method writes.

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: Any) -> None:
        """Learn from prepared features and the normalised signatures of the seen classes."""
        raise TypeError(f"{type(self).__name__} must define _fit(X, y, signatures).")

    def embed(self, X: Array) -> Array:
        """Take prepared features into the space of the class parameters.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Features as `_fit` receives them.

        Returns
        -------
        array of shape (n_samples, n_dims)
            One row a sample; here `X` itself.
        """
        return X

    def synthesize(self, signatures: Any) -> Array:
        """Make the parameters of described classes.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_dims)
            One row a class.
        """
        raise TypeError(f"{type(self).__name__} must define synthesize(signatures).")

    # What a user calls.

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Learn from images of the seen classes and the signatures of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features: NumPy, pandas, polars, or an array of torch, CuPy or another library of
            the array API standard, which is then computed with on its own device.
        y : array-like of shape (n_samples,)
            Class labels: strings, integers or booleans.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class. A DataFrame (index: class labels; for polars, which has no
            index, the column "class"), a mapping label → vector, or an array whose rows follow
            `np.unique(y)`. Rows for classes that are not in `y` describe unseen ones. By default
            each class is described by its own indicator.

        Returns
        -------
        self
            The fitted method.
        """
        training = self._begin(X, y, signatures)
        self._fit(training.X, training.y, training.signatures)
        self._describe(training.table)
        return self

    def add_classes(self, signatures: Any) -> Self:
        """Describe further classes; nothing is learned again.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            Signatures of classes that are not in `classes_`, with the attributes given to `fit`.
            Named columns may come in another order.

        Returns
        -------
        self
            The method, which now also predicts these classes. After an error it is as it was.
        """
        check_is_fitted(self, "classes_")
        table = self._signature_table
        self._describe(table.union(SignatureTable.from_new(signatures, table)))
        return self

    def decision_function(self, X: Any, *, classes: Any = None) -> Array:
        """Score every sample against every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates; by default every class in `classes_`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The higher, the better; columns follow `classes`. In the namespace and on the device of
            `X`. Without `classes`, and with two classes described in all, scikit-learn's convention
            for two classes holds: one number a sample, positive for `classes_[1]`.
        """
        check_is_fitted(self, "classes_")
        described = self._snapshot()
        positions = None if classes is None else find_classes(classes, described.labels)
        scores = self._over_rows(class_scores, X, described, positions)
        if classes is None and len(described.labels) == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict(self, X: Any, *, classes: Any = None) -> NDArray[Any]:
        """Name the best class of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        classes : array-like of labels, optional
            The candidates, for instance `unseen_classes_` in the conventional setting; by default
            every class in `classes_`, the generalized setting.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels. Of classes with equal scores the first in `classes_` is named.
        """
        return self.predict_top_k(X, 1, classes=classes)[0][:, 0]

    def predict_top_k(
        self, X: Any, k: int = 5, *, classes: Any = None
    ) -> tuple[NDArray[Any], Array]:
        """Name the `k` best classes of each sample, best first.

        No matrix of all samples and classes is made.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        k : int, default=5
            How many classes.
        classes : array-like of labels, optional
            The candidates; by default every class in `classes_`.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Class labels.
        scores : array of shape (n_samples, k)
            Their scores, descending.
        """
        check_is_fitted(self, "classes_")
        described = self._snapshot()
        positions = np.arange(len(described.labels))
        if classes is not None:
            # In the order of classes_: ties do not depend on the order of the candidates.
            positions = np.sort(find_classes(classes, described.labels))
        ordered = self._tie_order(positions, described.labels)
        natural = classes is None and ordered is positions
        indices, scores = self._over_rows(top_k, X, described, None if natural else ordered, k)
        return described.labels[ordered[to_numpy(indices)]], scores

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> float:
        """Per-class accuracy: the mean over the classes in `y` of the accuracy within each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts within its class.
        classes : array-like of labels, optional
            The candidates; by default every class in `classes_`.

        Returns
        -------
        float
            Between 0 and 1.
        """
        if classes is not None:
            candidates = set(to_numpy(classes).tolist())
            outside = [
                label for label in np.unique(to_numpy(y)).tolist() if label not in candidates
            ]
            if outside:
                raise ValueError(
                    f"y holds labels that are not among classes: {name_some(outside)}. "
                    "Such samples cannot be right; leave them out, or name their classes."
                )
        predicted = self.predict(X, classes=classes)
        return per_class_accuracy(to_numpy(y), predicted, sample_weight=sample_weight)

    @property
    def unseen_classes_(self) -> NDArray[Any]:
        """The classes known by their signature alone."""
        seen = set(self.seen_classes_.tolist())
        return self.classes_[[label not in seen for label in self.classes_.tolist()]]

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that non-finite features are replaced unless `feature_norm=None`."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "feature_norm", None) is not None
        return tags

    def fit_grid(
        self, X: Any, y: Any, *, signatures: Any = None, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Fit once for each setting of the hyper-parameters.

        A search calls this. A method that can share work between settings defines `_fit_settings`:
        the order is free, every setting comes once, and each estimator is used before the next is
        asked for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; see :meth:`fit`.
        settings : sequence of mappings
            Hyper-parameters by name; those not named are as they are here.

        Yields
        ------
        index : int
            Position in `settings`.
        estimator : zero-shot estimator
            Fitted under that setting.
        """
        if not self._can_share({name for setting in settings for name in setting}):
            for index, setting in enumerate(settings):
                yield index, clone(self).set_params(**setting).fit(X, y, signatures=signatures)
            return
        fresh = clone(self)
        training = fresh._begin(X, y, signatures)
        for index, one in fresh._fit_settings(training, settings):
            one._describe(training.table)
            yield index, one

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Fit variants of this estimator that share work; `fit_grid` then describes each.

        A method that can share defines this. It is called on an estimator that has begun on the
        training data; see `_variants`.
        """
        raise TypeError(f"{type(self).__name__} does not define _fit_settings.")

    def _can_share(self, names: set[str]) -> bool:
        """Whether settings that differ in these hyper-parameters go to `_fit_settings`."""
        shares = type(self)._fit_settings is not ZeroShotClassifier._fit_settings
        return shares and names <= set(self.grid_order)

    #: Grids by name, "paper" and "fast": hyper-parameter → values.
    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {}
    #: Hyper-parameters from the slowest to the fastest in the order of a grid; of equally good
    #: settings the first is taken. Those not named here come before.
    grid_order: ClassVar[tuple[str, ...]] = ()

    def embedding_key(self) -> Hashable:
        """Tell apart embeddings of estimators that `fit_grid` made from the same data.

        Returns
        -------
        hashable
            Equal for two of them just if `embed` is the same function; None if nothing is known.
        """
        return None

    # How it is done.

    def _begin(self, X: Any, y: Any, signatures: Any) -> Training:
        """Check what `fit` was given and make it ready for `_fit`."""
        X, y = self._check_training(X, y)
        seen, codes = np.unique(y, return_inverse=True)
        table, described = self._adopt(signatures, seen)
        return Training(self._prepare(X), codes, described, table)

    def _adopt(self, signatures: Any, seen: NDArray[Any]) -> tuple[SignatureTable, Any]:
        """Read the signatures; the seen classes and the scale are known from then on.

        Returns the table of all classes, and the normalised signatures of the seen ones.
        """
        if len(seen) < 2:
            raise ValueError(
                f"y holds one class only, {seen.tolist()[0]!r}: "
                "learning needs samples of at least two seen classes."
            )
        table = SignatureTable.from_user(signatures, seen)
        rows = table.positions(seen)
        if isinstance(self.signature_scale, str):
            self.signature_scale_ = table.scales(
                rows if self.signature_scale == "seen" else slice(None)
            )
        else:
            self.signature_scale_ = (float(self.signature_scale),) * len(table.arrays)
        self.seen_classes_ = seen
        return table, table.normalized(self.signature_scale_, keep_views=self.keep_views)[rows]

    def _prepare(self, X: Any) -> Array:
        """Features as `_fit` and `embed` take them, with one warning for all that was replaced."""
        prepare = _FeaturePreparation(self.feature_norm)
        prepared = prepare(X)
        prepare.warn()
        return prepared

    def _variant(self, setting: Mapping[str, Any]) -> Self:
        """A clone under another setting that knows what `_begin` found out, for `fit_grid`."""
        one = clone(self).set_params(**setting)
        vars(one).update({k: v for k, v in vars(self).items() if k.endswith("_") and k[0] != "_"})
        return one

    def _variants(self, settings: Sequence[Mapping[str, Any]]) -> list[Self]:
        """A checked variant for each setting."""
        variants = [self._variant(setting) for setting in settings]
        for one in variants:
            one._validate_params()
        return variants

    def _check_training(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Check features and labels; features keep their library, labels come to the host."""
        if is_foreign(y):
            y = to_numpy(y)
        if is_foreign(X) and y is not None:
            X = self._check_features(X, reset=True)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            X, y = validate_data(self, X, y, ensure_all_finite=False)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinity: every sample needs a label.")
        if y.dtype.kind == "O":
            y = _object_labels(y)
        check_classification_targets(y)
        return X, y

    def _check_features(self, X: Any, *, reset: bool = False) -> Any:
        """Check the shape of features; what they hold is checked block by block."""
        if not is_foreign(X):
            return validate_data(self, X, reset=reset, ensure_all_finite=False)
        X = plain_tensor(X, "X")
        if len(X.shape) != 2:
            raise ValueError(f"Expected 2D array, got an array of {len(X.shape)} axes instead.")
        n_samples, n_features = X.shape
        if n_samples == 0 or n_features == 0:
            raise ValueError(
                f"X of shape {tuple(X.shape)} holds nothing: found 0 samples or features."
            )
        if reset:
            self.n_features_in_ = n_features
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return X

    def _describe(self, table: SignatureTable) -> None:
        """Synthesize every class of the table, then take it over as what is described.

        All classes are made together, so that the order in which they were described, at fit or
        later, cannot show in the last digit.
        """
        described = table.normalized(self.signature_scale_, keep_views=self.keep_views)
        table.warn_of_twins(described)
        parameters = self._synthesize_named(described, table.labels)
        xp = compat.array_namespace(parameters)
        flat = xp.reshape(parameters, (parameters.shape[0], -1))
        bad = ~to_numpy(xp.all(xp.isfinite(flat), axis=1))
        if bad.any():
            raise ValueError(
                f"{type(self).__name__} made NaN or infinite parameters for "
                f"{name_some(table.labels[bad].tolist())}. Regularise more, or look at the scale "
                "of X and of the signatures."
            )
        self._signature_table = table
        self._parameters = parameters
        self.classes_ = table.labels
        self._described = Described(table.labels, parameters)

    def _synthesize_named(self, signatures: Any, labels: NDArray[Any]) -> Array:
        """Synthesize classes by name, for a method to which a name says more than a signature."""
        return self.synthesize(signatures)

    def _snapshot(self) -> Described:
        """What is described at this moment; another thread may add classes at the next."""
        return self._described

    def _over_rows(
        self,
        function: Callable[..., Any],
        X: Any,
        described: Described,
        positions: NDArray[np.intp] | None,
        *args: Any,
    ) -> Any:
        """Call a function of `zslearn.scoring` on the rows of X and the candidates' parameters."""
        X = self._check_features(X)
        prepare, embed = self._row_steps()
        parameters, bias = described.parameters, self._class_bias(described.labels)
        if positions is not None:
            parameters = take_rows(parameters, positions)
            bias = None if bias is None else bias[positions]
        result = function(
            X,
            parameters,
            *args,
            score=self.score_function,
            bias=bias,
            embed=lambda rows: embed(prepare(rows)),
        )
        prepare.warn()
        return result

    def _row_steps(self) -> tuple[_FeaturePreparation, Callable[[Array], Array]]:
        """What is done to a block of rows: the preparation, then the embedding."""
        return _FeaturePreparation(self.feature_norm), self.embed

    def _class_bias(self, labels: NDArray[Any]) -> NDArray[np.float64] | None:
        """What is added to the score of each class; see calibrated stacking."""
        return None

    def _tie_order(self, positions: NDArray[np.intp], labels: NDArray[Any]) -> NDArray[np.intp]:
        """Sorted positions of the candidates in the order that settles ties, winners first."""
        return positions


class ZeroShotMetaClassifier(MetaEstimatorMixin, ZeroShotClassifier):
    """Base of estimators that fit another zero-shot estimator and predict through it.

    A subclass defines `fit`, which leaves the fitted inner estimator in `estimator_`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    @property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """Every described class, sorted."""
        return self.estimator_.classes_

    @property
    def seen_classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes of the training data, sorted."""
        return self.estimator_.seen_classes_

    @property
    def score_function(self) -> ScoreFunction:  # type: ignore[override]
        """The score of the inner estimator."""
        return self.estimator_.score_function

    @property
    def _signature_table(self) -> SignatureTable:  # type: ignore[override]
        return self.estimator_._signature_table

    @property
    def _parameters(self) -> Array:
        return self.estimator_._parameters

    def _snapshot(self) -> Described:
        return self.estimator_._snapshot()

    def embed(self, X: Array) -> Array:
        """Embed by the inner estimator; see :meth:`ZeroShotClassifier.embed`."""
        return self.estimator_.embed(X)

    def synthesize(self, signatures: Any) -> Array:
        """Synthesize by the inner estimator; see :meth:`ZeroShotClassifier.synthesize`."""
        return self.estimator_.synthesize(signatures)

    def add_classes(self, signatures: Any) -> Self:
        """Describe further classes to the inner estimator.

        Parameters
        ----------
        signatures : DataFrame, mapping or MultiSignatures
            See :meth:`ZeroShotClassifier.add_classes`.

        Returns
        -------
        self
            The estimator, which now also predicts these classes.
        """
        check_is_fitted(self, "estimator_")
        self.estimator_.add_classes(signatures)
        return self

    def _row_steps(self) -> tuple[_FeaturePreparation, Callable[[Array], Array]]:
        return self.estimator_._row_steps()

    def _seen_bias(self) -> float | None:
        """What is taken from the scores of seen classes (the paper's eGZSLPredictCalib)."""
        return None

    def _is_seen(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        seen = set(self.seen_classes_.tolist())
        return np.asarray([label in seen for label in labels.tolist()])

    def _class_bias(self, labels: NDArray[Any]) -> NDArray[np.float64] | None:
        inner, seen_bias = self.estimator_._class_bias(labels), self._seen_bias()
        if seen_bias is None:
            return inner
        bias = np.where(self._is_seen(labels), -seen_bias, 0.0)
        return bias if inner is None else bias + inner

    def _tie_order(self, positions: NDArray[np.intp], labels: NDArray[Any]) -> NDArray[np.intp]:
        positions = self.estimator_._tie_order(positions, labels)
        if self._seen_bias() is None:
            return positions
        # On a tie with the factor the unseen class wins.
        return positions[np.argsort(self._is_seen(labels)[positions], kind="stable")]

    def __sklearn_tags__(self) -> Tags:
        """Take over what the inner estimator says of its input."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


class _FeaturePreparation:
    """Features as the authors' program has them: non-finite → 0, each sample to unit ℓ2 norm.

    Blocks are prepared one after another; `warn` then says once how many numbers were replaced.
    With `norm=None` features stay as they are, and a non-finite number is an error.
    """

    def __init__(self, norm: str | None) -> None:
        self.norm = norm
        self.replaced = 0

    def __call__(self, rows: Array) -> Array:
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


def _object_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Labels of an object array: strings stay objects, numbers and booleans get their dtype."""
    labels = label_array(y, "y")
    return y if labels.dtype.kind == "U" else labels


def find_classes(classes: Any, known: NDArray[Any]) -> NDArray[np.intp]:
    """Positions among the known labels of the candidates that a user named.

    Parameters
    ----------
    classes : array-like of labels
        The candidates.
    known : ndarray of shape (n_classes,)
        Every described class.

    Returns
    -------
    ndarray of shape (n_candidates,)
        In the order of `classes`.
    """
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise ValueError(f"classes must be a list of labels; got {classes!r}.")
    labels = label_array(to_numpy(classes) if is_foreign(classes) else classes, "classes")
    if labels.size == 0:
        raise ValueError("classes is empty: name at least one candidate, or leave it out.")
    where = {label: i for i, label in enumerate(known.tolist())}
    if label_kind(labels) != label_kind(known):
        where = {}
    unknown = [label for label in labels.tolist() if label not in where]
    if unknown:
        raise ValueError(
            f"classes names what is not described: {name_some(unknown)}. "
            "Describe it with add_classes, or look at classes_."
        )
    if len(np.unique(labels)) < len(labels):
        values, counts = np.unique(labels, return_counts=True)
        raise ValueError(f"classes names twice: {name_some(values[counts > 1].tolist())}.")
    return np.asarray([where[label] for label in labels.tolist()], dtype=np.intp)
