"""Thresholds found on left-out classes: "none of these", sure ancestors, sets of labels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zslearn
from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking, NoneOfThese, PredictionSets, RankPredictor
from zslearn.calibration._ranks import TOP, CandidateTree
from zslearn.calibration._sets import _share
from zslearn.calibration._thresholds import (
    HeldOut,
    is_below,
    rate_and_interval,
    thresholds_at,
)
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.inspection import explain
from zslearn.model_selection import fitted_as_zero_shot
from zslearn.signatures import cluster_hierarchy
from zslearn.signatures._class_graph import ClassTree
from zslearn.synthesis import GaussianEXEM


def _problem(seed=0, n_seen=24, n_unseen=12, **options):
    return make_zero_shot(
        n_seen=n_seen,
        n_unseen=n_unseen,
        n_features=30,
        n_attributes=12,
        samples_per_class=20,
        random_state=seed,
        **options,
    )


def _fit(model, data, signatures=None):
    described = data.signatures if signatures is None else signatures
    return model.fit(data.X_train, data.y_train, signatures=described)


def _per_class(flags, y):
    return float(np.mean([flags[y == label].mean() for label in np.unique(y)]))


def _held_out(n_classes=10, n_each=50, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(n_classes), n_each)
    described = rng.random(len(classes)) < 0.3
    values = rng.normal(size=len(classes)) + 2 * described
    return HeldOut(values, classes, described, described ^ (rng.random(len(classes)) < 0.1))


class TestThresholds:
    def test_cross_fitting_never_looks_at_the_own_class(self):
        held = _held_out(n_classes=5)
        moved = held.values.copy()
        moved[held.classes == 2] -= 1e6
        other = HeldOut(moved, held.classes, held.described, held.as_described)
        flags = is_below(other, other, 0.1)
        assert flags[held.classes == 2].all()
        # The thresholds of class 2 were those of the others, as before it moved.
        low, high = thresholds_at(held.subset(held.classes != 2), 0.1)
        before = is_below(held, held, 0.1)
        own = held.classes == 2
        expected = held.values[own] < np.where(held.as_described[own], high, low)
        np.testing.assert_array_equal(before[own], expected)

    def test_interval_is_binomial_where_images_are_independent(self):
        # One image per class: the effective number of trials is about the number of classes.
        n = 400
        happened = np.arange(n) < 40
        held = HeldOut(np.zeros(n), np.arange(n), np.zeros(n, bool), np.zeros(n, bool))
        rate, (low, high) = rate_and_interval(happened, held)
        exact = binomtest(40, n).proportion_ci(method="exact")
        assert rate == pytest.approx(0.1)
        np.testing.assert_allclose([low, high], [exact.low, exact.high], atol=2e-3)

    @pytest.mark.slow
    def test_interval_covers(self):
        rng = np.random.default_rng(0)
        covered = 0
        for _ in range(300):
            # Rates of classes vary around 0.1.
            rates = rng.beta(1, 9, size=30)
            classes = np.repeat(np.arange(30), 20)
            held = HeldOut(np.zeros(600), classes, np.zeros(600, bool), np.zeros(600, bool))
            low, high = rate_and_interval(rng.random(600) < rates[classes], held)[1]
            covered += low <= 0.1 <= high
        assert covered >= 0.93 * 300


def _by_hand(model, X):
    """Compute how far the statistic is above its threshold, and the best score above the next."""
    scores = model.decision_function(X)
    table = model.predict_proba(X) if model.statistic == "probability" else scores
    ordered = np.sort(table, axis=1)
    value = ordered[:, -1] - (ordered[:, -2] if model.statistic == "margin" else 0)
    if model.statistic == "probability":  # the odds against an average rival
        value = np.log(value / (1 - value) * (len(model.classes_) - 1))
    best = model.classes_[table.argmax(axis=1)]
    seen = np.isin(best, model.seen_classes_)
    limit = np.where(seen, model.threshold_["seen"], model.threshold_["described"])
    return value - limit, np.ptp(np.sort(scores, axis=1)[:, -2:], axis=1)


class TestNoneOfThese:
    @pytest.mark.parametrize(
        "statistic",
        ["max", *(pytest.param(s, marks=pytest.mark.slow) for s in ("margin", "probability"))],
    )
    def test_false_alarms_are_as_many_as_accepted(self, statistic):
        """Over several problems, on test images: a third of the unseen classes is not described."""
        said, seen, described, detected = [], [], [], []
        for seed in range(6):
            data = _problem(seed)
            hidden = data.unseen_classes[::3]
            base = CalibratedStacking(ESZSL(), bias=0.05)
            model = NoneOfThese(base, false_alarm_rate=0.1, statistic=statistic)
            _fit(model, data, data.signatures.drop(index=hidden))
            foreign = np.isin(data.y_test_unseen, hidden)
            rejected = model.is_none(data.X_test_unseen)
            seen.append(_per_class(model.is_none(data.X_test_seen), data.y_test_seen))
            described.append(_per_class(rejected[~foreign], data.y_test_unseen[~foreign]))
            detected.append(_per_class(rejected[foreign], data.y_test_unseen[foreign]))
            said.append(model.false_alarm_rate_)
            low, high = model.false_alarm_interval_
            assert low <= model.false_alarm_rate_ <= high
        assert np.mean(said) == pytest.approx(0.1, abs=0.02)
        assert (np.mean(seen) + np.mean(described)) / 2 == pytest.approx(0.1, abs=0.04)
        assert np.mean(detected) > np.mean(described)

    @pytest.mark.parametrize("statistic", ["max", "probability"])
    def test_the_detection_rate_holds_among_many_described_classes(self, statistic):
        """Folds have the candidates of use: the best of few classes would score too low."""
        claimed, real = [], []
        for seed in range(3):
            data = make_zero_shot(n_seen=30, n_unseen=60, random_state=seed)
            hidden = data.unseen_classes[:20]
            model = NoneOfThese(ESZSL(), false_alarm_rate=0.1, statistic=statistic)
            _fit(model, data, data.signatures.drop(index=hidden))
            foreign = np.isin(data.y_test_unseen, hidden)
            claimed.append(model.detection_rate_)
            real.append(model.is_none(data.X_test_unseen[foreign]).mean())
        # Models of the folds learn from fewer classes, so that a part of the difference stays.
        assert np.mean(claimed) - np.mean(real) < 0.08

    def test_what_is_said_of_the_model(self):
        data = _problem()
        model = _fit(NoneOfThese(ESZSL(), false_alarm_rate=0.1), data)
        kinds = model.false_alarm_rates_
        assert (kinds["seen"] + kinds["described"]) / 2 == pytest.approx(model.false_alarm_rate_)
        assert 0.5 < model.auroc_ <= 1
        area = np.trapezoid(model.detection_curve_, model.false_alarm_curve_)
        assert area == pytest.approx(model.auroc_)
        low, high = model.detection_interval_
        assert low <= model.detection_rate_ <= high
        assert set(model.threshold_) == {"seen", "described"}

    def test_rejected_rows_have_the_label(self):
        data = _problem()
        model = _fit(NoneOfThese(ESZSL(), false_alarm_rate=0.3), data)
        X = data.X_test_unseen
        rejected = model.is_none(X)
        assert 0.05 < rejected.mean() < 0.95
        predicted = model.predict(X)
        assert set(predicted[rejected]) == {"none of these"}
        np.testing.assert_array_equal(predicted[~rejected], model.estimator_.predict(X)[~rejected])
        # Scores are those of the estimator.
        np.testing.assert_array_equal(
            model.decision_function(X), model.estimator_.decision_function(X)
        )

    @pytest.mark.parametrize("statistic", ["max", "margin", "probability"])
    def test_statistic_and_threshold_by_hand(self, statistic):
        data = _problem()
        model = _fit(NoneOfThese(ESZSL(), statistic=statistic, false_alarm_rate=0.2), data)
        X = data.X_test_unseen
        distance, gap = _by_hand(model, X)
        clear = np.minimum(np.abs(distance), gap) > 1e-9
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(model.is_none(X)[clear], distance[clear] < 0)

    def test_labels_of_other_kinds(self):
        data = _problem(n_seen=8, n_unseen=4)
        names = {label: i for i, label in enumerate(data.signatures.index)}
        y = np.asarray([names[label] for label in data.y_train])
        table = data.signatures.rename(index=names)
        model = NoneOfThese(ESZSL(), false_alarm_rate=0.4).fit(data.X_train, y, signatures=table)
        assert model.none_label_ == -1
        assert model.predict(data.X_test_unseen).dtype.kind == "i"
        shifted = NoneOfThese(ESZSL()).fit(
            data.X_train, y - 5, signatures=table.rename(index=lambda i: i - 5)
        )
        assert shifted.none_label_ == -6
        with pytest.raises(ValueError, match="label of a described class"):
            NoneOfThese(ESZSL(), none_label=3).fit(data.X_train, y, signatures=table)
        empty = NoneOfThese(ESZSL(), none_label=None, false_alarm_rate=0.4)
        predicted = empty.fit(data.X_train, y, signatures=table).predict(data.X_test_unseen)
        assert None in predicted.tolist()

    def test_score_takes_images_of_none(self):
        data = _problem()
        hidden = data.unseen_classes[:4]
        model = _fit(NoneOfThese(ESZSL(), false_alarm_rate=0.2), data, data.signatures.drop(hidden))
        foreign = np.isin(data.y_test_unseen, hidden)
        y = np.where(foreign, "none of these", data.y_test_unseen)
        predicted = model.predict(data.X_test_unseen)
        by_hand = np.mean([(predicted[y == c] == c).mean() for c in np.unique(y)])
        assert model.score(data.X_test_unseen, y) == pytest.approx(by_hand)
        with pytest.raises(ValueError, match="not in classes_"):
            model.score(data.X_test_unseen, data.y_test_unseen)

    def test_nothing_is_rejected_where_nothing_can_be_left_out(self):
        data = _problem(n_seen=8, n_unseen=4)
        model = NoneOfThese(ESZSL()).fit(data.X_train, data.y_train)
        assert not model.is_none(data.X_test_seen).any()
        assert np.isnan(model.false_alarm_rate_)
        few = np.isin(data.y_train, np.unique(data.y_train)[:3])
        with pytest.warns(UserWarning, match="nothing is calibrated"):
            model = NoneOfThese(ESZSL()).fit(
                data.X_train[few], data.y_train[few], signatures=data.signatures
            )
        assert not model.is_none(data.X_test_seen).any()

    def test_one_candidate_and_a_pipeline(self):
        data = _problem(n_seen=8, n_unseen=4)
        pipeline = make_pipeline(StandardScaler(), ESZSL())
        model = _fit(NoneOfThese(pipeline, statistic="margin", cv=3), data)
        assert not model.is_none(data.X_test_seen, classes=data.unseen_classes[:1]).any()
        model.add_classes(pd.DataFrame([data.signatures.iloc[0] * 0.3 + 0.1], index=["zz"]))
        assert "zz" in model.classes_


TREE = {"ant": "insect", "bee": "insect", "cat": "mammal", "insect": "animal", "mammal": "animal"}
LABELS = np.array(["ant", "bee", "cat"])


class TestDescent:
    def test_by_hand(self):
        hierarchy = CandidateTree(ClassTree(TREE), LABELS)
        descent = hierarchy.descend(np.array([[0.3, 0.3, 0.4], [0.1, 0.1, 0.8]]))
        paths = [[hierarchy.nodes[i] for i in row if i >= 0] for row in descent.nodes]
        # The better class is not where the better branch leads.
        assert paths == [["animal", "insect", "ant"], ["animal", "mammal", "cat"]]
        np.testing.assert_allclose(descent.probabilities, [[1, 0.6, 0.3], [1, 0.8, 0.8]])
        depths, chances = descent.depths_above(np.array([0.5, 0.9]))
        assert depths.tolist() == [1, 0]
        np.testing.assert_allclose(chances, [0.6, 1.0])
        # The cat is below the animal only; the bee below the insect, too.
        wrong = hierarchy.lowest_correct(descent, np.array([1, 2]))
        np.testing.assert_allclose(wrong, [0.3, 0.0])

    def test_a_class_that_is_an_inner_node(self):
        labels = np.array(["ant", "bee", "insect"])
        hierarchy = CandidateTree(
            ClassTree({"ant": "insect", "bee": "insect", "insect": "animal"}), labels
        )
        descent = hierarchy.descend(np.array([[0.2, 0.2, 0.6], [0.5, 0.2, 0.3]]))
        ends = [hierarchy.nodes[i] for i in descent.ends]
        assert ends == ["insect", "ant"]


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.booleans())
def test_probabilities_of_all_ranks(seed, n_nodes, grouped):
    """Sums over the classes below each node, and the most probable path, by brute force."""
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(n_nodes + 1)]
    parents = {names[i]: names[rng.integers(i)] for i in range(1, n_nodes + 1)}
    tree = ClassTree(parents)
    leaves = [name for name in names if name not in parents.values()]
    inner = [name for name in names if name in parents.values() and rng.random() < 0.3]
    others = ["other"] if rng.random() < 0.5 else []  # the hierarchy lacks this class
    labels = np.sort([*leaves, *inner, *others])
    given_classes = rng.dirichlet(np.ones(len(labels)), size=3)
    column = rng.integers(len(labels), size=len(labels)) if grouped else np.arange(len(labels))
    hierarchy = CandidateTree(tree, labels)
    paths = hierarchy.descend(given_classes, column)
    probabilities = given_classes[:, column]
    above = [[label, *tree.ancestors(label)] for label in labels.tolist()]
    roots = {path[-1] for path in above if len(path) > 1 or path[0] in tree}
    root = roots.pop() if len(roots) == 1 else TOP
    above = [path if path[-1] == root else [*path, root] for path in above]
    for row, (nodes, found) in enumerate(zip(paths.nodes, paths.probabilities, strict=True)):
        names_found = hierarchy.nodes[nodes[nodes >= 0]].tolist()
        sums = {
            node: sum(p for p, path in zip(probabilities[row], above, strict=True) if node in path)
            for node in {node for path in above for node in path}
        }
        np.testing.assert_allclose(
            found[nodes >= 0], [sums[name] for name in names_found], rtol=0, atol=1e-12
        )
        assert names_found[0] == root
        for parent, child in pairwise([*names_found, None]):
            children = {
                path[i - 1] for path in above for i in range(1, len(path)) if path[i] == parent
            }
            best = max((sums[name] for name in children), default=-1.0)
            own = dict(zip(labels.tolist(), probabilities[row], strict=True)).get(parent, 0.0)
            if child is None:
                assert not children or own >= best - 1e-12
            else:
                assert sums[child] == pytest.approx(best, abs=1e-12)
                assert own <= best + 1e-12
    true = rng.integers(len(labels), size=3)
    for row, lowest in enumerate(hierarchy.lowest_correct(paths, true)):
        nodes = paths.nodes[row][paths.nodes[row] >= 0]
        wrong = [
            chance
            for node, chance in zip(hierarchy.nodes[nodes], paths.probabilities[row], strict=False)
            if node not in above[true[row]]
        ]
        assert lowest == pytest.approx(max(wrong, default=0.0))


class TestRankPredictor:
    @pytest.mark.parametrize("confidence", [0.9, pytest.param(0.7, marks=pytest.mark.slow)])
    def test_confidence_holds(self, confidence):
        """Over several problems, on test images of seen and of unseen classes."""
        said, measured, depths = [], [], []
        for seed in range(5):
            data = _problem(seed)
            tree = cluster_hierarchy(data.signatures)
            base = CalibratedStacking(ESZSL(), bias=0.05)
            model = _fit(RankPredictor(base, tree, confidence=confidence), data)
            said.append(model.accuracy_)
            low, high = model.accuracy_interval_
            assert low <= model.accuracy_ <= high
            above = ClassTree(tree)
            rates = []
            for X, y in (
                (data.X_test_seen, data.y_test_seen),
                (data.X_test_unseen, data.y_test_unseen),
            ):
                nodes, depth, _ = model.predict_rank(X)
                right = [n == c or n in above.ancestors(c) for n, c in zip(nodes, y, strict=True)]
                rates.append(_per_class(np.asarray(right), y))
                depths.append(depth.mean())
            measured.append(np.mean(rates))
        assert np.mean(said) == pytest.approx(confidence, abs=0.03)
        assert np.mean(measured) > confidence - 0.06
        assert np.mean(depths) > 0.3

    def test_more_confidence_is_less_deep(self):
        data = _problem()
        model = _fit(RankPredictor(ESZSL(), confidence=0.8), data)
        X = data.X_test_unseen
        means = [model.predict_rank(X, confidence=c).depths.mean() for c in (0.5, 0.8, 0.99)]
        assert means == sorted(means, reverse=True)
        assert means[0] > means[2]
        again = _fit(RankPredictor(ESZSL(), confidence=0.5), data).predict_rank(X)
        np.testing.assert_array_equal(again.nodes, model.predict_rank(X, confidence=0.5).nodes)
        with pytest.raises(ValueError, match="between 0 and 1"):
            model.predict_rank(X, confidence=1.5)

    def test_a_class_that_the_hierarchy_lacks(self):
        data = _problem(n_seen=8, n_unseen=4)
        known = data.signatures.drop(index=data.unseen_classes[:1])
        tree = cluster_hierarchy(known)
        with pytest.raises(ValueError, match=r"1 of the 12 described classes are not in the"):
            _fit(RankPredictor(ESZSL(), tree), data)
        model = _fit(RankPredictor(ESZSL(), tree), data, known)
        model.add_classes(data.signatures.loc[data.unseen_classes[:1]])
        nodes, depths, chances = model.predict_rank(data.X_test_unseen)
        assert len(nodes) == len(depths) == len(chances) == len(data.X_test_unseen)

    def test_without_folds_the_threshold_is_the_confidence(self):
        data = _problem(n_seen=8, n_unseen=4)
        model = RankPredictor(ESZSL(), confidence=0.6).fit(data.X_train, data.y_train)
        assert model.threshold_ == {"seen": 0.6, "described": 0.6}
        assert np.isnan(model.accuracy_)

    def test_candidates(self):
        data = _problem(n_seen=8, n_unseen=4)
        model = _fit(RankPredictor(ESZSL(), confidence=0.5), data)
        nodes = model.predict_rank(data.X_test_unseen, classes=data.unseen_classes).nodes
        assert not set(nodes) & set(data.seen_classes)

    def test_ranks_as_sets(self):
        data = _problem(n_seen=8, n_unseen=4)
        model = _fit(RankPredictor(ESZSL(), confidence=0.6, cv=3), data)
        X, y = data.X_test_unseen, data.y_test_unseen
        nodes = model.predict_rank(X).nodes
        sets = model.predict_sets(X)
        tree = ClassTree(model.parents_)
        for node, labels in zip(nodes, sets, strict=True):
            below = {c for c in model.classes_ if c == node or node in tree.ancestors(c)}
            assert set(labels) == below
        assert model.coverage_report(X, y)["size"].mean() == pytest.approx(
            np.mean([len(labels) for labels in sets])
        )


class TestPredictionSets:
    def test_a_new_class_is_covered_on_average(self):
        """Classes whose images differ less than they do: images as the unit would fall short."""
        rng = np.random.default_rng(0)
        values = rng.normal(size=(500, 16, 1)) + 0.3 * rng.normal(size=(500, 16, 10))
        classes, flags = np.repeat(np.arange(15), 10), np.ones(150, dtype=bool)
        by_class, by_image = [], []
        for drawn in values:
            known = HeldOut(drawn[:15].ravel(), classes, flags, flags)
            threshold = thresholds_at(known, _share(known, 0.8))[0]
            by_class.append((drawn[15] >= threshold).mean())
            by_image.append((drawn[15] >= thresholds_at(known, 0.2)[0]).mean())
        assert 0.8 <= np.mean(by_class) < 0.86
        assert np.mean(by_image) < 0.8

    def test_coverage_holds(self):
        """Over several problems, on test images of unseen and of seen classes."""
        found, said = [], []
        for seed in range(5):
            data = _problem(seed)
            model = _fit(PredictionSets(CalibratedStacking(ESZSL(), bias=0.05)), data)
            unseen, seen = (
                (data.X_test_unseen, data.y_test_unseen),
                (data.X_test_seen, data.y_test_seen),
            )
            reports = [
                model.coverage_report(*unseen, classes=data.unseen_classes),
                model.coverage_report(*unseen),
                model.coverage_report(*seen),
            ]
            found.append([report.mean() for report in reports])
            said.append([model.coverage_[name] for name in ("alone", "described", "seen")])
        coverage, size = np.moveaxis(np.mean(found, axis=0), 1, 0)
        assert (coverage > 0.88).all()
        assert (coverage < 0.97).all()
        assert (size < [4, 10, 10]).all()
        np.testing.assert_allclose(np.mean(said, axis=0), 0.92, atol=0.03)

    def test_sets_and_report_by_hand(self, tmp_path):
        data = _problem()
        model = _fit(PredictionSets(ESZSL(), coverage=0.7, cv=3), data)
        X, y = data.X_test_unseen, data.y_test_unseen
        for classes, described in ((None, "described"), (data.unseen_classes, "alone")):
            labels = model.classes_ if classes is None else classes
            chances = model.predict_proba(X, classes=labels)
            odds = np.log((len(labels) - 1) * chances / (1 - chances))
            is_seen = np.isin(labels, model.seen_classes_)
            limit = np.where(is_seen, model.threshold_["seen"], model.threshold_[described])
            inside = (odds >= limit) | (chances == chances.max(axis=1, keepdims=True))
            sets = model.predict_sets(X, classes=classes)
            assert [set(found) for found in sets] == [set(labels[row]) for row in inside]
            best = model.predict(X, classes=classes)
            assert [found[0] for found in sets] == best.tolist()
            report = model.coverage_report(X, y, classes=classes)
            held = np.array([label in found for label, found in zip(y, sets, strict=True)])
            sizes = np.array([len(found) for found in sets])
            assert report.index.tolist() == np.unique(y).tolist()
            for label in report.index:
                assert report.loc[label].tolist() == pytest.approx(
                    [held[y == label].mean(), sizes[y == label].mean()]
                )
        zslearn.save(model, tmp_path / "sets.zsl")
        again = zslearn.load(tmp_path / "sets.zsl")
        for coverage in (None, 0.9):
            for one, other in zip(
                again.predict_sets(X, coverage=coverage),
                model.predict_sets(X, coverage=coverage),
                strict=True,
            ):
                np.testing.assert_array_equal(one, other)

    def test_what_is_said_of_classes(self):
        data = _problem()
        model = _fit(PredictionSets(ESZSL(), cv=3), data)
        for name, by_class in model.class_coverage_.items():
            assert by_class.shape == model.seen_classes_.shape
            assert by_class.mean() == pytest.approx(model.coverage_[name])
            low, high = model.coverage_interval_[name]
            assert low <= model.coverage_[name] <= high

    def test_more_coverage_is_larger(self):
        data = _problem()
        model = _fit(PredictionSets(ESZSL(), coverage=0.5, cv=3), data)
        X = data.X_test_unseen
        few, many = (model.predict_sets(X, coverage=c) for c in (0.6, 0.9))
        assert all(set(a) <= set(b) for a, b in zip(few, many, strict=True))
        assert sum(map(len, few)) < sum(map(len, many))
        again = _fit(PredictionSets(ESZSL(), coverage=0.9, cv=3), data)
        assert [len(found) for found in again.predict_sets(X)] == [len(found) for found in many]
        with pytest.raises(ValueError, match="coverage must be between 0 and 1; got 1"):
            model.predict_sets(X, coverage=1)

    def test_without_a_promise_sets_hold_every_candidate(self):
        data = _problem(n_seen=8, n_unseen=4)
        with pytest.warns(
            UserWarning, match=r"8 held-out classes are too few .* least 9 are required"
        ):
            model = _fit(PredictionSets(ESZSL(), cv=3), data)
        plain = PredictionSets(ESZSL()).fit(data.X_train, data.y_train)
        for fitted in (model, plain):
            sets = fitted.predict_sets(data.X_test_seen[:5])
            assert [len(found) for found in sets] == [len(fitted.classes_)] * 5
        assert np.isnan(plain.coverage_["described"])
        # One candidate is always named.
        one = data.unseen_classes[:1]
        sets = model.predict_sets(data.X_test_unseen[:5], classes=one, coverage=0.5)
        assert [found.tolist() for found in sets] == [one.tolist()] * 5


def _streams(X, labels=None):
    dask = pytest.importorskip("dask.array")
    yield FeatureBlocks(X, labels, block_bytes=2**12)
    yield dask.from_array(X, chunks=(37, -1))


class TestRowsInBlocks:
    """A model fitted in memory gives the same answers for files, dask arrays and arrays."""

    @pytest.mark.parametrize("statistic", ["max", "margin", "probability"])
    def test_none_of_these(self, statistic):
        data = _problem()
        model = _fit(NoneOfThese(ESZSL(), statistic=statistic, false_alarm_rate=0.4, cv=3), data)
        # Rounding, which differs between sizes of blocks, decides none of these rows.
        distance, gap = _by_hand(model, data.X_test_unseen)
        clear = np.minimum(np.abs(distance), gap) > 1e-9
        X, y = data.X_test_unseen[clear], data.y_test_unseen[clear].astype(object)
        y[::7] = model.none_label_
        rejected = model.is_none(X)
        assert 0 < rejected.mean() < 1
        for stream in _streams(X):
            np.testing.assert_array_equal(model.is_none(stream), rejected)
            np.testing.assert_array_equal(model.predict(stream), model.predict(X))
            assert model.score(stream, y.astype(str)) == model.score(X, y.astype(str))
        few = data.unseen_classes[:3]
        for stream in _streams(X):
            np.testing.assert_array_equal(
                model.predict(stream, classes=few), model.predict(X, classes=few)
            )

    def test_ranks(self):
        data = _problem()
        model = _fit(RankPredictor(ESZSL(), cv=3), data)
        expected = model.predict_rank(data.X_test_unseen)
        for stream in _streams(data.X_test_unseen):
            found = model.predict_rank(stream)
            np.testing.assert_array_equal(found.nodes, expected.nodes)
            np.testing.assert_array_equal(found.depths, expected.depths)
            np.testing.assert_allclose(found.probabilities, expected.probabilities)

    def test_sets(self, block_bytes):
        data = _problem()
        model = _fit(PredictionSets(ESZSL(), cv=3), data)
        X, y = data.X_test_unseen, data.y_test_unseen
        expected = [found.tolist() for found in model.predict_sets(X)]
        report = model.coverage_report(X, y)
        block_bytes(2**16)  # arrays, too, in blocks
        for rows in (X, *_streams(X)):
            assert [found.tolist() for found in model.predict_sets(rows)] == expected
            pd.testing.assert_frame_equal(model.coverage_report(rows, y), report)

    def test_an_explanation_needs_rows(self):
        data = _problem()
        model = _fit(ESZSL(), data)
        for stream in _streams(data.X_test_unseen):
            with pytest.raises(TypeError, match="explain needs the rows"):
                explain(model, stream)


def test_rejection_inside_another_estimator_is_warned_of(warn_again):
    data = _problem()
    with pytest.warns(InputWarning, match="NoneOfThese cannot reject images inside another"):
        _fit(CalibratedStacking(NoneOfThese(ESZSL(), cv=3), bias=0.0), data)
    inside = make_pipeline(StandardScaler(), NoneOfThese(ESZSL(), cv=3))
    inside[0].fit(data.X_train)
    _fit(inside[1], data)
    with pytest.raises(TypeError, match=r"outermost estimator, as NoneOfThese\("):
        fitted_as_zero_shot(inside)


def test_no_later_class_takes_the_name_of_none():
    data = _problem()
    model = _fit(NoneOfThese(ESZSL(), cv=3), data)
    row = data.signatures.iloc[:2].mean()
    for new in ({"none of these": row}, pd.DataFrame([row], index=["none of these"])):
        with pytest.raises(ValueError, match="is the prediction for rejected images"):
            model.add_classes(new)
    assert len(model.add_classes({"another": row}).classes_) == len(data.signatures) + 1
    assert not hasattr(model, "add_examples")
    model = _fit(NoneOfThese(GaussianEXEM(), cv=3), data)
    with pytest.raises(ValueError, match="is the prediction for rejected images"):
        model.add_examples(data.X_train[:1], ["none of these"])
    assert "another" in model.add_examples(data.X_train[:1], ["another"]).classes_
