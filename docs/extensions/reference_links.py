"""Where a page of the reference leads: related functions, and the guides and recipes that use it.

Related are those with the same last name, those that mention each other, those that the docstring of JAX refers to, and those next to it in
the same module.
"""

from __future__ import annotations

import collections
import functools
import importlib
import re
from collections.abc import Callable, Iterable

import reference_names as names
import reference_subjects as subjects
from reference_names import Entry

from namedax.core.jax_docstrings import described

#: The folders of pages that show how to use a function, the ones that show most first.
_FOLDERS = ("recipes", "guides", "tutorials", "migration", "models")
_AT_MOST = 6


def _grouped(keys: Callable[[Entry], Iterable[str]]) -> dict[str, list[Entry]]:
    """The functions and classes by keys of theirs."""
    found: dict[str, list[Entry]] = {}
    for entry in names.entries():
        if entry.kind in ("function", "class"):
            for key in keys(entry):
                found.setdefault(key, []).append(entry)
    return found


@functools.cache
def _by_last_name() -> dict[str, list[Entry]]:
    return _grouped(lambda entry: {name.rpartition(".")[2] for name in entry.names})


@functools.cache
def _by_module() -> dict[str, list[Entry]]:
    return _grouped(lambda entry: [_place(entry)[0]] if entry.origin == "own" else [])


@functools.cache
def _by_subject() -> dict[str, list[Entry]]:
    return _grouped(lambda entry: [subjects.subject_of(entry)])


def _place(entry: Entry) -> tuple[str, int]:
    """The module of an entry, and its line."""
    path, _, line = names.source_of(entry).partition(":")
    return path, int(line or 0)


def see_also(entry: Entry) -> list[Entry]:
    """The functions and classes that a reader of a page may look for instead."""
    last = entry.name.rpartition(".")[2]
    twins = [one for one in _by_last_name().get(last, []) if ".stats." not in one.name]
    found = [*twins, *_mentions(entry), *_of_jax(entry), *_neighbors(entry)]
    if len(found) < 2:  # a twin of an entry is the entry itself
        found += _of_subject(entry)
    others = dict.fromkeys(one.name for one in found if one.value is not entry.value)
    return [names.by_name()[name] for name in list(others)[:_AT_MOST]]


@functools.cache
def _mentioned() -> dict[str, list[Entry]]:
    """By page what its text mentions, without its examples, and then what mentions it."""
    known = names.by_name()
    found, by_others = {}, {}
    for entry in names.entries():
        if entry.kind in ("function", "class"):
            prose = re.sub(r"(?m)^ *(?:>>>|\.\.\.) .*$", "", names.doc_of(entry))
            mentioned = dict.fromkeys(re.findall(r"`(nx(?:\.\w+)+)", prose))
            found[entry.name] = [known[name] for name in mentioned if name in known]
            for name in dict.fromkeys(one.name for one in found[entry.name]):
                by_others.setdefault(name, []).append(entry)
    return {name: [*of_it, *by_others.get(name, [])] for name, of_it in found.items()}


def _mentions(entry: Entry) -> list[Entry]:
    """What its text mentions, and whose text mentions it."""
    return [one for one in _mentioned()[entry.name] if one.kind in ("function", "class")]


def _of_jax(entry: Entry) -> list[Entry]:
    theirs = names.jax_name(entry)
    if not theirs or entry.kind != "function":
        return []
    module, _, short = theirs.rpartition(".")
    referred = described(getattr(importlib.import_module(module), short)).see_also
    found = []
    for name in referred:
        ours = (f"nx.{name.removeprefix('numpy.')}", f"nx.{name}")
        found += [names.by_name()[known] for known in ours if known in names.by_name()][:1]
    return [one for one in found if one.kind in ("function", "class")]


def _neighbors(entry: Entry) -> list[Entry]:
    """The public functions of the same module, the nearest first."""
    path, line = _place(entry)
    if entry.origin != "own" or not line:
        return []
    return sorted(
        _by_module()[path],
        key=lambda one: (one.kind != entry.kind, abs(_place(one)[1] - line)),
    )


def _of_subject(entry: Entry) -> list[Entry]:
    """Functions of its namespace and subject whose names begin alike, then the next of the alphabet."""
    same = [
        one for one in _by_subject().get(subjects.subject_of(entry), []) if one.space == entry.space
    ]
    last = entry.name.rpartition(".")[2]

    def distance(one: Entry) -> tuple[int, int]:
        other = one.name.rpartition(".")[2]
        common = next(
            (i for i, pair in enumerate(zip(last, other, strict=False)) if pair[0] != pair[1]),
            len(last),
        )
        return -common, abs(same.index(one) - same.index(entry))

    return sorted(same, key=distance)


# --- pages that use it ------------------------------------------------------------------------------------------------


@functools.cache
def _uses() -> dict[str, collections.Counter[str]]:
    """By public name the pages that it occurs on, and how often."""
    found: dict[str, collections.Counter[str]] = {}
    for folder in _FOLDERS:
        for file in sorted((names.ROOT / "docs" / folder).glob("*.md")):
            if file.stem != "index":
                for name in re.findall(r"\bnx(?:\.\w+)+", file.read_text()):
                    found.setdefault(name, collections.Counter())[f"/{folder}/{file.stem}"] += 1
    return found


@functools.cache
def title_of(page: str) -> str:
    """The title of a page of the documentation."""
    text = (names.ROOT / "docs" / f"{page[1:]}.md").read_text()
    return re.search(r"(?m)^# (.*)$", text)[1].replace("`", "")


def used_in(entry: Entry) -> list[str]:
    """The pages that use an entry, at most two of a folder's and five in all; otherwise the guide to its subject."""
    counts: collections.Counter[str] = sum(
        (_uses().get(name, collections.Counter()) for name in entry.names), collections.Counter()
    )
    pages = [page for page, _ in counts.most_common()]
    found: list[str] = []
    for folder in _FOLDERS:
        of_folder = [page for page in pages if page.startswith(f"/{folder}/")]
        found += of_folder[:2]
    return found[:5] or [subjects.GUIDES[subjects.subject_of(entry)]]
