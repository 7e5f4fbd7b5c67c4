"""The table of a search: every setting with what it gave, as scikit-learn lays it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.model_selection._fold import TIED, TIMES, FoldResult
from zslearn.utils import Floats, InputWarning, name_some, warn_user

# What is no score has no "test" in its name and no rank.
_NO_SCORES = ("bias", "spread", "temperature")


def parameter_columns(settings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Settings by hyper-parameter: "param_<name>", masked where a setting does not name it.

    Parameters
    ----------
    settings : sequence of mappings
        Hyper-parameters.

    Returns
    -------
    dict of str to MaskedArray of shape (n_settings,)
        Of objects: joblib cannot hash masked arrays of numbers.
    """
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for setting in settings for name in setting):
        column = np.empty(len(settings), dtype=object)
        for index, setting in enumerate(settings):
            if name in setting:
                column[index] = setting[name]
        absent = [name not in setting for setting in settings]
        columns[f"param_{name}"] = np.ma.MaskedArray(column, mask=absent)
    return columns


def collect(
    results: Sequence[FoldResult],
    settings: list[dict[str, Any]],
    names: Sequence[str],
    error_score: float,
) -> dict[str, Any]:
    """The table of settings and what each gave in each fold.

    Parameters
    ----------
    results : sequence of FoldResult
        One per fold.
    settings : list of dict
        Hyper-parameters.
    names : sequence of str
        What was measured.
    error_score : float
        The score of a setting in a fold where it failed.

    Returns
    -------
    dict
        See `cv_results_` of :class:`ZeroShotSearchCV`.
    """
    table: dict[str, Any] = {}
    for name in TIMES:
        times = np.stack([result.scores[name] for result in results])
        table |= {f"mean_{name}": times.mean(axis=0), f"std_{name}": times.std(axis=0)}
    table |= parameter_columns(settings)
    table["params"] = settings
    for name in names:
        values = np.stack([result.scores[name] for result in results])
        if name in _NO_SCORES:
            table |= _summary(name, values)
            continue
        for row, result in zip(values, results, strict=True):
            row[list(result.failures)] = error_score
        table |= _summary(f"test_{name}", values)
        table[f"rank_test_{name}"] = _ranks(table[f"mean_test_{name}"])
    return table


def warn_of_equal_scores(
    results: Sequence[FoldResult], settings: Sequence[Mapping[str, Any]], name: str
) -> None:
    """Say where a fold tells nothing: all classes score alike, or all settings do.

    Parameters
    ----------
    results : sequence of FoldResult
        One per fold.
    settings : sequence of mappings
        Hyper-parameters.
    name : str
        The score that is maximised.
    """
    tied = np.stack([result.scores[TIED] == 1 for result in results])
    if tied.any():
        which = [dict(settings[i]) for i in np.flatnonzero(tied.any(axis=0)).tolist()]
        folds = name_some(np.flatnonzero(tied.any(axis=1)).tolist())
        warn_user(
            f"In fold {folds} all classes score alike on every image under {name_some(which)}: "
            f"{name} is that of a guess there.",
            InputWarning,
        )
    values = np.stack([result.scores[name] for result in results])
    # Two settings may well be equally good, and all of them perfect.
    if len(settings) > 2:
        equal = np.flatnonzero(((values == values[:, :1]) & (values != 1.0)).all(axis=1))
        if equal.size:
            warn_user(
                f"In fold {name_some(equal.tolist())} all {len(settings)} settings have the same "
                f"{name}, {name_some(np.unique(values[equal, 0]).round(4).tolist())}: they are not "
                "told apart there.",
                InputWarning,
            )


def _summary(label: str, values: Floats) -> dict[str, Floats]:
    """A row for each fold, their mean and standard deviation."""
    table = {f"split{number}_{label}": row for number, row in enumerate(values)}
    return table | {f"mean_{label}": values.mean(axis=0), f"std_{label}": values.std(axis=0)}


def _ranks(mean: Floats) -> NDArray[np.int32]:
    """1 for the best; equals share the smallest rank, and NaN is last."""
    losses = np.where(np.isnan(mean), np.inf, -mean)
    return (1 + np.searchsorted(np.sort(losses), losses)).astype(np.int32)
