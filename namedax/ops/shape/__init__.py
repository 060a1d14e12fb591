"""Operations that change, join or create axes.

Names: `conversion` (`named`, `positional`), `placement` (`shard`), `rename`, which reshards, and
`rearrange`, with its `patterns` and the `moves` that execute them.

Axes: `transposition`, `joining`, `splitting`, `repeating`, `unit_axes`, `broadcast_to`. New arrays:
`creation`, `grids`, `triangles`. Properties of types: `inspection`.

Read `rename` first, then `rearrange` and `moves`.
"""
