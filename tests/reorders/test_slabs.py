import math

import numpy as np
import pytest
from forced import check
from hypothesis import given
from hypothesis import strategies as st
from strategies import laid_out, layouts
from walks import PAD, bytes_expected, bytes_moved, offsets_of, sides

import layoutkit as lk
from layoutkit.choosing.cache import plans
from layoutkit.memory.arrays import contiguous_strides
from layoutkit.reorders import slabs
from layoutkit.reorders.box import Box
from layoutkit.reorders.program import Transfer, stages_of
from layoutkit.reorders.slabs import MAX_BOX_BYTES, MAX_SLAB_BYTES, MIN_SLAB_RUN_BYTES, slabs_of

GAP = 1 << 60  # nothing was written to this byte of a buffer


def of(shape, src, dst, width=4, strides=None):
    src, dst = lk.Layout(src), lk.Layout(dst)
    strides = strides or [tuple(width * s for s in x.axis_strides(shape)) for x in (src, dst)]
    return slabs_of(shape, dst.full_shape(shape), *sides(src, dst, shape, strides), width)


@pytest.fixture
def small(monkeypatch):
    """Slabs of arrays as small as tests draw them."""
    monkeypatch.setattr(slabs, "MIN_BOX_BYTES", 1)
    monkeypatch.setattr(slabs, "RUN_BYTES", 64)
    plans.clear()

    def sizes(most):
        monkeypatch.setattr(slabs, "MAX_BOX_BYTES", most)
        monkeypatch.setattr(slabs, "MAX_SLAB_BYTES", most // 4)

    yield sizes
    plans.clear()


def moved(stage):
    """(source byte, destination byte) of all that the slabs of a stage move, through their buffers."""
    slab, buffer = stage.slab, np.full(stage.slab.bytes, GAP)
    within = bytes_moved([*stage.moves, *stage.fills])
    assert 0 <= within[:, 1].min() and within[:, 1].max() < slab.bytes
    assert np.unique(within[:, 1]).size == len(within)
    buffer[within[:, 1]] = within[:, 0]
    out = bytes_moved([slab.out])
    read, written = buffer[out[:, 0]], out[:, 1]
    assert (read != GAP).all()  # no gap of the buffer is copied
    begins = offsets_of([*slab.boxes, *slab.loops]) + (slab.src, slab.dst)
    src = np.where(read == PAD, PAD, read + begins[:, :1])
    return np.stack([src, written + begins[:, 1:]], -1).reshape(-1, 2)


@given(laid_out(min_rank=1, min_size=1, max_blocks=2), st.data())
def test_slabs_move_every_element_once_and_write_the_pads(laid, data):
    src, shape = laid
    dst = data.draw(layouts(src.rank, src.rank, max_blocks=2))
    width, most = data.draw(st.sampled_from([1, 2, 4, 8, 16])), data.draw(st.sampled_from([16, 100, 400, 2000]))
    reverse, cut = data.draw(st.booleans()), data.draw(st.sampled_from([1, 3, 8]))
    strides = [[s * width for s in x.axis_strides(shape)] for x in (src, dst)]
    strides[0] = [-s if reverse else s for s in strides[0]]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("MIN_BOX_BYTES", 1),
            ("MAX_BOX_BYTES", most),
            ("MAX_SLAB_BYTES", most // cut),
            ("RUN_BYTES", 64),
        ):
            patch.setattr(slabs, name, value)
        found = stages_of(Transfer(src, dst, width, *map(tuple, strides), Box.all_of(shape)), "slabs")
    if found[0].slab is None:
        return
    assert found[0].slab.leads
    got = np.concatenate([moved(stage) for stage in found])
    expected = bytes_expected(src, dst, shape, width, *strides)
    assert np.array_equal(got[np.lexsort(got.T)], expected)


def test_random_reorders_have_slabs(small):
    small(400)
    assert of((9, 7, 30), "NCW", "WCN") and of((2, 35, 12), "nCw8c", "NWC") and of((20, 33), "AB16b4a", "Ba8b")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("most", [4096, 9000])
@pytest.mark.parametrize("width", [1, 4, 16])
def test_they_run(small, width, most, threads):
    small(most)
    dtype = {1: np.uint8, 4: np.float32, 16: np.complex128}[width]
    for shape, src, dst in (
        ((3, 100, 9, 14), "nChw16c", "NHWC"), ((7, 11, 13, 5), "ABCD", "DBCA"), ((2, 17, 12, 12), "NHWC", "nChw8c"),
        ((5, 35, 6, 18), "ABcd4b4a", "aBcD8d4b"),
        ((29, 34, 7, 6), "CwNh16n16c", "CHWN"), ((6, 10, 16, 10), "abCd8c", "CADB"),
    ):  # fmt: skip
        assert of(shape, src, dst, width)
        check(shape, src, dst, dtype, "slabs", threads=threads, offset=8)


@pytest.mark.parametrize(
    ("shape", "src", "dst"),
    [
        ((17, 3, 255, 96, 11), "abdce", "bcade"),
        ((26, 13, 209, 91, 3), "bcdea", "ADceb16d4a"),
        ((64,) * 4, "abcd", "dcba"),
    ],
)
def test_runs_of_both_sides_are_long(shape, src, dst):
    first = of(shape, src, dst)[0]
    assert first.reads.bytes >= 256 and first.out.tile[1].n >= 256
    box = first.reads.bytes * math.prod(n for n, _ in first.reads.loops)
    assert MAX_BOX_BYTES / 4 <= box <= MAX_BOX_BYTES


def test_slabs_of_a_box_are_small_and_of_whole_vectors():
    found = of((64, 100, 96, 96), "NHWC", "NCHW")
    assert [slab.leads for slab in found].count(True) == len({slab.boxes for slab in found}) < len(found)
    assert {slab.shape[1] for slab in found} == {16, 4}  # of 100 channels, a vector or the rest
    assert all(slab.bytes <= 1.5 * MAX_SLAB_BYTES for slab in found)


def test_sizes_are_whole_blocks_of_both_sides_or_everything():
    assert [slab.shape[1] for slab in of((4, 1000, 50, 50), "nChw16c", "nChw12c")] == [48, 1000 - 20 * 48]
    assert of((300, 20, 500), "abc", "Acb4a")[0].shape[0] % 4 == 0


def test_none():
    assert of((8, 3, 5, 5), "NHWC", "NCHW") == []  # one slab would be everything
    assert of((4096, 4096), "aB16b", "bA4096a") == []  # a block of both sides is too large
    assert of((0, 100, 56, 56), "nChw16c", "NHWC") == []


def test_none_where_a_destination_runs_backwards():
    src, dst, shape = lk.Layout("nChw16c"), lk.Layout("NHWC"), (8, 100, 56, 56)
    strides = [[4 * s for s in x.axis_strides(shape)] for x in (src, dst)]
    assert of(shape, src, dst, strides=strides)
    strides[1][0] *= -1
    assert of(shape, src, dst, strides=strides) == []


def test_gaps_of_a_destination_are_not_written():
    src, dst, shape = lk.Layout("nChw16c"), lk.Layout("NHWC"), (8, 100, 7, 7)
    strides = [[4 * s for s in x.axis_strides(shape)] for x in (src, dst)]
    strides[1][1] += 64  # between rows
    strides[1][0] = 7 * strides[1][1]
    assert {slab.out.tile[1].n for slab in of(shape, src, dst, strides=strides)} == {7 * 400}


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_dimension_is_cut_between_its_blocks_though_they_begin_every_run(width):
    """Runs of the destination are 4 h of each w of each c: slabs have all of these, and some blocks of h."""
    found = of((76, 209, 156, 22), "NCHW", "nHcw4h", width)
    assert found and all(slab.bytes <= 2 * MAX_SLAB_BYTES for slab in found)
    assert all(slab.shape[2] % 4 == 0 and slab.shape[2] < 156 for slab in found)


@pytest.mark.parametrize("shape, src, dst, width", [
    ((11, 35, 200, 637), "nChw8c", "HWCN", 1), ((114, 476, 5, 100), "dabc", "abcd", 2),
    ((2414, 121, 50), "cba", "bac", 4),
])  # fmt: skip
def test_the_runs_of_a_box_are_cut_where_the_buffer_cannot_hold_them(shape, src, dst, width):
    found = of(shape, src, dst, width)
    assert found and all(slab.bytes <= 2 * MAX_SLAB_BYTES for slab in found)
    assert found[0].out.tile[1].n >= MIN_SLAB_RUN_BYTES


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("src, dst", [("NCW", "NWC"), ("NWC", "NCW")])
def test_few_long_rows_are_interleaved_by_whole_vectors(src, dst, width):
    """Where a tile is a whole number of vectors on both sides, no windows are shuffled."""
    shape = (300, 4, 3000)
    layouts = lk.Layout(src), lk.Layout(dst)
    t = Transfer(*layouts, width, *(contiguous_strides(x, shape, width) for x in layouts), Box.all_of(shape))
    stages = stages_of(t, "slabs")
    assert stages[0].slab and {nest.family for nest in stages[0].moves} == {"transpose"}
