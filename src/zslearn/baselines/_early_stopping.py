"""Methods that train in steps: which variants share a path, and where it ends.

A path of training depends on neither `max_iter` nor `early_stopping`, which say how far it is
followed. With `early_stopping` the end is chosen on seen classes that are held out: the method is
trained without them, and how well it tells them apart is measured after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Self, TypeVar

import numpy as np

from zslearn._scoring._blocks import class_scores
from zslearn._scoring._classes import ScoreFunction
from zslearn._utils._array import Array, to_numpy
from zslearn._utils._messages import InputWarning, warn_user
from zslearn.base._classifier import group_by_params_except
from zslearn.base._training import Training
from zslearn.metrics import per_class_accuracy

# With fewer seen classes those held out would tell nothing.
_FEWEST_CLASSES = 5
# Hyper-parameters that say where a path ends, and nothing else.
_ENDS = ("max_iter", "early_stopping", "validation_fraction", "n_iter_no_change")

_Variant = TypeVar("_Variant")


def on_one_path(variants: Sequence[_Variant], *names: str) -> list[list[_Variant]]:
    """Group estimators whose training is one path, of which each takes a state."""
    groups = []
    for group in group_by_params_except(variants, *_ENDS, *names):
        seeded = isinstance(group[0].random_state, Integral)  # type: ignore[attr-defined]
        groups.extend([group] if seeded else [[variant] for variant in group])
    return groups


class HeldOutClasses:
    """Seen classes that are held out, and how well they were distinguished after each step."""

    def __init__(self, kept: Training, held: Training) -> None:
        self.kept, self.held = kept, held
        self.accuracies: list[float] = []

    @classmethod
    def of(cls, training: Training, fraction: float, rng: np.random.RandomState) -> Self | None:
        """Hold classes out at random."""
        n_seen = training.n_seen
        if n_seen < _FEWEST_CLASSES:
            warn_user(
                f"early_stopping=True needs {_FEWEST_CLASSES} seen classes to hold some out, and "
                f"there are {n_seen}: training goes on to max_iter.",
                InputWarning,
            )
            return None
        n_held = int(np.clip(round(fraction * n_seen), 2, n_seen - 2))
        order = rng.permutation(n_seen)
        held, kept = np.sort(order[:n_held]), np.sort(order[n_held:])
        return cls(training.only(kept), training.only(held))

    def judge(
        self,
        X: Array,
        parameters: Array,
        score: ScoreFunction,
        embed: Callable[[Array], Array] | None = None,
    ) -> None:
        """Note how well the classes held out are distinguished after one more step."""
        scores = class_scores(X, parameters, score=score, embed=embed)
        best = to_numpy(scores).argmax(axis=1)
        self.accuracies.append(float(per_class_accuracy(self.held.y, best)))

    @property
    def best(self) -> int:
        """The number of steps after which accuracy was highest, 0 before the first.

        Of equals the last: where classes cannot be distinguished, nothing is cut short.
        """
        if not self.accuracies:
            return 0
        return len(self.accuracies) - int(np.argmax(self.accuracies[::-1]))
