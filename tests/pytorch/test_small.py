"""Small calls, which go from tensors to kernels in compiled code, give what torch gives, as often as they are made."""

import copy
import gc
import itertools
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from conftest import fewer
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the extra torch")
import layoutkit as lk  # noqa: E402
import layoutkit.torch as lkt  # noqa: E402
from layoutkit._core.nests.convolutions.small_calls import Large  # noqa: E402
from layoutkit.choosing.watching import watchers  # noqa: E402
from layoutkit.torch import direct, small  # noqa: E402

functional = torch.nn.functional
CALLS = {
    "conv": {rank: getattr(functional, f"conv{rank}d") for rank in (1, 2, 3)},
    "conv_transpose": {rank: getattr(functional, f"conv_transpose{rank}d") for rank in (1, 2, 3)},
}


@pytest.fixture(autouse=True)
def nothing_is_kept():
    assert small.calls is not None, "this torch describes no tensors in C"
    small.calls.kept.clear()


def strided(draw, shape, dtype):
    """A tensor of such a shape: contiguous, in channels last, a view with gaps, or repeated."""
    form = draw(st.sampled_from(("plain", "plain", "last", "gaps", "turned", "repeated")))
    if form == "last":
        return torch.randn(shape[0], *shape[2:], shape[1], dtype=dtype).movedim(-1, 1)
    if form == "gaps":
        return torch.randn(*shape[:-1], 2 * shape[-1] + 1, dtype=dtype)[..., 1::2]
    if form == "turned":
        return torch.randn(*shape[::-1], dtype=dtype).permute(*reversed(range(len(shape))))
    if form == "repeated":
        return torch.randn(shape[1:], dtype=dtype).expand(shape)
    return torch.randn(shape, dtype=dtype)


@st.composite
def problems(draw):
    rank, transposed = draw(st.integers(1, 3)), draw(st.booleans())

    def each(lo, hi):
        return tuple(draw(st.integers(lo, hi)) for _ in range(rank))

    groups = draw(st.sampled_from((1, 1, 2, 3)))
    inputs, outputs = (groups * draw(st.integers(1, 9)) for _ in range(2))
    dtype = draw(st.sampled_from((torch.float32, torch.float32, torch.float64)))
    kernel, stride, dilation = each(1, 3), each(1, 3), each(1, 2)
    w = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
    torch.manual_seed(draw(st.integers(0, 9)))
    return dict(
        name="conv_transpose" if transposed else "conv", rank=rank,
        x=strided(draw, (draw(st.integers(0, 2)), inputs, *each(1, 7)), dtype),
        w=strided(draw, (*w, *kernel), dtype), b=strided(draw, (1, outputs), dtype)[0] if draw(st.booleans()) else None,
        options=dict(stride=stride, padding=each(0, 2), dilation=dilation, groups=groups), sum=draw(st.booleans()),
    )  # fmt: skip


def step(function, tensors, options, sums):
    leaves = [t.detach().requires_grad_() for t in tensors if t is not None]
    y = function(*leaves, **options)
    dy = torch.ones(()).to(y.dtype).expand(y.shape) if sums else torch.linspace(-1, 2, y.numel(), dtype=y.dtype)
    return y, *torch.autograd.grad(y, leaves, dy.reshape(y.shape))


@given(problems())
@fewer(1)
def test_first_and_later_calls_are_torchs(c):
    theirs, ours = CALLS[c["name"]][c["rank"]], getattr(lkt, c["name"])
    tensors = [c[key] for key in "xwb"]
    try:
        want = step(theirs, tensors, c["options"], c["sum"])
    except RuntimeError:  # no outputs
        return
    if min(want[0].shape[2:]) < 1:  # of no images torch accepts it
        return
    near = {"rtol": 1e-4, "atol": 1e-4} if c["x"].dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    for _ in range(3):
        got = step(ours, tensors, c["options"], c["sum"])
        for a, b in zip(got, want):
            assert a.shape == b.shape
            torch.testing.assert_close(a, b, **near)
        with torch.no_grad():
            assert ours(*tensors, **c["options"]).stride() == got[0].stride()
            torch.testing.assert_close(ours(*tensors, **c["options"]), want[0].detach(), **near)


def found(x, w, b, *attributes):
    return small.calls.find(small.PUBLIC + small.CONV, x, w, b, *attributes)


@pytest.fixture(params=["small", "large"])
def kept(request):
    """A function that returns tensors of a call that is kept."""
    shapes = {"small": ((2, 3, 5, 6), (4, 3, 3, 3), (4,)), "large": ((2, 16, 24, 25), (20, 16, 3, 3), (20,))}

    def tensors(dtype=torch.float32):
        x, w, b = (torch.randn(shape, dtype=dtype) for shape in shapes[request.param])
        lkt.conv(x, w, b, 1, 1)
        assert isinstance(found(x, w, b, 1, 1, 1, 1), Large) == (request.param == "large")
        return x, w, b

    return tensors


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", small.TYPES, ids=str)
def test_infinite_numbers_make_what_they_make_elsewhere(monkeypatch, dtype, name, number):
    ours = getattr(lkt, name)
    for kernel, groups, form in itertools.product((1, 3), (1, 16), (torch.contiguous_format, torch.channels_last)):
        x = torch.randn(1, 16, 5, 6, dtype=dtype).to(memory_format=form)
        w = torch.randn(16, 16 // groups, kernel, kernel, dtype=dtype)
        options = {"groups": groups, "padding": int(name == "conv" or kernel > 1)}
        ours(x, w, **options)
        for tensor in (x, w):
            before, tensor[1:, 0, 0, 0] = tensor.clone(), number
            tensor[0, -1, -1, -1] = number
            got = ours(x, w, **options)
            with monkeypatch.context() as patch:  # as with an older torch
                for module in (small, direct):
                    patch.setattr(module, "calls", None)
                want = ours(x, w, **options)
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4, equal_nan=True)
            tensor.copy_(before)


@pytest.mark.parametrize("padding", [True, 1.0, (1, True), None, "valid", 2**70, -1])
def test_attributes_that_equal_others_are_not_taken_for_them(kept, padding):
    x, w, b = kept()
    if padding == "valid":
        torch.testing.assert_close(lkt.conv(x, w, b, 1, padding), functional.conv2d(x, w, b), rtol=1e-4, atol=1e-4)
        return
    for _ in range(2):
        with pytest.raises((TypeError, ValueError), match="padding"):
            lkt.conv(x, w, b, 1, padding)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_modes_and_transforms_see_such_calls(kept):
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.overrides import TorchFunctionMode

    x, w, b = kept()
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    with Mode():
        lkt.conv(x, w, b, 1, 1)
    assert lkt.conv in seen
    assert "layoutkit.conv" in make_fx(lambda x: lkt.conv(x, w, b, 1, 1))(x).code
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (x, w, b)]
        assert type(lkt.conv(*fakes, 1, 1)) is type(fakes[0])
    with torch.autocast("cpu", torch.bfloat16):
        assert lkt.conv(x, w, b, 1, 1).dtype == torch.bfloat16
    torch.testing.assert_close(torch.vmap(lambda x: lkt.conv(x, w, b, 1, 1))(x[:, None])[:, 0],
                               functional.conv2d(x, w, b, 1, 1), rtol=1e-4, atol=1e-4)  # fmt: skip
    tangent = torch.func.jvp(lambda x: lkt.conv(x, w, b, 1, 1), (x,), (x,))[1]
    torch.testing.assert_close(tangent, functional.conv2d(x, w, None, 1, 1), rtol=1e-4, atol=1e-4)
    with torch.inference_mode():
        assert lkt.conv(x, w, b, 1, 1).is_inference()


def test_tensors_that_are_not_what_they_look_like(kept):
    x, w, b = kept()
    want = lkt.conv(-x, w, b, 1, 1)
    torch.testing.assert_close(lkt.conv(torch._neg_view(x), w, b, 1, 1), want)
    assert lkt.conv(x.to("meta"), w.to("meta"), b.to("meta"), 1, 1).is_meta
    with pytest.raises(TypeError, match=r"sparse|expected"):
        lkt.conv(x, w.to_sparse(), b, 1, 1)
    with pytest.raises(TypeError, match="float64"):
        lkt.conv(x, w.double(), b, 1, 1)

    class Own(torch.Tensor):
        pass

    assert type(lkt.conv(x.as_subclass(Own), w, b, 1, 1)) is Own
    memory = torch.zeros(4 * x.numel() + 2, dtype=torch.uint8).numpy()[2:]
    odd = torch.from_numpy(memory.view(np.float32).reshape(x.shape))  # between whole elements
    odd.copy_(x)
    torch.testing.assert_close(lkt.conv(odd, w, b, 1, 1), -want + 2 * b[:, None, None], rtol=1e-4, atol=1e-4)


def test_gradients_of_gradients_and_hooks(kept):
    x, w, b = (t.requires_grad_() for t in kept(torch.float64))
    results, packed = [], []
    for conv in (functional.conv2d, lkt.conv):
        before = len(packed)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t), t)[1], lambda t: t):
            y = conv(x, w, b, 1, 1)
        assert len(packed) > before
        (dx,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
        results.append([y, dx, *torch.autograd.grad(dx.square().sum(), (x, w, b))])
    for want, got in zip(*results):
        torch.testing.assert_close(got, want)


def test_only_what_needs_gradients_gets_them(kept):
    tensors = kept()
    for needed in range(3):
        given = [t.detach().requires_grad_(i == needed) for i, t in enumerate(tensors)]
        y = lkt.conv(*given, 1, 1)
        y.sum().backward()
        assert [t.grad is not None for t in given] == [i == needed for i in range(3)]
    with torch.no_grad():
        assert not lkt.conv(*given, 1, 1).requires_grad


def test_settings_change_what_is_kept(kept):
    x, w, b = kept()
    want = lk.conv2d(x.numpy(), w.numpy(), b.numpy(), padding=1, accuracy="reproducible")
    before = lk.reproducible(True)
    try:
        for _ in range(2):
            assert (lkt.conv(x, w, b, 1, 1).numpy() == want).all()
    finally:
        lk.reproducible(before)
    x, w, b = kept()
    events = []
    watchers.append(events.append)
    try:
        lkt.conv(x, w, b, 1, 1)
    finally:
        watchers.remove(events.append)
    assert events  # it is reported as any other


def test_no_memory_of_the_caller_is_kept_and_results_are_new(kept):
    x, w, b = kept()
    first, second = (lkt.conv(x, w, b, 1, 1) for _ in range(2))
    assert first.data_ptr() != second.data_ptr()
    storages = [weakref.ref(t.untyped_storage()) for t in (x, w, b)]
    del x, w, b
    gc.collect()
    assert [storage() for storage in storages] == [None] * 3


def test_weights_that_change_in_place_or_are_others(kept):
    x, w, b = kept()
    for new in (w.mul_(2), copy.deepcopy(w).mul_(3), torch.nn.Parameter(w * 4)):
        want = functional.conv2d(x, new, b, 1, 1)
        torch.testing.assert_close(lkt.conv(x, new, b, 1, 1), want, rtol=1e-4, atol=1e-4)


def test_threads_share_what_is_kept(kept):
    x, w, b = kept()
    inputs = [x * i for i in range(4)]
    wants = [functional.conv2d(x, w, b, 1, 1) for x in inputs]
    wrong = []

    def work(i):
        for _ in range(200):
            if not torch.allclose(lkt.conv(inputs[i], w, b, 1, 1), wants[i], rtol=1e-4, atol=1e-4):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore::layoutkit.SlowPathWarning")  # of gradients in bfloat16
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_large_calls_on_other_numbers_of_threads(dtype):
    x, w = torch.randn(2, 16, 24, 24).to(dtype).requires_grad_(), torch.randn(16, 16, 3, 3).to(dtype).requires_grad_()
    before, wanted = torch.get_num_threads(), None
    try:
        for threads in (before, 1, before, 1):
            torch.set_num_threads(threads)
            for _ in range(2):
                y = lkt.conv(x, w)
                got = y.detach(), *torch.autograd.grad(y.sum(), (x, w))
                wanted = got if wanted is None else wanted
                for a, b in zip(got, wanted):
                    torch.testing.assert_close(a, b, rtol=1e-2, atol=0.3 if dtype != torch.float32 else 1e-3)
            assert isinstance(found(x, w, None, 1, 0, 1, 1), Large)
    finally:
        torch.set_num_threads(before)


def test_only_so_many_are_kept(monkeypatch):
    few = small.SmallCalls(torch, small.forward_ad, small.THREADS, small.cost_table, watchers, 3)
    for module in (small, direct):
        monkeypatch.setattr(module, "calls", few)
    for size in range(3, 9):
        x, w = torch.randn(1, 2, size), torch.randn(2, 2, 3)
        for _ in range(2):
            torch.testing.assert_close(lkt.conv(x, w), functional.conv1d(x, w), rtol=1e-4, atol=1e-4)
        assert len(few.kept) <= 3


@pytest.mark.parametrize("mode", ["FakeTensorMode()", "torch.device('meta')"])
def test_a_mode_while_layoutkit_is_imported_changes_nothing(mode):
    program = f"""
import torch
from torch._subclasses import FakeTensorMode
with {mode}:
    import layoutkit.torch as lkt
x, w = torch.ones(1, 2, 6, 6), torch.ones(3, 2, 3, 3, requires_grad=True)
assert all((lkt.conv(x, w) == 18).all() for _ in range(4))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_watcher_between_the_call_and_its_gradient():
    x, w = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    for _ in range(3):
        lkt.conv(x, w)
    kept = next(each for each in small.calls.kept.values() if each is not None)
    watchers.append(lambda *args: None)
    try:
        assert small.calls.over(kept, x, w, None) is None
    finally:
        watchers.pop()
    assert small.calls.over(kept, x, w, None) is not None


def test_batched_gradients_of_transposed_convolutions():
    x, w = torch.randn(2, 4, 7, 7, requires_grad=True), torch.randn(4, 3, 3, 3)
    y = lkt.conv_transpose(x, w)
    dy = torch.randn(3, *y.shape)
    (batched,) = torch.autograd.grad(y, x, dy, is_grads_batched=True, retain_graph=True)
    each = torch.stack([torch.autograd.grad(y, x, d, retain_graph=True)[0] for d in dy])
    torch.testing.assert_close(batched, each)
