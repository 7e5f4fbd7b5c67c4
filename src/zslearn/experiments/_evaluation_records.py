"""Evaluations of methods as they are, written as records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from zslearn.datasets import ZeroShotDataset
from zslearn.experiments._evaluate import Evaluation
from zslearn.experiments._measure import by_class, circumstances, compact_curve
from zslearn.experiments._record_checks import RECORD_SCHEMA
from zslearn.experiments._records import write_record
from zslearn.metrics import seen_unseen_curve

#: The protocol of methods that were not tuned.
UNTUNED = "untuned"
_UNCALIBRATED = ("seen", "unseen", "harmonic")


def write_evaluation(
    evaluation: Evaluation, data: ZeroShotDataset, folder: Path, *, command: str
) -> list[Path]:
    """Write what an evaluation found as two records, one of each setting.

    Parameters
    ----------
    evaluation : Evaluation
        Of one method.
    data : ZeroShotDataset
        What it was evaluated on.
    folder : Path
        Where to write.
    command : str
        What a person would type to have it again.

    Returns
    -------
    list of Path
        The records.
    """
    found = {"zsl": _conventional(evaluation, data), "gzsl": _generalized(evaluation, data)}
    paths = []
    for setting, results in found.items():
        name = re.sub(r"[^A-Za-z0-9]+", "-", evaluation.method).strip("-")
        path = folder / f"{data.name}_{name}_{setting}.json"
        origin = {
            "schema": RECORD_SCHEMA,
            "dataset": data.name,
            "split": data.split,
            "split_version": data.version,
            "features": data.features,
            "method": evaluation.method,
            "setting": setting,
            "protocol": UNTUNED,
            "seed": None,
            "command": command,
        }
        write_record(origin | results | circumstances(), path)
        paths.append(path)
    return paths


def _conventional(evaluation: Evaluation, data: ZeroShotDataset) -> dict[str, Any]:
    metrics = evaluation.metrics
    kept = [name for name in metrics if name.startswith(("per_", "flat_hit"))]
    predicted = evaluation.model.predict(data.X_test_unseen, classes=data.unseen_classes)
    return {
        "metrics": {name: metrics[name] for name in (*kept, *_UNCALIBRATED)},
        "times": {"tune_and_fit": evaluation.seconds},
        **by_class(data.y_test_unseen, predicted, data.unseen_classes),
    }


def _generalized(evaluation: Evaluation, data: ZeroShotDataset) -> dict[str, Any]:
    metrics, found = evaluation.metrics, evaluation.generalized
    kept = [name for name in metrics if name.startswith("calibrated_")]
    is_seen = np.isin(found.classes, found.seen_classes)
    predicted = found.classes[np.argmax(found.scores - evaluation.bias * is_seen, axis=1)]
    return {
        "metrics": {name: metrics[name] for name in (*_UNCALIBRATED, *kept, "ausuc")},
        "calibration_factor": evaluation.bias,
        "unseen_classes": [str(label) for label in data.unseen_classes.tolist()],
        "curve": compact_curve(*seen_unseen_curve(**vars(found))),
        **by_class(found.y_true, predicted, found.classes),
    }
