"""Small groups by permuted lanes: every layout and instruction set, ragged sizes, against the reference."""

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from strategies import activations, conv_types, in_proportion
from whole import inside, numbers, outside

import layoutkit as lk
from layoutkit._core.runtime import registry


@st.composite
def problems(draw):
    def pair(lo, hi):
        return draw(st.tuples(st.integers(lo, hi), st.integers(lo, hi)))

    depth = draw(st.sampled_from([2, 4, 8, 16, 3, 5]))
    src, long_rows = draw(activations(2)), st.tuples(st.integers(1, 3), st.sampled_from([5, 7]))
    return dict(
        depth=depth, outputs=draw(st.sampled_from([depth, depth, depth, 2 * depth, 7])), groups=draw(st.integers(2, 9)),
        n=draw(st.integers(1, 2)), size=pair(1, 18), kernel=draw(st.just((3, 3)) | st.just(pair(1, 4)) | long_rows),
        stride=draw(st.just((1, 1)) | st.just((2, 2)) | st.just(pair(1, 3))),
        dilation=draw(st.just((1, 1)) | st.just(pair(1, 2))),
        padding=draw(st.just(((1, 1), (1, 1))) | st.just((pair(0, 4), pair(0, 4)))), bias=draw(st.booleans()),
        src=src, dst=draw(st.just(src) | activations(2)), threads=draw(st.integers(1, 3)),
        isa=draw(st.sampled_from(registry.isas())), end=draw(st.sampled_from(["low", "high"])),
        types=draw(conv_types()),
    )  # fmt: skip


@given(problems())
def test_any_small_groups(c):
    spatial = zip(c["size"], c["padding"], c["dilation"], c["kernel"])
    assume(all(s + sum(p) >= d * (k - 1) + 1 for s, p, d, k in spatial))
    rng = np.random.default_rng(0)
    groups = c["groups"]
    x = numbers(rng, c["n"], groups * c["depth"], *c["size"], dtype=c["types"].src)
    w = numbers(rng, groups * c["outputs"], c["depth"], *c["kernel"], dtype=c["types"].src)
    bias = numbers(rng, len(w), dtype=c["types"].src) if c["bias"] else None
    attributes = {k: c[k] for k in ("stride", "padding", "dilation", "groups")}
    want = reference.conv(x, w, bias, **attributes)
    src, dst = lk.Layout(c["src"]), lk.Layout(c["dst"])
    assume(in_proportion(src, x) and in_proportion(dst, want))
    held = inside(x, src, c["end"])
    out, expected = outside(want, dst, c["end"], c["types"].dst)
    with using_isa(c["isa"]):
        try:
            op = lk.Conv2d(w, bias, layout=src, out_layout=dst, algorithm="grouped", threads=c["threads"],
                           dtype=c["types"].dst, **attributes)  # fmt: skip
            op(held, out, shape=x.shape)
        except ValueError as error:
            assert c["depth"] != c["outputs"] or c["depth"] not in (2, 4, 8, 16), error
            return
    np.testing.assert_array_equal(out, expected)


KERNELS = [(3, 3), (3, 3), (1, 3), (2, 3), (5, 5), (3, 2), (1, 7)]


@given(problems(), st.sampled_from([64, 128, 256, 512, 1024]), st.sampled_from(KERNELS))
def test_columns_that_share_sets_of_the_cache(c, pitch, kernel):
    """Pixels lie a multiple of `pitch` elements apart: then the kernel reads copies of them."""
    c["kernel"] = kernel
    c["groups"] *= 1 + c["depth"] % 3
    spatial = zip(c["size"], c["padding"], c["dilation"], c["kernel"])
    assume(all(s + sum(p) >= d * (k - 1) + 1 for s, p, d, k in spatial))
    rng = np.random.default_rng(0)
    channels = c["groups"] * c["depth"]
    x = numbers(rng, c["n"], *c["size"], channels, dtype=c["types"].src)
    w = numbers(rng, c["groups"] * c["outputs"], c["depth"], *c["kernel"], dtype=c["types"].src)
    bias = numbers(rng, len(w), dtype=c["types"].src) if c["bias"] else None
    attributes = {k: c[k] for k in ("stride", "padding", "dilation", "groups")}
    want = np.moveaxis(reference.conv(np.moveaxis(x, -1, 1), w, bias, **attributes), 1, -1)
    held = np.full((*x.shape[:-1], -(-channels // pitch) * pitch), np.nan, c["types"].src)
    end = 0 if c["end"] == "low" else held.shape[-1] - channels
    held = held[..., end : end + channels]
    held[...] = x
    with using_isa(c["isa"]):
        try:
            got = lk.conv2d(held, w, bias, layout="NHWC", algorithm="grouped", threads=c["threads"],
                            dtype=c["types"].dst, **attributes)  # fmt: skip
        except ValueError as error:
            assert c["depth"] != c["outputs"] or c["depth"] not in (2, 4, 8, 16), error
            return
    np.testing.assert_array_equal(got, want.astype(got.dtype))


@pytest.mark.parametrize("layout", ["NHWC", "nChw16c"])
def test_no_group_reaches_another(layout):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 32, 9, 20), np.float32)
    w = rng.standard_normal((32, 4, 3, 3), np.float32)
    spoilt = np.where(np.arange(32)[:, None, None] == 7, np.inf, x)
    one, other = (
        lk.reorder(lk.conv2d(lk.reorder(a, "NCHW", layout), w, padding=1, layout=layout, groups=8, algorithm="grouped"),
                   layout, "NCHW")
        for a in (x, spoilt)
    )  # fmt: skip
    kept = np.arange(32) // 4 != 1
    np.testing.assert_array_equal(one[:, kept], other[:, kept])


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_blocks_of_channels_are_a_detour(layout):
    x, w = np.ones((1, 9, 9, 64) if layout == "NHWC" else (1, 64, 9, 9), np.float32), np.ones((64, 8, 3, 3), np.float32)
    names = [c.candidate.name for c in lk.plan(lk.conv2d, x, w, padding=1, groups=8, layout=layout).choices]
    assert sum(name.startswith("grouped") and name.endswith("via nChw16c>nChw16c") for name in names) == 1


def test_small_groups_are_chosen_untuned():
    for depth in (4, 8):
        op = lk.Conv2d(np.ones((128, depth, 3, 3), np.float32), padding=1, groups=128 // depth, layout="NHWC")
        assert "-> grouped" in op.explain((1, 128, 56, 56))


@pytest.mark.parametrize(("depth", "groups"), [(32, 2), (8, 1), (1, 8)])
def test_what_are_no_small_groups_says_why(depth, groups):
    with pytest.raises(ValueError, match=f"'grouped' cannot do it: {groups} groups of {depth} input channels are not"):
        lk.conv2d(np.ones((1, depth * groups, 9, 9), np.float32), np.ones((8, depth, 3, 3), np.float32), groups=groups,
                  algorithm="grouped")  # fmt: skip
