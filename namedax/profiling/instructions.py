"""The instructions of a compiled program, each with its scopes, its frames and its operands.

A trace of the profiler names instructions of the compiled program: fusions, loops, collectives,
copies. The HLO text of the program has the `op_name` of each, which is the stack of JAX's scopes,
and the frames of the Python line that made it.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from namedax.core.records import Record
from namedax.hlo import KINDS

__all__ = ["CONTAINERS", "Frame", "Instruction", "Program", "parse"]

#: A file and a line.
Frame = tuple[str, int]

#: The instructions whose time is that of the computations that they call.
CONTAINERS = ("while", "conditional", "call")

_COMPUTATION = re.compile(r"^(?:ENTRY\s+)?%?([\w.\-]+)\s*(?:\(.*\)\s*->.*)?\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(ROOT\s+)?%?([\w.\-]+)\s*=\s*(.+)$")
_OPCODE = re.compile(r"\s*([\w\-]+)\(")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_COMMENT = re.compile(r"/\*.*?\*/")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_REFERENCE = re.compile(r"%([\w.\-]+)")
_CALLS = re.compile(
    r"\b(body|condition|calls|to_apply|true_computation|false_computation|branch_computations"
    r"|called_computations)=(\{[^}]*\}|%?[\w.\-]+)"
)
_OP_NAME = re.compile(r'\bop_name="((?:[^"\\]|\\.)*)"')
_FRAME_ID = re.compile(r"\bstack_frame_id=(\d+)")
_FILE_AND_LINE = re.compile(r'\bsource_file="((?:[^"\\]|\\.)*)"\s+source_line=(\d+)')
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
    def primitive(self) -> str:
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
    frames = _frames(text)
    header = re.search(r"^HloModule\s+([\w.\-]+)(.*)$", text, re.MULTILINE)
    counts = re.findall(r"\b(?:num_partitions|replica_count)=(\d+)", header[2] if header else "")
    found: dict[str, list[Instruction]] = {}
    for computation, line in _lines(text):
        one = _instruction(line, computation, frames)
        if one is not None:
            found.setdefault(computation, []).append(one)
    every = [one for body in found.values() for one in body]
    # A trace names instructions that run by themselves, not those within a fusion or a reduction.
    inner = {name for one in every for key, name in one.calls if key in ("calls", "to_apply")}
    every.sort(key=lambda one: one.computation not in inner)
    return Program(
        header[1] if header else "",
        {one.name: one for one in every},
        {name: tuple(body) for name, body in found.items()},
        math.prod(map(int, counts)),
    )


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of instructions, each with its computation."""
    computation = ""
    for line in text.splitlines():
        if line.startswith(("%", "ENTRY")) or (line.endswith("{") and " = " not in line):
            found = _COMPUTATION.match(_COMMENT.sub("", line))
            computation = found[1] if found else computation
        elif " = " in line:
            yield computation, line


def _instruction(
    line: str, computation: str, frames: Mapping[int, tuple[_Call, ...]]
) -> Instruction | None:
    plain = _INSTRUCTION.match(_COMMENT.sub("", _STRING.sub('""', line)))
    if plain is None:
        return None
    rest = plain[3]
    end = closing(rest) if rest.startswith("(") else rest.find(" ")
    opcode = _OPCODE.match(rest, end)
    if opcode is None:
        return None
    last = closing(rest, opcode.end() - 1)
    attributes = rest[last:]
    if opcode[1] == "custom-call":  # its target is a string
        attributes = line
    name, frame = _OP_NAME.search(line), _FRAME_ID.search(line)
    place = _FILE_AND_LINE.search(line)
    stack = frames.get(int(frame[1]), ()) if frame else ()
    trace = tuple((file, number) for file, number, _ in stack)
    return Instruction(
        name=plain[2],
        computation=computation,
        opcode=opcode[1],
        shapes=_shapes(rest[:end]),
        operands=tuple(_REFERENCE.findall(rest[opcode.end() : last])),
        calls=tuple(
            (key, called)
            for key, value in _CALLS.findall(rest[last:])
            for called in re.findall(r"[\w.\-]+", value)
        ),
        op_name=_with_scopes(_unescaped(name[1]) if name else "", stack),
        frames=trace or (((place[1], int(place[2])),) if place else ()),
        attributes=attributes,
        is_root=bool(plain[1]),
    )


def _shapes(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple(
        (dtype, tuple(int(size) for size in re.findall(r"\d+", shape)))
        for dtype, shape in _ARRAY.findall(text)
    )


def _bits(dtype: str) -> int:
    digits = re.search(r"\d+", dtype)
    return 8 if dtype == "pred" or digits is None else int(digits[0])


def closing(text: str, start: int = 0) -> int:
    """Return the position after the bracket that closes the bracket at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(text)


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


def _unescaped(text: str) -> str:
    """Decode a string of the text, in which bytes that are not ASCII are octal escapes."""
    as_bytes = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
    try:
        return as_bytes.encode("latin-1").decode()
    except UnicodeError:
        return text


# --- Python frames --------------------------------------------------------------------------------


#: A file, a line and a function.
_Call = tuple[str, int, str]


def _with_scopes(op_name: str, stack: Sequence[_Call]) -> str:
    """Return an `op_name` with all scopes.

    Without `jax_include_full_tracebacks_in_locations`, JAX writes some scopes as functions.
    """
    if not op_name or "nx." in op_name.replace("nx.xmap{", ""):
        return op_name
    scopes = [name for *_, name in reversed(stack) if "(" in name or "{" in name]
    return "/".join([*scopes, op_name])


def _frames(text: str) -> dict[int, tuple[_Call, ...]]:
    """Return the frames of every stack in the tables of a text, the innermost first."""
    tables: dict[str, dict[int, str]] = {}
    table: dict[int, str] = {}
    for line in text.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = tables.setdefault(line, {})
        elif match := re.match(r"(\d+) (.*)", line):
            table[int(match[1])] = match[2]
        elif line.endswith("{"):
            break

    def number(key: str, entry: str) -> int:
        found = re.search(rf"\b{key}=(\d+)", entry)
        return int(found[1]) if found else 0

    files = {i: _unescaped(name.strip('"')) for i, name in tables.get("FileNames", {}).items()}
    functions = {
        i: _unescaped(name.strip('"')) for i, name in tables.get("FunctionNames", {}).items()
    }
    places = {
        i: (
            files.get(number("file_name_id", entry), ""),
            number("line", entry),
            functions.get(number("function_name_id", entry), ""),
        )
        for i, entry in tables.get("FileLocations", {}).items()
    }
    stacks = tables.get("StackFrames", {})
    # The outermost frame has no parent. XLA prints the number of the parent plus one.
    offset = min((number("parent_frame_id", entry) for entry in stacks.values()), default=0)

    def chain(i: int) -> Iterator[_Call]:
        seen: set[int] = set()
        while i in stacks and i not in seen:
            seen.add(i)
            yield places.get(number("file_location_id", stacks[i]), ("", 0, ""))
            i = number("parent_frame_id", stacks[i]) - offset

    return {i: tuple(chain(i)) for i in stacks}


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
_CONFIG = "async_collective_config="


def _groups(attributes: str, devices: int) -> tuple[frozenset[int], ...] | None:
    whole = (frozenset(range(devices)),)
    if _CONFIG in attributes:
        return _configured(attributes, whole)
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


def _configured(
    attributes: str, whole: tuple[frozenset[int], ...]
) -> tuple[frozenset[int], ...] | None:
    """Return the groups of a collective that JAX writes as a custom call."""
    config, _ = json.JSONDecoder().raw_decode(attributes.partition(_CONFIG)[2])
    config = json.loads(config) if isinstance(config, str) else config
    if "permutation" in config:
        return _components([(int(a), int(b)) for a, b in config["permutation"]])
    groups = config.get("replica_groups") or ()
    return tuple(frozenset(i for i in group if i >= 0) for group in groups) or whole


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
