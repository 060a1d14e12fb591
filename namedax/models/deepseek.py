"""DeepSeek V3: a decoder with multi-head latent attention and experts that all tokens share.

Keys and values of all heads are made from one latent vector of a position, which alone is cached.
The matrices that make them are applied to queries and results instead (the absorbed form), so every
head attends to the latent vectors; scores and results are equal. The first layers are dense, and
the others have experts: the axes `dense_layers` and `layers`, and a scan over each. The router
takes the best groups of experts first; its bias balances the experts and has no gradient.
Checkpoints are in bfloat16 or in 8-bit floats; layers for multi-token prediction are not read.
Sources: DeepSeek-AI, "DeepSeek-V2", 2024, for attention; "DeepSeek-V3 technical report", 2024.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

import namedax as nx
from namedax.models import common, mixtral
from namedax.models.common import Params, read, write
from namedax.models.deepseek_config import SPEC as SPEC
from namedax.models.deepseek_config import TINY as TINY
from namedax.models.deepseek_config import Config, spec

#: The axes of the layers without and with experts.
KINDS = ("dense_layers", "layers")


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters."""
    return common.init(spec(config), config.sizes(), key)


def init_cache(config: Config, batch: int, capacity: int, dtype: Any = jnp.float32) -> Any:
    """Return an empty cache of latent vectors for each kind of layer."""

    def of(axis: str) -> nx.nn.KVCache:
        shape: dict[Any, int | None] = {
            axis: getattr(config, axis),
            "batch": batch,
            "cache": capacity,
        }
        shape["key"] = config.latent + config.rope
        return nx.nn.KVCache.init(
            shape, rows=(axis, "batch"), dtype=dtype, value={"latent": slice(0, config.latent)}
        )

    return {axis: of(axis) for axis in KINDS if getattr(config, axis)}


def attention(
    x: nx.NamedArray, p: Params, config: Config, cache: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Attend to the latent vectors of earlier positions; with a cache, also to those in it."""

    def norm(x: Any, axis: str, name: str) -> Any:
        return nx.nn.rms_norm(x, axis, scale=p[name], epsilon=config.epsilon)

    def rotate(x: Any) -> Any:
        return nx.nn.rope(
            x, positions, "rope", base=config.theta, scaling=config.scaling,
            pairing="interleaved" if config.interleaved else "halves",
        )  # fmt: skip

    h = norm(x, "embed", "norm1")
    query: Any
    if config.query_rank is None:
        query = read(h, p["query"], "kv_heads, query")
    else:
        low = norm(read(h, p["query_down"], "query_rank"), "query_rank", "query_norm")
        query_up = nx.rename(p["query_up"], {"query_fsdp": "query_rank"})
        query = nx.dot(low, query_up, "query_rank")
    positions = common.next_positions(query, cache, rows)
    both = nx.rename(p["expand"], {"latent_fsdp": "latent"})
    expand = nx.split(both, {"nope": config.nope, "value": config.value}, "expanded")
    part = nx.split(query, {"nope": config.nope, "rope": config.rope}, "query")
    absorbed = nx.dot(part["nope"], expand["nope"], "nope")
    query = nx.concatenate({"latent": absorbed, "rope": rotate(part["rope"])}, out_axis="key")
    sizes = {"latent": config.latent, "rope": config.rope}
    part = nx.split(read(h, p["key"], "key"), sizes, "key")
    latent = norm(part["latent"], "latent", "key_norm")
    key = nx.concatenate({"latent": latent, "rope": rotate(part["rope"])}, out_axis="key")
    options: dict[str, Any] = {"axis": "pos", "features": "key", "scale": config.scale}
    if cache is None:
        attended = nx.nn.dot_product_attention(
            query, key, {"latent": slice(0, config.latent)},
            is_causal=True, segments=rows.get("segments"), **options,
        )  # fmt: skip
    else:
        cache = cache.append(key, axis="pos", lengths=rows.get("lengths"))
        attended = cache.attend(query, **options)
    value: Any = nx.dot(attended, expand["value"], "latent")
    return x + write(value, p["out"], "kv_heads, value"), cache


def route(h: nx.NamedArray, p: Params, config: Config) -> nx.nn.Routing:
    """Choose the best experts of the best groups, by biased scores, and weigh them by scores."""
    score = nx.nn.sigmoid(read(h.astype(jnp.float32), p["router"].astype(jnp.float32), "route"))
    biased = score + p["router_bias"]
    grouped = nx.rearrange(biased, "{route=(group member)} -> {group, member}", group=config.groups)
    of_group = nx.sum(nx.top_k(grouped, 2, axis="member", out_axis="best").values, "best")
    best = nx.top_k(of_group, config.chosen_groups, axis="group", out_axis="best").indices
    is_best = nx.any(nx.nn.one_hot(best, config.groups, axis="group", dtype=bool), "best")
    open_ = nx.where(is_best, grouped, -jnp.inf)
    open_ = nx.rearrange(open_, "{group, member} -> {route=(group member)}")
    index = nx.top_k(open_, config.chosen, axis="route", out_axis="choice").indices
    weight = score[{"route": index}]
    if config.normalize:
        weight = weight / (nx.sum(weight, "choice") + 1e-20)
    return nx.nn.Routing(index, config.factor * weight, score, config.experts)


def swiglu(h: nx.NamedArray, p: Params, hidden: str, of: str = "") -> nx.NamedArray:
    """SwiGLU (Shazeer, 2020), of a dense layer or of the shared experts."""
    gate, up = (read(h, p[f"{of}{name}"], hidden) for name in ("gate", "up"))
    return write(nx.nn.silu(gate) * up, p[f"{of}down"], hidden)


def feed_forward(x: nx.NamedArray, p: Params, config: Config) -> nx.NamedArray:
    """Add the result of a dense layer, or those of the shared and of the chosen experts."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm2"], epsilon=config.epsilon)
    h = nx.rename(h, {"pos_sp": "pos"})
    if "router" not in p:
        return x + swiglu(h, p, "dense_hidden")
    weights = {name: p[name] for name in ("gate", "up", "down")}
    y = common.mixture(mixtral.expert, weights, h, route(h, p, config))
    return x + swiglu(h, p, "shared, hidden", "shared_") + y


def forward(
    params: Params,
    tokens: nx.NamedArray,
    config: Config,
    *,
    cache: Any = None,
    dropout_key: Any = None,
    **rows: Any,
) -> Any:
    """Return the logits of the next token at every position, as `llama.forward`."""

    def layer(x: nx.NamedArray, p: Params, part: Any = None) -> tuple[nx.NamedArray, Any]:
        x, part = attention(x, p, config, part, rows)
        return feed_forward(x, p, config), part

    x, after = common.embedding(params["embed"], tokens), {}
    for number, axis in enumerate(KINDS):  # a pipeline has the layers with experts only
        if not getattr(config, axis):
            continue
        of = dataclasses.replace(config, microbatches=number * config.microbatches)
        key = None if dropout_key is None else jax.random.fold_in(dropout_key, number)
        part = None if cache is None else cache[axis]
        x, after[axis] = common.apply_layers(layer, x, params[axis], of, key, axis, cache=part)
    logits = common.logits(x, params, config, cache, rows.get("lengths"))
    return logits if cache is None else (logits, after)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    more = {name: batch.get(name) for name in ("positions", "segments", "dropout_key")}
    return common.cross_entropy(forward(params, batch["tokens"], config, **more), batch)
