"""What is said of a file that is no good."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A model file cannot be used: the text names the file, says why and what to do."""


class BadContentError(ValueError):
    """What is wrong with a file, without its name, which whoever opened the file adds."""


class CannotSaveError(TypeError):
    """A model holds something that a model file cannot: the text says what, and where."""
