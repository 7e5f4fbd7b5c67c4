"""The parser, and what becomes of errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from zslearn._version import __version__


class _Parser(argparse.ArgumentParser):
    """A parser that shows its help when it is asked wrongly."""

    def error(self, message: str) -> NoReturn:
        self.print_help(sys.stderr)
        self.exit(2, f"\n{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    # Imported here so that `zslearn --version` does not wait for the whole library.
    from zslearn.cli import _bench, _data, _demo

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--debug",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the traceback of an error",
    )
    parser = _Parser(
        prog="zslearn",
        parents=[common],
        description="Recognise classes that have no training examples, from a description of them.",
    )
    parser.add_argument("--version", action="version", version=f"zslearn {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _demo.add_parser(commands, common)
    _data.add_parser(commands, common)
    _bench.add_parsers(commands, common)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the program's name; by default those of the process.

    Returns
    -------
    int
        0 when all went well, 1 after an error, 130 after Ctrl-C. Wrong words exit with 2.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A letter that the output cannot show is no reason to fail.
            stream.reconfigure(errors="replace")
    words = sys.argv[1:] if argv is None else list(argv)
    if words == ["--version"]:
        print(f"zslearn {__version__}")
        return 0
    arguments = _parser().parse_args(words)
    try:
        return arguments.run(arguments)
    except KeyboardInterrupt:
        print("zslearn: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if getattr(arguments, "debug", False):
            raise
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"zslearn: error: {message}", file=sys.stderr)
        return 1
