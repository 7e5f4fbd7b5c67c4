from __future__ import annotations

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from zslearn.datasets import load_authors_protocol, load_xlsa17
from zslearn.model_selection import ClassKFold, GeneralizedClassKFold


def cells(vectors):
    out = np.empty((1, len(vectors)), dtype=object)
    for k, vector in enumerate(vectors):
        out[0, k] = np.asarray(vector)[:, None]
    return out


def write_problem(folder, y, *, series="PS", order, held, by_class, shuffle=None, names=None):
    """A data set whose training samples have the class numbers `y`, and the authors' files for it.

    All counts are from 1, as in the files. Two more classes follow: one image of each seen class
    is a test image, class max(y) + 1 is unseen.
    """
    y = np.asarray(y, dtype=int)
    seen = np.unique(y)
    n_classes = seen.max() + 1
    labels = np.concatenate([y, seen, [n_classes]])
    train = np.arange(1, len(y) + 1)
    if shuffle is not None:
        # The same split in another order: positions no longer mean the same images.
        train = np.random.default_rng(shuffle).permutation(train)
    if names is None:
        # Names sort in the reverse order of the numbers.
        names = [f"class {n_classes - number:03d}" for number in range(n_classes)]
    rest = np.arange(len(y) + 1, len(labels))
    home = folder / "CUB"
    home.mkdir(parents=True)
    savemat(home / "res101.mat", {"features": np.zeros((2, len(labels))), "labels": labels})
    savemat(
        home / "att_splits.mat",
        {
            "original_att": np.eye(n_classes),
            "allclasses_names": np.array(names, dtype=object)[:, None],
            "trainval_loc": train,
            "test_seen_loc": rest,
            "test_unseen_loc": [len(labels)],
        },
    )
    (folder / "authors").mkdir()
    savemat(folder / "authors" / f"CUB_{series}_class_info.mat", {"class_order": order})
    variables = {"CV_hold_ind": held, "CV_hold_loc": by_class}
    present = {name: value for name, value in variables.items() if value is not None}
    savemat(folder / "authors" / f"CUB_{series}_GZSL_inform.mat", present)
    return home


def small_problem(folder, **changes):
    """Five classes with numbers that are not consecutive, ten images each, in random order."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([1, 3, 4, 6, 7], 10))
    by_class = [np.flatnonzero(y == number)[:2] + 1 for number in np.unique(y)]
    options = {
        "order": [3, 1, 5, 2, 4],
        "held": np.sort(np.concatenate(by_class)),
        "by_class": cells(by_class),
    }
    home = write_problem(folder, y, **{**options, **changes})
    return home, y


@pytest.mark.parametrize("case", range(5))
def test_golden_folds(golden_arrays, tmp_path, case):
    """Names that sort otherwise than the numbers still give the folds of the authors' program."""
    golden = {
        key.partition("_")[2]: value
        for key, value in golden_arrays("cv_split").items()
        if key.startswith(f"{case}_")
    }
    y = golden["Y"].astype(int)
    concatenated = golden["CV_hold_loc_concat"].astype(int)
    by_class = [
        concatenated[golden["CV_hold_loc_class"] == code] for code in range(len(np.unique(y)))
    ]
    write_problem(
        tmp_path,
        y,
        order=golden["class_order"],
        held=golden["CV_hold_ind"],
        by_class=cells(by_class),
    )
    data = load_xlsa17("CUB", folder=tmp_path)
    assert data.seen_classes.tolist() != sorted(data.seen_classes)
    protocol = load_authors_protocol(data, tmp_path / "authors")
    held = golden["CV_hold_ind"].astype(int) - 1
    np.testing.assert_array_equal(protocol.held_out, np.sort(held))
    kept = np.setdiff1d(np.arange(len(y)), held)
    options = {"remainder": protocol.remainder, "class_order": protocol.class_order}
    plain = ClassKFold(5, **options).split(None, data.y_train)
    both = GeneralizedClassKFold(5, held_out=protocol.held_out, **options)
    for i, ((_, test), (train_g, test_g)) in enumerate(
        zip(plain, both.split(None, data.y_train), strict=True)
    ):
        np.testing.assert_array_equal(test, golden[f"fl_{i}"] - 1)
        unseen = kept[golden[f"flg_{i}"].astype(int) - 1]
        np.testing.assert_array_equal(train_g, np.setdiff1d(kept, unseen))
        held_of_fold = held[golden[f"hfl_{i}"].astype(int) - 1]
        expected = np.union1d(unseen, np.setdiff1d(held, held_of_fold))
        np.testing.assert_array_equal(test_g, expected)


@pytest.mark.parametrize("place", ["authors", "authors/class_info"])
def test_class_order_follows_numbers(tmp_path, place, monkeypatch):
    names = ["wren", "x", "gull", "owl", "y", "emu", "kiwi", "zebra"]
    small_problem(tmp_path, names=names)
    (tmp_path / place).mkdir(exist_ok=True)
    file = tmp_path / "authors" / "CUB_PS_class_info.mat"
    file.rename(tmp_path / place / file.name)
    monkeypatch.setenv("ZSLEARN_DATA", str(tmp_path))
    data = load_xlsa17("CUB")
    protocol = load_authors_protocol(data)
    # Classes 1, 3, 4, 6, 7 in the order 3, 1, 5, 2, 4.
    dealt = np.unique(data.y_train)[protocol.class_order]
    assert dealt.tolist() == ["owl", "wren", "kiwi", "gull", "emu"]
    assert protocol.files == ("CUB_PS_class_info.mat", "CUB_PS_GZSL_inform.mat")
    alone = load_authors_protocol(data, hold_out=False)
    assert alone.class_order.tolist() == protocol.class_order.tolist()
    assert alone.held_out is None
    assert alone.files == ("CUB_PS_class_info.mat",)


def test_another_order_of_the_samples(tmp_path):
    """Positions count in the published order, which another file beside the split may have."""
    home, y = small_problem(tmp_path, shuffle=1)
    data = load_xlsa17("CUB", folder=tmp_path)
    options = {"folder": tmp_path / "authors", "data_folder": tmp_path}
    with pytest.raises(ValueError, match=r"CUB_PS_GZSL_inform.mat: .* in another order.*next to"):
        load_authors_protocol(data, **options)
    assert load_authors_protocol(data, hold_out=False, **options).held_out is None
    # Other samples, and entries that are not lists of samples, are skipped.
    savemat(home / "a_splits.mat", {"trainval_loc": np.arange(2, len(y) + 2)})
    savemat(home / "b_splits.mat", {"trainval_loc": np.eye(3)})
    (home / "c_splits.mat").write_bytes(b"not found")
    savemat(home / "sent_splits.mat", {"trainval_loc": np.arange(1, len(y) + 1)})
    protocol = load_authors_protocol(data, **options)
    assert protocol.files[-1] == "sent_splits.mat"
    inform = loadmat(tmp_path / "authors" / "CUB_PS_GZSL_inform.mat")
    samples = data.active_split.train[protocol.held_out]
    assert sorted(samples) == (inform["CV_hold_ind"].ravel() - 1).tolist()
    assert np.all(np.diff(protocol.held_out) > 0)


def test_standard_split(tmp_path):
    """There the positions count in what the authors' own hold-out leaves."""
    y = np.repeat([1, 2, 3], 20)
    home, order = tmp_path / "xlsa17" / "SUN", np.random.default_rng(3).permutation(60)
    home.mkdir(parents=True)
    labels = np.concatenate([y[order], [4, 4]])
    names = np.array(["owl", "emu", "kiwi", "ant"], dtype=object)[:, None]
    savemat(home / "res101.mat", {"features": np.zeros((2, 62)), "labels": labels})
    savemat(home / "att_splits.mat", {"original_att": np.eye(4), "allclasses_names": names})
    (tmp_path / "standard_split" / "SUN").mkdir(parents=True)
    savemat(
        tmp_path / "standard_split" / "SUN" / "att_splits.mat",
        {"trainval_loc": np.arange(1, 61), "test_unseen_loc": [61, 62]},
    )
    authors = tmp_path / "authors"
    authors.mkdir()
    test_seen = np.concatenate([np.flatnonzero(labels == number)[-4:] for number in (1, 2, 3)])
    left = np.setdiff1d(np.arange(60), test_seen)
    by_class = [np.flatnonzero(labels[left] == number)[:3] for number in (1, 2, 3)]
    savemat(authors / "SUN_SS_class_info.mat", {"class_order": [2, 3, 1]})
    savemat(
        authors / "SUN_SS_GZSL_inform.mat",
        {
            "tr_hold_ind": np.sort(test_seen) + 1,
            "CV_hold_ind": np.concatenate(by_class) + 1,
            "CV_hold_loc": cells([positions + 1 for positions in by_class]),
        },
    )
    data = load_xlsa17("SUN", folder=tmp_path, split="ss0", hold_out="authors")
    protocol = load_authors_protocol(data, authors)
    assert sorted(data.active_split.test_seen) == sorted(test_seen)
    assert sorted(data.active_split.train[protocol.held_out]) == sorted(
        left[np.concatenate(by_class)]
    )
    assert np.unique(data.y_train)[protocol.class_order].tolist() == ["emu", "kiwi", "owl"]
    other = load_xlsa17("SUN", folder=tmp_path, split="ss0", hold_out=0.2)
    with pytest.raises(ValueError, match=r"SUN 'ss0', load the data with hold_out='authors'"):
        load_authors_protocol(other, authors)
    assert load_authors_protocol(other, authors, hold_out=False).held_out is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": [1, 2, 3]}, r"class_order has 3 entries up to 3 for 5 seen classes; it belongs"),
        ({"order": [1, 2, 3, 4, 6]}, r"class_order has 5 entries up to 6 for 5 seen classes"),
        ({"order": [1, 2, 3, 4, 4]}, r"class_order holds an index more than once"),
        ({"order": [0, 1, 2, 3, 4]}, r"class_order has index 0; indices count from 1"),
        ({"order": np.ones((2, 2))}, r"class_order is not a vector"),
        ({"held": None}, r"no variable 'CV_hold_ind'"),
        ({"held": [1, 2, 999]}, r"in another order"),
        ({"by_class": np.eye(2)}, r"CV_hold_loc is not a cell array"),
        ({"by_class": cells([[1], [2]])}, r"in another order"),
        # Without the list by class the shares must still be right.
        ({"by_class": None, "held": [1, 2, 3]}, r"in another order"),
    ],
)
def test_refused(tmp_path, changes, message):
    small_problem(tmp_path, **changes)
    data = load_xlsa17("CUB", folder=tmp_path)
    with pytest.raises(ValueError, match=message):
        load_authors_protocol(data, tmp_path / "authors", data_folder=tmp_path)


@pytest.mark.slow
def test_real_cub(data_folder):
    home, authors = data_folder / "xlsa17" / "CUB", data_folder / "authors"
    needed = (home / "efficientnet_lite0.mat", home / "sent_splits.mat", authors)
    if not all(path.exists() for path in needed):
        pytest.skip("CUB or the authors' files are not there")
    data = load_xlsa17("CUB", folder=data_folder, features="efficientnet_lite0.mat")
    protocol = load_authors_protocol(data, authors, data_folder=data_folder)
    # The split here is sorted; the sentence embeddings come with the published order.
    assert protocol.files[-1] == "sent_splits.mat"
    inform = loadmat(authors / "CUB_PS_GZSL_inform.mat")
    published = loadmat(home / "sent_splits.mat")["trainval_loc"].ravel() - 1
    samples = data.active_split.train[protocol.held_out]
    assert set(samples) == set(published[inform["CV_hold_ind"].ravel() - 1])
    # As many of each class as the authors list, class by class in the order of the numbers.
    counts = dict(zip(*np.unique(data.y[samples], return_counts=True), strict=True))
    listed = [cell.size for cell in inform["CV_hold_loc"].ravel()]
    assert [counts[label] for label in data.seen_classes] == listed
    order = loadmat(authors / "CUB_PS_class_info.mat")["class_order"].ravel() - 1
    dealt = np.unique(data.y_train)[protocol.class_order]
    assert dealt.tolist() == data.seen_classes[order].tolist()
