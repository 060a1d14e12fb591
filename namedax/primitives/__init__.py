"""One record for each primitive of JAX, and the accessors of equations that read them.

`record` defines `Primitive`. The families `elementwise`, `shapes`, `reductions`, `products`,
`indexing`, `collectives` and `calls` have the records, and `table` joins them. `dimensions` has the
rules that records share. `equations` and `recomputation` are the only modules that read the
parameters of an equation. `blocks` computes blocks of results from blocks of operands, `partition`
evaluates any equation of a program on global shapes on blocks, with the communication it takes, and
`costs` computes what an equation costs on a device.

No other module names a primitive. To support a primitive that JAX adds, write its record.
"""
