"""Order along an axis, and functions that depend on it.

Read `network` first: it sorts along a sharded axis. `sorting` (`sort`, `argsort`, `lexsort`,
partitions), `top_k` and `searching` (`searchsorted`) use it. `selection` finds elements and returns
a fixed number of them: `where`, `nonzero` and `unique`.
"""
