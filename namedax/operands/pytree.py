"""A named array as a pytree with one leaf, and in exported functions.

As a pytree an array remembers its dims from the first named one on. Everything before that is positional, however many
dimensions there are. That is why a transform that adds or strips a leading positional dimension (`jax.vmap`, `lax.scan`) works
on an array without knowing of it.
"""

from __future__ import annotations

import ast
import contextlib
import contextvars
import functools
import urllib.parse
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import jax
from jax import export

from namedax.core.array import NamedArray, Parts, make_in_region, origin_of
from namedax.core.leaf_marks import LEAF, Mark, mark_for
from namedax.core.names import Dims
from namedax.core.region import Placements, active_regions, ambient, placements_after, record_escape
from namedax.core.user_code import make_transparent
from namedax.errors import AxisNameError, AxisSizeError
from namedax.operands.broadcasting import to_local

__all__ = ["noting_sizes", "register"]

# Not empty while a thread notes the sizes of all arrays that it takes apart, so that others need not ask; and whether this one does.
_noting_anywhere: set[object] = set()
_notes_sizes: contextvars.ContextVar[bool] = contextvars.ContextVar("notes_sizes", default=False)


@contextlib.contextmanager
def noting_sizes() -> Iterator[None]:
    """A context in which an array that is taken apart and put together with other sizes of its named axes is an error, as in a mapped body."""
    token, before = object(), _notes_sizes.set(True)
    _noting_anywhere.add(token)
    try:
        yield
    finally:
        _noting_anywhere.discard(token)
        _notes_sizes.reset(before)


def register() -> None:
    """Tells JAX how named arrays are taken apart and put together."""
    make_transparent(__file__)
    jax.tree_util.register_pytree_with_keys(NamedArray, _flatten_with_keys, _unflatten, _flatten)
    export.register_pytree_node_serialization(
        NamedArray,
        serialized_name="namedax.NamedArray",
        serialize_auxdata=_serialize_dims,
        deserialize_auxdata=_deserialize_dims,
    )


class _Tail(tuple[Hashable | None, ...]):
    """The dims of an array that was taken apart in a mapped body or in `noting_sizes`, with what is known of its axes.

    To JAX it is a tuple like others: what an array remembers makes no difference between structures.

    Attributes:
      placements: where the body's names live; `None` outside of bodies.
      sizes: the sizes of these axes, of blocks in a body; `None` where they are not known.
      mark: the mark for a leaf with these axes, if a move of a sharded dimension may keep the sizes.
    """

    placements: Placements | None
    sizes: tuple[int, ...] | None
    mark: Mark | None


@functools.lru_cache(maxsize=4096)
def _noting(tail: Dims, placements: Placements | None, sizes: tuple[int, ...] | None) -> _Tail:
    noted = _Tail(tail)
    noted.placements, noted.sizes = placements, sizes
    noted.mark = mark_for(tail, sizes, dict(placements)) if placements and sizes is not None else None
    return noted


def _check_sizes(tail: _Tail, data: Any) -> None:
    """Raises if an array of other sizes is to have the axes of one that was taken apart; JAX may put anything else into a tree.

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
                f"jax.tree.unflatten: an array with the axes {tuple(tail)} had data of shape {tail.sizes} when JAX took its tree apart, and is to "
                f"have data of shape {data.shape}: axis {name!r} would have {after} entries instead of {before}. A function of leaves "
                "(jax.tree.map, jax.vmap) has moved, cut or added dimensions, and does not see their names. Stop at named arrays with "
                "is_leaf=lambda v: isinstance(v, nx.NamedArray), and use functions of namedax there (nx.transpose, nx.stack, nx.slice)."
            ).about(axis=name, operation="jax.tree.unflatten")


def _within(array: NamedArray) -> tuple[Any, Dims]:
    """The leaf and the dims of an array that may be taken apart in a mapped body, or in a rule that is traced after one."""
    region, data, tail = ambient(), array._data, array._tail
    if not tail:
        return data, tail
    if region is None:
        placements = placements_after()
    elif region.manual:
        placements = region.placements
        # What a body closes over is whole, or the block of a surrounding body; a copy that is made of leaves in the body could not be
        # told from a block of this one, so the leaf of such an array is its block.
        if (origin := origin_of(array)) is not region and origin != region and isinstance(data, jax.Array):
            data = to_local(array, "the leaves of a pytree", region)._data
    else:
        placements = None
    notes = isinstance(data, jax.Array) and (placements is not None or region is not None or _notes_sizes.get())
    shape = data.shape if notes else ()
    sizes = shape[len(shape) - len(tail) :] if len(shape) >= len(tail) else None
    return data, tail if placements is None and sizes is None else _noting(tail, placements, sizes)


def _flatten_with_keys(array: NamedArray) -> tuple[Any, Dims]:
    data, tail = _within(array) if active_regions or _noting_anywhere else (array._data, array._tail)
    return ((_key(tail), data),), tail


@functools.lru_cache(maxsize=4096)
def _key(tail: Dims) -> jax.tree_util.GetAttrKey:
    # The key says the physical order where there is one to say: a checkpoint keeps keys and shapes only, and axes of equal size
    # could be taken for one another. Quoted, because it may become the name of a file.
    order = ",".join("_" if dim is None else urllib.parse.quote(str(dim), safe="") for dim in tail)
    return jax.tree_util.GetAttrKey("data" if len(tail) < 2 else f"data{{{order}}}")


# JAX calls these two for every array of every call, so they come to the point where nobody is in a mapped body.


def _flatten(array: NamedArray) -> tuple[Any, Dims]:
    if active_regions or _noting_anywhere:
        data, tail = _within(array)
        return (data,), tail
    return (array._data,), array._tail


def _unflatten(tail: Dims, children: Iterable[Any]) -> NamedArray:
    # JAX unflattens with placeholders too, and tree functions with whatever they return. An array whose data has too few dimensions is
    # refused where it is used (`positions`); sizes that contradict those of before are refused here.
    (data,) = children
    if type(tail) is tuple and not active_regions:
        parts: Any = Parts()
        parts._data, parts._tail, parts._block = data, tail, None
        parts.__class__ = NamedArray
        array: NamedArray = parts
        return array
    if type(tail) is _Tail:
        _check_sizes(tail, data)
        if tail.mark is not None and isinstance(data, jax.core.Tracer) and isinstance(data, jax.Array):
            in_front = data.ndim - len(tail.mark)
            data = LEAF.bind(data, mark=(*[()] * in_front, *tail.mark)) if in_front >= 0 else data
    array = make_in_region(data, (None,) * (getattr(data, "ndim", 0) - len(tail)) + tuple(tail))
    if type(tail) is _Tail and tail.placements is not None and isinstance(data, jax.core.Tracer):
        record_escape(array, tail.placements)
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
