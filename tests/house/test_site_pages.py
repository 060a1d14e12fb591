"""What programs put into README and the site: the picture is what its program draws, texts of the root have the site's links, and links
out of the site lead to the repository, to notebooks and to JAX's pages."""

import ast
import doctest
import functools
import importlib
import re
import runpy
import tomllib
import types
from pathlib import Path

import jax
import pytest

from tests.house import page_runner
from tests.laws import LAWS
from tools import gallery, pictures

ROOT = Path(__file__).parents[2]
ABOUT = runpy.run_path(str(ROOT / "docs" / "extensions" / "about.py"))


@pytest.mark.fast(0)
def test_the_picture_of_readme_is_what_is_drawn_now():
    assert pictures.picture() == pictures.PICTURE.read_text(encoding="utf-8")


def test_links_of_the_root_are_turned():
    have = ABOUT["for_the_site"](
        "[a](docs/guides/concepts.md), [b](CONTRIBUTING.md#set-up), [c](docs/about/laws.md), [d](README.md), [e](https://docs.jax.dev)"
    )
    assert have == (
        "[a](../guides/concepts.md), [b](contributing.md#set-up), [c](laws.md), [d](../index.md), [e](https://docs.jax.dev)"
    )


def test_every_law_has_its_section_its_tests_and_its_exceptions():
    text = (ROOT / "docs" / "about" / "laws.md").read_text()
    sections = re.findall(r"^## (\d)\. (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert [(int(number), title) for number, title, _ in sections] == list(LAWS)
    for number, title, section in sections:
        assert f"<!-- tests of law {number} -->" in section
        assert "**What does not hold.**" in section
        listed = ABOUT["tests_of"](LAWS, int(number))
        assert all(f"/test_{module}.py`: " in listed for module in LAWS[int(number), title])


# --- links out of the site ----------------------------------------------------------------------------------------------

URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]


@pytest.fixture
def extension(monkeypatch):
    """Imports a module of docs/extensions, where what it needs is installed."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "extensions")

    def imported(name):
        for needed in ("sphinx", "nbformat"):
            pytest.importorskip(needed, reason="the extra `docs` is not installed")
        return importlib.import_module(name)

    return imported


@pytest.mark.fast(0)
@pytest.mark.parametrize("name", ["about", "blocks", "dotted_names", "jax_pages", "notebooks", "search_order"])
def test_examples_of_the_extensions(extension, name):
    result = doctest.testmod(extension(name))
    assert result.attempted
    assert not result.failed


def test_pages_that_no_contents_list_share_the_navigation_of_their_folder(extension):
    """The links are relative to the folder, and a listed page marks itself."""
    navigation = extension("navigation")
    app = types.SimpleNamespace(env=types.SimpleNamespace(toctree_includes={"index": ["guides/a", "guides/b"]}))
    trees, asked = {}, []

    def tree_of(page):
        def tree(**options):
            asked.append((page, options))
            return f"the tree of {page}"

        context = {"toctree": tree}
        navigation.share(trees, app, page, "page.html", context, None)
        return context["toctree"](collapse=False)

    pages = ["guides/a", "guides/b", "api/nx.sum", "api/nx.max", "source/x.py", "source/ops/y.py"]
    assert [tree_of(page) for page in pages] == [
        *("the tree of guides/a", "the tree of guides/b", "the tree of api/nx.sum", "the tree of api/nx.sum"),
        *("the tree of source/x.py", "the tree of source/ops/y.py"),
    ]
    assert ("api/nx.sum", {"collapse": False}) in asked
    assert len(asked) == 5


def test_pages_do_not_name_the_programs_that_write_them():
    """A reader has no use for them. The first comment of such a page names its program."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        assert not re.search(r"\btools/\w+\.py", text), path


def test_only_pictures_that_are_marked_keep_their_colors(extension):
    blocks = extension("blocks")
    static = ROOT / "docs" / "static"
    assert not [path for path in static.glob("gallery/*.webp") if blocks.has_pixels(path)]
    assert blocks.has_pixels(static / "layouts.svg") is False


def test_tables_of_the_gallery_are_folded():
    result = doctest.testmod(gallery)
    assert result.attempted
    assert not result.failed


@pytest.mark.fast(0)
def test_functions_link_to_the_pages_of_jax(extension):
    """Each function that JAX has, too: a link by its public name there, which exists."""
    jax_pages, pages = extension("jax_pages"), extension("reference_pages").pages()
    links = [name for text in pages.values() for name in re.findall(r":jax:`([\w.]+)`", text)]
    assert len(links) > 900
    for name in links:
        functools.reduce(getattr, name.split(".")[1:], jax)
    addresses = {name: jax_pages.url(name) for name in links}
    site = r"https://docs\.jax\.dev/en/latest/"
    for name, address in addresses.items():
        if name in jax_pages.UNDOCUMENTED:  # the page of the module
            assert re.fullmatch(rf"{site}jax\.(lax|random|scipy)\.html", address)
        else:
            assert re.fullmatch(rf"{site}_autosummary/{re.escape(name)}\.html", address)
    spaces = {name.rpartition(".")[0] for name in links}
    assert {
        f"jax.{space}" for space in ("numpy", "lax", "nn", "random", "scipy.special", "scipy.stats.norm", "image")
    } <= spaces
    assert not [page for page, text in pages.items() if "In JAX: ``" in text]


@pytest.mark.fast(0)
def test_notebooks_have_the_cells_of_their_pages(extension):
    notebooks = extension("notebooks")
    found = 0
    for path in sorted((ROOT / "docs").rglob("*.md")):
        text = path.read_text()
        if not notebooks.is_notebook(text):
            continue
        found += 1
        name = path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        cells = notebooks.notebook(text, name).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert code[0] == notebooks.INSTALL
        assert code[1:] == [block.strip("\n") for block in page_runner.blocks(text.replace("```python", "```"))]
        assert "\n# " in f"\n{prose}"
        assert not re.search(r"(?m)^(```|:::)\{|\{\w+\}`|^\{\.", prose), name  # markup that only this site knows
        assert not re.search(r"\]\((?!https?:|#)", prose), name  # a link that leads nowhere outside of the site
        assert "kernelspec" not in prose
    assert found >= 8


@pytest.mark.fast(0)
def test_markup_of_the_site_becomes_markdown(extension):
    text = """{.lead}
One {term}`axis name`, {doc}`a page <guides/tour>`, [a link](../guides/tour.md#maps), [another](https://docs.jax.dev).

:::{note}
Text.
:::

```{image} ../static/logo.svg
:alt: an icon
```

```{literalinclude} ../../tests/flags.py
:language: python
:start-at: FLAGS = [
:end-at: if tuple
```

```python
x = 1
```
"""
    (cell,) = extension("notebooks").notebook(text, "tutorials/page").cells[1:]
    lines = (ROOT / "tests" / "flags.py").read_text().splitlines()
    quoted = "\n".join(lines[lines.index(next(line for line in lines if line.startswith("FLAGS"))) :][:2])
    assert cell.source == (
        "One axis name, a page, [a link](https://namedax.github.io/namedax/guides/tour.html#maps), [another](https://docs.jax.dev)."
        "\n\n**Note.**\nText.\n\n![an icon](https://github.com/namedax/namedax/raw/main/docs/static/logo.svg)"
        f"\n\n```python\n{quoted}\n```\n\n```python\nx = 1\n```"
    )


@pytest.mark.fast(0)
def test_the_first_cell_of_a_notebook_installs_the_package(extension):
    """It is IPython, does nothing where namedax is installed, and takes it from the repository of pyproject.toml elsewhere."""
    install = extension("notebooks").INSTALL
    assert f"git clone --quiet --depth 1 {URLS['Repository']}\n" in install
    python = re.sub(r"(?m)^( *)[%!].*$", r"\1pass", install)
    (_, _, condition) = ast.parse(python).body
    assert ast.unparse(condition.test) == "importlib.util.find_spec('namedax') is None"


@pytest.mark.fast(0)
def test_links_to_the_source_of_a_page(extension):
    notebooks = extension("notebooks")
    assert notebooks.REPOSITORY == URLS["Repository"]
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        source = notebooks.source_of(name, path.read_text())
        assert (ROOT / source).is_file()
    text = (ROOT / "docs" / "about" / "architecture.md").read_text()
    assert notebooks.source_of("about/architecture", text) == "ARCHITECTURE.md"


def test_the_address_of_the_repository_is_in_one_place():
    """Programs read it from pyproject.toml."""
    assert set(URLS) >= {"Repository", "Documentation", "Changelog", "Issues"}
    assert all(URLS[name].startswith(URLS["Repository"]) for name in ("Changelog", "Issues"))
    written = [
        ROOT / "docs" / "conf.py",
        *(ROOT / "docs" / "extensions").glob("*.py"),
        *(ROOT / "docs" / "templates").rglob("*.html"),
    ]
    assert not [path for path in written if URLS["Repository"] in path.read_text()]


def test_the_site_is_published_with_its_notebooks():
    workflow = (ROOT / ".github" / "workflows" / "docs.yml").read_text()
    assert "make docs " in workflow
    assert re.search(r"git push --force \S+ gh-pages", workflow)
    assert "touch .nojekyll" in workflow  # else folders with an underscore are left out
