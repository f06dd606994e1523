"""Segment nuclei in a stack of a microscope, with layoutkit.ndimage and with scipy.ndimage. In this folder:

    python3 -m venv .venv && .venv/bin/pip install layoutkit scipy matplotlib && .venv/bin/python nuclei.py

It makes its own stack, with nuclei, background and noise (``--size 128`` takes seconds): denoise by a median, subtract
the background by a top-hat, smooth, find edges and local maxima. It writes nuclei.png, prints both times, and the exit
code is 1 if the libraries do not find the same nuclei.
"""

import argparse
import sys
import time
from types import ModuleType

import numpy as np
import scipy.ndimage

import layoutkit.ndimage


def stack(size: int, seed: int = 0) -> np.ndarray:
    """Nuclei as ellipsoids on an uneven background, with noise of photons."""
    rng = np.random.default_rng(seed)
    shape = (size // 2, size, size)
    z, y, x = np.ogrid[: shape[0], :size, :size]
    light = 60 + 40 * np.sin(x / size * 3) * np.cos(y / size * 2) + 0 * z
    for _ in range(size):
        cz, cy, cx = (rng.integers(0, n) for n in shape)
        r = rng.uniform(5, 9, 3)
        low = [max(0, int(c - 10)) for c in (cz, cy, cx)]
        part = tuple(slice(a, a + 21) for a in low)
        inside = ((z - cz) / r[0])[part[0]] ** 2 + ((y - cy) / r[1])[:, part[1]] ** 2
        inside = inside + ((x - cx) / r[2])[:, :, part[2]] ** 2
        light[part] += 150 * (inside < 1)
    return rng.poisson(light).astype(np.uint16)


def segment(ndi: ModuleType, image: np.ndarray) -> dict[str, np.ndarray]:
    """What each step makes; `ndi` has scipy.ndimage's functions."""
    denoised = ndi.median_filter(image, 3)
    flat = ndi.white_tophat(denoised, size=(15, 31, 31))
    smooth = ndi.gaussian_filter(flat.astype(np.float32), (1, 2, 2))
    edges = ndi.gaussian_gradient_magnitude(smooth, 1)
    peaks = (smooth == ndi.maximum_filter(smooth, size=(7, 13, 13))) & (smooth > 50)
    mask = ndi.binary_opening(smooth > 50, iterations=2)
    return dict(flat=flat, smooth=smooth, edges=edges, peaks=peaks, mask=mask)


def main() -> int:
    """Segment with both, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="pixels of a side; half as many planes")
    image = stack(parser.parse_args().size)
    found = {}
    for name, ndi in (("layoutkit", layoutkit.ndimage), ("scipy", scipy.ndimage)):
        start = time.perf_counter()
        found[name] = segment(ndi, image)
        peaks = np.count_nonzero(found[name]["peaks"])
        print(f"{name:<10} {time.perf_counter() - start:6.2f} s, {peaks} maxima in {image.shape} of {image.dtype}")
    ours, theirs = found["layoutkit"], found["scipy"]
    same = np.array_equal(ours["flat"], theirs["flat"]) and np.mean(ours["mask"] != theirs["mask"]) < 1e-4
    draw(image, ours)
    return 0 if same else 1


def draw(image: np.ndarray, steps: dict[str, np.ndarray]) -> None:
    """One plane of the stack and of each step; the maxima of all planes."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not there")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plane = len(image) // 2
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.4), layout="constrained")
    pictures = [("the stack, one plane", image), ("background subtracted", steps["flat"]), ("edges", steps["edges"])]
    for ax, (title, picture) in zip(axes, pictures):
        ax.imshow(picture[plane], cmap="magma")
        ax.set_title(title)
    axes[3].imshow(steps["mask"].max(0), cmap="gray")
    _, y, x = np.nonzero(steps["peaks"])
    axes[3].plot(x, y, ".", color="tab:red", markersize=3)
    axes[3].set_title(f"nuclei and {len(x)} maxima, all planes")
    for ax in axes:
        ax.set_axis_off()
    figure.savefig("nuclei.png", dpi=80)


if __name__ == "__main__":
    sys.exit(main())
