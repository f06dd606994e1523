"""Operators of detectors: boxes, and what is read from an image between its pixels."""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core.nests.images.columns import Bins
from ..._core.nests.images.points import Samples
from ..._core.nests.images.regions import Regions
from ..._core.nests.images.suppression import Suppression
from ...choosing.threads import check_threads
from .base import REALS, Unsupported, as_reals, constants, operator, required, result
from .indexed import spread
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


@operator("RoiAlign", shape=_region_shape, into=True)
def _roi_align(inputs, attributes, out=None):
    x, rois, images = inputs
    size = attributes.get("output_height", 1), attributes.get("output_width", 1)
    half, ratio = attributes.get("coordinate_transformation_mode", "half_pixel"), attributes.get("sampling_ratio", 0)
    mode = attributes.get("mode", "avg")
    if mode not in ("avg", "max") or half not in ("half_pixel", "output_half_pixel") or not 0 <= ratio <= MAX_SAMPLES:
        raise ValueError(f"mode {mode!r}, {half!r}, sampling_ratio {ratio}")
    if ((images < 0) | (images >= x.shape[0])).any():
        raise ValueError(f"images {images.tolist()} of {x.shape[0]}")
    y = result(out, (len(rois), x.shape[1], *size), x.dtype)
    if 0 in (*x.shape, *y.shape):
        y[...] = 0
        return [y]
    corners = rois.astype(np.float64) * attributes.get("spatial_scale", 1.0) - (0.5 if half == "half_pixel" else 0)
    with np.errstate(over="ignore", invalid="ignore"):
        spans = corners[:, 3:1:-1] - corners[:, 1::-1]
    if not (np.isfinite(corners).all() and np.isfinite(spans).all()):
        raise ValueError("regions that are not finite")
    least = -np.inf if half == "half_pixel" else 1.0
    spans = np.maximum(spans, least)
    counts = np.full(spans.shape, float(ratio)) if ratio else np.maximum(np.ceil(spans / size), 0)
    if counts.max() > MAX_SAMPLES:
        raise ValueError(f"regions of {spans.max():g} pixels: {counts.max():g} samples a result")
    counts = counts.astype(np.int64)
    real, to = as_reals(x), y if y.dtype in REALS else np.empty(y.shape, as_reals(x).dtype)
    arrays = real, np.ascontiguousarray(corners), counts, np.ascontiguousarray(images, np.int64), to
    threads = check_threads(attributes.get("threads"))
    Regions(*arrays, int(counts.max()), least, mode == "avg", threads)(*arrays)
    return [to if to is y else to.astype(x.dtype)]


@operator("MaxRoiPool", shape=_region_shape, into=True)
def _max_roi_pool(inputs, attributes, out=None):
    """The largest pixel of each part of a region, whose corners are rounded to whole pixels."""
    x, rois = inputs[0], inputs[1].astype(np.promote_types(inputs[1].dtype, np.float32), copy=False)
    size, scale = attributes["pooled_shape"], attributes.get("spatial_scale", 1.0)
    if not np.isfinite(rois).all() or (np.abs(rois) * max(scale, 1) > 1 << 30).any():
        raise ValueError("regions that are not finite, or too large")
    images = rois[:, 0].astype(np.int64)
    if ((images < 0) | (images >= x.shape[0])).any():
        raise ValueError(f"images {images.tolist()} of {x.shape[0]}")
    corners = rois[:, 1:] * scale
    whole = np.trunc(corners)  # halves away from 0
    corners = (whole + np.sign(corners) * (np.abs(corners - whole) >= 0.5)).astype(np.int64)
    cuts = []
    for n, m, begin, end in ((x.shape[2], size[0], *corners[:, 1::2].T), (x.shape[3], size[1], *corners[:, ::2].T)):
        each = np.maximum(end - begin + 1, 1)[:, None].astype(np.float32) / np.float32(m)  # as onnxruntime divides
        parts = np.arange(m, dtype=np.float32)
        edges = np.floor(parts * each), np.ceil((parts + 1) * each)
        cuts.append(np.stack([np.clip(v.astype(np.int64) + begin[:, None], 0, n) for v in edges], -1))
    y, real = result(out, (len(rois), x.shape[1], *size), x.dtype), as_reals(x)
    to = y if y.dtype == real.dtype else np.empty(y.shape, real.dtype)
    arrays = real, *cuts, images, to
    Bins(*arrays, check_threads(attributes.get("threads")))(*arrays)
    return [to if to is y else to.astype(x.dtype)]


# ---- between pixels


def _grid_shape(node, inputs):
    x, grid = required(inputs[0]), required(inputs[1])
    rank = len(x.shape) - 2
    if rank < 1 or len(grid.shape) != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        raise ValueError(f"a grid of shape {grid.shape}, expected (N, ..., axes) for images (N, C, ...), {x.shape}")
    if 0 in x.shape[2:]:
        raise ValueError("an image without pixels")
    return [(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))]


MODES = {"bilinear": "linear", "bicubic": "cubic"}  # as they were called before version 20


@operator("GridSample", shape=_grid_shape, into=True)
def _grid_sample(inputs, attributes, out=None):
    x, grid = inputs
    mode, padding = attributes.get("mode", "linear"), attributes.get("padding_mode", "zeros")
    mode = MODES.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise ValueError(f"mode {mode!r}, padding_mode {padding!r}")
    y = result(out, (*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    aligned, threads = bool(attributes.get("align_corners", 0)), check_threads(attributes.get("threads"))
    if y.dtype in REALS:
        sample(x, grid, y, mode, padding, aligned, False, threads)
        return [y]
    wide = np.empty(y.shape, as_reals(x).dtype)
    sample(x, grid, wide, mode, padding, aligned, False, threads)
    return [wide.astype(x.dtype)]


def sample(x, grid, y, mode, padding, aligned, absolute, threads):
    """Write what lies at the points of a grid, see `Samples`, to `y` of float32 or float64."""
    rank, points = x.ndim - 2, prod(grid.shape[1:-1])
    if rank > 3:
        raise Unsupported(f"GridSample: {rank} spatial axes; 1, 2 or 3 are supported")
    arrays = as_reals(x), as_reals(grid).reshape(len(x), points, rank), y.reshape(*x.shape[:2], points)
    if y.size:
        Samples(*arrays, mode, padding, aligned, absolute, threads)(*arrays)


def _affine_grid_shape(node, inputs):
    theta, size = required(inputs[0]), [int(n) for n in constants(node, inputs, 1) or []]
    rank = len(size) - 2
    if rank not in (2, 3) or theta.shape != (size[0], rank, rank + 1):
        raise ValueError(f"maps of shape {theta.shape} for results of {size}")
    return [(theta.dtype, (size[0], *size[2:], rank))]


@operator("AffineGrid", shape=_affine_grid_shape, into=True)
def _affine_grid(inputs, attributes, out=None):
    """Each coordinate is a sum of one term for each axis, that of the last one with the shift."""
    theta, sizes = inputs[0], [int(n) for n in inputs[1]][2:]
    axes = []
    for n in sizes:
        at = np.arange(n, dtype=theta.dtype)
        if attributes.get("align_corners", 0):
            axes.append(at * 2 / max(n - 1, 1) - 1)  # a single coordinate is -1, as in ONNX's reference
        else:
            axes.append((2 * at + 1) / max(n, 1) - 1)
    rank, y = len(sizes), result(out, (len(theta), *sizes, len(sizes)), theta.dtype)
    if rank == 2 and theta.dtype in PAIRS and y.flags.c_contiguous:
        _affine_pairs(theta, axes, y)
        return [y]
    for c in range(rank):
        sums = theta[:, c, rank].reshape(-1, *[1] * rank)
        for i in range(rank - 1, -1, -1):  # the coordinate along the last axis comes first
            term = axes[i].reshape(-1, *[1] * (rank - 1 - i)) * theta[:, c, rank - 1 - i].reshape(-1, *[1] * rank)
            sums = np.add(sums, term, out=y[..., c] if i == 0 else None)
    return [y]


PAIRS = {np.dtype(np.float32): np.complex64, np.dtype(np.float64): np.complex128}


def _affine_pairs(theta, axes, y):
    """Both coordinates of a pixel at a time, as a complex number: the sum of one of its row and one of its column."""
    down, along = (theta[:, None, :, i] * at[:, None] for at, i in zip(axes, (1, 0)))  # [image, pixel, coordinate]
    terms = np.ascontiguousarray(down), np.ascontiguousarray(along + theta[:, None, :, 2])
    rows, columns, pixels = (v.view(PAIRS[theta.dtype])[..., 0] for v in (*terms, y))
    np.add(columns[:, None, :], rows[:, :, None], out=pixels)


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
    real, each = as_reals(x), x.shape[1] // apart
    points = np.empty((len(x), apart, *kernel, oh, ow, 2), np.promote_types(offset.dtype, np.float32))
    for i in range(2):  # the coordinate along the last axis comes first
        np.add(offset[:, :, :, :, i], base[i] + taps[i], out=points[..., 1 - i], casting="same_kind")
    rows = np.zeros((len(x) * apart, each, prod(kernel), oh * ow), real.dtype)
    if x.size:
        grid = points.reshape(len(x) * apart, prod(kernel), oh * ow, 2)
        sample(real.reshape(-1, each, *x.shape[2:]), grid, rows, "linear", "zeros", False, True,
               check_threads(attributes.get("threads")))  # fmt: skip
    rows = rows.reshape(len(x), apart, each, prod(kernel), oh * ow)
    if mask is not None:
        rows *= mask.reshape(len(x), apart, 1, prod(kernel), oh * ow)
    rows = rows.reshape(len(x), groups, -1, oh * ow)
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


@operator("MaxUnpool", shape=_unpool_shape, into=True)
def _max_unpool(inputs, attributes, out=None):
    """Numbers where the largest ones of windows were; indices count the elements of what was pooled."""
    x, at, output_shape = (*inputs, None)[:3]
    inner = _unpooled(x.shape, attributes)
    y = result(out if output_shape is None else None, inner, x.dtype)
    y.fill(0)
    spread(x, at, y)
    if output_shape is None:
        return [y]
    whole = np.zeros([int(n) for n in output_shape], x.dtype)
    cut = tuple(slice(0, min(n, m)) for n, m in zip(inner, whole.shape))
    whole[cut] = y[cut]
    return [whole]
