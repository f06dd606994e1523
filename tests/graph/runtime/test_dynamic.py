"""Integers by the range of a tensor that varies, against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import run

SEEDS = st.integers(0, 2**32 - 1)


def ran(x, threads=1):
    """By a model, whose step is compiled, and by the operator alone, which must be the same."""
    node = Node("DynamicQuantizeLinear", ("x",), ("q", "s", "z"), {})
    graph = Graph([node], {"x": TensorType(x.dtype, x.shape)}, node.outputs, {})
    model = Model(graph, threads=threads)
    found = list(model.run({"x": x}).values())
    (program,) = model._programs.values()
    assert all(step.call is None for step in program.steps)
    for a, b in zip(found, run(node, [x], {"threads": threads})):
        np.testing.assert_array_equal(a, b, strict=True)
    return found


def truth(x):
    """In float32, each step rounded."""
    with np.errstate(all="ignore"):
        low, high = np.minimum(x.min(initial=0), np.float32(0)), np.maximum(x.max(initial=0), np.float32(0))
        scale = np.float32(high - low) / np.float32(255)
        scale = scale if scale else np.float32(1)
        zero = min(max(round(float(-low / scale)), 0), 255) if scale < np.inf else 0
        q = np.clip(np.rint(x / (scale if scale > 0 else np.float32(1))) + zero, 0, 255)
        return np.nan_to_num(q).astype(np.uint8), np.asarray(scale), np.asarray(zero, np.uint8)


def check(x, threads=1):
    for a, b in zip(ran(x, threads), truth(x), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@given(
    SEEDS, st.integers(0, 3), st.sampled_from(["normal", "positive", "negative", "small", "wide"]), st.integers(1, 3)
)
def test_ranges(seed, rank, kind, threads):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rng.choice([0, 1, 2, 7, 40, 150], rank, p=[0.05, 0.15, 0.2, 0.2, 0.2, 0.2]))
    x = {"positive": np.abs(x), "negative": -np.abs(x), "small": x * 1e-30, "wide": x * 1e30}.get(kind, x)
    check(np.asarray(x, np.float32), threads)


@given(SEEDS)
def test_quotients_near_the_middle_between_two_integers(seed):
    rng = np.random.default_rng(seed)
    scale = np.float32(rng.uniform(0.5, 2) * 2.0 ** rng.integers(-20, 20))
    halves = (rng.integers(0, 255, 5000) + np.float32(0.5)) * scale
    x = np.concatenate([halves, np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(np.inf)),
                        [0, 255 * scale]]).astype(np.float32)  # fmt: skip
    check(x)


def test_quotients_that_no_product_rounds_alike():
    """Scales for which a number is nearer to the middle between a half and the next float than products are exact."""
    rng, half = np.random.default_rng(0), np.arange(255, dtype=np.float32) + np.float32(0.5)
    ends = np.concatenate([np.nextafter(half, np.float32(0)), np.nextafter(half, np.float32(np.inf))])
    middles = (np.concatenate([half, half]).astype(np.float64) + ends) / 2
    tried = 0
    for scale in rng.uniform(0.5, 1, 40000).astype(np.float32):
        exact = scale * middles
        x = exact.astype(np.float32)
        near = np.abs(x - exact) <= 2.0**-44 * exact
        most = np.float32(255) * scale
        if near.any() and most / np.float32(255) == scale:
            check(np.concatenate([x[near], [0, most]]).astype(np.float32))
            tried += 1
    assert tried > 5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 0.0])
@pytest.mark.parametrize("size", [1, 3, 5000])
def test_special_values(value, size):
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32) if value else np.zeros(size, np.float32)
    x[size // 2] = value
    check(x)
    if size > 1:
        x[0] = -value if value == 3e38 else value
        check(x, 2)


def test_a_part_of_another_tensor():
    x = np.random.default_rng(1).standard_normal((6, 8)).astype(np.float32)
    nodes = [Node("Split", ("x",), ("a", "b"), {"axis": 1, "count": 2}),
             Node("DynamicQuantizeLinear", ("b",), ("q", "s", "z"), {})]  # fmt: skip
    graph = Graph(nodes, {"x": TensorType(x.dtype, x.shape)}, ("q", "s", "z"), {})
    for a, b in zip(Model(graph).run({"x": x}).values(), truth(x[:, 4:]), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
