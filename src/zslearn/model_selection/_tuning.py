"""How a run tunes a method: its whole grid in one search, or two searches as in the paper."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from sklearn.base import clone

from zslearn.calibration._unlabelled import UNLABELLED_WEIGHTS
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.model_selection._search import EXTENSIONS, GridEdgeWarning, ZeroShotSearchCV
from zslearn.signatures._views import MultiSignatures
from zslearn.synthesis._exem import EXEM, exemplar_distance_score
from zslearn.synthesis._sync import SynC

#: Grids that runs know by name. A method of one's own may have further ones.
GRIDS = ("fast", "paper", "paper-googlenet", "quick")
#: Shares of the mean variance that whitening is tried with.
WHITENING = (0.6, 0.3, 0.1)
#: Trust in images without labels that a grid is searched with.
FIRST_UNLABELLED_WEIGHTS = (0.3, 0.0)

# The paper's grids for GoogLeNet's features, where they are not those for ResNet's. EXEM has λ = 1
# and d = 500 (a footnote of its appendix); the authors' demo searches C from 2^−3 to 2^3.
_GOOGLENET: dict[type, dict[str, list[Any]]] = {
    SynC: {"alpha": [2.0**k for k in range(-24, -8)]},
    EXEM: {"n_components": [500], "C": [1.0]},
}


@dataclass(frozen=True)
class TuningOptions:
    """What a run asks of every search.

    Parameters
    ----------
    setting : str
        "zsl" or "gzsl".
    grid : str
        "fast", "paper", "paper-googlenet" or "quick".
    cv : splitter
        Folds over the seen classes.
    checkpoint : Path or None
        Where finished settings are kept.
    shared : Path or None
        Where searches that several methods have in common keep theirs, and fits that searches
        have in common.
    n_jobs : int or None
        Folds at the same time.
    progress : bool
        Whether a bar is drawn.
    rescale_bias : bool
        Whether calibration factors of folds are brought to the scale of the final scores.
    temperature : "cv", float or None
        Of the probabilities; see :class:`~zslearn.model_selection.ZeroShotSearchCV`.
    also : mapping of str to sequence
        Values of hyper-parameters that are searched beside the grid, where a method has them.
    not_searched : tuple of str
        Hyper-parameters that stay as they are set.
    """

    setting: str
    grid: str
    cv: Any
    checkpoint: Path | None = None
    shared: Path | None = None
    n_jobs: int | None = None
    progress: bool = False
    rescale_bias: bool = True
    temperature: str | float | None = None
    also: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    not_searched: tuple[str, ...] = ()

    def search(self, estimator: Any, grid: Any, **options: Any) -> ZeroShotSearchCV:
        """A search under these options."""
        defaults: dict[str, Any] = {
            "setting": self.setting,
            "cv": self.cv,
            "checkpoint": self.checkpoint,
            "memory": self.shared,
            "n_jobs": self.n_jobs,
            "progress": self.progress,
            "rescale_bias": self.rescale_bias,
            "temperature": self.temperature,
            # Other grids are a protocol's, or as small as they are on purpose.
            "extensions": EXTENSIONS if self.grid == "fast" else 0,
        }
        return ZeroShotSearchCV(estimator, grid, **(defaults | options))

    def in_folder(self, name: str) -> TuningOptions:
        """The same with files in a folder of this name, for one of several searches of a run."""
        return replace(
            self,
            checkpoint=self.checkpoint and self.checkpoint / name,
            shared=self.shared and self.shared / name,
        )

    def grid_of(self, estimator: Any, *, without: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The values of an estimator's hyper-parameters to search, in one or several parts."""
        own, without = estimator.get_params(deep=False), (*without, *self.not_searched)
        also = {name: values for name, values in self.also.items() if name in own}
        grid = [{**part, **also} for part in named_grid(estimator, self.grid)]
        parts = [{n: v for n, v in part.items() if n not in without} for part in grid]
        # Parts that differed in such hyper-parameters only are one.
        return [part for i, part in enumerate(parts) if part not in parts[:i]]


#: Takes a method, the data and the options; gives the fitted search.
Tune = Callable[[Any, ZeroShotDataset, TuningOptions], ZeroShotSearchCV]


def tune_without(*names: str) -> Tune:
    """Search a method's own grid, but leave some hyper-parameters as they are."""

    def tune(estimator: Any, data: ZeroShotDataset, options: TuningOptions) -> ZeroShotSearchCV:
        return _fit(options.search(estimator, options.grid_of(estimator, without=names)), data)

    return tune


#: Search the method's own grid.
tune_at_once = tune_without()


def tune_on_exemplars(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune EXEM under another method in the paper's two steps.

    First the regressors, by the distance between predicted and real exemplars of classes left out;
    then the other method on the exemplars that they predict. Both leave out the same images: in the
    generalized setting those held aside too, which the second step validates on. The first step is
    the same for every other method: it is computed once where `options.shared` keeps it.
    """
    inner = estimator.estimator
    grid = options.grid_of(estimator, without=["n_components"])
    regressors = _fit(
        options.search(
            clone(estimator).set_params(estimator=None),
            grid,
            setting="zsl",
            checkpoint=options.shared or options.checkpoint,
            scoring={"exemplar_distance": exemplar_distance_score},
            temperature=None,
        ),
        data,
    )
    chosen = clone(estimator).set_params(**regressors.best_params_)
    inner_grid = [
        {f"estimator__{name}": values for name, values in part.items()}
        for part in options.grid_of(inner)
    ]
    return _with_choices_of(regressors, _fit(options.search(chosen, inner_grid), data))


def tune_whitened(
    tune: Tune, estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune EXEM on whitened features: under each shrinkage, of which the best is kept."""

    def searches() -> Iterator[ZeroShotSearchCV]:
        for shrinkage in WHITENING:
            whitened = clone(estimator).set_params(whiten=shrinkage)
            search = tune(whitened, data, options.in_folder(f"whiten-{shrinkage}"))
            search.best_params_ = {"whiten": shrinkage, **search.best_params_}
            yield search

    return best_of(searches())


def tune_on_means(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune features generated around a predicted mean in two steps.

    First the generator, by the nearest mean of what it generates, for which a few features do; then
    the classifier that learns from these.
    """
    grid = _generator_grid(estimator, options)
    means = clone(estimator).set_params(estimator="mean")
    first = _fit(options.search(means, grid, setting="zsl"), data)
    chosen = clone(estimator).set_params(**first.best_params_)
    return _with_choices_of(first, _fit(options.search(chosen, options.grid_of(chosen)), data))


def tune_generator(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune the generator of features alone, by the classifier that learns from what it generates.

    Generators that are trained have their number of epochs as grid, which one run per fold serves:
    early stopping by classes that are left out. The number chosen is trained for on all classes.
    """
    return _fit(options.search(estimator, _generator_grid(estimator, options)), data)


def _generator_grid(estimator: Any, options: TuningOptions) -> list[dict[str, Any]]:
    """Values of the generator's hyper-parameters, under their names in the estimator."""
    return [
        {f"generator__{name}": values for name, values in part.items()}
        for part in options.grid_of(estimator.generator)
    ]


def tune_in_two_steps(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune SynC with learned phantoms in the paper's two steps.

    First λ and σ (`alpha`, `gamma`) with the phantoms fixed; then the weights η and γ of learning
    the phantoms (`eta`, `norm_penalty`), at the λ and σ that were found.
    """
    fixed = clone(estimator).set_params(learn_phantoms=False)
    # A ridge has no place where phantoms are learned.
    first = _fit(options.search(fixed, options.grid_of(fixed, without=["ridge"])), data)
    chosen = clone(estimator).set_params(**first.best_params_)
    return _with_choices_of(
        first, _fit(options.search(chosen, named_grid(estimator, "phantoms")), data)
    )


def tune_with_views(
    tune: Tune,
    estimator: Any,
    data: Any,
    options: TuningOptions,
    weights_of_views: Sequence[tuple[float, ...]] | None = None,
) -> ZeroShotSearchCV:
    """Tune a method together with the weights of several views of a class.

    The method is tuned under each combination of weights, by default those of a lattice; the one
    whose best setting has the best score in the folds is kept, of equal ones the first.
    """
    if not isinstance(data.signatures, MultiSignatures):
        return tune(estimator, data, options)
    views = data.signatures

    def searches() -> Iterator[ZeroShotSearchCV]:
        for weights in weights_of_views or simplex_lattice(len(views.views)):
            weighed = data.with_signatures(views.with_weights(weights))
            name = "-".join(f"{weight:.2f}" for weight in weights)
            search = tune(clone(estimator), weighed, options.in_folder(name))
            search.best_params_ = {"weights": weights, **search.best_params_}
            yield search

    return best_of(searches())


def tune_adapting(
    tune: Tune, estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune a method in folds that give images without labels, in two steps.

    First its grid, at one weight of such images and at none (`FIRST_UNLABELLED_WEIGHTS`, beyond
    which a search that extends its grid may go); then the weight among `UNLABELLED_WEIGHTS`, at the
    setting that was found. Where that has none, the method is tuned as without such images.
    """
    options = replace(options, also={**options.also, "unlabelled_weight": FIRST_UNLABELLED_WEIGHTS})
    first = tune(estimator, data, options)
    if not first.best_params_.get("unlabelled_weight"):
        return first
    chosen = clone(estimator).set_params(**first.best_params_)
    weights = {"unlabelled_weight": [*UNLABELLED_WEIGHTS, 0.0]}
    return _with_choices_of(first, _fit(options.search(chosen, weights, extensions=0), data))


def simplex_lattice(n_views: int) -> list[tuple[float, ...]]:
    """Convex weights of views on a regular lattice, equal ones first, each view alone last."""
    steps = {1: 1, 2: 4, 3: 3}.get(n_views, 2)
    parts = [p for p in product(range(steps + 1), repeat=n_views) if sum(p) == steps]
    parts.sort(key=lambda p: (max(p), p))
    return [tuple(part / steps for part in p) for p in parts]


def _fit(search: ZeroShotSearchCV, data: ZeroShotDataset) -> ZeroShotSearchCV:
    with warnings.catch_warnings():
        # The grid is the method's own, not the user's.
        warnings.simplefilter("ignore", GridEdgeWarning)
        return search.fit(data.X_train, data.y_train, signatures=data.signatures)


def best_of(searches: Iterable[ZeroShotSearchCV]) -> ZeroShotSearchCV:
    """Return the search with the best score, of equal ones the first; NaN is the worst.

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
    >>> from zslearn.model_selection import ZeroShotSearchCV, best_of
    >>> data = make_zero_shot(random_state=0)
    >>> searches = [ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0]}),
    ...             ZeroShotSearchCV(CCA(), {"n_components": [2]})]
    >>> best_of(s.fit(data.X_train, data.y_train, signatures=data.signatures)
    ...         for s in searches).best_params_
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


def _with_choices_of(first: ZeroShotSearchCV, second: ZeroShotSearchCV) -> ZeroShotSearchCV:
    """The second search, with the choices of both."""
    second.best_params_ = first.best_params_ | second.best_params_
    second.edges_ = first.edges_ | second.edges_
    second.n_read_fits_ += first.n_read_fits_
    second.reused_time_ += first.reused_time_
    return second


def named_grid(estimator: Any, name: str) -> list[dict[str, Sequence[Any]]]:
    """Return one of a method's grids by its name, as a list of parts.

    Parameters
    ----------
    estimator : estimator
        With `grids`, a mapping of names to grids.
    name : str
        One of `GRIDS`, or another name in the method's `grids`.

    Returns
    -------
    list of dict
        Values by hyper-parameter, as :class:`~zslearn.model_selection.ZeroShotSearchCV` takes them.

    Examples
    --------
    >>> from zslearn.baselines import CCA
    >>> from zslearn.model_selection import named_grid
    >>> [list(part) for part in named_grid(CCA(), "quick")]
    [['alpha_features', 'alpha_signatures', 'power', 'n_components']]
    """
    grids = getattr(estimator, "grids", {})
    if name in grids:
        return _parts(grids[name])
    if name == "paper-googlenet" and "paper" in grids:
        changes = [v for kind, v in _GOOGLENET.items() if isinstance(estimator, kind)]
        return [{**part, **(changes[0] if changes else {})} for part in _parts(grids["paper"])]
    if name == "quick" and "fast" in grids:
        return [{n: _thinned(list(v)) for n, v in part.items()} for part in _parts(grids["fast"])]
    there = ", ".join(repr(known) for known in grids) or "none"
    raise ValueError(f"{type(estimator).__name__} has no grid named {name!r}; there are: {there}.")


def _parts(grid: Any) -> list[dict[str, Sequence[Any]]]:
    """The mappings of a grid, which may be one alone."""
    return [dict(part) for part in ([grid] if isinstance(grid, Mapping) else grid)]


def _thinned(values: list[Any]) -> list[Any]:
    """The ends and the middle of a list."""
    return values if len(values) <= 3 else [values[0], values[len(values) // 2], values[-1]]
