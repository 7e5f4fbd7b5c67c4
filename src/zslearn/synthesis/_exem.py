r"""EXEM: classes by the exemplars that their signatures predict.

The exemplar of a class is the mean of its projected samples, :math:`z_c = \frac{1}{|I_c|}
\sum_{n \in I_c} M x_n` with M the principal components of the training samples. One regressor a
dimension learns :math:`\psi(a_c) \approx z_c` from the seen classes (the paper's eEXEMlearn). Then
either the nearest predicted exemplar names a sample (eExemPredict),

.. math:: \hat y = \arg\min_u \; \mathrm{dis}(M x, \psi(a_u)),

or the predicted exemplars take the place of the signatures in another method.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import array_api_compat as compat
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from zslearn.base import (
    Training,
    ZeroShotClassifier,
    ZeroShotMetaClassifier,
    _FeaturePreparation,
    find_classes,
)
from zslearn.scoring import ScoreFunction
from zslearn.signatures import MultiSignatures, SignatureViews, rbf_similarity
from zslearn.signatures._table import SignatureTable, _labels_and_rows, label_array
from zslearn.solvers import nu_svr_path
from zslearn.synthesis._regressors import (
    ExemplarMLP,
    KernelNuSVR,
    KernelRidge,
    SharedKernel,
    SignatureRegressor,
    gaussian_process,
    side_by_side,
)
from zslearn.synthesis._statistics import ClassStatistics, Floats
from zslearn.utils import (
    Array,
    InputWarning,
    move_like,
    name_some,
    to_numpy,
    unit_rows,
    warn_user,
)
from zslearn.utils._folds import class_folds

__all__ = ["EXEM", "exemplar_distance_score", "held_class_accuracy_score"]

# Rows that are projected at a time.
_BLOCK = 4096
_DEFAULT_COMPONENTS = 500
_NESTED_FOLDS = 5


def _keeps_no_samples(model: EXEM) -> bool:
    if model.estimator is not None:
        raise AttributeError(
            "Statistics of samples are not enough with "
            f"estimator={type(model.estimator).__name__}(…), which learns from the samples: call "
            "fit with all of them, or leave estimator out."
        )
    return True


class EXEM(ZeroShotClassifier):
    """Predict the exemplar of each class from its signature; compare samples with it.

    `EXEM()` is the paper's EXEM (1NN), `EXEM(distance="standardized")` its EXEM (1NNs), and
    `EXEM(estimator=M)` its EXEM (M): M on the original features, with the predicted exemplars as
    signatures. Learning costs the number of seen classes, not of samples.

    Parameters
    ----------
    n_components : int or None, default=500
        Dimensions of the projection. More than the samples have are clipped, with a warning unless
        it is the default; None means no projection.
    C : float, default=1.0
        Penalty of the ν-SVR, λ/S of the paper; for "krr" the ridge is 1/(2C).
    nu : float, default=0.5
        ν of the ν-SVR, in (0, 1].
    gamma : float, default=1.0
        Width of the RBF kernel between signatures, 1/σ².
    distance : {"euclidean", "standardized"}, default="euclidean"
        How samples and exemplars are compared. "standardized" divides each dimension by
        `within_std_`. Not used with `estimator`.
    regressor : {"svr", "krr", "gp", "mlp"} or regressor, default="svr"
        What predicts exemplars: one ν-SVR a dimension, kernel ridge, a Gaussian process, the
        two-layer perceptron of the paper's appendix (:class:`ExemplarMLP`, needs the `torch`
        extra), or any regressor of several outputs in scikit-learn's manners. It is fitted on
        the signatures, or on their RBF kernel where its `kernel` is "precomputed".
    estimator : zero-shot estimator, optional
        The method whose signatures the predicted exemplars become, those of seen classes too.
    nested : bool, default=False
        Whether the exemplars of seen classes are predicted by regressors that did not see them, in
        five folds. The paper's program does not do so.
    tol : float, default=1e-8
        Largest violation of the optimality conditions of the ν-SVR, in units of the projected
        features. LIBSVM's 1e-3 is faster and leaves exemplars that depend on the rounding.
    max_iter : int, default=1_000_000
        Steps a ν-SVR at most.
    n_jobs : int, optional
        Threads of the ν-SVR. By default as many as there are cores.
    random_state : int, RandomState or None, default=0
        Decides the folds of `nested`, and the first weights of "mlp".
    feature_norm : {"l2"} or None, default="l2"
        Whether each sample is brought to unit norm. "l2" also replaces NaN and infinity by 0.
    signature_scale : {"seen", "all"} or float, default="seen"
        What the median distance, in units of which signatures are measured, is taken over.

    Attributes
    ----------
    exemplars_ : ndarray of shape (n_seen, n_dims)
        Real exemplars of the seen classes: means of their projected samples.
    predicted_exemplars_ : ndarray of shape (n_seen, n_dims)
        What the regressors say of the same classes.
    components_ : ndarray of shape (n_dims, n_features) or None
        The projection; None without one.
    mean_ : ndarray of shape (n_features,)
        What is taken from samples before they are projected; zeros without a projection.
    within_std_ : ndarray of shape (n_dims,)
        With distance="standardized" only: the standard deviation (ddof=1) within a class, averaged
        over the seen classes that have at least two samples. A dimension without any is not
        scaled: its entry is 1.
    support_ : ndarray of shape (n_dims,)
        With "svr" only: number of support classes of each dimension.
    violation_ : ndarray of shape (n_dims,)
        With "svr" only: largest violation of the optimality conditions.
    n_iter_ : int
        Steps of the ν-SVR that took the most; 1 for other regressors.
    regressor_ : object
        The fitted regressor.
    estimator_ : zero-shot estimator
        With `estimator` only: that method, fitted on features and predicted exemplars.
    statistics_ : ClassStatistics
        After `partial_fit` or `fit_statistics`: what is known of the samples so far.
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

    See Also
    --------
    ClassStatistics : What is kept of the samples.
    ideal_signatures : Real exemplars as signatures.
    zslearn.solvers.nu_svr : The regressors.

    References
    ----------
    S. Changpinyo, W.-L. Chao, B. Gong and F. Sha, "Classifier and exemplar synthesis for zero-shot
    learning", International Journal of Computer Vision, 2020.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    """

    keep_views: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "C": [Interval(Real, 0, None, closed="neither")],
        "nu": [Interval(Real, 0, 1, closed="right")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "distance": [StrOptions({"euclidean", "standardized"})],
        "regressor": [
            StrOptions({"svr", "krr", "gp", "mlp"}),
            HasMethods(["fit", "predict"]),
        ],
        "estimator": [HasMethods(["fit", "embed", "synthesize"]), None],
        "nested": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    grids: ClassVar[dict[str, dict[str, list[Any]]]] = {
        "paper": {
            "n_components": [500, 1000],
            "gamma": [2.0**k for k in range(-4, 5)],
            "nu": [2.0**k for k in range(-8, 1)],
            "C": [2.0**k for k in range(-5, 6)],
        },
        "fast": {
            "gamma": [2.0**k for k in range(-3, 2)],
            "nu": [2.0**k for k in range(-4, 1, 2)],
            "C": [2.0**k for k in range(-4, 3, 2)],
        },
    }
    grid_order: ClassVar[tuple[str, ...]] = ("n_components", "gamma", "nu", "C")

    def __init__(
        self,
        n_components: int | None = _DEFAULT_COMPONENTS,
        C: float = 1.0,
        nu: float = 0.5,
        gamma: float = 1.0,
        *,
        distance: str = "euclidean",
        regressor: Any = "svr",
        estimator: Any = None,
        nested: bool = False,
        tol: float = 1e-8,
        max_iter: int = 1_000_000,
        n_jobs: int | None = None,
        random_state: Any = 0,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_components = n_components
        self.C = C
        self.nu = nu
        self.gamma = gamma
        self.distance = distance
        self.regressor = regressor
        self.estimator = estimator
        self.nested = nested
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    # Learning.

    def _fit(self, X: Array, y: NDArray[np.intp], signatures: Any) -> None:
        classes = np.arange(len(signatures))
        statistics = ClassStatistics._of_prepared(X, y, classes, factors=False)
        self._forget()
        self._fit_projection(statistics)
        if self._standardized():
            self._fit_within_std(X, y, statistics)
        self._fit_regressors(signatures)
        if self.estimator is not None:
            inner = clone(self.estimator)
            labels = self.seen_classes_[y]
            self.estimator_ = inner.fit(X, labels, signatures=self._inner_signatures())

    def _fit_within_std(self, X: Array, y: NDArray[np.intp], statistics: ClassStatistics) -> None:
        """Deviations within classes, from the samples."""
        squares = statistics.squares
        if self.components_ is not None:
            squares = self._projected_squares(X, y, len(statistics.classes))
        freedom = np.where(statistics.counts > 1, statistics.counts - 1, np.nan)
        self._set_within_std(np.sqrt(squares / freedom[:, None]))

    def _forget(self) -> None:
        """Drop what another setting of the parameters left."""
        for name in ("within_std_", "support_", "violation_", "estimator_", "statistics_"):
            if hasattr(self, name):
                delattr(self, name)

    def _fit_projection(self, statistics: ClassStatistics) -> None:
        """Principal components of the samples, and the real exemplars."""
        self.mean_ = np.zeros(statistics.n_features)
        self.components_: Floats | None = None
        self.exemplars_ = statistics.means
        if self.n_components is None:
            return
        components, _ = statistics.principal_components(self.n_components)
        if len(components) < self.n_components != _DEFAULT_COMPONENTS:
            warn_user(
                f"n_components={self.n_components} is more than the rank of the training samples; "
                f"{len(components)} are used.",
                InputWarning,
            )
        self.mean_ = statistics.mean
        self.components_ = components
        self.exemplars_ = (statistics.means - self.mean_) @ components.T

    def _standardized(self) -> bool:
        return self.estimator is None and self.distance == "standardized"

    def _projected_squares(self, X: Array, y: NDArray[np.intp], n_classes: int) -> Floats:
        """Squared deviations of each class from its exemplar, dimension by dimension."""
        squares = np.zeros((n_classes, len(self.exemplars_[0])))
        for start in range(0, X.shape[0], _BLOCK):
            rows = slice(start, min(start + _BLOCK, X.shape[0]))
            block = X[rows, :]
            xp = compat.array_namespace(block)
            projected = to_numpy(self._project(xp.astype(block, xp.float64)))
            member = (y[rows][None, :] == np.arange(n_classes)[:, None]).astype(np.float64)
            squares += member @ (projected - self.exemplars_[y[rows]]) ** 2
        return squares

    def _set_within_std(self, by_class: Floats) -> None:
        """Average over the classes with at least two samples; the others are NaN."""
        counted = by_class[~np.isnan(by_class).any(axis=1)]
        if not len(counted):
            warn_user(
                "No seen class has two samples, so that there is no deviation within classes to "
                'standardise by; distance="standardized" is then the Euclidean one.',
                InputWarning,
            )
            self.within_std_ = np.ones(by_class.shape[1])
            return
        std = counted.mean(axis=0)
        # Rounding leaves a little where there is nothing.
        self.within_std_ = np.where(std > 1e-12 * max(std.max(), 1e-300), std, 1.0)

    def _fit_regressors(self, signatures: Any, regressor: Any = None) -> None:
        """Regressors from the signatures of the seen classes to their exemplars.

        A regressor that is given is fitted already.
        """
        if regressor is None:
            regressor = self._new_regressor().fit(signatures, self.exemplars_)
        self.regressor_ = regressor
        self._seen_signatures = signatures
        self.n_iter_ = 1
        if isinstance(self.regressor_, KernelNuSVR):
            self.n_iter_ = max(1, int(self.regressor_.result.n_iter.max()))
            self.support_ = self.regressor_.result.n_support
            self.violation_ = self.regressor_.result.violation
        self._out_of_fold: tuple[dict[bytes, int], Floats] | None = None
        if self.nested:
            self._out_of_fold = self._predict_out_of_fold(signatures)
            self.predicted_exemplars_ = self._out_of_fold[1]
        else:
            self.predicted_exemplars_ = self.regressor_.predict(signatures)

    def _new_regressor(self) -> Any:
        """The regressor that `regressor` names, not fitted."""
        if self.regressor == "svr":
            return KernelNuSVR(self.C, self.nu, self.gamma, self.tol, self.max_iter, self.n_jobs)
        if self.regressor == "krr":
            return KernelRidge(self.C, self.gamma)
        if self.regressor == "gp":
            return SignatureRegressor(gaussian_process(self.gamma, self.random_state), self.gamma)
        if self.regressor == "mlp":
            return SignatureRegressor(ExemplarMLP(random_state=self.random_state), self.gamma)
        return SignatureRegressor(self.regressor, self.gamma)

    def _predict_out_of_fold(self, signatures: Any) -> tuple[dict[bytes, int], Floats]:
        """Exemplars of the seen classes, each by regressors that saw the other folds only."""
        n_seen = len(signatures)
        rng = check_random_state(self.random_state)
        out = np.empty_like(self.exemplars_)
        n_folds = min(_NESTED_FOLDS, n_seen)
        for fold in class_folds(rng.permutation(n_seen), n_folds):
            rest = np.setdiff1d(np.arange(n_seen), fold)
            regressor = self._new_regressor().fit(signatures[rest], self.exemplars_[rest])
            out[fold] = regressor.predict(signatures[fold])
        return {key: row for row, key in enumerate(_row_keys(signatures))}, out

    def _inner_signatures(self) -> pd.DataFrame:
        """Predicted exemplars as signatures for the inner method; the seen classes come first."""
        if isinstance(self.estimator, ZeroShotMetaClassifier):
            name = type(self.estimator).__name__
            raise TypeError(
                f"estimator={name}(…) wraps another estimator; wrap EXEM the other way round: "
                f"{name}(EXEM(estimator=…))."
            )
        rows, labels = self.predicted_exemplars_, self.seen_classes_.tolist()
        if self._every_signature is not None:
            # Those of unseen classes count for a scale over all classes, and for nothing else.
            every = self.predict_exemplars(self._every_signature)
            seen = set(labels)
            unseen = [i for i, label in enumerate(self._every_label) if label not in seen]
            rows = np.concatenate([rows, every[unseen]])
            labels += [self._every_label[i] for i in unseen]
        return pd.DataFrame(rows, index=labels)

    def _adopt(self, signatures: Any, seen: NDArray[Any]) -> tuple[SignatureTable, Any]:
        table, described = super()._adopt(signatures, seen)
        # Only an inner method whose scale is taken over all classes asks for those of unseen ones.
        self._every_signature = None
        if getattr(self.estimator, "signature_scale", None) == "all":
            self._every_signature = table.normalized(self.signature_scale_, keep_views=True)
            self._every_label = table.labels.tolist()
        return table, described

    def _fit_settings(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Projection, kernels and starts of the ν-SVR are shared, or else the exemplars."""
        grid = self._regressor_grid if self.estimator is None else self._inner_grid
        yield from grid(training, settings)

    def _can_share(self, names: set[str]) -> bool:
        if self.estimator is not None:
            return all(name.startswith("estimator__") for name in names)
        plain = self.regressor == "svr" and not self.nested
        return plain and names <= {*self.grid_order, "distance"}

    def _regressor_grid(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Settings of projection, distance and ν-SVR: one projection, one path a kernel."""
        variants = self._variants(settings)
        statistics = ClassStatistics._of_prepared(
            training.X, training.y, np.arange(len(training.signatures)), factors=False
        )
        widths: list[int | None] = list(dict.fromkeys(one.n_components for one in variants))
        # The first components of a wider projection are the narrower one: the widest serves all.
        widest = max((width for width in widths if width is not None), default=None)
        models = {
            width: self._variant({"n_components": width, "distance": "standardized"})
            for width in {None, widest} & {widest if w is not None else None for w in widths}
        }
        for model in models.values():
            model._fit_projection(statistics)
            if any(one._standardized() for one in variants):
                model._fit_within_std(training.X, training.y, statistics)
        groups: dict[tuple[int | None, float], dict[int, Self]] = {}
        for i, one in enumerate(variants):
            width = None if one.n_components is None else widest
            groups.setdefault((width, one.gamma), {})[i] = one
        del variants
        for (width, gamma), group in groups.items():
            yield from self._path(models[width], gamma, group, training)

    def _path(
        self, model: EXEM, gamma: float, group: dict[int, Self], training: Training
    ) -> Iterator[tuple[int, Self]]:
        """Settings of one kernel, a width at a time, so that embeddings change seldom."""
        kernel = SharedKernel(training.signatures, gamma)
        results = {
            (result.C, result.nu): result
            for result in nu_svr_path(
                rbf_similarity(training.signatures, gamma=gamma),
                model.exemplars_,
                C=[one.C for one in group.values()],
                nu=[one.nu for one in group.values()],
                tol=self.tol,
                max_iter=self.max_iter,
                n_jobs=self.n_jobs,
            )
        }
        for i in sorted(group, key=lambda i: (group[i].n_components or 0, group[i].distance)):
            # What is given away is not kept.
            one = group.pop(i)
            one._narrow(model)
            regressor = one._new_regressor()
            regressor.take(kernel, results[one.C, one.nu], one.exemplars_.shape[1])
            one._fit_regressors(training.signatures, regressor)
            yield i, one

    def _narrow(self, model: EXEM) -> None:
        """Take over the first dimensions of a wider projection."""
        width = self.n_components
        self._every_signature = None
        self.mean_ = model.mean_
        self.components_ = None if model.components_ is None else model.components_[:width]
        self.exemplars_ = model.exemplars_[:, :width]
        if self._standardized():
            self.within_std_ = model.within_std_[:width]

    def _inner_grid(
        self, training: Training, settings: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[int, Self]]:
        """Settings of the inner method alone: exemplars are predicted once."""
        statistics = ClassStatistics._of_prepared(
            training.X, training.y, np.arange(len(training.signatures)), factors=False
        )
        self._fit_projection(statistics)
        self._fit_regressors(training.signatures)
        inner_settings = [
            {name.removeprefix("estimator__"): value for name, value in setting.items()}
            for setting in settings
        ]
        fitted = clone(self.estimator).fit_grid(
            training.X,
            self.seen_classes_[training.y],
            signatures=self._inner_signatures(),
            settings=inner_settings,
        )
        for i, inner in fitted:
            one = copy.copy(self)
            one.estimator = clone(self.estimator).set_params(**inner_settings[i])
            one.estimator_ = inner
            yield i, one

    def embedding_key(self) -> Hashable:
        """Width and scaling of the projection, or what the inner method says of its embedding."""
        if self.estimator is not None:
            inner = self.estimator_.embedding_key()
            return None if inner is None else (self.estimator_.feature_norm, inner)
        return None if self.components_ is None else len(self.components_), self._standardized()

    @available_if(_keeps_no_samples)
    def fit_statistics(self, statistics: ClassStatistics, *, signatures: Any = None) -> Self:
        """Learn from the statistics of samples instead of the samples.

        Parameters
        ----------
        statistics : ClassStatistics
            Of features prepared by this model's `feature_norm`. For distance="standardized" with a
            projection they must have been taken with `factors=True`.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            See :meth:`fit`.

        Returns
        -------
        self
            The fitted method; the same as `fit` gives on the samples.
        """
        self._validate_params()
        fresh = copy.copy(self)
        fresh.n_features_in_ = statistics.n_features
        if hasattr(fresh, "feature_names_in_"):
            del fresh.feature_names_in_
        fresh._learn(statistics, signatures)
        self.__dict__ = fresh.__dict__
        return self

    @available_if(_keeps_no_samples)
    def partial_fit(self, X: Any, y: Any, *, signatures: Any = None, classes: Any = None) -> Self:
        """Learn from one more chunk of samples; only their statistics are kept.

        The model is made anew from all chunks at every call. For many chunks it is cheaper to add
        up :class:`ClassStatistics` and to call :meth:`fit_statistics` once. What `fit` learned is
        not gone on with, as it keeps no statistics; a warning says so.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels, of one class or more. There is a model once two classes have been seen.
        signatures : DataFrame, mapping, array or MultiSignatures, optional
            What is known of each class; needed at the first call, later only for classes that have
            not been described yet.
        classes : array-like of labels, optional
            In place of `signatures` at the first call: every class there will be, each described by
            its own indicator.

        Returns
        -------
        self
            The method. After an error it is as it was.
        """
        self._validate_params()
        fresh = copy.copy(self)
        known = getattr(self, "statistics_", None)
        if known is None and hasattr(self, "_described"):
            warn_user(
                "fit kept no statistics that a chunk could be added to: the model begins anew with "
                "this one. Begin with partial_fit to go on with it."
            )
            # Nothing that fit left may outlive it.
            for name in [n for n in vars(fresh) if n.endswith("_") or n.startswith("_")]:
                delattr(fresh, name)
        if known is None:
            X, labels = fresh._check_training(X, y)
        else:
            X, labels = fresh._check_chunk(X, y)
        labels = label_array(labels, "y")
        prepared = self._prepare(X)
        chunk, codes = np.unique(labels, return_inverse=True)
        factors = self._standardized() and self.n_components is not None
        statistics = ClassStatistics._of_prepared(prepared, codes, chunk, factors=factors)
        table = fresh._chunk_signatures(signatures, classes, chunk, first=known is None)
        total = statistics if known is None else known + statistics
        fresh._signature_table = table
        if len(total.classes) < 2:
            fresh.statistics_ = total
        else:
            fresh._learn(total, table.as_user())
        self.__dict__ = fresh.__dict__
        return self

    def _check_chunk(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Check a later chunk against the width of the earlier ones."""
        width, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        self._check_features(X)
        X, labels = self._check_training(X, y)
        self.n_features_in_ = width
        if names is not None:
            self.feature_names_in_ = names
        return X, labels

    def _chunk_signatures(
        self, signatures: Any, classes: Any, chunk: NDArray[Any], *, first: bool
    ) -> SignatureTable:
        """All signatures so far and those given with this chunk; each class of it must be there."""
        if first:
            if signatures is None and classes is not None:
                every = np.unique(label_array(classes, "classes"))
                missing = np.setdiff1d(chunk, every)
                if missing.size:
                    raise ValueError(f"classes does not name {name_some(missing.tolist())} of y.")
                return SignatureTable.from_user(None, every)
            return SignatureTable.from_user(signatures, chunk)
        table = self._signature_table
        if signatures is not None:
            # An array can only describe the classes of this chunk.
            table = _joined(table, SignatureTable._read(signatures, chunk))
        described = set(table.labels.tolist())
        undescribed = [label for label in chunk.tolist() if label not in described]
        if undescribed:
            raise ValueError(
                f"No signature describes {name_some(undescribed)} of y: give it with this chunk. "
                "Nothing of the chunk was taken in."
            )
        return table

    def _learn(self, statistics: ClassStatistics, signatures: Any) -> None:
        """Make the model from statistics."""
        table, described = self._adopt(signatures, statistics.classes)
        self._forget()
        self.statistics_ = statistics
        self._fit_projection(statistics)
        if self._standardized():
            self._set_within_std(statistics.standard_deviations(self.components_))
        self._fit_regressors(described)
        self._describe(table)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_described")

    # The three verbs.

    @property
    def score_function(self) -> ScoreFunction:  # type: ignore[override]
        """The negative distance, or the score of the inner method."""
        if self.estimator is not None:
            return self.estimator_.score_function
        return "euclidean"

    def embed(self, X: Array) -> Array:
        """Project samples; with the standardised distance also divide by the deviations.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Prepared features.

        Returns
        -------
        array of shape (n_samples, n_dims)
            Points beside the exemplars, or what the inner method makes of the features.
        """
        if self.estimator is not None:
            prepare, embed = self.estimator_._row_steps()
            return embed(prepare(X))
        projected = self._project(X)
        if self._standardized():
            projected = projected / move_like(self.within_std_, X)
        return projected

    def _project(self, X: Array) -> Array:
        """Points in the space of the exemplars, for the features `X`."""
        if self.components_ is None:
            return X
        centered = X - move_like(self.mean_, X)[None, :]
        return centered @ move_like(self.components_.T, X)

    def synthesize(self, signatures: Any) -> Array:
        """Predict exemplars; with an inner method, make its parameters from them.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews
            Normalised signatures.

        Returns
        -------
        array of shape (n_classes, n_dims)
            One row a class.
        """
        exemplars = self.predict_exemplars(signatures)
        if self.estimator is not None:
            return self.estimator_.synthesize(self._as_signatures(exemplars))
        return exemplars / self.within_std_ if self._standardized() else exemplars

    def _synthesize_named(self, signatures: Any, labels: NDArray[Any]) -> Array:
        """As `synthesize`; an inner method may ask for the names of classes."""
        if self.estimator is None:
            return self.synthesize(signatures)
        described = self._as_signatures(self.predict_exemplars(signatures))
        return self.estimator_._synthesize_named(described, labels)

    def _as_signatures(self, exemplars: Floats) -> Floats:
        """Exemplars as the inner method sees signatures."""
        (scale,) = self.estimator_.signature_scale_
        return unit_rows(exemplars) / scale

    def predict_exemplars(self, signatures: Any) -> Floats:
        """Predict exemplars in the projected space, without any scaling.

        Parameters
        ----------
        signatures : ndarray of shape (n_classes, n_attributes) or SignatureViews, or DataFrame
            Normalised signatures, as :meth:`synthesize` takes them; or, as a DataFrame or mapping,
            signatures as `fit` takes them, of any classes.

        Returns
        -------
        ndarray of shape (n_classes, n_dims)
            One row a class, in the order of the rows given.
        """
        check_is_fitted(self, "regressor_")
        if not isinstance(signatures, (np.ndarray, SignatureViews)):
            signatures = self._normalized_in_order(signatures)
        exemplars = self.regressor_.predict(signatures)
        if self._out_of_fold is not None:
            rows, held = self._out_of_fold
            for position, key in enumerate(_row_keys(signatures)):
                if key in rows:
                    exemplars[position] = held[rows[key]]
        return exemplars

    def _normalized_in_order(self, signatures: Any) -> Any:
        """Signatures that a user gives, aligned with those of `fit`, normalised, in their order."""
        given = SignatureTable._read(signatures, None)
        table = given._aligned_with(self._signature_table)
        first = signatures
        if isinstance(signatures, MultiSignatures):
            first = next(iter(signatures.views.values()))
        order = _labels_and_rows(first, None, "signatures")[0]
        described = table.normalized(self.signature_scale_, keep_views=True)
        return described[table.positions(order)]

    def inverse_transform(self, exemplars: Floats) -> Floats:
        """Take exemplars back into the space of the prepared features.

        Parameters
        ----------
        exemplars : ndarray of shape (n_classes, n_dims)
            Points in the projected space.

        Returns
        -------
        ndarray of shape (n_classes, n_features)
            The features they stand for.
        """
        check_is_fitted(self)
        if self.components_ is None:
            return exemplars
        return exemplars @ self.components_ + self.mean_


def exemplar_distance_score(
    estimator: EXEM, X: Any, y: Any, classes: Any = None, *, distance: str | None = None
) -> float:
    """CV-distance: how near predicted exemplars come to the real ones of held-out classes.

    Parameters
    ----------
    estimator : EXEM
        Fitted without the held-out classes, which it has signatures of.
    X : array-like of shape (n_samples, n_features)
        Samples of the held-out classes.
    y : array-like of shape (n_samples,)
        Their labels.
    classes : array-like of labels, optional
        Candidates; they do not matter for a distance and are taken for the sake of a common call.
    distance : {"euclidean", "standardized"}, optional
        By default the estimator's. "standardized" measures the distance of each class in units
        of the deviations within that class, as the authors' program does.

    Returns
    -------
    float
        The negative mean over the classes in `y` of the distance: the higher, the better.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM, exemplar_distance_score
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> exemplar_distance_score(model, data.X_test_unseen, data.y_test_unseen) < 0
    True
    """
    check_is_fitted(estimator)
    X = estimator._check_features(X)
    labels = label_array(to_numpy(y), "y")
    distance = estimator.distance if distance is None else distance
    if distance not in ("euclidean", "standardized"):
        raise ValueError(f"distance must be 'euclidean' or 'standardized'; got {distance!r}.")
    prepare = _FeaturePreparation(estimator.feature_norm)
    prepared = prepare(X)
    xp = compat.array_namespace(prepared)
    held, codes = np.unique(labels, return_inverse=True)
    positions = find_classes(held, estimator.classes_)
    table = estimator._signature_table
    described = table.normalized(estimator.signature_scale_, keep_views=True)
    predicted = estimator.predict_exemplars(described)[positions]
    if distance == "euclidean":
        # The projection is affine: of the samples of a class only the mean need be projected.
        difference = estimator._project(_class_means(prepared, codes)) - predicted
    else:
        projected = estimator._project(xp.astype(prepared, xp.float64))
        statistics = ClassStatistics._of_prepared(projected, codes, held, factors=False)
        difference = statistics.means - predicted
        std = statistics.standard_deviations()
        # A class of one sample, or a dimension without deviation, has no unit of its own.
        with np.errstate(invalid="ignore"):
            usable = std > 0
        difference = difference / np.where(usable, std, 1.0)
    return -float(np.linalg.norm(difference, axis=1).mean())


def _class_means(rows: Array, codes: NDArray[np.intp]) -> Floats:
    """Mean of the rows of each class, in float64."""
    counts = np.bincount(codes)
    total = np.zeros((len(counts), rows.shape[1]))
    for start in range(0, len(codes), _BLOCK):
        block = slice(start, min(start + _BLOCK, len(codes)))
        member = codes[block][None, :] == np.arange(len(counts))[:, None]
        total += member.astype(np.float64) @ to_numpy(rows[block, :]).astype(np.float64)
    return total / counts[:, None]


def held_class_accuracy_score(estimator: Any, X: Any, y: Any, classes: Any = None) -> float:
    """CV-accuracy: per-class accuracy on held-out classes, among them alone.

    Parameters
    ----------
    estimator : zero-shot estimator
        Fitted without the held-out classes, which it has signatures of.
    X : array-like of shape (n_samples, n_features)
        Samples of the held-out classes.
    y : array-like of shape (n_samples,)
        Their labels.
    classes : array-like of labels, optional
        Candidates; by default the classes in `y`.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import EXEM, held_class_accuracy_score
    >>> data = make_zero_shot(random_state=0)
    >>> model = EXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> held_class_accuracy_score(model, data.X_test_unseen, data.y_test_unseen) > 0.5
    True
    """
    if classes is None:
        classes = np.unique(label_array(to_numpy(y), "y"))
    return estimator.score(X, y, classes=classes)


def _row_keys(signatures: Any) -> list[bytes]:
    """Each row as bytes, to recognise it again."""
    return [row.tobytes() for row in np.ascontiguousarray(side_by_side(signatures))]


def _joined(known: SignatureTable, given: SignatureTable) -> SignatureTable:
    """Earlier signatures and later ones; a class in both must be described alike."""
    given = given._with_labels_like(known.labels, "the chunks before")._aligned_with(known)
    described = set(known.labels.tolist())
    again = np.asarray([label in described for label in given.labels.tolist()], dtype=bool)
    old = known.positions(given.labels[again])
    for ours, theirs in zip(known.arrays, given.arrays, strict=True):
        changed = (ours[old] != theirs[again]).any(axis=1)
        if changed.any():
            labels = given.labels[again][changed].tolist()
            raise ValueError(
                f"The signature of {name_some(labels)} is not the one given before: fit again to "
                "change a signature."
            )
    return known.union(given.subset(np.flatnonzero(~again)))
