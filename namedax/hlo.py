"""The collectives in the HLO text of a compiled program, with their bytes.

XLA merges, splits and removes collectives, and makes them asynchronous. Only the compiled program
shows the actual communication, so this module reads its text:

    collectives(jax.jit(f).lower(*args).compile())   # every collective, in the order of the text
    summary(jax.jit(f).lower(*args).compile())       # the number and bytes of each kind

**Bytes are the payload of one device.** For an all-reduce, reduce-scatter, all-to-all or permute,
`Collective.bytes` is the size of one device's operands. For an all-gather it is the size of the
result. It is always the larger side, so an all-gather and its transpose, a reduce-scatter, have the
same bytes. `Collective.wire_bytes` is the minimum that one device sends, on a ring of n devices:

    all-reduce            2 (n - 1) / n * bytes    a reduce-scatter, then an all-gather
    all-gather              (n - 1) / n * bytes
    reduce-scatter          (n - 1) / n * bytes
    all-to-all              (n - 1) / n * bytes    a device keeps its own block
    ragged-all-to-all       (n - 1) / n * bytes    an estimate: the sizes are dynamic
    collective-permute                    bytes
    collective-broadcast                  bytes

**Origin.** JAX passes the source line of each operation to XLA, and namedax passes the operation
and its axis names. Both are in the text as far as XLA keeps them: `Collective.operation`, `names`
and `source`.

**Asynchronous collectives** are instructions of XLA (`all-reduce-start`, `async-start`), or custom
calls that JAX emits for `jax.lax.psum_scatter_start` and similar functions
(`custom_call_target="reduce-scatter-start"`). Each counts once, together with its end. Other custom
calls are opaque: communication within a kernel, such as a remote copy in Pallas, is not counted.

A backend may widen the data: XLA's CPU backend reduces and exchanges bfloat16 as float32. All bytes
are of the compiled program, not of the source.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping

import jax

from namedax.core.functions import cell_names
from namedax.core.records import Record
from namedax.errors import ArgumentError, ArgumentTypeError, format_value
from namedax.messages.call_errors import checks_signature

__all__ = ["KINDS", "Collective", "Summary", "collectives", "summary"]


def __dir__() -> list[str]:
    return __all__


#: The kinds of collectives, by XLA's names, in the order of a printed summary.
KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)


@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective operation of a compiled program.

    Attributes:
      kind: one of `KINDS`.
      bytes: the payload of one device: the size of its operands, or of its result for an
        all-gather.
      group_size: the number of devices in a group.
      count_of_operands: the number of operands. It is more than one if several arrays share one
        collective, as in a combined all-reduce. An all-to-all may have one operand for each device
        of the group. Default: 1.
      dtype: the dtype by XLA's name, such as `"f32"` or `"pred"`; different ones are joined, as in
        `"f32+s32"`. Default: `"f32"`.
      in_loop: True if it is in the body of a loop, and so runs once per step. `bytes` is the
        payload of one step. Default: False.
      operation: the operation on named axes that it belongs to, such as `"nx.einsum"`; empty if
        unknown. For psums that XLA combines into one all-reduce, the operation of one of them.
        Default: empty.
      names: the axis names of the operation, as text; `"new:old"` for an axis that it renames.
        Default: none.
      source: the line of the user's file, such as `"model.py:12"`; in a notebook `"cell:3"` (`"cell
        A:3"` if several cells communicate). Default: empty, for an unknown line.
      trips: the number of executions by the surrounding loops. A loop with an unknown number of
        steps counts as one step. Default: 1.

    >>> import namedax as nx
    >>> nx.hlo.Collective("all-reduce", bytes=4096, group_size=8).wire_bytes
    7168
    """

    kind: str
    bytes: int
    group_size: int
    count_of_operands: int = 1
    dtype: str = "f32"
    in_loop: bool = False
    operation: str = dataclasses.field(default="", compare=False)
    names: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    source: str = dataclasses.field(default="", compare=False)
    trips: int = dataclasses.field(default=1, compare=False)

    @property
    def wire_bytes(self) -> int:
        """Return the minimum number of bytes that one device sends, on a ring, rounded up."""
        if self.kind in ("collective-permute", "collective-broadcast"):
            return self.bytes
        rounds = 2 if self.kind == "all-reduce" else 1
        return -(-rounds * (self.group_size - 1) * self.bytes // self.group_size)

    def __str__(self) -> str:
        loop = " in a loop" if self.in_loop else ""
        size = size_text(self.bytes)
        return f"{self.kind} of {self.dtype} over {self.group_size} devices{loop} ({size})"


class Summary(dict[str, tuple[int, int]]):
    """The number and bytes of the collectives of a program, by kind: `{kind: (count, bytes)}`.

    A collective in a loop sends its bytes again in every step. Such collectives have a separate
    key, such as `"all-reduce in a loop"`, with the bytes of one step. Compare a summary with a
    plain dict, and print it with `str`.

    Args:
      of: the collectives.

    >>> import namedax as nx
    >>> sums = [nx.hlo.Collective("all-reduce", size, 8) for size in (25600, 100)]
    >>> print(nx.hlo.Summary(sums))
    2 all-reduce (25.1 KiB)
    >>> print(nx.hlo.Summary([]))
    none
    """

    def __init__(self, of: Iterable[Collective] = ()):
        super().__init__()
        try:
            of = list(of)
        except TypeError:
            raise ArgumentTypeError(
                f"Summary: {format_value(of)} is not a list of collectives. Write"
                " nx.hlo.summary(compiled)."
            ) from None
        for c in of:
            if not isinstance(c, Collective):
                raise ArgumentTypeError(
                    f"Summary: {format_value(c)} is not an nx.hlo.Collective. Write"
                    " nx.hlo.summary(compiled)."
                )
        for c in sorted(of, key=lambda c: (KINDS.index(c.kind), c.in_loop)):
            key = f"{c.kind} in a loop" if c.in_loop else c.kind
            count, size = self.get(key, (0, 0))
            self[key] = (count + 1, size + c.bytes)

    def __str__(self) -> str:
        texts = (f"{count} {key} ({size_text(size)})" for key, (count, size) in self.items())
        return ", ".join(texts) or "none"


@checks_signature
def summary(compiled: jax.stages.Compiled | str) -> Summary:
    """Count the collectives of a compiled program and sum their bytes, by kind.

    Args:
      compiled: the result of `jax.jit(f).lower(...).compile()`, or its text.

    Returns:
      A `Summary`: a dict `{kind: (count, bytes)}` that prints as one line.

    >>> import jax, namedax as nx
    >>> from jax.sharding import PartitionSpec as P
    >>> mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    >>> def body(x):
    ...     return jax.lax.psum(x @ x.T, "x"), jax.lax.psum(x.max(), "x")
    >>> f = jax.shard_map(body, mesh=mesh, in_specs=P(None, "x"), out_specs=P())
    >>> compiled = jax.jit(f).lower(jax.ShapeDtypeStruct((16, 24), "float32")).compile()
    >>> print(nx.hlo.summary(compiled))
    1 all-reduce (1.0 KiB)
    >>> nx.hlo.summary(compiled) == {"all-reduce": (1, 4 * (16 * 16 + 1))}
    True
    """
    return Summary(collectives(compiled))


@checks_signature
def collectives(compiled: jax.stages.Compiled | str) -> tuple[Collective, ...]:
    """List the collectives of a compiled program.

    An asynchronous collective (`all-reduce-start` with its `all-reduce-done`, also as custom calls)
    counts once. Several arrays in one operation are one `Collective`. A collective within groups of
    one device does not communicate and is omitted.

    Args:
      compiled: the result of `jax.jit(f).lower(...).compile()`, or its text.

    Returns:
      The collectives in the order of the text, in which the body of a loop precedes the loop.

    Raises:
      TypeError: `compiled` is not a compiled program. A lowered program is not compiled.
      ValueError: the text is not HLO, or a collective in it cannot be parsed.

    >>> import jax, namedax as nx
    >>> from jax.sharding import PartitionSpec as P
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    >>> def body(x):
    ...     return jax.lax.all_gather(x, "x", tiled=True)
    >>> f = jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    >>> compiled = jax.jit(f).lower(jax.ShapeDtypeStruct((8, 10), "float32")).compile()
    >>> for c in nx.hlo.collectives(compiled):
    ...     print(c, c.bytes, c.wire_bytes)
    all-gather of f32 over 4 devices (320 B) 320 240
    """
    text = _text(compiled)
    devices = device_count(text)
    instructions = list(_instructions(text))
    types = {(i.computation, i.name): i.type for i in instructions}
    frames = Frames(text)
    sources = {i.line: _source(i.line, frames) for i in instructions if i.kind}
    cells = cell_names(path for path, _ in sources.values())
    looped, executions = _looped_computations(instructions), _executions(instructions)
    # The short form of an asynchronous collective has a wrapped computation that contains the
    # collective again.
    wrapped = {name for i in instructions if i.kind for key, name in i.calls if key == "calls"}
    return tuple(
        _collective(
            i,
            types,
            i.computation in looped,
            executions.get(i.computation, 1),
            devices,
            _place_text(*sources[i.line], cells),
        )
        for i in instructions
        if i.kind and i.computation not in wrapped and _group_size(i, devices) > 1
    )


def _text(compiled: jax.stages.Compiled | str) -> str:
    text = compiled.as_text() if isinstance(compiled, jax.stages.Compiled) else compiled
    if not isinstance(text, str):
        raise ArgumentTypeError(
            "hlo.collectives: expected a compiled program or its text, got a value of type "
            f"{type(compiled).__name__}. Pass jax.jit(f).lower(...).compile()."
        )
    if re.search(r"^\s*module\b.*\{", text, re.MULTILINE):
        raise ArgumentError(
            "hlo.collectives: expected the HLO text of a compiled program, got the StableHLO of a"
            " lowered one. Compile it first: jax.jit(f).lower(...).compile().as_text()."
        )
    return text


# --- Parsing of the text --------------------------------------------------------------------------
# The text of a module is a header line, then computations:
#
#     %name (parameters) -> type {
#       [ROOT ]%name = type opcode(%operand, ...), attribute=value, ...
#     }
#
# In older XLA an operand has its type before its name. Names are local to a computation. `re`
# compiles these patterns on first use.

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = r"/\*.*?\*/"
_COMPUTATION = r"^(?:ENTRY\s+)?%?([\w.\-]+)\s*(?:\(.*\)\s*->.*)?\{\s*$"
_INSTRUCTION = r"^(?:ROOT\s+)?%?([\w.\-]+)\s*=\s*(.+)$"
_ARRAY = r"([a-z]\w*)\[([^\]]*)\](?:\{[^}]*\})?"
_OPCODE = r"\s*([\w\-]+)(?=\()"
_CALLS = (
    r"\b(body|condition|calls|to_apply|true_computation|false_computation|branch_computations"
    r"|called_computations)=(\{[^}]*\}|%?[\w.\-]+)"
)
_CUSTOM_START = r'custom_call_target="([\w\-]+)-start"'
_STEPS = r'"known_trip_count":\{"n":"(\d+)"\}'


class Line(Record):
    """One instruction of a text.

    Attributes:
      computation: the computation that it is in.
      name: its name there.
      type: its type.
      opcode: its operation.
      operands: the text of its operands.
      attributes: its other attributes, whose strings are empty. A collective that is a custom call
        has its groups here, like other collectives.
      whole: the whole line.
    """

    computation: str
    name: str
    type: str
    opcode: str
    operands: str
    attributes: str
    whole: str

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        """The computations that it calls, with the attribute that names them."""
        return tuple(
            (key, called)
            for key, value in re.findall(_CALLS, self.attributes)
            for called in re.findall(r"[\w.\-]+", value)
        )


def instruction_lines(text: str) -> Iterator[Line]:
    """Yield the instructions of a text, in its order."""
    computation = ""
    for whole in text.splitlines():
        line = re.sub(_COMMENT, "", re.sub(_STRING, '""', whole)).strip()
        if match := re.match(_COMPUTATION, line):
            computation = match[1]
        elif match := re.match(_INSTRUCTION, line):
            name, rest = match.groups()
            end = _closing(rest) if rest.startswith("(") else _end_of(re.match(_ARRAY, rest))
            opcode = re.compile(_OPCODE).match(rest, end)
            if opcode is None:
                continue
            closing = _closing(rest, opcode.end())
            operands, attributes = rest[opcode.end() + 1 : closing - 1], rest[closing:]
            if opcode[1] == "custom-call" and _custom_kind(whole) in KINDS:
                attributes += _custom_groups(whole)
            yield Line(computation, name, rest[:end], opcode[1], operands, attributes, whole)


class _Instruction(Record):
    """One instruction.

    `kind` and `line` (its text) are empty unless it starts a collective. `steps` is the number of
    steps of a loop.
    """

    computation: str
    name: str
    type: str
    kind: str
    operands: tuple[str, ...]
    attributes: str
    calls: tuple[tuple[str, str], ...]
    line: str
    steps: int


def _instructions(text: str) -> Iterator[_Instruction]:
    for one in instruction_lines(text):
        kind = one.opcode.removesuffix("-start")
        if kind == "custom-call":
            kind = _custom_kind(one.whole)
        if kind == "all-reduce" and one.computation.startswith("all-reduce-scatter"):
            kind = "reduce-scatter"  # on TPUs it is a fusion of an all-reduce and a slice
        steps = re.search(_STEPS, one.whole) if kind == "while" else None
        yield _Instruction(
            one.computation,
            one.name,
            type=one.type,
            kind=kind if kind in KINDS else "",
            operands=_split(one.operands) if kind in KINDS else (),
            attributes=one.attributes,
            calls=one.calls,
            line=one.whole if kind in KINDS else "",
            steps=int(steps[1]) if steps else 1,
        )


def _custom_kind(line: str) -> str:
    """Return the kind of collective that a custom call starts; empty for other custom calls."""
    target = re.search(_CUSTOM_START, line)
    return target[1] if target else ""


def _custom_groups(line: str) -> str:
    """Return the devices of a collective custom call, in the format of XLA's own instructions.

    JAX puts them into a JSON object, which XLA prints as an object or as a string.
    """
    _, is_there, text = line.partition("async_collective_config=")
    if not is_there:
        return ""
    config, _ = json.JSONDecoder().raw_decode(text)
    config = json.loads(config) if isinstance(config, str) else config
    found = ""
    for key, attribute in (
        ("replica_groups", "replica_groups"),
        ("permutation", "source_target_pairs"),
    ):
        if key in config:
            # Shorter groups are padded with -1.
            groups = (
                ",".join(str(device) for device in group if device >= 0) for group in config[key]
            )
            found += f", {attribute}={{{','.join(f'{{{group}}}' for group in groups)}}}"
    return found


def _end_of(match: re.Match[str] | None) -> int:
    return match.end() if match else 0


def _closing(text: str, start: int = 0) -> int:
    """Return the position after the bracket that closes the bracket at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(text)


def _split(text: str) -> tuple[str, ...]:
    """Split at the commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)


def _looped_computations(instructions: list[_Instruction]) -> set[str]:
    """Return the computations that are the body or condition of a loop, or that these call."""
    called: dict[str, set[str]] = {}
    for i in instructions:
        called.setdefault(i.computation, set()).update(name for _, name in i.calls)
    pending = {name for i in instructions for key, name in i.calls if key in ("body", "condition")}
    looped: set[str] = set()
    while pending:
        looped |= pending
        pending = {name for caller in pending for name in called.get(caller, ())} - looped
    return looped


def _executions(instructions: list[_Instruction]) -> dict[str, int]:
    """Return the number of executions of each computation that another one calls."""
    callers: dict[str, list[tuple[str, int]]] = {}
    for i in instructions:
        for key, name in i.calls:
            callers.setdefault(name, []).append((i.computation, i.steps if key == "body" else 1))

    @functools.cache
    def count(name: str) -> int:
        return (
            sum(steps * count(caller) for caller, steps in callers[name]) if name in callers else 1
        )

    return {name: count(name) for name in callers}


# --- From an instruction to a Collective ----------------------------------------------------------


def _collective(
    i: _Instruction,
    types: dict[tuple[str, str], str],
    in_loop: bool,
    trips: int,
    devices: int,
    source: str,
) -> Collective:
    operands = i.operands
    if i.kind == "ragged-all-to-all":
        operands = operands[:1]  # the other operands are the output buffer, offsets and sizes
    operand_types = []
    for operand in operands:
        before, _, name = operand.rpartition(" ")
        type_ = before or types.get((i.computation, name.lstrip("%")))
        if type_ is None:
            raise ArgumentError(
                f"hlo.collectives: the operand {operand!r} of {i.kind} {i.name!r} is not defined in"
                " its computation. Pass the complete text of the compiled module."
            )
        operand_types.append(type_)
    arrays = [array for type_ in operand_types for array in re.findall(_ARRAY, type_)]
    size = sum(_array_bytes(dtype, shape) for dtype, shape in arrays)
    group_size = _group_size(i, devices)
    operation, names = _operation(i.line)
    return Collective(
        kind=i.kind,
        bytes=size * group_size if i.kind == "all-gather" else size,
        group_size=group_size,
        count_of_operands=len(operands),
        dtype="+".join(dict.fromkeys(dtype for dtype, _ in arrays)),
        in_loop=in_loop,
        operation=operation,
        names=names,
        source=source,
        trips=trips,
    )


def _array_bytes(dtype: str, shape: str) -> int:
    """Compute the bytes of an array from the text of its dtype and shape.

    The dtype is text such as `"bf16"`, and the shape `"4,128"`, or `"<=4,128"` if it is dynamic.
    """
    bits = 8 if dtype == "pred" else int((re.findall(r"\d+", dtype) or ["0"])[0])  # f8e4m3fn: 8
    return -(-bits * math.prod(int(d) for d in re.findall(r"\d+", shape)) // 8)


# --- The origin of an instruction -----------------------------------------------------------------
# `metadata={op_name="jit(f)/shard_map/nx.xmap{batch:x}/nx.sum{batch}/psum" stack_frame_id=7}`, with
# tables of stack frames before the first computation. Older texts contain the file and the line:
# `source_file="/home/me/model.py" source_line=12`.

_Place = tuple[str, str]
_NOWHERE: _Place = "", ""

_OP_NAME = r'\bop_name="((?:[^"\\]|\\.)*)"'
_SCOPE = r"nx\.([\w.]+)\{([^{}]*)\}"
_FRAME = r"\bstack_frame_id=(\d+)"
_FILE_AND_LINE = r'\bsource_file="((?:[^"\\]|\\.)*)"\s+source_line=(\d+)'


def _operation(line: str) -> tuple[str, tuple[str, ...]]:
    """Return the operation on named axes that a line belongs to, and its axis names."""
    # The scope of the mapped function encloses all others, and does not identify the operation.
    scopes = [scope for scope in re.findall(_SCOPE, op_name(line)) if scope[0] != "xmap"]
    if not scopes:
        return "", ()
    operation, names = scopes[-1]
    return f"nx.{operation}", tuple(names.split(",")) if names else ()


def op_name(line: str) -> str:
    """Return JAX's scopes and the primitive of an instruction; empty if XLA made it."""
    found = re.search(_OP_NAME, line)
    return _unescaped(found[1]) if found else ""


def _unescaped(text: str) -> str:
    """Decode a string of the text, in which bytes that are not ASCII are octal escapes."""
    as_bytes = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
    try:
        return as_bytes.encode("latin-1").decode()
    except UnicodeError:
        return text


#: A file, a line and a function.
Call = tuple[str, int, str]


def call_stack(line: str, frames: Frames) -> tuple[Call, ...]:
    """Return the Python frames that made an instruction, the innermost first."""
    if match := re.search(_FRAME, line):
        return frames.stack(int(match[1]))
    match = re.search(_FILE_AND_LINE, line)
    return ((_unescaped(match[1]), int(match[2]), ""),) if match else ()


def _source(line: str, frames: Frames) -> _Place:
    file, number, _ = next(iter(call_stack(line, frames)), ("", 0, ""))
    return (file, str(number)) if file and number else _NOWHERE


def _place_text(file: str, line: str, cells: Mapping[str, str]) -> str:
    """Format a source line: the file name without folders, or the notebook cell, and the line."""
    name = cells.get(file) or re.split(r"[/\\]", file)[-1]
    return f"{name}:{line}" if file else ""


class Frames:
    """The Python frames of a text, from the tables before its first computation.

    Args:
      text: the text.
    """

    def __init__(self, text: str):
        tables: dict[str, dict[int, str]] = {}
        table: dict[int, str] = {}
        for line in text.splitlines():
            if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
                table = tables.setdefault(line, {})
            elif match := re.match(r"(\d+) (.*)", line):
                table[int(match[1])] = match[2]
            elif re.match(_COMPUTATION, line):
                break
        files, functions = (
            {i: _unescaped(name.strip('"')) for i, name in tables.get(key, {}).items()}
            for key in ("FileNames", "FunctionNames")
        )
        self._places: dict[int, Call] = {
            i: (
                files.get(_number("file_name_id", entry), ""),
                _number("line", entry),
                functions.get(_number("function_name_id", entry), ""),
            )
            for i, entry in tables.get("FileLocations", {}).items()
        }
        stacks = tables.get("StackFrames", {})
        parents = {i: _number("parent_frame_id", entry) for i, entry in stacks.items()}
        # The outermost frame has no parent. XLA prints the number of the parent plus one.
        offset = min(parents.values(), default=0)
        self._frames = {
            i: (_number("file_location_id", entry), parents[i] - offset)
            for i, entry in stacks.items()
        }
        self._stacks: dict[int, tuple[Call, ...]] = {}

    def stack(self, number: int) -> tuple[Call, ...]:
        """Return a frame and its callers; empty if the number is unknown."""
        if number not in self._stacks:
            found: list[Call] = []
            seen: set[int] = set()
            at = number
            while at in self._frames and at not in seen:
                seen.add(at)
                place, at = self._frames[at]
                found.append(self._places.get(place, ("", 0, "")))
            self._stacks[number] = tuple(found)
        return self._stacks[number]


def _number(key: str, entry: str) -> int:
    found = re.search(rf"\b{key}=(\d+)", entry)
    return int(found[1]) if found else 0


# `replica_groups` has one of three formats. These three examples are the same two groups:
#
#     {{0,2},{1,3}}    [2,2]<=[2,2]T(1,0)    mesh['x'=2,'y'=2] {'x'}
#
# The last format may have `device_ids=(...)` after the mesh, and may use a part of an axis:
# 'x':(1)2 is the major two of x.

_IOTA_GROUPS = r"replica_groups=\[\d+,(\d+)\]<="
_LISTED_GROUPS = r"replica_groups=\{((?:\s*\{[\d,\s]*\}\s*,?)+)\}"
_MESH_GROUPS = (
    r"replica_groups=mesh\[((?:'[^']*'=\d+,?\s*)*)\]"
    r"(?:,\s*device_ids=\((?:[^()]|\([^()]*\))*\))?"
    r"\s*\{((?:'[^']*'(?::\(\d+\)\d+)?,?\s*)*)\}"
)
_ALL_DEVICES = r"replica_groups=\{\s*\}"
_PAIRS = r"source_target_pairs=\{((?:\s*\{\d+,\s*\d+\}\s*,?)*)\}"


def device_count(text: str) -> int:
    """Return the number of devices that run a program."""
    header = re.search(r"^HloModule.*", text, re.MULTILINE)
    counts = re.findall(r"\b(?:num_partitions|replica_count)=(\d+)", header[0] if header else "")
    return math.prod(int(count) for count in counts)


def _group_size(i: _Instruction, devices: int) -> int:
    """Return the number of devices in a group, or in the largest group if they differ."""
    if match := re.search(_PAIRS, i.attributes):
        pairs = re.findall(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}", match[1])
        return _largest_component([(int(source), int(target)) for source, target in pairs])
    if match := re.search(_IOTA_GROUPS, i.attributes):
        return int(match[1])
    if match := re.search(_LISTED_GROUPS, i.attributes):
        return max(len(re.findall(r"\d+", group)) for group in match[1].split("}"))
    if match := re.search(_MESH_GROUPS, i.attributes):
        sizes = dict(re.findall(r"'([^']*)'=(\d+)", match[1]))
        axes = re.findall(r"'([^']*)'(?::\(\d+\)(\d+))?", match[2])
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    if re.search(_ALL_DEVICES, i.attributes) or "replica_groups=" not in i.attributes:
        return devices
    raise ArgumentError(
        f"hlo.collectives: cannot parse the device groups of {i.kind} {i.name!r} from"
        f" {i.attributes.lstrip(', ')!r}."
    )


def _largest_component(pairs: list[tuple[int, int]]) -> int:
    """Return the number of devices in the largest component of a permutation; 1 without pairs."""
    component: dict[int, set[int]] = {}
    for source, target in pairs:
        merged = component.get(source, {source}) | component.get(target, {target})
        for device in merged:
            component[device] = merged
    return max((len(devices) for devices in component.values()), default=1)


def size_text(size: float) -> str:
    """Format a number of bytes: `4 B`, `25.1 KiB`."""
    size = int(size)
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, 5)
    return f"{size / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB', 'PiB')[power - 1]}"
