"""Transposed convolution by phases, against the obvious sum and against torch."""

import re

import numpy as np
import pytest
from conftest import using_isa
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import reference
from random_cases.numbers import exact
from strategies import activations, conv_types, in_proportion

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing import measuring
from layoutkit.convolutions import images_route
from layoutkit.convolutions.phases import phases
from layoutkit.convolutions.types import TYPES

CLASSES = {1: lk.ConvTranspose1d, 2: lk.ConvTranspose2d, 3: lk.ConvTranspose3d}


INTEGERS = [types for types in TYPES.values() if types.integers]


@st.composite
def problems(draw, kinds):
    rank = draw(st.sampled_from([1, 2, 2, 3]))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    groups = draw(st.sampled_from([1, 1, 2, 8]))
    stride, dilation = each(1, 4), each(1, 3)
    return dict(
        shape=(draw(st.sampled_from([1, 2, 4])), groups * draw(st.integers(0, 4)), *each(1, 7)), groups=groups,
        outputs=draw(st.integers(1, 9)), kernel=each(1, 5), stride=stride, dilation=dilation,
        padding=tuple(zip(each(0, 5), each(0, 5))), bias=draw(st.booleans()),
        output_padding=tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation)),
        src=draw(activations(rank)), dst=draw(activations(rank)),
        isa=draw(st.sampled_from(registry.isas())), threads=draw(st.integers(1, 3)), add=draw(st.booleans()),
        activation=draw(st.sampled_from([None, ("clip", -20, 30)])), types=draw(kinds),
    )  # fmt: skip


def geometry(c):
    """What a problem gives both the operation and the reference; it has an output."""
    found = {k: c[k] for k in ("stride", "padding", "output_padding", "dilation", "groups")}
    out = [(n - 1) * s - sum(p) + d * (k - 1) + e + 1 for n, s, p, d, k, e in
           zip(c["shape"][2:], c["stride"], c["padding"], c["dilation"], c["kernel"], c["output_padding"])]  # fmt: skip
    assume(min(out) >= 1)
    return found


# Bytes of the last cache, as small as what is drawn: some images of a batch are taken together then.
caches = st.sampled_from([1 << 30, 200, 1000, 4000, 20000])


def with_a_cache_of(nbytes, patch):
    patch.setattr(images_route, "last_level_cache", lambda: nbytes)
    patch.setattr(images_route, "CACHE_PARTS", 1)
    patch.setattr(images_route, "LEAST_PARTS", 1 << 30)


@given(problems(conv_types()), caches)
@pytest.mark.filterwarnings("ignore:.*only slow ways")  # which some that are drawn have
def test_any_transposed(c, cache):
    attributes = geometry(c)
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, c["shape"]).astype(c["types"].src)  # sums are exact
    w = rng.integers(-4, 5, (c["shape"][1], c["outputs"], *c["kernel"])).astype(c["types"].src)
    bias = rng.integers(-4, 5, c["groups"] * c["outputs"]).astype(c["types"].src) if c["bias"] else None
    want = reference.conv_transpose(x, w, bias, **attributes)
    add = rng.integers(-4, 5, want.shape).astype(c["types"].dst)
    if c["add"]:
        want = want + exact(add)
    want = reference.activate(want, c["activation"]).astype(c["types"].dst)
    src, dst = lk.Layout(c["src"]), lk.Layout(c["dst"])
    assume(in_proportion(src, x) and in_proportion(dst, want))
    with using_isa(c["isa"]), pytest.MonkeyPatch.context() as patch:
        with_a_cache_of(cache, patch)
        op = CLASSES[x.ndim - 2](w, bias, layout=src, out_layout=dst, accuracy="strict", threads=c["threads"],
                                 activation=c["activation"], dtype=c["types"].dst, **attributes)  # fmt: skip
        for _ in range(2):
            got = op(reference.to_physical(x, src, np.nan), add=reference.to_physical(add, dst) if c["add"] else None,
                     shape=x.shape)  # fmt: skip
            np.testing.assert_array_equal(got, reference.to_physical(want, dst))


def bounds(dtype):
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


@given(problems(st.sampled_from(INTEGERS)), st.data(), caches)
@pytest.mark.filterwarnings("ignore:.*only slow ways")
def test_any_transposed_of_integers(c, data, cache):
    attributes, types, rng = geometry(c), c["types"], np.random.default_rng(0)
    zero = data.draw(st.integers(*bounds(types.src)))
    x = rng.integers(*bounds(types.src), c["shape"], types.src, endpoint=True)
    w = rng.integers(-128, 127, (c["shape"][1], c["outputs"], *c["kernel"]), np.int8, endpoint=True)
    bias = rng.integers(-9999, 9999, c["groups"] * c["outputs"], np.int32) if c["bias"] else None
    finish, add = {}, None
    sums = reference.conv_transpose(x.astype(np.int64) - zero, w, None, **attributes)
    if types.dst != np.int32:
        if bias is not None and data.draw(st.booleans()):
            bias = bias.astype(np.float32)
        scale = data.draw(st.sampled_from([None, "one", "each"]))
        if scale:
            scales = np.exp2(rng.uniform(-12, 0, c["groups"] * c["outputs"])).astype(np.float32)
            finish["scale"] = scales if scale == "each" else scales[0]
        finish["activation"] = c["activation"]
        add = rng.integers(-99, 99, sums.shape).astype(types.dst) if c["add"] else None
        if types.dst != np.float32:
            finish["out_zero_point"] = data.draw(st.integers(*bounds(types.dst)))
            finish["out_scale"] = data.draw(st.sampled_from([1.0, 0.5, 3.7]))
    want = reference.requantized(sums, bias, types.dst, add=add, **finish)
    src, dst = lk.Layout(c["src"]), lk.Layout(c["dst"])
    assume(in_proportion(src, x) and in_proportion(dst, want))
    with using_isa(c["isa"]), pytest.MonkeyPatch.context() as patch:
        with_a_cache_of(cache, patch)
        op = CLASSES[x.ndim - 2](w, bias, layout=src, out_layout=dst, threads=c["threads"], zero_point=zero,
                                 dtype=(types.src, types.dst), **finish, **attributes)  # fmt: skip
        given = reference.to_physical(x, src, 77), None, None if add is None else reference.to_physical(add, dst)
        assert op.plan(x.shape).choices[0].candidate.name in op.explain(x.shape, verbose=True)
        for space in (None, np.empty(op.workspace(x.shape, add=add is not None), np.uint8)):
            got = op(*given, space, shape=x.shape)
            np.testing.assert_array_equal(got, reference.to_physical(want, dst))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("padding", [0, 2])
def test_integers_as_torch(dtype, padding):
    """Places that no pixel reaches hold the bias: the stride is larger than the kernel."""
    torch = pytest.importorskip("torch")
    rng, zero = np.random.default_rng(0), 100
    x, w = (rng.integers(0, 128, s).astype(t) for s, t in (((2, 8, 5, 6), dtype), ((8, 3, 3, 2), np.int8)))
    bias = rng.integers(-999, 999, 6, np.int32)
    args = dict(stride=(4, 3), padding=padding, output_padding=(1, 2), groups=2, dilation=(1, 2))
    numbers = (torch.from_numpy(a.astype(np.float64)) for a in (x.astype(int) - zero, w, bias))
    want = torch.nn.functional.conv_transpose2d(*numbers, **args).numpy()
    got = lk.conv_transpose2d(x, w, bias, zero_point=zero, **args)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, want)
    if not padding:
        assert (got[:, :, 3] == bias[:, None]).all()
    tensor = lk.conv_transpose2d(lk.Tensor.from_logical(x, "nChw4c"), w, bias, zero_point=zero, **args)
    np.testing.assert_array_equal(tensor.numpy(), want)
    plan = lk.plan(lk.conv_transpose2d, x, w, bias, zero_point=zero, **args)
    assert f" {'u8s8' if dtype == np.uint8 else 's8s8'}_s32 " in plan.title


def test_as_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 6, 7, 5), np.float32), rng.standard_normal((6, 4, 4, 3), np.float32)
    bias = rng.standard_normal(8, np.float32)
    args = dict(stride=(2, 3), padding=(1, 2), output_padding=(1, 0), groups=2, dilation=(1, 2))
    want = torch.nn.functional.conv_transpose2d(*map(torch.from_numpy, (x, w, bias)), **args).numpy()
    got = lk.conv_transpose2d(x, w, bias, **args)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    out = np.zeros((*want.shape[:3], 2 * want.shape[3]), np.float32)[..., ::2]
    assert lk.conv_transpose2d(x, w.transpose(2, 3, 1, 0).copy(), bias, filter_layout="HWOI", out=out, **args) is out
    np.testing.assert_array_equal(out, got)


def test_phases_cover_every_output_and_tap_once():
    for stride in range(1, 5):
        for dilation in range(1, 5):
            for kernel in range(1, 6):
                out = 5 * stride + dilation * (kernel - 1) + 1
                found = phases(6, kernel, stride, dilation, 0, out)
                assert [p.start for p in found] == list(range(min(stride, out)))
                pairs = sorted(k for p in found for k in p.taps)
                assert pairs == list(range(kernel))


def test_an_empty_batch_and_a_tensor():
    w = np.ones((4, 6, 4, 4), np.float32)
    assert lk.conv_transpose2d(np.ones((0, 4, 5, 5), np.float32), w, stride=2, padding=1).shape == (0, 6, 10, 10)
    x = lk.Tensor.from_logical(np.random.default_rng(0).random((1, 4, 5, 6), np.float32), "nChw8c")
    y = lk.conv_transpose2d(x, w, stride=2, padding=1)
    assert (y.layout, y.shape) == (lk.Layout("nChw8c"), (1, 6, 10, 12))
    np.testing.assert_allclose(y.numpy(), lk.conv_transpose2d(x.numpy(), w, stride=2, padding=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        (dict(output_padding=2), "output_padding 2 is not below stride 2 or dilation 1"),
        (dict(padding="same"), "padding 'same': expected numbers"),
        (dict(padding=9), "has no output"),
        (dict(groups=3), "4 input channels do not divide into 3 groups"),
        (dict(layout="NCW"), "layout NCW has 3 dimensions, expected 4"),
        (dict(w=np.ones((4, 6, 4), np.float32)), "conv_transpose2d: w: layout IOHW is held by an array of 4 axes"),
    ],
)
def test_bad_input(kwargs, says):
    w = kwargs.pop("w", np.ones((4, 6, 4, 4), np.float32))
    with pytest.raises(ValueError, match=re.escape(says)):
        lk.conv_transpose2d(np.ones((1, 4, 5, 5), np.float32), w, stride=2, **kwargs)


LAYOUTS = [("NHWC", "NHWC"), ("NCHW", "NCHW"), ("nChw16c", "NCHW"), ("NCHW", "NHWC")]


def drawn(layouts, outputs=6, **attributes):
    """An object, an input and a residual for it."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 8, 7, 6), np.float32), rng.standard_normal((8, outputs, 3, 4), np.float32)
    op = lk.ConvTranspose2d(w, stride=(2, 3), padding=1, layout=layouts[0], out_layout=layouts[1], **attributes)
    add = rng.standard_normal((2, outputs, 13, 17), np.float32)
    return (
        op,
        x.shape,
        reference.to_physical(x, lk.Layout(layouts[0])),
        reference.to_physical(add, lk.Layout(layouts[1])),
    )


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("with_add", [False, True])
@pytest.mark.parametrize("inf", [False, True])
def test_with_a_workspace_it_is_the_same(layouts, with_add, inf):
    op, shape, x, add = drawn(layouts, activation="relu")
    if inf:  # every tap by itself
        op._filter.w[0, 0, 0, 0] = np.inf
    add = add if with_add else None
    want = op(x, add=add)
    workspace = np.empty(op.workspace(shape, add=with_add), np.uint8)
    np.testing.assert_array_equal(op(x, add=add, workspace=workspace), want)
    out = np.empty_like(want)
    if with_add:
        out[...] = add
        np.testing.assert_array_equal(op(x, out, out, workspace), want)
    with pytest.raises(ValueError, match=r"conv_transpose2d: workspace of 0 bytes, this call needs [0-9]+"):
        op(x, add=add, workspace=workspace[:0])
    with pytest.raises(ValueError, match="workspace overlaps"):
        memory = np.zeros(1 << 16, np.uint8)
        op(memory[: x.nbytes].view(np.float32).reshape(x.shape), workspace=memory)
    with pytest.raises(TypeError, match="workspace must be a contiguous"):
        op(x, workspace=[1])


@pytest.mark.parametrize("layouts", LAYOUTS)
def test_it_is_planned_and_explained(layouts, cache_dir, monkeypatch):
    monkeypatch.setattr(measuring, "FIRST_USE_SECONDS", 0.02)  # whether measured, not how well
    op, shape, x, _ = drawn(layouts, 18, threads=1)  # too many to join phases
    plan = op.plan(shape)
    assert plan.title.startswith("conv_transpose n2 c8 7x6 o18 13x17 k3x4 s2x3 p1+1,1+1 d1x1 g1 ")
    assert plan.choices[0].candidate.name.startswith("phases")
    assert plan.explain(verbose=True).count("\nconv n2 c8 7x6 o18 ") == 6, "a line for each phase"
    text = plan.explain()
    assert text.startswith("conv_transpose2d of (2, 8, 7, 6) float32 ") and text.count("\na phase of ") == 6
    assert "gemm_" not in text and op.explain(lk.Tensor(x, layouts[0], shape)) == op.explain(shape)
    before = lk.tuning("measure")
    try:
        measured = op.plan(shape).explain()
    finally:
        lk.tuning(before)
    assert measured.count(" us, measured\n") == 6
    np.testing.assert_array_equal(op(x), op(x))


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("with_add", [False, True])
def test_some_images_at_a_time(layouts, with_add, monkeypatch):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((6, 8, 7, 6), np.float32), rng.standard_normal((8, 5, 3, 4), np.float32)
    residual = rng.standard_normal((6, 5, 13, 17), np.float32) if with_add else None
    held = reference.to_physical(rng.standard_normal((6, 5, 13, 17), np.float32), lk.Layout(layouts[1]))
    way = dict(stride=(2, 3), padding=1, layout=layouts[0], out_layout=layouts[1], activation=[("mul", held), "relu"])
    given = reference.to_physical(x, lk.Layout(layouts[0]))
    add = None if residual is None else reference.to_physical(residual, lk.Layout(layouts[1]))
    whole = lk.ConvTranspose2d(w, **way)
    want, text = whole(given, add=add), whole.explain(x.shape)
    with_a_cache_of(20000, monkeypatch)
    some = lk.ConvTranspose2d(w, **way)
    np.testing.assert_allclose(some(given, add=add), want, rtol=1e-4, atol=1e-4)
    outermost = all(layout.startswith(("N", "n")) for layout in layouts)
    assert ("of 6 images at a time" in some.explain(x.shape)) == outermost and "images at a time" not in text
    workspace = np.empty(some.workspace(x.shape, add=with_add), np.uint8)
    np.testing.assert_allclose(some(given, add=add, workspace=workspace), want, rtol=1e-4, atol=1e-4)


def test_how_many_images_are_taken_together(monkeypatch):
    task = lk.ConvTranspose2d(np.ones((64, 3, 4, 4), np.float32), stride=2)._task

    def images(n, cache):
        monkeypatch.setattr(images_route, "last_level_cache", lambda: cache)
        return images_route.images_at_a_time(task((n, 64, 32, 32)))

    each = 4 * (64 * 32 * 32 + 3 * 66 * 66)
    assert images(8, 16 * each) == 8 and images(8, 5 * each) == 8  # all are there, and not even one
    assert images(8, 6 * each) == 1 and images(8, 14 * each) == 2 and images(7, 13 * each) == 1
    assert images(1000, 7 * each * 1000) == 1000 and images(1000, 1000 * each) == 125
    assert images(997, 997 * each) == 997  # one at a time would be too little


def test_joined_phases_are_explained():
    op = lk.ConvTranspose1d(np.ones((128, 1, 16), np.float32), stride=8, padding=4, threads=1)
    plan = op.plan((1, 128, 1000))
    assert plan.choices[0].candidate.name.startswith("joined phases in a")
    assert plan.explain(verbose=True).count("\nconv n1 c128 1000 o8 k2 s1 p1+1 ") == 1
    assert plan.explain().count("\njoined phases of 2: ") == 1 and " of joined phases of the stride" in plan.explain()


def test_a_call_once_counts_packing():
    w = np.ones((64, 64, 3, 3), np.float32)
    x = np.ones((1, 64, 9, 9), np.float32)
    once, kept = lk.plan(lk.conv_transpose2d, x, w, stride=2), lk.ConvTranspose2d(w, stride=2).plan(x.shape)
    assert once.title == kept.title and once.choices[0].seconds > 1.5 * kept.choices[0].seconds


def test_threads_are_those_asked_for():
    w, x = np.ones((64, 64, 3, 3), np.float32), np.ones((1, 64, 9, 9), np.float32)
    for threads in (1, 2):
        assert lk.plan(lk.conv_transpose2d, x, w, stride=2, threads=threads).title.endswith(f" t{threads}")
