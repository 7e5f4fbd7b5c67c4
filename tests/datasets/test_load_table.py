from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from zslearn.baselines import ESZSL
from zslearn.datasets import ZeroShotDataset, load_table, make_zero_shot

X = np.arange(24.0).reshape(12, 2)
Y = np.repeat(["ant", "bee", "cat"], 4)
PART = ["train", "train", "test_seen", ""] * 2 + ["test_unseen"] * 4


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "X.npy", X)
    pd.DataFrame({"label": Y, "part": PART, "note": "x"}).to_csv(tmp_path / "y.csv", index=False)
    signatures = pd.DataFrame(
        {"legs": [6, 6, 4], "wings": [0.0, 4, 0]}, index=["ant", "bee", "cat"]
    )
    signatures.to_csv(tmp_path / "classes.csv", index_label="class")
    return tmp_path


def load(folder, X="X.npy", y="y.csv", classes="classes.csv", **options):
    return load_table(folder / X, folder / y, folder / classes, **options)


def test_parts_from_a_column(files):
    data = load(files)
    assert isinstance(data.X, np.memmap)
    assert data.active_split.train.tolist() == [0, 1, 4, 5]
    assert data.active_split.test_seen.tolist() == [2, 6]
    assert data.active_split.test_unseen.tolist() == [8, 9, 10, 11]
    assert data.seen_classes.tolist() == ["ant", "bee"]
    assert data.unseen_classes.tolist() == ["cat"]
    assert data.signatures.loc["bee"].tolist() == [6, 4]
    assert data.features == "X"
    assert data.split == "own"
    assert data.images is None


@pytest.mark.parametrize("kind", ["npz", "one.npz", "csv", "headless.csv"])
def test_features_in_other_files(files, kind):
    path = files / f"f.{kind}"
    if kind == "npz":
        np.savez(path, X=X, other=np.eye(2))
    elif kind == "one.npz":
        np.savez(path, whatever=X)
    else:
        pd.DataFrame(X).add_prefix("f").to_csv(path, index=False, header=kind == "csv")
    assert np.array_equal(load(files, path).X, X)


def test_parquet(files):
    pd.DataFrame(X).add_prefix("f").to_parquet(files / "f.parquet")
    pd.read_csv(files / "y.csv", keep_default_na=False).to_parquet(files / "y.parquet")
    pd.read_csv(files / "classes.csv").to_parquet(files / "classes.parquet")
    data = load(files, "f.parquet", "y.parquet", "classes.parquet")
    assert np.array_equal(data.X, X)
    assert data.unseen_classes.tolist() == ["cat"]
    (files / "f.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(ValueError, match="table cannot be read"):
        load(files, "f.parquet")


def test_images_are_mapped(files):
    np.save(files / "images.npy", np.zeros((12, 3, 3), dtype=np.uint8))
    assert isinstance(load(files, images=files / "images.npy").images, np.memmap)
    with pytest.raises(ValueError, match=r"images must be in a .npy file"):
        load(files, images=files / "images.zip")


def test_unseen_classes_and_hold_out(files):
    pd.DataFrame({"name": Y}).to_csv(files / "plain.csv", index=False)
    data = load(files, y="plain.csv", label="name", unseen_classes=["bee"], hold_out=0.25)
    assert data.unseen_classes.tolist() == ["bee"]
    assert data.active_split.test_unseen.tolist() == [4, 5, 6, 7]
    assert sorted(data.y_test_seen) == ["ant", "cat"]
    assert len(data.y_train) == 6
    same = load(files, y="plain.csv", label="name", unseen_classes=["bee"], hold_out=0.25)
    assert same.active_split.train.tolist() == data.active_split.train.tolist()
    (files / "unseen.txt").write_text("bee\n\n")
    data = load(
        files, y="plain.csv", label="name", unseen_classes=files / "unseen.txt", hold_out=None
    )
    assert len(data.y_train) == 8
    assert len(data.y_test_seen) == 0
    assert data.version == "X/conventional"


def test_class_names_that_look_like_nothing(files):
    pd.DataFrame({"label": np.repeat(["NA", "nan", "None"], 4)}).to_csv(
        files / "y.csv", index=False
    )
    (files / "c.csv").write_text("class,a\nNA,1\nnan,2\nNone,3\n")
    data = load(files, classes="c.csv", unseen_classes=["NA"])
    assert data.unseen_classes.tolist() == ["NA"]
    assert data.seen_classes.tolist() == ["nan", "None"]


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        (
            {},
            {"y": "y.csv", "label": "class"},
            r"no column 'class'; the columns are 'label', 'part', 'note'",
        ),
        ({}, {"X": "X.txt"}, r"cannot read '.txt' files"),
        ({}, {"unseen_classes": ["cat"]}, r"define the split; pass one"),
        (
            {"y.csv": "label\n" + "ant\nbee\ncat\n" * 4},
            {},
            r"no split.*a column 'part'.*zslearn fit",
        ),
        (
            {"y.csv": "label\n" + "ant\n" * 12},
            {"unseen_classes": ["emu"]},
            r"names 'emu', which have neither .* Labels are of type str",
        ),
        (
            {"y.csv": "label\n" + "ant\n" * 11 + "bee\n"},
            {"unseen_classes": ["bee"], "hold_out": 2},
            r"hold_out=2",
        ),
        ({"y.csv": "label,part\nant,train\n"}, {}, r"X has 12 rows and y has shape \(1,\)"),
        ({"y.csv": "label,part\n" + "ant,tset\n" * 12}, {}, r"part holds 'tset'; it must be"),
        ({"y.csv": "label,part\n" + ",train\n" * 12}, {}, r"12 missing labels"),
        (
            {"X.csv": "a,b\n1,x\n" + "1,2\n" * 8 + "1,y\n1,z\n1,x\n"},
            {"X": "X.csv"},
            r"'b' mixes numbers and text, such as 'x': correct these values, or drop",
        ),
        ({"X.csv": ""}, {"X": "X.csv"}, r"the table cannot be read"),
        ({"classes.csv": "class\nant\n"}, {}, r"there are 1 columns"),
        (
            {"classes.csv": "class,a\nant,1\nbee,2\ncat,3\nant,2\n"},
            {},
            r"'ant' is described more than once \('ant' in line 2 and line 5\). Keep one row",
        ),
        ({"classes.csv": "class,a\n,1\nant,2\n"}, {}, r"has empty cells"),
        ({"classes.csv": "class,a\nant,1\nbee,2\n"}, {}, r"class 'cat' of y has no signature"),
    ],
)
def test_refused(files, write, options, message):
    for name, text in write.items():
        (files / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        load(files, **options)


# ------------------------------------------------------------- one table of features and labels

TABLE = pd.DataFrame({"size": X[:, 0], "species": Y, "hue": X[:, 1]})
CLASSES = pd.DataFrame({"legs": [6, 6, 4], "wings": [0.0, 4, 0]}, index=["ant", "bee", "cat"])


def load_one(table=TABLE, classes=CLASSES, **options):
    options = {"label": "species", "unseen_classes": ["cat"], **options}
    return load_table(table, signatures=classes, **options)


def test_one_table(tmp_path):
    TABLE.to_csv(tmp_path / "beasts.csv", index=False)
    CLASSES.reset_index(names="species")[["legs", "species", "wings"]].to_csv(
        tmp_path / "classes.csv", index=False
    )
    from_frames = load_one()
    from_files = load_one(tmp_path / "beasts.csv", tmp_path / "classes.csv")
    for data in (from_frames, from_files):
        assert np.array_equal(data.X, X)
        assert data.y.tolist() == Y.tolist()
        assert data.feature_names.tolist() == ["size", "hue"]
        assert data.unseen_classes.tolist() == ["cat"]
        assert data.signatures.columns.tolist() == ["legs", "wings"]
    assert (from_frames.name, from_frames.features) == ("table", "table")
    assert (from_files.name, from_files.features) == ("beasts", "beasts")
    assert from_files.version == "beasts/hold-out 0.2"


def test_one_table_with_parts_and_other_columns():
    table = TABLE.assign(part=PART, file="a.png")
    data = load_one(table, unseen_classes=None, drop=["file"])
    assert data.active_split.test_seen.tolist() == [2, 6]
    assert data.feature_names.tolist() == ["size", "hue"]
    with pytest.warns(UserWarning, match=r"table: 2 numbers; dropped: 'file' \(constant\)"):
        assert load_one(table, unseen_classes=None).feature_names.tolist() == ["size", "hue"]
    with pytest.raises(ValueError, match=r"drop= names 'fiel'; there is no such column"):
        load_one(table, unseen_classes=None, drop=["fiel"])


def test_signatures_with_the_labels_in_a_column():
    data = load_one(classes=CLASSES.reset_index(names="species"))
    assert data.signatures.equals(CLASSES.rename_axis("species"))


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(Y, name="whatever"),
        pd.Series(Y, dtype="category"),
        pd.DataFrame({"anything": Y}),
        pd.DataFrame({"anything": Y, "label": Y}),
    ],
)
def test_labels_of_pandas(labels):
    data = load_table(X, labels, CLASSES, unseen_classes=["cat"])
    assert data.y.tolist() == Y.tolist()
    assert data.y.dtype.kind == "U"
    features = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match=r"same index in another order"):
        load_table(features, labels[::-1], CLASSES, unseen_classes=["cat"])


def test_polars():
    polars = pytest.importorskip("polars")
    data = load_one(polars.DataFrame({c: TABLE[c].to_numpy() for c in TABLE}))
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.features_from(polars.DataFrame({"hue": [1], "size": [2]})), [[2, 1]])


def test_whole_numbers_stay_whole_numbers(tmp_path):
    table = TABLE.assign(species=np.repeat([10, 2, 3], 4))
    classes = CLASSES.set_axis([10, 2, 3])
    table.to_csv(tmp_path / "t.csv", index=False)
    classes.to_csv(tmp_path / "c.csv")
    files = tmp_path / "t.csv", tmp_path / "c.csv"
    for source in ((table, classes), (table.astype({"species": object}), classes), files):
        data = load_one(*source, unseen_classes=10)
        assert data.unseen_classes.tolist() == [10]
        assert data.y.dtype.kind == "i"
    assert load_one(*files, unseen_classes="10").unseen_classes.tolist() == [10]
    # Parquet keeps types.
    table.to_parquet(tmp_path / "t.parquet")
    classes.to_parquet(tmp_path / "c.parquet")
    data = load_one(tmp_path / "t.parquet", tmp_path / "c.parquet", unseen_classes=10)
    assert data.y.dtype.kind == "i"
    with pytest.raises(ValueError, match=r"names 3, which .* Labels are of type str"):
        load_one(unseen_classes=[3])


def test_a_word_is_a_class_unless_there_is_such_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_one(unseen_classes="bee").unseen_classes.tolist() == ["bee"]
    (tmp_path / "bee").mkdir()
    assert load_one(unseen_classes="bee").unseen_classes.tolist() == ["bee"]
    (tmp_path / "cat").write_text("ant\n")
    assert load_one(unseen_classes="cat").unseen_classes.tolist() == ["ant"]
    with pytest.raises(
        ValueError, match=r"names 'Bee', which .* has 'bee', unseen_classes has 'Bee'"
    ):
        load_one(unseen_classes="Bee")
    with pytest.raises(FileNotFoundError, match=r"bee\.txt"):
        load_one(unseen_classes=tmp_path / "bee.txt")


def test_a_folder(tmp_path):
    folder = tmp_path / "beasts"
    folder.mkdir()
    with pytest.raises(ValueError, match=r"no features file \(features.npy, .* holds nothing"):
        load_table(folder)
    np.save(folder / "features.npy", X)
    pd.DataFrame({"species": Y}).to_csv(folder / "labels.csv", index=False)
    with pytest.raises(ValueError, match="signatures is missing"):
        load_table(folder)
    CLASSES.to_csv(folder / "signatures.csv")
    (folder / "unseen.txt").write_text("cat\n")
    data = load_table(folder)
    assert data.name == "beasts"
    assert isinstance(data.X, np.memmap)
    assert data.unseen_classes.tolist() == ["cat"]
    assert load_table(folder, unseen_classes=["bee"]).unseen_classes.tolist() == ["bee"]
    pd.DataFrame({"part": PART}).to_csv(folder / "parts.csv", index=False)
    assert load_table(str(folder)).active_split.test_seen.tolist() == [2, 6]
    (folder / "features.csv").write_text("")
    with pytest.raises(ValueError, match=r"there are features.npy and features.csv; keep one"):
        load_table(folder)


def test_a_saved_index_is_dropped(tmp_path):
    TABLE.sample(frac=1, random_state=0).to_csv(tmp_path / "t.csv")
    with pytest.warns(UserWarning, match=r"dropped: 'Unnamed: 0' \(row numbers\)"):
        load_one(tmp_path / "t.csv")
    data = load_one(tmp_path / "t.csv", drop=["Unnamed: 0"])
    assert data.feature_names.tolist() == ["size", "hue"]
    CLASSES.reset_index(names="class").to_csv(tmp_path / "c.csv")
    with pytest.raises(ValueError, match=r"The first column .* numbers the rows"):
        load_one(classes=tmp_path / "c.csv")


@pytest.mark.parametrize("start", [0, 1])
def test_a_column_that_counts_the_rows_is_no_feature(start):
    count = np.arange(start, start + 12)
    with pytest.warns(UserWarning, match=r"dropped: 'number' \(row numbers\)"):
        load_one(TABLE.assign(number=count))
    with pytest.raises(ValueError, match=r"table: column 1 counts the rows"):
        load_table(np.column_stack([X[:, 0], count]), Y, CLASSES, unseen_classes=["cat"])
    almost = TABLE.assign(number=np.where(count == 9, 7, count))
    assert "number" in load_one(almost).feature_names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TABLE, Y, CLASSES), r"the column 'species' is among the features although labels="),
        (
            (TABLE.drop(columns="species"), None, CLASSES),
            r"no column 'species'; the columns are 'size'",
        ),
        ((X, None, CLASSES), r"an array has no column of labels; pass labels="),
        ((TABLE[["species"]], None, CLASSES), r"No column can be used: there is no other column"),
        ((TABLE, None, None), r"signatures is missing"),
    ],
)
def test_refused_tables(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_table(*arguments, label="species", unseen_classes=["cat"])


# --------------------------------------------------------------------------- names of features


@pytest.fixture
def beasts():
    """A table that can be learned from, and the data set made of it."""
    made = make_zero_shot(n_seen=8, n_unseen=3, n_features=6, n_attributes=5, random_state=1)
    table = pd.DataFrame(made.X, columns=list("abcdef")).assign(species=made.y)
    data = load_table(
        table, signatures=made.signatures, label="species", unseen_classes=made.unseen_classes
    )
    return table, data


def test_features_from_what_does_not_fit(beasts):
    table, data = beasts
    with pytest.raises(ValueError, match=r"no columns 'a', 'f'; the table has 'b', 'c'"):
        data.features_from(table.drop(columns=["a", "f"]))
    with pytest.raises(ValueError, match=r"'b' must hold numbers, and has 'x'"):
        data.features_from(table.assign(b="x"))
    with pytest.raises(ValueError, match=r"the features have no names"):
        make_zero_shot(random_state=0).features_from(table)


def test_names_of_a_data_set_made_by_hand(beasts):
    table, data = beasts
    fields = {
        name: getattr(data, name)
        for name in ("y", "signatures", "splits", "split", "name", "features")
    }
    frame = table.drop(columns="species")
    made = ZeroShotDataset(X=frame, **fields)
    assert made.feature_names.tolist() == list("abcdef")
    assert made.with_split("own").feature_names is made.feature_names
    assert ZeroShotDataset(X=frame.to_numpy(), **fields).feature_names is None
    with pytest.raises(ValueError, match=r"there are 2 feature_names for 6 columns of X"):
        ZeroShotDataset(X=frame.to_numpy(), **fields, feature_names=["a", "b"])


# ------------------------------------------------------------- what people write into tables


@pytest.mark.parametrize("words", [("no", "yes"), ("False", "TRUE"), ("n", "Y "), (False, True)])
def test_yes_and_no_are_numbers(words, tmp_path):
    answers = [words[0], words[1], words[0]]
    classes = CLASSES.assign(furry=answers)
    table = TABLE.assign(awake=np.tile(words, 6))
    for source in (classes, tmp_path / "c.csv"):
        if source is not classes:
            classes.to_csv(source)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            data = load_one(table, source)
        assert data.signatures["furry"].tolist() == [0, 1, 0]
        assert data.X[:2, 2].tolist() == [0, 1]
        assert data.features_from(table).tolist() == data.X.tolist()
        texts = [str(w.message) for w in said]
        assert not [text for text in texts if "dropped" in text]
        ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
    # In `fit`, `predict` and `add_classes` too.
    X, y = table.drop(columns="species"), table["species"].to_numpy(dtype=str)
    model = ESZSL().fit(X, y, signatures=classes)
    model.add_classes({"dog": {"furry": words[1]}}, like="cat")
    assert model.signature_table_.as_user().loc["dog", "furry"] == 1
    other = ESZSL().fit(data.X, y, signatures=CLASSES.assign(furry=[0, 1, 0]))
    found = model.decision_function(X, classes=other.classes_)
    np.testing.assert_allclose(found, other.decision_function(data.X), rtol=1e-9, atol=1e-12)


def test_words_about_classes_are_categories():
    data = load_one(classes=CLASSES.assign(furry=["yes", "maybe", "no"]), signature_scaling=None)
    assert data.signatures.columns.tolist()[2:] == ["furry: maybe", "furry: yes"]
    assert data.signatures["furry: maybe"].tolist() == [0, 1, 0]


def test_numbers_kept_as_objects_are_numbers():
    classes = CLASSES.astype(object)
    classes.loc["bee", "wings"] = True
    assert load_one(classes=classes).signatures.loc["bee"].tolist() == [6, 1]
    assert load_one(classes=CLASSES.astype({"wings": str})).signatures["wings"].tolist() == [
        0,
        4,
        0,
    ]
    assert np.array_equal(load_one(TABLE.astype({"size": str})).X, X)


def test_described_classes_need_no_samples():
    more = pd.concat([CLASSES, CLASSES.iloc[:2].set_axis(["elk", "fox"])])
    data = load_one(classes=more, unseen_classes=None)
    assert data.unseen_classes.tolist() == ["elk", "fox"]
    assert data.seen_classes.tolist() == ["ant", "bee", "cat"]
    assert len(data.y_train) == 12
    assert data.X_test_unseen.shape == (0, 2)
    with pytest.warns(UserWarning, match="there are no samples of 'elk', so the accuracy on"):
        data = load_one(classes=more, unseen_classes=["cat", "elk"])
    assert data.unseen_classes.tolist() == ["cat", "elk"]
    assert set(data.y_test_unseen) == {"cat"}
    with pytest.raises(ValueError, match="every sample belongs to an unseen class"):
        load_one(unseen_classes=["ant", "bee", "cat"])


@pytest.mark.parametrize("wrong", ["bee ", "Bee"])
def test_labels_in_another_spelling_are_joined(wrong):
    table = TABLE.assign(species=TABLE["species"].replace("bee", wrong))
    with pytest.warns(UserWarning, match=rf"joined: '{wrong}' and 'bee'\."):
        assert load_one(table).y.tolist() == Y.tolist()
    # It could be one of two classes.
    both = CLASSES.rename(index={"ant": "BEE"})
    with pytest.raises(ValueError, match=r"no signature"):
        load_one(TABLE.assign(species=TABLE["species"].replace("bee", "bEe")), both)


def test_a_code_of_the_label_is_dropped():
    codes = np.repeat([3.0, 1.0, 7.0], 4)
    data = {"hold_out": None, "unseen_classes": None}
    classes = pd.concat([CLASSES, CLASSES.iloc[:1].set_axis(["elk"])])
    with pytest.warns(UserWarning, match=r"dropped: 'code' \(it encodes the class"):
        load_one(TABLE.assign(code=codes), classes, **data)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*dropped")
        for kept in (np.where(np.arange(12) == 5, 3, codes), np.repeat([3.0, 1.0, 1.0], 4)):
            assert load_one(TABLE.assign(code=kept), classes, **data).X.shape == (12, 3)
