"""Canonical names of methods, data sets and features, and how tables and plots show them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from zslearn._utils._messages import squeeze_name
from zslearn.experiments._published import load_published

#: Suffix of a method that learns its phantoms.
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
_DATASETS = {name.casefold(): name for name in ("AWA1", "AWA2", "CUB", "SUN", "ImageNet")}
_DATASETS["awa"] = "AWA1"
#: Version of the new splits behind the paper's numbers.
PUBLISHED_SPLIT_VERSION = "PS1"
#: Prefix of accuracies at the ranks of a taxonomy.
RANK_ACCURACY = "rank_accuracy_"
AT_K = {
    "flat_hit_at_": "F@",
    "per_class_hit_at_": "per class F@",
    "hierarchical_precision_at_": "HP@",
}


def canonical_method(name: str) -> str:
    """The name of a method in the published tables; unknown names stay as they are."""
    known = {squeeze_name(method): str(method) for method in load_published()["method"].unique()}
    return known.get(squeeze_name(name), name)


def canonical_dataset(name: str, *, own: bool = False) -> str:
    """The name of a data set in the published tables; unknown names stay as they are.

    With `own` it is the user's data, which is never the paper's whatever its name.
    """
    known = _DATASETS.get(name.casefold())
    if own and known is not None:
        return f"{name} (own)"
    return known or name


def canonical_features(name: str) -> str:
    """A form that is equal for the same features: res101.mat is ResNet-101."""
    squeezed = squeeze_name(name.removesuffix(".mat"))
    return {"res101": "resnet101", "googlenetv1": "googlenet"}.get(squeezed, squeezed)


def short_version(version: str) -> str:
    """PS1 or PS2 if a split version contains it, else the whole version."""
    found = re.search(r"(?<![A-Za-z0-9])PS\d+(?![A-Za-z0-9])", version)
    if found:
        return found[0]
    return "unknown" if not version or "unknown" in version else version


def is_drawn(version: str) -> bool:
    """Whether the unseen classes of a split version were drawn at random."""
    return "/random" in version


def is_published_split(split: str, version: str) -> bool:
    """Whether a split is known to be the one behind the paper's numbers."""
    if split.casefold() == "ns":
        return short_version(version) == PUBLISHED_SPLIT_VERSION
    return not is_drawn(version)


def same_features(first: str, second: str) -> bool:
    """Whether two names mean the same features."""
    return canonical_features(first) == canonical_features(second)


def metric_label(metric: str) -> str:
    """Name of a metric in tables."""
    for prefix, label in AT_K.items():
        if metric.startswith(prefix):
            return label + metric.removeprefix(prefix)
    if metric.startswith(RANK_ACCURACY):
        return f"{metric.removeprefix(RANK_ACCURACY)} right"
    return METRIC_LABELS.get(metric, metric)


#: Label of a measure, as a pattern → what it means in one line.
_MEANINGS = {
    "accuracy": "per-class accuracy among the unseen classes",
    "H": "harmonic mean of seen and unseen accuracy without calibration, of models tuned for "
    "accuracy or not tuned",
    "S cal\\.": "calibrated accuracy on seen classes, among all classes",
    "U cal\\.": "calibrated accuracy on unseen classes, among all classes",
    "H cal\\.": "harmonic mean of the two calibrated accuracies",
    "AUSUC": "area under the seen–unseen curve, over all calibration factors",
    "F@(\\d+)": "share of samples whose class is among the best {0} predictions",
    "per class F@(\\d+)": "mean over classes of the share among the best {0} predictions",
    "HP@(\\d+)": "share of the best {0} predictions that are near the class in the hierarchy",
    ".+ right": "share of samples with the correct taxon, among the unseen classes",
}


def measure_meaning(label: str) -> str:
    """The meaning of a measure in one line; empty if unknown."""
    for pattern, meaning in _MEANINGS.items():
        if found := re.fullmatch(pattern, metric_label(label)):
            return meaning.format(*found.groups())
    return ""


def explain_measures(labels: Iterable[str]) -> str:
    """Explain measures in one sentence.

    Parameters
    ----------
    labels : iterable of str
        Measures as in the columns of :func:`summarize_runs`, "F@5", or names as in records. Unknown
        ones are omitted.

    Returns
    -------
    str
        Each label with its meaning; empty if none is known.

    Examples
    --------
    >>> from zslearn.experiments import explain_measures
    >>> explain_measures(["F@5"])
    'F@5: share of samples whose class is among the best 5 predictions.'
    """
    parts = [f"{label}: {text}" for label in labels if (text := measure_meaning(label))]
    return f"{'; '.join(parts)}." if parts else ""


# Method styles: one colour per method in all plots, dashed for EXEM. The first seven colours, five
# of them by Okabe and Ito, can be distinguished with any colour vision, and all of them on white
# and on dark pages. Plots always name the method as well.

Line = Literal["solid", "dashed", "dotted"]

#: The methods in the paper's figures, then the others in the order of its tables.
_COLORS = {
    "ESZSL": "#0072b2",
    "ConSE": "#009e73",
    "SynC struct": "#d55e00",
    "SynC o-vs-o": "#e69f00",
    "SynC cs": "#cc79a7",
    "1NN": "#56b4e9",
    "1NNs": "#8b3d2f",
    "DAP": "#ae6bf3",
    "IAP": "#4b5a68",
    "HAT": "#79b778",
    "CMT": "#a3563b",
    "CMT*": "#7456e0",
    "DeViSE": "#6d6c80",
    "ALE": "#1949c5",
    "SJE": "#797ec7",
    "LatEm": "#df853d",
    "SSE": "#d790c5",
    "SAE": "#da6e5a",
    "GFZSL": "#3b7759",
    "BiDiLEL": "#8b90db",
    "CCA": "#664689",
    "COSTA": "#bda4a2",
    "Gaussian EXEM": "#822aac",
    "GDA": "#007a80",
    "Tip-Adapter": "#b5446e",
    "nearest mean": "#6a7179",
    "logistic regression": "#a07a2c",
}
#: Colours of unknown methods.
_FURTHER = ("#7e444f", "#808080", "#7b4fa3", "#5f8a00", "#00868b", "#b0486b")

#: Class names are drawn as the method of their default parameters.
_DEFAULTS = {"EXEM": "1NN", "SynC": "SynC o-vs-o"}

_BY_FORM = {squeeze_name(name): color for name, color in _COLORS.items()}
_BY_FORM |= {squeeze_name(name): _COLORS[method] for name, method in _DEFAULTS.items()}


@dataclass(frozen=True)
class MethodStyle:
    """Colour of a method, as ``"#rrggbb"``, and its line style.

    Lines are dashed for EXEM, as in the paper, and dotted for variants of a method such as
    ``"SAE (original)"``, which have its colour.
    """

    color: str
    line: Line

    @property
    def plot_options(self) -> dict[str, Any]:
        """Keyword arguments of matplotlib's `plot`."""
        return {"color": self.color, "linestyle": self.line}


def method_style(name: str) -> MethodStyle:
    """Colour and line style of a method in all plots."""
    found = re.fullmatch(r"\s*(.*?)\s*\((.*)\)\s*", name)
    outer, inner = (squeeze_name(found[1]), squeeze_name(found[2])) if found else ("", "")
    if outer == "exem":
        return MethodStyle(_BY_FORM.get(inner) or _own_color(inner), "dashed")
    whole = squeeze_name(name)
    if whole in _BY_FORM:
        return MethodStyle(_BY_FORM[whole], "dashed" if "exem" in whole else "solid")
    if outer in _BY_FORM:
        return MethodStyle(_BY_FORM[outer], "dotted")
    return MethodStyle(_own_color(whole), "dashed" if "exem" in whole else "solid")


def _own_color(form: str) -> str:
    """A colour derived from the name, so that it is the same everywhere."""
    return _FURTHER[zlib.crc32(form.encode("utf-8")) % len(_FURTHER)]
