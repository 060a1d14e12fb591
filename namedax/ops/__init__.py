"""The operations on named arrays, in rooms by what a reader looks for.

From the bottom to the top, as imports run: `elementwise`, `reduction`, `collectives`, `shape`, `contraction`, `indexing`,
`window`, `sorting`, `statistics`, `loops`, `random`, `nn`, `experts`, `ragged`. A room's docstring says what is in it, and where to begin.

An operation takes its operands by `namedax.operands`, moves blocks by `namedax.resources`, and gets its name in a namespace of
JAX's in `namedax.namespaces.registry`.
"""
