"""Norms of global arrays for optimizers that run in a mapped body, where leaves are blocks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from namedax.core.array import dims_of, is_named
from namedax.core.element_types import to_type
from namedax.core.names import PyTree
from namedax.core.region import ambient
from namedax.interop.matrix_axes import as_wide
from namedax.messages.call_errors import checks_signature
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.pytree import data_of
from namedax.resources import communication as comm
from namedax.resources.padding_masks import masked

__all__ = ["clip_by_global_norm", "global_norm"]


@checks_signature
def global_norm(tree: PyTree) -> jax.Array:
    """Compute the Euclidean norm over all elements of all arrays, also in a mapped body.

    The result equals `optax.global_norm` of the global arrays. In a mapped body, a function of raw
    leaves, such as optax's, gets only blocks. This function sums over the devices.

    Communication: one all-reduce of a scalar for all arrays with the same mesh axes.

    Args:
      tree: a pytree of arrays.

    Returns:
      A scalar of the arrays' common real dtype, but at least float32: squares exceed the range of
      float16. Zero for a tree without arrays.

    >>> import jax.numpy as jnp, namedax as nx
    >>> tree = {"w": nx.named(jnp.array([3.0, 0.0]), ["k"]), "b": jnp.array(4.0)}
    >>> float(nx.interop.global_norm(tree))
    5.0
    """
    region = ambient()
    totals: dict[frozenset[str], Any] = {}
    for leaf in jax.tree.leaves(tree, is_leaf=is_named):
        block = to_local(leaf, "global_norm", region)
        data, names = (
            jnp.asarray(data_of(block)),
            [dim for dim in dims_of(block) if dim is not None],
        )
        places = (
            {}
            if region is None or not region.manual
            else {name: region.place(name) for name in names}
        )
        for dim, name in enumerate(dims_of(block)):
            data = masked(data, dim, places.get(name, ()), 0)
        placed = [axis for axes in places.values() for axis in axes]
        data = as_wide(data)
        square = jnp.sum(
            jnp.square(data.real) + jnp.square(data.imag)
            if jnp.iscomplexobj(data)
            else jnp.square(data)
        )
        axes = frozenset(placed)
        totals[axes] = totals[axes] + square if axes in totals else square
    sums = [comm.psum(total, tuple(sorted(axes))) for axes, total in totals.items()]
    return jnp.sqrt(sum(sums[1:], sums[0])) if sums else jnp.zeros(())


@checks_signature
def clip_by_global_norm(max_norm: float) -> Any:
    """Return an `optax.clip_by_global_norm` for named arrays.

    It scales updates down if their norm exceeds `max_norm`. Chain the gradient transformation with
    others as in optax. Outside of mapped functions its results equal those of optax. In a mapped
    body it uses the norm of global arrays (`global_norm`), and optax the norm of one device's
    blocks.

    Communication: one all-reduce of a scalar for all arrays with the same mesh axes.

    Args:
      max_norm: the maximum norm, a number or a scalar array.

    Returns:
      An `optax.GradientTransformation` without state. Updates keep their dtypes; those of
      integers have float32.

    Raises:
      ImportError: optax is not installed.

    >>> import jax.numpy as jnp, namedax as nx
    >>> clip = nx.interop.clip_by_global_norm(1.0)
    >>> updates = {"w": nx.named(jnp.array([3.0, 0.0]), ["k"]), "b": jnp.array(4.0)}
    >>> clipped, _ = clip.update(updates, clip.init(updates))
    >>> nx.positional(clipped["w"], ["k"]), clipped["b"]
    (Array([0.6, 0. ], dtype=float32), Array(0.8, dtype=float32))
    """
    try:
        import optax
    except ImportError as error:
        raise ImportError(
            "clip_by_global_norm: optax is not installed. Install it with `pip install optax`."
        ) from error

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[Any, Any]:
        norm = global_norm(updates)
        small = norm < max_norm
        factor = jnp.where(small, 1, max_norm / jnp.where(small, 1, norm))

        def scaled(leaf: Any) -> Any:
            wide = as_wide(leaf)
            is_inexact = jnp.issubdtype(leaf.dtype, jnp.inexact)
            done = wide * factor.astype(wide.dtype)
            return to_type(done, leaf.dtype) if is_inexact else done

        return jax.tree.map(scaled, updates, is_leaf=is_named), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
