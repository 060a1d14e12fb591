"""The models read the config.json files of published checkpoints, and reject what they do not support."""

from __future__ import annotations

import json

import pytest

from namedax.models.architectures import module_of

COMMON = {"transformers_version": "4.50.0", "use_cache": True}
GEMMA_1B = COMMON | {
    "architectures": ["Gemma3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "bos_token_id": 2,
    "cache_implementation": "hybrid",
    "eos_token_id": [1, 106],
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "initializer_range": 0.02,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "torch_dtype": "bfloat16",
    "vocab_size": 262144,
}
GEMMA_4B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "boi_token_index": 255999,
    "eoi_token_index": 256000,
    "image_token_index": 262144,
    "mm_tokens_per_image": 256,
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
    "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"},
}
T5_SMALL = COMMON | {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": 2048,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_heads": 8,
    "num_layers": 6,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "task_specific_params": {"summarization": {"num_beams": 4}},
    "vocab_size": 32128,
}
FLAN_SMALL = T5_SMALL | {
    "d_ff": 1024,
    "feed_forward_proj": "gated-gelu",
    "dense_act_fn": "gelu_new",
    "is_gated_act": True,
    "num_decoder_layers": 8,
    "num_heads": 6,
    "num_layers": 8,
    "relative_attention_max_distance": 128,
    "tie_word_embeddings": False,
}
V5 = {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
V5["full_attention"] = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}
NEWER = {
    "_sliding_window_pattern": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 13,
    "rope_parameters": V5,
    "dtype": "bfloat16",
    "tie_word_embeddings": True,
    "use_bidirectional_attention": False,
}
OLDER = ("rope_theta", "rope_scaling", "rope_local_base_freq", "sliding_window_pattern")
GEMMA_V5 = {name: value for name, value in GEMMA_1B.items() if name not in OLDER} | NEWER
LLAMA_8B = COMMON | {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
MIXTRAL = COMMON | {
    "architectures": ["MixtralForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mixtral",
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "output_router_logits": False,
    "rms_norm_eps": 1e-05,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.02,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 32000,
}
QWEN_MOE = COMMON | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "decoder_sparse_step": 1,
    "eos_token_id": 151645,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "output_router_logits": False,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN_MOE_V5 = {name: value for name, value in QWEN_MOE.items() if name not in OLDER} | {
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}
}

YARN_32 = {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "rope_type": "yarn", "truncate": False}
YARN_32["original_max_position_embeddings"] = 4096
GPT_OSS = COMMON | {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "attention_dropout": 0.0,
    "eos_token_id": 200002,
    "experts_per_token": 4,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2880,
    "initial_context_length": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "max_position_embeddings": 131072,
    "model_type": "gpt_oss",
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 24,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "output_router_logits": False,
    "pad_token_id": 199999,
    "quantization_config": {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"},
    "rms_norm_eps": 1e-05,
    "rope_scaling": YARN_32,
    "rope_theta": 150000,
    "router_aux_loss_coef": 0.9,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
    "vocab_size": 201088,
}
YARN_40 = {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "yarn"}
YARN_40["original_max_position_embeddings"] = 4096
DEEPSEEK = COMMON | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    "aux_loss_alpha": 0.001,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "ep_size": 1,
    "first_k_dense_replace": 3,
    "hidden_act": "silu",
    "hidden_size": 7168,
    "initializer_range": 0.02,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_group": 8,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "pretraining_tp": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]},
    "rms_norm_eps": 1e-06,
    "rope_scaling": YARN_40,
    "rope_theta": 10000,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "seq_aux": True,
    "tie_word_embeddings": False,
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 129280,
}
# Moonlight-16B-A3B: queries without a low rank, one group, and no layer for prediction.
MOONLIGHT = DEEPSEEK | {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0}
MOONLIGHT |= {"num_hidden_layers": 27, "first_k_dense_replace": 1, "n_shared_experts": 2, "rope_scaling": None}


def read(module, entries, folder):
    (folder / "config.json").write_text(json.dumps(entries))
    return module_of(module).Config.from_json(folder)


GEMMA_FIELDS = {"embed": 1152, "heads": 4, "kv_heads": 1, "window": 512, "attention_cap": None}
LINEAR = {"factor": 8.0, "rope_type": "linear"}
EXPERTS = {"vocab": 151936, "hidden": 768, "experts": 128, "chosen": 8, "normalize": True, "qk_norm": True, "theta": 1e6}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LONG = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
PHI = LLAMA_8B | {"rope_scaling": LONG, "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75}
NTK = LLAMA_8B | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}
READ = {
    "with a share of the features": (
        "llama",
        PHI,
        {"scaling": LONG | {"original_max_position_embeddings": 4096, "factor": 32.0, "partial_rotary_factor": 0.75}},
    ),
    "with a growing base": (
        "llama",
        NTK,
        {"scaling": {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 131072}},
    ),
    "Qwen with YaRN": ("llama", LLAMA_8B | {"rope_scaling": YARN}, {"scaling": YARN}),
    "Llama-3.1-8B": ("llama", LLAMA_8B, {"kv_heads": 8, "key": 128, "theta": 5e5, "scaling": LLAMA_8B["rope_scaling"]}),
    "Mixtral-8x7B-v0.1": (
        "mixtral",
        MIXTRAL,
        {"hidden": 14336, "key": 128, "experts": 8, "chosen": 2, "normalize": True, "balance": 0.02, "qk_norm": False},
    ),
    "Qwen3-30B-A3B": ("mixtral", QWEN_MOE, EXPERTS | {"balance": 0.001, "window": None}),
    "Qwen3-30B-A3B, newer": ("mixtral", QWEN_MOE_V5, EXPERTS),
    "gpt-oss-20b": (
        "gpt_oss",
        GPT_OSS,
        {"key": 64, "experts": 32, "chosen": 4, "window": 128, "local": (True, False) * 12, "limit": 7.0, "scaling": YARN_32},
    ),
    "DeepSeek-V3": (
        "deepseek",
        DEEPSEEK,
        {"dense_layers": 3, "layers": 58, "query_rank": 1536, "groups": 8, "factor": 2.5, "ignored": ["model.layers.61.*"]},
    ),
    "Moonlight-16B-A3B": (
        "deepseek",
        MOONLIGHT,
        {"dense_layers": 1, "layers": 26, "query_rank": None, "shared": 2, "scale": 192**-0.5, "ignored": []},
    ),
    "gemma-3-1b-it": ("gemma", GEMMA_1B, {**GEMMA_FIELDS, "local": (True,) * 5 + (False,), "theta": 1e6, "scaling": None}),
    "gemma-3-1b-it, newer": ("gemma", GEMMA_V5, {**GEMMA_FIELDS, "local": (True, False) * 13, "scaling": V5["full_attention"]}),
    "gemma-3-4b-it": ("gemma", GEMMA_4B, {"vocab": 262208, "heads": 8, "kv_heads": 4, "key": 256, "scaling": LINEAR}),
    "t5-small": ("t5", T5_SMALL, {"source_layers": 6, "layers": 6, "gated": False, "tied": True, "max_distance": 128}),
    "flan-t5-small": ("t5", FLAN_SMALL, {"kv_heads": 6, "layers": 8, "gated": True, "tied": False}),
    "flan-t5-small, newer": (
        "t5",
        FLAN_SMALL
        | {"tie_word_embeddings": True, "scale_decoder_outputs": False, "is_decoder": False, "classifier_dropout": 0.0},
        {"gated": True, "tied": False},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_published_configurations_are_read(name, tmp_path):
    module, entries, fields = READ[name]
    config = read(module, entries, tmp_path)
    assert {field: getattr(config, field) for field in fields} == fields
    keys = module_of(module).spec(config)
    assert config.sizes()["embed_fsdp"] == config.embed
    assert ("lm_head.weight" in keys) == (not getattr(config, "tied", True))


@pytest.mark.parametrize(
    ("module", "entries", "message"),
    [
        ("gpt_oss", GPT_OSS | {"attention_bias": False}, "attention_bias=False; this model supports only True"),
        ("gpt_oss", GPT_OSS | {"layer_types": ["chunked_attention"]}, "has layer_types chunked_attention"),
        ("deepseek", DEEPSEEK | {"scoring_func": "softmax"}, "scoring_func='softmax'; this model supports only 'sigmoid'"),
        ("deepseek", DEEPSEEK | {"new_entry": 1}, "has entries that the model does not know: 'new_entry'"),
        ("gemma", GEMMA_1B | {"new_entry": 1}, "has entries that the model does not know: 'new_entry'"),
        ("gemma", GEMMA_1B | {"hidden_activation": "silu"}, "hidden_activation='silu'"),
        ("gemma", GEMMA_1B | {"layer_types": ["chunked_attention"]}, "has layer_types chunked_attention"),
        ("mixtral", MIXTRAL | {"new_entry": 1}, "has entries that the model does not know: 'new_entry'"),
        ("mixtral", QWEN_MOE | {"mlp_only_layers": [0]}, r"mlp_only_layers=\[0\]; this model supports only \[\]"),
        ("mixtral", QWEN_MOE | {"decoder_sparse_step": 2}, "decoder_sparse_step=2"),
        ("llama", MIXTRAL, "has entries that the model does not know: 'num_experts_per_tok'"),
        ("llama", GEMMA_4B, "has entries that the model does not know: .*'multimodal'"),
        ("t5", T5_SMALL | {"new_entry": 1}, "has entries that the model does not know: 'new_entry'"),
        ("t5", T5_SMALL | {"feed_forward_proj": "gated-silu"}, "feed_forward_proj='gated-silu'"),
        (
            "llama",
            LLAMA_8B | {"rope_scaling": {"type": "yarn", "factor": 4.0}},
            "scaling of type 'yarn' lacks 'original_max_position_embeddings'",
        ),
        (
            "gemma",
            GEMMA_V5 | {"rope_parameters": V5 | {"full_attention": {"rope_type": "linear", "rope_theta": 1e6}}},
            "scaling of type 'linear' lacks 'factor'",
        ),
    ],
)
def test_unsupported_entries_are_errors(module, entries, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(module, entries, tmp_path)


def test_a_multimodal_checkpoint_of_gemma_has_keys_with_a_prefix(tmp_path):
    config = read("gemma", GEMMA_4B, tmp_path)
    keys = module_of("gemma").spec(config)
    assert all(key.startswith("language_model.model.") for key in keys)
