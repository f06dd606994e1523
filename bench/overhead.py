"""What a call of an operator takes beside its work: ``python bench/overhead.py``, torch's and ours on tiny tensors.

Then that of a layer, torch's and the one that `convert` makes of it, with gradients of its parameters too. Turns of
both alternate; the least of a lower quartile of a turn is told, in us, forwards and then with gradients.
"""

from __future__ import annotations

import copy
import time

import torch
from torch.nn import functional

import layoutkit.torch

CALLS, TURNS = 300, 5


def us(call) -> float:
    """The lower quartile of a turn."""
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * sorted(times)[CALLS // 4]


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((1, 8, 4, 4), (8, 8, 3, 3), (8,))]
    x, w, b = inputs
    plain = [t.detach() for t in inputs]
    pairs = {
        "convolution": (lambda x, w, b: functional.conv2d(x, w, b, 1, 1),
                        lambda x, w, b: layoutkit.torch.conv(x, w, b, 1, 1), (x, w, b)),
        "batch norm": (lambda x, _, b: functional.batch_norm(x, None, None, b, b, True),
                       lambda x, _, b: layoutkit.torch.batch_norm(x, None, None, b, b, True), (x, b)),
        "maximum pooling": (lambda x, *_: functional.max_pool2d(x, 2),
                            lambda x, *_: layoutkit.torch.max_pool2d(x, 2), (x,)),
        "mean pooling": (lambda x, *_: functional.avg_pool2d(x, 2),
                         lambda x, *_: layoutkit.torch.avg_pool2d(x, 2), (x,)),
    }  # fmt: skip
    layers = {
        "Conv2d": torch.nn.Conv2d(8, 8, 3, padding=1), "BatchNorm2d": torch.nn.BatchNorm2d(8),
        "MaxPool2d": torch.nn.MaxPool2d(2), "AvgPool2d": torch.nn.AvgPool2d(2),
    }  # fmt: skip
    for name, layer in layers.items():
        ours = layoutkit.torch.convert(copy.deepcopy(layer))
        wanted = [(x, *f.parameters()) for f in (layer, ours)]
        pairs[name] = (lambda x, *_, f=layer: f(x), lambda x, *_, f=ours: f(x), *wanted)
    for name, (theirs, ours, *wanted) in pairs.items():
        dy, both = torch.ones_like(theirs(*plain)), (theirs, ours)
        calls = [lambda f=f: f(*plain) for f in both]
        for f, of in zip(both, wanted * (3 - len(wanted))):
            calls.append(lambda f=f, of=of, dy=dy: torch.autograd.grad(f(*inputs), of, dy))
        least = [min(times) for times in zip(*([us(call) for call in calls] for _ in range(TURNS)))]
        print(f"{name:16} torch {least[0]:6.1f} ours {least[1]:6.1f}; both ways {least[2]:6.1f} and {least[3]:6.1f}")


if __name__ == "__main__":
    main()
