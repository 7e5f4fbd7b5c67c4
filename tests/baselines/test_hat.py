from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from zslearn.base import InputWarning
from zslearn.baselines import HAT
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.signatures import cluster_hierarchy, normalize_signatures

SIGNATURES = pd.DataFrame(
    {
        "cat": [1, 0, 1, 0, 1],
        "dog": [1, 1, 0, 0, 1],
        "fox": [1, 0, 0, 0, 1],
        "hawk": [0, 1, 1, 1, 1],
        "owl": [0, 0, 1, 1, 1],
        "trout": [0, 1, 1, 0, 1],
        "wolf": [1, 1, 1, 0, 1],
        "crow": [0, 1, 0, 1, 1],
        "shark": [0, 0, 1, 0, 1],
    },
    index=["furry", "large", "fierce", "winged", "alive"],
).T.astype(float)
SEEN = ["cat", "dog", "fox", "hawk", "owl", "trout"]
HIERARCHY = {
    "cat": "mammal",
    "dog": "canine",
    "fox": "canine",
    "wolf": "canine",
    "canine": "mammal",
    "hawk": "bird",
    "owl": "bird",
    "trout": "animal",
    "mammal": "animal",
    "bird": "animal",
    "shark": "fish",
    "fish": "animal",
}
BELOW_ANIMAL = {child: parent for child, parent in HIERARCHY.items() if parent != "animal"}
# The inner nodes above each class, from the root down; the crow goes with the hawk.
PATHS = {
    **{name: ["animal", "mammal", "canine"] for name in ("dog", "fox", "wolf")},
    "cat": ["animal", "mammal"],
    **{name: ["animal", "bird"] for name in ("hawk", "owl", "crow")},
    **{name: ["animal"] for name in ("trout", "shark")},
}
UNDER = {
    "animal": SEEN,
    "mammal": ["cat", "dog", "fox"],
    "canine": ["dog", "fox"],
    "bird": ["hawk", "owl"],
}


@pytest.fixture(scope="module")
def zoo():
    rng = np.random.default_rng(0)
    y = np.repeat(SEEN, [6, 9, 7, 5, 8, 6])
    means = SIGNATURES @ rng.standard_normal((5, 10))
    return means.loc[y].to_numpy() + rng.standard_normal((len(y), 10)), y


def _by_hand(X, y, row, label, alpha, delta, beta):
    """The stated score of one image and one class, with scikit-learn's ridge regressions."""
    square = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    binary = SIGNATURES * 2 - 1

    def classifier(node, targets):
        rows = np.isin(y, UNDER[node])
        target = targets.loc[y[rows]].to_numpy()
        ridge = Ridge(alpha=alpha * square * rows.sum()).fit(X[rows], target)
        return ridge.predict(row[None])[0] - target.mean()

    path = PATHS[label]
    total = 0.0
    for attribute in SIGNATURES.columns:
        varying = {
            depth: node
            for depth, node in enumerate(path)
            if binary.loc[UNDER[node], attribute].nunique() > 1
        }
        norm = sum(delta**depth for depth in varying)
        score = sum(
            delta**depth / norm * classifier(node, binary[attribute])
            for depth, node in varying.items()
        )
        total += binary.loc[label, attribute] * score / SIGNATURES.shape[1]
    for parent, child in itertools.pairwise(path):
        inside = pd.Series({c: 1.0 if c in UNDER[child] else -1.0 for c in SEEN})
        total += beta / (len(path) - 1) * classifier(parent, inside)
    return total


@pytest.mark.parametrize("columns", [10, 4], ids=["kernel at small nodes", "covariance"])
@pytest.mark.slow
def test_equals_the_stated_score(zoo, columns):
    X, y = zoo[0][:, :columns], zoo[1]
    model = HAT(HIERARCHY, alpha=0.05, depth_weight=0.6, category_weight=0.3, feature_norm=None)
    scores = model.fit(X, y, signatures=SIGNATURES).decision_function(X[:7])
    for i in range(7):
        for column, label in enumerate(model.classes_):
            expected = _by_hand(X, y, X[i], label, 0.05, 0.6, 0.3)
            assert scores[i, column] == pytest.approx(expected, abs=1e-10)


def test_nodes(zoo):
    model = HAT(HIERARCHY).fit(*zoo, signatures=SIGNATURES)
    assert [nodes.tolist() for nodes in model.nodes_] == [
        UNDER["animal"],
        UNDER["mammal"],
        UNDER["canine"],
        UNDER["bird"],
    ]
    assert model.node_parents_.tolist() == [-1, 0, 1, 0]
    assert not model.hierarchy_built_
    assert [len(HAT(HIERARCHY, n_levels=n).fit(*zoo).nodes_) for n in (1, 2, 3, None)] == [
        1,
        3,
        4,
        4,
    ]


@pytest.mark.parametrize(
    "form",
    [
        list(HIERARCHY.items()),
        pd.DataFrame(HIERARCHY.items(), columns=["child", "parent"]),
        pd.DataFrame(HIERARCHY.items(), columns=["child", "parent"]).assign(weight=1)[
            ["weight", "parent", "child"]
        ],
        {**HIERARCHY, "animal": None},
        # Without a common root, and with inner nodes above no seen class.
        {**BELOW_ANIMAL, "trout": "fish", "moss": "plant"},
        {**BELOW_ANIMAL, "trout": None, "shark": None},
    ],
    ids=["list", "frame", "frame with more columns", "root named", "forest", "classes as roots"],
)
def test_forms_of_a_hierarchy(zoo, form):
    X, y = zoo
    expected = HAT(HIERARCHY).fit(X, y, signatures=SIGNATURES).decision_function(X)
    found = HAT(form).fit(X, y, signatures=SIGNATURES).decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_numbers_as_labels(zoo):
    X, y = zoo
    number = {label: i for i, label in enumerate(sorted(SIGNATURES.index))}
    pairs = [(number.get(child, child), parent) for child, parent in HIERARCHY.items()]
    renamed = SIGNATURES.rename(index=number)
    codes = np.asarray([number[label] for label in y])
    expected = HAT(HIERARCHY).fit(X, y, signatures=SIGNATURES).decision_function(X)
    frame = pd.DataFrame(pairs, columns=["child", "parent"])
    for form in (pairs, frame):
        found = HAT(form).fit(X, codes, signatures=renamed).decision_function(X)
        np.testing.assert_array_equal(found, expected)


def test_a_class_that_is_also_an_inner_node(zoo):
    """Labels may stand above other labels: the dog above the fox."""
    tree = {**HIERARCHY, "fox": "dog"}
    tree["wolf"] = "dog"
    model = HAT(tree).fit(*zoo, signatures=SIGNATURES)
    assert ["dog", "fox"] in [nodes.tolist() for nodes in model.nodes_]


def test_new_classes_take_their_place(zoo):
    X, y = zoo
    whole = HAT(HIERARCHY).fit(X, y, signatures=SIGNATURES)
    late = HAT(HIERARCHY).fit(X, y, signatures=SIGNATURES.loc[SEEN])
    late.add_classes(SIGNATURES.loc[["shark", "wolf", "crow"]])
    np.testing.assert_allclose(
        late.decision_function(X), whole.decision_function(X), rtol=1e-9, atol=1e-12
    )


def test_without_a_hierarchy_one_is_built_with_a_warning(problem):
    data = (problem.X_train, problem.y_train)
    with pytest.warns(InputWarning, match="builds one by clustering"):
        silent = HAT().fit(*data, signatures=problem.signatures)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*clustering")
        meant = HAT("cluster").fit(*data, signatures=problem.signatures)
        HAT().fit(*data)  # no signatures: an ordinary classifier
    assert silent.hierarchy_built_
    assert len(silent.nodes_) > 1
    scores = meant.decision_function(problem.X_test_unseen)
    np.testing.assert_array_equal(silent.decision_function(problem.X_test_unseen), scores)
    # The public function builds the same one, and places unseen classes by their signatures.
    pairs = cluster_hierarchy(problem.signatures.loc[np.sort(problem.seen_classes)])
    named = HAT(pairs).fit(*data, signatures=problem.signatures)
    np.testing.assert_allclose(named.decision_function(problem.X_test_unseen), scores)


def test_one_level_is_flat_attribute_least_squares(problem):
    model = HAT("cluster", n_levels=1, alpha=0.01)
    model.fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X = normalize(problem.X_train)
    A = pd.DataFrame(normalize_signatures(problem.signatures), index=problem.signatures.index)
    B = np.where(A.gt(A.loc[model.seen_classes_].mean()), 1.0, -1.0)
    targets = pd.DataFrame(B, index=A.index).loc[problem.y_train].to_numpy()
    square = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    ridge = Ridge(alpha=0.01 * square * len(X)).fit(X, targets)
    scores = (ridge.predict(X) - targets.mean(axis=0)) @ B.T / B.shape[1]
    np.testing.assert_allclose(
        model.decision_function(problem.X_train, classes=A.index), scores, atol=1e-10
    )


def test_binary_signatures_stay_as_they_are(problem):
    """Normalisation by the length of a row does not change which attributes are present."""
    rng = np.random.default_rng(0)
    binary = (rng.random((16, 30)) < np.linspace(0.1, 0.95, 16)[:, None]).astype(float)
    binary[:, 0] = 1
    tree = {name: f"node {i % 4}" for i, name in enumerate(problem.signatures.index)}
    scores = []
    for low in (0.0, -1.0):
        table = pd.DataFrame(np.where(binary == 1, 1.0, low), index=problem.signatures.index)
        model = HAT(tree).fit(problem.X_train, problem.y_train, signatures=table)
        np.testing.assert_array_equal(model.thresholds_, 0.0)
        scores.append(model.decision_function(problem.X_test_unseen))
    # Rows of −1 and 1 all have the same length.
    np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-12)


def test_a_search_over_hierarchies_scores_each_by_its_own_nodes(problem):
    names = problem.signatures.index.tolist()
    trees = [{name: f"node {i % n}" for i, name in enumerate(names)} for n in (2, 3)]
    # Nodes of the same sizes but other classes: a wrong one would not change any shape.
    trees.append(dict(zip(names, np.roll(list(trees[0].values()), 1), strict=True)))
    trees.append({name: f"node {i // 8}" for i, name in enumerate(names)})
    data = (problem.X_train, problem.y_train)
    grid = {"hierarchy": ["cluster", *trees]}
    search = ZeroShotSearchCV(HAT("cluster"), grid, cv=3)
    search.fit(*data, signatures=problem.signatures)
    found = dict(
        zip(map(str, grid["hierarchy"]), search.cv_results_["mean_test_accuracy"], strict=True)
    )
    for hierarchy in grid["hierarchy"]:
        alone = ZeroShotSearchCV(HAT(hierarchy), {"alpha": [1e-3, 1e-2]}, cv=3)
        alone.fit(*data, signatures=problem.signatures)
        assert found[str(hierarchy)] == alone.cv_results_["mean_test_accuracy"][0]


def test_strengths_beside_binary_signatures_are_refused(zoo):
    """Any strength above 0 would count as having the attribute."""
    strengths = SIGNATURES.copy()
    strengths.loc["wolf"] = 0.1 + 0.8 * strengths.loc["wolf"]
    with pytest.raises(ValueError, match=r"these classes do not: 'wolf'.*binarize_signatures"):
        HAT(HIERARCHY).fit(*zoo, signatures=strengths)
    model = HAT(HIERARCHY).fit(*zoo, signatures=SIGNATURES.loc[SEEN])
    with pytest.raises(ValueError, match=r"these classes do not: 'wolf'"):
        model.add_classes(strengths.loc[["wolf"]])
    assert model.classes_.tolist() == SEEN


@pytest.mark.parametrize(
    ("hierarchy", "message"),
    [
        ({k: v for k, v in HIERARCHY.items() if k != "owl"}, "lacks 1 of the 6.*'owl'"),
        ({**HIERARCHY, "animal": "canine"}, "cycle"),
        ([*HIERARCHY.items(), ("cat", "bird")], "more than one parent to 'cat'"),
        ([("cat", "mammal", "animal")], "not a pair"),
        ({}, "empty"),
        ("wordnet", "hierarchy"),
    ],
)
def test_bad_hierarchies(zoo, hierarchy, message):
    with pytest.raises(ValueError, match=message):
        HAT(hierarchy).fit(*zoo, signatures=SIGNATURES)


@pytest.mark.filterwarnings(
    "ignore::zslearn.base.InputWarning"
)  # equal classes, and a class of zeros
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_recovery_where_attributes_look_different_in_each_branch(seed):
    """The assumption of the method: each branch has its own map from attributes to features."""
    rng = np.random.default_rng(seed)
    n_branches, per_branch, n_attributes, n_features = 3, 24, 10, 60
    signatures = rng.integers(2, size=(n_branches * per_branch, n_attributes)).astype(float)
    branch = np.repeat(np.arange(n_branches), per_branch)
    maps = rng.standard_normal((n_branches, n_attributes, n_features))
    means = 4 * rng.standard_normal((n_branches, n_features))[branch]
    means += np.einsum("cm,cmd->cd", 2 * signatures - 1, maps[branch])
    names = np.asarray([f"class {i:02d}" for i in range(len(branch))])
    unseen = np.arange(len(branch)) % 8 == 0
    table = pd.DataFrame(signatures, index=names)
    hierarchy = {name: f"branch {b}" for name, b in zip(names, branch, strict=True)}

    def draw(classes):
        codes = np.repeat(classes, 20)
        return means[codes] + 7.0 * rng.standard_normal((len(codes), n_features)), codes

    X, y = draw(np.flatnonzero(~unseen))
    X_new, y_new = draw(np.flatnonzero(unseen))
    distances = ((X_new[:, None] - means[unseen][None]) ** 2).sum(axis=2)
    best = np.mean(np.flatnonzero(unseen)[distances.argmin(axis=1)] == y_new)
    assert 0.8 < best < 1

    def accuracy(**options):
        model = HAT(hierarchy, feature_norm=None, depth_weight=8.0, category_weight=1.0, **options)
        model.fit(X, names[y], signatures=table)
        return model.score(X_new, names[y_new], classes=names[unseen])

    assert accuracy() >= 0.9 * best
    assert accuracy(n_levels=1) < 0.75 * best
