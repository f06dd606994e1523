"""Several steps after the sums of a convolution: numbers, one per channel, tensors, in every layout and algorithm."""

import re
from functools import partial

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
from layoutkit._core.runtime import registry
from layoutkit.convolutions.types import TYPES

# No step is steeper than 2, so that the error of a sum stays what it is, times 2 for each step.
PLAIN = [
    "relu", "relu6", ("clip", -1.5, 2.0), ("leaky_relu", 0.25), ("elu", 0.75), "silu", ("swish", 0.875), "mish", "gelu",
    "gelu_tanh", "hardswish", ("hardswish", 0.25, 0.5), ("hardsigmoid", 0.25, 0.5), "sigmoid", "tanh", "softplus",
    "abs", ("linear", -1.5, 0.25), ("pow", 0.5, 1.0),
]  # fmt: skip
BINARY = ["add", "mul", "max", "min", "prelu"]


@st.composite
def chains(draw):
    """Steps: written ones, or the name of one with the kind of its operand; at most one sum."""
    binary = st.tuples(st.sampled_from(BINARY), st.sampled_from(["number", "channel", "tensor", "Tensor", "strided"]))
    steps = draw(st.lists(st.one_of(st.sampled_from(PLAIN), binary), max_size=4))
    if draw(st.booleans()):
        steps.insert(draw(st.integers(0, len(steps))), draw(st.sampled_from(["sum", ("sum", 1), ("sum", -0.5)])))
    assume(steps)
    return steps


@st.composite
def problems(draw):
    algorithm = draw(st.sampled_from(["direct", "im2col", "winograd", "folded", "depthwise", "planes", "blas", "auto"]))
    ic = draw(st.integers(1, 24))
    return dict(
        algorithm=algorithm, shape=(draw(st.integers(1, 2)), ic, draw(st.integers(3, 9)), draw(st.integers(3, 20))),
        groups=ic if algorithm == "depthwise" else 1, stride=1 if algorithm == "winograd" else draw(st.integers(1, 2)),
        oc=ic if algorithm == "depthwise" else draw(st.integers(1, 40)), src=draw(activations(2)),
        dst=draw(activations(2)), chain=draw(chains()), bias=draw(st.booleans()),
        add=draw(st.sampled_from(["none", "other", "out", "strided"])), threads=draw(st.integers(1, 3)),
        isa=draw(st.sampled_from(registry.isas())), end=draw(st.sampled_from(["low", "high"])),
        types=draw(conv_types()), transposed=draw(st.integers(0, 3)) == 0, workspace=draw(st.booleans()),
        unaligned=draw(st.integers(0, 7)) == 0,
    )  # fmt: skip


def written(rng, steps, shape, layout, types):
    """The chain as it is given to a convolution, and as it is to the reference."""
    given, logical = [], []
    for step in steps:
        name, kind = step if isinstance(step, tuple) and len(step) == 2 else (step, None)
        if name not in BINARY:
            given.append(step)
            logical.append(step)
            continue
        if kind in ("number", "channel"):
            operand = normal(rng, (shape[1],) if kind == "channel" else (), types.sum)
            operand = np.clip(operand, -2, 2)
            given.append((name, operand))
            logical.append((name, operand))
            continue
        values = np.clip(normal(rng, shape, np.dtype(np.float32)), -2, 2).astype(types.dst)
        stored = reference.to_physical(values, layout)
        value = lk.Tensor(stored, layout, shape) if kind == "Tensor" else stored
        given.append((name, np.repeat(stored, 2, -1)[..., ::2] if kind == "strided" else value))
        logical.append((name, exact(values)))
    return given, logical


@given(problems())
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
def test_any_chain(c):
    rng = np.random.default_rng(0)
    types, groups = c["types"], c["groups"]
    if c["algorithm"] in ("winograd", "blas", "depthwise", "planes"):
        types = TYPES["f32"] if c["algorithm"] == "winograd" or types.name not in ("f32", "f64") else types
    transposed = c["transposed"] and c["algorithm"] == "auto"
    x = normal(rng, c["shape"], types.src)
    w = normal(rng, (c["oc"], c["shape"][1] // groups, 3, 3), types.filter)
    bias = normal(rng, c["oc"], types.sum) if c["bias"] else None
    stride, ones = (c["stride"],) * 2, ((1, 1),) * 2
    if transposed:
        w = np.ascontiguousarray(w.swapaxes(0, 1))
        want = reference.conv_transpose(exact(x), exact(w), bias, stride, ones, (0, 0), (1, 1), 1)
        size = reference.conv_transpose(abs(exact(x)), abs(exact(w)), None, stride, ones, (0, 0), (1, 1), 1).max()
    else:
        want = reference.conv(exact(x), exact(w), bias, stride, ones, (1, 1), groups)
        size = reference.conv(abs(exact(x)), abs(exact(w)), None, stride, ones, (1, 1), groups).max()
    src, dst = lk.Layout(c["src"]), lk.Layout(c["dst"])
    assume(in_proportion(src, x) and in_proportion(dst, want))
    sums = any(step == "sum" or step[0] == "sum" for step in c["chain"])
    residual = normal(rng, want.shape, types.dst)
    stored = reference.to_physical(residual, dst)
    room = stored.nbytes + 1
    memory = guarded(np.zeros(room, np.uint8), c["end"]).array
    memory = memory[1:] if c["unaligned"] == (c["end"] == "low") else memory[:-1]
    out = memory.view(types.dst).reshape(stored.shape)
    how = "other" if c["add"] == "none" and sums else c["add"]
    add = {"none": None, "other": stored, "out": out, "strided": np.repeat(stored, 2, -1)[..., ::2]}[how]
    if how == "out":
        out[...] = stored
    chain, logical = written(rng, c["chain"], want.shape, dst, types)
    want = reference.epilogue(want, logical, None if add is None else exact(residual).astype(np.float64))
    # tiles of narrow numbers have errors that steep steps may make any number of
    accuracy = "strict" if types.narrow else "fast"
    with using_isa(c["isa"]):
        attributes = dict(activation=chain, layout=src, out_layout=dst, threads=c["threads"], dtype=types.dst,
                          stride=c["stride"], padding=1, accuracy=accuracy, algorithm=c["algorithm"])  # fmt: skip
        if transposed:
            op = lk.ConvTranspose2d(w, bias, **attributes)
        else:
            op = lk.Conv2d(w, bias, groups=groups, **attributes)
        workspace = None
        if c["workspace"]:
            workspace = np.empty(op.workspace(x.shape, add=add is not None), np.uint8)
        got = op(reference.to_physical(x, src), out, add=add, shape=x.shape, workspace=workspace)
    found = exact(reference.to_logical(got, dst, want.shape))
    eps = np.finfo(types.sum).eps
    grown = 2.0 ** len(chain) * (50 if c["algorithm"] in ("winograd", "auto") else 1)
    allowed = 16 * eps * abs(want) + 4 * eps * (1 + size) * grown + of_result(types, want)
    assert (abs(found - want) <= allowed).all(), abs(found - want).max()
    if how != "out":
        np.testing.assert_array_equal(residual, reference.to_logical(stored, dst, want.shape))
    np.testing.assert_array_equal(exact(got), reference.to_physical(found, dst))  # pads are zero


X, W = np.ones((1, 4, 5, 5), np.float32), np.ones((6, 4, 3, 3), np.float32)
Y = lk.conv2d(X, W)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "nChw8c"])
def test_steps_follow_one_another(layout):
    channels = np.arange(6, dtype=np.float32)
    chain = ["square", ("linear", 2, 1), "sqrt", ("mul", channels), ("max", 20), "round"]
    want = np.rint(np.maximum(np.sqrt(2 * Y**2 + 1) * channels[:, None, None], 20))
    x = lk.reorder(X, "NCHW", layout)
    got = lk.reorder(lk.conv2d(x, W, layout=layout, shape=X.shape, activation=chain), layout, "NCHW", shape=Y.shape)
    np.testing.assert_array_equal(got, want)


def test_where_the_residual_is_summed():
    add = np.full(Y.shape, -100, np.float32)
    for chain, want in (
        ("relu", np.maximum(Y - 100, 0)), (["sum", "relu"], np.maximum(Y - 100, 0)), (["relu", "sum"], Y - 100),
        ([("sum", 0.25), "relu"], Y - 25), ([("linear", 2, 0), ("sum", 0.25)], 2 * Y - 25), ("sum", Y - 100),
    ):  # fmt: skip
        np.testing.assert_array_equal(lk.conv2d(X, W, activation=chain, add=add), want)
        out = add.copy()
        np.testing.assert_array_equal(lk.conv2d(X, W, activation=chain, add=out, out=out), want)


def test_a_list_that_is_one_step():
    want = lk.conv2d(X, W, activation=("clip", 0, 1))
    np.testing.assert_array_equal(lk.conv2d(X, W, activation=["clip", 0, 1]), want)
    np.testing.assert_array_equal(lk.conv2d(X, W, activation=["prelu", [0.5] * 6]), Y)


def test_a_kept_convolution_keeps_its_tensors_to_itself():
    slopes = np.full(Y.shape, 0.5, np.float32)
    op = lk.Conv2d(-W, activation=[("prelu", slopes)])
    slopes[...] = 7
    np.testing.assert_array_equal(op(X), -0.5 * Y)
    assert ", then prelu(array of (1, 6, 3, 3))" in op.explain(X.shape)
    with pytest.raises(ValueError, match=r"prelu has shape \(1, 6, 3, 3\), expected the result's \(2, 6, 3, 3\)"):
        op(np.concatenate([X, X]))


def test_inf_and_nan_reach_a_transposed_convolution_with_a_chain():
    w = W.copy().swapaxes(0, 1)[:, :, :2, :2].copy()
    w[0, 0, 0, 0] = np.inf
    want = reference.conv_transpose(X, w, None, (2, 2), ((0, 0),) * 2, (0, 0), (1, 1), 1)
    add = np.arange(want.size, dtype=np.float32).reshape(want.shape)
    for chain in (["abs", ("mul", add + 1), ("sum", 2)], [("sum", 2), "relu"], ["relu", ("add", add)]):
        out = add.copy()
        expected = reference.epilogue(want, chain, add)
        np.testing.assert_allclose(lk.conv_transpose2d(X, w, stride=2, activation=chain, add=out, out=out), expected)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        (dict(activation=["relu", "selu"]), "activation 'selu' is written ('selu', number, number)"),
        (dict(activation=[]), "activation [] is unknown"),
        (dict(activation=["relu", ("clip", 2, 1)]), "clip from 2.0 to 1.0 leaves nothing"),
        (dict(activation=["sum", "relu"]), "activation sum, relu sums up with add, which was not given"),
        (dict(activation=[("add", np.ones(5))]), "add has 5 numbers, expected 1 or 6, or a tensor like the result"),
        (dict(activation=[("mul", np.ones((1, 6, 3, 4), np.float32))]), "mul has shape (1, 6, 3, 4), expected the"),
        (dict(activation=["relu"] * 40), "40 steps, at most 32"),
        (dict(activation=[("mul", lk.Tensor(np.ones((1, 3, 3, 6), np.float32), "NHWC"))]),
         "mul is a Tensor in NHWC, expected NCHW"),
    ],
)  # fmt: skip
def test_bad_chains(kwargs, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        lk.conv2d(X, W, **kwargs)


def test_tensors_of_another_type_or_in_the_output_are_refused():
    with pytest.raises(TypeError, match="max: expected dtype float32, got float64"):
        lk.conv2d(X, W, activation=[("max", np.ones(Y.shape))])
    out = np.ones_like(Y)
    with pytest.raises(ValueError, match="conv2d: mul and out share memory"):
        lk.conv2d(X, W, activation=[("mul", out)], out=out)


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
@pytest.mark.parametrize("convolve", [lk.conv2d, partial(lk.conv_transpose2d, filter_layout="OIHW", stride=2)])
@pytest.mark.parametrize("out_layout", ["NHWC", "NCHW"])
def test_chains_between_integers(dtype, isa, convolve, out_layout):
    rng = np.random.default_rng(0)
    x, w = rng.integers(0, 256, (2, 7, 7, 20), np.uint8), rng.integers(-128, 128, (37, 20, 3, 3), np.int8)
    scale = np.float32(2.0 ** rng.integers(-12, -8, 37))
    plain = dict(layout="NHWC", padding=1, scale=scale, zero_point=9)
    numbers = dict(out_scale=0.5, out_zero_point=3) if dtype != np.float32 else {}
    sums = convolve(x, w, dtype=np.float32, **plain)
    add, gate = (rng.integers(0, 100, sums.shape).astype(dtype) for _ in range(2))
    channels = np.float32(2.0 ** rng.integers(-2, 2, 37))

    def meant(tensor):
        return tensor if dtype == np.float32 else (tensor.astype(np.float32) - 3) * np.float32(0.5)

    want = np.minimum(np.maximum(sums, meant(gate)) * channels + meant(add), 45)
    if dtype != np.float32:
        want = np.clip(np.rint(want / np.float32(0.5)) + 3, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    given = [lk.reorder(a, "NHWC", out_layout) for a in (gate, add)]
    chain = [("max", given[0]), ("mul", channels), "sum", ("clip", -np.inf, 45)]
    with using_isa(isa):
        got = convolve(x, w, dtype=dtype, activation=chain, add=given[1], out_layout=out_layout, **plain, **numbers)
    np.testing.assert_array_equal(lk.reorder(got, out_layout, "NHWC"), want)
