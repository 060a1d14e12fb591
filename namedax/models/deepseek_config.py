"""The configuration of DeepSeek V3, and the keys of its checkpoints.

Layers with and without experts are stacked apart, along `layers` and `dense_layers`, and have the
same attention.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from typing import Any

from namedax.models import common


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes. Queries have `nope` features without positions and `rope` features with them."""

    vocab: int
    embed: int
    dense_hidden: int  # of the dense layers; `hidden` is that of one expert
    hidden: int
    dense_layers: int = 3
    layers: int  # with experts
    kv_heads: int
    latent: int = 512  # features from which keys and values are made
    query_rank: int | None = 1536
    nope: int = 128
    rope: int = 64
    value: int = 128
    experts: int = 256
    shared: int = 1
    chosen: int = 8
    groups: int = 8
    chosen_groups: int = 4
    normalize: bool = True
    factor: float = 2.5  # of the weights of experts
    epsilon: float = 1e-6
    theta: float = 10_000.0
    scaling: Mapping[str, Any] | None = None
    interleaved: bool = True  # neighboring features are rotated together
    tied: bool = False
    predicted: int = 1  # layers for multi-token prediction in the checkpoint
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        values["query_rank"] = values.get("query_rank")
        dense = min(values.pop("dense", 3), values["layers"])
        values |= {"dense_layers": dense, "layers": values["layers"] - dense}
        return common.make_config(cls, path, values)

    @property
    def scale(self) -> float:
        """The factor of the scores, which grows with the length of the context (YaRN)."""
        scaling = self.scaling or {}
        factor = max(scaling.get("factor") or 1.0, 1.0)
        more = 0.1 * (scaling.get("mscale_all_dim") or 0) * math.log(factor) + 1
        return (self.nope + self.rope) ** -0.5 * more**2

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = "vocab embed dense_hidden hidden dense_layers layers kv_heads latent value shared"
        sizes = {name: getattr(self, name) for name in names.split()}
        sizes |= {"expert": self.experts, "route": self.experts, "query_rank": self.query_rank or 0}
        sizes |= {"query": self.nope + self.rope, "key": self.latent + self.rope}
        sizes |= {"expanded": self.nope + self.value}
        sizes |= {"query_fsdp": sizes["query_rank"], "latent_fsdp": self.latent}
        sizes |= {"embed_fsdp": self.embed, "embed_expert": self.embed}
        return {name: size for name, size in sizes.items() if size}  # not those of absent weights

    @property
    def ignored(self) -> list[str]:
        """The keys of a checkpoint that are not read."""
        total = self.dense_layers + self.layers
        return [f"model.layers.{number}.*" for number in range(total, total + self.predicted)]


TINY = Config(
    vocab=256, embed=64, dense_hidden=160, hidden=64, dense_layers=1, layers=2, kv_heads=4,
    latent=32, query_rank=48, nope=16, rope=8, value=16, experts=8, chosen=2, groups=4,
    chosen_groups=2, theta=100.0,
)  # fmt: skip
ENTRIES = {
    "vocab_size": "vocab", "hidden_size": "embed", "intermediate_size": "dense_hidden",
    "moe_intermediate_size": "hidden", "num_hidden_layers": "layers", "rms_norm_eps": "epsilon",
    "first_k_dense_replace": "dense", "num_attention_heads": "kv_heads", "kv_lora_rank": "latent",
    "q_lora_rank": "query_rank", "qk_nope_head_dim": "nope", "qk_rope_head_dim": "rope",
    "v_head_dim": "value", "n_routed_experts": "experts", "n_shared_experts": "shared",
    "num_experts_per_tok": "chosen", "n_group": "groups", "topk_group": "chosen_groups",
    "norm_topk_prob": "normalize", "routed_scaling_factor": "factor",
    "rope_interleave": "interleaved", "num_nextn_predict_layers": "predicted",
    "tie_word_embeddings": "tied",
}  # fmt: skip
FIXED: dict[str, list[Any]] = {
    "model_type": ["deepseek_v3"],
    "hidden_act": ["silu"],
    "attention_bias": [False],
    "moe_layer_freq": [1],
    "scoring_func": ["sigmoid"],
    "topk_method": ["noaux_tc"],
}
# Heads have sizes of their own; the others are for training.
IGNORED = ("num_key_value_heads", "head_dim", "qk_head_dim", "aux_loss_alpha", "seq_aux", "ep_size",
           "output_router_logits")  # fmt: skip

_NORM = "embed -> {layers, embed}"
_ATTENTION = {
    "input_layernorm": ("norm1", _NORM),
    "self_attn.q_proj": (
        "query", "(kv_heads query) e -> {layers, embed_fsdp=e, kv_heads, query}",
    ),
    "self_attn.q_a_proj": ("query_down", "rank e -> {layers, embed_fsdp=e, query_rank=rank}"),
    "self_attn.q_a_layernorm": ("query_norm", "query_rank -> {layers, query_rank}"),
    "self_attn.q_b_proj": (
        "query_up", "(kv_heads query) rank -> {layers, query_fsdp=rank, kv_heads, query}",
    ),
    "self_attn.kv_a_proj_with_mqa": ("key", "key e -> {layers, embed_fsdp=e, key}"),
    "self_attn.kv_a_layernorm": ("key_norm", "latent -> {layers, latent}"),
    "self_attn.kv_b_proj": (
        "expand", "(kv_heads expanded) latent -> {layers, latent_fsdp=latent, kv_heads, expanded}",
    ),
    "self_attn.o_proj": (
        "out", "e (kv_heads value) -> {layers, kv_heads, value, embed_fsdp=e}",
    ),
    "post_attention_layernorm": ("norm2", _NORM),
}  # fmt: skip
_UP = "dense_hidden e -> {layers, embed_fsdp=e, dense_hidden}"
_DENSE = {
    "mlp.gate_proj": ("gate", _UP),
    "mlp.up_proj": ("up", _UP),
    "mlp.down_proj": ("down", "e dense_hidden -> {layers, dense_hidden, embed_fsdp=e}"),
}
_EXPERT = "hidden e -> {layers, expert, embed_expert=e, hidden}"
_SHARED = "(shared hidden) e -> {layers, embed_fsdp=e, shared, hidden}"
_SPARSE = {
    "mlp.gate": ("router", "route e -> {layers, embed_fsdp=e, route}"),
    "mlp.experts.{expert}.gate_proj": ("gate", _EXPERT),
    "mlp.experts.{expert}.up_proj": ("up", _EXPERT),
    "mlp.experts.{expert}.down_proj": (
        "down", "e hidden -> {layers, expert, hidden, embed_expert=e}",
    ),
    "mlp.shared_experts.gate_proj": ("shared_gate", _SHARED),
    "mlp.shared_experts.up_proj": ("shared_up", _SHARED),
    "mlp.shared_experts.down_proj": (
        "shared_down", "e (shared hidden) -> {layers, shared, hidden, embed_fsdp=e}",
    ),
}  # fmt: skip
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    "model.embed_tokens.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    **{
        f"model.layers.{{dense_layers}}.{key}.weight": (
            f"dense_layers/{place}", pattern.replace("layers", "dense_layers"),
        )
        for key, (place, pattern) in (_ATTENTION | _DENSE).items()
    },
    **{
        f"model.layers.{{layers}}.{key}.weight": (f"layers/{place}", pattern)
        for key, (place, pattern) in (_ATTENTION | _SPARSE).items()
    },
    "model.layers.{layers}.mlp.gate.e_score_correction_bias": (
        "layers/router_bias", "route -> {layers, route}",
    ),
    "model.norm.weight": ("norm", "embed -> {embed}"),
    "lm_head.weight": ("unembed", "vocab e -> {embed_fsdp=e, vocab}"),
}  # fmt: skip


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has, with its ranges of layers."""
    first, total = config.dense_layers, config.dense_layers + config.layers
    dense, sparse = f"{{dense_layers:..{first}}}", f"{{layers:{first}..{total}}}"
    absent = ["query_down", "query_norm", "query_up"] if config.query_rank is None else ["query"]
    absent += ["unembed"] if config.tied else []
    return {
        key.replace("{dense_layers}", dense).replace("{layers}", sparse): entry
        for key, entry in SPEC.items()
        if entry[0].rpartition("/")[2] not in absent
    }
