"""The functions that this package defines itself, one module per package of JAX; `namedax.namespaces.lifting` lifts the others."""
