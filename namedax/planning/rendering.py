"""Rendering of a plan as text of 100 columns."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Mapping
from typing import Any

from namedax.hlo import size_text

__all__ = ["candidate", "layout", "resources_text", "seconds_text", "several_meshes", "text"]

_WIDTH = 100
_ROWS = 12  # the maximum number of rows of the front


def seconds_text(seconds: float) -> str:
    """Return a time as text, such as `1.23 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns"


def resources_text(axis_resources: Mapping[Hashable, Any]) -> str:
    """Return `axis_resources` as code."""
    return repr(dict(axis_resources))


def candidate(one: Any) -> str:
    """Render a candidate in one line."""
    measured = f", measured {seconds_text(one.measured)}" if one.measured is not None else ""
    beyond = "" if one.fits else ", over the memory limit"
    overlap = f", overlap={one.overlap!r}" if one.overlap else ""
    return (
        f"Candidate({resources_text(one.axis_resources)}{overlap}: {seconds_text(one.time)}{measured}, "
        f"{size_text(one.peak)}{beyond})"
    )


def text(plan: Any) -> str:
    """Render a plan: the best candidate, the front with a reason for each, and advice."""
    front = plan.front
    shown = list(front[:_ROWS])
    if plan.candidates[0] not in shown:  # measured as the best, though another was expected to be
        shown.insert(0, plan.candidates[0])
    lines = [*_title(plan, len(front)), ""]
    verified = any(one.measured is not None for one in plan.candidates)
    head = f"  {'time':>8}  {'measured':>8}  {'holds':>9}  " if verified else f"  {'time':>8}  {'holds':>9}  "
    lines.append(f"{head}axis_resources")
    for one in shown:
        lines += _row(one, one is plan.candidates[0], verified, several_meshes(plan))
    if len(front) > len(shown):
        lines.append(f"… and {len(front) - len(shown)} more that use less memory and take longer")
    for sentence in plan.advice:
        lines += ["", textwrap.fill(sentence, _WIDTH, initial_indent="- ", subsequent_indent="  ")]
    return "\n".join(lines)


def several_meshes(plan: Any) -> bool:
    """Return True if the shape of the mesh was chosen too."""
    return len({tuple(one.mesh.items()) for one in plan.candidates}) > 1


def layout(one: Any, with_mesh: bool) -> str:
    """Return the chosen layout as text, with the mesh if that is chosen too."""
    words = resources_text(one.axis_resources)
    if one.overlap:
        words += f" with overlap={one.overlap!r}"
    return f"{_mesh(one)}: {words}" if with_mesh else words


def _mesh(one: Any) -> str:
    return ", ".join(f"{axis}={size}" for axis, size in one.mesh.items()) or "1 device"


def _title(plan: Any, on_front: int) -> list[str]:
    meshes = dict.fromkeys(map(_mesh, plan.candidates))
    count = math.prod(plan.mesh.values())
    mesh = next(iter(meshes)) if len(meshes) == 1 else f"{count} devices in {len(meshes)} meshes"
    fitting = sum(one.fits for one in plan.candidates)
    words = (
        f"Layouts of {plan.name} on {mesh} of {plan.machine.name}: {len(plan.candidates)} judged, of which {fitting} fit into "
        f"{size_text(int(plan.memory))} per device, and {on_front} are on the Pareto front of time and memory"
    )
    return textwrap.wrap(words, _WIDTH)


def _row(one: Any, is_best: bool, verified: bool, with_mesh: bool) -> list[str]:
    times = f"{seconds_text(one.time):>8}  "
    if verified:
        times += f"{'' if one.measured is None else seconds_text(one.measured):>8}  "
    start = f"{'*' if is_best else ' '} {times}{size_text(one.peak):>9}  "
    words = layout(one, with_mesh)
    indent = " " * len(start)
    first = textwrap.wrap(words, _WIDTH, initial_indent=start, subsequent_indent=indent)
    return [*first, *textwrap.wrap(one.reason, _WIDTH, initial_indent=indent, subsequent_indent=indent)]
