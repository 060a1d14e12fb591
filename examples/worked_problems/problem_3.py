"""Problem 3: collective matmul, which overlaps the permutes of blocks with computation.

    python examples/worked_problems/problem_3.py

The named program is the program without overlap: the contraction, and the names under which it
reads and writes. `overlap=True` selects the ring.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from figures import make_mesh, place, table
from jax.sharding import NamedSharding, PartitionSpec

import namedax as nx


def all_reduced(a: nx.NamedArray, w: nx.NamedArray, overlap: Any = True) -> nx.NamedArray:
    """1: `A[B_X, D_Y] * W[D_Y, F] -> Out[B_X, F]`; the sum over `d` is replicated over `Y`."""
    return nx.dot(a, w, "d", overlap=overlap)


def scattered(h: nx.NamedArray, w: nx.NamedArray, overlap: Any = True) -> nx.NamedArray:
    """2: `Tmp[B_X, F_Y] * W2[F_Y, D] -> Out[B_X, D_Y]`; the sum over `f` is sharded along `d` over `Y`."""
    return nx.einsum("{b,f},{f,d}->{b,d_y:d}", h, w, overlap=overlap)


def block(
    x: nx.NamedArray, w_in: nx.NamedArray, w_out: nx.NamedArray, overlap: Any = True
) -> nx.NamedArray:
    """3: `In[B_X, D_Y] * W_in[D, F_Y] * W_out[F_Y, D] -> Out[B_X, D_Y]`, with a nonlinearity between the products."""
    h = nx.einsum("{b,d:d_y},{d,f}->{b,f}", x, w_in, overlap=overlap)
    return scattered(nx.nn.gelu(h), w_out, overlap)


# The axis names of the arguments and results, and the layout. `d` is stored in shards as `d_y`.
PROGRAMS: dict[str, tuple[Any, tuple[list[str], ...], list[str], dict[str, str]]] = {
    "all-reduce": (all_reduced, (["b", "d"], ["d", "f"]), ["b", "f"], {"b": "X", "d": "Y"}),
    "reduce-scatter": (
        scattered,
        (["b", "f"], ["f", "d"]),
        ["b", "d_y"],
        {"b": "X", "f": "Y", "d_y": "Y"},
    ),
    "block": (
        block,
        (["b", "d_y"], ["d", "f"], ["f", "d"]),
        ["b", "d_y"],
        {"b": "X", "f": "Y", "d_y": "Y"},
    ),
}
PLAIN: dict[str, Any] = {
    "all-reduce": jnp.matmul,
    "reduce-scatter": jnp.matmul,
    "block": lambda x, w_in, w_out: jax.nn.gelu(x @ w_in) @ w_out,
}


def mapped(name: str, mesh: Any, overlap: Any) -> Any:
    """One of the programs, over positional arrays."""
    function, in_axes, out_axes, resources = PROGRAMS[name]

    def body(*args: nx.NamedArray) -> nx.NamedArray:
        result: nx.NamedArray = function(*args, overlap=overlap)
        return result

    return nx.xmap(body, in_axes, out_axes, axis_resources=resources, mesh=mesh)


def partitioned(name: str, mesh: Any) -> Any:
    """The program without names under `jax.jit`, with the same shardings of arguments and result."""
    _, _, out_axes, resources = PROGRAMS[name]
    return jax.jit(
        PLAIN[name],
        out_shardings=NamedSharding(
            mesh, PartitionSpec(*(resources.get(axis) for axis in out_axes))
        ),
    )


def arguments(name: str, mesh: Any, b: int, d: int, f: int) -> list[jax.Array]:
    """Random sharded arguments."""
    _, in_axes, _, resources = PROGRAMS[name]
    sizes, rng = {"b": b, "d": d, "d_y": d, "f": f}, np.random.default_rng(0)
    arrays = []
    for i, axes in enumerate(in_axes):
        array = rng.normal(size=[sizes[axis] for axis in axes]).astype(np.float32)
        if i:
            array /= np.float32(np.sqrt(array.shape[0]))
        arrays.append(place(mesh, array, *(resources.get(axis) for axis in axes)))
    return arrays


def compare(overlaps: dict[str, Any], b: int, d: int, f: int) -> None:
    """Print the rows of the programs and their gradients, with each kind of overlap and with `jax.jit`."""
    mesh = make_mesh(2, 4)
    for name in PROGRAMS:
        args = arguments(name, mesh, b, d, f)
        programs = {"jax.jit": partitioned(name, mesh)}
        programs |= {
            f"by name, {label}": mapped(name, mesh, overlap) for label, overlap in overlaps.items()
        }
        table(f"{name}: {PROGRAMS[name][0].__doc__.split('`')[1]}", programs, args)
        everything = tuple(range(len(args)))
        gradients = {
            label: jax.grad(lambda *args, program=program: jnp.sum(program(*args) ** 2), everything)
            for label, program in programs.items()
        }
        table("its gradient", gradients, args)


def main(b: int = 512, d: int = 1024, f: int = 2048) -> None:
    """Print the tables."""
    compare({"without overlap": False, "overlap": True}, b, d, f)


if __name__ == "__main__":
    main()
