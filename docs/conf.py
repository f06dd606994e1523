"""Sphinx: ``python -m sphinx -W -b html docs build/docs``."""

import layoutkit

project = "layoutkit"
author = "the layoutkit authors"
release = version = layoutkit.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_title = "layoutkit"
myst_heading_anchors = 3
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
suppress_warnings = ["myst.xref_missing"]
