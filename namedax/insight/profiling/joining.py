"""The time of a step: divided among instructions, and joined with the parts of a program.

**Parts** are the line, operation, names and phase to which the time of an instruction belongs.
An instruction of the compiled program has JAX's scopes in its metadata, and among them those of
namedax. They give the same line, operation, names and phase as in the report of `nx.explain`.

- **A fusion** has several instructions of JAX. Its time is divided in proportion to the predicted
  seconds of these, because the report charges a fusion to the operations whose arrays it writes. If
  none has a prediction, it is divided by estimated arithmetic.
- **A combined collective** has one operand for each collective of the report. Its time is divided
  by bytes.
- **A function with a declared cost** is one step of the report, so the instructions of its call
  belong to it, whatever their lines are.
- **Instructions of XLA's own**, such as copies of a loop's carry, have no scope. Their time belongs
  to the instruction that reads their result, or else to the one that made their operand, or to the
  loop around them.

**Division.** A device may run several instructions at once, and a loop runs while its body does. So
the time of an instruction is not the length of its events: at every moment, time is divided evenly
among the innermost instructions that run at this moment. The sum over all instructions is then the
time in which something ran, and nothing counts twice.

- **A collective** waits until all devices of its group have started it. This time is no
  communication, and counts as waiting.
- **Communication** counts while the device computes nothing: hidden communication costs no time.
- **Loops, conditionals and calls** count only while none of the instructions within them runs.
- **Devices** with their own hardware count separately, and the result is their average. Simulated
  devices share the cores of a processor: at every moment, the time of the machine is divided among
  the instructions of all devices. It is the time that a step of one device takes while the others
  run theirs, as in `nx.machines.measure`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from namedax.core.functions import cell_names
from namedax.core.kernel_scopes import call_of, place_in
from namedax.core.records import Record
from namedax.insight.analysis.records import Collective, Phase, Step
from namedax.insight.analysis.report import Report
from namedax.insight.analysis.sources import Origin, first_of_users, origin_of_name
from namedax.insight.profiling.events import Event
from namedax.insight.profiling.instructions import Instruction, Program, work

__all__ = ["Join", "Part", "divide", "part_of_step"]


class Part(Record):
    """The line, operation, names, phase and kind of an instruction, as in `Operation`."""

    kind: str
    operation: str
    names: tuple[str, ...]
    source: str
    phase: Phase


Weighted: TypeAlias = list[tuple[Part, float]]
_Key: TypeAlias = tuple[str, str, str, str]
_Beyond: TypeAlias = Callable[[Instruction], Iterable[Instruction]]

_KINDS = {"dot": "dot_general", "convolution": "conv_general_dilated"}
_PASSING = ("tuple", "get-tuple-element", "bitcast", "copy", "optimization-barrier")


def part_of_step(step: Step) -> Part:
    """Return the part that a step of a report is."""
    return Part(step.kind, step.operation, step.names, step.source, step.phase)


class Join:
    """Assigns instructions to parts.

    Args:
      program: the instructions.
      report: the report of the same program.
      seconds: the predicted seconds of each part.
    """

    def __init__(self, program: Program, report: Report, seconds: Mapping[Part, float]):
        self._program = program
        self._users = program.users()
        self._labels = {path: label for label, path in report.files.items()}
        found = {path for one in program.instructions.values() for path, _ in one.frames}
        self._labels |= cell_names(found - self._labels.keys())
        self._seconds: dict[_Key, float] = defaultdict(float)
        self._lines: dict[tuple[str, tuple[str, ...], str], set[str]] = defaultdict(set)
        for step in report.operations:
            if step.operation:
                self._lines[step.operation, step.names, step.phase].add(step.source)
        self._steps: dict[tuple[str, Phase], dict[Part, None]] = defaultdict(dict)
        for step in report.operations:
            self._steps[step.kind, step.phase][part_of_step(step)] = None
        for part, value in seconds.items():
            self._seconds[_key(part)] += value
        self._collectives = report.collectives
        self._callers = {
            name: one for one in program.instructions.values() for _, name in one.calls
        }
        self._known: dict[str, Weighted] = {}

    def parts(self, name: str) -> Weighted:
        """Return the parts of an instruction, with weights that sum to one; empty if unknown."""
        one = self._program.instructions.get(name)
        return [] if one is None else self._parts_of(one)

    def is_named(self, name: str) -> bool:
        """Return True if the metadata of an instruction name its parts."""
        one = self._program.instructions.get(name)
        return one is not None and bool(self._own(one))

    def _parts_of(self, one: Instruction) -> Weighted:
        if one.name not in self._known:
            self._known[one.name] = []  # in case it depends on itself
            self._known[one.name] = _normalized(self._own(one) or self._near(one))
        return self._known[one.name]

    def _own(self, one: Instruction) -> Weighted:
        """Return the parts that the metadata of an instruction names."""
        if one.collective:
            return self._of_collective(one)
        inner = [each for each in self._program.inside(one) if work(each, self._program)]
        sent = [each for each in inner if each.collective]
        if sent:
            return [part for each in sent for part in self._of_collective(each)]
        named = [(self._part(each), each) for each in inner]
        predicted = [(part, self._seconds[_key(part)]) for part, _ in named if part is not None]
        if any(weight for _, weight in predicted):
            # Two instructions of one part do not have twice its time.
            return list(dict(predicted).items())
        weighted = [(part, work(each, self._program)) for part, each in named if part is not None]
        mine = self._part(one)
        return weighted or ([(mine, 1.0)] if mine is not None else [])

    def _part(self, one: Instruction) -> Part | None:
        """Return the part that the scopes of an instruction name, if they name one."""
        origin = self._origin(one, one.op_name)
        if (call := self._kernel(origin)) is not None:
            return call
        if not origin.operation and not (one.jax_operation and origin.source.path):
            return None
        kind = _KINDS.get(one.opcode, one.jax_operation or one.opcode)
        line = self._line(origin)
        return Part(kind, origin.operation, origin.names, line, origin.phase)

    def _kernel(self, origin: Origin) -> Part | None:
        """Return the step of the function with a declared cost whose call an origin is in."""
        place = place_in(origin.scopes, 0)
        if place is None:
            return None
        steps = self._steps.get((call_of(place.number).name, origin.phase), {})
        own = [part for part in steps if part.operation == origin.operation]
        return next(iter(own or steps), None)

    def _origin(self, one: Instruction, op_name: str) -> Origin:
        return origin_of_name(op_name, first_of_users(one.frames))

    def _label(self, origin: Origin) -> str:
        source = origin.source
        label = self._labels.get(source.path)
        return f"{label}:{source.line}" if label and source.path else str(source)

    def _line(self, origin: Origin) -> str:
        """Return the line of an operation in the report.

        JAX may lower an equation of a gradient with the frames of a caller. If the report has the
        operation on a single other line, it is this one.
        """
        own = self._label(origin)
        lines = self._lines.get((origin.operation, origin.names, origin.phase), {own})
        return next(iter(lines)) if own not in lines and len(lines) == 1 else own

    # --- collectives ------------------------------------------------------------------------------

    def _of_collective(self, one: Instruction) -> Weighted:
        """Return the parts of a collective, one for each operand."""
        sizes = self._payloads(one)
        names = _merged_names(one.op_name)
        if len(names) != len(sizes):
            # XLA writes equal names once, and an all-to-all may have an operand for each device.
            if len(names) > 1:
                names = [""] * len(sizes)
            elif self._match(one, names[0], sum(sizes)) is not None:
                sizes = [sum(sizes)]
            else:
                names = names * len(sizes)
        found: Weighted = []
        for op_name, size in zip(names, sizes, strict=True):
            step = self._match(one, op_name, size)
            if step is not None:
                found.append((part_of_step(step), float(size)))
                continue
            origin = self._origin(one, op_name)
            if origin.operation or origin.source.path:
                own = Part(
                    one.collective,
                    origin.operation,
                    origin.names,
                    self._line(origin),
                    origin.phase,
                )
                found.append((own, float(size)))
        return found

    def _payloads(self, one: Instruction) -> list[int]:
        operands = [self._program.instructions.get(name) for name in one.operands]
        sizes = [operand.bytes for operand in operands if operand is not None]
        if one.collective == "ragged-all-to-all":
            sizes = sizes[:1]
        if one.collective == "all-gather":
            groups = self._program.groups(one)
            count = max(map(len, groups)) if groups else self._program.devices
            sizes = [size * count for size in sizes]
        return sizes or [one.bytes]

    def _match(self, one: Instruction, op_name: str, size: int) -> Collective | None:
        """Return the collective of the report that an operand of a collective is."""
        origin = self._origin(one, op_name)
        line = self._label(origin)
        same = [step for step in self._collectives if step.kind == one.collective]

        def distance(step: Collective) -> tuple[bool, bool, bool]:
            is_here = step.source == line and step.operation == origin.operation
            return (step.operation != origin.operation, step.phase != origin.phase, not is_here)

        # The CPU backend reduces and exchanges bfloat16 as float32.
        sized = [step for step in same if size in (step.bytes, 2 * step.bytes)]
        if sized:
            best = min(sized, key=distance)
            if not op_name or not origin.operation or best.operation == origin.operation:
                return best
        there = [step for step in same if distance(step)[0] is False]
        return min(there, key=distance) if there else (sized[0] if sized else None)

    # --- instructions of XLA's own ----------------------------------------------------------------

    def _near(self, one: Instruction) -> Weighted:
        """Return the parts of the reader of an instruction, of its operand, or of its loop."""
        caller = self._callers.get(one.computation)
        around = [] if caller is None else [caller]
        kind = next(
            (inner.opcode for inner in self._program.inside(one) if inner.is_root), one.opcode
        )
        for near in itertools.chain(self._after(one), self._before(one)):
            if parts := self._own(near):
                return [(part.replace(kind=kind), weight) for part, weight in parts]
        for near in around:
            if parts := self._parts_of(near):
                return [(part.replace(kind=kind), weight) for part, weight in parts]
        return []

    def _after(self, one: Instruction) -> Iterator[Instruction]:
        return _reached(one, lambda each: self._users.get(each.name, ()))

    def _before(self, one: Instruction) -> Iterator[Instruction]:
        by_name = self._program.instructions

        def operands(each: Instruction) -> Iterable[Instruction]:
            return (by_name[name] for name in each.operands if name in by_name)

        return _reached(one, operands)


def _reached(one: Instruction, beyond: _Beyond) -> Iterator[Instruction]:
    """Yield the nearest instructions that compute, on the other side of those that pass data on."""
    seen, waiting = {one.name}, list(beyond(one))
    while waiting:
        here = waiting.pop(0)
        if here.name in seen:
            continue
        seen.add(here.name)
        if here.opcode in _PASSING:
            waiting += beyond(here)
        else:
            yield here


def _key(part: Part) -> _Key:
    return part.source, part.operation, part.phase, part.kind


def _normalized(parts: Weighted) -> Weighted:
    """Return the parts, each once, with weights that sum to one."""
    merged: dict[Part, float] = {}
    for part, weight in parts:
        merged[part] = merged.get(part, 0.0) + weight
    total = sum(merged.values())
    if not total:
        return [(part, 1 / len(merged)) for part in merged]
    return [(part, weight / total) for part, weight in merged.items() if weight]


def _merged_names(op_name: str) -> list[str]:
    """Return the names that XLA has merged into one.

    >>> from namedax.insight.profiling.joining import _merged_names
    >>> _merged_names("jit(f)/nx.xmap{b:x}/(nx.sum{b}/psum:nx.mean{b}/psum)")
    ['jit(f)/nx.xmap{b:x}/nx.sum{b}/psum', 'jit(f)/nx.xmap{b:x}/nx.mean{b}/psum']
    >>> _merged_names("jit(f)/nx.sum{b}/psum")
    ['jit(f)/nx.sum{b}/psum']
    """
    if not op_name.endswith(")"):
        return [op_name]
    depth = 0
    for start in range(len(op_name) - 1, -1, -1):
        depth += (op_name[start] in ")}") - (op_name[start] in "({")
        if not depth:
            break
    if start and op_name[start - 1] != "/":
        return [op_name]
    return [op_name[:start] + part for part in _split(op_name[start + 1 : -1])]


def _split(text: str) -> Sequence[str]:
    """Split at the colons outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "({") - (char in ")}")
        if char == ":" and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


# --- the time of instructions ---------------------------------------------------------------------


class Shares(Record):
    """The time of a step.

    Attributes:
      seconds: the seconds of each instruction.
      waiting: the seconds in which devices only wait for others, in collectives.
      idle: the seconds in which no instruction runs.
      wall: the seconds from the first event to the last; the sum of the others.
    """

    seconds: dict[str, float]
    waiting: float
    idle: float
    wall: float


def divide(
    events: Sequence[Event], program: Program, devices: Sequence[int], is_shared: bool
) -> Shares:
    """Divide the time of a step among instructions.

    Args:
      events: the events of the step.
      program: the instructions.
      devices: the devices whose average is returned.
      is_shared: True if the devices share the same hardware.
    """
    if not events:
        return Shares({}, 0.0, 0.0, 0.0)
    start, end = min(one.start for one in events), max(one.end for one in events)
    starts = _transfers(events, program)
    spans: dict[int, list[_Span]] = defaultdict(list)
    for one, transfer in zip(events, starts, strict=True):
        instruction = program.instructions.get(one.instruction)
        is_outer = instruction is not None and program.is_container(instruction)
        key = 0 if is_shared else one.device
        if transfer > one.start:
            spans[key].append(_Span(one.start, transfer, one.instruction, _WAITING))
        is_sent = instruction is not None and bool(instruction.collective)
        rank = _OUTER if is_outer else _SENDING if is_sent else _RUNNING
        spans[key].append(_Span(transfer, one.end, one.instruction, rank))
    groups = [0] if is_shared else list(devices)
    seconds: dict[str, float] = defaultdict(float)
    waiting = 0.0
    for group in groups:
        found, waited = _sweep(spans[group])
        for name, value in found.items():
            seconds[name] += value / len(groups)
        waiting += waited / len(groups)
    wall = end - start
    idle = max(0.0, wall - waiting - sum(seconds.values()))
    return Shares(dict(seconds), waiting, idle, wall)


_RUNNING, _SENDING, _WAITING, _OUTER = range(4)  # the first that is present takes the time


class _Span(Record):
    start: float
    end: float
    instruction: str
    rank: int


def _sweep(spans: Iterable[_Span]) -> tuple[dict[str, float], float]:
    """Return the seconds of each instruction, and those of waiting."""
    ends: list[tuple[float, int, int]] = []
    every = [span for span in spans if span.end > span.start]
    for i, span in enumerate(every):
        ends += [(span.start, 1, i), (span.end, 0, i)]
    ends.sort()
    active: list[set[int]] = [set() for _ in range(4)]
    seconds: dict[str, float] = defaultdict(float)
    waiting, before = 0.0, 0.0
    for time, opens, i in ends:
        length = time - before
        if length > 0:
            present = next((ones for ones in active if ones), None)
            if present is active[_WAITING]:
                waiting += length
            elif present is not None:
                for one in present:
                    seconds[every[one].instruction] += length / len(present)
        before = time
        (active[every[i].rank].add if opens else active[every[i].rank].discard)(i)
    return dict(seconds), waiting


def _transfers(events: Sequence[Event], program: Program) -> list[float]:
    """Return for each event the time from which it does its work.

    It is the start of the event, except for a collective, which begins when the last device of its
    group has started it.
    """
    found = [one.start for one in events]
    runs: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i in sorted(range(len(events)), key=found.__getitem__):
        runs[events[i].instruction][events[i].device].append(i)
    for name, by_device in runs.items():
        instruction = program.instructions.get(name)
        if instruction is None or not instruction.collective:
            continue
        groups = program.groups(instruction) or (frozenset(by_device),)
        for group in groups:
            lists = [by_device[device] for device in group if device in by_device]
            if len({len(ones) for ones in lists}) != 1:
                continue  # events are missing, so runs cannot be matched
            for run in zip(*lists, strict=True):
                last = max(events[i].start for i in run)
                for i in run:
                    found[i] = min(last, events[i].end)
    return found
