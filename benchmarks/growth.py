"""Growth of tracing, lowering, compiling and calling with layers, names per array, parameters and devices, compared with plain
JAX.

    python benchmarks/growth.py                             # the table, and the picture of
    docs/performance.md python benchmarks/growth.py --curves layers devices     # some of the curves
    python benchmarks/growth.py --picture growth.svg        # the picture elsewhere python
    benchmarks/growth.py --points growth.json        # keeps the measurements: several runs, one
    picture

Both programs of a curve compute the same; the plain one runs under `jax.jit(jax.shard_map(...))`.
They alternate, with cold caches, and the table compares medians of processor time: of all threads
of the process, so that other work on the machine has little effect. For calls it is the time of the
calling thread, because the devices wait for each other. Each round runs at another depth of the
stack. CPython allocates frames in chunks of memory, and a frequent call that crosses a chunk is
slow, in any program. The plain program runs twice in every round; the difference is the noise. The
slope is from a line through the last three points of a curve, in logarithms: 1 is linear.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gc
import json
import math
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import namedax as nx

PLAIN, NAMED, NOISE = "plain", "namedax", "plain again"
STAGES = ("trace", "lower", "compile", "call")
# Creates the function to compile, and its arguments.
Program = tuple[Callable[[], Any], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Curve:
    """A family of programs of growing size.

    Attributes:
      title: the varied size.
      sizes: the sizes.
      programs: the plain and the named program of a size.
      stages: the measured stages.
      largest: the maximum size with all rounds; larger programs have one round.
      compiled: the maximum size to compile and call; XLA compiles larger programs for many minutes.
    """

    title: str
    sizes: Sequence[int]
    programs: Callable[[int], Mapping[str, Program]]
    stages: Sequence[str] = STAGES
    largest: int = 1 << 60
    compiled: int = 1 << 60


def mesh_of() -> jax.sharding.Mesh:
    """All devices of this machine along one axis."""
    return jax.make_mesh((jax.device_count(),), ("x",), (AxisType.Auto,))


# --- the programs -------------------------------------------------------------------------------------------------------

WIDTH, BATCH = 16, 32
NAMES = (("batch", "even"), ("batch", "odd"))


def layers(scanned: bool, count: int) -> Mapping[str, Program]:
    """Value and gradient of a perceptron with this number of layers, with the batch sharded over the devices."""
    mesh, keys = mesh_of(), jax.random.split(jax.random.key(0), count)
    ws = [jax.random.normal(key, (WIDTH, WIDTH)) / math.sqrt(WIDTH) for key in keys]
    x = jnp.ones((BATCH, WIDTH))
    stacked = jnp.stack(ws)

    def plain_loss(ws: Any, x: Any) -> Any:
        if scanned:
            x, _ = lax.scan(lambda x, w: (jax.nn.relu(x @ w), None), x, ws)
        else:
            for w in ws:
                x = jax.nn.relu(x @ w)
        return lax.psum(jnp.sum(x), "x")

    def plain() -> Any:
        step = jax.value_and_grad(lambda *args: plain_loss(*args))
        specs = (P(), P("x"))
        return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=(P(), P())))

    def one(x: Any, w: Any, names: tuple[str, str]) -> Any:
        return nx.nn.relu(nx.dot(x, w, names[0]))

    def named_loss(ws: Any, x: Any) -> Any:
        if scanned:
            x, _ = nx.scan(
                lambda x, w: (nx.rename(one(x, w, ("even", "odd")), {"odd": "even"}), None), x, ws
            )
        else:
            for i, w in enumerate(ws):
                x = one(x, w, ("even", "odd") if i % 2 == 0 else ("odd", "even"))
        return nx.sum(x, x.dims)

    def named() -> Any:
        return nx.xmap(
            jax.value_and_grad(lambda *args: named_loss(*args)),
            axis_resources={"batch": "x"},
            mesh=mesh,
        )

    named_ws: Any = nx.named(stacked, [None, "even", "odd"])
    if not scanned:
        named_ws = [
            nx.named(w, ["even", "odd"] if i % 2 == 0 else ["odd", "even"])
            for i, w in enumerate(ws)
        ]
    named_x = nx.shard(nx.named(x, ["batch", "even"]), {"batch": "x"}, mesh)
    return {
        PLAIN: (plain, (stacked if scanned else ws, named_x.data)),
        NAMED: (named, (named_ws, named_x)),
    }


def names(count: int) -> Mapping[str, Program]:
    """Arrays with this number of axis names, one of them sharded: exponentials, a product of arrays in two orders, a mean over half of them."""
    mesh, order = mesh_of(), [f"n{i}" for i in range(count)]
    shape = (8, *(2 if i < 8 else 1 for i in range(1, count)))
    x = jnp.ones(shape)
    args = nx.shard((nx.named(x, order), nx.named(x.transpose(), order[::-1])), {"n0": "x"}, mesh)

    def plain_body(x: Any, y: Any) -> Any:
        z = jnp.exp(x) * y.transpose() + jnp.tanh(x)
        return jnp.mean(z, tuple(range(1, 1 + count // 2)))

    def plain() -> Any:
        specs = (P("x"), P(*[None] * (count - 1), "x"))
        return jax.jit(
            jax.shard_map(
                lambda *args: plain_body(*args), mesh=mesh, in_specs=specs, out_specs=P("x")
            )
        )

    def named_body(x: Any, y: Any) -> Any:
        return nx.mean(nx.exp(x) * y + nx.tanh(x), tuple(order[1 : 1 + count // 2]))

    def named() -> Any:
        return nx.xmap(lambda *args: named_body(*args), axis_resources={"n0": "x"}, mesh=mesh)

    return {PLAIN: (plain, [arg.data for arg in args]), NAMED: (named, args)}


def parameters(count: int) -> Mapping[str, Program]:
    """A step of gradient descent on this number of parameters, each sharded over the devices."""
    mesh = mesh_of()
    one = nx.shard(nx.named(jnp.ones(8), ["n"]), {"n": "x"}, mesh)
    params = {f"p{i}": one for i in range(count)}
    raw = dict.fromkeys(params, one.data)

    def plain() -> Any:
        step = lambda params, grads: jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)  # noqa: E731
        return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x")))

    def named() -> Any:
        def step(params: Any, grads: Any) -> Any:
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads, is_leaf=is_array)

        return nx.xmap(step, axis_resources={"n": "x"}, mesh=mesh)

    def is_array(leaf: Any) -> bool:
        return isinstance(leaf, nx.NamedArray)

    return {PLAIN: (plain, (raw, raw)), NAMED: (named, (params, params))}


def devices(count: int) -> Mapping[str, Program]:
    """Value and gradient of two layers, with the batch sharded over this number of devices."""
    mesh = AbstractMesh((count,), ("x",), (AxisType.Auto,))
    w1, w2, x = (
        jax.ShapeDtypeStruct(shape, jnp.float32)
        for shape in ((WIDTH, 64), (64, WIDTH), (count, WIDTH))
    )

    def plain() -> Any:
        def loss(w1: Any, w2: Any, x: Any) -> Any:
            return lax.psum(jnp.sum(jax.nn.relu(x @ w1) @ w2), "x")

        specs = (P(), P(), P("x"))
        step = jax.value_and_grad(loss, (0, 1))
        return jax.jit(jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=(P(), P())))

    def named() -> Any:
        def loss(w1: Any, w2: Any, x: Any) -> Any:
            return nx.sum(nx.dot(nx.nn.relu(nx.dot(x, w1, "in")), w2, "hidden"), ("batch", "out"))

        axes = (["in", "hidden"], ["hidden", "out"], ["batch", "in"])
        step = jax.value_and_grad(loss, (0, 1))
        return nx.xmap(step, axes, ([], axes[:2]), axis_resources={"batch": "x"}, mesh=mesh)

    return {PLAIN: (plain, (w1, w2, x)), NAMED: (named, (w1, w2, x))}


CURVES = {
    "layers": Curve("layers, unrolled", (4, 8, 16, 32, 64, 96), functools.partial(layers, False)),
    "scanned": Curve("layers, scanned", (4, 8, 16, 32, 64, 96), functools.partial(layers, True)),
    "names": Curve("names per array", (2, 4, 8, 12, 16), names),
    "parameters": Curve(
        "parameters", (10, 100, 1_000, 3_000, 10_000), parameters, largest=1_000, compiled=3_000
    ),
    "devices": Curve("devices", (8, 64, 512, 4_096, 65_536), devices, stages=STAGES[:2]),
}


# --- measuring ----------------------------------------------------------------------------------------------------------


# Interpreter frames between two depths of the stack for alternating rounds.
APART = 29


def at_depth(frames: int, run: Callable[[], Any]) -> Any:
    """Call `run()` with this number of additional frames around it."""
    return at_depth(frames - 1, run) if frames else run()


def measure(program: Program, stages: Sequence[str]) -> dict[str, float]:
    """Seconds of processor time of every stage, once, with cold caches."""
    make, args = program
    function = make()
    jax.clear_caches()
    gc.collect()
    seconds: dict[str, float] = {}

    def timed(stage: str, run: Callable[[], Any]) -> Any:
        begin = time.process_time()
        result = run()
        seconds[stage] = time.process_time() - begin
        return result

    traced = timed("trace", lambda: function.trace(*args))
    lowered = timed("lower", traced.lower)
    if "compile" in stages:
        timed("compile", lowered.compile)
    if "call" in stages:
        seconds["call"] = call_of(lambda: function(*args))
    return seconds


def call_of(call: Callable[[], Any]) -> float:
    """The median seconds of processor time of the calling thread, with warm caches."""
    jax.block_until_ready(call())
    calls = list[float]()
    end = time.thread_time() + 1
    while len(calls) < 10 or (len(calls) < 200 and time.thread_time() < end):
        begin = time.thread_time()
        result = call()
        calls.append(time.thread_time() - begin)
        jax.block_until_ready(result)
        del result
    return statistics.median(calls)


def curve_of(curve: Curve, rounds: int) -> dict[str, dict[str, dict[int, float]]]:
    """The median seconds by stage, program and size, for this number of rounds."""
    found: dict[str, dict[str, dict[int, float]]] = {
        stage: {PLAIN: {}, NAMED: {}, NOISE: {}} for stage in curve.stages
    }
    for size in curve.sizes:
        programs, stages = (
            dict(curve.programs(size)),
            (curve.stages if size <= curve.compiled else curve.stages[:2]),
        )
        if size <= curve.largest:
            programs[NOISE] = programs[PLAIN]
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
        if size == curve.sizes[0]:
            for program in programs.values():
                measure(program, STAGES[:1])  # computed once per process
        for round_ in range(rounds if size <= curve.largest else 1):
            for name in list(programs)[:: 1 if round_ % 2 == 0 else -1]:
                one = functools.partial(measure, programs[name], stages)
                taken[name].append(at_depth(APART * round_, one))
        for stage in stages:
            for name, times in taken.items():
                found[stage][name][size] = statistics.median(each[stage] for each in times)
    return found


def slope(points: Mapping[int, float]) -> float:
    """The slope of the line through the last three points, in logarithms."""
    last = list(points.items())[-3:]
    xs, ys = ([math.log(pair[i]) for pair in last] for i in (0, 1))
    x, y = statistics.mean(xs), statistics.mean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum(
        (a - x) ** 2 for a in xs
    )


def rows(curve: Curve, found: Mapping[str, Mapping[str, Mapping[int, float]]]) -> Iterator[str]:
    """A row of a Markdown table for every stage: first and last point, the slopes, and the noise."""
    for stage, by_program in found.items():
        plain, named, again = (by_program[program] for program in (PLAIN, NAMED, NOISE))
        noise = [again[size] / plain[size] for size in again]
        first, *_, last = plain
        ends = " | ".join(
            f"{plain[size] * 1e3:.3g} ms | {named[size] / plain[size]:.2f}"
            for size in (first, last)
        )
        slopes = f"{slope(plain):.2f} | {slope(named):.2f}"
        yield (
            f"| {curve.title} | {stage} | {first:,} to {last:,} | {ends} | {slopes} |"
            f" {min(noise):.2f} to {max(noise):.2f} |"
        )


def draw(curves: Mapping[str, Any], path: pathlib.Path) -> None:
    """All curves in one picture: a column per curve, a row per stage; namedax solid, plain JAX dashed."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "growth", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(1, len(curves), figsize=(3 * len(curves), 3), squeeze=False)
    for axis, (name, found) in zip(axes[0], curves.items(), strict=True):
        for i, (stage, by_program) in enumerate(found.items()):
            for program, style in ((NAMED, "o-"), (PLAIN, "--")):
                points = by_program[program]
                label = stage if program == NAMED else None
                seconds = [value * 1e3 for value in points.values()]
                axis.loglog(
                    [int(size) for size in points],
                    seconds,
                    style,
                    color=f"C{i}",
                    label=label,
                    markersize=3,
                    linewidth=1,
                )
        axis.set_xlabel(CURVES[name].title)
        shown = CURVES[name].sizes[::2]
        axis.set_xticks(shown, [f"{size:,}" for size in shown])
        for one in (axis.xaxis, axis.yaxis):
            one.set_minor_formatter(NullFormatter())
    axes[0][0].set_ylabel("milliseconds of processor time")
    axes[0][0].legend(fontsize="small")
    figure.suptitle("namedax (solid) and plain JAX (dashed)", fontsize="medium")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Print the table and write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--curves", nargs="+", choices=CURVES, default=list(CURVES))
    parser.add_argument("--rounds", type=int, default=3, help="rounds of every program")
    picture = pathlib.Path(__file__).parent.parent / "docs" / "growth.svg"
    parser.add_argument("--picture", type=pathlib.Path, default=picture, help="path of the picture")
    parser.add_argument(
        "--points", type=pathlib.Path, help="file with the measurements, read and extended"
    )
    options = parser.parse_args()
    print(
        "| varied size | stage | from, to | plain | namedax | plain | namedax | slope, plain |"
        " namedax | noise |\n|" + "---|" * 10
    )
    curves: dict[str, Any] = (
        json.loads(options.points.read_text()) if options.points and options.points.exists() else {}
    )
    for name in options.curves:
        curves[name] = curve_of(CURVES[name], options.rounds)
        for row in rows(CURVES[name], curves[name]):
            print(row, flush=True)
        if options.points:
            options.points.write_text(json.dumps(curves))
    draw({name: curves[name] for name in CURVES if name in curves}, options.picture)


if __name__ == "__main__":
    main()
