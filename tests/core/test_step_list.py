"""The list of steps refuses what would make it read or write elsewhere."""

import numpy as np
import pytest

from layoutkit._core.nests.images.pooling import Pooling
from layoutkit._core.nests.moves.slices import Slices
from layoutkit._core.nests.step_list import Context, StepFault, StepList
from layoutkit._core.runtime.arrays import address
from layoutkit.graph.runtime.steps.building import contiguously, with_constants

X, Y = np.arange(8, dtype=np.float32).reshape(1, 1, 1, 1, 2, 4), np.zeros((1, 1, 1, 1, 2, 4), np.float32)


def copying():
    return Pooling((X, Y), (X, Y), "f32", [(1, 1, 1, 0)] * 3, None, 1)


def lines(count, off=0):
    """So many bytes from a cache line on, or `off` bytes after it."""
    array = np.empty(count + 128, np.uint8)
    begin = -address(array) % 64 + off
    return array[begin : begin + count]


def test_steps():
    steps = StepList([
        (copying(), False, (0, 1), -1), (None, False, (), -1), (None, True, (), -1), (copying(), False, (1, 2), -1),
    ])  # fmt: skip
    context, y, z = Context(3), np.zeros_like(Y), np.zeros_like(Y)
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
        StepList([(copying(), False, (0, 1, 2), -1)])
    steps = StepList([(copying(), False, (0, 5), -1)])
    with pytest.raises(ValueError, match="a context of 5 arrays"):
        steps.run(Context(5), 0)
    for first in (-1, 2):
        with pytest.raises(IndexError, match=f"step {first} of 1"):
            steps.run(Context(6), first)
    for times in (np.zeros(1, np.int64), np.zeros((1, 2)), np.zeros((2, 2), np.int64).T):
        with pytest.raises(ValueError, match="times of 1 steps"):
            steps.run(Context(6), 0, times)
    for place in (-1, 6):
        with pytest.raises(IndexError, match=f"array {place} of 6"):
            Context(6).set(place, X)
    with pytest.raises(ValueError, match="array -1"):
        StepList([(copying(), False, (0, -1), -1)])


def test_a_workspace_is_as_large_as_its_step_needs_it_and_begins_at_a_line():
    strided = np.zeros((1, 1, 1, 1, 2, 8), np.float32)[..., ::2]
    operation = contiguously(lambda *_: copying(), 1)(strided, Y)
    assert operation.workspace
    with pytest.raises(ValueError, match=f"step 0 needs a workspace of {operation.workspace} bytes, got none"):
        StepList([(operation, False, (0, 1), -1)])
    steps = StepList([(operation, False, (0, 1), 2)])
    for workspace in (None, lines(operation.workspace - 1), lines(operation.workspace, 8)):
        context = Context(3)
        for place, array in enumerate((X, Y, workspace)):
            if array is not None:
                context.set(place, array)
        with pytest.raises(ValueError, match="step 0 needs a workspace"):
            steps.run(context, 0)


def test_numbers_that_a_step_cannot_use():
    """Of an operation alone, on copies of parts of larger arrays, and with a constant among its arrays."""
    table, out = np.arange(20, dtype=np.uint32).reshape(5, 4), np.zeros((3, 4), np.uint32)

    def taking(x, at, y):
        return Slices(x, at, None, y, (5,), 1, 3, True, "none", 1)

    parts = np.zeros((3, 2), np.int64)[:, 0], np.zeros((3, 8), np.uint32)[:, ::2]
    at = np.zeros(3, np.int64)
    for arrays, make in [
        ((table, at, out), taking),
        ((table, *parts), contiguously(taking, 1)),
        ((at, out), with_constants(taking, [table, None])),
        (parts, contiguously(with_constants(taking, [table, None]), 1)),
    ]:
        operation, (*_, indices, y) = make(*arrays), arrays
        steps = StepList([(None, False, (), -1), (operation, False, range(len(arrays)), len(arrays))])
        context = Context(len(arrays) + 1)
        for place, array in enumerate((*arrays, lines(operation.workspace))):
            context.set(place, array)
        for wrong in (5, -6):
            indices[:] = 1, -1, wrong
            with pytest.raises(StepFault, match=f"index {wrong} is out of range of an axis of 5") as fault:
                steps.run(context, 0)
            assert fault.value.step == 1
            with pytest.raises(IndexError, match=f"index {wrong} "):
                operation(*arrays)
        indices[2] = 0
        assert steps.run(context, 0) == 2
        np.testing.assert_array_equal(y, table[[1, 4, 0]])
