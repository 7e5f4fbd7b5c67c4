"""Configuration of the documentation, which `make docs` builds, with or without a network."""

from __future__ import annotations

import html
import logging
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.util.logging import getLogger

from zslearn import __version__

logger = getLogger(__name__)

project = "zslearn"
author = "The zslearn developers"
copyright = author
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "auto_examples/**/*.ipynb", "auto_examples/**/*.py"]
templates_path = ["_templates"]
default_role = "literal"

# Names of other libraries link to their documentation. Without a network they stay plain text:
# a missing inventory is no warning, which `sphinx -W` would turn into an error.
intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable/", None),
    "pandas": ("https://pandas.pydata.org/docs/", None),
    "python": ("https://docs.python.org/3/", None),
    "sklearn": ("https://scikit-learn.org/stable/", None),
}
intersphinx_timeout = 5
logging.getLogger("sphinx.sphinx.ext.intersphinx").addFilter(
    lambda record: "failed to reach any of the inventories" not in str(record.msg)
)

# The reference: one page for each package of api.rst, and one for each name that it exports.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings describe types
toc_object_entries_show_parents = "hide"  # on the page of a class: fit(), not EXEM.fit()
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
    # A Display is shown as its figure, not as a memory address.
    "ignore_repr_types": r"Display",
    # Twice the resolution for high-density screens.
    "image_srcset": ["2x"],
    # The page of run times would load scripts from other servers.
    "write_computation_times": False,
}
# Figures are drawn without a screen; plt.show() in an example is intended.
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

# Numbers of the pages come from the tables of results.
import numbers_in_prose  # noqa: E402

rst_epilog = numbers_in_prose.substitutions()

html_theme = "pydata_sphinx_theme"
html_title = f"zslearn {version}"
html_static_path = ["_static"]
html_extra_path = ["llms.txt"]
html_css_files = ["zslearn.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}  # light or dark, following the reader's system
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # One row: the parts of index.rst, the first example, the search.
    "logo": {"text": "zslearn"},
    "navbar_align": "left",
    "navbar_persistent": ["first-steps", "search-button"],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "auto_examples/index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
}


# Formulas become MathML, which browsers render natively; MathJax would load a script from
# another server.


def _mathml(node: nodes.Node, as_block: bool) -> str:
    # docutils reads the 12 of \frac12 as one number.
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
    """Escape initials such as "E. Kodirov", which would start an enumerated list."""
    lines: list[str] = event[-1]
    lines[:] = [re.sub(r"^(?=[A-Z]\. )", r"\\", line) for line in lines]


def _changelog_in_rst(_app: Any, path: Path, _page: str, content: list[str]) -> None:
    """Convert CHANGELOG.md, which is also read on GitHub, to reStructuredText."""
    if path.name != "CHANGELOG.md":
        return
    text = content[0].partition("\n")[2]  # the page has its own title
    text = re.sub(r"\[(.*?)\]\(docs/([\w/]+)\.rst\)", r":doc:`\1 </\2>`", text)
    for sign, line in (("## ", "="), ("### ", "-")):
        text = re.sub(f"(?m)^{sign}(.*)$", lambda m, c=line: f"{m[1]}\n{c * len(m[1])}", text)
    content[0] = re.sub(r"(?m)(^\|.*\n)+", _table_in_rst, text)


def _table_in_rst(table: re.Match[str]) -> str:
    """Convert a table of Markdown to a list-table."""
    head, _, *rows = (line.strip("| ").split(" | ") for line in table[0].splitlines())
    cells = ["\n     - ".join(row) for row in (head, *rows)]
    return ".. list-table::\n   :header-rows: 1\n\n   * - " + "\n   * - ".join(cells) + "\n"


def setup(app: Any) -> None:
    app.connect("include-read", _changelog_in_rst)
    app.connect("autodoc-process-docstring", _keep_initials)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_displayed_math, None))
