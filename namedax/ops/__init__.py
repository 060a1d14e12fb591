"""The operations on named arrays, in rooms by what a reader looks for."""
