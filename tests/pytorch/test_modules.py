"""Modules of layoutkit.torch and whole models that were converted, beside those of torch."""

import copy
import io
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
