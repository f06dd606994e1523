"""MobileNetV2, V3-Large, and one like V4 (universal inverted bottlenecks)."""

import torch
from torch import nn

from .blocks import Head, Inverted, Squeeze, conv
from .registry import Network, network


def even(n, by=8):
    """A number of channels near to `n` that `by` divides."""
    near = max(by, int(n + by / 2) // by * by)
    return near + by if near < 0.9 * n else near


@network("mobilenetv2")
def v2():
    layers, ic = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
    for expansion, oc, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(count):
            layers.append(Inverted(ic, oc, 3, 1 if i else stride, ic * expansion, nn.ReLU6))
            ic = oc
    layers += [conv(ic, 1280, act=nn.ReLU6), Head(1280)]
    return Network(nn.Sequential(*layers), {"image": torch.zeros(1, 3, 224, 224)})


V3 = (
    (3, 16, 16, 0, nn.ReLU, 1), (3, 64, 24, 0, nn.ReLU, 2), (3, 72, 24, 0, nn.ReLU, 1), (5, 72, 40, 1, nn.ReLU, 2),
    (5, 120, 40, 1, nn.ReLU, 1), (5, 120, 40, 1, nn.ReLU, 1), (3, 240, 80, 0, nn.Hardswish, 2),
    (3, 200, 80, 0, nn.Hardswish, 1), (3, 184, 80, 0, nn.Hardswish, 1), (3, 184, 80, 0, nn.Hardswish, 1),
    (3, 480, 112, 1, nn.Hardswish, 1), (3, 672, 112, 1, nn.Hardswish, 1), (5, 672, 160, 1, nn.Hardswish, 2),
    (5, 960, 160, 1, nn.Hardswish, 1), (5, 960, 160, 1, nn.Hardswish, 1),
)  # kernel, expanded and output channels, squeeze and excitation, activation, stride  # fmt: skip


@network("mobilenetv3")
def v3():
    layers, ic = [conv(3, 16, 3, 2, act=nn.Hardswish)], 16
    for k, middle, oc, squeezes, act, stride in V3:
        squeeze = Squeeze(middle, even(middle / 4), gate=nn.Hardsigmoid) if squeezes else None
        layers.append(Inverted(ic, oc, k, stride, middle, act, squeeze))
        ic = oc
    layers += [conv(ic, 960, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280)]
    layers += [nn.Hardswish(), nn.Linear(1280, 1000)]
    return Network(nn.Sequential(*layers), {"image": torch.zeros(1, 3, 224, 224)})


class Bottleneck(nn.Module):
    """Universal inverted bottleneck: a depthwise convolution before the expansion, one after it, both or none."""

    def __init__(self, ic, oc, before, between, stride, expansion):
        super().__init__()
        middle = even(ic * expansion)
        layers = [conv(ic, ic, before, 1 if between else stride, ic, None)] if before else []
        layers.append(conv(ic, middle))
        layers += [conv(middle, middle, between, stride, middle)] if between else []
        self.layers = nn.Sequential(*layers, conv(middle, oc, act=None))
        self.residual = stride == 1 and ic == oc

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


V4 = (
    (96, 5, 5, 2, 3.0), (96, 0, 3, 1, 2.0), (96, 0, 3, 1, 2.0), (96, 0, 3, 1, 2.0), (96, 0, 3, 1, 2.0),
    (96, 3, 0, 1, 4.0), (128, 3, 3, 2, 6.0), (128, 5, 5, 1, 4.0), (128, 0, 5, 1, 4.0), (128, 0, 5, 1, 3.0),
    (128, 0, 3, 1, 4.0), (128, 0, 3, 1, 4.0),
)  # output channels, kernels before and within, stride, expansion  # fmt: skip


@network("mobilenetv4")
def v4():
    layers = [conv(3, 32, 3, 2), conv(32, 32, 3, 2), conv(32, 32), conv(32, 96, 3, 2), conv(96, 64)]
    ic = 64
    for oc, before, between, stride, expansion in V4:
        layers.append(Bottleneck(ic, oc, before, between, stride, expansion))
        ic = oc
    layers += [conv(ic, 960), nn.AdaptiveAvgPool2d(1), conv(960, 1280), nn.Flatten(), nn.Linear(1280, 1000)]
    return Network(nn.Sequential(*layers), {"image": torch.zeros(1, 3, 224, 224)})
