"""Winograd as an algorithm of convolution: what it supports, how the filter is packed, how the work is cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from ..._core.nests.convolutions import winograd as core
from ..._core.nests.convolutions import winograd_filter
from ..._core.nests.executor import LoopNest
from ..._core.runtime import registry
from ..._core.runtime.registry import Kernel
from ...choosing import machine
from ...choosing.machine_profile import scale
from ...choosing.threads import get_num_threads
from ...memory.arrays import empty
from ...reorders.reorder import reorder
from ..geometry import Geometry, channels_innermost, geometry, spatial_strides, strides_of
from ..problem import ConvProblem
from ..route import Arrays
from ..types import ConvTypes, conversion_of, converted
from ..winograd_matrices import (
    STRIDED,
    TILES,
    expanding_table,
    expands,
    factors,
    inputs_of,
    kernel_table,
    stride_of,
    tiling,
)
from ..winograd_pieces import Axis, axis_pieces, piece_rows, tap_places
from .base import Algorithm, flops_per_second, rows_of, steps_at_once
from .sums import columns_of, padded_bias
from .winograd_packing import pack_integers, pack_taps

LARGEST_INTEGER_SUM = 2**25  # that its results are less than
PART_CHANNELS = 112  # whose sums are, whatever the filter holds: 112 * 9 * 255 * 128 < 2^25

MIN_CHANNELS = 8  # of a group: of fewer, transforms take longer than direct sums
FEW_CHANNELS = 32  # below so many, direct summation rounds far less than F(4,3)
GROUP_PRODUCTS = 36 * 36  # products times tiles of a group
BLOCK_CHANNELS = 128  # output channels of a block
MOST_TAPS = 16  # of a filter along an axis
MOST_SUMMED = 32  # taps along the depth times pieces: all of them are transformed before they are multiplied
READING_TILES = 3.0  # reading the filter for a group takes as long as so many tiles
TILE_STEPS = 6.0  # overhead of a register tile, in steps of its sum
FREE_LOADS = 0.42  # loads per FMA that cost nothing
LOAD_COST = 0.25  # of each further load per FMA, in FMAs
RUN_BYTES = 16  # alignment of the runs of sums in the transformed input: four steps
CHAINS = 8  # sums that a register tile needs to hide the latency of FMAs
INPUT_COLUMNS = 8  # transforming the input takes as long as so many output channels
EVICTED = 2  # bytes of the filter read from memory for each byte that exceeds half of the last-level cache

# Rates of reading the filter from memory and from the last-level cache, and of the transforms on one core.
MEMORY_BYTES_PER_SECOND, CACHE_BYTES_PER_SECOND, L2_BYTES_PER_SECOND = 30e9, 70e9, 80e9
INTEGER_TRANSFORMS = 1.5  # time of transforms of integers, in those of floats
CUT_TRANSFORMS, WIDE_LANES = 2.0, 16  # of pieces and of stride 2, on narrower vectors, in those of whole filters
EXPANDED_BYTES_PER_SECOND = 100e9  # that are written of an expanded filter
MIN_EXPANDED_BYTES = 2 << 20  # of the transformed filter
MAX_EXPANDED_TILES = 144
PACK_RATIO = 0.7  # cost of packing an element, in reorders of one


class Winograd(Algorithm):
    """F(m x m, 3x3), and F(m, 3) for filters of one row; F(3 x 3, 3x3) of stride 2. Larger filters are sums of pieces.

    `expanded`: its filter is packed as it is, and transformed while it is multiplied. So a quarter (of F(4,3)) is read
    from memory, and held there.

    `parts`: sums of integers are those of parts of the channels, each of which is in range whatever the filter holds.
    """

    name, narrow, strided, stages = "winograd", True, True, True
    register_tile = "{mr} tiles x {nr} channels"

    def __init__(self, m: int, expanded: bool = False, parts: bool = False) -> None:
        self.m, self.expanded, self.parts = m, expanded, parts
        self.variant = f"F({m},3)" + " in parts" * parts + " of stride 2" * (m == STRIDED)
        self.filters = "winograd taps" if expanded else f"winograd F({m},3)"
        self.packs = (len(factors(m)) / 3) ** 2 * PACK_RATIO  # so many times more elements, and the arithmetic
        self._expanding = None if expanded or parts or m in (2, STRIDED) else Winograd(m, True)

    def read_once(self, p: ConvProblem) -> Algorithm:
        if self._expanding is None or p.types.name != "f32":
            return self
        tiles, _, filter_bytes = _counts(p, self.m)
        few = filter_bytes >= MIN_EXPANDED_BYTES and tiles <= MAX_EXPANDED_TILES
        axes = sum(m > 1 for m in tile(p, self.m))
        return self._expanding if few and expands(self.m, p.ic // p.groups, taps(p, self.m), axes) else self

    def supports(self, p: ConvProblem) -> str | None:
        g, integers = turned(p), p.types.integers
        kernel = "x".join(map(str, p.kernel))
        if integers and (self.m != 4 or g.kernel[1:] != (3, 3) or strides(p) != (1, 1)):
            return "winograd of integers is F(4,3) of 3x3 without a stride"
        few = p.ic // p.groups * g.kernel[0] <= PART_CHANNELS
        if self.parts and (not integers or p.types.dst == p.types.sum or few):
            return f"winograd in parts is for integers of more than {PART_CHANNELS} channels whose sums are rounded"
        if not 1 < g.kernel[2] <= MOST_TAPS or g.kernel[1] > MOST_TAPS:
            return f"winograd is for kernels of 2 to {MOST_TAPS} along one or both of the last axes, not of {kernel}"
        if any(s > 1 and d > 1 for s, d in zip(strides(p), g.dilation[1:])):
            return f"winograd takes no stride with a dilation along one axis: stride {p.stride}, dilation {p.dilation}"
        if self.m == STRIDED and not (strides(p) == (2, 2) and g.kernel[1] > 1 and g.dilation[1:] == (1, 1)):
            return f"winograd of stride 2 is for such a stride along both axes, not for {p.stride}"
        if taps(p, self.m) > MOST_SUMMED:
            return f"winograd cuts a kernel of {kernel} into {taps(p, self.m)} pieces, more than {MOST_SUMMED}"
        if not self.saving(p) > 1:
            return f"winograd saves no multiplications for kernels of {kernel} with stride {p.stride}"
        for layout, channels, side in ((p.src, p.ic, "input"), (p.dst, p.oc, "output")):
            block = layout.block(1)
            small = block == 8 and not (integers and side == "input")
            if not channels_innermost(layout) or (block > 1 and not small and block % 16):
                return (
                    f"{side} layout {layout} does not have its channels innermost, whole or in blocks of 8, 16, 32, .."
                )
            if p.groups > 1 and channels // p.groups % block:
                return f"{channels // p.groups} {side} channels a group are no multiple of the block in {layout}"
        return None

    def accuracy(self, p: ConvProblem, threads: int) -> str:
        """Direct summation over few channels has small rounding errors, F(4,3) has not.

        Transformed tiles are rounded to narrow types, which with F(2,3), and with stride 2, is twice the error of
        rounding the result. Integers are exact; filters whose sums might be out of range make their problems "strict",
        for which sums are in parts.
        """
        if p.types.integers:
            return "strict" if self.parts else "standard"
        if p.types.narrow:
            return "standard" if self.m in (2, STRIDED) and p.types.dst == p.types.src else "fast"
        if self.m in (2, STRIDED) or (self.m == 4 and p.ic // p.groups >= FEW_CHANNELS):
            return "standard"
        return "fast"

    def redundant(self, p: ConvProblem) -> bool:
        return p.ic // p.groups < MIN_CHANNELS

    def kernels(self, p: ConvProblem) -> Sequence[Kernel]:
        family = "gemm_s16" if p.types.integers else self.family
        rows = rows_of(family, p.types.tiles, registry.isa()) if has_transforms(p.types) else ()
        return [k for k in rows if steps_at_once(k) == 1]  # a tile unit sums directly before tiles are transformed

    def fits(self, p: ConvProblem, kernel: Kernel) -> bool:
        # pads in a unit would count, as they may hold anything: 0 times NaN is NaN
        padded = p.src.block(1) > 1 and p.ic // p.groups % kernel.kr > 0 and not p.types.integers
        filled = kernel.k_step > kernel.kr and p.ic // p.groups % kernel.k_step > 0  # by what follows its channels
        return super().fits(p, kernel) and not padded and not filled

    def alignment(self, p: ConvProblem, kernel: Kernel) -> int:
        return RUN_BYTES

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        tiles, products, filter_bytes = _counts(p, self.m)
        groups, blocks = cut(p, self.m, kernel, threads, self.expanded)
        columns, lanes = columns_of(p), kernel.lanes
        steps = -(-p.ic // p.groups // kernel.kr) * taps(p, self.m)
        flops = 2 * products * p.groups * (steps + TILE_STEPS) * lanes * _vectors(columns, kernel)
        beyond = max(0, filter_bytes - machine.last_level_cache() // 2)
        far = min(filter_bytes, EVICTED * beyond)
        stream = groups * (
            far / MEMORY_BYTES_PER_SECOND * scale().copy_memory
            + (filter_bytes - far) / CACHE_BYTES_PER_SECOND * scale().copy_l3
        )
        at_once = 2 * lanes if p.types.integers else lanes  # input channels of a vector; of integers they take 16 bits
        read = -(-p.ic // p.groups // at_once) * at_once // lanes
        vectors = read * taps(p, self.m) + -(-columns // lanes)
        slower = INTEGER_TRANSFORMS if p.types.integers else 1.0
        if taps(p, self.m) > turned(p).kernel[0] or self.m == STRIDED:
            slower *= CUT_TRANSFORMS if lanes < WIDE_LANES else 1.0
        moved = slower * p.types.sum.itemsize * (products + tiles * prod(tile(p, self.m))) * p.groups * vectors * lanes
        if self.parts:  # outputs are transformed, written and added once more for each part
            more = turned(p).kernel[0] * -(-p.ic // p.groups // PART_CHANNELS) - 1
            outputs = products + 3 * tiles * prod(tile(p, self.m))
            moved += more * slower * p.types.sum.itemsize * outputs * p.groups * -(-columns // lanes) * lanes
        expanding = 0.0
        if self.expanded:
            stream = p.filter_bytes / MEMORY_BYTES_PER_SECOND * scale().copy_memory
            expanding = groups * filter_bytes / EXPANDED_BYTES_PER_SECOND * scale().copy_l2
        multiply = expanding + flops * (1 + READING_TILES * groups / max(1, tiles)) / flops_per_second(kernel)
        most = _busiest(p, kernel, threads, groups, blocks) / max(1, p.groups * groups * (columns + INPUT_COLUMNS))
        # transforms of integers are bound by instructions, others by the second cache
        transforming = scale().run if p.types.integers else scale().copy_l2
        return most * (max(multiply, stream) + moved / L2_BYTES_PER_SECOND * transforming)

    def saving(self, p: ConvProblem) -> float:
        of_axes = zip(tile(p, self.m), turned(p).kernel[1:], pieces(p, self.m))
        return prod(m / inputs_of(m) * k / len(axis.taps) for m, k, axis in of_axes if m > 1)

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [G][factors][panels][depth][units][nr][kr]; bias -> [G][panels * nr] or None."""
        panels = -(-columns_of(p) // kernel.nr)
        bias, wide = padded_bias(p, bias, panels * kernel.nr), p.types.wide
        if p.types.integers:
            return pack_integers(w, p.groups, panels, kernel), bias
        w = converted(w, p.types.elements[1], wide.elements[1])
        w = w[(slice(None), slice(None), *[None] * (5 - w.ndim))]
        w, cut_into = w.swapaxes(3, 4) if one_column(p) else w, pieces(p, self.m)
        if self.expanded:
            return pack_taps(w, *cut_into, p.groups, panels, kernel), bias
        gw = factors(self.m)
        gh = gw if piece_rows(w) > 1 else np.ones((1, 1))
        places = tap_places(*cut_into, w.shape[4], piece_rows(w))
        shape = (p.groups, len(gh) * len(gw), panels, w.shape[2] * len(places), w.shape[1], kernel.nr)
        packed = empty(shape, wide.filter, "filter")
        winograd_filter.pack(wide.name, w, places, gh, gw, packed, get_num_threads())
        if kernel.kr > 1:
            dtype = conversion_of((wide.elements[1], p.types.elements[1]))
            packed = reorder(packed.reshape(prod(shape[:4]), *shape[4:]), "abc", f"aBc{kernel.kr}b", dtype=dtype)
        return packed, bias

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> core.Winograd:
        g = turned(p)
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        ic, block, columns, y_block = p.ic // p.groups, p.src.block(1), columns_of(p), p.dst.block(1)
        padded_ic = -(-ic // block) * block
        whole = max(1, columns)
        sides = ("in", p.types.tiles), ("out", p.types.wide.tiles)
        transforms = tuple(transform_row(side, types, tile(p, self.m)) for side, types in sides)
        of_pixels = [spatial_strides(s) for s in (xs, ys)]
        if one_column(p):
            of_pixels = [turn(s) for s in of_pixels]
        of_arrays = [(s[0][0].stride, *spatial) for s, spatial in zip((xs, ys), of_pixels)]
        nest = LoopNest(kernel.name, g, threads, of_arrays[0], of_arrays[1], p.types.name)
        table = np.array([] if p.types.integers else [float(k) for k in kernel_table(self.m)], p.types.sum)
        return core.Winograd(
            nest, transforms, table, ic,
            (padded_ic, block if block > 1 else max(1, padded_ic), xs[1][0].stride, ic // block * xs[1][0].stride),
            (columns, y_block, ys[1][0].stride) if y_block > 1 else (columns, whole, p.types.dst.itemsize * whole),
            pieces(p, self.m), *tilings(p, self.m), *cut(p, self.m, kernel, threads, self.expanded), self._expand(p),
            PART_CHANNELS * self.parts,
        )  # fmt: skip

    def _expand(self, p: ConvProblem) -> tuple[str, np.ndarray] | None:
        """What expands the filter, if it is packed as it is."""
        if not self.expanded:
            return None
        row = rows_of("winograd_expand", p.types.tiles, registry.isa())[0]
        return row.name, np.array(expanding_table(self.m), p.types.sum)


WINOGRAD = (*map(Winograd, TILES), Winograd(4, parts=True))


def has_transforms(types: ConvTypes) -> bool:
    """Whether there are kernels that transform tiles of these types."""
    return bool(rows_of("winograd_in", types.tiles, registry.isa()))


def turned(p: ConvProblem) -> Geometry:
    """The geometry of `p`, height and width exchanged where the filter is one column: tiles are along the width."""
    g = geometry(p)
    return Geometry(*map(turn, g)) if one_column(p) else g


def one_column(p: ConvProblem) -> bool:
    """Whether the filter has several taps along the height and one along the width."""
    return len(p.kernel) > 1 and p.kernel[-2] > 1 and p.kernel[-1] == 1


def turn(values):
    """Three numbers, one for each spatial axis, with the last two exchanged; anything else as it is."""
    return (values[0], values[2], values[1]) if isinstance(values, tuple) else values


def pieces(p: ConvProblem, m: int) -> tuple[Axis, Axis]:
    """The pieces of 3 taps that a filter is cut into along height and width, for tiles of m outputs.

    They must not depend on the size: the packed filter serves all sizes. A `Geometry` has stride 1 for one output.
    """
    g, of_tiles = turned(p), stride_of(m)
    high, wide = (axis_pieces(*each, of_tiles) for each in zip(g.kernel[1:], strides(p), g.dilation[1:]))
    return high, wide


def strides(p: ConvProblem) -> tuple[int, int]:
    """Those along height and width, as `turned`."""
    high, wide = (1, *p.stride)[-2:]
    return (wide, high) if one_column(p) else (high, wide)


def taps(p: ConvProblem, m: int) -> int:
    """What is summed directly: taps along the depth, times pieces."""
    return turned(p).kernel[0] * prod(len(axis.taps) for axis in pieces(p, m))


def transform_row(side: str, types: str, tile: tuple[int, int]) -> str:
    """The name of the kernel that transforms tiles "in" or "out" on this machine."""
    return next(k.name for k in rows_of(f"winograd_{side}", types, registry.isa()) if (k.mr, k.nr) == tile)


def tile(p: ConvProblem, m: int) -> tuple[int, int]:
    """The tile of outputs: m x m, or 1 x m where the filter is one row or column."""
    return (m if turned(p).kernel[1] > 1 else 1), m


def tilings(p: ConvProblem, m: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The numbers of whole and of short tiles of a phase, along height and along width."""
    g = turned(p)
    high, wide = (-(-out // step) for out, step in zip(g.out[1:], steps(p)))
    mh, mw = tile(p, m)
    return tiling(high, mh), tiling(wide, mw)


def steps(p: ConvProblem) -> tuple[int, int]:
    """Pixels from output to output of a tile, along height and width: so many phases are convolutions of their own."""
    g = turned(p)
    return g.dilation[1] if g.kernel[1] > 1 else 1, g.dilation[2]


def _counts(p: ConvProblem, m: int) -> tuple[int, int, int]:
    """The number of tiles of the output, that of products, and the bytes of the packed filter without its tails."""
    g = turned(p)
    tiles = products = p.n * g.out[0] * prod(map(min, steps(p), g.out[1:]))
    of_filter = 1
    for (whole, short), outputs in zip(tilings(p, m), tile(p, m)):
        n = inputs_of(m) if outputs > 1 else 1
        tiles *= whole + short
        products *= whole * n + short * (n - stride_of(m))
        of_filter *= len(factors(m)) if outputs > 1 else 1
    return tiles, products, p.types.filter.itemsize * of_filter * p.ic * taps(p, m) * (p.oc // p.groups)


def _vectors(columns: int, kernel: Kernel) -> float:
    """Vectors of output channels, weighted by cost: higher with more loads per FMA or too few sums in flight."""
    most, total = kernel.nr // kernel.lanes, 0.0
    vectors = -(-columns // kernel.lanes)
    for v, panels in ((most, vectors // most), (vectors % most, 1)):
        if v:
            loads = max(0.0, 1 / v + 1 / kernel.mr - FREE_LOADS)
            total += panels * v * max(1 + LOAD_COST * loads, CHAINS / (kernel.mr * v))
    return total


def _busiest(p: ConvProblem, kernel: Kernel, threads: int, groups: int, blocks: int) -> int:
    """The work of the busiest thread: output channels times groups of tiles, plus the inputs that it transforms."""
    columns = columns_of(p)
    panels, tasks = -(-columns // kernel.nr), p.groups * groups * blocks

    def before(task: int) -> int:
        group, block = divmod(task, blocks)
        return group * columns + min(columns, (panels // blocks * block + min(block, panels % blocks)) * kernel.nr)

    ends = [tasks * t // threads for t in range(threads + 1)]
    return max(before(end) - before(start) + INPUT_COLUMNS * (-(-end // blocks) - start // blocks)
               for start, end in pairwise(ends))  # fmt: skip


def cut(p: ConvProblem, m: int, kernel: Kernel, threads: int, expanded: bool = False) -> tuple[int, int]:
    """The number of groups that the tiles are cut into, and of blocks of output channels.

    The filter is read once per group from whichever cache holds it: groups are large enough to hide that, and small
    enough to keep V and M in the inner caches. With several threads there are more of either if that leaves less work
    to the busiest one.
    """
    tiles, products, filter_bytes = _counts(p, m)
    panels = max(1, -(-columns_of(p) // kernel.nr))
    rows = max(12, GROUP_PRODUCTS * tiles // max(1, products))
    if expanded or filter_bytes > machine.last_level_cache() // 2:
        rows *= 2
    groups, blocks = max(1, -(-tiles // rows)), max(1, panels * kernel.nr // BLOCK_CHANNELS)
    choices = {(g, b) for g in (groups, min(_multiple(groups, threads), max(1, tiles)))
               for b in (min(blocks, panels), min(_multiple(blocks, threads), panels))}  # fmt: skip

    def cost(choice: tuple[int, int]) -> tuple[float, int, int]:
        g, b = choice
        return _busiest(p, kernel, threads, g, b) / g * (1 + READING_TILES * g / max(1, tiles)), g * b, g

    return min(choices, key=cost)


def _multiple(n: int, of: int) -> int:
    return -(-n // of) * of
