"""Operations on named arrays, in packages by purpose.

`operands` is what all operations share: their definition, their operands, and the dispatch of
calls. In import order, from the lowest layer up, the operations are: `elementwise`, `reduction`,
`collectives`, `shape`, `contraction`, `indexing`, `window`, `sorting`, `statistics`, `loops`,
`groups`, `random`, `linalg`, `nn`, `experts`, `ragged`. The docstring of each package lists its
modules and names the first one to read. `namespaces` adds them to the namespaces of JAX.

An operation resolves its operands with `namedax.ops.operands` and moves blocks with
`namedax.resources`.
"""
