"""`lk.quantize`: against runs in float64 of the graph that it writes, and against onnxruntime."""

import numpy as np
import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate
from oracle.runtime import saturates

import layoutkit as lk

onnx = pytest.importorskip("onnx", reason="the extra onnx")

from onnx_networks import Network  # noqa: E402

from layoutkit.graph.ir import Graph, TensorType  # noqa: E402
from layoutkit.graph.onnx import graph_of  # noqa: E402
from layoutkit.graph.quantize.preparing import prepared  # noqa: E402


def residual(seed=0, opset=17, batch="N"):
    """Convolutions, a depthwise one, a residual, a concatenation, poolings, a product."""
    n = Network(seed, opset, x=(batch, 3, 12, 12))
    a = n.add("Conv", "x", n.filter(16, 3, 3, 3), n.uniform(16), pads=[1] * 4, name="stem")
    a = n.add("MaxPool", n.add("Relu", n.norm(a, 16)), kernel_shape=[2, 2], strides=[2, 2])
    b = n.add("Relu", n.add("Conv", a, n.filter(16, 16, 3, 3), pads=[1] * 4))
    c = n.add("Conv", b, n.filter(16, 1, 3, 3), pads=[1] * 4, group=16)
    d = n.add("Relu", n.add("Add", c, a))
    e = n.add("Conv", n.add("Concat", d, b, axis=1), n.filter(32, 32, 1, 1), n.uniform(32))
    f = n.add("Flatten", n.add("GlobalAveragePool", n.add("LeakyRelu", e)))
    g = n.add("Gemm", f, n.filter(10, 32), n.uniform(10), transB=1, alpha=1.5, beta=0.5)
    return n.model(g)


def drawn(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 3, 12, 12)).astype(np.float32)


def in_float64(model, inputs):
    """Every node of a model by its operator's own function, all real numbers in float64."""
    graph = graph_of(model)
    constants = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in graph.constants.items()}
    types = {name: TensorType(np.dtype(np.float64), of.shape) for name, of in graph.inputs.items()}
    wide = Graph(graph.nodes, types, graph.outputs, constants)
    return evaluate(wide, {name: x.astype(np.float64) for name, x in inputs.items()})


def apart(found, wanted):
    return max(float(np.abs(found[k] - wanted[k]).max() / np.abs(wanted[k]).max()) for k in wanted)


def test_a_network_of_all_that_stays_integer():
    model, x = residual(), drawn(20)
    q = lk.quantize(model, x, tolerance=np.inf, threads=2)
    onnx.checker.check_model(q.model)
    assert [layer.dtype for layer in q.layers] == ["int8"] * 5 and q.layers[0].name == "stem"
    runner = lk.onnx.load(q.model, threads=2)
    found, real = runner.run(x), lk.onnx.load(model, threads=2).run(x)
    assert apart(found, in_float64(q.model, {"x": x})) < 0.01
    assert 0 < apart(found, real) < 0.1
    assert q.error == pytest.approx(apart(found, real), rel=0.01)
    (program,) = runner._programs.values()
    assert sum(of.stored is not None for of in program.known.values()) == 10, "what is an integer"
    assert "BatchNormalization" not in {node.op_type for node in q.model.graph.node}


def test_other_runtimes_run_it(tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="the extra compare")
    x = drawn(9)
    for method in ("min-max", "percentile", "entropy"):
        q = lk.quantize(residual(), {"x": x}, method=method, tolerance=np.inf, threads=1)
        q.save(tmp_path / "q.onnx")
        session = runtime.InferenceSession(tmp_path / "q.onnx", providers=["CPUExecutionProvider"])
        (theirs,) = session.run(None, {"x": x})
        (ours,) = lk.onnx.load(tmp_path / "q.onnx", threads=1).run(x).values()
        most = 0.1 if saturates() else 0.02  # ours are held to float64 above; here, that others load what is written
        assert np.abs(ours - theirs).max() < most * np.abs(theirs).max(), method


def test_tolerance_decides_what_stays():
    model, x = residual(), drawn(8)
    real = lk.onnx.load(model, threads=1).run(x)
    counts = []
    for tolerance in (0, 2e-3, 0.01, 0.5):
        q = lk.quantize(model, x, tolerance=tolerance, threads=1)
        error = apart(lk.onnx.load(q.model, threads=1).run(x), real)
        assert error <= 1.01 * tolerance + 1e-6 and q.error <= tolerance
        counts.append(sum(layer.dtype == "int8" for layer in q.layers))
    assert counts == sorted(counts) and counts[0] == 0 and counts[1] < 5 and counts[-1] == 5


def test_layers_with_the_largest_error_stay():
    q = lk.quantize(residual(), drawn(8), tolerance=0.004, threads=1)
    wide = [layer.error for layer in q.layers if layer.dtype == "float32"]
    assert wide and min(wide) >= max(layer.error for layer in q.layers if layer.dtype == "int8")
    assert "Gemm" in str(q) and f"{len(q.layers) - len(wide)} of 5 layers multiply int8" in repr(q)


def attention(seed=0):
    """Two heads of 8 steps, and the rest of a layer."""
    n = Network(seed, x=("N", 8, 12))
    shape, order = n.constant([0, 8, 2, 6], np.int64), [0, 2, 1, 3]
    q, k, v = (n.add("MatMul", "x", n.filter(12, 12)) for _ in range(3))
    q, k, v = (n.add("Transpose", n.add("Reshape", t, shape), perm=order) for t in (q, k, v))
    scores = n.add("MatMul", q, n.add("Transpose", k, perm=[0, 1, 3, 2]), name="scores")
    weights = n.add("Softmax", n.add("Mul", scores, n.constant(np.float32(6**-0.5))), axis=-1)
    values = n.add("Transpose", n.add("MatMul", weights, v, name="values"), perm=order)
    rows = n.add("Reshape", values, n.constant([0, 8, 12], np.int64))
    return n.model(n.add("Add", n.add("MatMul", rows, n.filter(12, 12)), "x"))


def test_products_of_two_tensors():
    model, x = attention(), np.random.default_rng(1).standard_normal((6, 8, 12)).astype(np.float32)
    q = lk.quantize(model, x, tolerance=np.inf, threads=1)
    onnx.checker.check_model(q.model)
    assert [layer.dtype for layer in q.layers] == ["int8"] * 6 and {"scores", "values"} <= {x.name for x in q.layers}
    makers = {name: node for node in q.model.graph.node for name in node.output}
    products = [node for node in q.model.graph.node if node.name in ("scores", "values")]
    softmax = next(node for node in q.model.graph.node if node.op_type == "Softmax")
    assert [makers[name].op_type for node in (*products, softmax) for name in node.input] == ["DequantizeLinear"] * 5
    runner = lk.onnx.load(q.model, threads=1)
    found, real = runner.run(x), lk.onnx.load(model, threads=1).run(x)
    assert apart(found, in_float64(q.model, {"x": x})) < 0.02
    assert 0 < apart(found, real) < 0.1 and q.error == pytest.approx(apart(found, real), rel=0.01)
    (program,) = runner._programs.values()
    steps = [step.op for step in program.steps]
    assert "DequantizeLinear" not in steps and steps.count("QuantizeLinear") <= 1, "integers stay integers"


@pytest.mark.parametrize("function", ["gelu", "silu", "tanh"])
def test_costly_functions_are_tables(function):
    n = Network(4, x=("N", 4, 9, 7))
    a = n.add("Conv", "x", n.filter(8, 4, 3, 3), n.uniform(8))
    if function == "gelu":  # as exporters write it
        erf = n.add("Erf", n.add("Div", a, n.constant(np.sqrt(2))))
        b = n.add("Mul", n.add("Mul", a, n.add("Add", erf, n.constant(1))), n.constant([0.5]))
    else:
        b = n.add("Mul", a, n.add("Sigmoid", a)) if function == "silu" else n.add("Tanh", a)
    model = n.model(n.add("Conv", b, n.filter(5, 8, 1, 1)))
    x = n.rng.standard_normal((2, 4, 9, 7)).astype(np.float32)
    q = lk.quantize(model, x, tolerance=np.inf, threads=1)
    makers = {name: node for node in q.model.graph.node for name in node.output}
    conv = next(node for node in q.model.graph.node if node.op_type == "Conv" and node.output[0] != a)
    assert makers[conv.input[0]].op_type == "DequantizeLinear"
    readers = [node for node in q.model.graph.node if a in node.input]
    assert [node.op_type for node in readers] == ["QuantizeLinear"]
    runner = lk.onnx.load(q.model, threads=1)
    found = runner.run(x)
    assert apart(found, in_float64(q.model, {"x": x})) < 0.02
    assert apart(found, lk.onnx.load(model, threads=1).run(x)) < 0.05
    (program,) = runner._programs.values()
    assert "Table" in [step.op for step in program.steps]


def test_functions_that_are_no_tables():
    """What has a number for each channel, or is cheap, is computed as sums leave the registers."""
    for scaled in (True, False):
        n = Network(4, x=("N", 4, 9, 7))
        a = n.add("Conv", "x", n.filter(8, 4, 3, 3))
        b = n.add("Tanh", n.add("Mul", a, n.uniform(8, 1, 1))) if scaled else n.add("Relu", a)
        c = n.add("Mul", b, n.uniform(8, 1, 1)) if scaled else b
        model = n.model(n.add("Conv", c, n.filter(5, 8, 1, 1)))
        q = lk.quantize(model, n.rng.standard_normal((2, 4, 9, 7)).astype(np.float32), tolerance=np.inf, threads=1)
        assert "QuantizeLinear" not in [node.op_type for node in q.model.graph.node if a in node.input]


def test_a_product_of_integers_stays():
    n = Network(0, x=("N", 4))
    indices = n.add("Cast", "x", to=onnx.TensorProto.INT64)
    y = n.add("MatMul", indices, n.add("Transpose", indices))
    model, x = n.model(n.add("Cast", y, to=onnx.TensorProto.FLOAT)), np.ones((3, 4), np.float32)
    q = lk.quantize(model, [x], tolerance=np.inf, threads=1)
    assert [layer.dtype for layer in q.layers] == ["float32"]
    (found,) = lk.onnx.load(q.model, threads=1).run(x).values()
    assert np.array_equal(found, np.full((3, 3), 4))


@given(st.data())
@fewer(2)
def test_random_networks(data):
    n = Network(data.draw(st.integers(0, 1 << 20)), x=("N", 4, 5, 6))
    tensors = [("x", 4)]
    for _ in range(data.draw(st.integers(1, 5))):
        x, channels = data.draw(st.sampled_from(tensors[-3:]))
        op = data.draw(
            st.sampled_from(["conv", "conv", "depthwise", "transposed", "add", "concat", "pool", "sigmoid", "scaled"])
        )
        out = channels
        if op == "conv":
            out = data.draw(st.sampled_from([1, 4, 17]))
            w = n.filter(out, channels, 3, 3)
            n.constants[w][:: data.draw(st.sampled_from([2, 9]))] *= data.draw(st.sampled_from([0, 1e-30, 1, 1e3]))
            y = n.add("Conv", x, w, *[n.uniform(out)] * data.draw(st.booleans()), pads=[1] * 4)
            y = n.norm(y, out) if data.draw(st.booleans()) else y
        elif op == "depthwise":
            y = n.add("Conv", x, n.filter(channels, 1, 3, 3), pads=[1] * 4, group=channels)
        elif op == "transposed":
            groups = data.draw(st.sampled_from([1, channels]))
            out = data.draw(st.sampled_from([1, 3, 17])) if groups == 1 else channels
            w = n.filter(channels, out // groups, 3, 3)
            y = n.add("ConvTranspose", x, w, *[n.uniform(out)] * data.draw(st.booleans()), pads=[1] * 4, group=groups)
        elif op == "add":
            y = n.add("Add", x, data.draw(st.sampled_from([t for t, c in tensors if c == channels])))
        elif op == "concat":
            other, more = data.draw(st.sampled_from(tensors))
            y, out = n.add("Concat", x, other, axis=1), channels + more
        elif op == "pool":
            pool = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
            y = n.add(pool, x, kernel_shape=[3, 3], pads=[1] * 4)
        elif op == "scaled":
            y = n.add("Mul", x, n.uniform(channels, 1, 1))
        else:
            y = n.add("Mul", x, n.add("Sigmoid", x))
        y = n.add("Relu", y) if data.draw(st.booleans()) else y
        tensors.append((y, out))
    y, channels = tensors[-1]
    f = n.add("Flatten", n.add("GlobalAveragePool", y))
    if data.draw(st.booleans()):
        z = n.add("MatMul", f, n.filter(channels, 7))
    else:
        z = n.add("Gemm", f, n.filter(channels, 7), n.uniform(7))
    model, x = n.model(z, y), n.rng.uniform(-1, 2, (3, 4, 5, 6)).astype(np.float32)
    method = data.draw(st.sampled_from(["min-max", "percentile", "entropy"]))
    q = lk.quantize(model, x, method=method, tolerance=np.inf, threads=1)
    onnx.checker.check_model(q.model)
    found, want = lk.onnx.load(q.model, threads=2).run(x), in_float64(q.model, {"x": x})
    for name in want:  # where a rounding goes the other way, what follows differs by a quantum times its weights
        assert np.mean(np.abs(found[name] - want[name])) <= 0.01 * np.abs(want[name]).max() + 1e-6, name


def test_norms_become_part_of_convolutions():
    n = Network(3, x=(1, 4, 5, 5))
    a = n.norm(n.add("Conv", "x", n.filter(6, 4, 3, 3)), 6)
    b = n.add("Conv", a, n.filter(5, 6, 1, 1), n.uniform(5))
    c = n.norm(b, 5)  # b is read twice: this one stays
    model = n.model(n.add("Add", b, c))
    folded = prepared(model)
    assert [node.op_type for node in folded.graph.node].count("BatchNormalization") == 1
    x = n.rng.standard_normal((1, 4, 5, 5)).astype(np.float32)
    assert apart(lk.onnx.load(folded, threads=1).run(x), lk.onnx.load(model, threads=1).run(x)) < 1e-5
    assert len(folded.graph.initializer) == 8, "what nothing reads is gone"


def test_older_opsets_are_converted(tmp_path):
    model = residual(opset=11)
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="data", size_threshold=0)
    q = lk.quantize(tmp_path / "m.onnx", drawn(3), tolerance=np.inf, threads=1)
    onnx.checker.check_model(q.model)
    assert q.model.opset_import[0].version == 13 and q.error < 0.1


def test_results_and_graphs_inside_read_what_is_not_rounded():
    n = Network(5, x=(2, 4, 16, 16))
    a = n.add("Relu", n.add("Conv", "x", n.filter(4, 4, 1, 1)))
    n.add("Conv", a, n.filter(4, 4, 1, 1))
    h = onnx.helper
    inner = [h.make_graph([h.make_node("Neg", [a], [f"i{i}"])], f"b{i}", [],
                          [h.make_tensor_value_info(f"i{i}", 1, None)]) for i in range(2)]  # fmt: skip
    total = n.add("ReduceSum", n.nodes[-1].output[0], keepdims=0)
    positive = n.add("Greater", total, n.constant(0.0))
    b = n.add("If", positive, then_branch=inner[0], else_branch=inner[1])
    model, x = n.model(a, b), n.rng.standard_normal((2, 4, 16, 16)).astype(np.float32)
    q = lk.quantize(model, x, tolerance=np.inf, threads=1)
    found = lk.onnx.load(q.model, threads=1).run(x)
    assert np.array_equal(found[a], -found[b]) and len(np.unique(found[a])) > 256


def test_layers_whose_input_is_not_finite_stay():
    n = Network(6, x=(1, 4, 5, 5))
    a = n.add("Conv", n.add("Log", n.add("Relu", "x")), n.filter(4, 4, 1, 1))
    y = n.add("Conv", n.add("Clip", a, n.constant(-1), n.constant(1)), n.filter(4, 4, 1, 1))
    x = n.rng.uniform(-1, 1, (1, 4, 5, 5)).astype(np.float32)
    q = lk.quantize(n.model(y), x, tolerance=0.5, threads=1)
    assert q.layers[0].dtype == "float32" and q.layers[0].error == np.inf


def wrong(**changes):
    return {"model": residual(), "samples": drawn(2), **changes}


def without_layers():
    n = Network(0, x=("N", 3, 12, 12))
    return n.model(n.add("Relu", "x"))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda: wrong(samples={"z": drawn(1)}), ValueError, "'z' is no input; 'x' is missing; the inputs are x"),
        (lambda: wrong(samples=[drawn(1), {"x": drawn(1)[0]}]), ValueError, r"samples\[1\]: input 'x': expected shape"),
        (lambda: wrong(samples=drawn(1)[:, :2]), ValueError, r"expected shape \(N, 3, 12, 12\), got \(1, 2, 12, 12\)"),
        (lambda: wrong(samples=drawn(1).astype(np.float64)), TypeError, "expected dtype float32, got float64"),
        (lambda: wrong(samples=drawn(1) * np.nan), ValueError, "expected finite numbers, got NaN or infinity"),
        (lambda: wrong(samples=drawn(0)), ValueError, "has no elements"),
        (lambda: wrong(samples=[]), ValueError, "there are none"),
        (lambda: wrong(samples=iter([drawn(1)])), TypeError, "expected a dict of arrays by input"),
        (lambda: wrong(samples=[3]), TypeError, "expected a dict of arrays by input, got int"),
        (lambda: wrong(model=residual(batch=2), samples=drawn(3)), ValueError, "not of the same whole number of runs"),
        (lambda: wrong(model=without_layers()), ValueError, "no convolution or product"),
        (lambda: wrong(model=3), TypeError, "expected a path, bytes or a ModelProto, got int"),
        (lambda: wrong(model=b"nothing"), ValueError, "this is no ONNX model"),
        (lambda: wrong(model=lk.quantize(**wrong()).model), ValueError, "got one that is quantised"),
        (lambda: wrong(method="minmax"), ValueError, "did you mean 'min-max'"),
        (lambda: wrong(percentile=0), ValueError, "percentile: expected a number above 0, up to 100, got 0"),
        (lambda: wrong(tolerance=-1), ValueError, "tolerance: expected a number from 0 on, got -1"),
        (lambda: wrong(tolerance=np.nan), ValueError, "tolerance: expected a number from 0 on, got nan"),
        (lambda: wrong(tolerance="1"), TypeError, "tolerance: expected a number from 0 on, got '1'"),
    ],
)
def test_errors_say_what_was_expected(given, error, message):
    with pytest.raises(error, match=message):
        lk.quantize(**given())


def test_batches_of_models():
    x = drawn(6)
    for batch, samples in ((2, x), (6, x), ("N", [x[:1], {"x": x}]), (3, [x[:3]])):
        assert lk.quantize(residual(batch=batch), samples, threads=1).error < 0.1
