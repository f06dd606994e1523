"""Kernels of normalisations, softmax and reductions against float64, on every instruction set, between guard pages."""

import harness
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle.guard import guarded

import layoutkit as lk
from layoutkit._core.runtime import registry

ROWS = [k for k in registry.kernels(all_isas=True) if k.isa in registry.isas()]
FAMILIES = ("moments", "scale", "slope_sums", "slopes", "softmax", "reduce")
NAMES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
FOLDS = ["sum", "absolute", "squares", "product", "max", "min", "powers"]
SPECIAL = [np.nan, np.inf, -np.inf, 1e-40, 0.0, -0.0, 3e38]


def rows_of(family):
    return st.sampled_from([k for k in ROWS if k.family == family])


def rounded(x, dtype):
    """Numbers rounded to a type, as that type and as float32."""
    elements = np.asarray(lk.reorder(np.ascontiguousarray(x, np.float32).reshape(-1), "a", "a", dtype=dtype))
    return elements, np.asarray(lk.reorder(elements, "a", "a", dtype=(dtype, "float32"))).reshape(x.shape)


@st.composite
def matrices(draw, special=True):
    """Rows, columns, the elements between rows, and random numbers."""
    rows, count = draw(st.integers(1, 20)), draw(st.one_of(st.integers(1, 70), st.integers(71, 700)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    x = rng.standard_normal((rows, count)) * draw(st.sampled_from([1, 1, 30])) + draw(st.sampled_from([0, 0, 50]))
    if special and draw(st.integers(0, 3)) == 0:
        for _ in range(draw(st.integers(1, 3))):
            x[rng.integers(rows), rng.integers(count)] = draw(st.sampled_from(SPECIAL))
    return x.astype(np.float32), draw(st.sampled_from([0, 3]))


class Memory:
    """A matrix whose rows lie apart, between guard pages."""

    def __init__(self, x, gap, dtype, end):
        rows, count = x.shape
        apart = np.full((rows, count + gap), 7, np.float32)
        apart[:, :count] = x
        elements, _ = rounded(
            apart.reshape(-1)[: rows * (count + gap) - gap], dtype
        )  # the last row ends with its elements
        self.guard, self.item = guarded(elements.view(np.uint8), end), elements.dtype.itemsize
        self.element, self.shape, self.dtype = elements.dtype, (rows, count, gap), dtype
        self.address, self.pitch = self.guard.address, (count + gap) * self.item

    def read(self):
        rows, count, gap = self.shape
        numbers = self.guard.array.view(self.element)
        numbers = np.asarray(lk.reorder(numbers, "a", "a", dtype=(self.dtype, "float32")))
        whole = np.append(numbers, np.full(gap, 7, np.float32)).reshape(rows, count + gap)
        np.testing.assert_array_equal(whole[:, count:], 7)
        return whole[:, :count]


ENDS = st.sampled_from(["low", "high"])


@given(rows_of("moments"), matrices(), st.booleans(), st.booleans(), ENDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_moments(kernel, matrix, down, about_zero, end):
    x, gap = matrix
    memory = Memory(x, gap, NAMES[kernel.types], end)
    wide = memory.read().astype(np.float64)
    axis, n = (0, x.shape[1]) if down else (1, x.shape[0])
    mean, squares = (guarded(np.full(n, 5.0).view(np.uint8), end) for _ in range(2))
    harness.run(
        kernel.name, "lk_moments", x=memory.address, x_row=memory.pitch, rows=x.shape[0], count=x.shape[1],
        by_column=down, about_zero=about_zero, mean=mean.address, squares=squares.address,
    )  # fmt: skip
    middle = np.zeros(n) if about_zero else wide.mean(axis)
    finite = np.isfinite(middle)  # else it is Inf or NaN, by where the first such element is
    want = np.square(wide - np.expand_dims(middle, axis)).sum(axis)
    got, apart = (of.array.view(np.float64) for of in (mean, squares))
    most = np.abs(wide[np.isfinite(wide)]).max(initial=0)
    np.testing.assert_allclose(got[finite], middle[finite], rtol=1e-12, atol=1e-12 * most)
    np.testing.assert_allclose(apart[finite], want[finite], rtol=1e-11, atol=1e-30)
    assert not np.isfinite(got[~finite]).any() and not np.isfinite(apart[~finite]).any()


LIMITS = st.sampled_from([0, 1, np.inf])


@given(
    rows_of("scale"), matrices(), st.booleans(), st.sampled_from([(0, 0), (1, 0), (1, 1)]), LIMITS, st.booleans(), ENDS
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scale(kernel, matrix, by_column, parameters, limit, adds, end):
    (x, gap), source = matrix, kernel.types.partition("_")[0]
    memory = Memory(x, gap, NAMES[source], end)
    to = "float32" if kernel.types.endswith("f32") else NAMES[source]
    y = Memory(np.zeros_like(x), gap, to, end)
    rng = np.random.default_rng(x.size)
    first, second = x.shape[::-1] if by_column else x.shape
    values = {name: rng.standard_normal(first).astype(np.float32) for name in ("mean", "factor", "shift")}
    more = [rng.standard_normal(second).astype(np.float32) if present else None for present in parameters]
    values |= {name: value for name, value in zip(("scale", "bias"), more) if value is not None}
    guards = {name: guarded(value.view(np.uint8), end) for name, value in values.items()}
    more = Memory(rng.standard_normal(x.shape), gap, NAMES[source], end)
    summed = {"add": more.address, "add_row": more.pitch} if adds else {}
    harness.run(
        kernel.name, "lk_scaling", x=memory.address, x_row=memory.pitch, y=y.address, y_row=y.pitch, rows=x.shape[0],
        count=x.shape[1], by_column=by_column, limit=limit, **summed,
        **{name: guard.address for name, guard in guards.items()},
    )  # fmt: skip
    v = {name: value.astype(np.float64) for name, value in values.items()}
    along, across = (None, slice(None)), (slice(None), None)
    a, b = (along, across) if by_column else (across, along)
    apart = memory.read().astype(np.float64) - v["mean"][a]
    want = apart * v["factor"][a] + v["shift"][a]
    size = np.abs(apart * v["factor"][a]) + np.abs(v["shift"][a])
    if parameters[0]:
        want, size = want * v["scale"][b], size * np.abs(v["scale"][b])
    if parameters[1]:
        want, size = want + v["bias"][b], size + np.abs(v["bias"][b])
    if adds and not parameters[0]:
        want, size = want + more.read().astype(np.float64), size + np.abs(more.read().astype(np.float64))
    if limit and not parameters[0]:
        want = np.clip(want, 0, limit)
    got = y.read()
    within = np.abs(apart) < 1e37  # else products may overflow
    finite = within & (np.abs(want) < (6e4 if to == "float16" else 3e38))
    assert (np.abs(got - want) <= EPS[to] * np.abs(want) + 2.0**-21 * size + 1e-6)[finite].all()
    assert (np.isnan(got) == np.isnan(want))[within | ~np.isfinite(apart)].all()


@given(
    st.one_of(rows_of("slope_sums"), rows_of("slopes")),
    matrices(special=False),
    st.booleans(),
    LIMITS,
    st.booleans(),
    ENDS,
)
def test_slopes(kernel, matrix, by_column, limit, by_result, end):
    (x, gap), dtype = matrix, NAMES[kernel.types]
    rng = np.random.default_rng(x.size)
    memory = Memory(x, gap, dtype, end)
    dy = Memory(rng.standard_normal(x.shape), gap, dtype, end)
    dx = Memory(np.zeros_like(x), gap, dtype, end)
    wide, slopes = memory.read().astype(np.float64), dy.read().astype(np.float64)
    lines = x.shape[1] if by_column else x.shape[0]
    names = "mean", "factor", "shift", "slope", "offset"
    values = {name: rng.standard_normal(lines).astype(np.float32) for name in names}
    guards = {name: guarded(value.view(np.uint8), end) for name, value in values.items()}
    sums, products = (guarded(np.full(lines, 5.0).view(np.uint8), end) for _ in range(2))
    by_result &= bool(limit) and kernel.family == "slope_sums"
    result, passed = (Memory(rng.uniform(-1, 2, x.shape), gap, dtype, end) for _ in range(2))
    given_result = {"y": result.address, "y_row": result.pitch, "d": passed.address, "d_row": passed.pitch}
    harness.run(
        kernel.name, "lk_slopes", x=memory.address, x_row=memory.pitch, dy=dy.address, dy_row=dy.pitch, dx=dx.address,
        dx_row=dx.pitch, rows=x.shape[0], count=x.shape[1], by_column=by_column, limit=limit, sums=sums.address,
        products=products.address, **(given_result if by_result else {}),
        **{name: guard.address for name, guard in guards.items()},
    )  # fmt: skip
    v = {name: np.expand_dims(value.astype(np.float64), 0 if by_column else 1) for name, value in values.items()}
    apart = wide - v["mean"]
    y = apart * v["factor"] + v["shift"]
    kink = np.abs(y) < 1e-3 if limit else np.zeros(x.shape, bool)  # rounding decides there
    kink |= (limit == 1) & (np.abs(y - 1) < 1e-3)
    if by_result:
        y, kink = result.read().astype(np.float64), np.zeros(x.shape, bool)
        np.testing.assert_array_equal(passed.read(), np.where((y > 0) & (y < limit), slopes, 0))
    d = np.where((y > 0) & (y < limit), slopes, 0) if limit else slopes
    if kernel.family == "slopes":
        want = d * v["factor"] + apart * v["slope"] + v["offset"]
        size = np.abs(d * v["factor"]) + np.abs(apart * v["slope"]) + np.abs(v["offset"])
        assert (np.abs(dx.read() - want) <= EPS[dtype] * np.abs(want) + 2.0**-21 * size + 1e-6)[~kink].all()
        return
    axis = 0 if by_column else 1
    clear = ~kink.any(axis)
    got = [of.array.view(np.float64) for of in (sums, products)]
    for found, terms in zip(got, (d, d * apart)):
        bound = 1e-6 * np.abs(terms).sum(axis) + 1e-9
        assert (np.abs(found - terms.sum(axis)) <= bound)[clear].all()


@given(rows_of("softmax"), matrices(), st.booleans(), st.booleans(), st.booleans(), ENDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_softmax(kernel, matrix, down, logarithm, in_place, end):
    (x, gap), dtype = matrix, NAMES[kernel.types]
    memory = Memory(x, gap, dtype, end)
    wide = memory.read().astype(np.float64)
    y = memory if in_place else Memory(np.zeros_like(x), gap, dtype, end)
    harness.run(
        kernel.name, "lk_softmax", x=memory.address, x_row=memory.pitch, y=y.address, y_row=y.pitch, rows=x.shape[0],
        count=x.shape[1], by_column=down, logarithm=logarithm,
    )  # fmt: skip
    axis = 0 if down else 1
    apart = wide - np.fmax.reduce(wide, axis, keepdims=True)
    sums = np.exp(apart).sum(axis, keepdims=True)
    want = apart - np.log(sums) if logarithm else np.exp(apart) / sums
    distance = np.where(np.isfinite(apart), np.abs(apart), 0)
    bound = (2 + distance) * 2.0**-22 * (1 if logarithm else want) + EPS[dtype] * np.abs(want)
    bound += {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}[dtype]  # of denormals
    got = y.read()
    inside = np.isfinite(want) & (np.abs(want) < (6e4 if dtype == "float16" else 3e38))
    assert (np.abs(got - want) <= bound)[inside].all()
    assert (np.isnan(got) == np.isnan(want)).all()


@given(rows_of("reduce"), matrices(), st.booleans(), st.sampled_from(FOLDS), ENDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_reduce(kernel, matrix, down, fold, end):
    x, gap = matrix
    memory = Memory(x, gap, NAMES[kernel.types], end)
    wide = memory.read().astype(np.float64)
    axis, n = (0, x.shape[1]) if down else (1, x.shape[0])
    by_order = np.zeros(n, bool)
    begin = {"product": 1.5, "max": -0.5, "min": 0.5}.get(fold, 2.0)
    into = guarded(np.full(n, begin).view(np.uint8), end)
    top = wide.max(axis)
    top = np.where(np.isfinite(top), top, 0)
    harness.run(
        kernel.name, "lk_reduce", x=memory.address, x_row=memory.pitch, rows=x.shape[0], count=x.shape[1],
        by_column=down, fold=FOLDS.index(fold), into=into.address, maxima=top if fold == "powers" else None,
    )  # fmt: skip
    if fold in ("max", "min"):
        extreme = np.maximum if fold == "max" else np.minimum
        want, size = extreme(extreme.reduce(wide, axis), begin), 0
    elif fold == "product":
        want = wide.prod(axis) * begin
        size = np.abs(want)
        whole = np.where(wide == 0, 1, wide).prod(axis) * begin
        # a zero comes before or after the overflow
        by_order = np.isinf(whole) & np.isfinite(wide).all(axis) & (wide == 0).any(axis)
    else:
        taken = {"sum": wide, "absolute": np.abs(wide), "squares": np.square(wide)}
        taken = taken[fold] if fold in taken else np.exp(wide - np.expand_dims(top, axis))
        want, size = taken.sum(axis) + begin, np.abs(taken).sum(axis) + begin
    got = into.array.view(np.float64)
    inside = np.isfinite(want) & ~by_order & (fold != "powers" or np.abs(want) < 1e37)
    tolerance = (1e-12 if fold != "powers" else 2.0**-17) * size
    assert (np.abs(got - want) <= tolerance)[inside].all() if np.ndim(size) else (got == want)[inside].all()
    assert (np.isnan(got) == np.isnan(want))[~by_order].all()


def test_every_family_was_run():
    assert {k.family for k in ROWS} >= set(FAMILIES)


@pytest.mark.parametrize("about", [0, 1e4, 1e7])
@pytest.mark.parametrize(
    "kernel", [k for k in ROWS if k.family == "moments" and k.types == "f32"], ids=lambda k: k.name
)
def test_a_large_mean_leaves_the_variance_right(kernel, about):
    x = (np.random.default_rng(0).standard_normal((1, 3000)) + about).astype(np.float32)
    for rows, count in ((1, 3000), (3000, 1)):
        mean, squares = np.zeros(1), np.zeros(1)
        row = 4 * count
        harness.run(kernel.name, "lk_moments", x=x.ctypes.data, x_row=row, rows=rows, count=count, by_column=rows > 1,
                    mean=mean, squares=squares)  # fmt: skip
        np.testing.assert_allclose(squares / 3000, x.astype(np.float64).var(), rtol=1e-12)
