"""Products of matrices of bytes against whole numbers, in arrays of any strides between guard pages."""

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import example, given
from hypothesis import strategies as st
from strided import placed, products

from layoutkit._core.nests.products.byte_matmul import MAX_K, MAX_SCALE, ByteMatmul, best_kernel
from layoutkit._core.runtime import registry

with_kernels = {row.isa for row in registry.kernels("gemm", "u8s8", all_isas=True) if row.lanes > 4}
ISAS = [isa for isa in registry.isas() if isa in with_kernels]
if not ISAS:
    pytest.skip("sums are rounded to bytes by kernels of vectors of 32 bytes and more", allow_module_level=True)
EXTENTS = st.sampled_from([0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 31, 32, 33, 50, 64, 65, 100, 197])
LONG_K = st.sampled_from([1024, 1031, 2060])
DTYPES = st.sampled_from(["uint8", "int8"])
ROWS, COLUMNS = ((order, [0, 0], [1, 1], None, True) for order in ([0, 1], [1, 0]))


@given(
    products(EXTENTS, LONG_K), st.sampled_from(ISAS), st.tuples(DTYPES, DTYPES, DTYPES), st.integers(0, 7),
    st.sampled_from([0.001, 0.07, MAX_SCALE]), st.integers(1, 4), st.integers(0, 99),
)  # fmt: skip
@example(([(300, 200), (200, 1400), (300, 1400)], [ROWS] * 3), ISAS[-1], ("uint8", "int8", "uint8"), 7, 0.001, 3, 0)
@example(([(70, 4100), (4100, 300), (70, 300)], [COLUMNS] * 3), ISAS[-1], ("int8", "uint8", "int8"), 7, 0.001, 2, 0)
def test_any_strides(product, isa, dtypes, shifted, scale, threads, seed):
    shapes, lie = product
    rng = np.random.default_rng(seed)
    limits = [np.iinfo(dtype) for dtype in dtypes]
    a, b = (
        placed(rng.integers(of.min, of.max + 1, shape).astype(of.dtype), at)
        for of, shape, at in zip(limits[:2], shapes, lie)
    )
    c = placed(np.zeros(shapes[2], dtypes[2]), lie[2])
    zeros = [int(rng.integers(of.min, of.max + 1)) if shifted >> i & 1 else 0 for i, of in enumerate(limits)]
    with using_isa(isa):
        op = ByteMatmul(a, b, c, zeros, scale, threads=threads)
    op(a, b, c)
    sums = np.matmul(a.astype(np.float64) - zeros[0], b.astype(np.float64) - zeros[1])
    want = np.rint(sums.astype(np.float32) * np.float32(scale)) + zeros[2]
    np.testing.assert_array_equal(c, np.broadcast_to(np.clip(want, limits[2].min, limits[2].max), c.shape))


def test_the_longest_sums():
    """Of the largest products, all of one sign."""
    a, b = np.full((3, MAX_K), 255, np.uint8), np.full((MAX_K, 20), 255, np.uint8)
    c = np.empty((3, 20), np.uint8)
    for zeros, want in (((0, 0, 7), 255), ((0, 0, 0), 255), ((0, 254, 3), 255), ((254, 254, 3), 3 + 33)):
        ByteMatmul(a, b, c, zeros, 0.001)(a, b, c)
        np.testing.assert_array_equal(c, want)
    b[:] = 0
    ByteMatmul(a, b, c, (0, 255, 7), MAX_SCALE)(a, b, c)
    np.testing.assert_array_equal(c, 0)


def test_kernels_are_those_of_the_set_in_use():
    with using_isa("portable"):
        assert best_kernel(30, 40, 50) is None
    for isa in ISAS:
        with using_isa(isa):
            assert best_kernel(30, 40, 50)[1].isa == isa


@pytest.mark.parametrize(
    "change, error, says",
    [
        ({"a": np.zeros((3, 5), np.uint8)}, ValueError, "times"),
        ({"b": np.zeros((4, 6), np.float32)}, TypeError, "float32"),
        ({"c": np.zeros((3, 7), np.uint8)}, ValueError, "into"),
        ({"zeros": (0, 128, 0)}, ValueError, "zero point 128 of b"),
        ({"scale": 0.6}, ValueError, "scale of 0.6"),
        ({"scale": float("nan")}, ValueError, "scale of nan"),
    ],
)
def test_errors(change, error, says):
    given_ = {
        "a": np.zeros((3, 4), np.uint8), "b": np.zeros((4, 6), np.int8), "c": np.zeros((3, 6), np.uint8),
        "zeros": (0, 0, 0), "scale": 0.1,
    }  # fmt: skip
    with pytest.raises(error, match=says):
        ByteMatmul(**{**given_, **change})
