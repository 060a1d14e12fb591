"""`xmap`: map a function over named axes, on the devices of a mesh.

Read `wrapper` first, which checks the options and keeps compiled programs. `mapped_function` names
the arguments of a call and makes its region, with the record of its `options`;
`argument_placement` checks that they are already on the mesh. `lowering` runs the
body: unmapped, under `jax.shard_map`, in steps, or under XLA's partitioner. `global_bodies` traces
it on global shapes and partitions it. `uneven_steps` pads the
axes of a loop whose last step is short, and `padded_arguments` takes and returns the blocks of
arrays that are stored padded. `replaced_layouts` has layouts that `nx.plan` tries for functions
that are called by others. `effects` maps bodies with callbacks over all mesh axes.
`call_comparison` compares the calls of several processes. `explanations`
explains errors of JAX, removes the frames of this package from tracebacks, and checks mapped
functions inside of others. `invalid_values` finds the line of a NaN. `explicit_axes` runs
operations outside of bodies as mapped functions, where JAX cannot run them.
"""
