"""Branches, loops and scans, as exporters write them."""

import pickle

import numpy as np
import pytest

import layoutkit as lk
from layoutkit.graph.operators import control

onnx = pytest.importorskip("onnx", reason="the extra onnx")
helper, F, I, B = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def info(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def loaded(nodes, inputs, outputs, constants=(), **options):
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", inputs, [info(name) for name in outputs], tensors)
    return lk.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), threads=1, **options)


W = np.random.default_rng(0).uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32)
X = np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)
CONV = dict(pads=[1, 1, 1, 1])


def branches(other="Relu"):
    """A convolution in one branch, a convolution and more in the other, of a tensor around both."""
    then = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["a"], **CONV)], "then", [], [info("a")])
    nodes = [helper.make_node("Conv", ["x", "w"], ["b"], **CONV), helper.make_node(other, ["b"], ["c"])]
    return dict(then_branch=then, else_branch=helper.make_graph(nodes, "else", [], [info("c")]))


def test_a_known_condition_leaves_one_branch():
    convolved = lk.conv2d(X, W, padding=1)
    for value, want in ((True, convolved), (False, np.maximum(convolved, 0))):
        node = helper.make_node("If", ["on"], ["y"], **branches())
        model = loaded([node], [info("x", shape=[1, 3, "h", "w"])], ["y"], {"w": W, "on": value})
        np.testing.assert_allclose(model.run(X)["y"], want, 1e-4, 1e-5)
        assert {op for op, _, _ in model.profile(X, 1) if op != "reorder"} == {"Conv"}  # with what is fused into it
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).run(X)["y"], model.run(X)["y"])


def test_a_condition_of_shapes_and_one_of_data():
    """Results of different shapes in the branches."""
    nodes = [helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
             helper.make_node("Less", ["most", "zero"], ["on"]),
             helper.make_node("If", ["on"], ["y"], **branches("GlobalMaxPool"))]  # fmt: skip
    model = loaded(nodes, [info("x", shape=[1, 3, 8, 8])], ["y"], {"w": W, "zero": np.float32(0)})
    for x in (X, -abs(X), X * 2):
        convolved = lk.conv2d(x, W, padding=1)
        want = convolved if x.max() < 0 else convolved.max((2, 3), keepdims=True)
        np.testing.assert_allclose(model.run(x)["y"], want, 1e-4, 1e-5)
    nodes = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Gather", ["shape", "two"], ["high"]),
             helper.make_node("Less", ["high", "ten"], ["on"]),
             helper.make_node("If", ["on"], ["y"], **branches())]  # fmt: skip
    model = loaded(nodes, [info("x", shape=[1, 3, "h", "w"])], ["y"], {"w": W, "two": np.int64(2), "ten": np.int64(10)})
    assert model.run(X)["y"].min() < 0 <= model.run(np.tile(X, (1, 1, 2, 1)))["y"].min()


def looping(count, leaves=False, ends=None):
    """x + 1, again and again, through a convolution's worth of planning: a product with a matrix around it."""
    nodes = [helper.make_node("MatMul", ["v", "m"], ["p"]), helper.make_node("Add", ["p", "x"], ["next"])]
    if ends is None:
        nodes.append(helper.make_node("Identity", ["going"], ["on"]))
    else:
        nodes += [helper.make_node("ReduceMax", ["next"], ["most"], keepdims=0),
                  helper.make_node("Less", ["most", "limit"], ["on"])]  # fmt: skip
    outputs = [info("on", B, []), info("next", shape=[2, 2])]
    if leaves:
        nodes.append(helper.make_node("ReduceSum", ["next"], ["left"], keepdims=0))
        outputs.append(info("left", shape=[]))
    inputs = [info("i", I, []), info("going", B, []), info("v", shape=[2, 2])]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    node = helper.make_node("Loop", ["count", ""], ["y", *["z"] * leaves], body=body)
    node.input.append("x")
    constants = {"m": np.float32([[0, 1], [1, 0]]), "limit": np.float32(5)}
    return loaded([node], [info("x", shape=[2, 2])], ["y", *["z"] * leaves], {**constants, "count": np.int64(count)})


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("ends", [None, 5])
def test_loops(leaves, ends):
    x, m = np.float32([[1, 2], [3, 0.5]]), np.float32([[0, 1], [1, 0]])
    for count in (1, 2, 7):
        got, v, left = looping(count, leaves, ends).run(x), x, []
        for _ in range(count):
            v = v @ m + x
            left.append(v.sum())
            if ends and v.max() >= ends:
                break
        np.testing.assert_allclose(got["y"], v, 1e-5)
        if leaves:
            np.testing.assert_allclose(got["z"], left, 1e-5)


def test_a_loop_that_appends_and_one_that_does_not_end(monkeypatch):
    nodes = [helper.make_node("Concat", ["v", "x"], ["next"], axis=0), helper.make_node("Identity", ["going"], ["on"])]
    inputs = [info("i", I, []), info("going", B, []), info("v", shape=[None, 2])]
    body = helper.make_graph(nodes, "body", inputs, [info("on", B, []), info("next", shape=[None, 2])])
    outer = [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body), helper.make_node("Neg", ["y"], ["z"])]
    model = loaded(outer, [info("x", shape=[1, 2])], ["z"], {"count": np.int64(3)})
    x = np.float32([[1, 2]])
    np.testing.assert_array_equal(model.run(x)["z"], -np.tile(x, (4, 1)))
    monkeypatch.setattr(control, "MAX_TRIPS", 50)
    with pytest.raises(ValueError, match="more than 50 iterations"):
        looping(1 << 60).run(np.ones((2, 2), np.float32))


def test_scans_of_several_sequences_in_both_directions():
    nodes = [helper.make_node("Mul", ["a", "b"], ["p"]), helper.make_node("Add", ["s", "p"], ["next"])]
    inputs = [info("s", shape=[3]), info("a", shape=[3]), info("b", shape=[3])]
    body = helper.make_graph(nodes, "body", inputs, [info("next", shape=[3]), info("p", shape=[3])])
    node = helper.make_node("Scan", ["zero", "x", "y"], ["s1", "all"], body=body, num_scan_inputs=2,
                            scan_input_axes=[0, 1], scan_input_directions=[0, 1], scan_output_axes=[1])  # fmt: skip
    model = loaded([node], [info("x", shape=["t", 3]), info("y", shape=[3, "t"])], ["s1", "all"],
                   {"zero": np.zeros(3, np.float32)})  # fmt: skip
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(3, 5)).astype(np.float32)
    got = model.run({"x": x, "y": y})
    np.testing.assert_allclose(got["all"], x.T * y[:, ::-1], 1e-5)
    np.testing.assert_allclose(got["s1"], (x.T * y[:, ::-1]).sum(1), 1e-4)


def test_what_is_missing_inside_is_named_too():
    body = helper.make_graph([helper.make_node("Foo", ["x"], ["a"])], "then", [], [info("a")])
    node = helper.make_node("If", ["on"], ["y"], then_branch=body, else_branch=body)
    with pytest.raises(lk.onnx.Unsupported, match="Bar, Foo"):
        loaded([node, helper.make_node("Bar", ["y"], ["z"])], [info("x", shape=[1])], ["z"], {"on": True})


@pytest.mark.parametrize("inputs, results", [(2, 2), (3, 1), (4, 2)])
def test_bodies_that_do_not_fit_are_refused_in_words(inputs, results):
    names = [info("i", I, []), info("going", B, []), info("v", shape=[2]), info("w", shape=[2])]
    body = helper.make_graph([], "body", names[:inputs], [names[1], names[2]][:results])
    if inputs < 3 and results > 1:
        body.output[1].name = "going"
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    model = loaded([node], [info("x", shape=[2])], ["y"], {"count": np.int64(2)})
    with pytest.raises(ValueError, match="Loop y"):
        model.run(np.ones(2, np.float32))
