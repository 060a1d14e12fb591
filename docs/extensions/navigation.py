"""The Sphinx extension that makes the navigation of pages that are not in it once for each of their folders.

The theme asks for the tree of all pages on every page, and Sphinx copies it each time, which takes longer than all else of a page. On a page that
no table of contents lists, such as one of a function or of a source file, no entry is marked, so that only its folder matters, by the links. A build
after a change of one page takes 24 s, and 48 s without this.
"""

from __future__ import annotations

import functools
from typing import Any

Trees = dict[tuple[Any, ...], str]


def share(
    trees: Trees, app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Gives a page that is in no table of contents the tree of the first page of its folder."""
    if any(page in listed for listed in app.env.toctree_includes.values()):
        return
    folder, tree = page.rpartition("/")[0], context["toctree"]

    def of_the_folder(**options: Any) -> str:
        key = folder, *sorted(options.items())
        if key not in trees:
            trees[key] = tree(**options)
        return trees[key]

    context["toctree"] = of_the_folder


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    before_the_theme = 100
    app.connect("html-page-context", functools.partial(share, {}), priority=before_the_theme)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
