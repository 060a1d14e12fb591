"""Random numbers over named axes, which depend neither on the mesh nor on the sharding of names.

Read `drawing` first: the common part of all draws, with the rules for the numbers and the cost,
and the functions of `jax.random` with sizes by name. `choosing` draws along an axis of an array:
categories, permutations, elements.
"""
