"""Packed documents in the recurrent models of namedax.models: each has the logits, loss and gradients that it has alone, in every layout."""

from __future__ import annotations

import dataclasses
import functools
import importlib

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.errors import UnsupportedArgumentError
from namedax.models import common
from tests.models.loading import golden
from tests.models.test_models import TOLERANCE, model_of, names_of, params_of

# The lengths of the documents in each row of 16 positions; padding follows them. Each is the beginning of a row of the golden file, of those
# with the smallest rounding errors: the first results of Qwen3-Next may be almost 0 before their norm.
ROWS = [[5, 11], [1, 2, 9], [16], [7, 4]]
SOURCES = [1, 2, 3, 4, 6, 1, 2, 3]
LONGEST = 16


@functools.cache
def rows_of(case):
    """The rows, and the same documents alone in rows of their own, with a mask for the tokens."""
    names = ("tokens", "targets")
    found = {name: golden(case)[name][SOURCES] for name in names}
    lengths = np.concatenate(ROWS)
    alone = {name: found[name] for name in names} | {"mask": np.arange(LONGEST) < lengths[:, None]}
    packed = {name: np.zeros((len(ROWS), LONGEST), np.int32) for name in (*names, "positions")}
    packed["segments"] = np.full((len(ROWS), LONGEST), -1, np.int32)
    places = [(row, sum(of[:number])) for row, of in enumerate(ROWS) for number in range(len(of))]
    for number, ((row, start), length) in enumerate(zip(places, lengths, strict=True)):
        part = slice(start, start + length)
        for name in names:
            packed[name][row, part] = found[name][number, :length]
        packed["segments"][row, part], packed["positions"][row, part] = 3 * number, np.arange(length)
    packed["mask"] = packed["segments"] >= 0
    return tuple({name: nx.named(array, ["batch", "pos"]) for name, array in rows.items()} for rows in (packed, alone))


def run(case, batch, title="one device", axis_types=None):
    """The logits of the tokens, the loss and its gradients."""
    module, config = model_of(case)
    config = dataclasses.replace(config, microbatches=2 * title.startswith("pipeline"))
    mesh, resources = common.layout(title, names_of(case), axis_types)

    def body(params, batch):
        rows = {name: batch[name] for name in ("segments", "positions") if name in batch}
        value, grads = jax.value_and_grad(module.loss)(params, batch, config)
        return module.forward(params, batch["tokens"], config, **rows), value, grads

    f = nx.xmap(body, axis_resources=resources, axis_sizes=config.sizes(), mesh=mesh)
    logits, value, grads = f(params_of(case), batch)
    is_token = np.asarray(nx.positional(batch["mask"], ["batch", "pos"])).astype(bool)
    return np.asarray(nx.positional(logits, ["batch", "pos", "vocab"]))[is_token], value, dict(common.places(grads))


@functools.cache
def alone(case):
    return run(case, rows_of(case)[1], "fsdp+tp+sp")  # on one device JAX 0.10.2 crashes


TITLES = [
    "ring+fsdp",
    *(
        pytest.param(title, marks=[pytest.mark.fast(0), pytest.mark.full(0)])
        for title in common.LAYOUTS
        if title not in ("ring+fsdp", "ep", "ep+fsdp")
    ),
]


@pytest.mark.parametrize("axis_types", [AxisType.Explicit, AxisType.Auto], ids=str)
@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param("mamba2", marks=[pytest.mark.fast(1), pytest.mark.full(1)]),
        pytest.param("qwen3_next", marks=[pytest.mark.fast(0), pytest.mark.full(0)]),
    ],
)
def test_packed_documents_are_as_alone(case, title, axis_types):
    if title == "one device" and axis_types == AxisType.Auto:
        axis_types = None
    logits, value, grads = run(case, rows_of(case)[0], title, axis_types)
    wanted_logits, wanted_value, wanted_grads = alone(case)
    np.testing.assert_allclose(logits, wanted_logits, **TOLERANCE)
    np.testing.assert_allclose(value, wanted_value, **TOLERANCE)
    for place, want in wanted_grads.items():
        names = list(want.named_shape)
        np.testing.assert_allclose(nx.positional(grads[place], names), nx.positional(want, names), err_msg=place, **TOLERANCE)


@pytest.mark.parametrize("name", ["llama", "gemma", "gpt_oss", "deepseek", "qwen3_next", "mamba"])
def test_packed_documents_with_a_cache_are_an_error(name):
    """A document would continue the one before, also in the convolution."""
    module = importlib.import_module(f"namedax.models.{name}")
    config = module.TINY

    def forward():
        tokens = nx.zeros(named_shape={"batch": 2, "pos": 4}, dtype=np.int32)
        rows = {"segments": tokens, "positions": tokens}
        params, cache = module.init(config, jax.random.key(0)), module.init_cache(config, 2, 8)
        return module.forward(params, tokens, config, cache=cache, **rows)

    with pytest.raises(UnsupportedArgumentError, match="packed documents cannot continue the states of a cache"):
        jax.eval_shape(forward)
