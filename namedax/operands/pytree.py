"""A named array as a pytree with one leaf, and in exported functions.

As a pytree an array remembers its dims from the first named one on. Everything before that is positional, however many
dimensions there are. That is why a transform that adds or strips a leading positional dimension (`jax.vmap`, `lax.scan`) works
on an array without knowing of it.
"""

from __future__ import annotations

import ast
import functools
import urllib.parse
from collections.abc import Hashable, Iterable
from typing import Any

import jax
from jax import export

from namedax.core.array import NamedArray, Parts, make_in_region, origin_of
from namedax.core.names import Dims
from namedax.core.region import Placements, ambient, inhabited, note_left, placements_after
from namedax.errors import AxisNameError
from namedax.operands.broadcasting import local_block

__all__ = ["register"]


def register() -> None:
    """Tells JAX how named arrays are taken apart and put together."""
    jax.tree_util.register_pytree_with_keys(NamedArray, _flatten_with_keys, _unflatten, _flatten)
    export.register_pytree_node_serialization(
        NamedArray,
        serialized_name="namedax.NamedArray",
        serialize_auxdata=_serialize_dims,
        deserialize_auxdata=_deserialize_dims,
    )


class _Tail(tuple[Hashable | None, ...]):
    """The dims of an array that was taken apart in a mapped body, which notes where the body's names live.

    To JAX it is a tuple like others: what an array remembers makes no difference between structures.
    """

    placements: Placements


@functools.lru_cache(maxsize=4096)
def _noting(tail: Dims, placements: Placements) -> _Tail:
    noted = _Tail(tail)
    noted.placements = placements
    return noted


def _within(array: NamedArray) -> tuple[Any, Dims]:
    """The leaf and the dims of an array that may be taken apart in a mapped body, or in a rule that is traced after one."""
    region, data, tail = ambient(), array._data, array._tail
    if region is None:
        placements = placements_after() if tail else None
    elif region.manual:
        placements = region.placements if tail else None
        # What a body closes over is whole, or the block of a surrounding body; a copy that is made of leaves in the body could not be
        # told from a block of this one, so the leaf of such an array is its block.
        if (origin := origin_of(array)) is not region and origin != region and isinstance(data, jax.Array):
            data = local_block(array, "the leaves of a pytree", region)._data
    else:
        return data, tail
    return data, tail if placements is None else _noting(tail, placements)


def _flatten_with_keys(array: NamedArray) -> tuple[Any, Dims]:
    data, tail = _within(array) if inhabited else (array._data, array._tail)
    return ((_key(tail), data),), tail


@functools.lru_cache(maxsize=4096)
def _key(tail: Dims) -> jax.tree_util.GetAttrKey:
    # The key says the physical order where there is one to say: a checkpoint keeps keys and shapes only, and axes of equal size
    # could be taken for one another. Quoted, because it may become the name of a file.
    order = ",".join("_" if dim is None else urllib.parse.quote(str(dim), safe="") for dim in tail)
    return jax.tree_util.GetAttrKey("data" if len(tail) < 2 else f"data{{{order}}}")


# JAX calls these two for every array of every call, so they come to the point where nobody is in a mapped body.


def _flatten(array: NamedArray) -> tuple[Any, Dims]:
    if inhabited:
        data, tail = _within(array)
        return (data,), tail
    return (array._data,), array._tail


def _unflatten(tail: Dims, children: Iterable[Any]) -> NamedArray:
    # JAX unflattens with placeholders too, and tree functions with whatever they return: no check belongs here.
    # An array whose data does not fit its dims is refused where it is used (`positions`).
    (data,) = children
    if type(tail) is tuple and not inhabited:
        parts: Any = Parts()
        parts._data, parts._tail, parts._casts = data, tail, None
        parts.__class__ = NamedArray
        array: NamedArray = parts
        return array
    array = make_in_region(data, (None,) * (getattr(data, "ndim", 0) - len(tail)) + tuple(tail))
    if type(tail) is _Tail and isinstance(data, jax.core.Tracer):
        note_left(array, tail.placements)
    return array


# --- in exported functions (`jax.export`): the dims are written as a Python literal ----------------------------------


def _serialize_dims(tail: Dims) -> bytes:
    text = repr(tail)
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        read = None
    if read != tail or repr(read) != text:
        raise AxisNameError(
            f"export: an array with the axes {tail} cannot be part of an exported function; there, names are strings, numbers, "
            "or tuples of these. Rename the axis (nx.rename)."
        )
    return text.encode()


def _deserialize_dims(data: bytes | bytearray) -> Dims:
    dims: Dims = ast.literal_eval(bytes(data).decode())
    return dims
