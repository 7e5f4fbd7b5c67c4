"""Explanations agree with what the model computes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from zslearn.base._meta import as_zero_shot
from zslearn.baselines import COSTA, DAP, ESZSL, HAT, ConSE, LatEm
from zslearn.calibration import CalibratedStacking, NoneOfThese
from zslearn.datasets import make_zero_shot
from zslearn.inspection import TrainingPictures, explain
from zslearn.model_selection import TableClassifier, ZeroShotPipeline, ZeroShotSearchCV
from zslearn.networks import GeneratedFeatures
from zslearn.signatures import MultiSignatures
from zslearn.synthesis import EXEM, GaussianEXEM, SynC


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(
        n_seen=10, n_unseen=5, n_features=24, n_attributes=8, samples_per_class=10, random_state=1
    )


def _fit(model, data, signatures=None):
    described = data.signatures if signatures is None else signatures
    return model.fit(data.X_train, data.y_train, signatures=described)


def _pictures(data):
    return TrainingPictures(data.X_train, data.y_train)


def _score_with(model, data, X, label, attribute, value):
    """The score of a class after a fit with another value of an attribute."""
    changed = data.signatures.copy()
    changed.loc[label, attribute] = value
    return _fit(model, data, changed).decision_function(X, classes=[label])[0, 0]


@pytest.mark.parametrize(
    "model",
    [
        EXEM(8),
        EXEM(8, estimator=ESZSL()),
        SynC(),
        ESZSL(),
        ConSE(),
        COSTA(),
        HAT(),
        GaussianEXEM(),
        LatEm(),
        CalibratedStacking(ESZSL(), bias=0.1),
        ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0, 10.0]}, cv=2),
        Pipeline([("scale", StandardScaler()), ("method", ESZSL())]),
        pytest.param(GeneratedFeatures(n_generated=10), marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_effect_equals_the_change_of_the_score_after_a_refit(model, data):
    X = data.X_test_unseen[:4]
    model = _fit(as_zero_shot(model), data)
    candidates, n_effects = data.unseen_classes, 0
    for row, why in enumerate(explain(model, X, classes=candidates, k=2)):
        label, rival = why.predicted.label, why.runner_up.label
        labels, scores = model.predict_top_k(X[row : row + 1], 2, classes=candidates)
        assert [label, rival] == labels[0].tolist()
        np.testing.assert_allclose([why.predicted.score, why.runner_up.score], scores[0])
        before = model.decision_function(X[row : row + 1], classes=[label])[0, 0]
        n_effects += len(why.attributes)
        for effect in why.attributes:
            assert effect.value == data.signatures.loc[label, effect.name]
            assert effect.runner_up_value == data.signatures.loc[rival, effect.name]
            assert effect.effect > 0
            after = _score_with(
                clone(model), data, X[row : row + 1], label, effect.name, effect.runner_up_value
            )
            assert effect.effect == pytest.approx(before - after, rel=1e-3, abs=1e-7)
    assert n_effects


def test_linear_effects_by_the_formula(data):
    """ESZSL's score is linear in the normalised signature."""
    model = _fit(ESZSL(center=None), data)
    X = data.X_test_unseen[:1]
    why = explain(model, X, classes=data.unseen_classes, k=8)[0]
    signature = data.signatures.loc[why.predicted.label]
    part = why.attributes[0]
    changed = signature.copy()
    changed[part.name] = part.runner_up_value
    unit = [s / np.linalg.norm(s) / model.signature_scale_[0] for s in (signature, changed)]
    image = X[0] / np.linalg.norm(X[0])
    expected = image @ model.coef_ @ (unit[0] - unit[1])
    assert part.effect == pytest.approx(float(expected), rel=1e-9)


def test_shares_are_the_similarities_of_sync(data):
    model = _fit(SynC(), data)
    why = explain(model, data.X_test_unseen[:1], classes=data.unseen_classes, k=10)[0]
    table = model.signature_table_
    row = table.positions(np.asarray([why.predicted.label]))
    described = table.normalized(model.signature_scale_, keep_views=True)[row]
    expected = dict(zip(model.seen_classes_, model.similarities(described)[0], strict=True))
    assert {part.label for part in why.built_from} == set(data.seen_classes)
    for part in why.built_from:
        assert part.share == pytest.approx(expected[part.label])
    assert "weights" in why.share_kind


@pytest.mark.parametrize("model", [EXEM(8), EXEM(8, regressor="krr"), COSTA(), ESZSL()], ids=str)
def test_shares_and_effects_are_sorted(model, data):
    why = explain(_fit(model, data), data.X_test_unseen, classes=data.unseen_classes, k=10)
    for e in why:
        effects = [part.effect for part in e.attributes]
        assert effects == sorted(effects, reverse=True)
        shares = [part.share for part in e.built_from]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1.0)
    assert ("no weights" in why[0].share_kind) == isinstance(model, ESZSL)


def test_nearest_pictures(data):
    model = _fit(EXEM(8), data)
    names = [f"picture {i}.png" for i in range(len(data.y_train))]
    X = data.X_train[[3, 40]]
    why = explain(model, X, training=TrainingPictures(data.X_train, data.y_train, names))
    assert [e.pictures[0].name for e in why] == ["picture 3.png", "picture 40.png"]
    assert why[0].pictures[0].distance == pytest.approx(0, abs=1e-6)
    embedded = model.class_scorer_.embedding(data.X_train)
    distances = np.linalg.norm(embedded - embedded[3], axis=1)
    assert [p.name for p in why[0].pictures] == [names[i] for i in np.argsort(distances)[:3]]
    assert why[0].pictures[1].distance == pytest.approx(np.sort(distances)[1])
    assert why[0].pictures[2].label == data.y_train[np.argsort(distances)[2]]
    by_row = explain(model, X, training=_pictures(data))[1].pictures[0].name
    assert by_row == 40
    with pytest.raises(ValueError, match="one label and one name per row"):
        explain(model, X, training=TrainingPictures(data.X_train, data.y_train[:-1]))


def test_added_examples_do_not_change_the_nearest_pictures(data):
    model = _fit(GaussianEXEM(), data)
    before = explain(model, data.X_test_seen, training=_pictures(data))
    model.add_examples(data.X_test_unseen[:1], data.y_test_unseen[:1])
    after = explain(model, data.X_test_seen, training=_pictures(data))
    for old, new in zip(before, after, strict=True):
        assert [p.name for p in old.pictures] == [p.name for p in new.pictures]
        distances = [[p.distance for p in why.pictures] for why in (old, new)]
        np.testing.assert_allclose(*distances, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("as_table", [False, True], ids=["array", "DataFrame"])
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: CalibratedStacking(m, bias=0.1)])
def test_pipelines_prepare_samples_once(data, wrap, as_table):
    def rows(X):
        # Other scales than the scaler learned would show if rows were scaled twice or not at all.
        return pd.DataFrame(X * 50 + 7).add_prefix("x") if as_table else X * 50 + 7

    pipeline = ZeroShotPipeline([("scale", StandardScaler()), ("method", EXEM(8))])
    model = wrap(pipeline).fit(rows(data.X_train), data.y_train, signatures=data.signatures)
    fitted = getattr(model, "estimator_", model)
    _check_explained_as_inside(
        model,
        fitted.steps[-1][1],
        rows(data.X_test_unseen),
        fitted.transform_rows(rows(data.X_test_unseen)),
        TrainingPictures(rows(data.X_train), data.y_train),
        TrainingPictures(fitted.transform_rows(rows(data.X_train)), data.y_train),
    )


def test_table_classifiers_prepare_samples_once(data):
    def table(X):
        frame = pd.DataFrame(X * 50 + 7).add_prefix("x")
        return frame.assign(colour=np.where(X[:, 0] > 0, "red", "blue"), depth=100 * X[:, 1])

    train, test = table(data.X_train), table(data.X_test_unseen)
    model = TableClassifier(EXEM(8)).fit(train, data.y_train, signatures=data.signatures)
    _check_explained_as_inside(
        model,
        model.estimator_,
        test,
        model.columns_.transform(test),
        TrainingPictures(train, data.y_train),
        TrainingPictures(model.columns_.transform(train), data.y_train),
    )


def _check_explained_as_inside(model, method, X, prepared, training, prepared_training):
    """The explanation equals that of the inner method for rows that were prepared before."""
    candidates = model.unseen_classes_
    found = explain(model, X, classes=candidates, training=training)
    expected = explain(method, prepared, classes=candidates, training=prepared_training)
    assert [e.predicted.label for e in found] == model.predict(X, classes=candidates).tolist()
    for one, other in zip(found, expected, strict=True):
        assert one.predicted.label == other.predicted.label
        assert [p.name for p in one.pictures] == [p.name for p in other.pictures]
        assert [a.name for a in one.attributes] == [a.name for a in other.attributes]
        for part in ("pictures", "attributes", "built_from"):
            assert getattr(one, part), part
        np.testing.assert_allclose(
            [p.distance for p in one.pictures] + [a.effect for a in one.attributes],
            [p.distance for p in other.pictures] + [a.effect for a in other.attributes],
            rtol=1e-6,
        )


def test_seen_classes_and_probabilities(data):
    model = _fit(CalibratedStacking(ESZSL(), bias=0.0, temperature=0.1), data)
    X = np.concatenate([data.X_test_seen, data.X_test_unseen])
    why = explain(model, X)
    kinds = {e.predicted.kind for e in why}
    assert kinds == {"seen", "described only"}
    probabilities = np.sort(model.predict_proba(X), axis=1)
    np.testing.assert_allclose([e.predicted.probability for e in why], probabilities[:, -1])
    np.testing.assert_allclose([e.runner_up.probability for e in why], probabilities[:, -2])
    for e in why:
        assert (e.predicted.kind == "seen") == (e.predicted.label in data.seen_classes)
        assert bool(e.built_from) == (e.predicted.kind == "described only")
        assert e.predicted.kind != "seen" or not e.attributes
    assert explain(_fit(ESZSL(), data), X[:1])[0].predicted.probability is None


def test_rejected_images(data):
    model = _fit(NoneOfThese(ESZSL(), false_alarm_rate=0.5, cv=3), data)
    why = explain(model, data.X_test_unseen)
    assert [e.rejected for e in why] == model.is_none(data.X_test_unseen).tolist()
    assert str(next(e for e in why if e.rejected)).startswith("none of these")


def test_text_and_json(data):
    model = _fit(CalibratedStacking(EXEM(8), bias=0.0, temperature=0.2), data)
    (why,) = explain(
        model, data.X_test_unseen[:1], classes=data.unseen_classes, training=_pictures(data)
    )
    text = str(why)
    assert text.count("\n") == 4
    for words in ("runner-up: ", "built from: ", "distinguished from ", "nearest training"):
        assert words in text
    content = json.loads(json.dumps(why.to_dict()))
    assert content["predicted"]["label"] == why.predicted.label
    assert content["attributes"][0]["name"] == why.attributes[0].name
    assert len(content["pictures"]) == 3


def test_text_has_no_terminal_control_sequences(data):
    names = dict(zip(data.signatures.columns, ["a\x1b[31m"] * 8, strict=True))
    table = data.signatures.rename(columns={c: f"{n}{c}" for c, n in names.items()})
    for e in explain(_fit(ESZSL(), data, table), data.X_test_unseen[:5]):
        assert "\x1b" not in str(e)


def test_integer_labels_and_unnamed_attributes(data):
    order = {label: i for i, label in enumerate(data.signatures.index)}
    y = np.asarray([order[label] for label in data.y_train])
    table = {i: data.signatures.iloc[i].to_numpy() for i in range(len(order))}
    model = ESZSL().fit(data.X_train, y, signatures=table)
    why = explain(model, data.X_test_unseen, classes=model.unseen_classes_)
    json.dumps([e.to_dict() for e in why])
    assert isinstance(why[0].predicted.label, int)
    assert any(part.name.startswith("attribute ") for e in why for part in e.attributes)


def test_attribute_names_include_the_view(data):
    views = {"a": data.signatures.iloc[:, :4], "b": data.signatures.iloc[:, 4:]}
    model = _fit(SynC(), data, MultiSignatures(views))
    why = explain(model, data.X_test_unseen, classes=data.unseen_classes)
    names = {part.name for e in why for part in e.attributes}
    assert names
    assert all(name.startswith(("a: ", "b: ")) for name in names)


def test_edge_cases_and_errors(data):
    (alone,) = explain(_fit(ESZSL(), data), data.X_test_unseen[:1], classes=data.unseen_classes[:1])
    assert alone.runner_up is None
    assert alone.attributes == ()
    with pytest.raises(ValueError, match="k must not be negative"):
        explain(_fit(ESZSL(), data), data.X_test_unseen, k=-1)
    with pytest.raises(ValueError, match="features"):
        explain(_fit(ESZSL(), data), data.X_test_unseen[:, :3])
    with pytest.raises(TypeError, match="zero-shot estimator"):
        explain(StandardScaler(), data.X_test_unseen)
    (why,) = explain(_fit(ESZSL(), data), data.X_test_unseen[:1], k=0)
    assert why.built_from == why.attributes == why.pictures == ()


def test_models_with_identical_classes(data):
    signatures = pd.concat([data.signatures, data.signatures.iloc[:1].rename(index=str.upper)])
    several, plain = _fit(DAP(), data, signatures), _fit(DAP(), data)
    X, options = data.X_test_unseen[:3], {"classes": data.unseen_classes, "k": 2}
    pairs = zip(explain(several, X, **options), explain(plain, X, **options), strict=True)
    for why, expected in pairs:
        assert why.predicted.label == expected.predicted.label
        effects = [[effect.effect for effect in x.attributes] for x in (why, expected)]
        np.testing.assert_allclose(*effects, rtol=1e-6)
