"""Jaxprs that are recomputed for the gradient (`jax.checkpoint`), and calls with a replaced jaxpr."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from namedax.programs.hijax import HIGH, parameters_of
from namedax.programs.primitives import bind

__all__ = ["is_remat_of_gradient", "remat_again", "remat_like", "with_program"]


def remat_again(eqn: Any, jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    """Return the results of another open jaxpr, recomputed for the gradient in the same way as that of this equation."""
    return bind(eqn, values, **_with_program(eqn, jaxpr))


def with_program(eqn: Any, jaxpr: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
    """Return this call with another open jaxpr, which takes these operands and returns these results."""
    return eqn.replace(
        invars=list(operands),
        outvars=list(results),
        params={**eqn.params, **_with_program(eqn, jaxpr)},
    )


def _with_program(eqn: Any, jaxpr: Any) -> dict[str, Any]:
    if eqn.primitive.name == HIGH:
        prim = eqn.params["_prim"]
        return {
            "_prim": type(prim)(
                **{**prim.params, "jaxpr": jaxpr, "prevent_cse": _prevents_cse(eqn)}
            )
        }
    name = next(name for name in ("jaxpr", "call_jaxpr") if name in eqn.params)
    return {name: ClosedJaxpr(jaxpr, ()) if isinstance(eqn.params[name], ClosedJaxpr) else jaxpr}


def remat_like(eqn: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, recomputed for the gradient in the same way as the jaxpr of this equation."""
    again: Callable[..., Any] = jax.checkpoint(
        function, prevent_cse=_prevents_cse(eqn), policy=parameters_of(eqn)["policy"]
    )
    return again


def _prevents_cse(eqn: Any) -> bool:
    # JAX also takes one boolean for each operand; the other jaxpr may have more operands.
    prevent = parameters_of(eqn)["prevent_cse"]
    return prevent if isinstance(prevent, bool) else any(prevent)


def is_remat_of_gradient(eqn: Any) -> bool:
    """Return True if this is the recomputation, which must stay separate from the first computation."""
    return bool(eqn.params.get("differentiated") and eqn.params.get("prevent_cse", True))
