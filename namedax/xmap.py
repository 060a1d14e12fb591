"""`xmap`: a function over names becomes a function over arrays, and names get hardware.

The pipeline of a call, in the order of this module: the wrapper and its options; arguments to named arrays and a region; the
region's lowering (`jax.vmap` semantics by the operations themselves, one `jax.shard_map`, or XLA's partitioner); the body; results to
arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from namedax.array import Dims, NamedArray, dims_of, make_in_region, type_text
from namedax.axes import AxisMapping, is_mapping, parse_mapping
from namedax.environment import Region, ambient, enter
from namedax.errors import AxisMappingError, AxisResourceError, AxisSizeError, NamedAxesLeftError, did_you_mean, show_names
from namedax.ops.align import local_block, wrap
from namedax.ops.conversion import attach_names, detach_names, is_named, map_with_mappings
from namedax.ops.lift import belongs_to_jax, explain_type_errors, nmap
from namedax.resources.assignment import Assignment, check_mesh_axes, parse_resources, partition_spec
from namedax.resources.mesh import auto_mesh, concrete_mesh, current_mesh, has_explicit_axes, is_placed, mesh_for, to_spec, use_mesh
from namedax.resources.variance import cast_data, varying

__all__ = ["Xmapped", "xmap"]

Partitioning = Literal["manual", "auto"]


# --- the wrapper ----------------------------------------------------------------------------------------------------


def xmap(
    fun: Callable[..., Any],
    in_axes: Any = None,
    out_axes: Any = None,
    *,
    axis_sizes: Mapping[Hashable, int] | None = None,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Any = None,
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] = (),
    partitioning: Partitioning = "manual",
    jit: bool = True,
) -> Xmapped:
    """Maps a function over named axes, and names over hardware.

    Args:
      fun: a function of named arrays. A function that belongs to JAX (`jnp.vdot`, a `functools.partial` of one) sees
        positional arrays and is lifted over all names, as by `nx.nmap`.
      in_axes: a pytree prefix of axis mappings for the arguments: which positional axes become which names. A mapping is a dict
        `{0: "batch"}`, a list with one entry per axis `["batch", None]`, or a list that ends with `...`. `None`: the arguments are
        named arrays already, or have no names. Keyword arguments follow in a dict after the positional mappings, or are
        mapped by the parameter that they fill. Static arguments have no mapping.
      out_axes: the same for the results: where their names stand. A result that lacks a name that is placed is broadcast along it.
        `None`: named arrays come back.
      axis_sizes: sizes of names that no argument has.
      axis_resources: for every name that is to be sharded, a mesh axis or a tuple of them, major first. Other names are
        vectorised. This never changes results.
      mesh: a `jax.sharding.Mesh`; default: that of the surrounding `jax.set_mesh`. Mesh axes that `axis_resources` does not mention stay
        with the compiler.
      donate_argnums: as in `jax.jit`.
      static_argnums: as in `jax.jit`.
      partitioning: `"manual"`: one `jax.shard_map`, whose communication is namedax's. `"auto"`: the same program on global arrays,
        with a sharding constraint on every named value; XLA's partitioner chooses the communication.
      jit: whether to compile. Without, and with nothing mapped, values in the body are concrete.

    Returns:
      A callable with the methods `lower`, `trace` and `eval_shape` of `jax.jit`'s. Wrapping the same function with the same
      options again gives the same callable.

    Raises, when called:
      AxisMappingError: a mapping is malformed or does not fit.
      AxisSizeError: two arguments give a name two sizes, or a size does not divide over its mesh axes.
      AxisResourceError: `axis_resources` or `axis_sizes` speak of a name that occurs nowhere.
      MeshError: there is no mesh, or it lacks a mesh axis.
      NamedAxesLeftError: a result has a name that `out_axes` does not place.
      PlacementConflictError: two names on one mesh axis meet in one value.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> def predict(w, images):
    ...     return nx.nn.relu(nx.dot(images, w, "inputs"))
    >>> f = nx.xmap(predict, in_axes=(["inputs", "hidden"], ["batch", "inputs"]), out_axes=["batch", "hidden"],
    ...             axis_resources={"batch": "x", "hidden": "y"}, mesh=mesh)
    >>> f(jnp.ones((3, 6)), jnp.ones((8, 3))).sharding.spec
    P('x', 'y')
    """
    if not callable(fun):
        raise AxisMappingError(f"xmap: the first argument is the function to map; got {fun!r}.")
    if partitioning not in ("manual", "auto"):
        raise AxisResourceError(f"xmap: partitioning={partitioning!r} is neither 'manual' nor 'auto'.")
    if in_axes is not None and isinstance(in_axes, list) and not is_mapping(in_axes):
        in_axes = tuple(in_axes)
    key = (
        _identity(fun),
        _freeze(in_axes, "in_axes"),
        _freeze(out_axes, "out_axes"),
        frozenset((axis_sizes or {}).items()),
        frozenset(parse_resources(axis_resources).items()),
        mesh,
        _as_tuple(donate_argnums),
        _as_tuple(static_argnums),
        partitioning,
        jit,
    )
    try:
        known = _wrapped.pop(key, None)
    except TypeError:  # the function can not be hashed
        return Xmapped(fun, in_axes, out_axes, object(), *key[3:])
    if known is None:
        known = Xmapped(fun, in_axes, out_axes, key, *key[3:])
    _wrapped[key] = known
    while len(_wrapped) > _MAX_WRAPPED:
        _wrapped.pop(next(iter(_wrapped)))
    return known


# The wrappers made last, so that wrapping again finds the compiled programs of the first time.
_wrapped: dict[Hashable, Xmapped] = {}
_MAX_WRAPPED = 1024


def _identity(fun: Any) -> Hashable:
    """Two partial applications of one function to the same arguments are the same function."""
    if type(fun) is functools.partial:
        return (functools.partial, _identity(fun.func), fun.args, frozenset(fun.keywords.items()))
    return fun


def _as_tuple(numbers: int | Sequence[int]) -> tuple[int, ...]:
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)


class _Frozen:
    """A pytree of axis mappings as a hashable value."""

    __slots__ = ("_key",)

    def __init__(self, key: Hashable):
        self._key = key

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._key == other._key


def _freeze(axes: Any, what: str) -> _Frozen:
    def leaf(node: Any) -> Any:
        return None if node is None else parse_mapping(node, f"xmap, {what}")

    leaves, tree = jax.tree.flatten(axes, is_leaf=lambda node: node is None or is_mapping(node))
    return _Frozen((tuple(leaf(node) for node in leaves), tree))


class Xmapped:
    """A function mapped over named axes; made by `xmap`."""

    def __init__(
        self,
        fun: Callable[..., Any],
        in_axes: Any,
        out_axes: Any,
        program: Hashable,
        axis_sizes: frozenset[tuple[Hashable, int]],
        axis_resources: frozenset[tuple[Hashable, tuple[str, ...]]],
        mesh: Any,
        donate_argnums: tuple[int, ...],
        static_argnums: tuple[int, ...],
        partitioning: Partitioning,
        jit: bool,
    ):
        functools.update_wrapper(self, fun)
        self._fun = nmap(fun) if belongs_to_jax(fun) else fun
        self._name = getattr(fun, "__name__", None) or getattr(getattr(fun, "func", None), "__name__", type(fun).__name__)
        self._in_axes, self._out_axes = in_axes, out_axes
        self._program = program
        self._axis_sizes: dict[Hashable, int] = dict(axis_sizes)
        self._resources: Assignment = dict(axis_resources)
        self._mesh = mesh
        self._static_argnums = static_argnums
        self._partitioning: Partitioning = partitioning
        self._parameters = _parameter_names(fun)
        self._jitted: Any = None
        if jit:
            run = functools.partial(_run, self)
            functools.update_wrapper(run, fun)
            self._jitted = jax.jit(run, donate_argnums=donate_argnums, static_argnums=static_argnums)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._resources:
            args, kwargs = self._place(args, kwargs)
        if self._jitted is None:
            return _run(self, *args, **kwargs)
        return self._jitted(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<xmap of {self._name} with axis_resources={self._resources}>"

    def _compiled_form(self) -> Any:
        if self._jitted is not None:
            return self._jitted
        return jax.jit(functools.partial(_run, self), static_argnums=self._static_argnums)

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Lowers the function for these arguments (arrays, or `jax.ShapeDtypeStruct`s), as `jax.jit(f).lower` does."""
        return self._compiled_form().lower(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> jax.stages.Traced:
        """Traces the function for these arguments, as `jax.jit(f).trace` does."""
        return self._compiled_form().trace(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and types of the results, without computing anything, as `jax.jit(f).eval_shape` does."""
        return self._compiled_form().eval_shape(*args, **kwargs)

    def _place(self, args: Any, kwargs: Any) -> Any:
        """Brings concrete arrays that are committed elsewhere (to another mesh, another device) onto the mesh."""
        leaves = [leaf for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, jax.Array)]
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return args, kwargs
        mesh = concrete_mesh(self._mesh)
        if mesh is not None and self._mesh is not None:
            mesh = mesh_for(mesh, leaves)
        if mesh is None or all(is_placed(leaf, mesh) for leaf in leaves):
            return args, kwargs
        check_mesh_axes(self._resources, mesh)

        def move(argument: _Argument) -> Any:
            data, leaf = argument.data, argument.leaf
            if not isinstance(data, jax.Array) or is_placed(data, mesh):
                return leaf
            data = jax.device_put(data, NamedSharding(mesh, partition_spec(argument.dims, self._resources)))
            return make_in_region(data, leaf._dims) if isinstance(leaf, NamedArray) else data

        arguments, tree = _name_arguments(self, args, kwargs)
        dynamic, kwargs = jax.tree.unflatten(tree, [move(argument) for argument in arguments])
        return _with_static(self, args, dynamic), kwargs


# --- arguments to named arrays --------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Argument:
    """One array among the arguments: the leaf as it came, its global data, the dims under its mapping, and how to call it."""

    leaf: Any
    data: Any
    dims: Dims
    what: str


def _parameter_names(fun: Any) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _static_indices(xmapped: Xmapped, count: int) -> frozenset[int]:
    return frozenset(i % count if count else i for i in xmapped._static_argnums if i < count)


def _without_static(xmapped: Xmapped, args: Any) -> tuple[Any, ...]:
    static = _static_indices(xmapped, len(args))
    return tuple(arg for i, arg in enumerate(args) if i not in static)


def _with_static(xmapped: Xmapped, args: Any, dynamic: Any) -> tuple[Any, ...]:
    """`args` with its dynamic entries replaced by `dynamic`."""
    static = _static_indices(xmapped, len(args))
    supply = iter(dynamic)
    return tuple(arg if i in static else next(supply) for i, arg in enumerate(args))


def _mappings_for(xmapped: Xmapped, count: int, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """The mappings of `count` positional arguments and of the keyword arguments, as a prefix of `(args, kwargs)`."""
    in_axes = xmapped._in_axes
    if in_axes is None or is_mapping(in_axes):
        return (in_axes,) * count, dict.fromkeys(kwargs, in_axes)
    if isinstance(in_axes, dict) and not count:
        in_axes = (in_axes,)
    if not isinstance(in_axes, tuple):
        raise AxisMappingError(
            f"xmap: in_axes is {in_axes!r}; write one axis mapping for all arguments, or a tuple with one entry per argument."
        )
    by_keyword: dict[str, Any] = {}
    if kwargs and in_axes and isinstance(in_axes[-1], dict) and not is_mapping(in_axes[-1]) and len(in_axes) == count + 1:
        in_axes, by_keyword = in_axes[:-1], in_axes[-1]
    names = _without_static(xmapped, xmapped._parameters)
    found = {}
    for name in kwargs:
        if name in by_keyword:
            found[name] = by_keyword[name]
        elif name in names and count <= names.index(name) < len(in_axes):
            found[name] = in_axes[names.index(name)]
        else:
            raise AxisMappingError(
                f"xmap: in_axes has no axis mapping for the keyword argument {name!r} of {xmapped._name}. Put a dict from keywords to mappings "
                f"behind the positional ones, such as {{{name!r}: ['batch', ...]}}."
            )
    if count > len(in_axes) or (count < len(in_axes) and len(in_axes) - count > len(found)):
        raise AxisMappingError(
            f"xmap: in_axes has {len(in_axes)} entries, but {xmapped._name} was called with {count} positional arguments (static ones not "
            "counted). Write one axis mapping per argument, or a single one for all."
        )
    return in_axes[:count], found


def _name_arguments(xmapped: Xmapped, args: Any, kwargs: Any) -> tuple[list[_Argument], Any]:
    """All arrays among the dynamic arguments with their dims, and the structure of `(dynamic args, kwargs)`."""
    dynamic = _without_static(xmapped, args)
    names = _without_static(xmapped, xmapped._parameters)
    arguments: list[_Argument] = []

    def one(leaf: Any, mapping: AxisMapping | None, path: Any) -> None:
        group, first, *rest = path
        label = names[first.idx] if group.idx == 0 and first.idx < len(names) else getattr(first, "key", None)
        what = f"argument {label!r}" if label is not None else f"argument {first.idx}"
        what += jax.tree_util.keystr(tuple(rest))
        if mapping is not None and not isinstance(leaf, (NamedArray, jax.Array, np.ndarray)) and np.ndim(leaf) != 0:
            leaf = jnp.asarray(leaf)
        data, dims = attach_names(leaf, mapping, "xmap", f"{what}, {type_text(leaf)},")
        arguments.append(_Argument(leaf, data, dims, what))

    map_with_mappings(one, (dynamic, dict(kwargs)), _mappings_for(xmapped, len(dynamic), kwargs), "xmap, in_axes")
    return arguments, jax.tree.structure((dynamic, dict(kwargs)), is_leaf=is_named)


def _collect_sizes(arguments: Sequence[_Argument], axis_sizes: Mapping[Hashable, int]) -> dict[Hashable, int]:
    sizes: dict[Hashable, int] = {}
    origin: dict[Hashable, str] = {}
    for name, size in axis_sizes.items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise AxisSizeError(f"xmap: axis_sizes gives {name!r} the size {size!r}; a size is an integer from 0.")
        sizes[name], origin[name] = int(size), "axis_sizes"
    for argument in arguments:
        shape = np.shape(argument.data)
        for dim, n in zip(argument.dims, shape, strict=True):
            if dim is None:
                continue
            if sizes.setdefault(dim, n) != n:
                raise AxisSizeError(
                    f"xmap: axis {dim!r} has size {sizes[dim]} in {origin[dim]}, and size {n} in {argument.what} of shape {shape}; a name has "
                    "one size. Check the axis mappings in in_axes, or use two names."
                )
            origin.setdefault(dim, f"{argument.what} of shape {shape}")
    return sizes


# --- lowering -------------------------------------------------------------------------------------------------------


def _run(xmapped: Xmapped, *args: Any, **kwargs: Any) -> Any:
    """One call, traced or eager: names the arguments, makes the region, lowers the body into it."""
    if ambient() is not None:
        raise AxisResourceError(
            f"xmap: {xmapped._name} is called inside of another mapped function; nested xmap is not there yet. Call the function itself: it "
            "sees the outer names."
        )
    arguments, tree = _name_arguments(xmapped, args, kwargs)
    sizes = _collect_sizes(arguments, xmapped._axis_sizes)
    resources = xmapped._resources
    mesh, from_context = xmapped._mesh, False
    if mesh is None and resources:
        mesh, from_context = current_mesh(), True
    check_mesh_axes(resources, mesh)
    if resources and not from_context:
        mesh = mesh_for(mesh, [argument.data for argument in arguments])
    auto = xmapped._partitioning == "auto" and bool(resources)
    region = Region(sizes, resources, mesh if resources else None, "auto" if auto else "manual", xmapped._program)
    region.seen.update(sizes)
    for name in sizes:
        if name in resources:
            region.block_size(name, sizes[name], "xmap")
    for argument in arguments:
        region.check_placement(f"xmap, {argument.what}", (dim for dim in argument.dims if dim is not None))
    call = _Call(xmapped, args, arguments, tree, region)
    if not resources:
        return call.body(*(argument.data for argument in arguments))
    return (_run_auto if auto else _run_manual)(call, mesh, from_context)


def _run_manual(call: _Call, mesh: Any, from_context: bool) -> Any:
    resources = call.region.resources
    specs = tuple(partition_spec(argument.dims, resources) for argument in call.arguments)
    used = frozenset(axis for axes in resources.values() for axis in axes)
    datas = [
        to_spec(jnp.asarray(argument.data), spec, None if from_context else mesh, used)
        for argument, spec in zip(call.arguments, specs, strict=True)
    ]
    shard_map = functools.partial(
        jax.shard_map,
        mesh=None if from_context else mesh,
        in_specs=specs,
        axis_names=used if used != frozenset(mesh.axis_names) else frozenset(),
        check_vma=True,
    )
    if call.results_are_placed:
        return shard_map(call.body, out_specs=call.result_specs())(*datas)
    # Named arrays come back, and their axes are known only when the body has been traced: trace it once to see them.
    jax.eval_shape(shard_map(call.probe, out_specs=()), *datas)
    specs_out, dims_out, tree = call.probed
    flat = shard_map(call.flat_body, out_specs=specs_out)(*datas)
    return call.rebuild(flat, dims_out, tree)


def _run_auto(call: _Call, mesh: Any, from_context: bool) -> Any:
    datas = [jnp.asarray(argument.data) for argument in call.arguments]
    if not has_explicit_axes(mesh):
        return call.body(*datas)
    # Within the body every axis is Auto; the results' shardings have to be known before.
    region = call.region
    call.region = Region(region.sizes, region.resources, auto_mesh(mesh), "auto", call.xmapped._program)
    call.region.seen = region.seen
    with use_mesh(mesh, from_context):
        auto_axes = functools.partial(jax.sharding.auto_axes, axes=tuple(mesh.axis_names))
        datas = [
            to_spec(data, partition_spec(argument.dims, region.resources), None if from_context else mesh, frozenset(mesh.axis_names))
            for argument, data in zip(call.arguments, datas, strict=True)
        ]
        if call.results_are_placed:
            return auto_axes(call.body, out_sharding=call.result_specs())(*datas)
        jax.eval_shape(lambda *xs: auto_axes(call.probe, out_sharding=())(*xs), *datas)
        specs_out, dims_out, tree = call.probed
        return call.rebuild(auto_axes(call.flat_body, out_sharding=specs_out)(*datas), dims_out, tree)


# --- the body, and its results --------------------------------------------------------------------------------------


class _Call:
    """One call while it is lowered: arguments and region, and the forms of the body that the lowerings need."""

    def __init__(self, xmapped: Xmapped, args: Any, arguments: list[_Argument], tree: Any, region: Region):
        self.xmapped, self.args, self.arguments, self.tree, self.region = xmapped, args, arguments, tree, region
        self.probed: Any = None
        mappings = jax.tree.leaves(xmapped._out_axes, is_leaf=lambda m: m is None or is_mapping(m))
        self._mappings = [None if m is None else parse_mapping(m, "xmap, out_axes") for m in mappings]
        for mapping in self._mappings:
            if mapping is not None:
                region.seen.update(name for _, name in mapping.names)

    @property
    def results_are_placed(self) -> bool:
        """Whether every result is a plain array whose axes `out_axes` says."""
        return None not in self._mappings

    def result_specs(self) -> Any:
        """A prefix tree of partition specs for the results."""

        def spec(mapping: Any) -> PartitionSpec:
            names = parse_mapping(mapping, "xmap, out_axes").names
            dims: list[Hashable | None] = [None] * (max((i for i, _ in names), default=-1) + 1)
            for i, name in names:
                dims[i] = name
            return partition_spec(dims, self.region.resources)

        return jax.tree.map(spec, self.xmapped._out_axes, is_leaf=is_mapping)

    def _results(self, datas: Sequence[Any]) -> Any:
        """Runs the function on named arrays of these (local) data."""
        xmapped, region = self.xmapped, self.region
        named = [wrap(data, argument.dims) for data, argument in zip(datas, self.arguments, strict=True)]
        dynamic, kwargs = jax.tree.unflatten(self.tree, named)
        with explain_type_errors:
            results = xmapped._fun(*_with_static(xmapped, self.args, dynamic), **kwargs)
        for leaf in jax.tree.leaves(results, is_leaf=is_named):
            region.seen.update(dim for dim in dims_of(leaf) if dim is not None)
        _check_names_used(xmapped, region)
        return results

    def _finish(self, leaf: Any, mapping: AxisMapping | None, path: Any) -> Any:
        """A result as an array (or a named one, where it stays so) whose device variance is that of its names."""
        what = f"the result{jax.tree_util.keystr(path)}"
        if mapping is None:
            region = ambient()
            leaf = local_block(leaf, "xmap, out_axes", region)
            data, dims = (leaf._data, leaf._dims) if is_named(leaf) else (jnp.asarray(leaf), dims_of(leaf))
        else:
            data, dims = detach_names(leaf, mapping, "xmap, out_axes", what)
        if self.region.manual:
            axes = frozenset(axis for dim in dims if dim is not None for axis in self.region.placement(dim))
            if varying(data) - axes:
                raise NamedAxesLeftError(
                    f"xmap: {what}, {type_text(leaf)}, differs from device to device along mesh axes {sorted(varying(data) - axes)}, on which "
                    "none of its names lives: a local block (x.data) has left its array. Return the named array."
                )
            data = cast_data(data, axes)
        return make_in_region(data, dims) if mapping is None and any(dim is not None for dim in dims) else data

    def body(self, *datas: Any) -> Any:
        """Local data of the arguments to data of the results."""
        with enter(self.region):
            results = self._results(datas)
            return map_with_mappings(self._finish, results, self.xmapped._out_axes, "xmap, out_axes")

    def flat_body(self, *datas: Any) -> list[Any]:
        """Like `body`, with the data of all leaves as one list."""
        return [leaf._data if is_named(leaf) else leaf for leaf in jax.tree.leaves(self.body(*datas), is_leaf=is_named)]

    def probe(self, *datas: Any) -> tuple[()]:
        """Runs the body only to see its results: notes their specs, dims and structure in `probed`, and returns nothing."""
        results = self.body(*datas)
        leaves, tree = jax.tree.flatten(results, is_leaf=is_named)
        placed = iter(jax.tree.leaves(self._placed_specs(results), is_leaf=lambda s: isinstance(s, PartitionSpec)))
        specs = [next(placed) if not is_named(leaf) else partition_spec(leaf._dims, self.region.resources) for leaf in leaves]
        self.probed = (specs, [leaf._dims if is_named(leaf) else None for leaf in leaves], tree)
        return ()

    def _placed_specs(self, results: Any) -> Any:
        """Specs of the results that are plain arrays, in order."""

        def spec(leaf: Any, mapping: AxisMapping | None, path: Any) -> Any:
            if is_named(leaf):
                return None
            dims = mapping.place(leaf.ndim, "xmap, out_axes", "the result") if mapping is not None else ()
            return partition_spec(dims, self.region.resources)

        return map_with_mappings(spec, results, self.xmapped._out_axes, "xmap, out_axes")

    @staticmethod
    def rebuild(flat: Sequence[Any], dims: Sequence[Dims | None], tree: Any) -> Any:
        """The results from the data of their leaves."""
        leaves = [data if d is None else make_in_region(data, d) for data, d in zip(flat, dims, strict=True)]
        return jax.tree.unflatten(tree, leaves)


def _check_names_used(xmapped: Xmapped, region: Region) -> None:
    """Raises for a name in `axis_resources` that no value had."""
    for name in xmapped._resources:
        if name not in region.seen:
            raise AxisResourceError(
                f"xmap: axis_resources maps {name!r} to {xmapped._resources[name]}, but no value in {xmapped._name} has an axis {name!r}; the names "
                f"are {show_names(sorted(region.seen, key=str))}.{did_you_mean(name, region.seen)} Correct the name, or remove the entry."
            )
