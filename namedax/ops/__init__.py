"""The operations on named arrays.

Three mechanisms carry all of them: `align` (bring operands to common dims), `kernels` (run concrete operands through one compiled
kernel per operation and dims) and `lift` (apply a function that knows nothing of names). The other modules are the vocabulary:
`elementwise`, `reductions`, `contraction` (with its parser `einsum_spec`), `collectives`, `reshaping`, `creation`, `indexing`,
`nn`, `conversion`; `methods` hangs them on `NamedArray`.
"""
