"""The methods that runs know by name, in the order of tables, and how each is tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.base import clone

from zslearn.baselines import (
    ALE,
    CCA,
    CMT,
    COSTA,
    DAP,
    ESZSL,
    GFZSL,
    HAT,
    IAP,
    SAE,
    SJE,
    SSE,
    BiDiLEL,
    CMTStar,
    ConSE,
    DeViSE,
    LatEm,
)
from zslearn.datasets import ZeroShotDataset
from zslearn.model_selection import ClassKFold, ZeroShotSearchCV
from zslearn.synthesis import EXEM, SynC, exemplar_distance_score


@dataclass(frozen=True)
class TuningOptions:
    """What a run asks of every search.

    Parameters
    ----------
    setting : str
        "zsl" or "gzsl".
    grid : str
        "paper" or "fast".
    cv : splitter
        Folds over the seen classes.
    checkpoint : Path or None
        Where finished settings are kept.
    shared : Path or None
        Where searches that several methods have in common keep theirs.
    n_jobs : int or None
        Folds at the same time.
    progress : bool
        Whether a bar is drawn.
    """

    setting: str
    grid: str
    cv: Any
    checkpoint: Path | None = None
    shared: Path | None = None
    n_jobs: int | None = None
    progress: bool = False

    def search(self, estimator: Any, grid: Any, **options: Any) -> ZeroShotSearchCV:
        """A search under these options."""
        given: dict[str, Any] = {
            "setting": self.setting,
            "cv": self.cv,
            "checkpoint": self.checkpoint,
            "n_jobs": self.n_jobs,
            "progress": self.progress,
        }
        return ZeroShotSearchCV(estimator, grid, **(given | options))


@dataclass(frozen=True)
class Method:
    """A method under the name it has in tables.

    Parameters
    ----------
    name : str
        As in the paper.
    make : callable
        Makes the method with its defaults.
    tune : callable
        Takes the method, the data and the options; gives the fitted search.
    in_demo : bool
        Whether the demo, which must end within a minute, runs it.
    """

    name: str
    make: Callable[[], Any]
    tune: Callable[[Any, ZeroShotDataset, TuningOptions], ZeroShotSearchCV]
    in_demo: bool = True

    def definition(self) -> list[Any]:
        """What a result depends on: the hyper-parameters and grids, those of an inner method too.

        Returns
        -------
        list
            For :func:`~zslearn.utils.fingerprint`.
        """
        estimator = self.make()
        inner = getattr(estimator, "estimator", None)
        parts = [estimator] if inner is None else [estimator, inner]
        return [self.name, [(type(one).__name__, one, one.grids) for one in parts]]


def tune_at_once(estimator: Any, data: ZeroShotDataset, options: TuningOptions) -> ZeroShotSearchCV:
    """Search the method's own grid.

    Parameters
    ----------
    estimator : zero-shot estimator
        The method.
    data : ZeroShotDataset
        Of which the training part is used.
    options : TuningOptions
        Setting, grid and folds.

    Returns
    -------
    ZeroShotSearchCV
        Fitted on the training part.
    """
    return options.search(estimator, options.grid).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )


def tune_on_exemplars(
    estimator: Any, data: ZeroShotDataset, options: TuningOptions
) -> ZeroShotSearchCV:
    """Tune EXEM under another method in the paper's two steps.

    First the regressors, by the distance between predicted and real exemplars of classes left out;
    then the other method on the exemplars that they predict. The first step is the same for every
    other method and setting: it is computed once where `options.shared` keeps it.

    Parameters
    ----------
    estimator : EXEM
        With another method as its `estimator`.
    data : ZeroShotDataset
        Of which the training part is used.
    options : TuningOptions
        Setting, grid and folds.

    Returns
    -------
    ZeroShotSearchCV
        The second search, fitted on the training part.
    """
    inner = estimator.estimator
    grid = {name: v for name, v in estimator.grids[options.grid].items() if name != "n_components"}
    regressors = options.search(
        clone(estimator).set_params(estimator=None),
        grid,
        setting="zsl",
        checkpoint=options.shared or options.checkpoint,
        cv=ClassKFold(options.cv.get_n_splits(), random_state=options.cv.random_state),
        scoring={"exemplar_distance": exemplar_distance_score},
    ).fit(data.X_train, data.y_train, signatures=data.signatures)
    chosen = clone(estimator).set_params(**regressors.best_params_)
    inner_grid = {f"estimator__{name}": v for name, v in inner.grids[options.grid].items()}
    search = options.search(chosen, inner_grid).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )
    search.best_params_ = regressors.best_params_ | search.best_params_
    return search


def _methods() -> Iterator[Method]:
    baseline = partial(Method, tune=tune_at_once, in_demo=False)
    yield baseline("DAP", DAP)
    yield baseline("IAP", IAP)
    yield baseline("HAT", partial(HAT, "cluster"))
    yield baseline("CMT", CMT)
    yield baseline("CMT*", CMTStar)
    yield baseline("DeViSE", DeViSE)
    yield baseline("ConSE", ConSE)
    yield baseline("ALE", ALE)
    yield baseline("SJE", SJE)
    yield baseline("LatEm", LatEm)
    yield baseline("SSE", SSE)
    yield Method("ESZSL", ESZSL, tune_at_once)
    yield baseline("SAE", SAE)
    yield baseline("SAE (feature to semantic)", partial(SAE, direction="feature_to_semantic"))
    yield baseline("GFZSL", GFZSL)
    yield baseline("BiDiLEL", BiDiLEL)
    yield baseline("CCA", CCA)
    yield baseline("COSTA", COSTA)
    losses = {"SynC o-vs-o": "ovo", "SynC cs": "cs", "SynC struct": "struct"}
    for name, loss in losses.items():
        yield Method(name, partial(_sync, loss), tune_at_once, in_demo=loss == "ovo")
    yield Method("EXEM (ConSE)", partial(_exem_of, ConSE), tune_on_exemplars, in_demo=False)
    yield Method("EXEM (ESZSL)", partial(_exem_of, ESZSL), tune_on_exemplars)
    for name, loss in losses.items():
        make = partial(_exem_of, partial(_sync, loss))
        yield Method(f"EXEM ({name})", make, tune_on_exemplars, in_demo=False)
    yield Method("EXEM (1NN)", _exem, tune_at_once)
    standardized = partial(_exem, distance="standardized")
    yield Method("EXEM (1NNs)", standardized, tune_at_once, in_demo=False)


def _sync(loss: str) -> SynC:
    # A gap of three thousandths is far below what accuracies can tell.
    return SynC(loss=loss, tol=3e-3)


def _exem(**given: Any) -> EXEM:
    # Ten times as exact as LIBSVM is by default, which the authors' program uses.
    return EXEM(tol=1e-4, **given)


def _exem_of(make: Callable[[], Any]) -> EXEM:
    return _exem(estimator=make())


#: Methods by name, in the order of the paper's tables.
METHODS: dict[str, Method] = {method.name: method for method in _methods()}
