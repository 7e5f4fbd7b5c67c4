"""Predictions that are written as they are found, and go on where they were stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from zslearn._utils._files import locked
from zslearn._utils._messages import InputWarning
from zslearn.base.checks._problem import same_choices
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking, NoneOfThese
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.experiments import _evaluate as streams
from zslearn.experiments import evaluate, read_top_k, write_top_k
from zslearn.metrics import flat_hit_at_k, per_class_accuracy

DATA = make_zero_shot(random_state=0)
X = np.concatenate([DATA.X_test_seen, DATA.X_test_unseen])
Y = np.concatenate([DATA.y_test_seen, DATA.y_test_unseen])


@pytest.fixture(scope="module")
def model():
    return ESZSL().fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)


class Stopping(FeatureBlocks):
    """Stops as Ctrl-C does before some block."""

    stop_at: int | None = None
    read_from: int | None = None

    def blocks(self, start=0):
        self.read_from = start
        for number, block in enumerate(super().blocks(start)):
            if number == self.stop_at:
                raise KeyboardInterrupt
            yield block


def _blocks(stop_at=None):
    blocks = Stopping(X, Y, block_bytes=20 * X.shape[1] * 8)
    blocks.stop_at = stop_at
    return blocks


@pytest.mark.parametrize("classes", [None, DATA.unseen_classes[::-1]], ids=["all", "unseen"])
def test_what_is_written_is_what_is_predicted(model, classes, tmp_path):
    found = write_top_k(model, _blocks(), tmp_path / "out", k=4, classes=classes)
    labels, scores = model.predict_top_k(X, 4, classes=classes)
    for predictions in (found, read_top_k(tmp_path / "out")):
        assert same_choices(predictions.labels(), labels, model, X).all()
        assert np.allclose(predictions.scores, scores, rtol=1e-12)
        assert predictions.indices.dtype == np.int32
    assert np.array_equal(found.labels(slice(3, 5)), found.labels()[3:5])
    assert not list((tmp_path / "out").glob("*.part"))


@pytest.mark.parametrize("name", ["indices.npy", "scores.npy", "classes.npy"])
@pytest.mark.parametrize("how", ["cut", "header", "other"])
def test_damaged_predictions_are_named_and_made_anew(model, tmp_path, name, how):
    expected = write_top_k(model, _blocks(), tmp_path, k=3).labels().copy()
    path = tmp_path / name
    whole = path.read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "header": b"\x93NUMPY\x01\x00" + bytes(200)}
    if how == "other":
        np.save(path, np.full((2, 3), 99, dtype=np.int32))
    else:
        path.write_bytes(damaged[how])
    with pytest.raises(ValueError, match="the predictions are damaged") as caught:
        read_top_k(tmp_path)
    assert str(tmp_path) in str(caught.value)
    with pytest.warns(InputWarning, match="computed again"):
        found = write_top_k(model, _blocks(), tmp_path, k=3)
    assert same_choices(found.labels(), expected, model, X).all()


def test_wrappers_and_plain_arrays(tmp_path):
    model = CalibratedStacking(ESZSL()).fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    found = write_top_k(model, X, tmp_path, k=2)
    assert same_choices(found.labels(), model.predict_top_k(X, 2)[0], model, X).all()


def test_what_was_stopped_goes_on(model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=3), tmp_path, k=3)
    with pytest.raises(FileNotFoundError, match="finishes what was begun"):
        read_top_k(tmp_path)
    # A part of a row that was being written is cut off.
    with open(tmp_path / "indices.npy.part", "ab") as file:
        file.write(b"half a ro")
    blocks = _blocks()
    found = write_top_k(model, blocks, tmp_path, k=3)
    assert blocks.read_from == 60
    assert same_choices(found.labels(), model.predict_top_k(X, 3)[0], model, X).all()
    # What is finished is not read again.
    again = _blocks(stop_at=0)
    write_top_k(model, again, tmp_path, k=3)
    assert again.read_from is None
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, again, tmp_path, k=3, resume=False)


def test_another_model_or_file_begins_anew(model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=3), tmp_path, k=3)
    other = ESZSL(100.0).fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    blocks = _blocks()
    found = write_top_k(other, blocks, tmp_path, k=3)
    assert blocks.read_from == 0
    assert same_choices(found.labels(), other.predict_top_k(X, 3)[0], other, X).all()


def test_a_damaged_state_begins_anew(model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=3), tmp_path, k=3)
    state = tmp_path / "state.json"
    state.write_text(state.read_text().replace('"done": 60', '"done": 80'))
    with pytest.warns(UserWarning, match="Passed over"):
        found = write_top_k(model, _blocks(), tmp_path, k=3)
    assert same_choices(found.labels(), model.predict_top_k(X, 3)[0], model, X).all()


def test_rows_that_did_not_reach_the_disk_are_computed_again(model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=4), tmp_path, k=3)
    os.truncate(tmp_path / "scores.npy.part", 400)
    found = write_top_k(model, _blocks(), tmp_path, k=3)
    assert np.allclose(found.scores, model.predict_top_k(X, 3)[1], rtol=1e-12)


def test_two_processes_do_not_write_the_same_files(model, tmp_path):
    blocks = _blocks()
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=1), tmp_path, k=3)
    in_use = r"scores\.npy is in use by another process;"
    with locked(tmp_path / "scores.npy"), pytest.raises(RuntimeError, match=in_use):
        write_top_k(model, blocks, tmp_path, k=3)
    assert write_top_k(model, blocks, tmp_path, k=3).indices.shape == (len(X), 3)


KILLED = """
import sys, time
import numpy as np
from zslearn.base.checks._problem import same_choices
from zslearn.baselines import ESZSL
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn._utils import _files
from zslearn.experiments import write_top_k
_files._CHECKPOINT_SECONDS = 0.0

class Slow(FeatureBlocks):
    def blocks(self, start=0):
        print(start, flush=True)
        for number, block in enumerate(super().blocks(start)):
            if number == 3 and len(sys.argv) > 2:
                print("waiting", flush=True)
                time.sleep(60)
            yield block

data = make_zero_shot(random_state=0)
model = ESZSL().fit(data.X_train, data.y_train, signatures=data.signatures)
X = Slow(data.X_test_unseen, block_bytes=20 * data.X_test_unseen.shape[1] * 8)
found = write_top_k(model, X, sys.argv[1], k=3)
expected = model.predict_top_k(data.X_test_unseen, 3)[0]
print(same_choices(found.labels(), expected, model, data.X_test_unseen).all())
"""


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_lasts(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
    with subprocess.Popen([*command, "wait"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "0\n"
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
    again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    assert again.stdout.split() == ["60", "True"]


def test_bad_input(model, tmp_path):
    with pytest.raises(ValueError, match="k must be between 1"):
        write_top_k(model, _blocks(), tmp_path, k=0)
    with pytest.raises(ValueError, match="X has 2 features"):
        write_top_k(model, X[:, :2], tmp_path)
    with pytest.raises(ValueError, match="not described"):
        write_top_k(model, X, tmp_path, classes=["no such class"])
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="to_zarr"):
        write_top_k(model, da.from_array(X), tmp_path)
    assert not list(tmp_path.iterdir())


# Accuracies


def _measured(*args, **options):
    return evaluate(*args, **options).metrics


def test_accuracies_are_those_of_all_rows(model):
    top, _ = model.predict_top_k(X, 5)
    found = _measured(model, _blocks(), k=[1, 2, 5, 500])
    assert found["per_class_accuracy"] == pytest.approx(per_class_accuracy(Y, top[:, 0]))
    assert found["flat_hit_at_5"] == pytest.approx(flat_hit_at_k(Y, top, 5))
    assert {"seen", "unseen", "harmonic"} <= set(found)
    unseen = _measured(model, DATA.X_test_unseen, DATA.y_test_unseen, classes=DATA.unseen_classes)
    score = model.score(DATA.X_test_unseen, DATA.y_test_unseen, classes=DATA.unseen_classes)
    assert unseen["per_class_accuracy"] == pytest.approx(score)
    assert "seen" not in unseen
    pairs = ((X[start : start + 50], Y[start : start + 50]) for start in range(0, len(X), 50))
    assert _measured(model, pairs) == pytest.approx(_measured(model, X, Y))


def test_images_that_are_rejected_are_wrong():
    model = NoneOfThese(ESZSL(), false_alarm_rate=0.2)
    model.fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    streamed = []
    for classes, rows in (
        (None, slice(None)),
        (DATA.unseen_classes, slice(len(DATA.y_test_seen), None)),
    ):
        score = model.score(X[rows], Y[rows], classes=classes)
        blocks = FeatureBlocks(X[rows], Y[rows], block_bytes=20 * X.shape[1] * 8)
        streamed.append(_measured(model, blocks, classes=classes))
        assert streamed[-1]["per_class_accuracy"] == pytest.approx(score)
        assert model.estimator_.score(X[rows], Y[rows], classes=classes) > score
    # A data set has both settings.
    of_all, of_unseen = streamed
    of_unseen.pop("n_samples")
    of_unseen |= {name: of_all[name] for name in ("seen", "unseen", "harmonic")}
    of_data = _measured(model, DATA)
    assert of_data.keys() - of_unseen.keys() == {"ausuc", "harmonic_best"}
    assert {name: of_data[name] for name in of_unseen} == pytest.approx(of_unseen)
    # That an image is rejected is the first guess.
    best_two = model.predict_top_k(DATA.X_test_unseen, 2, classes=DATA.unseen_classes)[0]
    best_two[model.is_none(DATA.X_test_unseen, classes=DATA.unseen_classes), 1] = ""
    hits = (best_two == DATA.y_test_unseen[:, None]).any(axis=1)
    assert of_unseen["flat_hit_at_2"] == pytest.approx(hits.mean())


def test_an_evaluation_that_was_stopped_goes_on(model, tmp_path):
    expected = _measured(model, _blocks())
    checkpoint = tmp_path / "counts.json"
    with pytest.raises(KeyboardInterrupt):
        _measured(model, _blocks(stop_at=3), checkpoint=checkpoint)
    blocks = _blocks()
    assert _measured(model, blocks, checkpoint=checkpoint) == expected
    assert blocks.read_from == 60
    # Other labels are another evaluation.
    assert _measured(model, _blocks(), Y[::-1], checkpoint=checkpoint) != expected


def test_an_interrupted_block_is_not_counted_twice(model, tmp_path, monkeypatch):
    expected = _measured(model, _blocks())
    checkpoint = tmp_path / "counts.json"
    count, calls = streams.count_block, []

    def stopped(*args):
        calls.append(args[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return count(*args)

    monkeypatch.setattr(streams, "count_block", stopped)
    with pytest.raises(KeyboardInterrupt):
        _measured(model, _blocks(), checkpoint=checkpoint)
    assert _measured(model, _blocks(), checkpoint=checkpoint) == expected


def test_labels_outside_the_candidates(model):
    with pytest.raises(ValueError, match="not among classes"):
        _measured(model, _blocks(), classes=DATA.unseen_classes)
    with pytest.raises(ValueError, match="X has no labels"):
        _measured(model, X)
    with pytest.raises(ValueError, match="checkpoint= is for features on disk"):
        _measured(model, iter([(X, Y)]), checkpoint="x")
    with pytest.raises(ValueError, match="no images to measure"):
        _measured(model, iter([]))
    with pytest.raises(NotFittedError):
        evaluate(ESZSL(), X, Y)
    with pytest.raises(TypeError, match="fitted zero-shot estimator"):
        evaluate("ESZSL", X, Y)
    with pytest.raises(ValueError, match="y has 3 labels"):
        _measured(model, X, Y[:3])


def test_a_model_whose_embedding_differs_is_another(model):
    scorer = model.class_scorer_
    shifted = ESZSL().fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    shifted.mean_ = shifted.mean_ + 0.1
    other = replace(scorer, embedding=shifted.class_scorer_.embedding)
    keys = {streams._key(s, _blocks(), scorer.labels, 3) for s in (scorer, other)}
    assert len(keys) == 2
