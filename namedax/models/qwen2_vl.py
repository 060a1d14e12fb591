"""Qwen2-VL: a decoder that reads images and text, with rotary positions in time, rows and columns.

The outputs of a vision encoder replace the embeddings of image tokens. The positions of such a
token have three components, each of which rotates some pairs of features (M-RoPE); those of a text
token are equal. All images of a batch have one size, but every sequence may have another number of
them. The decoder is that of Qwen2: as Llama, but queries, keys and values have biases. Source: Wang
et al., "Qwen2-VL: Enhancing vision-language model's perception of the world at any resolution",
2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

import namedax as nx
from namedax.models import common, llama
from namedax.models.common import Params, read, write
from namedax.models.qwen2_vl_config import SPEC as SPEC
from namedax.models.qwen2_vl_config import TINY as TINY
from namedax.models.qwen2_vl_config import Config
from namedax.models.qwen2_vl_config import spec as spec
from namedax.models.qwen2_vl_vision import encode as encode
from namedax.models.qwen2_vl_vision import grid as grid


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters."""
    return common.init(spec(config), config.sizes(), key)


init_cache = common.init_cache


def of_images(tokens: nx.NamedArray, config: Config) -> Any:
    """Return 1 for tokens of images and of videos, and 0 for text."""
    found = (tokens == config.image_token) | (tokens == config.video_token)
    return found.astype(jnp.int32)


def shift(tokens: nx.NamedArray, images: nx.NamedArray, config: Config) -> Any:
    """Return the difference of the next position and the number of tokens of a prompt."""
    sizes = grid(images, config)
    count = nx.sum(of_images(tokens, config), "pos")
    return count // (sizes[0] * sizes[1] * sizes[2]) * max(sizes) - count


def places(tokens: nx.NamedArray, sizes: tuple[int, int, int], config: Config) -> Any:
    """Return the positions, with the axis `component`, and the number of the cell of each token.

    An image of `sizes` takes as many positions as its largest size. Its cells are counted over all
    images of a sequence.
    """
    time, rows, columns = sizes
    is_image = of_images(tokens, config)
    cell = nx.cumsum(is_image, "pos") - is_image
    number, inner = cell // (time * rows * columns), cell % (time * rows * columns)
    start = nx.arange(tokens.named_shape["pos"], axis="pos") - cell + number * max(sizes)
    within = [inner // (rows * columns), inner // columns % rows, inner % columns]
    return nx.stack([start + is_image * part for part in within], "component"), cell


def attention(
    x: nx.NamedArray, p: Params, config: Config, cache: Any, positions: Any, lengths: Any
) -> tuple[nx.NamedArray, Any]:
    """Attend to earlier positions; with a cache, also to those in it."""
    h = nx.nn.rms_norm(x, "embed", scale=p["norm1"], epsilon=config.epsilon)
    query = read(h, p["query"], "kv_heads, group, key") + p["query_bias"]
    key, value = (
        read(h, p[name], "kv_heads, key") + p[f"{name}_bias"] for name in ("key", "value")
    )
    options: dict[str, Any] = {"base": config.theta, "scaling": config.scaling}
    options["sections"] = {"component": config.scaling["mrope_section"]}
    query, key = (nx.nn.rope(array, positions, "key", **options) for array in (query, key))
    if cache is None:
        attended = nx.nn.dot_product_attention(
            query, key, value, axis="pos", features="key", is_causal=True
        )
    else:
        cache = cache.append(key, value, axis="pos", lengths=lengths)
        attended = cache.attend(query, axis="pos", features="key")
    return x + write(attended, p["out"], "kv_heads, group, key"), cache


def forward(
    params: Params,
    tokens: nx.NamedArray,
    config: Config,
    *,
    images: Any = None,
    cache: Any = None,
    lengths: Any = None,
    shift: Any = 0,
    dropout_key: Any = None,
) -> Any:
    """Return the logits of the next token at every position.

    `images` have the axes `channel`, `row` and `column`, perhaps `frame` for a video, and `image`
    for several in a sequence. With a cache, return the logits after the last token only, and the
    next cache; `lengths` are then those of padded prompts. After prompts with images, pass the sum
    of their `shift`.
    """
    x = common.embedding(params["embed"], tokens)
    of_encoder = None if dropout_key is None else jax.random.fold_in(dropout_key, 1)
    if cache is not None:
        shift = shift + cache.lengths["layers", 0]  # all layers have the same
    if images is None:
        positions = nx.arange(tokens.named_shape["pos"], axis="pos") + shift
        positions = nx.stack([positions] * 3, "component")
    else:
        positions, cell = places(tokens, grid(images, config), config)
        positions = positions + shift
        encoded = encode(params["image"], images, config, of_encoder)
        order = [axis for axis in ("image", "time", "cell") if axis in encoded.named_shape]
        cells = nx.rearrange(encoded, f"{{{', '.join(order)}}} -> {{cell=({' '.join(order)})}}")
        found = nx.rename(nx.take(cells, cell, "cell"), {"pos": "pos_sp"})
        is_image = nx.rename(of_images(tokens, config), {"pos": "pos_sp"})
        x = nx.where(is_image == 1, found.astype(x.dtype), x)

    def layer(x: nx.NamedArray, p: Params, part: Any = None) -> tuple[nx.NamedArray, Any]:
        x, part = attention(x, p, config, part, positions, lengths)
        return llama.feed_forward(x, p, config), part

    x, cache = common.apply_layers(layer, x, params["layers"], config, dropout_key, cache=cache)
    logits = common.logits(x, params, config, cache, lengths)
    return logits if cache is None else (logits, cache)


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of the next tokens, in nats."""
    options = {name: batch.get(name) for name in ("images", "dropout_key")}
    return common.cross_entropy(forward(params, batch["tokens"], config, **options), batch)
