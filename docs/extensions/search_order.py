"""The Sphinx extension that sorts search results: an entry of the reference, then guides, then other entries of the same name.

Without it, `cumsum` finds `nx.cumsum`, `nx.lax.cumsum` and `nx.numpy.cumsum` before any guide. The order is in `search_order.js`, in which
Sphinx finds a function for it (`html_search_scorer`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ORDER = Path(__file__).with_suffix(".js")
#: Namespaces of JAX, after all others.
MIRRORS = ("nx.lax", "nx.numpy", "nx.scipy")
ENTRIES = "reference/api/"


def copies(entries: Iterable[str]) -> set[str]:
    """The entries whose name an earlier namespace has, too, and those after two of that name.

    >>> sorted(copies(["nx.lax.abs", "nx.lax.psum", "nx.numpy.abs", "nx.numpy.inner", "nx.abs"]))
    ['nx.lax.abs', 'nx.numpy.abs']
    >>> sorted(copies(f"nx.scipy.stats.{name}.pdf" for name in ("beta", "norm", "t", "uniform")))
    ['nx.scipy.stats.t.pdf', 'nx.scipy.stats.uniform.pdf']
    """
    by_name: dict[str, list[tuple[int, int, str]]] = {}
    for entry in entries:
        order = next((n for n, space in enumerate(MIRRORS, 1) if entry.startswith(f"{space}.")), 0)
        by_name.setdefault(entry.rpartition(".")[2], []).append((order, entry.count("."), entry))
    found: set[str] = set()
    for same in map(sorted, by_name.values()):
        found.update(
            entry for n, (order, _, entry) in enumerate(same) if n > 1 or order > same[0][0]
        )
    return found


def scorer(pages: Iterable[str]) -> str:
    """The program that Sphinx includes in the search page."""
    entries = [
        page.removeprefix(ENTRIES).rstrip("_")  # of pages whose names differ only in case
        for page in pages
        if page.startswith(f"{ENTRIES}nx.")
    ]
    return f"const copies = new Set({json.dumps(sorted(copies(entries)))});\n{ORDER.read_text()}"


def write(app: Any, env: Any) -> None:
    """Writes the program for the pages of this site, before Sphinx reads it."""
    Path(app.config.html_search_scorer).write_text(scorer(sorted(env.found_docs)))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""

    def choose(app: Any, config: Any) -> None:
        config.html_search_scorer = str(Path(app.doctreedir) / "search_order.js")

    app.connect("config-inited", choose)
    app.connect("env-updated", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
