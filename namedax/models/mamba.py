"""Mamba 2: a decoder with a recurrence instead of attention.

The recurrence is `nx.nn.linear_attention`: every head has a state, a matrix {key, state} that
decays by a number. Positions can be sharded. As in grouped-query attention, the heads of `group`
share one head of `kv_heads`. Tensor parallelism shards `kv_heads`, or `group` if `kv_heads` has
size 1. A checkpoint has one matrix for the gate, the inputs, both projections and the time steps.
Its axis `projected` cannot be sharded over heads. It is stored over `embed_fsdp` and split in the
layer. Each device multiplies only the columns of its heads. Rows may have packed documents: each
begins with an empty state, and its convolution reads no other document. Source: Dao and Gu,
"Transformers are SSMs", 2024.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import namedax as nx
from namedax.errors import CheckpointError
from namedax.models import common, convolution
from namedax.models.common import Params, write
from namedax.models.mamba_keys import ENTRIES, FIXED, IGNORED, SPEC


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. `heads` heads have states of `key` by `state`; `tap` is the convolution's."""

    vocab: int
    embed: int
    layers: int
    heads: int
    key: int
    state: int
    kv_heads: int = 1
    tap: int = 4
    chunk: int = 256
    epsilon: float = 1e-5
    limit: Sequence[float] = (0.0, math.inf)
    tied: bool = False
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        expanded = values.pop("expand", 2) * values["embed"]
        if expanded != values["heads"] * values["key"]:
            raise CheckpointError(
                f"models.load: {path} has expand * hidden_size that is not num_heads * head_dim."
            )
        if "limit" in values:  # JSON has no infinity
            number = lambda x: float(x["__float__"] if isinstance(x, dict) else x)  # noqa: E731
            values["limit"] = tuple(map(number, values["limit"]))
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = ("vocab", "embed", "layers", "kv_heads", "key", "state", "tap")
        sizes = {name: getattr(self, name) for name in names} | {"embed_fsdp": self.embed}
        sizes["group"] = self.heads // self.kv_heads
        for axis, parts in (("projected", PROJECTED), ("convolved", CONVOLVED)):
            sizes[axis] = sum(math.prod(sizes[name] for name in PARTS[part]) for part in parts)
        return sizes


TINY = Config(
    vocab=256, embed=64, layers=2, heads=8, key=16, state=16, kv_heads=2, chunk=4, tied=True
)


# The parts of the axes `projected` and `convolved`: z, x, B, C and Δ in the paper.
_HEADS = ("kv_heads", "group", "key")
PARTS = {
    "gate": _HEADS, "x": _HEADS, "b": ("kv_heads", "state"), "c": ("kv_heads", "state"),
    "dt": ("kv_heads", "group"),
}  # fmt: skip
PROJECTED, CONVOLVED = ("gate", "x", "b", "c", "dt"), ("x", "b", "c")


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has."""
    return {key: entry for key, entry in SPEC.items() if entry[0] != "unembed" or not config.tied}


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters: states that last 1 to 16 time steps, of 0.001 to 0.1."""
    params = common.init(spec(config), config.sizes(), key)
    layers, draw = params["layers"], jax.random.split(jax.random.fold_in(key, 1))
    shape = dict(layers["rate"].named_shape)
    dt = 1e-3 * 100 ** nx.random.uniform(draw[0], named_shape=shape)
    layers["dt_bias"] = dt + nx.log(-nx.expm1(-dt))  # the inverse of softplus
    layers["rate"] = nx.log(nx.random.uniform(draw[1], (), jnp.float32, 1, 16, named_shape=shape))
    layers["skip"] = nx.ones_like(layers["skip"])
    return params


def init_cache(config: Config, batch: int, capacity: int = 0, dtype: Any = jnp.float32) -> Params:
    """Return states of zeros, and the inputs of the convolution at the positions before."""
    sizes = config.sizes() | {"batch": batch, "past": config.tap - 1}
    axes = {part: ("past", *PARTS[part]) for part in CONVOLVED} | {"state": (*_HEADS, "state")}
    shapes = {
        part: {name: sizes[name] for name in ("layers", "batch", *axes[part])} for part in axes
    }
    return {part: nx.zeros((), dtype, named_shape=shape) for part, shape in shapes.items()}


def split(array: Any, axis: str, parts: Sequence[str], config: Config) -> dict[str, Any]:
    """Split the axis of several parts into their axes; no part leaves its device."""
    sizes = config.sizes()
    shapes = {part: {name: sizes[name] for name in PARTS[part]} for part in parts}
    return convolution.split(array, axis, shapes)


def mixer(
    x: nx.NamedArray, p: Params, config: Config, cache: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Project, convolve, apply the recurrence and the gate, and project back."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm"], epsilon=config.epsilon)
    h = nx.rename(h, {"pos_sp": "pos"})
    weights = split(p["in"], "projected", PROJECTED, config)
    parts = {
        name: nx.einsum("{embed}, {embed:embed_fsdp} -> {}", h, weight)
        for name, weight in weights.items()
    }
    taps, biases = (
        split(p[name], "convolved", CONVOLVED, config) for name in ("taps", "taps_bias")
    )
    new = {}
    for name in CONVOLVED:
        past = None if cache is None else cache[name]
        y, new[name] = convolution.convolve(parts[name], taps[name], past, rows)
        parts[name] = nx.nn.silu(y + biases[name]).astype(jnp.float32)
    values, b, c = (parts[name] for name in CONVOLVED)
    dt = nx.clip(nx.nn.softplus(parts["dt"].astype(jnp.float32) + p["dt_bias"]), *config.limit)
    if rows.get("lengths") is not None:  # padding does not change the state
        dt = nx.where(nx.arange(dt.named_shape["pos"], axis="pos") < rows["lengths"], dt, 0.0)
    state = None if cache is None else cache["state"]
    y, new["state"] = nx.nn.linear_attention(
        c, b, values * dt, features="state", decay=-nx.exp(p["rate"]) * dt, state=state,
        segments=rows.get("segments"), chunk_size=config.chunk, return_state=True,
    )  # fmt: skip
    y = (y + p["skip"] * values) * nx.nn.silu(parts["gate"])
    y = nx.nn.rms_norm(y, ("group", "key"), scale=p["gate_norm"], epsilon=config.epsilon)
    x = x + write(y.astype(x.dtype), p["out"], "kv_heads, group, key")
    return x, None if cache is None else new


def forward(
    params: Params, tokens: nx.NamedArray, config: Config, *,
    cache: Any = None, dropout_key: Any = None, **rows: Any,
) -> Any:  # fmt: skip
    """Return the logits of the next token at every position; `rows` and `cache` as in `llama`."""

    def layer(x: nx.NamedArray, p: Params, part: Any = None) -> tuple[nx.NamedArray, Any]:
        return mixer(x, p, config, part, rows)

    x = common.embedding(params["embed"], tokens)
    x, cache = common.apply_layers(layer, x, params["layers"], config, dropout_key, cache=cache)
    logits = common.logits(x, params, config, cache, rows.get("lengths"))
    return logits if cache is None else (logits, cache)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    more = {name: batch.get(name) for name in ("segments", "dropout_key")}
    return common.cross_entropy(forward(params, batch["tokens"], config, **more), batch)
