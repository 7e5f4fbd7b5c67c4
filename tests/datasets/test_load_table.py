from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from zslearn.datasets import load_table

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


def test_parquet(files, monkeypatch):
    if "pyarrow" not in sys.modules:
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            (files / "f.parquet").write_bytes(b"PAR1")
            with pytest.raises(ImportError, match=r"f.parquet needs pyarrow.* pip install pyarrow"):
                load(files, "f.parquet")
            return
    pd.DataFrame(X).add_prefix("f").to_parquet(files / "f.parquet")
    pd.read_csv(files / "y.csv", keep_default_na=False).to_parquet(files / "y.parquet")
    pd.read_csv(files / "classes.csv").to_parquet(files / "classes.parquet")
    data = load(files, "f.parquet", "y.parquet", "classes.parquet")
    assert np.array_equal(data.X, X)
    assert data.unseen_classes.tolist() == ["cat"]
    (files / "f.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(ValueError, match="table cannot be read"):
        load(files, "f.parquet")


def test_arrays_and_frames():
    signatures = pd.DataFrame(np.eye(3), index=["ant", "bee", "cat"])
    images = np.zeros((12, 3, 3))
    data = load_table(X, Y, signatures, part=PART, images=images, name="mine", version="v7")
    assert data.version == "v7"
    assert data.images_train.shape == (4, 3, 3)
    assert data.features == "array"


def test_images_are_mapped(files):
    np.save(files / "images.npy", np.zeros((12, 3, 3), dtype=np.uint8))
    assert isinstance(load(files, images=files / "images.npy").images, np.memmap)
    with pytest.raises(ValueError, match=r"images are given as a .npy file"):
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
    assert data.version == "table/conventional"


def test_labels_that_are_numbers(files):
    numbers = np.repeat([10, 2, 3], 4)
    pd.DataFrame({"label": numbers}).to_csv(files / "n.csv", index=False)
    np.save(files / "n.npy", numbers)
    (files / "c.csv").write_text("class,a\n10,1\n2,2\n3,3\n")
    (files / "unseen.txt").write_text("10\n")
    for y in ("n.csv", "n.npy"):
        data = load(files, y=y, classes="c.csv", unseen_classes=files / "unseen.txt")
        assert data.unseen_classes.tolist() == [10]
        assert data.seen_classes.tolist() == [2, 3]
    # One name that is no number makes all of them text.
    (files / "c.csv").write_text("class,a\n10,1\n2,2\n3,3\nx,4\n")
    data = load(files, y="n.csv", classes="c.csv", unseen_classes=["10"])
    assert data.unseen_classes.tolist() == ["10"]


def test_class_names_that_look_like_nothing(files):
    pd.DataFrame({"label": np.repeat(["NA", "nan", "None"], 4)}).to_csv(
        files / "y.csv", index=False
    )
    (files / "c.csv").write_text("class,a\nNA,1\nnan,2\nNone,3\n")
    data = load(files, classes="c.csv", unseen_classes=["NA"])
    assert data.unseen_classes.tolist() == ["NA"]
    assert data.seen_classes.tolist() == ["nan", "None"]


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was executed",))


def test_pickles_are_not_loaded(files):
    objects = np.empty(2, dtype=object)
    objects[:] = [Trap(), Trap()]
    np.save(files / "trap.npy", objects, allow_pickle=True)
    np.savez(files / "trap.npz", X=objects)
    for name in ("trap.npy", "trap.npz"):
        with pytest.raises(ValueError, match="cannot be read"):
            load(files, name)


def test_damaged_arrays(files):
    np.savez(files / "X.npz", X=X)
    for name in ("X.npy", "X.npz"):
        whole = (files / name).read_bytes()
        for length in range(0, len(whole) - 1, 7):
            (files / name).write_bytes(whole[:length])
            with pytest.raises(ValueError, match="cannot be read"):
                load(files, name)


@pytest.mark.parametrize(
    ("write", "options", "message"),
    [
        (
            {},
            {"y": "y.csv", "label": "class"},
            r"no column 'class'; it has 'label', 'part', 'note'",
        ),
        ({}, {"X": "X.txt"}, r"files of kind '.txt' are not read"),
        ({}, {"unseen_classes": ["cat"]}, r"the split is given twice"),
        ({"y.csv": "label\n" + "ant\n" * 12}, {}, r"no split is given; add a column 'part'"),
        (
            {"y.csv": "label\n" + "ant\n" * 12},
            {"unseen_classes": ["emu"]},
            r"names 'emu', of which there are no samples; labels are of type str",
        ),
        (
            {"y.csv": "label\n" + "ant\n" * 11 + "bee\n"},
            {"unseen_classes": ["bee"], "hold_out": 2},
            r"hold_out=2",
        ),
        ({"y.csv": "label,part\nant,train\n"}, {}, r"X has 12 rows and y has shape \(1,\)"),
        ({"y.csv": "label,part\n" + "ant,tset\n" * 12}, {}, r"part holds 'tset'; it may be"),
        ({"y.csv": "label,part\n" + ",train\n" * 12}, {}, r"12 missing labels"),
        ({"X.csv": "a,b\n1,x\n"}, {"X": "X.csv"}, r"columns 'b' are not numbers"),
        ({"X.csv": ""}, {"X": "X.csv"}, r"the table cannot be read"),
        ({"classes.csv": "class\nant\n"}, {}, r"there are 1 columns"),
        ({"classes.csv": "class,a\nant,x\n"}, {}, r"columns 'a' are not numbers"),
        ({"classes.csv": "class,a\n,1\nant,2\n"}, {}, r"has empty cells"),
        ({"classes.csv": "class,a\nant,1\nbee,2\n"}, {}, r"class 'cat' of y has no signature"),
        ({"classes.csv": "class,a\nant,1\nbee,\ncat,1\n"}, {}, r"not finite numbers"),
    ],
)
def test_refused(files, write, options, message):
    for name, text in write.items():
        (files / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        load(files, **options)


def test_refused_arrays(files):
    np.savez(files / "two.npz", a=X, b=X)
    with pytest.raises(ValueError, match=r"it holds 2 arrays \('a', 'b'\); name one of them X"):
        load(files, "two.npz")
    np.save(files / "flat.npy", X.ravel())
    with pytest.raises(ValueError, match=r"shape \(24,\) .* one row per sample"):
        load(files, "flat.npy")
    np.save(files / "text.npy", np.array([["a"]]))
    with pytest.raises(ValueError, match=r"features are numbers"):
        load(files, "text.npy")
    with pytest.raises(ValueError, match=r"part has 3 entries for 12 labels"):
        load_table(X, Y, pd.DataFrame(np.eye(3), index=["ant", "bee", "cat"]), part=PART[:3])
    with pytest.raises(TypeError, match=r"must be a pandas DataFrame"):
        load_table(X, Y, np.eye(3), part=PART)
    for missing in ({"X": "no.npy"}, {"y": "no.csv"}, {"classes": "no.csv"}):
        with pytest.raises(FileNotFoundError, match="no"):
            load(files, **missing)
