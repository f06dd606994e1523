"""First layers: rows of taps folded into the sum over channels; planes, whose columns are."""

import numpy as np
import pytest
from conftest import using_isa
from guard import guarded
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import activations, conv_types, in_proportion

import layoutkit as lk
from layoutkit import reference
from layoutkit._core import registry

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
@settings(max_examples=200, deadline=None)
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


def test_a_first_layer_folds_untuned():
    w = np.ones((64, 3, 7, 7), np.float32)
    for layout in ("NHWC", "NCHW", "nChw16c"):
        assert "-> folded" in lk.Conv2d(w, stride=2, padding=3, layout=layout, threads=1).explain((1, 3, 224, 224))


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [(dict(groups=2), "2 groups"), (dict(dilation=2), "no consecutive taps along the width")],
)
def test_what_does_not_fold_says_why(kwargs, says):
    groups = kwargs.get("groups", 1)
    with pytest.raises(ValueError, match=f"algorithm 'folded' cannot do it: .*{says}"):
        lk.conv2d(np.ones((1, 4, 9, 9), np.float32), np.ones((8, 4 // groups, 3, 3), np.float32), algorithm="folded",
                  **kwargs)  # fmt: skip
