"""Functions of JAX on a mesh with an axis that the layout does not map: as without a mesh, with their gradients.

JAX 0.12 asserts in these, since they contain `jnp.searchsorted`, in a `jax.shard_map` over a part of the mesh axes.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import namedax as nx
from namedax.errors import RawBlockError
from tests import make

EDGES = np.array([0.25, 0.5, 0.75], np.float32)
ROWS = make.asarray(np.random.default_rng(0).uniform(0, 1, (4, 3)), jnp.float32)
MATRICES = make.asarray(np.random.default_rng(1).normal(size=(4, 3, 3)), jnp.float32)

FUNCTIONS = {
    "digitize": (lambda x: nx.numpy.digitize(x, jnp.asarray(EDGES)), ROWS),
    "interp": (lambda x: nx.numpy.interp(x, jnp.asarray(EDGES), jnp.asarray(EDGES**2)), ROWS),
    "histogram2d": (lambda x: nx.numpy.histogram2d(x, x * x, bins=2)[0], ROWS),
    "histogramdd": (lambda x: nx.numpy.histogramdd(x[:, None], bins=2)[0], ROWS),
    "expm": (nx.scipy.linalg.expm, MATRICES),
    "expm_frechet": (lambda x: nx.scipy.linalg.expm_frechet(x, x)[1], MATRICES),
    "nmap": (nx.nmap(lambda row: jnp.searchsorted(jnp.asarray(EDGES), row) * row), ROWS),
}
KINDS = list(itertools.product((AxisType.Auto, AxisType.Explicit), repeat=2))


@pytest.mark.fast(0)
@pytest.mark.full(1)
@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name, place, kinds):
    function, data = FUNCTIONS[name]
    x = nx.named(data, ["k", ...])
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4], axis_types=kinds)

    def loss(x):
        y = function(x)
        return nx.sum(y * jnp.cos(jnp.arange(y.size)).reshape(y.shape) if y.ndim else y * 1.5, ...)

    def run(f, x):
        if place == "inside":
            return nx.xmap(f, axis_resources={"k": "x"}, mesh=mesh)(x)
        with jax.set_mesh(mesh):
            return jax.jit(f)(nx.shard(x, {"k": "x"}, mesh))

    np.testing.assert_allclose(run(function, x).data, function(x).data, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(jax.grad(loss), x).data, jax.grad(loss)(x).data, rtol=1e-3, atol=1e-4)


def test_raw_functions_on_leaves_say_so():
    if jax.__version_info__ < (0, 12):
        pytest.skip("JAX 0.10.2 has another searchsorted")
    mesh = jax.make_mesh((2, 2), ("x", "y"), devices=jax.devices()[:4], axis_types=(AxisType.Auto,) * 2)
    f = nx.xmap(lambda x: nx.named(jnp.digitize(x.data, jnp.asarray(EDGES)), ["k", ...]), axis_resources={"k": "x"}, mesh=mesh)
    with pytest.raises(RawBlockError, match=r"searchsorted.*nx\.nmap"):
        f(nx.named(ROWS, ["k", ...]))
