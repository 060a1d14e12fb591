"""Which functions this package writes itself, a module for each package of JAX; the rest is lifted (`namedax.namespaces.lifting`)."""
