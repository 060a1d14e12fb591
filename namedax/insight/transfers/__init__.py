"""`transfer`: a tree of arrays moves from one layout to another, in bounded memory.

- `layouts` reads the two layouts and the types of the tree, and numbers the devices. It knows the
  block of each array on each device.
- `pieces` decides which device sends which part of a block to which other device. A device that
  has what it needs receives nothing.
- `rounds` cuts and groups the pieces so that the data in flight stays within a limit, and follows
  the memory of every device.
- `traffic` adds up the bytes of links and mesh axes, and estimates seconds on a machine.
- `plans` combines these.
- `running` compares a tree with the plan, and runs it: it moves pieces between devices, or whole
  rounds by the programs of `collectives`.
- `transfer` has the public function and its result, which has the figures of a plan and prints
  them.

Read `layouts`, `pieces` and `rounds` first.
"""
