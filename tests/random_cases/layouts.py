"""Random layouts, of the whole grammar: any order of dimensions, blocks of any of them anywhere inside it."""

from __future__ import annotations

from math import prod

import numpy as np

import layoutkit as lk

BLOCKS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 64)
CHANNEL_BLOCKS = (4, 8, 8, 16, 16, 32, 64, 2, 3, 12, 20, 24, 40, 48)
LARGEST = 60_000  # elements, pads included, of the arrays of a case


def any_layout(rng: np.random.Generator, rank: int) -> lk.Layout:
    """Any order of dimensions, up to three blocks of any of them, outside of their dimension too."""
    factors = [(int(d), 0) for d in rng.permutation(rank)]
    for _ in range(rng.integers(4) if rank else 0):
        dim = int(rng.integers(rank))
        factors.insert(int(rng.integers(len(factors) + 1)), (dim, int(rng.choice(BLOCKS))))
    return lk.Layout.from_factors(factors)


def activation_layout(rng: np.random.Generator, rank: int) -> lk.Layout:
    """Half of them any; of the others, kernels may take many as they are: pixels or channels innermost."""
    if rng.integers(2):
        return any_layout(rng, rank)
    order = [int(d) for d in rng.permutation(rank)] if rng.integers(2) else list(range(rank))
    match rng.integers(3):
        case 0:  # NCHW, CNHW
            order = [d for d in order if d < 2] + list(range(2, rank))
            return lk.Layout.from_factors([(d, 0) for d in order])
        case 1:  # NHWC and its permutations
            order = [d for d in order if d != 1] + [1]
            return lk.Layout.from_factors([(d, 0) for d in order])
        case _:  # nChw16c and its permutations
            return lk.Layout.from_factors([*((d, 0) for d in order), (1, int(rng.choice(CHANNEL_BLOCKS)))])


def fitting(layout: lk.Layout, shape: tuple[int, ...], most: int = LARGEST) -> lk.Layout:
    """`layout` without those inner blocks whose pads make an array of `shape` larger than `most`."""
    while prod(layout.physical_shape(shape)) > most and any(f.size for f in layout.factors):
        factors = list(layout.factors)
        del factors[max(i for i, f in enumerate(factors) if f.size)]
        layout = lk.Layout.from_factors(factors)
    return layout


def with_strides_of(layout: lk.Layout, array: np.ndarray) -> lk.Layout | None:
    """`layout` with the explicit strides of its physical `array`; None where no layout has them."""
    if any(s < 0 or s % array.itemsize for s in array.strides):
        return None
    return lk.Layout.from_factors(layout.factors, [s // array.itemsize for s in array.strides])
