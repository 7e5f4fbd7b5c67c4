"""Fitted models in formats of other programs: ONNX."""

from zslearn.export._model import ExportError, export_onnx

__all__ = ["ExportError", "export_onnx"]
