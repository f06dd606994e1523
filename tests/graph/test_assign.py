"""The least total of factors, against trying every assignment."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutkit.graph import assign
from layoutkit.graph.assign import Factor, cost, moved, solve


@st.composite
def problems(draw):
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))
    factors = []
    for _ in range(draw(st.integers(0, 10))):
        variables = tuple(draw(st.permutations(range(len(sizes))))[: draw(st.integers(1, min(3, len(sizes))))])
        shape = [sizes[v] for v in variables]
        seconds = draw(
            st.lists(st.integers(0, 9) | st.just(np.inf), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
        )
        factors.append(Factor(variables, np.array(seconds, float).reshape(shape)))
    return sizes, factors


@given(problems())
@settings(max_examples=200, deadline=None)
def test_nothing_costs_less(problem):
    sizes, factors = problem
    found = solve(sizes, factors)
    least = min(cost(values, factors) for values in itertools.product(*map(range, sizes)))
    assert found.seconds == cost(found.values, factors) == least == found.bound


@given(problems(), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_where_tables_are_too_large_the_bound_still_holds(problem, entries):
    sizes, factors = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assign, "MAX_TABLE", entries)
        found = solve(sizes, factors)
    least = min(cost(values, factors) for values in itertools.product(*map(range, sizes)))
    assert found.bound <= least <= found.seconds == cost(found.values, factors)


def test_readers_of_one_layout_share_a_reorder():
    seconds = np.array([[0.0, 1, 10], [2, 0, 20], [3, 5, 0]])
    table = moved(seconds, 2)
    assert table[0, 1, 1] == 1
    assert table[0, 1, 2] == 11
    assert table[2, 2, 2] == 0
    assert table[1, 1, 0] == 2
