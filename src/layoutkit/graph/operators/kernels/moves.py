"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod

from ...ir import Node
from ..base import MAX_RANK, Known
from ..indices import in_layout, indices_of
from ..layouts import BLOCKED, LAST, PLAIN, layouts_of
from ..moves import TO_LAST, channels_moved, order_of
from ..resize import check_resize, reached, resized
from .base import F32, Kernel


def is_shuffle(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """A shuffle of channels that are not in blocks."""
    return kind != BLOCKED and len(known[node.inputs[0]].shape) in (3, 4, 5)


WIDTHS = 1, 2, 4, 8  # bytes of elements that are taken
MAX_AXES = 3  # that are interpolated, and those between them
MAX_ROWS = 64  # that are summed; by antialiasing, of images that become much smaller


def is_taken(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a node takes elements by constant indices along each axis, and blocks of channels as they are."""
    x, y = known[node.inputs[0]], known[node.outputs[0]]
    if x.value is not None or {x.dtype.itemsize, x.itemsize, y.itemsize} - set(WIDTHS) or 0 in (*x.shape, *y.shape):
        return False
    if kind != PLAIN and not layouts_of(x):
        return False
    indices = indices_of(node, known)
    if indices is None:
        return False
    return kind == PLAIN or in_layout(indices, layouts_of(x)[kind], x.shape) is not None


def is_interpolated(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a node interpolates real numbers along at most three neighbouring axes, none of them of channels where
    these lie together."""
    x, y, along = known[node.inputs[0]], known[node.outputs[0]], node.attributes.get("along")
    if node.op != "Resize" or node.attributes.get("mode") not in ("linear", "cubic") or not along or x.dtype != F32:
        return False
    if x.value is not None or 0 in (*x.shape, *y.shape) or (kind != PLAIN and not layouts_of(x)):
        return False
    with suppress(ValueError):
        check_resize(node.attributes)
        changed = resized(x.shape, node.attributes, None, None)
        axes = [axis for axis, *_ in changed]
        taps = {axis: len(reached(node.attributes, ratio)) for axis, _, ratio in changed}
        if prod(n for axis, n in taps.items() if axis != max(axes)) > MAX_ROWS:
            return False
        return bool(axes) and max(axes) - min(axes) < MAX_AXES and (kind == PLAIN or min(axes) >= 2)
    return False


def is_resized(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """A Resize that takes elements, or interpolates between them."""
    return is_taken(node, known, kind) or is_interpolated(node, known, kind)


ORDERS = "Transpose", "DepthToSpace", "SpaceToDepth"
TAKEN = "Slice", "Pad", "Expand", "Tile"  # by constant indices, as Gather and Resize may be


def is_reordered(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a node brings the elements of its input into another order, without dividing blocks of channels; or is a
    Transpose that does nothing to channels last."""
    x = known[node.inputs[0]]
    if x.value is not None or 0 in x.shape or not 1 <= len(x.shape) <= MAX_RANK or x.itemsize not in (1, 2, 4, 8, 16):
        return False
    if node.op == "Transpose":
        return kind == PLAIN or (kind == LAST and channels_moved(node, len(x.shape)) == TO_LAST)
    if len(x.shape) != 4:  # it says itself what is wrong
        return False
    layout = None if kind == PLAIN else layouts_of(x)[kind]
    return order_of(node.op, node.attributes, x.shape, layout) is not None


KERNELS = {
    **dict.fromkeys(ORDERS, Kernel(is_reordered)),
    **dict.fromkeys(TAKEN, Kernel(is_taken, strided=True)),
    "Resize": Kernel(is_resized, strided=True, any_reals=True),
    "ChannelShuffle": Kernel(is_shuffle),
}
