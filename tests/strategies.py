"""Hypothesis strategies for layouts and shapes: any format that the grammar has, not a list of known ones."""

from __future__ import annotations

from math import prod

from hypothesis import strategies as st

from layoutkit.convolutions.types import TYPES
from layoutkit.formats.layout import Layout

BLOCKS = (1, 2, 3, 4, 5, 8, 16)


def conv_types():
    """The types that convolutions of real numbers are of."""
    return st.sampled_from([types for types in TYPES.values() if not types.integers])


@st.composite
def layouts(draw, min_rank=1, max_rank=5, max_blocks=3, tagged=False, pitched=False):
    """Layouts of any order of dimensions and blocks.

    Blocks stand anywhere, outside their own dimension too; with `tagged` inside all whole dimensions, as tags have
    it. With `pitched`, some have
    explicit strides, overlapping ones among them.
    """
    rank = draw(st.integers(min_rank, max_rank))
    factors = [(d, 0) for d in draw(st.permutations(range(rank)))]
    blocks = st.tuples(st.integers(0, max(rank - 1, 0)), st.sampled_from(BLOCKS))
    for dim, size in draw(st.lists(blocks, max_size=max_blocks if rank else 0)):
        first = len(factors) if tagged else 0
        factors.insert(draw(st.integers(first, len(factors))), (dim, size))
    pitches = None
    if pitched and draw(st.booleans()):
        pitch = st.none() | st.integers(0, 40)
        pitches = draw(st.lists(pitch, min_size=len(factors), max_size=len(factors)))
    return Layout.from_factors(factors, pitches)


CHANNEL_BLOCKS = [4, 8, 16, 32, 64, 2, 3, 12, 20, 24, 40, 48]


@st.composite
def activations(draw, rank):
    """Layouts of activations with `rank` spatial axes: any, those with channels or pixels innermost more often.

    What is convolved in them must say its logical shape: any dimension may be padded.
    """
    dims = range(rank + 2)
    match draw(st.sampled_from(["any", "channels", "blocks", "pixels"])):
        case "any":
            return draw(layouts(rank + 2, rank + 2, max_blocks=2))
        case "channels":
            return Layout.from_factors([(d, 0) for d in draw(st.permutations([d for d in dims if d != 1]))] + [(1, 0)])
        case "blocks":
            order = draw(st.just(list(dims)) | st.permutations(dims))
            return Layout.from_factors([*((d, 0) for d in order), (1, draw(st.sampled_from(CHANNEL_BLOCKS)))])
        case _:
            order = draw(st.permutations([0, 1])) + list(dims[2:])
            return Layout.from_factors([(d, 0) for d in order])


def in_proportion(layout, tensor):
    """Whether an array of `layout` is not much larger than the `tensor` that it holds."""
    return prod(layout.physical_shape(tensor.shape)) <= 100_000 + tensor.size


@st.composite
def shapes(draw, rank, min_size=0, most=600):
    """Shapes of at most `most` elements; sizes 0 and 1 are frequent enough to matter."""
    shape = draw(st.lists(st.integers(min_size, 9) | st.integers(1, 40), min_size=rank, max_size=rank))
    while prod(max(s, 1) for s in shape) > most:
        k = max(range(rank), key=lambda d: shape[d])
        shape[k] = (shape[k] + 1) // 2
    return tuple(shape)


def fitted(layout, shape, most=20_000):
    """`layout`, without its innermost blocks where the array of `shape` would have more than `most` elements."""
    while (blocks := [k for k, f in enumerate(layout.factors) if f.size]) and prod(layout.physical_shape(shape)) > most:
        layout = Layout.from_factors(layout.factors[: blocks[-1]] + layout.factors[blocks[-1] + 1 :])
    return layout


@st.composite
def laid_out(draw, min_size=0, most=600, **kinds):
    """(layout, shape) pairs; the memory stays below some ten thousand elements."""
    layout = draw(layouts(**kinds))
    shape = draw(shapes(layout.rank, min_size, most))
    return fitted(layout, shape), shape


@st.composite
def strided_pairs(draw, min_size=0):
    """(source, destination, shape, bytes of an element, byte strides of both): two layouts, strides of either sign."""
    src, shape = draw(laid_out(min_size=min_size, min_rank=1))
    dst = draw(layouts(src.rank, src.rank, max_blocks=2))
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    signs = st.sampled_from([1, 1, 1, -1])
    strides = [tuple(width * s * draw(signs) for s in x.axis_strides(shape)) for x in (src, dst)]
    return src, dst, shape, width, strides
