"""Contractions over names: `einsum`, `dot` and `pdot`.

Read `einsum` (what users write, which `spec` parses), then `engine`: operands with a label for every dimension, and what is sent.
`order` says in which order several operands meet. `rings` overlaps communication with computation, around a ring of devices.
`pdot` is the collective of that name.
"""
