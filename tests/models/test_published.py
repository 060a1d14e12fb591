"""The `config.json` of published checkpoints is read, and what a model does not know is an error that names it."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from namedax.models.architectures import module_of
from tests.models.test_models import common

VIT = {
    "architectures": ["ViTForImageClassification"],
    "attention_probs_dropout_prob": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "hidden_size": 768,
    "id2label": {str(i): f"class {i}" for i in range(1000)},
    "image_size": 224,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "label2id": {f"class {i}": str(i) for i in range(1000)},
    "layer_norm_eps": 1e-12,
    "model_type": "vit",
    "num_attention_heads": 12,
    "num_channels": 3,
    "num_hidden_layers": 12,
    "patch_size": 16,
    "qkv_bias": True,
    "transformers_version": "4.13.0.dev0",
}
WHISPER = {
    "_name_or_path": "openai/whisper-tiny",
    "activation_dropout": 0.0,
    "activation_function": "gelu",
    "architectures": ["WhisperForConditionalGeneration"],
    "attention_dropout": 0.0,
    "begin_suppress_tokens": [220, 50257],
    "bos_token_id": 50257,
    "d_model": 384,
    "decoder_attention_heads": 6,
    "decoder_ffn_dim": 1536,
    "decoder_layerdrop": 0.0,
    "decoder_layers": 4,
    "decoder_start_token_id": 50258,
    "dropout": 0.0,
    "encoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "encoder_layerdrop": 0.0,
    "encoder_layers": 4,
    "eos_token_id": 50257,
    "forced_decoder_ids": [[1, 50259], [2, 50359], [3, 50363]],
    "init_std": 0.02,
    "is_encoder_decoder": True,
    "max_length": 448,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "model_type": "whisper",
    "num_hidden_layers": 4,
    "num_mel_bins": 80,
    "pad_token_id": 50257,
    "scale_embedding": False,
    "suppress_tokens": [1, 2, 7],
    "torch_dtype": "float32",
    "transformers_version": "4.27.0.dev0",
    "use_cache": True,
    "vocab_size": 51865,
}
CODESTRAL = {
    "architectures": ["Mamba2ForCausalLM"],
    "bos_token_id": 0,
    "chunk_size": 256,
    "conv_kernel": 4,
    "eos_token_id": 0,
    "expand": 2,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.1,
    "intermediate_size": 8192,
    "layer_norm_epsilon": 1e-05,
    "model_type": "mamba2",
    "n_groups": 8,
    "norm_before_gate": True,
    "num_heads": 128,
    "num_hidden_layers": 64,
    "pad_token_id": 0,
    "rescale_prenorm_residual": False,
    "residual_in_fp32": True,
    "rms_norm": True,
    "state_size": 128,
    "tie_word_embeddings": False,
    "time_step_floor": 0.0001,
    "time_step_init_scheme": "random",
    "time_step_limit": [0.0, float("inf")],
    "time_step_max": 0.1,
    "time_step_min": 0.001,
    "time_step_rank": 256,
    "time_step_scale": 1.0,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.44.0.dev0",
    "use_bias": False,
    "use_cache": True,
    "use_conv_bias": True,
    "vocab_size": 32768,
}
DIT = {
    "_class_name": "Transformer2DModel",
    "_diffusers_version": "0.12.0.dev0",
    "activation_fn": "gelu-approximate",
    "attention_bias": True,
    "attention_head_dim": 72,
    "cross_attention_dim": None,
    "dropout": 0.0,
    "in_channels": 4,
    "norm_elementwise_affine": False,
    "norm_num_groups": 32,
    "norm_type": "ada_norm_zero",
    "num_attention_heads": 16,
    "num_embeds_ada_norm": 1000,
    "num_layers": 28,
    "num_vector_embeds": None,
    "only_cross_attention": False,
    "out_channels": 8,
    "patch_size": 2,
    "sample_size": 32,
    "upcast_attention": False,
    "use_linear_projection": False,
}
QWEN2_VL = {
    "architectures": ["Qwen2VLForConditionalGeneration"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "hidden_size": 1536,
    "image_token_id": 151655,
    "initializer_range": 0.02,
    "intermediate_size": 8960,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "model_type": "qwen2_vl",
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.41.2",
    "use_cache": True,
    "use_sliding_window": False,
    "video_token_id": 151656,
    "vision_config": {
        "depth": 32,
        "embed_dim": 1280,
        "hidden_size": 1536,
        "in_chans": 3,
        "mlp_ratio": 4,
        "num_heads": 16,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "spatial_patch_size": 14,
        "temporal_patch_size": 2,
    },
    "vision_end_token_id": 151653,
    "vision_start_token_id": 151652,
    "vision_token_id": 151654,
    "vocab_size": 151936,
}
QWEN_NEXT = {
    "architectures": ["Qwen3NextForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "decoder_sparse_step": 1,
    "eos_token_id": 151645,
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 262144,
    "mlp_only_layers": [],
    "model_type": "qwen3_next",
    "moe_intermediate_size": 512,
    "norm_topk_prob": True,
    "num_attention_heads": 16,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "output_router_logits": False,
    "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000000,
    "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.57.0.dev0",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
# The module, the entries, and sizes of axes of the published checkpoint.
PUBLISHED = {
    "google/vit-base-patch16-224": ("vit", VIT, {"kv_heads": 12, "key": 64, "classes": 1000, "pos": 197}),
    "facebook/DiT-XL-2-256": ("dit", DIT, {"embed": 1152, "kv_heads": 16, "label": 1001, "pos": 256, "output": 2}),
    "facebook/DiT-XL-2-512": ("dit", DIT | {"sample_size": 64}, {"pos": 1024}),
    "Qwen/Qwen2-VL-2B-Instruct": (
        "qwen2_vl",
        QWEN2_VL,
        {"key": 128, "group": 6, "image_key": 80, "image_hidden": 5120, "source_layers": 32, "merged": 5120},
    ),
    "openai/whisper-tiny": ("whisper", WHISPER, {"layers": 4, "source_layers": 4, "frame": 3000, "key": 64}),
    "openai/whisper-large-v3-turbo": (
        "whisper",
        WHISPER
        | {"d_model": 1280, "decoder_attention_heads": 20, "encoder_attention_heads": 20, "num_mel_bins": 128}
        | {"decoder_ffn_dim": 5120, "encoder_ffn_dim": 5120, "encoder_layers": 32, "vocab_size": 51866},
        {"layers": 4, "source_layers": 32, "kv_heads": 20, "mel": 128},
    ),
    "mistralai/Mamba-Codestral-7B-v0.1": (
        "mamba",
        CODESTRAL,
        {"kv_heads": 8, "group": 16, "projected": 18560, "convolved": 10240},
    ),
    "mamba2, written by transformers 5": (
        "mamba",
        CODESTRAL | {"time_step_limit": [0.0, {"__float__": "Infinity"}]},
        {"state": 128},
    ),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (
        "qwen3_next",
        QWEN_NEXT,
        {
            "layers": 12,
            "kv_heads": 2,
            "group": 8,
            "state_heads": 16,
            "share": 2,
            "projected": 768,
            "convolved": 8192,
            "hidden": 512,
        },
    ),
}


def read(tmp_path, module, entries):
    (tmp_path / "config.json").write_text(json.dumps(entries))
    return module_of(module).Config.from_json(tmp_path)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_checkpoints(name, tmp_path):
    module, entries, sizes = PUBLISHED[name]
    assert read(tmp_path, module, entries).sizes().items() >= sizes.items()


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_unknown_entry_is_an_error(name, tmp_path):
    module, entries, _ = PUBLISHED[name]
    with pytest.raises(ValueError, match="has entries that the model does not know: 'new_entry'"):
        read(tmp_path, module, entries | {"new_entry": 1})


UNSUPPORTED = {
    "another activation": ("vit", VIT | {"hidden_act": "relu"}, "hidden_act='relu'; this model supports only 'gelu'"),
    "a transformer for texts": (
        "dit",
        DIT | {"cross_attention_dim": 768},
        "cross_attention_dim=768; this model supports only None",
    ),
    "channels that do not divide": ("dit", DIT | {"out_channels": 6}, "has out_channels=6, no multiple of in_channels=4"),
    "no sections": ("qwen2_vl", QWEN2_VL | {"rope_scaling": None}, "has no mrope_section in rope_scaling"),
    "a window": (
        "qwen2_vl",
        QWEN2_VL | {"use_sliding_window": True},
        "use_sliding_window=True; this model supports only False",
    ),
    "another vision encoder": (
        "qwen2_vl",
        QWEN2_VL | {"vision_config": QWEN2_VL["vision_config"] | {"fullatt_block_indexes": [7]}},
        "has entries that the model does not know: 'fullatt_block_indexes'",
    ),
    "embeddings of another size": (
        "qwen2_vl",
        QWEN2_VL | {"vision_config": QWEN2_VL["vision_config"] | {"hidden_size": 8}},
        "vision_config has hidden_size=8, but the decoder has hidden_size=1536",
    ),
    "heads that differ": (
        "whisper",
        WHISPER | {"encoder_attention_heads": 8},
        "has different sizes of kv_heads in the encoder and the decoder",
    ),
    "another expansion": ("mamba", CODESTRAL | {"expand": 3}, r"has expand \* hidden_size that is not num_heads \* head_dim"),
    "other groups of layers": ("qwen3_next", QWEN_NEXT | {"full_attention_interval": 2}, "this model supports only 4"),
    "another order of layers": (
        "qwen3_next",
        QWEN_NEXT | {"layer_types": ["full_attention"] * 48},
        "has layers that are not groups of three layers with linear_attention and one with full_attention",
    ),
    "a part of a group": (
        "qwen3_next",
        QWEN_NEXT | {"num_hidden_layers": 46},
        "has layers that are not groups of three layers",
    ),
    "a missing entry": (
        "mamba",
        {"model_type": "mamba2", "hidden_size": 64, "num_heads": 2, "head_dim": 64},
        "has no entry for vocab",
    ),
}


@pytest.mark.parametrize("label", UNSUPPORTED)
def test_an_unsupported_entry_is_an_error(label, tmp_path):
    module, entries, message = UNSUPPORTED[label]
    with pytest.raises(ValueError, match=message):
        read(tmp_path, module, entries)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("module", ["vit", "dit", "qwen2_vl", "whisper", "mamba"])
def test_random_parameters(module):
    """Scales of norms are ones, biases zeros, and every array is finite."""
    module = module_of(module)
    params = dict(common.places(module.init(module.TINY, jax.random.key(0))))
    assert {*params} == {place for place, _ in module.spec(module.TINY).values()}
    for place, array in params.items():
        assert np.isfinite(array.data).all()
        if place.endswith("norm"):
            assert (array.data == 1).all()
        if place.endswith("bias") and not place.endswith("dt_bias"):
            assert not array.data.any()


@pytest.mark.parametrize(
    "scaling", [{}, {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 65536}}]
)
@pytest.mark.parametrize("share", [{}, {"partial_rotary_factor": 0.5}])
def test_a_part_of_the_features_is_rotated(scaling, share, tmp_path):
    """Files without the entry rely on a quarter."""
    entries = {entry: value for entry, value in QWEN_NEXT.items() if entry != "partial_rotary_factor"}
    config = read(tmp_path, "qwen3_next", entries | scaling | share)
    found = scaling.get("rope_scaling", {"rope_type": "default"})
    assert config.scaling == {"partial_rotary_factor": 0.25} | found | share
    assert config.theta == 1e7


@pytest.mark.fast(0)
@pytest.mark.full(0)
def test_random_parameters_of_qwen3_next():
    """A norm multiplies by one plus its weight; that of linear attention by its weight."""
    module = module_of("qwen3_next")
    params = dict(common.places(module.init(module.TINY, jax.random.key(0))))
    assert {*params} == {place for place, _ in module.spec(module.TINY).values()}
    for place, array in params.items():
        assert np.isfinite(array.data).all()
        if place.endswith(("gate_norm", "dt_bias")):
            assert (array.data == 1).all()
        elif "norm" in place:
            assert not array.data.any()
