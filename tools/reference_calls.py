"""How every function is called in the reference: the operands, and a call for each function, or a rule by which one is found.

A call is Python. Of the operands it has those that it mentions; `N` and `M` stand for the sizes of
`k` and `b`, which are small in the example that is shown, and larger where it is measured what is
sent. `F` stands for the function.
"""

#: The operands by their names, in the order in which an example makes them.
OPERANDS = {
    "key": "jax.random.key(0)",
    "keys": 'nx.random.split(jax.random.key(0), named_shape={"k": N})',
    "x": 'nx.named(jnp.linspace(0.2, 0.8, N), ["k"])',
    "y": 'nx.named(jnp.linspace(0.3, 0.6, N), ["k"])',
    "u": 'nx.named(jnp.linspace(0.9, 0.1, N), ["k"])',
    "large": 'nx.named(jnp.linspace(1.5, 3.0, N), ["k"])',
    "z": 'nx.named(jnp.arange(M * 1.0 * N).reshape(M, N) % 5, ["b", "k"])',
    "w": 'nx.named(jnp.cos(jnp.arange(2.0 * N)).reshape(N, 2), ["k", "out"])',
    "i": 'nx.named(jnp.arange(N) % 4, ["k"])',
    "j": 'nx.named(jnp.arange(N) % 3 + 1, ["k"])',
    "bits": 'nx.named(jnp.arange(N, dtype=jnp.uint8), ["k"])',
    "t": 'nx.named(jnp.arange(N) % 2 == 0, ["k"])',
    "f": 'nx.named(jnp.arange(N) % 3 == 0, ["k"])',
    "c": 'nx.named(jnp.exp(1j * jnp.arange(N)), ["k"])',
    "v": 'nx.named(jnp.linspace(0.1, 0.9, 3 * N).reshape(N, 3), ["k", None])',
    "v2": 'nx.named(jnp.linspace(0.3, 0.6, 3 * N).reshape(N, 3), ["k", None])',
    "iv": 'nx.named(jnp.arange(3 * N).reshape(N, 3) % 3, ["k", None])',
    "tv": 'nx.named(jnp.arange(3 * N).reshape(N, 3) % 2 == 0, ["k", None])',
    "cv": 'nx.named(jnp.exp(1j * jnp.arange(4.0 * N)).reshape(N, 4), ["k", None])',
    "long": 'nx.named(jnp.sin(jnp.arange(8.0 * N)).reshape(N, 8), ["k", None])',
    "m": 'nx.named(jnp.eye(2) + jnp.arange(1.0, N + 1)[:, None, None] / N, ["k", None, None])',
    "m2": 'nx.named(jnp.eye(2) + jnp.arange(4.0 * N).reshape(N, 2, 2) / 9, ["k", None, None])',
    "cube": 'nx.named(jnp.arange(8.0 * N).reshape(N, 2, 2, 2), ["k", None, None, None])',
    "tall": 'nx.named(jnp.cos(jnp.arange(16.0 * N) ** 2).reshape(8 * N, 2), ["k", "out"])',
    "square": 'nx.named(3 * jnp.eye(N) + 0.1, ["k", "k2"])',
    "img": 'nx.named(jnp.arange(16.0 * N).reshape(N, 1, 1, 16) % 7, ["k", None, None, None])',
}

#: One call for several functions: those whose names stand after a namespace (`nx` itself, if none
#: is said).
PATTERNS = {
    'F(z, "k")': (
        """
        : argmax argmin argsort count_nonzero cumlogsumexp cummax cummin cumprod cumsum flip logsumexp max
        max_with_index mean median min min_with_index nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd
        nansum nanvar prod ptp sort std sum var all any
        numpy: all amax amin any argmax argmin argsort count_nonzero cumprod cumsum max mean median min nanargmax nanargmin nancumprod
        nancumsum nanmax nanmean nanmedian nanmin nanprod nanstd nansum nanvar prod ptp sort std sum var
        lax: cumprod cumsum sort psum pmean pmax pmin all_gather
        nn: softmax log_softmax logsumexp logmeanexp standardize layer_norm rms_norm moments
        numpy.fft: fftshift ifftshift
        scipy.signal: detrend
        scipy.stats: sem
    """
    ),
    'F(z, ("k",))': "lax: reduce_max reduce_min reduce_prod reduce_sum rev",
    'F(z.astype(int), ("k",))': "lax: reduce_and reduce_or reduce_xor",
    'F(z, axis="k")': (
        """
        : average gradient norm trapezoid
        numpy: average
        numpy.fft: fft ifft
        numpy.linalg: vector_norm
        scipy.fft: dct idct
        scipy.special: softmax log_softmax logsumexp
        scipy.stats: mode rankdata
        scipy.signal: welch
    """
    ),
    'F(z, axis="k", out_axis="f")': "numpy.fft: rfft irfft hfft ihfft",
    'F(z, axes=("k",))': "numpy.fft: fftn ifftn\n scipy.fft: dctn idctn",
    'F(z, axes=("k",), out_axis={"k": "f"})': "numpy.fft: rfftn irfftn",
    'F(z, axes=("b", "k"))': "numpy.fft: fft2 ifft2",
    'F(z, axes=("b", "k"), out_axis={"k": "f"})': "numpy.fft: rfft2 irfft2",
    'F(z, 0.5, axis="k")': ": quantile nanquantile\n numpy: quantile nanquantile",
    'F(z, 50.0, axis="k")': ": percentile nanpercentile\n numpy: percentile nanpercentile",
    'F(z, 2, axis="k")': ": partition argpartition\n numpy: partition argpartition",
    'F(z, {"k": 2}, out_axis="pooled")': "nn: max_pool min_pool avg_pool",
    'F(z, i % 2, 2, axis="k", out_axis="group")': (
        ": segment_max segment_min segment_prod segment_sum"
    ),
    'F(key, named_shape={"k": N})': (
        """
        random: bits cauchy exponential gumbel laplace logistic lognormal maxwell normal rademacher uniform split bernoulli
    """
    ),
    'F(key, x, named_shape={"k": N})': (
        "random: chisquare gamma loggamma geometric pareto poisson rayleigh t"
    ),
    'F()(key, named_shape={"k": N})': "nn.initializers: normal truncated_normal uniform",
    'F(in_axis="k", out_axis="out")(key, named_shape={"k": N, "out": 2})': (
        """
        nn.initializers: glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform lecun_normal lecun_uniform
        xavier_normal xavier_uniform
    """
    ),
    "F(5 * x - 2.5)": (
        """
        nn: celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid mish relu relu6 selu sigmoid silu soft_sign softplus
        sparse_plus sparse_sigmoid squareplus swish tanh
    """
    ),
    "F(4)": (
        """
        numpy: bartlett blackman hamming hanning
        scipy.linalg: dft hadamard helmert hilbert invhilbert invpascal pascal
        scipy.special: bernoulli
    """
    ),
    "F(3)": "numpy: eye identity tri diag_indices tril_indices triu_indices",
    "F(long)": "scipy.signal: stft",
    "F(v)": "numpy: diagflat diag atleast_1d atleast_2d atleast_3d sort_complex ediff1d",
    "F(m)": (
        "numpy: fliplr flipud diag_indices_from tril_indices_from triu_indices_from"
        " matrix_transpose ravel rot90"
    ),
    "F([v, v2])": "numpy: block column_stack dstack hstack vstack",
    "F(v, v2)": (
        """
        numpy: broadcast_arrays dot inner kron meshgrid outer vdot cross correlate polyadd polydiv polymul polysub
        numpy.linalg: cross outer
        scipy.signal: convolve correlate
    """
    ),
    "F(iv, iv, size=3)": "numpy: intersect1d setdiff1d setxor1d union1d",
    "F(iv, size=3)": (
        "numpy: unique_all unique_counts unique_inverse unique_values flatnonzero argwhere"
    ),
    "F(m, m2)": "scipy.signal: convolve2d correlate2d",
    "F(v, jnp.zeros((1, 1), int), v[:1], jax.lax.ScatterDimensionNumbers((), (0,), (0,)))": (
        """
        lax: scatter scatter_add scatter_max scatter_min scatter_mul scatter_sub
    """
    ),
}

#: Calls of single functions, by their names without `nx.`.
CALLS = {
    # elementwise, where the rules find nothing that shows what it does
    "arccosh": "F(large)",
    "numpy.acosh": "F(large)",
    "bitwise_count": "F(i)",
    "imag": "F(c)",
    "angle": "F(c)",
    "conj": "F(c)",
    "numpy.conjugate": "F(c)",
    "isclose": "F(x, x + 1e-9)",
    "clip": "F(x, 0.3, 0.6)",
    "ldexp": "F(x, i)",
    "heaviside": "F(x - 0.5, y)",
    "copysign": "F(x, -y)",
    "negative": "F(x)",
    "maximum": "F(x, u)",
    "minimum": "F(x, u)",
    "fmax": "F(x, u)",
    "fmin": "F(x, u)",
    "nan_to_num": "F(x / (x - 0.2))",
    "isnan": "F((x - 0.2) / (x - 0.2))",
    "isinf": "F(1 / (x - 0.2))",
    "isfinite": "F(1 / (x - 0.2))",
    "numpy.around": "F(x, 1)",
    "round": "F(x, 1)",
    "sign": "F(x - 0.4)",
    "signbit": "F(x - 0.4)",
    "abs": "F(x - 0.5)",
    "numpy.absolute": "F(x - 0.5)",
    "fabs": "F(x - 0.5)",
    "iscomplex": "F(c)",
    "isreal": "F(c)",
    "isneginf": "F(-1 / (x - 0.2))",
    "isposinf": "F(1 / (x - 0.2))",
    "rint": "F(10 * x)",
    "trunc": "F(10 * x)",
    "floor": "F(10 * x)",
    "ceil": "F(10 * x)",
    "logical_not": "F(t)",
    "logical_and": "F(t, f)",
    "logical_or": "F(t, f)",
    "logical_xor": "F(t, f)",
    "equal": "F(i, j)",
    "not_equal": "F(i, j)",
    "less": "F(i, j)",
    "less_equal": "F(i, j)",
    "greater": "F(i, j)",
    "greater_equal": "F(i, j)",
    "floor_divide": "F(i, j)",
    "mod": "F(i, j)",
    "numpy.remainder": "F(i, j)",
    "fmod": "F(i, j)",
    "real": "F(c)",
    "gcd": "F(6 * i, 4 * j)",
    "lcm": "F(i, j)",
    # arrays
    "allclose": "F(x, y)",
    "array_equal": "F(x, y)",
    "array_equiv": "F(x, y)",
    "append": 'F(x, y, "k", out_axis="both")',
    "arange": 'F(N, axis="k")',
    "array": "F(x)",
    "asarray": "F(x)",
    "array_repr": "F(x)",
    "array_str": "F(x)",
    "array_split": 'F(z, 2, "k", out_axis="part")',
    "split": 'F(z, 2, "k", out_axis="part")',
    "associative_scan": 'F(nx.add, z, axis="k")',
    "axis_size": 'nx.xmap(lambda x: F("k") * x)(x)',
    "bincount": 'F(i, length=4, axis="k", out_axis="value")',
    "broadcast_to": 'F(x, named_shape={"k": N, "new": 2})',
    "concatenate": 'F([x, y], "k", out_axis="both")',
    "cond": "F(jnp.array(True), nx.sin, nx.cos, x)",
    "conv": 'F(z, jnp.ones(3), "k")',
    "conv_transpose": 'F(z, jnp.ones(3), "k")',
    "convolve": 'F(z, jnp.ones(3), "same", axis="k")',
    "corrcoef": 'F(z, axis="k", variables=("b", "b2"))',
    "cov": 'F(z, axis="k", variables=("b", "b2"))',
    "diagonal": 'F(w, axis1="k", axis2="out")',
    "dot": 'F(z, w, "k")',
    "einsum": 'F("{b,k},{k,out}->{b,out}", z, w)',
    "empty": 'F((), named_shape={"k": N})',
    "zeros": 'F((), named_shape={"k": N})',
    "ones": 'F((), named_shape={"k": N})',
    "full": 'F((), 2.0, named_shape={"k": N})',
    "expand_dims": "F(x, 0)",
    "fold": 'F(lambda c, e: 0.5 * c + e, jnp.array(0.0), x, axis="k")',
    "fori_loop": "F(0, 3, lambda step, c: 0.5 * c, x)",
    "group_accumulate": 'F(z, i % 2, "k")',
    "group_reduce": 'F(z, i % 2, "k", groups=2, out_axis="group")',
    "group_shift": 'F(z, 1, i % 2, "k")',
    "halo": 'F(z, "k", 1, 1)',
    "histogram": 'F(z, 2, (0.0, 4.0), axis="k", out_axis="bin")',
    "iscomplexobj": "F(x)",
    "isrealobj": "F(x)",
    "isscalar": "F(x)",
    "lexsort": 'F((z, 2 * z), "k")',
    "linspace": 'F(0.0, 1.0, N, axis="k")',
    "map": 'F(lambda e: 2 * e, z, axis="k")',
    "merge_axes": 'F(z, ("b", "k"), "both")',
    "moveaxis": "F(m, 0, 1)",
    "ndim": "F(v)",
    "nonzero": 'F(z > 2, axis="k", size=3, out_axis="found")',
    "order_like": "F(z, 2 * z)",
    "named": 'F(jnp.arange(1.0 * N), ["k"])',
    "pad": 'F(z, {"k": (1, 1)}, out_axis="padded")',
    "numpy.permute_dims": "F(m, (1, 0))",
    "transpose": "F(m, (1, 0))",
    "positional": 'F(x, ["k"])',
    "rearrange": 'F(x, "{k=(p q)} -> {p, q}", q=2)',
    "reduce": 'F(z, "{b, k} -> {b}", "sum")',
    "rename": 'F(z, {"k": "k2"})',
    "rolling_reduce": 'F(z, "k", size=2)',
    "repeat": 'F(z, 2, "k", out_axis="twice")',
    "result_type": "F(x, i)",
    "roll": 'F(z, 1, "k")',
    "scan": 'F(lambda c, e: (c + e, c), jnp.array(0.0), x, axis="k")',
    "searchsorted": 'F(x, jnp.array([0.25, 0.7]), axis="k")',
    "shape": "F(v)",
    "size": "F(v)",
    "shift": 'F(z, 1, "k")',
    "slice": 'F(z, {"k": slice(1, 3)}, out_axis="part")',
    "split_axis": 'F(x, "k", {"p": 2, "q": N // 2})',
    "squeeze": "F(v[:1], 0)",
    "stack": 'F([x, y], axis="new")',
    "switch": "F(jnp.array(1), [nx.sin, nx.cos], x)",
    "take": 'F(z, jnp.array([0, 2]), "k")',
    "take_along_axis": 'F(x, i % 3, "k")',
    "tensordot": 'F(x, y, "k")',
    "tile": 'F(z, {"k": 2}, out_axis="twice")',
    "sort_by": 'F(z, -z, "k")',
    "top_k": 'F(z, 2, axis="k")',
    "trace": 'F(w, 0, "k", "out")',
    "tril": 'F(w, axis=("k", "out"))',
    "triu": 'F(w, axis=("k", "out"))',
    "unique": 'F(i, axis="k", size=4, out_axis="value")',
    "untag": 'F(x, ["k"])',
    "vecdot": 'F(z, 2 * z, axis="k")',
    "where": "F(t, x, y)",
    "windows": 'F(z, "k", size=3, padding="SAME")',
    "while_loop": "F(lambda c: nx.sum(c, 'k') < 9.0, lambda c: 2 * c, x)",
    "unwrap": 'F(3 * z, axis="k")',
    "vmap": 'F(lambda e: 2 * e, "k")(z)',
    "nmap": "F(jnp.cumsum)(v)",
    "bitwise_and": "F(i, j)",
    "bitwise_or": "F(i, j)",
    "bitwise_xor": "F(i, j)",
    "pipeline": (
        'F(lambda h, w: h * w, nx.named(jnp.ones(M), ["b"]), x, axis="k", over="b", microbatches=2)'
    ),
    "image.resize": 'F(z, {"k": 2 * N}, "linear", out_axis="large")',
    "diff": 'F(z, axis="k", out_axis="steps")',
    "image.scale_and_translate": 'F(v, (6,), (0,), jnp.array([2.0]), jnp.array([0.0]), "linear")',
    "interop.global_norm": "F({'a': x, 'b': z})",
    "interop.lora.dot": 'F(z, w, "k")',
    "interop.lora.einsum": 'F("{b,k},{k,out}->{b,out}", z, w)',
}

CALLS |= {
    # jax.lax
    "lax.all_to_all": 'F(jnp.arange(N * 1.0) * x, "k", 0, 0)',
    "lax.argmax": 'F(z, "k", jnp.int32)',
    "lax.argmin": 'F(z, "k", jnp.int32)',
    "lax.axis_index": 'nx.xmap(lambda x: F("k") * x)(x)',
    "lax.axis_size": 'nx.xmap(lambda x: F("k") * x)(x)',
    "lax.concatenate": "F([v, v2], 0)",
    "lax.cond": "F(jnp.array(True), nx.sin, nx.cos, x)",
    "lax.expand_dims": "F(x, (0,))",
    "lax.index_in_dim": 'F(z, 1, "k", False)',
    "lax.optimization_barrier": "F(x)",
    "lax.pbroadcast": 'F(z, "k", 1)',
    "lax.pcast": 'nx.xmap(lambda x: F(x, "k", to="varying"))(x)',
    "lax.pdot": 'F(z, w, "k")',
    "lax.pgather": 'F(x, jnp.array([0, 2]), "k")',
    "lax.ppermute": 'F(z, "k", [(e, (e + 1) % N) for e in range(N)])',
    "lax.pshuffle": 'F(z, "k", [(e + 1) % N for e in range(N)])',
    "lax.psum_scatter": 'F(jnp.arange(N * 1.0) * x, "k")',
    "lax.pswapaxes": 'F(jnp.arange(N * 1.0) * x, "k", 0)',
    "lax.rng_bit_generator": "F(jnp.arange(4, dtype=jnp.uint32), (2,))",
    "lax.rng_uniform": "F(0.0, 1.0, (2,))",
    "lax.scan": 'F(lambda c, e: (c + e, c), jnp.array(0.0), x, axis="k")',
    "lax.slice_in_dim": 'F(z, 0, 2, 1, "k")',
    "lax.switch": "F(jnp.array(1), [nx.sin, nx.cos], x)",
    "lax.top_k": 'F(z, 2, axis="k")',
    "lax.sort_key_val": 'F(-z, z, "k")',
    "lax.approx_max_k": "F(v, 2)",
    "lax.approx_min_k": "F(v, 2)",
    "lax.batch_matmul": "F(m[None], m2[None])",
    "lax.bitcast_convert_type": "F(x, jnp.int32)",
    "lax.broadcast": "F(x, (2,))",
    "lax.broadcast_in_dim": "F(v, (2, 3), (1,))",
    "lax.broadcast_like": "F(v, m[0, 0] * jnp.ones((2, 3)))",
    "lax.broadcast_to_rank": "F(v, 2)",
    "lax.collapse": "F(m, 0)",
    "lax.clamp": "F(0.3, x, 0.6)",
    "lax.complex": "F(x, y)",
    "lax.conj": "F(c)",
    "lax.imag": "F(c)",
    "lax.real": "F(c)",
    "lax.clz": "F(i)",
    "lax.population_count": "F(i)",
    "lax.conv": 'F(img, jnp.ones((1, 1, 3)), (4,), "VALID")',
    "lax.conv_general_dilated": 'F(img, jnp.ones((1, 1, 3)), (4,), "VALID")',
    "lax.conv_general_dilated_local": 'F(img, jnp.ones((1, 3, 4)), (4,), "VALID", (3,))',
    "lax.conv_general_dilated_patches": 'F(img, (2,), (8,), "VALID")',
    "lax.conv_transpose": 'F(jnp.ones((1, 2, 1)) * x, jnp.ones((3, 1, 1)), (2,), "SAME")',
    "lax.conv_with_general_padding": "F(img, jnp.ones((1, 1, 3)), (4,), [(0, 0)], (1,), (1,))",
    "lax.convert_element_type": "F(10 * x, jnp.int32)",
    "lax.dot": "F(m, m2)",
    "lax.dot_general": "F(m, m2, (((1,), (0,)), ((), ())))",
    "lax.dynamic_index_in_dim": 'F(z, 1, "k", False)',
    "lax.dynamic_slice": "F(v, (1,), (2,))",
    "lax.dynamic_slice_in_dim": 'F(z, 1, 2, "k")',
    "lax.dynamic_update_index_in_dim": "F(v, x, 1, 0)",
    "lax.dynamic_update_slice": "F(v, v2[:2], (1,))",
    "lax.dynamic_update_slice_in_dim": "F(v, v2[:2], 1, 0)",
    "lax.fft": 'F(cv, "FFT", (4,))',
    "lax.full_like": "F(x, 2.0)",
    "lax.gather": "F(v, jnp.array([[2]]), jax.lax.GatherDimensionNumbers((), (0,), (0,)), (1,))",
    "lax.index_take": "F(v, (jnp.array([2, 0]),), (0,))",
    "lax.integer_pow": "F(x, 3)",
    "lax.is_finite": "F(x)",
    "lax.mulhi": "F(i, j)",
    "lax.pad": "F(v, 0.0, [(1, 1, 0)])",
    "lax.polygamma": "F(1.0, large)",
    "lax.ragged_dot": "F(jnp.ones((3, 1)), jnp.ones((2, 1, 2)), jnp.array([1, 2]))",
    "lax.ragged_dot_general": (
        "F(jnp.ones((3, 1)), jnp.ones((2, 1, 2)), jnp.array([1, 2]), "
        "jax.lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,)))"
    ),
    "lax.random_gamma_grad": "F(large, x)",
    "lax.reduce": "F(v, 0.0, jax.lax.add, (0,))",
    "lax.reduce_precision": "F(x, 5, 3)",
    "lax.reduce_window": 'F(v, 0.0, jax.lax.add, (2,), (1,), "VALID")',
    "lax.reshape": "F(m, (4,))",
    "lax.scaled_dot": "F(m.astype(jnp.bfloat16), m2.astype(jnp.bfloat16))",
    "lax.scatter_apply": (
        "F(v, jnp.array([[0]]), jnp.sin, jax.lax.ScatterDimensionNumbers((), (0,), (0,)),"
        " update_shape=(1,))"
    ),
    "lax.select": "F(t, x, y)",
    "lax.select_n": "F(t, x, y)",
    "lax.slice": "F(v, (1,), (3,))",
    "lax.split": "F(v, (1, 2))",
    "lax.squeeze": "F(v[:1], (0,))",
    "lax.stack": "F([v, v2])",
    "lax.stop_gradient": "F(x)",
    "lax.tile": "F(v, (2,))",
    "lax.transpose": "F(m, (1, 0))",
    "lax.unstack": 'F(x, "k")',
    "lax.igamma_grad_a": "F(large, x)",
    "lax.acosh": "F(large)",
    "lax.rem": "F(i, j)",
    "lax.shift_left": "F(i, j)",
    "lax.shift_right_arithmetic": "F(i, j)",
    "lax.shift_right_logical": "F(i, j)",
    "lax.eq": "F(i, j)",
    "lax.ge": "F(i, j)",
    "lax.gt": "F(i, j)",
    "lax.le": "F(i, j)",
    "lax.lt": "F(i, j)",
    "lax.ne": "F(i, j)",
    "lax.ceil": "F(10 * x)",
    "lax.floor": "F(10 * x)",
    "lax.round": "F(10 * x)",
    "lax.sign": "F(x - 0.4)",
    "lax.abs": "F(x - 0.5)",
    "lax.max": "F(x, u)",
    "lax.min": "F(x, u)",
    "lax.broadcast_shapes": "F((2, 1), (3,))",
    "lax.broadcasted_iota": "F(int, (2, 3), 1)",
    "lax.conv_dimension_numbers": 'F((1, 2, 8, 8), (3, 2, 3, 3), ("NCHW", "OIHW", "NCHW"))',
    "lax.conv_general_permutations": 'F(("NCHW", "OIHW", "NHWC"))',
    "lax.conv_general_shape_tuple": (
        'F((1, 2, 8, 8), (3, 2, 3, 3), (1, 1), "SAME", ("NCHW", "OIHW", "NCHW"))'
    ),
    "lax.conv_shape_tuple": 'F((1, 2, 8, 8), (3, 2, 3, 3), (1, 1), "SAME")',
    "lax.conv_transpose_shape_tuple": (
        'F((1, 8, 2), (3, 2, 3), (2,), "SAME", ("NHC", "HIO", "NHC"))'
    ),
    "lax.composite": 'F(jnp.sin, "my.sin")(jnp.array(0.5))',
    "lax.after_all": "F()",
    "lax.create_token": "F()",
    "lax.custom_linear_solve": (
        "F(lambda a: 2 * a, jnp.array([2.0]), lambda matvec, b: b / 2, symmetric=True)"
    ),
    "lax.custom_root": (
        "F(lambda a: a**2 - 2, 1.0, lambda f, a: jnp.sqrt(2.0), lambda g, b: b / g(1.0))"
    ),
    "lax.dce_sink": "F(jnp.ones(2))",
    "lax.dtype": "F(1.0)",
    "lax.empty": "F((2,), float)",
    "lax.full": "F((2,), 3.0)",
    "lax.iota": "F(int, 3)",
    "lax.padtype_to_pads": 'F((8, 8), (3, 3), (2, 2), "SAME")',
    "lax.platform_dependent": "F(jnp.array(1.0), cpu=jnp.sin, default=jnp.cos)",
    "lax.reduce_window_shape_tuple": "F((8,), (2,), (2,), [(0, 0)])",
    "lax.shape_as_value": "F((2, 3))",
    "lax.stage": "F(jnp.ones(2))",
    # networks
    "nn.alibi_bias": 'F({"head": 2, "query": 3, "k": N}, axis=("head", "query", "k"))',
    "nn.batch_norm": 'F(z, "k")',
    "nn.binary_cross_entropy": "F(x, t)",
    "nn.causal_mask": 'F({"query": 3, "k": N}, axis=("query", "k"))',
    "nn.prefix_mask": 'F({"query": 3, "k": N}, 2, axis=("query", "k"))',
    "nn.dot_product_attention": 'F(w, w, w, axis="k", features="out")',
    "nn.combine_attention": "F([(w, x), (w, y)])",
    "nn.linear_attention": 'F(w, w, x, axis="k", features="out")',
    "nn.gated_delta_rule": 'F(w, w, x, axis="k", features="out", beta=0.5)',
    "nn.rope": 'F(w, 3, "k")',
    "nn.rope_scaling": 'F({"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 4096})',
    "nn.relative_position_buckets": 'F(nx.arange(N, axis="k") - 2, 8)',
    "nn.relative_position_bias": (
        'F(nx.ones(named_shape={"bucket": 8}), nx.arange(3, axis="query"), nx.arange(N, axis="k"),'
        ' axis="bucket")'
    ),
    "nn.dropout": "F(x, key, 0.5)",
    "nn.glu": 'F(z, "k")',
    "nn.one_hot": 'F(jnp.array([1, 0]), axis="k", num_classes=N)',
    "nn.softmax_cross_entropy": 'F(z, jnp.array(1), "k")',
    "nn.identity": "F(x)",
    "nn.scaled_matmul": (
        "F(jnp.ones((1, 2, 32)), jnp.ones((1, 2, 32)), jnp.ones((1, 2, 1)), jnp.ones((1, 2, 1)))"
    ),
    "nn.top_k_routing": 'F(w, "out", 1)',
    "nn.router_z_loss": 'F(w, "out", "k")',
    "nn.load_balancing_loss": 'F(nx.nn.top_k_routing(w, "out", 1), "k")',
    "nn.log1mexp": "F(x)",
    "nn.grouped_dot": (
        'F(z, nx.named(jnp.ones((2, N, 3)), ["group", "k", "out"]), "k",'
        ' groups=nx.named(jnp.arange(M) % 2, ["b"]), group="group")'
    ),
    "nn.update_moments": 'F(nx.nn.moments(z, "k"), nx.nn.moments(2 * z, "k"))',
    "nn.mixture_of_experts": (
        'F(lambda p, h: p * h, nx.named(jnp.ones((2, 2)), ["expert", "out"]), w,'
        ' nx.nn.top_k_routing(w, "out", 1), tokens="k")'
    ),
    "nn.get_scaled_dot_general_config": 'F("mxfp8")',
    "nn.initializers.constant": 'F(2.0)(key, named_shape={"k": N})',
    "nn.initializers.zeros": 'F(key, named_shape={"k": N})',
    "nn.initializers.ones": 'F(key, named_shape={"k": N})',
    "nn.initializers.variance_scaling": (
        'F(1.0, "fan_in", "normal", in_axis="k", out_axis="out")(key, named_shape={"k": N,'
        ' "out": 2})'
    ),
    "nn.initializers.orthogonal": 'F()(key, (2, 2), named_shape={"k": N})',
    "nn.initializers.delta_orthogonal": 'F()(key, (3, 2, 2), named_shape={"k": N})',
    "nn.scaled_dot_general": "F(m, m2, (((1,), (0,)), ((), ())))",
}

CALLS |= {
    # jax.numpy
    "numpy.allclose": "F(v, v2)",
    "numpy.array_equal": "F(v, v2)",
    "numpy.array_equiv": "F(v, v2)",
    "numpy.apply_along_axis": 'F(jnp.sum, "k", z)',
    "numpy.apply_over_axes": "F(jnp.sum, jnp.ones((2, 3)), (0, 1))",
    "numpy.arange": 'F(N, axis="k")',
    "numpy.array": "F(x)",
    "numpy.asarray": "F(x)",
    "numpy.array_repr": "F(x)",
    "numpy.array_str": "F(x)",
    "numpy.astype": "F(10 * x, jnp.int32)",
    "numpy.bincount": 'F(i, length=4, axis="k", out_axis="value")',
    "numpy.choose": 'F(i % 2, [x, y], mode="clip")',
    "numpy.compress": "F(jnp.array([True, False, True]), v, axis=0, size=2)",
    "numpy.concat": 'F([x, y], axis="k", out_axis="both")',
    "numpy.convolve": 'F(z, jnp.ones(3), "same", axis="k")',
    "numpy.copy": "F(x)",
    "numpy.delete": 'F(z, 1, axis="k")',
    "numpy.digitize": "F(x, jnp.array([0.25, 0.5, 0.75]))",
    "numpy.divmod": "F(i, j)",
    "numpy.dsplit": "F(cube, 2)",
    "numpy.einsum": 'F("{b,k},{k,out}->{b,out}", z, w)',
    "numpy.empty": 'F((), named_shape={"k": N})',
    "numpy.zeros": 'F((), named_shape={"k": N})',
    "numpy.ones": 'F((), named_shape={"k": N})',
    "numpy.full": 'F((), 2.0, named_shape={"k": N})',
    "empty_like": "F(x)",
    "zeros_like": "F(x)",
    "ones_like": "F(x)",
    "full_like": "F(x, 2.0)",
    "numpy.extract": "F(tv, v, size=2)",
    "numpy.fill_diagonal": "F(m, 0.0, inplace=False)",
    "numpy.frexp": "F(x)",
    "numpy.modf": "F(10 * x)",
    "numpy.histogram": 'F(z, 2, (0.0, 4.0), axis="k", out_axis="bin")',
    "numpy.histogram2d": "F(v, v2, 2)",
    "numpy.histogram_bin_edges": "F(v, 2)",
    "numpy.histogramdd": "F(m, 2)",
    "numpy.hsplit": "F(m, 2)",
    "numpy.vsplit": "F(m, 2)",
    "numpy.insert": 'F(z, 1, 0.0, axis="k")',
    "numpy.interp": "F(x, jnp.array([0.0, 1.0]), jnp.array([0.0, 10.0]))",
    "numpy.isin": "F(i, jnp.array([1, 3]))",
    "numpy.isscalar": "F(x)",
    "numpy.matmul": "F(m, m2)",
    "numpy.matvec": "F(m, m2[0])",
    "numpy.vecmat": "F(m2[0], m)",
    "numpy.ndim": "F(v)",
    "numpy.packbits": 'F(z > 1, axis="k")',
    "numpy.unpackbits": "F(nx.expand_dims(bits, 0))",
    "numpy.pad": 'F(z, {"k": (1, 1)}, out_axis="padded")',
    "numpy.permute_dims": "F(m, (1, 0))",
    "numpy.piecewise": "F(v, [v < 0.5, v >= 0.5], [0.0, 1.0])",
    "numpy.place": "F(v, tv, v2, inplace=False)",
    "numpy.poly": "F(v)",
    "numpy.polyder": "F(v)",
    "numpy.polyfit": "F(v, v2, 1)",
    "numpy.polyint": "F(v)",
    "numpy.polyval": "F(v, 2.0)",
    "numpy.put": "F(v, jnp.array([0]), 0.0, inplace=False)",
    "numpy.put_along_axis": "F(v, iv, v2, 0, inplace=False)",
    "numpy.ravel_multi_index": 'F((i, j), (4, 4), mode="clip")',
    "numpy.unravel_index": "F(i, (2, 2))",
    "numpy.repeat": 'F(z, 2, "k", out_axis="twice")',
    "numpy.reshape": "F(m, (4,))",
    "numpy.resize": "F(v, (2, 2))",
    "numpy.rollaxis": "F(m, 1)",
    "numpy.roots": "F(v, strip_zeros=False)",
    "numpy.select": "F([x < 0.3, x < 0.7], [x, 2 * x], 0.0)",
    "numpy.shape": "F(v)",
    "numpy.size": "F(v)",
    "numpy.swapaxes": "F(m, 0, 1)",
    "numpy.take": 'F(z, jnp.array([0, 2]), "k")',
    "numpy.take_along_axis": 'F(x, i % 3, "k")',
    "numpy.tensordot": 'F(x, y, "k")',
    "numpy.trim_zeros": "F(jnp.array([0.0, 1.0, 0.0]))",
    "numpy.unstack": 'F(x, axis="k")',
    "numpy.vander": "F(v)",
    "numpy.broadcast_shapes": "F((2, 1), (3,))",
    "numpy.can_cast": "F(int, float)",
    "numpy.einsum_path": 'F("ij,jk->ik", jnp.ones((2, 3)), jnp.ones((3, 2)))',
    "numpy.from_dlpack": "F(jnp.arange(3))",
    "numpy.frombuffer": 'F(b"\\x01\\x02", jnp.uint8)',
    "numpy.fromfunction": "F(lambda a, b: a + b, (2, 2))",
    "numpy.frompyfunc": "F(lambda a, b: a + b, 2, 1)(jnp.arange(3), 1)",
    "numpy.fromstring": 'F("1 2", int, sep=" ")',
    "numpy.geomspace": "F(1.0, 8.0, 4)",
    "numpy.get_printoptions": 'F()["precision"]',
    "numpy.indices": "F((2, 2))",
    "numpy.isdtype": 'F(jnp.float32, "real floating")',
    "numpy.issubdtype": "F(jnp.float32, jnp.floating)",
    "numpy.iterable": "F([1])",
    "numpy.ix_": "F(jnp.array([0, 1]), jnp.array([2]))",
    "numpy.kaiser": "F(4, 14.0)",
    "numpy.logspace": "F(0.0, 3.0, 4)",
    "numpy.mask_indices": "F(2, jnp.triu)",
    "numpy.promote_types": "F(jnp.int8, jnp.float16)",
    "numpy.vectorize": 'F(jnp.dot, signature="(n),(n)->()")(jnp.ones((2, 3)), jnp.ones(3))',
    "numpy.fft.fftfreq": 'F(N, axis="k")',
    "numpy.fft.rfftfreq": 'F(2 * N - 2, axis="k")',
    **dict.fromkeys(
        ("linalg.svd", "linalg.qr", "linalg.pinv", "linalg.norm", "linalg.pca"),
        'F(tall, "k", "out")',
    ),
    **dict.fromkeys(("linalg.eigh", "linalg.cholesky", "linalg.det"), 'F(square, "k", "k2")'),
    "linalg.lstsq": 'F(tall, tall["out", 0], "k", "out")',
    "linalg.solve": 'F(square, x, "k", "k2")',
    "numpy.linalg.matrix_power": "F(m, 2)",
    "numpy.linalg.multi_dot": "F([m, m2, m])",
    "numpy.linalg.tensordot": "F(m, m2, axes=1)",
    "numpy.linalg.tensorinv": "F(m, 1)",
    "numpy.linalg.tensorsolve": "F(m, m2[0])",
    "numpy.linalg.matrix_transpose": "F(m)",
    "numpy.linalg.solve": "F(m, m2)",
    "numpy.linalg.lstsq": "F(m, m2[0])",
    "numpy.linalg.diagonal": "F(m)",
    "numpy.linalg.matmul": "F(m, m2)",
    # jax.random
    "random.ball": 'F(key, 2, named_shape={"k": N})',
    "random.beta": 'F(key, x, y, named_shape={"k": N})',
    "random.binomial": 'F(key, 10, x, named_shape={"k": N})',
    "random.categorical": 'F(key, z, axis="k")',
    "random.choice": "F(key, jnp.arange(5), (2,))",
    "random.clone": "F(keys)",
    "random.dirichlet": 'F(key, jnp.array([1.0, 2.0]), named_shape={"k": N})',
    "random.double_sided_maxwell": 'F(key, 0.0, 1.0, named_shape={"k": N})',
    "random.f": 'F(key, 2.0, 3.0, named_shape={"k": N})',
    "random.fold_in": "F(key, i)",
    "random.generalized_normal": 'F(key, 2.0, named_shape={"k": N})',
    "random.key": "F(0)",
    "random.PRNGKey": "F(0)",
    "random.key_data": "F(keys)",
    "random.key_impl": "F(keys)",
    "random.multinomial": 'F(key, 10, jnp.array([0.25, 0.75]), named_shape={"k": N})',
    "random.multivariate_normal": 'F(key, jnp.zeros(2), jnp.eye(2), named_shape={"k": N})',
    "random.orthogonal": 'F(key, 2, named_shape={"k": N})',
    "random.permutation": 'F(key, z, axis="k")',
    "random.randint": 'F(key, (), 0, 10, named_shape={"k": N})',
    "random.triangular": 'F(key, 0.0, 0.5, 1.0, named_shape={"k": N})',
    "random.truncated_normal": 'F(key, -1.0, 1.0, named_shape={"k": N})',
    "random.wald": 'F(key, 1.0, named_shape={"k": N})',
    "random.weibull_min": 'F(key, 1.0, 2.0, named_shape={"k": N})',
    "random.wrap_key_data": "F(nx.random.key_data(keys))",
    "random.key_dtype": "F()",
    "random.t": 'F(key, 3.0, named_shape={"k": N})',
    "random.pareto": 'F(key, 2.0, named_shape={"k": N})',
    # jax.scipy
    "scipy.cluster.vq.vq": "F(m, jnp.eye(2))",
    "scipy.linalg.block_diag": "F(m, m2)",
    "scipy.linalg.cho_solve": "F((m, True), m2[0])",
    "scipy.linalg.circulant": "F(v)",
    "scipy.linalg.companion": "F(v)",
    "scipy.linalg.convolution_matrix": "F(v, 4)",
    "scipy.linalg.eigh_tridiagonal": "F(v, v2[:2], eigvals_only=True)",
    "scipy.linalg.fiedler": "F(v)",
    "scipy.linalg.fiedler_companion": "F(v)",
    "scipy.linalg.funm": "F(m, jnp.exp)",
    "scipy.linalg.hankel": "F(v)",
    "scipy.linalg.toeplitz": "F(v)",
    "scipy.linalg.leslie": "F(v, v2[:2])",
    "scipy.linalg.lu_solve": "F((m, jnp.array([0, 1])), m2[0])",
    "scipy.linalg.solve_triangular": "F(m, m2[0])",
    "scipy.linalg.solve": "F(m, m2[0])",
    "scipy.linalg.solve_sylvester": "F(m, m2, m)",
    "scipy.linalg.qr_multiply": "F(m, m2)",
    "scipy.linalg.rsf2csf": "F(*nx.scipy.linalg.schur(m))",
    "scipy.linalg.expm_frechet": "F(m, m2)",
    "scipy.ndimage.map_coordinates": "F(v, [jnp.array([0.5, 1.5])], order=1)",
    "scipy.optimize.minimize": 'F(lambda p: jnp.sum(p**2), jnp.ones(2), method="BFGS").x',
    "scipy.signal.csd": 'F(z, 2 * z, axis="k")',
    "scipy.signal.fftconvolve": "F(v, v2)",
    "scipy.signal.istft": "F(nx.scipy.signal.stft(long, nperseg=4)[2], nperseg=4)",
    "scipy.signal.stft": "F(long, nperseg=4)",
    "scipy.signal.welch": "F(long, nperseg=8)",
    "scipy.sparse.linalg.cg": "F(lambda v: 2 * v, x)",
    "scipy.sparse.linalg.bicgstab": "F(lambda v: 2 * v, x)",
    "scipy.sparse.linalg.gmres": "F(lambda v: 2 * v, x)",
    "scipy.special.bessel_jn": "F(x, v=2)",
    "scipy.special.comb": "F(4.0, 10 * x)",
    "scipy.special.factorial": "F(i)",
    "scipy.special.hyp2f1": "F(x, y, large, x)",
    "scipy.special.hyp1f1": "F(x, large, y)",
    "scipy.special.expn": "F(2, x)",
    "scipy.special.multigammaln": "F(large, 2)",
    "scipy.special.polygamma": "F(1, large)",
    "scipy.special.sph_harm_y": "F(jnp.array([2]), jnp.array([1]), v[:1], v2[:1], n_max=2)",
    "scipy.special.zeta": "F(large, x)",
    "scipy.special.owens_t": "F(x, y)",
    # distributions
    "scipy.stats.bernoulli.logpmf": "F(i % 2, 0.25)",
    "scipy.stats.bernoulli.pmf": "F(i % 2, 0.25)",
    "scipy.stats.bernoulli.cdf": "F(i % 2, 0.25)",
    "scipy.stats.bernoulli.ppf": "F(x, 0.25)",
    "scipy.stats.dirichlet.logpdf": "F(jnp.array([0.2, 0.8]) * jnp.ones(2), x * jnp.ones(2))",
    "scipy.stats.dirichlet.pdf": "F(jnp.array([0.2, 0.8]) * jnp.ones(2), x * jnp.ones(2))",
    "scipy.stats.multivariate_normal.logpdf": "F(v[:2], jnp.zeros(2), jnp.eye(2))",
    "scipy.stats.multivariate_normal.pdf": "F(v[:2], jnp.zeros(2), jnp.eye(2))",
    "scipy.stats.multinomial.logpmf": "F(iv[:2], 1, jnp.array([0.25, 0.75]))",
    "scipy.stats.multinomial.pmf": "F(iv[:2], 1, jnp.array([0.25, 0.75]))",
    "scipy.stats.wrapcauchy.logpdf": "F(large, x)",
    "scipy.stats.wrapcauchy.pdf": "F(large, x)",
    "scipy.stats.binom.logpmf": "F(i, 4, 0.25)",
    "scipy.stats.binom.pmf": "F(i, 4, 0.25)",
    "scipy.stats.betabinom.logpmf": "F(i, 4, 1.0, 2.0)",
    "scipy.stats.betabinom.pmf": "F(i, 4, 1.0, 2.0)",
    "scipy.stats.geom.logpmf": "F(j, 0.25)",
    "scipy.stats.geom.pmf": "F(j, 0.25)",
    "scipy.stats.nbinom.logpmf": "F(i, 4, 0.25)",
    "scipy.stats.nbinom.pmf": "F(i, 4, 0.25)",
    "scipy.stats.poisson.cdf": "F(i, 1.5)",
    "scipy.stats.poisson.logpmf": "F(i, 1.5)",
    "scipy.stats.poisson.pmf": "F(i, 1.5)",
    "scipy.stats.poisson.entropy": "F(large)",
    "scipy.stats.truncnorm.logpdf": "F(x, -1.0, 1.0)",
    "scipy.stats.gennorm.logpdf": "F(x, 2.0)",
    **{
        f"scipy.stats.truncnorm.{name}": "F(x, -1.0, 1.0)"
        for name in ("cdf", "logcdf", "logpdf", "logsf", "pdf", "sf")
    },
    **{
        f"scipy.stats.pareto.{name}": "F(large, 2.0)"
        for name in ("cdf", "logcdf", "logpdf", "logsf", "pdf", "sf")
    },
    "scipy.stats.pareto.ppf": "F(x, 2.0)",
    "lax.linalg.cholesky_update": "F(jnp.eye(2), jnp.array([0.5, 0.5]))",
    "lax.linalg.householder_product": "F(m, m2[0])",
    "lax.linalg.lu_pivots_to_permutation": "F(jnp.array([1, 1]), 2)",
    "lax.linalg.ormqr": "F(m, m2[0], m2)",
    "lax.linalg.symmetric_product": "F(m, m)",
    "lax.linalg.triangular_solve": "F(m, m2)",
    "lax.linalg.tridiagonal_solve": "F(v, v2 + 3, v, v[:, None])",
}

#: The calls that are tried for a function that has none above, until one gives finite numbers.
TRIES = {
    "matrices": ["F(m)", "F(m, m2)", "F(v)", "F(v, v2)"],
    "entries": [
        "F(x)",
        "F(x, y)",
        "F(i, j)",
        "F(i)",
        "F(large)",
        "F(t, f)",
        "F(x, y, u)",
        "F(large, x)",
        "F(x, large)",
        "F(v)",
        "F(v, v2)",
        "F(m)",
        "F(m, m2)",
    ],
}

#: What is not measured, and why.
NO_COST = {
    "It makes a function, or calls one. The communication is that of the function.": (
        """
        xmap nmap checked machines.cost lax.custom_root lax.custom_linear_solve lax.platform_dependent lax.composite
        numpy.vectorize numpy.frompyfunc numpy.apply_over_axes numpy.fromfunction
    """
    ),
    "Call it outside of mapped functions.": (
        """
        draw summary explain plan profile trace_names transfer shard from_process_local from_xarray to_xarray process_entries serial_loop checkpoints.names
        checkpoints.restore checkpoints.save checkpoints.save_args checkpoints.types distributed.bytes_per_device
        hlo.collectives hlo.summary interop.abstract interop.clip_by_global_norm interop.from_flax interop.from_logical_rules interop.to_flax
        interop.from_state_dict interop.load_safetensors interop.save_safetensors interop.state_dict_report interop.to_state_dict
        models.load
        interop.adafactor interop.lora.load interop.lora.save interop.muon interop.scale_by_muon interop.scale_by_shampoo interop.shampoo
        machines.measure testing.assert_collectives
        testing.assert_no_gather testing.assert_resources_do_not_matter typing.check typing.element_type typing.matches
    """
    ),
    "Its arguments are trees of weights and adapters. The docstring has the communication.": (
        """
        interop.lora.attach interop.lora.init interop.lora.merge interop.lora.select interop.lora.stack
    """
    ),
    "It gathers the values that it prints or checks.": "debug.callback debug.check debug.print",
    "It uses types, sizes and settings only, or returns no named array. No communication.": (
        """
        debug.checks debug.inspect_sharding array_repr array_str numpy.array_repr numpy.array_str iscomplexobj isrealobj isscalar numpy.isscalar ndim numpy.ndim
        nn.rope_scaling shape numpy.shape size numpy.size result_type lax.after_all lax.broadcast_shapes lax.broadcasted_iota
        lax.conv_dimension_numbers lax.conv_general_permutations lax.conv_general_shape_tuple lax.conv_shape_tuple
        lax.conv_transpose_shape_tuple lax.create_token lax.dce_sink lax.dtype lax.empty lax.full lax.iota lax.padtype_to_pads
        lax.reduce_window_shape_tuple lax.shape_as_value lax.stage nn.get_scaled_dot_general_config numpy.bartlett
        numpy.blackman numpy.broadcast_shapes numpy.can_cast numpy.diag_indices numpy.einsum_path numpy.eye numpy.from_dlpack
        numpy.frombuffer numpy.fromstring numpy.geomspace numpy.get_printoptions numpy.hamming numpy.hanning numpy.identity
        numpy.indices numpy.isdtype numpy.issubdtype numpy.iterable numpy.ix_ numpy.kaiser numpy.logspace numpy.mask_indices
        numpy.promote_types numpy.tri numpy.tril_indices numpy.triu_indices random.key_dtype random.key_impl random.key
        random.PRNGKey scipy.linalg.dft scipy.linalg.hadamard scipy.linalg.helmert scipy.linalg.hilbert scipy.linalg.invhilbert
        scipy.linalg.invpascal scipy.linalg.pascal scipy.special.bernoulli lax.rng_bit_generator lax.rng_uniform random.choice
        numpy.trim_zeros lax.linalg.lu_pivots_to_permutation scipy.optimize.minimize
    """
    ),
    "JAX cannot vectorize it over every axis. For arrays without names it is JAX's own.": (
        """
        lax.ragged_dot lax.ragged_dot_general lax.linalg.cholesky_update
    """
    ),
}

#: What has no example, and why.
NO_EXAMPLE = {
    "It reads or writes a file, or prints.": (
        """
        numpy.fromfile numpy.load numpy.save numpy.savez numpy.printoptions numpy.set_printoptions
    """
    ),
    "It operates on the devices of a mesh, not on axis names.": (
        """
        lax.precv lax.psend lax.ragged_all_to_all lax.with_sharding_constraint
    """
    ),
    "JAX raises an error for every call.": "numpy.fromiter",
    "It needs dtypes of particular hardware.": "nn.scaled_matmul nn.scaled_dot_general",
    "Its result depends on the machine.": "machines.measure profile",
    "It is shown by the function that it makes.": "serial_loop",
    "It is a context for other functions.": "strict_broadcasting",
}
