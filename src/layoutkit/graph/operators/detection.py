"""Operators of detectors: boxes, and what is read from an image between its pixels."""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from ..._core.nests.suppression import Suppression
from ...choosing.threads import check_threads
from .base import Unsupported, constants, operator, required
from .windows import window

MAX_SAMPLES = 1 << 12  # of a region of interest, along an axis


# ---- boxes


@operator("NonMaxSuppression", open=True)
def _suppressed(inputs, attributes):
    """Image, class and box of those that overlap no better one of their class too much, best first."""
    boxes, scores, most, overlap, least = (*inputs, None, None, None)[:5]
    most, overlap = (0 if v is None else np.asarray(v).reshape(-1)[0] for v in (most, overlap))
    if boxes.ndim != 3 or boxes.shape[2] != 4 or scores.ndim != 3 or scores.shape[::2] != boxes.shape[:2]:
        raise ValueError(f"boxes of shape {boxes.shape}, scores of shape {scores.shape}")
    if not 0 <= overlap <= 1:
        raise ValueError(f"iou_threshold {overlap}: expected 0 to 1")
    least = None if least is None else np.asarray(least).reshape(-1)[0]
    real = np.float32 if {x.dtype for x in (boxes, scores)} == {np.dtype(np.float32)} else np.float64
    corners = np.ascontiguousarray(_corners(boxes, attributes.get("center_point_box", 0)), real)
    scores = np.ascontiguousarray(scores, real)
    chosen = np.empty((*scores.shape[:2], max(0, min(int(most), scores.shape[2]))), np.int64)
    counts = np.zeros(scores.shape[:2], np.int64)
    arrays = corners, scores, chosen, counts
    Suppression(*arrays, float(overlap), least, check_threads(attributes.get("threads")))(*arrays)
    image, of_class, i = np.nonzero(np.arange(chosen.shape[2]) < counts[..., None])
    return [np.stack([image, of_class, chosen[image, of_class, i]], 1).astype(np.int64, copy=False)]


def _corners(boxes, centered):
    """By box, the lower and upper corner."""
    if centered:
        middle, size = boxes[..., :2], boxes[..., 2:]
        with np.errstate(invalid="ignore"):  # of infinite numbers
            return np.concatenate([middle - size / 2, middle + size / 2], -1)
    a, b = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], -1)


# ---- regions of interest


def _region_shape(node, inputs):
    x, rois, a = required(inputs[0]), required(inputs[1]), node.attributes
    columns = 4 if node.op == "RoiAlign" else 5
    out = [a.get("output_height", 1), a.get("output_width", 1)] if columns == 4 else list(a["pooled_shape"])
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != columns or len(out) != 2 or min(out) < 1:
        raise ValueError(f"regions of shape {rois.shape}, results of {out}")
    if columns == 4 and required(inputs[2]).shape != rois.shape[:1]:
        raise ValueError(f"{rois.shape[0]} regions, images of shape {required(inputs[2]).shape}")
    return [(x.dtype, (rois.shape[0], x.shape[1], *out))]


@operator("RoiAlign", shape=_region_shape)
def _roi_align(inputs, attributes):
    x, rois, images = inputs
    size = attributes.get("output_height", 1), attributes.get("output_width", 1)
    half, ratio = attributes.get("coordinate_transformation_mode", "half_pixel"), attributes.get("sampling_ratio", 0)
    mode = attributes.get("mode", "avg")
    if mode not in ("avg", "max") or half not in ("half_pixel", "output_half_pixel") or not 0 <= ratio <= MAX_SAMPLES:
        raise ValueError(f"mode {mode!r}, {half!r}, sampling_ratio {ratio}")
    if ((images < 0) | (images >= x.shape[0])).any():
        raise ValueError(f"images {images.tolist()} of {x.shape[0]}")
    y = np.empty((len(rois), x.shape[1], *size), x.dtype)
    scaled = rois.astype(np.float64) * attributes.get("spatial_scale", 1.0) - (0.5 if half == "half_pixel" else 0)
    if not np.isfinite(scaled).all():
        raise ValueError("regions that are not finite")
    for i, image in enumerate(images):
        axes = []
        for n, m, begin, end in zip(x.shape[2:], size, scaled[i, 1::-1], scaled[i, 3:1:-1]):
            span = end - begin if half == "half_pixel" else max(end - begin, 1.0)
            count = ratio or max(ceil(span / m), 0)
            if count > MAX_SAMPLES:
                raise ValueError(f"regions of {span:g} pixels: {count} samples a result")
            axes.append(_taps(n, begin + (np.arange(m * count) + 0.5) * (span / m / max(count, 1))))
        y[i] = (_averaged if mode == "avg" else _largest)(x[image], *axes, size)
    return [y]


def _taps(n, at):
    """By sample, the two pixels that it lies between and their weights: none outside of the image."""
    inside = (at >= -1) & (at <= n)
    at = np.clip(at, 0, max(n - 1, 0))
    low = np.minimum(np.floor(at).astype(np.int64), max(n - 1, 0))
    high = np.minimum(low + 1, max(n - 1, 0))
    part = at - low
    return low, high, (1 - part) * inside, part * inside


def _averaged(x, rows, columns, size):
    """The means of samples, as products with what each row and each column of pixels counts."""
    for axis, (low, high, before, after), m in ((1, rows, size[0]), (2, columns, size[1])):
        n, count = x.shape[axis], low.size // m
        weights = np.zeros((m, n))
        if count and n:
            for at, share in ((low, before), (high, after)):
                np.add.at(weights, (np.repeat(np.arange(m), count), at), share / count)
        weights = weights.astype(x.dtype)
        x = weights @ x if axis == 1 else x @ weights.T
    return x


def _largest(x, rows, columns, size):
    """The largest of all pixels times their weights, as ONNX has it."""
    if not rows[0].size or not columns[0].size:
        return np.zeros((len(x), *size), x.dtype)
    y = None
    for at, share in ((rows[0], rows[2]), (rows[1], rows[3])):
        for to, part in ((columns[0], columns[2]), (columns[1], columns[3])):
            weighted = x[:, at[:, None], to] * (share[:, None] * part).astype(x.dtype)
            y = weighted if y is None else np.maximum(y, weighted)
    return y.reshape(len(x), size[0], -1, size[1], columns[0].size // size[1]).max((2, 4))


@operator("MaxRoiPool", shape=_region_shape)
def _max_roi_pool(inputs, attributes):
    """The largest pixel of each part of a region, whose corners are rounded to whole pixels."""
    x, rois = inputs
    size, scale = attributes["pooled_shape"], attributes.get("spatial_scale", 1.0)
    if not np.isfinite(rois).all() or (np.abs(rois) * max(scale, 1) > 1 << 30).any():
        raise ValueError("regions that are not finite, or too large")
    y = np.zeros((len(rois), x.shape[1], *size), x.dtype)
    for i, roi in enumerate(rois):
        image = int(roi[0])
        if not 0 <= image < x.shape[0]:
            raise ValueError(f"image {image} of {x.shape[0]}")
        left, top, right, bottom = np.floor(roi[1:] * scale + 0.5).astype(np.int64)
        cuts = []
        for n, m, begin, end in ((x.shape[2], size[0], top, bottom), (x.shape[3], size[1], left, right)):
            each, parts = max(end - begin + 1, 1) / m, np.arange(m)
            low, high = np.floor(parts * each).astype(int), np.ceil((parts + 1) * each).astype(int)
            cuts.append(list(zip(np.clip(low + begin, 0, n), np.clip(high + begin, 0, n))))
        for p, (a, b) in enumerate(cuts[0]):
            for q, (c, d) in enumerate(cuts[1]):
                if a < b and c < d:
                    y[i, :, p, q] = x[image, :, a:b, c:d].max((1, 2))
    return [y]


# ---- between pixels


def _grid_shape(node, inputs):
    x, grid = required(inputs[0]), required(inputs[1])
    rank = len(x.shape) - 2
    if rank < 1 or len(grid.shape) != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ValueError(f"a grid of shape {grid.shape}")
    if 0 in x.shape[2:]:
        raise ValueError("an image without pixels")
    return [(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))]


MODES = {"bilinear": "linear", "bicubic": "cubic"}  # as they were called before version 20


@operator("GridSample", shape=_grid_shape)
def _grid_sample(inputs, attributes):
    x, grid = inputs
    mode, padding = attributes.get("mode", "linear"), attributes.get("padding_mode", "zeros")
    aligned, sizes = attributes.get("align_corners", 0), x.shape[2:]
    mode = MODES.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise ValueError(f"mode {mode!r}, padding_mode {padding!r}")
    points = []
    for n, at in zip(sizes, np.moveaxis(grid, -1, 0)[::-1].astype(np.promote_types(grid.dtype, np.float32))):
        at = (at + 1) / 2 * (n - 1) if aligned else ((at + 1) * n - 1) / 2
        points.append(np.nan_to_num(at, nan=-1.0 if padding == "zeros" else 0.0, posinf=1e9, neginf=-1e9))
    if padding == "border" and mode != "cubic":
        points = [np.clip(at, 0, n - 1) for n, at in zip(sizes, points)]
    if padding == "reflection" and mode != "cubic":
        points = [_reflected(at, n, aligned) for n, at in zip(sizes, points)]
    taps = [_around(at, mode) for at in points]
    within = {
        "zeros": None,
        "border": lambda i, n: np.clip(i, 0, n - 1),
        "reflection": lambda i, n: np.rint(_reflected(i.astype(np.float64), n, aligned)).astype(np.int64),
    }
    return [_weighted(x, taps, within[padding]).astype(x.dtype, copy=False)]  # fmt: skip


def _reflected(at, n, aligned):
    """Coordinates mirrored at the centers of the outermost pixels, or at their edges, as often as needed."""
    low, high = (0.0, n - 1.0) if aligned else (-0.5, n - 0.5)
    span = high - low
    if span <= 0:
        return np.zeros_like(at)
    turns = np.abs(at - low) % (2 * span)
    return np.clip(np.where(turns > span, 2 * span - turns, turns) + low, 0, n - 1)


def _around(at, mode):
    """By pixel around, its index and weight."""
    if mode == "nearest":
        return [(np.rint(np.clip(at, -1e9, 1e9)).astype(np.int64), None)]
    at = np.clip(at, -1e9, 1e9)
    low = np.floor(at)
    part = at - low
    low = low.astype(np.int64)
    if mode == "linear":
        return [(low, 1 - part), (low + 1, part)]
    a = -0.75
    far, near = lambda t: ((a * t - 5 * a) * t + 8 * a) * t - 4 * a, lambda t: ((a + 2) * t - (a + 3)) * t * t + 1
    weights = far(part + 1), near(part), near(1 - part), far(2 - part)
    return [(low + i, w) for i, w in zip((-1, 0, 1, 2), weights)]


def _weighted(x, taps, within):
    """Sums of pixels by weight; `within` says which pixel stands for one outside, where none does it is 0."""
    images, sizes, y = np.arange(x.shape[0]), x.shape[2:], 0
    rank = len(sizes)
    images = images.reshape(-1, *[1] * rank)
    real = x if x.dtype.kind == "f" else x.astype(np.float64)
    channels_last = np.moveaxis(real, 1, -1)
    for chosen in np.ndindex(*(len(t) for t in taps)):
        at, weight, inside = [], None, None
        for t, i, n in zip(taps, chosen, sizes):
            index, share = t[i]
            if within is None:
                here = (index >= 0) & (index < n)
                inside = here if inside is None else inside & here
                index = np.clip(index, 0, n - 1)
            else:
                index = within(index, n)
            at.append(index)
            if share is not None:
                weight = share if weight is None else weight * share
        samples = channels_last[(images, *at)]
        if inside is not None:
            samples = np.where(inside[..., None], samples, samples.dtype.type(0))
        y = y + (samples if weight is None else samples * weight[..., None].astype(samples.dtype, copy=False))
    return np.ascontiguousarray(np.moveaxis(y, -1, 1))


def _affine_grid_shape(node, inputs):
    theta, size = required(inputs[0]), [int(n) for n in constants(node, inputs, 1) or []]
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape != (size[0], rank, rank + 1):
        raise ValueError(f"maps of shape {theta.shape} for results of {size}")
    return [(theta.dtype, (size[0], *size[2:], rank))]


@operator("AffineGrid", shape=_affine_grid_shape)
def _affine_grid(inputs, attributes):
    theta, sizes = inputs[0], [int(n) for n in inputs[1]][2:]
    axes = []
    for n in sizes:
        at = np.arange(n, dtype=theta.dtype)
        axes.append(at * 2 / max(n - 1, 1) - 1 if attributes.get("align_corners", 0) else (2 * at + 1) / max(n, 1) - 1)
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1).astype(theta.dtype)
    y = points.reshape(-1, len(sizes) + 1) @ theta.swapaxes(1, 2)
    return [y.reshape(len(theta), *sizes, len(sizes))]


# ---- convolutions with offsets, and pooling back


def _deform_geometry(x, w, offset, attributes):
    rank = len(x) - 2
    if rank != 2:
        raise Unsupported(f"DeformConv: {rank} spatial axes; 2 are supported")
    out = window({**attributes, "kernel_shape": list(w[2:])}, x[2:], w[2:]).out
    groups, apart = attributes.get("group", 1), attributes.get("offset_group", 1)
    if min(groups, apart) < 1 or x[1] != w[1] * groups or w[0] % groups or x[1] % apart:
        raise ValueError(f"{x[1]} channels, a filter of shape {w}, {groups} groups, {apart} groups of offsets")
    if tuple(offset) != (x[0], apart * 2 * prod(w[2:]), *out):
        raise ValueError(f"offsets of shape {offset}, expected {(x[0], apart * 2 * prod(w[2:]), *out)}")
    return out, groups, apart


def _deform_shape(node, inputs):
    x, w, offset, bias, mask = (*inputs, None, None)[:5]
    x, w, offset = required(x), required(w), required(offset)
    out, _, apart = _deform_geometry(x.shape, w.shape, offset.shape, node.attributes)
    if mask is not None and mask.shape != (x.shape[0], apart * prod(w.shape[2:]), *out):
        raise ValueError(f"a mask of shape {mask.shape}")
    if bias is not None and bias.shape != w.shape[:1]:
        raise ValueError(f"a bias of shape {bias.shape}")
    return [(x.dtype, (x.shape[0], w.shape[0], *out))]


@operator("DeformConv", shape=_deform_shape)
def _deform_conv(inputs, attributes):
    """Each tap of the filter reads between the pixels at an offset of its own, which differs by output."""
    x, w, offset, bias, mask = (*inputs, None, None)[:5]
    (oh, ow), groups, apart = _deform_geometry(x.shape, w.shape, offset.shape, attributes)
    kernel = w.shape[2:]
    strides, dilations = (attributes.get(k) or [1, 1] for k in ("strides", "dilations"))
    pads = attributes.get("pads") or [0] * 4
    offset = offset.reshape(len(x), apart, *kernel, 2, oh, ow)
    base = [np.arange(n).reshape(-1, *[1] * (1 - i)) * strides[i] - pads[i] for i, n in enumerate((oh, ow))]
    taps = [np.arange(k).reshape(-1, *[1] * (3 - i)) * dilations[i] for i, k in enumerate(kernel)]
    each, columns = x.shape[1] // apart, []
    for g in range(apart):
        points = [base[i] + taps[i] + offset[:, g, :, :, i] for i in range(2)]  # [image, kh, kw, oh, ow]
        at = [_around(p.reshape(len(x), -1, ow), "linear") for p in points]
        samples = _weighted(x[:, g * each : (g + 1) * each], at, None)
        samples = samples.reshape(len(x), each, prod(kernel), oh * ow)
        if mask is not None:
            samples = samples * mask.reshape(len(x), apart, 1, prod(kernel), oh * ow)[:, g]
        columns.append(samples)
    rows = np.concatenate(columns, 1).reshape(len(x), groups, -1, oh * ow)
    y = w.reshape(groups, w.shape[0] // groups, -1) @ rows
    y = y.reshape(len(x), w.shape[0], oh, ow)
    return [(y if bias is None else y + bias.reshape(-1, 1, 1)).astype(x.dtype, copy=False)]


def _unpooled(shape, attributes):
    """The result's shape, of pooling by the windows of the attributes."""
    kernel = attributes["kernel_shape"]
    rank = len(shape) - 2
    strides, pads = attributes.get("strides") or [1] * rank, attributes.get("pads") or [0] * (2 * rank)
    if rank < 1 or len(kernel) != rank or len(strides) != rank or len(pads) != 2 * rank:
        raise ValueError(f"windows {kernel}, strides {strides}, pads {pads} of {shape}")
    spatial = ((n - 1) * s - p - q + k for n, s, p, q, k in zip(shape[2:], strides, pads, pads[rank:], kernel))
    return (*shape[:2], *spatial)


def _unpool_shape(node, inputs):
    x, at = required(inputs[0]), required(inputs[1])
    shape, output_shape = _unpooled(x.shape, node.attributes), constants(node, inputs, 2)
    if at.shape != x.shape or (output_shape is not None and len(output_shape) != len(shape)):
        raise ValueError(f"indices of shape {at.shape}, a result of shape {output_shape}")
    return [(x.dtype, shape if output_shape is None else [int(n) for n in output_shape])]


@operator("MaxUnpool", shape=_unpool_shape)
def _max_unpool(inputs, attributes):
    """Numbers where the largest ones of windows were; indices count the elements of what was pooled."""
    x, at, output_shape = (*inputs, None)[:3]
    inner = _unpooled(x.shape, attributes)
    y = np.zeros(inner, x.dtype)
    y.reshape(-1)[at.reshape(-1)] = x.reshape(-1)
    if output_shape is None:
        return [y]
    whole = np.zeros([int(n) for n in output_shape], x.dtype)
    cut = tuple(slice(0, min(n, m)) for n, m in zip(inner, whole.shape))
    whole[cut] = y[cut]
    return [whole]
