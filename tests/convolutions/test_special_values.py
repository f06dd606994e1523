"""Inf and NaN: every way to sum directly gives what the sum over the input padded with zeros is, and pads stay zero."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from conftest import NEST_ISAS, WHOLE_ISAS, using_isa
from hypothesis import assume, example, given
from hypothesis import strategies as st
from oracle import reference
from random_cases.numbers import exact
from strategies import activations, in_proportion

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.convolutions.epilogue import NO_ACTIVATION
from layoutkit.convolutions.task import ConvTask
from layoutkit.convolutions.types import TYPES

CONVS = {1: lk.Conv1d, 2: lk.Conv2d, 3: lk.Conv3d}
TRANSPOSED = {1: lk.ConvTranspose1d, 2: lk.ConvTranspose2d, 3: lk.ConvTranspose3d}
ACTIVATIONS = [None, "relu", ("clip", 0.5, 3.0), ("leaky_relu", 0.5), "hardswish", "silu"]
SPECIAL = np.array([np.inf, -np.inf, np.nan], np.float32)


ENDING = [
    *ACTIVATIONS[1:], "relu6", ("prelu", -0.5), "gelu", "gelu_tanh", "mish", ("swish", 1.5), ("swish", -1.5),
    ("elu", 0.5), "tanh", "sigmoid", "softplus", "exp", "log", "sqrt", "square", "abs", "round", ("pow", 1.0, 3.0),
    ("hardsigmoid", 0.25, 0.5), ("hardswish", 0.25, 0.5), ("hardswish", -0.25, 0.5), ("linear", -0.5, 0.5),
]  # fmt: skip


@pytest.mark.parametrize("types, isa", [*itertools.product(["f32", "f64", "bf16", "f16"], WHOLE_ISAS), ("bf16", None)])
def test_activations_where_a_type_ends(types, isa):
    """What follows a sum is what the reference says, in either layout: of Inf and the largest numbers the limit."""
    dtype = TYPES[types].src
    limits = ml_dtypes.finfo(dtype)
    ends = np.array([0, limits.tiny, 1, limits.max, np.inf])
    x = np.concatenate([ends, -ends, [np.nan]]).astype(dtype)
    with using_isa(isa or registry.isa()):
        for activation, layout in zip(ENDING, itertools.cycle(["NCW", "NWC"])):
            op = lk.Conv1d(np.ones((len(x), 1, 1), dtype), activation=activation, groups=len(x), layout=layout)
            got = exact(op(np.repeat(x[None, :, None], 5, 2) if layout == "NCW" else np.repeat(x[None, None], 5, 1)))
            want = reference.activate(np.repeat(x.astype(float)[None, :, None], 5, 2), activation)
            with np.errstate(over="ignore"):
                want = exact(reference.rounded(want, dtype))
            want = want if layout == "NCW" else want.swapaxes(1, 2)
            np.testing.assert_allclose(got, want, 16 * float(limits.eps), float(limits.tiny), err_msg=str(activation))


def numbers(rng, share, *shape):
    """Whole numbers, whose sums are exact, some of them replaced by Inf and NaN."""
    x = rng.integers(-4, 5, shape).astype(np.float32)
    return np.where(rng.random(shape) < share, rng.choice(SPECIAL, shape), x)


@st.composite
def problems(draw):
    rank = draw(st.sampled_from([1, 2, 2, 2, 3]))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    kind = draw(st.sampled_from(["plain", "plain", "few", "depthwise", "grouped"]))
    groups, ic, oc = {
        "plain": (1, draw(st.integers(1, 40)), draw(st.integers(1, 70))),
        "few": (1, draw(st.integers(1, 4)), draw(st.integers(1, 40))),
        "depthwise": (draw(st.integers(1, 70) | st.sampled_from([16, 32])),) * 3,
        "grouped": (draw(st.integers(2, 12)), 1, 1),
    }[kind]
    if kind == "grouped":
        depth = draw(st.sampled_from([2, 3, 4, 8, 16]))
        ic, oc = groups * depth, groups * draw(st.sampled_from([1, 2, depth]))
    if kind == "depthwise":
        oc *= draw(st.sampled_from([1, 1, 2]))
    src = draw(activations(rank))
    kernel = draw(st.sampled_from([(1,) * rank, (3,) * rank, None])) or each(1, 4)
    return dict(
        shape=(draw(st.integers(1, 2)), ic, *each(1, 20 if rank < 3 else 6)), groups=groups, oc=oc, kernel=kernel,
        stride=draw(st.sampled_from([(1,) * rank, (2,) * rank, None])) or each(1, 3), dilation=each(1, 2),
        padding=tuple(zip(each(0, 3), each(0, 3))), bias=draw(st.booleans()), add=draw(st.booleans()),
        activation=draw(st.sampled_from(ACTIVATIONS)), src=src,
        dst=draw(st.just(src) | activations(rank)), isa=draw(st.sampled_from(registry.isas())),
        threads=draw(st.integers(1, 3)), seed=draw(st.integers(0, 2**32)),
        shares=draw(st.sampled_from([(0.0, 0.02), (0.02, 0.0), (0.005, 0.005), (0.3, 0.0), (0.0, 0.3)])),
    )  # fmt: skip


def drawn(c, w_shape):
    rng = np.random.default_rng(c["seed"])
    x, w = numbers(rng, c["shares"][0], *c["shape"]), numbers(rng, c["shares"][1], *w_shape)
    bias = numbers(rng, 0, c["oc"]) if c["bias"] else None
    return rng, x, w, bias


def followed(c, y, add):
    with np.errstate(all="ignore"):
        y = y if add is None else y + add
        return reference.activate(y, c["activation"]).astype(np.float32)


PLANES = {
    "shape": (1, 2, 3, 3), "groups": 2, "oc": 2, "kernel": (3, 3), "stride": (1, 1), "dilation": (1, 1), "bias": False,
    "add": False, "activation": None, "src": lk.Layout("abcd"), "dst": lk.Layout("abcd"), "isa": "portable",
    "threads": 1, "seed": 1, "shares": (0.0, 0.02),
}  # fmt: skip


@example(PLANES | {"padding": ((0, 0), (1, 0))})
@example(PLANES | {"padding": ((0, 1), (0, 0))})
@example(PLANES | {"padding": ((0, 2), (0, 2)), "shape": (1, 2, 1, 1), "seed": 3})
@given(problems())
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
def test_every_way_is_the_sum_over_zeros(c):
    assume(all(n + sum(p) > d * (k - 1)
               for n, p, d, k in zip(c["shape"][2:], c["padding"], c["dilation"], c["kernel"])))  # fmt: skip
    rng, x, w, bias = drawn(c, (c["oc"], c["shape"][1] // c["groups"], *c["kernel"]))
    attributes = {k: c[k] for k in ("stride", "padding", "dilation", "groups")}
    with np.errstate(all="ignore"):
        want = reference.conv(x, w, bias, **attributes)
    add = numbers(rng, 0.01, *want.shape) if c["add"] else None
    want = followed(c, want, add)
    src, dst = c["src"], c["dst"]
    assume(in_proportion(src, x) and in_proportion(dst, want))
    expected = reference.to_physical(want, dst)
    stored = reference.to_physical(x, src, pad_value=np.nan)
    residual = None if add is None else reference.to_physical(add, dst, pad_value=np.nan)
    with using_isa(c["isa"]):
        op = CONVS[x.ndim - 2](w, bias, layout=src, out_layout=dst, activation=c["activation"], **attributes)
        f = op._filter
        p = f.problem(x.shape)
        epilogue = f.epilogue or (NO_ACTIVATION if c["add"] else None)
        for found in ConvTask(p, c["threads"]).candidates():
            if "winograd" in found.name:
                continue
            route = found.build()
            got = np.full(expected.shape, np.nan, np.float32)
            route.run(stored, *route.pack(f.w, f.bias), got, epilogue, residual)
            close(got, expected, c["activation"], found.name)


def close(got, expected, activation, what):
    """The same but for what a function rounds."""
    np.testing.assert_allclose(got, expected, rtol=1e-6 if activation in ("silu", "hardswish") else 0, err_msg=what)


@given(problems())
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
def test_transposed_sums_what_there_is(c):
    """No zeros lie around the input of a transposed convolution: Inf weights reach the outputs that sum them."""
    c["shape"] = (*c["shape"][:2], *(min(n, 7) for n in c["shape"][2:]))
    rank = len(c["kernel"])
    attributes = {k: c[k] for k in ("stride", "padding", "dilation", "groups")}
    out = [(n - 1) * s - sum(p) + d * (k - 1) + 1 for n, s, p, d, k in
           zip(c["shape"][2:], c["stride"], c["padding"], c["dilation"], c["kernel"])]  # fmt: skip
    assume(min(out) >= 1)
    rng, x, w, bias = drawn(c, (c["shape"][1], c["oc"] // c["groups"], *c["kernel"]))
    with np.errstate(all="ignore"):
        want = reference.conv_transpose(x, w, bias, output_padding=(0,) * rank, **attributes)
    add = numbers(rng, 0.01, *want.shape) if c["add"] else None
    want = followed(c, want, add)
    src, dst = c["src"], c["dst"]
    assume(in_proportion(src, x) and in_proportion(dst, want))
    residual = None if add is None else reference.to_physical(add, dst)
    with using_isa(c["isa"]):
        op = TRANSPOSED[rank](w, bias, layout=src, out_layout=dst, activation=c["activation"], accuracy="strict",
                              threads=c["threads"], **attributes)  # fmt: skip
        for _ in range(2):
            got = op(reference.to_physical(x, src, np.nan), add=residual, shape=x.shape)
            close(got, reference.to_physical(want, dst), c["activation"], "")


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("layout", ["nChw8c", "nChw16c", "nChw32c", "nChw64c"])
@pytest.mark.parametrize(("groups", "depth"), [(1, 20), (5, 4), (3, 2), (3, 8), (3, 16), (20, 1)])
def test_pads_stay_zero(layout, groups, depth, isa):
    channels = groups * depth
    rng = np.random.default_rng(channels)
    w = rng.standard_normal((channels, depth, 3, 3), np.float32)
    x = rng.standard_normal((1, channels, 9, 11), np.float32)
    x[..., 4, 5] = rng.choice(SPECIAL, channels)
    held = lk.Layout(layout)
    stored = reference.to_physical(x, held, pad_value=np.nan)
    for stride in (1, 2):
        for activation in (None, "relu", "gelu", ("clip", 0.5, 2)):
            with using_isa(isa):
                op = lk.Conv2d(w, groups=groups, padding=1, stride=stride, layout=layout, accuracy="fast",
                               activation=activation)  # fmt: skip
                f = op._filter
                p = f.problem(x.shape)
                for found in ConvTask(p, 1).candidates():
                    route = found.build()
                    got = np.full(held.physical_shape(p.dst_shape), np.nan, np.float32)
                    route.run(stored, *route.pack(f.w, f.bias), got, f.epilogue)
                    logical = reference.to_logical(got, held, p.dst_shape)
                    assert not np.isfinite(logical[:, :, (4 + stride - 1) // stride]).all()
                    np.testing.assert_array_equal(got, reference.to_physical(logical, held), err_msg=found.name)


def test_a_filter_with_inf_is_told():
    w = np.ones((8, 8, 3, 3), np.float32)
    w[3, 2, 0, 1] = np.inf
    text = lk.Conv2d(w, padding=1).explain((1, 8, 9, 9))
    assert "filter: it holds Inf or NaN: strict, its padding is summed" in text and "winograd" not in text
    p = lk.Conv2d(w, padding=1)._filter.problem((1, 8, 9, 9))
    assert p.zeros and type(p).parse(str(p)) == p and not type(p).parse(str(p).removesuffix(" zeros")).zeros
    assert "filter:" not in lk.Conv2d(np.ones((8, 8, 3, 3), np.float32), padding=1).explain((1, 8, 9, 9))
    assert "its padding is summed" not in lk.Conv2d(w).explain((1, 8, 9, 9))
    with pytest.raises(ValueError, match="conv2d: algorithm 'winograd' is not for this filter: it holds Inf or NaN"):
        lk.Conv2d(w, algorithm="winograd").plan((1, 8, 9, 9))
