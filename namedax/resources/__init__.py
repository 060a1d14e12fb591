"""Shardings of named axes and communication between devices; no operations.

Read `assignment` (parsed `axis_resources`) and `mesh` (mesh resolution and resharding onto a mesh)
first.

Communication: `communication` has one function per collective, and every other module communicates
through it. Its `own_block` selects the block of a device; its transpose is an all-gather.
`two_level` has the same collectives in two steps, for mesh axes of which some are slow, and
`narrow` those that send the number formats of `wire`. `layout` changes the sharding of an array
with the fewest bytes. `exchange` makes a sharded axis complete next to a free one. `row_moves`
sends rows of a sharded axis to the devices that need them.

Uneven sizes: `padding` pads the last blocks of an axis, and has the primitives that stop the
gradients of padding. `padding_masks` masks the padding in operations that combine elements.
`stored_padding` stores arrays padded outside of mapped functions.

`processes` compares calls between processes before they communicate. `serial` has `SerialLoop`,
which executes an axis in steps (`namedax.programs.serial` runs the loop), the microbatch axis of a
pipeline, and the errors for operations that steps do not support.
"""
