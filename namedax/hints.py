"""Hints in messages: replacements for words of other libraries, and typical calls.

The libraries are NumPy, PyTorch, xarray, Haliax, Penzai and coordax. The tables are read if an
array, or the package, does not have an attribute. `docs/migration` covers each library in full.

Modules that raise errors cannot import the public functions, which are above them. They get the
hints by `errors.hints`. The package installs them by `errors.install_hints`, and imports this
module for the first message that contains a hint.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from namedax.errors import Hints, show_names

__all__ = ["at_face", "hints_of", "namesake", "replacement", "usage", "what_to_write"]


# {axis} is the last of the array's names, {names} are all.
_INDEX = "x[{axis}, 3], or x[{{{axis}: idx}}] with an array of indices"
_POSITIONS = "nx.positional(x, [{names}]), which gives the axes an order"
_NO_COORDINATES = (
    "nx.named(coordinates, [{axis}]) for coordinates, which are arrays of their own here: an array"
    " has names only"
)
_IMMUTABLE = "x = x + y: arrays are immutable, and operations return new ones"
_ATTRIBUTES: dict[str, str] = {
    # where and how large axes are
    **dict.fromkeys(
        ("axes", "names", "axis_names", "dim_names", "axis_order", "named_dims"),
        "x.dims, or x.named_shape with the sizes",
    ),
    **dict.fromkeys(("sizes", "axis_size", "named_axes"), "x.named_shape[{axis}]"),
    **dict.fromkeys(("dim", "rank"), "len(x.dims) for all axes, x.ndim for the positional ones"),
    "positional_shape": "x.shape",
    **dict.fromkeys(
        ("has_axis", "has_names", "resolve_axis", "axis_indices", "get_axis_num", "contains_dims"),
        "{axis} in x.dims",
    ),
    "element_size": "x.itemsize",
    **dict.fromkeys(("numel", "count"), "nx.size(x, ...)"),
    # what is in it
    **dict.fromkeys(("array", "data_array", "raw_array"), "x.data, or " + _POSITIONS),
    **dict.fromkeys(
        ("values", "numpy", "to_numpy", "as_numpy"), "np.asarray(nx.positional(x, [{names}]))"
    ),
    **dict.fromkeys(("unwrap", "untag_prefix", "to_tensor"), _POSITIONS),
    "scalar": "x.item() where no name is left",
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
        ("align_to", "order_as", "permute", "rearrange", "view"),
        "nx.rearrange(x, '{pattern}'), or nx.positional(x, [{names}])",
    ),
    **dict.fromkeys(
        ("align_as", "order_like"),
        "nx.order_like(x, y); arithmetic meets axes by name, in any order",
    ),
    **dict.fromkeys(
        ("broadcast_axis", "broadcast_to", "broadcast_like", "expand", "expand_as"),
        "nx.broadcast_to(x, named_shape={{'new': 8}}); arithmetic does so by itself",
    ),
    **dict.fromkeys(("flatten_axes", "merge_axes", "stack"), "nx.merge_axes(x, ({names}), 'flat')"),
    **dict.fromkeys(
        ("unflatten", "unflatten_axis", "split_axis", "unstack"),
        "nx.split_axis(x, {axis}, {{'outer': 2, 'inner': None}})",
    ),
    **dict.fromkeys(("split", "chunk"), "nx.split(x, 2, {axis})"),
    **dict.fromkeys(("unsqueeze", "expand_dims"), "nx.expand_dims(x, 'new')"),
    **dict.fromkeys(
        ("t", "adjoint"),
        "nx.rename(x, {{{axis}: 'other'}}) for the other side of a product: names have no order",
    ),
    "unbind": "nx.numpy.unstack(x, axis={axis})",
    # entries
    **dict.fromkeys(("isel", "iloc", "index", "index_select", "select", "narrow"), _INDEX),
    "slice": "x[{axis}, 2:5]",
    **dict.fromkeys(
        ("updated_slice", "fill", "fill_", "index_add", "scatter", "scatter_add"),
        "x.at[{axis}, 3].set(value), which makes a new array",
    ),
    "gather": "nx.take_along_axis(x, idx, {axis}), or x[{{{axis}: idx}}]",
    "masked_fill": "nx.where(mask, value, x)",
    "fillna": "nx.where(nx.isnan(x), value, x)",
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
        ("sel", "loc"),
        "x[{axis}, i] with i = int(np.searchsorted(coordinates, label)): an array has names only,"
        " and its coordinates are an array of yours",
    ),
    "weighted": "nx.average(x, {axis}, weights=w)",
    "topk": "nx.top_k(x, 3, axis={axis})",
    **dict.fromkeys(("amax", "amin"), "x.max({axis}), x.min({axis})"),
    **dict.fromkeys(
        ("matmul", "mm", "bmm", "mv"), "nx.dot(x, y, {axis}), which contracts the axis by name"
    ),
    "rolling": "nx.nn.avg_pool, nx.conv or nx.halo",
    **dict.fromkeys(
        ("groupby", "resample"),
        "nx.segment_sum(x, ids, 12, axis={axis}), of the number of each entry's group, and its"
        " like",
    ),
    "segment_mean": (
        "nx.segment_sum(x, ids, 12, axis={axis}) / nx.bincount(ids, axis={axis}, length=12)"
    ),
    # functions whose first argument is not the array, or which need more
    "where": "nx.where(c, x, y)",
    "nonzero": "nx.nonzero(x, axis={axis}, size=5), or nx.where(c, x, y), which keeps the shape",
    "unique": "nx.unique(x, axis={axis}, size=5)",
    **dict.fromkeys(("concatenate", "concat"), "nx.concatenate([x, y], {axis})"),
    **dict.fromkeys(("tril", "triu"), "nx.{word}(x, axis=('rows', 'columns'))"),
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
        ("apply", "pipe"), "function(x), or nx.nmap(function)(x) for a function of positions"
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
    **dict.fromkeys(("half", "bfloat16", "type", "type_as"), "x.astype(dtype)"),
    **dict.fromkeys(
        ("to", "cuda", "cpu", "shard", "device_put"), "nx.shard(x, axis_resources, mesh)"
    ),
    "redistribute": "nx.shard(x, axis_resources, mesh), or nx.rename in a mapped function",
    **dict.fromkeys(
        ("to_local", "full_tensor"),
        "x, which is whole outside of a mapped function; x.data.addressable_shards are the blocks",
    ),
    "placements": "x.sharding",
    **dict.fromkeys(
        ("device", "devices", "addressable_shards", "is_fully_replicated"),
        "x.sharding, or x.data.{word}",
    ),
    "detach": "nx.lax.stop_gradient(x)",
    **dict.fromkeys(
        ("backward", "grad", "requires_grad", "requires_grad_"),
        "jax.grad(loss)(x), of a function whose result has no name left",
    ),
    "clone": "x.copy(); arrays are immutable",
    "clamp": "nx.clip(x, low, high)",
    "repeat_interleave": "nx.repeat(x, 2, axis={axis})",
    **dict.fromkeys(("add_", "copy_", "mul_", "sub_", "div_", "zero_"), _IMMUTABLE),
    **dict.fromkeys(
        ("contiguous", "canonicalize", "check_valid", "compute", "load", "persist"),
        "x itself: there is nothing to do",
    ),
}


def what_to_write(package: ModuleType, word: str, names: Sequence[Hashable]) -> str | None:
    """Return code that replaces an attribute or a method of other libraries' arrays.

    The result is `None` if no library has the attribute.

    Args:
      package: the package, `namedax`.
      word: the attribute.
      names: the axis names of the array, for the examples.

    >>> import namedax as nx
    >>> from namedax.hints import what_to_write
    >>> what_to_write(nx, "isel", ("batch", "k"))
    "x['k', 3], or x[{'k': idx}] with an array of indices"
    >>> what_to_write(nx, "exp", ("k",))
    'nx.exp(x)'
    """
    if word in _ATTRIBUTES:
        return _replacement(word, names)
    ours = namesake(package, word)
    return None if ours is None else _call(package, ours, _quoted(names)[-1])


def _quoted(names: Sequence[Hashable]) -> list[str]:
    return [repr(name) for name in names] or ["'k'"]


def _replacement(word: str, names: Sequence[Hashable]) -> str:
    """Return the text of an attribute in the table, with the axis names of an array."""
    shown = _quoted(names)
    return _ATTRIBUTES[word].format(
        axis=shown[-1], names=", ".join(shown), pattern=_reversing_pattern(names), word=word
    )


def _call(package: ModuleType, path: str, axis: str) -> str:
    """Return a call of a function of this package.

    It has the array as its first argument, the other required arguments, and an axis.
    """
    function: Any = package
    for part in path.split(".")[1:]:
        function = getattr(function, part)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return f"{path}(x)"
    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return f"{path}(x)" if path == "nx.negative" else f"{path}(x, y)"
    needed = [
        p.name
        for p in parameters[1:]
        if p.default is p.empty and p.kind in _BY_PLACE and p.name != "axis"
    ]
    by_axis = [f"axis={axis}"] if any(p.name == "axis" for p in parameters) else []
    return f"{path}({', '.join(['x', *needed, *by_axis])})"


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def at_face(word: str) -> str:
    """Return code that replaces a function of other libraries that is not at the top level.

    The result is empty if no library has the function.

    >>> from namedax.hints import at_face
    >>> at_face("segment_mean")
    "nx.segment_sum(x, ids, 12, axis='k') / nx.bincount(ids, axis='k', length=12)"
    """
    if word.startswith("_"):
        return ""
    if word in _AT_FACE:
        return _AT_FACE[word]
    return _replacement(word, ("k",)) if word in _ATTRIBUTES else ""


_AT_FACE = {
    "reshape": "nx.split_axis, nx.merge_axes or nx.rearrange, which take names",
    "ravel": "nx.merge_axes(x, ('b', 'k'), 'flat')",
    **dict.fromkeys(
        ("vstack", "hstack", "dstack", "column_stack", "row_stack"),
        "nx.concatenate([x, y], 'k') or nx.stack([x, y], 'new')",
    ),
    **dict.fromkeys(("DataArray", "NamedTensor"), "nx.named(array, ['b', 'k'])"),
    **dict.fromkeys(("pmap", "shard_map"), "nx.xmap(f, axis_resources={'b': 'x'}, mesh=mesh)"),
    # Haliax
    **dict.fromkeys(
        ("Axis", "make_axes"),
        "names as strings, with sizes where arrays are made: nx.zeros(named_shape={'b': 8})",
    ),
    **dict.fromkeys(
        ("named_jit", "auto_sharded", "axis_mapping", "ResourceMapping"),
        "nx.xmap(f, axis_resources={'b': 'x'}, mesh=mesh)",
    ),
    **dict.fromkeys(("shard_with_axis_mapping", "partitioning"), "nx.shard(x, {'b': 'x'}, mesh)"),
    "fsdp": (
        "axis_resources={'embed_fsdp': 'data'} of nx.xmap, and nx.einsum with {embed:embed_fsdp}"
    ),
    "flatten_axes": "nx.merge_axes(x, ('b', 'k'), 'flat')",
    "unflatten_axis": "nx.split_axis(x, 'k', {'outer': 2, 'inner': None})",
    "broadcast_axis": "nx.broadcast_to(x, named_shape={'new': 8})",
    "named_call": "jax.named_scope",
    # PyTorch
    "cat": "nx.concatenate([x, y], 'k')",
    **dict.fromkeys(("tensor", "as_tensor", "from_numpy"), "nx.named(array, ['b', 'k'])"),
    "randn": "nx.random.normal(key, named_shape={'b': 8})",
    "rand": "nx.random.uniform(key, named_shape={'b': 8})",
    **dict.fromkeys(("Linear", "linear"), "nx.dot(x, weight, 'inputs') + bias"),
    **dict.fromkeys(("Embedding", "embedding"), "nx.take(table, ids, 'vocab')"),
    "cross_entropy": "nx.nn.softmax_cross_entropy(logits, labels, 'classes')",
    "scaled_dot_product_attention": (
        "nx.nn.dot_product_attention(query, key, value, axis='pos', features='key')"
    ),
    "no_grad": "plain code: only jax.grad computes gradients",
    **dict.fromkeys(("from_torch", "load_state_dict"), "nx.interop.from_state_dict(state, spec)"),
    "jit": "jax.jit, which takes functions of named arrays",
    **dict.fromkeys(("grad", "value_and_grad"), "jax.grad, which takes functions of named arrays"),
}


def namesake(package: ModuleType, word: str) -> str | None:
    """Return the function of this package with the same name as one of JAX or NumPy.

    The result is its shortest path; `None` if there is none.

    >>> import namedax as nx
    >>> from namedax.hints import namesake
    >>> namesake(nx, "sum"), namesake(nx, "softmax")
    ('nx.sum', 'nx.nn.softmax')
    """
    for module, ours in _NAMESPACES:
        function = vars(module).get(
            word
        )  # does not find deprecated functions of JAX, which would warn
        if callable(function) and not isinstance(function, type) and not word.startswith("_"):
            return (
                f"nx.{word}"
                if word in package.__all__ and module in (jnp, jnp.linalg)
                else f"{ours}.{word}"
            )
    return None


_NAMESPACES = (
    (jnp, "nx.numpy"),
    (jax.nn, "nx.nn"),
    (jax.lax, "nx.lax"),
    (jnp.linalg, "nx.numpy.linalg"),
    (jnp.fft, "nx.numpy.fft"),
)


def _reversing_pattern(names: Sequence[Hashable]) -> str:
    """Return a pattern that reverses the order of the names."""
    words = [name for name in names if isinstance(name, str) and name.isidentifier()]
    return (
        f"{{{', '.join(words)}}} -> {{{', '.join(words[::-1])}}}"
        if len(words) > 1
        else "{b, k} -> {k, b}"
    )


# --- functions of NumPy called with a named array -------------------------------------------------


_FLAT = "nx.rearrange(x, pattern), or nx.merge_axes(x, {names}, 'flat') for one named axis"
_INSTEAD = {
    **dict.fromkeys(("reshape", "ravel"), _FLAT),
    **dict.fromkeys(
        ("transpose", "permute_dims", "matrix_transpose", "moveaxis", "rollaxis", "swapaxes"),
        "nx.rename(x, {{a: b, b: a}}) to exchange names, which have no order",
    ),
    **dict.fromkeys(
        ("hstack", "vstack", "dstack", "column_stack", "block", "append"),
        "nx.concatenate([x, y], axis) or nx.stack([x, y], axis)",
    ),
    **dict.fromkeys(
        ("inner", "vdot", "matmul", "outer", "tensordot", "vecdot"),
        "nx.dot(x, y, axis) or nx.einsum",
    ),
    "stack": "nx.stack([x, y], 'new')",
    "where": "nx.where(condition, x, y)",
    **dict.fromkeys(("save", "savez", "savez_compressed"), "nx.checkpoints.save(path, tree)"),
}


def replacement(package: ModuleType, name: str, space: str, names: Sequence[Hashable]) -> str:
    """Return the beginning of a sentence with code that replaces a function of NumPy.

    The result is empty if there is no replacement.

    Args:
      package: the package, `namedax`.
      name: the function.
      space: its module, such as `numpy.linalg`.
      names: the axis names of the array.

    >>> import namedax as nx
    >>> from namedax.hints import replacement
    >>> replacement(nx, "mean", "numpy", ("k",))
    "Write nx.mean(x, axis), where axis is one of 'k', or"
    """
    if name in _INSTEAD:
        return f"Write {_INSTEAD[name].format(names=repr(tuple(names)))}, or"
    call = usage(package, name).strip().removesuffix(".")
    own: Any = package.numpy
    home = getattr(own, space.rpartition(".")[2], None) if "." in space else own
    if not call and name in dir(home or package):
        call = f"Write nx.numpy.{space.rpartition('.')[2]}.{name}"
    if not call:
        return ""
    where = f" where axis is one of {show_names(names)}," if "axis" in call else ""
    return f"{call},{where} or"


def hints_of(package: ModuleType) -> Hints:
    """Return the hints about the public functions of `package`, which is `namedax`."""
    return Hints(
        usage=partial(usage, package),
        attribute=partial(what_to_write, package),
        namesake=partial(namesake, package),
        numpy_function=partial(replacement, package),
        function=at_face,
    )


# --- typical calls of the public functions, from their signatures ---------------------------------


def usage(package: ModuleType, op: str) -> str:
    """Return a sentence with a typical call of a public function.

    It is empty if `op` is not a public function.

    >>> import namedax as nx
    >>> from namedax.hints import usage
    >>> usage(nx, "take"), usage(nx, "softmax")
    (' Write nx.take(x, indices, axis).', ' Write nx.nn.softmax(x, axis).')
    >>> usage(nx, "top_k")
    ' Write nx.top_k(x, k, axis=...).'
    """
    spaces = ("", "nn.", "numpy.", "lax.", "random.") if op.isidentifier() else ()
    for space in spaces:
        home = getattr(package, space[:-1]) if space else package
        if op not in dir(home):
            continue
        try:
            parameters = list(inspect.signature(getattr(home, op)).parameters.values())
        except (TypeError, ValueError):
            return ""
        arguments = _arguments(parameters)
        if arguments == ["*args"] and isinstance(function := getattr(np, op, None), np.ufunc):
            arguments = ["x", "y"][: function.nin]
        return f" Write nx.{space}{op}({', '.join(arguments)})."
    return ""


# Parameters with an axis and an amount in one value.
_AMOUNTS = {"pad_width": "{name: (before, after)}", "reps": "{name: times}"}


def _arguments(parameters: list[inspect.Parameter]) -> list[str]:
    """Return the arguments of a typical call: the required ones, and the axis."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    axis = next(
        (
            p
            for p in parameters
            if p.name.startswith(("axis", "axes", "dimension")) and p.name != "axis_sizes"
        ),
        None,
    )
    by_place = [p for p in parameters if p.kind not in (keyword, inspect.Parameter.VAR_KEYWORD)]
    if axis is not None and axis.kind is not keyword:
        at = by_place.index(axis)
        return [
            _AMOUNTS.get(p.name, p.name)
            for i, p in enumerate(by_place)
            if i <= at or p.default is p.empty
        ]
    many = inspect.Parameter.VAR_POSITIONAL
    needed = [
        f"*{p.name}" if p.kind is many else _AMOUNTS.get(p.name, p.name)
        for p in by_place
        if p.default is p.empty or p.name == "xs" or len(by_place) <= 3
    ]
    return needed if axis is None else [*needed, f"{axis.name}=..."]
