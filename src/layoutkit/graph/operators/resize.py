"""Resize along any axes, one after another: nearest, linear, cubic."""

from __future__ import annotations

import numpy as np

from .base import Follows, Unsupported, constants, normal, operator, physical_axes, required

ROUNDED = {"stretch": None, "not_larger": min, "not_smaller": max}  # how one ratio is chosen for all axes, by policy


def _sizes(shape, attributes, scales, sizes):
    """The axes that are resized, each with its new extent and the ratio of the new to the old one."""
    listed = attributes.get("axes")
    axes = [normal(int(a), len(shape), "Resize") for a in (range(len(shape)) if listed is None else listed)]
    target = scales if sizes is None or not len(sizes) else sizes
    if target is None or len(target) != len(axes) or len(set(axes)) < len(axes):
        raise ValueError(f"scales {scales}, sizes {sizes}: expected either, {len(axes)} of them, of axes {axes}")
    extents = [shape[a] for a in axes]
    if target is scales:
        ratios = [float(s) for s in scales]
        if not all(0 < r < np.inf for r in ratios):
            raise ValueError(f"scales {ratios}: expected finite positive numbers")
        out = [int(np.floor(n * r)) for n, r in zip(extents, ratios)]
    else:
        out, policy = [int(n) for n in sizes], attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy not in ROUNDED or min(out, default=0) < 0:
            raise ValueError(f"sizes {out}, {policy!r}: expected none below 0, and one of {', '.join(ROUNDED)}")
        ratios = [m / n if n else 1.0 for m, n in zip(out, extents)]
        if ROUNDED[policy]:
            ratios = [ROUNDED[policy](ratios, default=1.0)] * len(axes)
            out = [int(np.floor(n * r + 0.5)) for n, r in zip(extents, ratios)]
    if any(m and not n for m, n in zip(out, extents)):
        raise ValueError(f"extents of {extents} do not become {out}: there is nothing to take from")
    return list(zip(axes, out, ratios))


def resized(shape, attributes, scales, sizes):
    """The axes that change, each with its new extent and the ratio of the new to the old one."""
    along = attributes.get("along")
    if along is None:
        along = _sizes(shape, attributes, scales, sizes)
    return [(a, n, ratio) for a, n, ratio in along if n != shape[a] or ratio != 1]


def _follow_resize(attributes, layout, shapes):
    """With the axes that change as an attribute: these must not be in blocks."""
    if "along" not in attributes:
        return None
    at = physical_axes(layout)
    along = [(at[axis], *rest) for axis, *rest in attributes["along"]]
    return None if any(axis is None for axis, *_ in along) else {**attributes, "along": along}


def check_resize(attributes):
    """Raise Unsupported for what no function here does."""
    if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Unsupported("Resize: tf_crop_and_resize")
    if attributes.get("antialias") and attributes.get("mode") not in ("linear", "cubic"):
        raise ValueError("antialias is for linear and cubic interpolation")


def _resize_shape(node, inputs):
    x = required(inputs[0])
    shape = list(x.shape)
    for a, n, _ in resized(x.shape, node.attributes, constants(node, inputs, 2), constants(node, inputs, 3)):
        shape[a] = n
    return [(x.dtype, shape)]


@operator("Resize", kind=Follows.FOLLOWS, shape=_resize_shape, follow=_follow_resize)
def _resize(inputs, attributes):
    x, _, scales, sizes = (*inputs, None, None, None)[:4]
    check_resize(attributes)
    y = x
    for a, n, ratio in resized(x.shape, attributes, scales, sizes):
        y = _along(y, a, n, ratio, attributes) if n else np.take(y, np.empty(0, np.int64), a)
    if x.dtype.kind in "iu" and y.dtype != x.dtype:  # cubic weights may overshoot the limits of the type
        y = np.clip(np.rint(y), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return [np.asarray(y, x.dtype, order="C")]


def _places(n_in, n_out, ratio, mode):
    i = np.arange(n_out, dtype=np.float64)
    if mode == "asymmetric":
        return i / ratio
    if mode == "align_corners":
        return i * ((n_in - 1) / (ratio * n_in - 1)) if n_out > 1 else i * 0
    if mode == "pytorch_half_pixel" and n_out <= 1:
        return i * 0
    if mode == "half_pixel_symmetric":
        exact_size = ratio * n_in
        return n_in / 2 * (1 - n_out / exact_size) + (i + 0.5) / ratio - 0.5
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (i + 0.5) / ratio - 0.5
    raise Unsupported(f"Resize: coordinate_transformation_mode {mode!r}")


def sampling_weights(n, n_out, ratio, attributes):
    """Of each of `n_out` elements, the indices of those that it is made of, and their weights: both (taps, n_out)."""
    at = _places(n, n_out, ratio, attributes.get("coordinate_transformation_mode", "half_pixel"))
    mode = attributes.get("mode", "nearest")
    if mode == "nearest":
        nearest = np.clip(_nearest(at, attributes.get("nearest_mode", "round_prefer_floor")), 0, n - 1)
        return nearest[None], np.ones((1, n_out))
    base = np.floor(at).astype(np.int64)
    part = at - base
    a = attributes.get("cubic_coeff_a", -0.75)
    offsets = reached(attributes, ratio)
    if is_stretched(attributes, ratio):
        weights = np.array([_kernel(abs(k - part) * ratio, mode, a) for k in offsets])
        weights = weights / weights.sum(0)
    elif mode == "linear":
        weights = np.array([1 - part, part])
    else:
        weights = np.array([_kernel(x, mode, a) for x in (part + 1, part, 1 - part, 2 - part)])
    indices = np.array([base + k for k in offsets])
    if attributes.get("exclude_outside"):
        weights = np.where((indices < 0) | (indices >= n), 0, weights)
        total = weights.sum(0)
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(indices, 0, n - 1), weights


def is_stretched(attributes, ratio):
    """Whether an axis is made shorter by antialiasing: kernels reach as far as several elements."""
    return bool(attributes.get("antialias")) and ratio < 1


def reached(attributes, ratio):
    """The elements that one of an interpolated axis is made of, counted from the one at or before its place."""
    half = 1 if attributes.get("mode") == "linear" else 2
    first = int(np.floor(-half / ratio)) + 1 if is_stretched(attributes, ratio) else 1 - half
    return range(first, 2 - first)


def _kernel(x, mode, a):
    """The weight of an element at distance x from the place."""
    if mode == "linear":
        return np.clip(1 - x, 0, 1)
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x <= 2, far, 0))


def _along(x, axis, n_out, ratio, attributes):
    indices, weights = sampling_weights(x.shape[axis], n_out, ratio, attributes)
    if attributes.get("mode", "nearest") == "nearest":
        return np.take(x, indices[0], axis)
    shape = [1] * x.ndim
    shape[axis] = n_out
    return sum(np.take(x, at, axis) * w.reshape(shape) for at, w in zip(indices, weights))


def _nearest(at, mode):
    if mode == "round_prefer_floor":
        rounded = np.ceil(at - 0.5)
    elif mode == "round_prefer_ceil":
        rounded = np.floor(at + 0.5)
    elif mode == "floor":
        rounded = np.floor(at)
    elif mode == "ceil":
        rounded = np.ceil(at)
    else:
        raise Unsupported(f"Resize: nearest_mode {mode!r}")
    return rounded.astype(np.int64)
