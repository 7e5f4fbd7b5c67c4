"""Curves and searches of single runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from zslearn.experiments._report._model import Curve, Landscape
from zslearn.experiments._report._values import number, significant, text, written
from zslearn.model_selection import read_landscape
from zslearn.utils import Floats

#: So many points of a curve are shown.
_MOST_POINTS = 160
#: So many values of a hyper-parameter are shown.
_MOST_VALUES = 40


def curve_of(record: Mapping[str, Any]) -> Curve | None:
    """The curve of a record, thinned out to what a screen can show.

    Parameters
    ----------
    record : mapping
        Checked.

    Returns
    -------
    Curve or None
        Points at about the same distances, and always those of the factor 0 and of the
        calibration factor; None where the record has no curve.
    """
    curve = record.get("curve", {})
    unseen, seen = (np.asarray(curve.get(name, [])) for name in ("acc_unseen", "acc_seen"))
    if unseen.size < 2:
        return None
    bias = curve.get("bias")
    factors = np.array([-np.inf if b is None else b for b in bias or [None] * unseen.size])
    marks = {"plain": 0.0, "calibrated": number(record.get("calibration_factor"), 12)}
    # The point of a factor is the last one that it is large enough for.
    found = {
        name: max(int(np.searchsorted(factors, factor, side="right")) - 1, 0)
        for name, factor in marks.items()
        if bias and factor is not None
    }
    kept = np.unique([*_spaced(unseen, seen), *found.values()])
    places = {name: int(np.searchsorted(kept, place)) for name, place in found.items()}
    return Curve(
        unseen=unseen[kept].round(4).tolist(),
        seen=seen[kept].round(4).tolist(),
        factor=[significant(factor) for factor in factors[kept].tolist()],
        plain=places.get("plain"),
        calibrated=places.get("calibrated"),
    )


def _spaced(unseen: Floats, seen: Floats) -> list[int]:
    """Positions of points at about the same distances along a curve, with both ends."""
    length = np.append(0.0, np.hypot(np.diff(unseen), np.diff(seen)).cumsum())
    steps = np.linspace(0.0, length[-1], _MOST_POINTS)
    found = np.searchsorted(length, steps).clip(0, unseen.size - 1)
    return [0, *found.tolist(), unseen.size - 1]


def landscape_of(record: Mapping[str, Any]) -> Landscape | None:
    """The search of a record over the two hyper-parameters with most values.

    Parameters
    ----------
    record : mapping
        Checked.

    Returns
    -------
    Landscape or None
        None where the record has no search over several settings, or one that cannot be shown.
    """
    table = record.get("cross_validation", {})
    settings = table.get("params", [])
    scores = [name for name in table if name.startswith("mean_test_")]
    if len(settings) < 2 or not scores or not all(isinstance(s, dict) for s in settings):
        return None
    mean = np.array([number(value, 12) for value in table[scores[0]]], dtype=float)
    std = np.full(len(mean), np.nan)
    if np.isnan(mean).all():
        return None
    names = _by_number_of_values(settings)
    if not names:
        return None
    # What was chosen is what the record says; the best of equals is the first.
    chosen = record.get("hyper_parameters", {})
    here = [i for i, s in enumerate(settings) if s.items() <= chosen.items()]
    score = scores[0].removeprefix("mean_test_")
    search = SimpleNamespace(
        cv_results_={"params": settings, f"mean_test_{score}": mean, f"std_test_{score}": std},
        best_index_=here[0] if here else int(np.nanargmax(mean)),
        edges_={},
    )
    found = read_landscape(search, names[0], names[1] if len(names) > 1 else None, None)
    place = found["chosen"]
    return Landscape(
        score=text(score),
        x=text(found["x_name"]),
        y=text(found["y_name"] or ""),
        x_values=[written(value) for value in found["x_values"]],
        y_values=[written(value) for value in found["y_values"] or []],
        mean=[[number(value, 4) for value in row] for row in np.atleast_2d(found["mean"]).tolist()],
        chosen=None if place is None else [0, *place][-2:],
        others=[text(name) for name in found["others"]],
    )


def _by_number_of_values(settings: list[dict[str, Any]]) -> list[str]:
    """Up to two hyper-parameters with several values, those with most first."""
    values: dict[str, set[str]] = {}
    for setting in settings:
        for name, value in setting.items():
            values.setdefault(name, set()).add(repr(value))
    varied = [name for name, found in values.items() if 1 < len(found) <= _MOST_VALUES]
    return sorted(varied, key=lambda name: -len(values[name]))[:2]
