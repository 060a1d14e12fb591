"""The public names of the package, in one table.

The rest is derived from the table: the lazy imports of `namedax/__init__.py`, `__all__`, the stubs
(`make stubs`) and the reference.
"""

from __future__ import annotations

__all__ = [
    "ABOVE",
    "DEPRECATED",
    "DEPRECATED_UNTIL",
    "NAMES",
    "NUMPY_ONLY",
    "SECOND",
    "homes",
]

#: The public names of each module. Public modules of the package are listed under "".
NAMES: dict[str, str] = {
    "": (
        "checkpoints debug distributed errors hlo image interop lax linalg machines models nn numpy"
        " random scipy testing typing"
    ),
    "core.array": "NamedArray",
    "core.strict_broadcasting": "strict_broadcasting",
    "debug.name_trace": "trace_names",
    "distributed": "from_process_local process_entries",
    "insight.analysis.explain": "explain",
    "insight.analysis.report": "Report",
    "insight.analysis.summary": "Summary summary",
    "insight.drawing.arrays": "draw",
    "insight.planning.planner": "plan",
    "insight.planning.result": "Plan",
    "insight.profiling.profiler": "profile",
    "insight.transfers.transfer": "transfer",
    "interop.xarray": "from_xarray to_xarray",
    "numpy": (
        "abs add angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and"
        " bitwise_count bitwise_not bitwise_or bitwise_xor cbrt ceil clip conj copysign cos"
        " cosh deg2rad divide empty_like equal exp exp2 expm1 fabs float_power floor"
        " floor_divide fmax fmin fmod full_like gcd greater greater_equal heaviside hypot i0"
        " imag isclose iscomplex isfinite isinf isnan isneginf isposinf isreal lcm ldexp"
        " left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and"
        " logical_not logical_or logical_xor maximum minimum mod multiply nan_to_num negative"
        " nextafter not_equal ones_like positive power rad2deg real reciprocal right_shift rint"
        " round sign signbit sin sinc sinh spacing sqrt square subtract tan tanh trunc"
        " zeros_like"
    ),
    "ops.collectives.reducing": "axis_size",
    "ops.contraction.einsum": "dot einsum tensordot vecdot",
    "ops.groups.reductions": "group_reduce",
    "ops.groups.rolling": "rolling_reduce",
    "ops.groups.scans": "group_accumulate group_shift",
    "ops.indexing.diagonal": "diagonal trace tril triu",
    "ops.indexing.getitem": "take_along_axis",
    "ops.indexing.slicing": "slice",
    "ops.indexing.take": "take",
    "ops.loops.associative_scan": "associative_scan",
    "ops.loops.branches": "cond switch",
    "ops.loops.control_flow": "fold fori_loop scan while_loop",
    "ops.loops.custom_rules": "custom_jvp custom_vjp",
    "ops.loops.pipelines": "pipeline",
    "ops.loops.vmap": "map vmap",
    "ops.operands.nmap": "nmap",
    "ops.ragged.ragged": "Ragged",
    "ops.reduction.comparison": "allclose array_equal array_equiv",
    "ops.reduction.cumulative": ("cumlogsumexp cummax cummin cumprod cumsum nancumprod nancumsum"),
    "ops.reduction.extrema": "argmax argmin max max_with_index min min_with_index",
    "ops.reduction.reductions": "all any count_nonzero logsumexp mean prod std sum var",
    "ops.reduction.segments": "segment_max segment_min segment_prod segment_sum",
    "ops.shape.broadcast_to": "broadcast_to expand_dims squeeze",
    "ops.shape.conversion": "named order_like positional untag",
    "ops.shape.creation": "arange array asarray empty full linspace ones zeros",
    "ops.shape.inspection": (
        "array_repr array_str iscomplexobj isrealobj isscalar ndim result_type shape size"
    ),
    "ops.shape.joining": "append array_split concatenate split stack",
    "ops.shape.placement": "shard",
    "ops.shape.rearrange": "merge_axes rearrange reduce repeat split_axis",
    "ops.shape.rename": "rename",
    "ops.shape.repeating": "flip tile",
    "ops.shape.transposition": "moveaxis transpose",
    "ops.sorting.selection": "nonzero unique where",
    "ops.sorting.sorting": "argpartition argsort lexsort partition searchsorted sort top_k",
    "ops.sorting.together": "sort_by",
    "ops.statistics.compositions": "average norm ptp",
    "ops.statistics.counting": "bincount histogram",
    "ops.statistics.covariance": "corrcoef cov",
    "ops.statistics.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "ops.statistics.without_nans": (
        "nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum nanvar"
    ),
    "ops.window.calculus": "gradient trapezoid unwrap",
    "ops.window.convolution": "conv conv_transpose convolve",
    "ops.window.neighbours": "diff pad roll shift",
    "ops.window.sliding": "halo windows",
    "resources.serial": "SerialLoop serial_loop",
    "resources.wire": "Wire",
    "typing.checking": "checked",
    "xmap.wrapper": "xmap",
}

#: Other spellings, which are in `nx.numpy` only: by the name of `nx`, and by module if the function
#: differs.
SECOND: dict[str, str] = {"amax": "max", "amin": "min", "concat": "concatenate"}
NUMPY_ONLY: dict[str, str] = {
    "ops.reduction.cumulative": "cumulative_prod cumulative_sum",
    "ops.shape.transposition": "permute_dims",
}

#: What `nx` had in the last minor release, with what to write. Each warns, and is an error in the
#: minor release after this one.
DEPRECATED_UNTIL = "0.4.0"
DEPRECATED: dict[str, str] = {
    "absolute": "abs",
    "acos": "arccos",
    "acosh": "arccosh",
    "amax": "max",
    "amin": "min",
    "around": "round",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "bitwise_not",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "conjugate": "conj",
    "cumulative_prod": "cumprod",
    "cumulative_sum": "cumsum",
    "degrees": "rad2deg",
    "invert": "bitwise_not",
    "permute_dims": "transpose",
    "pow": "power",
    "radians": "deg2rad",
    "remainder": "mod",
    "true_divide": "divide",
}


#: Public modules that are written with the names of the package, as programs of users are.
ABOVE = frozenset({"models"})


def homes() -> dict[str, str]:
    """Return the module of every public name, sorted by name.

    >>> from namedax.ops.namespaces.public_names import homes
    >>> homes()["sum"], homes()["hlo"]
    ('namedax.ops.reduction.reductions', 'namedax')
    """
    found = {
        name: f"namedax.{module}".rstrip(".")
        for module, names in NAMES.items()
        for name in names.split()
    }
    return dict(sorted(found.items()))
