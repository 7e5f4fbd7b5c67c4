"""The numbers of the paper's tables, and of later methods."""

from __future__ import annotations

from functools import cache
from importlib import resources

import pandas as pd

from zslearn.datasets import ZeroShotDataset

#: Name of a table → its title, in the paper's order. The first one holds no results.
TABLES: dict[str, str] = {
    "datasets": "Data sets and their class splits",
    "main": "Main results",
    "zsl": "Conventional setting, small data sets",
    "imagenet": "Conventional setting, ImageNet",
    "gzsl": "Generalized setting, AUSUC",
    "harmonic": "Generalized setting, harmonic mean without and with calibration",
    "semantic": "Kinds of signatures on ImageNet, per-class accuracy",
    "imagenet_best": "Best published results on ImageNet, per-sample accuracy",
    "ideal": "Ideal signatures on ImageNet",
    "imagenet_fk": "Flat hit@K and HP@K on ImageNet",
    "hie": "Flat hit@K on ImageNet with hierarchy vectors",
    "per_sample": "Kinds of signatures on ImageNet, per-sample accuracy",
    "regularization": "SynC: penalty on classifiers or on phantom classifiers",
    "learned_phantoms": "SynC: phantom classes as given or learned",
    "correlation": "Correlation of class distances with those of real exemplars",
    "knn_overlap": "Overlap of nearest classes with those of real exemplars",
    "regressor": "EXEM (1NN): regressors",
    "pca": "EXEM (1NN): PCA dimensions",
}

#: Columns that identify a result of a table.
KEYS: tuple[str, ...] = ("method", "dataset", "split", "subset", "setting", "metric")
KEYS += ("features", "semantic", "variant")


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
    """Load the numbers printed in the paper, one result per row.

    Parameters
    ----------
    table : str, optional
        Name of a table, such as "main"; by default all of them.

    Returns
    -------
    DataFrame
        Rows in the paper's order, without the empty cells of the tables. Columns:

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
        - `mark`: ``"best"``, ``"second"`` or ``"third"`` as marked in the paper; `note`: a
          condition of this number alone.

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
        raise ValueError(f"The paper has no table {table!r}; choose from {', '.join(TABLES)}.")
    return data[data["table"] == table].reset_index(drop=True)


def load_literature() -> pd.DataFrame:
    """Load results of methods published since 2020, as their repositories print them.

    Unlike the paper's, these results differ in features, and in what a method needs besides them.

    Returns
    -------
    DataFrame
        One row per method and kind of features or signatures, oldest first. Columns:

        - `method`, `year`, `dataset`, and `split` (``"ns"``, of unstated version);
        - `features` and `semantic`: kinds of features and signatures, empty if not stated;
        - `needs`: ``"fixed features"``, one vector of a pretrained network per image;
          ``"fine-tuned"``, features of a network trained further on the seen classes;
          ``"patches"``, features of the regions of an image; ``"CLIP"``, image and text encoders
          trained together; or ``"transductive with known prior"``, unlabelled test images and the
          share of each class among them;
        - `accuracy`: per class among the unseen classes, in %; `unseen`, `seen` and `harmonic`: in
          the generalized setting, in %; NaN where not printed;
        - `source`: GitHub repository and file. The last version of ZLAP's exchanges the headings of
          `unseen` and `seen`; these numbers follow earlier ones.

    Examples
    --------
    >>> from zslearn.experiments import load_literature
    >>> found = load_literature().query("needs == 'fixed features' and semantic == 'sentences'")
    >>> found[["method", "accuracy", "harmonic"]]
       method  accuracy  harmonic
    4  SDGZSL      75.5      63.0
    6    ZLAP       NaN      68.7
    """
    source = resources.files("zslearn.experiments").joinpath("literature.csv")
    with source.open(encoding="utf-8") as file:
        return pd.read_csv(file).fillna({"features": "", "semantic": ""})


def dataset_table(data: ZeroShotDataset | None = None) -> pd.DataFrame:
    """Table 1 of the paper, followed by the splits of a data set.

    Parameters
    ----------
    data : ZeroShotDataset, optional
        The data set to append.

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
