import numpy as np
import pytest

from layoutkit._core.runtime.arrays import aligned, form, meet, takes


def views(memory, rng, count):
    """Random views of some bytes: pieces, steps of any sign, turned around, empty ones among them."""
    for _ in range(count):
        start, stop = sorted(rng.integers(0, len(memory) // 8, 2) * 8)
        found = memory[start:stop].view(rng.choice(["u1", "u2", "u8"]))
        if found.size % 4 == 0:
            found = found.reshape(2, -1, 2).transpose(rng.permutation(3))
        yield found[tuple(slice(None, None, int(rng.choice([-2, -1, 1, 2]))) for _ in range(found.ndim))]


def test_arrays_meet_where_numpy_says_that_they_may_share_memory():
    rng = np.random.default_rng(0)
    memory = np.zeros(512, np.uint8)
    found = [
        (meet(a, b), np.may_share_memory(a, b)) for a, b in zip(views(memory, rng, 2000), views(memory, rng, 2000))
    ]
    assert all(ours == numpys for ours, numpys in found) and {ours for ours, _ in found} == {True, False}


def test_the_form_of_arrays_tells_apart_what_plans_depend_on():
    x, y = np.zeros((2, 3, 4)), np.zeros((4, 3, 2))
    assert form(x) == form(x + 1) and form(x, x) == form(x, np.broadcast_to(x, x.shape))
    forms = [form(x), form(x[:1]), form(x, x), form(x, y), form(y), form(y, x), form(x[..., ::2]), form(x[..., 0]),
             form(np.zeros(())), form(x, np.zeros(()))]  # fmt: skip
    memory = np.zeros(100)
    forms += [form(memory, memory[i:]) for i in range(8)]
    assert len(set(forms)) == len(forms)
    assert form(memory, memory) == form(memory, memory[8:])


def test_an_array_takes_a_result_of_its_shape_and_dtype():
    x = np.zeros((2, 3), np.float32)
    assert takes(x, (2, 3), np.dtype("f4")) and takes(x, (2, 3), np.dtype("<f4").newbyteorder("="))
    assert not takes(x, (3, 2), x.dtype) and not takes(x, (2,), x.dtype) and not takes(x, (2, 3), np.dtype("i4"))
    assert not takes(x.T, (3, 2), x.dtype)
    x.flags.writeable = False
    assert not takes(x, (2, 3), x.dtype)


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
