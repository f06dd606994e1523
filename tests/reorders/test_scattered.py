"""Scattered runs: every byte comes from where it belongs, however strings and tasks are cut, on every ISA."""

from contextlib import contextmanager
from math import prod

import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from forced import check
from hypothesis import given
from hypothesis import strategies as st
from walks import bytes_expected, bytes_moved, sides

from layoutkit import Layout
from layoutkit.choosing.cache import plans
from layoutkit.memory.arrays import contiguous_strides
from layoutkit.reorders import scattered
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.nests import copy_nests
from layoutkit.reorders.variants import VARIANTS

MOST = 60_000  # bytes
LIMITS = st.fixed_dictionaries({
    "MAX_STRINGS": st.sampled_from([1, 3, 8, 256]), "LONG_BYTES": st.sampled_from([128, 4096]),
    "TASK_BYTES": st.sampled_from([512, 1 << 20]), "MAX_TASK_BYTES": st.sampled_from([2048, 1 << 24]),
})  # fmt: skip


@contextmanager
def limits(given):
    """Other constants for a while: small ones take effect on small tensors."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setattr(scattered, name, value)
        plans.clear()
        try:
            yield
        finally:
            plans.clear()  # of programs that are cut like that


@st.composite
def permutations(draw):
    """Two layouts with the same innermost dimension, a shape, and bytes of an element."""
    rank, width = draw(st.integers(3, 5)), draw(st.sampled_from((1, 2, 4, 8)))
    names = "abcde"[:rank]
    order = "".join(draw(st.permutations(names[:-1]))) + names[-1]
    shape = [draw(st.integers(1, 9)) for _ in names]
    shape[draw(st.integers(0, rank - 2))] = draw(st.integers(1, 60))
    least = 64 // width
    most = max(least, min(5 * least, MOST // width // prod(shape[:-1])))
    shape[-1] = draw(st.integers(least, most))
    return names, order, tuple(shape), width


def nests_of(src, dst, shape, width):
    layouts = [Layout(src), Layout(dst)]
    strides = [contiguous_strides(layout, shape, width) for layout in layouts]
    nests, _ = copy_nests(shape, *sides(*layouts, shape, strides), width, 64, VARIANTS["scattered"].blocking)
    return nests, bytes_expected(*layouts, shape, width, *strides)


@given(permutations(), LIMITS)
def test_every_byte_is_moved_once(case, given):
    with limits(given):
        nests, expected = nests_of(*case)
    np.testing.assert_array_equal(bytes_moved(nests), expected)
    for nest in nests:
        if nest.fused:
            assert len(nest.fused.strings.follows) <= given["MAX_STRINGS"]


@pytest.mark.parametrize("isa", WHOLE_ISAS)
@given(permutations(), LIMITS, st.integers(1, 2), st.integers(0, 15), st.sampled_from(("low", "high")))
def test_any_permutation(isa, case, given, threads, at, end):
    src, dst, shape, width = case
    with using_isa(isa), limits(given):
        check(shape, src, dst, f"u{width}", "scattered", threads, end, offset=at * width)


@pytest.mark.parametrize(("src", "dst", "shape"), [("abc", "bac", (60, 7, 30)), ("abcd", "acbd", (3, 20, 5, 17))])
def test_runs_that_stay_together_are_scattered(src, dst, shape):
    assert {nest.family for nest in nests_of(src, dst, shape, 4)[0]} == {"scatter"}


@pytest.mark.parametrize("run", [16, 1 << 16])
def test_short_and_long_runs_are_not(run):
    assert not scattered.nests([Loop(9, run, 20 * run), Loop(20, 9 * run, run)], run, 0, 0)


def test_what_is_not_read_forwards_is_not():
    for step in (-1 << 12, 0):
        assert not scattered.nests([Loop(9, step, 20 << 8), Loop(20, 1 << 20, 1 << 8)], 1 << 8, 0, 0)


@given(st.integers(64, 1 << 15), st.lists(st.integers(2, 3000), min_size=2, max_size=3), st.permutations(range(3)))
def test_tasks_are_neither_too_large_nor_too_few(run, sizes, order):
    src, steps = run, []
    for n in reversed(sizes):
        steps.append([n, src])
        src *= n
    at, loops = run, []
    for n, read in (steps[k] for k in order if k < len(steps)):
        loops.append(Loop(n, read, at))
        at *= n
    nests = scattered.nests(sorted(loops, key=lambda x: -x.dst), run, 0, 0)
    for nest in nests:
        assert nest.tile[0].n * nest.tile[1].n <= 2 * scattered.MAX_TASK_BYTES
    if nests:
        assert sum(prod(x.n for x in (*nest.loops, *nest.tile)) for nest in nests) == at
