"""ResNeXt-50 32x4d; its blocks are also those of other backbones."""

import torch
from torch import nn

from .blocks import Head, conv
from .registry import Network, network


class Block(nn.Module):
    def __init__(self, ic, middle, oc, stride=1, groups=1, dilation=1):
        super().__init__()
        between = conv(middle, middle, 3, stride, groups, dilation=dilation)
        self.layers = nn.Sequential(conv(ic, middle), between, conv(middle, oc, act=None))
        self.side = nn.Identity() if stride == 1 and ic == oc else conv(ic, oc, 1, stride, act=None)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.layers(x) + self.side(x))


def stages(width, groups, plan):
    """The stem and the stages of a residual network; `plan`: blocks, stride and dilation by stage."""
    layers, ic = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for i, (count, stride, dilation) in enumerate(plan):
        oc = 256 << i
        for j in range(count):
            layers.append(Block(ic, width << i, oc, 1 if j else stride, groups, dilation))
            ic = oc
    return nn.Sequential(*layers)


@network("resnext50")
def resnext():
    body = stages(128, 32, ((3, 1, 1), (4, 2, 1), (6, 2, 1), (3, 2, 1)))
    return Network(nn.Sequential(body, Head(2048)), {"image": torch.zeros(1, 3, 224, 224)})
