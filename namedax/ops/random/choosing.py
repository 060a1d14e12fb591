"""Draws along an axis of an array: categories, permutations, elements."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.core.annotations import AnyArray, ArrayLike, EitherArray
from namedax.core.array import NamedArray, as_array, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import is_name
from namedax.core.region import ambient
from namedax.errors import (
    AxisNotFoundError,
    NamedAxesLeftError,
    PositionalAxisError,
    format_value,
    raise_not_found,
    reject_names,
    show_names,
)
from namedax.ops.collectives.gathering import gather_entries
from namedax.ops.elementwise import apply_elementwise
from namedax.ops.indexing.take import take
from namedax.ops.operands.axes import unwrap_single
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.operation import operation
from namedax.ops.random.drawing import (
    OutSharding,
    Sizes,
    draw,
    gather_last,
    global_sizes,
    names_of,
    reject_sharding,
    sharding_argument,
    sizes_of,
    spread_parameter,
    with_names_of,
    wrap_drawn,
)
from namedax.ops.reduction.reductions import REDUCTIONS

__all__ = ["categorical", "choice", "permutation"]


def _check_position(op: str, x: ArrayLike, axis: int, rank: int) -> None:
    if not -rank <= axis < rank:
        raise PositionalAxisError(
            f"{op}: axis {axis} is out of range for {type_text(x)}. Write the name of the axis if"
            " it has one."
        )


@operation(scope=True)
def categorical(
    key: EitherArray,
    logits: ArrayLike,
    axis: Any = -1,
    shape: Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: OutSharding | None = None,
    named_shape: Mapping[Hashable, int] | None = None,
) -> AnyArray:
    """Draw indices along an axis of `logits` with the probabilities `softmax(logits, axis)`.

    Args:
      key: a key, or a named array of keys.
      logits: unnormalized log probabilities, named or not.
      axis: the axis of the categories, named or positional; by default -1.
      shape: as in `jax.random.categorical`: the positional shape of the result, which ends with the
        shape of `logits` without `axis`; by default that shape.
      replace: if `True` (default), one instance can draw a category several times.
      mode: as in `jax.random.categorical`; by default `None`.
      named_shape: the sizes of additional axes to draw along; by default none.
      out_sharding: as in `jax.random.categorical`, for arrays without named axes; by default
        `None`.

    Returns:
      Integers with the axes of `named_shape` and of `logits`. The numbers equal
      `jax.random.categorical` for an array with the named axes in front and, if `axis` is a name,
      the categories last. The names of `named_shape` come first in the given order, then the
      others, sorted.

    Communication: every device adds its block of the noise to its block of the logits, and
    contributes its best category. Over sharded categories this costs two all-reduces of the result,
    otherwise nothing. Without replacement the logits are gathered.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> from namedax import random
    >>> logits = nx.named(jnp.log(jnp.array([[1.0, 0, 0], [0, 0, 1.0]])), ["batch", "classes"])
    >>> nx.positional(random.categorical(jax.random.key(0), logits, "classes"), ["batch"])
    Array([0, 2], dtype=int32)
    """
    reject_names("categorical", logits)
    sizes = sizes_of("categorical", named_shape)
    if not sizes and not isinstance(key, NamedArray) and not isinstance(logits, NamedArray):
        return jax.random.categorical(
            key, logits, axis, shape, replace, mode, **sharding_argument(out_sharding)
        )
    reject_sharding("categorical", out_sharding)
    logits = as_array(logits, "categorical")
    axis = unwrap_single(axis, dims_of(logits))
    by_name = is_name(axis)
    positional = tuple(logits.shape)
    if by_name:
        own = global_sizes("categorical", logits)
        if axis not in own:
            raise_not_found("categorical", axis, type_text(logits), list(own))
        count, batch = own[axis], positional
    else:
        _check_position("categorical", logits, axis, len(positional))
        axis = axis % len(positional) - len(positional)
        count, batch = positional[axis], tuple(np.delete(positional, axis))
    full = batch if shape is None else tuple(int(n) for n in shape)
    if full[len(full) - len(batch) :] != np.broadcast_shapes(
        full[len(full) - len(batch) :], batch
    ) or len(full) < len(batch):
        raise PositionalAxisError(
            f"categorical: shape {full} does not end with {batch}, the positional shape of the"
            " logits without the categories."
        )
    if not replace:
        return _categorical_without_replacement(
            key, logits, axis if by_name else None, axis, full, batch, mode, sizes
        )
    names = with_names_of(sizes, logits, key, axis if by_name else None)
    at = len(full) if by_name else len(full) + 1 + axis
    noise = draw(
        "categorical",
        lambda key, shape: jax.random.gumbel(key, shape, logits.dtype, mode=mode),
        key,
        names,
        (*full[:at], count, *full[at:]),
        last=axis if by_name else None,
    )
    return REDUCTIONS["argmax"](apply_elementwise("categorical", jnp.add, noise, logits), axis)


def _categorical_without_replacement(
    key: EitherArray,
    logits: EitherArray,
    name: Hashable | None,
    axis: Any,
    full: tuple[int, ...],
    batch: tuple[int, ...],
    mode: str | None,
    sizes: Sizes,
) -> AnyArray:
    op = "categorical"
    of_key = names_of(to_local(key, op, ambient()))
    own = list(with_names_of({}, logits, key, name))
    samples = [n for n in sizes if n not in own and n not in of_key]
    prefix = full[: len(full) - len(batch)]

    # Transpose the dimensions: names of the logits, their positional axes, the categories.
    if name is not None:
        logits = (
            make_in_region(*gather_last(logits, name)) if isinstance(logits, NamedArray) else logits
        )
    else:
        logits = nmap(lambda x: jnp.moveaxis(x, axis, -1))(logits)
    wanted = with_names_of({}, logits, key)
    spread = (
        spread_parameter(logits, op, of_key, list(wanted), len(batch) + 1)
        if isinstance(logits, NamedArray)
        else logits
    )

    def one(key: jax.Array, logits: jax.Array) -> jax.Array:
        shape = (*(sizes[n] for n in samples), *prefix, *logits.shape[:-1])
        return jax.random.categorical(key, logits, -1, shape, False, mode)

    result = nmap(one)(key, spread)
    data, front = (
        (result._data, names_of(result)) if isinstance(result, NamedArray) else (result, [])
    )
    dims = [*front, *samples, *(None,) * len(prefix), *wanted]
    dims += [None] * (data.ndim - len(dims))
    region = ambient()
    if region is not None and region.resources:
        region.check_placement(op, [dim for dim in dims if dim is not None])
    return wrap_drawn(data, dims, len(front))


@operation(scope=True)
def permutation(
    key: EitherArray,
    x: ArrayLike,
    axis: Any = 0,
    independent: bool = False,
    *,
    out_sharding: OutSharding | None = None,
) -> AnyArray:
    """Permute `x` randomly along an axis.

    Args:
      key: a key, or a named array of keys: one permutation for each.
      x: an array, named or not, or an integer `n` for the numbers below `n`.
      axis: a positional or named axis, by default 0. For an integer `x`, a name becomes the axis of
        the result.
      independent: if `True`, every slice along `axis` is permuted independently, as in
        `jax.random.permutation`. The permuted array then has the named axes in front, sorted. By
        default `False`.
      out_sharding: as in `jax.random.permutation`, for arrays without named axes; by default
        `None`.

    Returns:
      An array of the same type. Unless `independent`, all instances have the same permutation,
      `jax.random.permutation(key, size)`.

    Communication: along a sharded axis the permutation is not known at compile time, so it costs
    one reduce-scatter of the complete axis. With `independent` the array is gathered.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> from namedax import random
    >>> x = nx.named(jnp.arange(4), ["batch"])
    >>> sorted(nx.positional(random.permutation(jax.random.key(0), x, "batch"), ["batch"]).tolist())
    [0, 1, 2, 3]
    """
    op = "permutation"
    axis = unwrap_single(axis, dims_of(x))
    by_name = is_name(axis)
    if not by_name and not isinstance(key, NamedArray) and not isinstance(x, NamedArray):
        return jax.random.permutation(key, x, axis, independent, **sharding_argument(out_sharding))
    reject_sharding(op, out_sharding)
    if not isinstance(x, NamedArray) and np.ndim(x) == 0:
        count = x
        last = axis if by_name else None
        return draw(op, lambda key, _: jax.random.permutation(key, count), key, {}, (), last=last)
    if independent:
        return _permute_slices(key, x, axis)
    if not by_name:
        return Lifted(lambda key, x: jax.random.permutation(key, x, axis), op)(key, x)
    sizes = global_sizes(op, x)
    if axis not in sizes:
        raise_not_found(op, axis, type_text(x), list(sizes))
    if axis in names_of(key):
        raise AxisNotFoundError(
            f"{op}: the key has the axis {format_value(axis)}, the permuted axis; a permutation"
            " needs one key for the complete axis."
        )
    order = nmap(lambda key: jax.random.permutation(key, sizes[axis]))(key)
    data, names = (order._data, order._dims) if isinstance(order, NamedArray) else (order, (None,))
    index = make_in_region(data, (*names[:-1], axis))
    return gather_entries(op, as_array(to_local(x, op, ambient())), index, axis, whole=True)


def _permute_slices(key: AnyArray, x: ArrayLike, axis: Any) -> AnyArray:
    op = "permutation"
    x = to_local(x, op, ambient())
    dims = dims_of(x)
    names = list(with_names_of({}, x, key))
    rank = dims.count(None)
    if is_name(axis) and axis not in names:
        raise_not_found(op, axis, type_text(x), names)
    if not is_name(axis):
        _check_position(op, x, axis, rank)
    at = names.index(axis) if is_name(axis) else len(names) + axis % rank
    if not isinstance(x, NamedArray):
        return draw(op, lambda key, shape: jax.random.permutation(key, x, at, True), key, {}, ())
    return draw(
        op,
        lambda key, shape, x: jax.random.permutation(key, x, at, True),
        key,
        {},
        (),
        {"x": x},
        rank=rank,
    )


@operation(scope=True)
def choice(
    key: EitherArray,
    a: ArrayLike,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: Any = 0,
    mode: str | None = None,
    *,
    named_shape: Mapping[Hashable, int] | None = None,
) -> AnyArray:
    """Draw random elements of `a` along an axis, or random numbers below `a`.

    Args:
      key: a key, or a named array of keys.
      a: an array, named or not, or an integer.
      shape: the positional shape to draw, by default `()`. It replaces a positional `axis`, or
        precedes the positional axes of `a` if `axis` is a name.
      replace: if `True` (default), an element can be drawn several times.
      p: probabilities along `axis`, with that name or one positional axis; by default all equal.
      axis: a positional or named axis, by default 0.
      mode: as in `jax.random.choice`; by default `None`.
      named_shape: the sizes of the named axes to draw along, by default none. It may contain
        `axis`: a resampled axis.

    Returns:
      `a` at the indices `jax.random.choice(key, size, sizes + shape, replace, p)`. Axes of `a` in
      `named_shape` are batch axes.

    Communication: along a sharded axis every device reads its own elements, and one all-reduce of
    the result combines them. It is one reduce-scatter if `named_shape` contains the axis itself.
    `a` is not gathered, but `p` is.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> from namedax import random
    >>> x = nx.named(jnp.arange(6).reshape(3, 2), ["batch", "k"])
    >>> y = random.choice(jax.random.key(0), x, axis="batch", named_shape={"batch": 5})
    >>> y.named_shape["batch"]
    5
    """
    op = "choice"
    sizes = sizes_of(op, named_shape)
    if (
        not sizes
        and not isinstance(key, NamedArray)
        and not isinstance(a, NamedArray)
        and not isinstance(p, NamedArray)
    ):
        return jax.random.choice(key, a, shape, replace, p, axis, mode)
    is_count = not isinstance(a, NamedArray) and np.ndim(a) == 0
    by_name = is_name(axis)
    count: Any
    if is_count:
        count = a
    elif by_name:
        own = global_sizes(op, a)
        if axis not in own:
            raise_not_found(op, axis, type_text(a), list(own))
        count = own[axis]
    else:
        positional = tuple(a.shape) if isinstance(a, NamedArray) else np.shape(a)
        _check_position(op, a, axis, len(positional))
        count = positional[axis]
    if isinstance(p, NamedArray):
        if by_name and axis in names_of(p):
            p = make_in_region(*gather_last(p, axis))
            p = p if names_of(p) else p._data
        left = [name for name in names_of(p) if name not in names_of(key)]
        if left:
            raise NamedAxesLeftError(
                f"{op}: the probabilities have the axes {show_names(left)}, which the key lacks."
                " Pass a key for each (random.split with named_shape), or use"
                " random.categorical(key, log(p), axis)."
            )
    parameters = {"p": p} if isinstance(p, NamedArray) else {}
    given = None if isinstance(p, NamedArray) else p

    def call(
        key: jax.Array, shape: tuple[int, ...], p: jax.typing.ArrayLike | None = given
    ) -> jax.Array:
        return jax.random.choice(key, count, shape, replace, p, mode=mode)

    index = draw(op, call, key, sizes, tuple(shape), parameters)
    if is_count:
        return index
    if not by_name:
        return take(a, index, axis)
    return gather_entries(op, as_array(to_local(a, op, ambient())), index, axis)
