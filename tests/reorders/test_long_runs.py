"""Runs of many cache lines that begin anywhere in a line, by every variant that streams, on every ISA."""

import numpy as np
import pytest
from conftest import WHOLE_ISAS, using_isa
from forced import check
from hypothesis import given
from hypothesis import strategies as st

from layoutkit.reorders.fused import TASK_BYTES
from layoutkit.reorders.variants import VARIANTS

STREAMED = sorted(name for name, variant in VARIANTS.items() if variant.stream)
PAIRS = (("ab", "ba"), ("abc", "acb"), ("abc", "cba"), ("abc", "cab"), ("abc", "bac"), ("aBc4b", "cab"),
         ("aBc6b", "acb"), ("abc", "aCb8c"), ("Abc16a", "cba"))  # fmt: skip
MOST = 60_000  # bytes


@st.composite
def reorders(draw):
    """Two layouts, a shape of which one dimension may be long, and bytes of an element."""
    src, dst = draw(st.sampled_from(PAIRS))
    width = draw(st.sampled_from((1, 2, 4, 8)))
    rank = len(dst) if dst.islower() and dst.isalpha() else len(src)
    shape = [draw(st.integers(1, 24)) for _ in range(rank)]
    long = draw(st.integers(0, rank - 1))
    others = width * int(np.prod(shape)) // shape[long]
    shape[long] = draw(st.integers(1, max(1, MOST // others)))
    return src, dst, tuple(shape), width


@pytest.mark.parametrize("isa", WHOLE_ISAS)
@given(reorders(), st.sampled_from(STREAMED), st.integers(0, 15), st.integers(1, 2), st.sampled_from(("low", "high")))
def test_any_run(isa, reorder, variant, at, threads, end):
    src, dst, shape, width = reorder
    with using_isa(isa):
        check(shape, src, dst, f"u{width}", variant, threads, end, offset=at * width)


@pytest.mark.parametrize("isa", WHOLE_ISAS)
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("at", [0, 1, 3, 4, 9, 15])
def test_transposes_of_every_phase(at, width, isa):
    """Rows of the destination begin everywhere in a line, and end there."""
    with using_isa(isa):
        for rows, columns in ((64 // width * 9 + 3, 41), (64 // width * 5, 23), (603 // width, 1024 // width)):
            for variant in ("fused x64", "fused x1024"):
                check((rows, columns), "ab", "ba", f"u{width}", variant, end="high", offset=at * width)
        check((603 // width, 600 // width), "ab", "bA8a", f"u{width}", "fused x1024", end="high", offset=at * width)


@pytest.mark.parametrize("isa", WHOLE_ISAS)
@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("rest", [8, 72, 136, 200, 264])
def test_transposes_whose_last_task_is_short(rest, width, isa):
    """Rows of the destination are two tasks, of `TASK_BYTES` and of what is left, on a thread each."""
    with using_isa(isa):
        for columns in (1, 35, 41, 150):
            check(((TASK_BYTES + rest) // width, columns), "ab", "ba", f"u{width}", "fused x1024", 2 + columns % 2)
