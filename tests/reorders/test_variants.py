"""Variants: their names are the keys of stored cost tables, so that none may change or come to mean another one."""

import numpy as np
import pytest

from layoutkit import Layout
from layoutkit.choosing.best import choices
from layoutkit.reorders.binding import UNCHANGED, Call, decide
from layoutkit.reorders.costs import MEMORY
from layoutkit.reorders.estimate import level_of
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.nest import Blocking, Nest
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.slabs import Runs, Slab
from layoutkit.reorders.variants import VARIANTS, Variant, describe_nests

NAMES = {  # and what they mean: stream, src_run, dst_run, prefetch, order, panel, slabs
    "store allx64": (False, 0, 64, False, 1, False, False),
    "store allxall": (False, 0, 0, False, 1, False, False),
    "store 128x512 ahead": (False, 128, 512, True, 1, False, False),
    "store allx64 ahead": (False, 0, 64, True, 1, False, False),
    "store allx1024 ahead": (False, 0, 1024, True, 1, False, False),
    "store allx4096 ahead": (False, 0, 4096, True, 1, False, False),
    "store 1024xall ahead": (False, 1024, 0, True, 1, False, False),
    "store allx64 ahead by destination": (False, 0, 64, True, 2, False, False),
    "stream allx64": (True, 0, 64, False, 1, False, False),
    "stream allxall": (True, 0, 0, False, 1, False, False),
    "stream 128x512 ahead": (True, 128, 512, True, 1, False, False),
    "stream allx64 ahead": (True, 0, 64, True, 1, False, False),
    "stream allx1024 ahead": (True, 0, 1024, True, 1, False, False),
    "stream allx4096 ahead": (True, 0, 4096, True, 1, False, False),
    "stream 1024xall ahead": (True, 1024, 0, True, 1, False, False),
    "stream allx64 ahead by destination": (True, 0, 64, True, 2, False, False),
    "panels x128": (True, 0, 128, False, 1, True, False),
    "panels x256": (True, 0, 256, False, 1, True, False),
    "panels x1024": (True, 0, 1024, False, 1, True, False),
    "panels x256 by destination": (True, 0, 256, False, 2, True, False),
    "slabs": (True, 0, 0, False, 1, False, True),
    "fused x64": (True, 64, 16384, False, 1, False, False),
    "fused x256": (True, 256, 16384, False, 1, False, False),
    "fused x1024": (True, 1024, 16384, False, 1, False, False),
    "joined": (True, 1024, 16384, False, 1, False, False),
    "windows": (False, 0, 64, False, 1, False, False),
    "scattered": (True, 0, 0, False, 1, False, False),
}


def test_names_are_stable():
    assert {name: (v.stream, *v.blocking[:5], v.slabs) for name, v in VARIANTS.items()} == NAMES
    assert list(VARIANTS) == list(NAMES)  # estimates prefer earlier ones
    assert all(v.blocking.phase == 0 for v in VARIANTS.values())
    assert [n for n, v in VARIANTS.items() if v.blocking.fused] == list(NAMES)[-6:-2]
    assert [n for n, v in VARIANTS.items() if v.blocking.joined] == ["joined"]
    assert [n for n, v in VARIANTS.items() if v.windows] == ["windows"]
    assert [n for n, v in VARIANTS.items() if v.blocking.scattered] == ["scattered"]


def test_each_variant_has_a_name_of_its_own():
    assert all(v.name == name for name, v in VARIANTS.items())
    for at, other in (("src_run", 4096), ("dst_run", 2048), ("prefetch", None), ("order", 2)):
        b = Blocking(0, 64, False, 1)
        changed = b._replace(**{at: not getattr(b, at) if other is None else other})
        for stream in (False, True):
            assert Variant(stream, changed).name != Variant(stream, b).name


def test_what_a_plan_tells_of_its_nests():
    nest = Nest("transpose", 32, (Loop(3, 8, 4000),), (Loop(5, 4, 64), Loop(16, 200, 4)), 0, 0)
    line = "transpose x32, tile 5(4>64) 16(200>4), loops 3(8>4000)"
    assert describe_nests([nest] * 3, VARIANTS["store allx64"], None) == (line,) * 3
    assert describe_nests([nest] * 5, VARIANTS["store allx64"], None) == (*(line,) * 3, "and 2 more")
    assert describe_nests([nest], VARIANTS["panels x128"], None) == (line.replace("x32,", "x32 in panels,"),)
    slab = Slab((1, 2), (1, 2), (Loop(7, 10, 4096),), (), 0, 0, (), (), 4096, nest, Runs(64, ()), True)
    assert describe_nests([nest], VARIANTS["slabs"], slab) == ("slabs of 4096 bytes, loops 7(10>4096)", line)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 8, 7, 7), (1, 72, 56, 56), (1, 512, 500, 500)])
def test_what_is_read_next_is_not_written_past_caches_that_hold_it(shape, threads):
    problem = ReorderProblem(Layout("NCHW"), Layout("nChw16c"), shape, 4, threads)
    ways = choices(problem)
    kept = problem.read_next(ways)
    if level_of(problem.footprint) == MEMORY:
        assert kept == ways
    else:
        assert {VARIANTS[way.candidate.name].stream for way in kept} == {False}
    x = np.empty(shape, np.float32)  # no page of which is touched
    call = Call(x, "NCHW", "nChw16c", shape, None, UNCHANGED, None, None, 0, threads)
    assert decide(call, read_next=True).variant in [way.candidate.name for way in kept]
