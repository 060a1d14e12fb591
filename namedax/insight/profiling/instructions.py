"""The instructions of a compiled program, each with its scopes, its frames and its operands.

A trace of the profiler names instructions of the compiled program: fusions, loops, collectives,
copies. The HLO text of the program has the `op_name` of each, which is the stack of JAX's scopes,
and the frames of the Python line that made it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

from namedax.core.records import Record
from namedax.hlo import (
    KINDS,
    Call,
    Frames,
    Line,
    call_stack,
    device_count,
    instruction_lines,
    op_name,
)

__all__ = ["CONTAINERS", "Frame", "Instruction", "Program", "parse"]

#: A file and a line.
Frame = tuple[str, int]

#: The instructions whose time is that of the computations that they call.
CONTAINERS = ("while", "conditional", "call")

_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_REFERENCE = re.compile(r"%([\w.\-]+)")
_CUSTOM = re.compile(r'custom_call_target="([^"]*)"')
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
# An asynchronous collective of JAX is a custom call; the other parts have no operands to send.
_ASYNC = re.compile(r"-(start|done|update)$")


class Instruction(Record):
    """An instruction of a compiled program.

    Attributes:
      name: its name in the program, and in traces.
      computation: the computation that it is in.
      opcode: its operation in XLA, such as `"fusion"`.
      shapes: the dtype and the sizes of each array of its result.
      operands: the names of its operands.
      calls: the computations that it calls, with the attribute that names them.
      op_name: JAX's scopes and the primitive; empty if XLA made the instruction.
      frames: its Python frames, the innermost first.
      attributes: its other attributes, as text.
      is_root: True if its result is the result of its computation.
    """

    name: str
    computation: str
    opcode: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    operands: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    op_name: str
    frames: tuple[Frame, ...]
    attributes: str
    is_root: bool

    @property
    def collective(self) -> str:
        """The kind of collective that it runs, starts or ends, in XLA's words; empty for others."""
        target = _CUSTOM.search(self.attributes) if self.opcode == "custom-call" else None
        kind = _ASYNC.sub("", target[1] if target else self.opcode)
        return kind if kind in KINDS else ""

    @property
    def jax_operation(self) -> str:
        """The primitive of JAX that it comes from; empty if its `op_name` ends in a scope."""
        last = self.op_name.partition(";")[0].rpartition("/")[2]
        is_scope = not re.fullmatch(r"[\w\-]+", last) or last in ("shard_map", "body", "cond")
        return "" if is_scope else last

    @property
    def elements(self) -> int:
        """The number of elements of its result."""
        return sum(math.prod(shape) for _, shape in self.shapes)

    @property
    def bytes(self) -> int:
        """The bytes of its result."""
        return sum(_bits(dtype) * math.prod(shape) // 8 for dtype, shape in self.shapes)


class Program(Record):
    """The instructions of a compiled program.

    Attributes:
      name: the name of its module.
      instructions: every instruction by its name.
      computations: the instructions of each computation, in order.
      devices: the number of devices that run it.
    """

    name: str
    instructions: Mapping[str, Instruction]
    computations: Mapping[str, tuple[Instruction, ...]]
    devices: int

    def is_container(self, one: Instruction) -> bool:
        """Return True if its time is that of the instructions of other computations."""
        return one.opcode in CONTAINERS

    def inside(self, one: Instruction) -> tuple[Instruction, ...]:
        """Return the instructions of a fusion or an asynchronous computation; else none."""
        called = [name for key, name in one.calls if key in ("calls", "called_computations")]
        return tuple(
            inner
            for name in called
            for instruction in self.computations.get(name, ())
            for inner in (self.inside(instruction) or (instruction,))
        )

    def users(self) -> dict[str, list[Instruction]]:
        """Return the instructions that read each instruction, in the order of the text."""
        found: dict[str, list[Instruction]] = {}
        for one in self.instructions.values():
            for operand in dict.fromkeys(one.operands):
                found.setdefault(operand, []).append(one)
        return found

    def groups(self, one: Instruction) -> tuple[frozenset[int], ...] | None:
        """Return the groups of devices of a collective, or `None` if its text has none."""
        return _groups(one.attributes, self.devices)


def parse(text: str) -> Program:
    """Parse the HLO text of a compiled program."""
    frames = Frames(text)
    header = re.search(r"^HloModule\s+([\w.\-]+)", text, re.MULTILINE)
    found: dict[str, list[Instruction]] = {}
    for line in instruction_lines(text):
        found.setdefault(line.computation, []).append(_instruction(line, frames))
    every = [one for body in found.values() for one in body]
    # A trace names instructions that run by themselves, not those within a fusion or a reduction.
    inner = {name for one in every for key, name in one.calls if key in ("calls", "to_apply")}
    every.sort(key=lambda one: one.computation not in inner)
    return Program(
        header[1] if header else "",
        {one.name: one for one in every},
        {name: tuple(body) for name, body in found.items()},
        device_count(text),
    )


def _instruction(line: Line, frames: Frames) -> Instruction:
    stack = call_stack(line.whole, frames)
    is_custom = line.opcode == "custom-call"  # its target is a string
    return Instruction(
        name=line.name,
        computation=line.computation,
        opcode=line.opcode,
        shapes=_shapes(line.type),
        operands=tuple(_REFERENCE.findall(line.operands)),
        calls=line.calls,
        op_name=_with_scopes(op_name(line.whole), stack),
        frames=tuple((file, number) for file, number, _ in stack),
        attributes=line.whole + line.attributes if is_custom else line.attributes,
        is_root=line.whole.lstrip().startswith("ROOT "),
    )


def _shapes(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple(
        (dtype, tuple(int(size) for size in re.findall(r"\d+", shape)))
        for dtype, shape in _ARRAY.findall(text)
    )


def _bits(dtype: str) -> int:
    digits = re.search(r"\d+", dtype)
    return 8 if dtype == "pred" or digits is None else int(digits[0])


def work(one: Instruction, program: Program) -> float:
    """Estimate the arithmetic of an instruction: elements of the result, times those contracted.

    Instructions that only name or describe data have none.
    """
    if one.opcode in _FREE:
        return 0.0
    first = program.instructions.get(one.operands[0]) if one.operands else None
    if one.opcode == "dot" and first is not None and first.shapes:
        dims = _CONTRACTED.search(one.attributes)
        shape = first.shapes[0][1]
        return float(2 * one.elements * math.prod(shape[int(i)] for i in _numbers(dims)))
    if one.opcode in ("reduce", "reduce-window", "sort", "scatter") and first is not None:
        return float(max(one.elements, first.elements))
    return float(one.elements)


_FREE = ("parameter", "constant", "bitcast", "get-tuple-element", "tuple", "iota", "broadcast")


def _numbers(match: re.Match[str] | None) -> list[str]:
    return re.findall(r"\d+", match[1]) if match else []


def _with_scopes(op_name: str, stack: Sequence[Call]) -> str:
    """Return an `op_name` with all scopes.

    Without `jax_include_full_tracebacks_in_locations`, JAX writes some scopes as functions.
    """
    if not op_name or "nx." in op_name.replace("nx.xmap{", ""):
        return op_name
    scopes = [name for *_, name in reversed(stack) if "(" in name or "{" in name]
    return "/".join([*scopes, op_name])


# --- the devices of a collective ------------------------------------------------------------------
# `replica_groups` has one of three formats, here for the same two groups:
#
#     {{0,2},{1,3}}    [2,2]<=[2,2]T(1,0)    mesh['x'=2,'y'=2] {'x'}

_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LISTED = re.compile(r"replica_groups=\{((?:\s*\{[\d,\s]*\}\s*,?)+)\}")
_MESH = re.compile(
    r"replica_groups=mesh\[((?:'[^']*'=\d+,?\s*)*)\](,\s*device_ids=\([^{]*\))?\s*"
    r"\{((?:'[^']*'(?::\(\d+\)\d+)?,?\s*)*)\}"
)
_PAIRS = re.compile(r"source_target_pairs=\{((?:\s*\{\d+,\s*\d+\}\s*,?)*)\}")


def _groups(attributes: str, devices: int) -> tuple[frozenset[int], ...] | None:
    whole = (frozenset(range(devices)),)
    if match := _PAIRS.search(attributes):
        pairs = re.findall(r"(\d+)\s*,\s*(\d+)", match[1])
        return _components([(int(a), int(b)) for a, b in pairs])
    if match := _IOTA.search(attributes):
        shape, source = (_integers(match[i]) for i in (1, 2))
        order = _integers(match[3]) if match[3] else [*range(len(source))]
        ids = _iota(source, order)
        return tuple(frozenset(ids[i : i + shape[-1]]) for i in range(0, len(ids), shape[-1]))
    if match := _LISTED.search(attributes):
        groups = [_integers(group) for group in match[1].split("}")]
        return tuple(frozenset(group) for group in groups if group)
    if match := _MESH.search(attributes):
        return None if match[2] or ":(" in match[3] else _over_axes(match[1], match[3])
    if "replica_groups={}" in attributes or "replica_groups=" not in attributes:
        return whole
    return None


def _integers(text: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", text)]


def _iota(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """Return the numbers from 0 of an array of this shape, after a transposition."""
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    places = itertools.product(*(range(shape[i]) for i in order))
    return [sum(at * strides[i] for at, i in zip(place, order, strict=True)) for place in places]


def _over_axes(mesh: str, axes: str) -> tuple[frozenset[int], ...]:
    sizes = {name: int(size) for name, size in re.findall(r"'([^']*)'=(\d+)", mesh)}
    names, inner = [*sizes], re.findall(r"'([^']*)'", axes)
    order = [names.index(name) for name in [*(n for n in names if n not in inner), *inner]]
    ids, count = _iota([*sizes.values()], order), math.prod(sizes[name] for name in inner)
    return tuple(frozenset(ids[i : i + count]) for i in range(0, len(ids), count))


def _components(pairs: Sequence[tuple[int, int]]) -> tuple[frozenset[int], ...]:
    """Return the devices that a permutation connects."""
    component: dict[int, frozenset[int]] = {}
    for source, target in pairs:
        merged = component.get(source, frozenset([source])) | component.get(
            target, frozenset([target])
        )
        component.update(dict.fromkeys(merged, merged))
    return tuple(dict.fromkeys(component.values()))
