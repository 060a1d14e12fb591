"""Gemma 3: a decoder whose layers attend to a sliding window, and every sixth to all positions.

    python examples/models/train.py --model gemma

Layers have norms before and after attention and feed-forward, queries and keys are normalized, and
each type of layer has rotary frequencies of its own. All layers are one scan: the type of a layer
is a boolean along `layers`, and `nx.cond` selects the frequencies and the window. Source: Gemma
Team, "Gemma 3 technical report", 2025; the soft caps are those of "Gemma 2", 2024.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import common
import jax
import jax.numpy as jnp
from common import Params, read, write

import namedax as nx


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and variants. The files of multimodal checkpoints rely on these defaults."""

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
    local: tuple[bool, ...] = ()  # by default, all layers but every sixth
    attention_cap: float | None = None
    final_cap: float | None = None
    prefix: str = ""  # of the keys: "language_model." in multimodal checkpoints
    remat: bool = True
    microbatches: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if not self.local:
            object.__setattr__(self, "local", every(6, self.layers))

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint, also of a multimodal one."""
        values = common.read_config(path, ENTRIES, FIXED)
        types, pattern = values.pop("types", None), values.pop("pattern", 6)
        if types is None:
            values["local"] = every(pattern, values.get("layers", cls.layers))
        elif other := {*types} - {"sliding_attention", "full_attention"}:
            raise ValueError(f"{path}: layer_types has {', '.join(sorted(other))}.")
        else:
            values["local"] = tuple(kind == "sliding_attention" for kind in types)
        rope = values.pop("rope", {})
        for kind, of in (("full_attention", ""), ("sliding_attention", "local_")):
            if entries := rope.get(kind):
                values[f"{of}theta"] = entries.get("rope_theta", getattr(cls, f"{of}theta"))
                values[f"{of}scaling"] = entries
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = ("vocab", "embed", "hidden", "layers", "kv_heads", "key")
        sizes = {name: getattr(self, name) for name in names}
        return sizes | {"embed_fsdp": self.embed, "group": self.heads // self.kv_heads}


def every(pattern: int, layers: int) -> tuple[bool, ...]:
    """Return True for each local layer, if every layer of the number `pattern` is global."""
    return tuple((number + 1) % pattern != 0 for number in range(layers))


ENTRIES = {
    "vocab_size": "vocab",
    "hidden_size": "embed",
    "intermediate_size": "hidden",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "key",
    "rms_norm_eps": "epsilon",
    "query_pre_attn_scalar": "query_scalar",
    "sliding_window": "window",
    "sliding_window_pattern": "pattern",
    "layer_types": "types",
    "rope_parameters": "rope",
    "rope_local_base_freq": "local_theta",
    "attn_logit_softcapping": "attention_cap",
    "final_logit_softcapping": "final_cap",
}
FIXED = {
    "model_type": ["gemma3_text"],
    "hidden_activation": ["gelu_pytorch_tanh"],
    "attention_bias": [False],
    "tie_word_embeddings": [True],
    "use_bidirectional_attention": [False, None],
}

_LAYER = "model.layers.{layers}."
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    "model.embed_tokens.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    f"{_LAYER}input_layernorm.weight": ("layers/norm1", "embed -> {layers, embed}"),
    f"{_LAYER}self_attn.q_proj.weight": (
        "layers/query",
        "(kv_heads group key) e -> {layers, embed_fsdp=e, kv_heads, group, key}",
    ),
    f"{_LAYER}self_attn.k_proj.weight": (
        "layers/key",
        "(kv_heads key) e -> {layers, embed_fsdp=e, kv_heads, key}",
    ),
    f"{_LAYER}self_attn.v_proj.weight": (
        "layers/value",
        "(kv_heads key) e -> {layers, embed_fsdp=e, kv_heads, key}",
    ),
    f"{_LAYER}self_attn.o_proj.weight": (
        "layers/out",
        "e (kv_heads group key) -> {layers, kv_heads, group, key, embed_fsdp=e}",
    ),
    f"{_LAYER}self_attn.q_norm.weight": ("layers/query_norm", "key -> {layers, key}"),
    f"{_LAYER}self_attn.k_norm.weight": ("layers/key_norm", "key -> {layers, key}"),
    f"{_LAYER}post_attention_layernorm.weight": ("layers/norm2", "embed -> {layers, embed}"),
    f"{_LAYER}pre_feedforward_layernorm.weight": ("layers/norm3", "embed -> {layers, embed}"),
    f"{_LAYER}mlp.gate_proj.weight": ("layers/gate", "hidden e -> {layers, embed_fsdp=e, hidden}"),
    f"{_LAYER}mlp.up_proj.weight": ("layers/up", "hidden e -> {layers, embed_fsdp=e, hidden}"),
    f"{_LAYER}mlp.down_proj.weight": ("layers/down", "e hidden -> {layers, hidden, embed_fsdp=e}"),
    f"{_LAYER}post_feedforward_layernorm.weight": ("layers/norm4", "embed -> {layers, embed}"),
    "model.norm.weight": ("norm", "embed -> {embed}"),
}


def spec(config: Config) -> common.Spec:
    """Return SPEC with the keys of the checkpoint."""
    return {config.prefix + key: entry for key, entry in SPEC.items()}


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters. A norm multiplies by one plus its weight, which begins as zero."""
    return common.init(spec(config), config.sizes(), key, norm=0.0)


def norm(x: nx.NamedArray, weight: nx.NamedArray, config: Config, axis: str = "embed") -> Any:
    """RMSNorm that multiplies by one plus its weight, in float32."""
    scale = 1 + weight.astype(jnp.float32)
    return nx.nn.rms_norm(x, axis, scale=scale, epsilon=config.epsilon)


def attention(
    x: nx.NamedArray,
    p: Params,
    is_local: Any,
    positions: Any,
    segments: Any,
    cache: Any,
    config: Config,
) -> tuple[nx.NamedArray, Any]:
    """Attend to earlier positions, of a window if `is_local`; with a cache, also to those in it."""

    def rotate(base: float, scaling: Any) -> Callable[..., Any]:
        return lambda *arrays: tuple(
            nx.nn.rope(array, positions, "key", base=base, scaling=scaling) for array in arrays
        )

    def attend(window: tuple[int, int] | None) -> Callable[..., Any]:
        options: dict[str, Any] = {"axis": "pos", "features": "key", "local_window_size": window}
        options |= {"scale": config.query_scalar**-0.5, "soft_cap": config.attention_cap}
        if cache is not None:
            return lambda query, key, value: cache.attend(query, **options)
        options |= {"is_causal": True, "segments": segments}
        return lambda *arrays: nx.nn.dot_product_attention(*arrays, **options)

    h = norm(x, p["norm1"], config)
    query = norm(read(h, p["query"], "kv_heads, group, key"), p["query_norm"], config, "key")
    key = norm(read(h, p["key"], "kv_heads, key"), p["key_norm"], config, "key")
    value = read(h, p["value"], "kv_heads, key")
    of_local = rotate(config.local_theta, config.local_scaling)
    query, key = nx.cond(is_local, of_local, rotate(config.theta, config.scaling), query, key)
    cache = None if cache is None else cache.append(key, value, axis="pos")
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
    positions: Any = None,
    segments: Any = None,
    cache: Any = None,
    dropout_key: Any = None,
) -> Any:
    """Return the logits of the next token at every position; with a cache, also the next cache.

    `positions` and `segments` are those of packed documents.
    """
    if positions is None:
        positions = nx.arange(tokens.named_shape["pos"], axis="pos")
        positions = positions if cache is None else cache.positions("pos", tokens)

    def layer(x: nx.NamedArray, inputs: Any) -> tuple[nx.NamedArray, Any]:
        p, is_local, part = inputs
        x, part = attention(x, p, is_local, positions, segments, part, config)
        return feed_forward(x, p, config), part

    x = common.embedding(params["embed"], tokens) * config.embed**0.5  # in the dtype of x
    is_local = nx.named(jnp.array(config.local), ["layers"])
    x, cache = common.apply_layers(
        layer, x, (params["layers"], is_local, cache), config, dropout_key
    )
    logits = read(norm(x, params["norm"], config), params["embed"], "vocab")
    if config.final_cap is not None:
        logits = config.final_cap * nx.tanh(logits / config.final_cap)
    return logits if cache is None else (logits, cache)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    more = {name: batch.get(name) for name in ("positions", "segments", "dropout_key")}
    return common.cross_entropy(forward(params, batch["tokens"], config, **more), batch)
