"""Train a Flax model's parameters by name, placed by four lists of logical axis rules, and compare with Flax itself.

    python examples/flax_model.py

Flax makes the parameters, with logical names on their axes. `nx.interop.from_flax` makes named arrays of them, and
`nx.interop.from_logical_rules` makes `axis_resources` of the rules that a Flax or MaxText program has. The forward pass is written by name once.
Under every list of rules the loss curve is that of the Flax module itself on one device, and so are the parameters at the end.
"""

from gallery import check, draw_curves, options, run_all, save, train  # isort: skip - says how many devices there are

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import namedax as nx

MESH = {"data": 4, "model": 2}
TENSOR = [("mlp", "model"), ("vocab", "model")]
RULES = {  # in order of precedence; the features of parameters are `embed_p`, those of activations `embed`
    "one device": [],
    "data parallel": [("batch", ("data", "model"))],
    "data and tensor": [("batch", "data"), *TENSOR],
    "FSDP and tensor": [("batch", "data"), ("embed_p", "data"), *TENSOR],
}


def dense(features, *names):
    """A dense layer whose kernel has these names; its bias has the last."""
    kernel = nn.with_logical_partitioning(nn.initializers.lecun_normal(), names)
    bias = nn.with_logical_partitioning(nn.initializers.zeros, names[1:])
    return nn.Dense(features, kernel_init=kernel, bias_init=bias, name=names[-1])


class Model(nn.Module):
    """Tokens to the logits of the next ones: a table, a hidden layer, a projection."""

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
    """The same by name; `embed_p` is read as `embed`, which gathers it where it is spread."""
    x = nx.take(nx.rename(p["table"], {"embed_p": "embed"}), tokens, "vocab")
    x = x + nx.roll(x, 1, "pos")
    hidden = nx.nn.gelu(nx.einsum("{embed},{embed:embed_p,mlp}->{mlp}", x, p["mlp"]["kernel"]) + p["mlp"]["bias"])
    logits = nx.dot(hidden, p["out"]["kernel"], "mlp") + p["out"]["bias"]
    return nx.mean(nx.nn.softmax_cross_entropy(logits, targets, "out"), ("batch", "pos"))


def step_of(loss):
    """One step of gradient descent."""

    def step(params, tokens, targets):
        value, gradient = jax.value_and_grad(loss)(params, tokens, targets)
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient), value

    return step


def main() -> None:
    """Trains with Flax, and by name under every list of rules; compares, and draws."""
    chosen = options(__doc__, "flax_model", steps=40)
    key = jax.random.key(0)
    ids = jnp.cumsum(jax.random.randint(key, (32, 9), 0, 3), axis=1) % 12  # what comes next depends on what was
    data = ids[:, :-1], ids[:, 1:]
    named_data = nx.named(data, ["batch", "pos"])
    boxed = Model().init(key, data[0])["params"]
    params = nx.interop.from_flax(boxed)
    flax = train(step_of(flax_loss), nn.meta.unbox(boxed), [data] * chosen.steps)

    def one(resources: Mapping[str, Any], mesh: Any) -> Any:
        mapped = nx.xmap(named_loss, axis_resources=resources, mesh=mesh)
        placed = nx.shard(params, resources, mesh) if resources else params
        return train(step_of(mapped), placed, [named_data] * chosen.steps)

    # The rules place every array as Flax would; the last list says which names meet in an array that is born in the body.
    placed_by = {
        title: nx.interop.from_logical_rules(rules, params, named_data, ["batch", "pos", "mlp"])
        for title, rules in RULES.items()
    }
    runs = run_all({title: (MESH if places else {}, places) for title, places in placed_by.items()}, one)
    check(runs, 1e-4)
    for title, run in runs.items():
        back = jax.tree.leaves(nx.interop.to_flax(run.result, boxed))  # Flax's boxes, for its checkpoints and its apply
        apart = max(
            float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(back, jax.tree.leaves(flax.result), strict=True)
        )
        assert apart < 1e-3, (title, apart)
        assert np.allclose(run.numbers, flax.numbers, rtol=1e-4), title
        print(f"{title}: losses as Flax's own, parameters within {apart:.0e} of them; {placed_by[title]}")
    figure = Figure(figsize=(7, 4))
    draw_curves(figure.subplots(), {"Flax": flax, **runs})
    save(figure, chosen.out)


if __name__ == "__main__":
    main()
