from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

from zslearn.baselines import ESZSL
from zslearn.calibration._folds import checked_folds
from zslearn.model_selection import ClassKFold, GeneralizedClassKFold


@pytest.mark.parametrize("case", range(5))
def test_golden_folds(golden_arrays, case):
    golden = {
        key.partition("_")[2]: value
        for key, value in golden_arrays("cv_split").items()
        if key.startswith(f"{case}_")
    }
    y = golden["Y"]
    order = golden["class_order"].astype(int) - 1
    held = golden["CV_hold_ind"].astype(int) - 1
    kept = np.setdiff1d(np.arange(len(y)), held)
    options = {"remainder": "drop", "class_order": order}
    plain = ClassKFold(5, **options).split(None, y)
    both = GeneralizedClassKFold(5, held_out=held, **options).split(None, y)
    for i, ((train, test), (train_g, test_g)) in enumerate(zip(plain, both, strict=True)):
        np.testing.assert_array_equal(test, golden[f"fl_{i}"] - 1)
        np.testing.assert_array_equal(train, np.setdiff1d(np.arange(len(y)), test))
        unseen = kept[golden[f"flg_{i}"].astype(int) - 1]
        held_of_fold = held[golden[f"hfl_{i}"].astype(int) - 1]
        np.testing.assert_array_equal(train_g, np.setdiff1d(kept, unseen))
        expected = np.union1d(unseen, np.setdiff1d(held, held_of_fold))
        np.testing.assert_array_equal(test_g, expected)


labels = st.lists(st.integers(0, 8), min_size=20, max_size=60).filter(lambda y: len(set(y)) >= 4)


@given(labels, st.integers(2, 4), st.integers(0, 5))
def test_every_class_is_left_out_once(y, n_splits, seed):
    y = np.asarray(y)
    tested = []
    for train, test in ClassKFold(n_splits, random_state=seed).split(None, y):
        assert not set(y[train]) & set(y[test])
        assert len(train) + len(test) == len(y)
        tested.extend(test)
    assert sorted(tested) == list(range(len(y)))


@given(labels, st.integers(2, 4), st.sampled_from([0.2, 0.5, 1, 3]), st.integers(0, 5))
@pytest.mark.slow
def test_generalized_folds(y, n_splits, held_out, seed):
    y = np.asarray(y)
    splitter = GeneralizedClassKFold(n_splits, held_out=held_out, random_state=seed)
    held_aside = set()
    for train, test in splitter.split(None, y):
        assert not set(train) & set(test)
        seen = set(y[train])
        seen_rows = {i for i in test if y[i] in seen}
        held_aside |= seen_rows
        unseen_rows = set(test) - seen_rows
        assert unseen_rows
        # No image that is held aside once is trained on, or plays an unseen one, elsewhere.
        for other_train, other_test in splitter.split(None, y):
            assert not seen_rows & set(other_train)
            unseen = [i for i in other_test if y[i] not in set(y[other_train])]
            assert not seen_rows & set(unseen)


def test_remainder_dropped_is_never_validated():
    y = np.arange(13)
    tested = [test for _, test in ClassKFold(5, remainder="drop").split(None, y)]
    assert [len(test) for test in tested] == [2] * 5
    tested = [test for _, test in ClassKFold(5).split(None, y)]
    assert sorted(len(test) for test in tested) == [2, 2, 3, 3, 3]


def test_scikit_learn_takes_them(problem):
    scores = cross_val_score(
        ESZSL(),
        problem.X_train,
        problem.y_train,
        cv=ClassKFold(3),
        params={"signatures": problem.signatures.loc[problem.seen_classes]},
    )
    assert len(scores) == 3


@pytest.mark.parametrize(
    ("splitter", "message"),
    [
        (ClassKFold(1), "n_splits must be between 2 and the number of classes, 4"),
        (ClassKFold(5), "n_splits must be between"),
        (ClassKFold(2, remainder="keep"), "remainder must be"),
        (ClassKFold(2, class_order=[0, 1, 2]), "class_order must be a permutation of 0 … 3"),
        (GeneralizedClassKFold(2, held_out=0.0), "held_out must be a share"),
        (GeneralizedClassKFold(2, held_out=1.5), "held_out must be a share"),
        (GeneralizedClassKFold(2, held_out=[0, 99]), "row numbers from 0 to 11"),
        (GeneralizedClassKFold(2, held_out=[0, 1, 2]), "leaves 1 classes without training images"),
    ],
)
def test_what_is_refused(splitter, message):
    with pytest.raises(ValueError, match=message):
        list(splitter.split(None, np.repeat(np.arange(4), 3)))


@given(st.lists(st.integers(2, 6), min_size=4, max_size=8), st.integers(1, 3), st.integers(0, 5))
def test_a_few_samples_of_classes_left_out_are_given_back(counts, shots, seed):
    counts = np.asarray([*counts, 4, 4, 1])
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    tested = []
    for train, test in ClassKFold(2, shots=shots, random_state=seed).split(None, y):
        np.testing.assert_array_equal(np.union1d(train, test), np.arange(len(y)))
        for label in np.unique(y[test]):
            assert (y[train] == label).sum() == shots
            assert (y[test] == label).sum() == counts[label] - shots
        tested.extend(np.unique(y[test]))
    assert sorted(tested) == np.flatnonzero(counts > shots).tolist()


def test_generalized_folds_give_a_few_samples_back_as_well():
    y = np.repeat(np.arange(6), 10)
    for train, test in GeneralizedClassKFold(3, shots=2, random_state=1).split(None, y):
        kept, counts = np.unique(y[train], return_counts=True)
        left_out = kept[counts == 2]
        assert len(left_out) == 2
        assert not np.intersect1d(train, test).size
        # Of the other classes a fifth was held aside.
        assert set(counts[counts != 2]) == {8}
        assert {*y[test].tolist()} == set(range(6))


@pytest.mark.parametrize("held_out", [0.2, 2, np.arange(0, 88, 4)])
def test_classes_too_small_for_the_shots_are_left_out_of_no_generalized_fold(held_out):
    y = np.repeat(np.arange(8), [6, 6, 5, 6, 10, 20, 15, 20])
    cv, left_out = GeneralizedClassKFold(4, shots=5, held_out=held_out), []
    for fold in checked_folds(cv, None, y, ESZSL(), generalized=True):
        left_out += fold.held_out(y, np.unique(y)).tolist()
        small = np.isin(y, range(4))
        assert np.isin(np.flatnonzero(small), fold.train).all()
        assert not small[fold.test].any()
        kept = np.bincount(y[fold.train])
        assert kept[left_out[-1]] == 5
    assert sorted(left_out) == [4, 5, 6, 7]


def test_shots_are_a_number_of_images():
    for wrong in (-1, 0.5, True):
        with pytest.raises(ValueError, match="shots"):
            list(ClassKFold(2, shots=wrong).split(None, list("aabbcc")))


def test_unlabelled_is_the_name_of_a_pile():
    with pytest.raises(ValueError, match="unlabelled must be 'zsl', 'gzsl' or None; got 'all'"):
        list(ClassKFold(2, unlabelled="all").split(None, list("aabbcc")))


def test_a_splitter_is_shown_as_it_is_made():
    for splitter in (ClassKFold(3, shots=2), GeneralizedClassKFold(3, held_out=0.5)):
        assert repr(eval(repr(splitter))) == repr(splitter)
