"""`xmap`: map a function over named axes, on the devices of a mesh.

Read `wrapper` first, which checks the options and keeps compiled programs. `mapped_function` names
the arguments of a call and makes its region, with the record of its `options`. `lowering` runs the
body: unmapped, under `jax.shard_map`, in steps, or under XLA's partitioner. `nesting` handles a
mapped function inside of another one. `call_comparison` compares the calls of several processes.
`explanations` explains errors of JAX, and `tracebacks` leaves the frames of this package out of them.
"""
