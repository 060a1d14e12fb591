"""Names and shapes: renaming, rearranging, joining, conversion, creation."""
