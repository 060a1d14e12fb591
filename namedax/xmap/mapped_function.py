"""Mapped functions: their methods, and the compiled programs of their calls.

A call checks that its arguments are on the mesh, and runs the compiled program. While that is
traced, `namedax.xmap.regions` makes the region.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Hashable
from typing import Any

import jax
from jax.distributed import is_initialized as is_distributed
from jax.sharding import Mesh

from namedax.core.functions import set_display_source, source_of
from namedax.core.names import PyTree
from namedax.core.region import active_regions, ambient
from namedax.core.stack_depth import with_stack_depth
from namedax.core.variance import casts_automatically, under_automatic_casts
from namedax.messages.tracebacks import shorten_traceback
from namedax.ops.operands.nmap import belongs_to_jax, nmap
from namedax.programs.evaluator import PASSES, Pass
from namedax.resources.mesh import without_devices, without_types
from namedax.xmap.argument_placement import (
    PlacementCheck,
    check_devices,
    checked_values,
    place_arguments,
)
from namedax.xmap.call_comparison import compare_calls
from namedax.xmap.effects import axes_used, trace_call
from namedax.xmap.explanations import explain_jax_error, find_invalid_value, is_invalid_value
from namedax.xmap.options import XmapOptions
from namedax.xmap.regions import run_call
from namedax.xmap.replaced_layouts import replacement, replacements

__all__ = ["Shared", "Xmapped", "compile_mapped"]


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
        return with_stack_depth(run_call, shared.wrapper(), *args, **kwargs)

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
        self._placement = PlacementCheck(options.mesh)
        self._used = axes_used(options.axis_resources)
        self._maps_all_axes = options.mesh is not None and self._used.issuperset(
            options.mesh.axis_names
        )
        self._compared: set[Any] = set()  # calls that were compared between processes

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Call the mapped function."""
        is_outside = not active_regions or ambient() is None
        if replacements and is_outside and (replace := replacement()) is not None:
            replaced = replace(self, args, kwargs)
            if replaced is not None:
                return replaced(*args, **kwargs)
        try:
            if is_distributed() and is_outside:
                compare_calls(self, args, kwargs)
            reshards = False
            if not is_outside or not self._is_mapped:
                args, kwargs = checked_values(args, kwargs)
            elif not self._placement.are_placed(args, kwargs):
                reshards = True
                args, kwargs = checked_values(args, kwargs)
                if not isinstance(self._options.mesh, Mesh):
                    check_devices(self, args, kwargs)
                args, kwargs = place_arguments(self, args, kwargs)
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
                run = functools.partial(run_call, self)
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
            args, kwargs = place_arguments(self, args, kwargs, only_type=True)
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
