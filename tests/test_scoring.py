"""Scores and best classes against direct computations, for any library, block and thread."""

from __future__ import annotations

import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from zslearn._scoring._blocks import class_scores, top_k

LIBRARIES = ["numpy", "torch", "array_api_strict"]
SCORES = ["dot", "euclidean", "cosine", "max_dot"]


def _expected(X, P, score):
    """Direct computation of the scores."""
    if score == "dot":
        return X @ P.T
    if score == "euclidean":
        return -cdist(X, P)
    if score == "max_dot":
        return np.einsum("nd,ckd->nck", X, P).max(axis=2)
    norms = np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(P, axis=1)[None, :]
    return np.divide(X @ P.T, norms, out=np.zeros_like(norms), where=norms > 0)


def _problem(score, n=23, classes=17, dims=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dims))
    shape = (classes, 3, dims) if score == "max_dot" else (classes, dims)
    return X, rng.standard_normal(shape)


@pytest.fixture(params=[False, True], ids=["one block", "many blocks"])
def blocks(request, monkeypatch, block_bytes):
    if request.param:
        monkeypatch.setattr("zslearn._scoring._blocks._CLASS_BLOCK", 5)
        block_bytes(1000)
    return request.param


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("biased", [False, True])
def test_scores_and_best_classes(library, score, biased, blocks):
    xp = pytest.importorskip(library)
    X, P = _problem(score)
    bias = np.linspace(-1, 1, len(P)) if biased else None
    expected = _expected(X, P, score) + (bias if biased else 0)
    rows = xp.asarray(X)
    scores = class_scores(rows, P, score=score, bias=bias)
    assert type(scores) is type(rows)
    np.testing.assert_allclose(np.asarray(scores), expected, rtol=1e-10, atol=1e-12)
    for k in (1, 4, 17):
        indices, values = top_k(rows, xp.asarray(P), k, score=score, bias=bias)
        assert type(indices) is type(rows)
        assert type(values) is type(rows)
        order = np.argsort(-expected, axis=1)[:, :k]
        np.testing.assert_array_equal(np.asarray(indices), order)
        np.testing.assert_allclose(
            np.asarray(values), np.take_along_axis(expected, order, axis=1), rtol=1e-10, atol=1e-12
        )


@given(st.data())
@settings(max_examples=120, deadline=None)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_first_of_equal_scores_wins(library, data):
    """Integer scores are exact, so that ties are exact for any block size."""
    xp = pytest.importorskip(library)
    n, dims = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
    classes = data.draw(st.integers(1, 120))
    k = data.draw(st.integers(1, min(classes, 9)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(-1, 2, (n, dims)).astype(float)
    P = rng.integers(-1, 2, (classes, dims)).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zslearn._scoring._blocks._CLASS_BLOCK", data.draw(st.integers(1, 130)))
        patch.setattr("zslearn._utils._array.BLOCK_BYTES", data.draw(st.integers(1, 4000)))
        indices, values = map(np.asarray, top_k(xp.asarray(X), P, k))
    full = X @ P.T
    order = np.argsort(-full, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(full, order, axis=1))


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("k", [1, 3])
def test_ties_in_other_libraries(library, k):
    xp = pytest.importorskip(library)
    P = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    indices, _ = top_k(xp.asarray([[1.0, 0.0], [0.0, 1.0]]), P, k)
    np.testing.assert_array_equal(np.asarray(indices), [[0, 2, 3][:k], [1, 4, 0][:k]])


def test_dtype_and_precision():
    X, P = _problem("euclidean", dims=50)
    offset = 1000.0
    single = class_scores(
        (X + offset).astype(np.float32), (P + offset).astype(np.float32), score="euclidean"
    )
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, -cdist(X, P), rtol=1e-3)
    assert class_scores(X.astype(np.float16), P).dtype == np.float32
    assert class_scores(np.ones((2, 50), dtype=np.uint8), P).dtype == np.float64


def test_distance_to_itself_is_zero():
    X, _ = _problem("euclidean")
    assert np.abs(np.diag(class_scores(X, X, score="euclidean"))).max() < 1e-7


def test_rows_are_embedded_block_by_block(block_bytes):
    block_bytes(2000)
    X, P = _problem("dot")
    sizes = []

    def embed(rows):
        sizes.append(len(rows))
        return rows * 2

    np.testing.assert_allclose(class_scores(X, P, embed=embed), 2 * X @ P.T)
    assert sum(sizes) == len(X)
    assert len(sizes) > 1


def test_memory_does_not_grow_with_rows_or_classes(tmp_path, monkeypatch, block_bytes):
    block_bytes(1 << 21)
    monkeypatch.setattr("zslearn._scoring._blocks._CLASS_BLOCK", 512)
    # Every thread has a tile of scores.
    monkeypatch.setattr("zslearn._scoring._blocks.blas_threads", lambda: 1)
    rng = np.random.default_rng(0)
    P = rng.standard_normal((4000, 16)).astype(np.float32)
    # Compilation takes memory once.
    top_k(np.ones((2000, 16), dtype=np.float32), P, 3, score="euclidean")

    def peak(n):
        path = tmp_path / f"{n}.npy"
        rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, 16))
        rows[:] = rng.standard_normal((n, 16))
        rows.flush()
        mapped = np.load(path, mmap_mode="r")
        tracemalloc.start()
        top_k(mapped, P, 3, score="euclidean")
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    few, many = peak(500), peak(8000)
    result = 8000 * 3 * (8 + 4)
    # 8,000 × 4,000 scores would take 128 MB.
    assert many < few + result + (4 << 20)
    assert many < 16 << 20


def _sorted(scores, k):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(scores, order, axis=1)


@pytest.fixture
def small_tiles(monkeypatch):
    """Selection in three threads and small tiles."""
    monkeypatch.setattr("zslearn._scoring._blocks.blas_threads", lambda: 3)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_ROWS", 64)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_CLASSES", 100)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n_classes", [1, 7, 99, 101, 1025])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_selection_with_many_ties(n_classes, dtype):
    rng = np.random.default_rng(n_classes)
    X, P = rng.integers(-2, 3, (700, 6)).astype(dtype), rng.integers(-2, 3, (n_classes, 6))
    full, steps = X @ P.T.astype(dtype), np.arange(n_classes) % 3
    for k in sorted({min(k, n_classes) for k in (1, 4, 20, 300)}):
        for bias, scores in ((None, full), (steps, full + steps.astype(dtype))):
            indices, values = top_k(X, P.astype(dtype), k, bias=bias)
            order, best = _sorted(scores, k)
            np.testing.assert_array_equal(indices, order)
            np.testing.assert_array_equal(values, best)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n_classes", [18, 600])
@pytest.mark.parametrize("biased", [False, True])
def test_selection_by_distance(n_classes, biased):
    rng = np.random.default_rng(0)
    X, P = rng.standard_normal((30, 8)), rng.standard_normal((n_classes, 8))
    P[n_classes // 2 :] = P[: n_classes // 2]  # every class twice
    bias = rng.standard_normal(n_classes) if biased else None
    full = class_scores(X, P, score="euclidean", bias=bias)
    for k in (1, 5, 17):
        indices, values = top_k(X, P, k, score="euclidean", bias=bias)
        order, best = _sorted(full, k)
        np.testing.assert_allclose(values, best, rtol=1e-12)
        # Two products with the same class may be rounded differently.
        modulus = n_classes if biased else n_classes // 2
        np.testing.assert_array_equal(indices % modulus, order % modulus)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("order", ["ascending", "descending", "equal", "infinite", "few finite"])
@pytest.mark.parametrize("k", [1, 4, 64])
def test_selection_of_extreme_orders(order, k):
    scores = np.arange(1500, dtype=np.float32)
    scores = {
        "ascending": scores,
        "descending": -scores,
        "equal": np.zeros_like(scores),
        "infinite": np.where(scores % 7 == 0, scores, -np.inf).astype(np.float32),
        "few finite": np.where(scores % 700 == 3, scores, -np.inf).astype(np.float32),
    }[order]
    # Products cannot be infinite, but a bias can.
    indices, values = top_k(np.ones((3, 1), np.float32), np.zeros((1500, 1)), k, bias=scores)
    expected, best = _sorted(np.tile(scores, (3, 1)), k)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, best)


@pytest.mark.parametrize("k", [1, 5])
def test_nan_is_reported(k):
    X = np.ones((5, 3), np.float32)
    X[2] = np.nan
    with pytest.raises(ValueError, match="Scores are NaN"):
        top_k(X, np.eye(50, 3, dtype=np.float32), k)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": "manhattan"}, "not one of"),
        ({"k": 0}, "k must be between 1 and"),
        ({"k": 18}, "k must be between 1 and"),
        ({"bias": [1.0, 2.0]}, "bias must have one number per class"),
        ({"parameters": np.ones((17, 5))}, "the last of length 6"),
        ({"parameters": np.ones((17, 2, 6))}, "needs parameters with 2 axes"),
        ({"X": np.ones((0, 6))}, "no rows"),
    ],
)
def test_invalid_arguments(change, message):
    X, P = _problem("dot")
    with pytest.raises(ValueError, match=message):
        top_k(**{"X": X, "parameters": P, "k": 2, **change})


@pytest.fixture(params=["one bound", "two bounds"])
def bounded(monkeypatch, request):
    """Upper bounds for few classes, in small tiles, however many pass."""
    least = 1 if request.param == "two bounds" else 1000
    monkeypatch.setattr("zslearn._scoring._blocks._MIN_MORE", least)
    monkeypatch.setattr("zslearn._scoring._blocks._MIN_BOUNDED", 0)
    monkeypatch.setattr("zslearn._scoring._blocks._MAX_REST", 2.0)
    monkeypatch.setattr("zslearn._scoring._blocks._MAX_PASSED", 1.0)
    monkeypatch.setattr("zslearn._scoring._blocks._MIN_GROUPS", 2)
    monkeypatch.setattr("zslearn._scoring._blocks._MIN_SEEDS", 2)
    # Without centring, distances of integers are exact.
    monkeypatch.setattr("zslearn._scoring._blocks._MAX_OFFSET", 2.0)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_ROWS", 4)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_CLASSES", 40)


def _bounds_used(monkeypatch):
    """Count the batches of classes that bounds decided."""
    from zslearn._scoring import _blocks

    used, original = [], _blocks._bounded_pairs

    def counted(*args):
        pairs = original(*args)
        used.append(pairs is not None)
        return pairs

    monkeypatch.setattr(_blocks, "_bounded_pairs", counted)
    return used


@pytest.mark.usefixtures("bounded")
@given(data=st.data())
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_bounds_keep_the_best_classes_and_the_order_of_ties(data):
    """Integer scores are exact, so that the result must be that of all scores, ties included."""
    n, classes = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 200))
    rank, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 24))
    k = data.draw(st.integers(1, min(classes, 12)))
    score = data.draw(st.sampled_from(["dot", "euclidean"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    low = rng.integers(-2, 3, (rank, width))
    P = rng.integers(-2, 3, (classes, rank)) @ low + rng.integers(-1, 2, (classes, width))
    X = rng.integers(-2, 3, (n, rank)) @ low
    bias = rng.integers(-3, 4, classes) if data.draw(st.booleans()) else None
    positions = None
    if data.draw(st.booleans()):
        positions = rng.permutation(classes)[: data.draw(st.integers(k, classes))]
    indices, values = top_k(
        X.astype(np.float32), P.astype(np.float32), k, score=score, bias=bias, positions=positions
    )
    full = X @ P.T if score == "dot" else -np.sqrt(((X[:, None] - P) ** 2).sum(axis=2))
    full = full.astype(np.float32)
    full = full if bias is None else full + bias.astype(np.float32)
    full = full if positions is None else full[:, positions]
    order, best = _sorted(full, k)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, best)


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("score", ["dot", "euclidean", "cosine"])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("rest", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("biased", [False, True])
def test_bounds_exclude_only_worse_classes(score, scale, rest, biased, monkeypatch):
    rng = np.random.default_rng(0)
    low, lift = rng.standard_normal((700, 5)), rng.standard_normal((5, 40))
    P = ((low @ lift + rest * rng.standard_normal((700, 40))) * scale).astype(np.float32)
    X = (P[:60] + 0.1 * scale * rng.standard_normal((60, 40))).astype(np.float32)
    monkeypatch.setattr("zslearn._scoring._blocks._TILE_CLASSES", 100)
    used = _bounds_used(monkeypatch)
    full = _expected(X.astype(np.float64), P.astype(np.float64), score)
    bias = 0.1 * full.std() * rng.standard_normal(700).astype(np.float32) if biased else None
    indices, values = top_k(X, P, 6, score=score, bias=bias)
    assert used
    assert all(used)
    full = full if bias is None else full + bias
    _, best = _sorted(full, 6)
    np.testing.assert_allclose(values, best, rtol=1e-5, atol=1e-6 * abs(full).max())
    # No class is better than the last one by more than single precision.
    taken = np.take_along_axis(full, indices, axis=1)
    np.testing.assert_allclose(taken, best, rtol=1e-6, atol=1e-7 * abs(full).max())


def test_classes_that_bounds_cannot_tell_apart_are_compared(bounded, monkeypatch):
    monkeypatch.setattr("zslearn._scoring._blocks._MAX_PASSED", 0.004)
    rng = np.random.default_rng(0)
    X, P = (rng.standard_normal((n, 30)).astype(np.float32) for n in (50, 3000))
    used = _bounds_used(monkeypatch)
    indices, _ = top_k(X, P, 3)
    assert used
    assert not all(used)
    np.testing.assert_array_equal(indices, _sorted(X @ P.T, 3)[0])
    monkeypatch.setattr("zslearn._scoring._blocks._MAX_REST", 0.1)
    used.clear()
    top_k(X, P.copy(), 3)
    assert not used


@pytest.mark.parametrize("score", ["dot", "euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prepared_classes_do_not_outlive_their_parameters(score, dtype):
    P = np.ones((20, 3)) + np.arange(20)[:, None]
    reference = weakref.ref(P)
    top_k(np.ones((1, 3), dtype=dtype), P, 1, score=score)
    top_k(np.ones((1, 3), dtype=dtype), P, 1, score=score)
    del P
    assert reference() is None
