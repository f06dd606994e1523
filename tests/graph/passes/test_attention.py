"""Attention becomes one tiled operator where it can, and is right where it cannot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import OPERATORS

F32 = np.dtype(np.float32)
STEPS = st.sampled_from([1, 2, 5, 17, 40])


@st.composite
def problems(draw):
    """Arrays of Q, K, V, a mask or none, and attributes."""
    batch, kv_heads, shared = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    queries, keys, depth, width = draw(STEPS), draw(STEPS), draw(st.integers(1, 20)), draw(st.integers(1, 20))
    packed, rng = draw(st.booleans()), np.random.default_rng(draw(st.integers(0, 9)))

    def operand(heads, steps, size):
        x = rng.standard_normal((batch, heads, steps, size)).astype(F32)
        return np.ascontiguousarray(x.swapaxes(1, 2)).reshape(batch, steps, -1) if packed else x

    arrays = {"q": operand(kv_heads * shared, queries, depth), "k": operand(kv_heads, keys, depth),
              "v": operand(kv_heads, keys, width)}  # fmt: skip
    attributes = {"q_num_heads": kv_heads * shared, "kv_num_heads": kv_heads} if packed else {}
    optional = {"is_causal": [0, 1], "scale": [0.5, 2.0], "left_window_size": [-1, 0, 3], "right_window_size": [-1, 1],
                "softcap": [0.0, 1.5]}  # fmt: skip
    for name in draw(st.lists(st.sampled_from(sorted(optional)), max_size=3, unique=True)):
        attributes[name] = draw(st.sampled_from(optional[name]))
    mask = draw(st.sampled_from([None, None, "bool", "float"]))
    if mask:
        keep = rng.random((queries, keys)) < 0.7
        arrays["mask"] = (
            keep if mask == "bool" else np.where(keep, rng.standard_normal(keep.shape), -np.inf).astype(F32)
        )
    return arrays, attributes


def model_of(arrays, attributes):
    inputs = {name: TensorType(x.dtype, x.shape) for name, x in arrays.items()}
    return Model(Graph([Node("Attention", tuple(arrays), ("y",), attributes)], inputs, ("y",), {}), threads=1)


def directly(arrays, attributes):
    """One head at a time, in float64."""
    q, k, v, mask = (arrays.get(name) for name in ("q", "k", "v", "mask"))
    packed = q.ndim == 3
    if packed:
        heads = attributes["q_num_heads"], attributes["kv_num_heads"], attributes["kv_num_heads"]
        q, k, v = (x.reshape(*x.shape[:2], n, -1).swapaxes(1, 2) for x, n in zip((q, k, v), heads))
    y = np.zeros((*q.shape[:3], v.shape[3]))
    ahead = np.arange(k.shape[2]) - np.arange(q.shape[2])[:, None]
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    bias = np.zeros(ahead.shape)
    bias[(ahead > 0) & bool(attributes.get("is_causal"))] = -np.inf
    bias[(ahead < -left) & (left >= 0) | (ahead > right) & (right >= 0)] = -np.inf
    if mask is not None:
        bias = bias + (np.where(mask, 0, -np.inf) if mask.dtype == bool else mask)
    for image, head in np.ndindex(q.shape[:2]):
        of = head * k.shape[1] // q.shape[1]
        x = q[image, head].astype(float) @ k[image, of].T * attributes.get("scale", q.shape[3] ** -0.5)
        cap = attributes.get("softcap", 0)
        x = (np.tanh(x / cap) * cap if cap else x) + bias
        for row, scores in enumerate(x):
            if np.isfinite(scores).any():
                w = np.exp(scores - scores.max())
                y[image, head, row] = w / w.sum() @ v[image, of]
    return y.swapaxes(1, 2).reshape(len(y), y.shape[2], -1) if packed else y


@given(problems())
def test_any_attention(problem):
    np.testing.assert_allclose(model_of(*problem).run(problem[0])["y"], directly(*problem), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}, {"left_window_size": 3, "right_window_size": 0}])
@pytest.mark.parametrize("shared", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_it_is_one_step(packed, shared, attributes):
    shapes = {"q": (2, 20, 2 * shared * 8), "k": (2, 20, 2 * 8), "v": (2, 20, 2 * 4)}
    if packed:
        attributes = attributes | {"q_num_heads": 2 * shared, "kv_num_heads": 2}
    else:
        shapes = {name: (2, n, 20, size // n) for (name, (_, _, size)), n in zip(shapes.items(), (2 * shared, 2, 2))}
    told = model_of({name: np.zeros(shape, F32) for name, shape in shapes.items()}, attributes).explain()
    assert "1 steps" in told and "TiledAttention" in told and "numpy" not in told


@pytest.mark.parametrize("shapes, attributes", [
    ([(1, 4, 6), (1, 4, 6), (1, 4, 6)], {}),
    ([(1, 4, 6), (1, 4, 6), (1, 4, 6)], {"q_num_heads": 4, "kv_num_heads": 2}),
    ([(1, 3, 4, 6), (1, 2, 4, 6), (1, 2, 4, 6)], {}),
    ([(1, 2, 4, 6), (1, 2, 4, 5), (1, 2, 4, 6)], {}),
    ([(1, 2, 4, 6), (1, 2, 4, 6), (1, 2, 5, 6)], {}),
    ([(1, 2, 4, 6), (2, 2, 4, 6), (2, 2, 4, 6)], {}),
    ([(2, 4), (2, 4), (2, 4)], {}),
    ([(1, 2, 4, 6), (1, 2, 4, 6), (1, 2, 4, 6)], {"left_window_size": -2}),
    ([(1, 2, 4, 6), (1, 2, 4, 6), (1, 2, 4, 6)], {"qk_matmul_output_mode": 4}),
    ([(1, 2, 4, 6), (1, 2, 4, 6), (1, 2, 4, 6)], {"scale": "much"}),
])  # fmt: skip
def test_what_does_not_fit_is_refused(shapes, attributes):
    arrays = {name: np.zeros(shape, F32) for name, shape in zip("qkv", shapes)}
    with pytest.raises(ValueError, match="Attention y on shapes"):
        model_of(arrays, attributes).run(arrays)


def test_cached_keys_go_before_those_of_this_step():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 7, 8)).astype(F32) for _ in range(3))
    all_at_once = OPERATORS["Attention"].run([q, k, v], {"is_causal": 1, "op": "Attention"})[0]
    arrays = {"q": q[:, :, 5:], "k": k[:, :, 5:], "v": v[:, :, 5:], "past_k": k[:, :, :5], "past_v": v[:, :, :5]}
    inputs = {name: TensorType(x.dtype, x.shape) for name, x in arrays.items()}
    node = Node("Attention", ("q", "k", "v", "", "past_k", "past_v"), ("y", "present_k", "present_v"), {"is_causal": 1})
    outputs = Model(Graph([node], inputs, ("y", "present_k"), {})).run(arrays)
    np.testing.assert_allclose(outputs["y"], all_at_once[:, :, 5:], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs["present_k"], k)
