"""Bodies with checks and callbacks, which JAX cannot lower on a part of the mesh axes.

`jax.shard_map` over a part of the mesh axes leaves the others to XLA's partitioner, which supports
neither callbacks that return values nor the errors of `checkify`. Such a body is mapped over all
mesh axes instead, and replicated over those that the layout does not map. `trace_call` decides
this, by the trace of the body, or by a `checkify` around the call. All other bodies are unchanged.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr
from jax.sharding import NamedSharding

from namedax.core.array import is_named, stored_data
from namedax.core.names import PyTree
from namedax.core.records import Record
from namedax.core.variance import under_automatic_casts
from namedax.errors import MeshError
from namedax.primitives.equations import facts, jaxprs_of, open_jaxpr
from namedax.primitives.record import AnyJaxpr
from namedax.resources.mesh import current_mesh, entry_of, in_trace
from namedax.resources.serial import LoopAxis
from namedax.xmap.options import Mapped

__all__ = [
    "AllAxes",
    "MappedAxes",
    "all_axes",
    "axes_used",
    "check_calls",
    "trace_call",
    "without_request",
]


class AllAxes(Record):
    """The request to map a body over all mesh axes.

    `sharded` are the mesh axes that the layout does not map, and over which an argument is sharded.
    `is_checkified` is True within `checkify`; otherwise only a body with callbacks needs the axes.
    """

    sharded: frozenset[str]
    is_checkified: bool


class MappedAxes(Exception):
    """Signal that a body must be traced again, over all mesh axes or over those of its layout."""


# Part of JAX's cache keys, since the program depends on it.
_context = jax.make_user_context(None)

#: Return the request of the present call, or `None`.
all_axes: Callable[[], AllAxes | None] = functools.partial(operator.attrgetter("value"), _context)


def without_request(function: Callable[[], Any]) -> Any:
    """Call a function that maps a body over the axes of its layout only."""
    with _context(None):
        return function()


def axes_used(resources: Mapping[Hashable, tuple[Any, ...]]) -> frozenset[str]:
    """Return the mesh axes of parsed `axis_resources`, without those of loops."""
    return frozenset(
        axis
        for axes in resources.values()
        for axis in axes
        if isinstance(axis, str) and not isinstance(axis, LoopAxis)
    )


def trace_call(
    mapped: Mapped,
    run: Callable[..., PyTree],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    **options: Any,
) -> Any:
    """Return `run(*args, **kwargs, **options)`, with a request if the body requires all mesh axes.

    Args:
      mapped: the mapped function.
      run: its compiled program, or one of its methods.
      args: the positional arguments.
      kwargs: the other ones.
      **options: options of `run`.
    """
    mesh: Any = mapped._options.mesh
    if mesh is None and mapped._used:
        mesh = current_mesh()
    if not mapped._used or mesh is None or mapped._used.issuperset(mesh.axis_names):
        return under_automatic_casts(run, *args, **kwargs, **options)
    is_checkified = _is_checkified()
    if not is_checkified and not mapped._shared.calls_python:
        try:
            return under_automatic_casts(run, *args, **kwargs, **options)
        except MappedAxes:
            mapped._shared.calls_python = True
    unmapped = frozenset(mesh.axis_names) - mapped._used
    with _context(AllAxes(_axes_of((args, kwargs)) & unmapped, is_checkified)):
        return under_automatic_casts(run, *args, **kwargs, **options)


def check_calls(
    closed: ClosedJaxpr, function: str, unmapped: Iterable[str], request: AllAxes | None
) -> None:
    """Check that a traced body is mapped over the mesh axes that it requires.

    Args:
      closed: the traced body.
      function: the name of its function, for messages.
      unmapped: the mesh axes that its layout does not map.
      request: the request of the call, or `None`.

    Raises:
      MappedAxes: it must be traced again, over all mesh axes or over those of the layout.
      MeshError: it requires all mesh axes, but an argument is sharded over an unmapped one.
    """
    axes = sorted(unmapped)
    if not axes:
        return
    name = _call_of_python(closed.jaxpr, set())
    if name is None and request is not None and request.is_checkified:
        name = "checkify"
    if (name is None) != (request is None):
        raise MappedAxes
    if name is not None and request is not None and request.sharded:
        axis = min(request.sharded)
        raise MeshError(
            f"xmap: {function} is mapped over all mesh axes, because of {name}, but an argument is"
            f" sharded over mesh axis {axis!r}, which axis_resources does not mention. Map an axis"
            f" of that argument to it, axis_resources={{..., name: {axis!r}}}, or replicate the"
            f" argument over it, with nx.shard or jax.device_put."
        )


def _call_of_python(jaxpr: AnyJaxpr, seen: set[int]) -> str | None:
    """Return the function of JAX in a jaxpr that XLA's partitioner does not support, or `None`."""
    if id(jaxpr) in seen:
        return None
    seen.add(id(jaxpr))
    for eqn in open_jaxpr(jaxpr).eqns:
        if (name := facts(eqn).needs_all_axes) is not None:
            return name
        for inner in jaxprs_of(eqn):
            if (name := _call_of_python(inner, seen)) is not None:
                return name
    return None


def _axes_of(arguments: PyTree) -> frozenset[str]:
    """Return the mesh axes over which arguments are sharded, as far as it is known.

    JAX's types do not mention the Auto axes of an argument under `jax.jit`.
    """
    found = set[str]()
    for leaf in jax.tree.leaves(arguments, is_leaf=is_named):
        data = stored_data(leaf) if is_named(leaf) else leaf
        if isinstance(data, (jax.core.Tracer, jax.ShapeDtypeStruct, jax.Array)):
            sharding = (
                jax.typeof(data).sharding if isinstance(data, jax.core.Tracer) else data.sharding
            )
            if isinstance(sharding, NamedSharding):
                spec = sharding.spec
                found.update(axis for dim in range(len(spec)) for axis in entry_of(spec, dim))
    return frozenset(found)


def _is_checkified() -> bool:
    """Return True if `checkify` traces the present call.

    It replaces the checks of a program after the trace, so no value shows it: only the call stack.
    """
    loaded = sys.modules.get("jax.experimental.checkify")
    if loaded is None or not in_trace():
        return False
    file = loaded.checkify.__code__.co_filename
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename == file:
            return True
        frame = frame.f_back
    return False
