"""Train a Flax model's parameters by name under four lists of logical axis rules, and compare with Flax.

    python examples/flax_model.py

Flax creates the parameters, with logical names on their axes. `nx.interop.from_flax` converts them
to named arrays. `nx.interop.from_logical_rules` converts the rules of a Flax or MaxText program to
`axis_resources`. The forward pass is written by name once. Under every list of rules, the loss
curve and the final parameters equal those of the Flax module on one device.
"""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from gallery import (
    check,
    draw_curves,
    options,
    run_all,
    save,
    train,
)  # isort: skip - sets the number of devices
from matplotlib.figure import Figure

import namedax as nx

MESH = {"data": 4, "model": 2}
TENSOR = [("mlp", "model"), ("vocab", "model")]
# in order of precedence; the features of parameters are `embed_p`, those of activations `embed`
RULES = {
    "one device": [],
    "data parallel": [("batch", ("data", "model"))],
    "data and tensor": [("batch", "data"), *TENSOR],
    "FSDP and tensor": [("batch", "data"), ("embed_p", "data"), *TENSOR],
}


def dense(features, *names):
    """A dense layer with these axis names on its kernel; its bias has the last one."""
    kernel = nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)
    bias = nn.with_logical_partitioning(nn.initializers.zeros, names[1:])
    return nn.Dense(features, kernel_init=kernel, bias_init=bias, name=names[-1])


class Model(nn.Module):
    """Logits of the next tokens: an embedding table, a hidden layer, a projection."""

    vocab: int = 12
    embed: int = 16
    mlp: int = 32

    @nn.compact
    def __call__(self, tokens):
        init = nn.with_logical_partitioning(nn.initializers.normal(1.0), ("vocab", "embed_p"))
        x = self.param("table", init, (self.vocab, self.embed))[tokens]
        x = x + jnp.roll(x, 1, axis=1)  # the token before
        hidden = nn.gelu(dense(self.mlp, "embed_p", "mlp")(x))
        return dense(self.vocab, "mlp", "out")(hidden)


def flax_loss(params, tokens, targets):
    log_p = jax.nn.log_softmax(Model().apply({"params": params}, tokens))
    return -jnp.mean(jnp.take_along_axis(log_p, targets[:, :, None], axis=-1))


def named_loss(p, tokens, targets):
    """The same by name; `embed_p` is read as `embed`, with an all-gather if it is sharded."""
    x = nx.take(nx.rename(p["table"], {"embed_p": "embed"}), tokens, "vocab")
    x = x + nx.roll(x, 1, "pos")
    hidden = nx.nn.gelu(
        nx.einsum("{embed},{embed:embed_p,mlp}->{mlp}", x, p["mlp"]["kernel"]) + p["mlp"]["bias"]
    )
    logits = nx.dot(hidden, p["out"]["kernel"], "mlp") + p["out"]["bias"]
    return nx.mean(nx.nn.softmax_cross_entropy(logits, targets, "out"), ("batch", "pos"))


def step_of(loss):
    """One step of gradient descent."""

    def step(params, tokens, targets):
        value, gradient = jax.value_and_grad(loss)(params, tokens, targets)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient), value

    return step


def main() -> None:
    """Train with Flax, and by name under every list of rules; compare and draw."""
    chosen = options(__doc__, "flax_model", steps=40)
    key = jax.random.key(0)
    ids = (
        jnp.cumsum(jax.random.randint(key, (32, 9), 0, 3), axis=1) % 12
    )  # the next token depends on the previous one
    data = ids[:, :-1], ids[:, 1:]
    named_data = nx.named(data, ["batch", "pos"])
    boxed = Model().init(key, data[0])["params"]
    params = nx.interop.from_flax(boxed)
    flax = train(step_of(flax_loss), nn.meta.unbox(boxed), [data] * chosen.steps)

    def one(resources: Mapping[str, Any], mesh: Any) -> Any:
        mapped = nx.xmap(named_loss, axis_resources=resources, mesh=mesh)
        placed = nx.shard(params, resources, mesh) if resources else params
        return train(step_of(mapped), placed, [named_data] * chosen.steps)

    # The rules shard every array as in Flax; the last list has the axis names of an array that is
    # created in the body.
    placed_by = {
        title: nx.interop.from_logical_rules(rules, params, named_data, ["batch", "pos", "mlp"])
        for title, rules in RULES.items()
    }
    runs = run_all(
        {title: (MESH if places else {}, places) for title, places in placed_by.items()}, one
    )
    check(runs, 1e-4)
    for title, run in runs.items():
        back = jax.tree.leaves(
            nx.interop.to_flax(run.result, boxed)
        )  # boxed parameters, for Flax's checkpoints and apply
        apart = max(
            float(np.abs(np.asarray(a) - np.asarray(b)).max())
            for a, b in zip(back, jax.tree.leaves(flax.result), strict=True)
        )
        assert apart < 1e-3, (title, apart)
        assert np.allclose(run.numbers, flax.numbers, rtol=1e-4), title
        print(f"{title}: losses equal to Flax, parameters within {apart:.0e}; {placed_by[title]}")
    figure = Figure(figsize=(7, 4))
    draw_curves(figure.subplots(), {"Flax": flax, **runs})
    save(figure, chosen.out)


if __name__ == "__main__":
    main()
