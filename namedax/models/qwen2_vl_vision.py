"""The vision encoder of Qwen2-VL: two-dimensional rotary positions, and a merger of patches.

A patch has two frames. Attention is within a pair of frames. The merger makes one embedding of the
decoder from the patches of a cell, by default of four. Any other axis of the images is mapped, such
as `batch`, or `image` for several images in a sequence.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import namedax as nx
from namedax.models import common
from namedax.models.common import Params, biased, layer_norm, read, write

_EPSILON = 1e-6
_LAYER, _EMBED = "visual.blocks.{source_layers}.", "e -> {source_layers, image_embed=e}"
_FSDP, _HEADS = "image_embed_fsdp=e", "image_heads, image_key"
_HIDDEN = "image_hidden -> {source_layers, image_hidden}"
_PIXELS = "e channel frame row column ->"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    "visual.patch_embed.proj.weight": (
        "image/patches",
        f"{_PIXELS} {{channel, patch_frame=frame, patch_row=row, patch_column=column, {_FSDP}}}",
    ),
    **biased(f"{_LAYER}norm1", "image/layers/norm1", _EMBED, _EMBED),
    **biased(
        f"{_LAYER}attn.qkv",
        "image/layers/qkv",
        f"(part image_heads image_key) e -> {{source_layers, {_FSDP}, part, {_HEADS}}}",
        f"(part image_heads image_key) -> {{source_layers, part, {_HEADS}}}",
    ),
    **biased(
        f"{_LAYER}attn.proj",
        "image/layers/out",
        f"e (image_heads image_key) -> {{source_layers, {_HEADS}, {_FSDP}}}",
        _EMBED,
    ),
    **biased(f"{_LAYER}norm2", "image/layers/norm2", _EMBED, _EMBED),
    **biased(
        f"{_LAYER}mlp.fc1",
        "image/layers/up",
        f"image_hidden e -> {{source_layers, {_FSDP}, image_hidden}}",
        _HIDDEN,
    ),
    **biased(
        f"{_LAYER}mlp.fc2",
        "image/layers/down",
        f"e image_hidden -> {{source_layers, image_hidden, {_FSDP}}}",
        _EMBED,
    ),
    **biased("visual.merger.ln_q", "image/norm", "e -> {image_embed=e}", "e -> {image_embed=e}"),
    **biased(
        "visual.merger.mlp.0",
        "image/merge",
        f"merged (merge_row merge_column e) -> {{merge_row, merge_column, {_FSDP}, merged}}",
        "merged -> {merged}",
    ),
    **biased(
        "visual.merger.mlp.2",
        "image/project",
        "e merged -> {merged, embed_fsdp=e}",
        "embed -> {embed}",
    ),
}


def grid(images: nx.NamedArray, config: Any) -> tuple[int, int, int]:
    """Return the numbers of pairs of frames, and of rows and columns of cells."""
    sizes, cell = images.named_shape, config.patch * config.merge
    times = sizes.get("frame", config.frames) // config.frames
    return times, sizes["row"] // cell, sizes["column"] // cell


def attention(x: nx.NamedArray, p: Params, places: Any) -> nx.NamedArray:
    """Attend to all patches of a pair of frames; rows and columns rotate half of the features."""
    h = layer_norm(x, p, "norm1", _EPSILON, "image_embed")
    found = read(h, p["qkv"], f"part, {_HEADS}", "source", "image_embed") + p["qkv_bias"]
    query, key, value = (found["part", i] for i in range(3))

    def rotate(array: Any) -> Any:
        array = nx.rearrange(
            array, "{image_key=(pair place wave)} -> {place, feature=(pair wave)}", pair=2, place=2
        )
        array = nx.nn.rope(array, places, "feature")
        return nx.rearrange(array, "{place, feature} -> {image_key=(place feature)}")

    attended = nx.nn.dot_product_attention(
        rotate(query), rotate(key), value, axis="source", features="image_key"
    )
    return x + write(attended, p["out"], _HEADS, "source", "image_embed") + p["out_bias"]


def feed_forward(x: nx.NamedArray, p: Params) -> nx.NamedArray:
    """Two linear layers with an approximation of GELU between them."""
    h = layer_norm(x, p, "norm2", _EPSILON, "image_embed")
    h = read(h, p["up"], "image_hidden", "source", "image_embed") + p["up_bias"]
    h = h * nx.nn.sigmoid(1.702 * h)
    return x + write(h, p["down"], "image_hidden", "source", "image_embed") + p["down_bias"]


def encode(params: Params, images: Any, config: Any, dropout_key: Any = None) -> Any:
    """Return an embedding for every cell of images: `channel`, `row`, `column`, perhaps `frame`."""
    _, rows, columns = grid(images, config)
    if "frame" not in images.named_shape:  # a still image
        still = nx.expand_dims(images, "frame")
        images = nx.concatenate([still] * config.frames, "frame")
    cell = "{row=(r m patch_row), column=(c n patch_column), frame=(time patch_frame)} -> "
    pixels = nx.rearrange(
        images.astype(params["patches"].dtype),
        f"{cell} {{time, source_sp=(r c m n), patch_row, patch_column, patch_frame}}",
        **{"m": config.merge, "n": config.merge, "patch_frame": config.frames},
        **{"patch_row": config.patch, "patch_column": config.patch},
    )
    axes = "channel, patch_frame, patch_row, patch_column"
    pattern = f"{{{axes}}}, {{{axes}, image_embed:image_embed_fsdp}} -> {{image_embed}}"
    x = nx.einsum(pattern, pixels, params["patches"])
    each = nx.arange(rows * columns * config.merge**2, axis="source", dtype=jnp.int32)
    number, inner = each // config.merge**2, each % config.merge**2
    places = nx.stack(
        [
            number // columns * config.merge + inner // config.merge,
            number % columns * config.merge + inner % config.merge,
        ],
        "place",
    )

    def layer(x: nx.NamedArray, p: Params) -> tuple[nx.NamedArray, None]:
        return feed_forward(attention(x, p, places), p), None

    x, _ = common.apply_layers(layer, x, params["layers"], config, dropout_key, "source_layers")
    x = nx.rename(layer_norm(x, params, "norm", _EPSILON, "image_embed"), {"source_sp": "patch"})
    cells = nx.rearrange(
        x,
        "{patch=(cell merge_row merge_column)} -> {cell, merge_row, merge_column}",
        merge_row=config.merge,
        merge_column=config.merge,
    )
    inputs = "merge_row, merge_column, image_embed"
    pattern = f"{{{inputs}}}, {{{inputs}:image_embed_fsdp, merged}} -> {{merged}}"
    h = nx.nn.gelu(nx.einsum(pattern, cells, params["merge"]) + params["merge_bias"], False)
    pattern = "{merged}, {merged, embed:embed_fsdp} -> {embed}"
    return nx.einsum(pattern, h, params["project"]) + params["project_bias"]
