"""What an array, a name and a region are; no operation."""
