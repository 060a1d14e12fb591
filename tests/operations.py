"""The table that a new operation goes into: a row is run in the placements of the harness, with its gradient, and on arguments that arrive sharded.

A row has the operation on `x`, with the names `a` (size 8) and `b` (size 4), the same in positions on an array of shape (8, 4), and the axes
of the result. What has more to it (arguments of its own, collectives to count, errors) has tests of its own, too.
"""

import jax
import jax.numpy as jnp
import numpy as np

import namedax as nx
from tests import make

IDS = make.array([5, 1, 1])
TAPS = make.array([1.0, 2.0, 3.0])
ANGLES = np.arange(4) * 10.0 ** -np.arange(4)[:, None]
TURN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)

OPERATIONS = {
    "sum": (lambda x: nx.sum(x**2, "a"), lambda x: (x**2).sum(0), ["b"]),
    "softmax": (lambda x: nx.nn.softmax(x, "a"), lambda x: jax.nn.softmax(x, 0), ["a", "b"]),
    "rope": (
        lambda x: nx.nn.rope(x, nx.arange(x.named_shape["b"], axis="b"), "a"),
        lambda x: jnp.concatenate([TURN[0] * x[:4] - TURN[1] * x[4:], TURN[0] * x[4:] + TURN[1] * x[:4]]),
        ["a", "b"],
    ),
    "stack": (lambda x: nx.stack([x, nx.cos(x)], axis="q"), lambda x: jnp.stack([x, jnp.cos(x)], 2), ["a", "b", "q"]),
    "concatenate": (
        lambda x: nx.concatenate([x, 2 * x], "a", out_axis="q"),
        lambda x: jnp.concatenate([x, 2 * x]),
        ["q", "b"],
    ),
    "concatenate_parts": (
        lambda x: nx.concatenate({"a": x, "p": 2 * nx.rename(x, {"a": "p"})}, out_axis="q"),
        lambda x: jnp.concatenate([x, 2 * x]),
        ["q", "b"],
    ),
    "split_parts": (
        lambda x: nx.subtract(*map(lambda y, n: nx.rename(y, {n: "q"}), nx.split(x, {"r": 4, "s": 4}, "a").values(), "rs")),
        lambda x: x[:4] - x[4:],
        ["q", "b"],
    ),
    "where": (
        lambda x: nx.where(nx.arange(axis="a") > 3, x, nx.arange(axis="a") * 1.0),
        lambda x: jnp.where(jnp.arange(8)[:, None] > 3, x, jnp.arange(8.0)[:, None]),
        ["a", "b"],
    ),
    "at": (lambda x: x.at["a", 2].set(3.0), lambda x: x.at[2].set(3.0), ["a", "b"]),
    "sort": (lambda x: nx.sort(x, "a"), lambda x: jnp.sort(x, 0), ["a", "b"]),
    "sort_by": (lambda x: nx.sort_by(x, x * x, "a"), lambda x: jnp.take_along_axis(x, jnp.argsort(x * x, 0), 0), ["a", "b"]),
    "top_k": (lambda x: nx.top_k(x, 2, axis="a")[0], lambda x: jax.lax.top_k(x.T, 2)[0], ["b", None]),
    "roll": (lambda x: nx.roll(x, 3, "a"), lambda x: jnp.roll(x, 3, 0), ["a", "b"]),
    "take": (lambda x: nx.take(x, IDS, "a"), lambda x: x[IDS], [None, "b"]),
    "index": (lambda x: x["a", 5], lambda x: x[5], ["b"]),
    "cumsum": (lambda x: nx.cumsum(x, "a"), lambda x: jnp.cumsum(x, 0), ["a", "b"]),
    "split_axis": (lambda x: nx.split_axis(x, "a", {"p": 2, "q": 4}), lambda x: x.reshape(2, 4, 4), ["p", "q", "b"]),
    "scan": (
        lambda x: nx.scan(lambda c, e: (c + e, c * e), nx.zeros(()), x, axis="a")[1],
        lambda x: (jnp.cumsum(x, 0) - x) * x,
        ["a", "b"],
    ),
    "fold": (
        lambda x: nx.fold(lambda c, e: 0.5 * c + e, nx.zeros(()), x, axis="a"),
        lambda x: (0.5 ** jnp.arange(7, -1, -1)) @ x,
        ["b"],
    ),
    "dot": (lambda x: nx.dot(x, nx.sin(x), "a"), lambda x: (x * jnp.sin(x)).sum(0), ["b"]),
    "einsum": (lambda x: nx.einsum("{a,b},{a,other:b}->{b,other}", x, nx.sin(x)), lambda x: x.T @ jnp.sin(x), ["b", "other"]),
    "segment_sum": (
        lambda x: nx.segment_sum(x, nx.arange(axis="a") % 2, 2, axis="a", out_axis="q"),
        lambda x: x.reshape(4, 2, 4).sum(0),
        ["q", "b"],
    ),
    "group_reduce": (
        lambda x: nx.group_reduce(x, [0, 1] * 4, "a", "max", out_axis="q"),
        lambda x: x.reshape(4, 2, 4).max(0),
        ["q", "b"],
    ),
    "rolling_reduce": (
        lambda x: nx.rolling_reduce(x, "a", size=2, reduction="sum", min_count=1),
        lambda x: x + jnp.pad(x, ((1, 0), (0, 0)))[:-1],
        ["a", "b"],
    ),
    "median": (lambda x: nx.median(x, "a"), lambda x: jnp.median(x, 0), ["b"]),
    "convolve": (
        lambda x: nx.convolve(x, TAPS, "same", axis="a"),
        lambda x: jax.vmap(lambda column: jnp.convolve(column, TAPS, "same"), 1, 1)(x),
        ["a", "b"],
    ),
}
