"""Diffusion: the decoder of a variational autoencoder, and a block of the U-Net that removes noise."""

import torch
from torch import nn

from .blocks import Attention
from .registry import Network, network


class Resnet(nn.Module):
    """Group normalisation, SiLU and convolution, twice, with a residual; the embedded time is added in between."""

    def __init__(self, ic, oc, time=0):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, ic), nn.SiLU(), nn.Conv2d(ic, oc, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(32, oc), nn.SiLU(), nn.Conv2d(oc, oc, 3, padding=1))
        self.side = nn.Identity() if ic == oc else nn.Conv2d(ic, oc, 1)
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, oc)) if time else None

    def forward(self, x, time=None):
        y = self.first(x)
        if self.time is not None:
            y = y + self.time(time)[:, :, None, None]
        return self.side(x) + self.second(y)


class Upsample(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return self.conv(nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"))


class Middle(nn.Module):
    """Attention between the places of an image."""

    def __init__(self, c):
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(32, c), Attention(c, 1)

    def forward(self, x):
        y = self.attention(self.norm(x).flatten(2).transpose(1, 2))
        return x + y.transpose(1, 2).reshape(x.shape)


@network("vae_decoder")
def decoder():
    c = 256
    layers = [nn.Conv2d(4, c, 3, padding=1), Resnet(c, c), Middle(c), Resnet(c, c)]
    for i, width in enumerate((256, 256, 128, 64)):
        layers += [Resnet(c, width), Resnet(width, width), Resnet(width, width)]
        layers += [Upsample(width)] if i < 3 else []
        c = width
    layers += [nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1)]
    return Network(nn.Sequential(*layers), {"latent": torch.zeros(1, 4, 16, 16)})


class Transformer(nn.Module):
    """Attention to the image, attention to the text, a perceptron with gated GELU."""

    def __init__(self, c, heads, context):
        super().__init__()
        self.norm, self.enter, self.leave = nn.GroupNorm(32, c, 1e-6), nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(c) for _ in range(3))
        self.own, self.other = Attention(c, heads, bias=False), Attention(c, heads, context, bias=False)
        self.gated, self.out = nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

    def forward(self, image, text):
        x = self.enter(self.norm(image)).flatten(2).transpose(1, 2)
        x = x + self.own(self.norms[0](x))
        x = x + self.other(self.norms[1](x), text)
        y, gate = self.gated(self.norms[2](x)).chunk(2, dim=-1)
        x = x + self.out(y * nn.functional.gelu(gate))
        return image + self.leave(x.transpose(1, 2).reshape(image.shape))


class Denoise(nn.Module):
    """Twice a residual block and a transformer, and half the size."""

    def __init__(self, ic, c, time, context):
        super().__init__()
        self.blocks = nn.ModuleList([Resnet(ic, c, time), Resnet(c, c, time)])
        self.transformers = nn.ModuleList(Transformer(c, 8, context) for _ in range(2))
        self.down = nn.Conv2d(c, c, 3, 2, 1)

    def forward(self, x, time, text):
        for block, transformer in zip(self.blocks, self.transformers):
            x = transformer(block(x, time), text)
        return self.down(x), x


@network("diffusion_block")
def block():
    inputs = {"x": torch.zeros(1, 160, 32, 32), "time": torch.zeros(1, 640), "text": torch.zeros(1, 77, 768)}
    return Network(Denoise(160, 320, 640, 768), inputs)
