# Written by tools/stubs.py (make stubs) with JAX 0.10.2. Do not edit.
"""The namespace `nx.lax`: `jax.lax` for named arrays, collectives over named axes, `linalg`."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, overload

import jax
import jax.typing
import numpy as np
from jax.lax import AccuracyMode as AccuracyMode  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ConvDimensionNumbers as ConvDimensionNumbers  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers  # type: ignore[attr-defined, unused-ignore]
from jax.lax import DotAlgorithm as DotAlgorithm  # type: ignore[attr-defined, unused-ignore]
from jax.lax import DotAlgorithmPreset as DotAlgorithmPreset  # type: ignore[attr-defined, unused-ignore]
from jax.lax import DotDimensionNumbers as DotDimensionNumbers  # type: ignore[attr-defined, unused-ignore]
from jax.lax import FftType as FftType  # type: ignore[attr-defined, unused-ignore]
from jax.lax import GatherDimensionNumbers as GatherDimensionNumbers  # type: ignore[attr-defined, unused-ignore]
from jax.lax import GatherScatterMode as GatherScatterMode  # type: ignore[attr-defined, unused-ignore]
from jax.lax import Precision as Precision  # type: ignore[attr-defined, unused-ignore]
from jax.lax import PrecisionLike as PrecisionLike  # type: ignore[attr-defined, unused-ignore]
from jax.lax import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers  # type: ignore[attr-defined, unused-ignore]
from jax.lax import RandomAlgorithm as RandomAlgorithm  # type: ignore[attr-defined, unused-ignore]
from jax.lax import RoundingMethod as RoundingMethod  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ScatterDimensionNumbers as ScatterDimensionNumbers  # type: ignore[attr-defined, unused-ignore]
from jax.lax import Tolerance as Tolerance  # type: ignore[attr-defined, unused-ignore]
from jax.lax import abs_p as abs_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import acos_p as acos_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import acosh_p as acosh_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import add_p as add_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import after_all as after_all  # type: ignore[attr-defined, unused-ignore]
from jax.lax import after_all_p as after_all_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import all_gather_p as all_gather_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import all_to_all_p as all_to_all_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import and_p as and_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import approx_top_k_p as approx_top_k_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import argmax_p as argmax_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import argmin_p as argmin_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import asin_p as asin_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import asinh_p as asinh_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import atan2_p as atan2_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import atan_p as atan_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import atanh_p as atanh_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import axis_index_p as axis_index_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import bessel_i0e_p as bessel_i0e_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import bessel_i1e_p as bessel_i1e_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import bitcast_convert_type_p as bitcast_convert_type_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import broadcast_in_dim_p as broadcast_in_dim_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import broadcast_shapes as broadcast_shapes  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cbrt_p as cbrt_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ceil_p as ceil_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import clamp_p as clamp_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import clz_p as clz_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import complex_p as complex_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import composite as composite  # type: ignore[attr-defined, unused-ignore]
from jax.lax import concatenate_p as concatenate_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cond_p as cond_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import conj_p as conj_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import conv_dimension_numbers as conv_dimension_numbers  # type: ignore[attr-defined, unused-ignore]
from jax.lax import conv_general_dilated_p as conv_general_dilated_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import conv_general_permutations as conv_general_permutations  # type: ignore[attr-defined, unused-ignore]
from jax.lax import conv_general_shape_tuple as conv_general_shape_tuple  # type: ignore[attr-defined, unused-ignore]
from jax.lax import conv_shape_tuple as conv_shape_tuple  # type: ignore[attr-defined, unused-ignore]
from jax.lax import conv_transpose_shape_tuple as conv_transpose_shape_tuple  # type: ignore[attr-defined, unused-ignore]
from jax.lax import convert_element_type_p as convert_element_type_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import copy_p as copy_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cos_p as cos_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cosh_p as cosh_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import create_token as create_token  # type: ignore[attr-defined, unused-ignore]
from jax.lax import create_token_p as create_token_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cumlogsumexp_p as cumlogsumexp_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cummax_p as cummax_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cummin_p as cummin_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cumprod_p as cumprod_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import cumsum_p as cumsum_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import custom_linear_solve as custom_linear_solve  # type: ignore[attr-defined, unused-ignore]
from jax.lax import custom_root as custom_root  # type: ignore[attr-defined, unused-ignore]
from jax.lax import dce_sink as dce_sink  # type: ignore[attr-defined, unused-ignore]
from jax.lax import dce_sink_p as dce_sink_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import device_put_p as device_put_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import digamma_p as digamma_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import div_p as div_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import dot_general_p as dot_general_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import dtype as dtype  # type: ignore[attr-defined, unused-ignore]
from jax.lax import dynamic_slice_p as dynamic_slice_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import dynamic_update_slice_p as dynamic_update_slice_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import empty as empty  # type: ignore[attr-defined, unused-ignore]
from jax.lax import eq_p as eq_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import eq_to_p as eq_to_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import erf_inv_p as erf_inv_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import erf_p as erf_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import erfc_p as erfc_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import exp2_p as exp2_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import exp_p as exp_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import expm1_p as expm1_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import fft_p as fft_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import floor_p as floor_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import gather_p as gather_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ge_p as ge_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import gt_p as gt_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import igamma_grad_a_p as igamma_grad_a_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import igamma_p as igamma_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import igammac_p as igammac_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import imag_p as imag_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import integer_pow_p as integer_pow_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import iota_p as iota_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import is_finite_p as is_finite_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import le_p as le_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import le_to_p as le_to_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import lgamma_p as lgamma_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import linear_solve_p as linear_solve_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import log1p_p as log1p_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import log_p as log_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import logistic_p as logistic_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import lt_p as lt_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import lt_to_p as lt_to_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import max_p as max_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import min_p as min_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import mul_p as mul_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import mulhi_p as mulhi_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ne_p as ne_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import neg_p as neg_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import nextafter_p as nextafter_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import not_p as not_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import optimization_barrier_p as optimization_barrier_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import or_p as or_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import pad_p as pad_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import padtype_to_pads as padtype_to_pads  # type: ignore[attr-defined, unused-ignore]
from jax.lax import platform_dependent as platform_dependent  # type: ignore[attr-defined, unused-ignore]
from jax.lax import pmax_p as pmax_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import pmin_p as pmin_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import polygamma_p as polygamma_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import population_count_p as population_count_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import pow_p as pow_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ppermute_p as ppermute_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import psum_p as psum_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import ragged_all_to_all_p as ragged_all_to_all_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import real_p as real_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_and_p as reduce_and_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_max_p as reduce_max_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_min_p as reduce_min_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_or_p as reduce_or_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_p as reduce_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_precision_p as reduce_precision_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_prod_p as reduce_prod_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_sum_p as reduce_sum_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_window_max_p as reduce_window_max_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_window_min_p as reduce_window_min_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_window_p as reduce_window_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_window_shape_tuple as reduce_window_shape_tuple  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_window_sum_p as reduce_window_sum_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reduce_xor_p as reduce_xor_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import regularized_incomplete_beta_p as regularized_incomplete_beta_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import rem_p as rem_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import reshape_p as reshape_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import rev_p as rev_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import rng_bit_generator_p as rng_bit_generator_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import rng_uniform_p as rng_uniform_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import round_p as round_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import rsqrt_p as rsqrt_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import scan_p as scan_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import scatter_add_p as scatter_add_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import scatter_max_p as scatter_max_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import scatter_min_p as scatter_min_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import scatter_mul_p as scatter_mul_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import scatter_p as scatter_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import scatter_sub_p as scatter_sub_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import select_and_gather_add_p as select_and_gather_add_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import select_and_scatter_add_p as select_and_scatter_add_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import select_and_scatter_p as select_and_scatter_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import select_n_p as select_n_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import shape_as_value as shape_as_value  # type: ignore[attr-defined, unused-ignore]
from jax.lax import sharding_constraint_p as sharding_constraint_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import shift_left_p as shift_left_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import shift_right_arithmetic_p as shift_right_arithmetic_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import shift_right_logical_p as shift_right_logical_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import sign_p as sign_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import sin_p as sin_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import sinh_p as sinh_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import slice_p as slice_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import sort_p as sort_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import split_p as split_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import sqrt_p as sqrt_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import square_p as square_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import squeeze_p as squeeze_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import stack_p as stack_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import stage as stage  # type: ignore[attr-defined, unused-ignore]
from jax.lax import stage_p as stage_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import stop_gradient_p as stop_gradient_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import sub_p as sub_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import tan_p as tan_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import tanh_p as tanh_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import tile_p as tile_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import top_k_p as top_k_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import transpose_p as transpose_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import unstack_p as unstack_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import while_p as while_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import xor_p as xor_p  # type: ignore[attr-defined, unused-ignore]
from jax.lax import zeta_p as zeta_p  # type: ignore[attr-defined, unused-ignore]

from namedax.core.annotations import AnyArray, ArrayLike, AxisSpec, EitherArray
from namedax.core.array import NamedArray
from namedax.core.names import AxisName, DType, PyTree
from namedax.core.results import PlainArray
from namedax.ops.sorting.sorting import TopK
from namedax.lax import linalg as linalg

@overload
def abs(x: NamedArray) -> NamedArray:
    """Elementwise absolute value: :math:`|x|`."""
@overload
def abs(x: PlainArray) -> PlainArray: ...
@overload
def abs(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise absolute value: :math:`|x|`."""
@overload
def acos(x: NamedArray) -> NamedArray:
    """Elementwise arc cosine: :math:`\\mathrm{acos}(x)`."""
@overload
def acos(x: PlainArray) -> PlainArray: ...
@overload
def acos(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise arc cosine: :math:`\\mathrm{acos}(x)`."""
@overload
def acosh(x: NamedArray) -> NamedArray:
    """Elementwise inverse hyperbolic cosine: :math:`\\mathrm{acosh}(x)`."""
@overload
def acosh(x: PlainArray) -> PlainArray: ...
@overload
def acosh(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise inverse hyperbolic cosine: :math:`\\mathrm{acosh}(x)`."""
@overload
def add(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise addition: :math:`x + y`."""
@overload
def add(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def add(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def add(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise addition: :math:`x + y`."""
def all_gather(
    x: PyTree,
    axis_name: AxisName,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = 'varying',
) -> PyTree:
    """Gather a named axis, or a tuple of them, into a complete positional axis.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names gathers in row-major order.
      axis_index_groups: lists of equal size that together contain every index of the axis once, by
        default `None`; gather within each group and keep the named axis.
      axis: the index of the positional axis among the positional axes of the result; by default 0.
      tiled: if `False` (default), the result has a new positional axis. If `True`, the elements are
        concatenated along the existing positional axis `axis`.
      to: `"varying"` (default) or `"invarying"`, without effect: the variance of a result follows
        from its names.

    Returns:
      The array without the named axes. A value without a named axis is repeated along the new axis,
      as in JAX.

    Communication: one all-gather, also within groups; the result is replicated on every device. If
    the result is combined with a value that varies over the same mesh axis, the transpose is a
    reduce-scatter, otherwise a slice. A result with no named axis is a plain array and counts as
    replicated. If it is combined with a varying value, its transpose is an all-reduce and a slice.
    """
def all_to_all(
    x: PyTree,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> PyTree:
    """Exchange a named and a positional axis.

    Instance `i` receives block `i` of `split_axis` from every instance.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      split_axis: the positional axis that is split, one block per instance.
      concat_axis: the positional axis of the result that enumerates the blocks of all instances.
      axis_index_groups: lists of equal size that together contain every index of the axis once, by
        default `None`; exchange within each group.
      tiled: if `False` (default), `split_axis` has the size of the named axis and is removed, and
        the result has a new axis at `concat_axis`. If `True`, `split_axis` becomes shorter, and the
        blocks are concatenated along `concat_axis`.

    Returns:
      An array that still has the named axis. A value without the axis is the same in every
      instance.

    Communication: one all-to-all and local transposes, also over several axes, with one element per
    device or in blocks. Within groups: one all-gather of the complete axis. For a value without the
    axis: none.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      PositionalAxisError: a positional axis does not exist, or its size does not fit.
    """
def approx_max_k(
    operand: EitherArray,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[AnyArray, AnyArray]:
    """Returns max ``k`` values and their indices of the ``operand`` in an approximate manner."""
def approx_min_k(
    operand: EitherArray,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[AnyArray, AnyArray]:
    """Returns min ``k`` values and their indices of the ``operand`` in an approximate manner."""
def argmax(operand: ArrayLike, axis: AxisSpec, index_dtype: DType) -> AnyArray:
    """Apply `jax.lax.argmax` along a positional or named axis.

    See `nx.argmax`.
    """
def argmin(operand: ArrayLike, axis: AxisSpec, index_dtype: DType) -> AnyArray:
    """Apply `jax.lax.argmin` along a positional or named axis.

    See `nx.argmin`.
    """
@overload
def asin(x: NamedArray) -> NamedArray:
    """Elementwise arc sine: :math:`\\mathrm{asin}(x)`."""
@overload
def asin(x: PlainArray) -> PlainArray: ...
@overload
def asin(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise arc sine: :math:`\\mathrm{asin}(x)`."""
@overload
def asinh(x: NamedArray) -> NamedArray:
    """Elementwise inverse hyperbolic sine: :math:`\\mathrm{asinh}(x)`."""
@overload
def asinh(x: PlainArray) -> PlainArray: ...
@overload
def asinh(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise inverse hyperbolic sine: :math:`\\mathrm{asinh}(x)`."""
def associative_scan(
    fn: Callable[[PyTree, PyTree], PyTree],
    elems: PyTree,
    reverse: bool = False,
    axis: Hashable = 0,
) -> PyTree:
    """Combine all elements up to each one with an associative function: `lax.associative_scan`.

    Args:
      fn: combines two pytrees of arrays, and returns a pytree of the same structure. Over a named
        axis its arguments are single elements, arrays without the axis. Over a positional axis they
        have that axis, with any length, as in JAX.
      elems: a pytree of arrays that all have the axis.
      reverse: if `True`, scan from the end; by default `False`.
      axis: an axis name or a positional axis, by default 0.

    Returns:
      Arrays like `elems`. Axes that `fn` adds are axes of all elements.

    Communication: along a sharded axis every device scans its own block. One all-gather per array,
    of one element per device, collects the totals of the blocks; these are combined and prepended.
    The gradient adds one reduce-scatter of the same size. `fn` must not communicate along the mesh
    axes of the axis. If the axis does not divide over these, `fn` does not receive padding. It
    receives two adjacent elements instead, which the first device sends to all if some device has
    fewer than two. Outside of a mapped function an axis that is sharded over Explicit mesh axes is
    gathered, and the results are sharded along it again.

    Raises:
      AxisNotFoundError: an array lacks the named axis.
      PositionalAxisError: an array lacks the positional axis.
      PlacementConflictError: the axis is sharded, and `fn` communicates along its mesh axes.
    """
@overload
def atan(x: NamedArray) -> NamedArray:
    """Elementwise arc tangent: :math:`\\mathrm{atan}(x)`."""
@overload
def atan(x: PlainArray) -> PlainArray: ...
@overload
def atan(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise arc tangent: :math:`\\mathrm{atan}(x)`."""
@overload
def atan2(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise two-term arc tangent: :math:`\\mathrm{atan}({x \\over y})`."""
@overload
def atan2(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def atan2(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def atan2(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise two-term arc tangent: :math:`\\mathrm{atan}({x \\over y})`."""
@overload
def atanh(x: NamedArray) -> NamedArray:
    """Elementwise inverse hyperbolic tangent: :math:`\\mathrm{atanh}(x)`."""
@overload
def atanh(x: PlainArray) -> PlainArray: ...
@overload
def atanh(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise inverse hyperbolic tangent: :math:`\\mathrm{atanh}(x)`."""
def axis_index(axis_name: AxisName) -> NamedArray:
    """Return the index of every instance along a named axis.

    For a tuple of names the index is row-major in the given order.

    Args:
      axis_name: an axis name, or a tuple of names.

    Returns:
      `i32[]{name}` with the values 0 to size - 1.

    Communication: none.
    """
def axis_size(axis_name: AxisName) -> int:
    """Return the global size of a named axis, or the product of the sizes for a tuple of names.

    See `nx.axis_size`.
    """
@overload
def batch_matmul(
    lhs: NamedArray, rhs: EitherArray, precision: jax.lax.PrecisionLike = None,
) -> NamedArray:
    """Batch matrix multiplication."""
@overload
def batch_matmul(
    lhs: EitherArray, rhs: NamedArray, precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def batch_matmul(
    lhs: PlainArray, rhs: jax.Array, precision: jax.lax.PrecisionLike = None,
) -> PlainArray: ...
@overload
def batch_matmul(
    lhs: jax.Array, rhs: jax.Array, precision: jax.lax.PrecisionLike = None,
) -> jax.Array:
    """Batch matrix multiplication."""
@overload
def bessel_i0e(x: NamedArray) -> NamedArray:
    """Exponentially scaled modified Bessel function of order 0:
    :math:`\\mathrm{i0e}(x) = e^{-|x|} \\mathrm{i0}(x)`.
    """
@overload
def bessel_i0e(x: PlainArray) -> PlainArray: ...
@overload
def bessel_i0e(x: jax.typing.ArrayLike) -> jax.Array:
    """Exponentially scaled modified Bessel function of order 0:
    :math:`\\mathrm{i0e}(x) = e^{-|x|} \\mathrm{i0}(x)`.
    """
@overload
def bessel_i1e(x: NamedArray) -> NamedArray:
    """Exponentially scaled modified Bessel function of order 1:
    :math:`\\mathrm{i1e}(x) = e^{-|x|} \\mathrm{i1}(x)`.
    """
@overload
def bessel_i1e(x: PlainArray) -> PlainArray: ...
@overload
def bessel_i1e(x: jax.typing.ArrayLike) -> jax.Array:
    """Exponentially scaled modified Bessel function of order 1:
    :math:`\\mathrm{i1e}(x) = e^{-|x|} \\mathrm{i1}(x)`.
    """
@overload
def betainc(a: NamedArray, b: ArrayLike, x: ArrayLike) -> NamedArray:
    """Elementwise regularized incomplete beta integral."""
@overload
def betainc(a: ArrayLike, b: NamedArray, x: ArrayLike) -> NamedArray: ...
@overload
def betainc(a: ArrayLike, b: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def betainc(a: PlainArray, b: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def betainc(
    a: jax.typing.ArrayLike, b: jax.typing.ArrayLike, x: jax.typing.ArrayLike,
) -> jax.Array:
    """Elementwise regularized incomplete beta integral."""
@overload
def bitcast_convert_type(operand: NamedArray, new_dtype: DType) -> NamedArray:
    """Elementwise bitcast."""
@overload
def bitcast_convert_type(operand: PlainArray, new_dtype: DType) -> PlainArray: ...
@overload
def bitcast_convert_type(operand: jax.typing.ArrayLike, new_dtype: DType) -> jax.Array:
    """Elementwise bitcast."""
@overload
def bitwise_and(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise AND: :math:`x \\wedge y`."""
@overload
def bitwise_and(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def bitwise_and(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def bitwise_and(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise AND: :math:`x \\wedge y`."""
@overload
def bitwise_not(x: NamedArray) -> NamedArray:
    """Elementwise NOT: :math:`\\neg x`."""
@overload
def bitwise_not(x: PlainArray) -> PlainArray: ...
@overload
def bitwise_not(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise NOT: :math:`\\neg x`."""
@overload
def bitwise_or(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise OR: :math:`x \\vee y`."""
@overload
def bitwise_or(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def bitwise_or(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def bitwise_or(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise OR: :math:`x \\vee y`."""
@overload
def bitwise_xor(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise exclusive OR: :math:`x \\oplus y`."""
@overload
def bitwise_xor(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def bitwise_xor(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def bitwise_xor(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise exclusive OR: :math:`x \\oplus y`."""
@overload
def broadcast(
    operand: NamedArray, sizes: Sequence[int], *, out_sharding: object = None,
) -> NamedArray:
    """Broadcasts an array, adding new leading dimensions only."""
@overload
def broadcast(
    operand: PlainArray, sizes: Sequence[int], *, out_sharding: object = None,
) -> PlainArray: ...
@overload
def broadcast(
    operand: jax.typing.ArrayLike, sizes: Sequence[int], *, out_sharding: object = None,
) -> jax.Array:
    """Broadcasts an array, adding new leading dimensions only."""
@overload
def broadcast_in_dim(
    operand: NamedArray,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: object = None,
) -> NamedArray:
    """General broadcasting operation."""
@overload
def broadcast_in_dim(
    operand: PlainArray,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: object = None,
) -> PlainArray: ...
@overload
def broadcast_in_dim(
    operand: jax.typing.ArrayLike,
    shape: Sequence[int],
    broadcast_dimensions: Sequence[int],
    *,
    out_sharding: object = None,
) -> jax.Array:
    """General broadcasting operation."""
@overload
def broadcast_like(arr: NamedArray, like_arr: ArrayLike) -> NamedArray:
    """Broadcasts an array to match the shape and sharding of another array."""
@overload
def broadcast_like(arr: ArrayLike, like_arr: NamedArray) -> NamedArray: ...
@overload
def broadcast_like(arr: PlainArray, like_arr: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def broadcast_like(arr: jax.typing.ArrayLike, like_arr: jax.typing.ArrayLike) -> jax.Array:
    """Broadcasts an array to match the shape and sharding of another array."""
@overload
def broadcast_to_rank(x: NamedArray, rank: int) -> NamedArray:
    """Adds leading dimensions of ``1`` to give ``x`` rank ``rank``."""
@overload
def broadcast_to_rank(x: PlainArray, rank: int) -> PlainArray: ...
@overload
def broadcast_to_rank(x: jax.typing.ArrayLike, rank: int) -> jax.Array:
    """Adds leading dimensions of ``1`` to give ``x`` rank ``rank``."""
def broadcasted_iota(
    dtype: DType, shape: Sequence[int], dimension: AxisSpec, *, out_sharding: object = None,
) -> AnyArray:
    """Convenience wrapper around ``iota``."""
@overload
def cbrt(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise cube root: :math:`\\sqrt[3]{x}`."""
@overload
def cbrt(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def cbrt(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise cube root: :math:`\\sqrt[3]{x}`."""
@overload
def ceil(x: NamedArray) -> NamedArray:
    """Elementwise ceiling: :math:`\\left\\lceil x \\right\\rceil`."""
@overload
def ceil(x: PlainArray) -> PlainArray: ...
@overload
def ceil(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise ceiling: :math:`\\left\\lceil x \\right\\rceil`."""
@overload
def clamp(min: NamedArray, x: ArrayLike, max: ArrayLike) -> NamedArray:
    """Elementwise clamp."""
@overload
def clamp(min: ArrayLike, x: NamedArray, max: ArrayLike) -> NamedArray: ...
@overload
def clamp(min: ArrayLike, x: ArrayLike, max: NamedArray) -> NamedArray: ...
@overload
def clamp(min: PlainArray, x: jax.typing.ArrayLike, max: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def clamp(
    min: jax.typing.ArrayLike, x: jax.typing.ArrayLike, max: jax.typing.ArrayLike,
) -> jax.Array:
    """Elementwise clamp."""
@overload
def clz(x: NamedArray) -> NamedArray:
    """Elementwise count-leading-zeros."""
@overload
def clz(x: PlainArray) -> PlainArray: ...
@overload
def clz(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise count-leading-zeros."""
@overload
def collapse(
    operand: NamedArray, start_dimension: int, stop_dimension: int | None = None,
) -> NamedArray:
    """Collapses dimensions of an array into a single dimension."""
@overload
def collapse(
    operand: PlainArray, start_dimension: int, stop_dimension: int | None = None,
) -> PlainArray: ...
@overload
def collapse(
    operand: jax.Array, start_dimension: int, stop_dimension: int | None = None,
) -> jax.Array:
    """Collapses dimensions of an array into a single dimension."""
@overload
def complex(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise make complex number: :math:`x + jy`."""
@overload
def complex(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def complex(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def complex(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise make complex number: :math:`x + jy`."""
def concatenate(operands: Sequence[ArrayLike], dimension: AxisSpec) -> AnyArray:
    """Concatenate arrays along a positional or named axis, as `jax.lax.concatenate`.

    See `nx.concatenate`.
    """
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., PyTree],
    false_fun: Callable[..., PyTree],
    *operands: PyTree,
    operand: PyTree = ...,
) -> PyTree:
    """Apply one of two functions, selected by the predicate: `lax.cond` over named axes.

    See `nx.cond`.
    """
@overload
def conj(x: NamedArray) -> NamedArray:
    """Elementwise complex conjugate function: :math:`\\overline{x}`."""
@overload
def conj(x: PlainArray) -> PlainArray: ...
@overload
def conj(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise complex conjugate function: :math:`\\overline{x}`."""
@overload
def conv(
    lhs: NamedArray,
    rhs: EitherArray,
    window_strides: Sequence[int],
    padding: str,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray:
    """Convenience wrapper around `conv_general_dilated`."""
@overload
def conv(
    lhs: EitherArray,
    rhs: NamedArray,
    window_strides: Sequence[int],
    padding: str,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray: ...
@overload
def conv(
    lhs: PlainArray,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> PlainArray: ...
@overload
def conv(
    lhs: jax.Array,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> jax.Array:
    """Convenience wrapper around `conv_general_dilated`."""
@overload
def conv_general_dilated(
    lhs: NamedArray,
    rhs: EitherArray,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """General n-dimensional convolution operator, with optional dilation."""
@overload
def conv_general_dilated(
    lhs: EitherArray,
    rhs: NamedArray,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray: ...
@overload
def conv_general_dilated(
    lhs: PlainArray,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> PlainArray: ...
@overload
def conv_general_dilated(
    lhs: jax.Array,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """General n-dimensional convolution operator, with optional dilation."""
@overload
def conv_general_dilated_local(
    lhs: NamedArray,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray:
    """General n-dimensional unshared convolution operator with optional dilation."""
@overload
def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: NamedArray,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> NamedArray: ...
@overload
def conv_general_dilated_local(
    lhs: PlainArray,
    rhs: jax.typing.ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> PlainArray: ...
@overload
def conv_general_dilated_local(
    lhs: jax.typing.ArrayLike,
    rhs: jax.typing.ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    precision: jax.lax.PrecisionLike = None,
) -> jax.Array:
    """General n-dimensional unshared convolution operator with optional dilation."""
@overload
def conv_general_dilated_patches(
    lhs: NamedArray,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    precision: jax.lax.Precision | None = None,
    preferred_element_type: Any | None = None,
) -> NamedArray:
    """Extract patches subject to the receptive field of `conv_general_dilated`."""
@overload
def conv_general_dilated_patches(
    lhs: PlainArray,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    precision: jax.lax.Precision | None = None,
    preferred_element_type: Any | None = None,
) -> PlainArray: ...
@overload
def conv_general_dilated_patches(
    lhs: jax.typing.ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    precision: jax.lax.Precision | None = None,
    preferred_element_type: Any | None = None,
) -> jax.Array:
    """Extract patches subject to the receptive field of `conv_general_dilated`."""
@overload
def conv_transpose(
    lhs: NamedArray,
    rhs: EitherArray,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    transpose_kernel: bool = False,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    use_consistent_padding: bool = False,
) -> NamedArray:
    """Convenience wrapper for calculating the N-d convolution "transpose"."""
@overload
def conv_transpose(
    lhs: EitherArray,
    rhs: NamedArray,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    transpose_kernel: bool = False,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    use_consistent_padding: bool = False,
) -> NamedArray: ...
@overload
def conv_transpose(
    lhs: PlainArray,
    rhs: jax.Array,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    transpose_kernel: bool = False,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    use_consistent_padding: bool = False,
) -> PlainArray: ...
@overload
def conv_transpose(
    lhs: jax.Array,
    rhs: jax.Array,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: tuple[str, str, str] | jax.lax.ConvDimensionNumbers | None = None,
    transpose_kernel: bool = False,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    use_consistent_padding: bool = False,
) -> jax.Array:
    """Convenience wrapper for calculating the N-d convolution "transpose"."""
@overload
def conv_with_general_padding(
    lhs: NamedArray,
    rhs: EitherArray,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray:
    """Convenience wrapper around `conv_general_dilated`."""
@overload
def conv_with_general_padding(
    lhs: EitherArray,
    rhs: NamedArray,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> NamedArray: ...
@overload
def conv_with_general_padding(
    lhs: PlainArray,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> PlainArray: ...
@overload
def conv_with_general_padding(
    lhs: jax.Array,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
) -> jax.Array:
    """Convenience wrapper around `conv_general_dilated`."""
@overload
def convert_element_type(operand: NamedArray, new_dtype: DType | Any) -> NamedArray:
    """Elementwise cast."""
@overload
def convert_element_type(operand: PlainArray, new_dtype: DType | Any) -> PlainArray: ...
@overload
def convert_element_type(operand: jax.typing.ArrayLike, new_dtype: DType | Any) -> jax.Array:
    """Elementwise cast."""
@overload
def cos(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise cosine: :math:`\\mathrm{cos}(x)`."""
@overload
def cos(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def cos(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise cosine: :math:`\\mathrm{cos}(x)`."""
@overload
def cosh(x: NamedArray) -> NamedArray:
    """Elementwise hyperbolic cosine: :math:`\\mathrm{cosh}(x)`."""
@overload
def cosh(x: PlainArray) -> PlainArray: ...
@overload
def cosh(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise hyperbolic cosine: :math:`\\mathrm{cosh}(x)`."""
@overload
def cumlogsumexp(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray:
    """Compute the cumulative `log(sum(exp(x)))` along one axis, as `lax.cumlogsumexp`."""
@overload
def cumlogsumexp(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray:
    """Compute the cumulative `log(sum(exp(x)))` along one axis, as `lax.cumlogsumexp`.

    The derivative with respect to elements of minus infinity, such as masked ones, is zero. In JAX
    (0.10 to 0.12) it is NaN where two of them are side by side.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: as for `nx.cummax`.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.
    """
@overload
def cummax(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray:
    """Compute the cumulative maximum along one axis, as `lax.cummax`."""
@overload
def cummax(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray:
    """Compute the cumulative maximum along one axis, as `lax.cummax`.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: along a sharded axis, one all-gather of the maxima of the blocks, one element per
    device and row. The gradient adds one reduce-scatter of the same size.

    Equal maxima share the gradient. With more than two of them the shares follow the comparison
    tree, also in JAX, and that tree depends on the blocks.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.
    """
@overload
def cummin(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray:
    """Compute the cumulative minimum along one axis, as `lax.cummin`."""
@overload
def cummin(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray:
    """Compute the cumulative minimum along one axis, as `lax.cummin`.

    Args:
      operand: an array, named or not.
      axis: a positional or named axis, by default 0.
      reverse: if `True`, accumulate from the end of the axis; by default `False`.

    Returns:
      An array with the axes of `operand`.

    Communication: as for `nx.cummax`.

    Raises:
      AxisNotFoundError: `operand` has no axis of that name.
      PositionalAxisError: `axis` is not a single axis, or is out of range.
    """
@overload
def cumprod(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray:
    """Compute the cumulative product along one axis, with the dtype preserved."""
@overload
def cumprod(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray:
    """Compute the cumulative product along one axis, with the dtype preserved.

    See `nx.cumprod`.
    """
@overload
def cumsum(operand: NamedArray, axis: AxisSpec = 0, reverse: bool = False) -> NamedArray:
    """Compute the cumulative sum along one axis, with the dtype preserved."""
@overload
def cumsum(operand: ArrayLike, axis: AxisSpec = 0, reverse: bool = False) -> AnyArray:
    """Compute the cumulative sum along one axis, with the dtype preserved.

    See `nx.cumsum`.
    """
@overload
def digamma(x: NamedArray) -> NamedArray:
    """Elementwise digamma: :math:`\\psi(x)`."""
@overload
def digamma(x: PlainArray) -> PlainArray: ...
@overload
def digamma(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise digamma: :math:`\\psi(x)`."""
@overload
def div(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise division: :math:`x \\over y`."""
@overload
def div(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def div(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def div(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise division: :math:`x \\over y`."""
@overload
def dot(
    lhs: NamedArray,
    rhs: ArrayLike,
    *,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]] | None = None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> NamedArray:
    """General dot product/contraction operator."""
@overload
def dot(
    lhs: ArrayLike,
    rhs: NamedArray,
    *,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]] | None = None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> NamedArray: ...
@overload
def dot(
    lhs: PlainArray,
    rhs: jax.typing.ArrayLike,
    *,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]] | None = None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> PlainArray: ...
@overload
def dot(
    lhs: jax.typing.ArrayLike,
    rhs: jax.typing.ArrayLike,
    *,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]] | None = None,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    out_sharding: object = None,
) -> jax.Array:
    """General dot product/contraction operator."""
@overload
def dot_general(
    lhs: NamedArray,
    rhs: ArrayLike,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    *,
    out_sharding: object = None,
) -> NamedArray:
    """General dot product/contraction operator."""
@overload
def dot_general(
    lhs: ArrayLike,
    rhs: NamedArray,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    *,
    out_sharding: object = None,
) -> NamedArray: ...
@overload
def dot_general(
    lhs: PlainArray,
    rhs: jax.typing.ArrayLike,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    *,
    out_sharding: object = None,
) -> PlainArray: ...
@overload
def dot_general(
    lhs: jax.typing.ArrayLike,
    rhs: jax.typing.ArrayLike,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    *,
    out_sharding: object = None,
) -> jax.Array:
    """General dot product/contraction operator."""
def dynamic_index_in_dim(
    operand: EitherArray | np.ndarray,
    index: ArrayLike,
    axis: AxisSpec = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> AnyArray:
    """Convenience wrapper around dynamic_slice to perform int indexing."""
@overload
def dynamic_slice(
    operand: NamedArray,
    start_indices: EitherArray | np.ndarray | Sequence[ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> NamedArray:
    """Wraps XLA's `DynamicSlice
    <https://www.openxla.org/xla/operation_semantics#dynamicslice>`_
    operator.
    """
@overload
def dynamic_slice(
    operand: EitherArray | np.ndarray,
    start_indices: NamedArray,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> NamedArray: ...
@overload
def dynamic_slice(
    operand: PlainArray,
    start_indices: jax.Array | np.ndarray | Sequence[jax.typing.ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> PlainArray: ...
@overload
def dynamic_slice(
    operand: jax.Array | np.ndarray,
    start_indices: jax.Array | np.ndarray | Sequence[jax.typing.ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> jax.Array:
    """Wraps XLA's `DynamicSlice
    <https://www.openxla.org/xla/operation_semantics#dynamicslice>`_
    operator.
    """
def dynamic_slice_in_dim(
    operand: EitherArray | np.ndarray,
    start_index: ArrayLike,
    slice_size: int,
    axis: AxisSpec = 0,
    *,
    allow_negative_indices: bool = True,
) -> AnyArray:
    """Convenience wrapper around :func:`lax.dynamic_slice` applied to one dimension."""
def dynamic_update_index_in_dim(
    operand: EitherArray | np.ndarray,
    update: ArrayLike,
    index: ArrayLike,
    axis: AxisSpec,
    *,
    allow_negative_indices: bool = True,
) -> AnyArray:
    """Convenience wrapper around :func:`dynamic_update_slice` to update a slice
    of size 1 in a single ``axis``.
    """
@overload
def dynamic_update_slice(
    operand: NamedArray,
    update: ArrayLike,
    start_indices: EitherArray | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> NamedArray:
    """Wraps XLA's `DynamicUpdateSlice
    <https://www.openxla.org/xla/operation_semantics#dynamicupdateslice>`_
    operator.
    """
@overload
def dynamic_update_slice(
    operand: EitherArray | np.ndarray,
    update: NamedArray,
    start_indices: EitherArray | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> NamedArray: ...
@overload
def dynamic_update_slice(
    operand: EitherArray | np.ndarray,
    update: ArrayLike,
    start_indices: NamedArray,
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> NamedArray: ...
@overload
def dynamic_update_slice(
    operand: PlainArray,
    update: jax.typing.ArrayLike,
    start_indices: jax.Array | Sequence[jax.typing.ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> PlainArray: ...
@overload
def dynamic_update_slice(
    operand: jax.Array | np.ndarray,
    update: jax.typing.ArrayLike,
    start_indices: jax.Array | Sequence[jax.typing.ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> jax.Array:
    """Wraps XLA's `DynamicUpdateSlice
    <https://www.openxla.org/xla/operation_semantics#dynamicupdateslice>`_
    operator.
    """
def dynamic_update_slice_in_dim(
    operand: EitherArray | np.ndarray,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: AxisSpec,
    *,
    allow_negative_indices: bool = True,
) -> AnyArray:
    """Convenience wrapper around :func:`dynamic_update_slice` to update
    a slice in a single ``axis``.
    """
@overload
def eq(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise equals: :math:`x = y`."""
@overload
def eq(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def eq(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def eq(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise equals: :math:`x = y`."""
@overload
def erf(x: NamedArray) -> NamedArray:
    """Elementwise error function: :math:`\\mathrm{erf}(x)`."""
@overload
def erf(x: PlainArray) -> PlainArray: ...
@overload
def erf(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise error function: :math:`\\mathrm{erf}(x)`."""
@overload
def erf_inv(x: NamedArray) -> NamedArray:
    """Elementwise inverse error function: :math:`\\mathrm{erf}^{-1}(x)`."""
@overload
def erf_inv(x: PlainArray) -> PlainArray: ...
@overload
def erf_inv(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise inverse error function: :math:`\\mathrm{erf}^{-1}(x)`."""
@overload
def erfc(x: NamedArray) -> NamedArray:
    """Elementwise complementary error function:
    :math:`\\mathrm{erfc}(x) = 1 - \\mathrm{erf}(x)`.
    """
@overload
def erfc(x: PlainArray) -> PlainArray: ...
@overload
def erfc(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise complementary error function:
    :math:`\\mathrm{erfc}(x) = 1 - \\mathrm{erf}(x)`.
    """
@overload
def exp(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise exponential: :math:`e^x`."""
@overload
def exp(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def exp(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise exponential: :math:`e^x`."""
@overload
def exp2(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise base-2 exponential: :math:`2^x`."""
@overload
def exp2(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def exp2(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise base-2 exponential: :math:`2^x`."""
def expand_dims(array: ArrayLike, dimensions: AxisSpec) -> AnyArray:
    """Insert axes of size 1, as `nx.numpy.expand_dims`.

    See `nx.expand_dims`.
    """
@overload
def expm1(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise :math:`e^{x} - 1`."""
@overload
def expm1(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def expm1(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise :math:`e^{x} - 1`."""
def fft(x: object, fft_type: jax.lax.FftType | str, fft_lengths: Sequence[int]) -> PyTree:
    """Apply a Fourier transform over the last positional axes."""
@overload
def floor(x: NamedArray) -> NamedArray:
    """Elementwise floor: :math:`\\left\\lfloor x \\right\\rfloor`."""
@overload
def floor(x: PlainArray) -> PlainArray: ...
@overload
def floor(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise floor: :math:`\\left\\lfloor x \\right\\rfloor`."""
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[jax.Array, PyTree], PyTree],
    init_val: PyTree,
    *,
    unroll: int | bool | None = None,
) -> PyTree:
    """Apply `body_fun(i, value)` for `i` from `lower` to `upper - 1`: `lax.fori_loop`.

    Args:
      lower: the first index, an integer or a scalar array.
      upper: the end, an integer or a scalar array.
      body_fun: takes the index and the value, returns the next value.
      init_val: the initial value; broadcast along axes that it gains.
      unroll: as in `lax.fori_loop`; by default `None`.

    Communication: none of its own. Outside of a mapped function the value is resharded if
    `body_fun` returns another sharding over Explicit mesh axes.

    Raises:
      NamedAxesLeftError: a bound has named axes: instances cannot have different numbers of steps
        here. Use `while_loop`.
      AxisSizeError, PositionalAxisError, ArgumentTypeError: as for `scan`, for the value.
    """
@overload
def full(
    shape: Sequence[int],
    fill_value: NamedArray,
    dtype: DType | None = None,
    *,
    sharding: jax.sharding.Sharding | None = None,
) -> NamedArray:
    """Returns an array of `shape` filled with `fill_value`."""
@overload
def full(
    shape: Sequence[int],
    fill_value: PlainArray,
    dtype: DType | None = None,
    *,
    sharding: jax.sharding.Sharding | None = None,
) -> PlainArray: ...
@overload
def full(
    shape: Sequence[int],
    fill_value: jax.typing.ArrayLike,
    dtype: DType | None = None,
    *,
    sharding: jax.sharding.Sharding | None = None,
) -> jax.Array:
    """Returns an array of `shape` filled with `fill_value`."""
@overload
def full_like(
    x: NamedArray,
    fill_value: ArrayLike,
    dtype: DType | None = None,
    shape: Sequence[int] | None = None,
    sharding: jax.sharding.Sharding | None = None,
) -> NamedArray:
    """Create a full array like np.full based on the example array `x`."""
@overload
def full_like(
    x: ArrayLike | jax.ShapeDtypeStruct,
    fill_value: NamedArray,
    dtype: DType | None = None,
    shape: Sequence[int] | None = None,
    sharding: jax.sharding.Sharding | None = None,
) -> NamedArray: ...
@overload
def full_like(
    x: PlainArray,
    fill_value: jax.typing.ArrayLike,
    dtype: DType | None = None,
    shape: Sequence[int] | None = None,
    sharding: jax.sharding.Sharding | None = None,
) -> PlainArray: ...
@overload
def full_like(
    x: jax.typing.ArrayLike | jax.ShapeDtypeStruct,
    fill_value: jax.typing.ArrayLike,
    dtype: DType | None = None,
    shape: Sequence[int] | None = None,
    sharding: jax.sharding.Sharding | None = None,
) -> jax.Array:
    """Create a full array like np.full based on the example array `x`."""
@overload
def gather(
    operand: NamedArray,
    start_indices: ArrayLike,
    dimension_numbers: jax.lax.GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
    fill_value: object = None,
) -> NamedArray:
    """Gather operator."""
@overload
def gather(
    operand: ArrayLike,
    start_indices: NamedArray,
    dimension_numbers: jax.lax.GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
    fill_value: object = None,
) -> NamedArray: ...
@overload
def gather(
    operand: PlainArray,
    start_indices: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
    fill_value: object = None,
) -> PlainArray: ...
@overload
def gather(
    operand: jax.typing.ArrayLike,
    start_indices: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
    fill_value: object = None,
) -> jax.Array:
    """Gather operator."""
@overload
def ge(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise greater-than-or-equals: :math:`x \\geq y`."""
@overload
def ge(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def ge(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def ge(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise greater-than-or-equals: :math:`x \\geq y`."""
@overload
def gt(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise greater-than: :math:`x > y`."""
@overload
def gt(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def gt(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def gt(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise greater-than: :math:`x > y`."""
@overload
def igamma(a: NamedArray, x: ArrayLike) -> NamedArray:
    """Elementwise regularized incomplete gamma function."""
@overload
def igamma(a: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def igamma(a: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def igamma(a: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise regularized incomplete gamma function."""
@overload
def igamma_grad_a(a: NamedArray, x: ArrayLike) -> NamedArray:
    """Elementwise derivative of the regularized incomplete gamma function."""
@overload
def igamma_grad_a(a: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def igamma_grad_a(a: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def igamma_grad_a(a: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise derivative of the regularized incomplete gamma function."""
@overload
def igammac(a: NamedArray, x: ArrayLike) -> NamedArray:
    """Elementwise complementary regularized incomplete gamma function."""
@overload
def igammac(a: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def igammac(a: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def igammac(a: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise complementary regularized incomplete gamma function."""
@overload
def imag(x: NamedArray) -> NamedArray:
    """Elementwise extract imaginary part: :math:`\\mathrm{Im}(x)`."""
@overload
def imag(x: PlainArray) -> PlainArray: ...
@overload
def imag(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise extract imaginary part: :math:`\\mathrm{Im}(x)`."""
def index_in_dim(
    operand: ArrayLike, index: int, axis: AxisSpec = 0, keepdims: bool = True,
) -> AnyArray:
    """Read one element along a positional or named axis, as `jax.lax.index_in_dim`.

    Args:
      operand: an array, named or not.
      index: the index, an integer; negative ones count from the end.
      axis: a positional or named axis; by default 0.
      keepdims: if `True` (default), the axis remains with size 1.

    Communication: along a sharded axis, that of `x[name, index]`.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
      AxisSizeError: the index is out of range, or the name would keep a size that it cannot have in
        this mapped function.
    """
def index_take(src: EitherArray, idxs: EitherArray, axes: AxisSpec) -> AnyArray:
    """Select elements by index arrays along some positional axes."""
@overload
def integer_pow(x: NamedArray, y: int) -> NamedArray:
    """Elementwise power: :math:`x^y`, where :math:`y` is a static integer."""
@overload
def integer_pow(x: PlainArray, y: int) -> PlainArray: ...
@overload
def integer_pow(x: jax.typing.ArrayLike, y: int) -> jax.Array:
    """Elementwise power: :math:`x^y`, where :math:`y` is a static integer."""
def iota(dtype: DType, size: int) -> AnyArray:
    """Wraps XLA's `Iota
    <https://www.openxla.org/xla/operation_semantics#iota>`_
    operator.
    """
@overload
def is_finite(x: NamedArray) -> NamedArray:
    """Elementwise :math:`\\mathrm{isfinite}`."""
@overload
def is_finite(x: PlainArray) -> PlainArray: ...
@overload
def is_finite(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise :math:`\\mathrm{isfinite}`."""
@overload
def le(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise less-than-or-equals: :math:`x \\leq y`."""
@overload
def le(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def le(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def le(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise less-than-or-equals: :math:`x \\leq y`."""
@overload
def lgamma(x: NamedArray) -> NamedArray:
    """Elementwise log gamma: :math:`\\mathrm{log}(\\Gamma(x))`."""
@overload
def lgamma(x: PlainArray) -> PlainArray: ...
@overload
def lgamma(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise log gamma: :math:`\\mathrm{log}(\\Gamma(x))`."""
@overload
def log(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise natural logarithm: :math:`\\mathrm{log}(x)`."""
@overload
def log(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def log(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise natural logarithm: :math:`\\mathrm{log}(x)`."""
@overload
def log1p(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise :math:`\\mathrm{log}(1 + x)`."""
@overload
def log1p(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def log1p(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise :math:`\\mathrm{log}(1 + x)`."""
@overload
def logistic(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise logistic (sigmoid) function: :math:`\\frac{1}{1 + e^{-x}}`."""
@overload
def logistic(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def logistic(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise logistic (sigmoid) function: :math:`\\frac{1}{1 + e^{-x}}`."""
@overload
def lt(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise less-than: :math:`x < y`."""
@overload
def lt(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def lt(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def lt(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise less-than: :math:`x < y`."""
def map(
    f: Callable[[PyTree], PyTree],
    xs: PyTree,
    *,
    batch_size: int | None = None,
    axis: Hashable = 0,
) -> PyTree:
    """Apply a function to the elements along an axis in sequence: `lax.map` over named axes.

    `map` needs less memory than `vmap`, but more time.

    Args:
      f: a function of one element: arrays without the axis.
      xs: a pytree of arrays that have the axis. Over a named axis, arrays that lack it are the same
        for every element.
      batch_size: the number of elements that `vmap` computes at a time; by default `None`, one
        element without `vmap`.
      axis: an axis name, or 0 (default) for the first positional axis.

    Returns:
      The results of all elements, with the axis in front.

    Communication: none. Over a sharded axis every device processes its own elements, and `f` must
    not communicate along the mesh axes of the axis. Outside of a mapped function an axis that is
    sharded over Explicit mesh axes is gathered, and the results are sharded along it again.

    Raises:
      AxisNotFoundError, AxisNameError, PositionalAxisError: as for `scan`.
      ArgumentError: `batch_size` is not a positive integer.
      PlacementConflictError: the axis is sharded, and `f` communicates along its mesh axes.
    """
@overload
def max(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise maximum: :math:`\\mathrm{max}(x, y)`."""
@overload
def max(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def max(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def max(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise maximum: :math:`\\mathrm{max}(x, y)`."""
@overload
def min(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise minimum: :math:`\\mathrm{min}(x, y)`."""
@overload
def min(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def min(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def min(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise minimum: :math:`\\mathrm{min}(x, y)`."""
@overload
def mul(x: NamedArray, y: ArrayLike, *, out_dtype: DType | None = None) -> NamedArray:
    """Elementwise multiplication: :math:`x \\times y`."""
@overload
def mul(x: ArrayLike, y: NamedArray, *, out_dtype: DType | None = None) -> NamedArray: ...
@overload
def mul(
    x: PlainArray, y: jax.typing.ArrayLike, *, out_dtype: DType | None = None,
) -> PlainArray: ...
@overload
def mul(
    x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, *, out_dtype: DType | None = None,
) -> jax.Array:
    """Elementwise multiplication: :math:`x \\times y`."""
@overload
def mulhi(x: NamedArray, y: ArrayLike, /) -> NamedArray:
    """Elementwise multiply-high: high bits of :math:`x \\times y`."""
@overload
def mulhi(x: ArrayLike, y: NamedArray, /) -> NamedArray: ...
@overload
def mulhi(x: PlainArray, y: jax.typing.ArrayLike, /) -> PlainArray: ...
@overload
def mulhi(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike, /) -> jax.Array:
    """Elementwise multiply-high: high bits of :math:`x \\times y`."""
@overload
def ne(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise not-equals: :math:`x \\neq y`."""
@overload
def ne(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def ne(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def ne(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise not-equals: :math:`x \\neq y`."""
@overload
def neg(x: NamedArray) -> NamedArray:
    """Elementwise negation: :math:`-x`."""
@overload
def neg(x: PlainArray) -> PlainArray: ...
@overload
def neg(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise negation: :math:`-x`."""
@overload
def nextafter(x1: NamedArray, x2: ArrayLike) -> NamedArray:
    """Returns the next representable value after ``x1`` in the direction of ``x2``."""
@overload
def nextafter(x1: ArrayLike, x2: NamedArray) -> NamedArray: ...
@overload
def nextafter(x1: PlainArray, x2: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def nextafter(x1: jax.typing.ArrayLike, x2: jax.typing.ArrayLike) -> jax.Array:
    """Returns the next representable value after ``x1`` in the direction of ``x2``."""
def optimization_barrier(operand: PyTree, /) -> PyTree:
    """Return the operands, all of which are computed before any use of the results.

    See `jax.lax.optimization_barrier`; no value changes.

    Args:
      operand: a pytree of arrays, named or not.

    Communication: none.
    """
@overload
def pad(
    operand: NamedArray,
    padding_value: ArrayLike,
    padding_config: Sequence[tuple[int, int, int]],
) -> NamedArray:
    """Applies low, high, and/or interior padding to an array."""
@overload
def pad(
    operand: ArrayLike,
    padding_value: NamedArray,
    padding_config: Sequence[tuple[int, int, int]],
) -> NamedArray: ...
@overload
def pad(
    operand: PlainArray,
    padding_value: jax.typing.ArrayLike,
    padding_config: Sequence[tuple[int, int, int]],
) -> PlainArray: ...
@overload
def pad(
    operand: jax.typing.ArrayLike,
    padding_value: jax.typing.ArrayLike,
    padding_config: Sequence[tuple[int, int, int]],
) -> jax.Array:
    """Applies low, high, and/or interior padding to an array."""
def pbroadcast(x: PyTree, axis_name: AxisName, source: int) -> PyTree:
    """Broadcast the element of instance `source` to every instance.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      source: an index along the axis.

    Returns:
      An array of the same type.

    Communication: one all-reduce of one element, to which all other devices contribute zeros, and
    the same for the gradient.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      AxisSizeError: `source` is out of range.
    """
def pcast(x: PyTree, axis_name: AxisName, *, to: str) -> PyTree:
    """Return `x` unchanged.

    In JAX this casts the variance. Here a value varies over a mesh axis if and only if one of its
    names is mapped to it, and casts are automatic.

    Args:
      x: a named array, or a pytree of them.
      axis_name: an axis name, or a tuple of names.
      to: `"varying"`, which changes no value.

    Communication: none.

    Raises:
      AxisNotFoundError: a name has no size here.
      UnsupportedArgumentError: `to` has another value; postponed sums are internal to namedax.
    """
def pdot(
    x: ArrayLike,
    y: ArrayLike,
    axis_name: AxisName | tuple[AxisName, ...],
    pos_contract: tuple[Sequence[int], Sequence[int]] = ...,
    pos_batch: tuple[Sequence[int], Sequence[int]] = ...,
    precision: jax.lax.PrecisionLike = None,
) -> AnyArray:
    """Contract over named and positional axes at once.

    Args:
      x: an array, named or not.
      y: an array, named or not.
      axis_name: the axis name, or a tuple of names, to sum over. A value without the axis is the
        same in every instance.
      pos_contract: the positional axes to sum over, of `x` and of `y`; by default none.
      pos_batch: the positional batch axes, of `x` and of `y`, in pairs; by default none.
      precision: as in `jax.lax.dot_general`; by default `None`.

    Returns:
      The other named axes of both, and positional axes in the order of `dot_general`: the axes of
      `pos_batch`, then the others of `x` and `y`.

    Communication: one all-reduce after the local contraction. See also `nx.einsum`.

    Raises:
      AxisNotFoundError: neither the values nor the mapped function have an axis.
      PositionalAxisError: an axis is out of range or given twice, or sizes disagree.
    """
def pgather(x: ArrayLike, idx: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Gather elements of `x` along one or several axes, at row-major indices over these axes.

    Args:
      x: an array, named or not.
      idx: integers, named or not: row-major indices over `axes`. Axes that `idx` shares
        with `x` are batch axes, except the gathered axes, which become axes of the result. Negative
        indices count from the end.
      axes: a positional axis, an axis name, or a tuple of them.

    Returns:
      The axes of `idx`, positional axes first, then the axes of `x` without `axes`. An index out of
      range gives NaN for floats, the least integer for signed types, and `True` for booleans. It
      gives the largest integer for unsigned types and for the words of random keys.

    Communication: every device reads its own block, and one all-reduce of the result combines the
    reads; `x` is never gathered. If `idx` itself has a sharded axis that is gathered: one
    all-gather of the indices, and one reduce-scatter of the result.

    Raises:
      AxisNotFoundError: `x` lacks an axis.
      PositionalAxisError: an axis is out of range, an axis is given twice, or `idx` does not
        contain integers.
      PlacementConflictError: `idx` has another axis that is sharded over the mesh axis of a
        gathered axis.
    """
def pmax(
    x: PyTree, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> PyTree:
    """Take the maximum of every leaf over a named axis or a tuple of them.

    A value without the axis is returned unchanged. Differentiable, unlike `jax.lax.pmax`: ties
    share the gradient, as in `nx.max`.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: as for `nx.lax.psum`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.
    """
def pmean(
    x: PyTree, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> PyTree:
    """Average every leaf over a named axis or a tuple of them.

    A value without the axis is returned unchanged.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: as for `nx.lax.psum`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.
    """
def pmin(
    x: PyTree, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> PyTree:
    """Take the minimum of every leaf over a named axis or a tuple of them.

    A value without the axis is returned unchanged. Differentiable, unlike `jax.lax.pmin`: ties
    share the gradient, as in `nx.min`.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: as for `nx.lax.psum`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.
    """
@overload
def polygamma(m: NamedArray, x: ArrayLike) -> NamedArray:
    """Elementwise polygamma: :math:`\\psi^{(m)}(x)`."""
@overload
def polygamma(m: ArrayLike, x: NamedArray) -> NamedArray: ...
@overload
def polygamma(m: PlainArray, x: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def polygamma(m: jax.typing.ArrayLike, x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise polygamma: :math:`\\psi^{(m)}(x)`."""
@overload
def population_count(x: NamedArray) -> NamedArray:
    """Elementwise popcount, count the number of set bits in each element."""
@overload
def population_count(x: PlainArray) -> PlainArray: ...
@overload
def population_count(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise popcount, count the number of set bits in each element."""
@overload
def pow(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise power: :math:`x^y`."""
@overload
def pow(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def pow(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def pow(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise power: :math:`x^y`."""
def ppermute(x: PyTree, axis_name: AxisName, perm: Iterable[tuple[int, int]]) -> PyTree:
    """Send the element of instance `source` to `target`, for all pairs of `perm`.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      perm: pairs of indices along the axis. No source and no target appears twice.

    Returns:
      An array of the same type. An instance that is not a target receives zeros.

    Communication: for an axis in blocks of `b` elements, elements that remain on their device are
    not sent. A permutation of complete blocks is one collective-permute of a block. A shift by `k
    <= b` elements is one collective-permute of `k` elements; a longer shift is two, of `b` elements
    in total. A reversal is one, of a block. In general, the number of collective-permutes is the
    number of partners of the busiest device, which is the minimum. If that exceeds two and the
    traffic is even, one all-to-all replaces them. Its slots are padded to the largest one, to at
    most twice the bytes of the collective-permutes. Nothing is gathered.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      AxisSizeError: an index is out of range, or appears twice.
    """
def precv(token: object, out_shape: object, axis_name: object, perm: object) -> PyTree:
    """Perform a collective recv according to the permutation ``perm``."""
def psend(x: object, axis_name: object, perm: object) -> PyTree:
    """Perform a collective send according to the permutation ``perm``."""
def pshuffle(x: PyTree, axis_name: AxisName, perm: Sequence[int]) -> PyTree:
    """Permute a named axis: instance `i` receives the element of instance `perm[i]`.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      perm: a permutation of all indices along the axis.

    Returns:
      An array of the same type.

    Communication: as for `nx.lax.ppermute`.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      AxisSizeError: `perm` is not a permutation of all indices.
    """
def psum(
    x: PyTree, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> PyTree:
    """Sum over a named axis or a tuple of them, for every leaf of `x`, and drop these axes.

    As in JAX, a value without the axis is multiplied by its size, and for a Python number the
    result is a Python number. The dtype is preserved, also for narrow integers; booleans are
    counted as `int32`.

    Args:
      x: a pytree of arrays, named or not.
      axis_name: an axis name, or a tuple of names.
      axis_index_groups: lists that together contain every index of the axis once, by default
        `None`. The reduction is within each group and keeps the named axis: every instance has the
        result of its group.

    Returns:
      The tree without the axes.

    Communication: one all-reduce of the local sums; with groups, one all-reduce of one value per
    group.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has an axis.
      ArgumentError: the groups do not contain every index once.
    """
def psum_scatter(
    x: PyTree,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> PyTree:
    """Sum over a named axis and scatter the sum: instance `i` keeps block `i` of a positional axis.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      scatter_dimension: the positional axis that is split, one block per instance; by default 0.
      axis_index_groups: lists of equal size that together contain every index of the axis once, by
        default `None`; sum within each group, and scatter over its instances.
      tiled: if `False` (default), the positional axis has the size of the named axis and is
        removed. If `True`, its size is a multiple, and each instance keeps a slice.

    Returns:
      An array that still has the named axis. A value without the axis counts once per instance.

    Communication: one reduce-scatter after the local sum, also over several axes, with one element
    per device or in blocks. Within groups: one all-reduce of one value per group.

    Raises:
      AxisNotFoundError: neither the value nor the mapped function has the axis.
      PositionalAxisError: the positional axis does not exist, or its size does not fit.
    """
def pswapaxes(
    x: PyTree,
    axis_name: AxisName,
    axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> PyTree:
    """Swap a named axis with a positional one of the same size: `all_to_all(x, name, axis, axis)`.

    Args:
      x: a named array, or a pytree of them.
      axis_name: the axis name; a tuple of names counts instances in row-major order.
      axis: the positional axis.
      axis_index_groups: groups, as for `all_to_all`; by default `None`.

    Communication: as for `nx.lax.all_to_all`.
    """
def ragged_all_to_all(
    operand: object,
    output: object,
    input_offsets: object,
    send_sizes: object,
    output_offsets: object,
    recv_sizes: object,
    *,
    axis_name: object,
    axis_index_groups: object = None,
) -> PyTree:
    """Ragged version of :func:`all_to_all` collective."""
@overload
def ragged_dot(
    lhs: NamedArray,
    rhs: EitherArray,
    group_sizes: EitherArray,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Ragged matrix multiplication."""
@overload
def ragged_dot(
    lhs: EitherArray,
    rhs: NamedArray,
    group_sizes: EitherArray,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray: ...
@overload
def ragged_dot(
    lhs: EitherArray,
    rhs: EitherArray,
    group_sizes: NamedArray,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray: ...
@overload
def ragged_dot(
    lhs: jax.Array,
    rhs: jax.Array,
    group_sizes: jax.Array,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Ragged matrix multiplication."""
@overload
def ragged_dot_general(
    lhs: NamedArray,
    rhs: EitherArray,
    group_sizes: EitherArray,
    ragged_dot_dimension_numbers: jax.lax.RaggedDotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray:
    """Ragged matrix multiplication."""
@overload
def ragged_dot_general(
    lhs: EitherArray,
    rhs: NamedArray,
    group_sizes: EitherArray,
    ragged_dot_dimension_numbers: jax.lax.RaggedDotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray: ...
@overload
def ragged_dot_general(
    lhs: EitherArray,
    rhs: EitherArray,
    group_sizes: NamedArray,
    ragged_dot_dimension_numbers: jax.lax.RaggedDotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> NamedArray: ...
@overload
def ragged_dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    group_sizes: jax.Array,
    ragged_dot_dimension_numbers: jax.lax.RaggedDotDimensionNumbers,
    precision: jax.lax.PrecisionLike = None,
    preferred_element_type: DType | None = None,
    group_offset: EitherArray | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> jax.Array:
    """Ragged matrix multiplication."""
def random_gamma_grad(*args: object) -> PyTree:
    """Return the derivative of a gamma sample for its shape parameter."""
@overload
def real(x: NamedArray) -> NamedArray:
    """Elementwise extract real part: :math:`\\mathrm{Re}(x)`."""
@overload
def real(x: PlainArray) -> PlainArray: ...
@overload
def real(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise extract real part: :math:`\\mathrm{Re}(x)`."""
@overload
def reciprocal(x: NamedArray) -> NamedArray:
    """Elementwise reciprocal: :math:`1 \\over x`."""
@overload
def reciprocal(x: PlainArray) -> PlainArray: ...
@overload
def reciprocal(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise reciprocal: :math:`1 \\over x`."""
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: AxisSpec,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> PyTree:
    """Wraps XLA's `Reduce
    <https://www.openxla.org/xla/operation_semantics#reduce>`_
    operator.
    """
def reduce_and(operand: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Apply `jax.lax.reduce_and` over positional or named axes.

    The dtype is preserved.

    Args:
      operand: an array, named or not.
      axes: a positional axis, an axis name, or a sequence of both.

    Returns:
      An array with the remaining axes.

    Communication: over sharded axes, one all-reduce of the result for booleans; the bits of integers are gathered (one all-gather).

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
def reduce_max(operand: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Apply `jax.lax.reduce_max` over positional or named axes.

    The dtype is preserved.

    Args:
      operand: an array, named or not.
      axes: a positional axis, an axis name, or a sequence of both.

    Returns:
      An array with the remaining axes.

    Communication: over sharded axes, one all-reduce of the result.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
def reduce_min(operand: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Apply `jax.lax.reduce_min` over positional or named axes.

    The dtype is preserved.

    Args:
      operand: an array, named or not.
      axes: a positional axis, an axis name, or a sequence of both.

    Returns:
      An array with the remaining axes.

    Communication: over sharded axes, one all-reduce of the result.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
def reduce_or(operand: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Apply `jax.lax.reduce_or` over positional or named axes.

    The dtype is preserved.

    Args:
      operand: an array, named or not.
      axes: a positional axis, an axis name, or a sequence of both.

    Returns:
      An array with the remaining axes.

    Communication: over sharded axes, one all-reduce of the result for booleans; the bits of integers are gathered (one all-gather).

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
@overload
def reduce_precision(operand: NamedArray, exponent_bits: int, mantissa_bits: int) -> NamedArray:
    """Wraps XLA's `ReducePrecision
    <https://www.openxla.org/xla/operation_semantics#reduceprecision>`_
    operator.
    """
@overload
def reduce_precision(operand: PlainArray, exponent_bits: int, mantissa_bits: int) -> PlainArray: ...
@overload
def reduce_precision(
    operand: jax.typing.ArrayLike, exponent_bits: int, mantissa_bits: int,
) -> jax.Array:
    """Wraps XLA's `ReducePrecision
    <https://www.openxla.org/xla/operation_semantics#reduceprecision>`_
    operator.
    """
def reduce_prod(operand: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Apply `jax.lax.reduce_prod` over positional or named axes.

    The dtype is preserved.

    Args:
      operand: an array, named or not.
      axes: a positional axis, an axis name, or a sequence of both.

    Returns:
      An array with the remaining axes.

    Communication: over sharded axes, one all-gather of the products of the blocks.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
def reduce_sum(operand: ArrayLike, axes: AxisSpec, *, out_sharding: object = None) -> AnyArray:
    """Apply `jax.lax.reduce_sum` over positional or named axes.

    The dtype is preserved.

    Args:
      operand: an array, named or not.
      axes: a positional axis, an axis name, or a sequence of both.
      out_sharding: as in JAX, for arrays without names; it must be left out for others.

    Returns:
      An array with the remaining axes.

    Communication: over sharded axes, one all-reduce of the result.

    Raises:
      AxisNotFoundError: `operand` lacks a name.

    `nx.lax.reduce_sum` has JAX's parameters, in JAX's order.
    Arguments without any name go to JAX's own function. With names, `out_sharding` must be left out.
    """
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = 'VALID',
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> PyTree:
    """Reduction over padded windows."""
def reduce_xor(operand: ArrayLike, axes: AxisSpec) -> AnyArray:
    """Compute the bitwise XOR of elements over one or more array axes."""
@overload
def rem(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise remainder: :math:`x \\bmod y`."""
@overload
def rem(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def rem(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def rem(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise remainder: :math:`x \\bmod y`."""
def reshape(
    operand: ArrayLike,
    new_sizes: Sequence[int],
    dimensions: AxisSpec = None,
    *,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
) -> AnyArray:
    """Wraps XLA's `Reshape
    <https://www.openxla.org/xla/operation_semantics#reshape>`_
    operator.
    """
@overload
def rev(operand: NamedArray, dimensions: AxisSpec) -> NamedArray:
    """Reverse positional or named axes, as `jax.lax.rev`."""
@overload
def rev(operand: ArrayLike, dimensions: AxisSpec) -> AnyArray:
    """Reverse positional or named axes, as `jax.lax.rev`.

    Args:
      operand: an array, named or not.
      dimensions: a positional axis, an axis name, or a sequence of both.

    Communication: along a sharded axis the devices exchange their blocks.

    Raises:
      AxisNotFoundError: `operand` lacks a name.
    """
def rng_bit_generator(
    key: object,
    shape: object,
    dtype: object = ...,
    algorithm: object = ...,
    *,
    out_sharding: object = None,
) -> PyTree:
    """Stateless PRNG bit generator. Experimental and its use is discouraged."""
def rng_uniform(a: object, b: object, shape: object) -> PyTree:
    """Stateful PRNG generator. Experimental and its use is discouraged."""
@overload
def round(x: NamedArray, rounding_method: jax.lax.RoundingMethod = ...) -> NamedArray:
    """Elementwise round."""
@overload
def round(x: PlainArray, rounding_method: jax.lax.RoundingMethod = ...) -> PlainArray: ...
@overload
def round(x: jax.typing.ArrayLike, rounding_method: jax.lax.RoundingMethod = ...) -> jax.Array:
    """Elementwise round."""
@overload
def rsqrt(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise reciprocal square root:  :math:`1 \\over \\sqrt{x}`."""
@overload
def rsqrt(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def rsqrt(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise reciprocal square root:  :math:`1 \\over \\sqrt{x}`."""
def scaled_dot(
    lhs: EitherArray,
    rhs: EitherArray,
    *,
    lhs_scale: EitherArray | None = None,
    rhs_scale: EitherArray | None = None,
    dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]] | None = None,
    preferred_element_type: DType | None = None,
) -> PyTree:
    """Computes a scaled dot product."""
def scan(
    f: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    init: PyTree,
    xs: PyTree = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    *,
    axis: Hashable = 0,
    prefetch: int | None = None,
    remat: bool | Literal['none', 'full', 'dots', 'gathers'] | Callable[..., Any] | None = None,
) -> tuple[PyTree, PyTree]:
    """Apply a function along an axis in sequence, and carry a state: `lax.scan` over named axes.

    See `nx.scan`.
    """
@overload
def scatter(
    operand: NamedArray,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray:
    """Scatter-update operator."""
@overload
def scatter(
    operand: ArrayLike,
    scatter_indices: NamedArray,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: NamedArray,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter(
    operand: PlainArray,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> PlainArray: ...
@overload
def scatter(
    operand: jax.typing.ArrayLike,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> jax.Array:
    """Scatter-update operator."""
@overload
def scatter_add(
    operand: NamedArray,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray:
    """Scatter-add operator."""
@overload
def scatter_add(
    operand: ArrayLike,
    scatter_indices: NamedArray,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: NamedArray,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_add(
    operand: PlainArray,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> PlainArray: ...
@overload
def scatter_add(
    operand: jax.typing.ArrayLike,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> jax.Array:
    """Scatter-add operator."""
@overload
def scatter_apply(
    operand: NamedArray,
    scatter_indices: EitherArray,
    func: Callable[[EitherArray], EitherArray],
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray:
    """Scatter-apply operator."""
@overload
def scatter_apply(
    operand: EitherArray,
    scatter_indices: NamedArray,
    func: Callable[[EitherArray], EitherArray],
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_apply(
    operand: jax.Array,
    scatter_indices: jax.Array,
    func: Callable[[EitherArray], EitherArray],
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> jax.Array:
    """Scatter-apply operator."""
@overload
def scatter_max(
    operand: NamedArray,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray:
    """Scatter-max operator."""
@overload
def scatter_max(
    operand: ArrayLike,
    scatter_indices: NamedArray,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: NamedArray,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_max(
    operand: PlainArray,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> PlainArray: ...
@overload
def scatter_max(
    operand: jax.typing.ArrayLike,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> jax.Array:
    """Scatter-max operator."""
@overload
def scatter_min(
    operand: NamedArray,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray:
    """Scatter-min operator."""
@overload
def scatter_min(
    operand: ArrayLike,
    scatter_indices: NamedArray,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: NamedArray,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_min(
    operand: PlainArray,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> PlainArray: ...
@overload
def scatter_min(
    operand: jax.typing.ArrayLike,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> jax.Array:
    """Scatter-min operator."""
@overload
def scatter_mul(
    operand: NamedArray,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray:
    """Scatter-multiply operator."""
@overload
def scatter_mul(
    operand: ArrayLike,
    scatter_indices: NamedArray,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: NamedArray,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_mul(
    operand: PlainArray,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> PlainArray: ...
@overload
def scatter_mul(
    operand: jax.typing.ArrayLike,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> jax.Array:
    """Scatter-multiply operator."""
@overload
def scatter_sub(
    operand: NamedArray,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray:
    """Scatter-sub operator."""
@overload
def scatter_sub(
    operand: ArrayLike,
    scatter_indices: NamedArray,
    updates: ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: NamedArray,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> NamedArray: ...
@overload
def scatter_sub(
    operand: PlainArray,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> PlainArray: ...
@overload
def scatter_sub(
    operand: jax.typing.ArrayLike,
    scatter_indices: jax.typing.ArrayLike,
    updates: jax.typing.ArrayLike,
    dimension_numbers: jax.lax.ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | jax.lax.GatherScatterMode | None = None,
) -> jax.Array:
    """Scatter-sub operator."""
@overload
def select(pred: NamedArray, on_true: ArrayLike, on_false: ArrayLike) -> NamedArray:
    """Selects between two branches based on a boolean predicate."""
@overload
def select(pred: ArrayLike, on_true: NamedArray, on_false: ArrayLike) -> NamedArray: ...
@overload
def select(pred: ArrayLike, on_true: ArrayLike, on_false: NamedArray) -> NamedArray: ...
@overload
def select(
    pred: PlainArray, on_true: jax.typing.ArrayLike, on_false: jax.typing.ArrayLike,
) -> PlainArray: ...
@overload
def select(
    pred: jax.typing.ArrayLike, on_true: jax.typing.ArrayLike, on_false: jax.typing.ArrayLike,
) -> jax.Array:
    """Selects between two branches based on a boolean predicate."""
@overload
def select_n(which: NamedArray, *cases: ArrayLike) -> NamedArray:
    """Selects array values from multiple cases."""
@overload
def select_n(which: jax.typing.ArrayLike, *cases: ArrayLike) -> jax.Array:
    """Selects array values from multiple cases."""
@overload
def shift_left(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise left shift: :math:`x \\ll y`."""
@overload
def shift_left(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def shift_left(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def shift_left(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise left shift: :math:`x \\ll y`."""
@overload
def shift_right_arithmetic(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise arithmetic right shift: :math:`x \\gg y`."""
@overload
def shift_right_arithmetic(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def shift_right_arithmetic(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def shift_right_arithmetic(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise arithmetic right shift: :math:`x \\gg y`."""
@overload
def shift_right_logical(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise logical right shift: :math:`x \\gg y`."""
@overload
def shift_right_logical(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def shift_right_logical(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def shift_right_logical(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise logical right shift: :math:`x \\gg y`."""
@overload
def sign(x: NamedArray) -> NamedArray:
    """Elementwise sign."""
@overload
def sign(x: PlainArray) -> PlainArray: ...
@overload
def sign(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise sign."""
@overload
def sin(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise sine: :math:`\\mathrm{sin}(x)`."""
@overload
def sin(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def sin(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise sine: :math:`\\mathrm{sin}(x)`."""
@overload
def sinh(x: NamedArray) -> NamedArray:
    """Elementwise hyperbolic sine: :math:`\\mathrm{sinh}(x)`."""
@overload
def sinh(x: PlainArray) -> PlainArray: ...
@overload
def sinh(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise hyperbolic sine: :math:`\\mathrm{sinh}(x)`."""
@overload
def slice(
    operand: NamedArray,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> NamedArray:
    """Wraps XLA's `Slice
    <https://www.openxla.org/xla/operation_semantics#slice>`_
    operator.
    """
@overload
def slice(
    operand: PlainArray,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> PlainArray: ...
@overload
def slice(
    operand: jax.typing.ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> jax.Array:
    """Wraps XLA's `Slice
    <https://www.openxla.org/xla/operation_semantics#slice>`_
    operator.
    """
def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: AxisSpec = 0,
) -> AnyArray:
    """Slice a positional or named axis, as `jax.lax.slice_in_dim`.

    Along a named axis it is `x[name, start:limit:stride]`.

    Args:
      operand: an array, named or not.
      start_index: the first index, or `None` for the beginning.
      limit_index: the index after the last one, or `None` for the end.
      stride: the distance between two indices; by default 1.
      axis: a positional or named axis; by default 0.

    Communication: along a sharded axis, that of `x[name, start:limit:stride]`.

    Raises:
      AxisNotFoundError: `operand` lacks the name.
      AxisSizeError: the name would have a different size in this mapped function.
    """
def sort(
    operand: PyTree, dimension: AxisSpec = -1, is_stable: bool = True, num_keys: int = 1,
) -> PyTree:
    """Sort along a positional or named axis, as `jax.lax.sort`.

    See `nx.sort`.
    """
def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: AxisSpec = -1, is_stable: bool = True,
) -> tuple[AnyArray, AnyArray]:
    """Sort keys along a positional or named axis, and values with them, as `lax.sort_key_val`.

    Args:
      keys: an array, named or not.
      values: an array with the same axes.
      dimension: a positional or named axis; by default -1.
      is_stable: if `True` (default), equal keys keep their order.

    Communication: along a sharded axis, as for `nx.sort_by`.

    Raises:
      AxisNotFoundError: `keys` lacks the name.
    """
def split(operand: ArrayLike, sizes: Sequence[int], axis: AxisSpec = 0) -> Sequence[AnyArray]:
    """Splits an array along ``axis``."""
@overload
def sqrt(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise square root: :math:`\\sqrt{x}`."""
@overload
def sqrt(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def sqrt(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise square root: :math:`\\sqrt{x}`."""
@overload
def square(x: NamedArray) -> NamedArray:
    """Elementwise square: :math:`x^2`."""
@overload
def square(x: PlainArray) -> PlainArray: ...
@overload
def square(x: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise square: :math:`x^2`."""
def squeeze(array: ArrayLike, dimensions: AxisSpec) -> AnyArray:
    """Squeeze any number of size 1 dimensions from an array."""
def stack(operands: Sequence[ArrayLike], axis: AxisSpec = 0) -> AnyArray:
    """Joins a sequence of arrays along a new axis."""
def stop_gradient(x: Any) -> Any:
    """Stops gradient computation."""
@overload
def sub(x: NamedArray, y: ArrayLike) -> NamedArray:
    """Elementwise subtraction: :math:`x - y`."""
@overload
def sub(x: ArrayLike, y: NamedArray) -> NamedArray: ...
@overload
def sub(x: PlainArray, y: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def sub(x: jax.typing.ArrayLike, y: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise subtraction: :math:`x - y`."""
def switch(
    index: ArrayLike,
    branches: Sequence[Callable[..., PyTree]],
    *operands: PyTree,
    operand: PyTree = ...,
) -> PyTree:
    """Apply one of several functions, selected by number: `lax.switch` over named axes.

    See `nx.switch`.
    """
@overload
def tan(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise tangent: :math:`\\mathrm{tan}(x)`."""
@overload
def tan(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def tan(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise tangent: :math:`\\mathrm{tan}(x)`."""
@overload
def tanh(
    x: NamedArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> NamedArray:
    """Elementwise hyperbolic tangent: :math:`\\mathrm{tanh}(x)`."""
@overload
def tanh(
    x: PlainArray, *, accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> PlainArray: ...
@overload
def tanh(
    x: jax.typing.ArrayLike,
    *,
    accuracy: jax.lax.Tolerance | jax.lax.AccuracyMode | None = None,
) -> jax.Array:
    """Elementwise hyperbolic tangent: :math:`\\mathrm{tanh}(x)`."""
@overload
def tile(operand: NamedArray, reps: Sequence[int]) -> NamedArray:
    """Tiles an array by repeating it along each dimension."""
@overload
def tile(operand: PlainArray, reps: Sequence[int]) -> PlainArray: ...
@overload
def tile(operand: jax.typing.ArrayLike, reps: Sequence[int]) -> jax.Array:
    """Tiles an array by repeating it along each dimension."""
def top_k(
    operand: ArrayLike, k: int, *, axis: AxisSpec = -1, out_axis: Hashable | None = None,
) -> TopK:
    """Return the `k` largest values along one axis in descending order, with their indices.

    See `nx.top_k`.
    """
@overload
def transpose(operand: NamedArray, permutation: Sequence[int] | np.ndarray) -> NamedArray:
    """Wraps XLA's `Transpose
    <https://www.openxla.org/xla/operation_semantics#transpose>`_
    operator.
    """
@overload
def transpose(operand: PlainArray, permutation: Sequence[int] | np.ndarray) -> PlainArray: ...
@overload
def transpose(
    operand: jax.typing.ArrayLike, permutation: Sequence[int] | np.ndarray,
) -> jax.Array:
    """Wraps XLA's `Transpose
    <https://www.openxla.org/xla/operation_semantics#transpose>`_
    operator.
    """
def unstack(x: ArrayLike, axis: AxisSpec = 0) -> tuple[AnyArray, ...]:
    """Unstacks an array along an axis."""
def while_loop(
    cond_fun: Callable[[PyTree], EitherArray],
    body_fun: Callable[[PyTree], PyTree],
    init_val: PyTree,
) -> PyTree:
    """Apply `body_fun` while `cond_fun` is true: `lax.while_loop` over named axes.

    Args:
      cond_fun: takes the value, returns a boolean. If the boolean has named axes, every element
        continues while its own condition is true, as under `jax.vmap`. A finished element keeps its
        value, and all values have these axes.
      body_fun: takes the value, returns the next one.
      init_val: the initial value; broadcast along axes that it gains.

    Returns:
      The first value for which the condition is false.

    Communication: if the condition has sharded axes, each device continues independently, unless
    the steps communicate along the mesh axes of these axes. Then communicating devices continue
    while any of them has an unfinished element. This costs one all-reduce of a boolean per step.
    Outside of a mapped function the value is resharded as in `nx.fori_loop`.

    Raises:
      PositionalAxisError: the condition has positional axes, or the positional axes of the value
        change.
      ArgumentTypeError: the condition is not a boolean, or the value changes its structure.
      AxisSizeError: an axis of the value has two sizes.
    """
def with_sharding_constraint(x: object, shardings: object) -> PyTree:
    """Mechanism to constrain the sharding of an Array inside a jitted computation."""
@overload
def zeta(x: NamedArray, q: ArrayLike) -> NamedArray:
    """Elementwise Hurwitz zeta function: :math:`\\zeta(x, q)`."""
@overload
def zeta(x: ArrayLike, q: NamedArray) -> NamedArray: ...
@overload
def zeta(x: PlainArray, q: jax.typing.ArrayLike) -> PlainArray: ...
@overload
def zeta(x: jax.typing.ArrayLike, q: jax.typing.ArrayLike) -> jax.Array:
    """Elementwise Hurwitz zeta function: :math:`\\zeta(x, q)`."""
