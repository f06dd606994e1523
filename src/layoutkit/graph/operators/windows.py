"""Windows of convolutions and pooling, as ONNX says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


def per_axis(attributes: Mapping[str, Any], name: str, rank: int) -> list[int]:
    """A number for each spatial axis, 1 by default."""
    found = [int(n) for n in attributes.get(name) or [1] * rank]
    if len(found) != rank or min(found) < 1:
        raise ValueError(f"{name} {found}: expected {rank} positive numbers")
    return found


def pads_of(
    attributes: Mapping[str, Any], size: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int], crops: bool = False,
) -> list[tuple[int, int]]:  # fmt: skip
    """Pairs of pads, before and after each spatial axis.

    `crops`: where strides are longer than windows, SAME leaves pixels out on both sides, alike, of an odd number one
    more in front for SAME_UPPER. So ONNX's formula of pooling says, whose pads may be negative, and its reference
    evaluator does where it can; onnxruntime rounds half of a negative number towards 0. Pads of convolutions are at
    least 0, in both of them.
    """
    rank, auto = len(size), attributes.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = attributes.get("pads") or [0] * (2 * rank)
        if len(pads) != 2 * rank or min(pads) < 0:
            raise ValueError(f"pads {list(pads)}: expected {2 * rank} numbers, none below 0")
        return [(int(pads[i]), int(pads[i + rank])) for i in range(rank)]
    if auto == "VALID":
        return [(0, 0)] * rank
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise ValueError(f"auto_pad {auto!r}: expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    found = []
    for n, k, s, d in zip(size, kernel, stride, dilation):
        total = (-(-n // s) - 1) * s + d * (k - 1) + 1 - n
        total = total if crops else max(0, total)
        small, large = total // 2, total - total // 2
        found.append((large, small) if auto == "SAME_LOWER" else (small, large))
    return found


def out_size(n: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], up: int = 0) -> int:
    """How many windows there are along an axis; with `up`, one that reaches past the end counts if it begins before."""
    room = n + sum(pads) - (dilation * (kernel - 1) + 1)
    if not up:
        return room // stride + 1
    found = -(-room // stride) + 1
    return found - ((found - 1) * stride >= n + pads[0])


class Window(NamedTuple):
    """By spatial axis."""

    kernel: list[int]
    stride: list[int]
    dilation: list[int]
    pads: list[tuple[int, int]]
    size: list[int]  # of the input
    out: list[int]


def window(attributes: Mapping[str, Any], size: Sequence[int], kernel: Sequence[int] | None = None) -> Window:
    """The window of a convolution with this kernel, or of pooling, over an input of this spatial size; ValueError if it
    does not fit."""
    taps = [int(k) for k in (attributes["kernel_shape"] if kernel is None else kernel)]
    if len(size) != len(taps) or min(taps, default=0) < 1:
        raise ValueError(f"kernel {tuple(taps)}: expected {len(size)} positive numbers")
    stride, dilation = (per_axis(attributes, name, len(taps)) for name in ("strides", "dilations"))
    pads = pads_of(attributes, size, taps, stride, dilation, crops=kernel is None)
    explicit = attributes.get("auto_pad", "NOTSET") in ("NOTSET", "")
    up = attributes.get("ceil_mode", 0) if explicit else 0  # VALID has whole windows only, in ONNX's formula
    out = [out_size(*v, up) for v in zip(size, taps, stride, dilation, pads)]
    if min(out) < 1:
        raise ValueError(f"a kernel of {tuple(taps)} does not fit into {tuple(size)}")
    return Window(taps, stride, dilation, pads, list(size), out)
