"""Gradients of filters: the same for any threads, errors, plans, candidates that all agree."""

import re

import ml_dtypes
import numpy as np
import pytest
from conftest import using_isa
from oracle import reference

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.ranking import candidates_of
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import contiguous
from layoutkit.grad.task import WeightTask

RNG = np.random.default_rng(0)


def drawn(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("groups", "algorithm"), [(1, "auto"), (4, "direct"), (48, "direct"), (48, "depthwise")])
def test_the_same_bits_for_any_number_of_threads(groups, algorithm):
    x, dy = drawn(3, 70, 65, 48), drawn(3, 70, 65, 48)  # some slabs
    found = [lk.grad.conv2d_weight(x, (48, 48 // groups, 3, 3), dy, padding=1, groups=groups, layout="NHWC",
                                   algorithm=algorithm, threads=t) for t in (1, 2, 3, 7)]  # fmt: skip
    assert all((one == found[0]).all() for one in found)


@pytest.mark.filterwarnings("ignore:.*only slow ways")  # a lane of each vector
def test_the_error_stays_within_the_bound_that_is_stated():
    x, dy = drawn(2, 1, 400, 400), drawn(2, 1, 398, 398)
    x[...], dy[...] = np.float32(1.1), np.float32(0.9)  # every rounding of a block in one direction
    got = lk.grad.conv2d_weight(x, (1, 1, 3, 3), dy)
    blocks = -(-2 * 398 * 3 // 16)  # rows of three parts at least, of sixteen slabs
    exact = 2 * 398 * 398 * float(np.float32(1.1)) * float(np.float32(0.9))
    assert abs(got - exact).max() <= (blocks + 406) * 2.0**-24 * exact


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "nChw16c", "CHWN"])
@pytest.mark.parametrize("types", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("groups", [1, 32])
def test_every_candidate_gives_the_same(layout, types, groups):
    key = f"conv_weight n2 c32 9x8 o32 k3x3 s2x1 p1+1,0+2 d1x2 g{groups} {layout}>{layout} {types} standard t2"
    task = WeightTask.parse(key)
    assert task.key == key
    p = task.problem
    x, dy = (RNG.integers(-3, 4, shape).astype(p.types.src) for shape in (p.src_shape, p.dst_shape))
    want = reference.conv_weight(x, dy, p.kernel, p.stride, p.padding, p.dilation, p.groups)
    found = candidates_of(task)
    assert len(found) >= 2 or groups == 1
    arrays = [reference.to_physical(a, p.src) for a in (x, dy)]
    for candidate in found:
        route = candidate.build(contiguous(p))
        got = reference.to_logical(route(*arrays), route.layout, route.shape)
        np.testing.assert_array_equal(got.reshape(want.shape), want, candidate.name)
        assert candidate.estimate > 0


def test_plans_tell_candidates_and_rates():
    x, dy = drawn(2, 16, 20, 20), drawn(2, 32, 20, 20)
    plan = lk.plan(lk.grad.conv2d_weight, x, (32, 16, 3, 3), dy, padding=1)
    text = plan.explain()
    assert text.startswith("grad.conv2d_weight, which is the gradient of the filter of conv2d of (2, 16, 20, 20) ")
    assert "FMA peak" in text and re.search(r"\n-> (direct|winograd) ", text) and "outer_" not in text
    savings = {c.candidate.words.algorithm: c.candidate.words.saving for c in plan.choices}
    assert 4 < savings["winograd"] < 5 and 1 < savings["direct"] < 1.2, "padding counts"
    text = plan.explain(verbose=True)
    assert "\nconv_weight n2 c16 20x20 o32 k3x3" in text and re.search("  (direct|winograd) outer_", text)
    plan = lk.plan(lk.grad.conv2d_input, (2, 16, 20, 20), drawn(32, 16, 3, 3), dy, padding=1)
    assert plan.words.startswith("grad.conv2d_input, which is conv_transpose2d of (2, 32, 20, 20) float32 NCHW ")
    assert "conv_transpose n2 c32 20x20 o16" in plan.title


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(weight_size=(4, 3, 3)), "grad.conv2d_weight: weight_size: expected 4 numbers"),
        (dict(weight_size=(4, 2, 3, 3)), "x of shape (1, 3, 8, 8) has 3 channels, weight_size says 2"),
        (dict(groups=3), "4 channels do not divide into 3 groups"),
        (dict(stride=2), "grad_output"),
        (dict(grad_output=drawn(1, 5, 6, 6)), "grad_output"),
        (dict(grad_output=drawn(1, 4, 6, 6, dtype=np.float64)), "grad_output: expected dtype float32, got float64"),
        (dict(x=np.ones((1, 3, 8, 8), np.int8)), "x"),
        (dict(algorithm="fft"), "algorithm 'fft' is none of auto, direct"),
        (dict(algorithm="depthwise"), "cannot sum the gradient"),
        (dict(accuracy="exact"), "accuracy 'exact' is none of"),
        (dict(beta=1), "beta=1 adds to out, which was not given"),
        (dict(beta=float("nan")), "beta must be a finite number"),
        (dict(out=np.ones((4, 3, 3, 2), np.float32)), "out must have shape"),
        (dict(filter_layout="NCHW"), "filter_layout"),
        (dict(layout="OIHW"), "layout"),
        (dict(weight_size=(4, 3, 9, 9)), "kernel (9, 9) with dilation (1, 1) does not fit"),
        (dict(padding="reflect"), "padding"),
        (dict(x=None), "x: expected an array"),
    ],
)
def test_errors_name_what_is_wrong(change, message):
    given = dict(x=drawn(1, 3, 8, 8), weight_size=(4, 3, 3, 3), grad_output=drawn(1, 4, 6, 6)) | change
    with pytest.raises((ValueError, TypeError), match=re.escape(message)) as error:
        lk.grad.conv2d_weight(**given)
    assert str(error.value).startswith(("grad.conv2d_weight", "conv"))


def test_out_may_not_overlap_the_input():
    x = drawn(1, 4, 4, 4)
    with pytest.raises(ValueError, match="overlap"):
        lk.grad.conv2d_weight(x, (4, 4, 1, 1), drawn(1, 4, 4, 4), out=x.reshape(4, 4, 4, 1)[:, :, :1])


def test_tensors_give_tensors():
    x, dy = lk.Tensor(drawn(1, 8, 8, 3), "NHWC"), lk.Tensor(drawn(1, 6, 6, 4), "NHWC")
    dw = lk.grad.conv2d_weight(x, (4, 3, 3, 3), dy)
    assert isinstance(dw, lk.Tensor) and dw.shape == (4, 3, 3, 3)
    dx = lk.grad.conv2d_input((1, 3, 8, 8), dw, dy)
    assert isinstance(dx, lk.Tensor) and dx.layout == lk.Layout("NHWC") and dx.shape == (1, 3, 8, 8)


def test_a_key_of_a_table_is_one_of_a_problem():
    task = WeightTask(
        ConvProblem(1, 4, 6, (8, 8), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2, *[lk.Layout("NHWC")] * 2), 2
    )
    assert WeightTask.parse(task.key) == task and len(task.features())


def test_bits_of_bfloat16_are_scaled_as_numbers():
    """Where ml_dtypes is not installed, or the caller says so, bfloat16 is held in uint16."""
    bits = ("bfloat16", "bfloat16")
    one, x = np.uint16(0x3F80), np.full((1, 2, 4, 4), 0x3F80, np.uint16)
    for n in (1, 0):
        given = x[:n]
        dw = lk.grad.conv2d_weight(given, (2, 2, 1, 1), given, out=np.full((2, 2, 1, 1), one), beta=2, dtype=bits)
        db = lk.grad.conv2d_bias(given, out=np.full(2, one), beta=2, dtype=bits)
        assert (dw == (0x4190 if n else 0x4000)).all() and (db == (0x4190 if n else 0x4000)).all()  # 18 and 2
    dx = lk.grad.conv2d_input((1, 2, 4, 4), np.full((2, 2, 1, 1), one), x, out=x.copy(), beta=3, dtype=bits)
    assert (dx == 0x40A0).all()  # 5


def test_lk_reproducible_counts_for_what_was_called_before():
    x, dy = drawn(1, 24, 20, 20), drawn(1, 24, 20, 20)
    given = dict(weight_size=(24, 1, 3, 3), padding=1, groups=24)
    lk.grad.conv2d_weight(x, grad_output=dy, **given)
    direct = lk.grad.conv2d_weight(x, grad_output=dy, algorithm="direct", **given)
    before = lk.reproducible(True)
    try:
        found = lk.grad.conv2d_weight(x, grad_output=dy, **given)
        with pytest.raises(ValueError, match="depthwise is of accuracy 'strict'"):
            lk.grad.conv2d_weight(x, grad_output=dy, algorithm="depthwise", **given)
    finally:
        lk.reproducible(before)
    assert (found == direct).all()


@pytest.mark.parametrize("filter_layout", ["OIHW", "HWIO", "OIhw4o4i"])
@pytest.mark.parametrize("stride", [1, 2])
def test_filters_may_change_between_calls(filter_layout, stride):
    """Decisions of a call are kept, filters are not."""
    size, attributes = (1, 6, 9, 9), dict(stride=(stride, stride), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
    dy = drawn(1, 8, *[(9 - 1) // stride + 1] * 2)
    for _ in range(3):
        w = drawn(8, 6, 3, 3)
        held = reference.to_physical(w, lk.Layout(filter_layout))
        got = lk.grad.conv2d_input(size, held, dy, stride=stride, padding=1, filter_layout=filter_layout,
                                   filter_shape=w.shape)  # fmt: skip
        want = reference.conv_transpose(dy, w, None, output_padding=(0, 0), **attributes)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["conv2d_weight", "conv2d_input", "conv_transpose2d_weight", "conv_transpose2d_input"])
@pytest.mark.parametrize(
    "how", [dict(layout="NCHW"), dict(layout="NHWC"), dict(layout="NHWC", groups=8), dict(layout="nChw8c", stride=2)]
)
def test_a_workspace_is_used_in_place_of_new_memory(kind, how):
    how = dict(padding=1, threads=2) | how
    layout, groups, stride = how["layout"], how.get("groups", 1), how.get("stride", 1)
    sides = (2, 8, 9, 11), (2, 16, -(-9 // stride), -(-11 // stride))
    if "transpose" in kind:
        sides = sides[::-1]
        first = (sides[0][1], sides[1][1] // groups, 3, 3)
    else:
        first = (sides[1][1], sides[0][1] // groups, 3, 3)
    x, dy = (reference.to_physical(drawn(*shape), lk.Layout(layout)) for shape in sides)
    operation = getattr(lk.grad, kind)
    arguments = (sides[0], drawn(*first), dy) if "input" in kind else (x, first, dy)
    want = operation(*arguments, **how)
    needed = lk.plan(operation, *arguments, **how).workspace
    room = np.full(needed + 64, 255, np.uint8)  # NaN
    got = operation(*arguments, workspace=room[:needed], **how)
    np.testing.assert_array_equal(got, want)
    assert (room[needed:] == 255).all() and (not needed or (room[:needed] != 255).any())
    if needed:
        with pytest.raises(
            ValueError, match=rf"grad.{kind}: workspace of {needed - 1} bytes, this call needs {needed}"
        ):
            operation(*arguments, workspace=room[: needed - 1], **how)
        out = room[-needed // 64 * 64 :][: want.nbytes] if want.nbytes < needed else None
        if out is not None:
            with pytest.raises(ValueError, match="workspace overlaps"):
                operation(*arguments, workspace=room, out=out.view(np.float32).reshape(want.shape), **how)


@pytest.mark.filterwarnings("ignore:.*only slow ways")  # three channels in a register tile of eight
@pytest.mark.parametrize("stride", [1, 2])
def test_reproducible_sums_have_the_same_bits(stride):
    """In any layout, by any algorithm that may be chosen then, with AVX2 or AVX-512."""
    x, dy = drawn(3, 3, 40, 37), drawn(3, 24, -(-40 // stride), -(-37 // stride))
    found = {}
    lk.reproducible(True)
    try:
        for isa in {"avx2", "avx512"} & set(registry.isas()) or {registry.isa()}:
            for layout in ("NCHW", "NHWC", "nChw8c", "CHWN"):
                for algorithm in ("auto", "direct", "folded", "im2col"):
                    px, pdy = (reference.to_physical(a, lk.Layout(layout)) for a in (x, dy))
                    with using_isa(isa):
                        found[isa, layout, algorithm] = lk.grad.conv2d_weight(
                            px, (24, 3, 3, 3), pdy, padding=1, stride=stride, layout=layout, shape=x.shape,
                            algorithm=algorithm, threads=1 + len(found) % 3,
                        )  # fmt: skip
    finally:
        lk.reproducible(False)
    first = next(iter(found.values()))
    for case, got in found.items():
        np.testing.assert_array_equal(got, first, str(case))


@pytest.mark.parametrize("algorithm", ["auto", "direct", "folded", "im2col", "winograd"])
def test_any_strides(seed, algorithm):
    """Views that are reversed, broadcast, cut out of larger arrays, or begin within an element of another's."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        n, i, o, h, w = (int(v) for v in rng.integers(1, 9, 5))
        x = rng.integers(-3, 4, (n, h + 2, w + 2, i + 3)).astype(np.float32)[:, 1:-1, 1:-1, : i + 1][..., :-1]
        dy = np.moveaxis(rng.integers(-3, 4, (n, o, h, w)).astype(np.float32), 1, 3)
        for axis in range(4):
            x, dy = (np.flip(a, axis) if rng.integers(4) == 0 else a for a in (x, dy))
        if rng.integers(3) == 0:
            x = np.broadcast_to(x[:, :1], x.shape)
        if rng.integers(3) == 0:
            raw = np.empty(x.nbytes + 1, np.uint8)
            x, before = raw[1:].view(np.float32).reshape(x.shape), x
            x[...] = before
        want = reference.conv_weight(
            np.moveaxis(x, 3, 1), np.moveaxis(dy, 3, 1), (3, 3), (1, 1), ((1, 1),) * 2, (1, 1), 1
        )
        try:
            got = lk.grad.conv2d_weight(x, (o, i, 3, 3), dy, padding=1, layout="NHWC", algorithm=algorithm,
                                        accuracy="fast")  # fmt: skip
        except ValueError as error:
            assert algorithm in ("folded", "im2col") and "is for a few" in str(error)
            continue
        if algorithm in ("auto", "winograd"):
            np.testing.assert_allclose(got, want, atol=2e-3)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.filterwarnings("ignore::layoutkit.SlowPathWarning")
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("channels, kernel, stride", [(3, (7, 5), 2), (5, (6, 3), 1), (9, (1, 1), 1)])
def test_blocks_of_several_rows(channels, kernel, stride, layout):
    """Windows that share most rows with those of the next block, and rows that are packed like one."""
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((2, channels, 37, 101)), np.zeros((11, channels, *kernel))
    pads = tuple((k // 2, k // 2) for k in kernel)
    dy = rng.standard_normal(reference.conv(x, w, None, (stride, stride), pads, (1, 1), 1).shape)
    order = (0, 2, 3, 1) if layout == "NHWC" else (0, 1, 2, 3)
    got = lk.grad.conv2d_weight(
        x.transpose(order).copy(), w.shape, dy.transpose(order).copy(), stride=stride, padding=pads, layout=layout
    )
    padded = np.pad(x, ((0, 0), (0, 0), *pads))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3))[:, :, ::stride, ::stride]
    np.testing.assert_allclose(got, np.einsum("nohw,nihwkl->oikl", dy, windows), rtol=1e-10, atol=1e-10)


def test_narrow_gradients_onto_a_multiple_are_rounded_once():
    """257 + 2 * -4 = 249; rounded to bfloat16 before, 257 would be 256, and the result 248."""
    x, dy = np.full((1, 1, 1, 257), 1, ml_dtypes.bfloat16), np.full((1, 1, 1, 257), 1, ml_dtypes.bfloat16)
    out = np.full((1, 1, 1, 1), -4, ml_dtypes.bfloat16)
    lk.grad.conv2d_weight(x, (1, 1, 1, 1), dy, out=out, beta=2)
    assert out.item() == 249
