"""The cost of tracing a 24-layer named MLP, as a multiple of the same model in plain `jnp`.

    python benchmarks/tracing.py

Both are traced by `jax.jit(jax.grad(f)).trace`, with cold caches in every round. The named model
runs directly on named parameters, and under `xmap` without a mesh and with the batch sharded.
`xmap` is a `jax.jit`, and a `shard_map` with a sharded batch, so they are compared with `jnp` under
the same transformations. The times are processor time, so that other programs on the machine do not
change the ratios.
"""

import os
import time

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from timing import interleaved

import namedax as nx

LAYERS, WIDTH, BATCH = 24, 64, 32
P = jax.sharding.PartitionSpec


def plain_loss(params, x):
    """The model over positional axes."""
    for w, b in params:
        x = jax.nn.relu(x @ w + b)
    return jnp.mean(x)


def named_loss(params, x):
    """The model over named axes; layers alternate between two names, so that no axis is renamed."""
    names = ("even", "odd")
    for i, (w, b) in enumerate(params):
        x = nx.nn.relu(nx.dot(x, w, names[i % 2]) + b)
    return nx.mean(x, ("batch", names[LAYERS % 2]))


def main() -> None:
    """Print the times and their ratios."""
    weights = [(jnp.ones((WIDTH, WIDTH)), jnp.ones((WIDTH,))) for _ in range(LAYERS)]
    x = jnp.ones((BATCH, WIDTH))
    names = [("even", "odd") if i % 2 == 0 else ("odd", "even") for i in range(LAYERS)]
    axes = [(list(pair), [pair[1]]) for pair in names]
    named_weights = [
        (nx.named(w, a), nx.named(b, c)) for (w, b), (a, c) in zip(weights, axes, strict=True)
    ]
    named_x = nx.named(x, ["batch", "even"])
    mesh = jax.make_mesh((jax.device_count(),), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def trace(f, *args):
        # A new function each time, so that JAX's caches have only the entries of its own library.
        return lambda: (jax.jit(jax.grad(lambda *a: f(*a))).trace(*args), 0)[1]

    def mapped(**options):
        return lambda *a: nx.xmap(
            lambda *b: named_loss(*b), in_axes=(axes, ["batch", "even"]), out_axes=[], **options
        )(*a)

    def sharded(params, x):
        body = lambda params, x: jax.lax.pmean(plain_loss(params, x), "x")  # noqa: E731
        return jax.shard_map(body, mesh=mesh, in_specs=(P(), P("x")), out_specs=P())(params, x)

    def jitted(f):
        return lambda *a: jax.jit(lambda *b: f(*b))(*a)

    rivals = {
        "jnp": trace(plain_loss, weights, x),
        "named arrays": trace(named_loss, named_weights, named_x),
        "jnp in jit": trace(jitted(plain_loss), weights, x),
        "xmap, nothing mapped": trace(mapped(), weights, x),
        "jnp in jit of shard_map": trace(jitted(sharded), weights, x),
        "xmap, batch sharded": trace(mapped(axis_resources={"batch": "x"}, mesh=mesh), weights, x),
    }
    times = interleaved(rivals, rounds=25, clock=time.process_time)
    print(
        f"jax {jax.__version__}: milliseconds of processor time to trace value and gradient of"
        f" {LAYERS} layers"
    )
    for name, base in (
        ("jnp", "jnp"),
        ("named arrays", "jnp"),
        ("jnp in jit", "jnp in jit"),
        ("xmap, nothing mapped", "jnp in jit"),
        ("jnp in jit of shard_map", "jnp in jit of shard_map"),
        ("xmap, batch sharded", "jnp in jit of shard_map"),
    ):
        print(
            f"{name:24s} {times[name] * 1e3:7.2f}   ratio to {base}:"
            f" {times[name] / times[base]:.2f}"
        )


if __name__ == "__main__":
    main()
