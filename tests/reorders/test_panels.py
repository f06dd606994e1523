"""Panels of many sizes: several of them, columns and rows of two digits, destinations of any alignment, every ISA."""

import itertools

import numpy as np
import pytest
from conftest import NEST_ISAS, using_isa
from forced import check

from layoutkit.reorders import tiles
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.variants import VARIANTS

BLOCKS = list(itertools.product(("NCHW", "CHWN", "HWCN"), ("nChw4c", "nChw8c", "nChw16c", "nChw32c")))
PANELS = [name for name, variant in VARIANTS.items() if variant.blocking.panel]
LAYOUTS = ["NCHW", "NHWC", "CHWN", "HWCN", "nChw8c", "nChw16c"]


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("variant", PANELS)
@pytest.mark.parametrize("shape", [(3, 100, 31, 29), (32, 24, 14, 17)])
def test_every_pair(shape, variant, isa):
    with using_isa(isa):
        for src, dst in itertools.permutations(LAYOUTS, 2):
            check(shape, src, dst, np.float32, variant, threads=2)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float64, np.complex128])
@pytest.mark.parametrize("variant", PANELS)
def test_every_width(variant, dtype):
    for src, dst in itertools.permutations(LAYOUTS, 2):
        check((5, 70, 23, 19), src, dst, dtype, variant, end="high")


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("variant", ["stream allx64", "stream allx4096 ahead", "panels x128", "slabs"])
@pytest.mark.parametrize("offset", [16, 60])
def test_destinations_of_any_alignment(offset, variant, isa):
    with using_isa(isa):
        for src, dst in itertools.permutations(LAYOUTS, 2):
            check((32, 48, 9, 11), src, dst, np.float32, variant, end="high", offset=offset)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float64, np.complex128])
@pytest.mark.parametrize("variant", ["panels x128", "panels x256 by destination", "stream allx64 ahead"])
def test_tails_that_wait_for_the_next_panel(variant, dtype, some):
    offset = max(12, np.dtype(dtype).itemsize)
    for src, dst in some(itertools.permutations(LAYOUTS, 2)):
        check((32, 64, 12, 20), src, dst, dtype, variant, threads=2, offset=offset)


@pytest.mark.parametrize("isa", NEST_ISAS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(32, 48, 9, 11), (24, 40, 5, 16), (9, 17, 8, 20)])
def test_blocks_of_narrow_elements(shape, dtype, isa):
    with using_isa(isa):
        for variant, (a, b) in itertools.product(("stream allx64 ahead", "panels x256"), BLOCKS):
            check(shape, a, b, dtype, variant, end="high")
            check(shape, b, a, dtype, variant, end="high")


@pytest.mark.parametrize("variant", PANELS)
def test_filters(variant):
    for dst in ("HWIO", "OHWI", "IHWO", "Oihw16o", "OIhw16i16o", "OIhw8i8o", "Ohwi64o"):
        check((70, 90, 3, 3), "OIHW", dst, np.float32, variant)


def test_a_panel_fits_its_scratch():
    sizes = (1, 2, 4, 8, 16, 64, 256), (1, 3, 9, 100, 5000), (1, 7, 16, 300, 9000)
    for width, along, inner in itertools.product(*sizes):
        rest = [Loop(50, along * width, 77 * width), Loop(40, 3, inner * width)]
        for least in (0, 128, 256, 1024):
            if least == 0 and (inner > 16 or width > 8):  # pads: blocks are short
                continue
            blocking = tiles.Blocking(0, least, False, 1, True)
            loops = Loop(along, width, 1 << 30), Loop(inner, 1 << 30, width)
            for nest in tiles._panels(tiles.Transpose(rest, *loops, 0, 0, width), blocking):
                (i, j), outer = nest.tile, [x.n for x in nest.loops]
                assert (i.n * width + 128) * j.n <= 192 << 10 and max(i.n * width, 64, width) * j.n <= 192 << 10
                assert i.n > 0 and j.n > 0 and min(outer, default=1) > 0
