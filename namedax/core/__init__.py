"""Arrays, axis names and regions; no operation.

Read `names` and `array` (`NamedArray`) first, then `region` (the axis names of a mapped function
and their mesh axes), `padded_sharding` (axes that do not divide over their mesh axes),
`placement_marks` (for the partitioner), `closure_capture` and `user_code` (the boundary to the
functions of users, and marks on leaves that pytree operations may move). `axis_mappings` is the
notation that `nx.named` and `nx.xmap` share; `annotations` are type aliases of arrays, and `names`
has the other aliases.

`display` formats arrays, `memory_kinds` copies them from the memory of the host, `variance` casts
between varying and invariant types, `cpu_workarounds` has the sums that XLA's CPU backend cannot
compile, and `error_function` derivatives that JAX 0.12 can map. `element_types` converts to JAX
arrays: it chooses dtypes and rejects arrays of other libraries. `prefix_scan` has scans of an
associative function, `reshape` merges dimensions, `records` are classes of fields, `recent` is for
caches, `plain_data` is for JSON, `text_tables` formats tables, `name_scopes` names operations,
`kernel_scopes` has the calls of functions with a declared cost, `stack_depth` saves page faults of
deep calls, `functions` reads signatures and source locations, and `jax_docstrings` descriptions.
`protocol_hints` is for named arrays in functions of NumPy and Python, and `file_names` checks names
in files. `explicit_fallback` runs what JAX cannot run on Explicit axes, and `strict_broadcasting`
is the opt-in check of elementwise results.
"""
