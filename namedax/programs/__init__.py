"""Passes over traced jaxprs, applied before JAX differentiates and compiles them.

Facts about JAX's primitives are in `namedax.primitives`. `evaluator` evaluates a jaxpr with some
equations replaced. It also works around a bug of XLA's CPU backend, and defines the names by which
`xmap` enables passes. The passes build on it: `postpone_psum`, `loop_casts`, and the steps of a
`SerialLoop`, in `serial`. `psum_plan` decides which psums are postponed, and past which operations;
it moves psums out of calls first, and tracks integers that are computed from device indices.
`varying_gathers` makes gathers varying if their results are used so; `forward_rules` repeats
functions with a JVP rule for it. `block_demand` slices blocks before the operations of a gradient,
so that its psum is a reduce-scatter. `two_level` splits collectives over fast and slow mesh axes.
`prefetch` runs the gathers of a loop one step ahead, and `loop_copies` hoists copies from the
memory of the host. `raw_collective_check` searches a body for functions of JAX that operate on
blocks. It uses `block_dimensions`, which tracks sharded dimensions. `partitioner` evaluates a
program on global shapes on the blocks of devices.
`varying_loops` evaluates a lifted function in steps, with casts where its loops begin.
`outlining` lets equal parts of a program, such as layers, be calls of one part.

Read `evaluator` and `psum_plan` first, then `postpone_psum`.
"""
