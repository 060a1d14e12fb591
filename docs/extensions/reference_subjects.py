"""The subjects of the reference, for the page "By subject".

A function is under the subject of its module in this package. A function that is made from one of JAX's has no module here:
the tables list it by name, or by namespace. Names take precedence over modules, and modules over namespaces.
"""

from __future__ import annotations

import functools

import reference_names as names
from reference_names import Entry

__all__ = ["GUIDES", "TITLES", "by_name", "by_path", "by_space", "subject_of"]

MAPPING = "Mapping names over hardware"
ARRAYS = "Create, inspect and convert arrays"
AXES = "Rename, split, merge and move axes"
CONTRACTIONS = "Contractions"
REDUCTIONS = "Reductions"
STATISTICS = "Statistics"
SORTING = "Sorting, searching and selection"
INDEXING = "Indexing"
WINDOWS = "Neighbors, windows and convolutions"
INTERPOLATION = "Interpolation and polynomials"
FOURIER = "Fourier transforms"
LINALG = "Linear algebra"
ELEMENTWISE = "Elementwise"
SPECIAL = "Special functions"
COLLECTIVES = "Collectives"
LOOPS = "Loops, branches, vectorization and derivatives"
NN = "Neural networks"
INITIALIZERS = "Initializers"
EXPERTS = "Mixture of experts"
RAGGED = "Ragged arrays"
RANDOM = "Random numbers"
DISTRIBUTIONS = "Probability distributions"
COMMUNICATION = "Measure, explain and plan communication"
FILES = "Files, processes, other libraries, types"

#: The subjects in the order of the page.
TITLES = (
    MAPPING, ARRAYS, AXES, ELEMENTWISE, CONTRACTIONS, REDUCTIONS, STATISTICS, SORTING, INDEXING, WINDOWS, INTERPOLATION,
    FOURIER, LINALG, SPECIAL, RANDOM, DISTRIBUTIONS, LOOPS, COLLECTIVES, NN, INITIALIZERS, EXPERTS, RAGGED, COMMUNICATION,
    FILES,
)  # fmt: skip

#: The page that shows most of a subject.
GUIDES = {
    MAPPING: "/guides/axis_mappings",
    ARRAYS: "/tutorials/1_arrays_with_names",
    AXES: "/guides/operations",
    ELEMENTWISE: "/guides/operations",
    CONTRACTIONS: "/guides/operations",
    REDUCTIONS: "/guides/operations",
    STATISTICS: "/recipes/climatology",
    SORTING: "/recipes/sharded_top_k_and_sampling",
    INDEXING: "/guides/operations",
    WINDOWS: "/recipes/halo_exchange",
    INTERPOLATION: "/guides/operations",
    FOURIER: "/recipes/fft_sharded_axis",
    LINALG: "/recipes/empirical_orthogonal_functions",
    SPECIAL: "/guides/operations",
    RANDOM: "/guides/random_numbers",
    DISTRIBUTIONS: "/guides/operations",
    LOOPS: "/guides/control_flow",
    COLLECTIVES: "/guides/see_what_it_sends",
    NN: "/guides/bring_your_own_architecture",
    INITIALIZERS: "/tutorials/2_a_network",
    EXPERTS: "/guides/experts",
    RAGGED: "/guides/ragged",
    COMMUNICATION: "/guides/see_what_it_sends",
    FILES: "/guides/interoperation",
}  # fmt: skip

_NAMES = {
    MAPPING: "nx: nmap serial_loop SerialLoop shard transfer Wire xmap lax: with_sharding_constraint",
    ARRAYS: """
        nx: NamedArray strict_broadcasting empty_like full_like ones_like zeros_like
        numpy: astype broadcast_shapes can_cast copy dtype eye finfo from_dlpack frombuffer fromfunction fromiter fromstring
        geomspace get_printoptions identity iinfo isdtype issubdtype iterable logspace meshgrid ndarray printoptions
        promote_types set_printoptions tri
        lax: bitcast_convert_type broadcast_shapes broadcasted_iota convert_element_type dtype empty full full_like iota
        shape_as_value""",
    AXES: """
        numpy: atleast_1d atleast_2d atleast_3d block broadcast_arrays column_stack dsplit dstack fliplr flipud hsplit hstack
        matrix_transpose ravel reshape resize rot90 unstack vsplit vstack
        numpy.linalg: matrix_transpose
        lax: broadcast broadcast_in_dim broadcast_like broadcast_to_rank collapse reshape split squeeze stack tile transpose
        unstack""",
    CONTRACTIONS: """
        numpy: dot einsum_path inner kron matmul matvec outer vdot vecmat
        numpy.linalg: matmul multi_dot outer tensordot vecdot
        lax: batch_matmul dot dot_general DotAlgorithm DotAlgorithmPreset Precision scaled_dot
        nn: get_scaled_dot_general_config scaled_dot_general scaled_matmul""",
    REDUCTIONS: "numpy: allclose apply_over_axes array_equal array_equiv lax: reduce reduce_xor nn: log1mexp",
    STATISTICS: """
        numpy: digitize histogram2d histogram_bin_edges histogramdd
        scipy.stats: gaussian_kde mode rankdata sem
        scipy.cluster.vq: vq""",
    SORTING: """
        numpy: argwhere choose compress extract flatnonzero intersect1d isin piecewise select setdiff1d setxor1d sort_complex
        union1d unique_all unique_counts unique_inverse unique_values
        lax: approx_max_k approx_min_k select select_n sort_key_val""",
    INDEXING: """
        numpy: delete diag diag_indices diag_indices_from diagflat fill_diagonal indices insert ix_ mask_indices place put
        put_along_axis ravel_multi_index tril_indices tril_indices_from trim_zeros triu_indices triu_indices_from unravel_index
        numpy.linalg: diagonal trace
        lax: dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_update_index_in_dim dynamic_update_slice
        dynamic_update_slice_in_dim gather GatherDimensionNumbers GatherScatterMode index_take scatter scatter_add
        scatter_apply scatter_max scatter_min scatter_mul scatter_sub ScatterDimensionNumbers slice""",
    WINDOWS: """
        numpy: correlate ediff1d
        lax: conv conv_dimension_numbers conv_general_dilated conv_general_dilated_local conv_general_dilated_patches
        conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose conv_transpose_shape_tuple
        conv_with_general_padding ConvDimensionNumbers pad padtype_to_pads reduce_window reduce_window_shape_tuple
        scipy.signal: convolve convolve2d correlate correlate2d fftconvolve""",
    INTERPOLATION: """
        numpy: interp poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander""",
    FOURIER: "numpy: bartlett blackman hamming hanning kaiser lax: fft FftType numpy.fft: fftfreq fftshift ifftshift rfftfreq",
    LINALG: "numpy: cross numpy.linalg: norm vector_norm nx: norm",
    ELEMENTWISE: """
        numpy: divmod frexp modf packbits unpackbits
        lax: AccuracyMode RoundingMethod Tolerance""",
    SPECIAL: """
        lax: bessel_i0e bessel_i1e betainc digamma erf erf_inv erfc igamma igamma_grad_a igammac lgamma polygamma
        random_gamma_grad zeta""",
    COLLECTIVES: "lax: precv psend ragged_all_to_all",
    LOOPS: """
        numpy: apply_along_axis ufunc vectorize frompyfunc
        lax: after_all composite create_token custom_linear_solve custom_root dce_sink optimization_barrier platform_dependent
        stage stop_gradient
        scipy.optimize: minimize OptimizeResults""",
    RANDOM: "lax: RandomAlgorithm rng_bit_generator rng_uniform",
    RAGGED: "lax: ragged_dot ragged_dot_general RaggedDotDimensionNumbers",
    FILES: "numpy: fromfile load save savez",
}  # fmt: skip

#: The first folders of the sources in this package.
_PATHS = {
    "ops/shape/creation": ARRAYS,
    "ops/shape/grids": ARRAYS,
    "ops/shape/inspection": ARRAYS,
    "ops/shape/conversion": ARRAYS,
    "ops/shape/": AXES,
    "ops/contraction/": CONTRACTIONS,
    "ops/reduction/": REDUCTIONS,
    "ops/statistics/": STATISTICS,
    "ops/sorting/": SORTING,
    "ops/indexing/": INDEXING,
    "ops/window/resizing": INTERPOLATION,
    "ops/window/": WINDOWS,
    "ops/collectives/": COLLECTIVES,
    "ops/loops/": LOOPS,
    "ops/groups/rolling": WINDOWS,
    "ops/groups/": STATISTICS,
    "ops/nn/initializers": INITIALIZERS,
    "ops/nn/": NN,
    "ops/experts/": EXPERTS,
    "ops/ragged/": RAGGED,
    "ops/random/": RANDOM,
    "ops/linalg/": LINALG,
    "ops/elementwise": ELEMENTWISE,
    **dict.fromkeys(
        ("insight/", "debug/", "machines/", "hlo", "testing"),
        COMMUNICATION,
    ),
    **dict.fromkeys(("checkpoints/", "distributed", "interop", "models/", "typing/"), FILES),
}  # fmt: skip

#: The subjects of namespaces, for functions of JAX that no table above lists. `nx.scipy.stats` stands for all below it.
_SPACES = {
    "nx.lax": ELEMENTWISE,
    "nx.nn.initializers": INITIALIZERS,
    "nx.nn": NN,
    "nx.image": INTERPOLATION,
    "nx.random": RANDOM,
    "nx.lax.linalg": LINALG,
    "nx.numpy.linalg": LINALG,
    "nx.scipy.linalg": LINALG,
    "nx.numpy.fft": FOURIER,
    "nx.scipy.fft": FOURIER,
    "nx.scipy.signal": FOURIER,
    "nx.scipy.interpolate": INTERPOLATION,
    "nx.scipy.ndimage": INTERPOLATION,
    "nx.scipy.spatial.transform": INTERPOLATION,
    "nx.scipy.special": SPECIAL,
    "nx.scipy.stats": DISTRIBUTIONS,
}


@functools.cache
def _listed() -> dict[str, str]:
    found: dict[str, str] = {}
    for subject, text in _NAMES.items():
        space = ""
        for word in text.split():
            if word.endswith(":"):
                space = "nx" if word == "nx:" else f"nx.{word[:-1]}"
            else:
                assert f"{space}.{word}" not in found, (space, word)
                found[f"{space}.{word}"] = subject
    return found


def by_name(name: str) -> str:
    """The subject of a public name that a table lists, such as `"nx.xmap"`; otherwise empty."""
    return _listed().get(name, "")


def by_path(path: str) -> str:
    """The subject of a module below `namedax/`; otherwise empty."""
    return next((subject for start, subject in _PATHS.items() if path.startswith(start)), "")


def by_space(space: str) -> str:
    """The subject of a namespace, such as `"nx.scipy.special"`; otherwise empty."""
    return _SPACES.get("nx.scipy.stats" if space.startswith("nx.scipy.stats.") else space, "")


def subject_of(entry: Entry) -> str:
    """The subject that a reader looks up for an entry; empty for kinds other than functions and classes."""
    if entry.kind not in ("function", "class"):
        return ""
    for name in entry.names:
        if subject := by_name(name):
            return subject
    path = names.source_of(entry).removeprefix("namedax/")
    return by_path(path) or by_space(entry.space)
