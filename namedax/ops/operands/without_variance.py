"""Run a function of blocks without JAX's variance checker, where the checker rejects it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import PartitionSpec

from namedax.core.names import PyTree
from namedax.core.region import enter
from namedax.core.variance import cast_data, varying
from namedax.errors import SerialLoopError
from namedax.programs.evaluator import collective_axes, consts_to_inputs
from namedax.programs.varying_loops import with_varying_loops
from namedax.resources.serial import LoopAxis

__all__ = ["is_inexact", "with_variance", "without_variance"]


def with_variance(
    function: Callable[..., Any], axes: frozenset[str], datas: Sequence[Any]
) -> PyTree:
    """Return `function(*datas)`, which JAX's variance checker accepts with types that are wrong.

    A loop whose number of iterations differs from device to device, and a callback, have results
    that JAX types as equal on all devices. Their cast to varying would sum cotangents over devices.
    """
    try:
        return with_varying_loops(function, axes, datas)
    except (TypeError, ValueError) as error:
        return without_variance(function, axes, datas, error)


def without_variance(
    function: Callable[..., Any], axes: frozenset[str], datas: Sequence[Any], error: Exception
) -> PyTree:
    """Return `function(*datas)` without JAX's variance checker, which rejected it with `error`.

    The checker rejects a loop that begins with a constant and continues with values that vary over
    `axes`. It also rejects a kernel whose type does not mention variance. A positional function
    cannot avoid this. But it acts only on the data of its device, so there is nothing to check.

    Raises:
      Exception: `error`, if the function has another fault.
      SerialLoopError: they are executed in steps, and casts of carries of loops do not suffice.
    """
    if loops := [axis for axis in axes if isinstance(axis, LoopAxis)]:
        try:
            return with_varying_loops(function, axes, datas)
        except (TypeError, ValueError):
            raise SerialLoopError(
                f"SerialLoop: {min(loops)} cannot be executed in steps in a lifted function that"
                " JAX's checker of device variance rejects, or types wrongly, such as one with a"
                " Pallas kernel, or with a callback in a derivative rule. Map the axis to mesh axes"
                " only, or call the function outside of the mapped function."
            ) from error
    # A Python number stays a number: it may be an axis, and its derivative is never needed.
    places = [i for i, data in enumerate(datas) if hasattr(data, "dtype")]
    numbers, arrays = datas, [datas[i] for i in places]

    def of_arrays(*arrays: jax.Array) -> PyTree:
        filled = list(numbers)
        for i, value in zip(places, arrays, strict=True):
            filled[i] = value
        return function(*filled)

    with enter(None):  # here no name has a placement: unchecked code must not communicate
        try:
            closed, tree = _traced(of_arrays, axes, arrays)
        except Exception:
            raise error from None
    if (
        any(varying(const) for const in closed.consts)
        or collective_axes(closed.jaxpr, or_index=True) & axes
    ):
        raise error
    if not any(isinstance(const, jax.core.Tracer) for const in closed.consts):
        with enter(None):
            return _unchecked(of_arrays, axes)(*arrays)
    # What the function closes over needs a gradient: casts give it, or it becomes an argument.
    with contextlib.suppress(TypeError, ValueError):
        return with_varying_loops(function, axes, numbers)
    run = jaxpr_as_fun(ClosedJaxpr(consts_to_inputs(closed.jaxpr), ()))
    values = [cast_data(jnp.asarray(value), axes) for value in (*closed.consts, *arrays)]
    return jax.tree.unflatten(tree, _unchecked(run, axes)(*values))


def _traced(
    function: Callable[..., PyTree], axes: frozenset[str], arrays: Sequence[jax.Array]
) -> tuple[ClosedJaxpr, jax.tree_util.PyTreeDef]:
    """Return the jaxpr of a function of arrays, without variance, and the tree of its results."""
    found = []

    def body(*arrays: jax.Array) -> Sequence[jax.Array]:
        found.append(jax.make_jaxpr(function, return_shape=True)(*_reshaped(*arrays)))
        return arrays

    jax.make_jaxpr(_without_check(body, axes))(*arrays)
    closed, shape = found[0]
    return closed, jax.tree.structure(shape)


def _without_check(body: Callable[..., Any], axes: frozenset[str]) -> Callable[..., Any]:
    # The mesh axes are manual already, so this changes only the types.
    mapped = jax.shard_map(
        body,
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(),
        axis_names=axes,
        check_vma=False,
    )
    # for bodies that are not compiled: JAX's interpreter checks either all or nothing
    return jax.jit(mapped)


def _reshaped(*datas: jax.Array) -> tuple[jax.Array, ...]:
    """Return arrays whose types have no variance, unlike those of arguments, without the check."""
    return tuple(lax.squeeze(lax.expand_dims(data, (0,)), (0,)) for data in datas)


def _unchecked(function: Callable[..., Any], axes: frozenset[str]) -> Callable[..., Any]:
    """Return `function` without JAX's variance check; its arguments and results vary over `axes`.

    It has no forward derivative.
    """
    # Arguments keep their variance; the results of operations have none.
    without_types, run = _without_check(_reshaped, axes), _without_check(function, axes)

    @jax.custom_vjp
    def call(*datas: jax.Array) -> PyTree:
        return jax.tree.map(lambda leaf: cast_data(leaf, axes), run(*without_types(*datas)))

    def forward(*datas: jax.Array) -> tuple[PyTree, Sequence[jax.Array]]:
        return call(*datas), datas

    def backward(datas: Sequence[Any], cotangent: PyTree) -> tuple[jax.typing.ArrayLike, ...]:
        leaves, count = jax.tree.leaves(cotangent), len(datas)
        places = [i for i, data in enumerate(datas) if is_inexact(data)]
        given = [i for i, leaf in enumerate(leaves) if leaf.dtype != jax.dtypes.float0]

        def pull(*values: jax.Array) -> tuple[jax.Array, ...]:
            datas, cotangents = values[:count], values[count:]

            def of(*values: jax.Array) -> list[jax.Array]:
                filled = list(datas)
                for i, value in zip(places, values, strict=True):
                    filled[i] = value
                results = jax.tree.leaves(function(*filled))
                return [results[i] for i in given]

            with enter(None):
                return jax.vjp(of, *(datas[i] for i in places))[1](list(cotangents))

        # Also unchecked, and so on for derivatives of higher order.
        pulled = iter(_unchecked(pull, axes)(*datas, *(leaves[i] for i in given)) if given else ())
        return tuple(
            next(pulled) if given and i in places else _no_cotangent(data)
            for i, data in enumerate(datas)
        )

    call.defvjp(forward, backward)
    return call


def is_inexact(data: jax.typing.ArrayLike) -> bool:
    """Return True if the dtype of an array or a number has derivatives."""
    return bool(jnp.issubdtype(getattr(data, "dtype", None) or jnp.result_type(data), jnp.inexact))


def _no_cotangent(data: jax.typing.ArrayLike) -> jax.typing.ArrayLike:
    return jnp.zeros_like(data) if is_inexact(data) else np.zeros(np.shape(data), jax.dtypes.float0)
