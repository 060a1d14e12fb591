"""Resources: where the blocks of an array live, and how they move.

- `assignment`: `axis_resources`, parsed; names to `PartitionSpec`.
- `mesh`: which mesh applies, and putting arrays on it.
- `variance`: over which mesh axes a value varies from device to device, and the casts between.
- `communication`: the collectives, on blocks.
- `layout`: moving an axis from one placement to another.
"""
