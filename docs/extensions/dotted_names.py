"""The Sphinx extension that lets long names, such as `nx.scipy.spatial.transform`, break after their dots.

A sidebar is narrower than such a name, and so is a heading on a phone. Without these places the browser breaks a name anywhere.
"""

from __future__ import annotations

import re
from typing import Any

_NAME = re.compile(r"(?<=>)(?:\w+\.)+\w+(?:\(\))?(?=<)")
_HEADING = re.compile(r"<h[1-6]>.*?</h[1-6]>", re.DOTALL)


def breakable(html: str) -> str:
    """HTML with a place to break after each dot of a name that is the complete text of an element.

    >>> breakable('<a href="x.y.html">nx.scipy.stats</a> <a>See nx.sum. Then</a>')
    '<a href="x.y.html">nx.<wbr>scipy.<wbr>stats</a> <a>See nx.sum. Then</a>'
    """
    return _NAME.sub(lambda name: name[0].replace(".", ".<wbr>"), html)


def headings(html: str) -> str:
    """A page with such places in its headings only.

    >>> headings('<h1>nx.scipy.fft<a href="#x">#</a></h1><p>nx.sum</p>')
    '<h1>nx.<wbr>scipy.<wbr>fft<a href="#x">#</a></h1><p>nx.sum</p>'
    """
    return _HEADING.sub(lambda heading: breakable(heading[0]), html)


def mark(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Changes the sidebars and the headings of a page."""
    for part, change in (
        ("furo_navigation_tree", breakable),
        ("toc", breakable),
        ("body", headings),
    ):
        if isinstance(context.get(part), str):
            context[part] = change(context[part])


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("html-page-context", mark, priority=900)  # after the theme has made its sidebar
    return {"parallel_read_safe": True, "parallel_write_safe": True}
