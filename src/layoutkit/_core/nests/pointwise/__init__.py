"""Elementwise work."""
