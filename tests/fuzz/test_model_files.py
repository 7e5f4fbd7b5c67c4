"""Model files that are damaged, or made to do harm.

What must hold in every case: reading ends soon, with the model or with one error that names the
file; and a model that was read predicts.
"""

from __future__ import annotations

import signal
import warnings

import numpy as np
import pytest

from fuzz.model_file_corpus import hostile, problem, put_together, take_apart, written
from fuzz.reader_worker import mutate
from zslearn import persistence
from zslearn._utils._reading import FileLimitError
from zslearn.persistence import ModelFileError

SECONDS = 10


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(written(tmp_path_factory.mktemp("models")).values())


@pytest.fixture
def soon():
    """End a case that takes too long."""

    def give_up(number, frame):
        raise TimeoutError(f"a case took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def read(path):
    """The model, or None after an error that names the file in one line."""
    try:
        return persistence.read_model(path).model
    except (ModelFileError, FileLimitError) as error:
        said = str(error)
    assert str(path) in said
    assert "\n" not in said
    assert len(said) < 1000
    return None


def test_accidents_are_found(cases, files, tmp_path, soon):
    path = tmp_path / "model.zsl"
    for seed in cases(300):
        rng = np.random.default_rng(seed)
        whole = files[seed % len(files)]
        # Half of the accidents happen in the header, the smaller part of a large model.
        end = len(whole) if rng.random() < 0.5 else 8 + int.from_bytes(whole[:8], "little")
        file = mutate(whole[:end], rng) + whole[end:]
        if file == whole:
            continue
        path.write_bytes(file)
        soon(SECONDS)
        assert read(path) is None


def test_hostile_files_do_no_harm(cases, files, tmp_path, soon):
    path = tmp_path / "model.zsl"
    apart = [take_apart(file) for file in files]
    for seed in cases(700):
        rng = np.random.default_rng(seed)
        path.write_bytes(hostile(rng, apart[seed % len(apart)]))
        soon(SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = read(path)
            if model is not None:
                rows = np.random.default_rng(0).standard_normal((4, model.n_features_in_))
                assert set(model.predict(rows).tolist()) <= set(model.classes_.tolist())
                assert model.decision_function(rows).shape[0] == 4
                model.predict_top_k(rows, k=2)


def test_the_corpus_is_sound(files, tmp_path):
    path = tmp_path / "model.zsl"
    rows = problem().X_test_unseen
    for file in files:
        path.write_bytes(file)
        before = read(path).decision_function(rows)
        path.write_bytes(put_together(take_apart(file)))
        assert np.array_equal(read(path).decision_function(rows), before)
