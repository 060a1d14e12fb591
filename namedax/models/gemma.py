"""Gemma 3: a decoder with sliding-window attention, and full attention in every sixth layer.

Layers have norms before and after attention and the feed-forward network. Queries and keys are
normalized. Each type of layer has its own rotary frequencies. All layers are one scan: the type of
a layer is a boolean along `layers`, and `nx.cond` selects the frequencies and the window. Sources:
Gemma Team, "Gemma 3 technical report", 2025; "Gemma 2", 2024, for the soft caps.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from namedax.models import common, llama
from namedax.models.common import Params, read, write


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and variants, with the defaults that published files rely on."""

    vocab: int = 262_208
    embed: int = 2304
    hidden: int = 9216
    layers: int = 26
    heads: int = 8
    kv_heads: int = 4
    key: int = 256
    epsilon: float = 1e-6
    query_scalar: float = 256.0  # scores are divided by its root
    theta: float = 1_000_000.0
    scaling: Mapping[str, Any] | None = None
    local_theta: float = 10_000.0
    local_scaling: Mapping[str, Any] | None = None
    window: int = 4096
    local: tuple[bool, ...] = (*5 * (True,), False)  # repeated for all layers
    attention_cap: float | None = None
    final_cap: float | None = None
    multimodal: bool = False  # the checkpoint has other tensors too
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint, also of a multimodal one."""
        values = common.read_config(path, ENTRIES, FIXED)
        if pattern := values.pop("pattern", 0):
            values["local"] = (*(pattern - 1) * (True,), False)
        if types := values.pop("types", ()):
            values["local"] = common.local_layers(path, types)
        for kind, rope in values.pop("rope", {}).items():
            of = "local_" if kind == "sliding_attention" else ""
            scaling = nx.nn.rope_scaling({"rope_parameters": rope})
            values |= {f"{of}theta": rope["rope_theta"], f"{of}scaling": scaling}
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = ("vocab", "embed", "hidden", "layers", "kv_heads", "key")
        sizes = {name: getattr(self, name) for name in names}
        return sizes | {"embed_fsdp": self.embed, "group": self.heads // self.kv_heads}


TINY = Config(
    vocab=256, embed=64, hidden=160, layers=4, heads=4, kv_heads=2, key=16, query_scalar=16,
    window=16, local=(True, False),
)  # fmt: skip
_LLAMA = {entry: field for entry, field in llama.ENTRIES.items() if field not in ("type", "tied")}
ENTRIES = _LLAMA | {
    "multimodal": "multimodal", "query_pre_attn_scalar": "query_scalar",
    "sliding_window_pattern": "pattern", "rope_parameters": "rope",
    "rope_local_base_freq": "local_theta", "attn_logit_softcapping": "attention_cap",
    "final_logit_softcapping": "final_cap",
}  # fmt: skip
FIXED = {
    "model_type": ["gemma3_text"],
    "hidden_activation": ["gelu_pytorch_tanh"],
    "attention_bias": [False],
    "tie_word_embeddings": [True],
    "use_bidirectional_attention": [False, None],
}

_LAYER, _NORM = "model.layers.{layers}.", "embed -> {layers, embed}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes: as in Llama.
SPEC = {key: entry for key, entry in llama.SPEC.items() if entry[0] != "unembed"} | {
    f"{_LAYER}pre_feedforward_layernorm.weight": ("layers/norm3", _NORM),
    f"{_LAYER}post_feedforward_layernorm.weight": ("layers/norm4", _NORM),
}


def spec(config: Config) -> common.Spec:
    """Return SPEC; multimodal checkpoints have the keys with a prefix."""
    prefix = "language_model." if config.multimodal else ""
    return {prefix + key: entry for key, entry in SPEC.items()}


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters. A norm multiplies by one plus its weight, which begins as zero."""
    return common.init(spec(config), config.sizes(), key, norm=0.0)


def norm(x: nx.NamedArray, weight: nx.NamedArray, config: Config, axis: str = "embed") -> Any:
    """RMSNorm that multiplies by one plus its weight, in float32."""
    scale = 1 + weight.astype(jnp.float32)
    return nx.nn.rms_norm(x, axis, scale=scale, epsilon=config.epsilon)


init_cache = common.init_cache


def attention(
    x: nx.NamedArray, p: Params, is_local: Any, config: Config, cache: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Attend to earlier positions, of a window if `is_local`; with a cache, also to those in it."""

    def rotate(base: float, scaling: Any) -> Callable[..., Any]:
        options = {"base": base, "scaling": scaling}
        return lambda *arrays: [nx.nn.rope(array, positions, "key", **options) for array in arrays]

    def attend(window: tuple[int, int] | None) -> Callable[..., Any]:
        options: dict[str, Any] = {"axis": "pos", "features": "key", "local_window_size": window}
        options |= {"scale": config.query_scalar**-0.5, "soft_cap": config.attention_cap}
        if cache is not None:
            return lambda query, key, value: cache.attend(query, **options)
        options |= {"is_causal": True, "segments": rows.get("segments")}
        return lambda *arrays: nx.nn.dot_product_attention(*arrays, **options)

    h = norm(x, p["norm1"], config)
    query = norm(read(h, p["query"], "kv_heads, group, key"), p["query_norm"], config, "key")
    key = norm(read(h, p["key"], "kv_heads, key"), p["key_norm"], config, "key")
    value = read(h, p["value"], "kv_heads, key")
    positions = common.next_positions(query, cache, rows)
    of_local = rotate(config.local_theta, config.local_scaling)
    query, key = nx.cond(is_local, of_local, rotate(config.theta, config.scaling), query, key)
    if cache is not None:
        cache = cache.append(key, value, axis="pos", lengths=rows.get("lengths"))
    window = (config.window - 1, 0)
    attended = nx.cond(is_local, attend(window), attend(None), query, key, value)
    return x + norm(write(attended, p["out"], "kv_heads, group, key"), p["norm2"], config), cache


def feed_forward(x: nx.NamedArray, p: Params, config: Config) -> nx.NamedArray:
    """GeGLU (Shazeer, 2020), with the tanh approximation of GELU."""
    h = norm(x, p["norm3"], config)
    gate, up = (read(h, p[name], "hidden") for name in ("gate", "up"))
    return x + norm(write(nx.nn.gelu(gate) * up, p["down"], "hidden"), p["norm4"], config)


def forward(
    params: Params,
    tokens: nx.NamedArray,
    config: Config,
    *,
    cache: Any = None,
    dropout_key: Any = None,
    **rows: Any,
) -> Any:
    """Return the logits of the next token at every position; `rows` and `cache` as in `llama`."""

    def layer(x: nx.NamedArray, inputs: Any, part: Any = None) -> tuple[nx.NamedArray, Any]:
        p, is_local = inputs
        x, part = attention(x, p, is_local, config, part, rows)
        return feed_forward(x, p, config), part

    x = common.embedding(params["embed"], tokens) * config.embed**0.5  # in the dtype of x
    is_local = nx.named(np.resize(config.local, config.layers), ["layers"])
    stacked = (params["layers"], is_local)
    x, cache = common.apply_layers(layer, x, stacked, config, dropout_key, cache=cache)
    x = x if cache is None else common.last_token(x, rows.get("lengths"))
    logits = read(norm(x, params["norm"], config), params["embed"], "vocab")
    if config.final_cap is not None:
        logits = config.final_cap * nx.tanh(logits / config.final_cap)
    return logits if cache is None else (logits, cache)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    more = {name: batch.get(name) for name in ("positions", "segments", "dropout_key")}
    return common.cross_entropy(forward(params, batch["tokens"], config, **more), batch)
