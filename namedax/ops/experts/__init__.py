"""Mixtures of experts by name."""
