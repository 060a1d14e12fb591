"""Operands of operations: alignment, kernels and calls. Every operation uses some of these modules.

Read `operation` first: the decorator that defines an operation. Then read `broadcasting`, which
aligns operands by name and slices global arrays to blocks. `kernels` has one compiled kernel per
operation and dims, which makes eager operations as cheap as JAX's. `dispatch` goes from a call
outside of bodies to its kernel or program: `call_arguments` describes its arguments, `program`
compiles it, and `one_mesh` retypes its arrays. `nmap` lifts a positional function over names, with
`without_variance` if JAX's variance checker rejects it. `explanations` has the errors of calls.

Arguments: `axes` (positions and names), `new_axis` (results with an axis that their operands lack,
and its size). Functions along axes: `one_axis` (placement and rows of an axis),
`along_axes` (JAX functions along named axes, at once or one slice after the other). Trees:
`pytree`, which registers `NamedArray` with JAX. `open_options` has the options that a program
leaves to `nx.plan`.
"""
