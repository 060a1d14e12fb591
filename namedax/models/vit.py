"""ViT: a transformer that classifies images, which it reads as a sequence of patches.

The sequence begins with a learned vector, whose output is classified. A linear projection of each
patch follows. Layers normalize first, and their GELU is exact. Source: Dosovitskiy et al., "An
image is worth 16x16 words", 2021.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax

import namedax as nx
from namedax.models import common
from namedax.models.common import Params, biased, layer_norm, read, write


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. Images are squares of `image` by `image` pixels, and patches of `patch` by `patch`."""

    embed: int
    hidden: int
    layers: int
    heads: int
    classes: int
    image: int
    patch: int
    channels: int = 3
    bias: bool = True
    epsilon: float = 1e-12
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        if "classes" in values:  # a label for each
            values["classes"] = len(values["classes"])
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter, and of the positions."""
        positions = 1 + (self.image // self.patch) ** 2
        sizes = {name: getattr(self, name) for name in ("embed", "hidden", "layers", "classes")}
        sizes |= {"channel": self.channels, "patch_row": self.patch, "patch_column": self.patch}
        sizes |= {"kv_heads": self.heads, "key": self.embed // self.heads}
        return sizes | {"embed_fsdp": self.embed, "pos": positions, "pos_sp": positions}


TINY = Config(embed=64, hidden=160, layers=2, heads=4, classes=10, image=16, patch=4, channels=1)
ENTRIES = {
    "hidden_size": "embed",
    "intermediate_size": "hidden",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "id2label": "classes",
    "image_size": "image",
    "patch_size": "patch",
    "num_channels": "channels",
    "qkv_bias": "bias",
    "layer_norm_eps": "epsilon",
}
FIXED = {"model_type": ["vit"], "hidden_act": ["gelu"]}
# The pooler is a part of other heads; this one classifies the first position itself.
IGNORED = (
    "attention_probs_dropout_prob encoder_stride hidden_dropout_prob label2id pooler_act"
    " pooler_output_size"
).split()

_EMBEDDINGS, _LAYER = "vit.embeddings.", "vit.encoder.layer.{layers}."
_QKV, _ATTENTION = f"{_LAYER}attention.attention.", f"{_LAYER}attention.output.dense"
_WEIGHT = "(kv_heads key) e -> {layers, embed_fsdp=e, kv_heads, key}"
_BIAS, _EMBED = "(kv_heads key) -> {layers, kv_heads, key}", "embed -> {layers, embed}"
_OUT = "e (kv_heads key) -> {layers, kv_heads, key, embed_fsdp=e}"
_UP = "hidden e -> {layers, embed_fsdp=e, hidden}"
_DOWN = "e hidden -> {layers, hidden, embed_fsdp=e}"
_PATCHES = "e channel row column -> {channel, patch_row=row, patch_column=column, embed_fsdp=e}"
_NORM, _CLASSES = "embed -> {embed}", "classes e -> {embed_fsdp=e, classes}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    f"{_EMBEDDINGS}cls_token": ("first", "1 1 embed -> {embed}"),
    f"{_EMBEDDINGS}position_embeddings": ("positions", "1 pos embed -> {pos_sp=pos, embed}"),
    **biased(f"{_EMBEDDINGS}patch_embeddings.projection", "patches", _PATCHES, _NORM),
    **biased(f"{_LAYER}layernorm_before", "layers/norm1", _EMBED, _EMBED),
    **biased(f"{_QKV}query", "layers/query", _WEIGHT, _BIAS),
    **biased(f"{_QKV}key", "layers/key", _WEIGHT, _BIAS),
    **biased(f"{_QKV}value", "layers/value", _WEIGHT, _BIAS),
    **biased(_ATTENTION, "layers/out", _OUT, _EMBED),
    **biased(f"{_LAYER}layernorm_after", "layers/norm2", _EMBED, _EMBED),
    **biased(f"{_LAYER}intermediate.dense", "layers/up", _UP, "hidden -> {layers, hidden}"),
    **biased(f"{_LAYER}output.dense", "layers/down", _DOWN, _EMBED),
    **biased("vit.layernorm", "norm", _NORM, _NORM),
    **biased("classifier", "classify", _CLASSES, "classes -> {classes}"),
}


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has."""
    absent = () if config.bias else ("layers/query_bias", "layers/key_bias", "layers/value_bias")
    return {key: entry for key, entry in SPEC.items() if entry[0] not in absent}


def init(config: Config, key: jax.Array) -> Params:
    """Return random parameters."""
    return common.init(spec(config), config.sizes(), key)


def embed(params: Params, images: nx.NamedArray, config: Config) -> nx.NamedArray:
    """Project the patches, put the learned vector before them, and add the positions."""
    pixels = nx.rearrange(
        images,
        "{row=(r patch_row), column=(c patch_column)} -> {patch=(r c), patch_row, patch_column}",
        patch_row=config.patch,
        patch_column=config.patch,
    )
    # A row of zeros for the learned vector: each device projects the patches of its positions only.
    pixels = nx.rename(nx.pad(pixels, {"patch": (1, 0)}), {"patch": "pos_sp"})
    pattern = "{channel, patch_row, patch_column}, {channel, patch_row, patch_column, %s} -> {%s}"
    x = nx.einsum(pattern % ("embed:embed_fsdp", "embed"), pixels, params["patches"])
    is_first = nx.arange(config.sizes()["pos"], axis="pos_sp") == 0
    x = x + nx.where(is_first, params["first"], params["patches_bias"])
    return x + params["positions"]


def attention(x: nx.NamedArray, p: Params, config: Config) -> nx.NamedArray:
    """Attend to all positions."""
    h = layer_norm(x, p, "norm1", config.epsilon)
    query, key, value = (read(h, p[name], "kv_heads, key") for name in ("query", "key", "value"))
    if config.bias:
        query, key = query + p["query_bias"], key + p["key_bias"]
        value = value + p["value_bias"]
    attended = nx.nn.dot_product_attention(query, key, value, axis="pos", features="key")
    return x + write(attended, p["out"], "kv_heads, key") + p["out_bias"]


def forward(
    params: Params, images: nx.NamedArray, config: Config, *, dropout_key: Any = None
) -> nx.NamedArray:
    """Return the logits of the classes."""

    def layer(x: nx.NamedArray, p: Params) -> tuple[nx.NamedArray, None]:
        return common.gelu_layer(attention(x, p, config), p, "norm2", config.epsilon), None

    x = embed(params, images, config)
    x, _ = common.apply_layers(layer, x, params["layers"], config, dropout_key)
    x = layer_norm(x["pos_sp", 0], params, "norm", config.epsilon)
    return read(x, params["classify"], "classes") + params["classify_bias"]


def loss(params: Params, batch: Mapping[str, Any], config: Config) -> Any:
    """Return the mean cross-entropy of `batch["labels"]`, in nats."""
    logits = forward(params, batch["images"], config, dropout_key=batch.get("dropout_key"))
    return common.cross_entropy(logits, {"targets": batch["labels"]}, "classes")
