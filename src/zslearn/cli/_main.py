"""`main`: the parser of every command; an error becomes one line and an exit status."""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from zslearn._version import __version__

#: Command → its module, and its line of help. The module's `OPTIONS` has the command's function,
#: whose docstring describes it, and its arguments; or for each subcommand its function, description
#: and arguments.
_COMMANDS = {
    "demo": ("_bench", "recognise letters that the model never saw"),
    "data": ("_data", "what data sets there are, and what is in them"),
    "features": ("_fit", "turn images into features"),
    "fit": ("_fit", "fit a method on your images or table, for all classes that you describe"),
    "tune": ("_fit", "search a method's hyper-parameters on your images or table"),
    "predict": ("_fit", "name the classes of images, or of rows of a table, by a model file"),
    "evaluate": ("_fit", "measure a model file on images, or a table, with labels"),
    "add-class": ("_fit", "describe further classes to a model file"),
    "add-examples": ("_fit", "give labelled examples to a model file"),
    "adapt": ("_fit", "adapt a model file to unlabelled examples"),
    "bench": ("_bench", "tune and measure methods on a data set"),
    "table": ("_bench", "records as a table beside the published numbers"),
    "signatures": ("_signatures", "make signatures of classes from text, words, … or attributes"),
    "export": ("_serve", "write a saved model as an ONNX file"),
    "report": ("_bench", "records as one page to look at"),
    "serve": ("_serve", "serve a model file over HTTP, with a page for people"),
    "analyze": ("_bench", "the paper's analyses on a data set"),
    "info": ("_info", "versions, threads, device and data, for a bug report"),
    # Two words each; the list of commands has bench and demo.
    "bench-imagenet": ("_imagenet", None),
    "demo-imagenet": ("_imagenet", None),
}


class _Parser(argparse.ArgumentParser):
    """A parser that answers wrong words with one line, which says what was perhaps meant.

    Parsers of commands are of the same class, so that the line names the command's own help.
    """

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {line} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown words here, where the command that got them is known."""
        arguments, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
            near = _did_you_mean(options[0], self._option_string_actions) if options else ""
            self.error(f"unknown words: {' '.join(unknown)}.{near}")
        return arguments, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of an argument's choices, with the nearest of them."""
        choices = action.choices
        if choices is not None and value not in choices:
            # Of commands those with a line of help; others are reached by other words.
            shown = [choice.dest for choice in getattr(action, "_choices_actions", ())]
            choices = shown or choices
            if action.option_strings:
                reason = f"{action.option_strings[-1]} cannot be {value!r}."
            else:
                what = "command" if action.dest in ("command", "subcommand") else action.dest
                reason = f"there is no {what} {value!r}."
            near, there_are = _did_you_mean(value, choices), ", ".join(map(str, choices))
            raise argparse.ArgumentError(None, f"{reason}{near} There are: {there_are}.")


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    # Imported here so that `zslearn --version` does not wait for the whole library.
    from zslearn._utils._messages import did_you_mean

    return did_you_mean(word, known)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; of the commands only those among the words are imported, which takes long."""
    parser = _Parser(
        prog="zslearn",
        description="Recognise classes that have no training examples, from a description of them.",
    )
    parser.add_argument("--version", action="version", version=f"zslearn {__version__}")
    # For the help alone: it may stand anywhere, and `main` takes it out.
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, line) in _COMMANDS.items():
        if line is None:
            command = commands.add_parser(name, prog=f"zslearn {name.replace('-', ' ')}")
        else:
            command = commands.add_parser(name, help=line, description=line)
        if name in words:
            _add_command(command, importlib.import_module(f"zslearn.cli.{module}"), name)
    return parser


def _add_command(parser: argparse.ArgumentParser, module: Any, name: str) -> None:
    """Add the arguments of a command, or its subcommands."""
    from zslearn.cli._output import add_options

    options = module.OPTIONS[name]
    if not isinstance(options, dict):
        run, *rows = options
        parser.description = inspect.getdoc(run)
        add_options(parser, *rows)
        parser.set_defaults(run=run)
        return
    commands = parser.add_subparsers(dest="subcommand", required=True, metavar="|".join(options))
    for word, (run, about, *rows) in options.items():
        text = f"{about[0].upper()}{about[1:]}."
        command = commands.add_parser(word, help=about.partition(";")[0], description=text)
        add_options(command, *rows)
        command.set_defaults(run=run)


def _reason(error: Exception) -> str:
    """What an error says; those of the system as a person would say it."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"There is no file {error.filename}."
    return f"{error.filename}: {error.strerror}."


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Show what the library logs, such as that it compiles, while a command runs."""
    logger = logging.getLogger("zslearn")
    handler, level = logging.StreamHandler(), logger.level
    handler.setFormatter(logging.Formatter("zslearn: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


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
    given = sys.argv[1:] if argv is None else list(argv)
    words = [word for word in given if word != "--debug"]
    debug = len(words) < len(given)
    if words == ["--version"]:
        print(f"zslearn {__version__}")
        return 0
    if words[:2] in (["bench", "imagenet"], ["demo", "imagenet"]):
        # Their words differ from those of the other data sets.
        words = ["-".join(words[:2]), *words[2:]]
    arguments = _parser(words).parse_args(words)
    arguments.words, arguments.debug = words, debug
    try:
        from zslearn._utils._messages import each_warning_once
        from zslearn.cli._output import warnings_as_lines

        with _log_to_stderr(), warnings_as_lines(), each_warning_once():
            return arguments.run(arguments)
    except KeyboardInterrupt:
        print("zslearn: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from zslearn._utils._messages import plain

        if arguments.debug:
            # What an error quotes from a file cannot steer the terminal here either.
            print(plain(traceback.format_exc(), lines=True), end="", file=sys.stderr)
            return 1
        from zslearn.cli._output import in_options

        message = plain(" ".join(in_options(_reason(error)).split())) or type(error).__name__
        print(f"zslearn: error: {message}", file=sys.stderr)
        return 1
