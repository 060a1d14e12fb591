"""Findings: sentences about possible improvements, with axes, sizes, lines and remedies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from namedax.core.records import Record
from namedax.core.variance import varying_of
from namedax.hlo import size_text
from namedax.insight.analysis.graph import Body, Node, Value
from namedax.insight.analysis.records import Collective, HostCopy, Phase, Step
from namedax.insight.analysis.repetition import Repetition
from namedax.primitives import costs
from namedax.primitives.equations import axes_of, facts, is_whole_sum, sliced_dimension
from namedax.primitives.record import Algebra, Kind, is_inexact
from namedax.primitives.table import LOCAL_KINDS

__all__ = [
    "SMALL",
    "Added",
    "NoRing",
    "Uneven",
    "UnevenAxis",
    "UnmappedSharding",
    "added_sums",
    "findings_of",
    "gathered_again",
    "uneven_axes",
]


# Smaller arrays are not reported.
_LARGE = 1 << 20
#: Up to this payload in bytes, the time of a collective is its latency.
SMALL = 4096
_OFTEN = 8
# The namespaces whose functions are lifted functions of JAX, unless namedax has its own.
_LIFTED = ("nx.nmap", "nx.numpy.", "nx.scipy.", "nx.lax.", "nx.image.")


class UnmappedSharding(Record):
    """An argument that is sharded over mesh axes to which no name of a mapped function is mapped.

    Attributes:
      what: its text in messages.
      mesh_axes: these mesh axes.
      names: its names that are sharded over them, as text.
      bytes: the size of the global array.
    """

    what: str
    mesh_axes: tuple[str, ...]
    names: tuple[str, ...]
    bytes: int


class NoRing(Record):
    """A contraction that was requested as a ring, but does not run as one.

    Attributes:
      operation: the operation of the model.
      source: its line.
      why: `"uneven"`: names of an operand do not divide over their mesh axes; `"undivided"`: no
        axis of the result has one equal part for each device.
      names: these names, or those of the result.
    """

    operation: str
    source: str
    why: str
    names: tuple[str, ...]


class Uneven(Record):
    """An argument that every device stores whole: an axis does not divide over its mesh axes.

    Attributes:
      what: its text in messages.
      name: the axis name, as text.
      size: the size of the axis.
      padded: the next size that divides.
      mesh: the sizes of its mesh axes.
      bytes: the size of the argument on each device.
    """

    what: str
    name: str
    size: int
    padded: int
    mesh: Mapping[str, int]
    bytes: int


class Added(Record):
    """Two all-reduces whose results are used only in their sum or difference.

    Attributes:
      sums: the operation and the line of each.
      mesh_axes: the mesh axes of both.
      names: the names of the axes.
      phase: the phase of both.
      bytes: the total payload.
    """

    sums: tuple[tuple[str, str], tuple[str, str]]
    mesh_axes: tuple[str, ...]
    names: tuple[str, ...]
    phase: Phase
    bytes: int


def findings_of(
    mesh: Mapping[str, int],
    placements: Mapping[str, tuple[str, ...]],
    steps: Sequence[Step],
    repeated: Iterable[Repetition],
    replicated: Iterable[tuple[str, int]],
    uneven: Iterable[Uneven],
    unmapped: Sequence[UnmappedSharding],
    rings: Iterable[NoRing],
    added: Iterable[Added],
    renamed: Collection[tuple[tuple[str, ...], tuple[str, ...]]],
    loops: Iterable[str],
    automatic: Iterable[str],
    exported: Iterable[tuple[str, str]],
) -> Iterator[str]:
    """Yield the findings of a program.

    Args:
      mesh: the sizes of the mesh axes.
      placements: the mesh axes to which names are mapped.
      steps: the collectives and operations.
      repeated: the work that all devices along a mesh axis repeat.
      replicated: arguments that every device stores whole because no name of them is mapped, as
        text, with their bytes.
      uneven: arguments that every device stores whole because an axis does not divide over its mesh
        axes.
      unmapped: arguments that are sharded over mesh axes to which no name is mapped.
      rings: contractions that were requested as a ring, but do not run as one.
      added: pairs of all-reduces whose results are used only in their sum or difference.
      renamed: the names and mesh axes of gathers by `nx.rename` of which two depend on one
        argument.
      loops: lines of loops with an unknown number of steps.
      automatic: lines that constrain the sharding of an array, and leave the rest to the
        partitioner.
      exported: the functions of `jax.export` that are called, with the lines of the calls.
    """
    sent = [step for step in steps if isinstance(step, Collective)]
    collectives = [step for step in sent if not isinstance(step, HostCopy)]
    yield from _unused(
        mesh, placements, {axis for argument in unmapped for axis in argument.mesh_axes}
    )
    yield from _repeated(repeated)
    yield from _replicated(mesh, replicated)
    uneven = list(uneven)
    yield from _uneven(uneven, collectives)
    yield from _without_elements(uneven)
    yield from _resharded(placements, collectives)
    yield from _unmapped(unmapped)
    yield from _small(collectives)
    yield from _added(added)
    yield from _lifted(collectives)
    yield from _renamings(collectives, renamed)
    yield from _no_rings(rings)
    if lines := [line for line in dict.fromkeys(automatic) if line]:
        yield (
            "The communication of XLA's partitioner is not in this report: arrays have sharding"
            f' constraints ({", ".join(lines[:3])}), as with partitioning="auto". compile=True'
            " reports the result of the partitioner."
        )
    for name, line in dict.fromkeys(exported):
        yield (
            f"The exported function {name!r}, called at {_line(line)}, is not in this report:"
            " jax.export stores only its lowered form. compile=True counts its communication and"
            " computation."
        )
    for line in dict.fromkeys(loops):
        yield (
            f"The number of steps of the while loop at {_line(line)} is unknown; it counts as one."
        )


def _line(source: str) -> str:
    """Return a source line, or a placeholder.

    A library function that is mapped directly has no line of the user.
    """
    return source or "an unknown line"


def _unused(
    mesh: Mapping[str, int], placements: Mapping[str, tuple[str, ...]], also: set[str]
) -> Iterator[str]:
    used = {axis for axes in placements.values() for axis in axes} | also
    for axis, size in mesh.items():
        if axis not in used and size > 1 and placements:
            yield (
                f"No name is mapped to the mesh axis {axis!r}: its {size} devices compute the same."
                " Map a name to it in axis_resources, or remove it from the mesh."
            )


def _repeated(repetitions: Iterable[Repetition]) -> Iterator[str]:
    for each in repetitions:
        axis, lines = repr(each.mesh_axis), list(each.lines)
        where = f", most of it at {_joined(lines, 'and')}" if lines else ""
        names = f", such as {_joined(list(map(repr, each.names)), 'or')}" if each.names else ""
        remedy = (
            "With one key, each device draws the global array. Split the key along an axis that is"
            f" mapped to {axis}: a device draws for its keys only."
            if each.is_random
            else f"Map a name of these operands to {axis} in axis_resources{names}."
        )
        yield (
            f"All {each.devices} devices along the mesh axis {axis} repeat"
            f" {100 * each.share:.0f} % of the FLOPs of the mapped functions{where}: the operands"
            f" there are equal on these devices. {remedy}"
        )


def _joined(texts: list[str], word: str) -> str:
    *first, last = texts
    return f"{', '.join(first)} {word} {last}" if first else last


def _replicated(mesh: Mapping[str, int], replicated: Iterable[tuple[str, int]]) -> Iterator[str]:
    sizes = ", ".join(f"{axis}={n}" for axis, n in mesh.items() if n > 1)
    for what, size in replicated:
        if size >= _LARGE and sizes:
            yield (
                f"The {what}, {size_text(size)}, is replicated over {sizes}. Store it under a name"
                " that is mapped to the mesh, and gather it where it is used, as"
                " {embed:embed_fsdp} in nx.einsum does."
            )


def _uneven(arguments: Iterable[Uneven], collectives: Sequence[Collective]) -> Iterator[str]:
    """Yield findings about arguments with an axis that does not divide.

    The results of a mapped function along such an axis are gathered, under no operation.
    """
    axes: dict[tuple[str, int, int, tuple[tuple[str, int], ...]], dict[str, int]] = {}
    for argument in arguments:
        if argument.bytes >= _LARGE:
            key = argument.name, argument.size, argument.padded, tuple(argument.mesh.items())
            axes.setdefault(key, {})[argument.what] = argument.bytes
    for (name, size, padded, places), arrays in axes.items():
        mesh_axes, devices = [axis for axis, _ in places], math.prod(n for _, n in places)
        held = sum(arrays.values())
        block = held * padded // (size * devices)
        gathers = [
            step
            for step in collectives
            if (step.kind, step.operation) == ("all-gather", "")
            and name in step.names
            and set(step.mesh_axes) <= set(mesh_axes)
        ]
        payload = sum(step.bytes * step.trips for step in gathers)
        count = sum(step.trips for step in gathers)
        sent = (
            f", and results or gradients along it are gathered ({count}"
            f" all-gather{'s' * (count > 1)}, {size_text(payload)} of payload)"
            if gathers
            else ""
        )
        loop = "" if size % devices else " and the steps of its SerialLoop"
        at_rest = (
            ", or store the array padded: nx.shard(x, axis_resources, mesh, padded=True)"
            if padded == -(-size // devices) * devices  # no steps
            else ""
        )
        yield (
            f"Axis {name!r} has size {size}, which is not a multiple of {devices}"
            f" ({', '.join(f'{axis}={n}' for axis, n in places)}){loop}: each device stores"
            f" {_listed(arrays)} whole, {size_text(held)} instead of {size_text(block)}{sent}. Use"
            f" a size that divides: {padded}{at_rest}."
        )


def _without_elements(arguments: Iterable[Uneven]) -> Iterator[str]:
    """Yield findings about axes that leave some devices without an element."""
    axes = {(it.name, it.size, it.padded, tuple(it.mesh.items())) for it in arguments}
    for name, size, padded, places in sorted(axes):
        devices = math.prod(n for _, n in places)
        block = -(-size // devices)
        used = -(-size // block) if block else devices
        if padded == block * devices and used < devices:  # no steps
            yield (
                f"Axis {name!r} has {size} elements, in blocks of {block} on {devices} devices"
                f" ({', '.join(f'{axis}={n}' for axis, n in places)}): {devices - used} of them"
                f" compute{'s' * (devices - used == 1)} padding only. Map {name!r} to at most"
                f" {used} devices."
            )


def _resharded(
    placements: Mapping[str, tuple[str, ...]], collectives: Sequence[Collective]
) -> Iterator[str]:
    """Yield findings about arguments whose sharding a mapped function changes."""
    moved: dict[tuple[str, tuple[str, ...], tuple[str, ...]], dict[str, Collective]] = {}
    for step in collectives:
        if step.arrival.startswith("argument"):
            moved.setdefault((step.kind, step.mesh_axes, step.names), {}).setdefault(
                step.arrival, step
            )
    used = {axis for axes in placements.values() for axis in axes}
    for (kind, axes, names), steps in moved.items():
        there = "+".join(axes)
        size = sum(step.bytes * step.trips for step in steps.values())
        wire = sum(step.wire_bytes * step.trips for step in steps.values())
        sent = f"{size_text(size)} of payload, {size_text(wire)} on the wire"
        place = (
            "reshard it before the call: nx.shard(x, axis_resources, mesh) with those of the mapped"
            " function."
        )
        if kind != "all-gather":
            yield (
                f"{_subject(steps)} is sharded over {there}{_along(names)}, unlike in the mapped"
                f" function: {kind} on entry ({sent}). R{place[1:]}"
            )
            continue
        named = ", ".join(map(repr, names)) or "the name of the sharded axis"
        own = (
            " (with a separate name, read as {embed:embed_fsdp} in nx.einsum, if another name of"
            " its arrays is mapped there)"
            if used.intersection(axes)
            else ""
        )
        yield (
            f"{_subject(steps)} is sharded over {there}{_along(names)}, but the mapped function"
            f" does not map that axis: it is gathered on entry ({sent}). Map {named} to {there} in"
            f" axis_resources{own}, or {place}"
        )


def _unmapped(arguments: Sequence[UnmappedSharding]) -> Iterator[str]:
    """Yield findings about arguments whose sharding is left to XLA's partitioner."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[str, int]] = {}
    for argument in arguments:
        found.setdefault((argument.mesh_axes, argument.names), {})[argument.what] = argument.bytes
    for (axes, names), sizes in found.items():
        there = "+".join(axes)
        yield (
            f"{_subject(sizes)} ({size_text(sum(sizes.values()))}) is sharded over"
            f" {there}{_along(names)}, to which no name of a mapped function is mapped. The"
            " resulting communication is not in this report; compile=True reports it. Map"
            f" {', '.join(map(repr, names)) or 'the name of the sharded axis'} to {there} in"
            " axis_resources, or reshard it before the call: nx.shard(x, axis_resources, mesh)"
            " with those of the mapped function."
        )


def _listed(arguments: Iterable[str], most: int = 3) -> str:
    found = list(arguments)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return "the " + ", ".join(found[:most]) + more


def _subject(arguments: Iterable[str], most: int = 3) -> str:
    """Return arguments as the beginning of a sentence."""
    found = [what for what in arguments if what] or ["argument"]
    more = (
        f" and {len(found) - most} more, each"
        if len(found) > most
        else ", each,"
        if len(found) > 1
        else ""
    )
    return "The " + ", ".join(found[:most]) + more


def _along(names: Sequence[str]) -> str:
    return f" for {', '.join(names)}" if names else ""


def _no_rings(rings: Iterable[NoRing]) -> Iterator[str]:
    for ring in rings:
        names = ", ".join(map(repr, filter(None, ring.names)))
        because = (
            f"{names} {'do' if len(ring.names) > 1 else 'does'} not divide over the mesh, and a"
            " ring needs blocks without padding"
            if ring.why == "uneven"
            else (
                f"no axis of the result ({names}) divides into as many parts as there are devices"
                " in the ring"
            )
        )
        yield (
            f"{ring.operation} at {_line(ring.source)} has overlap, but runs without it, in the"
            f" plain form: {because}. Choose sizes that divide, or remove overlap."
        )


def _small(collectives: Sequence[Collective]) -> Iterator[str]:
    many: Counter[tuple[str, str, str, int]] = Counter()
    for step in collectives:
        if (
            step.bytes <= SMALL and step.operation != "nx.pipeline"
        ):  # a pipeline has one for each tick by design
            many[step.kind, step.operation or "a cast", step.source, step.bytes] += step.trips
    for (kind, operation, source, size), count in many.items():
        if count >= _OFTEN:
            yield (
                f"{operation} at {_line(source)} has {count} {kind}s of {size_text(size)} of"
                " payload: at this size, each costs its latency. Move it out of the loop, or leave"
                " its names unmapped."
            )


def _added(pairs: Iterable[Added]) -> Iterator[str]:
    for pair, count in Counter(pairs).items():
        (one, there), (other, here) = pair.sums
        both = (
            f"{one} and {other} at {_line(there)}"
            if there == here
            else f"{one} at {_line(there)} and {other} at {_line(here)}"
        )
        times = f" ({count} times)" if count > 1 else ""
        yield (
            f"{both} each have an all-reduce over {'+'.join(pair.mesh_axes)}{_along(pair.names)}"
            f" ({pair.phase}, {size_text(pair.bytes)} of payload in all), and only the sum or"
            f" difference of the results is used{times}. Add or subtract before the reduction: one"
            " all-reduce is enough."
        )


def _lifted(collectives: Sequence[Collective]) -> Iterator[str]:
    for step in dict.fromkeys(collectives):
        if (
            step.kind == "all-gather"
            and step.operation.startswith(_LIFTED)
            and step.operation != "nx.lax.all_gather"
            and step.bytes > SMALL
        ):
            yield (
                f"{step.operation} at {_line(step.source)} gathers {', '.join(step.names)}"
                f" ({size_text(step.bytes)} of payload): a lifted function needs global axes. Write"
                " it with operations over names, leave these names unmapped around it, or shard"
                " another axis there instead (nx.rename, one all-to-all)."
            )


def _renamings(
    collectives: Sequence[Collective], renamed: Collection[tuple[tuple[str, ...], tuple[str, ...]]]
) -> Iterator[str]:
    """Yield findings about repeated gathers of one name by renaming it."""
    sizes: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for step in collectives:
        if step.operation == "nx.rename" and step.kind == "all-gather" and step.phase == "forward":
            sizes.setdefault((step.names, step.mesh_axes), []).append(step.bytes * step.trips)
    for (names, axes), found in sizes.items():
        if (names, axes) in renamed and len(found) > 1 and sum(found) >= _LARGE:
            yield (
                f"nx.rename gathers {', '.join(names)} over {'+'.join(axes)} at {len(found)}"
                f" places, {size_text(sum(found))} of payload in all. Rename once and reuse the"
                " result, or keep the sharded name in the operations between."
            )


# --- pairs of psums whose total alone is used: one collective would be enough ---------------------

# The rule is about real numbers: `nx.sum(h, "a") / t + nx.sum(m, "a") / t` equals `nx.sum(h + m,
# "a") / t` there. In IEEE arithmetic the two may differ, so the program keeps both psums, and only
# the user can decide to add first.


# All-reduces that reach a value through operations that are linear in each of them.
_Sums = tuple[Node, ...]


def added_sums(body: Body, smallest: int) -> Iterator[tuple[Node, Node]]:
    """Find pairs of all-reduces whose results are used only in one sum or difference.

    The two are over the same mesh axes.

    Args:
      body: the program.
      smallest: the size in bytes up to which a payload is ignored.
    """
    uses = Counter(id(value) for node in body.nodes for value in node.reads)
    uses.update(id(value) for value in body.outputs if value is not None)
    found: dict[int, _Sums] = {}  # by the `id` of a value
    for node in body.nodes:
        for inner in node.bodies:
            yield from added_sums(inner, smallest)
        if node.eqn is None or node.bodies or len(node.results) != 1:
            continue
        sums = [
            () if value is None or uses[id(value)] > 1 else found.get(id(value), ())
            for value in node.operands
        ]
        if any(sums):
            pair, passed = _passed(node, sums)
            if pair is not None:
                yield pair
        else:
            passed = (
                (node,)
                if is_whole_sum(node.eqn)
                and costs.size_in_bytes(node.eqn.invars[0].aval) > smallest
                else ()
            )
        if passed:
            found[id(node.results[0])] = passed


def _passed(node: Node, sums: list[_Sums]) -> tuple[tuple[Node, Node] | None, _Sums]:
    """Return two psums that an operation adds, if any, and those in which its result is linear."""
    known, given = facts(node.eqn), [i for i, some in enumerate(sums) if some]
    if known.algebra in (Algebra.SUM, Algebra.DIFFERENCE):
        first, second = sums
        pairs = ((one, other) for one in first for other in second if _are_alike(one, other))
        return next(pairs, None), first + second
    if len(given) > 1:
        return None, ()
    (i,) = given
    axes = frozenset(axis for sum_ in sums[i] for axis in axes_of(sum_.eqn))
    is_linear = i in known.scales or (
        i == 0 and known.linear == ((0,),) and known.kind in (*LOCAL_KINDS, Kind.CAST)
    )
    others = (var for k, var in enumerate(node.eqn.invars) if k != i)
    if (
        not is_linear
        or not is_inexact(node.eqn.outvars[0].aval)
        or any(varying_of(var.aval) & axes for var in others)
    ):
        return None, ()
    return None, sums[i]


def _are_alike(one: Node, other: Node) -> bool:
    ours, theirs = one.eqn.invars[0].aval, other.eqn.invars[0].aval
    same_axes = set(axes_of(one.eqn)) == set(axes_of(other.eqn))
    return same_axes and ours.dtype == theirs.dtype and one.origin.phase == other.origin.phase


# --- renamings that gather values which depend on the same argument -------------------------------

# Parameters that are each gathered once, as in fully sharded training, depend on different
# arguments and do not count.


def gathered_again(body: Body) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the names and mesh axes of gathers by `nx.rename` that are repeated.

    Two of the gathers depend on one argument.
    """
    arguments = [value for value in body.inputs if value is not None and value.given is not None]
    depends = {
        id(value): 1 << i for i, value in enumerate(arguments)
    }  # a set of arguments for each value, as bits
    seen: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    found = set()
    for node, needed in _gathers(body, depends):
        axes = tuple(
            axis for axis in dict.fromkeys(axes_of(node.eqn)) if node.sizes.get(axis, 1) > 1
        )
        key = node.origin.names_on(axes), axes
        if seen.get(key, 0) & needed:
            found.add(key)
        seen[key] = seen.get(key, 0) | needed
    return found


def _gathers(body: Body, depends: dict[int, int]) -> Iterator[tuple[Node, int]]:
    def needed(values: list[Value]) -> int:
        bits = 0
        for value in values:
            bits |= depends.get(id(value), 0)
        return bits

    for node in body.nodes:
        bits = needed(node.reads)
        depends.update((id(value), bits) for value in node.results)
        for inner in node.bodies:
            if node.kind is Kind.SCAN:
                pairs = zip(inner.inputs, node.operands, strict=False)
                depends.update(
                    (id(value), 0 if operand is None else needed([operand]))
                    for value, operand in pairs
                )
            depends.update((id(value), bits) for value in inner.inputs if id(value) not in depends)
            yield from _gathers(inner, depends)
        origin = node.origin
        if node.kind is Kind.GATHER and (origin.operation, origin.phase) == (
            "nx.rename",
            "forward",
        ):
            yield node, bits


# --- arguments that every device stores whole because an axis does not divide over its mesh axes

# A mapped function pads such an argument and slices the block of its device. In the program, the
# argument is concatenated with copies of its last element before it becomes a block.


class UnevenAxis(Record):
    """An axis of an argument that does not divide over its mesh axes.

    Attributes:
      argument: the argument.
      name: the axis name, as text; a description of the dimension if the name is unknown.
      size: its size.
      padded: its size with padding, the next one that divides.
      mesh: the sizes of the mesh axes.
    """

    argument: Value
    name: str
    size: int
    padded: int
    mesh: Mapping[str, int]


def uneven_axes(body: Body) -> Iterator[UnevenAxis]:
    """Find the axes of a program's arguments that are padded on entry to a mapped function."""
    found = {(id(axis.argument), axis.name, *axis.mesh): axis for axis in _padded_axes(body, {})}
    yield from found.values()


def _padded_axes(body: Body, arguments: dict[int, Value]) -> Iterator[UnevenAxis]:
    """Find the axes in a body.

    `arguments` maps the `id` of a value to its argument, perhaps padded or sliced.
    """
    if not arguments:
        arguments.update(
            (id(value), value)
            for value in body.inputs
            if value is not None and value.given is not None
        )
    for node in body.nodes:
        for inner in node.bodies:
            yield from _padded_axes(inner, arguments)
        argument = arguments.get(id(node.operands[0])) if node.operands else None
        if argument is None:
            continue
        if node.kind is Kind.OWN_BLOCK:
            dim, axes = sliced_dimension(node.eqn)
            size, padded = argument.aval.shape[dim], node.eqn.invars[0].aval.shape[dim]
            if padded > size:
                mesh = {axis: node.sizes[axis] for axis in axes}
                yield UnevenAxis(argument, _name(node, argument, dim, axes), size, padded, mesh)
        if _holds_operand(node):
            arguments[id(node.results[0])] = argument


def _holds_operand(node: Node) -> bool:
    """Return True if the result has the first operand's elements, perhaps cast or padded."""
    eqn: Any = node.eqn
    if eqn is None or node.kind in (Kind.OWN_BLOCK, Kind.CAST):
        return True
    if facts(eqn).is_concatenation:
        first, *others = node.operands
        return all(value is not None and _is_padding(value, first) for value in others)
    return len(eqn.invars) == 1 and costs.is_elementwise(eqn)


def _is_padding(value: Value, of: Value | None) -> bool:
    """Return True for padding, a copy of the last element of a value: its cotangent is zero."""
    made = value.maker
    if made is None or made.eqn is None:
        return False
    return costs.is_zero_cotangent(made.eqn) or (
        not is_inexact(value.aval) and made.operands[:1] == [of]
    )


def _name(node: Node, argument: Value, dim: int, mesh_axes: tuple[str, ...]) -> str:
    dims = argument.given.dims if argument.given is not None else ()
    if len(dims) == len(argument.aval.shape) and dims[dim] is not None:
        return str(dims[dim])
    there = [name for name, axes in node.origin.placements().items() if axes == mesh_axes]
    return there[0] if len(there) == 1 else f"dimension {dim}"
