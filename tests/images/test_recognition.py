from __future__ import annotations

import copy
import re

import numpy as np
import pandas as pd
import pytest

from zslearn._utils._messages import InputWarning
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking
from zslearn.datasets import make_zero_shot
from zslearn.images import (
    Description,
    Samples,
    _describing,
    _fitting,
    _model_files,
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
from zslearn.model_selection import LEADING_METHODS, METHODS, Method, ZeroShotSearchCV
from zslearn.persistence import read_model, save
from zslearn.synthesis import GaussianEXEM


@pytest.fixture(scope="module")
def data():
    return make_zero_shot(
        n_seen=8, n_unseen=3, n_features=20, n_attributes=6, samples_per_class=10, random_state=0
    )


def of(X, y, **about):
    names = tuple(f"{i}.png" for i in range(len(X)))
    return Samples(X, y, names, tuple(f"{i:032d}" for i in range(len(X))), about)


def test_what_is_fitted(data):
    features = of(data.X_train, data.y_train)
    tuned = fit_samples(features, data.signatures, "ESZSL")
    assert isinstance(tuned, ZeroShotSearchCV)
    assert tuned.bias_ != 0
    assert tuned.temperature_ > 0
    plain = fit_samples(features, data.signatures, "eszsl", tune=None)
    assert isinstance(plain, CalibratedStacking)
    # The same as by hand.
    by_hand = CalibratedStacking(ESZSL(), temperature="cv", random_state=0)
    by_hand.fit(data.X_train, data.y_train, signatures=data.signatures)
    np.testing.assert_allclose(
        plain.predict_proba(data.X_test_unseen), by_hand.predict_proba(data.X_test_unseen)
    )


def test_a_factor_that_takes_training_images_their_class_is_left_out(data, monkeypatch):
    features = of(data.X_train, data.y_train)
    found = fit_samples(features, data.signatures, "eszsl", tune=None)
    assert found.bias_ != 0
    monkeypatch.setattr(
        "zslearn.calibration._stacking.mean_calibration", lambda *_, **__: (1e6, 1.0)
    )
    with pytest.warns(InputWarning, match="0 of .* keep their class, .* It is left out"):
        model = fit_samples(features, data.signatures, "eszsl", tune=None)
    assert model.bias_ == 0
    np.testing.assert_array_equal(
        model.decision_function(data.X_test_unseen),
        found.estimator_.decision_function(data.X_test_unseen),
    )


def test_classes_left_out_choose_the_method(data, monkeypatch, caplog):
    """By the score of the searches; Gaussian EXEM where nothing is tuned."""
    names = tuple(map(str, range(len(data.y_train))))
    features = Samples(data.X_train, data.y_train, names)
    with caplog.at_level("INFO", "zslearn"):
        model = fit_samples(features, data.signatures, tune="quick")
    said = caplog.messages[-1]
    scores = dict(re.findall(r"(Gaussian EXEM|EXEM \(1NN\)|SynC o-vs-o) (\d\.\d+)", said))
    chosen = said.partition(" is taken")[0]
    assert len(scores) == 3
    assert scores[chosen] == max(scores.values()) == f"{model.best_score_:.3f}"
    assert fitted_method(model, "auto") == chosen
    plain = fit_samples(features, data.signatures, tune=None)
    assert isinstance(plain.estimator_, GaussianEXEM)
    assert fitted_method(plain, "auto") == "Gaussian EXEM"
    assert fitted_method(plain, "mine") == "mine"
    # Whichever is the best, not the first.
    tuned = iter([0.1, 0.3, 0.2])
    search = ZeroShotSearchCV(ESZSL(), {"alpha_features": [1.0]}).fit(
        data.X_train, data.y_train, signatures=data.signatures
    )

    def tune(estimator, *given):
        found = copy.copy(search)
        found.estimator_, found.best_score_ = estimator, next(tuned)
        return found

    known = {name: Method(name, METHODS[name].make, tune) for name in LEADING_METHODS}
    monkeypatch.setattr(_fitting, "find_method", known.__getitem__)
    assert fitted_method(fit_samples(features, data.signatures), "auto") == "EXEM (1NN)"


def test_three_classes_cannot_be_left_out_in_turn(data):
    three = np.isin(data.y_train, data.seen_classes[:3])
    features = of(data.X_train[three], data.y_train[three])
    model = fit_samples(features, data.signatures, "eszsl")
    assert isinstance(model, CalibratedStacking)
    assert len(model.unseen_classes_) == 8


def test_labels(data):
    with pytest.raises(ValueError, match="have no labels"):
        fit_samples(of(data.X_train, None), data.signatures)
    some = data.signatures.drop(index=data.seen_classes[0])
    with pytest.raises(ValueError, match="which the description does not have"):
        fit_samples(of(data.X_train, data.y_train), some)
    one = np.isin(data.y_train, data.seen_classes[:1])
    with pytest.raises(ValueError, match="too few"):
        fit_samples(of(data.X_train[one], data.y_train[one]), data.signatures)


def test_the_table_agrees_with_the_model(data, monkeypatch):
    model = fit_samples(of(data.X_train, data.y_train), data.signatures, "eszsl", tune=None)
    X = data.X_test_unseen
    names = [str(i) for i in range(len(X))]
    table = prediction_table(model, X, names, top=4)
    labels, _ = model.predict_top_k(X, 4)
    chances = model.predict_proba(X)
    assert table[["class", "runner_up", "class_3", "class_4"]].to_numpy().tolist() == (
        labels.tolist()
    )
    at = np.searchsorted(model.classes_, table["runner_up"].to_numpy(dtype=str))
    np.testing.assert_allclose(table["runner_up_probability"], chances[np.arange(len(X)), at])
    # Small blocks of rows give the same.
    monkeypatch.setattr("zslearn._utils._blocks.BLOCK_BYTES", 500)
    pd.testing.assert_frame_equal(prediction_table(model, X, names, top=4), table)
    one = prediction_table(model, X[:2], names[:2], classes=[data.unseen_classes[0]])
    assert list(one) == ["image", "class", "known_by", "probability"]
    assert one["probability"].tolist() == [1.0, 1.0]


def test_training_pictures_are_thinned_evenly(data, tmp_path, monkeypatch):
    features = of(data.X_train, data.y_train)
    model = fit_samples(features, data.signatures, "eszsl", tune=None)
    monkeypatch.setattr(_model_files, "_KEPT_BYTES", 4 * 20 * 17)
    save_fitted(
        model, tmp_path / "m.zsl", features, Description(data.signatures, {}), method="eszsl"
    )
    file = read_model(tmp_path / "m.zsl")
    assert file.extras["training_features"].shape == (17, 20)
    counts = pd.Series(file.about["training"]["labels"]).value_counts()
    assert (counts.min(), counts.max(), len(counts)) == (2, 3, 8)
    assert len(file.extras["training_digests"]) == len(data.y_train)
    rows = [int(name.removesuffix(".png")) for name in file.about["training"]["images"]]
    np.testing.assert_array_equal(
        file.extras["training_features"], data.X_train[rows].astype(np.float32)
    )


def test_features_of_other_networks_are_refused(data, tmp_path):
    ours = {"backbone": "a", "weights_sha256": "1", "preprocessing": {"size": 8}}
    of(data.X_train, data.y_train, **ours).save(tmp_path / "same.npz")
    of(data.X_train, data.y_train, **{**ours, "backbone": "b"}).save(tmp_path / "other.npz")
    of(data.X_train, data.y_train, **ours, boxes=True).save(tmp_path / "boxes.npz")
    about = {"features": ours}
    assert len(features_for_model(tmp_path / "same.npz", about)) == len(data.y_train)
    with pytest.raises(ValueError, match="features is b; the model was fitted on features of a"):
        features_for_model(tmp_path / "other.npz", about)
    with pytest.warns(InputWarning, match="without bounding boxes"):
        features_for_model(tmp_path / "boxes.npz", about)
    with pytest.raises(ValueError, match="does not say how its features were made"):
        features_for_model(tmp_path, {})


def test_adding_after_an_error_leaves_the_file(data, tmp_path):
    features = of(data.X_train, data.y_train)
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


def test_tables_of_classes(tmp_path):
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
    for text, message in (("class,text\n", "no class"), ("class,text\n,x\n", "row 2 names no")):
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
def test_a_file_fetches_no_network(name, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_bytes(b"weights")

    def load(*words, **options):
        raise AssertionError("a network was loaded on the word of a file")

    monkeypatch.setattr(_model_files, "load_backbone", load)
    monkeypatch.setattr(_describing, "load_backbone", load)
    with pytest.raises(ValueError, match="would fetch from a hub or a folder"):
        features_for_model(tmp_path, {"features": {"backbone": name}})
    if name.startswith("open_clip"):
        with pytest.raises(ValueError, match="would fetch from a hub or a folder"):
            describe_in_text({"a": "b"}, about_features={"backbone": name})
    model = fit_samples(of(data.X_train, data.y_train), data.signatures, "eszsl", tune=None)
    about = {"signatures": {"kind": "text", "encoder": "backbone"}, "features": {"backbone": name}}
    save(model, tmp_path / "m.zsl", about=about)
    with pytest.raises(ValueError, match=r"m\.zsl names the network"):
        add_classes_to_file(tmp_path / "m.zsl", {"a": "b"})


@pytest.mark.parametrize("named", ["st:{}", "{}", "st:", ".", "minilm2", ""])
def test_a_file_reads_no_encoder(named, data, tmp_path, monkeypatch):
    """A folder with an encoder is read on the caller's word, never on that of the file."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "weights.safetensors").write_bytes(b"weights")
    read = []

    def signatures(texts, encoder, **options):
        read.append(encoder)
        return pd.DataFrame(1.0, index=list(texts), columns=data.signatures.columns)

    monkeypatch.setattr(_describing, "text_signatures", signatures)
    model = fit_samples(of(data.X_train, data.y_train), data.signatures, "eszsl", tune=None)
    about = {"signatures": {"kind": "text", "encoder": named.format(folder), "texts": {}}}
    save(model, tmp_path / "m.zsl", about=about)
    before = (tmp_path / "m.zsl").read_bytes()
    with pytest.raises(ValueError, match=r"m\.zsl names the text encoder .* name it yourself"):
        add_classes_to_file(tmp_path / "m.zsl", {"a": "b"})
    assert not read
    assert (tmp_path / "m.zsl").read_bytes() == before
    assert add_classes_to_file(tmp_path / "m.zsl", {"a": "b"}, encoder=f"st:{folder}") == ["a"]
    assert read == [f"st:{folder}"]


def test_added_classes_are_put_into_the_prompts_of_the_file(data, tmp_path, monkeypatch):
    used = []

    def signatures(texts, encoder, *, prompts, **options):
        used.append((list(texts), prompts))
        return pd.DataFrame(
            np.random.default_rng(len(used)).random((len(texts), 4)), index=list(texts)
        )

    monkeypatch.setattr(_describing, "text_signatures", signatures)
    said = dict.fromkeys(data.signatures.index.astype(str), "a thing")
    description = describe_in_text(said, "use", prompts="a photo of {}")
    features = of(data.X_train, data.y_train)
    model = fit_samples(features, description.signatures, "eszsl", tune=None)
    save_fitted(model, tmp_path / "m.zsl", features, description, method="eszsl")
    add_classes_to_file(tmp_path / "m.zsl", {"new": "b"})
    assert used == [(list(said), ["a photo of {}"]), (["new"], ["a photo of {}"])]
    with pytest.raises(ValueError, match="by the text encoder 'use', not by 'minilm'"):
        add_classes_to_file(tmp_path / "m.zsl", {"a": "b"}, encoder="minilm")


def test_records_of_other_kinds(data, tmp_path):
    """What a file says besides its model may be anything that JSON holds."""
    features = of(data.X_train, data.y_train)
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
        with pytest.raises(ValueError, match="does not say how its features were made"):
            features_for_model(tmp_path, file.about)
        with pytest.raises(ValueError, match="does not say what turned|names the text encoder"):
            add_classes_to_file(path, new)
        about["training"] = {"labels": value, "images": value}
        save(model, path, about=about, extras=extras)
        assert not any(why.pictures for why in explain_predictions(read_model(path), X))
    assert Samples(data.X_train, None, (), about={"skipped": 3}).skipped == []
