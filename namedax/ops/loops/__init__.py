"""Control flow over names, and functions of functions.

Read `carries` first: how values get one type where they meet, and how a carry gains names. `control_flow` has scans and loops,
`branches` has `cond` and `switch`, `vmap` functions of one entry, and `associative_scan` the parallel scan, across devices too.

`pipelines` is the fold over layers that are spread over devices, `pipeline_schedule` how it is executed there, `microbatch_parts` where the
entries of a batch are that does not divide, and `gradient_gate` what keeps idle stages out of the gradient.

`custom_rules` are derivatives that users write, and `solvers` iterate over trees (`cg`, `gmres`).
"""
