"""namedax: named-axis arrays for JAX.

Write a model over axis names; decide afterwards, in one dictionary (`axis_resources`), which names live on which hardware.

This file is the whole public face, a line for each name. Arrays with their methods and `xmap` are imported with it, all else when it is
first touched. The namespaces that mirror JAX (`numpy`, `scipy`, `lax`, `nn`, `random`, `image`) have their names from JAX; what they are to
an editor stands in the stubs beside them, which `make stubs` writes.
"""

import importlib as _importlib
import os as _os
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from jax.extend import source_info_util as _source_info_util

from namedax.core.array import NamedArray as NamedArray
from namedax.errors import install_hints as _install_hints
from namedax.explicit_axes import install as _install_explicit_axes
from namedax.namespaces.operators import install as _install
from namedax.xmap import xmap as xmap

if _TYPE_CHECKING:  # editors go to a definition by these lines
    from namedax import checkpoints as checkpoints
    from namedax import distributed as distributed
    from namedax import errors as errors
    from namedax import hlo as hlo
    from namedax import image as image
    from namedax import interop as interop
    from namedax import lax as lax
    from namedax import machines as machines
    from namedax import nn as nn
    from namedax import numpy as numpy
    from namedax import random as random
    from namedax import scipy as scipy
    from namedax import testing as testing
    from namedax import typing as typing
    from namedax.analysis.explain import explain as explain
    from namedax.distributed import from_process_local as from_process_local
    from namedax.distributed import process_entries as process_entries
    from namedax.drawing.arrays import draw as draw
    from namedax.interop import from_xarray as from_xarray
    from namedax.interop import to_xarray as to_xarray
    from namedax.namespaces.extended_signatures import cumulative_prod as cumulative_prod
    from namedax.namespaces.extended_signatures import cumulative_sum as cumulative_sum
    from namedax.namespaces.extended_signatures import diff as diff
    from namedax.namespaces.extended_signatures import take_along_axis as take_along_axis
    from namedax.namespaces.extended_signatures import where as where
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
    from namedax.numpy import ones_like as ones_like
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
    from namedax.numpy import zeros_like as zeros_like
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
    from namedax.ops.loops.pipelines import pipeline as pipeline
    from namedax.ops.loops.vmap import map as map
    from namedax.ops.loops.vmap import vmap as vmap
    from namedax.ops.ragged.ragged import Ragged as Ragged
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
    from namedax.ops.reduction.extrema import max as amax  # noqa: F401
    from namedax.ops.reduction.extrema import max as max
    from namedax.ops.reduction.extrema import max_with_index as max_with_index
    from namedax.ops.reduction.extrema import min as amin  # noqa: F401
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
    from namedax.ops.shape.joining import concatenate as concat  # noqa: F401
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
    from namedax.planning.planner import plan as plan
    from namedax.resources.serial import SerialLoop as SerialLoop
    from namedax.resources.serial import serial_loop as serial_loop
    from namedax.typing import checked as checked

# The same for a program that runs, which imports a name when it first touches it.
_FACE = {
    "NamedArray": "namedax.core.array.NamedArray",
    "Ragged": "namedax.ops.ragged.ragged.Ragged",
    "SerialLoop": "namedax.resources.serial.SerialLoop",
    "abs": "namedax.numpy.abs",
    "absolute": "namedax.numpy.absolute",
    "acos": "namedax.numpy.acos",
    "acosh": "namedax.numpy.acosh",
    "add": "namedax.numpy.add",
    "all": "namedax.ops.reduction.reductions.all",
    "allclose": "namedax.ops.reduction.comparison.allclose",
    "amax": "namedax.ops.reduction.extrema.max",
    "amin": "namedax.ops.reduction.extrema.min",
    "angle": "namedax.numpy.angle",
    "any": "namedax.ops.reduction.reductions.any",
    "append": "namedax.ops.shape.joining.append",
    "arange": "namedax.ops.shape.creation.arange",
    "arccos": "namedax.numpy.arccos",
    "arccosh": "namedax.numpy.arccosh",
    "arcsin": "namedax.numpy.arcsin",
    "arcsinh": "namedax.numpy.arcsinh",
    "arctan": "namedax.numpy.arctan",
    "arctan2": "namedax.numpy.arctan2",
    "arctanh": "namedax.numpy.arctanh",
    "argmax": "namedax.ops.reduction.extrema.argmax",
    "argmin": "namedax.ops.reduction.extrema.argmin",
    "argpartition": "namedax.ops.sorting.sorting.argpartition",
    "argsort": "namedax.ops.sorting.sorting.argsort",
    "around": "namedax.numpy.around",
    "array": "namedax.ops.shape.creation.array",
    "array_equal": "namedax.ops.reduction.comparison.array_equal",
    "array_equiv": "namedax.ops.reduction.comparison.array_equiv",
    "array_repr": "namedax.ops.shape.inspection.array_repr",
    "array_split": "namedax.ops.shape.splitting.array_split",
    "array_str": "namedax.ops.shape.inspection.array_str",
    "asarray": "namedax.ops.shape.creation.asarray",
    "asin": "namedax.numpy.asin",
    "asinh": "namedax.numpy.asinh",
    "associative_scan": "namedax.ops.loops.associative_scan.associative_scan",
    "atan": "namedax.numpy.atan",
    "atan2": "namedax.numpy.atan2",
    "atanh": "namedax.numpy.atanh",
    "average": "namedax.ops.statistics.average.average",
    "axis_size": "namedax.ops.collectives.reducing.axis_size",
    "bincount": "namedax.ops.statistics.counting.bincount",
    "bitwise_and": "namedax.numpy.bitwise_and",
    "bitwise_count": "namedax.numpy.bitwise_count",
    "bitwise_invert": "namedax.numpy.bitwise_invert",
    "bitwise_left_shift": "namedax.numpy.bitwise_left_shift",
    "bitwise_not": "namedax.numpy.bitwise_not",
    "bitwise_or": "namedax.numpy.bitwise_or",
    "bitwise_right_shift": "namedax.numpy.bitwise_right_shift",
    "bitwise_xor": "namedax.numpy.bitwise_xor",
    "broadcast_to": "namedax.ops.shape.broadcast_to.broadcast_to",
    "cbrt": "namedax.numpy.cbrt",
    "ceil": "namedax.numpy.ceil",
    "checked": "namedax.typing.checked",
    "checkpoints": "namedax.checkpoints",
    "clip": "namedax.numpy.clip",
    "concat": "namedax.ops.shape.joining.concatenate",
    "concatenate": "namedax.ops.shape.joining.concatenate",
    "cond": "namedax.ops.loops.branches.cond",
    "conj": "namedax.numpy.conj",
    "conjugate": "namedax.numpy.conjugate",
    "conv": "namedax.ops.window.convolution.conv",
    "conv_transpose": "namedax.ops.window.convolution.conv_transpose",
    "convolve": "namedax.ops.window.convolve.convolve",
    "copysign": "namedax.numpy.copysign",
    "corrcoef": "namedax.ops.statistics.covariance.corrcoef",
    "cos": "namedax.numpy.cos",
    "cosh": "namedax.numpy.cosh",
    "count_nonzero": "namedax.ops.reduction.reductions.count_nonzero",
    "cov": "namedax.ops.statistics.covariance.cov",
    "cumlogsumexp": "namedax.ops.reduction.cumulative.cumlogsumexp",
    "cummax": "namedax.ops.reduction.cumulative.cummax",
    "cummin": "namedax.ops.reduction.cumulative.cummin",
    "cumprod": "namedax.ops.reduction.cumulative.cumprod",
    "cumsum": "namedax.ops.reduction.cumulative.cumsum",
    "cumulative_prod": "namedax.namespaces.extended_signatures.cumulative_prod",
    "cumulative_sum": "namedax.namespaces.extended_signatures.cumulative_sum",
    "custom_jvp": "namedax.ops.loops.custom_rules.custom_jvp",
    "custom_vjp": "namedax.ops.loops.custom_rules.custom_vjp",
    "deg2rad": "namedax.numpy.deg2rad",
    "degrees": "namedax.numpy.degrees",
    "diagonal": "namedax.namespaces.spellings.diagonal",
    "diff": "namedax.namespaces.extended_signatures.diff",
    "distributed": "namedax.distributed",
    "divide": "namedax.numpy.divide",
    "dot": "namedax.ops.contraction.einsum.dot",
    "draw": "namedax.drawing.arrays.draw",
    "einsum": "namedax.ops.contraction.einsum.einsum",
    "empty": "namedax.ops.shape.creation.empty",
    "empty_like": "namedax.numpy.empty_like",
    "equal": "namedax.numpy.equal",
    "errors": "namedax.errors",
    "exp": "namedax.numpy.exp",
    "exp2": "namedax.numpy.exp2",
    "expand_dims": "namedax.ops.shape.unit_axes.expand_dims",
    "explain": "namedax.analysis.explain.explain",
    "expm1": "namedax.numpy.expm1",
    "fabs": "namedax.numpy.fabs",
    "flip": "namedax.ops.shape.repeating.flip",
    "float_power": "namedax.numpy.float_power",
    "floor": "namedax.numpy.floor",
    "floor_divide": "namedax.numpy.floor_divide",
    "fmax": "namedax.numpy.fmax",
    "fmin": "namedax.numpy.fmin",
    "fmod": "namedax.numpy.fmod",
    "fold": "namedax.ops.loops.control_flow.fold",
    "fori_loop": "namedax.ops.loops.control_flow.fori_loop",
    "from_process_local": "namedax.distributed.from_process_local",
    "from_xarray": "namedax.interop.from_xarray",
    "full": "namedax.ops.shape.creation.full",
    "full_like": "namedax.numpy.full_like",
    "gcd": "namedax.numpy.gcd",
    "gradient": "namedax.ops.window.calculus.gradient",
    "greater": "namedax.numpy.greater",
    "greater_equal": "namedax.numpy.greater_equal",
    "halo": "namedax.ops.window.neighbours.halo",
    "heaviside": "namedax.numpy.heaviside",
    "histogram": "namedax.ops.statistics.counting.histogram",
    "hlo": "namedax.hlo",
    "hypot": "namedax.numpy.hypot",
    "i0": "namedax.numpy.i0",
    "imag": "namedax.numpy.imag",
    "image": "namedax.image",
    "interop": "namedax.interop",
    "invert": "namedax.numpy.invert",
    "isclose": "namedax.numpy.isclose",
    "iscomplex": "namedax.numpy.iscomplex",
    "iscomplexobj": "namedax.ops.shape.inspection.iscomplexobj",
    "isfinite": "namedax.numpy.isfinite",
    "isinf": "namedax.numpy.isinf",
    "isnan": "namedax.numpy.isnan",
    "isneginf": "namedax.numpy.isneginf",
    "isposinf": "namedax.numpy.isposinf",
    "isreal": "namedax.numpy.isreal",
    "isrealobj": "namedax.ops.shape.inspection.isrealobj",
    "isscalar": "namedax.ops.shape.inspection.isscalar",
    "lax": "namedax.lax",
    "lcm": "namedax.numpy.lcm",
    "ldexp": "namedax.numpy.ldexp",
    "left_shift": "namedax.numpy.left_shift",
    "less": "namedax.numpy.less",
    "less_equal": "namedax.numpy.less_equal",
    "lexsort": "namedax.ops.sorting.sorting.lexsort",
    "linspace": "namedax.ops.shape.grids.linspace",
    "log": "namedax.numpy.log",
    "log1p": "namedax.numpy.log1p",
    "log2": "namedax.numpy.log2",
    "log10": "namedax.numpy.log10",
    "logaddexp": "namedax.numpy.logaddexp",
    "logaddexp2": "namedax.numpy.logaddexp2",
    "logical_and": "namedax.numpy.logical_and",
    "logical_not": "namedax.numpy.logical_not",
    "logical_or": "namedax.numpy.logical_or",
    "logical_xor": "namedax.numpy.logical_xor",
    "logsumexp": "namedax.namespaces.reduction_forms.logsumexp",
    "machines": "namedax.machines",
    "map": "namedax.ops.loops.vmap.map",
    "max": "namedax.ops.reduction.extrema.max",
    "max_with_index": "namedax.ops.reduction.extrema.max_with_index",
    "maximum": "namedax.numpy.maximum",
    "mean": "namedax.ops.reduction.reductions.mean",
    "median": "namedax.ops.statistics.quantiles.median",
    "merge_axes": "namedax.ops.shape.rearrange.merge_axes",
    "min": "namedax.ops.reduction.extrema.min",
    "min_with_index": "namedax.ops.reduction.extrema.min_with_index",
    "minimum": "namedax.numpy.minimum",
    "mod": "namedax.numpy.mod",
    "moveaxis": "namedax.namespaces.spellings.moveaxis",
    "multiply": "namedax.numpy.multiply",
    "named": "namedax.ops.shape.conversion.named",
    "nan_to_num": "namedax.numpy.nan_to_num",
    "nanargmax": "namedax.ops.statistics.without_nans.nanargmax",
    "nanargmin": "namedax.ops.statistics.without_nans.nanargmin",
    "nancumprod": "namedax.ops.reduction.cumulative.nancumprod",
    "nancumsum": "namedax.ops.reduction.cumulative.nancumsum",
    "nanmax": "namedax.ops.statistics.without_nans.nanmax",
    "nanmean": "namedax.ops.statistics.without_nans.nanmean",
    "nanmedian": "namedax.ops.statistics.quantiles.nanmedian",
    "nanmin": "namedax.ops.statistics.without_nans.nanmin",
    "nanpercentile": "namedax.namespaces.reduction_forms.nanpercentile",
    "nanprod": "namedax.ops.statistics.without_nans.nanprod",
    "nanquantile": "namedax.namespaces.reduction_forms.nanquantile",
    "nanstd": "namedax.namespaces.reduction_forms.nanstd",
    "nansum": "namedax.ops.statistics.without_nans.nansum",
    "nanvar": "namedax.namespaces.reduction_forms.nanvar",
    "ndim": "namedax.ops.shape.inspection.ndim",
    "negative": "namedax.numpy.negative",
    "nextafter": "namedax.numpy.nextafter",
    "nmap": "namedax.operands.nmap.nmap",
    "nn": "namedax.nn",
    "nonzero": "namedax.ops.sorting.selection.nonzero",
    "norm": "namedax.ops.statistics.norms.norm",
    "not_equal": "namedax.numpy.not_equal",
    "numpy": "namedax.numpy",
    "ones": "namedax.ops.shape.creation.ones",
    "ones_like": "namedax.numpy.ones_like",
    "order_like": "namedax.ops.shape.conversion.order_like",
    "pad": "namedax.ops.window.neighbours.pad",
    "partition": "namedax.ops.sorting.sorting.partition",
    "percentile": "namedax.namespaces.reduction_forms.percentile",
    "permute_dims": "namedax.namespaces.spellings.permute_dims",
    "pipeline": "namedax.ops.loops.pipelines.pipeline",
    "plan": "namedax.planning.planner.plan",
    "positional": "namedax.ops.shape.conversion.positional",
    "positive": "namedax.numpy.positive",
    "pow": "namedax.numpy.pow",
    "power": "namedax.numpy.power",
    "process_entries": "namedax.distributed.process_entries",
    "prod": "namedax.ops.reduction.reductions.prod",
    "ptp": "namedax.ops.statistics.average.ptp",
    "quantile": "namedax.namespaces.reduction_forms.quantile",
    "rad2deg": "namedax.numpy.rad2deg",
    "radians": "namedax.numpy.radians",
    "random": "namedax.random",
    "real": "namedax.numpy.real",
    "rearrange": "namedax.ops.shape.rearrange.rearrange",
    "reciprocal": "namedax.numpy.reciprocal",
    "reduce": "namedax.ops.shape.rearrange.reduce",
    "remainder": "namedax.numpy.remainder",
    "rename": "namedax.ops.shape.rename.rename",
    "repeat": "namedax.ops.shape.rearrange.repeat",
    "result_type": "namedax.ops.shape.inspection.result_type",
    "right_shift": "namedax.numpy.right_shift",
    "rint": "namedax.numpy.rint",
    "roll": "namedax.ops.window.neighbours.roll",
    "round": "namedax.numpy.round",
    "scan": "namedax.ops.loops.control_flow.scan",
    "scipy": "namedax.scipy",
    "searchsorted": "namedax.ops.sorting.searching.searchsorted",
    "segment_max": "namedax.ops.reduction.segments.segment_max",
    "segment_min": "namedax.ops.reduction.segments.segment_min",
    "segment_prod": "namedax.ops.reduction.segments.segment_prod",
    "segment_sum": "namedax.ops.reduction.segments.segment_sum",
    "serial_loop": "namedax.resources.serial.serial_loop",
    "shape": "namedax.ops.shape.inspection.shape",
    "shard": "namedax.ops.shape.conversion.shard",
    "shift": "namedax.ops.window.neighbours.shift",
    "sign": "namedax.numpy.sign",
    "signbit": "namedax.numpy.signbit",
    "sin": "namedax.numpy.sin",
    "sinc": "namedax.numpy.sinc",
    "sinh": "namedax.numpy.sinh",
    "size": "namedax.ops.shape.inspection.size",
    "slice": "namedax.ops.indexing.slicing.slice",
    "sort": "namedax.ops.sorting.sorting.sort",
    "spacing": "namedax.numpy.spacing",
    "split": "namedax.ops.shape.splitting.split",
    "split_axis": "namedax.ops.shape.rearrange.split_axis",
    "sqrt": "namedax.numpy.sqrt",
    "square": "namedax.numpy.square",
    "squeeze": "namedax.ops.shape.unit_axes.squeeze",
    "stack": "namedax.ops.shape.joining.stack",
    "std": "namedax.namespaces.reduction_forms.std",
    "subtract": "namedax.numpy.subtract",
    "sum": "namedax.ops.reduction.reductions.sum",
    "switch": "namedax.ops.loops.branches.switch",
    "take": "namedax.ops.indexing.take.take",
    "take_along_axis": "namedax.namespaces.extended_signatures.take_along_axis",
    "tan": "namedax.numpy.tan",
    "tanh": "namedax.numpy.tanh",
    "tensordot": "namedax.namespaces.spellings.tensordot",
    "testing": "namedax.testing",
    "tile": "namedax.ops.shape.repeating.tile",
    "to_xarray": "namedax.interop.to_xarray",
    "top_k": "namedax.ops.sorting.top_k.top_k",
    "trace": "namedax.namespaces.spellings.trace",
    "transpose": "namedax.namespaces.spellings.transpose",
    "trapezoid": "namedax.ops.window.calculus.trapezoid",
    "tril": "namedax.ops.shape.triangles.tril",
    "triu": "namedax.ops.shape.triangles.triu",
    "true_divide": "namedax.numpy.true_divide",
    "trunc": "namedax.numpy.trunc",
    "typing": "namedax.typing",
    "unique": "namedax.ops.sorting.selection.unique",
    "untag": "namedax.ops.shape.conversion.untag",
    "unwrap": "namedax.ops.window.calculus.unwrap",
    "var": "namedax.namespaces.reduction_forms.var",
    "vecdot": "namedax.namespaces.spellings.vecdot",
    "vmap": "namedax.ops.loops.vmap.vmap",
    "where": "namedax.namespaces.extended_signatures.where",
    "while_loop": "namedax.ops.loops.control_flow.while_loop",
    "xmap": "namedax.xmap.xmap",
    "zeros": "namedax.ops.shape.creation.zeros",
    "zeros_like": "namedax.numpy.zeros_like",
}

__version__ = "0.1.0"

__all__ = list(_FACE)


def _elsewhere(name: str) -> str:
    """Where a function of JAX is that is not at the top."""
    homes = [] if name.startswith("_") else [f"{__name__}.{home}" for home in ("numpy", "lax", "nn", "random")]
    found = [home for home in homes if hasattr(_importlib.import_module(home), name)]
    there = f"; there is {' and '.join(f'{home}.{name}' for home in found)}" if found else ""
    instead = _importlib.import_module("namedax.hints.migration").at_face(name)
    return f"{there}; write {instead}" if instead else there


def __getattr__(name: str) -> _Any:
    if name not in _FACE:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{_elsewhere(name)}", name=name, obj=_sys.modules[__name__]
        )
    home, _, its_name = _FACE[name].rpartition(".")
    value = _importlib.import_module(_FACE[name]) if home == __name__ else getattr(_importlib.import_module(home), its_name)
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]


_install()
_install_explicit_axes()
_install_hints(lambda: _importlib.import_module("namedax.hints.provider").hints_of(_sys.modules[__name__]))

# A compiled program, a profile and JAX's own messages say the line of the model, not that of the library.
_source_info_util.register_exclusion(_os.path.dirname(__file__) + _os.sep)
