"""The functions of `jax.lax` that have a named version, and those that operate on devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax import lax

from namedax.core.array import is_named
from namedax.core.display import type_text
from namedax.core.jax_docstrings import documented
from namedax.core.region import ambient
from namedax.errors import ArgumentTypeError
from namedax.messages.call_errors import call_or_reject
from namedax.messages.tracebacks import shorten_eager
from namedax.ops.collectives import permuting, reducing
from namedax.ops.collectives.gathering import pgather
from namedax.ops.contraction.pdot import pdot
from namedax.ops.indexing import slicing
from namedax.ops.loops import associative_scan, branches, control_flow, vmap
from namedax.ops.namespaces.mirror import public
from namedax.ops.namespaces.registry import Functions, only, public_functions, without
from namedax.ops.operands.axes import holds_names
from namedax.ops.operands.dispatch import call_program
from namedax.ops.reduction import cumulative, reductions
from namedax.ops.shape import broadcast_to, joining, repeating
from namedax.ops.sorting import sorting, together
from namedax.primitives.equations import COLLECTIVES

__all__ = ["LAX"]


def _of_devices(name: str, is_collective: bool, remedy: str) -> Callable[..., Any]:
    """Build a function of JAX that operates on devices, and rejects named arrays.

    A collective is rejected in every mapped function with mesh axes.
    """
    function = getattr(lax, name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            region = ambient()
            values = [*args, *kwargs.values()]
            is_mapped = region is not None and bool(region.resources)
            if holds_names(values) or (is_collective and is_mapped):
                leaves = jax.tree.leaves(values, is_leaf=is_named)
                of = ", ".join(map(type_text, filter(is_named, leaves))) or "a mapped function"
                raise ArgumentTypeError(
                    f"{name}: it operates on devices and does not accept named arrays; it was"
                    f" called for {of}. {remedy}"
                )
            if is_collective:
                return call_or_reject(function, args, kwargs)
            return call_program(call_or_reject, (function, args, kwargs), {})
        except Exception as error:
            shorten_eager(error)
            raise

    call.__module__ = "namedax.lax"
    call.__doc__ = documented(
        function,
        "The function of JAX, with the same arguments, for arrays without names outside of mapped\n"
        f"functions. {remedy}",
        names="",
        communication="that of JAX's function." if is_collective else "none.",
    )
    return call


# What to use with named arrays instead of collectives over devices, and of other such functions.
_INSTEAD_OF_COLLECTIVES = {
    **dict.fromkeys(("psend", "precv"), "Use nx.lax.ppermute to send elements."),
    "ragged_all_to_all": (
        "Use nx.take, nx.segment_sum or nx.nn.mixture_of_experts to send elements to computed"
        " destinations."
    ),
    # JAX 0.12 has `psum_scatter_start`.
    **{
        f"{name}_start": f"Use nx.lax.{name}, which XLA makes asynchronous where that helps."
        for name in COLLECTIVES
    },
}
_INSTEAD = {
    "with_sharding_constraint": (
        "The sharding of a named array follows from its names: nx.shard(x, axis_resources, mesh)."
    ),
    "rng_uniform": ("nx.random has samplers by name: nx.random.uniform(key, named_shape=...)."),
    "rng_bit_generator": ("nx.random has samplers by name: nx.random.bits(key, named_shape=...)."),
}

LAX: Functions = {
    **{name: getattr(reducing, name) for name in reducing.__all__ if name != "global_index"},
    **permuting.FUNCTIONS,
    "pdot": pdot,
    "pgather": pgather,
    **broadcast_to.LAX_FUNCTIONS,
    **cumulative.LAX_FUNCTIONS,
    **reductions.LAX_FUNCTIONS,
    **slicing.LAX_FUNCTIONS,
    **only(public_functions(sorting), "top_k"),
    **without(public_functions(control_flow), "fold"),
    **public_functions(branches),
    **only(public_functions(vmap), "map"),
    **public_functions(associative_scan),
    "concatenate": joining.lax_concatenate,
    "optimization_barrier": control_flow.optimization_barrier,
    "rev": repeating.rev,
    "sort": together.lax_sort,
    "sort_key_val": together.lax_sort_key_val,
    **{
        name: _of_devices(name, name in _INSTEAD_OF_COLLECTIVES, remedy)
        for name, remedy in (_INSTEAD_OF_COLLECTIVES | _INSTEAD).items()
        if name in public(lax)
    },
}
