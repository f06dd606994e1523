"""Windows of convolutions and pooling, from ONNX's attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


def per_axis(attributes: Mapping[str, Any], name: str, rank: int) -> list[int]:
    """A number for each spatial axis, 1 by default."""
    numbers = [int(n) for n in attributes.get(name) or [1] * rank]
    if len(numbers) != rank or min(numbers) < 1:
        raise ValueError(f"{name} {numbers}: expected {rank} positive numbers")
    return numbers


def pads_of(
    attributes: Mapping[str, Any], size: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int], crops: bool = False,
) -> list[tuple[int, int]]:  # fmt: skip
    """Pairs of pads, before and after each spatial axis.

    `crops`: where strides are longer than windows, the pads of SAME are negative, and pixels are cropped on both sides
    equally; of an odd number SAME_UPPER crops one more in front. This is ONNX's formula for pooling, which its
    reference evaluator follows where it can; onnxruntime rounds half of a negative number towards 0. In both of them
    the pads of convolutions are at least 0.
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
    pairs = []
    for n, k, s, d in zip(size, kernel, stride, dilation):
        total = (-(-n // s) - 1) * s + d * (k - 1) + 1 - n
        total = total if crops else max(0, total)
        small, large = total // 2, total - total // 2
        pairs.append((large, small) if auto == "SAME_LOWER" else (small, large))
    return pairs


def out_size(n: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int], up: int = 0) -> int:
    """How many windows there are along an axis; with `up` (ceil_mode), one that reaches past the end counts if it
    begins before the end."""
    room = n + sum(pads) - (dilation * (kernel - 1) + 1)
    if not up:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - ((count - 1) * stride >= n + pads[0])


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
    up = attributes.get("ceil_mode", 0) if explicit else 0  # in ONNX's formula VALID ignores ceil_mode
    out = [out_size(*v, up) for v in zip(size, taps, stride, dilation, pads)]
    if min(out) < 1:
        raise ValueError(f"a kernel of {tuple(taps)} does not fit into {tuple(size)}")
    return Window(taps, stride, dilation, pads, list(size), out)
