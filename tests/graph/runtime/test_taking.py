"""Elements taken by indices along each axis, and interpolation: the operations, and the operators that they run."""

import ml_dtypes
import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded
from oracle.network import evaluate

from layoutkit._core.nests.images.blend import Interpolation
from layoutkit._core.nests.moves.take import Take
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model

F32 = np.dtype(np.float32)
LAYOUTS = [None, "plain", "channels last", "blocked"]
ENDS = st.sampled_from(["low", "high"])
STORED = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
WIDTHS = [np.uint8, np.float16, np.float32, np.int64]
KEPT = []
rng = np.random.default_rng(0)


def between_pages(array, end):
    """A copy between guard pages, of which the last two live."""
    held = guarded(np.ascontiguousarray(array).reshape(-1).view(np.uint8), end)
    KEPT[:] = [*KEPT[-1:], held]
    return np.frombuffer(held.array, array.dtype).reshape(array.shape)


@st.composite
def indices_along(draw, n):
    """Indices of an axis of n: slices, repetitions, reflections, any."""
    every = np.arange(n)
    kind = draw(st.sampled_from(["whole", "whole", "step", "repeat", "reflect", "fill", "any"]))
    if kind == "step":
        return every[:: draw(st.sampled_from([1, 2, 3, -1, -2]))]
    if kind == "repeat":
        return np.repeat(every, draw(st.integers(1, 4)))[: draw(st.integers(1, 4 * n))]
    if kind == "reflect":
        return np.pad(every, (draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))), mode="reflect")
    if kind == "fill":
        return np.pad(every, (draw(st.integers(0, 3)), draw(st.integers(0, 3))), constant_values=-1)
    if kind == "any":
        return np.array(draw(st.lists(st.integers(-1, n - 1), min_size=1, max_size=40)))
    return every


@given(st.data(), st.sampled_from(WIDTHS), st.sampled_from(WHOLE_ISAS), st.integers(1, 3), ENDS)
def test_take(data, dtype, isa, threads, end):
    shape = data.draw(st.lists(st.integers(1, 20), max_size=4))
    indices = [data.draw(indices_along(n)) for n in shape]
    x = rng.integers(0, 100, shape).astype(dtype)
    want = x[np.ix_(*(np.maximum(at, 0) for at in indices))] if shape else x.copy()
    for axis, at in enumerate(indices):
        want[(slice(None),) * axis + (at < 0,)] = 77
    x = between_pages(x, end)
    larger = [n + data.draw(st.integers(0, 2)) * (axis >= len(shape) - 2) for axis, n in enumerate(want.shape)]
    y = between_pages(np.full(larger, 5, dtype), end)  # the result is a part of an array
    part = y[tuple(map(slice, want.shape))] if shape else y
    with using_isa(isa):
        Take(x, part, [np.asarray(at, np.int64) for at in indices], np.array(77, dtype), threads)(x, part)
    np.testing.assert_array_equal(part, want)
    part[...] = 5
    assert (y == 5).all()


@pytest.mark.parametrize("dtype", WIDTHS)
def test_take_of_rows_with_many_fills(dtype):
    """A row of more pieces than those that are copied for several rows at a time."""
    x = rng.integers(0, 100, (3, 40)).astype(dtype)
    at = np.where(np.arange(60) % 3 == 1, -1, np.arange(60) * 7 % 40)
    y = np.empty((3, 60), dtype)
    Take(x, y, [np.arange(3), at], np.array(9, dtype), 2)(x, y)
    np.testing.assert_array_equal(y, np.where(at < 0, 9, x[:, at]))


def test_take_of_many_bytes_by_threads():
    x = rng.integers(0, 100, (3, 40, 50, 64)).astype(np.uint8)
    indices = [np.arange(3), np.repeat(np.arange(40), 2), np.r_[-1, np.arange(50), -1], np.arange(64)]
    y = np.empty([len(at) for at in indices], np.uint8)
    Take(x, y, indices, np.array(9, np.uint8), 3)(x, y)
    np.testing.assert_array_equal(y, np.pad(np.repeat(x, 2, 1), ((0, 0), (0, 0), (1, 1), (0, 0)), constant_values=9))


@given(st.data(), st.sampled_from(WHOLE_ISAS), ENDS)
def test_take_along_long_rows(data, isa, end):
    """Elements of 32 bits of several rows, near to one another or not, by several windows of vectors."""
    n, rows = data.draw(st.integers(20, 700)), data.draw(st.integers(1, 5))
    at = np.sort(rng.integers(0, n, data.draw(st.integers(1, 1200)))) if data.draw(st.booleans()) else None
    if at is None:
        at = np.arange(data.draw(st.integers(1, 1200))) * data.draw(st.sampled_from([0.3, 0.5, 0.77, 1, 1.4]))
        at = np.minimum(at.astype(np.int64), n - 1)[:: data.draw(st.sampled_from([1, -1]))]
    if data.draw(st.booleans()):
        at[data.draw(st.integers(0, len(at) - 1)) :] = data.draw(st.integers(0, n - 1))
    x = between_pages(rng.standard_normal((rows, n)).astype(np.float32), end)
    y = between_pages(np.zeros((rows * 2, len(at)), np.float32), end)
    with using_isa(isa):
        Take(x, y, [np.repeat(np.arange(rows), 2), at.astype(np.int64)], np.zeros((), np.float32), 2)(x, y)
    np.testing.assert_array_equal(y, np.repeat(x, 2, 0)[:, at])


@pytest.mark.parametrize("rows", [[0, 0, 0], [0, 0, 1, 1], [0, 1, 2], [0, 0, 1]])
def test_take_of_equal_rows_to_parts_of_an_array(rows):
    """Equal rows, and rows at equal distances, are not equally far apart in the result."""
    x, y = rng.standard_normal((3, 8)).astype(np.float32), np.zeros((3, 3, len(rows) + 1, 16), np.float32)
    part = y[:, :2, : len(rows)]
    indices = [np.zeros(3, np.int64), np.zeros(2, np.int64), np.array(rows), np.repeat(np.arange(8), 2)]
    Take(x, part, indices, np.zeros((), np.float32), 1, (x[None, None], part))(x, part)
    np.testing.assert_array_equal(part, np.broadcast_to(np.repeat(x[rows], 2, 1), part.shape))
    part[...] = 0
    assert not y.any()


def test_what_take_refuses():
    x, fill = np.zeros((2, 3), np.float32), np.zeros((), np.float32)
    with pytest.raises(IndexError, match="index 3 of an axis of 3"):
        Take(x, np.zeros((2, 1), np.float32), [np.arange(2), np.array([3])], fill, 1)
    with pytest.raises(ValueError, match="indices of"):
        Take(x, np.zeros((2, 2), np.float32), [np.arange(2), np.arange(3)], fill, 1)
    with pytest.raises(ValueError, match="bytes"):
        Take(x, np.zeros((2, 3), np.float64), [np.arange(2), np.arange(3)], fill, 1)


@given(st.data(), st.sampled_from(WHOLE_ISAS), st.integers(1, 3), ENDS, st.sampled_from(["f32", "bf16", "f16"]))
def test_interpolation(data, isa, threads, end, types):
    """Of narrow numbers as of those that they are in float32, rounded once."""
    rank, axes = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 1))
    outer = [data.draw(st.integers(1, 3)) for _ in range(axes)]
    size = [data.draw(st.integers(1, 40 if i == rank - 1 else 5)) for i in range(rank)]
    unit = data.draw(st.sampled_from([1, 1, 2, 3, 16, 17, 33]))
    x = rng.standard_normal((*outer, *size, unit)).astype(np.float32).astype(STORED[types])
    want, taps = x.astype(np.float64), []
    for i, n in enumerate(size):
        m = data.draw(st.integers(1, 60 if i == rank - 1 else 5))
        count = data.draw(st.integers(1, 8))
        at = np.sort(rng.integers(0, n, (count, m)), 1)
        weight = rng.uniform(-1, 1, (count, m))
        if data.draw(st.booleans()):
            taps.append(None)
            continue
        along = [1] * want.ndim
        along[axes + i] = m
        want = sum(np.take(want, a, axes + i) * w.reshape(along) for a, w in zip(at, weight))
        taps.append((at, weight))
    x = between_pages(x, end)
    more = data.draw(st.integers(0, 2))
    y = between_pages(np.full((*want.shape[:-1], unit + more), 5, x.dtype), end)
    part = y[..., :unit]
    with using_isa(isa):
        Interpolation(x, part, axes, unit, taps, threads, types)(x, part)
        if types != "f32":
            wide, want = x.astype(np.float32), want.astype(np.float32)
            Interpolation(wide, want, axes, unit, taps, 1)(wide, want)
    if types == "f32":
        np.testing.assert_allclose(part, want, atol=1e-4)
    else:
        np.testing.assert_array_equal(part.copy().view(np.uint16), want.astype(x.dtype).view(np.uint16))
    assert (y[..., unit:] == 5).all()


def test_what_interpolation_refuses():
    x, y = np.zeros((4, 6), np.float32), np.zeros((4, 9), np.float32)
    at, weight = np.zeros((2, 9), np.int64), np.ones((2, 9))
    for arguments, message in (
        ((x, y, 1, 1, [None]), "do not lead from 6 to 9"),
        ((x[:, ::2], y, 1, 1, [(at, weight)]), "not contiguous"),
        ((x, y, 1, 2, [(at, weight)]), "expected 2 elements"),
        ((x, y, 1, 1, [(at, weight)], 1, "bf16"), "4 bytes"), ((x, y, 1, 1, [(at + 6, weight)]), "do not lead"),
        ((x, y, 1, 1, [(9 - np.arange(9)[None].repeat(2, 0) // 2, weight)]), "do not lead|descend"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            Interpolation(*arguments[:5], 1, *arguments[6:])


@st.composite
def movers(draw):
    """A node, the shape of its input, and constants."""
    op = draw(st.sampled_from(["Slice", "Pad", "Resize", "Resize", "Expand", "Tile", "Gather"]))
    rank = draw(st.integers(2, 5))
    shape = [draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 16, 20]))]
    shape += [draw(st.integers(1, 7)) for _ in range(rank - 2)]
    each = range(rank)
    if op == "Slice":
        axes = draw(st.permutations(each))[: draw(st.integers(1, rank))]
        numbers = {"starts": st.integers(-8, 8), "ends": st.integers(-9, 9), "steps": st.sampled_from([1, 2, -1, -2])}
        given = {name: np.array([draw(of) for _ in axes]) for name, of in numbers.items()}
        inputs = {"starts": given["starts"], "ends": given["ends"], "axes": np.array(axes), "steps": given["steps"]}
        return Node(op, ("a", *inputs), ("y",)), shape, inputs
    if op == "Pad":
        pads = [draw(st.integers(-1, 3)) if i % rank > 1 or draw(st.booleans()) else 0 for i in range(2 * rank)]
        for i, n in enumerate(shape):  # an axis cannot lose more than it has
            pads[rank + i] = max(pads[rank + i], -n - pads[i])
        pads = np.array(pads)
        mode = draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
        inputs = {"pads": pads, **({"value": np.array(2.5, np.float32)} if mode == "constant" else {})}
        return Node(op, ("a", *inputs), ("y",), {"mode": mode}), shape, inputs
    if op == "Resize":
        whole = [1, 1, *(draw(st.sampled_from([1, 2, 3, 0.5, 1.7, 0.6, 0.3])) for _ in range(rank - 2))]
        whole[1] = draw(st.sampled_from([1, 1, 1, 2]))
        places = "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
        attributes = {
            "mode": draw(st.sampled_from(["nearest", "linear", "cubic"])),
            "coordinate_transformation_mode": draw(st.sampled_from(places)),
            "nearest_mode": draw(st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])),
        }
        if attributes["mode"] != "nearest":
            attributes |= {name: draw(st.integers(0, 1)) for name in ("antialias", "exclude_outside")}
        return Node(op, ("a", "", "scales"), ("y",), attributes), shape, {"scales": np.array(whole, np.float32)}
    if op == "Expand":
        target = [draw(st.integers(1, 3)) if n == 1 else n for n in shape]
        return Node(op, ("a", "to"), ("y",)), shape, {"to": np.array([2] * draw(st.integers(0, 1)) + target)}
    if op == "Tile":
        return Node(op, ("a", "times"), ("y",)), shape, {"times": np.array([draw(st.integers(1, 3)) for _ in each])}
    axis = draw(st.sampled_from(each))
    at = rng.integers(-shape[axis], shape[axis], draw(st.sampled_from([(), (3,), (2, 2)])))
    return Node(op, ("a", "at"), ("y",), {"axis": axis}), shape, {"at": at}


@given(movers(), st.sampled_from(LAYOUTS), st.integers(1, 2), st.sampled_from([np.float32, np.int64, np.uint8]))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators(mover, layouts, threads, dtype):
    node, shape, constants = mover
    nodes = [node]
    x = rng.integers(-9, 9, shape).astype(dtype)
    if dtype is np.float32 and len(shape) > 2:  # in the layouts that convolutions like
        taps = rng.integers(-2, 3, (shape[1], shape[1], *[1] * (len(shape) - 2)))
        constants = {**constants, "w": taps.astype(np.float32)}
        nodes = [Node("Conv", ("x", "w"), ("a",)), node]
    else:
        nodes = [Node("Abs", ("x",), ("a",)), node]
    graph = Graph(nodes, {"x": TensorType(np.dtype(dtype), tuple(shape))}, ("y",), constants)
    try:
        want = evaluate(graph, {"x": x})["y"]
    except ValueError:
        with pytest.raises(ValueError):
            Model(graph, layouts=layouts, threads=threads).run(x)
        return
    got = Model(graph, layouts=layouts, threads=threads).run(x)["y"]
    assert got.dtype == want.dtype
    if dtype is np.float32:
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max(initial=1))
    else:
        np.testing.assert_array_equal(got, want)
