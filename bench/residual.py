"""Networks that training.py trains: ResNet-50 v1.5, ResNeXt-101 32x8d, and three of zoo/."""

from __future__ import annotations

from torch import nn

NETWORKS = {"resnet50": ((3, 4, 6, 3), 1, 1), "resnext101": ((3, 4, 23, 3), 4, 32)}  # blocks, width, groups
OF_ZOO = "mobilenetv2", "unet2d", "unet3d"


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1, and what they are added to."""

    def __init__(self, ic: int, base: int, width: int, groups: int, stride: int) -> None:
        super().__init__()
        inner, oc = base * width, 4 * base
        self.body = nn.Sequential(
            nn.Conv2d(ic, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(inplace=True),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True), nn.Conv2d(inner, oc, 1, bias=False), nn.BatchNorm2d(oc),
        )  # fmt: skip
        same = ic == oc and stride == 1
        self.beside = (
            nn.Identity() if same else nn.Sequential(nn.Conv2d(ic, oc, 1, stride, bias=False), nn.BatchNorm2d(oc))
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.beside(x))


def network(name: str) -> nn.Module:
    """A network of random weights."""
    blocks, width, groups = NETWORKS[name]
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    ic = 64
    for base, count in zip((64, 128, 256, 512), blocks):
        for block in range(count):
            layers.append(Bottleneck(ic, base, width, groups, 2 if block == 0 and base > 64 else 1))
            ic = 4 * base
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ic, 1000))


def trained(name: str) -> tuple[nn.Module, int, int]:
    """A network of random weights, the channels of its input and the number of its spatial axes."""
    if name in NETWORKS:
        return network(name), 3, 2
    from zoo import ZOO

    made = ZOO[name]()
    (example,) = made.inputs.values()
    return made.module, example.shape[1], example.dim() - 2
