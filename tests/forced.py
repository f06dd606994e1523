"""A reorder carried out by one variant, whatever the cost table says, between guard pages."""

import numpy as np
from oracle import reference
from oracle.guard import guarded

import layoutkit as lk
from layoutkit.reorders.box import Box
from layoutkit.reorders.program import Transfer, program


def values(shape, dtype):
    n = int(np.prod(shape))
    return (np.arange(n) % 251 + 1).astype(np.uint8).view(np.uint8).astype(dtype).reshape(shape)


def check(shape, src, dst, dtype, variant, threads=1, end="low", offset=0):
    s, d = lk.Layout(src), lk.Layout(dst)
    x = reference.to_physical(values(shape, dtype), s, pad_value=7)
    want = reference.reorder(x, s, d, shape, pad_value=3)
    a = guarded(x.reshape(-1).view(np.uint8), end).array.view(dtype).reshape(x.shape)
    room = guarded(np.zeros(want.nbytes + offset, np.uint8), end).array
    out = room[offset:].view(dtype).reshape(want.shape)
    pad = np.asarray(3).astype(dtype).tobytes()
    move = Transfer(s, d, x.itemsize, a.strides, out.strides, Box.all_of(shape), out.ctypes.data % 64)
    program(move, variant, pad)(a, out, threads)
    np.testing.assert_array_equal(out, want)
    assert not room[:offset].any()
