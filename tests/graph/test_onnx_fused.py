"""Operators that onnxruntime's optimiser makes of several: against their definitions, and onnxruntime where it is."""

from math import erf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from oracle.runtime import by_onnxruntime, saturates

import layoutkit as lk
from layoutkit.graph.operators import Unsupported

MS = "com.microsoft"


def model(op, inputs, constants, results=1, domain=MS, **attributes):
    """A node of inputs and constants, in the order in which their names are given; "" is one that is left out."""
    arrays = {**inputs, **constants}
    names = [name if value is not None else "" for name, value in arrays.items()]
    of = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
          for name, x in inputs.items()]  # fmt: skip
    outputs = [f"y{i}" for i in range(results)] if isinstance(results, int) else results
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", of, [helper.make_tensor_value_info(y, 1, None) for y in outputs if y],
        [numpy_helper.from_array(x, name) for name, x in constants.items() if x is not None],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def results_of(proto, inputs):
    """Ours, and onnxruntime's where it is installed."""
    return list(lk.onnx.load(proto, threads=2).run(inputs).values()), by_onnxruntime(proto, inputs)


OF_BYTES = "DynamicQuantizeMatMul", "MatMulIntegerToFloat"


def check(proto, inputs, truths, most=1e-5):
    """Ours are the truths, so far apart at most, and so are onnxruntime's, but for products of bytes that saturate."""
    ours, theirs = results_of(proto, inputs)
    for truth, y in zip(truths, ours, strict=True):
        np.testing.assert_allclose(y, truth, atol=most, rtol=most)
        assert y.shape == truth.shape
    if proto.graph.node[0].op_type in OF_BYTES and saturates():
        return
    for truth, y in zip(truths, theirs or [], strict=theirs is not None):
        np.testing.assert_allclose(y, truth, atol=10 * most, rtol=10 * most)


def real(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def normalised(x, scale, shift, epsilon, simplified):
    x = x.astype(np.float64)
    x = x if simplified else x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale
    return y if shift is None else y + shift


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x.astype(np.float64) / np.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x.astype(np.float64) ** 3)))


SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_normalisations_of_sums(seed, simplified, with_shift, with_bias, with_sum):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 7, 2)) + (int(rng.integers(2, 40)),)
    inputs = {"x": real(rng, *shape), "skip": real(rng, *shape)}
    scale, shift, bias = real(rng, shape[-1]), real(rng, shape[-1]), real(rng, shape[-1])
    constants = {"scale": scale}
    if not simplified:
        constants["shift"] = shift if with_shift else None
    constants["bias"] = bias if with_bias else None
    if not with_bias:
        constants.popitem()
        if not simplified and not with_shift:
            constants.popitem()
    op = "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization"
    proto = model(op, inputs, constants, ["y", "", "", "sum"] if with_sum else 1, epsilon=1e-3)
    total = inputs["x"] + inputs["skip"] + (bias if with_bias else 0)
    y = normalised(total, scale, shift if with_shift and not simplified else None, 1e-3, simplified)
    check(proto, inputs, [y, total] if with_sum else [y], 1e-4)


@given(SEEDS)
def test_the_root_mean_square_alone(seed):
    rng = np.random.default_rng(seed)
    x, scale = real(rng, 3, int(rng.integers(1, 9)), 33), real(rng, 33)
    proto = model("SimplifiedLayerNormalization", {"x": x}, {"s": scale}, domain="", axis=-1, epsilon=1e-5)
    check(proto, {"x": x}, [normalised(x, scale, None, 1e-5, True)], 1e-4)


@given(SEEDS, st.booleans(), st.booleans())
def test_embeddings(seed, with_segments, with_mask):
    rng = np.random.default_rng(seed)
    batch, steps, size = (int(n) for n in rng.integers(1, 9, 3))
    size *= 4
    words, positions, segments = real(rng, 20, size), real(rng, 12, size), real(rng, 2, size)
    scale, shift = real(rng, size), real(rng, size)
    inputs = {"ids": rng.integers(0, 20, (batch, steps)).astype(np.int32)}
    arrays = {**inputs, "types": None}
    if with_segments:
        inputs["types"] = arrays["types"] = rng.integers(0, 2, (batch, steps)).astype(np.int32)
    arrays |= {"words": words, "positions": positions, "segments": segments if with_segments else None,
               "scale": scale, "shift": shift}  # fmt: skip
    if with_mask:
        inputs["mask"] = arrays["mask"] = rng.integers(-1, 3, (batch, steps), np.int32)
    names = [name if value is not None else "" for name, value in arrays.items()]
    outputs = ["y", "count"]
    node = helper.make_node("EmbedLayerNormalization", names, outputs, domain=MS, epsilon=1e-3)
    kinds = {"y": 1, "count": 6}
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(name, 6, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info(name, kinds[name], None) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in arrays.items() if x is not None and name not in inputs],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    total = words[inputs["ids"]] + positions[:steps]
    if with_segments:
        total = total + segments[inputs["types"]]
    counts = (inputs["mask"] == 1).sum(1) if with_mask else np.zeros(batch)
    truths = [normalised(total, scale, shift, 1e-3, False), counts]
    check(helper.make_model(graph, opset_imports=opsets, ir_version=9), inputs, truths, 1e-4)


@pytest.mark.parametrize(("op", "with_bias"), [
    ("BiasGelu", True), ("FastGelu", False), ("FastGelu", True), ("Gelu", False), ("QuickGelu", False),
])  # fmt: skip
def test_activations(op, with_bias):
    rng = np.random.default_rng(3)
    x, bias = 3 * real(rng, 4, 5, 24), real(rng, 24)
    proto = model(op, {"x": x}, {"b": bias} if with_bias else {})
    v = x + bias if with_bias else x
    y = gelu_tanh(v) if op == "FastGelu" else v / (1 + np.exp(-1.702 * v)) if op == "QuickGelu" else gelu(v)
    check(proto, {"x": x}, [y], 1e-4)


@given(SEEDS, st.booleans(), st.booleans(), st.sampled_from([1.0, 0.125, -2.5]), st.booleans())
def test_products(seed, trans_a, trans_b, alpha, constant):
    rng = np.random.default_rng(seed)
    batch = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
    m, k, n = (int(i) for i in rng.integers(1, 20, 3))
    a, b = real(rng, *batch, *((k, m) if trans_a else (m, k))), real(rng, *batch, *((n, k) if trans_b else (k, n)))
    proto = model("FusedMatMul", {"a": a} if constant else {"a": a, "b": b}, {"b": b} if constant else {},
                  transA=int(trans_a), transB=int(trans_b), alpha=alpha)  # fmt: skip
    left, right = (x.swapaxes(-1, -2) if t else x for x, t in ((a, trans_a), (b, trans_b)))
    check(proto, {"a": a} if constant else {"a": a, "b": b}, [alpha * (left @ right)], 1e-4)


@pytest.mark.parametrize(
    ("kind", "numbers", "of"),
    [
        ("Relu", [], lambda x: np.maximum(x, 0)),
        ("LeakyRelu", [0.2], lambda x: np.where(x < 0, 0.2 * x, x)),
        ("Clip", [-0.5, 1.5], lambda x: np.clip(x, -0.5, 1.5)),
        ("Tanh", [], np.tanh),
        ("HardSigmoid", [0.2, 0.5], lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    ],
)
@pytest.mark.parametrize("with_sum", [False, True])
def test_convolutions(kind, numbers, of, with_sum):
    rng = np.random.default_rng(5)
    x, w, b, z = real(rng, 2, 3, 9, 8), real(rng, 16, 3, 1, 1), real(rng, 16), real(rng, 2, 16, 9, 8)
    inputs = {"x": x, "z": z} if with_sum else {"x": x}
    names = ["x", "w", "b", "z"] if with_sum else ["x", "w", "b"]
    more = {"activation_params": numbers} if numbers else {}
    node = helper.make_node("FusedConv", names, ["y"], domain=MS, activation=kind, kernel_shape=[1, 1], **more)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(name, 1, v.shape) for name, v in inputs.items()],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    y = np.einsum("nchw,oc->nohw", x, w[..., 0, 0]) + b[:, None, None] + (z if with_sum else 0)
    check(helper.make_model(graph, opset_imports=opsets, ir_version=9), inputs, [of(y)], 1e-4)


def test_products_of_rows_with_an_activation():
    rng = np.random.default_rng(6)
    a, b, c = real(rng, 7, 12), real(rng, 9, 12), real(rng, 9)
    proto = model("FusedGemm", {"a": a}, {"b": b, "c": c}, transB=1, activation="LeakyRelu", activation_alpha=0.1)
    y = a @ b.T + c
    check(proto, {"a": a}, [np.where(y < 0, 0.1 * y, y)], 1e-4)


@given(SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_products_of_numbers_as_integers(seed, along, with_zero, with_bias):
    rng = np.random.default_rng(seed)
    m, k, n = (int(i) for i in rng.integers(1, 24, 3))
    a, b = real(rng, m, k), rng.integers(-100, 100, (k, n)).astype(np.int8)
    scale = rng.uniform(0.01, 0.1, n if along else ()).astype(np.float32)
    zero = rng.integers(-9, 9, n if along else ()).astype(np.int8) if with_zero else None
    bias = real(rng, n) if with_bias else None
    constants = {"b": b, "s": scale, "z": zero, "c": bias}
    while list(constants.values())[-1] is None:
        constants.popitem()
    proto = model("DynamicQuantizeMatMul", {"a": a}, constants)
    low, high = min(a.min(), 0), max(a.max(), 0)
    step = np.float32(high - low) / np.float32(255)
    at = np.clip(np.rint(-low / step), 0, 255)
    q = np.clip(np.rint(a / step) + at, 0, 255) - at
    y = q.astype(np.int64) @ (b.astype(np.int64) - (0 if zero is None else zero)) * (step * scale.astype(np.float64))
    check(proto, {"a": a}, [y + (0 if bias is None else bias)], 1e-3)


@given(SEEDS, st.booleans(), st.booleans())
def test_products_of_integers_as_numbers(seed, with_zeros, with_bias):
    rng = np.random.default_rng(seed)
    m, k, n = (int(i) for i in rng.integers(1, 24, 3))
    a, b = rng.integers(0, 256, (m, k)).astype(np.uint8), rng.integers(-100, 100, (k, n)).astype(np.int8)
    scales = np.float32(rng.uniform(0.01, 0.1)), rng.uniform(0.01, 0.1, n).astype(np.float32)
    zeros = (np.uint8(rng.integers(256)), rng.integers(-9, 9, n).astype(np.int8)) if with_zeros else (None, None)
    bias = real(rng, n) if with_bias else None
    constants = {"b": b, "as": np.array(scales[0]), "bs": scales[1],
                 "az": np.array(zeros[0]) if with_zeros else None, "bz": zeros[1], "c": bias}  # fmt: skip
    while list(constants.values())[-1] is None:
        constants.popitem()
    proto = model("MatMulIntegerToFloat", {"a": a}, constants)
    left = a.astype(np.int64) - (int(zeros[0]) if with_zeros else 0)
    y = left @ (b.astype(np.int64) - (zeros[1] if with_zeros else 0)) * (scales[0].astype(np.float64) * scales[1])
    check(proto, {"a": a}, [y + (0 if bias is None else bias)], 1e-3)


@given(SEEDS, st.sampled_from([4, 8]), st.sampled_from([16, 32]), st.booleans(), st.booleans())
def test_products_with_packed_integers(seed, bits, block, with_zeros, with_bias):
    rng = np.random.default_rng(seed)
    m, n, blocks = (int(i) for i in rng.integers(1, 9, 3))
    k = block * blocks - int(rng.integers(0, block))
    q = rng.integers(0, 1 << bits, (n, blocks, block)).astype(np.uint8)
    scale = rng.uniform(0.01, 0.1, (n, blocks)).astype(np.float32)
    zero = rng.integers(0, 1 << bits, (n, blocks)).astype(np.uint8) if with_zeros else None

    def packed(of):
        if bits == 8:
            return of
        of = np.pad(of, [(0, 0)] * (of.ndim - 1) + [(0, of.shape[-1] % 2)])
        return of[..., ::2] | of[..., 1::2] << 4

    x, bias = real(rng, m, k), real(rng, n) if with_bias else None
    constants = {"w": packed(q), "s": scale.reshape(-1), "z": None if zero is None else packed(zero).reshape(-1),
                 "g": None, "c": bias}  # fmt: skip
    while list(constants.values())[-1] is None:
        constants.popitem()
    proto = model("MatMulNBits", {"x": x}, constants, K=k, N=n, bits=bits, block_size=block)
    offset = 1 << (bits - 1) if zero is None else zero[..., None].astype(np.float64)
    w = ((q.astype(np.float64) - offset) * scale[..., None]).reshape(n, -1)[:, :k]
    truth = x @ w.T + (0 if bias is None else bias)
    (y,) = lk.onnx.load(proto).run({"x": x}).values()  # onnxruntime's kernels round x, or refuse some of these
    np.testing.assert_allclose(y, truth, atol=1e-3, rtol=1e-3)


def attended(q, k, v, heads, scale, bias):
    """[batch, steps, heads * size]"""
    q, k, v = (x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2).astype(np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ v
    return y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1), k, v


@given(SEEDS, st.sampled_from([0.0, 0.25]), st.booleans(), st.booleans(), st.booleans())
def test_attention_to_the_same_input(seed, scale, with_mask, causal, with_bias):
    rng = np.random.default_rng(seed)
    batch, steps, heads = (int(n) for n in rng.integers(1, 6, 3))
    size, inner = 4 * heads, int(rng.integers(1, 9))
    x, w, b = real(rng, batch, steps, inner), real(rng, inner, 3 * size), real(rng, 3 * size)
    inputs = {"x": x}
    arrays = {"x": x, "w": w, "b": b, "mask": None, "past": None, "bias": None}
    if with_mask:
        inputs["mask"] = arrays["mask"] = rng.integers(-1, 3, (batch, steps), np.int32)
    if with_bias:
        inputs["bias"] = arrays["bias"] = real(rng, batch, heads, steps, steps)
    more = {"scale": scale} if scale else {}
    names = [name if value is not None else "" for name, value in arrays.items()]
    node = helper.make_node("Attention", names, ["y"], domain=MS, num_heads=heads, unidirectional=int(causal), **more)
    of = [helper.make_tensor_value_info(name, 6 if name == "mask" else 1, v.shape) for name, v in inputs.items()]
    graph = helper.make_graph([node], "g", of, [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    added = np.zeros((1, 1, steps, steps))
    if with_mask:
        added = added + (inputs["mask"] <= 0)[:, None, None] * -10000.0
    if with_bias:
        added = added + inputs["bias"]
    if causal:
        added = added + np.where(np.tri(steps), 0, -1e30)
    q, k, v = np.split(x @ w + b, 3, -1)
    y, _, _ = attended(q, k, v, heads, scale, added)
    (ours,) = lk.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9)).run(inputs).values()
    np.testing.assert_allclose(ours, y, atol=1e-3, rtol=1e-3)


@given(SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_attention_of_three_inputs(seed, with_bias, with_mask, with_past):
    rng = np.random.default_rng(seed)
    batch, steps, keys, heads, past = (int(n) for n in rng.integers(1, 6, 5))
    past, size = past if with_past else 0, 4 * heads
    inputs = {"q": real(rng, batch, steps, size), "k": real(rng, batch, keys, size), "v": real(rng, batch, keys, size)}
    b = real(rng, 3 * size)
    arrays = {**inputs, "b": b if with_bias else None, "mask": None, "bias": None, "pk": None, "pv": None}
    if with_mask:
        mask = np.ones((batch, past + keys), np.int32)
        mask[:, 1:] = rng.integers(-1, 3, mask[:, 1:].shape)
        inputs["mask"] = arrays["mask"] = mask
    if with_past:
        for name in ("pk", "pv"):
            inputs[name] = arrays[name] = real(rng, batch, heads, past, 4)
    names = [name if value is not None else "" for name, value in arrays.items()]
    outputs = ["y", "nk", "nv"] if with_past else ["y"]
    node = helper.make_node("MultiHeadAttention", names, outputs, domain=MS, num_heads=heads)
    of = [helper.make_tensor_value_info(name, 6 if name == "mask" else 1, v.shape) for name, v in inputs.items()]
    graph = helper.make_graph([node], "g", of, [helper.make_tensor_value_info(y, 1, None) for y in outputs],
                              [numpy_helper.from_array(b, "b")])  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    q, k, v = (inputs[name] + (part if with_bias else 0) for name, part in zip("qkv", np.split(b, 3)))
    if with_past:
        k, v = (np.concatenate([inputs[name].swapaxes(1, 2).reshape(batch, past, size), part], 1)
                for name, part in (("pk", k), ("pv", v)))  # fmt: skip
    added = (inputs["mask"] <= 0)[:, None, None] * -10000.0 if with_mask else 0
    truths = attended(q, k, v, heads, 0, added)
    ours = lk.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9), threads=2).run(inputs)
    for y, truth in zip(ours.values(), truths):
        np.testing.assert_allclose(y, truth, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("op", "names", "outputs"),
    [
        ("SkipLayerNormalization", ["x", "x", "s"], ["y", "mean"]),
        ("Attention", ["x", "s", "s", "", "", "", "x"], ["y"]),
        ("MultiHeadAttention", ["x"], ["y"]),
        ("MultiHeadAttention", ["x", "x", "x"], ["y", "", "", "scores"]),
        ("FusedMatMul", ["s", "x"], ["y"]),
        ("FusedConv", ["x", "s"], ["y"]),
        ("MatMulNBits", ["x", "s", "s"], ["y"]),
    ],
)
def test_what_is_not_supported_says_so(op, names, outputs):
    a = {
        "FusedMatMul": {"transA": 1},
        "FusedConv": {"activation": "Sin"},
        "MatMulNBits": {"bits": 2, "K": 16, "N": 1, "block_size": 16},
    }
    node = helper.make_node(op, names, outputs, domain=MS, **a.get(op, {"num_heads": 1}))
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [1, 2, 3])],
                              [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(np.ones(3, np.float32), "s")])  # fmt: skip
    with pytest.raises(Unsupported):
        lk.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid(MS, 1)], ir_version=9))


def test_keys_of_four_axes_are_refused():
    """Those that are made in the graph, of as many steps as there are heads."""
    nodes = [
        helper.make_node("Reshape", ["x", "by_heads"], ["split"]),
        helper.make_node("MultiHeadAttention", ["x", "split", "split"], ["y"], domain=MS, num_heads=4),
    ]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 4, 32])],
                              [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(np.array([0, 0, 4, 8]), "by_heads")])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    with pytest.raises(ValueError, match="Transpose"):
        lk.onnx.load(helper.make_model(graph, opset_imports=opsets, ir_version=9)).run({"x": np.ones((1, 4, 32), "f4")})


@pytest.mark.parametrize("filter_value", [-np.inf, -1e4])
def test_keys_that_are_left_out_by_any_number(filter_value):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 5, 8)).astype(np.float32), rng.standard_normal((8, 24)).astype(np.float32)
    mask = np.array([[1, 1, 0, 1, 0], [1, 2, 1, -1, 1]], np.int32)
    node = helper.make_node("Attention", ["x", "w", "b", "mask"], ["y"], domain=MS, num_heads=2,
                            mask_filter_value=float(filter_value))  # fmt: skip
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", 1, x.shape), helper.make_tensor_value_info("mask", 6, mask.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.zeros(24, np.float32), "b")],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid(MS, 1)], ir_version=9)
    got = lk.onnx.load(proto).run({"x": x, "mask": mask})["y"]
    q, k, v = (part.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3) for part in np.split(x @ w, 3, -1))
    scores = np.where((mask <= 0)[:, None, None], -np.inf, q @ k.swapaxes(2, 3) / 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_numbers_of_inputs_are_checked():
    proto = model("FusedMatMul", {"x": np.ones((2, 2), np.float32)}, {})
    with pytest.raises(ValueError, match="expected 2 to 2 inputs"):
        lk.onnx.load(proto)
