"""Train a small network on scikit-learn's digits, by torch and by layoutkit's convolutions in torch. In this folder:

    python3 -m venv .venv && .venv/bin/pip install layoutkit torch==2.13.0 scikit-learn && .venv/bin/python digits.py

Both begin with the same weights and see the same batches: their losses differ by rounding only. At the end the trained
network is optimized for inference.
"""

import argparse
import copy
import time

import torch
from sklearn.datasets import load_digits
from torch import nn

import layoutkit.torch


def network() -> nn.Module:
    """1 x 8 x 8 pixels to 10 digits."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.Conv2d(32, 64, 1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 2, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 8 * 8, 10),
    )  # fmt: skip


def train(model: nn.Module, images: torch.Tensor, digits: torch.Tensor, epochs: int, batch: int = 64) -> list[float]:
    """The mean loss of each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for some in torch.randperm(len(images), generator=order).split(batch):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[some]), digits[some])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(some)
        losses.append(total / len(images))
    return losses


def accuracy(model: nn.Module, images: torch.Tensor, digits: torch.Tensor) -> float:
    """The share that is recognised."""
    with torch.no_grad():
        return float((model(images).argmax(1) == digits).double().mean())


def main(epochs: int) -> list[list[float]]:
    """Train both; returns their losses."""
    pixels, digits = load_digits(return_X_y=True)
    images = torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    images, digits = images.to(memory_format=torch.channels_last), torch.tensor(digits)
    seen, unseen = slice(0, 1500), slice(1500, None)
    torch.manual_seed(0)
    theirs = network().to(memory_format=torch.channels_last)
    ours = layoutkit.torch.convert(copy.deepcopy(theirs))
    losses = []
    for name, model in (("torch", theirs), ("layoutkit", ours)):
        start = time.perf_counter()
        losses.append(train(model, images[seen], digits[seen], epochs))
        took, share = time.perf_counter() - start, accuracy(model, images[unseen], digits[unseen])
        print(f"{name:>9}: {took:.2f} s, losses {' '.join(f'{x:.4f}' for x in losses[-1])}, {share:.1%} recognised")
    fast = layoutkit.torch.optimize(ours.eval(), images[unseen])
    for name, model in (("torch", theirs.eval()), ("optimized", fast)):
        start = time.perf_counter()
        share = accuracy(model, images[unseen], digits[unseen])
        print(f"{name:>9}: {1e3 * (time.perf_counter() - start):.2f} ms for the unseen ones, {share:.1%} recognised")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    main(parser.parse_args().epochs)
