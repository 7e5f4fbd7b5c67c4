"""The methods that runs know by name, in the order of tables, and how each is tuned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zslearn.baselines import ESZSL
from zslearn.datasets import ZeroShotDataset
from zslearn.model_selection import ZeroShotSearchCV


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
    n_jobs : int or None
        Folds at the same time.
    progress : bool
        Whether a bar is drawn.
    """

    setting: str
    grid: str
    cv: Any
    checkpoint: Path | None = None
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
    """

    name: str
    make: Callable[[], Any]
    tune: Callable[[Any, ZeroShotDataset, TuningOptions], ZeroShotSearchCV]


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


#: Methods by name.
METHODS: dict[str, Method] = {
    method.name: method for method in (Method("ESZSL", ESZSL, tune_at_once),)
}
