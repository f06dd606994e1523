"""The list of steps refuses what would make it read or write elsewhere."""

import numpy as np
import pytest

from layoutkit._core.nests.pooling import Pooling
from layoutkit._core.nests.step_list import Context, StepList

X, Y = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 1, 2, 4), np.zeros((1, 1, 1, 1, 2, 4), np.float32)


def copying():
    return Pooling((X, Y), (X, Y), "f32", [(1, 1, 1, 0)] * 3, None, 1)


def scratch(count=64):
    return np.empty(count, np.uint8)


def test_steps():
    steps = StepList([(copying(), False, (0, 1)), (None, False, ()), (None, True, ()), (copying(), False, (1, 2))])
    context, y, z = Context(3, scratch()), np.zeros_like(Y), np.zeros_like(Y)
    for place, array in enumerate((X, y, z)):
        context.set(place, array)
    times = np.zeros((4, 2), np.int64)
    assert steps.run(context, 0, times) == 2  # Python's
    np.testing.assert_array_equal(y, X)
    assert not z.any()
    assert steps.run(context, 3, times) == 4
    np.testing.assert_array_equal(z, X)
    done = times[[0, 1, 3]]
    assert (done[:, 0] <= done[:, 1]).all() and (done[:-1, 1] <= done[1:, 0]).all() and not times[2].any()
    assert StepList([]).run(context, 0) == 0


def test_what_does_not_fit():
    with pytest.raises(ValueError, match=r"step 0 is bound to .* got 3 arrays"):
        StepList([(copying(), False, (0, 1, 2))])
    steps = StepList([(copying(), False, (0, 5))])
    with pytest.raises(ValueError, match="a context of 5 arrays"):
        steps.run(Context(5, scratch()), 0)
    with pytest.raises(ValueError, match="bytes of scratch"):
        steps.run(Context(6, scratch(63)), 0)
    for first in (-1, 2):
        with pytest.raises(IndexError, match=f"step {first} of 1"):
            steps.run(Context(6, scratch()), first)
    for times in (np.zeros(1, np.int64), np.zeros((1, 2)), np.zeros((2, 2), np.int64).T):
        with pytest.raises(ValueError, match="times of 1 steps"):
            steps.run(Context(6, scratch()), 0, times)
    for place in (-1, 6):
        with pytest.raises(IndexError, match=f"array {place} of 6"):
            Context(6, scratch()).set(place, X)
    with pytest.raises(ValueError, match="array -1"):
        StepList([(copying(), False, (0, -1))])
