"""Whole values for Python: gathered in the program, and rebuilt with their names on the host.

Python is called once for a whole program, by a primitive. A `jax.debug.callback` in a
`jax.shard_map` calls Python on every device, once for each element of a `jax.vmap`, and again in
the recomputation of a `jax.checkpoint`. The primitive of this module calls it once: on the first
device, with batch axes in front, and never in a recomputation. Its operands are gathered before, by
collectives, so all devices agree about the values of one call. The call itself waits for nothing,
so no device can wait for it forever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from namedax.core.array import NamedArray, is_named, make
from namedax.core.display import shown_placements
from namedax.core.name_scopes import Scope, scope_text
from namedax.core.names import Dims, MeshAxes, escaped
from namedax.core.records import Record
from namedax.core.region import HiddenAxis, Region, ambient, vectorized_axes
from namedax.core.variance import varying
from namedax.errors import PipelineError, show_dtype
from namedax.ops.operands.broadcasting import to_local
from namedax.primitives.calls import CALL_OF_PYTHON
from namedax.programs.raw_collective_check import DELIBERATE
from namedax.resources import communication as comm
from namedax.resources.layout import relayout
from namedax.resources.mesh import replicated
from namedax.resources.serial import MicrobatchAxis

__all__ = ["Value", "call_with_values"]

# An axis in front of an operand: the name that a function of single elements hides, or `None` for
# that of a user's `jax.vmap`.
_BatchAxis = HiddenAxis | None
_Batch = tuple[tuple[_BatchAxis, ...], ...]


class Value:
    """A whole array on the host, with the names and the placement that it has in the program.

    Args:
      array: the elements.
      dims: an axis name, or `None` for a positional axis, for every dimension.
      placements: the mesh axes of every dimension.
      dtype: the dtype in the program; that of a random key differs from that of `array`.
      blocks: the mesh axes over which the value differs without a name; the blocks of their devices
        are stacked in the first dimension.
    """

    __slots__ = ("_blocks", "_dtype", "_placements", "array", "dims")

    def __init__(
        self,
        array: np.ndarray,
        dims: Dims,
        placements: Sequence[MeshAxes],
        dtype: Any,
        blocks: MeshAxes = (),
    ):
        self.array, self.dims = array, dims
        self._placements, self._dtype, self._blocks = placements, dtype, blocks

    @property
    def type_text(self) -> str:
        """The type as `repr` of an array shows it, such as `f32[5]{batch:8@data}`."""
        axes = list(zip(self.array.shape, self.dims, self._placements, strict=False))
        devices = self.array.shape[0] if self._blocks else 0
        if self._blocks:
            axes = axes[1:]
        shape = ",".join(f"{n}{_at(place)}" for n, dim, place in axes if dim is None)
        named = ", ".join(
            f"{escaped(str(dim))}:{n}{_at(place)}" for n, dim, place in axes if dim is not None
        )
        text = f"{show_dtype(self._dtype)}[{shape}]"
        if named:
            text += f"{{{named}}}"
        return f"{text}, {devices} blocks {_at(self._blocks)}" if self._blocks else text

    def result(self) -> NamedArray | np.ndarray:
        """Return the value as a named array of NumPy data; as the data, if it has no name."""
        if any(dim is not None for dim in self.dims):
            return make(self.array, (*self.dims, *(None,) * (self.array.ndim - len(self.dims))))
        return self.array

    def __str__(self) -> str:
        if not self.array.ndim:
            return str(self.array)
        return f"{self.type_text}\n{self.array}"

    def __repr__(self) -> str:
        if all(dim is None for dim in self.dims):
            return repr(self.array)
        dims = ", ".join("_" if dim is None else escaped(str(dim)) for dim in self.dims)
        return f"NamedArray({self.type_text}, dims=({dims}),\n{self.array})"

    def __format__(self, form: str) -> str:
        """Format every element with `form`, as in `{x:.2f}`."""
        if not form:
            return str(self)
        if not self.array.ndim:
            return format(self.array[()], form)
        text = np.array2string(
            self.array, formatter={"all": functools.partial(_formatted, form)}, separator=" "
        )
        return f"{self.type_text}\n{text}"


def _formatted(form: str, element: Any) -> str:
    return format(element, form)


def _at(axes: MeshAxes) -> str:
    return "" if not axes else "@" + (axes[0] if len(axes) == 1 else "(" + ",".join(axes) + ")")


class _Kind(Record):
    """The facts of a value that are known while the program is traced.

    `sizes` are the sizes without padding, of the dimensions that may have some.
    """

    dims: Dims
    placements: tuple[MeshAxes, ...]
    dtype: Any
    sizes: tuple[int | None, ...]
    blocks: MeshAxes = ()

    def value(self, batch: Sequence[_BatchAxis], data: Any) -> Value:
        """Return the value of a call, with the axes `batch` in front."""
        array = np.asarray(data)
        front = [None if axis is None else axis.name for axis in batch]
        places = [() if axis is None else tuple(axis.place) for axis in batch]
        if len(self.sizes):
            kept = tuple(slice(size) for size in self.sizes)
            array = array[(slice(None),) * len(front) + kept]
        if self.blocks and front:  # the blocks of devices come first
            array = np.moveaxis(array, len(front), 0)
        own = self.dims[1:] if self.blocks else self.dims
        stacked: tuple[None, ...] = (None,) if self.blocks else ()
        return Value(
            array,
            (*stacked, *front, *own),
            (*((),) * len(stacked), *places, *self.placements[len(stacked) :]),
            self.dtype,
            self.blocks,
        )


def call_with_values(op: str, function: Callable[[list[Any]], None], leaves: Sequence[Any]) -> None:
    """Make the program call `function` once with its leaves, in which arrays are whole `Value`s.

    Args:
      op: the operation, such as `debug.print`.
      function: a function of a list of leaves.
      leaves: named arrays, arrays, and other values, which `function` gets as they are.

    Communication: one all-gather for each mesh axis over which a value is sharded.
    """
    places = [i for i, leaf in enumerate(leaves) if is_named(leaf) or hasattr(leaf, "dtype")]
    names = dict.fromkeys(
        dim for i in places if is_named(leaves[i]) for dim in leaves[i].dims if dim is not None
    )
    with Scope(scope_text(op, tuple(names))), jax.named_scope(DELIBERATE):
        pairs = [_whole(op, leaves[i], ambient()) for i in places]

        def run(batch: Sequence[Sequence[_BatchAxis]], datas: Sequence[Any]) -> None:
            filled = list(leaves)
            for i, kind, axes, data in zip(places, kinds, batch, datas, strict=True):
                filled[i] = kind.value(axes, data)
            function(filled)

        # JAX keeps the function, so it must not refer to tracers
        kinds = [kind for kind, _ in pairs]
        leaves = [None if i in places else leaf for i, leaf in enumerate(leaves)]
        _call_once(_HostCall(run), [data for _, data in pairs])


def _whole(op: str, leaf: Any, region: Region | None) -> tuple[_Kind, jax.Array]:
    """Return the facts of an array, and its whole data."""
    block = to_local(leaf, f"nx.{op}", region)
    if isinstance(block, NamedArray):
        data, dims = block.data, block.dims
        sizes = tuple(block._sizes.get(dim) for dim in dims)
        placements = tuple(shown_placements(block))
    else:
        data = block if isinstance(block, jax.Array) else jnp.asarray(block)
        dims, sizes, placements = (None,) * data.ndim, (None,) * data.ndim, ((),) * data.ndim
    dtype = data.dtype
    if comm.is_keys(data):
        data = jax.random.key_data(data)
        dims, sizes, placements = (*dims, None), (*sizes, None), (*placements, ())
    data = lax.stop_gradient(data)
    blocks: MeshAxes = ()
    if region is not None and region.manual:
        old = region.layout(dims)
        _reject_microbatches(op, dims, old)
        data = relayout(data, old, [()] * len(old))
        order = jax.sharding.get_abstract_mesh().axis_names
        left = varying(data) - vectorized_axes(region)
        blocks = tuple(axis for axis in order if axis in left)
        if blocks and data.size:
            data = comm.all_gather(data[None], 0, blocks, "invarying")
            dims, sizes, placements = (None, *dims), (None, *sizes), ((), *placements)
    return _Kind(dims, placements, dtype, sizes, blocks), data


def _reject_microbatches(op: str, dims: Dims, places: Sequence[MeshAxes]) -> None:
    """Raise if an array has one microbatch of an axis.

    Raises:
      PipelineError: it has.
    """
    for dim, place in zip(dims, places, strict=True):
        if any(isinstance(axis, MicrobatchAxis) for axis in place):
            raise PipelineError(
                f"nx.{op}: in a pipeline each stage has one microbatch of axis {dim!r} at a time,"
                " and not the whole axis. Call it before or after the pipeline; outputs=True of"
                " nx.pipeline returns values of each layer."
            )


class _HostCall:
    """A Python function of arrays, which a program calls. Compared by identity.

    Args:
      function: a function of the batch axes of each array, outermost first, and the arrays.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[_Batch, Sequence[Any]], None]):
        self._function = function

    def run(self, batch: _Batch, *datas: Any) -> None:
        """Call the function with arrays that have the axes `batch` in front."""
        self._function(batch, datas)


def _call_once(call: _HostCall, datas: Sequence[jax.Array]) -> None:
    """Make the program that is traced call `call` once with `datas`, on the first device.

    In a `jax.shard_map`, `datas` must be equal on all devices, but for axes that are batched by a
    function over a hidden name (`HiddenAxis`). These are gathered where they are batched.
    """
    region = ambient()
    mesh = jax.sharding.get_abstract_mesh()
    manual = tuple(mesh.manual_axes)
    batch: _Batch = ((),) * len(datas)
    if not manual:
        _CALL.bind(*datas, call=call, batch=batch, is_on_devices=False)
        return
    is_global = region is not None and region.mode == "global"  # the partitioner sets the device
    is_first = jnp.asarray(True) if is_global else lax.axis_index(manual) == 0
    _CALL.bind(is_first, *datas, call=call, batch=batch, is_on_devices=True)


@functools.cache
def _effect() -> frozenset[Hashable]:
    """Return the effect of `jax.debug.callback`, which JAX accepts in loops and derivatives."""
    jaxpr = jax.make_jaxpr(lambda: jax.debug.callback(lambda: None))()
    return frozenset(jaxpr.effects)


def _run(*operands: jax.Array, call: _HostCall, batch: _Batch, is_on_devices: bool) -> tuple[()]:
    run = functools.partial(jax.debug.callback, functools.partial(call.run, batch))
    if is_on_devices:
        first, *datas = operands
        lax.cond(first, lambda *datas: run(*datas), lambda *datas: None, *datas)
    else:
        run(*operands)
    return ()


def _lower(context: Any, *operands: Any, **params: Any) -> Any:
    """Lower a call. The first device is also the first along mesh axes that are not manual.

    JAX does not lower a callback if these are Explicit.
    """
    axes = context.module_context.axis_context
    others: tuple[str, ...] = ()
    if isinstance(axes, mlir.SPMDAxisContext):
        others = tuple(axis for axis in axes.mesh.axis_names if axis not in axes.manual_axes)

    def run(*operands: jax.Array, **params: Any) -> tuple[()]:
        if not others:
            return _run(*operands, **params)

        def on_all(first: jax.Array, *datas: jax.Array) -> tuple[()]:
            return _run(first & (lax.axis_index(others) == 0), *datas, **params)

        mapped = jax.shard_map(
            on_all,
            in_specs=(PartitionSpec(),) * len(operands),
            out_specs=(),
            axis_names=set(others),
        )
        mapped(*map(replicated, operands))
        return ()

    return mlir.lower_fun(run, multiple_results=True)(context, *operands, **params)


def _batch(
    axis: Any,
    operands: Sequence[Any],
    batched: Sequence[int | None],
    *,
    call: _HostCall,
    batch: _Batch,
    is_on_devices: bool,
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Call once with a batch axis in front, and not once for each element."""
    count = int(is_on_devices)
    hidden = axis.name if isinstance(axis.name, HiddenAxis) else None
    datas, axes = [], []
    for data, at, own in zip(operands[count:], batched[count:], batch, strict=True):
        if at is not None:
            data, own = jnp.moveaxis(data, at, 0), (hidden, *own)
            if hidden is not None and hidden.place and data.size:
                data = comm.all_gather(data, 0, hidden.place, "invarying")
        datas.append(data)
        axes.append(own)
    _CALL.bind(*operands[:count], *datas, call=call, batch=tuple(axes), is_on_devices=is_on_devices)
    return [], []


# Calls Python once. JAX does not repeat an unknown effect in the recomputation of a checkpoint.
_CALL = Primitive(CALL_OF_PYTHON)
_CALL.multiple_results = True
_CALL.def_impl(_run)
_CALL.def_effectful_abstract_eval(lambda *avals, **params: ([], _effect()))
ad.primitive_jvps[_CALL] = lambda primals, tangents, **params: (_CALL.bind(*primals, **params), [])
ad.primitive_transposes[_CALL] = lambda _, *operands, **params: [None] * len(operands)
batching.fancy_primitive_batchers[_CALL] = _batch
mlir.register_lowering(_CALL, _lower)
