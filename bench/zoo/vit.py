"""A small vision transformer: patches of 16x16, 12 blocks of width 192."""

import torch
from torch import nn

from .blocks import Attention
from .registry import Network, network


class Block(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.attention, self.norm = Attention(c, heads), nn.LayerNorm(c, 1e-6)
        self.perceptron = nn.Sequential(nn.LayerNorm(c, 1e-6), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.perceptron(x)


class Vit(nn.Module):
    """A token of its own stands for the image."""

    def __init__(self, c, heads, depth, size):
        super().__init__()
        self.patches = nn.Conv2d(3, c, 16, 16)
        self.first = nn.Parameter(torch.randn(1, 1, c))
        self.places = nn.Parameter(0.5 * torch.randn(1, (size // 16) ** 2 + 1, c))
        self.blocks = nn.Sequential(*(Block(c, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(c, 1e-6), nn.Linear(c, 1000)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


@network("vit")
def vit():
    return Network(Vit(192, 3, 12, 224), {"image": torch.zeros(1, 3, 224, 224)})
