import numpy as np
import pytest
from forced import check

import layoutkit as lk
from layoutkit.reorders.box import Box
from layoutkit.reorders.staging import MAX_STAGING_BYTES, MIN_STAGING_BYTES, staging_of


def of(shape, src, dst, width=4):
    src, dst = lk.Layout(src), lk.Layout(dst)
    strides = [tuple(width * s for s in x.axis_strides(shape)) for x in (src, dst)]
    s, d = Box.all_of(shape).sides(src, strides[0], dst, strides[1])
    return staging_of(shape, dst.full_shape(shape), s, d, width)


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
