"""The reference has a page for every public name, and says of each what is true."""

import inspect
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
RECORD = json.loads((ROOT / "docs" / "reference" / "examples.json").read_text())
SAME_JAX = jax.__version__ == RECORD["jax"]
sphinx = pytest.importorskip("sphinx", reason="the extra `docs` is not installed")
pytestmark = pytest.mark.fast(0)  # for `make test-all`, which has built the site before: `make test` does not install Sphinx


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
    for alias, name in (("nx.numpy.exp", "nx.exp"), ("nx.numpy.clip", "nx.clip"), ("nx.lax.scan", "nx.lax.scan")):
        assert pages.index()[alias] == name
    assert pages.index()["nx.numpy.sum"] != "nx.sum"  # another function: it has JAX's signature


def test_pages_do_not_collide_where_cases_are_not_told_apart(pages):
    written = list(pages.pages())
    assert len({page.lower() for page in written}) == len(written)


# Functions that are made from a function of JAX have no `def` of their own. They lead to the function that makes them.
MAKERS = frozenset(
    "_activation _fourier_shift _lax_arg _lax_reduction _lift _lifted _of_devices _over_all _sampler elementwise named_initializer "
    "NamedInitializer".split()
)
# JAX gives these functions another name than namedax.
OTHER_NAMES = {"nx.numpy.amax": "max", "nx.numpy.amin": "min", "nx.numpy.concat": "concatenate"}


def definition(place):
    """The line of a source link, and the name that it defines with `def` or `class`."""
    path, _, line = place.partition(":")
    text = (ROOT / path).read_text().splitlines()[int(line) - 1].lstrip()
    match = re.match(r"(?:def|class) (\w+)\b", text)
    return text, match and match[1]


def test_source_links_lead_to_the_definitions_themselves(pages):
    """For every function and class: to its line with `def` or `class`, and never to a wrapper that a decorator returns."""
    wrong = []
    for entry in pages.names.entries():
        if entry.kind not in ("function", "class", "error") or entry.origin == "jax":
            continue
        text, name = definition(pages.names.source_of(entry))
        short = {name.rpartition(".")[2] for name in entry.names}
        own = short | {f"{prefix}{word}" for word in short for prefix in ("lax_", "_lax_")} | {OTHER_NAMES.get(entry.name)}
        if name not in (MAKERS if entry.origin == "lifted" else own | MAKERS):
            wrong.append((entry.name, text))
    assert wrong == []


def test_functions_with_a_definition_do_not_lead_to_a_maker(pages):
    """The makers are for functions whose body is JAX's: those that the package writes with `def` do not lead there."""
    found = {name: entry for entry in pages.names.entries() for name in entry.names}
    own = "nx.sum nx.mean nx.einsum nx.xmap nx.lax.psum nx.numpy.sum nx.nn.gelu nx.nn.rope nx.random.choice nx.lax.scan".split()
    defined = {name: definition(pages.names.source_of(found[name]))[1] for name in own}
    assert defined == {name: name.rpartition(".")[2] for name in own}
    made = {"nx.exp": "elementwise", "nx.numpy.matmul": "_lift", "nx.numpy.fft.fftn": "_lift", "nx.random.normal": "_sampler"}
    assert {name: definition(pages.names.source_of(found[name]))[1] for name in made} == made


def test_constants_lead_to_their_assignments(pages):
    for entry in pages.names.entries():
        place = pages.names.source_of(entry)
        if entry.kind in ("function", "class", "error") and entry.origin != "jax":
            continue
        assert "=" in definition(place)[0] if place else entry.origin == "jax" or entry.kind == "type", entry.name


def test_what_is_jax_own_has_no_code_here(pages):
    for entry in pages.names.entries():
        if entry.origin == "jax" and entry.kind in ("function", "class"):
            assert inspect.unwrap(entry.value).__module__.split(".")[0] in (
                "jax",
                "jaxlib",
                "numpy",
                "ml_dtypes",
                "builtins",
            ), entry.name


# --- what each page has -------------------------------------------------------------------------------------------------


def lacks(pages, entry):
    """What the page of a function lacks."""
    text = pages.pages()[pages.page_of(entry)]
    body = text[text.index(".. py:function::") :]
    said = RECORD["functions"].get(entry.name, {})
    sentence = body.split("\n\n")[1].strip()
    parameters = inspect.signature(entry.value).parameters if pages.names.signature_of(entry.value) else {}
    described = {name.replace("\\", "").lstrip("*") for name in re.findall(r":param (\S+?):(?: |$)", body)}
    missing = {p for p in parameters if not p.startswith("_")} - described
    if entry.name == "nx.lax.conv_general_dilated_local":
        missing -= {"window_strides"}  # JAX's text before it has an odd number of backticks
    if not re.match(r"[A-Z`:].*[.:]$", sentence, re.S) or re.search("Alias of|[Ss]ee JAX", body):
        yield f"a sentence that says what it does: {sentence[:60]!r}"
    if missing - ({"args"} if {"x", "x1"} & described else set()):  # JAX does not show the operands in the signature
        yield f"parameters: {missing}"
    if not re.search(r":returns:|The result is ``|:Yields:", body) and not re.match(
        "Return|Tell|Set|Print|Write|Save|Raise|Call|Keep", sentence
    ):
        yield "the result"
    if "no_example" not in said and ">>> " not in body:
        yield "an example"
    if ".. rubric:: On a sharded axis" not in body and "no_example" not in said:
        yield "its communication"
    rejected = all(cost["forward"].startswith("rejected") for cost in said.get("cost", {}).values())
    if not rejected and ("     - gradient\n" not in body or "     - SerialLoop(4)\n" not in body):
        yield "its placements"
    if ".. rubric:: See also" not in body or "In guides and recipes: :doc:" not in body:
        yield "links"
    if ".. rubric:: Source" not in body:
        yield "its source"


@pytest.mark.skipif(not SAME_JAX, reason="the examples were written with another JAX")
def test_no_page_of_a_function_has_less(pages):
    functions = [entry for entry in pages.names.entries() if entry.kind == "function"]
    assert len(functions) > 1100
    assert {entry.name: found for entry in functions if (found := list(lacks(pages, entry)))} == {}


def test_pages_lead_to_related_functions(pages):
    import reference_links as links

    entries = {name: entry for entry in pages.names.entries() for name in entry.names}
    related = {name: [one.name for one in links.see_also(entries[name])] for name in ("nx.sum", "nx.exp2", "nx.windows")}
    assert related["nx.sum"][0] == "nx.numpy.sum"
    assert "nx.exp" in related["nx.exp2"]  # as in the docstring of JAX
    assert {"nx.halo", "nx.rolling_reduce"} <= set(related["nx.windows"])  # its text mentions them
    for name, entry in entries.items():
        if entry.kind in ("function", "class"):
            assert entry not in links.see_also(entry), name
    assert "/recipes/halo_exchange" in links.used_in(entries["nx.halo"])


def test_the_index_has_a_line_for_each_subject(pages):
    text = (ROOT / "docs" / "reference" / "index.md").read_text()
    assert re.findall(r"(?m)^\| \{ref\}`(.*?) <(.*?)>` \|", text) == [
        (title, pages.anchor_of(title)) for title in pages.subjects.TITLES
    ]
    shown = re.findall(r"`(nx\.[\w.]+)`", text[text.index("| subject |") : text.index("A page of")])
    assert set(shown) <= set(pages.index())
    first = pages.FIRST.split()
    assert len(set(first)) == 20
    assert all(f":doc:`nx.{name} <" in pages.pages()["index.nx"] for name in first)


# --- formulas -----------------------------------------------------------------------------------------------------------


def test_no_page_has_a_command_of_latex(pages):
    """Docstrings of JAX have formulas. The site does not set them, so they are written as text."""
    raw = re.compile(r":math:|\.\. math|(?<!\\)\\(?!n\b|\*|[ _|])[A-Za-z]{2,}|\$[^$\n]*\$")
    found = {name: match[0] for name, text in pages.pages().items() if (match := raw.search(text))}
    assert found == {}


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\frac{1}{x^2 + 1}", "1 / (x^2 + 1)"),
        (r"\frac{1}{2}e^{-|x|}", "(1 / 2)e^(-|x|)"),
        (r"{x \over y}", "x / y"),
        (r"\sqrt[3]{x} + \sqrt{2\pi}", "∛x + √(2π)"),
        (r"\left\lceil x \right\rceil", "⌈x⌉"),
        (r"k \in \{0, 1\}", "k ∈ {0, 1}"),
        (r"\prod_{i=1}^k x_i^{\mu_i - 1}", "∏_(i=1)^k x_i^(μ_i - 1)"),
        (r"\mathrm{erf}^{-1}(x) \leq \rm{upper}", "erf^(-1)(x) ≤ upper"),
        (r"\left\{ \begin{array}{ll} a & x \leq 0 \\ b & x > 0 \end{array} \right.", "{ a if x ≤ 0 ; b if x > 0 }"),
    ],
)
def test_formulas_as_text(pages, tex, text):
    del pages  # the fixture that makes the extensions importable
    import reference_math

    assert reference_math.plain_formula(tex) == text


# --- by subject ---------------------------------------------------------------------------------------------------------

# Of each subject the number of functions and classes, and some that a reader looks for there.
BY_SUBJECT = {
    "Mapping names over hardware": (
        8,
        "nx.lax.with_sharding_constraint nx.nmap nx.serial_loop nx.SerialLoop nx.shard nx.transfer nx.Wire nx.xmap",
    ),
    "Create, inspect and convert arrays": (77, "nx.arange nx.named nx.positional nx.zeros nx.NamedArray nx.nn.one_hot"),
    "Rename, split, merge and move axes": (59, "nx.concatenate nx.rearrange nx.rename nx.stack nx.transpose nx.numpy.reshape"),
    "Elementwise": (183, "nx.add nx.clip nx.exp nx.maximum nx.lax.rsqrt"),
    "Contractions": (30, "nx.dot nx.einsum nx.tensordot nx.vecdot nx.lax.dot_general nx.numpy.matmul nx.lax.pdot"),
    "Reductions": (69, "nx.sum nx.mean nx.cumsum nx.argmax nx.segment_sum nx.lax.reduce nx.logsumexp"),
    "Statistics": (52, "nx.group_reduce nx.median nx.cov nx.histogram nx.nanmean nx.quantile"),
    "Sorting, searching and selection": (39, "nx.sort nx.top_k nx.where nx.unique nx.searchsorted nx.numpy.isin"),
    "Indexing": (52, "nx.take nx.take_along_axis nx.slice nx.diagonal nx.lax.gather nx.lax.scatter_add nx.numpy.ix_"),
    "Neighbors, windows and convolutions": (42, "nx.conv nx.halo nx.rolling_reduce nx.roll nx.pad nx.diff nx.nn.max_pool nx.scipy.signal.convolve"),
    "Interpolation and polynomials": (19, "nx.image.resize nx.numpy.interp nx.numpy.polyfit"),
    "Fourier transforms": (33, "nx.numpy.fft.fft nx.numpy.fft.rfftn nx.numpy.fft.fftshift nx.scipy.fft.dct nx.lax.fft"),
    "Linear algebra": (99, "nx.norm nx.linalg.svd nx.linalg.pca nx.numpy.linalg.svd nx.scipy.linalg.solve nx.lax.linalg.qr"),
    "Special functions": (66, "nx.scipy.special.gammaln nx.lax.erf nx.scipy.special.softmax"),
    "Random numbers": (50, "nx.random.normal nx.random.key nx.random.choice nx.random.permutation"),
    "Probability distributions": (112, "nx.scipy.stats.norm.logpdf nx.scipy.stats.beta.cdf"),
    "Loops, branches, vectorization and derivatives": (34, "nx.scan nx.cond nx.vmap nx.pipeline nx.custom_vjp nx.fori_loop"),
    "Collectives": (19, "nx.axis_size nx.lax.psum nx.lax.all_gather nx.lax.ppermute"),
    "Neural networks": (48, "nx.nn.dot_product_attention nx.nn.layer_norm nx.nn.gelu nx.nn.rope nx.nn.KVCache nx.nn.linear_attention nx.nn.softmax"),
    "Initializers": (19, "nx.nn.initializers.normal nx.nn.initializers.zeros"),
    "Mixture of experts": (5, "nx.nn.mixture_of_experts nx.nn.top_k_routing"),
    "Ragged arrays": (5, "nx.Ragged nx.nn.grouped_dot"),
    "Measure, explain and plan communication": (30, "nx.explain nx.plan nx.profile nx.Report nx.draw nx.summary nx.hlo.collectives"),
    "Files, processes, other libraries, types": (51, "nx.checkpoints.save nx.from_xarray nx.interop.from_flax nx.checked"),
}  # fmt: skip


def by_subject(pages):
    found = {}
    for entry in pages.names.entries():
        if entry.kind in ("function", "class"):
            found.setdefault(pages.subjects.subject_of(entry), []).append(entry.name)
    return found


@pytest.mark.skipif(not SAME_JAX, reason="another JAX has other functions")
def test_every_function_and_class_is_under_its_subject(pages):
    found = by_subject(pages)
    assert {subject: len(names) for subject, names in found.items()} == {s: count for s, (count, _) in BY_SUBJECT.items()}
    assert sorted(pages.subjects.TITLES) == sorted(BY_SUBJECT)


@pytest.mark.parametrize("subject", BY_SUBJECT)
def test_subjects_hold_the_functions_that_a_reader_looks_for(pages, subject):
    assert set(BY_SUBJECT[subject][1].split()) - set(by_subject(pages)[subject]) == set()
    text = pages.pages()["subjects"]
    start = text.index(f"\n{subject}\n---")
    section = text[start : (text + "\n---").index("\n---", start + len(subject) + 4)]
    assert [name for name in BY_SUBJECT[subject][1].split() if f":doc:`{name} <" not in section] == []


def test_the_tables_of_subjects_list_names_that_exist(pages):
    """On the JAX of the record; `lax.stage` and others are not in every JAX."""
    known = set(pages.index())
    assert {name for name in pages.subjects._listed() if name not in known} == set() or not SAME_JAX


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
    import recorded_calls  # the writer's folder is on the path no longer, but it has imported this

    functions = {entry.name for entry in writer.functions([])} | {f"nx.{word}" for word in "lax.pcast lax.pswapaxes".split()}
    listed = {*writer.NO_COST, *writer.NO_EXAMPLE, *recorded_calls.patterns(), *(f"nx.{name}" for name in writer.calls.CALLS)}
    assert listed <= functions or not SAME_JAX, listed - functions


def parts(text):
    """The words and the numbers of a text: numbers may differ in their last digits."""
    number = r"[-+]?\d+\.?\d*(?:e[-+]\d+)?"
    words = re.sub(r"\s+([,\])])", r"\1", re.sub(number, "#", text))  # numbers are padded to one width
    return " ".join(words.split()), [float(found) for found in re.findall(number, text)]


SAMPLE = sorted(RECORD["functions"])[::72]


@pytest.mark.fast(0)
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
