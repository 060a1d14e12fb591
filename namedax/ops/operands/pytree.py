"""Pytree registration of named arrays: one leaf each, also in exported functions.

As a pytree, an array keeps its dims from the first named one on. Everything before that is
positional, however many dimensions there are. So a transformation that adds or removes a leading
positional dimension (`jax.vmap`, `lax.scan`) works on an array without support for names.
"""

from __future__ import annotations

import ast
import contextlib
import contextvars
import functools
import urllib.parse
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp
from jax import export
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import (
    NamedArray,
    Parts,
    dims_of,
    is_named,
    make_in_region,
    origin_of,
    stored_data,
)
from namedax.core.display import type_text
from namedax.core.names import Dims, PyTree
from namedax.core.padded_sharding import PaddedTail, StoredPadding
from namedax.core.region import Placements, active_regions, ambient, placements_after, record_escape
from namedax.core.user_code import LEAF, Mark, make_transparent, mark_for
from namedax.errors import AxisNameError, AxisSizeError, PositionalAxisError
from namedax.ops.operands.broadcasting import as_block, to_local

__all__ = [
    "array_of",
    "data_of",
    "flatten",
    "names_of",
    "noting_sizes",
    "register",
    "scalar_of",
    "stored_leaf",
    "stored_parts",
    "wide_index",
]

T = TypeVar("T", NamedArray, jax.Array, NamedArray | jax.Array)

# `_noting_anywhere` is not empty while a thread records the sizes of all arrays that it flattens,
# so that other threads can skip the check. `_notes_sizes` is True in such a thread.
_noting_anywhere: set[object] = set()
_notes_sizes: contextvars.ContextVar[bool] = contextvars.ContextVar("notes_sizes", default=False)


@contextlib.contextmanager
def noting_sizes() -> Iterator[None]:
    """Enter a context that rejects an array unflattened with other sizes of its named axes.

    In a mapped body this is always an error.
    """
    token, before = object(), _notes_sizes.set(True)
    _noting_anywhere.add(token)
    try:
        yield
    finally:
        _noting_anywhere.discard(token)
        _notes_sizes.reset(before)


def register() -> None:
    """Register named arrays with JAX as pytrees."""
    make_transparent(__file__)
    jax.tree_util.register_pytree_with_keys(NamedArray, _flatten_with_keys, _unflatten, _flatten)
    export.register_pytree_node_serialization(
        NamedArray,
        serialized_name="namedax.NamedArray",
        serialize_auxdata=_serialize_dims,
        deserialize_auxdata=_deserialize_dims,
    )


class _Tail(tuple[Hashable | None, ...]):
    """The dims of an array flattened in a mapped body or in `noting_sizes`, with axis facts.

    To JAX it is a plain tuple: these facts do not affect the equality of structures.

    Attributes:
      placements: the mesh axes of the body's names; `None` outside bodies.
      sizes: the sizes of these axes, of blocks in a body; `None` if unknown.
      mark: the mark for a leaf with these axes, if a move of a sharded dimension may keep the
        sizes.
    """

    placements: Placements | None
    sizes: tuple[int, ...] | None
    mark: Mark | None


@functools.lru_cache(maxsize=4096)
def _noting(tail: Dims, placements: Placements | None, sizes: tuple[int, ...] | None) -> _Tail:
    noted = _Tail(tail)
    noted.placements, noted.sizes = placements, sizes
    noted.mark = (
        mark_for(tail, sizes, dict(placements)) if placements and sizes is not None else None
    )
    return noted


def _check_sizes(tail: _Tail, data: object) -> None:
    """Raise if an array of other sizes would get the axes of a flattened array.

    JAX may put anything else into a tree.

    Raises:
      AxisSizeError: a named axis had another size.
    """
    if tail.sizes is None or not isinstance(data, jax.Array) or len(data.shape) < len(tail):
        return
    shape = data.shape[len(data.shape) - len(tail) :]
    if shape == tail.sizes:
        return
    for name, before, after in zip(tail, tail.sizes, shape, strict=True):
        if name is not None and before != after:
            raise AxisSizeError(
                f"jax.tree.unflatten: an array with the axes {tuple(tail)} had data of shape"
                f" {tail.sizes} when JAX flattened its tree, and would get data of shape"
                f" {data.shape}: axis {name!r} would have size {after} instead of {before}. A"
                " function of leaves (jax.tree.map, jax.vmap) has moved, sliced or added"
                " dimensions, and does not see their names. Stop at named arrays with"
                " is_leaf=lambda v: isinstance(v, nx.NamedArray), and use functions of namedax"
                " there (nx.transpose, nx.stack, nx.slice)."
            ).about(axis=name, operation="jax.tree.unflatten")


def _within(array: NamedArray) -> tuple[Any, Dims]:
    """Return the leaf and the dims of an array, possibly in a mapped body or in its rules.

    JAX traces rules of derivatives after the body.
    """
    if type(array._tail) is PaddedTail:
        return stored_parts(array)
    region, data, tail = ambient(), array._data, array._tail
    if not tail:
        return data, tail
    if region is None:
        placements = placements_after()
    elif region.manual:
        placements = region.placements
        # An array that the body closes over is global, or the block of an enclosing body. A copy
        # that is made of leaves in the body could not be told from a block of this one, so the leaf
        # of such an array is its block.
        if (
            (origin := origin_of(array)) is not region
            and origin != region
            and isinstance(data, jax.Array)
        ):
            data = to_local(array, "the leaves of a pytree", region)._data
    else:
        placements = None
    notes = isinstance(data, jax.Array) and (
        placements is not None or region is not None or _notes_sizes.get()
    )
    shape = data.shape if notes else ()
    sizes = shape[len(shape) - len(tail) :] if len(shape) >= len(tail) else None
    return data, tail if placements is None and sizes is None else _noting(tail, placements, sizes)


def _flatten_with_keys(array: NamedArray) -> tuple[Any, Dims]:
    # as `_flatten`, without a call for each parameter of a program
    if active_regions or _noting_anywhere:
        data, tail = _within(array)
    elif type(tail := array._tail) is PaddedTail:
        data, tail = stored_parts(array)
    else:
        data = array._data
    return ((_key(tail), data),), tail


@functools.lru_cache(maxsize=4096)
def _key(tail: Dims) -> jax.tree_util.GetAttrKey:
    # The key contains the physical order of several axes. A checkpoint keeps keys and shapes only,
    # and axes of equal size could be confused. Quoted, because it may become a file name.
    order = ",".join("_" if dim is None else urllib.parse.quote(str(dim), safe="") for dim in tail)
    return jax.tree_util.GetAttrKey("data" if len(tail) < 2 else f"data{{{order}}}")


# JAX calls these two for every array of every call, so they take a short path outside mapped
# bodies.


def _flatten(array: NamedArray) -> tuple[Any, Dims]:
    if active_regions or _noting_anywhere:
        data, tail = _within(array)
        return (data,), tail
    tail = array._tail
    if type(tail) is PaddedTail:
        data, tail = stored_parts(array)
        return (data,), tail
    return (array._data,), tail


def stored_parts(array: NamedArray) -> tuple[Any, PaddedTail]:
    """Return the leaf and the dims of an array that is stored padded.

    The dims have the devices of the data, which a trace would not know otherwise.
    """
    data = array._stored
    tail: Any = array._tail
    sharding = None if isinstance(data, jax.core.Tracer) else getattr(data, "sharding", None)
    if type(tail) is PaddedTail and isinstance(sharding, NamedSharding):
        tail = _with_devices(tail, sharding.mesh)
    return data, tail


@functools.lru_cache(maxsize=1024)
def _with_devices(tail: PaddedTail, mesh: Mesh | AbstractMesh) -> PaddedTail:
    if not isinstance(mesh, Mesh) or tuple(mesh.shape.items()) != tail.padding.mesh:
        return tail
    return PaddedTail(tail, tail.padding.replace(devices=mesh))


def _unflatten(tail: Dims, children: Iterable[Any]) -> NamedArray:
    # JAX unflattens with placeholders too, and tree functions with whatever they return. An array
    # whose data has too few dimensions is rejected where it is used (`positions`). Sizes that
    # contradict the recorded ones are rejected here.
    (data,) = children
    if type(tail) is tuple and not active_regions:
        parts: Any = Parts()
        parts._data, parts._tail, parts._block = data, tail, None
        parts.__class__ = NamedArray
        array: NamedArray = parts
        return array
    if type(tail) is PaddedTail:
        parts = Parts()
        parts._stored, parts._tail, parts._block = data, tail, None
        parts.__class__ = NamedArray
        array = parts
        return array
    if type(tail) is _Tail:
        _check_sizes(tail, data)
        if (
            tail.mark is not None
            and isinstance(data, jax.core.Tracer)
            and isinstance(data, jax.Array)
        ):
            in_front = data.ndim - len(tail.mark)
            data = LEAF.bind(data, mark=(*[()] * in_front, *tail.mark)) if in_front >= 0 else data
    array = make_in_region(data, (None,) * (getattr(data, "ndim", 0) - len(tail)) + tuple(tail))
    if type(tail) is _Tail and tail.placements is not None and isinstance(data, jax.core.Tracer):
        record_escape(array, tail.placements)
    return array


# --- exported functions (`jax.export`): the dims are written as a Python literal ------------------


def _serialize_dims(tail: Dims) -> bytes:
    written: Any = tail
    if type(tail) is PaddedTail:
        written = ("padded", tuple(tail), tail.padding.axes, tail.padding.mesh)
    text = repr(written)
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        read = None
    if read != written or repr(read) != text:
        raise AxisNameError(
            f"export: an array with the axes {tail} cannot be part of an exported function; there,"
            " names are strings, numbers, or tuples of these. Rename the axis (nx.rename)."
        )
    return text.encode()


def _deserialize_dims(data: bytes | bytearray) -> Dims:
    read: Any = ast.literal_eval(bytes(data).decode())
    if len(read) == 4 and read[0] == "padded" and type(read[1]) is tuple:
        return PaddedTail(read[1], StoredPadding(*read[2:]))
    dims: Dims = read
    return dims


# --- leaves of pytrees in functions over names ----------------------------------------------------
# Loops, branches and functions of one slice work on the data of such leaves, with their dims
# alongside. This module flattens and rebuilds the leaves.


def flatten(tree: PyTree) -> tuple[list[Any], jax.tree_util.PyTreeDef]:
    """Return the leaves of a pytree, named arrays among them, and its structure."""
    return jax.tree.flatten(tree, is_leaf=is_named)


@overload
def data_of(value: NamedArray) -> jax.Array: ...
@overload
def data_of(value: object) -> Any: ...
def data_of(value: object) -> object:
    """Return the data of a named array; anything else unchanged."""
    return value._data if isinstance(value, NamedArray) else value


def stored_leaf(value: Any) -> Any:
    """Return the data of a named array as stored; anything else unchanged."""
    return stored_data(value) if type(value) is NamedArray else value


def array_of(data: jax.Array, dims: Dims) -> AnyArray:
    """Return `data` with these dims: a named array, if they have a name."""
    return make_in_region(data, dims) if any(dim is not None for dim in dims) else data


def names_of(dims: Dims) -> tuple[Hashable, ...]:
    """Return the names in `dims`."""
    return tuple(dim for dim in dims if dim is not None)


def scalar_of(op: str, what: str, value: ArrayLike) -> AnyArray:
    """Return a predicate or an index, which may have only named axes."""
    value = as_block(value, op)
    if dims_of(value).count(None):
        raise PositionalAxisError(
            f"{op}: the {what} is {type_text(value)}; it may have names, but no positional axes."
            " Name these, or reduce them."
        )
    return value


def wide_index(index: T) -> T:
    """Return an integer array, named or not, of a dtype that can hold every position of an axis.

    JAX adds the size of the axis to a negative index in the dtype of the index, and overflows if
    that is too narrow.
    """
    if not jnp.issubdtype(index.dtype, jnp.integer) or jnp.iinfo(index.dtype).bits >= 32:
        return index
    if isinstance(index, NamedArray):
        return make_in_region(index._data.astype(jnp.int32), index._dims)
    return jnp.asarray(index, jnp.int32)
