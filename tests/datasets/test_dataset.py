import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zslearn.datasets import ClassSplit, ZeroShotDataset, make_zero_shot

LABELS = ["ant", "bee", "cat", "dog"]


def make_split(**changes):
    # Samples 0-3 ant, 4-7 bee, 8-11 cat, 12-15 dog.
    values = {
        "train": [0, 1, 2, 4, 5, 6],
        "test_seen": [3, 7],
        "test_unseen": np.arange(8, 16),
        "seen_classes": ["ant", "bee"],
        "unseen_classes": ["cat", "dog"],
        "version": "pets-1",
    }
    return ClassSplit(**{**values, **changes})


def make_data(**changes):
    values = {
        "X": np.arange(32.0).reshape(16, 2),
        "y": np.repeat(LABELS, 4),
        "signatures": pd.DataFrame(np.eye(4), index=LABELS),
        "splits": {"ns": make_split()},
        "split": "ns",
        "name": "pets",
        "features": "raw",
    }
    return ZeroShotDataset(**{**values, **changes})


def test_parts():
    images = np.arange(16 * 6).reshape(16, 2, 3)
    data = make_data(images=images)
    assert data.X_train.tolist() == data.X[[0, 1, 2, 4, 5, 6]].tolist()
    assert data.y_train.tolist() == ["ant"] * 3 + ["bee"] * 3
    assert data.X_test_seen.tolist() == data.X[[3, 7]].tolist()
    assert data.y_test_seen.tolist() == ["ant", "bee"]
    assert data.X_test_unseen.tolist() == data.X[8:].tolist()
    assert data.y_test_unseen.tolist() == ["cat"] * 4 + ["dog"] * 4
    assert data.images_train.tolist() == images[[0, 1, 2, 4, 5, 6]].tolist()
    assert data.images_test_seen.tolist() == images[[3, 7]].tolist()
    assert data.images_test_unseen.tolist() == images[8:].tolist()
    assert data.seen_classes.tolist() == ["ant", "bee"]
    assert data.unseen_classes.tolist() == ["cat", "dog"]
    assert data.version == "pets-1"


def test_repr():
    assert "images      5 × 7" in repr(make_data(images=np.zeros((16, 5, 7))))
    assert repr(make_split()) == (
        "<ClassSplit pets-1: 6 train, 2 test seen, 8 test unseen; 2 seen and 2 unseen classes>"
    )


def test_with_split_shares_the_data():
    other = make_split(train=[0, 4], version="pets-2")
    data = make_data(splits={"ns": make_split(), "ss": other})
    switched = data.with_split("ss")
    assert (data.split, switched.split) == ("ns", "ss")
    assert switched.version == "pets-2"
    assert len(switched.X_train) == 2
    assert switched.X is data.X
    assert switched.y is data.y
    assert switched.signatures is data.signatures


def test_with_splits_keeps_some():
    splits = {name: make_split(version=name) for name in ("a", "b", "c")}
    data = make_data(splits=splits, split="a")
    some = data.with_splits(["c", "b"])
    assert list(some.splits) == ["c", "b"]
    assert some.split == some.version == "c"
    assert some.X is data.X
    assert list(data.splits) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="no split 'a'; choose one of 'c', 'b'"):
        some.with_split("a")
    with pytest.raises(ValueError, match="no split 'd'"):
        data.with_splits(["a", "d"])
    for names in ([], "a"):
        with pytest.raises(ValueError, match="takes a list of names, at least one"):
            data.with_splits(names)


def test_immutable_in_spirit():
    data = make_data()
    with pytest.raises(AttributeError):
        data.X = None
    with pytest.raises(AttributeError):
        data.splits["ns"].version = "other"
    with pytest.raises(ValueError, match="read-only"):
        data.splits["ns"].train[0] = 1


def test_test_seen_may_be_empty():
    data = make_data(splits={"ns": make_split(test_seen=[])})
    assert data.X_test_seen.shape == (0, 2)
    assert data.y_test_seen.tolist() == []
    assert "6 train, 0 test seen, 8 test unseen" in repr(data)


def test_X_is_neither_read_nor_copied(tmp_path):
    class Features:
        shape = (16, 2)

        def __getitem__(self, rows):
            raise AssertionError("read")

    make_data(X=Features())
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(16, 3))
    assert make_data(X=X).with_split("ns").X is X


def test_lists_and_frames():
    X = np.arange(32.0).reshape(16, 2)
    assert make_data(X=X.tolist()).X_train.shape == (6, 2)
    assert make_data(X=pd.DataFrame(X)).X_train.shape == (6, 2)
    assert make_data(y=pd.Series(np.repeat(LABELS, 4))).y_train.tolist()[0] == "ant"


def test_integer_labels():
    split = make_split(seen_classes=[0, 1], unseen_classes=[2, 3])
    data = make_data(
        y=np.repeat(np.arange(4), 4),
        signatures=pd.DataFrame(np.eye(4)),
        splits={"ns": split},
    )
    assert data.y_test_unseen.tolist() == [2] * 4 + [3] * 4


def test_signatures_may_describe_further_classes():
    signatures = pd.DataFrame(np.eye(5), index=[*LABELS, "eel"])
    split = make_split(unseen_classes=["cat", "dog", "eel"])
    assert "eel" in make_data(signatures=signatures, splits={"ns": split}).unseen_classes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train": [0, 3, 4, 7]},
            r"split 'ns': parts train and test_seen share 2 samples \(3, 7\)",
        ),
        (
            {"train": [0, 4, 8], "test_unseen": [9, 12]},
            r"part train holds samples of class 'cat' listed as unseen; move these samples",
        ),
        (
            {"test_seen": [3, 8], "test_unseen": [9, 12]},
            r"part test_seen holds samples of class 'cat' listed as unseen",
        ),
        (
            {"test_unseen": [3, 8, 12], "test_seen": [7]},
            r"test_unseen holds .* 'ant' listed as seen",
        ),
        ({"train": [1, 5, 16]}, r"part train: 1 indices out of range \(16\).*subtract 1"),
        ({"train": [0, 4, 20]}, r"part train: 1 indices out of range \(20\); .* 0 … 15"),
        ({"train": [0, 1, -1]}, r"part train: 1 indices out of range \(-1\)"),
        ({"train": [0.0, 4.0]}, r"dtype float64 and shape \(2,\); give a one-dimensional"),
        ({"train": [[0, 4]]}, r"shape \(1, 2\); give a one-dimensional array of integers"),
        ({"train": np.arange(16) < 6}, r"for a boolean mask np.flatnonzero"),
        ({"train": [0, 0, 4, 4]}, r"2 indices occur more than once \(0, 4\)"),
        ({"train": []}, r"part train: the part is empty"),
        ({"train": [0, 1]}, r"class 'bee' listed as seen without any training sample"),
        (
            {"unseen_classes": ["cat", "dog", "bee"]},
            r"class 'bee' listed both as seen and as unseen",
        ),
        ({"seen_classes": ["ant", "bee", "bee"]}, r"seen_classes lists class 'bee' more than once"),
        ({"unseen_classes": ["cat", "dog", "eel"]}, r"class 'eel' listed without a signature"),
        ({"seen_classes": ["ant"]}, r"part train holds .* 'bee' not listed in seen_classes"),
        ({"unseen_classes": ["cat"]}, r"test_unseen holds .* 'dog' not listed in unseen_classes"),
    ],
)
def test_refused_splits(changes, message):
    with pytest.raises(ValueError, match=message):
        make_data(splits={"ns": make_split(**changes)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros((15, 2))}, r"X has 15 rows and y has shape \(16,\)"),
        ({"X": np.zeros(16)}, r"X has shape \(16,\); give one row of features per sample"),
        ({"y": np.zeros((16, 1))}, r"y has shape \(16, 1\); give exactly one label"),
        ({"y": ["ant"] * 15 + [None]}, r"1 missing labels, the first at index 15"),
        ({"images": np.zeros((3, 2, 2))}, r"there are 3 images for 16 rows of X"),
        ({"split": "ps"}, r"pets has no split 'ps'; choose one of 'ns'"),
        ({"splits": {}}, r"no split 'ns'; choose one of \(none given\)"),
        (
            {"signatures": pd.DataFrame(np.eye(3), index=LABELS[:3])},
            r"class 'dog' of y has no signature; give signatures a row",
        ),
        (
            {"signatures": pd.DataFrame(np.eye(4))},
            r"4 classes \('ant', .* of y have no signature.*Labels are of type str, .* dtype int64",
        ),
        (
            {"signatures": pd.DataFrame(np.eye(5), index=[*LABELS, "ant"])},
            r"signatures describe class 'ant' more than once",
        ),
        (
            {"signatures": pd.DataFrame(np.eye(4) * np.nan, index=LABELS)},
            r"for 4 of 4 classes in the columns 0, 1",
        ),
        ({"signatures": pd.DataFrame({"a": list("abcd")}, index=LABELS)}, r"'a' are not numeric"),
        (
            {"splits": {"ns": make_split(), "bad": make_split(train=[])}},
            r"pets, split 'bad', part train: the part is empty",
        ),
    ],
)
def test_refused_data(changes, message):
    with pytest.raises(ValueError, match=message):
        make_data(**changes)


@st.composite
def problems(draw):
    """A random split without leaks, with the class of each sample."""
    n_seen, n_unseen = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    classes = rng.permutation(n_seen + n_unseen)
    y = rng.permutation(np.repeat(np.arange(n_seen + n_unseen), rng.integers(2, 6, len(classes))))
    seen, unseen = classes[:n_seen], classes[n_seen:]
    first = np.array([np.flatnonzero(y == label)[0] for label in seen])
    rest = np.setdiff1d(np.flatnonzero(np.isin(y, seen)), first)
    n_test = rng.integers(1, len(rest) + 1)
    rest = rng.permutation(rest)
    return y, {
        "train": rng.permutation(np.concatenate([first, rest[n_test:]])),
        "test_seen": rest[:n_test],
        "test_unseen": np.flatnonzero(np.isin(y, unseen)),
        "seen_classes": seen,
        "unseen_classes": unseen,
        "version": "random",
    }


def dataset_of(y, split):
    return ZeroShotDataset(
        X=np.arange(len(y))[:, None],
        y=y,
        signatures=pd.DataFrame(np.eye(y.max() + 1)),
        splits={"ns": ClassSplit(**split)},
        split="ns",
        name="random",
        features="index",
    )


@settings(deadline=None, max_examples=50)
@given(problems())
def test_honest_splits_pass_and_cover(problem):
    y, split = problem
    data = dataset_of(y, split)
    together = np.concatenate([data.X_train, data.X_test_seen, data.X_test_unseen]).ravel()
    assert np.sort(together).tolist() == list(range(len(y)))
    assert set(data.y_train) == set(data.seen_classes)


@settings(deadline=None, max_examples=50)
@given(problems(), st.sampled_from(["train", "test_seen"]), st.booleans())
def test_leaks_are_refused(problem, part, move):
    """A sample of an unseen class in a seen part is refused, whether moved or repeated there."""
    y, split = problem
    leaked = split["test_unseen"][0]
    split[part] = np.append(split[part], leaked)
    if move:
        split["test_unseen"] = split["test_unseen"][1:]
    with pytest.raises(ValueError, match=r"listed as unseen|share 1 samples|empty"):
        dataset_of(y, split)


def test_other_features_of_the_same_samples():
    data = make_zero_shot(random_state=0)
    other = data.with_features(data.X[:, :3], "three")
    np.testing.assert_array_equal(other.X_test_unseen, data.X_test_unseen[:, :3])
    assert (other.features, other.name, other.split) == ("three", data.name, data.split)
    assert other.y is data.y
    assert other.signatures is data.signatures
    with pytest.raises(ValueError, match=data.name):
        data.with_features(data.X[1:], "one short")
