"""Whisper: an encoder of speech and a decoder of text.

    python examples/models/whisper.py

Two convolutions read the spectrogram, the second with stride 2. If its frames are sharded, a device
gets the boundary frames of its neighbors, and nothing else. Source: Radford et al., "Robust speech
recognition via large-scale weak supervision", 2022.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import common
import jax
from common import Params, biased, layer_norm, read, write
from common import init_cache as init_cache

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
    key: int
    mel: int = 80
    source: int = 1500
    position: int = 448
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        for name in ("kv_heads", "hidden"):
            if values.pop(f"source {name}", values.get(name)) != values.get(name):
                raise ValueError(f"{path}: encoder and decoder have different sizes of {name}.")
        values["key"] = values["embed"] // values["kv_heads"]
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter, and of the encoder's inputs."""
        names = "vocab embed hidden layers source_layers kv_heads key mel source position".split()
        sizes = {name: getattr(self, name) for name in names}
        sizes |= {"embed_fsdp": self.embed, "channel": self.embed, "tap": 3}
        return sizes | {"source_sp": self.source, "frame": 2 * self.source}


TINY = Config(
    vocab=256, embed=64, hidden=160, layers=2, source_layers=2, kv_heads=4, key=16, mel=16,
    source=32, position=64,
)  # fmt: skip
ENTRIES = {
    "vocab_size": "vocab", "d_model": "embed", "num_mel_bins": "mel",
    "decoder_layers": "layers", "encoder_layers": "source_layers",
    "decoder_attention_heads": "kv_heads", "encoder_attention_heads": "source kv_heads",
    "decoder_ffn_dim": "hidden", "encoder_ffn_dim": "source hidden",
    "max_target_positions": "position", "max_source_positions": "source",
}  # fmt: skip
FIXED = {"model_type": ["whisper"], "activation_function": ["gelu"], "scale_embedding": [False]}
# Entries of masks in training, of generation, and of a classifier.
IGNORED = (
    "alignment_heads apply_spec_augment classifier_proj_size decoder_layerdrop encoder_layerdrop"
    " lang_ids mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length"
    " mask_time_min_masks mask_time_prob median_filter_width num_hidden_layers tie_word_embeddings"
    " use_weighted_layer_sum"
).split()

# The axis L is that of the layers.
_WEIGHT = "(kv_heads key) e -> {L, embed_fsdp=e, kv_heads, key}"
_BIAS, _EMBED = "(kv_heads key) -> {L, kv_heads, key}", "embed -> {L, embed}"
_ATTENTION = {
    **biased("_layer_norm", "norm", _EMBED, _EMBED),
    **biased(".q_proj", "query", _WEIGHT, _BIAS),
    ".k_proj.weight": ("key", _WEIGHT),
    **biased(".v_proj", "value", _WEIGHT, _BIAS),
    **biased(".out_proj", "out", "e (kv_heads key) -> {L, kv_heads, key, embed_fsdp=e}", _EMBED),
}
_FEED_FORWARD = {
    **biased(".final_layer_norm", "norm", _EMBED, _EMBED),
    **biased(".fc1", "up", "hidden e -> {L, embed_fsdp=e, hidden}", "hidden -> {L, hidden}"),
    **biased(".fc2", "down", "e hidden -> {L, hidden, embed_fsdp=e}", _EMBED),
}


def _layers(part: str, place: str, table: common.Spec) -> common.Spec:
    """Return the entries of one part of all layers of the encoder or the decoder."""
    module, axis = place.partition("/")[0], "layers" if "decoder" in place else "source_layers"
    return {
        f"model.{module}.layers.{{{axis}}}{part}{key}": (f"{place}/{name}", text.replace("L", axis))
        for key, (name, text) in table.items()
    }


_ENCODER, _DECODER, _NORM = "model.encoder.", "model.decoder.", "embed -> {embed}"
_CONV1, _CONV2 = "c mel tap -> {tap, mel, channel=c}", "e c tap -> {tap, channel=c, embed_fsdp=e}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    **biased(f"{_ENCODER}conv1", "conv1", _CONV1, "channel -> {channel}"),
    **biased(f"{_ENCODER}conv2", "conv2", _CONV2, _NORM),
    f"{_ENCODER}embed_positions.weight": ("source_positions", "s embed -> {source_sp=s, embed}"),
    **_layers(".self_attn", "encoder/attention", _ATTENTION),
    **_layers("", "encoder/feed_forward", _FEED_FORWARD),
    **biased(f"{_ENCODER}layer_norm", "source_norm", _NORM, _NORM),
    f"{_DECODER}embed_tokens.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    f"{_DECODER}embed_positions.weight": ("positions", "position embed -> {position, embed}"),
    **_layers(".self_attn", "decoder/attention", _ATTENTION),
    **_layers(".encoder_attn", "decoder/cross", _ATTENTION),
    **_layers("", "decoder/feed_forward", _FEED_FORWARD),
    **biased(f"{_DECODER}layer_norm", "norm", _NORM, _NORM),
}


def spec(config: Config) -> common.Spec:
    """Return SPEC, which all configurations share."""
    return SPEC


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters."""
    return common.init(SPEC, config.sizes(), key)


def keys_and_values(h: nx.NamedArray, p: Params, pos: str) -> tuple[nx.NamedArray, nx.NamedArray]:
    """Return keys and values; with the parameters of all layers, those of all layers."""
    key, value = (read(h, p[name], "kv_heads, key", pos) for name in ("key", "value"))
    return key, value + p["value_bias"]


def attention(
    x: nx.NamedArray, p: Params, pos: str, memory: Any = None, cache: Any = None, lengths: Any = None
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

    def layer(x: nx.NamedArray, inputs: Any, cache: Any = None) -> tuple[nx.NamedArray, Any]:
        p, memory = inputs
        x, cache = attention(x, p["attention"], "pos", None, cache, lengths)
        memory = keys_and_values(encoded, p["cross"], "source") if memory is None else memory
        x, _ = attention(x, p["cross"], "pos", memory)
        return common.gelu_layer(x, p["feed_forward"]), cache

    positions = common.next_positions(tokens, cache)
    positions = positions if cache is None else positions["layers", 0]  # the same in all layers
    x = common.embedding(params["embed"], tokens)
    x = x + nx.rename(nx.take(params["positions"], positions, "position"), {"pos": "pos_sp"})
    stacked = (params["decoder"], memory)
    x, cache = common.apply_layers(layer, x, stacked, config, dropout_key, cache=cache)
    x = x if cache is None else common.last_token(x, lengths)
    logits = read(layer_norm(x, params), params["embed"], "vocab")
    return logits if cache is None else (logits, cache)


def forward(params: Params, features: Any, tokens: Any, config: Config, **options: Any) -> Any:
    """Return the logits of the next token at every position; `options` are those of `decode`."""
    encoded = encode(params, features, config, options.get("dropout_key"))
    return decode(params, encoded, tokens, config, **options)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    inputs, key = (batch["features"], batch["tokens"]), batch.get("dropout_key")
    return common.cross_entropy(forward(params, *inputs, config, dropout_key=key), batch)


if __name__ == "__main__":
    import show

    show.main("whisper")
