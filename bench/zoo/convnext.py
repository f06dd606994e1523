"""ConvNeXt-T: depthwise 7x7, layer normalisation over channels last, a perceptron of 4 times the width with GELU."""

import torch
from torch import nn

from .blocks import Head
from .registry import Network, network


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of NCHW."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.depthwise = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.layers = nn.Sequential(nn.LayerNorm(c, 1e-6), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))
        self.scale = nn.Parameter(torch.rand(c))

    def forward(self, x):
        y = self.layers(self.depthwise(x).permute(0, 2, 3, 1)) * self.scale
        return x + y.permute(0, 3, 1, 2)


@network("convnext")
def convnext():
    layers, before = [], 3
    for width, depth in ((96, 3), (192, 3), (384, 9), (768, 3)):
        if before == 3:
            layers += [nn.Conv2d(3, width, 4, 4), ChannelNorm(width, 1e-6)]
        else:
            layers += [ChannelNorm(before, 1e-6), nn.Conv2d(before, width, 2, 2)]
        layers += [Block(width) for _ in range(depth)]
        before = width
    return Network(nn.Sequential(*layers, Head(before)), {"image": torch.zeros(1, 3, 224, 224)})
