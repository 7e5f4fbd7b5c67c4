"""Records for reports, made up cheaply: as runs write them, of any number and size."""

from __future__ import annotations

import json

import numpy as np

from zslearn._utils._files import write_checked_json
from zslearn.experiments import write_record
from zslearn.experiments._examples import KIND, data_uri
from zslearn.model_selection import METHODS

#: Names of classes that would do harm as markup, as a key or as an address.
HOSTILE = (
    "<script>window.hurt = 1</script>",
    '"><img src=x onerror="window.hurt = 1">',
    "</script><script>window.hurt = 1</script>",
    "__proto__",
    "constructor",
    "a/b#c?d%",
    "\u202eright to left\ud800",
)


def records_in(folder, *, without=()):
    """Records by file, without the fields that differ between equal runs.

    A hidden file was being written when its run was killed; readers pass over it.
    """
    found = {}
    for path in folder.glob("[!.]*.json"):
        record = json.loads(path.read_text())
        changing = ("times", "written", "checksum", *without)
        found[path.name] = {k: v for k, v in record.items() if k not in changing}
    return found


def measured(method="ESZSL", value=0.5, **changes):
    """A row of the table that `read_records` returns."""
    return {
        "method": method,
        "dataset": "CUB",
        "split": "ns",
        "split_version": "PS1",
        "features": "res101",
        "setting": "zsl",
        "metric": "per_class_accuracy",
        "value": value,
        **changes,
    }


def example_record(
    method, setting, *, seed=0, classes=None, n_points=60, n_unseen=None, random_state=0
):
    """A record of CUB as a run writes it, with invented numbers."""
    rng = np.random.default_rng(
        [random_state, seed, setting == "zsl", len(method), ord(method[-1])]
    )
    classes = [f"class {i}" for i in range(8)] if classes is None else list(classes)
    n_unseen = len(classes) // 4 if n_unseen is None else n_unseen
    tested = classes[:n_unseen] if setting == "zsl" else classes
    per_class = dict(zip(tested, rng.uniform(0, 1, len(tested)).tolist(), strict=True))
    others = rng.permutation(len(tested)).tolist()
    confused = {
        name: [[tested[other], round((1 - per_class[name]) / 2, 4)]]
        for name, other in zip(tested, others, strict=True)
        if tested[other] != name
    }
    record = {
        "schema": 1,
        "dataset": "CUB",
        "split": "ns",
        "split_version": "xlsa17/PS2/0123abcd",
        "features": "res101",
        "method": method,
        "setting": setting,
        "protocol": "default",
        "grid": "fast",
        "seed": seed,
        "per_class": per_class,
        "confused_with": confused,
        "times": {"tune_and_fit": float(rng.uniform(1, 90)), "measure": 0.25},
        "versions": {"zslearn": "0.1", "numpy": "2.4"},
        "machine": {"python": "3.11", "cores": 2},
        "written": "2026-01-02T03:04:05+00:00",
        "command": "zslearn bench CUB",
        **_search(rng),
    }
    mean = float(np.mean(list(per_class.values())))
    if setting == "zsl":
        return record | {"metrics": {"per_class_accuracy": mean, "harmonic": mean / 2}}
    x = np.linspace(0, 0.3 + 0.4 * mean, n_points)
    seen = 0.6 * (1 - (x / x[-1]) ** 3)
    bias = [None, *np.linspace(-1.2345, 2, n_points - 1).round(6).tolist()]
    values = list(per_class.values())
    metrics = {
        "calibrated_seen": np.mean(values[n_unseen:]),
        "calibrated_unseen": np.mean(values[:n_unseen]),
    }
    metrics["ausuc"] = np.trapezoid(seen, x)
    metrics["calibrated_harmonic"] = mean
    return record | {
        "metrics": {name: float(value) for name, value in metrics.items()},
        "unseen_classes": classes[:n_unseen],
        "calibration_factor": 0.5,
        "curve": {"acc_unseen": x.tolist(), "acc_seen": seen.tolist(), "bias": bias},
    }


def _search(rng):
    settings = [{"alpha": a, "gamma": g} for a in (0.01, 0.1, 1.0, 10.0) for g in (0.01, 0.1, 1.0)]
    scores = rng.uniform(0.2, 0.5, len(settings))
    scores[10] = 0.6  # alpha=10, the largest; gamma=0.1
    return {
        "hyper_parameters": settings[10],
        "edges": {"alpha": "largest"},
        "cross_validation": {
            "params": settings,
            "mean_test_accuracy": scores.tolist(),
            "std_test_accuracy": [0.01] * len(settings),
        },
    }


def write_runs(
    folder, *, n_methods=4, seeds=(0,), n_classes=12, n_points=60, images=False, hostile=False
):
    """Write the records of so many methods in both settings, one per seed."""
    classes = [f"class {i}" for i in range(n_classes)]
    if hostile:
        classes[: len(HOSTILE)] = HOSTILE
    for method in list(METHODS)[11 : 11 + n_methods]:
        for setting in ("zsl", "gzsl"):
            for seed in seeds:
                record = example_record(
                    method,
                    setting,
                    seed=seed,
                    classes=classes,
                    n_points=n_points,
                    n_unseen=len(HOSTILE) if hostile else None,
                )
                name = "".join(c if c.isalnum() else "-" for c in method)
                write_record(record, folder / f"{name}_{setting}_{seed}.json")
    if images or hostile:
        rng = np.random.default_rng(0)
        shown = {c: [data_uri(rng.integers(0, 256, (24, 24), dtype=np.uint8), 24)] for c in classes}
        content = {"kind": KIND, "dataset": "CUB", "images": shown}
        write_checked_json(folder / "CUB.images", content)
