"""What an eager operation on small named arrays costs, as a multiple of the plain `jnp` call.

python benchmarks/eager.py
"""

import jax
import jax.numpy as jnp
from timing import interleaved

import namedax as nx


def main() -> None:
    """Prints one line per operation."""
    x, y, v = jnp.ones((8, 16)), jnp.ones((16, 4)), jnp.ones((8,))
    nx_x, nx_y = nx.named(x, ["batch", "k"]), nx.named(y, ["k", "m"])
    nx_v, w = nx.named(v, ["batch"]), jnp.ones((16,))
    nx_w = nx.named(w, ["k"])
    cases = {
        "x + y, same dims": (lambda: x + x, lambda: nx_x + nx_x),
        "x + v, broadcast": (lambda: x + v[:, None], lambda: nx_x + nx_v),
        "x + w, which jnp broadcasts by itself": (lambda: x + w, lambda: nx_x + nx_w),
        "x * 2.0": (lambda: x * 2.0, lambda: nx_x * 2.0),
        "exp(x)": (lambda: jnp.exp(x), lambda: nx.exp(nx_x)),
        "sum(x, batch)": (lambda: jnp.sum(x, axis=0), lambda: nx.sum(nx_x, "batch")),
        "x.sum(batch)": (lambda: x.sum(0), lambda: nx_x.sum("batch")),
        "max(x, k)": (lambda: jnp.max(x, axis=1), lambda: nx.max(nx_x, "k")),
        "dot against jnp.einsum": (lambda: jnp.einsum("bk,km->bm", x, y), lambda: nx.dot(nx_x, nx_y, "k")),
        "dot against x @ y": (lambda: x @ y, lambda: nx.dot(nx_x, nx_y, "k")),
        "einsum": (
            lambda: jnp.einsum("bk,km->bm", x, y),
            lambda: nx.einsum("{batch,k},{k,m}->{batch,m}", nx_x, nx_y),
        ),
    }
    print(f"jax {jax.__version__}: microseconds per call, and the ratio")
    for name, (plain, named) in cases.items():
        times = interleaved({"jnp": plain, "namedax": named}, rounds=40, calls=200)
        ratio = times["namedax"] / times["jnp"]
        print(f"{name:48s} jnp {times['jnp'] * 1e6:7.1f}   namedax {times['namedax'] * 1e6:7.1f}   ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
