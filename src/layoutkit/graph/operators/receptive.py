"""Which pixels of its inputs an operator's result reads, along each spatial axis: the base of tiling a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from ...convolutions.receptive import PIXEL, ReceptiveField, of_window
from ..ir import Node
from .axes import REDUCTIONS
from .base import OPERATORS, InputTypes, Known, constants, normal, required
from .windows import pads_of, per_axis, window


class Whole(Exception):
    """Why a node cannot be computed tile by tile."""


class Rule(NamedTuple):
    """What operators read, by spatial axis; `several`: whether inputs other than the first may be data."""

    fields: Callable[[Node, InputTypes, Known], Sequence[ReceptiveField]]
    several: bool = False


FIELDS: dict[str, Rule] = {}


def _rule(*names: str, several: bool = False):
    """Register the function below as the rule of operators."""

    def register(function):
        FIELDS.update(dict.fromkeys(names, Rule(function, several)))
        return function

    return register


def _same(result: Known) -> list[ReceptiveField]:
    return [PIXEL] * (len(result.shape) - 2)


@_rule("BatchNormalization", "LRN", "ChannelShuffle")
def _pixels(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    return _same(result)


@_rule(*(name for name, of in OPERATORS.items() if of.elementwise), several=True)
def _elements(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    """Constants must not vary from pixel to pixel."""
    rank = len(result.shape)
    if any(n != 1 for x in inputs if x is not None and x.value is not None for n in x.shape[2 - rank :]):
        raise Whole("a constant differs from pixel to pixel")
    return _same(result)


AXES = {"Split": 0, "Gather": 0, "ArgMax": 0, "ArgMin": 0}  # by default; of others -1


@_rule("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "Split", "Gather", "ArgMax", "ArgMin")
def _along_channels(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    axis = node.attributes.get("axis", AXES.get(node.op, -1))
    if normal(axis, len(required(inputs[0]).shape), node.op) > 1:
        raise Whole("it goes along a spatial axis")
    return _same(result)


@_rule("Concat", several=True)
def _joined(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    if any(required(x).value is not None for x in inputs):
        raise Whole("it joins a constant")
    return _along_channels(node, inputs, result)


@_rule(*REDUCTIONS)
def _reduced(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    rank, axes = len(required(inputs[0]).shape), constants(node, inputs, 1, "axes")
    if not axes and node.attributes.get("noop_with_empty_axes"):
        return _same(result)
    if any(normal(int(axis), rank, node.op) > 1 for axis in axes or range(rank)):
        raise Whole("it goes along a spatial axis")
    return _same(result)


@_rule("Slice")
def _cut(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    axes = constants(node, inputs, 3, "axes")
    if axes is None:
        axes = list(range(len(constants(node, inputs, 1, "starts") or ())))
    if any(normal(int(axis), len(result.shape), node.op) > 1 for axis in axes):
        raise Whole("it cuts a spatial axis")
    return _same(result)


@_rule("Transpose")
def _turned(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    if node.attributes.get("perm") not in ([0, 1, *range(2, len(result.shape))], [1, 0, *range(2, len(result.shape))]):
        raise Whole("it moves spatial axes")
    return _same(result)


@_rule("QuantizeLinear", "DequantizeLinear")
def _quantised(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    """With one scale, or one per channel."""
    several = any(x is not None and len(required(x).shape) > 0 and required(x).shape != (1,) for x in inputs[1:])
    if several and normal(node.attributes.get("axis", 1), len(result.shape), node.op) > 1:
        raise Whole("its scales are along a spatial axis")
    return _same(result)


FILTERS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}  # which input


@_rule(*FILTERS, "MaxPool", "AveragePool", "LpPool")
def _windows(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    if len([name for name in node.outputs if name]) > 1:
        raise Whole("the indices of its maxima count the pixels of all")
    kernel = required(inputs[FILTERS[node.op]]).shape[2:] if node.op in FILTERS else None
    w = window(node.attributes, required(inputs[0]).shape[2:], kernel)
    return [of_window(s, d * (k - 1) + 1, before)
            for s, k, d, (before, _) in zip(w.stride, w.kernel, w.dilation, w.pads)]  # fmt: skip


@_rule("ConvTranspose")
def _transposed(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    """Tap t of input pixel j adds to pixel ``stride*j + dilation*t - pad`` of the result."""
    a, size, kernel = node.attributes, required(inputs[0]).shape[2:], required(inputs[1]).shape[2:]
    if a.get("output_shape"):
        raise Whole("its output_shape is constant")
    stride, dilation = per_axis(a, "strides", len(size)), per_axis(a, "dilations", len(size))
    extra = a.get("output_padding") or [0] * len(size)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    auto = a.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        total = [r + int(e) - s for r, e, s in zip(reach, extra, stride)]
        before = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
    else:
        before = [pair[0] for pair in pads_of(a, size, kernel, stride, dilation)]
    return [ReceptiveField(1, s, p - r + s, p) for s, r, p in zip(stride, reach, before)]


@_rule("Resize")
def _resized(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    a, x = node.attributes, required(inputs[0])
    for name in ("antialias", "exclude_outside"):
        if a.get(name):
            raise Whole(f"its weights depend on {name}")
    if a.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Whole("it keeps the aspect ratio")
    scales = constants(node, inputs, 2)
    axes = [int(axis) % len(x.shape) for axis in a.get("axes") or range(len(x.shape))]
    explicit = {} if constants(node, inputs, 3) else dict(zip(axes, scales or ()))
    ratios = [Fraction(explicit.get(i, Fraction(result.shape[i], x.shape[i]))) for i in range(2, len(x.shape))]
    return [_scaled(a, ratio) for ratio in ratios]


def _scaled(a: Mapping, ratio: Fraction) -> ReceptiveField:
    """Along one axis: the pixels around each sampled position, over one period of the positions."""
    up, down, kind = ratio.numerator, ratio.denominator, a.get("mode", "nearest")
    place = a.get("coordinate_transformation_mode", "half_pixel")
    if ratio == 1:
        return PIXEL
    if place not in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric"):
        raise Whole(f"its places, {place}, depend on the size of all")
    if 1 not in (up, down):
        raise Whole(f"its scale is {float(ratio):g}: neither it nor its inverse is a whole number")
    if down > 1 and place not in ("half_pixel", "asymmetric"):
        raise Whole(f"its places, {place}, depend on the size of all")
    if (kind != "nearest" or down > 1) and (up * down) & (up * down - 1):
        raise Whole(f"its scale is {float(ratio):g}: weights are exact for powers of two only")
    half = Fraction(place != "asymmetric", 2)
    places = [(i + half) / ratio - half for i in range(up)]
    if kind == "nearest":
        nearest = NEAREST.get(a.get("nearest_mode", "round_prefer_floor"), floor)
        first = last = [nearest(at) for at in places]
    else:
        low, high = {"linear": (0, 1)}.get(kind, (-1, 2))
        first, last = ([floor(at) + k for at in places] for k in (low, high))
    least = min(up * (f + 1) - 1 - down * i for i, f in enumerate(first))
    return ReceptiveField(down, up, least, max(up * l - down * i for i, l in enumerate(last)))


NEAREST: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda at: ceil(at - Fraction(1, 2)),
    "round_prefer_ceil": lambda at: floor(at + Fraction(1, 2)),
    "floor": floor,
    "ceil": ceil,
}


@_rule("Pad")
def _padded(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    """Like the padding of convolutions, pads are at the edges of a window; reflection reads as many pixels inside."""
    mode, rank = node.attributes.get("mode", "constant"), len(result.shape)
    if mode not in ("constant", "edge", "reflect"):
        raise Whole(f"its mode is {mode}")
    pads, axes = constants(node, inputs, 1, "pads") or [], constants(node, inputs, 3)
    axes = list(range(rank)) if axes is None else [normal(int(axis), rank, node.op) for axis in axes]
    pairs = {axis: (int(pads[i]), int(pads[i + len(axes)])) for i, axis in enumerate(axes)}
    fields = []
    for before, after in (pairs.get(axis, (0, 0)) for axis in range(2, rank)):
        if min(before, after) < 0 < max(before, after):
            raise Whole("it pads one end of an axis and cuts the other")
        low, high = (2 * max(0, after), 2 * max(0, before)) if mode == "reflect" else (0, 0)
        fields.append(ReceptiveField(1, 1, -before - low, -before + high))
    return fields


@_rule("DepthToSpace")
def _apart(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    return [ReceptiveField(over=int(node.attributes["blocksize"]))] * 2


@_rule("SpaceToDepth")
def _together(node: Node, inputs: InputTypes, result: Known) -> list[ReceptiveField]:
    b = int(node.attributes["blocksize"])
    return [ReceptiveField(times=b, last=b - 1)] * 2
