"""Programs: which variant suits a destination that does not begin at a line boundary."""

import pytest

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.problem import Candidate, Choice
from layoutkit.reorders.box import Box
from layoutkit.reorders.program import Transfer, aligned_choice, vector_bytes
from layoutkit.reorders.variants import VARIANTS


def transfer(src, dst, phase, shape=(4, 32, 9, 11), width=4):
    src, dst = lk.Layout(src), lk.Layout(dst)
    strides = [tuple(width * s for s in x.axis_strides(shape)) for x in (src, dst)]
    return Transfer(src, dst, width, *strides, Box.all_of(shape), phase)


def choices(*names):
    return tuple(Choice(Candidate(name, k, lambda: None), k, "estimated") for k, name in enumerate(names))


@pytest.mark.parametrize("name", VARIANTS)
def test_the_first_one_suits_a_destination_that_begins_with_a_line(name):
    assert aligned_choice(choices(name, "store allx64"), transfer("NCHW", "NHWC", 0)) == name


STREAMS = [n for n, v in VARIANTS.items() if v.stream and not (v.slabs or v.blocking.panel or v.blocking.fused)]


@pytest.mark.parametrize("name", STREAMS)
def test_streams_that_write_parts_of_lines_are_passed_over(name):
    plain = transfer("NCHW", "NHWC", 4)
    assert aligned_choice(choices(name, "store allxall", "panels x128"), plain) == "store allxall"
    assert aligned_choice(choices(name, "panels x128", "store allxall"), plain) == "panels x128"
    assert aligned_choice(choices(name, "slabs", "store allxall"), plain) == "slabs"
    assert aligned_choice(choices(name, "stream allx64"), plain) == name  # none suits: the fastest one


@pytest.mark.parametrize("name", ["stream allx64", "stream allx4096 ahead"])
@pytest.mark.parametrize(("src", "dst"), [("NCHW", "NCHW"), ("NCHW", "nChw16c"), ("NHWC", "HWNC")])
def test_streams_that_join_rows_to_lines_and_copies_suit_any_destination(name, src, dst):
    assert aligned_choice(choices(name, "store allxall"), transfer(src, dst, 4)) == name


@pytest.mark.parametrize("name", [n for n, v in VARIANTS.items() if v.blocking.fused])
def test_fused_loops_suit_any_destination_but_wide_elements_do_not(name):
    assert aligned_choice(choices(name, "store allxall"), transfer("NCHW", "NHWC", 4)) == name
    t = transfer("NCHW", "NHWC", 16, (4, 33, 9, 11), 16)
    assert aligned_choice(choices(name, "store allxall"), t) == "store allxall"


def test_blocks_of_one_line_suit_and_longer_ones_do_not():
    found = choices("stream allx64", "store allxall")
    assert aligned_choice(found, transfer("NCHW", "nChw16c", 4)) == "stream allx64"
    assert aligned_choice(found, transfer("NCHW", "nChw32c", 4)) == "store allxall"


def test_one_nest_that_writes_parts_of_lines_is_enough():
    t = transfer("NCHW", "nChw16c", 4, (4, 36, 9, 11))
    found = "stream allx64" if vector_bytes(registry.isa()) == 64 else "store allxall"  # pads complete vectors
    assert aligned_choice(choices("stream allx64", "store allxall"), t) == found
    box = t._replace(box=t.box._replace(whole=False))  # 4 channels of it are written, and nothing else
    assert aligned_choice(choices("stream allx64", "store allxall"), box) == "store allxall"
