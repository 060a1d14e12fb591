"""`nx.models.load` reads quantized checkpoints as published: GPT-OSS in MXFP4, and DeepSeek in 8-bit floats with blocks."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import namedax as nx
from namedax.models.architectures import module_of
from tests.interop.test_quantization import float8_of, of_float8, of_mxfp4, scales_of
from tests.models.loading import golden
from tests.models.test_models import common

RNG = np.random.default_rng(0)


def stored(case, folder, quantization, **sizes):
    """Write the configuration of a case with other sizes; return it, its module, and random tensors by key."""
    module = module_of("gpt_oss" if case == "gpt_oss" else "deepseek")
    entries = json.loads(str(golden(case)["config"])) | sizes | {"quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(entries))
    config = module.Config.from_json(folder)
    types = jax.eval_shape(lambda: module.init(config, jax.random.key(0)))
    params = jax.tree.map(lambda leaf: jnp.asarray(RNG.normal(size=leaf.shape), leaf.dtype), types)
    return module, config, nx.interop.to_state_dict(params, module.spec(config))


def check(module, config, folder, state, full):
    """Loading the stored tensors, also in blocks, is loading the dequantized ones."""
    safetensors.numpy.save_file({key: np.ascontiguousarray(one) for key, one in state.items()}, folder / "model.safetensors")
    want = dict(common.places(nx.interop.from_state_dict(full, module.spec(config), sizes=config.sizes())))
    mesh, resources = jax.make_mesh((2,), ("data",)), {"batch": "data", "expert": "data", "embed_fsdp": "data"}
    for layout in ({}, {"axis_resources": resources, "mesh": mesh}):
        model = nx.models.load(folder, **layout)
        found = dict(common.places(model.params))
        assert {*found} == {*want}
        for place, array in want.items():
            names = list(array.named_shape)
            assert found[place].dtype == array.dtype
            np.testing.assert_array_equal(nx.positional(found[place], names), nx.positional(array, names), err_msg=place)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_gpt_oss_in_mxfp4(tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "layer_types": ["full_attention"]}
    module, config, full = stored("gpt_oss", tmp_path, {"quant_method": "mxfp4"}, **sizes)
    state = dict(full)
    for name in ("gate_up_proj", "down_proj"):
        key = f"model.layers.0.mlp.experts.{name}"
        x, k, n = state.pop(key).shape
        blocks = RNG.integers(0, 256, (x, n, k // 32, 16), np.uint8)
        scales = RNG.integers(115, 135, (x, n, k // 32), np.uint8)
        state |= {f"{key}_blocks": blocks, f"{key}_scales": scales}
        full[key] = of_mxfp4(blocks, scales)
    assert full[key].dtype == jnp.bfloat16
    check(module, config, tmp_path, state, full)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_deepseek_in_8_bit_floats(tmp_path):
    quantization = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [16, 16]}
    sizes = {"num_hidden_layers": 2, "n_routed_experts": 4, "num_nextn_predict_layers": 1}
    sizes |= {"n_group": 2, "topk_group": 1, "num_experts_per_tok": 2}
    module, config, full = stored("deepseek_v3", tmp_path, quantization, **sizes)
    state = dict(full)
    for key, tensor in full.items():
        if "_proj" in key:
            values, scales = float8_of(*tensor.shape), scales_of(*(-(-size // 16) for size in tensor.shape))
            state |= {key: values, f"{key}_scale_inv": scales}
            full[key] = of_float8(values, scales, (16, 16))
    state["model.layers.2.eh_proj.weight"] = np.zeros((2, 2), np.float32)  # for multi-token prediction
    check(module, config, tmp_path, state, full)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_another_quantization_is_an_error(tmp_path):
    entries = json.loads(str(golden("gpt_oss")["config"])) | {"quantization_config": {"quant_method": "gptq"}}
    (tmp_path / "config.json").write_text(json.dumps(entries))
    safetensors.numpy.save_file({"x": np.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(nx.errors.ArgumentError, match="the method of quantization is 'gptq'"):
        nx.models.load(tmp_path)
