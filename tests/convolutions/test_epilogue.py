"""What follows the sums of a convolution: scale, residual, activation, in every layout and algorithm."""

import re

import ml_dtypes
import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from random_cases.numbers import exact, normal, of_result
from strategies import activations, conv_types, in_proportion

import layoutkit as lk
from layoutkit import winograd
from layoutkit._core.runtime import registry
from layoutkit.convolutions.epilogue import ACTIVATIONS
from layoutkit.convolutions.types import TYPES

NUMBERS = {
    "clip": (0.3, 1.5), "leaky_relu": (0.1,), "elu": (0.75,), "swish": (0.875,), "hardsigmoid": (0.25, 0.5),
    "linear": (0.5, -2.0), "selu": (0.75, 1.125), "celu": (0.75,),
}  # fmt: skip
# They make more of an error of the sum than it is, or jump.
STEEP = (
    "square",
    "exp",
    "log",
    "sqrt",
    "pow",
    "reciprocal",
    "round",
    "floor",
    "ceil",
    "sign",
    "thresholded_relu",
    "shrink",
)
GENTLE = [name for name, (row, *_) in ACTIVATIONS.items() if row.kernel == "prelu" or not row.operand]
GENTLE = [name for name in GENTLE if name not in STEEP]


@st.composite
def problems(draw):
    algorithm = draw(st.sampled_from(["direct", "im2col", "winograd", "folded", "depthwise", "auto"]))
    ic = draw(st.integers(1, 40))
    multiplier = draw(st.sampled_from([1, 1, 2]))
    return dict(
        algorithm=algorithm, shape=(draw(st.integers(1, 2)), ic, draw(st.integers(3, 12)), draw(st.integers(3, 20))),
        groups=ic if algorithm == "depthwise" else 1, stride=1 if algorithm == "winograd" else draw(st.integers(1, 2)),
        oc=ic * multiplier if algorithm == "depthwise" else draw(st.integers(1, 70)),
        src=draw(activations(2)), dst=draw(activations(2)),
        activation=draw(st.sampled_from([None, *GENTLE])),
        bias=draw(st.booleans()), scale=draw(st.booleans()),
        add=draw(st.sampled_from(["none", "other", "out", "strided"])), threads=draw(st.integers(1, 3)),
        isa=draw(st.sampled_from(registry.isas())), end=draw(st.sampled_from(["low", "high"])),
        types=draw(conv_types()),
    )  # fmt: skip


@given(problems())
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
def test_any_epilogue(c):
    rng = np.random.default_rng(0)
    groups, oc = c["groups"], c["oc"]
    types = TYPES["f32"] if c["algorithm"] == "winograd" and c["types"].name == "f64" else c["types"]
    dtype = types.dst
    x = normal(rng, c["shape"], types.src)
    w = normal(rng, (oc, c["shape"][1] // groups, 3, 3), types.filter)
    bias, scale = (normal(rng, oc, types.sum) if c[k] else None for k in ("bias", "scale"))
    activation = c["activation"]
    if activation in NUMBERS:
        activation = (activation, *NUMBERS[activation])
    elif activation == "prelu":
        activation = (activation, normal(rng, oc, types.sum))
    attributes = dict(stride=c["stride"], padding=1, groups=groups)
    scaled = w if scale is None else (exact(w) * scale[:, None, None, None]).astype(types.filter)
    want = reference.conv(x, scaled, bias, (c["stride"],) * 2,
                          ((1, 1),) * 2, (1, 1), groups)  # fmt: skip
    src, dst = lk.Layout(c["src"]), lk.Layout(c["dst"])
    assume(in_proportion(src, x) and in_proportion(dst, want))
    residual = normal(rng, want.shape, dtype)
    stored = reference.to_physical(residual, dst, pad_value=np.nan)  # what pads hold must not matter
    out = guarded(np.full(stored.size, np.nan, dtype).view(np.uint8), c["end"]).array.view(dtype)
    out = out.reshape(stored.shape)
    add = {"none": None, "other": stored, "out": out, "strided": np.repeat(stored, 2, -1)[..., ::2]}[c["add"]]
    if add is out:
        out[...] = stored
    if add is not None:
        want = want + exact(residual)
    want = reference.activate(want, activation)
    with using_isa(c["isa"]):
        op = lk.Conv2d(w, bias, scale=scale, activation=activation, layout=src, out_layout=dst, accuracy="fast",
                       algorithm=c["algorithm"], threads=c["threads"], dtype=dtype, **attributes)  # fmt: skip
        got = op(reference.to_physical(x, src), out, add=add, shape=x.shape)
        tile = re.match(r"winograd F\((\d),3\)(?!.* as )", op.plan(x.shape).choices[0].candidate.name)
    logical = exact(reference.to_logical(got, dst, want.shape))
    size = reference.conv(abs(x), abs(w), None, (c["stride"],) * 2, ((1, 1),) * 2, (1, 1), groups).max()
    eps = np.finfo(types.sum).eps
    loose = (1 if scale is None else abs(scale).max()) * (50 if c["algorithm"] in ("winograd", "auto") else 1)
    allowed = 8 * eps * abs(want) + 2.5 * eps * (1 + size * loose) + of_result(types, want)
    if tile and types.narrow:  # no activation is steeper than 1.2
        allowed = allowed + 1.2 * winograd.error_bound(
            exact(x), exact(scaled), int(tile[1]), padding=((1, 1),) * 2, groups=groups, narrow=True
        )
    assert (abs(logical - want) <= allowed).all()
    np.testing.assert_array_equal(got, reference.to_physical(logical, dst))  # pads are zero


def test_the_sum_over_blocks_of_taps_is_finished_once():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 14, 14, 512), np.float32)  # a filter panel of more than 300 KB
    w = rng.standard_normal((64, 512, 3, 3), np.float32)
    plain = lk.conv2d(x, w, padding=1, layout="NHWC", algorithm="direct")
    add = x[..., :64].copy()
    want = np.maximum(plain + add, 0)
    arguments = dict(padding=1, layout="NHWC", algorithm="direct", activation="relu", add=add)
    np.testing.assert_array_equal(lk.conv2d(x, w, **arguments), want)
    np.testing.assert_allclose(lk.conv2d(x, w, out=add, **arguments), want, rtol=0, atol=1e-3)  # sums onto it


X, W = np.ones((1, 4, 5, 5), np.float32), np.ones((6, 4, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        (dict(activation="selu"), "activation 'selu' is written ('selu', number, number)"),
        (dict(activation="hardswish_of"), "did you mean 'hardswish' or ('hardswish', number, number)?"),
        (dict(activation="Relu"), "activation 'Relu': did you mean 'relu'? There are 'relu', 'relu6'"),
        (dict(activation=["relu", "LeakyReLU"]), "did you mean ('leaky_relu', number)?"),
        (dict(activation="hardtanh"), "did you mean ('clip', number, number)?"),
        (dict(activation="mystery"), "activation 'mystery' is unknown: there are 'relu', 'relu6'"),
        (dict(activation=("clip", 1)), "('clip', number, number)"),
        (dict(activation=("clip", 2, 1)), "clip from 2.0 to 1.0 leaves nothing"),
        (dict(activation=np.tanh), "activation <ufunc 'tanh'> is unknown: there are 'relu'"),
        (dict(activation=()), "activation () is unknown: there are 'relu'"),
        (dict(activation=("leaky_relu", [0.1, 0.2])), "expected numbers, not sequences of them"),  # slopes are read
        (dict(activation=("clip", [0, 1], 2)), "expected numbers, not sequences of them"),
        (dict(activation=("prelu", [1, 2])), "prelu has 2 slopes, expected 1 or 6"),
        (dict(scale=np.ones(5, np.float32)), "scale has shape (5,), expected (6,)"),
        (dict(add=np.ones((1, 6, 3, 4), np.float32)), "add has shape (1, 6, 3, 4), expected the result's (1, 6, 3, 3)"),
    ],
)
def test_bad_input(kwargs, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        lk.conv2d(X, W, **kwargs)


def test_activations_of_other_things_than_numbers():
    with pytest.raises(TypeError, match=r"conv2d: activation \('leaky_relu', 'x'\): expected numbers"):
        lk.conv2d(X, W, activation=("leaky_relu", "x"))


def test_add_may_be_out_but_not_overlap_it_otherwise():
    room = np.ones((1, 6, 4, 3), np.float32)
    with pytest.raises(ValueError, match="add and out share memory"):
        lk.conv2d(X, W, out=room[:, :, :3], add=room[:, :, 1:])
    op = lk.Conv2d(W, activation="relu")
    assert "then relu" in op.explain(X.shape)


@pytest.mark.parametrize("algorithm", ["direct", "im2col", "depthwise", "winograd"])
def test_a_residual_that_is_an_output_of_negative_strides(algorithm):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (3, 6, 7, 16)).astype(np.float32)
    w = rng.integers(-4, 5, (16, 1 if algorithm == "depthwise" else 16, 3, 3)).astype(np.float32)
    add = rng.integers(-4, 5, x.shape).astype(np.float32)
    arguments = dict(padding=1, layout="NHWC", algorithm=algorithm, groups=16 // w.shape[1], activation="abs")
    want = lk.conv2d(x, w, add=add, **arguments)
    for flip in (np.s_[::-1], np.s_[:, ::-1], np.s_[:, :, ::-1]):
        out = np.empty_like(add)[flip]
        out[...] = add
        np.testing.assert_allclose(lk.conv2d(x, w, add=out, out=out, **arguments), want, atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 16, 9, 9), (4, 64, 16, 16)])
@pytest.mark.parametrize(("steps", "want"), [
    (["sigmoid", ("linear", -1.0, 1.0)], lambda x: 1 / (1 + np.exp(x))),
    (["sigmoid", "log"], lambda x: -np.log1p(np.exp(-x))),
    (["silu", ("add", -8.0)], lambda x: x / (1 + np.exp(-x)) - 8),
])  # fmt: skip
def test_steps_before_the_last_are_not_coarse(steps, want, shape):
    """Results of bfloat16 are rounded after the last step alone."""
    x = np.resize(np.linspace(2, 12, 97), shape).astype(ml_dtypes.bfloat16)
    w = np.eye(shape[1])[:, :, None, None].astype(ml_dtypes.bfloat16)
    got, exact = lk.conv2d(x, w, activation=steps).astype(np.float64), want(x.astype(np.float64))
    assert (abs(got - exact) <= 2.0**-8 * abs(exact) + 1e-6).all()
