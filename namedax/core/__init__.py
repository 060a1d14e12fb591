"""What an array, a name and a region are; no operation.

Read `names` (what a name is) and `array` (`NamedArray`) first, then `region`: which names exist in a mapped function, and which mesh
axes they live on; `uneven` is where a name lives that does not divide over them, and `outside` has what bodies close over.
`axis_mappings` is the notation that `nx.named` and `nx.xmap` share, and `annotations` what functions say of their arguments and
results.

`display` says how an array shows itself. `variance` says over which mesh axes a value differs from device to device, and casts
between; `cpu` says which sums XLA's CPU backend cannot make there. `element_types` has the element types that this package
chooses, `foreign_arrays` rejects arrays with dims of other libraries, `merged` makes dimensions one, `records` are classes of
fields, `cells` says what the cells of a notebook are called, `scopes` what operations are called in programs, and `functions`
asks what the parameters of a function are, when a call needs them. `miscalls` says which arguments a function has that was
called with others, `argument_kinds` which of them are of another kind, `flags` which of them are a yes or a no, `docstrings`
joins the parts of docstrings, `other_words` says what the attributes of other libraries' arrays are called here, `python_words` and
`numpy_functions` what to write in place of functions of Python and NumPy. `leaf_marks` marks leaves whose names a pytree operation may
have moved. `refused` is where operations ask what to do with arrays that JAX refuses since they are cut.
"""
