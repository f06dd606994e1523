"""Features of convolutions and filters, by which the model finds their neighbours."""

from __future__ import annotations

from math import prod

from ..choosing.features import APART, log
from ..formats.layout import Layout
from .problem import ConvProblem

MOST_CHANNELS = 1 << 17  # with more, a convolution has no features: planning it would take long


def conv_features(p: ConvProblem, threads: int) -> tuple[float, ...]:
    """Of a convolution on so many threads; ValueError if it has more than `MOST_CHANNELS`."""
    if max(p.ic, p.oc) > MOST_CHANNELS:
        raise ValueError(f"{p.ic} > {p.oc} channels, at most {MOST_CHANNELS} are looked at")
    ic, oc, taps, pixels = p.ic // p.groups, p.oc // p.groups, prod(p.kernel), prod(p.out)
    in_place = taps == 1 and max(p.stride) == 1 and not any(map(any, p.padding))
    (src_last, src_block), (dst_last, dst_block) = _kind(p.src), _kind(p.dst)
    return (
        APART * (threads > 1), APART * src_last, APART / 4 * src_block, APART / 2 * dst_last, APART * dst_block,
        log(ic), log(oc), 2 * log(p.groups), 0.25 * log(pixels), log(p.out[-1]), 0.25 * log(prod(p.size)),
        0.5 * log(taps), APART * (max(p.stride) > 1), 0.5 * len(p.size), APART / 2 * any(map(any, p.padding)),
        APART * in_place, APART * (not src_last and taps == 1), 0.25 * log(p.flops),
        APART / 2 * (oc % 32 > 0), APART / 4 * (ic % 16 > 0), APART * _empty(oc, 64), APART / 2 * _empty(pixels, 16),
    )  # fmt: skip


def _empty(n: int, block: int) -> float:
    """How much larger `n` in whole blocks is than `n`, in powers of two."""
    return log(-(-n // block) * block / max(n, 1))


def _kind(layout: Layout) -> tuple[float, float]:
    """Whether channels run innermost, and how many of them before something else."""
    return float(layout.factors[-1].dim == 1), log(layout.block(1)) / 4


def filter_features(oc: int, ic: int, taps: int, groups: int) -> tuple[float, ...]:
    """Of packing a filter."""
    return (log(oc), log(ic // groups), log(taps), log(groups))
