"""Analysis of communication, computation and memory of a program, from its trace.

- `graph` builds one graph of a traced jaxpr, with calls and mapped functions expanded. `sources`
  finds the user's source line and the operation of an equation. It leaves out operations that XLA
  removes. `sharing` removes those that XLA would not repeat.
- `fusion` determines the kernels that XLA makes, and the arrays that they read and write, from the
  `uses` and views of arrays. `storage` determines the peak memory. `resharding` determines the
  collectives with which XLA moves an array to another layout.
- `steps` lists the steps of a device, as the `records` that users get. It finds the collectives of
  a loop that no computation of the loop waits for.
- `explain` is the public function, and describes its arguments and their shardings. `figures` has
  the data of a report and groups them, `line_times` has the seconds of each line. `report`
  compares, draws and stores reports; `tables` and `page` render them as text and as HTML.
- `summary` describes the arrays of a tree, with their placements and bytes.
- `placed_arguments` places the arguments of a compiled program that is measured.
- `findings` are sentences about all-reduces that are added, axes that do not divide, and values
  that are gathered again. `repetition` finds work that all devices along a mesh axis repeat.

Read `records`, `graph` and `steps` first.
"""
