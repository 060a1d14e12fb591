"""Device variance: the mesh axes over which a value differs from device to device.

JAX's checker gives every value in a `jax.shard_map` body a type with the mesh axes over which it
varies. namedax keeps that set within the mesh axes of the value's own names. If values of different
variance are combined, the one that varies less is cast (`jax.lax.pcast`). The cast is free, but its
transpose is an all-reduce. So it is made early, before a broadcast enlarges the value, and once. An
array caches its casts, so the gradient of a parameter with many uses is reduced once.

A gathered value can be computed in two ways. Gathered to invariant, it counts as replicated, and
the transpose of the gather is a slice. Gathered to varying, it varies over the mesh axes of the
gather, and the transpose is a reduce-scatter, which sends half as much as the all-reduce of a cast.
Code that returns the value needs the first; code that combines it with values that vary there needs
the second. So an array that was gathered to invariant has a *varying form*, a function that
computes its data varying over more mesh axes, and `cast` calls that function:

    gathered = with_varying_form(...)    the form gathers again, to varying
    y = f(gathered)                      by `keep_varying_form`, the form of `y` computes `f` again,
                                         of the cast of `gathered`
    cast(y, axes)                        returns the form of `y` for `axes`, and caches it

The result of an operation has a form only if one of its operands has one. The form is not used
where the gradients of all those operands would send more bytes than the gradient of one cast of the
result, unless these operands have been cast already. Then the form costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import get_opaque_trace_state
from jax.extend.source_info_util import current, user_context

from namedax.core.annotations import AnyArray
from namedax.core.array import BlockInfo, NamedArray, make_in_region, set_block
from namedax.core.cpu_workarounds import widened
from namedax.core.element_types import accumulation_type, to_type
from namedax.core.names import Dims

__all__ = [
    "UntrackedAxis",
    "cast",
    "cast_alike",
    "cast_data",
    "cast_together",
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


P = ParamSpec("P")
R = TypeVar("R")


def varying(data: jax.typing.ArrayLike) -> frozenset[str]:
    """Return the mesh axes over which `data` may differ from device to device."""
    axes: frozenset[str] = jax.typeof(data).manual_axis_type.varying
    return axes


def varying_of(aval: Any) -> frozenset[str]:
    """Return the mesh axes over which values of a type vary."""
    axes: frozenset[str] = aval.manual_axis_type.varying
    return axes


class UntrackedAxis(str):
    """An axis of placements that JAX's types do not track: a pipeline's microbatch axis."""

    __slots__ = ()


# --- casts of data --------------------------------------------------------------------------------


def _missing(data: jax.typing.ArrayLike, axes: frozenset[str]) -> frozenset[str]:
    """Return the axes over which `data` does not vary, without those that JAX does not track."""
    missing = axes - varying(data)
    return frozenset([axis for axis in missing if not isinstance(axis, UntrackedAxis)])


def cast_data(data: jax.Array, axes: Iterable[str]) -> jax.Array:
    """Cast `data` to varying over (at least) `axes`, without communication."""
    missing = _missing(data, frozenset(axes))
    if not missing:
        return data
    # The transpose is a sum, which rounds once.
    wide = widened(data)
    wide = to_type(wide, accumulation_type(wide.dtype))
    value = lax.pcast(wide, tuple(sorted(missing)), to="varying")
    return value if wide is data else value.astype(data.dtype)


def casts_automatically() -> bool:
    """Return True if `jax_auto_pcast` is enabled, as it is by default and on JAX without it."""
    return getattr(jax.config, "jax_auto_pcast", True)


def under_automatic_casts(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function with `jax_auto_pcast` enabled.

    The user, or a later version of JAX, may have disabled it.

    Named arrays are cast explicitly. Only constants are left. Constants of a body have no mesh axes
    to cast them over. Constants within JAX's own functions (`jax.nn.gelu`) and derivative rules
    cannot be cast elsewhere.
    """
    if casts_automatically():
        return function(*args, **kwargs)
    with jax.auto_pcast(True):
        return function(*args, **kwargs)


def cast_alike(values: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Cast values to one device variance."""
    if len(values) < 2:
        return values
    variances = {varying(value) for value in values}
    if len(variances) < 2:
        return values
    union = frozenset[str]().union(*variances)
    return [cast_data(jnp.asarray(value), union) for value in values]


# --- casts of named arrays ------------------------------------------------------------------------


def _block_here(array: NamedArray) -> BlockInfo | None:
    """Return the record of an array that was made in the current trace; otherwise `None`."""
    block = array._block
    return block if block is not None and block.trace == get_opaque_trace_state() else None


def cast(array: AnyArray, axes: frozenset[str]) -> jax.Array:
    """Return the data of `array` (named or not) varying over `axes`; a named array is cast once."""
    if type(array) is not NamedArray:
        return cast_data(array, axes)
    missing = _missing(array._data, axes)
    if not missing:
        return array._data
    block = _block_here(array)
    if block is None:
        return cast_data(array._data, missing)
    if missing not in block.casts:
        data = array._data if block.form is None else block.form(missing)
        block.casts[missing] = cast_data(data, missing)
    return block.casts[missing]


def cast_together(arrays: Sequence[AnyArray], axes: Iterable[str]) -> list[jax.Array]:
    """Return the data of arrays, varying over `axes` and the axes over which one of them varies."""
    datas = [x._data if type(x) is NamedArray else x for x in arrays]
    variances = [varying(data) for data in datas]
    union = frozenset(axes).union(*variances)
    each = zip(arrays, datas, variances, strict=True)
    return [data if own == union else cast(x, union) for x, data, own in each]


def was_cast(array: NamedArray, axes: frozenset[str]) -> bool:
    """Return True if `cast` has cast `array` over (at least) `axes` in this trace."""
    block = _block_here(array)
    return block is not None and any(axes <= over for over in block.casts)


def costs_nothing_to_cast(array: AnyArray, axes: frozenset[str]) -> bool:
    """Return True if the gradient of a cast over `axes` needs no communication of its own.

    It is reduced together with other gradients, or there is none.
    """
    data: Any = array
    if type(array) is NamedArray:
        if was_cast(array, axes):
            return True
        form = _form_of(array)
        if form is not None:
            return form.is_made(axes)
        data = array._data
    return not np.ndim(data) or not jnp.issubdtype(data.dtype, jnp.inexact) or varying(data) >= axes


def remembered(array: NamedArray, key: Hashable, compute: Callable[[], R]) -> R:
    """Return `compute()`, or its earlier result for this array and `key` in the same trace."""
    block = _block_here(array)
    if block is None:
        return compute()
    if key not in block.computed:
        block.computed[key] = compute()
    return block.computed[key]


def share_block(array: NamedArray, source: NamedArray) -> NamedArray:
    """Let `array` share the casts and the form of `source`, whose data it has under other dims."""
    own, other = array._block, source._block
    if (
        own is not None
        and other is not None
        and other.trace == own.trace
        and other.region == own.region
    ):
        set_block(array, other)
    return array


# --- varying forms --------------------------------------------------------------------------------


class _Form(NamedTuple):
    """The varying form of an array, as given to `keep_varying_form`.

    `data` is the data of the array.
    """

    make: Callable[[frozenset[str]], jax.Array]
    is_made: Callable[[frozenset[str]], bool]
    saves: bool
    data: jax.Array

    def __call__(self, wanted: frozenset[str]) -> jax.Array:
        """Return data that varies over `wanted` where that saves communication."""
        return self.make(wanted) if self.saves or self.is_made(wanted) else self.data


def _never(_: frozenset[str]) -> bool:
    """Return False: a gather always costs something."""
    return False


def keep_varying_form(
    array: NamedArray,
    form: Callable[[frozenset[str]], jax.Array],
    is_made: Callable[[frozenset[str]], bool] = _never,
    saves: bool = True,
) -> None:
    """Give `array` a varying form, unless it has one.

    Args:
      array: a gathered array, or an array computed from arrays with such forms.
      form: makes data that varies over the given mesh axes, in addition to those of its own names.
      is_made: for an array that was computed, returns True if the forms of its operands already
        exist, so that this one costs nothing more; by default the array is gathered.
      saves: True if the gradients of those forms send at most as many bytes as the gradient of a
        cast of `array`. Otherwise the form is used only if those forms exist. Default: True.
    """
    block = array._block
    if block is not None:
        block.region.state.has_gathered = True
        if block.form is None and block.trace == get_opaque_trace_state():
            block.form = _Form(_made_here(form), is_made, saves, array._data)


def _made_here(
    form: Callable[[frozenset[str]], jax.Array],
) -> Callable[[frozenset[str]], jax.Array]:
    """Return a form whose equations have the line and scopes of this operation.

    Otherwise they would have those of the operation that casts the array later.
    """
    source = current()

    def made(wanted: frozenset[str]) -> jax.Array:
        with user_context(source.traceback, name_stack=source.name_stack):
            return form(wanted)

    return made


def with_varying_forms(dims: Dims, form: Callable[[frozenset[str]], jax.Array]) -> NamedArray:
    """Return a gathered array with a form for all mesh axes over which it may have to vary.

    Args:
      dims: its dims.
      form: makes the value that varies over the given mesh axes, in addition to those of its own
        names. Over mesh axes of the gather, the gather's transpose is a reduce-scatter. Over others
        the value is cast before it is gathered, while it is small.
    """
    array = make_in_region(form(frozenset()), dims)
    keep_varying_form(array, form)
    return array


def with_varying_form(
    data: jax.Array, dims: Dims, axes: frozenset[str], form: Callable[[], jax.Array]
) -> NamedArray:
    """Return an array that was gathered over `axes`, with a form that varies over all of them.

    Args:
      data: the gathered value, invariant over `axes` (its transpose is a slice).
      dims: its dims.
      axes: the mesh axes of the gather.
      form: makes the same value varying over `axes` (its transpose is a reduce-scatter). Without
        it, the transpose of a cast of `data` would be an all-reduce and a slice.
    """
    return with_varying_forms(dims, lambda wanted: form() if axes <= wanted else data)


def _form_of(array: object) -> _Form | None:
    return array._block.form if type(array) is NamedArray and array._block is not None else None


def has_varying_form(array: object) -> bool:
    """Return True if `array` has a varying form: it was gathered, or computed from such arrays."""
    return _form_of(array) is not None


def saves_when_cast(array: object) -> bool:
    """Return True if `array` has a varying form whose gradient is always a reduce-scatter.

    This does not depend on what else has been cast.
    """
    form = _form_of(array)
    return form is not None and form.saves
