"""The Sphinx extension that writes the reference: `docs/reference/api/`, which is not kept in git, and a page for each source file.

A page is written only when its text has changed, so that a second build reads only what is new.
"""

from __future__ import annotations

import html
import pathlib
from collections.abc import Iterator
from typing import Any

import reference_pages
from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from reference_names import PACKAGE, ROOT

FOLDER = ROOT / "docs" / "reference" / "api"


def write(folder: pathlib.Path) -> None:
    """Writes the pages that changed, and removes those that are no longer there."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = reference_pages.pages()
    for file in folder.glob("*.rst"):
        if file.stem not in texts:
            file.unlink()
    for name, text in texts.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def source_page(place: str) -> tuple[str, str]:
    """The page of a source file, and the anchor of a line: of `"namedax/xmap/wrapper.py:57"`."""
    path, _, line = place.partition(":")
    return f"source/{path}", f"line-{line}"


def source_role(
    role: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = ()
) -> Any:
    """A link to a line of the source, which is on a page of this site."""
    app = inliner.document.settings.env.app
    page, anchor = source_page(text)
    node = nodes.reference(raw, "", nodes.literal(text, text))
    node["refuri"] = (
        f"{app.builder.get_relative_uri(inliner.document.settings.env.docname, page)}#{anchor}"
    )
    return [node], []


def source_pages(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every module of the package, coloured, with an anchor for each line."""
    formatter = HtmlFormatter(
        linenos="inline", lineanchors="line", anchorlinenos=True, wrapcode=True
    )
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        body = (
            f"<h1>{html.escape(path)}</h1>{highlight(file.read_text(), PythonLexer(), formatter)}"
        )
        yield f"source/{path}", {"title": path, "body": body}, "page.html"


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_role("source", source_role)
    app.connect("builder-inited", lambda app: write(FOLDER))
    app.connect("html-collect-pages", source_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
