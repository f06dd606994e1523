"""What a computation past memory comes to, told before it runs."""

import dask.array as da
import numpy as np
import pytest

import layoutkit.dask as lazy

W = np.ones((1, 1, 3, 3), np.float32)


def zeros(*chunks, shape=(1, 1, 100, 100)):
    return da.zeros(shape, dtype=np.float32, chunks=chunks)


def test_tasks_and_bytes_are_counted():
    y = lazy.conv2d(zeros(1, 1, 50, 50), W, padding=1)
    p = lazy.plan(y, threads=2)
    assert p.tasks == 4 + 4 + 4 + 1  # chunks, copies of their edges, tiles, what they share
    assert p.bytes_read == 4 * 102 * 102 and p.overlap_bytes == p.bytes_read - 4 * 100 * 100
    assert p.copied_bytes == 4 * 4 * (50 + 50 + 1)
    assert (p.workers, p.threads) == (1, 2)


def test_without_windows_nothing_is_read_twice_or_copied():
    p = lazy.plan(lazy.reorder(zeros(1, 1, 50, 50), "NCHW", "NHWC"))
    assert p.bytes_read == 40_000 and p.overlap_bytes == p.copied_bytes == 0


def test_memory_is_that_of_what_lives_at_a_time():
    y = lazy.reorder(zeros(1, 1, 10, 100), "NCHW", "NHWC", chunks=(1, 10, 100, 1))
    whole, part = lazy.plan(y, threads=1).peak_bytes, lazy.plan(y.sum(), threads=1).peak_bytes
    assert 80_000 <= whole <= 90_000  # chunks and the array that they are put together to
    assert 8_000 <= part <= 20_000
    assert part < lazy.plan(y.sum(), threads=4).peak_bytes <= whole
    each = lazy.plan(y.sum(), workers=4, threads=1).peak_bytes
    assert 8_000 <= each <= part


def test_all_operations_of_a_graph_are_told():
    y = lazy.conv2d(zeros(1, 1, 50, 50), W)
    text = lazy.plan(lazy.reorder(y, "NCHW", "NHWC").mean(), workers=2, threads=3).explain()
    assert "2 workers, 3 tasks at a time on each" in text and "of memory on a worker" in text
    assert "conv2d: 4 tiles of (1, 1, 98, 98) float32 NCHW, from 4 chunks" in text
    assert "reorder: 4 tiles" in text and "read by tiles" in text


def test_what_is_not_lazy_has_no_plan():
    with pytest.raises(TypeError, match="expected a dask array or delayed value, got ndarray"):
        lazy.plan(W)
