"""Views as problems: by the layouts that their strides have, or by the strides themselves."""

import numpy as np
import pytest
from hypothesis import given
from strategies import strided_pairs

import layoutkit as lk
from layoutkit import Layout
from layoutkit.choosing import keys
from layoutkit.memory.arrays import contiguous_strides
from layoutkit.reorders.binding import UNCHANGED, Call, decide
from layoutkit.reorders.box import Box
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.program import Transfer
from layoutkit.reorders.views import by_strides, extent_of


def problem(source, target, tag="NCHW"):
    """The problem of copying one view to another."""
    call = Call(source, tag, tag, source.shape, target, UNCHANGED, None, None, 0, 1)
    return decide(call).bound.problem


X = np.zeros((2, 16, 9, 8), np.float32)


@pytest.mark.parametrize("source, target, text", [
    (X, X.copy(), "reorder 2x16x9x8 NCHW>NCHW x32"),
    (np.zeros((2, 9, 8, 16), np.float32).transpose(0, 3, 1, 2), X.copy(), "reorder 2x16x9x8 NHWC>NCHW x32"),
    (X, np.zeros((16, 9, 8, 2), np.float32).transpose(3, 0, 1, 2), "reorder 2x16x9x8 NCHW>CHWN x32"),
    (X[:, :, ::-1], X.copy(), "reorder 2x16x9x8 NCHW>NCHW x32"),  # directions but that of rows do not count
    (X[:, ::2], X[:, ::2].copy(), "reorder 2x8x9x8 NCHW>NCHW by 4608,576,32,4>2304,288,32,4 x32"),
    (X[..., ::-1], X.copy()[..., ::-1], "reorder 2x16x9x8 NCHW>NCHW x32"),
    (X[..., ::-1], np.zeros((2, 9, 8, 16), np.float32).transpose(0, 3, 1, 2), "reorder 2x16x9x8 NCHW>NHWC x32"),
    (X[:1].transpose(2, 0, 1, 3), X[:1].copy().transpose(2, 0, 1, 3), "reorder 9x1x16x8 HCNW>HCNW x32"),
    (X[..., ::-1], X.copy(), "reorder 2x16x9x8 NCHW>NCHW by 4608,288,32,-4>4608,288,32,4 x32"),
    (X[..., ::2], X[..., ::2].copy(), "reorder 2x16x9x4 NCHW>NCHW by 4608,288,32,8>2304,144,16,4 x32"),
    (np.broadcast_to(X[:, :1], X.shape), X.copy(), "reorder 2x16x9x8 NHWC>NCHW by 4608,32,4,0>4608,288,32,4 x32"),
    (np.broadcast_to(np.float32(0), (1, 1, 1, 1)), X[:1, :1, :1, :1], "reorder 1x1x1x1 NCHW>NCHW x32"),
])  # fmt: skip
def test_problems_of_views(source, target, text):
    assert str(problem(source, target)) == text
    again = ReorderProblem.parse(f"{text} t1")
    assert again == problem(source, target) and keys.why_invalid(again.key) is None


def test_blocks_keep_their_order():
    layout = Layout("n c/16 h w 4c 4c")
    strides = contiguous_strides(layout, (2, 32, 2, 2), 4)
    swapped = *strides[:4], strides[5], strides[4]  # the first of two blocks has the smaller steps
    assert by_strides(layout, (2, 32, 2, 2), strides).layout == layout
    assert by_strides(layout, (2, 32, 2, 2), swapped)[:2] == (layout, swapped)
    outside = strides[4], *strides[:4], strides[5]
    assert by_strides(Layout("4c n c/16 h w 4c"), (2, 32, 2, 2), outside)[0] == layout


@given(strided_pairs(min_size=1))
def test_a_problem_is_of_the_same_places(case):
    """Strides of its layouts, or its own, and keys that are read as they are written."""
    src, dst, shape, width, strides = case
    t = Transfer(src, dst, width, *strides, Box.all_of(tuple(shape)))
    found = ReorderProblem.of(t, 1)
    again = found.transfer()
    assert ReorderProblem.parse(found.key) == found
    for layout, given_, mine, theirs in ((src, strides[0], again.src, again.src_strides),
                                         (dst, strides[1], again.dst, again.dst_strides)):  # fmt: skip
        moving = [
            sorted(
                (axis.dim, axis.unit, axis.extent, abs(stride))
                for axis, stride in zip(x.axes(shape), of)
                if axis.extent > 1
            )
            for x, of in ((layout, given_), (mine, theirs))
        ]
        assert moving[0] == moving[1]
    assert found.is_of(t) == (found.strides is not None or all(min(of, default=0) >= 0 for of in strides))


def test_what_repeated_elements_take_counts_once():
    layout, shape = Layout("NCHW"), (2, 3, 4, 5)
    assert extent_of(layout, shape, (240, 80, 20, 4), 4) == 480
    assert extent_of(layout, shape, (480, 160, 40, 8), 4) == 960
    assert extent_of(layout, shape, (1 << 20, 1 << 16, 1 << 12, 256), 4) == 120 * 64
    assert extent_of(layout, shape, (80, 0, 20, 4), 4) == 160


@pytest.mark.parametrize(
    "text",
    [
        "reorder 2x16x9x8 NCHW>NCHW by 4608,288,32,-4>4608,288,32,4 x32 t1",
        "reorder 64x128 AB>AB by 0,8>1024,8 x64 t1",
    ],
)
def test_views_are_measured_on_arrays_of_their_strides(text):
    p = ReorderProblem.parse(text.replace("AB>AB", "ab>ab"))
    t = p.transfer()
    for c in p.candidates():
        (call := p.prepare()(c.build()))()
        a, b = call.args[:2]
        assert (a.strides, b.strides) == (t.src_strides, t.dst_strides)


@pytest.mark.parametrize("view, family", [
    (lambda x: x[:, ::-1], "gather"), (lambda x: x.T[:, :512], "transpose"), (lambda x: x, "copy"),
])  # fmt: skip
def test_plans_tell_what_moves(view, family):
    source = view(np.arange(1 << 18, dtype=np.float32).reshape(512, 512))
    out = np.empty((512, 512), np.float32)
    text = lk.plan(lk.reorder, source, "ab", "ab", out=out).explain(verbose=True)
    assert family in text or "windows" in text
    lk.reorder(source, "ab", "ab", out=out)
    assert np.array_equal(out, source)
