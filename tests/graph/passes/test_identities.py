"""Operators that change nothing, and other words for one."""

import numpy as np
import pytest
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.passes.fold import folded
from layoutkit.graph.shapes import infer

SHAPE = 2, 3, 4, 5


def graph_of(*nodes, dtype=np.float32, **constants):
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    return Graph(list(nodes), {"x": TensorType(np.dtype(dtype), SHAPE)}, ("y",), arrays)


def left(graph):
    """The operators after all passes; their results are those of the graph."""
    x = {"x": (4 * np.random.default_rng(0).standard_normal(SHAPE)).astype(graph.inputs["x"].dtype)}
    done = folded(graph, infer(graph, {"x": SHAPE}))
    np.testing.assert_allclose(Model(graph).run(x)["y"], evaluate(graph, x)["y"], rtol=1e-5, atol=1e-5)
    return [node.op for node in done.nodes]


LAST = Node("Erf", ("t",), ("y",))
ZERO, ONE = np.float32(0), np.ones((1, 3, 1, 1), np.float32)


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        (Node("Mul", ("c", "x"), ("t",)), {"c": ONE}),
        (Node("Add", ("x", "c"), ("t",)), {"c": ZERO}),
        (Node("Sub", ("x", "c"), ("t",)), {"c": ZERO}),
        (Node("Div", ("x", "c"), ("t",)), {"c": ONE}),
        (Node("Pow", ("x", "c"), ("t",)), {"c": ONE}),
        (Node("Tile", ("x", "c"), ("t",)), {"c": np.ones(4, np.int64)}),
        (Node("Pad", ("x", "c"), ("t",)), {"c": np.zeros(8, np.int64)}),
        (Node("Slice", ("x", "c", "d"), ("t",)), {"c": np.zeros(1, np.int64), "d": np.array([9])}),
    ],
)
def test_without_effect(node, constants):
    assert left(graph_of(node, LAST, **constants)) == ["Erf"]


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        (Node("Sub", ("c", "x"), ("t",)), {"c": ZERO}),
        (Node("Div", ("c", "x"), ("t",)), {"c": ONE}),
        (Node("Pow", ("c", "x"), ("t",)), {"c": ONE}),
        (Node("Mul", ("x", "c"), ("t",)), {"c": np.ones((1, 1, 1, 1, 1), np.float32)}),
        (Node("Pad", ("x", "c"), ("t",)), {"c": np.array([0, 0, 1, 0, 0, 0, -1, 0])}),
        (Node("Slice", ("x", "c", "d", "e", "f"), ("t",)),
         {"c": np.array([-1]), "d": np.array([-9]), "e": np.array([3]), "f": np.array([-1])}),
    ],
)  # fmt: skip
def test_with_an_effect(node, constants):
    assert len(left(graph_of(node, LAST, **constants))) == 2


def test_an_output_keeps_its_name():
    assert left(graph_of(Node("Add", ("x", "c"), ("y",)), c=np.zeros(5, np.float32))) != []


@pytest.mark.parametrize(
    ("dtype", "between", "there"),
    [("float32", "float64", 1), ("float32", "float16", 3), ("int32", "float64", 1), ("int32", "float32", 3),
     ("int64", "float64", 3), ("int8", "float32", 1), ("uint8", "int8", 3)],
)  # fmt: skip
def test_conversions_there_and_back(dtype, between, there):
    casts = [
        Node("Cast", ("x",), ("s",), {"to": np.dtype(between)}),
        Node("Cast", ("s",), ("t",), {"to": np.dtype(dtype)}),
    ]
    graph = graph_of(*casts, Node("Abs", ("t",), ("y",)), dtype=dtype)
    assert len(folded(graph, infer(graph, {"x": SHAPE})).nodes) == there


@pytest.mark.parametrize(
    ("perms", "count"),
    [(([0, 2, 3, 1], [0, 3, 1, 2]), 1), (([0, 2, 1, 3], [0, 2, 1, 3]), 1), (([0, 2, 3, 1], [1, 0, 2, 3]), 2)],
)
def test_transpositions(perms, count):
    first, second = perms
    nodes = [Node("Transpose", ("x",), ("s",), {"perm": first}), Node("Transpose", ("s",), ("t",), {"perm": second})]
    assert len(left(graph_of(*nodes, LAST))) == count


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax"])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize(("axes", "pools"), [([2, 3], True), ([-1, -2], True), ([1, 2], False), ([2], False)])
def test_means(op, keep, axes, pools):
    ops = left(graph_of(Node(op, ("x", "c"), ("y",), {"keepdims": keep}), c=np.array(axes)))
    assert ("Global" in ops[0]) == pools


def test_the_largest_of_no_pixels():
    graph = Graph(
        [Node("ReduceMax", ("x",), ("y",), {"axes": [2]})],
        {"x": TensorType(np.dtype(np.float32), (2, 4, 0))},
        ("y",),
        {},
    )
    found = Model(graph).run(np.ones((2, 4, 0), np.float32))["y"]
    np.testing.assert_array_equal(found, np.full((2, 4, 1), -np.inf))


@pytest.mark.parametrize("operands", [("x", "c"), ("c", "x")])
@pytest.mark.parametrize("op", ["Sub", "Div", "Add", "Mul"])
def test_into_the_filter(op, operands):
    """Arithmetic with a number for each channel goes into the convolution before it, whatever is the first operand."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((4, 3, 1, 1)).astype(np.float32),
        "c": rng.uniform(1, 2, (4, 1, 1)).astype(np.float32),
    }
    nodes = [Node("Conv", ("x", "w"), ("s",)), Node(op, tuple("s" if n == "x" else n for n in operands), ("y",))]
    assert len(left(graph_of(*nodes, **constants))) == 1


def test_divided_by_zero():
    c = np.array([1, 0, 2], np.float32).reshape(3, 1, 1)
    graph = graph_of(Node("Div", ("x", "c"), ("y",)), c=c)
    x = np.ones(SHAPE, np.float32)
    np.testing.assert_array_equal(Model(graph).run(x)["y"], evaluate(graph, {"x": x})["y"])
