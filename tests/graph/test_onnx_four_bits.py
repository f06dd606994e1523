"""Constants of 4 bits and scales of blocks, as models of onnx have them: against what DequantizeLinear says of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.runtime import by_onnxruntime

import layoutkit as lk
from layoutkit.graph.onnx import whole_proto
from layoutkit.graph.operators import Unsupported

onnx = pytest.importorskip("onnx", reason="the extra onnx")
ReferenceEvaluator = pytest.importorskip("onnx.reference", reason="the extra onnx").ReferenceEvaluator
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper
CODES = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
LIMITS = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128), "uint8": (0, 256)}
PLACES = "numbers", "bytes", "file", "external"


def packed(values):
    nibbles = (values.reshape(-1) & 15).astype(np.uint8)
    nibbles = np.append(nibbles, np.zeros(nibbles.size % 2, np.uint8)).reshape(-1, 2)
    return (nibbles[:, 0] | nibbles[:, 1] << 4).tobytes()


def tensor(name, dtype, values, place, folder):
    if place == "numbers" or not dtype.endswith("4"):
        return helper.make_tensor(name, CODES[dtype], values.shape, values.ravel().tolist())
    proto = TensorProto(name=name, dims=values.shape, data_type=CODES[dtype])
    if place != "external":
        proto.raw_data = packed(values)
        return proto
    (folder / f"{name}.bin").write_bytes(b"***" + packed(values))
    proto.data_location = TensorProto.EXTERNAL
    for key, value in (("location", f"{name}.bin"), ("offset", 3)):
        proto.external_data.add(key=key, value=str(value))
    return proto


def model(nodes, tensors, shape, opset=21):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("x", shape), ("y", None))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@given(
    dtype=st.sampled_from(sorted(CODES)), shape=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    large=st.booleans(), scaled=st.sampled_from(["one", "axis", "blocks"]), axis=st.integers(-3, 2),
    block=st.integers(1, 12), with_zeros=st.booleans(), place=st.sampled_from(PLACES), seed=st.integers(0, 99),
)  # fmt: skip
def test_they_stand_for_numbers(
    tmp_path_factory, dtype, shape, large, scaled, axis, block, with_zeros, place, seed
):  # fmt: skip
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("model")
    shape = (*shape[:-1], 91 * 99) if large and np.prod(shape) else tuple(shape)
    axis %= len(shape)
    w = rng.integers(*LIMITS[dtype], shape)
    n = shape[axis]
    of = {"one": (), "axis": (n,), "blocks": (*shape[:axis], -(-n // block), *shape[axis + 1 :])}[scaled]
    scale, zero = rng.uniform(0.01, 1, of).astype(np.float32), rng.integers(*LIMITS[dtype], of)
    tensors = [tensor("w", dtype, w, place, folder), numpy_helper.from_array(scale, "s")]
    if with_zeros:
        tensors.append(tensor("z", dtype, zero, place, folder))
    else:
        zero = np.zeros_like(zero)
    attributes = {"one": {}, "axis": {"axis": axis}, "blocks": {"axis": axis, "block_size": block}}[scaled]
    nodes = [helper.make_node("DequantizeLinear", [t.name for t in [tensors[0], tensors[1], *tensors[2:]]], ["m"],
                              **attributes), helper.make_node("Add", ["x", "m"], ["y"])]  # fmt: skip
    made = model(nodes, tensors, shape)
    if place in ("file", "external"):
        (folder / "model.onnx").write_bytes(made.SerializeToString())
        made = folder / "model.onnx"

    def along(values):
        if scaled == "blocks":
            return np.repeat(values, block, axis).take(range(n), axis)
        return values.reshape([-1 if i == axis and values.ndim else 1 for i in range(len(shape))])

    want = ((w - along(zero)) * along(scale)).astype(np.float32)
    for each in (made, whole_proto(made)):
        (got,) = lk.onnx.load(each, threads=1).run({"x": np.zeros(shape, np.float32)}).values()
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MatMul", "Gemm"])
@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_filters_of_4_bits_are_multiplied_as_integers(op, dtype):
    rng, rank = np.random.default_rng(0), 4 if op.startswith("Conv") else 2
    shape = (2, 8, 9, 7)[:rank]
    w, axis = rng.integers(*LIMITS[dtype], (8, 8, 3, 3)[:rank]), 0 if op == "Conv" else 1
    zero = np.full(8, 0 if dtype == "int4" else 8) + rng.integers(-2, 3, 8)
    tensors = [tensor("w", dtype, w, "bytes", None), tensor("z", dtype, zero, "bytes", None)]
    constants = {"ws": rng.uniform(0.01, 0.05, 8), "s": 1 / 120, "t": 0.05}
    tensors += [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()]
    tensors += [numpy_helper.from_array(np.array(v, np.uint8), k) for k, v in {"zero": 99, "middle": 128}.items()]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "z"], ["v"], axis=axis),
        helper.make_node(op, ["d", "v"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "t", "middle"], ["b"]),
        helper.make_node("DequantizeLinear", ["b", "t", "middle"], ["c"]),
        helper.make_node("Neg", ["c"], ["y"]),
    ]
    made, x = model(nodes, tensors, shape), rng.uniform(-1, 1, shape).astype(np.float32)
    network = lk.onnx.load(made, threads=1)
    (got,) = network.run({"x": x}).values()
    (program,) = network._programs.values()
    (node,) = (node for node in program.plan.graph.nodes if node.op == op)
    assert "integers" in node.attributes and program.known[node.outputs[0]].stored is not None
    for want in (*ReferenceEvaluator(made).run(None, {"x": x}), *(by_onnxruntime(made, {"x": x}) or ())):
        apart = np.abs(got - want) / np.float32(0.05)
        assert want.max() > want.min()
        assert np.count_nonzero(apart > 0.5) <= 0.005 * apart.size and apart.max() < 1.01


@pytest.mark.parametrize("reader", ["QuantizeLinear", "Identity", "output", "body", "attribute"])
def test_nothing_else_reads_them(reader):
    w = tensor("w", "uint4", np.arange(6).reshape(2, 3), "bytes", None)
    s = numpy_helper.from_array(np.float32(1), "s")
    nodes, tensors = [helper.make_node("Neg", ["x"], ["y"])], [w, s]
    if reader == "QuantizeLinear":
        nodes = [helper.make_node(reader, ["x", "s", "w"], ["y"])]
    elif reader == "Identity":
        nodes += [helper.make_node(reader, ["w"], ["z"])]
    elif reader == "body":
        out = [helper.make_tensor_value_info("m", TensorProto.FLOAT, None)]
        body = helper.make_graph([helper.make_node("DequantizeLinear", ["w", "s"], ["m"])], "body", [], out)
        tensors += [numpy_helper.from_array(np.array(True), "c")]
        nodes = [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    elif reader == "attribute":
        nodes += [helper.make_node("Constant", [], ["z"], value=w)]
    made = model(nodes, tensors, (2, 3))
    if reader == "output":
        made.graph.output.add().CopyFrom(helper.make_tensor_value_info("w", TensorProto.UINT4, (2, 3)))
    with pytest.raises(Unsupported, match=r"4 bits|UINT4"):
        lk.onnx.load(made)


@pytest.mark.parametrize("place, dims", [("bytes", (5, 3)), ("bytes", (-1, 3)), ("external", (5, 3)),
                                         ("bytes", (1 << 40, 1 << 40))])  # fmt: skip
def test_too_few_of_them(tmp_path, place, dims):
    w = tensor("w", "int4", np.arange(6).reshape(2, 3), place, tmp_path)
    del w.dims[:]
    w.dims.extend(dims)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"])]
    made = model(nodes, [w, numpy_helper.from_array(np.float32(1), "s")], (2, 3))
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(ValueError, match="'w'"):
        lk.onnx.load(tmp_path / "m.onnx")


@pytest.mark.parametrize("scales, block, message", [((2, 3), 2, "expected"), ((1, 3), -2, "blocks of -2"),
                                                    ((4, 3), 1 << 50, r"expected \(1, 3\)")])  # fmt: skip
def test_blocks_that_do_not_fit(scales, block, message):
    w, s = np.zeros((6, 3), np.int8), np.ones(scales, np.float32)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["m"], axis=0, block_size=block),
             helper.make_node("Add", ["x", "m"], ["y"])]  # fmt: skip
    made = model(nodes, [numpy_helper.from_array(w, "w"), numpy_helper.from_array(s, "s")], (6, 3))
    with pytest.raises(ValueError, match=message):
        lk.onnx.load(made).run({"x": np.zeros((6, 3), np.float32)})


def test_one_block_of_any_size():
    w, s = np.ones((6, 3), np.int8), np.full((1, 3), 2, np.float32)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["m"], axis=0, block_size=1 << 50),
             helper.make_node("Add", ["x", "m"], ["y"])]  # fmt: skip
    made = model(nodes, [numpy_helper.from_array(w, "w"), numpy_helper.from_array(s, "s")], (6, 3))
    (got,) = lk.onnx.load(made).run({"x": np.zeros((6, 3), np.float32)}).values()
    np.testing.assert_array_equal(got, np.full((6, 3), 2))
