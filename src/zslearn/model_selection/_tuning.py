"""How a run tunes a method: one search over its grid, or two steps as in the paper."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from sklearn.base import clone

from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.model_selection._grids import GridEdgeWarning, named_grid
from zslearn.model_selection._search import EXTENSIONS, ZeroShotSearchCV
from zslearn.signatures._views import MultiSignatures
from zslearn.synthesis._adaptation_trial import UNLABELLED_WEIGHTS
from zslearn.synthesis._exem import exemplar_distance_score

#: Shrinkages that whitening is tried with: shares of the mean variance.
WHITENING = (0.6, 0.3, 0.1)
#: Weights of unlabelled images while the other hyper-parameters are searched.
FIRST_UNLABELLED_WEIGHTS = (0.3, 0.0)


@dataclass(frozen=True)
class TuningOptions:
    """Options that all searches of a run have in common.

    Parameters
    ----------
    setting : str
        "zsl" or "gzsl".
    grid : str
        "fast", "paper", "paper-googlenet" or "quick".
    cv : splitter
        Folds over the seen classes.
    checkpoint : Path or None
        Folder for finished settings.
    memory : Path or None
        Folder for fits, and for checkpoints of searches, that several methods share.
    n_jobs : int or None
        Number of folds computed in parallel.
    progress : bool
        Whether to show a progress bar.
    rescale_bias : bool
        Whether to convert calibration factors of folds to the scale of the final scores.
    temperature : "cv", float or None
        See :class:`~zslearn.model_selection.ZeroShotSearchCV`.
    extra_values : mapping of str to sequence
        Values of further hyper-parameters to search, for methods that have them.
    fixed : tuple of str
        Hyper-parameters to leave out of the grid.
    """

    setting: str
    grid: str
    cv: Any
    checkpoint: Path | None = None
    memory: Path | None = None
    n_jobs: int | None = None
    progress: bool = False
    rescale_bias: bool = True
    temperature: str | float | None = None
    extra_values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()

    def search(self, estimator: Any, grid: Any, **options: Any) -> ZeroShotSearchCV:
        """A search with these options."""
        names = ("setting", "cv", "checkpoint", "memory", "n_jobs", "progress", "rescale_bias")
        defaults = {name: getattr(self, name) for name in (*names, "temperature")}
        # Other grids are those of a protocol, or small on purpose.
        defaults["extensions"] = EXTENSIONS if self.grid == "fast" else 0
        return ZeroShotSearchCV(estimator, grid, **(defaults | options))

    def in_folder(self, name: str) -> TuningOptions:
        """The same with a subfolder of this name, for one of several searches of a run."""
        return replace(
            self,
            checkpoint=self.checkpoint and self.checkpoint / name,
            memory=self.memory and self.memory / name,
        )

    def grid_of(self, estimator: Any, *, without: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The grid of an estimator, in one or several parts."""
        own, without = estimator.get_params(deep=False), (*without, *self.fixed)
        extra = {name: values for name, values in self.extra_values.items() if name in own}
        grid = [{**part, **extra} for part in named_grid(estimator, self.grid)]
        parts = [{n: v for n, v in part.items() if n not in without} for part in grid]
        # Parts may have differed in the removed hyper-parameters only.
        return [part for i, part in enumerate(parts) if part not in parts[:i]]


#: Takes a method, the data and the options; returns the fitted search.
Tune = Callable[[Any, ZeroShotDataset, TuningOptions], ZeroShotSearchCV]


def tune_without(*names: str) -> Tune:
    """Search a method's own grid without some hyper-parameters."""

    def tune(estimator: Any, data: ZeroShotDataset, options: TuningOptions) -> ZeroShotSearchCV:
        return _fit(options.search(estimator, options.grid_of(estimator, without=names)), data)

    return tune


#: Search the method's own grid.
tune_at_once = tune_without()


def tune_on_exemplars(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune EXEM (method) in the paper's two steps.

    First the regressors, by the distance between predicted and real exemplars of held-out classes;
    then the method on the predicted exemplars. Both hold out the same images: in the generalized
    setting also those that only the second step validates on. The first step is the same for every
    method, and is computed once if `options.memory` is set.
    """
    regressors = _fit(
        options.search(
            clone(estimator).set_params(estimator=None),
            options.grid_of(estimator, without=["n_components"]),
            setting="zsl",
            checkpoint=options.memory or options.checkpoint,
            scoring={"exemplar_distance": exemplar_distance_score},
            temperature=None,
        ),
        data,
    )
    grid = _prefixed("estimator__", options.grid_of(estimator.estimator))
    return _second_step(regressors, estimator, data, options, grid)


def tune_whitened(
    tune: Tune, estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune EXEM on whitened features at each shrinkage, and keep the best search."""

    def searches() -> Iterator[ZeroShotSearchCV]:
        for shrinkage in WHITENING:
            whitened = clone(estimator).set_params(whiten=shrinkage)
            search = tune(whitened, data, options.in_folder(f"whiten-{shrinkage}"))
            search.best_params_ = {"whiten": shrinkage, **search.best_params_}
            yield search

    return best_search(searches())


def tune_on_means(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune features generated around a predicted mean in two steps.

    First the generator, by the nearest mean of a few generated features; then the classifier that
    is trained on them.
    """
    grid = _prefixed("generator__", options.grid_of(estimator.generator))
    means = clone(estimator).set_params(classifier="mean")
    first = _fit(options.search(means, grid, setting="zsl"), data)
    return _second_step(first, estimator, data, options, options.grid_of(estimator))


def tune_generator(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune the generator of features by the classifier that is trained on them.

    The grid of a trained generator is its number of epochs, which one run per fold serves: early
    stopping on held-out classes. The final generator is trained for the chosen number. Whether the
    classifier weights classes equally is chosen as well.
    """
    parts = _prefixed("generator__", options.grid_of(estimator.generator))
    grid = [{**part, "balanced": [False, True]} for part in parts]
    return _fit(options.search(estimator, grid), data)


def tune_in_two_steps(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune SynC with learned phantoms in the paper's two steps.

    First λ and σ (`alpha`, `gamma`) with fixed phantoms; then the weights η and γ of learning the
    phantoms (`eta`, `norm_penalty`).
    """
    fixed = clone(estimator).set_params(learn_phantoms=False)
    # Learned phantoms have no ridge.
    first = _fit(options.search(fixed, options.grid_of(fixed, without=["ridge"])), data)
    return _second_step(first, estimator, data, options, named_grid(estimator, "phantoms"))


def tune_with_views(
    tune: Tune,
    estimator: Any,
    data: Any,
    options: TuningOptions,
    weights_of_views: Sequence[tuple[float, ...]] | None = None,
) -> ZeroShotSearchCV:
    """Tune a method at each combination of weights of several views, and keep the best search.

    The default combinations are those of a lattice.
    """
    if not isinstance(data.signatures, MultiSignatures):
        return tune(estimator, data, options)
    views = data.signatures

    def searches() -> Iterator[ZeroShotSearchCV]:
        for weights in weights_of_views or _simplex_lattice(len(views.views)):
            weighted = data.with_signatures(views.with_weights(weights))
            name = "-".join(f"{weight:.2f}" for weight in weights)
            search = tune(clone(estimator), weighted, options.in_folder(name))
            search.best_params_ = {"weights": weights, **search.best_params_}
            yield search

    return best_search(searches())


def tune_adapting(
    tune: Tune, estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune a method in folds with unlabelled images, in two steps.

    First its grid, with each of `FIRST_UNLABELLED_WEIGHTS`; then the weight of unlabelled images,
    if the best setting uses them.
    """
    weights = {"unlabelled_weight": FIRST_UNLABELLED_WEIGHTS}
    options = replace(options, extra_values={**options.extra_values, **weights})
    first = tune(estimator, data, options)
    if not first.best_params_.get("unlabelled_weight"):
        return first
    grid = {"unlabelled_weight": [*UNLABELLED_WEIGHTS, 0.0]}
    return _second_step(first, estimator, data, options, grid, extensions=0)


def _fit(search: ZeroShotSearchCV, data: ZeroShotDataset) -> ZeroShotSearchCV:
    with warnings.catch_warnings():
        # The grid is the method's own.
        warnings.simplefilter("ignore", GridEdgeWarning)
        return search.fit(data.X_train, data.y_train, signatures=data.signatures)


def _second_step(
    first: ZeroShotSearchCV,
    estimator: Any,
    data: ZeroShotDataset,
    options: TuningOptions,
    grid: Any,
    **search_options: Any,
) -> ZeroShotSearchCV:
    """Search another grid at the choices of a first search; return it with the choices of both."""
    chosen = clone(estimator).set_params(**first.best_params_)
    second = _fit(options.search(chosen, grid, **search_options), data)
    second.best_params_ = first.best_params_ | second.best_params_
    second.edges_ = first.edges_ | second.edges_
    second.n_read_fits_ += first.n_read_fits_
    second.reused_time_ += first.reused_time_
    return second


def _prefixed(prefix: str, grid: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{prefix + name: values for name, values in part.items()} for part in grid]


def _simplex_lattice(n_views: int) -> list[tuple[float, ...]]:
    """Convex weights of views on a regular lattice, equal ones first, single views last."""
    steps = {1: 1, 2: 4, 3: 3}.get(n_views, 2)
    parts = [p for p in product(range(steps + 1), repeat=n_views) if sum(p) == steps]
    parts.sort(key=lambda p: (max(p), p))
    return [tuple(part / steps for part in p) for p in parts]


def best_search(searches: Iterable[ZeroShotSearchCV]) -> ZeroShotSearchCV:
    """Return the search with the best score, the first of equal ones; NaN is the worst.

    Parameters
    ----------
    searches : iterable of ZeroShotSearchCV
        Fitted searches, at least one.

    Returns
    -------
    ZeroShotSearchCV
        One of them, with the counts of reused fits of all.

    Examples
    --------
    >>> from zslearn.baselines import CCA, ESZSL
    >>> from zslearn.datasets import make_zero_shot
    >>> from zslearn.model_selection import ZeroShotSearchCV, best_search
    >>> data = make_zero_shot(random_state=0)
    >>> searches = [ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0]}),
    ...             ZeroShotSearchCV(CCA(), {"n_components": [2]})]
    >>> best_search(s.fit(data.X_train, data.y_train, signatures=data.signatures)
    ...             for s in searches).best_params_
    {'alpha_features': 1.0}
    """
    best: ZeroShotSearchCV | None = None
    highest, n_read, seconds = -math.inf, 0, 0.0
    for search in searches:
        n_read += search.n_read_fits_
        seconds += search.reused_time_
        if best is None or search.best_score_ > highest:
            best = search
            highest = -math.inf if math.isnan(search.best_score_) else search.best_score_
    assert best is not None
    best.n_read_fits_, best.reused_time_ = n_read, seconds
    return best
