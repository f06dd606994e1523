"""Reorders, conversions, and all other selections of elements."""
