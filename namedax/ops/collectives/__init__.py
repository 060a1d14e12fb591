"""Collectives over names."""
