"""What the built site is checked by: every link, and every page in a browser, as a reader would have it.

    make docs-check                                   # builds the site and checks all of it
    python tools/site_check.py --links                # the links alone, without a browser
    python tools/site_check.py --pictures site/shots  # and pictures of some pages, at both widths and in both themes

Without a browser: a link to a page, a file or a heading that is not there, and an image, a style or a script that is not there or lies
on another machine (the site is read without a network). With Chromium or Chrome, which `tools/browser.py` drives: an error in the
console, a request that fails or goes elsewhere, an image that does not show, a page that is wider than its window at 400 or 1,400 pixels,
a block of code, an output or a table that is cropped at 1,400 pixels, or at 400 without a way to scroll to its end, code that wraps or a
description in a narrow column at 400, text that cannot be read on its ground, in the light and in the dark theme, and a word that the search
does not find, or finds in three functions of that name before a guide. The sources of the pages are read, too:
code has at most 80 columns, and 44 where two blocks stand side by side; and sizes have at most two decimals.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import http.server
import re
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).parents[1])]

from tools.browser import Browser, NoBrowserError, Page

ROOT = Path(__file__).parents[1]
WIDTHS = (1400, 400)
THEMES = ("light", "dark")
BROWSERS = 2  # at once
# Lower than what is asked of prose (4.5), since code is coloured; what is below it is not read by anybody.
CONTRAST = 3.0
# Code of the pages, in columns; and where two blocks stand side by side.
COLUMNS, COLUMNS_BESIDE = 80, 44
# What a reader types, and the page that has to be among the first ten.
SEARCHES = {
    "xmap": "reference/api/nx.xmap",
    "einsum": "reference/api/nx.einsum",
    "mesh": "tutorials/3_eight_devices",
    "debug print": "guides/debugging",
    "checkify": "guides/runtime_checks",
    "runtime assertion": "guides/runtime_checks",
    "SerialLoop": "reference/api/nx.SerialLoop",
    "gradient accumulation": "guides/layouts",
    "pipeline": "guides/pipelines",
    "experts": "guides/experts",
    "ragged": "reference/api/nx.Ragged",
    "padding": "guides/uneven_sizes",
    "explain": "reference/api/nx.explain",
    "plan": "guides/choose_a_layout",
    "draw": "reference/api/nx.draw",
    "roofline": "guides/machines",
    "profile": "guides/profiling",
    "perfetto": "guides/profiling",
    "orbax": "guides/checkpoints",
    "xarray": "guides/interoperation",
    "safetensors": "guides/interoperation",
    "diffrax": "guides/solvers",
    "checked": "guides/typing",
    "custom_vjp": "reference/api/nx.custom_vjp",
    "scan": "reference/api/nx.scan",
    "processes": "guides/distributed",
    "UnevenAxisError": "errors",
    "top-k": "recipes/sharded_top_k_and_sampling",
    "shuffle": "recipes/shuffle_without_gather",
    "nearest neighbors": "recipes/nearest_neighbors",
    "climatology": "recipes/climatology",
    "glossary": "glossary",
    "halo": "recipes/halo_exchange",
    "cumsum": "guides/operations",
    "checkpoint": "guides/checkpoints",
    "softmax": "tutorials/2_a_network",
}
API = "reference/api/"
# Whose pictures a person looks at before a release.
PICTURED = (
    "index",
    "tutorials/2_a_network",
    "tutorials/5_science",
    "guides/concepts",
    "guides/layouts",
    "guides/loops_in_time",
    "migration/from_xmap",
    "reference/index",
    "reference/api/nx.einsum",
    "errors",
    "performance",
    "about/laws",
)


def main() -> int:
    """The exit status: 1 if something is wrong with the site, 2 if it could not be looked at."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--site",
        type=Path,
        default=ROOT / "site" / "html",
        help="the folder that `make docs` built",
    )
    parser.add_argument("--links", action="store_true", help="the links alone, without a browser")
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="where to save pictures of some pages"
    )
    parser.add_argument(
        "--pages", nargs="*", metavar="PAGE", help="of these pages only, such as guides/concepts"
    )
    options = parser.parse_args()
    if not (options.site / "index.html").exists():
        print(
            f"site-check: there is no site in {options.site}; `make docs` builds it",
            file=sys.stderr,
        )
        return 2
    problems = [*broken_links(options.site), *long_sizes(options.site)]
    said = f"{len(pages_of(options.site))} pages, and every link in them"
    if not options.links:
        problems += wide_code(ROOT / "docs")
        scrolled = 0
        try:
            found, scrolled = in_the_browser(options.site, options.pages, options.pictures)
            problems += found
        except NoBrowserError as error:
            problems.append(str(error))
        said += (
            f"; opened at {' and '.join(map(str, WIDTHS))} pixels, {' and '.join(THEMES)};"
            f" {len(SEARCHES)} words searched for; {scrolled} blocks and tables scroll at"
            f" {WIDTHS[1]} pixels"
        )
    for problem in problems:
        print(f"site-check: {problem}", file=sys.stderr)
    if not problems:
        print(f"site-check: {said}")
    return 1 if problems else 0


def pages_of(site: Path) -> list[str]:
    """The pages of a site by the path of their source, such as `guides/concepts`."""
    return sorted(
        path.relative_to(site).with_suffix("").as_posix()
        for path in site.rglob("*.html")
        if not path.relative_to(site).parts[0].startswith("_")
    )


# --- links --------------------------------------------------------------------------------------------


class Links(HTMLParser):
    """What a page points to, and what can be pointed to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[tuple[str, str, bool]] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Notes the anchors and the targets of one tag; what the page cannot be shown without is marked."""
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src", "data"):
                shown = tag in ("img", "script", "iframe", "object", "source") or (
                    tag == "link" and ("rel", "stylesheet") in attributes
                )
                self.targets.append((tag, value, shown))


def broken_links(site: Path) -> Iterator[str]:
    """What pages point to and is not there, and what they cannot be shown without and lies elsewhere."""
    read = functools.cache(lambda path: Links(path.read_text(encoding="utf-8")))
    for page in pages_of(site):
        source = site / f"{page}.html"
        for tag, target, shown in read(source).targets:
            parts = urlsplit(target)
            if parts.scheme in ("mailto", "data") or target == "#":
                continue
            if parts.scheme or parts.netloc:
                if shown:
                    yield f"{page}: <{tag}> is fetched from elsewhere: {target}"
                continue
            path = source if not parts.path else (source.parent / unquote(parts.path)).resolve()
            if path.is_dir():
                path /= "index.html"
            if not path.is_file() or site.resolve() not in path.resolve().parents:
                yield f"{page}: <{tag}> points to {target}, which is not there"
            elif (
                parts.fragment
                and path.suffix == ".html"
                and unquote(parts.fragment) not in read(path).anchors
            ):
                yield f"{page}: <{tag}> points to {target}, and that page has no such place"


# --- texts ------------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^(`{3,}|:{3,})(.*)$")
_PYTHON = re.compile(r"(?:python|py|\{code-block\} python)\b|\{code-cell\}")
_SIZE = re.compile(r"\d\.\d{3,} ?[KMGTP]?i?B\b")


def wide_code(docs: Path) -> Iterator[str]:
    """Lines of Python in the pages that are too long for a block, or for one of two blocks side by side."""
    for path in sorted(docs.rglob("*.md")):
        opened: list[tuple[str, str]] = []  # fences and what they are
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            fence = _FENCE.match(line)
            if fence and not fence[2].strip() and opened and opened[-1][0] == fence[1]:
                opened.pop()
            elif fence and not (opened and opened[-1][0][0] == "`"):
                opened.append((fence[1], fence[2].strip()))
            elif opened and _PYTHON.match(opened[-1][1]):
                beside = any("{grid-item}" in what for _, what in opened)
                limit = COLUMNS_BESIDE if beside else COLUMNS
                if len(line) > limit and not line.startswith(":"):
                    yield (
                        f"{path.relative_to(docs.parent)}:{number}: {len(line)} columns of code,"
                        f" more than {limit}: {line.strip()[:40]}"
                    )


def long_sizes(site: Path) -> Iterator[str]:
    """Sizes with more than two decimals, which nobody reads, such as 0.00390625 KiB."""
    for page in pages_of(site):
        if not page.startswith("source/"):
            for size in sorted({*_SIZE.findall((site / f"{page}.html").read_text("utf-8"))}):
                yield f"{page}: a size with too many digits: {size}"


# --- in a browser -------------------------------------------------------------------------------------


def in_the_browser(
    site: Path, pages: list[str] | None, pictures: Path | None
) -> tuple[list[str], int]:
    """What is wrong with pages when they are shown, and which words are not found; by two browsers, which share the pages.

    And how many blocks and tables scroll on a phone.
    """
    known = pages_of(site)
    with served(site) as address, concurrent.futures.ThreadPoolExecutor(BROWSERS) as pool:
        shares = [(pages or known)[first::BROWSERS] for first in range(BROWSERS)]
        found_by = list(pool.map(functools.partial(shown_all, address), shares))
        problems = [problem for share, _ in found_by for problem in share]
        with Browser() as browser:
            page = browser.page()
            for words, wanted in SEARCHES.items() if not pages else ():
                problems += found(page, address, words, wanted)
            if pictures is not None:
                for name in pages or PICTURED:
                    picture(page, f"{address}/{name}.html", pictures / name.replace("/", "_"))
    return problems, sum(scrolled for _, scrolled in found_by)


def shown_all(address: str, names: list[str]) -> tuple[list[str], int]:
    """What is wrong with some pages, each opened in one and the same browser, and how many blocks of them scroll on a phone."""
    problems: list[str] = []
    scrolled = 0
    if names:
        with Browser() as browser:
            page = browser.page()
            for name in names:
                problems += shown(page, f"{address}/{name}.html", name)
                scrolled += len(page.evaluate(_CROPPED % "true"))  # as `shown` has left it
    return problems, scrolled


def shown(page: Page, url: str, name: str) -> Iterator[str]:
    """What is wrong with a page in its widths and themes. A theme changes no width, and a width no colour."""
    origin = "/".join(url.split("/")[:3])
    page.open(url, WIDTHS[0], THEMES[0])
    for source in page.evaluate(_IMAGES):
        yield f"{name}: the image {source} does not show"
    yield from wide(page, name, WIDTHS[0])
    for block in page.evaluate(_CROPPED % "true"):
        yield f"{name}: cropped in a window of {WIDTHS[0]} pixels: {block}"
    yield from faint(page, name, THEMES[0])
    page.look(WIDTHS[0], THEMES[1])
    yield from faint(page, name, THEMES[1])
    page.look(WIDTHS[1], THEMES[1])
    yield from wide(page, name, WIDTHS[1])
    for block in page.evaluate(_CROPPED % "false"):
        yield f"{name}: hidden in a window of {WIDTHS[1]} pixels: {block}"
    for block in page.evaluate(_WRAPPED):
        yield f"{name}: code wraps in a window of {WIDTHS[1]} pixels: {block}"
    for cell in page.evaluate(_NARROW):
        yield f"{name}: a narrow description in a window of {WIDTHS[1]} pixels: {cell}"
    for text in page.errors(origin):
        yield f"{name}: {text}"


def wide(page: Page, name: str, width: int) -> Iterator[str]:
    """What makes a page scroll sideways."""
    for element in page.evaluate(_TOO_WIDE):
        yield f"{name}: wider than a window of {width} pixels: {element}"


def faint(page: Page, name: str, theme: str) -> Iterator[str]:
    """What can hardly be read."""
    for element in page.evaluate(_FAINT % CONTRAST):
        yield f"{name}: can hardly be read in the {theme} theme: {element}"


def found(page: Page, address: str, words: str, wanted: str) -> Iterator[str]:
    """Whether a search has a page among its first ten, and a guide before the third function of that name."""
    page.open(f"{address}/search.html?q={quote(words)}", WIDTHS[0], THEMES[0])
    hits = [
        urlsplit(hit).path.removeprefix("/").removesuffix(".html") for hit in page.evaluate(_HITS)
    ]
    first, pages = hits[:10], list(dict.fromkeys(hits))
    of_that_name = [name for name in pages if name.startswith(API) and name.endswith(f".{words}")]
    guides = [name for name in pages if not name.startswith(("reference/", "about/"))]
    if guides and of_that_name[2:] and pages.index(guides[0]) > pages.index(of_that_name[2]):
        yield f"the search for {words!r} finds {of_that_name[2]} before {guides[0]}"
    if wanted not in first:
        yield (
            f"the search for {words!r} does not find {wanted} among its first ten pages, but"
            f" {', '.join(first) or 'nothing'}"
        )
    for text in page.errors(address):
        yield f"the search for {words!r}: {text}"


def picture(page: Page, url: str, stem: Path) -> None:
    """Saves a page as it is seen, in its widths and themes."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    page.open(url, WIDTHS[0], THEMES[0])
    for width in WIDTHS:
        for theme in THEMES:
            page.look(width, theme)
            stem.with_name(f"{stem.name}_{width}_{theme}.png").write_bytes(page.picture())


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing: what is missing is told by the browser."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """A folder at an address of this machine."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


_IMAGES = """(async () => {
  const images = [...document.images];
  images.forEach(i => { i.loading = "eager"; });
  await Promise.all(images.map(i => i.decode().catch(() => null)));
  return images.filter(i => !i.naturalWidth).map(i => i.getAttribute("src"));
})()"""

# What reaches beyond the window, innermost, if the page scrolls sideways at all.
_TOO_WIDE = """(() => {
  const limit = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= limit && document.body.scrollWidth <= limit) return [];
  const scrolls = e => { for (; e && e !== document.body; e = e.parentElement)
    if (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX)) return true; return false; };
  const wide = [...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > limit + 1 && !scrolls(e));
  const inner = wide.filter(e => !wide.some(o => o !== e && e.contains(o)));
  return (inner.length ? inner : [document.body]).slice(0, 3).map(e =>
    `<${e.tagName.toLowerCase()} class="${e.className}"> ${(e.textContent || "").trim().slice(0, 60)}`);
})()"""

# Blocks, outputs and tables that are wider than they are shown: those that scroll, too, or only those whose end cannot be reached.
_CROPPED = """(() => {
  const scrolls = %s;
  const blocks = [...document.querySelectorAll("main pre, article pre, .table-wrapper, div.cell_output, main table, article table")];
  const cropped = e => { const of = getComputedStyle(e).overflowX;
    return e.scrollWidth > e.clientWidth + 1 && (scrolls ? /auto|scroll|hidden|clip/ : /hidden|clip/).test(of); };
  return blocks.filter(e => e.checkVisibility() && cropped(e)).map(e =>
    `<${e.tagName.toLowerCase()} class="${e.className}"> ${e.scrollWidth} of ${e.clientWidth} pixels: ${(e.textContent || "").trim().slice(0, 60)}`);
})()"""

# Blocks of code, with a long line, that wrap.
_WRAPPED = """(() => {
  const code = ["python", "py", "pycon", "ipython3", "sh", "bash", "console"].map(name => `.highlight-${name} pre`).join(", ");
  return [...document.querySelectorAll(code)].filter(e => getComputedStyle(e).whiteSpace !== "pre"
    && e.textContent.split("\\n").some(line => line.length > 40)).map(e => e.textContent.trim().slice(0, 60));
})()"""

# Long texts in the second or third of at most three columns.
_NARROW = """[...document.querySelectorAll("main td:nth-child(n+2), article td:nth-child(n+2)")].filter(e => e.checkVisibility()
  && e.parentElement.cells.length < 4 && e.clientWidth < 140 && e.textContent.trim().length > 60
  && !e.closest(".highlighttable, div.cell_output")).map(e => `${e.clientWidth} pixels: ${e.textContent.trim().slice(0, 60)}`)"""

# Text whose contrast with what lies behind it is below a limit (the formula of WCAG 2); what is not seen is left out.
_FAINT = """(() => {
  const limit = %s, seen = new Map(), canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parse = c => { if (!seen.has(c)) { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
    const d = canvas.getImageData(0, 0, 1, 1).data; seen.set(c, [d[0], d[1], d[2], d[3] / 255]); } return seen.get(c); };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = e => { const layers = []; for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]); };
  const bad = [];
  for (const e of document.querySelectorAll("main *, article *, aside *, footer *, header *")) {
    if (e instanceof SVGElement || ![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    if (!box.width || !box.height || !e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const behind = ground(e), a = light(over(parse(style.color), behind)), b = light(behind);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < limit) bad.push(`<${e.tagName.toLowerCase()} class="${e.className}"> ${e.textContent.trim().slice(0, 40)} (${ratio.toFixed(1)})`);
  }
  return [...new Set(bad)].slice(0, 5);
})()"""

# Results arrive one after the other; all are there when the words above them no longer change.
_HITS = """(async () => {
  const rest = ms => new Promise(r => setTimeout(r, ms));
  for (let i = 0, last = ""; i < 100; i++) {
    await rest(100);
    const said = document.querySelector(".search-summary")?.textContent || "", n = document.querySelectorAll("#search-results li").length;
    if (said && said + n === last && !/^(Searching|Preparing)/.test(said)) break;
    last = said + n;
  }
  return [...document.querySelectorAll("#search-results li > a")].map(a => a.href);
})()"""


if __name__ == "__main__":
    sys.exit(main())
