"""The public function `plan`: it judges candidates one after the other, and returns the best."""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

import jax

from namedax.core.names import Mesh, PyTree
from namedax.core.text_tables import seconds_text
from namedax.errors import NamedaxError, PlanError, show_names
from namedax.hlo import size_text
from namedax.insight.analysis.placed_arguments import place
from namedax.insight.analysis.records import Collective
from namedax.insight.analysis.report import Report
from namedax.insight.planning.again import Again
from namedax.insight.planning.arguments import (
    Request,
    check_function,
    check_limits,
    check_loops,
    fixed_axes,
    list_of_names,
    parse_fixed,
)
from namedax.insight.planning.bound import Bound
from namedax.insight.planning.candidates import Candidate, Settings, Variant, resources_text
from namedax.insight.planning.judge import Judge, Progress, judge_padded, judge_steps, rank
from namedax.insight.planning.meshes import Meshes, meshes_for
from namedax.insight.planning.options import with_options
from namedax.insight.planning.program import Census, Held, Program
from namedax.insight.planning.result import Plan
from namedax.insight.planning.search import search
from namedax.insight.planning.space import Choice, Space
from namedax.insight.planning.whole import Stage, Whole, split_advice, with_split_layouts
from namedax.machines import Machine
from namedax.messages.call_errors import checks_signature
from namedax.ops.contraction.rings import Overlap
from namedax.ops.operands.open_options import choosing
from namedax.resources.assignment import parse_resources
from namedax.resources.serial import SerialLoop
from namedax.xmap.arguments import dynamic_arguments
from namedax.xmap.mapped_function import Xmapped

__all__ = ["measured", "plan"]

_RUNS, _ENOUGH = 8, 0.5
# Smaller arrays are not reported: in bytes, and as a fraction of the peak memory of a device.
_LARGE, _SHARE = 1 << 20, 0.02


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
    placed = place(compiled, *dynamic_arguments(form, args, kwargs), 1)
    given, named = placed.for_call()
    jax.block_until_ready(compiled(*given, **named))
    times: list[float] = []
    while len(times) < _RUNS or (sum(times) < _ENOUGH and len(times) < 100):
        given, named = placed.for_call()
        began = time.perf_counter()
        jax.block_until_ready(compiled(*given, **named))
        times.append(time.perf_counter() - began)
    return min(times)


# For a program of several mapped functions: the number of layouts that are judged for a function
# alone, and of the best ones that are tried in the whole. Only the whole must fit.
_LOCAL_TRIES, _LOCAL, _ANY_MEMORY = 24, 4, 1e30
# The maximum number of layouts to judge, on one, two and three mesh axes, and if the shape of the
# mesh is chosen too.
_TRIES, _TRIES_OF_SHAPES = (32, 60, 90), 120


@checks_signature
def plan(
    f: Callable[..., Any],
    *args: PyTree,
    mesh: Mesh | int | None = None,
    machine: Machine | None = None,
    memory: float | None = None,
    names: Iterable[Hashable] | None = None,
    verify: int = 0,
    progress: bool = True,
    tries: int | None = None,
    loops: Mapping[Hashable, Sequence[int | SerialLoop]] | EllipsisType | None = None,
    overlap: Sequence[Overlap] | None = None,
    uneven: Iterable[Hashable] | None = None,
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
        own `axis_resources` are a candidate. Or a function that calls such functions, each of which
        then has a layout in `plan.layouts`.
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
        see `nx.SerialLoop`. `...` chooses a name and a number of steps for the best layouts, and
        for faster ones that do not fit. Default: the same for the smallest layouts if no layout
        fits, and otherwise none. `{}` tries none in any case.
      overlap: values to try for `overlap` of `nx.xmap`, such as `[False, True]`; default: the value
        of `f`.
      uneven: names that are also tried with sizes that do not divide, in padded blocks. Such names
        in the layout of `f` itself are included. Default: all names, but only on the best layout,
        in at most six traces. `()` tries none. `plan.advice` lists the names that are left out. The
        steps of `loops` need not divide.
      fixed: names with a given mapping, such as `{"batch": "data", "vocab": None}`: a mesh axis, a
        tuple of mesh axes, an `nx.SerialLoop`, or `None` for a name that must not be mapped. All
        layouts of the search have it. Default: none.
      **kwargs: keyword arguments of `f`.

    Some calls have options that do not change results: `prefetch` and `remat` of `nx.fold` and
    `nx.scan`, `microbatches`, `schedule`, `interleave` and `remat` of `nx.pipeline`, and `balance`
    of `nx.nn.dot_product_attention`. A program leaves them open if it does not pass them. The best
    layouts are also judged with other values, for each line with such a call. A layout that does
    not fit is judged again with `remat="full"` before it is rejected. `plan.options` has the values
    for the best candidate, and `plan.apply(f)` maps `f` with all of them.

    Returns:
      A `Plan`, which prints as a table. `plan.best` is the value for `axis_resources`, on a mesh of
      the sizes `plan.mesh`. No layout of the searched space that fits takes less than `plan.bound`
      seconds on the machine, and `plan.gap` compares the best layout with that.

    Raises:
      ArgumentTypeError: `f` is not a function made by `nx.xmap`, and calls none.
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
    values = {"overlap": overlap}
    check_function(f, verify)
    check_limits(machine, memory, verify, tries)
    wanted = None if names is None else list_of_names("names", names)
    check_loops(loops)
    Settings.check_values(values)
    padded = None if uneven is None else list_of_names("uneven", uneven)
    program: Program | Whole = (
        Program(f, args, kwargs) if isinstance(f, Xmapped) else Whole(f, args, kwargs)
    )
    pins = parse_fixed(fixed)
    request = Request(wanted, loops, values, padded, fixed or {}, pins, tries)
    meshes = meshes_for(program.first(), mesh, machine, verify, fixed_axes(pins))
    limit = float(meshes.machine.memory if memory is None else memory)
    with meshes.context():
        planning = _Planning(program, meshes, limit, request, progress and sys.stderr.isatty())
        planning.run()
        best_first = planning.best_first()
        if verify and isinstance(program, Program):
            best_first = _verified(program, best_first, meshes, verify, args, kwargs)
        return planning.result(best_first)


class _Planning:
    """A plan in the making.

    Args:
      program: the program.
      meshes: its meshes.
      memory: the memory limit of a device, in bytes.
      request: the layouts to try.
      progress: whether to show a progress line.
    """

    def __init__(
        self,
        program: Program | Whole,
        meshes: Meshes,
        memory: float,
        request: Request,
        progress: bool,
    ):
        self._program, self._meshes, self._memory = program, meshes, memory
        self._request = request
        self._census = program.census()
        first, settings = program.first(), Settings.of(program.first())
        self._space = request.space(self._census, meshes, settings)
        self._own = self._space.own(first._options.axis_resources, settings)
        self._tries = _most(meshes) if request.tries is None else request.tries
        bound = Bound(
            self._space, meshes.machine, self._census.arguments, memory, self._census.reordered
        )
        line = Progress(self._tries) if progress else None
        self._judge = Judge(program, self._space, meshes, memory, bound, line)

    def run(self) -> None:
        """Judge layouts: those of the search, variants of the best ones, and those of the bound."""
        space, judge = self._space, self._judge
        tries = self._request.tries
        self._found = search(
            space, judge, self._memory, self._tries, [self._own], judge.left_open, tries
        )
        self._searched = len(judge.layouts()) + len(judge.rejected)
        self._judge_variants()
        if self._tries > len(space.sizes) and not isinstance(self._program, Whole):
            judge.probe()
        judge.end()

    def _judge_variants(self) -> None:
        """Judge variants of the best layouts: padded blocks, steps, several layouts, options."""
        space, judge, loops = self._space, self._judge, self._request.loops
        arguments = self._census.bytes_by_name()
        if self._request.uneven is None:
            judge_padded(judge, space, arguments)
        if loops is ... or (loops is None and not judge.fits):
            judge_steps(judge, space, self._memory, arguments)
        if isinstance(self._program, Whole):
            judge.candidates += self._split(self._program)
        judge.candidates += with_options(judge.candidates, judge, rank)

    def _split(self, whole: Whole) -> list[Candidate]:
        """Return candidates with different layouts for the mapped functions of a program."""
        found = self._judge.best()
        assert found is not None  # a program whose unmapped form cannot be traced has raised
        choice, best = found
        judge = functools.partial(self._judge.split, choice)
        local = functools.partial(self._local_layouts, choice)
        return with_split_layouts(
            whole, best, local, judge, functools.partial(self._local_space, choice), rank
        )

    def _local_layouts(self, choice: Choice, stage: Stage) -> list[dict[Hashable, Any]]:
        """Return the best layouts of a mapped function alone, on the mesh of a choice."""
        names = [name for name in stage.names.sizes if name in self._space.sizes]
        try:
            found = plan(
                stage.mapped,
                *stage.args,
                mesh=self._meshes.abstract(choice.sizes),
                machine=self._meshes.machine,
                memory=_ANY_MEMORY,
                names=names,
                tries=_LOCAL_TRIES,
                progress=False,
                loops={},
                uneven=(),
                fixed={n: entry for n, entry in self._request.fixed.items() if n in names},
                **stage.kwargs,
            )
        except (NamedaxError, NotImplementedError, TypeError, ValueError):
            return []  # judged by the whole alone
        layouts = [one.axis_resources for one in found.candidates if not one.options]
        return layouts[:_LOCAL]

    def _local_space(self, choice: Choice, census: Census) -> Space:
        """Return the layouts of a mapped function alone, on the mesh of a choice."""
        space, meshes = self._space, self._meshes
        sizes = {name: n for name, n in census.sizes.items() if name in space.sizes}
        pins = {name: pin for name, pin in space.fixed.items() if name in sizes}
        shapes = [shape for shape in meshes.shapes if shape.sizes == choice.sizes]
        return Space(sizes, meshes.axes, shapes, {*census.apart, *space.apart}, fixed=pins)

    def best_first(self) -> list[Candidate]:
        """Return the candidates, best first.

        Raises:
          PlanError: no layout fits.
        """
        found = sorted(self._judge.candidates, key=rank)
        if not found or not found[0].fits:
            raise self._nothing_fits(found)
        return found

    def result(self, best_first: Sequence[Candidate]) -> Plan:
        """Return the plan with these candidates."""
        judge, space, best = self._judge, self._space, best_first[0]
        sentences = (
            *_advice(best.report, best.axis_resources, best.mesh, self._learned()),
            _uneven_advice(space.not_dividing(), space.sizes),
            split_advice(best_first),
        )
        return Plan(
            self._program.name,
            self._meshes.machine,
            self._memory,
            tuple(best_first),
            tuple(judge.rejected),
            tuple(filter(None, sentences)),
            judge.traces,
            self._census.sizes,
            self._census.arguments,
            bound=0.0 if isinstance(self._program, Whole) else judge.bound(self._found),
            ended="tries" if self._found.reached else "converged",
            again=Again(self._program, self._meshes, self._memory),
        )

    def _learned(self) -> Census:
        """Return the census, including the pairs of names learned in the search."""
        return self._census.replace(apart=frozenset(self._space.apart))

    def _nothing_fits(self, candidates: Sequence[Candidate]) -> PlanError:
        """Return the error for a program that fits in no layout, with the smallest one."""
        name, meshes, rejected = self._program.name, self._meshes.text, self._judge.rejected
        left_out = _uneven_advice(self._space.not_dividing(), self._space.sizes)
        if not candidates:
            return PlanError(
                f"plan: no layout of {name} on {meshes} could be traced; {len(rejected)} were"
                f" rejected, the last with: {list(rejected)[-1][1]} {left_out}".rstrip()
            )
        least, limit = candidates[0], self._tries
        advised = _advice(least.report, least.axis_resources, least.mesh, self._learned())
        second = next(advised, "")
        more = (
            f"Judge more layouts than {limit} (tries=), use" if self._searched >= limit else "Use"
        )
        steps = (
            " execute an axis in steps (loops={'batch': [4, 16]}),"
            if isinstance(self._request.loops, Mapping)
            else ""
        )
        return PlanError(
            f"plan: none of {len(candidates)} layouts of {name} on {meshes} fits into"
            f" {size_text(int(self._memory))} per device; the smallest needs"
            f" {size_text(least.peak)}, with {resources_text(least.axis_resources)}. {more} more"
            f" devices,{steps} recompute layers in the gradient (jax.checkpoint), or increase"
            " memory=."
            + "".join(f" {text}" for text in (self._on_host(least), second, left_out) if text)
        )

    def _on_host(self, least: Candidate) -> str:
        """Return the sentence about a layout with large arguments in the memory of the host."""
        if isinstance(self._program, Whole):
            return ""
        machine, first = self._meshes.machine, self._program.first()
        variant = Variant(least.axis_resources, Settings.of(first))
        sizes = tuple(least.mesh.get(axis, 1) for axis in self._meshes.axes)
        try:
            stored = self._program.on_host(_LARGE)
            report = stored.explained(variant, self._meshes.abstract(sizes))
        except (NamedaxError, NotImplementedError, TypeError, ValueError):
            return ""
        if report.memory.peak >= least.peak:
            return ""
        time = f", {seconds_text(report.time(machine))}" if machine.host_bandwidth else ""
        return (
            f"With arguments of at least {size_text(_LARGE)} in the memory of the host"
            " (nx.shard(..., memory_kind='pinned_host')), this layout needs"
            f" {size_text(report.memory.peak)}{time}."
        )


def _most(meshes: Meshes) -> int:
    """Return the maximum number of layouts to judge."""
    if len(meshes.shapes) > 1:
        return _TRIES_OF_SHAPES
    return _TRIES[min(max(len(meshes.axes), 1), len(_TRIES)) - 1]


def _verified(
    program: Program,
    best_first: Sequence[Candidate],
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
                form = program.under(one.axis_resources, mesh, one.settings)
                stored = program.stored(args, kwargs, one.axis_resources, mesh)
                like = types and program.stored(*types, one.axis_resources, mesh)
                with choosing(one.options, one.report.files):
                    seconds = measured(form, *stored, like)
                timed.append(dataclasses.replace(one, measured=seconds))
    timed.sort(key=lambda one: one.measured if one.measured is not None else one.time)
    return [*timed, *best_first[len(timed) :]]


def _advice(
    report: Report, axis_resources: Mapping[Hashable, Any], mesh: Mapping[str, int], census: Census
) -> Iterator[str]:
    """Yield advice on second names for axes, if existing names prevent a better layout.

    `census.apart` has all pairs of names that are known to occur in one value.
    """
    assignment = parse_resources(axis_resources)
    for axis, size in mesh.items():
        mapped = [name for name, axes in assignment.items() if axis in axes]
        if size > 1 and mapped:
            yield from _stored_whole(axis, size, mapped, census, _SHARE * report.memory.peak)
            yield from _left_whole(axis, size, report)


def _uneven_advice(
    left_out: Mapping[Hashable, Sequence[int]], sizes: Mapping[Hashable, int]
) -> str:
    """Return a sentence on names whose sizes do not divide; empty if there are none.

    The planner does not map these names.

    >>> from namedax.insight.planning.planner import _uneven_advice
    >>> _uneven_advice({"vocab": [4, 8]}, {"vocab": 50258})
    "Not tried because the size does not divide: 'vocab' of size 50258 over 4 or 8 devices. ..."
    """
    if not left_out:
        return ""
    each = [
        f"{name!r} of size {sizes[name]} over {_numbers(counts)} devices"
        for name, counts in left_out.items()
    ]
    subject = "the size does" if len(each) == 1 else "the sizes do"
    return (
        f"Not tried because {subject} not divide: {', '.join(each)}. Pass uneven={list(left_out)!r}"
        f" to try {'it' if len(each) == 1 else 'them'} with padding."
    )


def _numbers(counts: Sequence[int]) -> str:
    *first, last = map(str, counts)
    return f"{', '.join(first)} or {last}" if first else last


def _stored_whole(
    axis: str, size: int, mapped: list[Hashable], census: Census, least: float
) -> Iterator[str]:
    """Yield advice on arguments that are replicated because of conflicting names.

    Every device along a mesh axis stores them whole.

    All names of such an argument occur in one value with a name that is mapped to this mesh axis.
    """
    groups: dict[Hashable, list[Held]] = {}
    for held in census.arguments:
        names = [dim for dim in held.dims if dim is not None]
        if held.bytes < _LARGE or not set(names).isdisjoint(mapped):
            continue
        if any(_could_be_mapped(name, mapped, census) for name in names):
            continue
        for name in names:
            if census.sizes.get(name, 0) % size == 0 and name in census.sizes:
                groups.setdefault(name, []).append(held)
    if not groups:
        return
    name, group = max(groups.items(), key=lambda item: sum(held.bytes for held in item[1]))
    total = sum(held.bytes for held in group)
    if total < least:
        return
    conflicting = [other for other in mapped if frozenset((name, other)) in census.apart]
    others = show_names(conflicting or mapped)
    yield (
        f"{name!r} cannot be mapped to {axis!r} together with {others}: each of its {size} devices"
        f" stores all of {_listed(group)}, {size_text(total)}. Under a second"
        f" name for {name!r}, such as '{name}_fsdp', read by {{{name}:{name}_fsdp}} in nx.einsum,"
        f" it could be stored in {size} parts."
    )


def _could_be_mapped(name: Hashable, mapped: Iterable[Hashable], census: Census) -> bool:
    """Return True if the search was allowed to map a name of an argument to a mesh axis."""
    return name in census.sizes and all(
        frozenset((name, other)) not in census.apart for other in mapped
    )


def _listed(group: list[Held]) -> str:
    labels = [held.label for held in sorted(group, key=lambda held: -held.bytes)]
    return labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"


def _left_whole(axis: str, size: int, report: Report) -> Iterator[str]:
    """Yield advice on sums of the forward pass that replicate a large result over a mesh axis."""
    forward = [
        step for step in report.collectives if step.phase == "forward" and axis in step.mesh_axes
    ]
    sums = [step for step in forward if step.kind == "all-reduce" and step.bytes >= _LARGE]
    if not sums or any(step.kind == "reduce-scatter" for step in forward):
        return
    largest: Collective = max(sums, key=lambda step: step.bytes * step.trips)
    names = f" for {', '.join(largest.names)}" if largest.names else ""
    yield (
        f"The sum{names} at {largest.source or 'an unknown line'} leaves its result"
        f" ({size_text(largest.bytes)}) replicated over the {size} devices of {axis!r}. With a"
        " second name for one of its axes, such as {pos_sp:pos} in nx.einsum, it could be a"
        f" reduce-scatter, and the values up to the next use of that axis could be stored in {size}"
        " parts."
    )
