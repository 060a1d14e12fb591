"""How the site is built: `make docs`, by Sphinx with MyST, because the reference is read off the live objects.

The namespaces of namedax are filled when they are touched, so a tool that parses files would not see them. Pages are Markdown; those with a
kernel in their first lines are notebooks, which run while the site is built, and an exception in one fails the build.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

from tests.flags import WITHOUT_DEVICES  # noqa: E402 - after the path

# The kernels of the notebooks inherit it. They have one device, as a reader's laptop: a page sets up the others in its first cell. What a cell
# computes takes milliseconds, and to compile it as for users five times as long as without optimisations.
os.environ["XLA_FLAGS"] = WITHOUT_DEVICES
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Readers meet errors on purpose. A kernel shows the message alone: among the frames of a traceback nobody would find the sentence.
KERNELS = ROOT / "site" / ".ipython"
(KERNELS / "profile_default").mkdir(parents=True, exist_ok=True)
(KERNELS / "profile_default" / "ipython_kernel_config.py").write_text(
    "c = get_config()\nc.InteractiveShell.xmode = 'Minimal'\nc.InlineBackend.figure_formats = {'svg'}\n"
)
os.environ["IPYTHONDIR"] = str(KERNELS)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
)

import notebooks  # noqa: E402 - after the path

import namedax  # noqa: E402

project = "namedax"
author = "the namedax authors"
copyright = "the namedax authors, Apache-2.0"
version = release = namedax.__version__

extensions = [
    "myst_nb",
    "reference",
    "blocks",
    "dotted_names",
    "jax_pages",
    "navigation",
    "notebooks",
    "search_order",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_copybutton",
    "about",
]
templates_path = ["templates"]
exclude_patterns = ["extensions", "templates"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
nb_execution_mode = "cache"  # a notebook runs again when its cells change; `make docs` of a clean tree runs them all
nb_execution_cache_path = str(ROOT / "site" / ".notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "namedax"
html_baseurl = f"{notebooks.SITE}/"
GITHUB = (
    '<svg stroke="currentColor" fill="currentColor" stroke-width="0" viewBox="0 0 16 16"><path fill-rule="evenodd" d="M8 0C3.58 0 0 3.58 0 8c0'
    " 3.54 2.29 6.53 5.47 7.59.4.07.55-.17.55-.38 0-.19-.01-.82-.01-1.49-2.01.37-2.53-.49-2.69-.94-.09-.23-.48-.94-.82-1.13-.28-.15-.68-.52-.01-.53"
    ".63-.01 1.08.58 1.23.82.72 1.21 1.87.87 2.33.66.07-.52.28-.87.51-1.07-1.78-.2-3.64-.89-3.64-3.95 0-.87.31-1.59.82-2.15-.08-.2-.36-1.02.08-2.12"
    " 0 0 .67-.21 2.2.82.64-.18 1.32-.27 2-.27.68 0 1.36.09 2 .27 1.53-1.04 2.2-.82 2.2-.82.44 1.1.16 1.92.08 2.12.51.56.82 1.27.82 2.15 0 3.07-1.87"
    ' 3.75-3.65 3.95.29.25.54.73.54 1.48 0 1.07-.01 1.93-.01 2.2 0 .21.15.46.55.38A8.013 8.013 0 0 0 16 8c0-4.42-3.58-8-8-8z"></path></svg>'
)
html_theme_options = {
    "source_repository": notebooks.REPOSITORY,
    "source_branch": notebooks.SOURCES,
    "source_directory": "docs/",
    "footer_icons": [{"name": "GitHub", "url": notebooks.REPOSITORY, "html": GITHUB, "class": ""}],
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/repository.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_static_path = ["static"]
html_css_files = ["namedax.css"]
html_logo = html_favicon = "static/logo.svg"
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
