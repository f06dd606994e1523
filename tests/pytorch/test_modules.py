"""Modules of layoutkit.torch and whole models that were converted, beside those of torch."""

import copy
import gc
import io
import weakref
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch.modules import OURS  # noqa: E402


def networks():
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, groups=16, padding="same"),
        nn.Conv2d(16, 32, 1, stride=2), nn.ReLU(), nn.ConvTranspose2d(32, 8, 2, stride=2), nn.Conv2d(
            8, 8, 3, padding=1, padding_mode="reflect"), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_converted_model_trains_alike(form):
    torch.manual_seed(0)
    theirs = networks().to(memory_format=form)
    ours = lkt.convert(copy.deepcopy(theirs))
    assert sum(type(m) in OURS.values() for m in ours.modules()) == 5
    assert not any(type(m) in OURS for m in ours.modules())
    x, target = torch.randn(8, 3, 12, 12).to(memory_format=form), torch.randint(4, (8,))
    for model in (theirs, ours):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), target).backward()
            optimizer.step()
    for want, got in zip(theirs.parameters(), ours.parameters()):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-5)
    for model in (theirs, ours):
        model.eval()
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-3, atol=1e-4)


def test_filters_may_change_in_any_way():
    layer = lkt.convert(torch.nn.Conv2d(4, 4, 3, bias=False)).requires_grad_(False)
    x = torch.randn(1, 4, 6, 6)
    before = layer(x)
    layer.weight.data.mul_(2)  # no version counter tells of it
    torch.testing.assert_close(layer(x), 2 * before)
    layer.weight = torch.nn.Parameter(torch.zeros_like(layer.weight), requires_grad=False)
    assert not layer(x).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@torch.no_grad()
def test_packed_filters_are_kept_while_nothing_changes(dtype):
    torch.manual_seed(0)
    theirs = torch.nn.Conv2d(4, 6, 3, 2, 1, groups=2).eval().to(dtype)
    ours = lkt.convert(copy.deepcopy(theirs))
    x = torch.randn(2, 4, 7, 8, dtype=dtype)

    def change(step):
        for layer in (theirs, ours):
            step(layer)

    def with_gaps():
        return torch.nn.Parameter(torch.ones(6, 2, 3, 6, dtype=dtype)[..., ::2])

    steps = {
        "nothing": lambda layer: None,
        "in place": lambda layer: layer.weight.mul_(2),
        "data": lambda layer: layer.weight.data.mul_(2),
        "data of the bias": lambda layer: layer.bias.data.add_(1),
        "format": lambda layer: layer.to(memory_format=torch.channels_last),
        "state": lambda layer: layer.load_state_dict({k: v / 2 for k, v in layer.state_dict().items()}),
        "gaps": lambda layer: setattr(layer, "weight", with_gaps()),
        "data with gaps": lambda layer: layer.weight.data.mul_(3),
        "stride": lambda layer: setattr(layer, "stride", (1, 1)),
    }
    rounding = 1e-5 if dtype in (torch.float32, torch.float64) else 2e-2
    for name, step in steps.items():
        change(step)
        for _ in range(2):
            for given in (x, x.to(memory_format=torch.channels_last), x[:, :, :5]):
                want, got = theirs(given), ours(given)
                rounding = 1e-5 if dtype in (torch.float32, torch.float64) else 2e-2
                torch.testing.assert_close(
                    got, want, rtol=rounding, atol=rounding, msg=lambda text, name=name: f"{name}: {text}"
                )
                assert got.stride() == want.stride()
    with pytest.raises(ValueError, match="has 3 channels, expected 4"):
        ours(x[:, :3])
    with pytest.raises(TypeError):
        ours(x.to(torch.int8))


@torch.no_grad()
def test_packed_filters_are_freed_with_the_module():
    layer, x = lkt.convert(torch.nn.Conv2d(4, 4, 3)).eval(), torch.randn(1, 4, 6, 6)
    layer(x)
    weight = weakref.ref(layer.weight)
    assert set(layer.__dict__) == set(torch.nn.Conv2d(4, 4, 3).__dict__)
    del layer
    gc.collect()
    assert weight() is None


def test_models_are_copied_and_saved():
    layer = lkt.convert(torch.nn.Conv2d(4, 4, 3))
    x = torch.randn(1, 4, 6, 6)
    want = layer(x)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
        torch.testing.assert_close(other(x), want)
    assert set(layer.state_dict()) == {"weight", "bias"}


def test_the_example_trains_to_the_same_losses(monkeypatch):
    pytest.importorskip("sklearn", reason="the extra test")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "torch")
    import digits

    theirs, ours = digits.main(5)
    assert theirs[-1] < 0.5 * theirs[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-2)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4)


def test_the_example_segments_a_volume_alike(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples" / "torch")
    import windows

    assert windows.main(24, 16) > 0.999


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_paddings_of_modules(rank, mode):
    theirs = getattr(torch.nn, f"Conv{rank}d")(4, 6, 3, padding=np.int64(1), stride=(2,) * rank, padding_mode=mode)
    ours = lkt.convert(copy.deepcopy(theirs))
    for x in (torch.randn(2, 4, *[5] * rank), torch.randn(4, *[5] * rank)):
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_sizes_of_transposed_modules(rank):
    theirs = getattr(torch.nn, f"ConvTranspose{rank}d")(4, 6, 3, stride=3, padding=1, groups=2)
    ours = lkt.convert(copy.deepcopy(theirs))
    x = torch.randn(2, 4, *[4] * rank)
    for size in (None, [10] * rank, [12] * rank, torch.Size([2, 6] + [11] * rank)):
        torch.testing.assert_close(ours(x, size), theirs(x, size), rtol=1e-4, atol=1e-5)
    for model in (theirs, ours):
        with pytest.raises(ValueError, match="output size"):
            model(x, [13] * rank)


def test_one_call_tells_whether_converting_helps():
    torch.manual_seed(0)
    model, x = networks().eval(), torch.randn(2, 3, 12, 12)
    before = copy.deepcopy(model.state_dict())
    found = lkt.compare(model, x, rounds=2)
    assert found.modules == 5 and found.apart < 1e-4 and found.seconds > 0 < found.converted_seconds
    assert " ms a call, torch " in str(found) and "5 convolutions converted" in str(found)
    assert not any(type(m) in OURS.values() for m in model.modules()), "the model stays as it is"
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values()))
    assert "nothing to convert" in str(lkt.compare(torch.nn.Linear(4, 4), torch.zeros(1, 4), rounds=1))
    dropping = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Dropout(0.5))
    assert lkt.compare(dropping, x, rounds=1).apart < 1e-4
    for slower, words in ((0.5, "2.00 times as fast"), (2.0, "2.00 times as long")):
        assert words in str(lkt.Comparison(1.0, slower, 0.0, 1, 1))
    with pytest.raises(TypeError, match=r"compare: expected a torch\.nn\.Module, got int"):
        lkt.compare(3)
    with pytest.raises(ValueError, match="rounds"):
        lkt.compare(model, x, rounds=0)


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm", "orthogonal"])
def test_a_parametrized_filter_is_that_of_each_call(name):
    """In eval mode without gradients too, where filters are kept until they change."""
    of = getattr(torch.nn.utils.parametrizations, name)
    torch.manual_seed(0)
    ours, theirs, x = of(lkt.Conv2d(3, 8, 3)), of(torch.nn.Conv2d(3, 8, 3)), torch.randn(2, 3, 6, 6)
    theirs.load_state_dict(ours.state_dict())
    assert isinstance(ours, lkt.Conv2d)
    for model in (ours, theirs):
        model(x).square().sum().backward()
    for got, want in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-3)
    with torch.no_grad():
        for factor in (1.0, 0.5, 3.0):
            for model in (ours.eval(), theirs.eval()):
                for parameter in model.parameters():
                    parameter.mul_(factor).add_(0.1)
            torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


def test_hooks_of_distributed_data_parallel(tmp_path):
    """Buckets of gradients of a converted model, in one process."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 4, 1))
    ours, x = lkt.convert(copy.deepcopy(net)), torch.randn(2, 3, 6, 6)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        parallel, seen = torch.nn.parallel.DistributedDataParallel(ours), []

        def hook(state, bucket):
            seen.append(bucket.buffer().numel())
            done = torch.futures.Future()
            done.set_result(2 * bucket.buffer())
            return done

        parallel.register_comm_hook(None, hook)
        for model in (parallel, net):
            model(x).square().sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    assert sum(seen) == sum(p.numel() for p in net.parameters())
    for got, want in zip(ours.parameters(), net.parameters()):
        torch.testing.assert_close(got.grad, 2 * want.grad, rtol=1e-3, atol=1e-3)
