"""The Sphinx extension for links out of a page: to its source in the repository, and, on notebooks, to the notebook itself.

A page with a kernel in its first lines becomes a notebook beside its HTML: `tutorials/2_a_network.ipynb`. Its first cell installs namedax where it is
missing, and links to other pages lead to the site. Below the title, the page offers the notebook for download and opens it in Colab, which reads it
from the branch that the site is published from. The address of the repository is in `pyproject.toml` only.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from posixpath import join, normpath
from typing import Any

import nbformat
from nbformat import v4

ROOT = Path(__file__).resolve().parents[2]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
REPOSITORY = URLS["Repository"]
SITE = URLS["Documentation"].rstrip("/")
#: The branches of the sources, and of the built site, which has the notebooks.
SOURCES, PUBLISHED = "main", "gh-pages"
INSTALL = f"""\
# Install namedax and its examples where they are missing, as in a hosted notebook.
import importlib.util

%env JAX_PLATFORMS=cpu
if importlib.util.find_spec("namedax") is None:
    !git clone --quiet --depth 1 {REPOSITORY}
    %pip install --quiet "./namedax[all]"
    %cd namedax"""
_FRONT_MATTER = re.compile(r"\A---\n(.*?)^---\n", re.S | re.M)
_CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n((?::[^\n]*\n|---\n.*?^---\n)*)(.*?)^```[ ]*$", re.S | re.M
)
_INCLUDED = re.compile(r"^```\{literalinclude\} (\S+)\n((?::[^\n]*\n)*)```[ ]*$", re.M)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)\s#]+)\.md(#[^)\s]*)?\)")
_IMAGE = re.compile(r"^```\{image\} (\S+)\n((?::[^\n]*\n)*)```[ ]*$", re.M)
_ROLE = re.compile(r"\{[\w:]+\}`([^`<]+?)(?: <[^`>]+>)?`")
_BOX = re.compile(r"^:{3,}\{([\w-]+)\} *(.*)$", re.M)
_OTHER = re.compile(r"^(?::{3,}|\{[.#][^}\n]*\})[ ]*$\n?", re.M)


def is_notebook(text: str) -> bool:
    """Whether a page has a kernel in its first lines."""
    found = _FRONT_MATTER.match(text)
    return bool(found and "kernelspec:" in found[1])


def notebook(text: str, name: str) -> Any:
    """The notebook of a page, such as `tutorials/2_a_network`."""
    body = _FRONT_MATTER.sub("", text)
    cells: list[Any] = [v4.new_code_cell(INSTALL)]
    end = 0
    for found in _CELL.finditer(body):
        cells += _markdown(body[end : found.start()], name)
        tags = re.search(r"^:tags: \[(.*)\]$", found[1], re.M)
        metadata = {"tags": tags[1].split(", ")} if tags else {}
        cells.append(v4.new_code_cell(found[2].strip("\n"), metadata=metadata))
        end = found.end()
    cells += _markdown(body[end:], name)
    for number, cell in enumerate(cells):  # the same in each build
        cell["id"] = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(made)
    return made


def _markdown(text: str, name: str) -> list[Any]:
    """The cell of the prose between two cells of code; none if there is no prose."""
    folder = name.rpartition("/")[0]
    text = _LINK.sub(lambda m: f"]({SITE}/{normpath(join(folder, m[1]))}.html{m[2] or ''})", text)
    text = _INCLUDED.sub(lambda m: _quoted(m[1], m[2], folder), text)
    text = _IMAGE.sub(lambda m: _pictured(m[1], m[2], folder), text)
    text = _ROLE.sub(r"\1", text)
    text = _BOX.sub(lambda m: f"**{m[2] or m[1].capitalize()}.**", text)
    text = _OTHER.sub("", text)
    return [v4.new_markdown_cell(text.strip())] if text.strip() else []


def _option(options: str, key: str) -> str:
    found = re.search(rf"^:{key}: (.*)$", options, re.M)
    return found[1] if found else ""


def _quoted(path: str, options: str, folder: str) -> str:
    """A part of a file, as `literalinclude` shows it."""
    lines = (ROOT / "docs" / folder / path).resolve().read_text().splitlines()
    start, end = _option(options, "start-at"), _option(options, "end-at")
    first = next(i for i, line in enumerate(lines) if start in line)
    last = next((i for i, line in enumerate(lines) if i >= first and end in line), len(lines) - 1)
    return "\n".join([f"```{_option(options, 'language')}", *lines[first : last + 1], "```"])


def _pictured(path: str, options: str, folder: str) -> str:
    """A picture, at its address in the repository."""
    place = normpath(join("docs", folder, path))
    return f"![{_option(options, 'alt')}]({REPOSITORY}/raw/{SOURCES}/{place})"


def colab(name: str) -> str:
    """The address that opens the published notebook of a page in Colab.

    >>> colab("tutorials/2_a_network").removeprefix("https://colab.research.google.com/")
    'github/namedax/namedax/blob/gh-pages/tutorials/2_a_network.ipynb'
    """
    path = REPOSITORY.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{path}/blob/{PUBLISHED}/{name}.ipynb"


def source_of(name: str, text: str) -> str:
    """The file of the repository that a page is made of, or nothing if the page is written by the build.

    >>> source_of("about/changelog", "```{include} ../../CHANGELOG.md")
    'CHANGELOG.md'
    >>> source_of("reference/api/nx.sum", "")
    ''
    """
    if name.startswith("reference/api/"):
        return ""
    included = re.match(r"```\{include\} \.\./\.\./(\w+\.md)", text)
    return included[1] if included else f"docs/{name}.md"


# --- Sphinx ---------------------------------------------------------------------------------------------


def add_links(app: Any, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """The links of one page: to edit and view its source, and to its notebook."""
    path = app.srcdir / f"{name}.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    source = source_of(name, text) if text else ""
    if source:
        context["theme_source_edit_link"] = f"{REPOSITORY}/edit/{SOURCES}/{source}"
        context["theme_source_view_link"] = f"{REPOSITORY}/blob/{SOURCES}/{source}?plain=1"
    else:
        context["page_source_suffix"] = ""
    if is_notebook(text):
        file = f"{name.rpartition('/')[2]}.ipynb"
        links = (
            f'<p class="notebook-links"><a href="{file}" download>Download this notebook</a>'
            f'<a href="{colab(name)}">Open in Colab</a></p>'
        )
        context["body"] = context["body"].replace("</h1>", f"</h1>\n{links}", 1)


def write_notebooks(app: Any, error: Exception | None) -> None:
    """The notebooks of a built site, beside its pages."""
    if error or app.builder.format != "html":
        return
    for name in sorted(app.env.found_docs):
        path = app.srcdir / f"{name}.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if is_notebook(text):
            file = Path(app.outdir) / f"{name}.ipynb"
            file.write_text(nbformat.writes(notebook(text, name)) + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("html-page-context", add_links)
    app.connect("build-finished", write_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
