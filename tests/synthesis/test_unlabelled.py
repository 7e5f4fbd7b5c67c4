"""Gaussian EXEM and images without labels."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import zslearn
from zslearn.base._meta import as_zero_shot
from zslearn.baselines import GFZSL
from zslearn.calibration import Adapted
from zslearn.calibration._unlabelled import UNLABELLED_WEIGHTS, WeightChoice, best_choice
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.metrics import ausuc
from zslearn.synthesis import EXEM, GaussianEXEM
from zslearn.synthesis._gaussian_process import ClassGaussians
from zslearn.synthesis._unlabelled import unlabelled_sums

PIPELINE = make_pipeline(PCA(40, random_state=0), GaussianEXEM())


@pytest.fixture(scope="module")
def data():
    # Signatures that say little of the classes, so that images have much to add.
    return make_zero_shot(n_seen=40, n_unseen=12, nonlinearity=1.0, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return GaussianEXEM().fit(data.X_train, data.y_train, signatures=data.signatures)


def fitted(data, **settings):
    return GaussianEXEM(**settings).fit(data.X_train, data.y_train, signatures=data.signatures)


def accuracy(model, data):
    return model.score(data.X_test_unseen, data.y_test_unseen, classes=data.unseen_classes)


def test_images_without_labels_help(model, data):
    before = model.decision_function(data.X_test_unseen)
    adapted = model.adapt(data.X_test_unseen, classes=data.unseen_classes)
    done = adapted.adaptation_
    assert done.accepted
    assert done.weight in UNLABELLED_WEIGHTS
    assert done.score_after > done.score_before
    assert accuracy(adapted, data) > accuracy(model, data)
    assert done.n_samples == len(data.X_test_unseen)
    assert list(done.moved.index) == sorted(data.unseen_classes)
    assert (done.moved > 0).all()
    assert done.proportions.sum() == pytest.approx(1)
    np.testing.assert_array_equal(
        adapted.adapted_from_.decision_function(data.X_test_unseen), before
    )
    # The model that was adapted is as it was.
    np.testing.assert_array_equal(model.decision_function(data.X_test_unseen), before)
    assert not hasattr(model, "adaptation_")


def test_expectation_and_maximisation_by_hand():
    """Two classes and three images, against loops over the formulas of the module."""
    prior = ClassGaussians(np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[0.5, 2.0], [1.0, 0.3]]))
    z = np.array([[0.1, 0.9], [1.5, -1.0], [6.0, 7.0]])
    first, weight, temperature = np.array([0.75, 0.25]), 0.4, 2.0
    width = np.array([1.5, 2.5])

    def normal(x, mean, variance):
        return np.exp(-0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum())

    means, variances, shares, background = prior.means, prior.variances, first, 0.1
    for _ in range(3):
        r, explained = np.zeros((3, 2)), np.zeros(3)
        for i in range(3):
            within = sum(shares[c] * normal(z[i], means[c], 1 + variances[c]) for c in range(2))
            outside = normal(z[i], 0.0, 1 + width)
            explained[i] = (1 - background) * within
            explained[i] /= explained[i] + background * outside
            weights = [
                shares[c] * normal(z[i], means[c], np.ones(2)) ** (1 / temperature)
                for c in range(2)
            ]
            r[i] = explained[i] * np.array(weights) / sum(weights)
        counts = r.sum(axis=0)
        precision = 1 / prior.variances + weight * counts[:, None]
        means = (prior.means / prior.variances + weight * (r.T @ z)) / precision
        variances = 1 / precision
        shares = (counts + 3 * first) / (counts.sum() + 3)
        background = (3 - explained.sum() + 0.3 * 0.1) / 3.3

    def scores(classes):
        mean = classes.means
        return mean / temperature, -0.5 * (mean**2).sum(axis=1, keepdims=True) / temperature

    blocks = [z[:2], z[2:]]
    found = unlabelled_sums(lambda: blocks, prior, np.log(first), width, weight, scores)
    np.testing.assert_allclose(found.counts, counts, rtol=1e-10)
    np.testing.assert_allclose(found.sums, r.T @ z, rtol=1e-10)
    assert found.explained == pytest.approx(explained.sum())
    assert found.n == 3


def test_order_and_blocks_do_not_matter(model, data):
    X = data.X_test_unseen
    whole = model.adapt(X).decision_function(X)
    turned = model.adapt(X[::-1].copy()).decision_function(X)
    np.testing.assert_allclose(turned, whole, rtol=0, atol=1e-9)
    blocks = FeatureBlocks(X, block_bytes=7 * X[0].nbytes)
    np.testing.assert_allclose(model.adapt(blocks).decision_function(X), whole, rtol=0, atol=1e-9)


@pytest.mark.parametrize("empty", [np.empty((0, 0)), "rows"])
def test_no_images_change_nothing(model, data, empty):
    X = data.X_test_unseen[:0] if isinstance(empty, str) else empty
    adapted = model.adapt(X)
    assert adapted.adaptation_.n_samples == 0
    assert (adapted.adaptation_.moved == 0).all()
    np.testing.assert_array_equal(
        adapted.decision_function(data.X_test_seen), model.decision_function(data.X_test_seen)
    )


def test_images_of_no_class_change_little(data):
    """Images of undescribed classes hardly reduce the accuracy, and are recognised as such."""
    model = fitted(data)
    half = np.sort(data.unseen_classes)[::2]
    own = np.isin(data.y_test_unseen, half)
    mixed = model.adapt(data.X_test_unseen, classes=half).adaptation_
    clean = model.adapt(data.X_test_unseen[own], classes=half).adaptation_
    assert mixed.background_share > clean.background_share
    X, y = data.X_test_unseen[own], data.y_test_unseen[own]
    before = model.score(X, y, classes=half)
    after = model.adapt(data.X_test_unseen, classes=half).score(X, y, classes=half)
    assert after >= before - 0.02


def test_ten_times_as_many_images_of_some_classes(model, data):
    """How many images the pile holds of each class is found, and costs hardly any accuracy."""
    many = np.sort(data.unseen_classes)[::2]
    y = data.y_test_unseen
    rows = [np.flatnonzero(y == c)[: None if c in many else 3] for c in data.unseen_classes]
    adapted = model.adapt(data.X_test_unseen[np.concatenate(rows)], classes=data.unseen_classes)
    shares = adapted.adaptation_.proportions
    assert shares[many].mean() > 2 * shares.drop(many).mean()
    assert accuracy(adapted, data) >= accuracy(model, data) - 0.02


def test_absent_classes_stay_where_they_are(model, data):
    present = np.sort(data.unseen_classes)[::2]
    own = np.isin(data.y_test_unseen, present)
    done = model.adapt(data.X_test_unseen[own], classes=data.unseen_classes).adaptation_
    assert done.proportions[present].mean() > 2 * done.proportions.drop(present).mean()


def test_adapting_again_begins_anew(model, data):
    X = data.X_test_unseen
    twice = model.adapt(X[:20]).adapt(X)
    np.testing.assert_allclose(
        twice.decision_function(X), model.adapt(X).decision_function(X), atol=1e-12
    )


def test_an_adapted_model_goes_on_learning(model, data):
    X, y = data.X_test_unseen, data.y_test_unseen
    adapted = model.adapt(X, classes=data.unseen_classes)
    known = accuracy(adapted, data)
    adapted.add_examples(X[:12], y[:12])
    assert accuracy(adapted, data) >= known - 0.02
    adapted.add_classes({"new": data.signatures.iloc[:2].mean()})
    assert "new" in adapted.classes_
    # Adapting to other images keeps the labelled ones.
    again = adapted.adapt(X, classes=data.unseen_classes)
    assert again.adaptation_.n_samples == len(X)


def test_refusal_is_said_with_both_numbers(model, data):
    sure = copy.deepcopy(model)
    sure._trial_images.choices = {
        name: WeightChoice(0.0, 0.512, 0.498) for name in ("alone", "all")
    }
    with pytest.warns(UserWarning, match=r"not adapted.*0\.512 without and 0\.498"):
        refused = sure.adapt(data.X_test_unseen)
    assert not refused.adaptation_.accepted
    np.testing.assert_array_equal(
        refused.decision_function(data.X_test_seen), model.decision_function(data.X_test_seen)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sure.adapt(data.X_test_unseen, accept=True).adaptation_.accepted


def test_nothing_left_out(data):
    few = np.isin(data.y_train, data.seen_classes[:6])
    model = GaussianEXEM().fit(data.X_train[few], data.y_train[few], signatures=data.signatures)
    with pytest.warns(UserWarning, match="No classes were held out to test"):
        assert model.adapt(data.X_test_unseen[:3]).unlabelled_choices_ == {}
    with pytest.warns(UserWarning, match="ten seen classes"):
        assert not model.adapt(data.X_test_unseen).adaptation_.accepted
    with pytest.raises(ValueError, match="accept must be"):
        model.adapt(data.X_test_unseen, accept="yes")
    with pytest.raises(ValueError, match="unknown classes"):
        model.adapt(data.X_test_unseen, classes=["nobody"])


def test_choice_needs_a_gain_and_no_loss_elsewhere():
    # Three folds; all in the pile, half absent, half not described; without and with each trust.
    scores = np.full((3, 3, 1 + len(UNLABELLED_WEIGHTS)), 0.5)
    scores[:, 0, 1:] = [0.6, 0.7, 0.8, 0.9]
    assert best_choice(scores) == WeightChoice(UNLABELLED_WEIGHTS[3], 0.5, pytest.approx(0.9))
    scores[:, 1, 4] = 0.4
    assert best_choice(scores).weight == UNLABELLED_WEIGHTS[2]
    scores[:, 2, 1:] = 0.4
    refused = best_choice(scores)
    assert refused.weight == 0
    assert refused.after == pytest.approx(0.9)


def test_nothing_is_chosen_for_all_classes_without_images_of_seen_ones(data):
    few = np.concatenate([np.flatnonzero(data.y_train == c)[:3] for c in data.seen_classes])
    model = GaussianEXEM()
    model.fit(data.X_train[few], data.y_train[few], signatures=data.signatures)
    assert list(model.adapt(data.X_test_unseen[:0]).unlabelled_choices_) == ["alone"]
    with pytest.warns(UserWarning, match="No classes were held out"):
        assert not model.adapt(data.X_test_unseen).adaptation_.accepted


def test_left_out_classes_do_not_depend_on_order(data):
    order = np.random.default_rng(0).permutation(len(data.y_train))
    shuffled = GaussianEXEM().fit(
        data.X_train[order], data.y_train[order], signatures=data.signatures
    )
    choices, others = (
        model.adapt(data.X_test_unseen[:5]).unlabelled_choices_
        for model in (fitted(data), shuffled)
    )
    assert set(choices) == {"alone", "all"}
    for name, choice in choices.items():
        other = others[name]
        # Rounding may decide about single images that two classes fit equally well.
        assert choice[1:] == pytest.approx(other[1:], abs=0.01)
        assert bool(choice.weight) == bool(other.weight)


def test_the_trial_is_made_once_by_the_first_adapt(data, monkeypatch):
    """`fit` is one fit; copies share the result, whichever of them is adapted first."""
    learned = []
    learn = GaussianEXEM._learn.__func__
    monkeypatch.setattr(
        GaussianEXEM,
        "_learn",
        classmethod(lambda *args: learned.append(1) or learn(*args)),
    )
    model = fitted(data)
    assert len(learned) == 1
    copy.copy(model).adapt(data.X_test_unseen)
    assert len(learned) == 4
    model.adapt(data.X_test_unseen[:20])
    assert len(learned) == 4


def test_the_trial_is_of_the_fit_and_is_saved(data, tmp_path):
    """Examples that were added since play no part, and a loaded model chooses as the first did."""
    model, other = fitted(data), fitted(data)
    other.add_examples(data.X_test_unseen[:30], data.y_test_unseen[:30])
    zslearn.save(other, tmp_path / "before.zsl")
    X, loaded = data.X_test_unseen[:5], zslearn.load(tmp_path / "before.zsl")
    choices = model.adapt(X).unlabelled_choices_
    assert other.adapt(X).unlabelled_choices_ == choices
    assert loaded.adapt(X).unlabelled_choices_ == choices
    zslearn.save(loaded, tmp_path / "after.zsl")
    assert zslearn.load(tmp_path / "after.zsl").unlabelled_choices_ == choices


def test_showing_a_model_tries_nothing(data):
    model = fitted(data)
    assert "GaussianEXEM" in model._repr_html_()
    assert not hasattr(model, "unlabelled_choices_")


def test_adapting_again_and_again_keeps_no_chain(data, tmp_path):
    model, sizes = fitted(data), []
    for start in range(3):
        model = model.adapt(data.X_test_unseen[start:])
        zslearn.save(model, tmp_path / "model.zsl")
        sizes.append((tmp_path / "model.zsl").stat().st_size)
    assert not hasattr(model.adapted_from_, "adapted_from_")
    assert sizes[2] < 1.2 * sizes[1]


def test_given_weight_leaves_nothing_out(data):
    model = fitted(data, unlabelled_weight=0.2)
    assert model.unlabelled_choices_ == {}
    assert model.adapt(data.X_test_unseen).adaptation_.weight == 0.2


def test_streams_and_dask(model, data, tmp_path):
    X = np.asarray(data.X_test_unseen, dtype=np.float32)
    whole = model.adapt(X).decision_function(X)
    np.save(tmp_path / "features.npy", X)
    stream = FeatureBlocks.open(tmp_path / "features.npy")
    np.testing.assert_allclose(model.adapt(stream).decision_function(X), whole, atol=1e-4)
    array = pytest.importorskip("dask.array")
    chunks = array.from_array(X, chunks=(11, -1))
    np.testing.assert_allclose(model.adapt(chunks).decision_function(X), whole, atol=1e-4)


def test_tensors(model, data):
    torch = pytest.importorskip("torch")
    X = np.asarray(data.X_test_unseen, dtype=np.float32)
    whole = model.adapt(X).decision_function(X)
    found = model.adapt(torch.from_numpy(X)).decision_function(X)
    np.testing.assert_allclose(found, whole, atol=1e-3)


def test_file(model, data, tmp_path):
    adapted = model.adapt(data.X_test_unseen)
    zslearn.save(adapted, tmp_path / "adapted.zsl")
    loaded = zslearn.load(tmp_path / "adapted.zsl")
    np.testing.assert_array_equal(
        loaded.decision_function(data.X_test_seen), adapted.decision_function(data.X_test_seen)
    )
    assert loaded.adaptation_.moved.equals(adapted.adaptation_.moved)
    again = loaded.adapted_from_.adapt(data.X_test_unseen)
    np.testing.assert_allclose(
        again.decision_function(data.X_test_seen), adapted.decision_function(data.X_test_seen)
    )


def test_other_settings(data):
    model = fitted(data, mean_error_weight=0.3)
    adapted = model.adapt(data.X_test_unseen, classes=data.unseen_classes, accept=True)
    assert accuracy(adapted, data) >= accuracy(model, data) - 0.02


def test_sparse_images_are_refused_by_name(model, data):
    with pytest.raises(TypeError, match="dense"):
        model.adapt(csr_matrix(data.X_test_unseen))


def test_inside_a_pipeline_and_a_search(data):
    from zslearn.calibration import PredictionSets
    from zslearn.model_selection import ZeroShotPipeline, ZeroShotSearchCV

    train = {"X": data.X_train, "y": data.y_train, "signatures": data.signatures}
    X, y = data.X_test_unseen, data.y_test_unseen
    steps = clone(PIPELINE).steps
    pipeline = ZeroShotPipeline(steps).fit(**train)
    adapted = pipeline.adapt(X, classes=data.unseen_classes)
    assert adapted.steps[-1][1].adaptation_.n_samples == len(X)
    assert not hasattr(pipeline.steps[-1][1], "adaptation_")
    moved = adapted.add_examples(X[:2], y[:2]).decision_function(X)
    assert not np.allclose(moved, pipeline.decision_function(X))
    search = ZeroShotSearchCV(GaussianEXEM(), {"alpha": [0.1, 0.3]}, cv=2).fit(**train)
    assert search.adapt(X, classes=data.unseen_classes).estimator_.adaptation_.accepted
    # A promise that was made for the model as it was does not hold for an adapted one.
    sets = PredictionSets(GaussianEXEM()).fit(**train)
    with pytest.raises(TypeError, match="are invalid for an adapted model"):
        sets.adapt(X)
    from zslearn.baselines import ESZSL

    assert not hasattr(
        ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0]}, cv=2).fit(**train), "adapt"
    )


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
@pytest.mark.parametrize("pile", ["zsl", "gzsl"])
@pytest.mark.parametrize("method", [GaussianEXEM(), GFZSL(), PIPELINE])
def test_a_search_adapts_in_its_folds_by_hand(data, method, pile, setting):
    from zslearn.model_selection import GeneralizedClassKFold, ZeroShotSearchCV

    folds = GeneralizedClassKFold(3, unlabelled=pile, random_state=1)
    name = "alpha_mean" if isinstance(method, GFZSL) else "unlabelled_weight"
    name = f"gaussianexem__{name}" if method is PIPELINE else name
    grid = {name: [0.1, 0.3] if name == "alpha_mean" else [0.3, 0.0]}
    scoring = ["accuracy"] if setting == "zsl" else ["ausuc", "accuracy"]
    search = ZeroShotSearchCV(method, grid, cv=folds, setting=setting, scoring=scoring)
    X, y, seen = data.X_train, data.y_train, data.signatures.loc[data.seen_classes]
    search.fit(X, y, signatures=data.signatures)
    for i, (train, test) in enumerate(folds.split(X, y)):
        left = np.setdiff1d(data.seen_classes, y[train])
        own = test[np.isin(y[test], left)]
        for j, given in enumerate(search.cv_results_["params"]):
            fitted = (
                as_zero_shot(method).set_params(**given).fit(X[train], y[train], signatures=seen)
            )
            if given[name]:
                among = {"classes": left} if pile == "zsl" else {}
                fitted = fitted.adapt(X[own if pile == "zsl" else test], **among)
            accuracy = fitted.score(X[own], y[own], classes=left)
            found = {n: search.cv_results_[f"split{i}_test_{n}"][j] for n in scoring}
            assert found["accuracy"] == pytest.approx(accuracy)
            if setting == "gzsl":
                classes = {"classes": fitted.classes_, "seen_classes": fitted.seen_classes_}
                area = ausuc(y[test], fitted.decision_function(X[test]), **classes)
                assert found["ausuc"] == pytest.approx(area)


@pytest.mark.parametrize("method", [GaussianEXEM(), Adapted(EXEM()), GFZSL()])
def test_a_removed_class_forgets_the_images_taken_for_its(data, method):
    fitted = clone(method).fit(data.X_train, data.y_train, signatures=data.signatures)
    X, label = data.X_test_unseen, data.unseen_classes[0]
    before = fitted.decision_function(X, classes=[label])
    always = {} if isinstance(method, GFZSL) else {"accept": True}
    adapted = copy.deepcopy(fitted).adapt(X, classes=data.unseen_classes, **always)
    assert not np.allclose(adapted.decision_function(X, classes=[label]), before)
    adapted.remove_classes([label]).add_classes(data.signatures.loc[[label]])
    np.testing.assert_allclose(adapted.decision_function(X, classes=[label]), before, atol=1e-9)


def test_a_given_weight_is_that_of_the_folds_that_calibrate(data):
    from zslearn.calibration import CalibratedStacking
    from zslearn.model_selection import GeneralizedClassKFold

    given = {"X": data.X_train, "y": data.y_train, "signatures": data.signatures}

    def factor(weight, pile):
        folds = GeneralizedClassKFold(3, unlabelled=pile, random_state=1)
        model = CalibratedStacking(GaussianEXEM(unlabelled_weight=weight), cv=folds)
        return model.fit(**given).bias_

    assert factor(0.0, "gzsl") == factor(0.7, None) == factor(0.0, None)
    assert factor(0.7, "gzsl") != factor(0.0, "gzsl")


def test_folds_with_a_pile_name_a_method_that_cannot_adapt(data):
    from zslearn.baselines import ESZSL
    from zslearn.model_selection import ClassKFold, ZeroShotSearchCV

    search = ZeroShotSearchCV(
        ESZSL(), {"alpha_features": [1.0, 10.0]}, cv=ClassKFold(2, unlabelled="zsl")
    )
    with pytest.raises(TypeError, match="ESZSL has no adapt method"):
        search.fit(data.X_train, data.y_train, signatures=data.signatures)
