"""Every estimator, in the settings that the checks go through, and what each may fail."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import pytest

from zslearn import baselines, calibration, model_selection, networks, synthesis
from zslearn.baselines import ESZSL
from zslearn.networks import VAEGANGenerator, WGANGenerator
from zslearn.synthesis import ExemplarMLP, SynC


def _mlp() -> ExemplarMLP:
    return ExemplarMLP(hidden_size=50, learning_rate=1e-2, max_iter=100)


def _adversarial(kind: type[Any]) -> Any:
    return kind(hidden_size=32, n_epochs=4, n_critic=2, batch_size=32)


# Networks that train in a second.
_CLASS_NORM = {"hidden_size": 32, "learning_rate": 5e-3, "batch_size": 32, "max_iter": 20}
# Few steps: the gradient of an ℓ1 error is a sign, and one that rounding flips changes the rest.
_CADA_VAE = {
    "latent_size": 8,
    "encoder_sizes": (32, 32),
    "decoder_sizes": (32, 32),
    # Larger steps amplify rounding, which differs between processors.
    "learning_rate": 5e-3,
    "batch_size": 32,
    "max_iter": 25,
    "n_seen_latents": 20,
    "n_unseen_latents": 40,
}

_GRAPH = {"learning_rate": 2e-2, "max_iter": 40}
_GCNZ = {**_GRAPH, "hidden_sizes": (16, 16)}
_TWO_LAYERS = {**_GRAPH, "hidden_size": 32, "dropout": 0.1}

# Settings that take another way through the code; the first is the default one.
# An estimator that is not here is checked with its defaults; one that needs another estimator gets
# ESZSL.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "ESZSL": [{}, {"center": None}, {"feature_norm": None}, {"signature_scale": "all"}],
    "SAE": [
        {},
        {"center": "both"},
        {"direction": "feature_to_semantic", "center": "both"},
        {"alpha_reduction": 1.0},
    ],
    "CCA": [{}, {"n_components": 4, "power": 1.0}, {"signature_scale": "all"}],
    "GFZSL": [
        {},
        {"n_components": 8, "covariance": "class"},
        {"kernel": "linear", "feature_norm": None, "covariance": "class"},
    ],
    "GDA": [{"estimator": ESZSL()}, {"estimator": baselines.LatEm()}, {"min_images": 12}],
    "TipAdapter": [{"estimator": ESZSL()}, {"estimator": baselines.CMT(), "beta": 2.0}],
    "COSTA": [{}, {"similarity": "rbf"}],
    "ALE": [{}, {"scaling": "zscore"}, {"feature_norm": None}],
    "DeViSE": [{}, {"scaling": None, "feature_norm": None}],
    "LatEm": [{}, {"n_maps": 1, "scaling": None}],
    "SJE": [{}, {"batch_size": 5}],
    "SSE": [
        {},
        {"max_iter": 0},
        {"feature_norm": None},
    ],
    "BiDiLEL": [
        {},
        {"n_components": 4, "latent_norm": None},
        {"feature_norm": None},
        {"placement": "joint"},
    ],
    "CMT": [{}, {"feature_norm": None}],
    "CMTStar": [{}, {"threshold": "common"}],
    "HAT": [{}, {"hierarchy": "cluster", "n_levels": 1}, {"feature_norm": None}],
    "DAP": [{}, {"calibration": "classes"}, {"calibration": None, "feature_norm": None}],
    "IAP": [
        {},
        {"calibration": "classes"},
        {"calibration": None, "feature_norm": None},
        {"probabilities": "platt"},
    ],
    "ConSE": [{}, {"n_top": 3}, {"feature_norm": None}],
    "ZeroShotSearchCV": [
        {"estimator": ESZSL(), "grid": {"alpha_features": [10.0, 1.0]}, "cv": 3},
        {
            "estimator": ESZSL(),
            "grid": {"center": ["both"]},
            "setting": "gzsl",
            "cv": 3,
            "temperature": "cv",
        },
    ],
    "SynC": [
        {},
        {"loss": "cs", "random_state": 0},
        {"loss": "struct", "random_state": 0},
        {"n_phantoms": 10, "random_state": 0},
        {"penalize": "v"},
        {"metric": "diag"},
        {"learn_phantoms": True},
    ],
    "EXEM": [
        {},
        {"distance": "standardized"},
        {"regressor": "krr", "n_components": None},
        {"regressor": "gp"},
        {"regressor": _mlp()},
        {"estimator": ESZSL()},
        {"estimator": SynC()},
        {"whiten": 0.3},
        {"whiten": 0.3, "estimator": ESZSL()},
        {"signature_scale": "all"},
    ],
    "GaussianEXEM": [
        {},
        {"seen_weight": 1.0, "mean_error_weight": 1.0},
        {"gamma": "learned"},
        {"temperature": 2.0, "feature_norm": None},
        {"signature_scale": "all"},
    ],
    "GeneratedFeatures": [
        {"n_generated": 20},
        {"n_generated": 20, "feature_norm": None},
        {"n_generated": 20, "classifier": "mean"},
        {"n_generated": 20, "classifier": "mean", "generator": _adversarial(WGANGenerator)},
        {"n_generated": 20, "classifier": "mean", "generator": _adversarial(VAEGANGenerator)},
    ],
    "ClassNorm": [_CLASS_NORM, {**_CLASS_NORM, "feature_norm": None}],
    "CADAVAE": [_CADA_VAE, {**_CADA_VAE, "feature_norm": None}],
    "WeightedViews": [{"estimator": ESZSL()}, {"estimator": SynC()}],
    "GCNZ": [_GCNZ, {**_GCNZ, "targets": "mean", "graph": "all", "feature_norm": None}],
    "SGCN": [_TWO_LAYERS, {**_TWO_LAYERS, "targets": "struct"}],
    "DGP": [
        _TWO_LAYERS,
        {**_TWO_LAYERS, "dropout": 0.0, "hierarchy": "cluster", "targets": "cs"},
    ],
    "CalibratedStacking": [
        {"estimator": ESZSL()},
        {"estimator": ESZSL(), "bias": 0.1},
        {"estimator": ESZSL(), "temperature": "cv"},
    ],
    "NoneOfThese": [
        {"estimator": ESZSL(), "cv": 3},
        {"estimator": ESZSL(), "cv": 3, "statistic": "margin"},
        {"estimator": ESZSL(), "cv": 3, "statistic": "probability", "none_label": "?"},
    ],
    "PredictionSets": [{"estimator": ESZSL(), "cv": 3, "coverage": 0.8}],
    "RankPredictor": [{"estimator": ESZSL(), "cv": 3}],
    # Each "auto" fits the method on held-out classes; the first is checked most.
    "TableClassifier": [
        {"estimator": ESZSL(), "scaling": "range", "row_norm": None, "signature_scaling": None},
        {"estimator": SynC(), "scaling": "robust"},
    ],
}

# Checks, of the library or of scikit-learn, that an estimator fails, each with its reason.
_MAY_REJECT = "a rejected row is named by none_label, which is no class"
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "NoneOfThese": dict.fromkeys(
        ("check_candidates", "check_top_k", "check_renamed_labels"), _MAY_REJECT
    ),
    "CADAVAE": {"check_unused_class": "the softmax is over all described classes"},
    "TableClassifier": {
        "check_sample_weight_equivalence_on_dense_data": "columns are prepared without weights"
    },
}

# Checks that are slow for every estimator, and those that are so for some: where processes are
# started, and where many settings are fitted that take long.
SLOW_CHECKS = {"check_scikit_learn"}
_MANY_FITS = {
    "check_grid_equals_single_fits",
    "check_grid_hands_out_separate_models",
    "check_inside_search",
    "check_rows_embedded_once",
}
SLOW_CHECKS_OF = {
    "CalibratedStacking": {"check_n_jobs"},
    "NoneOfThese": {"check_n_jobs"},
    "PredictionSets": {"check_n_jobs"},
    "RankPredictor": {"check_n_jobs"},
    "ZeroShotSearchCV": {"check_n_jobs"},
    "TableClassifier": {"check_n_jobs", "check_grid_with_a_generator", *_MANY_FITS},
    "CMT": _MANY_FITS,
    "CMTStar": _MANY_FITS,
    "LatEm": _MANY_FITS,
    "CADAVAE": _MANY_FITS,
    "ClassNorm": _MANY_FITS,
    "DGP": _MANY_FITS,
    "GCNZ": _MANY_FITS,
    "SGCN": _MANY_FITS,
}

# Hyper-parameters of a kind that needs an extra → module.
NEEDS: dict[type[Any], str] = {
    ExemplarMLP: "torch",
    WGANGenerator: "torch",
    VAEGANGenerator: "torch",
}
# Estimators that need one themselves.
NEED_TORCH = {"CADAVAE", "ClassNorm", "DGP", "GCNZ", "SGCN"}


def all_estimators() -> dict[str, type[Any]]:
    """Every public method and meta-estimator: what exports itself and has `add_classes`."""
    return {
        name: getattr(package, name)
        for package in (baselines, networks, synthesis, calibration, model_selection)
        for name in package.__all__
        if inspect.isclass(getattr(package, name))
        and hasattr(getattr(package, name), "add_classes")
        # Made of steps, which the settings here do not know.
        and name != "ZeroShotPipeline"
    }


def _settings(name: str, cls: type[Any]) -> list[dict[str, Any]]:
    if name in SETTINGS:
        return SETTINGS[name]
    required = getattr(cls, "_required_parameters", ())
    return [{"estimator": ESZSL()} if "estimator" in required else {}]


def missing_package(name: str, setting: dict[str, Any]) -> str | None:
    """A package that an estimator with this setting needs and that is not installed."""
    needed = {"torch"} if name in NEED_TORCH else set()
    for kind, package in NEEDS.items():
        if any(isinstance(value, kind) for value in setting.values()):
            needed.add(package)
    return next((p for p in sorted(needed) if importlib.util.find_spec(p) is None), None)


def instances(*, defaults: bool = True, others: bool = True) -> list[Any]:
    """Pytest parameters: each estimator under its default setting, and under each other one."""
    params = []
    for name, cls in all_estimators().items():
        for number, setting in enumerate(_settings(name, cls)):
            if not (others if number else defaults):
                continue
            missing = missing_package(name, setting)
            marks = [] if missing is None else [pytest.mark.skip(reason=f"needs {missing}")]
            if number:
                marks.append(pytest.mark.slow)
            label = ",".join(f"{k}={v}" for k, v in setting.items())
            params.append(pytest.param(cls(**setting), id=f"{name}({label})", marks=marks))
    return params


def is_slow(estimator: Any, check: Any) -> bool:
    """Whether a check of an estimator belongs to the slow tier."""
    name = getattr(check, "func", check).__name__
    return name in SLOW_CHECKS or name in SLOW_CHECKS_OF.get(type(estimator).__name__, ())


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    failures = dict(EXPECTED_FAILURES.get(type(estimator).__name__, {}))
    if getattr(estimator, "placement", None) == "joint":
        failures["check_unused_class"] = "the unseen classes are placed together"
    if isinstance(estimator, SynC) or isinstance(getattr(estimator, "estimator", None), SynC):
        failures["check_sample_weight_equivalence_on_dense_data"] = (
            "two ways to a solution end within tol of it; check_sample_weight has a smaller one"
        )
    if isinstance(estimator, (networks.GCNZ, networks.SGCN, networks.DGP)):
        failures["check_unused_class"] = "described classes are nodes that others propagate through"
        if estimator.graph == "all":
            failures["check_described_later"] = "all classes described at fit train the network"
    if isinstance(estimator, networks.GeneratedFeatures) and estimator.classifier != "mean":
        failures["check_unused_class"] = "one classifier is trained over all described classes"
    return failures
