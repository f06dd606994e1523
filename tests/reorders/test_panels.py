"""Panels of many sizes: several of them, columns and rows of two digits, destinations of any alignment, every ISA."""

import itertools

import numpy as np
import pytest
from conftest import using_isa
from forced import check

from layoutkit._core import registry
from layoutkit.reorders import leaves
from layoutkit.reorders.kinds import KINDS
from layoutkit.reorders.loops import Loop

BLOCKS = list(itertools.product(("NCHW", "CHWN", "HWCN"), ("nChw4c", "nChw8c", "nChw16c", "nChw32c")))
PANELS = [name for name, kind in KINDS.items() if kind.blocking.panel]
LAYOUTS = ["NCHW", "NHWC", "CHWN", "HWCN", "nChw8c", "nChw16c"]


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("kind", PANELS)
@pytest.mark.parametrize("shape", [(3, 100, 31, 29), (32, 24, 14, 17)])
def test_every_pair(shape, kind, isa):
    with using_isa(isa):
        for src, dst in itertools.permutations(LAYOUTS, 2):
            check(shape, src, dst, np.float32, kind, threads=2)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float64, np.complex128])
@pytest.mark.parametrize("kind", PANELS)
def test_every_width(kind, dtype):
    for src, dst in itertools.permutations(LAYOUTS, 2):
        check((5, 70, 23, 19), src, dst, dtype, kind, end="high")


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("kind", ["stream allx64", "stream allx4096 ahead", "panels x128", "slabs"])
@pytest.mark.parametrize("offset", [16, 60])
def test_destinations_of_any_alignment(offset, kind, isa):
    with using_isa(isa):
        for src, dst in itertools.permutations(LAYOUTS, 2):
            check((32, 48, 9, 11), src, dst, np.float32, kind, end="high", offset=offset)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float64, np.complex128])
@pytest.mark.parametrize("kind", ["panels x128", "panels x256 by destination", "stream allx64 ahead"])
def test_tails_that_wait_for_the_next_panel(kind, dtype):
    offset = max(12, np.dtype(dtype).itemsize)
    for src, dst in itertools.permutations(LAYOUTS, 2):
        check((32, 64, 12, 20), src, dst, dtype, kind, threads=2, offset=offset)


@pytest.mark.parametrize("isa", registry.isas())
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(32, 48, 9, 11), (24, 40, 5, 16), (9, 17, 8, 20)])
def test_blocks_of_narrow_elements(shape, dtype, isa):
    with using_isa(isa):
        for kind, (a, b) in itertools.product(("stream allx64 ahead", "panels x256"), BLOCKS):
            check(shape, a, b, dtype, kind, end="high")
            check(shape, b, a, dtype, kind, end="high")


@pytest.mark.parametrize("kind", PANELS)
def test_filters(kind):
    for dst in ("HWIO", "OHWI", "IHWO", "Oihw16o", "OIhw16i16o", "OIhw8i8o", "Ohwi64o"):
        check((70, 90, 3, 3), "OIHW", dst, np.float32, kind)


def test_a_panel_fits_its_scratch():
    sizes = (1, 2, 4, 8, 16, 64, 256), (1, 3, 9, 100, 5000), (1, 7, 16, 300, 9000)
    for width, along, inner in itertools.product(*sizes):
        rest = [Loop(50, along * width, 77 * width), Loop(40, 3, inner * width)]
        for least in (0, 128, 256, 1024):
            if least == 0 and (inner > 16 or width > 8):  # pads: blocks are short
                continue
            blocking = leaves.Blocking(0, least, False, 1, True)
            loops = Loop(along, width, 1 << 30), Loop(inner, 1 << 30, width)
            for nest in leaves._panels(rest, *loops, 0, 0, width, blocking):
                (i, j), outer = nest.leaf, [x.n for x in nest.loops]
                assert (i.n * width + 128) * j.n <= 192 << 10 and max(i.n * width, 64, width) * j.n <= 192 << 10
                assert i.n > 0 and j.n > 0 and min(outer, default=1) > 0
