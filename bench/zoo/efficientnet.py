"""EfficientNet-B0: inverted residuals with squeeze and excitation, SiLU."""

import torch
from torch import nn

from .blocks import Head, Inverted, Squeeze, conv
from .registry import Network, network

STAGES = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)  # expansion, kernel, stride, channels, blocks  # fmt: skip


@network("efficientnet")
def efficientnet():
    layers, ic = [conv(3, 32, 3, 2, act=nn.SiLU)], 32
    for expansion, k, stride, oc, count in STAGES:
        for i in range(count):
            middle = ic * expansion
            squeeze = Squeeze(middle, ic // 4, nn.SiLU)
            layers.append(Inverted(ic, oc, k, 1 if i else stride, middle, nn.SiLU, squeeze))
            ic = oc
    layers += [conv(ic, 1280, act=nn.SiLU), Head(1280)]
    return Network(nn.Sequential(*layers), {"image": torch.zeros(1, 3, 224, 224)})
