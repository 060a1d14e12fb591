"""Analysis of the communication, computation and memory of a program with named axes, from its trace.

- `graph` builds one graph of a traced jaxpr, with calls and mapped functions expanded. `sources` finds the user's source line
  and the operation of an equation.
- `dead_code` removes operations that XLA would remove, and `sharing` removes those that XLA would not repeat.
- `storage` determines the arrays that are written to memory. `resharding` determines the collectives with which XLA moves an
  array to another layout.
- `steps` lists the steps of a device, as the `records` that users get.
- `explain` is the public function. `arguments` describes its arguments and their shardings. `report` groups, compares and
  prints, with the text of `rendering`.
- `findings` are sentences. For these, `added_sums` finds all-reduces that are added, `uneven_arguments` finds axes that do not
  divide, and `renamings` finds values that are gathered again.

Read `records`, `graph` and `steps` first.
"""
