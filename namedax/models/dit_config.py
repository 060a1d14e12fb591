"""The configuration of DiT, and the keys of its checkpoints."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from namedax.errors import CheckpointError
from namedax.models import common
from namedax.models.common import biased


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes. Images are squares of `image` by `image`; `outputs` per channel: noise, variance."""

    heads: int
    key: int
    layers: int
    image: int
    patch: int
    channels: int
    outputs: int
    classes: int = 1000
    times: int = 1000
    epsilon: float = 1e-5
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        channels = values.get("channels", 1)
        outputs = values.get("outputs", channels)
        if outputs % channels:
            raise CheckpointError(
                f"models.load: {path} has out_channels={outputs}, no multiple of in_channels="
                f"{channels}. Use a checkpoint that predicts the noise of every channel."
            )
        values["outputs"] = outputs // channels
        return common.make_config(cls, path, values)

    @property
    def embed(self) -> int:
        """The size of the residual stream."""
        return self.heads * self.key

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter, and of the positions."""
        embed, patches = self.embed, (self.image // self.patch) ** 2
        sizes = {"layers": self.layers, "kv_heads": self.heads, "key": self.key, "embed": embed}
        sizes |= {"embed_fsdp": embed, "condition": embed, "hidden": 4 * embed, "wave": 256}
        sizes |= {"label": self.classes + 1, "modulation": 6, "final": 2, "output": self.outputs}
        sizes |= {"channel": self.channels, "patch_row": self.patch, "patch_column": self.patch}
        return sizes | {"pos": patches, "pos_sp": patches}


TINY = Config(heads=4, key=16, layers=2, image=16, patch=4, channels=1, outputs=1, classes=10)
ENTRIES = {
    "num_attention_heads": "heads",
    "attention_head_dim": "key",
    "num_layers": "layers",
    "sample_size": "image",
    "patch_size": "patch",
    "in_channels": "channels",
    "out_channels": "outputs",
    "num_embeds_ada_norm": "classes",
    "norm_eps": "epsilon",
}
FIXED: dict[str, list[Any]] = {
    "_class_name": ["DiTTransformer2DModel", "Transformer2DModel"],
    "activation_fn": ["gelu-approximate"],
    "attention_bias": [True],
    "norm_type": ["ada_norm_zero"],
    "norm_elementwise_affine": [False],
    "cross_attention_dim": [None],
    "num_vector_embeds": [None],
    "only_cross_attention": [False],
    "use_linear_projection": [False],
}
IGNORED = ["_diffusers_version", "norm_num_groups", "upcast_attention"]

_LAYER, _EMBED, _ROW = (
    "transformer_blocks.{layers}.",
    "embed -> {layers, embed}",
    "embed -> {embed}",
)
_TIME, _LABEL = f"{_LAYER}norm1.emb.timestep_embedder.", f"{_LAYER}norm1.emb.class_embedder."
_QKV = "(kv_heads key) e -> {layers, embed_fsdp=e, kv_heads, key}"
_BIAS = "(kv_heads key) -> {layers, kv_heads, key}"
_OUT = "e (kv_heads key) -> {layers, kv_heads, key, embed_fsdp=e}"
_UP, _HIDDEN = "hidden e -> {layers, embed_fsdp=e, hidden}", "hidden -> {layers, hidden}"
_DOWN = "e hidden -> {layers, hidden, embed_fsdp=e}"
_PATCHES = "e channel row column -> {channel, patch_row=row, patch_column=column, embed_fsdp=e}"
_PIXELS = "(patch_row patch_column output channel)"
_OF_PIXELS = "{%spatch_row, patch_column, output, channel}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    **biased("pos_embed.proj", "patches", _PATCHES, _ROW),
    **biased(f"{_TIME}linear_1", "layers/time1", "e wave -> {layers, wave, embed_fsdp=e}", _EMBED),
    **biased(
        f"{_TIME}linear_2",
        "layers/time2",
        "condition e -> {layers, embed_fsdp=e, condition}",
        "condition -> {layers, condition}",
    ),
    f"{_LABEL}embedding_table.weight": ("layers/label", "label e -> {layers, label, embed_fsdp=e}"),
    **biased(
        f"{_LAYER}norm1.linear",
        "layers/modulate",
        "(modulation embed) e -> {layers, embed_fsdp=e, modulation, embed}",
        "(modulation embed) -> {layers, modulation, embed}",
    ),
    **biased(f"{_LAYER}attn1.to_q", "layers/query", _QKV, _BIAS),
    **biased(f"{_LAYER}attn1.to_k", "layers/key", _QKV, _BIAS),
    **biased(f"{_LAYER}attn1.to_v", "layers/value", _QKV, _BIAS),
    **biased(f"{_LAYER}attn1.to_out.0", "layers/out", _OUT, _EMBED),
    **biased(f"{_LAYER}ff.net.0.proj", "layers/up", _UP, _HIDDEN),
    **biased(f"{_LAYER}ff.net.2", "layers/down", _DOWN, _EMBED),
    **biased(
        "proj_out_1",
        "modulate",
        "(final embed) e -> {embed_fsdp=e, final, embed}",
        "(final embed) -> {final, embed}",
    ),
    **biased(
        "proj_out_2",
        "pixels",
        f"{_PIXELS} e -> {_OF_PIXELS % 'embed_fsdp=e, '}",
        f"{_PIXELS} -> {_OF_PIXELS % ''}",
    ),
}


def spec(config: Config) -> common.Spec:
    """Return SPEC, of which a model of every configuration has all."""
    return SPEC
