"""namedax.models.mixtral: the loss that balances the experts, and where they are."""

from __future__ import annotations

import dataclasses
import functools

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from tests.models.loading import golden
from tests.models.test_models import TOLERANCE, batch_of, common, model_of, names_of, params_of

CASES = ["mixtral", "qwen3_moe", "gpt_oss", "qwen3_next"]


@functools.cache
def balanced(case, title, axis_types, balance):
    """The loss and its gradient, with the loss of the balance."""
    module, config = model_of(case)
    config = dataclasses.replace(config, balance=balance, microbatches=2 * title.startswith("pipeline"))
    mesh, resources = common.layout(title, names_of(case), axis_types)

    def value_and_grad(params, batch):
        return jax.value_and_grad(module.loss)(params, batch, config)

    f = nx.xmap(value_and_grad, axis_resources=resources, mesh=mesh)
    return f(params_of(case), batch_of(case))


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("case", CASES)
def test_the_loss_of_the_balance_is_that_of_pytorch(case):
    found = golden(case)
    value, _ = balanced(case, "one device", None, 0.5)
    np.testing.assert_allclose(value, found["loss"] + 0.5 * found["aux_loss"], rtol=2e-5)


@pytest.mark.fast(0)
@pytest.mark.full(0)
@pytest.mark.parametrize("axis_types", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("title", ["ep+fsdp", "fsdp+tp+sp", "fsdp, accumulated", "ring+fsdp", "pipeline+dp"])
def test_the_balance_does_not_depend_on_the_layout(title, axis_types):
    value, grads = balanced("mixtral", title, axis_types, 0.5)
    expected, wanted = balanced("mixtral", "one device", None, 0.5)
    np.testing.assert_allclose(value, expected, rtol=2e-5)
    found = dict(common.places(grads))
    for place, want in common.places(wanted):
        names = list(want.named_shape)
        np.testing.assert_allclose(nx.positional(found[place], names), nx.positional(want, names), **TOLERANCE)
