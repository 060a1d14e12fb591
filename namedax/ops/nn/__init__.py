"""Neural networks by name."""
