"""namedax.models.qwen3_next in the tiers; the tables of the other modules have all its layouts."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
import safetensors.numpy
from jax.sharding import AxisType

import namedax as nx
from namedax.models import common, qwen3_next
from tests.models.loading import golden, state, write_config
from tests.models.test_generate import tokens_of
from tests.models.test_models import check, model_of, params_of


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("title", ["fsdp+tp+sp"])
def test_it_equals_pytorch_with_sharded_heads_and_positions(title):
    check("qwen3_next", title, AxisType.Explicit)


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize("title", ["batch+heads"])
def test_greedy_tokens_are_those_of_pytorch_with_sharded_heads(title):
    np.testing.assert_array_equal(tokens_of("qwen3_next", title), golden("qwen3_next")["greedy"])


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("layout", [{"embed_fsdp": "data", "state_heads": "model", "expert": "data"}])
def test_a_checkpoint_is_loaded(tmp_path, layout):
    """Every fourth layer has full attention; those that predict further tokens are not read."""
    write_config("qwen3_next", tmp_path)
    arrays = state("qwen3_next") | {"mtp.norm.weight": np.zeros(4, np.float32)}
    safetensors.numpy.save_file(arrays, tmp_path / "model.safetensors")
    model = nx.models.load(tmp_path, layout, jax.make_mesh((4, 2), ("data", "model")))
    assert model.module is qwen3_next
    assert dataclasses.replace(model.config, balance=0.0) == model_of("qwen3_next")[1]
    loaded = dict(common.places(model.params))
    for place, array in common.places(params_of("qwen3_next")):
        assert bool(nx.all(loaded.pop(place) == array, ...)), place
    assert not loaded
