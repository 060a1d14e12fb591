"""The operands of recurrences over positions, as chunks of the blocks of one device.

A recurrence has a state, a matrix {feature, value feature} for each instance of the batch axes.
Within a chunk it is a few matrix products. Each chunk, and each block of positions, maps the state
before it to the state after it, and such maps can be combined before the state is known. So devices
exchange the maps of their blocks, and never positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike
from namedax.core.array import as_array, dims_of
from namedax.core.display import type_text
from namedax.core.element_types import common_type, inexact_type
from namedax.core.names import MeshAxes, is_name
from namedax.core.padded_sharding import plain
from namedax.core.prefix_scan import prefix_scan
from namedax.core.region import ambient, place_of
from namedax.core.variance import cast_data, varying
from namedax.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisNameError,
    format_value,
    raise_not_found,
)
from namedax.ops.loops.associative_scan import before_this_device
from namedax.ops.loops.control_flow import from_device
from namedax.ops.nn.decay_sums import BLOCK
from namedax.ops.operands import kernels
from namedax.ops.operands.broadcasting import align_ranks, as_block, make_result
from namedax.ops.operands.pytree import data_of, names_of
from namedax.ops.shape.rename import rename
from namedax.resources import communication as comm
from namedax.resources.padding_masks import masked, refilled

__all__ = ["Map", "Recurrence", "recur"]

#: A map of states: the arrays that a recurrence defines.
Map = Sequence[jax.Array]

_REQUIRED = ("query", "key", "value")
_PER_POSITION = ("segments", "beta")


class Recurrence:
    """One recurrence on the blocks of a device.

    The batch axes are in front of the dimensions of each array, with size 1 where it lacks one.
    All numbers are float32 or float64.

    Attributes:
      query: the queries, multiplied by the scale, [..., chunk, position, feature].
      key: the keys, in the same way; 0 at padding, and at positions without a segment.
      value: the values, [..., chunk, position, value feature].
      decay: the log decays, [..., chunk, position, feature or 1]; `None` for no decay.
      beta: the step sizes, [..., chunk, position, 1], if there are some.
      state: the state before the first position, [..., feature, value feature], or `None`.
      place: the mesh axes of the positions.
      feature_axes: the mesh axes of the features.
      variance: the mesh axes over which the arrays vary.
    """

    query: jax.Array
    key: jax.Array
    value: jax.Array
    decay: jax.Array | None = None
    beta: jax.Array | None = None
    state: jax.Array | None = None

    def __init__(
        self,
        op: str,
        axis: Hashable,
        features: Hashable,
        arrays: Mapping[str, AnyArray],
        chunk_size: int,
        gathers_features: bool = False,
    ):
        """Read the arrays `query`, `key`, `value` and `scale`.

        There may also be `decay`, `beta`, `state` and `segments`.

        With `gathers_features` all features are on each device, also if they are sharded.

        Raises:
          AxisNotFoundError: an array lacks an axis.
          AxisNameError: an array has an axis that its role excludes.
          AxisSizeError: an axis has two sizes.
          PlacementConflictError: two axes are sharded over one mesh axis.
          ArgumentError: `chunk_size` is not a positive integer.
          ArgumentTypeError: an array has another dtype.
        """
        blocks = {which: as_block(x, op) for which, x in arrays.items()}
        self._is_step = _check(op, axis, features, blocks)
        _check_types(op, blocks)
        _check_chunk_size(op, chunk_size)
        region = ambient()
        self._axis, self._features, self._own_features = axis, features, features
        if gathers_features and place_of(region, features):
            self._features = ("all", features)
            blocks = rename(blocks, {features: self._features})

        def place(name: Hashable) -> MeshAxes:
            return place_of(region, name) if region is not None and region.manual else ()

        self._places = {name: place(name) for name in (axis, self._features)}
        self.place, self.feature_axes = map(plain, self._places.values())

        datas, self._dims, self._shape = align_ranks(op, *blocks.values())
        self.variance = frozenset[str]().union(*map(varying, datas))
        datas = [cast_data(jnp.asarray(data), self.variance) for data in datas]
        self._order(blocks)
        self._result_type = _common_type([blocks[which] for which in _REQUIRED])
        ordered = map(self._canonical, blocks, datas)
        self._prepare(dict(zip(blocks, ordered, strict=True)), chunk_size)

    # --- from names to dimensions -----------------------------------------------------------------

    def _order(self, blocks: Mapping[str, AnyArray]) -> None:
        """Find the dimensions of the batch, and of the features of the values."""
        others = {
            dim
            for which, block in blocks.items()
            if which not in ("value", "state")
            for dim in dims_of(block)
        }
        carried = {dim for dim in dims_of(blocks["value"]) if dim is not None} - others
        carried.discard(self._axis)
        ends = {self._axis, self._features} | carried
        numbered = list(enumerate(self._dims))
        self._batch = [i for i, dim in numbered if dim is None or dim not in ends]
        self._carried = [i for i, dim in numbered if dim is not None and dim in carried]

    def _canonical(self, which: str, data: jax.Array) -> jax.Array:
        """Return an aligned array as [..., position, feature]; a state without positions."""
        if data.ndim < len(self._dims):
            data = data.reshape((1,) * len(self._dims))
        ends = [self._dims.index(x) for x in (self._axis, self._features) if x in self._dims]
        data = lax.transpose(data, [*self._batch, *ends, *self._carried])
        at = len(self._batch)
        if self._is_step:
            data = lax.expand_dims(data, (at,))
        batch, (positions, features, *values) = data.shape[:at], data.shape[at:]
        if which == "value":
            return data.reshape((*batch, positions, math.prod(values)))
        if which == "state":
            return data.reshape((*batch, features, math.prod(values)))
        return data.reshape((*batch, positions, features))

    def _prepare(self, arrays: dict[str, jax.Array], chunk_size: int) -> None:
        """Convert, mask and split the arrays."""
        wide = common_type(self._result_type, jnp.float32)
        segments = arrays.pop("segments", None)
        arrays = {which: data.astype(wide) for which, data in arrays.items()}
        arrays["query"] = arrays["query"] * arrays.pop("scale")
        self._size = size = arrays["query"].shape[-2]
        self._count = count = max(1, -(-size // chunk_size))
        chunk = max(1, -(-size // count))
        self._chunk = chunk = chunk if chunk < BLOCK else -(-chunk // BLOCK) * BLOCK
        self.state = arrays.pop("state", None)
        of_axis, of_features = self._places[self._axis], self._places[self._features]
        if self.state is not None:
            self.state = masked(self.state, self.state.ndim - 2, of_features, 0)
        for which in ("decay", "beta"):  # one number for all positions
            if which in arrays:
                data = arrays[which]
                arrays[which] = jnp.broadcast_to(data, (*data.shape[:-2], size, data.shape[-1]))
        for which, data in arrays.items():
            # Padding repeats the last query, and does not change the state: so does the result.
            if which != "query":
                data = masked(data, data.ndim - 2, of_axis, 0)
            if which != "value" and data.shape[-1] > 1:
                data = masked(data, data.ndim - 1, of_features, 0)
            arrays[which] = data
        if segments is not None:
            arrays = self._separate(arrays, segments)
        for which, data in arrays.items():
            if padding := count * chunk - size:
                data = jnp.pad(data, [(0, 0)] * (data.ndim - 2) + [(0, padding), (0, 0)])
            setattr(self, which, data.reshape((*data.shape[:-2], count, chunk, data.shape[-1])))

    def _separate(self, arrays: dict[str, jax.Array], segments: jax.Array) -> dict[str, jax.Array]:
        """Let the state begin anew at the first position of each segment but the first one.

        Positions with a negative number are left out.
        """
        at, segments = segments.ndim - 2, segments.astype(common_type(segments.dtype, jnp.int32))
        last = prefix_scan(_latest, segments, axis=at)
        first = jnp.full_like(last[..., :1, :], -1)
        if self.place and self._size:
            ends = [jnp.moveaxis(last[..., -1:, :], at, 0)]
            exists, (found,) = before_this_device(
                ends, self.place, lambda data: [prefix_scan(_latest, data)]
            )
            first = jnp.where(exists, found[..., None, :], first)
        before = jnp.concatenate([first, last[..., :-1, :]], at)
        is_first = (segments >= 0) & (before >= 0) & (segments != before)
        arrays = {which: jnp.where(segments >= 0, data, 0) for which, data in arrays.items()}
        decay = arrays.get("decay", jnp.zeros((), arrays["key"].dtype))
        return arrays | {"decay": jnp.where(is_first, -jnp.inf, decay)}

    # --- over devices -----------------------------------------------------------------------------

    def enter(
        self,
        block: Map,
        combine: Callable[[Map, Map], Map],
        apply: Callable[[Map, jax.Array | None], jax.Array],
    ) -> jax.Array | None:
        """Return the state before the first position of this device.

        Args:
          block: the map of all positions of this device.
          combine: combines two maps; their arrays may have a leading dimension.
          apply: applies a map to a state, or to the state 0 (`None`).

        Communication: of n devices, ceil(log2(n)) collective-permutes of each array of `block`; one
        all-gather if the positions also have a `SerialLoop`.
        """
        if not self.place:
            return self.state
        if comm.loops_among(self.place)[1]:
            exists, found = before_this_device(
                [data[None] for data in block],
                self.place,
                lambda *datas: list(prefix_scan(combine, list(datas))),
            )
        else:
            exists, found = self._scan_over_devices(list(block), combine)
        state = apply(found, self.state)
        first = jnp.zeros((), state.dtype) if self.state is None else self.state
        return jnp.where(exists, state, first)

    def _scan_over_devices(
        self, block: list[jax.Array], combine: Callable[[Map, Map], Map]
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Combine the maps of all devices before this one.

        Return True if there is one, and the map, which is arbitrary on the first device. A round
        doubles the number of devices that are combined (Hillis & Steele 1986, "Data parallel
        algorithms").
        """
        devices, index = math.prod(map(lax.axis_size, self.place)), comm.block_index(self.place)

        def only_if(exists: jax.Array, new: Map, old: Map) -> list[jax.Array]:
            return [jnp.where(exists, x, y) for x, y in zip(new, old, strict=True)]

        before: list[jax.Array] = []
        through, distance = block, 1
        while distance < devices or not before:
            pairs = [(i, i + distance) for i in range(devices - distance)]
            found = [comm.ppermute(data, self.place, pairs) for data in through]
            before = only_if(index >= distance, combine(found, before), before) if before else found
            distance *= 2
            if distance < devices:
                through = only_if(index > 0, combine(before, block), block)
        return index > 0, before

    # --- from dimensions to names -----------------------------------------------------------------

    def result(self, data: jax.Array) -> AnyArray:
        """Return the result of all chunks, [..., chunk, position, value feature], by name."""
        data = data.reshape((*data.shape[:-3], self._count * self._chunk, data.shape[-1]))
        data = lax.slice_in_dim(data, 0, self._size, axis=data.ndim - 2).astype(self._result_type)
        return self._named(data, None if self._is_step else self._axis, self._size)

    def result_state(self, state: jax.Array) -> AnyArray:
        """Return the state after the last position of all devices by name.

        Communication: one all-reduce if the positions are sharded.
        """
        if self.place:
            count = math.prod(map(lax.axis_size, self.place))
            state = from_device(state, comm.block_index(self.place) == count - 1, self.place)
        state = refilled(state, state.ndim - 2, self._places[self._features])
        result = self._named(state, self._features, state.shape[-2])
        if self._features == self._own_features:
            return result
        return rename(result, {self._features: self._own_features})

    def _named(self, data: jax.Array, name: Hashable | None, size: int) -> AnyArray:
        """Return an array [..., name, value feature] in the order of the operands."""
        batch, values = ([self._shape[i] for i in part] for part in (self._batch, self._carried))
        data = jnp.broadcast_to(data, (*batch, *data.shape[-2:]))
        if name is None:
            data, middle, sizes = lax.squeeze(data, (data.ndim - 2,)), [], []
        else:
            middle, sizes = [self._dims.index(name)], [size]
        order = [*self._batch, *middle, *self._carried]
        data = data.reshape((*batch, *sizes, *values))
        data = lax.transpose(data, np.argsort(order))
        return make_result(data, tuple(self._dims[i] for i in sorted(order)))


#: Computes the result of all chunks, and the state after the last position of the device.
Attend = Callable[[Recurrence], tuple[jax.Array, jax.Array]]


def recur(
    op: str,
    attend: Attend,
    axis: Hashable,
    features: Hashable,
    operands: Mapping[str, ArrayLike | None],
    scale: ArrayLike,
    chunk_size: int,
    return_state: bool,
    gathers_features: bool = False,
) -> Any:
    """Compute a recurrence by name, outside of bodies in one compiled program.

    The other arguments are those of `Recurrence`. With `return_state` the result is a pair.
    """
    arrays = {which: as_array(x, op) for which, x in operands.items() if x is not None}
    arrays["scale"] = as_array(scale, op)
    options = (chunk_size, return_state, gathers_features)
    given: Any = (op, attend, axis, features, tuple(arrays), *options, *arrays.values())
    is_static = is_name(axis) and is_name(features) and type(chunk_size) is int
    if ambient() is None and is_static:
        if not any(kernels.varies(data_of(x)) for x in arrays.values()):
            return _compiled(*given)
    return _recur(*given)


def _recur(
    op: str,
    attend: Attend,
    axis: Hashable,
    features: Hashable,
    names: tuple[str, ...],
    chunk_size: int,
    return_state: bool,
    gathers_features: bool,
    *values: AnyArray,
) -> Any:
    arrays = dict(zip(names, values, strict=True))  # in this order, as JAX sorts dictionaries
    blocks = Recurrence(op, axis, features, arrays, chunk_size, gathers_features)
    data, last = attend(blocks)
    result = blocks.result(data)
    return (result, blocks.result_state(last)) if return_state else result


_compiled = jax.jit(_recur, static_argnums=tuple(range(8)), inline=True)


def _latest(before: jax.Array, after: jax.Array) -> jax.Array:
    """Return the number of the later segment, unless it is negative."""
    return jnp.where(after >= 0, after, before)


def _common_type(arrays: Sequence[AnyArray]) -> np.dtype:
    common = jnp.result_type(*arrays)
    return jnp.dtype(common if jnp.issubdtype(common, jnp.inexact) else inexact_type(common))


# --- checks ---------------------------------------------------------------------------------------


def _check(op: str, axis: Hashable, features: Hashable, blocks: Mapping[str, AnyArray]) -> bool:
    """Check the axes of the operands; return True for one position without its axis."""
    for parameter, name in (("axis", axis), ("features", features)):
        if not is_name(name):
            raise AxisNameError(
                f"{op}: {parameter}={format_value(name)} is not an axis name. Name the positional"
                " axes first (nx.named)."
            )
    if axis == features:
        raise AxisNameError(
            f"{op}: axis= and features= are both {axis!r}. Positions and features are two axes."
        )
    without = not any(axis in dims_of(block) for block in blocks.values())
    is_step = without and "state" in blocks
    for which, name in (
        ("query", axis),
        ("key", axis),
        ("value", axis),
        ("query", features),
        ("key", features),
        ("state", features),
    ):
        block = blocks.get(which)
        if block is None or name in dims_of(block) or (name == axis and is_step):
            continue
        more = "For one position without this axis, pass state=." if without else ""
        raise_not_found(op, name, f"{which}, {type_text(block)}", names_of(dims_of(block)), more)
    for which, name, reason in (
        ("value", features, "its features need another name than those of the key"),
        ("state", axis, "a state belongs to one position"),
        *((which, features, "a position has one number") for which in _PER_POSITION),
    ):
        if which in blocks and name in dims_of(blocks[which]):
            raise AxisNameError(
                f"{op}: {which}, {type_text(blocks[which])}, has the axis {name!r}, but {reason}."
                f" Rename it: nx.rename({which}, {{{name!r}: 'other'}})."
            )
    return is_step


def _check_types(op: str, blocks: Mapping[str, AnyArray]) -> None:
    for which, block in blocks.items():
        is_integer = jnp.issubdtype(block.dtype, jnp.integer)
        if which == "segments" and not is_integer:
            raise ArgumentTypeError(
                f"{op}: segments must contain integers, got {type_text(block)}."
            )
        if which != "segments" and not is_integer and not jnp.issubdtype(block.dtype, jnp.floating):
            raise ArgumentTypeError(
                f"{op}: {which} must contain floating-point numbers, got {type_text(block)}."
            )


def _check_chunk_size(op: str, size: int) -> None:
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ArgumentError(
            f"{op}: chunk_size must be a positive integer, got {format_value(size)}."
        )
