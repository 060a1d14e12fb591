"""Draw the figures of the guides, and compute the outputs that the guides show.

    python tools/guide_figures.py               # writes docs/static/guides/*.svg
    python tools/guide_figures.py plan blocks   # only these
    python tools/guide_figures.py --printed docs/guides/transfer.md   # writes the outputs of a page

A figure is drawn by the program of its page: the Python blocks before the figure run, and the figure is what
`report.draw`, `plan.draw` or `nx.draw` returns, narrower than usual so that it can be read on a phone. Its colors are
those of the page in the light and in the dark theme, so a page includes its text (```` ```{raw} html ````).

An output is a block of text below the comment `<!-- printed by the blocks above -->`. It is what the Python blocks
since the output before have printed in a terminal of 80 columns; the comment may have another number (`..., in 88
columns -->`). `tests/house/test_guide_figures.py` compares both.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
GUIDES, FOLDER = ROOT / "docs" / "guides", ROOT / "docs" / "static" / "guides"
MARK = r"<!-- printed by the blocks above(?:, in \d+ columns)? -->"
_PIECE = re.compile(
    rf"```(?:python|\{{code-cell\}}[^\n]*)\n(?P<code>.*?)```|{MARK}\n+```text\n(?P<printed>.*?)```"
    r"|```\{raw\} html\n:file: \.\./static/guides/(?P<figure>\w+)\.svg\n```",
    re.DOTALL,
)

Scope = dict[str, Any]

#: The page of each figure, its title, and the function that draws it after the blocks of the page.
FIGURES: dict[str, tuple[str, str, Callable[[Scope], Any]]] = {
    "report": (
        "see_what_it_sends",
        "Bytes that a device sends over each mesh axis, with their causes",
        lambda scope: scope["report"].draw(),
    ),
    "timeline": (
        "machines",
        "Computation and communication of a step over time",
        lambda scope: scope["report"].draw(scope["nx"].machines.v5e),
    ),
    "plan": (
        "choose_a_layout",
        "Layouts by memory and time, with the Pareto front and a lower bound",
        lambda scope: scope["plan"].draw(),
    ),
    "pipeline": (
        "pipelines",
        "Schedule of a pipeline of four stages, with idle ticks",
        lambda scope: scope["report"].draw(pipeline=True),
    ),
    "blocks": (
        "pictures",
        "Blocks of two arrays on a mesh of 4 by 2 devices",
        lambda scope: scope["nx"].draw(scope["placed"]),
    ),
    "types": (
        "pictures",
        "Blocks of a large parameter on 1,024 devices",
        lambda scope: scope["nx"].draw(
            scope["types"], {"embed": "data", "mlp": "model"}, scope["large"]
        ),
    ),
    "padded": (
        "pictures",
        "Blocks of an array with ten rows on four devices, with padding",
        lambda scope: scope["nx"].draw(scope["x"], {"batch": "x"}, scope["mesh"], padded=True),
    ),
}

# The widths of drawings for a column of text, in inches.
_NARROW: tuple[tuple[str, dict[str, Any]], ...] = (
    ("traffic", {"_WIDTH": 5.6, "_LEFT": 1.25, "_DOTS": 4}),
    ("timeline", {"_WIDTH": 6.0, "_PLOT": 6.0 - 2 * 0.25 - 1.25 - 0.3, "_PIPELINE_WIDTH": 6.6}),
    ("front", {"_WIDTH": 6.2, "_PLOT": 3.4, "_MOST": 14, "_COLUMNS": 1}),
    ("arrays", {"_PAGE": 5.0}),
    ("canvas", {"_FIGURE": 0.68}),
)
# Colors of a drawing, and those of the page. Text on a colored ground keeps its color, so it is marked first.
_THEME = {
    "#22272e": "currentColor",
    "#5f6770": "var(--color-foreground-secondary, #5f6770)",
    "#a9afb7": "var(--color-foreground-muted, #a9afb7)",
    "#d5dae0": "var(--color-background-border, #d5dae0)",
    "#ffffff": "var(--color-background-primary, #ffffff)",
    "#fefefe": "#ffffff",
    "#22272f": "#22272e",
}
_MARKED = {"#ffffff": (254 / 255,) * 3, "#22272e": (0x22 / 255, 0x27 / 255, 0x2F / 255)}


def pieces(page: Path) -> list[tuple[str, str]]:
    """Return the Python blocks, the printed outputs and the figures of a page, in order."""
    found = []
    for match in _PIECE.finditer(page.read_text(encoding="utf-8")):
        (kind,) = (name for name, text in match.groupdict().items() if text is not None)
        found.append((kind, match[kind]))
    return found


def run(page: Path, until: str = "") -> Iterator[tuple[str, str, Scope]]:
    """Run the blocks of a page, and yield each output, or figure, with what the page shows.

    Args:
      page: the page.
      until: the figure after which nothing is run; default: the whole page.

    Yields:
      What was printed since the output before (empty for a figure), the text of the output or the
      name of the figure, and the variables of the program.
    """
    scope: Scope = {"__name__": "page"}
    printed = io.StringIO()
    found = pieces(page)
    if until:
        found = found[: found.index(("figure", until)) + 1]
    columns = re.search(r"<!-- printed by the blocks above, in (\d+)", page.read_text()) or [
        "",
        "80",
    ]
    last = max((i for i, (kind, _) in enumerate(found) if kind != "code"), default=-1)
    for kind, text in found[: last + 1]:
        if kind == "figure":
            yield "", text, scope
        elif kind == "printed":
            yield "\n".join(map(str.rstrip, printed.getvalue().strip().splitlines())), text, scope
            printed = io.StringIO()
        else:
            with (
                mock.patch.dict(os.environ, {"COLUMNS": columns[1]}),
                contextlib.redirect_stdout(printed),
            ):
                execute(text, scope)


def execute(text: str, scope: Scope) -> None:
    """Execute a block as a file `model.py`, whose lines a report can show.

    Statements that raise an error, by the comment at their end, are left out.
    """
    name = str(ROOT / f"block{hash(text) & 0xFFFFFFFF:x}" / "model.py")
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    lines, tree = text.splitlines(), ast.parse(text)
    tree.body = [
        node
        for node in tree.body
        if not re.match(r" *# \w+Error\b", lines[(node.end_lineno or 1) - 1][node.end_col_offset :])
    ]
    exec(compile(tree, name, "exec"), scope)


def is_excerpt(shown: str) -> bool:
    """Return True if lines are left out of an output, which the page marks with lines of three dots."""
    return "..." in map(str.strip, shown.splitlines())


def matches(have: str, shown: str) -> bool:
    """Return True if a page shows an output, or parts of it in order."""
    if not is_excerpt(shown):
        return have == shown.rstrip("\n")
    at = 0
    for part in re.split(r"^ *\.\.\.\n", f"\n{shown}", flags=re.MULTILINE):
        if part.strip():
            found = f"\n{have}\n".find(part, at)
            if found < 0:
                return False
            at = found + len(part) - 1
    return True


def draw(name: str) -> str:
    """Return a figure as SVG."""
    page, title, function = FIGURES[name]
    *_, (_, _, scope) = run(GUIDES / f"{page}.md", name)
    return picture(function, scope, title)


def picture(function: Callable[[Scope], Any], scope: Scope, title: str) -> str:
    """Draw for a column of text, in colors of the page."""
    import importlib

    import matplotlib

    from namedax.insight.drawing import canvas

    drawing = {
        which: importlib.import_module(f"namedax.insight.drawing.{which}")
        for which in ("traffic", "timeline", "front", "arrays", "canvas")
    }

    def ink_on(color: Any) -> Any:
        return _MARKED["#ffffff" if plain(color) == canvas.PAPER else "#22272e"]

    plain = canvas.ink_on
    with contextlib.ExitStack() as stack:
        for which, values in _NARROW:
            stack.enter_context(mock.patch.multiple(drawing[which], **values))
        for module in drawing.values():
            if hasattr(module, "ink_on"):
                stack.enter_context(mock.patch.object(module, "ink_on", ink_on))
        figure = function(scope)
        settings = {"svg.hashsalt": title, "svg.fonttype": "none"}
        with matplotlib.style.context("default"), matplotlib.rc_context(settings):
            text = io.StringIO()
            figure.savefig(text, format="svg", metadata={"Date": None})
    return themed(text.getvalue(), title)


def themed(text: str, title: str) -> str:
    """Return the SVG of matplotlib in colors of the page, with its words as text."""
    box = re.search(r'viewBox="0 0 ([\d.]+) [\d.]+"', text)
    assert box
    text = re.sub(r"^.*?<svg\b[^>]*>\s*<metadata>.*?</metadata>\n?", "", text, flags=re.DOTALL)
    for color, of_page in _THEME.items():
        text = text.replace(color, of_page)
    text = re.sub(r' id="[a-z0-9]+_\d+"', "", text)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    text = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", text)
    text = re.sub(r"^ *<!--.*?-->\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"<style.*?</style>", "", text)  # it would hold for the whole page
    text = re.sub(r" *\n(?=[LCQz])", " ", text)
    width = round(1.5 * float(box[1]))
    head = (
        f'<svg class="figure" xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box[0]}'
        f' role="img" style="width:{width}px;max-width:100%;height:auto;stroke-linejoin:round">\n <title>{escape(title)}</title>\n'
    )
    return head + text.rstrip() + "\n"


def words(text: str) -> list[str]:
    """Return the title and the texts of a figure, which do not depend on the version of matplotlib."""
    return re.findall(r"<(?:text|title)\b[^>]*>([^<]*)<", text)


def write_outputs(page: Path) -> None:
    """Write what the blocks of a page print below them, except for excerpts."""
    outputs = iter(
        [
            shown if is_excerpt(shown) else f"{have}\n"
            for have, shown, _ in run(page)
            if shown not in FIGURES
        ]
    )
    text = re.sub(
        rf"({MARK}\n+```text\n).*?(?=```)",
        lambda match: f"{match[1]}{next(outputs)}",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Write figures, or print outputs."""
    parser = argparse.ArgumentParser(description="Draw the figures of the guides.")
    parser.add_argument("names", nargs="*", help="figures, or with --printed pages")
    parser.add_argument("--printed", action="store_true", help="write the outputs of pages")
    options = parser.parse_args()
    if options.printed:
        for page in map(Path, options.names):
            write_outputs(page)
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in options.names or FIGURES:
        (FOLDER / f"{name}.svg").write_text(draw(name), encoding="utf-8")
        print(f"docs/static/guides/{name}.svg", file=sys.stderr)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
