"""Joining and taking apart along an axis: concatenate, stack, split, flip, tile, repeat, and axes of size 1.

Along a sharded name, blocks of the result are made of rows of a few blocks of the operands; only these rows move (see
`namedax.resources.row_moves.move_rows`). In a mapped function a name keeps the size that it has there: what has another size needs
another name, `out_axis=`. A name that was born in the body has no fixed size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array, LikeArguments
from namedax.core.array import NamedArray, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, check_dims, is_name
from namedax.core.region import ambient
from namedax.core.variance import cast, varying
from namedax.errors import ArgumentTypeError, AxisNameError, AxisSizeError, PositionalAxisError, as_integer, raise_not_found
from namedax.operands.axes import axis_key, resolve_axis
from namedax.operands.broadcasting import align, local_block, settled, wrap
from namedax.operands.nmap import nmap
from namedax.operands.one_axis import Along, along, data_and_dims, finish, position_of, run
from namedax.resources import communication as comm
from namedax.resources.row_moves import move_rows

__all__ = [
    "FUNCTIONS",
    "append",
    "array_split",
    "concatenate",
    "expand_dims",
    "flip",
    "repeat",
    "split",
    "squeeze",
    "stack",
    "tile",
]

Axes = tuple[str, ...]


# --- joining --------------------------------------------------------------------------------------------------------


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
      AxisSizeError: in a mapped function the name has another size than the result, or that does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.named(jnp.array([1, 2]), ["k"]), nx.named(jnp.array([3]), ["k"])
    >>> nx.positional(concatenate([x, y], axis="k"), ["k"])
    Array([1, 2, 3], dtype=int32)
    """
    arrays = _list_of("concatenate", arrays)
    if not is_name(axis):
        if axis is not None:
            position_of("concatenate", arrays[0], axis)  # which says what it is, if it is none
        return nmap(lambda *xs: jnp.concatenate(xs, axis, dtype=dtype))(*arrays)
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
    sites = [along(op, array, axis) for array in arrays]
    region = ambient()
    dtype = jnp.result_type(*(site.data for site in sites)) if dtype is None else dtype
    datas, dims, dim = _broadcast_the_rest(op, arrays, sites)
    datas = [data.astype(dtype) for data in datas]
    sizes = [site.size for site in sites]
    total = sum(sizes)
    joined = Along(op, datas[0], dims, dim, total, sites[0].old, region)
    dims, new = joined.result(out_axis, total)
    old = sites[0].old
    count = joined.blocks(old)
    blocked = bool(old and new) and total % count == 0
    gathered = frozenset(old) - frozenset(new)

    def compute(keep: frozenset[str]) -> Any:
        keep |= frozenset(new)
        if blocked:
            # The blocks of all operands, one behind the other, are one block of a longer axis.
            rows = _rows_of_parts(sizes, count).reshape(count, -1)
            return joined.relaid(move_rows(lax.concatenate(datas, dim), dim, old, rows), old, new, keep)
        whole = [joined.relaid(data, old, (), keep) for data in datas]
        return joined.relaid(lax.concatenate(whole, dim), (), new, keep)

    return finish(compute, dims, gathered)


def _rows_of_parts(sizes: Sequence[int], count: int) -> np.ndarray:
    """Where, in blocks that hold a block of every part, each row of the concatenation is."""
    blocks = np.asarray(sizes) // count
    offsets = np.concatenate([[0], np.cumsum(blocks)])
    rows = []
    for block, offset in zip(blocks, offsets[:-1], strict=True):
        device, row = np.divmod(np.arange(block * count), max(block, 1))
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
        block = local_block(array, op, region)
        data = cast(block, union) if union else site.data
        own = _labels(site.dims)
        order = sorted(range(len(own)), key=lambda i: labels.index(own[i]))
        target = (*sizes[:dim], data.shape[site.dim], *sizes[dim:])
        data = lax.transpose(data, order)
        datas.append(lax.broadcast_in_dim(data, target, [labels.index(own[i]) for i in order]))
    return datas, dims, dim


def append(arr: Any, values: Any, axis: Any = None, *, out_axis: Hashable | None = None) -> LikeArguments:
    """Joins two arrays, as `concatenate([arr, values], axis)` does; `axis=None` flattens the positional axes first.

    >>> import jax.numpy as jnp, namedax as nx
    >>> append(nx.named(jnp.ones((2, 3)), ["a", "k"]), nx.named(jnp.ones(1), ["k"]), "k").named_shape["k"]
    4
    """
    if axis is None:
        return nmap(jnp.append)(arr, values)
    return concatenate([arr, values], axis, out_axis=out_axis)


def stack(arrays: Sequence[Any], axis: Any = 0, out: None = None, dtype: Any = None) -> Array:
    """Joins arrays along a new axis.

    Args:
      arrays: arrays, named or not; they broadcast, by name and by position.
      axis: the name of the new axis, or its position among the positional axes of the result.
      out: must be `None`, as in `jnp.stack`.
      dtype: element type of the result.

    Returns:
      The stacked array. Of a sharded new axis every device keeps its block; nothing is sent.

    Raises:
      AxisNameError: an array has the new axis already.
      AxisSizeError: the new axis has another size in the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.named(jnp.array([1, 2]), ["k"]), nx.named(jnp.array([3, 4]), ["k"])
    >>> stack([x, y], axis="layer").dims
    ('layer', 'k')
    """
    arrays = _list_of("stack", arrays)
    if out is not None:
        raise PositionalAxisError("stack: out= is not supported; JAX arrays are immutable.")
    return run("stack", _stack, (axis,), (dtype,), *arrays)


def _stack(op: str, axes: tuple[Any], dtype: Any, *arrays: Any) -> Any:
    (axis,) = axes
    datas, dims = align(op, *arrays)
    datas = jnp.broadcast_arrays(*datas)
    if not is_name(axis):
        at = _new_place(op, axis, dims)
        return wrap(jnp.stack(datas, at, dtype=dtype), (*dims[:at], None, *dims[at:]))
    return _named_from_front(op, jnp.stack(datas, 0, dtype=dtype), axis, dims)


def _new_place(op: str, axis: Any, dims: Dims) -> int:
    """The physical dimension where a new positional axis comes to stand."""
    places = [i for i, dim in enumerate(dims) if dim is None]
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise PositionalAxisError(f"{op}: axis={axis!r} is neither a position nor a name.")
    if not -len(places) - 1 <= axis <= len(places):
        raise PositionalAxisError(f"{op}: position {axis} is out of range for a result with {len(places) + 1} positional axes.")
    place = int(axis) % (len(places) + 1)
    if place < len(places):
        return places[place]
    return places[-1] + 1 if places else len(dims)


def _named_from_front(op: str, data: Any, name: Hashable, dims: Dims) -> Any:
    """Names the leading dimension of `data`, which every device has whole; `dims` are those of the others."""
    check_dims((name, *dims), op)
    region = ambient()
    if region is not None:
        known = region.sizes.get(name)
        if known is not None and known != data.shape[0]:
            raise AxisSizeError(
                f"{op}: axis {name!r} would have size {data.shape[0]}, but it has size {known} in this mapped function; a "
                "name has one size. "
                "Choose another name."
            )
        region.check_placement(op, [name, *(dim for dim in dims if dim is not None)])
        region.block_size(name, data.shape[0], op)
        if region.placement(name):
            data = comm.cut(data, 0, region.placement(name))
    return wrap(data, (name, *dims))


# --- taking apart ---------------------------------------------------------------------------------------------------


def split(ary: Any, indices_or_sections: Any, axis: Any = 0, *, out_axis: Any = None) -> list[Array]:
    """Cuts an array into parts along one axis.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of equal parts, or the indices where to cut.
      axis: a position or a name.
      out_axis: the name of the axis in the parts, or a list with a name for each; default: `axis`. Needed in a mapped function
        in which `axis` has a fixed size.

    Returns:
      A list of arrays. Along a sharded name, whose parts are sharded too, the rows of all parts move to their blocks together,
      by collective-permutes; an axis whose parts are not sharded is gathered.

    Raises:
      AxisNotFoundError: the array lacks the name.
      AxisSizeError: the parts are not equal, or a part has not the size that its name has in the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> first, second = split(nx.named(jnp.arange(5), ["k"]), [2], "k")
    >>> nx.positional(second, ["k"])
    Array([2, 3, 4], dtype=int32)
    """
    return _split("split", ary, indices_or_sections, axis, out_axis)


def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0, *, out_axis: Any = None) -> list[Array]:
    """Like `split`, for a number of parts that need not be equal: the first ones are larger by one.

    >>> import jax.numpy as jnp, namedax as nx
    >>> [part.named_shape["k"] for part in array_split(nx.named(jnp.arange(5), ["k"]), 2, "k")]
    [3, 2]
    """
    return _split("array_split", ary, indices_or_sections, axis, out_axis)


def _split(op: str, ary: Any, indices_or_sections: Any, axis: Any, out_axis: Any) -> list[Any]:
    where = _where_to_cut(op, indices_or_sections)
    if not is_name(axis):
        data, dims = data_and_dims(op, ary)
        parts = getattr(jnp, op)(data, where, position_of(op, ary, axis))
        return [wrap(part, dims) for part in parts]
    site = along(op, ary, axis)
    cuts = _cuts(op, site, where)
    sizes = [end - begin for begin, end in itertools.pairwise(cuts)]
    names = list(out_axis) if isinstance(out_axis, list) else [out_axis] * len(sizes)
    if len(names) != len(sizes):
        raise AxisNameError(
            f"{op}: out_axis={out_axis!r} has {len(names)} names for {len(sizes)} parts; give one for each, or one for all."
        )
    results = [site.result(name, size) for name, size in zip(names, sizes, strict=True)]
    old, count = site.old, site.blocks(site.old)
    together = bool(old) and all(new and size % count == 0 for (_, new), size in zip(results, sizes, strict=True))
    if together:
        # The blocks of all parts, one behind the other: one exchange for all of them.
        rows = np.argsort(_rows_of_parts(sizes, count)).reshape(count, -1)
        blocks = move_rows(site.data, site.dim, old, rows)
    # Slices of one value that XLA's partitioner cuts, beside another reader of it, end in an internal error of XLA.
    data = settled(site.data, tuple(None if i == site.dim else dim for i, dim in enumerate(site.dims)))
    parts = []
    at = 0
    for (dims, new), (begin, end) in zip(results, itertools.pairwise(cuts), strict=True):

        def compute(keep: frozenset[str], new: Axes = new, begin: int = begin, end: int = end, at: int = at) -> Any:
            keep |= frozenset(new)
            if together:
                part = lax.slice_in_dim(blocks, at, at + (end - begin) // count, axis=site.dim)
                return site.relaid(part, old, new, keep)
            whole = site.relaid(data, old, (), keep)
            return site.relaid(lax.slice_in_dim(whole, begin, end, axis=site.dim), (), new, keep)

        parts.append(finish(compute, dims, frozenset(old) - frozenset(new)))
        at += (end - begin) // count
    return parts


def _where_to_cut(op: str, indices_or_sections: Any) -> int | list[int]:
    what = "indices_or_sections"
    if isinstance(indices_or_sections, NamedArray):
        raise PositionalAxisError(
            f"{op}: {what} is {type_text(indices_or_sections)}; give a number, or a list of indices without names."
        )
    if np.ndim(indices_or_sections) == 0:
        return as_integer(op, what, indices_or_sections)
    return [as_integer(op, f"{what}[{i}]", index) for i, index in enumerate(indices_or_sections)]


def _cuts(op: str, site: Along, indices_or_sections: int | list[int]) -> list[int]:
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count <= 0:
            raise AxisSizeError(f"{op}: {count} parts of axis {site.name!r}; the number of parts is an integer from 1.")
        part, larger = divmod(site.size, count)
        if larger and op == "split":
            raise AxisSizeError(
                f"split: axis {site.name!r} of size {site.size} does not divide into {count} equal parts. Use array_split, or "
                "give the indices where to cut."
            )
        return [i * part + min(i, larger) for i in range(count + 1)]
    inner = [min(max(i + (site.size if i < 0 else 0), 0), site.size) for i in indices_or_sections]
    if inner != sorted(inner):
        raise AxisSizeError(
            f"{op}: the indices {indices_or_sections!r} along axis {site.name!r} of size {site.size} must not decrease."
        )
    return [0, *inner, site.size]


# --- flip, tile, repeat ---------------------------------------------------------------------------------------------


def flip(m: Any, axis: Any = None) -> LikeArguments:
    """Reverses axes.

    Args:
      m: an array, named or not.
      axis: a position, a name, or a tuple of both; `None`: all positional axes.

    Returns:
      An array of the same axes. Along a sharded name: one collective-permute that sends each block to its mirror image.

    Raises:
      AxisNotFoundError: the array lacks a name.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(flip(nx.named(jnp.arange(3), ["k"]), "k"), ["k"])
    Array([2, 1, 0], dtype=int32)
    """
    return run("flip", _flip, axis_key("flip", axis), (), m)


def _flip(op: str, axis: Any, m: Any) -> Any:
    data, dims = data_and_dims(op, m)
    places = resolve_axis(op, m, axis)
    region = ambient()
    data = lax.rev(data, places)
    for place in places:
        mesh_axes = region.placement(dims[place]) if region is not None and region.manual and dims[place] is not None else ()
        if mesh_axes:
            last = region.mesh_axis_size(mesh_axes) - 1  # type: ignore[union-attr]
            data = comm.ppermute(data, mesh_axes, [(d, last - d) for d in range(last + 1)])
    return wrap(data, dims)


def tile(A: Any, reps: Any, *, out_axes: Mapping[Hashable, Hashable] | None = None) -> LikeArguments:
    """Repeats an array as a whole.

    Args:
      A: an array, named or not.
      reps: for the positional axes a number or a tuple, as in `jnp.tile`; for named ones a dict `{"k": 2}`.
      out_axes: new names for named axes, `{"k": "k_tiled"}`; needed in a mapped function in which the name has a fixed size.

    Returns:
      The repeated array. Along a sharded name, rows move to the blocks where they belong, by collective-permutes (or the axis
      is gathered, if its new name is not sharded).

    Raises:
      AxisNotFoundError: the array lacks a name.
      AxisSizeError: in a mapped function the name has another size than the result, or that does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(tile(nx.named(jnp.arange(2), ["k"]), {"k": 2}), ["k"])
    Array([0, 1, 0, 1], dtype=int32)
    """
    if not isinstance(reps, Mapping):
        return nmap(lambda data: jnp.tile(data, reps))(A)
    renamed = dict(out_axes or {})
    for name in renamed:
        if name not in reps:
            raise_not_found("tile", name, f"reps={reps!r}", [key for key in reps if is_name(key)])
    for name, times in reps.items():
        times = as_integer("tile", f"reps[{name!r}]", times, 0)
        site = along("tile", A, name)

        def whole(data: Any, times: int = times, dim: int = site.dim) -> Any:
            return jnp.tile(data, [times if i == dim else 1 for i in range(data.ndim)])

        A = site.remap(renamed.get(name), np.tile(np.arange(site.size), times), 0, whole)
    return A


def repeat(
    a: Any, repeats: Any, axis: Any = None, *, total_repeat_length: int | None = None, out_axis: Hashable | None = None
) -> Array:
    """Repeats single elements along an axis, as `jnp.repeat` does.

    `nx.repeat` is another function: that of einops, which takes a pattern.

    Args:
      a: an array, named or not.
      repeats: a number, or an integer array with one for each element.
      axis: a position or a name; `None`: the flattened positional axes.
      total_repeat_length: as in `jnp.repeat`.
      out_axis: the name of the axis in the result; default: `axis`. Needed in a mapped function in which `axis` has a fixed
        size.

    Returns:
      The repeated array. A number of repetitions along a sharded name, to a name on the same mesh axes, moves nothing. An array
      of them gathers the axis, and so does a new name that is not on the same mesh axes.

    Raises:
      AxisNotFoundError: the array lacks the name.
      AxisSizeError: in a mapped function the name has another size than the result, or that does not divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> nx.positional(repeat(nx.named(jnp.arange(2), ["k"]), 2, "k"), ["k"])
    Array([0, 0, 1, 1], dtype=int32)
    """
    if total_repeat_length is not None:
        total_repeat_length = as_integer("repeat", "total_repeat_length", total_repeat_length, 0)
    known = not isinstance(repeats, (jax.core.Tracer, NamedArray))
    if known:
        repeats = np.asarray(repeats) if np.ndim(repeats) else as_integer("repeat", "repeats", repeats, 0)
    if not known or np.ndim(repeats):
        if not jnp.issubdtype(repeats.dtype, jnp.integer):
            raise ArgumentTypeError(
                f"repeat: the repeats are {type_text(repeats)}; a number of repetitions must be an integer."
            )
    if not is_name(axis):
        if axis is not None:
            position_of("repeat", a, axis)
        if not isinstance(repeats, NamedArray):
            return nmap(lambda data: jnp.repeat(data, repeats, axis, total_repeat_length=total_repeat_length))(a)
        return nmap(lambda data, n: jnp.repeat(data, n, axis, total_repeat_length=total_repeat_length))(a, repeats)
    if isinstance(repeats, NamedArray):
        raise PositionalAxisError(
            f"repeat: repeats is {type_text(repeats)}; along the name {axis!r} it is a number, or an array without names."
        )
    site = along("repeat", a, axis)
    even = known and np.ndim(repeats) == 0 and total_repeat_length is None
    if even:
        size = site.size * int(repeats)
    elif total_repeat_length is not None:
        size = total_repeat_length
    elif known:
        size = int(np.broadcast_to(np.asarray(repeats), (site.size,)).sum())
    else:
        raise AxisSizeError(
            f"repeat: the repeats along axis {axis!r} are known at run time only. Give total_repeat_length, which is the size "
            "of the result."
        )
    dims, new = site.result(out_axis, size)
    old = site.old

    def compute(keep: frozenset[str]) -> Any:
        keep |= frozenset(new)
        if even and old == new:
            return jnp.repeat(site.data, int(repeats), site.dim)
        whole = site.relaid(site.data, old, (), keep)
        if known and total_repeat_length is None:  # the indices are constants
            whole = jnp.take(whole, np.repeat(np.arange(site.size), np.asarray(repeats)), site.dim)
        else:
            whole = jnp.repeat(whole, repeats, site.dim, total_repeat_length=size)
        return site.relaid(whole, (), new, keep)

    return finish(compute, dims, frozenset(old) - frozenset(new))


# --- axes of size 1 -------------------------------------------------------------------------------------------------


def expand_dims(a: Any, axis: Any) -> LikeArguments:
    """Inserts axes of size 1.

    Args:
      a: an array, named or not.
      axis: a name, a position among the positional axes of the result, or a tuple of both.

    Returns:
      The array with the new axes. Moves nothing.

    Raises:
      AxisNameError: the array has the name already.

    >>> import jax.numpy as jnp, namedax as nx
    >>> expand_dims(nx.named(jnp.ones((2, 3)), ["k", None]), (0, "batch")).dims
    ('batch', 'k', None, None)
    """
    entries = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    names = [entry for entry in entries if is_name(entry)]
    data, dims = data_and_dims("expand_dims", a)
    rank = dims.count(None) + len(entries) - len(names)
    places = []
    for entry in entries:
        if is_name(entry):
            continue
        if isinstance(entry, bool) or not isinstance(entry, (int, np.integer)) or not -rank <= entry < rank:
            raise PositionalAxisError(
                f"expand_dims: {entry!r} is neither a name nor a position in a result with {rank} positional axes."
            )
        places.append(int(entry) % rank)
    if len(set(places)) != len(places):
        raise PositionalAxisError(f"expand_dims: a position appears twice in axis={axis!r}.")
    for place in sorted(places):
        at = _new_place("expand_dims", place, dims)
        data, dims = jnp.expand_dims(data, at), (*dims[:at], None, *dims[at:])
    result = wrap(data, dims)
    for name in reversed(names):
        data, dims = data_and_dims("expand_dims", result)
        if name in dims:
            raise AxisNameError(f"expand_dims: {type_text(result)} has the axis {name!r} already. Choose another name.")
        result = _named_from_front("expand_dims", data[None], name, dims)
    return result


def squeeze(a: Any, axis: Any = None) -> Array:
    """Removes axes of size 1.

    Args:
      a: an array, named or not.
      axis: a name, a position, or a tuple of both; `None`: all positional axes of size 1.

    Returns:
      The array without these axes. Moves nothing.

    Raises:
      AxisNotFoundError: the array lacks a name.
      AxisSizeError: an axis has another size.

    >>> import jax.numpy as jnp, namedax as nx
    >>> squeeze(nx.named(jnp.ones((1, 2)), ["batch", "k"]), "batch").dims
    ('k',)
    """
    data, dims = data_and_dims("squeeze", a)
    if axis is None:
        places = tuple(i for i, dim in enumerate(dims) if dim is None and data.shape[i] == 1)
    else:
        places = resolve_axis("squeeze", a, axis)
    for place in places:
        name = dims[place]
        size = data.shape[place] if name is None else along("squeeze", a, name).size
        if size != 1:
            what = f"positional axis {dims[:place].count(None)}" if name is None else f"axis {name!r}"
            raise AxisSizeError(
                f"squeeze: {what} of {type_text(a)} has size {size}; only axes of size 1 can be removed. Reduce it, or index "
                "it."
            )
    return wrap(lax.squeeze(data, places), tuple(dim for i, dim in enumerate(dims) if i not in places))


#: The functions of this module, by their names in `nx.numpy`.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (concatenate, append, stack, split, array_split, flip, tile, repeat, expand_dims, squeeze)
}


def _lax_expand_dims(array: Any, dimensions: Any) -> Array:
    """Inserts axes of size 1, as `nx.numpy.expand_dims`: a position, a name that the array lacks, or a tuple of both."""
    return expand_dims(array, dimensions)


_lax_expand_dims.__name__ = _lax_expand_dims.__qualname__ = "expand_dims"
_lax_expand_dims.__module__ = "namedax.lax"  # where it is found by its name, so that it can be pickled

#: Those that have other parameters in `jax.lax`.
LAX_FUNCTIONS: dict[str, Callable[..., Any]] = {"expand_dims": _lax_expand_dims}
