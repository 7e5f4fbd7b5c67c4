from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from zslearn._solvers import _lbfgs
from zslearn._solvers._lbfgs import lbfgs

_SIZES = np.arange(1.0, 21.0)


def _quadratic(x):
    return 0.5 * x @ (_SIZES * x), _SIZES * x


def _rosenbrock(x):
    return rosen(x), rosen_der(x)


def _steep(x):
    return np.log(np.cosh(_SIZES * x)).sum(), _SIZES * np.tanh(_SIZES * x)


def _descend(function, start, **options):
    """Points after each step, and the number of evaluations."""
    points, n_evaluations, found = [], 0, None
    descent = lbfgs(start, lambda x, _: points.append(x), **options)
    while True:
        try:
            x = descent.send(found)
        except StopIteration:
            return points, n_evaluations
        value, gradient = function(x)
        found, n_evaluations = SimpleNamespace(value=value, gradient=gradient), n_evaluations + 1


@pytest.mark.parametrize("memory", [3, 10])
@pytest.mark.parametrize(
    ("function", "start"),
    [
        (_quadratic, np.ones(20)),
        (_quadratic, 1e-3 * np.ones(20)),
        (_rosenbrock, np.linspace(-1, 2, 20)),
        (_steep, np.linspace(-3, 2, 20)),
    ],
)
def test_takes_the_steps_of_scipy(function, start, memory):
    """Beyond the memory, too; the first step is tried at unit length, and often prolonged."""
    expected: list = []
    found = minimize(
        function, start, jac=True, method="L-BFGS-B", callback=lambda x: expected.append(x.copy()),
        options={"maxiter": 20, "maxcor": memory, "ftol": 0.0, "gtol": 0.0},
    )  # fmt: skip
    points, n_evaluations = _descend(function, start, max_iter=20, tol=0.0, memory=memory)
    assert n_evaluations == found.nfev
    np.testing.assert_allclose(points, expected, rtol=1e-6, atol=1e-8)


def test_ends_where_a_step_gains_little():
    points, _ = _descend(_quadratic, np.ones(20), max_iter=200, tol=1e-4)
    values = [_quadratic(np.ones(20))[0]] + [_quadratic(x)[0] for x in points]
    falls = -np.diff(values) / np.maximum(values[:-1], 1.0)
    assert len(points) < 200
    assert (falls[:-1] > 1e-4).all()
    assert falls[-1] <= 1e-4


def test_a_minimum_is_left_alone():
    assert _descend(_quadratic, np.zeros(20), max_iter=5, tol=0.0) == ([], 1)


@pytest.mark.parametrize("size", [1e-170, 1e150])
def test_ends_where_squares_are_beyond_the_numbers(size):
    points, n_evaluations = _descend(
        lambda x: (size * x.sum(), np.full(4, size)), np.ones(4), max_iter=20, tol=0.0
    )
    assert n_evaluations < 1000
    assert all(np.isfinite(point).all() for point in points)


def test_ends_where_no_step_lowers_the_objective():
    """The gradient is that of another function: every direction leads up."""
    points, n_evaluations = _descend(lambda x: (0.5 * x @ x, -x), np.ones(4), max_iter=50, tol=0.0)
    assert points == []
    assert n_evaluations <= 21


def test_the_memory_is_forgotten_where_it_misleads(monkeypatch):
    """A direction that leads up is not taken: the descent begins again where it is."""
    direction, forgotten = _lbfgs._Steps.direction, []

    def misled(self, gradient):
        if len(self.slots) == 4 and not forgotten:
            forgotten.append(gradient)
            return gradient.copy()
        return direction(self, gradient)

    monkeypatch.setattr(_lbfgs._Steps, "direction", misled)
    points, _ = _descend(_quadratic, np.ones(20), max_iter=300, tol=0.0)
    assert forgotten
    np.testing.assert_allclose(points[-1], 0, atol=1e-6)
