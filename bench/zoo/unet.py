"""U-Nets: 2-D and 3-D with batch normalisation, and nnU-Net's with instance normalisation and leaky ReLU."""

from itertools import pairwise

import torch
from torch import nn

from .registry import Network, network


def twice(rank, ic, oc, stride, norm, act):
    """Two convolutions, each normalised and activated."""
    conv = getattr(nn, f"Conv{rank}d")
    layers = []
    for a, s in ((ic, stride), (oc, 1)):
        layers += [conv(a, oc, 3, s, 1), getattr(nn, f"{norm}{rank}d")(oc, affine=True), act()]
    return nn.Sequential(*layers)


class Unet(nn.Module):
    """Down by pooling or by strides, up by transposed convolutions of kernel 2, joined with what came down."""

    def __init__(self, rank, ic, widths, classes, norm, act, pools):
        super().__init__()
        transposed, conv = getattr(nn, f"ConvTranspose{rank}d"), getattr(nn, f"Conv{rank}d")
        self.pool = getattr(nn, f"MaxPool{rank}d")(2) if pools else nn.Identity()
        stride = 1 if pools else 2
        pairs = list(pairwise(widths))
        self.down = nn.ModuleList([twice(rank, ic, widths[0], 1, norm, act)])
        self.down += [twice(rank, a, b, stride, norm, act) for a, b in pairs]
        self.up = nn.ModuleList(transposed(b, a, 2, 2) for a, b in reversed(pairs))
        self.join = nn.ModuleList(twice(rank, 2 * a, a, 1, norm, act) for a, _ in reversed(pairs))
        self.last = conv(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(self.pool(x) if i else x)
            kept.append(x)
        for up, join, other in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([other, up(x)], 1))
        return self.last(x)


@network("unet2d")
def unet_2d():
    body = Unet(2, 3, (32, 64, 128, 256, 512), 2, "BatchNorm", nn.ReLU, True)
    return Network(body, {"image": torch.zeros(1, 3, 512, 512)})


@network("unet3d")
def unet_3d():
    body = Unet(3, 1, (16, 32, 64, 128), 3, "BatchNorm", nn.ReLU, True)
    return Network(body, {"volume": torch.zeros(1, 1, 64, 64, 64)})


@network("nnunet3d")
def nnunet():
    body = Unet(3, 1, (32, 64, 128, 256, 320), 3, "InstanceNorm", lambda: nn.LeakyReLU(0.01), False)
    return Network(body, {"volume": torch.zeros(1, 1, 64, 64, 64)})
