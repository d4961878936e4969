"""How Sphinx makes the site of these pages: `make docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import reference

project = "xbench"
copyright = "the authors of xbench, Apache 2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "xbench"
html_static_path: list[str] = []
exclude_patterns = ["studies/*/*.jsonl"]
myst_heading_anchors = 3
myst_enable_extensions = ["fieldlist"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Tables are printed under headings of the third level, as `xbench show --markdown` does.
suppress_warnings = ["myst.header"]

reference.write(Path(__file__).parent / "reference")
