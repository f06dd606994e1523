"""Graphs whose shapes depend on what they compute."""

import numpy as np
import pytest

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)
RNG = np.random.default_rng(0)


def found(x, w):
    """What the graph of `detector` computes."""
    y = np.maximum(np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]), 0)
    at = np.nonzero(y > 1)
    return y, np.stack(at), y[at]


def detector(heavy, shape=("n", 3, "h", "w")):
    """A convolution, the places of its large results, and what is there."""
    w = RNG.uniform(-1, 1, (4, 3, 1, 1)).astype(np.float32)
    nodes = [
        Node("Conv", ("x", "w"), ("c",)), Node("Relu", ("c",), ("y",)), Node("Greater", ("y", "one"), ("above",)),
        Node("NonZero", ("above",), ("at",)), Node("Transpose", ("at",), ("rows",), {"perm": [1, 0]}),
        Node("GatherND", ("y", "rows"), ("values",)),
    ]  # fmt: skip
    outputs = ["y", "at", "values"]
    constants = {"w": w, "one": np.float32(1).reshape(1)}
    if heavy:  # worth a plan of its own, for each number of places
        nodes += [Node("Unsqueeze", ("values", "last"), ("column",)), Node("MatMul", ("column", "row"), ("z",))]
        constants |= {"last": np.array([1]), "row": np.arange(3, dtype=np.float32).reshape(1, 3)}
        outputs.append("z")
    return Graph(nodes, {"x": TensorType(F32, shape)}, tuple(outputs), constants), w


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_places_that_only_a_run_finds(heavy, threads):
    graph, w = detector(heavy)
    model = Model(graph, threads=threads)
    for size in (5, 5, 2, 1, 7):
        x = RNG.uniform(-2, 2, (1, 3, size, 3)).astype(np.float32)
        got, want = model.run(x), found(x, w)
        for name, value in zip(("y", "at", "values"), want):
            np.testing.assert_allclose(got[name], value, 1e-5, 1e-5)
        if heavy:
            np.testing.assert_allclose(got["z"], want[2][:, None] * np.arange(3), 1e-5, 1e-5)


def test_every_step_is_timed_and_explained():
    for heavy in (False, True):
        model = Model(detector(heavy)[0], threads=1)
        x = RNG.uniform(-2, 2, (1, 3, 6, 6)).astype(np.float32)
        steps = model.profile(x)
        assert {"Conv", "NonZero"} <= {op for op, _, _ in steps} and all(s >= 0 for _, _, s in steps)
        told = model.explain({"x": x.shape})
        assert "NonZero at" in told and "Conv" in told


def test_sizes_that_are_computed():
    """Of a tensor that depends on all numbers of the input: each value has its plan."""
    nodes = [
        Node("ReduceMax", ("x",), ("most",), {"keepdims": 0}),
        Node("Cast", ("most",), ("n",), {"to": np.dtype(np.int64)}),
        Node("Unsqueeze", ("n", "zero"), ("size",)), Node("Expand", ("one", "size"), ("ones",)),
        Node("MatMul", ("x", "weights"), ("products",)),
    ]  # fmt: skip
    constants = {"zero": np.array([0]), "one": np.ones(1, np.float32), "weights": np.eye(40, dtype=np.float32)}
    model = Model(Graph(nodes, {"x": TensorType(F32, (40, 40))}, ("ones", "products"), constants), threads=1)
    for n in (3, 0, 3, 11):
        x = np.zeros((40, 40), np.float32)
        x[1, 2] = n
        got = model.run(x)
        assert got["ones"].shape == (n,) and (got["products"] == x).all()


def test_two_cuts_and_nothing_before_the_first():
    nodes = [
        Node("NonZero", ("x",), ("at",)), Node("ReduceSum", ("at",), ("sum",)), Node("NonZero", ("sum",), ("again",)),
        Node("MatMul", ("x", "x"), ("y",)), Node("NonZero", ("y",), ("places",)),
    ]  # fmt: skip
    model = Model(Graph(nodes, {"x": TensorType(F32, (3, 3))}, ("again", "places", "at"), {}), threads=1)
    x = np.triu(np.ones((3, 3), np.float32), 1)
    got = model.run(x)
    np.testing.assert_array_equal(got["at"], np.nonzero(x))
    np.testing.assert_array_equal(got["places"], np.nonzero(x @ x))
    assert got["again"].shape == (2, 1)


def test_what_does_not_fit_afterwards_is_an_error_in_words():
    nodes = [Node("NonZero", ("x",), ("at",)), Node("Add", ("at", "x"), ("y",))]
    model = Model(Graph(nodes, {"x": TensorType(F32, (3, 3))}, ("y",), {}), threads=1)
    with pytest.raises(ValueError, match="Add y on shapes"):
        model.run(np.ones((3, 3), np.float32))
