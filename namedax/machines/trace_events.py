"""Schedules as traces in Chrome's trace-event format, which ui.perfetto.dev opens.

A trace is a JSON object with a list of events. `ph` is the type of an event: `"M"` names a process
or a thread, `"X"` is a slice with a start and a duration, `"s"` and `"f"` are the ends of an arrow.
Times are in microseconds.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from namedax.core.records import Record
from namedax.insight.analysis.records import Collective, Step

__all__ = ["LANES", "Slice", "Track", "predicted_tracks", "title_of", "write"]

#: The tracks of a device.
LANES = ("computing", "communicating")


class Slice(Record):
    """A bar of a track. Times are in seconds.

    Attributes:
      name: its text.
      kind: the kind of the operation or collective.
      start: its start.
      end: its end.
      details: what is shown when it is selected.
      link: an arrow leads from the first slice with this value to the second; `None` for no arrow.
        Default: `None`.
    """

    name: str
    kind: str
    start: float
    end: float
    details: Mapping[str, str | float]
    link: Hashable = None


class Track(Record):
    """A line of slices, which do not overlap unless they are nested."""

    process: str
    name: str
    slices: tuple[Slice, ...]


def title_of(operation: str, names: Iterable[str], kind: str) -> str:
    """Return the text of a step: its operation with its names, or else its kind.

    >>> from namedax.machines.trace_events import title_of
    >>> title_of("nx.dot", ["k"], "dot_general"), title_of("", [], "add")
    ('nx.dot{k}', 'add')
    """
    return f"{operation}{{{','.join(names)}}}" if operation else kind


def predicted_tracks(
    schedule: Iterable[tuple[Step, float, float]], devices: int, process: str = "device"
) -> list[Track]:
    """Return the tracks of a predicted schedule, the same for each device.

    Args:
      schedule: the steps with their starts and ends, as `Times.schedule`.
      devices: the number of devices to show.
      process: the title of a device; with several devices it is followed by a number.
        Default: `"device"`.
    """
    steps = [(step, start, end) for step, start, end in schedule if end > start]
    return [
        Track(
            process if devices == 1 else f"{process} {device}",
            lane,
            tuple(
                _slice(step, start, end)
                for step, start, end in steps
                if isinstance(step, Collective) == (lane == LANES[1])
            ),
        )
        for device in range(devices)
        for lane in LANES
    ]


def _slice(step: Step, start: float, end: float) -> Slice:
    details: dict[str, str | float] = {
        "line": step.source,
        "kind": step.kind,
        "phase": step.phase,
        "dtype": step.dtype,
        "trips": step.trips,
        "bytes": step.bytes,
    }
    if isinstance(step, Collective):
        details |= {"mesh axes": ", ".join(step.mesh_axes), "devices": step.group_size}
    else:
        details["flops"] = step.flops
    name = title_of(step.operation, step.names, step.kind)
    link = (step.source, step.operation, step.phase, step.kind)
    return Slice(name, step.kind, start, end, details, link)


def write(path: str | os.PathLike[str], tracks: Sequence[Track]) -> None:
    """Write tracks as a trace in JSON; each process and its tracks in the given order."""
    processes = {name: i for i, name in enumerate(dict.fromkeys(t.process for t in tracks), 1)}
    events: list[dict[str, Any]] = []
    for name, pid in processes.items():
        events.append(_metadata("process_name", pid, 0, {"name": name}))
        events.append(_metadata("process_sort_index", pid, 0, {"sort_index": pid}))
    linked: dict[Hashable, list[tuple[Slice, int, int]]] = {}
    for tid, track in enumerate(tracks, 1):
        pid = processes[track.process]
        events.append(_metadata("thread_name", pid, tid, {"name": track.name}))
        events.append(_metadata("thread_sort_index", pid, tid, {"sort_index": tid}))
        for one in track.slices:
            events.append(
                {
                    "ph": "X",
                    "name": one.name,
                    "cat": one.kind,
                    "pid": pid,
                    "tid": tid,
                    "ts": one.start * 1e6,
                    "dur": (one.end - one.start) * 1e6,
                    "args": dict(one.details),
                }
            )
            if one.link is not None:
                linked.setdefault(one.link, []).append((one, pid, tid))
    numbers = itertools.count(1)
    for places in linked.values():
        first = places[0]
        second = next((place for place in places if place[1] != first[1]), None)
        if second is not None:
            events += _arrow(next(numbers), first, second)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)


def _metadata(name: str, pid: int, tid: int, args: Mapping[str, object]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": dict(args)}


def _arrow(
    number: int, first: tuple[Slice, int, int], second: tuple[Slice, int, int]
) -> list[dict[str, Any]]:
    ends = []
    for phase, (one, pid, tid) in (("s", first), ("f", second)):
        # Within the slice that it belongs to: an arrow binds to the slice around its time.
        middle = (one.start + one.end) / 2 * 1e6
        name = {"name": one.name, "cat": "measured as", "id": number}
        ends.append({"ph": phase, "bp": "e", "pid": pid, "tid": tid, "ts": middle, **name})
    ends[0].pop("bp")
    return [{**end, "name": ends[0]["name"]} for end in ends]
