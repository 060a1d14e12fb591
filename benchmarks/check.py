"""Counted costs of namedax against recorded counts: `make bench-check`.

    python benchmarks/check.py            # fails if a count exceeds the record
    python benchmarks/check.py --record   # writes benchmarks/counts.json

Counts do not depend on the load of the machine. They are: functions called by tracing, equations of a traced program,
operations passed to XLA, instructions, bytes and temporary memory of the compiled program, programs compiled by calls, and
Python functions entered by a call. Each has a reference count of the same program by hand, or in plain `jnp`. On the JAX and
Python versions of the record, counts must not grow. On other versions, the ratio to the reference must not grow.
"""

from __future__ import annotations

import argparse
import collections
import cProfile
import functools
import gc
import importlib.util
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# One LLVM module and few optimizations: the counts do not depend on them, and compilation dominates the run time.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1",
)
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))

import jax
import jax.numpy as jnp
import transformer_model as model
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.sharding import PartitionSpec as P

import namedax as nx

RECORD = pathlib.Path(__file__).with_name("counts.json")
VERSIONS = {"jax": jax.__version__, "python": ".".join(map(str, sys.version_info[:2]))}
# Allowed growth of a count: the count itself on the recorded versions, and its ratio to the reference on others.
SAME, OTHER = 1.0, 1.15
# The functions called by tracing depend slightly on earlier traces.
TRACING, ABOUT = "functions called to trace", 1.02
LAYOUTS = ("single", "tp", "fsdp+tp+sp", "accumulation")
CONFIG = model.Config(layers=2, embed=32, kv_heads=4, group=2, key=8, hidden=64, vocab=64, pos=32)

Counts = dict[str, tuple[float, float | None]]  # of namedax, and of the reference if it has one


# --- programs -------------------------------------------------------------------------------------------------------------


def equations(jaxpr: Any) -> int:
    """The number of equations of a traced program, with nested equations; a function that is called often counts once."""
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
    """The counts of one program."""
    entered = [entered_to_trace(make(), args) for _ in range(2)]  # the caches of axis names are empty the first time
    jax.clear_caches()
    traced = make().trace(*args)
    lowered = traced.lower()
    compiled = lowered.compile()
    text = compiled.as_text()
    return {
        TRACING: entered[1],
        "equations": equations(traced.jaxpr),
        "operations given to XLA": len(re.findall(r"^\s+(?:%|return|stablehlo|func)", lowered.as_text(), re.MULTILINE)),
        "instructions": len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", text, re.MULTILINE)),
        "collectives": sum(1 for _ in nx.hlo.collectives(compiled)),
        "bytes sent": sum(c.wire_bytes for c in nx.hlo.collectives(compiled)),
        "temporary bytes": compiled.memory_analysis().temp_size_in_bytes,
    }


def entered_to_trace(function: Any, args: Any) -> int:
    """The number of Python and C functions that tracing enters with empty JAX caches."""
    jax.clear_caches()
    gc.collect()
    gc.disable()
    profile = cProfile.Profile()
    try:
        profile.enable()
        function.trace(*args)
    finally:
        profile.disable()
        gc.enable()
    return sum(entry.callcount for entry in profile.getstats())


def transformer() -> Any:
    """Import the benchmark module, which has the same name as the example that it imports."""
    spec = importlib.util.spec_from_file_location("transformer_benchmark", pathlib.Path(__file__).with_name("transformer.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def programs() -> Iterator[tuple[str, Counts]]:
    """The transformer step under some layouts, by name and by hand."""
    benchmark = transformer()
    for layout in LAYOUTS:
        rivals = benchmark.rivals_of(layout, CONFIG, 8)
        named, by_hand = (of_program(make, args) for make, args in (rivals[benchmark.NAMED], rivals[benchmark.BY_HAND]))
        yield f"transformer, {layout}", {key: (value, by_hand[key]) for key, value in named.items()}


# --- calls ------------------------------------------------------------------------------------------------------------------


def entered(call: Callable[[], Any]) -> int:
    """The number of Python functions that a repeated call enters: the minimum of some tries."""
    for _ in range(3):
        jax.block_until_ready(call())
    tries = []
    for _ in range(5):
        found = collections.Counter[str]()
        gc.collect()
        gc.disable()
        sys.setprofile(lambda frame, event, argument, found=found: found.update((event,)))
        try:
            result = call()
        finally:
            sys.setprofile(None)
            gc.enable()
        jax.block_until_ready(result)
        tries.append(found["call"])
    return min(tries)


class Compilations:
    """Count the programs that XLA compiles."""

    def __init__(self) -> None:
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration: float, **_: Any) -> None:
        self.count += event.endswith("backend_compile_duration")

    def of(self, call: Callable[[], Any]) -> int:
        """The compilations of a call."""
        before = self.count
        jax.block_until_ready(call())
        return self.count - before


def calls(compilations: Compilations) -> Iterator[tuple[str, Counts]]:
    """A mapped function of many arrays, against the same `jax.jit(jax.shard_map(...))`."""
    for n in (1, 20, 200):
        yield f"a call with {n} arrays", of_calls(compilations, n)


def of_calls(compilations: Compilations, n: int) -> Counts:
    """The counts of calls with `n` arrays."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    plain = [jax.device_put(jnp.ones((8, 2)), jax.sharding.NamedSharding(mesh, P("x"))) for _ in range(n)]
    named = [nx.named(x, ["batch", "k"]) for x in plain]

    def body(xs: Any) -> Any:
        return [x + 1 for x in xs]

    def wrapped() -> Any:
        return nx.xmap(body, axis_resources={"batch": "x"}, mesh=mesh)

    by_hand, mapped = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(P("x"),), out_specs=P("x"))), wrapped()
    return {
        "compiled at first": (compilations.of(lambda: mapped(named)), compilations.of(lambda: by_hand(plain))),
        "compiled when wrapped again": (compilations.of(lambda: wrapped()(named)), None),
        "Python functions entered": (entered(lambda: mapped(named)), entered(lambda: by_hand(plain))),
    }


def eager(compilations: Compilations) -> Iterator[tuple[str, Counts]]:
    """Eager operations against the `jnp` operations; and with other axis names, which must not compile anything."""
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
        yield (
            f"eager {name}",
            {
                "Python functions entered": (entered(call), entered(plain[name])),
                "compiled for other names": (compilations.of(other[name]), None),
            },
        )


# --- comparison with the record --------------------------------------------------------------------------------------------


def more_than_recorded(label: str, counts: Counts, record: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for every count that has grown."""
    known = record["counts"].get(label)
    if known is None:
        yield f"{label}: not recorded; run `python benchmarks/check.py --record`."
        return
    same = all(record[key] == value for key, value in VERSIONS.items())
    for metric, (own, rival) in counts.items():
        own_known, rival_known = known[metric]
        if same:
            limit = own_known * (ABOUT if metric == TRACING else SAME)
        elif rival is None or not rival_known:
            limit = own_known * OTHER + 1
        else:
            limit = max(own_known / rival_known, 1) * rival * OTHER
        if own > limit:
            yield f"{label}: {metric} is {own:g}, with {own_known:g} recorded (the rival: {rival}, recorded {rival_known})."


def main() -> int:
    """Print all counts; return 1 if one has grown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the counts instead of comparing them")
    options = parser.parse_args()
    compilations = Compilations()
    found: dict[str, Counts] = {}
    for part in (functools.partial(calls, compilations), functools.partial(eager, compilations), programs):
        for label, counts in part():
            found[label] = counts
            print(label)
            for metric, (own, rival) in counts.items():
                print(f"    {metric:28s} {own:12g}" + ("" if rival is None else f"   rival {rival:12g}"))
    if options.record:
        RECORD.write_text(json.dumps({**VERSIONS, "counts": found}, indent=1) + "\n")
        return 0
    record = json.loads(RECORD.read_text())
    grown = [line for label, counts in found.items() for line in more_than_recorded(label, counts, record)]
    grown += [f"{label}: recorded, but not counted any more; record anew." for label in record["counts"].keys() - found.keys()]
    print("\n".join(grown) or f"\nNothing costs more than recorded (JAX {record['jax']}, Python {record['python']}).")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())
