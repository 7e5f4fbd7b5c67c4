import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from zslearn.datasets import make_zero_shot


def nearest(X, points):
    return ((X[:, None] - points[None]) ** 2).sum(axis=-1).argmin(axis=1)


def prototypes(classes, **parameters):
    """Class means: the samples of the same problem without noise."""
    clean = make_zero_shot(**{**parameters, "noise": 0.0})
    return np.array([clean.X[clean.y == label][0] for label in classes])


@settings(deadline=None, max_examples=60)
@given(
    n_seen=st.integers(1, 12),
    n_unseen=st.integers(1, 6),
    n_features=st.integers(1, 9),
    n_attributes=st.integers(1, 7),
    samples_per_class=st.integers(2, 25),
    imbalance=st.floats(0, 0.999),
    nonlinearity=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_properties(
    n_seen, n_unseen, n_features, n_attributes, samples_per_class, imbalance, nonlinearity, seed
):
    data = make_zero_shot(
        n_seen,
        n_unseen,
        n_features=n_features,
        n_attributes=n_attributes,
        samples_per_class=samples_per_class,
        imbalance=imbalance,
        nonlinearity=nonlinearity,
        random_state=seed,
    )
    split = data.active_split
    together = np.concatenate([split.train, split.test_seen, split.test_unseen])
    assert np.array_equal(np.sort(together), np.arange(len(data.y)))
    assert data.X.shape[1] == n_features
    assert np.isfinite(data.X).all()
    assert data.signatures.shape == (n_seen + n_unseen, n_attributes)
    assert set(data.y_train) == set(data.y_test_seen) == set(data.seen_classes)
    assert set(data.y_test_unseen) == set(data.unseen_classes)
    counts = pd.Series(data.y).value_counts()
    assert counts.max() <= samples_per_class
    assert counts.loc[list(data.seen_classes)].min() >= 2


def test_imbalance():
    data = make_zero_shot(40, 10, samples_per_class=100, imbalance=0.9, random_state=0)
    counts = np.sort(pd.Series(data.y).value_counts().to_numpy())
    assert (counts[0], counts[-1]) == (10, 100)
    ratios = counts[1:] / counts[:-1]
    assert np.abs(ratios - 10 ** (1 / 49)).max() < 0.06  # geometric, up to rounding
    even = make_zero_shot(samples_per_class=7, random_state=0)
    assert set(pd.Series(even.y).value_counts()) == {7}


@pytest.mark.parametrize("seed", [3, np.random.RandomState(3)])
def test_seeds(seed):
    first = make_zero_shot(random_state=3)
    second = make_zero_shot(random_state=seed)
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.y, second.y)
    assert first.signatures.equals(second.signatures)
    assert np.array_equal(first.active_split.train, second.active_split.train)
    assert not np.array_equal(first.X, make_zero_shot(random_state=4).X)


def test_version_names_what_was_asked():
    version = make_zero_shot(5, noise=0.5, random_state=np.random.RandomState(0)).version
    assert version == "make_zero_shot-1(n_seen=5, noise=0.5, random_state=RandomState)/ns"


@pytest.mark.parametrize("seed", range(5))
def test_solvable_and_not_perfect(seed):
    data = make_zero_shot(random_state=seed)
    known = prototypes(data.unseen_classes, random_state=seed)
    accuracy = (
        data.unseen_classes[nearest(data.X_test_unseen, known)] == data.y_test_unseen
    ).mean()
    assert 0.9 < accuracy < 1

    # Learned from the seen classes by a linear map of the signatures: above chance (0.2) by far.
    A = data.signatures.loc[data.seen_classes].to_numpy()
    U = data.signatures.loc[data.unseen_classes].to_numpy()
    M = np.array([data.X_train[data.y_train == label].mean(axis=0) for label in data.seen_classes])
    learned = U @ np.linalg.solve(A.T @ A + np.eye(A.shape[1]), A.T @ (M - M.mean(axis=0)))
    learned += M.mean(axis=0)
    predicted = data.unseen_classes[nearest(data.X_test_unseen, learned)]
    assert 0.5 < (predicted == data.y_test_unseen).mean() < accuracy


def test_noise_is_in_units_of_the_distance_of_means():
    parameters = {"n_features": 200, "samples_per_class": 50, "random_state": 0}
    data = make_zero_shot(**parameters, noise=0.3)
    classes = np.unique(data.y)
    means = prototypes(classes, **parameters)
    centred = means - means.mean(axis=0)
    distance = np.sqrt(2 * (centred**2).sum(axis=1).mean())
    spread = (data.X - means[np.searchsorted(classes, data.y)]).std()
    assert spread == pytest.approx(0.3 * distance, rel=0.02)


def test_nonlinearity():
    """Without it the means are an affine function of the signatures; with it they are not."""

    def residual(nonlinearity):
        data = make_zero_shot(
            60, 5, noise=0.0, samples_per_class=2, nonlinearity=nonlinearity, random_state=0
        )
        labels = np.unique(data.y)
        means = np.array([data.X[data.y == label][0] for label in labels])
        design = np.column_stack([data.signatures.loc[labels], np.ones(len(labels))])
        fitted = design @ np.linalg.lstsq(design, means, rcond=None)[0]
        return np.sqrt(np.mean((means - fitted) ** 2))

    assert residual(0.0) < 1e-10
    assert residual(0.0) < 0.1 < residual(0.5) < residual(1.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_seen": 0}, "'n_seen' parameter"),
        ({"samples_per_class": 1}, "'samples_per_class' parameter"),
        ({"imbalance": 1.0}, "'imbalance' parameter"),
        ({"signature_kind": "words"}, "'signature_kind' parameter"),
    ],
)
def test_refusals(parameters, message):
    with pytest.raises(ValueError, match=message):
        make_zero_shot(**parameters)


@pytest.mark.parametrize("scatter", ["equal", "attributes"])
@pytest.mark.parametrize("n_modes", [1, 3])
def test_truth_is_bayes_rule(scatter, n_modes):
    data, truth = make_zero_shot(
        10, 4, n_features=5, scatter=scatter, n_modes=n_modes, return_truth=True, random_state=0
    )
    X, classes = data.X_test_unseen[:20], data.unseen_classes
    expected = np.empty((20, 4))
    for column, label in enumerate(classes):
        position = truth.classes.tolist().index(label)
        density = sum(
            scipy.stats.norm.pdf(X, truth.means[position, mode], truth.scales[position]).prod(
                axis=1
            )
            for mode in range(n_modes)
        )
        expected[:, column] = np.log(density)
    ours = truth.log_density(X, classes)
    # Up to one constant, which all classes and samples share.
    difference = ours - expected
    assert difference == pytest.approx(np.full_like(difference, difference[0, 0]), abs=1e-9)
    assert truth.score(X, classes[expected.argmax(axis=1)], classes=classes) == 1


def test_samples_follow_the_truth():
    data, truth = make_zero_shot(
        6, 3, n_features=4, samples_per_class=4000, scatter="attributes", n_modes=2,
        return_truth=True, random_state=1,
    )  # fmt: skip
    for position, label in enumerate(truth.classes):
        samples = data.X[data.y == label]
        means, scales = truth.means[position], truth.scales[position]
        assert samples.mean(axis=0) == pytest.approx(
            means.mean(axis=0), abs=5 * (scales.max() + 2) / 60
        )
        variance = scales**2 + means.var(axis=0)
        assert samples.var(axis=0) == pytest.approx(variance, rel=0.2)


def test_kinds_of_signatures():
    def make(kind):
        return make_zero_shot(12, 4, n_attributes=6, signature_kind=kind, random_state=0)

    assert set(np.unique(make("binary").signatures)) == {0.0, 1.0}
    mixture = make("mixture")
    seen = mixture.signatures.loc[mixture.seen_classes].to_numpy()
    for row in mixture.signatures.loc[mixture.unseen_classes].to_numpy():
        weights, rest = scipy.optimize.nnls(np.vstack([seen.T, np.ones(12)]), np.append(row, 1))
        assert rest < 1e-8
        assert np.all(weights >= 0)
