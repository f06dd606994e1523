"""Transposed convolutions whose phases are joined as output channels: each candidate against the obvious sum."""

import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from random_cases.numbers import exact
from strategies import activations, in_proportion
from strided import placed, placements

import layoutkit as lk
from layoutkit._core.nests.convolutions.route import laid_out_as
from layoutkit._core.nests.convolutions.transposed import TransposedConvolution
from layoutkit.choosing.best import choices
from layoutkit.convolutions.joined import joined_axis
from layoutkit.convolutions.route import Arrays
from layoutkit.convolutions.transposed import task_of
from layoutkit.convolutions.types import TYPES

CLASSES = {1: lk.ConvTranspose1d, 2: lk.ConvTranspose2d, 3: lk.ConvTranspose3d}
LAYOUTS = {1: ["NCW", "NWC", "nCw16c"], 2: ["NCHW", "NHWC", "CNHW"], 3: ["NCDHW", "NDHWC"]}


@st.composite
def problems(draw):
    rank = draw(st.sampled_from([1, 1, 2, 3]))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    groups, stride = draw(st.sampled_from([1, 1, 2, 3])), each(1, 4 if rank < 3 else 2)
    kernel = tuple(s + extra for s, extra in zip(stride, each(0, 5 if rank < 3 else 2)))
    shape = (draw(st.integers(1, 2)), groups * draw(st.sampled_from([1, 3, 16])), *each(1, 40 if rank == 1 else 6))
    attributes = dict(
        stride=stride, padding=tuple(zip(each(-2, 5), each(-2, 5))), groups=groups,
        output_padding=tuple(draw(st.integers(0, s - 1)) for s in stride),
        dilation=tuple(1 if s > 1 else draw(st.integers(1, 2)) for s in stride),
    )  # fmt: skip
    return rank, shape, draw(st.sampled_from([1, 2, 3, 8])), kernel, attributes


def joined_routes(op, x, y, shape, compiled=False):
    """The routes of joined phases between arrays like these, with their packed filters."""
    for choice in choices(task_of(op, shape)):
        if choice.candidate.name.startswith("joined"):
            route = choice.candidate.build(Arrays(x.strides, y.strides), compiled)
            yield route, [op._pack(route, part, step) for part, step in route.steps]


@given(problems(), st.sampled_from([t for t in TYPES.values() if not t.integers]), st.data())
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_any_joined(problem, types, data):
    rank, shape, outputs, kernel, attributes = problem
    rng, oc = np.random.default_rng(0), outputs * attributes["groups"]
    x = rng.integers(-4, 5, shape).astype(types.src)  # sums are exact
    w = rng.integers(-4, 5, (shape[1], outputs, *kernel)).astype(types.src)
    bias = rng.integers(-4, 5, oc).astype(types.src) if data.draw(st.booleans()) else None
    out = [(n - 1) * s - a - b + d * (k - 1) + e + 1 for n, s, (a, b), d, k, e in zip(
        shape[2:], attributes["stride"], attributes["padding"], attributes["dilation"], kernel,
        attributes["output_padding"])]  # fmt: skip
    assume(min(out) >= 1)
    cut, more = zip(*(((max(0, a), max(0, b)), (max(0, -a), max(0, -b))) for a, b in attributes["padding"]))
    want = reference.conv_transpose(x, w, None, **attributes | {"padding": [(0, 0)] * rank})
    want = np.pad(want, [(0, 0), (0, 0), *more])
    want = want[(slice(None), slice(None), *(slice(a, n - b) for (a, b), n in zip(cut, want.shape[2:])))]
    if bias is not None:
        want = want + exact(bias).reshape(-1, *[1] * rank)
    add = rng.integers(-4, 5, want.shape).astype(types.dst) if data.draw(st.booleans()) else None
    if add is not None:
        want = want + exact(add)
    slopes = rng.integers(0, 3, oc).astype(types.sum)
    tensor = rng.integers(-4, 5, want.shape).astype(types.dst) if data.draw(st.booleans()) else None
    activation = [("prelu", slopes)] + [("mul", tensor)] * (tensor is not None)
    want = np.where(want > 0, want, want * exact(slopes).reshape(-1, *[1] * rank))
    want = (want if tensor is None else want * exact(tensor)).astype(types.dst)
    src = lk.Layout(data.draw(st.sampled_from(LAYOUTS[rank]) | activations(rank)))
    dst = lk.Layout(data.draw(st.sampled_from([n for n in LAYOUTS[rank] if lk.Layout(n).is_plain])))
    assume(in_proportion(src, x))
    accuracy = data.draw(st.sampled_from(["strict", "standard"]))
    with using_isa(data.draw(st.sampled_from(NEST_ISAS))):
        op = CLASSES[rank](w, bias, layout=src, out_layout=dst, accuracy="strict" if types.narrow else accuracy,
                           threads=data.draw(st.integers(1, 3)), activation=activation, dtype=types.dst,
                           **attributes)  # fmt: skip
        source = reference.to_physical(x, src, np.nan)
        source = placed(source, data.draw(placements(source.ndim, True)))
        expected, residual, factor = (None if a is None else reference.to_physical(a, dst) for a in (want, add, tensor))
        result = placed(np.full(expected.shape, 9, expected.dtype), data.draw(placements(expected.ndim, True)))
        tensors = [] if factor is None else [laid_out_as(factor, result)]
        steps = op._filter.epilogue.over(tensors) if tensors else op._filter.epilogue
        for route, packed in joined_routes(op, source, result, shape):
            given = None if residual is None else laid_out_as(residual, result)
            if given is not None and data.draw(st.booleans()):
                result[...], given = residual, result
            space = np.empty(route.needs(given is not None, steps), np.uint8)
            route.run(source, packed, result, steps, given, data.draw(st.sampled_from([None, space])))
            np.testing.assert_allclose(exact(result), exact(expected), rtol=0, atol=0 if accuracy == "strict" else 1e-3)


@given(problems(), st.sampled_from([t for t in TYPES.values() if t.integers and t.dst != np.int32]), st.data())
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_any_joined_of_integers(problem, types, data):
    rank, shape, outputs, kernel, attributes = problem
    attributes["padding"] = tuple((max(0, a), max(0, b)) for a, b in attributes["padding"])
    rng, oc, zero = np.random.default_rng(0), outputs * attributes["groups"], data.draw(st.integers(0, 99))
    x = rng.integers(0, 100, shape).astype(types.src)
    w = rng.integers(-128, 127, (shape[1], outputs, *kernel), np.int8, endpoint=True)
    out = [(n - 1) * s - a - b + d * (k - 1) + e + 1 for n, s, (a, b), d, k, e in zip(
        shape[2:], attributes["stride"], attributes["padding"], attributes["dilation"], kernel,
        attributes["output_padding"])]  # fmt: skip
    assume(min(out) >= 1)
    bias = rng.integers(-9999, 9999, oc, np.int32) if data.draw(st.booleans()) else None
    finish = {"scale": np.exp2(rng.uniform(-12, 0, oc)).astype(np.float32)}
    if types.dst != np.float32:
        finish["out_zero_point"] = data.draw(st.integers(0, 99))
    sums = reference.conv_transpose(x.astype(np.int64) - zero, w, None, **attributes)
    want = reference.requantized(sums, bias, types.dst, **finish)
    src, dst = (lk.Layout(data.draw(st.sampled_from([n for n in LAYOUTS[rank] if "1" not in n]))) for _ in range(2))
    with using_isa(data.draw(st.sampled_from(NEST_ISAS))):
        op = CLASSES[rank](w, bias, layout=src, out_layout=dst, zero_point=zero, dtype=(types.src, types.dst),
                           threads=data.draw(st.integers(1, 3)), **finish, **attributes)  # fmt: skip
        source, expected = reference.to_physical(x, src), reference.to_physical(want, dst)
        result = np.empty_like(expected)
        for route, packed in joined_routes(op, source, result, shape):
            route.run(source, packed, result, op._filter.epilogue, None)
            np.testing.assert_array_equal(result, expected)


@given(problems(), st.integers(1, 3), st.data())
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_reproducible_bits(problem, threads, data):
    """Phases that are joined and phases that are not sum in the same order."""
    rank, shape, outputs, kernel, attributes = problem
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x, w = (rng.standard_normal(s, np.float32) * rng.integers(-1, 2, s).astype(np.float32)
            for s in (shape, (shape[1], outputs, *kernel)))  # fmt: skip
    layout = data.draw(st.sampled_from(LAYOUTS[rank]).filter(lambda name: "1" not in name))
    op = CLASSES[rank](w, layout=layout, accuracy="reproducible", threads=threads, **attributes)
    try:
        task = task_of(op, shape)
    except ValueError:
        assume(False)
    x = reference.to_physical(x, lk.Layout(layout))
    results = []
    for choice in choices(task):
        y = np.full(task.dst.physical_shape(task.y_shape), np.nan, np.float32)
        route = choice.candidate.build(Arrays(x.strides, y.strides))
        route.run(x, [op._pack(route, part, step) for part, step in route.steps], y, None, None)
        results.append(y.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("layouts", [("NCW", "NCW"), ("NWC", "NWC"), ("NCW", "NWC"), ("nCw16c", "NCW")])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(4, 2, 1), (4, 2, 0), (16, 8, 4), (5, 3, 2), (2, 2, 0)])
def test_compiled_steps_are_the_same(layouts, kernel, stride, padding):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 16, 50), np.float32), rng.standard_normal((16, 2, kernel), np.float32)
    op = lk.ConvTranspose1d(w, rng.standard_normal(2, np.float32), stride=stride, padding=padding, layout=layouts[0],
                            out_layout=layouts[1], activation=("prelu", np.float32([0.5, 2])))  # fmt: skip
    source = reference.to_physical(x, lk.Layout(layouts[0]))
    want = op(source)
    found = 0
    for route, packed in joined_routes(op, source, want, x.shape, compiled=True):
        result = np.empty_like(want)
        operation = TransposedConvolution((source, result), *route.compiled_steps(packed, op._filter.epilogue))
        operation(source, result)
        np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
        found += 1
    assert found == 2


def test_whole_rows_with_channels_innermost_are_written_in_place():
    """Nothing moves afterwards where the results of all phases lie as the output does."""
    w = np.ones((16, 2, 4), np.float32)
    for padding, moves in ((0, 0), (2, 0), (1, 3)):
        op = lk.ConvTranspose1d(w, stride=2, padding=padding, layout="NWC")
        task = task_of(op, (1, 16, 20))
        x, y = np.ones((1, 20, 16), np.float32), np.empty(task.dst.physical_shape(task.y_shape), np.float32)
        counts = [sum(len(step.moves) for step in route.parts) for route, _ in joined_routes(op, x, y, (1, 16, 20))]
        assert moves in counts


@pytest.mark.parametrize("stride", [0, 7, 2**62, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_strides_of_axes_of_one_element_mean_nothing(layout, stride):
    op = lk.ConvTranspose1d(np.ones((3, 2, 4), np.float32), stride=4, padding=((1, 2),), layout=layout)  # one pixel
    y, axis = np.empty((1, 2, 1) if layout == "NCW" else (1, 1, 2), np.float32), layout.index("W")
    y = np.lib.stride_tricks.as_strided(y, y.shape, [stride if i == axis else s for i, s in enumerate(y.strides)])
    x = np.ones((1, 3, 1) if layout == "NCW" else (1, 1, 3), np.float32)
    assert op(x, y).ravel().tolist() == [3, 3]
    assert [*joined_routes(op, x, y, (1, 3, 1))]


def test_joined_axes_cover_every_output_and_tap_once():
    for kernel in range(1, 9):
        for stride in range(1, min(4, kernel) + 1):
            for before in range(-3, 6):
                for out in range(1, 15):
                    axes = joined_axis(9, kernel, stride, 1, before, out)
                    outputs = sorted(
                        rows.output + row * stride + phase
                        for a in axes for rows in a.pieces for row in range(rows.rows) for phase in range(rows.phases)
                    )  # fmt: skip
                    assert outputs == list(range(out)) or not axes
                    for a in axes:
                        assert len(a.inputs) + sum(a.padding) == a.rows + a.taps - 1 and min(a.padding) >= 0
                        assert all(rows.first + rows.rows <= a.rows for rows in a.pieces)
                        assert all(rows.phase + rows.phases <= len(a.phases) for rows in a.pieces)


def test_where_phases_are_not_joined():
    """Many channels, dilated taps, gaps between kernels, weights that are not finite, blocks of outputs, and groups
    whose sums must be reproducible."""
    infinite = np.full((8, 2, 4), np.inf, np.float32)
    for w, attributes in (
        (np.ones((8, 32, 4), np.float32), {}), (np.ones((8, 2, 4), np.float32), {"dilation": 2}),
        (np.ones((8, 2, 1), np.float32), {}), (infinite, {"padding": 1}),
        (np.ones((8, 2, 4), np.float32), {"layout": "nCw16c"}),
        (np.ones((8, 2, 4), np.float32), {"groups": 2, "accuracy": "reproducible"}),
    ):  # fmt: skip
        op = lk.ConvTranspose1d(w, stride=2, **attributes)
        assert [c.candidate.name.split(" via")[0] for c in choices(task_of(op, (1, 8, 9)))] == ["phases"]
