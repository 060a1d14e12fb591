"""Join and split arrays along an axis: `concatenate`, `append`, `stack`, `split`.

Along a sharded axis, blocks of the result consist of rows of a few blocks of the operands; only
these rows move (see `namedax.resources.row_moves.move_rows`). In a mapped function a name keeps its
size there, so a result of a different size needs another name, `out_axis=`. A name that was created
in the body has no fixed size.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, LikeArguments
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, DType, MeshAxes, check_dims, check_name, is_name
from namedax.core.padded_sharding import Uneven, plain
from namedax.core.region import ambient
from namedax.core.variance import cast, varying
from namedax.errors import (
    AxisNameError,
    AxisSizeError,
    PositionalAxisError,
    as_integer,
    format_value,
)
from namedax.ops.operands.along_axes import along_axes, checks_axes, names_in
from namedax.ops.operands.axes import reject_axes_apart, unwrap_single
from namedax.ops.operands.broadcasting import align, constrain_sharding, make_result, to_local
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.one_axis import Along, along, data_and_dims, finish, position_of, run
from namedax.ops.operands.operation import MOVED, Explicit, operation
from namedax.ops.operands.pytree import names_of
from namedax.resources import communication as comm
from namedax.resources.mesh import with_one_sharding
from namedax.resources.row_moves import move_rows

__all__ = ["append", "array_split", "concatenate", "lax_concatenate", "split", "stack"]

#: The number of sections, or the split indices.
Sections: TypeAlias = int | Sequence[int] | jax.typing.ArrayLike


@operation(explicit=Explicit.KEPT)
def concatenate(
    arrays: Sequence[Any] | Mapping[Any, Any],
    axis: AxisSpec = 0,
    dtype: DType | None = None,
    *,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Join arrays along an axis that all of them have, or along an axis of each.

    Args:
      arrays: arrays, named or not; other named axes broadcast. Along a named axis, positional axes
        broadcast as in arithmetic. A mapping `{"latent": x, "rope": y}` joins the axis "latent" of
        `x` and the axis "rope" of `y`; it requires `out_axis`, and `nx.split` is the inverse.
      axis: a positional or named axis, by default 0 (`None`: the flattened positional axes, as in
        `jnp.concatenate`). Omit it for a mapping.
      dtype: the dtype of the result, by default the common dtype.
      out_axis: the name of the joined axis; by default `axis`. Required in a mapped function in
        which `axis` has a fixed size.

    Returns:
      The joined array; its size along the axis is the sum of the sizes.

    Communication: along a sharded axis with a sharded result, rows move to their blocks by
    collective-permutes. If the axis of the result is not sharded, the operands are gathered.

    Raises:
      AxisNotFoundError: an array lacks the axis.
      AxisNameError: a mapping without `out_axis`, or with an array that has another axis of the
        mapping too.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.named(jnp.array([1, 2]), ["k"]), nx.named(jnp.array([3]), ["k"])
    >>> nx.positional(nx.concatenate([x, y], axis="k"), ["k"])
    Array([1, 2, 3], dtype=int32)
    >>> z = nx.named(jnp.array([4]), ["m"])
    >>> nx.positional(nx.concatenate({"k": x, "m": z}, out_axis="n"), ["n"])
    Array([1, 2, 4], dtype=int32)
    """
    if isinstance(arrays, Mapping):
        names, operands = _parts(arrays, axis, out_axis)
        axes = (*names, out_axis)
        return run("concatenate", _concatenate, axes, (dtype,), *operands, only_axes=True)
    arrays = _list_of("concatenate", arrays)
    reject_axes_apart("concatenate", (arrays, axis, dtype), 1)
    axis = unwrap_single(axis, dims_of(arrays[0]))
    if not is_name(axis):
        if axis is not None:
            position_of("concatenate", arrays[0], axis)  # raises for an invalid axis
        joined: Callable[..., jax.Array] = jnp.concatenate
        return Lifted(lambda *xs: joined(with_one_sharding(xs), axis, dtype=dtype), "concatenate")(
            *arrays
        )
    axes = (*(axis for _ in arrays), out_axis)
    return run("concatenate", _concatenate, axes, (dtype,), *arrays, only_axes=True)


def _parts(
    arrays: Mapping[Any, Any], axis: AxisSpec, out_axis: Hashable | None
) -> tuple[list[Hashable], list[Any]]:
    """Return the names and the arrays of a mapping whose axes are joined."""
    names, operands = list(arrays), _list_of("concatenate", list(arrays.values()))
    if axis != 0:
        raise AxisNameError(
            f"concatenate: the names {format_value(names)} of the arrays are the axes that are"
            f" joined, and axis={format_value(axis)} is given too. Omit axis."
        )
    if out_axis is None:
        raise AxisNameError(
            f"concatenate: the axes {format_value(names)} are joined to one axis, which needs a"
            " name. Pass out_axis=."
        )
    for name, array in arrays.items():
        others = [other for other in names if other != name and other in dims_of(array)]
        if others:
            raise AxisNameError(
                f"concatenate: the array whose axis {name!r} is joined, {type_text(array)}, has the"
                f" axis {others[0]!r} too, which is joined of another array. Rename one of them."
            )
    return names, operands


def _list_of(op: str, arrays: Any) -> list[Any]:
    if isinstance(arrays, NamedArray) or not (
        isinstance(arrays, Sequence) or hasattr(arrays, "ndim")
    ):
        raise PositionalAxisError(
            f"{op}: the first argument must be a list of arrays, got {type_text(arrays)}. Write"
            f" nx.{op}([x, y], axis)."
        )
    several = list(arrays)
    if not several:
        raise PositionalAxisError(f"{op}: the list of arrays is empty. Pass at least one array.")
    return several


def _concatenate(
    op: str, axes: tuple[Any, ...], dtype: DType | None, *arrays: ArrayLike
) -> AnyArray:
    *names, out_axis = axes
    plans = [
        along(op, array, name, supports_padding=True)
        for array, name in zip(arrays, names, strict=True)
    ]
    region = ambient()
    dtype = jnp.result_type(*(plan.data for plan in plans)) if dtype is None else dtype
    datas, dims, dim = _broadcast_other_axes(op, arrays, plans)
    datas = with_one_sharding([data.astype(dtype) for data in datas])
    sizes = [plan.size for plan in plans]
    total = sum(sizes)
    common = _common_placement(plans)
    joined = Along(op, datas[0], dims, dim, total, common, region, supports_padding=True)
    dims, new = joined.result(out_axis, total)
    count = joined.blocks(common)
    blocked = joined.stays_in_blocks(new, total)
    gathered = frozenset().union(*(plan.old for plan in plans)) - frozenset(new)

    def compute(keep: frozenset[str]) -> jax.Array:
        keep |= frozenset(new)

        def parts(place: MeshAxes) -> jax.Array:
            moved = []
            for data, plan in zip(datas, plans, strict=True):
                to = joined.spread(place, plan.size)
                moved.append(joined.relaid(data, plan.old, to, keep))
            return lax.concatenate(with_one_sharding(moved), dim)

        if blocked:
            # The concatenated blocks of all operands are one block of a longer axis.
            return joined.moved(parts(plain(common)), rows_of_parts(sizes, count), new, keep)
        return joined.relaid(parts(()), (), new, keep)

    return finish(compute, dims, gathered)


def _common_placement(plans: Sequence[Along]) -> MeshAxes:
    """Return the placement to which operands are brought before their blocks are concatenated.

    It is uneven if one of them is.
    """
    sharded = [plan.old for plan in plans if plan.old]
    common = max(sharded, key=sharded.count, default=())
    uneven = (old for old in sharded if old == common and isinstance(old, Uneven))
    return next(uneven, common)


def rows_of_parts(sizes: Sequence[int], count: int) -> np.ndarray:
    """Return the index of each row of the concatenation in blocks of all operands together."""
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


def _broadcast_other_axes(
    op: str, arrays: Sequence[Any], plans: Sequence[Along]
) -> tuple[list[Any], Dims, int]:
    """Broadcast all operands to equal dims and sizes, except along the axis of each plan.

    Return the data, the dims with the name of the first axis, and the dimension of the axes.
    """
    region = ambient()
    thin = []
    for plan in plans:  # `align` broadcasts all other axes, and raises for invalid ones
        shape = [n for i, n in enumerate(plan.data.shape) if i != plan.dim]
        thin.append(
            make_in_region(
                jnp.zeros(shape, bool),
                tuple(dim for i, dim in enumerate(plan.dims) if i != plan.dim),
            )
        )
    aligned, rest = align(op, *thin)
    sizes = jnp.broadcast_shapes(*(np.shape(data) for data in aligned))
    first = plans[0]
    before = {label for label in _labels(first.dims)[: first.dim] if label != first.name}
    labels = _labels(rest)
    dim = max((i + 1 for i, label in enumerate(labels) if label in before), default=0)
    labels.insert(dim, first.name)
    dims = (*rest[:dim], first.name, *rest[dim:])
    if region is not None and region.resources:
        for name in {plan.name for plan in plans}:
            region.check_placement(op, names_of((*rest, name)))
    is_manual = region is not None and region.manual
    # Without the mesh axes of the joined axes, from which the parts are still moved.
    others = [varying(plan.data) - frozenset(plan.old) for plan in plans] if is_manual else []
    union = frozenset[str]().union(*others)
    datas = []
    for array, plan in zip(arrays, plans, strict=True):
        block = to_local(array, op, region)
        data = cast(block, union.union(plan.old)) if is_manual else plan.data
        own = [first.name if label == plan.name else label for label in _labels(plan.dims)]
        order = sorted(range(len(own)), key=lambda i: labels.index(own[i]))
        target = (*sizes[:dim], data.shape[plan.dim], *sizes[dim:])
        data = lax.transpose(data, order)
        if data.shape != target:
            data = lax.broadcast_in_dim(data, target, [labels.index(own[i]) for i in order])
        datas.append(data)
    return datas, dims, dim


@operation(requires_axis=MOVED, explicit=Explicit.KEPT)
def append(
    arr: ArrayLike, values: ArrayLike, axis: AxisSpec = None, *, out_axis: Hashable | None = None
) -> LikeArguments:
    """Append `values` to an array, as `concatenate([arr, values], axis)` does.

    Args:
      arr: an array, named or not.
      values: an array, named or not.
      axis: a positional or named axis; `None` (default) flattens the positional axes first.
        Required if every axis is named.
      out_axis: the name of the joined axis, as for `nx.concatenate`; by default `None`, the same
        name.

    Returns:
      The longer array.

    Communication: as for `nx.concatenate`.

    Raises:
      AxisNotFoundError: an array lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((2, 3)), ["a", "k"])
    >>> nx.append(x, nx.named(jnp.ones(1), ["k"]), "k").named_shape["k"]
    4
    """
    if axis is None:
        return nmap(jnp.append)(arr, values)
    return concatenate([arr, values], axis, out_axis=out_axis)


@operation(explicit=Explicit.KEPT)
def stack(
    arrays: Sequence[Any], axis: AxisSpec = 0, out: None = None, dtype: DType | None = None
) -> AnyArray:
    """Join arrays along a new axis.

    Args:
      arrays: arrays, named or not; they broadcast, by name and by position.
      axis: the name of the new axis, or its index among the positional axes of the result; by
        default 0.
      out: must be `None`, the default, as in `jnp.stack`.
      dtype: the dtype of the result, by default the common dtype.

    Returns:
      The stacked array.

    Communication: none; along a sharded new axis every device keeps its block.

    Raises:
      AxisNameError: an array already has the new axis.
      AxisSizeError: the new axis has a different size in the mapped function.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x, y = nx.named(jnp.array([1, 2]), ["k"]), nx.named(jnp.array([3, 4]), ["k"])
    >>> nx.stack([x, y], axis="layer").dims
    ('layer', 'k')
    """
    arrays = _list_of("stack", arrays)
    if out is not None:
        raise PositionalAxisError("stack: out= is not supported; JAX arrays are immutable.")
    if is_name(axis):
        check_name(axis, "stack")
    return run("stack", _stack, (axis,), (dtype,), *arrays)


def _stack(op: str, axes: tuple[Any], dtype: DType | None, *arrays: ArrayLike) -> AnyArray:
    (axis,) = axes
    datas, dims = align(op, *arrays)
    datas = with_one_sharding(jnp.broadcast_arrays(*datas))
    if not is_name(axis):
        at = new_place(op, axis, dims)
        return make_result(jnp.stack(datas, at, dtype=dtype), (*dims[:at], None, *dims[at:]))
    return named_from_front(op, jnp.stack(datas, 0, dtype=dtype), axis, dims)


def new_place(op: str, axis: object, dims: Dims) -> int:
    """Return the physical dimension for a new positional axis."""
    places = [i for i, dim in enumerate(dims) if dim is None]
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise PositionalAxisError(
            f"{op}: axis must be a positional axis or an axis name, got {format_value(axis)}."
        )
    if not -len(places) - 1 <= axis <= len(places):
        raise PositionalAxisError(
            f"{op}: positional axis {axis} is out of range for a result with {len(places) + 1}"
            " positional axes."
        )
    place = int(axis) % (len(places) + 1)
    if place < len(places):
        return places[place]
    return places[-1] + 1 if places else len(dims)


def named_from_front(op: str, data: jax.Array, name: Hashable, dims: Dims) -> AnyArray:
    """Name the leading dimension of `data`, which is complete on every device.

    `dims` are the dims of the other dimensions.
    """
    check_dims((name, *dims), op)
    region = ambient()
    if region is not None:
        known = region.sizes.get(name)
        if known is not None and known != data.shape[0]:
            raise AxisSizeError(
                f"{op}: axis {name!r} would have size {data.shape[0]}, but it has size {known} in"
                " this mapped function; a name has one size. Choose another name."
            )
        region.check_placement(op, [name, *names_of(dims)])
        region.block_size(name, data.shape[0], op, supports_padding=True)
        if region.place(name):
            data = comm.cut(data, 0, region.place(name))
    return make_result(data, (name, *dims))


@overload
def split(
    ary: ArrayLike,
    indices_or_sections: Sections,
    axis: AxisSpec = 0,
    *,
    out_axis: Hashable | list[Hashable] | None = None,
) -> list[AnyArray]: ...
@overload
def split(
    ary: ArrayLike,
    indices_or_sections: Mapping[Any, int],
    axis: AxisSpec = 0,
) -> dict[Any, AnyArray]: ...
@operation(explicit=Explicit.KEPT, scope=True)
def split(
    ary: ArrayLike,
    indices_or_sections: Sections | Mapping[Any, int],
    axis: AxisSpec = 0,
    *,
    out_axis: Hashable | list[Hashable] | None = None,
) -> list[AnyArray] | dict[Any, AnyArray]:
    """Split an array along one axis.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of equal sections, or the split indices. A mapping
        `{"latent": 512, "rope": 64}` gives the names and the sizes of the axis in the sections.
      axis: a positional or named axis, by default 0; a name for a mapping.
      out_axis: the name of the axis in the sections, or a list with a name for each; by default
        `axis`. Required in a mapped function in which `axis` has a fixed size. Omit it for a
        mapping.

    Returns:
      A list of arrays; for a mapping a dict, as `nx.concatenate` takes it.

    Communication: along a sharded axis with sharded sections, the rows of all sections move to
    their blocks in one exchange, by collective-permutes. If the sections are not sharded, the axis
    is gathered.

    Raises:
      AxisNotFoundError: the array lacks the axis.
      AxisSizeError: the sections are not equal, a section does not have the size of its name in the
        mapped function, or the sizes of a mapping do not add up to the size of the axis.
      AxisNameError: a mapping and `out_axis`, or a mapping for a positional axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.arange(5), ["k"])
    >>> first, second = nx.split(x, [2], "k")
    >>> nx.positional(second, ["k"])
    Array([2, 3, 4], dtype=int32)
    >>> parts = nx.split(x, {"a": 2, "b": 3}, "k")
    >>> nx.positional(parts["b"], ["b"])
    Array([2, 3, 4], dtype=int32)
    """
    if isinstance(indices_or_sections, Mapping):
        names = list(indices_or_sections)
        cuts = _cuts_of_sizes(ary, indices_or_sections, axis, out_axis)
        return dict(zip(names, _split("split", ary, cuts, axis, names), strict=True))
    return _split("split", ary, indices_or_sections, axis, out_axis)


@operation(explicit=Explicit.KEPT, scope=True)
def array_split(
    ary: ArrayLike,
    indices_or_sections: Sections,
    axis: AxisSpec = 0,
    *,
    out_axis: Hashable | list[Hashable] | None = None,
) -> list[AnyArray]:
    """Split an array as `split` does, also unequally: the first sections are larger by one.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of sections, or the split indices.
      axis: a positional or named axis, by default 0.
      out_axis: the name of the axis in the sections, or a list with a name for each, as for
        `nx.split`; by default `None`, the same name.

    Returns:
      A list of arrays.

    Communication: as for `nx.split`.

    Raises:
      AxisNotFoundError: the array lacks the axis.

    >>> import jax.numpy as jnp, namedax as nx
    >>> [part.named_shape["k"] for part in nx.array_split(nx.named(jnp.arange(5), ["k"]), 2, "k")]
    [3, 2]
    """
    return _split("array_split", ary, indices_or_sections, axis, out_axis)


def _cuts_of_sizes(
    ary: ArrayLike, sizes: Mapping[Any, Any], axis: AxisSpec, out_axis: object
) -> list[int]:
    """Return the split indices for named sections."""
    axis = unwrap_single(axis, dims_of(ary))
    if out_axis is not None or not is_name(axis):
        excess = f"axis={format_value(axis)} is not a name"
        if out_axis is not None:
            excess = f"out_axis={format_value(out_axis)} is given too"
        raise AxisNameError(
            f"split: the sections have the names {format_value(list(sizes))}, but {excess}. Pass"
            " the name of the axis that is split, and no out_axis."
        )
    counts = {name: as_integer("split", f"the size of {name!r}", n) for name, n in sizes.items()}
    total = along("split", ary, axis, supports_padding=True).size
    if sum(counts.values()) != total or min(counts.values(), default=0) < 0:
        raise AxisSizeError(
            f"split: the sizes {format_value(counts)} must not be negative and must add up to"
            f" {total}, the size of axis {axis!r}."
        )
    return list(itertools.accumulate(counts.values()))[:-1]


def _split(
    op: str,
    ary: ArrayLike,
    indices_or_sections: Sections,
    axis: AxisSpec,
    out_axis: Hashable | list[Hashable] | None,
) -> list[Any]:
    where, axis = _check_sections(op, indices_or_sections), unwrap_single(axis, dims_of(ary))
    if not is_name(axis):
        data, dims = data_and_dims(op, ary)
        parts = getattr(jnp, op)(data, where, position_of(op, ary, axis))
        return [make_result(part, dims) for part in parts]
    plan = along(op, ary, axis, supports_padding=True)
    cuts = _split_points(op, plan, where)
    sizes = [end - begin for begin, end in itertools.pairwise(cuts)]
    names = list(out_axis) if isinstance(out_axis, list) else [out_axis] * len(sizes)
    if len(names) != len(sizes):
        raise AxisNameError(
            f"{op}: out_axis={format_value(out_axis)} has {len(names)} names for {len(sizes)}"
            " parts. Pass one for each, or one for all."
        )
    results = [plan.result(name, size) for name, size in zip(names, sizes, strict=True)]
    old, count = plan.old, plan.blocks(plan.old)
    together = (
        bool(old)
        and not isinstance(old, Uneven)
        and all(new and size % count == 0 for (_, new), size in zip(results, sizes, strict=True))
    )
    if together:
        # The blocks of all sections are concatenated: one exchange for all of them.
        rows = np.argsort(rows_of_parts(sizes, count)).reshape(count, -1)
        blocks = move_rows(plan.data, plan.dim, old, rows)
    # Slices of one value that XLA's partitioner shards, next to another use of it, cause an
    # internal error of XLA.
    data = constrain_sharding(
        plan.data, tuple(None if i == plan.dim else dim for i, dim in enumerate(plan.dims))
    )
    parts = []
    at = 0
    for (dims, new), (begin, end) in zip(results, itertools.pairwise(cuts), strict=True):

        def compute(
            keep: frozenset[str],
            new: MeshAxes = new,
            begin: int = begin,
            end: int = end,
            at: int = at,
        ) -> jax.Array:
            keep |= frozenset(new)
            if together:
                part = lax.slice_in_dim(blocks, at, at + (end - begin) // count, axis=plan.dim)
                return plan.relaid(part, old, new, keep)
            whole = plan.relaid(data, old, (), keep)
            return plan.relaid(lax.slice_in_dim(whole, begin, end, axis=plan.dim), (), new, keep)

        parts.append(finish(compute, dims, frozenset(old) - frozenset(new)))
        at += (end - begin) // count
    return parts


def _check_sections(op: str, indices_or_sections: Any) -> int | list[int]:
    what = "indices_or_sections"
    if isinstance(indices_or_sections, NamedArray):
        raise PositionalAxisError(
            f"{op}: {what} must be a number or a list of indices without named axes, got"
            f" {type_text(indices_or_sections)}."
        )
    if np.ndim(indices_or_sections) == 0:
        return as_integer(op, what, indices_or_sections)
    return [as_integer(op, f"{what}[{i}]", index) for i, index in enumerate(indices_or_sections)]


def _split_points(op: str, plan: Along, indices_or_sections: int | list[int]) -> list[int]:
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count <= 0:
            raise AxisSizeError(
                f"{op}: the number of parts of axis {plan.name!r} must be a positive integer, got"
                f" {count}."
            )
        part, larger = divmod(plan.size, count)
        if larger and op == "split":
            raise AxisSizeError(
                f"split: axis {plan.name!r} of size {plan.size} does not divide into {count} equal"
                " parts. Use array_split, or pass the split indices."
            )
        return [i * part + min(i, larger) for i in range(count + 1)]
    inner = [min(max(i + (plan.size if i < 0 else 0), 0), plan.size) for i in indices_or_sections]
    if inner != sorted(inner):
        raise AxisSizeError(
            f"{op}: the indices {format_value(indices_or_sections)} along axis {plan.name!r} of"
            f" size {plan.size} must not decrease."
        )
    return [0, *inner, plan.size]


_positional_concatenate = along_axes(lax.concatenate, "concatenate", ("dimension",))


@functools.partial(checks_axes, name="concatenate")
def lax_concatenate(operands: Sequence[ArrayLike], dimension: AxisSpec) -> AnyArray:
    """Concatenate arrays along a positional or named axis, as `jax.lax.concatenate`.

    Args:
      operands: a sequence of arrays, named or not.
      dimension: a positional or named axis.

    Communication: along a named axis, as for `nx.concatenate`.

    Raises:
      AxisNotFoundError: an array lacks the name.
    """
    if names_in(dimension):
        return concatenate(operands, dimension)
    return _positional_concatenate(operands, dimension)
