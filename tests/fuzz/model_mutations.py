"""Model files whose parts do not hold together, and calls of everything that a model offers.

Each mutation changes one part of a sound file, and the digest is right. A mutated file is to be
refused by :func:`zslearn.load`; a model that is loaded is to work in every public method, or to
raise a ValueError whose message zslearn wrote.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.preprocessing import QuantileTransformer, StandardScaler

import zslearn
from estimators import instances
from fuzz.model_file_corpus import Parts, places, put_together, take_apart
from zslearn._utils._reading import FileLimitError
from zslearn.baselines import ESZSL, GFZSL, HAT, CMTStar
from zslearn.calibration import (
    CalibratedStacking,
    NoneOfThese,
    PredictionSets,
    RankPredictor,
)
from zslearn.datasets import make_zero_shot
from zslearn.inspection import explain
from zslearn.model_selection import TableClassifier, ZeroShotPipeline, ZeroShotSearchCV
from zslearn.signatures import MultiSignatures, cluster_hierarchy, taxonomy_signatures
from zslearn.synthesis import EXEM, GaussianEXEM, SynC

# No two of these numbers are equal, so that a wrong axis shows.
DATA = make_zero_shot(
    n_seen=11, n_unseen=4, n_features=17, n_attributes=6, samples_per_class=5, random_state=1
)
ROWS, LABELS = DATA.X_test_unseen[:5], DATA.y_test_unseen[:5]
NEW = pd.DataFrame([DATA.signatures.mean()], index=["class new"])


def _with_examples() -> Any:
    # One image alone of two of the seen classes.
    rare = np.isin(DATA.y_train, DATA.seen_classes[:2]) & (np.arange(len(DATA.y_train)) % 4 > 0)
    X, y = DATA.X_train[~rare], DATA.y_train[~rare]
    model = GaussianEXEM().fit(X, y, signatures=DATA.signatures)
    model.add_examples(ROWS[:2], LABELS[:2])
    return model.add_examples(ROWS[2:3], ["class unknown"])


def _views() -> MultiSignatures:
    table = DATA.signatures
    return MultiSignatures({"a": table.iloc[:, :2], "b": table.iloc[:, 2:]})


def _categories() -> Any:
    """Ranks that so many unseen classes have in common that they share rows of parameters."""
    labels = [*DATA.signatures.index, *(f"class of a rank {i}" for i in range(20))]
    ranks = {"order": np.arange(len(labels)) % 2, "family": np.arange(len(labels)) % 4}
    table = pd.DataFrame({name: [f"{name} {i}" for i in rank] for name, rank in ranks.items()})
    return taxonomy_signatures(table.set_axis(labels), categorical=True)


def _fitted(model: Any, signatures: Any = None) -> Any:
    signatures = DATA.signatures if signatures is None else signatures
    return model.fit(DATA.X_train, DATA.y_train, signatures=signatures)


def _of_table() -> Any:
    # Numbers alone, since the calls of everything pass arrays.
    table = pd.DataFrame(DATA.X_train).add_prefix("column ")
    table.iloc[::7, 2] = np.nan
    return TableClassifier(ESZSL()).fit(table, DATA.y_train, signatures=DATA.signatures)


#: Fitted models by name: wrappers and states that a method has after other calls than `fit`.
SPECIAL: dict[str, Callable[[], Any]] = {
    "GaussianEXEM with examples": _with_examples,
    "GaussianEXEM adapted": lambda: _fitted(GaussianEXEM()).adapt(ROWS, accept=True),
    "GaussianEXEM adapted with examples": lambda: _with_examples().adapt(ROWS, accept=True),
    "GaussianEXEM of views": lambda: _fitted(GaussianEXEM(gamma="learned"), _views()),
    "GaussianEXEM partial": lambda: GaussianEXEM(temperature=1.0).partial_fit(
        DATA.X_train, DATA.y_train, signatures=DATA.signatures
    ),
    "EXEM partial": lambda: EXEM(n_components=4).partial_fit(
        DATA.X_train, DATA.y_train, signatures=DATA.signatures
    ),
    "EXEM of views": lambda: _fitted(EXEM(n_components=4), _views()),
    "CalibratedStacking of GaussianEXEM": lambda: _fitted(CalibratedStacking(GaussianEXEM(), cv=2)),
    "PredictionSets of GaussianEXEM": lambda: _fitted(
        PredictionSets(GaussianEXEM(), cv=3, coverage=0.7)
    ),
    "ESZSL of categories": lambda: _fitted(ESZSL(), _categories()),
    "RankPredictor of a hierarchy": lambda: _fitted(
        RankPredictor(ESZSL(), cluster_hierarchy(DATA.signatures), cv=3)
    ),
    "NoneOfThese of CalibratedStacking": lambda: _fitted(
        NoneOfThese(CalibratedStacking(ESZSL(), bias=0.1, temperature=1.0), cv=3)
    ),
    "search of a pipeline": lambda: _fitted(
        ZeroShotSearchCV(
            ZeroShotPipeline([("scale", StandardScaler()), ("method", ESZSL())]),
            {"method__alpha_features": [1.0, 10.0]},
            cv=2,
        )
    ),
    "pipeline": lambda: _fitted(
        ZeroShotPipeline(
            [
                ("scale", StandardScaler()),
                ("quantile", QuantileTransformer(n_quantiles=5)),
                ("pca", PCA(5)),
                ("method", GaussianEXEM()),
            ]
        )
    ),
    "table": _of_table,
    "GFZSL adapted": lambda: _fitted(GFZSL()).adapt(ROWS),
    "HAT of a hierarchy": lambda: _fitted(HAT(hierarchy=cluster_hierarchy(DATA.signatures))),
    "SynC of views": lambda: _fitted(SynC(n_phantoms=7, learn_phantoms=True), _views()),
    "CMTStar": lambda: _fitted(CMTStar(max_iter=5)),
}


def recipes() -> dict[str, Callable[[], Any]]:
    """Every estimator of the library under every setting of the common checks, and `SPECIAL`."""
    found: dict[str, Callable[[], Any]] = {}
    for param in instances():
        if not any(mark.name == "skip" for mark in param.marks):
            found[str(param.id)] = lambda model=param.values[0]: _fitted(clone(model))
    return found | SPECIAL


def file_of(recipe: Callable[[], Any], folder: Path) -> Parts:
    """A sound file of a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zslearn.save(recipe(), folder / "sound.zsl")
    return take_apart((folder / "sound.zsl").read_bytes())


# Mutations of one array; None where it does not apply.

_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "a row less": lambda a: a[:-1] if a.ndim else None,
    "a row more": lambda a: np.concatenate([a, a[-1:]]) if a.ndim and len(a) else None,
    "no rows": lambda a: a[:0] if a.ndim else None,
    "a column less": lambda a: a[..., :-1] if a.ndim > 1 else None,
    "a column more": lambda a: np.concatenate([a, a[..., -1:]], -1) if a.ndim > 1 else None,
    "transposed": lambda a: a.T if a.ndim > 1 else None,
    "another axis": lambda a: a[..., None],
    "an axis before": lambda a: a[None],
    "flat": lambda a: a.ravel() if a.ndim != 1 else None,
    "one number": lambda a: a.reshape(-1)[:1].reshape(()) if a.size else None,
    "single precision": lambda a: a.astype("<f4") if a.dtype == np.float64 else None,
    "whole numbers": lambda a: np.nan_to_num(a).astype("<i8") if a.dtype.kind in "fb" else None,
    "booleans": lambda a: a.astype(bool) if a.dtype.kind in "fiu" else None,
    "floats": lambda a: a.astype("<f8") if a.dtype.kind in "iub" else None,
    "the other sign": lambda a: -a if a.dtype.kind in "fi" else None,
    "zeros": np.zeros_like,
    "the other order": lambda a: a[::-1] if a.ndim else None,
    "one NaN": lambda a: _with_number(a, np.nan),
    "one infinity": lambda a: _with_number(a, np.inf),
    "one huge number": lambda a: _with_number(a, 1e300),
    "one huge index": lambda a: _with_number(a, 2**31 - 1),
    "a negative index": lambda a: _with_number(a, -1),
}


def _with_number(array: Any, number: float) -> Any:
    if not array.size or array.dtype.kind not in ("f" if isinstance(number, float) else "fi"):
        return None
    changed = array.copy()
    changed.reshape(-1)[changed.size // 2] = number
    return changed


# Mutations of one value of the description.

_VALUES: list[Any] = [
    None, True, -1, 0, 10**9, -2.5, 1e300, "", "seen", {"float": "nan"}, {"float": "-inf"}, [],
    {"tuple": []}, {"dict": []}, {"same": 0},
]  # fmt: skip


def mutations(parts: Parts) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Names of all mutations of a file, and what makes each file."""
    for name in parts.table:
        for what in _ARRAYS:
            yield f"{name}: {what}", lambda n=name, w=what: _array_changed(parts, n, w)
    for name, other in itertools.combinations(parts.table, 2):
        if parts.table[name]["dtype"] == parts.table[other]["dtype"]:
            yield f"{name} and {other} swapped", lambda n=name, o=other: _swapped(parts, n, o)
    for where in places(parts.content["model"]):
        way = ".".join(map(str, where))
        for value in _VALUES:
            yield f"{way}: {value!r}", lambda w=where, v=value: _value_changed(parts, w, v)
        yield f"{way}: left out", lambda w=where: _value_changed(parts, w, _LEFT_OUT)
        yield f"{way}: twice", lambda w=where: _value_changed(parts, w, _TWICE)
        yield f"{way}: the other sign", lambda w=where: _value_changed(parts, w, _NEGATED)


_LEFT_OUT, _TWICE, _NEGATED = object(), object(), object()


def _array_changed(parts: Parts, name: str, what: str) -> bytes | None:
    array = _ARRAYS[what](parts.array(name))
    return None if array is None else put_together(parts.with_array(name, array))


def _swapped(parts: Parts, name: str, other: str) -> bytes:
    first, second = parts.array(name), parts.array(other)
    return put_together(parts.with_array(name, second).with_array(other, first))


def _value_changed(parts: Parts, where: tuple[Any, ...], value: Any) -> bytes | None:
    content = copy.deepcopy(parts.content)
    parent = content["model"]
    for key in where[:-1]:
        parent = parent[key]
    old = parent[where[-1]]
    if value is _LEFT_OUT:
        del parent[where[-1]]
    elif value is _TWICE:
        if not isinstance(parent, list):
            return None
        parent.append(copy.deepcopy(old))
    elif value is _NEGATED:
        if isinstance(old, bool) or not isinstance(old, (int, float)):
            return None
        parent[where[-1]] = -old
    else:
        parent[where[-1]] = copy.deepcopy(value)
    return put_together(Parts(content, parts.table, parts.data))


# Calls.


def _calls(model: Any) -> dict[str, Callable[[], Any]]:
    """Every public call of a model by name; each begins with the model as it was loaded."""
    labels = model.classes_
    unseen = model.unseen_classes_
    again = lambda: copy.deepcopy(model)  # noqa: E731
    calls = {
        "predict": lambda: model.predict(ROWS),
        "predict of some": lambda: model.predict(ROWS, classes=labels[1:4]),
        "decision_function": lambda: model.decision_function(ROWS),
        "predict_top_k": lambda: model.predict_top_k(ROWS, k=2),
        "score": lambda: model.score(ROWS, labels[[1, 2, 1, 2, 1]]),
        "add_classes": lambda: again().add_classes(NEW).predict(ROWS),
        "explain": lambda: explain(model, ROWS[:1]),
        "repr": lambda: repr(model),
        "clone": lambda: clone(model),
    }
    if len(unseen):
        calls["remove_classes"] = lambda: again().remove_classes(unseen[:1]).predict(ROWS)
    if hasattr(model, "predict_proba"):
        calls["predict_proba"] = lambda: model.predict_proba(ROWS)
        calls["prior"] = lambda: model.predict(ROWS, prior={labels[0]: 2.0})
    if hasattr(model, "predict_sets"):
        calls["predict_sets"] = lambda: model.predict_sets(ROWS)
        calls["predict_sets at"] = lambda: model.predict_sets(ROWS, coverage=0.5)
        calls["predict_sets of some"] = lambda: model.predict_sets(ROWS, classes=labels[-3:])
        calls["coverage_report"] = lambda: model.coverage_report(ROWS, labels[[1, 2, 1, 2, 1]])
    if hasattr(model, "predict_rank"):
        calls["predict_rank"] = lambda: model.predict_rank(ROWS)
        calls["predict_rank at"] = lambda: model.predict_rank(ROWS, confidence=0.5)
    if hasattr(model, "is_none"):
        calls["is_none"] = lambda: model.is_none(ROWS)
        calls["threshold_of"] = lambda: model.threshold_of(labels)
    if hasattr(model, "is_novel"):
        calls["is_novel"] = lambda: model.is_novel(ROWS)
    if hasattr(model, "add_examples"):
        calls["add_examples"] = lambda: again().add_examples(ROWS, LABELS).predict(ROWS)
        calls["add_examples of a seen class"] = lambda: (
            again().add_examples(ROWS[:1], model.seen_classes_[:1]).predict(ROWS)
        )
        calls["add_examples of a new class"] = lambda: (
            again().add_examples(ROWS[:1], ["class new"], signatures=NEW).predict(ROWS)
        )
        calls["add_examples without a signature"] = lambda: (
            again().add_examples(ROWS[:1], ["class new"]).predict(ROWS)
        )
    if hasattr(model, "adapt") and not hasattr(model, "cv"):
        calls["adapt"] = lambda: model.adapt(ROWS).predict(ROWS)
        calls["adapt of some"] = lambda: model.adapt(ROWS, classes=labels[-3:]).predict(ROWS)
    if hasattr(model, "adaptation_"):
        calls["adaptation_"] = lambda: model.adaptation_.moved.sort_values().head().to_dict()
        calls["adapted_from_"] = lambda: model.adapted_from_.predict(ROWS)
    if hasattr(model, "class_gaussians"):
        calls["class_gaussians"] = model.class_gaussians
    for name in ("predict_exemplars", "similarities", "generate"):
        if hasattr(model, name):
            calls[name] = lambda name=name: getattr(model, name)(_normalized(model))
    if hasattr(model, "statistics_") and hasattr(model, "partial_fit"):
        calls["partial_fit"] = lambda: (
            again().partial_fit(DATA.X_train[:9], DATA.y_train[:9]).predict(ROWS)
        )
    return calls


def _normalized(model: Any) -> Any:
    """Signatures as the methods of an estimator take them."""
    return model.signature_table_.normalized(model.signature_scale_, keep_views=model.keep_views)


def _is_ours(error: BaseException) -> bool:
    """Whether zslearn or an estimator of scikit-learn raised the message on purpose."""
    if isinstance(error, zslearn.persistence.ModelFileError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    # A TypeError says that an estimator of the user's choice cannot be used.
    if not isinstance(error, (ValueError, TypeError)) or trace is None:
        return False
    file = trace.tb_frame.f_code.co_filename
    line = linecache.getline(file, trace.tb_lineno).strip()
    return line.startswith("raise ") and any(name in file for name in ("zslearn", "sklearn"))


def raw_errors(path: Path) -> tuple[bool, dict[str, str]]:
    """Whether a file is loaded, and unexpected errors that its model then raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = zslearn.load(path)
            calls = _calls(model)
        except (zslearn.persistence.ModelFileError, FileLimitError):
            return False, {}
        except Exception as error:
            return True, {"load": f"{type(error).__name__}: {error}"}
        found = {}
        for name, call in calls.items():
            try:
                call()
            except Exception as error:
                if not _is_ours(error):
                    found[name] = f"{type(error).__name__}: {error}"
    return True, found
