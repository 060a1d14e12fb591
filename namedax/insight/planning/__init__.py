"""`plan`: a search for the best `axis_resources` on a machine, within a memory limit.

- `program` wraps the mapped function: its names, the pairs of names that occur in one value, and
  its trace under another layout, by which every candidate is judged.
- `meshes` determines the mesh, or the possible sizes of its axes. `space` lists the choices, which
  of them are equivalent, and which are neighbors.
- `search` decides which choice is tried next. `bound` has a lower bound of the time of all choices,
  and `fixed_names` has the argument `fixed`. `options` judges layouts again with other values of
  options that the program leaves open, such as the schedules of pipelines. `uneven_names` judges
  the best layout with padded blocks, and `loop_steps` judges layouts that do not fit in steps.
- `whole` plans a function that calls several mapped functions, each with its own layout;
  `called_functions` replaces their layouts.
- `judge` traces the program under a layout, and records the results.
- `planner` has the public function, which can also measure on the available devices.
- `candidates` has a layout that was judged. `result` has the plan and prints it, `advice` has its
  sentences on axis names, `plan_page` renders it as HTML, and `files` as JSON.
- `why` compares a layout with the best one; `again` judges it, if the search has not.
- `command` is `python -m namedax.plan`.

Read `space` and `search` first.
"""
