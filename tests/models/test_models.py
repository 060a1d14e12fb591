"""Every model of namedax.models equals PyTorch in every layout, on Auto and on Explicit axes: logits, loss and gradients."""

from __future__ import annotations

import dataclasses
import functools
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.models import common
from namedax.models.architectures import module_of
from tests.models.loading import golden, named_state, state_of, write_config

# The module of each golden case.
CASES = {
    "llama3": "llama",
    "llama_yarn": "llama",
    "mistral": "llama",
    "qwen3": "llama",
    "mixtral": "mixtral",
    "qwen3_moe": "mixtral",
    "gemma3": "gemma",
    "gpt_oss": "gpt_oss",
    "deepseek_v3": "deepseek",
    "t5": "t5",
    "t5_v1_1": "t5",
    "whisper": "whisper",
    "vit": "vit",
    "dit": "dit",
    "qwen2_vl": "qwen2_vl",
    "mamba2": "mamba",
    "qwen3_next": "qwen3_next",
}
EXPERTS = ("mixtral", "gpt_oss", "deepseek", "qwen3_next")  # modules with a mixture of experts
TOLERANCE = {"rtol": 2e-5, "atol": 2e-5}
INPUTS = {  # in the order of the arguments of `forward`
    "inputs": ["batch", "source"],
    "features": ["batch", "mel", "frame"],
    "images": ["batch", "channel", "row", "column"],
    "times": ["batch"],
    "labels": ["batch"],
    "tokens": ["batch", "pos"],
}
ILLUSTRATIONS = ["batch", "image", "frame", "channel", "row", "column"]  # in a sequence with tokens
OUTPUTS = {2: ["batch", "classes"], 3: ["batch", "pos", "vocab"], 4: ["batch", "channel", "row", "column"]}


@functools.cache
def model_of(case):
    """The module and the configuration of a case, read from its `config.json`."""
    module = module_of(CASES[case])
    with tempfile.TemporaryDirectory() as folder:
        config = module.Config.from_json(write_config(case, Path(folder)))
    # The golden losses are without the loss of the balance of experts.
    return module, dataclasses.replace(config, balance=0.0) if hasattr(config, "balance") else config


@functools.cache
def params_of(case):
    module, config = model_of(case)
    return named_state(case, module.spec(config), config.sizes())


def batch_of(case):
    """The inputs and targets of a case, named."""
    found = golden(case)
    batch = {name: nx.named(found[name], axes) for name, axes in INPUTS.items() if name in found and found[name].ndim < 6}
    if {"tokens", "images"} <= {*found}:
        batch["images"] = nx.named(found["images"], ILLUSTRATIONS)
    if "noise" in found:
        return batch | {"noise": nx.named(found["noise"], INPUTS["images"])}
    if found["logits"].ndim == 2:
        return batch | {"labels": nx.named(found["targets"], ["batch"])}
    return batch | {"targets": nx.named(found["targets"], ["batch", "pos"])}


def names_of(case):
    """The axis names of a case, for `common.layout`."""
    inputs = {axis for name, axes in INPUTS.items() if name in golden(case) for axis in axes}
    config = model_of(case)[1]
    sizes = {name for name, size in config.sizes().items() if size > 1}  # one layer is no pipeline
    axes = {*sizes, *inputs, *(f"{axis}_sp" for axis in inputs), "pos", "pos_sp"}
    return axes.union(getattr(config, "axes", ()))


def check(case, title, axis_types, **options):
    """Logits, loss and gradients of one layout are those of the golden file."""
    found = golden(case)
    module, config = model_of(case)
    if title.startswith("pipeline"):
        config = dataclasses.replace(config, microbatches=2)
    mesh, resources = common.layout(title, names_of(case), axis_types)

    def body(params, batch):
        inputs = [batch[name] for name in INPUTS if name in found]
        more = {"images": inputs.pop(0)} if {"tokens", "images"} <= {*found} else {}
        value, grads = jax.value_and_grad(module.loss)(params, batch, config)
        return module.forward(params, *inputs, config, **more), value, grads

    f = nx.xmap(body, axis_resources=resources, axis_sizes=config.sizes(), mesh=mesh, **options)
    logits, value, grads = f(params_of(case), batch_of(case))
    if "output" in logits.named_shape:  # of diffusion
        logits = nx.rearrange(logits, "{output, channel} -> {channel=(output channel)}")
    logits = nx.positional(logits, OUTPUTS[found["logits"].ndim])
    np.testing.assert_allclose(logits, found["logits"], **TOLERANCE)
    np.testing.assert_allclose(value, found["loss"], **TOLERANCE)
    gradients = state_of(grads, module.spec(config), config.sizes())
    for name in found:
        if name.startswith("grad/"):
            key = name.removeprefix("grad/")
            np.testing.assert_allclose(gradients[key], found[name], err_msg=key, **TOLERANCE)


# Layouts of experts are for models that have some.
MAPPED = [
    (case, title)
    for case, module in CASES.items()
    for title in common.LAYOUTS
    if title != "one device" and (module in EXPERTS or title not in ("ep", "ep+fsdp"))
]


@pytest.mark.fast(1)
@pytest.mark.full(0)
@pytest.mark.parametrize("case", CASES)
def test_a_model_equals_pytorch(case):
    check(case, "one device", None)


@pytest.mark.fast(0)
@pytest.mark.full(5)
@pytest.mark.parametrize("axis_types", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize(("case", "title"), MAPPED)
def test_a_model_equals_pytorch_in_every_layout(case, title, axis_types):
    check(case, title, axis_types)


@pytest.mark.fast(0)
@pytest.mark.full(2)
@pytest.mark.parametrize(("case", "title"), [("gpt_oss", "ep+fsdp"), ("deepseek_v3", "fsdp+tp+sp")])
def test_a_model_with_experts_equals_pytorch(case, title):
    check(case, title, AxisType.Explicit)


def test_every_case_has_a_golden_file():
    assert {path.stem for path in (Path(__file__).parent / "golden").glob("*.npz")} == {*CASES}


@pytest.mark.parametrize("name", sorted({*CASES.values()}))
def test_an_architecture_is_short(name):
    assert len(Path(module_of(name).__file__).read_text().splitlines()) < 200
