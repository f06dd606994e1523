"""Gathers and scatters, places of maxima, triangles and running sums against numpy; what lies between pixels."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from oracle.runtime import by_onnxruntime

from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import OPERATORS, run

TYPES = [
    "float32",
    "float64",
    "int64",
    "int32",
    "uint8",
    "int8",
    "float16",
    "uint16",
    "uint32",
    "uint64",
    "int16",
    "bool",
]
SEEDS = st.integers(0, 2**32)
THREADS = st.integers(1, 3)
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def ran(op, inputs, threads=1, **attributes):
    """The outputs of an operator, alone and in a model, which must be the same."""
    of, count = OPERATORS[op], 2 if op == "MaxPool" else 1
    alone = of.run(inputs, {**attributes, "op": op, "threads": threads})
    names = {f"i{i}": x for i, x in enumerate(inputs)}
    node = Node(op, tuple(names), tuple(f"y{i}" for i in range(count)), attributes)
    graph = Graph([node], {k: TensorType(v.dtype, v.shape) for k, v in names.items()}, node.outputs, {})
    found = Model(graph, threads=threads).run(names)
    for a, b in zip(alone, found.values()):
        np.testing.assert_array_equal(a, b, strict=True)
    return alone[0] if count == 1 else alone


def numbers(rng, shape, dtype):
    x = rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(shape) < 0.1] = rng.choice([np.nan, np.inf, -0.0])
    return x


def indices(rng, n, shape):
    return rng.integers(-n, n, shape) if n else np.zeros(shape, np.int64)


def shape_of(rng, rank):
    return tuple(rng.choice([0, 1, 2, 3, 7], rank, p=[0.04, 0.16, 0.3, 0.3, 0.2]).tolist())


@given(SEEDS, st.integers(1, 4), st.sampled_from(TYPES), st.sampled_from(["none", *UFUNCS]), THREADS)
def test_elements_along_an_axis(seed, rank, dtype, reduction, threads):
    rng = np.random.default_rng(seed)
    shape, axis = shape_of(rng, rank), int(rng.integers(rank))
    of = [int(rng.integers(0, n + 1)) for n in shape]
    of[axis] = int(rng.integers(0, 9)) if shape[axis] else 0
    x, at = numbers(rng, shape, dtype), indices(rng, shape[axis], of)
    grid = list(np.ogrid[tuple(slice(n) for n in of)])
    grid[axis] = at
    got = ran("GatherElements", [x, at.astype(rng.choice(["int32", "int64"]))], threads, axis=axis - rank)
    np.testing.assert_array_equal(got, x[tuple(grid)], strict=True)
    updates, want = numbers(rng, of, dtype), x.copy()
    with np.errstate(all="ignore"):
        if reduction == "none":  # the last one where there are several
            for i in np.ndindex(*of):
                want[(*i[:axis], at[i], *i[axis + 1 :])] = updates[i]
        else:
            UFUNCS[reduction].at(want, tuple(grid), updates)
        got = ran("ScatterElements", [x, at, updates], threads, axis=axis, reduction=reduction)
    np.testing.assert_array_equal(got, want, strict=True)


@given(SEEDS, st.integers(1, 4), st.sampled_from(TYPES), st.sampled_from(["none", *UFUNCS]), THREADS)
def test_slices_by_tuples(seed, rank, dtype, reduction, threads):
    rng = np.random.default_rng(seed)
    shape, depth = shape_of(rng, rank), int(rng.integers(1, rank + 1))
    batch = int(rng.integers(0, rank - depth + 1))
    x, lead = numbers(rng, shape, dtype), shape_of(rng, int(rng.integers(0, 3)))
    lead = (*shape[:batch], *lead)
    lead = lead if all(shape[batch : batch + depth]) else (*lead, 0)
    at = np.stack([indices(rng, n, lead) for n in shape[batch : batch + depth]], -1)
    if len(lead) >= batch and at.ndim > batch:
        want = np.empty((*lead, *shape[batch + depth :]), dtype)
        for i in np.ndindex(*lead):
            want[i] = x[(*i[:batch], *at[i])]
        np.testing.assert_array_equal(ran("GatherND", [x, at], threads, batch_dims=batch), want, strict=True)
    if batch:
        return
    updates, want = numbers(rng, (*lead, *shape[depth:]), dtype), x.copy()
    with np.errstate(all="ignore"):
        for i in np.ndindex(*lead):
            one = want[tuple(at[i])]
            want[tuple(at[i])] = updates[i] if reduction == "none" else UFUNCS[reduction](one, updates[i])
        got = ran("ScatterND", [x, at, updates], threads, reduction=reduction)
    np.testing.assert_array_equal(got, want, strict=True)


@given(SEEDS, st.integers(1, 4), st.sampled_from(TYPES), THREADS)
def test_gather(seed, rank, dtype, threads):
    rng = np.random.default_rng(seed)
    shape, axis = shape_of(rng, rank), int(rng.integers(rank))
    x = numbers(rng, shape, dtype)
    at = indices(rng, shape[axis], shape_of(rng, int(rng.integers(3))) if shape[axis] else (0,))
    np.testing.assert_array_equal(ran("Gather", [x, at], threads, axis=axis), np.take(x, at, axis), strict=True)


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"])
@pytest.mark.parametrize("index", [3, -4, 1 << 62, -(1 << 63)])
def test_indices_that_are_out_of_range_are_named(op, index):
    at = np.array([[0, 1], [2, index]])
    x = np.ones((3, 3), np.float32)
    updates = [np.ones((2, 2) if op == "ScatterElements" else 2, np.float32)] if "Scatter" in op else []
    names = {f"i{i}": v for i, v in enumerate([x, at, *updates])}
    graph = Graph([Node(op, tuple(names), ("y",), {})],
                  {k: TensorType(v.dtype, v.shape) for k, v in names.items()}, ("y",), {})  # fmt: skip
    model = Model(graph, threads=2)
    for _ in range(2):  # a run that failed harms no other
        with pytest.raises(ValueError, match=rf"{op}.*index {index} is out of range of an axis of 3"):
            model.run(names)
        model.run({**names, "i1": np.abs(at) % 3})


@given(SEEDS, st.integers(2, 4), st.booleans(), THREADS)
def test_sequences(seed, rank, swapped, threads):
    rng = np.random.default_rng(seed)
    shape = shape_of(rng, rank)
    axes = {"batch_axis": 0, "time_axis": 1} if swapped else {}
    batch, time = (0, 1) if swapped else (1, 0)
    x, lengths = numbers(rng, shape, "float32"), rng.integers(0, shape[time] + 1, shape[batch])
    want = x.copy()
    for i, n in enumerate(lengths):
        of, to = (np.moveaxis(v, (batch, time), (0, 1))[i, :n] for v in (x, want))
        to[...] = of[::-1]
    np.testing.assert_array_equal(ran("ReverseSequence", [x, lengths], threads, **axes), want, strict=True)


@given(SEEDS, st.integers(1, 3), st.sampled_from(TYPES[:8]), st.booleans(), st.booleans(), THREADS)
def test_places_along_an_axis(seed, rank, dtype, largest, last, threads):
    rng = np.random.default_rng(seed)
    shape, axis = [max(n, 1) for n in shape_of(rng, rank)], int(rng.integers(rank))
    shape[-1] *= int(rng.choice([1, 50]))
    x = numbers(rng, shape, dtype)
    find = np.argmax if largest else np.argmin
    want = shape[axis] - 1 - find(np.flip(x, axis), axis) if last else find(x, axis)
    got = ran("ArgMax" if largest else "ArgMin", [x], threads, axis=axis, keepdims=0, select_last_index=int(last))
    np.testing.assert_array_equal(got, want, strict=True)


@given(
    SEEDS,
    st.integers(1, 3),
    st.sampled_from(["float32", "uint8", "int8", "float64", "float16"]),
    st.booleans(),
    THREADS,
)
def test_places_of_pooling(seed, axes, dtype, by_column, threads):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 12, axes)
    if rng.integers(3) == 0:
        size = np.minimum(size, 2)
        size[-1] = 600
    kernel, strides, dilations = rng.integers(1, 4, axes), rng.integers(1, 4, axes), rng.integers(1, 3, axes)
    pads = [int(rng.integers(0, k)) for k in (*kernel, *kernel)]
    if any(n + p + q < (k - 1) * d + 1 for n, p, q, k, d in zip(size, pads, pads[axes:], kernel, dilations)):
        return
    x = numbers(rng, (2, 2, *size), dtype)
    windows = {"kernel_shape": kernel.tolist(), "strides": strides.tolist(), "dilations": dilations.tolist()}
    y, places = ran("MaxPool", [x], threads, **windows, pads=pads, storage_order=int(by_column), indices=True)
    flat = np.arange(x.size).reshape(2, 2, *(size[::-1] if by_column else size))
    flat = flat.transpose(0, 1, *range(axes + 1, 1, -1)) if by_column else flat
    want, want_places = y.copy(), np.zeros_like(places)  # windows of pads alone may hold anything
    for at in np.ndindex(y.shape):
        best, place = None, 0
        for tap in np.ndindex(*kernel):
            i = tuple(o * s - p + t * d for o, s, p, t, d in zip(at[2:], strides, pads, tap, dilations))
            if not all(0 <= j < n for j, n in zip(i, size)):
                continue
            value = x[(*at[:2], *i)]
            if best is None or value > best or value != value:  # of NaN the last one, as torch
                best, place = value, flat[(*at[:2], *i)]
        if best is not None:
            want[at], want_places[at] = best, place
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(places, want_places)


@given(SEEDS, st.integers(2, 4), st.sampled_from(TYPES), st.integers(-9, 9), st.booleans(), THREADS)
def test_triangles(seed, rank, dtype, k, upper, threads):
    rng = np.random.default_rng(seed)
    x = numbers(rng, shape_of(rng, rank), dtype)
    got = ran("Trilu", [x, np.array(k)], threads, upper=int(upper))
    np.testing.assert_array_equal(got, (np.triu if upper else np.tril)(x, k), strict=True)


@given(SEEDS, st.sampled_from(["float32", "int64", "uint32"]), st.booleans(), st.booleans(), THREADS)
def test_running_sums_of_columns(seed, dtype, exclusive, reverse, threads):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, (int(rng.integers(0, 9)), int(rng.integers(1, 6)), 1500)).astype(dtype)
    got = ran("CumSum", [x, np.array(1)], threads, exclusive=int(exclusive), reverse=int(reverse))
    flipped = x[:, ::-1] if reverse else x
    want = flipped.cumsum(1, dtype=dtype) - (flipped if exclusive else np.zeros((), dtype))
    np.testing.assert_array_equal(got, want[:, ::-1] if reverse else want)


# ---- between pixels


@given(SEEDS, st.integers(2, 3), st.sampled_from(["linear", "nearest", "cubic"]),
       st.sampled_from(["zeros", "border", "reflection"]), st.booleans(), THREADS)  # fmt: skip
def test_grids(seed, axes, mode, padding, aligned, threads):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    mode = mode if axes == 2 else {"cubic": "linear"}.get(mode, mode)
    size, out = rng.integers(1, 7, axes), rng.integers(1, 20, axes)
    x = rng.standard_normal((2, int(rng.integers(1, 7)), *size))
    grid = rng.uniform(-2.5, 2.5, (2, *out, axes))
    dtype = rng.choice(["float32", "float64"])
    names = {"linear": "bilinear", "cubic": "bicubic"}
    want = torch.nn.functional.grid_sample(
        torch.from_numpy(x), torch.from_numpy(grid), names.get(mode, mode), padding, bool(aligned)
    ).numpy()
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": int(aligned)}
    got = ran("GridSample", [x.astype(dtype), grid], threads, **attributes)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 if dtype == "float32" else 1e-12)


def bin_of(x, begin, step, count, mode):
    """The mean or largest of count[0] x count[1] points of a plane, by the definition."""
    values = []
    for i in range(count[0]):
        for j in range(count[1]):
            at, taps = (begin[0] + (i + 0.5) * step[0], begin[1] + (j + 0.5) * step[1]), []
            outside = any(not -1 <= v <= n for v, n in zip(at, x.shape))
            for v, n in zip(at, x.shape):
                v = min(max(v, 0), n - 1)
                low = int(v)
                taps.append([(low, 1 - (v - low)), (min(low + 1, n - 1), v - low)])
            corners = [0 if outside else x[a, b] * (p * q) for a, p in taps[0] for b, q in taps[1]]
            values.append(sum(corners) if mode == "avg" else max(corners))
    return (np.mean(values) if mode == "avg" else max(values)) if values else 0


@given(SEEDS, st.sampled_from(["avg", "max"]), st.integers(0, 2), st.booleans(), st.sampled_from([1, 5, 70]), THREADS)
def test_regions(seed, mode, ratio, half, channels, threads):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, channels, *rng.integers(1, 9, 2)))
    corner = rng.uniform(-3, 9, (3, 2))
    rois, images = np.concatenate([corner, corner + rng.uniform(-1, 9, (3, 2))], 1), rng.integers(0, 2, 3)
    size = rng.integers(1, 4, 2)
    attributes = {
        "mode": mode, "sampling_ratio": ratio, "output_height": int(size[0]), "output_width": int(size[1]),
        "coordinate_transformation_mode": "half_pixel" if half else "output_half_pixel", "spatial_scale": 0.5,
    }  # fmt: skip
    got = ran("RoiAlign", [x, rois, images], threads, **attributes)
    for r in range(3):
        corners = rois[r] * 0.5 - 0.5 * half
        begin, span = corners[1::-1], corners[3:1:-1] - corners[1::-1]
        each = (span if half else np.maximum(span, 1)) / size
        count = [ratio or max(int(np.ceil(v)), 0) for v in each]
        for at in np.ndindex(*size):
            step = each / np.maximum(count, 1)
            for c in {0, channels - 1}:
                want = bin_of(x[images[r], c], begin + np.array(at) * each, step, count, mode)
                np.testing.assert_allclose(got[(r, c, *at)], want, rtol=1e-9, atol=1e-12)


@given(SEEDS, st.integers(1, 3), st.sampled_from(["float32", "float64", "float16", "int32"]), THREADS)
def test_columns(seed, axes, dtype, threads):
    rng = np.random.default_rng(seed)
    block, strides, dilations = (rng.integers(1, 4, axes).tolist() for _ in range(3))
    pads = rng.integers(0, 3, 2 * axes).tolist()
    image = [int(max(rng.integers(1, 9), d * (k - 1) + 1 - p - q))
             for k, d, p, q in zip(block, dilations, pads, pads[axes:])]  # fmt: skip
    counts = [(n + p + q - d * (k - 1) - 1) // s + 1
              for n, k, s, d, p, q in zip(image, block, strides, dilations, pads, pads[axes:])]  # fmt: skip
    x = rng.integers(-9, 9, (2, 3 * np.prod(block), np.prod(counts))).astype(dtype)
    want = np.zeros((2, 3, *image), dtype)
    for at in np.ndindex(*block, *counts):
        i = tuple(w * s + t * d - p for t, w, s, d, p in zip(at, at[axes:], strides, dilations, pads))
        if all(0 <= j < n for j, n in zip(i, image)):
            of = x.reshape(2, 3, *block, *counts)[(slice(None), slice(None), *at)]
            want[(slice(None), slice(None), *i)] += of
    attributes = {"strides": strides, "dilations": dilations, "pads": pads, "threads": threads}
    inputs = [x, np.array(image), np.array(block)]
    got = OPERATORS["Col2Im"].run(inputs, {**attributes, "op": "Col2Im"})[0]
    np.testing.assert_array_equal(got, want, strict=True)


@given(SEEDS)
def test_regions_as_onnxruntime_cuts_them(seed):
    """Corners on halves, too, before the image as well as in it."""
    pytest.importorskip("onnxruntime", reason="the extra compare; test_largest_of_regions has the definition")
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 3, *rng.integers(1, 12, 2))).astype(np.float32)
    corner = rng.integers(-12, 20, (9, 2)) / 2
    rois = np.concatenate([rng.integers(0, 2, (9, 1)), corner, corner + rng.integers(-3, 30, (9, 2)) / 2], 1)
    inputs, size = {"x": x, "r": rois.astype(np.float32)}, rng.integers(1, 8, 2).tolist()
    scale = float(rng.choice([0.25, 0.5, 1.0]))
    of = [helper.make_tensor_value_info(name, 1, v.shape) for name, v in inputs.items()]
    node = helper.make_node("MaxRoiPool", list(inputs), ["y"], pooled_shape=size, spatial_scale=scale)
    graph = helper.make_graph([node], "g", of, [helper.make_tensor_value_info("y", 1, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (want,) = by_onnxruntime(proto, inputs) or ()
    got = ran("MaxRoiPool", list(inputs.values()), pooled_shape=size, spatial_scale=scale)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("shape", "axis"), [((0, 0), 1), ((3, 0, 0), 1), ((0, 5), 1), ((0, 5), 0)])
def test_best_along_an_axis_of_nothing(shape, axis):
    """An empty result is one; any other is refused."""
    result = tuple(1 if i == axis else n for i, n in enumerate(shape))
    if 0 in result:
        assert ran("ArgMax", [np.zeros(shape, np.float32)], axis=axis).shape == result
    else:
        with pytest.raises(ValueError, match="empty"):
            ran("ArgMax", [np.zeros(shape, np.float32)], axis=axis)


@given(SEEDS, st.sampled_from(["float32", "float64", "float16"]), THREADS)
def test_largest_of_regions(seed, dtype, threads):
    rng = np.random.default_rng(seed)
    x = numbers(rng, (2, 3, *rng.integers(1, 9, 2)), dtype)
    corner, size = rng.uniform(-3, 9, (4, 2)), rng.integers(1, 4, 2)
    images = rng.integers(0, 2, 4)
    rois = np.concatenate([images[:, None], corner, corner + rng.uniform(-2, 9, (4, 2))], 1).astype(dtype)
    rois = np.round(rois) if rng.integers(2) else rois  # corners on halves, by the scale
    got = ran("MaxRoiPool", [x, rois], threads, pooled_shape=size.tolist(), spatial_scale=0.5)
    for r, at in np.ndindex(4, int(size.prod())):
        p, cuts = np.unravel_index(at, size), []
        for i, n in enumerate(x.shape[2:]):
            begin, end = (int(math.copysign(math.floor(abs(float(rois[r, k - i])) * 0.5 + 0.5), rois[r, k - i]))
                          for k in (2, 4))  # fmt: skip
            each = np.float32(max(end - begin + 1, 1)) / np.float32(size[i])
            edges = np.floor(np.float32(p[i]) * each), np.ceil(np.float32(p[i] + 1) * each)
            cuts.append(slice(*(min(max(int(v) + begin, 0), n) for v in edges)))
        window = x[(images[r], slice(None), *cuts)]
        want = window.max((1, 2)) if window.size else np.zeros(3, dtype)
        np.testing.assert_array_equal(got[(r, slice(None), *p)], want)


@given(SEEDS, st.sampled_from(["int64", "int8", "uint8", "int32"]))
def test_whole_divisions(seed, dtype):
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    a, b = (rng.choice([limits.min, limits.min + 1, 0, 1, 3, 7, limits.max, limits.max // 2], 40).astype(dtype)
            for _ in range(2))  # fmt: skip
    b[b == 0] = 1  # undefined
    keep = ~((a == limits.min) & (b.astype(np.int64) == -1))
    want = [abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1) for p, q in zip(a.tolist(), b.tolist())]
    np.testing.assert_array_equal(ran("Div", [a, b])[keep], np.array(want, object)[keep].astype(dtype), strict=True)


def test_strides_of_axes_of_one_element_mean_nothing():
    x = np.arange(5, dtype=np.float32).reshape(5, 1).T
    assert x.strides[0] == x.itemsize and x.flags.c_contiguous
    np.testing.assert_array_equal(ran("GatherElements", [x, np.zeros((1, 5), np.int64)], axis=0), x)


def test_regions_whose_extent_overflows_are_refused():
    corners = np.array([[-1.7e308, -1.7e308, 1.7e308, 1.7e308]])
    with pytest.raises(ValueError, match="not finite"):
        ran("RoiAlign", [np.ones((1, 1, 1, 1)), corners, np.zeros(1, np.int64)], sampling_ratio=1)


# ---- running sums of rows, the best of rows


@given(SEEDS, st.sampled_from(["float32", "float64", "int64", "uint32"]), st.sampled_from(["CumSum", "CumProd"]),
       st.booleans(), st.booleans(), THREADS)  # fmt: skip
def test_running_rows(seed, dtype, op, exclusive, reverse, threads):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, (int(rng.integers(0, 12)), int(rng.integers(0, 3)), int(rng.integers(0, 70)))).astype(dtype)
    got = ran(op, [x, np.array(-1)], threads, exclusive=int(exclusive), reverse=int(reverse))
    flipped = x[..., ::-1] if reverse else x
    before = np.insert(flipped, 0, 0 if op == "CumSum" else 1, -1)[..., :-1] if exclusive and x.size else flipped
    want = (np.cumsum if op == "CumSum" else np.cumprod)(before, -1, dtype=dtype)
    np.testing.assert_array_equal(got, want[..., ::-1] if reverse else want, strict=True)


def test_running_sums_are_those_of_their_row_where_others_have_nan():
    x = np.ones((7, 40), np.float32)
    x[2, 5], x[5, 0] = np.nan, np.inf
    got = ran("CumSum", [x, np.array(1)])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, x.cumsum(1, dtype=np.float32))


@given(SEEDS, st.sampled_from(["float32", "float64", "int64", "int32", "uint8", "int8"]), st.booleans(), THREADS)
def test_the_best_of_rows(seed, dtype, largest, threads):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, (int(rng.integers(0, 9)), int(rng.integers(1, 70)))).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.1] = -np.inf
        x[(rng.random(x.shape) < 0.1) & (rng.random(len(x)) < 0.3)[:, None]] = np.nan
        x = np.where(x == 0, np.copysign(x, rng.choice([-1, 1], x.shape)), x).astype(dtype)
    node = Node("TopK", ("x", "k"), ("v", "i"), {"largest": int(largest)})
    values, places = run(node, [x, np.array([1])], {**node.attributes, "threads": threads})
    key = np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x
    nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
    order = [sorted(range(x.shape[1]), key=lambda j: (nan[i, j], key[i, j]) if not largest else
                    (not nan[i, j], -float(key[i, j])))[0] for i in range(len(x))]  # fmt: skip
    np.testing.assert_array_equal(places[:, 0], order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, places, 1), strict=True)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(np.take_along_axis(x, places, 1)))
