"""Control flow over names, and functions with rules of their own."""
