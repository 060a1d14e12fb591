"""The pages of the reference, as reStructuredText: one for each entry of `reference_names`, and the lists that lead to them."""

from __future__ import annotations

import functools
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import reference_links as links
import reference_names as names
import reference_subjects as subjects
from reference_math import plain_formulas
from reference_names import Entry
from sphinx.ext.napoleon import Config, GoogleDocstring

from namedax.core.functions import summary_of

#: What `tools/reference.py` has run and measured: an example of each function, and what it sends.
RECORDED = names.ROOT / "docs" / "reference" / "examples.json"
_NAPOLEON = Config(
    napoleon_use_ivar=True,
    napoleon_use_rtype=False,
    napoleon_numpy_docstring=False,
    napoleon_custom_sections=["Communication"],
)
#: Kinds of which all entries share one page for each namespace; what is to be said of one is one line.
_TOGETHER = {"dtype": "dtypes", "primitive": "primitives"}


@functools.cache
def recorded() -> dict[str, Any]:
    """The examples and costs by the names of entries."""
    return json.loads(RECORDED.read_text())["functions"] if RECORDED.exists() else {}


def page_of(entry: Entry) -> str:
    """The page that an entry is on."""
    if entry.kind in _TOGETHER:
        return f"{entry.space}.{_TOGETHER[entry.kind]}"
    # Some file systems do not tell `nx.random.t` from `nx.random.T`.
    twins = [other for other in _by_lower_case()[entry.name.lower()] if other.kind not in _TOGETHER]
    return entry.name + "_" * twins.index(entry)


@functools.cache
def _by_lower_case() -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in names.entries():
        found.setdefault(entry.name.lower(), []).append(entry)
    return found


@functools.cache
def index() -> dict[str, str]:
    """Every public name, and the page that it leads to."""
    return {name: page_of(entry) for name, entry in names.by_name().items()}


@functools.cache
def pages() -> dict[str, str]:
    """All pages, by their names: their texts."""
    made = {
        page_of(entry): _entry_page(entry)
        for entry in names.entries()
        if entry.kind not in _TOGETHER
    }
    for kind, suffix in _TOGETHER.items():
        for space in dict.fromkeys(entry.space for entry in names.entries() if entry.kind == kind):
            members = [
                entry for entry in names.entries() if (entry.space, entry.kind) == (space, kind)
            ]
            made[f"{space}.{suffix}"] = _shared_page(space, kind, members)
    made |= {f"index.{space}": _space_page(space) for space in listed_spaces()}
    made["subjects"] = _subjects_page()
    made["namespaces"] = _namespaces_page()
    return made


# --- one entry ----------------------------------------------------------------------------------------------------------


def _entry_page(entry: Entry) -> str:
    parts = [":orphan:", _title(entry.name), _way_up(entry.space), _description(entry)]
    note = _note(entry)
    parts += [note] if note else []
    found = recorded().get(entry.name, {})
    if "example" in found:
        parts += [".. rubric:: Example", _code(found["example"])]
    if "cost" in found or "no_cost" in found:
        parts += [".. rubric:: On a sharded axis", _costs(found)]
    parts += [found["no_example"]] if "no_example" in found else []
    if entry.kind in ("function", "class"):
        parts += [".. rubric:: See also", *_links(entry)]
    parts += [".. rubric:: Source", _source(entry)]
    return "\n\n".join(parts) + "\n"


def _links(entry: Entry) -> Iterator[str]:
    related = [f":doc:`{one.name} <{page_of(one)}>`" for one in links.see_also(entry)]
    if related:
        yield ", ".join(related)
    uses = [f":doc:`{links.title_of(page)} <{page}>`" for page in links.used_in(entry)]
    yield f"In guides and recipes: {', '.join(uses)}"


def _title(text: str, under: str = "=") -> str:
    return f"{text}\n{under * len(text)}"


def _way_up(space: str) -> str:
    return f":doc:`Reference <../index>` / :doc:`{space} <index.{shown_in(space)}>`"


def _directive(entry: Entry) -> str:
    return {"function": "function", "class": "class", "error": "exception"}.get(entry.kind, "data")


def _description(entry: Entry) -> str:
    """The signature under each of the names, and the docstring."""
    signature = names.signature_of(entry.value) if entry.kind in ("function", "class") else ""
    lines = [f".. py:{_directive(entry)}:: {_signature(entry.name, signature)}"]
    lines += [
        f"   {' ' * len(_directive(entry))}         {_signature(name, '')}"
        for name in entry.names[1:]
    ]
    body = _typed(docstring(names.doc_of(entry)), entry)
    members = _members(entry) if entry.kind == "class" and entry.origin == "own" else ""
    return (
        "\n".join(lines)
        + "\n\n"
        + textwrap.indent("\n\n".join(filter(None, [body, members])), "   ")
    )


def _typed(text: str, entry: Entry) -> str:
    """A docstring with the types of the parameters, as the annotations say."""
    types = names.types_of(entry.value) if entry.kind in ("function", "class") else {}

    def with_type(match: re.Match[str]) -> str:
        known = types.get(match[2].replace("\\", "").lstrip("*"), "")
        return f"{match[1]}:type {match[2]}: ``{known}``\n{match[0]}" if known else match[0]

    text = re.sub(r"(?m)^( *):param (\S+?):", with_type, text)
    if names.returns_nothing(entry.value):
        text = re.sub(
            r"(?m)(?=^\.\. rubric:: Communication|\Z)", ":returns: ``None``.\n\n", text, count=1
        )
    return text


def _signature(name: str, signature: str) -> str:
    return f"{name}{signature}".replace("\\", "\\\\")


def _note(entry: Entry) -> str:
    """Who wrote it, and what of it is no operation."""
    said = names.KINDS[entry.kind]
    if entry.kind == "constant":
        said = f"A constant: ``{_short(entry.value)}``."
    theirs = names.jax_name(entry)
    if entry.kind == "function" and entry.origin == "jax":
        said = f"JAX's own :jax:`{theirs}`, without changes." if theirs else "JAX's own."
    elif entry.kind == "function" and theirs:
        said = f"In JAX: :jax:`{theirs}`."
    return said


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return re.sub(r" at 0x\w+", "", text if len(text) < 300 else f"{text[:297]}...")


def _code(text: str) -> str:
    return ".. code-block:: pycon\n\n" + textwrap.indent(text, "   ")


def _source(entry: Entry) -> str:
    place = names.source_of(entry)
    if not place:
        return "In JAX, not in this package."
    made = " (lifts functions of JAX)" if entry.origin == "lifted" else ""
    return f":source:`{place}`{made}"


def _members(entry: Entry) -> str:
    """The public methods and properties of a class of this package."""
    found = []
    for name, member in sorted(_public_members(entry.value).items()):
        function = (
            member.__func__
            if isinstance(member, (classmethod, staticmethod))
            else getattr(member, "fget", member)
        )
        doc = inspect.getdoc(function) or ""
        twin = f"nx.{name}"
        if entry.name == "nx.NamedArray" and twin in index():
            doc = f"{summary_of(function)}\n\nAs `{twin}`."
        what = "property" if isinstance(member, property) else "method"
        signature = names.signature_of(function) if what == "method" else ""
        signature = re.sub(r"^\((self|cls)(, )?", "(", signature)
        options = "\n   :classmethod:" if isinstance(member, classmethod) else ""
        head = f".. py:{what}:: {entry.name}.{_signature(name, signature)}{options}"
        found.append(head + "\n\n" + textwrap.indent(docstring(doc), "   "))
    return "\n\n".join(found)


def _public_members(cls: type) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("namedax") and not issubclass(base, BaseException):
            members |= {
                name: value for name, value in vars(base).items() if not name.startswith("_")
            }
    return {
        name: value
        for name, value in members.items()
        if isinstance(value, (property, classmethod, staticmethod)) or inspect.isfunction(value)
    }


# --- docstrings ---------------------------------------------------------------------------------------------------------

_LITERAL = re.compile(r"(?::[\w:]+:)?(?<![`\w])(`{1,2})~?([^`]+?)\1(?![`_])")
_LINK = re.compile(r"`([^`<]+?)\s*<([^`>]+)>`__?")
_MARKED = re.compile(f"({_LINK.pattern}|{_LITERAL.pattern})".replace(r"\1", r"\4"))
_COMMUNICATION = re.compile(r"(?m)^Communication: (.*(?:\n(?!\s*$).*)*)")
_RAISES = re.compile(r"(?m)^(\s+)(\w+Error)(?=(?:, \w+Error)*:)")


def docstring(text: str) -> str:
    """A docstring in Google's style as reStructuredText. What stands in backticks is code, and a link if it is a public name."""
    text = re.sub(
        r"`([^`<>]+)`_(?!_)", r"\1", plain_formulas(text)
    )  # JAX's own targets are elsewhere
    blocks = re.split(r"(?m)((?:^[ ]*>>> .*(?:\n(?!\s*$).*)*))", text)
    text = "".join(block if i % 2 else _prose(block) for i, block in enumerate(blocks))
    text = _COMMUNICATION.sub(
        lambda m: "Communication:\n" + textwrap.indent(m[1][:1].upper() + m[1][1:], "  "), text
    )
    return "\n".join(GoogleDocstring(text, _NAPOLEON).lines()).strip()


def _prose(text: str) -> str:
    text = _escaped(text)
    head, found, rest = text.partition("Raises:\n")
    return head + found + _RAISES.sub(lambda m: f"{m[1]}nx.errors.{m[2]}", rest)


def _escaped(text: str) -> str:
    """With what stands in backticks as code, and stars and underscores elsewhere as what they are."""
    result, end = [], 0
    for match in _MARKED.finditer(text):
        result += [
            _plain(text[end : match.start()]),
            _marked(match[0]) + r"\ " * text[match.end() : match.end() + 1].isalnum(),
        ]
        end = match.end()
    return "".join([*result, _plain(text[end:])])


def _plain(text: str) -> str:
    text = re.sub(
        r"(?m)(?<=\S )(\*{1,2})(?=\w)(?![^*\n]*\w\*)", lambda m: m[1].replace("*", r"\*"), text
    )
    text = re.sub(r"(?m)^(\s*)\.\. (?=\[\d+\])", r"\1", text)  # footnotes
    return re.sub(r"(?<=[\w\]])_(?=[\s,.;:()]|$)", r"\\_", text)


def _marked(text: str) -> str:
    if link := _LINK.fullmatch(text):
        return f"`{' '.join(link[1].split())} <{link[2]}>`__"
    code = " ".join(_LITERAL.match(text)[2].split())
    name = code.removesuffix("()")
    return f":py:obj:`{name}`" if name in index() else f"``{code}``"


# --- costs --------------------------------------------------------------------------------------------------------------


def _costs(found: dict[str, Any]) -> str:
    """What was measured, as a table; or why nothing was."""
    if "no_cost" in found:
        return found["no_cost"]
    rows = [("sharded axis", "forward pass", "gradient")]
    rows += [
        (f"``{name}``", said["forward"], said["gradient"]) for name, said in found["cost"].items()
    ]
    types = ", ".join(f"``{name}`` is ``{type_}``" for name, type_ in found["operands"].items())
    result = f" The result is ``{found['result']}``."
    measured = (
        f"Measured: ``{found['call']}`` on 8 devices{f', where {types}' * bool(types)}.{result}"
    )
    return "\n\n".join([measured, _listed(rows, "18 41 41"), _placements(found["cost"])])


#: What is said of a placement that needs no more words.
_AS_USUAL = {"uneven": "yes", "loop": "yes", "auto": "the same", "explicit": "the same"}


def _placements(cost: dict[str, dict[str, str]]) -> str:
    """Sizes that do not divide, loops, and arrays outside of mapped functions."""
    rows = [
        ("axis", "uneven size", "SerialLoop(4)", "outside, Auto axes", "outside, Explicit axes")
    ]
    rows += [
        (f"``{name}``", *(said.get(key, usual) for key, usual in _AS_USUAL.items()))
        for name, said in cost.items()
        if not said["forward"].startswith("rejected")
    ]
    if len(rows) == 1:
        return ""
    text = (
        "Other placements: an axis that does not divide over the devices, one that a"
        " :py:obj:`nx.SerialLoop` computes in chunks, and what a call under ``jit`` outside of mapped"
        " functions sends for operands on the mesh, where XLA chooses."
    )
    return f"{text}\n\n{_listed(rows, '10 20 30 20 20')}"


def _listed(rows: list[tuple[str, ...]], widths: str) -> str:
    table = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in rows:
        table += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
    return "\n".join(table)


# --- lists --------------------------------------------------------------------------------------------------------------


def listed_spaces() -> list[str]:
    """The namespaces that have a list of their own; those of the distributions share that of `nx.scipy.stats`."""
    return list(dict.fromkeys(shown_in(entry.space) for entry in names.entries()))


def shown_in(space: str) -> str:
    """The namespace in whose list the names of a namespace stand."""
    return "nx.scipy.stats" if space.startswith("nx.scipy.stats.") else space


def _row(name: str, entry: Entry) -> list[str]:
    """A line of a list: the name, its other name, and what it is in a sentence."""
    said = _sentence(entry)
    if name != entry.name:
        said = f"is :doc:`{entry.name} <{page_of(entry)}>`. {said}"
    return [f"   * - :doc:`{name} <{page_of(entry)}>`", f"     - {said}"]


def _sentence(entry: Entry) -> str:
    said = " ".join(docstring(names.doc_of(entry)).split("\n\n", 1)[0].split())
    # Up to the end of a sentence that is not in the middle of a piece of code.
    first = re.match(r"((?:``.*?``|`[^`]*`|[^`])*?\.)(?:\s|$)", said)
    return (first[1] if first else said) or names.KINDS[entry.kind] or "\\ "


def _table(rows: Iterable[tuple[str, Entry]]) -> str:
    lines = [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
    return "\n".join([*lines, *(line for row in rows for line in _row(*row))])


def _space_page(space: str) -> str:
    spaces = [label for label in names.spaces() if shown_in(label) == space]
    parts = [_title(space), docstring((names.spaces()[space].__doc__ or "").split("\n\n")[0])]
    if space == "nx":
        first = [(f"nx.{name}", names.by_name()[f"nx.{name}"]) for name in FIRST.split()]
        parts += [".. rubric:: Twenty names to begin with", _table(first)]
    for label in spaces:
        found = [
            (name, entry)
            for entry in names.entries()
            for name in entry.names
            if name.rpartition(".")[0] == label
        ]
        if label != space:
            parts.append(_title(label, "-"))
        parts += _by_kind(sorted(found, key=lambda pair: (pair[0].lower(), pair[0])))
    return "\n\n".join(parts) + "\n"


#: What people use first of the outermost namespace, in the order of a first program.
FIRST = (
    "named NamedArray positional xmap shard SerialLoop nmap dot einsum sum mean cumsum where take rename rearrange concatenate"
    " scan vmap explain"
)


def _by_kind(found: list[tuple[str, Entry]]) -> Iterator[str]:
    for kind in names.KINDS:
        rows = [(name, entry) for name, entry in found if entry.kind == kind]
        if rows and kind in _TOGETHER:
            yield f".. rubric:: {kind.capitalize()}s"
            yield ", ".join(
                f":doc:`{name.rpartition('.')[2]} <{page_of(entry)}>`" for name, entry in rows
            )
        elif rows:
            yield f".. rubric:: {'Classe' if kind == 'class' else kind.capitalize()}s"
            yield _table(rows)


def _shared_page(space: str, kind: str, members: list[Entry]) -> str:
    parts = [":orphan:", _title(f"{space}: {kind}s"), _way_up(space), names.KINDS[kind]]
    for entry in members:
        doc = (
            ""
            if kind == "primitive" or not names._has_own_doc(entry.value)
            else docstring(names.doc_of(entry))
        )
        place = names.source_of(entry)
        said = [doc, f":source:`{place}`" if place else ""]
        lines = [
            f".. py:data:: {entry.name}",
            *(f"             {name}" for name in entry.names[1:]),
        ]
        parts.append(
            "\n".join(lines) + "\n\n" + textwrap.indent("\n\n".join(filter(None, said)), "   ")
        )
    return "\n\n".join(parts) + "\n"


def _namespaces_page() -> str:
    tree = "\n".join(f"   index.{space}" for space in listed_spaces())
    counts = [
        (space, sum(shown_in(name.rpartition(".")[0]) == space for name in index()))
        for space in listed_spaces()
    ]
    rows = [f"   * - :doc:`{space} <index.{space}>`\n     - {count}" for space, count in counts]
    table = "\n".join(
        [".. list-table::", "   :header-rows: 1", "", "   * - namespace\n     - names", *rows]
    )
    return f"{_title('By namespace')}\n\n.. toctree::\n   :hidden:\n\n{tree}\n\n{table}\n"


# --- subjects -----------------------------------------------------------------------------------------------------------


def anchor_of(subject: str) -> str:
    """The label of a subject, for links from other pages."""
    return f"subject-{re.sub('[^a-z]+', '-', subject.lower())}"


def _subjects_page() -> str:
    parts = [
        _title("By subject"),
        "Every function and class, by subject. Dtypes, errors, constants and primitives are listed :doc:`by namespace <namespaces>`.",
    ]
    found: dict[str, list[Entry]] = {}
    for entry in names.entries():
        found.setdefault(subjects.subject_of(entry), []).append(entry)
    for subject in subjects.TITLES:
        rows = [
            (entry.name, entry)
            for entry in found.get(subject, [])
            if entry.kind in ("function", "class")
        ]
        # A function that JAX has, too, under a longer name stands there once: `nx.sum`, and not `nx.numpy.sum` besides.
        top = {name.rpartition(".")[2] for name, entry in rows if entry.space in ("nx", "nx.nn")}
        rows = [
            (n, e)
            for n, e in rows
            if e.space not in ("nx.numpy", "nx.lax") or n.rpartition(".")[2] not in top
        ]
        if rows:
            parts += [f".. _{anchor_of(subject)}:", _title(subject, "-"), _table(rows)]
    return "\n\n".join(parts) + "\n"
