"""Operators at the edges of what they accept: empty axes, single numbers, no axes, results beyond their inputs."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES

onnx = pytest.importorskip("onnx", reason="the extra onnx")

from layoutkit.graph.onnx import graph_of  # noqa: E402
from layoutkit.graph.operators import OPERATORS, integers  # noqa: E402


def ran(nodes, x, layouts=None, **constants):
    """Output y of nodes that read x."""
    graph = Graph(nodes, {"x": TensorType(x.dtype, x.shape)}, ("y",), constants)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return Model(graph, threads=1, layouts=layouts).run(x)["y"]


def node(op, *more, **attributes):
    return Node(op, ("x", *more), ("y",), attributes)


# What is left of a reduction where nothing is reduced.
ELEMENTS = {
    "ReduceSum": lambda x: x, "ReduceMean": lambda x: x, "ReduceProd": lambda x: x, "ReduceMax": lambda x: x,
    "ReduceMin": lambda x: x, "ReduceL1": np.abs, "ReduceL2": np.abs, "ReduceSumSquare": np.square,
    "ReduceLogSum": np.log, "ReduceLogSumExp": lambda x: x,
}  # fmt: skip


@pytest.mark.parametrize("op", ELEMENTS)
@pytest.mark.parametrize("axes", [None, []])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_reductions_of_no_axes_apply_to_elements(op, axes, dtype):
    x = np.array([[0.5, -2, 3], [100, 0, 1000]], dtype)
    for layouts in (None, *NAMES):
        more = {} if axes is None else {"a": np.array(axes, np.int64)}
        found = ran([node(op, *more, noop_with_empty_axes=1)], x, layouts, **more)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(found, ELEMENTS[op](x), rtol=1e-6)
        assert found.dtype == x.dtype
        assert ran([node(op, *more)], x, layouts, **more).shape == (1, 1)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (1, 2, 0, 3)])
def test_empty_axes(op, shape):
    for axis in range(len(shape)):
        assert ran([node(op, axis=axis)], np.zeros(shape, np.float32)).shape == shape


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "LRN", "LpNormalization"])
@pytest.mark.parametrize("shape", [(0, 4, 3, 3), (2, 0, 3, 3), (2, 4, 3, 0)])
@pytest.mark.parametrize("layouts", NAMES)
def test_layers_of_nothing(op, shape, layouts):
    x = np.zeros(shape, np.float32)
    if op == "GlobalMaxPool" and not shape[-1]:
        with pytest.raises(ValueError, match="GlobalMaxPool"):
            ran([node(op)], x, layouts)
        return
    want = (*shape[:2], 1, 1) if op.startswith("Global") else shape
    assert ran([node(op, size=3)], x, layouts).shape == want


@pytest.mark.parametrize("shape", [(0, 4, 3, 3), (2, 4, 3, 0), (2, 4, 0, 3)])
@pytest.mark.parametrize("op, parameters, attributes", [
    ("InstanceNormalization", ["channel", "channel"], {}),
    ("GroupNormalization", ["channel", "channel"], {"num_groups": 2}),
    ("LayerNormalization", ["column"], {}), ("RMSNormalization", ["column"], {}), ("MeanVarianceNormalization", [], {}),
    ("GlobalAveragePool", [], {}), ("ReduceMean", [], {"axes": [2, 3]}), ("ReduceLogSum", [], {"axes": [2, 3]}),
])  # fmt: skip
def test_means_of_nothing_do_not_warn(op, parameters, attributes, shape):
    values = {"channel": np.ones(shape[1], np.float32), "column": np.ones(shape[-1], np.float32)}
    constants = {f"p{i}": values[p] for i, p in enumerate(parameters)}
    graph = Graph([node(op, *constants, **attributes)], {"x": TensorType(np.dtype("f4"), shape)}, ("y",), constants)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = Model(graph, threads=1).run(np.zeros(shape, np.float32))["y"]
    assert y.shape == (shape if "Normalization" in op else (*shape[:2], 1, 1))


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 0, 3), (2, 4, 0)])
@pytest.mark.parametrize("op", ["Add", "Mul", "BatchNormalization"])
def test_numbers_per_channel_of_nothing(op, shape):
    """They would be convolutions of no groups."""
    channels = (1, shape[1], 1) if op != "BatchNormalization" else (shape[1],)
    constants = dict.fromkeys("abcd"[: 1 if op != "BatchNormalization" else 4], np.ones(channels, np.float32))
    nodes = [Node(op, ("x", *constants), ("z",)), Node("Sigmoid", ("z",), ("y",))]
    for layouts in (None, *NAMES):
        assert ran(nodes, np.zeros(shape, np.float32), layouts, **constants).shape == shape


@pytest.mark.parametrize("op", ["Abs", "Erf", "Gelu", "Sigmoid", "ReduceSum", "ReduceLogSumExp", "Identity", "Cast"])
def test_single_numbers_stay_so(op):
    assert ran([node(op, to=np.dtype("float32"))], np.float32(0.5)).shape == ()


@given(st.data())
def test_resizing_of_few_elements(data):
    """And what reads the result: an empty axis and one of one element are axes like others."""
    shape = data.draw(st.lists(st.sampled_from([0, 1, 1, 2, 5]), min_size=1, max_size=4))
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    attributes = {
        "mode": data.draw(st.sampled_from(["nearest", "linear", "cubic"])),
        "coordinate_transformation_mode": data.draw(st.sampled_from(modes)),
        "keep_aspect_ratio_policy": data.draw(st.sampled_from(["stretch", "not_larger", "not_smaller"])),
    }
    axis, x = data.draw(st.integers(0, len(shape) - 1)), np.ones(shape, np.float32)
    nodes = [Node("ArgMax", ("z",), ("a",), {"axis": axis}), Node("Cast", ("a",), ("y",), {"to": x.dtype})]
    if data.draw(st.booleans()):
        scales = [data.draw(st.sampled_from([0.25, 0.5, 1, 1.5, 3])) for _ in shape]
        told, constant = ("", "", "s"), np.array(scales, np.float32)
        want = [int(n * s) for n, s in zip(shape, scales)]
    else:
        attributes["keep_aspect_ratio_policy"] = "stretch"
        want = [data.draw(st.integers(0, 4)) if n else 0 for n in shape]
        told, constant = ("", "", "", "s"), np.array(want)
    resize = Node("Resize", ("x", *told[1:]), ("z",), attributes)
    others = want[:axis] + want[axis + 1 :]
    if not want[axis] and 0 not in others:
        with pytest.raises(ValueError, match="ArgMax"):
            ran([resize, *nodes], x, s=constant)
        nodes = [Node("Relu", ("z",), ("y",))]
    else:
        want[axis] = 1 if nodes[0].op == "ArgMax" else want[axis]
    assert ran([resize, *nodes], x, s=constant).shape == tuple(want)


def test_resizing_of_nothing_to_something_is_refused():
    for sizes in ([3, 2], [1, 1]):
        with pytest.raises(ValueError, match="nothing to take from"):
            ran([node("Resize", "", "", "s")], np.zeros((3, 0), np.float32), s=np.array(sizes))


def test_resized_integers_are_rounded_and_within_their_type():
    x = np.array([0, 255, 0, 255, 255, 0], np.uint8)
    found = ran([node("Resize", "", "s", mode="cubic")], x, s=np.array([3], np.float32)).astype(int)
    real = ran([node("Resize", "", "s", mode="cubic")], x.astype(np.float32), s=np.array([3], np.float32))
    assert real.max() > 256 and real.min() < -1
    np.testing.assert_array_equal(found, np.clip(np.rint(real), 0, 255))


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "NOTSET"])
@pytest.mark.parametrize("more", [-2, -1, 0, 1, 2, 3])
def test_transposed_convolutions_beyond_what_their_input_reaches(auto, more):
    """ONNX's formula of `output_shape`, whose pads may be negative: there the bias stands alone."""
    x, w, b = np.array([[[1, 2]]], np.float32), np.array([[[1, 10, 100]]], np.float32), np.array([0.5], np.float32)
    whole = np.array([1, 10, 100 + 2, 20, 200], np.float32) + 0.5  # strides of 2
    total = -more
    small, large = total // 2, total - total // 2
    before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
    want = np.pad(whole, (max(0, -before), max(0, -after)), constant_values=0.5)
    want = want[max(0, before) : len(want) - max(0, after)]
    attributes = dict(strides=[2], auto_pad=auto, output_shape=[5 + more])
    np.testing.assert_allclose(ran([node("ConvTranspose", "w", "b", **attributes)], x, w=w, b=b)[0, 0], want)


@given(*[st.integers(-7, 7)] * 2, st.sampled_from([-3, -2, -1, 1, 2, 3]), st.integers(0, 4))
def test_slices_clamp_as_the_specification_says(start, end, step, n):
    """Starts to 0 .. n forwards and 0 .. n - 1 backwards, ends to 0 .. n and -1 .. n - 1."""
    x = np.arange(n, dtype=np.float32)
    least, most = (0, n) if step > 0 else (-1, n - 1)
    start_at = np.clip(start + n * (start < 0), 0, most)
    end_at = np.clip(end + n * (end < 0), least, most)
    told = {"s": np.array([start]), "e": np.array([end]), "a": np.array([0]), "t": np.array([step])}
    want = [x[i] for i in range(start_at, end_at, step)]
    np.testing.assert_array_equal(ran([node("Slice", *told)], x, **told), np.array(want, np.float32))


@pytest.mark.parametrize(("before", "after"), [(-1, 1), (1, -1), (-3, 2), (2, -4), (-2, 0), (3, 3)])
def test_pads_of_both_signs(before, after):
    """Element i of the result is element ``i - before``, where there is one."""
    x = np.array([1, 2], np.float32)
    if len(x) + before + after < 0:
        with pytest.raises(ValueError, match="impossible"):
            ran([node("Pad", "p")], x, p=np.array([before, after]))
        return
    want = [x[i - before] if 0 <= i - before < 2 else 0 for i in range(2 + before + after)]
    np.testing.assert_array_equal(ran([node("Pad", "p")], x, p=np.array([before, after])), want)


@pytest.mark.parametrize("op", ["Add", "Sum"])
@pytest.mark.parametrize("constant_first", [False, True])
@pytest.mark.parametrize("layouts", [None, *NAMES])
def test_constants_as_large_as_what_a_convolution_makes_are_added(op, constant_first, layouts):
    x, w, c = (np.ones(s, np.float32) for s in ((2, 16, 3, 3), (16, 16, 1, 1), (2, 16, 3, 3)))
    c[...] = np.arange(c.size).reshape(c.shape)
    given = ("c", "a") if constant_first else ("a", "c")
    nodes = [Node("Conv", ("x", "w"), ("a",)), Node(op, given, ("b",)), Node("Relu", ("b",), ("y",))]
    np.testing.assert_allclose(ran(nodes, x, layouts, w=w, c=c), 16 + c)


def rounded(x, y):
    """To integers and back."""
    q = Node("QuantizeLinear", (x, "s", "z"), (f"{y}.q",))
    return q, Node("DequantizeLinear", (f"{y}.q", "s", "z"), (y,))


@pytest.mark.parametrize("quantised", [False, True])
def test_constants_are_joined_with_what_is_joined_again(quantised):
    x, c = np.ones((1, 2, 3, 4), np.float32), np.full((1, 5, 3, 4), 7, np.float32)
    inner = Node("Concat", ("x", "c"), ("a",), {"axis": 1})
    for layouts in (None, *NAMES):
        nodes, told = [inner, Node("Concat", ("a", "x"), ("b",), {"axis": 1})], {"c": c}
        if quantised:  # all are kept as integers
            nodes = [inner, *rounded("a", "d"), *rounded("x", "e")]
            nodes += [Node("Concat", ("d", "e"), ("b",), {"axis": 1}), *rounded("b", "y")]
            told |= {"s": np.float32(1), "z": np.uint8(3)}
        else:
            nodes.append(Node("Neg", ("b",), ("y",)))
        want = np.concatenate([x, c, x], 1)
        np.testing.assert_array_equal(ran(nodes, x, layouts, **told), want if quantised else -want)


@given(st.floats(0.0625, 4, width=32), st.sampled_from(["float16", "float32", "float64"]))
def test_limits_are_not_rounded_to_half_precision(limit, dtype):
    """Attributes are float32: neighbours of one in half precision are on the sides of it where they are."""
    near = np.asarray(limit, dtype)
    x = np.array([np.nextafter(near, near.dtype.type(0)), near, np.nextafter(near, near.dtype.type(9))])
    above = x.astype(np.float64) > limit
    np.testing.assert_array_equal(ran([node("ThresholdedRelu", alpha=limit)], x), np.where(above, x, 0))
    np.testing.assert_array_equal(ran([node("Shrink", lambd=limit)], x), np.where(above, x, 0))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("opset", [6, 7, 10, 11, 13])
def test_clips_keep_their_type(dtype, opset):
    """Limits of old models are attributes, which are float32."""
    check_clip(np.linspace(-3, 3, 8).astype(dtype), opset, {"min": -1.0, "max": 1e30})


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("given", [{}, {"min": -1.0}, {"max": 1.0}])
def test_limits_that_old_clips_omit_are_those_of_float32(dtype, given):
    check_clip(np.array([-np.inf, -2, 0, 2, np.inf], dtype), 10, given)


def check_clip(x, opset, limits):
    """A Clip between the limits, before version 11; later above -1."""
    dtype, of = x.dtype, onnx.helper
    inputs = ["x"] if opset < 11 else ["x", "min", ""]
    made = of.make_node("Clip", inputs, ["a"], **(limits if opset < 11 else {}))
    code = of.np_dtype_to_tensor_dtype(x.dtype)
    values = [of.make_tensor_value_info(name, code, x.shape) for name in ("x", "y")]
    tensors = [onnx.numpy_helper.from_array(np.array(-1, dtype), "min")] if opset >= 11 else []
    after = of.make_node("Add", ["a", "a"], ["y"])
    graph = of.make_graph([made, after], "g", values[:1], values[1:], tensors)
    found = Model(graph_of(of.make_model(graph, opset_imports=[of.make_opsetid("", opset)])), threads=1).run(x)["y"]
    assert found.dtype == x.dtype
    all_of = np.finfo(np.float32)
    least, largest = (limits.get("min", all_of.min), limits.get("max", all_of.max)) if opset < 11 else (-1, np.inf)
    with np.errstate(over="ignore"):
        want = np.clip(x, np.asarray(least).astype(x.dtype), np.asarray(largest).astype(x.dtype))
        np.testing.assert_array_equal(found, want + want)


def test_integers_are_divided_exactly_and_towards_zero():
    x = np.array([2**62 - 1, -(2**62) + 1, 7, -7, 6, 5], np.int64)
    for divisor in (1, -1, 2, -2, 0):
        got = ran([node("Div", "d")], x, d=np.full(x.shape, divisor, np.int64))
        want = [0 if divisor == 0 else abs(int(v)) // abs(divisor) * (1 if v * divisor > 0 else -1) for v in x]
        assert got.tolist() == want


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_response_over_more_channels_than_there_are(dtype):
    x = np.arange(24, dtype=dtype).reshape(1, 3, 2, 4)
    y = OPERATORS["LRN"].run([x], {"op": "LRN", "size": 2**62, "alpha": 2.0**62})[0]
    np.testing.assert_allclose(y, x / (1 + np.square(x).sum(1, keepdims=True)) ** 0.75, rtol=1e-6)
    with pytest.raises(ValueError, match="size 0"):
        OPERATORS["LRN"].run([x], {"op": "LRN", "size": 0})


FLAGS = st.sampled_from([0, 1])
NUMBERS = st.sampled_from(["float32", "float16", "int8", "uint16"])


@given(st.integers(0, 2**32), st.integers(1, 4) | st.integers(1, 256), NUMBERS, FLAGS, FLAGS)
def test_the_first_of_long_rows_are_those_of_all_sorted(seed, k, dtype, largest, axis):
    """Also of equal numbers, and of NaN, which is the largest."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, rng.choice([2, 100, 60000]), (2, 4096 + int(rng.integers(0, 999)))).astype(dtype)
    x *= rng.random(x.shape) < rng.choice([1, 2 * k / 4096])  # hardly more large ones than are asked for
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < rng.choice([0, 0.001, 0.3])] = np.nan
    x = x if axis else np.ascontiguousarray(x.T)
    got = ran([Node("TopK", ("x", "k"), ("v", "y"), {"axis": axis, "largest": largest})], x, k=np.array([k]))
    keys = np.where(np.isnan(x), np.inf, x.astype(np.float64))
    want = np.argsort(-keys if largest else keys, axis, kind="stable").take(range(k), axis)
    np.testing.assert_array_equal(got, want)


@given(st.integers(0, 2**32), st.sampled_from(["uint8", "int8"]), st.sampled_from(["uint8", "int8"]),
       st.sampled_from([(), (3,), (0,)]), st.integers(1, 300), st.sampled_from(["none", "one", "rows"]))  # fmt: skip
def test_products_of_integers_are_exact(seed, left, right, batch, k, zeros):
    rng = np.random.default_rng(seed)

    def drawn(dtype, *shape):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)

    a, b = drawn(left, *batch, 5, k), drawn(right, k, 7)
    more = {"b": b}
    if zeros != "none":
        more |= {"az": drawn(left, 5) if zeros == "rows" else drawn(left), "bz": np.array(rng.choice([0, 100]), right)}
        more["bz"] = np.array(128, right) if right == "uint8" and rng.integers(2) else more["bz"]
    a_zero, b_zero = (np.asarray(more.get(key, 0), np.int64) for key in ("az", "bz"))
    want = (a - (a_zero[:, None] if zeros == "rows" else a_zero)) @ (b - b_zero)
    got = ran([node("MatMulInteger", *more)], a, **more)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == np.int32
    for variable in ({"b"}, {"az"} & more.keys()):  # inputs of the model, too
        got = ran_with([node("MatMulInteger", *more)], {"x": a, **{k: more[k] for k in variable}},
                       {k: v for k, v in more.items() if k not in variable})  # fmt: skip
        np.testing.assert_array_equal(got, want)


def ran_with(nodes, inputs, constants=None):
    """Output y of nodes, by the inputs of a model."""
    graph = Graph(nodes, {k: TensorType(v.dtype, v.shape) for k, v in inputs.items()}, ("y",), constants or {})
    return Model(graph, threads=1).run(inputs)["y"]


def test_products_of_integers_take_the_threads_of_the_model(monkeypatch):
    asked, conv2d = [], integers.conv.conv2d
    monkeypatch.setattr(integers.conv, "conv2d", lambda *a, threads, **k: (asked.append(threads), conv2d(*a, **k))[1])
    ran_with([node("MatMulInteger", "b")], {"x": np.ones((3, 4), np.uint8), "b": np.ones((4, 5), np.int8)})
    assert asked == [1]


@given(st.integers(0, 2**32), st.sampled_from(["uint8", "int8", "uint16", "int16"]), st.sampled_from([0, 3, 20000]),
       st.booleans())  # fmt: skip
def test_numbers_and_integers_that_stand_for_them(seed, dtype, count, has_zero):
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    scale = np.float32(rng.choice([0.5, 0.013]))
    x = (rng.integers(2 * limits.min - 9, 2 * limits.max, count) * scale / 2).astype(np.float32)  # also halfway
    zero = rng.integers(limits.min, limits.max + 1) if has_zero else 0
    more = {"s": scale, "z": np.array(zero, dtype)}
    q = ran([node("QuantizeLinear", *more)], x, **more)
    np.testing.assert_array_equal(q, np.clip(np.rint(x / scale).astype(np.int64) + zero, limits.min, limits.max))
    got = ran([node("DequantizeLinear", *more)], q, **more)
    np.testing.assert_array_equal(got, ((q.astype(np.int64) - zero) * np.float64(scale)).astype(np.float32))
    assert q.dtype == dtype and got.dtype == np.float32
    np.testing.assert_array_equal(ran_with([node("QuantizeLinear", *more)], {"x": x, **more}), q)
    np.testing.assert_array_equal(ran_with([node("DequantizeLinear", *more)], {"x": q, **more}), got)


@given(st.integers(0, 2**32), st.sampled_from(["uint8", "int8"]), st.integers(-3, 2), st.booleans())
def test_numbers_along_an_axis_and_integers_that_stand_for_them(seed, dtype, axis, has_zero):
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    shape = tuple(rng.integers(0, 40, 3))
    n, along = shape[axis], [-1 if i == axis % 3 else 1 for i in range(3)]
    scale = rng.choice(np.float32([0.5, 0.013, 7]), n)
    zero = rng.integers(limits.min, limits.max + 1, n).astype(dtype)
    x = (rng.integers(-600, 600, shape) * np.float32(0.25)).astype(np.float32)
    x[rng.random(shape) < 0.05] = rng.choice(np.float32([np.inf, -np.inf, 1e30]))
    more = {"s": scale, **({"z": zero} if has_zero or dtype == "int8" else {})}
    zeros = more.get("z", np.zeros(1, np.int64)).astype(np.int64).reshape(along)
    q = ran([node("QuantizeLinear", *more, axis=axis)], x, **more)
    np.testing.assert_array_equal(q, np.clip(np.rint(x / scale.reshape(along)) + zeros, limits.min, limits.max))
    got = ran([node("DequantizeLinear", *more, axis=axis)], q, **more)
    np.testing.assert_array_equal(got, (q - zeros).astype(np.float32) * scale.reshape(along), strict=True)


@given(st.integers(0, 2**32), st.sampled_from(["float64", "int32"]), st.integers(0, 2), FLAGS, FLAGS)
def test_running_sums(seed, dtype, axis, exclusive, reverse):
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, rng.integers(0, 12, 3)).astype(dtype)
    got = ran([node("CumSum", "a", exclusive=exclusive, reverse=reverse)], x, a=np.array(axis))
    for i in range(x.shape[axis]):
        before = slice(i + exclusive, None) if reverse else slice(0, i + 1 - exclusive)
        want = x[(slice(None),) * axis + (before,)].sum(axis)
        np.testing.assert_array_equal(got.take(i, axis), want)


@given(st.integers(0, 2**32), FLAGS)
def test_reversed_sequences(seed, batch):
    rng, time = np.random.default_rng(seed), 1 - batch
    x = rng.standard_normal(rng.integers(1, 6, 3))
    lengths = rng.integers(0, x.shape[time] + 1, x.shape[batch])
    got = ran([node("ReverseSequence", "l", batch_axis=batch, time_axis=time)], x, l=lengths)
    for i, length in enumerate(lengths):
        of, to = (v.take(i, batch) for v in (x, got))
        at = [*range(length)[::-1], *range(length, x.shape[time])]
        np.testing.assert_array_equal(to, of[at])
