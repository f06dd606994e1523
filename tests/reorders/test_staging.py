import itertools

import numpy as np
import pytest
from forced import check
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import laid_out, shapes
from walks import offsets_of, places, sides

import layoutkit as lk
from layoutkit.formats.layout import Layout
from layoutkit.reorders import staging
from layoutkit.reorders.staging import MAX_STAGING_BYTES, MIN_STAGING_BYTES, staging_of


def of(shape, src, dst, width=4):
    src, dst = lk.Layout(src), lk.Layout(dst)
    strides = [tuple(width * s for s in x.axis_strides(shape)) for x in (src, dst)]
    return staging_of(shape, dst.full_shape(shape), *sides(src, dst, shape, strides), width)


def test_the_largest_run_that_fits():
    found = of((8, 100, 56, 56), "nChw16c", "NHWC")
    assert found.shape == (1, 100, 1, 56) and found.bytes == 56 * 400
    assert [(x.n, x.dst) for x in found.loops] == [(8, 56 * 56 * 400), (56, 56 * 400)]
    assert of((8, 100, 7, 7), "nChw16c", "NHWC").shape == (1, 100, 7, 7)


def test_none():
    assert of((8, 100, 56, 56), "NHWC", "nChw16c") is None  # no stride steps through blocks
    assert of((8, 3, 5, 5), "nChw16c", "NHWC") is None  # too short
    assert of((2, 100, 10, 1000), "nChw16c", "NHWC") is None  # too long
    assert MIN_STAGING_BYTES < MAX_STAGING_BYTES


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("src", ["nChw16c", "nChw8c", "NCHW", "nChw3c"])
def test_pieces_make_whole_runs(src, dtype, threads):
    for shape in ((3, 100, 9, 14), (2, 20, 30, 31), (4, 3, 40, 224), (2, 17, 12, 12)):
        for dst in ("NHWC", "nhwC4c"):
            check(shape, src, dst, dtype, "slabs", threads=threads, offset=8)


@st.composite
def ragged(draw):
    """A destination whose innermost dimensions are one run, often from blocks of them; and the limits of the buffer."""
    if draw(st.booleans()):
        src, shape = draw(laid_out(min_rank=2, min_size=1, max_blocks=2))
        rank, outer = src.rank, draw(st.integers(0, src.rank - 1))
    else:
        rank, outer = 4, draw(st.integers(0, 3))
        shape = draw(shapes(rank, 1))
        src = Layout.from_factors([*((d, 0) for d in range(rank)), (draw(st.integers(outer, 3)), 8)])
    order = draw(st.permutations(range(rank)))
    blocks = [(order[-1], draw(st.sampled_from([3, 4])))] * draw(st.integers(0, 1))
    dst = Layout.from_factors([*((d, 0) for d in order), *blocks])
    return (
        src,
        dst,
        shape,
        draw(st.sampled_from([1, 4, 16])),
        draw(st.sampled_from([1, 16, 64])),
        draw(st.sampled_from([64, 400, 4000])),
    )


def test_staged_parts_are_runs_within_the_limits_that_make_up_the_destination(monkeypatch):
    seen = []

    @given(ragged())
    @settings(max_examples=300, deadline=None)
    def check_one(case):
        src, dst, shape, width, least, most = case
        strides = [tuple(width * s for s in x.axis_strides(shape)) for x in (src, dst)]
        s, d = sides(src, dst, shape, strides)
        monkeypatch.setattr(staging, "MIN_STAGING_BYTES", least)
        monkeypatch.setattr(staging, "MAX_STAGING_BYTES", most)
        found = staging_of(shape, dst.full_shape(shape), s, d, width)
        seen.append(found is not None)
        if found is None:
            return
        assert least <= found.bytes <= most
        full = dst.full_shape(found.shape)
        part = [sum(side.offset(i) for side, i in zip(d, index)) for index in itertools.product(*map(range, full))]
        assert sorted(part) == list(range(0, found.bytes, width))  # one run, pads included
        every = places(dst, shape, strides[1])[0]
        begins = offsets_of(found.loops)
        assert sorted(begins[:, 1]) == list(range(0, every.size * width, found.bytes))
        outer = [range(n) if k == 1 else range(1) for n, k in zip(shape, found.shape)]
        first = [[sum(x.offset(i) for x, i in zip(y, index)) for y in (s, d)] for index in itertools.product(*outer)]
        assert sorted(begins.tolist()) == sorted(first)

    check_one()
    assert sum(seen) > len(seen) / 10  # such parts were found


def test_no_staging_where_a_destination_runs_backwards():
    src, dst, shape = lk.Layout("nChw16c"), lk.Layout("NHWC"), (8, 100, 56, 56)
    strides = [[4 * s for s in x.axis_strides(shape)] for x in (src, dst)]
    strides[1][0] *= -1
    assert staging_of(shape, shape, *sides(src, dst, shape, strides), 4) is None


def test_no_staging_across_gaps_of_a_destination():
    src, dst, shape = lk.Layout("nChw16c"), lk.Layout("NHWC"), (8, 100, 7, 7)
    strides = [[4 * s for s in x.axis_strides(shape)] for x in (src, dst)]
    assert staging_of(shape, shape, *sides(src, dst, shape, strides), 4).bytes == 4 * 4900
    strides[1][0] += 64  # between images
    assert staging_of(shape, shape, *sides(src, dst, shape, strides), 4).bytes == 4 * 700  # rows
    strides[1][1] += 64
    assert staging_of(shape, shape, *sides(src, dst, shape, strides), 4) is None
