r"""Solutions of ν-SVR that need no steps: interpolation, with few coefficients held at ±C.

While the budget :math:`C \nu n` is not used up the tube has no width, and the conditions of the
optimum are :math:`K\beta + b + \lambda = y` with :math:`\sum_i \beta_i = 0`, where λ is 0 for
coefficients inside ±C and has the sign of those that are held there. With
:math:`G = K^{-1} - K^{-1} 1 1^\top K^{-1} / (1^\top K^{-1} 1)` and a set A of coefficients held at
:math:`c`,

.. math:: G_{AA} \lambda_A = (G y)_A - c, \qquad \beta = G (y - \lambda).

One Cholesky factor of K serves all targets; what a target adds is a system as large as its A, which
few points enter as long as C is not small. A is found in rounds: coefficients beyond ±C enter,
those whose λ has the wrong sign leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from zslearn._solvers.nu_svr._smo import RESOLUTION
from zslearn._utils._array import Floats

# Numbers whose difference is below this share of them are equal but for rounding.
_ROUNDING = 1e-9
# Up to so many points steps of pairs are faster than sets of held coefficients.
_FEW_POINTS = 1000
# A target that would hold more than this share of the points at ±C is left to steps of pairs.
_MOST_HELD = 0.125
_ROUNDS = 20


@dataclass(frozen=True)
class StepFree:
    """Coefficients of all targets within ±C, and what certifies them.

    Parameters
    ----------
    C : float
        Bound of the coefficients.
    coef, residual : ndarray of shape (n_points, n_targets)
        Coefficients β and y − Kβ.
    trusted : bool
        Whether the kernel is well-conditioned enough to trust the coefficients.
    """

    C: float
    coef: Floats
    residual: Floats
    trusted: bool

    @property
    def intercept(self) -> Floats:
        """Constant terms: the mean residual of the coefficients inside ±C."""
        inside = np.abs(self.coef) < self.C
        total: Floats = np.where(inside, self.residual, 0.0).sum(axis=0)
        return total / np.maximum(inside.sum(axis=0), 1)

    @property
    def violation(self) -> Floats:
        """Largest residual that may rise less the smallest that may fall, as without a tube."""
        up = np.where(self.coef < self.C, self.residual, -np.inf).max(axis=0)
        down = np.where(self.coef > -self.C, self.residual, np.inf).min(axis=0)
        return np.maximum(up - down, 0.0)

    def solves(self, nu: float, tol: float) -> bool:
        """Whether they solve the setting for every target, with a tube of no width."""
        budget = self.C * nu * len(self.coef)
        size = np.abs(self.coef)
        return (
            self.trusted
            and float(size.max()) <= self.C
            and 0.5 * (budget - float(size.sum(axis=0).max())) > RESOLUTION * budget
            and float(self.violation.max()) <= tol
        )


class Interpolation:
    """Coefficients that reproduce all targets up to a constant, with sum zero.

    Inside the constraints of a setting they are its solution, with a tube of no width: no step is
    needed, and nothing that is compiled. So it is for the usual settings of well-separated points.

    Parameters
    ----------
    K, Y : ndarray
        Kernel and targets.
    factor : tuple
        Cholesky factor of the kernel, as SciPy gives it.
    coef : ndarray of shape (n_points, n_targets)
        The coefficients.
    ones : ndarray of shape (n_points,)
        K⁻¹1.
    """

    def __init__(self, K: Floats, Y: Floats, factor: Any, coef: Floats, ones: Floats) -> None:
        self.K, self.Y, self._factor, self._ones = K, Y, factor, ones
        # A target that is constant needs none; what was computed is rounding.
        self.coef = np.where(np.ptp(Y, axis=0) == 0, 0.0, coef)
        self.residual: Floats = Y - K @ self.coef
        # Where yᵀβ and βᵀKβ, which are equal for the exact β, differ, the kernel is too
        # ill-conditioned to trust the coefficients.
        linear = np.einsum("nt,nt->t", Y, self.coef)
        quadratic = np.einsum("nt,nt->t", Y - self.residual, self.coef)
        self._exact = bool(np.all(np.abs(linear - quadratic) <= _ROUNDING * quadratic))
        # Rows of G, computed as they are needed, and where the row of each point is; -1: nowhere.
        self._rows = np.empty((0, len(K)))
        self._row_of = np.full(len(K), -1, dtype=np.intp)

    @classmethod
    def of(cls, K: Floats, Y: Floats) -> Self | None:
        """The interpolation; None for a singular kernel."""
        try:
            factor = scipy.linalg.cho_factor(K, lower=True)
        except scipy.linalg.LinAlgError:
            return None
        solved = scipy.linalg.cho_solve(factor, np.column_stack([Y, np.ones(len(K))]))
        beta, ones = solved[:, :-1], solved[:, -1]
        beta = beta - ones[:, None] * (beta.sum(axis=0) / ones.sum())
        beta -= beta.mean(axis=0)
        return cls(K, Y, factor, beta, ones) if np.isfinite(beta).all() else None

    def within(self, C: float) -> StepFree:
        """The coefficients with those beyond ±C held there, for every target for which few are.

        For the other targets they are the interpolation's, some of them beyond ±C.
        """
        held = self._held_at(C) if self._exact and len(self.K) > _FEW_POINTS else {}
        if not held:
            return StepFree(C, self.coef, self.residual, self._exact)
        coef, residual = self.coef.copy(), self.residual.copy()
        targets = np.fromiter(held, dtype=np.intp)
        coef[:, targets] = np.column_stack(list(held.values()))
        residual[:, targets] = self.Y[:, targets] - self.K @ coef[:, targets]
        return StepFree(C, coef, residual, self._exact)

    def _held_at(self, C: float) -> dict[int, Floats]:
        """By target, coefficients of which some are at ±C and the others interpolate."""
        open_sets = {}
        for target in np.flatnonzero((np.abs(self.coef) > C).any(axis=0)).tolist():
            open_sets[target] = np.flatnonzero(np.abs(self.coef[:, target]) > C)
        found: dict[int, Floats] = {}
        for _ in range(_ROUNDS):
            few = {t: A for t, A in open_sets.items() if len(A) <= _MOST_HELD * len(self.K)}
            if not few:
                break
            self._need(np.concatenate(list(few.values())))
            open_sets = {}
            for target, held in few.items():
                beta, after = self._hold(self.coef[:, target], held, C)
                if after is None:
                    found[target] = beta
                elif len(after):
                    open_sets[target] = after
        return found

    def _hold(
        self, free: Floats, held: NDArray[np.intp], C: float
    ) -> tuple[Floats, NDArray[np.intp] | None]:
        """Coefficients with a set held at ±C, and the next set; None where it is the right one."""
        rows = self._rows[self._row_of[held]]
        side = np.sign(free[held])
        try:
            factor = scipy.linalg.cho_factor(rows[:, held], lower=True)
        except scipy.linalg.LinAlgError:
            return free, held[:0]
        pull = scipy.linalg.cho_solve(factor, free[held] - C * side)
        beta = free - pull @ rows
        inside = np.ones(len(beta), dtype=bool)
        inside[held] = False
        beta[held] = C * side
        beta[inside] -= beta.sum() / max(int(inside.sum()), 1)
        beyond = inside & (np.abs(beta) > C)
        stays = pull * side >= 0
        if stays.all() and not beyond.any():
            return beta, None
        # A coefficient that went beyond on the other side than it began on is rare; no set holds
        # it then, and pairs do.
        if (np.sign(beta[beyond]) != np.sign(free[beyond])).any():
            return free, held[:0]
        return beta, np.union1d(held[stays], np.flatnonzero(beyond))

    def _need(self, points: NDArray[np.intp]) -> None:
        """Compute the rows of G that are missing."""
        missing = np.unique(points[self._row_of[points] < 0])
        if not missing.size:
            return
        unit = np.zeros((len(self.K), len(missing)))
        unit[missing, np.arange(len(missing))] = 1.0
        columns = scipy.linalg.cho_solve(self._factor, unit, overwrite_b=True)
        columns -= self._ones[:, None] * (self._ones[missing] / self._ones.sum())
        self._row_of[missing] = len(self._rows) + np.arange(len(missing))
        self._rows = np.vstack([self._rows, columns.T])
