"""The namespaces of JAX for named arrays.

`registry` lists the functions with a named version, by namespace; `lifting` lifts all others.
`mirror` gives a named version the signature of JAX's function, and `docstrings` its parameters in
the docstring. `flattening_errors` rejects arrays without positional axes where a function would
flatten them. `operators` attaches operators and methods to `NamedArray`. `public_names` is the
table of the public names of `namedax`, which imports nothing, and `definitions` imports them for
editors; `make stubs` writes it.

Read `registry`, then `lifting`, then `mirror`.
"""
