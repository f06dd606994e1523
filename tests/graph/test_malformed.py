"""Nodes that are not as ONNX defines them: whatever is wrong, what is promised is raised, or a result is given."""

import numpy as np
import pytest
from conftest import fewer
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit.graph import onnx as reader
from layoutkit.graph import shapes
from layoutkit.graph.operators import OPERATORS

onnx = pytest.importorskip("onnx", reason="the extra onnx")

from graph_cases import DRAWS, grow  # noqa: E402
from graph_cases.build import Build, schema  # noqa: E402

INTS = (-(2**63), -(2**31), -99, -5, -1, 0, 1, 2, 7, 99, 1000, 2**31, 2**62, 2**63 - 1)
FLOATS = (float("nan"), float("inf"), -1.0, 0.0, 1e-30, 1e30, 2.5)
TEXTS = ("", "SAME", "nearest", "NOTSET", "\N{GREEK SMALL LETTER ALPHA}")
# Operators of our own, which no model may name.
INNER = {"Affine", "AlongAxis", "ChannelShuffle", "Elementwise", "RecurrentSteps", "Requantise", "Table",
         "TiledAttention"}  # fmt: skip


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """No more memory than a test may take."""
    monkeypatch.setattr(shapes.infer, "__defaults__", (1 << 24,))
    for module in (shapes, reader):
        monkeypatch.setattr(module, "MAX_BYTES", 1 << 24)


def test_every_operator_is_drawn():
    assert {op for op in OPERATORS if schema(op, 23) or schema(op, 9)} <= DRAWS.keys()
    assert all(schema(op, 23) is None for op in INNER)
    for op in INNER:
        node = onnx.helper.make_node(op, ["x"], ["y"])
        with pytest.raises(ValueError, match=op):
            lk.onnx.load(_model([node], [], 18, {"x": np.zeros((1, 2, 3), np.float32)}))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numbers that make no sense are computed with, too
@given(st.integers(0, 1 << 40))
@settings(fewer(8), phases=[Phase.generate])
def test_malformed_nodes(seed):
    rng = np.random.default_rng(seed)
    for op in DRAWS:
        b = Build(rng)
        for _ in range(9):
            if grow(b, op):
                break
        if not b.nodes:
            continue
        node, tensors, inputs = b.nodes[-1], dict(b.constants), dict(b.inputs)
        for _ in range(b.int(1, 2)):
            MISTAKES[b.int(0, len(MISTAKES) - 1)](b, node, tensors, inputs)
        model = _model(b.nodes, [onnx.numpy_helper.from_array(v, k) for k, v in tensors.items()], b.opset, inputs)
        try:
            with np.errstate(all="ignore"):
                lk.onnx.load(model, threads=1).run(inputs)
        except (ValueError, TypeError) as error:
            assert str(error)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{onnx.printer.to_text(model)}") from error


def _model(nodes, tensors, opset, inputs):
    made = {name for node in nodes for name in node.output}
    values = [
        onnx.helper.make_tensor_value_info(k, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in inputs.items()
    ]
    last = nodes[-1].output
    outputs = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in last if name]
    tensors = [t for t in tensors if t.name not in made]
    graph = onnx.helper.make_graph(nodes, "g", values, outputs, tensors)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


# ---- mistakes: of the builder's random numbers, the node, and the constants and inputs that it may read


def _loses_an_input(b, node, tensors, inputs):
    if node.input:
        at = b.int(0, len(node.input) - 1)
        if b.maybe():
            del node.input[at:]
        else:
            node.input[at] = ""


def _has_another_input(b, node, tensors, inputs):
    there = [*tensors, *inputs]
    if node.input and there:
        node.input[b.int(0, len(node.input) - 1)] = b.one(there)
    elif there:
        node.input.append(b.one(there))


def _loses_an_attribute(b, node, tensors, inputs):
    if node.attribute:
        del node.attribute[b.int(0, len(node.attribute) - 1)]


def _has_another_value(b, node, tensors, inputs):
    """Of an attribute that it has or may have."""
    known = [name for name in (schema(node.op_type, b.opset) or schema(node.op_type, 23)).attributes]
    if not known:
        return
    name = b.one(known)
    kept = [a for a in node.attribute if a.name != name]
    was = [onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name]
    told = schema(node.op_type, b.opset) or schema(node.op_type, 23)
    kind = str(told.attributes[name].type).rpartition(".")[2]
    if b.maybe(0.2):
        kind = b.one(["INT", "INTS", "FLOAT", "FLOATS", "STRING"])
    count = len(was[0]) if was and kind in ("INTS", "FLOATS") and isinstance(was[0], list) else b.int(1, 4)
    count += b.one([0, 0, 0, 1, -1])
    value = {
        "INT": lambda: b.one(INTS), "INTS": lambda: [b.one(INTS) for _ in range(count)],
        "FLOAT": lambda: b.one(FLOATS), "FLOATS": lambda: [b.one(FLOATS) for _ in range(count)],
        "STRING": lambda: b.one(TEXTS),
    }.get(kind, lambda: onnx.numpy_helper.from_array(np.zeros(b.int(0, 2), np.float32)))()  # fmt: skip
    if value == []:
        return
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def _reads_other_numbers(b, node, tensors, inputs):
    """A constant or input of other values, another shape or another type."""
    there = [n for n in node.input if n in tensors or n in inputs]
    if not there:
        return
    name = b.one(there)
    held = tensors if name in tensors else inputs
    value = held[name]
    kind = b.int(0, 3)
    if kind == 0 and value.size and value.dtype.kind in "iu":
        value = value.copy()
        limits = np.iinfo(value.dtype)
        value.flat[b.int(0, value.size - 1)] = min(max(b.one(INTS), limits.min), limits.max)
    elif kind == 0 and value.size and value.dtype.kind == "f":
        value = value.copy()
        value.flat[b.int(0, value.size - 1)] = b.one(FLOATS)
    elif kind == 1:
        value = value.astype(b.one(["float32", "int64", "bool", "uint8", "float16"]))
    elif kind == 2:
        value = b.one([value.reshape(-1), value.reshape(-1)[:0], value[None], value.reshape(-1)[:1].reshape(-1)])
    else:
        value = np.concatenate([value.reshape(-1)] * 2)
    held[name] = np.ascontiguousarray(value) if value.ndim else value


def _is_another_operator(b, node, tensors, inputs):
    node.op_type = b.one([op for op in DRAWS if schema(op, b.opset)])


MISTAKES = (
    _loses_an_input, _has_another_input, _loses_an_attribute, _has_another_value, _has_another_value,
    _reads_other_numbers, _reads_other_numbers, _is_another_operator,
)  # fmt: skip
