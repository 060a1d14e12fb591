"""The public function `plan`: it judges candidates one after the other, and returns the best."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import time
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from namedax.analysis.records import Collective, Operation
from namedax.core.call_errors import checks_signature
from namedax.core.names import Mesh, PyTree
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
from namedax.ops.contraction.rings import Overlap
from namedax.ops.loops.pipeline_options import choosing
from namedax.planning.bound import Bound
from namedax.planning.fixed_names import (
    check_fixed,
    check_sizes,
    conflict,
    fixed_axes,
    parse_fixed,
)
from namedax.planning.meshes import Meshes, meshes_for
from namedax.planning.pipelines import with_schedules
from namedax.planning.program import Census, Program
from namedax.planning.result import (
    Candidate,
    Plan,
    advice,
    resources_text,
    seconds_text,
    uneven_advice,
)
from namedax.planning.search import Found, Outcome, search
from namedax.planning.space import Choice, Space
from namedax.resources.serial import SerialLoop
from namedax.xmap.mapped_function import Xmapped, dynamic_arguments

__all__ = ["measured", "plan"]


_RUNS, _ENOUGH = 8, 0.5


def measured(
    form: Xmapped,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    types: tuple[Sequence[PyTree], Mapping[str, PyTree]] | None = None,
) -> float:
    """Return the seconds of a compiled step with placed arguments: the minimum of several runs.

    The minimum is used because other programs on the machine can only increase the time.

    Args:
      form: the mapped function; its mesh has devices.
      args: arrays or types; types are replaced by arrays of ones.
      kwargs: keyword arguments, with the same rule.
      types: the types of the arguments and keyword arguments, if those of `args` and `kwargs`
        belong to another mesh. Default: `None`.
    """
    positional, keyword = types or (args, kwargs)
    compiled = form.lower(*positional, **keyword).compile()
    given = jax.tree.map(_array, dynamic_arguments(form, args, kwargs))
    leaves, tree = jax.tree.flatten(given)
    placed = jax.tree.unflatten(
        tree, jax.device_put(leaves, jax.tree.leaves(compiled.input_shardings))
    )
    times: list[float] = []
    jax.block_until_ready(compiled(*placed[0], **placed[1]))
    while len(times) < _RUNS or (sum(times) < _ENOUGH and len(times) < 100):
        began = time.perf_counter()
        jax.block_until_ready(compiled(*placed[0], **placed[1]))
        times.append(time.perf_counter() - began)
    return min(times)


def _array(leaf: PyTree) -> PyTree:
    return jnp.ones(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf


# The maximum number of layouts to judge, on one, two and three mesh axes, and if the shape of the
# mesh is chosen too.
_TRIES, _TRIES_OF_SHAPES = (32, 60, 90), 120


@checks_signature
def plan(
    f: Xmapped,
    *args: PyTree,
    mesh: Mesh | int | None = None,
    machine: Machine | None = None,
    memory: float | None = None,
    names: Iterable[Hashable] | None = None,
    verify: int = 0,
    progress: bool = True,
    tries: int | None = None,
    loops: Mapping[Hashable, Sequence[int | SerialLoop]] | None = None,
    overlap: Sequence[Overlap] | None = None,
    uneven: Iterable[Hashable] = (),
    fixed: Mapping[Hashable, Any] | None = None,
    **kwargs: PyTree,
) -> Plan:
    """Find the `axis_resources` with the shortest estimated step time on a machine.

    The layout fits into the memory of the machine.

    Each candidate is judged by a trace under that layout on an abstract mesh, as in `nx.explain`.
    Its time is that of the cost model of `nx.machines`, and its memory is the estimated peak of one
    device. Nothing is compiled or run, except with `verify`, and the mesh may be of any size. Two
    names cannot share a mesh axis if they occur in one value. Mesh axes of equal size and link are
    interchangeable. The search is deterministic.

    With a number of devices as `mesh`, shapes of a mesh with one, two and three axes are also
    tried, if they differ on the machine. `plan.mesh` has the sizes. The names of the mesh axes are
    those of `f`, of its `axis_resources`, or of the machine's links, and otherwise `x`, `y` and
    `z`.

    The memory is that of `f` alone. If the state of an optimizer is also stored, pass the remaining
    memory as `memory`, or plan a function that takes the state as an argument.

    Args:
      f: a function made by `nx.xmap`: a loss, its `jax.value_and_grad`, a whole training step. Its
        own `axis_resources` are a candidate.
      *args: its arguments: arrays, named arrays, or `jax.ShapeDtypeStruct`s.
      mesh: a mesh, concrete or abstract; default: that of `f`, or of `jax.set_mesh`. Or a number of
        devices, of which meshes with Auto axes are made.
      machine: a machine of `nx.machines`; default: `nx.machines.measure(mesh)`, if the mesh has
        devices. For a number of devices, the available devices are measured along one axis, and
        every mesh axis gets the link of that axis.
      memory: the memory limit of a device in bytes; default: all memory of the machine.
      names: the names that may be mapped; default: all. Other names are not mapped.
      verify: the number of best layouts to compile and time on the mesh, which must have devices;
        for a number of devices, on the first ones. Default: 0.
      progress: whether to show a progress line on standard error, if that is a terminal; default:
        True.
      tries: the maximum number of layouts to judge; default: 32 on one mesh axis, 60 on two, 90 on
        more, 120 for a number of devices. One takes up to a second. If it suffices for all layouts
        of the space, they are all judged, so that the best one is exact.
      loops: numbers of steps for names that may be executed in steps, such as `{"batch": [4, 16]}`;
        see `nx.SerialLoop`. Default: none.
      overlap: values to try for `overlap` of `nx.xmap`, such as `[False, True]`; default: the value
        of `f`.
      uneven: names that are also tried with sizes that do not divide, in padded blocks. Such names
        in the layout of `f` itself are included. Other names are tried only if they divide, and
        `plan.advice` lists the omitted ones. The steps of `loops` need not divide. Default: none.
      fixed: names with a given mapping, such as `{"batch": "data", "vocab": None}`: a mesh axis, a
        tuple of mesh axes, an `nx.SerialLoop`, or `None` for a name that must not be mapped. All
        layouts of the search have it. Default: none.
      **kwargs: keyword arguments of `f`.

    A program that calls `nx.pipeline` without `microbatches`, `schedule` or `interleave` leaves
    them open. The fastest and the smallest layouts with such a pipeline over devices are also
    judged with other values. `plan.pipeline` has those of the best candidate, as arguments for
    `nx.pipeline`.

    Returns:
      A `Plan`, which prints as a table. `plan.best` is the value for `axis_resources`, on a mesh of
      the sizes `plan.mesh`. No layout of the searched space that fits takes less than `plan.bound`
      seconds on the machine, and `plan.gap` compares the best layout with that.

    Raises:
      ArgumentTypeError: `f` is not a function made by `nx.xmap`.
      ArgumentError: the program lacks a name, an argument is invalid, two fixed names cannot share
        a mesh axis, there is neither a machine nor a mesh with devices, or `f` leaves the
        communication to XLA (`partitioning="auto"`).
      MeshError: there is no mesh, or the mesh does not fit on the machine.
      PlanError: no layout that was judged fits into the memory.

    >>> import jax, namedax as nx
    >>> def loss(w, images):
    ...     return nx.mean(nx.square(nx.dot(images, w, "inputs")), ["batch", "hidden"])
    >>> mesh = jax.sharding.AbstractMesh((8,), ("x",))
    >>> f = nx.xmap(jax.value_and_grad(loss), in_axes=(["inputs", "hidden"], ["batch", "inputs"]),
    ...             out_axes=({}, ["inputs", "hidden"]))
    >>> shapes = (jax.ShapeDtypeStruct((512, 1024), "float32"),
    ...           jax.ShapeDtypeStruct((1 << 20, 512), "float32"))
    >>> nx.plan(f, *shapes, mesh=mesh, machine=nx.machines.v5p).best
    {'batch': 'x'}
    >>> plan = nx.plan(f, *shapes, mesh=8, machine=nx.machines.v5p)
    >>> plan.mesh, plan.best
    ({'x': 4, 'y': 2}, {'batch': ('x', 'y')})
    """
    _check(f, machine, memory, names, verify, tries, loops, overlap)
    uneven = _several("uneven", uneven)
    pins = parse_fixed(fixed)
    meshes = meshes_for(f, mesh, machine, verify, fixed_axes(pins))
    bound = float(meshes.machine.memory if memory is None else memory)
    program = Program(f, args, kwargs)
    overlaps = (f._options.overlap,) if overlap is None else tuple(overlap)
    limit = _most(meshes) if tries is None else tries
    with meshes.context():
        census = program.census()
        check_fixed(pins, census.sizes, meshes.axes, names, loops or {}, census.apart)
        chosen = _chosen(census, names, loops, uneven)
        pins = {name: pin for name, pin in pins.items() if name in chosen}
        space = Space(
            chosen, meshes.axes, meshes.shapes, census.apart, _loops(loops), overlaps, uneven, pins
        )
        own = space.canonical(space.choice_of(f._options.axis_resources, f._options.overlap))
        space.uneven |= {name for name, size in chosen.items() if size % space.blocks(own, name)}
        check_sizes(space)
        judge = _Judge(
            program,
            space,
            meshes,
            bound,
            Bound(space, meshes.machine, census.arguments, bound, census.reordered),
            _Progress(limit) if progress and sys.stderr.isatty() else None,
        )
        found = search(space, judge, bound, limit, [own], judge.left_open, tries)
        if limit > len(chosen):
            judge.probe()
        judge.end()
        census = census.replace(
            apart=frozenset(space.apart)
        )  # including the pairs learned in the search
        judge.candidates += with_schedules(judge.candidates, judge.again, _rank)
        best_first = sorted(judge.candidates, key=_rank)
        if not best_first or not best_first[0].fits:
            text = _nothing_fits(
                program.name, best_first, bound, meshes, census, judge.rejected, limit
            )
            text = " ".join(filter(None, [text, uneven_advice(space.not_dividing(), chosen)]))
            raise PlanError(text)
        least = judge.bound(found)
        if verify:
            best_first = _verified(program, best_first, meshes, verify, args, kwargs)
    words = tuple(
        advice(best_first[0].report, best_first[0].axis_resources, best_first[0].mesh, census)
    )
    if left_out := uneven_advice(space.not_dividing(), chosen):
        words = (*words, left_out)
    return Plan(
        program.name,
        meshes.machine,
        bound,
        tuple(best_first),
        tuple(judge.rejected),
        words,
        judge.traces,
        bound=least,
        ended="tries" if found.reached else "converged",
    )


def _check(
    f: object,
    machine: object,
    memory: object,
    names: object,
    verify: object,
    tries: object,
    loops: Mapping[Hashable, object] | None,
    overlap: object,
) -> None:
    """Raise an error with a remedy unless each of these arguments is valid."""
    if not isinstance(f, Xmapped):
        raise ArgumentTypeError(
            f"plan: the first argument must be a function made by nx.xmap; got {type(f).__name__}."
            " Map the function first: nx.plan(nx.xmap(jax.value_and_grad(loss)), *args,"
            " mesh=mesh)."
        )
    if f._options.partitioning == "auto":
        raise ArgumentError(
            f"plan: {f._name} has partitioning='auto', so XLA chooses its communication, which no"
            " trace shows. Remove partitioning=."
        )
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentError(
            f"plan: machine={machine!r} is not a machine. Use nx.machines.v5p, or"
            " nx.machines.Machine(...)."
        )
    if memory is not None:
        positive("plan", "memory", memory, "bytes")
    if isinstance(names, str):
        _several("names", names)
    for option, value, least in (
        ("verify", verify, 0),
        ("tries", 1 if tries is None else tries, 1),
    ):
        if not isinstance(value, int) or value < least:
            raise ArgumentError(f"plan: {option}={value!r} must be an integer from {least}.")
    for name, steps in (loops or {}).items():
        if not isinstance(steps, Sequence):
            raise ArgumentError(
                f"plan: loops={loops!r} must map each name to a list of numbers of steps. Use"
                f" loops={{{name!r}: [{steps!r}]}}."
            )
    if overlap is not None and (
        not isinstance(overlap, Sequence) or isinstance(overlap, str) or not overlap
    ):
        raise ArgumentError(
            f"plan: overlap={overlap!r} must be a list of values to try. Use overlap=[False, True]."
        )


def _several(option: str, names: Iterable[Hashable]) -> tuple[Hashable, ...]:
    if isinstance(names, str):
        raise ArgumentError(
            f"plan: {option}={names!r} must be a list of names. Use {option}=[{names!r}]."
        )
    return tuple(names)


def _most(meshes: Meshes) -> int:
    """Return the maximum number of layouts to judge."""
    if len(meshes.shapes) > 1:
        return _TRIES_OF_SHAPES
    return _TRIES[min(max(len(meshes.axes), 1), len(_TRIES)) - 1]


def _chosen(
    census: Census,
    names: Iterable[Hashable] | None,
    loops: Mapping[Hashable, object] | None,
    uneven: Iterable[Hashable],
) -> dict[Hashable, int]:
    """Return the names that may be mapped, with their sizes."""
    names = None if names is None else tuple(names)
    for name in (*(names or ()), *(loops or {}), *uneven):
        if name not in census.sizes:
            raise ArgumentError(
                f"plan: the program has no axis {name!r} to map. Choose from"
                f" {show_names(sorted(census.sizes, key=str))}.{did_you_mean(name, census.sizes)}"
            )
    wanted = None if names is None else {*names, *(loops or {}), *uneven}
    return {name: size for name, size in census.sizes.items() if wanted is None or name in wanted}


def _loops(
    loops: Mapping[Hashable, Sequence[int | SerialLoop]] | None,
) -> dict[Hashable, list[SerialLoop]]:
    found: dict[Hashable, list[SerialLoop]] = {}
    for name, numbers in (loops or {}).items():
        parsed = [loop if isinstance(loop, SerialLoop) else SerialLoop(loop) for loop in numbers]
        found[name] = [loop for loop in parsed if loop.steps > 1]
    return found


class _Judge:
    """Judge of choices: it traces the program under each of them, and records the results."""

    def __init__(
        self,
        program: Program,
        space: Space,
        meshes: Meshes,
        memory: float,
        bound: Bound,
        progress: _Progress | None,
    ):
        self._bound = bound
        self._program = program
        self._space = space
        self._meshes = meshes
        self._memory = memory
        self._progress = progress
        self.candidates: list[Candidate] = []
        self._sizes: dict[int, tuple[int, ...]] = {}
        self.rejected: list[tuple[dict[Hashable, Any], str]] = []
        self.traces = 0

    def __call__(self, choice: Choice) -> Outcome | None:
        resources = self._space.resources(choice)
        abstract, machine = self._meshes.abstract(choice.sizes), self._meshes.machine
        self.traces += 1
        try:
            report = self._program.explained(resources, abstract, choice.overlap)
        except (NamedaxError, NotImplementedError, TypeError, ValueError) as error:
            names = error.axes if isinstance(error, PlacementConflictError) else ()
            pinned = [self._space.pinned_on(i) for i in range(len(choice.roles))]
            for axis, on in zip(self._space.axes, pinned, strict=True):
                if len(set(names)) == 2 and on.issuperset(names):
                    raise conflict(names, axis) from None
            if not resources or choice == self._space.empty:
                raise  # an error of the program itself, or of the fixed names
            self._space.learn(choice, names)
            self.rejected.append((resources, str(error)))
            return None
        mesh = dict(abstract.shape)
        times = machine.time(report.steps, mesh)
        candidate = Candidate.of(
            resources, mesh, choice.overlap, report, machine, times, self._memory
        )
        self.candidates.append(candidate)
        self._bound.learn(choice, report.steps, times)
        self._sizes[id(candidate)] = choice.sizes
        if self._progress is not None:
            self._progress.show(self.candidates)
        return Outcome(
            candidate.time,
            candidate.peak,
            report.memory.arguments,
            _parts(times, Operation),
            _parts(times, Collective),
        )

    def again(self, one: Candidate) -> Candidate:
        """Judge a layout again, with other options of its pipelines."""
        abstract, machine = self._meshes.abstract(self._sizes[id(one)]), self._meshes.machine
        self.traces += 1
        report = self._program.explained(one.axis_resources, abstract, one.overlap)
        times = machine.time(report.steps, one.mesh)
        return Candidate.of(
            one.axis_resources, one.mesh, one.overlap, report, machine, times, self._memory
        )

    def probe(self) -> None:
        """Trace the layouts that the bound needs and that the search has not traced."""
        for choice in list(self._bound.missing()):
            abstract = self._meshes.abstract(choice.sizes)
            self.traces += 1
            try:
                report = self._program.explained(
                    self._space.resources(choice), abstract, choice.overlap
                )
            except (NamedaxError, NotImplementedError, TypeError, ValueError):
                continue  # nothing is assumed about layouts with this name
            self._bound.learn(choice, report.steps)

    def left_open(self, known: Container[Choice], below: float, most: int) -> list[Choice]:
        """Return the layouts that may take less time than `below`, or none if they are many."""
        if self._can_change:
            return []
        found = list(itertools.islice(self._bound.unjudged(known, below), most + 1))
        choices = [one.choice for one in found if one.choice is not None]
        return choices if len(choices) == len(found) <= most else []

    def bound(self, found: Found) -> float:
        """Return a lower bound of the time of all layouts that fit, in seconds."""
        best = min(one.time for one in self.candidates if one.fits)
        known = found.outcomes.keys() | found.rejected
        opened = next(self._bound.unjudged(known, best), None)
        bounds = [self._bound.of(choice) for choice in found.outcomes] if self._can_change else []
        return min([best, *([] if opened is None else [opened.seconds]), *bounds])

    @property
    def _can_change(self) -> bool:
        """True if the time of a judged layout depends on options that the program leaves open."""
        return any(one.report.pipelines for one in self.candidates)

    def end(self) -> None:
        """End the progress line."""
        if self._progress is not None:
            self._progress.end()


def _parts(times: Times, kind: type) -> dict[Hashable, float]:
    """Return the seconds of computation, or of communication, for each line of the program."""
    found: dict[Hashable, float] = {}
    for step, start, end in times.schedule:
        if isinstance(step, kind):
            part = (step.source, step.phase)
            found[part] = found.get(part, 0.0) + end - start
    return found


class _Progress:
    """A progress line on standard error."""

    def __init__(self, most: int):
        self._most, self._began = most, time.perf_counter()

    def show(self, candidates: Sequence[Candidate]) -> None:
        """Show the progress, and the best result so far."""
        fitting = [one.time for one in candidates if one.fits]
        best = f"best {seconds_text(min(fitting))}" if fitting else "none fits yet"
        bar = "#" * (20 * len(candidates) // self._most)
        spent = time.perf_counter() - self._began
        line = (
            f"\rplan [{bar:20s}] {len(candidates)} of at most {self._most} layouts, {best},"
            f" {spent:.0f} s "
        )
        print(line, end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """End the line."""
        print(file=sys.stderr)


def _verified(
    program: Program,
    best_first: list[Candidate],
    meshes: Meshes,
    count: int,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
) -> list[Candidate]:
    """Return the candidates, with the best of them measured."""
    timed = []
    types = None if meshes.given is not None else (program.args, program.kwargs)
    for one in best_first[:count]:
        if one.fits:
            with meshes.concrete(one.mesh) as mesh:
                form = program.under(one.axis_resources, mesh, one.overlap)
                with choosing(one.pipeline):
                    seconds = measured(form, args, kwargs, types)
                timed.append(dataclasses.replace(one, measured=seconds))
    timed.sort(key=lambda one: one.measured if one.measured is not None else one.time)
    return [*timed, *best_first[len(timed) :]]


def _rank(one: Candidate) -> tuple[bool, float, int]:
    """Return a sort key: fitting layouts first, then by time, or by memory if they do not fit.

    The number of mesh axes decides ties.
    """
    return not one.fits, one.time if one.fits else one.peak, len(one.mesh)


def _nothing_fits(
    name: str,
    candidates: Sequence[Candidate],
    memory: float,
    meshes: Meshes,
    census: Census,
    rejected: Sequence[tuple[dict[Hashable, Any], str]],
    limit: int,
) -> str:
    if not candidates:
        return (
            f"plan: no layout of {name} on {meshes.text} could be traced; {len(rejected)} were"
            f" rejected, the last with: {list(rejected)[-1][1]}"
        )
    least = candidates[0]
    second = next(advice(least.report, least.axis_resources, least.mesh, census), "")
    more = (
        f"Judge more layouts than {limit} (tries=), use"
        if len(candidates) + len(rejected) >= limit
        else "Use"
    )
    return (
        f"plan: none of {len(candidates)} layouts of {name} on {meshes.text} fits into"
        f" {size_text(int(memory))} per device; the smallest needs {size_text(least.peak)}, with"
        f" {resources_text(least.axis_resources)}. {more} more devices, execute an axis in steps"
        " (loops={'batch': [4, 16]}), recompute layers in the gradient (jax.checkpoint), or"
        f" increase memory=. {second}".rstrip()
    )
