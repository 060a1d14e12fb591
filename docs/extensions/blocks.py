"""The Sphinx extension that marks blocks and pictures that `docs/static/namedax.css` shows in another way than the rest.

Text in aligned columns, such as a report, has the class `columns`: messages and other outputs wrap in a narrow window, and a report would lose its
columns, so it scrolls, as code does. In the dark theme, charts and drawings are inverted. A map of temperatures would have other colors than its scale
in the text, so such a picture has the class `pixels`, and keeps its colors: a page marks a WebP picture with it, and this extension marks a drawing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes

_TEXT = frozenset({"text", "none", "default", "myst-ansi", "output"})
_GAP = re.compile(r"\S {2,}\S")


def has_columns(text: str) -> bool:
    r"""Whether most lines of a block have a wide gap between words, as tables of figures have.

    >>> has_columns("layout   bytes\nbatch       12\nhidden   1,024")
    True
    >>> has_columns("AxisNotFoundError: sum: no axis 'bacth'. Did you mean 'batch'?")
    False
    """
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) > 1 and 2 * sum(bool(_GAP.search(line)) for line in lines) >= len(lines)


def has_pixels(file: Path) -> bool:
    """Whether a file is a drawing that contains pixels."""
    return file.suffix == ".svg" and file.exists() and b"<image" in file.read_bytes()


def mark(app: Any, doctree: nodes.document, name: str) -> None:
    """Adds the classes to the blocks and pictures of a page."""
    for node in doctree.findall(nodes.literal_block):
        if node.get("language", "default") in _TEXT and has_columns(node.astext()):
            node["classes"].append("columns")
    for image in doctree.findall(nodes.image):
        path = Path(app.srcdir) / image["uri"].lstrip("/")
        if has_pixels(path):
            image["classes"].append("pixels")


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("doctree-resolved", mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
