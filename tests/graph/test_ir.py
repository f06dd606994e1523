"""Graphs: order, and what is refused."""

import numpy as np
import pytest

from layoutkit.graph.ir import Graph, Node, TensorType, fresh

F32 = TensorType(np.dtype(np.float32), (2, 3))


def graph(nodes, outputs=("y",)):
    return Graph(nodes, {"x": F32}, outputs, {})


def test_nodes_come_after_those_that_make_their_inputs():
    nodes = [Node("Add", ("b", "a"), ("y",)), Node("Neg", ("a",), ("b",)), Node("Abs", ("x",), ("a",))]
    assert [n.op for n in graph(nodes).nodes] == ["Abs", "Neg", "Add"]


def test_nodes_in_order_stay_in_order():
    nodes = [Node("Abs", ("x",), (f"t{i}",)) for i in range(5)] + [
        Node("Sum", tuple(f"t{i}" for i in range(5)), ("y",))
    ]
    assert graph(nodes).nodes == nodes


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            [Node("Add", ("x", "b"), ("a",)), Node("Neg", ("a",), ("b",)), Node("Abs", ("a",), ("y",))],
            "from its own result",
        ),
        ([Node("Neg", ("x",), ("y",)), Node("Abs", ("x",), ("y",))], "made twice"),
        ([Node("Neg", ("x",), ("x",))], "made twice"),
        ([Node("Neg", ("z",), ("y",))], "reads 'z', which is made by no operator"),
        ([Node("Neg", ("x",), ("z",))], "output 'y' is made by no operator"),
    ],
)
def test_contradictions(nodes, message):
    with pytest.raises(ValueError, match=message):
        graph(nodes)


def test_inputs_given_as_constants():
    g = Graph([Node("Add", ("x", "z"), ("y",))], {"x": F32, "z": F32}, ("y",), {})
    fixed = g.with_constants({"z": np.ones((2, 3), np.float32)})
    assert list(fixed.inputs) == ["x"] and list(fixed.constants) == ["z"]


def test_fresh_names_are_not_taken():
    assert fresh("a", {"b"}) == "a"
    assert fresh("a", {"a", "a.1"}) == "a.2"
