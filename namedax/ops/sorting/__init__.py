"""Order along an axis, and what is found by it.

Read `network` first: how an axis is sorted that is sharded. `sorting` (`sort`, `argsort`, `lexsort`, partitions), `top_k` and
`searching` (`searchsorted`) are its uses. `selection` finds entries, in a fixed number of places: `nonzero` and `unique`.
"""
