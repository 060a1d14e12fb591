"""The entries of Qwen3-Next's `config.json`, and the keys of its checkpoints."""

from __future__ import annotations

from namedax.models import llama, mixtral

#: The layers of a group: three with linear attention, and one with full attention.
LINEAR, FULL = ("linear1", "linear2", "linear3"), "full"
GROUP = (*LINEAR, FULL)
_ABSENT = ("intermediate_size", "num_local_experts", "sliding_window")
ENTRIES = {entry: field for entry, field in mixtral.ENTRIES.items() if entry not in _ABSENT} | {
    "layer_types": "types", "moe_intermediate_size": "hidden",
    "shared_expert_intermediate_size": "shared_hidden", "linear_conv_kernel_dim": "tap",
    "linear_key_head_dim": "feature", "linear_num_key_heads": "state_heads",
    "linear_num_value_heads": "value_heads", "linear_value_head_dim": "value",
}  # fmt: skip
FIXED = mixtral.FIXED | {"model_type": ["qwen3_next"], "full_attention_interval": [len(GROUP)]}
IGNORED = ("intermediate_size", "output_router_logits")  # the first is of layers without experts

_HEAD = "(state_heads share) -> {layers, state_heads, share}"
_UP = "shared_hidden e -> {layers, embed_fsdp=e, shared_hidden}"
# `projected` has the query, the key, the values and their gates of a head, and `both` its updates
# and decays, or the query and the gate of a head of full attention.
_LINEAR = {
    "in_proj_qkvz.weight": (
        "in", "(state_heads projected) e -> {layers, embed_fsdp=e, state_heads, projected}"
    ),
    "in_proj_ba.weight": (
        "rates", "(state_heads both share) e -> {layers, embed_fsdp=e, state_heads, both, share}"
    ),
    "conv1d.weight": ("taps", "convolved 1 tap -> {layers, convolved, tap}"),
    "dt_bias": ("dt_bias", _HEAD),
    "A_log": ("rate", _HEAD),
    "norm.weight": ("gate_norm", "value -> {layers, value}"),
    "out_proj.weight": (
        "out", "e (state_heads share value) -> {layers, state_heads, share, value, embed_fsdp=e}"
    ),
}  # fmt: skip
_FULL = {
    "self_attn.q_proj.weight": (
        "query", "(kv_heads group both key) e -> {layers, embed_fsdp=e, kv_heads, group, both, key}"
    ),
}  # fmt: skip
_MIXTURE = {
    "mlp.shared_expert.gate_proj.weight": ("shared_gate", _UP),
    "mlp.shared_expert.up_proj.weight": ("shared_up", _UP),
    "mlp.shared_expert.down_proj.weight": (
        "shared_down", "e shared_hidden -> {layers, shared_hidden, embed_fsdp=e}"
    ),
    "mlp.shared_expert_gate.weight": ("amount", "1 embed -> {layers, embed}"),
}  # fmt: skip


def _layer(member: int) -> dict[str, tuple[str, str]]:
    """Return the entries of one layer of all groups."""
    prefix, part = "model.layers.{layers}.", f"{{layers:{member}..:{len(GROUP)}}}"
    shared = {
        key.removeprefix(prefix): (place.removeprefix("layers/"), pattern)
        for key, (place, pattern) in mixtral.SPEC.items()
        if key.startswith(prefix) and "block_sparse_moe" not in key
    }
    if GROUP[member] == FULL:
        entries = shared | _FULL
    else:
        entries = {key: entry for key, entry in shared.items() if "self_attn" not in key}
        entries |= {f"linear_attn.{key}": entry for key, entry in _LINEAR.items()}
    return {
        prefix.replace("{layers}", part) + key: (f"layers/{GROUP[member]}/{place}", pattern)
        for key, (place, pattern) in (entries | _MIXTURE).items()
    }


#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    **{key: entry for key, entry in llama.SPEC.items() if "{layers}" not in key},
    **{key: entry for member in range(len(GROUP)) for key, entry in _layer(member).items()},
}
