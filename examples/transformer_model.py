"""A decoder-only language model over axis names: RMSNorm, rotary positions, grouped-query attention, SwiGLU or a mixture of
experts.

The model has no mesh and no axis number. An axis that is stored with one sharding and used with
another has two names: parameters are stored over `embed_fsdp` and read as `embed`, and positions
are named `pos_sp` between the layers. Without `axis_resources` this is only a renaming. In a
pipeline, the layers have a named axis too, `layers`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import namedax as nx


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the model.

    With `experts` each layer has that many feed-forward networks, and every token chooses `top_k`
    of them. `capacity` is the number of tokens of a sequence that an expert accepts; None accepts
    all that choose it. With `remat` a layer is recomputed in the backward pass, and only its input
    is a residual. With `microbatches` the layers are a pipeline.
    """

    layers: int = 4
    embed: int = 128
    kv_heads: int = 4
    group: int = 2
    key: int = 16
    hidden: int = 384
    vocab: int = 256
    pos: int = 128
    experts: int = 0
    top_k: int = 2
    capacity: int | None = None
    remat: bool = True
    microbatches: int = 0

    @property
    def stack(self) -> Any:
        """The axis of the layers: a name in a pipeline, and otherwise axis 0."""
        return "layers" if self.microbatches else 0

    def sizes(self) -> dict[str, int]:
        """The size of every axis of a parameter."""
        names = ("embed", "kv_heads", "group", "key", "hidden", "vocab")
        return {name: getattr(self, name) for name in names} | {
            "embed_fsdp": self.embed,
            "expert": self.experts,
            "route": self.experts,
        }


Params = dict[str, Any]


def init(config: Config, key: jax.Array) -> Params:
    """Parameters; the layers are stacked along a leading axis."""
    sizes, keys = config.sizes(), iter(jax.random.split(key, 10))

    def placed(array: jax.Array, order: Sequence[str | None]) -> nx.NamedArray:
        return nx.named(array, [config.stack or None if name is None else name for name in order])

    def weight(names: str, fan_in: int, layers: int | None = None) -> nx.NamedArray:
        named = names.split()
        shape = {name: sizes[name] for name in named}
        array = nx.random.normal(
            next(keys), () if layers is None else (layers,), named_shape=shape
        ) / math.sqrt(fan_in)
        order = named if layers is None else [None, *named]
        return placed(nx.positional(array, order), order)  # storage order

    def ones(*names: str | None) -> nx.NamedArray:
        return placed(
            jnp.ones([config.layers if name is None else sizes[name] for name in names]), names
        )

    n, attended = config.layers, config.kv_heads * config.group * config.key
    expert = "expert " if config.experts else ""
    router = {"router": weight("embed_fsdp route", config.embed, n)} if config.experts else {}
    return {
        "embed": weight("vocab embed_fsdp", config.embed),
        "layers": {
            "query": weight("embed_fsdp kv_heads group key", config.embed, n),
            "key": weight("embed_fsdp kv_heads key", config.embed, n),
            "value": weight("embed_fsdp kv_heads key", config.embed, n),
            "out": weight("kv_heads group key embed_fsdp", attended, n),
            **router,
            "gate": weight(f"{expert}embed_fsdp hidden", config.embed, n),
            "up": weight(f"{expert}embed_fsdp hidden", config.embed, n),
            "down": weight(f"{expert}hidden embed_fsdp", config.hidden, n),
            "norm1": ones(None, "embed"),
            "norm2": ones(None, "embed"),
        },
        "norm": ones("embed"),
        "unembed": weight("embed_fsdp vocab", config.embed),
    }


def rotate(x: nx.NamedArray, position: Any, size: int) -> nx.NamedArray:
    """Rotary positions (Su et al., 2021): rotate pairs of features by an angle that grows with the position."""
    half = size // 2
    frequency = nx.exp(-math.log(10_000.0) * nx.arange(half, axis="pair") / half)
    angle = nx.einsum("{}, {} -> {}", position, frequency)  # an outer product
    a, b = (
        nx.slice(x, {"key": part}, out_axis="pair") for part in (slice(half), slice(half, None))
    )
    turned = [a * nx.cos(angle) - b * nx.sin(angle), a * nx.sin(angle) + b * nx.cos(angle)]
    return nx.concatenate(turned, "pair", out_axis="key")


# An einsum mentions the names that it contracts or renames, and leaves the others alone. So the
# model runs on one sequence, on a batch and on packed documents.
READ = "{pos:pos_sp, embed}, {embed:embed_fsdp} -> {pos}"
WRITE = "{{pos,{0}}}, {{{0},embed:embed_fsdp}} -> {{pos_sp:pos,embed}}"
BALANCE = 0.01  # counts for the load-balancing loss


def feed_forward(x: nx.NamedArray, p: Params) -> nx.NamedArray:
    """SwiGLU (Shazeer, 2020)."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm2"])
    gate, up = (nx.einsum(READ, h, p[name]) for name in ("gate", "up"))
    return nx.einsum(WRITE.format("hidden"), nx.nn.silu(gate) * up, p["down"])


def expert(p: Params, x: nx.NamedArray) -> nx.NamedArray:
    """SwiGLU of the tokens of an expert."""
    gate, up = (nx.dot(x, p[name], "embed") for name in ("gate", "up"))
    return nx.dot(nx.nn.silu(gate) * up, p["down"], "hidden")


def mixture(x: nx.NamedArray, p: Params, config: Config) -> tuple[nx.NamedArray, nx.NamedArray]:
    """A mixture of experts, and the load-balancing loss of each sequence."""
    h = nx.rename(nx.nn.rms_norm(x, "embed", scale=p["norm2"]), {"pos_sp": "pos"})
    # Gather sharded weights here, not in every round of the mixture.
    weights = {
        name: nx.rename(p[name], {"embed_fsdp": "embed"})
        for name in ("router", "gate", "up", "down")
    }
    routing = nx.nn.top_k_routing(nx.dot(h, weights["router"], "embed"), "route", config.top_k)
    y = nx.nn.mixture_of_experts(
        expert, weights, h, routing, tokens="pos", capacity=config.capacity
    )
    return nx.rename(y, {"pos": "pos_sp"}), nx.nn.load_balancing_loss(routing, "pos")


def second_half(x: nx.NamedArray, p: Params, config: Config) -> tuple[nx.NamedArray, Any]:
    """The layer after attention, and the load-balancing loss, if there are experts."""
    y, uneven = mixture(x, p, config) if config.experts else (feed_forward(x, p), None)
    return x + y, uneven


def project(
    x: nx.NamedArray, p: Params, position: Any, config: Config
) -> tuple[nx.NamedArray, ...]:
    """Queries, keys and values."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm1"])
    query = nx.einsum(READ, h, p["query"])
    key, value = (nx.einsum(READ, h, p[name]) for name in ("key", "value"))
    return rotate(query, position, config.key), rotate(key, position, config.key), value


def hidden_states(
    params: Params, tokens: nx.NamedArray, config: Config
) -> tuple[nx.NamedArray, Any]:
    """The output of the last layer for every token, and the load-balancing loss of every layer, if there are experts."""
    position = nx.arange(config.pos, axis="pos")

    def layer(x: nx.NamedArray, p: Params) -> tuple[nx.NamedArray, Any]:
        query, key, value = project(x, p, position, config)
        attended = nx.nn.dot_product_attention(
            query, key, value, axis="pos", features="key", is_causal=True
        )
        x = x + nx.einsum(WRITE.format("kv_heads,group,key"), attended, p["out"])
        return second_half(x, p, config)

    x = nx.take(nx.rename(params["embed"], {"embed_fsdp": "embed"}), tokens, "vocab")
    step = jax.checkpoint(layer) if config.remat else layer
    x = nx.rename(x, {"pos": "pos_sp"})
    if config.microbatches:
        x, uneven = nx.pipeline(
            step, x, params["layers"], axis="layers", microbatches=config.microbatches, outputs=True
        )
    else:
        x, uneven = nx.scan(step, x, params["layers"])
    return nx.nn.rms_norm(x, "embed", scale=params["norm"]), uneven


def loss(
    params: Params, tokens: nx.NamedArray, targets: nx.NamedArray, config: Config
) -> jax.Array:
    """Mean cross-entropy, in nats per token, plus a fraction of the load-balancing loss, if there are experts."""
    x, uneven = hidden_states(params, tokens, config)
    logits = nx.einsum(READ, x, params["unembed"])
    entropy = nx.mean(nx.nn.softmax_cross_entropy(logits, targets, "vocab"), ("batch", "pos"))
    return (
        entropy if uneven is None else entropy + BALANCE * nx.mean(uneven, (config.stack, "batch"))
    )


# --- one token after the other ------------------------------------------------------------------------------------------


def empty_cache(config: Config, batch: int) -> tuple[nx.NamedArray, nx.NamedArray]:
    """An empty cache for the keys and values of all layers."""
    shape = {"batch": batch, "past": config.pos, "kv_heads": config.kv_heads, "key": config.key}
    cache = nx.zeros((config.layers,), named_shape=shape)
    cache = nx.named(nx.positional(cache, [None, *shape]), [config.stack or None, *shape])
    return cache, cache


def decode(
    params: Params, cache: Any, token: nx.NamedArray, position: jax.Array, config: Config
) -> tuple[nx.NamedArray, Any]:
    """The logits of the next token, and the cache with this token."""

    def layer(x: nx.NamedArray, part: Any) -> Any:
        p, keys, values = part
        # A sequence of one token.
        query, key, value = (v["pos", 0] for v in project(x, p, position, config))
        keys, values = keys.at["past", position].set(key), values.at["past", position].set(value)
        scores = nx.dot(query, keys, "key")
        seen = nx.arange(config.pos, axis="past") <= position
        weights = nx.nn.softmax(scores / math.sqrt(config.key), "past", where=seen)
        attended = nx.expand_dims(nx.dot(weights, values, "past"), 0)
        attended = nx.named(attended, ["pos"])
        x = x + nx.einsum(WRITE.format("kv_heads,group,key"), attended, p["out"])
        return second_half(x, p, config)[0], (keys, values)

    x = nx.take(nx.rename(params["embed"], {"embed_fsdp": "embed"}), token, "vocab")
    x = nx.rename(x, {"pos": "pos_sp"})
    x, cache = nx.scan(layer, x, (params["layers"], *cache), axis=config.stack)
    x = nx.nn.rms_norm(x, "embed", scale=params["norm"])
    return nx.einsum(READ, x, params["unembed"])["pos", 0], cache


def sample(
    params: Params, prompt: jax.Array, key: jax.Array, config: Config, temperature: float = 0.8
) -> jax.Array:
    """Continue a prompt (`i32[length]`) up to `config.pos` tokens."""

    def step(carry: Any, position: jax.Array) -> Any:
        cache, token, key = carry
        logits, cache = decode(
            params, cache, nx.named(token[None, None], ["batch", "pos"]), position, config
        )
        key, now = jax.random.split(key)
        drawn = jax.random.categorical(
            now, nx.positional(logits["batch", 0], ["vocab"]) / temperature
        )
        following = jnp.where(
            position + 1 < len(prompt), prompt[jnp.minimum(position + 1, len(prompt) - 1)], drawn
        )
        return (cache, following, key), following

    start = (empty_cache(config, 1), prompt[0], key)
    _, rest = jax.lax.scan(step, start, jnp.arange(config.pos - 1))
    return jnp.concatenate([prompt[:1], rest])
