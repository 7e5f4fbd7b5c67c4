"""The numbers of the paper's tables, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import pandas as pd

from zslearn.datasets import ZeroShotDataset


@dataclass(frozen=True)
class PublishedTable:
    """A table of the paper: its number, its label in the paper's source, and what it shows."""

    number: int
    label: str
    title: str


#: Name of a table → what it is, in the paper's order. Only the first holds no results.
TABLES: dict[str, PublishedTable] = {
    "datasets": PublishedTable(1, "tDatasets", "Data sets and their class splits"),
    "main": PublishedTable(2, "tbMain", "Main results"),
    "zsl": PublishedTable(3, "tbZSLMainSmall", "Conventional setting, small data sets"),
    "imagenet": PublishedTable(4, "tbZSLMainIMN", "Conventional setting, ImageNet"),
    "gzsl": PublishedTable(5, "tbGZSLMain", "Generalized setting, AUSUC"),
    "harmonic": PublishedTable(
        6, "tbGZSLHarmonic", "Generalized setting, harmonic mean without and with calibration"
    ),
    "semantic": PublishedTable(
        7, "tbZSLSemanticPCIMN", "Kinds of signatures on ImageNet, per-class accuracy"
    ),
    "imagenet_best": PublishedTable(
        8, "tbZSLSemanticPSIMN", "Best published results on ImageNet, per-sample accuracy"
    ),
    "ideal": PublishedTable(9, "tbZSLSemanticIdealIMN", "Ideal signatures on ImageNet"),
    "imagenet_fk": PublishedTable(10, "tbZSLExpandedIMN", "Flat hit@K and HP@K on ImageNet"),
    "hie": PublishedTable(11, "tbZslMainImnMds", "Flat hit@K on ImageNet with hierarchy vectors"),
    "per_sample": PublishedTable(
        12, "tbZSLSemanticPSFullIMN", "Kinds of signatures on ImageNet, per-sample accuracy"
    ),
    "regularization": PublishedTable(
        13, "tSynCRegularization", "SynC: penalty on classifiers or on phantom classifiers"
    ),
    "learned_phantoms": PublishedTable(
        14, "tSynCLearnSpace", "SynC: phantom classes as given or learned"
    ),
    "correlation": PublishedTable(
        15, "tbExemCorrDis", "Correlation of class distances with those of real exemplars"
    ),
    "knn_overlap": PublishedTable(
        16, "tbExemKNN", "Overlap of nearest classes with those of real exemplars"
    ),
    "regressor": PublishedTable(17, "tExemSVRvsMLP", "EXEM (1NN): regressors"),
    "pca": PublishedTable(18, "tbExemPCA", "EXEM (1NN): PCA dimensions"),
}

#: What names one result of a table.
KEYS = (
    "method",
    "dataset",
    "split",
    "subset",
    "setting",
    "metric",
    "features",
    "semantic",
    "variant",
)


@cache
def _read() -> pd.DataFrame:
    source = resources.files("zslearn.experiments").joinpath("published.csv")
    with source.open(encoding="utf-8") as file:
        data = pd.read_csv(file, dtype=str, keep_default_na=False)
    data["decimals"] = data["value"].str.partition(".")[2].str.len().astype(int)
    data["value"] = data["value"].astype(float)
    data["spread"] = pd.to_numeric(data["spread"], errors="coerce")
    return data.rename(columns={"spread": "deviation"})


def load_published(table: str | None = None) -> pd.DataFrame:
    """Load the numbers that the paper prints, one result per row.

    Parameters
    ----------
    table : str, optional
        Name of a table, such as "main"; by default all of them.

    Returns
    -------
    DataFrame
        Rows in the paper's order; empty cells of a table have none. Columns:

        - `table`, `method`: the table and its row;
        - `dataset`: ``"AWA1"`` (AwA in the paper), ``"AWA2"``, ``"CUB"``, ``"SUN"`` or
          ``"ImageNet"``; `split`: ``"ns"`` (version PS1), ``"ss"`` or ``"ss0"``; `subset`: part of
          ImageNet's unseen classes: ``"2-hop"``, ``"most-500"``, …, ``"all"``;
        - `setting`: ``"zsl"`` or ``"gzsl"``; `metric`: ``"per_class_accuracy"``, ``"ausuc"``, …;
          in "datasets" ``"n_images"``, ``"n_splits"``, ``"n_seen"`` and ``"n_unseen"``;
        - `features` and `semantic`: kinds of features and signatures, such as ``"ResNet-101"`` and
          ``"wv-v2 + hie"``; `variant`: further conditions, as ``name=value`` joined by ``;``;
        - `value`: the number as printed, with its `decimals`, `deviation` (after ±) and `unit`
          (``"%"`` or ``"1"``);
        - `reported_by`: ``"paper"``, or the paper's citation key, such as ``"XianLSA17"``;
        - `mark`: ``"best"``, ``"second"``, ``"third"`` as the paper marks it; `note`: a condition
          of this number alone.

    Examples
    --------
    >>> from zslearn.experiments import load_published
    >>> cub = load_published("main").query("dataset == 'CUB' and setting == 'zsl'")
    >>> cub.nlargest(3, "value")[["method", "value", "reported_by"]]
                     method  value reported_by
    ... EXEM (SynC struct)   60.5       paper
    ...        EXEM (1NNs)   58.0       paper
    ...       EXEM (ESZSL)   56.9       paper
    """
    data = _read()
    if table is None:
        return data.copy()
    if table not in TABLES:
        raise ValueError(f"The paper has no table {table!r}. It has: {', '.join(TABLES)}.")
    return data[data["table"] == table].reset_index(drop=True)


def dataset_table(data: ZeroShotDataset | None = None) -> pd.DataFrame:
    """Table 1 of the paper, and below it the splits of a data set.

    Parameters
    ----------
    data : ZeroShotDataset, optional
        The data set.

    Returns
    -------
    DataFrame
        One row per data set and split: numbers of images, splits, seen and unseen classes.
    """
    names = {"n_images": "images", "n_splits": "splits", "n_seen": "seen", "n_unseen": "unseen"}
    paper = load_published("datasets").astype({"value": int})
    rows = {
        f"{dataset} {split}": part.set_index("metric")["value"].rename(names).to_dict()
        for (dataset, split), part in paper.groupby(["dataset", "split"], sort=False)
    }
    if data is not None:
        for name, split in data.splits.items():
            counts = len(data.y), 1, len(split.seen_classes), len(split.unseen_classes)
            rows[f"{data.name} {name}, here"] = dict(zip(names.values(), counts, strict=True))
    return pd.DataFrame.from_dict(rows, orient="index")
