from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import scipy.sparse
from scipy.io import savemat

from xlsa17_files import (
    CLASSES,
    features,
    save_hdf5,
    splits,
    write_data_set,
    write_standard_split,
)
from zslearn.datasets import XLSA17, check_data, load_xlsa17


def saver(kind):
    if kind == "v7.3":
        pytest.importorskip("h5py")
        return save_hdf5
    return lambda path, variables: savemat(path, variables, do_compression=kind == "v7")


FORMATS = ["v5", "v7", "v7.3"]


# ------------------------------------------------------------------------------ what is loaded


@pytest.mark.parametrize("kind", FORMATS)
def test_proposed_split(tmp_path, kind):
    write_data_set(tmp_path, save=saver(kind))
    data = load_xlsa17("CUB", folder=tmp_path)
    assert np.array_equal(data.X, features()["features"].T)
    assert data.X.flags.c_contiguous
    assert data.X.dtype == np.float32
    assert data.y.tolist() == np.repeat(CLASSES, 10).tolist()
    # In the order of the file: the authors' hold-outs count in it.
    assert data.active_split.train.tolist() == (splits()["trainval_loc"].ravel() - 1).tolist()
    assert data.active_split.test_seen.tolist() == [8, 9, 18, 19]
    assert data.active_split.test_unseen.tolist() == list(range(20, 40))
    assert data.seen_classes.tolist() == ["ant", "bee"]
    assert data.unseen_classes.tolist() == ["cat", "dog"]
    assert data.signatures.index.tolist() == CLASSES
    # Raw, with the −1 of AWA's missing values as it stands.
    assert data.signatures.loc["bee"].tolist() == [2, -1, 1]
    assert data.name == "CUB"
    assert data.features == "res101"


def test_features_of_ones_own(tmp_path, monkeypatch):
    """An array, or a file in any folder; labels must be those of the data set."""
    home = write_data_set(tmp_path / "data")
    mine, elsewhere = np.random.default_rng(0).normal(size=(40, 5)), tmp_path / "here"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    names, numbers = np.repeat(CLASSES, 10), np.repeat(np.arange(1, 5), 10)
    np.save("mine.npy", mine)
    np.savez("named.npz", X=mine, y=names)
    np.savez("numbered.npz", X=mine, y=numbers)
    savemat("mine.mat", {"features": mine.T, "labels": numbers})
    given = [mine, "mine.npy", "named.npz", "numbered.npz", "mine.mat", elsewhere / "mine.npy"]
    for own in given:
        data = load_xlsa17("CUB", folder=tmp_path, features=own)
        np.testing.assert_array_equal(data.X, mine)
        assert data.y.tolist() == names.tolist()
    assert load_xlsa17("CUB", folder=tmp_path, features=mine).features == "array"
    np.savez("turned.npz", X=mine, y=names[::-1])
    np.savez("others.npz", X=mine, y=np.repeat(["ant", "bee", "cat", "Dog"], 10))
    np.savez("zero.npz", X=mine, y=numbers - 1)
    for own, message in (
        (mine[:30], r"there are 30 rows, but 40 images in res101.mat"),
        (mine[0], r"features have shape \(5,\); give one row per image"),
        ("turned.npz", r"row 1 is labelled 'dog', but res101.mat has 'ant' there"),
        (
            "others.npz",
            r"labels such as 'Dog' are not classes of this data set. Did you mean 'dog'",
        ),
        ("zero.npz", r"labels go from 0 to 3; classes are numbered from 1 to 4"),
    ):
        with pytest.raises(ValueError, match=message):
            load_xlsa17("CUB", folder=tmp_path, features=own)
    # Without a published file only one's own labels tell.
    (home / "res101.mat").unlink()
    assert load_xlsa17("CUB", folder=tmp_path, features="named.npz").y.tolist() == names.tolist()
    with pytest.raises(ValueError, match=r"there are no labels, and .* give a .npz file with the"):
        load_xlsa17("CUB", folder=tmp_path, features="mine.npy")


def test_signature_scaling(tmp_path):
    write_data_set(tmp_path)
    scaled = load_xlsa17("CUB", folder=tmp_path, signature_scaling="range").signatures
    plain = load_xlsa17("CUB", folder=tmp_path).signatures
    assert (scaled.attrs, plain.attrs) == ({"signature_scaling": "range"}, {})
    assert scaled.equals(plain)


def test_flowers_have_neither_raw_attributes_nor_names(tmp_path):
    home = write_data_set(tmp_path, "FLO", original_att=None, allclasses_names=None)
    with pytest.raises(ValueError, match=r"no 'original_att'; pass signatures='att'"):
        load_xlsa17("FLO", folder=tmp_path)
    data = load_xlsa17("FLO", folder=tmp_path, signatures="att")
    assert data.seen_classes.tolist() == [1, 2]
    (home / "allclasses.txt").write_text("1 rose\n2 iris\n3 lily\n4 tulip\n")
    data = load_xlsa17("FLO", folder=tmp_path, signatures="att")
    assert data.unseen_classes.tolist() == ["lily", "tulip"]


@pytest.mark.parametrize("place", ["", "data", "xlsa17", "xlsa17/data"])
def test_places(tmp_path, place, monkeypatch):
    write_data_set(tmp_path / place, "SUN")
    assert load_xlsa17("SUN", folder=tmp_path).name == "SUN"
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    assert load_xlsa17("SUN").name == "SUN"


def test_nothing_there_says_how_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"zslearn data fetch xlsa17"):
        load_xlsa17("SUN", folder=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"zslearn data fetch cvpr18xian"):
        load_xlsa17("FLO", folder=tmp_path)
    write_data_set(tmp_path, "AWA1")
    with pytest.raises(FileNotFoundError, match=r"zslearn data fetch standard_split"):
        load_xlsa17("AWA1", folder=tmp_path, split="ss")


# ----------------------------------------------------------------------------------- versions


def test_version_is_unknown_unless_told(tmp_path):
    write_data_set(tmp_path)
    assert load_xlsa17("CUB", folder=tmp_path).version.startswith("xlsa17/ns/unknown/")
    given = load_xlsa17("CUB", folder=tmp_path, version="PS2").version
    assert given.startswith("xlsa17/ns/PS2/")
    # Another split has another checksum, in whatever order it stands.
    write_data_set(tmp_path, trainval_loc=np.sort(splits()["trainval_loc"], axis=0))
    assert load_xlsa17("CUB", folder=tmp_path, version="PS2").version == given
    write_data_set(tmp_path, test_seen_loc=np.array([[9, 10, 19]]))
    assert load_xlsa17("CUB", folder=tmp_path, version="PS2").version != given
    with pytest.raises(ValueError, match=r"version='PS3'; give 'PS1', 'PS2' or None"):
        load_xlsa17("CUB", folder=tmp_path, version="PS3")


def test_versions_are_known_by_the_parts_for_tuning(tmp_path):
    """In PS1 they hold the test images of seen classes; mended, they are the training images."""
    tuning = {"train_loc": np.arange(1, 11)[:, None], "val_loc": np.arange(11, 21)[:, None]}
    write_data_set(tmp_path, **tuning)
    assert "/PS1/" in load_xlsa17("CUB", folder=tmp_path).version
    assert "/PS1/" in load_xlsa17("CUB", folder=tmp_path, version="PS1").version
    with pytest.raises(ValueError, match=r"version='PS2' was given, but this is PS1: train_loc"):
        load_xlsa17("CUB", folder=tmp_path, version="PS2")
    mended = {"train_loc": np.arange(1, 9)[:, None], "val_loc": np.arange(11, 19)[:, None]}
    write_data_set(tmp_path, **mended)
    assert "/PS2/" in load_xlsa17("CUB", folder=tmp_path).version
    with pytest.raises(ValueError, match=r"this is PS2: .* together are trainval_loc"):
        load_xlsa17("CUB", folder=tmp_path, version="PS1")
    for unclear in (
        {**mended, "val_loc": np.arange(11, 18)[:, None]},  # a training image is missing
        {**mended, "val_loc": np.arange(11, 20)[:, None]},  # one test image leaks
        {"train_loc": np.arange(1, 21)[:, None]},  # half of the evidence
    ):
        write_data_set(tmp_path, **unclear)
        assert "/unknown/" in load_xlsa17("CUB", folder=tmp_path).version
        assert "/PS1/" in load_xlsa17("CUB", folder=tmp_path, version="PS1").version


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("AWA1", "PS2"),
        ("AWA2", "unknown"),
        ("CUB", "PS1"),
        ("SUN", "PS1"),
        ("APY", "unknown"),
    ],
)
def test_versions_of_the_real_files(data_folder, name, version):
    """All are known by their parts: those of published files, or by the lists for tuning."""
    if not (data_folder / "xlsa17" / name).exists():
        pytest.skip(f"there is no {name}")
    report = check_data(data_folder / "xlsa17" / name)
    assert set(report.table["version"]) == {version}
    sizes = [int(report.table[part].iloc[0]) for part in ("train", "test seen", "test unseen")]
    assert tuple(sizes) == XLSA17[name].sizes


# -------------------------------------------------------------------------- the other splits


def test_standard_split(tmp_path):
    write_data_set(tmp_path / "xlsa17" / "data", "AWA1")
    write_standard_split(tmp_path, "AWA1")
    for folder in (tmp_path, tmp_path / "xlsa17", tmp_path / "xlsa17" / "data"):
        data = load_xlsa17("AWA1", folder=folder, split="ss")
        assert data.unseen_classes.tolist() == ["dog"]
        assert len(data.y_train) == 30
        assert len(data.y_test_seen) == 0
    assert data.version.startswith("xlsa17/ss/")
    both = load_xlsa17("AWA1", folder=tmp_path, split=["ss", "ns"])
    assert both.split == "ss"
    assert both.with_split("ns").unseen_classes.tolist() == ["cat", "dog"]


def test_seeded_hold_out(tmp_path):
    write_data_set(tmp_path, "CUB")
    write_standard_split(tmp_path, "CUB")
    data = load_xlsa17("CUB", folder=tmp_path, split="ss0", hold_out=0.2)
    names, counts = np.unique(data.y_test_seen, return_counts=True)
    assert names.tolist() == ["ant", "bee", "cat"]
    assert counts.tolist() == [2, 2, 2]
    assert len(data.y_train) == 24
    again = load_xlsa17("CUB", folder=tmp_path, split="ss0", hold_out=0.2)
    assert again.active_split.test_seen.tolist() == data.active_split.test_seen.tolist()
    assert again.version == data.version
    other = load_xlsa17("CUB", folder=tmp_path, split="ss0", hold_out=0.2, random_state=1)
    assert other.version != data.version
    for bad in (1.5, 0, True, np.nan):
        with pytest.raises(ValueError, match=rf"hold_out={bad}; give a share"):
            load_xlsa17("CUB", folder=tmp_path, split="ss0", hold_out=bad)
    with pytest.raises(FileNotFoundError, match=r"hold_out='0,2': there is no such file. Give a"):
        load_xlsa17("CUB", folder=tmp_path, split="ss0", hold_out="0,2")
    with pytest.raises(ValueError, match=r"'ns' has its own"):
        load_xlsa17("CUB", folder=tmp_path, hold_out=0.2)


def test_hold_out_is_for_the_splits_that_need_it(tmp_path):
    write_data_set(tmp_path, "CUB")
    given = {"ss-1": ["bee"], "ss-2": ["ant"]}
    options = {"folder": tmp_path, "class_splits": given, "hold_out": 0.2}
    data = load_xlsa17("CUB", split=["ns", "ss-1", "ss-2"], **options)
    assert data.version == load_xlsa17("CUB", folder=tmp_path).version
    for name in ("ss-1", "ss-2"):
        split = data.splits[name]
        assert split.test_seen.size == 6
        assert split.version.startswith(f"xlsa17/{name}/hold-out 0.2/")
        # A split is the same whether it is loaded alone or with others.
        assert load_xlsa17("CUB", split=name, **options).version == split.version


def cells(*vectors):
    out = np.empty((1, len(vectors)), dtype=object)
    for k, vector in enumerate(vectors):
        out[0, k] = np.array(vector)[:, None]
    return out


def test_authors_hold_out(tmp_path):
    write_data_set(tmp_path, "AWA1")
    write_standard_split(tmp_path, "AWA1")
    path = tmp_path / "AWA1_SS_GZSL_inform.mat"
    held = np.array([1, 2, 11, 12, 21, 22])
    # Positions within the 24 samples that are left.
    fitting = cells([1, 2], [9, 10], [17, 18])
    savemat(path, {"tr_hold_ind": held[:, None], "CV_hold_loc": fitting})
    data = load_xlsa17("AWA1", folder=tmp_path, split="ss", hold_out=path)
    assert data.active_split.test_seen.tolist() == (held - 1).tolist()
    assert "AWA1_SS_GZSL_inform" in data.version
    # The same numbers for samples in another order: cells that mix classes, uneven shares.
    mixed = cells([1, 9], [2, 17], [10, 18])
    for variables, message in (
        ({"tr_hold_ind": held[:, None], "CV_hold_loc": mixed}, "samples in another order"),
        ({"tr_hold_ind": np.arange(1, 7)[:, None]}, "samples in another order"),
        ({"tr_hold_ind": held[:, None] + 30}, "samples in another order"),
        ({"CV_hold_ind": held[:, None]}, "there is no tr_hold_ind"),
        ({"x": 1}, "give a file of the authors' hold-outs"),
        ({"tr_hold_ind": held[:, None], "CV_hold_loc": np.eye(3)}, "not a cell array"),
    ):
        savemat(path, variables)
        with pytest.raises(ValueError, match=message):
            load_xlsa17("AWA1", folder=tmp_path, split="ss", hold_out=path)


@pytest.mark.parametrize("place", ["authors", "authors/GZSL_info"])
def test_authors_hold_out_by_its_name(tmp_path, place, monkeypatch):
    write_data_set(tmp_path / "xlsa17", "AWA1")
    write_standard_split(tmp_path, "AWA1")
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError, match=r"no AWA1_SS_GZSL_inform.mat in .*authors"):
        load_xlsa17("AWA1", folder=tmp_path, split="ss", hold_out="authors")
    (tmp_path / place).mkdir(parents=True)
    held = np.array([1, 2, 11, 12, 21, 22])
    savemat(tmp_path / place / "AWA1_SS_GZSL_inform.mat", {"tr_hold_ind": held[:, None]})
    for options in ({"folder": tmp_path}, {}):
        data = load_xlsa17("AWA1", split=["ns", "ss"], hold_out="authors", **options)
        assert data.splits["ss"].test_seen.tolist() == (held - 1).tolist()
        monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))


def test_class_splits(tmp_path):
    home = write_data_set(tmp_path, "CUB")
    given = {"ss-1": ["bee"], "ss-2": [3, 4]}
    data = load_xlsa17("CUB", folder=tmp_path, split=["ss-1", "ss-2"], class_splits=given)
    assert data.unseen_classes.tolist() == ["bee"]
    assert data.with_split("ss-2").unseen_classes.tolist() == ["cat", "dog"]
    assert data.active_split.train.tolist() == [*range(10), *range(20, 40)]
    (tmp_path / "mine.json").write_text(json.dumps(given))
    other = load_xlsa17("CUB", folder=tmp_path, split="ss-1", class_splits=tmp_path / "mine.json")
    assert other.version == data.version
    (home / "class_splits.json").write_text(json.dumps(given))
    assert load_xlsa17("CUB", folder=tmp_path, split="ss-2").unseen_classes.tolist() == [
        "cat",
        "dog",
    ]


def test_random_class_splits(tmp_path):
    home = write_data_set(tmp_path, "CUB")
    # Even where there are published lists.
    (home / "class_splits.json").write_text(json.dumps({"ss-1": ["ant"]}))
    data = load_xlsa17("CUB", folder=tmp_path, split="ss", class_splits="random")
    unseen = [data.splits[name].unseen_classes.tolist() for name in data.splits]
    assert (
        sorted(name for names in unseen for name in names) == CLASSES
    )  # each class is unseen once
    for name, split in data.splits.items():
        assert split.version.startswith(f"xlsa17/{name}/random-seed0/")
    last = load_xlsa17("CUB", folder=tmp_path, split="ss-4", class_splits="random", hold_out=0.2)
    assert last.unseen_classes.tolist() == unseen[3]
    assert last.version.startswith("xlsa17/ss-4/random-seed0/hold-out 0.2/")
    options = {"folder": tmp_path, "split": "ss-1", "class_splits": "random"}
    others = [load_xlsa17("CUB", random_state=seed, **options) for seed in range(1, 6)]
    assert {tuple(other.unseen_classes) for other in others} != {tuple(unseen[0])}
    assert others[0].version.startswith("xlsa17/ss-1/random-seed1/")
    unnamed = load_xlsa17("CUB", random_state=np.random.RandomState(0), **options)
    assert unnamed.version.startswith("xlsa17/ss-1/random/")
    write_data_set(tmp_path, "SUN")
    with pytest.raises(ValueError, match=r"'ss-5' lists 0 of 4 classes as unseen"):
        load_xlsa17("SUN", folder=tmp_path, split="ss", class_splits="random")


def test_missing_class_lists_say_what_can_be_done(tmp_path):
    write_data_set(tmp_path, "CUB")
    with pytest.raises(FileNotFoundError, match=r"class_splits.json. class_splits='random' draws"):
        load_xlsa17("CUB", folder=tmp_path, split="ss")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ss-1": "bee"}, r"must be a list of classes"),
        ({"ss-1": 3}, r"must be a list of classes"),
        ({"ss-2": ["bee"]}, r"has no 'ss-1', only 'ss-2'"),
        ({"ss-1": ["emu"]}, r"there is no class 'emu'"),
        ({"ss-1": [5]}, r"there is no class 5"),
        ({"ss-1": [0]}, r"there is no class 0"),
        ({"ss-1": ["bee", 2]}, r"list each once, and leave"),
        ({"ss-1": CLASSES}, r"list each once, and leave"),
        ({"ss-1": []}, r"list each once, and leave"),
    ],
)
def test_refused_class_splits(tmp_path, given, message):
    write_data_set(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_xlsa17("CUB", folder=tmp_path, split="ss-1", class_splits=given)


def test_class_splits_that_are_no_json(tmp_path):
    write_data_set(tmp_path)
    path = tmp_path / "x.json"
    for text, message in (
        ("{", "not JSON"),
        ("[1]", "must map split names"),
        ("[" * 99999, "not JSON"),
        ('{"ss-1": ["ant"], "ss-1": ["emu"]}', "the key 'ss-1' occurs twice"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load_xlsa17("CUB", folder=tmp_path, split="ss-1", class_splits=path)


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        (
            "CUB",
            "ss-5",
            r"CUB has no split 'ss-5'; choose from ns, ss0, ss-1, ss-2, ss-3, ss-4, or 'ss' for "
            r"all of ss-1 … ss-4\.",
        ),
        ("CUB", ["ns", "ps"], r"no split 'ps'"),
        ("AWA1", "ss0", r"AWA1 has no split 'ss0'; choose from ns, ss\."),
        ("SUN", "ss-11", r"ss-10\."),
        ("FLO", "ss", r"choose from ns\."),
        ("BIRDS", "ns", r"no data set 'BIRDS'. There are: AWA1"),
        ("awa2", "ns", r"no data set 'awa2'. Did you mean 'AWA2'\? There are: AWA1"),
        ("CUBS", "ns", r"Did you mean 'CUB'\?"),
        ("CUB", (), r"split is empty"),
    ],
)
def test_names_there_are_not(tmp_path, name, split, message):
    with pytest.raises(ValueError, match=message):
        load_xlsa17(name, folder=tmp_path, split=split)


# ------------------------------------------------------------------------------- what is refused


def column(*values):
    return np.array(values)[:, None]


@pytest.mark.parametrize("kind", ["v5", "v7.3"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test_seen_loc": column(8, 9)}, r"parts train and test_seen share 1 samples"),
        ({"test_seen_loc": column(9, 21)}, r"test_seen and test_unseen share 1 samples"),
        (
            {"trainval_loc": column(1, 11, 21), "test_unseen_loc": column(22, 31)},
            r"class 'cat' listed both as seen .* unseen classes would be trained on",
        ),
        (
            {"test_seen_loc": column(9, 21), "test_unseen_loc": column(22, 31)},
            r"part test_seen holds samples of class 'cat' listed as unseen",
        ),
        (
            {"trainval_loc": column(1, 11, 41)},
            r"trainval_loc has index 41, but there are 40 labels",
        ),
        ({"trainval_loc": column(0, 11)}, r"trainval_loc has index 0; indices count from 1"),
        ({"trainval_loc": column(1, 1, 11)}, r"trainval_loc holds an index more than once"),
        ({"trainval_loc": column(1.5, 11)}, r"trainval_loc holds values that are not whole"),
        ({"trainval_loc": column(np.nan, 11)}, r"trainval_loc holds values that are not whole"),
        ({"trainval_loc": np.ones((2, 2))}, r"trainval_loc is not a vector"),
        ({"trainval_loc": None}, r"there is no variable 'trainval_loc'"),
        ({"labels": None}, r"there is no variable 'labels'"),
        ({"labels": column(1, 2)}, r"features has 40 columns and labels 2 entries"),
        ({"labels": column(*[0] * 40)}, r"labels go down to 0"),
        ({"labels": column(*[5] * 40)}, r"the two files do not belong together"),
        ({"original_att": np.ones((3, 2))}, r"shape \(3, 2\) for 4 classes"),
        (
            {"original_att": np.array([[1, np.nan, 3, 4]])},
            r"1 values that are not finite numbers, in classes 'bee'",
        ),
        (
            {"allclasses_names": column("ant", "ant", "cat", "dog").astype(object)},
            r"empty or repeated names \('ant'\)",
        ),
        ({"allclasses_names": np.eye(4)}, r"allclasses_names is not a list of strings"),
        ({"features": np.zeros((5, 4, 10))}, r"features is not a matrix"),
    ],
)
def test_refused(tmp_path, kind, changes, message):
    write_data_set(tmp_path, save=saver(kind), **changes)
    with pytest.raises(ValueError, match=message):
        load_xlsa17("CUB", folder=tmp_path)
    report = check_data(tmp_path)
    assert report.problems
    assert len(report.table) == 1


def test_what_scipy_writes_beyond_arrays_is_refused(tmp_path):
    nested = np.empty((1, 1), dtype=object)
    nested[0, 0] = np.array([["a"]], dtype=object)
    inner = np.empty((1, 1), dtype=object)
    inner[0, 0] = {"a": 1}
    for value, what in (
        ({"a": 1}, "a struct"),
        (nested, "cell array inside another"),
        (inner, "an? object"),
        (np.array([[1j]]), "complex"),
        (scipy.sparse.eye_array(2).tocsc(), "a sparse"),
    ):
        write_data_set(tmp_path, x=value)
        with pytest.raises(ValueError, match=rf"mat: variable 'x' is or holds {what}|{what}"):
            load_xlsa17("CUB", folder=tmp_path, signatures="x")
        # Unused parts may be damaged.
        load_xlsa17("CUB", folder=tmp_path)


def test_hdf5_beyond_arrays_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret.bin"
    secret.write_bytes(b"\x01" * 64)
    elsewhere = tmp_path / "elsewhere.mat"
    save_hdf5(elsewhere, {"x": np.eye(3)})
    home = write_data_set(tmp_path, save=save_hdf5)
    elsewhere.rename(home / "elsewhere.mat")
    with h5py.File(home / "att_splits.mat", "r+") as file:
        file.create_group("struct").create_dataset("a", data=[1])
        file["soft"] = h5py.SoftLink("/struct/a")
        file["external"] = h5py.ExternalLink("elsewhere.mat", "/x")
        file.create_dataset("raw", (8,), "f8", external=[(str(secret), 0, 64)])
        layout = h5py.VirtualLayout((3, 3), "f8")
        layout[:] = h5py.VirtualSource("elsewhere.mat", "x", (3, 3))
        file.create_virtual_dataset("virtual", layout)
        file["handle"] = np.eye(2)
        file["handle"].attrs["MATLAB_class"] = np.bytes_(b"function_handle")
        file["object"] = np.eye(2)
        file["object"].attrs["MATLAB_class"] = np.bytes_(b"double")
        file["object"].attrs["MATLAB_object_decode"] = 3
        file.create_dataset("huge", (10**7, 10**7), "f8", chunks=(100, 100))
        file["strings"] = ["a", "b"]
        cell = np.empty((1, 1), dtype=h5py.ref_dtype)
        cell[0, 0] = file["struct"].ref
        file.create_dataset("cell", data=cell)
        file["cell"].attrs["MATLAB_class"] = np.bytes_(b"cell")
        file["plain"] = np.arange(8.0).reshape(4, 2)
    for name, message in (
        ("struct", "structure, object or sparse matrix"),
        ("soft", "contains a link"),
        ("external", "contains a link"),
        ("raw", "stored in another file"),
        ("virtual", "stored in another file"),
        ("handle", "function_handle"),
        ("object", "object"),
        ("huge", "takes about 728 TiB"),
        ("strings", "only arrays"),
        ("cell", "structure, object or sparse matrix"),
    ):
        with pytest.raises(ValueError, match=message):
            load_xlsa17("CUB", folder=tmp_path, signatures=name)
    plain = load_xlsa17("CUB", folder=tmp_path, signatures="plain").signatures
    assert plain.to_numpy().tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_missing_h5py_is_named(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    write_data_set(tmp_path, save=save_hdf5)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"version 7.3, needs h5py.*zslearn\[matlab\]"):
        load_xlsa17("CUB", folder=tmp_path)


# ----------------------------------------------------------------------------------- real files


@pytest.mark.slow
def test_real_cub(data_folder):
    home = data_folder / "xlsa17" / "CUB"
    if not (home / "efficientnet_lite0.mat").exists():
        pytest.skip("there are no features of CUB")
    data = load_xlsa17("CUB", folder=data_folder, features="efficientnet_lite0.mat")
    assert data.X.shape == (11788, 1280)
    parts = data.active_split
    assert (parts.train.size, parts.test_seen.size, parts.test_unseen.size) == (7057, 1764, 2967)
    assert (len(data.seen_classes), len(data.unseen_classes)) == (150, 50)
    assert data.signatures.shape == (200, 312)
    # The authors' hold-outs were made for another order of the images.
    inform = data_folder / "authors" / "CUB_SS_GZSL_inform.mat"
    if inform.exists():
        unseen = {"ss-1": [str(one) for one in data.unseen_classes]}
        with pytest.raises(ValueError, match="another order|do not belong together"):
            load_xlsa17(
                "CUB",
                folder=data_folder,
                features="efficientnet_lite0.mat",
                split="ss-1",
                class_splits=unseen,
                hold_out=inform,
            )


def test_signatures_of_another_file_and_of_several(tmp_path):
    write_data_set(tmp_path)
    home = tmp_path / "CUB"
    sentences = np.random.default_rng(0).normal(size=(7, len(CLASSES)))
    savemat(home / "sent_splits.mat", {"att": sentences})
    data = load_xlsa17("CUB", folder=tmp_path, signatures="sent_splits.mat:att")
    np.testing.assert_array_equal(data.signatures.to_numpy(), sentences.T)
    assert data.semantic == "sent_splits"
    names = ["original_att", "sent_splits.mat:att"]
    both = load_xlsa17("CUB", folder=tmp_path, signatures=names)
    assert list(both.signatures.views) == ["original_att", "sent_splits"]
    assert both.semantic == "original_att + sent_splits"
    assert "3 + 7 (original_att + sent_splits)" in repr(both)
    assert both.signatures.index.tolist() == CLASSES
    with pytest.raises(FileNotFoundError, match=r"no words\.mat"):
        load_xlsa17("CUB", folder=tmp_path, signatures="words.mat:att")
    with pytest.raises(ValueError, match="each once"):
        load_xlsa17("CUB", folder=tmp_path, signatures=["att", "att"])
    others = np.array(CLASSES[::-1], dtype=object)
    savemat(home / "sent_splits.mat", {"att": sentences, "allclasses_names": others})
    with pytest.raises(ValueError, match="order differ from att_splits"):
        load_xlsa17("CUB", folder=tmp_path, signatures="sent_splits.mat:att")
