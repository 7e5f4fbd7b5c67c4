r"""How small a gap must be: beside the objective, and beside what training gains.

An objective F that hardly falls below its value at zero coefficients has a small relative gap
there, before any training. A gap is therefore small enough when it is a share of both the objective
and the gain :math:`F(0) - \min F`, of which two lower bounds are known at coefficients W:

- :math:`F(0) - F(W)`, as the minimum is no larger than F(W);
- :math:`(\sqrt{\alpha/2}\,\|W\| - \sqrt{\text{gap}})^2`, as F is :math:`\alpha`-strongly convex:
  the minimiser is at most :math:`\sqrt{2\,\text{gap}/\alpha}` from W, and the gain is at least half
  of :math:`\alpha` times its squared norm. Where little is gained the first bound is lost in
  rounding, and this one is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zslearn._utils._array import Floats

# A share of the objective that rounding alone may bring about.
_ROUNDING = 1e-12

Numbers = float | Floats


@dataclass(frozen=True)
class StoppingRule:
    """When a solution is good enough: one problem in numbers, or several in arrays of a shape."""

    tol: float  # the gap to reach, as a share of the objective and of the gain
    at_zero: Numbers  # the objective at zero coefficients
    noise: Numbers = 0.0  # a gap that rounding alone makes: as good as zero

    def gain(self, objective: Numbers, gap: Numbers, penalty: Numbers) -> Numbers:
        """How far the minimum lies below the objective at zero, at least."""
        fallen = np.asarray(self.at_zero - objective)
        fallen = np.where(fallen > _ROUNDING * np.asarray(self.at_zero), fallen, 0.0)
        near = np.maximum(np.sqrt(penalty) - np.sqrt(gap), 0.0) ** 2
        return np.maximum(fallen, near)[()]

    def wanted(self, objective: Numbers, gap: Numbers, penalty: Numbers) -> Numbers:
        """The gap that is small enough; for the parameters see :meth:`gain`."""
        least = np.minimum(objective, self.gain(objective, gap, penalty))
        return np.maximum(self.tol * least, self.noise)[()]

    def excess(self, objective: Numbers, gap: Numbers) -> Numbers:
        """The gap as a share of the objective, or of all that may be gained; at most one."""
        most = np.maximum(self.at_zero - objective, 0.0) + gap
        least = np.minimum(objective, most)
        return np.minimum(gap / np.where(least > 0, least, 1.0), 1.0)[()]
