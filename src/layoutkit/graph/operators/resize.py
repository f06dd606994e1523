"""Resizing of any axes: nearest, linear, cubic, axis by axis."""

from __future__ import annotations

import numpy as np

from .base import Unsupported, constants, operator, there


def _resize_shape(node, given):
    x, scales, sizes = there(given[0]), constants(node, given, 2), constants(node, given, 3)
    axes = [int(a) % len(x.shape) for a in node.attributes.get("axes") or range(len(x.shape))]
    shape = list(x.shape)
    if sizes:
        policy = node.attributes.get("keep_aspect_ratio_policy", "stretch")
        one = {"stretch": None, "not_larger": min, "not_smaller": max}[policy]
        ratio = one([s / x.shape[a] for s, a in zip(sizes, axes)]) if one else None
        for s, a in zip(sizes, axes):
            shape[a] = int(s) if ratio is None else int(np.floor(x.shape[a] * ratio + 0.5))
    else:
        for s, a in zip(scales or (), axes, strict=True):
            shape[a] = int(np.floor(x.shape[a] * s))
    return [(x.dtype, shape)]


@operator("Resize", shape=_resize_shape)
def _resize(inputs, attributes):
    x, _, scales, sizes = (*inputs, None, None, None)[:4]
    if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Unsupported("Resize: tf_crop_and_resize")
    if attributes.get("antialias") or attributes.get("exclude_outside"):
        raise Unsupported("Resize: antialias and exclude_outside")
    axes = [int(a) % x.ndim for a in attributes.get("axes") or range(x.ndim)]
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    if sizes is not None and len(sizes):
        ratios = [int(n) / x.shape[a] for n, a in zip(sizes, axes)]
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(ratios)
            ratios = [one] * len(axes)
            out = [int(np.floor(x.shape[a] * one + 0.5)) for a in axes]
        else:
            out = [int(n) for n in sizes]
    else:
        ratios = [float(s) for s in scales]
        out = [int(np.floor(x.shape[a] * r)) for a, r in zip(axes, ratios)]
    y = x
    for a, n, ratio in zip(axes, out, ratios):
        if n != x.shape[a] or ratio != 1:
            y = _along(y, a, n, ratio, attributes)
    return [np.ascontiguousarray(y).astype(x.dtype, copy=False)]


def _places(n_in, n_out, ratio, mode):
    i = np.arange(n_out, dtype=np.float64)
    if mode == "asymmetric":
        return i / ratio
    if mode == "align_corners":
        return i * ((n_in - 1) / (ratio * n_in - 1)) if n_out > 1 else i * 0
    if mode == "pytorch_half_pixel" and n_out <= 1:
        return i * 0
    if mode == "half_pixel_symmetric":
        given = ratio * n_in
        return n_in / 2 * (1 - n_out / given) + (i + 0.5) / ratio - 0.5
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (i + 0.5) / ratio - 0.5
    raise Unsupported(f"Resize: coordinate_transformation_mode {mode!r}")


def _along(x, axis, n_out, ratio, attributes):
    n = x.shape[axis]
    at = _places(n, n_out, ratio, attributes.get("coordinate_transformation_mode", "half_pixel"))
    mode = attributes.get("mode", "nearest")
    if mode == "nearest":
        return np.take(x, np.clip(_nearest(at, attributes.get("nearest_mode", "round_prefer_floor")), 0, n - 1), axis)
    base = np.floor(at).astype(np.int64)
    part = at - base
    if mode == "linear":
        weights = {0: 1 - part, 1: part}
    else:
        a = attributes.get("cubic_coeff_a", -0.75)
        weights = {
            -1: ((a * (part + 1) - 5 * a) * (part + 1) + 8 * a) * (part + 1) - 4 * a,
            0: ((a + 2) * part - (a + 3)) * part**2 + 1,
            1: ((a + 2) * (1 - part) - (a + 3)) * (1 - part) ** 2 + 1,
            2: ((a * (2 - part) - 5 * a) * (2 - part) + 8 * a) * (2 - part) - 4 * a,
        }
    shape = [1] * x.ndim
    shape[axis] = n_out
    return sum(np.take(x, np.clip(base + k, 0, n - 1), axis) * w.reshape(shape) for k, w in weights.items())


def _nearest(at, mode):
    if mode == "round_prefer_floor":
        found = np.ceil(at - 0.5)
    elif mode == "round_prefer_ceil":
        found = np.floor(at + 0.5)
    elif mode == "floor":
        found = np.floor(at)
    elif mode == "ceil":
        found = np.ceil(at)
    else:
        raise Unsupported(f"Resize: nearest_mode {mode!r}")
    return found.astype(np.int64)
