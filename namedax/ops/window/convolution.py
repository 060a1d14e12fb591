"""Convolution over named axes: `convolve` of one axis, and `conv` of several, with strides and dilations.

Over a sharded axis a device gets the rows that its windows reach beyond its block (`halo`), and computes its part of the result.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from namedax.core.annotations import Array, LikeArguments
from namedax.core.array import NamedArray, dims_of, make_in_region
from namedax.core.display import type_text
from namedax.core.names import Dims
from namedax.core.region import Region, ambient, enter
from namedax.core.variance import with_varying_form
from namedax.errors import AxisResourceError, PositionalAxisError, raise_not_found
from namedax.operands.broadcasting import local_block, settled, wrap
from namedax.operands.nmap import nmap
from namedax.operands.one_axis import Along, along
from namedax.ops.window.windows import (
    Window,
    padding_of,
    per_axis,
    plan_transposed,
    plan_window,
    spread,
    transposed_padding,
    whole_for_partitioner,
)
from namedax.resources import communication as comm

__all__ = ["FUNCTIONS", "conv", "conv_transpose", "convolve"]

Axes = tuple[str, ...]


# --- convolution ----------------------------------------------------------------------------------------------------


def convolve(
    a: Any, v: Any, mode: str = "full", *, axis: Hashable | None = None, out_axis: Hashable | None = None, precision: Any = None
) -> LikeArguments:
    """Convolution along one axis, as `jnp.convolve` does it.

    Args:
      a: an array, named or not.
      v: the kernel. Along a name: an array with one positional axis, along which it lies; its names are batch axes.
      mode: `"full"`, `"same"` or `"valid"`, as in `jnp.convolve`.
      axis: the axis of `a`; default: its only positional axis.
      out_axis: the name of the axis in the result; needed in a mapped function if its size is another (all modes but `"same"`).
      precision: as in `jnp.convolve`.

    Returns:
      The convolution. Along a sharded name each device gets the rows at its boundary that the kernel reaches; nothing is
      gathered, except where `out_axis` is not on the mesh axes of `axis`.

    Raises:
      AxisNotFoundError: `a` lacks the axis.
      AxisSizeError: in a mapped function the name has a different size than the result, or that does not divide over its mesh
        axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0, 4.0]), ["k"])
    >>> nx.positional(convolve(x, jnp.array([1.0, -1.0]), axis="k"), ["k"])
    Array([ 1.,  1.,  2., -4.], dtype=float32)
    """
    if mode not in ("full", "same", "valid"):
        raise PositionalAxisError(f"convolve: mode={mode!r} is none of 'full', 'same', 'valid'.")
    if axis is None:
        return nmap(lambda x, k: jnp.convolve(x, k, mode, precision=precision))(a, v)
    if dims_of(v).count(None) != 1:
        raise PositionalAxisError(f"convolve: the kernel {type_text(v)} must have one positional axis, along which it lies.")
    site = along("convolve", a, axis)
    taps = v.shape[0] if isinstance(v, NamedArray) else np.shape(v)[0]
    if not taps or not site.size:
        raise PositionalAxisError(
            f"convolve: the kernel {type_text(v)} and axis {axis!r} of size {site.size} must not be empty."
        )
    # Entry i of the result is entry i + first of the full convolution, which reads the rows from i + first - (taps - 1).
    long, short = max(site.size, taps), min(site.size, taps)
    first = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    size = {"full": site.size + taps - 1, "same": long, "valid": long - short + 1}[mode]
    dims, new = site.result(out_axis, size)
    block = size // site.blocks(new)
    return _convolve(site, v, dims, new, block, block + taps - 1, first - (taps - 1), precision)


def _convolve(site: Along, v: Any, dims: Dims, new: Axes, block: int, length: int, first: int, precision: Any) -> Any:
    """The convolution of windows with the kernel; all axes but that of `site` are batch axes."""
    ranks = sum(dim is None for dim in site.dims)

    def rows(x: Any, k: Any) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        out = jax.vmap(lambda row: jnp.convolve(row, k, "valid", precision=precision))(flat)
        return out.reshape(*x.shape[:-1], out.shape[-1])

    def compute(keep: frozenset[str]) -> Any:
        data = site.windows(new, first, block, length, "fill", 0, keep | frozenset(new))
        batch = [i for i in range(data.ndim) if i != site.dim]
        labelled = [i for i in batch if site.dims[i] is not None]
        order = [*labelled, *(i for i in batch if site.dims[i] is None), site.dim]
        x = settled(lax.transpose(data, order), (*(site.dims[i] for i in order[:-1]), None))
        labels = tuple(site.dims[i] for i in labelled) + (None,) * (ranks + 1)
        with _without_constraints(site.region):
            return nmap(rows)(make_in_region(x, labels) if labelled else x, v)

    def named_result(value: Any) -> tuple[Any, Dims]:
        own, out_axis = dims_of(value), dims[site.dim]
        data = value._data if isinstance(value, NamedArray) else value
        return settled(data, own), (*own[:-1], out_axis)

    gathered = frozenset(site.old) - frozenset(new)
    data, out = named_result(compute(frozenset()))
    _check_together(site.op, out)
    if not gathered:
        return wrap(data, out)
    return with_varying_form(data, out, gathered, lambda: named_result(compute(gathered))[0])


def _without_constraints(region: Region | None) -> Any:
    """Keeps XLA's partitioner from taking an axis for whole only because it has no name for a moment."""
    return enter(region if region is None or region.mode != "auto" else None)


def _check_together(op: str, dims: Dims) -> None:
    region = ambient()
    if region is not None and region.resources:
        region.check_placement(op, [dim for dim in dims if dim is not None])


def conv(
    x: Any,
    kernel: Any,
    axes: Sequence[Hashable],
    *,
    kernel_axes: Sequence[Hashable] | None = None,
    features_in: Hashable | None = None,
    features_out: Hashable | None = None,
    strides: int | Sequence[int] = 1,
    padding: str | Sequence[tuple[int, int]] = "SAME",
    kernel_dilation: int | Sequence[int] = 1,
    out_axes: Mapping[Hashable, Hashable] | None = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolution over named axes, as neural networks mean it (the kernel is not reversed).

    Args:
      x: a named array. Its other axes are batch axes.
      kernel: a named array with the axes `kernel_axes`, `features_in` and `features_out`. Its other names are batch axes,
        shared with `x` where `x` has them: a kernel with the channel's name and no `features_in` is a depthwise convolution.
      axes: the axes of `x` that are convolved over, such as `("h", "w")`.
      kernel_axes: the axes of `kernel` that go with them, such as `("kh", "kw")`; default: its positional axes, in order.
      features_in: the axis of both that is contracted, or `None`.
      features_out: the axis of `kernel` that the result gets, or `None`.
      strides: one for all axes, or one for each.
      padding: `"SAME"` (the result has `ceil(size / stride)` entries), `"VALID"`, or a pair `(before, after)` for each axis.
      kernel_dilation: distance between the kernel's entries, one for all axes, or one for each.
      out_axes: new names for axes, `{"h": "h_out"}`; needed in a mapped function for those whose size changes.
      precision: as in `lax.conv_general_dilated`.
      preferred_element_type: as in `lax.conv_general_dilated`.

    Returns:
      The convolution, with the names of `x` but `features_in`, and `features_out`. Along a sharded axis each device gets the
      rows at its boundary that the kernel reaches, by collective-permutes (a corner takes two); a sharded `features_in` is
      reduced by one all-reduce. Nothing is gathered, except an axis whose `out_axes` name is not on its mesh axes.

    Raises:
      AxisNotFoundError: `x` or `kernel` lacks an axis.
      AxisSizeError: in a mapped function a name has a different size than the result, or that does not divide over its mesh
        axes.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.ones((8, 6, 6, 3)), ["batch", "h", "w", "c"])
    >>> kernel = nx.named(jnp.ones((3, 3, 3, 5)), ["kh", "kw", "c", "d"])
    >>> y = conv(x, kernel, ("h", "w"), kernel_axes=("kh", "kw"), features_in="c", features_out="d", strides=2)
    >>> dict(y.named_shape)
    {'batch': 8, 'd': 5, 'h': 3, 'w': 3}
    """
    options = (
        kernel_axes,
        features_in,
        features_out,
        strides,
        padding,
        kernel_dilation,
        out_axes,
        precision,
        preferred_element_type,
    )
    return _conv_by_name("conv", x, kernel, axes, *options)


def conv_transpose(
    x: Any,
    kernel: Any,
    axes: Sequence[Hashable],
    *,
    kernel_axes: Sequence[Hashable] | None = None,
    features_in: Hashable | None = None,
    features_out: Hashable | None = None,
    strides: int | Sequence[int] = 1,
    padding: str | Sequence[tuple[int, int]] = "SAME",
    kernel_dilation: int | Sequence[int] = 1,
    out_axes: Mapping[Hashable, Hashable] | None = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Transposed convolution over named axes, which makes them larger, as `jax.lax.conv_transpose` does it.

    It is the convolution of the array with `stride - 1` zeros between its entries. The kernel is not reversed: for the transpose of
    `nx.conv` reverse it along its axes (`nx.flip`).

    Args:
      x: a named array. Its other axes are batch axes.
      kernel: as in `nx.conv`.
      axes: the axes of `x`, such as `("h", "w")`.
      kernel_axes: as in `nx.conv`.
      features_in: the axis of both that is contracted, or `None`.
      features_out: the axis of `kernel` that the result gets, or `None`.
      strides: how much larger axes get, one for all, or one for each.
      padding: `"SAME"` (the result has `size * stride` entries), `"VALID"` (`size * stride + max(reach - stride, 0)`, all that
        the kernel reaches), or a pair `(before, after)` for each axis: rows around the array with its zeros.
      kernel_dilation: as in `nx.conv`.
      out_axes: new names for axes, `{"h": "h_out"}`; needed in a mapped function for those whose size changes.
      precision: as in `nx.conv`.
      preferred_element_type: as in `nx.conv`.

    Returns:
      The result, with the names of `x` but `features_in`, and `features_out`. It sends what `nx.conv` does: along a sharded axis whose
      new name is on the same mesh axes, the rows at the boundary that the kernel reaches.

    Raises:
      AxisNotFoundError: `x` or `kernel` lacks an axis.
      AxisSizeError: in a mapped function a name has a different size than the result, or that does not divide over its mesh
        axes, or its blocks are not multiples of the stride.

    >>> import jax.numpy as jnp, namedax as nx
    >>> x = nx.named(jnp.array([1.0, 2.0]), ["w"])
    >>> nx.positional(nx.conv_transpose(x, jnp.array([1.0, 10.0]), ("w",), strides=2), ["w"])
    Array([10.,  1., 20.,  2.], dtype=float32)
    """
    options = (
        kernel_axes,
        features_in,
        features_out,
        strides,
        padding,
        kernel_dilation,
        out_axes,
        precision,
        preferred_element_type,
    )
    return _conv_by_name("conv_transpose", x, kernel, axes, *options)


def _conv_by_name(
    op: str,
    x: Any,
    kernel: Any,
    axes: Any,
    kernel_axes: Any,
    features_in: Hashable | None,
    features_out: Hashable | None,
    strides: Any,
    padding: Any,
    kernel_dilation: Any,
    out_axes: Any,
    precision: Any,
    preferred_element_type: Any,
) -> Any:
    """`conv` or `conv_transpose`."""
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        axes = (axes,)
    axes = tuple(axes)
    region = ambient()
    x, kernel = local_block(x, op, region), local_block(kernel, op, region)
    count = len(axes)
    for name in axes:
        along(op, x, name)
    if kernel_axes is None:
        if dims_of(kernel).count(None) != count:
            raise PositionalAxisError(
                f"{op}: the kernel {type_text(kernel)} has {dims_of(kernel).count(None)} positional axes for the {count} axes "
                f"{axes}; give kernel_axes=."
            )
    else:
        kernel_axes = (kernel_axes,) if isinstance(kernel_axes, str) else tuple(kernel_axes)
        if len(kernel_axes) != count or dims_of(kernel).count(None):
            raise PositionalAxisError(
                f"{op}: kernel_axes={kernel_axes} must be one name for each of {axes}, and the kernel {type_text(kernel)} must "
                "have no other positional axis."
            )
    stride = per_axis(op, "strides", strides, axes)
    dilation = per_axis(op, "kernel_dilation", kernel_dilation, axes)
    renamed = dict(out_axes or {})
    for name in renamed:
        if name not in axes:
            raise_not_found(op, name, f"axes={axes}", axes)

    # The kernel: features_out, features_in, its axes; what is left are batch axes.
    k_dims = dims_of(kernel)
    own = [name for name in (features_out, features_in) if name is not None]
    places = [along(op, kernel, name).dim for name in own]
    if kernel_axes is None:
        places += [i for i, dim in enumerate(k_dims) if dim is None]
    else:
        for name in kernel_axes:
            if sharded := along(op, kernel, name).old:
                raise AxisResourceError(
                    f"{op}: the kernel's axis {name!r} is sharded over mesh axis {', '.join(map(repr, sharded))}, but every device "
                    f"needs the whole window. Map {name!r} to nothing, or give the kernel's axis another name with "
                    f"nx.rename(kernel, {{{name!r}: 'tap'}})."
                )
            places.append(k_dims.index(name))
    batch = [i for i in range(len(k_dims)) if i not in places]
    k_data = kernel._data if isinstance(kernel, NamedArray) else jnp.asarray(kernel)
    k_data = lax.transpose(k_data, [*batch, *places])
    for i, name in enumerate((features_out, features_in)):
        if name is None:
            k_data = jnp.expand_dims(k_data, len(batch) + i)
    k_labels = tuple(k_dims[i] for i in batch)
    taps = k_data.shape[len(batch) + 2 :]
    # XLA's partitioner convolves wrongly, or not at all, where it cuts what a window goes over, or places the result by another name.
    k_data = settled(k_data, (*k_labels, features_out, features_in, *(None,) * count))
    kernel = make_in_region(k_data, k_labels + (None,) * (count + 2)) if batch else k_data

    # The array: windows along its axes.
    gathered: frozenset[str] = frozenset()
    mesh_axes: Axes = ()
    if features_in is not None:
        site = along(op, x, features_in)
        mesh_axes = site.old
    plans = []
    zeros = [(0, 0)] * count  # beside what a device has, with zeros between its entries
    for i, name in enumerate(axes):
        reach = (taps[i] - 1) * dilation[i] + 1
        if op == "conv_transpose":
            pair = transposed_padding(op, padding, axes, i, stride[i], reach)
            plan, zeros[i] = plan_transposed(op, x, name, renamed.get(name), reach, stride[i], pair)
            plans.append(plan)
            gathered |= plan.gathered
            continue
        pair = padding_of(op, padding, axes, i, along(op, x, name).size, stride[i], reach)
        plans.append(plan_window(op, x, name, renamed.get(name), "kernel", reach, stride[i], pair))
        gathered |= plans[-1].gathered
    out_names = [plan.out_axis for plan in plans]

    def compute(keep: frozenset[str]) -> Any:
        value = spread(op, x, plans, keep)
        if op == "conv_transpose":
            value = make_in_region(whole_for_partitioner(value._data, x._dims, axes), value._dims)
        dims = value._dims
        own = [*([dims.index(features_in)] if features_in is not None else []), *(dims.index(Window(name)) for name in axes)]
        labelled = [i for i, dim in enumerate(dims) if dim is not None and i not in own]
        rest = [i for i, dim in enumerate(dims) if dim is None]
        data = lax.transpose(value._data, [*labelled, *rest, *own])
        if features_in is None:
            data = jnp.expand_dims(data, len(labelled) + len(rest))
        labels = tuple(dims[i] for i in labelled) + (None,) * (len(rest) + 1 + count)
        data = settled(data, (*labels[: -1 - count], features_in, *(None,) * count))
        steps, spacing = (stride, None) if op == "conv" else ((1,) * count, stride)
        function = functools.partial(_conv, count, steps, spacing, zeros, dilation, precision, preferred_element_type)
        with _without_constraints(region):
            return nmap(function)(make_in_region(data, labels) if labelled else data, kernel)

    def finished(value: Any) -> tuple[Any, Dims]:
        dims = dims_of(value)
        data = value._data if isinstance(value, NamedArray) else value
        at = len(dims) - count - 1
        if features_out is None:
            data = lax.squeeze(data, (at,))
        before = (*dims[:at], *(() if features_out is None else (features_out,)))
        data = settled(data, (*before, *(None,) * count))
        return comm.psum(data, mesh_axes), (*before, *out_names)

    data, dims = finished(compute(frozenset()))
    _check_together(op, dims)
    if not gathered:
        return wrap(data, dims)
    return with_varying_form(data, dims, gathered, lambda: finished(compute(gathered))[0])


def _conv(
    count: int, stride: Any, spacing: Any, zeros: Any, dilation: Any, precision: Any, element_type: Any, x: Any, kernel: Any
) -> Any:
    """`x[..., c, *space]` and `kernel[d, c, *taps]` to `[..., d, *space]`."""
    batch = x.shape[: x.ndim - count - 1]
    flat = x.reshape(math.prod(batch), *x.shape[x.ndim - count - 1 :])
    dtype = jnp.result_type(flat, kernel)
    if spacing is not None:
        # Not by the convolution's own dilation: XLA on CPU aborts the process where a kernel reaches beyond a single row.
        pads = [(0, 0, 0), (0, 0, 0), *((low, high, by - 1) for (low, high), by in zip(zeros, spacing, strict=True))]
        flat = lax.pad(flat, jnp.zeros((), flat.dtype), pads)
    y = lax.conv_general_dilated(
        flat.astype(dtype),
        kernel.astype(dtype),
        stride,
        [(0, 0)] * count,
        rhs_dilation=dilation,
        precision=precision,
        preferred_element_type=element_type,
    )
    return y.reshape(*batch, *y.shape[1:])


#: The functions of this module, by their names in `nx`.
FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (convolve, conv, conv_transpose)}
