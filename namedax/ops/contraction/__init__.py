"""Contractions over names."""
