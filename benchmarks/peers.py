"""The same small programs in namedax, Haliax, Penzai, coordax, xarray, einops, einx, Equinox, Flax
NNX and plain jnp, for docs/about/comparison.md. Programs of PyTorch's DTensor are in peers_torch.py.

    python benchmarks/peers.py [--rounds 40]

Libraries alternate within one run, and every number is a multiple of plain jnp in that run. jnp
runs twice, and the difference of its second measurement from 1 is the noise. Calls and traces are
measured in processor time of the calling thread, imports in that of the process, compilations in
elapsed time. A library that is not installed, or that fails on this JAX, is reported and omitted
(`pip install -e '.[peers]'`).
"""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"{os.getenv('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import argparse
import importlib.metadata
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from timing import interleaved

import namedax as nx

warnings.simplefilter("ignore")  # of the other libraries
SIZES = {"batch": 64, "embed": 32, "hidden": 48, "out": 16}
AXES = {
    "x": ("batch", "embed"),
    "up": ("embed", "hidden"),
    "down": ("hidden", "out"),
    "bias": ("hidden",),
}
PLACES = {"batch": "data", "hidden": "model"}
VALUES = {
    name: (
        jnp.sin(1.0 + jnp.arange(float(jnp.prod(jnp.array([SIZES[a] for a in axes]))))).reshape(
            [SIZES[a] for a in axes]
        )
    )
    for name, axes in AXES.items()
}


class Rival:
    """One library: its way to name an array, and the programs in its API. None if the library cannot express a program."""

    add: Callable[..., Any] | None = None
    mean: Callable[..., Any] | None = None
    dot: Callable[..., Any] | None = None
    loss: Callable[..., Any] | None = None

    def arrays(self, values: dict[str, jax.Array] = VALUES) -> dict[str, Any]:
        return {name: self.named(values[name], AXES[name]) for name in values}

    def named(self, value: Any, axes: tuple[str, ...]) -> Any:
        return value


class Jnp(Rival):
    package = "jax"

    def add(self, a):
        return a["up"] + a["bias"]

    def mean(self, a):
        return jnp.mean(a["x"], axis=0)

    def dot(self, a):
        return a["x"] @ a["up"]

    def loss(self, a):
        hidden = jnp.tanh(a["x"] @ a["up"] + a["bias"])
        return jnp.mean((hidden @ a["down"]) ** 2)


class Namedax(Rival):
    package = "namedax"

    def named(self, value, axes):
        return nx.named(value, list(axes))

    def add(self, a):
        return a["up"] + a["bias"]

    def mean(self, a):
        return nx.mean(a["x"], "batch")

    def dot(self, a):
        return nx.dot(a["x"], a["up"], "embed")

    def loss(self, a):
        hidden = nx.tanh(nx.dot(a["x"], a["up"], "embed") + a["bias"])
        return nx.mean(nx.dot(hidden, a["down"], "hidden") ** 2, ("batch", "out"))


class Haliax(Rival):
    package = "haliax"

    def __init__(self):
        import haliax

        self.hax = haliax

    def named(self, value, axes):
        return self.hax.named(value, axes)

    def add(self, a):
        return a["up"] + a["bias"]

    def mean(self, a):
        return self.hax.mean(a["x"], axis="batch")

    def dot(self, a):
        return self.hax.dot(a["x"], a["up"], axis="embed")

    def loss(self, a):
        hidden = self.hax.tanh(self.hax.dot(a["x"], a["up"], axis="embed") + a["bias"])
        return self.hax.mean(self.hax.dot(hidden, a["down"], axis="hidden") ** 2).scalar()


class Penzai(Rival):
    package = "penzai"

    def __init__(self):
        from penzai import pz

        self.pz = pz.nx

    def named(self, value, axes):
        return self.pz.wrap(value, *axes)

    def over(self, function, *operands, axis):
        return self.pz.nmap(function)(*(operand.untag(axis) for operand in operands))

    def add(self, a):
        return a["up"] + a["bias"]

    def mean(self, a):
        return self.over(jnp.mean, a["x"], axis="batch")

    def dot(self, a):
        return self.over(jnp.dot, a["x"], a["up"], axis="embed")

    def loss(self, a):
        hidden = self.pz.nmap(jnp.tanh)(
            self.over(jnp.dot, a["x"], a["up"], axis="embed") + a["bias"]
        )
        out = self.over(jnp.dot, hidden, a["down"], axis="hidden")
        return (out**2).untag("batch", "out").mean().unwrap()


class Coordax(Penzai):
    package = "coordax"

    def __init__(self):
        import coordax

        self.cx = coordax

    def named(self, value, axes):
        return self.cx.field(value, *axes)

    def over(self, function, *operands, axis):
        return self.cx.cmap(function)(*(operand.untag(axis) for operand in operands))

    def loss(self, a):
        hidden = self.cx.cmap(jnp.tanh)(
            self.over(jnp.dot, a["x"], a["up"], axis="embed") + a["bias"]
        )
        out = self.over(jnp.dot, hidden, a["down"], axis="hidden")
        return self.cx.cmap(jnp.mean)((out**2).untag("batch", "out")).data


class Xarray(Rival):
    """Over NumPy, as usual: no gradient, no compilation."""

    package = "xarray"
    loss = None

    def __init__(self):
        import xarray

        self.xr = xarray

    def named(self, value, axes):
        return self.xr.DataArray(jax.device_get(value), dims=axes)

    def add(self, a):
        return (a["up"] + a["bias"]).values

    def mean(self, a):
        return a["x"].mean("batch").values

    def dot(self, a):
        return self.xr.dot(a["x"], a["up"], dim="embed").values


class Einops(Rival):
    package = "einops"
    add = None

    def __init__(self):
        import einops

        self.e = einops

    def mean(self, a):
        return self.e.reduce(a["x"], "batch embed -> embed", "mean")

    def dot(self, a):
        return self.e.einsum(a["x"], a["up"], "batch embed, embed hidden -> batch hidden")

    def loss(self, a):
        hidden = jnp.tanh(self.dot(a) + a["bias"])
        out = self.e.einsum(hidden, a["down"], "batch hidden, hidden out -> batch out")
        return self.e.reduce(out**2, "batch out ->", "mean")


class Einx(Rival):
    package = "einx"

    def __init__(self):
        import einx

        self.e = einx

    def add(self, a):
        return self.e.add("embed hidden, hidden", a["up"], a["bias"])

    def mean(self, a):
        return self.e.mean("[batch] embed", a["x"])

    def dot(self, a):
        return self.e.dot("batch [embed], [embed] hidden -> batch hidden", a["x"], a["up"])

    def loss(self, a):
        hidden = jnp.tanh(self.e.add("batch hidden, hidden", self.dot(a), a["bias"]))
        out = self.e.dot("batch [hidden], [hidden] out -> batch out", hidden, a["down"])
        return self.e.mean("[batch out]", out**2)


class Equinox(Rival):
    """Modules over positional arrays: the two layers are `eqx.nn.Linear`."""

    package = "equinox"

    def __init__(self):
        import equinox

        self.eqx = equinox

    def arrays(self, values=VALUES):
        def linear(weight, bias):
            ins, outs = weight.shape
            key = jax.random.key(0)
            layer = self.eqx.nn.Linear(ins, outs, use_bias=bias is not None, key=key)
            layer = self.eqx.tree_at(lambda made: made.weight, layer, weight.T)
            return layer if bias is None else self.eqx.tree_at(lambda m: m.bias, layer, bias)

        up, down = linear(values["up"], values["bias"]), linear(values["down"], None)
        return {"x": values["x"], "up": up, "down": down}

    def loss(self, a):
        def row(x):
            return a["down"](jnp.tanh(a["up"](x)))

        return jnp.mean(jax.vmap(row)(a["x"]) ** 2)


class Nnx(Rival):
    """Modules over positional arrays: the two layers are `nnx.Linear`."""

    package = "flax"

    def __init__(self):
        from flax import nnx

        self.nnx = nnx

    def arrays(self, values=VALUES):
        def linear(weight, bias):
            ins, outs = weight.shape
            layer = self.nnx.Linear(ins, outs, use_bias=bias is not None, rngs=self.nnx.Rngs(0))
            layer.kernel = self.nnx.Param(weight)
            if bias is not None:
                layer.bias = self.nnx.Param(bias)
            return layer

        up, down = linear(values["up"], values["bias"]), linear(values["down"], None)
        graph, state = self.nnx.split((up, down))
        self.graph = graph
        return {"x": values["x"], "state": state}

    def loss(self, a):
        up, down = self.nnx.merge(self.graph, a["state"])
        return jnp.mean(down(jnp.tanh(up(a["x"]))) ** 2)


def rivals() -> dict[str, Rival]:
    found: dict[str, Rival] = {}
    for make in (Jnp, Jnp, Namedax, Haliax, Penzai, Coordax, Xarray, Einops, Einx, Equinox, Nnx):
        try:
            rival = make()
        except ImportError as error:
            print(f"{make.package} is omitted: {error}")
            continue
        found["jnp again" if make is Jnp and found else make.__name__.lower()] = rival
    return found


def show(title: str, seconds: dict[str, float]) -> None:
    """One row: multiples of jnp's time."""
    base = seconds["jnp"]
    print(f"{title} (jnp: {1e6 * base:.0f} us)")
    print(
        "   "
        + ", ".join(
            f"{name} {value / base:.2f}" for name, value in seconds.items() if name != "jnp"
        ),
        flush=True,
    )


def check(found: dict[str, Rival]) -> None:
    """Check that all libraries compute the same, in the order of AXES. Omit those that fail on this JAX."""
    want = Jnp().loss(VALUES)
    for name, rival in list(found.items()):
        if rival.loss is None:
            continue
        try:
            have = rival.loss(rival.arrays())
        except AttributeError as error:  # Haliax 1.4.dev453 with JAX 0.12
            print(f"{name} is omitted, since it fails with JAX {jax.__version__}: {error}")
            del found[name]
            continue
        assert jnp.allclose(jnp.asarray(have), want, rtol=1e-5), name


def calls(found: dict[str, Rival], rounds: int) -> None:
    for operation in ("add", "mean", "dot", "loss"):
        turns = {}
        for name, rival in found.items():
            run, a = getattr(rival, operation), rival.arrays()
            if run is not None:
                turns[name] = lambda run=run, a=a: jax.tree.leaves(run(a))
        calls = 10 if operation == "loss" else 100
        show(
            f"eager {operation}",
            interleaved(turns, rounds=rounds, calls=calls, clock=time.thread_time),
        )
    turns = {}
    for name, rival in found.items():
        if rival.loss is not None:
            step, a = jax.jit(jax.value_and_grad(rival.loss)), rival.arrays()
            turns[name] = lambda step=step, a=a: jax.tree.leaves(step(a))
    show(
        "jitted value and gradient, a call",
        interleaved(turns, rounds=rounds, calls=100, clock=time.thread_time),
    )


def tracing(found: dict[str, Rival], rounds: int) -> None:
    trace: dict[str, Callable[[], Any]] = {}
    build: dict[str, Callable[[], Any]] = {}
    for name, rival in found.items():
        if rival.loss is None:
            continue
        a = rival.arrays()

        def fresh(rival=rival, a=a):  # a new function, so that no cache applies
            return jax.jit(jax.value_and_grad(lambda b: rival.loss(b))).trace(a)

        trace[name] = lambda fresh=fresh: fresh().jaxpr and ()
        build[name] = lambda fresh=fresh: fresh().lower().compile() and ()
    show("tracing value and gradient", interleaved(trace, rounds=rounds, clock=time.thread_time))
    show("tracing, lowering and compiling", interleaved(build, rounds=max(rounds // 4, 5)))


def sent(found: dict[str, Rival]) -> None:
    """The communication of a step with the batch over one mesh axis and the hidden units over the other, from the same sharded arguments."""
    mesh = jax.make_mesh((4, 2), ("data", "model"), (AxisType.Auto,) * 2)
    print("value and gradient, batch on 4 devices and hidden units on 2: communication")
    for name, rival in found.items():
        if rival.loss is None or name == "jnp again":
            continue
        specs = {key: P(*(PLACES.get(axis) for axis in axes)) for key, axes in AXES.items()}
        placed = {
            key: jax.device_put(VALUES[key], NamedSharding(mesh, specs[key])) for key in VALUES
        }
        a = rival.arrays(placed)
        loss = (
            nx.xmap(rival.loss, axis_resources=PLACES, mesh=mesh)
            if name == "namedax"
            else rival.loss
        )
        compiled = jax.jit(jax.value_and_grad(loss)).lower(a).compile()
        print(f"   {name}: {nx.hlo.summary(compiled)}", flush=True)


def attention(found: dict[str, Rival]) -> None:
    """Causal self-attention with 256 positions over all eight devices: the communication, and the temporary memory of a device."""
    mesh = jax.make_mesh((8,), ("data",), (AxisType.Auto,))
    shape, axes = (2, 256, 4, 16), ("batch", "pos", "head", "d")
    place = NamedSharding(mesh, P(None, "data"))
    qkv = [
        jax.device_put(jnp.sin(jnp.arange(2.0 * 256 * 4 * 16) * rate).reshape(shape), place)
        for rate in (1, 2, 3)
    ]

    def by_name(q, k, v):
        mixed = nx.nn.dot_product_attention(q, k, v, axis="pos", features="d", is_causal=True)
        return nx.sum(mixed**2, ...)

    programs: dict[str, tuple[Callable[..., Any], Any]] = {
        "jnp": (
            lambda q, k, v: jnp.sum(jax.nn.dot_product_attention(q, k, v, is_causal=True) ** 2),
            qkv,
        ),
        "namedax": (
            nx.xmap(by_name, axis_resources={"pos": "data"}, mesh=mesh),
            nx.named(qkv, [list(axes)] * 3),
        ),
    }
    if "haliax" in found:
        import haliax as hax

        pos, key = hax.make_axes(pos=256, key=256)

        def by_haliax(q, k, v):
            k, v = (array.rename({"pos": "key"}) for array in (k, v))
            mask = hax.nn.attention.causal_mask(pos, key)
            return hax.sum(
                hax.nn.attention.dot_product_attention(key, "d", q, k, v, mask=mask) ** 2
            ).array

        programs["haliax"] = by_haliax, [hax.named(array, axes) for array in qkv]
    print(
        "causal attention, 256 positions on 8 devices: communication, and temporary memory of a"
        " device"
    )
    values = []
    for name, (program, arguments) in programs.items():
        compiled = jax.jit(program).lower(*arguments).compile()
        values.append(float(compiled(*arguments)))
        memory = compiled.memory_analysis().temp_size_in_bytes
        print(f"   {name}: {nx.hlo.summary(compiled)}; {memory / 1024:.0f} KiB", flush=True)
    assert all(abs(value - values[0]) < 1e-4 * abs(values[0]) for value in values), values


def imports(found: dict[str, Rival], rounds: int) -> None:
    """Processor time of an import in addition to jax, in a separate process."""
    names = [
        "jax",
        *dict.fromkeys(rival.package for rival in found.values() if rival.package != "jax"),
    ]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            code = (
                "import jax, time; t = time.process_time(); import"
                f" {'penzai.pz' if name == 'penzai' else name}; print(time.process_time() - t)"
            )
            run = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code],
                capture_output=True,
                encoding="utf-8",
                check=True,
            )
            seconds[name].append(float(run.stdout.split()[-1]))
    print(
        "import after jax, milliseconds of processor time: "
        + ", ".join(f"{n} {1e3 * min(s):.0f}" for n, s in seconds.items() if n != "jax")
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=40, help="rounds of every library (%(default)s)"
    )
    rounds = parser.parse_args().rounds
    start, found = time.perf_counter(), rivals()
    versions = {
        rival.package: importlib.metadata.version(rival.package)
        for rival in found.values()
        if rival.package != "namedax"
    }
    print(
        f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    )
    check(found)
    calls(found, rounds)
    tracing(found, rounds)
    sent(found)
    attention(found)
    imports(found, max(rounds // 5, 2))
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
