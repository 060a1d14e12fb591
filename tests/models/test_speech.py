"""Whisper transcribes with caches: the greedy tokens of PyTorch in every layout."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.models import generate
from tests.models.loading import golden
from tests.models.test_models import batch_of, model_of, params_of

NEW = 6


def transcribe(title, axis_types=None):
    """Greedy tokens, with the keys and values of the encoder's outputs computed once."""
    module, config = model_of("whisper")
    mesh, resources = generate.layout(title, axis_types)
    names = {*config.sizes(), "batch", "cache"}

    def body(params, features):
        encoded = module.encode(params, features, config)
        memory = module.keys_and_values(encoded, params["decoder"]["cross"], "source")
        batch = features.named_shape["batch"]
        cache = module.init_cache(config, batch, NEW + 2)
        tokens, found = nx.full((), 1, dtype=jnp.int32, named_shape={"batch": batch, "pos": 1}), []
        for _ in range(NEW):
            logits, cache = module.decode(params, memory, tokens, config, cache=cache)
            found.append(nx.argmax(logits, "vocab").astype(jnp.int32))
            tokens = nx.named(nx.expand_dims(found[-1], 0), ["pos"])
        return found

    resources = {name: entry for name, entry in resources.items() if name in names}
    f = nx.xmap(body, axis_resources=resources, mesh=mesh, axis_sizes={"cache": NEW + 2})
    found = f(params_of("whisper"), batch_of("whisper")["features"])
    return np.stack([nx.positional(token, ["batch"]) for token in found], 1)


@pytest.mark.full(1)
@pytest.mark.fast(0)
def test_greedy_tokens_are_those_of_pytorch():
    np.testing.assert_array_equal(transcribe("one device"), golden("whisper")["greedy"])


@pytest.mark.full(1)
@pytest.mark.fast(0)
@pytest.mark.parametrize("axis_types", [AxisType.Auto, AxisType.Explicit], ids=str)
@pytest.mark.parametrize("title", [title for title in generate.LAYOUTS if title != "one device"])
def test_greedy_tokens_do_not_depend_on_the_layout(title, axis_types):
    np.testing.assert_array_equal(transcribe(title, axis_types), golden("whisper")["greedy"])
