"""The origin of an equation: the user's source line, the operation and its names, and its phase.

JAX stores a traceback and a stack of scopes with every equation. The scopes of namedax are
`nx.xmap{batch:x}` for the body of a mapped function, with the mesh axes of names, and
`nx.dot{hidden}` for an operation, with its names.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jax.extend.core import JaxprEqn

from namedax.core.records import Record
from namedax.core.user_code import first_user_line
from namedax.insight.analysis.records import Phase
from namedax.ops.loops.pipeline_timetable import Schedule
from namedax.programs.evaluator import calls_jax

__all__ = [
    "NOWHERE",
    "Origin",
    "Source",
    "first_of_users",
    "origin_of_name",
    "region_of",
    "source_of",
]

_SCOPE = re.compile(r"nx\.([\w.]+)\{([^{}]*)\}")
_PIPELINE = re.compile(r"pipeline_(\w+?)_of_(\d+)_stages_(\d+)_rounds_(\d+)_microbatches")
_NO_RING = re.compile(r"no_ring_(\w+)\{([^{}]*)\}")
_REGION = "xmap"
_MOST = 8192  # cached stacks of scopes, and tracebacks


class Source(Record):
    """A line of a file."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.path)}:{self.line}" if self.path else ""


NOWHERE = Source("", 0)


class Origin(Record):
    """The origin of an equation.

    Attributes:
      scopes: the stack of scopes around it, as text.
      source: the line of the user's file.
      is_pinned: True if all equations called here belong to this line, for any traceback of their
        own.
    """

    scopes: str = ""
    source: Source = NOWHERE
    is_pinned: bool = False

    @property
    def phase(self) -> Phase:
        """The phase; a recomputation for the gradient counts as gradient."""
        return _parsed(self.scopes)[0]

    @property
    def operation(self) -> str:
        """The operation of the model, such as `nx.mean`; empty if no scope has it."""
        return _parsed(self.scopes)[1]

    @property
    def names(self) -> tuple[str, ...]:
        """The axis names of the operation; for a renaming `new:old`, both."""
        return _parsed(self.scopes)[2]

    @property
    def pipeline(self) -> Schedule | None:
        """The schedule of the surrounding pipeline, if there is one."""
        found = _PIPELINE.findall(self.scopes)
        if not found:
            return None
        name, stages, rounds, microbatches = found[-1]
        return Schedule(int(stages), int(rounds), int(microbatches), name)

    @property
    def no_ring(self) -> tuple[str, tuple[str, ...]] | None:
        """The reason why a contraction does not run as the requested ring, and the names.

        It is `"uneven"` or `"undivided"`.
        """
        found = _NO_RING.findall(self.scopes)
        return (found[-1][0], tuple(found[-1][1].split(","))) if found else None

    def within(self, eqn: JaxprEqn) -> Origin:
        """Return the origin of an equation in a program that has this origin."""
        stack = str(eqn.source_info.name_stack)
        scopes = f"{self.scopes}/{stack}" if stack else self.scopes
        source = self.source if self.is_pinned else source_of(eqn)
        # JAX traces its own jitted functions once: their equations have the traceback of the first
        # caller.
        return Origin(
            scopes, source if source.path else self.source, self.is_pinned or calls_jax(eqn)
        )

    def placements(self) -> Mapping[str, tuple[str, ...]]:
        """Return the mesh axes of each name in the surrounding mapped functions."""
        return region_of(self.scopes)

    def names_on(self, mesh_axes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names that communication over these mesh axes is for.

        These are names of the operation, or else all names that are mapped there.
        """
        placements = self.placements()
        there = [name for name, axes in placements.items() if not set(axes).isdisjoint(mesh_axes)]
        return tuple(name for name in self.names if name in there) or tuple(there)


@functools.lru_cache(maxsize=_MOST)
def _parsed(scopes: str) -> tuple[Phase, str, tuple[str, ...]]:
    """Parse a stack of scopes: the phase, the innermost operation of the model and its names."""
    is_gradient = "transpose(" in scopes or "rematted_computation" in scopes
    phase: Phase = "gradient" if is_gradient else "forward"
    found = [pair for pair in _SCOPE.findall(scopes) if pair[0] != _REGION]
    if not found:
        return phase, "", ()
    operation, inner = found[-1]
    names = (name for pair in inner.split(",") for name in pair.split(":") if name)
    return phase, f"nx.{operation}", tuple(dict.fromkeys(names))


@functools.lru_cache(maxsize=1024)
def region_of(scopes: str) -> Mapping[str, tuple[str, ...]]:
    """Parse the scopes of mapped functions: `nx.xmap{batch:x,hidden:y+z}`."""
    pairs = (
        pair
        for name, inner in _SCOPE.findall(scopes)
        if name == _REGION
        for pair in inner.split(",")
        if pair
    )
    return {
        name: tuple(axes.split("+")) for name, _, axes in (pair.rpartition(":") for pair in pairs)
    }


def source_of(eqn: JaxprEqn) -> Source:
    """Return the innermost line of user code that made an equation."""
    traceback = eqn.source_info.traceback
    return NOWHERE if traceback is None else _source_in(traceback)


# Layers in a Python loop have equal tracebacks, and so have the traces of a plan.
@functools.lru_cache(maxsize=_MOST)
def _source_in(traceback: Any) -> Source:
    frames: Sequence[Any] = traceback.frames
    return first_of_users((frame.file_name, frame.line_num) for frame in frames)


def first_of_users(frames: Iterable[tuple[str, int]]) -> Source:
    """Return the first frame that is user code, of frames as file and line, the innermost first.

    >>> import jax
    >>> from namedax.insight.analysis.sources import first_of_users
    >>> print(first_of_users([(jax.__file__, 7), ("/me/model.py", 12), ("/me/run.py", 3)]))
    model.py:12
    """
    found = first_user_line(frames)
    return NOWHERE if found is None else Source(*found)


def origin_of_name(op_name: str, source: Source = NOWHERE) -> Origin:
    """Return the origin of an instruction of a compiled program.

    Args:
      op_name: the `op_name` of its metadata, which is the stack of scopes and the primitive. XLA
        joins the names of merged instructions with semicolons; the first counts.
      source: its line.

    >>> from namedax.insight.analysis.sources import origin_of_name
    >>> name = "jit(f)/shard_map/nx.xmap{b:x}/transpose(jvp(nx.dot{k}))/dot_general"
    >>> origin = origin_of_name(name)
    >>> origin.operation, origin.names, origin.phase
    ('nx.dot', ('k',), 'gradient')
    """
    return Origin(op_name.partition(";")[0], source)
