"""How the documentation is built: `make docs`. Nothing is fetched from the network."""

from __future__ import annotations

import html
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

from zslearn import __version__

logger = logging.getLogger(__name__)

project = "zslearn"
author = "The zslearn developers"
copyright = author
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/**/*.ipynb", "auto_examples/**/*.py"]
templates_path = ["_templates"]
default_role = "literal"

# The reference: one page for each package of api.rst, and one for each name that it exports.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say it in words
toc_object_entries_show_parents = "hide"  # beside the page of a class: fit(), not EXEM.fit()
numpydoc_show_class_members = False  # the template of a class lists its members

# The examples.
sys.path.insert(0, str(Path(__file__).parent))  # for gallery_order, numbers_in_prose
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "gallery_order.FirstStepsFirst",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    # A Display is its picture; where in memory it lies says nothing.
    "ignore_repr_types": r"Display",
    # Twice as many pixels for screens that have them.
    "image_srcset": ["2x"],
    # The page of running times would load scripts from other servers.
    "write_computation_times": False,
}
# The pictures are made without a screen; a figure that is shown is not a mistake here.
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# Numbers in sentences come from the tables of results.
import numbers_in_prose  # noqa: E402

rst_epilog = numbers_in_prose.substitutions()

html_theme = "pydata_sphinx_theme"
html_title = f"zslearn {version}"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
html_css_files = ["zslearn.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # One row: the four parts of index.rst, the first example, the search.
    "logo": {"text": "zslearn"},
    "navbar_align": "left",
    "navbar_persistent": ["first-steps", "search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "auto_examples/index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}


# Formulas become MathML, which browsers draw by themselves: the usual way loads a script from
# another server.


def _mathml(node: nodes.Node, as_block: bool) -> str:
    # docutils reads the 12 of \frac12 as one number, and puts what follows under it.
    tex = re.sub(r"(frac\s*)(\d)(\d)", r"\1{\2}{\3}", node.astext())
    try:
        return latex2mathml.tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logger.warning("%s", error, location=node)
        return html.escape(node.astext())


def _inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _displayed_math(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _keep_initials(*event: Any) -> None:
    """Say that "E. Kodirov" at the beginning of a reference is no fifth item of a list."""
    lines: list[str] = event[-1]
    lines[:] = [re.sub(r"^(?=[A-Z]\. )", r"\\", line) for line in lines]


def _changelog_in_rst(_app: Any, path: Path, _page: str, content: list[str]) -> None:
    """CHANGELOG.md is written for readers of the repository as well."""
    if path.name != "CHANGELOG.md":
        return
    text = content[0].partition("\n")[2]  # the page has a title of its own
    text = re.sub(r"\[(.*?)\]\(docs/([\w/]+)\.rst\)", r":doc:`\1 </\2>`", text)
    for sign, line in (("## ", "="), ("### ", "-")):
        text = re.sub(f"(?m)^{sign}(.*)$", lambda m, c=line: f"{m[1]}\n{c * len(m[1])}", text)
    content[0] = text


def setup(app: Any) -> None:
    app.connect("include-read", _changelog_in_rst)
    app.connect("autodoc-process-docstring", _keep_initials)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_displayed_math, None))
