"""The report as one page: a file with its style, its program and its data.

Everything that comes from records is data, in one block of JSON that cannot end its element: no
"<" stands in it. The program puts it on the page as text, never as markup. A policy in the page
forbids any request to a server and any program but this one, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from zslearn._utils._files import replacing
from zslearn._utils._messages import name_some
from zslearn._version import __version__
from zslearn.experiments._examples import Images, read_examples
from zslearn.experiments._records import numbers_of, whole_records
from zslearn.experiments._report._build import build_report

#: Parts of the program, in their order.
_PROGRAM = ("dom.js", "table.js", "curves.js", "ranks.js", "search.js", "classes.js", "page.js")


def render_page(report: Mapping[str, Any]) -> str:
    """Write a report as one page."""
    style = _asset("page.css")
    program = _program()
    return Template(_asset("page.html")).substitute(
        title=html.escape(report["title"]),
        policy=_policy(style, program),
        style=style,
        program=program,
        data=_json(report),
        version=html.escape(__version__),
    )


def _json(report: Mapping[str, Any]) -> str:
    """Data that an element of the page can hold: without "<", and in letters of any encoding."""
    found = json.dumps(report, allow_nan=False, separators=(",", ":"))
    return found.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, program: str) -> str:
    """Nothing from a server; of styles and programs only these."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
        f"style-src {_digest(style)}; script-src {_digest(program)}"
    )


def _digest(content: str) -> str:
    found = base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest())
    return f"'sha256-{found.decode('ascii')}'"


@cache
def _program() -> str:
    parts = "\n".join(_asset(name) for name in _PROGRAM)
    # One function, so that its names are its own.
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


@cache
def _asset(name: str) -> str:
    source = resources.files("zslearn.experiments._report").joinpath("assets", name)
    return source.read_text(encoding="utf-8")


def write_report(
    runs: str | os.PathLike[str] | Iterable[Path | str],
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    answers: tuple[str, Iterable[tuple[Any, str, str]]] | None = None,
) -> Path:
    """Write records of runs as one page that a browser shows without a network.

    :ref:`report` says what is on it, and has an example.

    Parameters
    ----------
    runs : path or iterable of paths
        The folder of the records; or the files of records, as :func:`run_benchmark` returns them.
        What records lack is left out.
    path : str or path, default="report.html"
        The page; it is written whole or not at all.
    title : str, optional
        What stands above; by default the data sets are named.
    answers : tuple of a caption and (image, answer, truth), optional
        Images, as arrays of grey levels or colours, with what a method said of each and what it is.
        They stand at the top.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        There are no records, or all runs failed.

    See Also
    --------
    run_benchmark : Writes records.
    """
    if isinstance(runs, (str, os.PathLike)):
        folders = [Path(runs)]
        records = whole_records(folders[0])
    else:
        files = [Path(run) for run in runs]
        folders = list(dict.fromkeys(file.parent for file in files))
        records = whole_records(files)
    numbers = numbers_of(records)
    if numbers.empty:
        where = name_some(map(str, folders))
        why = f"all {len(records)} runs failed" if records else "zslearn bench writes them"
        raise ValueError(f"There are no numbers for a report in {where}: {why}.")
    images: Images = {}
    for folder in folders:
        images |= read_examples(folder)
    page = render_page(build_report(records, numbers, images, title=title, answers=answers))
    target = Path(path)
    with replacing(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target
