"""A model as it was at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zslearn.serving._added import AddedClass


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A model as it was at one moment; nothing in it changes.

    Parameters
    ----------
    model : zero-shot estimator
        Fitted.
    label_of : dict of str to label
        Labels by their names, sorted as the model has them.
    seen : frozenset of str
        Names of classes with training images.
    added : dict of str to AddedClass
        Classes that the model file does not have.
    trial : str or None
        The class among these that is only tried.
    """

    model: Any
    label_of: dict[str, Any]
    seen: frozenset[str]
    added: dict[str, AddedClass]
    trial: str | None = None


def free_name(snapshot: Snapshot) -> str:
    """A name that no class has, of the kind that the model's labels are."""
    labels = snapshot.model.classes_
    if labels.dtype.kind in "iu":
        return str(int(labels.max()) + 1)
    name = "the new class"
    while name in snapshot.label_of:
        name += "′"
    return name
