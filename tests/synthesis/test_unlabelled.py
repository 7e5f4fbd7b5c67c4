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
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.metrics import ausuc
from zslearn.synthesis import GaussianEXEM, _adaptation_trial
from zslearn.synthesis._adaptation_trial import UNLABELLED_WEIGHTS, Trial, accepted_weight
from zslearn.synthesis._gaussian_process import ClassGaussians
from zslearn.synthesis._unlabelled import (
    Assignment,
    Background,
    Mixture,
    UnlabelledSums,
    assigned,
)

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
    first, weight, tau = np.array([0.75, 0.25]), 0.4, 2.0
    width, level, slope = np.array([1.5, 2.5]), 0.3, 0.6

    def normal(x, mean, variance):
        return np.exp(-0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum())

    odds = []
    for x in z:
        inside = sum(first[c] * normal(x, prior.means[c], 1 + prior.variances[c]) for c in range(2))
        odds.append(np.exp(level - 0.2 * np.log(2)) * (inside / normal(x, 0.0, 1 + width)) ** slope)
    odds, share = np.array(odds), 0.1
    for _ in range(50):
        explained = odds * (1 - share) / (share + odds * (1 - share))
        share = min(((1 - explained).sum() + 0.1) / 4, 0.95)
    means, shares = prior.means, first
    for _ in range(2):
        r = np.zeros((3, 2))
        for i in range(3):
            weights = [
                shares[c] * normal(z[i], means[c], np.ones(2)) ** (1 / (0.7 * tau))
                for c in range(2)
            ]
            r[i] = explained[i] * np.array(weights) / sum(weights)
        counts, n = r.sum(axis=0), r.sum()
        precision = 1 / prior.variances + weight * counts[:, None]
        means = (prior.means / prior.variances + weight * (r.T @ z)) / precision
        evidence = np.minimum(np.prod(1 - r, axis=0) / (1 - counts / n) ** n, 1.0)
        shares = (counts + 20 * first) / (1 + evidence)
        shares = shares / shares.sum()
    proportions = (counts + first) / (1 + evidence)

    def scores(classes, sums):
        mean = classes.means
        return mean / tau, -0.5 * (mean**2).sum(axis=1, keepdims=True) / tau

    blocks = [z[:2], z[2:]]
    mixture = Mixture(prior, np.log(first), width)
    found = assigned(lambda: blocks, mixture, weight, scores, Background(level, slope, -0.2))
    np.testing.assert_allclose(found.sums.counts, counts, rtol=1e-6)
    np.testing.assert_allclose(found.sums.sums, r.T @ z, rtol=1e-6)
    np.testing.assert_allclose(found.proportions, proportions / proportions.sum(), rtol=1e-6)
    assert found.unexplained == pytest.approx(share)
    assert found.n == 3


def test_images_inform_about_similar_classes_outside_the_space(data):
    """The joint posterior of the components orthogonal to the space, and their scores."""
    model, classes = fitted(data, unlabelled_weight=0.5), np.sort(data.unseen_classes)
    present = np.isin(data.y_test_unseen, classes[::2])
    X = data.X_test_unseen[present]
    prepared, posterior = np.asarray(model._prepare(X).whole()), model.posterior_
    table = model.signature_table_
    signatures = model._normalized(table.subset(table.positions(classes)))
    rows = posterior.unlabelled_rows(prepared, len(classes))
    found = posterior.assigned(lambda: [rows], signatures, classes, 0.5)
    prior = posterior.space.complement.signal * posterior.prior.correlations(signatures)
    np.testing.assert_allclose(np.diag(prior), posterior.space.complement.signal)
    noise = np.diag(1 / (0.3 * 0.5 * found.sums.counts))
    means = prior @ np.linalg.solve(prior + noise, found.sums.means[:, posterior.n_dims :])
    assert (np.abs(means[1::2]).max(axis=1) > 1e-3 * np.abs(means).max()).all()
    # Without the component, scores differ by its log density.
    adapted = posterior.with_unlabelled(classes, found, 0.5)
    without = posterior.with_unlabelled(classes, found._replace(orthogonal=None), 0.5)
    scores, before = (
        part.embed(prepared) @ part.parameters(signatures, classes).T for part in (adapted, without)
    )
    columns = posterior.space.columns(means)
    density = rows[:, posterior.n_dims :] @ columns.T - 0.5 * (means * columns).sum(axis=1)
    np.testing.assert_allclose(scores - before, density / posterior.temperature, atol=1e-8)


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


def test_images_of_one_class():
    """Some images are left to the background, so that fewer are explained than there are."""
    data = make_zero_shot(n_seen=14, n_unseen=6, random_state=1)
    model, X, classes = fitted(data), data.X_test_unseen, np.sort(data.unseen_classes)
    alone = model.adapt(X, classes=classes[:1], accept=True)
    assert alone.adaptation_.proportions.tolist() == [1.0]
    assert np.isfinite(alone.decision_function(X)).all()
    for own in classes[:2]:
        images = X[data.y_test_unseen == own]
        done = model.adapt(images, classes=classes[:2], accept=True).adaptation_
        assert done.proportions[own] > 0.9


def test_classes_that_span_all_features():
    """Nothing lies outside the space of the seen classes, neither here nor in the trial."""
    data = make_zero_shot(n_seen=40, n_unseen=6, n_features=10, random_state=0)
    adapted = fitted(data).adapt(data.X_test_unseen, accept=True)
    assert adapted.adaptation_.score_before is not None
    assert np.isfinite(adapted.decision_function(data.X_test_unseen)).all()


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


def test_a_refusal_reports_both_scores(model, data):
    sure = copy.deepcopy(model)
    sure.adapt(data.X_test_unseen)
    trial = sure._trial_images.trials["all"]
    worse = trial._replace(gains=np.full_like(trial.gains, -0.014), before=0 * trial.before + 0.512)
    sure._trial_images.trials["all"] = worse
    with pytest.warns(UserWarning, match=r"not adapted.*0\.512 without and 0\.498"):
        refused = sure.adapt(data.X_test_unseen)
    assert not refused.adaptation_.accepted
    np.testing.assert_array_equal(
        refused.decision_function(data.X_test_seen), model.decision_function(data.X_test_seen)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sure.adapt(data.X_test_unseen, accept=True).adaptation_.accepted


def test_sets_are_recognised_by_what_can_be_seen_of_them():
    looks = np.array(
        [
            [1.3, 0, 1], [0.5, 0, 1], [1, 0, 0.5], [1, 0, 0.5], [1.6, 0.5, 1], [1.3, 0.95, 1],
            [1, 0, 0.9],
        ]
    )  # fmt: skip
    gains = np.repeat([[0.05], [0.02], [0.03], [-0.06], [0.04], [-0.05], [0.03]], 4, axis=1)
    gains = gains * [0.2, 0.5, 1.0, 0.9]
    trial = Trial(Background(0, 1, 0), np.full(7, 0.7), gains, np.zeros((7, 4)), looks)
    proportions = np.full(10, 0.1)
    sums = UnlabelledSums(10 * proportions, np.zeros((10, 2)), np.zeros(10))
    usual = trial.expectation(Assignment(sums, proportions, 0.02, 200))
    assert usual.weight == 0.3
    assert usual.after > usual.before
    foreign = trial.expectation(Assignment(sums, proportions, 0.93, 200))
    assert foreign.kind == "foreign only"
    assert foreign.weight == 0
    # All classes gain where half of them are absent, but the absent ones lose.
    uneven = np.repeat([0.0, 0.2], 5)
    absent = trial.expectation(Assignment(sums, uneven, 0.02, 200))
    assert (absent.kind, absent.weight) == (_adaptation_trial.KINDS[3], 0)
    # More images may be foreign than it seems.
    mixed = trial.expectation(Assignment(sums, proportions, 0.5, 200))
    assert (mixed.kind, mixed.weight) == ("foreign only", 0)
    assert accepted_weight(usual, "cv") == 0.3
    said = (
        f'may be of the kind "foreign only".* the harmonic mean .* is {foreign.before:.3f} without'
    )
    with pytest.warns(UserWarning, match=said):
        assert accepted_weight(foreign, "cv", measure="harmonic mean") == 0


def test_foreign_images_are_refused_or_harmless(model, data):
    """Images of classes that are no candidates."""
    half = np.sort(data.unseen_classes)[::2]
    own = np.isin(data.y_test_unseen, half)
    X, y = data.X_test_unseen, data.y_test_unseen
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = model.adapt(X[~own], classes=half)
    assert adapted.adaptation_.background_share > 0.6
    before = model.score(X[own], y[own], classes=half)
    assert adapted.score(X[own], y[own], classes=half) >= before - 0.01


def test_scale_rotation_and_order_change_nothing(data):
    rng = np.random.default_rng(0)
    n = data.X_train.shape[1]
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
    order = rng.permutation(len(data.y_train))
    results = []
    for X, rows in (
        (lambda X: X, slice(None)),
        (lambda X: 3 * X, slice(None)),
        (lambda X: X @ turn, slice(None)),
        (lambda X: X, order),
    ):
        model = GaussianEXEM()
        model.fit(X(data.X_train[rows]), data.y_train[rows], signatures=data.signatures)
        adapted = model.adapt(X(data.X_test_unseen), classes=data.unseen_classes)
        scores = adapted.decision_function(X(data.X_test_unseen))
        results.append((adapted.adaptation_, model.unlabelled_gains_["alone"], scores))
    (first, gains, scores), *others = results
    for adaptation, other_gains, other_scores in others:
        assert adaptation.weight == first.weight
        assert adaptation.background_share == pytest.approx(first.background_share, abs=1e-3)
        # Rounding may decide about single images that two classes fit equally well.
        np.testing.assert_allclose(other_gains, gains, atol=0.01)
        np.testing.assert_allclose(other_scores, scores, atol=1e-2)


def test_proportions_are_a_prior_for_the_set_itself(model, data):
    present = np.sort(data.unseen_classes)[::3]
    own = np.isin(data.y_test_unseen, present)
    X, y = data.X_test_unseen[own], data.y_test_unseen[own]
    adapted = model.adapt(X, classes=data.unseen_classes, accept=True)
    shares = adapted.adaptation_.proportions
    assert shares[present].sum() > 0.8
    found = adapted.predict(X, classes=data.unseen_classes, prior=shares)
    assert (found == y).mean() >= adapted.score(X, y, classes=data.unseen_classes)


def test_nothing_left_out(data):
    few = np.isin(data.y_train, data.seen_classes[:6])
    model = GaussianEXEM().fit(data.X_train[few], data.y_train[few], signatures=data.signatures)
    with pytest.warns(UserWarning, match="No classes were held out to test"):
        assert model.adapt(data.X_test_unseen[:3]).unlabelled_gains_ == {}
    with pytest.warns(UserWarning, match="ten seen classes"):
        assert not model.adapt(data.X_test_unseen).adaptation_.accepted
    with pytest.raises(ValueError, match="accept must be"):
        model.adapt(data.X_test_unseen, accept="yes")
    with pytest.raises(ValueError, match="unknown classes"):
        model.adapt(data.X_test_unseen, classes=["nobody"])


def test_the_trial_runs_once_at_the_first_adapt(data, monkeypatch):
    """Copies share the result, whichever of them is adapted first."""
    tried = []
    trial = _adaptation_trial._trial
    monkeypatch.setattr(
        _adaptation_trial, "_trial", lambda *args: tried.append(args[1]) or trial(*args)
    )
    model = fitted(data)
    assert tried == []
    copy.copy(model).adapt(data.X_test_unseen)
    assert tried == ["all"]
    model.adapt(data.X_test_unseen[:20])
    assert tried == ["all"]
    model.adapt(data.X_test_unseen, classes=data.unseen_classes)
    assert tried == ["all", "alone"]


def test_the_trial_is_of_the_fit_and_is_saved(data, tmp_path):
    """Examples that were added since play no part, and a loaded model tries as the first did."""
    model, other = fitted(data), fitted(data)
    other.add_examples(data.X_test_unseen[:30], data.y_test_unseen[:30])
    zslearn.save(other, tmp_path / "before.zsl")
    X, loaded = data.X_test_unseen[:5], zslearn.load(tmp_path / "before.zsl")
    gains = model.adapt(X, accept=True).unlabelled_gains_["all"]
    for copied in (other, loaded):
        found = copied.adapt(X, accept=True).unlabelled_gains_["all"]
        np.testing.assert_allclose(found, gains, atol=1e-12)
    zslearn.save(loaded, tmp_path / "after.zsl")
    again = zslearn.load(tmp_path / "after.zsl").unlabelled_gains_["all"]
    np.testing.assert_array_equal(again, found)
    assert list(again.index) == list(_adaptation_trial.KINDS)


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
    assert model.adapt(data.X_test_unseen).adaptation_.weight == 0.2
    assert model.unlabelled_gains_ == {}


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


@pytest.mark.parametrize("method", [GaussianEXEM(), GFZSL()])
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
