"""What a named program sends, computes and holds, read off its traced form.

`graph` makes one graph of a traced program, calls and mapped functions taken apart; `sources` says which line of the user's file and
which operation an equation is. `dead_code` leaves out what XLA would, `sharing` what it would do again, `storage` says which arrays are
written to memory, `resharding` with which collectives XLA moves an array to
another layout, and `steps` lists what a device does, as the `records` that users get. `explain` is the face; `arguments` says what it
was given, and how that lies; `report` groups, compares and prints, in the words of `rendering`; `findings` are sentences, for which
`added_sums` finds all-reduces that are added, and `uneven_arguments` axes that do not divide,
and `renamings` values that are gathered again.

Read `records`, `graph` and `steps` first.
"""
