"""Graphs drawn at random, and models to run them."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
from hypothesis import strategies as st

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.shapes import infer

ACTIVATIONS = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "HardSwish",
    "LeakyRelu",
    "Elu",
    "Softplus",
    "Clip",
    "Exp",
    "Neg",
    "Abs",
)


class Builder:
    """A graph that grows, and what is known of its tensors."""

    def __init__(self, shape: tuple[int, ...], seed: int, dtype: str) -> None:
        self.rng, self.dtype = np.random.default_rng(seed), np.dtype(dtype)
        self.inputs = {"x": TensorType(self.dtype, shape)}
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shapes = {"x": shape}

    def constant(self, shape: tuple[int, ...], low: float = -1, high: float = 1) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.rng.uniform(low, high, shape).astype(self.dtype)
        return name

    def integers(self, values) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, np.int64)
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes) -> None:
        """A node, unless its shapes do not fit."""
        names = tuple(f"t{len(self.nodes)}.{i}" for i in range(outputs))
        node = Node(op, inputs, names, attributes, f"{op}{len(self.nodes)}")
        taken = {n for n in inputs if n in self.shapes}
        types = {n: TensorType(self.dtype, self.shapes[n]) for n in taken}
        try:
            known = infer(Graph([node], types, names, self.constants), {n: self.shapes[n] for n in taken})
        except ValueError:
            return
        if all(0 < np.prod(known[n].shape) < 1 << 16 for n in names):
            self.nodes.append(node)
            self.shapes.update((n, known[n].shape) for n in names)

    def graph(self) -> Graph:
        read = {n for node in self.nodes for n in node.inputs}
        outputs = tuple(n for node in self.nodes for n in node.outputs if n not in read) or ("x",)
        return Graph(self.nodes, self.inputs, outputs, self.constants)


@st.composite
def graphs(draw) -> Graph:
    """Convolutions, pooling, sums, concatenations and what else there is, of tensors of three to five dimensions."""
    rank = draw(st.sampled_from([3, 4, 4, 4, 5]))
    size = [draw(st.integers(1, 9)) for _ in range(rank - 2)]
    channels = draw(st.sampled_from([1, 3, 8, 16, 17, 20, 32]))
    dtype = draw(st.sampled_from(["float32"] * 4 + ["float64"]))
    b = Builder((draw(st.integers(1, 2)), channels, *size), draw(st.integers(0, 1 << 20)), dtype)
    for _ in range(draw(st.integers(1, 9))):
        name = draw(st.sampled_from([name for name, shape in b.shapes.items() if len(shape) > 2][-4:]))
        _grow(draw, b, name, b.shapes[name])
    return b.graph()


def _grow(draw, b: Builder, x: str, shape: tuple[int, ...]) -> None:
    kind = draw(st.sampled_from(["conv", "conv", "conv", "norm", "activation", "activation", "pool", "sum", "concat",
                                 "constant", "axes", "move"]))  # fmt: skip
    spatial = len(shape) - 2
    if kind == "conv":
        groups = draw(st.sampled_from([1, 1, shape[1]]))
        count = draw(st.sampled_from([1, 8, 16, 20, 32])) if groups == 1 else shape[1]
        kernel = [draw(st.integers(1, 3)) for _ in range(spatial)]
        w = b.constant((count, shape[1] // groups, *kernel))
        bias = [b.constant((count,))] if draw(st.booleans()) else []
        pads = [draw(st.integers(0, 1)) for _ in range(2 * spatial)]
        strides = [draw(st.integers(1, 2))] * spatial
        b.add("Conv", x, w, *bias, group=groups, pads=pads, strides=strides)
    elif kind == "norm":
        c = shape[1]
        if draw(st.booleans()):
            values = [b.constant((c,), 0.5, 1.5) for _ in range(4)]
            b.add("BatchNormalization", x, *values, epsilon=1e-3)
        else:
            b.add(draw(st.sampled_from(["LRN", "LpNormalization"])), x, size=3, axis=1)
    elif kind == "activation":
        op = draw(st.sampled_from(ACTIVATIONS))
        b.add(op, x, *([b.constant((), -0.5, 0), b.constant((), 0, 0.5)] if op == "Clip" else []))
    elif kind == "pool":
        op = draw(st.sampled_from(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"]))
        given = {} if op.startswith("Global") else {
            "kernel_shape": [draw(st.integers(2, 3))] * spatial, "strides": [draw(st.integers(1, 2))] * spatial,
            "pads": [draw(st.integers(0, 1))] * 2 * spatial, "ceil_mode": draw(st.integers(0, 1)),
            "count_include_pad": draw(st.integers(0, 1)),
        }  # fmt: skip
        b.add(op, x, **given)
    elif kind == "sum":
        same = [n for n, s in b.shapes.items() if len(s) == len(shape)]
        b.add(draw(st.sampled_from(["Add", "Mul", "Sub", "Max"])), x, draw(st.sampled_from(same)))
    elif kind == "concat":
        others = [n for n, s in b.shapes.items() if len(s) == len(shape) and (s[0], *s[2:]) == (shape[0], *shape[2:])]
        b.add("Concat", x, *draw(st.lists(st.sampled_from(others), min_size=1, max_size=2)), axis=1)
    elif kind == "constant":
        extents = [n if draw(st.booleans()) else 1 for n in shape[draw(st.integers(0, len(shape))) :]]
        b.add(draw(st.sampled_from(["Add", "Mul", "Div", "Max"])), x, b.constant(tuple(extents), 0.5, 1.5))
    elif kind == "axes":
        axis = draw(st.integers(-len(shape), len(shape) - 1))
        op = draw(st.sampled_from(["Softmax", "ReduceMean", "ReduceMax", "ReduceSum", "Split", "Pad", "Concat"]))
        if op.startswith("Reduce"):
            b.add(op, x, axes=[axis], keepdims=draw(st.integers(0, 1)))
        elif op == "Pad":
            pads = b.integers([draw(st.integers(0, 2)) for _ in range(2 * len(shape))])
            value = [b.constant((), 0, 1)] if draw(st.booleans()) else []
            b.add("Pad", x, pads, *value, mode="constant" if value else draw(st.sampled_from(["constant", "edge"])))
        elif op == "Split":
            n = shape[axis]
            cut = draw(st.integers(0, n))
            b.add("Split", x, b.integers([cut, n - cut]), outputs=2, axis=axis)
        elif op == "Concat":
            b.add("Concat", x, x, axis=axis)
        else:
            b.add(op, x, axis=axis)
    elif draw(st.booleans()):
        b.add("Transpose", x, perm=draw(st.permutations(range(len(shape)))))
    else:
        b.add("Reshape", x, b.integers([shape[0], -1, *shape[2:]]))
    for name, s in list(b.shapes.items())[-1:]:
        _product(draw, b, name, s)


def _product(draw, b: Builder, x: str, shape: tuple[int, ...]) -> None:
    """Now and then a fully connected layer of what is there, and an activation."""
    if draw(st.integers(0, 5)):
        return
    b.add("Flatten", x, axis=1)
    x, rows = list(b.shapes.items())[-1]
    columns = draw(st.integers(1, 40))
    if draw(st.booleans()):
        swap = draw(st.integers(0, 1))
        w = b.constant((columns, rows[-1]) if swap else (rows[-1], columns))
        c = draw(st.sampled_from([(), (columns,), (1, columns), (rows[0], columns), (rows[0], 1), None]))
        scales = {"alpha": draw(st.sampled_from([1.0, 0.5])), "beta": draw(st.sampled_from([1.0, -2.0]))}
        b.add("Gemm", x, w, *([] if c is None else [b.constant(c)]), transB=swap, **scales)
    else:
        b.add("MatMul", x, b.constant((rows[-1], columns)))
    b.add(draw(st.sampled_from(["Relu", "Sigmoid"])), list(b.shapes)[-1])


def bytes_of_a_first_run(graph, x):
    """What a model of the graph holds after its first run, and the most that it holds meanwhile."""
    Model(graph, threads=1).run(x)  # what the first model of a process makes is not counted: imports, the cost table
    model = Model(graph, threads=1)
    gc.collect()
    tracemalloc.start()
    try:
        model.run(x)
        gc.collect()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
