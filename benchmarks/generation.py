"""Generation with a KV cache, by names and by hand with `shard_map`.

    python benchmarks/generation.py                # the table of docs/performance.md
    python benchmarks/generation.py --capacity 64  # a smaller cache

The programs add tokens to every row of a batch, with Llama of `namedax.models` and random weights,
in one compiled loop. By hand, the step has positional axes, one `lax.scan` that carries the cache
of all layers, and a `psum` for each contraction over a sharded axis; `lax.fori_loop` repeats it. A
third program calls the step by hand once for each token. All caches are donated. The table has the
collectives of a step, the bytes that one device sends for a token of one row, the temporary memory
beside the cache, and tokens per second. The programs alternate, and their tokens are equal.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from matrix_optimizers import bytes_sent, collectives_text

import namedax as nx
from namedax.models import generate, llama

BATCH = 8
CONFIG = llama.Config(
    vocab=512, embed=256, hidden=512, layers=4, heads=8, kv_heads=4, key=32, tied=True, remat=False
)  # fmt: skip
#: The layouts of generate.py that are also written by hand; uneven heads are not.
TITLES = ["one device", "batch", "heads", "batch+heads", "cache", "cache+heads"]

# --- by hand --------------------------------------------------------------------------------------

# The order of the axes of each parameter, and of the cache.
AXES: dict[str, Any] = {
    "embed": ("vocab", "embed"),
    "layers": {
        "norm1": ("layers", "embed"),
        "query": ("layers", "embed", "kv_heads", "group", "key"),
        "key": ("layers", "embed", "kv_heads", "key"),
        "value": ("layers", "embed", "kv_heads", "key"),
        "out": ("layers", "kv_heads", "group", "key", "embed"),
        "norm2": ("layers", "embed"),
        "gate": ("layers", "embed", "hidden"),
        "up": ("layers", "embed", "hidden"),
        "down": ("layers", "hidden", "embed"),
    },
    "norm": ("embed",),
}
CACHE = ("layers", "batch", "kv_heads", "cache", "key")


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    """RMSNorm."""
    return x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + CONFIG.epsilon) * scale


def rotate(x: jax.Array, position: jax.Array) -> jax.Array:
    """Rotary positions of `x[batch, ..., key]`."""
    half = CONFIG.key // 2
    angle = position[:, None] * CONFIG.theta ** (-jnp.arange(half) / half)
    angle = angle.reshape(len(x), *(1,) * (x.ndim - 2), half)
    a, b = x[..., :half], x[..., half:]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def step_by_hand(resources: dict[str, str]) -> Callable[..., Any]:
    """Return a step for the blocks of one device."""
    heads, slots = resources.get("kv_heads"), resources.get("cache")
    vocab = resources.get("vocab")

    def psum(x: Any, axis: str | None) -> Any:
        return lax.psum(x, axis) if axis else x

    def first(axis: str | None, size: int) -> Any:
        return lax.axis_index(axis) * size if axis else 0

    def look_up(table: jax.Array, token: jax.Array) -> jax.Array:
        index = token - first(vocab, len(table))
        is_here = (index >= 0) & (index < len(table))
        return psum(jnp.where(is_here[:, None], table[jnp.where(is_here, index, 0)], 0), vocab)

    def write(cache: jax.Array, layer: Any, new: jax.Array, index: jax.Array) -> jax.Array:
        rows, own = (jnp.arange(n) for n in cache.shape[1:3])
        at = cache.at[layer, rows[:, None], own, index[:, None]]
        return at.set(new, mode="drop", unique_indices=True)

    def attend(query: jax.Array, keys: jax.Array, values: jax.Array, index: Any) -> jax.Array:
        scores = jnp.einsum("bhgd,bhsd->bhgs", query, keys) * CONFIG.key**-0.5
        allowed = jnp.arange(keys.shape[2]) <= index[:, None]
        scores = jnp.where(allowed[:, None, None], scores, -1e30)
        if not slots:
            return jnp.einsum("bhgs,bhsd->bhgd", jax.nn.softmax(scores, -1), values)
        weights = jnp.exp(scores - lax.pmax(jnp.max(scores, -1, keepdims=True), slots))
        result = jnp.einsum("bhgs,bhsd->bhgd", weights, values)
        both = jnp.concatenate([result, jnp.sum(weights, -1, keepdims=True)], -1)
        both = lax.psum(both, slots)
        return both[..., :-1] / both[..., -1:]

    def choose(logits: jax.Array) -> jax.Array:
        best, token = jnp.max(logits, -1), jnp.argmax(logits, -1).astype(jnp.int32)
        if not vocab:
            return token
        token = token + first(vocab, logits.shape[-1])
        is_best = best == lax.pmax(best, vocab)
        return lax.pmin(jnp.where(is_best, token, CONFIG.vocab), vocab)

    def step(p: Any, keys: Any, values: Any, lengths: Any, token: Any) -> Any:
        index = lengths - first(slots, keys.shape[3])
        # Slots of other devices have an index out of range that does not wrap around.
        target = jnp.where((index >= 0) & (index < keys.shape[3]), index, keys.shape[3])

        def layer(carry: Any, inputs: Any) -> Any:
            x, keys, values = carry
            number, w = inputs
            h = norm(x, w["norm1"])
            query = rotate(jnp.einsum("be,ehgd->bhgd", h, w["query"]), lengths)
            keys = write(
                keys, number, rotate(jnp.einsum("be,ehd->bhd", h, w["key"]), lengths), target
            )
            values = write(values, number, jnp.einsum("be,ehd->bhd", h, w["value"]), target)
            h = attend(query, keys[number], values[number], index)
            x = x + psum(jnp.einsum("bhgd,hgde->be", h, w["out"]), heads)
            h = norm(x, w["norm2"])
            h = jax.nn.silu(h @ w["gate"]) * (h @ w["up"])
            x = x + psum(h @ w["down"], heads)
            return (x, keys, values), None

        x = look_up(p["embed"], token)
        numbers = jnp.arange(CONFIG.layers)
        (x, keys, values), _ = lax.scan(layer, (x, keys, values), (numbers, p["layers"]))
        logits = norm(x, p["norm"]) @ p["embed"].T
        return choose(logits), keys, values, lengths + 1

    return step


def compiled_by_hand(title: str, params: Any, capacity: int, count: int | None) -> tuple[Any, Any]:
    """Compile the step by hand, or a loop of `count` steps.

    It is returned with its weights, empty cache and first token.
    """
    mesh, resources = generate.layout(title)

    def spec(axes: tuple[str, ...]) -> P:
        return P(*(resources.get(axis) for axis in axes))

    def is_axes(leaf: Any) -> bool:
        return isinstance(leaf, tuple)

    specs = jax.tree.map(spec, AXES, is_leaf=is_axes)
    renamed = nx.rename(params, {"embed_fsdp": "embed"})
    arrays = jax.tree.map(
        lambda axes, x: nx.positional(x, list(axes)), AXES, renamed, is_leaf=is_axes
    )
    cache_spec, row = spec(CACHE), spec(("batch",))
    shape = (CONFIG.layers, BATCH, CONFIG.kv_heads, capacity, CONFIG.key)
    empty = [jnp.zeros(shape), jnp.zeros(shape)]
    args = (arrays, *empty, jnp.zeros(BATCH, jnp.int32), jnp.arange(BATCH, dtype=jnp.int32))
    in_specs = (specs, cache_spec, cache_spec, row, row)
    step = step_by_hand(resources)
    found_spec = P(None, *row)
    if count is not None:
        one = step

        def step(p: Any, keys: Any, values: Any, lengths: Any, token: Any) -> Any:
            def add(i: Any, carry: Any) -> Any:
                found, token, *cache = carry
                token, *cache = one(p, *cache, token)
                return (found.at[i].set(token), token, *cache)

            # It varies as the tokens do.
            found = jnp.zeros((count, *token.shape), token.dtype) + 0 * token
            found, _, *cache = lax.fori_loop(0, count, add, (found, token, keys, values, lengths))
            return (found, *cache)

    if mesh is not None:
        shardings = jax.tree.map(
            lambda each: NamedSharding(mesh, each), in_specs, is_leaf=lambda x: isinstance(x, P)
        )
        args = jax.device_put(args, shardings)
        first = row if count is None else found_spec
        out_specs = (first, cache_spec, cache_spec, row)
        step = jax.shard_map(step, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    return jax.jit(step, donate_argnums=(1, 2, 3)).lower(*args).compile(), args


# --- by names -------------------------------------------------------------------------------------


def compiled_by_name(title: str, params: Any, capacity: int, count: int) -> tuple[Any, Any]:
    """Compile the loop of `namedax.models.generate`, and return it with its arguments."""
    mesh, resources = generate.layout(title)
    generator = generate.Generator(llama, CONFIG, capacity, resources, mesh)
    cache = llama.init_cache(CONFIG, BATCH, capacity)
    numbers = nx.arange(BATCH, axis="batch", dtype=jnp.int32)
    keys = nx.random.fold_in(jax.random.key(0), numbers)
    rows = generate.Rows(keys, 0 * numbers + count, 0 * numbers)
    args = (params, cache, numbers, rows)
    if mesh is not None:
        args = nx.shard(args, resources, mesh)
    return jax.jit(generator.extend(count, False), donate_argnums=1).lower(*args).compile(), args


# --- the table ------------------------------------------------------------------------------------


def runs(
    title: str, params: Any, capacity: int, count: int
) -> dict[str, tuple[Any, Callable[[], Any]]]:
    """Return, for each program, what is compiled and a function that generates tokens."""
    by_hand, hand = compiled_by_hand(title, params, capacity, count)
    called, _ = compiled_by_hand(title, params, capacity, None)
    by_name, named = compiled_by_name(title, params, capacity, count)

    def cache_by_hand() -> Any:
        return jax.block_until_ready([x.copy() for x in hand[1:4]])

    def run_by_hand() -> Any:
        cache, begin = cache_by_hand(), time.perf_counter()
        found = jax.block_until_ready(by_hand(hand[0], *cache, hand[4]))[0]
        return time.perf_counter() - begin, np.asarray(found)

    def run_called() -> Any:
        cache, token, found = cache_by_hand(), hand[4], []
        begin = time.perf_counter()
        for _ in range(count):
            token, *cache = called(hand[0], *cache, token)
            found.append(token)
        jax.block_until_ready((token, cache))
        return time.perf_counter() - begin, np.stack(found)

    def run_by_name() -> Any:
        params, cache, *rest = named
        cache, begin = jax.block_until_ready(jax.tree.map(jnp.copy, cache)), time.perf_counter()
        found = jax.block_until_ready(by_name(params, cache, *rest))[0]
        return time.perf_counter() - begin, np.asarray(nx.positional(found, ["new", "batch"]))

    return {
        "by hand": (called, run_by_hand),  # a loop has the collectives of its step
        "by hand, call by call": (called, run_called),
        "namedax": (by_name, run_by_name),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--capacity", type=int, default=512, help="slots of the cache")
    parser.add_argument("--tokens", type=int, default=16, help="tokens of a row in a round")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of every program")
    options = parser.parse_args()
    params = llama.init(CONFIG, jax.random.key(0))
    print("| layout | program | collectives of a step | sent per token | memory | tokens/s |")
    print("|---|---|---|---|---|---|")
    for title in TITLES:
        programs = runs(title, params, options.capacity, options.tokens)
        tokens = {name: run()[1] for name, (_, run) in programs.items()}
        for name, found in tokens.items():
            np.testing.assert_array_equal(found, tokens["by hand"], err_msg=f"{title}, {name}")
        seconds: dict[str, list[float]] = {name: [] for name in programs}
        for number in range(options.rounds):
            for name in list(programs)[:: 1 if number % 2 else -1]:
                seconds[name].append(programs[name][1]()[0])
        speed = {
            name: BATCH * options.tokens / float(np.median(each)) for name, each in seconds.items()
        }
        for name, (compiled, _) in programs.items():
            text = (
                f"{speed[name]:.0f}"
                if name == "by hand"
                else f"{speed[name] / speed['by hand']:.2f}"
            )
            memory = compiled.memory_analysis().temp_size_in_bytes / 2**20
            print(
                f"| {title if name == 'by hand' else ''} | {name} | {collectives_text(compiled)}"
                f" | {bytes_sent(compiled) / BATCH / 1024:.2f} KiB | {memory:.2f} MiB | {text} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
