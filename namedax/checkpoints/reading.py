"""Read stored arrays with their target sharding, and convert the blocks on each device.

An array is read in its stored order of axes, each device its own block. If another order is
requested, the block is transposed on its device.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from namedax.checkpoints.trees import PLAIN, Path, Stored, Value, is_key, path_text
from namedax.checkpoints.written_names import identity, written_name
from namedax.core.annotations import AnyArray
from namedax.core.array import (
    NamedArray,
    make,
    make_padded,
    padding_of,
    positions,
    stored_data,
)
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY, native_dtype
from namedax.core.names import Dims
from namedax.core.padded_sharding import StoredPadding
from namedax.errors import (
    CheckpointError,
    MeshError,
    did_you_mean,
    format_value,
    show_dtype,
    show_names,
)
from namedax.ops.operands.pytree import data_of
from namedax.resources.assignment import Assignment, named_sharding
from namedax.resources.mesh import entry_of
from namedax.resources.stored_padding import with_zero_padding

__all__ = ["Reading", "Wanted", "check", "placed_value", "stored_request", "wanted_leaf"]


class Reading(NamedTuple):
    """The plan for one stored array."""

    stored: Stored
    wanted: Wanted
    sharding: Sharding | None  # of the result; `None` leaves it to JAX
    order: tuple[int, ...]  # for each axis of the result, the index of the stored axis

    @classmethod
    def of(
        cls,
        stored: Stored,
        wanted: Wanted,
        placement: tuple[Assignment, Mesh] | None,
        path: Path,
        op: str,
    ) -> Reading:
        """Make the plan for one array.

        Raises:
          MeshError: the array is requested on a mesh without devices.
        """
        sharding = wanted.sharding
        if wanted.padding is not None:
            # The true values are read on the host, and padded there.
            if placement is None:
                return cls(stored, wanted, None, _order(stored, wanted, op))
            wanted = Wanted(*wanted[:-1])
        if placement is not None:
            sharding = named_sharding(wanted.dims, wanted.shape, *placement, op)
        elif isinstance(sharding, NamedSharding) and not isinstance(sharding.mesh, Mesh):
            raise MeshError(
                f"{op}: {path_text(path)} is requested on an AbstractMesh,"
                f" {dict(sharding.mesh.shape)}, which has no devices. Pass mesh=jax.make_mesh(...),"
                " with axis_resources=."
            )
        return cls(stored, wanted, None if wanted.host else sharding, _order(stored, wanted, op))

    def restore_args(self, ocp: ModuleType) -> Any:
        """Return the orbax arguments for this array."""
        sharding = self._stored_sharding()
        if sharding is None:
            return ocp.RestoreArgs(restore_type=np.ndarray)
        shape, dtype = self.stored.shape, self.stored.dtype
        if self.stored.key is not None:
            data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
            shape, dtype = data.shape, data.dtype
        return ocp.ArrayRestoreArgs(sharding=sharding, global_shape=shape, dtype=dtype)

    def _stored_sharding(self) -> Sharding | None:
        """Return the sharding for reading the array; `None` for the host.

        It is the sharding of the result, permuted to the stored order of axes.
        """
        sharding = self.sharding
        if isinstance(sharding, NamedSharding):
            spec: list[Any] = [None] * len(self.order)
            for place, axis in enumerate(self.order):
                spec[axis] = entry_of(sharding.spec, place) or None
            return NamedSharding(
                sharding.mesh, PartitionSpec(*spec), memory_kind=sharding.memory_kind
            )
        return sharding if isinstance(sharding, SingleDeviceSharding) else None

    def finish(self, data: jax.Array | np.ndarray | None) -> AnyArray | np.ndarray:
        """Convert the read data to the requested array; `None` stands for an empty array."""
        stored, wanted = self.stored, self.wanted
        if data is None:
            data = (
                jnp.zeros(wanted.shape, wanted.dtype)
                if stored.key is None
                else _no_keys(wanted, stored.key)
            )
            data = np.zeros(wanted.shape, wanted.dtype) if wanted.host else data
        else:
            order = (*self.order, *range(len(self.order), data.ndim))
            if order != tuple(range(data.ndim)):
                data = (
                    lax.transpose(data, order)
                    if isinstance(data, jax.Array)
                    else np.transpose(data, order)
                )
            if stored.key is not None:
                data = jax.random.wrap_key_data(jnp.asarray(data), impl=stored.key)
        if wanted.padding is not None:
            return _stored_padded(data, wanted)
        if not wanted.host:
            on_host = isinstance(data, np.ndarray)
            data = (
                jnp.asarray(data) if self.sharding is None else jax.device_put(data, self.sharding)
            )
            if on_host:
                # Only one array at a time has two copies in memory.
                jax.block_until_ready(data)
        return make(data, wanted.dims) if any(dim is not None for dim in wanted.dims) else data


def _stored_padded(data: jax.Array | np.ndarray, wanted: Wanted) -> NamedArray:
    """Return an array that is stored padded, from its true values."""
    assert wanted.padding is not None
    sizes = wanted.padding.padded_sizes
    if isinstance(data, np.ndarray):
        more = [(0, sizes.get(d, n) - n) for d, n in zip(wanted.dims, data.shape, strict=True)]
        data = np.pad(data, more)
    else:
        for i, dim in enumerate(wanted.dims):
            if dim in sizes:
                data = with_zero_padding(data, i, sizes[dim])
    placed = jnp.asarray(data) if wanted.sharding is None else jax.device_put(data, wanted.sharding)
    return make_padded(jax.block_until_ready(placed), wanted.dims, wanted.padding)


def _no_keys(wanted: Wanted, kind: str) -> jax.Array:
    return jax.random.split(jax.random.key(0, impl=kind), wanted.shape)


def _order(stored: Stored, wanted: Wanted, op: str) -> tuple[int, ...]:
    if len(stored.dims) != len(wanted.dims):
        raise AssertionError(f"{op}: {stored} and {wanted} were not compared")
    named = {identity(dim): axis for axis, dim in enumerate(stored.dims) if dim is not None}
    positional = iter([axis for axis, dim in enumerate(stored.dims) if dim is None])
    return tuple(
        next(positional) if dim is None else named[identity(written_name(dim, op, "an axis"))]
        for dim in wanted.dims
    )


def placed_value(
    value: object, wanted: Wanted | Value, placement: tuple[Assignment, Mesh] | None
) -> Any:
    """Return a Python value in the requested form: itself, or an array without axes."""
    if isinstance(wanted, Value):
        return value
    if wanted.host:
        return np.asarray(value, wanted.dtype)
    sharding = (
        wanted.sharding if placement is None else NamedSharding(placement[1], PartitionSpec())
    )
    array = jnp.asarray(value, wanted.dtype)
    return array if sharding is None else jax.device_put(array, sharding)


# --- comparison of the requested tree with a checkpoint -------------------------------------------


_MAX_PROBLEMS = 8  # the maximum number of problems in one message


class Wanted(NamedTuple):
    """A request for one leaf of the tree."""

    shape: tuple[int, ...]
    dtype: Any
    dims: Dims
    host: bool  # a NumPy array
    sharding: Sharding | None  # its own sharding, if it has one
    text: str
    padding: StoredPadding | None = None  # last; of an array that is stored padded


def wanted_leaf(leaf: object, path: Path, op: str) -> Wanted | Value:
    """Return the request for a leaf of `like`.

    Raises:
      CheckpointError: it is not an array, the type of one, or a Python value.
    """
    if type(leaf) in PLAIN:
        return Value(leaf)
    data: Any
    padding, sizes = None, dict[Hashable, int]()
    if isinstance(leaf, NamedArray) and (padding := padding_of(leaf)) is not None:
        data, sizes = stored_data(leaf), dict(leaf.named_shape)
    else:
        data = data_of(leaf)
    if not hasattr(data, "shape") or not hasattr(data, "dtype"):
        raise CheckpointError(
            f"{op}: {path_text(path)} of like= is {format_value(leaf)}, of type"
            f" {type(leaf).__name__}, not an array. Use an array, the type of one (from"
            " jax.eval_shape or nx.interop.abstract), or a Python number or string."
        )
    dims = positions(leaf, op) if isinstance(leaf, NamedArray) else (None,) * len(data.shape)
    concrete = isinstance(data, jax.Array) and not isinstance(data, jax.core.Tracer)
    placed = isinstance(data, jax.ShapeDtypeStruct) or (concrete and data.committed)
    host = isinstance(data, NUMPY)
    return Wanted(
        tuple(sizes.get(dim, n) for dim, n in zip(dims, data.shape, strict=True)),
        native_dtype(data.dtype),
        dims,
        host,
        data.sharding if placed else None,
        type_text(leaf),
        padding,
    )


def stored_request(have: Stored, op: str) -> Wanted:
    """Return the request for an array in its stored form."""
    return Wanted(have.shape, have.dtype, have.read_dims(op), have.host, None, have.text)


def check(
    stored: Mapping[Path, Stored | Value],
    wanted: Mapping[Path, Wanted | Value],
    partial: bool,
    folder: str,
    op: str,
) -> None:
    """Raise `CheckpointError` with all differences if the request does not match the checkpoint."""
    problems = []
    for path, want in wanted.items():
        have = stored.get(path)
        if have is None:
            hint = did_you_mean(
                path_text(path), [path_text(other) for other in stored if other not in wanted]
            )
            problems.append(f"{_where(path)}, {want.text}, is requested but not stored.{hint}")
        elif reason := _difference(have, want, f"an axis of {_where(path)} in like=", op):
            problems.append(
                f"{_where(path)} is stored as {have.text} but requested as {want.text}: {reason}"
            )
    if not partial:
        extra = [path for path in stored if path not in wanted]
        problems += [
            f"{_where(path)}, {stored[path].text}, is stored but not requested. Pass partial=True"
            " to skip it."
            for path in extra
        ]
    if problems:
        more = (
            [f"... and {len(problems) - _MAX_PROBLEMS} more."]
            if len(problems) > _MAX_PROBLEMS
            else []
        )
        lines = "".join(f"\n  {line}" for line in problems[:_MAX_PROBLEMS] + more)
        raise CheckpointError(
            f"{op}: like= does not match the checkpoint in {folder}.{lines}\nArrays, names, sizes"
            " and dtypes must equal the saved ones; nx.checkpoints.names lists them. The order of"
            " axes, axis_resources and the mesh may differ. To change a name, restore with the"
            " stored name, and use nx.rename."
        )


def _where(path: Path) -> str:
    return path_text(path) or "the tree itself"


def _difference(have: Stored | Value, want: Wanted | Value, what: str, op: str) -> str:
    """Describe the difference between a stored leaf and a request; empty if they match."""
    if isinstance(have, Value) and isinstance(want, Value):
        return "" if type(have.value) is type(want.value) else "the Python types differ."
    if isinstance(have, Value) or isinstance(want, Value):
        value, array = (have, want) if isinstance(have, Value) else (want, have)
        if _is_scalar_of(array, value):  # type: ignore[arg-type]
            return ""
        return "a Python value matches only a scalar array of its kind of number."
    return _difference_of_names(have, want, what, op) or _difference_of_types(have, want)


def _is_scalar_of(array: Stored | Wanted, value: Value) -> bool:
    kinds = {bool: np.bool_, int: np.integer, float: np.floating, complex: np.complexfloating}
    kind = kinds.get(type(value.value))
    return array.shape == () and kind is not None and bool(jax.numpy.issubdtype(array.dtype, kind))


def _difference_of_names(have: Stored, want: Wanted, what: str, op: str) -> str:
    requested = {
        identity(written_name(d, op, what)): (d, n)
        for d, n in zip(want.dims, want.shape, strict=True)
        if d is not None
    }
    if len(requested) < len(want.dims) - want.dims.count(None):
        return (
            "two requested names are members of enumerations with equal names, which a checkpoint"
            " cannot distinguish."
        )
    unknown = [name for key, (name, _) in requested.items() if key not in have.names]
    if unknown:
        hints = (
            did_you_mean(
                str(name),
                [text for key, text in have.display_names.items() if key not in requested],
            )
            for name in unknown
        )
        return f"no axis {show_names(unknown)} is stored there.{''.join(dict.fromkeys(hints))}"
    left = [text for key, text in have.display_names.items() if key not in requested]
    if left:
        return f"it also has the axis {show_names(left)}."
    sizes = [
        f"axis {name!r} has size {have.names[key]}, not {n}."
        for key, (name, n) in requested.items()
        if have.names[key] != n
    ]
    positional = tuple(n for dim, n in zip(want.dims, want.shape, strict=True) if dim is None)
    if not sizes and positional != have.positional:
        return f"its positional shape is {have.positional}, not {positional}."
    return " ".join(sizes)


def _difference_of_types(have: Stored, want: Wanted) -> str:
    if have.dtype != want.dtype:
        cast = (
            ""
            if is_key(have) or is_key(want)
            else " Restore it with the stored dtype, and cast it afterwards (astype)."
        )
        return f"its dtype is {show_dtype(have.dtype)}, not {show_dtype(want.dtype)}.{cast}"
    if (
        not want.host
        and not is_key(have)
        and jax.dtypes.canonicalize_dtype(have.dtype) != have.dtype
    ):
        return (
            f"JAX has no {show_dtype(have.dtype)} while jax_enable_x64 is disabled. Enable it, or"
            " put a NumPy array into like=."
        )
    return ""
