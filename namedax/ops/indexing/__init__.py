"""Reads and writes by index, by name or position.

Read `parts` first, which resolves an index by names. `getitem` (`x["batch", 3]`) reads with the
resolved parts, by `gather`. `updates` (`x.at[...]`) writes, by `scatter`.

`take` reads along an axis, and `take_along_axis`, in `getitem`, at indices that differ between
elements. `slicing` gives slices of axes new names. `diagonal` has diagonals, traces and triangles.
A sharded axis is never gathered: every device reads its own block.
"""
