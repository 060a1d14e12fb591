"""Reads and writes by index, by name or position.

Read `parts` first, which resolves an index by names. `getitem` (`x["batch", 3]`) reads with the
resolved parts, and `updates` (`x.at[...]`) writes.

`take` reads along an axis. `slicing` gives slices of axes new names, and reads along an axis at
indices that differ between elements (`take_along_axis`). `diagonal` has diagonals, traces and
triangles. A sharded axis is never gathered: every device reads its own block.
"""
