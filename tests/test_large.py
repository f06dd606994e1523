"""More than 2^31 elements, and sizes that nothing holds."""

import numpy as np
import pytest

import layoutkit as lk

SHAPE = (1, 33, 8192, 8192)  # 2.2e9 elements


def available() -> int:
    """Bytes that the system could give now; 0 where it does not tell."""
    try:
        with open("/proc/meminfo") as f:
            return next(1024 * int(line.split()[1]) for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 0


@pytest.mark.large
@pytest.mark.skipif(available() < 8 << 30, reason="needs 8 GB of memory, of which other tests may take some")
def test_more_than_2_to_the_31_elements():
    x = lk.empty(SHAPE, "NCHW", "i1")
    assert x.size > 2**31
    out = lk.empty(SHAPE, "NHWC", "i1")
    some = [0, 1, 63, 64, 4095, 4096, *range(7, SHAPE[2], 331), SHAPE[2] - 2, SHAPE[2] - 1]
    rng = np.random.default_rng(0)
    for h in some:  # rows that are not looked at hold anything
        x[0, :, h] = rng.integers(-128, 128, (SHAPE[1], SHAPE[3]), np.int8)
    lk.reorder(x, "NCHW", "NHWC", out=out)
    for h in some:
        np.testing.assert_array_equal(out[0, h], x[0, :, h].T)
    lk.reorder(x, "NCHW", "NHWC", dtype="u1", scale=0.5, zero_point=64, out=out.view(np.uint8))
    for h in some:
        want = np.rint(x[0, :, h].T * np.float32(0.5)) + 64
        np.testing.assert_array_equal(out.view(np.uint8)[0, h], want)
    last = ((0, 1), (30, 33), (8190, 8192), (8000, 8192))
    np.testing.assert_array_equal(lk.reorder(x, "NCHW", "NCHW", region=last), x[:, 30:, 8190:, 8000:])


@pytest.mark.parametrize(
    ("dst", "given"),
    [("NHWC", dict(dtype="f8")), ("nChw64c", {}), ("nChw64c", dict(dtype="f4", scale=2.0))],
)  # fmt: skip
def test_sizes_that_overflow(dst, given):
    x = np.broadcast_to(np.int8(1), (2**60, 1, 1, 1))
    with pytest.raises(ValueError, match="reorder NCHW -> "):
        lk.reorder(x, "NCHW", dst, **given)


def test_sizes_that_no_machine_has():
    x = np.broadcast_to(np.int8(1), (2**57, 1, 1, 1))
    with pytest.raises(MemoryError):
        lk.reorder(x, "NCHW", "NHWC", dtype="f4")
    assert lk.reorder(x, "NCHW", "NHWC", region=((2**56, 2**56 + 2), None, None, None)).tolist() == [[[[1]]]] * 2
