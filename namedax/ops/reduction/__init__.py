"""Reductions, cumulative operations, segments, comparisons."""
