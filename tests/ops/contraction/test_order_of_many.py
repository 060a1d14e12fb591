"""Contractions of several operands, called again with sizes for which another order is cheaper."""

import numpy as np

import namedax as nx


def product(x, v, w):
    """The product of three matrices."""
    y = nx.einsum("{row,a},{a,b},{b,c}->{row,c}", x, v, w)
    return nx.square(y)


def test_the_axes_of_the_result_do_not_depend_on_earlier_calls():
    # With few rows the cheapest order begins at the rows, with many it multiplies the matrices first.
    rng = np.random.default_rng(0)
    for f in (product, nx.xmap(product)):
        for rows, a, b, c in ((4, 8, 8, 8), (1024, 8, 8, 8), (4, 8, 64, 4), (8, 8, 8, 8)):
            x, v, w = rng.normal(size=(rows, a)), rng.normal(size=(a, b)), rng.normal(size=(b, c))
            y = f(nx.named(x, ["row", "a"]), nx.named(v, ["a", "b"]), nx.named(w, ["b", "c"]))
            np.testing.assert_allclose(nx.positional(y, ["row", "c"]), np.square(x @ v @ w), rtol=2e-3, atol=1e-2)
