"""What a service says of images, as JSON holds it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zslearn.persistence import ModelFile
from zslearn.recognition import explain_predictions, rank_classes
from zslearn.utils import Floats

Answer = dict[str, Any]


def answers(
    file: ModelFile,
    X: Floats,
    added: frozenset[str],
    candidates: list[Any] | None,
    *,
    top: int,
    why: bool,
) -> list[Answer]:
    """Rank the classes of images.

    Parameters
    ----------
    file : ModelFile
        The model, with what is known of its training images.
    X : ndarray of shape (n_images, n_features)
        Image features, finite.
    added : frozenset of str
        Names of classes that were added.
    candidates : list of labels or None
        The classes to choose among; None takes all.
    top : int
        How many classes per image.
    why : bool
        Whether predictions are explained.

    Returns
    -------
    list of dict
        "ranked": the classes, best first; "none_of_these" and "surely" where the model knows;
        "explanation" where it was asked for.
    """
    model = file.model
    ranked = rank_classes(model, X, classes=candidates, top=top)
    seen = set(model.seen_classes_.tolist())
    none = ranked.is_none
    surely = model.predict_rank(X, classes=candidates) if hasattr(model, "predict_rank") else None
    reasons = explain_predictions(file, X, classes=candidates) if why else None
    out = []
    rows = zip(ranked.labels.tolist(), ranked.scores, ranked.probabilities, strict=True)
    for place, (labels, scores, chances) in enumerate(rows):
        out.append(
            {
                "ranked": [
                    {
                        "class": str(label),
                        "known_by": "seen" if label in seen else "described only",
                        "added": str(label) in added,
                        "score": _number(score),
                        "probability": _number(chance),
                    }
                    for label, score, chance in zip(labels, scores, chances, strict=True)
                ],
                "none_of_these": None if none is None else bool(none[place]),
                "surely": None
                if surely is None
                else {
                    "node": str(surely.nodes[place]),
                    "depth": int(surely.depths[place]),
                    "probability": _number(surely.probabilities[place]),
                },
                "explanation": None if reasons is None else _explained(reasons[place].to_dict()),
            }
        )
    return out


def _explained(content: dict[str, Any]) -> dict[str, Any]:
    """An explanation whose class names are text, and whose numbers JSON can hold."""
    return {key: _plain(value) for key, value in content.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: str(v) if k in ("label", "name") else _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return _number(value) if isinstance(value, (float, np.floating)) else value


def _number(value: Any) -> float | None:
    """A number, or None where there is none that JSON could hold."""
    number = float(value)
    return number if math.isfinite(number) else None
