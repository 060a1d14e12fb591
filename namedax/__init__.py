"""namedax: named-axis arrays for JAX.

Write a model over axis names; decide afterwards, in one dictionary (`axis_resources`), which names live on which hardware.

This file is the whole public face, a line for each name. The namespaces that mirror JAX (`numpy`, `scipy`, `lax`, `nn`, `random`, `image`)
have their names from JAX; what they are to an editor stands in the stubs beside them, which `make stubs` writes.
"""

import os as _os

from jax.extend import source_info_util as _source_info_util

from namedax import distributed as distributed
from namedax import errors as errors
from namedax import hlo as hlo
from namedax import image as image
from namedax import interop as interop
from namedax import lax as lax
from namedax import nn as nn
from namedax import numpy as numpy
from namedax import random as random
from namedax import scipy as scipy
from namedax import testing as testing
from namedax import typing as typing
from namedax.core.array import NamedArray as NamedArray
from namedax.distributed import from_process_local as from_process_local
from namedax.distributed import process_entries as process_entries
from namedax.interop import from_xarray as from_xarray
from namedax.interop import to_xarray as to_xarray
from namedax.namespaces.forms import cumulative_prod as cumulative_prod
from namedax.namespaces.forms import cumulative_sum as cumulative_sum
from namedax.namespaces.forms import diff as diff
from namedax.namespaces.forms import take_along_axis as take_along_axis
from namedax.namespaces.forms import where as where
from namedax.namespaces.operators import install as _install
from namedax.namespaces.reduction_forms import logsumexp as logsumexp
from namedax.namespaces.reduction_forms import nanpercentile as nanpercentile
from namedax.namespaces.reduction_forms import nanquantile as nanquantile
from namedax.namespaces.reduction_forms import nanstd as nanstd
from namedax.namespaces.reduction_forms import nanvar as nanvar
from namedax.namespaces.reduction_forms import percentile as percentile
from namedax.namespaces.reduction_forms import quantile as quantile
from namedax.namespaces.reduction_forms import std as std
from namedax.namespaces.reduction_forms import var as var
from namedax.namespaces.spellings import diagonal as diagonal
from namedax.namespaces.spellings import moveaxis as moveaxis
from namedax.namespaces.spellings import permute_dims as permute_dims
from namedax.namespaces.spellings import tensordot as tensordot
from namedax.namespaces.spellings import trace as trace
from namedax.namespaces.spellings import transpose as transpose
from namedax.namespaces.spellings import vecdot as vecdot
from namedax.numpy import abs as abs
from namedax.numpy import absolute as absolute
from namedax.numpy import acos as acos
from namedax.numpy import acosh as acosh
from namedax.numpy import add as add
from namedax.numpy import angle as angle
from namedax.numpy import arccos as arccos
from namedax.numpy import arccosh as arccosh
from namedax.numpy import arcsin as arcsin
from namedax.numpy import arcsinh as arcsinh
from namedax.numpy import arctan as arctan
from namedax.numpy import arctan2 as arctan2
from namedax.numpy import arctanh as arctanh
from namedax.numpy import around as around
from namedax.numpy import asin as asin
from namedax.numpy import asinh as asinh
from namedax.numpy import atan as atan
from namedax.numpy import atan2 as atan2
from namedax.numpy import atanh as atanh
from namedax.numpy import bitwise_and as bitwise_and
from namedax.numpy import bitwise_count as bitwise_count
from namedax.numpy import bitwise_invert as bitwise_invert
from namedax.numpy import bitwise_left_shift as bitwise_left_shift
from namedax.numpy import bitwise_not as bitwise_not
from namedax.numpy import bitwise_or as bitwise_or
from namedax.numpy import bitwise_right_shift as bitwise_right_shift
from namedax.numpy import bitwise_xor as bitwise_xor
from namedax.numpy import cbrt as cbrt
from namedax.numpy import ceil as ceil
from namedax.numpy import clip as clip
from namedax.numpy import conj as conj
from namedax.numpy import conjugate as conjugate
from namedax.numpy import copysign as copysign
from namedax.numpy import cos as cos
from namedax.numpy import cosh as cosh
from namedax.numpy import deg2rad as deg2rad
from namedax.numpy import degrees as degrees
from namedax.numpy import divide as divide
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
from namedax.numpy import gcd as gcd
from namedax.numpy import greater as greater
from namedax.numpy import greater_equal as greater_equal
from namedax.numpy import heaviside as heaviside
from namedax.numpy import hypot as hypot
from namedax.numpy import i0 as i0
from namedax.numpy import imag as imag
from namedax.numpy import invert as invert
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
from namedax.numpy import log1p as log1p
from namedax.numpy import log2 as log2
from namedax.numpy import log10 as log10
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
from namedax.numpy import positive as positive
from namedax.numpy import pow as pow
from namedax.numpy import power as power
from namedax.numpy import rad2deg as rad2deg
from namedax.numpy import radians as radians
from namedax.numpy import real as real
from namedax.numpy import reciprocal as reciprocal
from namedax.numpy import remainder as remainder
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
from namedax.numpy import true_divide as true_divide
from namedax.numpy import trunc as trunc
from namedax.operands.nmap import nmap as nmap
from namedax.ops.collectives.reducing import axis_size as axis_size
from namedax.ops.contraction.einsum import dot as dot
from namedax.ops.contraction.einsum import einsum as einsum
from namedax.ops.indexing.slicing import slice as slice
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
from namedax.ops.loops.vmap import map as map
from namedax.ops.loops.vmap import vmap as vmap
from namedax.ops.reduction.comparison import allclose as allclose
from namedax.ops.reduction.comparison import array_equal as array_equal
from namedax.ops.reduction.comparison import array_equiv as array_equiv
from namedax.ops.reduction.cumulative import cumlogsumexp as cumlogsumexp
from namedax.ops.reduction.cumulative import cummax as cummax
from namedax.ops.reduction.cumulative import cummin as cummin
from namedax.ops.reduction.cumulative import cumprod as cumprod
from namedax.ops.reduction.cumulative import cumsum as cumsum
from namedax.ops.reduction.cumulative import nancumprod as nancumprod
from namedax.ops.reduction.cumulative import nancumsum as nancumsum
from namedax.ops.reduction.extrema import argmax as argmax
from namedax.ops.reduction.extrema import argmin as argmin
from namedax.ops.reduction.extrema import max as amax
from namedax.ops.reduction.extrema import max as max
from namedax.ops.reduction.extrema import max_with_index as max_with_index
from namedax.ops.reduction.extrema import min as amin
from namedax.ops.reduction.extrema import min as min
from namedax.ops.reduction.extrema import min_with_index as min_with_index
from namedax.ops.reduction.reductions import all as all
from namedax.ops.reduction.reductions import any as any
from namedax.ops.reduction.reductions import count_nonzero as count_nonzero
from namedax.ops.reduction.reductions import mean as mean
from namedax.ops.reduction.reductions import prod as prod
from namedax.ops.reduction.reductions import sum as sum
from namedax.ops.reduction.segments import segment_max as segment_max
from namedax.ops.reduction.segments import segment_min as segment_min
from namedax.ops.reduction.segments import segment_prod as segment_prod
from namedax.ops.reduction.segments import segment_sum as segment_sum
from namedax.ops.shape.broadcast_to import broadcast_to as broadcast_to
from namedax.ops.shape.conversion import named as named
from namedax.ops.shape.conversion import order_like as order_like
from namedax.ops.shape.conversion import positional as positional
from namedax.ops.shape.conversion import shard as shard
from namedax.ops.shape.conversion import untag as untag
from namedax.ops.shape.creation import arange as arange
from namedax.ops.shape.creation import array as array
from namedax.ops.shape.creation import asarray as asarray
from namedax.ops.shape.creation import empty as empty
from namedax.ops.shape.creation import full as full
from namedax.ops.shape.creation import ones as ones
from namedax.ops.shape.creation import zeros as zeros
from namedax.ops.shape.grids import linspace as linspace
from namedax.ops.shape.inspection import array_repr as array_repr
from namedax.ops.shape.inspection import array_str as array_str
from namedax.ops.shape.inspection import iscomplexobj as iscomplexobj
from namedax.ops.shape.inspection import isrealobj as isrealobj
from namedax.ops.shape.inspection import isscalar as isscalar
from namedax.ops.shape.inspection import ndim as ndim
from namedax.ops.shape.inspection import result_type as result_type
from namedax.ops.shape.inspection import shape as shape
from namedax.ops.shape.inspection import size as size
from namedax.ops.shape.joining import append as append
from namedax.ops.shape.joining import concatenate as concat
from namedax.ops.shape.joining import concatenate as concatenate
from namedax.ops.shape.joining import stack as stack
from namedax.ops.shape.rearrange import merge_axes as merge_axes
from namedax.ops.shape.rearrange import rearrange as rearrange
from namedax.ops.shape.rearrange import reduce as reduce
from namedax.ops.shape.rearrange import repeat as repeat
from namedax.ops.shape.rearrange import split_axis as split_axis
from namedax.ops.shape.rename import rename as rename
from namedax.ops.shape.repeating import flip as flip
from namedax.ops.shape.repeating import tile as tile
from namedax.ops.shape.splitting import array_split as array_split
from namedax.ops.shape.splitting import split as split
from namedax.ops.shape.triangles import tril as tril
from namedax.ops.shape.triangles import triu as triu
from namedax.ops.shape.unit_axes import expand_dims as expand_dims
from namedax.ops.shape.unit_axes import squeeze as squeeze
from namedax.ops.sorting.searching import searchsorted as searchsorted
from namedax.ops.sorting.selection import nonzero as nonzero
from namedax.ops.sorting.selection import unique as unique
from namedax.ops.sorting.sorting import argpartition as argpartition
from namedax.ops.sorting.sorting import argsort as argsort
from namedax.ops.sorting.sorting import lexsort as lexsort
from namedax.ops.sorting.sorting import partition as partition
from namedax.ops.sorting.sorting import sort as sort
from namedax.ops.sorting.top_k import top_k as top_k
from namedax.ops.statistics.average import average as average
from namedax.ops.statistics.average import ptp as ptp
from namedax.ops.statistics.counting import bincount as bincount
from namedax.ops.statistics.counting import histogram as histogram
from namedax.ops.statistics.covariance import corrcoef as corrcoef
from namedax.ops.statistics.covariance import cov as cov
from namedax.ops.statistics.norms import norm as norm
from namedax.ops.statistics.quantiles import median as median
from namedax.ops.statistics.quantiles import nanmedian as nanmedian
from namedax.ops.statistics.without_nans import nanargmax as nanargmax
from namedax.ops.statistics.without_nans import nanargmin as nanargmin
from namedax.ops.statistics.without_nans import nanmax as nanmax
from namedax.ops.statistics.without_nans import nanmean as nanmean
from namedax.ops.statistics.without_nans import nanmin as nanmin
from namedax.ops.statistics.without_nans import nanprod as nanprod
from namedax.ops.statistics.without_nans import nansum as nansum
from namedax.ops.window.calculus import gradient as gradient
from namedax.ops.window.calculus import trapezoid as trapezoid
from namedax.ops.window.calculus import unwrap as unwrap
from namedax.ops.window.convolution import conv as conv
from namedax.ops.window.convolution import conv_transpose as conv_transpose
from namedax.ops.window.convolve import convolve as convolve
from namedax.ops.window.neighbours import halo as halo
from namedax.ops.window.neighbours import pad as pad
from namedax.ops.window.neighbours import roll as roll
from namedax.ops.window.neighbours import shift as shift
from namedax.resources.serial import SerialLoop as SerialLoop
from namedax.resources.serial import serial_loop as serial_loop
from namedax.typing import checked as checked
from namedax.xmap import xmap as xmap

__version__ = "0.1.0"

__all__ = [
    "NamedArray",
    "SerialLoop",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "angle",
    "any",
    "append",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "around",
    "array",
    "array_equal",
    "array_equiv",
    "array_repr",
    "array_split",
    "array_str",
    "asarray",
    "asin",
    "asinh",
    "associative_scan",
    "atan",
    "atan2",
    "atanh",
    "average",
    "axis_size",
    "bincount",
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "broadcast_to",
    "cbrt",
    "ceil",
    "checked",
    "clip",
    "concat",
    "concatenate",
    "cond",
    "conj",
    "conjugate",
    "conv",
    "conv_transpose",
    "convolve",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "custom_jvp",
    "custom_vjp",
    "deg2rad",
    "degrees",
    "diagonal",
    "diff",
    "distributed",
    "divide",
    "dot",
    "einsum",
    "empty",
    "equal",
    "errors",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "fabs",
    "flip",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "fold",
    "fori_loop",
    "from_process_local",
    "from_xarray",
    "full",
    "gcd",
    "gradient",
    "greater",
    "greater_equal",
    "halo",
    "heaviside",
    "histogram",
    "hlo",
    "hypot",
    "i0",
    "imag",
    "image",
    "interop",
    "invert",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "isscalar",
    "lax",
    "lcm",
    "ldexp",
    "left_shift",
    "less",
    "less_equal",
    "lexsort",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "map",
    "max",
    "max_with_index",
    "maximum",
    "mean",
    "median",
    "merge_axes",
    "min",
    "min_with_index",
    "minimum",
    "mod",
    "moveaxis",
    "multiply",
    "named",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "ndim",
    "negative",
    "nextafter",
    "nmap",
    "nn",
    "nonzero",
    "norm",
    "not_equal",
    "numpy",
    "ones",
    "order_like",
    "pad",
    "partition",
    "percentile",
    "permute_dims",
    "positional",
    "positive",
    "pow",
    "power",
    "process_entries",
    "prod",
    "ptp",
    "quantile",
    "rad2deg",
    "radians",
    "random",
    "real",
    "rearrange",
    "reciprocal",
    "reduce",
    "remainder",
    "rename",
    "repeat",
    "result_type",
    "right_shift",
    "rint",
    "roll",
    "round",
    "scan",
    "scipy",
    "searchsorted",
    "segment_max",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "serial_loop",
    "shape",
    "shard",
    "shift",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "size",
    "slice",
    "sort",
    "spacing",
    "split",
    "split_axis",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "switch",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "testing",
    "tile",
    "to_xarray",
    "top_k",
    "trace",
    "transpose",
    "trapezoid",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "typing",
    "unique",
    "untag",
    "unwrap",
    "var",
    "vecdot",
    "vmap",
    "where",
    "while_loop",
    "xmap",
    "zeros",
]


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


_install()

# A compiled program, a profile and JAX's own messages say the line of the model, not that of the library.
_source_info_util.register_exclusion(_os.path.dirname(__file__) + _os.sep)
