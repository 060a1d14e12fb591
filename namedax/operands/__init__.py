"""How operations take their operands: aligned by name, through compiled kernels, and lifted over names."""
