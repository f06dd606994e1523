"""Problems that users bring: text files and ONNX models."""

import pytest

from layoutkit.bench import listed
from layoutkit.bench.layers import Layer


def text(*lines, layouts=("NHWC",), threads=(1, 2)):
    return listed.text_cases(lines, "mine.txt", layouts, threads)


def test_lines_are_problems():
    assert text("", "  # nothing", layouts=["NHWC"]) == []
    found = text("3x3 16->32 @28 s2 *3   # a layer", "3x3  16->32 @28 s2")
    convs = [c for c in found if c.kind == "conv"]
    assert [c.problem for c in convs] == [Layer(16, 32, 28, 3, 2, 1).problem("NHWC")] * 2
    assert [c.count for c in convs] == [4, 4]
    key = convs[0].key
    assert [c.key for c in text(key)] == [key], "as explain writes it, threads and all"
    assert [c.threads for c in text(key.removesuffix(" t1"))] == [1, 2]
    move = "reorder 1x64x56x56 NCHW>nChw16c x16"
    assert [c.key for c in text(move)] == [f"{move} t1", f"{move} t2"]
    assert [c.key for c in text(f"{move} t2")] == [f"{move} t2"]


@pytest.mark.parametrize("line", [
    "conv n1", "conv n1 c4 5x5 o4 k3x3 s0x1 p0+0,0+0 d1x1 g1 NHWC>NHWC f32",
    "reorder 1x2x3x4 NCHW>NHWC", "reorder 1x2x3 NCHW>NHWC x32", "reorder 1x2x3x4 NCHW>NHWX x32",
    "reorder 1x2x3x4 NCHW>NHWC x31", "3x3 1->1 @5 *x", "3x3 1->1 @5 *0", "what",
])  # fmt: skip
def test_a_line_that_is_none_is_told(line):
    with pytest.raises(ValueError, match=r"^mine.txt, line 2: ") as error:
        text("# fine", line)
    form = {"conv": "'conv n1 c64 56x56 o128 k3x3 s2x2 p1", "reorder": "'reorder 1x", "3x3": "'3x3 1->1 @5 *4'"}
    assert form.get(line.split()[0], "'3x3 64->128 @56") in str(error.value), "the right form"


# ---- ONNX


def model(tmp_path, shape, w, out=None, **attributes):
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    node = h.make_node("Conv", ["x", "w"], ["y"], **attributes)
    node2 = h.make_node("Conv", ["y", "v"], ["z"], group=w[0])
    f32 = onnx.TensorProto.FLOAT
    v = (w[0], 1, *(1,) * (len(w) - 2))
    given = [h.make_tensor(n, f32, s, bytes(4 * _size(s)), raw=True) for n, s in (("w", w), ("v", v))]
    graph = h.make_graph(
        [node, node2], "g", [h.make_tensor_value_info("x", f32, shape)],
        [h.make_tensor_value_info("z", f32, out)], given,
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(h.make_model(graph), str(path))
    return path


def _size(shape):
    n = 1
    for s in shape:
        n *= s
    return n


@pytest.mark.parametrize("attributes, layer", [
    (dict(pads=[1, 1, 1, 1], strides=[2, 2]), Layer(4, 6, (9, 9), (3, 3), (2, 2), 1)),
    (dict(pads=[0, 1, 2, 3]), Layer(4, 6, (9, 9), (3, 3), 1, ((0, 2), (1, 3)))),
    (dict(auto_pad="VALID", dilations=[2, 2]), Layer(4, 6, (9, 9), (3, 3), dilation=2)),
    (dict(auto_pad="SAME_UPPER", strides=[2, 2]), Layer(4, 6, (9, 9), (3, 3), 2, ((1, 1), (1, 1)))),
    ({}, Layer(4, 6, (9, 9), (3, 3))),
])  # fmt: skip
def test_convolutions_of_a_model(tmp_path, attributes, layer):
    path = model(tmp_path, ("batch", 4, 9, 9), (6, 4, 3, 3), **attributes)
    (first, types), (second, same) = listed.onnx_layers(path)
    assert types == same == "f32"
    assert first.problem("NHWC") == layer.problem("NHWC")
    assert second.problem("NHWC").size == layer.problem("NHWC").out and second.groups == 6
    found = listed.cases(path, ["NHWC"], [1])
    assert [c.problem for c in found if c.kind == "conv"] == [first.problem("NHWC"), second.problem("NHWC")]


QUANTIZED = {  # inputs of the nodes after the tensor, and the dtype of the result
    "Conv": lambda t: ([("w", t)], t),
    "ConvInteger": lambda t: ([("w", "INT8")], "INT32"),
    "QLinearConv": lambda t: ([("xs", "FLOAT"), ("xz", t), ("w", "INT8"), ("ws", "FLOAT"), ("wz", "INT8"),
                               ("ys", "FLOAT"), ("yz", t)], t),
}  # fmt: skip


@pytest.mark.parametrize(("op", "element", "types"), [
    ("Conv", "FLOAT16", "f16"), ("Conv", "DOUBLE", "f64"), ("Conv", "BFLOAT16", "bf16"),
    ("ConvInteger", "UINT8", "u8s8_s32"), ("ConvInteger", "INT8", "s8s8_s32"),
    ("QLinearConv", "UINT8", "u8s8_u8"), ("QLinearConv", "INT8", "s8s8_s8"),
    ("Conv", "INT32", None),
])  # fmt: skip
def test_types_of_a_model(tmp_path, op, element, types):
    onnx = pytest.importorskip("onnx")
    h, of = onnx.helper, lambda name: getattr(onnx.TensorProto, name)
    inputs, result = QUANTIZED[op](element)
    node = h.make_node(op, ["x", *(name for name, _ in inputs)], ["y"], pads=[1, 1, 1, 1])
    item = {"FLOAT": 4, "DOUBLE": 8, "INT32": 4, "FLOAT16": 2, "BFLOAT16": 2}
    given = []
    for name, kind in inputs:
        shape = (6, 4, 3, 3) if name == "w" else ()
        given.append(h.make_tensor(name, of(kind), shape, bytes(item.get(kind, 1) * _size(shape)), raw=True))
    graph = h.make_graph([node], "g", [h.make_tensor_value_info("x", of(element), (1, 4, 9, 9))],
                         [h.make_tensor_value_info("y", of(result), (1, 6, 9, 9))], given)  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(h.make_model(graph), str(path))
    if types is None:
        with pytest.raises(ValueError, match=r"node 'y': .*expected one of f32"):
            list(listed.onnx_layers(path))
        return
    ((layer, found),) = listed.onnx_layers(path)
    assert found == types and layer.problem("NHWC") == Layer(4, 6, (9, 9), (3, 3), 1, 1).problem("NHWC")
    convs = [c for c in listed.cases(path, ["NHWC"], [1]) if c.kind == "conv"]
    assert [c.problem.types.name for c in convs] == [types]


def test_models_that_do_not_tell(tmp_path):
    path = model(tmp_path, (1, 4, "height", 9), (6, 4, 3, 3))
    with pytest.raises(ValueError, match="fixed shapes"):
        list(listed.onnx_layers(path))
    for attributes in (dict(auto_pad=3), dict(strides="two"), dict(group=[2])):
        with pytest.raises(ValueError, match="node 'y'"):
            list(listed.onnx_layers(model(tmp_path, (1, 4, 9, 9), (6, 4, 3, 3), **attributes)))
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match="not an ONNX model"):
        list(listed.onnx_layers(path))
    with pytest.raises(OSError):
        list(listed.onnx_layers(tmp_path / "none.onnx"))
