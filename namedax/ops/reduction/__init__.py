"""Reductions and cumulative operations over axes: sums, extrema, cumulative operations, segments.

Read `plan` first: it plans a reduction on the block and over the mesh. `reductions` (sums,
means, variances, products, any and all, logsumexp), whose plans `computations` computes, and
`extrema` (maximum, minimum, and their indices) combine a local reduction with a collective.

`cumulative` accumulates along an axis, `segments` reduces by number, and `comparison` gives one
answer for two arrays. Quantiles and other statistics are in `namedax.ops.statistics`, which depends
on sorting.
"""
