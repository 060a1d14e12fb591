"""The transformer of `examples/`: the named program, the same step by hand under `jax.shard_map`, and XLA's partitioner.

    python benchmarks/transformer.py                                # every layout, and postponed
    reductions python benchmarks/transformer.py --layouts tp ring --rounds 4   # some of them,
    quickly python benchmarks/transformer.py --markdown                     # tables for
    docs/performance.md python benchmarks/transformer.py --wide                         # a wider
    model without rematerialization python benchmarks/transformer.py --uneven
    # 50,257 words, 12 heads, 13 sequences: uneven sizes python benchmarks/transformer.py --layer
    # one layer in bfloat16 on one device

For every layout it measures value and gradient inside the mapped body. The program by hand is
`transformer_by_hand.py`, written by an expert. The third program is `jax.jit` of the plain model on
parameters and tokens with the same sharding.

The columns are: collectives of one device, counted once per loop iteration, with their payload
(`namedax.hlo`); the bytes that a device transfers for them on a ring; FLOPs as counted by XLA, with
a loop body once; and temporary memory of a device. The time of a compiled step, of tracing, and of
tracing, lowering and compiling together are multiples of the program by hand. Programs alternate
within one run, and the table compares medians. If sizes do not divide, the named program uses them
unchanged, and the others use the next sizes that divide.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))

import jax
import jax.numpy as jnp
import transformer_by_hand as hand
import transformer_model as model
from jax import lax
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P
from timing import Rival, compile_times, interleaved
from transformer import EXPERTS, LAYOUTS, MIXTURES  # the example

import namedax as nx

BY_HAND, NAMED, PARTITIONED = "by hand", "namedax", "jit"
XMAP: dict[str, Any] = {}  # options of `nx.xmap` for the named program


# --- costs of a compiled program ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of one step of a compiled program on one device.

    Attributes:
      sent: the number of collectives of each kind and their payload in bytes, once per loop
        iteration.
      wire_bytes: the bytes that a device transfers for them.
      flops: as counted by XLA.
      memory: bytes of temporary memory.
    """

    sent: Mapping[str, tuple[int, int]]
    wire_bytes: int
    flops: float
    memory: int

    @classmethod
    def of(cls, compiled: jax.stages.Compiled) -> Cost:
        """The cost of a program."""
        sent: dict[str, tuple[int, int]] = {}
        wire = 0
        for collective in nx.hlo.collectives(compiled):
            times = collective.trips
            count, size = sent.get(collective.kind, (0, 0))
            sent[collective.kind] = (count + times, size + times * collective.bytes)
            wire += times * collective.wire_bytes
        analysis, memory = compiled.cost_analysis(), compiled.memory_analysis()
        return cls(sent, wire, analysis.get("flops", 0.0), memory.temp_size_in_bytes)

    def collectives(self) -> str:
        """The collectives in one line."""
        return (
            ", ".join(
                f"{count} {kind} ({size_text(size)})"
                for kind, (count, size) in sorted(self.sent.items())
            )
            or "none"
        )


def size_text(size: float) -> str:
    """A number of bytes as text."""
    return (
        f"{size:.0f} B"
        if size < 1024
        else f"{size / 2**10:.1f} KiB"
        if size < 2**20
        else f"{size / 2**20:.2f} MiB"
    )


# --- the layouts of the example -----------------------------------------------------------------------------------------


def devices_of(layout: str) -> int:
    """The number of devices of a layout."""
    return math.prod(LAYOUTS[layout][0].values())


def mesh_of(shape: Mapping[str, int]) -> Mesh | None:
    """A mesh of the first devices; None without axes."""
    if not shape:
        return None
    kinds = (AxisType.Auto,) * len(shape)
    return jax.make_mesh(
        tuple(shape.values()),
        tuple(shape),
        kinds,
        devices=jax.devices()[: math.prod(shape.values())],
    )


def layout_by_hand(layout: str, config: model.Config) -> hand.Layout:
    """The layout of the program by hand, with experts if the example has them."""
    own = dataclasses.replace(hand.LAYOUTS[layout], remat=config.remat)
    if layout not in MIXTURES:
        return own
    capacity = -(
        -5 * config.top_k * config.pos // (4 * EXPERTS)
    )  # a quarter more than an even load
    return dataclasses.replace(own, mixture=hand.Mixture(EXPERTS, config.top_k, capacity))


def rivals_of(
    layout: str, config: model.Config, batch: int, shape: Mapping[str, int] | None = None
) -> dict[str, Rival]:
    """The three programs of a layout, with sharded arguments, optionally on another mesh."""
    usual, resources = LAYOUTS[layout]
    shape = usual if shape is None else shape
    mesh, own = mesh_of(shape), layout_by_hand(layout, config)
    if own.mixture is not None:
        config = dataclasses.replace(
            config, experts=own.mixture.experts, capacity=own.mixture.capacity
        )
    if own.pipe is not None:
        config = dataclasses.replace(config, microbatches=own.microbatches)
    params, tokens, targets = arguments(config, batch)
    whole, *others = arguments(*rounded_up(config, batch, shape))
    raw = hand.place(unnamed(whole), *others, own, mesh)
    named = (params, nx.named(tokens, ["batch", "pos"]), nx.named(targets, ["batch", "pos"]))
    if mesh is not None:
        named = nx.shard(named, resources, mesh)

    def mapped() -> Any:
        loss = functools.partial(model.loss, config=config)
        return nx.xmap(jax.value_and_grad(loss), axis_resources=resources, mesh=mesh, **XMAP)

    return {
        BY_HAND: (lambda: hand.mapped(own, mesh), raw),
        NAMED: (mapped, named),
        PARTITIONED: (lambda: hand.partitioned(own, mesh), raw),
    }


def arguments(config: model.Config, batch: int) -> tuple[Any, Any, Any]:
    """Parameters, tokens and targets."""
    params = jax.jit(functools.partial(model.init, config))(jax.random.key(0))
    return params, *jax.random.randint(jax.random.key(1), (2, batch, config.pos), 0, config.vocab)


def rounded_up(
    config: model.Config, batch: int, shape: Mapping[str, int]
) -> tuple[model.Config, int]:
    """The next sizes that divide over a mesh of this shape."""

    def up(size: int, axis: str) -> int:
        return -(-size // shape.get(axis, 1)) * shape.get(axis, 1)

    sizes = {name: up(getattr(config, name), "model") for name in ("vocab", "kv_heads", "hidden")}
    return dataclasses.replace(config, **sizes), up(batch, "data")


def unnamed(params: Any) -> Any:
    """The arrays in their storage order."""
    return jax.tree.map(lambda x: x.data, params, is_leaf=lambda x: isinstance(x, nx.NamedArray))


HEADER = (
    "layout",
    "program",
    "collectives of a step",
    "sent",
    "flops",
    "memory",
    "step",
    "trace",
    "compile",
)


def measure(
    layout: str,
    config: model.Config,
    batch: int,
    rounds: int,
    compile_rounds: int,
    shape: Mapping[str, int] | None = None,
) -> Iterable[tuple[str, ...]]:
    """The rows of a layout: the numbers of the program by hand, and the others relative to them."""
    rivals = rivals_of(layout, config, batch, shape)
    compiled = {name: make().lower(*args).compile() for name, (make, args) in rivals.items()}
    costs = {name: Cost.of(program) for name, program in compiled.items()}
    build = compile_times(rivals, compile_rounds) if compile_rounds else {}
    calls = {name: functools.partial(compiled[name], *args) for name, (_, args) in rivals.items()}
    steps = interleaved(calls, rounds=rounds) if rounds else {}
    base = costs[BY_HAND]
    for name, cost in costs.items():
        cells = [
            layout if name == BY_HAND else "",
            name,
            cost.collectives(),
            size_text(cost.wire_bytes),
        ]
        if name == BY_HAND:
            cells += [
                f"{cost.flops / 1e6:.1f} M",
                size_text(cost.memory),
                f"{steps[name] * 1e3:.1f} ms" if steps else "",
            ]
            cells += [f"{seconds:.2f} s" for seconds in build.get(name, ())]
        else:
            cells += [
                f"{100 * (cost.flops / base.flops - 1):+.2f} %",
                f"{100 * (cost.memory / base.memory - 1):+.1f} %",
            ]
            cells += [f"{steps[name] / steps[BY_HAND]:.2f}" if steps else ""]
            cells += [
                f"{own / other:.2f}"
                for own, other in zip(build.get(name, ()), build.get(BY_HAND, ()), strict=True)
            ]
        yield tuple(cells) + ("",) * (len(HEADER) - len(cells))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], markdown: bool) -> None:
    """Print each row when it is ready, as Markdown or for the terminal."""
    if markdown:
        print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
        for row in rows:
            print(f"| {' | '.join(row)} |", flush=True)
        return
    # One line per collective, so that the table fits a terminal.
    print("  ".join(f"{title:{WIDTHS.get(title, 10)}s}" for title in header))
    for row in rows:
        columns = [cell.split(", ") for cell in row]
        for i in range(max(map(len, columns))):
            line = (
                f"{column[i] if i < len(column) else '':{WIDTHS.get(title, 10)}s}"
                for title, column in zip(header, columns, strict=True)
            )
            print("  ".join(line).rstrip(), flush=True)


WIDTHS = {
    "layout": 23,
    "program": 15,
    "collectives of a step": 34,
    "pattern": 32,
    "forward pass": 28,
    "with gradients": 28,
    "one layer, forward and backward": 36,
}


# --- postponed reductions --------------------------------------------------------------------------------------------------
# Three programs on weights sharded over "model": by hand with every sum where it is computed; by
# hand with each sum as late and as small as possible; and by name. The named program is written as
# the first form, and must communicate as the second one.

Weights = Mapping[str, Any]
MODEL = {"heads": "model", "hidden": "model"}
WEIGHT_NAMES = {
    **{key: ["embed", "heads", "key"] for key in ("query", "key", "value")},
    "out": ["heads", "key", "embed"],
    "up": ["embed", "hidden"],
    "down": ["hidden", "embed"],
}


def attend(h: Any, w: Weights) -> Any:
    """The contribution of a device to the result of attention."""
    query, key, value = (
        jnp.einsum("bpe,ehk->bphk", h, w[name]) for name in ("query", "key", "value")
    )
    return jnp.einsum("bphgk,hke->bpe", hand.attention(query[:, :, :, None], key, value), w["out"])


def feed(h: Any, w: Weights) -> Any:
    """The contribution of a device to the result of the feed-forward layer."""
    return jax.nn.silu(h @ w["up"]) @ w["down"]


def named_attend(x: nx.NamedArray, w: Weights) -> nx.NamedArray:
    """Attention by name."""
    query, key, value = (nx.dot(x, w[name], "embed") for name in ("query", "key", "value"))
    attended = nx.nn.dot_product_attention(
        query, key, value, axis="pos", features="key", is_causal=True
    )
    return nx.dot(attended, w["out"], ("heads", "key"))


def named_feed(x: nx.NamedArray, w: Weights) -> nx.NamedArray:
    """The feed-forward layer by name."""
    return nx.dot(nx.nn.silu(nx.dot(x, w["up"], "embed")), w["down"], "hidden")


@dataclasses.dataclass(frozen=True)
class Lazy:
    """One program in three forms, scalar functions of `x` and weights.

    Attributes:
      eager: by hand, every sum where it is computed.
      late: by hand, every sum as late as possible.
      named: by name.
      resources: the `axis_resources` of the named form.
    """

    eager: Callable[[Any, Weights], Any]
    late: Callable[[Any, Weights], Any]
    named: Callable[[Any, Weights], Any]
    resources: Mapping[str, str]


def lazy_programs() -> dict[str, Lazy]:
    """The programs."""
    psum = functools.partial(lax.psum, axis_name="model")
    enter = functools.partial(lax.pcast, axis_name="model", to="varying")

    def added(x: Any, w: Weights) -> Any:
        h = enter(x)
        return ((x + psum(attend(h, w)) + psum(feed(h, w))) ** 2).sum()

    def added_late(x: Any, w: Weights) -> Any:
        h = enter(x)
        return ((x + psum(attend(h, w) + feed(h, w))) ** 2).sum()

    def added_named(x: Any, w: Weights) -> Any:
        return nx.sum((x + named_attend(x, w) + named_feed(x, w)) ** 2, ("batch", "pos", "embed"))

    def sliced(x: Any, w: Weights) -> Any:
        return (psum(feed(enter(x), w))[:, -1] ** 2).sum()

    def sliced_late(x: Any, w: Weights) -> Any:
        return (psum(feed(enter(x), w)[:, -1]) ** 2).sum()

    def sliced_named(x: Any, w: Weights) -> Any:
        return nx.sum(named_feed(x, w)["pos", -1] ** 2, ("batch", "embed"))

    def renamed(x: Any, w: Weights) -> Any:
        whole, size = psum(feed(enter(x), w)), x.shape[1] // lax.axis_size("model")
        block = lax.dynamic_slice_in_dim(enter(whole), lax.axis_index("model") * size, size, 1)
        return psum((block**2).sum())

    def renamed_late(x: Any, w: Weights) -> Any:
        block = lax.psum_scatter(feed(enter(x), w), "model", scatter_dimension=1, tiled=True)
        return psum((block**2).sum())

    def renamed_named(x: Any, w: Weights) -> Any:
        return nx.sum(
            nx.rename(named_feed(x, w), {"pos": "pos_sp"}) ** 2, ("batch", "pos_sp", "embed")
        )

    return {
        "two sums that are added": Lazy(added, added_late, added_named, MODEL),
        "one element of a sum": Lazy(sliced, sliced_late, sliced_named, MODEL),
        "a sum renamed onto its mesh axis": Lazy(
            renamed, renamed_late, renamed_named, MODEL | {"pos_sp": "model"}
        ),
    }


LAZY_HEADER = ("pattern", "program", "forward pass", "sent", "with gradients", "sent")


def lazy_forms(lazy: Lazy, mesh: Mesh, gradients: bool) -> dict[str, Any]:
    """The three forms as compiled functions (or lowerable ones) of `x` and weights, with or without gradients of both."""

    def form(f: Callable[..., Any]) -> Callable[..., Any]:
        return jax.value_and_grad(f, (0, 1)) if gradients else f

    specs = {key: P(*(MODEL.get(name) for name in names)) for key, names in WEIGHT_NAMES.items()}
    out_specs: Any = (P(), (P(), specs)) if gradients else P()
    x_names = ["batch", "pos", "embed"]
    out_axes: Any = ([], (x_names, WEIGHT_NAMES)) if gradients else []
    forms: dict[str, Any] = {
        who: jax.jit(jax.shard_map(form(f), mesh=mesh, in_specs=(P(), specs), out_specs=out_specs))
        for who, f in (("by hand (early)", lazy.eager), ("by hand (late)", lazy.late))
    }
    options: dict[str, Any] = {"axis_resources": dict(lazy.resources), "mesh": mesh}
    return forms | {NAMED: nx.xmap(form(lazy.named), (x_names, WEIGHT_NAMES), out_axes, **options)}


def lazy_arguments(batch: int, pos: int, embed: int) -> tuple[jax.Array, dict[str, jax.Array]]:
    """`x` and weights."""
    sizes = {"embed": embed, "heads": 8, "key": embed // 8, "hidden": 2 * embed}
    keys = iter(jax.random.split(jax.random.key(0), len(WEIGHT_NAMES) + 1))
    weights = {
        key: jax.random.normal(next(keys), [sizes[name] for name in names]) / math.sqrt(embed)
        for key, names in WEIGHT_NAMES.items()
    }
    return jax.random.normal(next(keys), (batch, pos, embed)), weights


def lazy_rows(batch: int, pos: int, embed: int) -> Iterable[tuple[str, ...]]:
    """The communication of these programs."""
    mesh = mesh_of({"model": 4})
    assert mesh is not None
    arguments = lazy_arguments(batch, pos, embed)
    for title, lazy in lazy_programs().items():
        both = [lazy_forms(lazy, mesh, gradients) for gradients in (False, True)]
        for i, who in enumerate(both[0]):
            costs = [Cost.of(forms[who].lower(*arguments).compile()) for forms in both]
            cells = [
                cell for cost in costs for cell in (cost.collectives(), size_text(cost.wire_bytes))
            ]
            yield ("" if i else title, who, *cells)


# --- one layer ------------------------------------------------------------------------------------------------------------

LAYER_HEADER = (
    "one layer, forward and backward",
    "time",
    "to by hand",
    "FLOP/s",
    "of the peak",
    "memory",
)


def layer_rows(config: model.Config, batch: int, rounds: int) -> Iterable[tuple[str, ...]]:
    """One layer in bfloat16 on one device, and its fraction of the speed of a large matrix product."""
    narrow, names = jnp.bfloat16, ["batch", "pos_sp", "embed"]
    params = model.init(dataclasses.replace(config, layers=1), jax.random.key(0))["layers"]
    weights = {key: value[0].astype(narrow) for key, value in params.items()}
    shape = (batch, config.pos, config.embed)
    x, cotangent = (
        jax.random.normal(key, shape, narrow) for key in jax.random.split(jax.random.key(1))
    )

    def named_layer(x: Any, p: Any) -> Any:
        query, key, value = model.project(x, p, nx.arange(config.pos, axis="pos"), config)
        query, key = query.astype(narrow), key.astype(narrow)  # rotary positions are float32
        attended = nx.nn.dot_product_attention(
            query, key, value, axis="pos", features="key", is_causal=True
        )
        x = x + nx.einsum(model.WRITE.format("kv_heads,group,key"), attended, p["out"])
        return x + model.feed_forward(x, p)

    def named_step(x: Any, p: Any, cotangent: Any) -> Any:
        y, back = jax.vjp(named_layer, x, p)
        return y, back(nx.order_like(cotangent, y))

    def step(x: Any, p: Any, cotangent: Any) -> Any:
        y, back = jax.vjp(
            lambda x, p: hand.layer(x, p, jnp.arange(config.pos), hand.PLAIN)[0], x, p
        )
        return y, back(cotangent)

    raw = {key: value.data for key, value in weights.items()}
    programs = {
        BY_HAND: jax.jit(step).lower(x, raw, cotangent).compile(),
        NAMED: (
            nx.xmap(named_step)
            .lower(nx.named(x, names), weights, nx.named(cotangent, names))
            .compile()
        ),
    }
    side = 8192 if jax.default_backend() == "gpu" else 512
    square = jnp.ones((side, side), narrow)
    product = jax.jit(jnp.matmul).lower(square, square).compile()
    seconds = interleaved(
        {
            "peak": lambda: product(square, square),
            BY_HAND: lambda: programs[BY_HAND](x, raw, cotangent),
            NAMED: lambda: programs[NAMED](nx.named(x, names), weights, nx.named(cotangent, names)),
        },
        rounds=rounds,
        calls=3,
    )
    peak = 2 * side**3 / seconds["peak"]
    # Every weight is multiplied with every token, and every query with every key and value; the
    # backward pass doubles it.
    products = batch * config.pos * sum(value.size for value in raw.values() if value.ndim > 1)
    products += 2 * batch * config.pos**2 * config.kv_heads * config.group * config.key
    yield (
        f"a product of {side} x {side} matrices",
        f"{seconds['peak'] * 1e3:.2f} ms",
        "",
        f"{peak / 1e12:.2f} T",
        "1",
        "",
    )
    for name, program in programs.items():
        speed = 6 * products / seconds[name]
        yield (
            name,
            f"{seconds[name] * 1e3:.2f} ms",
            f"{seconds[name] / seconds[BY_HAND]:.3f}",
            f"{speed / 1e12:.2f} T",
            f"{speed / peak:.2f}",
            size_text(program.memory_analysis().temp_size_in_bytes),
        )


# --- the program ----------------------------------------------------------------------------------------------------------

SMALL = {
    "layers": 4,
    "batch": 16,
    "pos": 128,
    "embed": 128,
    "kv_heads": 4,
    "group": 2,
    "key": 16,
    "hidden": 384,
    "vocab": 256,
}
# Residuals are most of the memory here, because the layers are not recomputed.
WIDE = SMALL | {
    "batch": 8,
    "embed": 256,
    "kv_heads": 8,
    "group": 1,
    "key": 32,
    "hidden": 1024,
    "vocab": 2048,
}
# The vocabulary of GPT-2 and the number of heads of its smallest model; and a last batch.
UNEVEN = SMALL | {
    "layers": 2,
    "batch": 13,
    "pos": 32,
    "embed": 96,
    "kv_heads": 12,
    "group": 1,
    "key": 8,
    "vocab": 50257,
}
UNEVEN_LAYOUTS = {"dp": None, "tp": {"model": 8}, "dp+tp": None, "fsdp": None, "fsdp+tp+sp": None}
WIDE_LAYOUTS: dict[str, dict[str, int] | None] = {
    "dp": None,
    "tp": {"model": 8},
    "dp+tp": None,
    "fsdp": None,
}
LAYER_ON_CPU = SMALL | {"batch": 2, "embed": 256, "kv_heads": 2, "key": 64, "hidden": 512}
LAYER_ON_GPU = SMALL | {
    "batch": 4,
    "pos": 2048,
    "embed": 4096,
    "kv_heads": 8,
    "group": 4,
    "key": 128,
    "hidden": 14336,
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--layouts",
        nargs="*",
        choices=hand.LAYOUTS,
        default=None,
        help="default: all with enough devices",
    )
    parser.add_argument(
        "--layer", action="store_true", help="only one layer in bfloat16; always timed on a GPU"
    )
    parser.add_argument(
        "--wide", action="store_true", help="only a wider model without rematerialization"
    )
    parser.add_argument("--uneven", action="store_true", help="only uneven sizes")
    parser.add_argument(
        "--rounds", type=int, default=15, help="timing rounds of each step; 0: none"
    )
    parser.add_argument(
        "--compile-rounds", type=int, default=3, help="timing rounds of compilation; 0: none"
    )
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument(
        "--partitioning", default="manual", choices=("manual", "global"), help="of `nx.xmap`"
    )
    for name in SMALL:
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    options = parser.parse_args()
    XMAP["partitioning"] = options.partitioning
    print(f"jax {jax.__version__}, {jax.device_count()} {jax.default_backend()} devices\n")

    def config(preset: Mapping[str, int]) -> tuple[model.Config, int]:
        sizes = {
            name: preset[name] if getattr(options, name) is None else getattr(options, name)
            for name in preset
        }
        batch = sizes.pop("batch")
        return model.Config(**sizes, remat=preset is not WIDE), batch

    on_gpu = jax.default_backend() == "gpu"
    if options.wide or options.uneven:
        other, batch = config(WIDE if options.wide else UNEVEN)
        rows = (
            row
            for layout, shape in (WIDE_LAYOUTS if options.wide else UNEVEN_LAYOUTS).items()
            if options.layouts is None or layout in options.layouts
            for row in measure(layout, other, batch, options.rounds, options.compile_rounds, shape)
        )
        print_table(HEADER, rows, options.markdown)
        return
    if not options.layer:
        small, batch = config(SMALL)
        layouts = [name for name in hand.LAYOUTS if devices_of(name) <= jax.device_count()]
        chosen = layouts if options.layouts is None else options.layouts
        rows = (
            row
            for layout in chosen
            for row in measure(layout, small, batch, options.rounds, options.compile_rounds)
        )
        print_table(HEADER, rows, options.markdown)
        if options.layouts is None and jax.device_count() >= 4:
            print()
            print_table(LAZY_HEADER, lazy_rows(batch, small.pos, small.embed), options.markdown)
        print()
    if options.layer or on_gpu:
        print_table(
            LAYER_HEADER,
            layer_rows(*config(LAYER_ON_GPU if on_gpu else LAYER_ON_CPU), options.rounds),
            options.markdown,
        )


if __name__ == "__main__":
    main()
