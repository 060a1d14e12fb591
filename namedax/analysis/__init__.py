"""What a named program sends, computes and holds, read off its traced form.

`records` is what is found: one record for each collective, operation and kind of memory. `sources` says of an equation which line
of the user's file it is, and which operation. `costs` is what one equation computes, `walk` goes through a program and its loops,
`memory` is what a device holds at its worst. `explain` puts them together, and `report` is what users get.

Read `records` and `explain` first.
"""
