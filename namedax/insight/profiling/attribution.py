"""Division of the time of a step among the instructions that run.

A device may run several instructions at once, and a loop runs while its body does. So the time of
an instruction is not the length of its events: at every moment, time is divided evenly among the
innermost instructions that run at this moment. The sum over all instructions is then the time in
which something ran, and nothing counts twice.

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

from collections import defaultdict
from collections.abc import Iterable, Sequence

from namedax.core.records import Record
from namedax.insight.profiling.events import Event
from namedax.insight.profiling.instructions import Program

__all__ = ["Shares", "divide"]


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
