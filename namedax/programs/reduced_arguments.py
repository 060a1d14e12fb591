"""Arguments that are reduced over Explicit mesh axes, whose gradients stay unreduced.

The type of a weight may have `jax.P(reduced={"x"})`: it is replicated over `x`, and its gradient is
unreduced there. Every device keeps its own summand until the caller sums them.

A body gets such an argument twice: replicated, and reduced. If the traced body casts it to varying
over these axes, it takes the reduced one, whose cast has a transpose without communication. All
other uses take the replicated one, whose gradient is summed. The result therefore does not depend
on how the body uses the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from namedax.core.names import Mesh, PyTree
from namedax.core.variance import cast_data
from namedax.programs.evaluator import consts_to_inputs
from namedax.programs.loop_casts import CastFinder, Forms, WithForms
from namedax.resources.mesh import entry_of, has_explicit_axes

__all__ = ["take_reduced"]


def take_reduced(
    body: Callable[..., PyTree],
    given: Sequence[jax.Array],
    datas: Sequence[jax.Array],
    specs: Sequence[PartitionSpec],
    used: Collection[str],
    mesh: Mesh,
) -> tuple[Callable[..., PyTree], Sequence[jax.Array], Sequence[PartitionSpec]]:
    """Take arguments that are reduced over mesh axes in this form, too.

    Args:
      body: a function of blocks.
      given: the arguments as the caller passed them.
      datas: the same arguments, placed for the body.
      specs: their placement.
      used: the mesh axes of the body.
      mesh: the mesh.

    Returns:
      A body that takes more blocks, its arguments, and their specs; the inputs unchanged if no
      argument is reduced.
    """
    if not has_explicit_axes(mesh):
        return body, datas, specs
    if jax.__version_info__ < (0, 12) and set(used) != set(mesh.axis_names):
        return body, datas, specs  # JAX 0.10 takes reduced arguments over all axes of a mesh only
    wanted = {
        i: axes
        for i, (data, spec) in enumerate(zip(given, specs, strict=True))
        if (axes := _reduced_over(data, spec, used))
    }
    if not wanted:
        return body, datas, specs
    also = [
        PartitionSpec(
            *(entry_of(specs[i], dim) or None for dim in range(given[i].ndim)),
            reduced=set(wanted[i]),
        )
        for i in wanted
    ]
    placed = [
        jax.reshard(given[i], NamedSharding(mesh, spec))
        for i, spec in zip(wanted, also, strict=True)
    ]
    return _with_forms(body, wanted), [*datas, *placed], [*specs, *also]


def _reduced_over(data: jax.Array, spec: PartitionSpec, used: Collection[str]) -> frozenset[str]:
    """Return the axes of the body over which an argument is reduced.

    The result is empty unless the argument can be differentiated and is replicated over all of
    them.
    """
    if not isinstance(data, jax.Array):
        return frozenset()
    sharding = jax.typeof(data).sharding
    reduced = (
        frozenset(sharding.spec.reduced) if isinstance(sharding, NamedSharding) else frozenset()
    )
    if not reduced or not jnp.issubdtype(data.dtype, jnp.inexact):
        return frozenset()
    cut = {axis for dim in range(data.ndim) for axis in entry_of(spec, dim)}
    return reduced if reduced <= set(used) - cut else frozenset()


def _with_forms(
    body: Callable[..., PyTree], wanted: Mapping[int, frozenset[str]]
) -> Callable[..., PyTree]:
    """Wrap `body` to take the `wanted` arguments again at the end, reduced over their axes."""

    def run(*values: jax.Array) -> PyTree:
        datas, blocks = values[: -len(wanted)], values[-len(wanted) :]
        structures: list[jax.tree_util.PyTreeDef] = []

        def flat(*datas: jax.Array) -> list[jax.Array]:
            leaves, structure = jax.tree.flatten(body(*datas))
            structures.append(structure)
            return leaves

        closed = jax.make_jaxpr(flat)(*datas)
        jaxpr, count = consts_to_inputs(closed.jaxpr), len(closed.consts)
        finder = CastFinder([0] * len(wanted), 1)
        finder.visit(
            jaxpr,
            {jaxpr.invars[count + i]: frozenset({(k, frozenset())}) for k, i in enumerate(wanted)},
        )
        forms: list[Forms] = [{} for _ in jaxpr.invars]
        for k, over in finder.found:
            i, axes = list(wanted.items())[k]
            if axes <= over:
                forms[count + i][over] = cast_data(
                    lax.pcast(blocks[k], tuple(sorted(axes)), to="varying"), over
                )
        results, _ = WithForms(jaxpr, [*closed.consts, *datas], forms, [False] * len(forms)).run()
        return jax.tree.unflatten(structures[-1], results)

    return run
