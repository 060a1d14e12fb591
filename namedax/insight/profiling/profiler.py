"""`profile`: run a function under JAX's profiler, and join the trace with the report."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from namedax.core.names import PyTree
from namedax.errors import ArgumentError, ArgumentTypeError, MeshError
from namedax.insight.analysis.explain import check_call, dynamic_positions, explain
from namedax.insight.analysis.placed_arguments import PlacedArguments, place
from namedax.insight.analysis.report import Report
from namedax.insight.profiling.events import STEP, Event, TraceData, read
from namedax.insight.profiling.instructions import Program, parse
from namedax.insight.profiling.joining import Join, Part, divide
from namedax.insight.profiling.profile import Measured, Profile, predicted_seconds
from namedax.machines.machine import Machine
from namedax.machines.measuring import measure
from namedax.machines.trace_events import LANES, Slice, Track, title_of
from namedax.messages.call_errors import checks_signature
from namedax.resources.mesh import concrete_mesh

__all__ = ["join", "profile"]

_WARM_UP = 2


@checks_signature
def profile(
    f: Callable[..., Any],
    *args: PyTree,
    steps: int = 5,
    machine: Machine | None = None,
    **kwargs: PyTree,
) -> Profile:
    """Measure a function under JAX's profiler, and compare it with its prediction, line by line.

    The function is compiled for its arguments, which are placed on the devices, and run a few
    times. The events of the trace are instructions of the compiled program. Their metadata have the
    scopes of namedax, so the measured time is known for each line, operation, axis name, kind and
    phase, as the predicted time of `nx.explain` is.

    Time is divided among the instructions that run at a moment, so nothing counts twice. The time
    of a fusion is divided among its operations in proportion to their predicted times. In a
    collective, waiting for other devices counts separately. Simulated devices share the cores of a
    processor, and each gets its part of the machine's time.

    Args:
      f: a mapped function, or any function that calls mapped ones, as for `nx.explain`. Its mesh
        must have devices.
      *args: its arguments. Types (`jax.ShapeDtypeStruct`) are replaced by arrays of zeros.
      steps: the number of measured steps, after warming up: as many without a trace, for their
        time, as with it. Default: 5.
      machine: the machine of the prediction. Default: `nx.machines.measure` of the mesh, which
        takes a few seconds.
      **kwargs: keyword arguments of `f`.

    Returns:
      A `Profile`, which prints as tables. See `Profile.by`, `Profile.fit`, `Profile.to_perfetto`.

    Raises:
      ArgumentTypeError: `f` is not a function, or does not take these arguments.
      ArgumentError: `steps` is not a positive integer, or JAX's profiler is already running.
      MeshError: the mesh has no devices.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((8,), ("x",))
    >>> f = nx.xmap(lambda x, w: nx.dot(x, w, "k"), in_axes=(["b", "k"], ["k", "h"]),
    ...             out_axes=["b", "h"], axis_resources={"b": "x"}, mesh=mesh)
    >>> types = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((512, 64), (64, 32))]
    >>> machine = nx.machines.Machine(flops={"float32": 1e10}, memory=1e9, bandwidth=1e10, links={})
    >>> result = nx.profile(f, *types, steps=2, machine=machine)
    >>> row = result.by("operation")["nx.dot"]
    >>> row.measured > 0, row.predicted > 0, result.coverage > 0.5
    (True, True, True)
    """
    if not callable(f):
        raise ArgumentTypeError(
            f"profile: the first argument must be the function to run; got {type(f).__name__}."
            " Write nx.profile(f, *args), not nx.profile(f(*args))."
        )
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise ArgumentError(
            f"profile: steps={steps!r} must be a positive integer, the number of measured steps."
            " Write steps=5."
        )
    if machine is not None and not isinstance(machine, Machine):
        raise ArgumentTypeError(
            f"profile: machine must be a machine, such as nx.machines.h100; got"
            f" {type(machine).__name__}. Without machine=, the devices are measured."
        )
    check_call("profile", f, args, kwargs)
    report = explain(f, *args, **kwargs)
    compiled, placed = _compiled(f, args, kwargs, report)
    untraced = _timed(compiled, placed, steps)
    data = _traced(compiled, placed, steps)
    mesh = _mesh(compiled)
    text = compiled.as_text() or ""
    machine = measure(mesh) if machine is None else machine
    return join(report, text, data, machine, mesh, untraced)


def _compiled(
    f: Callable[..., Any], args: Sequence[PyTree], kwargs: Mapping[str, PyTree], report: Report
) -> tuple[jax.stages.Compiled, PlacedArguments]:
    """Compile a function, and place its arguments."""
    form: Any = f if hasattr(f, "lower") else jax.jit(f)
    lowered: jax.stages.Lowered = form.lower(*args, **kwargs)
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError:
        # XLA compiles programs for abstract meshes only in part.
        if report.mesh and not _has_devices((args, kwargs)):
            raise MeshError(
                f"profile: the mesh {report.mesh} is an AbstractMesh, which has no devices to run"
                " on. Pass mesh=jax.make_mesh(...) to nx.xmap, or use nx.explain and"
                " report.time(machine)."
            ) from None
        raise
    infos = compiled.args_info
    positional = tuple(args[i] for i in dynamic_positions(args, infos[0]))
    keyword = {name: value for name, value in kwargs.items() if name in infos[1]}
    return compiled, place(compiled, positional, keyword, 0)


def _has_devices(arguments: PyTree) -> bool:
    """Return True if a mesh with devices is known, from the context or from an argument."""
    shardings = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(arguments)]
    return concrete_mesh(None) is not None or any(
        isinstance(one, NamedSharding) and isinstance(one.mesh, Mesh) for one in shardings
    )


def _timed(
    compiled: jax.stages.Compiled, arguments: PlacedArguments, steps: int
) -> tuple[float, ...]:
    """Return the seconds of steps without a trace, after warming up."""
    seconds: list[float] = []
    for _ in range(_WARM_UP + steps):
        args, kwargs = arguments.for_call()
        began = time.perf_counter()
        jax.block_until_ready(compiled(*args, **kwargs))
        seconds.append(time.perf_counter() - began)
    return tuple(seconds[_WARM_UP:])


def _traced(compiled: jax.stages.Compiled, arguments: PlacedArguments, steps: int) -> TraceData:
    """Run a compiled program under the profiler, and return the trace."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # would slow the host down
    with tempfile.TemporaryDirectory(prefix="namedax-profile-") as folder:
        with _tracing(folder, options):
            for i in range(steps):
                args, kwargs = arguments.for_call()
                with jax.profiler.StepTraceAnnotation(STEP, step_num=i):
                    jax.block_until_ready(compiled(*args, **kwargs))
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        return jax.profiler.ProfileData.from_file(str(files[-1]))


@contextlib.contextmanager
def _tracing(folder: str, options: jax.profiler.ProfileOptions) -> Iterator[None]:
    """Return a context in which JAX writes a trace into a folder.

    Raises:
      ArgumentError: another trace is being written.
    """
    try:
        jax.profiler.start_trace(folder, profiler_options=options)
    except RuntimeError as error:
        raise ArgumentError(
            f"profile: JAX's profiler did not start: {error} Call nx.profile outside of"
            " jax.profiler.trace, and after jax.profiler.stop_trace()."
        ) from error
    try:
        yield
    finally:
        jax.profiler.stop_trace()


def _mesh(compiled: jax.stages.Compiled) -> Mesh:
    """Return the mesh of a compiled program; of one axis if it has no mesh, such as one device."""
    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    meshes = [one.mesh for one in shardings if isinstance(one, NamedSharding)]
    found = next((mesh for mesh in meshes if isinstance(mesh, Mesh)), concrete_mesh(None))
    if found is not None:
        return found
    devices = {device for one in shardings for device in one.device_set}
    return Mesh(np.array(sorted(devices, key=lambda device: device.id)), ("devices",))


# --- joining --------------------------------------------------------------------------------------


def join(
    report: Report,
    text: str,
    data: TraceData,
    machine: Machine,
    mesh: Mesh | None = None,
    untraced: tuple[float, ...] = (),
) -> Profile:
    """Join a trace of a compiled program with its report.

    Args:
      report: the report of the function.
      text: the HLO text of the compiled program.
      data: the trace.
      machine: the machine of the prediction.
      mesh: the mesh, whose order of devices is that of the groups in the text. Default: `None`, the
        order of the devices.
      untraced: the seconds of steps without a trace. Default: none.

    Raises:
      ArgumentError: the trace has no event of the program.
    """
    program = parse(text)
    trace = read(data, program.name, _positions(mesh))
    if not any(trace.events):
        raise ArgumentError(
            f"profile: the trace has no instruction of {program.name!r}, so the program does not"
            " compute anything, or the backend records no instructions. Profile a function that"
            " computes on the devices."
        )
    times = machine.time(report.steps, report.mesh)
    assigned = Join(program, report, predicted_seconds(times))
    events = [step for step in trace.events if step]
    shares = [divide(step, program, trace.devices, trace.is_shared) for step in events]
    walls = tuple(share.wall for share in shares)
    # The time of a step is the median. All traced steps together tell how it is divided.
    least = min(statistics.median(times) for times in (walls, untraced) if times)
    scale = least / sum(walls)
    seconds: dict[str, float] = defaultdict(float)
    for share in shares:
        for name, value in share.seconds.items():
            seconds[name] += value * scale
    runs = Counter(event.instruction for step in events for event in step)
    count = len(events) * len(trace.devices)
    unknown: list[tuple[Part | None, float]] = [(None, 1.0)]
    instructions = tuple(
        Measured(name, part, value * weight, runs[name] / count, not assigned.is_named(name))
        for name, value in sorted(seconds.items(), key=lambda pair: -pair[1])
        for part, weight in assigned.parts(name) or unknown
    )
    typical = min(shares, key=lambda share: abs(share.wall - statistics.median(walls)))
    return Profile(
        report=report,
        machine=machine,
        predicted=times,
        walls=walls,
        untraced=untraced,
        instructions=instructions,
        waiting=sum(share.waiting for share in shares) * scale,
        idle=sum(share.idle for share in shares) * scale,
        devices=len(trace.devices),
        is_shared=trace.is_shared,
        tracks=tuple(_tracks(events[shares.index(typical)], program, assigned)),
    )


def _positions(mesh: Mesh | None) -> Mapping[int, int]:
    """Return the position in a mesh of each local device, by its number in a trace."""
    if mesh is None:
        return {}
    local = sorted(mesh.local_devices, key=lambda device: device.id)
    every = sorted(
        (device for device in jax.local_devices(backend=local[0].platform)), key=lambda one: one.id
    )
    order = {device: i for i, device in enumerate(mesh.devices.flat)}
    return {i: order[device] for i, device in enumerate(every) if device in order}


def _tracks(events: Sequence[Event], program: Program, assigned: Join) -> list[Track]:
    """Return the tracks of each device; instructions that overlap are on several tracks."""
    start = min(event.start for event in events)
    lanes: dict[tuple[int, str], list[list[Slice]]] = defaultdict(list)
    linked: set[object] = set()
    for event in sorted(events, key=lambda one: (one.start, -one.end)):
        one = program.instructions.get(event.instruction)
        found = assigned.parts(event.instruction)
        part = max(found, key=lambda pair: pair[1])[0] if found else None
        link = None if part is None else (part.source, part.operation, part.phase, part.kind)
        if link in linked:
            link = None
        linked.add(link)
        bar = _slice(event, part, start, link)
        lane = LANES[one is not None and bool(one.collective)]
        rows = lanes[event.device, lane]
        row = next((row for row in rows if _fits(bar, row)), None)
        if row is None:
            rows.append([bar])
        else:
            row.append(bar)
    return [
        Track(
            f"measured, device {device}",
            lane if not i else f"{lane} ({i + 1})",
            tuple(row),
        )
        for device in sorted({device for device, _ in lanes})
        for lane in LANES
        for i, row in enumerate(lanes.get((device, lane), ()))
    ]


def _slice(event: Event, part: Part | None, start: float, link: object) -> Slice:
    details: dict[str, str | float] = {"instruction": event.instruction}
    if part is not None:
        details |= {"line": part.source, "kind": part.kind, "phase": part.phase}
    return Slice(
        event.instruction if part is None else title_of(part.operation, part.names, part.kind),
        part.kind if part is not None else "unknown",
        event.start - start,
        event.end - start,
        details,
        link,
    )


def _fits(bar: Slice, row: Sequence[Slice]) -> bool:
    """Return True if a bar is after all bars of a row, or within those that it overlaps."""
    return all(bar.start >= one.end or bar.end <= one.end for one in row)
