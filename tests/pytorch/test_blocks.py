"""Modules of users whose batch normalisations, sums and ReLUs are joined in training: the same as before."""

import copy
import io
import random

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.modules.module import register_module_forward_hook  # noqa: E402

import layoutkit.torch as lkt  # noqa: E402
from layoutkit.torch import blocks, functional, norms  # noqa: E402


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Small tensors, too, are computed here."""
    monkeypatch.setattr(functional, "FROM_PLAIN", 0)


@pytest.fixture
def sums(monkeypatch):
    """What each joined operation was: whether there was a sum."""
    seen, kernel = [], norms._batch_norm

    def counted(*args):
        seen.append(args[-1] is not None)
        return kernel(*args)

    monkeypatch.setattr(norms, "_batch_norm", counted)
    return seen


class Residual(nn.Module):
    """As torchvision writes it."""

    def __init__(self, ic=6, oc=6, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(ic, oc, 3, stride, 1, bias=False), nn.BatchNorm2d(oc)
        self.conv2, self.bn2 = nn.Conv2d(oc, oc, 3, 1, 1, bias=False), nn.BatchNorm2d(oc)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride > 1 or ic != oc:
            self.downsample = nn.Sequential(nn.Conv2d(ic, oc, 1, stride), nn.BatchNorm2d(oc))

    def forward(self, x):
        identity = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Branches(nn.Module):
    """Sequences side by side, functions of torch, and a method that `forward` calls."""

    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Conv2d(6, 6, 1), nn.Sequential(nn.BatchNorm2d(6, affine=False)))
        self.b = nn.Sequential(nn.Conv2d(6, 6, 1), nn.BatchNorm2d(6), nn.ReLU6())
        self.plain = True

    def inner(self, x):
        return F.relu(torch.add(self.b(x), self.a(x)))

    def forward(self, x):
        if not self.plain:
            return x
        return self.inner(x)


class Line(nn.Sequential):
    """A sequence with a name of its own."""

    def __init__(self):
        super().__init__(nn.Conv2d(6, 6, 3, bias=False), nn.BatchNorm2d(6, momentum=0.3), nn.ReLU())


def trained(model, x):
    """Results, gradients and running statistics of two steps."""
    found = []
    for _ in range(2):
        given = x.clone().requires_grad_()
        y = model(given * 1)
        wanted = [given, *model.parameters()]
        found += [y, *torch.autograd.grad((y * y.detach().cos()).sum(), wanted), *(b.clone() for b in model.buffers())]
    return found


FORMATS = torch.contiguous_format, torch.channels_last
MODELS = {
    "residual": (Residual, 2),
    "strided": (lambda: Residual(6, 12, 2), 2),
    "branches": (Branches, 2),
    "line": (Line, 1),
}


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (1, 6, 3, 3)])
def test_joined_modules_train_alike(name, form, shape, sums):
    made, joins = MODELS[name]
    torch.manual_seed(0)
    theirs = made().to(memory_format=form)
    ours = lkt.convert(copy.deepcopy(theirs))
    assert isinstance(ours, blocks.Block) and isinstance(ours, type(theirs))
    x = torch.randn(shape).to(memory_format=form)
    if name == "line" and shape[0] == 1:
        return  # torch refuses one number for each channel
    want = trained(theirs, x)
    sums.clear()
    for a, b in zip(trained(ours, x), want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * (1 + b.abs().max().item()))
    assert len(sums) >= 2 * joins and sums.count(True) == (0 if name == "line" else 2)
    for model in (theirs, ours):
        model.eval()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-4)


def test_joined_modules_are_copied_saved_and_compiled():
    torch.manual_seed(0)
    theirs, x = nn.Sequential(Residual(), Branches()), torch.randn(2, 6, 5, 5)
    ours = lkt.convert(copy.deepcopy(theirs))
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    again = lkt.convert(nn.Sequential(Residual(), Branches()))
    again.load_state_dict(theirs.state_dict())
    others = [copy.deepcopy(ours), torch.load(file, weights_only=False), lkt.convert(ours), again]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert all(type(model[0]) is type(ours[0]) and repr(model) == repr(ours) for model in others)
    others.append(torch.compile(copy.deepcopy(ours), backend="aot_eager", fullgraph=True))
    want = theirs(x)
    for model in others:
        torch.testing.assert_close(model(x), want, rtol=1e-4, atol=1e-4)
    assert "layoutkit.batch_norm.default" in str(torch.export.export(lkt.convert(Line()), (x,)).graph)


@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_see_what_torch_computes(everywhere):
    torch.manual_seed(0)
    theirs, x = (
        nn.Sequential(nn.Sequential(nn.Conv2d(6, 6, 1), nn.BatchNorm2d(6), nn.ReLU()), Residual()),
        torch.randn(2, 6, 4, 4),
    )
    ours, seen = lkt.convert(copy.deepcopy(theirs)), []

    def hook(module, given, y):
        if isinstance(module, (nn.BatchNorm2d, nn.ReLU, nn.Sequential)):
            seen.append(y.detach().clone())

    for model in (theirs, ours):
        model(x)
        if everywhere:
            handles = [register_module_forward_hook(hook)]
        else:
            handles = [part.register_forward_hook(hook) for part in model.modules() if type(part) is not type(model)]
        model(x)
        for handle in handles:
            handle.remove()
    half = len(seen) // 2
    assert half > 3
    torch.testing.assert_close(seen[half:], seen[:half], rtol=1e-4, atol=1e-4)


def test_what_was_changed_is_seen():
    torch.manual_seed(0)
    ours, x = lkt.convert(Residual(6, 6, 1)), torch.randn(2, 6, 4, 4)

    def check():
        plain = Residual()
        for name, part in ours.named_children():
            setattr(plain, name, copy.deepcopy(part))
        plain.downsample = ours.downsample
        want = plain(x)
        torch.testing.assert_close(ours(x), want, rtol=1e-4, atol=1e-4)

    check()
    ours.relu = nn.Sigmoid()
    check()
    ours.relu = nn.ReLU()
    ours.downsample = nn.Sequential(nn.Conv2d(6, 6, 1), nn.Tanh())
    check()
    ours.downsample[1] = nn.Sigmoid()
    check()
    ours.bn2.eval()
    check()
    branches = lkt.convert(Branches())
    branches(x)
    branches.plain = False
    assert branches(x) is x


class Random(Residual):
    def forward(self, x):
        return self.relu(self.bn1(self.conv1(x)) + (x if random.random() < 0.5 else 0))


class Written(Residual):
    """Something else is written over."""

    def forward(self, x):
        x = self.conv2(x)
        y = self.bn1(self.conv1(x))
        x += y
        return self.relu(x)


class Twice(Residual):
    """Normalised numbers are looked at once more."""

    def forward(self, x):
        y = self.bn1(self.conv1(x))
        return self.relu(y) + y


class Given(Residual):
    """What is normalised could be written over meanwhile."""

    def forward(self, x):
        return self.relu(self.bn1(x))


class Stateful(Residual):
    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return self.relu(self.bn1(self.conv1(x)))


class Registered(Residual):
    def __init_subclass__(cls):
        raise TypeError("nobody takes more from this class")


class Reduced(Residual):
    def __reduce__(self):
        return Reduced, ()


@pytest.mark.parametrize("made", [Random, Written, Twice, Given, Stateful, Registered, Reduced])
def test_what_cannot_be_told_stays(made):
    module = lkt.convert(made())
    assert type(module) is made
    module(torch.randn(2, 6, 4, 4))
