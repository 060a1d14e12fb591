"""What is done to traced programs, before JAX differentiates and compiles them.

`primitives` is the only table of what is known of each of JAX's primitives, and `waiting` the rule whether a sum may wait; `evaluator`
evaluates a program, some equations otherwise than they stand. On these stand the passes, which `passes` names for users: `late_sums`,
`loop_casts`, and the steps of a `SerialLoop`, in `serial`. `raw` looks through a body for what works on blocks, and `plain_layouts` is for a
fault of XLA's CPU backend.

Read `primitives`, `waiting` and `evaluator` first, then `late_sums`.
"""
