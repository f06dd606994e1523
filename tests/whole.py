"""Convolutions of whole numbers, whose sums are exact, between guard pages: the memory of both sides."""

import numpy as np
from oracle import reference
from oracle.guard import guarded


def numbers(rng, *shape, dtype=np.float32):
    """Numbers of -4 to 4."""
    return rng.integers(-4, 5, shape).astype(dtype)


def inside(x, layout, end):
    """The physical array of `x`; what its pads hold must not matter."""
    stored = reference.to_physical(x, layout, pad_value=np.nan)
    return guarded(stored.reshape(-1).view(np.uint8), end).array.view(x.dtype).reshape(stored.shape)


def outside(want, layout, end, dtype=np.float32):
    """An array to write into, and what it must hold then: pads are zero."""
    expected = reference.to_physical(want.astype(dtype), layout)
    out = guarded(np.full(expected.size, np.nan, dtype).view(np.uint8), end).array.view(dtype)
    return out.reshape(expected.shape), expected
