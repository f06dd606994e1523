"""Nothing here is for Python: see layoutkit.h and api.pxd."""
