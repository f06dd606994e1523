"""View or copy, against the bytes themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import reference
from strategies import layouts, shapes

from layoutkit.formats.layout import Layout
from layoutkit.formats.view import explain, is_view


@st.composite
def pairs(draw):
    rank = draw(st.integers(1, 3))
    src = draw(layouts(min_rank=rank, max_rank=rank, max_blocks=2))
    dst = draw(st.just(src) | layouts(min_rank=rank, max_rank=rank, max_blocks=2))
    return src, dst, draw(st.tuples(*[st.sampled_from([0, 1, 1, 2, 3, 4, 8])] * rank))


@given(pairs())
def test_dense_views_are_exactly_where_the_memory_already_reads_as_the_result(pair):
    src, dst, shape = pair
    tensor = 1 + np.arange(np.prod(shape)).reshape(shape)
    memory = reference.to_physical(tensor, src).reshape(-1)
    result = reference.to_physical(tensor, dst).reshape(-1)
    same = len(result) <= len(memory) and (memory[: len(result)] == result).all()
    move = explain(src, dst, shape)
    assert is_view(src, dst, shape) == move.view == same
    assert move.reason.startswith("view: " if same else "copy: ")
    assert move.elements == tensor.size and move.pads == result.size - tensor.size
    assert move.one_to_one and move.exhaustive


@given(st.integers(1, 3), st.data())
def test_strided_views_find_elements_and_pads_in_place(rank, data):
    some = layouts(min_rank=rank, max_rank=rank, max_blocks=1, pitched=True)
    src, dst = data.draw(some), data.draw(some)
    if data.draw(st.booleans()):
        dst = src.dense
    shape = data.draw(shapes(rank, most=40))
    same = (reference.offsets(src, shape) == reference.offsets(dst, shape)).all()
    fits = dst.required_span_size(shape) <= src.required_span_size(shape)
    assert is_view(src, dst, shape) == (
        0 in shape or src == dst or bool(same and fits and set(dst.pads(shape)) <= set(src.pads(shape)))
    )


@pytest.mark.parametrize(
    ("src", "dst", "shape", "reason"),
    [
        ("NCHW", "NHWC", (8, 1, 5, 5), "view: every element stays in place"),
        ("NCHW", "NHWC", (1, 3, 5, 5), "copy: index 1 of dimension c lies at 25 in NCHW and at 1 in NHWC"),
        ("nCw4c", "NCW", (1, 3, 1), "view: every element stays in place, and NCW leaves pads of nCw4c off"),
        ("NCW", "nCw4c", (1, 3, 1), "copy: elements stay in place, but nCw4c with pads takes 4, NCW has 3"),
        ("aB4b:(8,4,1)", "aB2b2b:(8,4,2,1)", (2, 3), "view: every element stays in place"),
        ("NCHW", "NHWC", (0, 3, 5, 5), "view: the shape has no elements"),
        ("nchw", "NCHW", (1, 3, 5, 5), "view: the layouts are the same"),
        (
            "nc:(4,1)",
            "nC4c",
            (2, 3),
            "copy: elements stay in place, but nC4c with pads takes 8, NC:(4,1) has 7",
        ),
        (
            "a 4a b:(*,8,1)",
            "aB4b:(8,4,1)",
            (3, 3),
            "copy: elements stay in place, but pads of aB4b:(8,4,1) fall into gaps of a/4 4a b:(*,8,1)",
        ),
    ],
)
def test_reasons(src, dst, shape, reason):
    move = explain(src, dst, shape)
    assert move.reason == reason
    assert move.view == is_view(src, dst, shape) == reason.startswith("view")


def test_the_three_situations_of_paddle():
    """Framework to kernel, kernel to framework, kernel to fetch: the flag changes, or bytes move."""
    framework, blocked = Layout("NCHW"), Layout("nChw16c")
    assert not is_view(framework, blocked, (1, 32, 7, 7))
    assert is_view(framework, "abcd", (1, 32, 7, 7))  # the accelerator's plain format of this rank
    assert is_view(blocked, framework, (1, 32, 1, 1))  # compatible arrangement: only the flag changes
    assert not is_view(blocked, framework, (1, 32, 7, 7))


def test_the_certificate_says_what_overlaps_and_what_has_gaps():
    dense, gaps, overlap = "nc", "nc:(8,1)", "nc:(1,1)"
    for src, dst in ((dense, overlap), (overlap, dense)):
        assert not explain(src, dst, (2, 3)).one_to_one
    assert explain(gaps, dense, (2, 3)).one_to_one and explain(gaps, dense, (2, 3)).exhaustive
    assert not explain(dense, gaps, (2, 3)).exhaustive


def test_ranks_must_meet():
    with pytest.raises(ValueError, match="layout NCHW has 4 dimensions"):
        is_view("NCHW", "NHWC", (1, 2))
    with pytest.raises(ValueError, match="layout NC has 2 dimensions"):
        is_view("NCHW", "NC", (1, 2, 3, 4))
