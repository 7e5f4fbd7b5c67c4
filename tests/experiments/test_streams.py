"""Predictions that are written as they are found, and go on where they were stopped."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from zslearn.base.checks._problem import same_choices
from zslearn.baselines import ESZSL
from zslearn.calibration import CalibratedStacking, NoneOfThese
from zslearn.datasets import FeatureBlocks, make_zero_shot
from zslearn.experiments import evaluate, write_top_k
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


def _read(folder):
    """Labels and scores of the files, a column for each rank."""
    table = pd.read_parquet(folder)
    return (table.filter(like=part).to_numpy() for part in ("label", "score"))


def _check(folder, model, k=3, classes=None):
    """Written predictions equal those in memory."""
    labels, scores = _read(folder)
    expected = model.predict_top_k(X, k, classes=classes)
    assert same_choices(labels, expected[0], model, X).all()
    assert np.allclose(scores, expected[1], rtol=1e-12)


@pytest.mark.parametrize("classes", [None, DATA.unseen_classes[::-1]], ids=["all", "unseen"])
def test_what_is_written_is_what_is_predicted(model, classes, tmp_path):
    folder = write_top_k(model, _blocks(), tmp_path / "out", k=4, classes=classes)
    _check(folder, model, 4, classes)
    stacked = CalibratedStacking(ESZSL()).fit(
        DATA.X_train, DATA.y_train, signatures=DATA.signatures
    )
    _check(write_top_k(stacked, X, tmp_path / "array", k=2), stacked, 2)


def test_what_was_stopped_goes_on(model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=3), tmp_path, k=3)
    blocks = _blocks()
    write_top_k(model, blocks, tmp_path, k=3)
    assert blocks.read_from == 60
    _check(tmp_path, model)
    # Finished parts are not computed again.
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("part*")}
    write_top_k(model, _blocks(stop_at=0), tmp_path, k=3)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("part*")} == files
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=0), tmp_path, k=3, resume=False)


def test_another_model_or_file_begins_anew(model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write_top_k(model, _blocks(stop_at=3), tmp_path, k=3)
    other = ESZSL(100.0).fit(DATA.X_train, DATA.y_train, signatures=DATA.signatures)
    blocks = _blocks()
    write_top_k(other, blocks, tmp_path, k=3)
    assert blocks.read_from == 0
    _check(tmp_path, other)


@pytest.mark.parametrize("how", ["cut", "other", "gone"])
def test_damaged_files_are_computed_again(model, tmp_path, how):
    write_top_k(model, _blocks(), tmp_path, k=3)
    path = tmp_path / "part-000000000040.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if how == "cut" else b"other bytes")
    if how == "gone":
        path.unlink()
    blocks = _blocks()
    write_top_k(model, blocks, tmp_path, k=3)
    assert blocks.read_from == 40
    _check(tmp_path, model)


def test_bad_input(model, tmp_path):
    with pytest.raises(ValueError, match="k must be between 1"):
        write_top_k(model, _blocks(), tmp_path, k=0)
    with pytest.raises(ValueError, match="X has 2 features"):
        write_top_k(model, X[:, :2], tmp_path)
    with pytest.raises(ValueError, match="unknown classes"):
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


def test_labels_outside_the_candidates(model):
    with pytest.raises(ValueError, match="not in classes"):
        _measured(model, _blocks(), classes=DATA.unseen_classes)
    with pytest.raises(ValueError, match="X has no labels"):
        _measured(model, X)
    with pytest.raises(ValueError, match="checkpoint= needs features on disk"):
        _measured(model, iter([(X, Y)]), checkpoint="x")
    with pytest.raises(ValueError, match="no images to evaluate"):
        _measured(model, iter([]))
    with pytest.raises(NotFittedError):
        evaluate(ESZSL(), X, Y)
    with pytest.raises(TypeError, match="fitted zero-shot estimator"):
        evaluate("ESZSL", X, Y)
    with pytest.raises(ValueError, match="y has 3 labels"):
        _measured(model, X, Y[:3])
