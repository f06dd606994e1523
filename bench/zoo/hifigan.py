"""A vocoder like HiFi-GAN: transposed convolutions, residual blocks of several kernels and dilations, leaky ReLU."""

import torch
from torch import nn

from .registry import Network, network


class Block(nn.Module):
    def __init__(self, c, k, dilations=(1, 3, 5)):
        super().__init__()
        self.pairs = nn.ModuleList(
            nn.Sequential(
                nn.LeakyReLU(0.1), nn.Conv1d(c, c, k, padding=d * (k - 1) // 2, dilation=d),
                nn.LeakyReLU(0.1), nn.Conv1d(c, c, k, padding=(k - 1) // 2),
            )
            for d in dilations
        )  # fmt: skip

    def forward(self, x):
        for pair in self.pairs:
            x = x + 0.3 * pair(x)
        return x


class Stage(nn.Module):
    def __init__(self, ic, oc, stride):
        super().__init__()
        self.up = nn.Sequential(nn.LeakyReLU(0.1), nn.ConvTranspose1d(ic, oc, 2 * stride, stride, stride // 2))
        self.blocks = nn.ModuleList(Block(oc, k) for k in (3, 7, 11))

    def forward(self, x):
        x = self.up(x)
        return sum(block(x) for block in self.blocks) / len(self.blocks)


@network("hifigan")
def hifigan():
    c = 256
    layers = [nn.Conv1d(80, c, 7, padding=3)]
    for stride in (8, 8, 2, 2):
        layers.append(Stage(c, c // 2, stride))
        c //= 2
    layers += [nn.LeakyReLU(0.01), nn.Conv1d(c, 1, 7, padding=3), nn.Tanh()]
    return Network(nn.Sequential(*layers), {"mel": torch.zeros(1, 80, 32)})
