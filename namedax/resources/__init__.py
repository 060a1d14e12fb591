"""Shardings of named axes and communication between devices.

No module here depends on an operation.

Read `assignment` (parsed `axis_resources`) and `mesh` (mesh resolution and resharding onto a mesh)
first.

Communication: `communication` has one function per collective, and every other module communicates
through it. `layout` changes the sharding of an array with the fewest bytes. `row_moves` sends rows
of a sharded axis to the devices that need them. Its `own_block` selects the block of a device by a
primitive whose transpose is an all-gather. `narrow` has the collectives that send number formats of
`wire`.

Uneven sizes: `padding` pads the last blocks of an axis, and has the primitives that stop the
gradients of padding. `padding_masks` masks the padding in operations that combine elements.

`processes` compares calls between processes before they communicate. `serial` has `SerialLoop`,
which executes an axis in steps; `namedax.programs.serial` runs the loop. It has the
microbatch axis of a pipeline too, and the errors for operations that steps do not support.
"""
