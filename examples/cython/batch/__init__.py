"""A package that builds on the installed layoutkit: filters many images in its own parallel loop."""

from .filters import filter_images

__all__ = ["filter_images"]
