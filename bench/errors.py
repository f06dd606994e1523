"""``python bench/errors.py [--seed N] [--count 20]``: rounding errors by type and algorithm, beside torch's.

Normal numbers; 1 to 2048 channels, log-uniform, kernels of 1, 3, 5 or 7 taps a side, maps of 7 to 28 pixels, drawn with
a fresh seed unless one is given. The error of a result is its L2 norm, against sums in float64 of the same inputs, by
the norm of the result, in units of 2^-24. Results are float32, so of narrow types the last rounding is not in it. A
line gives the median and the largest of the problems that an algorithm takes, and for float32 the median and the
largest ratio to the error of torch on NCHW.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections import defaultdict

import numpy as np
import torch

import layoutkit as lk
from layoutkit.convolutions.algorithms import ALGORITHMS

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LAYOUTS = "NHWC", "NCHW"
MAX_WORK = 3e8  # multiplications
UNIT = 2.0**-24


def drawn(rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Input channels, output channels, pixels and taps a side."""
    while True:
        ic, oc = (int(2 ** rng.uniform(0, 11)) for _ in range(2))
        taps, size = int(rng.choice((1, 3, 5, 7))), int(rng.integers(7, 29))
        if ic * oc * (taps * size) ** 2 < MAX_WORK:
            return ic, oc, size, taps


def by_torch(x: torch.Tensor, w: torch.Tensor, order: torch.memory_format = torch.contiguous_format) -> np.ndarray:
    """Its result."""
    x, w = (t.to(memory_format=order) for t in (x, w))
    return torch.nn.functional.conv2d(x, w, padding=w.shape[-1] // 2).numpy()


def by_us(x: torch.Tensor, w: torch.Tensor, name: str, layout: str, algorithm: str, accuracy: str) -> np.ndarray | None:
    """Ours in float32; None where the algorithm does not take the problem."""
    x, w = (t.view(torch.uint16).numpy() if name == "bfloat16" else t.numpy() for t in (x, w))
    dtype = (name, "float32")
    try:
        op = lk.Conv2d(w, layout=layout, padding=w.shape[-1] // 2, algorithm=algorithm, accuracy=accuracy, dtype=dtype)
        y = op(lk.reorder(x, "NCHW", layout))
    except ValueError:
        return None
    return lk.reorder(y, layout, "NCHW")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.getrandbits(32))
    parser.add_argument("--count", type=int, default=20)
    args = parser.parse_args()
    warnings.simplefilter("ignore", lk.SlowPathWarning)  # every algorithm is asked for
    rng = np.random.default_rng(args.seed)
    by_name, ratios = defaultdict(list), defaultdict(list)
    for _ in range(args.count):
        ic, oc, size, taps = drawn(rng)
        shapes = (1, ic, size, size), (oc, ic, taps, taps)
        for name, dtype in TYPES.items():
            x, w = (torch.from_numpy(rng.standard_normal(s)).to(dtype) for s in shapes)
            want = by_torch(x.double(), w.double())
            results = {}
            if name == "float32":
                results = {"torch": by_torch(x, w), "torch channels_last": by_torch(x, w, torch.channels_last)}
            for algorithm in ("auto", *(a.name for a in ALGORITHMS)):
                for layout in LAYOUTS:
                    y = by_us(x, w, name, layout, algorithm, "fast" if algorithm == "blas" else "standard")
                    if y is not None:
                        results[f"{algorithm} {layout}"] = y
            errors = {who: np.linalg.norm(y - want) / np.linalg.norm(want) / UNIT for who, y in results.items()}
            for who, error in errors.items():
                by_name[name, who].append(error)
                ratios[name, who].append(error / max(errors.get("torch", np.inf), 1e-3))
    print(f"seed {args.seed}, {args.count} problems")
    for (name, who), errors in by_name.items():
        line = f"{name:9} {who:20} {np.median(errors):7.2f} {max(errors):7.2f}  of {len(errors):3} problems"
        if name == "float32":
            line += f", by torch's {np.median(ratios[name, who]):5.2f} {max(ratios[name, who]):5.2f}"
        print(line)


if __name__ == "__main__":
    main()
