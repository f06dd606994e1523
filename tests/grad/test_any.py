"""Gradients over all that their signatures accept, against the obvious sums, exactly; and that they are adjoint."""

import numpy as np
import pytest
from conftest import using_isa
from guard import guarded
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_cases.numbers import exact
from strategies import activations, conv_types, in_proportion, layouts

import layoutkit as lk
from layoutkit import reference
from layoutkit._core import registry
from layoutkit.convolutions.types import TYPES
from layoutkit.grad.algorithms import NAMES

LETTERS = "DHW"
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
    """A gradient, new and onto what `out` holds, is `want`."""
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
        want = (want + c["beta"] * exact(old)).astype(dtype)
        np.testing.assert_array_equal(out, reference.to_physical(want, to))


def draws(c):
    ALIVE.clear()
    rng = np.random.default_rng(0)
    return tuple(whole(rng, c[name], c["types"].src) for name in "xyw")


def of(kind, c, what):
    return getattr(lk.grad, f"{kind}{c['rank']}d_{what}")


@given(problems())
@settings(max_examples=150, deadline=None)
def test_any_weight(c):
    x, dy, _ = draws(c)
    sums = {k: c["attributes"][k] for k in ("stride", "padding", "dilation", "groups")}
    want = reference.conv_weight(x, dy, c["w"][2:], **sums)
    arguments = held(x, c["layout"]), c["w"], held(dy, c["grad_layout"], "low")
    given = dict(layout=c["layout"], grad_layout=c["grad_layout"], filter_layout=c["filter_layout"], shape=c["x"])
    try:
        check(c, of("conv", c, "weight"), want, c["filter_layout"], *arguments, algorithm=c["algorithm"], **given)
    except ValueError as error:
        assert c["algorithm"] != "auto" and "cannot sum the gradient" in str(error)


@given(problems())
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
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
@settings(max_examples=100, deadline=None)
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_any_transposed(c):
    """x and dy change places: the convolution reads the gradient of what the transposed one gives."""
    dy, x, w = draws(c)
    want = reference.conv_weight(dy, x, c["w"][2:], **c["attributes"])
    names = LETTERS[3 - c["rank"] :]
    arguments = held(x, c["grad_layout"]), c["w"], held(dy, c["layout"])
    given = dict(layout=c["grad_layout"], grad_layout=c["layout"], shape=c["y"], grad_shape=c["x"])
    check(c, of("conv_transpose", c, "weight"), want, "OI" + names, *arguments, **given)
    want = reference.conv(dy, w, None, **c["attributes"])
    given = dict(layout=c["grad_layout"], grad_layout=c["layout"], grad_shape=c["x"], accuracy="strict")
    check(c, of("conv_transpose", c, "input"), want, c["grad_layout"], c["y"], w, held(dy, c["layout"]), **given)


@given(problems(st.sampled_from([TYPES["f32"], TYPES["f64"]])))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_adjoint_and_accurate(c):
    """<dy, conv(x)> = <dx, x> = <dw, w> to rounding, for numbers of any size, by any algorithm."""
    rng, dtype = np.random.default_rng(0), c["types"].src
    x, dy, w = (rng.standard_normal(c[name]).astype(dtype) for name in "xyw")
    names = LETTERS[3 - c["rank"] :]
    given = dict(layout="NC" + names, **c["attributes"])
    with using_isa(c["isa"]):
        dx = of("conv", c, "input")(c["x"], w, dy, **given)
        dw = of("conv", c, "weight")(x, c["w"], dy, **given)
    inner = np.vdot(dy.astype(float), reference.conv(x, w, None, **c["attributes"]))
    size = np.vdot(abs(dy.astype(float)), reference.conv(abs(x), abs(w), None, **c["attributes"]))
    eps = np.finfo(dtype).eps
    for got, against in ((dx, x), (dw, w)):
        assert abs(np.vdot(got.astype(float), against.astype(float)) - inner) <= 40 * eps * size
    want = reference.conv_weight(x, dy, c["w"][2:], **c["attributes"])
    most = reference.conv_weight(abs(x), abs(dy), c["w"][2:], **c["attributes"])
    assert (abs(dw - want) <= 40 * eps * most).all()
