"""A zero-shot classifier for tables as people have them.

It turns the columns of the samples and of the class table into numbers, and chooses on held-out
seen classes how numbers are scaled and whether rows are normalised to unit length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import (
    Floats,
    is_empty,
    is_streamed,
    to_numpy,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import each_warning_once, no_user_warnings, warn_user
from zslearn._utils._saved import Saved, saves
from zslearn._utils._validation import (
    SCALING,
    SCALINGS,
    as_pandas,
    checks_parameters,
    in_units,
    without_scaling_warning,
)
from zslearn.base._classifier import fit_weighted
from zslearn.base._meta import (
    TransformedEmbedding,
    TransformedRows,
    ZeroShotMetaClassifier,
    as_zero_shot,
    inner_has,
    transformed,
)
from zslearn.calibration import CalibratedStacking
from zslearn.calibration._folds import GeneralizedClassKFold
from zslearn.datasets import PreparedColumn, TablePreparation
from zslearn.datasets._preparation import prepare_classes
from zslearn.metrics import ausuc
from zslearn.signatures._attributes import scale_signatures
from zslearn.signatures._table import as_frame, indexed_by_label, sample_labels, with_scaling
from zslearn.synthesis import GaussianEXEM

#: Scalings of numbers and norms of rows; the first of each is kept unless another is better.
_SCALINGS, _NORMS = ("standard", "robust", None), (None, "l2")
#: Scaling and norm without a preparation of tables.
_BASELINE = (None, "l2")
#: How much more of the AUSUC a later choice must have.
_LEAST_GAIN = 0.005
#: With fewer seen classes, all categories and dates of a class table are kept.
_FEWEST_COMPARED = 8
#: Penalties of the linear regression that compares them.
_PENALTIES = np.logspace(-2, 3, 11)
#: With fewer seen classes, none can be held out.
_FEWEST_CLASSES = 4
_UNRELATED = "unrelated to the samples"
_SCALING_WORDS = {
    "standard": "standardised",
    "robust": "scaled by median and quartiles",
    "range": "scaled to 0…1",
    None: "not scaled",
}


@dataclass(frozen=True, eq=False)
class TableChoice:
    """Samples and classes as numbers, with the scaling and the norm that suit a method.

    Parameters
    ----------
    columns : TablePreparation or None
        How the table of samples becomes numbers; None if the samples are an array of features.
    attributes : TablePreparation or None
        How the class table becomes numbers; None if it is no DataFrame.
    rows : array of shape (n_samples, n_features)
        The samples.
    signatures : DataFrame
        The classes.
    row_norm : {"l2"} or None
        Normalisation of each sample.
    score, score_before : float or None
        AUSUC on held-out seen classes, and that of numbers that are not scaled, with rows of unit
        length; None if nothing was held out.
    """

    columns: TablePreparation | None
    attributes: TablePreparation | None
    rows: Any
    signatures: Any
    row_norm: str | None = "l2"
    score: float | None = None
    score_before: float | None = None

    @property
    def method_settings(self) -> dict[str, Any]:
        """Hyper-parameters of a method that follow from the choice."""
        return {} if self.columns is None else {"feature_norm": self.row_norm}


@dataclass(eq=False)
class TableChoices:
    """Samples and classes as numbers, before scaling and norm are chosen for a method.

    Parameters
    ----------
    X : DataFrame or array
        The samples; an array is left unchanged.
    y : ndarray of shape (n_samples,)
        Their labels.
    signatures : DataFrame or other description of classes
        The classes. The rows of seen classes decide how a DataFrame becomes numbers.
    """

    X: Any
    y: NDArray[Any]
    signatures: Any
    columns: TablePreparation | None = field(default=None, init=False)
    attributes: TablePreparation | None = field(default=None, init=False)
    _unscaled: Any = field(default=None, init=False)
    _by_scaling: dict[str | None, tuple[TablePreparation, Floats]] = field(
        default_factory=dict, init=False
    )

    @each_warning_once()
    def __post_init__(self) -> None:
        if hasattr(self.X, "columns"):
            self.columns = TablePreparation(scaling=None).fit(self.X, self.y)
            self._unscaled = self.columns.transform(self.X)
        self.signatures = indexed_by_label(self.signatures)
        if isinstance(self.signatures, Mapping):
            self.signatures = as_frame(self.signatures, None, "signatures")[0]
        elif isinstance(self.signatures, pd.DataFrame):
            always = self.columns is not None
            self.attributes, self.signatures = prepare_classes(
                self.signatures, self.y, always=always
            )
            if self.columns is not None and self.attributes is not None:
                rows = self.with_settings("standard", None).rows
                self.attributes = drop_unrelated(self.attributes, self.signatures, rows, self.y)
                names = self.attributes.get_feature_names_out().tolist()
                attrs, self.signatures = self.signatures.attrs, self.signatures[names]
                self.signatures.attrs = dict(attrs)

    def with_settings(
        self, scaling: str | None, row_norm: str | None, signature_scaling: str | None = None
    ) -> TableChoice:
        """The numbers with given scalings and a given norm."""
        signatures = self.signatures
        if isinstance(signatures, pd.DataFrame):
            signatures = with_scaling(signatures, signature_scaling)
        if self.columns is None:
            return TableChoice(None, self.attributes, self.X, signatures)
        if scaling not in self._by_scaling:
            columns = self.columns._changed(scaling=scaling)._set_units(self._unscaled)
            self._by_scaling[scaling] = columns, in_units(self._unscaled, columns._units)
        columns, rows = self._by_scaling[scaling]
        return TableChoice(columns, self.attributes, rows, signatures, row_norm)

    def choose(
        self,
        estimator: Any,
        *,
        scaling: str | None = "auto",
        row_norm: str | None = "auto",
        signature_scaling: str | None = "auto",
        random_state: Any = 0,
        least: float = 0.0,
    ) -> TableChoice:
        """Choose scaling and norm by the AUSUC of a method on held-out seen classes.

        A method whose AUSUC is below `least` is not worth more trials.
        """
        scalings = _SCALINGS if scaling == "auto" else (scaling,)
        norms = _NORMS if row_norm == "auto" else (row_norm,)
        if not _norm_names(estimator):
            norms = ("l2",)
        classes = np.unique(self.y)
        # Without signatures, held-out classes cannot be predicted.
        if len(classes) < _FEWEST_CLASSES or self.columns is None or self.signatures is None:
            chosen = self.with_settings(scalings[0], norms[0])
            if not isinstance(self.signatures, pd.DataFrame):
                return chosen
            scaled = scale_signatures(
                self.signatures, signature_scaling, seen_classes=classes.tolist()
            )
            return replace(chosen, signatures=scaled)
        of_classes: tuple[str | None, ...] = (signature_scaling,)
        if signature_scaling == "auto":
            attrs = getattr(self.signatures, "attrs", {SCALING: None})
            of_classes = (attrs[SCALING],) if SCALING in attrs else (None, "standard")
        settings = [scalings[0], norms[0], of_classes[0]]
        if len(scalings) == len(norms) == len(of_classes) == 1:
            return self.with_settings(*settings)
        splitter = GeneralizedClassKFold(min(5, len(classes) // 2), random_state=random_state)
        folds = list(splitter.split(self.y, self.y))
        scores: dict[tuple[str | None, ...], float] = {}

        def score(*settings: str | None) -> float:
            if settings not in scores:
                choice = self.with_settings(*settings)
                scores[settings] = _held_out_ausuc(estimator, choice, self.y, folds)
            return scores[settings]

        # One at a time: the norm, the scaling, and that of the class table.
        for place, candidates in ((1, norms), (0, scalings), (2, of_classes)):
            for candidate in candidates[1:]:
                other = [*settings[:place], candidate, *settings[place + 1 :]]
                if score(*other) > score(*settings) + _LEAST_GAIN:
                    settings = other
            if place == 1 and score(*settings) < least:
                return replace(self.with_settings(*settings), score=score(*settings))
        before = score(*_BASELINE, of_classes[0])
        return replace(self.with_settings(*settings), score=score(*settings), score_before=before)


def _held_out_ausuc(
    estimator: Any, choice: TableChoice, y: NDArray[Any], folds: list[tuple[Any, Any]]
) -> float:
    """Mean AUSUC of a method over folds of the seen classes."""
    method, classes = with_row_norm(innermost(estimator), choice.row_norm), np.unique(y)
    values = []
    for train, test in folds:
        with no_user_warnings():
            fitted = clone(method).fit(choice.rows[train], y[train], signatures=choice.signatures)
            scores = to_numpy(fitted.decision_function(choice.rows[test], classes=classes))
        values.append(ausuc(y[test], scores, classes=classes, seen_classes=fitted.seen_classes_))
    return float(np.nan_to_num(np.mean(values)))


def drop_unrelated(
    attributes: TablePreparation, signatures: pd.DataFrame, rows: Floats, y: NDArray[Any]
) -> TablePreparation:
    """Drop categories and dates without which the means of held-out classes are predicted better.

    The worst one is dropped first, until every other one helps.
    """
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < _FEWEST_COMPARED or not np.isin(classes, signatures.index).all():
        return attributes
    means = np.stack([rows[codes == code].mean(axis=0) for code in range(len(classes))])

    def error(preparation: TablePreparation) -> float:
        names = preparation.get_feature_names_out().tolist()
        if not names:
            return np.inf
        return prediction_error(signatures.loc[classes, names].to_numpy(), means)

    least = error(attributes)
    while words := [c.name for c in attributes.columns_ if c.kind in ("category", "date")]:
        others = [attributes._without(name, _UNRELATED) for name in words]
        errors = [error(other) for other in others]
        if min(errors) > least:
            break
        least, attributes = min(errors), others[int(np.argmin(errors))]
    return attributes


def prediction_error(attributes: Floats, means: Floats) -> float:
    """Error of predicting the mean of each class from its attributes and the other classes.

    Ridge regression on standardised attributes, with the best of a few penalties. Its residual for
    a class that is left out is that of all classes, divided by 1 − h with the leverage h.
    """
    # Squares of extreme numbers would overflow.
    largest = np.abs(attributes).max(axis=0)
    attributes = attributes / np.where(largest > 0, largest, 1.0)
    spread = attributes.std(axis=0)
    centred = (attributes - attributes.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    targets = means - means.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    errors = []
    for penalty in _PENALTIES:
        kept = left * np.sqrt(values**2 / (values**2 + penalty))
        leverage = (kept**2).sum(axis=1) + 1 / len(means)
        residual = (targets - kept @ (kept.T @ targets)) / (1 - leverage)[:, None]
        errors.append(float((residual**2).sum()))
    return min(errors)


def innermost(estimator: Any) -> Any:
    """The method inside wrappers that calibrate or search."""
    while isinstance(estimator, ZeroShotMetaClassifier):
        # None stands for the default of a method that extends another, such as GDA.
        if getattr(estimator, "estimator", None) is None:
            break
        estimator = estimator.estimator
    return estimator


def _norm_names(estimator: Any) -> list[str]:
    """The hyper-parameters that normalise rows, also of a method inside another."""
    return [n for n in estimator.get_params() if n.rpartition("__")[-1] == "feature_norm"]


def with_row_norm(estimator: Any, row_norm: str | None) -> Any:
    """Clone an estimator and set the norm of the rows."""
    estimator = clone(estimator)
    return estimator.set_params(**dict.fromkeys(_norm_names(estimator), row_norm))


@inherit_docs
@saves(
    columns_=Saved(kind=TablePreparation, optional=True),
    attributes_=Saved(kind=TablePreparation, optional=True),
    held_out_scores_=Saved(None, finite=False),
)
@dataclass(eq=False, repr=False)
class TableClassifier(ZeroShotMetaClassifier):
    """Classify the rows of a table, with classes that are described in another table.

    `fit` turns both tables into numbers with :class:`~zslearn.datasets.TablePreparation`, chooses
    on held-out seen classes how numbers are scaled and whether rows are normalised, and fits a
    method. Predictions take tables with the same columns in any order, with missing values.

    Parameters
    ----------
    estimator : zero-shot estimator, default=None
        The method; by default Gaussian EXEM with calibrated scores and probabilities.
    scaling : {"auto", "standard", "robust", "range"} or None, default="auto"
        How numbers are scaled; see :class:`~zslearn.datasets.TablePreparation`. "auto" chooses.
    row_norm : {"auto", "l2"} or None, default="auto"
        Whether each row is normalised to unit length, the `feature_norm` of the method.
    signature_scaling : {"auto", "standard", "robust", "range"} or None, default="auto"
        How the numbers of the class table are scaled.
    n_jobs : int, optional
        Number of folds of the calibration fitted in parallel.
    random_state : int, default=0
        Seed of the folds.

    Attributes
    ----------
    columns_ : TablePreparation or None
        How the table of samples becomes numbers; None if :meth:`from_fitted` was given features.
    attributes_ : TablePreparation or None
        How the class table becomes numbers; None if it is no DataFrame.
    held_out_scores_ : ndarray of shape (2,)
        AUSUC on held-out seen classes of the choice, and of numbers that are not scaled with rows
        of unit length; NaN if there are fewer than four seen classes or nothing is "auto".

    See Also
    --------
    zslearn.datasets.load_table : Reads tables from files.

    Examples
    --------
    >>> import pandas as pd
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import TableClassifier
    >>> data = make_zero_shot(random_state=0)
    >>> table = pd.DataFrame(data.X_train).add_prefix("sensor ")
    >>> table["unit"] = "mm"
    >>> model = TableClassifier().fit(table, data.y_train, signatures=data.signatures)
    >>> new = pd.DataFrame(data.X_test_unseen).add_prefix("sensor ").iloc[:, ::-1]
    >>> model.predict(new, classes=data.unseen_classes).shape
    (150,)
    """

    estimator: Any = None
    _: KW_ONLY
    scaling: str | None = "auto"
    row_norm: str | None = "auto"
    signature_scaling: str | None = "auto"
    n_jobs: int | None = None
    random_state: Any = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "scaling": [StrOptions({"auto", *SCALINGS}), None],
        "row_norm": [StrOptions({"auto", "l2"}), None],
        "signature_scaling": [StrOptions({"auto", *SCALINGS}), None],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    @checks_parameters(also_of_inner=True)
    def fit(self, X: Any, y: Any, *, signatures: Any = None, sample_weight: Any = None) -> Self:
        """Prepare the columns, choose scaling and norm, and fit the method.

        Parameters
        ----------
        X : DataFrame of shape (n_samples, n_columns)
            A table of pandas or polars with numbers, categories, dates and missing values.
        signatures : DataFrame
            One row per class, with the labels in the index (polars: in a column "class"), and
            numbers, categories and missing values.
        """
        fresh, of_array = self._fresh_copy(), None
        if hasattr(X, "columns"):
            y = sample_labels(y)
            check_consistent_length(X, y)
        else:
            of_array, y = fresh._check_training(X, y)
            X = as_pandas(to_numpy(of_array))
        if len(y) < 2:
            raise ValueError("Found 1 sample; columns are compared over several.")
        estimator = self.estimator
        if estimator is None:
            estimator = CalibratedStacking(
                GaussianEXEM(),
                temperature="cv",
                n_jobs=self.n_jobs,
                random_state=self.random_state,
            )
        estimator = as_zero_shot(estimator)
        names = ("scaling", "row_norm", "signature_scaling", "random_state")
        options = {name: getattr(self, name) for name in names}
        choice = TableChoices(X, y, signatures).choose(estimator, **options)
        fresh._set_choice(choice, has_names=of_array is None)
        rows = choice.rows
        if of_array is not None:
            rows = transformed(choice.columns, of_array)
            if n_missing := int(np.isnan(X.to_numpy(dtype=np.float64)).sum()):
                warn_user(
                    f"X has {n_missing} missing values, which the median of their column replaces, "
                    "here and in further samples."
                )
        method = with_row_norm(estimator, choice.row_norm)
        with without_scaling_warning(self.scaling == "auto"):
            fresh.estimator_ = fit_weighted(method, rows, y, choice.signatures, sample_weight)
        return self._set_fitted(fresh)

    @classmethod
    def from_fitted(cls, choice: TableChoice, model: Any, *, has_names: bool = True) -> Self:
        """Combine a preparation with a model that was fitted on its numbers.

        Parameters
        ----------
        choice : TableChoice
            The preparation.
        model : zero-shot estimator
            The fitted model.
        has_names : bool, default=True
            Whether the samples were a table rather than an array, whose columns have no names.

        Returns
        -------
        TableClassifier
            A fitted classifier for tables.
        """
        fresh = cls(model)
        fresh._set_choice(choice, has_names=has_names)
        fresh.estimator_ = model
        return fresh._as_fitted()

    def _set_choice(self, choice: TableChoice, *, has_names: bool = True) -> None:
        self.columns_, self.attributes_ = choice.columns, choice.attributes
        scores = (choice.score, choice.score_before)
        self.held_out_scores_ = np.asarray([np.nan if s is None else s for s in scores])
        self.n_features_in_ = int(choice.rows.shape[1])
        if self.columns_ is not None:
            self.n_features_in_ = self.columns_.n_features_in_
            if has_names:
                self.feature_names_in_ = self.columns_.feature_names_in_

    @property
    def used_columns_(self) -> list[PreparedColumn] | None:
        """The columns that predictions need; None if samples are arrays of features."""
        if self.columns_ is None or not hasattr(self, "feature_names_in_"):
            return None
        return [column for column in self.columns_.columns_ if column.outputs]

    def summary(self) -> str:
        """Return what was done to which columns, and what it gained.

        Returns
        -------
        str
            One line; empty if the samples are an array of features.
        """
        check_is_fitted(self)
        if self.columns_ is None:
            return ""
        norm = getattr(innermost(self.estimator_), "feature_norm", "l2")
        method = "rows not normalised" if norm is None else "rows of unit length"
        text = f"{self.columns_.summary()}; {_SCALING_WORDS[self.columns_.scaling]}, {method}"
        after, before = self.held_out_scores_
        if np.isnan(after):
            return text
        return (
            f"{text}: AUSUC on held-out classes {after:.3f} "
            f"({before:.3f} without scaling, with rows of unit length)"
        )

    # Predictions of the inner estimator, which may reject rows or predict ranks.

    def predict(self, X: Any, *, classes: Any = None, prior: Any = None) -> NDArray[Any]:
        """Predict the class of each row.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels; a model that rejects rows has its own label for them.
        """
        check_is_fitted(self)
        if is_streamed(X):
            return super().predict(X, classes=classes, prior=prior)
        state = self._snapshot()
        options = {} if prior is None else {"prior": prior}
        predicted: NDArray[Any] = state._inner.predict(
            state._inner_features(X), classes=classes, **options
        )
        return predicted

    @inner_has("is_none")
    def is_none(self, X: Any, *, classes: Any = None) -> NDArray[np.bool_]:
        """Detect rows that belong to none of the candidates.

        Returns
        -------
        ndarray of bool of shape (n_samples,)
            True for rejected rows.
        """
        state = self._snapshot()
        rejected: NDArray[np.bool_] = state._inner.is_none(
            state._inner_features(X), classes=classes
        )
        return rejected

    @inner_has("predict_rank")
    def predict_rank(self, X: Any, *, classes: Any = None) -> Any:
        """Predict the deepest rank of which the model is confident.

        Returns
        -------
        RankPrediction
            See :meth:`zslearn.calibration.RankPredictor.predict_rank`.
        """
        state = self._snapshot()
        return state._inner.predict_rank(state._inner_features(X), classes=classes)

    def add_classes(self, signatures: Any, *, like: Any = None) -> Self:
        """Describe further classes by the columns of the class table.

        Parameters
        ----------
        signatures : DataFrame or mapping
            One row per class, with the columns of the class table given to `fit`, which may have
            missing values; or a mapping from label to a mapping from column to value.
        """
        return super().add_classes(self._class_numbers(signatures, like), like=like)

    @inner_has("add_examples")
    def add_examples(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Add labelled rows without refitting.

        Parameters
        ----------
        signatures : DataFrame, optional
            The rows of new classes, with the columns of the class table given to `fit`.
        """
        if signatures is not None:
            signatures = self._class_numbers(signatures)
        return super().add_examples(X, y, signatures=signatures)

    def _class_numbers(self, signatures: Any, like: Any = None) -> Any:
        """Rows of a class table as numbers; rows that are numbers already are kept."""
        check_is_fitted(self)
        table = indexed_by_label(signatures)
        if isinstance(table, Mapping) and all(isinstance(v, Mapping) for v in table.values()):
            table = pd.DataFrame.from_dict(dict(table), orient="index")
        if self.attributes_ is None or like is not None or not isinstance(table, pd.DataFrame):
            return signatures
        outputs = set(self.attributes_.get_feature_names_out())
        raw = {c.name for c in self.attributes_.columns_ if c.outputs}
        if outputs != raw and outputs <= set(map(str, table.columns)):
            return signatures
        return self.attributes_._class_numbers(table)

    def _inner_features(self, X: Any) -> Any:
        """The numbers of a table, for the inner estimator."""
        if self.columns_ is None or is_streamed(X) or isinstance(X, EmbeddedRows):
            return super()._inner_features(X)
        if self.used_columns_ is None or not hasattr(X, "columns"):
            X = super()._check_features(X)
        if is_empty(X):
            return np.empty((0, len(self.columns_.get_feature_names_out())))
        return transformed(self.columns_, X)

    def _check_features(self, X: Any, *, reset: bool = False) -> Any:
        """Features for the scorer: numbers of a table, or a validated array."""
        if reset or self.used_columns_ is None or not hasattr(X, "columns"):
            return super()._check_features(X, reset=reset)
        assert self.columns_ is not None
        return self.columns_.transform(X).view(TransformedRows)

    @property
    def class_scorer_(self) -> ClassScorer:
        """The scorer of the inner estimator, applied after the preparation of the columns."""
        state = self._snapshot()
        scorer = state._inner.class_scorer_
        if state.columns_ is None:
            return scorer
        columns = Pipeline([("columns", state.columns_)])
        embedding = Embedding(TransformedEmbedding(columns, scorer.embedding))
        return replace(scorer, embedding=embedding)

    def _has_temperature(self) -> bool:
        return hasattr(self._inner, "predict_proba")

    def _check_true_labels(self, y: NDArray[Any], scorer: ClassScorer, classes: Any) -> None:
        self._inner._check_true_labels(y, scorer, classes)

    def _is_generalized(self) -> bool:
        return bool(self._inner._is_generalized())

    def __sklearn_tags__(self) -> Tags:
        """Tables may have text and missing values."""
        tags = super(ZeroShotMetaClassifier, self).__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
