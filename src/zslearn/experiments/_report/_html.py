"""The page: one file with its style, its program and its data.

Everything that comes from records is data, in one block of JSON that cannot end its element: no
"<" stands in it. The program puts it on the page as text, never as markup. A policy in the page
forbids any request to a server and any program but this one, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from dataclasses import asdict
from functools import cache
from importlib import resources
from string import Template

from zslearn._version import __version__
from zslearn.experiments._report._model import Report

#: Parts of the program, in their order.
_PROGRAM = ("dom.js", "table.js", "curves.js", "ranks.js", "search.js", "classes.js", "page.js")


def render_page(report: Report) -> str:
    """Write a report as one page.

    Parameters
    ----------
    report : Report
        What it says.

    Returns
    -------
    str
        HTML that needs no other file.
    """
    style = _asset("page.css")
    program = _program()
    return Template(_asset("page.html")).substitute(
        title=html.escape(report.title),
        policy=_policy(style, program),
        style=style,
        program=program,
        data=_json(report),
        version=html.escape(__version__),
    )


def _json(report: Report) -> str:
    """Data that an element of the page can hold: without "<", and in letters of any encoding."""
    found = json.dumps(asdict(report), allow_nan=False, separators=(",", ":"))
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
