"""Contractions over named axes: `einsum`, `dot` and `pdot`.

Read `einsum` first, the function that users call; `spec` parses its specification. Then read
`engine`, which contracts operands with a label for every dimension and communicates; `terms` has
its records. `order` has the order in which several operands are contracted. `rings` overlaps
communication with computation around a ring of devices, and `overlap` chooses the ring. `pdot` is
the collective of that name.
"""
