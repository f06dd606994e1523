import numpy as np
import pytest

from layoutkit._core.runtime.arrays import aligned, can_hold_result, extents_overlap, strides_key


def views(memory, rng, count):
    """Random views of some bytes: pieces, steps of any sign, turned around, empty ones among them."""
    for _ in range(count):
        start, stop = sorted(rng.integers(0, len(memory) // 8, 2) * 8)
        view = memory[start:stop].view(rng.choice(["u1", "u2", "u8"]))
        if view.size % 4 == 0:
            view = view.reshape(2, -1, 2).transpose(rng.permutation(3))
        yield view[tuple(slice(None, None, int(rng.choice([-2, -1, 1, 2]))) for _ in range(view.ndim))]


def test_extents_overlap_where_numpy_says_that_they_may_share_memory():
    rng = np.random.default_rng(0)
    memory = np.zeros(512, np.uint8)
    pairs = zip(views(memory, rng, 2000), views(memory, rng, 2000))
    answers = [(extents_overlap(a, b), np.may_share_memory(a, b)) for a, b in pairs]
    assert all(ours == numpys for ours, numpys in answers) and {ours for ours, _ in answers} == {True, False}


def test_the_strides_key_of_arrays_tells_apart_what_plans_depend_on():
    x, y = np.zeros((2, 3, 4)), np.zeros((4, 3, 2))
    assert strides_key(x) == strides_key(x + 1) and strides_key(x, x) == strides_key(x, np.broadcast_to(x, x.shape))
    scalar = np.zeros(())
    inputs = (x,), (x[:1],), (y,), (x[..., ::2],), (x[..., 0],), (scalar,)
    keys = [strides_key(*arrays) for arrays in (*inputs, (x, x), (x, y), (y, x), (x, scalar))]
    memory = np.zeros(100)
    keys += [strides_key(memory, memory[i:]) for i in range(8)]
    assert len(set(keys)) == len(keys)
    assert strides_key(memory, memory) == strides_key(memory, memory[8:])


def test_an_array_can_hold_a_result_of_its_shape_and_dtype():
    x = np.zeros((2, 3), np.float32)
    assert can_hold_result(x, (2, 3), np.dtype("f4")) and can_hold_result(x, (2, 3), np.dtype("<f4").newbyteorder("="))
    assert not can_hold_result(x, (3, 2), x.dtype) and not can_hold_result(x, (2,), x.dtype)
    assert not can_hold_result(x, (2, 3), np.dtype("i4"))
    assert not can_hold_result(x.T, (3, 2), x.dtype)
    x.flags.writeable = False
    assert not can_hold_result(x, (2, 3), x.dtype)


@pytest.mark.parametrize("period", [64, 4096])
def test_new_arrays_begin_where_they_should(period):
    for place in (0, 64 % period):
        x = aligned((3, 0, 5), np.dtype("f8"), 0, place, period)
        assert x.shape == (3, 0, 5) and x.dtype == np.float64 and x.ctypes.data % period == place
        x = aligned((3, 4), np.dtype("i2"), 24, place, period)
        x[...] = 7
        assert x.flags.c_contiguous and x.flags.writeable and x.ctypes.data % period == place
    assert aligned((), np.dtype("f4"), 4).shape == ()
    with pytest.raises(ValueError, match="65 axes"):
        aligned((1,) * 65, np.dtype("f4"), 4)
