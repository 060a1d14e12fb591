"""How JAX's namespaces become those of this package.

`registry` says which functions this package writes itself, by namespace; all others are lifted (`lifting`). `mirror` puts JAX's
signature before a function of ours. `forms` and `reduction_forms` have what JAX's functions take besides the ordinary,
`spellings` other names for what is there, and `lax_only` what `jax.lax` has around its collectives. `operators` hangs operators
and methods on `NamedArray`.

Read `registry`, then `lifting`, then `mirror`.
"""
