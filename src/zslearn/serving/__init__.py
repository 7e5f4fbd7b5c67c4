"""A saved model behind HTTP, with a page for people: the extra ``serve``.

The command `zslearn serve` does its work here.
"""

from zslearn.serving._recognizer import Limits, Recognizer
from zslearn.serving._service import create_app, serve

__all__ = ["Limits", "Recognizer", "create_app", "serve"]
