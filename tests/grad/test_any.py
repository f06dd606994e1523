"""Gradients over all that their signatures accept, against the obvious sums, exactly; and that they are adjoint."""

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from random_cases.numbers import exact
from strategies import activations, conv_types, in_proportion, layouts

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.convolutions.types import TYPES
from layoutkit.grad.algorithms import NAMES

LETTERS = "DHW"
pytestmark = pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
ALIVE = []  # what a case has between pages


@st.composite
def problems(draw, kinds=None):
    """A convolution that has an output, and how its gradients are asked for."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    groups = draw(st.sampled_from([1, 1, 2, 8, 20]))
    inputs, outputs = (draw(st.sampled_from([1, 1, 2, 3, 5, 9])) for _ in "io")
    stride, dilation, kernel, padding = each(1, 4), each(1, 3), each(1, 5), tuple(zip(each(0, 5), each(0, 5)))
    size = each(1, 12)
    out = tuple((n + a + b - d * (k - 1) - 1) // s + 1
                for n, (a, b), d, k, s in zip(size, padding, dilation, kernel, stride))  # fmt: skip
    assume(min(out) >= 1)
    n = draw(st.integers(0, 3))
    return dict(
        attributes=dict(stride=stride, padding=padding, dilation=dilation, groups=groups), rank=rank,
        x=(n, groups * inputs, *size), y=(n, groups * outputs, *out), w=(groups * outputs, inputs, *kernel),
        layout=draw(activations(rank)), grad_layout=draw(activations(rank)),
        types=draw(conv_types() if kinds is None else kinds),
        filter_layout=draw(layouts(rank + 2, rank + 2, max_blocks=2)),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)),
        beta=draw(st.sampled_from([0, 0, 1, 2])), algorithm=draw(st.sampled_from(NAMES)),
    )  # fmt: skip


def whole(rng, shape, dtype):
    return rng.integers(-4, 5, shape).astype(dtype)  # sums are exact


def held(tensor, layout, end="high"):
    """The physical array of a tensor, pads that must not count in it, beside a page that cannot be touched."""
    layout = lk.Layout(layout)
    assume(in_proportion(layout, tensor))
    return between_pages(reference.to_physical(tensor, layout, np.nan), end)


def between_pages(array, end):
    """A copy of an array that ends, or begins, where a page does that cannot be touched."""
    found = guarded(np.ascontiguousarray(array).reshape(-1).view(np.uint8), end)
    ALIVE.append(found)
    return found.array.view(array.dtype).reshape(array.shape)


def check(c, function, want, to, *arguments, **more):
    """A gradient, new and onto what `out` holds, is `want`.

    Those of inputs are rounded before they are added to a multiple of `out` but `out` itself; those of weights are
    rounded once.
    """
    of_input = function.__name__.endswith("_input")
    to, dtype = lk.Layout(to), c["types"].dst
    assume(in_proportion(to, want))
    old = whole(np.random.default_rng(1), want.shape, dtype)
    end = ("low", "high")[c["threads"] % 2]
    more |= dict(threads=c["threads"], dtype=dtype, **c["attributes"])
    with using_isa(c["isa"]):
        got = function(*arguments, **more)
        np.testing.assert_array_equal(got, reference.to_physical(want.astype(dtype), to))
        out = between_pages(reference.to_physical(old, to), end)
        assert function(*arguments, out=out, beta=c["beta"], **more) is out
        if of_input and c["beta"] not in (0, 1):
            want = exact(want.astype(dtype))
        want = (want + c["beta"] * exact(old)).astype(dtype)
        np.testing.assert_array_equal(out, reference.to_physical(want, to))


def draws(c):
    ALIVE.clear()
    rng = np.random.default_rng(0)
    return tuple(whole(rng, c[name], c["types"].src) for name in "xyw")


def of(kind, c, what):
    return getattr(lk.grad, f"{kind}{c['rank']}d_{what}")


@given(problems())
def test_any_weight(c):
    x, dy, _ = draws(c)
    sums = {k: c["attributes"][k] for k in ("stride", "padding", "dilation", "groups")}
    want = reference.conv_weight(x, dy, c["w"][2:], **sums)
    arguments = held(x, c["layout"]), c["w"], held(dy, c["grad_layout"], "low")
    given = dict(layout=c["layout"], grad_layout=c["grad_layout"], filter_layout=c["filter_layout"], shape=c["x"])
    try:
        given |= dict(algorithm=c["algorithm"], accuracy="strict")
        check(c, of("conv", c, "weight"), want, c["filter_layout"], *arguments, **given)
    except ValueError as error:
        assert c["algorithm"] != "auto" and "cannot sum the gradient" in str(error)


@given(problems())
def test_any_input(c):
    _, dy, w = draws(c)
    out = c["x"][2:]
    reached = [(n - 1) * s - sum(p) + d * (k - 1) + 1 for n, s, p, d, k in zip(
        c["y"][2:], *(c["attributes"][name] for name in ("stride", "padding", "dilation")), c["w"][2:])]  # fmt: skip
    want = reference.conv_transpose(
        dy, w, None, output_padding=[a - b for a, b in zip(out, reached)], **c["attributes"]
    )
    assert want.shape == c["x"]
    arguments = c["x"], reference.to_physical(w, lk.Layout(c["filter_layout"])), held(dy, c["grad_layout"])
    assume(in_proportion(lk.Layout(c["filter_layout"]), w))
    given = dict(layout=c["layout"], grad_layout=c["grad_layout"], filter_layout=c["filter_layout"])
    check(c, of("conv", c, "input"), want, c["layout"], *arguments, filter_shape=c["w"], accuracy="strict", **given)


@given(problems())
def test_any_transposed(c):
    """x and dy change places: the convolution reads the gradient of what the transposed one gives."""
    dy, x, w = draws(c)
    want = reference.conv_weight(dy, x, c["w"][2:], **c["attributes"])
    names = LETTERS[3 - c["rank"] :]
    arguments = held(x, c["grad_layout"]), c["w"], held(dy, c["layout"])
    given = dict(layout=c["grad_layout"], grad_layout=c["layout"], shape=c["y"], grad_shape=c["x"], accuracy="strict")
    check(c, of("conv_transpose", c, "weight"), want, "OI" + names, *arguments, **given)
    want = reference.conv(dy, w, None, **c["attributes"])
    given = dict(layout=c["grad_layout"], grad_layout=c["layout"], grad_shape=c["x"], accuracy="strict")
    check(c, of("conv_transpose", c, "input"), want, c["grad_layout"], c["y"], w, held(dy, c["layout"]), **given)


@given(problems(st.sampled_from([TYPES["f32"], TYPES["f64"]])))
def test_adjoint_and_accurate(c):
    """<dy, conv(x)> = <dx, x> = <dw, w> to rounding."""
    rng, dtype = np.random.default_rng(0), c["types"].src
    x, dy, w = (rng.standard_normal(c[name]).astype(dtype) for name in "xyw")
    names = LETTERS[3 - c["rank"] :]
    given = dict(layout="NC" + names, **c["attributes"])
    with using_isa(c["isa"]):
        dx = of("conv", c, "input")(c["x"], w, dy, **given)
        dw = of("conv", c, "weight")(x, c["w"], dy, accuracy="strict", **given)
    inner = np.vdot(dy.astype(float), reference.conv(x, w, None, **c["attributes"]))
    size = np.vdot(abs(dy.astype(float)), reference.conv(abs(x), abs(w), None, **c["attributes"]))
    eps = np.finfo(dtype).eps
    for got, against in ((dx, x), (dw, w)):
        assert abs(np.vdot(got.astype(float), against.astype(float)) - inner) <= 40 * eps * size
    want = reference.conv_weight(x, dy, c["w"][2:], **c["attributes"])
    most = reference.conv_weight(abs(x), abs(dy), c["w"][2:], **c["attributes"])
    assert (abs(dw - want) <= 40 * eps * most).all()


@st.composite
def winograd_problems(draw):
    """What Winograd takes, in layouts of which it reads many as they are."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inputs, outputs = (draw(st.sampled_from([1, 3, 8, 16, 17, 40, 140])) for _ in "io")
    kernel = ((1,) * (rank - 2) + (3, 3))[-rank:]
    padding = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in range(rank))
    size = tuple(draw(st.integers(1, 12)) for _ in range(rank))
    out = tuple(n + a + b - k + 1 for n, (a, b), k in zip(size, padding, kernel))
    assume(min(out) >= 1)
    names = LETTERS[3 - rank :]
    last = st.sampled_from([f"N{names}C", f"N{names}C", f"nC{names.lower()}8c", f"nC{names.lower()}16c", f"NC{names}"])
    n = draw(st.integers(1, 4))
    return dict(
        attributes=dict(padding=padding, groups=groups), rank=rank, x=(n, groups * inputs, *size),
        y=(n, groups * outputs, *out), w=(groups * outputs, inputs, *kernel), layout=draw(last), grad_layout=draw(last),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)),
        transposed=draw(st.booleans()), beta=draw(st.sampled_from([0, 1])),
    )  # fmt: skip


@given(winograd_problems(), st.integers(0, 2**32))
def test_any_weight_by_winograd(c, seed):
    """Within the bound of docs/training.md, and the same bits for any threads."""
    ALIVE.clear()
    rng = np.random.default_rng(seed)
    x, dy = (rng.standard_normal(c[name]).astype(np.float32) for name in "xy")
    x *= 10.0 ** rng.integers(-3, 4, (*x.shape[:2], *[1] * c["rank"]))  # images and channels of other sizes
    attributes = c["attributes"]
    want = reference.conv_weight(x, dy, c["w"][2:], (1,) * c["rank"], attributes["padding"], (1,) * c["rank"],
                                 attributes["groups"])  # fmt: skip
    how = dict(algorithm="winograd", accuracy="fast", **attributes)
    if c["transposed"]:
        arguments, function = (held(dy, c["grad_layout"], "low"), c["w"], held(x, c["layout"])), "conv_transpose"
        how |= dict(layout=c["grad_layout"], grad_layout=c["layout"], shape=c["y"], grad_shape=c["x"])
        how |= dict(filter_layout="ba" + "cde"[: c["rank"]])
    else:
        arguments, function = (held(x, c["layout"], "low"), c["w"], held(dy, c["grad_layout"])), "conv"
        how |= dict(layout=c["layout"], grad_layout=c["grad_layout"], shape=c["x"], grad_shape=c["y"])
    with using_isa(c["isa"]):
        try:
            got = of(function, c, "weight")(*arguments, threads=1, **how)
        except ValueError as error:
            assert attributes["groups"] > 1 and "no multiple of the block" in str(error)
            return
        out = np.ones_like(got)
        again = of(function, c, "weight")(*arguments, threads=c["threads"], out=out, beta=c["beta"], **how)
    tiles = x.shape[0] * np.prod([-(-n // 4) for n in dy.shape[2:]])
    ox = abs(x).reshape(x.shape[0], attributes["groups"], -1, *x.shape[2:])
    largest = ox.max(axis=(0, *range(3, ox.ndim)))  # of each channel
    oy = abs(dy).sum(axis=(0, *range(2, dy.ndim))).reshape(attributes["groups"], -1)
    bound = (oy[:, :, None] * largest[:, None, :]).reshape(c["w"][:2])
    bound = 152 * (tiles / 64 + 128) * 2.0**-24 * bound.reshape(*bound.shape, *[1] * c["rank"])
    assert (abs(got.reshape(want.shape) - want) <= bound).all()
    np.testing.assert_allclose(again, got + c["beta"], rtol=1e-6, atol=1e-6)
    if not c["beta"]:
        np.testing.assert_array_equal(again, got)
