from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import pdist

from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.signatures import (
    SignatureViews,
    median_distance,
    normalize_signatures,
    normalized_similarity,
    rbf_similarity,
)

finite = st.floats(-100, 100, allow_nan=False, width=32)


def matrices(max_rows=8, columns=None):
    columns = st.integers(1, 5) if columns is None else st.just(columns)
    shapes = st.tuples(st.integers(2, max_rows), columns)
    return shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=finite))


def test_golden_normalisation(golden_arrays):
    golden = golden_arrays("tiny_ps_sig")
    ours = normalize_signatures(golden["attr2_div100"], scale=float(golden["median_L2"]))
    np.testing.assert_allclose(ours, golden["Sig_L2"], rtol=0, atol=1e-12)


def test_golden_distances_and_similarities(golden_arrays):
    golden = golden_arrays("tiny_ps_sig")
    signatures = golden["Sig_Y_L2"]
    seen = signatures[golden["label_S"].astype(int) - 1]
    unseen = signatures[golden["label_U"].astype(int) - 1]
    squares = -np.log(rbf_similarity(signatures))
    np.testing.assert_allclose(squares, golden["Sig_dist"] ** 2, atol=1e-12)
    for exponent in range(-5, 6):
        gamma = 2.0**exponent
        np.testing.assert_allclose(
            normalized_similarity(seen, gamma=gamma), golden[f"SimSS_2^{exponent}"], atol=1e-12
        )
        np.testing.assert_allclose(
            normalized_similarity(unseen, seen, gamma=gamma),
            golden[f"SimUS_2^{exponent}"],
            atol=1e-12,
        )
    np.testing.assert_allclose(
        rbf_similarity(unseen, seen, gamma=0.5), golden["Sim_US_scale0.5_RBF"], atol=1e-12
    )
    np.testing.assert_allclose(
        normalized_similarity(unseen, seen, gamma=0.5),
        golden["Sim_US_scale0.5_RBF_norm"],
        atol=1e-12,
    )


def test_golden_median_differs_by_the_diagonal_only(golden_arrays):
    golden = golden_arrays("tiny_ps_sig")
    rows = normalize_signatures(golden["attr2_div100"], scale=1.0)
    # The program's median counts rounding noise on the diagonal; ours is the off-diagonal one.
    assert median_distance(rows) == pytest.approx(0.8913, abs=5e-5)
    assert float(golden["median_L2"]) == pytest.approx(0.8840, abs=5e-5)


@given(matrices())
def test_normalised_signatures_have_unit_length_and_median_one(rows):
    scaled = normalize_signatures(rows)
    lengths = np.linalg.norm(scaled, axis=1)
    nonzero = rows.any(axis=1)
    if nonzero.any():
        np.testing.assert_allclose(lengths[nonzero], lengths[nonzero][0], rtol=1e-9)
    assert np.all(lengths[~nonzero] == 0)
    distances = pdist(scaled)
    counted = distances[distances > 1e-12 * lengths.max()]
    if counted.size:
        assert np.median(counted) == pytest.approx(1.0, rel=1e-6)


def test_the_median_of_many_classes_is_exact():
    """Beyond 4,096 classes the distances are not held at once."""
    rows = np.random.default_rng(0).standard_normal((4200, 3))
    rows[::7] = rows[1]  # equal rows do not count
    distances = pdist(rows)
    assert median_distance(rows) == pytest.approx(np.median(distances[distances > 0]), rel=1e-12)
    for n_rows in (5, 4200):
        assert median_distance(np.ones((n_rows, 2))) == 1.0


def test_scale_and_gamma_are_checked():
    with pytest.raises(ValueError, match="scale must be a positive number"):
        normalize_signatures([[1.0], [2.0]], scale=0.0)
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        rbf_similarity(np.eye(2), gamma=0.0)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_similarities_in_any_library(library):
    xp = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((7, 5)) + 100, rng.standard_normal((4, 5)) + 100
    for function in (rbf_similarity, normalized_similarity):
        for arrays in ((a, b), (a,)):
            ours = function(*map(xp.asarray, arrays))
            assert type(ours) is type(xp.asarray(a))
            np.testing.assert_allclose(np.asarray(ours), function(*arrays), rtol=1e-10)


@given(matrices(columns=3), st.floats(-12, 12))
def test_rows_of_similarities_sum_to_one(rows, exponent):
    similar = normalized_similarity(rows, gamma=2.0**exponent)
    assert np.isfinite(similar).all()
    np.testing.assert_allclose(similar.sum(axis=1), 1.0)


def test_far_signatures_do_not_underflow():
    a, b = np.array([[100.0]]), np.array([[0.0], [1.0]])
    assert rbf_similarity(a, b, gamma=2.0**10).sum() == 0
    np.testing.assert_array_equal(normalized_similarity(a, b, gamma=2.0**10), [[0.0, 1.0]])


def test_kernels_of_views_are_combined_convexly():
    rng = np.random.default_rng(1)
    first, second = rng.standard_normal((6, 3)), rng.standard_normal((6, 5))
    views = SignatureViews((first, second), (0.3, 0.7))
    expected = 0.3 * rbf_similarity(first, gamma=0.5) + 0.7 * rbf_similarity(second, gamma=0.5)
    np.testing.assert_allclose(rbf_similarity(views, gamma=0.5), expected)
    np.testing.assert_allclose(
        normalized_similarity(views, views[:4], gamma=0.5),
        expected[:, :4] / expected[:, :4].sum(axis=1, keepdims=True),
    )
    both = views.concatenate()
    np.testing.assert_allclose(both @ both.T, 0.3 * first @ first.T + 0.7 * second @ second.T)
    with pytest.raises(ValueError, match="same views"):
        rbf_similarity(views, SignatureViews((first,), (1.0,)))


def test_a_view_of_weight_zero_counts_for_nothing():
    rng = np.random.default_rng(2)
    first, second = rng.standard_normal((6, 3)), rng.standard_normal((6, 5))
    views = SignatureViews((first, second), (1.0, 0.0))
    np.testing.assert_allclose(normalized_similarity(views), normalized_similarity(first))


# Names of classes: many of them, and names that look the same.

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"
SHOWN = r"code points: 'caf\\xe9' and 'cafe\\u0301'"


def fitted(names):
    rng = np.random.default_rng(0)
    signatures = pd.DataFrame(rng.normal(size=(len(names), 3)), index=names)
    y = np.repeat(names[:3], 4)
    return ESZSL().fit(rng.normal(size=(12, 5)), y, signatures=signatures)


def test_twins_among_the_signatures_and_new_classes():
    with pytest.raises(ValueError, match="signatures has names that look identical.*" + SHOWN):
        fitted(["ant", "bee", COMPOSED, DECOMPOSED])
    model = fitted(["ant", "bee", COMPOSED])
    new = pd.DataFrame([[1.0, 2, 3]], index=[DECOMPOSED])
    with pytest.raises(ValueError, match=SHOWN):
        model.add_classes(new)
    assert COMPOSED in fitted(["ant", "bee", COMPOSED]).classes_


def test_many_classes_with_few_signatures_are_added_in_little_memory():
    model = fitted(["ant", "bee", "cat"])

    def same(kind):
        return pd.DataFrame(np.ones((1000, 3)), index=[f"{kind} {i}" for i in range(1000)])

    with pytest.warns(InputWarning, match="999 pairs of classes"):
        model.add_classes(same("first"))
    tracemalloc.start()
    with pytest.warns(InputWarning, match="pairs of classes cannot be distinguished"):
        model.add_classes(same("second"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e7
