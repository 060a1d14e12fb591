"""Operations over some axes of arrays of which another axis has no entries: as in `jnp`, results have the axes that they always have."""

import jax.numpy as jnp
import numpy as np
import pytest

import namedax as nx
from tests.harness import make_mesh

# Of an array with the axes a (8), b (4), e (0) and a positional one (3): what a function gives, and the axes of that.
FUNCTIONS = {
    "quantile": (lambda x: nx.quantile(x, 0.3, ("a", "b")), ["e", None]),
    "median": (lambda x: nx.median(x, ("a", "b")), ["e", None]),
    "argmax": (lambda x: nx.argmax(x, ("a", "b")), ["e", None]),
    "max": (lambda x: nx.max(x, ("a", "b")), ["e", None]),
    "cumsum": (lambda x: nx.numpy.cumsum(x), ["a", "b", "e", None]),
    "argmin of positions": (lambda x: nx.numpy.argmin(x), ["a", "b", "e"]),
    "bincount": (lambda x: nx.bincount(x.astype(int), length=5, axis=("a", "b"), out_axis="n"), ["e", "n", None]),
    "convolve": (lambda x: nx.convolve(x, jnp.array([1.0, -2.0, 0.5]), "same", axis="a"), ["a", "b", "e", None]),
    "segment_sum": (lambda x: nx.segment_sum(x, nx.arange(8, axis="a") % 4, 4, axis="a", out_axis="s"), ["s", "b", "e", None]),
    "all_gather": (lambda x: nx.lax.all_gather(x, "a"), ["b", "e", None, None]),
    "psum": (lambda x: nx.lax.psum(x, "a"), ["b", "e", None]),
    "merge": (lambda x: nx.merge_axes(x, ("a", "b"), "m"), ["m", "e", None]),
    "sort": (lambda x: nx.sort(x, "a"), ["a", "b", "e", None]),
    "attention": (lambda x: nx.nn.dot_product_attention(x, x, x, axis="a", features="b"), ["a", "b", "e", None]),
}
SIZES = {"a": 8, "b": 4, "e": 0, "n": 5, "s": 4, "m": 32}


@pytest.mark.parametrize("resources", [{}, {"a": "x"}, {"a": ("x", "y")}, {"a": "x", "b": "y"}], ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_another_axis_is_empty(function, resources):
    f, axes = FUNCTIONS[function]
    mapped = nx.xmap(f, (["a", "b", "e", None],), axes, axis_resources=resources, mesh=make_mesh((4, 2)))
    have = mapped(jnp.zeros((8, 4, 0, 3)))
    positional = iter((8, 3) if function == "all_gather" else (3,))
    assert have.shape == tuple(next(positional) if name is None else SIZES[name] for name in axes)
    assert np.asarray(have).size == 0
