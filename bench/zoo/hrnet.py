"""HRNet: three scales side by side, all of them summed after each stage."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from .blocks import conv
from .registry import Network, network


class Residual(nn.Module):
    def __init__(self, ic, oc):
        super().__init__()
        self.layers = nn.Sequential(conv(ic, oc, 3), conv(oc, oc, 3, act=None))
        self.shortcut = nn.Identity() if ic == oc else conv(ic, oc, act=None)

    def forward(self, x):
        return F.relu(self.layers(x) + self.shortcut(x))


class Stage(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.scales = nn.ModuleList(nn.Sequential(Residual(c, c), Residual(c, c)) for c in widths)
        self.exchange = nn.ModuleList(
            nn.ModuleList(self.way(i, j, widths) for j in range(len(widths))) for i in range(len(widths))
        )

    @staticmethod
    def way(to, of, widths):
        """From one scale to another: strides down, or a narrower image that is enlarged."""
        if to == of:
            return nn.Identity()
        if of > to:
            return nn.Sequential(conv(widths[of], widths[to], act=None), nn.Upsample(scale_factor=2 ** (of - to)))
        steps = [conv(widths[of], widths[of], 3, 2) for _ in range(to - of - 1)]
        return nn.Sequential(*steps, conv(widths[of], widths[to], 3, 2, act=None))

    def forward(self, scales):
        scales = [scale(x) for scale, x in zip(self.scales, scales)]
        return [F.relu(sum(way(x) for way, x in zip(ways, scales))) for ways in self.exchange]


class HrNet(nn.Module):
    def __init__(self, widths=(18, 36, 72), stages=3, points=17):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 64, 3, 2), conv(64, 64, 3, 2), Residual(64, widths[0]))
        self.down = nn.ModuleList(conv(a, b, 3, 2) for a, b in pairwise(widths))
        self.stages = nn.Sequential(*(Stage(widths) for _ in range(stages)))
        self.head = nn.Conv2d(sum(widths), points, 1)

    def forward(self, image):
        scales = [self.stem(image)]
        for down in self.down:
            scales.append(down(scales[-1]))
        scales = self.stages(scales)
        size = scales[0].shape[2:]
        return self.head(torch.cat([F.interpolate(x, size, mode="bilinear", align_corners=True) for x in scales], 1))


@network("hrnet")
def hrnet():
    return Network(HrNet(), {"image": torch.zeros(1, 3, 256, 192)})
