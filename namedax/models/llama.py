"""Llama 3, Mistral and Qwen3: decoders with RMSNorm, rotary positions and SwiGLU.

They have grouped-query attention, and differ in their configuration. Llama 3 scales the frequencies
of its rotary positions, Mistral limits attention to a window, and Qwen3 normalizes queries and
keys. Sources: Grattafiori et al., "The Llama 3 herd of models", 2024; Jiang et al., "Mistral 7B",
2023; Yang et al., "Qwen3 technical report", 2025.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax

import namedax as nx
from namedax.errors import CheckpointError
from namedax.models import common
from namedax.models.common import Params, read, write


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and variants. `group` query heads share a head of keys and values."""

    vocab: int
    embed: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    key: int
    epsilon: float = 1e-6
    theta: float = 10_000.0
    scaling: Mapping[str, Any] | None = None
    window: int | None = None
    qk_norm: bool = False
    tied: bool = False
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED)
        values.setdefault("kv_heads", values["heads"])
        values.setdefault("key", values["embed"] // values["heads"])
        values["qk_norm"] = values.pop("type") == "qwen3"
        if other := {*values.pop("types", [])} - {"full_attention"}:
            raise CheckpointError(
                f"models.load: {path} has layer_types {', '.join(sorted(other))}, which this model"
                " does not support."
            )
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = ("vocab", "embed", "hidden", "layers", "kv_heads", "key")
        sizes = {name: getattr(self, name) for name in names}
        return sizes | {"embed_fsdp": self.embed, "group": self.heads // self.kv_heads}


TINY = Config(
    vocab=256, embed=64, hidden=160, layers=2, heads=4, kv_heads=2, key=16, theta=100.0, tied=True
)  # fmt: skip
ENTRIES = {
    "model_type": "type", "layer_types": "types", "vocab_size": "vocab", "hidden_size": "embed",
    "intermediate_size": "hidden", "num_hidden_layers": "layers", "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads", "head_dim": "key", "rms_norm_eps": "epsilon",
    "sliding_window": "window", "tie_word_embeddings": "tied",
}  # fmt: skip
FIXED = {
    "model_type": ["llama", "mistral", "qwen3"],
    "hidden_act": ["silu"],
    "attention_bias": [False],
    "mlp_bias": [False],
    "use_sliding_window": [False],
}

_LAYER, _NORM = "model.layers.{layers}.", "embed -> {layers, embed}"
_QUERY = "(kv_heads group key) e -> {layers, embed_fsdp=e, kv_heads, group, key}"
_KEY = "(kv_heads key) e -> {layers, embed_fsdp=e, kv_heads, key}"
_OUT = "e (kv_heads group key) -> {layers, kv_heads, group, key, embed_fsdp=e}"
_UP = "hidden e -> {layers, embed_fsdp=e, hidden}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    "model.embed_tokens.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    f"{_LAYER}input_layernorm.weight": ("layers/norm1", _NORM),
    f"{_LAYER}self_attn.q_proj.weight": ("layers/query", _QUERY),
    f"{_LAYER}self_attn.k_proj.weight": ("layers/key", _KEY),
    f"{_LAYER}self_attn.v_proj.weight": ("layers/value", _KEY),
    f"{_LAYER}self_attn.o_proj.weight": ("layers/out", _OUT),
    f"{_LAYER}self_attn.q_norm.weight": ("layers/query_norm", "key -> {layers, key}"),
    f"{_LAYER}self_attn.k_norm.weight": ("layers/key_norm", "key -> {layers, key}"),
    f"{_LAYER}post_attention_layernorm.weight": ("layers/norm2", _NORM),
    f"{_LAYER}mlp.gate_proj.weight": ("layers/gate", _UP),
    f"{_LAYER}mlp.up_proj.weight": ("layers/up", _UP),
    f"{_LAYER}mlp.down_proj.weight": ("layers/down", "e hidden -> {layers, hidden, embed_fsdp=e}"),
    "model.norm.weight": ("norm", "embed -> {embed}"),
    "lm_head.weight": ("unembed", "vocab e -> {embed_fsdp=e, vocab}"),
}


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has."""
    absent = {"unembed"} if config.tied else set()
    absent |= set() if config.qk_norm else {"layers/query_norm", "layers/key_norm"}
    return {key: entry for key, entry in SPEC.items() if entry[0] not in absent}


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters."""
    return common.init(spec(config), config.sizes(), key)


init_cache = common.init_cache


def attention(
    x: nx.NamedArray, p: Params, config: Config, cache: Any, rows: Mapping[str, Any]
) -> tuple[nx.NamedArray, Any]:
    """Attend to earlier positions, of a window or all; with a cache, also to those in it."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm1"], epsilon=config.epsilon)
    query = read(h, p["query"], "kv_heads, group, key")
    key, value = (read(h, p[name], "kv_heads, key") for name in ("key", "value"))
    if config.qk_norm:
        query = nx.nn.rms_norm(query, "key", scale=p["query_norm"], epsilon=config.epsilon)
        key = nx.nn.rms_norm(key, "key", scale=p["key_norm"], epsilon=config.epsilon)
    positions = common.next_positions(query, cache, rows)
    query, key = (
        nx.nn.rope(array, positions, "key", base=config.theta, scaling=config.scaling)
        for array in (query, key)
    )
    window = None if config.window is None else (config.window - 1, 0)
    if cache is None:
        attended = nx.nn.dot_product_attention(
            query, key, value, axis="pos", features="key", is_causal=True,
            local_window_size=window, segments=rows.get("segments"),
        )  # fmt: skip
    else:
        cache = cache.append(key, value, axis="pos", lengths=rows.get("lengths"))
        attended = cache.attend(query, axis="pos", features="key", local_window_size=window)
    return x + write(attended, p["out"], "kv_heads, group, key"), cache


def feed_forward(x: nx.NamedArray, p: Params, config: Any) -> nx.NamedArray:
    """SwiGLU (Shazeer, 2020)."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm2"], epsilon=config.epsilon)
    gate, up = (read(h, p[name], "hidden") for name in ("gate", "up"))
    return x + write(nx.nn.silu(gate) * up, p["down"], "hidden")


def forward(
    params: Params,
    tokens: nx.NamedArray,
    config: Config,
    *,
    cache: Any = None,
    dropout_key: Any = None,
    **rows: Any,
) -> Any:
    """Return the logits of the next token at every position.

    `rows` has the `positions` and `segments` of packed documents. With a cache, return the logits
    after the last token only, and the next cache; `lengths` are then those of padded prompts.
    """

    def layer(x: nx.NamedArray, p: Params, part: Any = None) -> tuple[nx.NamedArray, Any]:
        x, part = attention(x, p, config, part, rows)
        return feed_forward(x, p, config), part

    x = common.embedding(params["embed"], tokens)
    x, cache = common.apply_layers(layer, x, params["layers"], config, dropout_key, cache=cache)
    logits = common.logits(x, params, config, cache, rows.get("lengths"))
    return logits if cache is None else (logits, cache)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    more = {name: batch.get(name) for name in ("positions", "segments", "dropout_key")}
    return common.cross_entropy(forward(params, batch["tokens"], config, **more), batch)
