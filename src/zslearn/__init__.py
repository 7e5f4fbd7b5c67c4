"""Zero-shot learning with scikit-learn's API: recognise classes from descriptions alone."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zslearn._version import __version__

if TYPE_CHECKING:
    from zslearn.images import BatchPredictor
    from zslearn.persistence import export_onnx, load, save
    from zslearn.synthesis import EXEM, GaussianEXEM, SynC

__all__ = [
    "EXEM",
    "BatchPredictor",
    "GaussianEXEM",
    "SynC",
    "__version__",
    "export_onnx",
    "load",
    "save",
]

# Names are imported lazily, so that `zslearn --version` does not import the whole library.
_MODULE_OF = dict.fromkeys(("EXEM", "GaussianEXEM", "SynC"), "zslearn.synthesis")
_MODULE_OF["BatchPredictor"] = "zslearn.images"
_MODULE_OF |= dict.fromkeys(("export_onnx", "load", "save"), "zslearn.persistence")
_PACKAGES = (
    "base",
    "baselines",
    "calibration",
    "datasets",
    "experiments",
    "images",
    "inspection",
    "metrics",
    "model_selection",
    "networks",
    "persistence",
    "serving",
    "signatures",
    "solvers",
    "synthesis",
)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    if name in _PACKAGES:
        return importlib.import_module(f"zslearn.{name}")
    raise AttributeError(f"module 'zslearn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
