"""Control flow over named axes, and transformations of functions.

Read `carries` first: it finds a common type for several values, and lets a carry gain names.
`control_flow` has scans and loops, and `branches` has `cond` and `switch`. `vmap` has functions of
one element, and `associative_scan` has the parallel scan, which also works across devices.

`pipelines` is the fold over layers that are sharded over devices, and `pipeline_schedule` executes
it there: it distributes a batch that does not divide, and keeps idle stages out of the gradient.
`pipeline_timetable` has the schedules, as static tables of the work of each stage in each tick.
`pipeline_alternation` has the pipelines whose forward and backward passes alternate. `remat` is the
recomputation of steps for the gradient.

`custom_rules` has user-defined derivatives. `solvers` has iterative solvers over pytrees (`cg`,
`gmres`), by the methods in `krylov`.
"""
