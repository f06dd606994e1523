"""What tiles read along an axis: by brute force, over every index."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.dask.axes import WindowAxis, parts, ranges

MODES = {"reflect": "reflect", "circular": "wrap", "edge": "edge"}


@st.composite
def axes(draw):
    """An axis of a convolution with anything to compute."""
    size, stride = draw(st.integers(1, 20)), draw(st.integers(1, 5))
    reach, before, after = draw(st.integers(1, 9)), draw(st.integers(-2, 12)), draw(st.integers(-2, 12))
    if size - max(0, -before) - max(0, -after) < 1:
        before = after = 0
    after += max(0, reach - size - before - after)
    return WindowAxis(size, (size + before + after - reach) // stride + 1, stride, before, after, reach)


@given(axes(), st.data())
def test_a_window_and_its_padding_are_what_the_outputs_read(axis, data):
    start = data.draw(st.integers(0, axis.out - 1))
    stop = data.draw(st.integers(start + 1, axis.out))
    w = axis.window(start, stop)
    assert w.outputs[0] <= start < stop <= w.outputs[1] <= axis.out
    assert 0 <= w.inputs[0] < w.inputs[1] <= axis.size
    size, (before, after) = w.inputs[1] - w.inputs[0], w.pads
    count = w.outputs[1] - w.outputs[0]
    assert (size + before + after - axis.reach) // axis.stride + 1 == count
    for local in range(count):  # the same inputs, and as many taps before and after
        here = local * axis.stride - before + w.inputs[0]
        assert here == (w.outputs[0] + local) * axis.stride - axis.before
    if w.outputs == (start, stop) and w.inputs != (0, axis.size):  # and no more
        first, last = axis.reads(start, stop)
        assert w.inputs == (max(0, first), min(axis.size, last))


@given(axes(), st.sampled_from([*MODES]), st.data())
def test_runs_are_what_numpy_pads_with(axis, mode, data):
    low, high = max(0, -axis.before), axis.size - max(0, -axis.after)
    most = {"reflect": high - low - 1, "circular": high - low, "edge": 30}[mode]
    before, after = min(axis.before, most), min(axis.after, most)
    axis = axis._replace(before=before, after=after, mode=mode)
    x = np.arange(axis.size)[low:high]
    whole = np.pad(x, (max(0, before), max(0, after)), MODES[mode])
    first = -max(before, 0) + low
    start = data.draw(st.integers(first, first + len(whole) - 1))
    stop = data.draw(st.integers(start + 1, first + len(whole)))
    found = [r.source + r.step * i for r in axis.runs(start, stop) for i in range(r.length)]
    assert found == whole[start - first : stop - first].tolist()
    at = start
    for run in axis.runs(start, stop):
        assert run.at == at
        at += run.length


@given(axes(), st.sampled_from([*MODES]), st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_parts_are_the_runs_cut_into_chunks(axis, mode, sizes):
    low, high = max(0, -axis.before), axis.size - max(0, -axis.after)
    axis = axis._replace(before=min(axis.before, high - low - 1), after=min(axis.after, high - low - 1), mode=mode)
    sizes = [*sizes, max(1, axis.size - sum(sizes))]
    ends = np.cumsum(sizes).tolist()
    chunks = np.split(np.arange(ends[-1]), ends[:-1])
    runs = axis.runs(low - max(0, axis.before), high + max(0, axis.after))
    want = [r.source + r.step * i for r in runs for i in range(r.length)]
    found, at = [], runs[0].at
    for part in parts(runs, ends):
        taken = chunks[part.chunk][part.take]
        assert part.at == at and len(taken) == (1 if part.repeats else part.length)
        assert part.whole <= (taken.tolist() == chunks[part.chunk].tolist())
        found += np.broadcast_to(taken, part.length).tolist()
        at += part.length
    assert found == want


@given(axes(), st.lists(st.integers(1, 30), max_size=6), st.integers(1, 4))
def test_cuts_make_tiles_of_all_outputs(axis, ends, unit):
    cuts = axis.cuts(ends, unit)
    assert cuts[0] == 0 and cuts[-1] == axis.out and all(a < b for a, b in pairwise(cuts))
    assert all(cut % unit == 0 for cut in cuts[:-1])
    assert sum(b - a for a, b in ranges(cuts)) == axis.out


def test_a_same_convolution_is_cut_where_its_input_is():
    assert WindowAxis(100, 100, 1, 2, 2, 5).cuts([30, 60, 100]) == [0, 30, 60, 100]
    assert WindowAxis(100, 50, 2, 1, 1, 3).cuts([30, 60, 100]) == [0, 15, 30, 50]
