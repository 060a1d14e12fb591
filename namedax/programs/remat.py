"""Programs that are computed again for the gradient (`jax.checkpoint`), and calls of another program in the place of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from namedax.programs.hijax import HIGH, parameters_of
from namedax.programs.primitives import bind

__all__ = ["is_remat_of_gradient", "remat_again", "remat_like", "with_program"]


def remat_again(eqn: Any, jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    """Return the results of another open jaxpr, computed anew for the gradient as that of this equation is."""
    return bind(eqn, values, **_with_program(eqn, jaxpr))


def with_program(eqn: Any, jaxpr: Any, operands: Sequence[Any], results: Sequence[Any]) -> Any:
    """Return this call with another open jaxpr, which takes these operands and gives these results."""
    return eqn.replace(invars=list(operands), outvars=list(results), params={**eqn.params, **_with_program(eqn, jaxpr)})


def _with_program(eqn: Any, jaxpr: Any) -> dict[str, Any]:
    if eqn.primitive.name == HIGH:
        prim = eqn.params["_prim"]
        return {"_prim": type(prim)(**{**prim.params, "jaxpr": jaxpr, "prevent_cse": _prevents_cse(eqn)})}
    name = next(name for name in ("jaxpr", "call_jaxpr") if name in eqn.params)
    return {name: ClosedJaxpr(jaxpr, ()) if isinstance(eqn.params[name], ClosedJaxpr) else jaxpr}


def remat_like(eqn: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, computed anew for the gradient as the program of this equation is."""
    again: Callable[..., Any] = jax.checkpoint(function, prevent_cse=_prevents_cse(eqn), policy=parameters_of(eqn)["policy"])
    return again


def _prevents_cse(eqn: Any) -> bool:
    # JAX takes one truth value for each operand, too; the other program may have more operands.
    prevent = parameters_of(eqn)["prevent_cse"]
    return prevent if isinstance(prevent, bool) else any(prevent)


def is_remat_of_gradient(eqn: Any) -> bool:
    """Return True if this is the computation anew, which must stay apart from the first one."""
    return bool(eqn.params.get("differentiated") and eqn.params.get("prevent_cse", True))
