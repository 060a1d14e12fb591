"""One call of a Python function for a whole program: the primitive behind `nx.debug`.

A `jax.debug.callback` in a `jax.shard_map` calls Python on every device, once for each element of a
`jax.vmap`, and again in the recomputation of a `jax.checkpoint`. The primitive of this module calls
it once: on the first device, with batch axes in front, and never in a recomputation. Its operands
are gathered before, by collectives, so all devices agree about the values of one call. The call
itself waits for nothing, so no device can wait for it forever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from namedax.core.region import HiddenAxis, ambient
from namedax.primitives.calls import CALL_OF_PYTHON
from namedax.resources import communication as comm
from namedax.resources.mesh import replicated

__all__ = ["BatchAxis", "HostCall", "call_once"]

#: An axis in front of an operand: the name that a function of single elements hides, or `None` for
#: that of a user's `jax.vmap`.
BatchAxis = HiddenAxis | None
_Batch = tuple[tuple[BatchAxis, ...], ...]


class HostCall:
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


def call_once(call: HostCall, datas: Sequence[jax.Array]) -> None:
    """Make the program that is traced call `call` once with `datas`, on the first device.

    In a `jax.shard_map`, `datas` must be equal on all devices, but for axes that are batched by a
    function over a hidden name (`HiddenAxis`). These are gathered where they are batched.
    """
    region = ambient()
    mesh = jax.sharding.get_abstract_mesh()
    manual = tuple(mesh.manual_axes)
    batch: _Batch = ((),) * len(datas)
    if not manual:
        CALL.bind(*datas, call=call, batch=batch, is_on_devices=False)
        return
    is_global = region is not None and region.mode == "global"  # the partitioner sets the device
    is_first = jnp.asarray(True) if is_global else lax.axis_index(manual) == 0
    CALL.bind(is_first, *datas, call=call, batch=batch, is_on_devices=True)


@functools.cache
def _effect() -> frozenset[Hashable]:
    """Return the effect of `jax.debug.callback`, which JAX accepts in loops and derivatives."""
    jaxpr = jax.make_jaxpr(lambda: jax.debug.callback(lambda: None))()
    return frozenset(jaxpr.effects)


def _run(*operands: jax.Array, call: HostCall, batch: _Batch, is_on_devices: bool) -> tuple[()]:
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
    call: HostCall,
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
    CALL.bind(*operands[:count], *datas, call=call, batch=tuple(axes), is_on_devices=is_on_devices)
    return [], []


#: Calls Python once. JAX does not repeat an unknown effect in the recomputation of a checkpoint.
CALL = Primitive(CALL_OF_PYTHON)
CALL.multiple_results = True
CALL.def_impl(_run)
CALL.def_effectful_abstract_eval(lambda *avals, **params: ([], _effect()))
ad.primitive_jvps[CALL] = lambda primals, tangents, **params: (CALL.bind(*primals, **params), [])
ad.primitive_transposes[CALL] = lambda _, *operands, **params: [None] * len(operands)
batching.fancy_primitive_batchers[CALL] = _batch
mlir.register_lowering(CALL, _lower)
