"""Names that mean the same, and how tables write them."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any, Literal

from zslearn._utils._messages import squeeze_name
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
#: The version of the new splits that the paper's numbers are for.
PUBLISHED_SPLIT_VERSION = "PS1"
#: What metrics of the ranks of a taxonomy begin with.
RANK_ACCURACY = "rank_accuracy_"
AT_K = {
    "flat_hit_at_": "F@",
    "per_class_hit_at_": "per class F@",
    "hierarchical_precision_at_": "HP@",
}


def canonical_method(name: str) -> str:
    """Give a method the name it has in the published tables; unknown names stay as they are."""
    known = {squeeze_name(method): str(method) for method in load_published()["method"].unique()}
    return known.get(squeeze_name(name), name)


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
    squeezed = squeeze_name(name.removesuffix(".mat"))
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


def is_published_split(split: str, version: str) -> bool:
    """Whether a split is known to be the one that the paper's numbers are for."""
    if split.casefold() == "ns":
        return short_version(version) == PUBLISHED_SPLIT_VERSION
    return not is_drawn(version)


def same_features(first: str, second: str) -> bool:
    """Whether two names mean the same features."""
    return canonical_features(first) == canonical_features(second)


def metric_label(metric: str) -> str:
    """How tables write a metric."""
    for prefix, label in AT_K.items():
        if metric.startswith(prefix):
            return label + metric.removeprefix(prefix)
    if metric.startswith(RANK_ACCURACY):
        return f"{metric.removeprefix(RANK_ACCURACY)} right"
    return METRIC_LABELS.get(metric, metric)


def is_fraction(metric: str) -> bool:
    """Whether a metric of this name lies between 0 and 1."""
    return metric in METRIC_LABELS or metric.startswith((RANK_ACCURACY, *AT_K))


# How pictures draw a method: one colour for it everywhere, dashed where it is an EXEM. The first
# seven can be distinguished with any colour vision (five of them are of Okabe and Ito). None
# is lost on white or on a dark page. Beside the colour a picture always names the method.

Line = Literal["solid", "dashed", "dotted"]

#: What the paper draws, then the rest in the order of its tables.
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
#: For methods of other names.
_FURTHER = ("#7e444f", "#808080", "#7b4fa3", "#5f8a00", "#00868b", "#b0486b")

#: Classes under their own names are drawn as what they are by default.
_DEFAULTS = {"EXEM": "1NN", "SynC": "SynC o-vs-o"}

_BY_FORM = {squeeze_name(name): color for name, color in _COLORS.items()}
_BY_FORM |= {squeeze_name(name): _COLORS[method] for name, method in _DEFAULTS.items()}


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn: its colour, as ``"#rrggbb"``, and its line.

    Lines are dashed for methods that involve EXEM, as in the paper, and dotted for a method in
    another form, such as ``"SAE (original)"``, which has the colour of the method.
    """

    color: str
    line: Line

    @property
    def plot_options(self) -> dict[str, Any]:
        """The same as options of matplotlib's `plot`."""
        return {"color": self.color, "linestyle": self.line}


def method_style(name: str) -> MethodStyle:
    """Say in which colour and line every picture draws a method."""
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
    """A colour that follows from the name: the same in every picture and on every machine."""
    return _FURTHER[zlib.crc32(form.encode("utf-8")) % len(_FURTHER)]
