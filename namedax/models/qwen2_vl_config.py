"""The configuration of Qwen2-VL, and the keys of its checkpoints."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from namedax.errors import CheckpointError
from namedax.models import common, llama, qwen2_vl_vision


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and tokens. Images have patches of `patch` by `patch` pixels in `frames` frames.

    A token of an image stands for a cell of `merge` by `merge` patches. `image_ratio` is that of
    the hidden layers of the vision encoder, whose layers are `source_layers`.
    """

    vocab: int
    embed: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    scaling: Mapping[str, Any]
    image_embed: int
    image_heads: int
    source_layers: int
    image_ratio: int = 4
    channels: int = 3
    patch: int = 14
    frames: int = 2
    merge: int = 2
    image_token: int = 151655
    video_token: int = 151656
    epsilon: float = 1e-6
    theta: float = 1_000_000.0
    tied: bool = False
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        path = pathlib.Path(path)
        path = path / "config.json" if path.is_dir() else path
        entries = json.loads(path.read_text())
        images = entries.pop("vision_config", {})
        entries |= {"model_type": "qwen2_vl_text", **entries.pop("text_config", {})}
        if {*(entries.get("layer_types") or ())} <= {"full_attention"}:
            entries.pop("layer_types", None)
        if images.get("rope_parameters") == {"rope_type": "axial", "rope_theta": 10000.0}:
            images.pop("rope_parameters")
        values = common.read_config(path, ENTRIES, FIXED, IGNORED, entries)
        values |= common.read_config(path, IMAGE_ENTRIES, IMAGE_FIXED, IGNORED, images)
        size = values.pop("project", None)
        if size not in (None, values.get("embed")):
            raise CheckpointError(
                f"models.load: {path}: vision_config has hidden_size={size}, but the decoder has"
                f" hidden_size={values.get('embed')}. Use a config.json in which they are equal, as"
                " published beside the weights."
            )
        if "mrope_section" not in values.get("scaling", {}):
            raise CheckpointError(
                f"models.load: {path} has no mrope_section in rope_scaling or rope_parameters. Use"
                " a complete config.json, as published beside the weights."
            )
        return common.make_config(cls, path, values)

    @property
    def key(self) -> int:
        """The number of features of a head."""
        return self.embed // self.heads

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the vision encoder's positions."""
        return "source", "source_sp"

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = ("vocab", "embed", "hidden", "layers", "kv_heads", "key", "source_layers")
        sizes = {name: getattr(self, name) for name in (*names, "image_embed", "image_heads")}
        sizes |= {"embed_fsdp": self.embed, "group": self.heads // self.kv_heads, "part": 3}
        sizes |= {"image_embed_fsdp": self.image_embed, "channel": self.channels}
        sizes |= {"image_key": self.image_embed // self.image_heads, "patch_frame": self.frames}
        sizes |= {"image_hidden": self.image_ratio * self.image_embed}
        sizes |= {"patch_row": self.patch, "patch_column": self.patch, "merge_row": self.merge}
        return sizes | {"merge_column": self.merge, "merged": self.merge**2 * self.image_embed}


TINY = Config(
    vocab=258, embed=64, hidden=160, layers=2, heads=4, kv_heads=2, theta=100.0, tied=True,
    scaling={"rope_type": "default", "mrope_section": [2, 3, 3]}, image_embed=32, image_heads=2,
    source_layers=2, channels=1, patch=4, image_token=256, video_token=257,
)  # fmt: skip
ENTRIES = {
    "vocab_size": "vocab", "hidden_size": "embed", "intermediate_size": "hidden",
    "num_hidden_layers": "layers", "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads", "rms_norm_eps": "epsilon", "tie_word_embeddings": "tied",
    "image_token_id": "image_token", "video_token_id": "video_token",
}  # fmt: skip
FIXED: dict[str, list[Any]] = {
    "model_type": ["qwen2_vl", "qwen2_vl_text"],
    "hidden_act": ["silu"],
    "use_sliding_window": [False],
}
IMAGE_ENTRIES = {
    "depth": "source_layers", "embed_dim": "image_embed", "num_heads": "image_heads",
    "mlp_ratio": "image_ratio", "in_channels": "channels", "patch_size": "patch",
    "temporal_patch_size": "frames", "spatial_merge_size": "merge", "hidden_size": "project",
}  # fmt: skip
IMAGE_FIXED: dict[str, list[Any]] = {
    "model_type": ["qwen2_vl", "qwen2_vl_vision"],
    "hidden_act": ["quick_gelu"],
}
# The window is not used; `in_chans` and `spatial_patch_size` repeat other entries.
IGNORED = (
    "in_chans sliding_window spatial_patch_size vision_end_token_id vision_start_token_id"
    " vision_token_id"
).split()

_ATTENTION = "model.layers.{layers}.self_attn."
_QUERY = "(kv_heads group key) -> {layers, kv_heads, group, key}"
_KEY = "(kv_heads key) -> {layers, kv_heads, key}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    **{key: entry for key, entry in llama.SPEC.items() if "_proj" in key or "self" not in key},
    f"{_ATTENTION}q_proj.bias": ("layers/query_bias", _QUERY),
    f"{_ATTENTION}k_proj.bias": ("layers/key_bias", _KEY),
    f"{_ATTENTION}v_proj.bias": ("layers/value_bias", _KEY),
    **qwen2_vl_vision.SPEC,
}


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has."""
    return {key: entry for key, entry in SPEC.items() if entry[0] != "unembed" or not config.tied}
