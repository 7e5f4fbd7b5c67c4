"""The command line: a command parses and prints, the library does the work."""

from zslearn.cli._main import main

__all__ = ["main"]
