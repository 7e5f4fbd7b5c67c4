import itertools

import numpy as np
import pandas as pd
import pytest

from zslearn.baselines import ESZSL
from zslearn.metrics import ConfusedPair, UnseenConfusionDisplay, per_class_accuracy

TRUE = ["cat"] * 4 + ["emu"] * 4 + ["owl"] * 2
PRED = ["cat", "cat", "emu", "owl", "emu", "owl", "owl", "owl", "owl", "owl"]


def _plot(true=TRUE, pred=PRED, **kwargs):
    return UnseenConfusionDisplay.from_predictions(true, pred, **kwargs)


def _ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def _listed(display):
    return [text.get_text() for text in display.figure_.legends[0].get_texts()]


def test_shares_and_worst_pairs(plt):
    display = _plot(name="mine")
    expected = [[0.5, 0.25, 0.25], [0, 0.25, 0.75], [0, 0, 1]]
    np.testing.assert_array_equal(display.shares, expected)
    np.testing.assert_array_equal(display.im_.get_array(), expected)
    assert np.diag(display.shares).mean() == per_class_accuracy(TRUE, PRED)
    # The left one of two equal shares comes first.
    assert display.worst_pairs() == [
        ConfusedPair("emu", "owl", 0.75, 3, 4),
        ConfusedPair("cat", "emu", 0.25, 1, 4),
        ConfusedPair("cat", "owl", 0.25, 1, 4),
    ]
    assert display.worst_pairs(1) == display.worst_pairs()[:1]
    assert _listed(display) == [
        "emu → owl: 75 % (3 of 4)",
        "cat → emu: 25 % (1 of 4)",
        "cat → owl: 25 % (1 of 4)",
    ]
    assert [mark.get_text() for mark in display.marks_] == ["1", "2", "3"]
    assert display.marks_[0].get_position() == (2.5, 0.5)  # corner of the cell in row 1, column 2
    assert _ticks(display.ax_.yaxis) == _ticks(display.ax_.xaxis) == ["cat", "emu", "owl"]
    assert display.ax_.get_title() == "mine"
    texts = {text.get_position()[::-1]: text.get_text() for text in display.text_}
    assert sorted(texts.items())[:3] == [((0, 0), "50"), ((0, 1), "25"), ((0, 2), "25")]
    assert texts[2, 2] == "100"


def test_from_estimator(plt, problem):
    model = ESZSL().fit(problem.X_train, problem.y_train, signatures=problem.signatures)
    X, y = problem.X_test_unseen, problem.y_test_unseen
    display = UnseenConfusionDisplay.from_estimator(model, X, y)
    assert display.classes.tolist() == sorted(problem.unseen_classes.tolist())
    assert display.estimator_name == "ESZSL"
    assert display.n_other is None
    score = model.score(X, y, classes=problem.unseen_classes)
    assert np.diag(display.shares).mean() == pytest.approx(score)
    # Predictions of seen classes share a column.
    display = UnseenConfusionDisplay.from_predictions(
        y, model.predict(X), classes=problem.unseen_classes
    )
    assert display.n_other.sum() == np.isin(model.predict(X), model.seen_classes_).sum() > 0


def test_predictions_outside_have_a_column(plt):
    display = _plot(["a", "a", "b"], ["a", "x", "y"])
    np.testing.assert_array_equal(display.shares, [[0.5, 0], [0, 0]])
    np.testing.assert_array_equal(display.im_.get_array(), [[0.5, 0, 0.5], [0, 0, 1]])
    assert _ticks(display.ax_.xaxis) == ["a", "b", "other classes"]
    assert _ticks(display.ax_.yaxis) == ["a", "b"]
    assert display.worst_pairs() == []
    assert display.figure_.legends == []


def test_classes_without_samples_have_an_empty_row(plt):
    display = _plot(["a", "b"], ["c", "b"], classes=["c", "b", "a"])
    assert display.classes.tolist() == ["a", "b", "c"]
    assert display.im_.get_array().mask.all(axis=1).tolist() == [False, False, True]
    assert display.worst_pairs() == [ConfusedPair("a", "c", 1.0, 1, 1)]
    with pytest.raises(ValueError, match="not in classes: 'b'"):
        _plot(["a", "b"], ["a", "b"], classes=["a"])


SIGNATURES = {"a": [1, 0, 0], "b": [0, 0, 1], "c": [5, 0.1, 0], "d": [0, 0.1, 3]}


def test_order(plt):
    true, pred = list("abcd"), list("abdc")
    display = _plot(true, pred, signatures=SIGNATURES)
    order = display.classes.tolist()
    # Lengths do not matter: a is beside c, b beside d.
    assert abs(order.index("a") - order.index("c")) == abs(order.index("b") - order.index("d")) == 1
    assert display.counts[order.index("c"), order.index("d")] == 1
    assert _plot(true[::-1], pred[::-1]).classes.tolist() == true
    frame = pd.DataFrame(SIGNATURES).T
    assert _plot(true, pred, signatures=frame).classes.tolist() == order
    with pytest.raises(ValueError, match="signatures do not describe these classes: 'd'"):
        _plot(true, pred, signatures=frame.drop(index="d"))


def _images(n_samples=10):
    return np.arange(n_samples)[:, None, None] * np.ones((1, 3, 2))


def _drawn(row):
    """Numbers of the samples whose images a row of axes shows."""
    return [int(ax.images[0].get_array()[0, 0]) if ax.images else None for ax in row]


def test_examples(plt):
    display = _plot(images=_images(), n_examples=2, n_pairs=2, image_kwargs={"cmap": "gray_r"})
    # Evenly spaced among samples 5, 6 and 7, then a correctly predicted sample.
    assert [_drawn(row) for row in display.example_axes_] == [[5, 7, 8], [2, None, 4]]
    assert display.example_axes_[0, 0].images[0].get_cmap().name == "gray_r"
    titles = [row[0].texts[0].get_text() for row in display.example_axes_]
    assert titles == ["1  emu → owl: 75 % (3 of 4)", "2  cat → emu: 25 % (1 of 4)"]
    assert display.figure_.legends == []
    # Given axes have no room for examples.
    figure, ax = plt.subplots()
    assert display.plot(ax=ax).example_axes_ is None
    assert display.figure_ is figure
    assert len(display.marks_) == 3


def test_missing_images(plt):
    images = list(_images())
    images[5] = images[8] = images[9] = None
    display = _plot(images=images, n_examples=2, n_pairs=1)
    assert [_drawn(row) for row in display.example_axes_] == [[None, 7, None]]
    # Pairs without images are listed as well.
    display.plot(n_pairs=3)
    assert len(display.example_axes_) == 3
    assert display.example_axes_[2, 0].texts[0].get_text() == "3  cat → owl: 25 % (1 of 4)"


def test_wrong_images(plt):
    with pytest.raises(ValueError, match="one entry per sample"):
        _plot(images=_images(3))
    with pytest.raises(ValueError, match=r"shape \(height, width\).*got \(12,\)"):
        _plot(images=np.zeros((len(TRUE), 12)))
    colour = np.zeros((len(TRUE), 4, 5, 3))
    assert _plot(images=colour).example_axes_[0, 0].images[0].get_array().shape == (4, 5, 3)


STRANGE = ["<script>alert(1)</script>", "$x_", "ä\n" * 40, "_hidden", "ő" * 60]


def test_strange_names(plt):
    pairs = list(itertools.product(STRANGE, STRANGE))
    display = _plot([t for t, _ in pairs], [p for _, p in pairs], name="$a$ \\frac")
    display.figure_.canvas.draw()  # an invalid formula would raise an error here
    names = _ticks(display.ax_.yaxis)
    assert "$x_" in names
    assert "<script>alert(1)</script>"[:23] + "…" in names
    assert all(len(name) <= 24 and "\n" not in name for name in names)
    assert len(_listed(display)) == 5


@pytest.mark.parametrize(
    "n_classes", [15, 51, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 130))]
)
def test_labels_are_thinned_and_do_not_touch(plt, n_classes):
    classes = [f"class {i:03d}" for i in range(n_classes)]
    display = _plot(classes, classes[1:] + classes[:1])
    shown = _ticks(display.ax_.yaxis)
    assert shown == classes[:: -(-n_classes // 50)]
    display.figure_.canvas.draw()
    boxes = [label.get_window_extent() for label in display.ax_.get_yticklabels()]
    assert all(b.y1 <= a.y0 for a, b in itertools.pairwise(boxes))
    boxes = [label.get_window_extent() for label in display.ax_.get_xticklabels()]
    assert all(a.x1 <= b.x0 for a, b in itertools.pairwise(boxes))
    assert bool(display.text_) == (n_classes <= 15)


def test_everything_is_inside_the_figure(plt):
    display = _plot(images=_images(), name="mine")
    width, height = display.figure_.get_size_inches()
    box = display.figure_.get_tightbbox()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height
