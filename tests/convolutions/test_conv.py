import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from random_cases.numbers import exact, normal, of_result, of_sums
from strategies import activations, conv_types, in_proportion

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.cache import plans
from layoutkit.convolutions import task

LAYOUTS = ["NCHW", "NHWC", "nChw8c", "nChw16c", "CHWN", "nChw4c"]


@st.composite
def problems(draw):
    def pair(lo, hi):
        return draw(st.tuples(st.integers(lo, hi), st.integers(lo, hi)))

    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return dict(
        n=draw(st.integers(1, 3)), ic=groups * draw(st.integers(0, 40)), oc=groups * draw(st.integers(1, 80)),
        size=pair(1, 20), kernel=pair(1, 5), stride=pair(1, 3), dilation=pair(1, 2), groups=groups,
        padding=(pair(0, 6), pair(0, 6)), bias=draw(st.booleans()), threads=draw(st.integers(1, 3)),
        src=draw(activations(2)), dst=draw(activations(2)),
        algorithm=draw(st.sampled_from(["auto", "direct", "im2col"])), isa=draw(st.sampled_from(registry.isas())),
        end=draw(st.sampled_from(["low", "high"])), types=draw(conv_types()),
    )  # fmt: skip


def attributes(c):
    return {k: c[k] for k in ("stride", "padding", "dilation", "groups")}


@given(problems())
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
def test_any_problem_in_any_layout(c):
    assume(all(s + sum(p) >= d * (k - 1) + 1
               for s, p, d, k in zip(c["size"], c["padding"], c["dilation"], c["kernel"])))  # fmt: skip
    rng, types = np.random.default_rng(c["ic"] * 100 + c["oc"]), c["types"]
    x = normal(rng, (c["n"], c["ic"], *c["size"]), types.src)
    w = normal(rng, (c["oc"], c["ic"] // c["groups"], *c["kernel"]), types.filter)
    bias = normal(rng, c["oc"], types.sum) if c["bias"] else None
    src, dst = c["src"], c["dst"]
    want = reference.conv(x, w, bias, **attributes(c))
    assume(in_proportion(src, x) and in_proportion(dst, want))
    stored = reference.to_physical(x, src, pad_value=np.nan)  # what pads hold must not matter
    inside = guarded(stored.reshape(-1).view(np.uint8), c["end"]).array.view(types.src).reshape(stored.shape)
    with using_isa(c["isa"]):
        got = lk.conv2d(inside, w, bias, layout=src, shape=x.shape, out_layout=dst, algorithm=c["algorithm"],
                        accuracy="strict", dtype=types.dst, threads=c["threads"], **attributes(c))  # fmt: skip
    bound = reference.conv(abs(x), abs(w), None if bias is None else abs(bias), **attributes(c))
    logical = reference.to_logical(got, dst, want.shape)
    assert got.dtype == types.dst
    allowed = of_sums(types) * (w[0].size + 3) * bound + 1e-30 + of_result(types, want)
    assert (abs(exact(logical) - want) <= allowed).all()
    np.testing.assert_array_equal(got, reference.to_physical(logical, dst))  # pads are zero


@pytest.mark.parametrize("src", LAYOUTS)
@pytest.mark.parametrize("dst", LAYOUTS)
def test_threads_do_not_change_a_bit(src, dst):
    rng = np.random.default_rng(0)
    shape = (2, 48, 30, 31)
    x = reference.to_physical(rng.standard_normal(shape, np.float32), lk.Layout(src))
    w = rng.standard_normal((80, 48, 3, 3), np.float32)
    for algorithm in ("direct", "im2col"):
        one, *others = [
            lk.conv2d(x, w, padding=1, layout=src, out_layout=dst, threads=t, algorithm=algorithm) for t in (1, 2, 3, 7)
        ]
        for other in others:
            np.testing.assert_array_equal(one, other)


def test_strided_arrays_and_filters_in_any_layout():
    rng = np.random.default_rng(0)
    big = rng.standard_normal((4, 40, 30, 24), np.float32)
    w = rng.standard_normal((8, 6, 3, 3), np.float32)
    x = big[::2, ::-1, 3:23, 1:13:2]  # an NHWC view: negative row stride, channels 8 bytes apart
    want = reference.conv(x.transpose(0, 3, 1, 2), w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)
    room = np.zeros((2, 40, 20, 16), np.float32)
    for out in (None, room[..., :8], room[..., ::2]):
        got = lk.conv2d(x, w, padding=1, layout="NHWC", out=out)
        np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-4)
        assert out is None or got is out
    for tag in ("HWIO", "OHWI", "Oihw16o", "OIhw4i8o"):
        packed = lk.reorder(w, "OIHW", tag)
        if packed.size == w.size:
            got = lk.conv2d(x, packed, padding=1, layout="NHWC", filter_layout=tag)
            np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, rtol=1e-4, atol=1e-4)


def test_object_keeps_its_filter_and_serves_many_shapes():
    rng = np.random.default_rng(0)

    def whole(*shape):  # sums are exact: one way's order is another's
        return rng.integers(-4, 5, shape).astype(np.float32)

    w, bias = whole(16, 8, 3, 3), whole(16)
    op = lk.Conv2d(w, bias, padding=1, layout="NHWC")
    kept, kept_bias = w.copy(), bias.copy()
    w[...] = bias[...] = np.nan
    for size in ((1, 5, 6), (3, 20, 9), (1, 5, 6), (0, 4, 4)):
        x = whole(*size, 8)
        want = lk.conv2d(x, kept, kept_bias, padding=1, layout="NHWC")
        np.testing.assert_array_equal(op(x), want)
        out = np.full_like(want, np.nan)
        assert op(x, out) is out
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(rank):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 9, 8, 7)[: rank + 2], np.float32)
    w = rng.standard_normal((6, 5, 3, 2, 3)[: rank + 2], np.float32)
    want = reference.conv(x, w, None, (2,) * rank, ((1, 1),) * rank, (1,) * rank, 1)
    cls = {1: lk.Conv1d, 3: lk.Conv3d}[rank]
    letters = "NC" + "DHW"[3 - rank :]
    for layout in (letters, "N" + letters[2:] + "C"):
        op = cls(w, stride=2, padding=1, layout=layout)
        got = lk.reorder(op(lk.reorder(x, letters, layout)), layout, letters)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_tensor_brings_its_layout_and_gets_one_back():
    x = lk.Tensor.from_logical(np.random.default_rng(0).random((2, 20, 6, 7), np.float32), "nChw16c")
    w = np.ones((5, 20, 3, 3), np.float32)
    want = lk.conv2d(x.to("NCHW").array, w, padding=1)
    for y in (lk.conv2d(x, w, padding=1), lk.Conv2d(w, padding=1, layout="nChw16c")(x)):
        assert (y.layout, y.shape) == (lk.Layout("nChw16c"), (2, 5, 6, 7))
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)
    with pytest.raises(ValueError, match="conv2d: x is a Tensor in nChw16c, expected NCHW"):
        lk.Conv2d(w)(x)


def test_padding_in_words():
    x, w = np.ones((1, 1, 7, 8), np.float32), np.ones((1, 1, 3, 4), np.float32)
    assert lk.conv2d(x, w, padding="same").shape == x.shape
    assert lk.conv2d(x, w, padding="same", stride=2).shape == (1, 1, 4, 4)
    assert lk.conv2d(x, w, padding="valid").shape == (1, 1, 5, 5)


@pytest.mark.parametrize(("layout", "channels"), [("NCHW", 5), ("NHWC", 1)])
def test_the_stride_of_an_axis_of_one_index_may_be_anything(layout, channels):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 5, 1, 1), np.float32), rng.standard_normal((1, channels, 3, 3), np.float32)
    want = lk.conv2d(x, w, padding=1, layout=layout)
    for stride in (2**62, -(2**63), 2**63 - 1):
        strides = [stride if n == 1 else s for n, s in zip(x.shape, x.strides)]
        wild = np.lib.stride_tricks.as_strided(x, x.shape, strides)
        out = np.lib.stride_tricks.as_strided(np.zeros_like(want), want.shape, [stride, *want.strides[1:]])
        np.testing.assert_array_equal(lk.conv2d(wild, w, padding=1, layout=layout, out=out), want)


X, W = np.ones((1, 4, 5, 5), np.float32), np.ones((6, 4, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("kwargs", "error", "says"),
    [
        (dict(x=X.astype("f8")), TypeError, "conv2d: x: expected dtype float32, got float64"),
        (dict(x="no"), TypeError, "x: expected an array, got str"),
        (dict(w=W.astype("i2")), TypeError, "w: expected dtype float32"),
        (dict(w=W[:, :3]), ValueError, "x of shape (1, 4, 5, 5) in layout NCHW has 4 channels, expected 3"),
        (dict(w=W[0]), ValueError, "held by an array of 4 axes"),
        (dict(w=W[:, :, :0]), ValueError, "empty kernel"),
        (dict(bias=np.ones(5, np.float32)), ValueError, "bias has shape (5,), expected (6,)"),
        (dict(groups=4), ValueError, "6 output channels do not divide into 4 groups"),
        (dict(groups=0), ValueError, "groups: expected an int of at least 1, got 0"),
        (dict(stride=0), ValueError, "stride: expected an int of at least 1, or 2 of them, got 0"),
        (dict(stride=(1, 1, 1)), ValueError, "stride"),
        (dict(dilation=3), ValueError, "does not fit into the input of (5, 5)"),
        (dict(stride={1, 2}), ValueError, "stride: expected an int of at least 1, or 2 of them, got {1, 2}"),
        (dict(padding=-4), ValueError, "conv2d: padding ((-4, -4), (-4, -4)) crops more than the input of (5, 5)"),
        (dict(padding="reflect"), ValueError, "expected 'same', 'same_lower', 'valid' or numbers"),
        (dict(padding=((1, 1),)), ValueError, "expected 2 pairs"),
        (dict(layout="NHWC"), ValueError, "in layout NHWC has 5 channels, expected 4"),
        (dict(layout="NCW"), ValueError, "layout NCW has 3 dimensions, expected 4"),
        (dict(layout="nChw16c"), ValueError, "layout nChw16c: block axis of 16 has size 5"),
        (dict(layout="NCWW"), ValueError, "'w' stands twice"),
        (dict(out_layout="nchw:(999,99,9,1)"), ValueError, "has explicit strides"),
        (dict(algorithm="fft"), ValueError, "algorithm 'fft' is none of auto, direct"),
        (dict(algorithm="winogard"), ValueError, "did you mean 'winograd'?"),
        (dict(accuracy="exact"), ValueError, "did you mean 'strict'?"),
        (dict(padding="SAME"), ValueError, "did you mean 'same'?"),
        (dict(padding_mode="nearest"), ValueError, "did you mean 'edge'?"),
        (dict(padding_mode="Reflect"), ValueError, "did you mean 'reflect'?"),
        (dict(threads=0), ValueError, f"threads: expected 1 to {4 * os.cpu_count()} (four times the cores"),
        (dict(out=np.ones((1, 6, 3, 3))), ValueError, "out must have shape (1, 6, 3, 3) and dtype float32"),
        (dict(out=np.ones((1, 6, 3, 4), np.float32)), ValueError, "out must have shape (1, 6, 3, 3)"),
        (dict(out=np.ones(6, np.float32)), ValueError, "out must have shape (1, 6, 3, 3) and dtype float32, got (6,)"),
        (dict(out=[1.0]), TypeError, "out must be a numpy array"),
        (dict(out=np.broadcast_to(np.float32(1), (1, 6, 3, 3))), ValueError, "read-only"),
    ],
)
def test_bad_input(kwargs, error, says):
    x, w = kwargs.pop("x", X), kwargs.pop("w", W)
    with pytest.raises(error, match=re.escape(says)):
        lk.conv2d(x, w, **kwargs)


def test_out_may_not_overlap():
    room = np.ones((2, 4, 5, 5), np.float32)
    w = np.ones((4, 4, 1, 1), np.float32)
    with pytest.raises(ValueError, match="overlaps an input"):
        lk.conv2d(room[:1], w, out=room[:1])
    doubled = np.lib.stride_tricks.as_strided(np.ones(200, np.float32), (1, 4, 5, 5), (4, 20, 20, 4))
    with pytest.raises(ValueError, match="overlap one another"):
        lk.conv2d(X, w, out=doubled)


def test_forced_algorithm_that_cannot_says_why(monkeypatch):
    monkeypatch.setattr(task, "ALGORITHMS", [a for a in task.ALGORITHMS if a.filters == "filters"])
    plans.clear()
    with pytest.raises(ValueError, match=r"algorithm 'direct' cannot do it: only 1x1"):
        lk.conv2d(X, W, algorithm="direct")


def test_explain_and_plan():
    op = lk.Conv2d(W, layout="NHWC")
    text = op.explain((1, 4, 5, 5))
    assert text.startswith("conv2d of (1, 4, 5, 5) float32 NHWC with 6 filters 3x3, stride 1, padding 0, on ")
    assert "estimated" in text and "\n-> " in text and "conv n1" not in text and "gemm_" not in text
    assert "\nconv n1 c4 5x5 o6 k3x3 s1x1 p0+0,0+0" in op.explain((1, 4, 5, 5), verbose=True)
    assert "conv n1 c4 5x5 o6 k3x3 s1x1 p1+1,1+1" in lk.plan(lk.conv2d, X, W, padding=1).explain(verbose=True)


def test_an_array_stands_for_its_shape():
    op, x = lk.Conv2d(W, layout="NHWC"), np.ones((1, 5, 5, 4), np.float32)
    assert op.explain(x) == op.explain((1, 4, 5, 5)) == op.explain(lk.Tensor(x, "NHWC")) == op.explain([1, 4, 5, 5])
    assert op.workspace(x) == op.workspace((1, 4, 5, 5))
    with pytest.raises(ValueError, match="conv2d: x of shape"):
        op.explain(x[..., :3])
    with pytest.raises(TypeError, match="conv2d: x: expected dtype float32, got float64"):
        op.plan(x.astype(float))
    with pytest.raises(TypeError, match="conv2d: shape: expected an array, or a logical shape; layout NHWC"):
        op.plan("NHWC")
    with pytest.raises(ValueError, match="conv2d: shape: expected an array, or a logical shape; layout NHWC"):
        op.plan((1, 4, 5))


def test_environment_chooses_the_instruction_set():
    code = "from layoutkit._core.runtime import registry; print(registry.isa())"
    env = {"LAYOUTKIT_ISA": "portable", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "portable"
    env["LAYOUTKIT_ISA"] = "mmx"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 1 and "LAYOUTKIT_ISA='mmx': this machine runs portable" in done.stderr


def test_a_bias_is_added_once_where_the_sum_is_split_by_taps():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 6, 6, 200), np.float32), rng.standard_normal((40, 200, 5, 5), np.float32)
    bias = np.arange(40, dtype=np.float32) * 100
    for isa in registry.isas():
        with using_isa(isa):
            got = lk.conv2d(x, w, bias, padding=2, layout="NHWC", algorithm="direct")
        want = reference.conv(x.transpose(0, 3, 1, 2), w, bias, (1, 1), ((2, 2), (2, 2)), (1, 1), 1)
        np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, rtol=1e-3, atol=1e-2)


def test_calls_that_look_alike_differ_by_their_numbers():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 4, 6, 6), np.float32)
    filters = [rng.standard_normal((4, 4, 3, 3), np.float32) for _ in range(3)]
    filters[1][2, 1, 0, 0] = np.inf  # its padding is summed
    filters[2][:] *= 1e30  # beyond the range of Winograd's bound
    same = dict(stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
    for w in filters + filters[::-1]:
        for bias, activation in ((None, None), (np.ones(4, np.float32), "relu")):
            with np.errstate(invalid="ignore"):
                want = reference.conv(x, w, bias, **same)
                want = want if activation is None else np.maximum(want, 0)
            got = lk.conv2d(x, w, bias, padding=1, activation=activation)
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.nanmax(abs(w[np.isfinite(w)])))


def test_calls_that_look_alike_are_checked_all_the_same():
    x, w = np.ones((1, 4, 6, 6), np.float32), np.ones((4, 4, 3, 3), np.float32)
    lk.conv2d(x, w, layout=lk.Layout("abcd"), filter_layout=lk.Layout("abcd"))
    for name, wrong in (("layout", "OIHW"), ("filter_layout", "NCHW")):
        with pytest.raises(ValueError, match=name):
            lk.conv2d(x, w, **{"layout": "abcd", "filter_layout": "abcd"} | {name: lk.Layout(wrong)})
    for wrong in (np.ones((1, 4, 6, 6)), np.ones((1, 5, 6, 6), np.float32), np.ones((1, 4, 2, 6), np.float32)):
        with pytest.raises((TypeError, ValueError)):
            lk.conv2d(wrong, w)
    with pytest.raises(TypeError, match="float64"):
        lk.conv2d(x, w.astype(np.float64))
    with pytest.raises(ValueError, match="out overlaps"):
        lk.conv2d(x, w, out=np.lib.stride_tricks.as_strided(x, (1, 4, 4, 4)))


def test_an_object_follows_the_instruction_set():
    x, op = np.ones((1, 16, 6, 6), np.float32), lk.Conv2d(np.ones((16, 16, 3, 3), np.float32), algorithm="direct")
    for isa in registry.isas() + registry.isas()[::-1]:
        with using_isa(isa):
            np.testing.assert_array_equal(op(x), np.full((1, 16, 4, 4), 144))
    assert {isa for isa, _ in op._packed} == set(registry.isas())
