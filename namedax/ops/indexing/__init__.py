"""Reading and writing by index, by name or position.

Read `parts` first: what an index by names says. `getitem` (`x["batch", 3]`) reads with them, and `updates` (`x.at[...]`) writes.

`take` reads along an axis, `take_along_axis` at indices that differ from place to place, and `slicing` gives parts of axes new
names. A sharded axis is never gathered: every device reads what it has.
"""
