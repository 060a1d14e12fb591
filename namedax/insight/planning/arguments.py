"""The arguments of `plan`: their checks, and names with a fixed mapping (`fixed`)."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any

from namedax.core.records import Record
from namedax.errors import ArgumentError, ArgumentTypeError, did_you_mean, show_names
from namedax.insight.planning.candidates import Settings
from namedax.insight.planning.meshes import Meshes
from namedax.insight.planning.program import Census
from namedax.insight.planning.space import Pin, Space
from namedax.machines import Machine
from namedax.machines.links import positive
from namedax.resources.serial import SerialLoop
from namedax.xmap.mapped_function import Xmapped

__all__ = [
    "Request",
    "check_function",
    "check_limits",
    "check_loops",
    "conflict",
    "fixed_axes",
    "list_of_names",
    "parse_fixed",
]


class Request(Record):
    """The arguments of `plan` about the layouts to try, as checked without the program.

    Attributes:
      names: the names that may be mapped; `None` stands for all.
      loops: the argument `loops`.
      values: the values to try by the name of a setting; `None` stands for that of the function.
      uneven: the argument `uneven`.
      fixed: the argument `fixed`.
      pins: the same, parsed.
      tries: the argument `tries`.
    """

    names: tuple[Hashable, ...] | None
    loops: Mapping[Hashable, Sequence[int | SerialLoop]] | EllipsisType | None
    values: Mapping[str, Sequence[Any] | None]
    uneven: tuple[Hashable, ...] | None
    fixed: Mapping[Hashable, Any]
    pins: dict[Hashable, Pin]
    tries: int | None

    def space(self, census: Census, meshes: Meshes, settings: Settings) -> Space:
        """Return the layouts to try.

        Args:
          census: the names of the program.
          meshes: the meshes.
          settings: the settings of the function.

        Raises:
          ArgumentError: a name or a mesh axis is unknown, or a fixed name is invalid.
        """
        loops = self.loops if isinstance(self.loops, Mapping) else {}
        uneven = self.uneven or ()
        _check_fixed(self.pins, census.sizes, meshes.axes, self.names, loops, census.apart)
        chosen = _chosen_names(census.sizes, self.names, loops, uneven)
        space = Space(
            chosen,
            meshes.axes,
            meshes.shapes,
            census.apart,
            _parse_loops(loops),
            settings.combinations(self.values),
            uneven,
            {name: pin for name, pin in self.pins.items() if name in chosen},
        )
        _check_sizes(space)
        return space


def check_function(f: object, verify: object) -> None:
    """Check the function to plan.

    Raises:
      ArgumentTypeError: it is not a function.
      ArgumentError: XLA chooses its communication, or it is not mapped and `verify` is given.
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"plan: the first argument must be a function made by nx.xmap; got {type(f).__name__}."
            " Map the function first: nx.plan(nx.xmap(jax.value_and_grad(loss)), *args,"
            " mesh=mesh)."
        )
    if verify and not isinstance(f, Xmapped):
        raise ArgumentError(
            f"plan: verify={verify} times a mapped function, but {getattr(f, '__name__', 'f')} is"
            " not mapped itself. Leave out verify=, and time plan.apply(f)."
        )
    if isinstance(f, Xmapped) and f._options.partitioning == "auto":
        raise ArgumentError(
            f"plan: {f._name} has partitioning='auto', so XLA chooses its communication, which no"
            " trace shows. Remove partitioning=."
        )


def check_limits(machine: object, memory: object, verify: object, tries: object) -> None:
    """Raise an `ArgumentError` unless the machine and these numbers are valid."""
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentError(
            f"plan: machine={machine!r} is not a machine. Use nx.machines.v5p, or"
            " nx.machines.Machine(...)."
        )
    if memory is not None:
        positive("plan", "memory", memory, "bytes")
    for option, value, least in (
        ("verify", verify, 0),
        ("tries", 1 if tries is None else tries, 1),
    ):
        if not isinstance(value, int) or value < least:
            raise ArgumentError(f"plan: {option}={value!r} must be an integer from {least}.")


def list_of_names(option: str, names: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return the names of an argument.

    Raises:
      ArgumentError: it is a string.
    """
    if isinstance(names, str):
        raise ArgumentError(
            f"plan: {option}={names!r} must be a list of names. Use {option}=[{names!r}]."
        )
    return tuple(names)


def _chosen_names(
    sizes: Mapping[Hashable, int],
    names: tuple[Hashable, ...] | None,
    loops: Iterable[Hashable],
    uneven: Iterable[Hashable],
) -> dict[Hashable, int]:
    """Return the names that may be mapped, with their sizes.

    Args:
      sizes: the sizes of the names of the program.
      names: the argument `names`; `None` stands for all.
      loops: the names in the argument `loops`.
      uneven: the argument `uneven`.

    Raises:
      ArgumentError: the program has no such name.
    """
    for name in (*(names or ()), *loops, *uneven):
        if name not in sizes:
            raise ArgumentError(
                f"plan: the program has no axis {name!r} to map. Choose from"
                f" {show_names(sorted(sizes, key=str))}.{did_you_mean(name, sizes)}"
            )
    wanted = None if names is None else {*names, *loops, *uneven}
    return {name: size for name, size in sizes.items() if wanted is None or name in wanted}


# --- loops ----------------------------------------------------------------------------------------


def check_loops(loops: Mapping[Hashable, object] | EllipsisType | None) -> None:
    """Raise an `ArgumentError` unless `loops` has a list of numbers of steps for each name."""
    if loops is None or loops is ...:
        return
    if not isinstance(loops, Mapping):
        raise ArgumentError(
            f"plan: loops={loops!r} must map names to lists of numbers of steps. Use"
            " loops={'batch': [4, 16]}, or loops=... to choose a name and its steps."
        )
    for name, steps in loops.items():
        if not isinstance(steps, Sequence):
            raise ArgumentError(
                f"plan: loops={loops!r} must map each name to a list of numbers of steps. Use"
                f" loops={{{name!r}: [{steps!r}]}}."
            )


def _parse_loops(
    loops: Mapping[Hashable, Sequence[int | SerialLoop]],
) -> dict[Hashable, list[SerialLoop]]:
    """Return the loops to try for each name, without those of one step."""
    found: dict[Hashable, list[SerialLoop]] = {}
    for name, numbers in loops.items():
        parsed = [loop if isinstance(loop, SerialLoop) else SerialLoop(loop) for loop in numbers]
        found[name] = [loop for loop in parsed if loop.steps > 1]
    return found


# --- fixed names ----------------------------------------------------------------------------------


def parse_fixed(fixed: Mapping[Hashable, Any] | None) -> dict[Hashable, Pin]:
    """Return the mesh axes and the loop of each name.

    Raises:
      ArgumentError: it is not a dict, or a value is not a mesh axis, a `SerialLoop`, a tuple of
        these, or `None`.

    >>> from namedax.insight.planning.arguments import parse_fixed
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


def _check_fixed(
    fixed: Mapping[Hashable, Pin],
    sizes: Mapping[Hashable, int],
    axes: Sequence[str],
    names: tuple[Hashable, ...] | None,
    loops: Container[Hashable],
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
        if names is not None and name not in names and (on or loop is not None):
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


def _check_sizes(space: Space) -> None:
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
