"""The transform `xmap`, which maps a function over named axes, and named axes over mesh axes.

This module follows the stages of a call: the wrapper and its options, the conversion of arguments
to named arrays, and the region. The region may be inside a surrounding mapped function.
`namedax.xmap.lowering` then lowers the body to a program.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.distributed import is_initialized as is_distributed
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from namedax.core.array import (
    NamedArray,
    dims_of,
    get_data,
    is_named,
    make,
    make_in_region,
    padding_of,
    placeholder_remedy,
    positions,
    stored_data,
)
from namedax.core.axis_mappings import is_mapping
from namedax.core.display import type_text
from namedax.core.element_types import NUMPY
from namedax.core.functions import set_display_source, source_of
from namedax.core.names import PyTree
from namedax.core.region import Region, active_regions, ambient
from namedax.core.stack_depth import with_stack_depth
from namedax.core.user_code import call_user_code
from namedax.core.variance import casts_automatically, under_automatic_casts
from namedax.errors import (
    AxisMappingError,
    AxisResourceError,
    AxisSizeError,
    MeshError,
    NamedaxError,
    format_value,
    show_names,
)
from namedax.messages.tracebacks import shorten_traceback
from namedax.ops.operands.broadcasting import to_local
from namedax.ops.operands.nmap import belongs_to_jax, nmap
from namedax.ops.shape.conversion import attach_names, leaves_with_mappings
from namedax.programs.evaluator import PASSES, SERIAL_STEPS, Pass
from namedax.programs.serial.stepping import virtual_mesh
from namedax.resources.assignment import Assignment, check_mesh_axes, dividing, partition_spec
from namedax.resources.mesh import (
    concrete_mesh,
    has_explicit_axes,
    is_placed,
    mesh_for,
    resolve_mesh,
    without_devices,
    without_types,
)
from namedax.resources.serial import loops_of, on_devices, with_loops
from namedax.resources.two_level import SlowAxes, slow_axes_on
from namedax.xmap.argument_placement import Arrivals, checked_values
from namedax.xmap.call_comparison import compare_calls
from namedax.xmap.effects import MappedAxes, all_axes, axes_used, trace_call, without_request
from namedax.xmap.explanations import (
    carried_names,
    check_nested,
    explain_jax_error,
    no_devices,
)
from namedax.xmap.invalid_values import find_invalid_value, is_invalid_value
from namedax.xmap.lowering import (
    Argument,
    Call,
    describe_argument,
    run_auto,
    run_in_steps,
    run_manual,
    run_nested,
    run_unmapped,
)
from namedax.xmap.options import Partitioning, XmapOptions
from namedax.xmap.padded_arguments import enter_stored, with_data
from namedax.xmap.replaced_layouts import replacement, replacements

__all__ = [
    "Shared",
    "Xmapped",
    "compile_mapped",
    "dynamic_arguments",
    "name_arguments",
    "static_indices",
]


class _CastsDisabledError(Exception):
    """A first trace has seen that `jax_auto_pcast` is disabled; the call is repeated with it."""


class Shared:
    """State that all wrappers of one function with the same options share.

    It contains the compiled programs, and outlives the wrappers. It refers to the function only
    through the current wrapper, so that the function and its closure can be garbage-collected.
    """

    __slots__ = ("calls_python", "jitted", "program", "reads_casts", "wrapper")

    def __init__(self) -> None:
        self.calls_python = False  # a body had callbacks that need all mesh axes
        self.jitted: Any = None
        # True once a trace has seen that `jax_auto_pcast` is disabled: calls read it from then on.
        self.reads_casts = False
        self.program: Hashable = object()  # identifies the program in the region's key
        self.wrapper: Any = None  # a weak reference


def compile_mapped(xmapped: Xmapped) -> Any:
    """Wrap the calls of a mapped function in `jax.jit`."""
    shared, options = xmapped._shared, xmapped._options

    def run(*args: object, **kwargs: object) -> PyTree:
        if not shared.reads_casts and not casts_automatically():
            shared.reads_casts = True
            raise _CastsDisabledError
        return with_stack_depth(_run, shared.wrapper(), *args, **kwargs)

    run.__name__ = run.__qualname__ = xmapped._name
    set_display_source(
        run,
        source_of(xmapped._fun),
        inspect.signature(run if xmapped._parameters is None else xmapped._fun),
    )
    return jax.jit(
        run,
        donate_argnums=options.donate_argnums,
        static_argnums=options.static_argnums,
        static_argnames=tuple(xmapped._static_names),
    )


class Xmapped:
    """A function mapped over named axes; made by `xmap`."""

    def __init__(
        self,
        fun: Callable[..., Any],
        options: XmapOptions,
        parameters: tuple[str, ...] | None,
        shared: Shared,
    ):
        functools.update_wrapper(self, fun)
        self._fun = nmap(fun) if belongs_to_jax(fun) else fun
        inner = getattr(fun, "func", None)
        self._name = str(
            getattr(fun, "__name__", None) or getattr(inner, "__name__", type(fun).__name__)
        )
        self._options = options
        self._parameters = parameters
        self._static_names = frozenset(
            name for i, name in enumerate(parameters or ()) if i in options.static_argnums
        )
        self._shared = shared
        self._is_mapped = bool(options.axis_resources)
        self._arrivals = Arrivals(options.mesh)
        self._used = axes_used(options.axis_resources)
        self._maps_all_axes = options.mesh is not None and self._used.issuperset(
            options.mesh.axis_names
        )
        self._compared: set[Any] = set()  # calls that were compared between processes

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the mapped function."""
        is_outside = not active_regions or ambient() is None
        if replacements and is_outside and (replace := replacement()) is not None:
            form = replace(self, args, kwargs)
            if form is not None:
                return form(*args, **kwargs)
        try:
            if is_distributed() and is_outside:
                compare_calls(self, args, kwargs)
            reshards = False
            if not is_outside or not self._is_mapped:
                args, kwargs = checked_values(args, kwargs)
            elif not self._arrivals.are_in_place(args, kwargs):
                reshards = True
                args, kwargs = checked_values(args, kwargs)
                if not isinstance(self._options.mesh, Mesh):
                    self._check_devices(args, kwargs)
                args, kwargs = self._place(args, kwargs)
            elif (
                self._maps_all_axes
                and not self._shared.reads_casts
                and (jitted := self._shared.jitted) is not None
            ):
                try:
                    return jitted(*args, **kwargs)
                except _CastsDisabledError:
                    pass
            run = self._shared.jitted
            if run is None:
                run = functools.partial(_run, self)
            result = trace_call(self, run, args, kwargs)
            return without_types(result, self._options.mesh) if reshards else result
        except Exception as error:
            if is_invalid_value(error) and self._options.axis_resources and not active_regions:
                find_invalid_value(self._without_layout(), self._name, error, args, kwargs)
            explain_jax_error(
                error, self._name, self._options.mesh, self._options.axis_resources, (args, kwargs)
            )
            shorten_traceback(error)
            raise

    def _without_layout(self) -> Xmapped:
        options = self._options.replace(axis_resources={}, mesh=None, donate_argnums=(), jit=False)
        return Xmapped(self._fun, options, self._parameters, Shared())

    @property
    def _passes(self) -> tuple[Pass, ...]:
        return tuple(name for name in PASSES if name not in self._options.left_out)

    def __get__(self, instance: object, owner: object = None) -> Xmapped | types.MethodType:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<xmap of {self._name} with axis_resources={self._options.axis_resources}>"

    def _compiled_form(self) -> Any:
        self._shared.reads_casts = True
        return self._jitted()

    def _jitted(self) -> Any:
        return self._shared.jitted if self._shared.jitted is not None else compile_mapped(self)

    def lower(self, *args: object, **kwargs: object) -> jax.stages.Lowered:
        """Lower the function for the given arguments, like `jax.jit(f).lower`.

        The arguments are arrays or `jax.ShapeDtypeStruct`s. With an `AbstractMesh` it lowers for
        the default backend. For another one write
        `f.trace(...).lower(lowering_platforms=("tpu",))`.
        """
        if self._options.axis_resources:
            args, kwargs = self._place(args, kwargs, only_type=True)
        unknown = (
            self._options.axis_resources
            and without_devices(self._options.mesh, jax.tree.leaves((args, kwargs))) is not None
        )
        # Without devices, JAX requires the platform.
        options: dict[str, Any] = (
            {"lowering_platforms": (jax.default_backend(),)} if unknown else {}
        )
        lowered: jax.stages.Lowered = under_automatic_casts(
            self.trace(*args, **kwargs).lower, **options
        )
        return lowered

    def trace(self, *args: object, **kwargs: object) -> jax.stages.Traced:
        """Trace the function for the given arguments, like `jax.jit(f).trace`."""
        args, kwargs = checked_values(args, kwargs)
        traced: jax.stages.Traced = trace_call(self, self._jitted().trace, args, kwargs)
        return traced

    def eval_shape(self, *args: object, **kwargs: object) -> PyTree:
        """Compute the types of the results without running, like `jax.jit(f).eval_shape`."""
        args, kwargs = checked_values(args, kwargs)
        return trace_call(self, self._jitted().eval_shape, args, kwargs)

    def _check_devices(self, args: object, kwargs: object) -> None:
        """Raise a `MeshError` unless the mesh or an argument determines the devices."""
        mesh = without_devices(self._options.mesh, jax.tree.leaves((args, kwargs)))
        if mesh is not None:
            raise MeshError(f"xmap: {no_devices(self._name, mesh)}")

    def _place(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], only_type: bool = False
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Reshard concrete arrays that are committed to another mesh or device onto the mesh.

        With `only_type` replace them by their type and sharding on the mesh, for lowering.
        """
        leaves = [leaf for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, jax.Array)]
        concrete = [leaf for leaf in leaves if not isinstance(leaf, jax.core.Tracer)]
        if not concrete:
            return args, kwargs
        mesh = concrete_mesh(self._options.mesh)
        if mesh is not None and has_explicit_axes(mesh):
            mesh = mesh_for(mesh, leaves)
        if mesh is None or all(is_placed(leaf, mesh) for leaf in concrete):
            return args, kwargs
        resources = on_devices(with_loops(self._options.axis_resources))
        check_mesh_axes(resources, mesh)

        def move(argument: Argument) -> object:
            data, leaf = argument.data, argument.leaf
            if (
                not isinstance(data, jax.Array)
                or isinstance(data, jax.core.Tracer)
                or is_placed(data, mesh)
            ):
                return leaf
            # JAX has no arrays with uneven blocks: an axis that does not divide enters unsharded.
            sizes = dict(zip(argument.dims, data.shape, strict=True))
            sharding = NamedSharding(
                mesh, partition_spec(argument.dims, dividing(resources, sizes, mesh))
            )
            if only_type:
                data = jax.ShapeDtypeStruct(
                    data.shape, data.dtype, weak_type=data.weak_type, sharding=sharding
                )
            else:
                with jax.ensure_compile_time_eval():  # also under a trace of jax.grad
                    data = jax.device_put(data, sharding)
            if not isinstance(leaf, NamedArray):
                return data
            padded = with_data(leaf, data)
            return make_in_region(data, leaf._dims) if padded is None else padded

        arguments, tree = name_arguments(self, args, kwargs)
        return _join(
            self, args, kwargs, jax.tree.unflatten(tree, [move(argument) for argument in arguments])
        )


# --- arguments to named arrays --------------------------------------------------------------------


def static_indices(xmapped: Xmapped, count: int) -> frozenset[int]:
    """Return the positions of the static arguments among `count` positional arguments."""
    return frozenset(i % count for i in xmapped._options.static_argnums if -count <= i < count)


def dynamic_arguments(
    xmapped: Xmapped, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that are not static."""
    static = static_indices(xmapped, len(args))
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in static)
    return dynamic, {
        name: value for name, value in kwargs.items() if name not in xmapped._static_names
    }


def _join(
    xmapped: Xmapped,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: tuple[Sequence[Any], Mapping[str, Any]],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Replace the dynamic arguments in `args` and `kwargs`.

    The new ones, `dynamic`, have the structure from `dynamic_arguments`.
    """
    static = static_indices(xmapped, len(args))
    supply = iter(dynamic[0])
    return tuple(arg if i in static else next(supply) for i, arg in enumerate(args)), {
        **kwargs,
        **dynamic[1],
    }


def _dynamic_parameters(xmapped: Xmapped) -> tuple[str, ...]:
    return tuple(name for name in xmapped._parameters or () if name not in xmapped._static_names)


def _mappings_for(xmapped: Xmapped, count: int, kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the mappings of the arguments as a prefix of `(args, kwargs)`.

    There are `count` positional arguments.
    """
    in_axes = xmapped._options.in_axes
    if in_axes is None or is_mapping(in_axes):
        return (in_axes,) * count, dict.fromkeys(kwargs, in_axes)
    if isinstance(in_axes, dict) and not count:
        in_axes = (in_axes,)
    if not isinstance(in_axes, tuple):
        raise AxisMappingError(
            f"xmap: in_axes is {format_value(in_axes)}. Write one axis mapping for all arguments,"
            " or a tuple with one mapping per argument."
        )
    names = _dynamic_parameters(xmapped)
    # A dict with string keys at the end contains the mappings of keyword arguments, unless it is
    # the mapping of a dict argument.
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
                f"xmap: in_axes has no axis mapping for the keyword argument {name!r} of"
                f" {xmapped._name}. Put a dict from keywords to mappings after the positional ones,"
                f" such as {{{name!r}: ['batch', ...]}}, or pass a named array."
            )
    if count > len(in_axes) or (count < len(in_axes) and len(in_axes) - count > len(found)):
        raise AxisMappingError(
            f"xmap: in_axes has length {len(in_axes)}, but {xmapped._name} was called with {count}"
            " positional arguments (without static ones). Write one axis mapping per argument, or"
            " a single one for all."
        )
    return in_axes[:count], found


def name_arguments(
    xmapped: Xmapped, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Argument], jax.tree_util.PyTreeDef]:
    """Return the arrays in the dynamic arguments with their dims, and the tree structure."""
    dynamic, names = dynamic_arguments(xmapped, args, kwargs), _dynamic_parameters(xmapped)
    mappings = (
        None
        if xmapped._options.in_axes is None
        else _mappings_for(xmapped, len(dynamic[0]), dynamic[1])
    )
    leaves, tree = leaves_with_mappings(
        dynamic,
        mappings,
        "xmap, in_axes",
        (
            lambda path: f"in_axes{jax.tree_util.keystr(path[1:])}",
            lambda path: describe_argument(path, names) if path else "the arguments",
        ),
    )
    region, arguments = ambient(), list[Argument]()
    for leaf, mapping, path in leaves:
        if isinstance(leaf, NUMPY):
            leaf = jnp.asarray(leaf)
        padding = None
        if type(leaf) is NamedArray:
            try:
                get_data(leaf)
            except AttributeError:
                padding = padding_of(leaf)
        if padding is not None and (region is None or not region.resources):
            # The stored data, whose padded sizes `_run_once` replaces by the true ones.
            data, dims = attach_names(
                make(stored_data(leaf), leaf._dims),
                mapping,
                "xmap",
                functools.partial(_text_of, leaf, path, names),
            )
            arguments.append(Argument(leaf, data, dims, path, names, padding))
            continue
        if region is not None:
            leaf = to_local(leaf, "xmap", region)
        if mapping is None:
            data, dims = (
                (leaf._data, leaf._dims) if type(leaf) is NamedArray else (leaf, dims_of(leaf))
            )
        else:
            data, dims = attach_names(
                leaf, mapping, "xmap", functools.partial(_text_of, leaf, path, names)
            )
        arguments.append(Argument(leaf, data, dims, path, names))
    return arguments, tree


def _text_of(leaf: object, path: Sequence[Any], names: Sequence[str]) -> str:
    return f"{describe_argument(path, names)}, {type_text(leaf)},"


def _collect_sizes(
    arguments: Sequence[Argument], axis_sizes: Mapping[Hashable, int], outer: Region | None
) -> dict[Hashable, int]:
    """Collect axis sizes from the surrounding mapped function, the arguments and `axis_sizes`."""
    sizes: dict[Hashable, int] = {} if outer is None else dict(outer.sizes)
    origin: dict[Hashable, str | Argument] = dict.fromkeys(sizes, "the surrounding mapped function")
    for name, size in axis_sizes.items():
        if sizes.get(name, size) != size:
            raise AxisSizeError(
                f"xmap: axis {name!r} has size {sizes[name]} in {origin[name]}, and size {size} in"
                " axis_sizes; a name has one size. Use two names."
            )
        sizes[name], origin[name] = size, "axis_sizes"
    for argument in arguments:
        if not argument.dims:
            continue
        if type(argument.leaf) is NamedArray:
            positions(argument.leaf, f"xmap, {argument.what}")
        shape = (
            argument.data.shape
            if isinstance(argument.data, jax.core.Tracer)
            else np.shape(argument.data)
        )
        true_sizes = {} if argument.padding is None else argument.leaf.named_shape
        for dim, n in zip(argument.dims, shape, strict=True):
            if dim is None:
                continue
            n = true_sizes.get(dim, n)
            if outer is not None and dim in dims_of(argument.leaf):  # the data is a block
                n = outer.global_size(dim, n)
            if sizes.setdefault(dim, n) != n:
                first = origin[dim]
                where = (
                    first
                    if isinstance(first, str)
                    else f"{first.what} of shape {np.shape(first.data)}"
                )
                raise AxisSizeError(
                    f"xmap: axis {dim!r} has size {sizes[dim]} in {where}, and size {n} in"
                    f" {argument.what} of shape {shape}; a name has one size. Check the axis"
                    " mappings in in_axes, or use two names."
                    + placeholder_remedy(
                        shape, () if isinstance(first, str) else np.shape(first.data)
                    )
                )
            origin.setdefault(dim, argument)
    return sizes


def _is_empty(
    resources: Assignment, sizes: Mapping[Hashable, int], arguments: Sequence[Argument]
) -> bool:
    """Return True if a mapped axis or every argument is empty.

    XLA cannot compile a `jax.shard_map` with only empty operands.
    """
    if 0 in sizes.values() and any(sizes.get(name) == 0 for name in resources):
        return True
    return bool(arguments) and all(0 in np.shape(argument.data) for argument in arguments)


# --- one call -------------------------------------------------------------------------------------


def _run(xmapped: Xmapped, *args: object, **kwargs: object) -> PyTree:
    """Run one call, traced or eager.

    A region is immutable, and the size of an uneven axis must be known when the body begins. If the
    body creates such an axis, the call begins again with its size.
    """
    found: dict[Hashable, int] = {}
    while True:
        try:
            return _run_once(xmapped, found, args, kwargs)
        except NamedaxError as error:
            outer = ambient()
            if error.found_size is None:
                raise
            name, size = error.found_size
            # the surrounding mapped function shards the axis, and must know its size too
            if name in found or (outer is not None and name in outer.resources):
                raise
            found[name] = size
        except MappedAxes:
            if all_axes() is None:
                raise
            return without_request(functools.partial(_run, xmapped, *args, **kwargs))


def _run_once(
    xmapped: Xmapped, found: Mapping[Hashable, int], args: Any, kwargs: dict[str, Any]
) -> PyTree:
    """Name the arguments, create the region, lower the body; `found` are sizes from the body."""
    outer, options = ambient(), xmapped._options
    arguments, tree = name_arguments(xmapped, args, kwargs)
    sizes = {**found, **_collect_sizes(arguments, options.axis_sizes, outer)}
    resources = with_loops(xmapped._options.axis_resources)
    left_out = xmapped._options.left_out | (frozenset() if outer is None else outer.left_out)
    if SERIAL_STEPS in left_out:
        resources = on_devices(resources)

    def function(named: list[Any]) -> PyTree:
        args_, kwargs_ = _join(xmapped, args, kwargs, jax.tree.unflatten(tree, named))
        return call_user_code(xmapped._fun, *args_, **kwargs_)

    def call_in(region: Region, carried: frozenset[Hashable] = frozenset()) -> Call:
        return _call_in(xmapped, function, arguments, sizes, region, carried)

    given = _given(options, arguments, outer).union(found)
    if outer is not None and outer.resources:
        return _run_within(xmapped, outer, sizes, resources, left_out, given, call_in)
    devices = on_devices(resources)
    mesh, from_context = resolve_mesh(xmapped._options.mesh) if devices else (None, False)
    check_mesh_axes(devices, mesh, names=sizes)
    if devices and not from_context:
        mesh = mesh_for(mesh, [argument.data for argument in arguments])
    auto = xmapped._options.partitioning == "auto" or _is_empty(resources, sizes, arguments)
    if auto:
        # XLA's partitioner supports no loops, and aborts on uneven blocks.
        resources = dividing(devices, sizes, mesh)
    loops = loops_of(resources)
    traced_on = virtual_mesh(mesh, loops) if loops else mesh
    mode: Partitioning = "auto" if auto and resources else "manual"
    carried = frozenset[Hashable]()
    if outer is not None:
        carried = carried_names(outer, arguments)
    region = Region(
        sizes,
        resources,
        traced_on,
        mode,
        xmapped._shared.program,
        options.overlap,
        left_out,
        _slow_axes(xmapped, mesh),
        depth=1 if outer is None else outer.depth + 1,
        given=given,
    )
    _enter_stored(arguments, region if resources and not auto else None, mesh)
    call = call_in(region, carried)
    call.mesh = mesh
    call.request = all_axes()
    if devices and not auto and mesh is not None:
        call.unmapped = frozenset(mesh.axis_names) - axes_used(devices)
    if not resources:
        result = run_unmapped(call)
    elif loops:
        result = run_in_steps(call, mesh, from_context)
    else:
        result = (run_auto if auto else run_manual)(call, mesh, from_context)
    if outer is not None:
        outer.seen.update(call.region.seen)
    return result


def _enter_stored(
    arguments: list[Argument], region: Region | None, mesh: Mesh | AbstractMesh | None
) -> None:
    """Take arguments that are stored padded as blocks where `region` pads them to the same size."""
    for argument in arguments:
        if argument.padding is not None:
            argument.data, argument.stored = enter_stored(
                argument.data, argument.dims, argument.padding, region, mesh
            )


def _call_in(
    xmapped: Xmapped,
    function: Callable[[list[Any]], Any],
    arguments: list[Argument],
    sizes: Mapping[Hashable, int],
    region: Region,
    carried: frozenset[Hashable],
) -> Call:
    """Return the call of `function` in a region, after checking that its blocks fit the sizes."""
    for name in sizes:
        if name in region.resources:
            region.block_size(name, sizes[name], "xmap", supports_padding=True)
    options = xmapped._options
    tracked = options.mesh is not None and has_explicit_axes(options.mesh)
    program, source = xmapped._shared.program, source_of(xmapped._fun)
    return Call(
        function, xmapped._name, options, arguments, region, program, tracked, source, carried
    )


def _slow_axes(xmapped: Xmapped, mesh: Mesh | AbstractMesh | None) -> SlowAxes:
    """Return the slow mesh axes of a call on this mesh."""
    options = xmapped._options
    if mesh is None:
        return ()
    return tuple(slow_axes_on(options.slow_axes, mesh, options.mesh).items())


def _given(
    options: XmapOptions, arguments: list[Argument], outer: Region | None
) -> frozenset[Hashable]:
    """Return the names that an inner mapped function attaches or sizes itself."""
    if outer is None:
        return frozenset()
    new = (
        dim for argument in arguments for dim in argument.dims if dim not in dims_of(argument.leaf)
    )
    return frozenset(options.axis_sizes).union(new)


def _run_within(
    xmapped: Xmapped,
    outer: Region,
    sizes: dict[Hashable, int],
    resources: Assignment,
    left_out: frozenset[str],
    given: frozenset[Hashable],
    call_in: Callable[..., Call],
) -> PyTree:
    """Run one call within the body of a mapped function that shards axes over a mesh."""
    new_axes = check_nested(xmapped._name, xmapped._options.mesh, resources, outer)
    if new_axes and outer.mode == "global":
        raise AxisResourceError(
            f"xmap: {xmapped._name} is called in a function that is mapped with"
            f" partitioning='global', and maps axes over the mesh axes {show_names(new_axes)},"
            " which that function does not map. Add these axes to axis_resources of the outer"
            " function."
        )
    region = Region(
        sizes,
        {**outer.resources, **resources},
        outer.mesh,
        outer.mode,
        xmapped._shared.program,
        xmapped._options.overlap or outer.overlap,
        left_out,
        _slow_axes(xmapped, outer.mesh if new_axes else None) or outer.slow_axes,
        depth=outer.depth + 1,
        given=given,
    )
    call = call_in(region)
    call.carried = carried_names(outer, call.arguments)
    if outer.mode != "manual":
        result = call.run(*(argument.data for argument in call.arguments))
    else:
        result = run_nested(call, outer, new_axes)
    outer.seen.update(region.seen)
    return result
