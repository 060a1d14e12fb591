"""GPT-OSS: a decoder with attention sinks, alternating windows and a mixture of experts.

Every second layer attends to a window of positions. Each head has a learned sink, one more score
whose value is 0, so a token may attend to nothing. All layers are one scan: the type of a layer is
a boolean along `layers`, and `nx.cond` selects the window. Experts are clamped SwiGLU networks with
biases, whose gates and updates alternate in one tensor. Checkpoints are in bfloat16 or MXFP4.
Sources: OpenAI, "gpt-oss-120b & gpt-oss-20b model card", 2025; Xiao et al., "Efficient streaming
language models with attention sinks", 2023; Peng et al., "YaRN", 2023.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import namedax as nx
from namedax.models import common, llama, mixtral
from namedax.models.common import Params, biased, read, write


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(mixtral.Config):
    """Sizes. Every token has the `chosen` best of `experts`; `hidden` is that of one."""

    chosen: int = 4
    window: int = 128
    local: tuple[bool, ...] = (True, False)  # repeated for all layers
    alpha: float = 1.702  # the slope of the gate's sigmoid
    limit: float = 7.0  # of the gate and the update of an expert

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        if types := values.pop("types", ()):
            values["local"] = common.local_layers(path, types)
        return common.make_config(cls, path, values)


TINY = Config(
    vocab=256, embed=64, hidden=64, layers=4, heads=4, kv_heads=2, key=16, theta=100.0, experts=4,
    chosen=2, window=16, balance=0.01,
)  # fmt: skip
_LLAMA = {entry: field for entry, field in llama.ENTRIES.items() if field not in ("type", "tied")}
ENTRIES = _LLAMA | {
    "num_experts_per_tok": "chosen", "num_local_experts": "experts", "swiglu_alpha": "alpha",
    "swiglu_limit": "limit", "router_aux_loss_coef": "balance",
}  # fmt: skip
FIXED: dict[str, list[Any]] = {
    "model_type": ["gpt_oss"],
    "hidden_act": ["silu"],
    "attention_bias": [True],
    "tie_word_embeddings": [False],
}
IGNORED = ("experts_per_token", "initial_context_length", "output_router_logits")

_LAYER, _NORM = "model.layers.{layers}.", "embed -> {layers, embed}"
_HEADS = "(kv_heads group key) -> {layers, kv_heads, group, key}"
_KEY = "(kv_heads key) -> {layers, kv_heads, key}"
_IN = "expert e (hidden part) -> {layers, expert, embed_expert=e, hidden}"
_BIAS = "expert (hidden part) -> {layers, expert, hidden}"
_OUT = "expert hidden e -> {layers, expert, hidden, embed_expert=e}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    **{key: of for key, of in llama.SPEC.items() if ".mlp." not in key and "k_norm" not in key
       and "q_norm" not in key},
    f"{_LAYER}self_attn.q_proj.bias": ("layers/query_bias", _HEADS),
    f"{_LAYER}self_attn.k_proj.bias": ("layers/key_bias", _KEY),
    f"{_LAYER}self_attn.v_proj.bias": ("layers/value_bias", _KEY),
    f"{_LAYER}self_attn.o_proj.bias": ("layers/out_bias", _NORM),
    f"{_LAYER}self_attn.sinks": ("layers/sinks", "(kv_heads group) -> {layers, kv_heads, group}"),
    **biased(
        f"{_LAYER}mlp.router", "layers/router",
        "route e -> {layers, embed_fsdp=e, route}", "route -> {layers, route}",
    ),
    f"{_LAYER}mlp.experts.gate_up_proj": ("layers/{part:gate,up}", _IN),
    f"{_LAYER}mlp.experts.gate_up_proj_bias": ("layers/{part:gate,up}_bias", _BIAS),
    f"{_LAYER}mlp.experts.down_proj": ("layers/down", _OUT),
    f"{_LAYER}mlp.experts.down_proj_bias": (
        "layers/down_bias", "expert embed -> {layers, expert, embed}",
    ),
}  # fmt: skip


def spec(config: Config) -> common.Spec:
    """Return SPEC; it does not depend on the configuration."""
    return SPEC


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters. The scale of experts is that of `hidden` as large as `embed`."""
    return common.init(spec(config), config.sizes(), key)


init_cache = common.init_cache


def attention(
    x: nx.NamedArray, p: Params, is_local: Any, config: Config, cache: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Attend to earlier positions and the sinks, in a window if `is_local`."""

    def attend(window: tuple[int, int] | None) -> Callable[..., Any]:
        options: dict[str, Any] = {"axis": "pos", "features": "key", "local_window_size": window}
        if cache is not None:
            return lambda query, key, value, sinks: cache.attend(query, sinks=sinks, **options)
        options |= {"is_causal": True, "segments": rows.get("segments")}
        return lambda q, k, v, sinks: nx.nn.dot_product_attention(q, k, v, sinks=sinks, **options)

    h = nx.nn.rms_norm(x, "embed", scale=p["norm1"], epsilon=config.epsilon)
    query = read(h, p["query"], "kv_heads, group, key") + p["query_bias"]
    key, value = (
        read(h, p[name], "kv_heads, key") + p[f"{name}_bias"] for name in ("key", "value")
    )
    positions = common.next_positions(query, cache, rows)
    query, key = (
        nx.nn.rope(array, positions, "key", base=config.theta, scaling=config.scaling)
        for array in (query, key)
    )
    if cache is not None:
        cache = cache.append(key, value, axis="pos", lengths=rows.get("lengths"))
    window = (config.window - 1, 0)
    arrays = (query, key, value, p["sinks"])
    attended = nx.cond(is_local, attend(window), attend(None), *arrays)
    return x + write(attended, p["out"], "kv_heads, group, key") + p["out_bias"], cache


def feed_forward(x: nx.NamedArray, p: Params, config: Config) -> tuple[nx.NamedArray, Any]:
    """Add the weighted results of the chosen experts; also return the routing."""

    def expert(p: Params, x: nx.NamedArray) -> nx.NamedArray:
        gate, up = (nx.dot(x, p[name], "embed") + p[f"{name}_bias"] for name in ("gate", "up"))
        gate, up = nx.minimum(gate, config.limit), nx.clip(up, -config.limit, config.limit)
        h = gate * nx.nn.sigmoid(config.alpha * gate) * (up + 1)
        return nx.dot(h, p["down"], "hidden") + p["down_bias"]

    h = nx.nn.rms_norm(x, "embed", scale=p["norm2"], epsilon=config.epsilon)
    h = nx.rename(h, {"pos_sp": "pos"})
    logits = read(h, p["router"], "route") + p["router_bias"]
    routing = nx.nn.top_k_routing(logits, "route", config.chosen)  # a softmax of the chosen ones
    weights = {name: p[name] for of in ("gate", "up", "down") for name in (of, f"{of}_bias")}
    return x + common.mixture(expert, weights, h, routing), routing


def forward(
    params: Params, tokens: nx.NamedArray, config: Config, *, cache: Any = None, **rows: Any
) -> Any:
    """Return the logits of the next token at every position, as `llama.forward`."""
    logits, output = route(params, tokens, config, cache=cache, **rows)
    return logits if cache is None else (logits, output)


def route(
    params: Params,
    tokens: nx.NamedArray,
    config: Config,
    *,
    cache: Any = None,
    dropout_key: Any = None,
    **rows: Any,
) -> tuple[nx.NamedArray, Any]:
    """Return the logits, and the next cache or the routing of all tokens and layers."""

    def layer(x: nx.NamedArray, inputs: Any, part: Any = None) -> tuple[nx.NamedArray, Any]:
        p, is_local = inputs
        x, part = attention(x, p, is_local, config, part, rows)
        x, routing = feed_forward(x, p, config)
        return x, routing if part is None else part

    x = common.embedding(params["embed"], tokens)
    is_local = nx.named(np.resize(config.local, config.layers), ["layers"])
    stacked = (params["layers"], is_local)
    x, output = common.apply_layers(layer, x, stacked, config, dropout_key, cache=cache)
    return common.logits(x, params, config, cache, rows.get("lengths")), output


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats, and the loss of the balance."""
    more = {name: batch.get(name) for name in ("positions", "segments", "dropout_key")}
    logits, routing = route(params, batch["tokens"], config, **more)
    value = common.cross_entropy(logits, batch)
    return value + config.balance * mixtral.balance_loss(routing) if config.balance else value
