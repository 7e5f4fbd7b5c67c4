"""The demo: the quick methods, on the embedded glyphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from zslearn.datasets import load_glyphs
from zslearn.experiments._evaluate import Evaluation, evaluate
from zslearn.experiments._figures import save_curves, save_predictions
from zslearn.experiments._methods import METHODS
from zslearn.utils import import_optional, replacing

Say = Callable[[str], None]


@dataclass(frozen=True)
class Demo:
    """What the demo found and where it was written.

    Parameters
    ----------
    table : DataFrame
        One row per method: its metrics, calibration factor and the seconds to fit it.
    best : str
        The method whose predictions are pictured: the one with the largest AUSUC.
    files : tuple of Path
        What was written.
    """

    table: pd.DataFrame
    best: str
    files: tuple[Path, ...]


def run_demo(folder: Path, *, say: Say = lambda text: None, progress: bool = False) -> Demo:
    """Fit the quick methods on the glyphs, measure them, and write a table and two pictures.

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
        evaluations.append(evaluate(name, method.make(), data))
    say("drawing")
    table = pd.DataFrame(
        [{**run.metrics, "bias": run.bias, "seconds": run.seconds} for run in evaluations],
        index=pd.Index([run.method for run in evaluations], name="method"),
    )
    best = max(evaluations, key=lambda run: run.metrics["ausuc"])
    files = (
        folder / "results.csv",
        folder / "seen-unseen-curve.png",
        folder / "unseen-letters.png",
    )
    with replacing(files[0]) as temporary:
        table.to_csv(temporary)
    save_curves(evaluations, files[1])
    predicted = best.model.predict(data.X_test_unseen, classes=data.unseen_classes)
    n_unseen, right = len(data.unseen_classes), best.metrics["per_class_accuracy"]
    save_predictions(
        data,
        predicted,
        files[2],
        title=f"Letters that {best.method} never saw, chosen among {n_unseen}: {right:.0%} right "
        f"(chance {1 / n_unseen:.0%})",
    )
    return Demo(table, best.method, files)
