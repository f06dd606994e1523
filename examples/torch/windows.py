"""A 3-D U-Net on a volume that does not fit it, window by window, by torch and by layoutkit. In this folder:

    python3 -m venv .venv && .venv/bin/pip install layoutkit torch==2.13.0 && .venv/bin/python windows.py

As MONAI's SlidingWindowInferer and nnU-Net do: windows overlap by half, and their results are averaged with weights
that fall off towards the edges of a window.
"""

import argparse
import time
from itertools import product

import torch
from torch import nn

import layoutkit.torch


def block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    """Two convolutions."""
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride, 1), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01),
        nn.Conv3d(outputs, outputs, 3, 1, 1), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01),
    )  # fmt: skip


class UNet(nn.Module):
    """A U-Net of three levels."""

    def __init__(self, channels: int = 16, classes: int = 2) -> None:
        super().__init__()
        sizes = [channels, 2 * channels, 4 * channels]
        self.down = nn.ModuleList(block(a, b, s) for a, b, s in zip([1, *sizes], sizes, [1, 2, 2]))
        self.up = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, 2) for a, b in zip(sizes[:0:-1], sizes[-2::-1]))
        self.joined = nn.ModuleList(block(2 * n, n) for n in sizes[-2::-1])
        self.last = nn.Conv3d(channels, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, 1, D, H, W) to (N, classes, D, H, W)."""
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        for up, joined, there in zip(self.up, self.joined, kept[-2::-1]):
            x = joined(torch.cat([up(x), there], 1))
        return self.last(x)


def starts(size: int, window: int) -> list[int]:
    """Where windows begin that overlap by half."""
    return sorted({*range(0, size - window, window // 2), size - window})


def weights(window: int) -> torch.Tensor:
    """A Gaussian over a window."""
    line = torch.exp(-0.5 * ((torch.arange(window) - (window - 1) / 2) / (window / 8)) ** 2)
    return line[:, None, None] * line[:, None] * line


@torch.no_grad()
def segmented(model: nn.Module, volume: torch.Tensor, window: int) -> torch.Tensor:
    """The class of each voxel of a volume (D, H, W)."""
    weight, total, result = weights(window), torch.zeros(volume.shape), None
    for corner in product(*(starts(size, window) for size in volume.shape)):
        box = tuple(slice(at, at + window) for at in corner)
        found = model(volume[box][None, None])[0]
        if result is None:
            result = torch.zeros(found.shape[0], *volume.shape)
        result[(slice(None), *box)] += weight * found
        total[box] += weight
    return (result / total).argmax(0)


def main(size: int = 96, window: int = 64) -> float:
    """Segment a volume both ways; returns the share of voxels that are alike."""
    torch.manual_seed(0)
    model: nn.Module = UNet().eval()
    z, y, x = torch.meshgrid(*[torch.linspace(-1, 1, size)] * 3, indexing="ij")
    volume = torch.sin(9 * x) * torch.sin(7 * y) + torch.sin(8 * z) + 0.3 * torch.randn(size, size, size)
    results = []
    for name in ("torch", "layoutkit"):  # one after the other: two pools of threads disturb each other
        if name == "layoutkit":
            model = layoutkit.torch.optimize(model, torch.zeros(1, 1, window, window, window))
        start = time.perf_counter()
        results.append(segmented(model, volume, window))
        print(f"{name:>9}: {time.perf_counter() - start:.2f} s")
    alike = float((results[0] == results[1]).double().mean())
    print(f"{alike:.4%} of the voxels alike")
    return alike


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--window", type=int, default=64)
    args = parser.parse_args()
    main(args.size, args.window)
