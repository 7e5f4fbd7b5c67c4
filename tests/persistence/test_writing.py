"""Files are whole or not there, whatever happens while they are written."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time

import numpy as np
import pandas as pd
import pytest

import zslearn
from zslearn.baselines import ESZSL
from zslearn.datasets import make_zero_shot
from zslearn.synthesis import EXEM

DATA = make_zero_shot(
    n_seen=6, n_unseen=3, n_features=7, n_attributes=5, samples_per_class=8, random_state=2
)
X = DATA.X_test_unseen


def fit(model):
    return model.fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)


def again(model, path):
    zslearn.save(model, path)
    return zslearn.load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.zsl"


def test_classes_are_added_while_a_model_is_saved(path):
    model = fit(EXEM(n_components=3))
    new = pd.DataFrame(np.random.default_rng(0).random((60, 5)), columns=DATA.signatures.columns)

    def add():
        for i in range(60):
            model.add_classes(new.iloc[[i]].set_axis([f"new {i}"]))

    thread = threading.Thread(target=add)
    thread.start()
    numbers = []
    while thread.is_alive():
        numbers.append(len(again(model, path).classes_))
    thread.join()
    assert numbers == sorted(numbers)
    assert len(again(model, path).classes_) == 9 + 60


def _save_for_ever(path, started):
    model = fit(ESZSL())
    while True:
        zslearn.save(model, path, extras={"x": np.random.default_rng().standard_normal((300, 300))})
        started.set()


@pytest.mark.slow
def test_a_kill_in_the_middle_leaves_a_whole_file(path):
    context = multiprocessing.get_context("fork")
    for delay in (0.001, 0.004, 0.013):
        started = context.Event()
        process = context.Process(target=_save_for_ever, args=(path, started))
        process.start()
        started.wait(30)
        time.sleep(delay)
        process.kill()
        process.join()
        assert zslearn.load(path).predict(X).shape == (len(X),)


def test_an_error_in_the_middle_leaves_the_old_file(path, monkeypatch):
    model = fit(ESZSL())
    zslearn.save(model, path)
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        zslearn.save(model, path, about={"x": 1})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
