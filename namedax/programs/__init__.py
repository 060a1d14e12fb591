"""Passes over traced jaxprs, applied before JAX differentiates and compiles them.

The modules build on each other:

- `primitives` is the only table of facts about JAX's primitives. `hijax` supplies the facts about the high primitives of JAX
  0.12.
- `remat` builds jaxprs that are recomputed for the gradient.
- `sum_commutation` decides whether a psum may be postponed past an operation.
- `evaluator` evaluates a jaxpr with some equations replaced.
- `passes` defines the names by which `xmap` enables the passes: `postpone_psum`, `loop_casts`, and the steps of a `SerialLoop`
  (in `serial`).
- `psum_plan` decides which psums are postponed. Before that, `gathered_forms` takes each gather in the form in which its result
  is used, and `sums_of_calls` moves psums out of calls.
- `reduced_arguments` runs after psums are postponed. It uses arguments that are reduced over Explicit mesh axes in their
  reduced form.
- `indices` tracks integers that are computed from device indices.
- `raw_collective_check` searches a body for functions of JAX that operate on blocks. It uses `block_dimensions`, which follows
  the sharded dimensions of blocks by the rules in `dimension_rules`.
- `costs` computes the cost of one equation.
- `plain_layouts` works around a bug of XLA's CPU backend.

Read `primitives`, `sum_commutation` and `evaluator` first, then `postpone_psum`.
"""
