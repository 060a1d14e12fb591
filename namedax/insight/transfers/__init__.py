"""`transfer`: a tree of arrays moves from one layout to another, in bounded memory.

- `layouts` reads the two layouts and the types of the tree, and numbers the devices. It knows the
  block of each array on each device.
- `pieces` decides which device sends which part of a block to which other device. A device that
  has what it needs receives nothing.
- `rounds` cuts and groups the pieces so that the data in flight stays within a limit, and follows
  the memory of every device.
- `traffic` adds up the bytes of links and mesh axes, and estimates seconds on a machine.
- `plans` combines these. `figures` computes the figures of a plan.
- `moving` moves pieces between devices, and `collectives` whole rounds by programs of XLA.
  `running` compares a tree with the plan, and runs it.
- `result` has the result, and prints it. `transfer` has the public function.

Read `layouts`, `pieces` and `rounds` first.
"""
