"""Tensors and logical shapes as arguments: any layout with blocks and pads on any dimension, wherever one is taken."""

import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import fitted, layouts, shapes

import layoutkit as lk
from layoutkit import reference
from layoutkit.layout import Layout
from layoutkit.tensor import UNDEFINED, Tensor

CONV = {1: (lk.conv1d, lk.Conv1d), 2: (lk.conv2d, lk.Conv2d), 3: (lk.conv3d, lk.Conv3d)}
TRANSPOSED = {
    1: (lk.conv_transpose1d, lk.ConvTranspose1d), 2: (lk.conv_transpose2d, lk.ConvTranspose2d),
    3: (lk.conv_transpose3d, lk.ConvTranspose3d),
}  # fmt: skip

FORMS = st.sampled_from(["array", "tensor"])


def whole(seed, *shape):
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@st.composite
def problems(draw):
    """A convolution whose input, filter, output and residual each lie in a layout of their own."""
    spatial = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2]))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(spatial))
    size = tuple(draw(st.integers(k, k + 4)) for k in kernel)
    x = (draw(st.integers(1, 3)), groups * draw(st.integers(1, 5)), *size)
    w = (groups * draw(st.integers(1, 5)), x[1] // groups, *kernel)

    def layout(shape):
        return fitted(draw(layouts(min_rank=spatial + 2, max_rank=spatial + 2)), shape)

    stride = tuple(draw(st.integers(1, 2)) for _ in kernel)
    y = (x[0], w[0], *((n - k) // s + 1 for n, k, s in zip(size, kernel, stride)))
    return dict(
        x=(x, layout(x)), w=(w, layout(w)), y=(y, layout(y)), stride=stride, groups=groups, seed=draw(st.integers(0, 99)),
        forms=[draw(FORMS) for _ in range(3)], out=draw(st.sampled_from([None, "array", "tensor"])), kept=draw(st.booleans()),
        same_layout=draw(st.booleans()), residual=draw(st.booleans()), bias=draw(st.sampled_from([None, "array", "tensor"])),
    )  # fmt: skip


def given_as(form, logical, layout, name=None):
    """The tensor as one that brings all, or as an array with its layout and shape beside it; pads are NaN."""
    array = reference.to_physical(logical, layout, pad_value=np.nan)
    if form == "tensor":
        return Tensor(array, layout, logical.shape, pad_value=UNDEFINED), {}
    layout_name, shape_name = ("filter_layout", "filter_shape") if name == "w" else ("layout", "shape")
    return array, {layout_name: layout, shape_name: logical.shape}


@settings(max_examples=300, deadline=None)
@given(problems())
def test_convolutions_hold_to_logical_shapes(c):
    (x_shape, x_layout), (w_shape, w_layout), (y_shape, y_layout) = c["x"], c["w"], c["y"]
    rank = len(x_shape) - 2
    x, w, b, r = (whole(c["seed"] + i, *s) for i, s in enumerate((x_shape, w_shape, w_shape[:1], y_shape)))
    want = reference.conv(x, w, b if c["bias"] else None, c["stride"], ((0, 0),) * rank, (1,) * rank, c["groups"])
    want = (want + r if c["residual"] else want).astype(np.float32)
    check(c, CONV[rank], x, w, b, r, want, x_layout, w_layout, x_layout if c["same_layout"] else y_layout,
          stride=c["stride"], groups=c["groups"], accuracy="strict")  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(problems())
def test_transposed_convolutions_hold_to_logical_shapes(c):
    (x_shape, x_layout), (w_shape, w_layout), _ = c["x"], c["w"], c["y"]
    rank, groups = len(x_shape) - 2, c["groups"]
    w_shape = (w_shape[0] // groups, x_shape[1], *w_shape[2:])  # in logical order: O/groups, I
    w_layout = fitted(w_layout, w_shape)
    x, w, b = (whole(c["seed"] + i, *s) for i, s in enumerate((x_shape, w_shape, (w_shape[0] * groups,))))
    want = reference.conv_transpose(x, w.swapaxes(0, 1), b if c["bias"] else None, c["stride"], ((0, 0),) * rank,
                                    (0,) * rank, (1,) * rank, groups)  # fmt: skip
    r = whole(c["seed"] + 3, *want.shape)
    want = (want + r if c["residual"] else want).astype(np.float32)
    y_layout = fitted(x_layout if c["same_layout"] else c["y"][1], want.shape)
    check(c, TRANSPOSED[rank], x, w, b, r, want, x_layout, w_layout, y_layout, stride=c["stride"], groups=groups,
          accuracy="strict")  # fmt: skip


def check(c, operations, x, w, b, r, want, x_layout, w_layout, y_layout, **attributes):
    """Call the function or the object with everything in its own form and layout."""
    function, cls = operations
    (x_given, x_said), (w_given, w_said) = given_as(c["forms"][0], x, x_layout), given_as(c["forms"][1], w, w_layout, "w")
    bias = {None: None, "array": b, "tensor": Tensor(reference.to_physical(b, Layout("A4a")), "A4a", b.shape)}[c["bias"]]
    if y_layout != x_layout:
        attributes["out_layout"] = y_layout
    call = {}
    if c["residual"]:
        call["add"] = given_as(c["forms"][2], r, y_layout)[0]
    physical = np.full(y_layout.physical_shape(want.shape), np.nan, np.float32)
    out = {None: None, "array": physical, "tensor": Tensor(physical, y_layout, want.shape)}[c["out"]]
    if c["kept"]:
        op = cls(w_given, bias, layout=x_said.get("layout", x_layout), **w_said, **attributes)
        shape = {k: v for k, v in x_said.items() if k == "shape"}
        got = op(x_given, out=out, **call, **shape)
    else:
        got = function(x_given, w_given, bias, out=out, **call, **x_said, **w_said, **attributes)
    assert isinstance(got, Tensor) == (c["forms"][0] == "tensor" or c["out"] == "tensor")
    if isinstance(got, Tensor):
        assert (got.shape, got.layout) == (want.shape, y_layout)
        got.check_padding()
        got = got.array
    assert out is None or np.shares_memory(got, physical)
    np.testing.assert_array_equal(got, reference.to_physical(want, y_layout))
