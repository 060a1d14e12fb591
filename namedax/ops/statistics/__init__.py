"""Statistics over axes."""
