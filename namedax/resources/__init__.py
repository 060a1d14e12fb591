"""Where names live, and how blocks move. Nothing here knows of operations.

Read `assignment` (`axis_resources`, parsed) and `mesh` (which mesh applies, and bringing arrays onto it) first.

Blocks move in three ways: `communication` has the collectives, one function each, and nothing communicates without them;
`layout` moves axes from one placement to another with the fewest bytes; `row_moves` moves the rows of an axis to the devices
that ask for them. `local_slice` is a primitive of our own: a device keeps its block, whose transpose is an all-gather.
`padding` fills up the last blocks of a name that does not divide, `padding_masks` leaves padding out where entries are mixed, and `padding_gradients`
has the primitives by which no gradient comes back from it.

`processes` compares calls between processes before they communicate.

`serial` is `SerialLoop`, time as a resource, `microbatches` what a pipeline cuts an axis into, and `refusals` says what cannot be
done in steps. How a loop is executed is in `namedax.programs.serial`.
"""
