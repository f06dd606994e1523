"""Sequences: a Conformer encoder of speech, blocks of a Llama-like language model."""

import torch
from torch import nn
from torch.nn import functional as F

from .blocks import Attention
from .registry import Network, network


class ConformerBlock(nn.Module):
    """Attention and a depthwise convolution of 31 steps between two halves of a perceptron."""

    def __init__(self, c, heads):
        super().__init__()
        self.halves = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, c)) for _ in range(2)
        )
        self.norm, self.attention, self.last = nn.LayerNorm(c), Attention(c, heads), nn.LayerNorm(c)
        self.before, self.gated = nn.LayerNorm(c), nn.Conv1d(c, 2 * c, 1)
        self.depthwise, self.between = nn.Conv1d(c, c, 31, padding=15, groups=c), nn.BatchNorm1d(c)
        self.after = nn.Conv1d(c, c, 1)

    def forward(self, x):
        x = x + 0.5 * self.halves[0](x)
        x = x + self.attention(self.norm(x))
        y = F.glu(self.gated(self.before(x).transpose(1, 2)), 1)
        x = x + self.after(F.silu(self.between(self.depthwise(y)))).transpose(1, 2)
        return self.last(x + 0.5 * self.halves[1](x))


class Conformer(nn.Module):
    def __init__(self, c=144, heads=4, depth=4, features=80, words=1024):
        super().__init__()
        self.shorter = nn.Sequential(nn.Conv2d(1, c, 3, 2), nn.ReLU(), nn.Conv2d(c, c, 3, 2), nn.ReLU())
        self.first = nn.Linear(c * (((features - 1) // 2 - 1) // 2), c)
        self.blocks, self.head = nn.Sequential(*(ConformerBlock(c, heads) for _ in range(depth))), nn.Linear(c, words)

    def forward(self, features):
        x = self.shorter(features[:, None]).transpose(1, 2).flatten(2)
        return self.head(self.blocks(self.first(x))).log_softmax(-1)


class RootMeanSquare(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaBlock(nn.Module):
    """Causal attention whose heads share keys and values, with rotated positions; a gated perceptron."""

    def __init__(self, c, heads, shared, wide):
        super().__init__()
        self.heads, self.shared, self.of_head = heads, shared, c // heads
        self.norms = nn.ModuleList(RootMeanSquare(c) for _ in range(2))
        self.q, self.out = nn.Linear(c, c, bias=False), nn.Linear(c, c, bias=False)
        self.k, self.v = (nn.Linear(c, shared * self.of_head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(c, wide, bias=False) for _ in range(2))
        self.down = nn.Linear(wide, c, bias=False)

    def forward(self, x):
        n, tokens, c = x.shape
        y = self.norms[0](x)
        q = self.q(y).view(n, tokens, self.heads, -1).transpose(1, 2)
        k, v = (of(y).view(n, tokens, self.shared, -1).transpose(1, 2) for of in (self.k, self.v))
        frequencies = 10000 ** (-torch.arange(0, self.of_head, 2, dtype=torch.float32) / self.of_head)
        angles = (torch.arange(tokens, dtype=torch.float32)[:, None] * frequencies).repeat(1, 2)
        q, k = (self.rotated(z, angles.cos(), angles.sin()) for z in (q, k))
        k, v = (z.repeat_interleave(self.heads // self.shared, 1) for z in (k, v))
        later = torch.full((tokens, tokens), -1e9).triu(1)
        weights = (q @ k.transpose(-1, -2) * self.of_head**-0.5 + later).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, tokens, c))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    @staticmethod
    def rotated(x, cosines, sines):
        first, second = x.chunk(2, -1)
        return x * cosines + torch.cat([-second, first], -1) * sines


@network("conformer")
def conformer():
    return Network(Conformer(), {"features": torch.zeros(1, 400, 80)})


@network("llama")
def llama():
    layers = [LlamaBlock(512, 8, 2, 1376) for _ in range(4)]
    return Network(nn.Sequential(*layers, RootMeanSquare(512)), {"embedded": torch.zeros(1, 128, 512)})
