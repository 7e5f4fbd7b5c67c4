"""One labelled example of a class that was only described: how often does it harm this class?

Seen classes are held out, a fifth at a time. Each of them gets one example, alone or together with
the other held-out classes, and the share of its remaining samples that are recognised is compared
with that before. A class is harmed if this share falls by more than 5 points; unseen classes are
never looked at.

    python benchmarks/bench_one_example.py
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Iterator
from typing import Any

import messy_data
import numpy as np
import pandas as pd
from _common import Report
from numpy.typing import NDArray

from zslearn.datasets import TablePreparation, load_glyphs, load_xlsa17
from zslearn.model_selection import ClassKFold
from zslearn.synthesis import GaussianEXEM

#: A class is harmed if its accuracy falls by more than this.
HARM = 0.05
#: Samples of a held-out class on which its accuracy is measured, besides the example.
N_MEASURED = 20

Data = tuple[Any, Any, pd.DataFrame, "str | None"]


def made(kind: str) -> Data:
    """Samples, labels, classes and norm of a clean table of a kind."""
    tables = messy_data.clean(kind, 0)
    table, described = tables.samples, tables.classes.set_index("mineral")
    y = table.pop("mineral").to_numpy(dtype=str)
    return TablePreparation().fit_transform(table, y), y, described, None


def pictures(data: Any) -> Data:
    """The training part of a data set."""
    return np.asarray(data.X_train), data.y_train, data.signatures, "l2"


def data_sets(quick: bool) -> Iterator[tuple[str, Data]]:
    """Yield names and data, those on disk only where they are."""
    yield "minerals (table, 32 columns)", made("numbers")
    if not quick:
        yield "minerals (table, 6 columns)", made("few features")
        yield "glyphs", pictures(load_glyphs())
        try:
            yield "CUB", pictures(load_xlsa17("CUB", features="efficientnet_lite0.mat"))
        except FileNotFoundError as error:
            print(f"without CUB: {error}")


def recalls(
    model: Any, X: Any, y: NDArray[Any], labels: NDArray[Any], candidates: NDArray[Any]
) -> NDArray[np.float64]:
    """The share of recognised samples of each label."""
    right = model.predict(X, classes=candidates) == y
    return np.array([right[y == label].mean() for label in labels])


def changes(data: Data, n_draws: int) -> pd.DataFrame:
    """Accuracy of each held-out class before and after its example."""
    X, y, described, norm = data
    rng, found = np.random.default_rng(0), []
    for train, test in ClassKFold(5, random_state=0).split(X, y):
        held_out, seen = np.unique(y[test]), np.unique(y[train])
        signatures = described.loc[[*seen, *held_out]]
        model = GaussianEXEM(feature_norm=norm).fit(X[train], y[train], signatures=signatures)
        candidates = {"held-out classes": held_out, "all classes": np.r_[seen, held_out]}
        for _ in range(n_draws):
            of_class = [rng.permutation(test[y[test] == label]) for label in held_out]
            first = np.array([rows[0] for rows in of_class])
            rest = np.concatenate([rows[1 : 1 + N_MEASURED] for rows in of_class])
            together = copy.deepcopy(model).add_examples(X[first], held_out)
            alone = [
                copy.deepcopy(model).add_examples(X[[row]], [label])
                for row, label in zip(first, held_out, strict=True)
            ]
            for among, classes in candidates.items():
                before = recalls(model, X[rest], y[rest], held_out, classes)
                after = {"all at once": recalls(together, X[rest], y[rest], held_out, classes)}
                after["alone"] = np.array(
                    [
                        recalls(one, X[rows], y[rows], np.array([label]), classes)[0]
                        for one, label in zip(alone, held_out, strict=True)
                        for rows in [rest[y[rest] == label]]
                    ]
                )
                found += [
                    {"examples": how, "among": among, "before": b, "after": a}
                    for how, values in after.items()
                    for b, a in zip(before, values, strict=True)
                ]
    return pd.DataFrame(found)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=5, help="examples of each class")
    parser.add_argument("--quick", action="store_true", help="one table, one draw")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    report = Report("one_example", "One labelled example of a held-out class")
    for name, data in data_sets(options.quick):
        table = changes(data, 1 if options.quick else options.draws)
        for (among, how), rows in table.groupby(["among", "examples"]):
            gain = rows["after"] - rows["before"]
            lost = -gain[gain < -HARM]
            report.add(
                data=name,
                among=among,
                examples=how,
                before=round(rows["before"].mean(), 3),
                after=round(rows["after"].mean(), 3),
                harmed=round(len(lost) / len(gain), 3),
                lost_if_harmed=round(lost.mean(), 3) if len(lost) else 0.0,
                helped=round((gain > HARM).mean(), 3),
            )
    print(report.save())


if __name__ == "__main__":
    main()
