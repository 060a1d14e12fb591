"""Whether `nx.explain` predicts what XLA sends: the bytes of each kind of collective, over groups of each size, loops multiplied out.

They are equal but for what stands in `_can_be_compared`, `_Allowed` and `_totals`, each with its reason.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

import namedax as nx
from tests.fuzz.layouts import Layout
from tests.fuzz.program import Program, Statement, statements_of
from tests.fuzz.values import INNER, SIZES

__all__ = ["unpredicted"]

# The kind, and the number of devices that take part together.
Group = tuple[str, int]


def unpredicted(program: Program, layout: Layout, names: Mapping[str, Any]) -> str:
    """What XLA sends otherwise than predicted, in words; nothing if all is as predicted, or if it cannot be compared.

    Args:
      program: the program.
      layout: its layout.
      names: what it has left when it was run as Python: the function `f`, its arguments `v0`, `v1`, …, and the mesh.
    """
    empty = any(f"'{name}'" in repr(program) for name, size in SIZES.items() if not size)  # XLA knows what becomes of nothing
    if empty or not _can_be_compared(layout) or any(map(_sends_nothing, statements_of(program.main))):
        return ""
    f, args = names["f"], [names[f"v{n}"] for n in range(len(program.arguments))]
    with jax.set_mesh(names["mesh"]) if layout.explicit else contextlib.nullcontext():
        predicted = nx.explain(f, *args).collectives
        sent = [c for c in nx.hlo.collectives((f if hasattr(f, "lower") else jax.jit(f)).lower(*args).compile()) if c.bytes]
    allowed = _Allowed.of(program, layout)
    return "\n".join(_differences(predicted, sent, allowed))


def _sends_nothing(s: Statement) -> bool:
    """Whether XLA multiplies and adds up its result when it compiles.

    So it does with the zeros that all get of a permutation between no two instances, and with what groups without an element are.
    """
    if s.op in ("group_accumulate", "group_shift"):
        return s["labels"] is not None and max(s["labels"]) < 0
    return s.op == "ppermute" and not s["whole"] and abs(s["step"]) >= SIZES[s["axis"]]


def _can_be_compared(layout: Layout) -> bool:
    """Whether the program says what is sent, and XLA's partitioner decides nothing on its own."""
    if not layout.mesh or layout.partitioning == "auto" or layout.wrap == "eager" or layout.after or layout.again == "set_mesh":
        return False
    mapped = {axis for name, _ in layout.resources for axis in layout.mesh_axes(name) if name not in INNER}
    # What only a nested function maps is the partitioner's in the function around it.
    if any(axis not in mapped for name, _ in layout.resources for axis in layout.mesh_axes(name)):
        return False
    # How arrays that arrive cut otherwise are moved, and along mesh axes that nobody maps: what becomes of them, is the partitioner's choice.
    return bool(mapped) and layout.arrive == "host"


class _Allowed(NamedTuple):
    """What XLA finds to be superfluous in programs of some kinds, beyond what the report leaves out as XLA does.

    Attributes:
      twins: a collective that has an equal one. What a checkpoint, or a step in time, computes again for the gradient is merged with what was
        computed before where XLA's CPU backend has forgotten what keeps the two apart; other backends compute and send it again. So is
        what a ring of attention sends again for its gradient. And XLA
        merges what leaves a loop, or is carried through it, twice.
      integers: a collective of integers, where there is a difference: of integers that are the same, `v - maximum(v, v)`, XLA knows that it is 0.
      permutes: a permutation, where an array that XLA knows says how far to roll: it does only those rounds that this number needs.
      steps: a collective that is the same in every step: XLA takes it out of some loops, and leaves it in others.
    """

    twins: bool
    integers: bool
    permutes: bool
    steps: bool

    @classmethod
    def of(cls, program: Program, layout: Layout) -> _Allowed:
        statements = list(statements_of(program.main))
        twins = (
            bool(layout.loops)
            or layout.wrap == "checkpoint"
            or any(s.blocks or s.op in ("attention", "ragged_attention") for s in statements)
        )
        differences = any(s.op == "subtract" for s in statements)
        permutes = any(s.op == "roll" and s["kind"] == "jnp.array" for s in statements)
        return cls(twins, differences, permutes, any(s.blocks for s in statements))


def _differences(predicted: Sequence[Any], sent: Sequence[Any], allowed: _Allowed) -> Iterable[str]:
    by_group: dict[Group, tuple[list[Any], list[Any]]] = collections.defaultdict(lambda: ([], []))
    for step in predicted:
        by_group[_group(step)][0].append(step)
    for collective in sent:
        by_group[_group(collective)][1].append(collective)
    for group, (steps, found) in sorted(by_group.items()):
        size = sum(c.bytes * c.trips for c in found)
        # XLA sends several together, never one in parts.
        if size in _totals(steps, allowed) and sum(c.trips for c in found) <= sum(step.trips for step in steps):
            continue
        yield f"{group[0]}, {group[1] or 'any number of'} devices:"
        for step in steps:
            what = f"{step.trips} x {step.bytes} B of {step.dtype} over {'+'.join(step.mesh_axes)}"
            yield f"  predicted {what} by {step.operation or '?'} at {step.source or '?'} ({step.phase})"
        for c in found:
            yield f"  compiled  {c.trips} x {c.bytes} B of {c.dtype} by {c.operation or '?'} at {c.source or '?'}"


def _group(step: Any) -> Group:
    # The pairs of a permutation link some devices, or all: no group has a size of its own.
    return (step.kind, 0) if step.kind == "collective-permute" else (step.kind, step.group_size)


def _totals(steps: Sequence[Any], allowed: _Allowed) -> set[int]:
    """The sums of bytes that these collectives may have in the compiled program.

    XLA's CPU backend computes in float32 where the program has bfloat16, and sends it so, but for some gathers: and once what is sent as
    float32 too. And XLA does index arithmetic:
    integers that are computed in two ways, a place and a place after a step of none, it finds to be equal, and those of places the same in
    every step.
    """
    totals = {0}
    seen = collections.Counter((s.kind, s.mesh_axes, s.bytes, s.dtype) for s in steps)
    for s in steps:
        is_index = s.dtype.startswith("int")
        is_twin = (allowed.twins or is_index) and seen[s.kind, s.mesh_axes, s.bytes, s.dtype] > 1
        is_twin |= s.dtype == "bfloat16" and seen[s.kind, s.mesh_axes, 2 * s.bytes, "float32"] > 0
        is_superfluous = (
            is_twin or (is_index and (allowed.integers or s.trips > 1)) or (allowed.permutes and s.kind == "collective-permute")
        )
        # Fewer times: that it is the same in every step of one of its loops is seen after it is found to be a twin.
        trips = {s.trips, *(n for n in range(s.trips) if not n or s.trips % n == 0)} if is_superfluous else {s.trips}
        trips |= {n for n in range(1, s.trips) if s.trips % n == 0} if allowed.steps else set()
        widths = (1, 2) if s.dtype == "bfloat16" else (1,)
        totals = {total + n * width * s.bytes for total in totals for n in trips for width in widths}
    return totals
