"""Model files: arrays in the format of safetensors, all else in JSON, and no code.

:func:`zslearn.save` and :func:`zslearn.load` are the same functions. The user guide describes what
a file contains and how it is checked.
"""

from zslearn.persistence._classes import register
from zslearn.persistence._container import CannotSaveError, ModelFileError
from zslearn.persistence._model_files import ModelFile, describe, load, read_model, save
from zslearn.persistence._onnx import ExportError, export_onnx

__all__ = [
    "CannotSaveError",
    "ExportError",
    "ModelFile",
    "ModelFileError",
    "describe",
    "export_onnx",
    "load",
    "read_model",
    "register",
    "save",
]
