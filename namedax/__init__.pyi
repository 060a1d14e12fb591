# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""namedax: named-axis arrays for JAX.

Write a model over axis names. Decide afterwards, in one dictionary (`axis_resources`), over which
hardware each axis is sharded.

The table `namedax.ops.namespaces.public_names.NAMES` has every public name of this module.
`NamedArray` with its methods and `xmap` are imported with the package, other names on first access.
The namespaces that mirror JAX (`numpy`, `scipy`, `lax`, `nn`, `random`, `image`) take their names
from JAX. Stubs beside the modules describe all names to editors and type checkers; `make stubs`
writes them.
"""

import builtins
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, overload

import jax
import jax.typing

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec
from namedax.core.names import DType, PyTree, Shape
from namedax.typing.checking import F
from namedax import checkpoints as checkpoints
from namedax import debug as debug
from namedax import distributed as distributed
from namedax import errors as errors
from namedax import hlo as hlo
from namedax import image as image
from namedax import interop as interop
from namedax import lax as lax
from namedax import linalg as linalg
from namedax import machines as machines
from namedax import models as models
from namedax import nn as nn
from namedax import numpy as numpy
from namedax import random as random
from namedax import scipy as scipy
from namedax import testing as testing
from namedax import typing as typing
from namedax.core.array import NamedArray as NamedArray
from namedax.core.strict_broadcasting import strict_broadcasting as strict_broadcasting
from namedax.debug.name_trace import trace_names as trace_names
from namedax.distributed import from_process_local as from_process_local
from namedax.distributed import process_entries as process_entries
from namedax.insight.analysis.explain import explain as explain
from namedax.insight.analysis.report import Report as Report
from namedax.insight.analysis.summary import Summary as Summary
from namedax.insight.analysis.summary import summary as summary
from namedax.insight.drawing.arrays import draw as draw
from namedax.insight.planning.planner import plan as plan
from namedax.insight.planning.result import Plan as Plan
from namedax.insight.profiling.profiler import profile as profile
from namedax.insight.transfers.transfer import transfer as transfer
from namedax.interop.xarray import from_xarray as from_xarray
from namedax.interop.xarray import to_xarray as to_xarray
from namedax.numpy import abs as abs
from namedax.numpy import add as add
from namedax.numpy import angle as angle
from namedax.numpy import arccos as arccos
from namedax.numpy import arccosh as arccosh
from namedax.numpy import arcsin as arcsin
from namedax.numpy import arcsinh as arcsinh
from namedax.numpy import arctan as arctan
from namedax.numpy import arctan2 as arctan2
from namedax.numpy import arctanh as arctanh
from namedax.numpy import bitwise_and as bitwise_and
from namedax.numpy import bitwise_count as bitwise_count
from namedax.numpy import bitwise_not as bitwise_not
from namedax.numpy import bitwise_or as bitwise_or
from namedax.numpy import bitwise_xor as bitwise_xor
from namedax.numpy import cbrt as cbrt
from namedax.numpy import ceil as ceil
from namedax.numpy import clip as clip
from namedax.numpy import conj as conj
from namedax.numpy import copysign as copysign
from namedax.numpy import cos as cos
from namedax.numpy import cosh as cosh
from namedax.numpy import deg2rad as deg2rad
from namedax.numpy import divide as divide
from namedax.numpy import empty_like as empty_like
from namedax.numpy import equal as equal
from namedax.numpy import exp as exp
from namedax.numpy import exp2 as exp2
from namedax.numpy import expm1 as expm1
from namedax.numpy import fabs as fabs
from namedax.numpy import float_power as float_power
from namedax.numpy import floor as floor
from namedax.numpy import floor_divide as floor_divide
from namedax.numpy import fmax as fmax
from namedax.numpy import fmin as fmin
from namedax.numpy import fmod as fmod
from namedax.numpy import full_like as full_like
from namedax.numpy import gcd as gcd
from namedax.numpy import greater as greater
from namedax.numpy import greater_equal as greater_equal
from namedax.numpy import heaviside as heaviside
from namedax.numpy import hypot as hypot
from namedax.numpy import i0 as i0
from namedax.numpy import imag as imag
from namedax.numpy import isclose as isclose
from namedax.numpy import iscomplex as iscomplex
from namedax.numpy import isfinite as isfinite
from namedax.numpy import isinf as isinf
from namedax.numpy import isnan as isnan
from namedax.numpy import isneginf as isneginf
from namedax.numpy import isposinf as isposinf
from namedax.numpy import isreal as isreal
from namedax.numpy import lcm as lcm
from namedax.numpy import ldexp as ldexp
from namedax.numpy import left_shift as left_shift
from namedax.numpy import less as less
from namedax.numpy import less_equal as less_equal
from namedax.numpy import log as log
from namedax.numpy import log10 as log10
from namedax.numpy import log1p as log1p
from namedax.numpy import log2 as log2
from namedax.numpy import logaddexp as logaddexp
from namedax.numpy import logaddexp2 as logaddexp2
from namedax.numpy import logical_and as logical_and
from namedax.numpy import logical_not as logical_not
from namedax.numpy import logical_or as logical_or
from namedax.numpy import logical_xor as logical_xor
from namedax.numpy import maximum as maximum
from namedax.numpy import minimum as minimum
from namedax.numpy import mod as mod
from namedax.numpy import multiply as multiply
from namedax.numpy import nan_to_num as nan_to_num
from namedax.numpy import negative as negative
from namedax.numpy import nextafter as nextafter
from namedax.numpy import not_equal as not_equal
from namedax.numpy import ones_like as ones_like
from namedax.numpy import positive as positive
from namedax.numpy import power as power
from namedax.numpy import rad2deg as rad2deg
from namedax.numpy import real as real
from namedax.numpy import reciprocal as reciprocal
from namedax.numpy import right_shift as right_shift
from namedax.numpy import rint as rint
from namedax.numpy import round as round
from namedax.numpy import sign as sign
from namedax.numpy import signbit as signbit
from namedax.numpy import sin as sin
from namedax.numpy import sinc as sinc
from namedax.numpy import sinh as sinh
from namedax.numpy import spacing as spacing
from namedax.numpy import sqrt as sqrt
from namedax.numpy import square as square
from namedax.numpy import subtract as subtract
from namedax.numpy import tan as tan
from namedax.numpy import tanh as tanh
from namedax.numpy import trunc as trunc
from namedax.numpy import zeros_like as zeros_like
from namedax.ops.collectives.reducing import axis_size as axis_size
from namedax.ops.contraction.einsum import dot as dot
from namedax.ops.contraction.einsum import einsum as einsum
from namedax.ops.contraction.einsum import tensordot as tensordot
from namedax.ops.contraction.einsum import vecdot as vecdot
from namedax.ops.groups.reductions import group_reduce as group_reduce
from namedax.ops.indexing.diagonal import diagonal as diagonal
from namedax.ops.indexing.diagonal import trace as trace
from namedax.ops.indexing.getitem import take_along_axis as take_along_axis
from namedax.ops.indexing.take import take as take
from namedax.ops.loops.associative_scan import associative_scan as associative_scan
from namedax.ops.loops.branches import cond as cond
from namedax.ops.loops.branches import switch as switch
from namedax.ops.loops.control_flow import fold as fold
from namedax.ops.loops.control_flow import fori_loop as fori_loop
from namedax.ops.loops.control_flow import scan as scan
from namedax.ops.loops.control_flow import while_loop as while_loop
from namedax.ops.loops.custom_rules import custom_jvp as custom_jvp
from namedax.ops.loops.custom_rules import custom_vjp as custom_vjp
from namedax.ops.loops.pipelines import pipeline as pipeline
from namedax.ops.loops.vmap import map as map
from namedax.ops.loops.vmap import vmap as vmap
from namedax.ops.operands.nmap import nmap as nmap
from namedax.ops.ragged.ragged import Ragged as Ragged
from namedax.ops.reduction.comparison import allclose as allclose
from namedax.ops.reduction.comparison import array_equal as array_equal
from namedax.ops.reduction.comparison import array_equiv as array_equiv
from namedax.ops.reduction.extrema import argmax as argmax
from namedax.ops.reduction.extrema import argmin as argmin
from namedax.ops.reduction.extrema import max as max
from namedax.ops.reduction.extrema import max_with_index as max_with_index
from namedax.ops.reduction.extrema import min as min
from namedax.ops.reduction.extrema import min_with_index as min_with_index
from namedax.ops.reduction.reductions import all as all
from namedax.ops.reduction.reductions import any as any
from namedax.ops.reduction.reductions import count_nonzero as count_nonzero
from namedax.ops.reduction.reductions import logsumexp as logsumexp
from namedax.ops.reduction.reductions import mean as mean
from namedax.ops.reduction.reductions import prod as prod
from namedax.ops.reduction.reductions import std as std
from namedax.ops.reduction.reductions import sum as sum
from namedax.ops.reduction.reductions import var as var
from namedax.ops.reduction.segments import segment_max as segment_max
from namedax.ops.reduction.segments import segment_min as segment_min
from namedax.ops.reduction.segments import segment_prod as segment_prod
from namedax.ops.reduction.segments import segment_sum as segment_sum
from namedax.ops.shape.broadcast_to import squeeze as squeeze
from namedax.ops.shape.conversion import order_like as order_like
from namedax.ops.shape.creation import arange as arange
from namedax.ops.shape.inspection import array_repr as array_repr
from namedax.ops.shape.inspection import array_str as array_str
from namedax.ops.shape.inspection import iscomplexobj as iscomplexobj
from namedax.ops.shape.inspection import isrealobj as isrealobj
from namedax.ops.shape.inspection import isscalar as isscalar
from namedax.ops.shape.inspection import ndim as ndim
from namedax.ops.shape.inspection import result_type as result_type
from namedax.ops.shape.inspection import shape as shape
from namedax.ops.shape.inspection import size as size
from namedax.ops.shape.joining import array_split as array_split
from namedax.ops.shape.joining import concatenate as concatenate
from namedax.ops.shape.joining import stack as stack
from namedax.ops.shape.placement import shard as shard
from namedax.ops.shape.rearrange import rearrange as rearrange
from namedax.ops.shape.rearrange import reduce as reduce
from namedax.ops.shape.rename import rename as rename
from namedax.ops.sorting.selection import nonzero as nonzero
from namedax.ops.sorting.selection import unique as unique
from namedax.ops.sorting.sorting import lexsort as lexsort
from namedax.ops.sorting.sorting import searchsorted as searchsorted
from namedax.ops.sorting.sorting import top_k as top_k
from namedax.ops.sorting.together import sort_by as sort_by
from namedax.ops.statistics.compositions import average as average
from namedax.ops.statistics.compositions import norm as norm
from namedax.ops.statistics.compositions import ptp as ptp
from namedax.ops.statistics.counting import bincount as bincount
from namedax.ops.statistics.counting import histogram as histogram
from namedax.ops.statistics.covariance import corrcoef as corrcoef
from namedax.ops.statistics.covariance import cov as cov
from namedax.ops.statistics.quantiles import median as median
from namedax.ops.statistics.quantiles import nanmedian as nanmedian
from namedax.ops.statistics.quantiles import nanpercentile as nanpercentile
from namedax.ops.statistics.quantiles import nanquantile as nanquantile
from namedax.ops.statistics.quantiles import percentile as percentile
from namedax.ops.statistics.quantiles import quantile as quantile
from namedax.ops.statistics.without_nans import nanargmax as nanargmax
from namedax.ops.statistics.without_nans import nanargmin as nanargmin
from namedax.ops.statistics.without_nans import nanmax as nanmax
from namedax.ops.statistics.without_nans import nanmean as nanmean
from namedax.ops.statistics.without_nans import nanmin as nanmin
from namedax.ops.statistics.without_nans import nanprod as nanprod
from namedax.ops.statistics.without_nans import nanstd as nanstd
from namedax.ops.statistics.without_nans import nansum as nansum
from namedax.ops.statistics.without_nans import nanvar as nanvar
from namedax.ops.window.calculus import gradient as gradient
from namedax.ops.window.calculus import trapezoid as trapezoid
from namedax.ops.window.convolution import conv as conv
from namedax.ops.window.convolution import conv_transpose as conv_transpose
from namedax.resources.serial import SerialLoop as SerialLoop
from namedax.resources.serial import serial_loop as serial_loop
from namedax.resources.wire import Wire as Wire
from namedax.xmap.wrapper import xmap as xmap

__version__: str
__all__: list[str]
@overload
def rolling_reduce(
    x: NamedArray,
    axis: Hashable,
    *,
    size: int,
    reduction: str | Callable[..., Any] = 'mean',
    center: bool = False,
    min_count: int | None = None,
    stride: int = 1,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def rolling_reduce(
    x: ArrayLike,
    axis: Hashable,
    *,
    size: int,
    reduction: str | Callable[..., Any] = 'mean',
    center: bool = False,
    min_count: int | None = None,
    stride: int = 1,
    out_axis: Hashable | None = None,
) -> AnyArray: ...
@overload
def group_accumulate(
    x: NamedArray, by: Any, axis: Hashable, reduction: str = 'sum', *, nan_policy: str = 'omit',
) -> NamedArray: ...
@overload
def group_accumulate(
    x: ArrayLike, by: Any, axis: Hashable, reduction: str = 'sum', *, nan_policy: str = 'omit',
) -> AnyArray: ...
@overload
def group_shift(
    x: NamedArray,
    offset: int,
    by: Any,
    axis: Hashable,
    *,
    fill_value: jax.typing.ArrayLike = 0,
) -> NamedArray: ...
@overload
def group_shift(
    x: ArrayLike, offset: int, by: Any, axis: Hashable, *, fill_value: jax.typing.ArrayLike = 0,
) -> AnyArray: ...
@overload
def tril(
    m: NamedArray, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None,
) -> NamedArray: ...
@overload
def tril(m: ArrayLike, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None) -> AnyArray: ...
@overload
def triu(
    m: NamedArray, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None,
) -> NamedArray: ...
@overload
def triu(m: ArrayLike, k: ArrayLike = 0, *, axis: Sequence[Hashable] | None = None) -> AnyArray: ...
@overload
def slice(
    x: NamedArray,
    index: Mapping[Hashable, builtins.slice],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> NamedArray: ...
@overload
def slice(
    x: ArrayLike,
    index: Mapping[Hashable, builtins.slice],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray: ...
@overload
def cumlogsumexp(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray: ...
@overload
def cumlogsumexp(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray: ...
@overload
def cummax(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray: ...
@overload
def cummax(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray: ...
@overload
def cummin(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray: ...
@overload
def cummin(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray: ...
@overload
def cumprod(
    x: NamedArray, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> NamedArray: ...
@overload
def cumprod(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> AnyArray: ...
@overload
def cumsum(
    x: NamedArray, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> NamedArray: ...
@overload
def cumsum(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> AnyArray: ...
@overload
def nancumprod(
    x: NamedArray, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> NamedArray: ...
@overload
def nancumprod(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> AnyArray: ...
@overload
def nancumsum(
    x: NamedArray, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> NamedArray: ...
@overload
def nancumsum(
    x: ArrayLike, axis: AxisSpec = None, dtype: DType | None = None, *, reverse: bool = False,
) -> AnyArray: ...
@overload
def broadcast_to(
    array: ArrayLike,
    shape: Shape | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    named_shape: Mapping[Hashable, int | None],
) -> NamedArray: ...
@overload
def broadcast_to(
    array: ArrayLike,
    shape: Shape | None = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray: ...
@overload
def expand_dims(a: NamedArray, axis: AxisSpec) -> NamedArray: ...
@overload
def expand_dims(a: ArrayLike, axis: AxisSpec) -> AnyArray: ...
@overload
def named(array: ArrayLike, axes: PyTree) -> NamedArray:
    """Name positional axes."""
@overload
def named(array: PyTree, axes: PyTree) -> PyTree:
    """Name positional axes.

    Args:
      array: an array, or a pytree of arrays.
      axes: an axis mapping, or a pytree prefix of mappings. A mapping is a dict from positional
        axes to names, a list with one element per axis, or a list that ends with `...`.

    Returns:
      Named arrays; a plain array if the mapping has no names. In a mapped body a positional array
      is the same on every device, and each device keeps its block of a mapped axis.

    Communication: none.

    Raises:
      AxisMappingError: the mapping is malformed or does not fit the rank.
      AxisSizeError: the axis has a different size in the mapped function.
    """
@overload
def positional(x: ArrayLike, axes: PyTree) -> jax.Array:
    """Convert all named axes to positional axes."""
@overload
def positional(x: PyTree, axes: PyTree) -> PyTree:
    """Convert all named axes to positional axes.

    Args:
      x: a named array, or a pytree of them.
      axes: an axis mapping that places every name, or a pytree prefix of mappings; positions count
        in the result.

    Returns:
      Plain `jax.Array`s.

    Communication: in a mapped body a positional array is the same on every device, so a sharded
    axis is gathered (one all-gather).

    Raises:
      NamedAxesLeftError: a name is not placed.
      AxisMappingError: the mapping is malformed or does not fit the rank.
    """
@overload
def untag(x: ArrayLike, axes: PyTree) -> AnyArray:
    """Convert some named axes to positional axes, and keep the others: a partial `nx.positional`."""
@overload
def untag(x: PyTree, axes: PyTree) -> PyTree:
    """Convert some named axes to positional axes, and keep the others: a partial `nx.positional`.

    Args:
      x: a named array, or a pytree of them.
      axes: an axis mapping that places the names that become positional, or a pytree prefix of
        mappings. Positions count among the positional axes of the result.

    Returns:
      Arrays with the remaining named axes in front.

    Communication: in a mapped body a positional axis is complete on every device, so a sharded axis
    is gathered (one all-gather). The gradient is a reduce-scatter if the result was combined with
    values that vary over the same mesh axes.

    Raises:
      AxisNotFoundError: an array lacks a name that the mapping places.
      AxisMappingError: the mapping is malformed or does not fit the rank.
    """
@overload
def array(
    object: NamedArray,
    dtype: DType | None = None,
    copy: bool = True,
    order: str | None = 'K',
    ndmin: int = 0,
) -> NamedArray: ...
@overload
def array(
    object: ArrayLike | Sequence[Any],
    dtype: DType | None = None,
    copy: bool = True,
    order: str | None = 'K',
    ndmin: int = 0,
) -> AnyArray: ...
@overload
def asarray(
    a: NamedArray,
    dtype: DType | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
) -> NamedArray: ...
@overload
def asarray(
    a: ArrayLike | Sequence[Any],
    dtype: DType | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
) -> AnyArray: ...
@overload
def empty(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None],
    device: Any | jax.sharding.Sharding | None = None,
) -> NamedArray: ...
@overload
def empty(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> jax.Array: ...
@overload
def full(
    shape: Shape = (),
    fill_value: ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None],
    device: Any | jax.sharding.Sharding | None = None,
) -> NamedArray: ...
@overload
def full(
    shape: Shape = (),
    fill_value: ArrayLike | None = None,
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> jax.Array: ...
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DType | None = None,
    axis: Hashable = 0,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> AnyArray | tuple[AnyArray, AnyArray]: ...
@overload
def ones(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None],
    device: Any | jax.sharding.Sharding | None = None,
) -> NamedArray: ...
@overload
def ones(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> jax.Array: ...
@overload
def zeros(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    named_shape: Mapping[Hashable, int | None],
    device: Any | jax.sharding.Sharding | None = None,
) -> NamedArray: ...
@overload
def zeros(
    shape: Shape = (),
    dtype: DType | None = None,
    *,
    device: Any | jax.sharding.Sharding | None = None,
) -> jax.Array: ...
@overload
def append(
    arr: NamedArray,
    values: ArrayLike,
    axis: AxisSpec = None,
    *,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def append(
    arr: ArrayLike,
    values: NamedArray,
    axis: AxisSpec = None,
    *,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def append(
    arr: ArrayLike,
    values: ArrayLike,
    axis: AxisSpec = None,
    *,
    out_axis: Hashable | None = None,
) -> AnyArray: ...
@overload
def split(
    ary: ArrayLike,
    indices_or_sections: int | Sequence[int] | jax.typing.ArrayLike,
    axis: AxisSpec = 0,
    *,
    out_axis: Hashable | list[Hashable] | None = None,
) -> list[AnyArray]:
    """Split an array along one axis."""
@overload
def split(
    ary: ArrayLike, indices_or_sections: Mapping[Any, int], axis: AxisSpec = 0,
) -> dict[Any, AnyArray]:
    """Split an array along one axis.

    Args:
      ary: an array, named or not.
      indices_or_sections: a number of equal sections, or the split indices. A mapping
        `{"latent": 512, "rope": 64}` gives the names and the sizes of the axis in the sections.
      axis: a positional or named axis, by default 0; a name for a mapping.
      out_axis: the name of the axis in the sections, or a list with a name for each; by default
        `axis`. Required in a mapped function in which `axis` has a fixed size. Omit it for a
        mapping.

    Returns:
      A list of arrays; for a mapping a dict, as `nx.concatenate` takes it.

    Communication: along a sharded axis with sharded sections, the rows of all sections move to
    their blocks in one exchange, by collective-permutes. If the sections are not sharded, the axis
    is gathered.

    Raises:
      AxisNotFoundError: the array lacks the axis.
      AxisSizeError: the sections are not equal, a section does not have the size of its name in the
        mapped function, or the sizes of a mapping do not add up to the size of the axis.
      AxisNameError: a mapping and `out_axis`, or a mapping for a positional axis.
    """
@overload
def merge_axes(x: NamedArray, axis: Sequence[Hashable], name: Hashable) -> NamedArray: ...
@overload
def merge_axes(x: ArrayLike, axis: Sequence[Hashable], name: Hashable) -> AnyArray: ...
@overload
def repeat(x: ArrayLike, repeats: str, **sizes: int) -> AnyArray:
    """Repeat an array along new axes, by a pattern, or its elements along an existing axis."""
@overload
def repeat(
    x: ArrayLike,
    repeats: Any,
    axis: AxisSpec = None,
    *,
    total_repeat_length: int | None = None,
    out_axis: Hashable | None = None,
) -> AnyArray:
    """Repeat an array along new axes, by a pattern, or its elements along an existing axis.

    With a pattern, `repeat(x, "{k} -> {batch, k}", batch=3)`, it rearranges the array as in einops.
    The array is repeated along the axes that appear on the right only. With a number, `repeat(x, 2,
    "k")`, it is `nx.numpy.repeat`, like the method `x.repeat`.

    Args:
      x: an array, named or not.
      repeats: a pattern as in `rearrange`, in which the right side may have sizes: `"h w -> h (w
        2)"`. Otherwise the number of repetitions of each element: a number, or an integer array
        with one for each.
      axis: without a pattern, a positional or named axis; `None` (default) flattens the positional
        axes. Required if every axis is named.
      total_repeat_length: as in `nx.numpy.repeat`; by default `None`.
      out_axis: as in `nx.numpy.repeat`: the name of the axis in the result; by default `None`.
      **sizes: with a pattern, as in `rearrange`; a new named axis takes its size from the mapped
        function by default.

    Returns:
      The repeated array.

    Communication: along a sharded new axis, none; every device makes its own block. For elements
    along an axis, see `nx.numpy.repeat`.

    Raises:
      RearrangeError: as in `rearrange`, or a new axis has no size.
      ArgumentTypeError: sizes are given without a pattern.
    """
@overload
def split_axis(
    x: NamedArray, axis: Hashable, sizes: Mapping[Hashable, int | None] | Sequence[Hashable],
) -> NamedArray: ...
@overload
def split_axis(
    x: ArrayLike, axis: Hashable, sizes: Mapping[Hashable, int | None] | Sequence[Hashable],
) -> AnyArray: ...
@overload
def flip(m: NamedArray, axis: AxisSpec = None) -> NamedArray: ...
@overload
def flip(m: ArrayLike, axis: AxisSpec = None) -> AnyArray: ...
@overload
def tile(
    A: NamedArray,
    reps: int | Sequence[int] | Mapping[Hashable, int],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> NamedArray: ...
@overload
def tile(
    A: ArrayLike,
    reps: int | Sequence[int] | Mapping[Hashable, int],
    *,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
) -> AnyArray: ...
@overload
def moveaxis(a: NamedArray, source: AxisSpec, destination: AxisSpec) -> NamedArray: ...
@overload
def moveaxis(a: ArrayLike, source: AxisSpec, destination: AxisSpec) -> AnyArray: ...
@overload
def transpose(a: NamedArray, axes: Sequence[Hashable] | None = None) -> NamedArray: ...
@overload
def transpose(a: ArrayLike, axes: Sequence[Hashable] | None = None) -> AnyArray: ...
@overload
def where(condition: NamedArray, x: ArrayLike, y: ArrayLike, /) -> NamedArray:
    """Select elements of `x` where `condition` holds, else of `y`, broadcast by name."""
@overload
def where(condition: ArrayLike, x: NamedArray, y: ArrayLike, /) -> NamedArray: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> AnyArray: ...
@overload
def where(
    condition: ArrayLike,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    axis: AxisSpec = None,
    out_axis: Hashable | None = None,
) -> tuple[AnyArray, ...]:
    """Select elements of `x` where `condition` holds, else of `y`, broadcast by name.

    Args:
      condition: a boolean array, named or not.
      x: an array or a number; by default `None`.
      y: an array or a number; by default `None`. Without both, return the indices at which
        `condition` holds, along the positional axes as in `jnp.where`; names are batch axes.
      size: the number of indices in the one-argument form, by default `None`; required if the array
        has names.
      fill_value: the fill value after the last index; by default `None`.
      axis: the names along which the one-argument form searches, as in `nx.nonzero`; by default
        `None`, the positional axes.
      out_axis: the name of the axis of the indices, as in `nx.nonzero`; by default `None`.

    Communication: none. With one argument, that of `nx.nonzero`.

    Raises:
      NamedAxesLeftError: the condition has names, and neither `x` and `y` nor a size is given; the
        result's shape depends on data.
      ArgumentError: one of `size`, `fill_value`, `axis`, `out_axis` is given with `x` and `y`.
    """
@overload
def argpartition(x: NamedArray, kth: int, axis: AxisSpec = -1) -> NamedArray: ...
@overload
def argpartition(x: ArrayLike, kth: int, axis: AxisSpec = -1) -> AnyArray: ...
@overload
def argsort(
    x: NamedArray,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DType | None = None,
) -> NamedArray: ...
@overload
def argsort(
    x: ArrayLike,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: DType | None = None,
) -> AnyArray: ...
@overload
def partition(x: NamedArray, kth: int, axis: AxisSpec = -1) -> NamedArray: ...
@overload
def partition(x: ArrayLike, kth: int, axis: AxisSpec = -1) -> AnyArray: ...
@overload
def sort(
    x: NamedArray,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> NamedArray: ...
@overload
def sort(
    x: ArrayLike,
    axis: AxisSpec = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> AnyArray: ...
@overload
def unwrap(
    p: NamedArray,
    discont: jax.typing.ArrayLike | None = None,
    axis: AxisSpec = -1,
    period: jax.typing.ArrayLike = 6.283185307179586,
) -> NamedArray: ...
@overload
def unwrap(
    p: ArrayLike,
    discont: jax.typing.ArrayLike | None = None,
    axis: AxisSpec = -1,
    period: jax.typing.ArrayLike = 6.283185307179586,
) -> AnyArray: ...
@overload
def convolve(
    a: NamedArray,
    v: ArrayLike,
    mode: str = 'full',
    *,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def convolve(
    a: ArrayLike,
    v: NamedArray,
    mode: str = 'full',
    *,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = 'full',
    *,
    axis: Hashable | None = None,
    out_axis: Hashable | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> AnyArray: ...
@overload
def diff(
    a: NamedArray,
    n: int = 1,
    axis: AxisSpec = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    *,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: AxisSpec = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
    *,
    out_axis: Hashable | None = None,
) -> AnyArray: ...
@overload
def pad(
    array: NamedArray,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: jax.typing.ArrayLike = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **options: Any,
) -> NamedArray: ...
@overload
def pad(
    array: ArrayLike,
    pad_width: Any,
    mode: str = 'constant',
    *,
    constant_values: jax.typing.ArrayLike = 0,
    out_axis: Hashable | Mapping[Hashable, Hashable] | None = None,
    **options: Any,
) -> AnyArray: ...
@overload
def roll(
    a: NamedArray, shift: int | Sequence[int] | ArrayLike, axis: AxisSpec = None,
) -> NamedArray: ...
@overload
def roll(a: ArrayLike, shift: NamedArray, axis: AxisSpec = None) -> NamedArray: ...
@overload
def roll(
    a: ArrayLike, shift: int | Sequence[int] | ArrayLike, axis: AxisSpec = None,
) -> AnyArray: ...
@overload
def shift(
    x: NamedArray, offset: int, axis: Hashable, fill_value: jax.typing.ArrayLike = 0,
) -> NamedArray: ...
@overload
def shift(
    x: ArrayLike, offset: int, axis: Hashable, fill_value: jax.typing.ArrayLike = 0,
) -> AnyArray: ...
@overload
def halo(
    x: NamedArray,
    axis: Hashable,
    before: int = 1,
    after: int = 1,
    *,
    mode: str = 'zero',
    fill_value: jax.typing.ArrayLike = 0,
    out_axis: Hashable | None = None,
) -> NamedArray: ...
@overload
def halo(
    x: ArrayLike,
    axis: Hashable,
    before: int = 1,
    after: int = 1,
    *,
    mode: str = 'zero',
    fill_value: jax.typing.ArrayLike = 0,
    out_axis: Hashable | None = None,
) -> AnyArray: ...
@overload
def windows(
    x: NamedArray,
    axis: Hashable,
    *,
    size: int,
    stride: int = 1,
    padding: str | tuple[int, int] = 'VALID',
    mode: str = 'zero',
    fill_value: jax.typing.ArrayLike = 0,
    out_axis: Hashable | None = None,
    rename: Hashable | None = None,
) -> NamedArray: ...
@overload
def windows(
    x: ArrayLike,
    axis: Hashable,
    *,
    size: int,
    stride: int = 1,
    padding: str | tuple[int, int] = 'VALID',
    mode: str = 'zero',
    fill_value: jax.typing.ArrayLike = 0,
    out_axis: Hashable | None = None,
    rename: Hashable | None = None,
) -> AnyArray: ...
@overload
def checked(fun: F, *, localns: Mapping[str, object] | None = None) -> F:
    """Check the arguments and results of a function against its annotations, on every call."""
@overload
def checked(*, localns: Mapping[str, object]) -> Callable[[F], F]:
    """Check the arguments and results of a function against its annotations, on every call.

    Under `jax.jit`, `jax.grad`, `jax.vmap` and `nx.xmap` a call happens when the function is
    traced, and the traced program has no additional operation. Within the call, a function of
    leaves (`jax.tree.map`) that gives a named axis another size is an error. Within one call a size
    variable has one size, in arguments and results. Annotations without array types (`int`,
    classes) are not checked. Decorate the function itself, under other decorators:
    `checked(jax.vmap(f))` would compare the annotations of `f` with the arguments of `vmap`.

    Args:
      fun: a function or method with annotations; see this module, and `docs/guides/typing.md`.
        Default: none, to decorate with options, `@checked(localns=locals())`.
      localns: local names that string annotations mention, such as aliases that the enclosing
        function defines. Names of the module and of the class are known. Default: none.

    Returns:
      A function with the same name, signature and docstring. It is `fun` itself if no annotation
      has an array type.

    The error is raised when the result is called.

    Raises:
      ArrayTypeError: an argument or a result has another type, or an annotation cannot be
        evaluated.
    """
