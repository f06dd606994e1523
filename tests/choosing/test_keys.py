"""Keys: what our own operations write passes, what no problem of bounded size can be does not."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import layouts

import layoutkit as lk
from layoutkit.bench.suites import SUITES
from layoutkit.choosing import keys
from layoutkit.convolutions.problem import ACCURACIES, MAX_SIZE, ConvProblem
from layoutkit.convolutions.task import ConvTask, PackTask
from layoutkit.reorders.problem import ReorderProblem

sizes = st.integers(1, 9) | st.integers(1, 2**40)
threads = st.integers(1, 4096)


@pytest.mark.parametrize("name", SUITES)
def test_suites_have_keys_that_pass(name):
    for case in SUITES[name](["NHWC", "NCHW", "nChw16c"], [1, 64]):
        assert keys.why_invalid(case.key) is None


@given(st.data(), layouts(0, 12), st.sampled_from([1, 2, 4, 8, 16]), threads)
def test_every_reorder_has_a_key_that_passes(data, src, width, t):
    dst = data.draw(layouts(src.rank, src.rank))
    shape = tuple(data.draw(st.lists(sizes, min_size=src.rank, max_size=src.rank)))
    assert keys.why_invalid(ReorderProblem(src, dst, shape, width, t).key) is None


@given(st.data(), layouts(3, 5), threads)
def test_every_convolution_has_keys_that_pass(data, src, t):
    rank = src.rank - 2
    dst = data.draw(layouts(src.rank, src.rank))
    axes = st.tuples(*[sizes.map(lambda n: min(n, MAX_SIZE))] * rank)
    pad = st.integers(-9, 9) | st.integers(-MAX_SIZE, MAX_SIZE)
    channels, groups = st.integers(1, 2**14), data.draw(st.integers(1, 50))
    drawn = (
        data.draw(sizes), groups * data.draw(channels), groups * data.draw(channels), data.draw(axes), data.draw(axes),
        data.draw(axes), tuple(data.draw(st.tuples(pad, pad)) for _ in range(rank)), data.draw(axes), groups, src, dst,
        data.draw(st.sampled_from(ACCURACIES)),
    )  # fmt: skip
    try:
        p = ConvProblem(*drawn)
    except ValueError as beyond:  # of 2**62 bytes
        assume("bytes" not in str(beyond))
        raise
    assert keys.why_invalid(ConvTask(p, t).key) is None and keys.why_invalid(PackTask.of(p).key) is None


CONV = "conv n1 c8 9x9 o8 k3x3 s1x1 p0+0,0+0 d1x1 g1 NCHW>NHWC f32 standard t1"
REORDER = "reorder 1x8x9x9 NCHW>nChw16c x32 t1"
FILTER = "filter o8 c8 k3x3 g1 f32"


@pytest.mark.parametrize("good, part, others", [
    (CONV, "t1", ["t-1", "t0", "t10000", "t", "tx", "", "t1 ", "t٣"]),
    (CONV, "n1", ["n0", "n-1", "n" + "9" * 19, "n01", "n1.0", "m1"]),
    (CONV, "c8", ["c0", "c1000000"]),
    (CONV, "9x9", ["9x0", "9x9x9x9", "x", ""]),
    (CONV, "0+0,0+0", ["0", "0+0,0+0,0+0,0+0", "0+" + "9" * 19]),
    (CONV, "NCHW", ["n" * 16, "nChw" + "2c" * 17, "nChw" + "2c" * 20_000, "nChw9999999999c", "N>C", "n " * 40]),
    (CONV, "standard", ["any", "STANDARD"]),
    (REORDER, "t1", ["t-1", "t0", "t10000"]),
    (REORDER, "1x8x9x9", ["1x8x0x9", "x".join("2" * 16), "-1x8", "1x" + "9" * 19]),
    (REORDER, "x32", ["x31", "x64x", "x-8"]),
    (FILTER, "g1", ["g0", "g" + "1" * 19]),
])  # fmt: skip
def test_what_cannot_be_does_not(good, part, others):
    assert keys.why_invalid(good) is None
    for other in others:
        assert keys.why_invalid(good.replace(part, other)), other


def test_keys_of_no_operation_are_bounded_only():
    assert keys.why_invalid("anything \x00 \ud800") is None and keys.why_invalid("") is None
    assert "1001 characters, at most 1000" in keys.why_invalid("x" * 1001)


def test_a_layout_without_a_tag_passes():
    layout = lk.Layout("n c/16 h 16c w")
    assert " " in str(layout)
    assert keys.why_invalid(ReorderProblem(layout, layout, (1, 16, 2, 2), 4, 1).key) is None
