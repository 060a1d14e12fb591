"""The reference has a page for every public name, and says of each what is true."""

import pathlib
import re
import sys
import types

import pytest

import namedax as nx

ROOT = pathlib.Path(__file__).parent.parent
sphinx = pytest.importorskip("sphinx", reason="the extra `docs` is not installed")


@pytest.fixture(scope="module")
def pages():
    """The module that writes the pages."""
    sys.path.insert(0, str(ROOT / "docs" / "extensions"))
    try:
        import reference_pages

        return reference_pages
    finally:
        sys.path.pop(0)


def names_below(module, label="nx", seen=None):
    """The public names of a module and of the modules that it shows, found without the extension."""
    seen = {module.__name__} if seen is None else seen
    for name in module.__all__:
        value = getattr(module, name)
        if not isinstance(value, types.ModuleType):
            yield f"{label}.{name}"
        elif value.__name__ not in seen:
            seen.add(value.__name__)
            yield from names_below(value, f"{label}.{name}", seen)


def test_every_public_name_leads_to_a_page(pages):
    wanted = set(names_below(nx))
    assert {f"nx.{name}" for name in nx.__all__ if not isinstance(getattr(nx, name), types.ModuleType)} <= wanted
    assert set(pages.index()) == wanted
    written = pages.pages()
    assert {page for page in pages.index().values() if page not in written} == set()
    # A signature, the first one of an object or one under another of its names.
    stated = {name for text in written.values() for name in re.findall(r"(?m)^(?:\.\. py:\w+::|  ) +(nx\.[\w.]+)", text)}
    assert wanted <= stated


def test_aliases_share_a_page(pages):
    for alias, name in (("nx.amax", "nx.max"), ("nx.numpy.exp", "nx.exp"), ("nx.lax.scan", "nx.lax.scan")):
        assert pages.index()[alias] == name
    assert pages.index()["nx.numpy.sum"] != "nx.sum"  # another function: it has JAX's signature


def test_pages_do_not_collide_where_cases_are_not_told_apart(pages):
    written = list(pages.pages())
    assert len({page.lower() for page in written}) == len(written)


def test_sources_are_lines_that_define_something(pages):
    for entry in pages.names.entries():
        place = pages.names.source_of(entry)
        if place:
            path, _, line = place.partition(":")
            text = (ROOT / path).read_text().splitlines()[int(line) - 1]
            assert text.lstrip().startswith(("def ", "class ", "@")) or "=" in text or "lambda" in text, (entry.name, place)
        else:
            assert entry.origin == "jax" or entry.kind == "type", entry.name
