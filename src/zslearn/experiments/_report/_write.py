"""Write the report as one HTML file that contains its style, program and data.

Data from records is stored in a JSON element, with "<" escaped so that it cannot end the element,
and the program inserts it as text, never as markup. The content security policy of the page forbids
requests to servers, and any style and program other than these, by their digests.
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

from zslearn._utils._files import atomic_write
from zslearn._utils._messages import name_some
from zslearn._version import __version__
from zslearn.experiments._examples import Images, read_examples
from zslearn.experiments._records import numbers_of, read_test_selection, whole_records
from zslearn.experiments._report._build import build_report, inflation_of

#: Files of the program, in order.
_PROGRAM = ("dom.js", "table.js", "curves.js", "ranks.js", "search.js", "classes.js", "page.js")


def _page(report: Mapping[str, Any]) -> str:
    """The page with the report's data."""
    style, program = _asset("page.css"), _program()
    data = json.dumps(report, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        data = data.replace(letter, f"\\u{ord(letter):04x}")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data: blob:; "
        f"style-src {_digest(style)}; script-src {_digest(program)}"
    )
    return Template(_asset("page.html")).substitute(
        title=html.escape(report["title"]),
        policy=policy,
        style=style,
        program=program,
        data=data,
        version=html.escape(__version__),
    )


def _digest(content: str) -> str:
    found = base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest())
    return f"'sha256-{found.decode('ascii')}'"


@cache
def _program() -> str:
    parts = "\n".join(_asset(name) for name in _PROGRAM)
    # Wrapped into a function to keep its names out of the global scope.
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
    """Write records of runs as one HTML page, which works offline.

    :ref:`report` describes its contents and has an example. Records of analyses are skipped.

    Parameters
    ----------
    runs : path or iterable of paths
        Folder of the records, or the files of records, as returned by :func:`run_benchmark`.
    path : str or path, default="report.html"
        The page to write, atomically.
    title : str, optional
        Title; by default it names the data sets.
    answers : tuple of a caption and (image, answer, truth), optional
        Images, as arrays of grey levels or colours, with the answer of a method and the truth, to
        show at the top.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If there are no records, or all runs failed.

    See Also
    --------
    run_benchmark : Run methods and write records.
    """
    found: Path | list[Path]
    if isinstance(runs, (str, os.PathLike)):
        folders, found = [Path(runs)], Path(runs)
    else:
        found = [Path(run) for run in runs]
        folders = list(dict.fromkeys(file.parent for file in found))
    # Analyses vary a setting, so that their numbers are not those of a method.
    records = [record for record in whole_records(found) if "analysis" not in record]
    numbers = numbers_of(records)
    if numbers.empty:
        where = name_some(map(str, folders))
        why = f"all {len(records)} runs failed" if records else "zslearn bench writes them"
        raise ValueError(f"There are no numbers for a report in {where}: {why}.")
    images: Images = {}
    for folder in folders:
        images |= read_examples(folder)
    report = build_report(records, numbers, images, title=title, answers=answers)
    page = _page(report | {"inflation": inflation_of(read_test_selection(found))})
    target = Path(path)
    with atomic_write(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target
