"""Arrays in the memory of the host, and their copies to the memory of the device.

A type of JAX has the memory of its values, and JAX computes with values in the memory of the host
there. Operations of namedax copy such operands to the device first. An array is copied once in each
trace, and the arrays that a loop slices are copied slice by slice (`namedax.ops.loops`).

The gradient of an array in the memory of the host is there too: JAX requires the type of the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import jax
from jax.core import ShapedArray

from namedax.core.array import (
    NamedArray,
    get_data,
    make,
    make_block,
    make_padded,
    padding_of,
    stored_data,
)
from namedax.core.variance import remembered
from namedax.errors import ArgumentError, MeshError, did_you_mean, format_value, show_names

__all__ = [
    "DEVICE",
    "PINNED_HOST",
    "any_on_host",
    "check_kind",
    "host_seen",
    "is_host_type",
    "is_on_host",
    "on_device",
    "to_device",
    "to_host",
    "type_like",
    "type_on_host",
]

T = TypeVar("T")

#: The kinds that `nx.shard` accepts: JAX knows the memory of traced values for these only.
DEVICE, PINNED_HOST = "device", "pinned_host"
_HOST, _DEVICE = jax.memory.Space.Host, jax.memory.Space.Device

#: Not empty after the first array in the memory of the host, so that others can skip the check.
host_seen: set[str] = set()


def is_host_type(kind: object) -> bool:
    """Return True if values of a type are in the memory of the host."""
    return getattr(kind, "memory_space", None) is _HOST


def is_on_host(data: object) -> bool:
    """Return True if an array, traced or not, is in the memory of the host."""
    # The attribute is faster than `jax.typeof`; objects that are not arrays may lack it.
    if not is_host_type(getattr(data, "aval", None)):
        return False
    host_seen.add(PINNED_HOST)
    return True


def type_like(value: Any, shape: Sequence[int]) -> Any:
    """Return the type of another shape with the dtype and the memory of a value or a type."""
    is_type = isinstance(value, (ShapedArray, jax.ShapeDtypeStruct))
    kind: Any = value if is_type else jax.typeof(value)
    if is_host_type(kind):
        return type_on_host(kind, shape)
    return jax.ShapeDtypeStruct(tuple(shape), kind.dtype, weak_type=kind.weak_type)


def type_on_host(kind: Any, shape: Sequence[int]) -> ShapedArray:
    """Return the type of another shape in the memory of the host."""
    # `jax.ShapeDtypeStruct` has a memory only with a sharding.
    space: Any = _HOST
    return ShapedArray(tuple(shape), kind.dtype, weak_type=kind.weak_type, memory_space=space)


def _copied(data: jax.Array) -> jax.Array:
    return jax.device_put(data, _DEVICE)


_copied_in_program = jax.jit(_copied)


def _move(data: jax.Array) -> jax.Array:
    try:
        return _copied(data)
    except ValueError:  # in a `jax.shard_map` that executes eagerly
        return _copied_in_program(data)
    except NotImplementedError as error:
        raise MeshError(
            f"xmap: the function closes over an array in the memory of the host on Explicit axes,"
            f" {jax.typeof(data)}, which JAX cannot copy there. Pass it as an argument, or copy it"
            " to the device before with nx.shard(x, layout, mesh)."
        ) from error


def to_device(data: Any) -> Any:
    """Return data in the memory of the device; data that are not in that of the host unchanged."""
    return _move(data) if is_on_host(data) else data


def to_host(data: jax.Array) -> jax.Array:
    """Return traced data in the memory of the host."""
    return jax.device_put(data, _HOST)


def _array_on_device(array: NamedArray) -> NamedArray:
    host_seen.add(PINNED_HOST)
    data, padding = stored_data(array), padding_of(array)
    if padding is not None:
        return make_padded(_move(data), array._dims, padding)
    if array._block is None:
        return make(_move(data), array._dims)
    region = array._block.region
    moved: NamedArray = remembered(
        array, _DEVICE, lambda: make_block(_move(data), array._dims, region)
    )
    return moved


def any_on_host(values: Iterable[Any]) -> bool:
    """Return True if an argument, or an entry of a list, a tuple or a dict, is on the host."""
    for value in values:  # every operation asks, so there are few calls of functions
        kind = type(value)
        if kind is NamedArray:
            try:
                value = get_data(value)
            except AttributeError:  # stored padded
                value = stored_data(value)
        elif kind is list or kind is tuple:
            if any_on_host(value):
                return True
            continue
        elif kind is dict:
            if any_on_host(value.values()):
                return True
            continue
        elif kind in _NO_ARRAYS:
            continue
        if getattr(getattr(value, "aval", None), "memory_space", None) is _HOST:
            host_seen.add(PINNED_HOST)
            return True
    return False


_NO_ARRAYS = frozenset({str, int, float, bool, type(None), type(...)})


def on_device(value: T) -> T:
    """Return an argument of an operation with its arrays in the memory of the device.

    Lists, tuples and dicts are searched. A value without arrays in the memory of the host is
    returned unchanged.
    """
    found: Any = value
    kind: Any = type(value)
    if kind is NamedArray:
        # As in `any_on_host`: every operation asks.
        try:
            data = get_data(found)
        except AttributeError:  # stored padded
            data = stored_data(found)
        if getattr(getattr(data, "aval", None), "memory_space", None) is _HOST:
            found = _array_on_device(found)
    elif kind is list or kind is tuple:
        moved = [on_device(entry) for entry in found]
        found = found if _same(moved, found) else kind(moved)
    elif kind is dict:
        values = [on_device(entry) for entry in found.values()]
        found = found if _same(values, found.values()) else dict(zip(found, values, strict=True))
    elif isinstance(value, jax.Array):
        found = to_device(found)
    return found


def _same(new: Iterable[Any], old: Iterable[Any]) -> bool:
    return all(one is other for one, other in zip(new, old, strict=True))


def check_kind(op: str, kind: object, devices: Iterable[jax.Device]) -> None:
    """Check the kind of memory for arrays on these devices.

    Raises:
      ArgumentError: the devices lack this kind, or JAX does not track it.
    """
    lists = [[memory.kind for memory in device.addressable_memories()] for device in devices]
    known = [name for name in (DEVICE, PINNED_HOST) if all(name in kinds for kinds in lists)]
    if kind in known:
        if kind == PINNED_HOST:
            host_seen.add(PINNED_HOST)
        return
    hint = did_you_mean(kind, known) if isinstance(kind, str) else ""
    raise ArgumentError(
        f"{op}: memory_kind={format_value(kind)} is not a memory of these devices for arrays.{hint}"
        f" Choose from {show_names(known)}, or omit it for the memory of the device."
    )
