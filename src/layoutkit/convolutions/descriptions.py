"""Convolutions and their candidates in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .._core.runtime.registry import Kernel
from ..choosing.problem import Description
from ..formats.layout import Layout
from ..reorders.convert import NUMBERS
from .problem import ConvProblem, Pairs, sizes_text
from .types import ConvTypes

_NAMES = {element: name for name, element in NUMBERS.items()}


def on_threads(threads: int) -> str:
    """On how many threads, in words."""
    return f"on {threads} thread{'s' * (threads > 1)}"


def describe_conv(p: ConvProblem, threads: int) -> str:
    """A convolution in words."""
    attributes = p.src_shape, p.types, p.src, p.dst, p.oc, p.kernel, p.stride, p.padding, p.dilation, p.groups
    operation = describe_operation(f"conv{len(p.kernel)}d", *attributes)
    return f"{operation}{f', accuracy {p.accuracy}' * (p.accuracy != 'standard')}, {on_threads(threads)}"


def describe_operation(
    what: str, shape: Sequence[int], types: ConvTypes, src: Layout, dst: Layout, filters: int, kernel: Sequence[int],
    stride: Sequence[int], padding: Pairs, dilation: Sequence[int], groups: int,
) -> str:  # fmt: skip
    """An operation `what` on a tensor in words, but for its threads."""
    x, w, _, y = types.elements
    to = f" -> {_NAMES[y]} {dst}" if y != x else f" -> {dst}" * (src != dst)
    filter_type = f" of {_NAMES[w]}" * (w != x)
    parts = [f"{what} of {tuple(shape)} {_NAMES[x]} {src}{to} with {filters} filters {sizes_text(kernel)}{filter_type}"]
    parts.append(f"stride {_each(stride)}")
    before, after = zip(*padding)
    parts.append(f"padding {_each(before)}" if before == after else f"padding {list(padding)}")
    parts += [f"dilation {_each(dilation)}"] * (max(dilation) > 1)
    parts += [f"{groups} groups"] * (groups > 1)
    return ", ".join(parts)


def _each(sizes: Sequence[int]) -> str:
    """The sizes of all axes, or the one that they share."""
    return str(sizes[0]) if len(set(sizes)) == 1 else sizes_text(sizes)


def describe_candidate(
    name: str, saving: float, tile: str, kernel: Kernel, p: ConvProblem, native: ConvProblem
) -> Description:
    """A candidate in words: `name` and `saving` are the algorithm's, `tile` is its format string for a row."""
    wide = f" as {_NAMES[native.types.elements[0]]}" * (native.types != p.types)
    path = describe_path(p.src, native.src, native.dst, p.dst) + wide
    why = f"{name} multiplies up to {saving:.3g} times less than the direct sum, by which operations are counted"
    inside = inside_share(p)
    if saving == 1.0:
        why = "operations are counted for the padding, too, where there is nothing to do" * (inside < 1)
    return Description(name, tile.format(**kernel._asdict()), path, saving / inside, why)


def describe_path(src: Layout, read: Layout, written: Layout, dst: Layout) -> str:
    """The layouts that a route goes through."""
    before, after = f"{src} -> {read}", f"{written} -> {dst}"
    if src == read and written == dst:
        return "no reorder"
    if written == dst:
        return f"input {before}"
    if src == read:
        return f"output {after}"
    return f"{before} -> {dst}" if read == written else f"input {before}, output {after}"


def inside_share(p: ConvProblem) -> float:
    """The share of the taps of all outputs that read the input and not its padding; 1 if there are no taps."""
    return prod(map(_inside, p.size, p.out, p.kernel, p.stride, p.padding, p.dilation)) or 1.0


def _inside(size: int, out: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int) -> float:
    if out < 1:
        return 1.0
    starts = range(-pads[0], dilation * kernel - pads[0], dilation)  # of the first output's taps
    counts = (min(out, -(-(size - at) // stride)) - max(0, -(at // stride)) for at in starts)
    return sum(max(0, n) for n in counts) / (out * kernel)
