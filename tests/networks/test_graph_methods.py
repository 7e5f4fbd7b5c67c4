"""GCNZ, SGCN and DGP: propagation against dense matrices, gradients, and what they learn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import normalize

from zslearn.base import InputWarning
from zslearn.networks import DGP, GCNZ, SGCN
from zslearn.signatures import ClassGraph, MultiSignatures
from zslearn.signatures._class_graph import ClassTree
from zslearn.synthesis import SynC

torch = pytest.importorskip("torch")
# scikit-learn takes a target with one row per class for a regression.
pytestmark = pytest.mark.filterwarnings("ignore:The number of unique classes")

from zslearn.networks import _graph_methods as layers  # noqa: E402

QUICK = {"learning_rate": 1e-2, "max_iter": 150}
METHODS = {
    "GCNZ": GCNZ(hidden_sizes=(48,), **QUICK),
    "SGCN": SGCN(hidden_size=48, dropout=0.1, **QUICK),
    "DGP": DGP(hidden_size=48, dropout=0.1, **QUICK),
}


def _random_hierarchy(rng, n_leaves=9, n_inner=7):
    """A hierarchy whose nodes have up to two parents: names → lists of parents."""
    names = [f"i{k}" for k in range(n_inner)]
    parents = {names[0]: []}
    for k in range(1, n_inner):
        count = min(k, int(rng.integers(1, 3)))
        parents[names[k]] = rng.choice(names[:k], count, replace=False).tolist()
    for k in range(n_leaves):
        parents[f"c{k}"] = rng.choice(names, int(rng.integers(1, 3)), replace=False).tolist()
    return parents


def _graph(rng):
    parents = _random_hierarchy(rng)
    return layers.described_graph([f"c{k}" for k in range(9)], parents, {}), parents


def _adjacency(graph):
    A = np.zeros((len(graph), len(graph)))
    for child, parent in graph.edges.tolist():
        A[child, parent] = 1
    return A


def _distances_by_powers(A):
    """Length of the shortest upward path between all nodes; −1 if there is none."""
    distance = np.full(A.shape, -1)
    power = np.eye(len(A))
    for length in range(len(A)):
        distance[(power > 0) & (distance < 0)] = length
        power = power @ A
    return distance


# Matrices.


@pytest.mark.parametrize("seed", range(5))
def test_matrices_against_dense_ones(seed):
    rng = np.random.default_rng(seed)
    graph, _ = _graph(rng)
    A = _adjacency(graph)
    links = np.minimum(A + A.T + np.eye(len(A)), 1)
    degree = links.sum(axis=1)
    gcnz = GCNZ(hidden_sizes=(3,))._matrices(graph)
    assert len(gcnz) == 2
    for (matrix,) in gcnz:
        np.testing.assert_allclose(matrix.toarray(), links / np.sqrt(np.outer(degree, degree)))
    for (matrix,) in SGCN()._matrices(graph):
        np.testing.assert_allclose(matrix.toarray(), links / degree[:, None])


@pytest.mark.parametrize("seed", range(5))
def test_five_groups_of_distance_against_dense_ones(seed):
    rng = np.random.default_rng(seed)
    graph, _ = _graph(rng)
    distance = _distances_by_powers(_adjacency(graph))
    first, second = DGP()._matrices(graph)
    assert len(first) == len(second) == 5
    for group in range(5):
        ancestors = distance == group if group < 4 else distance >= 4
        for matrix, dense in ((second[group], ancestors), (first[group], ancestors.T)):
            sums = dense.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(matrix.toarray(), dense / np.maximum(sums, 1))


def test_inputs_are_means_over_described_descendants():
    rng = np.random.default_rng(4)
    graph, _ = _graph(rng)
    signatures = rng.normal(size=(9, 3))
    below = _distances_by_powers(_adjacency(graph)) >= 0
    made = layers.node_inputs(graph, signatures)
    np.testing.assert_allclose(made[:9], signatures)
    for node in range(9, len(graph)):
        np.testing.assert_allclose(made[node], signatures[below[:9, node]].mean(axis=0))


# Networks.


def _random_layers(rng, kind, sizes=(4, 6, 5)):
    made = []
    for a, b in pairwise(sizes):
        weight, offset = rng.normal(size=(a, b)), rng.normal(size=b)
        if kind == "GCNZ":
            made.append(layers.Layer(weight))
        elif kind == "SGCN":
            made.append(layers.Layer(weight, offset))
        else:
            made.append(layers.Layer(weight, offset, rng.normal(size=5)))
    return made


def _dense_network(parts, matrices, X):
    """The formulas of the module with dense matrices, on all nodes."""
    H = X
    for number, (layer, groups) in enumerate(zip(parts, matrices, strict=True)):
        if layer.mix is None:
            A = groups[0].toarray()
        else:
            weights = np.exp(layer.mix) / np.exp(layer.mix).sum()
            A = sum(w * group.toarray() for w, group in zip(weights, groups, strict=True))
        H = A @ (H @ layer.weight + (0 if layer.intercept is None else layer.intercept))
        if number + 1 < len(parts):
            H = np.where(H > 0, H, 0.2 * H)
    return normalize(H)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("sizes", [(4, 6, 5), (6, 3, 2)], ids=["wider", "narrower"])
def test_cut_networks_against_dense_ones(kind, sizes):
    rng = np.random.default_rng(2)
    graph, _ = _graph(rng)
    matrices = METHODS[kind]._matrices(graph)
    parts = _random_layers(rng, kind, sizes)
    X = rng.normal(size=(len(graph), sizes[0]))
    wanted = np.array([7, 0, 3])
    expected = _dense_network(parts, matrices, X)[wanted]
    view = layers.field_of_view(matrices, wanted)
    assert len(view.inputs) <= len(graph)
    made = layers.forward(parts, view.layers, X[view.inputs])
    np.testing.assert_allclose(made, expected, rtol=1e-10)
    like = torch.empty(0, dtype=torch.float64)
    tensors = [
        layers.Layer(*(None if p is None else torch.tensor(p) for p in part)) for part in parts
    ]
    again = layers.forward(tensors, view.to_torch(like), torch.tensor(X[view.inputs]))
    np.testing.assert_allclose(again.numpy(), expected, rtol=1e-10)


def test_group_that_no_node_has():
    """In a flat tree no node is four links away: the last groups are empty."""
    graph = layers.described_graph(["a", "b"], {"a": ["r"], "b": ["r"], "r": []}, {})
    groups = layers.ancestor_groups(graph, 5)
    assert [group.nnz for group in groups] == [3, 2, 0, 0, 0]
    view = layers.field_of_view(DGP()._matrices(graph), np.arange(2))
    made = layers.forward(
        _random_layers(np.random.default_rng(0), "DGP"), view.layers, np.eye(3, 4)[view.inputs]
    )
    assert np.isfinite(made).all()


# Learning.


def _tree_problem(seed=0, n_branches=8, n_children=8, n_features=24, n_attributes=10):
    """Classes whose features follow the tree and, within a branch, their signatures."""
    rng = np.random.default_rng(seed)
    to_features = rng.normal(size=(n_attributes, n_features))
    pairs, signatures, rows = [], {}, {}
    for b in range(n_branches):
        center = rng.normal(size=n_attributes)
        pairs.append((f"b{b}", "root"))
        for c in range(n_children):
            name = f"c{b}{c}"
            pairs.append((name, f"b{b}"))
            vector = center + rng.normal(size=n_attributes)
            signatures[name] = vector + 0.3 * rng.normal(size=n_attributes)
            rows[name] = vector @ to_features
    held_out = [f"c{b}{c}" for b in range(n_branches) for c in (0, 1)]
    return pairs, pd.DataFrame(signatures).T, pd.DataFrame(rows).T, held_out


@pytest.mark.parametrize("kind", METHODS)
def test_better_than_the_mean_of_neighbours(kind):
    """Accuracy on held-out classes, and a decreasing loss."""
    pairs, signatures, rows, held_out = _tree_problem()
    seen = [name for name in rows.index if name not in held_out]
    model = clone(METHODS[kind]).set_params(hierarchy=pairs, targets="mean")
    model.fit(rows.loc[seen].to_numpy(), seen, signatures=signatures)
    assert len(model.loss_curve_) == model.n_iter_ == QUICK["max_iter"]
    assert model.loss_curve_[-1] < 0.1 * model.loss_curve_[0]
    assert model.loss_curve_[-1] < 0.1
    scorer = model.class_scorer_
    made = pd.DataFrame(scorer.parameters, index=scorer.labels).loc[held_out].to_numpy()
    true = normalize(rows.loc[held_out].to_numpy())
    siblings = [[name for name in seen if name[1] == label[1]] for label in held_out]
    baseline = normalize(
        np.stack([normalize(rows.loc[s].to_numpy()).mean(axis=0) for s in siblings])
    )
    error, least = ((made - true) ** 2).sum(axis=1), ((baseline - true) ** 2).sum(axis=1)
    assert error.mean() < 0.6 * least.mean()
    hits = (made @ true.T).argmax(axis=0) == np.arange(len(held_out))
    by_baseline = (baseline @ true.T).argmax(axis=0) == np.arange(len(held_out))
    assert hits.mean() > by_baseline.mean() + 0.2


@pytest.fixture
def problem():
    pairs, signatures, rows, held_out = _tree_problem(n_branches=4, n_children=4)
    seen = [name for name in rows.index if name not in held_out]
    return pairs, signatures, rows.loc[seen].to_numpy(), seen


def _quick(**settings):
    return SGCN(**{"hidden_size": 8, "max_iter": 3, **settings})


def test_hierarchies_of_all_forms_agree(problem):
    pairs, signatures, X, y = problem

    forms = [
        pairs,
        dict(pairs),
        pd.DataFrame(pairs, columns=["child", "parent"]),
        ClassTree(pairs),
        ClassGraph.from_tree(pairs),
    ]
    scores = [
        _quick(hierarchy=form).fit(X, y, signatures=signatures).decision_function(X)
        for form in forms
    ]
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:1 class has the signature")
def test_class_outside_the_hierarchy_is_placed_next_to_its_nearest(problem):
    pairs, signatures, X, y = problem
    model = _quick(hierarchy=pairs).fit(X, y, signatures=signatures)
    copy = signatures.loc[["c33"]].rename(index={"c33": "stranger"})
    model.add_classes(copy)
    beside = _quick(hierarchy=[*pairs, ("stranger", "b3")]).fit(X, y, signatures=signatures)
    beside.add_classes(copy)
    np.testing.assert_allclose(model.decision_function(X), beside.decision_function(X), rtol=1e-9)


def test_unnamed_classes_can_be_synthesized(problem):
    pairs, signatures, X, y = problem
    model = _quick(hierarchy=pairs).fit(X, y, signatures=signatures)
    made = model.synthesize(np.ones((3, signatures.shape[1])))
    assert made.shape == (3, X.shape[1])
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1)


def test_graph_of_all_described_classes(problem):
    pairs, signatures, X, y = problem
    small = _quick(hierarchy=pairs).fit(X, y, signatures=signatures)
    large = _quick(hierarchy=pairs, graph="all").fit(X, y, signatures=signatures)
    assert small.n_nodes_ == 8 + 4 + 1
    assert large.n_nodes_ == 16 + 4 + 1
    assert not np.allclose(small.weights_[0], large.weights_[0])


def test_without_a_hierarchy_one_is_built_with_a_warning(problem):
    _, signatures, X, y = problem
    with pytest.warns(InputWarning, match="builds one by clustering"):
        model = _quick().fit(X, y, signatures=signatures)
    assert model.hierarchy_built_


# Targets.


def _training(problem):
    _, signatures, X, y = problem
    return _quick(hierarchy="cluster")._make_training(X, y, signatures), X, y


@pytest.mark.parametrize("loss", ["ovo", "cs", "struct"])
def test_targets_are_those_of_sync(problem, loss):
    training, X, y = _training(problem)
    sync = SynC(loss, tol=1e-6, alpha=1e-3).fit(X, y, signatures=problem[1])
    seen = sync.class_scorer_.parameters[np.isin(sync.classes_, y)]
    np.testing.assert_allclose(layers.target_rows(training, loss, 1e-3), normalize(seen), atol=0.02)


def test_intercepts_are_the_last_column(problem):
    pairs, signatures, X, y = problem
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(len(y), X.shape[1] + 1))
    model = _quick(hierarchy=pairs, targets=pd.DataFrame(rows, index=y), max_iter=1)
    model.fit(X, y, signatures=signatures)
    parameters = model.class_scorer_.parameters
    assert parameters.shape[1] == X.shape[1] + 1
    unit = normalize(X)
    np.testing.assert_allclose(
        model.decision_function(X), unit @ parameters[:, :-1].T + parameters[:, -1]
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.iloc[1:], "lacks rows for 1 of the 8 seen classes: 'c02'"),
        (lambda rows: rows.to_numpy()[1:], "array of 7 rows, but y has samples of 8"),
        (lambda rows: rows.iloc[:, 2:], "has 22 columns; it needs 24"),
        (
            lambda rows: rows.replace(rows.iloc[0, 0], np.nan),
            "targets contains NaN or infinity for",
        ),
        (lambda rows: pd.concat([rows, rows.iloc[:1]]), "describes 'c02' more than once"),
        (lambda rows: MultiSignatures({"a": rows, "b": rows}), "'targets' parameter of"),
        (
            lambda rows: {label: ["?"] for label in rows.index},
            "row of 'c02' in targets must contain numbers",
        ),
    ],
)
def test_targets_that_do_not_fit(problem, change, message):
    pairs, signatures, X, y = problem
    targets = change(pd.DataFrame(X, index=y))
    with pytest.raises(ValueError, match=message):
        _quick(hierarchy=pairs, targets=targets).fit(X, y, signatures=signatures)


def test_seen_class_without_a_place(problem):
    pairs, signatures, X, y = problem
    with pytest.raises(ValueError, match="lacks 1 of the 8 seen classes: 'c02'"):
        _quick(hierarchy=[p for p in pairs if p[0] != "c02"]).fit(X, y, signatures=signatures)


@pytest.mark.parametrize("sizes", [(0,), (3, -1), (2.5,)])
def test_hidden_sizes_are_checked(problem, sizes):
    pairs, signatures, X, y = problem
    with pytest.raises(ValueError, match="hidden_sizes"):
        GCNZ(pairs, hidden_sizes=sizes).fit(X, y, signatures=signatures)


@pytest.mark.slow
def test_training_reads_the_neighbourhood_of_seen_classes_alone():
    """Of a graph of 20,000 nodes, two layers read a few thousand."""
    rng = np.random.default_rng(0)
    pairs = [(k, int(rng.integers(max(1, k // 8)))) for k in range(1, 20_000)]
    graph = layers.described_graph(list(range(19_999, -1, -1)), layers.read_hierarchy(pairs), {})
    view = layers.field_of_view(SGCN()._matrices(graph), np.arange(200))
    assert len(view.inputs) < 5_000
    assert all(isinstance(m, sp.csr_array) for part in view.layers for m in part)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_dropout_keeps_its_share_and_the_mean(share):
    rows = torch.ones((301, 333), dtype=torch.float64)
    made = layers.Dropout(share, np.random.default_rng(0))(rows).numpy()
    values = np.unique(made)
    np.testing.assert_allclose(values, [0, 1 / (1 - share)])
    assert (made == 0).mean() == pytest.approx(share, abs=0.006)
    assert made.mean() == pytest.approx(1, abs=0.03)
    # Neighbours are dropped independently of one another, in rows and in columns.
    for a, b in ((made[:-1], made[1:]), (made[:, :-1], made[:, 1:])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.015
    again = layers.Dropout(share, np.random.default_rng(0))(rows.float()).numpy()
    np.testing.assert_array_equal(made == 0, again == 0)
