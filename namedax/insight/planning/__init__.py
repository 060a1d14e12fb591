"""`plan`: a search for the best `axis_resources` on a machine, within a memory limit.

- `candidates` has a layout that was judged, and `Settings`, the options chosen with a layout.
- `program` wraps the mapped function: its names, the pairs of names that occur in one value, and
  its trace under another layout, by which every candidate is judged.
- `meshes` determines the mesh, or the possible sizes of its axes. `space` lists the choices, which
  of them are equivalent, and which are neighbors.
- `search` decides which choice is tried next. `bound` has a lower bound of the time of all choices.
- `judge` traces the program under a layout, and records the results. It also judges the best
  layouts with padded blocks, and in steps. `options` judges layouts again with other values of
  options that the program leaves open, such as the schedules of pipelines.
- `whole` plans a function that calls several mapped functions, each with its own layout;
  `called_functions` replaces their layouts.
- `planner` has the public function, and the sentences of a plan on axis names. `arguments` checks
  its arguments.
- `result` has the plan, as text, HTML and JSON. `why` compares a layout with the best one; `again`
  judges it, if the search has not.
- `command` is `python -m namedax.plan`.

Read `space` and `search` first.
"""
