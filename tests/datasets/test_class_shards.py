"""Shards of features: every layout, what is skipped and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zslearn.datasets import ClassShards, load_imagenet

COUNTS = {"n00000001": 3, "n00000002": 5, "n00000003": 1}


def _arrays(width=4):
    rng = np.random.default_rng(0)
    return {w: rng.normal(size=(n, width)).astype(np.float32) for w, n in COUNTS.items()}


def _npy(folder, arrays):
    for wnid, rows in arrays.items():
        np.save(folder / f"{wnid}.npy", rows)
    return folder


def _h5(folder, arrays):
    h5py = pytest.importorskip("h5py")
    for wnid, rows in arrays.items():
        with h5py.File(folder / f"{wnid}.h5", "w") as file:
            file["features"] = rows
            file["other"] = np.arange(3)
    return folder


def _zarr(folder, arrays):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(folder / "features.zarr"), mode="w")
    for wnid, rows in arrays.items():
        made = group.create_array(wnid, shape=rows.shape, dtype=rows.dtype)
        if rows.size:
            made[:] = rows
    return folder


def _parquet(folder, arrays):
    pytest.importorskip("pyarrow")
    parts = [
        pd.DataFrame(rows, columns=[f"f{i}" for i in range(rows.shape[1])]).assign(wnid=wnid)
        for wnid, rows in arrays.items()
    ]
    # Small row groups, so that classes begin and end inside them.
    pd.concat(parts).to_parquet(folder / "features.parquet", index=False, row_group_size=4)
    return folder


LAYOUTS = {"npy": _npy, "h5": _h5, "zarr": _zarr, "parquet": _parquet}


@pytest.mark.parametrize("write", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout(write, tmp_path):
    arrays = _arrays()
    shards = ClassShards(write(tmp_path, arrays))
    assert shards.classes == sorted(COUNTS)
    assert shards.counts.to_dict() == COUNTS
    assert (shards.n_features, len(shards), shards.skipped) == (4, 3, {})
    for wnid, rows in arrays.items():
        np.testing.assert_array_equal(shards.rows(wnid), rows)
        np.testing.assert_array_equal(shards.rows(wnid, 1, 3), rows[1:3])
    for n_rows in (1, 2, 4, 100):
        blocks = list(shards.blocks(n_rows=n_rows))
        assert all(len(X) == len(y) <= n_rows for X, y in blocks)
        whole = np.concatenate([X for X, _ in blocks])
        np.testing.assert_array_equal(whole, np.concatenate(list(arrays.values())))
        labels = np.concatenate([y for _, y in blocks])
        np.testing.assert_array_equal(labels, np.repeat(list(COUNTS), list(COUNTS.values())))


def test_store_by_its_own_path(tmp_path):
    _parquet(tmp_path, _arrays())
    assert len(ClassShards(tmp_path / "features.parquet")) == 3
    _zarr(tmp_path, _arrays())
    assert len(ClassShards(tmp_path / "features.zarr")) == 3
    with pytest.raises(ValueError, match="several forms: features.parquet, features.zarr"):
        ClassShards(tmp_path)


@pytest.mark.parametrize("write", [_npy, _h5, _zarr], ids=["npy", "h5", "zarr"])
def test_empty_shard_is_skipped_and_named(write, tmp_path):
    arrays = {**_arrays(), "n00000009": np.empty((0, 4), dtype=np.float32)}
    with pytest.warns(UserWarning, match="1 shard without rows: 'n00000009'"):
        shards = ClassShards(write(tmp_path, arrays))
    assert "n00000009" not in shards
    assert shards.skipped == {"n00000009": "without rows"}


@pytest.mark.parametrize("write", [_npy, _h5, _zarr], ids=["npy", "h5", "zarr"])
def test_shard_of_another_width_is_refused(write, tmp_path):
    arrays = {**_arrays(), "n00000009": np.ones((2, 7), dtype=np.float32)}
    with pytest.raises(ValueError, match=r"n00000009.* has 7 columns, but 3 of 4 shards have 4"):
        ClassShards(write(tmp_path, arrays))


def test_unknown_class_is_skipped_and_named(tmp_path):
    _npy(tmp_path, _arrays())
    with pytest.warns(UserWarning, match="1 shard unknown to the hierarchy: 'n00000002'"):
        shards = ClassShards(tmp_path, known={"n00000001", "n00000003"})
    assert shards.classes == ["n00000001", "n00000003"]
    with pytest.raises(ValueError, match="no rows of 'n00000002'"):
        shards.rows("n00000002")


def test_folders_without_features(tmp_path):
    with pytest.raises(ValueError, match="holds no features: expected files <wnid>"):
        ClassShards(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder or store"):
        ClassShards(tmp_path / "nowhere")


def test_parquet_whose_classes_are_mixed(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"wnid": ["a", "b", "a"], "f": [1.0, 2.0, 3.0]})
    table.to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(ValueError, match="rows of 'a' are not contiguous; sort"):
        ClassShards(tmp_path)
    table.rename(columns={"wnid": "name"}).to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(ValueError, match="one column must hold the class"):
        ClassShards(tmp_path)


def test_samples_and_halves_do_not_depend_on_other_classes(tmp_path):
    shards = ClassShards(_npy(tmp_path, _arrays()))
    X, y = shards.sample(["n00000001", "n00000002"], 2)
    alone, _ = shards.sample(["n00000002"], 2)
    assert y.tolist() == ["n00000001"] * 2 + ["n00000002"] * 2
    np.testing.assert_array_equal(X[2:], alone)
    first, second = shards.halves("n00000002")
    assert sorted([*first, *second]) == list(range(5))
    assert (len(first), len(second)) == (2, 3)
    assert len(shards.halves("n00000003")[0]) == 0


def _signatures():
    return pd.DataFrame(np.eye(3), index=list(COUNTS))


def test_load_imagenet_reads_nothing_before_it_is_used(tmp_path, monkeypatch):
    arrays = _arrays()
    _npy(tmp_path, arrays)
    seen = ["n00000002", "n00000001"]
    data = load_imagenet(tmp_path, _signatures(), seen_classes=seen, test_seen=0.4)
    assert (len(data.y_train), len(data.y_test_seen), len(data.y_test_unseen)) == (5, 3, 1)
    np.testing.assert_array_equal(data.X_test_unseen, arrays["n00000003"])
    for X, y in ((data.X_train, data.y_train), (data.X_test_seen, data.y_test_seen)):
        for row, label in zip(X, y, strict=True):
            assert (arrays[str(label)] == row).all(axis=1).any()
    np.testing.assert_array_equal(
        np.asarray(data.X), np.concatenate([arrays[s] for s in [*seen, "n00000003"]])
    )
    np.testing.assert_array_equal(data.X[-1], arrays["n00000003"][0])
    monkeypatch.setattr(ClassShards, "rows", None)
    load_imagenet(tmp_path, _signatures(), seen_classes=seen)


def test_load_imagenet_names_what_is_missing(tmp_path):
    _npy(tmp_path, {**_arrays(), "n00000009": np.empty((0, 4), dtype=np.float32)})
    with (
        pytest.warns(UserWarning, match="without rows"),
        pytest.raises(ValueError, match=r"no rows of 1 of 2 seen classes: 'n00000009'"),
    ):
        load_imagenet(tmp_path, _signatures(), seen_classes=["n00000001", "n00000009"])
    (tmp_path / "n00000009.npy").unlink()
    with pytest.raises(
        ValueError, match="signatures has no rows of 1 of 2 seen classes: 'n00000002'"
    ):
        load_imagenet(
            tmp_path, _signatures().drop("n00000002"), seen_classes=["n00000001", "n00000002"]
        )
    with pytest.warns(UserWarning, match="dropped 1 classes that have rows but no signature"):
        load_imagenet(tmp_path, _signatures().drop("n00000003"), seen_classes=["n00000001"])
