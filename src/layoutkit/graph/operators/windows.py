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
    dilation: Sequence[int],
) -> list[tuple[int, int]]:  # fmt: skip
    """Pairs of pads, before and after each spatial axis."""
    rank, auto = len(size), attributes.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = attributes.get("pads") or [0] * (2 * rank)
        if len(pads) != 2 * rank or min(pads) < 0:
            raise ValueError(f"pads {list(pads)}: expected {2 * rank} numbers, none below 0")
        return [(int(pads[i]), int(pads[i + rank])) for i in range(rank)]
    if auto == "VALID":
        return [(0, 0)] * rank
    found = []
    for n, k, s, d in zip(size, kernel, stride, dilation):
        total = max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
        small = total // 2
        found.append((total - small, small) if auto == "SAME_LOWER" else (small, total - small))
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
    """The window of a convolution or pooling over an input of this spatial size; ValueError if it does not fit."""
    taps = [int(k) for k in (attributes["kernel_shape"] if kernel is None else kernel)]
    if len(size) != len(taps) or min(taps, default=0) < 1:
        raise ValueError(f"kernel {tuple(taps)}: expected {len(size)} positive numbers")
    stride, dilation = (per_axis(attributes, name, len(taps)) for name in ("strides", "dilations"))
    pads, up = pads_of(attributes, size, taps, stride, dilation), attributes.get("ceil_mode", 0)
    out = [out_size(*v, up) for v in zip(size, taps, stride, dilation, pads)]
    if min(out) < 1:
        raise ValueError(f"a kernel of {tuple(taps)} does not fit into {tuple(size)}")
    return Window(taps, stride, dilation, pads, list(size), out)
