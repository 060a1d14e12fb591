"""`plan`: a search for the best `axis_resources` on a machine, by the cost model of `nx.machines`, within a memory limit.

- `program` wraps the mapped function: its names, the pairs of names that occur in one value, and its trace under another
  layout, by which every candidate is judged.
- `meshes` determines the mesh. `shapes` lists the possible sizes of its axes. `space` lists the choices, which of them are
  equivalent, and which are neighbors.
- `search` decides which choice is tried next.
- `planner` has the public function, and `result` has its result. `reasons` explains the result in text, `rendering` prints it,
  and `timing` measures on the available devices.

Read `space` and `search` first.
"""
