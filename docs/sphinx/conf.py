"""How Sphinx makes the site, for `make site`. The pages lie where a Git host shows them; pages.py adds to them.

The root of the repository is the source folder, so that links and pictures of the pages lead where they lead there.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

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

extensions = ["myst_nb", "sphinx_design", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [*pages.PATTERNS]
# Folders that Sphinx need not walk through.
exclude_patterns = [".*", "build", "dist", "src", "tests", "tools", "checkpoints", "**.bp"]
smartquotes = False
highlight_language = "text"  # of listings without a language that pages.py does not take for commands

myst_enable_extensions: list[str] = []  # a page has no more than Git hosts show; formulas are plain text
myst_heading_anchors = 4  # as Git hosts name them

nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_in_temp = True  # notebooks write data sets
nb_execution_timeout = 1800  # seconds of a cell: the first run of a machine compiles
nb_execution_show_tb = True
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
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
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "secondary_sidebar_items": ["page-toc", "sourcelink"],
    "primary_sidebar_end": [],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version", "theme-version"],
    "navigation_with_keys": False,
}

linkcheck_timeout = 30
linkcheck_retries = 2


def setup(app: Sphinx) -> None:
    """Connect what pages.py adds."""

    def read(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = pages.prepared(name, source[0])

    def document(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
        lines[:] = pages.docstring_as_rst("\n".join(lines)).split("\n")

    def finish(app: Sphinx, error: Exception | None) -> None:
        if error is None and app.builder.format == "html":
            pages.write_files(Path(app.outdir))

    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", document)
    app.connect("build-finished", finish)
