"""The rules by which MACE, PyTorch and Paddle lay out a graph, on small ones; how arguments follow layouts."""

import numpy as np
import pytest

from layoutkit.formats.layout import Layout
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.layout.costs import Costs
from layoutkit.graph.layout.plan import choose_layouts
from layoutkit.graph.layout.rules import RULES, mace, paddle, torch
from layoutkit.graph.operators import OPERATORS
from layoutkit.graph.operators.layouts import BLOCKED, LAST, NAMES, PLAIN
from layoutkit.graph.shapes import infer

F32 = np.dtype(np.float32)
SHAPE = (1, 16, 8, 8)


def graph(*nodes, outputs=("y",)):
    w = np.ones((16, 16, 3, 3), np.float32)
    return Graph(list(nodes), {"x": TensorType(F32, SHAPE)}, outputs, {"w": w, "s": np.array([1, -1])})


def kinds(rule, g):
    return dict(zip([n.outputs[0] for n in g.nodes], rule(g, infer(g, {"x": SHAPE}))))


CONV = Node("Conv", ("x", "w"), ("a",), {"pads": [1] * 4})


def test_mace_operators_follow_if_all_producers_are_auto():
    g = graph(CONV, Node("Relu", ("a",), ("b",)), Node("Add", ("b", "x"), ("c",)), Node("Add", ("b", "a"), ("y",)),
              Node("Neg", ("c",), ("z",)), outputs=("y", "z"))  # fmt: skip
    assert kinds(mace, g) == {"a": LAST, "b": LAST, "c": PLAIN, "y": LAST, "z": PLAIN}


def test_mace_fixed_operators_are_auto_whatever_makes_their_inputs():
    pool = Node("MaxPool", ("b",), ("y",), {"kernel_shape": [2, 2]})
    g = graph(Node("Neg", ("x",), ("b",)), pool)
    assert kinds(mace, g) == {"b": PLAIN, "y": LAST}


def test_mace_others_keep_the_format_of_the_source():
    g = graph(CONV, Node("Reshape", ("a", "s"), ("b",)), Node("Relu", ("b",), ("y",)))
    assert kinds(mace, g) == {"a": LAST, "b": PLAIN, "y": PLAIN}


def test_mace_on_float_models_of_cpus_changes_nothing():
    g = graph(CONV, Node("Relu", ("a",), ("y",)))
    assert set(mace(g, infer(g, {"x": SHAPE}), auto=PLAIN)) == {PLAIN}


def test_torch_spreads_channels_last_until_shapes_change():
    g = graph(
        CONV, Node("Sigmoid", ("a",), ("b",)), Node("Flatten", ("b",), ("c",), {"axis": 1}), Node("Abs", ("c",), ("y",))
    )
    assert kinds(torch, g) == {"a": LAST, "b": LAST, "c": PLAIN, "y": PLAIN}


def test_paddle_runs_what_has_a_kernel_in_its_layout():
    pool = Node("MaxPool", ("b",), ("y",), {"kernel_shape": [2, 2]})
    g = graph(CONV, Node("Tan", ("a",), ("b",)), pool)
    assert kinds(paddle, g) == {"a": BLOCKED, "b": PLAIN, "y": BLOCKED}


def test_no_rule_costs_less_than_the_assignment():
    pool = Node("MaxPool", ("b",), ("y",), {"kernel_shape": [2, 2]})
    g = graph(CONV, Node("Sigmoid", ("a",), ("b",)), pool)
    laid = choose_layouts(g, {"x": SHAPE}, Costs(1, "standard"))
    for rule in RULES.values():
        assert laid.problem.seconds(rule(laid.graph, laid.known)) >= laid.assigned.seconds * (1 - 1e-9)
    assert laid.problem.seconds([PLAIN] * len(laid.graph.nodes)) == pytest.approx(laid.problem.uniform()[NAMES[PLAIN]])


@pytest.mark.parametrize(("axis", "place"), [(0, 0), (1, 3), (2, 1), (3, 2), (-1, 2)])
def test_axes_of_channels_last(axis, place):
    follow = OPERATORS["Concat"].follow
    assert follow({"op": "Concat", "axis": axis}, Layout("NHWC"), [SHAPE, SHAPE])["axis"] == place


def test_pads_of_channels_last():
    follow = OPERATORS["Pad"].follow
    pads = follow({"op": "Pad", "pads": [0, 1, 2, 3, 4, 5, 6, 7]}, Layout("NHWC"), [SHAPE])["pads"]
    assert pads == [0, 2, 3, 1, 4, 6, 7, 5]


def test_what_blocks_divide_does_not_follow():
    assert OPERATORS["Pad"].follow({"op": "Pad", "pads": [0, 1, 0, 0] + [0] * 4}, Layout("nChw16c"), [SHAPE]) is None
    assert OPERATORS["Softmax"].follow({"op": "Softmax", "axis": 1}, Layout("nChw16c"), [SHAPE]) is None
    concat = OPERATORS["Concat"].follow
    assert concat({"op": "Concat", "axis": 1}, Layout("nChw16c"), [SHAPE, (1, 20, 8, 8)]) is None
    assert concat({"op": "Concat", "axis": 1}, Layout("nChw16c"), [SHAPE, SHAPE])["axis"] == 1
