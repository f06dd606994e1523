"""Pooling, resizing, regions and boxes."""
