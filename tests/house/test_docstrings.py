"""Docstrings of public functions and classes agree with the signatures, and examples import what they use.

The rules:

- A function or class that namedax defines describes each parameter in `Args:` (a class of fields in `Attributes:`), and no other. `*args` and
  `**kwargs` are parameters too. A parameter that begins with an underscore belongs to JAX and is not described.
- A function that is made from one of JAX's, and only takes named arrays in addition, says "with the same arguments". What it says of them is read
  from the docstring of JAX.
- Collective costs stand under `Communication:`, which begins a paragraph.
"""

import builtins
import doctest
import functools
import inspect
import pathlib
import re
import symtable
import sys

import pytest

import namedax as nx

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names():
    """docs/extensions/reference_names.py, which finds the public functions and classes."""
    sys.path.insert(0, str(ROOT / "docs" / "extensions"))
    try:
        import reference_names

        return reference_names
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def documented(names):
    """Name, object and docstring of each public function and class that is not JAX's own."""
    return [
        (entry.name, entry.value, inspect.getdoc(entry.value) or "")
        for entry in names.entries()
        if entry.kind in ("function", "class") and entry.origin != "jax"
    ]


def members(cls):
    """The public methods and properties of a class of namedax, with their docstrings."""
    for base in cls.__mro__:
        if base.__module__.startswith("namedax"):
            for name, member in vars(base).items():
                function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
                if not name.startswith("_") and inspect.isfunction(function):
                    yield name, inspect.getdoc(function) or ""


def described(doc):
    """The parameters in `Args:` or `Attributes:`."""
    match = re.search(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", doc, re.MULTILINE | re.DOTALL)
    return re.findall(r"^  \*{0,2}(\w+): ", match[1], re.MULTILINE) if match else []


def differences(value, doc):
    """The parameters that are not described, and the described ones that do not exist."""
    parameters = [name for name in inspect.signature(value).parameters if not name.startswith("_")]
    found = described(doc)
    return [name for name in parameters if name not in found], [name for name in found if name not in parameters]


def refers_to_jax(doc):
    return "with the same arguments" in " ".join(doc.split())


def test_every_parameter_is_described_and_exists(documented):
    docs = {name: doc for name, _, doc in documented}
    found = {name: differences(value, doc) for name, value, doc in documented}
    wrong = {name: both for name, both in found.items() if both != ([], [])}
    # JAX does not show the operands of its ufuncs and of some others in the signature.
    assert {name: both for name, both in wrong.items() if not (refers_to_jax(docs[name]) and both[0] in ([], ["args"]))} == {}


def test_no_docstring_sends_its_reader_to_jax(documented):
    """Neither for a sentence that says what a function does, nor for its parameters."""
    said = re.compile(r"^Alias|see JAX|See JAX|^\w+\(")
    assert {name: found[0] for name, _, doc in documented if (found := said.search(" ".join(doc.split())))} == {}
    assert [
        name
        for name, value, doc in documented
        if inspect.isroutine(value) and not re.match(r"[A-Z`].*\.", doc.partition("\n\n")[0], re.S)
    ] == []


def test_no_description_is_empty(documented):
    found = {
        name: [parameter for parameter, text in entries_of(doc).items() if not text.strip()] for name, _, doc in documented
    }
    assert {name: empty for name, empty in found.items() if empty} == {}


def entries_of(doc):
    """The descriptions in `Args:`, by the parameter."""
    match = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", doc, re.MULTILINE | re.DOTALL)
    parts = re.split(r"^  (?=\*{0,2}\w+: )", match[1], flags=re.MULTILINE)[1:] if match else []
    return {name.strip("* "): text for name, _, text in (part.partition(":") for part in parts)}


def test_every_default_is_stated(documented):
    """As a value, or as that of JAX; the samplers of `nx.random` have the descriptions of JAX."""
    missing = []
    for name, value, doc in documented:
        if isinstance(value, type) or refers_to_jax(doc) or "The named version of `jax.random." in doc:
            continue
        entries = entries_of(doc)
        for parameter in inspect.signature(value).parameters.values():
            has_default = parameter.default is not parameter.empty and parameter.name in entries
            if has_default and not re.search(r"default|as in JAX", entries[parameter.name], re.IGNORECASE):
                missing.append((name, parameter.name))
    assert missing == []


def test_a_sample_of_parameters(documented):
    docs = {name: doc for name, _, doc in documented}
    assert described(docs["nx.mean"]) == ["x", "axis", "dtype", "keepdims", "where"]
    assert described(docs["nx.numpy.sum"])[:3] == ["a", "axis", "dtype"]
    assert described(docs["nx.numpy.pad"]) == ["array", "pad_width", "mode", "constant_values", "out_axis", "kwargs"]
    assert "new names for named axes" in docs["nx.numpy.pad"]
    assert described(docs["nx.random.normal"]) == ["key", "shape", "dtype", "out_sharding", "named_shape"]
    assert refers_to_jax(docs["nx.exp"])
    assert refers_to_jax(docs["nx.nn.relu"])


def test_differences_are_found():
    def f(x, axis, *args):
        del x, axis, args

    assert differences(f, "Sum.\n\nArgs:\n  x: an array.\n  *args: others.\n\nReturns:\n  axis: not this one.") == (
        ["axis"],
        [],
    )
    assert differences(f, "Sum.\n\nArgs:\n  x: one.\n    y: of the first.\n  z: none.") == (["axis", "args"], ["z"])


def test_every_parameter_of_a_method_is_described_and_exists(documented):
    """But for methods of a named array that refer to the one of `jax.Array`, or are functions too, and for what JAX calls on pytrees."""
    found = {}
    for name, value, _ in documented:
        if not isinstance(value, type) or not value.__module__.startswith("namedax") or ".spatial." in name:
            continue
        for method, doc in members(value):
            function = inspect.getattr_static(value, method)
            function = getattr(function, "__func__", function)
            is_elsewhere = value is nx.NamedArray and (
                method in nx.__all__ or hasattr(nx.numpy, method) or f"`jax.Array.{method}`" in doc
            )
            if not inspect.isfunction(function) or is_elsewhere or method.startswith("tree_"):
                continue
            missing, extra = differences(functools.partial(function, None), doc)
            missing = [parameter for parameter in missing if parameter not in ("self", "cls")]
            if missing or extra:
                found[f"{name}.{method}"] = missing, extra
    assert found == {}


# --- examples -----------------------------------------------------------------------------------------------------------


def unbound(doc):
    """The names that the examples of a docstring use without an import or an assignment."""
    bound, missing = set(dir(builtins)), set()

    def globals_of(table):
        for child in table.get_children():
            yield from (symbol.get_name() for symbol in child.get_symbols() if symbol.is_global() and symbol.is_referenced())
            yield from globals_of(child)

    for example in doctest.DocTestParser().get_examples(doc):
        table = symtable.symtable(example.source, "example", "exec")
        own = table.get_symbols()
        made = {s.get_name() for s in own if s.is_assigned() or s.is_imported() or s.is_namespace()}
        missing |= ({s.get_name() for s in own if s.is_referenced()} | set(globals_of(table))) - made - bound
        bound |= made
    return missing


def test_examples_import_what_they_use(documented):
    """In `namedax/`, pytest runs examples without the names of their modules (conftest.py); here are also those that are made, and JAX's."""
    docs = [(name, doc) for name, _, doc in documented]
    docs += [
        (f"{name}.{method}", doc) for name, value, _ in documented if isinstance(value, type) for method, doc in members(value)
    ]
    assert len(docs) > 1000
    assert {name: found for name, doc in docs if (found := unbound(doc))} == {}


def test_names_without_an_import_are_found():
    assert unbound(">>> import jax\n>>> x = jax.numpy.ones(3)\n>>> print(len(x))\n3") == set()
    assert unbound(">>> f = lambda x: nx.sum(x) + y\n>>> g(f)") == {"nx", "y", "g"}


# --- communication ------------------------------------------------------------------------------------------------------

OTHER_HEADING = re.compile(
    r"^ *(?:No communication\b|Raises, |Communication\b(?!:)[^\n:]*:|(?:The )?communication is\b|Costs?:|Sends?:)", re.MULTILINE
)
COLLECTIVES = re.compile(
    r"\b(?:all-reduces?|all-gathers?|reduce-scatters?|all-to-alls?|collective-permutes?|no communication)\b"
)
# These are about collectives themselves, or have a section of their own about them.
ABOUT_COLLECTIVES = frozenset(
    "nx.SerialLoop nx.Wire nx.explain nx.hlo.Collective nx.hlo.Summary nx.hlo.collectives nx.lax.scan nx.machines.Machine.two_level_from "
    "nx.machines.measure nx.nn.grouped_dot nx.nn.mixture_of_experts nx.pipeline nx.rename nx.scan nx.testing.assert_no_gather".split()
)


def prose(doc):
    """The paragraphs that belong to no section."""
    for paragraph in re.split(r"\n\s*\n", doc):
        is_section = re.match(r"(?:Args|Returns|Raises|Attributes|Communication)\b[^\n:]*:", paragraph)
        if not is_section and not paragraph.startswith((" ", ">>>")):
            yield paragraph


def every_docstring(documented):
    for name, value, doc in documented:
        yield name, doc
        if isinstance(value, type):
            yield from ((f"{name}.{method}", text) for method, text in members(value))


def test_costs_stand_under_communication(documented):
    docs = list(every_docstring(documented))
    assert {name: match[0] for name, doc in docs if (match := OTHER_HEADING.search(doc))} == {}
    found = {name: p for name, doc in docs if name not in ABOUT_COLLECTIVES for p in prose(doc) if COLLECTIVES.search(p)}
    assert found == {}


def test_every_operation_states_its_communication(names, documented):
    """The functions of `namedax/ops`, and those that are made from functions of JAX."""
    operations = {
        name: doc
        for name, value, doc in documented
        if not isinstance(value, type)
        and (
            any(
                "/namedax/ops/" in code.co_filename and "/namespaces/" not in code.co_filename
                for code in names._own_codes(value)
            )
            or names._lifts(value)
        )
    }
    assert len(operations) > 800
    assert [name for name, doc in operations.items() if not re.search(r"^Communication:", doc, re.MULTILINE)] == []


def test_other_headings_are_found():
    assert OTHER_HEADING.search("Sum.\n\nNo communication.")
    assert OTHER_HEADING.search("Sum.\n\nCommunication, for each array: none.")
    assert not OTHER_HEADING.search("Sum.\n\nCommunication: none.")
    assert list(prose("Sum.\n\nArgs:\n  x: one.\n\nOne all-reduce.\n\nCommunication: one.")) == ["Sum.", "One all-reduce."]
