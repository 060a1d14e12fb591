"""The mapping between the keys of a state dict and the places of a tree.

An entry of a `spec` maps a key pattern to a place and an einops pattern. This module parses
entries, matches the keys of a state dict to them, and solves for the sizes of axes. It reads no
values. The result is one `Plan` per place, and every mismatch is an error before any value is read.
"""

from __future__ import annotations

import collections
import fnmatch
import itertools
import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.names import Dims, DType
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    CheckpointError,
    RearrangeError,
    closest,
    did_you_mean,
    format_value,
    show_dtype,
)
from namedax.ops.shape.patterns import ELLIPSIS, Term, parse_pattern

__all__ = [
    "Entry",
    "Equation",
    "Header",
    "Matched",
    "Plan",
    "Sizes",
    "Spec",
    "Tied",
    "collapsed",
    "key_text",
    "make_plans",
    "names_of_numbers",
    "parse_spec",
    "parse_tied",
    "place_arrays",
    "raise_problems",
    "solve",
]

Spec = Mapping[str, tuple[str, str]]
Sizes = Mapping[str, int]
Tied = Mapping[str, str]

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_MAX_PROBLEMS = 8  # the maximum number of problems in one message


class Header(NamedTuple):
    """The shape and the dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def text(self) -> str:
        """Return the type, such as `f32[2,3]`."""
        return f"{show_dtype(self.dtype)}[{','.join(map(str, self.shape))}]"


class Entry(NamedTuple):
    """One parsed entry of a spec."""

    key: str  # the key pattern
    place: tuple[str, ...]
    pattern: str
    numbers: tuple[str, ...]  # the labels of the numbers in the key
    left: tuple[Term, ...]  # the axes of a tensor
    right: tuple[Term, ...]  # the axes of the named array

    @property
    def place_text(self) -> str:
        """Return the place as text, such as `layers/query`."""
        return "/".join(self.place)

    @property
    def dims(self) -> Dims:
        """Return the dims of the named array."""
        return tuple(term.name for term in self.right)

    def in_order(self, order: Sequence[int]) -> Entry:
        """Return the entry with another order of the axes of the named array."""
        right = tuple(self.right[axis] for axis in order)
        return Entry(self.key, self.place, self.pattern, self.numbers, self.left, right)

    def key_of(self, numbers: Sequence[int]) -> str:
        """Return the key of one tensor."""
        values = dict(zip(self.numbers, numbers, strict=True))
        return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), self.key)

    @property
    def regex(self) -> re.Pattern[str]:
        """Return an expression with one group for each label of `numbers`."""
        parts, at, seen = [], 0, set()
        for match in _PLACEHOLDER.finditer(self.key):
            parts.append(re.escape(self.key[at : match.start()]))
            group = f"n{self.numbers.index(match[1])}"
            parts.append(f"(?P={group})" if group in seen else f"(?P<{group}>0|[1-9][0-9]*)")
            seen.add(group)
            at = match.end()
        return re.compile("".join(parts) + re.escape(self.key[at:]))

    def prefix(self, label: str) -> str:
        """Return the key pattern up to the number of `label`.

        Entries with the same prefix have the same numbers there.
        """
        return self.key[: self.key.index(f"{{{label}}}")]


class Plan(NamedTuple):
    """The tensors of one place, and the sizes of their axes."""

    entry: Entry
    sizes: dict[Hashable, int]  # of the labels
    header: Header  # of each tensor
    dtype: np.dtype  # of the named array
    tied: dict[str, str]  # the key of the tensor that is read for a tied key

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the sizes of the stacked axes."""
        return tuple(self.sizes[label] for label in self.entry.numbers)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the named array."""
        return tuple(math.prod(self.sizes[a] for a in term.axes) for term in self.entry.right)

    def keys(self) -> list[str]:
        """Return the keys of all tensors."""
        return [self.entry.key_of(numbers) for numbers in np.ndindex(*self.counts)]


class Matched(NamedTuple):
    """A state dict that matches a spec."""

    plans: list[Plan]
    copies: dict[str, str]  # tied keys that the spec lacks, with their sources
    ignored: list[str]  # keys that are left over


# --- parsing --------------------------------------------------------------------------------------


def parse_spec(spec: Spec, op: str) -> list[Entry]:
    """Parse a spec, and check that its entries do not contradict each other.

    Raises:
      ArgumentTypeError: the spec or an entry has the wrong type.
      ArgumentError: a key pattern or a place is malformed, or two places overlap.
      RearrangeError: a pattern is malformed; the message has a caret under the error.
    """
    if not isinstance(spec, Mapping):
        raise ArgumentTypeError(f"{op}: spec is {format_value(spec)}, not a dict. {_EXAMPLE}")
    entries = [_parse_entry(key, value, op) for key, value in spec.items()]
    places: dict[tuple[str, ...], str] = {}
    for entry in entries:
        if entry.place in places:
            raise ArgumentError(
                f"{op}: spec has the place {entry.place_text!r} twice, for"
                f" {places[entry.place]!r} and {entry.key!r}. Give each key its own place."
            )
        places[entry.place] = entry.key
    for entry in entries:
        for length in range(1, len(entry.place)):
            if entry.place[:length] in places:
                raise ArgumentError(
                    f"{op}: spec has an array at {'/'.join(entry.place[:length])!r}, for"
                    f" {places[entry.place[:length]]!r}, and one inside of it at"
                    f" {entry.place_text!r}, for {entry.key!r}. Rename one of the places."
                )
    return entries


_EXAMPLE = 'Write {"embed.weight": ("embed", "v e -> {vocab=v, embed=e}")}.'


def _parse_entry(key: object, value: object, op: str) -> Entry:
    if not isinstance(key, str):
        raise ArgumentTypeError(f"{op}: spec has the key {format_value(key)}, not a string.")
    if (
        not isinstance(value, (tuple, list))
        or len(value) != 2
        or not all(isinstance(part, str) for part in value)
    ):
        raise ArgumentTypeError(
            f"{op}: spec[{key!r}] is {format_value(value)}, not a place and a pattern. {_EXAMPLE}"
        )
    numbers = tuple(dict.fromkeys(_PLACEHOLDER.findall(key)))
    bad = next((label for label in numbers if not label.isidentifier()), None)
    if bad is not None or re.search(r"[{}]", _PLACEHOLDER.sub("", key)):
        raise ArgumentError(
            f"{op}: the key pattern {key!r} has braces that are not a name. Write a name for each"
            " number, such as 'layers.{layers}.weight'."
        )
    place, pattern = value
    parts = tuple(place.split("/"))
    if not all(parts):
        raise ArgumentError(
            f"{op}: spec[{key!r}] has the place {place!r} with an empty part. Write names with '/'"
            " between them, such as 'layers/query'."
        )
    of = f"{op}: spec[{key!r}]"
    parsed = parse_pattern(of, pattern, "tensor")
    entry = Entry(
        key,
        parts,
        pattern,
        numbers,
        parsed.left,
        parsed.right,
    )
    _check_labels(entry, of)
    return entry


def _check_labels(entry: Entry, op: str) -> None:
    """Check that both sides have the same labels; the right side has those of the key too."""
    left = {label for term in entry.left for label in term.axes}
    right = {label for term in entry.right for label in term.axes}
    arrow = entry.pattern.index("->")

    def fail(why: str, label: Hashable, is_left: bool) -> NoReturn:
        start, end = (0, arrow) if is_left else (arrow + 2, len(entry.pattern))
        found = re.compile(rf"(?<!\w){re.escape(str(label))}(?!\w)(?!\s*=)").search(
            entry.pattern, start, end
        )
        at = start if found is None else found.start()
        raise RearrangeError(f"{op}: {why}\n  {entry.pattern}\n  {' ' * at}^")

    for is_left, terms in ((True, entry.left), (False, entry.right)):
        if any(ELLIPSIS in term.axes for term in terms):
            fail("'...' is not supported. Write every axis of the tensor.", ELLIPSIS, is_left)
    for term in entry.left:
        if term.name is not None:
            at = entry.pattern.index("{")
            raise RearrangeError(
                f"{op}: a tensor of a state dict has no named axes. Write braces on the right"
                f" only.\n  {entry.pattern}\n  {' ' * at}^"
            )
    for label in entry.numbers:
        if label in left:
            fail(
                f"{label!r} is a number in the key, and not an axis of the tensor. Write it on the"
                " right only.",
                label,
                True,
            )
        if label not in right:
            at = len(entry.pattern)
            raise RearrangeError(
                f"{op}: the key has the number {label!r}, which the right side lacks. Add the axis"
                f" along which its tensors are stacked.\n  {entry.pattern}\n  {' ' * at}^"
            )
    for extra in sorted(right - left - set(entry.numbers), key=str):
        hint = did_you_mean(extra, [one for one in left - right if isinstance(one, str)])
        fail(
            f"axis {extra!r} is neither on the left nor a number in the key.{hint} Write"
            f" {{{extra}}} in the key to stack tensors.",
            extra,
            False,
        )
    for extra in sorted(left - right, key=str):
        fail(f"axis {extra!r} appears on the left only. Add it to the right side.", extra, True)


def parse_tied(tied: Tied | None, op: str) -> dict[str, str]:
    """Return, for each tied key, the key at the end of its chain.

    Raises:
      ArgumentTypeError: it is not a dict of keys.
      ArgumentError: keys are tied in a circle.
    """
    if tied is None:
        return {}
    if not isinstance(tied, Mapping) or not all(
        isinstance(text, str) for pair in tied.items() for text in pair
    ):
        raise ArgumentTypeError(
            f"{op}: tied is {format_value(tied)}, not a dict from keys to keys. Write"
            ' tied={"lm_head.weight": "model.embed_tokens.weight"}.'
        )
    found = {}
    for key in tied:
        source, seen = tied[key], [key]
        while source in tied and source not in seen:
            seen.append(source)
            source = tied[source]
        if source in seen:
            raise ArgumentError(
                f"{op}: tied has a circle, {' -> '.join(map(repr, [*seen, source]))}. Tie each key"
                " to a key of the state dict."
            )
        found[key] = source
    return found


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
    where: str = "the state dict",
) -> Matched:
    """Match the keys of a state dict to a spec.

    Raises:
      CheckpointError: keys are missing or left over, or shapes do not fit; the message has them.
    """
    tied = tied or {}
    found, left_over, problems = _assign(headers, entries)
    counts = _counts(entries, found, sizes, op)
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
            entry, found[entry.key], counts[entry.key], headers, left_over, sizes, tied, dtype, op
        )
        problems += faults
        if plan is not None:
            plans.append(plan)
    if left_over:
        problems.append(
            f"left over: {_listed(collapsed(left_over))}. Add entries to spec, or allow keys with"
            " ignore=."
        )
    raise_problems(problems, where, op)
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
    owner = {entry.key: entry for entry in entries if not entry.numbers}
    stacked = [(entry, entry.regex) for entry in entries if entry.numbers]
    left_over, problems = [], []
    for key in headers:
        owners = [owner[key].key] if key in owner else []
        if owners:
            found[key][()] = key
        for entry, regex in stacked:
            if match := regex.fullmatch(key):
                owners.append(entry.key)
                found[entry.key][tuple(int(number) for number in match.groups())] = key
        if not owners:
            left_over.append(key)
        elif len(owners) > 1:
            problems.append(f"{key!r} matches {' and '.join(map(repr, owners))}.")
    return found, left_over, problems


def _counts(
    entries: Sequence[Entry],
    found: Mapping[str, Mapping[tuple[int, ...], str]],
    sizes: Sizes | None,
    op: str,
) -> dict[str, tuple[int, ...]]:
    """Return the numbers of tensors along the stacked axes of each entry.

    They are those in `sizes`, or follow from all keys with the same prefix.
    """
    largest: dict[str, int] = collections.defaultdict(int)
    for entry in entries:
        for place, label in enumerate(entry.numbers):
            top = max((numbers[place] + 1 for numbers in found[entry.key]), default=0)
            prefix = entry.prefix(label)
            largest[prefix] = max(largest[prefix], top)
    result = {}
    for entry in entries:
        given = {
            equation.labels[0]: equation.size
            for equation in _given(entry, sizes, op)
            if len(equation.labels) == 1
        }
        result[entry.key] = tuple(
            given.get(label, largest[entry.prefix(label)]) for label in entry.numbers
        )
    return result


def _plan(
    entry: Entry,
    keys: Mapping[tuple[int, ...], str],
    counts: tuple[int, ...],
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
    for numbers in itertools.product(*map(range, counts)):
        key = keys.get(numbers)
        wanted = entry.key_of(numbers)
        if key is None and wanted in tied and tied[wanted] in headers:
            key = ties[wanted] = tied[wanted]
        if key is None:
            missing.append(wanted)
        else:
            read[wanted] = key
    extra = [
        key
        for numbers, key in keys.items()
        if any(number >= count for number, count in zip(numbers, counts, strict=True))
    ]
    if extra:
        shown = ", ".join(f"{label}={n}" for label, n in zip(entry.numbers, counts, strict=True))
        problems.append(f"{_listed(collapsed(extra))} exceeds {shown} of sizes=.")
    if not missing and not read:
        missing = [entry.key]
    if missing:
        problems.append(_missing(entry, missing, left_over, tied))
    if not read:
        return None, problems
    kinds: dict[Header, list[str]] = {}
    for key in read.values():
        kinds.setdefault(headers[key], []).append(key)
    header, first = max(kinds.items(), key=lambda kind: len(kind[1]))
    for other, others in kinds.items():
        if other != header:
            problems.append(
                f"{_listed(collapsed(others))} is {other.text}, but {first[0]!r} is {header.text}."
                " Tensors that are stacked must have equal shapes and dtypes."
            )
    known, faults = _solved(entry, header, counts, sizes, op)
    keys_text = collapsed([entry.key_of(n) for n in itertools.product(*map(range, counts))][:1])
    named = keys_text[0] if not entry.numbers else entry.key
    problems += [f"{named!r}, {header.text}, pattern {entry.pattern!r}: {one}" for one in faults]
    wanted_dtype, fault = _result_dtype(header.dtype, dtype, op)
    if fault:
        problems.append(f"{named!r}, {header.text}: {fault}")
    return None if problems else Plan(entry, known, header, wanted_dtype, ties), problems


def _solved(
    entry: Entry, header: Header, counts: Sequence[int], sizes: Sizes | None, op: str
) -> tuple[dict[Hashable, int], list[str]]:
    if len(header.shape) != len(entry.left):
        return {}, [f"the tensor has {len(header.shape)} axes, the pattern {len(entry.left)}."]
    equations = [
        Equation((label,), count, f"the number {label!r} of keys")
        for label, count in zip(entry.numbers, counts, strict=True)
    ]
    equations += [
        Equation(term.axes, size, f"axis {axis} of the tensor")
        for axis, (term, size) in enumerate(zip(entry.left, header.shape, strict=True))
    ]
    return solve(entry, equations, sizes, op)


def _missing(
    entry: Entry, missing: Sequence[str], left_over: Sequence[str], tied: Mapping[str, str]
) -> str:
    text = f"missing: {_listed(collapsed(missing))}, for {entry.place_text!r}."
    example = re.sub(r"\{\w+\}", "0", missing[0])
    close = closest(example, left_over)
    if missing[0] in tied:
        return f"{text} Neither is {tied[missing[0]]!r} there, to which it is tied."
    return text + ("" if close is None else f" Did you mean {close!r}?")


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


# --- keys in messages -----------------------------------------------------------------------------


_NUMBER = re.compile(r"(?:(?<=^)|(?<=\.))[0-9]+(?=\.|$)")


def collapsed(keys: Iterable[str]) -> list[str]:
    """Return keys with ranges in place of numbers, in their order.

    >>> from namedax.interop.specs import collapsed
    >>> collapsed(["a.0.w", "a.1.w", "a.3.w", "b"])
    ['a.{0..1,3}.w', 'b']
    """
    groups: dict[str, list[tuple[int, ...]]] = {}
    for key in keys:
        numbers = tuple(int(match[0]) for match in _NUMBER.finditer(key))
        groups.setdefault(_NUMBER.sub("{}", key), []).append(numbers)
    result = []
    for template, found in groups.items():
        columns = [sorted(set(column)) for column in zip(*found, strict=True)]
        if len(set(found)) != math.prod(map(len, columns)):
            result += [_filled(template, map(str, numbers)) for numbers in found]
        else:
            result.append(_filled(template, map(names_of_numbers, columns)))
    return result


def _filled(template: str, texts: Iterable[str]) -> str:
    supply = iter(texts)
    return re.sub(r"\{\}", lambda _: next(supply), template)


def names_of_numbers(numbers: Sequence[int]) -> str:
    """Return the text of ascending integers, such as `{0..1,3}`.

    >>> from namedax.interop.specs import names_of_numbers
    >>> names_of_numbers([0, 1, 3]), names_of_numbers([2])
    ('{0..1,3}', '2')
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
    return texts[0] if len(numbers) == 1 else f"{{{','.join(texts)}}}"


def _listed(keys: Sequence[str]) -> str:
    shown = [repr(key) for key in keys[:4]]
    more = f" and {len(keys) - 4} more" if len(keys) > 4 else ""
    return ", ".join(shown) + more


def key_text(entry: Entry, counts: Sequence[int]) -> str:
    """Return the key pattern of an entry with ranges, such as `layers.{0..31}.weight`."""
    texts = {
        label: f"{{0..{count - 1}}}" if count > 1 else "0"
        for label, count in zip(entry.numbers, counts, strict=True)
    }
    return _PLACEHOLDER.sub(lambda match: texts[match[1]], entry.key)


def place_arrays(plans: Iterable[Plan], values: Iterable[Any]) -> dict[str, Any]:
    """Return nested dicts with the values at their places."""
    tree: dict[str, Any] = {}
    for plan, value in zip(plans, values, strict=True):
        node = tree
        for part in plan.entry.place[:-1]:
            node = node.setdefault(part, {})
        node[plan.entry.place[-1]] = value
    return tree
