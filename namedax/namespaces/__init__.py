"""How JAX's namespaces become those of this package."""
