"""The entries of Whisper's `config.json`, and the keys of its checkpoints."""

from __future__ import annotations

from namedax.models import common
from namedax.models.common import biased

ENTRIES = {
    "vocab_size": "vocab", "d_model": "embed", "num_mel_bins": "mel",
    "decoder_layers": "layers", "encoder_layers": "source_layers",
    "decoder_attention_heads": "kv_heads", "encoder_attention_heads": "source kv_heads",
    "decoder_ffn_dim": "hidden", "encoder_ffn_dim": "source hidden",
    "max_target_positions": "position", "max_source_positions": "source",
}  # fmt: skip
FIXED = {"model_type": ["whisper"], "activation_function": ["gelu"], "scale_embedding": [False]}
# Entries of masks in training, of generation, and of a classifier.
IGNORED = (
    "alignment_heads apply_spec_augment classifier_proj_size decoder_layerdrop encoder_layerdrop"
    " lang_ids mask_feature_length mask_feature_min_masks mask_feature_prob mask_time_length"
    " mask_time_min_masks mask_time_prob median_filter_width num_hidden_layers tie_word_embeddings"
    " use_weighted_layer_sum"
).split()

# The axis L is that of the layers.
_WEIGHT = "(kv_heads key) e -> {L, embed_fsdp=e, kv_heads, key}"
_BIAS, _EMBED = "(kv_heads key) -> {L, kv_heads, key}", "embed -> {L, embed}"
_ATTENTION = {
    **biased("_layer_norm", "norm", _EMBED, _EMBED),
    **biased(".q_proj", "query", _WEIGHT, _BIAS),
    ".k_proj.weight": ("key", _WEIGHT),
    **biased(".v_proj", "value", _WEIGHT, _BIAS),
    **biased(".out_proj", "out", "e (kv_heads key) -> {L, kv_heads, key, embed_fsdp=e}", _EMBED),
}
_FEED_FORWARD = {
    **biased(".final_layer_norm", "norm", _EMBED, _EMBED),
    **biased(".fc1", "up", "hidden e -> {L, embed_fsdp=e, hidden}", "hidden -> {L, hidden}"),
    **biased(".fc2", "down", "e hidden -> {L, hidden, embed_fsdp=e}", _EMBED),
}


def _layers(part: str, place: str, table: common.Spec) -> common.Spec:
    """Return the entries of one part of all layers of the encoder or the decoder."""
    module, axis = place.partition("/")[0], "layers" if "decoder" in place else "source_layers"
    return {
        f"model.{module}.layers.{{{axis}}}{part}{key}": (f"{place}/{name}", text.replace("L", axis))
        for key, (name, text) in table.items()
    }


_ENCODER, _DECODER, _NORM = "model.encoder.", "model.decoder.", "embed -> {embed}"
_CONV1, _CONV2 = "c mel tap -> {tap, mel, channel=c}", "e c tap -> {tap, channel=c, embed_fsdp=e}"
#: The key of each tensor in a checkpoint, its place in the parameters, and its axes.
SPEC = {
    **biased(f"{_ENCODER}conv1", "conv1", _CONV1, "channel -> {channel}"),
    **biased(f"{_ENCODER}conv2", "conv2", _CONV2, _NORM),
    f"{_ENCODER}embed_positions.weight": ("source_positions", "s embed -> {source_sp=s, embed}"),
    **_layers(".self_attn", "encoder/attention", _ATTENTION),
    **_layers("", "encoder/feed_forward", _FEED_FORWARD),
    **biased(f"{_ENCODER}layer_norm", "source_norm", _NORM, _NORM),
    f"{_DECODER}embed_tokens.weight": ("embed", "vocab e -> {vocab, embed_fsdp=e}"),
    f"{_DECODER}embed_positions.weight": ("positions", "position embed -> {position, embed}"),
    **_layers(".self_attn", "decoder/attention", _ATTENTION),
    **_layers(".encoder_attn", "decoder/cross", _ATTENTION),
    **_layers("", "decoder/feed_forward", _FEED_FORWARD),
    **biased(f"{_DECODER}layer_norm", "norm", _NORM, _NORM),
}
