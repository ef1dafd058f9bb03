"""The configuration of Sphinx; build.py writes its pages."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

import opwright

project = "opwright"
release = opwright.__version__
html_title = f"opwright {release}"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4

# Docstrings are numpydoc, and quote names in single backticks.
default_role = "code"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # several names in one line
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False

# Several classes may have an attribute of the same name; the pages contain explicit links.
suppress_warnings = ["ref.python"]


def setup(app: Sphinx) -> None:
    """Register functions that run before napoleon reads a docstring and before the theme runs."""
    app.connect("autodoc-process-docstring", _keep_whole, priority=400)
    app.connect("html-page-context", _share_toctree, priority=400)


def _keep_whole(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Begin the docstring of a property with an empty comment.

    Napoleon reads the text before a colon in the first line as the property's type.
    """
    if what in ("property", "attribute"):
        lines[:0] = ["..", ""]


def _share_toctree(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Resolve the side-bar list once for all operator pages, since it does not contain them."""
    folder, slash, name = page.partition("/")
    if folder != "operators" or not slash or name == "index":
        return
    make = context["toctree"]

    def toctree(**options: Any) -> str:
        key = repr(sorted(options.items()))
        if key not in _toctrees:
            _toctrees[key] = make(**options)
        return _toctrees[key]

    context["toctree"] = toctree


_toctrees: dict[str, str] = {}
