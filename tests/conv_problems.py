"""Hypothesis strategies for convolutions: problems of small numbers, nothing of them usual."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st
from strategies import activations

from layoutkit.convolutions.problem import ACCURACIES, ConvProblem
from layoutkit.convolutions.types import TYPES


@st.composite
def conv_problems(draw, layouts=None, kernel=(1, 4), padding=(0, 3), stride=(1, 3), dilation=(1, 3), per_group=(1, 20)):
    """A `ConvProblem` that fits; bounds are of each axis, `per_group` of input channels."""
    rank = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    def layout():
        return draw(activations(rank) if layouts is None else st.sampled_from(layouts[rank]))

    groups = draw(st.integers(1, 6))
    p = ConvProblem(
        draw(st.integers(1, 3)), groups * draw(st.integers(*per_group)), groups * draw(st.integers(1, 20)),
        each(1, 9), each(*kernel), each(*stride), tuple(zip(each(*padding), each(*padding))), each(*dilation), groups,
        layout(), layout(), draw(st.sampled_from(ACCURACIES)), draw(st.booleans()),
        draw(st.sampled_from(list(TYPES.values()))),
    )  # fmt: skip
    assume(p.fits)
    return p
