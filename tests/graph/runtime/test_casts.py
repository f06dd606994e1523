"""Conversions of numbers by kernels, as numpy does them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from oracle.network import evaluate

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators.kernels.casts import INTEGERS, REALS
from layoutkit.graph.operators.layouts import NAMES

TYPES = (*REALS, *INTEGERS)


@given(st.data(), st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(0, 5), st.sampled_from([None, *NAMES]),
       st.integers(1, 2), st.booleans())  # fmt: skip
def test_casts(data, src, dst, rank, layouts, threads, joined):
    """Numbers beyond the range of the result, Inf and NaN too; to integers numpy does it."""
    shape = [data.draw(st.integers(0, 17 if rank < 5 else 4)) for _ in range(rank)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6, shape)
    if src in REALS and dst in REALS and x.size:
        x.flat[rng.integers(x.size, size=4)] = [np.inf, -np.inf, np.nan, -0.0]
    with np.errstate(all="ignore"):
        x = x.astype(src) if src in REALS else (x * (1 << 20)).astype(np.int64).astype(src)
    if dst in INTEGERS and src in REALS:
        x = np.clip(x, 0, 100)  # others have no defined result
    nodes = [Node("Cast", ("x",), ("y",), {"to": np.dtype(dst)})]
    if joined and rank:
        nodes.append(Node("Concat", ("y", "y"), ("z",), {"axis": -1}))
    outputs = ("z",) if len(nodes) > 1 else ("y",)
    graph = Graph(nodes, {"x": TensorType(np.dtype(src), x.shape)}, outputs, {})
    model = Model(graph, layouts=layouts, threads=threads)
    with np.errstate(all="ignore"):
        want, got = evaluate(graph, {"x": x}), model.run({"x": x})
    assert got[outputs[0]].dtype == dst
    np.testing.assert_array_equal(got[outputs[0]], want[outputs[0]])
    rounded_twice = {src, dst} == {"float16", "float64"}
    if dst in REALS and src != dst and rank and not rounded_twice:
        assert not any(step.call for step in model.planned({"x": x})[0].steps)
