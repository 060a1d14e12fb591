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
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    NamedaxError,
    PlanError,
    did_you_mean,
    show_names,
)
from namedax.hlo import size_text
from namedax.insight.analysis.placed_arguments import place
from namedax.insight.planning.advice import advice, uneven_advice
from namedax.insight.planning.again import Again
from namedax.insight.planning.bound import Bound
from namedax.insight.planning.candidates import Candidate, resources_text
from namedax.insight.planning.fixed_names import (
    check_fixed,
    check_sizes,
    fixed_axes,
    parse_fixed,
)
from namedax.insight.planning.judge import Judge, Progress, rank
from namedax.insight.planning.loop_steps import with_loop_steps
from namedax.insight.planning.meshes import Meshes, meshes_for
from namedax.insight.planning.options import with_options
from namedax.insight.planning.program import Census, Program
from namedax.insight.planning.result import Plan
from namedax.insight.planning.search import search
from namedax.insight.planning.space import Choice, Space
from namedax.insight.planning.uneven_names import with_uneven_names
from namedax.insight.planning.whole import Stage, Whole, split_advice, with_split_layouts
from namedax.machines import Machine
from namedax.machines.links import positive
from namedax.messages.call_errors import checks_signature
from namedax.ops.contraction.rings import Overlap
from namedax.ops.operands.open_options import choosing
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
    _check(f, machine, memory, names, verify, tries, loops, overlap)
    pads, uneven = uneven is None, () if uneven is None else _several("uneven", uneven)
    offered = {} if loops is None or isinstance(loops, EllipsisType) else loops
    program: Program | Whole = (
        Program(f, args, kwargs) if isinstance(f, Xmapped) else Whole(f, args, kwargs)
    )
    first = program.first()
    pins = parse_fixed(fixed)
    meshes = meshes_for(first, mesh, machine, verify, fixed_axes(pins))
    memory_limit = float(meshes.machine.memory if memory is None else memory)
    overlaps = (first._options.overlap,) if overlap is None else tuple(overlap)
    limit = _most(meshes) if tries is None else tries
    with meshes.context():
        census = program.census()
        check_fixed(pins, census.sizes, meshes.axes, names, offered, census.apart)
        chosen = _chosen(census, names, offered, uneven)
        pins = {name: pin for name, pin in pins.items() if name in chosen}
        space = Space(
            chosen,
            meshes.axes,
            meshes.shapes,
            census.apart,
            _loops(offered),
            overlaps,
            uneven,
            pins,
        )
        own = space.canonical(
            space.choice_of(first._options.axis_resources, first._options.overlap)
        )
        space.uneven |= {name for name, size in chosen.items() if size % space.blocks(own, name)}
        check_sizes(space)
        judge = Judge(
            program,
            space,
            meshes,
            memory_limit,
            Bound(space, meshes.machine, census.arguments, memory_limit, census.reordered),
            Progress(limit) if progress and sys.stderr.isatty() else None,
        )
        found = search(space, judge, memory_limit, limit, [own], judge.left_open, tries)
        judge.searched = len(judge.layouts()) + len(judge.rejected)
        _judge_variants(program, judge, meshes, space, census, memory_limit, pads, loops, fixed)
        if limit > len(chosen) and not isinstance(program, Whole):
            judge.probe()
        judge.end()
        census = census.replace(
            apart=frozenset(space.apart)
        )  # including the pairs learned in the search
        best_first = sorted(judge.candidates, key=rank)
        if not best_first or not best_first[0].fits:
            raise _nothing_fits(
                program.name, best_first, memory_limit, meshes, space, census, judge, limit, loops
            )
        least = 0.0 if isinstance(program, Whole) else judge.bound(found)
        if verify and isinstance(program, Program):
            best_first = _verified(program, best_first, meshes, verify, args, kwargs)
    return Plan(
        program.name,
        meshes.machine,
        memory_limit,
        tuple(best_first),
        tuple(judge.rejected),
        tuple(_advice(best_first, space, census)),
        judge.traces,
        census.sizes,
        census.arguments,
        bound=least,
        ended="tries" if found.reached else "converged",
        again=Again(program, meshes, memory_limit),
    )


def _advice(best_first: Sequence[Candidate], space: Space, census: Census) -> Iterator[str]:
    """Yield the sentences of a plan on axis names and on layouts of several functions."""
    best = best_first[0]
    yield from advice(best.report, best.axis_resources, best.mesh, census)
    others = uneven_advice(space.not_dividing(), space.sizes), split_advice(best_first)
    yield from filter(None, others)


def _judge_variants(
    program: Program | Whole,
    judge: Judge,
    meshes: Meshes,
    space: Space,
    census: Census,
    memory: float,
    pads: bool,
    loops: Mapping[Hashable, object] | EllipsisType | None,
    fixed: Mapping[Hashable, Any] | None,
) -> None:
    """Judge variants of the best layouts: padded blocks, steps, several layouts, open options."""
    if pads:
        with_uneven_names(space, judge.best, judge, rank, _bytes(census))
    if loops is ... or (loops is None and not judge.fits):
        judge.has_steps = True
        _in_steps(space, judge, memory, census)
    if isinstance(program, Whole):
        judge.candidates += _split(program, judge, meshes, space, fixed)
    judge.candidates += with_options(judge.candidates, judge, rank)


def _bytes(census: Census) -> dict[Hashable, int]:
    """Return the bytes of the arguments that have each name."""
    found: dict[Hashable, int] = {}
    for held in census.arguments:
        for name in held.dims:
            found[name] = found.get(name, 0) + held.bytes
    return found


def _split(
    whole: Whole,
    judge: Judge,
    meshes: Meshes,
    space: Space,
    fixed: Mapping[Hashable, Any] | None,
) -> list[Candidate]:
    """Return candidates with different layouts for the mapped functions of a program."""
    choice, best = _found(judge.best())
    mesh = meshes.abstract(choice.sizes)
    shapes = [shape for shape in meshes.shapes if shape.sizes == choice.sizes]

    def local(stage: Stage) -> list[dict[Hashable, Any]]:
        names = [name for name in stage.names.sizes if name in space.sizes]
        try:
            found = plan(
                stage.mapped,
                *stage.args,
                mesh=mesh,
                machine=meshes.machine,
                memory=_ANY_MEMORY,
                names=names,
                tries=_LOCAL_TRIES,
                progress=False,
                loops={},
                uneven=(),
                fixed={n: entry for n, entry in (fixed or {}).items() if n in names},
                **stage.kwargs,
            )
        except (NamedaxError, NotImplementedError, TypeError, ValueError):
            return []  # judged by the whole alone
        layouts = [one.axis_resources for one in found.candidates if not one.options]
        return layouts[:_LOCAL]

    def space_of(census: Census) -> Space:
        sizes = {name: n for name, n in census.sizes.items() if name in space.sizes}
        pins = {name: pin for name, pin in space.fixed.items() if name in sizes}
        apart = {*census.apart, *space.apart}
        return Space(sizes, meshes.axes, shapes, apart, fixed=pins)

    return with_split_layouts(
        whole, best, local, functools.partial(judge.split, choice), space_of, rank
    )


def _found(best: tuple[Choice, Candidate] | None) -> tuple[Choice, Candidate]:
    assert best is not None  # a program whose unmapped form cannot be traced has raised
    return best


def _in_steps(space: Space, judge: Judge, memory: float, census: Census) -> None:
    """Judge layouts with a name in steps: the best one, and two that do not fit.

    If none fits, these are the smallest ones, and otherwise the fastest ones.
    """
    layouts = sorted(judge.layouts(), key=lambda one: rank(one[1]))
    others = [one for one in layouts if not one[1].fits and one[1].time < layouts[0][1].time]
    others.sort(key=lambda one: one[1].time)
    bases = [layouts[0], *others[:2]] if layouts[0][1].fits else layouts[:2]
    for choice, one in bases:
        with_loop_steps(space, choice, one, judge.candidate, memory, _bytes(census))


def _check(
    f: object,
    machine: object,
    memory: object,
    names: object,
    verify: object,
    tries: object,
    loops: Mapping[Hashable, object] | EllipsisType | None,
    overlap: object,
) -> None:
    """Raise an error with a remedy unless each of these arguments is valid."""
    if not callable(f):
        raise ArgumentTypeError(
            f"plan: the first argument must be a function made by nx.xmap; got {type(f).__name__}."
            " Map the function first: nx.plan(nx.xmap(jax.value_and_grad(loss)), *args,"
            " mesh=mesh)."
        )
    if verify and not isinstance(f, Xmapped):
        raise ArgumentError(
            f"plan: verify={verify} times a mapped function, but {getattr(f, '__name__', 'f')} is"
            " not mapped itself. Leave out verify=, and time plan.apply(f)."
        )
    if isinstance(f, Xmapped) and f._options.partitioning == "auto":
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
    if loops is not None and loops is not ... and not isinstance(loops, Mapping):
        raise ArgumentError(
            f"plan: loops={loops!r} must map names to lists of numbers of steps. Use"
            " loops={'batch': [4, 16]}, or loops=... to choose a name and its steps."
        )
    for name, steps in ({} if loops is ... else loops or {}).items():
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
                stored = program.stored(args, kwargs, one.axis_resources, mesh)
                like = types and program.stored(*types, one.axis_resources, mesh)
                with choosing(one.options, one.report.files):
                    seconds = measured(form, *stored, like)
                timed.append(dataclasses.replace(one, measured=seconds))
    timed.sort(key=lambda one: one.measured if one.measured is not None else one.time)
    return [*timed, *best_first[len(timed) :]]


def _nothing_fits(
    name: str,
    candidates: Sequence[Candidate],
    memory: float,
    meshes: Meshes,
    space: Space,
    census: Census,
    judge: Judge,
    limit: int,
    loops: Mapping[Hashable, object] | EllipsisType | None,
) -> PlanError:
    """Return the error for a program that fits in no layout, with the smallest one."""
    left_out = uneven_advice(space.not_dividing(), space.sizes)
    rejected = judge.rejected
    if not candidates:
        return PlanError(
            f"plan: no layout of {name} on {meshes.text} could be traced; {len(rejected)} were"
            f" rejected, the last with: {list(rejected)[-1][1]} {left_out}".rstrip()
        )
    least = candidates[0]
    second = next(advice(least.report, least.axis_resources, least.mesh, census), "")
    more = f"Judge more layouts than {limit} (tries=), use" if judge.searched >= limit else "Use"
    steps = (
        " execute an axis in steps (loops={'batch': [4, 16]}),"
        if loops is not None and loops is not ...
        else ""
    )
    return PlanError(
        f"plan: none of {len(candidates)} layouts of {name} on {meshes.text} fits into"
        f" {size_text(int(memory))} per device; the smallest needs {size_text(least.peak)}, with"
        f" {resources_text(least.axis_resources)}. {more} more devices,{steps} recompute"
        f" layers in the gradient (jax.checkpoint), or increase memory=."
        + "".join(f" {sentence}" for sentence in (second, left_out) if sentence)
    )
