"""T5: an encoder and a decoder with relative position biases, also T5 1.1 and Flan-T5.

The scores of attention are not scaled. The first layer of each stack has a table of biases by
distance, which all layers of the stack use. T5 1.1 and Flan-T5 have gated feed-forward layers, and
a separate output layer. The encoder and the decoder can have different layouts, because the encoder
has the axes `source` and `source_layers` for its positions and layers. Source: Raffel et al.,
"Exploring the limits of transfer learning with a unified text-to-text transformer", 2019.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

import namedax as nx
from namedax.models import common
from namedax.models.common import Params, read, write
from namedax.models.t5_config import SPEC as SPEC
from namedax.models.t5_config import TINY as TINY
from namedax.models.t5_config import Config, spec

_HEADS = "kv_heads, key"


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters. Queries are small, because scores are not scaled."""
    params = common.init(spec(config), config.sizes(), key)
    for stack, name in (("encoder", "query"), ("decoder", "query"), ("decoder", "cross_query")):
        params[stack]["layers"][name] *= config.key**-0.5
    return {**params, "embed": params["embed"] * config.embed**0.5}


init_cache = common.init_cache


def norm(x: nx.NamedArray, weight: nx.NamedArray, config: Config) -> nx.NamedArray:
    """RMSNorm."""
    return nx.nn.rms_norm(x, "embed", scale=weight, epsilon=config.epsilon)


def bias(table: nx.NamedArray, queries: Any, keys: Any, config: Config, causal: bool) -> Any:
    """Return what is added to the scores of every query and key."""
    options = {"bidirectional": not causal, "max_distance": config.max_distance}
    return nx.nn.relative_position_bias(table, queries, keys, axis="bucket", **options)


def attention(
    x: nx.NamedArray, p: Params, biases: Any, config: Config, pos: str, lengths: Any, cache: Any
) -> tuple[nx.NamedArray, Any]:
    """Attend to earlier positions in the decoder and its cache, and to all in the encoder."""
    h = norm(x, p["norm1"], config)
    query, key, value = (read(h, p[name], _HEADS, pos) for name in ("query", "key", "value"))
    options: dict[str, Any] = {"axis": pos, "features": "key", "bias": biases, "scale": 1.0}
    if cache is None:
        options |= {"is_causal": pos == "pos", "key_value_seq_lengths": lengths}
        attended = nx.nn.dot_product_attention(query, key, value, **options)
    else:
        cache = cache.append(key, value, axis=pos, lengths=lengths)
        attended = cache.attend(query, **options)
    return x + write(attended, p["out"], _HEADS, pos), cache


def remember(encoded: nx.NamedArray, p: Params) -> list[nx.NamedArray]:
    """Return the keys and values of the encoder's positions, in one layer of the decoder or all."""
    return [read(encoded, p[name], _HEADS, "source") for name in ("cross_key", "cross_value")]


def cross_attention(
    x: nx.NamedArray, p: Params, memory: Any, config: Config, lengths: Any
) -> nx.NamedArray:
    """Attend to the encoder's positions."""
    query = read(norm(x, p["cross_norm1"], config), p["cross_query"], _HEADS)
    attended = nx.nn.dot_product_attention(
        query, *memory, axis="pos", key_axis="source", features="key", scale=1.0,
        key_value_seq_lengths=lengths,
    )  # fmt: skip
    return x + write(attended, p["cross_out"], _HEADS)


def feed_forward(x: nx.NamedArray, p: Params, config: Config, pos: str = "pos") -> nx.NamedArray:
    """Apply ReLU, or a gate with the tanh approximation of GELU."""
    h = norm(x, p["norm2"], config)
    up = read(h, p["up"], "hidden", pos)
    if config.gated:
        inner = nx.nn.gelu(read(h, p["gate"], "hidden", pos)) * up
    else:
        inner = nx.nn.relu(up)
    return x + write(inner, p["down"], "hidden", pos)


def encode(params: Params, inputs: nx.NamedArray, config: Config, **options: Any) -> nx.NamedArray:
    """Return the encoder's last layer; `source_lengths` are those of padded inputs."""
    lengths, dropout_key = (options.get(name) for name in ("source_lengths", "dropout_key"))
    p, size = params["encoder"], inputs.named_shape["source"]
    queries, keys = (nx.arange(size, axis=axis) for axis in ("source", "key_source"))
    biases = bias(p["bias"], queries, keys, config, causal=False)

    def layer(x: nx.NamedArray, p: Params) -> tuple[nx.NamedArray, None]:
        x, _ = attention(x, p, biases, config, "source", lengths, None)
        return feed_forward(x, p, config, "source"), None

    x = common.embedding(params["embed"], inputs, "source")
    x, _ = common.apply_layers(layer, x, p["layers"], config, dropout_key, "source_layers")
    return nx.rename(norm(x, p["norm"], config), {"source_sp": "source"})


def decode(
    params: Params,
    encoded: nx.NamedArray,
    tokens: nx.NamedArray,
    config: Config,
    *,
    cache: Any = None,
    memory: Any = None,
    lengths: Any = None,
    **options: Any,
) -> Any:
    """Return the logits of the next token at every position.

    With a cache, return the logits after the last token only, and the next cache; `lengths` are
    then those of padded prompts. `memory` is `remember(encoded, params["decoder"]["layers"])`: if
    it is given, single steps do not compute it again.
    """
    p, queries = params["decoder"], nx.arange(tokens.named_shape["pos"], axis="pos")
    if cache is None:
        keys = nx.arange(tokens.named_shape["pos"], axis="key_pos")
    else:  # all layers have the same positions
        queries = queries + cache.lengths["layers", 0]
        keys = nx.arange(cache.capacity, axis="cache")
    biases = bias(p["bias"], queries, keys, config, causal=True)
    if (dropout_key := options.get("dropout_key")) is not None:
        dropout_key = jax.random.fold_in(dropout_key, 1)

    def layer(x: nx.NamedArray, inputs: Any, part: Any = None) -> tuple[nx.NamedArray, Any]:
        p, memory = inputs
        x, part = attention(x, p, biases, config, "pos", lengths, part)
        memory = remember(encoded, p) if memory is None else memory
        x = cross_attention(x, p, memory, config, options.get("source_lengths"))
        return feed_forward(x, p, config), part

    x = common.embedding(params["embed"], tokens)
    stacked = (p["layers"], memory)
    x, cache = common.apply_layers(layer, x, stacked, config, dropout_key, cache=cache)
    x = norm(x if cache is None else common.last_token(x, lengths), p["norm"], config)
    if config.tied:
        logits = read(x * config.embed**-0.5, params["embed"], "vocab")
    else:
        logits = read(x, params["unembed"], "vocab")
    return logits if cache is None else (logits, cache)


def forward(
    params: Params, inputs: nx.NamedArray, tokens: nx.NamedArray, config: Config, **options: Any
) -> nx.NamedArray:
    """Return the logits of the next token at every position of the decoder."""
    encoded = encode(params, inputs, config, **options)
    return decode(params, encoded, tokens, config, **options)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    options = {name: batch.get(name) for name in ("source_lengths", "dropout_key")}
    logits = forward(params, batch["inputs"], batch["tokens"], config, **options)
    return common.cross_entropy(logits, batch)
