import dataclasses
import re

import numpy as np
import pytest
from conftest import NEST_ISAS, WHOLE_ISAS, using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from strategies import activations, in_proportion

import layoutkit as lk
from layoutkit import winograd
from layoutkit._core.runtime import registry
from layoutkit.choosing import best, packaged, ranking
from layoutkit.choosing.cache import MAX_PLANS, Cache
from layoutkit.convolutions import order, winograd_matrices
from layoutkit.convolutions.algorithms import winograd as algorithm
from layoutkit.convolutions.algorithms.winograd_packing import pack_taps
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask, contiguous
from layoutkit.convolutions.types import BITS, F32, TYPES, converted
from layoutkit.convolutions.winograd_pieces import axis_pieces

TILES = sorted(winograd_matrices.TILES)
STRIDED = winograd_matrices.STRIDED
VECTORS = [isa for isa in WHOLE_ISAS if isa != "portable"]  # where numpy's BLAS has larger vectors than our rows
TABLES = [(isa, file) for isa in VECTORS for file in packaged.files(isa)]


def candidates(x_shape, w_shape, m, src, dst, padding, groups=1, threads=1, stride=None, dilation=None, types=F32):
    """The problem, and every candidate of F(m, 3)."""
    rank = len(x_shape) - 2
    p = ConvProblem(
        x_shape[0], x_shape[1], w_shape[0], x_shape[2:], w_shape[2:], stride or strides(m, rank), padding,
        dilation or (1,) * rank, groups, lk.Layout(src), lk.Layout(dst), "fast", types=types,
    )  # fmt: skip
    return p, [c for c in ConvTask(p, threads, "winograd").candidates() if f"F({m},3)" in c.name]


def strides(m, rank=2):
    """Those of F(m, 3), none along the depth."""
    return (1,) * (rank - 2) + (winograd_matrices.stride_of(m),) * min(rank, 2)


def routes(*args, **given):
    """The problem, and every route of F(m, 3)."""
    p, found = candidates(*args, **given)
    return p, [c.build() for c in found]


def run(p, route, x, w, bias=None, end=None):
    """The logical result, and that its pads are zero; x between guard pages if `end` says where."""
    stored = reference.to_physical(
        x, p.src, pad_value=-1 if x.dtype == BITS else np.nan
    )  # what pads hold must not matter
    if end:
        inside = guarded(stored.reshape(-1).view(np.uint8), end).array
        stored = inside.view(x.dtype).reshape(stored.shape)
    shape = p.dst.physical_shape(p.dst_shape)
    room = guarded(np.full(int(np.prod(shape)) * p.types.dst.itemsize, 255, np.uint8), end or "high")
    y = room.array.view(p.types.dst).reshape(shape)
    route.run(stored, *route.pack(w, bias), y)
    logical = reference.to_logical(y, p.dst, p.dst_shape)
    np.testing.assert_array_equal(bits(y), bits(reference.to_physical(logical, p.dst)))
    return logical


def bits(y):
    """For comparisons; numpy has none of bfloat16's NaN."""
    return y.view(np.uint16) if y.itemsize == 2 else y


@st.composite
def kernels(draw, m, rank):
    """Mostly of 3 taps, and what is cut into pieces of them; one row or column, but with stride 2."""
    high, wide = (draw(st.just(3) | st.integers(2, 16)) for _ in range(2))
    if rank == 1:
        return (wide,)
    depth = (draw(st.integers(1, 3)),) * (rank - 2)
    one = [] if m == STRIDED else [(1, wide), (high, 1)]
    return depth + draw(st.sampled_from([(high, wide)] * 3 + one))


@st.composite
def problems(draw, tiles=tuple(TILES)):
    """Of all that Winograd takes."""
    m = draw(st.sampled_from(tiles))
    rank = draw(st.sampled_from([2, 2, 3] if m == STRIDED else [1, 2, 2, 2, 3]))
    groups = draw(st.sampled_from([1, 1, 2, 3]))

    def per_axis(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    kernel = draw(kernels(m, rank))
    dilation = draw(st.sampled_from([(1,) * rank, per_axis(1, 4), per_axis(1, 20)]))
    if m == STRIDED:
        dilation = (*dilation[:-2], 1, 1)
        stride = (*per_axis(1, 2)[2:], 2, 2)
    else:
        stride = draw(st.sampled_from([per_axis(1, 1), per_axis(1, 4)]))
        dilation = tuple(d if s == 1 or i < rank - 2 else 1 for i, (s, d) in enumerate(zip(stride, dilation)))
    return dict(
        n=draw(st.integers(1, 3)), ic=groups * draw(st.integers(0, 40) | st.sampled_from([8, 16, 32])),
        oc=groups * draw(st.integers(1, 80) | st.sampled_from([8, 16, 48, 64])),
        size=per_axis(1, 40 if rank < 3 else 9), kernel=kernel, groups=groups, m=m,
        padding=tuple(draw(st.tuples(st.integers(0, 5), st.integers(0, 5))) for _ in range(rank)),
        stride=stride, dilation=dilation,
        bias=draw(st.booleans()), threads=draw(st.integers(1, 3)), isa=draw(st.sampled_from(registry.isas())),
        src=draw(activations(rank)), dst=draw(activations(rank)),
        end=draw(st.sampled_from(["low", "high"])),
    )  # fmt: skip


def has_outputs(c):
    """Of problems that Winograd takes."""
    axes = zip(c["size"], c["padding"], c["kernel"], c["dilation"])
    if any(size + sum(pads) <= dilation * (k - 1) for size, pads, k, dilation in axes):
        return False
    layout = lk.Layout({1: "NWC", 2: "NHWC", 3: "NDHWC"}[len(c["size"])])
    attributes = (c[name] for name in ("n", "ic", "oc", "size", "kernel", "stride", "padding", "dilation", "groups"))
    return algorithm.Winograd(c["m"]).supports(ConvProblem(*attributes, layout, layout)) is None


@given(problems())
def test_any_problem_in_any_layout(c):
    assume(has_outputs(c))
    rng = np.random.default_rng(c["ic"] * 100 + c["oc"])
    x = rng.standard_normal((c["n"], c["ic"], *c["size"]), np.float32)
    w = rng.standard_normal((c["oc"], c["ic"] // c["groups"], *c["kernel"]), np.float32)
    b = rng.standard_normal(c["oc"], np.float32) if c["bias"] else None
    want = reference.conv(x, w, b, c["stride"], c["padding"], c["dilation"], c["groups"])
    assume(in_proportion(c["src"], x) and in_proportion(c["dst"], want))
    with using_isa(c["isa"]):
        p, found = routes(x.shape, w.shape, c["m"], c["src"], c["dst"], c["padding"], c["groups"], c["threads"],
                          c["stride"], c["dilation"])  # fmt: skip
        assert found
        allowed = winograd.error_bound(x, w, c["m"], bias=b, stride=c["stride"], padding=c["padding"],
                                       dilation=c["dilation"], groups=c["groups"])  # fmt: skip
        for route in found:
            assert (abs(run(p, route, x, w, b, c["end"]) - want) <= allowed).all()


@given(problems(tuple(winograd.PAIRS)))
def test_filters_that_are_expanded(c):
    """While they are multiplied: of any problem, although only large ones take that way; the same for any threads."""
    assume(has_outputs(c) and c["ic"])
    rng = np.random.default_rng(c["ic"] * 100 + c["oc"])
    x = rng.standard_normal((c["n"], c["ic"], *c["size"]), np.float32)
    w = rng.standard_normal((c["oc"], c["ic"] // c["groups"], *c["kernel"]), np.float32)
    b = rng.standard_normal(c["oc"], np.float32) if c["bias"] else None
    want = reference.conv(x, w, b, c["stride"], c["padding"], c["dilation"], c["groups"])
    assume(in_proportion(c["src"], x) and in_proportion(c["dst"], want))
    of = algorithm.Winograd(c["m"], expanded=True)
    steps = winograd.roundings(c["m"], w.shape[1])  # small ones are rounded more often than their bound has it
    allowed = winograd.error_bound(x, w, c["m"], bias=b, stride=c["stride"], padding=c["padding"],
                                   dilation=c["dilation"], groups=c["groups"])  # fmt: skip
    allowed = allowed * (steps + 2 * winograd_matrices.EXPANDED_STEPS) / steps
    with using_isa(c["isa"]):
        p = candidates(x.shape, w.shape, c["m"], c["src"], c["dst"], c["padding"], c["groups"], 1, c["stride"],
                       c["dilation"])[0]  # fmt: skip
        natives = of.natives(p)
        for kernel in of.kernels(p) if isinstance(natives, list) else ():
            found = [run(p, of.route(p, natives[0], kernel, threads, contiguous(p)), x, w, b, c["end"])
                     for threads in (1, c["threads"])]  # fmt: skip
            assert (abs(found[0] - want) <= allowed).all()
            np.testing.assert_array_equal(*found)


@given(
    st.integers(1, 3), st.integers(0, 70), st.integers(0, 9), st.integers(1, 2), st.integers(1, 8), st.integers(2, 8),
    st.sampled_from([1, 1, 2, 3]), st.permutations(range(5)), st.tuples(*[st.sampled_from([1, 2, -1])] * 5),
)  # fmt: skip
def test_taps_are_packed_from_any_strides(groups, outputs, channels, depth, high, wide, stride, order, steps):
    shape = groups * outputs, channels, depth, high, wide
    p = candidates((1, 8, 9, 9), (8, 8, 3, 3), 4, "NHWC", "NHWC", ((0, 0), (0, 0)))[0]
    kernel = algorithm.Winograd(4, expanded=True).kernels(p)[0]
    panels = -(-outputs // kernel.nr) + 1
    memory = np.empty([shape[i] * abs(steps[i]) for i in order], np.float32).transpose(np.argsort(order))
    w = memory[tuple(slice(None, None, step) for step in steps)]
    w[...] = np.random.default_rng(outputs).standard_normal(shape)
    axes, rows = (axis_pieces(high, stride), axis_pieces(wide, stride)), 3 if high > 1 else 1
    packed = pack_taps(w, *axes, groups, panels, kernel)
    want = np.zeros((groups, panels * kernel.nr, channels, depth, *(len(a.taps) for a in axes), rows, 3), np.float32)
    by_group = w.reshape(groups, outputs, channels, depth, high, wide)
    for i, of_rows in enumerate(axes[0].taps):
        for j, of_columns in enumerate(axes[1].taps):
            piece = by_group[..., of_rows, :][..., of_columns]
            want[:, :outputs, :, :, i, j, : len(of_rows), : len(of_columns)] = piece
    pieces = depth * len(axes[0].taps) * len(axes[1].taps)
    want = want.reshape(groups, panels, kernel.nr, channels, pieces, 3 * rows).transpose(0, 1, 4, 3, 5, 2)
    np.testing.assert_array_equal(packed, want)


@pytest.mark.parametrize("ic, oc, size, kernel, expanded", [
    (256, 256, (16, 16), (3, 3), True), (256, 256, (8, 8, 8), (3, 3, 3), True), (1024, 1024, (40,), (3,), True),
    (256, 256, (64, 64), (3, 3), False), (64, 64, (16, 16), (3, 3), False), (256, 256, (9, 9), (1, 1), False),
    (64, 4096, (16, 16), (3, 3), False),
])  # fmt: skip
def test_large_filters_that_are_read_once_are_expanded_for_few_tiles(ic, oc, size, kernel, expanded):
    padding = tuple((k // 2, k // 2) for k in kernel)
    layout = lk.Layout({1: "NWC", 2: "NHWC", 3: "NDHWC"}[len(size)])
    ones = (1,) * len(size)
    p = ConvProblem(1, ic, oc, size, kernel, ones, padding, ones, 1, layout, layout)
    for read_once in ({"of_network": True}, {"once": True}):
        found = [c for c in ConvTask(p, 1, **read_once).candidates() if "F(4,3)" in c.name]
        assert {c.build().packing.startswith("winograd taps") for c in found} <= {expanded}
        assert [c.name for c in found] == [c.name for c in ConvTask(p, 1).candidates() if "F(4,3)" in c.name]
    assert not any("taps" in c.build().packing for c in ConvTask(p, 1).candidates())


@given(problems(), st.sampled_from([TYPES["bf16"], TYPES["bf16_f32"]]))
def test_bfloat16_in_any_layout(c, types):
    """Tiles of bfloat16 where there are dot products of them, else of float32."""
    assume(has_outputs(c))
    rng = np.random.default_rng(c["ic"] * 100 + c["oc"])
    x = converted(rng.standard_normal((c["n"], c["ic"], *c["size"]), np.float32), "f32", "bf16")
    w = converted(rng.standard_normal((c["oc"], c["ic"] // c["groups"], *c["kernel"]), np.float32), "f32", "bf16")
    b = rng.standard_normal(c["oc"], np.float32) if c["bias"] else None
    as_f32 = converted(x, "bf16", "f32"), converted(w, "bf16", "f32")
    want = reference.conv(*as_f32, b, c["stride"], c["padding"], c["dilation"], c["groups"])
    assume(in_proportion(c["src"], x) and in_proportion(c["dst"], want))
    with using_isa(c["isa"]):
        p, found = candidates(x.shape, w.shape, c["m"], c["src"], c["dst"], c["padding"], c["groups"], c["threads"],
                              c["stride"], c["dilation"], types)  # fmt: skip
        if c["ic"] // c["groups"] % 2 == 0:  # of an odd number blocks are widened: a pad would complete a unit
            assert any(" as " not in each.name for each in found) == (registry.isa() == "avx512_bf16")
        for each in found:
            allowed = winograd.error_bound(*as_f32, c["m"], bias=b, stride=c["stride"], padding=c["padding"],
                                           dilation=c["dilation"], groups=c["groups"],
                                           narrow=" as " not in each.name)  # fmt: skip
            got = run(p, each.build(), x, w, b, c["end"])
            if types.dst.itemsize == 2:
                got, allowed = converted(got, "bf16", "f32"), allowed + 2.0**-8 * (abs(want) + allowed)
            assert (abs(got - want) <= allowed).all()


@pytest.mark.parametrize("ic", [7, 8, 33])
@pytest.mark.parametrize("src", ["NHWC", "nChw8c", "nChw16c"])
@pytest.mark.parametrize("m", TILES)
def test_pads_take_no_part_in_units(m, src, ic):
    """An odd number of channels leaves half a unit, in blocks a pad, here NaN."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-2, 3, shape).astype(np.float32) for shape in ((1, ic, 6, 7), (9, ic, 3, 3)))
    x16, w16 = (converted(a, "f32", "bf16") for a in (x, w))
    p, found = candidates(x.shape, w.shape, m, src, "NHWC", ((1, 1), (1, 1)), types=TYPES["bf16_f32"])
    want = reference.conv(x, w, None, strides(m), ((1, 1), (1, 1)), (1, 1), 1)
    assert found
    for each in found:
        assert np.linalg.norm(run(p, each.build(), x16, w16) - want) <= 0.08 * np.linalg.norm(want)


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("m", TILES)
def test_every_ragged_edge(m, isa):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((20, 8, 3, 3), np.float32)
    with using_isa(isa):
        for height in range(1, 2 * m + 2):
            for padding in (((1, 1), (1, 1)), ((0, 2), (2, 0)), ((2, 2), (7, 9))):
                x = rng.standard_normal((1, 8, height, 2 * m + 3 - height), np.float32)
                want = reference.conv(x, w, None, strides(m), padding, (1, 1), 1)
                p, found = routes(x.shape, w.shape, m, "NHWC", "nChw8c", padding)
                got = run(p, found[0], x, w)
                assert np.linalg.norm(got - want) <= 2e-6 * m * np.linalg.norm(want)


@pytest.mark.parametrize(("ic", "size"), [(48, 30), (300, 9), (32, 37)])
@pytest.mark.parametrize("m", TILES)
@pytest.mark.parametrize("dst", ["NHWC", "nChw16c"])
def test_threads_do_not_change_a_bit(m, dst, ic, size):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, ic, size, size + 1), np.float32), rng.standard_normal((200, ic, 3, 3), np.float32)
    results = []
    for threads in (1, 2, 3, 7):
        p, found = routes(x.shape, w.shape, m, "NHWC", dst, ((1, 1), (1, 1)), threads=threads)
        results += [run(p, route, x, w) for route in found]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@given(st.data())
def test_any_cut_gives_the_same_bits(data):
    """Groups of any number of tiles, none among them, and blocks of any number of panels."""
    draw = data.draw
    m = draw(st.sampled_from(TILES))
    kernel = (3, 3) if m == STRIDED else draw(st.sampled_from([(3, 3), (1, 3), (5, 1), (4, 7)]))
    n, ic, oc, high, wide = (draw(st.integers(1, most)) for most in (3, 20, 200, 20, 30))
    rng = np.random.default_rng(ic)
    x = rng.standard_normal((n, ic, high, wide), np.float32)
    w = rng.standard_normal((oc, ic, *kernel), np.float32)
    dilation = draw(st.sampled_from([(1, 1), (2, 3), (7, 5)])) if m != STRIDED else (1, 1)
    padding = tuple((d * (k // 2),) * 2 for d, k in zip(dilation, kernel))
    bits = []
    for threads in (1, draw(st.integers(1, 3))):
        counts = (1, 1) if not bits else (draw(st.integers(1, n * high * wide)), draw(st.integers(1, 8)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(algorithm, "cut", lambda *_, counts=counts: counts)
            p, found = routes(x.shape, w.shape, m, "NHWC", "NHWC", padding, threads=threads, dilation=dilation)
            bits.append([run(p, route, x, w) for route in found])
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("columns", [1, 16, 40, 64, 65, 130, 400])
@pytest.mark.parametrize("size", [3, 7, 13, 20, 57])
def test_threads_share_the_work_evenly(size, columns):
    """By the estimate, which counts what the busiest one does: more are never slower, two nearly halve it."""
    one = ConvProblem(1, 64, columns, (size,) * 2, (3, 3), (1, 1), ((1, 1),) * 2, (1, 1), 1, lk.Layout("NHWC"),
                      lk.Layout("NHWC"), "fast")  # fmt: skip
    for a in algorithm.WINOGRAD:
        one = dataclasses.replace(one, stride=strides(a.m))
        for kernel in a.kernels(one):
            alone = a.estimate(one, kernel, 1)
            for threads in (2, 3, 4):
                assert a.estimate(one, kernel, threads) <= alone * (1 + 1e-9)
            assert size < 20 or a.estimate(one, kernel, 2) <= 0.6 * alone


@pytest.mark.parametrize("inputs", ["normal", "relu"])
@pytest.mark.parametrize("ic", [32, 64, 128, 256, 512])
def test_usual_numbers_round_little_more_than_a_sum_in_one_piece(ic, inputs, monkeypatch):
    """Of random numbers; of others only `winograd.error_bound` is promised."""
    monkeypatch.setattr(order, "MAX_CHUNK_PRODUCTS", 1 << 30)
    rng = np.random.default_rng(ic)
    x = rng.standard_normal((1, ic, 24, 24), np.float32)
    x = np.maximum(x, 0) if inputs == "relu" else x
    w = rng.standard_normal((max(16, 2048 // ic), ic, 3, 3), np.float32)
    padding = ((1, 1), (1, 1))
    want = reference.conv(x, w, None, (1, 1), padding, (1, 1), 1)
    p, _ = routes(x.shape, w.shape, 2, "NHWC", "NHWC", padding)
    in_one_piece = next(c for c in ConvTask(p, 1, "direct").candidates()).build()
    own = np.linalg.norm(run(p, in_one_piece, x, w) - want)
    for m, most in ((2, 2.5), (4, 2.5), (6, 12)):
        p, found = routes(x.shape, w.shape, m, "NHWC", "NHWC", padding)
        for route in found:
            assert np.linalg.norm(run(p, route, x, w) - want) <= most * own


@pytest.mark.parametrize("ic", [8, 16, 24])
def test_standard_with_few_channels(ic):
    """F(2,3) alone: there direct summation itself rounds little, on random numbers as well."""
    rng = np.random.default_rng(ic)
    x, w = rng.standard_normal((1, ic, 40, 40), np.float32), rng.standard_normal((64, ic, 3, 3), np.float32)
    names = [c.candidate.name for c in lk.Conv2d(w).plan(x.shape).choices]
    assert not any("F(4,3)" in n or "F(6,3)" in n for n in names) and any("F(2,3)" in n for n in names)
    want = reference.conv(x, w, None, (1, 1), ((0, 0), (0, 0)), (1, 1), 1)
    own = np.linalg.norm(lk.conv2d(x, w, accuracy="strict", algorithm="im2col") - want)
    p, found = routes(x.shape, w.shape, 2, "NCHW", "NCHW", ((0, 0), (0, 0)))
    assert np.linalg.norm(run(p, found[0], x, w) - want) <= 2.5 * own


@pytest.mark.parametrize("groups, ic", [(1, 1), (1, 7), (8, 7)])
def test_fewer_channels_are_not_tried_but_where_asked_for(groups, ic):
    x, w = (1, groups * ic, 40, 40), np.ones((8 * groups, ic, 3, 3), np.float32)
    assert not any("winograd" in c.candidate.name for c in lk.Conv2d(w, groups=groups).plan(x).choices)
    forced = lk.Conv2d(w, groups=groups, algorithm="winograd").plan(x).choices
    assert forced and all("winograd" in c.candidate.name for c in forced)


def names(accuracy, ic=64, **kwargs):
    op = lk.Conv2d(np.ones((64, ic, 3, 3), np.float32), layout="NHWC", accuracy=accuracy, **kwargs)
    return [c.candidate.name for c in op.plan((1, ic, 56, 56)).choices]


def test_accuracy_says_what_may_be_chosen():
    assert not any("winograd" in n for n in names("strict"))
    assert {n.split()[1] for n in names("standard") if "winograd" in n} == {"F(2,3)", "F(4,3)"}
    assert {n.split()[1] for n in names("fast") if "winograd" in n} == {"F(2,3)", "F(4,3)", "F(6,3)"}
    assert {n.split()[1] for n in names("fast", 8) if "winograd" in n} == {"F(2,3)", "F(4,3)", "F(6,3)"}
    keys = {lk.Conv2d(np.ones((64, 64, 3, 3), np.float32), accuracy=a).plan((1, 64, 9, 9)).title
            for a in ("strict", "standard", "fast")}  # fmt: skip
    assert len(keys) == 3


@pytest.mark.parametrize("algorithm", ["auto", "direct", "im2col"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "nChw16c"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_strict_keeps_what_is_not_finite_local(algorithm, layout, bad):
    rng = np.random.default_rng(0)
    x = rng.random((1, 32, 20, 21), np.float32) + 1
    w = rng.random((48, 32, 3, 3), np.float32) + 1
    x[0, 5, 9, 11] = bad
    got = lk.conv2d(lk.reorder(x, "NCHW", layout), w, padding=1, layout=layout, out_layout="NCHW", accuracy="strict",
                    algorithm=algorithm)  # fmt: skip
    reached = np.zeros(got.shape, bool)
    reached[:, :, 8:11, 10:13] = True
    np.testing.assert_array_equal(np.isfinite(got), ~reached)
    np.testing.assert_array_equal(got[reached], np.full(reached.sum(), bad, np.float32))


def test_untuned_choice():
    """F(4,3), but for few tiles where its filter does not fit in a cache."""
    for c, size, tile in ((512, 7, 2), (256, 9, 4), (256, 14, 4), (256, 28, 4), (256, 56, 4), (256, 224, 4)):
        op = lk.Conv2d(np.ones((c, c, 3, 3), np.float32), padding=1, layout="NHWC", threads=1)
        assert f"winograd F({tile},3)" in op.plan((1, c, size, size)).choices[0].candidate.name


X, W = np.ones((1, 8, 9, 9), np.float32), np.ones((8, 8, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        (dict(stride=3), "winograd saves no multiplications for kernels of 3x3 with stride (3, 3)"),
        (dict(stride=(3, 2)), "winograd saves no multiplications for kernels of 3x3 with stride (3, 2)"),
        (dict(stride=2, dilation=2), "takes no stride with a dilation along one axis: stride (2, 2), dilation (2, 2)"),
        (
            dict(w=np.ones((8, 8, 1, 1), np.float32)),
            "kernels of 2 to 16 along one or both of the last axes, not of 1x1",
        ),
        (dict(w=np.ones((8, 8, 17, 3), np.float32), padding=9), "along one or both of the last axes, not of 17x3"),
        (dict(w=np.ones((8, 8, 16, 16), np.float32), padding=9), "a kernel of 16x16 into 36 pieces, more than 32"),
        (dict(accuracy="strict"), "winograd F(2,3) is of accuracy 'standard' here on "),
        (dict(accuracy="exact"), "accuracy 'exact' is none of reproducible, strict, standard, fast"),
    ],
)
def test_what_it_cannot_do(kwargs, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        lk.conv2d(X, kwargs.pop("w", W), **({"algorithm": "winograd"} | kwargs))


@pytest.mark.parametrize("stride", [(1, 2), (2, 1), (2, 2)])
def test_integers_with_a_stride_go_directly(stride):
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (1, 12, 13, 64), np.uint8), rng.integers(-128, 128, (32, 64, 3, 3), np.int8)
    with pytest.raises(ValueError, match=re.escape("winograd of integers is F(4,3) of 3x3 without a stride")):
        lk.conv2d(x, w, stride=stride, layout="NHWC", algorithm="winograd")
    got = lk.conv2d(x, w, stride=stride, layout="NHWC", out_layout="NCHW")
    want = reference.conv(x.transpose(0, 3, 1, 2).astype(np.int64), w.astype(np.int64), None, stride, ((0, 0),) * 2,
                          (1, 1), 1)  # fmt: skip
    np.testing.assert_array_equal(got, want)


def test_a_single_call_counts_the_packing():
    """Transforming the filter takes longer than such a convolution."""
    x, w = np.ones((1, 7, 7, 256), np.float32), np.ones((256, 256, 3, 3), np.float32)
    once = lk.plan(lk.conv2d, x, w, layout="NHWC", padding=1).choices[0].candidate.name
    often = lk.Conv2d(w, layout="NHWC", padding=1).plan((1, 256, 7, 7)).choices[0].candidate.name
    assert "winograd" not in once and "winograd" in often


@pytest.mark.parametrize("isa, file", TABLES, ids=lambda x: getattr(x, "stem", ""))
def test_strided_choice(isa, file, monkeypatch):
    """Where there are channels enough; not where reading so many more weights takes longer than it saves.

    So it is by the costs of every processor.
    """
    monkeypatch.setattr(packaged, "_nearest", lambda isa, here: file)
    for module in (best, ranking):  # what was ranked by the costs of another processor does not count
        monkeypatch.setattr(module, "plans", Cache(MAX_PLANS))
    with using_isa(isa):
        for c, size, chosen in (
            (64, 112, True), (128, 56, True), (256, 28, True), (3, 224, False), (8, 64, False),
        ):  # fmt: skip
            op = lk.Conv2d(np.ones((2 * c, c, 3, 3), np.float32), stride=2, padding=1, layout="NHWC", threads=1)
            assert ("winograd" in op.plan((1, c, size, size)).choices[0].candidate.name) == chosen


@pytest.mark.parametrize("kernel, dilation, stride", [
    ((5, 5), 1, 1), ((7, 7), 1, 1), ((1, 7), 1, 1), ((7, 1), 1, 1), ((1, 11), 3, 1), ((2, 2), 1, 1), ((4, 4), 1, 2),
    ((5, 5), 1, 2), ((7, 7), 1, 2),
])  # fmt: skip
def test_other_kernels_are_chosen(kernel, dilation, stride):
    """As sums of pieces of 3 taps along an axis."""
    op = lk.Conv2d(np.ones((128, 128, *kernel), np.float32), dilation=dilation, stride=stride, layout="NHWC", threads=1)
    assert "winograd F(4,3)" in op.plan((1, 128, 64, 64)).choices[0].candidate.name


def test_forced():
    w = np.ones((8, 8, 3, 3), np.float32)
    assert all("winograd" in c.candidate.name for c in lk.Conv2d(w, algorithm="winograd").plan((1, 8, 9, 9)).choices)
    np.testing.assert_allclose(lk.conv2d(X, w, padding=1, algorithm="winograd"), lk.conv2d(X, w, padding=1), rtol=1e-5)
    assert lk.conv2d(X[:0], w, algorithm="winograd").shape == (0, 8, 7, 7)
