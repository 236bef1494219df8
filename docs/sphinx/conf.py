"""How Sphinx makes the site, for `make site`. The pages lie where a Git host shows them; pages.py adds to them.

The root of the repository is the source folder, so that links and pictures of the pages lead where they lead there.
"""

import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import pages  # noqa: E402

from ridgeline.version import VERSION  # noqa: E402

project = "Ridgeline"
author = "The Ridgeline developers"
copyright = author
version = release = VERSION
language = "en"

extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [*pages.PATTERNS]
# Folders that Sphinx need not walk through.
exclude_patterns = [".*", "build", "dist", "src", "tests", "tools", "checkpoints", "**.bp"]
smartquotes = False
highlight_language = "text"  # of listings without a language that pages.py does not take for commands

# A page has no more than Git hosts show: formulas are $...$ and $$...$$.
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False  # "$5 and $6" is text
myst_dmath_allow_digits = False
html_math_renderer = "mathml"  # written below; Sphinx's own would load a script from another host
myst_heading_anchors = 4  # as Git hosts name them

nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_in_temp = True  # notebooks write data sets
nb_execution_timeout = 1800  # seconds of a cell: the first run of a machine compiles
nb_execution_show_tb = True
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True  # as fields, because autodoc describes the properties of a class too
autodoc_typehints_format = "short"
python_display_short_literal_types = True
python_maximum_signature_line_length = 90

templates_path = ["templates"]
html_theme = "pydata_sphinx_theme"
html_title = "Ridgeline"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["navigation.html"]}
html_theme_options = {
    "navbar_center": [],
    "navbar_persistent": ["search-button"],  # on narrow screens too
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "article_footer_items": ["sourcelink"],
    "primary_sidebar_end": [],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version", "theme-version"],
    "navigation_with_keys": False,
}

# Sphinx calls the attributes of a class "Variables".
next(kind for kind in PyObject.doc_field_types if kind.name == "variable").label = "Attributes"

LONG_TEXT = (
    60  # characters of a cell, whose column holds sentences, and of a formula that does not fit a narrow line
)

linkcheck_timeout = 30
linkcheck_retries = 2


def write_formula(writer: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula as MathML, which browsers show without a script. An unknown command is a warning."""
    # docutils knows neither \dots nor \tag.
    text = node.astext().replace("\\dots", "\\ldots")
    text = re.sub(r"\\tag\{([^}]+)\}", r"\\qquad\\text{(\1)}", text)
    is_block = isinstance(node, nodes.math_block)
    try:
        mathml = pages.repaired_formula(tex2mathml(text, as_block=is_block))
        if is_block:
            mathml = f'<div class="formula">{mathml}</div>'
        elif len(text) > LONG_TEXT:
            mathml = f'<span class="long-formula">{mathml}</span>'
        writer.body.append(mathml)
    except (MathError, IndexError) as error:
        logging.getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
    raise nodes.SkipNode


def mark_prose(app: Sphinx, document: nodes.document) -> None:
    """Mark the cells of columns with long texts, which site.css keeps from becoming narrow beside other columns."""
    for table in document.findall(nodes.table):
        rows = [list(row) for row in table.findall(nodes.row)]
        for column in range(max(map(len, rows), default=0)):
            cells = [row[column] for row in rows if column < len(row)]
            if max(len(cell.astext()) for cell in cells) > LONG_TEXT:
                for cell in cells:
                    cell["classes"].append("prose")


def setup(app: Sphinx) -> None:
    """Connect what pages.py adds, and the writer of formulas."""

    def read(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = pages.prepared(name, source[0])

    def document(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
        lines[:] = pages.docstring_as_rst("\n".join(lines)).split("\n")

    def finish(app: Sphinx, error: Exception | None) -> None:
        if error is None and app.builder.format == "html":
            pages.write_files(Path(app.outdir))

    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", document, priority=400)  # before napoleon
    app.connect("doctree-read", mark_prose)
    app.connect("build-finished", finish)
