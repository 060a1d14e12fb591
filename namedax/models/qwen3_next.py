"""Qwen3-Next: three layers with the gated delta rule, then one with full attention.

All layers have a mixture of experts, and an expert for all tokens. Groups of four layers are one
scan along `layers`. The state of a linear layer is a matrix {feature, value} for each head of
values; the heads of `share` have one head of `state_heads` for queries and keys. Full attention has
an output gate, and rotates a part of the features. Tensor parallelism shards `state_heads` and
`kv_heads`. Rows may have packed documents, which do not see each other. Sources: Yang, Kautz and
Hatamizadeh, "Gated delta networks", 2024; Qiu et al., "Gated attention for large language models",
2025; Qwen team, "Qwen3-Next", 2025.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

import namedax as nx
from namedax.errors import CheckpointError
from namedax.models import common, deepseek, delta_net, mixtral
from namedax.models.common import Params, read, write
from namedax.models.gemma import norm
from namedax.models.qwen3_next_keys import ENTRIES, FIXED, FULL, GROUP, IGNORED, LINEAR, SPEC


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(mixtral.Config):
    """Sizes, as in Mixtral and of linear attention. `layers` is the number of groups."""

    shared_hidden: int
    state_heads: int
    value_heads: int
    feature: int
    value: int
    tap: int = 4
    ignored: ClassVar = ("mtp.*",)  # keys of layers that predict further tokens

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        del values["type"]
        kinds = [*3 * ("linear_attention",), "full_attention"]
        layers, rest = divmod(values["layers"], len(kinds))
        if rest or values.pop("types", layers * kinds) != layers * kinds:
            raise CheckpointError(
                f"models.load: {path} has layers that are not groups of three layers with"
                " linear_attention and one with full_attention, which is all that this model"
                " supports."
            )
        scaling = dict(values.get("scaling") or {"rope_type": "default"})
        scaling.setdefault("partial_rotary_factor", 0.25)
        return common.make_config(cls, path, values | {"layers": layers, "scaling": scaling})

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = ("shared_hidden", "state_heads", "feature", "value", "tap")
        sizes = super().sizes() | {name: getattr(self, name) for name in names} | {"both": 2}
        sizes["share"] = self.value_heads // self.state_heads
        sizes["projected"] = 2 * (self.feature + sizes["share"] * self.value)
        sizes["convolved"] = 2 * self.state_heads * self.feature + self.value_heads * self.value
        return sizes


TINY = Config(
    vocab=256, embed=64, hidden=64, layers=2, heads=4, kv_heads=2, key=16, theta=100.0,
    scaling={"rope_type": "default", "partial_rotary_factor": 0.25}, experts=4, balance=0.01,
    shared_hidden=64, state_heads=2, value_heads=4, feature=16, value=16,
)  # fmt: skip


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has."""
    return {key: entry for key, entry in SPEC.items() if entry[0] != "unembed" or not config.tied}


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters. Most norms multiply by one plus their weight, as in Gemma."""
    params = common.init(spec(config), config.sizes(), key, norm=0.0)
    for number, name in enumerate(LINEAR):
        p, draw = params["layers"][name], jax.random.fold_in(key, number)
        p["gate_norm"], p["dt_bias"] = (nx.ones_like(p[one]) for one in ("gate_norm", "dt_bias"))
        shape = dict(p["rate"].named_shape)
        p["rate"] = nx.log(nx.random.uniform(draw, (), jnp.float32, 0.01, 16, named_shape=shape))
    return params


def init_cache(config: Config, batch: int, capacity: int, dtype: Any = jnp.float32) -> Params:
    """Return empty keys and values of full attention, and the states of the other layers."""
    cache: Params = {name: delta_net.init_state(config, batch, dtype) for name in LINEAR}
    return cache | {FULL: common.init_cache(config, batch, capacity, dtype)}


def full_attention(
    x: nx.NamedArray, p: Params, config: Config, cache: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Attend to earlier positions, and multiply by a gate; with a cache, also to those in it."""
    h = norm(x, p["norm1"], config)
    both = read(h, p["query"], "kv_heads, group, both, key")
    key, value = (read(h, p[name], "kv_heads, key") for name in ("key", "value"))
    query, gate = norm(both["both", 0], p["query_norm"], config, "key"), both["both", 1]
    key = norm(key, p["key_norm"], config, "key")
    positions = common.next_positions(query, cache, rows)
    query, key = (
        nx.nn.rope(array, positions, "key", base=config.theta, scaling=config.scaling)
        for array in (query, key)
    )
    if cache is None:
        attended = nx.nn.dot_product_attention(
            query, key, value, axis="pos", features="key", is_causal=True,
            segments=rows.get("segments"),
        )  # fmt: skip
    else:
        cache = cache.append(key, value, axis="pos", lengths=rows.get("lengths"))
        attended = cache.attend(query, axis="pos", features="key")
    attended = attended * nx.nn.sigmoid(gate)
    return x + write(attended, p["out"], "kv_heads, group, key"), cache


def feed_forward(x: nx.NamedArray, p: Params, config: Config) -> tuple[nx.NamedArray, Any]:
    """Add the chosen experts, and the shared one times a number; also return the routing."""
    h = norm(x, p["norm2"], config)
    amount = nx.nn.sigmoid(nx.dot(h, p["amount"], "embed"))
    h = nx.rename(h, {"pos_sp": "pos"})
    y, routing = mixtral.mixture(h, p, config)
    return x + y + amount * deepseek.swiglu(h, p, "shared_hidden", "shared_"), routing


def forward(
    params: Params, tokens: nx.NamedArray, config: Config, *, cache: Any = None, **rows: Any
) -> Any:
    """Return the logits of the next token at every position; `rows` and `cache` as in `llama`."""
    logits, output = route(params, tokens, config, cache=cache, **rows)
    return logits if cache is None else (logits, output)


def route(
    params: Params, tokens: nx.NamedArray, config: Config, *,
    cache: Any = None, dropout_key: Any = None, **rows: Any,
) -> tuple[nx.NamedArray, Any]:  # fmt: skip
    """Return the logits, and the next cache or the routing of all tokens and layers."""

    def group(x: nx.NamedArray, p: Params, part: Any = None) -> tuple[nx.NamedArray, Any]:
        new, routings = {}, []
        for name in GROUP:
            mix = full_attention if name == FULL else delta_net.mixer
            x, new[name] = mix(x, p[name], config, part and part[name], rows)
            x, routing = feed_forward(x, p[name], config)
            routings.append(routing)
        if part is not None:
            return x, new
        named = lambda leaf: isinstance(leaf, nx.NamedArray)  # noqa: E731
        return x, jax.tree.map(lambda *of: nx.stack(of, "member"), *routings, is_leaf=named)

    x = common.embedding(params["embed"], tokens)
    x, output = common.apply_layers(group, x, params["layers"], config, dropout_key, cache=cache)
    params = params | {"norm": 1 + params["norm"].astype(jnp.float32)}
    return common.logits(x, params, config, cache, rows.get("lengths")), output


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats, and the loss of the balance."""
    more = {name: batch.get(name) for name in ("positions", "segments", "dropout_key")}
    logits, routing = route(params, batch["tokens"], config, **more)
    value = common.cross_entropy(logits, batch)
    return value + config.balance * mixtral.balance_loss(routing) if config.balance else value
