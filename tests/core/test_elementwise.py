"""Elementwise operations: chains of random steps over random shapes, strides, types and threads, against numpy."""

import ml_dtypes
import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from random_cases.numbers import ROUNDING

from layoutkit._core.nests.pointwise.elementwise import Elementwise
from layoutkit.convolutions.epilogue import step_of

INF, NAN = float("inf"), float("nan")
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "u8": np.uint8,
         "s8": np.int8}  # fmt: skip
# No step is steeper than 2, so that the error of a value stays what it is, times 2 for each step.
UNARY = [
    ("relu",), ("clip", -1.5, 2.0), ("leaky_relu", 0.25), ("elu", 0.75), ("silu",), ("swish", 0.875), ("mish",),
    ("gelu",), ("gelu_tanh",), ("hardswish",), ("hardswish", 0.25, 0.5), ("hardsigmoid", 0.25, 0.5), ("sigmoid",),
    ("tanh",), ("softplus",), ("abs",), ("linear", -1.5, 0.25), ("erf",), ("selu", 1.25, 1.5), ("celu", 0.5),
    ("softsign",), ("neg",), ("sin",), ("cos",),
]  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "rsub": lambda x, b: b - x, "mul": np.multiply, "max": np.maximum,
    "min": np.minimum, "prelu": lambda x, b: np.where(x < 0, x * b, x), "div": lambda x, b: x / (3 + b),
    "fill": lambda x, b: np.where(b != 0, 0.5, x), "keep": lambda x, b: np.where(b != 0, x, 0.5),
}  # fmt: skip
AFFINE = ["mul", "add"], ["mul", "add", ("clip", -1.5, 2.0)], ["mul", "add", ("relu",)]  # which one pass does


@st.composite
def problems(draw):
    shape = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 5, 16, 17, 40, 70]), max_size=4))
    if draw(st.integers(0, 3)) == 0:
        shape.append(draw(st.sampled_from([600, 1500, 5000])))
    if draw(st.booleans()):
        shape = [n for n in shape if n] or [1]
    while np.prod([n for n in shape if n]) > 60000:  # an array that broadcasts may have 1 in the place of 0
        shape.pop(0)
    wide = draw(st.integers(0, 4)) == 0
    kinds = ["f64"] if wide else ["f32", "f32", "f32", "bf16", "f16", "u8", "s8"]
    one = st.one_of(st.sampled_from(UNARY), st.sampled_from([*BINARY])).map(lambda step: [step])
    groups = draw(st.lists(st.one_of(one, one, st.sampled_from(AFFINE)), max_size=5))
    steps = [step for group in groups for step in group][:6]
    return dict(
        shape=tuple(shape), steps=steps, kinds=[draw(st.sampled_from(kinds)) for _ in range(len(steps) + 2)],
        constant=[not draw(st.integers(0, 2)) for _ in steps], seed=draw(st.integers(0, 1 << 16)),
        threads=draw(st.integers(1, 3)), isa=draw(st.sampled_from(WHOLE_ISAS)), inplace=draw(st.integers(0, 5)) == 0,
        end=draw(st.sampled_from(["low", "high"])),
    )  # fmt: skip


class Drawn:
    """Arrays of a problem, in memory between guard pages."""

    def __init__(self, p):
        self.rng, self.end, self.buffers = np.random.default_rng(p["seed"]), p["end"], []

    def array(self, shape, kind, broadcasts=True, most=2.0):
        """Numbers in an array of any strides that broadcasts to this shape, and what they mean in float64."""
        rng = self.rng
        if broadcasts:
            shape = [1 if rng.integers(4) == 0 else n for n in shape]
            shape = shape[rng.integers(len(shape) + 1) if rng.integers(3) == 0 else 0 :]
        order = rng.permutation(len(shape)) if rng.integers(3) == 0 else np.arange(len(shape))
        gaps = [int(rng.integers(1, 3)) if rng.integers(5) == 0 else 1 for _ in shape]
        larger = [n + int(rng.integers(2)) if rng.integers(4) == 0 else n for n in shape]
        whole = [larger[i] * gaps[i] for i in order]
        numbers = rng.uniform(-most, most, whole)
        numbers = rng.integers(0 if kind == "u8" else -100, 100, whole) if kind in ("u8", "s8") else numbers
        buffer = guarded(np.ascontiguousarray(numbers.astype(TYPES[kind])).reshape(-1).view(np.uint8), self.end)
        self.buffers.append(buffer)
        view = buffer.array.view(TYPES[kind]).reshape(whole).transpose(np.argsort(order))
        return view[(*(slice(0, n * gap, gap) for n, gap in zip(shape, gaps)), ...)], buffer


def meant(array, scale, zero):
    """What numbers stand for."""
    return array.astype(np.float64) if array.dtype.kind not in "iu" else (array.astype(np.float64) - zero) * scale


def stepped(step, x, b):
    if isinstance(step, str):
        return BINARY[step](x, b)
    return reference.activate(x.reshape(1, 1, -1), step).reshape(x.shape)


@given(problems())
def test_chains(p):
    drawn, shape = Drawn(p), p["shape"]
    real = np.float64 if p["kinds"][0] == "f64" else np.float32
    scales = {kind: (0.02, 3) if kind in ("u8", "s8") else (1.0, 0) for kind in TYPES}
    x, _ = drawn.array(shape, p["kinds"][0])
    y, memory = (
        (x, drawn.buffers[-1]) if p["inplace"] and x.shape == shape else drawn.array(shape, p["kinds"][1], False)
    )
    kinds = [p["kinds"][0], *p["kinds"][2:], p["kinds"][0] if y is x else p["kinds"][1]]
    tensors, elements, steps = [x], [(kinds[0], *scales[kinds[0]])], []
    want = np.broadcast_to(meant(x, *scales[kinds[0]]), shape)
    for step, kind, constant in zip(p["steps"], kinds[1:], p["constant"]):
        if not isinstance(step, str):
            name, numbers, other = step_of(*step)
            steps.append(
                (name, np.array(numbers, real) if numbers else None, None if other is None else np.array(other))
            )
            want = stepped(step, want, None)
            continue
        kind = ("f64" if real is np.float64 else "f32") if constant else kind
        b, _ = drawn.array(shape, kind)
        means = meant(b, *scales[kind])
        if step == "div":
            if constant:
                b = b + 3
            else:
                step = "sub"
        want = stepped(step, want, means)
        steps.append(
            (step, np.array([0.5], real) if step in ("fill", "keep") else None, b if constant else len(tensors))
        )
        if not constant:
            tensors.append(b)
            elements.append((kind, *scales[kind]))
    elements.append((kinds[-1], *scales[kinds[-1]]))
    before = memory.array.copy()
    with using_isa(p["isa"]):
        operation = Elementwise(steps, tensors, y, elements, p["threads"])
    operation(*tensors, y)
    got, (scale, zero) = meant(y, *scales[kinds[-1]]), scales[kinds[-1]]
    allowed = 64 * np.finfo(real).eps * (1 + abs(want)) * 2.0 ** len(steps)
    if kinds[-1] in ("u8", "s8"):
        limits = np.iinfo(y.dtype)
        want = np.clip(want, (limits.min - zero) * scale, (limits.max - zero) * scale)
        allowed = allowed + 0.501 * scale
    else:
        relative, least = ROUNDING[kinds[-1]]
        allowed = allowed + 1.01 * relative * abs(want) + least
    assert (abs(got - want) <= allowed).all(), abs(got - want).max()
    if y is not x:  # nothing around the result has changed
        y[...] = 0
        after = memory.array.copy()
        memory.array[...] = before
        y[...] = 0
        np.testing.assert_array_equal(memory.array, after)


SPECIAL = np.float32([0.0, -0.0, 1, -1, 0.5, -0.5, 2.5, -2.5, 1.5, 3e38, -3e38, 1e-40, INF, -INF, NAN, 2.0**23 + 1,
                      0.49999997])  # fmt: skip
EXACT = {
    "add": np.add, "sub": np.subtract, "rsub": lambda x, b: b - x, "mul": np.multiply, "div": np.divide,
    "rdiv": lambda x, b: b / x, "max": np.maximum, "min": np.minimum, "equal": np.equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "fill": lambda x, b: np.where(b != 0, np.float32(2), x), "keep": lambda x, b: np.where(b != 0, x, np.float32(2)),
    "floor": lambda x, b: np.floor(x), "ceil": lambda x, b: np.ceil(x), "sign": lambda x, b: np.sign(x),
    "neg": lambda x, b: -x, "reciprocal": lambda x, b: 1 / x, "round": lambda x, b: np.rint(x),
    "abs": lambda x, b: np.abs(x), "square": lambda x, b: x * x,
    "thresholded_relu": lambda x, b: np.where(x > 2, x, np.float32(0)),
    "shrink": lambda x, b: np.where(x < -0.5, x + np.float32(2), np.where(x > 0.5, x - np.float32(2), np.float32(0))),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("isa", WHOLE_ISAS)
def test_what_is_rounded_at_most_once_is_numpys_bit_for_bit(isa, dtype):
    x, b = (v.astype(dtype).reshape(-1) for v in np.meshgrid(SPECIAL, SPECIAL))
    kind = "f32" if dtype is np.float32 else "f64"
    for name, function in EXACT.items():
        y = np.zeros_like(x)
        numbers = np.array([2, 0.5], dtype)
        with using_isa(isa):
            Elementwise([(name, numbers, 1)], [x, b], y, [(kind, 1, 0)] * 3, 1)(x, b, y)
        with np.errstate(all="ignore"):
            want = function(x, b).astype(dtype)
        np.testing.assert_array_equal(y, want, err_msg=name)
        some = ~np.isnan(want) & ~((want == 0) & (name in ("max", "min")))  # which zero of two, numpy leaves open
        np.testing.assert_array_equal(np.signbit(y[some]), np.signbit(want[some]), err_msg=name)


def test_results_of_comparisons_are_booleans():
    x = np.linspace(-1, 1, 101, dtype=np.float32)
    y = np.zeros(101, bool)
    Elementwise([("less", None, np.float32(0.25))], [x], y, [("f32", 1, 0), ("u8", 1, 0)], 1)(x, y)
    np.testing.assert_array_equal(y, x < 0.25)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_same_bits_for_any_number_of_threads(threads):
    rng = np.random.default_rng(0)
    x, b = (rng.standard_normal(shape, np.float32) for shape in ((3, 40, 1, 999), (40, 17, 1)))
    shape = (3, 40, 17, 999)
    one, several = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for y, n in ((one, 1), (several, threads)):
        steps = [("gelu", None, None), ("add", None, 1)]
        Elementwise(steps, [np.broadcast_to(x, shape), b], y, [("f32", 1, 0)] * 3, n)(np.broadcast_to(x, shape), b, y)
    np.testing.assert_array_equal(one, several)


def test_what_does_not_fit_is_refused():
    x, y = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float32)
    f32, f64 = ("f32", 1, 0), ("f64", 1, 0)
    with pytest.raises(ValueError, match="3 types of 2 arrays"):
        Elementwise([], [x], y, [f32] * 3, 1)
    with pytest.raises(TypeError, match="f64 among arrays of f32"):
        Elementwise([], [x], y, [f64, f32], 1)
    with pytest.raises(TypeError, match="expected bf16, got float32"):
        Elementwise([], [x], y, [("bf16", 1, 0), f32], 1)
    with pytest.raises(ValueError, match="broadcast"):
        Elementwise([], [np.zeros((5, 3), np.float32)], y, [f32, f32], 1)
    with pytest.raises(ValueError, match="33 steps, at most 32"):
        Elementwise([("abs", None, None)] * 33, [x], y, [f32, f32], 1)


@pytest.mark.parametrize("isa", WHOLE_ISAS)
@pytest.mark.parametrize("gap", ["x", "b", "y"])
def test_rows_with_gaps_in_one_of_the_arrays(gap, isa):
    """The others are contiguous: their rows may be taken for one, but not all three."""
    rng = np.random.default_rng(0)
    x, b, y = (rng.standard_normal((9, 7 if name == gap else 5)).astype(np.float32)[:, :5] for name in "xby")
    want = x + b
    outside = y.base[:, 5:].copy() if gap == "y" else None
    with using_isa(isa):
        Elementwise([("add", None, 1)], (x, b), y, [("f32", 1.0, 0)] * 3, 1)(x, b, y)
    np.testing.assert_array_equal(y, want)
    if outside is not None:
        np.testing.assert_array_equal(y.base[:, 5:], outside)


BYTES = st.sampled_from(["u8", "s8"])


@given(
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 17, 64, 130]), min_size=1, max_size=3), types=st.tuples(BYTES, BYTES),
    seed=st.integers(0, 1 << 16), threads=st.integers(1, 2), isa=st.sampled_from(WHOLE_ISAS),
    end=st.sampled_from(["low", "high"]),
)  # fmt: skip
def test_bytes_are_looked_up_in_tables(shape, types, seed, threads, isa, end):
    drawn = Drawn({"seed": seed, "end": end})
    table = drawn.rng.integers(0, 256, 256).astype(np.uint8)
    (x, _), (y, buffer) = (drawn.array(shape, kind, broadcasts=False) for kind in types)
    before, outside = buffer.array.copy(), y.copy()
    with using_isa(isa):
        operation = Elementwise((), (x,), y, [(kind, 1.0, 0) for kind in types], threads, table)
        operation(x, y)
    want = table[x.view(np.uint8)]
    np.testing.assert_array_equal(y.view(np.uint8), want)
    y[...] = outside
    np.testing.assert_array_equal(buffer.array, before)  # between rows and columns nothing is written


def test_tables_are_of_bytes_without_steps():
    x, y, table = np.zeros(3, np.uint8), np.zeros(3, np.float32), np.zeros(256, np.uint8)
    elements = [("u8", 1.0, 0), ("f32", 1.0, 0)]
    for wrong in (((), (x,), y, elements, 1, table), ((), (x,), x, elements[:1] * 2, 1, table[1:])):
        with pytest.raises(ValueError, match="elementwise: a table of 25"):
            Elementwise(*wrong)
