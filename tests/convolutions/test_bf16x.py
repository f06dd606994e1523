"""Convolutions of float32 by the components of numbers, on emulated tile units: their bound, attacked."""

import numpy as np
import pytest
from conftest import EMULATED, fewer, using_isa
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference

import layoutkit as lk
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask

ISA = next((isa for isa in EMULATED if "amx" in isa), None)
pytestmark = pytest.mark.skipif(ISA is None, reason="the rows around emulated tiles are compiled for AVX-512")
PRODUCTS_LEFT_OUT = {3: 2.0, 2: 3 * 2.0**8}  # in 2^-24 of |x w|
ACCURACY = {3: "standard", 2: "fast"}
TINY = 2.0**-125  # what a component that is denormal may be off


def route_of(p, components):
    """The route of a problem whose numbers are taken apart in so many components."""
    return next(c for c in ConvTask(p, 2).candidates() if f"bf16x{components}" in c.name).build()


def off(x, w, components, layout, stride, padding, dilation, groups):
    """|result - exact| over the bound, output by output; Inf where the result is none."""
    layout = lk.Layout(layout)
    p = ConvProblem(x.shape[0], x.shape[1], w.shape[0], x.shape[2:], w.shape[2:], stride, padding, dilation, groups,
                    layout, layout, ACCURACY[components])  # fmt: skip
    y = np.full(layout.physical_shape(p.dst_shape), np.nan, np.float32)
    with using_isa(ISA):
        route = route_of(p, components)
        route.run(reference.to_physical(x, layout), *route.pack(w, None), y)
    apart = stride, padding, dilation, groups
    want = reference.conv(x, w, None, *apart)
    sums = reference.conv(abs(x).astype(np.float64), abs(w).astype(np.float64), None, *apart)
    ones = reference.conv(abs(x) + 1.0, np.ones(w.shape), None, *apart)
    n = w[0].size
    bound = (28 + min(n / 5, 192) + n / 1024 + PRODUCTS_LEFT_OUT[components]) * 2.0**-24 * sums
    bound += TINY * (ones + abs(w).reshape(len(w), -1).sum(1, dtype=np.float64).reshape(1, -1, *[1] * len(stride)))
    with np.errstate(invalid="ignore"):
        found = abs(reference.to_logical(y, layout, want.shape) - want) / bound
    return np.where(np.isfinite(found), found, np.inf)


def numbers(rng, kind, shape):
    """Numbers that are hard to take apart or to sum."""
    x = rng.standard_normal(shape)
    if kind == "mixed":
        x *= np.exp2(rng.integers(-30, 30, shape))
    elif kind == "small":
        x *= np.exp2(rng.integers(-140, -100, shape))
    elif kind == "halves":  # a rest of half of a component's last bit, or a bit more or less
        bits = rng.integers(0, 2**32, shape, np.uint32) & np.uint32(0x807F0000) | np.uint32(0x3F800000)
        x = (bits + rng.choice(np.array([0x7FFF, 0x8000, 0x8001, 0x7F80, 0xFFFF], np.uint32), shape)).view(np.float32)
    elif kind == "same signs":
        x = 1 + rng.random(shape) * 2.0**-7
    return x.astype(np.float32)


KINDS = st.sampled_from(["random", "mixed", "small", "halves", "same signs"])


@pytest.mark.parametrize("components", [3, 2])
@fewer(2)
@given(st.data())
def test_errors_stay_within_the_bound(components, data):
    """Any geometry and layout that has channels innermost, any numbers."""
    rank, groups = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 1, 2, 3]))
    block = data.draw(st.sampled_from([0, 0, 8, 16]))
    channels, outputs = (
        groups * (block * data.draw(st.integers(1, 3)) if block and groups > 1 else data.draw(st.integers(1, 41)))
        for _ in range(2)
    )
    size = tuple(data.draw(st.integers(1, (70, 9, 5)[rank - 1])) for _ in range(rank))
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    dilation = tuple(data.draw(st.integers(1, 2)) for _ in range(rank))
    stride = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple(
        (data.draw(st.integers(0, 2)), max(data.draw(st.integers(0, 2)), r - n))
        for n, r in zip(size, reach, strict=True)
    )
    layout = "N" + "DHW"[3 - rank :] + "C" if not block else "nC" + "dhw"[3 - rank :] + f"{block}c"
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = numbers(rng, data.draw(KINDS), (data.draw(st.integers(1, 2)), channels, *size))
    w = numbers(rng, data.draw(KINDS), (outputs, channels // groups, *kernel))
    assert off(x, w, components, layout, stride, padding, dilation, groups).max(initial=0) <= 1


@pytest.mark.parametrize("components", [3, 2])
@pytest.mark.parametrize("kind", ["random", "same signs", "halves"])
def test_long_sums_are_taken_in_chunks(kind, components):
    """Of 1024 products, whose totals are added; inputs as large as the bound holds for."""
    rng = np.random.default_rng(5)
    x, w = numbers(rng, kind, (1, 1700, 9)) * np.float32(2.0**62), numbers(rng, kind, (3, 1700, 3))
    assert off(x, w, components, "NWC", (2,), ((1, 1),), (1,), 1).max() <= 1


@pytest.mark.parametrize(("components", "least"), [(3, 0.01), (2, 0.25)])
def test_the_bound_is_not_far_from_what_is_reached(components, least):
    """Rests of all components of one sign: what is left out adds up."""
    x = np.full((1, 64, 40), 0x3F807F7F, np.uint32).view(np.float32)
    w = np.full((32, 64, 1), 0x3F807F7F, np.uint32).view(np.float32)
    reached = off(x, w, components, "NWC", (1,), ((0, 0),), (1,), 1).max()
    assert least < reached <= 1


def test_inf_and_nan_reach_the_outputs_that_read_them_and_no_others():
    x = np.ones((1, 40, 6, 7), np.float32)
    x[0, 3, 2, 2], x[0, 39, 5, 6] = np.inf, np.uint32(0x7F800001).view(np.float32)  # of NaN only the last bit is set
    x[0, 0, 0, 6], x[0, 1, 5, 0] = 3.4e38, -3.4e38  # would be rounded to Inf
    w = np.full((33, 40, 2, 2), 2.0**-9, np.float32)
    with using_isa(ISA):
        p = ConvProblem(
            1, 40, 33, (6, 7), (2, 2), (1, 1), ((0, 0),) * 2, (1, 1), 1, lk.Layout("NHWC"), lk.Layout("NHWC")
        )
        route = route_of(p, 3)
        y = np.zeros((1, 5, 6, 33), np.float32)
        route.run(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), *route.pack(w, None), y)
    with np.errstate(invalid="ignore"):
        want = reference.conv(x, w, None, (1, 1), ((0, 0),) * 2, (1, 1), 1).transpose(0, 2, 3, 1)
    finite = np.isfinite(want)
    assert not np.isfinite(y[~finite]).any()
    np.testing.assert_allclose(y[finite], want[finite], rtol=1e-6)


@pytest.mark.parametrize("value", [np.inf, np.nan, 2.0**60, 2.0**-120])
@pytest.mark.parametrize("kernel", [1, 3])
def test_filters_out_of_range_are_summed_directly(value, kernel):
    """Also of 1x1 without padding, whose values nothing else looks at."""
    w = np.ones((3, 8, kernel), np.float32)
    w[1] = value
    with using_isa(ISA):
        plan = str(lk.Conv1d(w, layout="NWC").explain((1, 8, 2000)))
    assert "bf16x" not in plan
    assert "strict" in plan


def test_strict_sums_are_none_of_components_and_calls_choose_them_where_they_are_fast():
    p = ConvTask.parse("conv n1 c256 56x56 o256 k1x1 s1x1 p0+0,0+0 d1x1 g1 NHWC>NHWC f32 standard t1")
    with using_isa(ISA):
        names = [c.name for c in p.candidates()]
        strict = ConvTask.parse(p.key.replace("standard", "strict"))
        assert any("bf16x3" in n for n in names)
        assert not any("bf16x2" in n for n in names)
        assert not any("bf16x" in c.name for c in strict.candidates())
        fast = ConvTask.parse(p.key.replace("standard", "fast"))
        assert {"bf16x3", "bf16x2"} <= {n for c in fast.candidates() for n in c.name.replace("_", " ").split()}
        best = min(p.candidates(), key=lambda c: c.estimate)
    assert "bf16x3" in best.name
