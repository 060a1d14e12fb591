"""The reference has a page for every public name, and says of each what is true."""

import json
import pathlib
import re
import sys
import types

import jax
import numpy as np
import pytest

import namedax as nx

ROOT = pathlib.Path(__file__).parents[2]
sphinx = pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
pytestmark = pytest.mark.full  # for `make test-all`, which has built the site before: `make test` does not install Sphinx


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


# --- what was run and measured ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writer(pages):
    """tools/reference.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import reference

        return reference
    finally:
        sys.path.pop(0)


RECORD = json.loads((ROOT / "docs" / "reference" / "examples.json").read_text())
SAME_JAX = jax.__version__ == RECORD["jax"]


def test_every_function_has_an_example_and_a_cost_or_a_reason(pages):
    """On the JAX that the examples were written with: another one has other functions."""
    if not SAME_JAX:
        return
    functions = {entry.name: entry for entry in pages.names.entries() if entry.kind == "function"}
    assert set(functions) == set(RECORD["functions"]), "run `python tools/reference.py`"
    for name, said in RECORD["functions"].items():
        has_example = pages.names.has_example(functions[name])
        assert has_example or ("example" in said) != ("no_example" in said), name
        assert ("cost" in said) + ("no_cost" in said) + ("no_example" in said) == 1, name


def test_lists_of_the_writer_are_not_stale(writer):
    functions = {entry.name for entry in writer.functions([])} | {f"nx.{word}" for word in "lax.pcast lax.pswapaxes".split()}
    listed = {*writer.NO_COST, *writer.NO_EXAMPLE, *writer._patterns(), *(f"nx.{name}" for name in writer.calls.CALLS)}
    assert listed <= functions or not SAME_JAX, listed - functions


def parts(text):
    """The words and the numbers of a text: numbers may differ in their last digits."""
    number = r"[-+]?\d+\.?\d*(?:e[-+]\d+)?"
    return " ".join(re.sub(number, "#", text).split()), [float(found) for found in re.findall(number, text)]


SAMPLE = sorted(RECORD["functions"])[::36]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not SAME_JAX, reason="the examples were written with another JAX")
@pytest.mark.parametrize("name", SAMPLE)
def test_what_is_recorded_is_so(writer, name):
    """`python tools/reference.py --check` compares them all."""
    (entry,) = writer.functions([name])
    have, want = writer.record(entry), RECORD["functions"][name]
    words, numbers = parts(have.pop("example", ""))
    recorded_words, recorded_numbers = parts(want.get("example", ""))
    assert words == recorded_words
    np.testing.assert_allclose(numbers, recorded_numbers, rtol=1e-3, atol=1e-5)
    assert have == {key: value for key, value in want.items() if key != "example"}


def test_sizes_in_words(writer):
    def one(kind, size, in_loop=False):
        return nx.hlo.Collective(kind, size, 8, in_loop=in_loop)

    assert writer.phrase([], 16, [1024], [64]) == "nothing"
    assert writer.phrase([one("all-reduce", 64)], 16, [1024], [64]) == "one all-reduce: as large as the result"
    assert (
        writer.phrase([one("all-gather", 1024)] * 2, 16, [1024], [64]) == "two all-gathers: as large as the whole operand each"
    )
    assert (
        writer.phrase([one("collective-permute", 128, True)], 16, [1024], [1024])
        == "one collective-permute in a loop: as large as a device's block"
    )
    assert writer.phrase([one("all-reduce", 4)], 16, [1024], [4]) == "one all-reduce: one number"
    assert writer.phrase([one("all-to-all", 100)], 16, [1024], [64]) == "one all-to-all: 100 B (the operand has 1024 B)"
