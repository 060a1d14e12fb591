"""Order along an axis, and functions that depend on it.

Read `network` first: it sorts along a sharded axis. `sorting` uses it (`sort`, `argsort`,
`lexsort`, partitions, `top_k`, `searchsorted`), and `together` sorts arrays by keys (`sort_by`, and
`sort` of `nx.lax`). `selection` finds elements and returns a fixed
number of them: `where`, `nonzero` and `unique`.
"""
