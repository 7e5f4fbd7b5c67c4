"""Serve a saved model over HTTP, with a web page (extra ``serve``)."""

from zslearn.serving._recognizer import Limits
from zslearn.serving._service import create_app, serve

__all__ = ["Limits", "create_app", "serve"]
