"""Normalisations, softmax and reductions in networks: every layout, type, stride and number of threads."""

import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit._core.nests.norms.normalise import ShortRows, suits_rows
from layoutkit._core.nests.norms.normalise_channels import Columns, Pixels, Planes
from layoutkit._core.nests.norms.softmax import Softmax
from layoutkit._core.nests.reductions.reduce import FOLDS, Reduction
from layoutkit.convolutions.epilogue import parse
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model
from layoutkit.graph.operators import run

F32 = np.dtype(np.float32)
ISAS = st.sampled_from(NEST_ISAS)
TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
ROUNDING = {"f32": 2.0**-23, "bf16": 2.0**-8, "f16": 2.0**-10}
ACTIVATIONS = {
    None: lambda y: y, "relu": lambda y: np.maximum(y, 0), "silu": lambda y: y / (1 + np.exp(-y)),
    ("leaky_relu", 0.1): lambda y: np.where(y < 0, 0.1 * y, y),
}  # fmt: skip


def stored(x, types):
    held = np.asarray(lk.reorder(x.reshape(-1), "a", "a", dtype=TYPES[types]))
    return held.reshape(x.shape)


def real(x):
    flat = np.ascontiguousarray(x).reshape(-1)
    if flat.dtype == F32:
        return flat.reshape(x.shape)
    dtype = "float16" if flat.dtype == np.float16 else "bfloat16"
    return np.asarray(lk.reorder(flat, "a", "a", dtype=(dtype, "float32"))).reshape(x.shape)


def part(draw, shape, types, numbers=None):
    """An array of this shape, a part of a larger one; the last axis is contiguous."""
    more = [draw(st.sampled_from([0, 0, 0, 1, 5])) for _ in shape]
    whole = np.zeros([n + m for n, m in zip(shape, more)], np.float32)
    where = tuple(slice(m // 2, m // 2 + n) for n, m in zip(shape, more))
    if numbers is not None:
        whole[where] = numbers
    return stored(whole, types)[where]


@st.composite
def images(draw, most=40):
    size = [draw(st.integers(1, 6)) for _ in range(draw(st.integers(1, 3)) - 1)] + [draw(st.integers(1, most))]
    return (draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 4, 6, 16, 24, 32, 40])), *size)


def numbers(seed, shape, mean=0.0):
    return (np.random.default_rng(seed).standard_normal(shape) + mean).astype(np.float32)


def normalised(x, axes, epsilon, centred=True):
    mean = x.mean(axes, keepdims=True) if centred else 0
    return (x - mean) / np.sqrt(np.square(x - mean).mean(axes, keepdims=True) + epsilon)


def check(make, x, y, want, types):
    """One, two and three threads make the same bits, which are near to `want`."""
    results = []
    for threads in (1, 2, 3):
        y[...] = 0
        make(threads)(x, y)
        results.append(np.ascontiguousarray(y).tobytes())
    assert results[0] == results[1] == results[2]
    bound = ROUNDING[types] * (np.abs(want) + 1) + 4e-6
    assert (np.abs(real(y) - want) <= bound).all(), np.abs(real(y) - want).max()


@given(
    st.data(),
    images(),
    st.sampled_from(list(TYPES)),
    st.sampled_from(list(ACTIVATIONS)),
    ISAS,
    st.sampled_from([0, 100]),
)
def test_of_channels(data, shape, types, activation, isa, mean):
    channels, block = shape[1], data.draw(st.sampled_from([4, 8, 16]))
    groups = data.draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    x = numbers(1, shape, mean)
    form = data.draw(st.sampled_from(["planes", "pixels", "blocks", "rows"]))
    order = (0, *range(2, x.ndim), 1) if form == "pixels" else tuple(range(x.ndim))
    held = np.ascontiguousarray(x.transpose(order))
    blocks = -(-channels // block)
    if form == "blocks":
        padded = np.full((shape[0], blocks * block, *shape[2:]), np.nan, np.float32)
        padded[:, :channels] = x
        held = np.moveaxis(padded.reshape(shape[0], blocks, block, *shape[2:]), 2, -1)
    if form == "rows":
        groups = channels
    given_x, y = part(data.draw, held.shape, types, held), part(data.draw, held.shape, types)
    x = real(given_x)
    if form == "blocks":
        x = np.moveaxis(x, -1, 2).reshape(padded.shape)[:, :channels]
    x = np.moveaxis(x, -1, 1) if form == "pixels" else x
    scale, bias = numbers(2, channels), numbers(3, channels)
    wide = x.astype(np.float64).reshape(shape[0], groups, -1)
    want = normalised(wide, 2, 1e-5).reshape(shape)
    across = (-1, *[1] * (len(shape) - 2))
    want = ACTIVATIONS[activation](want * scale.reshape(across) + bias.reshape(across))
    epilogue = parse(activation, 1, F32, "test").epilogue

    def make(threads):
        common = (types, given_x, y, scale, bias, 1e-5, epilogue, threads)
        if form == "planes":
            return Planes(*common, groups)
        if form == "rows":
            return ShortRows(*common, 2, channels) if suits_rows(given_x, y, 2) else Planes(*common, groups)
        return Pixels(*common, channels, groups, form == "blocks")

    with using_isa(isa):
        if form == "blocks":
            results = []
            for threads in (1, 2, 3):
                make(threads)(given_x, y)
                got = np.moveaxis(real(y), -1, 2).reshape(padded.shape)[:, :channels]
                results.append(got.tobytes())
                assert (np.abs(got - want) <= ROUNDING[types] * (np.abs(want) + 1) + 4e-6).all()
            assert results[0] == results[1] == results[2]
            return
        want = np.moveaxis(want, 1, -1) if form == "pixels" else want
        check(make, given_x, y, want, types)


@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from(list(TYPES)), st.booleans(),
       st.booleans(), st.sampled_from(list(ACTIVATIONS)), ISAS)  # fmt: skip
def test_of_last_axes(data, shape, types, centred, has_bias, activation, isa):
    shape[-1] = data.draw(st.integers(1, 70))
    axis = data.draw(st.integers(0, len(shape) - 1))
    given_x, y = part(data.draw, shape, types, numbers(1, shape, 3)), part(data.draw, shape, types)
    scale, bias = numbers(2, shape[axis:]), numbers(3, shape[axis:]) if has_bias else None
    want = normalised(real(given_x).astype(np.float64), tuple(range(axis, len(shape))), 1e-5, centred) * scale
    want = ACTIVATIONS[activation](want + (0 if bias is None else bias))
    epilogue = parse(activation, 1, F32, "test").epilogue

    def make(threads):
        common = (types, given_x, y, scale, bias, 1e-5, epilogue, threads)
        if axis == len(shape) - 1 and threads != 2:
            return ShortRows(*common, axis, 0, about_zero=not centred)
        return Planes(*common, axis=axis, about_zero=not centred)

    with using_isa(isa):
        if axis == len(shape) - 1:  # two nests, whose sums may be in another order
            make(2)(given_x, y)
            np.testing.assert_allclose(real(y), want, rtol=ROUNDING[types] * 2, atol=ROUNDING[types] * 2 + 4e-6)
            rows = lambda threads: make(1 if threads == 2 else threads)  # noqa: E731
            check(rows, given_x, y, want, types)
        else:
            check(make, given_x, y, want, types)


@given(st.data(), images(100), st.sampled_from(list(TYPES)), st.booleans(), st.sampled_from(list(ACTIVATIONS)), ISAS)
def test_across_channels(data, shape, types, centred, activation, isa):
    given_x, y = part(data.draw, shape, types, numbers(1, shape, 3)), part(data.draw, shape, types)
    scale, bias = numbers(2, shape[1]), numbers(3, shape[1]) if centred else None
    across = (-1, *[1] * (len(shape) - 2))
    want = normalised(real(given_x).astype(np.float64), 1, 1e-5, centred) * scale.reshape(across)
    want = ACTIVATIONS[activation](want + (0 if bias is None else bias.reshape(across)))
    epilogue = parse(activation, 1, F32, "test").epilogue
    with using_isa(isa):
        check(
            lambda threads: Columns(types, given_x, y, scale, bias, 1e-5, epilogue, threads, about_zero=not centred),
            given_x, y, want, types,
        )  # fmt: skip


@given(
    st.data(), st.lists(st.integers(1, 30), min_size=1, max_size=4), st.sampled_from(list(TYPES)), st.booleans(), ISAS
)
def test_softmax(data, shape, types, logarithm, isa):
    order = data.draw(st.permutations(range(len(shape))))
    given_x, y = part(data.draw, shape, types, numbers(1, shape) * 3).transpose(order), part(data.draw, shape, types)
    y, axis = y.transpose(order), data.draw(st.integers(0, len(shape) - 1))
    x = real(given_x).astype(np.float64)
    want = x - x.max(axis, keepdims=True)
    sums = np.exp(want).sum(axis, keepdims=True)
    want = want - np.log(sums) if logarithm else np.exp(want) / sums
    with using_isa(isa):
        check(lambda threads: Softmax(types, given_x, y, axis, logarithm, threads), given_x, y, want, types)


@given(
    st.data(), st.lists(st.integers(1, 20), min_size=1, max_size=5), st.sampled_from(list(FOLDS)), st.booleans(), ISAS
)
def test_reductions(data, shape, op, keepdims, isa):
    order = data.draw(st.permutations(range(len(shape))))
    x = part(data.draw, shape, "f32", np.random.default_rng(1).uniform(0.5, 1.5, shape)).transpose(order)
    axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1)))))
    node = Node(op, ("x",), ("y",), {"axes": list(axes), "keepdims": int(keepdims), "noop_with_empty_axes": 1})
    want = run(node, [x.astype(np.float64)])[0]
    y = np.zeros(want.shape, np.float32)
    with using_isa(isa):
        results = []
        for threads in (1, 2, 3):
            Reduction(op, x, y, axes, threads)(x, y)
            results.append(y.tobytes())
    assert results[0] == results[1] == results[2]
    np.testing.assert_allclose(y, want, rtol=2e-6, atol=1e-6)


LARGE = {
    "planes": ((1, 3, 300, 257), lambda c: Planes(*c, 3)), "groups": ((2, 6, 130, 129), lambda c: Planes(*c, 2)),
    "pixels": ((2, 70, 61, 40), lambda c: Pixels(*c, 40, 8, False)),
    "blocks": ((1, 2, 90, 70, 16), lambda c: Pixels(*c, 20, 5, True)),
    "element": ((2, 100, 900), None),
}  # fmt: skip


@pytest.mark.parametrize("form", LARGE)
@pytest.mark.parametrize("isa", NEST_ISAS)
def test_threads_that_share_a_slab(form, isa):
    """The same bits as of one thread, and right."""
    shape, make = LARGE[form]
    x, channels = numbers(1, shape, 10), {"planes": 3, "groups": 6, "pixels": 40, "blocks": 20}.get(form, 0)
    scale, bias = (numbers(seed, channels or shape[1:]) for seed in (2, 3))
    make = make or (lambda c: Planes(*c, axis=1))
    results = []
    with using_isa(isa):
        for threads in (1, 2, 4):
            y = np.zeros_like(x)
            make(("f32", x, y, scale, bias, 1e-5, parse("silu", 1, F32, "t").epilogue, threads))(x, y)
            results.append(y)
    wide, moved = x.astype(np.float64), None
    if form == "blocks":
        wide = moved = np.moveaxis(wide, -1, 2).reshape(1, 32, 90, 70)[:, :20]
    elif form == "pixels":
        wide = moved = np.moveaxis(wide, -1, 1)
    groups = {"planes": 3, "groups": 2, "pixels": 8, "blocks": 5}.get(form, 1)
    want = normalised(wide.reshape(wide.shape[0], groups, -1), 2, 1e-5).reshape(wide.shape)
    parameters = [a if form == "element" else a.reshape(-1, 1, 1) for a in (scale, bias)]
    want = ACTIVATIONS["silu"](want * parameters[0] + parameters[1])
    for y in results:
        if form == "blocks":
            y = np.moveaxis(y, -1, 2).reshape(1, 32, 90, 70)[:, :20]
        elif moved is not None:
            y = np.moveaxis(y, -1, 1)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    for y in results[1:]:
        assert form == "blocks" or y.tobytes() == results[0].tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_with_nan_or_inf_leaves_the_others_alone(value):
    x = numbers(1, (4, 50))
    x[2, 17] = value
    y = np.zeros_like(x)
    ShortRows("f32", x, y, None, None, 1e-5, None, 1, 1, 0)(x, y)
    assert np.isnan(y[2]).all() and np.isfinite(y[[0, 1, 3]]).all()


def test_what_they_are_not_for():
    x = numbers(1, (2, 4, 6))
    for make in (
        lambda y: Planes("f32", x, y, None, None, 1e-5, None, 1, 2),
        lambda y: Softmax("f32", x, y, 1, False, 1),
    ):
        with pytest.raises(
            ValueError, match=r"float32 of shape \(2, 4, 6\) to float32 of shape \(2, 4, 5\), expected f32"
        ):
            make(np.zeros((2, 4, 5), np.float32))
        with pytest.raises(ValueError, match="to float64"):
            make(x.astype(np.float64))
    with pytest.raises(ValueError, match="rows that are not contiguous"):
        ShortRows("f32", x[..., ::2], x[..., ::2], None, None, 1e-5, None, 1, 2, 0)
    with pytest.raises(ValueError, match="ReduceSum: 8 results in an array of shape"):
        Reduction("ReduceSum", x, np.zeros(7, np.float32), [2], 1)


def test_empty_arrays():
    for shape in ((0, 4, 6), (2, 4, 0)):
        x, y = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        Planes("f32", x, y, None, None, 1e-5, None, 2, 2)(x, y)
        Pixels("f32", x, y, None, None, 1e-5, None, 2, shape[2], 1, False)(x, y)
        Columns("f32", x, y, None, None, 1e-5, None, 2)(x, y)
        ShortRows("f32", x, y, None, None, 1e-5, None, 2, 2, 0)(x, y)
        Softmax("f32", x, y, 1, False, 2)(x, y)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_that_is_not_there_is_refused(op, axis):
    graph = Graph(
        [Node(op, ("x",), ("y",), {"axis": axis})], {"x": TensorType(np.dtype(np.float32), (2, 3))}, ("y",), {}
    )
    with pytest.raises(ValueError, match=f"{op}: axis {axis} of a tensor with 2 axes"):
        Model(graph).run(np.zeros((2, 3), np.float32))
