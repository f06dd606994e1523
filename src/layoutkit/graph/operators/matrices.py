"""Sums along an axis, parts of matrices, shifts, and what is made of a size alone."""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core.nests.images.columns import Columns
from ..._core.nests.moves.triangle import Triangle
from ..._core.nests.reductions.running import RUNNING, Running
from ...choosing.threads import check_threads
from .base import Unsupported, as_reals, constants, normal, operator, required, result, same_shape
from .elementwise import each


@operator("CumSum", "CumProd", shape=same_shape, into=True)
def _running(inputs, attributes, out=None):
    """Of the elements up to each, `exclusive` before each; `reverse` from the end."""
    x = np.asarray(inputs[0], order="C")
    axis = normal(int(np.asarray(inputs[1]).item()), x.ndim, attributes["op"])
    exclusive, reverse = (bool(attributes.get(key)) for key in ("exclusive", "reverse"))
    y = result(out, x.shape, x.dtype)
    if x.dtype.name in RUNNING:
        threads = check_threads(attributes.get("threads"))
        Running(x, y, axis, exclusive, reverse, attributes["op"] == "CumProd", threads)(x, y)
        return [y]
    of, neutral = (np.add, 0) if attributes["op"] == "CumSum" else (np.multiply, 1)
    rows, sums = (np.moveaxis(v, axis, 0)[:: -1 if reverse else 1] for v in (x, y))
    if exclusive and len(rows):
        sums[0] = neutral
        rows, sums = rows[:-1], sums[1:]
    with np.errstate(all="ignore"):
        of.accumulate(rows, 0, dtype=x.dtype, out=sums)
    return [y]


def _matrices(node, inputs):
    if len(required(inputs[0]).shape) < 2:
        raise ValueError(f"expected matrices, got an array of shape {required(inputs[0]).shape}")
    return same_shape(node, inputs)


@operator("Trilu", shape=_matrices, into=True)
def _triangle(inputs, attributes, out=None):
    x, k = (*inputs, None)[:2]
    k = 0 if k is None else int(np.asarray(k).item())
    k = min(max(k, -x.shape[-2] - 1), x.shape[-1] + 1)
    x = np.asarray(x, order="C")
    y = result(out, x.shape, x.dtype)
    Triangle(x, y, k, bool(attributes.get("upper", 1)), check_threads(attributes.get("threads")))(x, y)
    return [y]


def _eye_shape(node, inputs):
    x = required(inputs[0])
    if len(x.shape) != 2:
        raise ValueError("expected a matrix")
    return [(node.attributes.get("dtype", x.dtype), x.shape)]


@operator("EyeLike", shape=_eye_shape, into=True)
def _eye(inputs, attributes, out=None):
    n, m = inputs[0].shape
    y = result(out, (n, m), attributes.get("dtype", inputs[0].dtype))
    y.fill(0)
    k = max(-n, min(m, int(attributes.get("k", 0))))
    rows = np.arange(max(0, -k), max(0, min(n, m - k)))
    y[rows, rows + k] = 1
    return [y]


@each("BitShift", into=True)
def _bit_shift(inputs, attributes, out=None):
    """By the width of the type or more nothing is left, but the sign: as numpy has it."""
    shifts = {"LEFT": np.left_shift, "RIGHT": np.right_shift}
    if attributes.get("direction") not in shifts:
        raise ValueError(f"BitShift: direction {attributes.get('direction')!r}: expected LEFT or RIGHT")
    return [shifts[attributes["direction"]](*inputs, out=out and out[0])]


def _det_shape(node, inputs):
    x = required(inputs[0])
    if len(x.shape) < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError("expected square matrices")
    return [(x.dtype, x.shape[:-2])]


@operator("Det", shape=_det_shape)
def _det(inputs, attributes):
    x = inputs[0]
    return [np.asarray(np.linalg.det(x.astype(np.promote_types(x.dtype, np.float32)))).astype(x.dtype)]


def _center_shape(node, inputs):
    x, sizes = required(inputs[0]), constants(node, inputs, 1) or []
    axes = node.attributes.get("axes", range(len(x.shape)))
    shape = list(x.shape)
    for a, n in zip(axes, sizes, strict=True):
        shape[normal(int(a), len(shape), "CenterCropPad")] = int(n)
    return [(x.dtype, shape)]


@operator("CenterCropPad", shape=_center_shape)
def _center(inputs, attributes):
    """Along each axis the middle of what is too long, or zeros around what is too short; the odd one is at the end."""
    x, sizes = inputs
    shape, source, target = list(x.shape), [slice(None)] * x.ndim, [slice(None)] * x.ndim
    for a, n in zip(attributes.get("axes", range(x.ndim)), sizes.tolist(), strict=True):
        a = normal(int(a), x.ndim, "CenterCropPad")
        m, shape[a] = x.shape[a], n
        crop, pad = max(0, m - n) // 2, max(0, n - m) // 2
        source[a], target[a] = slice(crop, crop + n), slice(pad, pad + m)
    y = np.zeros(shape, x.dtype)
    y[tuple(target)] = x[tuple(source)]
    return [y]


def _columns(node, inputs):
    """Shapes of an image and of a block, and strides, dilations and pads of each axis."""
    image, block = (constants(node, inputs, i) or [] for i in (1, 2))
    return _steps(node.attributes, [int(n) for n in image], [int(n) for n in block])


def _steps(attributes, image, block):
    rank = len(image)
    strides, dilations = (attributes.get(k) or [1] * rank for k in ("strides", "dilations"))
    pads = attributes.get("pads") or [0] * (2 * rank)
    if len(block) != rank or len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
        raise ValueError(f"blocks {block} of an image {image}, strides {strides}, dilations {dilations}, pads {pads}")
    if min((*image, *block, *strides, *dilations), default=1) < 1 or min(pads, default=0) < 0:
        raise ValueError(f"blocks {block} of an image {image}, strides {strides}, dilations {dilations}, pads {pads}")
    counts = [(n + p + q - d * (k - 1) - 1) // s + 1
              for n, p, q, d, k, s in zip(image, pads, pads[rank:], dilations, block, strides)]  # fmt: skip
    return image, block, strides, dilations, pads, counts


def _col2im_shape(node, inputs):
    x = required(inputs[0])
    image, block, _, _, _, counts = _columns(node, inputs)
    if len(x.shape) != 3 or x.shape[1] % max(prod(block), 1) or x.shape[2] != prod(counts) or min(counts) < 1:
        raise ValueError(f"columns of shape {x.shape}: {prod(counts)} blocks of {block} in an image {image}")
    return [(x.dtype, (x.shape[0], x.shape[1] // prod(block), *image))]


@operator("Col2Im", shape=_col2im_shape, into=True)
def _col2im(inputs, attributes, out=None):
    """Sums of blocks that overlap."""
    x, image, block = inputs[0], inputs[1].tolist(), inputs[2].tolist()
    image, block, strides, dilations, pads, counts = _steps(attributes, image, block)
    rank, taps = len(image), max(prod(block), 1)
    if rank > 3:
        raise Unsupported(f"Col2Im: {rank} spatial axes; 1, 2 or 3 are supported")
    y = result(out, (x.shape[0], x.shape[1] // taps, *image), x.dtype)
    real = as_reals(x).reshape(-1, taps, prod(counts))
    sums = y if y.dtype == real.dtype else np.empty(y.shape, real.dtype)
    ones = (1,) * (3 - rank)
    windows = [(1, 1, 1, 1, 0)] * len(ones) + list(zip(counts, block, strides, dilations, pads))
    arrays = real, sums.reshape(len(real), *ones, *image)
    Columns(*arrays, windows, check_threads(attributes.get("threads")))(*arrays)
    return [sums if sums is y else sums.astype(x.dtype)]
