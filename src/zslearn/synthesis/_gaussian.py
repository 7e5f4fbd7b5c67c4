r"""Gaussian exemplars: the mean of each class, and how sure it is, from signatures and samples.

EXEM predicts one point per class. Here each class is a Gaussian: features are whitened by the
pooled covariance within the seen classes (`_whitened_space`), the mean of a class is a Gaussian
process over the signatures (`_gaussian_process`), and samples of a class, labelled or not, update
it (`_class_posterior`). Scores are log probabilities, at a temperature and with odds of unseen
classes that are found on training samples (`_temperature`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from zslearn._scoring._embedding import EmbeddedRows, Embedding
from zslearn._scoring._scorer import ClassScorer, find_classes, is_among
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
from zslearn.base._streams import needs_rows, read_blocks
from zslearn.base._training import Training
from zslearn.calibration._folds import USUAL_UNLABELLED_WEIGHT
from zslearn.calibration._unlabelled import (
    UNLABELLED_WEIGHTS,
    Adaptation,
    WeightChoice,
    accepted_weight,
    without_history,
)
from zslearn.signatures._table import SignatureTable, labels_like, sample_labels
from zslearn.signatures._views import Signatures
from zslearn.synthesis._adaptation_trial import KeptImages
from zslearn.synthesis._class_posterior import ClassPosterior, ClassSamples
from zslearn.synthesis._from_statistics import LearnsFromStatistics
from zslearn.synthesis._gaussian_process import ClassPrior, SignatureKernel, basis
from zslearn.synthesis._relevance import RelevantKernel, relevant_kernel
from zslearn.synthesis._temperature import (
    USUAL_ODDS,
    TrainingSamples,
    odds_at,
    temperature_and_odds,
)
from zslearn.synthesis._whitened_space import SpaceOfClasses, WhitenedSpaces

# So many classes would have to agree with the ratio over all dimensions to halve its weight.
_RATIO_CLASSES = 10
# Settings that differ in these alone share a space and a process.
_AFTER_THE_PROCESS = (
    "seen_weight", "unlabelled_weight", "mean_error_weight", "unseen_odds", "temperature",
)  # fmt: skip


@inherit_docs
@saves(
    {
        "posterior_.space.matrix": Saved("n_features", "n_dims"),
        "posterior_.exemplars": Saved("n_seen", "n_dims"),
        "posterior_.beyond.means": Saved("n_beyond", "n_features"),
        "posterior_.columns": Saved("n_beyond", "n_features"),
        "_kept.scaled": Saved("n_kept", "n_features"),
        "_kept.y": Saved("n_kept", kind="int", least=0, into="n_seen"),
    },
    posterior_=Saved(kind=ClassPosterior),
    predicted_variances_=Saved("n_dims", least=0),
    observed_variances_=Saved("n_dims", least=0),
    _kept=Saved(kind=KeptImages, optional=True),
    adapted_from_=Saved(kind=ZeroShotClassifier, optional=True),
    adaptation_=Saved(kind=Adaptation, optional=True),
)
class GaussianEXEM(LearnsFromStatistics):
    r"""Gaussian exemplars: predict the mean of each class, and how sure that prediction is.

    Features are whitened by the covariance within the seen classes. There the mean of a class
    follows a Gaussian process over the signatures; that of a seen class also follows its own
    samples. All is linear algebra on the statistics of the classes: a model of 150 classes is
    learned in a second. The scores are log probabilities, and :meth:`predict_proba` needs no
    wrapper.

    Parameters
    ----------
    n_components : int or None, default=None
        Principal components of the samples that are whitened; None takes the features as they are.
        More than the samples have are clipped, with a warning.
    shrinkage : float, default=0.5
        ρ in (0, 1]: share of the mean variance in the covariance within classes. With 1 all
        directions count the same.
    gamma : float or "learned", default=1.0
        Width of the RBF kernel between signatures, 1/σ². "learned" finds the weight and the width
        of each view of :class:`~zslearn.signatures.MultiSignatures`, a factor for each direction of
        its vectors, and `alpha`, by the squared error of seen class means that all other classes
        predict; see :ref:`words`.
    alpha : float, default=0.1
        Variance of what the signature does not tell of a class mean, in units of the variance of
        what it tells. Not used where `gamma` is learned.
    seen_weight : float, default=0.3
        How many independent samples a sample of a seen class counts for, in (0, 1]. Less than 1
        where samples are near copies of one another, or classes differ in covariance: its signature
        then counts for more in the mean of a seen class. Unseen classes do not depend on it.
    few_shot_weight : float, default=0.6
        The same for a sample of a class with few samples, in training or by :meth:`add_examples`.
        A search finds it where its folds give back some samples of the held-out classes.
    unlabelled_weight : "cv" or float, default="cv"
        The same for an unlabelled image, times the probability that it is of the class; used by
        :meth:`adapt` alone, which leaves the model as it is with 0. "cv" chooses it at the first
        :meth:`adapt`, on held-out seen classes. `fit` keeps the features of about 10,000 training
        images in float16 for that, which are saved with the model; with a number it keeps none, nor
        do the fits of a grid. A search chooses it where its folds give the images of held-out
        classes without labels.
    mean_error_weight : float, default=0.0
        How much of the error of predicted class means is added to the variance of samples, which is
        1: a dimension in which the mean of a class is far from what the other classes predict then
        counts for less. The error is the squared one, averaged over the seen classes, each
        predicted by the others.
    unseen_odds : float, optional
        How much likelier a class without samples is than one with samples, before the sample is
        looked at; 1: they are equally likely. By default estimated on a thousand training samples
        at most: each fifth of the seen classes in turn has the means that all other classes
        predict, and the odds that balance it with the others are drawn halfway to 4, the ratio in
        five folds over classes. With fewer than ten seen classes, or from statistics alone, it is
        4.
    temperature : float, optional
        What log densities are divided by. By default the temperature under which the labels of
        a thousand training samples at most are likeliest, each scored without itself. Statistics
        alone do not tell it: with :meth:`fit_statistics` and :meth:`partial_fit` it is then 1.

    Attributes
    ----------
    posterior_ : ClassPosterior
        All that was learned of the space and of the classes; methods replace it as a whole.
    exemplars_ : ndarray of shape (n_seen, n_dims)
        Means of the training samples of the seen classes, in the whitened space.
    gamma_, alpha_ : float
        Those used; where they are learned, γ is 1 and in the widths.
    view_weights_ : ndarray of shape (n_views,)
        With gamma="learned": the weights of the views, of sum one.
    predicted_variances_, observed_variances_ : ndarray of shape (n_dims,)
        What the process states for the distance of a seen class's mean from what the other classes
        predict, and the squared distances, both averaged over the classes. The direction that no
        other class spans does not count: what a further class has there lies beyond the space.
    unlabelled_choices_ : dict of str to WeightChoice
        For candidates without labelled images "alone", and for "all" classes: the weight of
        unlabelled images that held-out classes choose, 0 where they lose by it, and their score
        without and with it. The first :meth:`adapt` finds it. Empty where nothing can be held out.
    adapted_from_ : GaussianEXEM
        After :meth:`adapt`: the model that was adapted, as it was then, without the model that it
        had been adapted from in turn.
    adaptation_ : Adaptation
        After :meth:`adapt`: what the images did.
    temperature_, unseen_odds_ : float
        Those used: given, or found on training samples.
    statistics_ : ClassStatistics
        After `partial_fit` or `fit_statistics`: what is known of the samples so far.

    See Also
    --------
    EXEM : Points in place of Gaussians; the paper's.
    zslearn.baselines.GFZSL : Regresses means and variances of features, one by one.
    zslearn.metrics.VarianceDisplay : Shows the variances that are stated and those that are found.

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

    embedding_attributes = ("_space", "_columns")
    keep_views: ClassVar[bool] = True
    learns_from_sums = True
    synthesizes_independently = True

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

    def __init__(
        self,
        n_components: int | None = None,
        shrinkage: float = 0.5,
        gamma: float | str = 1.0,
        alpha: float = 0.1,
        *,
        seen_weight: float = 0.3,
        few_shot_weight: float = 0.6,
        unlabelled_weight: str | float = "cv",
        mean_error_weight: float = 0.0,
        unseen_odds: float | None = None,
        temperature: float | None = None,
        feature_norm: str | None = "l2",
        signature_scale: str | float = "seen",
    ) -> None:
        self.n_components = n_components
        self.shrinkage = shrinkage
        self.gamma = gamma
        self.alpha = alpha
        self.seen_weight = seen_weight
        self.few_shot_weight = few_shot_weight
        self.unlabelled_weight = unlabelled_weight
        self.mean_error_weight = mean_error_weight
        self.unseen_odds = unseen_odds
        self.temperature = temperature
        self.feature_norm = feature_norm
        self.signature_scale = signature_scale

    # Learning.

    posterior_: ClassPosterior
    _kept: KeptImages | None

    @classmethod
    def _fit_many(cls, training: Training, variants: Sequence[Self]) -> Iterator[Self]:
        """Statistics, whitening and eigenvectors of kernels are shared."""
        for model in cls._learn(training, training.sums, variants):
            if len(variants) == 1 and model.unlabelled_weight == "cv" and len(training.y):
                model._kept = KeptImages.of(training)
            yield model

    @classmethod
    def _learn(
        cls, training: Training, statistics: ClassStatistics, variants: Sequence[Self]
    ) -> Iterator[Self]:
        """Learn from statistics of the samples; a space at a time, so that rows embed once."""
        spaces = WhitenedSpaces(training, statistics, [model.n_components for model in variants])
        samples = TrainingSamples(training, spaces.few)
        signatures = training.signatures
        kernel_of = cache(partial(SignatureKernel, signatures))
        similarity = cache(lambda gamma: kernel_of(gamma).among_seen())

        @cache
        def first_basis(gamma: float, alpha: float, weight: float) -> tuple[Floats, Floats]:
            return basis(similarity(gamma), _worth(weight), alpha)

        def _worth(few_shot_weight: float) -> Floats:
            return statistics.sizes * np.where(spaces.few, few_shot_weight, 1.0)

        same_process = group_by_params_except(variants, *_AFTER_THE_PROCESS)
        for models in sorted(same_process, key=lambda m: (m[0].n_components or 0, m[0].shrinkage)):
            first = models[0]
            seen = spaces.space(first.n_components, first.shrinkage)
            sizes = _worth(first.few_shot_weight)
            kernel: SignatureKernel
            if first.gamma == "learned":
                kernel, alpha = relevant_kernel(signatures, seen.means, sizes)
                among = kernel.among_seen()
                found = basis(among, sizes, alpha)
            else:
                kernel, alpha = kernel_of(first.gamma), first.alpha
                among = similarity(first.gamma)
                found = first_basis(first.gamma, alpha, first.few_shot_weight)
            prior, left_out = ClassPrior.learn(kernel, among, found, seen.means, sizes, alpha)
            empty = ClassSamples(statistics.classes[:0], np.empty(0), seen.means[:0])
            few = spaces.few
            own = ClassSamples(statistics.classes, statistics.sizes, seen.means)
            # Without directions beyond the space there is nothing to know of them.
            outside = few if seen.space.beyond is not None else np.zeros_like(few)
            centered = seen.centered[outside[few]]
            known = ClassPosterior(
                space=seen.space,
                prior=prior,
                classes=statistics.classes,
                few=few,
                exemplars=seen.means,
                left_out=left_out,
                variance_ratio=np.ones(prior.coef.shape[1]),
                axis_weights=np.ones(prior.coef.shape[1]),
                seen_weight=float(first.seen_weight),
                few_shot_weight=float(first.few_shot_weight),
                samples=own,
                beyond=ClassSamples(*own.chosen(outside)[:2], centered),
                columns=seen.space.columns(centered) if outside.any() else centered,
                unlabelled=empty,
                undescribed=statistics.classes[:0],
            )
            for model in models:
                model._set_posterior(known, seen, samples)
                yield model

    def _set_posterior(
        self, known: ClassPosterior, seen: SpaceOfClasses, samples: TrainingSamples
    ) -> None:
        """Keep a posterior, with what is estimated on the seen classes under this setting."""
        self._kept = None
        many, sizes = ~known.few, known.samples.counts
        left_out = known.left_out[many]
        errors = seen.means[many] - left_out.means
        # The direction that a class alone spans: of a further class, this lies beyond the space.
        inside = errors - (errors * seen.own).sum(axis=1, keepdims=True) * seen.own
        self.observed_variances_ = (inside**2).mean(axis=0)
        self.predicted_variances_ = (left_out.variances + 1 / sizes[many, None]).mean(axis=0)
        axis_weights = 1 / (1 + self.mean_error_weight * (errors**2).mean(axis=0))
        temperature, odds = self.temperature, self.unseen_odds
        if temperature is None or odds is None:
            if samples.n:
                found, odds_found = temperature_and_odds(
                    samples,
                    samples.inside(seen.space),
                    left_out,
                    sizes[many],
                    seen.means[many],
                    axis_weights,
                    self.seen_weight,
                )
                temperature = found if temperature is None else temperature
                # Found at the temperature that the samples tell, whichever is used.
                odds = odds_at(odds_found, found, temperature) if odds is None else odds
            else:
                _warn_of_defaults(temperature is None)
                temperature = 1.0 if temperature is None else temperature
                odds = USUAL_ODDS if odds is None else odds
        self.posterior_ = replace(
            known,
            seen_weight=float(self.seen_weight),
            variance_ratio=_confirmed_ratio(
                self.observed_variances_, self.predicted_variances_, len(errors)
            ),
            axis_weights=axis_weights,
            temperature=float(temperature),
            unseen_odds=float(odds),
        )

    @property
    def exemplars_(self) -> Floats:
        """Means of the training samples of the seen classes."""
        return self.posterior_.exemplars

    @property
    def gamma_(self) -> float:
        """The width of the kernel."""
        return float(self.posterior_.prior.kernel.gamma)

    @property
    def alpha_(self) -> float:
        """The variance of what signatures do not tell."""
        return float(self.posterior_.prior.process.alpha)

    @property
    def view_weights_(self) -> Floats:
        """The learned weights of the views."""
        kernel = self.posterior_.prior.kernel
        if not isinstance(kernel, RelevantKernel):
            raise AttributeError('Only gamma="learned" finds weights of views.')
        return np.array(kernel.weights)

    @property
    def temperature_(self) -> float:
        """The temperature."""
        return self.posterior_.temperature

    @property
    def unseen_odds_(self) -> float:
        """The odds of a class without samples."""
        return self.posterior_.unseen_odds

    # Samples that come later.

    def add_examples(self, X: Any, y: Any, *, signatures: Any = None) -> Self:
        """Take in labelled samples of any classes, without learning anything else again.

        Each moves the mean of its class, from what the signature says of it, as Bayes' rule asks.
        The order of samples and calls does not matter. :meth:`fit` and :meth:`partial_fit` begin
        without what was added.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.
        y : array-like of shape (n_samples,)
            Their labels. A class that is neither described nor in `signatures` is known by these
            samples alone: before them, its mean is like those of the seen classes.
        signatures : DataFrame, mapping or MultiSignatures, optional
            Signatures of classes that are not in `classes_`; see :meth:`add_classes`.

        Returns
        -------
        self
            The method. After an error it is as it was.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> model = model.add_examples(data.X_test_unseen[:3], data.y_test_unseen[:3])
        """
        given, prepared = self._labelled_samples(X, y)

        def add(changed: Self) -> None:
            table = known = changed._described.table
            before = changed.posterior_
            if signatures is not None:
                table = table.union(SignatureTable.from_new(signatures, table))
            unknown = np.setdiff1d(given, table.labels)
            table = table.with_undescribed(unknown)
            changed.posterior_ = before.with_samples(prepared, given, unknown)
            if len(table.labels) > len(known.labels):
                changed._describe(table)
                return
            # Only the classes of these samples have other parameters.
            rows = table.positions(np.unique(given))
            parameters = changed.posterior_.moved_from(before, changed._described.parameters)
            parameters[rows] = changed.synthesize(
                changed._normalized(table.subset(rows)), table.labels[rows]
            )
            changed._described = type(changed._described)(table, parameters)

        return self._change(add)

    def remove_examples(self, X: Any, y: Any) -> Self:
        """Take back labelled samples that :meth:`add_examples` took in.

        The model is as if they had never been added, up to rounding. An adaptation to unlabelled
        images that was made in between stays as it is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features that were given to :meth:`add_examples`.
        y : array-like of shape (n_samples,)
            The labels that were given with them.

        Returns
        -------
        self
            The method. After an error it is as it was.

        Examples
        --------
        >>> from zslearn.datasets import make_zero_shot
        >>> from zslearn.synthesis import GaussianEXEM
        >>> data = make_zero_shot(random_state=0)
        >>> model = GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)
        >>> model = model.add_examples(data.X_test_unseen[:3], data.y_test_unseen[:3])
        >>> model = model.remove_examples(data.X_test_unseen[:1], data.y_test_unseen[:1])
        """
        given, prepared = self._labelled_samples(X, y)

        def remove(changed: Self) -> None:
            known = changed.posterior_.samples
            counts = dict(zip(known.labels.tolist(), known.counts.tolist(), strict=True))
            if lacking := [c for c, n in Counter(given.tolist()).items() if n > counts.get(c, 0)]:
                raise ValueError(
                    f"Fewer samples of {name_some(lacking)} were added than are to be removed: "
                    "give samples that add_examples was given."
                )
            changed.posterior_ = changed.posterior_.without_samples(prepared, given)
            left = changed.posterior_
            if gone := np.setdiff1d(left.undescribed, left.samples.labels).tolist():
                raise ValueError(
                    f"{name_some(gone)} would be known by nothing: such a class can be "
                    "removed as a whole (remove_classes)."
                )
            table = changed._described.table
            changed._describe(table, changed._normalized(table))

        return self._change(remove)

    def _labelled_samples(self, X: Any, y: Any) -> tuple[NDArray[Any], Floats]:
        """Labels like those of the model, and prepared features."""
        check_is_fitted(self)
        if is_streamed(X):
            raise needs_rows(self, X)
        X, given = self._check_features(X), sample_labels(y)
        check_consistent_length(X, given)
        given = labels_like(given, self.classes_, "y", "the fitted classes")
        return given, np.asarray(to_numpy(self._prepare(X).whole()), dtype=np.float64)

    def adapt(self, X: Any, *, classes: Any = None, accept: str | bool = "cv") -> Self:
        """Adapt the means of classes to unlabelled images.

        The images may be of any of the candidates, in any proportion, and of none of them. An
        adapted model takes in labelled samples and describes further classes as any other, without
        looking at the images again; adapting it to other images begins with what was known before
        the first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features: an array of any library, a :class:`~zslearn.datasets.FeatureBlocks` or a
            dask array, which are read three times, a block at a time.
        classes : array-like of labels, optional
            Candidates that the images may be of; by default every class in `classes_`.
        accept : "cv" or True, default="cv"
            "cv" uses the images only if seen classes that are held out gain by theirs; a warning
            reports where they do not. The first call tries it, and its result is kept. With True,
            or a number as `unlabelled_weight`, the images are always used.

        Returns
        -------
        GaussianEXEM
            An adapted copy, with `adaptation_` and `adapted_from_`; this model stays as it is.

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
        table = state._described.table
        candidates = table.labels
        if classes is not None:
            candidates = candidates[np.sort(find_classes(classes, candidates))]
        known = state.posterior_.without_unlabelled()
        with_seen = is_among(candidates, known.classes[~known.few]).any()
        choice = state._trial_choices().get("all" if with_seen else "alone")
        given = None if state.unlabelled_weight == "cv" else float(state.unlabelled_weight)
        weight = accepted_weight(choice, accept, given)
        signatures = state._normalized(table.subset(table.positions(candidates)))
        sums = known.unlabelled_sums(
            partial(state._whitened_blocks, X),
            signatures,
            candidates,
            weight or UNLABELLED_WEIGHTS[0],
        )
        adapted = state._with_posterior(known.with_unlabelled(candidates, sums, weight), table)
        adaptation = Adaptation.of(
            choice,
            weight,
            0 if sums is None else sums.n,
            0.0 if sums is None else 1 - sums.explained / sums.n,
            labels=candidates,
            start=known.gaussians(signatures, candidates)[0].means,
            end=adapted.posterior_.gaussians(signatures, candidates)[0].means,
            counts=np.zeros(len(candidates)) if sums is None else sums.counts,
        )
        return adapted._with(adapted_from_=without_history(state), adaptation_=adaptation)

    def _adapted_to(self, rows: EmbeddedRows, classes: NDArray[Any]) -> Self:
        """As :meth:`adapt`, for a search: rows are embedded once, and nothing is reported."""
        table, known = self._described.table, self.posterior_
        described = table.subset(table.positions(np.sort(classes)))
        weight = self.unlabelled_weight
        weight = USUAL_UNLABELLED_WEIGHT if weight == "cv" else float(weight)
        z = rows.embedded_by(self._embedding())[:, : known.n_dims]
        labels, signatures = described.labels, self._normalized(described)
        sums = known.unlabelled_sums(lambda: [z], signatures, labels, weight)
        return self._with_posterior(known.with_unlabelled(labels, sums, weight), table)

    def _with_posterior(self, posterior: ClassPosterior, table: SignatureTable) -> Self:
        """A copy that knows something else of the classes."""
        other = self._with(posterior_=posterior)
        other._describe(table)
        return other._as_fitted()

    def _whitened_blocks(self, X: Any) -> Iterable[Array]:
        """Images in the whitened space, a block at a time."""
        if is_streamed(X):
            blocks = read_blocks(self._check_stream(X))
        elif is_empty(X):
            return
        else:
            X = self._check_features(X)
            row_bytes = 8 * (X.shape[1] + 4 * (len(self.classes_) + self.posterior_.n_dims))
            blocks = (X[rows, :] for rows in row_blocks(X.shape[0], row_bytes, block_budget(X)))
        for rows in blocks:
            yield self.posterior_.space(self._prepare(rows).whole())

    @property
    def unlabelled_choices_(self) -> dict[str, WeightChoice]:
        """What held-out classes chose in the trial that the first `adapt` makes."""
        if self._kept is None:
            return {}
        if self._kept.choices is None:
            # Not computed here: notebooks read every attribute of what they show.
            raise AttributeError("unlabelled_choices_ is there once adapt was called.")
        return self._kept.choices

    def _trial_choices(self) -> dict[str, WeightChoice]:
        """The same; the trial is made if there was none yet."""
        return {} if self._kept is None else self._kept.trial(self, self._described.table)

    def _remove(self, labels: NDArray[Any], kept: NDArray[np.intp]) -> None:
        """Drop the samples of some classes, labelled ones and those that were taken for theirs."""
        before = self.posterior_
        self.posterior_ = before.without(labels)
        if len(self.posterior_.columns) == len(before.columns):
            super()._remove(labels, kept)
        else:
            # Fewer columns of the embedding are fewer parameters of every class.
            table = self._described.table.subset(kept)
            self._describe(table, self._normalized(table))

    def _signatures_so_far(self) -> SignatureTable:
        table = super()._signatures_so_far()
        return table.subset(np.flatnonzero(~is_among(table.labels, self.posterior_.undescribed)))

    # What scores are made of.

    @property
    def _space(self) -> Any:
        return self.posterior_.space

    @property
    def _columns(self) -> Any:
        return self.posterior_.columns if len(self.posterior_.columns) else None

    def embed(self, X: Array) -> Array:
        """Whitened samples z as (z, e, 1).

        e are their products with what lies beyond the space of the means of classes with few
        samples, of which there may be none.
        """
        return self.posterior_.embed(X)

    def synthesize(self, signatures: Signatures, labels: NDArray[Any] | None = None) -> Array:
        """Natural parameters of each class's Gaussian, over the temperature, with its log prior."""
        return self.posterior_.parameters(signatures, labels)

    def whiten(self, X: Any) -> Array:
        """Image features in the whitened space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Image features.

        Returns
        -------
        array of shape (n_samples, n_dims)
            In it samples of a class have unit variance around the mean of the class.
        """
        check_is_fitted(self)
        return self.posterior_.space(self._prepare(self._check_features(X)).whole())

    def class_gaussians(self) -> tuple[Floats, Floats]:
        """What is known of the mean of each described class, in the whitened space.

        Returns
        -------
        means, variances : ndarray of shape (n_classes, n_dims)
            Rows follow `classes_`. A sample of the class adds a variance of 1.
        """
        check_is_fitted(self)
        table = self._described.table
        found, _ = self.posterior_.gaussians(self._normalized(table), table.labels)
        return found.means, found.variances

    def _check_views(self, table: SignatureTable) -> None:
        """Classes may lack views: the kernel compares those that both have."""

    def _image_space(self) -> Embedding:
        # The columns e of `embed` change with the examples of other classes.
        return Embedding(self.posterior_.space, (self.feature_norm,))

    def _has_temperature(self) -> bool:
        return True

    def _scorer(self, labels: NDArray[Any], parameters: Array) -> ClassScorer:
        # Parameters are divided by the temperature already: scores are log probabilities.
        return super()._scorer(labels, parameters).at_temperature(1.0)


def _confirmed_ratio(found: Floats, stated: Floats, n_classes: int) -> Floats:
    """Squared errors by the variances that were stated for them, in each dimension.

    With few classes drawn to the ratio over all dimensions.
    """
    overall = float(found.sum() / max(float(stated.sum()), 1e-300))
    each = found / np.maximum(stated, 1e-300)
    return (n_classes * each + _RATIO_CLASSES * overall) / (n_classes + _RATIO_CLASSES)


def _warn_of_defaults(of_temperature: bool) -> None:
    """Say what statistics do not tell."""
    what = (
        "the temperature of GaussianEXEM: it is 1. Give the one that fit finds on samples "
        "(temperature_) as temperature=, and unseen_odds_ as unseen_odds=."
        if of_temperature
        else f"the odds of unseen classes: they are {USUAL_ODDS:g}. Give those that fit "
        "finds on samples (unseen_odds_) as unseen_odds=."
    )
    warn_once(f"Statistics do not tell {what}")
