"""Operations on named arrays, in packages by purpose.

In import order, from the lowest layer up: `elementwise`, `reduction`, `collectives`, `shape`,
`contraction`, `indexing`, `window`, `sorting`, `statistics`, `loops`, `random`, `nn`, `experts`,
`ragged`. The docstring of each package lists its modules and names the first one to read.

An operation resolves its operands with `namedax.operands` and moves blocks with
`namedax.resources`. `namedax.namespaces.registry` adds it to a namespace of JAX.
"""
