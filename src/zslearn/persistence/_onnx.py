"""Export of a fitted model to ONNX, from features to scores and labels.

Scores, and `embed` of every method, use the array API standard. They therefore also accept arrays
of ndonnx, which have no values: each operation adds a node to a graph.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zslearn._scoring._probabilities import softmax
from zslearn._scoring._scorer import ClassScorer
from zslearn._utils._array import Array, Floats, to_numpy, unit_rows
from zslearn._utils._files import atomic_write
from zslearn._utils._optional import import_optional
from zslearn._version import __version__
from zslearn.base._meta import fitted_as_zero_shot
from zslearn.calibration._none_of_these import NoneOfThese

# Protocol buffers are limited to two gibibytes.
_LARGEST_FILE = 2**31 - 2**20
# Maximum difference between scores of file and model, relative to the largest score.
_TOLERANCE = 1e-3
_CHECKED_ROWS = 16


class ExportError(ValueError):
    """A model cannot be exported; the message gives the reason."""


def export_onnx(model: Any, path: str | PathLike[str], *, check: bool = True) -> Path:
    """Write a fitted model to an ONNX file, from the preparation of features to labels.

    The file contains the classes that are described at this moment; export again after adding
    classes. :ref:`onnx` has an example, and explains how a method becomes a graph.

    Parameters
    ----------
    model : fitted zero-shot estimator or Pipeline
        Any method, also calibrated, searched, or in a pipeline of common scalers and PCA.
    path : str or path-like
        The file, which is written atomically.
    check : bool, default=True
        Whether to compare the scores of file and model on a few random rows, with onnxruntime,
        before the file is written.

    Returns
    -------
    Path
        The file. Its input is "X", float32 of shape (rows, features); its outputs are "scores"
        (rows, classes), "label" (rows), and "probabilities" if the model has a temperature. With
        :class:`~zslearn.calibration.NoneOfThese`, rejected rows have its label. The metadata are
        "classes" and "seen" as JSON lists in the order of the scores, and the "method".

    Raises
    ------
    ExportError
        If no graph can represent the model; the message names the method and the reason.
    """
    model = fitted_as_zero_shot(model)
    content = _graph(model).SerializeToString()
    if check:
        _check(model, content)
    path = Path(path)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
    return path


def _graph(model: Any) -> Any:
    """The model as a protocol buffer."""
    ndx = import_optional("ndonnx", "export_onnx")
    scorer: ClassScorer = model.class_scorer_
    size = scorer.parameters.nbytes
    if size > _LARGEST_FILE:
        raise ExportError(
            f"The parameters of the classes take {size / 2**30:.1f} GiB, but an ONNX file is "
            "limited to 2 GiB: describe fewer classes, or serve the model itself."
        )
    X = ndx.argument(shape=("rows", int(model.n_features_in_)), dtype=ndx.float32)
    try:
        scores = scorer.scores(X)
        outputs = {"scores": ndx.astype(scores, ndx.float32)}
        if scorer.temperature is not None:
            probabilities = softmax(scores, scorer.temperature)
            outputs["probabilities"] = ndx.astype(probabilities, ndx.float32)
        outputs["label"] = _label(ndx, scores, scorer, model)
    # ndonnx raises various errors if values are read, and for NumPy arrays.
    except Exception as error:
        raise ExportError(
            f"{_name_of(model)} cannot be exported to ONNX: {error}. Save the model "
            "itself; to export a method of your own, use only functions of the array API standard "
            "in embed, move fitted arrays with move_like, and never convert an array to a number."
        ) from error
    graph = ndx.build({"X": X}, outputs)
    for name, value in _metadata(model, scorer).items():
        graph.metadata_props.add(key=name, value=value)
    return graph


def _label(ndx: Any, scores: Array, scorer: ClassScorer, model: Any) -> Array:
    """The best class of each row; the precedence of the scorer decides ties."""
    order = np.arange(len(scorer.labels))
    if scorer.precedence is not None:
        order = np.argsort(scorer.precedence, kind="stable")
    best = ndx.argmax(ndx.take(scores, ndx.asarray(order), axis=1), axis=1)
    labels = _label_values(scorer.labels[order])
    label = ndx.take(ndx.asarray(labels), best, axis=0)
    if not isinstance(model, NoneOfThese):
        return label
    if model.none_label_ is None:
        raise TypeError("its none_label is None, which ONNX cannot represent: choose another one")
    thresholds = ndx.asarray(model.threshold_of(scorer.labels[order]).astype(np.float32))
    rejected = _statistic(ndx, scores, scorer, model) < ndx.take(thresholds, best, axis=0)
    return ndx.where(rejected, ndx.asarray(np.asarray(model.none_label_, labels.dtype)), label)


def _statistic(ndx: Any, scores: Array, scorer: ClassScorer, model: NoneOfThese) -> Array:
    """The statistic that is compared with the threshold."""
    if model.statistic == "probability":
        scores = softmax(scores, scorer.temperature or 1.0)
    ordered = ndx.sort(ndx.astype(scores, ndx.float32), axis=1)
    best = ordered[:, -1]
    if model.statistic == "probability":
        return ndx.log(best * max(len(scorer.labels) - 1, 1) / (1 - best))
    if model.statistic == "margin" and len(scorer.labels) > 1:
        return best - ordered[:, -2]
    return best


def _label_values(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels in a dtype of ONNX."""
    if labels.dtype.kind in "OU":
        return labels.astype(object)
    return labels.astype(np.int64) if labels.dtype.kind in "iu" else labels


def _metadata(model: Any, scorer: ClassScorer) -> dict[str, str]:
    seen = set(model.seen_classes_.tolist())
    labels = scorer.labels.tolist()
    return {
        "classes": json.dumps(labels, ensure_ascii=False),
        "seen": json.dumps([label in seen for label in labels]),
        "method": _name_of(model),
        "zslearn": __version__,
    }


def _name_of(model: Any) -> str:
    """The name of a model with that of its inner estimator: "CalibratedStacking(EXEM)"."""
    name = type(model).__name__
    inner = model.steps[-1][1] if hasattr(model, "steps") else getattr(model, "estimator_", None)
    return f"{name}({_name_of(inner)})" if hasattr(inner, "class_scorer_") else name


def _check(model: Any, content: bytes) -> None:
    """Compare file and model on random rows."""
    runtime = import_optional("onnxruntime", "export_onnx with check=True")
    rng = np.random.default_rng(0)
    X: NDArray[np.float32] = unit_rows(rng.normal(size=(_CHECKED_ROWS, model.n_features_in_)))
    X = X.astype(np.float32)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(["scores"], {"X": X})
    expected: Floats = to_numpy(model.decision_function(X, classes=model.classes_))
    difference = float(np.abs(found - expected).max())
    scale = float(np.abs(expected).max())
    if not difference <= _TOLERANCE * max(scale, float(np.finfo(np.float32).tiny)):
        raise ExportError(
            f"{_name_of(model)} cannot be exported to ONNX: the file's scores differ from those "
            f"of the model by {difference:.1e}, where the largest score is {scale:.1e}."
        )
