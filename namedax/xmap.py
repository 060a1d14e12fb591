"""`xmap`: a function over names becomes a function over arrays, and names get hardware.

The pipeline of a call, in the order of this module: the wrapper and its options; arguments to named arrays and a region; the
region's lowering (`jax.vmap` semantics by the operations themselves, one `jax.shard_map`, or XLA's partitioner); the body;
results to arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec

from namedax.array import Dims, NamedArray, dims_of, is_name, make_in_region, type_text
from namedax.axes import AxisMapping, is_mapping, parse_mapping
from namedax.environment import Region, ambient, enter
from namedax.errors import AxisMappingError, AxisResourceError, AxisSizeError, NamedAxesLeftError, did_you_mean, show_names
from namedax.ops.align import local_block, wrap
from namedax.ops.conversion import attach_names, detach_names, is_named, map_with_mappings
from namedax.ops.lift import belongs_to_jax, explain_type_errors, nmap
from namedax.resources.assignment import Assignment, check_mesh_axes, parse_resources, partition_spec
from namedax.resources.mesh import (
    auto_mesh,
    concrete_mesh,
    explicit_specs,
    has_explicit_axes,
    is_placed,
    mesh_for,
    replicated,
    resolve_mesh,
    to_spec,
    use_mesh,
)
from namedax.resources.serial import loops_of, on_devices, with_loops
from namedax.resources.stepping import run_in_steps, virtual_mesh
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
        `{0: "batch"}`, a list with one entry per axis `["batch", None]`, or a list that ends with `...`. `None`: the arguments
        are named arrays already, or have no names. Keyword arguments follow in a dict after the positional mappings, or are
        mapped by the parameter that they fill. Static arguments have no mapping.
      out_axes: the same for the results: where their names stand. A result that lacks a name that is placed is broadcast along
      it.
        `None`: named arrays come back.
      axis_sizes: sizes of names that no argument has.
      axis_resources: for every name that is to be sharded, a mesh axis or a tuple of them, major first. Other names are
        vectorised. This never changes results.
      mesh: a `jax.sharding.Mesh`; default: that of the surrounding `jax.set_mesh`. Mesh axes that `axis_resources` does not
      mention stay
        with the compiler.
      donate_argnums: as in `jax.jit`.
      static_argnums: as in `jax.jit`.
      partitioning: `"manual"`: one `jax.shard_map`, whose communication is namedax's. `"auto"`: the same program on global
      arrays,
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
    sizes, resources = _parse_sizes(axis_sizes), parse_resources(axis_resources)
    parameters = _parameter_names(fun)
    donated, static = _positions(donate_argnums, parameters), _positions(static_argnums, parameters)
    shared = _shared(
        fun,
        _freeze(in_axes, "in_axes"),
        _freeze(out_axes, "out_axes"),
        frozenset(sizes.items()),
        frozenset(resources.items()),
        mesh,
        donated,
        static,
        partitioning,
        jit,
    )
    known = shared.wrapper() if shared.wrapper is not None else None
    if known is None:
        known = Xmapped(fun, in_axes, out_axes, sizes, resources, mesh, static, partitioning, parameters, shared)
        shared.wrapper = weakref.ref(known)
        if jit and shared.jitted is None:
            shared.jitted = _jit(known, donated)
    return known


class _Shared:
    """What all wrappers of one function with the same options have in common, and what outlives them: the compiled programs.

    It refers to the function only through the wrapper that is alive, so that a function and what it closes over can be
    collected.
    """

    __slots__ = ("jitted", "program", "wrapper")

    def __init__(self) -> None:
        self.jitted: Any = None
        self.program: Hashable = object()  # stands for the program in the region's key
        self.wrapper: Any = None  # a weak reference


# By the id of a function, for as long as it lives: options to what their wrappers share, those used last at the end.
_programs: dict[int, dict[Hashable, _Shared]] = {}
_MAX_PROGRAMS = 256


def _shared(fun: Any, *options: Hashable) -> _Shared:
    """What a wrapper of `fun` with these options made before has left, or a new record."""
    anchor, identity = _identity(fun)
    try:
        key = (identity, *options)
        hash(key)
        if id(anchor) not in _programs:
            weakref.finalize(anchor, _programs.pop, id(anchor), None).atexit = False
    except TypeError:  # an argument of the partial can not be hashed, or the function not be referenced weakly
        return _Shared()
    programs = _programs.setdefault(id(anchor), {})
    programs[key] = shared = programs.pop(key, None) or _Shared()
    while len(programs) > _MAX_PROGRAMS:
        programs.pop(next(iter(programs)))
    return shared


def _identity(fun: Any) -> tuple[Any, Any]:
    """The object whose lifetime is that of the function, and what tells apart the functions with that object.

    Partial applications of one function to equal arguments of equal types are one function, and so are a method's bound forms.
    """
    if isinstance(fun, functools.partial):
        anchor, inner = _identity(fun.func)
        return anchor, (inner, tuple(map(_typed, fun.args)), tuple((k, _typed(v)) for k, v in sorted(fun.keywords.items())))
    if isinstance(fun, types.MethodType):
        return fun.__self__, fun.__func__
    return fun, None


def _typed(value: Any) -> Any:
    """A value with its type, because 1, 1.0 and True are equal; likewise 0.0 and -0.0, which their text tells apart."""
    if isinstance(value, tuple):
        return (type(value), *map(_typed, value))
    return (type(value), repr(value) if isinstance(value, (float, complex)) else value)


def _parse_sizes(axis_sizes: Mapping[Hashable, int] | None) -> dict[Hashable, int]:
    if axis_sizes is not None and not isinstance(axis_sizes, Mapping):
        raise AxisSizeError(
            f"xmap: axis_sizes is {axis_sizes!r}; write a dict from axis names to sizes, such as {{'batch': 128}}."
        )
    sizes: dict[Hashable, int] = {}
    for name, size in (axis_sizes or {}).items():
        if not is_name(name):
            raise AxisSizeError(f"xmap: axis_sizes has the key {name!r}, which is no axis name; keys are names of axes.")
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise AxisSizeError(f"xmap: axis_sizes gives {name!r} the size {size!r}; a size is an integer from 0.")
        sizes[name] = int(size)
    return sizes


def _parameter_names(fun: Any) -> tuple[str, ...] | None:
    """The parameters that can be given by position, or `None` if their number is not known."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _positions(numbers: int | Sequence[int], parameters: tuple[str, ...] | None) -> tuple[int, ...]:
    """Argument numbers as a tuple. Negative ones count from the last parameter, whatever a call gives by keyword."""
    given = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    if parameters is None:
        return given
    return tuple(i + len(parameters) if -len(parameters) <= i < 0 else i for i in given)


def _jit(xmapped: Xmapped, donated: tuple[int, ...]) -> Any:
    shared = xmapped._shared

    def run(*args: Any, **kwargs: Any) -> Any:
        return _run(shared.wrapper(), *args, **kwargs)

    run.__name__ = run.__qualname__ = xmapped._name
    if xmapped._parameters is not None:  # for JAX's messages
        run.__signature__ = inspect.signature(xmapped._fun)  # type: ignore[attr-defined]
    return jax.jit(
        run, donate_argnums=donated, static_argnums=xmapped._static_argnums, static_argnames=tuple(xmapped._static_names)
    )


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
        axis_sizes: dict[Hashable, int],
        axis_resources: Assignment,
        mesh: Any,
        static_argnums: tuple[int, ...],
        partitioning: Partitioning,
        parameters: tuple[str, ...] | None,
        shared: _Shared,
    ):
        functools.update_wrapper(self, fun)
        self._fun = nmap(fun) if belongs_to_jax(fun) else fun
        inner = getattr(fun, "func", None)
        self._name = str(getattr(fun, "__name__", None) or getattr(inner, "__name__", type(fun).__name__))
        self._in_axes, self._out_axes = in_axes, out_axes
        self._axis_sizes = axis_sizes
        self._resources = axis_resources
        self._mesh = mesh
        self._static_argnums = static_argnums
        self._partitioning: Partitioning = partitioning
        self._parameters = parameters
        self._static_names = frozenset(name for i, name in enumerate(parameters or ()) if i in static_argnums)
        self._shared = shared

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the mapped function."""
        if self._resources:
            args, kwargs = self._place(args, kwargs)
        if self._shared.jitted is None:
            return _run(self, *args, **kwargs)
        try:
            return self._shared.jitted(*args, **kwargs)
        except ValueError as error:
            if "incompatible devices" in str(error):
                error.add_note(
                    f"namedax: within a JAX transformation xmap can not move an argument of {self._name} that is committed to "
                    "other devices. Bring it onto the mesh first, with jax.device_put or nx.shard."
                )
            raise

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<xmap of {self._name} with axis_resources={self._resources}>"

    def _compiled_form(self) -> Any:
        return self._shared.jitted if self._shared.jitted is not None else _jit(self, ())

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """Lowers the function for these arguments (arrays, or `jax.ShapeDtypeStruct`s), as `jax.jit(f).lower` does."""
        if self._resources:
            args, kwargs = self._place(args, kwargs, only_type=True)
        lowered: jax.stages.Lowered = self._compiled_form().lower(*args, **kwargs)
        return lowered

    def trace(self, *args: Any, **kwargs: Any) -> jax.stages.Traced:
        """Traces the function for these arguments, as `jax.jit(f).trace` does."""
        traced: jax.stages.Traced = self._compiled_form().trace(*args, **kwargs)
        return traced

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and types of the results, without computing anything, as `jax.jit(f).eval_shape` does."""
        return self._compiled_form().eval_shape(*args, **kwargs)

    def _place(self, args: Any, kwargs: Any, only_type: bool = False) -> Any:
        """Brings concrete arrays that are committed elsewhere (to another mesh, another device) onto the mesh.

        With `only_type` they become their type there, for lowering.
        """
        leaves = [leaf for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, jax.Array)]
        concrete = [leaf for leaf in leaves if not isinstance(leaf, jax.core.Tracer)]
        if not concrete:
            return args, kwargs
        mesh = concrete_mesh(self._mesh)
        if mesh is not None and has_explicit_axes(mesh):
            mesh = mesh_for(mesh, leaves)
        if mesh is None or all(is_placed(leaf, mesh) for leaf in concrete):
            return args, kwargs
        resources = on_devices(with_loops(self._resources))
        check_mesh_axes(resources, mesh)

        def move(argument: _Argument) -> Any:
            data, leaf = argument.data, argument.leaf
            if not isinstance(data, jax.Array) or isinstance(data, jax.core.Tracer) or is_placed(data, mesh):
                return leaf
            sharding = NamedSharding(mesh, partition_spec(argument.dims, resources))
            if only_type:
                data = jax.ShapeDtypeStruct(data.shape, data.dtype, weak_type=data.weak_type, sharding=sharding)
            else:
                with jax.ensure_compile_time_eval():  # under a trace of jax.grad too
                    data = jax.device_put(data, sharding)
            return make_in_region(data, leaf._dims) if isinstance(leaf, NamedArray) else data

        arguments, tree = _name_arguments(self, args, kwargs)
        return _join(self, args, kwargs, jax.tree.unflatten(tree, [move(argument) for argument in arguments]))


# --- arguments to named arrays --------------------------------------------------------------------------------------


@dataclasses.dataclass(slots=True)
class _Argument:
    """One array among the arguments: the leaf as it came, its global data, the dims under its mapping, and how to call it."""

    leaf: Any
    data: Any
    dims: Dims
    what: str


def _static_indices(xmapped: Xmapped, count: int) -> frozenset[int]:
    return frozenset(i % count for i in xmapped._static_argnums if -count <= i < count)


def _split(xmapped: Xmapped, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The dynamic arguments."""
    static = _static_indices(xmapped, len(args))
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in static)
    return dynamic, {name: value for name, value in kwargs.items() if name not in xmapped._static_names}


def _join(xmapped: Xmapped, args: Any, kwargs: Any, dynamic: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`args` and `kwargs` with their dynamic entries replaced by `dynamic`, which `_split` gave the structure of."""
    static = _static_indices(xmapped, len(args))
    supply = iter(dynamic[0])
    return tuple(arg if i in static else next(supply) for i, arg in enumerate(args)), {**kwargs, **dynamic[1]}


def _dynamic_parameters(xmapped: Xmapped) -> tuple[str, ...]:
    return tuple(name for name in xmapped._parameters or () if name not in xmapped._static_names)


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
    names = _dynamic_parameters(xmapped)
    # A dict from strings at the end holds the keywords' mappings, unless it is that of an argument which is such a dict itself.
    last = in_axes[-1] if in_axes else None
    by_keyword: Mapping[str, Any] = {}
    if isinstance(last, dict) and not is_mapping(last) and count < len(in_axes):
        if not kwargs or any(name in last for name in kwargs) or len(names) < len(in_axes):
            in_axes, by_keyword = in_axes[:-1], last
    found = {}
    for name, value in kwargs.items():
        if name in by_keyword:
            found[name] = by_keyword[name]
        elif name in names and count <= names.index(name) < len(in_axes):
            found[name] = in_axes[names.index(name)]
        elif all(map(is_named, jax.tree.leaves(value, is_leaf=is_named))):
            found[name] = None
        else:
            raise AxisMappingError(
                f"xmap: in_axes has no axis mapping for the keyword argument {name!r} of {xmapped._name}. Put a dict from "
                f"keywords to mappings behind the positional ones, such as {{{name!r}: ['batch', ...]}}, or give a named "
                "array."
            )
    if count > len(in_axes) or (count < len(in_axes) and len(in_axes) - count > len(found)):
        raise AxisMappingError(
            f"xmap: in_axes has {len(in_axes)} entries, but {xmapped._name} was called with {count} positional arguments "
            "(static ones not counted). Write one axis mapping per argument, or a single one for all."
        )
    return in_axes[:count], found


def _name_arguments(xmapped: Xmapped, args: Any, kwargs: Any) -> tuple[list[_Argument], Any]:
    """All arrays among the dynamic arguments with their dims, and the structure of the dynamic `(args, kwargs)`."""
    dynamic = _split(xmapped, args, kwargs)
    names = _dynamic_parameters(xmapped)
    arguments: list[_Argument] = []

    def one(leaf: Any, mapping: AxisMapping | None, path: Any) -> None:
        group, first, *rest = path
        label = names[first.idx] if group.idx == 0 and first.idx < len(names) else getattr(first, "key", None)
        what = f"argument {label!r}" if label is not None else f"argument {first.idx}"
        what += jax.tree_util.keystr(tuple(rest))
        if isinstance(leaf, (np.ndarray, np.generic)):
            leaf = jnp.asarray(leaf)
        data, dims = attach_names(leaf, mapping, "xmap", f"{what}, {type_text(leaf)},")
        arguments.append(_Argument(leaf, data, dims, what))

    map_with_mappings(one, dynamic, _mappings_for(xmapped, len(dynamic[0]), dynamic[1]), "xmap, in_axes")
    return arguments, jax.tree.structure(dynamic, is_leaf=is_named)


def _collect_sizes(arguments: Sequence[_Argument], axis_sizes: Mapping[Hashable, int]) -> dict[Hashable, int]:
    sizes: dict[Hashable, int] = {}
    origin: dict[Hashable, str] = {}
    for name, size in axis_sizes.items():
        sizes[name], origin[name] = size, "axis_sizes"
    for argument in arguments:
        shape = np.shape(argument.data)
        for dim, n in zip(argument.dims, shape, strict=True):
            if dim is None:
                continue
            if sizes.setdefault(dim, n) != n:
                raise AxisSizeError(
                    f"xmap: axis {dim!r} has size {sizes[dim]} in {origin[dim]}, and size {n} in {argument.what} of shape "
                    f"{shape}; a name has one size. Check the axis mappings in in_axes, or use two names."
                )
            origin.setdefault(dim, f"{argument.what} of shape {shape}")
    return sizes


# --- lowering -------------------------------------------------------------------------------------------------------


def _run(xmapped: Xmapped, *args: Any, **kwargs: Any) -> Any:
    """One call, traced or eager: names the arguments, makes the region, lowers the body into it."""
    if ambient() is not None:
        raise AxisResourceError(
            f"xmap: {xmapped._name} is called inside of another mapped function; nested xmap is not there yet. Call the "
            "function itself: it sees the outer names."
        )
    arguments, tree = _name_arguments(xmapped, args, kwargs)
    sizes = _collect_sizes(arguments, xmapped._axis_sizes)
    resources = with_loops(xmapped._resources)
    devices = on_devices(resources)
    mesh, from_context = resolve_mesh(xmapped._mesh) if devices else (None, False)
    check_mesh_axes(devices, mesh)
    if devices and not from_context:
        mesh = mesh_for(mesh, [argument.data for argument in arguments])
    auto = xmapped._partitioning == "auto"
    if auto:
        resources = devices  # XLA's partitioner knows no time
    loops = loops_of(resources)
    traced_on = virtual_mesh(mesh, loops) if loops else mesh
    mode: Partitioning = "auto" if auto and resources else "manual"
    region = Region(sizes, resources, traced_on, mode, xmapped._shared.program)
    region.seen.update(sizes)
    for name in sizes:
        if name in resources:
            region.block_size(name, sizes[name], "xmap")
    for argument in arguments:
        region.check_placement(f"xmap, {argument.what}", (dim for dim in argument.dims if dim is not None))
    call = _Call(xmapped, args, kwargs, arguments, tree, region)
    if not resources:
        return call.body(*(argument.data for argument in arguments))
    if loops:
        return _run_in_steps(call, mesh, from_context)
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
    tracked = has_explicit_axes(mesh) or (call.xmapped._mesh is not None and has_explicit_axes(call.xmapped._mesh))
    run = _run_hoisted if tracked else _run_plainly
    if call.results_are_placed:
        return run(shard_map(call.body, out_specs=call.result_specs()), datas)
    # Named arrays come back, and their axes are known only when the body has been traced: trace it once to see them.
    jax.eval_shape(shard_map(call.probe, out_specs=()), *datas)
    specs_out, dims_out, tree = call.probed
    return call.rebuild(run(shard_map(call.flat_body, out_specs=specs_out), datas), dims_out, tree)


def _run_in_steps(call: _Call, mesh: Any, from_context: bool) -> Any:
    resources = call.region.resources
    devices, loops = on_devices(resources), loops_of(resources)
    specs = tuple(partition_spec(argument.dims, resources) for argument in call.arguments)
    used = frozenset(axis for axes in devices.values() for axis in axes)
    datas = [jnp.asarray(argument.data) for argument in call.arguments]
    shard_map = None
    if devices:
        datas = [
            to_spec(data, partition_spec(argument.dims, devices), None if from_context else mesh, used)
            for argument, data in zip(call.arguments, datas, strict=True)
        ]
        shard_map = functools.partial(
            jax.shard_map,
            mesh=None if from_context else mesh,
            axis_names=used if used != frozenset(mesh.axis_names) else frozenset(),
            check_vma=True,
        )
    run = functools.partial(run_in_steps, datas=datas, in_specs=specs, loops=loops, mesh=mesh, manual=used, shard_map=shard_map)
    if call.results_are_placed:
        return run(call.body, out_specs=call.result_specs())
    run(call.probe, out_specs=())
    specs_out, dims_out, tree = call.probed
    return call.rebuild(run(call.flat_body, out_specs=specs_out), dims_out, tree)


def _run_plainly(mapped: Callable[..., Any], datas: Sequence[Any]) -> Any:
    return mapped(*datas)


def _run_hoisted(mapped: Callable[..., Any], datas: Sequence[Any]) -> Any:
    """Runs `mapped` after what its body closes over was replicated.

    `jax.shard_map` takes values from outside that are sharded over Explicit axes in no other way.
    """
    closed, shape = jax.make_jaxpr(mapped, return_shape=True)(*datas)
    consts = [replicated(const) for const in closed.consts]
    flat = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, consts))(*datas)
    return jax.tree.unflatten(jax.tree.structure(shape), flat)


def _run_auto(call: _Call, mesh: Any, from_context: bool) -> Any:
    datas = [jnp.asarray(argument.data) for argument in call.arguments]
    if not has_explicit_axes(mesh):
        return call.body(*datas)
    # Within the body every axis is Auto; the results' shardings have to be known before.
    region = call.region
    call.region = Region(region.sizes, region.resources, auto_mesh(mesh), "auto", call.xmapped._shared.program)
    call.region.seen = region.seen
    with use_mesh(mesh, from_context):
        auto_axes = functools.partial(jax.sharding.auto_axes, axes=tuple(mesh.axis_names))
        datas = [
            to_spec(
                data,
                partition_spec(argument.dims, region.resources),
                None if from_context else mesh,
                frozenset(mesh.axis_names),
            )
            for argument, data in zip(call.arguments, datas, strict=True)
        ]
        if call.results_are_placed:
            return auto_axes(call.body, out_sharding=explicit_specs(call.result_specs(), mesh))(*datas)
        jax.eval_shape(lambda *xs: auto_axes(call.probe, out_sharding=())(*xs), *datas)
        specs_out, dims_out, tree = call.probed
        flat = auto_axes(call.flat_body, out_sharding=explicit_specs(specs_out, mesh))(*datas)
        return call.rebuild(flat, dims_out, tree)


# --- the body, and its results --------------------------------------------------------------------------------------


class _Call:
    """One call while it is lowered: arguments and region, and the forms of the body that the lowerings need."""

    def __init__(self, xmapped: Xmapped, args: Any, kwargs: Any, arguments: list[_Argument], tree: Any, region: Region):
        self.xmapped, self.args, self.kwargs = xmapped, args, kwargs
        self.arguments, self.tree, self.region = arguments, tree, region
        self.probed: Any = None
        mappings = jax.tree.leaves(xmapped._out_axes, is_leaf=lambda m: m is None or is_mapping(m))
        self._mappings = [None if m is None else parse_mapping(m, "xmap, out_axes") for m in mappings]
        for mapping in self._mappings:
            if mapping is not None:
                names = [name for _, name in mapping.names]
                region.check_placement(f"xmap, out_axes {mapping.text}", names)
                region.seen.update(names)

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
        args, kwargs = _join(xmapped, self.args, self.kwargs, jax.tree.unflatten(self.tree, named))
        with explain_type_errors:
            results = xmapped._fun(*args, **kwargs)
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
                    f"xmap: {what}, {type_text(leaf)}, differs from device to device along mesh axes "
                    f"{sorted(varying(data) - axes)}, on which none of its names lives: a local block (x.data) has left its "
                    "array. Return the named array."
                )
            data = cast_data(data, axes)
        elif self.region.resources:
            sharding = NamedSharding(self.region.mesh, partition_spec(dims, self.region.resources))
            data = jax.lax.with_sharding_constraint(data, sharding)
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
                f"xmap: axis_resources maps {name!r} to {xmapped._resources[name]}, but no value in {xmapped._name} has an "
                f"axis {name!r}; the names are {show_names(sorted(region.seen, key=str))}.{did_you_mean(name, region.seen)} "
                "Correct the name, or remove the entry."
            )
