"""`plan`: the face. Candidates are judged one after the other, and the best are returned."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, Mesh

from namedax.analysis.records import Collective, Operation
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    NamedaxError,
    PlacementConflictError,
    PlanError,
    did_you_mean,
    show_names,
)
from namedax.hlo import size_text
from namedax.machines import Machine, Times, measure
from namedax.planning.program import Census, Program
from namedax.planning.reasons import advice
from namedax.planning.rendering import resources_text, seconds_text
from namedax.planning.result import Candidate, Plan
from namedax.planning.search import Outcome, search
from namedax.planning.space import Choice, Space
from namedax.planning.timing import measured
from namedax.resources.mesh import any_mesh
from namedax.resources.serial import SerialLoop
from namedax.xmap import Xmapped

__all__ = ["plan"]

# How many layouts are judged at most, on one, two and three mesh axes.
_TRIES = (32, 60, 90)


def plan(
    f: Xmapped,
    *args: Any,
    mesh: Any = None,
    machine: Machine | None = None,
    memory: float | None = None,
    names: Iterable[Hashable] | None = None,
    verify: int = 0,
    progress: bool = True,
    tries: int | None = None,
    loops: Mapping[Hashable, Sequence[int | SerialLoop]] | None = None,
    overlap: Sequence[Any] | None = None,
    **kwargs: Any,
) -> Plan:
    """Finds the assignment of names to mesh axes under which a machine takes the least time, within its memory.

    Each candidate is judged by tracing the program under it on an abstract mesh, as `nx.explain` does: its time is that of the cost
    model of `nx.machines`, its memory the estimated peak of one device. Nothing is compiled or run, unless asked by `verify`, and the mesh
    may be of any size. Which names cannot share a mesh axis follows from the names that meet in one value; mesh axes of equal size and
    link are interchangeable. The search is deterministic.

    The memory is that of `f` alone: if an optimiser's state is held beside it, pass what is left as `memory`, or plan a function that has
    the state among its arguments.

    Args:
      f: a function made by `nx.xmap`: a loss, its `jax.value_and_grad`, a whole training step. Its own `axis_resources` are a candidate.
      *args: its arguments: arrays, named arrays, or `jax.ShapeDtypeStruct`s.
      mesh: a mesh, concrete or abstract; default: that of `f`, or of `jax.set_mesh`.
      machine: of `nx.machines`; default: `nx.machines.measure(mesh)`, if the mesh has devices.
      memory: the bytes that a device may hold; default: all that it has.
      names: which names may be mapped; default: all. Other names are not mapped.
      verify: so many of the best are compiled and timed on the mesh, which must have devices.
      progress: whether a line on standard error says how far it is, if that is a terminal.
      tries: how many layouts are judged at most; default: 32 on one mesh axis, 60 on two, 90 on more. One takes about a second.
      loops: for names that may be executed in steps, in how many, such as `{"batch": [4, 16]}`; see `nx.SerialLoop`.
      overlap: what `overlap` of `nx.xmap` may be, such as `[False, True]`; default: what `f` has.
      **kwargs: keyword arguments of `f`.

    Returns:
      A `Plan`, which prints as a table. `plan.best` is for `axis_resources`.

    Raises:
      ArgumentTypeError: `f` is not a function made by `nx.xmap`.
      ArgumentError: a name that the program does not have, or there is neither a machine nor a mesh with devices.
      MeshError: there is no mesh.
      PlanError: no layout that was judged fits into the memory.

    >>> import jax, namedax as nx
    >>> def loss(w, images):
    ...     return nx.mean(nx.square(nx.dot(images, w, "inputs")), ["batch", "hidden"])
    >>> mesh = jax.sharding.AbstractMesh((8,), ("x",))
    >>> f = nx.xmap(jax.value_and_grad(loss), in_axes=(["inputs", "hidden"], ["batch", "inputs"]), out_axes=({}, ["inputs", "hidden"]))
    >>> shapes = jax.ShapeDtypeStruct((512, 1024), "float32"), jax.ShapeDtypeStruct((1 << 20, 512), "float32")
    >>> nx.plan(f, *shapes, mesh=mesh, machine=nx.machines.v5p).best
    {'batch': 'x'}
    """
    if not isinstance(f, Xmapped):
        raise ArgumentTypeError(
            f"plan: the first argument is a function made by nx.xmap; got {type(f).__name__}. Map what is to be planned: "
            "nx.plan(nx.xmap(jax.value_and_grad(loss)), *args, mesh=mesh)."
        )
    mesh = any_mesh(f._mesh if mesh is None else mesh, "plan")
    if machine is None:
        machine = _measured_machine(mesh)
    if verify and not isinstance(mesh, Mesh):
        raise ArgumentError(
            f"plan: verify={verify} times the best layouts, and the mesh {dict(mesh.shape)} is abstract; leave out verify=."
        )
    bound = float(machine.memory if memory is None else memory)
    program = Program(f, args, kwargs)
    census = program.census()
    sizes = _chosen(census, names, loops)
    overlaps = (f._overlap,) if overlap is None else tuple(overlap)
    space = Space(sizes, dict(mesh.shape), _alike(machine, mesh), census.apart, _loops(loops), overlaps)
    limit = _TRIES[min(max(len(mesh.shape), 1), len(_TRIES)) - 1] if tries is None else tries
    judge = _Judge(program, space, mesh, machine, bound, _Progress(limit) if progress and sys.stderr.isatty() else None)
    own = space.choice_of(f._resources, f._overlap)
    search(space, judge, bound, limit, [own])
    judge.end()
    census = census.replace(apart=frozenset(space.apart))  # and what was learned
    best_first = sorted(judge.candidates, key=lambda one: (not one.fits, one.time if one.fits else one.peak))
    if not best_first or not best_first[0].fits:
        raise PlanError(_nothing_fits(program.name, best_first, bound, dict(mesh.shape), census, judge.refused))
    if verify:
        best_first = _verified(program, best_first, mesh, verify, args, kwargs)
    words = tuple(advice(best_first[0].report, best_first[0].axis_resources, dict(mesh.shape), census))
    return Plan(program.name, machine, bound, tuple(best_first), tuple(judge.refused), words, judge.traces)


# --- what is given ----------------------------------------------------------------------------------------------------


def _measured_machine(mesh: Any) -> Machine:
    if not isinstance(mesh, Mesh):
        raise ArgumentError(
            f"plan: for which machine? The mesh {dict(mesh.shape)} is abstract, so there are no devices to measure. Give machine=, such as "
            "nx.machines.v5p."
        )
    return measure(mesh)


def _chosen(census: Census, names: Iterable[Hashable] | None, loops: Mapping[Hashable, Any] | None) -> dict[Hashable, int]:
    """The names that may be mapped, with their sizes."""
    for name in (*(names or ()), *(loops or {})):
        if name not in census.sizes:
            raise ArgumentError(
                f"plan: the program has no axis {name!r} that could be mapped; its axes are {show_names(sorted(census.sizes, key=str))}."
                f"{did_you_mean(name, census.sizes)}"
            )
    wanted = None if names is None else {*names, *(loops or {})}
    return {name: size for name, size in census.sizes.items() if wanted is None or name in wanted}


def _loops(loops: Mapping[Hashable, Sequence[int | SerialLoop]] | None) -> dict[Hashable, list[SerialLoop]]:
    found: dict[Hashable, list[SerialLoop]] = {}
    for name, numbers in (loops or {}).items():
        asked = [loop if isinstance(loop, SerialLoop) else SerialLoop(loop) for loop in numbers]
        found[name] = [loop for loop in asked if loop.steps > 1]
    return found


def _alike(machine: Machine, mesh: Any) -> dict[str, Hashable]:
    """What the links of each mesh axis have in common with others."""
    together = any(isinstance(axis, tuple) for axis in machine.links)
    over = machine.layout(mesh)
    return {axis: axis if together else repr(over[axis]) for axis in mesh.axis_names}


# --- judging ----------------------------------------------------------------------------------------------------------


class _Judge:
    """Traces the program under one choice after the other, and keeps what was found."""

    def __init__(self, program: Program, space: Space, mesh: Any, machine: Machine, memory: float, progress: _Progress | None):
        self._program, self._space, self._machine, self._memory, self._progress = program, space, machine, memory, progress
        self._mesh = mesh if isinstance(mesh, AbstractMesh) else mesh.abstract_mesh
        self.candidates: list[Candidate] = []
        self.refused: list[tuple[dict[Hashable, Any], str]] = []
        self.traces = 0

    def __call__(self, choice: Choice) -> Outcome | None:
        resources = self._space.resources(choice)
        self.traces += 1
        try:
            report = self._program.explained(resources, self._mesh, choice.overlap)
        except (NamedaxError, NotImplementedError, TypeError, ValueError) as error:
            if not resources:
                raise  # the program itself
            names = error.axes if isinstance(error, PlacementConflictError) else ()
            self._space.learn(choice, names)
            self.refused.append((resources, str(error)))
            return None
        mesh = dict(self._mesh.shape)
        times = self._machine.time(report.steps, mesh)
        candidate = Candidate.of(resources, mesh, choice.overlap, report, self._machine, times, self._memory)
        self.candidates.append(candidate)
        if self._progress is not None:
            self._progress.show(self.candidates)
        return Outcome(
            candidate.time, candidate.peak, report.memory.arguments, _parts(times, Operation), _parts(times, Collective)
        )

    def end(self) -> None:
        """Ends the line of the progress."""
        if self._progress is not None:
            self._progress.end()


def _parts(times: Times, kind: type) -> dict[Hashable, float]:
    """The seconds of what each line of the program computes, or sends."""
    found: dict[Hashable, float] = {}
    for step, start, end in times.schedule:
        if isinstance(step, kind):
            part = (step.source, step.phase)
            found[part] = found.get(part, 0.0) + end - start
    return found


class _Progress:
    """A line on standard error."""

    def __init__(self, most: int):
        self._most, self._began = most, time.perf_counter()

    def show(self, candidates: Sequence[Candidate]) -> None:
        """How far it is, and what is best so far."""
        fitting = [one.time for one in candidates if one.fits]
        best = f"best {seconds_text(min(fitting))}" if fitting else "none fits yet"
        bar = "#" * (20 * len(candidates) // self._most)
        spent = time.perf_counter() - self._began
        line = f"\rplan [{bar:20s}] {len(candidates)} of at most {self._most} layouts, {best}, {spent:.0f} s "
        print(line, end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line."""
        print(file=sys.stderr)


# --- the end ----------------------------------------------------------------------------------------------------------


def _verified(program: Program, best_first: list[Candidate], mesh: Mesh, count: int, args: Any, kwargs: Any) -> list[Candidate]:
    """The candidates, the best of them measured."""
    timed = []
    for one in best_first[:count]:
        if one.fits:
            form = program.under(one.axis_resources, mesh, one.overlap)
            timed.append(dataclasses.replace(one, measured=measured(form, args, kwargs)))
    timed.sort(key=lambda one: one.measured if one.measured is not None else one.time)
    return [*timed, *best_first[len(timed) :]]


def _nothing_fits(
    name: str,
    candidates: Sequence[Candidate],
    memory: float,
    mesh: Mapping[str, int],
    census: Census,
    refused: Collection[Any],
) -> str:
    devices = ", ".join(f"{axis}={size}" for axis, size in mesh.items())
    if not candidates:
        return f"plan: no layout of {name} on {devices} could be traced; {len(refused)} were refused, the last with: {list(refused)[-1][1]}"
    least = candidates[0]
    second = next(advice(least.report, least.axis_resources, mesh, census), "")
    return (
        f"plan: none of {len(candidates)} layouts of {name} on {devices} fits into {size_text(int(memory))} for each device; the one that holds "
        f"least needs {size_text(least.peak)}, with {resources_text(least.axis_resources)}. Take more devices, execute an axis in steps "
        f"(loops={{'batch': [4, 16]}}), compute layers again in the gradient (jax.checkpoint), or raise memory=. {second}".rstrip()
    )
