"""Features on disk: what is read is what was written, and what is wrong is said."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

from zslearn.datasets import FeatureBlocks

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
zarr = pytest.importorskip("zarr")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((97, 6)).astype(np.float32)
Y = np.array(["ant", "bee", "cat"])[RNG.integers(0, 3, 97)]


def _small(**options):
    return {"block_bytes": 10 * X.shape[1] * 4, **options}


def _npy(folder):
    for number, part in enumerate(np.array_split(np.arange(97), 3)):
        np.save(folder / f"{number}.npy", X[part])
    return FeatureBlocks.open(folder, labels=Y, **_small())


def _npy_labels(folder):
    (folder / "y").mkdir()
    paths = []
    # Shards of the labels need not end where those of the features do.
    for number, part in enumerate(np.array_split(np.arange(97), 4)):
        paths.append(folder / "y" / f"{number}.npy")
        np.save(paths[-1], Y[part])
    np.save(folder / "X.npy", X)
    return FeatureBlocks.open([folder / "X.npy"], labels=paths, **_small())


def _zarr(folder):
    group = zarr.open_group(str(folder / "x.zarr"), mode="w")
    group.create_array("features", shape=X.shape, chunks=(16, 3), dtype="f4")[:] = X
    codes = np.unique(Y, return_inverse=True)[1]
    group.create_array("label", shape=codes.shape, chunks=(10,), dtype="i8")[:] = codes
    return FeatureBlocks.open(folder / "x.zarr", **_small())


def _zarr_v2(folder):
    array = zarr.create_array(
        str(folder / "x"), shape=X.shape, chunks=(16, 6), dtype="f4", zarr_format=2
    )
    array[:] = X
    return FeatureBlocks.open(folder / "x", labels=Y, **_small())


def _vectors(folder):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    table = pa.table({"features": vectors, "label": Y})
    pa.parquet.write_table(table, folder / "a.parquet", row_group_size=23)
    return FeatureBlocks.open(folder, **_small())


def _lists(folder):
    table = pa.table({"features": pa.array(X.tolist(), pa.list_(pa.float32())), "label": Y})
    pa.parquet.write_table(table.slice(0, 50), folder / "a.parquet")
    pa.parquet.write_table(table.slice(50), folder / "b.parquet")
    return FeatureBlocks.open(folder, **_small())


def _columns(folder):
    table = pa.Table.from_pandas(pd.DataFrame(X).rename(columns=str).assign(label=Y))
    with pa.ipc.new_file(folder / "x.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=31)
    return FeatureBlocks.open(folder / "x.arrow", **_small())


def _memory_map(folder):
    np.save(folder / "X.npy", X)
    return FeatureBlocks(np.load(folder / "X.npy", mmap_mode="r"), Y, **_small())


KINDS = [_npy, _npy_labels, _zarr, _zarr_v2, _vectors, _lists, _columns, _memory_map]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [0, 2])
def test_rows_and_labels_come_back(kind, depth, tmp_path):
    blocks = kind(tmp_path)
    blocks.read_ahead = depth
    assert blocks.shape == X.shape
    assert len(blocks) == 97
    assert blocks.has_labels
    parts = list(blocks)
    assert len(parts) > 5
    assert max(len(rows) for rows, _ in parts) <= 16
    assert np.array_equal(np.concatenate([rows for rows, _ in parts]), X)
    labels = np.concatenate([labels for _, labels in parts])
    expected = np.unique(Y, return_inverse=True)[1] if kind is _zarr else Y
    assert np.array_equal(labels, expected)
    # Once more: it is not used up.
    assert sum(len(rows) for rows, _ in blocks) == 97


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [1, 33, 64, 96, 97])
def test_reading_goes_on_from_any_row(kind, start, tmp_path):
    found = list(kind(tmp_path).blocks(start))
    rows = [block.rows for block in found]
    assert np.array_equal(np.concatenate([X[:0], *rows]), X[start:])
    at = start
    for block in found:
        assert block.start == at
        assert len(block.labels) == len(block.rows)
        at += len(block.rows)


def test_shards_of_two_types_come_in_the_wider_one(tmp_path):
    np.save(tmp_path / "0.npy", X)
    np.save(tmp_path / "1.npy", X.astype(np.float64))
    blocks = FeatureBlocks.open(tmp_path)
    assert blocks.dtype == np.float64
    assert all(rows.dtype == np.float64 for rows, _ in blocks)
    assert not blocks.has_labels
    assert "2 shards: 194 × 6 float64, without labels" in repr(blocks)


def _refused(folder, match, **options):
    with pytest.raises(ValueError, match=match) as error:
        for _ in FeatureBlocks.open(folder, **options):
            pass
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("second", "match"),
    [
        (X[:, :5], r"1\.npy has 5 features, but .*0\.npy has 6"),
        (X[:0], r"1\.npy: the shard is empty, of shape \(0, 6\)"),
        (X[0], "the array has 1 axes"),
        (X + 1j, "real numbers, not complex"),
        (np.asfortranarray(X), "stored by columns"),
    ],
)
def test_shards_that_do_not_fit(tmp_path, second, match):
    np.save(tmp_path / "0.npy", X)
    np.save(tmp_path / "1.npy", second)
    _refused(tmp_path, match)


def test_an_empty_folder_and_other_files(tmp_path):
    _refused(tmp_path, "There are no shards")
    (tmp_path / "notes.txt").write_text("x")
    _refused(tmp_path, r"also holds 'notes.txt'")
    _refused(tmp_path / "notes.txt", "features must be in a")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_names_the_file_and_the_row(value, tmp_path):
    bad = X.copy()
    bad[41, 2] = value
    np.save(tmp_path / "0.npy", X)
    np.save(tmp_path / "1.npy", bad)
    _refused(tmp_path, r"1\.npy: row 41 contains NaN or infinity", **_small())
    allowed = FeatureBlocks.open(tmp_path, allow_nan=True)
    assert np.isfinite(np.concatenate([rows for rows, _ in allowed])).sum() == 2 * 97 * 6 - 1


def test_a_missing_vector_and_a_missing_label(tmp_path):
    table = pa.table({"features": [[1.0, 2.0], None], "label": ["a", "b"]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    _refused(tmp_path, "1 have no features")
    table = pa.table({"features": [[1.0, 2.0], [1.0, 3.0]], "label": ["a", None]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    _refused(tmp_path, "1 rows of a block have no label")


def test_vectors_of_two_lengths(tmp_path):
    table = pa.table({"features": [[1.0, 2.0], [1.0, 2.0, 3.0], [1.0]]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    _refused(tmp_path, "differ in length")


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, X)
    blocks = FeatureBlocks.open(path, **_small(read_ahead=0))
    rows = iter(blocks)
    next(rows)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(ValueError, match=r"X\.npy: the file changed while it was being read"):
        list(rows)
    with pytest.raises(ValueError, match="the array cannot be read"):
        FeatureBlocks.open(path)


def test_a_table_that_changes_after_it_was_opened(tmp_path):
    blocks = _vectors(tmp_path)
    os.truncate(tmp_path / "a.parquet", 100)
    with pytest.raises(ValueError, match=r"a\.parquet: the rows cannot be read"):
        list(blocks)
    _refused(tmp_path, "the table cannot be read")


def test_chunks_that_vanish_while_they_are_read(tmp_path):
    blocks = _zarr_v2(tmp_path)
    (tmp_path / "x" / "5.0").unlink()
    with pytest.raises(ValueError, match="chunks were added or removed"):
        list(blocks)


def test_columns_that_are_not_numbers(tmp_path):
    pa.parquet.write_table(pa.table({"a": [1.0], "name": ["x"]}), tmp_path / "a.parquet")
    _refused(tmp_path, "not numbers: 'name'")


def test_another_number_of_labels(tmp_path):
    np.save(tmp_path / "X.npy", X)
    _refused(tmp_path, "97 rows of features and 96 labels", labels=Y[:96])


def test_labels_of_some_shards_only(tmp_path):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 6)
    pa.parquet.write_table(pa.table({"features": vectors, "label": Y}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"features": vectors}), tmp_path / "b.parquet")
    _refused(tmp_path, r"not these: '.*b\.parquet'")


def test_the_fingerprint_tells_files_apart(tmp_path):
    blocks = _npy(tmp_path)
    same = FeatureBlocks.open(tmp_path, labels=Y)
    assert blocks.fingerprint() == same.fingerprint()
    np.save(tmp_path / "1.npy", X[:20])
    assert FeatureBlocks.open(tmp_path).fingerprint() != blocks.fingerprint()
