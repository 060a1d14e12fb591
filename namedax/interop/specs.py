"""The mapping between the keys of a state dict and the places of a tree.

This module matches the keys of a state dict to the entries of a `spec`, and solves for the sizes of
axes. It reads no values. The result is one `Plan` per place, and every mismatch is an error before
any value is read.
"""

from __future__ import annotations

import collections
import fnmatch
import itertools
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.names import DType
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckpointError,
    closest,
    format_value,
    show_dtype,
)
from namedax.interop.entries import Entry, Sizes
from namedax.interop.key_texts import collapsed, listed, text_of_numbers

__all__ = [
    "Equation",
    "Header",
    "Matched",
    "Plan",
    "equations_of_part",
    "make_plans",
    "place_arrays",
    "raise_problems",
    "solve",
]

_MAX_PROBLEMS = 8  # the maximum number of problems in one message


class Header(NamedTuple):
    """The shape and the dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def text(self) -> str:
        """Return the type, such as `f32[2,3]`."""
        return f"{show_dtype(self.dtype)}[{','.join(map(str, self.shape))}]"


class Plan(NamedTuple):
    """The tensors of one place, and the sizes of their axes."""

    entry: Entry
    numbers: tuple[tuple[int, ...], ...]  # of each label in the key
    sizes: dict[Hashable, int]  # of the labels
    header: Header  # of each tensor
    dtype: np.dtype  # of the named array
    tied: dict[str, str]  # the key of the tensor that is read for a tied key

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the named array."""
        return tuple(math.prod(self.sizes[a] for a in term.axes) for term in self.entry.right)

    def key_of(self, places: Sequence[int]) -> str:
        """Return the key of the tensor at these indices of the stacked axes."""
        return self.entry.key_of([of[at] for of, at in zip(self.numbers, places, strict=True)])

    def keys(self) -> Iterator[str]:
        """Yield the keys of the tensors that are read."""
        for one in itertools.product(*self.numbers):
            key = self.entry.key_of(one)
            yield self.tied.get(key, key)

    @property
    def key_text(self) -> str:
        """Return the key pattern with its numbers, such as `layers.{0-31}.weight`."""
        return self.entry.text_of([text_of_numbers(one) for one in self.numbers])


class Matched(NamedTuple):
    """A state dict that matches a spec."""

    plans: list[Plan]
    copies: dict[str, str]  # tied keys that the spec lacks, with their sources
    ignored: list[str]  # keys that are left over


# --- sizes ----------------------------------------------------------------------------------------


class Equation(NamedTuple):
    """The product of the sizes of labels."""

    labels: tuple[Hashable, ...]
    size: int
    what: str


def solve(
    entry: Entry, equations: Iterable[Equation], sizes: Sizes | None, op: str
) -> tuple[dict[Hashable, int], list[str]]:
    """Return the sizes of all labels of an entry, and the problems."""
    equations = [*equations, *_given(entry, sizes, op)]
    known: dict[Hashable, int] = {}
    problems: list[str] = []
    waiting = equations
    while waiting:
        later = []
        for equation in waiting:
            unknown = [label for label in equation.labels if label not in known]
            product = math.prod(known[label] for label in equation.labels if label in known)
            if len(unknown) > 1:
                later.append(equation)
            elif not unknown:
                if product != equation.size:
                    shown = ", ".join(f"{label}={known[label]}" for label in equation.labels)
                    problems.append(f"{equation.what} has size {equation.size}, not {shown or 1}.")
            elif product == 0 or equation.size % product:
                shown = ", ".join(f"{one}={known[one]}" for one in equation.labels if one in known)
                problems.append(
                    f"{equation.what} has size {equation.size}, which {shown} does not divide."
                )
                known[unknown[0]] = 1
            else:
                known[unknown[0]] = equation.size // product
        if len(later) == len(waiting):
            break
        waiting = later
    missing = [
        label
        for label in dict.fromkeys(label for term in entry.right for label in term.axes)
        if label not in known
    ]
    if missing and not problems:
        given = ", ".join(f"{label!r}: ..." for label in missing[:-1])
        problems.append(
            f"the sizes of {', '.join(map(repr, missing))} do not follow from the shape."
            f" Pass sizes={{{given}}}."
        )
    return known, problems


def _given(entry: Entry, sizes: Sizes | None, op: str) -> list[Equation]:
    """Return the sizes that the user has passed, by axis name or by label."""
    if sizes is None:
        return []
    if not isinstance(sizes, Mapping):
        raise ArgumentTypeError(f"{op}: sizes is {format_value(sizes)}, not a dict of sizes.")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise ArgumentTypeError(
                f"{op}: sizes[{name!r}] is {format_value(size)}, not a size. Pass an integer."
            )
    equations = [
        Equation(term.axes, int(sizes[term.name]), f"axis {term.name!r} in sizes=")  # type: ignore[index]
        for term in entry.right
        if term.name in sizes
    ]
    names = {term.name for term in entry.right}
    labels = dict.fromkeys(label for term in entry.right for label in term.axes)
    equations += [
        Equation((label,), int(sizes[label]), f"{label!r} in sizes=")  # type: ignore[index]
        for label in labels
        if label in sizes and label not in names
    ]
    # First those of single labels, from which others follow.
    return sorted(equations, key=lambda equation: len(equation.labels))


# --- matching the keys ----------------------------------------------------------------------------


def make_plans(
    headers: Mapping[str, Header],
    entries: Sequence[Entry],
    op: str,
    *,
    sizes: Sizes | None = None,
    tied: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    dtype: DType | None = None,
    stored_problems: Sequence[str] = (),
    where: str = "the state dict",
) -> Matched:
    """Match the keys of a state dict to a spec.

    Args:
      headers: the headers of the tensors by their keys.
      entries: the entries of the spec.
      op: the operation, for messages.
      sizes: sizes of labels.
      tied: tied keys.
      ignore: patterns of keys that may be left over.
      dtype: the dtype of floating-point arrays.
      stored_problems: problems of the stored tensors.
      where: the source of the tensors, for messages.

    Raises:
      CheckpointError: keys are missing or left over, or shapes do not fit; the message has them.
    """
    tied = tied or {}
    found, left_over, problems = _assign(headers, entries)
    numbers = _numbers(entries, found, sizes, op)
    plans: list[Plan] = []
    copies: dict[str, str] = {}
    ignored: list[str] = []
    for key in list(left_over):
        if key in tied:
            copies[key] = tied[key]
            left_over.remove(key)
            problems += _tie_problems(key, tied[key], headers)
        elif any(fnmatch.fnmatchcase(key, pattern) for pattern in ignore):
            ignored.append(key)
            left_over.remove(key)
    for entry in entries:
        plan, faults = _plan(
            entry, found[entry.key], numbers[entry.key], headers, left_over, sizes, tied, dtype, op
        )
        problems += faults
        if plan is not None:
            plans.append(plan)
    problems += _left_over(left_over, entries) + _ignored_scales(ignored, found.values())
    # Parts of a tensor share their problems.
    raise_problems([*dict.fromkeys([*stored_problems, *problems])], where, op)
    return Matched(plans, copies, ignored)


def raise_problems(problems: Sequence[str], where: str, op: str) -> None:
    """Raise `CheckpointError` if there are problems."""
    if not problems:
        return
    more = (
        [f"... and {len(problems) - _MAX_PROBLEMS} more."] if len(problems) > _MAX_PROBLEMS else []
    )
    lines = "".join(f"\n  {line}" for line in [*problems[:_MAX_PROBLEMS], *more])
    raise CheckpointError(
        f"{op}: spec does not match {where}.{lines}\nNothing was read or written. Correct spec="
        " or sizes=."
    )


def _assign(
    headers: Mapping[str, Header], entries: Sequence[Entry]
) -> tuple[dict[str, dict[tuple[int, ...], str]], list[str], list[str]]:
    """Return the keys of each entry by their numbers, the other keys, and problems."""
    found: dict[str, dict[tuple[int, ...], str]] = {entry.key: {} for entry in entries}
    by_key = {entry.key: entry for entry in entries}  # the parts of a tensor have one key
    owner = {key: entry for key, entry in by_key.items() if not entry.numbers}
    stacked = [(entry, entry.regex) for entry in by_key.values() if entry.numbers]
    left_over: list[str] = []
    overlaps: dict[tuple[str, ...], list[str]] = {}
    for key in headers:
        owners = [owner[key].key] if key in owner else []
        if owners:
            found[key][()] = key
        for entry, regex in stacked:
            if (match := regex.fullmatch(key)) and entry.has_numbers(_integers(match)):
                owners.append(entry.key)
                found[entry.key][_integers(match)] = key
        if not owners:
            left_over.append(key)
        elif len(owners) > 1:
            overlaps.setdefault(tuple(owners), []).append(key)
    problems = [
        f"{listed(collapsed(keys))} matches {' and '.join(map(repr, owners))}. Change the keys or"
        " their numbers, so that each key has one entry."
        for owners, keys in overlaps.items()
    ]
    return found, left_over, problems


def _integers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(map(int, match.groups()))


def _left_over(keys: Sequence[str], entries: Sequence[Entry]) -> list[str]:
    """Return a problem for each entry whose numbers lack keys, and one for other keys."""
    outside: dict[Entry, list[str]] = {}
    others: list[str] = []
    stacked = [(entry, entry.regex) for entry in entries if entry.numbers]
    for key in keys:
        entry = next((entry for entry, regex in stacked if regex.fullmatch(key)), None)
        (others if entry is None else outside.setdefault(entry, [])).append(key)
    problems = [
        f"left over: {listed(collapsed(found))}, whose numbers are not in {entry.key!r}"
        f"{_sources(entry)}. Extend the numbers, or add an entry for the others."
        for entry, found in outside.items()
    ]
    if others:
        problems.append(
            f"left over: {listed(collapsed(others))}. Add entries to spec, or allow keys with"
            f" ignore=.{_quantization_hint(others)}"
        )
    return problems


def _ignored_scales(
    ignored: Sequence[str], found: Iterable[Mapping[tuple[int, ...], str]]
) -> list[str]:
    """Return a problem if ignored keys are the scales of tensors that are read."""
    read = {key for keys in found for key in keys.values()}
    scales = [key for key in ignored if key.removesuffix("_scale_inv") in read]
    if not scales:
        return []
    return [
        f"ignored: {listed(collapsed(scales))}, but the tensors with these scales are in spec. Pass"
        " quantization='fp8' to dequantize them."
    ]


def _quantization_hint(keys: Sequence[str]) -> str:
    for suffix, method in (("_scale_inv", "fp8"), ("_scales", "mxfp4")):
        if any(key.endswith(suffix) for key in keys):
            return f" Pass quantization={method!r} to dequantize tensors."
    return ""


def _sources(entry: Entry) -> str:
    """Return the numbers of an entry that are arguments, as text."""
    given = [
        f"{of.text}={text_of_numbers(of.values)}"
        for label, of in zip(entry.numbers, entry.ranges, strict=True)
        if of.values and f"{{{label}:" not in entry.key
    ]
    return f" with {' and '.join(given)}" if given else ""


def _numbers(
    entries: Sequence[Entry],
    found: Mapping[str, Mapping[tuple[int, ...], str]],
    sizes: Sizes | None,
    op: str,
) -> dict[str, tuple[tuple[int, ...], ...]]:
    """Return the numbers of the tensors along the stacked axes of each entry.

    A range without an end has as many numbers as in `sizes`, or they follow from all keys with the
    same prefix.
    """
    tops: dict[str, int] = collections.defaultdict(int)
    for entry in entries:
        for place, label in enumerate(entry.numbers):
            top = max((numbers[place] + 1 for numbers in found[entry.key]), default=0)
            prefix = entry.prefix(label)
            tops[prefix] = max(tops[prefix], top)
    result = {}
    for entry in entries:
        given = _sizes_of_labels(entry, sizes, op)
        result[entry.key] = tuple(
            of.first(given[label]) if label in given else of.below(tops[entry.prefix(label)])
            for label, of in zip(entry.numbers, entry.ranges, strict=True)
        )
    return result


def _sizes_of_labels(entry: Entry, sizes: Sizes | None, op: str) -> dict[Hashable, int]:
    equations = _given(entry, sizes, op)
    return {one.labels[0]: one.size for one in equations if len(one.labels) == 1}


def _plan(
    entry: Entry,
    keys: Mapping[tuple[int, ...], str],
    numbers: tuple[tuple[int, ...], ...],
    headers: Mapping[str, Header],
    left_over: Sequence[str],
    sizes: Sizes | None,
    tied: Mapping[str, str],
    dtype: DType | None,
    op: str,
) -> tuple[Plan | None, list[str]]:
    """Return the plan of an entry, or `None` and problems."""
    problems: list[str] = []
    ties: dict[str, str] = {}
    read: dict[str, str] = {}
    missing: list[str] = []
    for one in itertools.product(*numbers):
        key = keys.get(one)
        wanted = entry.key_of(one)
        if key is None and wanted in tied and tied[wanted] in headers:
            key = ties[wanted] = tied[wanted]
        if key is None:
            missing.append(wanted)
        else:
            read[wanted] = key
    sets = [set(column) for column in numbers]
    extra = [
        key
        for found, key in keys.items()
        if any(number not in column for number, column in zip(found, sets, strict=True))
    ]
    if extra:
        shown = ", ".join(
            f"{label}={len(column)}" for label, column in zip(entry.numbers, numbers, strict=True)
        )
        problems.append(f"{listed(collapsed(extra))} exceeds {shown} of sizes=.")
    if not missing and not read:
        missing = [entry.template]
    if missing:
        problems.append(
            _missing(entry, missing, left_over, tied)
            + _gaps(entry, numbers, keys, _sizes_of_labels(entry, sizes, op))
        )
    if not read:
        return None, problems
    kinds: dict[Header, list[str]] = {}
    for key in read.values():
        kinds.setdefault(headers[key], []).append(key)
    header, first = max(kinds.items(), key=lambda kind: len(kind[1]))
    for other, others in kinds.items():
        if other != header:
            problems.append(
                f"{listed(collapsed(others))} is {other.text}, but {first[0]!r} is {header.text}."
                " Tensors that are stacked must have equal shapes and dtypes."
            )
    known, faults = _solved(entry, header, numbers, sizes, op)
    problems += [
        f"{entry.key!r}, {header.text}, pattern {entry.pattern!r}: {one}" for one in faults
    ]
    wanted_dtype, fault = _result_dtype(header.dtype, dtype, op)
    if fault:
        problems.append(f"{entry.key!r}, {header.text}: {fault}")
    plan = Plan(entry, numbers, known, header, wanted_dtype, ties)
    return None if problems else plan, problems


def _solved(
    entry: Entry,
    header: Header,
    numbers: Sequence[Sequence[int]],
    sizes: Sizes | None,
    op: str,
) -> tuple[dict[Hashable, int], list[str]]:
    if len(header.shape) != len(entry.left):
        return {}, [f"the tensor has {len(header.shape)} axes, the pattern {len(entry.left)}."]
    equations = [
        Equation((label,), len(column), f"the number {label!r} of keys")
        for label, column in zip(entry.numbers, numbers, strict=True)
    ]
    equations += [
        Equation(term.axes, size, f"axis {axis} of the tensor")
        for axis, (term, size) in enumerate(zip(entry.left, header.shape, strict=True))
    ]
    equations += equations_of_part(entry)
    return solve(entry, equations, sizes, op)


def equations_of_part(entry: Entry) -> list[Equation]:
    """Return the size of the axis that is split over places."""
    if entry.part is None:
        return []
    label, _, names = entry.part
    return [Equation((label,), len(names), f"the number of parts {', '.join(map(repr, names))}")]


def _missing(
    entry: Entry, missing: Sequence[str], left_over: Sequence[str], tied: Mapping[str, str]
) -> str:
    text = f"missing: {listed(collapsed(missing))}, for {entry.written_place!r}."
    example = entry.text_of(["0"] * len(entry.numbers)) if entry.template in missing else missing[0]
    close = closest(example, left_over)
    if missing[0] in tied:
        return f"{text} Neither is {tied[missing[0]]!r} there, to which it is tied."
    return text + ("" if close is None else f" Did you mean {close!r}?")


def _gaps(
    entry: Entry,
    numbers: Sequence[Sequence[int]],
    keys: Iterable[tuple[int, ...]],
    sizes: Mapping[Hashable, int],
) -> str:
    """Return sentences about labels for which the keys have other numbers."""
    text = ""
    found = list(keys)
    for place, (label, of) in enumerate(zip(entry.numbers, entry.ranges, strict=True)):
        have = sorted({one[place] for one in found})
        if not have or set(have) >= set(numbers[place]):
            continue
        text += f" The keys have the numbers {text_of_numbers(have)} of {label!r}."
        size = sizes.get(label)
        if not of.text:
            given = "" if size is None else f", and sizes= has {label}={size}"
            # With the size of another number of keys, the label would need further keys.
            name = label if size in (None, len(have)) else f"other_{label}"
            text += f" Numbers run from 0 without gaps{given}. For other numbers, "
            text += _fitting(name, have, numbers[place][-1])
        elif of.values is None and size is not None:
            last = numbers[place][-1]
            text += f" sizes= has {label}={size}, so the last number is {last}."
    return text


def _fitting(label: str, have: Sequence[int], last: int) -> str:
    """Return the remedy for a label with other numbers than 0, 1, ..., `last`."""
    step = have[1] - have[0] if len(have) > 1 else 1
    if have == [*range(have[0], have[-1] + 1, step)] and (step == 1 or len(have) > 2):
        stop = "" if have[-1] + step > last else have[-1] + 1
        start = have[0] if have[0] or step > 1 else ""
        return f"write {{{label}:{start}..{stop}{'' if step == 1 else f':{step}'}}}."
    if len(have) > _MAX_PROBLEMS:
        first = ", ".join(map(str, have[:3]))
        return f"pass numbers={{{label!r}: [{first}, ...]}}."
    return f"write {{{label}:{','.join(map(str, have))}}}."


def _tie_problems(key: str, source: str, headers: Mapping[str, Header]) -> list[str]:
    if source not in headers:
        return [f"{key!r} is tied to {source!r}, which is missing."]
    if headers[key] != headers[source]:
        return [
            f"{key!r}, {headers[key].text}, is tied to {source!r}, {headers[source].text}. Tied"
            " tensors are equal."
        ]
    return []


def _result_dtype(stored: np.dtype, dtype: DType | None, op: str) -> tuple[np.dtype, str]:
    """Return the dtype of the named array, and a problem or an empty string."""
    wanted = stored
    if dtype is not None:
        to = np.dtype(jnp.dtype(dtype))
        if not jnp.issubdtype(to, jnp.inexact):
            raise ArgumentError(
                f"{op}: dtype is {show_dtype(to)}, but only tensors of floats are cast. Pass a"
                " floating-point dtype."
            )
        if jnp.issubdtype(stored, jnp.floating):
            wanted = to
    if jax.dtypes.canonicalize_dtype(wanted) != wanted:
        cast = ", or pass dtype=" if jnp.issubdtype(wanted, jnp.floating) else ""
        return wanted, (
            f"JAX has no {show_dtype(wanted)} while jax_enable_x64 is disabled. Enable it{cast}."
        )
    return wanted, ""


def place_arrays(plans: Iterable[Plan], values: Iterable[Any]) -> dict[str, Any]:
    """Return nested dicts with the values at their places."""
    tree: dict[str, Any] = {}
    for plan, value in zip(plans, values, strict=True):
        node = tree
        for part in plan.entry.place[:-1]:
            node = node.setdefault(part, {})
        node[plan.entry.place[-1]] = value
    return tree
