"""Whisper: an encoder of speech and a decoder of text.

Two convolutions read the spectrogram, the second with stride 2. If its frames are sharded, a device
gets the boundary frames of its neighbors, and nothing else. Source: Radford et al., "Robust speech
recognition via large-scale weak supervision", 2022.
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
from namedax.models.common import Params, layer_norm, read, write
from namedax.models.common import init_cache as init_cache
from namedax.models.whisper_keys import ENTRIES, FIXED, IGNORED, SPEC


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. The encoder has `source` positions, of two frames each; `position` is of tokens."""

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
                raise CheckpointError(
                    f"models.load: {path} has different sizes of {name} in the encoder and the"
                    " decoder, which this model does not support."
                )
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
    x: nx.NamedArray,
    p: Params,
    pos: str,
    memory: Any = None,
    cache: Any = None,
    lengths: Any = None,
) -> tuple[nx.NamedArray, Any]:
    """Attend to a memory of keys and values, or to `x`: causally over `pos`, all of `source`."""
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
