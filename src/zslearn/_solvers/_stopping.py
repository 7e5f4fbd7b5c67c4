r"""The required gap, relative to the objective and to the gain of training.

If an objective F decreases little from its value at zero coefficients, its relative gap is small
even there. A gap must therefore be small relative to both the objective and the gain
:math:`F(0) - \min F`. Coefficients W give two lower bounds of the gain:

- :math:`F(0) - F(W)`;
- :math:`(\sqrt{\alpha/2}\,\|W\| - \sqrt{\text{gap}})^2`, since F is :math:`\alpha`-strongly convex:
  the minimiser is within :math:`\sqrt{2\,\text{gap}/\alpha}` of W, and the gain is at least
  :math:`\alpha/2` times its squared norm. This bound also holds if rounding dominates the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zslearn._utils._array import Floats

# Relative rounding error of the objective.
_ROUNDING = 1e-12

Numbers = float | Floats


@dataclass(frozen=True)
class StoppingRule:
    """When a solution is good enough, for one problem or for arrays of several."""

    tol: float  # the required gap relative to objective and gain
    at_zero: Numbers  # the objective at zero coefficients
    noise: Numbers = 0.0  # a gap caused by rounding, as good as zero

    def gain(self, objective: Numbers, gap: Numbers, penalty: Numbers) -> Numbers:
        """Lower bound of the gain."""
        fallen = np.asarray(self.at_zero - objective)
        fallen = np.where(fallen > _ROUNDING * np.asarray(self.at_zero), fallen, 0.0)
        near = np.maximum(np.sqrt(penalty) - np.sqrt(gap), 0.0) ** 2
        return np.maximum(fallen, near)[()]

    def wanted(self, objective: Numbers, gap: Numbers, penalty: Numbers) -> Numbers:
        """The required gap."""
        least = np.minimum(objective, self.gain(objective, gap, penalty))
        return np.maximum(self.tol * least, self.noise)[()]

    def excess(self, objective: Numbers, gap: Numbers) -> Numbers:
        """The gap relative to the objective, or to an upper bound of the gain; at most one."""
        most = np.maximum(self.at_zero - objective, 0.0) + gap
        least = np.minimum(objective, most)
        return np.minimum(gap / np.where(least > 0, least, 1.0), 1.0)[()]
