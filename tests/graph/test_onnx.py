"""Models that are refused, and what is said of them."""

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.graph.operators import Unsupported

onnx = pytest.importorskip("onnx", reason="the extra onnx")
helper, F32, I64 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model(nodes, shape=(1, 3, 8, 8), constants=(), outputs=("y",), opset=21):
    inputs = [helper.make_tensor_value_info("x", F32, shape)]
    wanted = [helper.make_tensor_value_info(name, F32, None) for name in outputs]
    tensors = [
        onnx.numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in dict(constants).items()
    ]
    graph = helper.make_graph(nodes, "g", inputs, wanted, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def external(name, dims, location, **more):
    tensor = onnx.TensorProto(name=name, dims=dims, data_type=F32, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_unsupported_operators_are_all_named():
    nodes = [helper.make_node("Foo", ["x"], ["a"]), helper.make_node("Bar", ["a"], ["b"], domain="com.me"),
             helper.make_node("OptionalHasElement", [], ["y"])]  # fmt: skip
    with pytest.raises(Unsupported, match=r"Foo, OptionalHasElement, com\.me\.Bar"):
        lk.onnx.load(model(nodes))


@pytest.mark.parametrize("data", [b"", b"no model", b"\x08" * 100])
def test_what_is_no_model(data, tmp_path):
    (tmp_path / "m.onnx").write_bytes(data)
    for given in (data, tmp_path / "m.onnx", str(tmp_path / "m.onnx")):
        with pytest.raises(ValueError, match="no ONNX model"):
            lk.onnx.load(given)


def test_models_cut_off_anywhere_are_refused_or_run():
    w = np.ones((4, 3, 3, 3), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4), helper.make_node("Relu", ["a"], ["y"])]
    whole = model(nodes, constants={"w": w}).SerializeToString()
    for n in range(len(whole)):
        try:
            lk.onnx.load(whole[:n], threads=1).run(np.ones((1, 3, 8, 8), np.float32))
        except (ValueError, TypeError, KeyError) as error:
            assert str(error)


def test_paths_and_types():
    with pytest.raises(FileNotFoundError):
        lk.onnx.load("/nowhere/m.onnx")
    with pytest.raises(TypeError, match="expected a path, bytes or a ModelProto, got int"):
        lk.onnx.load(3)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../secret", "link", ""])
def test_external_data_outside_of_the_folder(tmp_path, location):
    (tmp_path / "secret").write_bytes(bytes(64))
    folder = tmp_path / "model"
    (folder / "a").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "secret")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    onnx.save(model([node], (4,), {"w": external("w", [4], location)}), str(folder / "m.onnx"))
    with pytest.raises(ValueError, match="outside of the model's folder"):
        lk.onnx.load(folder / "m.onnx")


@pytest.mark.parametrize("location", ["n" * 5000, "a/" * 3000 + "x", "a\0b", "circle", "circle/x"])
def test_external_data_under_names_that_no_file_has(tmp_path, location):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    (tmp_path / "m.onnx").write_bytes(model([node], (4,), {"w": external("w", [4], location)}).SerializeToString())
    with pytest.raises(ValueError, match="'w'") as told:
        lk.onnx.load(tmp_path / "m.onnx")
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("offset", ["abc", "1e3", "-4", "9" * 30, "\u0663", ""])
def test_external_data_from_no_offset(tmp_path, offset):
    (tmp_path / "data").write_bytes(bytes(64))
    node = helper.make_node("Add", ["x", "w"], ["y"])
    proto = model([node], (4,), {"w": external("w", [4], "data", offset=offset)})
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ValueError, match="'w'"):
        lk.onnx.load(tmp_path / "m.onnx")


def test_external_data(tmp_path):
    values = np.arange(6, dtype=np.float32)
    (tmp_path / "data").write_bytes(values.tobytes())
    node = helper.make_node("Add", ["x", "w"], ["y"])
    onnx.save(model([node], (4,), {"w": external("w", [4], "data", offset=8)}), str(tmp_path / "m.onnx"))
    (y,) = lk.onnx.load(tmp_path / "m.onnx").run(np.zeros(4, np.float32)).values()
    np.testing.assert_array_equal(y, values[2:])
    for more in ({"offset": 12}, {"offset": -4}, {"offset": 1 << 60}):
        onnx.save(model([node], (4,), {"w": external("w", [4], "data", **more)}), str(tmp_path / "m.onnx"))
        with pytest.raises(ValueError, match="has no 16 bytes from"):
            lk.onnx.load(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="outside of the model's folder"):  # a model of bytes has no folder
        lk.onnx.load(model([node], (4,), {"w": external("w", [4], "data")}))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"]),
          helper.make_node("Abs", ["b"], ["y"])], "from its own result"),
        ([helper.make_node("Neg", ["nothing"], ["y"])], "made by no operator"),
        ([helper.make_node("Neg", ["x"], ["z"])], "output 'y' is made by no operator"),
    ],
)  # fmt: skip
def test_graphs_that_contradict_themselves(nodes, message):
    with pytest.raises(ValueError, match=message):
        lk.onnx.load(model(nodes))


@pytest.mark.parametrize(
    ("node", "constants", "message"),
    [
        (helper.make_node("Conv", ["x", "w"], ["y"]), {"w": np.ones((4, 5, 3, 3), np.float32)}, "3 channels"),
        (helper.make_node("Conv", ["x", "w"], ["y"]), {"w": np.ones((4, 3, 9, 9), np.float32)}, "does not fit"),
        (helper.make_node("Reshape", ["x", "s"], ["y"]), {"s": np.array([7, -1])}, "does not become"),
        (helper.make_node("Concat", ["x", "x"], ["y"], axis=9), {}, "axis 9"),
        (helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0, 1, 2]), {}, "axes|axis"),
        (helper.make_node("Tile", ["x", "s"], ["y"]), {"s": np.array([1 << 20, 1 << 20, 1, 1])}, "too large"),
        (helper.make_node("Pad", ["x", "s"], ["y"]), {"s": np.array([0, 0, 0, 0, 0, 0, 0, 1 << 40])}, "too large"),
        (helper.make_node("Pad", ["x", "s", "v"], ["y"]), {"s": np.arange(8), "v": np.ones(0, "f4")}, "one number"),
        (helper.make_node("Expand", ["x", "s"], ["y"]), {"s": np.array([1 << 30, 3, 8, 8])}, "too large"),
        (helper.make_node("ConstantOfShape", ["s"], ["y"]), {"s": np.array([1 << 40])}, "too large"),
        (helper.make_node("Split", ["x", "s"], ["y", "z"], axis=1), {"s": np.array([2, 2])}, "parts"),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[0, 0]), {}, "kernel"),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[0, 1]), {}, "stride"),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[0, 1]), {}, "dilation"),
        (helper.make_node("MaxPool", ["x"], ["y"]), {}, "kernel_shape"),
        (helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="SAME"), {}, "auto_pad 'SAME'"),
        (helper.make_node("Where", ["x"], ["y"], name="w"), {}, "Where w: .* input size 1 not in range"),
        (helper.make_node("Where", ["x", "", "x"], ["y"]), {}, "Where y: .* input 1"),
        (helper.make_node("Cast", ["x"], ["y"]), {}, "Cast y: .*'to' is missing"),
        (helper.make_node("Cast", ["x"], ["y"], to="float"), {}, "Cast y: .*'INT', actual: 'STRING'"),
        (helper.make_node("Cast", ["x"], ["y"], to=8), {}, "STRING"),
        (helper.make_node("LRN", ["x"], ["y"], alpha=1.0), {}, "LRN y: .*'size' is missing"),
        (helper.make_node("Relu", ["x"], ["y"], slope=1.0), {}, "Relu y: .*slope"),
        (helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], p=0), {}, "LpPool y .* p 0"),
        (helper.make_node("Flatten", ["x"], ["y"], axis=9), {}, "Flatten y .* axis 9 of a tensor with 4 axes"),
        (helper.make_node("Flatten", ["x"], ["y"], axis=-5), {}, "axis -5"),
        (helper.make_node("Gather", ["x", "i"], ["y"], axis=1), {"i": np.array([1, 3])}, "Gather y .* index 3"),
        (helper.make_node("Gather", ["x", "i"], ["y"], axis=1), {"i": np.array([-4])}, "Gather y .* index -4"),
        (helper.make_node("Resize", ["x", "", "s"], ["y"]), {"s": np.array([1, 1, np.inf, 1], np.float32)}, "finite"),
        (helper.make_node("Resize", ["x", "", "s"], ["y"]), {"s": np.array([1, 1, -1, 1], np.float32)}, "positive"),
        (helper.make_node("Resize", ["x", "", "", "s"], ["y"]), {"s": np.array([1, 3])}, "4 of them"),
        (
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"]),
            {"s": np.ones(3, np.float32), "z": np.zeros(0, np.int8)},
            "QuantizeLinear y .* expected 3 numbers",
        ),
    ],
)
def test_operators_that_do_not_fit(node, constants, message):
    with pytest.raises(ValueError, match=message):
        lk.onnx.load(model([node], constants=constants)).run(np.zeros((1, 3, 8, 8), np.float32))


@pytest.mark.parametrize("dims", [[-1], [1 << 40], [1 << 31, 1 << 31]])
def test_tensors_of_impossible_sizes(dims):
    tensor = onnx.TensorProto(name="w", dims=dims, data_type=F32, raw_data=bytes(16))
    with pytest.raises(ValueError, match="impossible or too large"):
        lk.onnx.load(model([helper.make_node("Add", ["x", "w"], ["y"])], constants={"w": tensor}))


def test_tensors_with_fewer_numbers_than_their_shape_has():
    tensor = onnx.TensorProto(name="w", dims=[100], data_type=F32, raw_data=bytes(16))
    with pytest.raises(ValueError, match="'w'"):
        lk.onnx.load(model([helper.make_node("Add", ["x", "w"], ["y"])], constants={"w": tensor}))


def test_a_branch_without_results_is_an_error_in_words():
    inner = helper.make_graph([], "inner", [], [])
    node = helper.make_node("If", ["on"], ["y"], then_branch=inner, else_branch=inner)
    on = onnx.numpy_helper.from_array(np.array(True), "on")
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], [on])
    with pytest.raises(ValueError, match="If y"):
        lk.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])).run({})


def test_softmax_of_old_models_takes_all_axes_from_its_own_on():
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    for opset, axes in ((11, (1, 2)), (13, (1,))):
        m = lk.onnx.load(model([helper.make_node("Softmax", ["x"], ["y"], axis=1)], x.shape, opset=opset))
        e = np.exp(x - x.max(axes, keepdims=True))
        np.testing.assert_allclose(m.run(x)["y"], e / e.sum(axes, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("given, low, high", [({"max": 1.0}, None, 1), ({"min": -1.0}, -1, None)])
def test_limits_of_old_clips_that_are_not_given_are_the_ends_of_float32(given, low, high):
    node = helper.make_node("Clip", ["x"], ["y"], **given)
    x = np.array([-np.inf, -3, 0.5, 3, np.inf], np.float32).reshape(1, 5, 1, 1)
    y = lk.onnx.load(model([node], x.shape, opset=6)).run(x)["y"]
    ends = np.finfo(np.float32)
    np.testing.assert_array_equal(y, np.clip(x, ends.min if low is None else low, ends.max if high is None else high))
