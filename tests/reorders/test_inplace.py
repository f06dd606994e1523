import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.reorders import inplace

CASES = [  # what stays outside, what is exchanged, what moves along
    ("ab", "ba", lambda n, k: (n, n)),
    ("abc", "acb", lambda n, k: (k, n, n)),
    ("abc", "bac", lambda n, k: (n, n, k)),
    ("abcd", "acbd", lambda n, k: (3, n, n, k)),
    ("abcd", "adcb", lambda n, k: (2, n, k, n)),
    ("abc", "cba", lambda n, k: (n, k, n)),
    ("NCHW", "NHWC", lambda n, k: (k, 4 * n, 2 * n, 2)),
]


@given(st.sampled_from(CASES), st.integers(1, 40), st.integers(1, 5), st.sampled_from(["u1", "u2", "f4", "f8", "c16"]),
       st.sampled_from([1, 64, 1 << 10, 1 << 18]), st.integers(1, 2))  # fmt: skip
def test_equal_dimensions_change_places(case, n, k, dtype, buffer, threads):
    src, dst, shape = case
    shape = shape(n, k)
    x = np.random.default_rng(n).integers(0, 250, shape).astype(dtype)
    want = lk.reorder(x, src, dst)
    before, inplace.BUFFER_BYTES = inplace.BUFFER_BYTES, buffer
    try:
        out = x.reshape(want.shape)
        assert lk.reorder(x, src, dst, out=out, threads=threads) is out
    finally:
        inplace.BUFFER_BYTES = before
    np.testing.assert_array_equal(x.reshape(want.shape), want)


def test_nothing_moves():
    x = np.arange(12.0).reshape(1, 3, 4, 1)
    assert lk.reorder(x, "NCHW", "NCHW", out=x) is x and x.ravel().tolist() == list(range(12))
    lk.reorder(x, "NCHW", "NCWH", out=x.reshape(1, 3, 1, 4))
    assert x.ravel().tolist() == list(range(12))


@pytest.mark.parametrize(
    ("shape", "dst", "out"),
    [
        ((2, 3, 4, 5), "NHWC", lambda x: x.reshape(2, 4, 5, 3)),  # not square
        ((2, 16, 4, 4), "nChw8c", lambda x: x.reshape(2, 2, 4, 4, 8)),
        ((1, 4, 4, 1), "NHCW", lambda x: x[:, ::-1]),  # not contiguous
        ((3, 3, 3, 3), "CHWN", lambda x: x),  # a cycle of more than two
        ((2, 4, 4, 2), "NHCW", lambda x: x.base[16 : 16 + x.size].reshape(2, 4, 4, 2)),  # half of it
    ],
)
def test_what_is_not_done_in_place(shape, dst, out):
    room = np.arange(1000.0)
    x = room[: np.prod(shape)].reshape(shape)
    with pytest.raises(ValueError, match="out overlaps an input"):
        lk.reorder(x, "NCHW", dst, out=out(x))
    assert (room == np.arange(1000)).all()
