"""What nests reach is what their elements touch, exactly; a plan that reaches further never runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from strategies import laid_out, layouts

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.cache import plans
from layoutkit.memory import spans
from layoutkit.memory.spans import PlanError, Span
from layoutkit.reorders import program, reach
from layoutkit.reorders.box import Box
from layoutkit.reorders.program import Transfer, stages_of
from layoutkit.reorders.variants import VARIANTS


def touched(layout, shape, strides, width, padded):
    """The span of the elements of `shape`, and of the pads too if asked."""
    physical = layout.physical_shape(shape)
    places = sum(
        (np.arange(n) * s).reshape([-1 if i == axis else 1 for i in range(len(physical))])
        for axis, (n, s) in enumerate(zip(physical, strides))
    )
    places = np.broadcast_to(places, physical)
    if not padded:
        places = places.reshape(-1)[reference.offsets(layout, shape)]
    return Span(int(places.min()), int(places.max()) + width) if places.size else spans.EMPTY


@given(
    laid_out(min_size=1, min_rank=1), st.data(), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from(list(VARIANTS)),
    st.integers(0, 63), st.sampled_from(registry.isas()),
)  # fmt: skip
def test_nests_reach_what_their_elements_touch(laid, data, width, variant, phase, isa):
    src, shape = laid
    dst = data.draw(layouts(src.rank, src.rank))
    signs = data.draw(st.lists(st.sampled_from([1, 1, -1]), min_size=40, max_size=40))
    steps = [[s * sign * width for s, sign in zip(x.axis_strides(shape), signs)] for x in (src, dst)]
    t = Transfer(src, dst, width, *map(tuple, steps), Box.all_of(shape), phase)
    read = written = spans.EMPTY
    for moves, fills, slab in stages_of(t, variant):
        reads, writes = reach.of_nests(moves)
        writes = writes.joined(reach.of_nests(fills)[1])
        if slab:
            assert writes == Span(0, slab.bytes)
            writes = reach.of_nests([slab.out])[1]
            reads, writes = (x.plus(y) for x, y in zip(reach.of_slabs(slab), (reads, writes)))
        read, written = read.joined(reads), written.joined(writes)
    assert read == touched(src, shape, steps[0], width, False)
    assert written == touched(dst, shape, steps[1], width, True)


@pytest.mark.parametrize("which", ["source", "destination", "pads"])
def test_a_plan_that_reaches_outside_is_an_error_before_anything_is_written(monkeypatch, which):
    def wrong(*given):
        [stage] = stages_of(*given)
        if which == "pads" and stage.fills:
            last = stage.fills[-1]
            return [stage._replace(fills=[*stage.fills[:-1], last._replace(dst=last.dst + 4)])]
        first = stage.moves[0]
        side = "src" if which == "source" else "dst"
        return [stage._replace(moves=[first._replace(**{side: getattr(first, side) - 4}), *stage.moves[1:]])]

    monkeypatch.setattr(program, "stages_of", wrong)
    plans.clear()
    x, out = np.ones((1, 20, 3, 3), np.float32), np.full((1, 2, 3, 3, 16, 4), 7, np.float32)
    with pytest.raises(PlanError, match=f"reorder NCHW -> .*{'destination' if which == 'pads' else which}"):
        lk.reorder(x, "NCHW", "ABcd16b4a", out=out, pad_value=3)
    assert (out == 7).all()
    plans.clear()
