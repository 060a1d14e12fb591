"""Words of other libraries, with the code that replaces them.

The libraries are NumPy, PyTorch, TensorFlow, xarray, pandas, einops, Haliax, Penzai and coordax.
`namedax.messages.hints` reads the tables for messages about attributes that do not exist.
`docs/migration` covers each library in full.
"""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "FUNCTIONS"]

# --- attributes and methods of arrays -------------------------------------------------------------

# {axis} is the last of the array's names, {names} are all, and {rows} and {columns} the last two.
# {matrix} is the array with the last two as positional axes.
_INDEX = "x[{axis}, 3], or x[{{{axis}: idx}}] with an array of indices"
_POSITIONS = "nx.positional(x, [{names}]), which gives the axes an order"
_REORDERED = "nx.rearrange(x, '{pattern}'), or nx.positional(x, [{names}])"
_NO_COORDINATES = (
    "nx.named(coordinates, [{axis}]) for coordinates, which are arrays of their own here: an array"
    " has names only"
)
_SET = "x.at[{axis}, 3].set(value), which makes a new array"
_ADD = "x.at[{axis}, 3].add(value), which makes a new array"
_NEW = "named_shape={{'new': 8}}, dtype=x.dtype"
_GRADIENT = "jax.grad(loss)(x), of a function whose result has no name left"
_NOTHING = "x itself: there is nothing to do"


def _in_place(code: str) -> str:
    return f"x = {code}: arrays are immutable, and operations return new ones"


ATTRIBUTES: dict[str, str] = {
    # where and how large axes are
    **dict.fromkeys(
        ("axes", "names", "axis_names", "dim_names", "axis_order", "named_dims", "dim_order"),
        "x.dims, or x.named_shape with the sizes",
    ),
    **dict.fromkeys(("get_shape", "set_shape", "set_axis"), "x.named_shape"),
    **dict.fromkeys(("sizes", "axis_size", "named_axes"), "x.named_shape[{axis}]"),
    **dict.fromkeys(
        ("dim", "rank", "ndimension"), "len(x.dims) for all axes, x.ndim for the positional ones"
    ),
    "positional_shape": "x.shape",
    **dict.fromkeys(
        ("has_axis", "has_names", "resolve_axis", "axis_indices", "get_axis_num", "contains_dims"),
        "{axis} in x.dims",
    ),
    "element_size": "x.itemsize",
    **dict.fromkeys(("numel", "nelement", "count"), "nx.size(x, ...)"),
    "is_floating_point": "nx.numpy.issubdtype(x.dtype, nx.numpy.floating)",
    "is_complex": "nx.iscomplexobj(x)",
    # what is in it
    **dict.fromkeys(("array", "data_array", "raw_array"), "x.data, or " + _POSITIONS),
    **dict.fromkeys(
        ("values", "numpy", "to_numpy", "as_numpy", "asnumpy"),
        "np.asarray(nx.positional(x, [{names}]))",
    ),
    **dict.fromkeys(("unwrap", "untag_prefix", "to_tensor"), _POSITIONS),
    "scalar": "x.item() where no name is left",
    **dict.fromkeys(("equals", "identical", "broadcast_equals"), "nx.array_equal(x, y)"),
    # names
    **dict.fromkeys(("rename_", "refine_names_"), "x.rename({{{axis}: 'other'}})"),
    **dict.fromkeys(
        ("tag", "tag_prefix", "refine_names", "wrap"),
        "nx.named(x, ['new', ...]), which names positional axes",
    ),
    "untag": "nx.untag(x, [{axis}, ...]), or nx.positional(x, [{names}]) for all",
    "swap_dims": "x.rename({{{axis}: 'other'}})",
    "replace_axis": "x.rename({{{axis}: 'other'}})",
    # order and shape
    **dict.fromkeys(
        ("align_to", "order_as", "permute", "rearrange", "view", "view_as", "reshape_as"),
        _REORDERED,
    ),
    **dict.fromkeys(("moveaxis", "movedim", "swapdims"), _REORDERED),
    **dict.fromkeys(
        ("align_as", "order_like"),
        "nx.order_like(x, y); arithmetic meets axes by name, in any order",
    ),
    **dict.fromkeys(
        ("broadcast_axis", "broadcast_to", "broadcast_like", "expand", "expand_as"),
        "nx.broadcast_to(x, named_shape={{'new': 8}}); arithmetic does so by itself",
    ),
    **dict.fromkeys(("flatten_axes", "merge_axes", "stack"), "nx.merge_axes(x, ({names}), 'flat')"),
    "flatten_all_axes_but": "nx.merge_axes(x, ({names}), 'flat')",
    **dict.fromkeys(
        ("unflatten", "unflatten_axis", "split_axis", "unstack"),
        "nx.split_axis(x, {axis}, {{'outer': 2, 'inner': None}})",
    ),
    **dict.fromkeys(
        ("split", "chunk", "unsafe_chunk", "hsplit", "vsplit", "dsplit"), "nx.split(x, 2, {axis})"
    ),
    "tensor_split": "nx.array_split(x, 4, {axis})",
    **dict.fromkeys(("unsqueeze", "expand_dims"), "nx.expand_dims(x, 'new')"),
    **dict.fromkeys(
        ("t", "adjoint"),
        "nx.rename(x, {{{axis}: 'other'}}) for the other side of a product: names have no order",
    ),
    **dict.fromkeys(("H", "mH"), "nx.conj(nx.rename(x, {{{axis}: 'other'}}))"),
    "unbind": "nx.numpy.unstack(x, axis={axis})",
    **dict.fromkeys(("fliplr", "flipud"), "nx.flip(x, {axis})"),
    "sum_to_size": "nx.sum(x, {axis})",
    "coarsen": (
        "nx.mean(nx.split_axis(x, {axis}, {{'block': None, 'entry': 2}}), 'entry') and its like"
    ),
    **dict.fromkeys(
        ("vmap", "map_blocks"), "nx.vmap(function, {axis})(x), of a function without that axis"
    ),
    "reduce": "nx.nmap(function)(nx.untag(x, [{axis}])), of a function of positions",
    # new arrays
    **dict.fromkeys(("new_zeros", "new_empty"), f"nx.zeros({_NEW})"),
    "new_ones": f"nx.ones({_NEW})",
    "new_full": f"nx.full(fill_value=value, {_NEW})",
    "new_tensor": "nx.named(array, ['new', ...])",
    # entries
    **dict.fromkeys(("isel", "iloc", "index", "index_select", "select", "narrow"), _INDEX),
    "slice": "x[{axis}, 2:5]",
    "thin": "x[{axis}, ::2]",
    **dict.fromkeys(
        ("updated_slice", "scatter", "index_put", "index_copy", "index_fill", "select_scatter"),
        _SET,
    ),
    **dict.fromkeys(("slice_scatter", "put_"), _SET),
    **dict.fromkeys(("index_add", "scatter_add", "scatter_reduce", "index_reduce"), _ADD),
    **dict.fromkeys(("fill", "fill_"), "nx.full_like(x, value)"),
    **dict.fromkeys(
        ("gather", "take_along_dim", "gather_nd"),
        "nx.take_along_axis(x, idx, {axis}), or x[{{{axis}: idx}}]",
    ),
    "masked_fill": "nx.where(mask, value, x)",
    "masked_select": "nx.where(mask, x, value), which keeps the shape",
    "fillna": "nx.where(nx.isnan(x), value, x)",
    "combine_first": "nx.where(nx.isnan(x), y, x)",
    **dict.fromkeys(
        (
            "coords",
            "indexes",
            "assign_coords",
            "drop_vars",
            "coordinate",
            "coord_fields",
            "interp",
        ),
        _NO_COORDINATES,
    ),
    **dict.fromkeys(
        ("interp_like", "reindex", "reindex_like", "reset_coords", "reset_index", "set_index"),
        _NO_COORDINATES,
    ),
    **dict.fromkeys(
        ("sel", "loc"),
        "x[{axis}, i] with i = int(np.searchsorted(coordinates, label)): an array has names only,"
        " and its coordinates are an array of yours",
    ),
    # reductions, sorting and windows
    "weighted": "nx.average(x, {axis}, weights=w)",
    "topk": "nx.top_k(x, 3, axis={axis})",
    **dict.fromkeys(("sortby", "msort"), "nx.sort(x, {axis})"),
    "kthvalue": "nx.sort(x, {axis})[{axis}, 2]",
    **dict.fromkeys(("amax", "amin", "aminmax"), "x.max({axis}), x.min({axis})"),
    "idxmax": "nx.argmax(x, {axis})",
    "idxmin": "nx.argmin(x, {axis})",
    "std_mean": "nx.std(x, {axis}, ddof=1), nx.mean(x, {axis})",
    "var_mean": "nx.var(x, {axis}, ddof=1), nx.mean(x, {axis})",
    "logcumsumexp": "nx.cumlogsumexp(x, {axis})",
    "histc": "nx.histogram(x, 100, axis=...)",
    "differentiate": "nx.gradient(x, axis={axis})",
    "integrate": "nx.trapezoid(x, axis={axis})",
    "rolling": "nx.rolling_reduce(x, {axis}, size=3, reduction='mean')",
    "unfold": "nx.windows(x, {axis}, size=3, stride=2)",
    **dict.fromkeys(
        ("groupby", "resample", "groupby_bins", "segment_mean"),
        "nx.group_reduce(x, ids, {axis}, 'mean', groups=12, out_axis='group')",
    ),
    # products
    **dict.fromkeys(
        ("matmul", "mm", "bmm", "mv", "inner", "vdot"),
        "nx.dot(x, y, {axis}), which contracts the axis by name",
    ),
    **dict.fromkeys(("addmm", "addmv", "addbmm", "baddbmm"), "x + nx.dot(y, z, {axis})"),
    **dict.fromkeys(("outer", "ger"), "x * nx.rename(y, {{{axis}: 'other'}})"),
    "addr": "x + y * z",
    "addcmul": "x + value * y * z",
    "addcdiv": "x + value * y / z",
    "lerp": "x + weight * (y - x)",
    "dist": "nx.norm(x - y, axis=...)",
    # elementwise
    "eq": "nx.equal(x, y)",
    "ne": "nx.not_equal(x, y)",
    "ge": "nx.greater_equal(x, y)",
    "gt": "nx.greater(x, y)",
    "le": "nx.less_equal(x, y)",
    "lt": "nx.less(x, y)",
    "mul": "x * y",
    "sub": "x - y",
    "div": "x / y",
    "neg": "-x",
    "clamp": "nx.clip(x, low, high)",
    "clamp_min": "nx.maximum(x, low)",
    "clamp_max": "nx.minimum(x, high)",
    "frac": "x - nx.trunc(x)",
    "fix": "nx.trunc(x)",
    "sgn": "nx.sign(x)",
    "view_as_complex": "nx.lax.complex(x[{axis}, 0], x[{axis}, 1])",
    "view_as_real": "nx.stack([x.real, x.imag], 'part')",
    # matrices
    "diag": "nx.diagonal(x, 0, {rows}, {columns})",
    "inverse": "nx.numpy.linalg.inv({matrix})",
    "pinverse": "nx.numpy.linalg.pinv({matrix})",
    "logdet": "nx.numpy.linalg.slogdet({matrix}).logabsdet",
    "matrix_exp": "nx.scipy.linalg.expm({matrix})",
    # functions whose first argument is not the array, or which need more
    "where": "nx.where(c, x, y)",
    **dict.fromkeys(
        ("nonzero", "argwhere"),
        "nx.nonzero(x, axis={axis}, size=5), or nx.where(c, x, y), which keeps the shape",
    ),
    **dict.fromkeys(("unique", "unique_consecutive"), "nx.unique(x, axis={axis}, size=5)"),
    **dict.fromkeys(("concatenate", "concat", "cat"), "nx.concatenate([x, y], {axis})"),
    **dict.fromkeys(("tril", "triu"), "nx.{word}(x, axis=('rows', 'columns'))"),
    "bernoulli": "nx.random.bernoulli(key, x)",
    "multinomial": "nx.random.categorical(key, nx.log(x), axis={axis})",
    "repeat_interleave": "nx.repeat(x, 2, axis={axis})",
    # pandas
    **dict.fromkeys(("isnull", "isna"), "nx.isnan(x)"),
    **dict.fromkeys(("notnull", "notna"), "~nx.isnan(x)"),
    "dropna": (
        "nx.nanmean(x, {axis}) and its like, which leave NaN out, or nx.where(nx.isnan(x),"
        " value, x)"
    ),
    "head": "x[{axis}, :5]",
    "tail": "x[{axis}, -5:]",
    **dict.fromkeys(
        ("apply", "pipe", "apply_", "map_"),
        "function(x), or nx.nmap(function)(x) for a function of positions",
    ),
    **dict.fromkeys(
        ("plot", "hist", "imshow"),
        "plt.plot(nx.positional(x, [{names}])) and its like: other libraries know positions",
    ),
    **dict.fromkeys(
        ("to_pandas", "to_dataframe", "to_series", "to_netcdf", "to_zarr"),
        "nx.to_xarray(x), which has that method, or nx.positional(x, [{names}])",
    ),
    **dict.fromkeys(("to_xarray", "to_dataset"), "nx.to_xarray(x)"),
    # element types, devices, gradients
    **dict.fromkeys(("float", "double"), "x.astype(float)"),
    **dict.fromkeys(("int", "long"), "x.astype(int)"),
    "bool": "x.astype(bool)",
    "short": "x.astype('int16')",
    "char": "x.astype('int8')",
    "byte": "x.astype('uint8')",
    **dict.fromkeys(("cfloat", "cdouble"), "x.astype(complex)"),
    **dict.fromkeys(("half", "bfloat16", "type", "type_as"), "x.astype(dtype)"),
    **dict.fromkeys(
        ("to", "cuda", "cpu", "shard", "device_put", "with_sharding"),
        "nx.shard(x, axis_resources, mesh)",
    ),
    "redistribute": "nx.shard(x, axis_resources, mesh), or nx.rename in a mapped function",
    **dict.fromkeys(
        ("to_local", "full_tensor"),
        "x, which is whole outside of a mapped function; x.data.addressable_shards are the blocks",
    ),
    **dict.fromkeys(("placements", "chunks"), "x.sharding"),
    **dict.fromkeys(
        ("device", "devices", "addressable_shards", "is_fully_replicated"),
        "x.sharding, or x.data.{word}",
    ),
    **dict.fromkeys(("is_cuda", "is_cpu", "get_device"), "x.data.devices()"),
    "detach": "nx.lax.stop_gradient(x)",
    **dict.fromkeys(("backward", "grad", "requires_grad", "requires_grad_"), _GRADIENT),
    **dict.fromkeys(("grad_fn", "is_leaf", "register_hook", "retain_grad"), _GRADIENT),
    "clone": "x.copy(); arrays are immutable",
    # in place; what_to_write makes those of other words that end with an underscore
    **dict.fromkeys(("add_", "assign_add"), _in_place("x + y")),
    **dict.fromkeys(("sub_", "assign_sub"), _in_place("x - y")),
    "mul_": _in_place("x * y"),
    "div_": _in_place("x / y"),
    "pow_": _in_place("x**y"),
    **dict.fromkeys(("copy_", "set_", "assign"), _in_place("y")),
    "zero_": _in_place("nx.zeros_like(x)"),
    **{
        f"{word}_": _in_place(f"nx.random.{word}(key, named_shape=x.named_shape)")
        for word in ("normal", "uniform", "cauchy", "exponential")
    },
    "bernoulli_": _in_place("nx.random.bernoulli(key, 0.5, named_shape=x.named_shape)"),
    **dict.fromkeys(
        ("contiguous", "canonicalize", "check_valid", "compute", "load", "persist"), _NOTHING
    ),
    **dict.fromkeys(("pin_memory", "share_memory_", "to_dense", "resolve_conj"), _NOTHING),
}

# --- functions and classes ------------------------------------------------------------------------

_MAPPED = "nx.xmap(f, axis_resources={'b': 'x'}, mesh=mesh)"
_NAMED = "nx.named(array, ['b', 'k'])"
_LINEAR = "nx.dot(x, weight, 'inputs') + bias"
_TAKE = "nx.take(table, ids, 'vocab')"
_FLAT = "nx.merge_axes(x, ('b', 'k'), 'flat')"
_JIT = "jax.jit, which takes functions of named arrays"
_GRAD = "jax.grad, which takes functions of named arrays"
_PLAIN_CODE = "plain code: only jax.grad computes gradients"
_KEY = "key = jax.random.key(0), the first argument of the functions of nx.random"
_CROSS_ENTROPY = "nx.nn.softmax_cross_entropy(logits, labels, 'classes')"
_MODULE = (
    "a function of its parameters, as in"
    " lambda params, x: nx.dot(x, params['weight'], 'inputs') + params['bias']"
)
_PARAMETER = "nx.named(array, ['inputs', 'outputs']), in a tree of the parameters"
_ATTENTION = "nx.nn.dot_product_attention(query, key, value, axis='pos', features='key')"
_LAYER_NORM = "nx.nn.layer_norm(x, 'k', scale=scale, bias=bias)"
_CONV = (
    "nx.conv(image, kernel, ('height', 'width'), features_in='channel', features_out='out'), whose"
    " kernel has positional axes"
)
_HUBER = "nx.mean(nx.where(nx.abs(x - y) < 1, (x - y) ** 2 / 2, nx.abs(x - y) - 0.5), ...)"
_COSINE = "nx.dot(x, y, 'k') / (nx.norm(x, axis='k') * nx.norm(y, axis='k'))"
# Layers of PyTorch with the name of a function of nx.nn.
_LAYERS = {
    "CELU": "celu",
    "ELU": "elu",
    "GELU": "gelu",
    "Hardsigmoid": "hard_sigmoid",
    "Hardswish": "hard_swish",
    "Hardtanh": "hard_tanh",
    "Identity": "identity",
    "LeakyReLU": "leaky_relu",
    "LogSigmoid": "log_sigmoid",
    "Mish": "mish",
    "ReLU": "relu",
    "ReLU6": "relu6",
    "SELU": "selu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "soft_sign",
    "Tanh": "tanh",
}

FUNCTIONS: dict[str, str] = {
    "reshape": "nx.split_axis, nx.merge_axes or nx.rearrange, which take names",
    **dict.fromkeys(("ravel", "flatten", "Flatten"), _FLAT),
    "Unflatten": "nx.split_axis(x, 'k', {'outer': 2, 'inner': None})",
    **dict.fromkeys(
        ("vstack", "hstack", "dstack", "column_stack", "row_stack"),
        "nx.concatenate([x, y], 'k') or nx.stack([x, y], 'new')",
    ),
    **dict.fromkeys(("DataArray", "NamedTensor"), _NAMED),
    **dict.fromkeys(("pmap", "shard_map"), _MAPPED),
    # Haliax, coordax and xarray
    **dict.fromkeys(
        ("Axis", "make_axes"),
        "names as strings, with sizes where arrays are made: nx.zeros(named_shape={'b': 8})",
    ),
    **dict.fromkeys(("named_jit", "auto_sharded", "axis_mapping", "ResourceMapping"), _MAPPED),
    **dict.fromkeys(("shard_with_axis_mapping", "partitioning"), "nx.shard(x, {'b': 'x'}, mesh)"),
    "fsdp": (
        "axis_resources={'embed_fsdp': 'data'} of nx.xmap, and nx.einsum with {embed:embed_fsdp}"
    ),
    **dict.fromkeys(("flatten_axes", "flatten_all_axes_but"), _FLAT),
    "unflatten_axis": "nx.split_axis(x, 'k', {'outer': 2, 'inner': None})",
    "broadcast_axis": "nx.broadcast_to(x, named_shape={'new': 8})",
    "named_call": "jax.named_scope",
    **dict.fromkeys(("ds", "dslice"), "x['k', 2:5]"),
    **dict.fromkeys(("apply_ufunc", "cmap"), "nx.nmap(function)(x)"),
    "Dataset": "{'x': x, 'y': y}, a dict of arrays, which is a pytree",
    "open_dataset": "nx.from_xarray(data_array)",
    "combine_by_coords": "nx.concatenate([x, y], 'k')",
    **dict.fromkeys(
        ("align", "broadcast_tensors"), "nx.broadcast_to(x, named_shape=y.named_shape)"
    ),
    # einops
    **dict.fromkeys(
        ("einop", "Rearrange"), "nx.rearrange(x, '{b, k} -> {k, b}'), whose braces have names"
    ),
    "parse_shape": "x.named_shape",
    "EinMix": "nx.einsum('{b, k}, {k, m} -> {b, m}', x, weights)",
    "pack": "nx.concatenate([x, y], 'k')",
    "unpack": "nx.split(x, [2], 'k')",
    # PyTorch: tensors
    "cat": "nx.concatenate([x, y], 'k')",
    **dict.fromkeys(
        ("tensor", "as_tensor", "from_numpy", "Tensor", "LongTensor", "FloatTensor"), _NAMED
    ),
    "is_tensor": "isinstance(x, nx.NamedArray)",
    "randn": "nx.random.normal(key, named_shape={'b': 8})",
    "rand": "nx.random.uniform(key, named_shape={'b': 8})",
    "randn_like": "nx.random.normal(key, named_shape=x.named_shape)",
    "rand_like": "nx.random.uniform(key, named_shape=x.named_shape)",
    "randint_like": "nx.random.randint(key, (), 0, 8, named_shape=x.named_shape)",
    "randperm": "nx.random.permutation(key, nx.arange(6, axis='k'), axis='k')",
    **dict.fromkeys(("Generator", "manual_seed", "seed", "default_rng", "get_rng_state"), _KEY),
    "range": "nx.arange(6, axis='k')",
    "polar": "radius * nx.exp(1j * x)",
    "trapz": "nx.trapezoid(x, axis='k')",
    "bucketize": "nx.searchsorted(boundaries, x, axis='i')",
    "cdist": "nx.norm(x - nx.rename(y, {'b': 'b2'}), axis='k')",
    "load": "nx.checkpoints.restore('here')",
    "save": "nx.checkpoints.save('here', {'x': x}, overwrite=True)",
    **dict.fromkeys(("from_torch", "load_state_dict"), "nx.interop.from_state_dict(state, spec)"),
    "state_dict": "nx.interop.to_state_dict(tree, spec)",
    # PyTorch and TensorFlow: transformations
    **dict.fromkeys(("no_grad", "inference_mode", "enable_grad"), _PLAIN_CODE),
    **dict.fromkeys(("jit", "compile", "function"), _JIT),
    **dict.fromkeys(("grad", "value_and_grad", "autograd", "GradientTape"), _GRAD),
    "checkpoint": "jax.checkpoint, which takes functions of named arrays",
    "autocast": "x.astype('bfloat16')",
    **dict.fromkeys(("optim", "optimizers"), "optax.adam(1e-3), which takes trees of named arrays"),
    # PyTorch: distributed
    **dict.fromkeys(("DeviceMesh", "init_device_mesh"), "jax.make_mesh((4, 2), ('x', 'y'))"),
    **dict.fromkeys(
        ("DTensor", "distribute_tensor", "Shard", "Replicate"), "nx.shard(x, {'b': 'x'}, mesh)"
    ),
    **dict.fromkeys(
        ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"), _MAPPED
    ),
    "all_reduce": "nx.sum(x, 'b') in a mapped function, which also sums over devices",
    "DataLoader": (
        "nx.from_process_local(array, ['b', 'k'], {'b': 'x'}, mesh), for batches of any loader"
    ),
    # PyTorch: layers and functions of torch.nn
    **dict.fromkeys(("functional", "F"), "nx.nn.relu(x): the functions are in nx.nn itself"),
    "special": "nx.scipy.special.erfinv(x): the functions are in nx.scipy.special",
    "init": (
        "nx.nn.initializers.he_normal('inputs', 'outputs')(key, named_shape={'inputs': 8,"
        " 'outputs': 4})"
    ),
    **dict.fromkeys(("Module", "ModuleList", "ModuleDict", "Sequential", "Layer"), _MODULE),
    **dict.fromkeys(("Parameter", "ParameterList", "ParameterDict"), _PARAMETER),
    **dict.fromkeys(("Linear", "linear", "Dense"), _LINEAR),
    **dict.fromkeys(("Embedding", "embedding", "Embed", "embedding_lookup"), _TAKE),
    **{layer: f"nx.nn.{function}(x)" for layer, function in _LAYERS.items()},
    **dict.fromkeys(("Tanhshrink", "tanhshrink"), "x - nx.tanh(x)"),
    "hardtanh": "nx.nn.hard_tanh(x)",
    "hardsigmoid": "nx.nn.hard_sigmoid(x)",
    "hardswish": "nx.nn.hard_swish(x)",
    "logsigmoid": "nx.nn.log_sigmoid(x)",
    "softsign": "nx.nn.soft_sign(x)",
    "Softmax": "nx.nn.softmax(x, 'k')",
    "LogSoftmax": "nx.nn.log_softmax(x, 'k')",
    **dict.fromkeys(("Softmin", "softmin"), "nx.nn.softmax(-x, 'k')"),
    "GLU": "nx.nn.glu(x, axis='k')",
    **dict.fromkeys(("PReLU", "prelu"), "nx.where(x > 0, x, slope * x)"),
    "gumbel_softmax": ("nx.nn.softmax(x + nx.random.gumbel(key, named_shape=x.named_shape), 'k')"),
    "LayerNorm": _LAYER_NORM,
    "RMSNorm": "nx.nn.rms_norm(x, 'k', scale=scale)",
    **dict.fromkeys(
        ("BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d"), "nx.nn.batch_norm(x, 'b')"
    ),
    **dict.fromkeys(
        ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "instance_norm"),
        "nx.nn.standardize(image, ('height', 'width'))",
    ),
    **dict.fromkeys(
        ("GroupNorm", "group_norm"),
        "nx.nn.standardize(nx.split_axis(x, 'k', {'group': 2, 'inner': None}), 'inner')",
    ),
    **dict.fromkeys(("normalize", "l2_normalize"), "x / nx.norm(x, axis='k')"),
    **dict.fromkeys(("Dropout", "AlphaDropout"), "nx.nn.dropout(x, key, 0.1)"),
    **dict.fromkeys(
        ("Dropout1d", "Dropout2d", "Dropout3d", "dropout2d"),
        "nx.nn.dropout(image, key, 0.1, shared=('height', 'width'))",
    ),
    **dict.fromkeys(("Conv", "Conv1d", "Conv2d", "Conv3d", "conv1d", "conv2d", "conv3d"), _CONV),
    **dict.fromkeys(
        ("ConvTranspose", "ConvTranspose1d", "ConvTranspose2d", "conv_transpose2d"),
        _CONV.replace("nx.conv", "nx.conv_transpose"),
    ),
    **dict.fromkeys(
        ("MaxPool1d", "MaxPool2d", "MaxPool3d", "max_pool1d", "max_pool2d"),
        "nx.nn.max_pool(image, {'height': 2, 'width': 2})",
    ),
    **dict.fromkeys(
        ("AvgPool1d", "AvgPool2d", "AvgPool3d", "avg_pool1d", "avg_pool2d"),
        "nx.nn.avg_pool(image, {'height': 2, 'width': 2})",
    ),
    **dict.fromkeys(
        ("AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "adaptive_avg_pool2d"),
        "nx.mean(image, ('height', 'width'))",
    ),
    **dict.fromkeys(
        ("AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "adaptive_max_pool2d"),
        "nx.max(image, ('height', 'width'))",
    ),
    **dict.fromkeys(
        ("Upsample", "upsample", "interpolate"),
        "nx.image.resize(image, {'height': 8, 'width': 12}, 'linear')",
    ),
    **dict.fromkeys(
        ("PixelShuffle", "pixel_shuffle"),
        (
            "nx.rearrange(image, '{channel=(out p q), height, width} -> {out, height=(height p),"
            " width=(width q)}', p=2, q=2)"
        ),
    ),
    "ZeroPad2d": "nx.pad(image, {'height': (1, 1), 'width': (1, 1)})",
    **dict.fromkeys(
        (
            "scaled_dot_product_attention",
            "MultiheadAttention",
            "MultiHeadAttention",
            "multi_head_attention_forward",
            "flash_attention",
            "self_attention",
        ),
        _ATTENTION,
    ),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), "nx.scan(cell, state, x, axis='b')"),
    # losses
    **dict.fromkeys(
        (
            "cross_entropy",
            "CrossEntropyLoss",
            "softmax_cross_entropy_with_logits",
            "sparse_softmax_cross_entropy_with_logits",
        ),
        _CROSS_ENTROPY,
    ),
    **dict.fromkeys(("NLLLoss", "nll_loss"), "-nx.take_along_axis(logits, labels, 'classes')"),
    **dict.fromkeys(
        ("BCELoss", "BCEWithLogitsLoss", "binary_cross_entropy_with_logits"),
        "nx.nn.binary_cross_entropy(x, targets), of logits",
    ),
    **dict.fromkeys(("MSELoss", "mse_loss"), "nx.mean((x - y) ** 2, ...)"),
    **dict.fromkeys(("L1Loss", "l1_loss"), "nx.mean(nx.abs(x - y), ...)"),
    **dict.fromkeys(("HuberLoss", "SmoothL1Loss", "huber_loss", "smooth_l1_loss"), _HUBER),
    **dict.fromkeys(
        ("KLDivLoss", "kl_div"), "nx.sum(y * (nx.log(y) - x), 'k'), where x is a logarithm already"
    ),
    **dict.fromkeys(("CosineSimilarity", "cosine_similarity"), _COSINE),
    "l2_loss": "nx.sum(x**2, ...) / 2",
    # TensorFlow
    **dict.fromkeys(("constant", "Variable", "convert_to_tensor"), _NAMED),
    **{
        f"reduce_{word}": f"nx.{word}(x, 'k')"
        for word in ("sum", "mean", "max", "min", "prod", "any", "all", "logsumexp", "std")
    },
    "reduce_variance": "nx.var(x, 'k')",
    "cast": "x.astype('int32')",
    "boolean_mask": "nx.where(mask, x, value), which keeps the shape",
    "reverse": "nx.flip(x, 'k')",
    "tensor_scatter_nd_update": "x.at['k', 3].set(value)",
    "batch_gather": "nx.take_along_axis(x, idx, 'k')",
    "strided_slice": "x['k', 0:4:2]",
    "map_fn": "nx.map(function, x, axis='b')",
    "random_normal": "nx.random.normal(key, named_shape={'b': 8})",
    "sequence_mask": "nx.arange(6, axis='k') < lengths",
    "unsorted_segment_sum": "nx.segment_sum(x, ids, 12, axis='k')",
    "bias_add": "x + bias",
}
