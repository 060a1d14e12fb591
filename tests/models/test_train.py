"""namedax.models.train: the same losses under every layout, and every option of the command line."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import jax
import numpy as np
import pytest

import namedax as nx
from namedax import models
from namedax.errors import CheckpointError
from namedax.models import common, train
from namedax.models.architectures import module_of, open_model, parameters
from tests.xmap.test_distributed import run_two

SMALL = ["--steps", "4", "--warmup", "2", "--batch", "8", "--pos", "12", "--bytes", "20000"]


def losses(folder, *arguments):
    """The losses of a short training."""
    history = train.main([*SMALL, "--out", str(folder), *map(str, arguments)])
    return np.array([metrics["loss"] for metrics in history])


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The losses of a training on one device, by its other arguments."""
    found = {}

    def of(*arguments):
        if arguments not in found:
            folder = tmp_path_factory.mktemp("expected")
            found[arguments] = losses(folder, "--layout", "one device", *arguments)
        return found[arguments]

    return of


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("layout", [title for title in common.LAYOUTS if title not in ("one device", "ep", "ep+fsdp")])
def test_the_losses_of_every_layout_are_equal(expected, tmp_path, layout, explicit):
    have = losses(tmp_path, "--layout", layout, *(["--explicit"] if explicit else []))
    np.testing.assert_allclose(have, expected(), rtol=1e-4)
    assert have[-1] < have[0]


OPTIONS = {
    "bf16": ["--bf16"],
    "dropout": ["--dropout", "0.2"],
    "packed": ["--packed"],
    "muon": ["--optimizer", "muon"],
    "no remat": ["--remat", "none"],
    "lora": ["--lora", "2"],
    "adapters": ["--lora", "2", "--adapters", "3"],
}


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("layout", ["fsdp+tp+sp", "ring+fsdp", "pipeline+dp", "fsdp, accumulated"])
@pytest.mark.parametrize("option", OPTIONS)
def test_options_mean_the_same_in_every_layout(expected, tmp_path, option, layout):
    have = losses(tmp_path, "--layout", layout, *OPTIONS[option])
    rtol = {"bf16": 1e-2, "muon": 1e-3}.get(option, 1e-4)
    np.testing.assert_allclose(have, expected(*OPTIONS[option]), rtol=rtol)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_adapters_are_sharded_by_their_axis(expected, tmp_path):
    arguments = ["--lora", "2", "--adapters", "4"]
    mesh = ["--layout", "{'adapter': 'data'}", "--mesh", "data=4"]
    np.testing.assert_allclose(losses(tmp_path, *arguments, *mesh), expected(*arguments), rtol=1e-4)


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_a_training_continues_under_another_layout(expected, tmp_path):
    first = losses(tmp_path, "--layout", "fsdp+tp", "--until", "2", "--save")
    rest = losses(tmp_path, "--layout", "dp", "--resume", "--explicit")
    np.testing.assert_allclose([*first, *rest], expected(), rtol=1e-4)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]


@pytest.mark.full(0)
@pytest.mark.fast(0)
def test_two_processes_train_as_one(expected, tmp_path):
    mesh = ["--layout", "{'batch': 'data', 'embed_fsdp': 'data', 'kv_heads': 'model'}", "--mesh", "data=4,model=2"]
    first, _ = run_two(Path(models.__file__).with_name("__main__.py"), "train", *SMALL, "--out", tmp_path, *mesh)
    assert float(first.splitlines()[-1].split("loss ")[1].split()[0]) == pytest.approx(expected()[-1], abs=2e-4)


def test_an_unknown_model_type_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="model_type 'bert', which no model reads"):
        train.main([str(tmp_path)])


def test_an_unknown_class_of_diffusers_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text('{"_class_name": "UNet2DModel"}')
    with pytest.raises(CheckpointError, match="_class_name 'UNet2DModel', which no model reads"):
        train.main([str(tmp_path)])


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_a_training_begins_with_the_parameters_of_the_model():
    """The modulations of DiT, and the scales of norms in Gemma, are zero at first."""
    for name, places in (("dit", ("modulate", "pixels")), ("gemma", ("norm",))):
        params = jax.jit(functools.partial(parameters, open_model(name), {}, None))(jax.random.key(0))
        assert not any(params[place].data.any() for place in places)


@pytest.mark.fast(1)
@pytest.mark.parametrize("model", ["dit", "qwen2_vl"])
def test_the_inputs_of_a_model_of_images_fit_to_it(tmp_path, model):
    options = train.parse([model, *SMALL, "--layout", "one device", "--out", str(tmp_path)])
    job = train.make_job(options)
    batch, config = train.batches(job)(0), job.config
    if model == "dit":
        assert {*batch} == {"images", "noise", "times", "labels"}
        assert batch["noise"].named_shape == batch["images"].named_shape
        for name, size in (("times", config.times), ("labels", config.classes + 1)):
            assert 0 <= batch[name].data.min() <= batch[name].data.max() < size
    else:
        cells = np.prod(job.model.module.grid(batch["images"], config))
        assert (np.asarray(nx.positional(batch["tokens"], ["batch", "pos"]) == config.image_token).sum(1) == cells).all()
        assert not np.asarray(batch["mask"].data)[:, :cells].any()


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("model", ["dit", "qwen2_vl"])
def test_a_model_of_images_is_trained(expected, tmp_path, model):
    have = losses(tmp_path, "--layout", "fsdp+tp", model)
    np.testing.assert_allclose(have, expected(model), rtol=1e-4)
    assert np.isfinite(have).all()


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("option", [(), ("--packed",), ("--lora", 2), ("--lora", 2, "--adapters", 2)], ids=str)
@pytest.mark.parametrize("layout", ["ep", "ep+fsdp"])
def test_experts_are_trained_in_their_layouts(expected, tmp_path, layout, option):
    arguments = ("mixtral", *option)
    have = losses(tmp_path, "--layout", layout, *arguments)
    np.testing.assert_allclose(have, expected(*arguments), rtol=1e-4)


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("name", ["gpt_oss", "deepseek"])
def test_packed_documents_do_not_see_each_other(name):
    module = module_of(name)
    params = module.init(module.TINY, jax.random.key(0))
    forward = jax.jit(lambda tokens, **rows: module.forward(params, tokens, module.TINY, **rows))
    tokens = nx.arange(12, axis="pos")
    rows = {"positions": tokens % 7, "segments": tokens // 7}  # documents of 7 and 5 tokens
    packed = forward(tokens, **rows)
    for part in (slice(7), slice(7, 12)):
        alone = forward(tokens["pos", part])
        np.testing.assert_allclose(packed["pos", part].data, alone.data, rtol=2e-5, atol=2e-5)
