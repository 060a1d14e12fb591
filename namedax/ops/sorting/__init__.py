"""Order along an axis, and what is found by it."""
