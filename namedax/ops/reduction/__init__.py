"""Reductions of axes, and what runs along them: sums, extrema, cumulative operations, segments.

Read `site` first: where a reduction takes place, on the block and over the mesh. `reductions` (sums, means, products, truth) and
`extrema` (maximum, minimum, and where they are) are a local reduction and a collective each.

`cumulative` runs along an axis, `segments` reduces by number, and `comparison` gives one answer for two arrays. Quantiles and
other statistics are in `namedax.ops.statistics`, above sorting.
"""
