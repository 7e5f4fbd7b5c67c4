"""Tables that say something else than they seem to: read right, or refused in one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn._utils._reading import text_format
from zslearn.datasets import load_table, read_descriptions, read_signature_table
from zslearn.images import read_class_texts

X = np.random.default_rng(0).normal(size=(6, 2)).round(3)
Y = np.repeat(["ant", "bee", "cat"], 2)
CLASSES = pd.DataFrame({"legs": [6, 6, 4], "wings": [0.5, 4, 0]}, index=["ant", "bee", "cat"])
HEADER = "label,a,b\n"
ROWS = "".join(f"{y},{a},{b}\n" for y, (a, b) in zip(Y, X, strict=True))
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


def load(table, classes=CLASSES, labels=None, **options):
    return load_table(table, labels, classes, **{"unseen_classes": ["cat"], **options})


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# -------------------------------------------------------------------------------- rows and headers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + ROWS.replace("\n", ",\n"), r"line 2 has 4 fields, but the first line has 3"),
        (HEADER + ROWS.replace("\n", ",9\n"), r"line 2 has 4 fields, but the first line has 3"),
        (HEADER + ROWS + "cat,1,2,\n", r"line 8 has 4 fields, but the first line has 3"),
        (HEADER + ROWS + "cat,1\n", r"line 8 has 2 fields, but the first line has 3"),
        ("\n\n" + HEADER + "\n" + ROWS + "cat\n", r"line 11 has 1 fields"),
        (HEADER + ROWS + '"cat\n and dog",1\n', r"line 9 has 2 fields"),
        ("label,a,a\n" + ROWS, r"the header contains 'a' more than once"),
        (HEADER + ROWS + '"cat,1,2\n', r"t\.csv: .*(2 fields|cannot be read|1 fields)"),
        (HEADER + ROWS + "cat," + "1" * 200_000 + ",2\n", r"line 8: the table cannot be read"),
        ("\n\n", r"t\.csv: .*the file is empty"),
    ],
)
def test_rows_of_different_lengths(tmp_path, text, message):
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(ValueError, match=message):
        load(path)
    for other in ({"classes": path, "table": X, "labels": Y}, {"labels": path, "table": X}):
        with pytest.raises(ValueError, match=r"t\.csv: "):
            load(**other)


def test_a_table_without_a_header_is_checked_too(tmp_path):
    rows = pd.DataFrame(X).to_csv(index=False, header=False)
    path = write(tmp_path / "t.csv", rows)
    assert np.array_equal(load(path, labels=Y).X, X)
    write(path, rows.replace("\n", ",\n", 1))
    with pytest.raises(ValueError, match=r"line 2 has 2 fields, but the first line has 3"):
        load(path, labels=Y)


def test_blank_lines_and_ends_of_line_do_not_count(tmp_path):
    for text in (HEADER + ROWS, "\n" + HEADER + "\n  \n" + ROWS + "\n\n"):
        for end in ("\n", "\r\n", "\r"):
            path = write(tmp_path / "t.csv", text.replace("\n", end))
            data = load(path)
            assert np.array_equal(data.X, X)
            assert data.y.tolist() == Y.tolist()
    path = write(tmp_path / "t.csv", 'label,"a, b",c\n' + ROWS.replace("ant", '"a ""nt"""'))
    data = load(path, CLASSES.rename(index={"ant": 'a "nt"'}))
    assert data.feature_names.tolist() == ["a, b", "c"]


def test_many_columns_are_checked_in_linear_time(tmp_path):
    names = ",".join(f"f{i}" for i in range(60_000))
    path = write(tmp_path / "t.csv", f"label,{names},f7\n")
    with pytest.raises(ValueError, match=r"the header contains 'f7' more than once"):
        load(path)
    write(path, "label" + ",a" * 60_000 + "\n")
    with pytest.raises(ValueError, match=r"the header contains 'a' more than once"):
        load(path)


# ----------------------------------------------------------------------------- text and its forms


def test_byte_order_marks(tmp_path):
    mark = "\ufeff"
    for text in (mark + HEADER + ROWS, mark + '"label",a,b\n' + ROWS):
        data = load(write(tmp_path / "t.csv", text))
        assert np.array_equal(data.X, X)
    rows = pd.DataFrame(X).to_csv(index=False, header=False)
    assert np.array_equal(load(write(tmp_path / "h.csv", mark + rows), labels=Y).X, X)
    classes = write(tmp_path / "c.csv", mark + CLASSES.to_csv(index_label="label"))
    unseen = write(tmp_path / "u.txt", mark + "cat\r\n")
    data = load(X, classes, labels=Y, unseen_classes=unseen)
    assert data.unseen_classes.tolist() == ["cat"]
    assert data.signatures.index.tolist() == ["ant", "bee", "cat"]
    write(tmp_path / "t.csv", HEADER + ROWS + mark + "cat,1,2\n")
    with pytest.raises(ValueError, match=r"t\.csv: line 8 contains a byte order mark \(U\+FEFF\)"):
        load(tmp_path / "t.csv")
    write(unseen, "bee\n" + mark + "cat\n")
    with pytest.raises(ValueError, match=r"u\.txt: line 2 contains a byte order mark"):
        load(X, classes, labels=Y, unseen_classes=unseen)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1", "utf-32"])
def test_other_encodings(tmp_path, encoding):
    text = (HEADER + ROWS).replace("ant", "ämt")
    path = write(tmp_path / "t.csv", text.encode(encoding))
    if encoding in ("utf-16", "latin-1"):
        assert "ämt" in load(path, CLASSES.rename(index={"ant": "ämt"})).seen_classes
    else:
        with pytest.raises(ValueError, match=r"t\.csv: .*(UTF-8|byte order mark)"):
            load(path)
    unseen = write(tmp_path / "u.txt", "ämt\n".encode(encoding))
    with pytest.raises(ValueError, match=r"u\.txt: .*UTF-8"):
        load(X, labels=Y, unseen_classes=unseen)


def test_one_name_in_two_unicode_forms():
    y = np.where(Y == "ant", COMPOSED, Y)
    shown = r"code points: 'caf\\xe9' and 'cafe\\u0301'"
    with pytest.raises(ValueError, match=shown):
        load(X, CLASSES.rename(index={"ant": COMPOSED, "bee": DECOMPOSED}), labels=y)
    with pytest.warns(UserWarning, match=r"joined: 'caf\\xe9' and 'cafe\\u0301'"):
        load(X, CLASSES.rename(index={"ant": DECOMPOSED}), labels=y)
    assert COMPOSED in load(X, CLASSES.rename(index={"ant": COMPOSED}), labels=y).seen_classes


# ------------------------------------------------------------------------------- unusual labels


@pytest.mark.parametrize(
    "names",
    [
        ["12345678901234567890", "2", "3"],
        ["--1", "2", "3"],
        ["-", "2", "3"],
        ["-0", "2", "3"],
        ["9" * 5000, "2", "3"],
        ["\u0663", "2", "3"],
        ["1e3", "2", "3"],
    ],
)
def test_labels_that_are_nearly_numbers_are_text(tmp_path, names):
    table = write(
        tmp_path / "t.csv",
        HEADER + "".join(f"{name},{i * i},1\n" for i, name in enumerate(names * 2)),
    )
    classes = write(tmp_path / "c.csv", "label,legs\n" + "".join(f"{name},6\n" for name in names))
    unseen = write(tmp_path / "u.txt", names[0] + "\n")
    data = load(table, classes, unseen_classes=unseen, drop=["b"])
    assert data.y.tolist() == names * 2
    assert data.unseen_classes.tolist() == names[:1]


def test_the_largest_whole_numbers(tmp_path):
    names = [str(2**63 - 1), str(-(2**63)), "0"]
    table = write(
        tmp_path / "t.csv",
        HEADER + "".join(f"{name},{i * i},1\n" for i, name in enumerate(names * 2)),
    )
    classes = write(tmp_path / "c.csv", "label,legs\n" + "".join(f"{name},6\n" for name in names))
    data = load(table, classes, unseen_classes=[0], drop=["b"])
    assert data.y.tolist() == [2**63 - 1, -(2**63), 0] * 2
    y = np.array([10**20, 2, 3] * 2, dtype=object)
    with pytest.raises(
        ValueError, match=r"labels: .*100000000000000000000 do not fit into 64 bits"
    ):
        load(X, pd.DataFrame({"legs": [1, 2, 3]}, index=[10**20, 2, 3]), labels=y)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (Y[:, None], r"the labels have shape \(6, 1\); give one label per sample"),
        (np.array("ant"), r"the labels have shape \(\); give one label per sample"),
        (Y.astype("S"), r"the labels have dtype \|S3; give text or integers"),
        (np.zeros(6, dtype="M8[s]"), r"the labels have dtype datetime64"),
        (np.zeros(6, dtype=[("a", "i4")]), r"the labels have dtype"),
        (np.array([1.0, np.nan] * 3), r"there are 3 missing labels, the first in row 2"),
    ],
)
def test_label_arrays_of_other_kinds(tmp_path, labels, message):
    np.save(tmp_path / "y.npy", labels)
    with pytest.raises(ValueError, match=r"y\.npy: " + message):
        load(X, labels=tmp_path / "y.npy")
    with pytest.raises(ValueError, match="labels: " + message):
        load(X, labels=labels)


def test_parts_and_images_of_other_kinds(tmp_path):
    np.save(tmp_path / "image.npy", np.array(3))
    with pytest.raises(ValueError, match=r"images holds a single number"):
        load(X, labels=Y, images=tmp_path / "image.npy")
    parts = np.array([["train"]] * 6)
    with pytest.raises(ValueError, match=r"part has 6 entries, in an array of shape \(6, 1\),"):
        load(X, labels=Y, part=parts, unseen_classes=None)


def test_parquet_with_labels_that_are_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    y = np.repeat([10, 2, 3], 2)
    classes = CLASSES.set_axis([10, 2, 3])
    named = CLASSES.reset_index(drop=True).rename_axis("species")  # labels 0, 1, 2
    pd.DataFrame({"label": y}).to_parquet(tmp_path / "y.parquet")
    pd.DataFrame({"label": y}).astype("Int64").to_parquet(tmp_path / "nullable.parquet")
    classes.to_parquet(tmp_path / "c.parquet")
    named.to_parquet(tmp_path / "n.parquet")
    for name in ("y", "nullable"):
        data = load(X, tmp_path / "c.parquet", tmp_path / f"{name}.parquet", unseen_classes=[3])
        assert data.y.tolist() == y.tolist()
        assert data.signatures.index.tolist() == [10, 2, 3]
    data = load(X, tmp_path / "n.parquet", np.repeat([0, 1, 2], 2), unseen_classes=[2])
    assert data.signatures.columns.tolist() == ["legs", "wings"]


def test_parquet_keeps_strings(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(X, columns=["a", "b"]).assign(label=Y, part="train")
    table.to_parquet(tmp_path / "t.parquet", row_group_size=2)
    CLASSES.to_parquet(tmp_path / "c.parquet")
    data = load(tmp_path / "t.parquet", tmp_path / "c.parquet", drop=["part"], part="none")
    assert data.y.dtype.kind == "U"
    assert np.array_equal(data.X, X)
    pd.testing.assert_frame_equal(data.signatures, CLASSES)
    pd.DataFrame({"label": Y, "a": [[1, 2]] * 6}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"'a' holds a ndarray in each row"):
        load(tmp_path / "t.parquet")


# --------------------------------------------------------------------------------------- limits


@pytest.mark.slow
def test_the_limit_can_be_set(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "X.npz", X=np.zeros((6, 1_700_000)))
    load(tmp_path / "X.npz", labels=Y, max_bytes=200_000_000)
    for allow in (None, 10_000):
        with pytest.raises(ValueError, match=r"X\.npz: reading it takes about 77\.8 MiB of memory"):
            load(tmp_path / "X.npz", labels=Y, max_bytes=allow)
    with pytest.raises(ValueError, match=r"max_bytes must be a positive number of bytes"):
        load(tmp_path / "X.npz", labels=Y, max_bytes="2 GB")
    monkeypatch.setenv("ZSLEARN_MAX_BYTES", "200000000")
    load(tmp_path / "X.npz", labels=Y)
    with pytest.raises(ValueError, match="more than the 9.77 KiB"):
        load(tmp_path / "X.npz", labels=Y, max_bytes=10_000)
    monkeypatch.setenv("ZSLEARN_MAX_BYTES", "much")
    with pytest.raises(ValueError, match="ZSLEARN_MAX_BYTES must be a positive number of bytes"):
        load(tmp_path / "X.npz", labels=Y)
    # A memory map takes no memory, whatever the limit.
    np.save(tmp_path / "X.npy", np.zeros((6, 2000)))
    monkeypatch.delenv("ZSLEARN_MAX_BYTES")
    assert load(tmp_path / "X.npy", labels=Y, max_bytes=10).X.shape == (6, 2000)


@pytest.mark.parametrize(
    ("sign", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")]
)
@pytest.mark.parametrize("value", ["0.5", "0,5"])
def test_tables_that_commas_do_not_separate(tmp_path, sign, name, value, caplog):
    caplog.set_level("INFO", "zslearn")
    path = tmp_path / "table.csv"
    path.write_text(f"class{sign}fur{sign}size\ncat{sign}1{sign}{value}\ndog{sign}1{sign}0\n")
    assert read_signature_table(path)["size"].tolist() == [0.5, 0]
    said = f"table.csv: fields are separated by {name}"
    assert (
        said + (", numbers have decimal commas" if value == "0,5" else "; otherwise give --sep")
        in caplog.text
    )
    path.write_text(f"class{sign}text\ncat{sign}small, soft\ndog{sign}loud; barks\n")
    expected = {"cat": ["small, soft"], "dog": ["loud; barks"]}
    if sign != ";":
        assert read_descriptions(path) == read_class_texts(path) == expected
    # Without a header.
    path.write_text(f"{value}{sign}1\n1{sign}3\n3{sign}5\n")
    y = np.array(["cat", "dog", "dog"])
    classes = pd.DataFrame({"legs": [1.0, 2.0, 3.0]}, ["cat", "dog", "emu"])
    data = load_table(path, y, classes)
    assert data.X.tolist() == [[0.5, 1], [1, 3], [3, 5]]
    with text_format(sep="~"), pytest.raises(ValueError, match="there are 1 columns"):
        read_signature_table(path)
