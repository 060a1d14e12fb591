"""`plan`: a search for the best `axis_resources` on a machine, within a memory limit.

- `program` wraps the mapped function: its names, the pairs of names that occur in one value, and
  its trace under another layout, by which every candidate is judged.
- `meshes` determines the mesh, or the possible sizes of its axes. `space` lists the choices, which
  of them are equivalent, and which are neighbors.
- `search` decides which choice is tried next. `bound` has a lower bound of the time of all choices.
  `fixed_names` has the argument `fixed`. `pipelines` judges layouts again with other schedules
  of pipelines.
- `planner` has the public function, which can also measure on the available devices. `result` has
  its result and prints it, and `reasons` explains it in text.

Read `space` and `search` first.
"""
