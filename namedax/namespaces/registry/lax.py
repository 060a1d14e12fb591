"""The functions that stand in `jax.lax`."""

from __future__ import annotations

from namedax.namespaces import lax_compat, other_spellings
from namedax.namespaces.registry.tables import Functions, only, public_functions, without
from namedax.ops.collectives import gathering, permuting, reducing
from namedax.ops.contraction import pdot
from namedax.ops.loops import associative_scan, branches, control_flow, vmap
from namedax.ops.reduction import cumulative
from namedax.ops.shape import broadcast_to
from namedax.ops.sorting import sorting

__all__ = ["LAX"]

LAX: Functions = {
    **{name: getattr(reducing, name) for name in reducing.__all__ if name != "global_index"},
    **permuting.FUNCTIONS,
    **gathering.FUNCTIONS,
    **pdot.FUNCTIONS,
    **broadcast_to.LAX_FUNCTIONS,
    **cumulative.LAX_FUNCTIONS,
    **only(public_functions(sorting), "top_k"),
    **without(public_functions(control_flow), "fold"),
    **public_functions(branches),
    **only(public_functions(vmap), "map"),
    **public_functions(associative_scan),
    **lax_compat.FUNCTIONS,
    **other_spellings.LAX,
}
