"""Transposed convolutions in networks: every attribute, layout and number of threads, what is fused into them."""

import numpy as np
from conftest import NEST_ISAS, fewer, using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)
LAYOUTS = [None, "plain", "channels last", "blocked"]


@st.composite
def transposed(draw):
    """A node's attributes, shapes of input and filter, and the attributes of the reference."""
    rank = draw(st.integers(1, 3))

    def each(lo, hi):
        return [draw(st.integers(lo, hi)) for _ in range(rank)]

    groups, size, kernel, stride, dilation = draw(st.sampled_from([1, 1, 2, 3])), *(each(1, n) for n in (6, 4, 4, 2))
    extra = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation)]
    whole = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(size, stride, dilation, kernel)]
    given = {"strides": stride, "dilations": dilation, "group": groups, "output_padding": extra}
    auto = draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    shaped = draw(st.booleans())
    pads = [0] * (2 * rank)
    if auto != "NOTSET":
        given["auto_pad"] = auto
    elif not shaped:
        given["pads"] = pads = each(0, 2) + each(0, 2)
    if shaped:
        given["output_shape"] = each(1, 9)
    wanted = given.get("output_shape") or [n * s for n, s in zip(size, stride)]
    if shaped or auto.startswith("SAME"):
        total = [w + e - m for w, e, m in zip(whole, extra, wanted)]
        least, most = [t // 2 for t in total], [t - t // 2 for t in total]
        pads = least + most if auto == "SAME_UPPER" else most + least
    shape = (draw(st.integers(1, 2)), groups * draw(st.integers(1, 5)), *size)
    filters = (shape[1], draw(st.sampled_from([1, 2, 16, 17])), *kernel)
    return given, shape, filters, pads, extra


def wanted(x, w, b, given, pads, extra):
    """By the reference: without padding, which is cut off or added afterwards."""
    rank = x.ndim - 2
    y = reference.conv_transpose(
        x, w, None, given["strides"], [(0, 0)] * rank, [0] * rank, given["dilations"], given["group"]
    )
    ends = [q - e for q, e in zip(pads[rank:], extra)]
    y = np.pad(y, [(0, 0), (0, 0), *((max(0, -p), max(0, -q)) for p, q in zip(pads, ends))])
    cut = tuple(slice(max(0, p), n - max(0, q)) for p, q, n in zip(pads, ends, y.shape[2:]))
    return y[(slice(None), slice(None), *cut)] + b.reshape(-1, *[1] * rank)


@given(transposed(), st.sampled_from(LAYOUTS), st.sampled_from(NEST_ISAS), st.integers(1, 3), st.booleans())
@fewer(2)
def test_any_node(case, layouts, isa, threads, special):
    given, shape, filters, pads, extra = case
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, s).astype(np.float32) for s in (shape, filters))  # sums are exact
    b = rng.integers(-4, 5, filters[1] * given["group"]).astype(np.float32)
    if special:  # reaches no other outputs than those that it is summed into
        w.flat[0] = np.inf
    with np.errstate(invalid="ignore"):
        want = wanted(x, w, b, given, pads, extra)
    assume(want.size)
    nodes = [Node("ConvTranspose", ("x", "w", "b"), ("a",), given), Node("Relu", ("a",), ("y",))]
    graph = Graph(nodes, {"x": TensorType(F32, shape)}, ("y",), {"w": w, "b": b})
    with using_isa(isa):
        model = Model(graph, layouts=layouts, threads=threads, accuracy="strict")
        first = model.run(x)["y"]
        np.testing.assert_array_equal(first, np.maximum(want, 0))
        np.testing.assert_array_equal(model.run(x)["y"], first)


def test_what_is_fused_and_where_results_lie():
    """Batch normalisation and activation become part of it, and its result is made in its place of a concatenation."""
    rng = np.random.default_rng(0)
    constants = {"w": (8, 4, 2, 2), "s": 8, "t": 8, "m": 8, "v": 8}
    constants = {name: rng.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in constants.items()}
    nodes = [
        Node("ConvTranspose", ("x", "w"), ("a",), {"strides": [2, 2], "group": 2}),
        Node("BatchNormalization", ("a", "s", "t", "m", "v"), ("n",)),
        Node("LeakyRelu", ("n",), ("r",), {"alpha": 0.1}),
        Node("Concat", ("r", "skip"), ("y",), {"axis": 1}),
    ]
    shapes = {"x": (2, 8, 5, 6), "skip": (2, 3, 10, 12)}
    graph = Graph(nodes, {n: TensorType(F32, s) for n, s in shapes.items()}, ("y",), constants)
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    (s, t, m, v), zeros = (constants[n][:, None, None] for n in "stmv"), [(0, 0)] * 2
    a = reference.conv_transpose(inputs["x"], constants["w"], None, [2, 2], zeros, [0, 0], [1, 1], 2)
    a = (a - m) / np.sqrt(v + 1e-5) * s + t
    want = np.concatenate([np.where(a < 0, 0.1 * a, a), inputs["skip"]], 1)
    for layouts in LAYOUTS:
        model = Model(graph, layouts=layouts, threads=2)
        np.testing.assert_allclose(model.run(inputs)["y"], want, rtol=1e-4, atol=1e-5)
        steps = [line.split()[0] for line in model.explain().splitlines() if line[:1].isupper()]
        assert steps.count("ConvTranspose") == 1 and not {"BatchNormalization", "LeakyRelu"} & set(steps)


def test_narrow_numbers():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((16, 8, 4)).astype(np.float32)
    x = rng.standard_normal((1, 16, 9)).astype(np.float32)
    given = {"strides": [2], "pads": [1, 1]}
    nodes = [Node("ConvTranspose", ("x", "w"), ("a",), given), Node("Relu", ("a",), ("y",))]
    graph = Graph(nodes, {"x": TensorType(F32, x.shape)}, ("y",), {"w": w})
    want = np.maximum(reference.conv_transpose(x, w, None, [2], [(1, 1)], [0], [1], 1), 0)
    for dtype, error in (("bfloat16", 0.03), ("float16", 0.004)):
        got = Model(graph, dtype=dtype).run(x)["y"]
        np.testing.assert_allclose(got, want, atol=error * np.abs(want).max())
