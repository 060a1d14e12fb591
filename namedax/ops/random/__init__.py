"""Random numbers by name, which depend neither on the mesh nor on where names live.

Read `drawing` first: what every draw shares, which numbers are drawn, and what a draw costs. `samplers` are the functions of
`jax.random`, with sizes by name, and those of keys. `choosing` has what is drawn along an axis that an array has: categories,
permutations, entries.
"""
