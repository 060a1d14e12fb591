"""Collectives over names, which mean the same wherever a name lives.

Read `reducing` first: `psum` and its like, `all_gather`, and the index and the size of an axis. `permuting` has those that keep the
name (`ppermute`, `all_to_all`, `psum_scatter`), and `gathering` reads entries of sharded axes (`pgather`). The collectives on
blocks, which these call, are in `namedax.resources.communication`.
"""
