"""Attention of com.microsoft with caches of keys and values, in causal order, and rotary embeddings, against their
definitions, and onnxruntime where it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from oracle.runtime import by_onnxruntime

import layoutkit as lk
from layoutkit.graph.operators import Unsupported

MS = "com.microsoft"
SEEDS = st.integers(0, 2**32 - 1)


def model(op, arrays, constants, outputs, **attributes):
    """A node of inputs in this order, None where one is left out."""
    of = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
          for name, x in arrays.items() if x is not None and name not in constants]  # fmt: skip
    names = [name if x is not None else "" for name, x in arrays.items()]
    node = helper.make_node(op, names, outputs, domain=MS, **attributes)
    graph = helper.make_graph([node], "g", of, [helper.make_tensor_value_info(y, 1, None) for y in outputs],
                              [numpy_helper.from_array(arrays[name], name) for name in constants])  # fmt: skip
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    inputs = {name: x for name, x in arrays.items() if x is not None and name not in constants}
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), inputs


def results_of(proto, inputs, refused=False):
    """Ours, and onnxruntime's where it is installed and does not refuse this."""
    yield list(lk.onnx.load(proto, threads=2).run(inputs).values())
    theirs = None if refused else by_onnxruntime(proto, inputs)
    if theirs is not None:
        yield theirs


def real(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def turned(x, cos, sin, positions, interleaved):
    """[batch, steps, heads, size], as many elements of each head as there are angles."""
    half = cos.shape[-1]
    a, b = (np.s_[..., 0 : 2 * half : 2], np.s_[..., 1 : 2 * half : 2]) if interleaved else (
        np.s_[..., :half], np.s_[..., half : 2 * half])  # fmt: skip
    c, s, y = cos[positions][:, :, None], sin[positions][:, :, None], x.copy()
    y[a], y[b] = x[a] * c - x[b] * s, x[a] * s + x[b] * c
    return y


def attended(q, k, v, scale, bias, cap=0.0):
    """Of [batch, heads, steps, size], as [batch, steps, heads * size]."""
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    scores = (np.tanh(scores / cap) * cap if cap else scores) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = weights / weights.sum(-1, keepdims=True) @ v
    return y.swapaxes(1, 2).reshape(len(y), y.shape[2], -1)


@given(SEEDS, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_rotary(seed, packed, interleaved, whole, by_offset, constant):
    rng = np.random.default_rng(seed)
    batch, steps, heads, half = (int(n) for n in rng.integers(1, 6, 4))
    size = 2 * half if whole else 2 * half + 4
    rows = steps + int(rng.integers(0, 5))
    x, cos, sin = real(rng, batch, steps, heads, size), real(rng, rows, half), real(rng, rows, half)
    places = np.array([rng.integers(0, rows - steps + 1)]) if by_offset else rng.integers(0, rows, (batch, steps))
    positions = places + np.zeros((batch, 1), np.int64) + (np.arange(steps) if by_offset else 0)
    arrays = {"x": x.reshape(batch, steps, -1) if packed else np.ascontiguousarray(x.swapaxes(1, 2)), "p": places,
              "c": cos, "s": sin}  # fmt: skip
    part = {} if whole else {"rotary_embedding_dim": 2 * half}
    number = {} if whole and constant else {"num_heads": heads}
    a = {"interleaved": int(interleaved), **part, **number}
    proto, inputs = model("RotaryEmbedding", arrays, ["c", "s"] if constant else [], ["y"], **a)
    truth = turned(x, cos, sin, positions, interleaved)
    truth = truth.reshape(batch, steps, -1) if packed else truth.swapaxes(1, 2)
    for (y,) in results_of(proto, inputs):
        np.testing.assert_allclose(y, truth, rtol=1e-5, atol=1e-5)


def causal(steps, keys, past):
    return np.where(np.arange(keys) <= np.arange(steps)[:, None] + past, 0, -1e30)


@given(SEEDS, st.booleans(), st.booleans(), st.booleans())
def test_an_input_behind_others(seed, unidirectional, with_mask, with_past):
    rng = np.random.default_rng(seed)
    batch, steps, heads, past = (int(n) for n in rng.integers(1, 6, 4))
    past, size, inner = past if with_past else 0, 4 * heads, int(rng.integers(1, 9))
    x, w, b = real(rng, batch, steps, inner), real(rng, inner, 3 * size), real(rng, 3 * size)
    before = real(rng, 2, batch, heads, past, 4)
    mask = np.ones((batch, past + steps), np.int32)
    mask[:, 1:] = rng.integers(0, 2, mask[:, 1:].shape)
    arrays = {"x": x, "w": w, "b": b, "mask": mask if with_mask else None, "past": before if with_past else None}
    a = {"num_heads": heads, "unidirectional": int(unidirectional)}
    proto, inputs = model("Attention", arrays, ["w", "b"], ["y", "present"], **a)
    q, k, v = (part.reshape(batch, steps, heads, 4).swapaxes(1, 2) for part in np.split(x @ w + b, 3, -1))
    present = np.concatenate([before, np.stack([k, v])], 3)
    bias = causal(steps, past + steps, past) if unidirectional else 0
    bias = bias + ((mask <= 0)[:, None, None] * -1e4 if with_mask else 0)
    y = attended(q, *present, 0, bias)
    for ours, now in results_of(proto, inputs):
        np.testing.assert_allclose(ours, y, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(now, present, rtol=1e-4, atol=1e-4)


@given(SEEDS, st.booleans())
def test_three_inputs_in_causal_order(seed, with_past):
    rng = np.random.default_rng(seed)
    batch, steps, heads, past = (int(n) for n in rng.integers(1, 6, 4))
    past, size = past if with_past else 0, 4 * heads
    arrays = {name: real(rng, batch, steps, size) for name in "qkv"}
    before = real(rng, 2, batch, heads, past, 4)
    if with_past:
        arrays |= {"b": None, "mask": None, "bias": None, "pk": before[0], "pv": before[1]}
    proto, inputs = model("MultiHeadAttention", arrays, [], ["y", "nk", "nv"] if with_past else ["y"],
                          num_heads=heads, unidirectional=1)  # fmt: skip
    q, k, v = (arrays[name].reshape(batch, steps, heads, 4).swapaxes(1, 2) for name in "qkv")
    k, v = np.concatenate([before, np.stack([k, v])], 3)
    truths = [attended(q, k, v, 0, causal(steps, past + steps, past)), k, v]
    for results in results_of(proto, inputs):
        for y, truth in zip(results, truths):
            np.testing.assert_allclose(y, truth, rtol=1e-3, atol=1e-3)


@given(SEEDS, st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["prompt", "longer", "buffer"]),
       st.sampled_from([-1, 1, 3]), st.sampled_from([0.0, 2.0]), st.booleans())  # fmt: skip
def test_heads_that_share_keys(seed, packed, rotary, interleaved, cache, window, cap, ragged):
    rng = np.random.default_rng(seed)
    batch, kv_heads, shared, steps, past = (int(n) for n in rng.integers(1, 5, 5))
    size, heads, scale = 16, kv_heads * shared, float(rng.choice([0.0, 0.25]))
    steps, past = 1 if cache != "prompt" and ragged else steps, 0 if cache == "prompt" else past
    starts = np.full(batch, past)  # where new keys begin
    if ragged and past:
        starts[1:] = rng.integers(0, past + 1, batch - 1)
    room = past + steps + int(rng.integers(0, 4)) if cache == "buffer" else past
    total = past + steps
    q, k, v = (real(rng, batch, steps, n, size) for n in (heads, kv_heads, kv_heads))
    before = real(rng, 2, batch, kv_heads, room, size)
    cos, sin = real(rng, total + 3, 8), real(rng, total + 3, 8)
    flat = [x.reshape(batch, steps, -1) for x in (q, k, v)]
    arrays = {"q": np.concatenate(flat, -1), "k": None, "v": None} if packed else dict(zip("qkv", flat))
    arrays |= {"pk": before[0], "pv": before[1], "lengths": (starts + steps - 1).astype(np.int32),
               "total": np.array([total], np.int32)}  # fmt: skip
    if rotary:
        arrays |= {"c": cos, "s": sin}
        positions = starts[:, None] + np.arange(steps)
        q, k = (turned(x, cos, sin, positions, interleaved) for x in (q, k))
    proto, inputs = model(
        "GroupQueryAttention", arrays, ["total", *(["c", "s"] if rotary else [])], ["y", "nk", "nv"], num_heads=heads,
        kv_num_heads=kv_heads, scale=scale, do_rotary=int(rotary), rotary_interleaved=int(interleaved),
        local_window_size=window, softcap=cap,
    )  # fmt: skip
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    for results in results_of(proto, inputs, refused=batch > 1 and steps > 1 and past):
        for i, start in enumerate(starts):
            keys, values = (np.concatenate([old[i, :, :start], new[i]], 1) for old, new in zip(before, (k, v)))
            behind = np.arange(start + steps) - (np.arange(steps)[:, None] + start)
            bias = np.where((behind <= 0) & ((window < 0) | (behind > -window)), 0, -1e30)
            all_keys, all_values = (np.repeat(x, shared, 0)[None] for x in (keys, values))
            y = attended(q[i : i + 1], all_keys, all_values, scale, bias, cap)
            np.testing.assert_allclose(results[0][i], y[0], rtol=1e-3, atol=1e-3)
            for now, truth in zip(results[1:], (keys, values)):
                assert now.shape[2] == max(room, total)
                np.testing.assert_allclose(now[i, :, : start + steps], truth, rtol=1e-4, atol=1e-4)


def test_lengths_of_a_cache_that_vary():
    """The total is computed in a run."""
    rng = np.random.default_rng(0)
    arrays = {name: real(rng, 1, 1, 32) for name in "qkv"}
    arrays |= {name: real(rng, 1, 2, 5, 16) for name in ("pk", "pv")}
    arrays |= {"lengths": np.array([5], np.int32), "total": np.array([6], np.int32)}
    proto, inputs = model("GroupQueryAttention", arrays, [], ["y", "nk", "nv"], num_heads=2, kv_num_heads=2)
    ours, *theirs = results_of(proto, inputs)
    assert ours[1].shape == (1, 2, 6, 16)
    for a, b in zip(ours, theirs[0] if theirs else ours):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("length", "total", "message"), [
    (6, 6, r"by seqlens_k: \[6\], expected 0 to 5"),
    (-2, 6, r"by seqlens_k: \[-2\]"),
    (2**31 - 2, 6, "by seqlens_k"),
    (5, 2**31 - 1, "total_sequence_length: 2147483647, expected 0 to 6"),
    (5, -1, "total_sequence_length: -1"),
])  # fmt: skip
@pytest.mark.parametrize("constants", [[], ["lengths", "total"]])
def test_lengths_that_there_cannot_be(length, total, message, constants):
    arrays = {name: np.ones((1, 1, 32), np.float32) for name in "qkv"}
    arrays |= {name: np.ones((1, 2, 5, 16), np.float32) for name in ("pk", "pv")}
    arrays |= {"lengths": np.array([length], np.int32), "total": np.array([total], np.int32)}
    proto, inputs = model("GroupQueryAttention", arrays, constants, ["y", "nk", "nv"], num_heads=2, kv_num_heads=2)
    with pytest.raises(ValueError, match=message):
        lk.onnx.load(proto).run(inputs)


@pytest.mark.parametrize(("op", "places", "attributes"), [
    ("RotaryEmbedding", "xxss", {"num_heads": 1, "scale": 2.0}),
    ("RotaryEmbedding", "xxxx", {}),
    ("GroupQueryAttention", "xxxxxssssxx", {"num_heads": 1, "kv_num_heads": 1}),
    ("Attention", "xss", {"num_heads": 1, "do_rotary": 1}),
])  # fmt: skip
def test_what_is_not_supported_says_so(op, places, attributes):
    node = helper.make_node(op, list(places), ["y"], domain=MS, **attributes)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", 1, [1, 2, 3])],
                              [helper.make_tensor_value_info("y", 1, None)],
                              [numpy_helper.from_array(np.ones((3, 1), np.float32), "s")])  # fmt: skip
    with pytest.raises(Unsupported):
        lk.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid(MS, 1)], ir_version=9))
