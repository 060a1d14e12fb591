"""`xmap`: check the options of a function to be mapped, and find its compiled program again."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from namedax.core.axis_mappings import copied, is_mapping
from namedax.core.names import Mesh, is_name
from namedax.errors import (
    ArgumentError,
    AxisMappingError,
    AxisResourceError,
    AxisSizeError,
    format_value,
)
from namedax.messages.call_errors import checks_signature
from namedax.ops.contraction.rings import OVERLAPS, Overlap
from namedax.programs.evaluator import PASSES, Pass, skipped_passes
from namedax.resources.assignment import parse_resources
from namedax.resources.mesh import check_mesh
from namedax.resources.two_level import parse_slow_axes
from namedax.xmap.mapped_function import Shared, Xmapped, compile_mapped
from namedax.xmap.options import Partitioning, XmapOptions

__all__ = ["xmap"]


@checks_signature
def xmap(
    fun: Callable[..., Any],
    in_axes: object = None,
    out_axes: object = None,
    *,
    axis_sizes: Mapping[Hashable, int] | None = None,
    axis_resources: Mapping[Hashable, Any] | None = None,
    mesh: Mesh | None = None,
    donate_argnums: int | Sequence[int] = (),
    static_argnums: int | Sequence[int] = (),
    partitioning: Partitioning = "manual",
    overlap: Overlap = False,
    passes: Sequence[Pass] = PASSES,
    slow_axes: Sequence[str] | Mapping[str, int] | None = None,
    jit: bool = True,
) -> Xmapped:
    """Map a function over named axes, and the named axes over mesh axes.

    Args:
      fun: a function of named arrays. A function that belongs to JAX (`jnp.vdot`, a
        `functools.partial` of one) gets positional arrays, and is lifted over all named axes, as
        with `nx.nmap`.
      in_axes: a pytree prefix of axis mappings for the arguments, which name their positional axes.
        A mapping is a dict `{0: "batch"}`, a list with one element per axis `["batch", None]`, or a
        list that ends with `...`. Default: `None`, for arguments that are already named arrays or
        have no names. Mappings of keyword arguments follow in a dict after the positional mappings,
        or take the position of their parameter. Static arguments have no mapping.
      out_axes: a pytree prefix of axis mappings for the results, which make their named axes
        positional. A result that lacks an axis of its mapping is broadcast along it. Default:
        `None`, which returns named arrays.
      axis_sizes: sizes of axes that no argument has and no operation of `fun` gives, such as a new
        axis of a result in `out_axes`. Default: none.
      axis_resources: a mesh axis or a tuple of mesh axes, major first, for every axis name to
        shard. Other axes are vectorized. Results do not depend on it. Default: none.
      mesh: a `jax.sharding.Mesh`. Default: the mesh of the surrounding `jax.set_mesh`. The compiler
        manages mesh axes that `axis_resources` does not mention. An `AbstractMesh` of any size
        suffices for `lower`, `trace` and `eval_shape`. Axes count as Explicit only under
        `jax.set_mesh`, or if the type of an argument has them; otherwise they count as Auto. So an
        `AbstractMesh` without `axis_types` (Auto on JAX 0.10, Explicit on JAX 0.12) gives the same
        program on both.
      donate_argnums: as in `jax.jit`. Default: none.
      static_argnums: as in `jax.jit`. Default: none.
      partitioning: `"manual"` (default): one `jax.shard_map`, in which the data of an array are the
        block of a device and operations of namedax communicate. `"global"`: the body is traced on
        global arrays, so that `x.data` is the global array and functions of JAX are right in every
        layout; then a partitioner evaluates it on blocks, also under one `jax.shard_map`.
        Operations of namedax send what they send under `"manual"`; tracing takes longer.
        `"auto"`: the same program on global arrays, with a sharding constraint on every named
        value; XLA's partitioner inserts the communication.
      overlap: the default of `overlap` for `nx.einsum` and `nx.dot` in this function. They can
        compute with one block while the next is sent, in one direction of a ring (`True`) or in
        both (`"bidirectional"`). Default: `False`.
      passes: the passes over the traced program. Default: all passes. Results do not depend on
        them, so leave one out to debug. `"late_sums"` postpones psums where that sends fewer bytes.
        `"loop_casts"` sums the gradient of values that the body of a loop reads over mesh axes
        once, after the loop. `"serial_steps"` executes an axis with an `nx.SerialLoop` in steps;
        without it, the axis runs in one step and takes the full memory. A nested mapped function
        skips the passes that either function skips.
      slow_axes: the mesh axes between hosts or slices, such as `("dcn",)`. Psums, gathers and
        reduce-scatters over them and other axes together run in two levels, in the gradient too:
        within the fast axes, and with one part of the data over the slow ones. Gradients of
        functions with a `jax.custom_vjp` are an exception. A dict gives for each axis the smallest
        payload in bytes that runs in two levels, such as `{"dcn": 2**20}`; see
        `nx.machines.Machine.two_level_from`. Default: 32 KiB, and the axes of `mesh` along which
        the slice of TPUs or the host of other devices changes. `()` turns it off.
      jit: if `False`, do not compile. If also no axis is mapped, values in the body are concrete.
        Default: `True`.

    Returns:
      A callable with the methods `lower`, `trace` and `eval_shape` of a `jax.jit` function. The
      same function object with the same options gives the same callable again. As for `jax.jit`,
      each access of a bound method and each new `functools.partial` is a different function; keep
      the one that you wrapped.

    The errors are raised when the result is called.

    Raises:
      AxisMappingError: a mapping is malformed or does not match its array.
      AxisSizeError: two arguments have different sizes for one axis name, or a size does not divide
        over its mesh axes.
      AxisResourceError: `axis_resources` or `axis_sizes` contain an axis name that does not occur
        in the program.
      MeshError: there is no mesh, or it lacks a mesh axis.
      NamedAxesLeftError: a result has a named axis that is not in `out_axes`.
      PlacementConflictError: two axes of one value are sharded over one mesh axis.

    >>> import jax, jax.numpy as jnp, namedax as nx
    >>> mesh = jax.make_mesh((4, 2), ("x", "y"))
    >>> def predict(w, images):
    ...     return nx.nn.relu(nx.dot(images, w, "inputs"))
    >>> f = nx.xmap(predict, in_axes=(["inputs", "hidden"], ["batch", "inputs"]),
    ...             out_axes=["batch", "hidden"],
    ...             axis_resources={"batch": "x", "hidden": "y"}, mesh=mesh)
    >>> f(jnp.ones((3, 6)), jnp.ones((8, 3))).sharding.spec
    P('x', 'y')
    """
    if not callable(fun):
        raise AxisMappingError(
            f"xmap: fun must be a function, got {format_value(fun)}. Pass the function itself, and"
            " call the result: nx.xmap(f)(x)."
        )
    if partitioning not in ("manual", "global", "auto"):
        raise AxisResourceError(
            "xmap: partitioning must be 'manual', 'global' or 'auto', got"
            f" {format_value(partitioning)}."
        )
    check_mesh(mesh, "xmap")
    if overlap not in OVERLAPS:
        raise ArgumentError(
            f"xmap: overlap must be True, False or 'bidirectional', got {format_value(overlap)}."
        )
    skipped = skipped_passes(passes)
    slow = parse_slow_axes(slow_axes)
    if slow and partitioning == "auto":
        raise ArgumentError(
            f"xmap: slow_axes={format_value(slow_axes)} has no effect with partitioning='auto',"
            " where XLA inserts the communication. Omit slow_axes, or use partitioning='manual'."
        )
    if in_axes is not None and isinstance(in_axes, list) and not is_mapping(in_axes):
        in_axes = tuple(in_axes)
    sizes, resources = _parse_sizes(axis_sizes), parse_resources(axis_resources)
    parameters = _parameter_names(fun)
    donated, static = _positions(donate_argnums, parameters), _positions(static_argnums, parameters)
    options = XmapOptions(
        in_axes,
        out_axes,
        sizes,
        resources,
        mesh,
        donated,
        static,
        partitioning,
        overlap,
        skipped,
        slow,
        jit,
    )
    with _wrapping:  # two threads that wrap one function get one wrapper, with its compiled program
        shared = _shared(fun, options.key())
        known = shared.wrapper() if shared.wrapper is not None else None
        if known is None:
            # Users may change their own mappings.
            own = options.replace(in_axes=copied(in_axes), out_axes=copied(out_axes))
            known = Xmapped(fun, own, parameters, shared)
            if jit and shared.jitted is None:
                shared.jitted = compile_mapped(known)
            shared.wrapper = weakref.ref(known)
    return known


# By the id of a function, until it is collected: options to the shared state of their wrappers, in
# order of last use.
_programs: dict[int, dict[Hashable, Shared]] = {}
_MAX_PROGRAMS = 256
_wrapping = threading.RLock()  # reentrant: the hash of an option may be a user's function


def _shared(fun: object, options: Hashable) -> Shared:
    """Return the shared state of an earlier wrapper of `fun` with the same options, or a new one.

    The key is the function object, as in `jax.jit`. So a new bound method is a different function,
    because its object may have changed, and so is a new `functools.partial` of equal arguments. So
    is a callable object whose hash has changed.
    """
    try:
        key = (hash(fun), options)
        hash(key)
        if id(fun) not in _programs:
            weakref.finalize(fun, _programs.pop, id(fun), None).atexit = False
    except TypeError:  # the function or an option is not hashable, or not weakly referenceable
        return Shared()
    programs = _programs.setdefault(id(fun), {})
    programs[key] = shared = programs.pop(key, None) or Shared()
    while len(programs) > _MAX_PROGRAMS:
        programs.pop(next(iter(programs)))
    return shared


def _parse_sizes(axis_sizes: Mapping[Hashable, int] | None) -> dict[Hashable, int]:
    if axis_sizes is not None and not isinstance(axis_sizes, Mapping):
        raise AxisSizeError(
            f"xmap: axis_sizes is {format_value(axis_sizes)}, not a dict. Write a dict from axis"
            " names to sizes, such as {'batch': 128}."
        )
    sizes: dict[Hashable, int] = {}
    for name, size in (axis_sizes or {}).items():
        if not is_name(name):
            raise AxisSizeError(
                f"xmap: axis_sizes has the key {format_value(name)}, which is not an axis name."
                " Write axis names as keys, such as {'batch': 128}."
            )
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise AxisSizeError(
                f"xmap: axis_sizes gives {name!r} the size {format_value(size)}; a size must be a"
                " nonnegative integer."
            )
        sizes[name] = int(size)
    return sizes


def _parameter_names(fun: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the names of the parameters that accept positional arguments.

    Return `None` if their number is unknown.
    """
    try:
        parameters = inspect.signature(fun).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return tuple(
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    )


def _positions(numbers: int | Sequence[int], parameters: tuple[str, ...] | None) -> tuple[int, ...]:
    """Return argument numbers as a tuple.

    Negative ones count from the last parameter, even if a call passes it by keyword.
    """
    given = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    if parameters is None:
        return given
    return tuple(i + len(parameters) if -len(parameters) <= i < 0 else i for i in given)
