"""Concatenations and divisions by kernels, and what takes contiguous arrays on parts of others."""

import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded
from oracle.network import evaluate

from layoutkit._core.nests.moves.joined_rows import JoinedRows
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES

rng = np.random.default_rng(0)
DTYPES = "float32", "float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex128"


def numbers(seed, shape, dtype="float32"):
    return (np.random.default_rng(seed).standard_normal(shape) * 50).astype(dtype)


def check(nodes, arrays, outputs, constants=(), layouts=None, threads=1):
    """Run a graph of these nodes; the program."""
    inputs = {name: TensorType(x.dtype, x.shape) for name, x in arrays.items() if name not in constants}
    graph = Graph(nodes, inputs, outputs, {name: x for name, x in arrays.items() if name not in inputs})
    model = Model(graph, layouts=layouts, threads=threads)
    given_arrays = {name: arrays[name] for name in inputs}
    want, got = evaluate(graph, given_arrays), model.run(given_arrays)
    for name in outputs:
        np.testing.assert_array_equal(got[name], want[name])
        assert got[name].dtype == want[name].dtype and got[name].flags.c_contiguous
    return model.planned(given_arrays)[0]


@given(st.data(), st.integers(1, 6), st.sampled_from([None, *NAMES]), st.integers(1, 2), st.sampled_from(DTYPES))
def test_concatenations(data, rank, layouts, threads, dtype):
    """Of inputs and constants, some of them twice, along any axis."""
    shape = [data.draw(st.integers(1, 20 if rank < 5 else 4)) for _ in range(rank)]
    axis, arrays = data.draw(st.integers(-rank, -1)), {}
    for name in "abc":
        shape[axis] = data.draw(st.integers(0, 20))
        arrays[name] = numbers(len(arrays), shape, dtype)
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=5))
    arrays = {name: arrays[name] for name in dict.fromkeys(names)}
    constants = data.draw(st.sampled_from(["", "", "b", "ab"])) if set(names) - set("ab") else ""
    nodes = [Node("Concat", tuple(names), ("j",), {"axis": axis})]
    if dtype.startswith("float"):
        nodes.append(Node("Relu", ("j",), ("r",)))
    program = check(nodes, arrays, ("j", "r")[: len(nodes)], constants, layouts, threads)
    assert not any(step.call for step in program.steps if step.op == "Concat")


@given(st.data(), st.integers(1, 6), st.sampled_from([None, *NAMES]), st.integers(1, 2), st.sampled_from(DTYPES))
def test_divisions(data, rank, layouts, threads, dtype):
    """Of an input, of what a kernel computes and of another part, along any axis; some of the parts are outputs."""
    shape = [data.draw(st.integers(1, 20 if rank < 5 else 4)) for _ in range(rank)]
    axis = data.draw(st.integers(-rank, -1))
    sizes = data.draw(st.lists(st.integers(0, 18), min_size=1, max_size=4))
    shape[axis] = sum(sizes)
    names = [f"p{i}" for i in range(len(sizes))]
    nodes, source = [], "x"
    if data.draw(st.booleans()) and dtype.startswith("float"):
        nodes, source = [Node("Neg", ("x",), ("n",))], "n"
    nodes.append(Node("Split", (source,), tuple(names), {"axis": axis, "split": sizes}))
    inner, size = data.draw(st.sampled_from(list(zip(names, sizes))))
    nodes.append(Node("Split", (inner,), ("q", "r"), {"axis": axis, "split": [size // 2, size - size // 2]}))
    outputs = data.draw(st.lists(st.sampled_from([*names, "q", "r"]), min_size=1, unique=True))
    if dtype == "float32":
        used = data.draw(st.sampled_from([*names, "q"]))
        nodes.append(Node("Relu", (used,), ("y",)))
        outputs.append("y")
    nodes.append(Node("Concat", ("r", "q"), ("z",), {"axis": axis}))
    program = check(nodes, {"x": numbers(0, shape, dtype)}, (*outputs, "z"), (), layouts, threads)
    assert not any(step.call for step in program.steps if step.op in ("Split", "Concat"))


@given(st.data(), st.sampled_from(WHOLE_ISAS), st.integers(1, 3), st.booleans(), st.sampled_from(["low", "high"]))
def test_rows(data, isa, threads, joins, end):
    """Pieces of rows side by side, which may have gaps between them, and be long enough to be cut for threads."""
    rows = data.draw(st.sampled_from([1, 2, 7, 100]))
    sizes = [data.draw(st.integers(0, 9 if rows == 100 else 150) | st.just(250_000 // rows)) for _ in range(3)]
    gaps = [data.draw(st.integers(0, 3)) for _ in range(4)]
    held = [guarded(rng.integers(0, 100, rows * (n + gap), np.uint8), end) for n, gap in zip(sizes, gaps)]
    pieces = [h.array.reshape(rows, n + gap)[:, :n] for h, n, gap in zip(held, sizes, gaps)]
    begins = np.cumsum([0, *sizes[:-1]])
    held.append(guarded(rng.integers(0, 100, rows * (sum(sizes) + gaps[3]), np.uint8), end))
    whole = held[3].array.reshape(rows, sum(sizes) + gaps[3])
    parts = [whole[:, begin : begin + n] for begin, n in zip(begins, sizes)]
    from_, to = (pieces, parts) if joins else (parts, pieces)
    want, others = [x.copy() for x in from_], [x.array.copy() for x in held]
    with using_isa(isa):
        fixed = pieces[2].copy() if joins else 3
        found = [*((i + 1, begins[i], sizes[i], pieces[i].strides[0]) for i in range(2)),
                 (fixed, begins[2], sizes[2], sizes[2] if joins else pieces[2].strides[0])]  # fmt: skip
        JoinedRows((whole, *pieces), (0, rows, whole.strides[0]), found, joins, threads)(whole, *pieces)
    for x, y in zip(want, to):
        np.testing.assert_array_equal(y, x)
    for x, y in zip(to, from_):
        x[...] = 0
        y[...] = 0
    for before, now in zip(others, held):  # nothing else was written
        same = now.array.reshape(-1) != 0
        assert (before.reshape(-1)[same] == now.array.reshape(-1)[same]).all()


def test_more_parts_than_an_operation_has_arrays():
    names = tuple(f"p{i}" for i in range(70))
    split = Node("Split", ("x",), names, {"axis": 1, "split": [3] * 70})
    check([split, Node("Concat", names[::-1], ("y",), {"axis": 1})], {"x": numbers(0, (2, 210, 5))}, (*names, "y"))


PARTLY = {
    "Reshape": Node("Reshape", ("p", "shape"), ("y",)),
    "Transpose": Node("Transpose", ("p",), ("y",), {"perm": [1, 3, 2, 0]}),
    "DepthToSpace": Node("DepthToSpace", ("p",), ("y",), {"blocksize": 2}),
    "MaxPool": Node("MaxPool", ("p",), ("y",), {"kernel_shape": [2, 3], "pads": [1, 0, 0, 2]}),
    "Resize": Node("Resize", ("p", "", "scales"), ("y",), {"mode": "linear"}),
    "MatMul": Node("MatMul", ("p", "p"), ("y",)),
    "Concat": Node("Concat", ("p", "p"), ("y",), {"axis": 2}),
    "LRN": Node("LRN", ("p",), ("y",), {"size": 3, "alpha": 0.0}),  # exact
}


@pytest.mark.parametrize("op", PARTLY)
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("layouts", [None, *NAMES])
@pytest.mark.parametrize("joined", [False, True])
def test_parts_of_other_arrays(op, axis, layouts, joined):
    """What reads or writes parts that are not contiguous copies them, without Python."""
    sizes, shape = ([8, 24], (2, 32, 6, 6)) if axis == 1 else ([4, 6], (2, 8, 6, 10))
    nodes = [Node("Neg", ("x",), ("n",)), Node("Split", ("n",), ("o", "p"), {"axis": axis, "split": sizes}), PARTLY[op]]
    outputs = ["y"]
    if joined and op != "Reshape":
        nodes.append(Node("Concat", ("y", "y"), ("z",), {"axis": axis}))
        outputs = ["z"]
    arrays = {"x": numbers(0, shape), "shape": np.array([6, -1, 4]), "scales": np.array([1, 1, 2, 4], np.float32)}
    constants = {name for node in nodes for name in node.inputs if name in ("shape", "scales")}
    arrays = {name: x for name, x in arrays.items() if name == "x" or name in constants}
    if op in ("Resize", "MatMul"):
        x = arrays["x"]
        x[...] = np.round(x / 20)  # exact products and means
    program = check(nodes, arrays, tuple(outputs), constants, layouts, 2)
    assert op == "LRN" or not any(step.call for step in program.steps)  # which has no kernel in the plain layout
