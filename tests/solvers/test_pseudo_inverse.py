from __future__ import annotations

import numpy as np
import pytest

from zslearn._solvers._linalg import pseudo_inverse


@pytest.mark.parametrize("smallest", [1e-3, 1e-8, 1e-13, 1e-17, 0.0])
def test_nearly_singular(smallest):
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2))
    values = np.append(np.linspace(1, 2, 19), smallest)
    matrix = (left * values) @ right
    found = pseudo_inverse(matrix)
    assert np.isfinite(found).all()
    # M M⁺ M = M, but for the rounding that M⁺ makes larger.
    atol = 1e-14 * np.abs(found).max()
    np.testing.assert_allclose(matrix @ found @ matrix, matrix, atol=max(atol, 1e-12))
    if smallest < 1e-15:
        expected = np.linalg.pinv(matrix, rcond=1e-12)
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_exactly_singular_and_zero():
    matrix = np.ones((5, 5))
    np.testing.assert_allclose(pseudo_inverse(matrix), matrix / 25, atol=1e-15)
    np.testing.assert_array_equal(pseudo_inverse(np.zeros((3, 3))), np.zeros((3, 3)))
