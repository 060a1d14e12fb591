"""Tables of the figures of a machine, as text and as HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from namedax.core.records import Record
from namedax.core.text_tables import aligned, seconds_text
from namedax.machines.links import Link

__all__ = ["as_html", "as_text"]


class _Machine(Protocol):
    """The figures of a `Machine`, whose module imports this one."""

    @property
    def name(self) -> str: ...
    @property
    def memory(self) -> float: ...
    @property
    def bandwidth(self) -> float: ...
    @property
    def memory_efficiency(self) -> float: ...
    @property
    def launch(self) -> float: ...
    @property
    def overlap(self) -> bool: ...
    @property
    def flops(self) -> Mapping[str, float]: ...
    @property
    def links(self) -> Mapping[Any, Link]: ...
    @property
    def sources(self) -> tuple[str, ...]: ...

    def rate(self, dtype: str) -> float:
        """Return the operations per second that products reach."""


class _Section(Record):
    """A part of the table: its title, and rows of cells."""

    title: str
    rows: list[tuple[str, ...]]


def as_text(machine: _Machine) -> str:
    """Return a table of the figures, one section after the other."""
    lines = [_title(machine)]
    for section in _sections(machine):
        lines.append(f"{section.title}:")
        lines += aligned(section.rows, indent="  ")
    return "\n".join(lines)


def as_html(machine: _Machine) -> str:
    """Return the same table in HTML, without colors, so that it is legible in every theme."""
    parts = [f"<table><caption>{html.escape(_title(machine))}</caption>"]
    for section in _sections(machine):
        count = max(map(len, section.rows))
        parts.append(
            f'<tbody><tr><th colspan="{count}" scope="rowgroup" style="text-align:left">'
            f"{html.escape(section.title)}</th></tr>"
        )
        for row in section.rows:
            cells = "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row)
            parts.append(f"<tr>{cells}</tr>")
        parts.append("</tbody>")
    return "".join([*parts, "</table>"])


def _title(machine: _Machine) -> str:
    text = f"{machine.name}: {_memory(machine.memory)} at {_quantity(machine.bandwidth, 'B/s')}"
    if machine.memory_efficiency != 1:
        text += f" ({_percent(machine.memory_efficiency)} of it in estimates)"
    if machine.launch:
        text += f"; an operation starts in {seconds_text(machine.launch)}"
    return text + ("; communication overlaps with computation" if machine.overlap else "")


def _sections(machine: _Machine) -> Iterator[_Section]:
    peaks: list[tuple[str, ...]] = [
        (dtype, _quantity(peak, "FLOP/s"), _percent(machine.rate(dtype) / peak))
        for dtype, peak in machine.flops.items()
    ]
    yield _Section("peak operations per second, and the part that estimates use", peaks)
    links = [
        row
        for key, link in machine.links.items()
        for row in _link_rows("all axes" if key is ... else _axes(key), link)
    ]
    if links:
        yield _Section("links of mesh axes for each device, and the part that estimates use", links)
    if machine.sources:
        yield _Section("sources", [(text,) for text in machine.sources])


def _axes(key: object) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _link_rows(name: str, link: Link) -> Iterator[tuple[str, ...]]:
    for depth, one in enumerate(_outwards(link)):
        parts = sorted({part for _, part in one.by_size} or {1.0})
        reached = " to ".join(map(_percent, parts[:: max(1, len(parts) - 1)]))
        waits = f"{seconds_text(one.latency)} latency"
        if one.start:
            waits += f", {seconds_text(one.start)} to start"
        yield (
            "  " * depth + (name if not depth else "beyond"),
            one.kind,
            _quantity(one.bandwidth, "B/s"),
            reached,
            waits,
            f"{one.reach or 'any number of'} {'groups' if depth else 'devices'}",
        )


def _outwards(link: Link) -> Iterator[Link]:
    now: Link | None = link
    while now is not None:
        yield now
        now = now.beyond


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def _memory(value: float) -> str:
    if value % 2**30 == 0 and value % 10**9:
        return f"{value / 2**30:g} GiB"
    return _quantity(value, "B")


def _quantity(value: float, unit: str) -> str:
    power = min(5, max(0, math.floor(math.log10(value) / 3 + 1e-12)))
    return f"{value / 1000**power:.4g} {('', 'k', 'M', 'G', 'T', 'P')[power]}{unit}"
