"""Model files: arrays in the format of safetensors, the rest in JSON, and no code.

:func:`zslearn.save` and :func:`zslearn.load` are these, too. The user guide says what a file holds
and what loading one checks.
"""

from zslearn.persistence._errors import CannotSaveError, ModelFileError
from zslearn.persistence._model_files import ModelFile, describe, load, read_model, save
from zslearn.persistence._registry import register
from zslearn.persistence._versions import FORMAT_VERSION

__all__ = [
    "FORMAT_VERSION",
    "CannotSaveError",
    "ModelFile",
    "ModelFileError",
    "describe",
    "load",
    "read_model",
    "register",
    "save",
]
