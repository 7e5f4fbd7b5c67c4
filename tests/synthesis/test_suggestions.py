"""Which images to label next."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.model_selection import ZeroShotPipeline
from zslearn.synthesis import GaussianEXEM, Suggestions


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(n_seen=40, n_unseen=10, nonlinearity=1.0, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    model = GaussianEXEM(unlabelled_weight=0.1)
    return model.fit(data.X_train, data.y_train, signatures=data.signatures)


@pytest.fixture(scope="module")
def found(data, model):
    return model.suggest(data.X_test_unseen, classes=data.unseen_classes)


def test_the_first_gain_is_that_of_a_direct_computation(data, model, found):
    """Label the image as each class in turn, and predict all others with either model."""
    X, classes = data.X_test_unseen, data.unseen_classes
    row = found.rows[0]
    others = np.delete(np.arange(len(X)), row)
    before = model.predict(X[others], classes=classes)
    expected = 0.0
    for place in np.argsort(-model.predict_proba(X[[row]], classes=classes)[0])[:3]:
        probability = model.predict_proba(X[[row]], classes=classes)[0, place]
        if probability < 0.01:
            continue
        labelled = model._copy().add_examples(X[[row]], classes[[place]])
        after = labelled.predict_proba(X[others], classes=classes)
        chosen = np.searchsorted(classes, before)
        expected += probability * (after.max(axis=1) - after[np.arange(len(after)), chosen]).sum()
    # What the image reveals orthogonally to the space is not part of the expectation.
    assert found.gains[0] == pytest.approx(expected / len(X), rel=0.2)


def test_suggestions_are_rows_with_their_predictions(data, model, found):
    X, classes = data.X_test_unseen, data.unseen_classes
    assert isinstance(found, Suggestions)
    assert len(set(found.rows.tolist())) == len(found.rows) == 10
    best, probabilities = model.predict_top_k(X[found.rows], 1, classes=classes, proba=True)
    np.testing.assert_array_equal(found.labels, best[:, 0])
    np.testing.assert_allclose(found.probabilities, probabilities[:, 0])
    assert (found.gains > 0).all()
    # Fewer suggestions are the first of more.
    few = model.suggest(X, 3, classes=classes)
    np.testing.assert_array_equal(few.rows, found.rows[:3])
    np.testing.assert_allclose(few.gains, found.gains[:3])


def test_suggestions_are_diverse(data, model, found):
    """Copies of the best image are of little use, and images of several classes are chosen."""
    assert len(set(found.labels.tolist())) >= 4
    X = np.concatenate([data.X_test_unseen, np.repeat(data.X_test_unseen[found.rows[:1]], 5, 0)])
    rows = model.suggest(X, classes=data.unseen_classes).rows
    copies = {int(found.rows[0]), *range(len(data.X_test_unseen), len(X))}
    assert len(copies & set(rows[:3].tolist())) == 1


@pytest.mark.parametrize("change", ["order", "scale", "type"])
def test_suggestions_do_not_depend_on_order_or_scale(data, model, found, change):
    X, rows = data.X_test_unseen, np.arange(len(data.X_test_unseen))
    if change == "order":
        rows = np.random.default_rng(0).permutation(rows)
        X = X[rows]
    elif change == "scale":
        X = 3 * X
    else:
        X = pd.DataFrame(X)
    again = model.suggest(X, classes=data.unseen_classes[::-1])
    np.testing.assert_array_equal(rows[again.rows], found.rows)
    np.testing.assert_allclose(again.gains, found.gains, rtol=1e-6)
    pd.testing.assert_frame_equal(again.classes, found.classes, rtol=1e-6)


@pytest.mark.parametrize("change", ["scale", "rotation"])
def test_scaled_and_rotated_data_give_the_same_suggestions(data, found, change):
    n = data.X_train.shape[1]
    factor = 3 * np.eye(n)
    if change == "rotation":
        factor = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    model = GaussianEXEM(unlabelled_weight=0.1)
    model.fit(data.X_train @ factor, data.y_train, signatures=data.signatures)
    again = model.suggest(data.X_test_unseen @ factor, classes=data.unseen_classes)
    np.testing.assert_array_equal(again.rows, found.rows)
    np.testing.assert_allclose(again.gains, found.gains, rtol=1e-3)


def test_labels_of_suggested_images_help_more_than_random_ones(data, model):
    X, y, classes = data.X_test_unseen, data.y_test_unseen, data.unseen_classes

    def after(rows):
        labelled = model._copy().add_examples(X[rows], y[rows])
        return labelled.score(np.delete(X, rows, axis=0), np.delete(y, rows), classes=classes)

    rng = np.random.default_rng(0)
    n = len(classes)
    chance = [after(rng.choice(len(X), n, replace=False)) for _ in range(20)]
    assert after(model.suggest(X, n, classes=classes).rows) > np.mean(chance)


def test_a_small_or_empty_pool(data, model):
    X, classes = data.X_test_unseen[:4], data.unseen_classes
    few = model.suggest(X, 10, classes=classes)
    assert sorted(few.rows.tolist()) == [0, 1, 2, 3]
    none = model.suggest(X[:0], classes=classes)
    assert len(none.rows) == len(none.gains) == len(none.labels) == 0
    assert list(none.classes["images"]) == [0.0] * len(classes)
    assert set(none.classes["advice"]) == {"description"}
    alone = model.suggest(X, classes=classes[:1])
    np.testing.assert_array_equal(alone.rows, [0, 1, 2, 3])
    assert (alone.gains == 0).all()


def test_images_of_known_classes_are_worth_little(data, model):
    X = np.concatenate([data.X_train[::10], data.X_test_unseen])
    found = model.suggest(X, 5)
    assert set(found.classes.index) == set(model.classes_.tolist())
    unseen = set(data.unseen_classes.tolist())
    assert set(found.labels.tolist()) <= unseen
    seen = found.classes.drop(index=list(unseen))
    assert (seen["labelled"] == data.y_train.size // len(data.seen_classes)).all()
    assert seen["uncertainty"].max() < found.classes.loc[list(unseen), "uncertainty"].min()


def test_labelled_images_make_a_class_less_uncertain(data, model, found):
    X, y = data.X_test_unseen, data.y_test_unseen
    label = y[found.rows[0]]
    rows = np.flatnonzero(y == label)
    labelled = model._copy().add_examples(X[rows], y[rows])
    again = labelled.suggest(np.delete(X, rows, axis=0), classes=data.unseen_classes)
    assert again.classes.loc[label, "labelled"] == len(rows)
    for column in ("uncertainty", "gain"):
        assert again.classes.loc[label, column] < found.classes.loc[label, column]


def test_classes_that_attributes_cannot_tell_apart(data):
    """Two unseen classes with one description need another one, or images."""
    first, second = data.unseen_classes[:2]
    signatures = data.signatures.copy()
    signatures.loc[second] = signatures.loc[first]
    model = GaussianEXEM(unlabelled_weight=0.1)
    with pytest.warns(UserWarning, match="cannot be distinguished"):
        model.fit(data.X_train, data.y_train, signatures=signatures)
    found = model.suggest(data.X_test_unseen, classes=data.unseen_classes)
    assert [(pair.first, pair.second) for pair in found.indistinct] == [(first, second)]
    assert found.classes.loc[first, "same_attributes"] == second
    assert found.classes.loc[second, "same_attributes"] == first
    assert list(found.classes.loc[[first, second], "advice"]) == ["description"] * 2
    rows = np.flatnonzero(np.isin(data.y_test_unseen, [first, second]))
    model.add_examples(data.X_test_unseen[rows], data.y_test_unseen[rows])
    found = model.suggest(data.X_test_unseen, classes=data.unseen_classes)
    assert found.indistinct == []
    assert "description" not in found.classes.loc[[first, second], "advice"].tolist()


def test_a_large_pool_is_represented(data, model, monkeypatch, tmp_path):
    """Rows are chosen by their predictions, in memory and on disk alike."""
    from zslearn.synthesis import _suggestions

    monkeypatch.setattr(_suggestions, "_MAX_IMAGES", 100)
    X = data.X_test_unseen
    found = model.suggest(X, classes=data.unseen_classes)
    assert found.classes["images"].sum() == pytest.approx(len(X), rel=0.05)
    order = np.random.default_rng(0).permutation(len(X))
    again = model.suggest(X[order], classes=data.unseen_classes)
    np.testing.assert_array_equal(order[again.rows], found.rows)
    np.save(tmp_path / "X.npy", X)
    on_disk = FeatureBlocks(np.load(tmp_path / "X.npy", mmap_mode="r"), block_bytes=20_000)
    streamed = model.suggest(on_disk, classes=data.unseen_classes)
    np.testing.assert_array_equal(streamed.rows, found.rows)
    # Never fewer than are asked for.
    assert len(model.suggest(X, 120, classes=data.unseen_classes).rows) == 120


def test_wrappers_use_their_calibration(data, model, found):
    stacked = CalibratedStacking(GaussianEXEM(unlabelled_weight=0.1), bias=0.5, temperature=2.0)
    stacked.fit(data.X_train, data.y_train, signatures=data.signatures)
    again = stacked.suggest(data.X_test_unseen, classes=data.unseen_classes)
    _, p = stacked.predict_top_k(
        data.X_test_unseen[again.rows], 1, classes=data.unseen_classes, proba=True
    )
    np.testing.assert_allclose(again.probabilities, p[:, 0])
    steps = [("pca", PCA(30, random_state=0)), ("method", GaussianEXEM())]
    pipeline = ZeroShotPipeline(steps)
    pipeline.fit(data.X_train, data.y_train, signatures=data.signatures)
    assert len(pipeline.suggest(data.X_test_unseen, 3).rows) == 3
    other = CalibratedStacking(ESZSL(), bias=0.0)
    other.fit(data.X_train, data.y_train, signatures=data.signatures)
    assert not hasattr(other, "suggest")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a positive integer; got 0"),
        ({"n": 2.5}, "n must be a positive integer; got 2.5"),
        ({"n": True}, "n must be a positive integer; got True"),
        ({"classes": []}, "classes is empty"),
        ({"classes": ["nothing"]}, "classes names unknown classes"),
    ],
)
def test_invalid_arguments(data, model, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.suggest(data.X_test_unseen, **arguments)


def test_features_of_another_number(data, model):
    with pytest.raises(ValueError, match="features"):
        model.suggest(data.X_test_unseen[:, :-1])


def test_arrays_of_other_libraries(data, model, found):
    torch = pytest.importorskip("torch")
    X = torch.asarray(np.array(data.X_test_unseen))
    again = model.suggest(X, classes=data.unseen_classes)
    np.testing.assert_array_equal(again.rows, found.rows)
    np.testing.assert_allclose(again.gains, found.gains, rtol=1e-6)


def test_dask_arrays_of_unknown_length(data, model, found):
    array = pytest.importorskip("dask.array")
    X = array.from_array(np.array(data.X_test_unseen), chunks=(37, -1))
    again = model.suggest(X[array.ones(len(X), chunks=37) > 0], classes=data.unseen_classes)
    np.testing.assert_array_equal(again.rows, found.rows)


def test_the_model_does_not_change(data, model):
    before = model.predict_proba(data.X_test_unseen)
    model.suggest(data.X_test_unseen, 20)
    np.testing.assert_array_equal(model.predict_proba(data.X_test_unseen), before)
