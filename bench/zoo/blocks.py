"""What several families consist of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def conv(ic: int, oc: int, k: int = 1, stride: int = 1, groups: int = 1, act: Callable | None = nn.ReLU, dilation=1):
    """Convolution, batch normalisation, activation."""
    padding = dilation * (k - 1) // 2
    layers = [nn.Conv2d(ic, oc, k, stride, padding, dilation, groups, bias=False), nn.BatchNorm2d(oc)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Squeeze(nn.Module):
    """Squeeze and excitation: channels times a number that the means of all channels tell."""

    def __init__(self, channels: int, squeezed: int, act: Callable = nn.ReLU, gate: Callable = nn.Sigmoid) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), act(), nn.Conv2d(squeezed, channels, 1), gate()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class Inverted(nn.Module):
    """Inverted residual: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(
        self, ic: int, oc: int, k: int, stride: int, middle: int, act: Callable, squeeze: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        layers = [conv(ic, middle, act=act)] if middle != ic else []
        layers.append(conv(middle, middle, k, stride, middle, act))
        layers += [squeeze] if squeeze else []
        self.layers = nn.Sequential(*layers, conv(middle, oc, act=None))
        self.residual = stride == 1 and ic == oc

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class Attention(nn.Module):
    """Attention of several heads over (N, tokens, channels), to itself or to a context."""

    def __init__(self, channels: int, heads: int, context: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.own = heads, context is None
        self.q = nn.Linear(channels, channels, bias)
        self.k, self.v = (nn.Linear(context or channels, channels, bias) for _ in range(2))
        self.out = nn.Linear(channels, channels)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        of = x if context is None else context
        q, k, v = (
            t.reshape(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2)
            for t in (self.q(x), self.k(of), self.v(of))
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Head(nn.Module):
    """Means of all channels, and a linear layer: the end of a classifier."""

    def __init__(self, channels: int, classes: int = 1000) -> None:
        super().__init__()
        self.layer = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))
