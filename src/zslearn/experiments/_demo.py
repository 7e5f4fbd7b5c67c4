"""The demo: the library's own methods, on the embedded glyphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._files import replacing
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import Say
from zslearn.datasets import ZeroShotDataset, load_glyphs
from zslearn.experiments._evaluate import Evaluation, by_class, compact_curve, evaluate
from zslearn.experiments._examples import save_examples
from zslearn.experiments._figures import new_figure, save_figure
from zslearn.experiments._names import method_style
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._records import circumstances, slug, write_record
from zslearn.experiments._report._write import write_report
from zslearn.experiments._runs import data_origin
from zslearn.experiments._summary import UNCALIBRATED
from zslearn.metrics import SeenUnseenCurveDisplay, seen_unseen_curve
from zslearn.model_selection import LEADING_METHODS, METHODS

#: The letter that is described to a model that does not know it.
_LETTER = "é"
_RIGHT, _WRONG = "#1a7f37", "#b42318"
_PER_ROW = 10


def _write_evaluation(evaluation: Evaluation, data: ZeroShotDataset, folder: Path) -> list[Path]:
    """Write an evaluation of an untuned method as two records, one of each setting."""
    found: Any = evaluation.generalized
    bias, unseen = evaluation.bias or 0.0, data.unseen_classes

    def kept(*beginnings: str) -> dict[str, float]:
        metrics = evaluation.metrics.items()
        return {n: v for n, v in metrics if n.startswith(beginnings) or n in UNCALIBRATED}

    predicted = evaluation.model.predict(data.X_test_unseen, classes=unseen)
    results: dict[str, dict[str, Any]] = {
        "zsl": {
            "metrics": kept("per_", "flat_hit"),
            "times": {"tune_and_fit": evaluation.seconds},
            **by_class(data.y_test_unseen, predicted, unseen),
        },
        "gzsl": {
            "metrics": kept("calibrated_", "ausuc"),
            "calibration_factor": bias,
            "unseen_classes": [str(label) for label in unseen.tolist()],
            "curve": compact_curve(*seen_unseen_curve(**vars(found))),
            **by_class(found.y_true, found.predict(bias), found.classes),
        },
    }
    paths = []
    for setting, of_setting in results.items():
        origin = {
            **data_origin(data),
            "method": evaluation.method,
            "setting": setting,
            "protocol": "untuned",
            "seed": None,
            "command": "zslearn demo",
        }
        paths.append(folder / f"{slug(data.name, evaluation.method, setting)}.json")
        write_record(origin | of_setting | circumstances(), paths[-1])
    return paths


def _draw_curves(evaluations: Sequence[Evaluation]) -> Any:
    """The seen–unseen accuracy curves of several methods."""
    figure = new_figure(figsize=(6, 5))
    axes = figure.subplots()
    for evaluation in evaluations:
        SeenUnseenCurveDisplay.from_predictions(
            **vars(evaluation.generalized),
            calibration_factor=evaluation.bias,
            name=evaluation.method,
            ax=axes,
            **method_style(evaluation.method).plot_options,
        )
    axes.set_title("Seen–unseen accuracy; circle: factor 0, diamond: calibrated", fontsize=10)
    return figure


def _one_of_each(y_true: NDArray[Any], predicted: NDArray[Any]) -> list[int]:
    """A row of each class at random, of which the same share is right as of all rows.

    The class with which the sum of the accuracies so far passes the next half shows a right answer.
    """
    rng, total, chosen = np.random.RandomState(0), 0.5, []
    for label in np.unique(y_true):
        of_class = np.flatnonzero(y_true == label)
        is_right = predicted[of_class] == label
        before, total = total, total + is_right.mean()
        # Sums of fractions may miss a whole number by rounding.
        shows_right = np.floor(total + 1e-9) > np.floor(before + 1e-9)
        chosen.append(int(rng.choice(of_class[is_right == shows_right])))
    return chosen


def _draw_predictions(images: Any, y_true: Any, predicted: Any, title: str) -> Any:
    """Images in rows with what the model said, right or wrong."""
    rows = -(-len(images) // _PER_ROW)
    figure = new_figure(figsize=(0.95 * _PER_ROW, 1.25 * rows + 0.5))
    grid = figure.subplots(rows, _PER_ROW, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, image, true, said in zip(grid.flat, images, y_true, predicted, strict=False):
        axes.imshow(255 - image, cmap="gray", vmin=0, vmax=255)
        caption = f"{said}" if said == true else f"{said} (is {true})"
        axes.set_title(caption, color=_RIGHT if said == true else _WRONG, fontsize=10)
    figure.suptitle(title, fontsize=11)
    return figure


@dataclass(frozen=True)
class Described:
    """A letter before and after it is described to a model that does not know it.

    `facts` describe it. Of its `n_images` so many are `found` among all letters; before, most of
    them were taken for `taken_for`.
    """

    letter: str
    facts: tuple[str, ...]
    n_images: int
    found: int
    taken_for: str

    @classmethod
    def live(cls, data: ZeroShotDataset, letter: str) -> Described:
        """Describe a letter to a model that was fitted without its description."""
        row = data.signatures.loc[[letter]]
        model = Protocol("default").make(METHODS[LEADING_METHODS[0]], 0)
        model.fit(data.X_train, data.y_train, signatures=data.signatures.drop(index=letter))
        images = data.X_test_unseen[data.y_test_unseen == letter]
        before = pd.Series(model.predict(images)).mode()[0]
        found = int((model.add_classes(row).predict(images) == letter).sum())
        facts = tuple(row.columns[row.iloc[0] == 1])
        return cls(letter, facts, len(images), found, str(before))


@dataclass(frozen=True)
class Demo:
    """What the demo found and where it was written.

    `table` has one row per method, that of `leading` first: its metrics, calibration factor and the
    seconds to fit it. Of `files` the report is the last. `n_seen` letters have training images,
    `n_unseen` have none, and `described` is one of these.
    """

    table: pd.DataFrame
    leading: str
    files: tuple[Path, ...]
    n_seen: int
    n_unseen: int
    described: Described

    def headline(self) -> str:
        """What happened, in one sentence."""
        row = self.table.loc[self.leading]
        return (
            f"{self.leading} learned from images of {self.n_seen} letters and names "
            f"{row['per_class_accuracy']:.0%} of the images of {self.n_unseen} others, which it "
            f"knows from a description alone (chance {1 / self.n_unseen:.0%})."
        )

    def summary(self) -> str:
        """What to see in the table, and what became of one letter, in words."""
        row, live = self.table.loc[self.leading], self.described
        n_letters = self.n_seen + self.n_unseen
        return (
            f"Among all {n_letters} letters it names {row['seen']:.0%} of the images of those it "
            f"saw and {row['unseen']:.0%} of the others; H, the harmonic mean of the two, is "
            f"{row['harmonic']:.3f}. The other methods prefer the letters they saw: a factor found "
            "on training images alone (cal.) holds these back.\n"
            f"One letter described live: a model without a description of {live.letter} took its "
            f"images for {live.taken_for} most often. Described as {', '.join(live.facts)}, with "
            f"nothing learned again, {live.found} of {live.n_images} are found among all "
            f"{n_letters}."
        )


def run_demo(folder: Path, *, say: Say = lambda text: None, progress: bool = False) -> Demo:
    """Fit three methods on the glyphs, measure them, and write a table, pictures and a report.

    One letter is then described to a model that does not know it.

    Parameters
    ----------
    folder : Path
        Where to write; it is made.
    say : callable
        Called with a line of text before each step.
    progress : bool
        Whether rendering the glyphs may draw a progress bar.

    Returns
    -------
    Demo
        The table and the files.
    """
    import_optional("matplotlib", "The demo")
    folder.mkdir(parents=True, exist_ok=True)
    say("loading the glyphs; all takes about half a minute")
    data = load_glyphs(progress=progress)
    evaluations: list[Evaluation] = []
    for name in LEADING_METHODS:
        say(f"fitting {name}")
        method = Protocol("default").make(METHODS[name], 0)
        evaluations.append(evaluate(method, data, name=name))
    say(f"describing {_LETTER} to a model that does not know it")
    described = Described.live(data, _LETTER)
    say("drawing")
    table = pd.DataFrame(
        [{**run.metrics, "bias": run.bias, "seconds": run.seconds} for run in evaluations],
        index=pd.Index([run.method for run in evaluations], name="method"),
    )
    names = ("results.csv", "seen-unseen-curve.png", "seen-unseen-curve.svg", "unseen-letters.png")
    files = tuple(folder / name for name in (*names, "report.html"))
    with replacing(files[0]) as temporary:
        table.to_csv(temporary)
    for path in files[1:3]:
        save_figure(_draw_curves(evaluations), path)
    leading, n_unseen = evaluations[0], len(data.unseen_classes)
    predicted = leading.model.predict(data.X_test_unseen, classes=data.unseen_classes)
    shown = _one_of_each(data.y_test_unseen, predicted)
    images, y_true, predicted = (
        values[shown] for values in (data.images_test_unseen, data.y_test_unseen, predicted)
    )
    caption = (
        f"Letters that {leading.method} never saw: {(predicted == y_true).sum()} of these "
        f"{n_unseen} answers are right, the same share as of all "
        f"({leading.metrics['per_class_accuracy']:.0%}; chance {1 / n_unseen:.0%})"
    )
    save_figure(_draw_predictions(images, y_true, predicted, caption), files[3])
    say("writing the report")
    runs = folder / "runs"
    records = [path for found in evaluations for path in _write_evaluation(found, data, runs)]
    save_examples(data, runs)
    write_report(
        records,
        files[-1],
        title="Letters that no model saw: the demo of zslearn",
        answers=(f"{caption}.", zip(255 - images, predicted, y_true, strict=True)),
    )
    return Demo(table, leading.method, files, len(data.seen_classes), n_unseen, described)
