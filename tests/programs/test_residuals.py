"""What is kept between the forward and the backward pass: not more than a program by hand keeps, which broadcasts within an operation."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

import namedax as nx
from tests.harness import PLACEMENTS, Placement, array, kept, make_mesh

# Operations on x[a, b, c] and y[b], by name and as one writes them in jnp, where y has size 1 along what it lacks.
OPERATIONS = {
    "multiply": (lambda x, y: x * y, lambda x, y: x * y),
    "divide": (lambda x, y: x / y, lambda x, y: x / y),
    "divide by the larger": (lambda x, y: y / x, lambda x, y: y / x),
    "power": (lambda x, y: nx.exp(x) ** y, lambda x, y: jnp.exp(x) ** y),
    "arctan2": (nx.arctan2, jnp.arctan2),
    "logaddexp": (nx.logaddexp, jnp.logaddexp),
    "a product of three": (lambda x, y: y * nx.sin(y) * x, lambda x, y: y * jnp.sin(y) * x),
    "an activation": (lambda x, y: nx.nn.silu(x) * y, lambda x, y: jax.nn.silu(x) * y),
    "scaled after a norm": (
        lambda x, y: nx.nn.rms_norm(x, "c", scale=y),
        lambda x, y: x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6) * y,
    ),
}


def by_hand(plain, placement: Placement, axes):
    """A positional function under `jax.shard_map`, or `jax.jit` where nothing is mapped; `axes` are those of the arguments and of the result."""
    if placement.shape is None:
        return jax.jit(plain)
    place = dict(placement.resources)
    *ins, out = [PartitionSpec(*(place.get(name) for name in names)) for names in axes]
    return jax.jit(jax.shard_map(plain, mesh=make_mesh(placement.shape), in_specs=tuple(ins), out_specs=out))


@pytest.mark.fast(1)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_no_more_than_by_hand(placement: Placement):
    x, y = array(8, 4, 3), jnp.abs(array(4, seed=1)) + 0.5
    for operation, (named, plain) in OPERATIONS.items():
        mapped = nx.xmap(named, (["a", "b", "c"], ["b"]), ["a", "b", "c"], **placement.options)
        rival = by_hand(plain, placement, ("abc", ("b", None), "abc"))
        with placement.context():
            own = kept(mapped, x, y)
        assert own <= kept(rival, x, y[:, None]), operation


def test_eager_named_arrays():
    x, y = array(8, 4, 3), jnp.abs(array(4, seed=1)) + 0.5
    for operation, (named, plain) in OPERATIONS.items():
        of_names = kept(named, nx.named(x, ["a", "b", "c"]), nx.named(y, ["b"]))
        assert of_names <= kept(plain, x, y[:, None]), operation


@pytest.mark.fast(2)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_a_stack_of_layers(placement: Placement):
    x, scale, weights = array(8, 4, 3), array(5, 3, seed=1), array(5, 3, 3, seed=2)

    def named(x, scale, weights):
        def layer(x, p):
            h = nx.nn.rms_norm(x, "c", scale=p[0])
            return x + nx.rename(nx.dot(h, p[1], "c"), {"d": "c"}), None

        return nx.scan(layer, x, (scale, weights))[0]

    @jax.custom_jvp
    def normalised(x):
        return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)

    @normalised.defjvp
    def _(primals, tangents):
        (x,), (tangent,) = primals, tangents
        factor = jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        result = x * factor
        return result, factor * (tangent - result * (tangent * result).mean(-1, keepdims=True))

    def plain(x, scale, weights):
        return jax.lax.scan(lambda x, p: (x + normalised(x) * p[0] @ p[1], None), x, (scale, weights))[0]

    mapped = nx.xmap(named, (["a", "b", "c"], [None, "c"], [None, "c", "d"]), ["a", "b", "c"], **placement.options)
    rival = by_hand(plain, placement, ("abc", (None, "c"), (None, "c", "d"), "abc"))
    with placement.context():
        own = kept(mapped, x, scale, weights)
    assert own <= kept(rival, x, scale, weights)
