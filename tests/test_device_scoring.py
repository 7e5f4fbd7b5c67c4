"""Scoring on a device, simulated by torch on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from zslearn._scoring._blocks import class_scores, score_precision, top_k
from zslearn._scoring._embedding import Embedding, FeaturePreparation, PreparedRows
from zslearn._scoring._scorer import ClassScorer
from zslearn.base import InputWarning

torch = pytest.importorskip("torch")


@pytest.mark.usefixtures("tensors_on_device")
@pytest.mark.parametrize("score", ["dot", "euclidean", "cosine", "max_dot"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("k", [1, 5, 40, 600])
def test_same_results_as_on_the_host(score, biased, k):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((70, 12))
    P = rng.standard_normal((600, 2, 12) if score == "max_dot" else (600, 12))
    bias = rng.standard_normal(600) if biased else None
    indices, values = top_k(torch.asarray(X), P, k, score=score, bias=bias)
    expected = class_scores(X, P, score=score, bias=bias)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices.numpy(), order)
    best = np.take_along_axis(expected, order, axis=1)
    np.testing.assert_allclose(values.numpy(), best, rtol=1e-12, atol=1e-12)


def test_ties_caused_by_rounding():
    """Many float32 distances are equal after rounding; the first class wins."""
    rng = np.random.default_rng(0)
    P = (1 + 1e-7 * rng.standard_normal((400, 3))).astype(np.float32)
    X = (100 + rng.standard_normal((50, 3))).astype(np.float32)
    for rows in (torch.asarray(X), X, np.repeat(X, 300, axis=0)):
        indices, values = (np.asarray(x)[-50:] for x in top_k(rows, P, 4, score="euclidean"))
        assert (np.diff(values, axis=1) <= 0).all()
        equal = np.diff(values, axis=1) == 0
        assert equal.any()
        assert (np.diff(indices, axis=1)[equal] > 0).all()


@pytest.mark.usefixtures("tensors_on_device")
def test_nan_is_reported():
    X = torch.ones((4, 3), dtype=torch.float64)
    X[2, 1] = torch.nan
    for k in (1, 2):
        with pytest.raises(ValueError, match="Scores are NaN"):
            top_k(X, np.eye(3), k)


@pytest.mark.usefixtures("tensors_on_device")
@pytest.mark.parametrize(
    ("value", "message"), [(torch.nan, "contains NaN"), (1e120, "its square overflows")]
)
def test_errors_name_invalid_features_as_the_cause(value, message):
    """If features cause NaN scores, the error says so."""
    X = torch.ones((4, 3), dtype=torch.float64)
    X[1, 1] = value
    scorer = ClassScorer(np.arange(3), np.eye(3), Embedding(lambda rows: rows, (None,)))
    with pytest.raises(ValueError, match=message):
        scorer.top_k(X, 2)


def test_precision_is_validated():
    with pytest.raises(ValueError, match="not one of"), score_precision("half"):
        pass
    X, P = torch.eye(3), np.eye(3)
    with score_precision("bf16"):
        np.testing.assert_array_equal(top_k(X, P, 1)[0][:, 0].numpy(), [0, 1, 2])


@pytest.mark.usefixtures("tensors_on_device")
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_reduced_precision(precision):
    """The TF32 switch has no effect on the host; only bfloat16 rounding shows."""
    rng = np.random.default_rng(0)
    X, P = torch.asarray(rng.random((20, 8)), dtype=torch.float32), rng.random((30, 8))
    before = torch.backends.cuda.matmul.allow_tf32
    with score_precision(precision):
        scores = class_scores(X, P)
    assert torch.backends.cuda.matmul.allow_tf32 == before
    error = np.abs(scores.numpy() - X.numpy() @ P.T).max()
    assert (1e-4 < error < 3e-2) if precision == "bf16" else error < 1e-5


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("norm", ["l2", None])
def test_prepared_rows(library, norm, block_bytes):
    xp = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 4)).astype(np.float32)
    rows = PreparedRows(xp.asarray(X), norm)
    block_bytes(600)
    rows.check()
    expected = FeaturePreparation(norm)(X)
    # Libraries differ in the order of summation; NumPy results do not depend on blocks.
    rtol = 0 if library == "numpy" else 1e-6
    for part, key in ((rows.whole(), slice(None)), (rows[3:9, :], slice(3, 9))):
        np.testing.assert_allclose(np.asarray(part), expected[key], rtol=rtol)
    np.testing.assert_allclose(np.asarray(rows[3:9, 1:3]), expected[3:9, 1:3], rtol=rtol)
    assert (rows.shape, len(rows)) == (X.shape, 50)
    with pytest.raises(TypeError, match="indexed by slices"):
        rows[np.arange(3)]


def test_prepared_rows_refuse_or_replace_nan():
    X = np.ones((5, 3))
    X[2, 0] = np.nan
    with pytest.warns(InputWarning, match="1 NaN"):
        PreparedRows(X, "l2").check()
    with pytest.raises(ValueError, match="feature_norm=None does not replace"):
        PreparedRows(X, None).check()
    with pytest.raises(ValueError, match="overflows or underflows"):
        PreparedRows(np.full((2, 2), 1e-200), None).check()
