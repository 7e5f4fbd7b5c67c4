"""The demo: recognise letters without training images, on the embedded glyphs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zslearn._utils._files import atomic_write
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import Say
from zslearn.datasets import ZeroShotDataset, load_glyphs
from zslearn.experiments._evaluate import Evaluation, evaluate
from zslearn.experiments._examples import save_examples
from zslearn.experiments._figures import new_figure, save_figure
from zslearn.experiments._protocol import Protocol
from zslearn.experiments._records import circumstances, slug, write_record
from zslearn.experiments._report._write import write_report
from zslearn.experiments._runs import measure_conventional, measure_generalized, origin_of
from zslearn.model_selection import LEADING_METHODS, METHODS

#: A letter that is added to a fitted model.
_LETTER = "é"
_RIGHT, _WRONG = "#1a7f37", "#b42318"
_PER_ROW = 10


def _write_evaluation(evaluation: Evaluation, data: ZeroShotDataset, folder: Path) -> list[Path]:
    """Write the evaluation of an untuned method as one record per setting."""
    model, bias = evaluation.model, evaluation.bias or 0.0
    conventional = measure_conventional(model, data)
    results = {
        "zsl": {**conventional, "times": {"tune_and_fit": evaluation.seconds}},
        "gzsl": measure_generalized(model, data, bias),
    }
    paths = []
    for setting, of_setting in results.items():
        method, command = evaluation.method, "zslearn demo"
        origin = origin_of(
            data, method=method, setting=setting, protocol="untuned", command=command
        )
        paths.append(folder / f"{slug(data.name, method, setting)}.json")
        write_record(origin | of_setting | circumstances(), paths[-1])
    return paths


def _one_of_each(y_true: NDArray[Any], predicted: NDArray[Any]) -> list[int]:
    """Choose a random row of each class, so that the share of correct answers is that of all rows.

    Accuracies are summed over the classes; a class whose accuracy takes the sum past the next half
    shows a correct answer.
    """
    rng, total, chosen = np.random.RandomState(0), 0.5, []
    for label in np.unique(y_true):
        of_class = np.flatnonzero(y_true == label)
        is_right = predicted[of_class] == label
        before, total = total, total + is_right.mean()
        # The tolerance absorbs rounding errors of the sum.
        shows_right = np.floor(total + 1e-9) > np.floor(before + 1e-9)
        chosen.append(int(rng.choice(of_class[is_right == shows_right])))
    return chosen


def _draw_predictions(images: Any, y_true: Any, predicted: Any, title: str) -> Any:
    """Draw images in rows with their predictions, coloured by whether they are correct."""
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


def _add_letter(data: ZeroShotDataset, letter: str) -> str:
    """Fit a model without the description of a letter, add it, and say what that changes."""
    row = data.signatures.loc[[letter]]
    model = Protocol("default").make(METHODS[LEADING_METHODS[0]], 0)
    model.fit(data.X_train, data.y_train, signatures=data.signatures.drop(index=letter))
    images = data.X_test_unseen[data.y_test_unseen == letter]
    before = pd.Series(model.predict(images)).mode()[0]
    n_correct = int((model.add_classes(row).predict(images) == letter).sum())
    attributes = ", ".join(row.columns[row.iloc[0] == 1])
    return (
        f"Adding a class is instant: a model without a description of {letter} took most of its "
        f"images for {before}. Described as {attributes}, and without retraining, {n_correct} of "
        f"{len(images)} are recognised among all {len(data.signatures)} letters."
    )


@dataclass(frozen=True)
class Demo:
    """Results of the demo.

    `table` has one row per method, `leading` first, with its metrics, calibration factor and time
    to fit in seconds. The report is the last of the `files`. `n_seen` letters have training images,
    `n_unseen` do not; `added` says how one of the latter was added to a model.
    """

    table: pd.DataFrame
    leading: str
    files: tuple[Path, ...]
    n_seen: int
    n_unseen: int
    added: str

    def headline(self) -> str:
        """The result in one sentence."""
        accuracy = float(self.table["per_class_accuracy"][self.leading])
        return (
            f"{self.leading} was trained on images of {self.n_seen} letters and recognises "
            f"{accuracy:.0%} of the images of {self.n_unseen} other letters, which it knows only "
            f"from their descriptions (chance: {1 / self.n_unseen:.0%})."
        )

    def summary(self) -> str:
        """The main numbers of the table, and the added letter."""
        row = self.table.loc[self.leading]
        return (
            f"Among all {self.n_seen + self.n_unseen} letters it recognises {row['seen']:.0%} of "
            f"the images of the letters it was trained on and {row['unseen']:.0%} of the others; "
            f"their harmonic mean H is {row['harmonic']:.3f}. The other methods are biased towards "
            "the letters they were trained on; a calibration factor, chosen on training images "
            f"(cal.), corrects this.\n{self.added}"
        )


def run_demo(folder: Path, *, say: Say = lambda text: None, progress: bool = False) -> Demo:
    """Fit and evaluate three methods on the glyphs, and write a table, a picture and a report.

    Finally, one letter is added to a model that was fitted without its description.

    Parameters
    ----------
    folder : Path
        Folder for the files; created if needed.
    say : callable
        Called with a line of text before each step.
    progress : bool
        Whether to show a progress bar while the glyphs are rendered.

    Returns
    -------
    Demo
        The results and the files.
    """
    import_optional("matplotlib", "The demo")
    folder.mkdir(parents=True, exist_ok=True)
    say("loading the glyphs; the demo takes about half a minute")
    data = load_glyphs(progress=progress)
    evaluations: list[Evaluation] = []
    for name in LEADING_METHODS:
        say(f"fitting {name}")
        method = Protocol("default").make(METHODS[name], 0)
        evaluations.append(evaluate(method, data, name=name))
    say(f"adding {_LETTER} to a fitted model")
    added = _add_letter(data, _LETTER)
    say("drawing")
    table = pd.DataFrame(
        [{**run.metrics, "bias": run.bias, "seconds": run.seconds} for run in evaluations],
        index=pd.Index([run.method for run in evaluations], name="method"),
    )
    names = "results.csv", "unseen-letters.png", "report.html"
    files = tuple(folder / name for name in names)
    with atomic_write(files[0]) as temporary:
        table.to_csv(temporary)
    leading, n_unseen = evaluations[0], len(data.unseen_classes)
    predicted = leading.model.predict(data.X_test_unseen, classes=data.unseen_classes)
    shown = _one_of_each(data.y_test_unseen, predicted)
    images, y_true, predicted = (
        values[shown] for values in (data.images_test_unseen, data.y_test_unseen, predicted)
    )
    caption = (
        f"Letters without training images, recognised by {leading.method}: "
        f"{(predicted == y_true).sum()} of these {n_unseen} answers are correct, as in the whole "
        f"test set ({leading.metrics['per_class_accuracy']:.0%}; chance: {1 / n_unseen:.0%})"
    )
    save_figure(_draw_predictions(images, y_true, predicted, caption), files[1])
    say("writing the report")
    runs = folder / "runs"
    records = [path for found in evaluations for path in _write_evaluation(found, data, runs)]
    save_examples(data, runs)
    write_report(
        records,
        files[-1],
        title="Demo of zslearn: letters without training images",
        answers=(f"{caption}.", zip(255 - images, predicted, y_true, strict=True)),
    )
    return Demo(table, leading.method, files, len(data.seen_classes), n_unseen, added)
