"""Newton directions of logistic losses by conjugate gradients; see `_logistic`.

Vectors are tables of one column per problem or class, so that both products with the rows, Z D and
Zᵀ(Z D), run over memory in its order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn.solvers._logistic_losses import Hessian, Loss, nonzero, take_columns
from zslearn.utils import Array, to_numpy

# Conjugate gradients end here at the latest; the line search makes any direction safe.
MAX_CG = 100
# Problems that are solved are left out of the products when so much of the work is theirs.
_SPARED = 0.2


@dataclass(frozen=True)
class NewtonEquation:
    """Hessian · step = −gradient, in the eigenvectors of the rows.

    Parameters
    ----------
    rows : array of shape (n_samples, width)
        The rows in the eigenvectors.
    loss : Loss
        Which says what a problem is.
    hessian : Hessian
        Of the loss in the scores.
    alpha : float
        Weight of the penalty.
    inverse : array of shape (width, n_columns)
        The preconditioner, a diagonal.
    gradient : array of shape (width, n_columns)
        All in the dtype of the rows.
    n_flat : int, default=0
        So many of the first eigenvectors have the preconditioner for their Hessian.
    """

    rows: Array
    loss: Loss
    hessian: Hessian
    alpha: float
    inverse: Array
    gradient: Array
    n_flat: int = 0

    def solve(self, forcing: Array, close: Array) -> tuple[Array, Array, Array]:
        """Solve inexactly, each problem until it is accurate enough.

        Parameters
        ----------
        forcing : array of shape (1, n_problems)
            Share to which the squared preconditioned norm of the residual is reduced.
        close : array of shape (1, n_problems)
            A squared norm of the residual that is small enough in any case.

        Returns
        -------
        step : array of shape (width, n_columns)
            The direction.
        moved : array of shape (n_samples, n_columns)
            What it does to the scores.
        shift : array of shape (1, n_columns)
            What it does to the intercepts.
        """
        if self.n_flat:
            return self._solve_apart(forcing, close)
        xp, total = self.loss.xp, self.loss.over_samples
        residual = -self.gradient
        guided = self.inverse * residual
        power = total(residual * guided)
        n_columns = residual.shape[1]
        state = _State(
            hessian=self.hessian,
            inverse=self.inverse,
            residual=residual,
            search=guided,
            step=xp.zeros_like(residual),
            moved=xp.zeros_like(self.rows[:, :1]) + xp.zeros_like(residual[:1, :]),
            shift=xp.zeros_like(residual[:1, :]),
            power=power,
            enough=xp.astype(forcing, power.dtype) * power,
            close=xp.astype(close, power.dtype),
        )
        columns = np.arange(n_columns)
        done: list[tuple[NDArray[np.intp], _State]] = []
        for _ in range(MAX_CG):
            squares = total(state.residual * state.residual)
            open_ = (state.power > state.enough) & (squares > state.close)
            is_open = to_numpy(open_)[0]
            if not is_open.any():
                break
            if self.loss.separate and is_open.mean() <= 1 - _SPARED:
                rest, keep = np.flatnonzero(~is_open), np.flatnonzero(is_open)
                done.append((columns[rest], state.take(rest)))
                columns, state, open_ = columns[keep], state.take(keep), take_columns(open_, keep)
            state = self._next(state, open_)
        done.append((columns, state))
        if len(done) == 1:
            return state.step, state.moved, state.shift
        order = np.argsort(np.concatenate([which for which, _ in done]))
        step, moved, shift = (
            take_columns(xp.concat([getattr(part, name) for _, part in done], axis=1), order)
            for name in ("step", "moved", "shift")
        )
        return step, moved, shift

    def _solve_apart(self, forcing: Array, close: Array) -> tuple[Array, Array, Array]:
        """Conjugate gradients in the last eigenvectors, the preconditioner in the first."""
        xp, n_flat = self.loss.xp, self.n_flat
        flat = -self.inverse[:n_flat, :] * self.gradient[:n_flat, :]
        moved = self.rows[:, :n_flat] @ flat
        shift = -self.hessian.intercept_solve(
            xp.sum(self.hessian.times(moved), axis=0, keepdims=True)
        )
        moved = moved + shift
        if n_flat == self.rows.shape[1]:
            return flat, moved, shift
        rows = self.rows[:, n_flat:]
        # What the first do to the gradient along the last.
        gradient = self.gradient[n_flat:, :] + xp.matrix_transpose(rows) @ self.hessian.times(moved)
        inverse = self.inverse[n_flat:, :]
        rest = replace(self, rows=rows, inverse=inverse, gradient=gradient, n_flat=0)
        step, *moves = rest.solve(forcing, close)
        return xp.concat([flat, step], axis=0), moved + moves[0], shift + moves[1]

    def _next(self, state: _State, open_: Array) -> _State:
        """One step of conjugate gradients for the problems that are open."""
        xp, total = self.loss.xp, self.loss.over_samples
        product, scores, shifted = self._multiply(state.hessian, state.search)
        curved = total(state.search * product)
        length = xp.where(open_ & (curved > 0), state.power / nonzero(curved), 0 * state.power)
        residual = state.residual - length * product
        guided = state.inverse * residual
        renewed = total(residual * guided)
        turn = xp.where(open_, renewed / nonzero(state.power), 0 * renewed)
        return replace(
            state,
            residual=residual,
            search=guided + turn * state.search,
            step=state.step + length * state.search,
            moved=state.moved + length * scores,
            shift=state.shift + length * shifted,
            power=renewed,
        )

    def _multiply(self, hessian: Hessian, direction: Array) -> tuple[Array, Array, Array]:
        """The Hessian of F times a direction, and what this does to scores and intercepts.

        It is that of f, after the intercepts have followed the change of the scores.
        """
        xp, Z = self.loss.xp, self.rows
        scores = Z @ direction
        pull = xp.sum(hessian.times(scores), axis=0, keepdims=True)
        shift = -hessian.intercept_solve(pull)
        scores = scores + shift
        product = xp.matrix_transpose(Z) @ hessian.times(scores)
        return product + self.alpha * direction, scores, shift


@dataclass(frozen=True)
class _State:
    """Where conjugate gradients are; every array has one column per problem or class."""

    hessian: Hessian
    inverse: Array
    residual: Array
    search: Array
    step: Array
    moved: Array
    shift: Array
    power: Array
    enough: Array
    close: Array

    def take(self, columns: NDArray[np.intp]) -> _State:
        """Some of the problems."""
        parts: dict[str, Any] = {
            field.name: take_columns(getattr(self, field.name), columns)
            for field in fields(self)
            if field.name != "hessian"
        }
        return _State(hessian=self.hessian.take(columns), **parts)
