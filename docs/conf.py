"""How the documentation is built: `make docs`. Nothing is fetched from the network."""

from __future__ import annotations

import warnings
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml

from zslearn import __version__

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

# The reference: one page for each public name of api.rst.
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_show_class_members = False  # the template of a class lists its members

# The examples.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    # The page of running times would load scripts from other servers.
    "write_computation_times": False,
}
# The pictures are made without a screen; a figure that is shown is not a mistake here.
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")

html_theme = "pydata_sphinx_theme"
html_title = f"zslearn {version}"
html_show_sourcelink = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


# Formulas become MathML, which browsers draw by themselves: the usual way loads a script from
# another server.


def _inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext()))
    raise nodes.SkipNode


def _displayed_math(translator: Any, node: nodes.math_block) -> None:
    formula = latex2mathml.tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="math">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (_inline_math, None), (_displayed_math, None))
