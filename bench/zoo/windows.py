"""Attention in windows (Swin), and by queries over a coarser image (SegFormer)."""

import torch
from torch import nn
from torch.nn import functional as F

from .blocks import conv
from .registry import Network, network


class WindowBlock(nn.Module):
    """Attention among the pixels of each window, which every second block moves by half of one."""

    def __init__(self, c, heads, size, window, shift):
        super().__init__()
        self.heads, self.size, self.window, self.shift = heads, size, window, shift
        self.qkv, self.out, self.norm = nn.Linear(c, 3 * c), nn.Linear(c, c), nn.LayerNorm(c)
        self.bias = nn.Parameter(0.1 * torch.randn(heads, window**2, window**2))
        self.perceptron = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))

    def forward(self, x):
        n, _, c = x.shape
        w, parts = self.window, self.size // self.window
        y = self.norm(x).view(n, self.size, self.size, c)
        y = torch.roll(y, (-self.shift, -self.shift), (1, 2)) if self.shift else y
        y = y.view(n, parts, w, parts, w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)
        q, k, v = self.qkv(y).view(-1, w * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + self.bias
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, w * w, c))
        y = y.view(n, parts, parts, w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(n, self.size, self.size, c)
        y = torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y
        x = x + y.reshape(x.shape)
        return x + self.perceptron(x)


class Merging(nn.Module):
    """Four neighbours become one token."""

    def __init__(self, c, size):
        super().__init__()
        self.size, self.norm, self.narrow = size, nn.LayerNorm(4 * c), nn.Linear(4 * c, 2 * c, bias=False)

    def forward(self, x):
        n, _, c = x.shape
        x = x.view(n, self.size, self.size, c)
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.narrow(self.norm(x.view(n, -1, 4 * c)))


class Swin(nn.Module):
    def __init__(self, c, depths, size, window=7):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, c, 4, 4), nn.LayerNorm(c)
        layers, size = [], size // 4
        for stage, depth in enumerate(depths):
            if stage:
                layers.append(Merging(c, size))
                c, size = 2 * c, size // 2
            shifts = [window // 2 * (i % 2 and size > window) for i in range(depth)]
            layers += [WindowBlock(c, c // 24, size, window, shift) for shift in shifts]
        self.layers, self.norm, self.head = nn.Sequential(*layers), nn.LayerNorm(c), nn.Linear(c, 1000)

    def forward(self, image):
        x = self.first(self.patches(image).flatten(2).transpose(1, 2))
        return self.head(self.norm(self.layers(x)).mean(1))


class CoarseBlock(nn.Module):
    """Attention to an image that is `reduction` times as coarse; a depthwise convolution inside the perceptron."""

    def __init__(self, c, heads, reduction):
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(c), nn.LayerNorm(c)
        self.q, self.kv, self.out = nn.Linear(c, c), nn.Linear(c, 2 * c), nn.Linear(c, c)
        self.coarse = nn.Conv2d(c, c, reduction, reduction) if reduction > 1 else None
        self.coarse_norm = nn.LayerNorm(c)
        self.wide, self.narrow = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.depthwise = nn.Conv2d(4 * c, 4 * c, 3, 1, 1, groups=4 * c)

    def forward(self, x, h, w):
        n, tokens, c = x.shape
        y = self.before(x)
        q, of = self.q(y).view(n, tokens, self.heads, c // self.heads).transpose(1, 2), y
        if self.coarse is not None:
            of = self.coarse(y.transpose(1, 2).reshape(n, c, h, w)).flatten(2).transpose(1, 2)
            of = self.coarse_norm(of)
        k, v = self.kv(of).view(n, -1, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, tokens, c))
        y = self.wide(self.between(x)).transpose(1, 2).reshape(n, 4 * c, h, w)
        return x + self.narrow(F.gelu(self.depthwise(y).flatten(2).transpose(1, 2)))


class SegFormer(nn.Module):
    """Four scales, all brought to the finest and segmented by 1x1 convolutions."""

    def __init__(self, widths=(32, 64, 160, 256), heads=(1, 2, 5, 8), reductions=(8, 4, 2, 1), decoded=256, classes=19):
        super().__init__()
        self.patches, self.blocks, self.norms, self.decoders = (nn.ModuleList() for _ in range(4))
        before = 3
        for i, c in enumerate(widths):
            self.patches.append(nn.Conv2d(before, c, *((3, 2, 1) if i else (7, 4, 3))))
            self.blocks.append(nn.ModuleList(CoarseBlock(c, heads[i], reductions[i]) for _ in range(2)))
            self.norms.append(nn.LayerNorm(c))
            self.decoders.append(nn.Linear(c, decoded))
            before = c
        self.fuse, self.head = conv(decoded * len(widths), decoded), nn.Conv2d(decoded, classes, 1)

    def forward(self, image):
        x, scales = image, []
        for patches, blocks, norm, decoder in zip(self.patches, self.blocks, self.norms, self.decoders):
            x = patches(x)
            n, c, h, w = x.shape
            y = x.flatten(2).transpose(1, 2)
            for block in blocks:
                y = block(y, h, w)
            y = norm(y)
            x = y.transpose(1, 2).reshape(n, c, h, w)
            y = decoder(y).transpose(1, 2).reshape(n, -1, h, w)
            scales.append(F.interpolate(y, scales[0].shape[2:], mode="bilinear") if scales else y)
        return self.head(self.fuse(torch.cat(scales[::-1], 1)))


@network("swin")
def swin():
    return Network(Swin(48, (2, 2, 4, 2), 224), {"image": torch.zeros(1, 3, 224, 224)})


@network("segformer")
def segformer():
    return Network(SegFormer(), {"image": torch.zeros(1, 3, 256, 256)})
