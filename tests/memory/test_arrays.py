import gc
import itertools
import os
import threading

import numpy as np
import pytest

import layoutkit as lk
from layoutkit._core.runtime.pool import LARGE_BYTES, Pool
from layoutkit.memory import pool as pools

HUGE = 2 << 20


def test_empty_is_the_physical_array():
    x = lk.empty((2, 20, 5, 7), "nChw16c")
    assert x.shape == (2, 2, 5, 7, 16) and x.dtype == np.float32 and x.ctypes.data % 64 == 0
    assert lk.empty((3, 4)).shape == (3, 4)
    assert lk.empty((1, 2, 3, 4), "NHWC", "f8").shape == (1, 3, 4, 2)
    assert lk.empty((0, 3), "ab", "u1").shape == (0, 3)
    spread = lk.empty((2, 3, 4, 5), "nhwc:(100,20,4,1)")
    assert [s // 4 for s in spread.strides] == [100, 20, 4, 1]
    assert lk.empty((2, 2), "ab", "bfloat16").dtype.name == "bfloat16"


def test_arrays_of_many_pages_begin_at_changing_places_of_them():
    places = [lk.empty((1 << 15,), "a", "u1").ctypes.data % 4096 for _ in range(9)]
    assert all(a != b and a % 64 == 0 for a, b in itertools.pairwise(places))


def test_an_output_does_not_begin_as_its_input_does():
    op = lk.Conv2d(np.ones((64, 1, 3, 3), np.float32), groups=64, padding=1, layout="NHWC")
    x = np.ones((1, 56, 56, 64), np.float32)
    assert all(256 <= (op(x).ctypes.data - x.ctypes.data) % 4096 <= 4096 - 256 for _ in range(5))


def test_large_arrays_begin_at_a_huge_page_and_take_part_in_reorders():
    x = lk.empty((2, 64, 128, 128), "NHWC")
    assert x.nbytes >= LARGE_BYTES and x.ctypes.data % HUGE == 0 and x.flags.c_contiguous and x.flags.writeable
    source = np.random.default_rng(0).random((2, 64, 128, 128), np.float32)
    assert lk.reorder(source, "NCHW", "NHWC", out=x) is x
    np.testing.assert_array_equal(x, source.transpose(0, 2, 3, 1))


def address_of(n):
    return lk.empty((n,), "a", "u1").ctypes.data


def test_memory_is_used_again_once_nothing_sees_it():
    lk.release_memory()
    first = lk.empty((5 << 20,), "a", "u1")
    at = first.ctypes.data
    view = first[1000:2000].reshape(10, 100).T
    del first
    gc.collect()
    assert address_of(5 << 20) != at  # the view still sees it
    del view
    lk.release_memory(1 << 40)
    again = [lk.empty((5 << 20,), "a", "u1") for _ in range(2)]
    assert at in [x.ctypes.data for x in again]
    assert again[0].ctypes.data != again[1].ctypes.data
    del again
    lk.release_memory()
    reordered = lk.reorder(np.ones((1, 64, 160, 160), np.float32), "NCHW", "NHWC")
    at = reordered.ctypes.data
    del reordered
    assert lk.reorder(np.ones((1, 64, 160, 160), np.float32), "NCHW", "NHWC").ctypes.data == at


def test_a_pool_keeps_no_more_than_its_bound():
    p = Pool(3 * (LARGE_BYTES + HUGE))
    held = [p.take(LARGE_BYTES) for _ in range(6)]
    assert p.free_bytes == 0
    held.clear()
    assert p.free_bytes == 3 * (LARGE_BYTES + HUGE)
    large = p.take(2 * LARGE_BYTES)  # nothing of that size is free: a new one
    assert large.size == 2 * LARGE_BYTES and p.free_bytes == 3 * (LARGE_BYTES + HUGE)
    assert p.release(LARGE_BYTES + HUGE) == 2 * (LARGE_BYTES + HUGE) and p.free_bytes == LARGE_BYTES + HUGE
    assert p.release() == LARGE_BYTES + HUGE and p.free_bytes == 0 and p.release() == 0


def test_a_much_larger_block_is_not_given_away():
    p = Pool(1 << 30)
    p.take(20 * LARGE_BYTES)
    assert p.free_bytes == 20 * LARGE_BYTES + HUGE
    p.take(LARGE_BYTES)
    assert p.free_bytes == 21 * LARGE_BYTES + 2 * HUGE


def test_threads_share_a_pool():
    p = Pool(8 * (LARGE_BYTES + HUGE))
    wrong = []

    def work(mark):
        for _ in range(60):
            x = p.take(LARGE_BYTES)
            x[::4096] = mark
            y = p.take(LARGE_BYTES)
            y[::4096] = mark + 1
            if (x[::4096] != mark).any():
                wrong.append(mark)
            del x, y

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and p.free_bytes <= p.bound


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_child_does_not_share_memory():
    x = lk.empty((LARGE_BYTES,), "a", "u1")
    x[:] = 1
    child = os.fork()
    if child == 0:
        x[:] = 2
        os._exit(int(lk.empty((LARGE_BYTES,), "a", "u1").ctypes.data == x.ctypes.data))
    assert os.waitpid(child, 0)[1] == 0 and (x == 1).all()


def test_what_cannot_be_had(monkeypatch):
    with pytest.raises(ValueError, match="empty in ab: an array of shape"):
        lk.empty((2**62, 2), "ab")
    with pytest.raises(MemoryError):
        lk.empty((2**59,), "a", "u1")
    with pytest.raises(TypeError, match="dtype 'nonsense' is none"):
        lk.empty((2, 2), "ab", "nonsense")
    with pytest.raises(TypeError, match="no plain bytes"):
        lk.empty((2, 2), "ab", object)
    with pytest.raises(ValueError, match="2 dimensions, shape"):
        lk.empty((2, 2, 2), "ab")
    with pytest.raises(ValueError, match="keep must be bytes"):
        lk.release_memory(-1)


def test_free_blocks_are_released_before_memory_is_said_to_be_short(monkeypatch):
    p = Pool(1 << 30)
    p.take(LARGE_BYTES)
    real, calls = pools.mmap.mmap, []

    def short(*args, **kwargs):
        calls.append(p.free_bytes)
        if len(calls) == 1:
            raise OSError("no memory")
        return real(*args, **kwargs)

    monkeypatch.setattr(pools.mmap, "mmap", short)
    assert p.take(4 * LARGE_BYTES).size == 4 * LARGE_BYTES and calls == [LARGE_BYTES + HUGE, 0]
