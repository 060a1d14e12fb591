"""Reads and writes by index, by name or position.

Read `parts` first, which resolves an index by names. `getitem` (`x["batch", 3]`) reads with the
resolved parts, and `updates` (`x.at[...]`) writes.

`take` reads along an axis, `take_along_axis` at indices that differ between elements, and `slicing`
gives slices of axes new names. `diagonal` has diagonals and traces. A sharded axis is never
gathered: every device reads its own block.
"""
