"""TopK and NonMaxSuppression against their definitions in numpy: ties, NaN, empty axes, all types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutkit._core.nests.images.suppression import Suppression
from layoutkit._core.nests.reductions.top import TopOfRows
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import OPERATORS

ml_dtypes = pytest.importorskip("ml_dtypes")

SIGNED = ["float32", "float64", "int64", "int32", "int8", "float16", "bfloat16", "int16"]
UNSIGNED = ["uint8", "bool", "uint16", "uint32", "uint64"]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0]


def numbers(rng, shape, dtype):
    """Some of them equal, at the ends of their type, special."""
    x = rng.integers(0 if dtype in UNSIGNED else -99, 99, shape) // rng.choice([1, 30, 99])
    if dtype in ("float32", "float64", "float16", "bfloat16"):
        x = np.where(rng.random(shape) < rng.choice([0, 0.1, 0.9]), rng.choice(SPECIAL, shape), x)
        return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = x.astype(dtype)
    if dtype != "bool":
        for end in (np.iinfo(dtype).min, np.iinfo(dtype).max):
            x[rng.random(shape) < rng.choice([0, 0.1])] = end
    return x


def in_order(row, largest):
    """The places of numbers, sorted as Python sorts tuples."""
    keys = [(v != v, 0 if v != v else v) for v in row.tolist()]
    return sorted(range(len(keys)), key=keys.__getitem__) if not largest else sorted(
        range(len(keys)), key=lambda i: (*keys[i], -i), reverse=True
    )  # fmt: skip


@given(
    st.integers(0, 2**32), st.lists(st.integers(0, 4), max_size=2), st.integers(0, 5) | st.integers(0, 250),
    st.sampled_from([*SIGNED, *UNSIGNED]), st.booleans(), st.integers(1, 3), st.data(),
)  # fmt: skip
def test_top(seed, others, n, dtype, largest, threads, data):
    rng = np.random.default_rng(seed)
    axis = data.draw(st.integers(0, len(others)))
    k = data.draw(st.integers(0, n) | st.sampled_from([0, n]))
    x = numbers(rng, (*others[:axis], n, *others[axis:]), dtype)
    attributes = {"axis": axis, "largest": int(largest), "threads": threads}
    values, places = OPERATORS["TopK"].run([x, np.array([k])], attributes)
    rows = np.moveaxis(x, axis, -1)
    want = np.empty((*rows.shape[:-1], k), np.int64)
    for at in np.ndindex(rows.shape[:-1]):
        want[at] = in_order(rows[at], largest)[:k]
    want = np.moveaxis(want, -1, axis)
    np.testing.assert_array_equal(places, want, strict=True)
    bits = f"u{x.dtype.itemsize}"  # -0 stays what it is
    np.testing.assert_array_equal(values.view(bits), np.take_along_axis(x, want, axis).view(bits), strict=True)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_top_on_threads(dtype):
    """Enough rows for threads to share them."""
    x = numbers(np.random.default_rng(0), (4000, 90), dtype)
    one, two = (OPERATORS["TopK"].run([x, np.array([30])], {"threads": threads}) for threads in (1, 2))
    np.testing.assert_array_equal(one[1], two[1])
    for i in range(0, 4000, 99):
        np.testing.assert_array_equal(one[1][i], in_order(x[i], True)[:30])


def chosen_of(corners, score, most, overlap, least):
    """The definition, box by box, in the type of the boxes."""
    area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    kept = []
    for i in in_order(-score, False):
        if (least is not None and not score[i] > least) or len(kept) >= most:
            continue
        size = [np.maximum(np.minimum(corners[i, d + 2], corners[kept, d + 2])
                           - np.maximum(corners[i, d], corners[kept, d]), 0) for d in range(2)]  # fmt: skip
        common = size[0] * size[1]
        over = common / (area[kept] + area[i] - common) > overlap
        if not (over & (common > 0) & (area[i] > 0) & (area[kept] > 0)).any():
            kept.append(i)
    return kept


@given(
    st.integers(0, 2**32), st.integers(0, 2), st.integers(0, 3), st.integers(0, 40), st.integers(0, 5) | st.just(2**62),
    st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.sampled_from([None, -1.0, 0.4, np.nan]), st.booleans(),
    st.sampled_from(["float32", "float64"]), st.integers(1, 3),
)  # fmt: skip
def test_suppression(seed, images, classes, n, most, overlap, least, centered, dtype, threads):
    rng = np.random.default_rng(seed)
    boxes = rng.integers(0, 9, (images, n, 4)).astype(dtype) / rng.choice([1, 3])  # flipped, equal, without an area
    scores = (rng.integers(0, rng.choice([3, 100]), (images, classes, n)) / 50).astype(dtype)
    for x in (boxes, scores):
        x[rng.random(x.shape) < rng.choice([0, 0.1])] = rng.choice([np.nan, np.inf, -np.inf])
    boxes, scores = boxes.astype(dtype), scores.astype(dtype)
    inputs = [boxes, scores, np.array([most]), np.array([overlap], dtype)]
    inputs += [] if least is None else [np.array([least], dtype)]
    (got,) = OPERATORS["NonMaxSuppression"].run(inputs, {"center_point_box": int(centered), "threads": threads})
    a, b = boxes[..., :2], boxes[..., 2:]
    want = []
    with np.errstate(all="ignore"):
        low, high = (a - b / 2, a + b / 2) if centered else (np.minimum(a, b), np.maximum(a, b))
        corners = np.concatenate([low, high], -1)
        for i, j in np.ndindex(images, classes):
            limit = None if least is None else boxes.dtype.type(least)
            of_class = chosen_of(corners[i], scores[i, j], most, boxes.dtype.type(overlap), limit)
            want += [(i, j, box) for box in of_class]
    np.testing.assert_array_equal(got, np.array(want, np.int64).reshape(-1, 3), strict=True)


def test_suppression_on_threads():
    """Enough boxes for threads to share the classes; the defaults of what is omitted choose nothing."""
    rng = np.random.default_rng(0)
    boxes, scores = rng.random((1, 300, 4), np.float32), rng.random((1, 20, 300), np.float32)
    run = OPERATORS["NonMaxSuppression"].run
    inputs = [boxes, scores, np.array([50]), np.array([0.3], np.float32)]
    (one,), (two,) = (run(inputs, {"threads": threads}) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    low, high = np.minimum(boxes[0, :, :2], boxes[0, :, 2:]), np.maximum(boxes[0, :, :2], boxes[0, :, 2:])
    for j in range(20):
        want = chosen_of(np.concatenate([low, high], -1), scores[0, j], 50, np.float32(0.3), None)
        np.testing.assert_array_equal(one[one[:, 1] == j, 2], want)
    assert run(inputs[:2], {})[0].shape == (0, 3)


def test_what_is_refused():
    x, v, p = np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float32), np.zeros((2, 2), np.int64)
    for arrays, message in [
        ((x.astype(np.int16), v, p), "int16"), ((x, v.astype(float), p), "float64"), ((x, v, v), "expected"),
        ((x.T, v, p), "C order"), ((x[0], v, p), "two axes"), ((x, v[:1], p), "shape"),
        ((v, x, np.zeros((2, 3), np.int64)), "shape"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            TopOfRows(*arrays, True, 1)
    with pytest.raises(ValueError, match="complex64"):
        OPERATORS["TopK"].run([x.astype(np.complex64), np.array([1])], {})
    b, s, m, c = np.zeros((1, 3, 4)), np.zeros((1, 2, 3)), np.zeros((1, 2, 3), np.int64), np.zeros((1, 2), np.int64)
    for arrays, message in [
        ((b.astype(np.float32), s, m, c), "float32"), ((b, s, s, c), "int64"), ((b[:, :2], s, m, c), "of shape"),
        ((b, s, m, c[0]), "room"), ((b, s, m[:, :1], c), "room"), ((b[0], s, m, c), "three axes"),
        ((b, s, m[..., ::2], c), "C order"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            Suppression(*arrays, 0.5, None, 1)


@pytest.mark.parametrize("behind", [False, True])
def test_results_of_open_operators_are_nobody_elses(behind):
    x, condition = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.array([True, False, True])
    nodes = [Node("Compress", ("x", "c"), ("y",), {"axis": 0})]
    nodes += [Node("Identity", ("y",), ("z",))] * behind
    types = {"x": TensorType(x.dtype, x.shape), "c": TensorType(condition.dtype, condition.shape)}
    model, kept = Model(Graph(nodes, types, ("y", "z")[: 1 + behind], {}), threads=1), x.copy()
    for _ in range(2):
        for of in model.run({"x": x, "c": condition}).values():
            np.testing.assert_array_equal(of, kept[::2])
            of[...] = 7
    np.testing.assert_array_equal(x, kept)
