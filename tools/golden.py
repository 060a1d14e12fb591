"""Write the golden files of namedax.models: logits, losses, gradients and greedy tokens of PyTorch.

It needs `torch`, `transformers`, `diffusers` and `peft`, which take 6 GB and are in no extra, so run
it in an environment of its own:

    python3 -m venv golden-env
    golden-env/bin/pip install torch transformers diffusers peft
    golden-env/bin/python tools/golden.py [CASE ...]

Each case is a tiny model of a published architecture. Its weights are made from their keys by
`tests/models/weights.py`. The tests compute the same numbers over names, in every layout. The case
`lora` is the model of `llama3` with an adapter of PEFT.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import pathlib
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import diffusers
import numpy as np
import peft
import safetensors.torch
import torch
import transformers

transformers.logging.disable_progress_bar()
ROOT = pathlib.Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "models" / "golden"
ADAPTERS = ROOT / "tests" / "interop" / "golden"
sys.path.insert(0, str(ROOT))

from tests.models.weights import make  # noqa: E402  (it needs the path)

BATCH, POS, VOCAB = 8, 16, 48
IMAGES = (2, 1, 0, 2, 1, 2, 0, 1)  # of each row, with the tokens of 2 by 2 by 1 cells
PROMPTS, NEW = (5, 9, 2), 6
DECODER = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "attn_implementation": "eager",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A model class, its configuration, and the keys whose gradients are compared."""

    model: str
    config: str
    entries: dict[str, Any]
    gradients: tuple[str, ...]
    kind: str = "decoder"
    written: dict[str, Any] = dataclasses.field(default_factory=dict)  # entries of config.json
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # arguments of `forward`
    factors: dict[str, float] = dataclasses.field(default_factory=dict)  # of weights, by their keys


LAYER = "model.layers.1."
ATTENTION = (f"{LAYER}self_attn.q_proj.weight", f"{LAYER}self_attn.k_proj.weight")
DENSE = (
    "model.embed_tokens.weight",
    *ATTENTION,
    f"{LAYER}mlp.down_proj.weight",
    f"{LAYER}input_layernorm.weight",
)
EXPERTS = (
    "model.embed_tokens.weight",
    *ATTENTION,
)

CASES = {
    "llama3": Case(
        "LlamaForCausalLM",
        "LlamaConfig",
        DECODER
        | {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 100.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
        (*DENSE, "lm_head.weight"),
    ),
    "llama_yarn": Case(
        "LlamaForCausalLM",
        "LlamaConfig",
        DECODER
        | {
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 100.0,
                "factor": 4.0,
                "beta_fast": 8.0,
                "beta_slow": 1.0,
                "original_max_position_embeddings": 16,
            },
        },
        DENSE,
    ),
    "mistral": Case(
        "MistralForCausalLM",
        "MistralConfig",
        DECODER
        | {
            "hidden_size": 36,
            "num_attention_heads": 6,
            "num_key_value_heads": 3,
            "head_dim": 8,
            "sliding_window": 5,
        },
        (*DENSE, "lm_head.weight"),
    ),
    "qwen3": Case(
        "Qwen3ForCausalLM",
        "Qwen3Config",
        DECODER | {"head_dim": 12, "tie_word_embeddings": True},
        (*DENSE, f"{LAYER}self_attn.q_norm.weight"),
    ),
    "mixtral": Case(
        "MixtralForCausalLM",
        "MixtralConfig",
        DECODER
        | {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "output_router_logits": True,
        },
        (
            *EXPERTS,
            f"{LAYER}block_sparse_moe.gate.weight",
            f"{LAYER}block_sparse_moe.experts.2.w2.weight",
        ),
    ),
    "qwen3_moe": Case(
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        DECODER
        | {
            "head_dim": 12,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "norm_topk_prob": True,
            "output_router_logits": True,
        },
        (
            *EXPERTS,
            f"{LAYER}self_attn.k_norm.weight",
            f"{LAYER}mlp.gate.weight",
            f"{LAYER}mlp.experts.2.up_proj.weight",
        ),
    ),
    "gemma3": Case(
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        DECODER
        | {
            "num_hidden_layers": 4,
            "head_dim": 8,
            "query_pre_attn_scalar": 10,
            "sliding_window": 5,
            "layer_types": ["sliding_attention"] * 2 + ["full_attention", "sliding_attention"],
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
        (*DENSE, f"{LAYER}post_feedforward_layernorm.weight", f"{LAYER}self_attn.q_norm.weight"),
        options={"softcap": 2.0},  # transformers does not pass on attn_logit_softcapping
    ),
    "gpt_oss": Case(
        "GptOssForCausalLM",
        "GptOssConfig",
        DECODER
        | {
            "hidden_size": 24,
            "intermediate_size": 20,
            "num_hidden_layers": 4,
            "head_dim": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 5,
            "swiglu_limit": 1.0,
            "output_router_logits": True,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 100.0,
                "factor": 4.0,
                "beta_fast": 8.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 16,
            },
        },
        (
            "model.embed_tokens.weight",
            *ATTENTION,
            f"{LAYER}self_attn.o_proj.bias",
            f"{LAYER}self_attn.sinks",
            f"{LAYER}mlp.router.weight",
            f"{LAYER}mlp.router.bias",
            f"{LAYER}mlp.experts.gate_up_proj",
            f"{LAYER}mlp.experts.gate_up_proj_bias",
            f"{LAYER}mlp.experts.down_proj_bias",
        ),
    ),
    "deepseek_v3": Case(
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        DECODER
        | {
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "first_k_dense_replace": 1,
            "moe_intermediate_size": 12,
            "n_shared_experts": 2,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "n_group": 4,
            "topk_group": 2,
            "kv_lora_rank": 16,
            "q_lora_rank": 20,
            "qk_nope_head_dim": 12,
            "qk_rope_head_dim": 8,
            "v_head_dim": 10,
            "num_mtp_layers": 0,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 100.0,
                "factor": 4.0,
                "beta_fast": 8.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 0.8,
                "original_max_position_embeddings": 16,
            },
        },
        (
            "model.embed_tokens.weight",
            "model.layers.0.mlp.down_proj.weight",
            f"{LAYER}self_attn.q_a_proj.weight",
            f"{LAYER}self_attn.q_b_proj.weight",
            f"{LAYER}self_attn.kv_a_proj_with_mqa.weight",
            f"{LAYER}self_attn.kv_b_proj.weight",
            f"{LAYER}self_attn.o_proj.weight",
            f"{LAYER}mlp.gate.weight",
            f"{LAYER}mlp.experts.2.up_proj.weight",
            f"{LAYER}mlp.shared_experts.down_proj.weight",
        ),
    ),
    "t5": Case(
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": VOCAB,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 40,
            "num_layers": 2,
            "num_heads": 4,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 12,
            "dropout_rate": 0.0,
            "pad_token_id": 0,
            "decoder_start_token_id": 0,
            "eos_token_id": None,
        },
        (
            "shared.weight",
            "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "decoder.block.1.layer.1.EncDecAttention.k.weight",
            "encoder.block.1.layer.1.DenseReluDense.wi.weight",
        ),
        "encoder-decoder",
    ),
    "t5_v1_1": Case(
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": VOCAB,
            "d_model": 24,
            "d_kv": 8,
            "d_ff": 40,
            "num_layers": 2,
            "num_decoder_layers": 1,
            "num_heads": 3,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 12,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "dropout_rate": 0.0,
            "pad_token_id": 0,
            "decoder_start_token_id": 0,
            "eos_token_id": None,
        },
        (
            "shared.weight",
            "lm_head.weight",
            "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            "encoder.block.1.layer.1.DenseReluDense.wi_1.weight",
        ),
        "encoder-decoder",
    ),
    "whisper": Case(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            "vocab_size": VOCAB,
            "num_mel_bins": 6,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 40,
            "decoder_ffn_dim": 40,
            "max_source_positions": 12,
            "max_target_positions": 16,
            "decoder_start_token_id": 1,
            "pad_token_id": 0,
            "bos_token_id": None,
            "eos_token_id": None,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
            "attn_implementation": "eager",
        },
        (
            "model.encoder.conv1.weight",
            "model.encoder.conv2.bias",
            "model.encoder.layers.1.self_attn.q_proj.bias",
            "model.decoder.layers.1.encoder_attn.v_proj.weight",
            "model.decoder.embed_tokens.weight",
        ),
        "speech",
    ),
    "vit": Case(
        "ViTForImageClassification",
        "ViTConfig",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 40,
            "image_size": 12,
            "patch_size": 4,
            "num_channels": 3,
            "num_labels": 5,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
            "attn_implementation": "eager",
        },
        (
            "vit.embeddings.cls_token",
            "vit.embeddings.patch_embeddings.projection.weight",
            "classifier.weight",
        ),
        "images",
    ),
    "dit": Case(
        "DiTTransformer2DModel",
        "",
        {
            "num_attention_heads": 4,
            "attention_head_dim": 8,
            "num_layers": 2,
            "sample_size": 8,
            "in_channels": 2,
            "out_channels": 4,
            "num_embeds_ada_norm": 5,
        },
        (
            "pos_embed.proj.weight",
            "transformer_blocks.0.norm1.emb.timestep_embedder.linear_1.bias",
            "transformer_blocks.0.norm1.emb.class_embedder.embedding_table.weight",
            "transformer_blocks.1.norm1.linear.bias",
            "transformer_blocks.1.attn1.to_k.weight",
            "transformer_blocks.1.ff.net.2.weight",
            "proj_out_2.weight",
        ),
        "diffusion",
    ),
    "qwen2_vl": Case(
        "Qwen2VLForConditionalGeneration",
        "Qwen2VLConfig",
        {
            "text_config": {
                name: entry for name, entry in DECODER.items() if name != "attn_implementation"
            }
            | {
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 100.0,
                    "mrope_section": [2, 1, 1],
                },
            },
            "vision_config": {
                "depth": 2,
                "embed_dim": 16,
                "num_heads": 2,
                "mlp_ratio": 3,
                "hidden_size": 32,
                "in_channels": 1,
                "patch_size": 2,
            },
            "image_token_id": 0,
            "video_token_id": 1,
        },
        (
            "model.embed_tokens.weight",
            f"{LAYER}self_attn.k_proj.bias",
            "visual.patch_embed.proj.weight",
            "visual.blocks.0.attn.qkv.weight",
            "visual.blocks.1.mlp.fc1.bias",
            "visual.merger.mlp.0.weight",
            "visual.merger.mlp.2.bias",
        ),
        "images and text",
    ),
    "mamba2": Case(
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {
            "vocab_size": VOCAB,
            "hidden_size": 16,
            "num_heads": 4,
            "head_dim": 8,
            "state_size": 6,
            "n_groups": 2,
            "expand": 2,
            "conv_kernel": 4,
            "chunk_size": 8,
            "num_hidden_layers": 2,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": None,
            "tie_word_embeddings": False,
            "use_cache": True,
        },
        (
            "backbone.embeddings.weight",
            "backbone.layers.1.mixer.in_proj.weight",
            "backbone.layers.1.mixer.A_log",
            "backbone.layers.1.mixer.dt_bias",
            "backbone.layers.0.mixer.conv1d.weight",
        ),
    ),
    "qwen3_next": Case(
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        DECODER
        | {
            "num_hidden_layers": 8,
            "head_dim": 8,
            "partial_rotary_factor": 0.5,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 12,
            "linear_conv_kernel_dim": 3,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 24,
            "shared_expert_intermediate_size": 16,
            "norm_topk_prob": True,
            "output_router_logits": True,
        },
        (
            "model.embed_tokens.weight",
            "model.layers.7.self_attn.q_proj.weight",
            "model.layers.3.self_attn.k_norm.weight",
            "model.layers.5.linear_attn.in_proj_qkvz.weight",
            "model.layers.1.linear_attn.in_proj_ba.weight",
            "model.layers.2.linear_attn.conv1d.weight",
            "model.layers.6.linear_attn.A_log",
            "model.layers.4.linear_attn.dt_bias",
            "model.layers.4.linear_attn.norm.weight",
            "model.layers.0.input_layernorm.weight",
            "model.layers.2.mlp.shared_expert_gate.weight",
            "model.layers.7.mlp.experts.2.up_proj.weight",
        ),
        # Random queries and keys are almost orthogonal, so the first results are almost 0, and their
        # norm multiplies rounding errors: float32 and float64 of PyTorch differ by 20 times the
        # tolerance of the tests, and with these factors by 0.4 times. After a large convolution,
        # SiLU is positive or almost 0. Most norms multiply by one plus their weight.
        factors={
            "linear_attn.conv1d": 8.0,
            "layernorm": 0.1,
            "_norm": 0.1,
            "model.norm": 0.1,
            "mlp.gate.": 0.5,
            "lm_head": 0.5,
        },
    ),
}


def integers(*shape: int, seed: int, low: int = 2) -> np.ndarray:
    """Return random tokens; 0 and 1 are special in some models."""
    return np.random.default_rng(seed).integers(low, VOCAB, shape).astype(np.int32)


def floats(*shape: int, seed: int) -> np.ndarray:
    """Return random features."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def inputs_of(case: Case, config: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the inputs of a case, and the argument of `forward` that each of them is."""
    if case.kind == "decoder":
        return {"tokens": integers(BATCH, POS, seed=0)}, {"tokens": "input_ids"}
    if case.kind == "encoder-decoder":
        arrays = {"inputs": integers(BATCH, POS, seed=0), "tokens": integers(BATCH, 12, seed=1)}
        return arrays, {"inputs": "input_ids", "tokens": "decoder_input_ids"}
    if case.kind == "speech":
        frames = 2 * config.max_source_positions
        arrays = {
            "features": floats(BATCH, config.num_mel_bins, frames, seed=0),
            "tokens": integers(BATCH, 12, seed=1),
        }
        return arrays, {"features": "input_features", "tokens": "decoder_input_ids"}
    if case.kind == "images and text":
        arrays = {"tokens": integers(BATCH, POS, seed=0)}
        for row, count in enumerate(IMAGES):
            for start in range(2 + row % 3, 14, 6)[:count]:  # two words between the images
                arrays["tokens"][row, start : start + 4] = config.image_token_id
        arrays["images"] = np.round(8 * floats(BATCH, 2, 4, 1, 8, 4, seed=1)) / 8
        return arrays, {}
    size = config.image_size
    return {"images": floats(BATCH, config.num_channels, size, size, seed=0)}, {
        "images": "pixel_values"
    }


def illustrated(inputs: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the arguments of a model of images and text: the patches of the images that rows have."""
    tokens, patches = torch.tensor(inputs["tokens"]).long(), []
    for row, count in enumerate(IMAGES):
        for image in inputs["images"][row, :count]:
            parts = image.reshape(2, 2, 1, 2, 2, 2, 1, 2, 2)  # t frame, c, r m row, c m column
            patches.append(parts.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(16, 8))
    return {
        "input_ids": tokens,
        "mm_token_type_ids": (tokens == 0).int(),
        "pixel_values": torch.tensor(np.concatenate(patches)),
        "image_grid_thw": torch.tensor([[2, 4, 2]] * sum(IMAGES)),
    }


def greedy(case: Case, model: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return greedy continuations: of three prompts of different lengths, or of the encoder's inputs."""
    options = {"max_new_tokens": NEW, "do_sample": False, "use_cache": True}
    if case.kind == "decoder":
        found = [
            model.generate(torch.tensor(inputs["tokens"][i : i + 1, :length]).long(), **options)
            for i, length in enumerate(PROMPTS)
        ]
        new = np.stack([row[0, -NEW:].numpy() for row in found])
        return {"greedy": new, "prompt_lengths": np.array(PROMPTS)}
    if case.kind == "encoder-decoder":
        found = model.generate(torch.tensor(inputs["inputs"]).long(), **options)
        return {"greedy": found[:, -NEW:].numpy()}
    if case.kind == "speech":  # without Whisper's own generate, which adds tokens of its own
        tokens = torch.full((BATCH, 1), model.config.decoder_start_token_id)
        for _ in range(NEW):
            logits = model(
                input_features=torch.tensor(inputs["features"]), decoder_input_ids=tokens
            ).logits
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)
        return {"greedy": tokens[:, 1:].numpy()}
    if case.kind == "images and text":
        found = model.generate(**illustrated(inputs), **options)
        return {"greedy": found[:, -NEW:].numpy()}
    return {}


def share_embeddings(model: Any) -> Any:
    """Let encoder and decoder share embeddings in T5 1.1, whose output layer does not share them."""
    if hasattr(model, "shared"):
        model.set_input_embeddings(model.shared)
    return model


def published(model: Any, folder: pathlib.Path) -> dict[str, torch.Tensor]:
    """Save a model, and return its tensors by the keys that a published checkpoint has."""
    model.save_pretrained(folder)
    return safetensors.torch.load_file(folder / "model.safetensors")


def load(case: Case, folder: pathlib.Path) -> tuple[Any, Any, dict[str, Any]]:
    """Return the model of a case with the weights of its keys, its configuration, and the shapes."""
    torch.manual_seed(0)
    config = getattr(transformers, case.config)(**case.entries)
    if "tie_word_embeddings" in case.entries:  # T5 replaces the entry by another one
        config.tie_word_embeddings = case.entries["tie_word_embeddings"]
    model = share_embeddings(getattr(transformers, case.model)(config))
    state = {key: tensor.shape for key, tensor in published(model, folder).items()}
    weights = {
        key: torch.tensor(make(key, tuple(shape), case.factors)) for key, shape in state.items()
    }
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    model = type(model).from_pretrained(folder, config=config, **options)
    model = share_embeddings(model).eval()
    model.forward = functools.partial(model.forward, **case.options)
    for key, tensor in published(model, folder).items():
        np.testing.assert_array_equal(tensor.numpy(), weights[key].numpy(), err_msg=key)
    return model, config, state


def write(name: str, case: Case) -> pathlib.Path:
    """Run a case, and write its file."""
    if case.kind == "diffusion":
        return write_diffusion(name, case)
    folder = pathlib.Path(tempfile.mkdtemp())
    model, config, state = load(case, folder)
    text = json.dumps(json.loads((folder / "config.json").read_text()) | case.written, indent=1)
    inputs, arguments = inputs_of(case, config)
    operands = {
        argument: torch.tensor(inputs[key]).long()
        if inputs[key].dtype == np.int32
        else torch.tensor(inputs[key])
        for key, argument in arguments.items()
    }
    if case.kind == "images and text":
        operands = illustrated(inputs)
    output = model(**operands)
    logits = output.logits
    classes = logits.shape[-1]
    targets = (
        np.random.default_rng(2).integers(0, classes, tuple(logits.shape[:-1])).astype(np.int32)
    )
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, classes), torch.tensor(targets).long().reshape(-1)
    )
    loss.backward()
    results = {}
    if getattr(output, "aux_loss", None) is not None:
        results["aux_loss"] = output.aux_loss.detach().numpy()
    with torch.no_grad():
        results |= greedy(case, model, inputs)
        for (
            parameter
        ) in model.parameters():  # the checkpoint of the gradients has the published keys
            parameter.copy_(
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            )
    gradients = published(model, folder)
    results |= {f"grad/{key}": gradients[key].numpy() for key in case.gradients}
    shutil.rmtree(folder)
    results |= {"targets": targets, "logits": logits.detach().numpy()}
    return save(name, case, text, state, {**inputs, **results, "loss": loss.detach().numpy()})


def save(name: str, case: Case, config: str, shapes: Any, arrays: dict[str, Any]) -> pathlib.Path:
    """Write the file of a case, with its configuration and its keys."""
    described: dict[str, Any] = {
        "config": config,
        "versions": versions(),
        "model": case.model,
        "keys": list(shapes),
        "shapes": json.dumps([list(shape) for shape in shapes.values()]),
        "factors": json.dumps(case.factors),
    }
    path = GOLDEN / f"{name}.npz"
    np.savez_compressed(path, **described, **arrays)
    return path


def versions() -> str:
    """Return the versions of the libraries."""
    return (
        f"Python {platform.python_version()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, diffusers {diffusers.__version__}, numpy {np.__version__}"
    )


def write_lora() -> pathlib.Path:
    """Write the files of an adapter, and the logits of the model of `llama3` with it."""
    folder = pathlib.Path(tempfile.mkdtemp())
    model, config, _ = load(CASES["llama3"], folder)
    options = peft.LoraConfig(
        r=4,
        lora_alpha=1,
        target_modules=["q_proj", "v_proj", "o_proj", "down_proj", "lm_head"],
        rank_pattern={"o_proj": 2},
        alpha_pattern={"mlp.down_proj": 0.5},
        use_rslora=True,
        lora_dropout=0.1,
        task_type="CAUSAL_LM",
    )
    peft.get_peft_model(model, options).save_pretrained(folder, save_embedding_layers=False)
    file = folder / "adapter_model.safetensors"
    state = {key: tensor.shape for key, tensor in safetensors.torch.load_file(file).items()}
    weights = {key: torch.tensor(make(key, tuple(shape))) for key, shape in state.items()}
    safetensors.torch.save_file(weights, file, metadata={"format": "pt"})
    base, _, _ = load(CASES["llama3"], pathlib.Path(tempfile.mkdtemp()))
    adapted = peft.PeftModel.from_pretrained(base, folder).eval()
    inputs, _ = inputs_of(CASES["llama3"], config)
    with torch.no_grad():
        logits = adapted(input_ids=torch.tensor(inputs["tokens"]).long()).logits
    ADAPTERS.mkdir(parents=True, exist_ok=True)
    path = ADAPTERS / "lora.npz"
    np.savez_compressed(
        path,
        config=(folder / "adapter_config.json").read_text(),
        versions=f"{versions()}, peft {peft.__version__}",
        keys=list(state),
        shapes=json.dumps([list(shape) for shape in state.values()]),
        logits=logits.numpy(),
    )
    shutil.rmtree(folder)
    return path


def write_diffusion(name: str, case: Case) -> pathlib.Path:
    """Run a case of diffusers, and write its file: the output for images, and the loss for noise."""
    model = getattr(diffusers, case.model)(**case.entries).eval()
    shapes = {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
    model.load_state_dict({key: torch.tensor(make(key, shape)) for key, shape in shapes.items()})
    config, drawn = model.config, np.random.default_rng(2)
    size = (BATCH, config.in_channels, config.sample_size, config.sample_size)
    arrays = {"images": floats(*size, seed=0), "noise": floats(*size, seed=1)}
    arrays |= {
        "times": drawn.integers(0, 1000, BATCH).astype(np.int32),
        "labels": drawn.integers(0, config.num_embeds_ada_norm + 1, BATCH).astype(np.int32),
    }
    images, noise = torch.tensor(arrays["images"]), torch.tensor(arrays["noise"])
    times, labels = (torch.tensor(arrays[key]).long() for key in ("times", "labels"))
    output = model(images, times, labels).sample
    schedule = diffusers.DDPMScheduler()  # betas grow linearly from 1e-4 to 0.02
    noisy = schedule.add_noise(images, noise, times)
    predicted = model(noisy, times, labels).sample[:, : config.in_channels]
    loss = torch.nn.functional.mse_loss(predicted, noise)
    loss.backward()
    gradients = {key: value.grad.numpy() for key, value in model.named_parameters()}
    arrays |= {f"grad/{key}": gradients[key] for key in case.gradients}
    arrays |= {"logits": output.detach().numpy(), "loss": loss.detach().numpy()}
    return save(name, case, model.to_json_string(), shapes, arrays)


def main(argv: list[str] | None = None, progress: Callable[[str], None] = print) -> None:
    """Write the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*CASES, "lora"]
    parser.add_argument("cases", nargs="*", help=f"some of {', '.join(known)}; all by default")
    wanted = parser.parse_args(argv).cases or known
    if unknown := sorted({*wanted} - {*known}):
        parser.error(f"unknown cases {', '.join(unknown)}; choose from {', '.join(known)}")
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        path = write_lora() if name == "lora" else write(name, CASES[name])
        progress(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
