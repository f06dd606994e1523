"""Attention against softmax in float64, of arrays with any strides between guard pages."""

import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from hypothesis import example, given
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from strided import placed, placements

from layoutkit._core.nests.products.attention import Attention

EXTENTS = st.sampled_from([0, 1, 2, 3, 7, 12, 13, 16, 17, 31, 32, 33, 50, 64, 65, 100, 197])
LONG = st.sampled_from([600, 1024, 1025, 1300])
ROWS = [0, 1], [0, 0], [1, 1], None, True


def attention(q, k, v, mask, scale):
    """Directly, in float64."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        x = np.matmul(q.astype(np.float64), k.swapaxes(-1, -2).astype(np.float64)) * scale
        x = x if mask is None else x + mask
        if not x.shape[-1]:
            return np.matmul(x, v)
        w = np.exp(x - x.max(-1, keepdims=True))
        return np.matmul(w / w.sum(-1, keepdims=True), v)


@st.composite
def problems(draw):
    """Shapes of q, k, v, o and a mask or None, and how they lie in memory."""
    queries, depth, width = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    keys = draw(EXTENTS | LONG) if queries * (depth + width) < 1000 else draw(EXTENTS)
    batch = draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2))
    shapes = [
        (*(draw(st.sampled_from([size, 1])) for size in batch), *inner)
        for inner in ((queries, depth), (keys, depth), (keys, width))
    ]
    shapes.append((*batch, queries, width))
    inner = draw(st.sampled_from([None, (queries, keys), (1, keys), (queries, 1), (keys,)]))
    if inner is not None:
        shapes.append((*(draw(st.sampled_from([size, 1])) for size in batch), *inner) if len(inner) == 2 else inner)
    return shapes, [draw(placements(len(shape), i == 3)) for i, shape in enumerate(shapes)]


@given(
    problems(), st.sampled_from(NEST_ISAS), st.sampled_from([np.float32, np.float64]), st.booleans(),
    st.sampled_from([1, 0.125, 3]), st.integers(1, 4), st.booleans(),
)  # fmt: skip
@example(
    ([(40, 64), (1300, 64), (1300, 64), (40, 64), (40, 1300)], [ROWS] * 5),
    NEST_ISAS[-1],
    np.float32,
    False,
    1,
    3,
    False,
)
@example(
    ([(40, 63), (1301, 63), (1301, 17), (40, 17), (40, 1301)], [ROWS] * 5), NEST_ISAS[-1], np.float32, False, 1, 3, True
)
def test_any_strides(problem, isa, dtype, constant, scale, threads, pairs):
    """Numbers of bfloat16 in pairs: only the weights are rounded, as these are that already."""
    shapes, lie = problem
    rng = np.random.default_rng(0)
    values = (rng.standard_normal(s).astype(bfloat16 if pairs else dtype).astype(dtype) for s in shapes[:3])
    q, k, v = (placed(x, of) for x, of in zip(values, lie))
    o = placed(np.full(shapes[3], np.nan, dtype), lie[3])
    mask = None
    if len(shapes) > 4:
        values = rng.standard_normal(shapes[4]).astype(dtype)
        values[rng.random(values.shape) < 0.2] = -np.inf
        mask = placed(values, lie[4])
    constant = constant and mask is not None
    with using_isa(isa):
        op = Attention(q, k, v, o, mask, scale=scale, constant_mask=constant, threads=threads, pairs=pairs)
    op(*(x for x in (q, k, v, o, mask) if x is not None and not (constant and x is mask)))
    want = np.broadcast_to(attention(q, k, v, mask, scale), o.shape)
    largest_score = scale * np.sqrt(q.shape[-1])  # about: weights are off by its rounding
    near = (2e-5 if dtype == np.float32 else 1e-12) * max(1, largest_score)
    near += 2.0**-8 if pairs and dtype == np.float32 else 0
    np.testing.assert_allclose(o, want, rtol=near, atol=near * max(1, abs(v).max(initial=0)))


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("queries, keys", [(50, 50), (13, 1500), (197, 197), (1, 700)])
def test_the_bits_are_the_same_for_any_threads(queries, keys, pairs):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((3, n, 40), np.float32) for n in (queries, keys, keys))
    results = []
    for threads in (1, 2, 3, 4):
        results.append(np.full((3, queries, 40), np.nan, np.float32))
        Attention(q, k, v, results[-1], threads=threads, pairs=pairs)(q, k, v, results[-1])
    for o in results:
        np.testing.assert_array_equal(o, results[0])


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("keys", [40, 1400])
@pytest.mark.parametrize("pairs", [False, True])
def test_large_scores_and_those_that_are_left_out(isa, keys, pairs):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((n, 24)).astype(bfloat16).astype(np.float32) for n in (60, keys, keys))
    mask = np.zeros((60, keys), np.float32)
    mask[3] = -np.inf  # a row without keys
    mask[4, : keys // 2] = -np.inf  # nor in the first blocks
    mask[5, keys // 2 :] = -np.inf
    mask[6] = -1e30
    q[7] *= 2.0**66
    q[8, 0], v[9, 3], k[10] = np.nan, np.nan, 0
    q[11] *= 64
    v[12] = np.inf
    mask[13, 12] = -np.inf
    o = np.empty((60, 24), np.float32)
    with using_isa(isa):
        Attention(q, k, v, o, mask, threads=2, pairs=pairs)(q, k, v, o, mask)
    want = attention(q, k, v, mask, 1)
    near = 2.0**-6 if pairs else 1e-4
    np.testing.assert_allclose(o, want, rtol=near, atol=near)
    assert np.isnan(o[3]).all() and np.isnan(o[8]).all()


def test_heads_that_share_keys_and_parts_of_one_array():
    rng = np.random.default_rng(0)
    qkv, out = rng.standard_normal((2, 30, 6 + 2 + 2, 16)).astype(np.float32), np.zeros((2, 30, 6 * 16), np.float32)

    def parts(x):
        heads = x.transpose(0, 2, 1, 3)
        return heads[:, :6].reshape(2, 2, 3, 30, 16), heads[:, 6:8, None], heads[:, 8:, None]

    o = out.reshape(2, 30, 2, 3, 16).transpose(0, 2, 3, 1, 4)
    op = Attention(*parts(qkv), o, scale=0.25, arrays=(qkv, out))
    other, into = rng.standard_normal(qkv.shape).astype(np.float32), np.zeros_like(out)
    op(other, into)
    want = attention(*parts(other), None, 0.25).transpose(0, 3, 1, 2, 4).reshape(out.shape)
    np.testing.assert_allclose(into, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "error, shapes, dtype",
    [
        (ValueError, [(2, 3), (4, 5), (4, 3), (2, 3)], np.float32),
        (ValueError, [(2, 3), (4, 3), (5, 3), (2, 3)], np.float32),
        (ValueError, [(7, 2, 3), (4, 3), (4, 3), (2, 3)], np.float32),
        (ValueError, [(2, 3), (4, 3), (4, 3), (2, 3), (3, 4)], np.float32),
        (TypeError, [(2, 3), (4, 3), (4, 3), (2, 3)], np.float16),
    ],
)
def test_what_does_not_fit_is_refused(error, shapes, dtype):
    with pytest.raises(error, match="Attention"):
        Attention(*(np.zeros(shape, dtype) for shape in shapes))
