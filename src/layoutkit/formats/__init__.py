"""Formats beside the algebra of `layout.py`: pads, strides and what they leave open, views, affine maps."""
