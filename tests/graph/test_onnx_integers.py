"""Operators on integers, of ONNX and of onnxruntime's quantiser: against the numbers that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from oracle import integers, reference
from oracle.runtime import by_onnxruntime, saturates

import layoutkit as lk
from layoutkit.graph.operators import Unsupported

MS = "com.microsoft"


class Made:
    """A model of nodes, whose constants are added as they are named."""

    def __init__(self, dtype, seed=0):
        self.rng, self.dtype, self.nodes, self.constants = np.random.default_rng(seed), np.dtype(dtype), [], []

    def constant(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def scale(self, scale, zero):
        return self.constant(np.float32(scale)), self.constant(np.array(zero, self.dtype))

    def add(self, op, *inputs, domain="", **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def model(self, y, shape, dtype=TensorProto.FLOAT, inputs=("x",)):
        values = [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape) for x in inputs]
        graph = helper.make_graph(
            self.nodes, "g", values, [helper.make_tensor_value_info(y, dtype, None)], self.constants
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(MS, 1)], ir_version=8
        )


def compared(model, shape, most, threads=1, seed=1, by_others=True):
    """Our result and that by the definitions, at most so far apart, and from onnxruntime's, where that is installed
    and `by_others`."""
    x = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    (ours,) = lk.onnx.load(model, threads=threads).run({"x": x}).values()
    truths = {"the definitions": integers.evaluate(model, {"x": x})}
    theirs = by_onnxruntime(model, {"x": x}, optimized=False) if by_others else None
    if theirs is not None:
        (truths["onnxruntime"],) = theirs
    for name, truth in truths.items():
        assert ours.shape == truth.shape and truth.max() > truth.min(), name
        off = np.abs(ours.astype(np.float64) - truth)
        assert off.max() <= most, (name, off.max())
    return ours, truths["the definitions"]


def network(dtype, shape):
    """Every operator of the set, one after another."""
    m = Made(dtype)
    zero = 7 if dtype == "uint8" else -7
    q = m.scale(1 / 120, zero)
    x = m.add("QuantizeLinear", "x", *q)
    w = m.rng.integers(-127, 128, (16, shape[1], 3, 3)).astype(np.int8)
    scales = m.rng.uniform(0.002, 0.01, 16).astype(np.float32)
    c = m.scale(0.03, zero)
    of_filter = m.constant(w), m.constant(scales), m.constant(np.zeros(16, np.int8))
    bias = m.constant(m.rng.integers(-900, 900, 16).astype(np.int32))
    x = m.add("QLinearConv", x, *q, *of_filter, *c, bias, pads=[1] * 4)
    x = m.add("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    s, a = m.scale(1 / 256, 0 if dtype == "uint8" else -128), m.scale(0.025, zero)
    sigmoid = m.add("QLinearSigmoid", x, *c, *s, domain=MS)
    x = m.add("QLinearMul", x, *c, sigmoid, *s, *a, domain=MS)
    leaky = m.add("QLinearLeakyRelu", x, *a, *c, domain=MS, alpha=0.2)
    x = m.add("QLinearAdd", x, *a, leaky, *c, *c, domain=MS)
    x = m.add("QLinearConcat", *a, x, *c, leaky, *c, domain=MS, axis=1)
    x = m.add("QLinearAveragePool", x, *a, *a, domain=MS, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    g = m.scale(0.01, zero)
    x = m.add("QLinearGlobalAveragePool", x, *a, *g, domain=MS)
    x = m.add("Flatten", x)
    b = (
        m.constant(m.rng.integers(-127, 128, (32, 12)).astype(np.int8)),
        m.constant(np.float32(0.004)),
        m.constant(np.int8(0)),
    )
    bias = m.constant(m.rng.integers(-900, 900, 12).astype(np.int32))
    x = m.add("QGemm", x, *g, *b, bias, *a, domain=MS, alpha=1.0)
    d = (
        m.constant(m.rng.integers(-127, 128, (12, 9)).astype(np.int8)),
        m.constant(np.float32(0.004)),
        m.constant(np.int8(0)),
    )
    x = m.add("QLinearMatMul", x, *a, *d, *g)
    x = m.add("QLinearSoftmax", x, *g, *s, domain=MS, axis=-1, opset=13)
    return m, m.add("DequantizeLinear", x, *s)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_operators_on_integers_are_those_of_their_definitions(dtype, threads):
    shape = 2, 8, 9, 11
    m, y = network(dtype, shape)
    compared(m.model(y, shape), shape, 1.01 / 256, threads, by_others=dtype == "int8" or not saturates())


def test_all_between_the_first_and_the_last_is_stored_as_integers():
    m, y = network("uint8", (2, 8, 9, 11))
    model = lk.onnx.load(m.model(y, (2, 8, 9, 11)))
    model.run({"x": np.zeros((2, 8, 9, 11), np.float32)})
    (program,) = model._programs.values()
    for node in program.plan.graph.nodes[:-3]:
        assert all(program.known[name].stored is not None for name in node.outputs), node
    assert "by numpy" not in str(model.profile({"x": np.zeros((2, 8, 9, 11), np.float32)}, 1))


def test_other_filters_stay_products_of_integers():
    m = Made("uint8")
    q = m.scale(0.02, 3)
    w = (
        m.constant(m.rng.integers(0, 256, (4, 8, 1, 1)).astype(np.uint8)),
        m.constant(np.float32(0.01)),
        m.constant(np.uint8(99)),
    )
    x = m.add("QLinearConv", m.add("QuantizeLinear", "x", *q), *q, *w, *m.scale(0.05, 100))
    ours, truth = compared(m.model(x, (1, 8, 5, 5), TensorProto.UINT8), (1, 8, 5, 5), 1)
    assert (ours == truth).mean() > 0.99


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_choices(dtype):
    m, zero = Made(dtype), 5
    a, b, y = m.scale(1 / 120, zero), m.scale(0.012, -zero if dtype == "int8" else 9), m.scale(0.0137, 11)
    choice = m.add("Greater", "x", m.constant(np.float32(0.1)))
    x = m.add("QuantizeLinear", "x", *a), *a, m.add("QuantizeLinear", m.add("Neg", "x"), *b), *b
    shape = 2, 8, 5, 7
    y = m.add("DequantizeLinear", m.add("QLinearWhere", choice, *x, *y, domain=MS), *y)
    compared(m.model(y, shape), shape, 1e-6)


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
@pytest.mark.parametrize("zero", [99, 133])
def test_filters_with_zero_points(op, zero):
    """Less their zero points they are int8, as those of most models."""
    m = Made("uint8")
    q, y, rank = m.scale(1 / 120, 3), m.scale(0.05, 100), 4 if op == "QLinearConv" else 2
    w = m.rng.integers(20, 220, (8, 8, 3, 3)[:rank]).astype(np.uint8)
    w = m.constant(w), m.constant(np.float32(0.01)), m.constant(np.uint8(zero))
    x = m.add("DequantizeLinear", m.add(op, m.add("QuantizeLinear", "x", *q), *q, *w, *y), *y)
    shape = (2, 8, 9, 7)[:rank]
    model = m.model(x, shape)
    compared(model, shape, 0.0501)
    assert op not in lk.onnx.load(model).explain()


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul"])
@pytest.mark.parametrize("of_filter, zero", [("uint8", 128), ("uint8", 110), ("int8", 0), ("int8", 5)])
@pytest.mark.parametrize("each", ["scale", "zero"])
def test_one_number_for_all_channels_beside_one_for_each(op, of_filter, zero, each):
    """A scale for each channel and one zero point, or the other way round."""
    m = Made("uint8")
    q, y, rank = m.scale(1 / 120, 3), m.scale(0.05, 100), 4 if op == "QLinearConv" else 2
    w = m.rng.integers(zero - 100, zero + 100, (8, 8, 3, 3)[:rank]).astype(of_filter)
    scales, zeros = np.linspace(0.005, 0.02, 8, dtype=np.float32), np.full(8, zero, of_filter)
    if each == "zero":
        scales, zeros = scales[3], zeros + np.arange(8, dtype=of_filter)
    else:
        zeros = zeros[0]
    w = m.constant(w), m.constant(scales), m.constant(zeros)
    x = m.add("DequantizeLinear", m.add(op, m.add("QuantizeLinear", "x", *q), *q, *w, *y), *y)
    shape = (2, 8, 9, 7)[:rank]
    compared(m.model(x, shape), shape, 0.0501)


@given(
    dtype=st.sampled_from(["uint8", "int8"]), of_filter=st.sampled_from(["uint8", "int8"]), rank=st.integers(1, 3),
    groups=st.sampled_from([1, 2, 6]), channels=st.integers(1, 3), kernel=st.integers(1, 3), stride=st.integers(1, 2),
    pad=st.integers(0, 1), auto=st.sampled_from(["NOTSET", "SAME_UPPER", "VALID"]), each=st.booleans(),
    varying=st.booleans(), fits=st.booleans(), threads=st.integers(1, 2), seed=st.integers(0, 99),
)  # fmt: skip
def test_sums_of_integers(
    dtype, of_filter, rank, groups, channels, kernel, stride, pad, auto, each, varying, fits, threads, seed
):
    """ConvInteger to the bit, whose zero point is constant or an input, of filters that are int8 less theirs or not."""
    m, oc = Made(dtype, seed), channels * groups
    limits, of_w = np.iinfo(dtype), np.iinfo(of_filter)
    zeros = m.rng.integers(of_w.min, of_w.max + 1, oc if each else ())
    spread = m.rng.integers(-60 if fits else -255, 60 if fits else 256, (oc, 6 // groups, *[kernel] * rank))
    w = np.clip(spread + np.reshape(zeros, (-1, *[1] * (rank + 1)) if each else ()), of_w.min, of_w.max)
    z, shape = m.rng.integers(limits.min, limits.max + 1), (2, 6, *(7, 5, 4)[:rank])
    x = m.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    zero = "z" if varying else m.constant(np.array(z, dtype))
    constants = m.constant(w.astype(of_filter)), zero, m.constant(zeros.astype(of_filter))
    pads = [min(pad, kernel - 1)] * 2 * rank
    around = {"pads": pads} if auto == "NOTSET" else {"auto_pad": auto}
    y = m.add("ConvInteger", "x", *constants, strides=[stride] * rank, group=groups, **around)
    of = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    values = [helper.make_tensor_value_info(name, of, s) for name, s in (("x", shape), ("z", ()))[: 1 + varying]]
    result = [helper.make_tensor_value_info(y, TensorProto.INT32, None)]
    graph = helper.make_graph(m.nodes, "g", values, result, m.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    network = lk.onnx.load(model, threads=threads)
    if auto == "SAME_UPPER":
        out = [-(-n // stride) for n in shape[2:]]
        total = [max(0, (o - 1) * stride + kernel - n) for o, n in zip(out, shape[2:])]
        around = [(n // 2, n - n // 2) for n in total]
    else:
        around = [(0, 0)] * rank if auto == "VALID" else [(n, n) for n in pads[:rank]]
    whole = w - np.reshape(zeros, (-1, *[1] * (rank + 1)) if each else ())
    for step in range(2 if varying else 1):
        given_ = {"x": x, "z": np.array(z if not step else limits.max, dtype)}
        (got,) = network.run({k: given_[k] for k in list(given_)[: 1 + varying]}).values()
        numbers = x.astype(np.float64) - int(given_["z"])
        want = reference.conv(numbers, whole.astype(np.float64), None, [stride] * rank, around, [1] * rank, groups)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op, inputs", [("QLinearAdd", 3), ("QLinearConcat", 6), ("QGemm", 2), ("QLinearSigmoid", 3)])
def test_too_few_inputs_are_told(op, inputs):
    m = Made("uint8")
    x = m.add("QuantizeLinear", "x", *m.scale(0.02, 3))
    given = [x, *m.scale(0.1, 1), *m.scale(0.1, 1), x][:inputs]
    with pytest.raises(ValueError, match=f"onnx: {op}.* inputs"):
        lk.onnx.load(m.model(m.add(op, *given, domain=MS), (2, 3)))


def test_operators_of_other_domains_are_refused():
    m = Made("uint8")
    with pytest.raises(Unsupported, match=r"com\.microsoft\.SparseAttention"):
        lk.onnx.load(m.model(m.add("SparseAttention", "x", "x", domain=MS), (1, 2, 3, 3)))


def test_a_zero_point_that_is_left_out_is_of_the_type_of_the_other():
    m = Made("int8")
    q, scale = m.add("QuantizeLinear", "x", *m.scale(0.02, 3)), m.constant(np.float32(0.004))
    for zero in ((), ("",)):
        y = m.add("QLinearSigmoid", q, *m.scale(0.02, 3), scale, *zero, domain=MS)
        (ours,) = lk.onnx.load(m.model(y, [1, 3, 5], TensorProto.INT8)).run(np.ones((1, 3, 5), np.float32)).values()
        assert ours.dtype == np.int8
        np.testing.assert_array_equal(ours, 127)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (5, 4), (5, 1)])
def test_biases_of_products_are_broadcast(shape):
    m = Made("uint8")
    x = m.add("QuantizeLinear", "x", *m.scale(0.02, 120))
    w = m.constant(m.rng.integers(-127, 128, (6, 4)).astype(np.int8))
    w = w, m.constant(np.float32([0.01, 0.02, 0.03, 0.04])), m.constant(np.zeros(4, np.int8))
    bias = m.constant(m.rng.integers(-999, 999, shape).astype(np.int32))
    y = m.add("QGemm", x, *m.scale(0.02, 120), *w, bias, *m.scale(0.05, 128), domain=MS)
    compared(m.model(y, [5, 6], TensorProto.UINT8), (5, 6), 1)


@pytest.mark.parametrize("opset, axis", [(12, 1), (12, -1), (13, 1)])
def test_softmax_of_before_opset_13(opset, axis):
    m = Made("uint8")
    x = m.add("QuantizeLinear", "x", *m.scale(0.02, 120))
    y = m.add("QLinearSoftmax", x, *m.scale(0.02, 120), *m.scale(0.004, 0), domain=MS, axis=axis, opset=opset)
    model = m.model(y, [2, 3, 4], TensorProto.UINT8)
    if opset < 13 and axis != -1:
        with pytest.raises(Unsupported, match="along all axes from 1 on"):
            lk.onnx.load(model)
    else:
        compared(model, (2, 3, 4), 1)


def test_the_type_of_integers_without_a_zero_point():
    x = np.linspace(-3, 3, 9, dtype=np.float32)
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.INT8)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [9])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [9])], [numpy_helper.from_array(np.float32(0.1), "s")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (y,) = lk.onnx.load(model).run(x).values()
    assert y.dtype == np.int8
    np.testing.assert_array_equal(y, np.rint(x / np.float32(0.1)))
