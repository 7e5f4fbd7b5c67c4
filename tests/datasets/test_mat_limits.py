"""How much memory a MATLAB file may take, and that real ones stay below."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from zslearn._utils._reading import Budget, FileLimitError, limit_reading
from zslearn.datasets._mat import read_mat
from zslearn.datasets._xlsa17_files import read_classes


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    path = tmp_path / "x.mat"
    savemat(path, {"x": np.zeros((100, 100))}, do_compression=True)
    for allowed, message in ((1000, "more than the 1000 bytes"), (79_999, r"about 78.1 KiB")):
        with pytest.raises(FileLimitError, match=rf"x\.mat: .*{message}"):
            read_mat(path, {"x"}, max_bytes=allowed)
    assert read_mat(path, {"x"}, max_bytes=10**6)["x"].shape == (100, 100)
    with limit_reading(1000), pytest.raises(FileLimitError, match=r"max_bytes=80000, or the"):
        read_mat(path, {"x"})
    monkeypatch.setenv("ZSLEARN_MAX_BYTES", "1000")
    with pytest.raises(FileLimitError):
        read_mat(path, {"x"})
    monkeypatch.delenv("ZSLEARN_MAX_BYTES")
    assert Budget(path).limit == 64 * path.stat().st_size + 64 * 2**20


def test_what_is_not_asked_for_does_not_count(tmp_path):
    path = tmp_path / "x.mat"
    for compressed in (True, False):
        savemat(path, {"x": np.zeros((1000, 2000)), "y": np.eye(3)}, do_compression=compressed)
        assert np.array_equal(read_mat(path, {"y"}, max_bytes=10_000)["y"], np.eye(3))


@pytest.mark.parametrize("options", [
    {"compression": "gzip"},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
    {"compression": "lzf"},
    {"chunks": (200, 500)},
    {},
])  # fmt: skip
@pytest.mark.parametrize("dense", [True, False])
def test_hdf5_with_each_filter(tmp_path, options, dense):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.mat"
    x = np.random.default_rng(0).normal(size=(200, 500)) * (1 if dense else 0)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=x, **options)
    assert np.array_equal(read_mat(path, {"x"})["x"], x.T)
    assert np.array_equal(read_mat(path, {"x"}, max_bytes=6 * x.nbytes)["x"], x.T)
    with pytest.raises(FileLimitError):
        read_mat(path, {"x"}, max_bytes=x.nbytes - 1)


def test_many_names_one_of_them_repeated(tmp_path):
    """Names are counted once: 60,000 of them took a minute when each was looked for in all."""
    names = [f"class {i}" for i in range(60_000)]
    savemat(tmp_path / "att_splits.mat", {"att": np.ones((1, 60_000))})
    (tmp_path / "allclasses.txt").write_text("\ufeff" + "\n".join(n.split()[1] for n in names))
    assert read_classes(tmp_path, "att").names[0] == "0"  # and not a byte order mark
    (tmp_path / "allclasses.txt").write_text("\n".join([*names, "class 7"]))
    with pytest.raises(ValueError, match=r"empty or repeated names \('7'\)"):
        read_classes(tmp_path, "att")


@pytest.mark.parametrize("name", ["APY", "AWA1", "AWA2", "CUB", "SUN"])
def test_real_files_stay_far_below_the_limit(data_folder, name):
    home = data_folder / "xlsa17" / name
    if not home.exists():
        pytest.skip(f"there is no {name}")
    for path in sorted(home.glob("*.mat")):
        wanted = {"att", "original_att", "allclasses_names", "features", "labels", "trainval_loc"}
        limit = Budget(path).limit
        assert read_mat(path, wanted, max_bytes=limit // 2)
