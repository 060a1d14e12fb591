"""Whisper: an encoder of speech and a decoder of text.

    python examples/models/whisper.py

Two convolutions read the spectrogram, the second with stride 2. Under a layout that shards its
frames, each device gets the boundary frames of its neighbors, and nothing else. Layers normalize
first, and their GELU is exact. Source: Radford et al., "Robust speech recognition via large-scale
weak supervision", 2022.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import common
import jax
from common import Params, layer_norm, read, write

import namedax as nx


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. `source` positions of the encoder are twice as many frames; `position` is of tokens."""

    vocab: int
    embed: int
    hidden: int
    layers: int
    source_layers: int
    kv_heads: int
    mel: int = 80
    source: int = 1500
    position: int = 448
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @property
    def key(self) -> int:
        """The size of a head."""
        return self.embed // self.kv_heads

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        for entry, name in (("heads", "kv_heads"), ("ffn_dim", "hidden")):
            if values.pop(entry, values.get(name)) != values.get(name):
                raise ValueError(f"{path}: encoder and decoder have different sizes of {name}.")
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter, and of the encoder's inputs."""
        names = "vocab embed hidden layers source_layers kv_heads key mel source position".split()
        sizes = {name: getattr(self, name) for name in names}
        sizes |= {"embed_fsdp": self.embed, "channel": self.embed, "tap": 3}
        return sizes | {"source_sp": self.source, "frame": 2 * self.source}


TINY = Config(
    vocab=256, embed=64, hidden=160, layers=2, source_layers=2, kv_heads=4, mel=16, source=32, position=64
)  # fmt: skip
ENTRIES = {
    "vocab_size": "vocab",
    "d_model": "embed",
    "decoder_ffn_dim": "hidden",
    "encoder_ffn_dim": "ffn_dim",
    "decoder_layers": "layers",
    "encoder_layers": "source_layers",
    "decoder_attention_heads": "kv_heads",
    "encoder_attention_heads": "heads",
    "num_mel_bins": "mel",
    "max_source_positions": "source",
    "max_target_positions": "position",
}
FIXED = {
    "model_type": ["whisper"],
    "activation_function": ["gelu"],
    "scale_embedding": [False],
    "tie_word_embeddings": [True],
}
# Entries of training (masks, dropout), of generation, and of a classifier.
IGNORED = (
    "activation_dropout alignment_heads apply_spec_augment begin_suppress_tokens classifier_proj_size"
    " decoder_layerdrop decoder_start_token_id dropout encoder_layerdrop forced_decoder_ids init_std"
    " lang_ids mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length"
    " mask_time_min_masks mask_time_prob max_length median_filter_width num_hidden_layers"
    " suppress_tokens use_weighted_layer_sum"
).split()


_WEIGHT = "(kv_heads key) e -> {L, embed_fsdp=e, kv_heads, key}"
_BIAS, _EMBED = "(kv_heads key) -> {L, kv_heads, key}", "embed -> {L, embed}"
_ATTENTION = {
    "_layer_norm.weight": ("norm", _EMBED),
    "_layer_norm.bias": ("norm_bias", _EMBED),
    ".q_proj.weight": ("query", _WEIGHT),
    ".q_proj.bias": ("query_bias", _BIAS),
    ".k_proj.weight": ("key", _WEIGHT),
    ".v_proj.weight": ("value", _WEIGHT),
    ".v_proj.bias": ("value_bias", _BIAS),
    ".out_proj.weight": ("out", "e (kv_heads key) -> {L, kv_heads, key, embed_fsdp=e}"),
    ".out_proj.bias": ("out_bias", _EMBED),
}
_FEED_FORWARD = {
    ".final_layer_norm.weight": ("norm", _EMBED),
    ".final_layer_norm.bias": ("norm_bias", _EMBED),
    ".fc1.weight": ("up", "hidden e -> {L, embed_fsdp=e, hidden}"),
    ".fc1.bias": ("up_bias", "hidden -> {L, hidden}"),
    ".fc2.weight": ("down", "e hidden -> {L, hidden, embed_fsdp=e}"),
    ".fc2.bias": ("down_bias", _EMBED),
}


def _layers(key: str, place: str, axis: str, table: common.Spec) -> common.Spec:
    """Return the entries of one part of every layer; `L` is the axis of the layers."""
    return {
        key + suffix: (f"{place}/{name}", pattern.replace("L", axis))
        for suffix, (name, pattern) in table.items()
    }


_ENCODER, _DECODER = "model.encoder.", "model.decoder."
_SOURCE_LAYER, _LAYER = f"{_ENCODER}layers.{{source_layers}}", f"{_DECODER}layers.{{layers}}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    f"{_ENCODER}conv1.weight": ("conv1", "channel mel tap -> {tap, mel, channel}"),
    f"{_ENCODER}conv1.bias": ("conv1_bias", "channel -> {channel}"),
    f"{_ENCODER}conv2.weight": ("conv2", "e channel tap -> {tap, channel, embed_fsdp=e}"),
    f"{_ENCODER}conv2.bias": ("conv2_bias", "embed -> {embed}"),
    f"{_ENCODER}embed_positions.weight": (
        "source_positions",
        "source_sp embed -> {source_sp, embed}",
    ),
    **_layers(f"{_SOURCE_LAYER}.self_attn", "encoder/attention", "source_layers", _ATTENTION),
    **_layers(_SOURCE_LAYER, "encoder/feed_forward", "source_layers", _FEED_FORWARD),
    f"{_ENCODER}layer_norm.weight": ("source_norm", "embed -> {embed}"),
    f"{_ENCODER}layer_norm.bias": ("source_norm_bias", "embed -> {embed}"),
    f"{_DECODER}embed_tokens.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    f"{_DECODER}embed_positions.weight": ("positions", "position embed -> {position, embed}"),
    **_layers(f"{_LAYER}.self_attn", "decoder/attention", "layers", _ATTENTION),
    **_layers(f"{_LAYER}.encoder_attn", "decoder/cross", "layers", _ATTENTION),
    **_layers(_LAYER, "decoder/feed_forward", "layers", _FEED_FORWARD),
    f"{_DECODER}layer_norm.weight": ("norm", "embed -> {embed}"),
    f"{_DECODER}layer_norm.bias": ("norm_bias", "embed -> {embed}"),
}


def spec(config: Config) -> common.Spec:
    """Return SPEC, which all configurations share."""
    return SPEC


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters."""
    return common.init(SPEC, config.sizes(), key)


init_cache = common.init_cache


def keys_and_values(h: nx.NamedArray, p: Params, pos: str) -> tuple[nx.NamedArray, nx.NamedArray]:
    """Return keys and values; with the parameters of all layers, those of all layers."""
    key, value = (read(h, p[name], "kv_heads, key", pos) for name in ("key", "value"))
    return key, value + p["value_bias"]


def attention(
    x: nx.NamedArray, p: Params, pos: str = "pos", memory: Any = None, cache: Any = None, lengths: Any = None
) -> tuple[nx.NamedArray, Any]:  # fmt: skip
    """Attend to a memory (keys and values), or to `x`: causally over `pos`, or all over `source`."""
    h = layer_norm(x, p)
    query = read(h, p["query"], "kv_heads, key", pos) + p["query_bias"]
    key, value = keys_and_values(h, p, pos) if memory is None else memory
    if cache is None:
        options = {"is_causal": pos == "pos"} if memory is None else {"key_axis": "source"}
        h = nx.nn.dot_product_attention(query, key, value, axis=pos, features="key", **options)
    else:
        cache = cache.append(key, value, axis=pos, lengths=lengths)
        h = cache.attend(query, axis=pos, features="key")
    return x + write(h, p["out"], "kv_heads, key", pos) + p["out_bias"], cache


def encode(params: Params, features: nx.NamedArray, config: Config, dropout_key: Any = None) -> Any:
    """Return the outputs of the encoder for a spectrogram with the axes `mel` and `frame`."""

    def layer(x: nx.NamedArray, p: Params) -> tuple[nx.NamedArray, None]:
        x, _ = attention(x, p["attention"], "source")
        return common.gelu_layer(x, p["feed_forward"], pos="source"), None

    options = {"axis": "frame", "kernel_axis": "tap", "padding": [(1, 1)]}
    x = nx.conv(features, params["conv1"], features_in="mel", features_out="channel", **options)
    x = nx.nn.gelu(x + params["conv1_bias"], approximate=False)
    kernel = nx.rename(params["conv2"], {"embed_fsdp": "embed"})
    options |= {"features_in": "channel", "features_out": "embed", "out_axis": "source_sp"}
    x = nx.conv(x, kernel, strides=2, **options)
    x = nx.nn.gelu(x + params["conv2_bias"], approximate=False) + params["source_positions"]
    x, _ = common.apply_layers(layer, x, params["encoder"], config, dropout_key, "source_layers")
    return layer_norm(x, params, "source_norm")


def decode(
    params: Params, encoded: Any, tokens: nx.NamedArray, config: Config, *,
    cache: Any = None, lengths: Any = None, dropout_key: Any = None,
) -> Any:  # fmt: skip
    """Return the logits of the next token at every position; with a cache, see `llama.forward`.

    `encoded` has the outputs of the encoder. In generation, compute the keys and values of all
    layers once, and pass these: `keys_and_values(encoded, params["decoder"]["cross"], "source")`.
    """
    memory = encoded if isinstance(encoded, tuple) else None

    def layer(x: nx.NamedArray, inputs: Any) -> tuple[nx.NamedArray, Any]:
        p, memory, cache = inputs
        x, cache = attention(x, p["attention"], cache=cache, lengths=lengths)
        if memory is None:
            memory = keys_and_values(encoded, p["cross"], "source")
        x, _ = attention(x, p["cross"], memory=memory)
        return common.gelu_layer(x, p["feed_forward"]), cache

    positions = common.next_positions(tokens, cache)
    x = common.embedding(params["embed"], tokens)
    x = x + nx.rename(nx.take(params["positions"], positions, "position"), {"pos": "pos_sp"})
    stacked = (params["decoder"], memory, cache)
    x, cache = common.apply_layers(layer, x, stacked, config, dropout_key)
    x = x if cache is None else common.last_token(x, lengths)
    logits = read(layer_norm(x, params), params["embed"], "vocab")
    return logits if cache is None else (logits, cache)


def forward(
    params: Params, features: nx.NamedArray, tokens: nx.NamedArray, config: Config, **options: Any
) -> Any:
    """Return the logits of the next token at every position; `options` are those of `decode`."""
    encoded = encode(params, features, config, options.get("dropout_key"))
    return decode(params, encoded, tokens, config, **options)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    inputs, key = (batch["features"], batch["tokens"]), batch.get("dropout_key")
    return common.cross_entropy(forward(params, *inputs, config, dropout_key=key), batch)
