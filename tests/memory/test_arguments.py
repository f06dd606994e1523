"""Tensors and logical shapes as arguments: any layout with blocks and pads on any dimension, wherever one is taken."""

import copy
import pickle
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from strategies import fitted, layouts, shapes

import layoutkit as lk
from layoutkit.formats.layout import Layout
from layoutkit.memory.tensor import UNDEFINED, Tensor

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
        x=(x, layout(x)), w=(w, layout(w)), y=(y, layout(y)), stride=stride, groups=groups,
        forms=[draw(FORMS) for _ in range(3)], bias=draw(st.none() | FORMS), out=draw(st.none() | FORMS),
        kept=draw(st.booleans()), same_layout=draw(st.booleans()), residual=draw(st.booleans()),
        seed=draw(st.integers(0, 99)),
    )  # fmt: skip


def given_as(form, logical, layout, name=None):
    """The tensor as one that brings all, or as an array with its layout and shape beside it; pads are NaN."""
    array = reference.to_physical(logical, layout, pad_value=np.nan)
    if form == "tensor":
        return Tensor(array, layout, logical.shape, pad_value=UNDEFINED), {}
    layout_name, shape_name = ("filter_layout", "filter_shape") if name == "w" else ("layout", "shape")
    return array, {layout_name: layout, shape_name: logical.shape}


@given(problems())
def test_convolutions_hold_to_logical_shapes(c):
    (x_shape, x_layout), (w_shape, w_layout), (y_shape, y_layout) = c["x"], c["w"], c["y"]
    rank = len(x_shape) - 2
    x, w, b, r = (whole(c["seed"] + i, *s) for i, s in enumerate((x_shape, w_shape, w_shape[:1], y_shape)))
    want = reference.conv(x, w, b if c["bias"] else None, c["stride"], ((0, 0),) * rank, (1,) * rank, c["groups"])
    want = (want + r if c["residual"] else want).astype(np.float32)
    check(c, CONV[rank], x, w, b, r, want, x_layout, w_layout, x_layout if c["same_layout"] else y_layout,
          stride=c["stride"], groups=c["groups"], accuracy="strict")  # fmt: skip


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
    x_given, x_said = given_as(c["forms"][0], x, x_layout)
    w_given, w_said = given_as(c["forms"][1], w, w_layout, "w")
    blocked = Tensor(reference.to_physical(b, Layout("A4a")), "A4a", b.shape)
    bias = {None: None, "array": b, "tensor": blocked}[c["bias"]]
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


def test_one_array_may_hold_tensors_of_several_shapes():
    array, w = whole(0, 1, 2, 3, 1, 16), whole(1, 3, 2, 1, 3)
    op, opt = lk.Conv2d(w, layout="abcD16d"), lk.ConvTranspose2d(w.swapaxes(0, 1), layout="abcD16d")
    for width in (9, 11, 9, 16):
        x = array.reshape(1, 2, 3, 16)[..., :width]
        for operation, want in ((op, lk.conv2d(x, w)), (opt, lk.conv_transpose2d(x, w.swapaxes(0, 1)))):
            got = operation(array, shape=x.shape)
            np.testing.assert_array_equal(got, reference.to_physical(want, Layout("abcD16d")))


# ---- reorders


@st.composite
def moves(draw):
    """A tensor in one layout, to go to another; a part of it and a place for that, or all of it."""
    rank = draw(st.integers(1, 4))
    shape = draw(shapes(rank, 0, 200))
    bounds = [sorted((draw(st.integers(0, n)), draw(st.integers(0, n)))) for n in shape]
    region = draw(st.none() | st.just(tuple(map(tuple, bounds))))
    box = shape if region is None else tuple(b - a for a, b in region)
    at = draw(st.none() | st.tuples(*(st.integers(0, 3) for _ in shape)))
    whole = box if at is None else tuple(a + n + draw(st.integers(0, 3)) for a, n in zip(at, box))
    src, dst = (fitted(draw(layouts(min_rank=rank, max_rank=rank)), s) for s in (shape, whole))
    out = draw(st.sampled_from(["array", "tensor"] + [None] * (at is None)))
    return shape, src, dst, region, box, at, whole, out, draw(st.sampled_from(["array", "tensor"]))


@given(moves(), st.sampled_from([0, 7]), st.sampled_from([None, "f8"]), st.booleans())
def test_reorders_hold_to_logical_shapes(move, pad, dtype, says_src):
    shape, src, dst, region, box, at, whole, out, form = move
    assume(form == "tensor" or out == "tensor")
    x = 1 + np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    held = np.dtype(dtype or np.int32)
    before = np.full(whole, 5, held)
    physical = reference.to_physical(before, dst, pad_value=3)
    contract = pad if at is None else 3
    to = {None: None, "array": physical, "tensor": Tensor(physical, dst, whole, pad_value=contract)}[out]
    array = reference.to_physical(x, src, pad_value=99)
    call = dict(out=to, region=region, at=at, pad_value=pad, dtype=dtype)
    if form == "tensor":
        got = lk.reorder(Tensor(array, src, shape, pad_value=99), src if says_src else None, dst, **call)
    else:
        got = lk.reorder(array, src, dst, shape=shape, **call)
    part = x[tuple(slice(a, b) for a, b in region)] if region else x
    before[tuple(slice(a, a + n) for a, n in zip(at or (0,) * len(shape), box))] = part
    assert isinstance(got, Tensor)
    if out == "tensor":
        assert got is to
    else:
        assert got.layout == dst and got.shape == (whole if at is None else dst.padded_shape(physical.shape))
        assert out is None or np.shares_memory(got.array, physical) or not physical.size
    got.check_padding()
    np.testing.assert_array_equal(reference.to_logical(got.array, dst, whole), before)


def test_a_place_in_a_tensor_ends_where_the_tensor_does():
    out = Tensor(np.zeros((1, 1, 2, 4), "f4"), "nCw4c", (1, 3, 2))
    x = np.ones((1, 2, 2), "f4")
    assert lk.reorder(x, "NCW", "nCw4c", out=out, at=(0, 1, 0)) is out
    with pytest.raises(ValueError, match=r"box of \(1, 2, 2\) at \(0, 2, 0\) lies outside out, which holds \(1, 3"):
        lk.reorder(x, "NCW", "nCw4c", out=out, at=(0, 2, 0))
    out.check_padding()


def test_bits_of_bfloat16_are_promised_as_they_are():
    x = Tensor(np.ones((1, 3, 2, 2), np.uint16), "NCHW")
    y = lk.reorder(x, None, "nChw4c", dtype=("bfloat16", None), scale=2.0, pad_value=1.0)
    assert y.dtype == np.uint16 and y.pad_value == 0x3F80
    y.check_padding()


# ---- what contradicts a Tensor

X = Tensor(np.arange(2 * 17 * 4 * 5, dtype=np.float32).reshape(2, 17, 4, 5), "NCHW").to("nChw16c")
W = Tensor(np.ones((6, 17, 3, 3), np.float32), "OIHW").to("OIhw4i4o")
Y = Tensor(np.zeros((2, 6, 2, 3), np.float32), "NCHW").to("nChw16c")


X_SAID, Y_SAID = "Tensor of shape (2, 17, 4, 5)", "(2, 6, 2, 3)"
SEVEN = Tensor(Y.array, "nChw16c", Y.shape, pad_value=7)


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        (lambda: lk.reorder(X, "NHWC", "NCHW"), "reorder: array is a Tensor in nChw16c, expected NHWC"),
        (lambda: lk.reorder(X, "nChw16c", "NCHW", shape=(2, 32, 4, 5)), f"{X_SAID}, expected (2, 32, 4, 5)"),
        (lambda: lk.reorder(X, None, "NCHW", out=X), "out is a Tensor in nChw16c, expected NCHW"),
        (lambda: lk.reorder(X, None, "nhwc:(*,*,*,1)", out=Y), "out is a Tensor in nChw16c, expected NHWC:(*,*,*,1)"),
        (lambda: lk.reorder(X, "nChw16c:(*,*,*,99,1)", "NCHW"), "items of 4; its layout is nChw16c:(*,*,*,99,1)"),
        (lambda: lk.plan(lk.reorder, X, "NHWC", "NCHW"), "Tensor in nChw16c, expected NHWC"),
        (lambda: lk.conv2d(X, W, layout="NCHW"), "conv2d: x is a Tensor in nChw16c, expected NCHW"),
        (lambda: lk.conv2d(X, W, shape=(2, 18, 4, 5)), f"x is a {X_SAID}, expected (2, 18, 4, 5)"),
        (lambda: lk.conv2d(X, W, filter_layout="OIHW"), "conv2d: w is a Tensor in OIhw4i4o, expected OIHW"),
        (lambda: lk.conv2d(X, W, filter_shape=(8, 20, 3, 3)), "w is a Tensor of shape (6, 17, 3, 3), expected (8, 20"),
        (lambda: lk.conv2d(X, W, add=X), f"conv2d: add is a {X_SAID}, expected {Y_SAID}"),
        (lambda: lk.conv2d(X, W, add=Y.to("NCHW")), "conv2d: add is a Tensor in NCHW, expected nChw16c"),
        (lambda: lk.conv2d(X, W, out=X), f"conv2d: out is a {X_SAID}, the result is of {Y_SAID}"),
        (lambda: lk.conv2d(X, W, out=Y.to("NHWC")), "conv2d: out is a Tensor in NHWC, expected nChw16c"),
        (lambda: lk.conv2d(X, W, out=SEVEN), "out is a Tensor whose pads are 7, those of the result are 0"),
        (lambda: lk.plan(lk.conv2d, X, W, layout="NHWC"), "x is a Tensor in nChw16c, expected NHWC"),
        (lambda: lk.Conv2d(W)(X), "x is a Tensor in nChw16c, expected NCHW"),
        (lambda: lk.Conv2d(W, layout="nChw16c")(X.array, shape=(2, 17, 4, 6)), "held by an array of (2, 2, 4, 6, 16)"),
        (lambda: lk.conv_transpose2d(X, W, layout="NHWC"), "conv_transpose2d: x is a Tensor in nChw16c, expected NHWC"),
        (lambda: lk.conv_transpose2d(X, W, filter_layout="IOHW"), "w is a Tensor in OIhw4i4o, expected IOHW"),
        (lambda: lk.conv_transpose2d(X, W.to("IOHW"), out=X), "conv_transpose2d: out is a Tensor of shape"),
        (lambda: lk.conv2d(X, Tensor(np.ones((6, 17, 3), "f4"), "OIW")), "filter_layout OIW has 3 dimensions"),
        (lambda: lk.conv1d(X, np.ones((6, 17, 3), "f4")), "conv1d: layout nChw16c has 4 dimensions, expected 3"),
        (lambda: lk.compensation(Tensor(np.ones((2, 3), "i1"), "OI"), "IO"), "w is a Tensor in OI, expected IO"),
    ],
)
def test_what_contradicts_a_tensor_is_named(operation, says):
    before = [t.array.copy() for t in (X, W, Y)]
    with pytest.raises(ValueError) as error:
        operation()
    assert says in str(error.value)
    for t, kept in zip((X, W, Y), before):
        np.testing.assert_array_equal(t.array, kept)


def test_a_layout_must_come_from_somewhere():
    x = np.ones((2, 3), "f4")
    for call in (lambda: lk.reorder(x, None, "ab"), lambda: lk.reorder(x, None, "ab", dtype="f8")):
        with pytest.raises(TypeError, match="reorder: src was not given, expected a layout"):
            call()
    with pytest.raises(TypeError, match="reorder: array is an array: expected its layout too"):
        lk.plan(lk.reorder, x, None, "ab")
    for call in (lambda: lk.reorder(X), lambda: lk.reorder(x, "ab"), lambda: lk.plan(lk.reorder, x, "ab")):
        with pytest.raises(TypeError, match="reorder: dst was not given"):
            call()
    assert lk.reorder(X, dst="NHWC").layout == Layout("NHWC")


def test_plans_go_by_the_layout_of_a_tensor():
    title = lk.plan(lk.conv2d, X, W).title
    assert "n2 c17 4x5 o6 k3x3" in title and "nChw16c>nChw16c" in title
    assert lk.plan(lk.reorder, X, None, "NHWC").title.startswith("reorder 2x17x4x5 nChw16c>NHWC")
    padded, w = np.zeros((1, 2, 3, 1, 16), "f4"), np.ones((1, 2, 1, 1), "f4")
    assert "n1 c2 3x9 o1" in lk.plan(lk.conv2d, padded, w, layout="abcD16d", shape=(1, 2, 3, 9)).title


def test_explicit_strides_are_the_arrays():
    room = np.random.default_rng(0).random((2, 6, 8, 4)).astype("f4")
    view, w = room[:, :, :, :3], np.ones((5, 3, 3, 3), "f4")
    layout = "nhwc:(192,32,4,1)"
    want = lk.conv2d(np.ascontiguousarray(view), w, layout="NHWC")
    t = Tensor(view, layout)
    for got in (lk.conv2d(view, w, layout=layout), lk.conv2d(t, w).array, lk.Conv2d(w, layout="NHWC")(t).array,
                lk.conv2d(t, w, layout=layout).array):  # fmt: skip
        np.testing.assert_allclose(got, want, rtol=1e-6)
    for operation in (lk.conv2d, lk.conv_transpose2d):
        with pytest.raises(ValueError, match=re.escape("the array has byte strides")):
            operation(np.ascontiguousarray(view), np.ones((3, 3, 1, 1), "f4"), layout=layout)


# ---- objects keep what they were given


def test_transposed_objects_keep_their_filter():
    w, bias, x = whole(0, 1, 3, 2, 2), whole(1, 3), whole(2, 1, 1, 4, 4)  # one input channel: nothing moves in w
    op = lk.ConvTranspose2d(w, bias, stride=2)
    want = lk.conv_transpose2d(x, w, bias, stride=2)
    w[...] = bias[...] = np.nan
    np.testing.assert_array_equal(op(x), want)


def test_copies_of_tensors():
    layout = "nhwc:(*,32,4,1)"
    strided = Tensor(np.zeros((2, 6, 8, 4), "f4")[..., :3], layout)
    for t in (X, strided, Tensor(X.array, "nChw16c", X.shape, pad_value=UNDEFINED)):
        shared = copy.copy(t)
        assert shared.array is t.array
        assert (shared.layout, shared.shape, shared.pad_value) == (t.layout, t.shape, t.pad_value)
        for again in (copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
            assert (again.layout, again.shape, again.pad_value) == (t.layout.dense, t.shape, t.pad_value)
            np.testing.assert_array_equal(again.array, t.array)
            assert not np.shares_memory(again.array, t.array)
