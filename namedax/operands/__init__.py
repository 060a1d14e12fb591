"""How operations take their operands. Every operation stands on some of these modules.

Read `broadcasting` first: operands of any dims are aligned by name, and arrays from outside are cut to their blocks. Then
`kernels`, one compiled kernel per operation and dims, which makes eager operations as cheap as JAX's (`dispatch_cache` lead from a
public function straight to it), and `nmap`, which lifts a function that knows nothing of names.

What arguments say: `axes` (which axes, by position or name), `sizes` (of axes that are made), `new_axis` (results with an axis
that their operands lack). Functions along axes: `one_axis` (where an axis lives, and what its rows become), `along_axes`
(functions of JAX, called along names), `axis_slices` (one entry after the other). Trees: `pytree_leaves`, and `pytree`, by which JAX takes a
`NamedArray` apart. Calls: `argument_placement` knows whether arguments are where the program runs.
"""
