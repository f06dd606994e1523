"""Buffers in one piece of memory, against the obvious loops: who holds what, and the lowest place beside the others."""

import tracemalloc
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph.runtime.arena import ALIGNMENT, placed

BYTES = np.dtype(np.uint8)


class Step(NamedTuple):
    reads: tuple
    writes: tuple
    views: bool


@st.composite
def programs(draw):
    """Steps that each write one or two tensors of those before; some are buffers, some parts of later ones."""
    steps, tensors, buffers = [], [], {}
    for i in range(draw(st.integers(1, 14))):
        reads = tuple(draw(st.lists(st.sampled_from(tensors), max_size=3, unique=True))) if tensors else ()
        writes = tuple((f"t{i}.{j}", 0) for j in range(draw(st.integers(1, 2))))
        views = draw(st.booleans())
        for place in writes:
            if not views or draw(st.integers(0, 3)) == 0:
                buffers[place] = (draw(st.integers(0, 5 * ALIGNMENT)),), BYTES
        tensors += writes
        steps.append(Step(reads, writes, views))
    wholes = {}
    for place in list(buffers):
        later = [p for p in buffers if tensors.index(p) > tensors.index(place)]
        if later and draw(st.integers(0, 3)) == 0:
            wholes[place] = draw(st.sampled_from(later))
            buffers.pop(place)
    wholes = {place: whole for place, whole in wholes.items() if whole in buffers}
    kept = draw(st.lists(st.sampled_from(tensors), max_size=2, unique=True))
    return steps, buffers, wholes, kept


def lifetimes(steps, wholes, kept):
    """By buffer, the steps that use it: by its name, by a part, by what may be a view of either."""
    held, used = {}, {}
    for i, step in enumerate(steps):
        for place in step.writes:
            held[place] = {wholes.get(place, place)}
            if step.views:
                held[place] |= {buffer for p in step.reads for buffer in held[p]}
        for place in (*step.reads, *step.writes):
            for buffer in held[place]:
                used.setdefault(buffer, []).append(i)
    for place in kept:
        for buffer in held[place]:
            used[buffer].append(len(steps))
    return {buffer: (min(at), max(at)) for buffer, at in used.items()}


@given(programs())
def test_buffers_lie_where_the_obvious_loops_put_them(program):
    steps, buffers, wholes, kept = program
    alive, found = lifetimes(steps, wholes, kept), placed(steps, buffers, wholes, kept)
    sizes = {place: -(-shape[0] // ALIGNMENT) * ALIGNMENT for place, (shape, _) in buffers.items()}
    steps_of = {place: alive[place][1] - alive[place][0] + 1 for place in sizes}

    def in_order(key):
        want: dict = {}
        for place in sorted(sizes, key=key):
            first, last = alive[place]
            beside = [p for p in want if alive[p][0] <= last and first <= alive[p][1]]
            taken = [(want[p], want[p] + sizes[p]) for p in beside]
            ends = sorted({0, *(end for _, end in taken)})
            size = sizes[place]
            want[place] = next(at for at in ends if all(end <= at or at + size <= begin for begin, end in taken))
        return max((want[p] + sizes[p] for p in sizes), default=0), want

    orders = lambda p: -sizes[p], lambda p: -sizes[p] * steps_of[p], lambda p: (-steps_of[p], -sizes[p])
    nbytes, want = min(map(in_order, orders), key=lambda each: each[0])
    assert found.offsets == want and found.nbytes == nbytes


def test_views_of_views_take_no_more_memory_than_steps():
    def peak(n):
        steps = [Step(tuple((f"t{j}", 0) for j in (i - 1,) if i), ((f"t{i}", 0),), True) for i in range(n)]
        buffers = {(f"t{i}", 0): ((64,), BYTES) for i in range(n)}
        tracemalloc.start()
        try:
            placed(steps, buffers, {}, [(f"t{n - 1}", 0)])
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(1600) <= 4 * 1.5 * peak(400)
