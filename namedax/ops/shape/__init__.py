"""Names and shapes: what changes, joins or makes axes.

Names: `conversion` (`named`, `positional`, `shard`), `rename`, which is how data moves, `rearrange`, whose `patterns` are parsed
and whose `moves` are executed.

Axes: `joining`, `splitting`, `repeating`, `unit_axes`, `broadcast_to`. New arrays: `creation`, `grids`, `triangles`. What types
answer alone: `inspection`.

Read `rename` first, then `rearrange` and `moves`.
"""
