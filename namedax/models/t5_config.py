"""The configuration of T5, and the keys of its published checkpoints."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from namedax.models import common

ENTRIES = {
    "vocab_size": "vocab", "d_model": "embed", "d_ff": "hidden", "d_kv": "key",
    "num_layers": "source_layers", "num_decoder_layers": "layers", "num_heads": "kv_heads",
    "relative_attention_num_buckets": "bucket", "relative_attention_max_distance": "max_distance",
    "layer_norm_epsilon": "epsilon", "feed_forward_proj": "feed_forward",
    "tie_word_embeddings": "tied", "scale_decoder_outputs": "scaled",
    "decoder_start_token_id": "start",
}  # fmt: skip
FIXED = {"model_type": ["t5"], "feed_forward_proj": ["relu", "gated-gelu"], "is_decoder": [False]}
IGNORED = "dense_act_fn dropout_rate is_gated_act n_positions output_past".split()


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes and variants. A head of queries (`kv_heads`) has keys and values of its own."""

    vocab: int
    embed: int
    hidden: int
    source_layers: int
    layers: int
    kv_heads: int
    key: int
    bucket: int = 32
    max_distance: int = 128
    epsilon: float = 1e-6
    gated: bool = False
    tied: bool = True
    start: int = 0  # the first token of the decoder
    remat: bool = True
    dropout: float = 0.0
    microbatches: int = 0
    axes = ("source", "source_sp")  # names of the inputs

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Config:
        """Read the `config.json` of a published checkpoint."""
        values = common.read_config(path, ENTRIES, FIXED, IGNORED)
        values.setdefault("layers", values.get("source_layers"))
        values["gated"] = values.pop("feed_forward", "relu") == "gated-gelu"
        # Newer files have `tie_word_embeddings` in both cases.
        values["tied"] = values.pop("scaled", True) and values.get("tied", True)
        return common.make_config(cls, path, values)

    def sizes(self) -> dict[str, int]:
        """Return the size of every axis of a parameter."""
        names = ("vocab", "embed", "hidden", "source_layers", "layers", "kv_heads", "key", "bucket")
        return {name: getattr(self, name) for name in names} | {"embed_fsdp": self.embed}


TINY = Config(
    vocab=256, embed=64, hidden=160, source_layers=2, layers=2, kv_heads=4, key=16, gated=True
)


def _stack(stack: str, layers: str, attentions: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the entries of the encoder or of the decoder."""
    norm, up = f"embed -> {{{layers}, embed}}", f"hidden e -> {{{layers}, embed_fsdp=e, hidden}}"
    heads = f"(kv_heads key) e -> {{{layers}, embed_fsdp=e, kv_heads, key}}"
    entries = {"layer_norm": ("norm2", norm), "DenseReluDense.wi": ("up", up)}
    entries |= {"DenseReluDense.wi_0": ("gate", up), "DenseReluDense.wi_1": ("up", up)}
    entries["DenseReluDense.wo"] = ("down", f"e hidden -> {{{layers}, hidden, embed_fsdp=e}}")
    entries = {f"{len(attentions)}.{key}": entry for key, entry in entries.items()}
    for number, (name, prefix) in enumerate(attentions.items()):
        entries[f"{number}.layer_norm"] = (f"{prefix}norm1", norm)
        for place in ("query", "key", "value"):
            entries[f"{number}.{name}.{place[0]}"] = (prefix + place, heads)
        out = f"e (kv_heads key) -> {{{layers}, kv_heads, key, embed_fsdp=e}}"
        entries[f"{number}.{name}.o"] = (f"{prefix}out", out)
    table = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return {
        f"{stack}.block.{{{layers}}}.layer.{key}.weight": (f"{stack}/layers/{place}", pattern)
        for key, (place, pattern) in entries.items()
    } | {
        table: (f"{stack}/bias", "bucket kv_heads -> {bucket, kv_heads}"),
        f"{stack}.final_layer_norm.weight": (f"{stack}/norm", "embed -> {embed}"),
    }


#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    "shared.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    **_stack("encoder", "source_layers", {"SelfAttention": ""}),
    **_stack("decoder", "layers", {"SelfAttention": "", "EncDecAttention": "cross_"}),
    "lm_head.weight": ("unembed", "vocab e -> {embed_fsdp=e, vocab}"),
}


def spec(config: Config) -> common.Spec:
    """Return the part of SPEC that a model of this configuration has."""
    absent = (".wi.",) if config.gated else (".wi_0.", ".wi_1.")
    absent += ("lm_head.",) if config.tied else ()
    return {key: SPEC[key] for key in SPEC if not any(part in key for part in absent)}
