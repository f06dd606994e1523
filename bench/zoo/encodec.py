"""A codec like EnCodec: strided and transposed convolutions around dilated residual blocks, ELU, reflected borders; and
one like DAC, with x + sin(a x)^2 / a."""

import torch
from torch import nn

from .registry import Network, network


class Snake(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Parameter(0.5 + torch.rand(1, c, 1))

    def forward(self, x):
        return x + torch.sin(self.a * x).pow(2) / (self.a + 1e-9)


def conv(ic, oc, k, dilation=1):
    """A convolution with reflected borders."""
    return nn.Sequential(nn.ReflectionPad1d(dilation * (k - 1) // 2), nn.Conv1d(ic, oc, k, dilation=dilation))


class Block(nn.Module):
    def __init__(self, c, act, dilation):
        super().__init__()
        self.layers = nn.Sequential(act(c), conv(c, c // 2, 3, dilation), act(c // 2), conv(c // 2, c, 1))

    def forward(self, x):
        return x + 0.5 * self.layers(x)


def codec(act, strides, dilations, c=32):
    """Encoder and decoder, mirrored."""
    down, up = [conv(1, c, 7)], []
    for stride in strides:
        down += [*(Block(c, act, d) for d in dilations), act(c)]
        down += [nn.Conv1d(c, 2 * c, 2 * stride, stride, (stride + 1) // 2)]
        transposed = nn.ConvTranspose1d(2 * c, c, 2 * stride, stride, (stride + 1) // 2, stride % 2)
        up = [act(2 * c), transposed, *(Block(c, act, d) for d in dilations), *up]
        c *= 2
    down += [act(c), conv(c, 128, 7), conv(128, c, 7)]
    first = c >> len(strides)
    return nn.Sequential(*down, *up, act(first), conv(first, 1, 7))


@network("encodec")
def encodec():
    return Network(codec(lambda c: nn.ELU(), (2, 4, 5, 8), (1,)), {"audio": torch.zeros(1, 1, 12800)})


@network("dac")
def dac():
    return Network(codec(Snake, (2, 4, 8, 8), (1, 3, 9)), {"audio": torch.zeros(1, 1, 8192)}, 0.9)
