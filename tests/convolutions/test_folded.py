"""First layers: rows of taps folded into the sum over channels; planes, whose columns are."""

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from strategies import activations, conv_types, in_proportion

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.convolutions.algorithms.folded import halves
from layoutkit.convolutions.types import TYPES

CLASSES = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}


@st.composite
def problems(draw):
    rank = draw(st.integers(1, 3))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    algorithm, stride = draw(st.sampled_from(["folded", "planes"])), each(1, 3)
    return dict(
        algorithm=algorithm, stride=stride if algorithm == "folded" else (*stride[1:], 1),
        shape=(draw(st.integers(1, 2)), draw(st.integers(0, 5)), *each(1, 12)), oc=draw(st.integers(1, 40)),
        kernel=(*each(1, 4)[1:], draw(st.integers(2, 7))),
        padding=tuple(zip(each(0, 4), each(0, 4))), dilation=(*each(1, 2)[1:], 1),
        src=draw(activations(rank)), dst=draw(activations(rank)),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)), flip=draw(st.booleans()),
        end=draw(st.sampled_from(["low", "high"])), types=draw(conv_types()),
    )  # fmt: skip


@given(problems())
def test_any_first_layer(c):
    spatial = zip(c["shape"][2:], c["padding"], c["dilation"], c["kernel"])
    assume(all(s + sum(p) >= d * (k - 1) + 1 for s, p, d, k in spatial))
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, c["shape"]).astype(c["types"].src)  # sums are exact
    w = rng.integers(-4, 5, (c["oc"], c["shape"][1], *c["kernel"])).astype(c["types"].src)
    bias = rng.integers(-4, 5, c["oc"]).astype(c["types"].src)
    attributes = {k: c[k] for k in ("stride", "padding", "dilation")}
    want = reference.conv(x, w, bias, groups=1, **attributes)
    assume(in_proportion(c["src"], x) and in_proportion(c["dst"], want))
    stored = reference.to_physical(x, c["src"], pad_value=np.nan)
    memory = stored[..., ::-1] if c["flip"] else stored
    inside = guarded(np.ascontiguousarray(memory).reshape(-1).view(np.uint8), c["end"]).array.view(c["types"].src)
    inside = inside.reshape(stored.shape)[..., ::-1] if c["flip"] else inside.reshape(stored.shape)
    with using_isa(c["isa"]):
        op = CLASSES[x.ndim - 2](w, bias, layout=c["src"], out_layout=c["dst"], algorithm=c["algorithm"],
                                 threads=c["threads"], dtype=c["types"].dst, **attributes)  # fmt: skip
        for _ in range(2):  # the second time in scratch memory that was used before
            got = op(inside, shape=x.shape)
            np.testing.assert_array_equal(got, reference.to_physical(want.astype(c["types"].dst), c["dst"]))


@given(st.integers(1, 5), st.integers(2, 7), st.integers(1, 3), st.integers(0, 3), st.integers(0, 2**32))
def test_folded_bfloat16_reads_no_number_of_another_pixel(channels, kernel, stride, padding, seed):
    types = TYPES["bf16"]
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, (1, channels, 9, 12)).astype(np.float32)
    special = rng.random(x.shape) < 0.05
    x = np.where(special, rng.choice([np.inf, -np.inf, np.nan], x.shape), x).astype(types.src)
    w = rng.choice([-3, -2, -1, 1, 2, 3], (20, channels, 3, kernel)).astype(types.src)  # no product of 0 and Inf
    attributes = dict(stride=stride, padding=padding)
    with np.errstate(invalid="ignore"):
        want = reference.conv(
            x.astype(np.float32), w.astype(np.float32), None, stride=(stride,) * 2, padding=((padding,) * 2,) * 2,
            dilation=(1, 1), groups=1,
        )  # fmt: skip
    for algorithm in ("folded", "direct"):
        got = lk.conv2d(reference.to_physical(x, lk.Layout("NHWC")), w, layout="NHWC", algorithm=algorithm,
                        dtype=types.dst, **attributes)  # fmt: skip
        numbers = np.moveaxis(got, -1, 1).astype(np.float32)
        np.testing.assert_array_equal(numbers, want.astype(types.dst).astype(np.float32))


def test_halves_of_bfloat16_add_up():
    bits = np.arange(2**16, dtype=np.uint16)
    w, *parts = (b.astype(np.uint32) << 16 for b in (bits, *halves(bits)))
    value, first, second = (b.view(np.float32) for b in (w, *parts))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(first + second, value)
    assert (np.signbit(first) == np.signbit(value)).all() and (np.signbit(second) == np.signbit(value)).all()
    large = abs(value) >= 2.0**-125
    assert ((abs(first) >= 2.0**-126) & (abs(second) >= 2.0**-126))[large].all()


def test_a_first_layer_folds_untuned():
    """Or reads planes, which takes within a tenth of the same time."""
    w = np.ones((64, 3, 7, 7), np.float32)
    for layout in ("NHWC", "NCHW", "nChw16c"):
        plan = lk.Conv2d(w, stride=2, padding=3, layout=layout, threads=1).plan((1, 3, 224, 224))
        assert plan.choices[0].candidate.name.split()[0] in ("folded", "planes")


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [(dict(groups=2), "2 groups"), (dict(dilation=2), "no consecutive taps along the width")],
)
def test_what_does_not_fold_says_why(kwargs, says):
    groups = kwargs.get("groups", 1)
    with pytest.raises(ValueError, match=f"algorithm 'folded' cannot do it: .*{says}"):
        lk.conv2d(np.ones((1, 4, 9, 9), np.float32), np.ones((8, 4 // groups, 3, 3), np.float32), algorithm="folded",
                  **kwargs)  # fmt: skip
