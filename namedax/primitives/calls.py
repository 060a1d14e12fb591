"""Records of primitives that run jaxprs or functions of Python."""

from __future__ import annotations

from collections.abc import Mapping

from namedax.primitives.dimensions import NONE
from namedax.primitives.record import Kind, Primitive
from namedax.resources.two_level import PRIMITIVE as TWO_LEVEL

__all__ = ["CALL_OF_PYTHON", "HIGH", "OLDER", "RECORDS"]

#: The primitive of `namedax.debug`, which calls Python once for all devices.
CALL_OF_PYTHON = "named_callback"
#: The primitive of all equations of JAX 0.12 that hold an object with its own rules, instead of
#: parameters: its parameter `_prim` is a `jax.experimental.hijax.HiPrim`.
HIGH = "call_hi_primitive"
#: The older primitives that are equivalent to the classes of such objects.
OLDER = {
    "RematTraced": "remat2",
    "CustomJVPTraced": "custom_jvp_call",
    "CustomVJPTraced": "custom_vjp_call",
    "CheckpointName": "name",
    "CheckpointNameFwd": "name",
}


# A callback that shows the block of each device.
_SHOWN = Primitive(
    Kind.UNKNOWN,
    shows_values=True,
    forward=lambda eqn, known: ([None] * len(eqn.outvars), NONE),
)

RECORDS: Mapping[str, Primitive] = {
    "jit": Primitive(Kind.CALL, ("jaxpr", "inline", "compiler_options_kvs")),
    "closed_call": Primitive(Kind.CALL, ("call_jaxpr",)),  # JAX 0.10
    "eval_jaxpr": Primitive(Kind.CALL, ("call_jaxpr",)),  # JAX 0.12
    "custom_jvp_call": Primitive(Kind.RULE, ("call_jaxpr",)),
    "custom_vjp_call": Primitive(Kind.RULE, ("call_jaxpr", "bwd")),
    "custom_vmap_call": Primitive(Kind.RULE, ("call",)),
    "custom_partitioning": Primitive(Kind.RULE, ("call",)),
    TWO_LEVEL.name: Primitive(Kind.RULE, ("jaxpr",)),
    HIGH: Primitive(Kind.RULE, ("_prim",)),  # JAX 0.12
    "remat2": Primitive(Kind.REMAT, ("jaxpr", "prevent_cse", "differentiated", "policy")),
    "custom_linear_solve": Primitive(Kind.SOLVE, ("const_lengths", "jaxprs")),
    "scan": Primitive(Kind.SCAN, ("jaxpr", "length", "reverse", "unroll")),
    "while": Primitive(Kind.WHILE, ("cond_nconsts", "cond_jaxpr", "body_nconsts", "body_jaxpr")),
    "cond": Primitive(Kind.BRANCH, ("branches",)),
    "shard_map": Primitive(
        Kind.MAP, ("jaxpr", "in_specs", "out_specs", "mesh", "newly_manual_axes")
    ),
    # Callbacks, and the checks of `checkify`.
    "debug_callback": _SHOWN,
    "debug_print": _SHOWN,
    CALL_OF_PYTHON: _SHOWN,
    "io_callback": _SHOWN.replace(needs_all_axes="io_callback"),
    "pure_callback": Primitive(Kind.UNKNOWN, needs_all_axes="jax.pure_callback"),
    "check": Primitive(Kind.UNKNOWN, needs_all_axes="checkify.check"),
}
