"""The cost of an eager operation on small named arrays, as a multiple of the plain `jnp` call.

python benchmarks/eager.py

The benchmark measures processor time of the calling thread. The plain call, the named call and the
plain call again alternate; the last one is the noise.
"""

import time

import jax
import jax.numpy as jnp
from timing import interleaved

import namedax as nx


def cases():
    """Pairs of functions, the plain call and the named call, by operation."""
    x, y, v, w = jnp.ones((8, 16)), jnp.ones((16, 4)), jnp.ones((8,)), jnp.ones((16,))
    mask, at = x > 0, jnp.array([2, 0, 1])
    nx_x, nx_y, nx_v, nx_w = (
        nx.named(a, d)
        for a, d in ((x, ["batch", "k"]), (y, ["k", "m"]), (v, ["batch"]), (w, ["k"]))
    )
    nx_mask, nx_at = nx.named(mask, ["batch", "k"]), nx.named(at, ["pick"])
    nx_p = nx.named(x, [None, "k"])
    spec, nx_spec = "bk,km->bm", "{batch,k},{k,m}->{batch,m}"
    return {
        "`x + y`, equal dims": (lambda: x + x, lambda: nx_x + nx_x),
        "`x + w`, broadcasting that `jnp` does by itself": (lambda: x + w, lambda: nx_x + nx_w),
        "`x + v`, broadcasting that needs `v[:, None]` in `jnp`": (
            lambda: x + v[:, None],
            lambda: nx_x + nx_v,
        ),
        "`x * 2.0`": (lambda: x * 2.0, lambda: nx_x * 2.0),
        "`x == y`": (lambda: x == x, lambda: nx_x == nx_x),
        "`x > 0`": (lambda: x > 0, lambda: nx_x > 0),
        "`where(mask, x, 0.0)`": (
            lambda: jnp.where(mask, x, 0.0),
            lambda: nx.where(nx_mask, nx_x, 0.0),
        ),
        "`sum(x, axis)`": (lambda: jnp.sum(x, axis=0), lambda: nx.sum(nx_x, "batch")),
        "`x.sum(axis)`": (lambda: x.sum(0), lambda: nx_x.sum("batch")),
        "`max(x, axis)`": (lambda: jnp.max(x, axis=1), lambda: nx.max(nx_x, "k")),
        "`mean(x, axis)`": (lambda: jnp.mean(x, axis=1), lambda: nx.mean(nx_x, "k")),
        "`exp(x)`": (lambda: jnp.exp(x), lambda: nx.exp(nx_x)),
        "`-x`": (lambda: -x, lambda: -nx_x),
        "`einsum` against `jnp.einsum`": (
            lambda: jnp.einsum(spec, x, y),
            lambda: nx.einsum(nx_spec, nx_x, nx_y),
        ),
        "`dot` against `jnp.einsum`": (
            lambda: jnp.einsum(spec, x, y),
            lambda: nx.dot(nx_x, nx_y, "k"),
        ),
        "`dot` against `jnp.tensordot`": (
            lambda: jnp.tensordot(x, y, 1),
            lambda: nx.dot(nx_x, nx_y, "k"),
        ),
        "`dot` against `x @ y`": (lambda: x @ y, lambda: nx.dot(nx_x, nx_y, "k")),
        "`dot` against `jnp.dot`": (lambda: jnp.dot(x, y), lambda: nx.dot(nx_x, nx_y, "k")),
        "`x[axis, 3]`": (lambda: x[:, 3], lambda: nx_x["k", 3]),
        "`x[3]`, by position": (lambda: x[3], lambda: nx_p[3]),
        "`x[axis, 1:4]`": (lambda: x[:, 1:4], lambda: nx_x["k", 1:4]),
        "`x[axis, indices]`": (lambda: x[:, at], lambda: nx_x["k", nx_at]),
        "`take(x, indices, axis)`": (
            lambda: jnp.take(x, at, axis=1),
            lambda: nx.take(nx_x, nx_at, "k"),
        ),
        "`softmax(x, axis)`": (lambda: jax.nn.softmax(x, axis=1), lambda: nx.nn.softmax(nx_x, "k")),
    }


def main() -> None:
    """Print a table, one line per operation."""
    print(f"jax {jax.__version__}\n\n| operation | `jnp`, µs | ratio | noise |\n|---|---|---|---|")
    for name, (plain, named) in cases().items():
        times = interleaved(
            {"jnp": plain, "namedax": named, "again": plain},
            rounds=60,
            calls=200,
            clock=time.thread_time,
        )
        ratio, noise = times["namedax"] / times["jnp"], times["again"] / times["jnp"]
        print(f"| {name} | {times['jnp'] * 1e6:.1f} | {ratio:.2f} | {noise:.2f} |", flush=True)


if __name__ == "__main__":
    main()
