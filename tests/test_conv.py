import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import layoutkit as lk
from layoutkit import reference

LAYOUTS = ["NCHW", "NHWC", "nChw8c", "nChw16c", "CHWN", "nChw4c"]


@st.composite
def problems(draw):
    def pair(lo, hi):
        return draw(st.tuples(st.integers(lo, hi), st.integers(lo, hi)))

    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return dict(
        n=draw(st.integers(1, 3)), ic=groups * draw(st.integers(1, 40)), oc=groups * draw(st.integers(1, 80)),
        size=pair(1, 20), kernel=pair(1, 5), stride=pair(1, 3), dilation=pair(1, 2), groups=groups,
        padding=(pair(0, 6), pair(0, 6)), bias=draw(st.booleans()), threads=draw(st.integers(1, 3)),
        src=draw(st.sampled_from(LAYOUTS)), dst=draw(st.sampled_from(LAYOUTS)),
        algorithm=draw(st.sampled_from(["auto", "direct", "im2col"])),
    )  # fmt: skip


@given(problems())
@settings(max_examples=300, deadline=None)
def test_any_problem_in_any_layout(c):
    assume(all(s + sum(p) >= d * (k - 1) + 1
               for s, p, d, k in zip(c["size"], c["padding"], c["dilation"], c["kernel"])))  # fmt: skip
    rng = np.random.default_rng(c["ic"] * 100 + c["oc"])
    x = rng.standard_normal((c["n"], c["ic"], *c["size"]), np.float32)
    w = rng.standard_normal((c["oc"], c["ic"] // c["groups"], *c["kernel"]), np.float32)
    bias = rng.standard_normal(c["oc"], np.float32) if c["bias"] else None
    src, dst = lk.Layout(c["src"]), lk.Layout(c["dst"])
    want = reference.conv(x, w, bias, c["stride"], c["padding"], c["dilation"], c["groups"])
    got = lk.conv2d(
        reference.to_physical(x, src, pad_value=np.nan), w, bias, stride=c["stride"], padding=c["padding"],
        dilation=c["dilation"], groups=c["groups"], layout=src, out_layout=dst, algorithm=c["algorithm"],
        threads=c["threads"],
    )  # fmt: skip
    bound = reference.conv(abs(x), abs(w), None if bias is None else abs(bias),
                           c["stride"], c["padding"], c["dilation"], c["groups"])  # fmt: skip
    depth = w[0].size + 1
    assert (abs(reference.to_logical(got, dst, want.shape) - want) <= 2**-24 * (depth + 2) * bound + 1e-30).all()
    np.testing.assert_array_equal(got, reference.to_physical(reference.to_logical(got, dst, want.shape), dst))
