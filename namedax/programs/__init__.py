"""What is done to traced programs, before JAX differentiates and compiles them.

`primitives` is the only table of what is known of each of JAX's primitives, `hijax` tells it what the high primitives of JAX 0.12 do, `remat` makes
programs that are computed again for the gradient, and `sum_commutation` is the rule whether a sum may wait;
`evaluator` evaluates a program, some equations in another way than they are written. The passes build on these, and `passes`
names them for users: `postpone_psum`, `loop_casts`, and the steps of a `SerialLoop`, in `serial`. `psum_plan` decides which sums
are late. Before sums are postponed, `gathered_forms` takes
gathers in the form in which their results are used, and `sums_of_calls` takes sums out of what is called; afterwards
`reduced_arguments` uses arguments that are reduced over Explicit mesh axes in this form. `indices` knows integers that are
computed from the indices of devices, `raw_collective_check` looks through a body for what works on blocks, with `block_dimensions`, which
follows the sharded dimensions of blocks by the rules in `dimension_rules`, `costs` says what one equation
computes, and `plain_layouts` works around a bug of XLA's CPU backend.

Read `primitives`, `sum_commutation` and `evaluator` first, then `postpone_psum`.
"""
