"""RegNetY of about 800 MFLOP: groups of 16 channels, squeeze and excitation."""

import torch
from torch import nn

from .blocks import Head, Squeeze, conv
from .registry import Network, network


class Block(nn.Module):
    def __init__(self, ic, oc, stride, width=16):
        super().__init__()
        squeeze = Squeeze(oc, ic // 4)
        self.layers = nn.Sequential(conv(ic, oc), conv(oc, oc, 3, stride, oc // width), squeeze, conv(oc, oc, act=None))
        self.side = nn.Identity() if stride == 1 and ic == oc else conv(ic, oc, 1, stride, act=None)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.side(x) + self.layers(x))


@network("regnet")
def regnet():
    layers, ic = [conv(3, 32, 3, 2)], 32
    for oc, count in ((64, 1), (144, 3), (320, 8), (784, 2)):
        layers += [Block(oc if i else ic, oc, 1 if i else 2) for i in range(count)]
        ic = oc
    return Network(nn.Sequential(*layers, Head(ic)), {"image": torch.zeros(1, 3, 224, 224)})
