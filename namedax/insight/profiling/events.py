"""The events of a trace of JAX's profiler: which instruction ran on which device, and when.

Three kinds of planes have such events:

- **CPU.** The host's plane has a line for each thread. An event with the statistic `hlo_op` is an
  instruction that a device runs there, with its `device_ordinal`. An instruction may go on in
  another thread; then the event only starts it, and another event, `end: NAME`, marks its end.
- **GPU.** Each device has a plane, with a line for each stream. The statistics of a kernel name its
  instruction (`hlo_op`) and its program (`hlo_module`).
- **TPU.** Each device has a plane. Its line `XLA Ops` has an event for each instruction, whose name
  is the text of the instruction.

`jax.profiler.ProfileData` reads a trace; anything with the same attributes will do.
"""

from __future__ import annotations

import bisect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from namedax.core.records import Record

__all__ = ["STEP", "Event", "Trace", "TraceData", "read"]

#: The name of the event around a step, on the host.
STEP = "namedax.profile"

_DEVICE = re.compile(r"^/device:[A-Za-z]+:(\d+)")
_END = "end: "
_NAME = re.compile(r"^%?([\w.\-]+)(?: = |$)")


class _Event(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def start_ns(self) -> float: ...
    @property
    def duration_ns(self) -> float: ...
    @property
    def stats(self) -> Iterable[tuple[str, object]]: ...


class _Line(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def events(self) -> Iterable[_Event]: ...


class _Plane(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def lines(self) -> Iterable[_Line]: ...


class TraceData(Protocol):
    """A trace, as `jax.profiler.ProfileData`."""

    @property
    def planes(self) -> Iterable[_Plane]:
        """The devices, and the host."""


class Event(Record):
    """An instruction that ran on a device. Times are in seconds, from the beginning of the trace.

    Attributes:
      instruction: the name of the instruction.
      device: the number of the device.
      start: the start.
      end: the end.
    """

    instruction: str
    device: int
    start: float
    end: float


class Trace(Record):
    """The events of a program, by step.

    Attributes:
      steps: the start and the end of each step on the host, in seconds.
      events: the events of each step, in the order of their starts.
      is_shared: True if the devices are simulated: they run in threads of the host.
    """

    steps: tuple[tuple[float, float], ...]
    events: tuple[tuple[Event, ...], ...]
    is_shared: bool

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices with events."""
        return tuple(sorted({event.device for step in self.events for event in step}))


def read(data: TraceData, module: str, positions: Mapping[int, int] | None = None) -> Trace:
    """Return the events of a program.

    Args:
      data: the trace.
      module: the name of the program, as in its HLO text.
      positions: the number of each device in the program, by its number in the trace. Default:
        `None`, the same.
    """
    with warnings.catch_warnings():
        # In JAX 0.12 the first use of a type of the trace warns from C++, and a filter that turns
        # warnings into errors would end the process there.
        warnings.simplefilter("ignore", DeprecationWarning)
        return _read(data, module, positions or {})


def _read(data: TraceData, module: str, positions: Mapping[int, int]) -> Trace:
    planes = list(data.planes)
    devices = [plane for plane in planes if _DEVICE.match(plane.name)]
    hosts = [plane for plane in planes if plane not in devices]
    steps = sorted(
        (event.start_ns, event.start_ns + event.duration_ns)
        for plane in hosts
        for line in plane.lines
        for event in line.events
        if event.name == STEP
    )
    found = [event for plane in devices for event in _of_device(plane, module)]
    is_shared = not found
    if is_shared:
        found = [event for plane in hosts for event in _of_host(plane, module)]
    found.sort(key=lambda event: event.start)
    origin = steps[0][0] if steps else found[0].start if found else 0.0
    if not steps:
        steps = [(origin, max((event.end for event in found), default=origin))]
    starts = [start for start, _ in steps]
    by_step: list[list[Event]] = [[] for _ in steps]
    for event in found:
        # The clock of a device may differ a little from that of the host.
        i = max(0, bisect.bisect_right(starts, (event.start + event.end) / 2) - 1)
        by_step[i].append(
            Event(
                event.instruction,
                positions.get(event.device, event.device),
                (event.start - origin) * 1e-9,
                (event.end - origin) * 1e-9,
            )
        )
    return Trace(
        tuple(((start - origin) * 1e-9, (end - origin) * 1e-9) for start, end in steps),
        tuple(map(tuple, by_step)),
        is_shared,
    )


def _of_host(plane: _Plane, module: str) -> Iterator[Event]:
    """Yield the events of a plane whose lines are threads, with times in nanoseconds."""
    ends: dict[object, float] = {}
    started: list[tuple[object, Event]] = []
    for line in plane.lines:
        for event in line.events:
            if event.name.startswith(_END):
                ends[dict(event.stats).get("_c")] = event.start_ns
                continue
            if event.name.startswith("Threadpool"):  # most events
                continue
            stats = dict(event.stats)
            if stats.get("hlo_module") != module or "hlo_op" not in stats:
                continue
            one = Event(
                str(stats["hlo_op"]),
                int(str(stats.get("device_ordinal", 0))),
                event.start_ns,
                event.start_ns + event.duration_ns,
            )
            started.append((stats.get("_p"), one))
    for key, one in started:
        end = ends.get(key, one.end) if key is not None else one.end
        yield one.replace(end=max(end, one.end))


def _of_device(plane: _Plane, module: str) -> Iterator[Event]:
    """Yield the events of a device's plane, with times in nanoseconds."""
    number = _DEVICE.match(plane.name)
    lines = list(plane.lines)
    # Other lines repeat the time of these: modules, steps, scopes.
    streams = [line for line in lines if line.name.startswith("Stream")]
    chosen = streams or [line for line in lines if line.name == "XLA Ops"] or lines
    for line in chosen:
        for event in line.events:
            stats = dict(event.stats)
            name = _NAME.match(str(stats.get("hlo_op", "" if streams else event.name)))
            if name is None or stats.get("hlo_module", module) != module:
                continue
            start = event.start_ns
            yield Event(name[1], int(number[1]) if number else 0, start, start + event.duration_ns)
