"""Collectives over named axes, with the same result for every sharding.

Read `reducing` first: `psum` and related reductions, `all_gather`, groups, and the index and size
of an axis. `permuting` has the collectives that keep the axis (`ppermute`, `all_to_all`,
`psum_scatter`). `gathering` reads elements of sharded axes (`pgather`). All of them call the
collectives on blocks in `namedax.resources.communication`.
"""
