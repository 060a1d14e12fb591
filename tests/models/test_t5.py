"""namedax.models.t5: generation with a cache equals PyTorch, and padding of the inputs has no influence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from namedax.models import generate
from tests.models.loading import golden
from tests.models.test_models import batch_of, model_of, params_of

NEW = 6


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("title", ["one device", "uneven heads", "cache and source"])
@pytest.mark.parametrize("case", ["t5", "t5_v1_1"])
def test_greedy_tokens_are_those_of_pytorch(case, title, remembers):
    t5, config = model_of(case)

    def body(params, inputs):
        encoded = t5.encode(params, inputs, config)
        memory = t5.remember(encoded, params["decoder"]["layers"]) if remembers else None
        cache = t5.init_cache(config, inputs.named_shape["batch"], NEW)
        tokens = [nx.full((), config.start, named_shape={"batch": None})]
        for _ in range(NEW):
            last = nx.expand_dims(tokens[-1], "pos")
            logits, cache = t5.decode(params, encoded, last, config, cache=cache, memory=memory)
            tokens.append(nx.argmax(logits, "vocab").astype(jnp.int32))
        return nx.stack(tokens[1:], "new")

    if title == "cache and source":
        mesh, resources = jax.make_mesh((2,), ("context",)), {"cache": "context", "source": "context"}
    else:
        mesh, resources = generate.layout(title)
    found = nx.xmap(body, axis_resources=resources, mesh=mesh)(params_of(case), batch_of(case)["inputs"])
    np.testing.assert_array_equal(nx.positional(found, ["batch", "new"]), golden(case)["greedy"])


@pytest.mark.full(0)
@pytest.mark.fast(0)
@pytest.mark.parametrize("resources", [{}, {"source": "x", "pos": "x", "source_sp": "x", "pos_sp": "x"}], ids=["whole", "ring"])
def test_padding_of_the_inputs_has_no_influence(resources):
    t5, config = model_of("t5")
    batch, params = batch_of("t5"), params_of("t5")
    lengths = np.array([16, 3, 9, 16, 1, 8, 5, 12], np.int32)
    mesh = jax.make_mesh((2,), ("x",))

    def loss(params, batch):
        return jax.value_and_grad(t5.loss)(params, batch, config)

    padded = nx.xmap(loss, axis_resources=resources, mesh=mesh)(
        params, batch | {"source_lengths": nx.named(lengths, ["batch"])}
    )
    one = jax.jit(lambda batch: jax.value_and_grad(t5.loss)(params, batch, config))
    rows = [
        one(
            {name: array["batch", i] for name, array in batch.items()}
            | {"inputs": batch["inputs"]["batch", i]["source", :length]}
        )
        for i, length in enumerate(lengths)
    ]
    expected = jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *rows)
    for have, want in zip(jax.tree.leaves(padded), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)


@pytest.mark.fast(0)
def test_random_parameters_have_the_scale_that_unscaled_scores_need():
    t5, _ = model_of("t5")
    params = t5.init(t5.TINY, jax.random.key(0))
    query, key = (params["decoder"]["layers"][name] for name in ("cross_query", "cross_key"))
    deviation = [float(nx.std(array, ...)) for array in (query, key, params["embed"])]
    np.testing.assert_allclose(deviation, [(64 * 16) ** -0.5, 64**-0.5, 1.0], rtol=0.05)
    assert float(nx.min(params["encoder"]["layers"]["norm1"], ...)) == 1.0
