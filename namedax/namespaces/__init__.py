"""The namespaces of JAX, rebuilt for named arrays.

`registry` says which functions this package writes itself, by namespace; all others are lifted
(`lifting`). `mirror` puts JAX's signature before a function of ours. `extended_signatures` and
`reduction_forms` have what JAX's functions take besides the ordinary, `spellings` and
`other_spellings` other names for what is there, `lax_compat` what `jax.lax` has around its
collectives, and `bound_axes` what leaves these to JAX; `flattening_errors` refuses what would make
positions of nothing. `operators` hangs operators and methods on `NamedArray`.

Read `registry`, then `lifting`, then `mirror`.
"""
