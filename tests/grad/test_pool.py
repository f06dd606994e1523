"""Pooling and its gradients over all that their signatures accept, against plain loops over the taps."""

import itertools

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from oracle.guard import guarded
from random_cases.numbers import exact
from strategies import activations, in_proportion

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.convolutions.types import TYPES

ALIVE = []  # what a case has between pages


def taps_of(c):
    """By tap of the window, what it reads of a padded x by output."""
    for tap in itertools.product(*map(range, c["kernel"])):
        yield tuple(slice(t * d, t * d + (m - 1) * s + 1, s)
                    for t, d, s, m in zip(tap, c["dilation"], c["stride"], c["out"]))  # fmt: skip


def padded(x, c, value):
    reach = [(m - 1) * s + (k - 1) * d + 1 for m, s, k, d in zip(c["out"], c["stride"], c["kernel"], c["dilation"])]
    pads = [(0, 0), (0, 0)]
    pads += [(a, max(b, r - n - a)) for n, (a, b), r in zip(x.shape[2:], c["padding"], reach)]
    return np.pad(x, pads, constant_values=value)


def pool(x, c):
    if not c["mean"]:
        wide = padded(x, c, -np.inf)
        return np.maximum.reduce([wide[(..., *tap)] for tap in taps_of(c)])
    wide, there = padded(x, c, 0), counted(x, c)
    return sum(wide[(..., *tap)] for tap in taps_of(c)) / np.maximum(sum(there[(..., *tap)] for tap in taps_of(c)), 1)


def counted(x, c):
    """1 where an element counts in a mean."""
    ones = np.ones(x.shape[2:])
    if c["count_include_pad"]:
        ones = np.pad(ones, c["padding"], constant_values=1)
        more = [(0, w - n) for w, n in zip(padded(x, c, 0).shape[2:], ones.shape)]
        return np.pad(ones, more)[None, None]
    return padded(ones[None, None], c, 0)


def back(x, dy, c):
    dx, left = np.zeros_like(padded(x, c, 0)), np.ones(dy.shape, bool)
    if c["mean"]:
        there = counted(x, c)
        dy = dy / np.maximum(sum(there[(..., *tap)] for tap in taps_of(c)), 1)
    else:
        wide, most = padded(x, c, -np.inf), pool(x, c)
    for tap in taps_of(c):
        if c["mean"]:
            dx[(..., *tap)] += dy
        else:
            here = left & (wide[(..., *tap)] == most)
            dx[(..., *tap)] += np.where(here, dy, 0)
            left &= ~here
    inside = tuple(slice(a, a + n) for (a, _), n in zip(c["padding"], x.shape[2:]))
    return dx[(..., *inside)]


@st.composite
def problems(draw):
    rank = draw(st.sampled_from([1, 2, 2, 3]))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    kernel, stride, dilation, size = each(1, 4), each(1, 3), each(1, 2), each(1, 9)
    padding = tuple((draw(st.integers(0, k // 2)), draw(st.integers(0, k // 2))) for k in kernel)
    up, out = draw(st.booleans()), []
    for n, k, s, d, (a, b) in zip(size, kernel, stride, dilation, padding):
        room = n + a + b - d * (k - 1) - 1
        assume(room >= 0)
        m = (-(-room // s) if up else room // s) + 1
        out.append(m - (up and (m - 1) * s >= n + a))
    mean = draw(st.booleans())
    # every window reads something: what an empty one gives is said, but has no gradient
    for n, k, s, d, (a, _), m in zip(size, kernel, stride, dilation, padding, out):
        assume(all(any(0 <= i * s + t * d - a < n for t in range(k)) for i in range(m)))
    return dict(
        kernel=kernel, stride=stride, dilation=dilation, padding=padding, out=tuple(out), mean=mean, rank=rank,
        shape=(draw(st.integers(0, 3)), draw(st.integers(1, 40)), *size), ceil_mode=up,
        count_include_pad=draw(st.booleans()), layout=draw(activations(rank)), grad_layout=draw(activations(rank)),
        types=draw(st.sampled_from([TYPES[name] for name in ("f32", "f32", "f64", "bf16", "f16")])),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)),
    )  # fmt: skip


def held(tensor, layout, end):
    """The physical array of a tensor, pads that must not count in it, beside a page that cannot be touched."""
    array = reference.to_physical(tensor, lk.Layout(layout), np.nan)
    return between_pages(array, end)


def between_pages(array, end):
    found = guarded(np.ascontiguousarray(array).reshape(-1).view(np.uint8), end)
    ALIVE.append(found)
    return found.array.view(array.dtype).reshape(array.shape)


@given(problems(), st.integers(0, 2**32))
def test_any_pooling(c, seed):
    ALIVE.clear()
    rng, dtype, rank = np.random.default_rng(seed), c["types"].src, c["rank"]
    x = rng.integers(-4, 5, c["shape"]).astype(dtype)
    dy = rng.integers(-4, 5, (*c["shape"][:2], *c["out"])).astype(dtype)
    layout, grad_layout = lk.Layout(c["layout"]), lk.Layout(c["grad_layout"])
    assume(in_proportion(layout, x) and in_proportion(layout, dy) and in_proportion(grad_layout, dy))
    name = f"{'avg' if c['mean'] else 'max'}_pool{rank}d"
    how = {name: c[name] for name in ("stride", "dilation", "padding", "ceil_mode", "threads")}
    how |= dict(dtype=(dtype, dtype) if c["types"].name != "bf16" else ("bfloat16", "bfloat16"))
    if c["mean"]:
        how["count_include_pad"] = c["count_include_pad"]
    eps = {"f64": 1e-15, "f32": 1e-6, "f16": 2e-3, "bf16": 1.6e-2}[c["types"].name]
    near = dict(rtol=4 * eps, atol=8 * eps) if c["mean"] else dict(rtol=0, atol=0)
    end = ("low", "high")[c["threads"] % 2]
    with using_isa(c["isa"]):
        want = pool(exact(x), c)
        got = getattr(lk, name)(held(x, layout, end), c["kernel"], layout=layout, shape=x.shape, **how)
        filled = reference.to_physical(want, layout, 0)
        np.testing.assert_allclose(exact(got), filled, **near)
        out = between_pages(np.ones_like(got), end)
        assert getattr(lk, name)(held(x, layout, end), c["kernel"], layout=layout, shape=x.shape, out=out, **how) is out
        np.testing.assert_array_equal(exact(out), exact(got))
        want = reference.to_physical(back(exact(x), exact(dy), c), layout, 0)
        arguments = held(dy, grad_layout, end), c["kernel"]
        function = getattr(lk.grad, f"{name}_input")
        how |= dict(layout=layout, grad_layout=grad_layout)
        out = between_pages(np.ones_like(reference.to_physical(x, layout)), end)
        if c["mean"]:
            got = function(x.shape, *arguments, out=out, **how)
        else:
            got = function(held(x, layout, end), *arguments, shape=x.shape, out=out, **how)
        assert got is out
        np.testing.assert_allclose(exact(out), want, **near)


def test_nan_is_the_largest_and_takes_the_gradient():
    x = np.array([[[1, np.nan, 3, 4, 5, 6]]], np.float32)
    dy = np.array([[[10, 20]]], np.float32)
    assert np.isnan(lk.max_pool1d(x, 3)[0, 0, 0])
    assert lk.grad.max_pool1d_input(x, dy, 3).tolist() == [[[0, 10, 0, 0, 0, 20]]]


def test_tensors_in_tensors_out():
    x = lk.Tensor(np.arange(32, dtype=np.float32).reshape(1, 4, 4, 2), "NHWC")
    y = lk.max_pool2d(x, 2)
    assert isinstance(y, lk.Tensor) and y.layout == lk.Layout("NHWC") and y.shape == (1, 2, 2, 2)
    for dx in (lk.grad.max_pool2d_input(x, y, 2), lk.grad.avg_pool2d_input(x.shape, y, 2)):
        assert isinstance(dx, lk.Tensor) and dx.shape == x.shape


X = np.zeros((1, 2, 6, 6), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lk.max_pool2d(X, 2, pading=1), TypeError, "keyword argument 'pading'; did you mean 'padding'?"),
        (lambda: lk.avg_pool3d(X, 2, 2), TypeError, "attributes are keywords: stride=2?"),
        (lambda: lk.max_pool2d(X, 7), ValueError, "max_pool2d: a kernel of (7, 7) does not fit into (6, 6)"),
        (lambda: lk.max_pool2d(X, 0), ValueError, "max_pool2d: kernel"),
        (lambda: lk.max_pool2d(X.astype(int), 2), TypeError, "max_pool2d: x"),
        (lambda: lk.max_pool2d(X, 2, layout="OIHW"), ValueError, "max_pool2d: layout"),
        (lambda: lk.max_pool2d(X, 2, out=X), ValueError, "max_pool2d"),
        (lambda: lk.max_pool1d(X[0], 2, count_include_pad=True), TypeError, "max_pool1d() got an unexpected keyword"),
        (lambda: lk.grad.max_pool2d_input(X, X, 2), ValueError, "grad.max_pool2d_input: grad_output"),
        (lambda: lk.grad.max_pool2d_input(X, X[..., :3, :3].astype(float), 2), TypeError, "grad_output is of float64"),
        (lambda: lk.grad.avg_pool2d_input((1, 2, 6), X, 2), ValueError, "grad.avg_pool2d_input: input_size"),
    ],
)
def test_errors_say_what_was_expected(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)
