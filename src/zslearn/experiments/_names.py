"""Names that mean the same, and how tables write them."""

from __future__ import annotations

import re

from zslearn.experiments._published import load_published

#: What the name of a method that learns its phantoms ends with.
LEARNED = " (learned phantoms)"
DATASET_LABELS = {"AWA1": "AwA", "AWA2": "AwA2"}
FEATURE_LABELS = {"GoogLeNet": "G", "ResNet-101": "R"}
METRIC_LABELS = {
    "per_class_accuracy": "accuracy",
    "per_sample_accuracy": "per-sample",
    "ausuc": "AUSUC",
    "unseen": "U",
    "seen": "S",
    "harmonic": "H",
    "calibrated_unseen": "U cal.",
    "calibrated_seen": "S cal.",
    "calibrated_harmonic": "H cal.",
}
_DATASETS = {
    "awa": "AWA1",
    "awa1": "AWA1",
    "awa2": "AWA2",
    "cub": "CUB",
    "sun": "SUN",
    "imagenet": "ImageNet",
}
AT_K = {"flat_hit_at_": "F@", "hierarchical_precision_at_": "HP@"}


def _squeeze(name: str) -> str:
    # CMT* is not CMT.
    plain = name.casefold().replace("o-vs-o", "ovo").replace("*", "star")
    return re.sub(r"[^a-z0-9]", "", plain)


def canonical_method(name: str) -> str:
    """Give a method the name it has in the published tables; unknown names stay as they are.

    Parameters
    ----------
    name : str
        A name; capitals, spaces and brackets do not matter.

    Returns
    -------
    str
        The paper's name.

    Examples
    --------
    >>> from zslearn.experiments._names import canonical_method
    >>> canonical_method("EXEM (SynC ovo)"), canonical_method("mine")
    ('EXEM (SynC o-vs-o)', 'mine')
    """
    known = {_squeeze(method): str(method) for method in load_published()["method"].unique()}
    return known.get(_squeeze(name), name)


def canonical_dataset(name: str, *, own: bool = False) -> str:
    """Give a data set the name it has in the published tables; unknown names stay as they are.

    With `own` it is a person's own data, which cannot be the paper's whatever it is called.
    """
    known = _DATASETS.get(name.casefold())
    if own and known is not None:
        return f"{name} (own)"
    return known or name


def canonical_features(name: str) -> str:
    """A form that compares equal for the same features: res101.mat is ResNet-101."""
    squeezed = _squeeze(name.removesuffix(".mat"))
    return {"res101": "resnet101", "googlenetv1": "googlenet"}.get(squeezed, squeezed)


def short_version(version: str) -> str:
    """PS1 or PS2 where a split version says so, else all of it."""
    found = re.search(r"(?<![A-Za-z0-9])PS\d+(?![A-Za-z0-9])", version)
    if found:
        return found[0]
    return "unknown" if not version or "unknown" in version else version


def is_drawn(version: str) -> bool:
    """Whether a split version says that the unseen classes were drawn at random."""
    return "/random" in version


def same_features(first: str, second: str) -> bool:
    """Whether two names mean the same features."""
    return canonical_features(first) == canonical_features(second)


def metric_label(metric: str) -> str:
    """How tables write a metric."""
    for prefix, label in AT_K.items():
        if metric.startswith(prefix):
            return label + metric.removeprefix(prefix)
    return METRIC_LABELS.get(metric, metric)


def is_fraction(metric: str) -> bool:
    """Whether a metric of this name lies between 0 and 1."""
    return metric in METRIC_LABELS or metric.startswith(tuple(AT_K))
