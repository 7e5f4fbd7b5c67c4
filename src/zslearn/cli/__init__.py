"""The command line: the library's verbs as words. A command parses and prints."""

from zslearn.cli._main import main

__all__ = ["main"]
