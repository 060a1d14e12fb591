"""DiT: a diffusion transformer, which predicts the noise in a latent image of a class.

The image is read as a sequence of patches. Each layer modulates its normalized inputs, and scales
its updates, by functions of the time and the class (adaLN-Zero). These functions are zero at first,
so every layer is then the identity. Checkpoints have the format of diffusers, in which every layer
embeds times and classes itself. The label after the last class means no class, for classifier-free
guidance. Sources: Peebles and Xie, "Scalable diffusion models with transformers", 2023; Ho et al.,
"Denoising diffusion probabilistic models", 2020.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from namedax.models import common
from namedax.models.common import Params, read, write
from namedax.models.dit_config import SPEC as SPEC
from namedax.models.dit_config import TINY as TINY
from namedax.models.dit_config import Config
from namedax.models.dit_config import spec as spec


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters, with zeros in the modulations and in the last layer."""
    params = common.init(SPEC, config.sizes(), key)
    params["layers"]["modulate"] *= 0
    return {**params, "modulate": params["modulate"] * 0, "pixels": params["pixels"] * 0}


def angles(positions: Any, waves: int, last: int) -> nx.NamedArray:
    """Return products with frequencies from 1 down to `10000**(-(waves - 1) / last)`."""
    return positions * nx.named((1e4 ** (-np.arange(waves) / last)).astype(np.float32), ["half"])


def condition(times: nx.NamedArray, labels: nx.NamedArray, p: Params, dtype: Any) -> nx.NamedArray:
    """Embed times and classes, and add them."""
    turned = angles(times, 128, 127)
    wave = nx.concatenate([nx.cos(turned), nx.sin(turned)], "half", out_axis="wave").astype(dtype)
    h = nx.einsum("{wave}, {wave, embed:embed_fsdp} -> {embed}", wave, p["time1"])
    h = read(nx.nn.silu(h + p["time1_bias"]), p["time2"], "condition") + p["time2_bias"]
    return h + nx.take(nx.rename(p["label"], {"embed_fsdp": "condition"}), labels, "label")


def modulation(c: nx.NamedArray, p: Params, axis: str) -> list[Any]:
    """Return a shift and a scale or, in the layers, two of each and factors of the updates."""
    pattern = f"{{condition}}, {{condition:embed_fsdp, {axis}, embed}} -> {{{axis}, embed}}"
    found = nx.einsum(pattern, nx.nn.silu(c), p["modulate"]) + p["modulate_bias"]
    return [found[axis, i] for i in range(found.named_shape[axis])]


def modulated(x: nx.NamedArray, shift: Any, scale: Any, epsilon: float = 1e-6) -> nx.NamedArray:
    """LayerNorm with a shift and a scale of each row (adaLN)."""
    return nx.nn.layer_norm(x, "embed", epsilon=epsilon) * (1 + scale) + shift


def attention(h: nx.NamedArray, p: Params) -> nx.NamedArray:
    """Attend to all positions."""
    query, key, value = (
        read(h, p[name], "kv_heads, key") + p[f"{name}_bias"] for name in ("query", "key", "value")
    )
    attended = nx.nn.dot_product_attention(query, key, value, axis="pos", features="key")
    return write(attended, p["out"], "kv_heads, key") + p["out_bias"]


def patches(images: nx.NamedArray, config: Config) -> Any:
    """Split rows and columns into positions and the pixels of a patch."""
    return nx.rearrange(
        images,
        "{row=(r patch_row), column=(c patch_column)} -> {pos=(r c), patch_row, patch_column}",
        patch_row=config.patch,
        patch_column=config.patch,
    )


def embed(params: Params, images: nx.NamedArray, config: Config) -> nx.NamedArray:
    """Project the patches, and add the waves of their columns and rows."""
    pixels = patches(images.astype(params["patches"].dtype), config)
    pixels = nx.rename(pixels, {"pos": "pos_sp"})
    pattern = "{channel, patch_row, patch_column}, {channel, patch_row, patch_column, %s} -> {%s}"
    x = nx.einsum(pattern % ("embed:embed_fsdp", "embed"), pixels, params["patches"])
    number, width = nx.arange(config.sizes()["pos"], axis="pos_sp"), config.image // config.patch
    quarter = config.embed // 4
    column, row = (angles(at, quarter, quarter) for at in (number % width, number // width))
    parts = [nx.sin(column), nx.cos(column), nx.sin(row), nx.cos(row)]
    waves = nx.concatenate(parts, "half", out_axis="embed").astype(x.dtype)
    return x + params["patches_bias"] + waves


def predict(
    params: Params,
    images: nx.NamedArray,
    times: nx.NamedArray,
    labels: nx.NamedArray,
    config: Config,
    dropout_key: Any = None,
) -> Any:
    """Return patches with the axis `output`: the noise first, and what its variance depends on."""

    def layer(x: nx.NamedArray, p: Params) -> tuple[nx.NamedArray, None]:
        c = condition(times, labels, p, x.dtype)
        shift1, scale1, factor1, shift2, scale2, factor2 = modulation(c, p, "modulation")
        x = x + factor1 * attention(modulated(x, shift1, scale1), p)
        h = read(modulated(x, shift2, scale2, config.epsilon), p["up"], "hidden") + p["up_bias"]
        return x + factor2 * (write(nx.nn.gelu(h), p["down"], "hidden") + p["down_bias"]), None

    x = embed(params, images, config)
    x, _ = common.apply_layers(layer, x, params["layers"], config, dropout_key)
    names = ("time1", "time1_bias", "time2", "time2_bias", "label")
    first = {name: params["layers"][name]["layers", 0] for name in names}
    c = condition(times, labels, first, x.dtype)
    h = modulated(x, *modulation(c, params, "final"))
    pixels = read(h, params["pixels"], "patch_row, patch_column, output, channel")
    return pixels + params["pixels_bias"]


def forward(
    params: Params,
    images: nx.NamedArray,
    times: nx.NamedArray,
    labels: nx.NamedArray,
    config: Config,
    *,
    dropout_key: Any = None,
) -> Any:
    """Return images with the axis `output`: the noise first, and what its variance depends on."""
    return nx.rearrange(
        predict(params, images, times, labels, config, dropout_key),
        "{pos=(r c), patch_row, patch_column} -> {row=(r patch_row), column=(c patch_column)}",
        r=config.image // config.patch,
    )


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean squared error of the noise in noisy images, for `batch["times"]`.

    The variance of the noise that is added at each time grows linearly. The loss does not depend on
    predicted variances.
    """
    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, config.times))
    images, noise, times, labels = (batch[n] for n in ("images", "noise", "times", "labels"))
    signal, error = (
        nx.take(nx.named(jnp.asarray(table**0.5, images.dtype), ["time"]), times, "time")
        for table in (kept, 1 - kept)
    )
    noisy, key = signal * images + error * noise, batch.get("dropout_key")
    predicted = predict(params, noisy, times, labels, config, key)
    return nx.mean((predicted["output", 0] - patches(noise, config)) ** 2, ...)
