"""The main job on real input: photographs through reorder and filter banks, checked against others.

``python bench/photo.py`` filters a photograph from scikit-image with Sobel, Gaussian and Gabor filters in
every layout and compares with scipy.ndimage; then it sends a batch of photographs through the first layers
of ResNet-50 and compares with torch. Needs scikit-image, scipy and torch. Nothing is downloaded.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import layoutkit as lk
from layoutkit.bench.layers import Layer, resnet50

LAYOUTS = ("NCHW", "NHWC", "nChw8c", "nChw16c", "CHWN")
PHOTOS = ("astronaut", "coffee", "chelsea", "rocket")  # in scikit-image's wheel


def photo(name: str) -> np.ndarray:
    """A photograph as float32 in 0..1, shape (1, height, width, 3): N H W C, as pictures are stored."""
    from skimage import data

    return getattr(data, name)()[None].astype(np.float32) / np.float32(255)


def batch(size: int = 224) -> np.ndarray:
    """The photographs cut to a common size about their centres, normalised as ImageNet is; N H W C."""
    crops = []
    for name in PHOTOS:
        image = photo(name)
        top, left = (image.shape[1] - size) // 2, (image.shape[2] - size) // 2
        crops.append(image[:, top : top + size, left : left + size])
    mean, spread = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    return (np.concatenate(crops) - mean) / spread


# ---- filters


def gabor(size: int, wavelength: float, angle: float, spread: float) -> np.ndarray:
    """A wave of `wavelength` pixels along `angle` under a Gaussian window."""
    y, x = np.mgrid[:size, :size] - size // 2
    along = x * np.cos(angle) + y * np.sin(angle)
    return np.exp(-(x**2 + y**2) / (2 * spread**2)) * np.cos(2 * np.pi * along / wavelength)


def bank(size: int = 9) -> np.ndarray:
    """Sobel in both directions, Gaussians, Gabors: (filters, size, size) in float64."""
    smooth, slope = np.array([1.0, 2.0, 1.0]), np.array([1.0, 0.0, -1.0])
    sobel = np.outer(smooth, slope) / 8
    edge = (size - 3) // 2
    r = np.arange(size) - size // 2
    gaussians = [np.exp(-(r**2) / (2 * s**2)) for s in (0.8, 1.2, 2.0)]
    return np.stack(
        [np.pad(sobel, edge), np.pad(sobel.T, edge)]
        + [np.outer(g, g) / g.sum() ** 2 for g in gaussians]
        + [gabor(size, w, a, 2.5) / size for w in (3.0, 5.0) for a in np.pi * np.arange(6) / 6]
    )


def per_channel(filters: np.ndarray, channels: int = 3) -> np.ndarray:
    """(O, I, H, W) that puts every filter on every channel by itself: output o * channels + c."""
    w = np.zeros((len(filters), channels, channels, *filters.shape[1:]), np.float32)
    for c in range(channels):
        w[:, c, c] = filters
    return w.reshape(-1, *w.shape[2:])


def filtered(image: np.ndarray, filters: np.ndarray, layout: str) -> np.ndarray:
    """`image` (N H W C) through every filter in `layout`: reorder, convolve, reorder; (N, H, W, O * C)."""
    x = lk.reorder(image, "NHWC", layout)
    shape = (image.shape[0], image.shape[3], *image.shape[1:3])
    w = per_channel(filters)
    y = lk.conv2d(x, w, padding="same", layout=layout)
    return lk.reorder(y, layout, "NHWC", shape=(shape[0], len(w), *shape[2:]))


def filtered_by_scipy(image: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The same by scipy.ndimage in float64."""
    from scipy import ndimage

    planes = [
        ndimage.correlate(image[0, :, :, c].astype(np.float64), f, mode="constant")
        for f in filters for c in range(image.shape[3])
    ]  # fmt: skip
    return np.stack(planes, axis=-1)[None]


# ---- the first layers of ResNet-50


def first_layers() -> list[Layer]:
    """The stem and the first block: 7x7 stride 2, then (after pooling) 1x1, 3x3, 1x1."""
    return list(resnet50())[:4]


def filters_of(layer: Layer) -> np.ndarray:
    """Filters of the layer's shape, scaled so that activations keep their size (He)."""
    rng = np.random.default_rng(layer.oc + layer.kernel)
    w = rng.standard_normal((layer.oc, layer.ic, layer.kernel, layer.kernel), np.float32)
    return w * np.float32(np.sqrt(2 / w[0].size))


def pooled(x: np.ndarray) -> np.ndarray:
    """3x3 maximum, stride 2, padding 1, of N C H W."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2].max((4, 5))


def network(images: np.ndarray, layout: str) -> np.ndarray:
    """`images` (N H W C) through the first layers in `layout`; N C H W."""
    x, current = images, "NHWC"
    for i, layer in enumerate(first_layers()):
        x = lk.reorder(x, current, layout) if current != layout else x
        w = filters_of(layer)
        y = lk.conv2d(x, w, stride=layer.stride, padding=layer.padding, layout=layout)
        shape = (len(images), layer.oc, *(2 * [layer.problem("NCHW").out[0]]))
        np.maximum(y, 0, out=y)
        x, current = y, layout
        if i == 0:
            x, current = pooled(lk.reorder(y, layout, "NCHW", shape=shape)), "NCHW"
            shape = x.shape
    return lk.reorder(x, current, "NCHW", shape=shape)


def network_by_torch(images: np.ndarray) -> np.ndarray:
    """The same by torch."""
    import torch
    from torch.nn import functional as F

    x = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
    for i, layer in enumerate(first_layers()):
        x = F.relu(F.conv2d(x, torch.from_numpy(filters_of(layer)), stride=layer.stride, padding=layer.padding))
        x = F.max_pool2d(x, 3, 2, 1) if i == 0 else x
    return x.numpy()


def timed(call: Callable[[], np.ndarray]) -> tuple[np.ndarray, str]:
    """What `call` gives, and how long it took the second time."""
    call()
    start = time.perf_counter()
    got = call()
    return got, f"{(time.perf_counter() - start) * 1e3:7.1f} ms"


def main() -> int:
    """Do it, say how long it took and how far the results are apart."""
    image, filters = photo("astronaut"), bank()
    want = filtered_by_scipy(image, filters)
    print(f"astronaut {image.shape[1]}x{image.shape[2]}, {len(filters)} filters of 9x9 on 3 channels")
    for layout in LAYOUTS:
        got, took = timed(lambda layout=layout: filtered(image, filters, layout))
        print(f"  {layout:<8} {took}, farthest from scipy.ndimage {abs(got - want).max():.1e}")
    images = batch()
    want = network_by_torch(images)
    print(f"{len(images)} photographs through the first {len(first_layers())} convolutions of ResNet-50")
    for layout in LAYOUTS:
        got, took = timed(lambda layout=layout: network(images, layout))
        error = np.linalg.norm(got - want) / np.linalg.norm(want)
        print(f"  {layout:<8} {took}, relative distance from torch {error:.1e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
