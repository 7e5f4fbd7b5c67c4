r"""Gaussian EXEM: a posterior of each class mean, given signatures and samples.

Where EXEM predicts a point per class, each class is a Gaussian here. Features are whitened by the
pooled covariance within the seen classes (`_whitened_space`), a Gaussian process over the
signatures gives the prior of class means (`_gaussian_process`), and labelled or unlabelled samples
update it (`_class_posterior`). Scores are log probabilities; their temperature and the prior odds
of unseen classes are estimated on training samples (`_temperature`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._scorer import ClassScorer, find_classes
from zslearn._utils._array import (
    Array,
    Floats,
    block_budget,
    is_empty,
    is_streamed,
    row_blocks,
    to_numpy,
)
from zslearn._utils._docstrings import inherit_docs
from zslearn._utils._messages import name_some, warn_once
from zslearn._utils._saved import Saved, saves
from zslearn.base._class_statistics import ClassStatistics
from zslearn.base._classifier import ZeroShotClassifier, group_by_params_except
from zslearn.base._predictor import Fitted
from zslearn.base._streams import needs_rows, read_blocks
from zslearn.base._training import Training
from zslearn.calibration._folds import DEFAULT_UNLABELLED_WEIGHT
from zslearn.signatures._table import SignatureTable, is_among, labels_like, sample_labels
from zslearn.signatures._views import Signatures
from zslearn.synthesis._adaptation_trial import Adaptation, TrialImages, accepted_weight
from zslearn.synthesis._class_posterior import ClassPosterior, ClassSamples
from zslearn.synthesis._from_statistics import LearnsFromStatistics
from zslearn.synthesis._gaussian_process import ClassPrior, SignatureKernel, basis
from zslearn.synthesis._relevance import RelevantKernel, relevant_kernel
from zslearn.synthesis._suggestions import Suggestions, suggest
from zslearn.synthesis._temperature import (
    DEFAULT_ODDS,
    TrainingSamples,
    held_out_samples,
    odds_at,
    temperature_and_odds,
)
from zslearn.synthesis._whitened_space import SpaceOfClasses, WhitenedSpaces

# Settings that differ only in these share a space and a Gaussian process.
_INDEPENDENT_OF_PRIOR = (
    "seen_weight", "unlabelled_weight", "mean_error_weight", "unseen_odds", "temperature",
)  # fmt: skip


@inherit_docs
@saves(
    {
        "posterior_.space.matrix": Saved("n_features", "n_dims"),
        "posterior_.exemplars": Saved("n_seen", "n_dims"),
        "posterior_.orthogonal.means": Saved("n_orthogonal", "n_features"),
        "posterior_.columns": Saved("n_columns", "n_features"),
        "_trial_images.z": Saved("n_trial", "n_dims"),
        "_trial_images.sizes": Saved("n_seen", above=0),
        "_trial_images.y": Saved("n_trial", kind="int", least=0, into="n_seen"),
    },
    posterior_=Saved(kind=ClassPosterior),
    predicted_variances_=Saved("n_dims", least=0),
    observed_variances_=Saved("n_dims", least=0),
    _trial_images=Saved(kind=TrialImages, optional=True),
    adapted_from_=Saved(kind=ZeroShotClassifier, optional=True),
    adaptation_=Saved(kind=Adaptation, optional=True),
)
@dataclass(eq=False, repr=False)
class GaussianEXEM(LearnsFromStatistics):
    r"""Predict the mean of each class, with its uncertainty, from signatures and samples.

    Features are whitened by the covariance within the seen classes. The mean of a class has a
    Gaussian process prior over the signatures; that of a seen class is also informed by its own
    samples. Everything is linear algebra on class statistics: a model of 150 classes is fitted in a
    second. Scores are log probabilities, and :meth:`predict_proba` needs no wrapper.

    Parameters
    ----------
    n_components : int or None, default=None
        Principal components of the samples to whiten; None uses the features as they are. More than
        the rank of the samples are clipped, with a warning.
    shrinkage : float, default=0.5
        ρ in (0, 1]: weight of the mean variance in the covariance within classes. With 1 the
        features are not whitened.
    gamma : float or "learned", default=1.0
        Width of the RBF kernel between signatures, 1/σ². "learned" optimises the weight and width
        of each view of :class:`~zslearn.signatures.MultiSignatures`, a factor per direction, and
        `alpha` for the squared leave-one-out error of the seen class means; see :ref:`words`.
    alpha : float, default=0.1
        Variance of class means that signatures do not explain, relative to the variance that they
        explain. Ignored if `gamma` is learned.
    seen_weight : float, default=0.3
        Number of independent samples that a sample of a seen class counts as, in (0, 1]. Small
        values suit near-duplicate samples, or classes that differ in covariance: the signature then
        has more influence on the mean of a seen class. Unseen classes do not depend on it.
    few_shot_weight : float, default=0.6
        The same for samples of classes with few samples, in training or from :meth:`add_examples`.
        A search can choose it if its folds contain a few samples of the held-out classes.
    unlabelled_weight : "cv" or float, default="cv"
        The same for an unlabelled image, times the probability that it belongs to the class; used
        by :meth:`adapt`, which leaves the model unchanged with 0. "cv" chooses it for each
        unlabelled set, by what held-out seen classes gain with sets like it. For that, `fit` keeps
        up to 10,000 whitened training images in float16, which are saved with the model, unless it
        is part of a grid. A search can choose it if its folds provide unlabelled images.
    mean_error_weight : float, default=0.0
        Weight of the leave-one-out error of class means in the variance of samples, which is 1
        otherwise: dimensions in which class means are poorly predicted then count less.
    unseen_odds : float, optional
        Prior odds of a class without samples against one with samples. By default estimated on up
        to 10,000 training samples: in turn, each fifth of the seen classes takes the means that all
        other classes predict, and the odds maximise the harmonic mean of its accuracy and that of
        the others. With fewer than ten seen classes, or from statistics alone, it is 4.
    temperature : float, optional
        Divisor of log densities. By default the temperature that maximises the likelihood of up to
        10,000 training samples, scored as if they had not been in the training data, both with
        their classes as seen and as described ones. It is 1 with :meth:`fit_statistics` and
        :meth:`partial_fit`, since statistics cannot tell it.

    Attributes
    ----------
    posterior_ : ClassPosterior
        Everything learned about the space and the classes; methods replace it as a whole.
    exemplars_ : ndarray of shape (n_seen, n_dims)
        Means of the training samples of the seen classes in the whitened space.
    gamma_, alpha_ : float
        The values used. If they are learned, γ is 1 and part of the widths.
    view_weights_ : ndarray of shape (n_views,)
        With gamma="learned": the weights of the views, which sum to one.
    predicted_variances_, observed_variances_ : ndarray of shape (n_dims,)
        Variance of the leave-one-out errors of seen class means as the Gaussian process predicts
        it, and mean of the squared errors. The component that no other class spans is not included,
        as further classes have it outside the space.
    unlabelled_gains_ : dict of str to DataFrame
        After the first :meth:`adapt`: the scores of held-out classes without unlabelled images, and
        the gains by weight and kind of unlabelled set, if only held-out classes are candidates
        ("alone") or "all" classes are. Empty if no classes can be held out.
    adapted_from_ : GaussianEXEM
        After :meth:`adapt`: a copy of the model before, without its own `adapted_from_`.
    adaptation_ : Adaptation
        After :meth:`adapt`: a report of the changes.
    temperature_, unseen_odds_ : float
        The values used, given or estimated.
    statistics_ : ClassStatistics
        After `partial_fit` or `fit_statistics`: statistics of all samples so far.

    See Also
    --------
    EXEM : The paper's method, which predicts points instead of Gaussians.
    zslearn.baselines.GFZSL : Regresses the mean and variance of each feature separately.
    zslearn.metrics.VarianceDisplay : Plots predicted against observed variances.

    Notes
    -----
    A seen class is recognised by its label: without labels :meth:`synthesize` predicts every class
    from its signature alone.

    Examples
    --------
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.synthesis import GaussianEXEM
    >>> data = make_zero_shot(random_state=0)
    >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
    >>> model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes) > 0.5
    True
    >>> probabilities = model.predict_proba(data.X_test_unseen, classes=data.unseen_classes)
    >>> bool(abs(probabilities.sum(axis=1) - 1).max() < 1e-9)
    True
    """

    n_components: int | None = None
    shrinkage: float = 0.5
    gamma: float | str = 1.0
    alpha: float = 0.1
    _: KW_ONLY
    seen_weight: float = 0.3
    few_shot_weight: float = 0.6
    unlabelled_weight: str | float = "cv"
    mean_error_weight: float = 0.0
    unseen_odds: float | None = None
    temperature: float | None = None

    embedding_attributes = ("_space", "_columns")
    keep_views: ClassVar[bool] = True
    learns_from_sums = True
    synthesizes_independently = True
    _uses_labels = True

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ZeroShotClassifier._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "shrinkage": [Interval(Real, 0, 1, closed="right")],
        "gamma": [StrOptions({"learned"}), Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "seen_weight": [Interval(Real, 0, 1, closed="right")],
        "few_shot_weight": [Interval(Real, 0, 1, closed="right")],
        "unlabelled_weight": [StrOptions({"cv"}), Interval(Real, 0, 1, closed="both")],
        "mean_error_weight": [Interval(Real, 0, None, closed="left")],
        "unseen_odds": [Interval(Real, 0, None, closed="neither"), None],
        "temperature": [Interval(Real, 0, None, closed="neither"), None],
    }

    grids: ClassVar[dict[str, Any]] = {
        "paper": {
            "shrinkage": [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
            "gamma": [2.0**k for k in range(-3, 3)],
            "alpha": [0.01, 0.03, 0.1, 0.3, 1.0],
            "seen_weight": [0.3, 0.1, 0.03, 1.0],
            "mean_error_weight": [0.0, 0.3, 1.0, 3.0],
        },
        "fast": [
            {
                "shrinkage": [0.1, 0.3, 0.5, 0.7, 0.9],
                "gamma": [1.0, 0.5, 0.25, 0.125],
                "alpha": [0.1, 0.3, 0.03, 0.01],
                "seen_weight": [0.3, 0.1, 0.03],
            },
            {
                "mean_error_weight": [0.3, 3.0],
                "shrinkage": [0.3, 0.6],
                "gamma": [0.5, 1.0],
                "alpha": [0.1, 0.03],
            },
        ],
    }

    # Fitting

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Fit variants that share statistics, spaces and eigenvectors of kernels."""
        return cls._learn(training, training.sums, variants)

    @classmethod
    def _learn(
        cls, training: Training, statistics: ClassStatistics, variants: Sequence[Self]
    ) -> Iterator[Self]:
        """Learn from class statistics, one space after the other, so that rows embed once."""
        spaces = WhitenedSpaces(training, statistics, [model.n_components for model in variants])
        samples = TrainingSamples(training, spaces.few)
        signatures, few = training.signatures, spaces.few
        kernel_of = cache(partial(SignatureKernel, signatures))
        similarity_of = cache(lambda gamma: kernel_of(gamma).among_seen())

        def effective_sizes(few_shot_weight: float) -> Floats:
            return statistics.sizes * np.where(few, few_shot_weight, 1.0)

        @cache
        def basis_of(gamma: float, alpha: float, few_shot_weight: float) -> tuple[Floats, Floats]:
            return basis(similarity_of(gamma), effective_sizes(few_shot_weight), alpha)

        groups = group_by_params_except(variants, *_INDEPENDENT_OF_PRIOR)
        groups.sort(key=lambda group: (group[0].n_components or 0, group[0].shrinkage))
        for models in groups:
            first = models[0]
            seen = spaces.space(first.n_components, first.shrinkage)
            sizes = effective_sizes(first.few_shot_weight)
            kernel: SignatureKernel
            if first.gamma == "learned":
                kernel, alpha = relevant_kernel(signatures, seen.means, sizes)
                similarity = kernel.among_seen()
                spectrum = basis(similarity, sizes, alpha)
            else:
                kernel, alpha = kernel_of(first.gamma), first.alpha
                similarity = similarity_of(first.gamma)
                spectrum = basis_of(first.gamma, alpha, first.few_shot_weight)
            prior, leave_one_out = ClassPrior.learn(
                kernel, similarity, spectrum, seen.means, sizes, alpha
            )
            own_samples = ClassSamples(statistics.classes, statistics.sizes, seen.means)
            complement = seen.space.complement
            outside = few if complement is not None else np.zeros_like(few)
            centered = seen.centered[outside[few]]
            posterior = ClassPosterior(
                space=seen.space,
                prior=prior,
                classes=statistics.classes,
                few_shot=few,
                exemplars=seen.means,
                leave_one_out=leave_one_out,
                variance_ratio=np.ones(prior.coef.shape[1]),
                axis_weights=np.ones(prior.coef.shape[1]),
                seen_weight=float(first.seen_weight),
                few_shot_weight=float(first.few_shot_weight),
                samples=own_samples,
                orthogonal=ClassSamples(*own_samples.subset(outside)[:2], centered),
                column_labels=statistics.classes[:0],
                columns=centered[:0],
                unlabelled=ClassSamples(statistics.classes[:0], np.empty(0), seen.means[:0]),
                undescribed=statistics.classes[:0],
            )
            posterior = posterior.with_columns(posterior, posterior.orthogonal.labels)
            for model in models:
                model._set_posterior(posterior, seen, samples, keep_images=len(variants) == 1)
                yield model

    def _set_posterior(
        self,
        posterior: ClassPosterior,
        seen: SpaceOfClasses,
        samples: TrainingSamples,
        *,
        keep_images: bool,
    ) -> None:
        """Keep a posterior, completed by what is estimated from training samples."""
        self._trial_images: TrialImages | None = None
        many, sizes = ~posterior.few_shot, posterior.samples.counts
        posterior, self.observed_variances_, self.predicted_variances_ = posterior.calibrated(
            seen.own, self.mean_error_weight
        )
        temperature, odds = self.temperature, self.unseen_odds
        keep_images = keep_images and self.unlabelled_weight == "cv"
        if samples.n and (keep_images or temperature is None or odds is None):
            prior, means = posterior.leave_one_out[many], seen.means[many]
            z = held_out_samples(samples, seen, prior, sizes[many], means, self.seen_weight)
            if keep_images:
                self._trial_images = TrialImages.of(z, np.flatnonzero(many)[samples.y], sizes)
            if temperature is None or odds is None:
                own = prior.given(self.seen_weight * sizes[many], means)
                estimated, estimated_odds = temperature_and_odds(
                    samples, z, seen, prior, own, posterior.axis_weights
                )
                temperature = estimated if temperature is None else temperature
                odds = odds_at(estimated_odds, estimated, temperature) if odds is None else odds
        if temperature is None or odds is None:
            _warn_of_defaults(temperature is None)
            temperature = 1.0 if temperature is None else temperature
            odds = DEFAULT_ODDS if odds is None else odds
        self.posterior_ = replace(
            posterior,
            seen_weight=float(self.seen_weight),
            temperature=float(temperature),
            unseen_odds=float(odds),
        )

    @property
    def exemplars_(self) -> Floats:
        """Means of the training samples of the seen classes."""
        return self.posterior_.exemplars

    @property
    def gamma_(self) -> float:
        """Width of the kernel."""
        return float(self.posterior_.prior.kernel.gamma)

    @property
    def alpha_(self) -> float:
        """Variance of class means that signatures do not explain."""
        return float(self.posterior_.prior.process.alpha)

    @property
    def view_weights_(self) -> Floats:
        """Learned weights of the views."""
        kernel = self.posterior_.prior.kernel
        if not isinstance(kernel, RelevantKernel):
            raise AttributeError('view_weights_ is available with gamma="learned" only.')
        return np.array(kernel.weights)

    @property
    def temperature_(self) -> float:
        """Divisor of log densities."""
        return self.posterior_.temperature

    @property
    def unseen_odds_(self) -> float:
        """Prior odds of classes without samples."""
        return self.posterior_.unseen_odds

    # Labelled samples

    def add_examples(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Update class means with labelled samples of any classes, without a refit.

        The update follows Bayes' rule and does not depend on the order of samples and calls.
        :meth:`fit` and :meth:`partial_fit` discard samples that were added.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Class labels. A class that has no signature, neither in the model nor in `signatures`,
            is known by these samples alone; its prior is that of the seen class means.
        signatures : DataFrame, mapping or MultiSignatures, optional
            Signatures of classes that are not in `classes_`; see :meth:`add_classes`.

        Returns
        -------
        self
            The method, unchanged after an error.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> model = model.add_examples(data.X_test_unseen[:3], data.y_test_unseen[:3])
        """
        labels, prepared = self._labelled_samples(X, y)

        def add(changed: Self) -> None:
            described, before = changed._described, changed.posterior_
            tables = described.tables
            if signatures is not None:
                tables = tables.added(SignatureTable.from_new(signatures, tables))
            undescribed = np.unique(labels[tables.find(labels) < 0])
            if len(undescribed):
                tables.check_labels(undescribed, "y names")
                tables = tables.added(tables.first.undescribed(undescribed))
            changed.posterior_ = before.with_samples(prepared, labels, undescribed)
            if tables is not described.tables:
                changed._describe(tables.table)
                return
            if len(changed.posterior_.columns) > len(before.columns):
                parameters = changed.posterior_.realigned(described.parameters, before)
                described = type(described)(described.table, parameters)
            # The parameters of all other classes stay the same.
            classes = np.unique(labels)
            table = described.tables.subset(described.tables.find(classes))
            made = changed.synthesize(changed._normalized(table), classes)
            changed._described = described.with_classes(table, made)

        return self._change(add)

    def remove_examples(self, X: Any, y: Any) -> Self:
        """Undo :meth:`add_examples` for some of its samples, up to rounding.

        An adaptation to unlabelled images stays as it is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features that were passed to :meth:`add_examples`.
        y : array-like of shape (n_samples,)
            The labels that were passed with them.

        Returns
        -------
        self
            The method, unchanged after an error.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> model = model.add_examples(data.X_test_unseen[:3], data.y_test_unseen[:3])
        >>> model = model.remove_examples(data.X_test_unseen[:1], data.y_test_unseen[:1])
        """
        labels, prepared = self._labelled_samples(X, y)

        def remove(changed: Self) -> None:
            samples = changed.posterior_.samples
            counts = dict(zip(samples.labels.tolist(), samples.counts.tolist(), strict=True))
            removed = Counter(labels.tolist())
            if lacking := [label for label, n in removed.items() if n > counts.get(label, 0)]:
                raise ValueError(
                    f"Fewer samples of {name_some(lacking)} were added than are to be removed. "
                    "Pass samples that were passed to add_examples."
                )
            changed.posterior_ = changed.posterior_.without_samples(prepared, labels)
            remaining = changed.posterior_.samples.labels
            if unknown := np.setdiff1d(changed.posterior_.undescribed, remaining).tolist():
                raise ValueError(
                    f"{name_some(unknown)} has no signature and would have no samples. Call "
                    "remove_classes to remove the class."
                )
            table = changed._described.table
            changed._describe(table, checked=True)

        return self._change(remove)

    def _labelled_samples(self, X: Any, y: Any) -> tuple[NDArray[Any], Floats]:
        """Labels of the type of `classes_`, and prepared features."""
        check_is_fitted(self)
        if is_streamed(X):
            raise needs_rows(self, X)
        X, labels = self._check_features(X), sample_labels(y)
        check_consistent_length(X, labels)
        labels = labels_like(labels, self.classes_, "y", "the fitted classes")
        return labels, np.asarray(to_numpy(self._prepare(X).whole()), dtype=np.float64)

    def suggest(self, X_pool: Any, n: int = 10, *, classes: Any = None) -> Suggestions:
        """Suggest which unlabelled images to label next, and what would help each class.

        Images are ranked by the expected gain of accuracy over the other images of the pool. Later
        suggestions take the earlier ones into account, so that they show different classes.

        Parameters
        ----------
        X_pool : array-like of shape (n_samples, n_features)
            Features of unlabelled images: an array of any library, a
            :class:`~zslearn.datasets.FeatureBlocks` or a dask array. Of more than 5,000 images,
            5,000 are considered, evenly spaced by predicted class and probability.
        n : int, default=10
            Number of images to suggest; all images if there are fewer.
        classes : array-like of labels, optional
            Classes that the images may show; by default every class in `classes_`.

        Returns
        -------
        Suggestions
            Rows of `X_pool` in order of their value, and a table of the classes.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> found = model.suggest(data.X_test_unseen, n=3, classes=data.unseen_classes)
        >>> model = model.add_examples(
        ...     data.X_test_unseen[found.rows], data.y_test_unseen[found.rows]
        ... )
        """
        check_is_fitted(self)
        state = self._snapshot()
        return state._suggest(X_pool, n, classes, state.class_scorer_)

    def _suggest(self, X: Any, n: int, classes: Any, scorer: ClassScorer) -> Suggestions:
        """Suggest images, with the calibration of a wrapper."""
        if is_streamed(X):
            X = self._check_stream(X)
        elif is_empty(X):
            X = np.empty((0, self.n_features_in_))
        else:
            X = self._check_features(X)
        return suggest(self, X, n, classes, scorer)

    # Unlabelled samples

    def adapt(self, X: Any, *, classes: Any = None, accept: str | bool = "cv") -> Self:
        """Adapt class means to unlabelled images.

        The images may show the candidates in any proportion, or none of them. An adapted model
        accepts labelled samples and further classes like any other. Adapting it again replaces the
        first adaptation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features: an array of any library, a :class:`~zslearn.datasets.FeatureBlocks` or a
            dask array, which are read several times, one block at a time.
        classes : array-like of labels, optional
            Classes that the images may belong to; by default every class in `classes_`.
        accept : "cv" or True, default="cv"
            "cv" uses the images only if held-out seen classes gain by unlabelled sets that look
            like this one, and warns otherwise. The first call tries several kinds of sets, and the
            results are kept. With True, or with a number as `unlabelled_weight`, the images are
            always used.

        Returns
        -------
        GaussianEXEM
            An adapted copy, with `adaptation_` and `adapted_from_`; this model is unchanged.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(n_seen=40, random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> adapted = model.adapt(data.X_test_unseen, classes=data.unseen_classes)
        >>> adapted.adaptation_.accepted
        True
        """
        check_is_fitted(self)
        state = self._snapshot()
        table, posterior = state._described.table, state.posterior_.without_unlabelled()
        candidates = table.labels
        if classes is not None:
            candidates = candidates[np.sort(find_classes(classes, candidates))]
        trial, is_new = None, posterior.is_orthogonal(candidates)
        setting, measure = ("alone", "accuracy") if is_new.all() else ("all", "harmonic mean")
        if state._trial_images is not None:
            trial = state._trial_images.trial(posterior, setting, state.mean_error_weight)
        signatures = state._normalized(table.subset(table.positions(candidates)))
        assign = partial(
            posterior.assigned,
            partial(state._whitened_blocks, X, int(is_new.sum())),
            signatures,
            candidates,
            background=None if trial is None else trial.background,
        )
        given = None if state.unlabelled_weight == "cv" else float(state.unlabelled_weight)
        # A rejected adaptation is reported at the default weight.
        assignment = assign(first := given or DEFAULT_UNLABELLED_WEIGHT)
        expectation = None if trial is None else trial.expectation(assignment)
        weight = accepted_weight(expectation, accept, given, measure=measure)
        if weight not in (0.0, first):
            assignment = assign(weight)
        posterior_after = posterior.with_unlabelled(candidates, assignment, weight)
        adapted = state._with_posterior(posterior_after)
        start, end = (
            part.gaussians(signatures, candidates)[0].means for part in (posterior, posterior_after)
        )
        proportions = np.zeros(len(candidates)) if assignment is None else assignment.proportions
        adaptation = Adaptation(
            accepted=bool(weight),
            weight=weight,
            score_before=None if expectation is None else expectation.before,
            score_after=None if expectation is None else expectation.after,
            n_samples=0 if assignment is None else assignment.n,
            background_share=0.0 if assignment is None else assignment.unexplained,
            moved=pd.Series(np.sqrt(((end - start) ** 2).sum(axis=1)), candidates),
            proportions=pd.Series(proportions, candidates),
        )
        return adapted._with(adapted_from_=without_history(state), adaptation_=adaptation)

    def _adapted_to(self, rows: EmbeddedRows, classes: NDArray[Any]) -> Self:
        """Adapt within a search, which embeds rows once and needs no report."""
        table, posterior, weight = self._described.table, self.posterior_, self.unlabelled_weight
        table = table.subset(table.positions(np.sort(classes)))
        weight = DEFAULT_UNLABELLED_WEIGHT if weight == "cv" else float(weight)
        n_columns = int(posterior.is_orthogonal(table.labels).sum())
        blocks, signatures = list(self._whitened_blocks(rows.X, n_columns)), self._normalized(table)
        assignment = posterior.assigned(lambda: blocks, signatures, table.labels, weight)
        return self._with_posterior(posterior.with_unlabelled(table.labels, assignment, weight))

    def _with_posterior(self, posterior: ClassPosterior) -> Self:
        """A copy with another posterior."""
        other = self._with(posterior_=posterior)
        other._describe(self._described.table)
        return other._as_fitted()

    def _whitened_blocks(self, X: Any, n_columns: int) -> Iterable[Array]:
        """The `unlabelled_rows` of images, one block at a time."""
        if is_streamed(X):
            blocks = read_blocks(self._check_stream(X))
        elif is_empty(X):
            return
        else:
            X = self._check_features(X)
            row_bytes = 8 * (3 * X.shape[1] + 4 * (len(self.classes_) + self.posterior_.n_dims))
            blocks = (X[rows, :] for rows in row_blocks(X.shape[0], row_bytes, block_budget(X)))
        for rows in blocks:
            yield self.posterior_.unlabelled_rows(self._prepare(rows).whole(), n_columns)

    @property
    def unlabelled_gains_(self) -> dict[str, pd.DataFrame]:
        """What held-out classes gained by unlabelled images."""
        trials = {} if self._trial_images is None else self._trial_images.trials
        return {setting: trial.table() for setting, trial in trials.items()}

    # Classes and scores

    def _remove(self, labels: NDArray[Any]) -> None:
        """Remove classes with their samples."""
        before = self.posterior_
        self.posterior_ = before.without_classes(labels)
        if len(self.posterior_.columns) == len(before.columns):
            super()._remove(labels)
        else:
            # The embedding has fewer columns, and every class fewer parameters.
            table = self._described.without(labels).table
            self._describe(table, checked=True)

    def _signatures_so_far(self) -> SignatureTable:
        table = super()._signatures_so_far()
        return table.subset(np.flatnonzero(~is_among(table.labels, self.posterior_.undescribed)))

    @property
    def _space(self) -> Any:
        return self.posterior_.space

    @property
    def _columns(self) -> Any:
        return self.posterior_.columns if len(self.posterior_.columns) else None

    def embed(self, X: Array) -> Array:
        """Whitened samples z as (z, e, 1), where e relate to classes with few samples.

        e are the products, orthogonally to the space, with the means of these classes.
        """
        return self.posterior_.embed(X)

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Array:
        """Natural parameters of each class, divided by the temperature, with its log prior."""
        return self.posterior_.parameters(signatures, labels)

    def whiten(self, X: Any) -> Array:
        """Transform image features to the whitened space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.

        Returns
        -------
        array of shape (n_samples, n_dims)
            Samples of a class have unit variance around the mean of the class.
        """
        check_is_fitted(self)
        return self.posterior_.space(self._prepare(self._check_features(X)).whole())

    def class_gaussians(self) -> tuple[Floats, Floats]:
        """Posterior of the mean of each described class in the whitened space.

        Returns
        -------
        means, variances : ndarray of shape (n_classes, n_dims)
            Rows follow `classes_`. A sample of the class adds a variance of 1.
        """
        check_is_fitted(self)
        table = self._described.table
        gaussians, _ = self.posterior_.gaussians(self._normalized(table), table.labels)
        return gaussians.means, gaussians.variances

    def _check_views(self, table: SignatureTable) -> None:
        """Accept classes without some views: the kernel compares the views that both have."""

    def _image_space(self) -> Embedding:
        # Unlike `embed`, it does not change with the examples of other classes.
        return Embedding(self.posterior_.space, (self.feature_norm,))

    def _has_temperature(self) -> bool:
        return True

    def _scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        # The parameters are already divided by the temperature.
        return super()._scorer(labels, parameters).at_temperature(1.0)


def without_history(model: GaussianEXEM) -> GaussianEXEM:
    """An adapted model without its own `adapted_from_`."""
    if not hasattr(model, "adapted_from_"):
        return model
    copied = model._copy()
    attributes = model._fitted.attributes
    copied._fitted = Fitted({k: v for k, v in attributes.items() if k != "adapted_from_"})
    return copied


def _warn_of_defaults(of_temperature: bool) -> None:
    """Warn of values that statistics cannot tell."""
    what = (
        "the temperature of GaussianEXEM, which is set to 1. Pass temperature= and unseen_odds=, "
        "for example temperature_ and unseen_odds_ of a model fitted on samples."
        if of_temperature
        else f"the odds of unseen classes, which are set to {DEFAULT_ODDS:g}. Pass unseen_odds=, "
        "for example unseen_odds_ of a model fitted on samples."
    )
    warn_once(f"Statistics do not tell {what}")
