"""How operations take their operands. Every operation stands on some of these modules.

Read `operation` first: the decorator that defines an operation. Then `broadcasting`, which aligns operands by name and slices
global arrays to blocks; `kernels`, one compiled kernel per operation and dims, which makes eager operations as cheap as JAX's
(`dispatch_cache` leads from a public function straight to it); and `nmap`, which lifts a positional function over names.

What arguments say: `axes` (which axes, by position or name), `sizes` (of axes that are made), `new_axis` (results with an axis
that their operands lack). Functions along axes: `one_axis` (where an axis lives, and what its rows become), `along_axes`
(functions of JAX, called along names), `axis_slices` (one entry after the other). Trees: `pytree_leaves`, and `pytree`, by which JAX takes a
`NamedArray` apart. Calls: `argument_placement` knows whether arguments are where the program runs.
"""
