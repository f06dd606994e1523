"""Rotary embeddings against their definition, ONNX's reference and onnxruntime."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from oracle.runtime import by_onnxruntime

import layoutkit as lk
from layoutkit._core.nests.pointwise.rotary import Rotary

SEEDS = st.integers(0, 2**32)


def turned(x, cos, sin, positions, rotated, interleaved):
    """Heads [batch, heads, steps, size], pair by pair."""
    batch, _, steps, _ = x.shape
    cos, sin = (np.broadcast_to(a, (batch, steps, rotated // 2)) if positions is None
                else a[np.broadcast_to(positions, (batch, steps))] for a in (cos, sin))  # fmt: skip
    y = x.copy()
    for j in range(rotated // 2):
        a, b = (2 * j, 2 * j + 1) if interleaved else (j, j + rotated // 2)
        c, s = cos[:, None, :, j], sin[:, None, :, j]
        y[..., a], y[..., b] = x[..., a] * c - x[..., b] * s, x[..., a] * s + x[..., b] * c
    return y


def model(inputs, constants, **attributes):
    of = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
          for name, x in inputs.items()]  # fmt: skip
    node = helper.make_node("RotaryEmbedding", [n for n in "xcsp" if n in {**inputs, **constants}], ["y"], **attributes)
    y = helper.make_tensor_value_info("y", of[0].type.tensor_type.elem_type, None)
    graph = helper.make_graph([node], "g", of, [y],
                              [numpy_helper.from_array(x, name) for name, x in constants.items()])  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@given(SEEDS, st.sampled_from(["float32", "float64"]), st.booleans(), st.booleans(), st.booleans(), st.booleans(),
       st.sampled_from("cspx"), st.integers(1, 3))  # fmt: skip
def test_turns(seed, dtype, packed, interleaved, whole, by_position, varies, threads):
    rng = np.random.default_rng(seed)
    batch, heads, steps, half = (int(n) for n in rng.choice([1, 2, 3, 5, 20], 4))
    rotated = 2 * half
    size = rotated if whole else rotated + int(rng.integers(0, 9))
    x = rng.standard_normal((batch, heads, steps, size)).astype(dtype)
    rows = int(rng.integers(1, 9))
    cos, sin = rng.standard_normal((2, *((rows,) if by_position else (batch, steps)), half)).astype(dtype)
    positions = rng.integers(0, rows, (batch, steps)) if by_position else None
    truth = turned(x, cos, sin, positions, rotated, interleaved)
    flat = x.swapaxes(1, 2).reshape(batch, steps, -1) if packed else x
    arrays = {"x": flat, "c": cos, "s": sin, **({"p": positions} if by_position else {})}
    inputs = {name: a for name, a in arrays.items() if name == "x" or name == varies or varies == "x"}
    a = {"interleaved": int(interleaved), "rotary_embedding_dim": 0 if whole else rotated}
    proto = model(
        inputs, {k: v for k, v in arrays.items() if k not in inputs}, **a, **({"num_heads": heads} if packed else {})
    )
    y = lk.onnx.load(proto, threads=threads).run(inputs)["y"]
    assert y.shape == flat.shape and y.dtype == dtype
    y = y.reshape(batch, steps, heads, size).swapaxes(1, 2) if packed else y
    np.testing.assert_allclose(y, truth, rtol=1e-5, atol=1e-5)
    (reference,) = ReferenceEvaluator(proto).run(None, inputs)
    reference = reference.reshape(batch, steps, heads, size).swapaxes(1, 2) if packed else reference
    np.testing.assert_allclose(reference, truth, rtol=1e-5, atol=1e-5)
    taken = dtype == "float32" and (not by_position or rows >= steps)  # by onnxruntime
    for theirs in (by_onnxruntime(proto, inputs) if taken else None) or ():
        theirs = theirs.reshape(batch, steps, heads, size).swapaxes(1, 2) if packed else theirs
        np.testing.assert_allclose(theirs, truth, rtol=1e-5, atol=1e-5)


@given(SEEDS, st.booleans(), st.booleans())
def test_parts_of_larger_arrays(seed, by_position, interleaved):
    """Strides of their own, and angles that all sequences or steps share."""
    rng = np.random.default_rng(seed)
    batch, heads, steps, half, rest = (int(n) for n in rng.integers(1, 6, 5))
    x, y = rng.standard_normal((2, batch, steps + 1, heads + 2, 2 * half + rest + 3)).astype(np.float32)
    part = np.s_[:, 1:, 1:-1, 2 : 2 + 2 * half + rest]
    x, into = (a[part].swapaxes(1, 2) for a in (x, y))
    shared = rng.choice([1, batch]), rng.choice([1, steps])
    cos, sin = rng.standard_normal((2, *((7,) if by_position else shared), half)).astype(np.float32)
    positions = rng.integers(-7, 7, shared) if by_position else None
    before = y.copy()
    arrays = (x, cos, sin, into) if positions is None else (x, cos, sin, positions, into)
    Rotary(x, cos, sin, positions, into, interleaved, True, 2)(*arrays)
    np.testing.assert_allclose(into, turned(x, cos, sin, positions, 2 * half, interleaved), rtol=1e-5, atol=1e-5)
    before[part] = y[part]
    np.testing.assert_array_equal(y, before)  # nothing around them


def test_positions_out_of_range():
    x, cos = np.ones((1, 2, 3, 4), np.float32), np.ones((5, 2), np.float32)
    inputs = {"x": x, "p": np.array([[0, 4, 5]])}
    of = lk.onnx.load(model(inputs, {"c": cos, "s": cos}))
    with pytest.raises(ValueError, match=r"RotaryEmbedding.*index 5 is out of range of an axis of 5"):
        of.run(inputs)
    assert (of.run({"x": x, "p": np.array([[0, 4, -5]])})["y"][..., 2:] == 2).all()


@pytest.mark.parametrize(("shapes", "positions"), [
    ([(2, 3, 5, 8), (2, 4, 4)], None), ([(2, 3, 5, 8), (5, 4)], None), ([(2, 3, 5, 8), (9, 3)], (2, 5)),
    ([(2, 3, 5, 8), (9, 4)], (5,)), ([(2, 3, 5, 8), (2, 5, 4)], (2, 5)),
])  # fmt: skip
def test_what_does_not_fit_is_refused(shapes, positions):
    x, cos = (np.ones(shape, np.float32) for shape in shapes)
    inputs = {"x": x, "c": cos, "s": cos, **({} if positions is None else {"p": np.zeros(positions, np.int64)})}
    with pytest.raises(ValueError, match="caches"):
        lk.onnx.load(model(inputs, {})).run(inputs)
    steps = None if positions is None else np.zeros(positions, np.int64)
    with pytest.raises(ValueError, match="rotary"):
        Rotary(x, cos, cos, steps, x.copy(), False, False, 1) if cos.shape[-1] == 4 else Rotary(
            x, cos[..., :0], cos, steps, x.copy(), False, False, 1
        )
