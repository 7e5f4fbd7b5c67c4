"""`main` parses the command line, runs a command and reports errors in one line."""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import os
import shlex
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from zslearn._version import __version__

#: Command → its module and its one-line help. `OPTIONS` of the module maps the command to its
#: function, whose docstring is the description, and its arguments; or maps subcommands to theirs.
_COMMANDS = {
    "demo": ("_bench", "recognise letters without training images"),
    "data": ("_data", "list, show, download and check data sets"),
    "features": ("_fit", "compute features of images"),
    "fit": ("_fit", "fit a method on your images or table, and save a model file"),
    "tune": ("_fit", "tune the hyper-parameters of a method on your images or table"),
    "predict": ("_fit", "predict the classes of images or table rows with a model file"),
    "evaluate": ("_fit", "evaluate a model file on labelled images or table rows"),
    "add-class": ("_fit", "add described classes to a model file"),
    "remove-class": ("_fit", "remove described classes from a model file"),
    "add-examples": ("_fit", "add labelled examples to a model file"),
    "adapt": ("_fit", "adapt a model file to unlabelled images or table rows"),
    "suggest": ("_fit", "suggest which unlabelled images or table rows to label next"),
    "bench": ("_bench", "tune and evaluate methods on a data set"),
    "table": ("_bench", "tabulate records next to the published numbers"),
    "signatures": ("_signatures", "make class signatures from text, words, a hierarchy, …"),
    "export": ("_serve", "export a model file to ONNX"),
    "report": ("_bench", "write records as a web page"),
    "serve": ("_serve", "serve a model file over HTTP, with a web page"),
    "analyze": ("_bench", "run an analysis of the paper on a data set"),
    "info": ("_info", "describe a model file, or the installation for a bug report"),
    # Not listed in the help.
    "bench imagenet": ("_imagenet", None),
    "demo imagenet": ("_imagenet", None),
}


#: Options of every command, which may stand anywhere.
_FLAGS = {
    "--json": "print one JSON document on standard output",
    "--quiet": "print results, warnings and errors only",
    "--debug": "show the traceback of an error",
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, with suggestions for misspelt words.

    Commands use the same class, so that the line refers to the help of the command.
    """

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: error: {line} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report unknown arguments here, where the command is known."""
        arguments, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
            near = _did_you_mean(options[0], self._option_string_actions) if options else ""
            self.error(f"unknown arguments: {' '.join(unknown)}.{near}")
        return arguments, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Reject a value that is not among the choices, and suggest the nearest one."""
        choices = action.choices
        if choices is not None and value not in choices:
            # Commands without help are not listed.
            shown = [choice.dest for choice in getattr(action, "_choices_actions", ())]
            choices = shown or choices
            if action.option_strings:
                reason = f"{action.option_strings[-1]} cannot be {value!r}."
            else:
                what = "command" if action.dest in ("command", "subcommand") else action.dest
                reason = f"there is no {what} {value!r}."
            near, listed = _did_you_mean(value, choices), ", ".join(map(str, choices))
            raise argparse.ArgumentError(None, f"{reason}{near} Choose from {listed}.")


def _did_you_mean(word: str, known: Iterable[str]) -> str:
    # Imported late so that `zslearn --version` does not load the whole library.
    from zslearn._utils._messages import did_you_mean

    return did_you_mean(word, known)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser; only modules of the commands in `words` are imported, to save time."""
    parser = _Parser(
        prog="zslearn",
        description="Zero-shot learning: recognise classes without training images by description.",
    )
    parser.add_argument("--version", action="version", version=f"zslearn {__version__}")
    _add_flags(parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, line) in _COMMANDS.items():
        about: dict[str, Any] = {} if line is None else {"help": line, "description": line}
        command = commands.add_parser(name, **about)
        if name in words:
            options = importlib.import_module(f"zslearn.cli.{module}").OPTIONS
            _add_command(command, options[name])
    return parser


def _add_flags(parser: argparse.ArgumentParser) -> None:
    """Add `_FLAGS` to the help; `main` removes them, wherever they stand."""
    for flag, text in _FLAGS.items():
        parser.add_argument(flag, action="store_true", help=text)


def _add_command(parser: argparse.ArgumentParser, options: Any) -> None:
    """Add the function and the arguments of a command, or its subcommands."""
    from zslearn.cli._output import add_options

    if isinstance(options, dict):
        words = parser.add_subparsers(dest="subcommand", required=True, metavar="|".join(options))
        for word, rows in options.items():
            first = str(inspect.getdoc(rows[0])).partition("\n")[0]
            _add_command(words.add_parser(word, help=f"{first[0].lower()}{first[1:-1]}"), rows)
        return
    run, *rows = options
    parser.description = inspect.getdoc(run)
    add_options(parser, *rows)
    _add_flags(parser)
    known = parser._option_string_actions
    is_file = "--out" in known and known["--out"].metavar == "FILE"
    parser.set_defaults(run=run, flags=frozenset(known), writes_file=is_file)


def _reason(error: Exception) -> str:
    """The message of an error, with errors of the operating system as sentences."""
    if not isinstance(error, OSError) or error.filename is None or error.strerror is None:
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"There is no file {error.filename}."
    return f"{error.filename}: {error.strerror}."


@contextmanager
def _log_to_stderr(level: int) -> Iterator[None]:
    """Show log messages of the library, such as about compilation, while a command runs."""
    logger = logging.getLogger("zslearn")
    handler, before = logging.StreamHandler(), logger.level
    handler.setFormatter(logging.Formatter("zslearn: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _complete() -> None:
    """Answer a shell that asks for completions, with the optional package argcomplete."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        # Only the arguments of the command that is being typed are added.
        argcomplete.autocomplete(_parser(_joined(os.environ.get("COMP_LINE", "").split()[1:])))


def _joined(words: list[str]) -> list[str]:
    """Join the commands of two words, whose options differ from those of other data sets."""
    two = " ".join(words[:2])
    return [two, *words[2:]] if two in _COMMANDS else words


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the name of the program; by default those of the process.

    Returns
    -------
    int
        0 on success, 1 after an error, 130 after Ctrl-C. Invalid arguments exit with status 2.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Characters that the output cannot encode must not raise an error.
            stream.reconfigure(errors="replace")
    _complete()
    given = sys.argv[1:] if argv is None else list(argv)
    words = _joined([word for word in given if word not in _FLAGS])
    if words == ["--version"]:
        print(f"zslearn {__version__}")
        return 0
    arguments = _parser(words).parse_args(words)
    arguments.command_line = shlex.join(["zslearn", *words[0].split(), *words[1:]])
    try:
        return _run(arguments, **{flag.removeprefix("--"): flag in given for flag in _FLAGS})
    except KeyboardInterrupt:
        print("zslearn: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output, such as `head`, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: argparse.Namespace, *, json: bool, quiet: bool, debug: bool) -> int:
    """Run a command, report an error in one line, and print the document for `--json`."""
    from zslearn._utils._files import refuse_unwritable
    from zslearn._utils._messages import each_warning_once, plain
    from zslearn._utils._reading import text_format
    from zslearn.cli._output import Report, in_options, reporting, warnings_as_lines

    report, status = Report(as_json=json, quiet=quiet, flags=arguments.flags), 1
    arguments.debug = debug
    level = logging.WARNING if quiet else logging.INFO
    with reporting(report):
        try:
            names = ("sep", "decimal", "encoding")
            read_as = text_format(**{name: getattr(arguments, name, None) for name in names})
            with _log_to_stderr(level), warnings_as_lines(), each_warning_once(), read_as:
                if arguments.writes_file and arguments.out is not None:
                    refuse_unwritable(arguments.out)
                status = arguments.run(arguments) or 0
        except BrokenPipeError:
            raise
        except Exception as error:
            message = plain(" ".join(in_options(_reason(error)).split())) or type(error).__name__
            report.values["error"] = message
            # An error may quote a file; `plain` removes control characters.
            trace = plain(traceback.format_exc(), lines=True)
            line = f"zslearn: error: {message}\n"
            print(trace if debug else line, end="", file=sys.stderr)
    words = (arguments.command, getattr(arguments, "subcommand", None))
    report.print_document(" ".join(filter(None, words)), status)
    return status
