"""Compare the scores of every method between two versions of the code.

    python benchmarks/same_scores.py save old.npz       # with the old version
    python benchmarks/same_scores.py compare old.npz    # with the new version

Every method is fitted with its default hyper-parameters (networks train for a few steps) on a small
synthetic data set; wrappers around ESZSL. The comparison prints the largest difference relative to
the largest score of the method and exits with 1 where it exceeds 1e-9.
"""

from __future__ import annotations

import inspect
import sys
import warnings

import numpy as np

from zslearn import baselines, calibration, model_selection, networks, synthesis
from zslearn.base import ZeroShotPredictor
from zslearn.datasets import make_zero_shot

TOLERANCE = 1e-9
#: Fewer steps for what trains long, where the method has the hyper-parameter.
SHORT = {"max_iter": 20, "n_epochs": 4, "n_critic": 2, "n_seen_latents": 20, "n_unseen_latents": 40}
GRID = {"alpha_features": [10.0, 1.0]}


def estimators():
    """Each estimator of the library by name; some in two settings."""
    kinds = {}
    for package in (synthesis, baselines, networks, calibration, model_selection):
        for name in package.__all__:
            kind = getattr(package, name)
            if inspect.isclass(kind) and issubclass(kind, ZeroShotPredictor):
                kinds[name] = kind
    for name, kind in sorted(kinds.items()):
        parameters = inspect.signature(kind).parameters
        given = {}
        required = [p for p in parameters.values() if p.default is inspect.Parameter.empty]
        if "estimator" in {p.name for p in required}:
            given["estimator"] = baselines.ESZSL()
        if "grid" in parameters:
            given["grid"] = GRID
        if {p.name for p in required} - given.keys():
            continue
        if kind.__module__.startswith("zslearn.networks") or name == "CMTStar":
            given |= {key: value for key, value in SHORT.items() if key in parameters}
        yield name, kind(**given)
    yield "SynC cs", synthesis.SynC(loss="cs", random_state=0)
    yield "SynC struct", synthesis.SynC(loss="struct", random_state=0)
    yield "EXEM standardized", synthesis.EXEM(distance="standardized")
    yield "EXEM (ESZSL)", synthesis.EXEM(estimator=baselines.ESZSL())
    stacking = calibration.CalibratedStacking
    yield "CalibratedStacking tempered", stacking(baselines.ESZSL(), temperature="cv")


def scores():
    """Scores of every estimator for images of all classes, by name."""
    data = make_zero_shot(n_seen=20, n_unseen=6, random_state=0)
    X = np.concatenate([data.X_test_seen, data.X_test_unseen])
    found = {}
    for name, estimator in estimators():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = estimator.fit(data.X_train, data.y_train, signatures=data.signatures)
            except ImportError as error:
                print(f"{name}: left out, {error}")
                continue
            found[name] = np.asarray(model.decision_function(X))
    return found


def main(action, path):
    """Save the scores of this version, or compare them with saved ones."""
    found = scores()
    if action == "save":
        np.savez(path, **found)
        return 0
    worst = 0.0
    with np.load(path) as old:
        for name in sorted(set(old.files) | set(found)):
            if name not in found or name not in old.files:
                print(f"{name}: only in the {'old' if name in old.files else 'new'} version")
                continue
            scale = np.abs(old[name]).max() or 1.0
            difference = float(np.abs(found[name] - old[name]).max() / scale)
            worst = max(worst, difference)
            print(f"{name}: {difference:.1e}{'  differs' if difference > TOLERANCE else ''}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
