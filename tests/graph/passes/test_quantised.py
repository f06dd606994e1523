"""Networks that quantise and dequantise: what is kept as integers, against their operators one by one."""

import numpy as np
import pytest
from conftest import EMULATED, fewer, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from oracle.network import evaluate
from random_cases.quantised import Builder, assert_same

from layoutkit._core.runtime import registry
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES


def held(model):
    """The types that its only program keeps tensors in, and the operators of its steps."""
    (program,) = model._programs.values()
    return [of.stored.dtype for of in program.known.values() if of.stored], [step.op for step in program.steps]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("layouts", [None, *NAMES])
def test_a_chain_of_convolutions(dtype, layouts):
    b = Builder(1)
    x = b.quantised("x", dtype, 1 / 120, 3)
    for before, channels, axis in ((8, 16, 0), (16, 20, None), (20, 16, 0)):
        w = b.filter(channels, before, 3, 3, axis=axis)
        y = b.add("Conv", x, w, b.constant(b.rng.uniform(-1, 1, channels).astype(np.float32)), pads=[1] * 4)
        x = b.quantised(b.add("Relu", y), dtype, 0.05, 0)
    y = b.add("GlobalAveragePool", x)
    model = assert_same(b.graph(y), 0.05, layouts=layouts, threads=2)
    types, steps = held(model)
    assert types == [dtype] * 4 and "QuantizeLinear" not in steps and "DequantizeLinear" not in steps


def test_products_sums_and_what_has_no_kernel_for_integers():
    b = Builder(2)
    x = b.quantised("x", "uint8", 1 / 120, 128)
    c = b.quantised(b.add("Conv", x, b.filter(8, 8, 1, 1)), "uint8", 0.02, 120)
    s = b.quantised(b.add("Relu", b.add("Add", x, c)), "uint8", 0.02, 0)
    p = b.quantised(b.add("MaxPool", s, kernel_shape=[2, 2]), "uint8", 0.02, 0)
    t = b.quantised(b.add("Concat", p, p, axis=1), "uint8", 0.02, 0)
    f = b.add("Flatten", b.add("GlobalAveragePool", t))
    y = b.add("Gemm", b.quantised(f, "int8", 0.01, 0), b.filter(16, 10, axis=1))
    z = b.add("Gemm", b.quantised(f, "int8", 0.01, 0), b.filter(10, 16, axis=0), transB=1, alpha=0.5)
    model = assert_same(b.graph(y, z), 0.05, threads=1)
    types, steps = held(model)
    assert len(types) == 7 and steps.count("QuantizeLinear") == 0


@pytest.mark.parametrize("shape", [(), (3,), (0, 4)])
def test_tensors_of_few_dimensions(shape):
    b = Builder(3)
    y = b.add("Tanh", b.quantised(b.add("Sqrt", b.add("Abs", "x")), "uint8", 0.01, 0))
    assert_same(b.graph(y, shape=shape), 0.01)


def test_what_is_read_before_it_is_rounded_stays():
    b = Builder(3)
    y = b.add("Conv", "x", b.filter(4, 8, 1, 1))
    q = b.quantised(y, "uint8", 0.1, 128)
    z = b.add("Conv", q, b.filter(4, 4, 1, 1))
    assert_same(b.graph(y, z), 0.01)


@pytest.mark.parametrize(
    "broken", ["scales differ", "zero point of the filter", "result of the model", "scale by axis"]
)
def test_pairs_that_are_none(broken):
    b = Builder(4)
    scale, zero = b.constant(np.float32(0.02)), b.constant(np.uint8(3))
    other = b.constant(np.float32(0.03)) if broken == "scales differ" else scale
    if broken == "scale by axis":
        scale = other = b.constant(np.full(8, 0.02, np.float32))
        zero = b.constant(np.full(8, 3, np.uint8))
    q = b.add("QuantizeLinear", "x", scale, zero)
    d = b.add("DequantizeLinear", q, other, zero)
    w = b.constant(b.rng.integers(-9, 9, (4, 8, 1, 1)).astype(np.int8))
    zeros = b.constant(np.int8(1 if broken == "zero point of the filter" else 0))
    y = b.add("Conv", d, b.add("DequantizeLinear", w, b.constant(np.float32(0.1)), zeros))
    outputs = (y, d) if broken == "result of the model" else (y,)
    assert_same(b.graph(*outputs), 0.01)


@given(
    st.data(), st.sampled_from([None, *NAMES]), st.sampled_from(["float32", "bfloat16"]),
    st.sampled_from([registry.isas()[-1], *EMULATED]),
)  # fmt: skip
def test_random_networks(data, layouts, dtype, isa):
    """Of any scales and zero points; products in bfloat16 where a filter is not of int8."""
    b = Builder(data.draw(st.integers(0, 1 << 20)))
    kinds = "uint8", "int8"

    def rounded(x: str, scale: float) -> str:
        kind = data.draw(st.sampled_from(kinds))
        zero = data.draw(st.integers(0, 255) if kind == "uint8" else st.integers(-128, 127))
        return b.quantised(x, kind, scale, zero)

    tensors = [(rounded("x", 0.01), 8)]
    for _ in range(data.draw(st.integers(1, 6))):
        x, channels = data.draw(st.sampled_from(tensors[-3:]))
        op = data.draw(st.sampled_from(["Conv", "Conv", "Depthwise", "Add", "Concat", "MaxPool", "Relu"]))
        if op == "Conv":
            out = data.draw(st.sampled_from([1, 8, 17, 70]))
            y = b.add(
                "Conv", x, b.filter(out, channels, 3, 3, axis=data.draw(st.sampled_from([0, None]))), pads=[1] * 4
            )
            tensors.append((rounded(y, 0.05), out))
        elif op == "Depthwise":
            y = b.add("Conv", x, b.filter(channels, 1, 3, 3), pads=[1] * 4, group=channels)
            tensors.append((rounded(y, 0.02), channels))
        elif op == "Add":
            other = data.draw(st.sampled_from([t for t, n in tensors if n == channels]))
            tensors.append((rounded(b.add("Add", x, other), 0.03), channels))
        elif op == "Concat":
            other, more = data.draw(st.sampled_from(tensors))
            tensors.append((rounded(b.add("Concat", x, other, axis=1), 0.03), channels + more))
        elif op == "MaxPool":
            y = b.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
            tensors.append((y, channels))
        else:
            tensors.append((rounded(b.add("Relu", x), 0.03), channels))
    read = {name for node in b.nodes for name in node.inputs}
    graph = b.graph(*(t for t, _ in tensors if t not in read), shape=(2, 8, 5, 5))
    x = b.rng.uniform(-1, 1, (2, 8, 5, 5)).astype(np.float32)
    want = evaluate(graph, {"x": x})
    with using_isa(isa):
        found = Model(graph, layouts=layouts, dtype=dtype, threads=2).run(x)
    for name in graph.outputs:
        # where a rounding goes the other way, what follows differs by a quantum times its weights
        assert np.mean(np.abs(found[name] - want[name])) < (0.01 if dtype == "float32" else 0.1), name


@given(
    dtypes=st.lists(st.sampled_from(["uint8", "int8"]), min_size=5, max_size=5), heads=st.integers(1, 3),
    steps=st.sampled_from([1, 5, 17, 70]), size=st.sampled_from([1, 4, 7, 40]), axis=st.sampled_from([-1, -1, 1]),
    scale=st.sampled_from([1, 0.37]), threads=st.integers(1, 2), seed=st.integers(0, 99),
)  # fmt: skip
def test_attention_of_integers(dtypes, heads, steps, size, axis, scale, threads, seed):
    """Products of tensors of bytes and their softmax, by views of what they are parts of."""
    b = Builder(seed)
    types = iter(dtypes)

    def rounded(x: str, step: float, zero: int | None = None) -> str:
        dtype = next(types)
        limits = np.iinfo(dtype)
        zero = int(b.rng.integers(limits.min, limits.max + 1) // 2) if zero is None else limits.min
        return b.quantised(x, dtype, step, zero)

    shape = b.constant(np.array([2, steps, heads, size], np.int64))
    x = b.add("Reshape", rounded("x", 0.012), shape)
    q, v = (b.add("Transpose", x, perm=[0, 2, 1, 3]) for _ in range(2))
    k = b.add("Transpose", rounded(b.add("Mul", x, b.constant(np.float32(0.7))), 0.009), perm=[0, 2, 3, 1])
    scores = b.add("MatMul", q, k)
    if scale != 1:
        scores = b.add("Mul", scores, b.constant(np.float32(scale)))
    scores = rounded(scores, 0.02 * size)
    weights = rounded(b.add("Softmax", scores, axis=axis), 1 / 255, 0)
    y = rounded(b.add("MatMul", weights, v), 0.011)
    again = b.nodes[-1].inputs[1:]  # as onnxruntime's quantiser has it, what only moves is rounded again
    y = b.add("DequantizeLinear", b.add("QuantizeLinear", b.add("Transpose", y, perm=[0, 2, 1, 3]), *again), *again)
    y = b.add("Reshape", y, b.constant(np.array([2, steps, heads * size], np.int64)))
    graph = b.graph(b.add("Relu", y), shape=(2, steps, heads * size))
    x = np.random.default_rng(seed).uniform(-1, 1, graph.inputs["x"].shape).astype(np.float32)
    model = Model(graph, threads=threads)
    found, want = model.run(x)[graph.outputs[0]], evaluate(graph, {"x": x})[graph.outputs[0]]
    # a score or a weight that is rounded the other way changes the results of its row
    apart = np.abs(found - want)
    assert apart.max() < 0.1 and np.mean(apart > 0.006) < 0.02
    _, ran = held(model)
    assert ran.count("Transpose") == 0


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_bias_of_integers_is_part_of_the_sums(dtype, threads):
    """Of filters of int8, and of uint8 around 128; groups, activations that clip, asymmetric zero points."""
    b = Builder(11)
    x = b.quantised("x", dtype, 1 / 113, 5)
    steps = [(16, 1, 1, "Relu"), (16, 3, 16, None), (24, 1, 1, "Clip"), (8, 3, 1, None)]
    channels = 8
    for oc, taps, groups, activation in steps:
        scale_of_x = b.constants[b.nodes[-1].inputs[1]]
        w = b.rng.integers(-127, 128, (oc, channels // groups, taps, taps)).astype(np.int8)
        scale = b.rng.uniform(0.002, 0.01, oc).astype(np.float32)
        zero, axis = np.zeros(oc, np.int8), {"axis": 0}
        if taps == 3 and groups == 1:
            w, zero, scale, axis = (w ^ np.int8(-128)).view(np.uint8), np.array(128, np.uint8), scale[0], {}
        filter = b.add("DequantizeLinear", b.constant(w), b.constant(scale), b.constant(zero), **axis)
        values = b.rng.integers(-5000, 5000, oc).astype(np.int32)
        of_bias = np.broadcast_to(scale_of_x * scale, oc).astype(np.float32)
        bias = b.add(
            "DequantizeLinear", b.constant(values), b.constant(of_bias), b.constant(np.zeros(oc, np.int32)), axis=0
        )
        y = b.add("Conv", x, filter, bias, pads=[taps // 2] * 4, group=groups)
        if activation == "Relu":
            y = b.add(activation, y)
        elif activation:
            y = b.add(activation, y, b.constant(np.float32(-0.7)), b.constant(np.float32(1.9)))
        x, channels = b.quantised(y, dtype, 0.037, -3 if dtype == "int8" else 120), oc
    graph = b.graph(x)
    x = np.random.default_rng(5).uniform(-1, 1, graph.inputs["x"].shape).astype(np.float32)
    want = evaluate(graph, {"x": x})[graph.outputs[0]]
    for layouts in (None, *NAMES):
        found = Model(graph, layouts=layouts, threads=threads).run(x)[graph.outputs[0]]
        apart = np.abs(found - want)
        assert np.count_nonzero(apart > 0.02) <= 0.01 * apart.size and apart.max() < 0.15


@given(
    op=st.sampled_from(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"]),
    dtypes=st.sampled_from(["uint8", "int8"]),
    same=st.booleans(), shape=st.sampled_from([(1, 8, 9, 9), (2, 33, 5, 1), (1, 3, 4), (1, 70, 2, 3, 4), (0, 8, 3, 3)]),
    kernel=st.integers(1, 3), stride=st.integers(1, 2), pad=st.integers(0, 1), inside=st.integers(0, 1),
    layouts=st.sampled_from([None, *NAMES]), threads=st.integers(1, 2), seed=st.integers(0, 99),
)  # fmt: skip
def test_pooling_of_integers(op, dtypes, same, shape, kernel, stride, pad, inside, layouts, threads, seed):
    b, rank = Builder(seed), len(shape) - 2
    limits = np.iinfo(dtypes)
    given_ = b.rng.uniform(0.005, 0.02), int(b.rng.integers(limits.min, limits.max + 1))
    same = same and op.endswith("MaxPool")  # means of integers are often halfway
    other = given_ if same else (b.rng.uniform(0.005, 0.02), int(b.rng.integers(limits.min, limits.max + 1)))
    attributes = {}
    if not op.startswith("Global"):
        pad = min(pad, kernel - 1)
        attributes = {"kernel_shape": [kernel] * rank, "strides": [stride] * rank, "pads": [pad] * 2 * rank}
        if op == "AveragePool":
            attributes["count_include_pad"] = inside
    if any(n + 2 * pad < kernel for n in shape[2:]):
        return
    y = b.quantised(b.add(op, b.quantised("x", dtypes, *given_), **attributes), dtypes, *other)
    graph = b.graph(b.add("Concat", y, y, axis=1), shape=shape)
    assert_same(graph, other[0], layouts=layouts, threads=threads)


@given(
    dtype=st.sampled_from(["uint8", "int8"]), groups=st.sampled_from([1, 1, 2, 8]), channels=st.integers(1, 9),
    each=st.booleans(), kernel=st.integers(1, 4), stride=st.integers(1, 3), dilation=st.integers(1, 2),
    pad=st.integers(0, 1), more=st.integers(0, 1), rank=st.integers(1, 3), bias=st.sampled_from(["", "real", "int32"]),
    relu=st.booleans(), zero=st.integers(-9, 9), layouts=st.sampled_from([None, *NAMES]), threads=st.integers(1, 2),
    seed=st.integers(0, 99),
)  # fmt: skip
@fewer(2)
def test_transposed_convolutions_of_integers(
    dtype, groups, channels, each, kernel, stride, dilation, pad, more, rank, bias, relu, zero, layouts, threads, seed
):
    """Sums of integers, to the bit: but for results that are nearly halfway between two integers."""
    b, oc, quantum = Builder(seed), channels * groups, np.float32(0.05)
    w = b.filter(8, channels, *[kernel] * rank, axis=1 if each else None)
    scale = np.resize(1 / np.float32(120) * b.constants[b.nodes[-1].inputs[1]], oc)
    zero += 128 * (dtype == "uint8")
    x = b.quantised("x", dtype, 1 / 120, zero)
    added = b.rng.integers(-9000, 9000, oc).astype(np.int32)
    biases = []
    if bias == "int32":
        of_bias = b.constant(scale), b.constant(np.zeros(oc, np.int32))
        biases = [b.add("DequantizeLinear", b.constant(added), *of_bias, axis=0)]
    elif bias:
        biases = [b.constant((added * scale).astype(np.float32))]
    pad, more = min(pad, (kernel - 1) * dilation), min(more, max(stride, dilation) - 1)
    strides, dilations, extra = ([n] * rank for n in (stride, dilation, more))
    y = b.add("ConvTranspose", x, w, *biases, strides=strides, dilations=dilations, output_padding=extra, group=groups,
              pads=[pad] * 2 * rank)  # fmt: skip
    y = b.quantised(b.add("Relu", y) if relu else y, dtype, quantum, zero)
    shape = (2, 8, *(4, 3, 2)[:rank])
    graph = b.graph(b.add("Concat", y, y, axis=1), shape=shape)
    source = {"x": b.rng.uniform(-1, 1, shape).astype(np.float32)}
    model = Model(graph, layouts=layouts, threads=threads)
    found = model.run(source)[graph.outputs[0]][:, :oc]
    (program,) = model._programs.values()
    (node,) = (node for node in program.plan.graph.nodes if node.op == "ConvTranspose")
    assert "integers" in node.attributes and program.known[node.outputs[0]].stored.dtype == dtype

    numbers, filters = (evaluate(graph.needed([name]), source)[name].astype(np.float64) for name in (x, w))
    exact = reference.conv_transpose(
        numbers, filters, added * scale.astype(np.float64) if bias else None, strides, [(pad, pad)] * rank, extra,
        dilations, groups,
    )  # fmt: skip
    steps = (np.maximum(exact, 0) if relu else exact) / np.float64(quantum)
    limits = np.iinfo(dtype)
    want, got = np.clip(np.rint(steps) + zero, limits.min, limits.max), np.rint(found / quantum) + zero
    apart, halfway = np.abs(got - want), np.abs(steps - np.floor(steps) - 0.5) < 1e-4
    assert got.shape == want.shape and not apart[~halfway].any() and apart.max(initial=0) <= 1
