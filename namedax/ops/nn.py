"""Functions of neural networks: activations, and softmax over names. The namespace `nx.nn`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from namedax.ops import kernels
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.reductions import Site, log_sum_exp_parts, reduction_site

__all__ = ["ACTIVATIONS", "log_softmax", "softmax"]


def _activation(name: str) -> Callable[..., Any]:
    function = getattr(jax.nn, name)
    parameters = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        # Arguments that are numbers or arrays may be named; flags (`approximate`) are static.
        bound = dict(zip(parameters, args, strict=False)) | kwargs
        static = tuple((k, v) for k, v in bound.items() if isinstance(v, bool))
        arrays = tuple(k for k, v in bound.items() if not isinstance(v, bool))

        def impl(*values: Any) -> Any:
            return apply_elementwise(
                name, lambda *xs: function(**dict(zip(arrays, xs, strict=True)), **dict(static)), *values
            )

        return kernels.run_elementwise((name, arrays, static), impl, *(bound[k] for k in arrays))

    lifted.__module__ = __name__
    lifted.__doc__ = (
        f"{(inspect.getdoc(function) or '').split(chr(10) * 2)[0].strip()}\n\nThe named version of `jax.nn.{name}`, with the same "
        "arguments; array arguments may have named axes and broadcast by name.\nMoves no data between devices."
    )
    return lifted


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    name: _activation(name)
    for name in (
        "relu relu6 sigmoid softplus sparse_plus sparse_sigmoid soft_sign silu swish log_sigmoid leaky_relu hard_sigmoid hard_silu "
        "hard_swish hard_tanh elu celu selu gelu squareplus mish tanh"
    ).split()
    if hasattr(jax.nn, name)
}


def _normalised(op: str, x: Any, axis: Any, where: Any, local: Callable[..., Any], sharded: Callable[[Site], Any]) -> Any:
    axis = tuple(axis) if isinstance(axis, list) else axis

    def impl(x: Any, *mask: Any) -> Any:
        # Reduced with `axis`, but nothing goes: the result has the axes of the argument.
        site = reduction_site(op, x, axis, False, *mask)
        if not site.mesh_axes:
            data = local(site.data, axis=site.axes, where=site.where)
        else:
            data = sharded(site)
        return site.finish_whole(data)

    return kernels.run((op, axis), impl, *((x,) if where is None else (x, where)))


def softmax(x: Any, axis: Any = -1, *, where: Any = None) -> Any:
    """Softmax over a position, a name, or a tuple of both: the entries are positive and add up to 1.

    Args:
      x: an array, named or not.
      axis: what to normalise over.
      where: a boolean array, named or not; where it is false the result is 0 and the entry does not count.

    Over a sharded name: two all-reduces of the reduced size, for the maximum and for the sum.

    Raises:
      AxisNotFoundError: `x` lacks the name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(nx.nn.softmax(nx.named(jnp.zeros(4), ["k"]), "k"), ["k"])
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    def sharded(site: Site) -> Any:
        _, terms, total = log_sum_exp_parts(site)
        return terms / total

    return _normalised("softmax", x, axis, where, jax.nn.softmax, sharded)


def log_softmax(x: Any, axis: Any = -1, *, where: Any = None) -> Any:
    """Logarithm of `softmax`, without overflow. Arguments and costs as there; where `where` is false the result is `-inf`.

    >>> import jax.numpy as jnp, namedax as nx
    >>> round(float(nx.nn.log_softmax(nx.named(jnp.zeros(4), ["k"]), "k").data[0]), 4)
    -1.3863
    """

    def sharded(site: Site) -> Any:
        shift, _, total = log_sum_exp_parts(site)
        data = site.data if site.where is None else jnp.where(site.where, site.data, -jnp.inf)
        return data - shift - jnp.log(total)

    return _normalised("log_softmax", x, axis, where, jax.nn.log_softmax, sharded)


