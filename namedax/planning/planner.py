"""`plan`: the face. Candidates are judged one after the other, and the best are returned."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from namedax.analysis.records import Collective, Operation
from namedax.core.call_errors import checks_signature
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
from namedax.machines import Machine, Times
from namedax.machines.links import positive
from namedax.planning.meshes import Meshes, meshes_for
from namedax.planning.program import Census, Program
from namedax.planning.reasons import advice, uneven_advice
from namedax.planning.rendering import resources_text, seconds_text
from namedax.planning.result import Candidate, Plan
from namedax.planning.search import Outcome, search
from namedax.planning.space import Choice, Space
from namedax.planning.timing import measured
from namedax.resources.serial import SerialLoop
from namedax.xmap import Xmapped

__all__ = ["plan"]

# How many layouts are judged at most, on one, two and three mesh axes, and where the shape of the mesh is chosen too.
_TRIES, _TRIES_OF_SHAPES = (32, 60, 90), 120


@checks_signature
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
    uneven: Iterable[Hashable] = (),
    **kwargs: Any,
) -> Plan:
    """Finds the assignment of names to mesh axes under which a machine takes the least time, within its memory.

    Each candidate is judged by tracing the program under it on an abstract mesh, as `nx.explain` does: its time is that of the cost
    model of `nx.machines`, its memory the estimated peak of one device. Nothing is compiled or run, unless asked by `verify`, and the mesh
    may be of any size. Which names cannot share a mesh axis follows from the names that meet in one value; mesh axes of equal size and
    link are interchangeable. The search is deterministic.

    With a number of devices as `mesh` the shapes of a mesh of one, two and three axes are tried too, as far as the machine tells them
    apart: `plan.mesh` says the sizes. The mesh axes are called as those of `f`, of its `axis_resources`, or of the machine's links, and
    otherwise `x`, `y` and `z`.

    The memory is that of `f` alone: if an optimiser's state is held beside it, pass what is left as `memory`, or plan a function that has
    the state among its arguments.

    Args:
      f: a function made by `nx.xmap`: a loss, its `jax.value_and_grad`, a whole training step. Its own `axis_resources` are a candidate.
      *args: its arguments: arrays, named arrays, or `jax.ShapeDtypeStruct`s.
      mesh: a mesh, concrete or abstract; default: that of `f`, or of `jax.set_mesh`. Or a number of devices, of which meshes with Auto
        axes are made.
      machine: of `nx.machines`; default: `nx.machines.measure(mesh)`, if the mesh has devices; of a number of devices those that are there,
        along one axis, whose link then stands for every mesh axis.
      memory: the bytes that a device may hold; default: all that it has.
      names: which names may be mapped; default: all. Other names are not mapped.
      verify: so many of the best are compiled and timed on the mesh, which must have devices (on the first ones, for a number).
      progress: whether a line on standard error says how far it is, if that is a terminal.
      tries: how many layouts are judged at most; default: 32 on one mesh axis, 60 on two, 90 on more, 120 for a number of devices. One
        takes up to a second.
      loops: for names that may be executed in steps, in how many, such as `{"batch": [4, 16]}`; see `nx.SerialLoop`.
      overlap: what `overlap` of `nx.xmap` may be, such as `[False, True]`; default: what `f` has.
      uneven: names that are tried where their sizes do not divide, too, with blocks of the size with padding. Those that `f` itself has
        there are among them. Other names are tried only where they divide, and `plan.advice` lists what was left out; the steps of
        `loops` need not divide.
      **kwargs: keyword arguments of `f`.

    Returns:
      A `Plan`, which prints as a table. `plan.best` is for `axis_resources`, on a mesh of the sizes `plan.mesh`.

    Raises:
      ArgumentTypeError: `f` is not a function made by `nx.xmap`.
      ArgumentError: a name that the program does not have, an argument that can mean nothing, there is neither a machine nor a mesh with
        devices, or `f` leaves it to XLA what is sent (`partitioning="auto"`).
      MeshError: there is no mesh, or the machine has no room for it.
      PlanError: no layout that was judged fits into the memory.

    >>> import jax, namedax as nx
    >>> def loss(w, images):
    ...     return nx.mean(nx.square(nx.dot(images, w, "inputs")), ["batch", "hidden"])
    >>> mesh = jax.sharding.AbstractMesh((8,), ("x",))
    >>> f = nx.xmap(jax.value_and_grad(loss), in_axes=(["inputs", "hidden"], ["batch", "inputs"]), out_axes=({}, ["inputs", "hidden"]))
    >>> shapes = jax.ShapeDtypeStruct((512, 1024), "float32"), jax.ShapeDtypeStruct((1 << 20, 512), "float32")
    >>> nx.plan(f, *shapes, mesh=mesh, machine=nx.machines.v5p).best
    {'batch': 'x'}
    >>> plan = nx.plan(f, *shapes, mesh=8, machine=nx.machines.v5p)
    >>> plan.mesh, plan.best
    ({'x': 4, 'y': 2}, {'batch': ('x', 'y')})
    """
    _check(f, machine, memory, names, verify, tries, loops, overlap)
    uneven = _several("uneven", uneven)
    meshes = meshes_for(f, mesh, machine, verify)
    bound = float(meshes.machine.memory if memory is None else memory)
    program = Program(f, args, kwargs)
    overlaps = (f._options.overlap,) if overlap is None else tuple(overlap)
    limit = _most(meshes) if tries is None else tries
    with meshes.context():
        census = program.census()
        chosen = _chosen(census, names, loops, uneven)
        space = Space(chosen, meshes.axes, meshes.shapes, census.apart, _loops(loops), overlaps, uneven)
        own = space.choice_of(f._options.axis_resources, f._options.overlap)
        space.uneven |= {name for name, size in chosen.items() if size % space.blocks(own, name)}
        judge = _Judge(program, space, meshes, bound, _Progress(limit) if progress and sys.stderr.isatty() else None)
        search(space, judge, bound, limit, [own])
        judge.end()
        census = census.replace(apart=frozenset(space.apart))  # and what was learned
        best_first = sorted(judge.candidates, key=_rank)
        if not best_first or not best_first[0].fits:
            text = _nothing_fits(program.name, best_first, bound, meshes, census, judge.refused, limit)
            text = " ".join(filter(None, [text, uneven_advice(space.not_dividing(), chosen)]))
            raise PlanError(text)
        if verify:
            best_first = _verified(program, best_first, meshes, verify, args, kwargs)
    words = tuple(advice(best_first[0].report, best_first[0].axis_resources, best_first[0].mesh, census))
    if left_out := uneven_advice(space.not_dividing(), chosen):
        words = (*words, left_out)
    return Plan(program.name, meshes.machine, bound, tuple(best_first), tuple(judge.refused), words, judge.traces)


# --- what is given ----------------------------------------------------------------------------------------------------


def _check(f: Any, machine: Any, memory: Any, names: Any, verify: Any, tries: Any, loops: Any, overlap: Any) -> None:
    """Raises an error that says what to write, unless each of these is something that can be meant."""
    if not isinstance(f, Xmapped):
        raise ArgumentTypeError(
            f"plan: the first argument is a function made by nx.xmap; got {type(f).__name__}. Map what is to be planned: "
            "nx.plan(nx.xmap(jax.value_and_grad(loss)), *args, mesh=mesh)."
        )
    if f._options.partitioning == "auto":
        raise ArgumentError(
            f"plan: {f._name} has partitioning='auto', so what it sends is XLA's choice, which no trace shows. Leave out partitioning=."
        )
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentError(f"plan: machine={machine!r} is not a machine; write nx.machines.v5p, or nx.machines.Machine(...).")
    if memory is not None:
        positive("plan", "memory", memory, "bytes")
    if isinstance(names, str):
        _several("names", names)
    for option, value, least in (("verify", verify, 0), ("tries", 1 if tries is None else tries, 1)):
        if not isinstance(value, int) or value < least:
            raise ArgumentError(f"plan: {option}={value!r} must be an integer from {least}.")
    for name, steps in (loops or {}).items():
        if not isinstance(steps, Sequence):
            raise ArgumentError(
                f"plan: loops={loops!r} must say for each name which numbers of steps are tried: {{{name!r}: [{steps!r}]}}."
            )
    if overlap is not None and (not isinstance(overlap, Sequence) or isinstance(overlap, str) or not overlap):
        raise ArgumentError(f"plan: overlap={overlap!r} must be what is tried; write overlap=[False, True].")


def _several(option: str, names: Iterable[Hashable]) -> tuple[Hashable, ...]:
    if isinstance(names, str):
        raise ArgumentError(f"plan: {option}={names!r} must be several names; write {option}=[{names!r}].")
    return tuple(names)


def _most(meshes: Meshes) -> int:
    """How many layouts are judged at most."""
    if len(meshes.shapes) > 1:
        return _TRIES_OF_SHAPES
    return _TRIES[min(max(len(meshes.axes), 1), len(_TRIES)) - 1]


def _chosen(
    census: Census, names: Iterable[Hashable] | None, loops: Mapping[Hashable, Any] | None, uneven: Iterable[Hashable]
) -> dict[Hashable, int]:
    """The names that may be mapped, with their sizes."""
    names = None if names is None else tuple(names)
    for name in (*(names or ()), *(loops or {}), *uneven):
        if name not in census.sizes:
            raise ArgumentError(
                f"plan: the program has no axis {name!r} that could be mapped; its axes are {show_names(sorted(census.sizes, key=str))}."
                f"{did_you_mean(name, census.sizes)}"
            )
    wanted = None if names is None else {*names, *(loops or {}), *uneven}
    return {name: size for name, size in census.sizes.items() if wanted is None or name in wanted}


def _loops(loops: Mapping[Hashable, Sequence[int | SerialLoop]] | None) -> dict[Hashable, list[SerialLoop]]:
    found: dict[Hashable, list[SerialLoop]] = {}
    for name, numbers in (loops or {}).items():
        asked = [loop if isinstance(loop, SerialLoop) else SerialLoop(loop) for loop in numbers]
        found[name] = [loop for loop in asked if loop.steps > 1]
    return found


# --- judging ----------------------------------------------------------------------------------------------------------


class _Judge:
    """Traces the program under one choice after the other, and keeps what was found."""

    def __init__(self, program: Program, space: Space, meshes: Meshes, memory: float, progress: _Progress | None):
        self._program, self._space, self._meshes, self._memory, self._progress = program, space, meshes, memory, progress
        self.candidates: list[Candidate] = []
        self.refused: list[tuple[dict[Hashable, Any], str]] = []
        self.traces = 0

    def __call__(self, choice: Choice) -> Outcome | None:
        resources = self._space.resources(choice)
        abstract, machine = self._meshes.abstract(choice.sizes), self._meshes.machine
        self.traces += 1
        try:
            report = self._program.explained(resources, abstract, choice.overlap)
        except (NamedaxError, NotImplementedError, TypeError, ValueError) as error:
            if not resources:
                raise  # the program itself
            names = error.axes if isinstance(error, PlacementConflictError) else ()
            self._space.learn(choice, names)
            self.refused.append((resources, str(error)))
            return None
        mesh = dict(abstract.shape)
        times = machine.time(report.steps, mesh)
        candidate = Candidate.of(resources, mesh, choice.overlap, report, machine, times, self._memory)
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


def _verified(
    program: Program, best_first: list[Candidate], meshes: Meshes, count: int, args: Any, kwargs: Any
) -> list[Candidate]:
    """The candidates, the best of them measured."""
    timed = []
    types = None if meshes.given is not None else (program.args, program.kwargs)
    for one in best_first[:count]:
        if one.fits:
            with meshes.concrete(one.mesh) as mesh:
                form = program.under(one.axis_resources, mesh, one.overlap)
                timed.append(dataclasses.replace(one, measured=measured(form, args, kwargs, types)))
    timed.sort(key=lambda one: one.measured if one.measured is not None else one.time)
    return [*timed, *best_first[len(timed) :]]


def _rank(one: Candidate) -> tuple[bool, float, int]:
    """What fits first, then what is fastest, or holds least where it does not fit; of equals the mesh of fewest axes."""
    return not one.fits, one.time if one.fits else one.peak, len(one.mesh)


def _nothing_fits(
    name: str,
    candidates: Sequence[Candidate],
    memory: float,
    meshes: Meshes,
    census: Census,
    refused: Collection[Any],
    limit: int,
) -> str:
    if not candidates:
        return f"plan: no layout of {name} on {meshes.text} could be traced; {len(refused)} were refused, the last with: {list(refused)[-1][1]}"
    least = candidates[0]
    second = next(advice(least.report, least.axis_resources, least.mesh, census), "")
    more = f"Judge more layouts than {limit} (tries=), take" if len(candidates) + len(refused) >= limit else "Take"
    return (
        f"plan: none of {len(candidates)} layouts of {name} on {meshes.text} fits into {size_text(int(memory))} for each device; the one that holds "
        f"least needs {size_text(least.peak)}, with {resources_text(least.axis_resources)}. {more} more devices, execute an axis in steps "
        f"(loops={{'batch': [4, 16]}}), compute layers again in the gradient (jax.checkpoint), or raise memory=. {second}".rstrip()
    )
