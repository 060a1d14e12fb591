"""How the site is built: `make docs`, by Sphinx with MyST, because the reference is read off the live objects.

The namespaces of namedax are filled when they are touched, so a tool that parses files would not see them. Pages are Markdown; those with a
kernel in their first lines are notebooks, which run while the site is built, and an exception in one fails the build.
"""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

from tests.flags import FEW_OPTIMISATIONS  # noqa: E402 - after the path

# The kernels of the notebooks inherit it: every page may count on eight devices, as a reader's laptop has after one line of set-up. What
# a cell computes takes milliseconds, and to compile it as for users five times as long as without optimisations.
os.environ.setdefault("XLA_FLAGS", FEW_OPTIMISATIONS)
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

import namedax  # noqa: E402 - after the devices are said

project = "namedax"
author = "the namedax authors"
copyright = "the namedax authors, Apache-2.0"
version = release = namedax.__version__

extensions = [
    "myst_nb",
    "reference",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_copybutton",
    "about",
]
exclude_patterns = ["extensions"]

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
html_static_path = ["static"]
html_css_files = ["namedax.css"]
html_favicon = "static/icon.svg"
html_show_sourcelink = False
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
