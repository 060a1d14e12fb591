"""The entries of Mamba 2's `config.json`, and the keys of its checkpoints."""

from __future__ import annotations

from namedax.models.common import biased

ENTRIES = {
    "vocab_size": "vocab", "hidden_size": "embed", "num_hidden_layers": "layers",
    "num_heads": "heads", "head_dim": "key", "state_size": "state", "n_groups": "kv_heads",
    "conv_kernel": "tap", "chunk_size": "chunk", "layer_norm_epsilon": "epsilon",
    "time_step_limit": "limit", "expand": "expand", "tie_word_embeddings": "tied",
}  # fmt: skip
FIXED = {
    "model_type": ["mamba2"],
    "hidden_act": ["silu"],
    "rms_norm": [True],
    "use_bias": [False],
    "use_conv_bias": [True],
}
# Entries of initialization, and others that the implementation in transformers does not use.
IGNORED = (
    "intermediate_size norm_before_gate rescale_prenorm_residual residual_in_fp32 time_step_floor"
    " time_step_init_scheme time_step_max time_step_min time_step_rank time_step_scale"
).split()

_MIXER = "backbone.layers.{layers}.mixer."
_TAPS, _TAP_BIAS = "convolved 1 tap -> {layers, convolved, tap}", "convolved -> {layers, convolved}"
_OUT = "e (kv_heads group key) -> {layers, kv_heads, group, key, embed_fsdp=e}"
_GATE_NORM = "(kv_heads group key) -> {layers, kv_heads, group, key}"
_HEAD = "(kv_heads group) -> {layers, kv_heads, group}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    "backbone.embeddings.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    "backbone.layers.{layers}.norm.weight": ("layers/norm", "embed -> {layers, embed}"),
    f"{_MIXER}in_proj.weight": ("layers/in", "p e -> {layers, embed_fsdp=e, projected=p}"),
    **biased(f"{_MIXER}conv1d", "layers/taps", _TAPS, _TAP_BIAS),
    f"{_MIXER}dt_bias": ("layers/dt_bias", _HEAD),
    f"{_MIXER}A_log": ("layers/rate", _HEAD),
    f"{_MIXER}D": ("layers/skip", _HEAD),
    f"{_MIXER}norm.weight": ("layers/gate_norm", _GATE_NORM),
    f"{_MIXER}out_proj.weight": ("layers/out", _OUT),
    "backbone.norm_f.weight": ("norm", "embed -> {embed}"),
    "lm_head.weight": ("unembed", "vocab e -> {embed_fsdp=e, vocab}"),
}
