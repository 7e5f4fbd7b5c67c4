"""Tables as people have them: clean ones of four kinds, and what may be wrong with each.

A class is described by attributes, which determine the mean of the measurements of its samples.
Each mess takes clean tables and returns messy ones; the new samples have the same mess.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

#: Kind → number of attributes, number of measurements, and their noise.
KINDS = {
    "numbers": (12, 32, 0.8),
    "mixed": (12, 20, 0.7),
    "few features": (5, 6, 0.25),
    "many features": (16, 120, 1.5),
}
PER_CLASS, PER_NEW_CLASS = 12, 10


@dataclass(frozen=True)
class Tables:
    """Training samples, new samples of all classes, and the class table."""

    samples: pd.DataFrame
    new: pd.DataFrame
    classes: pd.DataFrame
    unseen: list[str]
    #: Arguments of `to_csv`, and the ending of the files.
    csv: dict[str, Any] = field(default_factory=dict)
    ending: str = ".csv"

    def with_columns(self, make: Callable[[int], dict[str, Any]]) -> Tables:
        """Add columns to both tables of samples; `make` takes the number of rows."""
        added = [t.assign(**make(len(t))) for t in (self.samples, self.new)]
        return replace(self, samples=added[0], new=added[1])

    def write(self, folder: Path) -> tuple[Path, Path, Path]:
        """Write the three files."""
        paths = []
        for name, table in zip(
            ("samples", "new", "classes"), (self.samples, self.new, self.classes), strict=True
        ):
            path = folder / f"{name}{self.ending}"
            if self.ending == ".xlsx":
                table.to_excel(path, index=False)
            elif self.ending == ".parquet":
                table.to_parquet(path, index=False)
            else:
                table.to_csv(path, index=False, **self.csv)
            paths.append(path)
        return paths[0], paths[1], paths[2]


def clean(kind: str, seed: int, n_seen: int = 24, n_unseen: int = 8) -> Tables:
    """Make clean tables of a kind."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    n_attributes, n_measured, noise = KINDS[kind]
    n_classes = n_seen + n_unseen
    attributes = rng.normal(size=(n_classes, n_attributes))
    attributes[:, :4] = attributes[:, :4] > 0
    means = attributes @ rng.normal(size=(n_attributes, n_measured)) / np.sqrt(n_attributes)
    means += 0.3 * rng.normal(size=means.shape)
    labels = np.array([f"Mineral {number:02d}" for number in range(n_classes)])

    def rows(codes: np.ndarray) -> pd.DataFrame:
        values = means[codes] + noise * rng.normal(size=(len(codes), n_measured))
        table = pd.DataFrame(values.round(4)).add_prefix("sensor_")
        if kind == "mixed":
            felt = means[codes, :5] + 0.3 * rng.normal(size=(len(codes), 5))
            for place in range(3):
                words = np.array(["red", "green", "blue", "white"])
                table[f"colour_{place}"] = words[np.digitize(felt[:, place], [-0.7, 0, 0.7])]
            for place in (3, 4):
                table[f"magnetic_{place}"] = np.where(felt[:, place] > 0, "yes", "no")
        table.insert(0, "mineral", labels[codes])
        return table.sample(frac=1, random_state=seed).reset_index(drop=True)

    classes = pd.DataFrame(attributes.round(4)).add_prefix("attribute_")
    if kind == "mixed":
        words = np.array(["cubic", "trigonal", "hexagonal"])
        classes["system"] = words[np.digitize(attributes[:, 5], [-0.5, 0.5])]
    classes.insert(0, "mineral", labels)
    return Tables(
        rows(np.repeat(np.arange(n_seen), PER_CLASS)),
        rows(np.repeat(np.arange(n_classes), PER_NEW_CLASS)),
        classes,
        labels[n_seen:].tolist(),
    )


def _sensors(table: pd.DataFrame) -> list[str]:
    return [name for name in table if name.startswith("sensor_")]


def _units(tables: Tables, rng: np.random.Generator) -> Tables:
    names = _sensors(tables.samples)
    factors = 10.0 ** rng.uniform(-3, 4, len(names))
    offsets = factors * rng.normal(scale=5, size=len(names))
    changed = [t.assign(**(t[names] * factors + offsets)) for t in (tables.samples, tables.new)]
    return replace(tables, samples=changed[0], new=changed[1])


def _missing(tables: Tables, rng: np.random.Generator) -> Tables:
    names = _sensors(tables.samples)

    def empty(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(**table[names].mask(rng.random((len(table), len(names))) < 0.03))

    return replace(tables, samples=empty(tables.samples), new=empty(tables.new))


def _dates(tables: Tables, rng: np.random.Generator) -> Tables:
    def days(n: int) -> dict[str, Any]:
        dates = pd.Series(
            pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
        )
        return {
            "measured": dates.dt.strftime("%Y%m%d").astype(int),
            "entered": dates.dt.strftime("%Y-%m-%d"),
            "checked_on": dates.dt.strftime("%d.%m.%Y"),
        }

    return tables.with_columns(days)


def _categories(tables: Tables, rng: np.random.Generator) -> Tables:
    common, rare = ["Anna", "Ben", "Chris"], [f"guest {i}" for i in range(9)]
    return tables.with_columns(
        lambda n: {
            "operator": np.where(rng.random(n) < 0.9, rng.choice(common, n), rng.choice(rare, n)),
            "approved": rng.choice(["yes", "no"], n),
            "wet": rng.choice(["True", "False"], n),
        }
    )


def _identifiers(tables: Tables, rng: np.random.Generator) -> Tables:
    return tables.with_columns(
        lambda n: {
            "sample_id": rng.permutation(n) + 1000,
            "file": [f"scan-{number:05d}.png" for number in rng.permutation(n)],
            "Unnamed: 0": np.arange(n),
        }
    )


def _spelling(tables: Tables, rng: np.random.Generator) -> Tables:
    ways: list[Callable[[str], str]] = [str, str.upper, str.lower, lambda word: f" {word}  "]

    def spelled(table: pd.DataFrame) -> pd.DataFrame:
        chosen = rng.integers(0, len(ways), len(table))
        labels = [ways[way](word) for way, word in zip(chosen, table["mineral"], strict=True)]
        return table.assign(mineral=labels)

    return replace(tables, samples=spelled(tables.samples), new=spelled(tables.new))


def _classes(tables: Tables, rng: np.random.Generator) -> Tables:
    classes = tables.classes.assign(
        latin=[f"species {i}" for i in range(len(tables.classes))],
        planet="Earth",
        found=rng.choice(["mine", "river", "cave"], len(tables.classes)),
        pressure=101_325.0,
    )
    return replace(tables, classes=classes)


def _unknown_attributes(tables: Tables, rng: np.random.Generator) -> Tables:
    classes = tables.classes.copy()
    classes.loc[rng.choice(len(classes), 2, replace=False), "attribute_4"] = np.nan
    return replace(tables, classes=classes)


def _all(tables: Tables, rng: np.random.Generator) -> Tables:
    messes = (_units, _missing, _dates, _categories, _identifiers, _spelling, _classes)
    for mess in (*messes, _unknown_attributes):
        tables = mess(tables, rng)
    return replace(
        MESSES["constants"](tables, rng), csv={"sep": ";", "decimal": ",", "encoding": "utf-8-sig"}
    )


#: Mess → what it does to tables.
MESSES: dict[str, Callable[[Tables, np.random.Generator], Tables]] = {
    "clean": lambda tables, rng: tables,
    "units": _units,
    "3 % missing": _missing,
    "empty columns": lambda tables, rng: tables.with_columns(
        lambda n: {"broken": np.nan, "notes": ["" for _ in range(n)], "void": ["n/a"] * n}
    ),
    "constants": lambda tables, rng: tables.with_columns(
        lambda n: {"pressure_Pa": 101_325, "laboratory": "Basel"}
    ),
    "dates": _dates,
    "categories, yes/no": _categories,
    "identifiers": _identifiers,
    "semicolons": lambda tables, rng: replace(tables, csv={"sep": ";"}),
    "decimal commas": lambda tables, rng: replace(tables, csv={"sep": ";", "decimal": ","}),
    "tabs, BOM": lambda tables, rng: replace(
        tables, csv={"sep": "\t", "encoding": "utf-8-sig"}, ending=".tsv"
    ),
    "cp1252": lambda tables, rng: replace(
        tables.with_columns(lambda n: {"Straße": "Zürich"}), csv={"encoding": "cp1252"}
    ),
    "Parquet": lambda tables, rng: replace(tables, ending=".parquet"),
    "spelling of labels": _spelling,
    "class table": _classes,
    "unknown attributes of 2 classes": _unknown_attributes,
    "all": _all,
}


def accuracies(tables: Tables, **options: Any) -> dict[str, float]:
    """Fit as `zslearn fit` does, and evaluate the model file on the new samples."""
    from zslearn import images
    from zslearn.persistence import read_model

    with tempfile.TemporaryDirectory() as folder:
        samples, new, classes = tables.write(Path(folder))
        described = images.read_class_table(classes)
        index = described.signatures.index
        rows = images.read_samples(samples, label="mineral", described=index)
        model = images.fit_samples(rows, described.signatures, **options)
        path = Path(folder, "model.zsl")
        images.save_fitted(model, path, rows, description=described, method="fitted")
        file = read_model(path)
        test = images.features_for_model(new, file.about, described=file.model.classes_.tolist())
    X, y = test.X, np.asarray(test.y)
    is_unseen = np.isin(y, tables.unseen)
    score = file.model.score
    seen = file.model.seen_classes_
    return {
        "seen": score(X[~is_unseen], y[~is_unseen], classes=seen),
        "unseen": score(X[is_unseen], y[is_unseen], classes=tables.unseen),
        "seen, among all": score(X[~is_unseen], y[~is_unseen]),
        "unseen, among all": score(X[is_unseen], y[is_unseen]),
    }
