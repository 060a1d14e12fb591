"""Device variance: over which mesh axes a value differs from device to device.

JAX's checker gives every value in a `jax.shard_map` body a type that says over which mesh axes it
varies. namedax keeps that set within the mesh axes of the value's own names. Where values of
different variance meet, the one that varies less is cast (`jax.lax.pcast`). The cast is free, but
its transpose is an all-reduce, so it is made early (before a broadcast makes the value larger) and
once: an array keeps its casts, and a parameter that is used many times has its gradient reduced
once.

A value that was gathered has two forms. In the one it counts as replicated, and the transpose of the gather is a slice. In the
other it varies over the mesh axes that it was gathered over, and the transpose is a reduce-scatter. Code that returns the value
wants the first form; code that combines it with values that vary there wants the second. So a gathered array keeps the means to
make both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import get_opaque_trace_state
from jax.extend.source_info_util import current, user_context

from namedax.core.array import BlockInfo, NamedArray, make_in_region, set_block
from namedax.core.cpu_workarounds import widened
from namedax.core.names import Dims

__all__ = [
    "UntrackedAxis",
    "cast",
    "cast_alike",
    "cast_data",
    "costs_nothing_to_cast",
    "has_varying_form",
    "keep_varying_form",
    "remembered",
    "saves_when_cast",
    "share_block",
    "under_automatic_casts",
    "varying",
    "varying_of",
    "was_cast",
    "with_varying_form",
    "with_varying_forms",
]


def varying(data: Any) -> frozenset[str]:
    """The mesh axes over which `data` may differ from device to device."""
    axes: frozenset[str] = jax.typeof(data).manual_axis_type.varying
    return axes


def varying_of(aval: Any) -> frozenset[str]:
    """The mesh axes over which values of a type vary."""
    axes: frozenset[str] = aval.manual_axis_type.varying
    return axes


def cast_data(data: Any, axes: Iterable[str]) -> Any:
    """`data` as a value that varies over (at least) `axes`; moves nothing."""
    missing = frozenset(axes) - varying(data)
    if missing:
        missing = _tracked(missing)
    if not missing:
        return data
    wide = widened(data)  # the transpose is a sum
    value = lax.pcast(wide, tuple(sorted(missing)), to="varying")
    return value if wide is data else value.astype(data.dtype)


def under_automatic_casts(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with `jax_auto_pcast` switched on, where the user or a later version of JAX has switched it off.

    Arrays with names are cast explicitly. What is left are constants: those of a body, which has no mesh axes to cast them over, and those within
    JAX's own functions (`jax.nn.gelu`) and derivative rules, which nobody else can cast.
    """
    if getattr(jax.config, "jax_auto_pcast", True):
        return function(*args, **kwargs)
    with jax.auto_pcast(True):
        return function(*args, **kwargs)


class UntrackedAxis(str):
    """An axis that placements have and JAX's types do not know: that of a pipeline's microbatches."""

    __slots__ = ()


def _tracked(axes: frozenset[str]) -> frozenset[str]:
    return frozenset(axis for axis in axes if not isinstance(axis, UntrackedAxis))


def cast_alike(values: Sequence[Any]) -> Sequence[Any]:
    """The values, cast to one device variance."""
    if len(values) < 2:
        return values
    variances = {varying(value) for value in values}
    if len(variances) < 2:
        return values
    union = frozenset[str]().union(*variances)
    return [cast_data(jnp.asarray(value), union) for value in values]


def _block_here(array: NamedArray) -> BlockInfo | None:
    """Return the record of an array that was made in the trace that is being made; `None` if it was made in another one."""
    block = array._block
    return block if block is not None and block.trace == get_opaque_trace_state() else None


def remembered(array: NamedArray, key: Hashable, compute: Callable[[], Any]) -> Any:
    """Return `compute()`, or its earlier result for this array and `key` in the same trace."""
    block = _block_here(array)
    if block is None:
        return compute()
    if key not in block.computed:
        block.computed[key] = compute()
    return block.computed[key]


def share_block(array: NamedArray, source: NamedArray) -> NamedArray:
    """Let `array`, which has the data of `source` under other dims, share the forms that have been computed for `source`."""
    own, other = array._block, source._block
    if own is not None and other is not None and other.trace == own.trace and other.region == own.region:
        set_block(array, other)
    return array


def with_varying_form(data: Any, dims: Dims, axes: frozenset[str], form: Callable[[], Any]) -> NamedArray:
    """An array that was gathered over `axes`, with a form that varies over all of them.

    Args:
      data: the gathered value, invarying over `axes` (its transpose is a slice).
      dims: its dims.
      axes: the mesh axes that it was gathered over.
      form: makes the same value varying over `axes` (its transpose is a reduce-scatter). Without it a cast of `data` would be
        transposed to an all-reduce and a slice.
    """
    array = make_in_region(data, dims)
    keep_varying_form(array, lambda wanted: form() if axes <= wanted else data)
    return array


def with_varying_forms(dims: Dims, form: Callable[[frozenset[str]], Any]) -> NamedArray:
    """An array that was gathered, with a form for all mesh axes over which it may have to vary.

    Args:
      dims: its dims.
      form: makes the value that varies over the mesh axes that it is given (besides those of its own names). Over those of them
        that it was gathered over, the gather's transpose is a reduce-scatter; over others the value is cast before it is
        gathered, while it is small.
    """
    array = make_in_region(form(frozenset()), dims)
    keep_varying_form(array, form)
    return array


def keep_varying_form(
    array: NamedArray,
    form: Callable[[frozenset[str]], Any],
    is_made: Callable[[frozenset[str]], bool] | None = None,
    saves: bool = True,
) -> None:
    """Lets `array` have a varying form, as that of `with_varying_forms`.

    Args:
      array: what was gathered, or is computed from arrays with such forms.
      form: makes it.
      is_made: whether the forms that this one is made of have been made, so that it costs nothing more; default: it is made of none.
      saves: whether the gradients of the forms that it is made of send no more than that of a cast of `array`. Otherwise it is given only where
        these forms have been made.
    """
    block = array._block
    if block is not None:
        block.region.state.has_gathered = True
        if block.form is None and block.trace == get_opaque_trace_state():
            block.form = _Form(_made_here(form), is_made, saves, array._data)


def _made_here(form: Callable[[frozenset[str]], Any]) -> Callable[[frozenset[str]], Any]:
    """Return a form whose equations have the line and the scopes of this operation, and not of the one that casts the array later."""
    source = current()

    def made(wanted: frozenset[str]) -> Any:
        with user_context(source.traceback, name_stack=source.name_stack):
            return form(wanted)

    return made


class _Form(NamedTuple):
    """The varying form of an array, as `keep_varying_form` has it."""

    make: Callable[[frozenset[str]], Any]
    is_made: Callable[[frozenset[str]], bool] | None
    saves: bool
    data: Any

    def __call__(self, wanted: frozenset[str]) -> Any:
        return self.make(wanted) if self.saves or self.is_made is None or self.is_made(wanted) else self.data


def has_varying_form(array: Any) -> bool:
    """Whether `array` was gathered, or computed from arrays that were, and has a form for code that needs it to vary."""
    return type(array) is NamedArray and array._block is not None and array._block.form is not None


def saves_when_cast(array: Any) -> bool:
    """Whether `array` has a form for code that needs it to vary, whose gradient is a reduce-scatter whatever else has been cast."""
    return has_varying_form(array) and bool(array._block.form.saves)


def costs_nothing_to_cast(array: Any, axes: frozenset[str]) -> bool:
    """Whether the gradient of a cast of `array` over `axes` goes with others that are reduced anyway, or there is none."""
    if type(array) is not NamedArray:
        data = array
    elif was_cast(array, axes):
        return True
    else:
        form = None if array._block is None else array._block.form
        if form is not None:
            return form.is_made is not None and bool(form.is_made(axes))
        data = array._data
    return not np.ndim(data) or not jnp.issubdtype(data.dtype, jnp.inexact) or varying(data) >= axes


def cast(array: Any, axes: frozenset[str]) -> Any:
    """The data of `array` (named or not) varying over `axes`; a named array is cast once."""
    if type(array) is not NamedArray:
        return cast_data(array, axes)
    missing = axes - varying(array._data)
    if missing:
        missing = _tracked(missing)
    if not missing:
        return array._data

    block = _block_here(array)
    if block is None:
        return cast_data(array._data, missing)
    if missing not in block.casts:
        block.casts[missing] = cast_data(array._data if block.form is None else block.form(missing), missing)
    return block.casts[missing]


def was_cast(array: NamedArray, axes: frozenset[str]) -> bool:
    """Whether `array` has been cast over (at least) `axes` in this trace, by `cast`."""
    block = _block_here(array)
    return block is not None and any(axes <= over for over in block.casts)
