"""`xmap`: map a function over named axes, on the devices of a mesh.

Read `wrapper` first, which checks the options and keeps compiled programs. `mapped_function` has
the methods of a mapped function, with the record of its `options`. A call goes through the
following modules:

1. `argument_placement` checks that the arguments are already on the mesh.
2. `arguments` names them, and collects the sizes of their axes.
3. `regions` makes the region, checks mapped functions inside of others, and chooses the program.
4. `lowering` runs the body: unmapped, under `jax.shard_map`, in steps, or under XLA's partitioner.
   `call` has the partition specs, and the passes over the traced body.
5. `body` runs the user's function on named arrays, and converts its results. `argument_blocks`
   takes and returns blocks that are stored padded, steps that are short, and reduced arguments.
   `global_bodies` traces a body on global shapes and partitions it.

`effects` maps bodies with callbacks over all mesh axes. `replaced_layouts` has layouts that
`nx.plan` tries for functions that are called by others. `call_comparison` compares the calls of
several processes. `explanations` explains errors of JAX, and finds the line of a NaN.
`explicit_axes` runs operations outside of bodies as mapped functions, where JAX cannot run them.
"""
