"""Windows: which elements of the destination make a pattern, and where they come from."""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from strategies import layouts

from layoutkit import Layout
from layoutkit.memory.arrays import contiguous_strides
from layoutkit.reorders import windows
from layoutkit.reorders.box import Box
from layoutkit.reorders.loops import SINGLE_STEP
from layoutkit.reorders.program import Transfer, program
from layoutkit.reorders.windows import is_scattered, line_seconds, window_nests


def nests_of(src, dst, shape, width=4, box=None):
    src, dst, box = Layout(src), Layout(dst), box or Box.all_of(shape)
    strides = [contiguous_strides(x, of, width) for x, of in ((src, box.src_shape), (dst, box.dst_shape))]
    return window_nests(shape, *box.sides(src, strides[0], dst, strides[1]), width, box.whole)


def test_a_pattern_is_whole_lines_where_it_can_be():
    (nest,), padded = nests_of("NWC", "NCW", (3, 12, 10))  # 10 elements a row of the destination
    assert not padded
    n = len(nest.fused.rows.table)
    assert windows.MIN_PATTERN_BYTES <= 4 * n <= windows.MAX_PATTERN_BYTES and n % 10 == 0
    assert nest.fused.rows.table[:12] == (*range(0, 480, 48), 4, 52)
    assert np.prod([x.n for x in nest.loops]) * n == 360


def test_what_is_left_of_a_digit_is_a_nest_of_its_own():
    nests, _ = nests_of("ab", "ba", (2, 1031))
    assert len(nests) == 2
    assert sum(len(x.fused.rows.table) * np.prod([y.n for y in x.loops or (SINGLE_STEP,)]) for x in nests) == 2062


def test_pads_are_a_part_of_the_pattern():
    nests, padded = nests_of("NCHW", "nChw16c", (2, 19, 5, 7))
    assert padded == {1}
    assert all(x.fused.rows.table.count(None) in (0, len(x.fused.rows.table) * 13 // 16) for x in nests)


def test_there_is_none():
    assert nests_of("ab", "ba", (4, 4), 16) is None  # elements wider than those of any kernel
    assert nests_of("ab", "ba", (0, 4)) is None
    box = Box((2, 19), (2, 19), (0, 0), (2, 40), (0, 3), False)
    assert nests_of("ab", "aB16b", (2, 19), box=box) is None  # blocks that begin elsewhere
    assert nests_of("ab", "aB16b", (2, 19), box=box._replace(dst_at=(0, 0))) is None  # it must not write pads


def test_what_it_takes_goes_by_how_far_apart_elements_are():
    def seconds(src, rows):
        """Of `rows` rows of the source an element each follow one another in the destination."""
        return line_seconds(nests_of(src, "ab", (1000, rows))[0][0])

    copied, *others = seconds("ab", 64), *(seconds("ba", rows) for rows in (2, 8, 16))
    assert copied == min(copied, *others) and others == sorted(others)
    assert not is_scattered(nests_of("ab", "ab", (1000, 64))[0][0])


@pytest.mark.parametrize("seconds, widths", [(2.4e-9, {1, 2, 4, 8}), (4e-9, {1, 2}), (7e-9, {1}), (8e-9, set())])
def test_the_narrower_elements_are_the_longer_may_windows_take(monkeypatch, seconds, widths):
    """Instead of tiles, which take longer then."""
    monkeypatch.setattr(windows, "line_seconds", lambda nest: seconds)
    found = {width for width in (1, 2, 4, 8) if is_scattered(nests_of("NCW", "NWC", (1000, 8, 8), width)[0][0])}
    assert found == widths


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(3, 5, 7, 9), (1, 37, 2, 3), (2, 16, 1, 33), (1, 1, 1, 2)])
@pytest.mark.parametrize("pair", [("NHWC", "NCHW"), ("Hncw8h", "nChw16c"), ("NCHW", "CwHn8h4c"), ("ChNw4n16c", "HNCW")])
def test_every_byte_is_that_of_other_variants(pair, shape, width):
    src, dst = map(Layout, pair)
    x = np.random.default_rng(1).integers(0, 256, (*src.physical_shape(shape), width)).astype(np.uint8)
    x = x.view(f"u{width}")[..., 0]
    strides = [contiguous_strides(layout, shape, width) for layout in (src, dst)]
    t = Transfer(src, dst, width, *strides, Box.all_of(shape))
    found = [np.full(dst.physical_shape(shape), 85, x.dtype) for _ in range(2)]
    for name, out in zip(("windows", "store allx64"), found):
        program(t, name, bytes([7] * width))(x, out, 1)
    assert (found[0] == found[1]).all()


MOST = 1_000_000  # elements, pads included: blocks of blocks multiply


@st.composite
def boxes(draw):
    """Two layouts, and a box from anywhere in the one to anywhere in the other."""
    src = draw(layouts(2, 5))
    dst = draw(layouts(src.rank, src.rank))
    shape, *around = (draw(st.tuples(*[st.integers(low, 5)] * src.rank)) for low in (1, 0, 0, 0, 0))
    src_at, src_rest, dst_at, dst_rest = around
    if draw(st.booleans()):
        shape = dst.full_shape(tuple(min(n, 2) for n in shape))  # of whole blocks
    src_shape, dst_shape = (
        of.full_shape(tuple(map(sum, zip(shape, at, rest))))
        for of, at, rest in ((src, src_at, src_rest), (dst, dst_at, dst_rest))
    )
    assume(max(prod(src.physical_shape(src_shape)), prod(dst.physical_shape(dst_shape))) <= MOST)
    return src, dst, Box(shape, src_shape, src_at, dst_shape, dst_at, False)


@given(boxes(), st.sampled_from([1, 2, 4, 8]))
def test_boxes_may_begin_anywhere_within_blocks(given_boxes, width):
    src, dst, box = given_boxes
    x, out = (
        np.random.default_rng(seed)
        .integers(0, 256, (*of.physical_shape(shape), width), np.uint8)
        .view(f"u{width}")[..., 0]
        for seed, of, shape in ((1, src, box.src_shape), (2, dst, box.dst_shape))
    )
    moved, into = reference.to_logical(x, src, box.src_shape), reference.to_logical(out, dst, box.dst_shape).copy()
    source, target = (tuple(slice(a, a + n) for a, n in zip(at, box.shape)) for at in (box.src_at, box.dst_at))
    into[target] = moved[source]
    program(Transfer(src, dst, width, x.strides, out.strides, box), "windows", bytes(width))(x, out, 1)
    assert (out == reference.to_physical(into, dst)).all()
