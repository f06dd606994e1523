"""The geometry that executors read: the same taps on three axes, strides that say where elements are."""

import itertools

import numpy as np
import pytest
from conv_problems import conv_problems
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from strategies import layouts, shapes

from layoutkit import Layout
from layoutkit.convolutions.geometry import (
    channels_innermost,
    geometry,
    pixels_innermost,
    spatial_strides,
    strides_of,
)
from layoutkit.memory.arrays import contiguous_strides


def reads(out, kernel, stride, dilation, before):
    """Along one axis the index that each tap of each output reads."""
    return [[o * stride + k * dilation - before for k in range(kernel)] for o in range(out)]


@given(conv_problems())
def test_every_output_reads_what_the_problem_says(p):
    g = geometry(p)
    missing = 3 - len(p.size)
    before = [a for a, _ in p.padding]
    want = [reads(*axis) for axis in zip(p.out, p.kernel, p.stride, p.dilation, before)]
    assert [reads(*axis) for axis in zip(g.out, g.kernel, g.stride, g.dilation, g.before)] == [[[0]]] * missing + want
    assert g.size == (1,) * missing + p.size
    assert (g.n, g.groups, g.groups * g.oc) == (p.n, p.groups, p.oc)


@given(conv_problems())
def test_what_reaches_nowhere_is_one(p):
    g = geometry(p)
    assert all(s == 1 for s, n in zip(g.stride, g.out) if n == 1)
    assert all(d == 1 for d, k in zip(g.dilation, g.kernel) if k == 1)


@given(st.data())
def test_digits_are_where_elements_lie(data):
    layout = data.draw(layouts(3, 5, max_blocks=2))
    shape = data.draw(shapes(layout.rank, 1, 200))
    ds = strides_of(layout, contiguous_strides(layout, shape, 4))
    offsets = np.arange(np.prod(layout.physical_shape(shape)), dtype=np.float32).reshape(layout.physical_shape(shape))
    where = reference.to_logical(offsets, layout, shape)
    for at in itertools.islice(np.ndindex(*shape), 100):
        place = 0
        for i, digits in zip(at, ds):
            for outer, inner in zip((None, *digits), digits):  # outermost first
                place += (i if outer is None else i % outer.unit) // inner.unit * inner.stride
        assert place == 4 * where[at]


@pytest.mark.parametrize(("layout", "want"), [
    ("NCW", (0, 0, 4)), ("NHWC", (0, 4 * 5 * 3, 4 * 3)), ("NDHWC", (4 * 5 * 4 * 3, 4 * 5 * 3, 4 * 3)),
])  # fmt: skip
def test_strides_of_missing_axes_are_zero(layout, want):
    layout = Layout(layout)
    shape = (2, 3, *(2, 4, 5)[-(layout.rank - 2) :])
    assert spatial_strides(strides_of(layout, contiguous_strides(layout, shape, 4))) == want


def beside(layout, dim, shape):
    """How far apart the neighbours along one dimension lie, in elements, pixels and channels each by themselves."""
    zero = [0] * layout.rank
    offsets = [layout.offset((*zero[:dim], i, *zero[dim + 1 :]), shape) for i in range(shape[dim])]
    return {b - a for a, b in itertools.pairwise(offsets)}


@given(layouts(3, 5, max_blocks=2))
def test_channels_innermost(layout):
    blocks = [f for f in layout.factors if f.size]
    assume(all(f.size > 1 for f in blocks))
    shape = tuple(layout.block(1) if d == 1 and layout.block(1) > 1 else 3 for d in range(layout.rank))
    others = any(f.dim != 1 for f in blocks)
    whole = beside(layout, 1, shape) == {1}  # the channels of a block, or all of them
    inner = blocks in ([], [layout.factors[-1]])  # not a few channels apart, each with the rest of them inside
    assert channels_innermost(layout) == (whole and not others and inner)


@given(layouts(3, 5, max_blocks=1))
def test_pixels_innermost(layout):
    shape = (2, 3, 4, 5, 6)[: layout.rank]
    pixels = shape[2:]
    if any(f.size for f in layout.factors):
        assert not pixels_innermost(layout)
        return
    offsets = [layout.offset((0, 0, *at), shape) for at in np.ndindex(*pixels)]
    assert pixels_innermost(layout) == (offsets == list(range(len(offsets))))
