"""`Why`: the comparison of a layout with the best one, by source line and by memory."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, Mesh

from namedax.core.records import Record
from namedax.core.text_tables import columns, seconds_text, shortened
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshError,
    NamedaxError,
    did_you_mean,
    show_names,
)
from namedax.hlo import size_text
from namedax.insight.analysis.line_times import Cause, LineTimes
from namedax.insight.analysis.page import (
    details,
    enclosed,
    escaped,
    html_table,
)
from namedax.insight.analysis.tables import source_line
from namedax.insight.planning.again import Again
from namedax.insight.planning.candidates import Candidate, Settings, layout, resources_text
from namedax.insight.planning.program import Held
from namedax.machines import Machine
from namedax.resources.assignment import parse_resources

__all__ = ["Facts", "LineChange", "MemoryChange", "Why", "explain_why"]

_ROWS = 12
_SHARE = 1e-3  # of the largest change: smaller changes are not listed


class Facts(Record):
    """The parts of a plan that an explanation needs; see `Plan`."""

    name: str
    machine: Machine
    memory: float
    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[dict[Hashable, Any], str], ...]
    sizes: dict[Hashable, int]
    arguments: tuple[Held, ...]
    again: Again | None


@dataclasses.dataclass(frozen=True)
class LineChange:
    """The seconds of a source line under the best layout and under another one.

    Attributes:
      line: the line, such as `"model.py:12"`; `"?"` if it is unknown, and `"overlap"` for the
        communication that takes no time because it overlaps with computation.
      code: the text of the line, if its file is available.
      best: the seconds under the best layout.
      other: the seconds under the other layout.
    """

    line: str
    code: str
    best: LineTimes
    other: LineTimes

    @property
    def difference(self) -> float:
        """The seconds that the other layout takes longer; negative if it is faster."""
        return self.other.total - self.best.total

    @property
    def causes(self) -> dict[Cause, tuple[float, int]]:
        """The communication that differs: its additional seconds and bytes, the largest first."""
        found = {}
        for cause in (*self.best.causes, *self.other.causes):
            before, after = (times.causes.get(cause, (0.0, 0)) for times in (self.best, self.other))
            if before != after:
                found[cause] = (after[0] - before[0], after[1] - before[1])
        return dict(sorted(found.items(), key=lambda item: -abs(item[1][0])))

    @property
    def reason(self) -> str:
        """The changes of this line by communication, computation and memory traffic, as text."""
        if self.line == "overlap":
            return "communication that overlaps with computation, and takes no time"
        parts = [
            (self.other.communication - self.best.communication, "communication"),
            (self.other.compute - self.best.compute, "computation"),
            (self.other.memory - self.best.memory, "memory traffic"),
        ]
        largest = max(abs(seconds) for seconds, _ in parts)
        parts = [part for part in parts if abs(part[0]) > _SHARE * largest]
        parts.sort(key=lambda part: -abs(part[0]))
        words = []
        for seconds, what in parts:
            text = f"{what} {_signed(seconds)}"
            if what == "communication":
                causes = [
                    f"{cause} {_signed(more)}, {_signed_size(sent)}"
                    for cause, (more, sent) in list(self.causes.items())[:2]
                ]
                causes += [f"{len(self.causes) - 2} more"] if len(self.causes) > 2 else []
                text += f" ({'; '.join(causes)})" if causes else ""
            words.append(text)
        return ", ".join(words)


@dataclasses.dataclass(frozen=True)
class MemoryChange:
    """The memory of a device for one purpose, in bytes.

    Attributes:
      what: an argument, the results, the residuals of a line, or other values at the peak.
      best: the bytes under the best layout.
      other: the bytes under the other layout.
    """

    what: str
    best: int
    other: int


@dataclasses.dataclass(frozen=True, repr=False)
class Why:
    """The reasons why a layout is not the best one; made by `Plan.why`. It prints as a table.

    Attributes:
      name: the name of the function.
      machine: the machine of the plan.
      limit: the memory limit of a device, in bytes.
      axis_resources: the layout.
      mesh: the sizes of the mesh axes.
      best: the best candidate of the plan.
      candidate: the layout as it was judged; `None` if it cannot be traced.
      error: the message of the program if it cannot be traced; empty otherwise.
      lines: the source lines with their seconds, the largest difference first.
      memory: the memory by purpose, the largest difference first.
      uneven: a sentence for each axis whose size does not divide over its mesh axes.
    """

    name: str
    machine: Machine
    limit: float
    axis_resources: dict[Hashable, Any]
    mesh: dict[str, int]
    best: Candidate
    candidate: Candidate | None
    error: str = ""
    lines: tuple[LineChange, ...] = ()
    memory: tuple[MemoryChange, ...] = ()
    uneven: tuple[str, ...] = ()

    @property
    def is_best(self) -> bool:
        """True if it is the best layout."""
        return self.candidate is self.best

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in a few sentences."""
        return tuple(_sentences(self))

    def __str__(self) -> str:
        return _text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html(self)


# --- making an explanation ------------------------------------------------------------------------


def explain_why(
    plan: Facts,
    axis_resources: Mapping[Hashable, Any],
    settings: Mapping[str, Any],
    mesh: Mesh | AbstractMesh | Mapping[str, int] | None,
) -> Why:
    """Compare a layout with the best one; see `Plan.why`.

    `settings` has the other arguments of `nx.xmap` by name; `None` is that of a candidate.
    """
    best = plan.candidates[0]
    resources = {} if axis_resources is None else axis_resources
    sizes = _mesh(best, mesh)
    _check(plan, resources, sizes)
    resources = dict(resources)
    found = [
        one
        for one in plan.candidates
        if one.mesh == sizes
        and _entries(one.axis_resources) == _entries(resources)
        and one.settings.has(settings)
    ]
    error = ""
    one = min(found, key=lambda c: (c is not best, not c.fits, c.time)) if found else None
    if one is None:
        one, error = _judged(plan, resources, sizes, best.settings.changed(settings))
    known = (plan.name, plan.machine, plan.memory, resources, sizes, best, one, error)
    uneven = tuple(_uneven(resources, sizes, plan.sizes))
    if one is None or one is best:
        return Why(*known, uneven=uneven)
    return Why(
        *known,
        tuple(_lines(best, one, plan.machine)),
        tuple(_memory(best, one, plan.arguments, plan.sizes)),
        uneven,
    )


def _mesh(best: Candidate, mesh: Mesh | AbstractMesh | Mapping[str, int] | None) -> dict[str, int]:
    """Return the sizes of the mesh axes.

    Raises:
      ArgumentTypeError: `mesh` is neither a mesh nor a dict of sizes.
      MeshError: it has another number of devices.
    """
    if mesh is None:
        return dict(best.mesh)
    sizes: Any = mesh.shape if isinstance(mesh, (Mesh, AbstractMesh)) else mesh
    if not isinstance(sizes, Mapping) or not all(
        isinstance(axis, str) and isinstance(n, int) and n >= 1 for axis, n in sizes.items()
    ):
        raise ArgumentTypeError(
            f"Plan.why: mesh={mesh!r} is neither a mesh nor a dict of the sizes of its axes. Pass a"
            f" mesh, or sizes such as {best.mesh}."
        )
    count, wanted = math.prod(sizes.values()), math.prod(best.mesh.values())
    if count != wanted:
        raise MeshError(
            f"Plan.why: mesh={dict(sizes)} has {count} devices, but the plan is for {wanted}. Pass"
            f" sizes with the product {wanted}."
        )
    return dict(sizes)


def _check(plan: Facts, resources: Mapping[Hashable, Any], mesh: Mapping[str, int]) -> None:
    """Check the names and mesh axes of a layout.

    Raises:
      AxisResourceError: it is not a dict from axis names to mesh axes.
      ArgumentError: the program has no such name.
      MeshError: the mesh has no such axis.
    """
    for name, axes in parse_resources(resources, "Plan.why").items():
        if name not in plan.sizes:
            raise ArgumentError(
                f"Plan.why: the program has no axis {name!r} to map. Choose from"
                f" {show_names(sorted(plan.sizes, key=str))}.{did_you_mean(name, plan.sizes)}"
            )
        for axis in axes:
            if type(axis) is str and axis not in mesh:  # the axis of a loop is a subclass
                raise MeshError(
                    f"Plan.why: axis_resources maps {name!r} to {axis!r}, but the mesh has the axes"
                    f" {', '.join(f'{a}={n}' for a, n in mesh.items())}. Choose one of them, or"
                    f" pass mesh=.{did_you_mean(axis, mesh)}"
                )


def _entries(resources: Mapping[Hashable, Any]) -> dict[Hashable, tuple[Any, ...]]:
    """Return a layout in one form: tuples, without names that are not mapped."""
    tuples = {
        name: entry if isinstance(entry, tuple) else () if entry is None else (entry,)
        for name, entry in resources.items()
    }
    return {name: entry for name, entry in tuples.items() if entry}


def _judged(
    plan: Facts, resources: dict[Hashable, Any], mesh: dict[str, int], settings: Settings
) -> tuple[Candidate | None, str]:
    """Return the candidate of a layout, or the reason why the program does not allow it.

    Raises:
      ArgumentError: the plan was read from a file, so it cannot trace the program.
      MeshError: the mesh does not fit on the machine.
    """
    if plan.again is None:
        for refused, message in plan.refused:
            if _entries(refused) == _entries(resources):
                return None, message
        raise ArgumentError(
            f"Plan.why: {resources_text(resources)} is not among the candidates, and a plan that"
            " was read from a file cannot trace the program. Call nx.plan again, or choose from the"
            f" {len(plan.candidates)} layouts of plan.candidates."
        )
    plan.machine.layout(mesh)  # an error of the machine is not one of the layout
    try:
        best = plan.candidates[0]
        options = [{}, best.options] if best.options else [{}]
        return plan.again.judged(resources, mesh, settings, options, best.report.files), ""
    except (NamedaxError, NotImplementedError, TypeError, ValueError) as error:
        return None, str(error)


def _uneven(
    resources: Mapping[Hashable, Any], mesh: Mapping[str, int], sizes: Mapping[Hashable, int]
) -> Iterator[str]:
    """Yield a sentence for each name whose size does not divide over its mesh axes."""
    for name, axes in _entries(resources).items():
        count = math.prod(mesh[axis] for axis in axes if isinstance(axis, str))
        size = sizes[name]
        if count > 1 and size % count:
            block = -(-size // count)
            used = -(-size // block)
            empty = f", and {count - used} devices have only padding" if used < count else ""
            yield (
                f"The {size} elements of {name!r} do not divide over {count} devices: each device"
                f" computes a block of {block}, {block * count - size} elements are padding{empty}."
            )


def _lines(best: Candidate, other: Candidate, machine: Machine) -> Iterator[LineChange]:
    """Yield the lines of both layouts, the largest difference first."""
    found = [
        LineChange(
            line,
            source_line(other.report, line) or source_line(best.report, line),
            before,
            after,
        )
        for line, (before, after) in best.report.diff(other.report).times(machine).items()
    ]
    # The lines are timed one step after the other; communication that overlaps takes no time.
    hidden = [
        one.time - sum(getattr(change, which).total for change in found)
        for one, which in ((best, "best"), (other, "other"))
    ]
    if any(abs(seconds) > 1e-9 * max(best.time, other.time) for seconds in hidden):
        before, after = (LineTimes(communication=seconds) for seconds in hidden)
        found.append(LineChange("overlap", "", before, after))
    yield from sorted(found, key=lambda change: -abs(change.difference))


def _memory(
    best: Candidate,
    other: Candidate,
    arguments: Sequence[Held],
    sizes: Mapping[Hashable, int],
) -> Iterator[MemoryChange]:
    """Yield the memory of both layouts by purpose, the largest difference first."""
    found: dict[str, list[int]] = {}

    def add(what: str, which: int, size: int) -> None:
        if size > 0:
            found.setdefault(what, [0, 0])[which] += size

    for which, one in enumerate((best, other)):
        memory = one.report.memory
        entries = _entries(one.axis_resources)
        known = 0
        # Arguments of several mapped functions may be intermediate values of the program.
        for held in () if one.layouts else arguments:
            parts = 1
            for dim in (dim for dim in held.dims if dim is not None):
                axes = entries.get(dim, ())
                count = math.prod(one.mesh[axis] for axis in axes if isinstance(axis, str))
                parts *= 1 if sizes.get(dim, 1) % count else count  # uneven ones are replicated
            known += held.bytes // parts
            add(f"argument {held.label}", which, held.bytes // parts)
        add("arguments" if one.layouts else "other arguments", which, memory.arguments - known)
        rest = memory.peak - memory.arguments - memory.results - sum(memory.kept.values())
        add("results", which, memory.results + min(rest, 0))  # some may come after the peak
        for line, size in memory.kept.items():
            add(f"residuals of {line or 'an unknown line'}", which, size)
        add("other values at the peak", which, rest)
    changes = [MemoryChange(what, *pair) for what, pair in found.items()]
    yield from sorted(changes, key=lambda change: (-abs(change.other - change.best), -change.other))


# --- rendering ------------------------------------------------------------------------------------


def _signed(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{seconds_text(abs(seconds))}"


def _time(seconds: float) -> str:
    return seconds_text(seconds) if seconds >= 0 else _signed(seconds)


def _signed_size(size: int) -> str:
    return f"{'+' if size >= 0 else '-'}{size_text(abs(size))}"


def _sentences(why: Why) -> Iterator[str]:
    one, best = why.candidate, why.best
    with_mesh = why.mesh != best.mesh
    if one is None:
        yield f"The program does not allow it. {why.error}"
        yield from why.uneven
        return
    if one is best:
        yield (
            f"It is the best layout: {seconds_text(one.time)}, {size_text(one.peak)} per device."
        )
        return
    of_best = f"the best layout {layout(best, with_mesh)}"
    more = one.time - best.time
    pair = f"{seconds_text(one.time)} against {seconds_text(best.time)}"
    if abs(more) <= 1e-6 * best.time:
        yield f"It takes as long as {of_best}: {seconds_text(one.time)}."
    elif more > 0:
        ratio = one.time / best.time if best.time else math.inf
        much = f"{ratio:.3g} times" if ratio >= 2 else f"{100 * (ratio - 1):.2g} %"
        times = f"{much} as long as" if ratio >= 2 else f"{much} longer than"
        yield f"It takes {_signed(more)[1:]} more than {of_best}: {times} it ({pair})."
    else:
        yield f"It takes {_signed(more)[1:]} less than {of_best} ({pair})."
    if not one.fits:
        over = size_text(int(one.peak - why.limit))
        yield (
            f"It does not fit: it needs {size_text(one.peak)} per device, {over} more than the"
            f" limit of {size_text(int(why.limit))}."
        )
    elif one.peak < best.peak:
        yield f"It needs less memory: {size_text(one.peak)} against {size_text(best.peak)}."
    elif one.peak > best.peak:
        yield f"It needs more memory: {size_text(one.peak)} against {size_text(best.peak)}."
    if best.measured is not None:
        measured = "not measured" if one.measured is None else seconds_text(one.measured)
        yield (
            f"The best layout was measured, {seconds_text(best.measured)}; this one: {measured}."
            " The times of the lines are estimates."
        )
    elif one.fits and more < -1e-6 * best.time:
        yield "The search did not judge it. Call nx.plan with more tries= for a faster layout."
    yield from why.uneven


def _heading(why: Why) -> str:
    mesh = ", ".join(f"{axis}={size}" for axis, size in why.mesh.items()) or "1 device"
    words = (
        resources_text(why.axis_resources)
        if why.candidate is None
        else layout(why.candidate, False)
    )
    return f"Why not {words}? {why.name} on {mesh} of {why.machine.name}"


def _shown(why: Why) -> tuple[list[LineChange], list[LineChange]]:
    """Return the lines of the table, and the others that differ."""
    largest = max((abs(change.difference) for change in why.lines), default=0.0)
    changed = [change for change in why.lines if abs(change.difference) > _SHARE * largest]
    shown = changed[:_ROWS]
    return shown, [change for change in why.lines if change not in shown and change.difference]


def _rest(rest: Sequence[LineChange]) -> str:
    total = sum(change.difference for change in rest)
    return f"… and {len(rest)} more with smaller differences, together {_signed(total)}"


def _memory_rows(why: Why) -> list[MemoryChange]:
    """Return the rows of the table of memory: those that differ, or all if it does not fit."""
    one = why.candidate
    fits = one is None or one.fits
    rows = [change for change in why.memory if not fits or change.best != change.other]
    if not fits:
        rows.sort(key=lambda change: -change.other)
    return rows[:_ROWS]


def _text(why: Why) -> str:
    parts = ["\n".join(textwrap.wrap(_heading(why), columns()))]
    parts.append(
        "\n".join(
            textwrap.fill(sentence, columns(), initial_indent="- ", subsequent_indent="  ")
            for sentence in why.sentences
        )
    )
    shown, rest = _shown(why)
    if shown:
        rows = [f"  {'best':>8}  {'this':>8}  {'more':>9}  line"]
        for change in shown:
            start = (
                f"  {_time(change.best.total):>8}  {_time(change.other.total):>8}"
                f"  {_signed(change.difference):>9}  "
            )
            indent = " " * len(start)
            code = f"{change.line}  {change.code}".rstrip()
            rows.append(start + shortened(code, columns() - len(start)))
            words = change.reason
            rows += textwrap.wrap(words, columns(), initial_indent=indent, subsequent_indent=indent)
        rows += [_rest(rest)] if rest else []
        parts.append("\n".join(rows))
    memory = _memory_rows(why)
    if memory:
        rows = [f"  {'best':>9}  {'this':>9}  memory per device"]
        rows += [
            f"  {size_text(change.best):>9}  {size_text(change.other):>9}  {change.what}"
            for change in memory
        ]
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _html(why: Why) -> str:
    items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in why.sentences)
    parts = [f"<p><b>{escaped(_heading(why))}</b></p><ul>{items}</ul>"]
    shown, rest = _shown(why)
    if shown:
        rows: list[tuple[str, ...]] = [("best", "this", "more", "line", "", "reason")]
        for change in shown:
            rows.append(
                (
                    _time(change.best.total),
                    _time(change.other.total),
                    _signed(change.difference),
                    change.line,
                    change.code,
                    change.reason,
                )
            )
        parts.append(
            details("Lines, largest difference first", html_table(rows, range(3, 6)), True)
        )
        parts += [f"<p>{escaped(_rest(rest))}</p>"] if rest else []
    memory = _memory_rows(why)
    if memory:
        table: list[tuple[str, ...]] = [("best", "this", "memory per device")]
        table += [(size_text(row.best), size_text(row.other), row.what) for row in memory]
        parts.append(details("Memory", html_table(table, {2}), True))
    return enclosed(parts)
