"""Convolution over named axes: `conv` and `conv_transpose`, and NumPy's `convolve`.

Over a sharded axis a device receives the rows that its windows need beyond its block (`halo`), and
computes its own block.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import AnyArray, ArrayLike, LikeArguments
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims, DType, MeshAxes
from namedax.core.padded_sharding import Uneven
from namedax.core.records import Record
from namedax.core.region import Region, ambient, enter
from namedax.core.reshape import as_one
from namedax.core.variance import cast_alike, with_varying_form
from namedax.errors import AxisResourceError, PositionalAxisError, format_value
from namedax.ops.operands.axes import new_names, unwrap_single
from namedax.ops.operands.broadcasting import constrain_sharding, make_result, to_local
from namedax.ops.operands.nmap import Lifted, nmap
from namedax.ops.operands.one_axis import Along, along
from namedax.ops.operands.operation import operation
from namedax.ops.operands.pytree import data_of
from namedax.ops.window.windows import (
    Plan,
    Window,
    check_together,
    padding_of,
    per_axis,
    plan_transposed,
    plan_window,
    refilled_windows,
    spread,
    transposed_padding,
    whole_for_partitioner,
)
from namedax.resources import communication as comm
from namedax.resources.padding_masks import refilled

__all__ = ["conv", "conv_transpose", "convolve", "without_constraints"]


@operation(scope=True, on_blocks=True)
def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    axis: Hashable | Sequence[Hashable],
    *,
    kernel_axis: Hashable | Sequence[Hashable] | None = None,
    features_in: Hashable | None = None,
    features_out: Hashable | None = None,
    strides: int | Sequence[int] = 1,
    padding: str | Sequence[tuple[int, int]] = "SAME",
    kernel_dilation: int | Sequence[int] = 1,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Convolve over named axes, as in neural networks (without reversing the kernel).

    Args:
      x: a named array. Its other axes are batch axes.
      kernel: a named array with the axes `kernel_axis`, `features_in` and `features_out`. Its other
        axes are batch axes, shared with `x` if `x` has them: a kernel with the name of the channels
        and no `features_in` gives a depthwise convolution.
      axis: the axes of `x` to convolve over, such as `("h", "w")`, or one.
      kernel_axis: the corresponding axes of `kernel`, such as `("kh", "kw")`; by default its
        positional axes, in order.
      features_in: the contracted axis of both, or `None` (default).
      features_out: the axis of `kernel` that the result takes over, or `None` (default).
      strides: one for all axes, or one for each; by default 1.
      padding: `"SAME"` (default; the result has `ceil(size / stride)` elements), `"VALID"`, or a
        pair `(before, after)` for each axis.
      kernel_dilation: the distance between elements of the kernel, one for all axes, or one for
        each; by default 1.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` for one axis; by default `None`.
        Required in a mapped function for axes that change their size.
      precision: as in `lax.conv_general_dilated`; by default `None`.
      preferred_element_type: as in `lax.conv_general_dilated`; by default `None`.

    Returns:
      The convolution, with the axes of `x` except `features_in`, and `features_out`.

    Communication: along a sharded axis each device receives the boundary rows that the kernel
    reaches, by collective-permutes (a corner takes two). A sharded `features_in` costs one
    all-reduce. Nothing is gathered, except an axis with an `out_axis` name that is not sharded over
    its mesh axes.

    Raises:
      AxisNotFoundError: `x` or `kernel` lacks an axis.
      AxisSizeError: an axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((8, 6, 6, 3)), ["batch", "h", "w", "c"])
    >>> kernel = nx.named(jnp.ones((3, 3, 3, 5)), ["kh", "kw", "c", "d"])
    >>> features = {"features_in": "c", "features_out": "d"}
    >>> y = nx.conv(x, kernel, ("h", "w"), kernel_axis=("kh", "kw"), strides=2, **features)
    >>> dict(y.named_shape)
    {'batch': 8, 'h': 3, 'w': 3, 'd': 5}
    """
    geometry = _Geometry(strides, padding, kernel_dilation, out_axis)
    features = _Features(features_in, features_out)
    return _by_name(
        "conv", x, kernel, axis, kernel_axis, features, geometry, precision, preferred_element_type
    )


@operation(scope=True, on_blocks=True)
def conv_transpose(
    x: ArrayLike,
    kernel: ArrayLike,
    axis: Hashable | Sequence[Hashable],
    *,
    kernel_axis: Hashable | Sequence[Hashable] | None = None,
    features_in: Hashable | None = None,
    features_out: Hashable | None = None,
    strides: int | Sequence[int] = 1,
    padding: str | Sequence[tuple[int, int]] = "SAME",
    kernel_dilation: int | Sequence[int] = 1,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    precision: lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> AnyArray:
    """Apply a transposed convolution, which enlarges named axes, as `jax.lax.conv_transpose`.

    It is the convolution of the array with `stride - 1` zeros between its elements. The kernel is
    not reversed: for the transpose of `nx.conv`, reverse it along its axes (`nx.flip`).

    Args:
      x: a named array. Its other axes are batch axes.
      kernel: as in `nx.conv`.
      axis: the axes of `x`, such as `("h", "w")`, or one.
      kernel_axis: as in `nx.conv`; by default the positional axes of `kernel`.
      features_in: the contracted axis of both, or `None` (default).
      features_out: the axis of `kernel` that the result takes over, or `None` (default).
      strides: the factor by which axes grow, one for all, or one for each; by default 1.
      padding: `"SAME"` (default; the result has `size * stride` elements), `"VALID"`, or a pair
        `(before, after)` for each axis: rows around the array with its zeros. `"VALID"` gives `size
        * stride + max(reach - stride, 0)` elements, all that the kernel reaches.
      kernel_dilation: as in `nx.conv`; by default 1.
      out_axis: new names for axes, `{"h": "h_out"}`, or `"h_out"` for one axis; by default `None`.
        Required in a mapped function for axes that change their size.
      precision: as in `nx.conv`; by default `None`.
      preferred_element_type: as in `nx.conv`; by default `None`.

    Returns:
      The result, with the axes of `x` except `features_in`, and `features_out`.

    Communication: as for `nx.conv`. Along a sharded axis with a new name on the same mesh axes, the
    boundary rows that the kernel reaches.

    Raises:
      AxisNotFoundError: `x` or `kernel` lacks an axis.
      AxisSizeError: an axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes. Also if its blocks are not multiples of the stride.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0]), ["w"])
    >>> nx.positional(nx.conv_transpose(x, jnp.array([1.0, 10.0]), ("w",), strides=2), ["w"])
    Array([10.,  1., 20.,  2.], dtype=float32)
    """
    geometry = _Geometry(strides, padding, kernel_dilation, out_axis)
    features = _Features(features_in, features_out)
    return _by_name(
        "conv_transpose",
        x,
        kernel,
        axis,
        kernel_axis,
        features,
        geometry,
        precision,
        preferred_element_type,
    )


class _Geometry(NamedTuple):
    """The geometry of windows along the axes, as given by the user."""

    strides: Any
    padding: Any
    dilation: Any
    out_axis: Any


class _Features(NamedTuple):
    """The contracted axis, and the new axis from the kernel."""

    contracted: Hashable | None
    new: Hashable | None


def _by_name(
    op: str,
    x: ArrayLike,
    kernel: ArrayLike,
    axes: Hashable | Sequence[Hashable],
    kernel_axis: Any,
    features: _Features,
    geometry: _Geometry,
    *precision: Any,
) -> AnyArray:
    """Run `conv` or `conv_transpose`."""
    axes = tuple(axes) if isinstance(axes, Sequence) and not isinstance(axes, str) else (axes,)
    region = ambient()
    x, kernel = to_local(x, op, region), to_local(kernel, op, region)
    for name in axes:
        along(op, x, name, supports_padding=op == "conv")
    kernel_axis = _check_kernel_axes(op, kernel, axes, kernel_axis)
    strides = per_axis(op, "strides", geometry.strides, axes)
    dilation = per_axis(op, "kernel_dilation", geometry.dilation, axes)
    renamed = new_names(op, geometry.out_axis, axes, f"axis={axes}")
    weights, taps = _arrange_kernel(op, kernel, kernel_axis, features)
    mesh_axes = () if features.contracted is None else along(op, x, features.contracted).old
    plans, zeros = [], []
    for i, name in enumerate(axes):
        reach = (taps[i] - 1) * dilation[i] + 1
        if op == "conv_transpose":
            pair = transposed_padding(op, geometry.padding, axes, i, strides[i], reach)
            plan, pair = plan_transposed(op, x, name, renamed.get(name), reach, strides[i], pair)
        else:
            size = along(op, x, name, supports_padding=True).size
            pair = padding_of(op, geometry.padding, axes, i, size, strides[i], reach)
            plan = plan_window(op, x, name, renamed.get(name), "kernel", reach, strides[i], pair)
            if plan.old or plan.new or min(pair) < 0:
                pair = (0, 0)
            else:  # by the convolution itself: a padded copy would be a residual
                plan = plan.replace(first=0, length=size)
        plans.append(plan)
        zeros.append(pair)
    steps, spacing = ((1,) * len(axes), strides) if op == "conv_transpose" else (strides, None)
    local = functools.partial(_conv, len(axes), steps, spacing, zeros, dilation, *precision)
    return _Convolution(op, x, weights, axes, features, plans, mesh_axes, local).result()


def _check_kernel_axes(
    op: str, kernel: ArrayLike, axes: tuple[Hashable, ...], kernel_axis: Any
) -> tuple[Hashable, ...] | None:
    """Return the names of the kernel's axes, or `None` if they are its positional axes."""
    positional = dims_of(kernel).count(None)
    if kernel_axis is None:
        if positional != len(axes):
            raise PositionalAxisError(
                f"{op}: the kernel {type_text(kernel)} has {positional} positional axes for the"
                f" {len(axes)} axes {axes}. Pass kernel_axis=."
            )
        return None
    names: tuple[Hashable, ...] = (
        (kernel_axis,) if isinstance(kernel_axis, str) else tuple(kernel_axis)
    )
    if len(names) != len(axes) or positional:
        raise PositionalAxisError(
            f"{op}: kernel_axis={names} must be one name for each of {axes}, and the kernel"
            f" {type_text(kernel)} must have no other positional axis."
        )
    return names


def _arrange_kernel(
    op: str, kernel: ArrayLike, kernel_axis: tuple[Hashable, ...] | None, features: _Features
) -> tuple[Any, tuple[int, ...]]:
    """Transpose the kernel to its named axes and `[new, contracted, *taps]`.

    Return it, and the number of taps of each axis.
    """
    dims = dims_of(kernel)
    places = [
        along(op, kernel, name, supports_padding=name == features.new).dim
        for name in (features.new, features.contracted)
        if name is not None
    ]
    for name in kernel_axis or ():
        if sharded := along(op, kernel, name).old:
            raise AxisResourceError(
                f"{op}: the kernel's axis {name!r} is sharded over mesh axis"
                f" {', '.join(map(repr, sharded))}, but every device needs the complete window."
                f" Leave {name!r} unmapped, or rename the kernel's axis with nx.rename(kernel,"
                f" {{{name!r}: 'tap'}})."
            )
        places.append(dims.index(name))
    if kernel_axis is None:
        places += [i for i, dim in enumerate(dims) if dim is None]
    batch = [i for i in range(len(dims)) if i not in places]
    data = kernel._data if isinstance(kernel, NamedArray) else jnp.asarray(kernel)
    data = lax.transpose(data, [*batch, *places])
    for i, name in enumerate((features.new, features.contracted)):
        if name is None:
            data = jnp.expand_dims(data, len(batch) + i)
    labels = tuple(dims[i] for i in batch)
    taps = data.shape[len(batch) + 2 :]
    # XLA's partitioner fails, or computes wrong results, if it shards an axis of the windows, or
    # shards the result differently.
    data = constrain_sharding(
        data, (*labels, features.new, features.contracted, *(None,) * len(taps))
    )
    return make_in_region(data, (*labels, *(None,) * (len(taps) + 2))) if batch else data, taps


class _Convolution(Record):
    """A convolution with known plans.

    Attributes:
      op: the operation.
      x: the local block.
      kernel: the kernel as `_arrange_kernel` returns it.
      axes: the axes of `x`, one for each axis of taps.
      features: the contracted axis and the new axis.
      plans: the windows along each axis.
      mesh_axes: the mesh axes of the contracted axis.
      local: the convolution of `[*batch, contracted, *axes]` with the kernel.
    """

    op: str
    x: Any
    kernel: Any
    axes: tuple[Hashable, ...]
    features: _Features
    plans: Sequence[Plan]
    mesh_axes: tuple[str, ...]
    local: Callable[..., Any]

    def result(self) -> AnyArray:
        """Compute the convolution, with a form that varies over the mesh axes of gathered axes."""
        gathered = frozenset[str]().union(*(plan.gathered for plan in self.plans))
        data, dims = self._compute(frozenset())
        check_together(self.op, dims)
        if not gathered:
            return make_result(data, dims)
        return with_varying_form(data, dims, gathered, lambda: self._compute(gathered)[0])

    def _compute(self, keep: frozenset[str]) -> tuple[Any, Dims]:
        value = spread(self.op, self.x, self.plans, keep)
        if self.op == "conv_transpose":
            value = make_in_region(
                whole_for_partitioner(value._data, self.x._dims, self.axes), value._dims
            )
        x, count, contracted = value._data, len(self.axes), self.features.contracted
        if self._is_in_place(value._dims):
            return self._in_place(x, value._dims)
        own = [] if contracted is None else [value._dims.index(contracted)]
        own += [value._dims.index(Window(name)) for name in self.axes]
        named = [i for i, dim in enumerate(value._dims) if dim is not None and i not in own]
        rest = [i for i, dim in enumerate(value._dims) if dim is None]
        x = lax.transpose(x, [*named, *rest, *own])
        if contracted is None:
            x = jnp.expand_dims(x, len(named) + len(rest))
        batch = (*(value._dims[i] for i in named), *(None,) * len(rest))
        x = constrain_sharding(x, (*batch, contracted, *(None,) * count))
        dims = batch + (None,) * (1 + count)
        if not isinstance(self.kernel, NamedArray):  # all named axes of x form one batch
            value = self.local(*cast_alike([x, self.kernel]))
            return self._with_names(make_in_region(value, dims) if named else value)
        array = make_in_region(x, dims) if named else x
        with without_constraints(ambient()):
            value = nmap(self.local)(array, self.kernel)
        return self._with_names(value)

    def _is_in_place(self, dims: Dims) -> bool:
        """Return True if the axes can keep their order, with one batch and one feature axis."""
        has_features = self.features.contracted is not None and self.features.new is not None
        return (
            self.op == "conv"
            and has_features
            and len(dims) == len(self.axes) + 2
            and not isinstance(self.kernel, NamedArray)
        )

    def _in_place(self, x: jax.Array, dims: Dims) -> tuple[Any, Dims]:
        """Compute the result in the order of `x`, without a transpose."""
        at = dims.index(self.features.contracted)
        windows = [dims.index(Window(name)) for name in self.axes]
        (batch,) = (i for i in range(len(dims)) if i != at and i not in windows)
        results = {Window(plan.axis): plan.out_axis for plan in self.plans} | {
            self.features.contracted: self.features.new
        }
        x = constrain_sharding(
            x, tuple(None if i in windows else dim for i, dim in enumerate(dims))
        )
        order = (batch, at, *windows)
        x, kernel = cast_alike([x, self.kernel])
        data = self.local(x, kernel, (order, tuple(range(kernel.ndim)), order))
        dims = tuple(results.get(dim, dim) for dim in dims)
        data = constrain_sharding(
            data, tuple(None if i in windows else dim for i, dim in enumerate(dims))
        )
        return refilled_windows(comm.psum(data, self.mesh_axes), dims, self.plans), dims

    def _with_names(self, value: AnyArray) -> tuple[Any, Dims]:
        """Name the last axes of the result of `local`, and sum over the contracted axis."""
        dims, count, new = dims_of(value), len(self.axes), self.features.new
        data = data_of(value)
        at = len(dims) - count - 1
        if new is None:
            data = lax.squeeze(data, (at,))
        batch = dims[:at] if new is None else (*dims[:at], new)
        data = constrain_sharding(data, (*batch, *(None,) * count))
        dims = (*batch, *(plan.out_axis for plan in self.plans))
        return refilled_windows(comm.psum(data, self.mesh_axes), dims, self.plans), dims


def _conv(
    count: int,
    stride: Sequence[int],
    spacing: Sequence[int] | None,
    zeros: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    precision: lax.PrecisionLike,
    element_type: DType | None,
    x: jax.Array,
    kernel: jax.Array,
    numbers: tuple[Sequence[int], Sequence[int], Sequence[int]] | None = None,
) -> jax.Array:
    """Convolve `x[..., c, *space]` and `kernel[d, c, *taps]` to `[..., d, *space]`.

    With `numbers`, there is one batch axis, and the axes have that order.
    """
    batch = x.shape[: x.ndim - count - 1]
    is_flat = numbers is not None or len(batch) == 1
    flat = x if is_flat else x.reshape(math.prod(batch), *x.shape[x.ndim - count - 1 :])
    dtype = jnp.result_type(flat, kernel)
    if spacing is not None:
        # Not the convolution's own dilation: XLA on CPU aborts the process if a kernel reaches
        # beyond a single row.
        pads = [
            (0, 0, 0),
            (0, 0, 0),
            *((low, high, by - 1) for (low, high), by in zip(zeros, spacing, strict=True)),
        ]
        flat, zeros = lax.pad(flat, jnp.zeros((), flat.dtype), pads), [(0, 0)] * count
    y = lax.conv_general_dilated(
        flat.astype(dtype),
        kernel.astype(dtype),
        stride,
        zeros,
        rhs_dilation=dilation,
        dimension_numbers=None if numbers is None else lax.ConvDimensionNumbers(*numbers),
        precision=precision,
        preferred_element_type=element_type,
    )
    return y if is_flat else y.reshape(*batch, *y.shape[1:])


@operation(scope=True, on_blocks=True)
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
    precision: lax.PrecisionLike = None,
) -> LikeArguments:
    """Convolve along one axis, as `jnp.convolve`.

    Args:
      a: an array, named or not.
      v: the kernel. Along a named axis: an array with one positional axis, the taps; its named axes
        are batch axes.
      mode: `"full"` (default), `"same"` or `"valid"`, as in `jnp.convolve`.
      axis: the axis of `a`; by default its only positional axis.
      out_axis: the name of the axis in the result; by default `axis`. Required in a mapped function
        if its size changes (in all modes but `"same"`).
      precision: as in `jnp.convolve`; by default `None`.

    Returns:
      The convolution.

    Communication: along a sharded axis each device receives the boundary rows that the kernel
    reaches. Nothing is gathered, except if `out_axis` is not sharded over the mesh axes of `axis`.

    Raises:
      AxisNotFoundError: `a` lacks the axis.
      AxisSizeError: the axis of the result has a different size in the mapped function, or does not
        divide over its mesh axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 4.0]), ["k"])
    >>> nx.positional(nx.convolve(x, jnp.array([1.0, -1.0]), axis="k"), ["k"])
    Array([ 1.,  1.,  2., -4.], dtype=float32)
    """
    if mode not in ("full", "same", "valid"):
        raise PositionalAxisError(
            f"convolve: mode must be 'full', 'same' or 'valid', got {format_value(mode)}."
        )
    if axis is None:
        return Lifted(lambda x, k: jnp.convolve(x, k, mode, precision=precision), "convolve")(a, v)
    if dims_of(v).count(None) != 1:
        raise PositionalAxisError(
            f"convolve: the kernel {type_text(v)} must have exactly one positional axis, the taps."
        )
    axis = unwrap_single(axis, dims_of(a))
    line = along("convolve", a, axis, supports_padding=True)
    taps = v.shape[0] if isinstance(v, NamedArray) else np.shape(v)[0]
    if not taps or not line.size:
        raise PositionalAxisError(
            f"convolve: the kernel {type_text(v)} and axis {format_value(axis)} of size {line.size}"
            " must not be empty."
        )
    # Element i of the result is element i + first of the full convolution. It reads the rows from i
    # + first - (taps - 1).
    long, short = max(line.size, taps), min(line.size, taps)
    first = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    size = {"full": line.size + taps - 1, "same": long, "valid": long - short + 1}[mode]
    dims, new = line.result(out_axis, size)
    block = line.block(new, size)
    return _convolve(line, v, dims, new, block, block + taps - 1, first - (taps - 1), precision)


def _convolve(
    line: Along,
    v: ArrayLike,
    dims: Dims,
    new: MeshAxes,
    block: int,
    length: int,
    first: int,
    precision: lax.PrecisionLike,
) -> AnyArray:
    """Convolve windows with the kernel; all axes except the axis of `line` are batch axes."""
    ranks = sum(dim is None for dim in line.dims)

    def rows(x: jax.Array, k: jax.Array) -> jax.Array:
        flat = as_one(x, 0, x.ndim - 1)
        out = jax.vmap(lambda row: jnp.convolve(row, k, "valid", precision=precision))(flat)
        return out.reshape(*x.shape[:-1], out.shape[-1])

    def compute(keep: frozenset[str]) -> AnyArray:
        data = line.windows(new, first, block, length, "fill", 0, keep | frozenset(new))
        batch = [i for i in range(data.ndim) if i != line.dim]
        labelled = [i for i in batch if line.dims[i] is not None]
        order = [*labelled, *(i for i in batch if line.dims[i] is None), line.dim]
        x = constrain_sharding(
            lax.transpose(data, order), (*(line.dims[i] for i in order[:-1]), None)
        )
        labels = tuple(line.dims[i] for i in labelled) + (None,) * (ranks + 1)
        with without_constraints(line.region):
            result = nmap(rows)(make_in_region(x, labels) if labelled else x, v)
        if not isinstance(new, Uneven):
            return result
        data = data_of(result)
        return make_in_region(refilled(data, data.ndim - 1, new), dims_of(result))

    def named_result(value: AnyArray) -> tuple[Any, Dims]:
        own, out_axis = dims_of(value), dims[line.dim]
        data = data_of(value)
        return constrain_sharding(data, own), (*own[:-1], out_axis)

    gathered = frozenset(line.old) - frozenset(new)
    data, out = named_result(compute(frozenset()))
    check_together(line.op, out)
    if not gathered:
        return make_result(data, out)
    return with_varying_form(data, out, gathered, lambda: named_result(compute(gathered))[0])


def without_constraints(region: Region | None) -> AbstractContextManager[Any]:
    """Prevent XLA's partitioner from treating a temporarily unnamed axis as replicated."""
    return enter(region if region is None or region.mode != "auto" else None)
