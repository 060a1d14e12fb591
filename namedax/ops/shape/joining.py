"""Joining along an axis: `concatenate`, `append` and `stack`.

Along a sharded name, blocks of the result are made of rows of a few blocks of the operands; only these rows move (see
`namedax.resources.row_moves.move_rows`). In a mapped function a name keeps the size that it has there: what has a different
size needs another name, `out_axis=`. A name that was created in the body has no fixed size.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array, LikeArguments
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, check_dims, check_name, is_name
from namedax.core.region import ambient
from namedax.core.variance import cast, varying
from namedax.errors import AxisSizeError, PositionalAxisError, format_value
from namedax.operands.axes import refuse_axes_apart, unwrap_single
from namedax.operands.broadcasting import align, make_result, to_local
from namedax.operands.nmap import Lifted, nmap
from namedax.operands.one_axis import Along, along, finish, position_of, run
from namedax.operands.operation import MOVED, Explicit, operation
from namedax.resources import communication as comm

__all__ = ["append", "concatenate", "stack"]

Axes = tuple[str, ...]


# --- joining --------------------------------------------------------------------------------------------------------


@operation(explicit=Explicit.KEPT)
def concatenate(arrays: Sequence[Any], axis: Any = 0, dtype: Any = None, *, out_axis: Hashable | None = None) -> Array:
    """Joins arrays along an axis that they all have.

    Args:
      arrays: arrays, named or not; other names broadcast. Along a name, positional axes broadcast as in arithmetic.
      axis: a position or a name (`None`: the flattened positional axes, as in `jnp.concatenate`).
      dtype: element type of the result.
      out_axis: the name of the joined axis; default: `axis`. Needed in a mapped function in which `axis` has a fixed size.

    Returns:
      The joined array; the sizes of the axis add up. Along a sharded name, whose result is sharded too, rows move to the blocks
      where they belong, by collective-permutes; if the result's name is not sharded, the operands are gathered.

    Raises:
      AxisNotFoundError: an array lacks the name.
      AxisSizeError: in a mapped function the name has a different size than the result, or that does not divide over its mesh
        axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.named(jnp.array([1, 2]), ["k"]), nx.named(jnp.array([3]), ["k"])
    >>> nx.positional(concatenate([x, y], axis="k"), ["k"])
    Array([1, 2, 3], dtype=int32)
    """
    arrays = _list_of("concatenate", arrays)
    refuse_axes_apart("concatenate", (arrays, axis, dtype), 1)
    axis = unwrap_single(axis, dims_of(arrays[0]))
    if not is_name(axis):
        if axis is not None:
            position_of("concatenate", arrays[0], axis)  # which says what it is, if it is none
        return Lifted(lambda *xs: jnp.concatenate(xs, axis, dtype=dtype), "concatenate")(*arrays)
    return run("concatenate", _concatenate, (axis, out_axis), (dtype,), *arrays)


def _list_of(op: str, arrays: Any) -> list[Any]:
    if isinstance(arrays, NamedArray) or not (isinstance(arrays, Sequence) or hasattr(arrays, "ndim")):
        raise PositionalAxisError(f"{op}: the first argument is a list of arrays; got {type_text(arrays)}.")
    several = list(arrays)
    if not several:
        raise PositionalAxisError(f"{op}: the list of arrays is empty; at least one is needed.")
    return several


def _concatenate(op: str, axes: tuple[Any, Any], dtype: Any, *arrays: Any) -> Any:
    axis, out_axis = axes
    sites = [along(op, array, axis, supports_padding=True) for array in arrays]
    region = ambient()
    dtype = jnp.result_type(*(site.data for site in sites)) if dtype is None else dtype
    datas, dims, dim = _broadcast_the_rest(op, arrays, sites)
    datas = [data.astype(dtype) for data in datas]
    sizes = [site.size for site in sites]
    total = sum(sizes)
    joined = Along(op, datas[0], dims, dim, total, sites[0].old, region, supports_padding=True)
    dims, new = joined.result(out_axis, total)
    old = sites[0].old
    count = joined.blocks(old)
    blocked = joined.stays_in_blocks(new, total)
    gathered = frozenset(old) - frozenset(new)

    def compute(keep: frozenset[str]) -> Any:
        keep |= frozenset(new)
        if blocked:
            # The blocks of all operands, one behind the other, are one block of a longer axis.
            return joined.moved(lax.concatenate(datas, dim), rows_of_parts(sizes, count), new, keep)
        whole = [joined.relaid(data, old, (), keep) for data in datas]
        return joined.relaid(lax.concatenate(whole, dim), (), new, keep)

    return finish(compute, dims, gathered)


def rows_of_parts(sizes: Sequence[int], count: int) -> np.ndarray:
    """Where, in blocks that hold a block of every part, each row of the concatenation is."""
    blocks = -(-np.asarray(sizes) // count)
    offsets = np.concatenate([[0], np.cumsum(blocks)])
    rows = []
    for size, block, offset in zip(sizes, blocks, offsets[:-1], strict=True):
        device, row = np.divmod(np.arange(size), max(block, 1))
        rows.append(device * offsets[-1] + offset + row)
    return np.concatenate(rows)


def _labels(dims: Dims) -> list[Hashable]:
    numbers = iter(range(-dims.count(None), 0))
    return [next(numbers) if dim is None else dim for dim in dims]


def _broadcast_the_rest(op: str, arrays: Sequence[Any], sites: Sequence[Along]) -> tuple[list[Any], Dims, int]:
    """Data of all operands with the same dims, equal in size but along the axis of `sites`; the dims, and where the axis is."""
    region = ambient()
    thin = []
    for site in sites:  # `align` broadcasts, and complains about, all other axes
        shape = [n for i, n in enumerate(site.data.shape) if i != site.dim]
        thin.append(make_in_region(jnp.zeros(shape, bool), tuple(dim for i, dim in enumerate(site.dims) if i != site.dim)))
    aligned, rest = align(op, *thin)
    sizes = jnp.broadcast_shapes(*(np.shape(data) for data in aligned))
    first = sites[0]
    before = {label for label in _labels(first.dims)[: first.dim] if label != first.name}
    labels = _labels(rest)
    dim = max((i + 1 for i, label in enumerate(labels) if label in before), default=0)
    labels.insert(dim, first.name)
    dims = (*rest[:dim], first.name, *rest[dim:])
    if region is not None and region.resources:
        region.check_placement(op, [d for d in dims if d is not None])
    union = (
        frozenset[str]().union(*(varying(site.data) for site in sites)) if region is not None and region.manual else frozenset()
    )
    datas = []
    for array, site in zip(arrays, sites, strict=True):
        block = to_local(array, op, region)
        data = cast(block, union) if union else site.data
        own = _labels(site.dims)
        order = sorted(range(len(own)), key=lambda i: labels.index(own[i]))
        target = (*sizes[:dim], data.shape[site.dim], *sizes[dim:])
        data = lax.transpose(data, order)
        datas.append(lax.broadcast_in_dim(data, target, [labels.index(own[i]) for i in order]))
    return datas, dims, dim


@operation(requires_axis=MOVED, explicit=Explicit.KEPT)
def append(arr: Any, values: Any, axis: Any = None, *, out_axis: Hashable | None = None) -> LikeArguments:
    """Joins two arrays, as `concatenate([arr, values], axis)` does.

    `axis=None` flattens the positional axes first; it must be given where all axes have names.

    >>> import jax.numpy as jnp, namedax as nx
    >>> append(nx.named(jnp.ones((2, 3)), ["a", "k"]), nx.named(jnp.ones(1), ["k"]), "k").named_shape["k"]
    4
    """
    if axis is None:
        return nmap(jnp.append)(arr, values)
    return concatenate([arr, values], axis, out_axis=out_axis)


@operation(explicit=Explicit.KEPT)
def stack(arrays: Sequence[Any], axis: Any = 0, out: None = None, dtype: Any = None) -> Array:
    """Joins arrays along a new axis.

    Args:
      arrays: arrays, named or not; they broadcast, by name and by position.
      axis: the name of the new axis, or its position among the positional axes of the result.
      out: must be `None`, as in `jnp.stack`.
      dtype: element type of the result.

    Returns:
      The stacked array. Along a sharded new axis every device keeps its block; nothing is sent.

    Raises:
      AxisNameError: an array has the new axis already.
      AxisSizeError: the new axis has a different size in the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.named(jnp.array([1, 2]), ["k"]), nx.named(jnp.array([3, 4]), ["k"])
    >>> stack([x, y], axis="layer").dims
    ('layer', 'k')
    """
    arrays = _list_of("stack", arrays)
    if out is not None:
        raise PositionalAxisError("stack: out= is not supported; JAX arrays are immutable.")
    if is_name(axis):
        check_name(axis, "stack")
    return run("stack", _stack, (axis,), (dtype,), *arrays)


def _stack(op: str, axes: tuple[Any], dtype: Any, *arrays: Any) -> Any:
    (axis,) = axes
    datas, dims = align(op, *arrays)
    datas = list(jnp.broadcast_arrays(*datas))
    if not is_name(axis):
        at = new_place(op, axis, dims)
        return make_result(jnp.stack(datas, at, dtype=dtype), (*dims[:at], None, *dims[at:]))
    return named_from_front(op, jnp.stack(datas, 0, dtype=dtype), axis, dims)


def new_place(op: str, axis: Any, dims: Dims) -> int:
    """The physical dimension at which a new positional axis is placed."""
    places = [i for i, dim in enumerate(dims) if dim is None]
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise PositionalAxisError(f"{op}: axis={format_value(axis)} is neither a position nor a name.")
    if not -len(places) - 1 <= axis <= len(places):
        raise PositionalAxisError(f"{op}: position {axis} is out of range for a result with {len(places) + 1} positional axes.")
    place = int(axis) % (len(places) + 1)
    if place < len(places):
        return places[place]
    return places[-1] + 1 if places else len(dims)


def named_from_front(op: str, data: Any, name: Hashable, dims: Dims) -> Any:
    """Names the leading dimension of `data`, which every device has whole; `dims` are those of the others."""
    check_dims((name, *dims), op)
    region = ambient()
    if region is not None:
        known = region.sizes.get(name)
        if known is not None and known != data.shape[0]:
            raise AxisSizeError(
                f"{op}: axis {name!r} would have size {data.shape[0]}, but it has size {known} in this mapped function; a name "
                "has one size. Choose another name."
            )
        region.check_placement(op, [name, *(dim for dim in dims if dim is not None)])
        region.block_size(name, data.shape[0], op, supports_padding=True)
        if region.place(name):
            data = comm.cut(data, 0, region.place(name))
    return make_result(data, (name, *dims))
