"""Pooling of all attributes, in all layouts, against the formulas of ONNX's specification written out."""

import itertools
from math import ceil, floor, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.layout.factors import array_type
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES

OPS = "MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool"


def axis_of(auto, n, k, s, d, pads, up):
    """Results, and pads before and after, of an axis."""
    reach = d * (k - 1) + 1
    if auto == "NOTSET":
        room = (n + sum(pads) - reach) / s + 1
        out = (ceil if up else floor)(room)
        return out - (up and (out - 1) * s >= n + pads[0]), pads
    if auto == "VALID":
        return (ceil((n - reach + 1) / s) if up else floor((n - reach) / s) + 1), (0, 0)
    out = ceil(n / s)
    total = (out - 1) * s + reach - n  # less than 0 where windows leave pixels out
    small, large = floor(total / 2), ceil(total / 2)
    return out, ((small, large) if auto == "SAME_UPPER" else (large, small))


def pooled(op, x, a):
    """By the specification, tap by tap; None if no window fits."""
    size = x.shape[2:]
    if op.startswith("Global"):
        a = {"kernel_shape": size}
    ones = [1] * len(size)
    kernel, strides, dilations = a["kernel_shape"], a.get("strides", ones), a.get("dilations", ones)
    given = a.get("pads", [0] * 2 * len(size))
    pairs = zip(given, given[len(size) :])
    axes = [axis_of(a.get("auto_pad", "NOTSET"), *v, a.get("ceil_mode", 0))
            for v in zip(size, kernel, strides, dilations, pairs)]  # fmt: skip
    if min(out for out, _ in axes) < 1:
        return None
    y = np.zeros((*x.shape[:2], *(out for out, _ in axes)), x.dtype)
    for at in itertools.product(*(range(out) for out, _ in axes)):
        taps = [[i * s - p + t * d for t in range(k)]
                for i, s, (_, (p, _)), d, k in zip(at, strides, axes, dilations, kernel)]  # fmt: skip
        inside = [[p for p in found if 0 <= p < n] for found, n in zip(taps, size)]
        padded = [sum(-low <= p < n + high for p in found) for found, n, (_, (low, high)) in zip(taps, size, axes)]
        values = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *inside)].reshape(*x.shape[:2], -1)
        if "Max" in op:
            y[(..., *at)] = values.max(-1, initial=-inf)
        elif op == "LpPool":
            p = a.get("p", 2)
            y[(..., *at)] = (np.abs(values) ** p).sum(-1) ** (1 / p)
        else:
            count = np.prod(padded) if a.get("count_include_pad") else values.shape[-1]
            y[(..., *at)] = values.sum(-1) / max(count, 1)
    return y


@st.composite
def problems(draw):
    op, rank = draw(st.sampled_from(OPS)), draw(st.integers(1, 3))
    size = [draw(st.integers(1, 9)) for _ in range(rank)]
    a = {}
    if not op.startswith("Global"):
        each = st.lists(st.integers(1, 4), min_size=rank, max_size=rank)
        a = {"kernel_shape": draw(each), "ceil_mode": draw(st.integers(0, 1))}
        auto = draw(st.sampled_from([None, "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
        a |= {"auto_pad": auto} if auto else {}
        if auto in (None, "NOTSET") and draw(st.booleans()):
            a["pads"] = [draw(st.integers(0, k - 1)) for k in a["kernel_shape"] * 2]
        for name in ("strides", "dilations"):
            if draw(st.booleans()):
                a[name] = [min(n, 3 if name == "dilations" else 9) for n in draw(each)]
        a |= {"count_include_pad": draw(st.integers(0, 1))} if op == "AveragePool" else {}
        a |= {"p": draw(st.integers(1, 3))} if op == "LpPool" else {}
    shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 20])), *size)
    return op, shape, a, draw(st.sampled_from(["float32", "float32", "float64", "float16", "bfloat16"]))


@given(problems(), st.sampled_from([None, *NAMES]), st.integers(0, 1 << 20))
def test_by_the_formulas(problem, layouts, seed):
    op, shape, attributes, dtype = problem
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, shape)
    x[rng.random(shape) < rng.choice([0, 0.05])] = np.nan  # larger than all numbers
    x = x.astype(array_type(dtype))
    graph = Graph([Node(op, ("x",), ("y",), attributes)], {"x": TensorType(x.dtype, shape)}, ("y",), {})
    wide = np.float32 if dtype == "bfloat16" else x.dtype
    want = pooled(op, x.astype(wide), attributes)
    model = Model(graph, threads=1, layouts=layouts)
    if want is None:
        with pytest.raises(ValueError, match="does not fit"):
            model.run(x)
        return
    got = model.run(x)["y"]
    assert got.shape == want.shape and got.dtype == x.dtype
    tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(got.astype(wide), want, rtol=tolerance, atol=tolerance * 8)


def test_windows_of_same_that_are_shorter_than_strides():
    """The pads are -2: one pixel less on each side; of an odd number the larger half is where SAME_.. says."""
    x = np.arange(1.0, 9.0, dtype=np.float32).reshape(1, 1, 8)
    for auto, k, want in (("SAME_LOWER", 2, [2.5, 6.5]), ("SAME_UPPER", 1, [3, 7]), ("SAME_LOWER", 1, [2, 6])):
        a = {"kernel_shape": [k], "strides": [4], "auto_pad": auto, "count_include_pad": 1}
        graph = Graph([Node("AveragePool", ("x",), ("y",), a)], {"x": TensorType(x.dtype, x.shape)}, ("y",), {})
        np.testing.assert_array_equal(Model(graph, threads=1).run(x)["y"].ravel(), want)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32", "float16"])
@given(st.integers(0, 1 << 20), st.integers(0, 1))
def test_indices_are_where_maxima_are(dtype, seed, order):
    """Also of the least number that the type has; of equals, the first."""
    rng, of = np.random.default_rng(seed), np.dtype(dtype)
    least = -inf if of.kind == "f" else np.iinfo(of).min
    x = rng.choice(np.array([least, least, 1, 2], of), (2, 2, 3, 4))
    a = {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "indices": True, "storage_order": order}
    graph = Graph([Node("MaxPool", ("x",), ("y", "at"), a)], {"x": TensorType(of, x.shape)}, ("y", "at"), {})
    found = Model(graph, threads=1).run(x)
    flat = x.transpose(0, 1, 3, 2) if order else x
    np.testing.assert_array_equal(flat.reshape(-1)[found["at"]], found["y"])
    places = np.arange(x.size).reshape(flat.shape)
    places = places.transpose(0, 1, 3, 2) if order else places
    for n, c, i, j in np.ndindex(found["y"].shape):
        inside = np.ix_([n], [c], [r for r in (i - 1, i) if r >= 0], [k for k in (j, j + 1) if k < 4])
        assert found["at"][n, c, i, j] == places[inside].reshape(-1)[x[inside].argmax()]


@pytest.mark.parametrize("shape", [(0, 3, 0, 2), (2, 0, 0, 2), (0, 3, 4, 2)])
def test_global_pooling_of_no_images_is_empty(shape):
    node = Node("GlobalMaxPool", ("x",), ("y",))
    graph = Graph([node], {"x": TensorType(np.dtype(np.float32), shape)}, ("y",), {})
    assert Model(graph).run(np.empty(shape, np.float32))["y"].shape == (*shape[:2], 1, 1)
