"""One GPU: values against plain `jnp`, and the times of steps, compilation, attention, eager calls and `nx.profile`.

    python benchmarks/gpu.py [--json FILE] [--minutes 7] [--parts checks step ...]

It needs JAX with a GPU, the dependencies of namedax, and this checkout. Without a GPU it says so,
and runs at small sizes on the processor. The parts are:

- `checks`: values and gradients of named programs: named arrays under `jax.jit`, and mapped
  functions on a mesh of one device with Auto and with Explicit axes, against plain `jnp`.
- `step`: value and gradients of a transformer of four layers in bfloat16, in time and in the time
  of tracing, lowering and compiling, against `jax.jit` of the same model by hand; on a GPU also with
  JAX's fused attention.
- `attention`: forward and backward pass, with the algorithm of XLA and with the fused kernel,
  against `jax.nn.dot_product_attention`.
- `eager`: the operations of `eager.py` against `jnp`, in processor time of the calling thread.
- `profile`: `nx.profile` of the step, as a multiple of the predicted time.

The programs of a ratio alternate within one run, and the ratio is that of their medians. Each part
has a number of seconds. Whatever does not fit is printed as skipped, and so is a part that still
runs at the end. The exit status is 1 if a value differs or a program fails.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import _exit  # ends the process while XLA compiles
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples"))

import eager
import jax
import jax.numpy as jnp
import numpy as np
import transformer_by_hand as hand
import transformer_model as model
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from timing import Rival, compile_times, interleaved

import namedax as nx

OURS, BY_HAND = "namedax", "by hand"
#: Seconds of each part. Their sum is the default of `--minutes`.
SECONDS = {"checks": 110, "step": 140, "attention": 60, "eager": 40, "profile": 70}
#: Seconds after the end until the process stops, although a part still runs.
GRACE = 20
NARROW = jnp.bfloat16


class Skipped(Exception):
    """Something does not fit in the remaining time."""


class Run:
    """The results so far, and the time that is left.

    Attributes:
      rows: seconds of the two programs of each ratio.
      checks: the largest relative difference of each check.
      failures: the checks that failed.
      skipped: whatever did not fit in the time.
      on_gpu: True if there is a GPU.
    """

    def __init__(self, minutes: float, on_gpu: bool) -> None:
        self.rows: dict[str, tuple[float, float]] = {}
        self.checks: dict[str, float] = {}
        self.failures: list[str] = []
        self.skipped: list[str] = []
        self.on_gpu = on_gpu
        self.begin = time.perf_counter()
        self.scale = minutes * 60 / sum(SECONDS.values())
        self.end = self.part_end = self.begin + minutes * 60

    def seconds_left(self) -> float:
        """The seconds that are left for the running part."""
        return min(self.part_end, self.end) - time.perf_counter()

    def needs_time(self) -> None:
        """Raise if no time is left."""
        if self.seconds_left() <= 0:
            raise Skipped("no time is left")

    def run(self, part: str, function: Callable[[Run], None]) -> None:
        """Run a part, with its own number of seconds."""
        self.part_end = time.perf_counter() + SECONDS[part] * self.scale
        print(f"\n== {part} ({max(self.seconds_left(), 0):.0f} s)", flush=True)
        with self.step(part):
            function(self)

    def step(self, name: str) -> _Step:
        """A context for one item: it is skipped if no time is left, and an error is a failure."""
        return _Step(self, name)

    def skip(self, name: str, reason: str) -> None:
        """Report that something is skipped."""
        self.skipped.append(name)
        print(f"skipped: {name} ({reason})", flush=True)

    def record(self, name: str, ours: float, by_hand: float) -> None:
        """Print and keep the seconds of two programs."""
        self.rows[name] = (ours, by_hand)
        print(
            f"{name}: {text(ours)}, by hand {text(by_hand)}, ratio {ours / by_hand:.3f}", flush=True
        )

    def compare(self, name: str, rivals: Mapping[str, Callable[[], Any]], **options: Any) -> None:
        """Time two programs that alternate, in at most 30 rounds and a third of the time that is left."""
        for program in rivals.values():
            jax.block_until_ready(program())
        begin = time.perf_counter()
        for program in rivals.values():
            jax.block_until_ready(program())
        calls = options.get("calls", 1)
        round_ = max(time.perf_counter() - begin, 1e-6) * calls
        rounds = min(30, int(self.seconds_left() / 3 / round_))
        if rounds < 3:
            raise Skipped(f"three rounds of {round_:.1f} s do not fit")
        times = interleaved(rivals, rounds=rounds, **options)
        self.record(name, times[OURS], times[BY_HAND])

    def to_json(self) -> dict[str, Any]:
        """All results, as plain values."""
        device = jax.devices()[0]
        return {
            "jax": jax.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "platform": device.platform,
            "device": device.device_kind,
            "seconds": time.perf_counter() - self.begin,
            "ratios": {name: ours / by_hand for name, (ours, by_hand) in self.rows.items()},
            "times": {
                name: {OURS: ours, BY_HAND: by_hand} for name, (ours, by_hand) in self.rows.items()
            },
            "checks": dict(self.checks),
            "failures": list(self.failures),
            "skipped": list(self.skipped),
        }

    def finish(self, path: str | None) -> int:
        """Print the table, write the JSON, and return the exit status."""
        width = max([4, *map(len, self.rows)])
        print(f"\n{'part':{width}s} {OURS:>10s} {BY_HAND:>10s} {'ratio':>7s}")
        for name, (ours, by_hand) in self.rows.items():
            line = f"{text(ours):>10s} {text(by_hand):>10s} {ours / by_hand:7.3f}"
            print(f"{name:{width}s} {line}")
        print(f"\n{len(self.checks)} checks of values, {len(self.failures)} failures.")
        for name in self.failures:
            print(f"failed: {name}")
        for name in self.skipped:
            print(f"skipped: {name}")
        print(f"{time.perf_counter() - self.begin:.0f} s", flush=True)
        if path is not None:
            pathlib.Path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n")
        return 1 if self.failures else 0


class _Step:
    """See `Run.step`."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name = run, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> bool:
        if isinstance(error, Skipped):
            self.run.skip(self.name, str(error))
            return True
        if "RESOURCE_EXHAUSTED" in str(error):
            self.run.skip(self.name, "the device has too little memory")
            return True
        if isinstance(error, Exception):
            first = str(error).strip().splitlines()[:1]
            self.run.failures.append(f"{self.name}: {type(error).__name__}: {''.join(first)}")
            print(f"failed: {self.run.failures[-1]}", flush=True)
            return True
        return False


def text(seconds: float) -> str:
    """Seconds as text."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"


# --- checks of values -------------------------------------------------------------------------------

Check = tuple[Callable[..., Any], Callable[..., Any], Sequence[Any], Sequence[Any], Any]


def array(*shape: int, seed: int = 0) -> jax.Array:
    """Numbers between -1 and 1, all different, in no order."""
    size = int(np.prod(shape))
    values = np.random.default_rng(seed).permutation(size) / max(size - 1, 1) * 2 - 1
    return jnp.asarray(values.reshape(shape), jnp.float32)


def checks() -> dict[str, Check]:
    """The named program, the plain one, the arrays, their names, and those of the result."""
    x, y, z = array(16, 24), array(24, 8, seed=1), array(16, seed=2)
    q, k, v = (array(2, 32, 4, 16, seed=seed) for seed in range(3))
    seq = ["b", "pos", "h", "d"]
    indices = jnp.asarray([5, 0, 23, 5])

    def plain_scan(x: Any) -> Any:
        step = lambda carry, row: (jnp.sin(carry + row), carry * row)  # noqa: E731
        carry, rows = jax.lax.scan(step, jnp.zeros(24), x)
        return carry + rows

    def named_scan(x: Any) -> Any:
        step = lambda carry, row: (nx.sin(carry + row), carry * row)  # noqa: E731
        carry, rows = nx.scan(step, nx.zeros(named_shape={"k": 24}), x, axis="b")
        return carry + rows

    def named_attention(**options: Any) -> Callable[..., Any]:
        return functools.partial(
            nx.nn.dot_product_attention, axis="pos", features="d", is_causal=True, **options
        )

    attend = functools.partial(jax.nn.dot_product_attention, is_causal=True)
    return {
        "einsum": (
            lambda x, y: nx.einsum("{b,k},{k,m}->{b,m}", x, y),
            lambda x, y: jnp.einsum("bk,km->bm", x, y),
            (x, y),
            (["b", "k"], ["k", "m"]),
            ["b", "m"],
        ),
        "elementwise": (
            lambda x, z: nx.exp(x) * z + nx.where(x > 0, x, z),
            lambda x, z: jnp.exp(x) * z[:, None] + jnp.where(x > 0, x, z[:, None]),
            (x, z),
            (["b", "k"], ["b"]),
            ["b", "k"],
        ),
        "sum": (lambda x: nx.sum(x, "b"), lambda x: x.sum(0), (x,), (["b", "k"],), ["k"]),
        "max": (lambda x: nx.max(x, "b"), lambda x: x.max(0), (x,), (["b", "k"],), ["k"]),
        "std": (lambda x: nx.std(x, ("b", "k")), jnp.std, (x,), (["b", "k"],), []),
        "cumsum": (
            lambda x: nx.cumsum(x, "b"),
            lambda x: jnp.cumsum(x, 0),
            (x,),
            (["b", "k"],),
            ["b", "k"],
        ),
        "softmax": (
            lambda x: nx.nn.softmax(x, "b"),
            lambda x: jax.nn.softmax(x, 0),
            (x,),
            (["b", "k"],),
            ["b", "k"],
        ),
        "sort": (
            lambda x: nx.sort(x, "b"),
            lambda x: jnp.sort(x, 0),
            (x,),
            (["b", "k"],),
            ["b", "k"],
        ),
        "take": (
            lambda x: nx.take(x, nx.named(indices, ["pick"]), "k"),
            lambda x: x[:, indices],
            (x,),
            (["b", "k"],),
            ["b", "pick"],
        ),
        "scan": (named_scan, plain_scan, (x,), (["b", "k"],), ["b", "k"]),
        "nmap": (
            nx.nmap(lambda x: jnp.cumsum(jnp.sin(x))),
            lambda x: jnp.cumsum(jnp.sin(x), -1),
            (x,),
            (["b", None],),
            ["b", None],
        ),
        "rms_norm": (
            lambda x, z: nx.nn.rms_norm(x, "b", scale=z),
            lambda x, z: z[:, None] * x / jnp.sqrt(jnp.mean(x * x, 0) + 1e-6),
            (x, z),
            (["b", "k"], ["b"]),
            ["b", "k"],
        ),
        "random": (
            lambda x: x * nx.random.normal(jax.random.key(7), named_shape={"b": 16, "k": 24}),
            lambda x: x * jax.random.normal(jax.random.key(7), (16, 24)),
            (x,),
            (["b", "k"],),
            ["b", "k"],
        ),
        "attention": (named_attention(), attend, (q, k, v), (seq, seq, seq), seq),
        "attention, shared keys": (
            named_attention(heads="h", key_heads="kv"),
            attend,
            (q, k[:, :, :2], v[:, :, :2]),
            (seq, *(["b", "pos", "kv", "d"],) * 2),
            seq,
        ),
    }


def fused_checks() -> dict[str, Check]:
    """The fused kernel against JAX's other implementation, in bfloat16."""
    q, k, v = (array(2, 128, 8, 64, seed=seed).astype(NARROW) for seed in range(3))
    seq, few = ["b", "pos", "h", "d"], ["b", "pos", "kv", "d"]
    found: dict[str, Check] = {}
    for name, options in {
        "all keys": {},
        "causal": {"is_causal": True},
        "window": {"is_causal": True, "local_window_size": (20, 0)},
    }.items():
        named = functools.partial(
            nx.nn.dot_product_attention,
            axis="pos",
            features="d",
            implementation="cudnn",
            **options,
        )
        plain = functools.partial(jax.nn.dot_product_attention, implementation="xla", **options)
        found[f"fused attention, {name}"] = (named, plain, (q, k, v), (seq,) * 3, seq)
        found[f"fused attention, {name}, shared keys"] = (
            functools.partial(named, heads="h", key_heads="kv"),
            plain,
            (q, k[:, :, :2], v[:, :, :2]),
            (seq, few, few),
            seq,
        )
    return found


def one_device_mesh(kind: AxisType) -> Mesh:
    """A mesh of the first device."""
    return jax.make_mesh((1,), ("x",), (kind,), devices=jax.devices()[:1])


def placements(names: Sequence[Any]) -> dict[str, dict[str, Any] | None]:
    """The options of `nx.xmap`: None for named arrays without it. The first named axis is mapped."""
    first = next(name for axes in names for name in axes if name is not None)
    return {"named": None} | {
        kind.name: {"axis_resources": {first: "x"}, "mesh": one_device_mesh(kind)}
        for kind in (AxisType.Auto, AxisType.Explicit)
    }


def largest_difference(have: Any, want: Any) -> float:
    """The largest difference of two pytrees, relative to the largest number of each array."""
    worst = 0.0
    for a, b in zip(jax.tree.leaves(have), jax.tree.leaves(want), strict=True):
        a, b = (np.asarray(x, np.float64) for x in (a, b))
        if a.shape != b.shape:
            return float("inf")
        difference = np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(b), initial=0), 1e-3)
        worst = max(worst, float(difference)) if np.isfinite(difference) else float("inf")
    return worst


def difference_of(check: Check, options: Mapping[str, Any] | None) -> float:
    """The difference of value and gradients of the named program, mapped or not, to those of the plain one."""
    named, plain, arrays, names, out = check

    def on_positions(*xs: Any) -> Any:
        given = (nx.named(x, axes) for x, axes in zip(xs, names, strict=True))
        return nx.positional(named(*given), list(out))

    ours = on_positions
    if options is not None:
        axes = options["mesh"].axis_types
        if AxisType.Explicit in axes:
            places = NamedSharding(options["mesh"], P())
            arrays = [jax.device_put(x, places) for x in arrays]
        ours = nx.xmap(named, tuple(map(list, names)), list(out), **options)
    weights = array(*jax.eval_shape(plain, *arrays).shape, seed=9)

    def value_and_gradients(function: Callable[..., Any]) -> Any:
        def loss(*xs: Any) -> Any:
            return jnp.sum(function(*xs).astype(jnp.float32) * weights)

        numbers = tuple(range(len(arrays)))
        return jax.jit(lambda *xs: (function(*xs), jax.grad(loss, numbers)(*xs)))(*arrays)

    return largest_difference(value_and_gradients(ours), value_and_gradients(plain))


def run_checks(run: Run) -> None:
    """Compare values and gradients."""
    wide, narrow = checks(), fused_checks() if run.on_gpu else {}
    # The products of both programs are exact enough to compare them.
    with jax.default_matmul_precision("highest"):
        for name, check in (wide | narrow).items():
            tolerance = 0.05 if name in narrow else 1e-4
            for label, options in placements(check[3]).items():
                title = f"{name}, {label}"
                with run.step(title):
                    run.needs_time()
                    check_value(run, title, difference_of(check, options), tolerance)
    print(f"{len(run.checks)} checks, {len(run.failures)} failures", flush=True)


def check_value(run: Run, name: str, difference: float, tolerance: float) -> None:
    """Keep a difference; a large one is a failure."""
    run.checks[name] = difference
    if not difference <= tolerance:
        run.failures.append(f"{name}: differs by {difference:.2g}, more than {tolerance:g}")
        print(f"failed: {run.failures[-1]}", flush=True)


# --- a transformer ----------------------------------------------------------------------------------

SMALL = model.Config(
    layers=4, embed=64, kv_heads=2, group=2, key=16, hidden=128, vocab=64, pos=64, remat=False
)
LARGE = model.Config(
    layers=4,
    embed=2048,
    kv_heads=8,
    group=2,
    key=128,
    hidden=5632,
    vocab=16384,
    pos=1024,
    remat=False,
)
BATCH_NAMES = ["batch", "pos"]


def named_loss(
    params: Any, tokens: Any, targets: Any, config: model.Config, implementation: str | None = None
) -> Any:
    """The cross-entropy of the model of `examples/`, whose activations stay narrow."""
    position = nx.arange(config.pos, axis="pos")

    def layer(x: Any, p: Any) -> tuple[Any, None]:
        query, key, value = model.project(x, p, position, config)
        query, key = query.astype(NARROW), key.astype(NARROW)  # rotary positions are float32
        attended = nx.nn.dot_product_attention(
            *(query, key, value),
            axis="pos",
            features="key",
            is_causal=True,
            implementation=implementation,
        )
        x = x + nx.einsum(model.WRITE.format("kv_heads,group,key"), attended, p["out"])
        return x + model.feed_forward(x, p), None

    x = nx.take(nx.rename(params["embed"], {"embed_fsdp": "embed"}), tokens, "vocab")
    x, _ = nx.scan(layer, nx.rename(x, {"pos": "pos_sp"}), params["layers"])
    x = nx.nn.rms_norm(x, "embed", scale=params["norm"])
    logits = nx.einsum(model.READ, x, params["unembed"]).astype(jnp.float32)
    return nx.mean(nx.nn.softmax_cross_entropy(logits, targets, "vocab"), ("batch", "pos"))


def loss_by_hand(
    params: Any, tokens: Any, targets: Any, implementation: str | None = None
) -> jax.Array:
    """The same on plain arrays."""
    position = jnp.arange(tokens.shape[1])

    def layer(x: Any, p: Any) -> tuple[Any, None]:
        query, key, value = hand.project(x, p, position, hand.PLAIN)
        query, key = query.astype(NARROW), key.astype(NARROW)
        if implementation is None:
            attended = hand.attention(query, key, value)
        else:
            heads = query.reshape(*query.shape[:2], -1, query.shape[-1])
            attended = jax.nn.dot_product_attention(
                heads, key, value, is_causal=True, implementation=implementation
            ).reshape(query.shape)
        x = x + jnp.einsum("bphgk,hgke->bpe", attended, p["out"])
        return x + hand.feed_forward(x, p, hand.PLAIN), None

    x, _ = jax.lax.scan(layer, params["embed"][tokens], params["layers"])
    logits = (hand.rms_norm(x, params["norm"]) @ params["unembed"]).astype(jnp.float32)
    return hand.cross_entropy(logits, targets, hand.PLAIN) / tokens.size


def programs_of_step(
    config: model.Config, batch: int, implementation: str | None
) -> dict[str, Rival]:
    """The function to compile, and its arguments, of both programs."""
    params = jax.jit(functools.partial(model.init, config))(jax.random.key(0))
    params = jax.tree.map(lambda x: x.astype(NARROW), params)
    tokens = jax.random.randint(jax.random.key(1), (2, batch, config.pos), 0, config.vocab)
    named = (params, *(nx.named(part, BATCH_NAMES) for part in tokens))

    def ours() -> Any:
        loss = functools.partial(named_loss, config=config, implementation=implementation)
        return nx.xmap(jax.value_and_grad(loss))

    def by_hand() -> Any:
        loss = functools.partial(loss_by_hand, implementation=implementation)
        return jax.jit(jax.value_and_grad(loss))

    return {OURS: (ours, named), BY_HAND: (by_hand, (raw_of(params), *tokens))}


def sizes(run: Run) -> tuple[model.Config, int]:
    """The sizes of the transformer, and its batch."""
    return (LARGE, 4) if run.on_gpu else (SMALL, 2)


def run_step(run: Run) -> None:
    """Time a step of the transformer, and its compilation."""
    config, batch = sizes(run)
    for implementation in (None, "cudnn") if run.on_gpu else (None,):
        name = "step of a transformer" + ("" if implementation is None else ", fused attention")
        seconds = None  # to compile both programs
        with run.step(name):
            run.needs_time()
            rivals = programs_of_step(config, batch, implementation)
            begin = time.perf_counter()
            compiled = {key: make().lower(*args).compile() for key, (make, args) in rivals.items()}
            seconds = time.perf_counter() - begin
            calls = {
                key: functools.partial(compiled[key], *args) for key, (_, args) in rivals.items()
            }
            (loss, grads), (want, want_grads) = (calls[key]() for key in (OURS, BY_HAND))
            check_value(run, f"{name}, loss", largest_difference(loss, want), 0.01)
            difference = largest_difference(raw_of(grads), want_grads)
            check_value(run, f"{name}, gradients", difference, 0.1)
            run.compare(name, calls)
        with run.step(f"compilation, {name}"):
            if seconds is None:
                raise Skipped("the step was not compiled")
            rounds = min(3, int(run.seconds_left() / 2 / seconds))
            if rounds < 1:
                raise Skipped(f"a round takes {seconds:.0f} s")
            times = compile_times(rivals, rounds)
            for i, what in enumerate(("tracing", "tracing, lowering and compiling")):
                run.record(f"{what}, {name}", times[OURS][i], times[BY_HAND][i])


def raw_of(tree: Any) -> Any:
    """The arrays without names, in their storage order."""
    return jax.tree.map(
        lambda x: x.data if isinstance(x, nx.NamedArray) else x,
        tree,
        is_leaf=lambda x: isinstance(x, nx.NamedArray),
    )


# --- attention --------------------------------------------------------------------------------------


def run_attention(run: Run) -> None:
    """Time attention and its gradient, for some lengths, with both implementations."""
    names = ["batch", "pos", "heads", "key"]
    lengths = (1024, 4096) if run.on_gpu else (64,)
    batch, heads, key = (2, 16, 128) if run.on_gpu else (2, 4, 16)
    for implementation in (None, "cudnn") if run.on_gpu else (None,):
        for length in lengths:
            shape = (batch, length, heads, key)
            arrays = tuple(
                jax.random.normal(one, shape, NARROW)
                for one in jax.random.split(jax.random.key(2), 3)
            )

            def plain(q: Any, k: Any, v: Any, which: str | None = implementation) -> Any:
                result = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=which)
                return jnp.sum(jnp.square(result.astype(jnp.float32)))

            def named(q: Any, k: Any, v: Any, which: str | None = implementation) -> Any:
                result = nx.nn.dot_product_attention(
                    *(q, k, v), axis="pos", features="key", is_causal=True, implementation=which
                )
                return nx.sum(nx.square(result.astype(jnp.float32)), tuple(names))

            given = tuple(nx.named(x, names) for x in arrays)
            ours = nx.xmap(jax.value_and_grad(named, (0, 1, 2)))
            by_hand = jax.jit(jax.value_and_grad(plain, (0, 1, 2)))
            name = f"{'attention' if implementation is None else 'fused attention'}, {length} positions"
            with run.step(name):
                run.needs_time()
                rivals = {
                    OURS: functools.partial(ours, *given),
                    BY_HAND: functools.partial(by_hand, *arrays),
                }
                difference = largest_difference(raw_of(rivals[OURS]()), rivals[BY_HAND]())
                check_value(run, name, difference, 0.05)
                run.compare(name, rivals, calls=5 if run.on_gpu else 1)


# --- eager calls, and the profile -------------------------------------------------------------------


def run_eager(run: Run) -> None:
    """Time operations that are called outside of compiled functions."""
    for name, (plain, named) in eager.cases().items():
        with run.step(name):
            run.needs_time()
            run.compare(name, {OURS: named, BY_HAND: plain}, calls=50, clock=time.thread_time)


def run_profile(run: Run) -> None:
    """Measure a step under JAX's profiler, and compare it with the prediction."""
    run.needs_time()
    config, batch = sizes(run)
    params, tokens, targets = programs_of_step(config, batch, None)[OURS][1]
    step = nx.xmap(
        jax.value_and_grad(functools.partial(named_loss, config=config)),
        axis_resources={"batch": "x"},
        mesh=one_device_mesh(AxisType.Auto),
    )
    profile = nx.profile(step, params, tokens, targets, steps=5)
    print(f"{profile.machine}\ncoverage of the busy time: {profile.coverage:.0%}")
    for operation, row in list(profile.by("operation").items())[:10]:
        print(f"  {operation}: measured {text(row.measured)}, predicted {text(row.predicted)}")
    run.record("nx.profile: measured, predicted", profile.measured, profile.predicted.total)


# --- the program ------------------------------------------------------------------------------------

PARTS: dict[str, Callable[[Run], None]] = {
    "checks": run_checks,
    "step": run_step,
    "attention": run_attention,
    "eager": run_eager,
    "profile": run_profile,
}


def has_gpu() -> bool:
    """Return True if the first device is a GPU."""
    return jax.default_backend() == "gpu"


def end_in_time(run: Run, part: Iterator[str], path: str | None, seconds: float) -> threading.Timer:
    """Start a clock that prints the results and ends the process, if a part runs for too long.

    Nothing in Python can interrupt XLA while it compiles.
    """

    def stop() -> None:
        for name in part:
            run.skip(name, "it ran longer than the program may, or did not begin")
        status = run.finish(path)
        sys.stdout.flush()
        _exit(status)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    return timer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts, or those that are selected."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", metavar="FILE", help="write all results to a file")
    parser.add_argument("--minutes", type=float, default=sum(SECONDS.values()) / 60)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    options = parser.parse_args(arguments)
    device = jax.devices()[0]
    print(f"jax {jax.__version__} on Python {sys.version.split()[0]}: {device.device_kind}")
    if not has_gpu():
        print(f"There is no GPU: small sizes run on {device.platform!r}, without the fused kernel.")
    run = Run(options.minutes, has_gpu())
    left = list(options.parts)
    timer = end_in_time(run, iter(left), options.json, options.minutes * 60 + GRACE)
    for part in options.parts:
        run.run(part, PARTS[part])
        left.remove(part)
    timer.cancel()
    return run.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
