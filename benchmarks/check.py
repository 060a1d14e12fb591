"""Compare the cost of namedax with the recorded cost: `make bench-check`.

    python benchmarks/check.py            # fails where something costs more than recorded
    python benchmarks/check.py --counts   # without times, as continuous integration does
    python benchmarks/check.py --record   # writes benchmarks/counts.json anew
    python benchmarks/check.py --only eager --record   # those whose labels begin with a word

Counts do not depend on the load of a machine: equations of a traced program, operations of the
program given to XLA, instructions, bytes and temporary memory of the compiled program, programs
compiled by calls, and Python functions that a repeated call enters. On the versions of JAX and
Python that they were recorded on, counts must not grow; on other versions, the ratio to the rival
must not.

Times are ratios to the same program by hand, or in plain `jnp`: the two run in turn, and the
shortest time of each counts. They may be larger than recorded by a tolerance.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.util
import json
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# One module of LLVM's and few of its optimisations: nothing that is counted depends on them, and
# compiling takes the time here.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    " --xla_cpu_parallel_codegen_split_count=1",
)
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))

import eager as eager_benchmark
import jax
import jax.numpy as jnp
import transformer_model as model
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.sharding import PartitionSpec as P

import namedax as nx

RECORD = pathlib.Path(__file__).with_name("counts.json")
VERSIONS = {"jax": jax.__version__, "python": ".".join(map(str, sys.version_info[:2]))}
# A count may be larger than recorded by this factor: on the same versions, and its ratio to the
# rival's on others.
SAME, OTHER = 1.0, 1.15
# Ratios of times, and by which factor each may be larger than recorded; two runs of one version
# differ by up to 15 %.
TRACING, CALLING = "time to trace, by hand = 1", "time of a call, rival = 1"
TOLERANCE = {TRACING: 1.25, CALLING: 1.4}
ENTERED = "Python functions entered"
LAYOUTS = ("single", "tp", "fsdp+tp+sp", "accumulation")
CONFIG = model.Config(layers=2, embed=32, kv_heads=4, group=2, key=8, hidden=64, vocab=64, pos=32)

Counts = dict[str, tuple[float, float | None]]  # namedax's, and the rival's where it has one


# --- programs -------------------------------------------------------------------------------------------------------------


def equations(jaxpr: Any) -> int:
    """The number of equations of a traced program, those within others included; what is called often counts once."""
    seen = set[int]()

    def count(value: Any) -> int:
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            inner = getattr(value, "jaxpr", value)
            if id(inner) in seen:
                return 0
            seen.add(id(inner))
            return sum(1 + sum(map(count, eqn.params.values())) for eqn in inner.eqns)
        return sum(map(count, value)) if isinstance(value, (tuple, list)) else 0

    return count(jaxpr)


def of_program(make: Callable[[], Any], args: Any) -> dict[str, float]:
    """What is counted of one program."""
    jax.clear_caches()
    traced = make().trace(*args)
    lowered = traced.lower()
    compiled = lowered.compile()
    text = compiled.as_text()
    return {
        "equations": equations(traced.jaxpr),
        "operations given to XLA": len(
            re.findall(r"^\s+(?:%|return|stablehlo|func)", lowered.as_text(), re.MULTILINE)
        ),
        "instructions": len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", text, re.MULTILINE)),
        "collectives": sum(1 for _ in nx.hlo.collectives(compiled)),
        "bytes sent": sum(c.wire_bytes for c in nx.hlo.collectives(compiled)),
        "temporary bytes": compiled.memory_analysis().temp_size_in_bytes,
    }


def ratio_of_times(
    own: Callable[[], Any],
    rival: Callable[[], Any],
    rounds: int,
    number: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the shortest time of `own` in units of that of `rival`; the two run in turn.

    Args:
      own: a call.
      rival: a call.
      rounds: how often each is timed.
      number: how often each runs while it is timed.
      clock: the clock; `time.thread_time` for work of this thread alone, such as tracing, which
        other processes then do not distort.
    """
    times: dict[Callable[[], Any], list[float]] = {own: [], rival: []}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for call, found in times.items():
                start = clock()
                for _ in range(number):
                    result = call()
                jax.block_until_ready(result)
                found.append(clock() - start)
    finally:
        gc.enable()
    return min(times[own]) / min(times[rival])


def entered(call: Callable[[], Any]) -> int:
    """Count the Python functions that a call enters."""
    count = 0

    def event(_frame: Any, kind: str, _argument: Any) -> None:
        nonlocal count
        count += kind == "call"

    gc.collect()
    gc.disable()  # JAX registers a function that each collection enters
    sys.setprofile(event)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def repeatedly(
    own: Callable[[], Any], rival: Callable[[], Any], rounds: int, number: int, timed: bool
) -> Counts:
    """What is counted of two calls that have been made before, and the ratio of their times."""
    counts: Counts = {ENTERED: (entered(own), entered(rival))}
    if timed:
        counts[CALLING] = ratio_of_times(own, rival, rounds, number), None
    return counts


def anew(make: Callable[[], Any], args: Any) -> Callable[[], None]:
    """Return a call that traces a program of which JAX remembers nothing."""

    def trace() -> None:
        jax.clear_caches()
        make().trace(*args)

    return trace


def transformer() -> Any:
    """The module of the benchmark, which has the name of the example that it imports."""
    spec = importlib.util.spec_from_file_location(
        "transformer_benchmark", pathlib.Path(__file__).with_name("transformer.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def programs(timed: bool) -> Iterator[tuple[str, Counts]]:
    """The transformer's step under some layouts, by name and by hand."""
    benchmark = transformer()
    for layout in LAYOUTS:
        rivals = benchmark.rivals_of(layout, CONFIG, 8)
        pair = rivals[benchmark.NAMED], rivals[benchmark.BY_HAND]
        named, by_hand = (of_program(make, args) for make, args in pair)
        counts: Counts = {key: (value, by_hand[key]) for key, value in named.items()}
        if timed:
            tracing = [anew(make, args) for make, args in pair]
            counts[TRACING] = ratio_of_times(*tracing, rounds=5, clock=time.thread_time), None
        yield f"transformer, {layout}", counts


# --- calls ------------------------------------------------------------------------------------------------------------------


class Compilations:
    """How many programs XLA has compiled."""

    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration: float, **_: Any) -> None:
        self.count += event.endswith("backend_compile_duration")

    def of(self, call: Callable[[], Any]) -> int:
        """Those of a call."""
        before = self.count
        jax.block_until_ready(call())
        return self.count - before


def calls(compilations: Compilations, timed: bool) -> Iterator[tuple[str, Counts]]:
    """A mapped function of many arrays, against the same `jax.jit(jax.shard_map(...))`."""
    for n in (1, 20, 200):
        yield f"a call with {n} arrays", of_calls(compilations, n, timed)


def of_calls(compilations: Compilations, n: int, timed: bool) -> Counts:
    """What is counted of calls with `n` arrays."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    plain = [
        jax.device_put(jnp.ones((8, 2)), jax.sharding.NamedSharding(mesh, P("x"))) for _ in range(n)
    ]
    named = [nx.named(x, ["batch", "k"]) for x in plain]

    def body(xs: Any) -> Any:
        return [x + 1 for x in xs]

    def wrapped() -> Any:
        return nx.xmap(body, axis_resources={"batch": "x"}, mesh=mesh)

    by_hand, mapped = (
        jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(P("x"),), out_specs=P("x"))),
        wrapped(),
    )
    return {
        "compiled at first": (
            compilations.of(lambda: mapped(named)),
            compilations.of(lambda: by_hand(plain)),
        ),
        "compiled when wrapped again": (compilations.of(lambda: wrapped()(named)), None),
        **repeatedly(lambda: mapped(named), lambda: by_hand(plain), 20, 10, timed),
    }


def eager(compilations: Compilations, timed: bool) -> Iterator[tuple[str, Counts]]:
    """Eager operations, against those of `jnp`; and with other names, for which nothing is to be compiled."""
    x, y, v = jnp.ones((8, 16)), jnp.ones((16, 4)), jnp.ones((8,))

    def forms(b: str, k: str, m: str) -> dict[str, Callable[[], Any]]:
        nx_x, nx_y, nx_v = nx.named(x, [b, k]), nx.named(y, [k, m]), nx.named(v, [b])
        return {
            "x + x": lambda: nx_x + nx_x,
            "x + v": lambda: nx_x + nx_v,
            "x * 2.0": lambda: nx_x * 2.0,
            "exp": lambda: nx.exp(nx_x),
            "where": lambda: nx.where(nx_x > 0, nx_x, 0.0),
            "sum": lambda: nx.sum(nx_x, b),
            "max": lambda: nx.max(nx_x, k),
            "x[name, 3]": lambda: nx_x[k, 3],
            "dot": lambda: nx.dot(nx_x, nx_y, k),
            "einsum": lambda: nx.einsum(f"{{{b},{k}}},{{{k},{m}}}->{{{b},{m}}}", nx_x, nx_y),
            "softmax": lambda: nx.nn.softmax(nx_x, k),
        }

    plain: dict[str, Callable[[], Any]] = {
        "x + x": lambda: x + x,
        "x + v": lambda: x + v[:, None],
        "x * 2.0": lambda: x * 2.0,
        "exp": lambda: jnp.exp(x),
        "where": lambda: jnp.where(x > 0, x, 0.0),
        "sum": lambda: jnp.sum(x, 0),
        "max": lambda: jnp.max(x, 1),
        "x[name, 3]": lambda: x[:, 3],
        "dot": lambda: jnp.dot(x, y),
        "einsum": lambda: jnp.einsum("bk,km->bm", x, y),
        "softmax": lambda: jax.nn.softmax(x, 1),
    }
    first, other = forms("batch", "k", "m"), forms("lines", "columns", "out")
    for name, call in first.items():
        call(), call(), plain[name](), plain[name]()
        counts = repeatedly(call, plain[name], 20, 200, timed)
        counts["compiled for other names"] = compilations.of(other[name]), None
        yield f"eager {name}", counts


# Functions of several kinds, whose cached jitted calls are the rivals: lifted, creating, random, along
# axes, and those that only check.
FUNCTIONS = (
    *("nx.lax.tanh", "nx.lax.top_k", "nx.linspace", "nx.zeros_like", "nx.nn.one_hot", "nx.diff"),
    *(
        "nx.quantile",
        "nx.random.normal",
        "nx.random.permutation",
        "nx.numpy.fft.fft",
        "nx.positional",
    ),
)


def repeated(compilations: Compilations, timed: bool) -> Iterator[tuple[str, Counts]]:
    """Eager loops and branches against `jax.lax`, and functions against their jitted calls, when they are repeated."""
    rivals = {f"eager {name}": pair[::-1] for name, pair in eager_benchmark.control().items()}
    recorded = eager_benchmark.table.recorded()
    for name in FUNCTIONS:
        found = eager_benchmark.pair(name, recorded[name])
        assert found is not None, name
        rivals[f"eager {name}"] = found
    for label, (own, rival) in rivals.items():
        own(), own(), rival(), rival()
        compiled = compilations.of(own)
        number = 1 if compiled else 50
        counts = repeatedly(own, rival, 12, number, timed)
        counts["compiled when repeated"] = compiled, None
        yield label, counts


# --- against what was recorded --------------------------------------------------------------------------------------------


def more_than_recorded(label: str, counts: Counts, record: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for every count that has grown."""
    known = record["counts"].get(label)
    if known is None:
        yield f"{label}: not recorded; run `python benchmarks/check.py --record`."
        return
    same = all(record[key] == value for key, value in VERSIONS.items())
    for metric, (own, rival) in counts.items():
        own_known, rival_known = known[metric]
        if metric in TOLERANCE:
            limit = own_known * TOLERANCE[metric]
        elif same:
            limit = own_known * SAME
        elif rival is None or not rival_known:
            limit = own_known * OTHER + 1
        else:
            limit = max(own_known / rival_known, 1) * rival * OTHER
        if own > limit:
            yield (
                f"{label}: {metric} is {own:.4g}, with {own_known:g} recorded (the rival: {rival},"
                f" recorded {rival_known})."
            )


def main() -> int:
    """Prints all counts; 1 where one has grown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record", action="store_true", help="write the counts instead of comparing with them"
    )
    parser.add_argument(
        "--only", default="", help="counts whose labels begin so: a call, eager, transformer"
    )
    parser.add_argument("--counts", action="store_true", help="no times")
    options = parser.parse_args()
    timed = not options.counts
    if options.record and not timed:
        parser.error("A record has times: leave out --counts.")
    compilations = Compilations()
    found: dict[str, Counts] = {}
    parts: dict[Callable[[], Iterator[tuple[str, Counts]]], str] = {
        functools.partial(calls, compilations, timed): "a call",
        functools.partial(eager, compilations, timed): "eager",
        functools.partial(repeated, compilations, timed): "eager",
        functools.partial(programs, timed): "transformer",
    }
    for part, beginning in parts.items():
        if not beginning.startswith(options.only):
            continue
        for label, counts in part():
            found[label] = counts
            print(label)
            for metric, (own, rival) in counts.items():
                print(
                    f"    {metric:28s} {own:12.4g}"
                    + ("" if rival is None else f"   rival {rival:12g}")
                )
    record = json.loads(RECORD.read_text())
    others = {
        label: counts
        for label, counts in record["counts"].items()
        if not label.startswith(options.only)
    }
    if options.record:
        RECORD.write_text(json.dumps({**VERSIONS, "counts": others | found}, indent=1) + "\n")
        return 0
    grown = [
        line
        for label, counts in found.items()
        for line in more_than_recorded(label, counts, record)
    ]
    grown += [
        f"{label}: recorded, but not counted any more; record anew."
        for label in record["counts"].keys() - found.keys() - others.keys()
    ]
    print(
        "\n".join(grown)
        or f"\nNothing costs more than recorded (JAX {record['jax']}, Python {record['python']})."
    )
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
