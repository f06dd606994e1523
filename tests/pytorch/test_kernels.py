"""What kernels keep of a call is for calls on other numbers in the same forms, and for no others."""

import gc
import weakref

import pytest

torch = pytest.importorskip("torch", reason="the extra torch")
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import layoutkit as lk  # noqa: E402
import layoutkit.torch  # noqa: E402
from layoutkit.torch import norms, pools, small  # noqa: E402

OPERATORS = torch.ops.layoutkit
FORMATS = torch.contiguous_format, torch.channels_last


def step(x, w, b, conv, **options):
    inputs = [t.detach().requires_grad_() for t in (x, w, b)]
    y = conv(*inputs, **options)
    return y, *torch.autograd.grad(y, inputs, torch.ones_like(y))


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_of_a_problem_only_numbers_change(form, dtype):
    small.calls.kept.clear()
    near = {"rtol": 3e-2, "atol": 0.3} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-4}
    for turn in range(3):
        for options in ({"padding": 1}, {"stride": 2}, {"dilation": 2, "padding": 1}, {"groups": 2}):
            w = torch.randn(8, 4 // options.get("groups", 1), 3, 3, dtype=dtype)
            x, b = torch.randn(2, 4, 7, 9, dtype=dtype).to(memory_format=form), torch.randn(8, dtype=dtype)
            if turn == 2:  # whole numbers that Winograd's algorithm could not take
                w[0, 0, 0, 0] = 2.0**60
                x, b = torch.ones_like(x), torch.zeros_like(b)
            got = step(x, w, b, layoutkit.torch.conv, **options)
            for a, c in zip(got, step(x, w, b, torch.nn.functional.conv2d, **options)):
                torch.testing.assert_close(a, c, **near)
                assert a.shape != x.shape or a.stride() == c.stride()


@st.composite
def layers(draw):
    rank, groups = draw(st.sampled_from([1, 2, 2, 3])), draw(st.sampled_from([1, 1, 2]))

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    return dict(
        size=each(5, 9), kernel=each(1, 3), stride=each(1, 3), padding=each(0, 2), dilation=each(1, 2), groups=groups,
        channels=(groups * draw(st.integers(1, 9)), groups * draw(st.integers(1, 9))), n=draw(st.integers(1, 3)),
        dtype=draw(st.sampled_from([torch.float32, torch.float64])), threads=draw(st.integers(1, 2)),
        formats=draw(st.tuples(st.booleans(), st.booleans())),
        large=draw(st.sampled_from([None, 2.0**60, float("inf"), float("nan")])),
    )  # fmt: skip


@given(layers())
def test_repeated_calls_look_at_the_values_of_their_filters(c):
    options = {k: c[k] for k in ("stride", "padding", "dilation", "groups")}
    (ic, oc), rank, threads = c["channels"], len(c["size"]), torch.get_num_threads()
    last = {2: torch.channels_last, 3: torch.channels_last_3d}.get(rank, torch.contiguous_format)
    forms = [last if is_last else torch.contiguous_format for is_last in c["formats"]]
    rng, theirs = torch.Generator().manual_seed(0), getattr(torch.nn.functional, f"conv{rank}d")
    torch.set_num_threads(c["threads"])
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(small, "SMALL_FLOPS", -1)  # no call is small
            small.calls.kept.clear()
            for turn in range(4):
                x = torch.randn(c["n"], ic, *c["size"], generator=rng).to(c["dtype"], memory_format=forms[0])
                w = torch.randn(oc, ic // c["groups"], *c["kernel"], generator=rng)
                w = w.to(c["dtype"], memory_format=forms[1])
                b = torch.randn(oc, generator=rng).to(c["dtype"])
                is_large = turn == 2 and c["large"] is not None
                if is_large:
                    w[(-1, 0, *(k // 2 for k in c["kernel"]))] = c["large"]
                found = step(x, w, b, layoutkit.torch.conv, **options)
                kept = dict(small.calls.kept)
                small.calls.kept.clear()
                fresh = step(x, w, b, layoutkit.torch.conv, **options)
                small.calls.kept.update(kept)
                torch.testing.assert_close(found, fresh, rtol=0, atol=0, equal_nan=True)
                if not is_large:
                    exact = step(x.double(), w.double(), b.double(), theirs, **options)
                    exact = [t.detach().to(c["dtype"]) for t in exact]
                    torch.testing.assert_close([t.detach() for t in found], exact, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_num_threads(threads)


def test_repeated_calls_are_watched(monkeypatch):
    monkeypatch.setattr(small, "SMALL_FLOPS", -1)
    small.calls.kept.clear()
    x, w, b = torch.randn(2, 4, 9, 9), torch.randn(6, 4, 3, 3), torch.randn(6)
    step(x, w, b, layoutkit.torch.conv)
    step(x, w, b, layoutkit.torch.conv)
    with lk.profile() as seen:
        step(x, w, b, layoutkit.torch.conv)
    assert {"conv2d", "conv_transpose2d", "grad.conv2d_weight"} <= {event.operation for event in seen.events}


def test_other_strides_of_the_same_shape_are_another_problem():
    w = torch.randn(6, 5, 3, 3)
    for x in (torch.randn(2, 5, 9, 8), torch.randn(2, 5, 8, 9).transpose(2, 3), torch.randn(4, 5, 9, 8)[::2]) * 2:
        torch.testing.assert_close(
            layoutkit.torch.conv(x, w), torch.nn.functional.conv2d(x, w), rtol=1e-4, atol=1e-4
        )  # fmt: skip


def test_reproducible_calls_are_others():
    x, w = torch.randn(2, 16, 14, 14), torch.randn(16, 16, 3, 3)
    layoutkit.torch.conv(x, w, padding=1)
    want = lk.conv2d(x.numpy(), w.numpy(), padding=1, accuracy="reproducible")
    before = lk.reproducible(True)
    try:
        for _ in range(2):
            assert (layoutkit.torch.conv(x, w, padding=1).numpy() == want).all()
    finally:
        lk.reproducible(before)


def test_no_memory_of_a_call_is_kept():
    x, w, b = torch.randn(1, 3, 6, 6), torch.randn(4, 3, 3, 3), torch.randn(4)
    OPERATORS.max_pool(x, [2, 2], [2, 2], [0, 0], [1, 1], False)
    step(x, w, b, layoutkit.torch.conv)
    storages = [weakref.ref(t.untyped_storage()) for t in (x, w, b)]
    del x, w, b
    gc.collect()
    assert [storage() for storage in storages] == [None] * 3


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_pooling_again(form):
    pools._kept.clear()
    for _ in range(2):
        for attributes in (([2, 2], [2, 2], [0, 0]), ([3, 3], [1, 2], [1, 1])):
            x = torch.randn(2, 5, 8, 9).to(memory_format=form).requires_grad_()
            for ours, theirs, more in (
                (OPERATORS.max_pool, pools.max_by_torch, ([1, 1], False)),
                (OPERATORS.avg_pool, pools.avg_by_torch, (True, False)),
            ):
                got, want = ours(x, *attributes, *more), theirs(x, *attributes, *more)
                dy = torch.randn_like(want)
                torch.testing.assert_close(got, want)
                torch.testing.assert_close(torch.autograd.grad(got, x, dy), torch.autograd.grad(want, x, dy))


CALLS = {
    "batch_norm": (norms.batch_norm, lambda x, b: (x, b, b, None, None, 1e-5, 6.0)),
    "max_pool": (pools.max_pool, lambda x, _: (x, (3, 3), (1, 2), (1, 1), (1, 1), False)),
    "avg_pool": (pools.avg_pool, lambda x, _: (x, (3, 3), (1, 2), (1, 1), True, False)),
}


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_with_less_around_it_an_operator_is_the_same(name, form):
    ours, arguments = CALLS[name]
    x, b = torch.randn(2, 5, 8, 9).to(memory_format=form), torch.randn(5)

    def first(function):
        def called(x, b):
            y = function(*arguments(x, b))
            return y[0] if isinstance(y, tuple) else y

        return called

    results = []
    for function in (first(getattr(OPERATORS, name)), first(ours)):
        a, c = x.detach().requires_grad_(), b.detach().requires_grad_()
        y = function(a, c)
        wanted = (a, c) if name == "batch_norm" else (a,)
        grads = torch.autograd.grad(y.square().sum(), wanted, create_graph=True)
        more = torch.autograd.grad(grads[0].square().sum(), a) if name != "max_pool" else ()
        results.append([y, *torch.autograd.grad(function(a, c).square().sum(), wanted), *grads, *more])
        assert function(x, b).grad_fn is None and y.stride() == function(x, b).stride()
    for want, got in zip(*results):
        torch.testing.assert_close(got, want)
    called = first(ours)
    assert f"layoutkit.{name}" in make_fx(called)(x, b).code
    compiled = torch.compile(called, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, b), called(x, b))
    assert called(x.to("meta"), b.to("meta")).is_meta
