"""The demo: the quick methods, on the embedded glyphs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from zslearn._utils._files import replacing
from zslearn._utils._optional import import_optional
from zslearn._utils._progress import Say
from zslearn.datasets._dataset import ZeroShotDataset
from zslearn.datasets._glyphs import load_glyphs
from zslearn.experiments._evaluate import Evaluation, by_class, compact_curve, evaluate
from zslearn.experiments._examples import save_examples
from zslearn.experiments._figures import save_curves, save_predictions
from zslearn.experiments._methods import METHODS
from zslearn.experiments._records import circumstances, write_record
from zslearn.experiments._report._write import write_report
from zslearn.experiments._runs import data_origin
from zslearn.metrics._curve import seen_unseen_curve

_UNCALIBRATED = ("seen", "unseen", "harmonic")


def write_evaluation(evaluation: Evaluation, data: ZeroShotDataset, folder: Path) -> list[Path]:
    """Write what an evaluation of a method as it is found as two records, one of each setting."""
    metrics, found = evaluation.metrics, evaluation.generalized
    assert found is not None
    assert evaluation.bias is not None

    def kept(*beginnings: str) -> dict[str, float]:
        return {n: v for n, v in metrics.items() if n.startswith(beginnings) or n in _UNCALIBRATED}

    unseen = data.unseen_classes
    predicted = evaluation.model.predict(data.X_test_unseen, classes=unseen)
    results: dict[str, dict[str, Any]] = {
        "zsl": {
            "metrics": kept("per_", "flat_hit"),
            "times": {"tune_and_fit": evaluation.seconds},
            **by_class(data.y_test_unseen, predicted, unseen),
        },
        "gzsl": {
            "metrics": kept("calibrated_", "ausuc"),
            "calibration_factor": evaluation.bias,
            "unseen_classes": [str(label) for label in unseen.tolist()],
            "curve": compact_curve(*seen_unseen_curve(**vars(found))),
            **by_class(found.y_true, found.predict(evaluation.bias), found.classes),
        },
    }
    paths = []
    for setting, of_setting in results.items():
        name = re.sub(r"[^A-Za-z0-9]+", "-", evaluation.method).strip("-")
        paths.append(folder / f"{data.name}_{name}_{setting}.json")
        origin = {
            **data_origin(data),
            "method": evaluation.method,
            "setting": setting,
            "protocol": "untuned",
            "seed": None,
            "command": "zslearn demo",
        }
        write_record(origin | of_setting | circumstances(), paths[-1])
    return paths


@dataclass(frozen=True)
class Demo:
    """What the demo found and where it was written.

    `table` has one row per method: its metrics, calibration factor and the seconds to fit it.
    `best` is the one with the largest AUSUC. Of `files` the report is the last. `n_seen` letters
    have training images, `n_unseen` have none.
    """

    table: pd.DataFrame
    best: str
    files: tuple[Path, ...]
    n_seen: int
    n_unseen: int

    def summary(self) -> str:
        """What to see in the table, in words."""
        row = self.table.loc[self.best]
        n_letters = self.n_seen + self.n_unseen
        return (
            f"What to see: {self.best} names {row['per_class_accuracy']:.0%} of the images of "
            f"{self.n_unseen} letters that it never saw, chosen among these (chance "
            f"{1 / self.n_unseen:.0%}). Among all {n_letters} letters it prefers those it saw: it "
            f"names {row['seen']:.0%} of their images and {row['unseen']:.0%} of the others; H, "
            f"the harmonic mean of the two, is {row['harmonic']:.3f}. Holding the seen letters "
            "back by a factor found on training images alone (cal.) makes it "
            f"{row['calibrated_harmonic']:.3f}."
        )


def run_demo(folder: Path, *, say: Say = lambda text: None, progress: bool = False) -> Demo:
    """Fit the quick methods on the glyphs, measure them, and write a table, pictures and a report.

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
    say("loading the glyphs")
    data = load_glyphs(progress=progress)
    evaluations: list[Evaluation] = []
    for name, method in METHODS.items():
        if not method.in_demo:
            continue
        say(f"fitting {name}")
        evaluations.append(evaluate(method.make(), data, name=name))
    say("drawing")
    table = pd.DataFrame(
        [{**run.metrics, "bias": run.bias, "seconds": run.seconds} for run in evaluations],
        index=pd.Index([run.method for run in evaluations], name="method"),
    )
    best = max(evaluations, key=lambda run: run.metrics["ausuc"])
    files = (
        folder / "results.csv",
        folder / "seen-unseen-curve.png",
        folder / "seen-unseen-curve.svg",
        folder / "unseen-letters.png",
        folder / "report.html",
    )
    with replacing(files[0]) as temporary:
        table.to_csv(temporary)
    for path in files[1:3]:
        save_curves(evaluations, path)
    predicted = best.model.predict(data.X_test_unseen, classes=data.unseen_classes)
    n_seen, n_unseen = len(data.seen_classes), len(data.unseen_classes)
    right = best.metrics["per_class_accuracy"]
    save_predictions(
        data,
        predicted,
        files[3],
        title=f"Letters that {best.method} never saw, chosen among {n_unseen}: {right:.0%} right "
        f"(chance {1 / n_unseen:.0%})",
    )
    say("writing the report")
    runs = folder / "runs"
    records = [
        path for evaluation in evaluations for path in write_evaluation(evaluation, data, runs)
    ]
    save_examples(data, runs)
    write_report(records, files[-1], title="Letters that no model saw: the demo of zslearn")
    return Demo(table, best.method, files, n_seen, n_unseen)
