"""Where a problem lies among others, for the model: numbers in powers of two, one apart is as far as twice the size."""

from __future__ import annotations

from math import log2, prod

from ..convolution.problem import ConvProblem
from ..layout import Layout
from ..moves.loops import Loop, merge
from ..moves.nests import digits
from ..moves.pieces import Side, pieces

APART = 4.0  # what differs in kind lies as far apart as sixteen times the size
PIECES, CHANNELS = 32, 1 << 17  # of a reorder, of a convolution: past that it is like no other, and takes its time


def _log(n: float) -> float:
    return log2(max(n, 1))


def conv_features(p: ConvProblem, threads: int) -> tuple[float, ...]:
    """Of a convolution on so many threads; ValueError if it has more than `CHANNELS`."""
    if max(p.ic, p.oc) > CHANNELS:
        raise ValueError(f"{p.ic} > {p.oc} channels, at most {CHANNELS} are looked at")
    ic, oc, taps, pixels = p.ic // p.groups, p.oc // p.groups, prod(p.kernel), prod(p.out)
    in_place = taps == 1 and max(p.stride) == 1 and not any(map(any, p.padding))
    (src_last, src_block), (dst_last, dst_block) = _kind(p.src), _kind(p.dst)
    return (
        APART * (threads > 1), APART * src_last, APART / 4 * src_block, APART / 2 * dst_last, APART * dst_block,
        _log(ic), _log(oc), 2 * _log(p.groups), 0.25 * _log(pixels), _log(p.out[-1]), 0.25 * _log(prod(p.size)),
        0.5 * _log(taps), APART * (max(p.stride) > 1), 0.5 * len(p.size), APART / 2 * any(map(any, p.padding)),
        APART * in_place, APART * (not src_last and taps == 1), 0.25 * _log(p.flops),
        APART / 2 * (oc % 32 > 0), APART / 4 * (ic % 16 > 0), APART * _empty(oc, 64), APART / 2 * _empty(pixels, 16),
    )  # fmt: skip


def _empty(n: int, block: int) -> float:
    """What `n` in whole blocks is above `n`, in powers of two."""
    return _log(-(-n // block) * block / max(n, 1))


def _kind(layout: Layout) -> tuple[float, float]:
    """Whether channels run innermost, and how many of them before something else."""
    return float(layout.factors[-1].dim == 1), _log(layout.block(1)) / 4


def loops_of(src: Layout, dst: Layout, shape: tuple[int, ...], width: int):
    """The loops of the largest region of a reorder, outermost in the destination first.

    Raises
    ------
    ValueError
        It is cut into more than `PIECES`.
    """
    s = digits(src.axes(shape), [width * x for x in src.axis_strides(shape)], src.rank)
    d = digits(dst.axes(shape), [width * x for x in dst.axis_strides(shape)], dst.rank)
    found, left = [], PIECES
    for n, a, b in zip(shape, s, d):
        if n > 1:
            parts = pieces(0, n, (Side(a), Side(b)), left)
            left -= len(parts) - 1
            largest = max(parts, key=lambda p: prod(n for n, _ in p.loops))
            found += [Loop(n, *strides) for n, strides in largest.loops]
    return merge(found)


def reorder_features(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int) -> tuple[float, ...]:
    """Of a reorder of elements of `width` bytes on so many threads."""
    loops = loops_of(src, dst, shape, width)
    nbytes = width * prod(x.n for x in loops)
    inner = next((x for x in loops[::-1] if x.dst == width), None)
    along = next((x for x in loops if x.src == width), None)
    dst_run = width * inner.n if inner else width
    src_run = width * along.n if along else width
    copies = inner is not None and inner is along
    read_pitch = abs(inner.src) if inner else 0
    write_pitch = abs(along.dst) if along else 0
    return (
        APART / 2 * (threads > 1), 2 * APART * copies, APART * (inner is None), APART * (along is None),
        1.7 * _log(nbytes), 0.5 * _log(width), _log(dst_run), _log(src_run),
        0.5 * _log(read_pitch), 0.5 * _log(write_pitch),
        2.0 * (read_pitch % 4096 == 0), 2.0 * (write_pitch % 4096 == 0),
        1.0 * (write_pitch % 64 == 0),
    )  # fmt: skip


def filter_features(oc: int, ic: int, taps: int, groups: int) -> tuple[float, ...]:
    """Of packing a filter."""
    return (_log(oc), _log(ic // groups), _log(taps), _log(groups))
