"""Names with a fixed mapping, the argument `fixed` of `plan`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from namedax.errors import ArgumentError, did_you_mean, show_names
from namedax.insight.planning.space import Pin, Space
from namedax.resources.serial import SerialLoop

__all__ = ["check_fixed", "check_sizes", "conflict", "fixed_axes", "parse_fixed"]


def parse_fixed(fixed: Mapping[Hashable, Any] | None) -> dict[Hashable, Pin]:
    """Return the mesh axes and the loop of each name.

    Raises:
      ArgumentError: it is not a dict, or a value is not a mesh axis, a `SerialLoop`, a tuple of
        these, or `None`.

    >>> from namedax.insight.planning.fixed_names import parse_fixed
    >>> parse_fixed({"batch": ("x", "y"), "vocab": None})["vocab"]
    (frozenset(), None)
    """
    if fixed is None:
        return {}
    if not isinstance(fixed, Mapping):
        raise ArgumentError(
            f"plan: fixed={fixed!r} must map names to mesh axes. Use fixed={{'batch': 'x'}}, or"
            " fixed={'batch': None} for a name that must not be mapped."
        )
    found: dict[Hashable, Pin] = {}
    for name, value in fixed.items():
        entries = () if value is None else value if isinstance(value, tuple) else (value,)
        axes = [entry for entry in entries if isinstance(entry, str)]
        loops = [entry for entry in entries if isinstance(entry, SerialLoop)]
        if len(axes) + len(loops) < len(entries) or len(loops) > 1:
            raise ArgumentError(
                f"plan: fixed={{{name!r}: {value!r}}} must be a mesh axis, an nx.SerialLoop, a"
                " tuple of mesh axes with at most one nx.SerialLoop, or None. Use"
                f" fixed={{{name!r}: 'x'}}."
            )
        if len(set(axes)) < len(axes):
            raise ArgumentError(
                f"plan: fixed={{{name!r}: {value!r}}} has a mesh axis twice. List each one once."
            )
        found[name] = frozenset(axes), loops[0] if loops else None
    return found


def fixed_axes(fixed: Mapping[Hashable, Pin]) -> dict[str, frozenset[Hashable]]:
    """Return the names that are fixed on each mesh axis."""
    axes = dict.fromkeys(axis for on, _ in fixed.values() for axis in sorted(on))
    return {axis: frozenset(name for name, (on, _) in fixed.items() if axis in on) for axis in axes}


def check_fixed(
    fixed: Mapping[Hashable, Pin],
    sizes: Mapping[Hashable, int],
    axes: Iterable[str],
    names: Iterable[Hashable] | None,
    loops: Iterable[Hashable],
    apart: Iterable[frozenset[Hashable]],
) -> None:
    """Raise an error unless the fixed names fit the program and the other arguments.

    Args:
      fixed: the fixed names.
      sizes: the sizes of the names of the program.
      axes: the mesh axes.
      names: the argument `names`.
      loops: the names in the argument `loops`.
      apart: pairs of names that are known to occur in one value.

    Raises:
      ArgumentError: a name or a mesh axis is unknown, a name is mapped but not in `names`, it is in
        `loops` too, or two names of one mesh axis occur in one value.
    """
    axes, chosen = tuple(axes), None if names is None else tuple(names)
    for name, (on, loop) in fixed.items():
        if name not in sizes:
            raise ArgumentError(
                f"plan: fixed= has {name!r}, but the program has no axis {name!r}. Choose from"
                f" {show_names(sorted(sizes, key=str))}.{did_you_mean(name, sizes)}"
            )
        for axis in sorted(on):
            if axis not in axes:
                raise ArgumentError(
                    f"plan: fixed= maps {name!r} to {axis!r}, but the mesh axes are"
                    f" {show_names(axes)}. Use one of these.{did_you_mean(axis, axes)}"
                )
        if chosen is not None and name not in chosen and (on or loop is not None):
            raise ArgumentError(
                f"plan: fixed= maps {name!r}, but names= does not contain it. Add {name!r} to"
                " names=, or remove it from fixed=."
            )
        if name in loops:
            raise ArgumentError(
                f"plan: {name!r} is in fixed= and in loops=. Remove it from loops=, and fix its"
                f" steps with fixed={{{name!r}: nx.SerialLoop(4)}}."
            )
    known = set(apart)
    for axis, together in fixed_axes(fixed).items():
        for pair in known:
            if pair <= together:
                raise conflict(pair, axis)


def conflict(pair: Iterable[Hashable], axis: str) -> ArgumentError:
    """Return the error for two fixed names of one mesh axis that occur in one value."""
    one, two = sorted(pair, key=str)
    return ArgumentError(
        f"plan: fixed= maps {one!r} and {two!r} to {axis!r}, but both occur in one value, whose"
        " axes need different mesh axes. Fix only one of them, or choose another mesh axis."
    )


def check_sizes(space: Space) -> None:
    """Raise an error if a fixed name has fewer elements than devices and steps, on every shape.

    Raises:
      ArgumentError: the name cannot be partitioned.
    """
    for name, (on, loop) in space.fixed.items():
        steps = 1 if loop is None else loop.steps
        counts = [
            space.blocks(space.canonical(space.empty.replace(sizes=sizes)), name) * steps
            for sizes in space.shapes
        ]
        if min(counts) > space.sizes[name]:
            where = ", ".join([*map(repr, sorted(on)), *([repr(loop)] if loop else [])])
            raise ArgumentError(
                f"plan: fixed= maps {name!r} to {where}, which needs {min(counts)} elements, but it"
                f" has size {space.sizes[name]}. Use fewer devices or steps for it."
            )
