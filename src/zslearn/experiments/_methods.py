"""The methods that runs know by name, in the order of tables, and how each is tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
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
from zslearn.experiments._names import _squeeze
from zslearn.model_selection import ClassKFold, ZeroShotSearchCV
from zslearn.synthesis import EXEM, SynC, exemplar_distance_score
from zslearn.utils import did_you_mean


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
        defaults: dict[str, Any] = {
            "setting": self.setting,
            "cv": self.cv,
            "checkpoint": self.checkpoint,
            "n_jobs": self.n_jobs,
            "progress": self.progress,
        }
        return ZeroShotSearchCV(estimator, grid, **(defaults | options))


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


@dataclass(frozen=True)
class Method:
    """A method under the name it has in tables.

    Parameters
    ----------
    name : str
        As in the paper.
    make : callable
        Makes the method with its defaults.
    tune : callable, optional
        Takes the method, the data and the options; gives the fitted search. By default
        :func:`tune_at_once`.
    in_demo : bool, default=False
        Whether the demo, which must end within a minute, runs it.
    """

    name: str
    make: Callable[[], Any]
    tune: Callable[[Any, ZeroShotDataset, TuningOptions], ZeroShotSearchCV] = tune_at_once
    in_demo: bool = False

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
        return [
            self.name,
            [(type(part).__name__, part, getattr(part, "grids", {})) for part in parts],
        ]


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
    search.edges_ = regressors.edges_ | search.edges_
    return search


def _methods() -> Iterator[Method]:
    yield Method("DAP", DAP)
    yield Method("IAP", IAP)
    yield Method("HAT", partial(HAT, "cluster"))
    yield Method("CMT", CMT)
    yield Method("CMT*", CMTStar)
    yield Method("DeViSE", DeViSE)
    yield Method("ConSE", ConSE)
    yield Method("ALE", ALE)
    yield Method("SJE", SJE)
    yield Method("LatEm", LatEm)
    yield Method("SSE", SSE)
    yield Method("ESZSL", ESZSL, in_demo=True)
    yield Method("SAE", SAE)
    yield Method("SAE (feature to semantic)", partial(SAE, direction="feature_to_semantic"))
    yield Method("GFZSL", GFZSL)
    yield Method("BiDiLEL", BiDiLEL)
    yield Method("CCA", CCA)
    yield Method("COSTA", COSTA)
    losses = {"SynC o-vs-o": "ovo", "SynC cs": "cs", "SynC struct": "struct"}
    for name, loss in losses.items():
        yield Method(name, partial(_sync, loss), in_demo=loss == "ovo")
    yield Method("EXEM (ConSE)", partial(_exem_of, ConSE), tune_on_exemplars)
    yield Method("EXEM (ESZSL)", partial(_exem_of, ESZSL), tune_on_exemplars, in_demo=True)
    for name, loss in losses.items():
        yield Method(f"EXEM ({name})", partial(_exem_of, partial(_sync, loss)), tune_on_exemplars)
    yield Method("EXEM (1NN)", _exem, in_demo=True)
    yield Method("EXEM (1NNs)", partial(_exem, distance="standardized"))


def _sync(loss: str) -> SynC:
    # A gap of three thousandths is far below what accuracies can tell.
    return SynC(loss=loss, tol=3e-3)


def _exem(**options: Any) -> EXEM:
    # Ten times as exact as LIBSVM is by default, which the authors' program uses.
    return EXEM(tol=1e-4, **options)


def _exem_of(make: Callable[[], Any]) -> EXEM:
    return _exem(estimator=make())


#: Methods by name, in the order of the paper's tables.
METHODS: dict[str, Method] = {method.name: method for method in _methods()}

#: Packages that bring methods name them under this entry point: a name and "module:Class".
ENTRY_POINTS = "zslearn.methods"


def find_method(name: str) -> Method:
    """Find a method by name: one of the library, of an installed package, or a class of one's own.

    Parameters
    ----------
    name : str
        A name in `METHODS`, in which capitals, spaces and brackets do not matter; a name that an
        installed package gives under the entry point "zslearn.methods"; or "module:Class", which is
        imported. What an entry point or a module
        gives is a :class:`Method`, or a class of estimators, which is then tuned on its own grids.

    Returns
    -------
    Method
        The method.

    Examples
    --------
    >>> from zslearn.experiments import find_method
    >>> find_method("ESZSL").make()
    ESZSL()
    >>> find_method("exem-1nns").name
    'EXEM (1NNs)'
    >>> find_method("zslearn.baselines:CCA").make()
    CCA()
    """
    if name in METHODS:
        return METHODS[name]
    outside = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name in outside:
        return _as_method(name, outside[name].load())
    module, _, attribute = name.partition(":")
    if not attribute:
        known = _known_name(name, [*METHODS, *outside])
        return METHODS[known] if known in METHODS else _as_method(known, outside[known].load())
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"The method {name!r} cannot be imported: {error}.") from error
    # A class that is called like one of the library's goes by its whole name.
    return _as_method(name if attribute in METHODS else attribute, found)


def _known_name(name: str, known: list[str]) -> str:
    """The known name that differs from one in its spelling only; else an error with the nearest."""
    form = _squeeze(name)
    same = [candidate for candidate in known if form and _squeeze(candidate) == form]
    if len(same) == 1:
        return same[0]
    begin_so = [candidate for candidate in known if form and _squeeze(candidate).startswith(form)]
    if same or begin_so:
        question = f" Did you mean one of {', '.join(same or begin_so)}?"
    else:
        question = did_you_mean(name, known, key=_squeeze)
    raise ValueError(
        f"Unknown method: {name!r}. There are: {', '.join(known)}; or name a class as "
        f"module:Class.{question}"
    )


def _as_method(name: str, found: Any) -> Method:
    if isinstance(found, Method):
        return found
    if not isinstance(found, type) or not hasattr(found, "fit") or not hasattr(found, "grids"):
        raise ValueError(
            f"{name!r} is neither a Method nor a class of estimators with fit and grids."
        )
    return Method(name, found)
